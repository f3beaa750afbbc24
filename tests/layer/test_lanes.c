// SPDX-License-Identifier: MIT
// test_lanes.c: tests feed-forward networks and heads in every precision: the blocks of rows, the
// number of threads, and whether the caller keeps activations change no bit.
#include "layer/layer_internal.h"
#include "check.h"

enum { D = 24, M = 40, H = 4, G = 2, E = 6, R = 2 * 9 * QKV_LANE_ROWS + 37 };
static const int counts[] = { 1, 2, 3, 8, 9 }; // fewer than, equal to and more than QKV_LANES

static real *numbers(int64_t n)
{
    real *p = fenced((size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++) p[i] = (real)check_gauss();
    return p;
}
static void *bytes_of(size_t n) // returns 64-byte aligned memory that ends at a guard page
{
    return fenced(qkv_round_up(n, 64));
}
static struct qkv_linear linear(qkv_precision p, int64_t K, int64_t N)
{
    struct qkv_linear l = {
        .K = K, .precision = p, .parts = 1, .part = { { N, numbers(N * K), numbers(N), false } }
    };
    CHECK_EQ(qkv_linear_pack(&l), QKV_OK);
    return l;
}

struct seen {
    int64_t R;
    unsigned char rows[R];
    bool overlap[QKV_LANES];
};
static void mark(void *ctx, int64_t r, int64_t rows, int lane)
{
    struct seen *s = ctx;
    CHECK(lane >= 0 && lane < QKV_LANES && rows > 0);
    CHECK(rows <= (lane ? QKV_LANE_ROWS : QKV_LANES * QKV_LANE_ROWS));
    CHECK(!s->overlap[lane]);
    s->overlap[lane] = true;
    for (int64_t i = r; i < r + rows; i++) s->rows[i]++;
    s->overlap[lane] = false;
}
TEST(every_row_is_in_one_block_and_a_lane_has_one_at_a_time)
{
    static const int64_t sizes[] = { 0, 1, 127, 128, 129, 255, 256, 512, 1024, 1500, R };
    EACH(threads, counts) EACH(n, sizes)
    {
        static struct seen s;
        memset(&s, 0, sizeof s);
        s.R = *n;
        CHECK_EQ(qkv_threads_set(*threads), QKV_OK);
        qkv_lanes(*n, mark, &s);
        for (int64_t i = 0; i < *n; i++) CHECK_EQ(s.rows[i], 1);
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

#define EACH_PRECISION(p)                                                                          \
    for (qkv_precision p = QKV_PRECISION_F32; p <= QKV_PRECISION_INT8; p++)                        \
        if (qkv_precision_runs(p))

TEST(a_row_of_the_feed_forward_has_the_bits_it_has_alone)
{
    EACH_PRECISION(p)
    {
        struct qkv_mlp m = { .up = linear(p, D, M), .down = linear(p, M, D), .act = QKV_ACT_GELU };
        const struct qkv_norm norm = {
            .D = D, .w = numbers(D), .b = numbers(D), .eps = (real)1e-5
        };
        const real *x = numbers(R * D), *residual = numbers(R * D);
        real *want = numbers(R * D), *got = numbers(R * D);
        void *one = bytes_of(qkv_mlp_scratch(&m, 1)), *all = bytes_of(qkv_mlp_scratch(&m, R));
        for (int64_t r = 0; r < R; r++)
            qkv_mlp_forward(&(struct qkv_sublayer_rows){ .x = x + r * D,
                                                         .y = want + r * D,
                                                         .residual = residual + r * D,
                                                         .norm = &norm },
                            NULL, 1, &m, one);
        EACH(threads, counts)
        {
            CHECK_EQ(qkv_threads_set(*threads), QKV_OK);
            memset(got, 0, (size_t)(R * D) * sizeof *got);
            qkv_mlp_forward(
                &(struct qkv_sublayer_rows){
                    .x = x, .y = got, .residual = residual, .norm = &norm },
                NULL, R, &m, all);
            CHECK_BITS(got, want, (size_t)(R * D) * sizeof *got);
        }
        qkv_linear_free(&m.up);
        qkv_linear_free(&m.down);
        fence_free();
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

// q, k, v and heads that the caller keeps equal the arrays that attention read and wrote, converted
// to real.
TEST(observed_heads_have_the_bits_of_heads_that_are_not)
{
    static const int64_t offsets[] = { 0, 1, 300, 301, R - 20, R };
    EACH_PRECISION(p)
    {
        const qkv_precision inner = qkv_precision_attention(p);
        struct qkv_heads m = { .H = H,
                               .G = G,
                               .E = E,
                               .F = E,
                               .in = { .K = D, .precision = p, .parts = 3 },
                               .out = linear(p, H * E, D) };
        const int64_t N[] = { H * E, G * E, G * E };
        for (int i = 0; i < 3; i++)
            m.in.part[i] =
                (struct qkv_linear_part){ N[i], numbers(N[i] * D), numbers(N[i]), false };
        CHECK_EQ(qkv_linear_pack(&m.in), QKV_OK);
        const struct qkv_attention a = {
            .B = 1, .T = R, .S = R, .sequences = 5, .q_offsets = offsets, .precision = inner
        };
        const struct qkv_norm norm = {
            .D = D, .w = numbers(D), .b = numbers(D), .eps = (real)1e-5
        };
        const real *x = numbers(R * D);
        real *want = numbers(R * D), *got = numbers(R * D);
        const struct qkv_heads_keep keep = { .q = numbers(R * H * E),
                                             .k = numbers(R * G * E),
                                             .v = numbers(R * G * E),
                                             .heads = numbers(R * H * E),
                                             .lse = numbers(H * R) };
        EACH(threads, counts)
        {
            qkv_status status;
            CHECK_EQ(qkv_threads_set(*threads), QKV_OK);
            void *scratch = bytes_of(qkv_heads_scratch(&m, &a, &status));
            CHECK_EQ(status, QKV_OK);
            real *y = *threads == 1 ? want : got;
            CHECK_EQ(
                qkv_heads_forward(
                    &(struct qkv_sublayer_rows){ .x = x, .y = y, .residual = x, .norm = &norm },
                    NULL, NULL, &m, &a, scratch),
                QKV_OK);
            CHECK_BITS(y, want, (size_t)(R * D) * sizeof *y);
            CHECK_EQ(
                qkv_heads_forward(
                    &(struct qkv_sublayer_rows){ .x = x, .y = got, .residual = x, .norm = &norm },
                    &keep, NULL, &m, &a, scratch),
                QKV_OK);
            CHECK_BITS(got, want, (size_t)(R * D) * sizeof *y);
            for (int64_t i = 0; i < R * H * E; i++) {
                const float q = (float)keep.q[i], o = (float)keep.heads[i];
                if (inner == QKV_PRECISION_BF16)
                    CHECK(q == qkv_bf16_to_f32(qkv_f32_to_bf16(q)) &&
                          o == qkv_bf16_to_f32(qkv_f32_to_bf16(o)));
                if (inner == QKV_PRECISION_F16)
                    CHECK(q == qkv_f16_to_f32(qkv_f32_to_f16(q)) &&
                          o == qkv_f16_to_f32(qkv_f32_to_f16(o)));
            }
        }
        qkv_linear_free(&m.in);
        qkv_linear_free(&m.out);
        fence_free();
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

CHECK_MAIN(CASE(every_row_is_in_one_block_and_a_lane_has_one_at_a_time),
           CASE(a_row_of_the_feed_forward_has_the_bits_it_has_alone),
           CASE(observed_heads_have_the_bits_of_heads_that_are_not))
