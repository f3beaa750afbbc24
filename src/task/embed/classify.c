// SPDX-License-Identifier: MIT
// classify.c: computes the labels of texts, or of pairs of texts, with a classification head.
#include "task/embed/embed_internal.h"
#include "task/find_model.h"
#include <qkv/lens.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH_TOKENS = 4096, CONFIG_BYTES = 1 << 24 };

// The tokens of several texts, packed: the texts follow one another without padding.
struct batch {
    int64_t texts;
    int64_t *offsets;
    int32_t *ids, *types;
    int64_t offsets_capacity, ids_capacity, types_capacity;
};

static bool append(struct batch *b, const qkv_encoding *e)
{
    const int64_t at = b->texts ? b->offsets[b->texts] : 0, end = at + e->count;
    if (!qkv_reserve((void **)&b->offsets, &b->offsets_capacity, b->texts + 2,
                     sizeof *b->offsets) ||
        !qkv_reserve((void **)&b->ids, &b->ids_capacity, end, sizeof *b->ids) ||
        !qkv_reserve((void **)&b->types, &b->types_capacity, end, sizeof *b->types))
        return false;
    b->offsets[0] = 0;
    memcpy(b->ids + at, e->ids, (size_t)e->count * sizeof *b->ids);
    memcpy(b->types + at, e->types, (size_t)e->count * sizeof *b->types);
    b->offsets[++b->texts] = end;
    return true;
}

void qkv_label_softmax(float *p, const float *x, int64_t n)
{
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) top = fmax(top, (double)x[i]);
    for (int64_t i = 0; i < n; i++) sum += exp((double)x[i] - top);
    for (int64_t i = 0; i < n; i++) p[i] = (float)(exp((double)x[i] - top) / sum);
}

static void logistic(float *p, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) p[i] = (float)(1 / (1 + exp(-(double)x[i])));
}

// Returns true if config.json declares several labels per text (multi_label_classification), so
// that each label has a probability of its own.
static bool each_alone(const qkv_model *m)
{
    char path[QKV_PATH];
    json_t *root = NULL;
    const char *type = NULL;
    if (qkv_model_info(m).labels == 1) return true;
    if (qkv_path_join(path, qkv_model_dir(m), "config.json", NULL) ||
        qkv_json_file(&root, path, CONFIG_BYTES, NULL))
        return false; // the model was opened without a config.json
    const json_t *value = json_object_get(root, "problem_type");
    if (json_is_string(value)) type = json_string_value(value);
    const bool each = type && !strcmp(type, "multi_label_classification");
    json_decref(root);
    return each;
}

qkv_status qkv_label_probabilities(float *p, const float *scores, int64_t n, const qkv_model *m,
                                   qkv_error *err)
{
    if (!m || n < 0 || (n && (!p || !scores)))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_label_probabilities: expected a model, scores and an output array, "
                        "found NULL");
    const struct qkv_model_info info = qkv_model_info(m);
    if (!(info.can & (QKV_CAN_LABELS | QKV_CAN_TOKEN_LABELS)))
        return qkv_unfit(m, "a model with labels", err);
    const bool alone = (info.can & QKV_CAN_LABELS) && each_alone(m);
    for (int64_t i = 0; i < n; i++)
        (alone ? logistic : qkv_label_softmax)(p + i * info.labels, scores + i * info.labels,
                                               info.labels);
    return QKV_OK;
}

static qkv_status run(const qkv_model *m, struct batch *b, float *scores, qkv_error *err)
{
    const struct qkv_model_input in = {
        .sequences = b->texts, .offsets = b->offsets, .ids = b->ids, .types = b->types
    };
    const qkv_status status = b->texts ? qkv_model_classify(m, scores, &in, err) : QKV_OK;
    b->texts = 0;
    return status;
}

qkv_status qkv_classify(const qkv_model *m, const qkv_tokenizer *t, float *scores,
                        float *probabilities, const char *const *texts, const size_t *bytes,
                        const char *const *pairs, const size_t *pair_bytes, int64_t n,
                        const struct qkv_classify_options *o, qkv_error *err)
{
    static const struct qkv_classify_options plain;
    if (o && o->failed) *o->failed = -1;
    if (!m || !t || n < 0 || (n && (!scores || !texts)))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_classify: expected a model, a tokenizer, texts and an output array "
                        "for scores, found NULL");
    const struct qkv_model_info info = qkv_model_info(m);
    if (!(info.can & QKV_CAN_LABELS)) return qkv_unfit(m, "a model with labels", err);
    if (!o) o = &plain;
    const struct qkv_encode_options how = { .max_length = info.positions,
                                            .truncate = o->truncate,
                                            .strict = o->strict };
    struct batch b = { 0 };
    qkv_encoding e = { 0 };
    qkv_status status = QKV_OK;
    int64_t done = 0; // number of texts whose logits are computed
    if (o->cut) *o->cut = 0;
    for (int64_t i = 0; i < n && !status; i++) {
        const char *pair = pairs ? pairs[i] : NULL;
        status = qkv_tokenizer_encode(t, &e, texts[i], bytes ? bytes[i] : strlen(texts[i]), pair,
                                      !pair        ? 0
                                      : pair_bytes ? pair_bytes[i]
                                                   : strlen(pair),
                                      &how, err);
        if (!status && !e.count)
            status = qkv_fail(err, QKV_ERR_USAGE, NULL,
                              "text has no tokens, expected tokens to classify, found none");
        if (status && o->failed) *o->failed = i;
        if (status && err && n > 1 && !err->path[0])
            snprintf(err->path, sizeof err->path, "text %" PRId64, i + 1);
        if (status) break;
        if (o->cut) *o->cut += e.cut;
        if (b.texts && b.offsets[b.texts] + e.count > BATCH_TOKENS) {
            status = run(m, &b, scores + done * info.labels, err);
            done = i;
            if (!status && o->progress.step && o->progress.step(o->progress.user, "texts", done, n))
                status = qkv_fail(err, QKV_ERR_INTERRUPTED, NULL,
                                  "stopped after %" PRId64 " of %" PRId64 " texts", done, n);
        }
        if (!status && !append(&b, &e)) status = qkv_fail_memory(err, NULL);
    }
    if (!status) status = run(m, &b, scores + done * info.labels, err);
    if (!status && probabilities)
        status = qkv_label_probabilities(probabilities, scores, n, m, err);
    qkv_free(b.offsets);
    qkv_free(b.ids);
    qkv_free(b.types);
    qkv_encoding_free(&e);
    return status;
}
