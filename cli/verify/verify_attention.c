// SPDX-License-Identifier: MIT
// verify_attention.c: tests the attention operator on the cases of verify_grid.def, with every
// instruction set and precision of this machine. Each number must be within its bound
// (docs/numerics.md, "The bound of a row"), and the largest error is compared with the error of the
// plain formula.
#include "verify/verify.h"
#include <stdlib.h>
#include <string.h>

struct verify_promise verify_promise_of(qkv_precision p)
{
    const qkv_dtype type = qkv_precision_type(p);
    switch (p) {
    // A float is the sum of three terms of 8 bits. Of the nine products of terms, the smallest are
    // omitted; their sum is at most 2.01 u.
    case QKV_PRECISION_F32: return (struct verify_promise){ type, 1.5, 2.01, 2.01, 0, false };
    case QKV_PRECISION_F32_STRICT: return (struct verify_promise){ type, 1.5, 0, 0, 0, false };
    // A float is rounded to the sum of two terms of 8 bits; the omitted products are at most 3 *
    // 2^-16 of the product.
    case QKV_PRECISION_F32_FAST: return (struct verify_promise){ type, 0, 770, 770, 0, false };
    // Products of 16-bit floats are exact as floats. P = exp(...) may be less accurate than a
    // float, and is rounded to 8 bits before it is multiplied by v.
    case QKV_PRECISION_BF16: return (struct verify_promise){ type, 2, 0, 0x1p16, 0x1p-13, false };
    case QKV_PRECISION_F16: return (struct verify_promise){ type, 2, 0, 0, 0, false };
    default: return (struct verify_promise){ type, 0, 0, 0, 0, true };
    }
}

// Error of rounding to an integer of at most `most`, relative to the largest number: half a step,
// and a little more because the scale is rounded too.
#define STEP(MOST) ((0.5 + (MOST)*0x1p-22) / (MOST))
#define STEP8      STEP(127)
#define STEP16     STEP(32767)

// Returns the largest possible error of a score in this row.
static double score_bound(const struct verify_expected *e, const struct verify_promise *p)
{
    return VERIFY_U_F32 * (e->score + p->qk * e->size) + p->power +
           (p->eight ? STEP8 * e->keys8 + STEP16 * e->queries16 : 0);
}

// Returns the largest error allowed for element f of row n of the output.
static double bound_out(const struct verify_reference *r, int64_t n, int64_t f, double exact,
                        const struct verify_promise *p, bool no_softmax)
{
    const double u = VERIFY_U_F32, keys = (double)r->row[n].keys;
    const double score = score_bound(&r->row[n], p), reach = r->reach[n * r->F + f];
    const double coarse = p->eight ? STEP8 * r->row[n].values8 + STEP16 * r->row[n].weights16 : 0;
    double bound;
    if (no_softmax) {
        const double all = r->sum[n * r->F + f];
        bound = coarse + score * (all + (p->eight ? STEP8 * keys * r->row[n].tallest : 0));
        bound += u * (keys + 8 + p->pv) * (reach + bound);
    } else {
        const double weights = expm1(2 * score);
        bound = weights * reach + coarse * (1 + weights);
        bound += u * (2 * keys + 24 + p->pv) * (reach + bound);
        // Whatever the weights, the computed and the exact result are between the smallest and the
        // largest visible value. So they differ by at most twice the largest magnitude.
        bound = fmin(bound, 2 * r->row[n].tallest *
                                (1 + u * (2 * keys + 24 + p->pv) + (p->eight ? STEP8 : 0)));
    }
    if (p->type != QKV_F32) // stored
        bound += verify_unit(p->type) * (fabs(exact) + bound) + verify_ulp(p->type, 0) / 2;
    // products and weights may be smaller than the smallest normal float
    return bound + keys * 0x1p-126;
}

// Returns the largest error allowed for the lse of a row.
static double bound_lse(const struct verify_expected *e, const struct verify_promise *p)
{
    return score_bound(e, p) + VERIFY_U_F32 * ((double)e->keys + 24 + 2 * fabs(e->lse));
}

static void measure(struct verify_measure *m, const struct verify_problem *p,
                    const struct verify_reference *r, const struct verify_promise *promise)
{
    const struct qkv_attention *a = &p->a;
    *m = (struct verify_measure){ .plain = promise->factor > 0 ? r->plain : NAN,
                                  .in_order = r->in_order };
    for (int64_t n = 0; n < r->rows; n++) {
        const struct verify_expected *const e = &r->row[n];
        const int64_t at =
            e->b * a->out_strides.b + e->t * a->out_strides.t + e->h * a->out_strides.h;
        for (int64_t f = 0; f < a->F; f++) {
            const double exact = r->out[n * a->F + f];
            verify_one(m, verify_at(p->out, p->type, at + f), exact,
                       bound_out(r, n, f, exact, promise, a->no_softmax));
        }
        if (a->no_softmax) continue;
        // only the bound applies to the lse, not the comparison with the plain formula
        struct verify_measure lse = { 0 };
        verify_one(&lse, (double)p->lse[(e->b * a->H + e->h) * a->T + e->t], e->lse,
                   bound_lse(e, promise));
        m->share = fmax(m->share, lse.share);
    }
}

// How a case is computed: with the attention operator, or from a KV cache that contains its keys
// and values.
struct way {
    const char *kernel;
    const qkv_cache *cache; // NULL: with the attention operator
};

static qkv_status run_way(const struct way *way, const struct verify_case *c,
                          struct verify_problem *p, const struct verify_reference *r,
                          const struct verify_options *o, qkv_error *err)
{
    const struct qkv_attention *a = &p->a;
    const struct verify_promise promise = verify_promise_of(a->precision);
    const char *const name = qkv_precision_name(a->precision);
    const struct qkv_attention_plan plan =
        way->cache ? qkv_cache_plan(way->cache, a) : qkv_attention_plan(a);
    if (plan.status == QKV_ERR_UNSUPPORTED) {
        verify_refused(verify_row(way->kernel, qkv_isa(), name, "", promise.type, promise.factor),
                       plan.reason);
        return QKV_OK;
    }
    struct verify_row *const row =
        verify_row(way->kernel, qkv_isa(), name, plan.arithmetic, promise.type, promise.factor);
    // the kernel belongs to another instruction set, in whose row it is measured
    if (!o->isa && strcmp(plan.isa, qkv_isa()) != 0) {
        row->as = plan.isa;
        return QKV_OK;
    }
    void *scratch = cmd_alloc(plan.scratch, 1);
    // Fill outputs and scratch with NaN first, to find elements that are never written.
    memset(p->out, 0xff, p->out_count * qkv_dtype_size(p->type));
    memset(p->lse, 0xff, p->lse_count * sizeof *p->lse);
    memset(scratch, 0xff, plan.scratch);
    const qkv_status status =
        way->cache ? qkv_cache_forward(p->out, p->lse, NULL, p->q, way->cache, a, scratch)
                   : qkv_attention_forward(p->out, p->lse, NULL, p->q, p->k, p->v, a, scratch);
    free(scratch);
    if (status)
        return cmd_error(err, status, NULL,
                         "the kernel of %s, %s %s, cannot compute the case %s: %s", way->kernel,
                         qkv_isa(), name, c->name, plan.reason);
    struct verify_measure m;
    measure(&m, p, r, &promise);
    verify_add(row, c->name, &m, o);
    return QKV_OK;
}

// Returns true if a case is also computed from a KV cache: it has few queries, which are the last
// tokens of the sequence.
static bool decodes(const struct verify_case *c)
{
    return c->T <= 8 && !(c->features & (PACKED | LENGTHS)) &&
           (c->features & BOTTOM_RIGHT || !(c->features & (CAUSAL | WINDOW | ALIBI)));
}

static qkv_status run_one(const struct verify_case *c, struct verify_problem *p,
                          const struct verify_reference *r, const struct verify_options *o,
                          qkv_error *err)
{
    const struct qkv_attention *a = &p->a;
    const int64_t parts[] = { 1, 5 }; // the keys of the cache, split
    qkv_status status = run_way(&(struct way){ "attention", NULL }, c, p, r, o, err);
    for (int i = 0; i < 2 && !status && decodes(c); i++) {
        const struct qkv_cache_shape shape = {
            .B = a->B, .G = a->G, .E = a->E, .F = a->F, .precision = a->precision, .parts = parts[i]
        };
        qkv_cache *cache = NULL;
        if ((status = qkv_cache_new(&cache, &shape, err)))
            return status == QKV_ERR_UNSUPPORTED ? QKV_OK : status;
        status = qkv_cache_append(cache, QKV_CACHE_ALL, p->k, p->v, a->S, &a->k_strides,
                                  &a->v_strides, err);
        const struct way way = { i ? "decode, 5" : "decode", cache };
        if (!status) status = run_way(&way, c, p, r, o, err);
        qkv_cache_free(cache);
    }
    return status;
}

// Tests one case with all instruction sets, and with all precisions whose arrays have this type.
// All are compared with the same reference.
static qkv_status run_case(const struct verify_case *c, qkv_dtype type,
                           const struct verify_options *o, qkv_error *err)
{
    struct verify_problem p;
    struct verify_reference r = { 0 };
    qkv_status status = QKV_OK;
    verify_problem_new(&p, c, type, o->seed);
    verify_reference_new(&r, &p, o->quick ? 48 : 64);
    for (int i = 0; !status && qkv_isa_supported(i); i++) {
        if (o->isa && strcmp(o->isa, qkv_isa_supported(i)) != 0) continue;
        if ((status = qkv_isa_set(qkv_isa_supported(i)))) break;
        for (int n = 0; !status && qkv_precision_name((qkv_precision)n); n++)
            if ((o->precision < 0 || o->precision == n) &&
                qkv_precision_type((qkv_precision)n) == type) {
                p.a.precision = (qkv_precision)n;
                status = run_one(c, &p, &r, o, err);
            }
    }
    verify_reference_free(&r);
    verify_problem_free(&p);
    return status;
}

qkv_status verify_attention(const struct verify_options *o, qkv_error *err)
{
    static const qkv_dtype types[] = { QKV_F32, QKV_BF16, QKV_F16 };
    struct verify_case c;
    int64_t total = 0, done = 0;
    qkv_status status = QKV_OK;
    for (int64_t at = 0; verify_grid_next(&c, &at, o->quick);) total++;
    const struct qkv_progress progress = cmd_progress_begin("cases of attention");
    for (int64_t at = 0; !status && verify_grid_next(&c, &at, o->quick); done++) {
        for (size_t t = 0; !status && t < sizeof types / sizeof *types; t++)
            if (o->precision < 0 || qkv_precision_type((qkv_precision)o->precision) == types[t])
                status = run_case(&c, types[t], o, err);
        if (!status && progress.step(progress.user, "attention", done, total))
            status = cmd_error(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
    }
    cmd_progress_end();
    return status;
}
