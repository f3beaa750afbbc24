// SPDX-License-Identifier: MIT
// train_ranks.c: trains one model with several processes (ranks), with the bits of one.
//
// The batches of a step are the leaves of a binary tree, in which the left part of each node is the
// largest power of two of its leaves. Each rank computes the gradients of consecutive batches and
// adds them up as far as they form nodes. Then each rank gets from all others the gradients of its
// own blocks of the weights, completes the tree for them, updates these weights with its part of
// the moments (ZeRO-1), and all ranks collect the weights. The tree depends on the number of
// batches only, so every sum has one order.
//
// Groups of ranks may share the rows of each batch (qkv_net_share): then a group computes the
// gradients of consecutive batches, which all its ranks have. Rank i of each group sends the
// weights of the ranks i of other groups.
// Source: Rajbhandari et al. 2020 (arXiv 1910.02054) for the partition of the optimizer's state.
#include "task/train/train_internal.h"
#include <stdio.h>
#include <string.h>

// ---- what each rank has ------------------------------------------------------------------------
bool train_leads(const struct train *t)
{
    return t->comm.rank == 0;
}

static int64_t share(int64_t all, int64_t rank, int64_t size)
{
    return all / size * rank + qkv_min64(rank, all % size);
}

// Returns the first batch of a group of ranks.
static int64_t first_batch(const struct train *t, int64_t group)
{
    return share(t->o->accumulate, group, train_group_count(t));
}
static int64_t group_of(const struct train *t)
{
    return t->comm.rank / t->ranks.share.size;
}
// Returns the first loss that a rank hands to the others: the first rank of a group has its losses.
static int64_t first_loss(const struct train *t, int64_t rank)
{
    return first_batch(t, qkv_ceil_div(rank, t->ranks.share.size));
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
    return i >= first_batch(t, group_of(t)) && i < first_batch(t, group_of(t) + 1);
}

struct qkv_weights train_rank_weights(const struct train *t, int64_t i, int64_t rank)
{
    const int64_t from = first_block(t, rank), end = first_block(t, rank + 1);
    return from == end ? (struct qkv_weights){ 0 } : qkv_parameter_part(t->p, i, from, end);
}

qkv_status train_groups(struct train *t, int64_t size, qkv_error *err)
{
    const int64_t n = qkv_max64(size, 1);
    t->ranks.share = (struct qkv_comm){ .size = 1 };
    if (size < 0 || t->comm.size % n)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "context_ranks must divide the number of ranks, expected a divisor of "
                        "%lld, found %lld",
                        (long long)t->comm.size, (long long)size);
    if (n > 1) t->ranks.share = qkv_ranks_group(&t->ranks.group, &t->comm, n);
    return QKV_OK;
}

qkv_status train_share(struct train *t, qkv_error *err)
{
    const struct qkv_comm *c = &t->ranks.share;
    if (c->size == 1) return QKV_OK;
    if (t->o->probe_every)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL,
                        "probes are not supported if ranks share the context");
    if (!t->how.row_blocks)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "context is too short to be shared by ranks, expected more than %d tokens, "
                        "found %lld",
                        QKV_ROW_BLOCK_MOST, (long long)t->o->context);
    return qkv_net_share(t->net, c, err);
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
    if (i == first_batch(t, group_of(t))) x->nodes.n = 0;
    const int before = x->nodes.n;
    qkv_tree_push(&x->nodes, t->o->accumulate, i, i + 1);
    for (int k = before; k >= x->nodes.n; k--) qkv_add_numbers(gradient, x->sum[k - 1], x->weights);
    if (!train_runs_batch(t, i + 1)) return QKV_OK;
    real **last = &x->sum[x->nodes.n - 1];
    if (!reserve(last, x->weights)) return qkv_fail_memory(err, NULL);
    memcpy(*last, gradient, (size_t)x->weights * sizeof *gradient);
    return QKV_OK;
}

// Returns the nodes of a group.
static struct qkv_tree_nodes nodes_of(const struct train *t, int64_t group)
{
    struct qkv_tree_nodes x = { .n = 0 };
    for (int64_t i = first_batch(t, group); i < first_batch(t, group + 1); i++)
        qkv_tree_push(&x, t->o->accumulate, i, i + 1);
    return x;
}

// Returns the sum of node j of this rank.
static const real *sum_of(const struct train *t, int j)
{
    return j < t->ranks.nodes.n - 1 ? t->ranks.sum[j] : t->p[0].grad;
}

// Sends to ranks of other groups their part of the nodes of this group.
static qkv_status send_parts(const struct train *t)
{
    const struct train_ranks *x = &t->ranks;
    const struct qkv_comm *c = &t->comm;
    const int64_t group = group_of(t), own = first_batch(t, group + 1) - first_batch(t, group);
    qkv_status status = QKV_OK;
    for (int64_t r = c->rank % x->share.size; r < c->size && own; r += x->share.size) {
        const int64_t from = first_weight(t, r), n = first_weight(t, r + 1) - from;
        for (int j = 0; j < x->nodes.n && n && r != c->rank && !status; j++)
            status = qkv_ranks_send(c, r, sum_of(t, j) + from, (size_t)n * sizeof(real));
    }
    return status;
}

qkv_status train_sum_ranks(struct train *t, qkv_error *err)
{
    struct train_ranks *x = &t->ranks;
    const struct qkv_comm *c = &t->comm;
    const int64_t from = first_weight(t, c->rank), n = first_weight(t, c->rank + 1) - from;
    struct qkv_tree_nodes all = { .n = 0 };
    if (train_group_count(t) == 1) return QKV_OK;
    qkv_status status = send_parts(t);
    for (int64_t group = 0; group < train_group_count(t) && n && !status; group++) {
        const int64_t r = group * x->share.size + c->rank % x->share.size;
        const struct qkv_tree_nodes its = nodes_of(t, group);
        for (int j = 0; j < its.n && !status; j++) {
            const int slot = all.n;
            if (!reserve(&x->part[slot], n)) // the other ranks expect that this one receives
                return qkv_ranks_give_up(c, qkv_fail_memory(err, NULL));
            if (r == c->rank)
                memcpy(x->part[slot], sum_of(t, j) + from, (size_t)n * sizeof(real));
            else
                status = qkv_ranks_receive(c, r, x->part[slot], (size_t)n * sizeof(real));
            qkv_tree_push(&all, t->o->accumulate, its.node[j].from, its.node[j].end);
            for (int k = slot; k >= all.n; k--) qkv_add_numbers(x->part[k - 1], x->part[k], n);
        }
    }
    if (!status && n) memcpy(t->p[0].grad + from, x->part[0], (size_t)n * sizeof(real));
    return qkv_ranks_lost(status, err);
}

// ---- agreement ---------------------------------------------------------------------------------
// Collects on all ranks an array of which rank r has the elements first(t, r) .. first(t, r+1)-1.
static qkv_status collect(const struct train *t, void *all, size_t size,
                          int64_t (*first)(const struct train *, int64_t), qkv_error *err)
{
    const struct qkv_comm *c = &t->comm;
    size_t *at = t->ranks.at, *n = at + c->size;
    for (int64_t r = 0; r < c->size; r++) {
        at[r] = (size_t)first(t, r) * size;
        n[r] = (size_t)(first(t, r + 1) - first(t, r)) * size;
    }
    const qkv_status status = qkv_ranks_gather(c, all, at, n);
    return qkv_ranks_lost(status, err);
}

qkv_status train_collect_losses(struct train *t, qkv_error *err)
{
    return collect(t, t->ranks.loss, sizeof *t->ranks.loss, first_loss, err);
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
    // the first rank with an error; its number is larger the earlier it is, and with a message:
    // a rank without one only waited for a rank that failed
    int64_t first = status ? (err->status ? c->size : 0) + c->size - c->rank : 0;
    if (c->size == 1) return status;
    qkv_status lost = qkv_ranks_reduce(c, &first, 1);
    if (!lost && !first) return QKV_OK;
    const int64_t rank = (first > c->size ? 2 : 1) * c->size - first;
    struct qkv_error its = { 0 };
    if (rank == c->rank) its = *err;
    if (rank == c->rank && !its.status) its.status = status;
    for (int64_t r = 0; r < c->size && !lost && rank == c->rank; r++)
        if (r != rank) lost = qkv_ranks_send(c, r, &its, sizeof its);
    if (!lost && rank != c->rank) lost = qkv_ranks_receive(c, rank, &its, sizeof its);
    if (lost) return qkv_ranks_lost(lost, err);
    *err = its;
    if (rank)
        snprintf(err->text, sizeof err->text, "rank %lld: %.*s", (long long)rank,
                 (int)sizeof its.text - 32, its.text);
    return its.status;
}

qkv_status train_any(struct train *t, bool *any, qkv_error *err)
{
    int64_t x = *any;
    const qkv_status status = qkv_ranks_reduce(&t->comm, &x, 1);
    *any = x != 0;
    return qkv_ranks_lost(status, err);
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
