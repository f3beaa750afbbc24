// SPDX-License-Identifier: MIT
// test_packed.c: tests the public handle of packed linear layers: bit-identical to the kernel, for
// any types, strides and threads; every failed allocation is handled.
#include "base/faults.h"
#include "layer/layer.h"

#ifdef QKV_DOUBLE
int main(void)
{
    puts("skipped: this build computes in double, the handle is of floats");
    return 77;
}
#else
enum { R = 150, K = 70, N = 131 };
static const qkv_precision precisions[] = { QKV_PRECISION_F32,      QKV_PRECISION_F32_STRICT,
                                            QKV_PRECISION_F32_FAST, QKV_PRECISION_BF16,
                                            QKV_PRECISION_F16,      QKV_PRECISION_INT8 };

TEST(a_handle_gives_what_the_kernel_gives)
{
    EACH_ISA(k) EACH(how, precisions)
    {
        const float *x = fenced_random(R * K), *w = fenced_random(N * K), *b = fenced_random(N);
        float *y = fenced(R * N * sizeof *y), *z = fenced(R * N * sizeof *z);
        const struct qkv_linear_kernel *kernel = k->linear[*how];
        const size_t bytes = (size_t)qkv_ceil_div(N, kernel->panel) * kernel->panel_bytes(K);
        void *panels = fenced(bytes);
        kernel->pack(panels, w, QKV_REAL, K, N, K, 1);
        const struct qkv_linear_tail tail = { .b = b, .scale = 1 };
        kernel->rows(z, N, x, K, panels, R, K, N, &tail);
        qkv_packed *p;
        CHECK_EQ(qkv_packed_open(&p, w, b, K, N, *how), QKV_OK);
        const struct qkv_packed_info info = qkv_packed_info(p);
        CHECK(info.K == K && info.N == N && info.precision == *how && info.bytes == bytes);
        CHECK_TEXT(info.isa, kernel->isa);
        CHECK_TEXT(info.arithmetic, kernel->arithmetic);
        for (int threads = 1; threads <= 4; threads++) {
            CHECK_EQ(qkv_threads_set(threads), QKV_OK);
            memset(y, 0xff, R * N * sizeof *y);
            CHECK_EQ(qkv_packed_linear(y, x, R, p, NULL), QKV_OK);
            CHECK_BITS(y, z, R * N * sizeof *y);
        }
        CHECK_EQ(qkv_threads_set(0), QKV_OK);
        qkv_packed_close(p);
        fence_free();
    }
}

// One token, a few tokens, a prompt: the work is divided differently for each.
TEST(a_row_has_the_same_bits_for_any_number_of_rows_and_threads)
{
    // WIDE columns are more than three tasks with few rows
    enum { DEEP = 700, WIDE = 905, MOST = 9 };
    const int64_t few[] = { 1, 2, 4, 5, 8 };
    EACH_ISA(k) EACH(how, precisions)
    {
        const float *x = fenced_random(MOST * DEEP), *w = fenced_random(WIDE * DEEP);
        float *y = fenced(MOST * WIDE * sizeof *y), *z = fenced(MOST * WIDE * sizeof *z);
        qkv_packed *p;
        CHECK_EQ(qkv_packed_open(&p, w, NULL, DEEP, WIDE, *how), QKV_OK);
        CHECK_EQ(qkv_packed_linear(z, x, MOST, p, NULL), QKV_OK);
        for (int threads = 1; threads <= 3; threads += 2) {
            CHECK_EQ(qkv_threads_set(threads), QKV_OK);
            EACH(n, few)
            {
                memset(y, 0xff, MOST * WIDE * sizeof *y);
                CHECK_EQ(qkv_packed_linear(y, x, *n, p, NULL), QKV_OK);
                CHECK_BITS(y, z, (size_t)(*n * WIDE) * sizeof *y);
            }
        }
        CHECK_EQ(qkv_threads_set(0), QKV_OK);
        qkv_packed_close(p);
        fence_free();
    }
}

TEST(pieces_of_any_type_and_order_are_packed_as_floats_are)
{
    static const qkv_dtype types[] = { QKV_F32, QKV_BF16, QKV_F16, QKV_F64 };
    EACH_ISA(k) EACH(how, precisions) EACH(type, types) for (int turned = 0; turned < 2; turned++)
    {
        const size_t size = qkv_dtype_size(*type);
        float *w = fenced(N * K * sizeof *w);
        char *own = fenced(N * K * size);
        for (int n = 0; n < N; n++)
            for (int i = 0; i < K; i++) {
                float *to = &w[n * K + i];
                char *at = own + (size_t)(turned ? i * N + n : n * K + i) * size;
                const uint16_t half = qkv_f32_to_bf16((float)check_gauss());
                *to = qkv_bf16_to_f32(half);
                if (*type == QKV_F16) *to = qkv_f16_to_f32(qkv_f32_to_f16(*to));
                const uint16_t other = *type == QKV_F16 ? qkv_f32_to_f16(*to) : half;
                const double wide = *to;
                memcpy(at, size == 2 ? (const void *)&other : size == 8 ? (void *)&wide : to, size);
            }
        struct qkv_linear a = { .K = K, .precision = *how, .parts = 1, .part = { { N, w, 0, 0 } } };
        CHECK_EQ(qkv_linear_pack(&a), QKV_OK);
        struct qkv_linear b = a;
        const size_t bytes = qkv_linear_pack_bytes(&b);
        b.packed = fenced(bytes);
        memset(b.packed, 0, bytes);
        const int64_t piece = qkv_linear_piece(&b);
        for (int64_t n = 0; n < N; n += piece)
            CHECK(qkv_linear_pack_piece(&b, 0, n, qkv_min64(piece, N - n),
                                        own + (size_t)(n * (turned ? 1 : K)) * size, *type,
                                        turned ? 1 : K, turned ? N : 1));
        enum { FEW = 3 };
        const float *x = fenced_random(FEW * K);
        float *y = fenced(FEW * N * sizeof *y), *z = fenced(FEW * N * sizeof *z);
        qkv_linear_forward((void *[]){ y }, NULL, x, FEW, &a, NULL);
        qkv_linear_forward((void *[]){ z }, NULL, x, FEW, &b, NULL);
        CHECK_BITS(y, z, FEW * N * sizeof *y);
        qkv_linear_free(&a);
        fence_free();
    }
}

TEST(types_strides_activation_and_residual_are_those_of_the_call)
{
    EACH_ISA(k) EACH(how, precisions)
    {
        enum { LDX = K + 5, LDY = N + 7, LDR = N + 2 };
        uint16_t *x = fenced(R * LDX * sizeof *x), *y = fenced(R * LDY * sizeof *y);
        float *wide = fenced(R * K * sizeof *wide), *z = fenced(R * N * sizeof *z);
        const float *w = fenced_random(N * K), *b = fenced_random(N);
        const float *residual = fenced_random(R * LDR);
        for (int i = 0; i < R * LDX; i++) x[i] = qkv_f32_to_bf16((float)check_gauss());
        for (int i = 0; i < R * K; i++) wide[i] = qkv_bf16_to_f32(x[i / K * LDX + i % K]);
        for (int i = 0; i < R * LDY; i++) y[i] = 7;
        qkv_packed *p;
        CHECK_EQ(qkv_packed_open(&p, w, b, K, N, *how), QKV_OK);
        struct qkv_packed_call c = { .scale = 0.5f, .act = QKV_ACT_SILU };
        CHECK_EQ(qkv_packed_linear(z, wide, R, p, &c), QKV_OK);
        c = (struct qkv_packed_call){ .x = QKV_BF16,
                                      .y = QKV_F16,
                                      .x_stride = LDX,
                                      .y_stride = LDY,
                                      .scale = 0.5f,
                                      .act = QKV_ACT_SILU,
                                      .residual = residual,
                                      .residual_stride = LDR };
        CHECK_EQ(qkv_packed_linear(y, x, R, p, &c), QKV_OK);
        for (int r = 0; r < R; r++)
            for (int n = 0; n < LDY; n++)
                CHECK_EQ(y[r * LDY + n],
                         n < N ? qkv_f32_to_f16(z[r * N + n] + residual[r * LDR + n]) : 7);
        qkv_packed_close(p);
        fence_free();
    }
}

TEST(calls_of_any_number_of_rows_are_checked)
{
    for (int64_t rows = 1; rows <= 3; rows++) {
        float *x = fenced_random(3 * K), *w = fenced_random(N * K), *y = fenced(3 * N * sizeof *y);
        qkv_packed *p;
        CHECK_EQ(qkv_packed_open(&p, w, NULL, K, N, QKV_PRECISION_F32), QKV_OK);
        const struct qkv_packed_call narrow_x = { .x_stride = K - 1 }, narrow_y = { .y_stride = 1 },
                                     over_y = { .residual = y + 1 }, in_y = { .residual = y },
                                     odd = { .x = QKV_F16 }, wide = { .x_stride = INT64_MAX / 2 };
        CHECK_EQ(qkv_packed_linear(y, x, rows, p, NULL), QKV_OK);
        CHECK_EQ(qkv_packed_linear(NULL, x, rows, p, NULL), QKV_ERR_USAGE);
        CHECK_EQ(qkv_packed_linear(y, NULL, rows, p, NULL), QKV_ERR_USAGE);
        CHECK_EQ(qkv_packed_linear(x, x, rows, p, NULL), QKV_ERR_USAGE);
        CHECK_EQ(qkv_packed_linear((char *)y + 1, x, rows, p, NULL), QKV_ERR_USAGE);
        CHECK_EQ(qkv_packed_linear(y, (char *)x + 1, rows, p, &odd), QKV_ERR_USAGE);
        CHECK_EQ(qkv_packed_linear(y, x, rows, p, &narrow_x), QKV_ERR_USAGE);
        CHECK_EQ(qkv_packed_linear(y, x, rows, p, &narrow_y), QKV_ERR_USAGE);
        CHECK_EQ(qkv_packed_linear(y, x, rows, p, &over_y), QKV_ERR_USAGE);
        CHECK_EQ(qkv_packed_linear(y, x, rows, p, &in_y), QKV_OK);
        CHECK_EQ(qkv_packed_linear(y, x, rows, p, &wide), QKV_ERR_LIMIT);
        CHECK_EQ(qkv_packed_linear(NULL, NULL, 0, p, NULL), QKV_OK);
        CHECK_EQ(qkv_packed_linear(y, x, -rows, p, NULL), QKV_ERR_USAGE);
        qkv_packed_close(p);
        fence_free();
    }
}

TEST(weights_and_bias_may_go_after_open)
{
    EACH(how, precisions)
    {
        float x[K], y[N], z[N], w[N * K], b[N];
        for (int i = 0; i < K; i++) x[i] = (float)check_gauss();
        for (int i = 0; i < N * K; i++) w[i] = (float)check_gauss();
        for (int i = 0; i < N; i++) b[i] = (float)check_gauss();
        qkv_packed *p;
        CHECK_EQ(qkv_packed_open(&p, w, b, K, N, *how), QKV_OK);
        CHECK_EQ(qkv_packed_linear(y, x, 1, p, NULL), QKV_OK);
        memset(w, 0xff, sizeof w);
        memset(b, 0xff, sizeof b);
        CHECK_EQ(qkv_packed_linear(z, x, 1, p, NULL), QKV_OK);
        CHECK_BITS(y, z, sizeof y);
        qkv_packed_close(p);
    }
}

TEST(nothing_is_a_size_too)
{
    EACH(how, precisions)
    {
        const float b[2] = { 3, -4 }, w[2] = { 1, 2 };
        float y[2] = { 0, 0 };
        qkv_packed *p;
        CHECK_EQ(qkv_packed_open(&p, NULL, b, 0, 2, *how), QKV_OK); // with K = 0, y is the bias
        CHECK_EQ(qkv_packed_linear(y, NULL, 1, p, NULL), QKV_OK);
        CHECK(y[0] == 3 && y[1] == -4);
        qkv_packed_close(p);
        // with N = 0, nothing is computed
        CHECK_EQ(qkv_packed_open(&p, NULL, NULL, 5, 0, *how), QKV_OK);
        CHECK_EQ(qkv_packed_linear(NULL, w, 1, p, NULL), QKV_OK);
        qkv_packed_close(p);
    }
}

static qkv_status flow(void *how, qkv_error *err)
{
    static const float w[N * K] = { 1 }, b[N] = { 2 }, x[K] = { 3 };
    float y[N];
    qkv_packed *p;
    qkv_status status = qkv_packed_open(&p, w, b, K, N, *(qkv_precision *)how);
    if (status && p) return QKV_ERR_INTERNAL;
    if (!status) status = qkv_packed_linear(y, x, 1, p, NULL);
    // adds a message, because the handle's functions have none
    if (status) qkv_fail(err, status, NULL, "no memory");
    qkv_packed_close(p);
    return status;
}
TEST(every_failed_allocation_is_survived)
{
    EACH(how, precisions)
    {
        qkv_precision p = *how;
        CHECK(faults_walk(flow, &p, true) > 0);
    }
}

CHECK_MAIN(CASE(a_handle_gives_what_the_kernel_gives),
           CASE(pieces_of_any_type_and_order_are_packed_as_floats_are),
           CASE(a_row_has_the_same_bits_for_any_number_of_rows_and_threads),
           CASE(types_strides_activation_and_residual_are_those_of_the_call),
           CASE(calls_of_any_number_of_rows_are_checked), CASE(weights_and_bias_may_go_after_open),
           CASE(nothing_is_a_size_too), CASE(every_failed_allocation_is_survived))
#endif
