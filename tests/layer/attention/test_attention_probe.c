// SPDX-License-Identifier: MIT
// test_attention_probe.c: compares probes of attention with the formula in double, over a grid of
// sizes and features; checks that probes agree with each other bit for bit, and do not change
// forward's results.
//
// A weight of a probe is exp(score - lse): its error is that of a weight of forward
// (attention_case.h) plus the roundings of lse and of the exponent, a few UNIT of |score| and
// |lse|.
#include "attention_case.h"
#include "layer/attention/attention_probe_work.h"

// Allocates the arrays of a request for all statistics, between guard pages.
static struct qkv_probe probe_new(const struct qkv_attention *a, int64_t top_k, int64_t reach,
                                  int64_t side)
{
    const size_t heads = (size_t)(a->B * a->H), rows = heads * (size_t)a->T;
    int64_t *row = fenced((size_t)a->T * sizeof *row);
    for (int64_t t = 0; t < a->T; t++) row[t] = t;
    return (struct qkv_probe){
        .top_k = top_k,
        .top_weight = fenced_float(rows * (size_t)top_k),
        .top_key = fenced(rows * (size_t)top_k * sizeof(int32_t)),
        .rows = a->T,
        .row = row,
        .row_weights = fenced_float(rows * (size_t)a->S),
        .received = fenced_float(heads * (size_t)a->S),
        .entropy = fenced_float(rows),
        .distance = fenced_float(rows),
        .reach = reach,
        .offsets = fenced_float(heads * (size_t)(2 * reach + 1)),
        .side = side,
        .tile_max = fenced_float(heads * (size_t)(side * side)),
        .tile_mean = fenced_float(heads * (size_t)(side * side)),
    };
}

// The sums of a head in double, and their rounding error bounds.
struct sums {
    double *received, *received_off; // [S] weight received by each key, and its bound
    double *offsets, *offsets_off;   // [2 reach + 1] weight per distance, and its bound
    // [side][side] mean and maximum of each tile, their bounds, pairs of each tile
    double *mean, *mean_off, *most, *most_off, *pairs;
};
static struct sums sums_new(const struct qkv_attention *a, const struct qkv_probe *p)
{
    const size_t line = (size_t)(2 * p->reach + 1), tiles = (size_t)(p->side * p->side);
    const size_t S = (size_t)a->S;
    double *at = calloc(2 * (S + line) + 5 * tiles, sizeof *at);
    struct sums s = { .received = at, .received_off = at + S };
    at += 2 * S;
    s.offsets = at;
    s.offsets_off = at + line;
    at += 2 * line;
    s.mean = at;
    s.mean_off = at + tiles;
    s.most = at + 2 * tiles;
    s.most_off = at + 3 * tiles;
    s.pairs = at + 4 * tiles;
    return s;
}

// Rounding of probe arrays, which are floats even where reals are doubles; slices are added as
// floats.
static const double kept = sizeof(real) == sizeof(float) ? 0 : 33 * 0x1p-24;

static void near(const char *what, double found, double want, double off, unsigned features,
                 int64_t at)
{
    off += kept * fabs(want);
    if (!(fabs(found - want) <= off + 1e-30))
        fail_msg("%s, %s, features %x: %s[%d] is %.9g, expected %.9g within %.3g", qkv_isa(),
                 qkv_precision_name(case_precision), features, what, (int)at, found, want, off);
}

// Checks that the largest weights are bit-identical to the weights in the full row.
static void check_top(const struct qkv_probe *p, int64_t S, int64_t row)
{
    const float *full = p->row_weights + row * S, *weight = p->top_weight + row * p->top_k;
    const int32_t *key = p->top_key + row * p->top_k;
    bool *taken = calloc((size_t)S + 1, 1);
    for (int64_t n = 0; n < p->top_k; n++) {
        int64_t best = -1;
        for (int64_t j = 0; j < S; j++)
            if (!taken[j] && full[j] > 0 && (best < 0 || full[j] > full[best])) best = j;
        CHECK_EQ(key[n], best);
        CHECK(weight[n] == (best < 0 ? 0 : full[best]));
        if (best >= 0) taken[best] = true;
    }
    free(taken);
}

static void check_row(const struct problem *x, const struct qkv_probe *p, struct sums *s,
                      const struct row *want, unsigned features, int64_t b, int64_t t, int64_t h)
{
    const struct qkv_attention *a = &x->a;
    const int64_t row = (b * a->H + h) * a->T + t;
    const struct seen seen = case_seen(x, b, t);
    const double lse = isinf(want->lse) ? 0 : fabs(want->lse);
    const double part =
        UNIT * (3 * want->spread + (double)want->n + 40 + 6 * lse) + 4 * case_power_unit();
    double entropy = 0, entropy_off = 0, distance = 0;
    for (int64_t j = 0; j < a->S; j++) {
        const double w = want->p[j], off = part * w, apart = (double)(j - seen.at);
        near("row", (double)p->row_weights[row * a->S + j], w, off, features, j);
        const int64_t y = t * p->side / a->T;
        const int64_t key = seen.key + j;
        if (!seen.none && key < a->S) {
            const int64_t tile = y * p->side + key * p->side / a->S;
            s->received[key] += w;
            s->received_off[key] += off;
            s->mean[tile] += w;
            s->mean_off[tile] += off;
            s->most[tile] = fmax(s->most[tile], w);
            s->most_off[tile] = fmax(s->most_off[tile], off);
        }
        if (w <= 0) continue;
        const double bits = -log(w);
        entropy += w * bits;
        entropy_off += (fabs(bits) + 2) * off;
        distance += w * fabs(apart);
        const int64_t place = qkv_max64(-p->reach, qkv_min64(j - seen.at, p->reach)) + p->reach;
        s->offsets[place] += w;
        s->offsets_off[place] += off;
    }
    const double more = UNIT * (double)(want->n + 8);
    near("entropy", (double)p->entropy[row], entropy, entropy_off + more * entropy + part, features,
         row);
    near("distance", (double)p->distance[row], distance, (part + more) * distance, features, row);
    check_top(p, a->S, row);
}

static void check_sums(const struct qkv_attention *a, const struct qkv_probe *p, struct sums *s,
                       unsigned features, int64_t pair)
{
    const double more = UNIT * (double)(a->T + 8);
    const int64_t line = 2 * p->reach + 1, side = p->side;
    for (int64_t j = 0; j < a->S; j++)
        near("received", (double)p->received[pair * a->S + j], s->received[j],
             s->received_off[j] + more * s->received[j], features, j);
    for (int64_t j = 0; j < line; j++)
        near("offsets", (double)p->offsets[pair * line + j], s->offsets[j],
             s->offsets_off[j] + UNIT * (double)(a->T + a->S + 8) * s->offsets[j], features, j);
    for (int64_t t = 0; t < a->T; t++)
        for (int64_t j = 0; j < a->S; j++) s->pairs[t * side / a->T * side + j * side / a->S]++;
    for (int64_t n = 0; n < side * side; n++) {
        const double pairs = fmax(1, s->pairs[n]), mean = s->mean[n] / pairs;
        const double sum_off = UNIT * (double)(a->T + a->S + 8) * mean;
        near("tile_mean", (double)p->tile_mean[pair * side * side + n], mean,
             s->mean_off[n] / pairs + sum_off, features, n);
        near("tile_max", (double)p->tile_max[pair * side * side + n], s->most[n], s->most_off[n],
             features, n);
    }
}

static void check_case(const struct problem *x, const struct qkv_probe *p, unsigned features)
{
    const struct qkv_attention *a = &x->a;
    double *workspace = calloc((size_t)(a->F + a->S), sizeof *workspace);
    struct row want = { .out = workspace, .p = workspace + a->F };
    for (int64_t b = 0; b < a->B; b++)
        for (int64_t h = 0; h < a->H; h++) {
            struct sums s = sums_new(a, p);
            for (int64_t t = 0; t < a->T; t++) {
                case_reference(&want, x, b, t, h, false);
                check_row(x, p, &s, &want, features, b, t, h);
            }
            check_sums(a, p, &s, features, b * a->H + h);
            free(s.received);
        }
    free(workspace);
}

static const int64_t queries[] = { 1, 2, 5, 6, 7, 13, 40 };
static const int64_t keys[] = { 1, 3, 15, 16, 17, 63, 65, 130 };
static const int64_t widths[] = { 1, 4, 16, 20, 25, 33, 64, 80 };

#if defined(QKV_EMULATED) || QKV_FEW
enum { COMBINATIONS = 8 };
#else
enum { COMBINATIONS = 24 };
#endif

TEST(random_combinations_of_all_features_follow_the_formula)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        check_seed = 3;
        for (int n = 0; n < COMBINATIONS; n++) {
            unsigned features = (unsigned)pick(FEATURES);
            if (n % 2) features &= (unsigned)pick(FEATURES); // every second case has fewer features
            features &= ~(unsigned)(NO_SOFTMAX | WEIGHTS);
            struct qkv_attention a = { .B = 1 + pick(2),
                                       .T = queries[pick(7)],
                                       .S = keys[pick(8)],
                                       .E = widths[pick(8)],
                                       .F = widths[pick(8)],
                                       .G = 1 + pick(2) };
            a.H = a.G * (1 + pick(3));
            struct problem x = case_new(a, features);
            const struct qkv_probe p = probe_new(&x.a, pick(qkv_min64(a.S, 40) + 1),
                                                 pick(2) ? pick(4) : pick(a.S + 40), 1 + pick(9));
            x.a.probe = &p;
            case_run(&x);
            check_case(&x, &p, features);
            fence_free();
        }
    }
}

TEST(each_feature_alone_follows_the_formula_across_chunks_and_blocks)
{
    EACH_ISA(isa)
    {
        check_seed = 5;
        for (unsigned bit = 0; 1u << bit < FEATURES; bit++) {
            if (1u << bit == NO_SOFTMAX || 1u << bit == WEIGHTS) continue;
            case_precision = case_precisions[bit % 4];
            const struct qkv_attention a = { .B = 1, .T = 210, .S = 600, .H = 1, .E = 20, .F = 4 };
            const unsigned features = 1u << bit | (1u << bit == BIAS_INFINITE ? (unsigned)BIAS : 0);
            struct problem x = case_new(a, features);
            const struct qkv_probe p = probe_new(&x.a, bit % 2 ? 40 : 7, 100, 16 + bit);
            x.a.probe = &p;
            case_run(&x);
            check_case(&x, &p, features);
            fence_free();
        }
    }
}

static void same(const struct qkv_probe *p, const struct qkv_probe *o,
                 const struct qkv_attention *a)
{
    const size_t heads = (size_t)(a->B * a->H), rows = heads * (size_t)a->T, one = sizeof(float);
    const size_t tiles = heads * (size_t)(p->side * p->side);
    CHECK_BITS(p->top_weight, o->top_weight, rows * (size_t)p->top_k * one);
    CHECK_BITS(p->top_key, o->top_key, rows * (size_t)p->top_k * one);
    CHECK_BITS(p->row_weights, o->row_weights, rows * (size_t)a->S * one);
    CHECK_BITS(p->received, o->received, heads * (size_t)a->S * one);
    CHECK_BITS(p->entropy, o->entropy, rows * one);
    CHECK_BITS(p->distance, o->distance, rows * one);
    CHECK_BITS(p->offsets, o->offsets, heads * (size_t)(2 * p->reach + 1) * one);
    CHECK_BITS(p->tile_max, o->tile_max, tiles * one);
    CHECK_BITS(p->tile_mean, o->tile_mean, tiles * one);
}

TEST(out_and_lse_keep_their_bits_and_threads_change_none)
{
    const int were = qkv_threads();
    EACH_ISA(isa)
    {
        check_seed = 11;
        case_precision = case_precisions[isa_n % 4];
        const struct qkv_attention a = { .B = 1, .T = 700, .S = 500, .H = 1, .E = 16, .F = 16 };
        struct problem x = case_new(a, CAUSAL | BOTTOM_RIGHT | MASK);
        const struct qkv_probe p = probe_new(&x.a, 9, 50, 20), o = probe_new(&x.a, 9, 50, 20);
        real *out = malloc(x.out_n * sizeof *out), *lse = malloc(x.lse_n * sizeof *lse);
        CHECK_EQ(qkv_threads_set(1), QKV_OK);
        case_run(&x);
        memcpy(out, x.out, x.out_n * sizeof *out);
        memcpy(lse, x.lse, x.lse_n * sizeof *lse);
        x.a.probe = &p;
        case_run(&x);
        CHECK_BITS(out, x.out, x.out_n * sizeof *out);
        CHECK_BITS(lse, x.lse, x.lse_n * sizeof *lse);
        CHECK_EQ(qkv_threads_set(2), QKV_OK);
        x.a.probe = &o;
        case_run(&x);
        CHECK_BITS(out, x.out, x.out_n * sizeof *out);
        same(&p, &o, &x.a);
        free(out);
        free(lse);
        fence_free();
    }
    CHECK_EQ(qkv_threads_set(were), QKV_OK);
}

TEST(equal_weights_come_with_the_smaller_key_first)
{
    EACH_ISA(isa)
    {
        case_precision = QKV_PRECISION_F32;
        check_seed = 13;
        const struct qkv_attention a = { .B = 1, .T = 3, .S = 300, .H = 1, .E = 8 };
        struct problem x = case_new(a, 0);
        // three different keys, repeated, so that many weights are equal
        for (int64_t j = 0; j < a.S; j++)
            memcpy(x.k + j * a.E, x.k + j % 3 * a.E, (size_t)a.E * sizeof *x.k);
        for (int64_t k = 20; k <= 200; k += 90) {
            const struct qkv_probe p = probe_new(&x.a, k, 0, 1);
            x.a.probe = &p;
            case_run(&x);
            for (int64_t t = 0; t < a.T; t++) {
                check_top(&p, a.S, t);
                for (int64_t n = 1; n < k; n++) {
                    const float *w = p.top_weight + t * k + n;
                    if (w[0] == w[-1]) CHECK(p.top_key[t * k + n] > p.top_key[t * k + n - 1]);
                }
            }
        }
        fence_free();
    }
}

TEST(what_is_masked_is_never_seen_and_what_is_attended_shows)
{
    EACH_ISA(isa)
    {
        case_precision = QKV_PRECISION_F32;
        check_seed = 17;
        const struct qkv_attention a = { .B = 1, .T = 40, .S = 40, .H = 2, .E = 8 };
        struct problem x = case_new(a, CAUSAL);
        const struct qkv_probe p = probe_new(&x.a, 3, 5, 4);
        x.a.probe = &p;
        x.k[(30 * 2 + 1) * 8 + 2] = (real)NAN; // NaN in key 30 of head 1
        case_run(&x);
        for (int64_t t = 0; t < a.T; t++) {
            CHECK(isfinite(p.entropy[t]) && p.top_key[t * 3] >= 0);
            const int64_t row = a.T + t;
            CHECK_EQ(isnan(p.entropy[row]), t >= 30);
            CHECK_EQ(isnan(p.distance[row]), t >= 30);
            CHECK_EQ(isnan(p.top_weight[row * 3]), t >= 30);
            CHECK_EQ(p.top_key[row * 3] == -1, t >= 30);
        }
        for (int64_t j = 0; j < a.S; j++) {
            CHECK(isfinite(p.received[j]));
            // every key is NaN, because rows 30 and later see all earlier keys
            CHECK(isnan(p.received[a.S + j]));
        }
        fence_free();
    }
}

#ifndef QKV_DOUBLE
TEST(probes_alone_are_those_of_forward)
{
    EACH_ISA(isa)
    {
        case_precision = QKV_PRECISION_F32;
        check_seed = 19;
        const struct qkv_attention a = { .B = 2, .T = 50, .S = 90, .H = 4, .G = 2, .E = 12 };
        struct problem x = case_new(a, ALIBI | SINKS | WINDOW);
        const struct qkv_probe p = probe_new(&x.a, 5, 10, 8), o = probe_new(&x.a, 5, 10, 8);
        x.a.probe = &p;
        case_run(&x);
        const struct qkv_attention_plan plan = qkv_attention_probe_plan(&x.a, &o);
        CHECK_EQ(plan.status, QKV_OK);
        CHECK(plan.flops > 0 && plan.scratch > 0);
        void *scratch = fenced(plan.scratch);
        CHECK_EQ(qkv_attention_probe(&o, x.q, x.k, x.lse, &x.a, scratch), QKV_OK);
        same(&p, &o, &x.a);
        fence_free();
    }
}

static void refused(const struct qkv_attention *a, const struct qkv_probe *p, qkv_status want,
                    const char *word)
{
    const struct qkv_attention_plan plan = qkv_attention_probe_plan(a, p);
    struct qkv_attention with = *a;
    CHECK_EQ(plan.status, want);
    if (!strstr(plan.reason, word)) fail_msg("'%s' lacks '%s'", plan.reason, word);
    with.probe = p;
    CHECK_EQ(qkv_attention_plan(&with).status, want);
}

TEST(what_cannot_be_probed_is_refused_with_the_reason)
{
    float x[64];
    int32_t keys_of[64];
    int64_t row[] = { 1, 1 };
    struct qkv_attention a = { .B = 1, .T = 4, .S = 4, .H = 1, .E = 4 };
    const struct qkv_probe top = { .top_k = 5, .top_weight = x, .top_key = keys_of };
    const struct qkv_probe half = { .top_k = 2, .top_weight = x };
    const struct qkv_probe twice = { .rows = 2, .row = row, .row_weights = x };
    const int64_t low = -1, high = a.T;
    const struct qkv_probe negative = { .rows = 1, .row = &low, .row_weights = x };
    const struct qkv_probe large = { .rows = 1, .row = &high, .row_weights = x };
    const struct qkv_probe rows = { .rows = 2, .row = row };
    const struct qkv_probe far = { .reach = -1, .offsets = x };
    const struct qkv_probe flat = { .side = 0, .tile_max = x };
    const struct qkv_probe fine = { .entropy = x };
    refused(&a, &top, QKV_ERR_USAGE, "top_k");
    refused(&a, &half, QKV_ERR_USAGE, "found NULL in top_key");
    refused(&a, &rows, QKV_ERR_USAGE, "found NULL in row_weights");
    refused(&a, &twice, QKV_ERR_USAGE, "ascending");
    refused(&a, &negative, QKV_ERR_USAGE, "found -1");
    refused(&a, &large, QKV_ERR_USAGE, "ascending");
    refused(&a, &far, QKV_ERR_USAGE, "reach");
    refused(&a, &flat, QKV_ERR_USAGE, "tiles");
    CHECK_EQ(qkv_attention_probe_plan(&a, NULL).status, QKV_ERR_USAGE);
    CHECK_EQ(qkv_attention_probe_plan(NULL, &fine).status, QKV_ERR_USAGE);
    a.no_softmax = true;
    refused(&a, &fine, QKV_ERR_USAGE, "softmax");
}

TEST(arrays_that_lie_on_others_are_refused)
{
    enum { T = 8, E = 4 };
    float q[T * E] = { 0 }, k[T * E] = { 0 }, lse[T] = { 0 }, x[T];
    _Alignas(64) static char scratch[1 << 20];
    const struct qkv_attention a = { .B = 1, .T = T, .S = T, .H = 1, .E = E };
    struct qkv_probe p = { .entropy = x };
    CHECK(qkv_attention_probe_plan(&a, &p).scratch <= sizeof scratch);
    CHECK_EQ(qkv_attention_probe(&p, q, k, lse, &a, scratch), QKV_OK);
    CHECK_EQ(qkv_attention_probe(&p, q, NULL, lse, &a, scratch), QKV_ERR_USAGE);
    CHECK_EQ(qkv_attention_probe(&p, q, k, NULL, &a, scratch), QKV_ERR_USAGE);
    CHECK_EQ(qkv_attention_probe(&p, q, k, x, &a, scratch), QKV_ERR_USAGE);
    p.entropy = (float *)(void *)scratch;
    CHECK_EQ(qkv_attention_probe(&p, q, k, lse, &a, scratch), QKV_ERR_USAGE);
    p.entropy = (float *)(void *)((char *)x + 1);
    CHECK_EQ(qkv_attention_probe(&p, q, k, lse, &a, scratch), QKV_ERR_USAGE);
}

TEST(scratch_is_linear_in_the_tokens)
{
    const struct qkv_probe p = { .top_k = 16,
                                 .top_weight = (float *)64,
                                 .top_key = (int32_t *)64,
                                 .received = (float *)64,
                                 .entropy = (float *)64 };
    struct qkv_attention a = { .B = 1, .T = 1 << 14, .S = 1 << 14, .H = 12, .E = 64 };
    const size_t some = qkv_attention_probe_plan(&a, &p).scratch;
    a.T = a.S = 1 << 16;
    CHECK(qkv_attention_probe_plan(&a, &p).scratch <= 4 * some);
}
#define ALONE                                                                                      \
    , CASE(probes_alone_are_those_of_forward),                                                     \
        CASE(what_cannot_be_probed_is_refused_with_the_reason),                                    \
        CASE(arrays_that_lie_on_others_are_refused), CASE(scratch_is_linear_in_the_tokens)
#else
#define ALONE
#endif

TEST(nothing_to_do_is_done)
{
    EACH_ISA(isa)
    {
        case_precision = QKV_PRECISION_F32;
        struct problem x =
            case_new((struct qkv_attention){ .B = 2, .T = 3, .S = 0, .H = 2, .E = 5 }, 0);
        const struct qkv_probe p = probe_new(&x.a, 0, 2, 3);
        x.a.probe = &p;
        case_run(&x);
        for (int i = 0; i < 12; i++) CHECK(p.entropy[i] == 0 && p.distance[i] == 0);
        for (int i = 0; i < 4 * 9; i++) CHECK(p.tile_max[i] == 0 && p.tile_mean[i] == 0);
        struct problem none =
            case_new((struct qkv_attention){ .B = 2, .T = 0, .S = 3, .H = 2, .E = 5 }, 0);
        const struct qkv_probe o = probe_new(&none.a, 2, 2, 3);
        none.a.probe = &o;
        case_run(&none);
        for (int i = 0; i < 12; i++) CHECK(o.received[i] == 0);
        fence_free();
    }
}

CHECK_MAIN(CASE(random_combinations_of_all_features_follow_the_formula),
           CASE(each_feature_alone_follows_the_formula_across_chunks_and_blocks),
           CASE(out_and_lse_keep_their_bits_and_threads_change_none),
           CASE(equal_weights_come_with_the_smaller_key_first),
           CASE(what_is_masked_is_never_seen_and_what_is_attended_shows),
           CASE(nothing_to_do_is_done) ALONE)
