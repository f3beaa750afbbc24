// SPDX-License-Identifier: MIT
// test_attention_masks.c: tests that masked keys are never read (NaN and Inf at every kind of
// masked position), that rows without keys give 0, that visible NaN propagate, and the tile counts
// of the plan.
#include "kernel/kernel_internal.h"
#include "attention_case.h"

enum { T = 21, S = QKV_CHUNK + 45, H = 2, E = 20, F = 25 };

static const float poison[] = { NAN, INFINITY, -INFINITY };

// Sets every key and value that no query of the item sees to `with` (the case below covers keys
// that only some queries see); returns their number.
static int64_t poison_unseen(const struct problem *p, float with)
{
    int64_t n = 0;
    for (int64_t b = 0; b < p->a.B; b++)
        for (int64_t j = 0; j < p->a.S; j++) {
            bool seen = false;
            for (int64_t t = 0; t < p->a.T && !seen; t++)
                for (int64_t h = 0; h < p->a.H && !seen; h++) {
                    const struct seen s = case_seen(p, b, t);
                    seen = !s.none && j >= s.key && case_visible(p, &s, b, t, h, j - s.key);
                }
            if (seen) continue;
            n++;
            for (int64_t h = 0; h < p->a.G; h++) {
                for (int64_t e = 0; e < p->a.E; e++)
                    case_at(p->k, p->a.k_strides, p->a.S, p->a.G, p->a.E, b, j, h)[e] = (real)with;
                for (int64_t f = 0; f < p->a.F; f++)
                    case_at(p->v, p->a.v_strides, p->a.S, p->a.G, p->a.F, b, j, h)[f] = (real)with;
            }
        }
    return n;
}

TEST(poison_behind_any_mask_is_never_seen)
{
    const unsigned features[] = { LENGTHS,
                                  WINDOW,
                                  WINDOW | CAUSAL,
                                  MASK | BROADCAST,
                                  BIAS | BIAS_INFINITE | BROADCAST,
                                  LENGTHS | PACKED,
                                  LENGTHS | NO_SOFTMAX,
                                  MASK | BROADCAST | NO_SOFTMAX,
                                  MASK | BROADCAST | SOFTCAP | ALIBI };
    EACH_ISA(isa)
    EACH_PRECISION EACH(f, features) EACH_IN_TURN(x, poison, f - features + precision_n)
    {
        check_seed = 31;
        struct problem p = case_new(
            (struct qkv_attention){ .B = 2, .T = T, .S = S, .H = H, .E = E, .F = F }, *f | WEIGHTS);
        if (*f & LENGTHS && !(*f & PACKED)) {
            p.lengths[0] = 17;
            p.lengths[1] = QKV_CHUNK + 1;
        }
        if (*f & WINDOW) {
            p.a.window.left = 3;
            p.a.window.right = 4;
        }
        // some columns are hidden from all rows
        for (int64_t j = 0; *f & (MASK | BIAS) && j < S; j++)
            for (int64_t t = 0; t < T && j % 3 == 1; t++) {
                if (*f & MASK) p.mask[t * S + j] = 0;
                if (*f & BIAS) p.bias[t * S + j] = -INFINITY;
            }
        struct problem r = p;
        r.out = fenced_real(p.out_n);
        r.lse = fenced_real(p.lse_n);
        r.weights = fenced_real(p.weights_n);
        memcpy(r.lse, p.lse, p.lse_n * sizeof(real));
        case_run(&p);
        CHECK(poison_unseen(&p, *x) > 0);
        case_run(&r);
        CHECK_BITS(p.out, r.out, p.out_n * sizeof(real));
        CHECK_BITS(p.lse, r.lse, p.lse_n * sizeof(real));
        CHECK_BITS(p.weights, r.weights, p.weights_n * sizeof(real));
        fence_free();
    }
}

// Key `bad` is NaN or Inf; with a causal mask, rows from `bad` on see it. Earlier rows stay
// bit-identical, later ones become NaN or Inf.
TEST(poison_in_a_partly_masked_tile_reaches_only_the_rows_that_attend)
{
    const int64_t places[] = { 0, 3, 17, 63, 64, QKV_CHUNK - 1, QKV_CHUNK, QKV_CHUNK + 9 };
    EACH_ISA(isa)
    EACH_PRECISION EACH(bad, places) EACH_IN_TURN(
        x, poison, bad - places + precision_n) for (int in_value = 0; in_value < 2; in_value++)
    {
        enum { N = QKV_CHUNK + 20 };
        check_seed = 41;
        const struct problem p = case_new(
            (struct qkv_attention){ .B = 1, .T = N, .S = N, .H = 1, .E = E, .F = F }, CAUSAL);
        struct problem r = p;
        r.out = fenced_real(p.out_n);
        r.lse = fenced_real(p.lse_n);
        case_run(&p);
        if (in_value)
            p.v[*bad * F + 2] = (real)*x; // only one number: the other columns are unchanged
        else
            for (int64_t e = 0; e < E; e++) p.k[*bad * E + e] = (real)*x;
        case_run(&r);
        for (int64_t t = 0; t < N; t++)
            for (int64_t f = 0; f < F; f++) {
                const real was = p.out[t * F + f], is = r.out[t * F + f];
                const bool reached = t >= *bad && (!in_value || f == 2);
                if (!reached)
                    CHECK_BITS(&was, &is, sizeof is);
                else if (in_value)
                    CHECK(!isfinite(is));
                else if (isnan(*x))
                    CHECK(isnan(is)); // an infinite key may give a score of -INFINITY: weight 0
            }
        fence_free();
    }
}

TEST(poison_in_bias_and_query_stays_in_its_row)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        const struct problem p =
            case_new((struct qkv_attention){ .B = 1, .T = T, .S = S, .H = H, .E = E, .F = F },
                     BIAS | CAUSAL);
        struct problem r = p;
        r.out = fenced_real(p.out_n);
        r.lse = fenced_real(p.lse_n);
        case_run(&p);
        // NaN and Inf in the bias of keys after the diagonal, which must not be read
        for (int64_t h = 0; h < H; h++)
            for (int64_t t = 0; t < T; t++)
                for (int64_t j = t + 1; j < S; j++) p.bias[(h * T + t) * S + j] = poison[j % 3];
        case_run(&r);
        CHECK_BITS(p.out, r.out, p.out_n * sizeof(real));
        p.q[7 * H * E] = NAN;              // NaN in the query of token 7, head 0
        p.bias[(1 * T + 5) * S + 2] = NAN; // NaN in the bias of head 1, token 5
        case_run(&r);
        for (int64_t t = 0; t < T; t++)
            for (int64_t h = 0; h < H; h++)
                for (int64_t f = 0; f < F; f++) {
                    const size_t at = (size_t)((t * H + h) * F + f);
                    if ((t == 7 && h == 0) || (t == 5 && h == 1))
                        CHECK(isnan(r.out[at]));
                    else
                        CHECK_BITS(&p.out[at], &r.out[at], sizeof(real));
                }
        fence_free();
    }
}

TEST(a_row_that_sees_nothing_is_zero_and_its_lse_is_minus_infinity)
{
    const unsigned features[] = {
        LENGTHS, MASK, BIAS, WINDOW, SINKS | MASK, NO_SOFTMAX | MASK, CAUSAL | BOTTOM_RIGHT
    };
    EACH_ISA(isa) EACH_PRECISION EACH(f, features)
    {
        struct problem p = case_new(
            (struct qkv_attention){
                .B = 1, .T = T, .S = *f & CAUSAL ? 5 : S, .H = H, .E = E, .F = F },
            *f | WEIGHTS);
        if (*f & LENGTHS) p.lengths[0] = 0;
        if (*f & WINDOW) {
            p.a.diagonal = QKV_BOTTOM_RIGHT;
            p.a.S = 4;
            p.a.window.left = p.a.window.right = 0;
        }
        if (*f & MASK) memset(p.mask, 0, (size_t)(H * T * S));
        for (int64_t i = 0; *f & BIAS && i < H * T * S; i++) p.bias[i] = -INFINITY;
        case_run(&p);
        // the rows without a visible key: the first ones, or all
        const int64_t blind = *f & (CAUSAL | WINDOW) ? T - p.a.S : T;
        for (int64_t t = 0; t < blind; t++)
            for (int64_t h = 0; h < H; h++) {
                for (int64_t i = 0; i < F; i++) CHECK(p.out[(t * H + h) * F + i] == 0);
                for (int64_t j = 0; j < p.a.S; j++) CHECK(p.weights[(h * T + t) * p.a.S + j] == 0);
                if (*f & SINKS)
                    CHECK_NEAR(p.lse[h * T + t], (double)p.a.sinks[h],
                               4 * UNIT * fabs((double)p.a.sinks[h]) + UNIT);
                else if (!(*f & NO_SOFTMAX))
                    CHECK(p.lse[h * T + t] == -INFINITY);
            }
        fence_free();
    }
}

TEST(the_largest_and_the_smallest_scale_are_scales)
{
    EACH_ISA(isa) EACH_PRECISION for (int small = 0; small < 2; small++)
    {
        struct problem p =
            case_new((struct qkv_attention){ .B = 1, .T = 1, .S = 4, .H = 1, .E = 1 }, SINKS);
        p.a.scale = small ? 1e-39f : 3e38f;
        ((float *)(uintptr_t)p.a.sinks)[0] = 1;
        p.q[0] = 1;
        for (int64_t j = 0; j < 4; j++) p.k[j] = j == 1;
        case_run(&p);
        const double sum = 4 + exp(1);
        double all = 0, near = 0;
        for (int64_t j = 0; j < 4; j++) {
            all += (double)p.v[j];
            near += 0.02 * fabs((double)p.v[j]);
        }
        CHECK_NEAR(p.out[0], small ? all / sum : (double)p.v[1], near);
        CHECK_NEAR(p.lse[0], small ? log(sum) : (double)p.a.scale, small ? 1e-2 : 1e36);
        fence_free();
    }
}

TEST(rows_far_behind_the_last_key_end_once)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        struct problem p =
            case_new((struct qkv_attention){ .B = 1, .T = 900, .S = 3, .H = 1, .E = 4 },
                     WINDOW | SINKS | WEIGHTS);
        p.a.window.left = p.a.window.right = 2;
        case_run(&p);
        for (int64_t t = 5; t < 900; t++) {
            for (int64_t j = 0; j < 3; j++) CHECK(p.weights[t * 3 + j] == 0);
            for (int64_t f = 0; f < 4; f++) CHECK(p.out[t * 4 + f] == 0);
        }
        fence_free();
    }
}

// ---- tiles -------------------------------------------------------------------------------------
static int64_t tiles_seen; // number of panels whose products were computed
static const struct qkv_attention_kernels *counted;
static void count_scores(real *s, const void *const *q, int rows, const void *keys, int64_t e,
                         struct qkv_columns span)
{
    tiles_seen += qkv_ceil_div(span.to, counted->keys) - span.from / counted->keys;
    counted->scores(s, q, rows, keys, e, span);
}
// The kernel `group` computes the products of its tiles itself.
static bool count_group(const struct qkv_attention_group *g)
{
    const bool done = counted->group(g);
    if (done) tiles_seen += qkv_ceil_div(g->span.to, counted->keys) - g->span.from / counted->keys;
    return done;
}

// Runs p on one thread and returns the number of tiles whose products were computed.
static int64_t count_tiles(const struct problem *p)
{
    const struct qkv_kernels *before = qkv_kernel();
    struct qkv_kernels table = *before;
    struct qkv_attention_kernels family = *before->attention[case_precision];
    counted = before->attention[case_precision];
    family.scores = count_scores;
    if (family.group) family.group = count_group;
    for (int i = 0; i < QKV_PRECISIONS; i++) table.attention[i] = &family;
    tiles_seen = 0;
    CHECK_EQ(qkv_threads_set(1), QKV_OK);
    qkv_kernel_use(&table);
    case_run(p);
    qkv_kernel_use(before);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    return tiles_seen;
}

TEST(the_plan_counts_the_tiles_that_run)
{
    const unsigned features[] = {
        0,       CAUSAL, CAUSAL | BOTTOM_RIGHT,     WINDOW,
        LENGTHS, PACKED, PACKED | LENGTHS | CAUSAL, WINDOW | CAUSAL | LENGTHS | BOTTOM_RIGHT
    };
    EACH_ISA(isa)
    EACH_PRECISION EACH(f, features) for (int draw = 0; draw < (QKV_FEW ? 2 : 6); draw++)
    {
        check_seed = (uint64_t)draw + 77;
        const struct problem p = case_new(
            (struct qkv_attention){
                .B = 2, .T = 230, .S = 2 * QKV_CHUNK + 9, .H = 4, .G = 2, .E = 8 },
            *f);
        const struct qkv_attention_plan plan = qkv_attention_plan(&p.a);
        CHECK_EQ(plan.status, QKV_OK);
        CHECK_EQ(plan.visited + plan.skipped, plan.tiles);
        CHECK_EQ(count_tiles(&p), plan.visited);
        double pairs = 0;
        for (int64_t b = 0; b < p.a.B; b++)
            for (int64_t t = 0; t < p.a.T; t++) {
                const struct seen s = case_seen(&p, b, t);
                for (int64_t j = 0; !s.none && j < s.S; j++)
                    pairs += case_visible(&p, &s, b, t, 0, j);
            }
        CHECK_EQ(plan.flops, 2 * (8 + 8) * pairs * 4);
        fence_free();
    }
}

TEST(tiles_that_a_mask_or_bias_closes_are_not_visited)
{
    EACH_ISA(isa) EACH_PRECISION for (int with_bias = 0; with_bias < 2; with_bias++)
    {
        enum { N = 2 * QKV_CHUNK };
        struct problem p =
            case_new((struct qkv_attention){ .B = 1, .T = 96, .S = N, .H = 1, .E = 8 },
                     with_bias ? BIAS : MASK);
        for (int64_t i = 0; i < 96 * N; i++) { // only keys 192..255 are visible
            const bool open = i % N >= 192 && i % N < 256;
            if (with_bias)
                p.bias[i] = open ? 1 : -INFINITY;
            else
                p.mask[i] = open;
        }
        const struct qkv_attention_plan plan = qkv_attention_plan(&p.a);
        CHECK_EQ(count_tiles(&p), plan.tiles * 64 / N);
        fence_free();
    }
}

CHECK_MAIN(CASE(poison_behind_any_mask_is_never_seen),
           CASE(poison_in_a_partly_masked_tile_reaches_only_the_rows_that_attend),
           CASE(poison_in_bias_and_query_stays_in_its_row),
           CASE(a_row_that_sees_nothing_is_zero_and_its_lse_is_minus_infinity),
           CASE(the_largest_and_the_smallest_scale_are_scales),
           CASE(rows_far_behind_the_last_key_end_once), CASE(the_plan_counts_the_tiles_that_run),
           CASE(tiles_that_a_mask_or_bias_closes_are_not_visited))
