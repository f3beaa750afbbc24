// SPDX-License-Identifier: MIT
// explain_tables.c: implements three topics of `qkv explain`: layer norm and batch norm; the shapes
// of all arrays from X to the output; masks, with queries as rows or as columns.
#include "explain/explain.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- norms -------------------------------------------------------------------------------------
enum { ROWS = 6, WIDTH = 8 };

// Computes batch norm: for each column, y = (x - mean) / sqrt(var + eps), with mean and variance
// over the rows.
static void batch_norm(float *y, const float *x)
{
    for (int c = 0; c < WIDTH; c++) {
        double mean = 0, var = 0;
        for (int r = 0; r < ROWS; r++) mean += (double)x[r * WIDTH + c] / ROWS;
        for (int r = 0; r < ROWS; r++) {
            const double d = (double)x[r * WIDTH + c] - mean;
            var += d * d / ROWS;
        }
        for (int r = 0; r < ROWS; r++)
            y[r * WIDTH + c] = (float)(((double)x[r * WIDTH + c] - mean) / sqrt(var + 1e-5));
    }
}

// Returns the largest difference between a and b, outside of row `row`.
static double others(const float *a, const float *b, int row)
{
    double most = 0;
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < WIDTH && r != row; c++)
            most = fmax(most, fabs((double)a[r * WIDTH + c] - (double)b[r * WIDTH + c]));
    return most;
}

qkv_status explain_norm(struct page *p, int argc, char **argv, qkv_error *err)
{
    (void)argc;
    (void)argv;
    (void)err;
    static const char *const rows[] = { "token 0", "token 1", "token 2",
                                        "token 3", "token 4", "token 5" };
    struct explain_random r = { (uint64_t)explain_options.seed };
    float x[ROWS * WIDTH], layer[ROWS * WIDTH], batch[ROWS * WIDTH], scaled[ROWS * WIDTH],
        layer2[ROWS * WIDTH], batch2[ROWS * WIDTH];
    explain_normals(x, ROWS * WIDTH, 1, &r);
    for (int i = 0; i < ROWS; i++)
        for (int c = 0; c < WIDTH; c++)
            x[i * WIDTH + c] = x[i * WIDTH + c] * (float)(1 + i) + (float)c;
    memcpy(scaled, x, sizeof x);
    for (int c = 0; c < WIDTH; c++) scaled[(ROWS - 1) * WIDTH + c] *= 100;
    qkv_layer_norm(layer, x, NULL, NULL, 1e-5f, ROWS, WIDTH);
    qkv_layer_norm(layer2, scaled, NULL, NULL, 1e-5f, ROWS, WIDTH);
    batch_norm(batch, x);
    batch_norm(batch2, scaled);
    const struct {
        const char *name;
        const float *from;
    } grids[] = { { "input rows", x },
                  { "layer norm: each row on its own", layer },
                  { "batch norm: each column over the rows", batch },
                  { "batch norm, the last row scaled by 100", batch2 } };
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++)
        memcpy(page_grid(p, grids[i].name, ROWS, WIDTH, rows, NULL, QKV_CHART_SIGNED),
               grids[i].from, sizeof x);
    p->across = 2;
    page_title(p, "Why does a Transformer normalise each token separately?");
    page_say(p,
             "With the last token scaled by 100, the other tokens change by %.2f under layer norm "
             "and by %.2f under batch norm: with batch norm a token depends on the other tokens, "
             "with layer norm it does not.",
             others(layer, layer2, ROWS - 1), others(batch, batch2, ROWS - 1));
    return QKV_OK;
}

// ---- shapes ------------------------------------------------------------------------------------
enum { TOKENS = 16, MODEL = 8, KEY = 4, VALUE = 6 };

qkv_status explain_shapes(struct page *p, int argc, char **argv, qkv_error *err)
{
    (void)argc;
    (void)argv;
    struct explain_random r = { (uint64_t)explain_options.seed };
    float x[TOKENS * MODEL], w[3][VALUE * MODEL], q[TOKENS * KEY], k[TOKENS * KEY],
        v[TOKENS * VALUE], out[TOKENS * VALUE], weights[TOKENS * TOKENS];
    explain_normals(x, TOKENS * MODEL, 1, &r);
    for (int i = 0; i < 3; i++) explain_normals(w[i], VALUE * MODEL, 1 / sqrt(MODEL), &r);
    const struct qkv_attention a = {
        .B = 1, .T = TOKENS, .S = TOKENS, .H = 1, .E = KEY, .F = VALUE
    };
    qkv_status status = qkv_linear(q, x, w[0], NULL, TOKENS, MODEL, KEY);
    if (!status) status = qkv_linear(k, x, w[1], NULL, TOKENS, MODEL, KEY);
    if (!status) status = qkv_linear(v, x, w[2], NULL, TOKENS, MODEL, VALUE);
    if (status)
        return cmd_error(err, status, NULL, "the linear kernel cannot compute the projections");
    if ((status = explain_attend(out, weights, q, k, v, &a, err))) return status;
    const struct {
        const char *name, *of;
        const float *from;
        int rows, columns;
    } grids[] = { { "X", "tokens x d", x, TOKENS, MODEL },
                  { "Q = X W_Q", "tokens x d_k", q, TOKENS, KEY },
                  { "K = X W_K", "tokens x d_k", k, TOKENS, KEY },
                  { "V = X W_V", "tokens x d_v", v, TOKENS, VALUE },
                  { "softmax(Q K^T / sqrt(d_k))", "tokens x tokens", weights, TOKENS, TOKENS },
                  { "weights times V", "tokens x d_v", out, TOKENS, VALUE } };
    page_table(p, "shapes", 1 + (int64_t)(sizeof grids / sizeof *grids), 3);
    page_cell(p, 0, 1, "rows");
    page_cell(p, 0, 2, "columns");
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
        const int64_t rows = grids[i].rows, columns = grids[i].columns;
        memcpy(page_grid(p, page_text(p, "%s: %s", grids[i].name, grids[i].of), rows, columns, NULL,
                         NULL, i == 4 ? QKV_CHART_WEIGHTS : QKV_CHART_SIGNED),
               grids[i].from, (size_t)(rows * columns) * sizeof(float));
        p->grid[p->panels - 1]->digits = -1;
        page_cell(p, 1 + (int64_t)i, 0, "%s", grids[i].name);
        page_cell(p, 1 + (int64_t)i, 1, "%lld", (long long)rows);
        page_cell(p, 1 + (int64_t)i, 2, "%lld", (long long)columns);
    }
    p->across = 3;
    page_title(p, "Which matrix has which shape?");
    page_say(p,
             "%d tokens of %d dimensions, times a W_Q of %d x %d, give %d queries of %d "
             "dimensions: Q is %d x "
             "%d. The scores are %d x %d for any widths, and the output has as many rows as Q and "
             "as many "
             "columns as V.",
             TOKENS, MODEL, MODEL, KEY, TOKENS, KEY, TOKENS, KEY, TOKENS, TOKENS);
    return QKV_OK;
}

// ---- masks -------------------------------------------------------------------------------------
enum { N = 6, E = 4 };

static void add_grid(struct page *p, const char *name, const float *value,
                     const char *const *labels, enum qkv_chart_ramp ramp)
{
    memcpy(page_grid(p, name, N, N, labels, labels, ramp), value, N * N * sizeof *value);
}

qkv_status explain_mask(struct page *p, int argc, char **argv, qkv_error *err)
{
    (void)argc;
    (void)argv;
    static const char *const token[] = { "0", "1", "2", "3", "4", "5" };
    struct explain_random r = { (uint64_t)explain_options.seed };
    float q[N * E], k[N * E], v[N * E], out[N * E], kernel[N * N], score[N * N], weight[N * N],
        transposed[N * N], transposed_weight[N * N];
    explain_normals(q, N * E, 1, &r);
    explain_normals(k, N * E, 1, &r);
    explain_normals(v, N * E, 1, &r);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double s = 0;
            for (int e = 0; e < E; e++) s += (double)q[i * E + e] * (double)k[j * E + e];
            score[i * N + j] = transposed[j * N + i] = j > i ? -INFINITY : (float)(s / sqrt(E));
        }
    qkv_softmax_rows(weight, score, N, N, N, N);
    for (int i = 0; i < N; i++) { // with queries as columns, each column has a softmax
        double x[N], w[N];
        for (int j = 0; j < N; j++) x[j] = (double)transposed[j * N + i];
        explain_softmax(w, x, N, 1);
        for (int j = 0; j < N; j++) transposed_weight[j * N + i] = (float)w[j];
    }
    const struct qkv_attention a = { .B = 1, .T = N, .S = N, .H = 1, .E = E, .causal = true };
    const qkv_status s = explain_attend(out, kernel, q, k, v, &a, err);
    if (s) return s;
    double rows = 0, columns = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            rows = fmax(rows, fabs((double)weight[i * N + j] - (double)kernel[i * N + j]));
            columns = fmax(columns,
                           fabs((double)transposed_weight[j * N + i] - (double)kernel[i * N + j]));
        }
    for (int i = 0; i < N * N; i++) { // -INFINITY is drawn as a masked cell
        if (score[i] == -INFINITY) score[i] = weight[i] = NAN;
        if (transposed[i] == -INFINITY) transposed[i] = transposed_weight[i] = NAN;
    }
    add_grid(p, "scores, queries as rows: -INFINITY above the diagonal", score, token,
             QKV_CHART_SIGNED);
    add_grid(p, "weights, queries as rows: each row sums to 1", weight, token, QKV_CHART_WEIGHTS);
    add_grid(p, "scores, queries as columns: -INFINITY below the diagonal", transposed, token,
             QKV_CHART_SIGNED);
    add_grid(p, "weights, queries as columns: each column sums to 1", transposed_weight, token,
             QKV_CHART_WEIGHTS);
    for (int i = 0; i < 4; i++) {
        p->panel[i].x.name = i < 2 ? "key" : "query";
        p->panel[i].y.name = i < 2 ? "query" : "key";
    }
    p->across = 2;
    page_title(p, "What does a causal mask hide?");
    page_say(
        p,
        "A token attends to itself and to the tokens before it: of %d scores %d are -INFINITY "
        "before "
        "the softmax, and their weights are 0. With queries as rows the softmax runs along a row, "
        "with "
        "queries as columns along a column: the weights are the same, and differ from the weights "
        "of the "
        "kernel by %.0e and %.0e.",
        N * N, N * (N - 1) / 2, rows, columns);
    return QKV_OK;
}
