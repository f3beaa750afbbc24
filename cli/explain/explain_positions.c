// SPDX-License-Identifier: MIT
// explain_positions.c: implements a topic of `qkv explain`: sinusoids, rotation, ALiBi and, of a
// model, its learned positions or relative biases, each by the distance of query and key.
#include "explain/explain.h"
#include "frame/arrays.h"
#include <math.h>
#include <stdlib.h>

enum { ROWS = 64, FAR = 48, STARTS = 3, LAST = 500 };
static const int64_t starts[STARTS] = { 0, 10, 100 };

// Returns the cosine of two rows of a table of positions.
static double cosine(const float *table, int64_t a, int64_t b, int64_t D)
{
    double ab = 0, aa = 0, bb = 0;
    for (int64_t d = 0; d < D; d++) {
        const double x = (double)table[a * D + d], y = (double)table[b * D + d];
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    return ab / sqrt(aa * bb);
}

static void name_axes(struct qkv_chart_panel *panel, const char *y, const char *formula)
{
    panel->x.name = "distance";
    panel->y.name = y;
    panel->note = formula;
}

// Adds the map of a table[P][D] of positions, of at most ROWS x ROWS numbers, and the cosines of
// its rows by their distance.
static void add_table(struct page *p, const char *name, const float *table, int64_t P, int64_t D,
                      const char *formula)
{
    const int64_t rows = P < ROWS ? P : ROWS, columns = D < ROWS ? D : ROWS;
    double x[2 * FAR + 1], y[2 * FAR + 1];
    float *map = page_grid(p, name, rows, columns, NULL, NULL, QKV_CHART_SIGNED);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t d = 0; d < columns; d++) map[i * columns + d] = table[i * D + d];
    p->panel[p->panels - 1].x.name = "dimension";
    p->panel[p->panels - 1].y.name = "position";
    p->panel[p->panels - 1].note = page_text(p, "the first %lld positions, %lld of %lld dimensions",
                                             (long long)rows, (long long)columns, (long long)D);
    struct qkv_chart_panel *near = page_panel(p, page_text(p, "%s: similarity by distance", name));
    for (int f = 0; f < STARTS; f++) {
        int64_t n = 0;
        for (int64_t far = -FAR; far <= FAR; far++) {
            if (starts[f] + far < 0 || starts[f] + far >= P || starts[f] >= P) continue;
            x[n] = (double)far;
            y[n++] = cosine(table, starts[f], starts[f] + far, D);
        }
        if (n) page_line(p, near, page_text(p, "from %lld", (long long)starts[f]), x, y, n);
    }
    name_axes(near, "cosine", formula);
}

// Adds the cosine of q = (1, ..., 1) and k = q after their rotation.
static qkv_status add_rotation(struct page *p, int64_t D, qkv_error *err)
{
    double x[FAR + 1], y[FAR + 1];
    float *rows = page_take(p, (size_t)((FAR + 1) * D), sizeof *rows);
    int32_t at[FAR + 1];
    for (int64_t i = 0; i < (FAR + 1) * D; i++) rows[i] = 1;
    for (int i = 0; i <= FAR; i++) at[i] = i, x[i] = i;
    const qkv_status status = qkv_rotate(rows, at, FAR + 1, 1, D, 0, false, false);
    if (status)
        return cmd_error(err, status, NULL, "cannot rotate rows of %lld dimensions", (long long)D);
    for (int i = 0; i <= FAR; i++) y[i] = cosine(rows, 0, i, D);
    struct qkv_chart_panel *turn =
        page_panel(p, "rotary positions: cosine of q = (1, ..., 1) and k = q, both rotated");
    page_line(p, turn, "rotated", x, y, FAR + 1);
    name_axes(turn, "cosine",
              "pair k of a query or key at position t turns by the angle t / 10000^(2k/d)");
    return QKV_OK;
}

// Adds the biases of ALiBi (Press et al. 2021, arXiv 2108.12409) in four of 8 heads.
static void add_alibi(struct page *p)
{
    enum { HEADS = 8 };
    double x[FAR + 1], y[FAR + 1];
    float slope[HEADS];
    qkv_alibi_slopes(slope, HEADS);
    struct qkv_chart_panel *bias =
        page_panel(p, "ALiBi: -distance x 2^-(h + 1) added to the score, head h of 8");
    for (int h = 0; h < HEADS; h += 2) {
        for (int i = 0; i <= FAR; i++) x[i] = i, y[i] = -i * (double)slope[h];
        page_line(p, bias, page_text(p, "head %d", h), x, y, FAR + 1);
    }
    name_axes(bias, "bias", "s_ij = q_i . k_j / sqrt(d_k) - m_h |i - j|, m_h = 2^(-8 (h + 1) / H)");
}

// Adds the biases that a model with relative positions adds to the scores of --layer (default: 0),
// in the head of --head or in the first four heads.
static void add_relative(struct page *p, const struct text_run *s)
{
    enum { MOST = 4 };
    const int64_t layer = explain_options.layer >= 0 ? explain_options.layer : 0,
                  only = explain_options.head,
                  end = only >= 0     ? only + 1
                        : s->H < MOST ? s->H
                                      : MOST;
    const struct seen_layer *l = &s->layer[layer];
    const int64_t far = l->reach < FAR ? l->reach : FAR;
    double x[2 * FAR + 1], y[2 * FAR + 1];
    struct qkv_chart_panel *panel =
        page_panel(p, page_text(p, "relative positions of %s: bias by j - i, layer %lld",
                                s->info.name, (long long)layer));
    for (int64_t h = only >= 0 ? only : 0; h < end; h++) {
        int64_t n = 0;
        for (int64_t d = -far; d <= far; d++) {
            x[n] = (double)d;
            y[n++] = (double)l->relative[h * (2 * l->reach + 1) + l->reach + d];
        }
        page_line(p, panel, page_text(p, "head %lld", (long long)h), x, y, n);
    }
    if (end < s->H && only < 0)
        name_axes(panel, "bias",
                  page_text(p,
                            "s_ij = q_i . k_j / sqrt(d_k) + b_(j - i), b learned per head; the "
                            "first %lld of %lld heads, --head N shows another",
                            (long long)end, (long long)s->H));
    else
        name_axes(panel, "bias", "s_ij = q_i . k_j / sqrt(d_k) + b_(j - i), b learned per head");
    page_say(p, " %s learned a bias for each distance and head.", s->info.name);
}

// Adds the learned table of positions of a model, as its file names it.
static qkv_status add_learned(struct page *p, const char *dir, const char *model, qkv_error *err)
{
    static const char *const names[] = { "embeddings.position_embeddings.weight",
                                         "bert.embeddings.position_embeddings.weight", "wpe.weight",
                                         "transformer.wpe.weight" };
    qkv_tensors *all = NULL;
    struct array table = { .what = NULL };
    qkv_status status = array_open(&all, dir, false, err); // a folder, also with shards
    for (size_t i = 0; i < sizeof names / sizeof *names && !status && !table.tensor; i++)
        status = array_find(&table, names[i], NULL, all, dir, err);
    if (!status && (!table.tensor || table.rank != 2))
        status = cmd_error(err, QKV_ERR_UNSUPPORTED, model,
                           "expected relative biases or a learned table of positions, such as %s",
                           names[0]);
    if (!status) status = array_load(&table, err);
    if (!status) {
        const int64_t P = table.shape[0], D = table.shape[1];
        add_table(p, page_text(p, "learned by %s", model), table.at, P, D,
                  "x_t = embedding + p_t, p_t a row of a learned matrix");
        if (P > 116)
            page_say(p,
                     " The learned positions of %s are no function of the distance: the cosine at "
                     "distance 16 is %.3f from position 1 and %.3f from position 100.",
                     model, cosine(table.at, 1, 17, D), cosine(table.at, 100, 116, D));
    }
    array_free(&table);
    qkv_tensors_close(all);
    return status;
}

static qkv_status refuse_place(const char *model, qkv_error *err)
{
    return cmd_error(err, QKV_ERR_USAGE, model,
                     "--layer and --head require a model with relative positions, of which each "
                     "head has its own");
}

static qkv_status add_model(struct page *p, qkv_error *err)
{
    char dir[CMD_PATH];
    struct text_run *s;
    qkv_status status = cmd_model_find(dir, err);
    if (!status) status = text_run_start(p, &s, NULL, EXPLAIN_ANIMAL, err);
    if (status) return status;
    const bool placed = explain_options.layer >= 0 || explain_options.head >= 0;
    if (s->layer[0].relative && !(status = text_run_check(s, err))) add_relative(p, s);
    if (s->layer[0].relative || status) return status;
    return placed ? refuse_place(s->info.name, err) : add_learned(p, dir, s->info.name, err);
}

qkv_status explain_positions(struct page *p, int argc, char **argv, qkv_error *err)
{
    (void)argc;
    (void)argv;
    enum { COUNT = LAST + FAR + 1 };
    const int64_t D = explain_options.width ? explain_options.width : 64;
    double worst = 0;
    if (D % 2) // the formula has a sine and a cosine for each angle
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--d: expected an even number, found %lld",
                         (long long)D);
    if (!common.model && (explain_options.layer >= 0 || explain_options.head >= 0))
        return refuse_place(NULL, err);
    float *table = page_take(p, (size_t)(COUNT * D), sizeof *table);
    qkv_status status = qkv_sinusoids(table, COUNT, D);
    if (status)
        return cmd_error(err, status, NULL, "cannot compute sinusoids of %lld dimensions",
                         (long long)D);
    page_title(p, "How does a sinusoid encode a position?");
    add_table(p, "sinusoids", table, COUNT, D,
              "p_(t, 2k) = sin(t / 10000^(2k/d)), p_(t, 2k+1) = cos(t / 10000^(2k/d))");
    for (int f = 0; f < STARTS; f++)
        for (int64_t far = starts[f] < FAR ? -starts[f] : -FAR; far <= FAR; far++)
            worst = fmax(worst, fabs(cosine(table, starts[f], starts[f] + far, D) -
                                     cosine(table, LAST, LAST + far, D)));
    if ((status = add_rotation(p, D, err))) return status;
    add_alibi(p);
    page_table(p, "cosine by distance", 8, 2);
    page_cell(p, 0, 0, "distance");
    page_cell(p, 0, 1, "cosine");
    for (int64_t i = 0; i < 7; i++) {
        const int64_t far = i ? (int64_t)1 << (i - 1) : 0;
        page_cell(p, i + 1, 0, "%lld", (long long)far);
        page_cell(p, i + 1, 1, "%.3f", cosine(table, 0, far, D));
    }
    page_say(p,
             "The similarity of two sinusoidal positions depends only on their distance: %.3f at "
             "distance 1, %.3f at distance 16; from positions 0, 10, 100 and 500 the curves differ "
             "by %s. The first dimensions oscillate fast, the last ones slowly.",
             cosine(table, 0, 1, D), cosine(table, 0, 16, D), page_bound(p, worst, 1e-6));
    p->across = 2;
    return common.model ? add_model(p, err) : QKV_OK;
}
