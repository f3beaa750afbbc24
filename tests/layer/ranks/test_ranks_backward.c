// SPDX-License-Identifier: MIT
// test_ranks_backward.c: the backward pass over ranks has the bits of one call, for any number of
// ranks, any features and both modes, and sends the bytes that the plan says.
#include "rank_jobs.h"

enum { NOT_HERE = NOT_FORWARD | NO_SOFTMAX };

static void check_same(const char *what, const void *a, const void *b, size_t n, unsigned features,
                       int64_t size)
{
    if (a && memcmp(a, b, n) != 0)
        fail_msg("%s %s %s differs, %d ranks, features %x", qkv_isa(),
                 qkv_precision_name(case_precision), what, (int)size, features);
}

static void check_backward(const struct back_problem *x, struct job *job, int64_t size,
                           const struct stored *s, unsigned features)
{
    const struct qkv_attention *a = &x->p.a;
    const size_t n = unit(), q_n = x->q_n * n, k_n = x->k_n * n, v_n = x->v_n * n;
    char *dq = fenced(q_n), *dk = fenced(k_n), *dv = fenced(v_n);
    for (int64_t r = 0; r < size; r++) {
        const struct qkv_ranks_plan *p = &job[r].plan;
        CHECK_EQ(job[r].status, QKV_OK);
        CHECK_EQ(p->mode, mode_of(a, job[r].limit));
        CHECK_EQ(p->blocks > 0, p->mode == QKV_RANKS_PIPELINE);
        copy_rows(job[r].dq, dq, &p->rows, a->B, a->T, (size_t)(a->H * a->E) * n, true);
        copy_rows(job[r].dk, dk, &p->keys, a->B, a->S, (size_t)(a->G * a->E) * n, true);
        copy_rows(job[r].dv, dv, &p->keys, a->B, a->S, (size_t)(a->G * a->F) * n, true);
        check_same("drelative", job[r].g.relative, x->tables.relative, x->relative_n * 4, features,
                   size);
        check_same("dalibi", job[r].g.alibi, x->tables.alibi, (size_t)a->H * 4, features, size);
        check_same("dsinks", job[r].g.sinks, x->tables.sinks, (size_t)a->H * 4, features, size);
        if (!a->bias.t)
            check_same("dbias", job[r].g.bias.at, x->tables.bias, x->bias_n * 4, features, size);
        const struct qkv_rank_rows *rows = &p->rows;
        for (int64_t i = 0; job[r].g.bias.at && a->bias.t && i < bias_lines(a) * rows->all; i++)
            check_same("a row of dbias", job[r].g.bias.at + i * a->S,
                       bias_row(x, rows, i / rows->all, i % rows->all), (size_t)a->S * 4, features,
                       size);
    }
    check_same("dq", dq, s->dq, q_n, features, size);
    check_same("dk", dk, s->dk, k_n, features, size);
    check_same("dv", dv, s->dv, v_n, features, size);
}

// Runs the backward pass of a problem in one call and on `size` ranks, with two limits.
static void run_backward(struct back_problem *x, int64_t size, unsigned features,
                         const size_t limits[2])
{
    struct job job[RANKS_MOST];
    case_run(&x->p);
    back_clear_tables(x);
    for (size_t i = 0; x->tables.bias && i < x->bias_n; i++)
        x->tables.bias[i] = x->p.a.bias.t ? 0 : bias_before(i);
    back_run(x);
    struct stored s = store(x);
    s.out = case_stored(x->p.out, x->p.out_n);
    s.dout = case_stored(x->dout, x->out_n);
    s.dq = case_stored(x->dq, x->q_n);
    s.dk = case_stored(x->dk, x->k_n);
    s.dv = case_stored(x->dv, x->v_n);
    for (int64_t r = 0; r < size; r++) job[r] = job_of(x, &s, r, size, true);
    for (int i = 0; i < 2; i++) {
        for (int64_t r = 0; r < size; r++) {
            job[r].limit = limits[i];
            clear_gradients(&job[r], x);
        }
        run_jobs(job, size);
        check_backward(x, job, size, &s, features);
    }
}
static const size_t collected_and_blocks[] = { 0, 1 };

// Runs are short: up to 150 rows on up to 7 ranks, so a block of rows has rows of several ranks.
TEST(gradients_over_ranks_have_the_bits_of_one_call)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        const int mixtures = check_mixtures(QKV_FEW ? 8 : 16, 3);
        for (int n = 0; back_new_here(isa_n) && n < mixtures; n++) {
            const unsigned features =
                (unsigned)pick(ALL_FEATURES) & ~(unsigned)NOT_HERE & ~(unsigned)BROADCAST;
            struct qkv_attention a = drawn();
            if (n % 4 == 0) a.S = 1 + pick(1500); // several blocks
            struct back_problem x = back_new(a, features);
            const size_t limits[] = { n % 2 ? 0 : 1, (size_t)pick(1 << 20) };
            run_backward(&x, sizes[pick(5)], features, limits);
            fence_free();
        }
    }
}

// Relative positions beyond the reach, ALiBi and sinks of runs that are shorter than a block.
TEST(short_runs_pass_the_gradients_of_tables)
{
    const unsigned features[] = { RELATIVE, ALIBI | CAUSAL, SINKS | ALIBI | RELATIVE | CAUSAL,
                                  PACKED | RELATIVE | ALIBI };
    int draw = 0;
    EACH_PRECISION EACH(f, features) EACH(size, sizes)
    {
        if (!back_family() || (QKV_FEW && draw++ % 3)) continue;
        struct back_problem x = back_new(
            (struct qkv_attention){ .B = 1, .T = 120, .S = 700, .H = 4, .G = 2, .E = 8, .F = 8 },
            *f | TABLES);
        run_backward(&x, *size, *f | TABLES, collected_and_blocks);
        fence_free();
    }
}

// Each rank has some rows of each of many batch items, which all add to the same tables.
TEST(many_batch_items_pass_the_gradients_of_tables)
{
    const unsigned features[] = { RELATIVE, SINKS | ALIBI | RELATIVE | CAUSAL, SINKS | BIAS };
    int draw = 0;
    EACH_PRECISION EACH(f, features) for (int64_t G = 1; G < 4; G += 2)
    {
        if (!back_family()) continue;
        struct back_problem x = back_new(
            (struct qkv_attention){
                .B = 20, .T = 60, .S = QKV_CHUNK + 60, .H = 2 * G, .G = G, .E = 4 },
            *f | TABLES);
        run_backward(&x, sizes[draw++ % 5], *f | TABLES, collected_and_blocks);
        fence_free();
    }
}

// A unit has several batch items, which add to one copy of the gradient of a bias with an axis of
// rows, and each to its own copies of the other tables.
TEST(many_batch_items_that_share_a_bias_pass_the_gradients_of_tables)
{
    const unsigned features[] = { BIAS | SINKS, BIAS | SINKS | ALIBI | RELATIVE | CAUSAL,
                                  BIAS | RELATIVE };
    int draw = 0;
    EACH_PRECISION EACH(f, features) for (int64_t G = 1; G < 4; G += 2)
    {
        if (!back_family()) continue;
        struct back_problem x = back_new(
            (struct qkv_attention){
                .B = 20, .T = 60, .S = QKV_CHUNK + 60, .H = 2 * G, .G = G, .E = 4 },
            *f | TABLES);
        struct qkv_attention *a = &x.p.a;
        a->bias.b = 0;
        a->bias.h = draw % 2 ? a->T * a->S : 0;
        a->bias.t = a->S;
        x.bias_n = bias_numbers(a);
        run_backward(&x, sizes[draw++ % 5], *f | TABLES, collected_and_blocks);
        fence_free();
    }
}

// The gradient of a bias that is the same for all rows, with or without axes of batch items and
// heads: sums over all rows, in the order of the rows.
TEST(gradients_of_a_bias_without_rows_have_the_bits_of_one_call)
{
    const unsigned features[] = { BIAS,
                                  BIAS | CAUSAL,
                                  BIAS | PACKED,
                                  BIAS | RELATIVE,
                                  BIAS | PACKED | SINKS | CAUSAL,
                                  BIAS | DROPOUT };
    const int64_t items[] = { 1, 3, 20 }, heads[] = { 1, 2, 20 };
    enum { KEYS = QKV_CHUNK + 60 };   // of several blocks
    enum { SIZES = QKV_FEW ? 1 : 2 }; // numbers of ranks, in turn
    int draw = 0;
    EACH_PRECISION EACH(f, features)
    {
        if (!back_family()) continue;
        for (int axes = 0; axes < 4; axes++)
            for (int n = 0; n < SIZES; n++) {
                const int64_t B = *f & PACKED ? 1 : items[pick(3)], G = heads[pick(B > 3 ? 2 : 3)];
                const int64_t size = sizes[draw++ % 5];
                struct back_problem x = back_new(
                    (struct qkv_attention){
                        .B = B, .T = 60, .S = KEYS, .H = 2 * G, .G = G, .E = 4, .F = 4 },
                    *f | TABLES);
                struct qkv_attention *a = &x.p.a;
                a->bias.t = 0;
                a->bias.h = axes & 1 ? a->S : 0;
                a->bias.b = axes & 2 ? (a->bias.h ? a->H : 1) * a->S : 0;
                x.bias_n = bias_numbers(a);
                run_backward(&x, size, *f | TABLES, collected_and_blocks);
                fence_free();
            }
    }
}

// The gradients of tables pass from rank to rank where runs are long; with ranks whose rows are not
// of equal work without the zigzag.
TEST(long_runs_pass_the_gradients_of_tables)
{
    enum { SIZE = 2, ROWS = (QKV_FEW ? 16 : 32) * QKV_CHUNK }; // two blocks in each run, or four
    const unsigned features[] = { SINKS | ALIBI | CAUSAL, RELATIVE, PACKED | CAUSAL | SINKS };
    EACH(f, features)
    {
        case_precision = QKV_PRECISION_F32;
        struct back_problem x =
            back_new((struct qkv_attention){ .B = 1, .T = ROWS, .S = 900, .H = 2, .G = 1, .E = 8 },
                     *f | TABLES);
        run_backward(&x, SIZE, *f | TABLES, collected_and_blocks);
        const struct qkv_comm comm = { .size = SIZE };
        const struct qkv_ranks_plan p = qkv_ranks_backward_plan(&x.p.a, NULL, &comm);
        if (*f & CAUSAL && !(*f & PACKED)) CHECK(p.all / (SIZE * p.flops) > .5);
        fence_free();
    }
}

// The backward pass; dk is array `dk` of 0 .. 8, of which dq is 0, dv 2 and q 4.
static void limited_backward(const struct qkv_comm *comm, void *ctx, size_t limit, int dk)
{
    const struct qkv_attention a = { .B = 1, .T = 8, .S = 8, .H = 1, .E = 4 };
    struct qkv_comm limited = *comm;
    float x[9][32] = { { 0 } };
    limited.collect_limit = limit;
    void *scratch = aligned_alloc(64, qkv_ranks_backward_plan(&a, NULL, &limited).scratch);
    *(qkv_status *)ctx = qkv_ranks_backward(x[0], x[dk], x[2], NULL, x[3], x[4], x[5], x[6], x[7],
                                            x[8], &a, &limited, scratch);
    free(scratch);
}
static void other_backward_limit(const struct qkv_comm *comm, void *ctx)
{
    limited_backward(comm, ctx, comm->rank == 1 ? 16 : 0, 1);
}

TEST(backward_with_different_limits_is_refused)
{
    check_refused(3, other_backward_limit);
}

static void overlapping_backward(const struct qkv_comm *comm, void *ctx)
{
    limited_backward(comm, ctx, 16, 5);
}

TEST(a_key_that_its_gradient_would_overwrite_is_refused)
{
    check_refused(2, overlapping_backward);
}

// All ranks but one have a bias per batch item.
static void other_bias(const struct qkv_comm *comm, void *ctx)
{
    float bias[128] = { 0 }, grad[128] = { 0 }, x[8][64] = { { 0 } }, lse[16] = { 0 };
    struct qkv_attention a = { .B = 2, .T = 8, .S = 8, .H = 1, .E = 4, .bias = { bias, 64, 0, 8 } };
    const struct qkv_attention_gradients g = { .bias = { grad } };
    if (comm->rank == 1) a.bias.b = 0;
    void *scratch = aligned_alloc(64, qkv_ranks_backward_plan(&a, &g, comm).scratch);
    *(qkv_status *)ctx = qkv_ranks_backward(x[0], x[1], x[2], &g, x[3], x[4], x[5], x[6], x[7], lse,
                                            &a, comm, scratch);
    free(scratch);
}

TEST(ranks_with_different_axes_of_the_bias_are_refused)
{
    check_refused(3, other_bias);
}

// Memory of a rank with 2^18 rows and keys of width 16: dq is 16 MiB, all keys, values and their
// gradients are 256 MiB.
TEST(the_backward_plan_has_the_memory_of_a_block)
{
    float slopes[1] = { 1 }, relative[3] = { 0 }, grad[3];
    struct qkv_attention a = {
        .B = 1, .T = 1 << 20, .S = 1 << 20, .H = 1, .E = 16, .causal = true
    };
    struct qkv_comm comm = { .rank = 1, .size = 4 };
    struct qkv_attention_gradients g = { 0 };
    struct qkv_ranks_plan p = qkv_ranks_backward_plan(&a, &g, &comm);
    CHECK_EQ(p.mode, QKV_RANKS_COLLECT);
    CHECK(p.scratch > 256 << 20);
    comm.collect_limit = 4 << 20;
    p = qkv_ranks_backward_plan(&a, &g, &comm);
    CHECK_EQ(p.mode, QKV_RANKS_PIPELINE);
    CHECK_TEXT(p.reason, "all keys and values have 134217728 bytes, more than the limit of 4194304 "
                         "bytes");
    CHECK(p.blocks >= 128 && p.blocks < 160); // of 4 MiB / 4 ranks
    CHECK(p.block <= 1 << 20);
    // the two sums of dq; d and lse of each row; blocks, sums and the memory of threads
    CHECK(p.scratch < (size_t)(32 + 2 + 8 + 3 * qkv_threads()) << 20);
    a.sinks = slopes;
    g.sinks = grad;
    CHECK_EQ(qkv_ranks_backward_plan(&a, &g, &comm).blocks, p.blocks);
    a.alibi = slopes;
    g.alibi = grad;
    a.relative.at = relative;
    a.relative.reach = 1;
    g.relative = grad;
    p = qkv_ranks_backward_plan(&a, &g, &comm);
    CHECK_EQ(p.blocks, 16); // the parts of one process
    CHECK_EQ(p.block, 8 << 20);
}

CHECK_MAIN(CASE(gradients_over_ranks_have_the_bits_of_one_call),
           CASE(short_runs_pass_the_gradients_of_tables),
           CASE(many_batch_items_pass_the_gradients_of_tables),
           CASE(gradients_of_a_bias_without_rows_have_the_bits_of_one_call),
           CASE(long_runs_pass_the_gradients_of_tables),
           CASE(backward_with_different_limits_is_refused),
           CASE(a_key_that_its_gradient_would_overwrite_is_refused),
           CASE(ranks_with_different_axes_of_the_bias_are_refused),
           CASE(the_backward_plan_has_the_memory_of_a_block),
           CASE(many_batch_items_that_share_a_bias_pass_the_gradients_of_tables))
