// SPDX-License-Identifier: MIT
// train_ranks.c: trains one model with several processes (ranks), with the bits of one.
//
// The batches of a step are the leaves of a binary tree, in which the left part of each node is the
// largest power of two of its leaves. Each rank computes the gradients of consecutive batches and
// adds them up as far as they form nodes. Then each rank gets from all others the gradients of its
// own blocks of the weights, completes the tree for them, updates these weights with its part of
// the moments (ZeRO-1), and all ranks collect the weights. The tree depends on the number of
// batches only, so every sum has one order.
// Source: Rajbhandari et al. 2020 (arXiv 1910.02054) for the partition of the optimizer's state.
#include "task/train/train_internal.h"
#include <stdio.h>
#include <string.h>

enum { PIECE = 1 << 16 }; // numbers that one task of a parallel loop adds

// ---- what each rank has ------------------------------------------------------------------------
bool train_leads(const struct train *t)
{
    return t->comm.rank == 0;
}

static int64_t share(int64_t all, int64_t rank, int64_t size)
{
    return all / size * rank + qkv_min64(rank, all % size);
}

static int64_t first_batch(const struct train *t, int64_t rank)
{
    return share(t->o->accumulate, rank, t->comm.size);
}
static int64_t first_block(const struct train *t, int64_t rank)
{
    return share(t->ranks.blocks, rank, t->comm.size);
}
// Returns the place of the first weight of a rank, counted from the first weight of all.
static int64_t first_weight(const struct train *t, int64_t rank)
{
    const int64_t block = first_block(t, rank);
    if (rank == t->comm.size) return t->ranks.weights;
    for (int64_t i = 0; i < t->n; i++) {
        const struct qkv_weights w = qkv_parameter_part(t->p, i, block, t->ranks.blocks);
        if (w.n) return t->p[i].grad - t->p[0].grad + w.first;
    }
    return t->ranks.weights;
}

bool train_runs_batch(const struct train *t, int64_t i)
{
    return i >= first_batch(t, t->comm.rank) && i < first_batch(t, t->comm.rank + 1);
}

struct qkv_weights train_rank_weights(const struct train *t, int64_t i, int64_t rank)
{
    const int64_t from = first_block(t, rank), end = first_block(t, rank + 1);
    return from == end ? (struct qkv_weights){ 0 } : qkv_parameter_part(t->p, i, from, end);
}

qkv_status train_ranks_begin(struct train *t, qkv_error *err)
{
    struct train_ranks *x = &t->ranks;
    const int64_t size = t->comm.size;
    int64_t most = 1;
    x->blocks = qkv_parameter_blocks(t->p, t->n);
    x->weights = 0;
    for (int64_t i = 0; i < t->n; i++) {
        x->weights = qkv_max64(x->weights, t->p[i].grad - t->p[0].grad + t->p[i].count);
        most = qkv_max64(most, t->p[i].count);
    }
    x->squares = qkv_alloc((size_t)x->blocks + 1, sizeof *x->squares);
    x->loss = qkv_alloc((size_t)t->o->accumulate, sizeof *x->loss);
    x->at = qkv_alloc((size_t)size, 2 * sizeof *x->at);
    if (size > 1 && train_leads(t)) x->array = qkv_alloc((size_t)most, sizeof *x->array);
    if (!x->squares || !x->loss || !x->at || (size > 1 && train_leads(t) && !x->array))
        return qkv_fail_memory(err, NULL);
    if (size == 1) return QKV_OK;
    t->optimizer.from = first_block(t, t->comm.rank);
    t->optimizer.end = first_block(t, t->comm.rank + 1);
    // an empty part, since 0 .. 0 means all blocks
    if (!t->optimizer.end) t->optimizer.from = t->optimizer.end = x->blocks;
    return QKV_OK;
}

void train_ranks_end(struct train *t)
{
    struct train_ranks *x = &t->ranks;
    for (int i = 0; i < TRAIN_NODES; i++) {
        qkv_free(x->sum[i]);
        qkv_free(x->part[i]);
    }
    qkv_free(x->squares);
    qkv_free(x->loss);
    qkv_free(x->at);
    qkv_free(x->array);
}

// ---- the tree ----------------------------------------------------------------------------------
// Returns whether leaves from .. end-1 are a node of the tree.
static bool is_node(int64_t leaves, int64_t from, int64_t end)
{
    int64_t first = 0, last = leaves;
    while (first != from || last != end) {
        int64_t half = 1;
        if (last - first < 2) return false;
        while (half * 2 < last - first) half *= 2;
        if (end <= first + half)
            last = first + half;
        else if (from >= first + half)
            first += half;
        else
            return false;
    }
    return true;
}

struct addition {
    real *to;
    const real *x;
    int64_t n;
};
static void add_piece(void *ctx, int64_t i, int thread)
{
    const struct addition *a = ctx;
    const int64_t end = qkv_min64(a->n, (i + 1) * PIECE);
    (void)thread;
    for (int64_t k = i * PIECE; k < end; k++) a->to[k] += a->x[k];
}
static void add(real *to, const real *x, int64_t n)
{
    struct addition a = { to, x, n };
    qkv_parallel_for(qkv_ceil_div(n, PIECE), add_piece, &a);
}

static bool reserve(real **at, int64_t n)
{
    if (!*at) *at = qkv_alloc((size_t)qkv_max64(n, 1), sizeof **at);
    return *at != NULL;
}

// The nodes of a rank are those with the sums sum[0], sum[1], .., and the last one, whose sum stays
// in the gradients of the model.
qkv_status train_sum_batch(struct train *t, int64_t i, qkv_error *err)
{
    struct train_ranks *x = &t->ranks;
    real *const gradient = t->p[0].grad;
    struct train_nodes *nodes = &x->nodes;
    if (i == first_batch(t, t->comm.rank)) nodes->n = 0;
    struct train_node one = { i, i + 1 };
    for (; nodes->n && is_node(t->o->accumulate, nodes->node[nodes->n - 1].from, one.end);
         nodes->n--) {
        add(gradient, x->sum[nodes->n - 1], x->weights);
        one.from = nodes->node[nodes->n - 1].from;
    }
    nodes->node[nodes->n] = one;
    if (!train_runs_batch(t, i + 1)) return QKV_OK;
    if (!reserve(&x->sum[nodes->n], x->weights)) return qkv_fail_memory(err, NULL);
    memcpy(x->sum[nodes->n++], gradient, (size_t)x->weights * sizeof *gradient);
    return QKV_OK;
}

// Returns the nodes that leaves from .. end-1 form.
static struct train_nodes nodes_of(int64_t leaves, int64_t from, int64_t end)
{
    struct train_nodes x = { 0 };
    for (int64_t i = from; i < end; i++) {
        x.node[x.n++] = (struct train_node){ i, i + 1 };
        for (; x.n > 1 && is_node(leaves, x.node[x.n - 2].from, i + 1); x.n--)
            x.node[x.n - 2].end = i + 1;
    }
    return x;
}

// Sends to each rank its part of the nodes of this rank.
static qkv_status send_parts(const struct train *t)
{
    const struct train_ranks *x = &t->ranks;
    const struct qkv_comm *c = &t->comm;
    const int64_t own = first_batch(t, c->rank + 1) - first_batch(t, c->rank);
    qkv_status status = QKV_OK;
    for (int64_t r = 0; r < c->size && own; r++) {
        const int64_t from = first_weight(t, r), n = first_weight(t, r + 1) - from;
        for (int j = 0; j <= x->nodes.n && n && r != c->rank && !status; j++)
            status = c->send(c->ctx, r, (j < x->nodes.n ? x->sum[j] : t->p[0].grad) + from,
                             (size_t)n * sizeof(real));
    }
    return status;
}

qkv_status train_sum_ranks(struct train *t, qkv_error *err)
{
    struct train_ranks *x = &t->ranks;
    const struct qkv_comm *c = &t->comm;
    const int64_t from = first_weight(t, c->rank), n = first_weight(t, c->rank + 1) - from;
    struct train_nodes all = { 0 };
    if (c->size == 1) return QKV_OK;
    qkv_status status = send_parts(t);
    for (int64_t r = 0; r < c->size && n && !status; r++) {
        const struct train_nodes its =
            nodes_of(t->o->accumulate, first_batch(t, r), first_batch(t, r + 1));
        for (int j = 0; j < its.n && !status; j++) {
            if (!reserve(&x->part[all.n], n)) return qkv_fail_memory(err, NULL);
            real *to = x->part[all.n];
            if (r == c->rank)
                memcpy(to, (j < x->nodes.n ? x->sum[j] : t->p[0].grad) + from,
                       (size_t)n * sizeof *to);
            else
                status = c->receive(c->ctx, r, to, (size_t)n * sizeof *to);
            all.node[all.n++] = its.node[j];
            for (;
                 all.n > 1 && is_node(t->o->accumulate, all.node[all.n - 2].from, its.node[j].end);
                 all.n--) {
                add(x->part[all.n - 2], x->part[all.n - 1], n);
                all.node[all.n - 2].end = its.node[j].end;
            }
        }
    }
    if (!status && n) memcpy(t->p[0].grad + from, x->part[0], (size_t)n * sizeof(real));
    return status ? qkv_fail(err, status, NULL, "a rank cannot be reached") : QKV_OK;
}

// ---- agreement ---------------------------------------------------------------------------------
// Collects on all ranks an array of which rank r has the elements first(t, r) .. first(t, r+1)-1.
static qkv_status collect(const struct train *t, void *all, size_t size,
                          int64_t (*first)(const struct train *, int64_t), qkv_error *err)
{
    const struct qkv_comm *c = &t->comm;
    size_t *at = t->ranks.at, *n = at + c->size;
    if (c->size == 1) return QKV_OK;
    for (int64_t r = 0; r < c->size; r++) {
        at[r] = (size_t)first(t, r) * size;
        n[r] = (size_t)(first(t, r + 1) - first(t, r)) * size;
    }
    const qkv_status status = c->gather(c->ctx, all, at, n);
    return status ? qkv_fail(err, status, NULL, "a rank cannot be reached") : QKV_OK;
}

qkv_status train_collect_losses(struct train *t, qkv_error *err)
{
    return collect(t, t->ranks.loss, sizeof *t->ranks.loss, first_batch, err);
}
qkv_status train_collect_squares(struct train *t, qkv_error *err)
{
    const int64_t r = t->comm.rank, from = first_block(t, r), end = first_block(t, r + 1);
    if (from < end) qkv_gradient_squares(t->ranks.squares, t->p, t->n, from, end);
    return collect(t, t->ranks.squares, sizeof *t->ranks.squares, first_block, err);
}
qkv_status train_collect_weights(struct train *t, qkv_error *err)
{
    return collect(t, t->p[0].value, sizeof(real), first_weight, err);
}

qkv_status train_agree(struct train *t, qkv_status status, qkv_error *err)
{
    const struct qkv_comm *c = &t->comm;
    // the first rank with an error; its number is larger the earlier it is
    int64_t first = status ? c->size - c->rank : 0;
    if (c->size == 1) return status;
    qkv_status lost = c->reduce(c->ctx, &first, 1);
    if (!lost && !first) return QKV_OK;
    const int64_t rank = c->size - first;
    struct qkv_error its = { 0 };
    if (rank == c->rank) its = *err;
    if (rank == c->rank && !its.status) its.status = status;
    for (int64_t r = 0; r < c->size && !lost && rank == c->rank; r++)
        if (r != rank) lost = c->send(c->ctx, r, &its, sizeof its);
    if (!lost && rank != c->rank) lost = c->receive(c->ctx, rank, &its, sizeof its);
    if (lost) return qkv_fail(err, lost, NULL, "a rank cannot be reached");
    *err = its;
    if (rank)
        snprintf(err->text, sizeof err->text, "rank %lld: %.*s", (long long)rank,
                 (int)sizeof its.text - 32, its.text);
    return its.status;
}

qkv_status train_any(struct train *t, bool *any, qkv_error *err)
{
    int64_t x = *any;
    const qkv_status status = t->comm.size > 1 ? t->comm.reduce(t->comm.ctx, &x, 1) : QKV_OK;
    *any = x != 0;
    return status ? qkv_fail(err, status, NULL, "a rank cannot be reached") : QKV_OK;
}

qkv_status train_same(struct train *t, qkv_error *err)
{
    const struct train_state *s = &t->state;
    const int64_t at[] = { s->step, s->position, s->targets, s->updates, t->o->accumulate };
    const struct {
        const char *name;
        const void *data;
        size_t bytes;
    } rows[] = { { "text", s->data, strlen(s->data) },
                 { "checkpoint", at, sizeof at },
                 { "set of weights", t->p[0].value, (size_t)t->ranks.weights * sizeof(real) } };
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !status; i++)
        status = qkv_ranks_same(&t->comm, rows[i].name, rows[i].data, rows[i].bytes, err);
    return status;
}
