// SPDX-License-Identifier: MIT
// ranks_cache.c: attention to a KV cache whose parts are on several ranks.
//
// Each rank computes the sums of its parts. Ranks add them along the tree of the parts: the rank of
// the right half of a node sends its sums to the rank of the left half. Rank 0, which then has the
// sums of all parts, sends them back along a binomial tree, and each rank writes all results. A
// message begins with the status of its sender, so that all ranks end with the same status without
// another round.
#include "layer/cache/cache_work.h"
#include "layer/ranks/ranks_work.h"
#include <string.h>

#ifndef QKV_DOUBLE
struct head {
    int64_t status;
    uint64_t call;  // hash of what must be equal on all ranks
    uint64_t bytes; // of the sums that follow; 0: none
};

// A call, as one rank has it.
struct sharing {
    struct qkv_cache_job j;
    const struct qkv_comm *comm;
    int64_t parts;
    qkv_status status; // the first error of this rank, or of a rank from which it received
    struct head head;
    int nodes, next; // nodes of own parts; the next one that complete() meets
    struct qkv_cache_node node[QKV_CACHE_NODES_MAX];
    char *sum[QKV_CACHE_NODES_MAX], *received;
    void *own; // scratch of the cache
};

// ---- the parts of a rank -----------------------------------------------------------------------
static int64_t first_part(int64_t parts, int64_t rank, int64_t ranks)
{
    return rank * parts / ranks;
}
static int64_t rank_of(const struct sharing *x, int64_t part)
{
    return ((part + 1) * x->comm->size - 1) / x->parts;
}

QKV_API qkv_status qkv_ranks_cache_new(qkv_cache **out, const struct qkv_cache_shape *s,
                                       const struct qkv_comm *comm, qkv_error *err)
{
    if (out) *out = NULL;
    if (!out || !s || !comm || comm->size < 1)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_ranks_cache_new: expected a pointer for the cache, a shape and ranks");
    struct qkv_cache_shape own = *s;
    if (!own.parts) own.parts = comm->size;
    const int64_t all[] = {
        s->B, s->G, s->E, s->F, s->capacity, s->precision, s->native, own.parts
    };
    qkv_status status = qkv_ranks_same(comm, "shape of the cache", all, sizeof all, err);
    if (status) return status;
    if (own.parts < comm->size)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "number of parts is %lld, expected at least the number of ranks %lld",
                        (long long)own.parts, (long long)comm->size);
    if (own.parts <= QKV_CACHE_PARTS_MAX) { // or else qkv_cache_new refuses it
        own.first_part = first_part(own.parts, comm->rank, comm->size);
        own.own_parts = first_part(own.parts, comm->rank + 1, comm->size) - own.first_part;
    }
    status = qkv_cache_new(out, &own, err);
    const qkv_status all_status = qkv_ranks_agree(comm, status);
    if (!all_status) return QKV_OK;
    qkv_cache_free(*out);
    *out = NULL;
    return status
               ? status
               : qkv_fail(err, all_status, NULL, "another rank cannot make its part of the cache");
}

// ---- validation and scratch --------------------------------------------------------------------
static uint64_t hash(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}
// Returns a hash of the sizes and lengths of the call.
static uint64_t hash_call(const struct qkv_cache_job *j)
{
    const struct qkv_attention *a = &j->w.a;
    uint32_t scale, cap;
    memcpy(&scale, &a->scale, sizeof scale);
    memcpy(&cap, &a->softcap, sizeof cap);
    const uint64_t numbers[] = { (uint64_t)a->T,
                                 (uint64_t)a->H,
                                 a->causal,
                                 a->no_softmax,
                                 a->window.on,
                                 (uint64_t)a->window.left,
                                 (uint64_t)a->window.right,
                                 (uint64_t)scale << 32 | cap };
    uint64_t h = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) h = hash(h, numbers[i]);
    for (int64_t b = 0; b < a->B; b++) {
        h = hash(h, (uint64_t)j->cache->lengths[b]);
        h = hash(h, (uint64_t)j->cache->items[b].first);
        if (a->k_lengths) h = hash(h, (uint64_t)a->k_lengths[b]);
    }
    return h;
}

static bool place(struct sharing *x, struct qkv_arena *to)
{
    for (int i = 0; i < x->nodes; i++) x->sum[i] = qkv_arena_alloc(to, 1, x->head.bytes);
    x->received = qkv_arena_alloc(to, 1, x->head.bytes);
    x->own = qkv_arena_alloc(to, 1, x->j.scratch);
    return !qkv_arena_full(to);
}

static qkv_status resolve(struct sharing *x, struct qkv_ranks_plan *p, const qkv_cache *c,
                          const struct qkv_attention *a, const struct qkv_comm *comm)
{
    const struct qkv_attention_reason say = { p->reason, sizeof p->reason };
    struct qkv_arena size = { NULL, SIZE_MAX, 0 };
    *x = (struct sharing){ .comm = comm, .parts = c ? c->shape.parts : 0 };
    if (!c || !comm || comm->size < 1)
        return p->status =
                   qkv_attention_refuse(&say, QKV_ERR_USAGE, "the cache or the ranks are missing");
    const int64_t first = first_part(x->parts, comm->rank, comm->size);
    if (c->shape.first_part != first ||
        c->shape.own_parts != first_part(x->parts, comm->rank + 1, comm->size) - first)
        return p->status = qkv_attention_refuse(
                   &say, QKV_ERR_USAGE,
                   "cache has %lld parts from part %lld on, which qkv_ranks_cache_new does not "
                   "make for rank %lld of %lld",
                   (long long)c->shape.own_parts, (long long)c->shape.first_part,
                   (long long)comm->rank, (long long)comm->size);
    p->status = qkv_cache_resolve_parts(&x->j, c, NULL, 0, a, p->reason, sizeof p->reason);
    if (p->status) return p->status;
    x->nodes = qkv_cache_nodes(x->node, c);
    x->head = (struct head){ .call = hash_call(&x->j), .bytes = qkv_cache_sums_bytes(&x->j) };
    if (!place(x, &size))
        return p->status =
                   qkv_attention_refuse(&say, QKV_ERR_LIMIT, "scratch does not fit into memory");
    p->scratch = qkv_round_up(size.used, 64);
    return QKV_OK;
}

// ---- messages ----------------------------------------------------------------------------------
static void note(struct sharing *x, qkv_status status)
{
    if (!x->status) x->status = status;
}

static void send_sums(struct sharing *x, int64_t to, const char *sums)
{
    const struct qkv_comm *c = x->comm;
    struct head head = x->head;
    head.status = x->status;
    if (x->status) head.bytes = 0;
    qkv_status status = qkv_ranks_send(c, to, &head, sizeof head);
    if (!status && head.bytes) status = qkv_ranks_send(c, to, sums, (size_t)head.bytes);
    note(x, status);
}

// Receives sums into `to`. If this rank has an error or the other rank has another call, they are
// received and dropped.
static void receive_sums(struct sharing *x, int64_t from, char *to)
{
    const struct qkv_comm *c = x->comm;
    struct head head = { 0 };
    char *drop = NULL;
    qkv_status status = qkv_ranks_receive(c, from, &head, sizeof head);
    if (status) {
        note(x, status);
        return;
    }
    if (head.bytes && !x->status && (head.call != x->head.call || head.bytes != x->head.bytes))
        note(x, QKV_ERR_USAGE);
    if (head.bytes && x->status) {
        to = drop = qkv_alloc(1, (size_t)head.bytes);
        if (!drop) {
            qkv_ranks_give_up(c, QKV_ERR_LIMIT); // the message stays in the connection
            return;
        }
    }
    if (head.bytes) status = qkv_ranks_receive(c, from, to, (size_t)head.bytes);
    qkv_free(drop);
    note(x, status ? status : (qkv_status)head.status);
}

// ---- the tree ----------------------------------------------------------------------------------
// Completes a node. Returns its sums on the rank of its first part, NULL on the others.
static char *complete(struct sharing *x, struct qkv_cache_node node)
{
    const int64_t rank = x->comm->rank, left_rank = rank_of(x, node.from);
    if (left_rank == rank_of(x, node.end - 1)) return rank == left_rank ? x->sum[x->next++] : NULL;
    const int64_t half = qkv_cache_half(node), right_rank = rank_of(x, half);
    char *left = complete(x, (struct qkv_cache_node){ node.from, half });
    const char *right = complete(x, (struct qkv_cache_node){ half, node.end });
    if (left_rank != right_rank && rank == right_rank) send_sums(x, left_rank, right);
    if (rank != left_rank) return NULL;
    if (left_rank != right_rank) {
        receive_sums(x, right_rank, x->received);
        right = x->received;
    }
    if (!x->status) qkv_cache_add_sums(&x->j, left, right);
    return left;
}

// Passes the sums of all parts, which rank 0 has, to all ranks: rank r receives them from the rank
// without the lowest bit of r.
static void spread(struct sharing *x, char *sums)
{
    const int64_t rank = x->comm->rank, size = x->comm->size;
    int64_t bit = 1;
    while (bit < size && !(rank & bit)) bit *= 2;
    if (rank) receive_sums(x, rank - bit, sums);
    for (bit /= 2; bit; bit /= 2)
        if (rank + bit < size) send_sums(x, rank + bit, sums);
}

// Returns the number of messages with sums that this rank sends.
static int64_t messages(const struct sharing *x, struct qkv_cache_node node)
{
    const int64_t left_rank = rank_of(x, node.from);
    if (left_rank == rank_of(x, node.end - 1)) return 0;
    const int64_t half = qkv_cache_half(node), right_rank = rank_of(x, half);
    return messages(x, (struct qkv_cache_node){ node.from, half }) +
           messages(x, (struct qkv_cache_node){ half, node.end }) +
           (left_rank != right_rank && x->comm->rank == right_rank);
}

QKV_API struct qkv_ranks_plan
qkv_ranks_cache_plan(const qkv_cache *c, const struct qkv_attention *a, const struct qkv_comm *comm)
{
    struct qkv_ranks_plan p = { 0 };
    struct qkv_attention_plan one = { 0 };
    struct sharing x;
    if (resolve(&x, &p, c, a, comm)) return p;
    int64_t bit = 1, sent = messages(&x, (struct qkv_cache_node){ 0, x.parts });
    while (bit < comm->size && !(comm->rank & bit)) bit *= 2;
    for (bit /= 2; bit; bit /= 2) sent += comm->rank + bit < comm->size;
    p.sent = (size_t)sent * (sizeof x.head + (size_t)x.head.bytes);
    qkv_attention_describe(&one, &x.j.w);
    p.all = one.flops;
    p.flops = one.flops * (double)c->shape.own_parts / (double)x.parts;
    return p;
}

QKV_API qkv_status qkv_ranks_cache_forward(void *out, float *lse, const void *q, const qkv_cache *c,
                                           const struct qkv_attention *a,
                                           const struct qkv_comm *comm, void *scratch)
{
    struct qkv_ranks_plan p = { 0 };
    struct sharing x;
    if (!c || !comm) return QKV_ERR_USAGE;
    x.status = QKV_OK;
    const qkv_status status = resolve(&x, &p, c, a, comm);
    struct qkv_arena to = { scratch, p.scratch, 0 };
    note(&x, status);
    if (!x.status && (!scratch || (uintptr_t)scratch % 64 || !place(&x, &to)))
        x.status = QKV_ERR_USAGE;
    x.j.w.scratch = p.scratch;
    if (!x.status && x.j.row_blocks)
        note(&x, qkv_attention_check_arrays(&x.j.w, &(struct qkv_attention_arrays){
                                                        out, q, NULL, NULL, scratch, lse, NULL }));
    if (!x.status) qkv_cache_sums(&x.j, x.node, x.nodes, x.sum, q, x.own);
    complete(&x, (struct qkv_cache_node){ 0, x.parts });
    spread(&x, x.sum[0]);
    if (!x.status) qkv_cache_finish(&x.j, out, lse, x.sum[0]);
    return x.status;
}
#endif
