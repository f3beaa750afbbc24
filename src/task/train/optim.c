// SPDX-License-Identifier: MIT
// optim.c: computes learning rates and the norm of gradients, and updates weights with AdamW and
// SGD.
//
// Parameters are processed in blocks of a fixed number of weights, so that results do not depend on
// the number of threads.
#include "task/train/optim.h"
#include <math.h>

enum { BLOCK = 1 << 14 };

double qkv_schedule_rate(const struct qkv_schedule *s, int64_t n)
{
    const double warmup = (double)s->warmup, at = (double)n;
    if (n < s->warmup) return s->rate * (at + 1) / warmup;
    const double left = (double)s->steps - warmup, low = s->rate * s->last;
    const double x = left > 0 && at - warmup < left ? (at - warmup) / left : 1;
    switch (s->kind) {
    case QKV_SCHEDULE_COSINE: return low + (s->rate - low) * .5 * (1 + cos(acos(-1.0) * x));
    case QKV_SCHEDULE_LINEAR: return low + (s->rate - low) * (1 - x);
    case QKV_SCHEDULE_INVERSE_SQRT: return s->rate * sqrt((warmup > 1 ? warmup : 1) / (at + 1));
    default: return s->rate;
    }
}

// Returns the number of blocks of a parameter.
static int64_t blocks_of(const struct qkv_parameter *p)
{
    return qkv_ceil_div(p->count, BLOCK);
}

int64_t qkv_parameter_blocks(const struct qkv_parameter *p, int64_t n)
{
    int64_t blocks = 0;
    for (int64_t i = 0; i < n; i++) blocks += blocks_of(&p[i]);
    return blocks;
}

struct qkv_weights qkv_parameter_part(const struct qkv_parameter *p, int64_t i, int64_t from,
                                      int64_t end)
{
    const int64_t before = qkv_parameter_blocks(p, i), count = p[i].count;
    if (!end) return (struct qkv_weights){ 0, count };
    const int64_t first = qkv_min64(qkv_max64(from - before, 0) * BLOCK, count);
    const int64_t last = qkv_min64(qkv_max64(end - before, 0) * BLOCK, count);
    return (struct qkv_weights){ first, qkv_max64(last - first, 0) };
}

qkv_status qkv_optimizer_init(struct qkv_optimizer *o, const struct qkv_parameter *p, int64_t n,
                              qkv_error *err)
{
    const bool adam = o->kind == QKV_ADAMW, moments = adam || o->momentum != 0;
    bool whole = true;
    o->m = o->v = NULL;
    o->steps = 0;
    o->parameters = n;
    if (moments) whole = (o->m = qkv_alloc_zero((size_t)n, sizeof *o->m)) != NULL;
    if (adam && whole) whole = (o->v = qkv_alloc_zero((size_t)n, sizeof *o->v)) != NULL;
    for (int64_t i = 0; i < n && moments && whole; i++) {
        const size_t own = (size_t)qkv_max64(1, qkv_parameter_part(p, i, o->from, o->end).n);
        o->m[i] = qkv_alloc_zero(own, sizeof **o->m);
        if (adam) o->v[i] = qkv_alloc_zero(own, sizeof **o->v);
        whole = o->m[i] && (!adam || o->v[i]);
    }
    if (whole) return QKV_OK;
    qkv_optimizer_free(o);
    return qkv_fail_memory(err, NULL);
}

void qkv_optimizer_free(struct qkv_optimizer *o)
{
    for (int64_t i = 0; i < o->parameters; i++) {
        if (o->m) qkv_free(o->m[i]);
        if (o->v) qkv_free(o->v[i]);
    }
    qkv_free(o->m);
    qkv_free(o->v);
    o->m = o->v = NULL;
    o->parameters = 0;
}

// ---- norm --------------------------------------------------------------------------------------
struct squares {
    const real *x;
    int64_t n;
    double *sum;
};

static void squares_of_block(void *ctx, int64_t i, int thread)
{
    struct squares *s = ctx;
    (void)thread;
    s->sum[i] = qkv_kernel()->squares(s->x + i * BLOCK, qkv_min64(BLOCK, s->n - i * BLOCK));
}

void qkv_gradient_squares(double *squares, const struct qkv_parameter *p, int64_t n, int64_t from,
                          int64_t end)
{
    int64_t before = 0; // blocks of the parameters before i
    for (int64_t i = 0; i < n; before += blocks_of(&p[i++])) {
        const struct qkv_weights own = qkv_parameter_part(p, i, from, end);
        if (!own.n) continue;
        struct squares s = { p[i].grad + own.first, own.n, squares + before + own.first / BLOCK };
        qkv_parallel_for(qkv_ceil_div(own.n, BLOCK), squares_of_block, &s);
    }
}

double qkv_gradient_norm(const double *squares, const struct qkv_parameter *p, int64_t n,
                         int64_t *first_bad)
{
    double sum = 0;
    if (first_bad) *first_bad = -1;
    for (int64_t i = 0; i < n; i++) {
        double one = 0;
        for (int64_t b = 0; b < blocks_of(&p[i]); b++) one += *squares++;
        if (first_bad && *first_bad < 0 && !isfinite(one)) *first_bad = i;
        sum += one;
    }
    return sqrt(sum);
}

int64_t qkv_parameter_bad(const struct qkv_parameter *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t at = 0; at < p[i].count; at += BLOCK)
            if (!isfinite(
                    qkv_kernel()->squares(p[i].value + at, qkv_min64(BLOCK, p[i].count - at))))
                return i;
    return -1;
}

// ---- steps -------------------------------------------------------------------------------------
struct step {
    const struct qkv_optimizer *o;
    struct qkv_parameter *p;
    int64_t number;
    struct qkv_weights own;
    struct qkv_update how;
};

static void step_of_block(void *ctx, int64_t i, int thread)
{
    struct step *s = ctx;
    const struct qkv_optimizer *o = s->o;
    const int64_t at = i * BLOCK, n = qkv_min64(BLOCK, s->own.n - at);
    real *w = s->p->value + s->own.first + at, *g = s->p->grad + s->own.first + at;
    (void)thread;
    if (o->kind == QKV_ADAMW)
        qkv_kernel()->adamw(w, o->m[s->number] + at, o->v[s->number] + at, g, n, &s->how);
    else
        qkv_kernel()->sgd(w, o->m ? o->m[s->number] + at : NULL, g, n, &s->how);
}

void qkv_optimizer_step(struct qkv_optimizer *o, struct qkv_parameter *p, int64_t n, double rate,
                        double scale)
{
    const double t = (double)++o->steps;
    for (int64_t i = 0; i < n; i++) {
        const double decay = p[i].decay ? o->decay : 0;
        const struct qkv_weights own = qkv_parameter_part(p, i, o->from, o->end);
        struct step s = { .o = o, .p = &p[i], .number = i, .own = own };
        s.how = (struct qkv_update){ .scale = (real)scale, .rate = (real)rate };
        if (o->kind == QKV_ADAMW) {
            s.how.rate = (real)(rate / (1 - pow(o->beta1, t)));
            s.how.keep = (real)(1 - rate * decay);
            s.how.m = (real)(1 - o->beta1);
            s.how.v = (real)(1 - o->beta2);
            s.how.root = (real)(1 / sqrt(1 - pow(o->beta2, t)));
            s.how.eps = (real)o->eps;
        } else {
            s.how.decay = (real)decay;
            s.how.momentum = (real)o->momentum;
        }
        if (own.n) qkv_parallel_for(qkv_ceil_div(own.n, BLOCK), step_of_block, &s);
    }
}
