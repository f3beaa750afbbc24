// SPDX-License-Identifier: MIT
// bench_print.c: prints each row of results as soon as it is measured, as a table of 80 columns or
// as JSON.
#include <math.h>
#include <string.h>
#include "bench/bench.h"

enum { NAME_LEAST = 24, NAME_MOST = 40, PEAKS = 8 };
static const char *const rates[] = { "GFLOP/s", "GB/s", "tokens/s" };

// Writes a number with three significant digits, such as "0.0123", "1.23" or "123", and without
// separators, because "12,345" would be too wide.
static const char *figure(char out[16], double x)
{
    const int digits = x >= 99.95 ? 0 : x >= 9.995 ? 1 : x >= 0.9995 ? 2 : x >= 0.09995 ? 3 : 4;
    snprintf(out, 16, "%.*f", x >= 1e9 ? 0 : digits, x >= 1e9 ? 1e9 : x);
    return out;
}

void bench_open(struct bench_table *t, const struct bench_shape *shapes, int count)
{
    const char *const cpu = qkv_cpu_name();
    t->name_width = NAME_LEAST;
    for (int i = 0; i < count; i++) {
        const int n = (int)strlen(shapes[i].name);
        if (n > t->name_width && n <= NAME_MOST) t->name_width = n;
    }
    if (common.json) {
        printf("{\"bench\":\"%s\",\"version\":\"%s\",\"cpu\":", t->topic, qkv_version());
        cmd_json_text(stdout, cpu, strlen(cpu));
        printf(",\"isa\":\"%s\",\"threads\":%d,\"precision\":\"%s\",\"results\":[", qkv_isa(),
               qkv_threads(), qkv_precision_name(common.precision));
        return;
    }
    printf("%s %s, %d thread%s%s%s\n\n", qkv_precision_name(common.precision), t->topic,
           qkv_threads(), qkv_threads() == 1 ? "" : "s", *cpu ? ", " : "", cpu);
    printf("%-*s%8s%9s%7s%10s%6s%7s%9s\n", t->name_width, "shape", "best ms", "median", "spread",
           rates[t->rate], "peak", "moved", "error");
    fflush(stdout);
}

static void row_json(const struct bench_table *t, const struct bench_result *r)
{
    const struct bench_times *m = &r->times;
    fputs(t->rows ? ",{\"shape\":" : "{\"shape\":", stdout);
    cmd_json_text(stdout, r->shape->name, strlen(r->shape->name));
    printf(",\"isa\":\"%s\",\"arithmetic\":\"%s\",\"rounds\":%d,\"seconds\":{\"best\":%.9g,"
           "\"median\":%.9g,\"spread\":%.4g}",
           r->isa, r->arithmetic, m->rounds, m->best, m->median, m->spread);
    if (m->core > 0) printf(",\"core\":%.3g", m->core);
    if (r->flops > 0)
        printf(",\"flops\":%.9g,\"gflops\":%.6g", r->flops, r->flops / m->median / 1e9);
    printf(",\"bytes\":%.9g,\"gbytes\":%.6g", r->bytes, r->bytes / m->median / 1e9);
    if (r->tokens > 0)
        printf(",\"tokens\":%.9g,\"tokens_second\":%.6g", r->tokens, r->tokens / m->median);
    if (m->peak > 0)
        printf(",\"peak\":{\"of\":\"%s\",\"g\":%.6g,\"reached\":%.4g}",
               t->read || r->read ? "read" : "multiply-adds", m->peak / 1e9, m->of_peak);
    else
        fputs(",\"peak\":null", stdout);
    if (r->error >= 0)
        printf(",\"error\":%.4g}", r->error);
    else
        printf(",\"error\":%s}", r->error < 0 ? "null" : "\"nan\"");
}

static void remember(struct bench_table *t, const struct bench_result *r)
{
    for (int i = 0; i < PEAKS; i++) {
        if (t->peaks[i].isa && (strcmp(t->peaks[i].isa, r->isa) != 0 ||
                                strcmp(t->peaks[i].arithmetic, r->arithmetic) != 0 ||
                                t->peaks[i].read != (t->read || r->read)))
            continue;
        t->peaks[i].isa = r->isa;
        t->peaks[i].arithmetic = r->arithmetic;
        t->peaks[i].read = t->read || r->read;
        if (r->times.peak > t->peaks[i].best) t->peaks[i].best = r->times.peak;
        if (r->times.peak < t->peaks[i].least || t->peaks[i].least == 0)
            t->peaks[i].least = r->times.peak;
        return;
    }
}

qkv_status bench_row(struct bench_table *t, const struct bench_result *r, qkv_error *err)
{
    char text[7][16];
    const struct bench_times *m = &r->times;
    if (common.json) {
        row_json(t, r);
    } else {
        const double amount = t->rate == BENCH_TOKENS              ? r->tokens
                              : t->rate == BENCH_GBYTES || r->read ? r->bytes * 1e-9
                                                                   : r->flops * 1e-9;
        strcpy(text[0], "-"); // the spread of a single round is not known
        strcpy(text[1], "-");
        strcpy(text[2], "-");
        if (m->rounds > 1) snprintf(text[0], 16, "%.1f%%", 100 * m->spread);
        if (m->peak > 0) snprintf(text[1], 16, "%.0f%%", 100 * m->of_peak);
        if (!(r->error < 0)) snprintf(text[2], 16, "%.1e", r->error);
        if ((int)strlen(r->shape->name) >= t->name_width) // a long name gets a line of its own
            printf("%s\n%-*s", r->shape->name, t->name_width, "");
        else
            printf("%-*s", t->name_width, r->shape->name);
        figure(text[5], amount / m->median);
        snprintf(text[6], 16, "%.9s%s", text[5], r->read && !t->read ? " GB/s" : "");
        printf("%8s%9s%7s%10s%6s%7s%9s\n", figure(text[3], 1e3 * m->best),
               figure(text[4], 1e3 * m->median), text[0], text[6], text[1],
               cmd_bytes((char[16]){ 0 }, r->bytes, 1000), text[2]);
    }
    remember(t, r);
    if (m->core > 0 && (t->core == 0 || m->core < t->core)) t->core = m->core;
    t->rows++;
    return cmd_written(stdout, "standard output", err);
}

void bench_close(struct bench_table *t)
{
    if (common.json) {
        puts("]}");
        return;
    }
    putchar('\n');
    for (int i = 0; i < PEAKS && t->peaks[i].isa; i++) {
        char most[16], least[16];
        printf("ran     %s, %s", t->peaks[i].isa, t->peaks[i].arithmetic);
        figure(most, t->peaks[i].best / 1e9);
        figure(least, t->peaks[i].least / 1e9);
        // the peak of plain reads depends on how much is read
        if (t->peaks[i].best > 0 && t->peaks[i].read)
            printf("; peak %s%s%s GB/s, the rate of plainly reading as many bytes", least,
                   strcmp(least, most) ? " to " : "", strcmp(least, most) ? most : "");
        else if (t->peaks[i].best > 0)
            printf("; peak %s GFLOP/s, of multiply-adds in registers", most);
        putchar('\n');
    }
    puts("peak    rate of the work / peak of the machine, measured alternately; median\nspread  "
         "interquartile range of the times, divided by their median");
    if (t->moved) printf("moved   %s\n", t->moved);
    if (t->error) printf("error   %s\n", t->error);
    if (t->core > 0 && t->core < 0.95)
        printf("busy    this process had %.0f%% of its core in some row: other programs run\n",
               100 * t->core);
}

qkv_status bench_all(struct bench_table *t, const struct bench_shape *shapes, int count,
                     double seconds, qkv_error *err,
                     qkv_status (*check)(const struct bench_shape *shape, qkv_error *err),
                     qkv_status (*one)(struct bench_table *t, const struct bench_shape *shape,
                                       double seconds, qkv_error *err))
{
    qkv_status status = QKV_OK;
    for (int i = 0; i < count && !status; i++) status = check(&shapes[i], err);
    if (status) return status;
    bench_open(t, shapes, count);
    for (int i = 0; i < count && !status; i++) status = one(t, &shapes[i], seconds, err);
    if (!status) bench_close(t);
    return status;
}
