// SPDX-License-Identifier: MIT
// verify_backward.c: tests the backward pass of attention on cases of verify_grid.def, with every
// instruction set and precision of this machine. Each element of dq, dk and dv must be within its
// bound, and the largest error of each gradient is compared with the error of the plain formula.
#include "verify/verify.h"
#include <stdlib.h>
#include <string.h>

static const char *const sides[VERIFY_SIDES] = { "dq", "dk", "dv" };

// The arrays of a backward call that struct verify_problem does not have.
struct arrays {
    void *d[VERIFY_SIDES], *scratch;
};

static void arrays_free(struct arrays *x)
{
    for (int i = 0; i < VERIFY_SIDES; i++) free(x->d[i]);
    free(x->scratch);
}

// Returns memory filled with NaN, to find elements that are never written.
static void *spoiled(size_t bytes)
{
    return memset(cmd_alloc(bytes, 1), 0xff, bytes);
}

// Runs the forward pass, which computes out and lse for the backward pass, and then the backward
// pass.
static qkv_status compute(struct arrays *x, struct verify_problem *p,
                          const struct verify_gradients *g, size_t scratch)
{
    const struct qkv_attention *a = &p->a;
    *x = (struct arrays){ .scratch = spoiled(qkv_attention_plan(a).scratch) };
    for (int i = 0; i < VERIFY_SIDES; i++) x->d[i] = spoiled(g->count[i] * qkv_dtype_size(p->type));
    const qkv_status status =
        qkv_attention_forward(p->out, p->lse, NULL, p->q, p->k, p->v, a, x->scratch);
    if (status) return status;
    free(x->scratch);
    x->scratch = spoiled(scratch);
    return qkv_attention_backward(x->d[VERIFY_DQ], x->d[VERIFY_DK], x->d[VERIFY_DV], NULL, g->dout,
                                  p->q, p->k, p->v, p->out, p->lse, a, x->scratch);
}

static void measure(struct verify_row *row, const struct arrays *x, const struct verify_case *c,
                    const struct verify_problem *p, const struct verify_gradients *g,
                    const struct verify_options *o)
{
    for (int i = 0; i < VERIFY_SIDES; i++) {
        char name[sizeof c->name + 8];
        // If every row has one key and F is 1, then P = 1 and dP = D, so dS = P (dP - D) is 0
        // whatever the rounding, and the plain formula has no error to compare with.
        const bool ruled = row->factor > 0 && g->plain[i] > 0;
        struct verify_measure m = { .plain = ruled ? g->plain[i] : NAN,
                                    .in_order = g->in_order[i] };
        for (size_t k = 0; k < g->count[i]; k++)
            verify_one_of(&m, verify_at(x->d[i], p->type, (int64_t)k), g->exact[i][k],
                          g->bound[i][k], g->given[i][k]);
        snprintf(name, sizeof name, "%s, %s", c->name, sides[i]);
        verify_add(row, name, &m, o);
    }
}

// Tests one precision with the instruction set that is in use.
static qkv_status run_one(const struct verify_case *c, struct verify_problem *p,
                          const struct verify_gradients *g, const struct verify_options *o,
                          qkv_error *err)
{
    const struct verify_promise promise = verify_promise_of(p->a.precision);
    const char *const name = qkv_precision_name(p->a.precision);
    const struct qkv_attention_plan plan = qkv_attention_backward_plan(&p->a, NULL);
    struct verify_row *const row =
        verify_row("backward", qkv_isa(), name, plan.status ? "" : plan.arithmetic, promise.type,
                   promise.factor);
    struct arrays x;
    if (plan.status == QKV_ERR_UNSUPPORTED) {
        verify_refused(row, plan.reason);
        return QKV_OK;
    }
    if (!plan.status && !o->isa && strcmp(plan.isa, qkv_isa()) != 0) {
        // this instruction set has no kernel of its own for the case; the row of plan.isa measures
        // it
        row->as = plan.isa;
        return QKV_OK;
    }
    const qkv_status status = compute(&x, p, g, plan.scratch);
    if (status)
        cmd_error(err, status, NULL,
                  "the kernel of backward, %s %s, cannot compute the case %s: %s", qkv_isa(), name,
                  c->name, plan.reason);
    else
        measure(row, &x, c, p, g, o);
    arrays_free(&x);
    return status;
}

// Tests one case with all instruction sets, and with all precisions whose arrays have this type.
static qkv_status run_case(const struct verify_case *c, qkv_dtype type,
                           const struct verify_options *o, qkv_error *err)
{
    struct verify_problem p;
    struct verify_gradients g;
    qkv_status status = QKV_OK;
    verify_problem_new(&p, c, type, o->seed);
    verify_gradients_new(&g, &p, o->seed);
    for (int n = 0; !status && qkv_precision_name((qkv_precision)n); n++) {
        if ((o->precision >= 0 && o->precision != n) ||
            qkv_precision_type((qkv_precision)n) != type)
            continue;
        const struct verify_promise promise = verify_promise_of((qkv_precision)n);
        p.a.precision = (qkv_precision)n;
        if (!promise.eight) verify_gradients_bound(&g, &p, &promise);
        for (int i = 0; !status && qkv_isa_supported(i); i++)
            if ((!o->isa || !strcmp(o->isa, qkv_isa_supported(i))) &&
                !(status = qkv_isa_set(qkv_isa_supported(i))))
                status = run_one(c, &p, &g, o, err);
    }
    verify_gradients_free(&g);
    verify_problem_free(&p);
    return status;
}

qkv_status verify_backward(const struct verify_options *o, qkv_error *err)
{
    static const qkv_dtype types[] = { QKV_F32, QKV_BF16, QKV_F16 };
    struct verify_case c;
    int64_t total = 0, done = 0;
    qkv_status status = QKV_OK;
    for (int64_t at = 0; verify_grid_next_back(&c, &at, o->quick);) total++;
    const struct qkv_progress progress = cmd_progress_begin("cases of backward");
    for (int64_t at = 0; !status && verify_grid_next_back(&c, &at, o->quick); done++) {
        for (size_t t = 0; !status && t < sizeof types / sizeof *types; t++)
            if (o->precision < 0 || qkv_precision_type((qkv_precision)o->precision) == types[t])
                status = run_case(&c, types[t], o, err);
        if (!status && progress.step(progress.user, "backward", done, total))
            status = cmd_error(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
    }
    cmd_progress_end();
    return status;
}
