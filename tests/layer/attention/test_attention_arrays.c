// SPDX-License-Identifier: MIT
// test_attention_arrays.c: tests the addresses of the arrays of a call: overlapping, adjacent or
// misaligned arrays are refused or give the right result, in every precision.
#include "check.h"
#include <qkv/attention.h>
#include <qkv/tensor.h>
#include <stdlib.h>

enum { T = 9, H = 2, E = 8, ROWS = T * H, COUNT = ROWS * E };
enum { OUT, LSE, WEIGHTS, Q, K, V, SCRATCH, BIAS, MASK, SINKS, ARRAYS };

// One call: every array in one block, at its own offset.
struct call {
    struct qkv_attention a;
    size_t bytes[ARRAYS];
    void *at[ARRAYS];
    char *block;
    size_t size;
};

static size_t size_of(qkv_precision p)
{
    return p == QKV_PRECISION_BF16 || p == QKV_PRECISION_F16 ? 2 : 4;
}

static void put(void *x, int64_t i, qkv_precision p, float value)
{
    if (p == QKV_PRECISION_BF16)
        ((uint16_t *)x)[i] = qkv_f32_to_bf16(value);
    else if (p == QKV_PRECISION_F16)
        ((uint16_t *)x)[i] = qkv_f32_to_f16(value);
    else
        ((float *)x)[i] = value;
}

static void fill(void *x, int64_t n, qkv_precision p)
{
    for (int64_t i = 0; i < n; i++) put(x, i, p, (float)check_gauss());
}

static struct call call_new(qkv_precision p)
{
    struct call c = { .a = { .B = 1, .T = T, .S = T, .H = H, .E = E, .precision = p } };
    const size_t one = size_of(p);
    const size_t scratch = qkv_attention_plan(&c.a).scratch;
    const size_t bytes[ARRAYS] = {
        [OUT] = COUNT * one, [LSE] = ROWS * 4,  [WEIGHTS] = ROWS * T * 4, [Q] = COUNT * one,
        [K] = COUNT * one,   [V] = COUNT * one, [SCRATCH] = scratch,      [BIAS] = T * T * 4,
        [MASK] = T * T,      [SINKS] = H * 4
    };
    memcpy(c.bytes, bytes, sizeof bytes);
    for (int i = 0; i < ARRAYS; i++) c.size += (bytes[i] + 127) / 64 * 64;
    CHECK(!posix_memalign((void **)&c.block, 64, c.size));
    memset(c.block, 0, c.size);
    size_t at = 0;
    for (int i = 0; i < ARRAYS; i++) {
        c.at[i] = c.block + at;
        at += (bytes[i] + 127) / 64 * 64;
    }
    for (int i = Q; i <= V; i++) fill(c.at[i], COUNT, p);
    fill(c.at[BIAS], T * T, QKV_PRECISION_F32);
    fill(c.at[SINKS], H, QKV_PRECISION_F32);
    memset(c.at[MASK], 1, T * T);
    return c;
}

static qkv_status call_run(struct call *c)
{
    c->a.bias.at = c->at[BIAS];
    c->a.bias.t = T;
    c->a.mask.at = c->at[MASK];
    c->a.mask.t = T;
    c->a.sinks = c->at[SINKS];
    return qkv_attention_forward(c->at[OUT], c->at[LSE], c->at[WEIGHTS], c->at[Q], c->at[K],
                                 c->at[V], &c->a, c->at[SCRATCH]);
}

#define EACH_PRECISION(p)                                                                          \
    for (qkv_precision p = QKV_PRECISION_F32; qkv_precision_name(p); p = (qkv_precision)(p + 1))

TEST(what_is_written_lies_on_nothing_else)
{
    EACH_PRECISION(p)
    for (int i = OUT; i < ARRAYS; i++)
        for (int j = OUT; j < ARRAYS; j++) {
            const bool writes = i <= WEIGHTS || i == SCRATCH || j <= WEIGHTS || j == SCRATCH;
            // scratch is aligned; the other arrays are moved
            if (i == j || !writes || j == SCRATCH) continue;
            struct call c = call_new(p);
            char *const before = malloc(c.size);
            // The first number of j overlaps the last number of i: the smallest possible overlap.
            c.at[j] = (char *)c.at[i] + c.bytes[i] - 4;
            memcpy(before, c.block, c.size);
            CHECK_EQ(call_run(&c), QKV_ERR_USAGE);
            CHECK_BITS(before, c.block, c.size);
            free(before);
            free(c.block);
        }
}

TEST(arrays_may_touch)
{
    EACH_PRECISION(p)
    {
        struct call c = call_new(p), d = call_new(p);
        fill(c.at[Q], COUNT, p);
        memcpy(d.block, c.block, c.size);
        CHECK_EQ(call_run(&c), QKV_OK);
        // v, out and lse are adjacent, without a byte between them, in a block of their own.
        char *const block = malloc(d.bytes[V] + d.bytes[OUT] + d.bytes[LSE]);
        memcpy(block, d.at[V], d.bytes[V]);
        d.at[V] = block;
        d.at[OUT] = block + d.bytes[V];
        d.at[LSE] = block + d.bytes[V] + d.bytes[OUT];
        CHECK_EQ(call_run(&d), QKV_OK);
        CHECK_BITS(c.at[OUT], d.at[OUT], c.bytes[OUT]);
        CHECK_BITS(c.at[LSE], d.at[LSE], c.bytes[LSE]);
        free(block);
        free(c.block);
        free(d.block);
    }
}

TEST(q_k_v_and_out_may_lie_in_each_others_gaps)
{
    EACH_PRECISION(p)
    {
        struct call c = call_new(p), d = call_new(p);
        memcpy(d.block, c.block, c.size);
        const int64_t row = H * E, wide = 4 * row; // a token's row: its q, k, v and out
        const size_t one = size_of(p);
        char *const block = calloc(T, (size_t)wide * one);
        for (int i = 0; i < 3; i++)
            for (int64_t t = 0; t < T; t++)
                memcpy(block + (size_t)(t * wide + i * row) * one,
                       (char *)c.at[Q + i] + (size_t)(t * row) * one, (size_t)row * one);
        const struct qkv_strides s = { T * wide, wide, E };
        d.a.q_strides = d.a.k_strides = d.a.v_strides = d.a.out_strides = s;
        for (int i = 0; i < 3; i++) d.at[Q + i] = block + (size_t)(i * row) * one;
        d.at[OUT] = block + (size_t)(3 * row) * one;
        CHECK_EQ(call_run(&c), QKV_OK);
        CHECK_EQ(call_run(&d), QKV_OK);
        for (int64_t t = 0; t < T; t++)
            CHECK_BITS((char *)c.at[OUT] + (size_t)(t * row) * one,
                       (char *)d.at[OUT] + (size_t)(t * wide) * one, (size_t)row * one);
        free(block);
        free(c.block);
        free(d.block);
    }
}

TEST(an_address_that_the_type_may_not_have_is_refused)
{
    EACH_PRECISION(p)
    for (int i = OUT; i < ARRAYS; i++) {
        if (i == MASK) continue; // skipped: the mask consists of bytes, which are always aligned
        const bool is_wide = i == LSE || i == WEIGHTS || i == BIAS || i == SINKS;
        const size_t one = i == SCRATCH ? 64 : is_wide ? 4 : size_of(p);
        for (size_t off = 1; off <= one; off++) {
            struct call c = call_new(p);
            c.at[i] = (char *)c.at[i] + off;
            // An offset of `one` is aligned again: 64 bytes follow each array.
            CHECK_EQ(call_run(&c), off < one ? QKV_ERR_USAGE : QKV_OK);
            free(c.block);
        }
    }
}

TEST(halves_at_any_even_address_give_the_same_bits)
{
    EACH_PRECISION(p)
    {
        struct call c = call_new(p);
        CHECK_EQ(call_run(&c), QKV_OK);
        for (size_t off = size_of(p); off < 64; off += size_of(p)) {
            struct call d = call_new(p);
            memcpy(d.block, c.block, c.size);
            for (int i = OUT; i <= V; i++) {
                const size_t by = i == LSE || i == WEIGHTS ? off / 4 * 4 : off;
                memmove((char *)d.at[i] + by, d.at[i], d.bytes[i]);
                d.at[i] = (char *)d.at[i] + by;
            }
            memset(d.at[OUT], 0xff, d.bytes[OUT]);
            CHECK_EQ(call_run(&d), QKV_OK);
            CHECK_BITS(c.at[OUT], d.at[OUT], c.bytes[OUT]);
            CHECK_BITS(c.at[LSE], d.at[LSE], c.bytes[LSE]);
            free(d.block);
        }
        free(c.block);
    }
}

TEST(rows_of_out_that_meet_are_refused_with_the_reason)
{
    // The same address for all tokens; for all heads; heads that overlap the next token; ...
    static const struct qkv_strides bad[] = {
        { COUNT, 0, E },  { COUNT, H * E, 0 },     { COUNT, E, E },
        { COUNT, -E, E }, { COUNT, H * E, E - 1 }, { COUNT, INT64_MAX / 64, INT64_MAX / 64 }
    };
    EACH_PRECISION(p) EACH(s, bad)
    {
        struct call c = call_new(p);
        c.a.out_strides = *s;
        CHECK_EQ(call_run(&c), QKV_ERR_USAGE);
        const struct qkv_attention_plan plan = qkv_attention_plan(&c.a);
        CHECK_EQ(plan.status, QKV_ERR_USAGE);
        CHECK(strstr(plan.reason, "strides"));
        free(c.block);
    }
}

TEST(strides_that_run_backwards_or_stand_still_are_right)
{
    EACH_PRECISION(p)
    {
        struct call c = call_new(p), d = call_new(p);
        const size_t one = size_of(p);
        const int64_t row = H * E;
        // Every key is a copy of the first one, compared with a stride of 0. Queries run from the
        // last to the first.
        for (int64_t t = 1; t < T; t++)
            memcpy((char *)c.at[K] + (size_t)(t * row) * one, c.at[K], (size_t)row * one);
        memcpy(d.block, c.block, c.size);
        d.a.k_strides = (struct qkv_strides){ COUNT, 0, E };
        d.a.q_strides = (struct qkv_strides){ COUNT, -row, E };
        d.a.out_strides = (struct qkv_strides){ COUNT, -row, E };
        for (int64_t t = 0; t < T; t++)
            memcpy((char *)d.at[Q] + (size_t)((T - 1 - t) * row) * one,
                   (char *)c.at[Q] + (size_t)(t * row) * one, (size_t)row * one);
        d.at[Q] = (char *)d.at[Q] + (size_t)((T - 1) * row) * one;
        char *const out = d.at[OUT];
        d.at[OUT] = out + (size_t)((T - 1) * row) * one;
        CHECK_EQ(call_run(&c), QKV_OK);
        CHECK_EQ(call_run(&d), QKV_OK);
        for (int64_t t = 0; t < T; t++)
            CHECK_BITS(out + (size_t)((T - 1 - t) * row) * one,
                       (char *)c.at[OUT] + (size_t)(t * row) * one, (size_t)row * one);
        free(c.block);
        free(d.block);
    }
}

CHECK_MAIN(CASE(what_is_written_lies_on_nothing_else), CASE(arrays_may_touch),
           CASE(q_k_v_and_out_may_lie_in_each_others_gaps),
           CASE(an_address_that_the_type_may_not_have_is_refused),
           CASE(halves_at_any_even_address_give_the_same_bits),
           CASE(rows_of_out_that_meet_are_refused_with_the_reason),
           CASE(strides_that_run_backwards_or_stand_still_are_right))
