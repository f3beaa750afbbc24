// SPDX-License-Identifier: MIT
// output_heads.c: computes the logits of tokens and of labels, of texts or of tokens, from hidden
// states x, with the weights W and bias b of the output projection.
//
//   labels:  logits = W x' + b
//   tokens:  logits = cap(scale W x' + b),  cap(s) = c tanh(s / c) if the model has a softcap c
//   x' = norm(act(dense x)) if the head has these layers, otherwise x' = x
#include "model/forward/stream.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

qkv_status qkv_tokens_ready(const struct qkv_model *m, qkv_error *err)
{
    if (!m->tokens.out.K)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED,
                        &(struct qkv_location){ .file = m->dir, .path = m->lacks },
                        "model has no output head for tokens, expected this tensor, found none");
    const qkv_status status = qkv_model_pack((struct qkv_model *)m, QKV_PACK_TOKENS);
    return status ? qkv_fail_memory(err, m->dir) : QKV_OK;
}

// Computes y[R][N] = norm(act(dense x)), where N is the output width of the dense layer.
static void end_rows(float *y, const float *x, int64_t R, const struct qkv_end *end,
                     enum qkv_activation act, enum qkv_norm_kind kind)
{
    qkv_linear_forward((void *[]){ y }, NULL, x, R, &end->dense, &(struct qkv_after){ .act = act });
    if (end->norm.D) qkv_norm_kind_forward(y, 0, NULL, y, R, &end->norm, kind);
}

// Replaces each of n logits x by c tanh(x / c); each task of a parallel loop computes one block.
enum { CAP_BLOCK = 4096 };
struct cap {
    float *at;
    int64_t n;
    float c;
};

static void cap_block(void *ctx, int64_t i, int thread)
{
    const struct cap *j = ctx;
    (void)thread;
    for (int64_t k = i * CAP_BLOCK; k < j->n && k < (i + 1) * CAP_BLOCK; k++)
        j->at[k] = j->c * tanhf(j->at[k] / j->c);
}

void qkv_tokens_forward(float *logits, const float *hidden, float *spare, int64_t R,
                        const struct qkv_model *m)
{
    const struct qkv_description *d = &m->is;
    const int64_t n = R * m->tokens.out.part[0].N;
    if (m->tokens.dense.K) {
        end_rows(spare, hidden, R, &m->tokens, d->masked_act, d->norm_kind);
        hidden = spare;
    }
    qkv_linear_forward((void *[]){ logits }, NULL, hidden, R, &m->tokens.out,
                       &(struct qkv_after){ .scale = (float)d->logit_scale });
    if (d->logit_softcap > 0) {
        struct cap job = { logits, n, (float)d->logit_softcap };
        qkv_parallel_for(qkv_ceil_div(n, CAP_BLOCK), cap_block, &job);
    }
}

qkv_status qkv_model_logits(const qkv_model *m, float *logits, const float *hidden, int64_t R,
                            qkv_error *err)
{
    if (!m || R < 0 || (R && (!logits || !hidden)))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_model_logits: expected a model, logits and rows, found NULL");
    qkv_status status = qkv_tokens_ready(m, err);
    if (status || !R) return status;
    struct qkv_workspace *memory = NULL;
    if (m->tokens.dense.K) {
        const size_t row = (size_t)m->tokens.dense.part[0].N * sizeof(float);
        size_t bytes;
        if (qkv_mul_size(&bytes, (size_t)R, row))
            memory = qkv_workspace_acquire(&((struct qkv_model *)m)->workspaces, bytes);
        if (!memory) return qkv_fail_memory(err, NULL);
    }
    qkv_tokens_forward(logits, hidden, memory ? memory->bytes : NULL, R, m);
    qkv_workspace_release(&((struct qkv_model *)m)->workspaces, memory);
    return QKV_OK;
}

// ---- labels ------------------------------------------------------------------------------------
// Returns the index of the last of ids[n] that is not the padding token; 0: there is none.
static int64_t last_token(const int32_t *ids, int64_t n, int64_t pad)
{
    int64_t last = n - 1;
    while (last > 0 && ids[last] == pad) last--;
    return last;
}

// Returns the number of tokens of a text up to the row that the head for labels reads, which is the
// last one; 0: the text has no end token.
static int64_t rows_read(const struct qkv_model *m, const int32_t *ids, int64_t n)
{
    if (m->is.label_pool == QKV_LABEL_LAST) return last_token(ids, n, m->is.size.pad) + 1;
    while (m->is.label_pool == QKV_LABEL_END && n > 0 && ids[n - 1] != m->is.eos) n--;
    return n;
}

// Runs an encoder-decoder: the encoder on the texts, the decoder on the same tokens after its first
// token.
static qkv_status run_shifted(const struct qkv_model *m, float *hidden,
                              const struct qkv_model_input *in, qkv_error *err)
{
    const int64_t R = in->offsets[in->sequences];
    const int64_t start = m->is.start >= 0 ? m->is.start : m->is.bos;
    struct qkv_model_input source = *in, shifted = *in;
    int32_t *ids = qkv_alloc((size_t)qkv_max64(R, 1), sizeof *ids);
    if (!ids) return qkv_fail_memory(err, NULL);
    for (int64_t i = 0; i < in->sequences; i++) {
        const int64_t first = in->offsets[i], end = in->offsets[i + 1];
        if (end > first) ids[first] = (int32_t)start;
        for (int64_t r = first + 1; r < end; r++) ids[r] = in->ids[r - 1];
    }
    source.source = NULL;
    shifted.ids = ids;
    shifted.types = NULL;
    shifted.source = &source;
    const qkv_status status = qkv_model_run(m, hidden, &shifted, NULL, err);
    qkv_free(ids);
    return status;
}

// Writes v[D], what the head for labels, or its last layer, reads: row 0 of rows[n][D], row n - 1,
// or the mean of all rows.
static void pool(float *v, const float *rows, int64_t n, int64_t D, enum qkv_label_pool how)
{
    if (how == QKV_LABEL_MEAN || how == QKV_LABEL_LATE) {
        memset(v, 0, (size_t)D * sizeof *v);
        for (int64_t r = 0; r < n; r++)
            for (int64_t i = 0; i < D; i++) v[i] += rows[r * D + i];
        for (int64_t i = 0; i < D; i++) v[i] /= (float)n;
        return;
    }
    memcpy(v, rows + (how == QKV_LABEL_FIRST ? 0 : (n - 1) * D), (size_t)D * sizeof *v);
}

static qkv_status fail_offsets(qkv_error *err)
{
    return qkv_fail(err, QKV_ERR_USAGE, NULL,
                    "invalid offsets of sequences, expected ascending numbers from 0");
}

// Checks that the model has an output head for labels, of tokens if `each` is true, else of texts,
// and that the input has offsets.
static qkv_status check_labels(const qkv_model *m, const struct qkv_model_input *in, bool each,
                               qkv_error *err)
{
    static const char *const kinds[] = { "labels", "labels of tokens" };
    const struct qkv_description *d = &m->is;
    const bool has_each = d->label_pool == QKV_LABEL_EACH;
    if (!m->labels.out.K || each != has_each) {
        char tensor[QKV_TENSOR_NAME] = "";
        const char *name = each == has_each ? qkv_labels_name(d, m->family) : NULL;
        if (name) qkv_tensor_name(tensor, "", name, (struct qkv_layer_number){ 0, 0 }, ".weight");
        const struct qkv_location at = { .file = m->dir, .path = tensor };
        if (d->told && !(each ? d->told == QKV_TOLD_TOKENS : d->told == QKV_TOLD_TEXTS))
            return qkv_fail(err, QKV_ERR_UNSUPPORTED, &at,
                            "model has no output head for %s, expected such a class in "
                            "\"architectures\" of config.json, found %s",
                            kinds[each], d->class_name);
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, &at,
                        "model has no output head for %s, expected this tensor, found none",
                        kinds[each]);
    }
    if (in->sequences < 0 || !in->offsets || in->offsets[in->sequences] < 0)
        return fail_offsets(err);
    return QKV_OK;
}

// Checks that each sequence has tokens, and an end token if the head reads its row. Lengths beyond
// a sequence are left to qkv_model_run, which refuses them: no id is read here.
static qkv_status check_filled(const qkv_model *m, const struct qkv_model_input *in, qkv_error *err)
{
    const int64_t all = in->offsets[in->sequences];
    for (int64_t i = 0; i < in->sequences; i++) {
        const int64_t first = in->offsets[i], end = in->offsets[i + 1];
        if (first < 0 || end < first || end > all) return fail_offsets(err);
        const int64_t n = in->lengths ? in->lengths[i] : end - first;
        if (n < 1)
            return qkv_fail(
                err, QKV_ERR_USAGE, NULL,
                "sequence %" PRId64 " is empty, expected tokens to classify, found none", i);
        if (in->ids && n <= end - first && rows_read(m, in->ids + first, n) < 1)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "sequence %" PRId64 " has no end token, expected the id %" PRId64, i,
                            m->is.eos);
    }
    return QKV_OK;
}

qkv_status qkv_model_classify(const qkv_model *m, float *scores, const struct qkv_model_input *in,
                              qkv_error *err)
{
    if (!m || !in || (in->sequences > 0 && !scores))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_model_classify: expected a model, scores and input, found NULL");
    qkv_status status = check_labels(m, in, false, err);
    if (!status) status = check_filled(m, in, err);
    if (status || !in->sequences) return status;
    const int64_t D = m->is.size.width, n = in->sequences, all = in->offsets[n];
    const bool late = m->is.label_pool == QKV_LABEL_LATE;
    float *hidden = qkv_alloc((size_t)qkv_max64(all, 1), (size_t)D * (1 + late) * sizeof *hidden);
    float *rows = qkv_alloc((size_t)n, (size_t)D * 2 * sizeof *rows), *read = rows;
    if (!hidden || !rows || qkv_model_pack((struct qkv_model *)m, QKV_PACK_LABELS))
        status = qkv_fail_memory(err, NULL);
    if (!status && m->is.label_pool == QKV_LABEL_END)
        status = run_shifted(m, hidden, in, err);
    else if (!status)
        status = qkv_model_run(m, hidden, in, NULL, err);
    if (status) goto done;
    const float *from = hidden;
    if (late) {
        end_rows(hidden + all * D, hidden, all, &m->labels, m->is.classify_act, m->is.norm_kind);
        from = hidden + all * D;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t first = in->offsets[i];
        const int64_t n_i = in->lengths ? in->lengths[i] : in->offsets[i + 1] - first;
        const int64_t count = rows_read(m, in->ids + first, n_i);
        pool(rows + i * D, from + first * D, count, D, m->is.label_pool);
    }
    if (m->labels.dense.K && !late) {
        end_rows(rows + n * D, rows, n, &m->labels, m->is.classify_act, m->is.norm_kind);
        read = rows + n * D;
    }
    qkv_linear_forward((void *[]){ scores }, NULL, read, n, &m->labels.out, NULL);
done:
    qkv_free(hidden);
    qkv_free(rows);
    return status;
}

qkv_status qkv_model_classify_tokens(const qkv_model *m, float *scores,
                                     const struct qkv_model_input *in, qkv_error *err)
{
    if (!m || !in)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_model_classify_tokens: expected a model and input, found NULL");
    qkv_status status = check_labels(m, in, true, err);
    const int64_t R = status || !in->sequences ? 0 : in->offsets[in->sequences];
    if (status || !R) return status;
    if (!scores)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_model_classify_tokens: expected an array for scores, found NULL");
    const int64_t D = m->is.size.width, N = m->is.labels;
    const bool dense = m->labels.dense.K > 0;
    float *hidden = qkv_alloc((size_t)R, (size_t)D * (1 + dense) * sizeof *hidden), *read = hidden;
    if (!hidden || qkv_model_pack((struct qkv_model *)m, QKV_PACK_LABELS))
        status = qkv_fail_memory(err, NULL);
    if (!status) status = qkv_model_run(m, hidden, in, NULL, err);
    if (status) goto done;
    if (dense) {
        read = hidden + R * D;
        end_rows(read, hidden, R, &m->labels, m->is.classify_act, m->is.norm_kind);
    }
    qkv_linear_forward((void *[]){ scores }, NULL, read, R, &m->labels.out, NULL);
    for (int64_t i = 0; i < in->sequences && in->lengths; i++) {
        const int64_t end = in->offsets[i + 1], first = in->offsets[i] + in->lengths[i];
        memset(scores + first * N, 0, (size_t)((end - first) * N) * sizeof *scores);
    }
done:
    qkv_free(hidden);
    return status;
}
