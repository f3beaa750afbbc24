// SPDX-License-Identifier: MIT
// ranks_probe.c: collects attention statistics on ranks. The heads of all batch items are divided
// among the ranks, so that each sum over rows has the order of one process; the ranks then collect
// the arrays.
#include "layer/attention/attention_probe_work.h"
#include "layer/ranks/ranks_work.h"

#ifndef QKV_DOUBLE
// Collects an array of n numbers of 4 bytes per pair; NULL: not requested. at: room for 2 P numbers.
static qkv_status collect(const struct qkv_comm *comm, void *array, int64_t n, int64_t pairs,
                          size_t *at)
{
    const int64_t P = comm->size;
    if (!array) return QKV_OK;
    for (int64_t r = 0; r < P; r++) {
        const int64_t from = r * pairs / P, end = (r + 1) * pairs / P;
        at[r] = (size_t)(from * n) * sizeof(float);
        at[P + r] = (size_t)((end - from) * n) * sizeof(float);
    }
    return qkv_ranks_gather(comm, array, at, at + P);
}

static qkv_status collect_all(const struct qkv_probe_work *x, const struct qkv_comm *comm,
                              size_t *at)
{
    const struct qkv_probe *p = &x->p;
    const struct qkv_attention *a = &x->w.a;
    const int64_t tiles = p->side * p->side, line = 2 * p->reach + 1;
    const struct {
        void *array;
        int64_t n;
    } arrays[] = { { p->top_weight, a->T * p->top_k },
                   { p->top_key, a->T * p->top_k },
                   { p->row_weights, p->rows * a->S },
                   { p->received, a->S },
                   { p->entropy, a->T },
                   { p->distance, a->T },
                   { p->offsets, line },
                   { p->tile_max, tiles },
                   { p->tile_mean, tiles } };
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays && !status; i++)
        status = collect(comm, arrays[i].array, arrays[i].n, a->B * a->H, at);
    return status;
}

QKV_API qkv_status qkv_ranks_probe(const struct qkv_probe *p, const void *q, const void *k,
                                   const float *lse, const struct qkv_attention *a,
                                   const struct qkv_comm *comm, void *scratch)
{
    struct qkv_probe_work x;
    if (!comm || comm->size < 1) return QKV_ERR_USAGE;
    qkv_status status = qkv_probe_resolve_call(&x, a, p, NULL, 0);
    if (!status) status = qkv_probe_check(&x, q, k, lse, scratch);
    size_t *at = qkv_alloc((size_t)comm->size, 2 * sizeof *at);
    if (!status && !at) status = QKV_ERR_LIMIT;
    status = qkv_ranks_agree(comm, status);
    if (!status) {
        const int64_t pairs = x.w.a.B * x.w.a.H, P = comm->size, r = comm->rank;
        qkv_probe_run_pairs(&x, q, k, lse, scratch, r * pairs / P, (r + 1) * pairs / P);
        status = collect_all(&x, comm, at);
    }
    qkv_free(at);
    return qkv_ranks_agree(comm, status);
}
#endif
