// SPDX-License-Identifier: MIT
// test_optim.c: compares optimizers with torch; checks schedules, gradient norms that do not depend
// on threads, and the memory of the moments of each rank.
#include "base/faults.h"
#include "check.h"
#include "task/train/train_internal.h"
#include <float.h>

enum { N = 5, STEPS = 10 };
// Returns numbers that float represents exactly, the same as in the script for torch.
static real number(int i, int k)
{
    return (real)(((i * 37 + k * 11) % 64 - 32) / 16.0);
}
static struct qkv_parameter parameter(real *value, real *grad, int64_t count, bool decay)
{
    return (struct qkv_parameter){ .name = "w",
                                   .rank = 1,
                                   .shape = { count },
                                   .count = count,
                                   .value = value,
                                   .grad = grad,
                                   .decay = decay };
}

// Compares ten steps with torch 2.13: w = number(i, 0); gradients number(i, t) / 2, t from 1, rate
// .01, decay .1. A step rounds w three times, |w| < 2, and its update of at most .02 about ten
// times; torch does the same.
static void ten_steps(struct qkv_optimizer *o, const double *want, bool decay)
{
    real w[N], g[N];
    struct qkv_parameter p = parameter(w, g, N, decay);
    for (int i = 0; i < N; i++) w[i] = number(i, 0);
    CHECK_EQ(qkv_optimizer_init(o, &p, 1, NULL), QKV_OK);
    for (int t = 1; t <= STEPS; t++) {
        for (int i = 0; i < N; i++) g[i] = number(i, t);
        qkv_optimizer_step(o, &p, 1, .01, .5);
    }
    CHECK_EQ(o->steps, STEPS);
    const double u = FLT_EPSILON / 2, tol = 2 * STEPS * (3 * 2 * u + .02 * 10 * u);
    for (int i = 0; want && i < N; i++) CHECK_NEAR((double)w[i], want[i], tol);
    qkv_optimizer_free(o);
}

TEST(adamw_is_torchs)
{
    struct qkv_optimizer o = {
        .kind = QKV_ADAMW, .beta1 = .9, .beta2 = .95, .eps = 1e-8, .decay = .1
    };
    ten_steps(&o, (double[]){ -1.93978083, 0.282530159, -1.33906662, 0.925096095, -0.733927011 },
              true);
}

TEST(sgd_is_torchs_with_and_without_momentum)
{
    struct qkv_optimizer o = { .kind = QKV_SGD, .decay = .1 };
    ten_steps(&o, (double[]){ -1.96923482, 0.304758817, -1.36166644, 0.932227731, -0.734117687 },
              true);
    o = (struct qkv_optimizer){ .kind = QKV_SGD, .decay = .1, .momentum = .9 };
    ten_steps(&o, (double[]){ -1.85248923, 0.258102536, -1.28817689, 0.904225171, -0.693534315 },
              true);
}

TEST(decay_shrinks_only_what_decays)
{
    static const real kept[3] = { 1, -2, 3 };
    real w[2][3] = { { 1, -2, 3 }, { 1, -2, 3 } }, g[3] = { 0 };
    struct qkv_parameter p[2] = { parameter(w[0], g, 3, true), parameter(w[1], g, 3, false) };
    struct qkv_optimizer o = {
        .kind = QKV_ADAMW, .beta1 = .9, .beta2 = .999, .eps = 1e-8, .decay = .5
    };
    CHECK_EQ(qkv_optimizer_init(&o, p, 2, NULL), QKV_OK);
    qkv_optimizer_step(&o, p, 2, .25, 1);
    for (int i = 0; i < 3; i++) {
        CHECK(w[0][i] == (real)(1 - .25 * .5) * w[1][i]);
        CHECK(w[1][i] == kept[i]);
    }
    qkv_optimizer_free(&o);
}

static double norm_of(const struct qkv_parameter p[2], int64_t *bad)
{
    double squares[16];
    const int64_t blocks = qkv_parameter_blocks(p, 2);
    CHECK(blocks < 16);
    qkv_gradient_squares(squares, p, 2, blocks / 2, blocks); // in two parts, as two ranks have them
    qkv_gradient_squares(squares, p, 2, 0, blocks / 2);
    return qkv_gradient_norm(squares, p, 2, bad);
}

TEST(the_norm_has_the_same_bits_for_any_number_of_threads)
{
    enum { BIG = 100003 };
    real *g = qkv_alloc(BIG, sizeof *g);
    double exact = 0, first = 0;
    for (int i = 0; i < BIG; i++) {
        g[i] = (real)check_gauss();
        exact += (double)g[i] * (double)g[i];
    }
    struct qkv_parameter p[2] = { parameter(NULL, g, 40000, true),
                                  parameter(NULL, g + 40000, BIG - 40000, false) };
    for (int threads = 1; threads <= 4; threads++) {
        int64_t bad = 7;
        CHECK_EQ(qkv_threads_set(threads), QKV_OK);
        const double norm = norm_of(p, &bad);
        CHECK_EQ(bad, -1);
        if (threads == 1) first = norm;
        CHECK_BITS(&norm, &first, sizeof norm);
    }
    CHECK_NEAR(first, sqrt(exact), sqrt(exact) * BIG * DBL_EPSILON);
    int64_t bad = -1;
    g[50000] = (real)NAN;
    CHECK(isnan(norm_of(p, &bad)));
    CHECK_EQ(bad, 1);
    g[0] = (real)INFINITY;
    norm_of(p, &bad);
    CHECK_EQ(bad, 0);
    p[0].value = p[1].value = g + 10;
    CHECK_EQ(qkv_parameter_bad(p, 1), -1);
    p[1].value = g;
    CHECK_EQ(qkv_parameter_bad(p, 2), 1);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    qkv_free(g);
}

TEST(a_step_has_the_same_bits_for_any_number_of_threads)
{
    enum { BIG = 70001 };
    const size_t bytes = BIG * sizeof(real);
    real *g = qkv_alloc(BIG, sizeof *g), *w[2] = { qkv_alloc(bytes, 1), qkv_alloc(bytes, 1) };
    for (int i = 0; i < BIG; i++) g[i] = (real)check_gauss();
    for (int turn = 0; turn < 2; turn++) {
        memcpy(w[turn], g, bytes);
        CHECK_EQ(qkv_threads_set(turn ? 3 : 1), QKV_OK);
        struct qkv_parameter p = parameter(w[turn], g, BIG, true);
        struct qkv_optimizer o = {
            .kind = QKV_ADAMW, .beta1 = .9, .beta2 = .999, .eps = 1e-8, .decay = .01
        };
        CHECK_EQ(qkv_optimizer_init(&o, &p, 1, NULL), QKV_OK);
        for (int t = 0; t < 3; t++) qkv_optimizer_step(&o, &p, 1, .01, .5);
        qkv_optimizer_free(&o);
    }
    CHECK_BITS(w[0], w[1], bytes);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    qkv_free(g);
    qkv_free(w[0]);
    qkv_free(w[1]);
}

TEST(schedules_rise_and_fall_as_they_say)
{
    struct qkv_schedule s = { QKV_SCHEDULE_COSINE, 1, .1, 10, 110 };
    for (int kind = QKV_SCHEDULE_COSINE; kind <= QKV_SCHEDULE_CONSTANT; kind++) {
        s.kind = (enum qkv_schedule_kind)kind;
        for (int n = 0; n < 10; n++) CHECK_NEAR(qkv_schedule_rate(&s, n), (n + 1) / 10.0, 1e-15);
        for (int n = 10; n < 300; n++) // the rate never increases again
            CHECK(qkv_schedule_rate(&s, n) <= qkv_schedule_rate(&s, n - 1) + 1e-15);
    }
    s.kind = QKV_SCHEDULE_COSINE;
    CHECK_NEAR(qkv_schedule_rate(&s, 10), 1, 1e-15);
    CHECK_NEAR(qkv_schedule_rate(&s, 60), .55, 1e-15);
    CHECK_NEAR(qkv_schedule_rate(&s, 110), .1, 1e-15);
    CHECK_NEAR(qkv_schedule_rate(&s, 1000000), .1, 1e-15);
    s.kind = QKV_SCHEDULE_LINEAR;
    CHECK_NEAR(qkv_schedule_rate(&s, 35), .775, 1e-15);
    CHECK_NEAR(qkv_schedule_rate(&s, 110), .1, 1e-15);
    s.kind = QKV_SCHEDULE_INVERSE_SQRT;
    CHECK_NEAR(qkv_schedule_rate(&s, 39), .5, 1e-15);
    s.kind = QKV_SCHEDULE_CONSTANT;
    CHECK_NEAR(qkv_schedule_rate(&s, 1 << 20), 1, 0);
    s = (struct qkv_schedule){ QKV_SCHEDULE_COSINE, 1, 0, 0, 0 }; // no steps at all
    CHECK_NEAR(qkv_schedule_rate(&s, 0), 0, 1e-15);
    CHECK_NEAR(qkv_schedule_rate(&s, INT64_MAX), 0, 1e-15);
}

static qkv_status init_and_free(void *ctx, qkv_error *err)
{
    struct qkv_optimizer o = { .kind = QKV_ADAMW };
    const qkv_status status = qkv_optimizer_init(&o, ctx, 3, err);
    qkv_optimizer_free(&o);
    return status;
}

TEST(every_failed_allocation_is_survived)
{
    struct qkv_parameter p[3] = { parameter(NULL, NULL, 5, true), parameter(NULL, NULL, 100, true),
                                  parameter(NULL, NULL, 1, false) };
    CHECK(faults_walk(init_and_free, p, true) == 8);
}

// Returns the weights whose moments a rank has, after the check that it allocates no others.
static int64_t moments_of_rank(struct qkv_parameter *p, int64_t n, int64_t rank, int64_t size)
{
    enum { OVERHEAD = 128 }; // of an allocation: its header, the alignment, a parameter of no rank
    static struct train t;
    const struct qkv_train_options o = { .accumulate = 1 };
    int64_t own = 0;
    t = (struct train){ .o = &o, .comm = { .rank = rank, .size = size }, .p = p, .n = n };
    t.ranks.share.size = 1;
    CHECK_EQ(train_ranks_begin(&t, NULL), QKV_OK);
    t.optimizer.kind = QKV_ADAMW;
    for (int64_t i = 0; i < n; i++) own += train_rank_weights(&t, i, rank).n;
    faults_begin(0, false);
    CHECK_EQ(qkv_optimizer_init(&t.optimizer, p, n, NULL), QKV_OK);
    const int64_t bytes = atomic_load(&faults_bytes);
    faults_end(NULL);
    const int64_t moments = 2 * own * (int64_t)sizeof(real);
    CHECK(bytes >= moments);
    CHECK(bytes <= moments + (2 * n + 2) * (OVERHEAD + n * (int64_t)sizeof(real *)));
    qkv_optimizer_free(&t.optimizer);
    train_ranks_end(&t);
    return own;
}

TEST(a_rank_has_the_moments_of_its_share_of_the_weights)
{
    enum { PARAMETERS = 5, RANKS = 8, BLOCK = 1 << 14 };
    static const int64_t counts[PARAMETERS] = { 40 * BLOCK + 7, 64, 700000, BLOCK - 1, 3 };
    struct qkv_parameter p[PARAMETERS];
    int64_t weights = 0;
    for (int i = 0; i < PARAMETERS; i++) weights += counts[i];
    real *grad = qkv_alloc((size_t)weights, sizeof *grad), *at = grad;
    CHECK(grad != NULL);
    for (int i = 0; i < PARAMETERS; at += counts[i++]) p[i] = parameter(at, at, counts[i], true);
    for (int64_t size = 1; size <= RANKS; size++) {
        int64_t all = 0;
        for (int64_t rank = 0; rank < size; rank++) {
            const int64_t own = moments_of_rank(p, PARAMETERS, rank, size);
            // ranks have equal numbers of blocks, of which one of each parameter is not full
            CHECK(own <= weights / size + PARAMETERS * BLOCK / size + BLOCK);
            CHECK(own >= weights / size - (PARAMETERS + 1) * BLOCK);
            all += own;
        }
        CHECK_EQ(all, weights);
    }
    qkv_free(grad);
}

CHECK_MAIN(CASE(adamw_is_torchs), CASE(sgd_is_torchs_with_and_without_momentum),
           CASE(decay_shrinks_only_what_decays),
           CASE(the_norm_has_the_same_bits_for_any_number_of_threads),
           CASE(a_step_has_the_same_bits_for_any_number_of_threads),
           CASE(schedules_rise_and_fall_as_they_say), CASE(every_failed_allocation_is_survived),
           CASE(a_rank_has_the_moments_of_its_share_of_the_weights))
