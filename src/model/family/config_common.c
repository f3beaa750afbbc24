// SPDX-License-Identifier: MIT
// config_common.c: reads and writes the keys of config.json that have the same meaning in every
// family.
#include "model/family/description.h"
#include <inttypes.h>

static const struct {
    const char *name;
    enum qkv_activation act;
} activations[] = {
    { "gelu", QKV_ACT_GELU },           { "gelu_new", QKV_ACT_GELU_TANH },
    { "gelu_fast", QKV_ACT_GELU_TANH }, { "gelu_pytorch_tanh", QKV_ACT_GELU_TANH },
    { "relu", QKV_ACT_RELU },           { "silu", QKV_ACT_SILU },
    { "swish", QKV_ACT_SILU },          { "tanh", QKV_ACT_TANH },
    { "linear", QKV_ACT_NONE },         { "quick_gelu", QKV_ACT_QUICK_GELU },
    { "relu2", QKV_ACT_RELU2 },         { "relu6", QKV_ACT_RELU6 },
    { "mish", QKV_ACT_MISH },           { "gelu_python", QKV_ACT_GELU },
};
enum { ACTIVATIONS = sizeof activations / sizeof activations[0] };

bool qkv_describe_activation(struct qkv_description *d, const struct qkv_config *c, const char *key)
{
    const char *names[ACTIVATIONS + 1] = { NULL };
    int at = 0;
    for (int i = 0; i < ACTIVATIONS; i++) names[i] = activations[i].name;
    if (!qkv_config_choice(c, key, false, &at, names)) return false;
    // If the key is absent, keeps the default that the family has set. (Other families get "gelu",
    // the first row.)
    if (!json_is_string(json_object_get(c->root, key)) && d->act) return true;
    d->act = activations[at].act;
    return true;
}

const char *qkv_activation_name(enum qkv_activation act)
{
    for (int i = 0; i < ACTIVATIONS; i++)
        if (activations[i].act == act) return activations[i].name;
    return "linear";
}

static void describe_stops(struct qkv_description *d, const json_t *ids)
{
    for (size_t i = 0; i < json_array_size(ids) && d->stops < QKV_STOPS_MAX; i++) {
        const json_t *one = json_array_get(ids, i);
        const int64_t id = json_is_integer(one) ? json_integer_value(one) : -1;
        if (id >= 0 && id < qkv_described_vocab(d)) d->stop[d->stops++] = id;
    }
}

bool qkv_describe_tokens(struct qkv_description *d, const struct qkv_config *c)
{
    const struct {
        const char *key;
        int64_t *out;
    } rows[] = { { "bos_token_id", &d->bos },
                 { "eos_token_id", &d->eos },
                 { "mask_token_id", &d->mask },
                 { "decoder_start_token_id", &d->start },
                 { "forced_bos_token_id", &d->forced } };
    const int64_t V = qkv_described_vocab(d);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const json_t *value = json_object_get(c->root, rows[i].key);
        // several ids: the first one becomes the value; all ids of eos_token_id end a text
        if (json_is_array(value)) {
            const json_t *first = json_array_get(value, 0);
            const int64_t id = json_is_integer(first) ? json_integer_value(first) : -1;
            if (id >= 0 && id < V) *rows[i].out = id;
            if (rows[i].out == &d->eos) describe_stops(d, value);
            continue;
        }
        if (!qkv_config_int(c, rows[i].key, false, rows[i].out, -1, INT64_MAX)) return false;
        // An id outside of the vocabulary, as in a small model that was made from a large one,
        // counts as absent.
        if (*rows[i].out >= V) *rows[i].out = -1;
    }
    return true;
}

bool qkv_put_int(json_t *to, const char *key, int64_t value)
{
    return json_object_set_new(to, key, json_integer((json_int_t)value)) == 0;
}

bool qkv_put_real(json_t *to, const char *key, double value)
{
    return json_object_set_new(to, key, json_real(value)) == 0;
}

bool qkv_put_text(json_t *to, const char *key, const char *value)
{
    return json_object_set_new(to, key, json_string(value)) == 0;
}

bool qkv_put_flag(json_t *to, const char *key, bool value)
{
    return json_object_set_new(to, key, json_boolean(value)) == 0;
}

bool qkv_put_sizes(json_t *to, const struct qkv_config_keys *k, const struct qkv_config_sizes *s)
{
    const struct {
        const char *key;
        int64_t value;
    } rows[] = { { k->width, s->width },        { k->inner, s->inner },
                 { k->layers, s->layers },      { k->heads, s->heads },
                 { k->kv_heads, s->kv_heads },  { k->vocab, s->vocab },
                 { k->positions, s->positions } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].key && !qkv_put_int(to, rows[i].key, rows[i].value)) return false;
    if (k->types && s->types && !qkv_put_int(to, k->types, s->types)) return false;
    return !k->eps || qkv_put_real(to, k->eps, s->eps);
}

// ---- choices of qkv's own families -------------------------------------------------------------
static const char *const norms[] = { "post", "pre", "both", NULL };
static const char *const norm_kinds[] = { "layer", "rms", NULL };
static const char *const positions[] = { "learned", "sinusoidal",  "none",
                                         "rotary",  "sines-first", NULL };

// where the feed-forward networks are: one in each layer; one after all layers of a stack; the same,
// without residual connection and norms
static const char *const places[] = { "each", "once", "bare", NULL };

bool qkv_describe_choices(struct qkv_description *d, const struct qkv_config *c)
{
    int norm = d->norm, kind = d->norm_kind, position = d->position;
    int place = d->mlp_once + d->mlp_bare;
    bool tied = !d->untied;
    if (!qkv_describe_activation(d, c, "hidden_act") ||
        !qkv_config_choice(c, "norm", false, &norm, norms) ||
        !qkv_config_choice(c, "norm_kind", false, &kind, norm_kinds) ||
        !qkv_config_choice(c, "positions", false, &position, positions) ||
        !qkv_config_choice(c, "feed_forward", false, &place, places) ||
        !qkv_config_flag(c, "gated", false, &d->gated) ||
        !qkv_config_flag(c, "bias", false, &d->bias) ||
        !qkv_config_flag(c, "embedding_norm", false, &d->embedding_norm) ||
        !qkv_config_flag(c, "tie_word_embeddings", false, &tied) ||
        !qkv_config_real(c, "rope_theta", false, &d->theta, 1e-3, 1e12) ||
        !qkv_config_real(c, "embedding_scale", false, &d->embed_scale, 1e-6, 1e6) ||
        !qkv_config_int(c, "head_dim", false, &d->d_k, 1, QKV_WIDTH_MAX) ||
        !qkv_config_int(c, "value_head_dim", false, &d->d_v, 1, QKV_WIDTH_MAX))
        return false;
    d->norm = (enum qkv_norm_place)norm;
    d->norm_kind = (enum qkv_norm_kind)kind;
    d->position = (enum qkv_position_kind)position;
    d->untied = !tied;
    d->mlp_once = place >= 1;
    d->mlp_bare = place == 2;
    d->final_norm = d->norm == QKV_NORM_PRE;
    if (!qkv_config_flag(c, "final_norm", false, &d->final_norm)) return false;
    if ((!d->d_k || !d->d_v) && d->size.width % d->size.heads)
        return qkv_config_refuse(
            c, QKV_ERR_FORMAT, "num_attention_heads",
            "number of heads does not divide the width, expected a divisor of %" PRId64
            ", or head_dim and value_head_dim, found %" PRId64,
            d->size.width, d->size.heads);
    if (d->position == QKV_POSITION_ROTARY && qkv_head_keys(d) % 2)
        return qkv_config_refuse(c, QKV_ERR_FORMAT, "head_dim",
                                 "rotary positions require pairs of dimensions, expected an even "
                                 "head width, found %" PRId64,
                                 qkv_head_keys(d));
    return qkv_describe_tokens(d, c);
}

bool qkv_put_choices(json_t *to, const struct qkv_description *d)
{
    return qkv_put_text(to, "hidden_act", qkv_activation_name(d->act)) &&
           qkv_put_text(to, "norm", norms[d->norm]) &&
           qkv_put_text(to, "norm_kind", norm_kinds[d->norm_kind]) &&
           qkv_put_text(to, "positions", positions[d->position]) &&
           qkv_put_text(to, "feed_forward", places[d->mlp_once + d->mlp_bare]) &&
           qkv_put_flag(to, "gated", d->gated) && qkv_put_flag(to, "bias", d->bias) &&
           qkv_put_flag(to, "embedding_norm", d->embedding_norm) &&
           qkv_put_flag(to, "final_norm", d->final_norm) &&
           qkv_put_flag(to, "tie_word_embeddings", !d->untied) &&
           (!d->theta || qkv_put_real(to, "rope_theta", d->theta)) &&
           (!d->embed_scale || qkv_put_real(to, "embedding_scale", d->embed_scale)) &&
           qkv_put_int(to, "head_dim", qkv_head_keys(d)) &&
           qkv_put_int(to, "value_head_dim", qkv_head_values(d));
}
