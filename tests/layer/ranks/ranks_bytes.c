// SPDX-License-Identifier: MIT
// ranks_bytes.c: compares the bytes that MPI sends for attention over ranks with the plans, and
// decoding over ranks with decoding on one.
//
// usage: mpirun -n P env LD_PRELOAD=libcount_bytes-KIND.so ranks_bytes
#include <dlfcn.h>
#include <qkv/qkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// All ranks agree on the status before and after a pass, and after each block of the pipeline.
enum { REDUCED = 16, REDUCED_MOST = 16 * REDUCED, RANKS = 8 };

struct call {
    struct qkv_attention a;
    size_t limit; // of what a rank may collect
    bool tables;  // with the gradient of sinks, which backward sends too
};
static const struct call calls[] = {
    { .a = { .B = 1, .T = 700, .S = 700, .H = 4, .G = 4, .E = 16, .F = 16 } },
    { .a = { .B = 2, .T = 601, .S = 601, .H = 4, .G = 2, .E = 24, .F = 8, .causal = true } },
    { .a = { .B = 1, .T = 900, .S = 900, .H = 2, .G = 1, .E = 16, .F = 32, .causal = true },
      .limit = 40000 },
    { .a = { .B = 1, .T = 640, .S = 333, .H = 2, .G = 2, .E = 16, .F = 16 }, .limit = 1 },
    { .a = { .B = 1, .T = 16384, .S = 64, .H = 2, .G = 2, .E = 8, .F = 8 }, .tables = true },
    { .a = { .B = 1, .T = 5, .S = 5, .H = 1, .G = 1, .E = 8, .F = 8 } },
};
static const qkv_precision precisions[] = { QKV_PRECISION_F32, QKV_PRECISION_BF16 };

static void *array(int64_t n)
{
    void *x = aligned_alloc(64, ((size_t)n * sizeof(float) + 127) / 64 * 64);
    if (!x) exit(QKV_ERR_LIMIT);
    memset(x, 0, (size_t)n * sizeof(float));
    return x;
}

// Returns whether all ranks together sent as many bytes in a pass as their plans have. MPI passes
// the parts around a ring, so that a rank sends the parts of other ranks too.
static bool check(const char *pass, const struct call *x, const struct qkv_comm *c,
                  const struct qkv_ranks_plan *p, const long long *sent, const long long *reduced,
                  const long long before[2], qkv_status status)
{
    const long long agreed = *reduced - before[1];
    const long long most = REDUCED_MOST + (long long)p->blocks * REDUCED;
    long long of[RANKS][2] = { { 0 } }, all[2] = { 0, 0 };
    size_t at[RANKS], n[RANKS];
    of[c->rank][0] = *sent - before[0];
    of[c->rank][1] = (long long)p->sent;
    for (int64_t r = 0; r < c->size; r++) {
        at[r] = (size_t)r * sizeof *of;
        n[r] = sizeof *of;
    }
    if (!status && c->size > 1) status = c->gather(c->ctx, of, at, n);
    for (int64_t r = 0; r < c->size; r++)
        for (int i = 0; i < 2; i++) all[i] += of[r][i];
    if (!status && all[0] == all[1] && agreed <= most) return true;
    if (c->rank) return false;
    printf("%lld ranks, %s, T %lld, %s: %s, expected %lld bytes sent, found %lld; expected at most "
           "%lld bytes of agreement, found %lld\n",
           (long long)c->size, pass, (long long)x->a.T, qkv_precision_name(x->a.precision),
           status ? qkv_status_name(status) : "it ran", all[1], all[0], most, agreed);
    return false;
}

// Runs forward and backward of one call; numbers do not matter, so all are 0.
static bool run(const struct call *x, struct qkv_comm *c, const long long *sent,
                const long long *reduced)
{
    const struct qkv_attention *a = &x->a;
    float *sinks = array(a->H), *dsinks = array(a->H);
    struct qkv_attention with = *a;
    const struct qkv_attention_gradients g = { .sinks = dsinks };
    if (x->tables) with.sinks = sinks;
    c->collect_limit = x->limit;
    const struct qkv_ranks_plan p = qkv_ranks_plan(&with, c);
    const struct qkv_ranks_plan b = qkv_ranks_backward_plan(&with, x->tables ? &g : NULL, c);
    if (p.status || b.status) {
        printf("%s\n", p.status ? p.reason : b.reason);
        return false;
    }
    const int64_t rows = a->B * p.rows.all * a->H, keys = a->B * p.keys.all * a->G;
    float *q = array(rows * a->E), *dq = array(rows * a->E);
    float *out = array(rows * a->F), *dout = array(rows * a->F), *lse = array(rows);
    float *k = array(keys * a->E), *dk = array(keys * a->E);
    float *v = array(keys * a->F), *dv = array(keys * a->F);
    void *scratch = array((int64_t)((p.scratch > b.scratch ? p.scratch : b.scratch) / 4 + 16));
    long long before[2] = { *sent, *reduced };
    qkv_status status = qkv_ranks_forward(out, lse, q, k, v, &with, c, scratch);
    bool good = check("forward", x, c, &p, sent, reduced, before, status);
    before[0] = *sent;
    before[1] = *reduced;
    status = qkv_ranks_backward(dq, dk, dv, x->tables ? &g : NULL, dout, q, k, v, out, lse, &with,
                                c, scratch);
    good = check("backward", x, c, &b, sent, reduced, before, status) && good;
    void *const arrays[] = { sinks, dsinks, q, dq, out, dout, lse, k, dk, v, dv, scratch };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
    return good;
}

// Decodes 3 tokens of 2 items with a cache of `parts` parts. Returns whether out has the bits of a
// cache that has all parts, and the plan has the bytes.
static bool decode(qkv_precision precision, int64_t parts, const struct qkv_comm *c,
                   const long long *sent, const long long *reduced)
{
    enum { B = 2, T = 3, S = 1500, H = 4, G = 2, E = 16, NUMBERS = B * S * G * E };
    struct qkv_cache_shape s = { .B = B, .G = G, .E = E, .precision = precision, .parts = parts };
    const struct call x = { .a = {
                                .B = B, .T = T, .H = H, .precision = precision, .causal = true } };
    float *k = array(NUMBERS), *out[2] = { array(B * T * H * E), array(B * T * H * E) };
    qkv_cache *cache[2] = { NULL, NULL };
    qkv_error err = { 0 };
    // precisions of 16 bits read two numbers from each float
    for (int64_t i = 0; i < NUMBERS; i++) k[i] = (float)(i * 7919 % 1000) / 500 - 1;
    qkv_status status = qkv_ranks_cache_new(&cache[0], &s, c, &err);
    if (!status) status = qkv_cache_new(&cache[1], &s, &err);
    for (int i = 0; i < 2 && !status; i++)
        status = qkv_cache_append(cache[i], QKV_CACHE_ALL, k, k, S, NULL, NULL, &err);
    const struct qkv_ranks_plan p = qkv_ranks_cache_plan(cache[0], &x.a, c);
    void *scratch = array((int64_t)(p.scratch / 4 + 16));
    const long long before[2] = { *sent, *reduced };
    if (!status) status = qkv_ranks_cache_forward(out[0], NULL, k, cache[0], &x.a, c, scratch);
    bool good = check("decode", &x, c, &p, sent, reduced, before, status);
    free(scratch);
    scratch = array((int64_t)(qkv_cache_plan(cache[1], &x.a).scratch / 4 + 16));
    if (!status) status = qkv_cache_forward(out[1], NULL, NULL, k, cache[1], &x.a, scratch);
    if (status ||
        memcmp(out[0], out[1], B * T * H * E * qkv_dtype_size(qkv_precision_type(precision)))) {
        printf("rank %lld, %lld parts, %s: decoding has other bits than one process\n",
               (long long)c->rank, (long long)parts, qkv_precision_name(precision));
        good = false;
    }
    for (int i = 0; i < 2; i++) qkv_cache_free(cache[i]);
    void *const arrays[] = { k, out[0], out[1], scratch };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
    return good;
}

int main(void)
{
    struct qkv_comm c;
    qkv_error err = { 0 };
    const long long *sent = dlsym(RTLD_DEFAULT, "count_bytes_sent");
    const long long *reduced = dlsym(RTLD_DEFAULT, "count_bytes_reduced");
    if (!sent || !reduced || qkv_ranks_open(&c, &err) || c.size > RANKS) {
        fprintf(stderr, "ranks_bytes: %s\n", sent ? err.text : "the counting library is missing");
        return QKV_ERR_USAGE;
    }
    int64_t wrong = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (size_t j = 0; j < sizeof precisions / sizeof *precisions; j++) {
            struct call x = calls[i];
            x.a.precision = precisions[j];
            wrong += !run(&x, &c, sent, reduced);
        }
    for (int n = 0; n < 2; n++)
        for (size_t j = 0; j < sizeof precisions / sizeof *precisions; j++)
            wrong += !decode(precisions[j], n ? 6 : c.size, &c, sent, reduced);
    wrong += !decode(QKV_PRECISION_INT8, c.size, &c, sent, reduced);
    if (c.size > 1 && c.reduce(c.ctx, &wrong, 1)) wrong = 1;
    const bool first = c.rank == 0 && !wrong;
    if (first)
        printf("%lld ranks: %lld bytes sent by rank 0, as planned\n", (long long)c.size, *sent);
    qkv_ranks_close(&c);
    return wrong ? QKV_ERR_INTERNAL : QKV_OK;
}
