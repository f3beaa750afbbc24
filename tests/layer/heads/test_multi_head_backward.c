// SPDX-License-Identifier: MIT
// test_multi_head_backward.c: compares the gradients of the public multi-head layer, for every
// score function, with PyTorch and with differences (in the build in double), and checks their
// invariants.
#include "layer/differences.h"
#include "layer/layer.h"

// Converts pointers to real for the public structures, which declare float.
#define F(p) ((float *)(void *)(p))

enum { ARRAYS = 14 };
enum { X = 0, C, W_Q, W_K, W_V, W_O, B_Q, B_K, B_V, B_O, W_S, W_AQ, W_AK, W_A };
struct problem {
    struct qkv_multi_head m;
    struct qkv_attention a;
    bool cross;
    real *array[ARRAYS], *dy;
    int64_t size[ARRAYS];
};
struct result {
    real *out, *gradient[ARRAYS];
    struct qkv_multi_head_keep keep;
};

static int64_t groups(const struct problem *p)
{
    return p->m.G ? p->m.G : p->m.H;
}

static int64_t context_width(const struct problem *p)
{
    return p->m.d_kv ? p->m.d_kv : p->m.d_q;
}

static int64_t out_width(const struct problem *p)
{
    return p->m.d_out ? p->m.d_out : p->m.H * p->m.d_v;
}

// Draws arrays in the order of the golden script: x, c, dy, then the weights. projections false:
// without weights.
static void fill(struct problem *p, bool projections)
{
    struct qkv_multi_head *m = &p->m;
    const int64_t rows = p->a.B * p->a.T, keys = p->a.B * p->a.S, G = groups(p);
    const int64_t kv = context_width(p), O = m->H * m->d_v;
    const int64_t sizes[ARRAYS] = { rows * m->d_q,
                                    p->cross ? keys * kv : 0,
                                    m->H * m->d_k * m->d_q,
                                    G * m->d_k * kv,
                                    G * m->d_v * kv,
                                    m->d_out * O,
                                    m->H * m->d_k,
                                    G * m->d_k,
                                    G * m->d_v,
                                    m->d_out,
                                    m->H * m->d_k * m->d_k,
                                    m->H * m->d_a * m->d_k,
                                    m->H * m->d_a * m->d_k,
                                    m->H * m->d_a };
    int64_t count = 0;
    for (int i = 0; i < ARRAYS; i++) {
        if (i == W_Q) p->dy = made(&count, rows * out_width(p), 1);
        p->size[i] = i >= W_Q && i <= B_O && !projections ? 0 : sizes[i];
        const double size = i == X || i == C ? 2 : i == W_A ? 4 : 1;
        p->array[i] = p->size[i] ? made(&count, p->size[i], size) : NULL;
    }
    m->w_q = F(p->array[W_Q]), m->w_k = F(p->array[W_K]), m->w_v = F(p->array[W_V]);
    m->w_o = F(p->array[W_O]), m->b_q = F(p->array[B_Q]), m->b_k = F(p->array[B_K]);
    m->b_v = F(p->array[B_V]), m->b_o = F(p->array[B_O]), m->w_s = F(p->array[W_S]);
    m->w_aq = F(p->array[W_AQ]), m->w_ak = F(p->array[W_AK]), m->w_a = F(p->array[W_A]);
}

static bool has(const struct problem *p, int i)
{
    if (i == W_S) return p->m.score == QKV_SCORE_BILINEAR;
    return (i < W_AQ || p->m.score == QKV_SCORE_ADDITIVE) && p->size[i] > 0;
}

static void forward(const struct problem *p, struct result *y)
{
    const struct qkv_attention_plan plan = qkv_multi_head_plan(&p->m, &p->a);
    CHECK_EQ(plan.status, QKV_OK);
    void *scratch = qkv_alloc(plan.scratch, 1);
    memset(scratch, 0xff, plan.scratch);
    CHECK_EQ(qkv_multi_head_forward(F(y->out), &y->keep, F(p->array[X]),
                                    p->cross ? F(p->array[C]) : NULL, &p->m, &p->a, scratch),
             QKV_OK);
    qkv_free(scratch);
}

static struct result run(const struct problem *p)
{
    const struct qkv_multi_head *m = &p->m;
    const int64_t rows = p->a.B * p->a.T, keys = p->a.B * p->a.S, G = groups(p);
    struct result y = { .out = zeros(rows * out_width(p)),
                        .keep = { .q = F(zeros(rows * m->H * m->d_k)),
                                  .k = F(zeros(keys * G * m->d_k)),
                                  .v = F(zeros(keys * G * m->d_v)),
                                  .heads = F(zeros(rows * m->H * m->d_v)),
                                  .lse = F(zeros(rows * m->H)) } };
    for (int i = 0; i < ARRAYS; i++) y.gradient[i] = has(p, i) ? zeros(p->size[i]) : NULL;
    forward(p, &y);
    real *const *d = y.gradient;
    const struct qkv_multi_head_gradients g = { F(d[W_Q]),
                                                F(d[W_K]),
                                                F(d[W_V]),
                                                F(d[W_O]),
                                                F(d[B_Q]),
                                                F(d[B_K]),
                                                F(d[B_V]),
                                                F(d[B_O]),
                                                F(d[W_S]),
                                                F(d[W_AQ]),
                                                F(d[W_AK]),
                                                F(d[W_A]),
                                                { { NULL }, NULL, NULL, NULL } };
    const struct qkv_attention_plan plan = qkv_multi_head_backward_plan(m, &p->a, &g);
    CHECK_EQ(plan.status, QKV_OK);
    void *scratch = qkv_alloc(plan.scratch, 1);
    // fills scratch with NaN, so that a read before the first write is detected
    memset(scratch, 0xff, plan.scratch);
    CHECK_EQ(qkv_multi_head_backward(F(d[X]), F(d[C]), &g, F(p->dy), &y.keep, F(p->array[X]),
                                     p->cross ? F(p->array[C]) : NULL, m, &p->a, scratch),
             QKV_OK);
    qkv_free(scratch);
    return y;
}

static const enum qkv_score scores[] = { QKV_SCORE_DOT, QKV_SCORE_BILINEAR, QKV_SCORE_ADDITIVE };

TEST(every_score_has_the_gradients_of_pytorch)
{
    static const double *const goldens[] = { golden_multi_head_dot, golden_multi_head_bilinear,
                                             golden_multi_head_additive };
    EACH_ISA(k) EACH(score, scores)
    {
        struct problem p = {
            .m = { .H = 4,
                   .G = 2,
                   .d_q = 6,
                   .d_kv = 3,
                   .d_k = 4,
                   .d_v = 2,
                   .d_out = 5,
                   .d_a = 4,
                   .score = *score },
            .a = { .B = 2, .T = 4, .S = 5, .causal = true, .diagonal = QKV_BOTTOM_RIGHT },
            .cross = true
        };
        fill(&p, true);
        const struct result y = run(&p);
        const double *golden = goldens[*score];
        // Four consecutive products of up to 8 terms, a softmax, and sums over 10 rows have fewer
        // than 4 (8 + 2) + 30 + 10 roundings of numbers up to 8 times the largest result.
        const double units = 8 * 80;
        check_golden(y.out, &golden, 2 * 4 * 5, units);
        for (int i = 0; i < ARRAYS; i++)
            if (has(&p, i)) check_golden(y.gradient[i], &golden, p.size[i], units);
        fence_free();
    }
}

struct value {
    struct problem *p;
    struct result *y;
};
static double value(void *ctx)
{
    const struct value *v = ctx;
    double sum = 0;
    forward(v->p, v->y);
    for (int64_t i = 0; i < v->p->a.B * v->p->a.T * out_width(v->p); i++)
        sum += (double)(v->p->dy[i] * v->y->out[i]);
    return sum;
}

static void check_problem(struct problem *p, bool projections)
{
    fill(p, projections);
    struct result y = run(p);
    for (int i = 0; i < ARRAYS; i++)
        if (has(p, i))
            check_differences(p->array[i], y.gradient[i], p->size[i], value,
                              &(struct value){ p, &y });
    fence_free();
}

TEST(gradients_are_differences_with_every_mask_and_sharing_of_heads)
{
    static const int64_t lengths[] = { 5, 2 }, offsets[] = { 0, 3, 3, 7 };
    static uint8_t mask[4 * 6];
    static float bias[6], slopes[] = { 0.5f, 0.25f, 1, 0.1f };
    for (int i = 0; i < 24; i++) mask[i] = i % 3 != 0;
    for (int i = 0; i < 6; i++) bias[i] = (float)golden_made(i, 2);
    EACH(score, scores) for (int way = 0; way < 6; way++)
    {
        struct problem p = { .m = { .H = 4,
                                    .G = way % 2 ? 2
                                         : way   ? 1
                                                 : 4,
                                    .d_q = 8,
                                    .d_k = 3,
                                    .d_v = 2,
                                    .d_a = 4,
                                    .score = *score },
                             .a = { .B = 2, .T = 4, .S = 6 },
                             .cross = true };
        if (way == 0) p.a.k_lengths = lengths, p.a.alibi = slopes;
        if (way == 1) p.a.mask.at = mask, p.a.mask.t = 6;
        if (way == 2) p.a.bias.at = bias, p.a.softcap = 2;
        if (way == 3) p.a.window.on = true, p.a.window.left = 1, p.a.window.right = 0;
        if (way >= 4) {
            p.cross = false;
            p.a.B = 1;
            p.a.T = p.a.S = 7;
            p.a.causal = true;
        }
        if (way == 5) p.a.sequences = 3, p.a.q_offsets = offsets, p.a.scale = 0.7f;
        check_problem(&p, true);
    }
}

TEST(without_weights_the_input_takes_the_gradients_of_query_key_and_value)
{
    EACH(score, scores) for (int cross = 0; cross < 2; cross++)
    {
        struct problem p = {
            .m = { .H = 2, .d_q = 6, .d_k = 3, .d_v = 3, .d_a = 4, .score = *score },
            .a = { .B = 2, .T = 5, .S = 5 },
            .cross = cross
        };
        check_problem(&p, false);
        fill(&p, false);
        const struct result y = run(&p);
        for (int64_t i = 0; i < p.size[X]; i++) CHECK(isfinite((double)y.gradient[X][i]));
        fence_free();
    }
}

TEST(threads_change_no_bit)
{
    EACH(score, scores)
    {
        struct problem p = {
            .m = { .H = 4,
                   .G = 2,
                   .d_q = 20,
                   .d_k = 9,
                   .d_v = 7,
                   .d_out = 11,
                   .d_a = 13,
                   .score = *score },
            .a = { .B = 1, .T = 70, .S = 300, .causal = true, .diagonal = QKV_BOTTOM_RIGHT },
            .cross = true
        };
        fill(&p, true);
        CHECK_EQ(qkv_threads_set(1), QKV_OK);
        const struct result one = run(&p);
        for (int threads = 2; threads < 5; threads++) {
            CHECK_EQ(qkv_threads_set(threads), QKV_OK);
            const struct result more = run(&p);
            for (int i = 0; i < ARRAYS; i++)
                if (has(&p, i))
                    CHECK_BITS(more.gradient[i], one.gradient[i], (size_t)p.size[i] * sizeof(real));
        }
        CHECK_EQ(qkv_threads_set(0), QKV_OK);
        fence_free();
    }
}

TEST(what_is_masked_is_not_read)
{
    static const int64_t lengths[] = { 4 };
    static uint8_t mask[] = { 1, 0, 1, 1, 1, 1 };
    EACH_ISA(k) EACH(score, scores)
    {
        struct problem p = {
            .m = { .H = 2, .d_q = 6, .d_k = 3, .d_v = 3, .d_a = 4, .score = *score },
            .a = { .B = 1, .T = 5, .S = 6, .k_lengths = lengths, .mask = { .at = mask } },
            .cross = true
        };
        fill(&p, false);
        const struct result good = run(&p);
        const int masked[] = { 1, 4, 5 };
        EACH(j, masked) for (int i = 0; i < 6; i++) p.array[C][*j * 6 + i] = (real)NAN;
        const struct result bad = run(&p);
        CHECK_BITS(bad.gradient[X], good.gradient[X], (size_t)p.size[X] * sizeof(real));
        EACH(j, masked) for (int i = 0; i < 6; i++)
        {
            // For additive scores, the keys' own weights turn NaN times 0 into NaN in these rows,
            // so they are not compared.
            if (*score != QKV_SCORE_ADDITIVE) CHECK(bad.gradient[C][*j * 6 + i] == 0);
        }
        fence_free();
    }
}

#ifndef QKV_DOUBLE
TEST(sixteen_bits_are_close_to_floats)
{
    const qkv_precision precisions[] = { QKV_PRECISION_BF16, QKV_PRECISION_F16 };
    EACH_ISA(k) EACH(precision, precisions) for (int bilinear = 0; bilinear < 2; bilinear++)
    {
        struct problem p = { .m = { .H = 4,
                                    .G = 2,
                                    .d_q = 16,
                                    .d_k = 8,
                                    .d_v = 8,
                                    .d_out = 16,
                                    .score = bilinear ? QKV_SCORE_BILINEAR : QKV_SCORE_DOT },
                             .a = { .B = 2, .T = 9, .S = 9 } };
        fill(&p, true);
        const struct result want = run(&p);
        p.a.precision = *precision;
        const struct result y = run(&p);
        // The operands of about eight products are rounded to u = 2^-8 or 2^-11 of their size: 16 u
        // of the sums, on average; a wrong formula has an error of the size of the gradient.
        const double u = *precision == QKV_PRECISION_BF16 ? 0x1p-8 : 0x1p-11;
        for (int i = 0; i < ARRAYS; i++) {
            double off = 0, size = 0;
            for (int64_t n = 0; has(&p, i) && n < p.size[i]; n++) {
                off += pow((double)(y.gradient[i][n] - want.gradient[i][n]), 2);
                size += pow((double)want.gradient[i][n], 2);
            }
            // For product scores the exact gradient of b_k is 0, so only rounding noise remains.
            if (i == B_K) continue;
            CHECK(sqrt(off) <= 16 * u * sqrt(size));
        }
        fence_free();
    }
}
#endif

TEST(what_cannot_be_is_refused)
{
    struct problem p = {
        .m = { .H = 2, .d_q = 6, .d_k = 3, .d_v = 3, .d_a = 4, .score = QKV_SCORE_ADDITIVE },
        .a = { .B = 1, .T = 3, .S = 3 }
    };
    fill(&p, false);
    const struct result y = run(&p);
    const struct qkv_attention_plan plan = qkv_multi_head_backward_plan(&p.m, &p.a, NULL);
    void *scratch = qkv_alloc(plan.scratch, 1);
    const float *x = F(p.array[X]), *dy = F(p.dy);
    float *dx = F(y.gradient[X]);
    for (int i = 0; i < 5; i++) {
        struct qkv_multi_head_keep lacking = y.keep;
        *(i == 0   ? &lacking.q
          : i == 1 ? &lacking.k
          : i == 2 ? &lacking.v
          : i == 3 ? &lacking.heads
                   : &lacking.lse) = NULL;
        CHECK_EQ(
            qkv_multi_head_backward(dx, NULL, NULL, dy, &lacking, x, NULL, &p.m, &p.a, scratch),
            QKV_ERR_USAGE);
    }
    CHECK_EQ(qkv_multi_head_backward(dx, NULL, NULL, dy, NULL, x, NULL, &p.m, &p.a, scratch),
             QKV_ERR_USAGE);
    CHECK_EQ(qkv_multi_head_backward(dx, dx, NULL, dy, &y.keep, x, NULL, &p.m, &p.a, scratch),
             QKV_ERR_USAGE); // refused: dc without c
    CHECK_EQ(qkv_multi_head_backward(dx, NULL, NULL, dy, &y.keep, x, NULL, &p.m, &p.a,
                                     (char *)scratch + 4),
             QKV_ERR_USAGE);
    CHECK_EQ(qkv_multi_head_backward_plan(NULL, &p.a, NULL).status, QKV_ERR_USAGE);
    struct qkv_attention a = p.a;
    a.precision = QKV_PRECISION_BF16;
    CHECK_EQ(qkv_multi_head_backward_plan(&p.m, &a, NULL).status, QKV_ERR_UNSUPPORTED);
    a = p.a;
    a.no_softmax = true;
    CHECK_EQ(qkv_multi_head_backward_plan(&p.m, &a, NULL).status, QKV_ERR_UNSUPPORTED);
    float slope = 1;
    const struct qkv_multi_head_gradients g = { .attention = { .alibi = &slope } };
    // refused: the call has no ALiBi slopes
    CHECK_EQ(qkv_multi_head_backward_plan(&p.m, &p.a, &g).status, QKV_ERR_USAGE);
    qkv_free(scratch);
    fence_free();
}

TEST(scratch_grows_with_tokens_not_with_their_square)
{
    EACH(score, scores)
    {
        const float w = 0;
        const struct qkv_multi_head m = { .H = 2,
                                          .d_q = 8,
                                          .d_k = 4,
                                          .d_v = 4,
                                          .d_a = 4,
                                          .score = *score,
                                          .w_s = &w,
                                          .w_aq = &w,
                                          .w_ak = &w,
                                          .w_a = &w };
        size_t bytes[2];
        for (int i = 0; i < 2; i++) {
            const int64_t n = i ? 1 << 21 : 1 << 20;
            const struct qkv_attention_plan plan = qkv_multi_head_backward_plan(
                &m, &(struct qkv_attention){ .B = 1, .T = n, .S = n }, NULL);
            CHECK_EQ(plan.status, QKV_OK);
            bytes[i] = plan.scratch;
        }
        CHECK(bytes[1] <= 2 * bytes[0]);
    }
}

#ifdef QKV_DOUBLE
#define IN_HALVES
#else
#define IN_HALVES CASE(sixteen_bits_are_close_to_floats),
#endif
CHECK_MAIN(CASE(every_score_has_the_gradients_of_pytorch),
           CASE(gradients_are_differences_with_every_mask_and_sharing_of_heads),
           CASE(without_weights_the_input_takes_the_gradients_of_query_key_and_value),
           CASE(threads_change_no_bit), CASE(what_is_masked_is_not_read),
           IN_HALVES CASE(what_cannot_be_is_refused),
           CASE(scratch_grows_with_tokens_not_with_their_square))
