// SPDX-License-Identifier: MIT
// eval_texts.c: encoders: does a text find its partner among all; is its label right.
#include "task/eval_work.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS_MOST = 20000 }; // n^2 cosines

// ---- retrieval ----------------------------------------------------------------------------------
struct nearest {
    const real *v; // [2 n][D]: a pair's texts one behind the other
    int64_t n, D;
    uint8_t *right;
};

// Is b[i] the nearest of all b to a[i]?  An equal one that stands before it counts against it.
static void nearest_of(void *ctx, int64_t i, int thread)
{
    const struct nearest *x = ctx;
    const real *a = x->v + 2 * i * x->D;
    double best = -INFINITY;
    int64_t found = -1;
    (void)thread;
    for (int64_t k = 0; k < x->n; k++) {
        const real *b = x->v + (2 * k + 1) * x->D;
        double dot = 0;
        for (int64_t d = 0; d < x->D; d++) dot += (double)a[d] * (double)b[d];
        if (dot > best) {
            best = dot;
            found = k;
        }
    }
    x->right[i] = found == i;
}

qkv_status eval_retrieval(struct eval *e, qkv_error *err)
{
    const int64_t n = e->info.sequences[1], D = qkv_net_shape(e->net)->width;
    struct qkv_drawn d = { 0 };
    size_t count;
    real *v = NULL;
    uint8_t *right = NULL;
    qkv_status s = QKV_OK;
    if (n > PAIRS_MOST)
        return qkv_fail(err, QKV_ERR_LIMIT, NULL,
                        "pairs to find among, expected at most %d, found %lld", (int)PAIRS_MOST,
                        (long long)n);
    if (qkv_mul_size(&count, (size_t)(2 * n), (size_t)D)) v = qkv_alloc(count, sizeof *v);
    right = qkv_alloc_zero((size_t)n, 1);
    if (!v || !right) s = qkv_fail_memory(err, NULL);
    for (int64_t at = 0; !s && at < n; at = d.next) {
        s = eval_progress(e, "pairs", at, n, err);
        if (!s) s = qkv_data_valid(e->data, &d, at, &e->draw, err);
        if (!s) s = qkv_net_vectors(e->net, v + 2 * at * D, &d.batch.in, err);
    }
    if (!s) {
        struct nearest x = { v, n, D, right };
        int64_t found = 0;
        qkv_parallel_for(n, nearest_of, &x);
        for (int64_t i = 0; i < n; i++) found += right[i];
        e->result->retrieval = (double)found / (double)n;
    }
    qkv_drawn_free(&d);
    qkv_free(v);
    qkv_free(right);
    return s;
}

// ---- labels -------------------------------------------------------------------------------------
// The model's number for a label of the texts: by the names of its run, else by those of its
// config.json, else the name itself is the number; -1: it has none.
static int64_t label_of(const struct eval *e, int64_t label)
{
    const char *name = qkv_data_label(e->data, label);
    if (!e->trained) {
        char *end;
        for (int64_t k = 0; name && k < qkv_net_shape(e->net)->labels; k++) {
            const char *known = qkv_net_label(e->net, k);
            if (known && !strcmp(known, name)) return k;
        }
        const long k = name && *name ? strtol(name, &end, 10) : -1;
        return name && *name && !*end && k >= 0 ? k : -1;
    }
    for (int64_t k = 0; name; k++) {
        const char *known = qkv_data_label(e->trained, k);
        if (!known) return -1;
        if (!strcmp(known, name)) return k;
    }
    return -1;
}

// Adds a row of logits whose right answer is `want`.
static void count_row(struct qkv_loss *loss, const real *logits, int64_t labels, int64_t want)
{
    double top = -INFINITY, sum = 0;
    int64_t best = 0;
    for (int64_t i = 0; i < labels; i++) {
        if (logits[i] > logits[best]) best = i;
        if ((double)logits[i] > top) top = (double)logits[i];
    }
    for (int64_t i = 0; i < labels; i++) sum += exp((double)logits[i] - top);
    loss->sum += log(sum) + top - (double)logits[want];
    loss->rows++;
    loss->right += best == want;
}

qkv_status eval_labels(struct eval *e, qkv_error *err)
{
    const int64_t n = e->info.sequences[1], labels = qkv_net_shape(e->net)->labels;
    struct qkv_drawn d = { 0 };
    struct qkv_loss loss = { 0 };
    int64_t room = 0;
    void *logits = NULL;
    qkv_status s = QKV_OK;
    if (labels < 1)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_place){ .file = e->model },
                        "the model has no head for labels");
    for (int64_t at = 0; !s && at < n; at = d.next) {
        s = eval_progress(e, "texts", at, n, err);
        if (!s) s = qkv_data_valid(e->data, &d, at, &e->draw, err);
        if (!s && !qkv_reserve(&logits, &room, d.sequences * labels, sizeof(real)))
            s = qkv_fail_memory(err, NULL);
        if (!s) s = qkv_net_classify(e->net, logits, &d.batch.in, err);
        for (int64_t i = 0; i < d.sequences && !s; i++) {
            const int64_t want = label_of(e, d.batch.targets[i]);
            if (want >= 0 && want < labels) {
                count_row(&loss, (const real *)logits + i * labels, labels, want);
                continue;
            }
            const char *name = qkv_data_label(e->data, d.batch.targets[i]);
            s = qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_place){ .file = e->model },
                         "a label that the model was not trained on: \"%.80s\"", name ? name : "");
        }
    }
    e->result->loss = loss.sum / (double)loss.rows;
    e->result->accuracy = (double)loss.right / (double)loss.rows;
    e->result->targets = e->result->sequences = loss.rows;
    qkv_drawn_free(&d);
    qkv_free(logits);
    return s;
}
