// SPDX-License-Identifier: MIT
// analogy_picture.c: draws a sum of words as arrows in a plane.
//
// The sum a - b + c has its own plane, through b and spanned by c - b and a - b: its four points b,
// c, a and a - b + c are the corners of a parallelogram in it. Any other sum is drawn in the plane
// through the origin (the mean of all words) that contains the sum and its first word. Nearest
// words are projected onto the plane.
#include "analogy/analogy_picture.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWN = 8, LABEL = 96, TERMS = 32, POINTS = TERMS + 2, COLUMNS = 3 };

struct plane {
    int64_t D;
    double *mean;    // [D] the mean of all word vectors
    double *from;    // [D] the origin of the picture
    double *axis[2]; // [D] two perpendicular directions of length 1
    bool own;        // true: the sum is a - b + c
    int64_t a, b, c; // with `own`, the indices of these terms
};
struct drawing {
    struct plane at;
    double *sum;                         // [n + 1][D] the partial sums; row 0 is the origin
    double x[3 + POINTS], y[3 + POINTS]; // ends of arrows, then words of the sum
    double near_x[DRAWN], near_y[DRAWN];
    double corner_x[3], corner_y[3];
    char label[POINTS][LABEL], near[DRAWN][LABEL], whole[1024], name[2][2 * LABEL], note[600];
    char sentence[1400], cell[DRAWN + 1][COLUMNS][LABEL];
};

static void vector(double *out, const struct analogy *a, const struct plane *p, int32_t id)
{
    float *row = cmd_alloc((size_t)p->D, sizeof *row);
    const bool failed = qkv_model_embedding(a->model, row, id) != QKV_OK;
    for (int64_t d = 0; d < p->D; d++) out[d] = failed ? 0 : (double)row[d] - p->mean[d];
    free(row);
}

static double dot(const double *a, const double *b, int64_t D)
{
    double sum = 0;
    for (int64_t d = 0; d < D; d++) sum += a[d] * b[d];
    return sum;
}

// Makes axis[which] the direction of to - from that is perpendicular to the axes before it. Returns
// false if there is no such direction.
static bool set_axis(struct plane *p, int which, const double *to, const double *from)
{
    double *u = p->axis[which];
    double before = 0;
    for (int64_t d = 0; d < p->D; d++) {
        u[d] = to[d] - (from ? from[d] : 0);
        before += u[d] * u[d];
    }
    for (int i = 0; i < which; i++) {
        const double along = dot(u, p->axis[i], p->D);
        for (int64_t d = 0; d < p->D; d++) u[d] -= along * p->axis[i][d];
    }
    const double left = dot(u, u, p->D);
    for (int64_t d = 0; d < p->D; d++) u[d] = left > 1e-12 * before ? u[d] / sqrt(left) : 0;
    return left > 1e-12 * before;
}

static void project(double *x, double *y, const struct plane *p, const double *v)
{
    *x = *y = 0;
    for (int64_t d = 0; d < p->D; d++) {
        *x += (v[d] - p->from[d]) * p->axis[0][d];
        *y += (v[d] - p->from[d]) * p->axis[1][d];
    }
}

static void find_mean(struct plane *p, const struct analogy *a)
{
    const int64_t vocab = qkv_model_info(a->model).vocab;
    float *row = cmd_alloc((size_t)p->D, sizeof *row);
    for (int64_t i = 0; i < vocab; i++)
        if (!qkv_model_embedding(a->model, row, (int32_t)i))
            for (int64_t d = 0; d < p->D; d++) p->mean[d] += (double)row[d] / (double)vocab;
    free(row);
}

// Finds whether the sum is a - b + c, in any order.
static void find_pattern(struct plane *p, const struct analogy *a)
{
    int minus = 0;
    p->a = p->c = -1;
    for (int64_t i = 0; i < a->n; i++) {
        minus += a->sign[i] < 0;
        if (a->sign[i] < 0)
            p->b = i;
        else if (p->a < 0)
            p->a = i;
        else
            p->c = i;
    }
    p->own = a->n == 3 && minus == 1;
}

// Computes the partial sums and the plane, and projects the words.
static void place(struct drawing *g, const struct analogy *a)
{
    struct plane *p = &g->at;
    const int64_t n = a->n, D = p->D;
    double *v = cmd_alloc((size_t)(n * D), sizeof *v), *near = cmd_alloc((size_t)D, sizeof *near);
    for (int64_t d = 0; d < D; d++) g->sum[d] = 0;
    for (int64_t i = 0; i < n; i++) {
        vector(v + i * D, a, p, a->id[i]);
        for (int64_t d = 0; d < D; d++)
            g->sum[(i + 1) * D + d] = g->sum[i * D + d] + (double)a->sign[i] * v[i * D + d];
    }
    const double *all = g->sum + n * D;
    if (p->own) {
        memcpy(p->from, v + p->b * D, (size_t)D * sizeof *v);
        set_axis(p, 0, v + p->c * D, v + p->b * D);
        set_axis(p, 1, v + p->a * D, v + p->b * D);
    } else {
        set_axis(p, 0, all, NULL);
        bool found = set_axis(p, 1, v, NULL);
        for (int64_t i = 0; i < a->found && !found; i++) { // the sum is one word, or parallel to it
            vector(near, a, p, a->near_id[i]);
            found = set_axis(p, 1, near, NULL);
        }
    }
    for (int64_t i = 0; i <= n; i++) // partial sums
        project(&g->x[i], &g->y[i], p, g->sum + i * D);
    if (p->own) { // two equal arrows: from b to c, and from a to the sum
        project(&g->corner_x[0], &g->corner_y[0], p, v + p->b * D);
        project(&g->corner_x[1], &g->corner_y[1], p, v + p->c * D);
        project(&g->x[0], &g->y[0], p, v + p->a * D);
        g->x[1] = g->x[n];
        g->y[1] = g->y[n];
    }
    for (int64_t i = 0; i < n; i++) project(&g->x[n + 1 + i], &g->y[n + 1 + i], p, v + i * D);
    for (int64_t i = 0; i < a->found && i < DRAWN; i++) {
        vector(near, a, p, a->near_id[i]);
        project(&g->near_x[i], &g->near_y[i], p, near);
    }
    free(v);
    free(near);
}

// Writes the labels, the axes' names, the note and the sentence.
static void describe(struct drawing *g, const struct analogy *a)
{
    const struct plane *p = &g->at;
    const char *minus = cmd_utf8() ? "−" : "-";
    size_t used = 0;
    for (int64_t i = 0; i < a->n; i++) {
        snprintf(g->label[i], LABEL, "%.60s", a->word[i]);
        if (used + 80 < sizeof g->whole)
            used +=
                (size_t)snprintf(g->whole + used, sizeof g->whole - used, "%s%s%.60s", i ? " " : "",
                                 a->sign[i] < 0 ? (cmd_utf8() ? "− " : "- ")
                                 : i            ? "+ "
                                                : "",
                                 a->word[i]);
    }
    for (int64_t i = 0; i < a->found && i < DRAWN; i++) {
        snprintf(g->near[i], LABEL, "%.60s %.3f", a->near[i], (double)a->cosine[i]);
        snprintf(g->cell[i + 1][0], LABEL, "%lld", (long long)i + 1);
        snprintf(g->cell[i + 1][1], LABEL, "%.60s", a->near[i]);
        snprintf(g->cell[i + 1][2], LABEL, "%.3f", (double)a->cosine[i]);
    }
    const char *to = cmd_utf8() ? "→" : "->";
    if (p->own) {
        snprintf(g->name[0], sizeof g->name[0], "%.60s %s %.60s", a->word[p->b], to, a->word[p->c]);
        snprintf(g->name[1], sizeof g->name[1], "%.60s %s %.60s, at a right angle", a->word[p->b],
                 to, a->word[p->a]);
        snprintf(g->note, sizeof g->note,
                 "the plane through %.60s, %.60s and %.60s, which contains the sum: both arrows "
                 "are the same vector, %.60s %s %.60s; the nearest words, with their cosines with "
                 "the sum, are projected onto the plane",
                 a->word[p->b], a->word[p->c], a->word[p->a], a->word[p->c], minus, a->word[p->b]);
    } else {
        snprintf(g->name[0], sizeof g->name[0], "the sum");
        snprintf(g->name[1], sizeof g->name[1], "%.60s, at a right angle",
                 a->n > 1   ? a->word[0]
                 : a->found ? a->near[0]
                            : "nearest word");
        snprintf(g->note, sizeof g->note,
                 "the plane through the mean of all words that contains the sum and the other "
                 "axis; each arrow adds one word; the nearest words, with their cosines with the "
                 "sum, are projected onto the plane");
    }
    if (a->found)
        snprintf(g->sentence, sizeof g->sentence, "%s is nearest to “%.60s”, cosine %.3f%s%.60s%s",
                 g->whole, a->near[0], (double)a->cosine[0],
                 a->found > 1 ? "; the next word is “" : "", a->found > 1 ? a->near[1] : "",
                 a->found > 1 ? "”" : ".");
    else
        snprintf(g->sentence, sizeof g->sentence, "%s has no other word near it.", g->whole);
    used = strlen(g->sentence);
    if (a->found > 1)
        snprintf(g->sentence + used, sizeof g->sentence - used, " %.3f.", (double)a->cosine[1]);
}

static qkv_status draw(struct drawing *g, const struct analogy *a, const struct chart_output *to,
                       qkv_error *err)
{
    static const char *const heads[COLUMNS] = { "", "nearest word", "cosine" };
    const int64_t n = a->n, near = a->found < DRAWN ? a->found : DRAWN;
    const char *label[POINTS], *names[DRAWN], *cells[(DRAWN + 1) * COLUMNS];
    for (int64_t i = 0; i < n; i++) label[i] = g->label[i];
    for (int64_t i = 0; i < near; i++) names[i] = g->near[i];
    for (int64_t i = 0; i <= near; i++)
        for (int k = 0; k < COLUMNS; k++) cells[i * COLUMNS + k] = i ? g->cell[i][k] : heads[k];
    struct qkv_chart_line line[4];
    int64_t lines = 0;
    if (g->at.own)
        line[lines++] = (struct qkv_chart_line){
            .x = g->corner_x, .y = g->corner_y, .n = 2, .style = QKV_CHART_ARROW, .hue = 1
        };
    line[lines++] = (struct qkv_chart_line){ .x = g->x,
                                             .y = g->y,
                                             .n = g->at.own ? 2 : n + 1,
                                             .style = QKV_CHART_ARROW,
                                             .hue = QKV_CHART_RED };
    line[lines++] = (struct qkv_chart_line){ .name = "words of the sum",
                                             .x = g->x + n + 1,
                                             .y = g->y + n + 1,
                                             .n = n,
                                             .text = label,
                                             .style = QKV_CHART_POINTS,
                                             .hue = 1 };
    if (near)
        line[lines++] = (struct qkv_chart_line){ .name = "nearest words",
                                                 .x = g->near_x,
                                                 .y = g->near_y,
                                                 .n = near,
                                                 .text = names,
                                                 .style = QKV_CHART_POINTS,
                                                 .hue = QKV_CHART_QUIET };
    const int64_t end = g->at.own ? 1 : n;
    const struct qkv_chart_mark sum = {
        .x = g->x[end], .y = g->y[end], .text = g->whole, .hue = QKV_CHART_RED
    };
    const struct qkv_chart_panel panel = { .x = { .name = g->name[0] },
                                           .y = { .name = g->name[1] },
                                           .line = line,
                                           .lines = lines,
                                           .mark = &sum,
                                           .marks = 1,
                                           .equal = true,
                                           .height = 420,
                                           .note = g->note };
    const struct qkv_chart_table table = {
        .name = "nearest to the sum", .cell = cells, .rows = near + 1, .columns = COLUMNS
    };
    const struct qkv_chart c = { .title = "Where does a sum of words lead?",
                                 .sentence = g->sentence,
                                 .panel = &panel,
                                 .panels = 1,
                                 .table = &table,
                                 .view = "Analogy",
                                 .subject = qkv_model_info(a->model).name };
    const struct qkv_chart_options how = { .theme = (enum qkv_view_theme)to->theme };
    if (!common.json) return chart_print(&c, to, err);
    return to->path ? cmd_chart_file(&c, to->path, &how, err) : QKV_OK;
}

qkv_status analogy_picture(const struct analogy *a, const struct chart_output *to, qkv_error *err)
{
    struct drawing *g = cmd_alloc(1, sizeof *g);
    const int64_t D = qkv_model_info(a->model).width;
    double *all = cmd_alloc((size_t)(D * (4 + a->n + 1)), sizeof *all);
    memset(g, 0, sizeof *g);
    memset(all, 0, (size_t)(D * (4 + a->n + 1)) * sizeof *all);
    g->at = (struct plane){ .D = D, .mean = all, .from = all + D };
    g->at.axis[0] = all + 2 * D;
    g->at.axis[1] = all + 3 * D;
    g->sum = all + 4 * D;
    find_mean(&g->at, a);
    find_pattern(&g->at, a);
    place(g, a);
    describe(g, a);
    const qkv_status status = draw(g, a, to, err);
    free(all);
    free(g);
    return status;
}
