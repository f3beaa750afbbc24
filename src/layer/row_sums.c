// SPDX-License-Identifier: MIT
// row_sums.c: adds up gradients of weights over the rows of a batch in an order that does not
// depend on which rows a process has.
#include "layer/layer.h"
#include <string.h>

enum { PIECE = 1 << 16 }; // numbers that one task of a parallel loop adds

// ---- blocks and their tree ---------------------------------------------------------------------
int64_t qkv_row_block(qkv_precision precision)
{
    const struct qkv_attention_back_kernels *back =
        qkv_kernel()->attention_back[qkv_precision_attention(precision)];
    const int64_t most = QKV_ROW_BLOCK_MOST;
    return back && back->rows <= most ? most / back->rows * back->rows : most;
}

int64_t qkv_row_edges(int64_t *edges, const int64_t *offsets, int64_t sequences, int64_t block)
{
    int64_t n = 0, first = 0;
    if (edges) edges[0] = 0;
    for (int64_t i = 0; i < sequences; i++)
        for (int64_t at = offsets[i]; at < offsets[i + 1];) {
            const int64_t end = qkv_min64(offsets[i + 1], at + block);
            if (end - first > block) { // the block ends before these rows
                first = at;
                if (edges) edges[n + 1] = at;
                n++;
            }
            at = end;
        }
    if (first == offsets[sequences]) return n;
    if (edges) edges[n + 1] = offsets[sequences];
    return n + 1;
}

bool qkv_tree_node(int64_t leaves, int64_t from, int64_t end)
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

void qkv_tree_push(struct qkv_tree_nodes *x, int64_t leaves, int64_t from, int64_t end)
{
    x->node[x->n++] = (struct qkv_tree_node){ from, end };
    for (; x->n > 1; x->n--) {
        struct qkv_tree_node *last = &x->node[x->n - 2];
        if (last->end != last[1].from || !qkv_tree_node(leaves, last->from, last[1].end)) break;
        last->end = last[1].end;
    }
}

void qkv_row_sums_push(struct qkv_row_sums *s, struct qkv_row_block *block, int64_t leaf,
                       int64_t leaves, int64_t first, int64_t n)
{
    const int slot = s->nodes.n;
    qkv_tree_push(&s->nodes, leaves, leaf, leaf + 1);
    block[s->blocks++] = (struct qkv_row_block){
        .first = first, .n = n, .slot = slot, .merges = slot + 1 - s->nodes.n
    };
    s->slots = s->slots > slot ? s->slots : slot + 1;
    s->block = block;
}

// ---- sums --------------------------------------------------------------------------------------
struct addition {
    real *to;
    const real *x; // NULL: `to` becomes 0
    int64_t n;
};
static void add_piece(void *ctx, int64_t i, int thread)
{
    const struct addition *a = ctx;
    const int64_t end = qkv_min64(a->n, (i + 1) * PIECE);
    (void)thread;
    if (!a->x) memset(a->to + i * PIECE, 0, (size_t)(end - i * PIECE) * sizeof *a->to);
    for (int64_t k = i * PIECE; a->x && k < end; k++) a->to[k] += a->x[k];
}

void qkv_add_numbers(real *to, const real *x, int64_t n)
{
    struct addition a = { to, x, n };
    qkv_parallel_for(qkv_ceil_div(n, PIECE), add_piece, &a);
}

// Returns the place of the sum of `slot` for a gradient.
static real *slot_of(const struct qkv_row_sums *s, real *gradient, int slot, int64_t before)
{
    if (!gradient || !slot) return gradient;
    if (slot < s->nodes.n) return s->copies + (slot - 1) * s->weights + (gradient - s->gradients);
    return s->stack + (slot - s->nodes.n) * s->most + before;
}

void qkv_row_sums_run(const struct qkv_row_sums *s, const struct qkv_row_gradients *g,
                      qkv_row_sums_body *body, void *ctx)
{
    for (int64_t i = 0; i < s->blocks; i++) {
        const struct qkv_row_block *b = &s->block[i];
        real *to[2];
        for (int k = 0; k < 2; k++) {
            to[k] = slot_of(s, g->at[k], b->slot, k ? g->n[0] : 0);
            if (to[k] && b->slot) qkv_add_numbers(to[k], NULL, g->n[k]);
        }
        body(ctx, to, b);
        for (int slot = b->slot; slot > b->slot - b->merges; slot--)
            for (int k = 0; k < 2; k++)
                if (g->at[k])
                    qkv_add_numbers(slot_of(s, g->at[k], slot - 1, k ? g->n[0] : 0),
                                    slot_of(s, g->at[k], slot, k ? g->n[0] : 0), g->n[k]);
    }
}
