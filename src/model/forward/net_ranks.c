// SPDX-License-Identifier: MIT
// net_ranks.c: a batch whose rows several ranks share, with the bits of one process.
//
// Every rank has the whole batch as token ids, and the activations of its own rows: whole blocks of
// the tree of sums (layer/backward.h), with early and late rows in equal numbers (qkv/ranks.h). It
// computes the sums of the nodes of the tree that its blocks form. Then the nodes of all ranks are
// completed to the sum of all rows, in pieces: each rank adds up a part of a piece, and all collect
// the piece.
#include "model/forward/net_state.h"
#include <inttypes.h>
#include <string.h>

enum { PIECE = 1 << 20 }; // numbers of the gradients that are completed at once

qkv_status qkv_net_share(qkv_net *n, const struct qkv_comm *comm, qkv_error *err)
{
    const struct qkv_description *d = &n->is;
    const char *what = n->kind != QKV_NET_DECODER ? "models other than decoders"
                       : d->relative.buckets      ? "relative positions"
                       : d->shared.groups         ? "layers that share their weights"
                                                  : NULL;
    n->comm = NULL;
    if (!comm || comm->size == 1) return QKV_OK;
    if (what)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL, "ranks cannot share the context of %s",
                        what);
    n->comm = comm;
    return QKV_OK;
}

// ---- division ----------------------------------------------------------------------------------
static int64_t ranks_of(const struct qkv_net_share *x)
{
    return x->comm ? x->comm->size : 1;
}

// Returns run i of a rank, in the order of the rows of the batch.
static int64_t run_of(const struct qkv_net_share *x, int64_t rank, int i)
{
    return i ? 2 * ranks_of(x) - 1 - rank : rank;
}

// Chooses the first block of each run: the last one that does not begin after the run's share of
// the rows.
static void divide(struct qkv_net_share *x, const int64_t *edge, int64_t rows)
{
    int64_t leaf = 0;
    x->runs = ranks_of(x) > 1 ? 2 * ranks_of(x) : 1;
    for (int64_t c = 0; c <= x->runs; c++) {
        const int64_t at = rows / x->runs * c + rows % x->runs * c / x->runs;
        while (leaf < x->leaves && edge[leaf + 1] <= at) leaf++;
        x->leaf[c] = leaf;
        x->edge[c] = edge[leaf];
    }
}

// Lists the blocks of this process and its rows.
static void list_blocks(struct qkv_net_share *x, const int64_t *edge)
{
    const int64_t rank = x->comm ? x->comm->rank : 0;
    for (int i = 0; i < (x->runs > 1 ? 2 : 1); i++) {
        const int64_t c = run_of(x, rank, i), before = x->rows.all;
        for (int64_t leaf = x->leaf[c]; leaf < x->leaf[c + 1]; leaf++)
            qkv_row_sums_push(&x->sums, x->block, leaf, x->leaves, before + edge[leaf] - x->edge[c],
                              edge[leaf + 1] - edge[leaf]);
        x->rows.first[i] = x->edge[c];
        x->rows.n[i] = x->edge[c + 1] - x->edge[c];
        x->rows.all += x->rows.n[i];
    }
}

qkv_status qkv_net_share_begin(struct qkv_net_state *f, const struct qkv_sequences *in)
{
    struct qkv_net_share *x = &f->share;
    const int64_t n = in->n, block = qkv_row_block(f->n->options.precision);
    const size_t ranks = (size_t)ranks_of(x);
    x->leaves = qkv_row_edges(NULL, in->offsets, n, block);
    int64_t *edge = qkv_alloc((size_t)x->leaves + 1, sizeof *edge);
    x->block = qkv_alloc((size_t)x->leaves, sizeof *x->block);
    x->loss = qkv_alloc_zero((size_t)x->leaves, sizeof *x->loss);
    x->edge = qkv_alloc(2 * ranks + 1, 2 * sizeof *x->edge);
    x->at = qkv_alloc(ranks, 2 * sizeof *x->at);
    const bool there = edge && x->block && x->loss && x->edge && x->at;
    if (there) {
        x->leaf = x->edge + 2 * ranks + 1;
        qkv_row_edges(edge, in->offsets, n, block);
        divide(x, edge, in->offsets[n]);
        list_blocks(x, edge);
        x->sums.gradients = f->n->grad;
        x->sums.weights = f->n->numbers;
        f->body->once.sums = &x->sums;
    }
    qkv_free(edge);
    if (!there) return QKV_ERR_LIMIT;
    if (!x->comm) return QKV_OK;
    x->own = *x->comm;
    x->own.edges = x->edge;
    x->heads = (struct qkv_heads_ranks){ &x->own, x->rows.all };
    return QKV_OK;
}

void qkv_net_share_end(struct qkv_net_state *f)
{
    struct qkv_net_share *x = &f->share;
    qkv_free(x->block);
    qkv_free(x->loss);
    qkv_free(x->edge);
    qkv_free(x->at);
    if (f->body) f->body->once.sums = NULL;
}

// ---- memory ------------------------------------------------------------------------------------
// Returns the largest number of elements of the gradients of weight and bias of a layer.
static int64_t most_of(const struct qkv_net_state *f)
{
    const struct qkv_net_side *s = &f->decoder;
    const int64_t W = qkv_described_embed_width(&f->n->is);
    int64_t most = f->n->shape.vocab * (W + 1);
    most = qkv_max64(most, s->stack->is.embed_in.K * s->stream.D);
    for (int64_t i = 0; i < s->sublayers; i++) {
        const struct qkv_block *b = s->sublayer[i].block;
        const struct qkv_linear *layers[] = { &b->heads.in, &b->heads.out, &b->mlp.up,
                                              &b->mlp.down };
        for (int k = 0; k < 4; k++)
            for (int p = 0; p < layers[k]->parts; p++)
                most = qkv_max64(most, layers[k]->part[p].N * (layers[k]->K + 1));
    }
    return qkv_max64(most, 2 * s->stream.D);
}

// Returns the nodes of a rank.
static struct qkv_tree_nodes nodes_of(const struct qkv_net_share *x, int64_t rank)
{
    struct qkv_tree_nodes nodes = { .n = 0 };
    for (int i = 0; i < 2; i++) {
        const int64_t c = run_of(x, rank, i);
        for (int64_t leaf = x->leaf[c]; leaf < x->leaf[c + 1]; leaf++)
            qkv_tree_push(&nodes, x->leaves, leaf, leaf + 1);
    }
    return nodes;
}

void qkv_net_share_take(struct qkv_net_state *f, struct qkv_arena *a)
{
    struct qkv_net_share *x = &f->share;
    const int64_t R = x->rows.all, ranks = ranks_of(x);
    if (f->keeping != QKV_KEEP_NOTHING) {
        x->sums.most = most_of(f);
        x->sums.stack = qkv_arena_rows(a, qkv_max64(0, x->sums.slots - x->sums.nodes.n),
                                       x->sums.most, sizeof(real));
        x->sums.copies =
            qkv_arena_rows(a, qkv_max64(0, x->sums.nodes.n - 1), x->sums.weights, sizeof(real));
    }
    if (!x->comm) return;
    x->ids = qkv_arena_rows(a, R, 1, sizeof *x->ids);
    x->types = qkv_arena_rows(a, R, 1, sizeof *x->types);
    x->targets = qkv_arena_rows(a, R, 1, sizeof *x->targets);
    x->positions = qkv_arena_rows(a, f->decoder.all, 1, sizeof *x->positions);
    if (f->keeping == QKV_KEEP_NOTHING) return;
    x->most = 0;
    for (int64_t r = 0; r < ranks; r++) x->most += nodes_of(x, r).n;
    x->part = qkv_arena_rows(a, x->most, qkv_ceil_div(PIECE, ranks), sizeof(real));
    x->node = qkv_arena_rows(a, x->most, 1, sizeof *x->node);
}

size_t qkv_net_share_scratch(const struct qkv_net_state *f, const struct qkv_embed *e)
{
    const int64_t all = f->decoder.all;
    size_t rows, bytes;
    if (!f->share.comm || !qkv_mul_size(&rows, (size_t)all * sizeof(real), (size_t)e->D)) return 0;
    return qkv_add_size(&bytes, qkv_round_up(rows, 64), qkv_embed_backward_scratch(all, e))
               ? bytes
               : SIZE_MAX;
}

void qkv_net_share_pick(const struct qkv_net_share *x, int32_t *to, const int32_t *from)
{
    for (int i = 0, n = 0; i < 2 && to; n += (int)x->rows.n[i++])
        if (x->rows.n[i])
            memcpy(to + n, from + x->rows.first[i], (size_t)x->rows.n[i] * sizeof *to);
}

// ---- what ranks exchange -----------------------------------------------------------------------
// Collects an array of which run c has the elements edge[c] .. edge[c + 1] - 1.
static qkv_status gather(const struct qkv_net_share *x, void *all, size_t size, const int64_t *edge)
{
    const struct qkv_comm *c = x->comm;
    size_t *at = x->at, *n = at + c->size;
    qkv_status status = QKV_OK;
    for (int i = 0; i < 2 && !status; i++) {
        for (int64_t r = 0; r < c->size; r++) {
            const int64_t run = run_of(x, r, i);
            at[r] = (size_t)edge[run] * size;
            n[r] = (size_t)(edge[run + 1] - edge[run]) * size;
        }
        status = qkv_ranks_gather(c, all, at, n);
    }
    return status;
}

qkv_status qkv_net_share_loss(struct qkv_net_share *x, struct qkv_loss *loss)
{
    const qkv_status status = x->comm ? gather(x, x->loss, sizeof *x->loss, x->leaf) : QKV_OK;
    for (int64_t i = 0; i < x->leaves && !status; i++) {
        loss->sum += x->loss[i].sum;
        loss->rows += x->loss[i].rows;
        loss->right += x->loss[i].right;
    }
    return status;
}

struct qkv_loss *qkv_net_share_block_loss(struct qkv_net_share *x, const struct qkv_row_block *b)
{
    const int64_t i = b - x->block, rank = x->comm ? x->comm->rank : 0;
    const int64_t early = x->leaf[rank + 1] - x->leaf[rank];
    return &x->loss[i < early ? x->leaf[rank] + i : x->leaf[run_of(x, rank, 1)] + i - early];
}

qkv_status qkv_net_share_rows(const struct qkv_net_share *x, real *all, const real *own, int64_t D)
{
    for (int64_t i = 0, n = 0; i < 2; n += x->rows.n[i++])
        if (x->rows.n[i])
            memcpy(all + x->rows.first[i] * D, own + n * D,
                   (size_t)(x->rows.n[i] * D) * sizeof *all);
    return gather(x, all, (size_t)D * sizeof *all, x->edge);
}

qkv_status qkv_net_share_agree(const struct qkv_net_share *x, qkv_status mine)
{
    int64_t worst = mine;
    if (!x->comm) return mine;
    const qkv_status status = qkv_ranks_reduce(x->comm, &worst, 1);
    return mine ? mine : status ? status : (qkv_status)worst;
}

// ---- gradients ---------------------------------------------------------------------------------
// Lists the nodes of all ranks in the order of their leaves.
static void list_nodes(struct qkv_net_share *x)
{
    int64_t n = 0;
    for (int64_t r = 0; r < x->comm->size; r++) {
        const struct qkv_tree_nodes its = nodes_of(x, r);
        for (int i = 0; i < its.n; i++, n++) {
            int64_t at = n;
            for (; at > 0 && x->node[at - 1].is.from > its.node[i].from; at--)
                x->node[at] = x->node[at - 1];
            x->node[at] = (struct qkv_net_node){ its.node[i], r, i };
        }
    }
}

// Returns the sum of node i of this rank.
static real *sum_of(const struct qkv_row_sums *s, int i)
{
    return i ? s->copies + (i - 1) * s->weights : s->gradients;
}

// Adds up n numbers from `from` of all nodes, of which other ranks send theirs, and writes the sum
// to the gradients.
static qkv_status add_nodes(const struct qkv_net_share *x, int64_t from, int64_t n)
{
    const struct qkv_comm *c = x->comm;
    const size_t bytes = (size_t)n * sizeof(real);
    struct qkv_tree_nodes nodes = { .n = 0 };
    for (int64_t i = 0; i < x->most; i++) {
        const struct qkv_net_node *node = &x->node[i];
        const int slot = nodes.n;
        real *to = x->part + slot * n;
        qkv_status status = QKV_OK;
        if (node->rank == c->rank)
            memcpy(to, sum_of(&x->sums, node->index) + from, bytes);
        else
            status = qkv_ranks_receive(c, node->rank, to, bytes);
        if (status) return status;
        qkv_tree_push(&nodes, x->leaves, node->is.from, node->is.end);
        for (int k = slot; k >= nodes.n; k--)
            qkv_add_numbers(x->part + (k - 1) * n, x->part + k * n, n);
    }
    memcpy(x->sums.gradients + from, x->part, bytes);
    return QKV_OK;
}

qkv_status qkv_net_share_complete(struct qkv_net_share *x)
{
    const struct qkv_comm *c = x->comm;
    qkv_status status = QKV_OK;
    list_nodes(x);
    for (int64_t first = 0; first < x->sums.weights && !status; first += PIECE) {
        const int64_t n = qkv_min64(PIECE, x->sums.weights - first);
        size_t *at = x->at, *bytes = at + c->size;
        for (int64_t r = 0; r < c->size; r++) {
            const int64_t from = n * r / c->size, end = n * (r + 1) / c->size;
            at[r] = (size_t)from * sizeof(real);
            bytes[r] = (size_t)(end - from) * sizeof(real);
            for (int i = 0; i < x->sums.nodes.n && r != c->rank && bytes[r] && !status; i++)
                status = qkv_ranks_send(c, r, sum_of(&x->sums, i) + first + from, bytes[r]);
        }
        const int64_t own = (int64_t)(bytes[c->rank] / sizeof(real));
        if (!status && own)
            status = add_nodes(x, first + (int64_t)(at[c->rank] / sizeof(real)), own);
        if (!status) status = qkv_ranks_gather(c, x->sums.gradients + first, at, bytes);
    }
    return status;
}
