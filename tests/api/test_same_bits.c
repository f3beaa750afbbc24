// SPDX-License-Identifier: MIT
// test_same_bits.c: checks that every public computation is bit-identical for any number of
// threads, any run and any other batch items, alone or packed: on each instruction set of this
// machine, in each supported precision.
#include "check.h"
#include <qkv/qkv.h>
#include <stdlib.h>

static const int threads[] = { 1, 2, 3, 7, 16 };
enum { RUNS = 5 };

#define EACH_SET                                                                                   \
    for (int isa_ = 0; use_isa(isa_); isa_++)                                                      \
        for (int p_ = 0; qkv_precision_name((qkv_precision)p_); p_++)
static bool use_isa(int n)
{
    const char *name = qkv_isa_supported(n);
    CHECK_EQ(qkv_isa_set(name), QKV_OK); // NULL after the last: the initial instruction set
    CHECK(!name || !strcmp(qkv_isa(), name));
    return name != NULL;
}

static size_t size_of(qkv_precision p)
{
    return p == QKV_PRECISION_BF16 || p == QKV_PRECISION_F16 ? 2 : 4;
}
static void *numbers(int64_t n, size_t size, bool bf16)
{
    void *x = malloc((size_t)n * size);
    for (int64_t i = 0; i < n; i++) {
        const float value = (float)check_gauss();
        if (size == 4)
            ((float *)x)[i] = value;
        else
            ((uint16_t *)x)[i] = bf16 ? qkv_f32_to_bf16(value) : qkv_f32_to_f16(value);
    }
    return x;
}
static void *numbers_of(int64_t n, qkv_precision p)
{
    return numbers(n, size_of(p), p == QKV_PRECISION_BF16);
}

// One attention call with all its arrays; each run computes out and lse again.
static void attend(char *out, float *lse, const char *q, const char *k, const char *v,
                   const struct qkv_attention *a)
{
    const struct qkv_attention_plan plan = qkv_attention_plan(a);
    CHECK_EQ(plan.status, QKV_OK);
    void *scratch = NULL;
    CHECK(!posix_memalign(&scratch, 64, plan.scratch + 64));
    memset(scratch, 0xff, plan.scratch);
    CHECK_EQ(qkv_attention_forward(out, lse, NULL, q, k, v, a, scratch), QKV_OK);
    free(scratch);
}

enum { B = 5, T = 70, H = 4, G = 2, E = 24, F = 40 };

TEST(attention_has_the_same_bits_for_any_threads_neighbours_and_packing)
{
    EACH_SET
    {
        const qkv_precision p = (qkv_precision)p_;
        const size_t one = size_of(p);
        const struct qkv_attention a = { .B = B,
                                         .T = T,
                                         .S = T,
                                         .H = H,
                                         .G = G,
                                         .E = E,
                                         .F = F,
                                         .precision = p,
                                         .causal = true,
                                         .softcap = 3 };
        if (qkv_attention_plan(&a).status == QKV_ERR_UNSUPPORTED) continue;
        check_seed = 5;
        char *q = numbers_of(B * T * H * E, p), *k = numbers_of(B * T * G * E, p),
             *v = numbers_of(B * T * G * F, p);
        const size_t out_bytes = B * T * H * F * one, item = out_bytes / B, lse_n = B * T * H;
        char *out = malloc(out_bytes), *again = malloc(out_bytes);
        float *lse = malloc(lse_n * sizeof *lse), *lse2 = malloc(lse_n * sizeof *lse);
        CHECK_EQ(qkv_threads_set(1), QKV_OK);
        attend(out, lse, q, k, v, &a);
        EACH(n, threads) for (int run = 0; run < RUNS; run++)
        {
            CHECK_EQ(qkv_threads_set(*n), QKV_OK);
            memset(again, 0, out_bytes);
            attend(again, lse2, q, k, v, &a);
            CHECK_BITS(out, again, out_bytes);
            CHECK_BITS(lse, lse2, lse_n * sizeof *lse);
        }
        for (int b = 0; b < B; b++) { // each item alone
            struct qkv_attention alone = a;
            alone.B = 1;
            attend(again, lse2, q + (size_t)b * T * H * E * one, k + (size_t)b * T * G * E * one,
                   v + (size_t)b * T * G * F * one, &alone);
            CHECK_BITS(out + (size_t)b * item, again, item);
            CHECK_BITS(lse + b * T * H, lse2, T * H * sizeof *lse);
        }
        int64_t offsets[B + 1];
        for (int b = 0; b <= B; b++) offsets[b] = (int64_t)b * T;
        struct qkv_attention packed = a;
        packed.B = 1;
        packed.T = packed.S = B * T;
        packed.sequences = B;
        packed.q_offsets = offsets;
        EACH(n, threads)
        {
            CHECK_EQ(qkv_threads_set(*n), QKV_OK);
            attend(again, lse2, q, k, v, &packed);
            CHECK_BITS(out, again, out_bytes);
        }
        free(q), free(k), free(v), free(out), free(again), free(lse), free(lse2);
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

TEST(decoding_from_a_cache_has_the_bits_of_the_operator_for_any_threads)
{
    enum { S = 700, LAST = 3 };
    EACH_SET
    {
        const qkv_precision p = (qkv_precision)p_;
        const size_t one = size_of(p);
        struct qkv_attention a = { .B = 2,
                                   .T = LAST,
                                   .S = S,
                                   .H = H,
                                   .G = G,
                                   .E = E,
                                   .F = F,
                                   .precision = p,
                                   .causal = true,
                                   .diagonal = QKV_BOTTOM_RIGHT };
        if (qkv_attention_plan(&a).status == QKV_ERR_UNSUPPORTED) continue;
        const struct qkv_cache_shape shape = { .B = 2, .G = G, .E = E, .F = F, .precision = p };
        qkv_error err = { 0 };
        check_seed = 6;
        char *q = numbers_of(2 * LAST * H * E, p), *k = numbers_of(2 * S * G * E, p),
             *v = numbers_of(2 * S * G * F, p);
        const size_t bytes = 2 * LAST * H * F * one;
        char *out = malloc(bytes), *again = malloc(bytes);
        float lse[2 * LAST * H];
        CHECK_EQ(qkv_threads_set(1), QKV_OK);
        attend(out, lse, q, k, v, &a);
        qkv_cache *c;
        CHECK_EQ(qkv_cache_new(&c, &shape, &err), QKV_OK);
        CHECK_EQ(qkv_cache_append(c, QKV_CACHE_ALL, k, v, S, NULL, NULL, &err), QKV_OK);
        EACH(n, threads)
        {
            CHECK_EQ(qkv_threads_set(*n), QKV_OK);
            void *scratch = NULL;
            CHECK(!posix_memalign(&scratch, 64, qkv_cache_plan(c, &a).scratch + 64));
            memset(again, 0, bytes);
            CHECK_EQ(qkv_cache_forward(again, NULL, NULL, q, c, &a, scratch), QKV_OK);
            CHECK_BITS(out, again, bytes);
            free(scratch);
        }
        qkv_cache_free(c);
        free(q), free(k), free(v), free(out), free(again);
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

TEST(a_row_of_a_product_has_the_same_bits_alone_and_among_others)
{
    enum { R = 41, K = 395, N = 77 };
    EACH_SET
    {
        const qkv_precision p = (qkv_precision)p_;
        qkv_packed *w = NULL;
        check_seed = 7;
        float *weights = numbers(N * K, 4, false), *b = numbers(N, 4, false),
              *x = numbers(R * K, 4, false), *y = malloc(R * N * sizeof *y),
              *again = malloc(R * N * sizeof *y);
        const qkv_status status = qkv_packed_open(&w, weights, b, K, N, p);
        CHECK(status == QKV_OK || status == QKV_ERR_UNSUPPORTED);
        const struct qkv_packed_call call = { .act = QKV_ACT_GELU };
        CHECK_EQ(qkv_threads_set(1), QKV_OK);
        if (!status) CHECK_EQ(qkv_packed_linear(y, x, R, w, &call), QKV_OK);
        EACH(n, threads)
        {
            CHECK_EQ(qkv_threads_set(*n), QKV_OK);
            for (int64_t rows = 1; !status && rows <= R; rows += rows < 9 ? 1 : 8)
                for (int64_t from = 0; from + rows <= R; from += 13) {
                    CHECK_EQ(qkv_packed_linear(again, x + from * K, rows, w, &call), QKV_OK);
                    CHECK_BITS(y + from * N, again, (size_t)(rows * N) * sizeof *y);
                }
        }
        qkv_packed_close(w);
        free(weights), free(b), free(x), free(y), free(again);
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

TEST(rows_of_norm_and_softmax_have_the_same_bits_alone)
{
    enum { R = 19, D = 131 };
    for (int isa = 0; use_isa(isa); isa++) {
        check_seed = 8;
        float *x = numbers(R * D, 4, false), y[R * D], one[D];
        for (int soft = 0; soft < 2; soft++) EACH(n, threads)
            {
                CHECK_EQ(qkv_threads_set(*n), QKV_OK);
                if (soft)
                    qkv_softmax_rows(y, x, R, D, D, D);
                else
                    qkv_layer_norm(y, x, NULL, NULL, 1e-5f, R, D);
                for (int r = 0; r < R; r++) {
                    if (soft)
                        qkv_softmax_rows(one, x + r * D, 1, D, D, D);
                    else
                        qkv_layer_norm(one, x + r * D, NULL, NULL, 1e-5f, 1, D);
                    CHECK_BITS(y + r * D, one, sizeof one);
                }
            }
        free(x);
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

TEST(the_instruction_set_is_chosen_and_restored)
{
    const char *const begin = qkv_isa();
    for (int i = 0; qkv_isa_supported(i); i++) {
        CHECK_EQ(qkv_isa_set(qkv_isa_supported(i)), QKV_OK);
        CHECK_TEXT(qkv_isa(), qkv_isa_supported(i));
        CHECK_EQ(qkv_isa_set("avx9"), QKV_ERR_USAGE);
        CHECK_EQ(qkv_isa_set(""), QKV_ERR_USAGE);
#if defined(__x86_64__)
        CHECK_EQ(qkv_isa_set("neon"), QKV_ERR_UNSUPPORTED);
#else
        CHECK_EQ(qkv_isa_set("avx2"), QKV_ERR_UNSUPPORTED);
#endif
        CHECK_TEXT(qkv_isa(),
                   qkv_isa_supported(i)); // the refused call must not change the instruction set
    }
    CHECK_EQ(qkv_isa_set(NULL), QKV_OK);
    CHECK_TEXT(qkv_isa(), begin);
}

CHECK_MAIN(CASE(attention_has_the_same_bits_for_any_threads_neighbours_and_packing),
           CASE(decoding_from_a_cache_has_the_bits_of_the_operator_for_any_threads),
           CASE(a_row_of_a_product_has_the_same_bits_alone_and_among_others),
           CASE(rows_of_norm_and_softmax_have_the_same_bits_alone),
           CASE(the_instruction_set_is_chosen_and_restored))
