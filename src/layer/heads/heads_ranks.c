// SPDX-License-Identifier: MIT
// heads_ranks.c: computes the attention of a trained model whose rows several ranks share, forward
// and backward (qkv/ranks.h). The ranks' attention reads q, k and v as separate arrays; here they
// are copied from the columns of the rows that the projection wrote.
#include "layer/heads/heads_work.h"
#include <qkv/ranks.h>

#ifdef QKV_DOUBLE // ranks exist for floats only
size_t qkv_heads_ranks_scratch(const struct qkv_heads *m, const struct qkv_attention *a, bool back,
                               qkv_status *status)
{
    (void)m, (void)a, (void)back;
    *status = QKV_ERR_INTERNAL;
    return SIZE_MAX;
}
qkv_status qkv_heads_ranks_forward(const struct qkv_heads_ranks_rows *x, real *lse,
                                   const struct qkv_heads *m, const struct qkv_attention *a,
                                   void *scratch)
{
    (void)x, (void)lse, (void)m, (void)a, (void)scratch;
    return QKV_ERR_INTERNAL;
}
qkv_status qkv_heads_ranks_backward(const struct qkv_heads_ranks_rows *x,
                                    const struct qkv_heads_ranks_rows *d, const real *lse,
                                    const struct qkv_heads *m, const struct qkv_attention *a,
                                    void *scratch)
{
    (void)x, (void)d, (void)lse, (void)m, (void)a, (void)scratch;
    return QKV_ERR_INTERNAL;
}
#else
// Separate arrays of the rank's rows, and the scratch of the call.
struct separate {
    void *q, *k, *v;
    void *dq, *dk, *dv; // only backward
    void *own;
};

static bool place(struct separate *s, struct qkv_arena *to, const struct qkv_heads *m, size_t size,
                  bool back, size_t own)
{
    const int64_t R = m->ranks->rows;
    void **const at[] = { &s->q, &s->k, &s->v, &s->dq, &s->dk, &s->dv };
    const int64_t width[] = { m->H * m->E, m->G * m->E, m->G * m->F };
    for (int i = 0; i < (back ? 6 : 3); i++) *at[i] = qkv_arena_rows(to, R, width[i % 3], size);
    s->own = qkv_arena_alloc(to, 1, own);
    return !qkv_arena_full(to);
}

// Copies q, k and v, or their gradients, between arrays of the layer and separate ones.
static void copy(const struct qkv_heads_ranks_rows *x, void *q, void *k, void *v,
                 const struct qkv_heads *m, qkv_dtype t, bool to_layer)
{
    const struct {
        void *layer, *separate;
        int64_t ld, width;
    } rows[] = { { x->at.q, q, x->at.q_ld, m->H * m->E },
                 { x->at.k, k, x->at.k_ld, m->G * m->E },
                 { x->at.v, v, x->at.v_ld, m->G * m->F } };
    for (int i = 0; i < 3; i++)
        qkv_copy_rows(to_layer ? rows[i].layer : rows[i].separate, t,
                      to_layer ? rows[i].ld : rows[i].width,
                      to_layer ? rows[i].separate : rows[i].layer, t,
                      to_layer ? rows[i].width : rows[i].ld, rows[i].width, m->ranks->rows);
}

static struct qkv_ranks_plan plan_of(const struct qkv_heads *m, const struct qkv_attention *whole,
                                     bool back)
{
    const struct qkv_comm *comm = m->ranks->comm;
    return back ? qkv_ranks_backward_plan(whole, NULL, comm) : qkv_ranks_plan(whole, comm);
}

size_t qkv_heads_ranks_scratch(const struct qkv_heads *m, const struct qkv_attention *a, bool back,
                               qkv_status *status)
{
    const struct qkv_attention whole = qkv_heads_attention(m, a, NULL);
    size_t most = 0;
    *status = QKV_OK;
    for (int i = 0; i < (back ? 2 : 1) && !*status; i++) {
        const struct qkv_ranks_plan p = plan_of(m, &whole, i);
        struct qkv_arena to = { NULL, SIZE_MAX, 0 };
        struct separate s;
        *status = p.status;
        if (!*status && !place(&s, &to, m, qkv_dtype_size(qkv_attention_kernel_table(&whole)->type),
                               i, p.scratch))
            *status = QKV_ERR_LIMIT;
        most = most > to.used ? most : to.used;
    }
    return *status ? SIZE_MAX : most;
}

qkv_status qkv_heads_ranks_forward(const struct qkv_heads_ranks_rows *x, real *lse,
                                   const struct qkv_heads *m, const struct qkv_attention *a,
                                   void *scratch)
{
    const struct qkv_attention whole = qkv_heads_attention(m, a, NULL);
    const qkv_dtype t = qkv_attention_kernel_table(&whole)->type;
    const struct qkv_ranks_plan p = plan_of(m, &whole, false);
    struct qkv_arena to = { scratch, SIZE_MAX, 0 };
    struct separate s;
    if (!p.status) place(&s, &to, m, qkv_dtype_size(t), false, p.scratch);
    if (p.status) return p.status;
    copy(x, s.q, s.k, s.v, m, t, false);
    return qkv_ranks_forward(x->heads, lse, s.q, s.k, s.v, &whole, m->ranks->comm, s.own);
}

qkv_status qkv_heads_ranks_backward(const struct qkv_heads_ranks_rows *x,
                                    const struct qkv_heads_ranks_rows *d, const real *lse,
                                    const struct qkv_heads *m, const struct qkv_attention *a,
                                    void *scratch)
{
    const struct qkv_attention whole = qkv_heads_attention(m, a, NULL);
    const qkv_dtype t = qkv_attention_kernel_table(&whole)->type;
    const struct qkv_ranks_plan p = plan_of(m, &whole, true);
    struct qkv_arena to = { scratch, SIZE_MAX, 0 };
    struct separate s;
    if (!p.status) place(&s, &to, m, qkv_dtype_size(t), true, p.scratch);
    if (p.status) return p.status;
    copy(x, s.q, s.k, s.v, m, t, false);
    const qkv_status status = qkv_ranks_backward(s.dq, s.dk, s.dv, NULL, d->heads, s.q, s.k, s.v,
                                                 x->heads, lse, &whole, m->ranks->comm, s.own);
    if (!status) copy(d, s.dq, s.dk, s.dv, m, t, true);
    return status;
}
#endif
