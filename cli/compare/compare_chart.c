// SPDX-License-Identifier: MIT
// compare_chart.c: draws the measured time and memory over n as lines, or the counted operations.
// The title of the chart is a question, its sentence is the answer.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "compare/compare.h"
#include "frame/charts.h"

enum { PANELS = 2 * COMPARE_SIZES, BARS = COMPARE_KINDS + 2 };
enum quantity { TIME, MEMORY, OPERATIONS };

// A panel of the chart, and the arrays that it points to.
struct panel {
    double x[COMPARE_SIZES], y[COMPARE_KINDS][COMPARE_SIZES];
    struct qkv_chart_line line[COMPARE_KINDS];
    struct qkv_chart_mark mark; // where n = d
    char name[64];
};

static double quantity_of(const struct compare_point *p, enum quantity what)
{
    if (!p) return NAN;
    return what == TIME     ? 1e3 * p->best
           : what == MEMORY ? p->grown / (1 << 20)
                            : 1e-6 * p->operations;
}

// Adds one line per kind of layer to a panel: its time, memory or operations over n, at one d.
static void fill(struct panel *p, struct qkv_chart_panel *to, const struct compare_report *r,
                 int64_t d, enum quantity what)
{
    static const char *const names[] = { "Time", "Memory", "Operations" }, *const units[] = {
        "ms", "MiB", "millions"
    };
    const struct compare_job *job = r->job;
    int64_t lines = 0;
    snprintf(p->name, sizeof p->name, "%s, d = %lld", names[what], (long long)job->d[d]);
    for (int64_t n = 0; n < job->n_count; n++) p->x[n] = (double)job->n[n];
    for (int kind = 0; kind < COMPARE_KINDS; kind++) {
        if (!job->wanted[kind]) continue;
        for (int64_t n = 0; n < job->n_count; n++)
            p->y[kind][n] = quantity_of(compare_at(r->points, job, kind, d, n), what);
        p->line[lines++] =
            (struct qkv_chart_line){ .name = compare_baselines[kind].name,
                                     .x = p->x,
                                     .y = p->y[kind],
                                     .n = job->n_count,
                                     .hue = kind ? kind : QKV_CHART_RED,
                                     .style = kind ? QKV_CHART_LINE : QKV_CHART_STRONG };
    }
    *to = (struct qkv_chart_panel){ .name = p->name,
                                    .x = { .name = "tokens", .log = true },
                                    .y = { .name = units[what], .log = true },
                                    .line = p->line,
                                    .lines = lines };
}

// Writes the sentence: at the largest size, how many kinds are faster than exact attention, which
// one is the fastest, and which one the slowest; without exact attention, the fastest one.
static void finding(char *out, size_t size, const struct compare_report *r)
{
    const struct compare_job *job = r->job;
    const int64_t n = job->n_count - 1, d = job->d_count - 1;
    const struct compare_point *exact = compare_at(r->points, job, 0, d, n), *fast = NULL,
                               *slow = NULL;
    int faster = 0, measured = 0;
    for (int kind = 1; kind < COMPARE_KINDS; kind++) {
        const struct compare_point *p = compare_at(r->points, job, kind, d, n);
        if (!p) continue;
        measured++;
        faster += exact && p->best < exact->best;
        if (!fast || p->best < fast->best) fast = p;
        if (!slow || p->best > slow->best) slow = p;
    }
    size_t used = (size_t)snprintf(out, size, "At %lld tokens of width %lld, ",
                                   (long long)job->n[n], (long long)job->d[d]);
    if (!fast)
        snprintf(out + used, size - used, "exact attention takes %.3g ms.",
                 exact ? 1e3 * exact->best : NAN);
    else if (!exact)
        snprintf(out + used, size - used, "%s is the fastest of these layers.",
                 compare_baselines[fast->kind].name);
    else if (!faster)
        snprintf(out + used, size - used,
                 "exact attention is the fastest of these layers; %s takes %.2g times as long.",
                 compare_baselines[slow->kind].name, slow->best / exact->best);
    else
        snprintf(out + used, size - used,
                 "%d of %d layers are faster than exact attention; %s, the fastest, takes %.2g %% "
                 "of its time, and %s, the slowest, %.2g times its time.",
                 faster, measured, compare_baselines[fast->kind].name,
                 100 * fast->best / exact->best, compare_baselines[slow->kind].name,
                 slow->best / exact->best);
}

qkv_status compare_chart(const char *path, const struct compare_report *r, qkv_error *err)
{
    const int64_t sizes = r->job->d_count;
    struct panel *own = cmd_alloc((size_t)(2 * sizes), sizeof *own);
    struct qkv_chart_panel panel[PANELS];
    char found[512];
    for (int64_t i = 0; i < 2 * sizes; i++)
        fill(&own[i], &panel[i], r, i / 2, i % 2 ? MEMORY : TIME);
    finding(found, sizeof found, r);
    const struct qkv_chart c = { .title = "How does the cost of a layer grow with the text?",
                                 .sentence = found,
                                 .panel = panel,
                                 .panels = 2 * sizes,
                                 .across = 2,
                                 .view = "Compare" };
    const qkv_status status = cmd_chart_file(&c, path, NULL, err);
    free(own);
    return status;
}

// ---- operations --------------------------------------------------------------------------------
// Marks n = d, if a formula of a kind that is shown has a d^2: there the squares are equal.
static void mark_equal(struct panel *p, struct qkv_chart_panel *to, const struct compare_job *job,
                       int64_t d)
{
    const int64_t size = job->d[d];
    bool squares = false;
    for (int kind = 0; kind < COMPARE_KINDS; kind++)
        squares |= job->wanted[kind] && strstr(compare_baselines[kind].complexity, "d^2");
    if (!squares || size <= job->n[0] || size >= job->n[job->n_count - 1]) return;
    p->mark = (struct qkv_chart_mark){ .x = (double)size, .y = NAN, .text = "n = d" };
    to->mark = &p->mark;
    to->marks = 1;
}

// Writes a number of operations in millions, from 1e9 in billions, with at least three digits.
static const char *millions(char out[32], double operations)
{
    if (operations < 999.5e6)
        snprintf(out, 32, "%.3g million", 1e-6 * operations);
    else
        snprintf(out, 32, operations < 999.5e9 ? "%.3g billion" : "%.0f billion",
                 1e-9 * operations);
    return out;
}

// Writes the sentence: at the largest size, the operations of exact attention and of the kind with
// the fewest.
static void finding_counts(char *out, size_t size, const struct compare_report *r)
{
    const struct compare_job *job = r->job;
    const int64_t n = job->n_count - 1, d = job->d_count - 1;
    const struct compare_point *exact = compare_at(r->points, job, 0, d, n), *few = exact;
    int fewer = 0, others = 0;
    char number[32];
    for (int kind = 1; kind < COMPARE_KINDS; kind++) {
        const struct compare_point *p = compare_at(r->points, job, kind, d, n);
        if (!p) continue;
        others++;
        fewer += exact && p->operations < exact->operations;
        if (!few || p->operations < few->operations) few = p;
    }
    size_t used = (size_t)snprintf(out, size, "At %lld tokens of width %lld, ",
                                   (long long)job->n[n], (long long)job->d[d]);
    if (!few)
        snprintf(out + used, size - used, "no layer can run.");
    else if (!exact)
        snprintf(out + used, size - used, "%s takes the fewest operations of these layers: %s.",
                 compare_baselines[few->kind].name, millions(number, few->operations));
    else if (!fewer)
        snprintf(out + used, size - used, "exact attention takes %s operations, no more than %s.",
                 millions(number, exact->operations),
                 others ? "any other of these layers" : "its formula says");
    else
        snprintf(out + used, size - used,
                 "exact attention takes %s operations; %d of %d other layers take fewer, and "
                 "%s, with the fewest, %.2g %% of them.",
                 millions(number, exact->operations), fewer, others,
                 compare_baselines[few->kind].name, 100 * few->operations / exact->operations);
}

// The bars of the errors on a model, and the arrays that they point to.
struct bars {
    double y[BARS];
    const char *label[BARS];
    struct qkv_chart_line line;
    char name[2 * CMD_PATH];
};

// Adds a panel with the mean errors on some q, k and v, of an output of 0 and of the mean of the
// values too; its name is in b->name. Returns false if no kind has an error.
static bool fill_errors(struct bars *b, struct qkv_chart_panel *to, const struct compare_errors *e)
{
    int64_t n = 0;
    b->label[n] = "output 0";
    b->y[n++] = 1;
    b->label[n] = "mean of v";
    b->y[n++] = e->average.mean;
    for (int kind = 0; kind < COMPARE_KINDS; kind++) {
        if (!e->kind[kind].count) continue;
        b->label[n] = compare_baselines[kind].name;
        b->y[n++] = e->kind[kind].mean;
    }
    if (n == 2) return false;
    b->line = (struct qkv_chart_line){ .y = b->y, .n = n, .hue = 1, .style = QKV_CHART_BARS };
    *to = (struct qkv_chart_panel){ .name = b->name,
                                    .x = { .label = b->label, .labels = n },
                                    .y = { .name = "|out - exact| / |exact|", .zero = true },
                                    .line = &b->line,
                                    .lines = 1 };
    return true;
}

qkv_status compare_chart_counts(const char *path, const struct compare_report *r, qkv_error *err)
{
    const int64_t sizes = r->job->d_count;
    struct panel *own = cmd_alloc((size_t)sizes, sizeof *own);
    struct bars *bars = cmd_alloc(1, sizeof *bars);
    struct qkv_chart_panel panel[PANELS];
    char found[512];
    for (int64_t i = 0; i < sizes; i++) {
        fill(&own[i], &panel[i], r, i, OPERATIONS);
        mark_equal(&own[i], &panel[i], r->job, i);
    }
    finding_counts(found, sizeof found, r);
    if (r->model)
        snprintf(bars->name, sizeof bars->name, "Error on q, k and v of %s, %lld tokens",
                 r->text->model, (long long)r->text->tokens);
    const struct qkv_chart c = { .title = "How many operations does a layer take?",
                                 .sentence = found,
                                 .panel = panel,
                                 .panels = sizes +
                                           (r->model && fill_errors(bars, &panel[sizes], r->model)),
                                 .across = 2,
                                 .view = "Compare" };
    const qkv_status status = cmd_chart_file(&c, path, NULL, err);
    free(bars);
    free(own);
    return status;
}

// ---- arrays of the caller ----------------------------------------------------------------------
// Writes the sentence: the approximation with the smallest error, and its cost.
static void finding_arrays(char *out, size_t size, const struct compare_report *r)
{
    const struct compare_job *job = r->job;
    const struct compare_point *exact = compare_at(r->points, job, 0, 0, 0);
    int best = 0, count = 0;
    for (int kind = 1; kind < COMPARE_KINDS; kind++) {
        const struct compare_error *e = &r->arrays->kind[kind];
        if (!e->count) continue;
        count++;
        if (!best || e->mean < r->arrays->kind[best].mean) best = kind;
    }
    if (!best) {
        snprintf(out, size, "No approximation can run on these arrays.");
        return;
    }
    const struct compare_point *p = compare_at(r->points, job, best, 0, 0);
    size_t used = (size_t)snprintf(
        out, size,
        "With %lld keys per query, %s has the smallest error of %d approximation%s, %.2g",
        (long long)job->keys, compare_baselines[best].name, count, count == 1 ? "" : "s",
        r->arrays->kind[best].mean);
    if (p && exact)
        used += (size_t)snprintf(
            out + used, size - used, ", for %.2g times the %s of exact attention",
            job->counted ? p->operations / exact->operations : p->best / exact->best,
            job->counted ? "operations" : "time");
    snprintf(out + used, size - used, "; the mean of the values has %.2g.",
             r->arrays->average.mean);
}

qkv_status compare_chart_arrays(const char *path, const struct compare_report *r, qkv_error *err)
{
    const bool counted = r->job->counted;
    struct bars errors, cost;
    struct qkv_chart_panel panel[2];
    char found[512];
    int64_t n = 0;
    snprintf(errors.name, sizeof errors.name, "Error on your q, k and v");
    for (int kind = 0; kind < COMPARE_KINDS; kind++) {
        const struct compare_point *p = compare_at(r->points, r->job, kind, 0, 0);
        if (!p) continue;
        cost.label[n] = compare_baselines[kind].name;
        cost.y[n++] = quantity_of(p, counted ? OPERATIONS : TIME);
    }
    cost.line = (struct qkv_chart_line){ .y = cost.y, .n = n, .hue = 2, .style = QKV_CHART_BARS };
    panel[0] = (struct qkv_chart_panel){ .name = counted ? "Operations" : "Time",
                                         .x = { .label = cost.label, .labels = n },
                                         .y = { .name = counted ? "millions" : "ms", .zero = true },
                                         .line = &cost.line,
                                         .lines = 1 };
    finding_arrays(found, sizeof found, r);
    const struct qkv_chart c = { .title = "What does an approximation of attention cost?",
                                 .sentence = found,
                                 .panel = panel,
                                 .panels = 1 + fill_errors(&errors, &panel[1], r->arrays),
                                 .across = 2,
                                 .view = "Compare" };
    return cmd_chart_file(&c, path, NULL, err);
}

// ---- dense and fused attention ------------------------------------------------------------------
qkv_status compare_chart_memory(const char *path, const struct compare_job *job,
                                const struct compare_point *fused,
                                const struct compare_point *dense, qkv_error *err)
{
    double x[COMPARE_SIZES], y[2][COMPARE_SIZES];
    char found[256];
    int64_t last = 0;
    for (int64_t i = 0; i < job->n_count; i++) {
        const bool fits = dense[i].status == QKV_OK;
        x[i] = (double)job->n[i];
        y[0][i] = fused[i].grown / (1 << 20);
        y[1][i] = fits ? dense[i].grown / (1 << 20) : NAN;
        if (fits) last = i;
    }
    snprintf(found, sizeof found,
             "At %lld tokens a matrix of scores requires %.3g MiB, the fused operator %.3g MiB.",
             (long long)job->n[last], y[1][last], y[0][last]);
    const struct qkv_chart_line lines[] = {
        { .name = "fused", .x = x, .y = y[0], .n = job->n_count, .style = QKV_CHART_STRONG },
        { .name = "dense", .x = x, .y = y[1], .n = job->n_count, .style = QKV_CHART_STRONG }
    };
    const struct qkv_chart_panel panel = { .x = { .name = "tokens", .log = true },
                                           .y = { .name = "MiB", .log = true },
                                           .line = lines,
                                           .lines = 2 };
    const struct qkv_chart c = { .title = "How much memory does attention use?",
                                 .sentence = found,
                                 .panel = &panel,
                                 .panels = 1,
                                 .view = "Compare" };
    return cmd_chart_file(&c, path, NULL, err);
}
