// SPDX-License-Identifier: MIT
// bench_ranks.c: times attention over ranks, forward and backward.
//
// usage: [mpirun -n P] bench_ranks TOKENS [f32|bf16] [causal] [limit=BYTES] [ROUNDS]
//
// 8 heads of width 64; BYTES is collect_limit of ranks.h.
// Rank 0 prints, of the slowest rank in the best and in the median round: seconds, GFLOP/s of all
// ranks, the balance of the work and the bytes that a rank sends. The efficiency of P ranks is the
// time of one, divided by P times the time of P; both with QKV_THREADS=1, on as many quiet cores.
#include <qkv/qkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 64 };

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC); // C11; only differences of a few seconds are used
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void *numbers(int64_t n, qkv_precision p, uint64_t seed)
{
    float *x = malloc((size_t)n * sizeof *x + 1);
    void *to = malloc((size_t)n * sizeof *x + 1);
    if (!x || !to) exit(QKV_ERR_LIMIT);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)(seed >> 40) / (1 << 23) - 1;
    }
    qkv_from_f32(to, qkv_precision_type(p), x, n);
    free(x);
    return to;
}

struct work {
    struct qkv_attention a;
    const struct qkv_comm *comm;
    void *q, *k, *v, *out, *dout, *dq, *dk, *dv, *scratch;
    float *lse;
};
static qkv_status forward(const struct work *w)
{
    return qkv_ranks_forward(w->out, w->lse, w->q, w->k, w->v, &w->a, w->comm, w->scratch);
}
static qkv_status backward(const struct work *w)
{
    return qkv_ranks_backward(w->dq, w->dk, w->dv, NULL, w->dout, w->q, w->k, w->v, w->out, w->lse,
                              &w->a, w->comm, w->scratch);
}

// Prints one line about the rounds of a pass.
static void report(const char *name, qkv_status (*run)(const struct work *), const struct work *w,
                   const struct qkv_ranks_plan *p, int rounds)
{
    int64_t time[ROUNDS], most = (int64_t)p->sent;
    qkv_status status = run(w); // not timed: the first touches of memory
    for (int i = 0; i < rounds && !status; i++) {
        if (w->comm->size > 1) status = w->comm->barrier(w->comm->ctx);
        const double begin = now();
        if (!status) status = run(w);
        time[i] = (int64_t)((now() - begin) * 1e9);
        if (w->comm->size > 1 && !status) status = w->comm->reduce(w->comm->ctx, &time[i], 1);
    }
    if (w->comm->size > 1 && !status) status = w->comm->reduce(w->comm->ctx, &most, 1);
    if (status) {
        fprintf(stderr, "bench_ranks: %s: %s\n", name, qkv_status_name(status));
        exit(status);
    }
    if (w->comm->rank) return;
    qsort(time, (size_t)rounds, sizeof *time, ascending);
    const double best = (double)time[0] * 1e-9, median = (double)time[rounds / 2] * 1e-9;
    printf(
        "%-8s  ranks %lld  best %.4f s, median %.4f s  %.1f GFLOP/s  balance %.3f  sent %.1f MB\n",
        name, (long long)w->comm->size, best, median, p->all / best * 1e-9,
        p->all / ((double)w->comm->size * p->flops), (double)most * 1e-6);
}

int main(int argc, char **argv)
{
    struct qkv_comm comm;
    qkv_error err = { 0 };
    const int64_t n = argc > 1 ? strtol(argv[1], NULL, 10) : 8192;
    struct work w = { .a = { .B = 1, .T = n, .S = n, .H = 8, .G = 8, .E = 64, .F = 64 },
                      .comm = &comm };
    int rounds = 5;
    size_t limit = 0;
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "bf16")) w.a.precision = QKV_PRECISION_BF16;
        if (!strcmp(argv[i], "causal")) w.a.causal = true;
        if (!strncmp(argv[i], "limit=", 6)) limit = strtoull(argv[i] + 6, NULL, 10);
        if (atoi(argv[i]) > 0) rounds = atoi(argv[i]) < ROUNDS ? atoi(argv[i]) : ROUNDS;
    }
    if (qkv_ranks_open(&comm, &err)) {
        fprintf(stderr, "bench_ranks: %s\n", err.text);
        return (int)err.status;
    }
    comm.collect_limit = limit;
    const struct qkv_ranks_plan p = qkv_ranks_plan(&w.a, &comm);
    const struct qkv_ranks_plan b = qkv_ranks_backward_plan(&w.a, NULL, &comm);
    if (p.status || b.status) {
        fprintf(stderr, "bench_ranks: %s\n", p.status ? p.reason : b.reason);
        return QKV_ERR_USAGE;
    }
    const int64_t rows = p.rows.all * 8 * 64, keys = p.keys.all * 8 * 64;
    const qkv_precision type = w.a.precision;
    void **const of_rows[] = { &w.q, &w.out, &w.dout, &w.dq };
    void **const of_keys[] = { &w.k, &w.v, &w.dk, &w.dv };
    for (int i = 0; i < 4; i++) {
        *of_rows[i] = numbers(rows, type, (uint64_t)(comm.rank * 16 + i));
        *of_keys[i] = numbers(keys, type, (uint64_t)(comm.rank * 16 + 8 + i));
    }
    w.lse = malloc((size_t)(p.rows.all * 8) * sizeof *w.lse + 1);
    w.scratch = aligned_alloc(64, (p.scratch > b.scratch ? p.scratch : b.scratch) + 64);
    if (!w.lse || !w.scratch) return QKV_ERR_LIMIT;
    if (comm.rank == 0 && limit)
        printf("ranks %s: %s\n",
               p.mode == QKV_RANKS_PIPELINE ? "receive keys block by block" : "collect all keys",
               p.reason);
    if (comm.rank == 0)
        printf("tokens %lld, %s%s, %s, %d thread%s per rank, scratch %.1f MB forward, %.1f MB "
               "backward\n",
               (long long)n, qkv_precision_name(type), w.a.causal ? ", causal" : "", qkv_isa(),
               qkv_threads(), qkv_threads() == 1 ? "" : "s", (double)p.scratch * 1e-6,
               (double)b.scratch * 1e-6);
    report("forward", forward, &w, &p, rounds);
    report("backward", backward, &w, &b, rounds);
    for (int i = 0; i < 4; i++) {
        free(*of_rows[i]);
        free(*of_keys[i]);
    }
    free(w.lse);
    free(w.scratch);
    qkv_ranks_close(&comm);
    return 0;
}
