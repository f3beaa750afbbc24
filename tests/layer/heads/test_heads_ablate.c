// SPDX-License-Identifier: MIT
// test_heads_ablate.c: compares the outputs of ablated heads with the plain formula in double, for
// masks, shared keys, packed sequences, and sequences with different ablated heads.
#include "check.h"
#include "layer/layer.h"
#include <float.h>
#include <stdlib.h>

enum { R = 29, D = 20, H = 6, G = 3, E = 5, F = 70, SEQUENCES = 3 };
static const int64_t offsets[SEQUENCES + 1] = { 0, 11, 12, R };
// also in the build with doubles, because powers are computed in float
#define ROUNDING ((double)FLT_EPSILON)

struct seen {
    real q[R * H * E], v[R * G * F], heads[R * H * F], lse[H * R];
};

static void random_fill(real *x, int64_t n, double size)
{
    for (int64_t i = 0; i < n; i++) x[i] = (real)(size * check_gauss());
}

// Runs the heads without an output projection; ablation NULL: none.
static void run(struct seen *s, const struct qkv_attention *how,
                const struct qkv_heads_ablation *ablation)
{
    static real w[3][H * F * D], x[R * D], k[R * G * E];
    struct qkv_heads m = { .H = H, .G = G, .E = E, .F = F, .ablation = ablation };
    struct qkv_attention a = *how;
    const int64_t N[] = { H * E, G * E, G * F };
    qkv_status status;
    check_seed = 7;
    random_fill(x, R * D, 1);
    m.in.K = D;
    m.in.parts = 3;
    for (int p = 0; p < 3; p++) {
        random_fill(w[p], N[p] * D, 0.3);
        m.in.part[p].N = N[p];
        m.in.part[p].w = w[p];
    }
    CHECK_EQ(qkv_linear_pack(&m.in), QKV_OK);
    a.B = 1;
    a.T = a.S = R;
    a.sequences = SEQUENCES;
    a.q_offsets = a.k_offsets = offsets;
    const size_t bytes = qkv_heads_scratch(&m, &a, &status);
    CHECK_EQ(status, QKV_OK);
    void *scratch = qkv_alloc(bytes, 1);
    CHECK(scratch != NULL);
    const struct qkv_heads_keep keep = { .q = s->q, .k = k, .v = s->v, .lse = s->lse };
    CHECK_EQ(qkv_heads_forward(&(struct qkv_sublayer_rows){ .x = x, .y = s->heads }, &keep, NULL,
                               &m, &a, scratch),
             QKV_OK);
    qkv_free(scratch);
    qkv_linear_free(&m.in);
}

static bool sees(const struct qkv_attention *a, int64_t i, int64_t j)
{
    if (a->causal && j > i) return false;
    if (!a->window.on) return true;
    return (a->window.left < 0 || j >= i - a->window.left) &&
           (a->window.right < 0 || j <= i + a->window.right);
}

static const struct qkv_attention masks[] = {
    { 0 },
    { .causal = true },
    { .causal = true, .window = { .on = true, .left = 3, .right = -1 } },
    { .window = { .on = true, .left = 2, .right = 4 } },
    { .softcap = 2 },
};

// Computes head h of row i of sequence n under ablation `gives`, by the formula from the unablated
// heads and the values; *size: magnitude of the summed numbers.
static double wanted(const struct seen *plain, const struct qkv_attention *a,
                     enum qkv_heads_gives gives, bool running, int64_t n, int64_t i, int64_t h,
                     int64_t f, double *size)
{
    const int64_t from = offsets[n], T = offsets[n + 1] - from;
    double sum = 0, count = 0;
    *size = 0;
    if (gives == QKV_HEADS_ZERO) return 0;
    if (gives == QKV_HEADS_FOUND) return (double)plain->heads[((from + i) * H + h) * F + f];
    for (int64_t j = 0; j < T; j++) {
        const bool in = gives == QKV_HEADS_UNIFORM ? sees(a, i, j) : !running || j <= i;
        const double x = gives == QKV_HEADS_UNIFORM
                             ? (double)plain->v[((from + j) * G + h / (H / G)) * F + f]
                             : (double)plain->heads[((from + j) * H + h) * F + f];
        if (!in) continue;
        sum += x;
        *size += fabs(x);
        count++;
    }
    *size /= count;
    return sum / count;
}

// gives is [SEQUENCES][H] with step H, [H] with step 0.
static void check_run(const struct qkv_attention *a, const unsigned char *gives, int64_t step,
                      bool running)
{
    static struct seen plain, got;
    const struct qkv_heads_ablation ablation = { gives, step, running, 0 };
    run(&plain, a, NULL);
    run(&got, a, &ablation);
    CHECK_BITS(got.v, plain.v, sizeof plain.v);
    for (int64_t n = 0; n < SEQUENCES; n++)
        for (int64_t i = 0; i < offsets[n + 1] - offsets[n]; i++)
            for (int64_t h = 0; h < H; h++) {
                const enum qkv_heads_gives what = (enum qkv_heads_gives)gives[n * step + h];
                const int64_t r = offsets[n] + i;
                double keys = 0, size;
                for (int64_t j = 0; j < offsets[n + 1] - offsets[n]; j++) keys += sees(a, i, j);
                if (what == QKV_HEADS_UNIFORM) {
                    CHECK_NEAR((double)got.lse[h * R + r], log(keys),
                               4 * ROUNDING * (1 + log(keys)));
                    for (int64_t e = 0; e < E; e++) CHECK(got.q[(r * H + h) * E + e] == 0);
                }
                for (int64_t f = 0; f < F; f++) {
                    const double want = wanted(&plain, a, what, running, n, i, h, f, &size);
                    const double have = (double)got.heads[(r * H + h) * F + f];
                    // FOUND and ZERO are exact. MEAN is a sum of doubles, rounded once. UNIFORM has
                    // one rounding per key in each of two sums, plus the power and the division.
                    const double roundings = what == QKV_HEADS_UNIFORM ? 2 * keys + 4
                                             : what == QKV_HEADS_MEAN  ? 1
                                                                       : 0;
                    CHECK_NEAR(have, want, roundings * ROUNDING * size);
                }
            }
}

TEST(each_head_gives_what_the_formula_says)
{
    static const unsigned char gives[H] = { QKV_HEADS_ZERO,  QKV_HEADS_MEAN,    QKV_HEADS_UNIFORM,
                                            QKV_HEADS_FOUND, QKV_HEADS_UNIFORM, QKV_HEADS_MEAN };
    EACH(a, masks) for (int running = 0; running < 2; running++) check_run(a, gives, 0, running);
}

TEST(sequences_side_by_side_have_ablations_of_their_own)
{
    static const unsigned char gives[SEQUENCES][H] = {
        { QKV_HEADS_ZERO, QKV_HEADS_FOUND, QKV_HEADS_FOUND, QKV_HEADS_FOUND, QKV_HEADS_UNIFORM },
        { QKV_HEADS_FOUND, QKV_HEADS_MEAN, QKV_HEADS_UNIFORM },
        { QKV_HEADS_FOUND, QKV_HEADS_FOUND, QKV_HEADS_ZERO, QKV_HEADS_MEAN },
    };
    EACH(a, masks) check_run(a, &gives[0][0], H, a->causal);
}

CHECK_MAIN(CASE(each_head_gives_what_the_formula_says),
           CASE(sequences_side_by_side_have_ablations_of_their_own))
