// SPDX-License-Identifier: MIT
// eval_texts.c: measures a model on texts. For vectors: the contrastive loss, and how often the
// nearest vector is that of the text's partner. For labels: the accuracy.
#include "task/eval/eval_internal.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS_MOST = 20000 }; // maximum number n of pairs, since n^2 cosines are computed

// ---- vectors ------------------------------------------------------------------------------------
struct vectors {
    float *v; // [2 n][D] vectors of all texts; the vectors of a pair are adjacent
    int64_t n, D;
    uint8_t *right; // [n] 1: the vector nearest to the pair's first text is that of its second text
    enum qkv_pool pool;
    // for the current batch; to: its first vector in v; hidden: its hidden states
    float *to, *hidden;
    int64_t hidden_capacity;
    const int64_t *offsets;
};

static void pool_text(void *ctx, int64_t i, int thread)
{
    const struct vectors *x = ctx;
    const int64_t from = x->offsets[i], n = x->offsets[i + 1] - from;
    (void)thread;
    qkv_pool_rows(x->to + i * x->D, x->hidden + from * x->D, 0, n, x->D, x->pool);
    qkv_unit_length(x->to + i * x->D, x->D);
}

// Computes the vectors of the texts of a batch. `at` is the index of its first pair.
static qkv_status pool_batch(const struct eval *e, struct vectors *x, const struct qkv_drawn *d,
                             int64_t at, qkv_error *err)
{
    const struct qkv_sequences *s = &d->batch.in;
    const struct qkv_model_input in = eval_input(s);
    void *hidden = x->hidden;
    const bool fits =
        qkv_reserve(&hidden, &x->hidden_capacity, s->offsets[s->n] * x->D, sizeof *x->hidden);
    x->hidden = hidden;
    if (!fits) return qkv_fail_memory(err, NULL);
    const qkv_status status = qkv_model_run(e->model, x->hidden, &in, NULL, err);
    x->to = x->v + 2 * at * x->D;
    x->offsets = s->offsets;
    if (!status) qkv_parallel_for(s->n, pool_text, x);
    return status;
}

// Adds the contrastive loss of one batch: n pairs of vectors v[2 n][D].
static qkv_status add_contrastive(const struct eval *e, struct qkv_loss *loss, const float *v,
                                  int64_t n, int64_t D, qkv_error *err)
{
    struct qkv_contrastive how = { .temperature = (real)train_real(e->config.o.temperature, 0),
                                   .threads = qkv_threads() };
    real *halves = qkv_alloc((size_t)(2 * n), (size_t)D * sizeof *halves);
    how.scratch = qkv_alloc(qkv_contrastive_scratch(&how, n, D), 1);
    const bool fits = halves && how.scratch;
    for (int64_t i = 0; i < 2 * n && fits; i++)
        for (int64_t k = 0; k < D; k++) halves[(i % 2 * n + i / 2) * D + k] = (real)v[i * D + k];
    if (fits) qkv_contrastive(loss, NULL, NULL, halves, halves + n * D, n, D, 1, &how);
    qkv_free(halves);
    qkv_free(how.scratch);
    return fits ? QKV_OK : qkv_fail_memory(err, NULL);
}

// Sets right[i] to 1 if, of all b, b[i] has the largest dot product with a[i]; pair k consists of
// a[k] and b[k]. Among equal products, the smallest index wins.
static void find_nearest(void *ctx, int64_t i, int thread)
{
    const struct vectors *x = ctx;
    const float *a = x->v + 2 * i * x->D;
    double best = -INFINITY;
    int64_t found = -1;
    (void)thread;
    for (int64_t k = 0; k < x->n; k++) {
        const float *b = x->v + (2 * k + 1) * x->D;
        double dot = 0;
        for (int64_t d = 0; d < x->D; d++) dot += (double)a[d] * (double)b[d];
        if (dot > best) {
            best = dot;
            found = k;
        }
    }
    x->right[i] = found == i;
}

static qkv_status vectors_new(struct vectors *x, const struct eval *e, qkv_error *err)
{
    struct qkv_modules modules;
    size_t count;
    const qkv_status status = qkv_modules_read(&modules, e->dir, "", err);
    if (status) return status;
    x->pool = modules.pools[0];
    const bool plain = modules.pool_count == 1 &&
                       qkv_steps_are(&modules.steps, QKV_STEP_NORMALIZE) && !modules.lowercase;
    qkv_modules_free(&modules);
    if (!plain)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = e->dir },
                        "evaluation of vectors is not supported with these modules, expected one "
                        "pooling and no other module than Normalize, found others in modules.json");
    if (qkv_mul_size(&count, (size_t)(2 * x->n), (size_t)x->D))
        x->v = qkv_alloc(count, sizeof *x->v);
    x->right = qkv_alloc_zero((size_t)x->n, 1);
    return x->v && x->right ? QKV_OK : qkv_fail_memory(err, NULL);
}

qkv_status eval_vectors(struct eval *e, qkv_error *err)
{
    struct vectors x = { .n = e->info.sequences[1], .D = e->is.width };
    struct qkv_drawn d = { 0 };
    struct qkv_loss loss = { 0 };
    int64_t found = 0;
    if (x.n > PAIRS_MOST)
        return qkv_fail(
            err, QKV_ERR_LIMIT, NULL,
            "too many pairs to compare with each other, expected at most %d, found %lld",
            (int)PAIRS_MOST, (long long)x.n);
    qkv_status status = vectors_new(&x, e, err);
    for (int64_t at = 0; !status && at < x.n; at = d.next) {
        status = eval_progress(e, "pairs", at, x.n, err);
        if (!status) status = qkv_data_valid(e->data, &d, at, &e->draw, err);
        if (!status) status = pool_batch(e, &x, &d, at, err);
        if (!status) status = add_contrastive(e, &loss, x.to, d.sequences, x.D, err);
    }
    if (!status) {
        qkv_parallel_for(x.n, find_nearest, &x);
        for (int64_t i = 0; i < x.n; i++) found += x.right[i];
        e->result->sequences = e->result->targets = x.n;
        e->result->loss = loss.sum / (double)loss.rows;
        e->result->accuracy = (double)loss.right / (double)loss.rows;
        e->result->retrieval = (double)found / (double)x.n;
    }
    qkv_drawn_free(&d);
    qkv_free(x.v);
    qkv_free(x.right);
    qkv_free(x.hidden);
    return status;
}

// ---- labels -------------------------------------------------------------------------------------
// Returns the model's number of a label of the dataset; -1: the model has no such label. For the
// model of a training run, finds the name among the labels of the run's data. For other models,
// finds the name in config.json or, if it is not there, reads the name as a number.
static int32_t find_label(const struct eval *e, int64_t label)
{
    const char *name = qkv_data_label(e->data, label);
    if (!e->trained) {
        char *end;
        for (int64_t k = 0; name && k < e->is.labels; k++) {
            const char *known = qkv_model_label(e->model, k);
            if (known && !strcmp(known, name)) return (int32_t)k;
        }
        const long k = name && *name ? strtol(name, &end, 10) : -1;
        return name && *name && !*end && k >= 0 && k < e->is.labels ? (int32_t)k : -1;
    }
    for (int64_t k = 0; name && k < e->is.labels; k++) {
        const char *known = qkv_data_label(e->trained, k);
        if (!known) return -1;
        if (!strcmp(known, name)) return (int32_t)k;
    }
    return -1;
}

// Reports a label that the model does not know, with the first line of the texts that has it.
static qkv_status fail_label(const struct eval *e, int64_t label, qkv_error *err)
{
    const char *name = qkv_data_label(e->data, label);
    const size_t bytes = name ? strlen(name) : 0;
    struct qkv_corpus_cursor at = { .corpus = e->corpus };
    struct qkv_example x;
    struct qkv_location place = { .file = e->dir };
    char line[32];
    bool more = e->corpus != NULL;
    while (more && !qkv_corpus_next(&at, &x, &more, NULL) && more)
        if (x.second_bytes == bytes && !memcmp(x.second, name, bytes)) {
            snprintf(line, sizeof line, "line %" PRId64, x.line);
            place = (struct qkv_location){ .file = x.file, .path = line };
            break;
        }
    const qkv_status status =
        qkv_fail(err, QKV_ERR_FORMAT, &place,
                 "text has a label that the model does not know, expected a label of its training, "
                 "found \"%.80s\"",
                 name ? name : "");
    qkv_corpus_cursor_free(&at);
    return status;
}

// Memory for the labels of a batch, which the next batch reuses.
struct labelled {
    float *logits; // [texts][labels] logits
    int32_t *want; // [texts] number of the correct label
    int64_t logits_capacity, want_capacity;
};

static qkv_status label_batch(const struct eval *e, struct labelled *x, struct qkv_loss *loss,
                              const struct qkv_drawn *d, qkv_error *err)
{
    const struct qkv_sequences *s = &d->batch.in;
    const struct qkv_model_input in = eval_input(s);
    void *logits = x->logits, *want = x->want;
    bool fits = qkv_reserve(&logits, &x->logits_capacity, s->n * e->is.labels, sizeof *x->logits);
    x->logits = logits;
    fits = fits && qkv_reserve(&want, &x->want_capacity, s->n, sizeof *x->want);
    x->want = want;
    if (!fits) return qkv_fail_memory(err, NULL);
    for (int64_t i = 0; i < s->n; i++) {
        x->want[i] = find_label(e, d->batch.targets[i]);
        if (x->want[i] < 0) return fail_label(e, d->batch.targets[i], err);
    }
    const qkv_status status = qkv_model_classify(e->model, x->logits, &in, err);
    if (!status) eval_add_rows(loss, x->logits, e->is.labels, x->want, s->n);
    return status;
}

qkv_status eval_labels(struct eval *e, qkv_error *err)
{
    const int64_t n = e->info.sequences[1];
    struct qkv_drawn d = { 0 };
    struct qkv_loss loss = { 0 };
    struct labelled x = { 0 };
    qkv_status status = QKV_OK;
    for (int64_t at = 0; !status && at < n; at = d.next) {
        status = eval_progress(e, "texts", at, n, err);
        if (!status) status = qkv_data_valid(e->data, &d, at, &e->draw, err);
        if (!status) status = label_batch(e, &x, &loss, &d, err);
    }
    e->result->loss = loss.sum / (double)loss.rows;
    e->result->accuracy = (double)loss.right / (double)loss.rows;
    e->result->targets = e->result->sequences = loss.rows;
    qkv_drawn_free(&d);
    qkv_free(x.logits);
    qkv_free(x.want);
    return status;
}
