// SPDX-License-Identifier: MIT
// test_baselines.c: compares convolution, recurrence, block-sparse attention and windows with their
// plain formulas in double, and with exact attention where they must agree.
#include "baseline_case.h"

// ---- convolution -------------------------------------------------------------------------------
static void convolve(float *y, const float *x, const struct qkv_convolution *c)
{
    void *scratch = workspace(qkv_convolution_plan(c));
    CHECK_EQ(qkv_convolution_forward(y, x, c, scratch), QKV_OK);
    qkv_free(scratch);
}

TEST(a_convolution_is_its_sum_also_at_the_ends_and_wider_than_the_text)
{
    static const int64_t widths[] = { 1, 2, 3, 5, 8, 30 };
    EACH_ISA(k) EACH(width, widths) for (int causal = 0; causal < 2; causal++)
    {
        struct qkv_convolution c = {
            .B = 2, .T = 11, .D_in = 5, .D_out = 7, .width = *width, .causal = causal
        };
        const float *x = numbers(c.B * c.T * c.D_in, 1);
        const float *w = c.w = numbers(c.D_out * c.width * c.D_in, 1);
        const float *b = c.b = numbers(c.D_out, 1);
        float *y = fenced_random(c.B * c.T * c.D_out);
        const int64_t left = causal ? c.width - 1 : (c.width - 1) / 2;
        convolve(y, x, &c);
        for (int64_t i = 0; i < c.B * c.T * c.D_out; i++) {
            const int64_t n = i % c.D_out, t = i / c.D_out % c.T, item = i / c.D_out / c.T;
            double sum = b[n];
            for (int64_t j = 0; j < c.width; j++)
                for (int64_t d = 0; d < c.D_in && t + j >= left && t + j - left < c.T; d++)
                    sum += (double)w[(n * c.width + j) * c.D_in + d] *
                           (double)x[(item * c.T + t + j - left) * c.D_in + d];
            // 16 is larger than any product of two normal numbers here, and than any sum of the at
            // most 150 products
            CHECK_NEAR(y[i], sum, (double)(c.width * c.D_in + 2) * 16 * unit);
        }
        fence_free();
    }
}

// ---- recurrence --------------------------------------------------------------------------------
static void recur(float *h, const float *x, const float *first, const struct qkv_recurrence *r)
{
    void *scratch = workspace(qkv_recurrence_plan(r));
    CHECK_EQ(qkv_recurrence_forward(h, x, first, r, scratch), QKV_OK);
    qkv_free(scratch);
}

static double row_product(const float *w, const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)w[i] * x[i];
    return sum;
}

static double gate(double x)
{
    return 1 / (1 + exp(-x));
}

// Runs one step in double: replaces state[D] by the next state.
static void step(double *state, const double *x, const struct qkv_recurrence *r)
{
    double next[32];
    const int64_t D = r->D, K = r->D_in;
    for (int64_t d = 0; d < D; d++) {
        double in[3] = { 0 }, hidden[3] = { 0 };
        for (int g = 0; g < (r->cell == QKV_CELL_GRU ? 3 : 1); g++) {
            const int64_t n = g * D + d;
            in[g] = row_product(r->w_i + n * K, x, K) + (double)r->b_i[n];
            hidden[g] = row_product(r->w_h + n * D, state, D) + (double)r->b_h[n];
        }
        const double reset = gate(in[0] + hidden[0]), keep = gate(in[1] + hidden[1]);
        next[d] = r->cell == QKV_CELL_GRU
                      ? (1 - keep) * tanh(in[2] + reset * hidden[2]) + keep * state[d]
                      : tanh(in[0] + hidden[0]);
    }
    memcpy(state, next, (size_t)D * sizeof *state);
}

TEST(a_recurrence_is_its_steps_with_and_without_a_first_state)
{
    EACH_ISA(k) for (int gru = 0; gru < 2; gru++) for (int begun = 0; begun < 2; begun++)
    {
        struct qkv_recurrence r = {
            .B = 3, .T = 9, .D_in = 6, .D = 10, .cell = gru ? QKV_CELL_GRU : QKV_CELL_ELMAN
        };
        const int64_t N = (gru ? 3 : 1) * r.D;
        const float *x = numbers(r.B * r.T * r.D_in, 1), *first = numbers(r.B * r.D, 1);
        r.w_i = numbers(N * r.D_in, 0.3);
        r.w_h = numbers(N * r.D, 0.2);
        r.b_i = numbers(N, 0.3);
        r.b_h = numbers(N, 0.3);
        float *h = fenced_random(r.B * r.T * r.D);
        recur(h, x, begun ? first : NULL, &r);
        for (int64_t b = 0; b < r.B; b++) {
            double state[32] = { 0 }, in[32];
            for (int64_t d = 0; d < r.D && begun; d++) state[d] = first[b * r.D + d];
            for (int64_t t = 0; t < r.T; t++) {
                for (int64_t d = 0; d < r.D_in; d++) in[d] = x[(b * r.T + t) * r.D_in + d];
                step(state, in, &r);
                // A step has 16 products and a tanh; ten weights of .2 amplify the error of the
                // previous step by less than 2.5, so 2.5^9 exceeds the accumulated error of nine
                // steps.
                for (int64_t d = 0; d < r.D; d++)
                    CHECK_NEAR(h[(b * r.T + t) * r.D + d], state[d], 20 * pow(2.5, 9) * unit);
            }
        }
        fence_free();
    }
}

// ---- block-sparse ------------------------------------------------------------------------------
static struct qkv_block_sparse pattern(const struct problem *p, bool causal, int64_t block,
                                       int64_t window, int64_t global, int64_t random)
{
    return (struct qkv_block_sparse){ .B = p->B,
                                      .T = p->T,
                                      .H = p->H,
                                      .G = p->G,
                                      .E = p->E,
                                      .F = p->F,
                                      .causal = causal,
                                      .block = block,
                                      .window = window,
                                      .global = global,
                                      .random = random,
                                      .seed = 3 };
}

static void sparse(struct problem *p, float *lse, const struct qkv_block_sparse *s)
{
    void *scratch = workspace(qkv_block_sparse_plan(s));
    CHECK_EQ(qkv_block_sparse_forward(p->out, lse, p->q, p->k, p->v, s, scratch), QKV_OK);
    qkv_free(scratch);
}

static void check_pattern(struct problem *p, const struct qkv_block_sparse *s)
{
    int64_t list[64];
    double weight[512], want[64];
    float *lse = fenced_random(p->B * p->H * p->T);
    sparse(p, lse, s);
    for (int64_t i = 0; i < p->B * p->H * p->T; i++) {
        const int64_t t = i % p->T, h = i / p->T % p->H, b = i / p->T / p->H;
        const int64_t n = qkv_block_sparse_row(list, s, h / (p->H / p->G), t / s->block);
        double sum = 0;
        for (int64_t j = 0; j < p->S; j++) weight[j] = 0;
        for (int64_t j = 0; j < n; j++)
            for (int64_t key = list[j] * s->block; key < (list[j] + 1) * s->block; key++)
                if (key < p->S && (!s->causal || key <= t))
                    sum += weight[key] = exp(dot(query_at(p, b, t, h), key_at(p, b, key, h), p->E) /
                                             sqrt((double)p->E));
        weigh(want, p, b, h, weight);
        CHECK_NEAR(lse[i], log(sum), softmax_error(p->E, p->S));
        for (int64_t f = 0; f < p->F; f++)
            CHECK_NEAR(p->out[((b * p->T + t) * p->H + h) * p->F + f], want[f],
                       softmax_error(p->E, p->S));
    }
}

TEST(block_sparse_is_softmax_over_its_pattern)
{
    EACH_ISA(k) for (int causal = 0; causal < 2; causal++)
    {
        struct problem p = make(2, 150, 150, 4, 2, 20, 12);
        const struct qkv_block_sparse some[] = { pattern(&p, causal, 16, 1, 1, 2),
                                                 pattern(&p, causal, 7, 0, 0, 0),
                                                 pattern(&p, causal, 33, 0, 2, 1),
                                                 pattern(&p, causal, 5, 2, 3, 9) };
        for (int i = 0; i < 4; i++) check_pattern(&p, &some[i]);
        fence_free();
    }
}

TEST(block_sparse_with_every_block_is_exact_attention)
{
    EACH_ISA(k) for (int causal = 0; causal < 2; causal++)
    {
        struct problem p = make(1, 300, 300, 2, 1, 32, 32);
        float *want = fenced_random(p.T * p.H * p.F);
        const struct qkv_block_sparse s = pattern(&p, causal, 64, 5, 0, 0);
        exact(want, &p, causal);
        sparse(&p, NULL, &s);
        // twice, because both results differ from the formula by at most this error
        for (int64_t i = 0; i < p.T * p.H * p.F; i++)
            CHECK_NEAR(p.out[i], want[i], 2 * softmax_error(p.E, p.S));
        fence_free();
    }
}

TEST(patterns_are_ascending_hold_what_they_must_and_differ_by_head)
{
    struct problem p = make(1, 640, 640, 4, 4, 1, 1);
    const struct qkv_block_sparse s = pattern(&p, false, 16, 1, 2, 3);
    int64_t list[40], other[40], differ = 0;
    for (int64_t i = 0; i < 40; i++) {
        const int64_t n = qkv_block_sparse_row(list, &s, 0, i);
        for (int64_t j = 1; j < n; j++) CHECK(list[j] > list[j - 1]);
        if (i < 2) {
            CHECK_EQ(n, 40);
            continue;
        }
        // for i = 2 the preceding block is global, so it counts only once
        const int64_t near = 2 + (i > 2) + 1 + (i < 39);
        CHECK_EQ(n, near + 3);
        CHECK(list[0] == 0 && list[1] == 1 && list[n - 1] < 40);
        CHECK_EQ(qkv_block_sparse_row(other, &s, 1, i), n);
        differ += memcmp(list, other, (size_t)n * sizeof *list) != 0;
    }
    CHECK(differ > 30);
    CHECK_EQ(qkv_block_sparse_row(list, &s, 0, 40), 0);
    CHECK_EQ(qkv_block_sparse_row(list, &s, 4, 0), 0);
    CHECK_EQ(qkv_block_sparse_row(NULL, &s, 0, 0), 0);
    fence_free();
}

// ---- windowed ----------------------------------------------------------------------------------
TEST(a_window_as_wide_as_the_text_is_exact_attention_to_the_bit)
{
    struct problem p = make(1, 200, 200, 2, 2, 16, 16);
    float *want = fenced_random(p.T * p.H * p.F);
    struct qkv_attention a = { .B = 1, .T = 200, .S = 200, .H = 2, .E = 16 };
    a.window.on = true;
    a.window.left = a.window.right = 200;
    void *scratch = qkv_alloc(qkv_attention_plan(&a).scratch, 1);
    CHECK_EQ(qkv_attention_forward(p.out, NULL, NULL, p.q, p.k, p.v, &a, scratch), QKV_OK);
    exact(want, &p, false);
    CHECK_BITS(p.out, want, (size_t)(p.T * p.H * p.F) * sizeof *want);
    qkv_free(scratch);
    fence_free();
}

CHECK_MAIN(CASE(a_convolution_is_its_sum_also_at_the_ends_and_wider_than_the_text),
           CASE(a_recurrence_is_its_steps_with_and_without_a_first_state),
           CASE(block_sparse_is_softmax_over_its_pattern),
           CASE(block_sparse_with_every_block_is_exact_attention),
           CASE(patterns_are_ascending_hold_what_they_must_and_differ_by_head),
           CASE(a_window_as_wide_as_the_text_is_exact_attention_to_the_bit))
