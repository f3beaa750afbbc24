// SPDX-License-Identifier: MIT
// load.c: opens a model folder of any family for training.
//
// The names of the tensors in the folder determine whether its model has an output head for labels,
// an output head for masked tokens, or no output head.
#include "model/params/net_layers.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// The folder that is being opened, and the model into which it is read.
struct loading {
    qkv_net *n;
    const qkv_tensors *file;
    const char *dir;
    qkv_error *err;
};

static bool has_weights(const struct loading *l, const char *pattern)
{
    const struct qkv_parameter_row row = { .pattern = pattern ? pattern : "", .suffix = ".weight" };
    return pattern && qkv_row_find(l->file, "", &row);
}

// Returns true if the folder has the first layer of a head for masked tokens: its dense layer or,
// in families without one, the projection to tokens.
static bool has_masked_head(const struct loading *l)
{
    const struct qkv_end_names *ends = l->n->family->ends;
    if (ends->masked_dense) return has_weights(l, ends->masked_dense);
    return ends->logits && qkv_tensors_find(l->file, ends->logits);
}

// Determines the output head of an encoder that is trained (n->is.labels, n->masked_end), and
// n->prefix, the prefix of the tensor names in the saved model.
static qkv_status choose_head(const struct loading *l, int labels)
{
    qkv_net *n = l->n;
    const struct qkv_location at = { .file = l->dir };
    const struct qkv_end_names *ends = n->family->ends;
    n->prefix = n->family->prefix;
    if (n->is.told && (n->is.told != QKV_TOLD_TEXTS || n->is.kind != QKV_NET_ENCODER))
        return qkv_fail(l->err, QKV_ERR_UNSUPPORTED, &at,
                        "training of this output head is not supported, expected an encoder with "
                        "labels of texts, or a model without labels, found %s",
                        n->is.class_name);
    if (n->is.kind != QKV_NET_ENCODER)
        return labels > 0 ? qkv_fail(l->err, QKV_ERR_UNSUPPORTED, &at,
                                     "labels require an encoder, found a %s", n->model_type)
                          : QKV_OK;
    n->is.labels = qkv_count_labels(l->file, &n->is, n->family);
    if (labels > 0 && n->is.labels && n->is.labels != labels)
        return qkv_fail(l->err, QKV_ERR_USAGE, &at,
                        "wrong number of labels of the model, expected %d, found %" PRId64, labels,
                        n->is.labels);
    if (labels > 0) n->is.labels = labels;
    if (n->is.labels && n->is.label_pool == QKV_LABEL_LAST)
        return qkv_fail(l->err, QKV_ERR_UNSUPPORTED, &at,
                        "training of labels is not supported for a model that reads them from the "
                        "last token, expected one that reads the first or all, found a %s",
                        n->model_type);
    n->masked_end = !n->is.labels && has_masked_head(l);
    if (labels == QKV_NET_TOKENS && !n->is.labels && !n->masked_end && ends->class_tokens)
        n->masked_end = n->masked_fresh = true;
    if (!n->is.labels && !n->masked_end) n->prefix = n->folder.prefix;
    return QKV_OK;
}

// ---- numbers -----------------------------------------------------------------------------------
// Returns true if the folder may lack the tensor of a row. This is the case for a buffer, which
// then contains zeros, and for the parameters of an output head that may be new.
static bool may_be_missing(const qkv_net *n, const struct qkv_parameter_row *row)
{
    return row->buffer || row->group == QKV_PACK_LABELS ||
           (row->group == QKV_PACK_TOKENS && n->masked_fresh);
}

qkv_status qkv_net_check_rows(const qkv_net *n, const struct qkv_parameter_row *row, int64_t rows,
                              qkv_error *err)
{
    const qkv_tensors *file = n->folder.tensors;
    qkv_status status = QKV_OK;
    for (int64_t i = 0, parts; file && !status && i < rows; i += parts) {
        const struct qkv_tensor *t = NULL;
        parts = qkv_tensor_rows(&row[i], rows - i);
        if (!qkv_net_has_row(n, &row[i]) ||
            (may_be_missing(n, &row[i]) && !qkv_row_find(file, n->folder.prefix, &row[i])))
            continue;
        status =
            qkv_row_tensor(&t, file, n->folder.prefix, &row[i], parts, false, n->folder.dir, err);
    }
    return status;
}

// Copies parameter i from the numbers of a tensor that several parameters share. The parameter
// begins at row `first` of the tensor's `all` rows; in a transposed tensor, at column `first` of
// its `all` columns.
static void copy_numbers(const qkv_net *n, int64_t i, const float *numbers, int64_t first,
                         int64_t all)
{
    const struct qkv_parameter *p = &n->parameter[i];
    const int64_t N = p->shape[0], K = p->rank == 2 ? p->shape[1] : 1;
    const bool transposed = n->row[i].transposed;
    for (int64_t r = 0; r < N; r++)
        for (int64_t k = 0; k < K; k++)
            p->value[r * K + k] =
                (real)(transposed ? numbers[k * all + first + r] : numbers[(first + r) * K + k]);
}

static qkv_status load_tensors(const struct loading *l)
{
    qkv_net *n = l->n;
    for (int64_t i = 0, parts; i < n->slots; i += parts) {
        const struct qkv_tensor *t = n->slot[i].tensor;
        int64_t rows = 0, first = 0;
        parts = qkv_tensor_rows(&n->row[i], n->slots - i);
        if (n->slot[i].missing) continue;
        for (int64_t k = i; k < i + parts; k++) rows += n->row[k].rows;
        float *numbers = qkv_alloc((size_t)qkv_tensor_count(t), sizeof *numbers);
        if (!numbers) return qkv_fail_memory(l->err, l->dir);
        qkv_tensor_to_f32(numbers, t);
        for (int64_t k = i; k < i + parts; k++) {
            copy_numbers(n, k, numbers, first, rows);
            first += n->row[k].rows;
        }
        qkv_free(numbers);
    }
    return QKV_OK;
}

// ---- tensors that the model does not train -----------------------------------------------------
// Returns true if a tensor that is not trained is not saved either. Such tensors are copies of a
// tied table, masks or frequencies that can be computed, and output heads that the model no longer
// has.
static bool is_dropped(const qkv_net *n, const char *name)
{
    static const char *const tails[] = { "embed_tokens.weight", "embed_positions.weight",
                                         ".attn.bias",          ".attn.masked_bias",
                                         ".inv_freq",           "embeddings.position_ids" };
    const struct qkv_end_names *ends = n->family->ends;
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++)
        if (qkv_ends_with(name, tails[i])) return true;
    // A pooler that is not trained is saved only if the model has no output head. (A head for
    // labels that uses a pooler trains it, as its own parameter.)
    if ((n->is.labels || n->masked_end) && strstr(name, "pooler.")) return true;
    // a projection with weights of its own has a bias of its own; the tied one is saved unchanged
    if (n->masked_end && n->is.untied && ends->untied_bias && !strcmp(name, ends->logits_bias))
        return false;
    if (ends->logits && strcmp(name, ends->logits) == 0) return true;
    if (ends->logits_bias && strcmp(name, ends->logits_bias) == 0) return true;
    if (!ends->masked_dense) return false;
    const size_t head = strcspn(ends->masked_dense, "._") + 1; // "cls.", "lm_", "vocab_"
    return strncmp(name, ends->masked_dense, head) == 0;
}

static bool is_trained(const qkv_net *n, const struct qkv_tensor *t)
{
    for (int64_t i = 0; i < n->slots; i++)
        if (n->slot[i].tensor == t) return true;
    return false;
}

static bool is_float(qkv_dtype type)
{
    return type == QKV_F32 || type == QKV_F16 || type == QKV_BF16 || type == QKV_F64;
}

// Copies the tensors of the folder that are not trained, but must be saved unchanged, to the model.
static qkv_status carry_tensors(const struct loading *l)
{
    qkv_net *n = l->n;
    const bool prefixed =
        // a model with a new output head prefixes its tensor names
        strcmp(n->folder.prefix, n->prefix) != 0;
    for (int64_t i = 0; i < qkv_tensors_count(l->file); i++) {
        const struct qkv_tensor *t = qkv_tensors_at(l->file, i);
        char name[QKV_TENSOR_NAME];
        if (!is_float(t->dtype) || is_dropped(n, t->name) || is_trained(n, t)) continue;
        if (!qkv_reserve((void **)&n->carried, &n->carried_capacity, n->carried_count + 1,
                         sizeof *n->carried))
            return qkv_fail_memory(l->err, NULL);
        snprintf(name, sizeof name, "%s%s", prefixed ? n->prefix : "", t->name);
        struct qkv_tensor *to = &n->carried[n->carried_count].tensor;
        void *data = qkv_alloc(t->bytes ? t->bytes : 1, 1);
        *to = *t;
        to->name = qkv_copy_text(name, strlen(name));
        to->data = data;
        n->carried_count++;
        if (!data || !to->name) return qkv_fail_memory(l->err, NULL);
        memcpy(data, t->data, t->bytes);
    }
    return QKV_OK;
}

// Reads the folder of l->file into a model whose description is known.
static qkv_status load_folder(const struct loading *l, int labels)
{
    qkv_net *n = l->n;
    n->folder.tensors = l->file;
    n->folder.prefix = n->family->names ? qkv_tensor_prefix(l->file, n->family) : "";
    n->folder.dir = l->dir;
    qkv_find_own_words(&n->is, l->file, n->folder.prefix, n->family);
    qkv_find_own_logits(&n->is, l->file, n->folder.prefix, n->family);
    qkv_status status = choose_head(l, labels);
    if (!status) status = qkv_net_build(n, l->err);
    if (!status) status = qkv_net_allocate(n, l->err);
    if (!status) status = load_tensors(l);
    if (!status) status = carry_tensors(l);
    n->folder.tensors = NULL;
    for (int64_t i = 0; i < n->slots; i++) n->slot[i].tensor = NULL;
    return status;
}

qkv_status qkv_net_open(qkv_net **out, const char *dir, const struct qkv_net_options *o, int labels,
                        uint64_t seed, qkv_error *err)
{
    static const struct qkv_net_options plain;
    const struct qkv_location at = { .file = dir };
    qkv_tensors *file = NULL;
    *out = NULL;
    if (!o) o = &plain;
    qkv_status status = qkv_net_check_options(o, err);
    if (status) return status;
    qkv_net *n = qkv_alloc_zero(1, sizeof *n);
    if (!n) return qkv_fail_memory(err, dir);
    n->options = *o;
    status = qkv_describe_folder(&n->is, &n->family, &n->model_type, &n->config, dir, err);
    if (!status && !n->family->ends)
        status = qkv_fail(err, QKV_ERR_UNSUPPORTED, &at, "training is not supported for %s",
                          n->model_type);
    if (!status) status = qkv_tensors_open(&file, dir, NULL, err);
    if (!status) status = qkv_checkpoint_check(dir, file, err);
    if (!status)
        status =
            load_folder(&(struct loading){ .n = n, .file = file, .dir = dir, .err = err }, labels);
    qkv_tensors_close(file);
    if (status) {
        qkv_net_free(n);
        return status;
    }
    qkv_net_initialize(n, seed, true);
    *out = n;
    return QKV_OK;
}
