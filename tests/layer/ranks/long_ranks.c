// SPDX-License-Identifier: MIT
// long_ranks.c: attention of many tokens over ranks in memory n / P.
//
// usage: mpirun -n P long_ranks TOKENS WINDOW SAMPLES LIMIT      causal, one head of width 16, f32
//
// WINDOW 0: every query attends to all keys up to its own. Checks of the forward and of the
// backward pass that keys and values travel in blocks; that the memory of the call beyond the
// arrays of the rank is within LIMIT MiB, as the plan says and as the system measures; of SAMPLES
// rows that they are within the bound of docs/numerics.md from the formula in double, and have the
// bits of a call of one process; and of some gradients that they have these bits.
#include <math.h>
#include <qkv/qkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { E = 16, MIB = 1 << 20 };
#define UNIT 0x1p-24

// Returns the number with this index of array `which`, -2 .. 2: the same on every rank.
static float number(int which, int64_t i)
{
    uint64_t x = ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u + (uint64_t)which * 0xd1b54a32d192ed03u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (float)(x >> 40) / (1 << 22) - 2;
}

static void *resident(size_t bytes)
{
    void *x = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!x) exit(QKV_ERR_LIMIT);
    memset(x, 0, bytes); // resident from now on
    return x;
}

// Returns the rows r of array `which`.
static float *rows_of(int which, const struct qkv_rank_rows *r)
{
    float *x = resident((size_t)(r->all * E) * sizeof *x), *to = x;
    for (int run = 0; run < 2; run++)
        for (int64_t i = r->first[run] * E; i < (r->first[run] + r->n[run]) * E; i++)
            *to++ = number(which, i);
    return x;
}

// Returns a number of KiB from /proc/self/status, or -1.
static int64_t status_kib(const char *name)
{
    char line[256];
    long long n = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, name, strlen(name))) n = strtoll(line + strlen(name), NULL, 10);
    if (f) fclose(f);
    return n;
}
// Lets the peak begin at the memory that is resident now.
static void reset_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (f) {
        fputs("5", f);
        fclose(f);
    }
}

struct sample {
    int64_t t;
    const float *out, *lse;
};
// Compares a row with the formula in double; returns the error as a share of the bound, at most.
static double share_of_bound(const struct qkv_attention *a, const struct sample *s,
                             const float *k_all, const float *v_all)
{
    const int64_t lo = a->window.on && s->t > a->window.left ? s->t - a->window.left : 0;
    double top = -INFINITY, sum = 0, o[E] = { 0 }, size[E] = { 0 }, most = 0, worst = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t j = lo; j <= s->t; j++) {
            double x = 0, all = 0;
            for (int e = 0; e < E; e++) {
                const double y = (double)number(0, s->t * E + e) * (double)k_all[j * E + e];
                x += y / 4;
                all += fabs(y) / 4;
            }
            if (pass == 0) {
                top = fmax(top, x);
                most = fmax(most, all);
                continue;
            }
            const double p = exp(x - top);
            sum += p;
            for (int e = 0; e < E; e++) {
                o[e] += p * (double)v_all[j * E + e];
                size[e] += p * fabs((double)v_all[j * E + e]);
            }
        }
    const double n = (double)(s->t - lo + 1), d = (E + 8 + 2.01) * most, lse = top + log(sum);
    for (int e = 0; e < E; e++)
        worst = fmax(worst, fabs((double)s->out[e] - o[e] / sum) /
                                ((2 * d + 2 * n + 24 + 2.01) * UNIT * size[e] / sum));
    return fmax(worst, fabs((double)*s->lse - lse) / ((d + n + 24 + 2 * fabs(lse)) * UNIT));
}

// Returns whether a call of one process has the bits of the row.
static bool same_bits(const struct qkv_attention *whole, const struct sample *s, const float *k,
                      const float *v)
{
    struct qkv_attention a = *whole;
    float q[E], out[E], lse;
    a.T = 1;
    a.first_row = s->t;
    a.all_rows = whole->T;
    for (int e = 0; e < E; e++) q[e] = number(0, s->t * E + e);
    void *scratch = resident(qkv_attention_plan(&a).scratch);
    const qkv_status status = qkv_attention_forward(out, &lse, NULL, q, k, v, &a, scratch);
    free(scratch);
    return !status && !memcmp(out, s->out, sizeof out) && !memcmp(&lse, s->lse, sizeof lse);
}

// Checks `samples` rows of this rank; *worst receives the largest share of the bound.
static int64_t check_rows(const struct qkv_attention *a, const struct qkv_rank_rows *r,
                          const float *out, const float *lse, int64_t samples, double *worst)
{
    const struct qkv_rank_rows all = { .n = { a->S }, .all = a->S };
    float *k = rows_of(1, &all), *v = rows_of(2, &all);
    int64_t wrong = 0;
    for (int64_t i = 0; i < samples && r->all; i++) {
        const int64_t at = samples > 1 ? i * (r->all - 1) / (samples - 1) : r->all - 1;
        const struct sample s = { .t = at < r->n[0] ? r->first[0] + at : r->first[1] + at - r->n[0],
                                  .out = out + at * E,
                                  .lse = lse + at };
        const double share = share_of_bound(a, &s, k, v);
        *worst = fmax(*worst, share);
        wrong += !(share <= 1) || !same_bits(a, &s, k, v);
    }
    free(k);
    free(v);
    return wrong;
}

// The arrays of a rank.
struct arrays {
    float *q, *k, *v, *out, *lse, *dout, *dq, *dk, *dv;
};

// Returns the number of rows whose dq, and of keys whose dk or dv, has other bits than in a call of
// one process with the first rows of this rank. Without a window it compares few rows and no keys.
static int64_t check_gradients(const struct qkv_attention *whole, const struct qkv_rank_rows *r,
                               const struct arrays *x)
{
    const struct qkv_rank_rows all = { .n = { whole->S }, .all = whole->S };
    const int64_t window = whole->window.on ? whole->window.left + 1 : 64;
    struct qkv_attention a = *whole;
    int64_t wrong = 0;
    a.T = r->n[0] < 2 * window ? r->n[0] : 2 * window;
    a.first_row = r->first[0];
    a.all_rows = whole->T;
    float *k = rows_of(1, &all), *v = rows_of(2, &all);
    float *dq = resident((size_t)(a.T * E) * sizeof *dq);
    float *dk = resident((size_t)(a.S * E) * sizeof *dk);
    float *dv = resident((size_t)(a.S * E) * sizeof *dv);
    void *scratch = resident(qkv_attention_backward_plan(&a, NULL).scratch);
    if (qkv_attention_backward(dq, dk, dv, NULL, x->dout, x->q, k, v, x->out, x->lse, &a, scratch))
        exit(QKV_ERR_INTERNAL);
    for (int64_t i = 0; i < a.T; i++)
        wrong += memcmp(dq + i * E, x->dq + i * E, E * sizeof *dq) != 0;
    // all rows that see these keys are in the call
    for (int64_t i = 0; whole->window.on && i < a.T - window; i++) {
        const int64_t key = (a.first_row + i) * E;
        wrong += memcmp(dk + key, x->dk + i * E, E * sizeof *dk) != 0;
        wrong += memcmp(dv + key, x->dv + i * E, E * sizeof *dv) != 0;
    }
    void *const arrays[] = { k, v, dq, dk, dv, scratch };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
    return wrong;
}

static qkv_status largest(const struct qkv_comm *c, int64_t *x, size_t n)
{
    return c->size > 1 ? c->reduce(c->ctx, x, n) : QKV_OK;
}

// Runs one pass; *peak receives the bytes that it needed beyond the arrays, -1: not known.
static qkv_status run(const struct qkv_attention *a, const struct qkv_comm *comm,
                      const struct qkv_ranks_plan *p, const struct arrays *x, bool backward,
                      int64_t *peak)
{
    reset_peak();
    const int64_t before = status_kib("VmRSS:");
    void *scratch = aligned_alloc(64, p->scratch + 64);
    qkv_status status = QKV_ERR_LIMIT;
    if (scratch && backward)
        status = qkv_ranks_backward(x->dq, x->dk, x->dv, NULL, x->dout, x->q, x->k, x->v, x->out,
                                    x->lse, a, comm, scratch);
    else if (scratch)
        status = qkv_ranks_forward(x->out, x->lse, x->q, x->k, x->v, a, comm, scratch);
    const int64_t most = status_kib("VmHWM:");
    free(scratch);
    *peak = before > 0 && most > 0 ? (most - before) * 1024 : -1;
    return status;
}

// Reports a pass on rank 0; returns whether its memory is within the limit and no row is wrong.
static bool report(const char *pass, const struct qkv_comm *comm, const struct qkv_ranks_plan *p,
                   time_t begin, const int64_t most[4], int64_t limit)
{
    if (comm->rank == 0)
        printf(
            "%s: %ld s, %lld blocks; %s; per rank: planned %.1f MiB, measured %.1f MiB beyond the "
            "arrays, sent %.1f MiB; rows that differ on one rank: %lld\n",
            pass, (long)(time(NULL) - begin), (long long)p->blocks, p->reason,
            (double)most[0] / MIB, (double)most[1] / MIB, (double)most[2] / MIB,
            (long long)most[3]);
    return p->mode == QKV_RANKS_PIPELINE && most[0] <= limit && most[1] >= 0 && most[1] <= limit &&
           !most[3];
}

int main(int argc, char **argv)
{
    struct qkv_comm comm;
    qkv_error err = { 0 };
    if (argc != 5) return QKV_ERR_USAGE;
    const int64_t n = strtoll(argv[1], NULL, 10), window = strtoll(argv[2], NULL, 10);
    const int64_t samples = strtoll(argv[3], NULL, 10), limit = strtoll(argv[4], NULL, 10) * MIB;
    const struct qkv_attention a = { .B = 1,
                                     .T = n,
                                     .S = n,
                                     .H = 1,
                                     .G = 1,
                                     .E = E,
                                     .F = E,
                                     .causal = true,
                                     .window = { window > 0, window - 1, -1 } };
    if (qkv_ranks_open(&comm, &err)) {
        fprintf(stderr, "long_ranks: %s\n", err.text);
        return (int)err.status;
    }
    comm.collect_limit = 4 * MIB;
    const struct qkv_ranks_plan p[] = { qkv_ranks_plan(&a, &comm),
                                        qkv_ranks_backward_plan(&a, NULL, &comm) };
    if (p[0].status || p[1].status) {
        fprintf(stderr, "long_ranks: %s\n", p[0].status ? p[0].reason : p[1].reason);
        return QKV_ERR_USAGE;
    }
    const struct qkv_rank_rows *rows = &p->rows, *keys = &p->keys;
    const size_t of_rows = (size_t)(rows->all * E) * sizeof(float);
    const size_t of_keys = (size_t)(keys->all * E) * sizeof(float);
    struct arrays x = { .q = rows_of(0, rows),
                        .k = rows_of(1, keys),
                        .v = rows_of(2, keys),
                        .out = resident(of_rows),
                        .lse = resident((size_t)rows->all * sizeof(float)),
                        .dout = rows_of(3, rows),
                        .dq = resident(of_rows),
                        .dk = resident(of_keys),
                        .dv = resident(of_keys) };
    double worst = 0;
    bool good = true;
    qkv_status status = QKV_OK;
    for (int pass = 0; pass < 2 && !status; pass++) {
        const time_t begin = time(NULL);
        int64_t peak, most[4] = { (int64_t)p[pass].scratch, 0, (int64_t)p[pass].sent, 0 };
        status = run(&a, &comm, &p[pass], &x, pass, &peak);
        most[1] = peak;
        if (!status && pass)
            most[3] = check_gradients(&a, rows, &x);
        else if (!status)
            most[3] =
                check_rows(&a, rows, x.out, x.lse, (samples + comm.size - 1) / comm.size, &worst);
        if (!status) status = largest(&comm, most, sizeof most / sizeof *most);
        if (!status)
            good =
                report(pass ? "backward" : "forward", &comm, &p[pass], begin, most, limit) && good;
    }
    int64_t share = (int64_t)(worst * 1e9);
    if (!status) status = largest(&comm, &share, 1);
    if (comm.rank == 0 && status) fprintf(stderr, "long_ranks: %s\n", qkv_status_name(status));
    if (comm.rank == 0 && !status)
        printf(
            "%lld tokens, window %lld, %lld ranks; arrays %.1f MiB per rank; largest share of the "
            "bound of %lld rows %.4f\n",
            (long long)n, (long long)window, (long long)comm.size,
            (double)(4 * of_rows + 4 * of_keys + of_rows / E) / MIB, (long long)samples,
            (double)share * 1e-9);
    float *const arrays[] = { x.q, x.k, x.v, x.out, x.lse, x.dout, x.dq, x.dk, x.dv };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
    qkv_ranks_close(&comm);
    return good && !status ? 0 : 1;
}
