// SPDX-License-Identifier: MIT
// bench_probe.c: implements `qkv bench probe`: measures how long attention statistics take,
// compared with the forward pass.
//
// A round is a forward pass and then its statistics.  If the shape has the word `stream`, the heads
// of L layers run one by one in a child process, which writes the statistics to a file. Then the
// size of the file and the memory of the child are reported.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "bench/bench.h"
#include "frame/child.h"
#include "frame/probes.h"

// The requested statistics and the arrays of the current shape.
struct job {
    struct qkv_attention a;
    struct qkv_probe_request request;
    struct qkv_probe probe;
    struct qkv_attention_plan forward, plan;
    void *q, *k, *v, *out, *scratch;
    float *lse;
};

static int64_t found_bytes(const struct job *j)
{
    struct probe_array list[PROBE_ARRAYS];
    int64_t numbers = 0;
    const int n = probes_list(list, &j->probe, j->a.T, j->a.S);
    for (int i = 0; i < n; i++) numbers += list[i].count;
    return j->a.B * j->a.H * numbers * (int64_t)sizeof(float);
}

static qkv_status prepare(struct job *j, const struct bench_shape *s,
                          const struct qkv_probe_request *request, qkv_error *err)
{
    int64_t *offsets = NULL; // stays NULL: this topic has no mixed lengths
    struct bench_numbers n;
    *j = (struct job){ .request = *request };
    qkv_status status = bench_attention_of(&j->a, &offsets, s, err);
    if (!status && s->stream) j->a.H = j->a.G = 1; // streamed heads run one by one
    if (!status) status = bench_attention_numbers(&n, &j->a, s->name, err);
    if (status) return status;
    probes_shape(&j->probe, request, j->a.T, j->a.S);
    j->forward = qkv_attention_plan(&j->a);
    j->plan = qkv_attention_probe_plan(&j->a, &j->probe);
    const struct qkv_attention_plan *bad = j->forward.status ? &j->forward : &j->plan;
    if (bad->status) return cmd_error(err, bad->status, NULL, "%s: %s", s->name, bad->reason);
    return bench_fits(s->name, n.bytes + (double)found_bytes(j) + (double)j->plan.scratch, err);
}

static void arrays_new(struct job *j)
{
    const struct qkv_attention *a = &j->a;
    const size_t most = j->plan.scratch > j->forward.scratch ? j->plan.scratch : j->forward.scratch;
    probes_new(&j->probe, &j->request, a->B * a->H, a->T, a->S);
    j->out = cmd_alloc((size_t)(a->B * a->T * a->H * a->F), bench_size(a->precision));
    j->lse = cmd_alloc((size_t)(a->B * a->T * a->H), sizeof *j->lse);
    j->scratch = cmd_alloc(most, 1);
}

// Allocates the inputs, with `more` additional rows.
static void inputs_new(struct job *j, int64_t more)
{
    const struct qkv_attention *a = &j->a;
    j->q = bench_random((a->B * a->T * a->H + more) * a->E, a->precision, 1);
    j->k = bench_random((a->B * a->S * a->G + more) * a->E, a->precision, 1);
    j->v = bench_random((a->B * a->S * a->G + more) * a->F, a->precision, 1);
}
static void inputs_free(struct job *j)
{
    free(j->q);
    free(j->k);
    free(j->v);
    j->q = j->k = j->v = NULL;
}
static void arrays_free(struct job *j)
{
    probes_free(&j->probe);
    free(j->out);
    free(j->lse);
    free(j->scratch);
}

// ---- statistics compared with the forward pass -------------------------------------------------
static qkv_status observe(void *ctx)
{
    struct job *j = ctx;
    return qkv_attention_probe(&j->probe, j->q, j->k, j->lse, &j->a, j->scratch);
}
// Returns the time from the clock that "of peak" uses: processor time if one thread runs; with
// several threads, wall time.
static double clock_now(void)
{
    return qkv_threads() == 1 ? (double)clock() / CLOCKS_PER_SEC : bench_now();
}
static double forward_seconds(struct job *j)
{
    const double from = clock_now();
    if (qkv_attention_forward(j->out, j->lse, NULL, j->q, j->k, j->v, &j->a, j->scratch)) return 0;
    return clock_now() - from;
}
// Returns the number of forward passes per second.
static double forward_rate(void *ctx)
{
    const double seconds = forward_seconds(ctx);
    return seconds > 0 ? 1 / seconds : 0;
}

static void head(const struct job *j, const char *list, bool stream)
{
    const char *const cpu = qkv_cpu_name();
    if (common.json) {
        printf("{\"bench\":\"probe\",\"version\":\"%s\",\"cpu\":", qkv_version());
        cmd_json_text(stdout, cpu, strlen(cpu));
        printf(",\"isa\":\"%s\",\"threads\":%d,\"precision\":\"%s\",\"probe\":\"%s\",\"results\":[",
               j->plan.isa, qkv_threads(), qkv_precision_name(common.precision), list);
        return;
    }
    printf("%s attention, %s, %d thread%s%s%s; probe %s\n\n", qkv_precision_name(common.precision),
           j->plan.isa, qkv_threads(), qkv_threads() == 1 ? "" : "s", *cpu ? ", " : "", cpu, list);
    if (stream)
        printf("%-30s%11s%12s%12s%12s\n", "shape", "time", "file", "resident", "T x S");
    else
        printf("%-30s%11s%11s%8s%10s%10s\n", "shape", "forward", "probes", "cost", "found",
               "scratch");
}

static const char *duration(char out[16], double seconds)
{
    snprintf(out, 16, seconds >= 1 ? "%.1f s" : "%.3f ms", seconds >= 1 ? seconds : 1e3 * seconds);
    return out;
}

static qkv_status row(const struct bench_shape *s, const struct job *j, const struct bench_times *t,
                      bool first, qkv_error *err)
{
    char text[4][16];
    const double forward = t->peak > 0 ? 1 / t->peak : 0;
    const double cost = t->of_peak > 0 ? 1 / t->of_peak : 0, took = cost * forward;
    if (common.json) {
        fputs(first ? "{\"shape\":" : ",{\"shape\":", stdout);
        cmd_json_text(stdout, s->name, strlen(s->name));
        printf(",\"rounds\":%d,\"forward\":%.6g,\"probes\":%.6g,\"cost\":%.6g,\"found\":%" PRId64
               ",\"scratch\":%zu,\"gflops\":%.6g}",
               t->rounds, forward, took, cost, found_bytes(j), j->plan.scratch,
               took > 0 ? j->plan.flops / took / 1e9 : 0);
    } else {
        printf("%-30s%11s%11s%7.2fx%10s%10s\n", s->name, duration(text[0], forward),
               duration(text[1], took), cost, cmd_bytes(text[2], (double)found_bytes(j), 1000),
               cmd_bytes(text[3], (double)j->plan.scratch, 1000));
    }
    return cmd_written(stdout, "standard output", err);
}

static qkv_status compared(const struct bench_shape *s, struct job *j, double seconds, bool first,
                           qkv_error *err)
{
    struct bench_times t;
    arrays_new(j);
    inputs_new(j, 0);
    const struct bench_work work = { observe, forward_rate, j, 1 };
    forward_seconds(j); // the forward pass writes lse, which the statistics read
    qkv_status status = bench_rounds(&t, &work, seconds);
    if (status)
        cmd_error(err, status, NULL, "%s: this attention cannot run: %s", s->name,
                  qkv_status_name(status));
    else
        status = row(s, j, &t, first, err);
    inputs_free(j);
    arrays_free(j);
    return status;
}

// ---- streamed ----------------------------------------------------------------------------------
struct told {
    qkv_error err;
    double seconds, resident, file;
};
struct task {
    const struct bench_shape *shape;
    struct job *j;
    const char *path;
};

// Runs head n and writes its statistics.  Its inputs begin at row n of the arrays, so that
// different heads have different inputs.
static qkv_status write_head(qkv_safetensors_writer *w, struct job *j, int64_t n_head,
                             qkv_error *err)
{
    struct probe_array list[PROBE_ARRAYS];
    const size_t one = bench_size(j->a.precision), q = (size_t)(n_head * j->a.E) * one,
                 v = (size_t)(n_head * j->a.F) * one;
    j->a.probe = &j->probe;
    const qkv_status status =
        qkv_attention_forward(j->out, j->lse, NULL, (char *)j->q + q, (char *)j->k + q,
                              (char *)j->v + v, &j->a, j->scratch);
    j->a.probe = NULL;
    if (status)
        return cmd_error(err, status, NULL, "attention of a head cannot run: %s",
                         qkv_status_name(status));
    const int n = probes_list(list, &j->probe, j->a.T, j->a.S);
    for (int i = 0; i < n; i++) {
        const qkv_status put = qkv_safetensors_append(
            w, list[i].at, (size_t)(j->a.B * list[i].count) * sizeof(float), err);
        if (put) return put;
    }
    return QKV_OK;
}

// Creates the output file. Its tensors have names such as layers.0.heads.3.top_key.
static qkv_status create(qkv_safetensors_writer **w, const struct task *t, int64_t heads,
                         qkv_error *err)
{
    enum { NAME = 64 };
    struct probe_array list[PROBE_ARRAYS];
    const int n = probes_list(list, &t->j->probe, t->j->a.T, t->j->a.S);
    const int64_t all = t->shape->L * heads * n;
    struct qkv_tensor *x = cmd_alloc((size_t)all, sizeof *x);
    char(*names)[NAME] = cmd_alloc((size_t)all, sizeof *names);
    for (int64_t i = 0; i < all; i++) {
        const struct probe_array *a = &list[i % n];
        snprintf(names[i], NAME, "layers.%" PRId64 ".heads.%" PRId64 ".%s", i / n / heads,
                 i / n % heads, a->name);
        x[i] = (struct qkv_tensor){ .name = names[i], .dtype = a->dtype, .rank = 1 + a->rank };
        x[i].shape[0] = t->j->a.B;
        for (int r = 0; r < a->rank; r++) x[i].shape[1 + r] = a->shape[r];
    }
    const qkv_status status = qkv_safetensors_create(w, t->path, x, all, NULL, common.force, err);
    free(x);
    free(names);
    return status;
}

static void stream_task(void *answer, void *ctx)
{
    struct told *told = answer;
    const struct task *t = ctx;
    struct job *j = t->j;
    qkv_safetensors_writer *w = NULL;
    const int64_t heads = t->shape->H ? t->shape->H : 1;
    struct qkv_attention with = j->a;
    with.probe = &j->probe;
    j->forward = qkv_attention_plan(&with);
    arrays_new(j);
    inputs_new(j, t->shape->L * heads);
    const double from = bench_now();
    qkv_status status = create(&w, t, heads, &told->err);
    for (int64_t i = 0; !status && i < t->shape->L * heads; i++)
        status = write_head(w, j, i, &told->err);
    if (!status) status = qkv_safetensors_finish(w, &told->err);
    qkv_safetensors_close(w);
    told->seconds = bench_now() - from;
    told->resident = child_peak_memory();
    told->file = (double)(t->shape->L * heads * found_bytes(j));
    inputs_free(j);
    arrays_free(j);
}

static qkv_status stream(const struct bench_shape *s, struct job *j, bool first, qkv_error *err)
{
    struct told told;
    char temporary[CMD_PATH], text[4][16];
    const char *dir = getenv("TMPDIR");
    snprintf(temporary, sizeof temporary, "%s/qkv-probes.%ld.safetensors", dir ? dir : "/tmp",
             (long)getpid());
    struct task t = { s, j, bench_given.output ? bench_given.output : temporary };
    const qkv_status status = child_run(&told, sizeof told, stream_task, &t, s->name, err);
    if (!bench_given.output) (void)!unlink(temporary);
    if (status) return status;
    if (told.err.status) {
        *err = told.err;
        return err->status;
    }
    const double heads = (double)s->L * (double)(s->H ? s->H : 1);
    const double scores = 4 * heads * (double)j->a.B * (double)j->a.T * (double)j->a.S;
    if (common.json) {
        fputs(first ? "{\"shape\":" : ",{\"shape\":", stdout);
        cmd_json_text(stdout, s->name, strlen(s->name));
        printf(",\"layers\":%" PRId64 ",\"heads\":%" PRId64
               ",\"seconds\":%.6g,\"file\":%.0f,\"resident\":%.0f,\"scores\":%.0f}",
               s->L, s->H ? s->H : 1, told.seconds, told.file, told.resident, scores);
    } else {
        printf("%-30s%11s%12s%12s%12s\n", s->name, duration(text[0], told.seconds),
               cmd_bytes(text[1], told.file, 1000), cmd_bytes(text[2], told.resident, 1000),
               cmd_bytes(text[3], scores, 1000));
    }
    return cmd_written(stdout, "standard output", err);
}

// ---- the topic ---------------------------------------------------------------------------------
static qkv_status measure_probe_shapes(const struct bench_shape *shapes, int count,
                                       const struct qkv_probe_request *request, const char *list,
                                       double seconds, qkv_error *err)
{
    const bool streams = shapes[0].stream;
    struct job j;
    qkv_status status;
    for (int i = 0; i < count; i++) {
        if (shapes[i].stream != streams || (streams && !shapes[i].L) || (!streams && shapes[i].L))
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "--shape: L requires the word stream, which must be in all shapes or "
                             "in none, found '%s'",
                             shapes[i].name);
        if ((status = prepare(&j, &shapes[i], request, err))) return status;
    }
    if (bench_given.output && (!streams || count > 1))
        return cmd_error(
            err, QKV_ERR_USAGE, NULL,
            "--output requires a single shape, with the word stream, found %d shapes%s", count,
            streams ? "" : " without stream");
    head(&j, list, streams);
    for (int i = 0; i < count; i++) {
        if ((status = prepare(&j, &shapes[i], request, err))) return status;
        status = streams ? stream(&shapes[i], &j, i == 0, err)
                         : compared(&shapes[i], &j, seconds, i == 0, err);
        if (status) return status;
    }
    if (common.json)
        puts("]}");
    else if (streams)
        puts("\nfile      bytes of the statistics of all heads in all layers\nresident  peak "
             "memory of the process, which has the arrays of one head\nT x S     bytes that the "
             "weights would need if they were stored");
    else
        puts("\nprobes   time of computing the statistics, after forward\ncost     this time "
             "divided by the time of forward: median over the rounds\nfound    bytes of the "
             "statistics;  scratch  bytes for all threads, according to the plan");
    return QKV_OK;
}

static qkv_status run_probe(const struct bench_shape *shapes, int count, double seconds,
                            qkv_error *err)
{
    const char *list = bench_given.probe  ? bench_given.probe
                       : shapes[0].stream ? "top=16,tiles=256"
                                          : "top=16,entropy,received";
    struct qkv_probe_request request;
    int64_t *rows;
    qkv_status status = probes_parse(&request, &rows, "--probe", list, err);
    if (status) return status;
    status = measure_probe_shapes(shapes, count, &request, list, seconds, err);
    free(rows);
    return status;
}

const struct bench_topic bench_probe = {
    .name = "probe",
    .grammar = { "LBNTSHGE", "", "causal window stream", false },
    .shapes = "H8,N1024,E64 H8,N4096,E64 H8,N4096,E64,causal H8,N4096,E128 H1,N32768,E64",
    .run = run_probe,
};
