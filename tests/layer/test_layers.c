// SPDX-License-Identifier: MIT
// test_layers.c: tests linear layers, feed-forward networks, heads, norm, embeddings and positions:
// each is bit-identical to the kernels it consists of, for any number of rows and threads.
#include "base/faults.h"
#include "layer/layer_internal.h"
#include <stdlib.h>

enum { D = 40, M = 100, R = 300 };

static real *numbers(int64_t n)
{
    real *p = fenced((size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++) p[i] = (real)check_gauss();
    return p;
}
static real *workspace(int64_t n)
{
    real *p = fenced((size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++) p[i] = (real)NAN;
    return p;
}
static struct qkv_linear linear(int64_t K, int64_t N)
{
    struct qkv_linear l = { .K = K,
                            .parts = 1,
                            .part = { { N, numbers(N * K), numbers(N), false } } };
    CHECK_EQ(qkv_linear_pack(&l), QKV_OK);
    return l;
}

TEST(three_parts_in_one_pass_equal_three_products)
{
    EACH_ISA(k)
    {
        const int64_t N[] = { 31, 520, 3 }, ld[] = { 50, 0, 3 }, deep = 400;
        const real *x = numbers(R * deep);
        struct qkv_linear all = { .K = deep, .parts = 3 };
        real *y[3], *one[3];
        for (int p = 0; p < 3; p++) {
            all.part[p] = (struct qkv_linear_part){ N[p], numbers(N[p] * deep),
                                                    p ? numbers(N[p]) : NULL, false };
            y[p] = workspace(R * 520);
            one[p] = workspace(R * N[p]);
        }
        CHECK_EQ(qkv_linear_pack(&all), QKV_OK);
        qkv_linear_forward((void *const *)y, ld, x, R, &all, NULL);
        for (int p = 0; p < 3; p++) {
            struct qkv_linear l = { .K = deep, .parts = 1, .part = { all.part[p] } };
            CHECK_EQ(qkv_linear_pack(&l), QKV_OK);
            qkv_linear_forward((void *[]){ one[p] }, NULL, x, R, &l, NULL);
            for (int64_t r = 0; r < R; r++)
                CHECK_BITS(y[p] + r * (ld[p] ? ld[p] : N[p]), one[p] + r * N[p],
                           (size_t)N[p] * sizeof(real));
            qkv_linear_free(&l);
        }
        qkv_linear_free(&all);
        qkv_linear_free(&all); // a second call has no effect
        fence_free();
    }
}

TEST(weights_read_once_and_turned_weights_give_the_bits_of_packed_ones)
{
    EACH_ISA(k)
    {
        const int64_t deep = 390, N = 130;
        struct qkv_linear l = linear(deep, N);
        const real *x = numbers(R * deep);
        real *y = workspace(R * N), *z = workspace(R * N), *turned = workspace(N * deep);
        qkv_linear_forward((void *[]){ y }, NULL, x, R, &l, NULL);
        for (int64_t n = 0; n < N; n++)
            for (int64_t i = 0; i < deep; i++) turned[i * N + n] = l.part[0].w[n * deep + i];
        for (int way = 0; way < 2; way++) {
            const struct qkv_linear_part part = { N, way ? turned : l.part[0].w, l.part[0].b, way };
            struct qkv_linear_once how = { .threads = 1 + way };
            how.scratch = fenced(qkv_linear_once_scratch(&how, deep, N));
            CHECK_EQ(qkv_threads_set(8), QKV_OK); // more threads than scratch has space for
            qkv_linear_once(z, N, x, deep, R, deep, &part, NULL, &how);
            CHECK_EQ(qkv_threads_set(0), QKV_OK);
            CHECK_BITS(z, y, (size_t)(R * N) * sizeof *y);
        }
        qkv_linear_free(&l);
        fence_free();
    }
}

// Rows are divided into tasks, blocks and tiles: neither their boundaries nor the thread that runs
// them change a bit.
TEST(rows_and_threads_change_no_bit)
{
    EACH_ISA(k)
    {
        struct qkv_mlp m = { .up = linear(D, M), .down = linear(M, D), .act = QKV_ACT_GELU };
        const struct qkv_norm norm = {
            .D = D, .w = numbers(D), .b = numbers(D), .eps = (real)1e-5
        };
        const int64_t many = 2100; // more than two blocks of the feed-forward network
        const real *x = numbers(many * D), *residual = numbers(many * D);
        real *y = workspace(many * D), *z = workspace(many * D);
        void *scratch = qkv_alloc(qkv_mlp_scratch(&m, many), 1);
        CHECK_EQ(qkv_threads_set(1), QKV_OK);
        qkv_mlp_forward(
            &(struct qkv_sublayer_rows){ .x = x, .y = y, .residual = residual, .norm = &norm },
            NULL, many, &m, scratch);
        for (int threads = 2; threads <= 8; threads++) {
            CHECK_EQ(qkv_threads_set(threads), QKV_OK);
            qkv_mlp_forward(
                &(struct qkv_sublayer_rows){ .x = x, .y = z, .residual = residual, .norm = &norm },
                NULL, many, &m, scratch);
            CHECK_BITS(z, y, (size_t)(many * D) * sizeof *y);
        }
        CHECK_EQ(qkv_threads_set(0), QKV_OK);
        for (int64_t r = 0; r < many; r += 97) { // each row alone is bit-identical
            qkv_mlp_forward(
                &(struct qkv_sublayer_rows){
                    .x = x + r * D, .y = z, .residual = residual + r * D, .norm = &norm },
                NULL, 1, &m, scratch);
            CHECK_BITS(z, y + r * D, D * sizeof *y);
        }
        qkv_free(scratch);
        qkv_linear_free(&m.up);
        qkv_linear_free(&m.down);
        fence_free();
    }
}

TEST(feed_forward_equals_its_pieces_in_place_and_with_a_tape)
{
    EACH_ISA(k)
    {
        struct qkv_mlp m = { .up = linear(D, M), .down = linear(M, D), .act = QKV_ACT_SILU };
        const struct qkv_norm norm = { .D = D, .w = numbers(D), .eps = (real)1e-5 };
        real *x = numbers(R * D), *before = workspace(R * M), *inner = workspace(R * M),
             *y = workspace(R * D), *z = workspace(R * D);
        void *scratch = qkv_alloc(qkv_mlp_scratch(&m, R), 1);
        qkv_linear_forward((void *[]){ before }, NULL, x, R, &m.up, NULL);
        qkv_kernel()->activation(inner, before, QKV_REAL, R * M, QKV_ACT_SILU);
        qkv_linear_forward((void *[]){ y }, NULL, inner, R, &m.down, NULL);
        qkv_norm_forward(y, NULL, NULL, y, x, R, &norm);
        qkv_mlp_forward(&(struct qkv_sublayer_rows){ .x = x, .y = z, .residual = x, .norm = &norm },
                        NULL, R, &m, scratch);
        CHECK_BITS(z, y, (size_t)(R * D) * sizeof *y);
        // The same layers, not packed.
        struct qkv_linear_once once = { .threads = qkv_threads() };
        struct qkv_mlp trained = {
            .up = { .K = D, .parts = 1, .part = { m.up.part[0] }, .once = &once },
            .down = { .K = M, .parts = 1, .part = { m.down.part[0] }, .once = &once },
            .act = QKV_ACT_SILU
        };
        const struct qkv_mlp_tape tape = { workspace(R * M), workspace(R * M) };
        void *pack = qkv_alloc(qkv_mlp_train_scratch(&trained, R, false), 1);
        once.scratch = pack;
        qkv_mlp_forward(&(struct qkv_sublayer_rows){ .x = x, .y = z, .residual = x }, &tape, R,
                        &trained, NULL);
        qkv_norm_forward(z, NULL, NULL, z, NULL, R, &norm);
        CHECK_BITS(z, y, (size_t)(R * D) * sizeof *y);
        CHECK_BITS(tape.up, before, (size_t)(R * M) * sizeof *y);
        CHECK_BITS(tape.inner, inner, (size_t)(R * M) * sizeof *y);
        qkv_free(pack);
        qkv_mlp_forward(&(struct qkv_sublayer_rows){ .x = x, .y = x, .residual = x, .norm = &norm },
                        NULL, R, &m, scratch);
        CHECK_BITS(x, y, (size_t)(R * D) * sizeof *y);
        qkv_free(scratch);
        qkv_linear_free(&m.up);
        qkv_linear_free(&m.down);
        fence_free();
    }
}

#ifndef QKV_DOUBLE
TEST(heads_with_packed_weights_equal_the_public_layer)
{
    static const int64_t offsets[] = { 0, 1, 20, 90 };
    EACH_ISA(k)
    {
        enum { H = 4, G = 2, E = 10, F = 7, ROWS = 90 };
        const int64_t N[] = { H * E, G * E, G * F };
        struct qkv_heads m = {
            .H = H, .G = G, .E = E, .F = F, .in = { .K = D, .parts = 3 }, .out = linear(H * F, D)
        };
        for (int p = 0; p < 3; p++)
            m.in.part[p] =
                (struct qkv_linear_part){ N[p], numbers(N[p] * D), numbers(N[p]), false };
        CHECK_EQ(qkv_linear_pack(&m.in), QKV_OK);
        const struct qkv_multi_head same = { .H = H,
                                             .G = G,
                                             .d_q = D,
                                             .d_k = E,
                                             .d_v = F,
                                             .d_out = D,
                                             .w_q = m.in.part[0].w,
                                             .b_q = m.in.part[0].b,
                                             .w_k = m.in.part[1].w,
                                             .b_k = m.in.part[1].b,
                                             .w_v = m.in.part[2].w,
                                             .b_v = m.in.part[2].b,
                                             .w_o = m.out.part[0].w,
                                             .b_o = m.out.part[0].b };
        const struct qkv_attention a = {
            .B = 1, .T = ROWS, .S = ROWS, .sequences = 3, .q_offsets = offsets
        };
        const struct qkv_norm norm = { .D = D, .w = numbers(D), .b = numbers(D), .eps = 1e-5f };
        float *x = numbers(ROWS * D), *y = workspace(ROWS * D), *z = workspace(ROWS * D);
        float *lse[] = { workspace(ROWS * H), workspace(ROWS * H) },
              *q[] = { workspace(ROWS * H * E), workspace(ROWS * H * E) };
        qkv_status status;
        const size_t bytes[] = { qkv_heads_scratch(&m, &a, &status),
                                 qkv_multi_head_plan(&same, &a).scratch };
        void *scratch = qkv_alloc(bytes[0] > bytes[1] ? bytes[0] : bytes[1], 1);
        CHECK_EQ(qkv_heads_forward(&(struct qkv_sublayer_rows){ .x = x, .y = y, .residual = x },
                                   &(struct qkv_heads_keep){ .q = q[0], .lse = lse[0] }, NULL, &m,
                                   &a, scratch),
                 QKV_OK);
        CHECK_EQ(qkv_multi_head_forward(z,
                                        &(struct qkv_multi_head_keep){ .q = q[1], .lse = lse[1] },
                                        x, NULL, &same, &a, scratch),
                 QKV_OK);
        for (int64_t i = 0; i < ROWS * D; i++) z[i] += x[i];
        CHECK_BITS(y, z, ROWS * D * sizeof *y);
        CHECK_BITS(lse[0], lse[1], ROWS * H * sizeof(float));
        CHECK_BITS(q[0], q[1], ROWS * H * E * sizeof(float));
        qkv_norm_forward(z, NULL, NULL, z, NULL, ROWS, &norm);
        CHECK_EQ(qkv_heads_forward(
                     &(struct qkv_sublayer_rows){ .x = x, .y = x, .residual = x, .norm = &norm },
                     NULL, NULL, &m, &a, scratch),
                 QKV_OK); // in place, with the norm of the layer
        CHECK_BITS(x, z, ROWS * D * sizeof *y);
        struct qkv_attention bad = a;
        bad.scale = NAN;
        CHECK_EQ(qkv_heads_forward(&(struct qkv_sublayer_rows){ .x = x, .y = x, .residual = x },
                                   NULL, NULL, &m, &bad, scratch),
                 QKV_ERR_USAGE);
        CHECK_EQ(qkv_heads_scratch(&m, &bad, &status), SIZE_MAX);
        CHECK_EQ(status, QKV_ERR_USAGE);
        qkv_free(scratch);
        qkv_linear_free(&m.in);
        qkv_linear_free(&m.out);
        fence_free();
    }
}

TEST(the_public_linear_and_norm_take_any_size_and_refuse_none_that_fits)
{
    float x[6] = { 1, 2, 3, 4, 5, 6 }, w[6] = { 1, 0, 0, 0, 1, -1 }, b[2] = { 10, 20 }, y[4];
    CHECK_EQ(qkv_linear(y, x, w, b, 2, 3, 2), QKV_OK);
    CHECK(y[0] == 11 && y[1] == 19 && y[2] == 14 && y[3] == 19);
    CHECK_EQ(qkv_linear(y, x, w, b, 0, 3, 2), QKV_OK);
    CHECK_EQ(qkv_linear(y, x, w, b, 2, 0, 2), QKV_OK); // with K = 0 the sum is 0
    CHECK(y[0] == 10 && y[1] == 20 && y[2] == 10 && y[3] == 20);
    CHECK_EQ(qkv_linear(y, x, w, b, -1, 3, 2), QKV_ERR_USAGE);
    CHECK_EQ(qkv_linear(y, x, w, b, INT64_MAX, 3, 2), QKV_ERR_LIMIT);
    CHECK_EQ(qkv_linear(y, x, w, b, 1, INT64_MAX / 4, 2), QKV_ERR_LIMIT);
    qkv_layer_norm(y, x, NULL, NULL, 0, 2, 2);
    CHECK(y[0] == -1 && y[1] == 1 && y[2] == -1 && y[3] == 1);
}
#endif

TEST(failed_memory_is_said_and_nothing_leaks)
{
    bool hit;
    struct qkv_linear l = { .K = 3, .parts = 1, .part = { { 2, numbers(6), NULL, false } } };
    faults_begin(1, false);
    CHECK_EQ(qkv_linear_pack(&l), QKV_ERR_LIMIT);
    CHECK_EQ(faults_end(&hit), 0);
    CHECK(hit && !l.packed);
#ifndef QKV_DOUBLE
    float y[2] = { 3, 3 };
    faults_begin(1, false);
    CHECK_EQ(qkv_linear(y, l.part[0].w, l.part[0].w, NULL, 1, 3, 2), QKV_ERR_LIMIT);
    CHECK_EQ(faults_end(&hit), 0);
    CHECK(hit && y[0] == 3 && y[1] == 3);
#endif
    fence_free();
}

TEST(an_embedding_is_the_sum_of_its_rows)
{
    EACH_ISA(k)
    {
        const struct qkv_embed p = {
            5, 4, 2, D, numbers(5 * D), numbers(4 * D), numbers(2 * D), 0
        };
        const int32_t ids[] = { 4, 0, 2 }, types[] = { 1, 0, 1 }, positions[] = { 0, 3, 1 };
        real *y = workspace(3 * D);
        qkv_embed_forward(y, ids, types, positions, 3, &p);
        for (int r = 0; r < 3; r++)
            for (int i = 0; i < D; i++) {
                const real two = p.token[ids[r] * D + i] + p.type[types[r] * D + i];
                CHECK(y[r * D + i] == two + p.position[positions[r] * D + i]);
            }
        fence_free();
    }
}

TEST(positions_begin_anew_in_each_sequence)
{
    const int64_t offsets[] = { 0, 3, 3, 5 };
    const int32_t want[] = { 2, 3, 4, 2, 3 };
    int32_t got[5];
    qkv_positions(got, offsets, 3, 2);
    CHECK_BITS(got, want, sizeof want);
}

TEST(sines_are_those_of_the_paper_in_both_orders)
{
    real sides[7 * 5], halves[7 * 5];
    qkv_position_sinusoid(sides, 7, 5, true);
    qkv_position_sinusoid(halves, 7, 5, false);
    for (int p = 0; p < 7; p++)
        for (int i = 0; i < 3; i++) {
            const double angle = p / pow(10000, 2.0 * i / 5);
            CHECK_NEAR((double)sides[p * 5 + 2 * i], sin(angle), 1e-7);
            CHECK(halves[p * 5 + i] == sides[p * 5 + 2 * i]);
            if (i == 2) continue; // an odd width ends with a sine
            CHECK_NEAR((double)sides[p * 5 + 2 * i + 1], cos(angle), 1e-7);
            CHECK(halves[p * 5 + 3 + i] == sides[p * 5 + 2 * i + 1]);
        }
}

#ifndef QKV_DOUBLE
#define FLOAT_CASES                                                                                \
    CASE(heads_with_packed_weights_equal_the_public_layer),                                        \
        CASE(the_public_linear_and_norm_take_any_size_and_refuse_none_that_fits),
#else
#define FLOAT_CASES
#endif
CHECK_MAIN(CASE(three_parts_in_one_pass_equal_three_products),
           CASE(weights_read_once_and_turned_weights_give_the_bits_of_packed_ones),
           CASE(rows_and_threads_change_no_bit),
           CASE(feed_forward_equals_its_pieces_in_place_and_with_a_tape),
           FLOAT_CASES CASE(failed_memory_is_said_and_nothing_leaks),
           CASE(an_embedding_is_the_sum_of_its_rows), CASE(positions_begin_anew_in_each_sequence),
           CASE(sines_are_those_of_the_paper_in_both_orders))
