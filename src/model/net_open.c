// SPDX-License-Identifier: MIT
// net_open.c: a net from a folder: any family that loads, for training that goes on and for
// evaluation.
//
// What the folder ends with is told by its tensors: a head for labels, a head for masked tokens,
// neither.
#include "model/net_body.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static qkv_status fail(const char *dir, qkv_error *err, qkv_status status, const char *name,
                       const char *text, const char *want, const char *found)
{
    return qkv_fail(err, status, &(struct qkv_place){ .file = dir, .path = name },
                    "%s, expected %s, found %s", text, want, found);
}

// A weight's tensor.  Names have the prefix of a model with a head; the file may have been written
// without.
static const struct qkv_tensor *find(const qkv_net *n, const qkv_tensors *file, const char *name)
{
    const size_t prefix = strlen(n->family->prefix);
    const struct qkv_tensor *t = qkv_tensor_named(file, name);
    if (!t && prefix && strncmp(name, n->family->prefix, prefix) == 0)
        t = qkv_tensor_named(file, name + prefix);
    return t;
}

static const struct qkv_tensor *end_tensor(const qkv_net *n, const qkv_tensors *file,
                                           const char *stem)
{
    char name[QKV_TENSOR_NAME];
    if (!stem) return NULL;
    qkv_tensor_name(name, "", stem, 0, ".weight");
    return find(n, file, name);
}

// What stands behind the stack: sets labels, masked_end and the prefix that goes with them.
static qkv_status find_ends(qkv_net *n, const qkv_tensors *file, const char *dir, int labels,
                            qkv_error *err)
{
    const struct qkv_end_names *ends = n->family->ends;
    n->prefix = n->family->prefix;
    if (n->is.kind != QKV_NET_ENCODER)
        return labels > 0 ? qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_place){ .file = dir },
                                     "labels need an encoder, found a %s", n->model_type)
                          : QKV_OK;
    const struct qkv_tensor *out = end_tensor(n, file, ends->classify_out);
    if (out && out->rank == 2) n->is.labels = out->shape[0];
    if (labels > 0 && n->is.labels && n->is.labels != labels)
        return qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_place){ .file = dir },
                        "labels of the model, expected %d, found %" PRId64, labels, n->is.labels);
    if (labels > 0) n->is.labels = labels;
    n->masked_end = !n->is.labels && end_tensor(n, file, ends->masked_dense);
    if (labels == QKV_NET_TOKENS && !n->is.labels && !n->masked_end && ends->masked_dense)
        n->masked_end = n->masked_fresh = true;
    if (!n->is.labels && !n->masked_end) n->prefix = qkv_tensor_prefix(file, n->family);
    return QKV_OK;
}

// ---- numbers -----------------------------------------------------------------------------------
// Part of tensor t that is parameter p: rows (transposed: columns) from `at`.
static void spread(const struct qkv_parameter *p, const struct qkv_net_slot *slot,
                   const float *numbers, int64_t at, int64_t all)
{
    const int64_t N = p->shape[0], K = p->rank == 2 ? p->shape[1] : 1;
    for (int64_t i = 0; i < N; i++)
        for (int64_t k = 0; k < K; k++)
            p->value[i * K + k] =
                (real)(slot->transposed ? numbers[k * all + at + i] : numbers[(at + i) * K + k]);
}

static bool is_float(qkv_dtype type)
{
    return type == QKV_F32 || type == QKV_F16 || type == QKV_BF16 || type == QKV_F64;
}

// Whether tensor t can be parameters i .. i+parts-1.
static qkv_status check(const qkv_net *n, const struct qkv_tensor *t, int64_t i, int64_t parts,
                        const char *dir, qkv_error *err)
{
    const struct qkv_parameter *p = &n->parameter[i];
    const struct qkv_net_slot *slot = &n->slot[i];
    char want[160], found[160];
    int64_t rows = 0;
    for (int64_t k = 0; k < parts; k++) rows += p[k].shape[0];
    const int64_t shape[2] = { slot->transposed ? p->shape[1] : rows,
                               slot->transposed ? rows : p->shape[1] };
    const int rank = p->rank;
    qkv_shape_text(want, shape, rank);
    if (!t) return fail(dir, err, QKV_ERR_FORMAT, p->name, "no tensor of this name", want, "none");
    qkv_shape_text(found, t->shape, t->rank);
    if (t->rank != rank || t->shape[0] != shape[0] || (rank == 2 && t->shape[1] != shape[1]))
        return fail(dir, err, QKV_ERR_FORMAT, p->name, "shape differs from config.json", want,
                    found);
    if (!is_float(t->dtype))
        return fail(dir, err, QKV_ERR_UNSUPPORTED, p->name, "weights of this type",
                    "F32, F16, BF16 or F64", qkv_dtype_name(t->dtype));
    return QKV_OK;
}

static qkv_status load(qkv_net *n, const struct qkv_tensor *t, int64_t i, int64_t parts,
                       const char *dir, qkv_error *err)
{
    const struct qkv_parameter *p = &n->parameter[i];
    const struct qkv_net_slot *slot = &n->slot[i];
    int64_t rows = 0, at = 0;
    for (int64_t k = 0; k < parts; k++) rows += p[k].shape[0];
    float *numbers = qkv_alloc((size_t)qkv_tensor_count(t), sizeof *numbers);
    if (!numbers) return qkv_fail_memory(err, dir);
    qkv_tensor_to_f32(numbers, t);
    for (int64_t k = 0; k < parts; k++) {
        spread(&p[k], &slot[k], numbers, at, rows);
        at += p[k].shape[0];
    }
    qkv_free(numbers);
    return QKV_OK;
}

// ---- what the net does not know ----------------------------------------------------------------
static bool ends_with(const char *name, const char *tail)
{
    const size_t n = strlen(name), t = strlen(tail);
    return n >= t && strcmp(name + n - t, tail) == 0;
}

// Tables that others are tied to, masks and frequencies that are made anew, heads that are no more.
static bool passed_over(const qkv_net *n, const char *name)
{
    static const char *const tails[] = { "embed_tokens.weight", "embed_positions.weight",
                                         ".attn.bias",          ".attn.masked_bias",
                                         ".inv_freq",           "embeddings.position_ids" };
    const struct qkv_end_names *ends = n->family->ends;
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++)
        if (ends_with(name, tails[i])) return true;
    // A pooler belongs to the stack alone; a head for labels that reads one has it among its
    // weights.
    if ((n->is.labels || n->masked_end) && strstr(name, "pooler.")) return true;
    if (ends->logits && strcmp(name, ends->logits) == 0) return true;
    if (ends->logits_bias && strcmp(name, ends->logits_bias) == 0) return true;
    if (!ends->masked_dense) return false;
    const size_t head = strcspn(ends->masked_dense, "._") + 1; // "cls.", "lm_", "vocab_"
    return strncmp(name, ends->masked_dense, head) == 0;
}

static bool known(const qkv_net *n, const qkv_tensors *file, const struct qkv_tensor *t)
{
    for (int64_t i = 0; i < n->parameters; i++)
        if (find(n, file, n->parameter[i].name) == t) return true;
    return false;
}

static qkv_status carry(qkv_net *n, const qkv_tensors *file, qkv_error *err)
{
    const char *from = n->family->names ? qkv_tensor_prefix(file, n->family) : "";
    const bool prefixed = strcmp(from, n->prefix) != 0; // names of the body change with a new head
    for (int64_t i = 0; i < qkv_tensors_count(file); i++) {
        const struct qkv_tensor *t = qkv_tensors_at(file, i);
        char name[QKV_TENSOR_NAME];
        if (!is_float(t->dtype) || passed_over(n, t->name) || known(n, file, t)) continue;
        if (!qkv_reserve((void **)&n->carried, &n->carried_room, n->carried_count + 1,
                         sizeof *n->carried))
            return qkv_fail_memory(err, NULL);
        snprintf(name, sizeof name, "%s%s", prefixed ? n->prefix : "", t->name);
        struct qkv_tensor *to = &n->carried[n->carried_count].tensor;
        void *data = qkv_alloc(t->bytes ? t->bytes : 1, 1);
        *to = *t;
        to->name = qkv_copy_text(name, strlen(name));
        to->data = data;
        n->carried_count++;
        if (!data || !to->name) return qkv_fail_memory(err, NULL);
        memcpy(data, t->data, t->bytes);
    }
    return QKV_OK;
}

static qkv_status load_fixed_bias(qkv_net *n, const qkv_tensors *file, const char *dir,
                                  qkv_error *err)
{
    struct qkv_net_body *body = n->methods == &qkv_net_transformer ? n->body : NULL;
    if (!body || !body->logits_bias_fixed) return QKV_OK;
    const struct qkv_tensor *t = qkv_tensor_named(file, n->family->ends->logits_bias);
    if (!t) return QKV_OK; // it is 0
    const int64_t V = n->shape.vocab;
    if (t->rank != 2 || t->shape[0] != 1 || t->shape[1] != V || !is_float(t->dtype))
        return fail(dir, err, QKV_ERR_FORMAT, t->name, "bias of the tokens",
                    "one row as long as the vocabulary", "another shape or type");
    float *numbers = qkv_alloc((size_t)V, sizeof *numbers);
    if (!numbers) return qkv_fail_memory(err, dir);
    qkv_tensor_to_f32(numbers, t);
    for (int64_t i = 0; i < V; i++) body->logits_bias_fixed[i] = (real)numbers[i];
    qkv_free(numbers);
    return QKV_OK;
}

// Every weight: checked (before memory is taken for what a config.json asks for), or read.
static qkv_status each(qkv_net *n, const qkv_tensors *file, bool read, const char *dir,
                       qkv_error *err)
{
    qkv_status s = QKV_OK;
    for (int64_t i = 0, parts; !s && i < n->parameters; i += parts) {
        const struct qkv_tensor *t = find(n, file, n->parameter[i].name);
        for (parts = 1; i + parts < n->parameters && n->slot[i + parts].joined;) parts++;
        n->slot[i].missing = !t && n->slot[i].optional;
        if (n->slot[i].missing) continue;
        s = read ? load(n, t, i, parts, dir, err) : check(n, t, i, parts, dir, err);
    }
    return s;
}

// What of a description training does not compute, in words; NULL: nothing.
static const char *cannot(const struct qkv_description *d)
{
    const struct {
        bool has;
        const char *what;
    } rows[] = {
        { d->rope.kind != QKV_ROPE_PLAIN || (d->rotated > 0 && d->rotated < 1) ||
              d->theta_local > 0,
          "rotations that are stretched, of a part of a head or of two bases" },
        { d->relative.buckets > 0, "relative positions" },
        { d->position_offset > 0, "a table of positions with rows before the first" },
        { d->attention_scale > 0 || d->softcap > 0, "scores with a scale or a cap of their own" },
        { d->logit_scale > 0 || d->logit_softcap > 0, "logits with a scale or a cap" },
        { d->norm_q || d->norm_k, "norms of queries and keys" },
        { d->norm_offset > 0 || d->norm_unbiased || d->first_norm_missing ||
              d->norm == QKV_NORM_INSIDE,
          "norms of this kind" },
        { !d->bias && d->biases, "biases of some layers" },
        { d->decoder_vocab > 0, "a table of tokens for each side" },
        { d->label_pool != QKV_LABEL_FIRST, "labels of another row than the first" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].has) return rows[i].what;
    for (size_t i = 0; i < sizeof d->local / sizeof d->local[0]; i++)
        if (d->local[i]) return "layers with a window";
    return NULL;
}

qkv_status qkv_net_can(const struct qkv_description *d, const char *model_type, const char *dir,
                       qkv_error *err)
{
    const char *what = cannot(d);
    return what ? qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_place){ .file = dir },
                           "training a %s with %s is not here", model_type, what)
                : QKV_OK;
}

qkv_status qkv_net_open(qkv_net **out, const char *dir, const struct qkv_net_options *o, int labels,
                        uint64_t seed, qkv_error *err)
{
    static const struct qkv_net_options plain;
    qkv_tensors *file = NULL;
    *out = NULL;
    if (!o) o = &plain;
    qkv_status s = qkv_net_check_options(o, err);
    if (s) return s;
    qkv_net *n = qkv_alloc_zero(1, sizeof *n);
    if (!n) return qkv_fail_memory(err, dir);
    n->options = *o;
    s = qkv_describe_folder(&n->is, &n->family, &n->model_type, &n->config, dir, err);
    if (!s && !n->family->ends)
        s = qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_place){ .file = dir },
                     "training a %s is not here", n->model_type);
    if (!s) s = qkv_net_can(&n->is, n->model_type, dir, err);
    if (!s) s = qkv_tensors_open(&file, dir, NULL, err);
    if (!s) s = find_ends(n, file, dir, labels, err);
    if (!s) s = qkv_net_build(n, err);
    if (!s) s = each(n, file, false, dir, err);
    if (!s) s = qkv_net_allocate(n, err);
    if (!s) s = each(n, file, true, dir, err);
    if (!s) s = load_fixed_bias(n, file, dir, err);
    if (!s) s = carry(n, file, err);
    qkv_tensors_close(file);
    if (s) {
        qkv_net_free(n);
        return s;
    }
    qkv_net_begin(n, seed, true);
    *out = n;
    return QKV_OK;
}
