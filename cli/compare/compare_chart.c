// SPDX-License-Identifier: MIT
// compare_chart.c: draws the measured time and memory over n as lines. The title of the chart is a
// question, its sentence is the answer.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "compare/compare.h"
#include <qkv/chart.h>

enum { PANELS = 2 * COMPARE_SIZES };

// A panel of the chart, and the arrays that it points to.
struct panel {
    double x[COMPARE_SIZES], y[COMPARE_KINDS][COMPARE_SIZES];
    struct qkv_chart_line line[COMPARE_KINDS];
    char name[64];
};

// Adds one line per kind of layer to a panel: its time or its memory over n, at one d.
static void fill(struct panel *p, struct qkv_chart_panel *to, const struct compare_report *r,
                 int64_t d, bool memory)
{
    const struct compare_job *job = r->job;
    int64_t lines = 0;
    snprintf(p->name, sizeof p->name, "%s, d = %lld", memory ? "Memory" : "Time",
             (long long)job->d[d]);
    for (int64_t n = 0; n < job->n_count; n++) p->x[n] = (double)job->n[n];
    for (int kind = 0; kind < COMPARE_KINDS; kind++) {
        if (!job->wanted[kind]) continue;
        for (int64_t n = 0; n < job->n_count; n++) {
            const struct compare_point *point = compare_at(r->points, job, kind, d, n);
            p->y[kind][n] = !point ? NAN : memory ? point->grown / (1 << 20) : 1e3 * point->best;
        }
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
                                    .y = { .name = memory ? "MiB" : "ms", .log = true },
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
    for (int64_t i = 0; i < 2 * sizes; i++) fill(&own[i], &panel[i], r, i / 2, i % 2);
    finding(found, sizeof found, r);
    const struct qkv_chart c = { .title = "How does the cost of a layer grow with the text?",
                                 .sentence = found,
                                 .panel = panel,
                                 .panels = 2 * sizes,
                                 .across = 2,
                                 .view = "Compare" };
    const qkv_status status = qkv_chart_file(&c, path, common.force, NULL, err);
    free(own);
    return status;
}

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
    return qkv_chart_file(&c, path, common.force, NULL, err);
}
