// SPDX-License-Identifier: MIT
// test_row_sums.c: sums over rows in a tree of blocks: the blocks, the order, and equal bits for
// any division of the blocks among processes.
#include "check.h"
#include "layer/layer.h"

// Returns a drawn number, 0 .. n-1.
static int64_t draw(int64_t n)
{
    return (int64_t)((check_random() + 1) / 2 * (double)n);
}

// ---- blocks ------------------------------------------------------------------------------------
TEST(blocks_begin_at_sequences_and_at_multiples_in_them)
{
    for (int n = 0; n < 300; n++) {
        int64_t offsets[40] = { 0 }, edges[8000];
        const int64_t sequences = 1 + draw(39), block = 1 + draw(50);
        for (int64_t i = 0; i < sequences; i++)
            offsets[i + 1] = offsets[i] + 1 + draw(n % 2 ? 200 : 20);
        const int64_t all = offsets[sequences],
                      blocks = qkv_row_edges(NULL, offsets, sequences, block);
        CHECK_EQ(qkv_row_edges(edges, offsets, sequences, block), blocks);
        CHECK_EQ(edges[0], 0);
        CHECK_EQ(edges[blocks], all);
        for (int64_t i = 0, s = 0; i < blocks; i++) {
            CHECK(edges[i] < edges[i + 1] && edges[i + 1] - edges[i] <= block);
            while (offsets[s + 1] <= edges[i]) s++;
            CHECK_EQ((edges[i] - offsets[s]) % block, 0);
            // the next possible edge is too far away: no two blocks could be one
            if (i + 2 <= blocks) {
                int64_t t = s;
                while (offsets[t + 1] <= edges[i + 1]) t++;
                const int64_t next = qkv_min64(offsets[t + 1], edges[i + 1] + block);
                CHECK(next - edges[i] > block);
            }
        }
    }
}

TEST(a_block_is_a_multiple_of_the_tiles_of_attention)
{
    for (qkv_precision p = QKV_PRECISION_F32; p <= QKV_PRECISION_F16; p++) {
        if (!qkv_precision_runs(p)) continue;
        const struct qkv_attention_back_kernels *back =
            qkv_kernel()->attention_back[qkv_precision_attention(p)];
        const int64_t block = qkv_row_block(p);
        CHECK(block <= QKV_ROW_BLOCK_MOST && block > QKV_ROW_BLOCK_MOST / 2);
        if (back) CHECK_EQ(block % back->rows, 0);
    }
}

// ---- sums --------------------------------------------------------------------------------------
enum { WIDTH = 5, LEAVES = 23, SLOTS = 16 };
static real rows[LEAVES][WIDTH];

// A process with some of the blocks: its gradients, [WIDTH] and a second array [1].
struct process {
    real gradients[WIDTH + 1], copies[SLOTS][WIDTH + 1], stack[SLOTS][WIDTH + 1];
    struct qkv_row_block block[LEAVES];
    struct qkv_row_sums sums;
};

static void add_row(void *ctx, real *const *to, const struct qkv_row_block *b)
{
    (void)ctx;
    for (int64_t r = b->first; r < b->first + b->n; r++)
        for (int d = 0; d < WIDTH; d++) {
            to[0][d] += rows[r][d];
            if (to[1]) to[1][0] += rows[r][d];
        }
}

// Adds up the blocks from[i] .. end[i] - 1.
static void run(struct process *p, int64_t leaves, const int64_t *from, const int64_t *end)
{
    *p = (struct process){ .gradients = { 0 } };
    for (int i = 0; i < 2; i++)
        for (int64_t leaf = from[i]; leaf < end[i]; leaf++)
            qkv_row_sums_push(&p->sums, p->block, leaf, leaves, leaf, 1);
    CHECK(p->sums.slots <= SLOTS);
    p->sums.gradients = p->gradients;
    p->sums.copies = p->copies[0];
    p->sums.weights = WIDTH + 1;
    p->sums.stack = p->stack[0];
    p->sums.most = WIDTH + 1;
    memset(p->copies, 0xff, sizeof p->copies); // what slots contain before is not read
    memset(p->stack, 0xff, sizeof p->stack);
    const struct qkv_row_gradients g = { { p->gradients, p->gradients + WIDTH }, { WIDTH, 1 } };
    qkv_row_sums_run(&p->sums, &g, add_row, NULL);
}

// The sum of leaves from .. end-1 by its definition.
static real tree(int64_t from, int64_t end, int d)
{
    int64_t half = 1;
    if (end - from == 1) return rows[from][d];
    while (half * 2 < end - from) half *= 2;
    return tree(from, from + half, d) + tree(from + half, end, d);
}

TEST(a_sum_is_the_tree_for_any_division_among_processes)
{
    for (int64_t leaves = 1; leaves <= LEAVES; leaves++)
        for (int n = 0; n < 40; n++) {
            for (int64_t r = 0; r < leaves; r++)
                for (int d = 0; d < WIDTH; d++) rows[r][d] = (real)check_random();
            // two processes: one has the leaves cut[0] .. cut[1]-1, the other those around them
            int64_t a = draw(leaves + 1), b = draw(leaves + 1);
            const int64_t cut[] = { qkv_min64(a, b), qkv_max64(a, b) };
            struct process p[2];
            run(&p[0], leaves, (int64_t[]){ 0, cut[1] }, (int64_t[]){ cut[0], leaves });
            run(&p[1], leaves, (int64_t[]){ cut[0], 0 }, (int64_t[]){ cut[1], 0 });
            // completes the tree from the nodes of both, in the order of the leaves
            struct qkv_tree_nodes all = { .n = 0 };
            real part[SLOTS][WIDTH + 1];
            int at[2] = { 0, 0 };
            while (at[0] < p[0].sums.nodes.n || at[1] < p[1].sums.nodes.n) {
                int from = at[0] >= p[0].sums.nodes.n;
                if (!from && at[1] < p[1].sums.nodes.n)
                    from = p[1].sums.nodes.node[at[1]].from < p[0].sums.nodes.node[at[0]].from;
                const struct qkv_tree_node *node = &p[from].sums.nodes.node[at[from]];
                const int slot = all.n;
                memcpy(part[slot], at[from] ? p[from].copies[at[from] - 1] : p[from].gradients,
                       sizeof part[slot]);
                at[from]++;
                qkv_tree_push(&all, leaves, node->from, node->end);
                for (int k = slot; k >= all.n; k--)
                    qkv_add_numbers(part[k - 1], part[k], WIDTH + 1);
            }
            CHECK_EQ(all.n, 1);
            struct process whole;
            run(&whole, leaves, (int64_t[]){ 0, 0 }, (int64_t[]){ leaves, 0 });
            CHECK_EQ(whole.sums.nodes.n, 1);
            CHECK(memcmp(part[0], whole.gradients, sizeof part[0]) == 0);
            for (int d = 0; d < WIDTH; d++) CHECK(whole.gradients[d] == tree(0, leaves, d));
        }
}

CHECK_MAIN(CASE(blocks_begin_at_sequences_and_at_multiples_in_them),
           CASE(a_block_is_a_multiple_of_the_tiles_of_attention),
           CASE(a_sum_is_the_tree_for_any_division_among_processes))
