// SPDX-License-Identifier: MIT
// bench_machines.c: implements `qkv bench machines`: measures attention over ranks, and compares it
// with one rank and with the model of its time.
#include "bench/machines.h"
#include "ranks/ranks.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PINGS = 200, LINK_BYTES = 4 << 20, LINK_ROUNDS = 4, ROUNDS_MOST = 16 };

// ---- links --------------------------------------------------------------------------------------
// Replaces each time by the longest of all ranks.
static qkv_status slowest(double *seconds, size_t n)
{
    int64_t x[8];
    for (size_t i = 0; i < n; i++) x[i] = (int64_t)(seconds[i] * 1e9);
    const qkv_status status = ranks.size > 1 ? ranks.reduce(ranks.ctx, x, n) : QKV_OK;
    for (size_t i = 0; i < n; i++) seconds[i] = (double)x[i] * 1e-9;
    return status;
}

// Measures the rate at which a rank, with one thread, reads and writes memory while all do.
static qkv_status measure_memory(struct machines_rates *r)
{
    enum { BYTES = 64 << 20 };
    char *from = cmd_alloc(BYTES, 1), *to = cmd_alloc(BYTES, 1);
    double best = 1e9;
    qkv_status status = QKV_OK;
    memset(from, 1, BYTES);
    memset(to, 0, BYTES);
    for (int i = 0; i < LINK_ROUNDS && !status; i++) {
        status = ranks.barrier(ranks.ctx);
        const double begin = bench_now();
        memcpy(to, from, BYTES);
        double took = bench_now() - begin;
        if (!status) status = slowest(&took, 1);
        if (took < best) best = took;
    }
    r->memory = r->copying = 2.0 * BYTES / best;
    if (to[BYTES - 1] != 1) status = QKV_ERR_INTERNAL; // the copy is read
    free(from);
    free(to);
    return status;
}

// Measures a message to the next rank while one comes from the previous rank, and the rate at which
// a rank sends while all ranks collect an array.
static qkv_status measure_links(struct machines_rates *r)
{
    const int64_t P = ranks.size, right = (ranks.rank + 1) % P, left = (ranks.rank + P - 1) % P;
    char byte = 0, *all = cmd_alloc((size_t)P * LINK_BYTES, 1);
    size_t *at = cmd_alloc((size_t)P, 2 * sizeof *at), *n = at + P;
    double best[2] = { 1e9, 1e9 };
    qkv_status status = QKV_OK;
    memset(all, 0, (size_t)P * LINK_BYTES);
    for (int64_t i = 0; i < P; i++) {
        at[i] = (size_t)i * LINK_BYTES;
        n[i] = LINK_BYTES;
    }
    for (int i = 0; i < LINK_ROUNDS && !status; i++) {
        double took[2];
        status = ranks.barrier(ranks.ctx);
        double begin = bench_now();
        for (int k = 0; k < PINGS && !status; k++) {
            status = ranks.send(ranks.ctx, right, &byte, 1);
            if (!status) status = ranks.receive(ranks.ctx, left, &byte, 1);
        }
        took[0] = (bench_now() - begin) / PINGS;
        begin = bench_now();
        if (!status) status = ranks.gather(ranks.ctx, all, at, n);
        took[1] = bench_now() - begin;
        if (!status) status = slowest(took, 2);
        for (int k = 0; k < 2; k++)
            if (took[k] < best[k]) best[k] = took[k];
    }
    r->latency = best[0];
    r->bandwidth = (double)(P - 1) * LINK_BYTES / best[1];
    free(all);
    free(at);
    return status;
}

// Measures which part of the processor time of a rank other threads of the process need, while this
// one computes and a message is on its way: the thread of the transport that moves it.
static qkv_status measure_moving(struct machines_rates *r)
{
    const int64_t P = ranks.size, right = (ranks.rank + 1) % P, left = (ranks.rank + P - 1) % P;
    const double some = .02; // seconds of arithmetic
    char *data = cmd_alloc(LINK_BYTES, 1);
    double own = 0, all = 0;
    volatile double number = 1;
    qkv_status status = QKV_OK;
    memset(data, 0, LINK_BYTES);
    for (int i = 0; i < LINK_ROUNDS && !status; i++) {
        status = ranks.barrier(ranks.ctx);
        if (!status) status = ranks.send(ranks.ctx, right, data, LINK_BYTES);
        const double before = bench_clock(CLOCK_PROCESS_CPUTIME_ID);
        const double begin = bench_clock(CLOCK_THREAD_CPUTIME_ID);
        double took = 0;
        while (took < some) {
            for (int n = 0; n < 1000; n++) number = number * .5 + 1;
            took = bench_clock(CLOCK_THREAD_CPUTIME_ID) - begin;
        }
        own += took;
        all += bench_clock(CLOCK_PROCESS_CPUTIME_ID) - before;
        if (!status) status = ranks.barrier(ranks.ctx); // no rank receives before
        if (!status) status = ranks.receive(ranks.ctx, left, data, LINK_BYTES);
    }
    r->moving = all > own ? 1 - own / all : 0;
    if (!status) status = slowest(&r->moving, 1);
    free(data);
    return status;
}

// ---- attention ----------------------------------------------------------------------------------
struct job {
    struct qkv_attention a;
    int64_t *offsets;
    struct qkv_ranks_plan plan[2];
    void *q, *k, *v, *out, *dout, *dq, *dk, *dv, *scratch;
    float *lse;
};

// Allocates the arrays of a rank of so many ranks.
static qkv_status allocate(struct job *j, const struct qkv_comm *c, const char *name,
                           qkv_error *err)
{
    const struct qkv_attention *a = &j->a;
    const qkv_precision p = a->precision;
    j->plan[0] = qkv_ranks_plan(a, c);
    j->plan[1] = qkv_ranks_backward_plan(a, NULL, c);
    for (int i = 0; i < 2; i++)
        if (j->plan[i].status)
            return cmd_error(err, j->plan[i].status, NULL, "%s: %s", name, j->plan[i].reason);
    const int64_t rows = a->B * j->plan[0].rows.all * a->H;
    const int64_t keys = a->B * j->plan[0].keys.all * a->G;
    const size_t scratch =
        j->plan[0].scratch > j->plan[1].scratch ? j->plan[0].scratch : j->plan[1].scratch;
    const double numbers = 2.0 * (double)(rows + keys) * (double)(a->E + a->F);
    const qkv_status status =
        bench_fits(name, numbers * (double)bench_size(p) + (double)scratch, err);
    if (status) return status;
    j->q = bench_random(rows * a->E, p, 1);
    j->k = bench_random(keys * a->E, p, 1);
    j->v = bench_random(keys * a->F, p, 1);
    j->out = bench_random(rows * a->F, p, 1);
    j->dout = bench_random(rows * a->F, p, 1);
    j->dq = bench_random(rows * a->E, p, 1);
    j->dk = bench_random(keys * a->E, p, 1);
    j->dv = bench_random(keys * a->F, p, 1);
    j->lse = cmd_alloc((size_t)rows + 1, sizeof *j->lse);
    j->scratch = cmd_alloc(scratch + 64, 1);
    return QKV_OK;
}

static void job_free(struct job *j)
{
    void *const all[] = {
        j->q, j->k, j->v, j->out, j->dout, j->dq, j->dk, j->dv, j->lse, j->scratch
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static qkv_status pass(const struct job *j, const struct qkv_comm *c, bool backward)
{
    if (!backward) return qkv_ranks_forward(j->out, j->lse, j->q, j->k, j->v, &j->a, c, j->scratch);
    return qkv_ranks_backward(j->dq, j->dk, j->dv, NULL, j->dout, j->q, j->k, j->v, j->out, j->lse,
                              &j->a, c, j->scratch);
}

// The measurements of a pass. Seconds: of the best round; of messages and waiting in this round; of
// the arithmetic without messages; of the messages without arithmetic. Each of the slowest rank.
struct times {
    double all, messages, compute, transfer;
};

// Returns the part of the time of the messages that is hidden by arithmetic, 0 to 1.
static double overlap_of(const struct times *t)
{
    const double hidden = t->compute + t->transfer - t->all;
    if (!(hidden > 0 && t->transfer > 0)) return 0;
    return hidden < t->transfer ? hidden / t->transfer : 1;
}

// One round of a pass on the ranks that run it: took[0] seconds, took[1] in messages.
static qkv_status round_of(double took[2], const struct job *j, const struct qkv_comm *c,
                           bool backward, enum machines_mode mode)
{
    const bool runs = c->size > 1 || ranks.rank == 0;
    qkv_status status = ranks.size > 1 ? ranks.barrier(ranks.ctx) : QKV_OK;
    machines_messages_begin(mode);
    const double begin = bench_now();
    if (!status && runs) status = pass(j, c, backward);
    took[0] = runs ? bench_now() - begin : 0;
    took[1] = machines_messages_seconds();
    return status ? status : slowest(took, 2);
}

// Times a pass: seconds[0] of the best round, seconds[1] that its slowest rank spent in messages
// and in waiting. With `alone`, rank 0 runs it and the others wait.
static qkv_status time_pass(double seconds[2], const struct job *j, const struct qkv_comm *c,
                            bool backward, enum machines_mode mode, double most)
{
    int64_t rounds = 1;
    double total = 0, took[2];
    qkv_status status = round_of(took, j, c, backward, mode); // the first touches of memory
    seconds[0] = 1e30;
    for (int64_t i = 0; i < rounds && !status; i++) {
        status = round_of(took, j, c, backward, mode);
        if (took[0] < seconds[0]) memcpy(seconds, took, sizeof took);
        total += took[0];
        if (!i) rounds = (int64_t)(most / (total + 1e-9));
        if (rounds > ROUNDS_MOST) rounds = ROUNDS_MOST;
    }
    return status;
}

// Times a pass of all ranks, its arithmetic and its messages.
static qkv_status time_parts(struct times *t, const struct job *j, const struct qkv_comm *c,
                             bool backward, double most)
{
    double took[2], best[2];
    qkv_status status = time_pass(best, j, c, backward, MACHINES_TIMED, most);
    t->all = best[0];
    t->messages = best[1];
    if (!status) status = round_of(took, j, c, backward, MACHINES_RECORDED);
    if (!status) status = time_pass(best, j, c, backward, MACHINES_LEFT_OUT, most);
    t->compute = best[0];
    t->transfer = 1e30;
    for (int i = 0; i < LINK_ROUNDS && !status; i++) {
        status = machines_messages_repeat(took);
        if (!status) status = slowest(took, 1);
        if (took[0] < t->transfer) t->transfer = took[0];
    }
    machines_messages_free();
    return status;
}

// ---- the table ----------------------------------------------------------------------------------
// A pass on one rank and on all, and the model of its time; sent: bytes of the rank that sends
// most.
struct row {
    const char *shape, *pass;
    enum qkv_ranks_mode mode;
    double one, sent;
    struct times many;
    const struct machines_time *model;
};

static void print_json(const struct row *r, bool first)
{
    fputs(first ? "{\"shape\":" : ",{\"shape\":", stdout);
    cmd_json_text(stdout, r->shape, strlen(r->shape));
    printf(",\"pass\":\"%s\",\"mode\":\"%s\",\"one\":%.6g,\"many\":%.6g,\"messages\":%.6g,"
           "\"compute\":%.6g,\"transfer\":%.6g,\"overlap\":%.4f,\"sent\":%.0f,"
           "\"efficiency\":%.4f,\"model\":",
           r->pass, r->mode == QKV_RANKS_PIPELINE ? "pipeline" : "collect", r->one, r->many.all,
           r->many.messages, r->many.compute, r->many.transfer, overlap_of(&r->many), r->sent,
           r->one / ((double)ranks.size * r->many.all));
    if (r->mode == QKV_RANKS_PIPELINE)
        fputs("null}", stdout);
    else
        printf("{\"many\":%.6g,\"messages\":%.6g,\"efficiency\":%.4f,\"steps\":%lld}}",
               r->model->many, r->model->link, r->model->efficiency, (long long)r->model->steps);
}

static void print_row(const struct row *r, bool first)
{
    const double efficiency = r->one / ((double)ranks.size * r->many.all);
    if (common.json) {
        print_json(r, first);
        return;
    }
    printf("%-24.24s %-8s %9.1f %9.1f %9.1f %8.1f %6.0f%% %6.1f%%", r->shape, r->pass, r->one * 1e3,
           r->many.all * 1e3, r->many.messages * 1e3, r->sent * 1e-6, 100 * overlap_of(&r->many),
           100 * efficiency);
    if (r->mode == QKV_RANKS_PIPELINE)
        puts("         -       -");
    else
        printf(" %9.1f %6.1f%%\n", r->model->many * 1e3, 100 * r->model->efficiency);
    fflush(stdout);
}

static void print_head(const struct machines_rates *r)
{
    const char *const cpu = qkv_cpu_name();
    if (common.json) {
        printf("{\"bench\":\"machines\",\"version\":\"%s\",\"cpu\":", qkv_version());
        cmd_json_text(stdout, cpu, strlen(cpu));
        printf(",\"isa\":\"%s\",\"threads\":%d,\"precision\":\"%s\",\"ranks\":%lld,"
               "\"latency\":%.4g,\"bandwidth\":%.6g,\"memory\":%.6g,\"moving\":%.4f,\"results\":[",
               qkv_isa(), qkv_threads(), qkv_precision_name(common.precision),
               (long long)ranks.size, r->latency, r->bandwidth, r->memory, r->moving);
        return;
    }
    printf("%s attention, %lld ranks of %d thread%s, %s%s%s\n",
           qkv_precision_name(common.precision), (long long)ranks.size, qkv_threads(),
           qkv_threads() == 1 ? "" : "s", qkv_isa(), *cpu ? ", " : "", cpu);
    printf("links: %.1f us a message, %.2f GB/s a rank while all send; memory: %.1f GB/s a rank;\n"
           "a thread that moves messages: %.1f %% of a core\n\n",
           r->latency * 1e6, r->bandwidth * 1e-9, r->memory * 1e-9, 100 * r->moving);
    printf("%-24s %-8s %9s %9s %9s %8s %7s %7s %9s %7s\n", "shape", "pass", "1 rank ms", "ranks ms",
           "messages", "sent MB", "overlap", "effic.", "model ms", "effic.");
}

static qkv_status measure_machines(const struct bench_shape *shape, bool first, double seconds,
                                   struct machines_rates *r, qkv_error *err)
{
    struct job j = { .offsets = NULL };
    struct machines_time model[2];
    struct times many[2] = { { .all = 0 }, { .all = 0 } };
    const struct qkv_comm alone = { .size = 1 };
    const struct qkv_comm all = machines_comm((size_t)bench_given.collect_limit);
    double one[2][2], sent[2] = { 0, 0 };
    qkv_status status = bench_attention_of(&j.a, &j.offsets, shape, err);
    if (!status && ranks.rank == 0) status = allocate(&j, &alone, shape->name, err);
    ranks_agree(err);
    const double flops[2] = { j.plan[0].all, j.plan[1].all };
    for (int i = 0; i < 2 && !status; i++)
        status = time_pass(one[i], &j, &alone, i, MACHINES_TIMED, seconds);
    job_free(&j);
    if (status && !err->status) cmd_error(err, status, NULL, "%s: it cannot run", shape->name);
    ranks_agree(err);
    status = allocate(&j, &all, shape->name, err);
    ranks_agree(err);
    for (int i = 0; i < 2 && !status; i++) {
        status = time_parts(&many[i], &j, &all, i, seconds);
        r->flops[i] = flops[i] / one[i][0];
        sent[i] = (double)j.plan[i].sent * 1e-9; // slowest() returns the largest, also of bytes
    }
    if (!status) status = slowest(sent, 2);
    if (!status && ranks.rank == 0) status = machines_model(model, &j.a, ranks.size, r, err);
    for (int i = 0; i < 2 && !status && ranks.rank == 0; i++)
        print_row(&(struct row){ .shape = shape->name,
                                 .pass = i ? "backward" : "forward",
                                 .mode = j.plan[i].mode,
                                 .one = one[i][0],
                                 .sent = sent[i] * 1e9,
                                 .many = many[i],
                                 .model = &model[i] },
                  first && !i);
    job_free(&j);
    free(j.offsets);
    if (status && !err->status) cmd_error(err, status, NULL, "%s: it cannot run", shape->name);
    return status;
}

static qkv_status run_machines(const struct bench_shape *shapes, int count, double seconds,
                               qkv_error *err)
{
    struct machines_rates r = { .flops = { 0, 0 } };
    if (!isnan(bench_given.rate)) return machines_predict(shapes, count, bench_given.rate, err);
    if (ranks.size == 1)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "bench machines measures several ranks, expected mpirun -n 2 qkv bench "
                         "machines, or --predict GFLOPS");
    qkv_status status = measure_links(&r);
    if (!status) status = measure_memory(&r);
    if (!status) status = measure_moving(&r);
    if (status) cmd_error(err, status, NULL, "a rank cannot be reached");
    ranks_agree(err);
    print_head(&r);
    for (int i = 0; i < count && !status; i++)
        status = measure_machines(&shapes[i], i == 0, seconds, &r, err);
    ranks_agree(err);
    if (common.json)
        puts("]}");
    else
        puts("\none rank runs alone while the others wait; messages: time in messages and in "
             "waiting, of\nthe slowest rank; overlap: part of the time of the messages alone that "
             "is hidden by\narithmetic; model: docs/machines.md, from the rates above");
    return status;
}

const struct bench_topic bench_machines = {
    .name = "machines",
    .grammar = { "BTSNHGEF", "", "causal window", false },
    .shapes = "H8,N4096,E64 H8,N4096,E64,causal H8,G2,N4096,E64,causal",
    .run = run_machines,
};
