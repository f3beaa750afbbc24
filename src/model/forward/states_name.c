// SPDX-License-Identifier: MIT
// states_name.c: names the queries, keys and values of a layer as transformers does.
#include "model/forward/observe.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// Returns true if the q and k that an observer receives are outputs of modules: neither a norm nor
// a rotation follows. Cross-attention never has these.
static bool bare(const struct qkv_description *d, enum qkv_attention_part part)
{
    return part == QKV_PART_CROSS ||
           (d->position != QKV_POSITION_ROTARY && !d->norm_q && !d->norm_k);
}

// Returns the names of the modules that compute q, k and v in one part of the model.
static struct qkv_module_names modules_of(const struct qkv_model *m, enum qkv_attention_part part)
{
    const struct qkv_names *names = m->family->names;
    if (names->decoder && (part >= QKV_PART_DECODER || m->is.kind == QKV_NET_DECODER))
        names = names->decoder;
    const struct qkv_heads_names *heads = part == QKV_PART_CROSS ? &names->cross : &names->heads;
    if (names->modules.q) return names->modules;
    return (struct qkv_module_names){ heads->q, heads->k, heads->v };
}

// Returns true if other layers have the weights of this layer: one module computes all of them.
static bool is_shared(const struct qkv_description *d, int64_t layer)
{
    const int64_t next = layer + d->shared.inner;
    return d->shared.groups &&
           (qkv_layer_call(d, layer) || (next < d->size.layers && qkv_layer_call(d, next)));
}

char *qkv_model_states_name(char *out, size_t size, const qkv_model *m,
                            enum qkv_attention_part part, int64_t layer, char which)
{
    char name[QKV_TENSOR_NAME];
    if (!out || !size) return out;
    out[0] = 0;
    if (!m || !which || !strchr("qkv", which) || layer < 0 || layer >= qkv_part_layers(m, part))
        return out;
    const struct qkv_module_names each = modules_of(m, part);
    char call[32] = "";
    if (is_shared(&m->is, layer))
        snprintf(call, sizeof call, ".call.%" PRId64, qkv_layer_call(&m->is, layer));
    const char *module = which == 'q' ? each.q : which == 'k' ? each.k : each.v;
    const bool one = !strcmp(each.q, each.v); // one module computes q, k and v
    qkv_tensor_name(name, "", module, qkv_layer_number(&m->is, layer), "");
    if (!one && (which == 'v' || bare(&m->is, part))) {
        snprintf(out, size, "%s%s", name, call);
        return out;
    }
    char *dot = strrchr(name, '.'); // after the name of the module that computes the attention
    if (dot) *dot = 0;
    snprintf(out, size, "%s.%s_states%s", name,
             which == 'q'   ? "query"
             : which == 'k' ? "key"
                            : "value",
             call);
    return out;
}
