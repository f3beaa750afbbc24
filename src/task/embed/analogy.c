// SPDX-License-Identifier: MIT
// analogy.c: solves analogies such as Paris - France + Italy: finds the words whose input
// embeddings are nearest to a signed sum of word embeddings.
//
//   x = sum_i sign_i (w_i - mean),   score(w) = cos(x, w - mean),   mean over the whole vocabulary
//
// Subtracting the mean matters: the rows of a trained table have a large common part, which carries
// no information. Mikolov, Yih, Zweig 2013 (Linguistic Regularities in Continuous Space Word
// Representations).
#include "task/embed/embed_internal.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <utf8proc.h>

// The rows of the embedding matrix are summed in blocks of this many rows. The size is constant, so
// that the sums do not depend on the number of threads.
enum { BLOCK = 512 };

struct search {
    const qkv_model *model;
    const qkv_tokenizer *tokenizer;
    int64_t vocab, D;
    double *sums;   // [blocks][D] sum of the rows of each block of the embedding matrix
    double *mean;   // [D] mean of all rows of the embedding matrix
    double *target; // [D] signed sum of the word embeddings, scaled to length 1
    float *rows;    // [blocks][D] scratch: a row per parallel task
    float *cosine;  // [vocab] cosine of each token with the target; -2: the token is not a word
};

// Returns true if the token is a whole word of letters, and false if it continues a word ("##"), is
// a special token, or contains a digit or a sign.
static bool is_word(const qkv_tokenizer *t, int32_t id)
{
    const char *text = qkv_tokenizer_token(t, id);
    if (!text || !*text || qkv_tokenizer_special(t, id)) return false;
    const utf8proc_uint8_t *at = (const utf8proc_uint8_t *)text;
    while (*at) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t n = utf8proc_iterate(at, -1, &c);
        if (n < 1) return false;
        const utf8proc_category_t kind = utf8proc_category(c);
        if (kind < UTF8PROC_CATEGORY_LU || kind > UTF8PROC_CATEGORY_LO) return false;
        at += n;
    }
    return true;
}

static void sum_block(void *ctx, int64_t i, int thread)
{
    struct search *s = ctx;
    double *sum = s->sums + i * s->D;
    float *row = s->rows + i * s->D;
    (void)thread;
    for (int64_t id = i * BLOCK; id < qkv_min64((i + 1) * BLOCK, s->vocab); id++) {
        if (qkv_model_embedding(s->model, row, (int32_t)id))
            continue; // the ids of the loop exist, so this lookup cannot fail
        for (int64_t d = 0; d < s->D; d++) sum[d] += (double)row[d];
    }
}

static void score_block(void *ctx, int64_t i, int thread)
{
    struct search *s = ctx;
    float *row = s->rows + i * s->D;
    (void)thread;
    for (int64_t id = i * BLOCK; id < qkv_min64((i + 1) * BLOCK, s->vocab); id++) {
        s->cosine[id] = -2;
        if (!is_word(s->tokenizer, (int32_t)id) || qkv_model_embedding(s->model, row, (int32_t)id))
            continue;
        double dot = 0, square = 0;
        for (int64_t d = 0; d < s->D; d++) {
            const double x = (double)row[d] - s->mean[d];
            dot += x * s->target[d];
            square += x * x;
        }
        s->cosine[id] = square > 0 ? (float)(dot / sqrt(square)) : 0;
    }
}

static qkv_status make_target(struct search *s, const int32_t *words, const float *signs, int64_t n,
                              qkv_error *err)
{
    double square = 0, largest = 0;
    for (int64_t i = 0; i < n; i++) {
        if (qkv_model_embedding(s->model, s->rows, words[i]))
            return qkv_fail(err, QKV_ERR_INTERNAL, NULL,
                            "embedding of a token could not be read from the model");
        for (int64_t d = 0; d < s->D; d++) {
            const double x = (double)signs[i] * ((double)s->rows[d] - s->mean[d]);
            s->target[d] += x;
            largest += x * x;
        }
    }
    for (int64_t d = 0; d < s->D; d++) square += s->target[d] * s->target[d];
    // The mean has every row of the embedding matrix: any NaN or Inf of it arrives here.
    if (!isfinite(square))
        return qkv_fail(err, QKV_ERR_INTERNAL, NULL,
                        "sum of the words is not finite, expected finite numbers, found %g; "
                        "damaged or very large weights of a model cause this",
                        square);
    // If the words cancel, their sum is only rounding error and has no direction.
    if (square <= 1e-24 * largest)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "words of the sum cancel, expected a sum that is not 0");
    for (int64_t d = 0; d < s->D; d++) s->target[d] /= sqrt(square);
    return QKV_OK;
}

// Selects the `want` tokens with the largest cosines, in descending order; among equal cosines the
// smaller id is first.
static int64_t pick(int32_t *ids, float *cosines, int64_t want, const struct search *s)
{
    int64_t found = 0;
    for (int64_t id = 0; id < s->vocab; id++) {
        const float c = s->cosine[id];
        if (!(c >= -1.5f) || (found == want && c <= cosines[want - 1])) continue;
        int64_t at = found < want ? found++ : want - 1;
        for (; at > 0 && cosines[at - 1] < c; at--) {
            cosines[at] = cosines[at - 1];
            ids[at] = ids[at - 1];
        }
        cosines[at] = c;
        ids[at] = (int32_t)id;
    }
    return found;
}

qkv_status qkv_analogy(const qkv_model *m, const qkv_tokenizer *t, int32_t *ids, float *cosines,
                       int64_t *found, int64_t want, const int32_t *words, const float *signs,
                       int64_t n, qkv_error *err)
{
    if (!m || !t || !found)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "qkv_analogy: expected a model, its tokenizer and an output array, found NULL");
    const struct qkv_model_info info = qkv_model_info(m);
    struct search s = { .model = m, .tokenizer = t, .vocab = info.vocab, .D = info.width };
    const int64_t blocks = qkv_ceil_div(s.vocab, BLOCK);
    const size_t D = (size_t)s.D;
    qkv_status status = QKV_OK;
    *found = 0;
    if (want < 1) return QKV_OK;
    for (int64_t i = 0; i < n; i++)
        if (words[i] < 0 || words[i] >= s.vocab)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "token id out of range, expected an id below %" PRId64
                            ", found %" PRId32,
                            s.vocab, words[i]);
    s.sums = qkv_alloc_zero((size_t)blocks * D, sizeof *s.sums);
    s.rows = qkv_alloc((size_t)blocks * D, sizeof *s.rows);
    s.mean = qkv_alloc_zero(D, sizeof *s.mean);
    s.target = qkv_alloc_zero(D, sizeof *s.target);
    s.cosine = qkv_alloc((size_t)s.vocab, sizeof *s.cosine);
    if (!s.sums || !s.rows || !s.mean || !s.target || !s.cosine) {
        status = qkv_fail_memory(err, NULL);
        goto done;
    }
    qkv_parallel_for(blocks, sum_block, &s);
    for (int64_t i = 0; i < blocks; i++)
        for (int64_t d = 0; d < s.D; d++) s.mean[d] += s.sums[i * s.D + d];
    for (int64_t d = 0; d < s.D; d++) s.mean[d] /= (double)s.vocab;
    status = make_target(&s, words, signs, n, err);
    if (status) goto done;
    qkv_parallel_for(blocks, score_block, &s);
    for (int64_t i = 0; i < n; i++) s.cosine[words[i]] = -2;
    *found = pick(ids, cosines, want, &s);
done:
    qkv_free(s.sums);
    qkv_free(s.rows);
    qkv_free(s.mean);
    qkv_free(s.target);
    qkv_free(s.cosine);
    return status;
}
