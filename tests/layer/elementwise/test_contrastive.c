// SPDX-License-Identifier: MIT
// test_contrastive.c: compares the in-batch contrastive loss with PyTorch and with differences, and
// checks its invariants.
#include "layer/differences.h"
#include "layer/layer.h"

struct problem {
    struct qkv_contrastive p;
    int64_t n, D;
    real *a, *b;
};

static struct qkv_loss run(struct problem *p, real *da, real *db, real scale)
{
    struct qkv_loss loss = { 0 };
    const size_t bytes = qkv_contrastive_scratch(&p->p, p->n, p->D);
    CHECK(bytes != SIZE_MAX);
    p->p.scratch = qkv_alloc(bytes, 1);
    memset(p->p.scratch, 0xff, bytes);
    qkv_contrastive(&loss, da, db, p->a, p->b, p->n, p->D, scale, &p->p);
    qkv_free(p->p.scratch);
    return loss;
}

static struct problem make(int64_t n, int64_t D, real temperature, bool rows_only)
{
    int64_t count = 0;
    struct problem p = {
        { .temperature = temperature, .rows_only = rows_only, .threads = 1 }, n, D, NULL, NULL
    };
    p.a = made(&count, n * D, 1);
    p.b = made(&count, n * D, 1);
    return p;
}

TEST(both_directions_are_those_of_pytorch)
{
    EACH_ISA(k)
    {
        struct problem p = make(6, 5, (real)0.3, false);
        real *da = zeros(30), *db = zeros(30);
        const struct qkv_loss loss = run(&p, da, db, 1);
        const real sum = (real)loss.sum;
        const double *golden = golden_contrastive;
        CHECK_EQ(loss.rows, 6);
        // Scores and their powers have magnitudes below 5: 2 (5 + 5 + 10) ulp each, summed over 6
        // pairs.
        check_golden(&sum, &golden, 1, 240);
        check_golden(da, &golden, 30, 240);
        check_golden(db, &golden, 30, 240);
        fence_free();
    }
}

static double value(void *ctx)
{
    return run(ctx, NULL, NULL, 1).sum;
}

TEST(gradients_are_differences)
{
    for (int rows_only = 0; rows_only < 2; rows_only++) {
        struct problem p = make(5, 7, 0, rows_only);
        real *da = zeros(35), *db = zeros(35);
        run(&p, da, db, 1);
        check_differences(p.a, da, 35, value, &p);
        check_differences(p.b, db, 35, value, &p);
        fence_free();
    }
}

TEST(a_pair_that_is_alone_has_no_loss_and_equal_pairs_are_all_right)
{
    struct problem p = make(1, 9, 0, false);
    real *da = zeros(9), *db = zeros(9);
    struct qkv_loss loss = run(&p, da, db, 1);
    CHECK(loss.sum == 0 && loss.rows == 1 && loss.right == 1);
    for (int i = 0; i < 9; i++) CHECK(da[i] == 0 && db[i] == 0);
    enum { n = 40 };
    real unit[n * n] = { 0 };
    for (int i = 0; i < n; i++) unit[i * n + i] = 1;
    p = (struct problem){ { .threads = 1 }, n, n, unit, unit };
    loss = run(&p, NULL, NULL, 1);
    CHECK_EQ(loss.right, n);
    // The loss of each row is ln(1 + 39 e^-20).
    CHECK_NEAR(loss.sum, n * log1p(39 * exp(-20.0)), n * 40 * U);
    fence_free();
}

TEST(threads_change_no_bit)
{
    struct problem p = make(300, 33, 0, false);
    real *da = zeros(300 * 33), *db = zeros(300 * 33), *ea = zeros(300 * 33), *eb = zeros(300 * 33);
    const struct qkv_loss one = run(&p, da, db, (real)0.5);
    for (int threads = 2; threads < 5; threads++) {
        p.p.threads = threads;
        CHECK_EQ(qkv_threads_set(threads), QKV_OK);
        const struct qkv_loss more = run(&p, ea, eb, (real)0.5);
        CHECK_EQ(qkv_threads_set(0), QKV_OK);
        CHECK_BITS(&more, &one, sizeof one);
        CHECK_BITS(ea, da, 300 * 33 * sizeof(real));
        CHECK_BITS(eb, db, 300 * 33 * sizeof(real));
    }
    fence_free();
}

CHECK_MAIN(CASE(both_directions_are_those_of_pytorch), CASE(gradients_are_differences),
           CASE(a_pair_that_is_alone_has_no_loss_and_equal_pairs_are_all_right),
           CASE(threads_change_no_bit))
