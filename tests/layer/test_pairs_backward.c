// SPDX-License-Identifier: MIT
// test_pairs_backward.c: tests activations, dropout, rotary positions, embeddings and the mean of
// rows: invariants, PyTorch's results, and bit-identical results for any number of threads.
#include "differences.h"
#include "golden_pairs.h"
#include "layer/layer.h"
#include <stdlib.h>

static const enum qkv_activation acts[] = { QKV_ACT_RELU, QKV_ACT_GELU, QKV_ACT_GELU_TANH,
                                            QKV_ACT_SILU, QKV_ACT_TANH };

TEST(activations_and_gates_are_those_of_torch)
{
    enum { N = 20 };
    static const double *const goldens[] = { golden_relu, golden_gelu, golden_gelu_tanh,
                                             golden_silu, golden_tanh };
    EACH_ISA(k)
    for (int a = 0; a < 5; a++) {
        (void)k;
        int64_t count = 0;
        const double *golden = goldens[a];
        real *x = made(&count, N, 8), *u = made(&count, N, 2), *dy = made(&count, N, 2);
        real *y = zeros(N), *dx = zeros(N), *du = zeros(N);
        qkv_activation_forward(y, x, 0, N, acts[a]);
        qkv_activation_backward(dx, dy, x, 0, N, acts[a]);
        check_golden(y, &golden, N, 40);
        check_golden(dx, &golden, N, 40); // a bound above the accuracy of the derivatives, 2^-20
        qkv_gated_forward(y, x, u, 0, N, acts[a]);
        qkv_gated_backward(dx, du, dy, x, u, 0, N, acts[a]);
        check_golden(y, &golden, N, 40);
        check_golden(dx, &golden, N, 40);
        check_golden(du, &golden, N, 40);
        fence_free();
    }
}

TEST(activations_in_pieces_and_threads_have_the_same_bits)
{
    enum { N = 20000 };
    uint16_t *x = fenced(N * 2), *u = fenced(N * 2), *dy = fenced(N * 2), *one = fenced(N * 2);
    uint16_t *two = fenced(N * 2), *du = fenced(N * 2), *du2 = fenced(N * 2);
    for (int i = 0; i < N; i++) {
        x[i] = qkv_f32_to_bf16((float)check_gauss());
        u[i] = qkv_f32_to_bf16((float)check_gauss());
        dy[i] = qkv_f32_to_bf16((float)check_gauss());
    }
    CHECK_EQ(qkv_threads_set(1), QKV_OK);
    qkv_gated_backward(one, du, dy, x, u, QKV_BF16, N, QKV_ACT_SILU);
    CHECK_EQ(qkv_threads_set(3), QKV_OK);
    qkv_gated_backward(two, du2, dy, x, u, QKV_BF16, N, QKV_ACT_SILU);
    CHECK_BITS(one, two, N * 2);
    CHECK_BITS(du, du2, N * 2);
    qkv_gated_backward(two, du2, dy, x, u, QKV_BF16, 777, QKV_ACT_SILU);
    CHECK_BITS(one, two, 777 * 2);
    qkv_activation_backward(one, dy, x, QKV_BF16, N, QKV_ACT_GELU);
    qkv_activation_backward(dy, dy, x, QKV_BF16, N, QKV_ACT_GELU); // in place
    CHECK_BITS(one, dy, N * 2);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    fence_free();
}

// FlashAttention's rule, compared with the formula on the same 16-bit numbers; the plain formula
// also rounds its derivative.
TEST(slopes_in_bf16_are_at_most_twice_as_far_off_as_the_plain_formula)
{
    enum { N = 4096 };
    EACH_ISA(k) EACH(act, acts)
    {
        (void)k;
        uint16_t *x = fenced(N * 2), *dy = fenced(N * 2), *dx = fenced(N * 2);
        real *wide = zeros(N), *wide_dy = zeros(N), *exact = zeros(N), *slope = zeros(N);
        for (int i = 0; i < N; i++) {
            x[i] = qkv_f32_to_bf16((float)(2 * check_gauss()));
            dy[i] = qkv_f32_to_bf16((float)check_gauss());
            wide[i] = qkv_bf16_to_f32(x[i]);
            wide_dy[i] = qkv_bf16_to_f32(dy[i]);
            slope[i] = 1;
        }
        qkv_activation_backward(dx, dy, x, QKV_BF16, N, *act);
        qkv_kernel_isa(0)->activation_backward(exact, wide_dy, wide, QKV_REAL, N, *act);
        qkv_kernel_isa(0)->activation_backward(slope, slope, wide, QKV_REAL, N, *act);
        double ours = 0, plain = 0;
        for (int i = 0; i < N; i++) {
            const float half = qkv_bf16_to_f32(qkv_f32_to_bf16((float)slope[i]));
            const float rounded = qkv_bf16_to_f32(qkv_f32_to_bf16(half * (float)wide_dy[i]));
            ours = fmax(ours, fabs((double)qkv_bf16_to_f32(dx[i]) - (double)exact[i]));
            plain = fmax(plain, fabs((double)rounded - (double)exact[i]));
        }
        CHECK(ours <= 2 * plain);
        fence_free();
    }
}

// ---- dropout -----------------------------------------------------------------------------------
TEST(dropout_is_the_same_in_pieces_in_threads_and_backward)
{
    enum { N = 30000, CUT = 12345 };
    const struct qkv_dropout d = { (real)0.25, 42, 7 }, other = { (real)0.25, 42, 8 };
    EACH_ISA(k)
    {
        (void)k;
        real *x = zeros(N), *residual = zeros(N), *y = zeros(N), *z = zeros(N), *dx = zeros(N);
        for (int i = 0; i < N; i++) x[i] = 1, residual[i] = (real)check_gauss();
        CHECK_EQ(qkv_threads_set(1), QKV_OK);
        qkv_dropout_forward(y, NULL, x, 0, 5, N, &d);
        CHECK_EQ(qkv_threads_set(3), QKV_OK);
        qkv_dropout_forward(z, NULL, x, 0, 5, CUT, &d);
        qkv_dropout_forward(z + CUT, NULL, x + CUT, 0, 5 + CUT, N - CUT, &d);
        CHECK_BITS(y, z, N * sizeof *y);
        qkv_dropout_backward(dx, 0, x, 5, N, &d);
        CHECK_BITS(y, dx, N * sizeof *y);
        int dropped = 0, same = 0;
        for (int i = 0; i < N; i++) {
            uint32_t four[4];
            qkv_philox(four, 42, 7, (uint64_t)(i + 5) / 4);
            const bool drop = four[(i + 5) % 4] < qkv_dropout_threshold((double)d.p);
            CHECK(y[i] == (drop ? 0 : 1 / (1 - d.p)));
            dropped += drop;
        }
        // five standard deviations
        CHECK_NEAR((double)dropped / N, 0.25, 5 * sqrt(0.25 * 0.75 / N));
        qkv_dropout_forward(z, NULL, x, 0, 5, N, &other);
        for (int i = 0; i < N; i++) same += y[i] == z[i];
        // elements kept by both, or dropped by both
        CHECK_NEAR((double)same / N, 0.625, 5 * sqrt(0.25 / N));
        memcpy(z, residual, N * sizeof *z);
        qkv_dropout_forward(z, z, x, 0, 5, N, &d); // in place on the residual
        for (int i = 0; i < N; i++) CHECK(z[i] == residual[i] + y[i]);
        const struct qkv_dropout none = { 0, 42, 7 };
        qkv_dropout_forward(z, NULL, residual, 0, 0, N, &none);
        CHECK_BITS(z, residual, N * sizeof *z);
        CHECK_EQ(qkv_threads_set(0), QKV_OK);
        fence_free();
    }
}

// ---- rotary positions --------------------------------------------------------------------------
TEST(rotary_positions_are_those_of_torch_with_a_table_and_without)
{
    enum { R = 3, H = 2, E = 6, N = R * H * E };
    static const int32_t positions[] = { 0, 5, 31 };
    EACH_ISA(k)
    for (int table = 0; table < 2; table++) {
        (void)k;
        int64_t count = 0;
        const double *golden = golden_rope;
        real *x = made(&count, N, 2), *dy = made(&count, N, 2), *turns = zeros(32 * E);
        qkv_rope_table(turns, 32, E, 0);
        for (int between = 0; between < 2; between++) {
            struct qkv_rope p = { .interleaved = between, .table = table ? turns : NULL };
            real *y = zeros(N), *back = zeros(N);
            memcpy(y, x, N * sizeof *y);
            memcpy(back, dy, N * sizeof *y);
            qkv_rope_apply(y, 0, positions, R, H, E, &p);
            check_golden(y, &golden, N, 8);
            p.backward = true;
            qkv_rope_apply(back, 0, positions, R, H, E, &p);
            check_golden(back, &golden, N, 8);
            qkv_rope_apply(y, 0, positions, R, H, E, &p); // rotates back to the original vectors
            for (int i = 0; i < N; i++) CHECK_NEAR((double)y[i], (double)x[i], 8 * U);
        }
        fence_free();
    }
}

TEST(rows_of_rotary_positions_may_lie_apart_and_heads_may_be_wide)
{
    enum { R = 40, H = 2, E = 600, APART = H * E + 8 };
    int32_t positions[R];
    real *x = zeros(R * APART), *y = zeros(R * H * E), *turns = zeros(R * E);
    for (int r = 0; r < R; r++) {
        positions[r] = R - 1 - r;
        for (int i = 0; i < H * E; i++) y[r * H * E + i] = x[r * APART + i] = (real)check_gauss();
    }
    qkv_rope_table(turns, R, E, 1000);
    const struct qkv_rope tight = { .theta = 1000 },
                          apart = { .theta = 1000, .table = turns, .ldx = APART };
    qkv_rope_apply(y, 0, positions, R, H, E, &tight);
    CHECK_EQ(qkv_threads_set(3), QKV_OK);
    qkv_rope_apply(x, 0, positions, R, H, E, &apart);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    for (int r = 0; r < R; r++) {
        CHECK_BITS(x + r * APART, y + r * H * E, H * E * sizeof *y);
        if (r + 1 < R)
            for (int i = H * E; i < APART; i++) CHECK(x[r * APART + i] == 0);
    }
    fence_free();
}

// ---- embeddings --------------------------------------------------------------------------------
TEST(embeddings_are_those_of_torch)
{
    enum { V = 6, P = 4, Y = 2, D = 3, R = 7 };
    static const int32_t ids[] = { 5, 0, 2, 5, 5, 1, 0 }, places[] = { 0, 1, 2, 3, 0, 1, 2 };
    static const int32_t kinds[] = { 0, 0, 0, 1, 1, 1, 0 };
    EACH_ISA(k)
    {
        (void)k;
        int64_t count = 0;
        const double *golden = golden_embed;
        struct qkv_embed p = { V, P, Y, D, NULL, NULL, NULL, 3 };
        p.token = made(&count, V * D, 1);
        p.position = made(&count, P * D, 1);
        p.type = made(&count, Y * D, 1);
        real *dy = made(&count, R * D, 1), *y = zeros(R * D), *dtoken = zeros(V * D);
        real *dposition = zeros(P * D), *dtype = zeros(Y * D);
        void *scratch = qkv_alloc(qkv_embed_backward_scratch(R, &p), 1);
        qkv_embed_forward(y, ids, kinds, places, R, &p);
        qkv_embed_backward(dtoken, dposition, dtype, dy, ids, kinds, places, R, &p, scratch);
        check_golden(y, &golden, R * D, 8);
        check_golden(dtoken, &golden, V * D, 16);
        check_golden(dposition, &golden, P * D, 8);
        check_golden(dtype, &golden, Y * D, 8);
        qkv_free(scratch);
        fence_free();
    }
}

TEST(rows_of_embeddings_are_added_in_their_order_by_any_number_of_threads)
{
    enum { V = 5000, D = 300, R = 1500 };
    int32_t *ids = fenced(R * sizeof *ids);
    real *dy = zeros(R * D), *want = zeros(V * D);
    // half of the rows have the same id, like the most frequent word of a text
    for (int r = 0; r < R; r++) ids[r] = r % 2 ? 17 : (int32_t)((check_random() + 1) * V / 2);
    for (int i = 0; i < R * D; i++) dy[i] = (real)check_gauss();
    for (int r = 0; r < R; r++)
        for (int d = 0; d < D; d++) want[ids[r] * D + d] += dy[r * D + d];
    const struct qkv_embed p = { .V = V, .D = D };
    void *scratch = qkv_alloc(qkv_embed_backward_scratch(R, &p), 1);
    for (int threads = 1; threads < 4; threads++) {
        real *got = zeros(V * D);
        CHECK_EQ(qkv_threads_set(threads), QKV_OK);
        qkv_embed_backward(got, NULL, NULL, dy, ids, NULL, NULL, R, &p, scratch);
        CHECK_BITS(got, want, V * D * sizeof *got);
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    CHECK_EQ(qkv_embed_backward_scratch(INT64_MAX, &p), SIZE_MAX);
    qkv_free(scratch);
    fence_free();
}

// ---- mean of rows ------------------------------------------------------------------------------
TEST(means_of_rows_are_those_of_torch)
{
    enum { N = 3, D = 5, R = 8 };
    static const int64_t offsets[] = { 0, 3, 4, 8 };
    EACH_ISA(k)
    {
        (void)k;
        int64_t count = 0;
        const double *golden = golden_pool;
        real *x = made(&count, R * D, 1), *dv = made(&count, N * D, 1);
        real *v = zeros(N * D), *norm = zeros(N), *dx = zeros(R * D);
        qkv_mean_pool_forward(v, norm, x, offsets, N, D, true);
        qkv_mean_pool_backward(dx, dv, v, norm, offsets, N, D, true);
        check_golden(v, &golden, N * D, 20);
        // larger bound, because gradients are divided by lengths of about a tenth
        check_golden(dx, &golden, R * D, 200);
        fence_free();
    }
}

TEST(an_empty_sequence_and_a_mean_of_nothing_give_nothing)
{
    static const int64_t offsets[] = { 0, 0, 2 };
    real x[4] = { 1, 2, -1, -2 }, v[4] = { 9, 9, 9, 9 }, norm[2] = { 9, 9 }, dx[4],
         dv[4] = { 1, 1, 1, 1 };
    qkv_mean_pool_forward(v, norm, x, offsets, 2, 2, true);
    for (int i = 0; i < 4; i++) CHECK(v[i] == 0);
    CHECK(norm[0] == 0 && norm[1] == 0);
    qkv_mean_pool_backward(dx, dv, v, norm, offsets, 2, 2, true);
    for (int i = 0; i < 4; i++) CHECK(dx[i] == 0);
    qkv_mean_pool_forward(v, NULL, x, offsets, 2, 2, false);
    qkv_mean_pool_backward(dx, dv, NULL, NULL, offsets, 2, 2, false);
    for (int i = 0; i < 4; i++) CHECK(dx[i] == (real)0.5);
}

CHECK_MAIN(CASE(activations_and_gates_are_those_of_torch),
           CASE(activations_in_pieces_and_threads_have_the_same_bits),
           CASE(slopes_in_bf16_are_at_most_twice_as_far_off_as_the_plain_formula),
           CASE(dropout_is_the_same_in_pieces_in_threads_and_backward),
           CASE(rotary_positions_are_those_of_torch_with_a_table_and_without),
           CASE(rows_of_rotary_positions_may_lie_apart_and_heads_may_be_wide),
           CASE(embeddings_are_those_of_torch),
           CASE(rows_of_embeddings_are_added_in_their_order_by_any_number_of_threads),
           CASE(means_of_rows_are_those_of_torch),
           CASE(an_empty_sequence_and_a_mean_of_nothing_give_nothing))
