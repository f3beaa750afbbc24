// SPDX-License-Identifier: MIT
// ranks_forward.c: attention over ranks. Each rank collects all keys and values and runs the
// attention of its own rows, as a part of the whole call; or, if they are too many, receives them
// block by block (ranks_pipeline.c).
#include "layer/ranks/ranks_work.h"

#ifndef QKV_DOUBLE
// The arrays in scratch.
struct arrays {
    char *k, *v; // of all keys
    float *lse;  // of one run
    void *own;   // scratch of attention
    struct qkv_ranks_pipeline pipeline;
};

static bool place_all(struct arrays *x, struct qkv_arena *to, const struct qkv_ranks_call *c)
{
    size_t most = 64;
    int64_t rows = 0;
    for (int i = 0; i < 2; i++) {
        struct qkv_attention_work w;
        const struct qkv_attention a = qkv_ranks_run(c, i);
        if (qkv_attention_resolve(&w, qkv_attention_kernel_table(&a), &a, NULL, 0)) return false;
        most = most > w.scratch ? most : w.scratch;
        rows = qkv_max64(rows, a.T);
    }
    *x = (struct arrays){ .k = qkv_ranks_place(c, c->whole.E, to),
                          .v = qkv_ranks_place(c, c->whole.F, to) };
    x->lse = qkv_arena_alloc(to, (size_t)(c->whole.B * c->whole.H * rows), sizeof(float));
    x->own = qkv_arena_alloc(to, 1, most);
    return !qkv_arena_full(to);
}

static bool place(struct arrays *x, struct qkv_arena *to, const struct qkv_ranks_call *c,
                  enum qkv_ranks_mode mode)
{
    return mode == QKV_RANKS_PIPELINE ? qkv_ranks_pipeline_place(&x->pipeline, c, to)
                                      : place_all(x, to, c);
}

// Counts what the rank computes and sends.
static void describe(struct qkv_ranks_plan *p, const struct qkv_ranks_call *c,
                     const struct arrays *x)
{
    const struct qkv_attention *a = &c->whole;
    for (int i = 0; i < 2; i++) {
        struct qkv_attention run = qkv_ranks_run(c, i);
        p->flops += qkv_attention_plan(&run).flops;
    }
    p->all = qkv_attention_plan(a).flops;
    p->sent =
        (size_t)(a->B * c->keys.all * a->G * (a->E + a->F)) * c->size * (size_t)(c->comm->size - 1);
    if (p->mode != QKV_RANKS_PIPELINE) return;
    p->blocks = a->B * x->pipeline.blocks.runs;
    p->block = (size_t)(x->pipeline.most * a->G * (a->E + a->F)) * c->size;
}

static qkv_status resolve(struct qkv_ranks_plan *p, struct qkv_ranks_call *c, struct arrays *x,
                          const struct qkv_attention *a, const struct qkv_comm *comm)
{
    struct qkv_arena size = { NULL, SIZE_MAX, 0 };
    if (qkv_ranks_resolve(c, p, a, comm)) return p->status;
    qkv_ranks_choose(p, c);
    if (!place(x, &size, c, p->mode))
        p->status =
            qkv_attention_refuse(&(struct qkv_attention_reason){ p->reason, sizeof p->reason },
                                 QKV_ERR_LIMIT, "scratch does not fit into memory");
    p->scratch = qkv_round_up(size.used, 64);
    return p->status;
}

QKV_API struct qkv_ranks_plan qkv_ranks_plan(const struct qkv_attention *a,
                                             const struct qkv_comm *comm)
{
    struct qkv_ranks_plan p = { 0 };
    struct qkv_ranks_call c;
    struct arrays x;
    if (!resolve(&p, &c, &x, a, comm)) describe(&p, &c, &x);
    return p;
}

static qkv_status run_collected(const struct qkv_ranks_call *c, const struct arrays *x,
                                const struct qkv_ranks_arrays *p)
{
    qkv_status status = qkv_ranks_collect(c, x->k, p->k, c->whole.E);
    if (!status) status = qkv_ranks_collect(c, x->v, p->v, c->whole.F);
    for (int i = 0; i < 2 && !status; i++) {
        const struct qkv_attention run = qkv_ranks_run(c, i);
        const int64_t before = i ? c->rows.n[0] : 0;
        if (!run.T || !run.B) continue;
        status = qkv_attention_forward(
            (char *)p->out + (size_t)(before * run.out_strides.t) * c->size, p->lse ? x->lse : NULL,
            NULL, (const char *)p->q + (size_t)(before * run.q_strides.t) * c->size, x->k, x->v,
            &run, x->own);
        if (p->lse && !status && !run.no_softmax) qkv_ranks_lse(c, i, x->lse, p->lse, true);
    }
    return status;
}

QKV_API qkv_status qkv_ranks_forward(void *out, float *lse, const void *q, const void *k,
                                     const void *v, const struct qkv_attention *a,
                                     const struct qkv_comm *comm, void *scratch)
{
    const struct qkv_ranks_arrays own = { out, lse, q, k, v, scratch };
    struct qkv_ranks_plan p = { 0 };
    struct qkv_ranks_call c;
    struct arrays x;
    if (!comm) return QKV_ERR_USAGE;
    qkv_status status = resolve(&p, &c, &x, a, comm);
    const bool pipeline = p.mode == QKV_RANKS_PIPELINE;
    struct qkv_arena to = { scratch, p.scratch, 0 };
    if (!status && (!scratch || (uintptr_t)scratch % 64 || !place(&x, &to, &c, p.mode) ||
                    (c.keys.all && a->B && (!k || !v)) || (c.rows.all && a->B && (!q || !out))))
        status = QKV_ERR_USAGE;
    if (!status && pipeline) status = qkv_ranks_pipeline_check(&x.pipeline, &own, p.scratch);
    status = qkv_ranks_agree_limit(comm, status);
    if (!status)
        status = pipeline ? qkv_ranks_pipeline_run(&x.pipeline, &own) : run_collected(&c, &x, &own);
    return qkv_ranks_agree(comm, status);
}
#endif
