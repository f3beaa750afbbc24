// SPDX-License-Identifier: MIT
// explain_independence.c: implements a topic of `qkv explain`: the output of a query does not
// depend on the other queries, so that all can be computed at once; in a recurrence each token
// needs the one before it.
#include "explain/explain.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The inputs: n tokens of width d.
struct tokens_in {
    int64_t n, d;
    float *q, *k, *v;
};

// Computes out[n][d] for the queries in the order of `order`, `together` or one call for each.
static qkv_status attend(float *out, const struct tokens_in *x, const int64_t *order, bool together,
                         qkv_error *err)
{
    const int64_t n = x->n, d = x->d, calls = together ? 1 : n;
    const struct qkv_attention a = { .B = 1, .T = n / calls, .S = n, .H = 1, .E = d };
    float *q = cmd_alloc((size_t)(2 * n * d), sizeof *q), *y = q + n * d;
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < n; i++) memcpy(q + i * d, x->q + order[i] * d, (size_t)d * sizeof *q);
    for (int64_t c = 0; c < calls && !status; c++)
        status = explain_attend(y + c * d, NULL, q + c * d, x->k, x->v, &a, err);
    for (int64_t i = 0; i < n; i++) memcpy(out + order[i] * d, y + i * d, (size_t)d * sizeof *q);
    free(q);
    return status;
}

// Runs an Elman recurrence on the tokens from `from` on, and writes the state of the last one.
static qkv_status recur(float *last, const struct tokens_in *x, const float *w, int64_t from,
                        qkv_error *err)
{
    const int64_t T = x->n - from, d = x->d;
    const struct qkv_recurrence r = {
        .B = 1, .T = T, .D_in = d, .D = d, .cell = QKV_CELL_ELMAN, .w_i = w, .w_h = w + d * d
    };
    const struct qkv_baseline_plan plan = qkv_recurrence_plan(&r);
    void *scratch = cmd_alloc(plan.scratch, 1);
    float *y = cmd_alloc((size_t)(T * d), sizeof *y);
    const qkv_status status = qkv_recurrence_forward(y, x->q + from * d, NULL, &r, scratch);
    if (!status) memcpy(last, y + (T - 1) * d, (size_t)d * sizeof *y);
    free(y);
    free(scratch);
    return status ? cmd_error(err, status, NULL, "the recurrence cannot run: %s", plan.reason)
                  : QKV_OK;
}

static double apart(const float *a, const float *b, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

qkv_status explain_independence(struct page *p, int argc, char **argv, qkv_error *err)
{
    (void)argc;
    (void)argv;
    enum { ONCE, PERMUTED, ALONE, WAYS };
    static const char *const names[WAYS] = { "all queries at once", "in another order, put back",
                                             "one call for each query" };
    static const char *const states[] = { "with the others", "without them" };
    int64_t size[2] = { 6, 8 };
    qkv_status status = explain_sizes(size, 2, "N,D", err);
    if (status) return status;
    const int64_t n = size[0], d = size[1];
    struct explain_random r = { (uint64_t)explain_options.seed };
    float *block = page_take(p, (size_t)(3 * n * d + 2 * d * d + 2 * d), sizeof *block);
    const struct tokens_in x = { n, d, block, block + n * d, block + 2 * n * d };
    float *w = block + 3 * n * d, *whole = w + 2 * d * d, *alone = whole + d, *out[WAYS];
    int64_t *order = page_take(p, (size_t)(2 * n), sizeof *order), *turned = order + n;
    explain_normals(block, 3 * n * d, 1, &r);
    explain_normals(w, 2 * d * d, 1 / sqrt((double)d), &r);
    for (int64_t i = 0; i < n; i++) {
        order[i] = i;
        turned[i] = (i + n / 2) % n;
    }
    page_table(p, "compared with all queries at once", 1 + WAYS, 3);
    page_cell(p, 0, 1, "largest difference");
    page_cell(p, 0, 2, "bits");
    bool same = true;
    for (int i = 0; i < WAYS; i++) {
        out[i] = page_grid(p, names[i], n, d, NULL, NULL, QKV_CHART_SIGNED);
        p->panel[i].y.name = "query";
        status = attend(out[i], &x, i == PERMUTED ? turned : order, i != ALONE, err);
        if (status) return status;
        const bool equal = !memcmp(out[i], out[ONCE], (size_t)(n * d) * sizeof(float));
        same = same && equal;
        page_cell(p, i + 1, 0, "%s", names[i]);
        const double off = apart(out[i], out[ONCE], n * d);
        page_cell(p, i + 1, 1, off > 0 ? "%.1e" : "%.0f", off);
        page_cell(p, i + 1, 2, "%s", equal ? "the same" : "others");
    }
    if ((status = recur(whole, &x, w, 0, err)) || (status = recur(alone, &x, w, n - 1, err)))
        return status;
    float *last = page_grid(p, "a recurrence: the state of the last token", 2, d, states, NULL,
                            QKV_CHART_SIGNED);
    memcpy(last, whole, (size_t)d * sizeof *last);
    memcpy(last + d, alone, (size_t)d * sizeof *last);
    p->across = 2;
    page_title(p, "Does a token wait for the others?");
    page_say(p,
             "In attention it does not: the %lld outputs have %s bits if all queries are computed "
             "at once, in another order, or each alone, so they can be computed in parallel. In a "
             "recurrence it does: the state of the last token changes by up to %.2f if it is "
             "computed without the states before it.",
             (long long)n, same ? "the same" : "different", apart(whole, alone, d));
    return QKV_OK;
}
