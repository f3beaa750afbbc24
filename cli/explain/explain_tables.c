// SPDX-License-Identifier: MIT
// explain_tables.c: implements three topics of `qkv explain`: layer norm and batch norm; the shapes
// of all arrays from X to the output; masks, with queries as rows or as columns.
#include "explain/explain.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static float *floats(struct page *p, int64_t rows, int64_t columns)
{
    return page_take(p, array_count(2, (int64_t[]){ rows, columns }), sizeof(float));
}

static struct qkv_chart_panel *add_grid(struct page *p, const char *name, const float *value,
                                        int64_t rows, int64_t columns, const char *const *row_label,
                                        const char *const *column_label, enum qkv_chart_ramp ramp)
{
    memcpy(page_grid(p, name, rows, columns, row_label, column_label, ramp), value,
           (size_t)(rows * columns) * sizeof *value);
    return &p->panel[p->panels - 1];
}

// ---- norms -------------------------------------------------------------------------------------
// Computes batch norm: for each column, y = (x - mean) / sqrt(var + eps), with mean and variance
// over the rows.
static void batch_norm(float *y, const float *x, int64_t rows, int64_t width)
{
    for (int64_t c = 0; c < width; c++) {
        double mean = 0, var = 0;
        for (int64_t r = 0; r < rows; r++) mean += (double)x[r * width + c] / (double)rows;
        for (int64_t r = 0; r < rows; r++) {
            const double d = (double)x[r * width + c] - mean;
            var += d * d / (double)rows;
        }
        for (int64_t r = 0; r < rows; r++)
            y[r * width + c] = (float)(((double)x[r * width + c] - mean) / sqrt(var + 1e-5));
    }
}

// Returns the largest difference between a and b, in all rows but the last.
static double others(const float *a, const float *b, int64_t rows, int64_t width)
{
    double most = 0;
    for (int64_t i = 0; i < (rows - 1) * width; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

qkv_status explain_norm(struct page *p, int argc, char **argv, qkv_error *err)
{
    (void)argc;
    (void)argv;
    enum { INPUT, LAYER, BATCH, LAYER_SCALED, BATCH_SCALED, GRIDS };
    int64_t size[2] = { 6, 8 };
    const qkv_status status = explain_sizes(size, 2, "N,D", err);
    if (status) return status;
    // Batch norm maps two rows to -1 and 1, whatever the numbers are, so that it shows no effect.
    if (size[0] < 3)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--norm: expected --sizes with 3 tokens or more, found %lld",
                         (long long)size[0]);
    const int64_t rows = size[0], width = size[1], last = (rows - 1) * width;
    const char **names = page_numbered(p, "token ", rows);
    struct explain_random r = { (uint64_t)explain_options.seed };
    float *scaled = floats(p, rows, width), *y[GRIDS];
    for (int i = 0; i < GRIDS; i++) y[i] = floats(p, rows, width);
    explain_normals(y[INPUT], rows * width, 1, &r);
    for (int64_t i = 0; i < rows * width; i++)
        y[INPUT][i] = y[INPUT][i] * (float)(1 + i / width) + (float)(i % width);
    for (int64_t i = 0; i < rows * width; i++) scaled[i] = y[INPUT][i] * (i < last ? 1.0f : 100.0f);
    qkv_layer_norm(y[LAYER], y[INPUT], NULL, NULL, 1e-5f, rows, width);
    qkv_layer_norm(y[LAYER_SCALED], scaled, NULL, NULL, 1e-5f, rows, width);
    batch_norm(y[BATCH], y[INPUT], rows, width);
    batch_norm(y[BATCH_SCALED], scaled, rows, width);
    static const struct {
        const char *name, *note;
    } about[GRIDS] = {
        { "input X", "a row is a token, a column a dimension; N tokens of D dimensions" },
        { "layer norm of X", "y = (x - mean) / sqrt(var + 1e-5), mean and var of the row" },
        { "batch norm of X", "the same with mean and var of the column, over the tokens" },
        { "layer norm, last row times 100", "the factor cancels: also the last row is the same" },
        { "batch norm, last row times 100",
          "the last row alone makes mean and var of each column" }
    };
    static const int order[GRIDS] = { INPUT, LAYER, BATCH, LAYER_SCALED, BATCH_SCALED };
    for (int i = 0; i < GRIDS; i++) {
        const int at = order[i];
        add_grid(p, about[at].name, y[at], rows, width, names, NULL, QKV_CHART_SIGNED)->note =
            about[at].note;
        if (i) p->grid[i]->high = 3; // one range of colours for all normalised rows
        if (i) p->grid[i]->low = -3;
    }
    p->across = 2;
    page_title(p, "Why does a Transformer normalise each token separately?");
    const double moved = others(y[LAYER], y[LAYER_SCALED], rows, width);
    page_say(p,
             "Layer norm subtracts the mean of a row and divides by its standard deviation; batch "
             "norm does so with each column. With the last token times 100, the other tokens %s "
             "under layer norm and change by up to %.2f under batch norm: there a token depends "
             "on the other tokens.",
             moved > 0 ? page_text(p, "change by at most %.0e", moved) : "do not change",
             others(y[BATCH], y[BATCH_SCALED], rows, width));
    return QKV_OK;
}

// ---- shapes ------------------------------------------------------------------------------------
qkv_status explain_shapes(struct page *p, int argc, char **argv, qkv_error *err)
{
    (void)argc;
    (void)argv;
    int64_t size[4] = { 16, 8, 4, 6 };
    qkv_status status = explain_sizes(size, 4, "N,D,DK,DV", err);
    if (status) return status;
    const int64_t n = size[0], d = size[1], dk = size[2], dv = size[3];
    const int64_t wide[3] = { dk, dk, dv };
    struct explain_random r = { (uint64_t)explain_options.seed };
    float *x = floats(p, n, d), *w[3], *turned[3], *y[3], *out = floats(p, n, dv),
          *weights = floats(p, n, n);
    explain_normals(x, n * d, 1, &r);
    for (int i = 0; i < 3 && !status; i++) {
        w[i] = floats(p, wide[i], d); // [out][in], as qkv_linear reads it
        turned[i] = floats(p, d, wide[i]);
        y[i] = floats(p, n, wide[i]);
        explain_normals(w[i], wide[i] * d, 1 / sqrt((double)d), &r);
        for (int64_t e = 0; e < d * wide[i]; e++)
            turned[i][e] = w[i][e % wide[i] * d + e / wide[i]];
        status = qkv_linear(y[i], x, w[i], NULL, n, d, wide[i]);
    }
    if (status)
        return cmd_error(err, status, NULL, "the linear kernel cannot compute the projections");
    const struct qkv_attention a = { .B = 1, .T = n, .S = n, .H = 1, .E = dk, .F = dv };
    if ((status = explain_attend(out, weights, y[0], y[1], y[2], &a, err))) return status;
    const struct {
        const char *name, *of;
        const float *from;
        int64_t rows, columns;
    } grids[] = { { "X", "tokens x d", x, n, d },
                  { "W_Q", "d x d_k", turned[0], d, dk },
                  { "W_K", "d x d_k", turned[1], d, dk },
                  { "W_V", "d x d_v", turned[2], d, dv },
                  { "Q = X W_Q", "tokens x d_k", y[0], n, dk },
                  { "K = X W_K", "tokens x d_k", y[1], n, dk },
                  { "V = X W_V", "tokens x d_v", y[2], n, dv },
                  { "softmax(Q K^T / sqrt(d_k))", "tokens x tokens", weights, n, n },
                  { "weights times V", "tokens x d_v", out, n, dv } };
    enum { GRIDS = sizeof grids / sizeof *grids };
    page_table(p, "shapes", 1 + GRIDS, 3);
    page_cell(p, 0, 1, "rows");
    page_cell(p, 0, 2, "columns");
    for (int i = 0; i < GRIDS; i++) {
        add_grid(p, page_text(p, "%s: %s", grids[i].name, grids[i].of), grids[i].from,
                 grids[i].rows, grids[i].columns, NULL, NULL,
                 grids[i].from == weights ? QKV_CHART_WEIGHTS : QKV_CHART_SIGNED);
        p->grid[i]->digits = grids[i].from == weights ? 2 : 1;
        page_cell(p, 1 + i, 0, "%s", grids[i].name);
        page_cell(p, 1 + i, 1, "%lld", (long long)grids[i].rows);
        page_cell(p, 1 + i, 2, "%lld", (long long)grids[i].columns);
    }
    p->across = 3;
    page_title(p, "Which matrix has which shape?");
    page_say(p,
             "%lld tokens of %lld dimensions, times a W_Q of %lld x %lld, give %lld queries of "
             "%lld dimensions: Q is %lld x %lld. The scores are %lld x %lld for any widths, and "
             "the output has as many rows as Q and as many columns as V.",
             (long long)n, (long long)d, (long long)d, (long long)dk, (long long)n, (long long)dk,
             (long long)n, (long long)dk, (long long)n, (long long)n);
    return QKV_OK;
}

// ---- masks -------------------------------------------------------------------------------------
// Returns the largest difference between weights[n][n], whose rows (or columns) are queries, and
// the weights of the kernel.
static double apart(const float *weights, const float *kernel, int64_t n, bool rows)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            most = fmax(most, fabs((double)weights[rows ? i * n + j : j * n + i] -
                                   (double)kernel[i * n + j]));
    return most;
}

qkv_status explain_mask(struct page *p, int argc, char **argv, qkv_error *err)
{
    (void)argc;
    (void)argv;
    enum { SCORE, WEIGHT, TURNED, TURNED_WEIGHT, GRIDS };
    int64_t size[2] = { 6, 4 };
    qkv_status status = explain_sizes(size, 2, "N,DK", err);
    if (status) return status;
    const int64_t n = size[0], d = size[1];
    const char **names = page_numbered(p, "", n);
    struct explain_random r = { (uint64_t)explain_options.seed };
    float *x[3], *out = floats(p, n, d), *kernel = floats(p, n, n), *y[GRIDS];
    double *column = page_take(p, (size_t)n, sizeof *column);
    for (int i = 0; i < 3; i++) explain_normals(x[i] = floats(p, n, d), n * d, 1, &r);
    for (int i = 0; i < GRIDS; i++) y[i] = floats(p, n, n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double s = 0;
            for (int64_t e = 0; e < d; e++) s += (double)x[0][i * d + e] * (double)x[1][j * d + e];
            y[SCORE][i * n + j] = y[TURNED][j * n + i] =
                j > i ? -INFINITY : (float)(s / sqrt((double)d));
        }
    qkv_softmax_rows(y[WEIGHT], y[SCORE], n, n, n, n);
    for (int64_t i = 0; i < n; i++) { // with queries as columns, each column has a softmax
        for (int64_t j = 0; j < n; j++) column[j] = (double)y[TURNED][j * n + i];
        explain_softmax(column, column, n, 1);
        for (int64_t j = 0; j < n; j++) y[TURNED_WEIGHT][j * n + i] = (float)column[j];
    }
    const struct qkv_attention a = { .B = 1, .T = n, .S = n, .H = 1, .E = d, .causal = true };
    if ((status = explain_attend(out, kernel, x[0], x[1], x[2], &a, err))) return status;
    const double rows = apart(y[WEIGHT], kernel, n, true),
                 columns = apart(y[TURNED_WEIGHT], kernel, n, false);
    for (int64_t i = 0; i < n * n; i++) { // NaN is drawn as a masked cell
        if (y[SCORE][i] == -INFINITY) y[WEIGHT][i] = NAN;
        if (y[TURNED][i] == -INFINITY) y[TURNED_WEIGHT][i] = NAN;
    }
    static const char *const about[GRIDS][2] = {
        { "scores, queries as rows", "masked scores are -INFINITY: above the diagonal" },
        { "weights, queries as rows", "each row sums to 1; hatched: masked, weight 0" },
        { "scores, queries as columns", "masked scores are -INFINITY: below the diagonal" },
        { "weights, queries as columns", "each column sums to 1; hatched: masked, weight 0" }
    };
    for (int i = 0; i < GRIDS; i++) {
        struct qkv_chart_panel *panel = add_grid(p, about[i][0], y[i], n, n, names, names,
                                                 i % 2 ? QKV_CHART_WEIGHTS : QKV_CHART_SIGNED);
        panel->note = about[i][1];
        panel->x.name = i < 2 ? "key" : "query";
        panel->y.name = i < 2 ? "query" : "key";
    }
    p->across = 2;
    page_title(p, "What does a causal mask hide?");
    page_say(p,
             "A token attends to itself and to the tokens before it: of %lld scores %lld are "
             "-INFINITY before the softmax, and their weights are 0. With queries as rows the "
             "softmax runs along a row, with queries as columns along a column: the weights are "
             "the same, and differ from the weights of the kernel by %s.",
             (long long)(n * n), (long long)(n * (n - 1) / 2),
             page_bound(p, fmax(rows, columns), 1e-6));
    return QKV_OK;
}
