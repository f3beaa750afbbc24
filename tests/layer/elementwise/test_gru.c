// SPDX-License-Identifier: MIT
// test_gru.c: compares the gated recurrent unit with PyTorch's and with differences, and checks its
// invariants.
#include "layer/differences.h"
#include "layer/layer.h"

struct problem {
    struct qkv_gru p;
    const int64_t *offsets;
    int64_t n; // number of sequences
    real *w_i, *w_h, *b_i, *b_h, *x, *first, *dh;
};
struct result {
    real *h, *gates, *dx, *dfirst;
    struct qkv_gru_grad g;
};

static void *scratch_of(struct problem *p)
{
    const size_t bytes = qkv_gru_scratch(&p->p, p->offsets[p->n], p->n);
    CHECK(bytes != SIZE_MAX);
    p->p.scratch = qkv_alloc(bytes, 1);
    // fills scratch with NaN, so that a read before the first write is detected
    memset(p->p.scratch, 0xff, bytes);
    return p->p.scratch;
}

static struct problem make(int64_t D_in, int64_t D, const int64_t *offsets, int64_t n, bool reverse)
{
    const int64_t R = offsets[n];
    int64_t count = 0;
    struct problem p = { .p = { .D_in = D_in, .D = D, .reverse = reverse, .threads = 1 },
                         .offsets = offsets,
                         .n = n };
    p.p.w_i = p.w_i = made(&count, 3 * D * D_in, 1);
    p.p.w_h = p.w_h = made(&count, 3 * D * D, 1);
    p.p.b_i = p.b_i = made(&count, 3 * D, 1);
    p.p.b_h = p.b_h = made(&count, 3 * D, 1);
    p.x = made(&count, R * D_in, 2);
    p.first = made(&count, n * D, 1);
    p.dh = made(&count, R * D, 1);
    return p;
}

static struct result run(struct problem *p, int threads)
{
    const int64_t R = p->offsets[p->n], D = p->p.D, K = p->p.D_in;
    struct result y = { zeros(R * D),
                        zeros(R * 4 * D),
                        zeros(R * K),
                        zeros(p->n * D),
                        { zeros(3 * D * K), zeros(3 * D * D), zeros(3 * D), zeros(3 * D) } };
    p->p.threads = threads;
    CHECK_EQ(qkv_threads_set(threads), QKV_OK);
    void *scratch = scratch_of(p);
    qkv_gru_forward(y.h, y.gates, p->x, p->first, p->offsets, p->n, &p->p);
    qkv_gru_backward(y.dx, y.dfirst, &y.g, p->dh, y.h, y.gates, p->x, p->first, p->offsets, p->n,
                     &p->p);
    qkv_free(scratch);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    return y;
}

// Error bound: 6 steps of sums of at most 33 terms of magnitude about 1, where the next step
// amplifies an error by less than 2. 2^6 (33 + 10) ulp is far above the accumulated rounding error
// and far below the error of a wrong formula.
static const double units = 64 * 43;

TEST(both_directions_are_those_of_pytorch)
{
    static const int64_t offsets[] = { 0, 4, 5, 11 };
    EACH_ISA(k) for (int back = 0; back < 2; back++)
    {
        struct problem p = make(3, 5, offsets, 3, back);
        const struct result y = run(&p, 1);
        const double *golden = back ? golden_gru_back : golden_gru;
        check_golden(y.h, &golden, 11 * 5, units);
        check_golden(y.dx, &golden, 11 * 3, units);
        check_golden(y.dfirst, &golden, 3 * 5, units);
        check_golden(y.g.w_i, &golden, 15 * 3, units);
        check_golden(y.g.w_h, &golden, 15 * 5, units);
        check_golden(y.g.b_i, &golden, 15, units);
        check_golden(y.g.b_h, &golden, 15, units);
        fence_free();
    }
}

static double value(void *ctx)
{
    struct problem *p = ctx;
    const int64_t R = p->offsets[p->n], D = p->p.D;
    static real h[512], gates[2048];
    void *scratch = scratch_of(p);
    qkv_gru_forward(h, gates, p->x, p->first, p->offsets, p->n, &p->p);
    qkv_free(scratch);
    double sum = 0;
    for (int64_t i = 0; i < R * D; i++) sum += (double)(p->dh[i] * h[i]);
    return sum;
}

TEST(gradients_are_differences)
{
    static const int64_t offsets[] = { 0, 3, 3, 4, 9 };
    for (int back = 0; back < 2; back++) {
        struct problem p = make(4, 6, offsets, 4, back);
        const struct result y = run(&p, 1);
        check_differences(p.x, y.dx, 9 * 4, value, &p);
        check_differences(p.first, y.dfirst, 4 * 6, value, &p);
        check_differences(p.w_i, y.g.w_i, 18 * 4, value, &p);
        check_differences(p.w_h, y.g.w_h, 18 * 6, value, &p);
        check_differences(p.b_i, y.g.b_i, 18, value, &p);
        check_differences(p.b_h, y.g.b_h, 18, value, &p);
        fence_free();
    }
}

TEST(threads_change_no_bit_and_sequences_do_not_know_each_other)
{
    static const int64_t offsets[] = { 0, 7, 9, 40, 41, 60 };
    struct problem p = make(19, 50, offsets, 5, false);
    const struct result one = run(&p, 1);
    for (int threads = 2; threads < 6; threads++) {
        const struct result more = run(&p, threads);
        CHECK_BITS(more.h, one.h, 60 * 50 * sizeof(real));
        CHECK_BITS(more.dx, one.dx, 60 * 19 * sizeof(real));
        CHECK_BITS(more.dfirst, one.dfirst, 5 * 50 * sizeof(real));
        CHECK_BITS(more.g.w_i, one.g.w_i, 150 * 19 * sizeof(real));
        CHECK_BITS(more.g.w_h, one.g.w_h, 150 * 50 * sizeof(real));
        CHECK_BITS(more.g.b_h, one.g.b_h, 150 * sizeof(real));
    }
    for (int s = 0; s < 5; s++) {
        const int64_t alone[] = { 0, offsets[s + 1] - offsets[s] };
        struct problem q = p;
        q.offsets = alone;
        q.n = 1;
        q.x += offsets[s] * 19;
        q.dh += offsets[s] * 50;
        q.first += s * 50;
        const struct result y = run(&q, 1);
        CHECK_BITS(y.h, one.h + offsets[s] * 50, (size_t)(alone[1] * 50) * sizeof(real));
        CHECK_BITS(y.dx, one.dx + offsets[s] * 19, (size_t)(alone[1] * 19) * sizeof(real));
    }
    fence_free();
}

TEST(what_is_not_wanted_is_left_out_and_no_sequences_are_fine)
{
    static const int64_t offsets[] = { 0, 2, 5 }, nothing[] = { 0, 0 };
    struct problem p = make(3, 4, offsets, 2, false);
    const struct result y = run(&p, 1);
    real *dfirst = zeros(8);
    void *scratch = scratch_of(&p);
    qkv_gru_backward(NULL, dfirst, NULL, p.dh, y.h, y.gates, p.x, p.first, offsets, 2, &p.p);
    CHECK_BITS(dfirst, y.dfirst, 8 * sizeof(real));
    p.p.b_i = p.p.b_h = NULL;
    qkv_gru_forward(y.h, y.gates, p.x, NULL, nothing, 1, &p.p);
    dfirst[0] = 1;
    qkv_gru_backward(NULL, dfirst, NULL, p.dh, y.h, y.gates, p.x, NULL, nothing, 1, &p.p);
    CHECK(dfirst[0] == 0);
    qkv_free(scratch);
    p.p.D = INT64_MAX / 2;
    CHECK(qkv_gru_scratch(&p.p, 5, 2) == SIZE_MAX);
    fence_free();
}

CHECK_MAIN(CASE(both_directions_are_those_of_pytorch), CASE(gradients_are_differences),
           CASE(threads_change_no_bit_and_sequences_do_not_know_each_other),
           CASE(what_is_not_wanted_is_left_out_and_no_sequences_are_fine))
