// SPDX-License-Identifier: MIT
// test_baselines_linear.c: compares linear and low-rank attention with the formula in double, with
// exact attention where they must agree or approach it, and checks their invariants.
#include "baseline_case.h"
#include <stdlib.h>

// ---- linear ------------------------------------------------------------------------------------
static struct qkv_linear_attention linear_of(const struct problem *p, bool causal)
{
    return (struct qkv_linear_attention){ .B = p->B,
                                          .T = p->T,
                                          .S = p->S,
                                          .H = p->H,
                                          .G = p->G,
                                          .E = p->E,
                                          .F = p->F,
                                          .causal = causal };
}

static void linear(struct problem *p, float *norm, const struct qkv_linear_attention *a)
{
    void *scratch = workspace(qkv_linear_attention_plan(a));
    CHECK_EQ(qkv_linear_attention_forward(p->out, norm, p->q, p->k, p->v, a, scratch), QKV_OK);
    qkv_free(scratch);
}

static double elu(double x)
{
    return x > 0 ? x + 1 : exp(x);
}

// Features are positive, so no sum cancels: a weight has a relative error of E + 3 ulp, sums over S
// keys add S ulp, for both numerator and denominator, and values are below 8.
static double positive_error(int64_t M, int64_t S)
{
    return 2 * (double)(M + S + 8) * 8 * unit;
}

// Computes phi of each of n numbers, and its derivative (slope NULL: not computed). The caller
// frees both.
static double *features(const float *x, int64_t n, double **slope)
{
    double *phi = malloc((size_t)n * sizeof *phi);
    if (slope) *slope = malloc((size_t)n * sizeof *phi);
    CHECK(phi && (!slope || *slope));
    for (int64_t i = 0; i < n; i++) {
        phi[i] = elu((double)x[i]);
        if (slope) (*slope)[i] = fmin(phi[i], 1);
    }
    return phi;
}

static double dot_double(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static void check_linear(const struct problem *p, const struct qkv_linear_attention *a)
{
    double weight[512], want[64];
    double *q = features(p->q, p->B * p->T * p->H * p->E, NULL);
    double *k = features(p->k, p->B * p->S * p->G * p->E, NULL);
    for (int64_t i = 0; i < p->B * p->H * p->T; i++) {
        const int64_t t = i % p->T, h = i / p->T % p->H, b = i / p->T / p->H;
        for (int64_t s = 0; s < p->S; s++) {
            const bool seen = (!a->causal || s <= t) && (!a->k_lengths || s < a->k_lengths[b]);
            weight[s] = !seen ? 0
                              : dot_double(q + (query_at(p, b, t, h) - p->q),
                                           k + (key_at(p, b, s, h) - p->k), p->E);
        }
        weigh(want, p, b, h, weight);
        for (int64_t f = 0; f < p->F; f++)
            CHECK_NEAR(p->out[((b * p->T + t) * p->H + h) * p->F + f], want[f],
                       positive_error(p->E, p->S));
    }
    free(q);
    free(k);
}

TEST(linear_attention_is_its_formula)
{
    static const int64_t lengths[] = { 200, 131 };
    EACH_ISA(k) for (int causal = 0; causal < 2; causal++) for (int cut = 0; cut < 2; cut++)
    {
        struct problem p = make(2, causal ? 300 : 70, 300, 4, 2, 20, 12);
        struct qkv_linear_attention a = linear_of(&p, causal);
        if (cut) a.k_lengths = lengths;
        linear(&p, NULL, &a);
        check_linear(&p, &a);
        fence_free();
    }
}

TEST(a_prefix_of_a_causal_run_has_the_same_bits)
{
    static const int64_t lengths[] = { 1, 5, 64, 127, 128, 129, 250 };
    EACH_ISA(k) EACH(n, lengths)
    {
        struct problem p = make(1, 300, 300, 2, 2, 24, 24);
        struct qkv_linear_attention a = linear_of(&p, true);
        float *whole = fenced_random(p.T * p.H * p.F);
        float *keep = p.out;
        p.out = whole;
        linear(&p, NULL, &a);
        p.out = keep;
        a.T = a.S = *n;
        linear(&p, NULL, &a);
        CHECK_BITS(p.out, whole, (size_t)(*n * p.H * p.F) * sizeof(float));
        fence_free();
    }
}

TEST(what_a_row_does_not_see_it_does_not_feel)
{
    static const int64_t lengths[] = { 150 };
    EACH_ISA(k) for (int random = 0; random < 2; random++)
    {
        struct problem p = make(1, 200, 200, 2, 1, 16, 16);
        struct qkv_linear_attention a = linear_of(&p, true);
        float *want = fenced_random(p.T * p.H * p.F), *w = fenced_random(40 * 16);
        if (random) {
            qkv_random_features(w, 40, 16, 1);
            a.map = QKV_MAP_RANDOM;
            a.random = w;
            a.features = 40;
        }
        linear(&p, NULL, &a);
        memcpy(want, p.out, (size_t)(p.T * p.H * p.F) * sizeof *want);
        p.v[140 * 16 + 3] = NAN; // rows before 140 are unchanged, later rows become NaN
        linear(&p, NULL, &a);
        CHECK_BITS(p.out, want, (size_t)(140 * p.H * p.F) * sizeof *want);
        CHECK(isnan(p.out[140 * p.H * p.F + 3]) && !isnan(p.out[140 * p.H * p.F + 4]));
        CHECK(isnan(p.out[(199 * p.H + 1) * p.F + 3]));
        p.v[140 * 16 + 3] = 0;
        a.k_lengths = lengths;
        linear(&p, NULL, &a);
        memcpy(want, p.out, (size_t)(p.T * p.H * p.F) * sizeof *want);
        for (int64_t i = 150 * 16; i < 200 * 16; i++) p.k[i] = p.v[i] = NAN;
        linear(&p, NULL, &a);
        CHECK_BITS(p.out, want, (size_t)(p.T * p.H * p.F) * sizeof *want);
        fence_free();
    }
}

TEST(a_row_without_keys_gives_nothing)
{
    static const int64_t none[] = { 0 };
    for (int causal = 0; causal < 2; causal++) {
        struct problem p = make(1, 5, 5, 1, 1, 4, 4);
        struct qkv_linear_attention a = linear_of(&p, causal);
        float *norm = fenced_random(5);
        a.k_lengths = none;
        linear(&p, norm, &a);
        for (int i = 0; i < 20; i++) CHECK(p.out[i] == 0);
        for (int i = 0; i < 5; i++) CHECK(norm[i] == 0);
        fence_free();
    }
}

// ---- gradients ---------------------------------------------------------------------------------
struct gradients {
    float *dout, *norm, *dq, *dk, *dv;
};

static struct gradients differentiate(struct problem *p, const struct qkv_linear_attention *a)
{
    const struct gradients g = { numbers(p->B * p->T * p->H * p->F, 1),
                                 fenced_random(p->B * p->T * p->H),
                                 fenced_random(p->B * p->T * p->H * p->E),
                                 fenced_random(p->B * p->S * p->G * p->E),
                                 fenced_random(p->B * p->S * p->G * p->F) };
    linear(p, g.norm, a);
    void *scratch = workspace(qkv_linear_attention_backward_plan(a));
    CHECK_EQ(qkv_linear_attention_backward(g.dq, g.dk, g.dv, g.dout, p->q, p->k, p->v, p->out,
                                           g.norm, a, scratch),
             QKV_OK);
    qkv_free(scratch);
    return g;
}

// A sum and the sum of the magnitudes of its terms, which the rounding error is relative to.
struct term {
    double sum, size;
};

static void add_term(struct term *t, double x, double size)
{
    t->sum += x;
    t->size += size;
}

// Checks that each number of got is a sum with `units` roundings of its terms.
static void check_terms(const float *got, const struct term *want, int64_t n, double units)
{
    double all = 0, off = 0;
    for (int64_t i = 0; i < n; i++) {
        const double tolerance = units * unit * want[i].size;
        CHECK_NEAR(got[i], want[i].sum, tolerance);
        all += fabs(want[i].sum);
        off += tolerance;
    }
    CHECK(all > 10 * off); // the gradients are not just rounding noise
}

// Computes gradients from all pairs: with P_ij = a_ij / sum_j a_ij and a_ij = phi(q_i) . phi(k_j),
//   da_ij = dout_i . (v_j - out_i) / sum_j a_ij,  dv_j = sum_i P_ij dout_i
static void check_gradients(const struct problem *p, const struct qkv_linear_attention *a,
                            const struct gradients *g)
{
    const int64_t T = p->T, S = p->S, E = p->E, F = p->F, heads = p->H / p->G;
    const int64_t q_n = p->B * T * p->H * E, k_n = p->B * S * p->G * E, v_n = p->B * S * p->G * F;
    struct term *dq = calloc((size_t)q_n, sizeof *dq), *dk = calloc((size_t)k_n, sizeof *dk);
    struct term *dv = calloc((size_t)v_n, sizeof *dv);
    double weight[512], out[64], *slope_q, *slope_k;
    double *phi_q = features(p->q, q_n, &slope_q), *phi_k = features(p->k, k_n, &slope_k);
    for (int64_t i = 0; i < p->B * p->H * T; i++) {
        const int64_t t = i % T, h = i / T % p->H, b = i / T / p->H;
        const int64_t row = (b * T + t) * p->H + h;
        const float *dout = g->dout + row * F;
        double sum = 0;
        for (int64_t s = 0; s < S; s++) {
            const bool seen = (!a->causal || s <= t) && (!a->k_lengths || s < a->k_lengths[b]);
            const int64_t at = (b * S + s) * p->G + h / heads;
            weight[s] = seen ? dot_double(phi_q + row * E, phi_k + at * E, E) : 0;
            sum += weight[s];
        }
        weigh(out, p, b, h, weight);
        for (int64_t s = 0; s < S; s++) {
            if (weight[s] == 0) continue;
            const float *v = value_at(p, b, s, h);
            const int64_t at = (b * S + s) * p->G + h / heads;
            double d = 0, size = 0;
            for (int64_t f = 0; f < F; f++) {
                const double x = weight[s] / sum * (double)dout[f];
                d += (double)dout[f] * ((double)v[f] - out[f]) / sum;
                size += fabs((double)dout[f]) * (fabs((double)v[f]) + fabs(out[f])) / sum;
                add_term(&dv[at * F + f], x, fabs(x));
            }
            for (int64_t e = 0; e < E; e++) {
                const double by_k = phi_k[at * E + e] * slope_q[row * E + e];
                const double by_q = phi_q[row * E + e] * slope_k[at * E + e];
                add_term(&dq[row * E + e], d * by_k, size * by_k);
                add_term(&dk[at * E + e], d * by_q, size * by_q);
            }
        }
    }
    // Sums over features, over the elements of a value, and over keys or the rows of all heads; the
    // same number again in forward's out and norm; phi, norm, g and c have a few roundings each.
    const double units = 2 * (double)(E + F + S + T * heads + 16);
    check_terms(g->dq, dq, q_n, units);
    check_terms(g->dk, dk, k_n, units);
    check_terms(g->dv, dv, v_n, units);
    free(dq);
    free(dk);
    free(dv);
    free(phi_q);
    free(phi_k);
    free(slope_q);
    free(slope_k);
}

TEST(gradients_of_linear_attention_are_those_of_its_pairs)
{
    static const int64_t lengths[] = { 200, 131 };
    EACH_ISA(k) for (int causal = 0; causal < 2; causal++) for (int cut = 0; cut < 2; cut++)
    {
        struct problem p = make(2, causal ? 260 : 70, 260, 4, 2, 12, 10);
        struct qkv_linear_attention a = linear_of(&p, causal);
        if (cut) a.k_lengths = lengths;
        const struct gradients g = differentiate(&p, &a);
        check_gradients(&p, &a, &g);
        for (int64_t i = 131 * 2 * 12; i < 260 * 2 * 12 && cut; i++)
            CHECK(g.dk[260 * 2 * 12 + i] == 0);
        fence_free();
    }
}

TEST(gradients_have_the_same_bits_for_any_number_of_threads)
{
    struct problem p = make(2, 300, 300, 4, 2, 16, 16);
    const struct qkv_linear_attention a = linear_of(&p, true);
    struct gradients g[2];
    for (int i = 0; i < 2; i++) {
        check_seed = 5; // resets the random numbers, so that both runs draw the same dout
        CHECK_EQ(qkv_threads_set(1 + 2 * i), QKV_OK);
        g[i] = differentiate(&p, &a);
    }
    CHECK_BITS(g[0].dq, g[1].dq, 2 * 300 * 4 * 16 * sizeof(float));
    CHECK_BITS(g[0].dk, g[1].dk, 2 * 300 * 2 * 16 * sizeof(float));
    CHECK_BITS(g[0].dv, g[1].dv, 2 * 300 * 2 * 16 * sizeof(float));
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    fence_free();
}

// ---- random features ---------------------------------------------------------------------------
TEST(random_features_are_orthogonal_and_as_long_as_normal_rows)
{
    enum { E = 24, M = 60 };
    float *w = fenced_random(M * E), *again = fenced_random(M * E);
    double length = 0;
    qkv_random_features(w, M, E, 7);
    qkv_random_features(again, M, E, 7);
    CHECK_BITS(w, again, M * E * sizeof *w);
    qkv_random_features(again, M, E, 8);
    CHECK(memcmp(w, again, M * E * sizeof *w) != 0);
    for (int i = 0; i < M; i++) {
        length += dot(w + i * E, w + i * E, E) / M;
        // rounding error of the second orthogonalisation, for lengths of about 5
        for (int j = i / E * E; j < i; j++)
            CHECK_NEAR(dot(w + i * E, w + j * E, E), 0, 64 * 8 * unit);
    }
    // The mean of 60 sums of 24 squares is 24, its standard deviation sqrt(2 * 24 / 60) = .9.
    CHECK_NEAR(length, E, 5 * 0.9);
    fence_free();
}

// phi[M] of x[16]: e^(w x' - |x'|^2 / 2) with x' = x / 2, because the square root of the scale is
// 1/2.
static void random_row(double *phi, const float *x, const float *w, int64_t M)
{
    for (int64_t m = 0; m < M; m++) phi[m] = exp(dot(w + m * 16, x, 16) / 2 - dot(x, x, 16) / 8);
}

TEST(random_features_are_their_formula)
{
    EACH_ISA(k) for (int causal = 0; causal < 2; causal++)
    {
        enum { M = 50 };
        struct problem p = make(1, 150, 150, 2, 1, 16, 8);
        struct qkv_linear_attention a = linear_of(&p, causal);
        static double phi_q[M], phi_k[150 * M];
        double weight[512], want[64];
        float *w = fenced_random(M * 16);
        qkv_random_features(w, M, 16, 1);
        a.map = QKV_MAP_RANDOM;
        a.features = M;
        a.random = w;
        linear(&p, NULL, &a);
        for (int64_t s = 0; s < p.S; s++) random_row(phi_k + s * M, key_at(&p, 0, s, 0), w, M);
        for (int64_t i = 0; i < p.H * p.T; i++) {
            const int64_t t = i % p.T, h = i / p.T;
            random_row(phi_q, query_at(&p, 0, t, h), w, M);
            for (int64_t s = 0; s < p.S; s++)
                weight[s] = !causal || s <= t ? dot_double(phi_q, phi_k + s * M, M) : 0;
            weigh(want, &p, 0, h, weight);
            // exponents are below 64 with an error of 16 ulp, which becomes a relative error of the
            // features
            for (int64_t f = 0; f < p.F; f++)
                CHECK_NEAR(p.out[(t * p.H + h) * p.F + f], want[f],
                           positive_error(M, p.S) + 2 * 8 * 64 * 16 * unit);
        }
        fence_free();
    }
}

TEST(the_error_of_random_features_falls_as_they_grow)
{
    struct problem p = make(1, 96, 96, 2, 2, 16, 16);
    float *want = fenced_random(p.T * p.H * p.F), *w = fenced_random(4096 * 16);
    double before = INFINITY;
    // The variance of a feature grows with e^(|q + k|^2): for long rows the mean is inaccurate.
    for (int64_t i = 0; i < 96 * 2 * 16; i++) p.q[i] /= 2, p.k[i] /= 2;
    exact(want, &p, false);
    for (int64_t M = 16; M <= 4096; M *= 16) {
        double error = 0;
        // a mean over seeds, because a single draw may be accurate by chance
        for (uint64_t seed = 0; seed < 4; seed++) {
            struct qkv_linear_attention a = linear_of(&p, false);
            qkv_random_features(w, M, 16, seed);
            a.map = QKV_MAP_RANDOM;
            a.features = M;
            a.random = w;
            linear(&p, NULL, &a);
            error += distance(p.out, want, p.T * p.H * p.F) / 4;
        }
        CHECK(error < before / 2); // 16 times as many features give a quarter of the deviation
        before = error;
    }
    CHECK(before < 0.1);
    fence_free();
}

// ---- low rank ----------------------------------------------------------------------------------
static void linformer(struct problem *p, const struct qkv_linformer *l)
{
    void *scratch = workspace(qkv_linformer_plan(l));
    CHECK_EQ(qkv_linformer_forward(p->out, p->q, p->k, p->v, l, scratch), QKV_OK);
    qkv_free(scratch);
}

TEST(linformer_is_attention_over_projected_rows)
{
    EACH_ISA(k)
    {
        enum { RANK = 9 };
        struct problem p = make(2, 40, 61, 4, 2, 20, 12), few = make(2, 40, RANK, 4, 2, 20, 12);
        const float *p_k = numbers(RANK * 61, 0.2), *p_v = numbers(RANK * 61, 0.2);
        for (int64_t i = 0; i < 2 * RANK * 2 * 20; i++) few.k[i] = 0;
        for (int64_t i = 0; i < 2 * RANK * 2 * 12; i++) few.v[i] = 0;
        double top = 0;
        for (int64_t i = 0; i < 2 * RANK * 2 * 20; i++) {
            const int64_t b = i / (RANK * 40), r = i / 40 % RANK, at = i % 40;
            double sum = 0;
            for (int64_t s = 0; s < 61; s++)
                sum += (double)p_k[r * 61 + s] * (double)p.k[(b * 61 + s) * 40 + at];
            few.k[i] = (float)sum;
            top = fmax(top, fabs(sum));
        }
        for (int64_t i = 0; i < 2 * RANK * 2 * 12; i++) {
            const int64_t b = i / (RANK * 24), r = i / 24 % RANK, at = i % 24;
            double sum = 0;
            for (int64_t s = 0; s < 61; s++)
                sum += (double)p_v[r * 61 + s] * (double)p.v[(b * 61 + s) * 24 + at];
            few.v[i] = (float)sum;
        }
        few.q = p.q;
        exact(few.out, &few, false);
        linformer(&p, &(struct qkv_linformer){ 2, 40, 61, 4, 2, 20, 12, RANK, 0, p_k, p_v });
        // an element of a key sums 61 products of magnitude below 4; a score sums 20 of its
        // products
        const double key_error = 61 * 4 * unit * (1 + top);
        for (int64_t i = 0; i < 2 * 40 * 4 * 12; i++)
            CHECK_NEAR(p.out[i], few.out[i], 2 * 8 * (20 * key_error + softmax_error(20, 61)));
        fence_free();
    }
}

TEST(linformer_with_a_row_a_token_is_exact_attention)
{
    struct problem p = make(1, 50, 50, 2, 2, 16, 16);
    float *means = fenced_random(50 * 50), *want = fenced_random(50 * 32);
    qkv_segment_means(means, 50, 50);
    for (int i = 0; i < 2500; i++) CHECK(means[i] == (float)(i % 51 == 0));
    exact(want, &p, false);
    linformer(&p, &(struct qkv_linformer){ 1, 50, 50, 2, 2, 16, 16, 50, 0, means, NULL });
    for (int i = 0; i < 50 * 32; i++) CHECK_NEAR(p.out[i], want[i], 2 * softmax_error(16, 50));
    fence_free();
}

static void nystrom(struct problem *p, int64_t landmarks, int64_t iterations, float scale)
{
    const struct qkv_nystrom n = { p->B, p->T, p->S,      p->H,       p->G,
                                   p->E, p->F, landmarks, iterations, scale };
    void *scratch = workspace(qkv_nystrom_plan(&n));
    CHECK_EQ(qkv_nystrom_forward(p->out, p->q, p->k, p->v, &n, scratch), QKV_OK);
    qkv_free(scratch);
}

// With as many landmarks as tokens all three factors are A, and A pinv(A) A = A. The queries are
// their own keys, at a scale that makes A nearly the identity, so the iteration converges in a few
// steps and only rounding errors remain: |A| and |pinv(A)| are about 1.
TEST(nystrom_with_a_landmark_a_token_comes_to_exact_attention)
{
    EACH_ISA(k)
    {
        struct problem p = make(2, 24, 24, 2, 1, 32, 8);
        float *want = fenced_random(2 * 24 * 2 * 8);
        for (int64_t b = 0; b < 2; b++)
            for (int64_t t = 0; t < 24; t++)
                for (int64_t h = 0; h < 2; h++)
                    memcpy((void *)(uintptr_t)query_at(&p, b, t, h), key_at(&p, b, t, h),
                           32 * sizeof(float));
        exact(want, &p, false);
        double before = INFINITY;
        for (int64_t turns = 2; turns <= 18; turns += 8) {
            nystrom(&p, 24, turns, 0);
            const double error = distance(p.out, want, 2 * 24 * 2 * 8);
            CHECK(error <= before || error < 1e-4);
            before = error;
        }
        // 24 products per row, four products per iteration (only the errors of the last one
        // remain), times a condition number that is below 30 for such tokens
        CHECK_NEAR(before, 0, 4 * 24 * 30 * 2 * unit);
        fence_free();
    }
}

// With equal tokens in each segment, the landmarks are the tokens, and A has the full rank of the
// matrix.
TEST(nystrom_is_exact_where_segments_are_alike)
{
    struct problem p = make(1, 48, 60, 2, 2, 32, 8);
    float *want = fenced_random(48 * 2 * 8);
    for (int64_t t = 0; t < 48; t++) memcpy(p.q + t * 64, p.q + t / 4 * 4 * 64, 64 * sizeof(float));
    for (int64_t s = 0; s < 60; s++) memcpy(p.k + s * 64, p.q + s / 5 * 4 * 64, 64 * sizeof(float));
    exact(want, &p, false);
    nystrom(&p, 12, 20, 0);
    CHECK_NEAR(distance(p.out, want, 48 * 2 * 8), 0, 4 * 60 * 30 * 2 * unit);
    fence_free();
}

// ---- all baseline layers -----------------------------------------------------------------------
static void run_all(struct problem *p, float *to, const float *means, const float *w)
{
    const int64_t n = p->B * p->T * p->H * p->F;
    const size_t bytes = (size_t)n * sizeof *to;
    struct qkv_linear_attention a = linear_of(p, true);
    linear(p, NULL, &a);
    memcpy(to, p->out, bytes);
    a.causal = false;
    a.map = QKV_MAP_RANDOM;
    a.features = 64;
    a.random = w;
    linear(p, NULL, &a);
    memcpy(to + n, p->out, bytes);
    linformer(
        p, &(struct qkv_linformer){ p->B, p->T, p->S, p->H, p->G, p->E, p->F, 20, 0, means, NULL });
    memcpy(to + 2 * n, p->out, bytes);
    nystrom(p, 20, 0, 0);
    memcpy(to + 3 * n, p->out, bytes);
    const struct qkv_block_sparse s = { .B = p->B,
                                        .T = p->T,
                                        .H = p->H,
                                        .G = p->G,
                                        .E = p->E,
                                        .F = p->F,
                                        .block = 32,
                                        .window = 1,
                                        .global = 1,
                                        .random = 2 };
    void *scratch = workspace(qkv_block_sparse_plan(&s));
    CHECK_EQ(qkv_block_sparse_forward(p->out, NULL, p->q, p->k, p->v, &s, scratch), QKV_OK);
    memcpy(to + 4 * n, p->out, bytes);
    qkv_free(scratch);
    const struct qkv_convolution c = {
        .B = p->B, .T = p->T, .D_in = p->H * p->E, .D_out = p->H * p->F, .width = 3, .w = p->v
    };
    scratch = workspace(qkv_convolution_plan(&c));
    CHECK_EQ(qkv_convolution_forward(p->out, p->q, &c, scratch), QKV_OK);
    memcpy(to + 5 * n, p->out, bytes);
    qkv_free(scratch);
    struct qkv_recurrence r = {
        .B = p->B, .T = p->T, .D_in = p->H * p->E, .D = p->H * p->F, .w_i = p->v, .w_h = p->v
    };
    for (int i = 0; i < 2; i++) {
        r.cell = i ? QKV_CELL_GRU : QKV_CELL_ELMAN;
        scratch = workspace(qkv_recurrence_plan(&r));
        CHECK_EQ(qkv_recurrence_forward(p->out, p->q, NULL, &r, scratch), QKV_OK);
        memcpy(to + (6 + i) * n, p->out, bytes);
        qkv_free(scratch);
    }
}

TEST(threads_change_no_bit)
{
    struct problem p = make(2, 300, 300, 4, 2, 16, 16);
    const int64_t all = 8 * p.B * p.T * p.H * p.F;
    float *one = fenced_random(all), *more = fenced_random(all);
    float *means = fenced_random(20 * 300), *w = fenced_random(64 * 16);
    qkv_segment_means(means, 20, 300);
    qkv_random_features(w, 64, 16, 3);
    CHECK_EQ(qkv_threads_set(1), QKV_OK);
    run_all(&p, one, means, w);
    for (int threads = 2; threads < 5; threads++) {
        CHECK_EQ(qkv_threads_set(threads), QKV_OK);
        run_all(&p, more, means, w);
        CHECK_BITS(more, one, (size_t)all * sizeof *one);
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    fence_free();
}

TEST(a_batch_item_does_not_know_its_neighbours)
{
    struct problem p = make(2, 300, 300, 4, 2, 16, 16);
    const int64_t n = p.T * p.H * p.F;
    float *both = fenced_random(8 * 2 * n), *alone = fenced_random(8 * n);
    float *means = fenced_random(20 * 300), *w = fenced_random(64 * 16);
    qkv_segment_means(means, 20, 300);
    qkv_random_features(w, 64, 16, 3);
    run_all(&p, both, means, w);
    p.B = 1;
    run_all(&p, alone, means, w);
    for (int i = 0; i < 8; i++)
        CHECK_BITS(alone + i * n, both + i * 2 * n, (size_t)n * sizeof *both);
    fence_free();
}

CHECK_MAIN(CASE(linear_attention_is_its_formula), CASE(a_prefix_of_a_causal_run_has_the_same_bits),
           CASE(what_a_row_does_not_see_it_does_not_feel), CASE(a_row_without_keys_gives_nothing),
           CASE(gradients_of_linear_attention_are_those_of_its_pairs),
           CASE(gradients_have_the_same_bits_for_any_number_of_threads),
           CASE(random_features_are_orthogonal_and_as_long_as_normal_rows),
           CASE(random_features_are_their_formula),
           CASE(the_error_of_random_features_falls_as_they_grow),
           CASE(linformer_is_attention_over_projected_rows),
           CASE(linformer_with_a_row_a_token_is_exact_attention),
           CASE(nystrom_with_a_landmark_a_token_comes_to_exact_attention),
           CASE(nystrom_is_exact_where_segments_are_alike), CASE(threads_change_no_bit),
           CASE(a_batch_item_does_not_know_its_neighbours))
