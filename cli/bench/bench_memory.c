// SPDX-License-Identifier: MIT
// bench_memory.c: implements `qkv bench memory`: measures the memory that attention over n tokens
// needs in addition to its arrays.
//
// Each shape runs in a child process, so that the peak memory of the process is that of this shape.
// The children are forked before this process starts a thread.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "bench/bench.h"
#include "frame/child.h"

// The result that a child process sends to its parent.
struct told {
    qkv_status status;
    struct bench_times times;
    double scratch, scratch_thread, grown, flops, arrays; // bytes
};

struct job {
    struct qkv_attention a;
    void *q, *k, *v, *out, *scratch;
};

static qkv_status forward(void *ctx)
{
    const struct job *j = ctx;
    return qkv_attention_forward(j->out, NULL, NULL, j->q, j->k, j->v, &j->a, j->scratch);
}

// Runs in the child process: measures by how much scratch and the run raise the peak memory, after
// the arrays were allocated.
static void measure(struct told *t, struct job *j, const struct qkv_attention_plan *plan,
                    double seconds)
{
    const struct qkv_attention *a = &j->a;
    const int64_t n_q = a->T * a->H * a->E, n_k = a->S * a->G * a->E;
    j->q = bench_random(n_q, a->precision, 1);
    j->k = bench_random(n_k, a->precision, 1);
    j->v = bench_random(n_k, a->precision, 1);
    j->out = bench_random(n_q, a->precision, 1);
    t->arrays = (double)bench_size(a->precision) * 2 * (double)(n_q + n_k);
    const double before = child_peak_memory();
    j->scratch = cmd_alloc(plan->scratch, 1);
    const struct bench_work work = { forward, NULL, j, plan->flops };
    t->status = bench_rounds(&t->times, &work, seconds);
    t->grown = child_peak_memory() - before;
    t->scratch = (double)plan->scratch;
    t->scratch_thread = (double)plan->scratch_thread;
    t->flops = plan->flops;
    free(j->q);
    free(j->k);
    free(j->v);
    free(j->out);
    free(j->scratch);
}

struct task {
    struct job *j;
    const struct qkv_attention_plan *plan;
    double seconds;
};

static void measure_task(void *told, void *ctx)
{
    const struct task *t = ctx;
    measure(told, t->j, t->plan, t->seconds);
}

// ---- the table ---------------------------------------------------------------------------------
static void head(const struct qkv_attention_plan *plan)
{
    const char *const cpu = qkv_cpu_name();
    if (common.json) {
        printf("{\"bench\":\"memory\",\"version\":\"%s\",\"cpu\":", qkv_version());
        cmd_json_text(stdout, cpu, strlen(cpu));
        printf(",\"isa\":\"%s\",\"threads\":%d,\"precision\":\"%s\",\"results\":[", plan->isa,
               qkv_threads(), qkv_precision_name(common.precision));
        return;
    }
    printf("%s attention, %s, %d thread%s%s%s\n\n", qkv_precision_name(common.precision), plan->isa,
           qkv_threads(), qkv_threads() == 1 ? "" : "s", *cpu ? ", " : "", cpu);
    printf("%-26s%10s%9s%9s%9s%9s%8s\n", "shape", "time", "GFLOP/s", "arrays", "scratch", "grown",
           "T x S");
}

static qkv_status row(const struct bench_shape *s, const struct qkv_attention *a,
                      const struct told *t, bool first, qkv_error *err)
{
    char text[5][16];
    const double scores = 4.0 * (double)a->H * (double)a->T * (double)a->S;
    const double time = t->times.median;
    if (common.json) {
        fputs(first ? "{\"shape\":" : ",{\"shape\":", stdout);
        cmd_json_text(stdout, s->name, strlen(s->name));
        printf(",\"n\":%" PRId64 ",\"queries\":%" PRId64 ",\"window\":%" PRId64
               ",\"rounds\":%d,\"seconds\":%.6g,"
               "\"gflops\":%.6g,\"arrays\":%.0f,\"scratch\":%.0f,\"scratch_thread\":%.0f,"
               "\"grown\":%.0f,\"scores\":%.0f}",
               a->S, a->T, s->window, t->times.rounds, time, t->flops / time / 1e9, t->arrays,
               t->scratch, t->scratch_thread, t->grown, scores);
    } else {
        if (time >= 1)
            snprintf(text[0], 16, "%.1f s", time);
        else
            snprintf(text[0], 16, time >= 0.01 ? "%.0f ms" : "%.3f ms", 1e3 * time);
        printf("%-26s%10s%9.1f%9s%9s%9s%8s\n", s->name, text[0], t->flops / time / 1e9,
               cmd_bytes(text[1], t->arrays, 1024), cmd_bytes(text[2], t->scratch, 1024),
               cmd_bytes(text[3], t->grown, 1024), cmd_bytes(text[4], scores, 1024));
    }
    return cmd_written(stdout, "standard output", err);
}

static qkv_status prepare(struct job *j, struct qkv_attention_plan *plan,
                          const struct bench_shape *shape, qkv_error *err)
{
    int64_t *no_offsets = NULL;
    const qkv_status status = bench_attention_of(&j->a, &no_offsets, shape, err);
    if (status) return status;
    *plan = qkv_attention_plan(&j->a);
    if (plan->status)
        return cmd_error(err, plan->status, NULL, "%s: %s", shape->name, plan->reason);
    const double arrays = 2.0 * (double)bench_size(j->a.precision) * (double)j->a.E *
                          (double)j->a.T * ((double)j->a.H + (double)j->a.G);
    return bench_fits(shape->name, arrays + (double)plan->scratch, err);
}

static qkv_status run_memory(const struct bench_shape *shapes, int count, double seconds,
                             qkv_error *err)
{
    struct qkv_attention_plan plan;
    struct job j = { .q = NULL };
    qkv_status status;
    for (int i = 0; i < count; i++)
        if ((status = prepare(&j, &plan, &shapes[i], err))) return status;
    head(&plan);
    for (int i = 0; i < count; i++) {
        struct told told;
        struct task task = { &j, &plan, seconds };
        if ((status = prepare(&j, &plan, &shapes[i], err)) ||
            (status = child_run(&told, sizeof told, measure_task, &task, shapes[i].name, err)))
            return status;
        if (told.status)
            return cmd_error(err, told.status, NULL, "%s: this attention cannot run: %s",
                             shapes[i].name, qkv_status_name(told.status));
        if ((status = row(&shapes[i], &j.a, &told, i == 0, err))) return status;
    }
    if (common.json)
        puts("]}");
    else
        puts("\narrays   bytes of q, k, v and out, which the caller allocates\nscratch  bytes of "
             "scratch for all threads, according to the plan\ngrown    bytes by which scratch, "
             "threads and run raised the peak memory of the process\nT x S    bytes that the "
             "scores would need if they were stored");
    return QKV_OK;
}

const struct bench_topic bench_memory = {
    .name = "memory",
    .grammar = { "NTSHGE", "", "causal window", false },
    .shapes = "N128,causal N512,causal N2048,causal N8192,causal N32768,causal "
              "N32768,window4096 N131072,window4096 N524288,window4096 N1048576,window4096",
    .run = run_memory,
};
