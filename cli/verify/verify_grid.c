// SPDX-License-Identifier: MIT
// verify_grid.c: lists the test cases of attention and fills the arrays of each case.
#include "verify/verify.h"
#include <stdlib.h>
#include <string.h>

// When a row of verify_grid.def is tested. FULL: not with --quick; QUICK: always; LONG: not with
// --quick, and only with a few features.
enum { FULL, QUICK, LONG };

static const struct {
    int64_t T, S;
    int when;
} sizes[] = {
#define VERIFY_SIZE(T, S, WHEN) { T, S, WHEN },
#include "verify/verify_grid.def"
#undef VERIFY_SIZE
};
static const struct {
    int64_t E, F;
    int when;
} widths[] = {
#define VERIFY_WIDTH(E, F, WHEN) { E, F, WHEN },
#include "verify/verify_grid.def"
#undef VERIFY_WIDTH
};
static const struct {
    const char *name;
    unsigned bits;
    int when;
} features[] = {
#define VERIFY_FEATURES(NAME, BITS, WHEN) { NAME, BITS, WHEN },
#include "verify/verify_grid.def"
#undef VERIFY_FEATURES
};
static const struct {
    const char *name;
    enum verify_data data;
    double factor;
    int when;
} data[] = {
#define VERIFY_DATA(NAME, DATA, FACTOR, WHEN) { NAME, DATA, FACTOR, WHEN },
#include "verify/verify_grid.def"
#undef VERIFY_DATA
};
#define COUNT(x) (int64_t)(sizeof(x) / sizeof *(x))

// Returns true for the size with which every width, feature and kind of data is tested.
static bool usual_size(int64_t i)
{
    return sizes[i].T == 97 && sizes[i].S == 97;
}
// Returns true for the width with which every size, feature and kind of data is tested.
static bool usual_width(int64_t i)
{
    return widths[i].E == 64 && widths[i].F == 64;
}

// Returns true if a combination of size, width, feature and data is tested. Without --quick: every
// size is tested with every feature and kind of data, but a large size with only one of them at a
// time; every width is tested with every feature and kind of data at the usual size. With --quick:
// only one of the four differs from the usual at a time, but every size is tested with every
// feature.
static bool runs(int64_t size, int64_t width, int64_t feature, int64_t d, bool quick)
{
    const bool no_softmax = features[feature].bits & NO_SOFTMAX;
    const bool large = sizes[size].T * sizes[size].S > 100000;
    if (no_softmax && (data[d].data != SCALED || data[d].factor > 30)) return false; // overflows
    if (sizes[size].when == LONG && (feature > 3 || data[d].data != SCALED || data[d].factor > 30))
        return false;
    // how many of feature and data are not the first row of their table
    const int off = (feature > 0) + (d > 0);
    if (quick)
        return sizes[size].when == QUICK && widths[width].when == QUICK &&
               features[feature].when == QUICK && data[d].when == QUICK &&
               off + !usual_width(width) + (d > 0 && !usual_size(size)) <= 1;
    if (!usual_width(width)) return usual_size(size) || (sizes[size].T == 33 && off <= 1);
    return !large || off <= 1;
}

// Returns true if a combination is tested in the backward pass. Since all rows are computed, not
// only a sample, long sizes are left out. Features, and widths other than the usual, are tested
// with normal scores only; other kinds of data are tested without features and with all features at
// once.
static bool runs_back(int64_t size, int64_t width, int64_t feature, int64_t d, bool quick)
{
    const int64_t pairs = sizes[size].T * sizes[size].S;
    const bool ends = !feature || feature == COUNT(features) - 1;
    if (features[feature].bits & NO_SOFTMAX || data[d].data == HUGE_NUMBERS ||
        sizes[size].when == LONG || pairs > 300000)
        return false;
    if (quick)
        return usual_width(width) && features[feature].when == QUICK && d < 2 &&
               (usual_size(size) ? !d || ends : sizes[size].when == QUICK && !feature && !d);
    if (!usual_width(width)) return usual_size(size) && d < 2 && ends;
    return (d < 2 || ends) && (pairs < 100000 || (!feature && !d));
}

static bool next(struct verify_case *c, int64_t *at, bool quick,
                 bool (*wanted)(int64_t, int64_t, int64_t, int64_t, bool))
{
    for (; *at < COUNT(sizes) * COUNT(widths) * COUNT(features) * COUNT(data); ++*at) {
        int64_t n = *at;
        const int64_t d = n % COUNT(data), f = (n /= COUNT(data)) % COUNT(features),
                      w = (n /= COUNT(features)) % COUNT(widths), s = n / COUNT(widths);
        if (!wanted(s, w, f, d, quick)) continue;
        *c = (struct verify_case){ .T = sizes[s].T,
                                   .S = sizes[s].S,
                                   .E = widths[w].E,
                                   .F = widths[w].F,
                                   .features = features[f].bits,
                                   .data = data[d].data,
                                   .factor = data[d].factor };
        snprintf(c->name, sizeof c->name, "T %lld, S %lld, E %lld, F %lld: %s, %s", (long long)c->T,
                 (long long)c->S, (long long)c->E, (long long)c->F, features[f].name, data[d].name);
        ++*at;
        return true;
    }
    return false;
}

bool verify_grid_next(struct verify_case *c, int64_t *at, bool quick)
{
    return next(c, at, quick, runs);
}

bool verify_grid_next_back(struct verify_case *c, int64_t *at, bool quick)
{
    return next(c, at, quick, runs_back);
}

// ---- numbers -----------------------------------------------------------------------------------
double verify_normal(struct verify_random *r)
{
    double sum = 0; // sum of 12 uniform numbers from -1/2 to 1/2, which has variance 1
    for (int i = 0; i < 6; i++) {
        const uint64_t bits = verify_bits(r);
        sum += (double)(int32_t)bits + (double)(int32_t)(bits >> 32);
    }
    return sum * 0x1p-32;
}

void verify_put(void *x, qkv_dtype type, int64_t i, double value)
{
    const float one = (float)value;
    if (type == QKV_F32)
        ((float *)x)[i] = one;
    else
        qkv_from_f32((char *)x + (size_t)i * qkv_dtype_size(type), type, &one, 1);
}

void *verify_numbers(size_t n, qkv_dtype type, double factor, struct verify_random *r)
{
    void *x = cmd_alloc(n, qkv_dtype_size(type));
    for (size_t i = 0; i < n; i++) verify_put(x, type, (int64_t)i, factor * verify_normal(r));
    return x;
}

static float *floats(size_t n, struct verify_random *r)
{
    return verify_numbers(n, QKV_F32, 1, r);
}

// ---- masks -------------------------------------------------------------------------------------
static void pack(struct verify_problem *p, struct verify_random *r)
{
    struct qkv_attention *const a = &p->a;
    const int64_t n = a->T < 4 ? 1 : 4;
    p->q_offsets = cmd_alloc((size_t)n + 1, sizeof(int64_t));
    p->k_offsets = cmd_alloc((size_t)n + 1, sizeof(int64_t));
    // The sequences together have all keys from the first sequence to the last. A few keys are
    // outside.
    for (int64_t i = 0; i <= n; i++) {
        p->q_offsets[i] = i * (a->T - 1) / n + (a->T > 1);
        p->k_offsets[i] = i * (a->S - 1) / n + (a->S > 1);
        if (i && i < n && a->S > 40) p->k_offsets[i] += verify_pick(r, a->S / 8);
    }
    if (a->T == 1) p->q_offsets[n] = 1;
    if (a->S == 1) p->k_offsets[n] = 1;
    a->sequences = n;
    a->q_offsets = p->q_offsets;
    a->k_offsets = p->k_offsets;
}

static void add_masks(struct verify_problem *p, const struct verify_case *c,
                      struct verify_random *r)
{
    struct qkv_attention *const a = &p->a;
    const int64_t square = a->T * a->S;
    if (c->features & LENGTHS) {
        p->lengths = cmd_alloc((size_t)a->B, sizeof(int64_t));
        for (int64_t b = 0; b < a->B; b++) p->lengths[b] = a->S - (b * 7 + a->S / 3) % a->S;
        a->k_lengths = p->lengths;
    }
    if (c->features & MASK) { // each head has its own mask, the same for all batch items
        p->mask = cmd_alloc((size_t)(a->H * square), 1);
        for (int64_t i = 0; i < a->H * square; i++)
            p->mask[i] = i / 64 % 5 && verify_pick(r, 3) ? 1 : 0;
        a->mask.at = p->mask;
        a->mask.h = square;
        a->mask.t = a->S;
    }
    if (c->features & BIAS || c->data == MINUS_INFINITY_FIRST) { // each batch item has its own bias
        p->bias = floats((size_t)(a->B * square), r);
        for (int64_t i = 0; i < a->B * square && c->data == MINUS_INFINITY_FIRST; i++)
            if (i % a->S < a->S / 3) p->bias[i] = -INFINITY;
        a->bias.at = p->bias;
        a->bias.b = square;
        a->bias.t = a->S;
    }
    if (c->features & ALIBI) {
        p->slopes = cmd_alloc((size_t)a->H, sizeof(float));
        qkv_alibi_slopes(p->slopes, a->H);
        a->alibi = p->slopes;
    }
    if (c->features & SINKS) a->sinks = p->sinks = floats((size_t)a->H, r);
}

// ---- q, k and v --------------------------------------------------------------------------------
// Sets element e of key j to `value`, for every batch item and head.
static void key_put(struct verify_problem *p, int64_t j, int64_t e, double value)
{
    const struct qkv_attention *a = &p->a;
    for (int64_t b = 0; b < a->B; b++)
        for (int64_t g = 0; g < a->G; g++)
            verify_put(p->k, p->type,
                       b * a->k_strides.b + j * a->k_strides.t + g * a->k_strides.h + e, value);
}

// Sets the first element of key j such that all scores of the key increase by `target`. The first
// element of every query is 32.
static void aim(struct verify_problem *p, int64_t j, double target)
{
    key_put(p, j, 0, target * sqrt((double)p->a.E) / 32);
}

// Makes every second key similar to the key before it. If the scores of a row are far apart, a
// single key has all weight, and no sum is tested; with these pairs, at least two keys compete in
// each row.
static void pair_keys(struct verify_problem *p, double factor, struct verify_random *r)
{
    const struct qkv_attention *a = &p->a;
    for (int64_t b = 0; b < a->B; b++)
        for (int64_t g = 0; g < a->G; g++)
            for (int64_t j = 1; j < a->S; j += 2) {
                const int64_t at = b * a->k_strides.b + j * a->k_strides.t + g * a->k_strides.h;
                for (int64_t e = 0; e < a->E; e++)
                    verify_put(p->k, p->type, at + e,
                               verify_at(p->k, p->type, at - a->k_strides.t + e) +
                                   verify_normal(r) / factor);
            }
}

static void shape_scores(struct verify_problem *p, const struct verify_case *c,
                         struct verify_random *r)
{
    const struct qkv_attention *a = &p->a;
    const int64_t queries = a->B * a->T * a->H;
    if (c->data == SCALED && c->factor > 1) pair_keys(p, c->factor, r);
    if (c->data == SPIKE || c->data == RISING) {
        for (int64_t i = 0; i < queries; i++) verify_put(p->q, p->type, i * a->E, 32);
        for (int64_t j = 0; j < a->S; j++)
            aim(p, j, c->data == RISING ? (double)j : j == a->S * 2 / 3 ? 1000 : 0);
    }
    for (int64_t j = 0; c->data == EQUAL && j < a->S; j++)
        for (int64_t e = 0; e < a->E; e++) key_put(p, j, e, verify_at(p->k, p->type, e));
}

// Sets the keys and values to which no query attends to NaN, since the kernels must not use them.
static void spoil(struct verify_problem *p)
{
    const struct qkv_attention *a = &p->a;
    for (int64_t b = 0; b < a->B; b++)
        for (int64_t j = 0; j < a->S; j++) {
            const bool seen = a->sequences ? j >= a->k_offsets[0] && j < a->k_offsets[a->sequences]
                                           : !a->k_lengths || j < a->k_lengths[b];
            for (int64_t g = 0; g < a->G && !seen; g++) {
                verify_put(p->k, p->type,
                           b * a->k_strides.b + j * a->k_strides.t + g * a->k_strides.h, NAN);
                verify_put(p->v, p->type,
                           b * a->v_strides.b + j * a->v_strides.t + g * a->v_strides.h, NAN);
            }
        }
}

static struct qkv_strides strides(int64_t L, int64_t H, int64_t E, bool heads_first)
{
    return heads_first ? (struct qkv_strides){ H * L * E, E, L * E }
                       : (struct qkv_strides){ L * H * E, H * E, E };
}

void verify_problem_new(struct verify_problem *p, const struct verify_case *c, qkv_dtype type,
                        uint64_t seed)
{
    // The seed depends on the name of the case (FNV-1a), so that a case has the same numbers,
    // whatever other cases run.
    struct verify_random r = { seed };
    for (const char *n = c->name; *n; n++) r.state = (r.state ^ (unsigned char)*n) * 1099511628211u;
    const int64_t H = c->features & GROUPED ? 6 : c->T * c->S > 2000000 ? 1 : 2;
    // short cases get several batch items, since the largest of few errors is too random
    const int64_t few = 64 / (c->T * H);
    const bool first = c->features & HEADS_FIRST;
    *p = (struct verify_problem){ .type = type };
    struct qkv_attention *const a = &p->a;
    *a = (struct qkv_attention){ .B = c->features & PACKED || few < 2 ? 1
                                      : few > 16                      ? 16
                                                                      : few,
                                 .T = c->T,
                                 .S = c->S,
                                 .H = H,
                                 .G = c->features & GROUPED ? 2 : H,
                                 .E = c->E,
                                 .F = c->F,
                                 .scale = (float)(1 / sqrt((double)c->E)),
                                 .causal = c->features & CAUSAL,
                                 .no_softmax = c->features & NO_SOFTMAX };
    a->diagonal = c->features & BOTTOM_RIGHT ? QKV_BOTTOM_RIGHT : QKV_TOP_LEFT;
    if (c->features & WINDOW) a->window.on = true, a->window.left = 40, a->window.right = 17;
    if (c->features & SOFTCAP) a->softcap = 2;
    a->q_strides = strides(a->T, a->H, a->E, first);
    a->k_strides = strides(a->S, a->G, a->E, first);
    a->v_strides = strides(a->S, a->G, a->F, first);
    a->out_strides = strides(a->T, a->H, a->F, first);
    if (c->features & PACKED) pack(p, &r);
    add_masks(p, c, &r);
    const bool huge = c->data == HUGE_NUMBERS, half = type == QKV_F16;
    const double big = !huge  ? 1
                       : half ? 0x1p12
                              : 0x1p56,
                 tall = !huge  ? 1
                        : half ? 0x1p13
                               : 0x1p100;
    p->q = verify_numbers((size_t)(a->B * a->T * a->H * a->E), type, big * c->factor, &r);
    p->k = verify_numbers((size_t)(a->B * a->S * a->G * a->E), type, big, &r);
    p->v = verify_numbers((size_t)(a->B * a->S * a->G * a->F), type, tall, &r);
    shape_scores(p, c, &r);
    spoil(p);
    p->out_count = (size_t)(a->B * a->T * a->H * a->F);
    p->lse_count = (size_t)(a->B * a->T * a->H);
    p->out = cmd_alloc(p->out_count, qkv_dtype_size(type));
    p->lse = cmd_alloc(p->lse_count, sizeof(float));
}

void verify_problem_free(struct verify_problem *p)
{
    void *all[] = { p->q,    p->k,      p->v,     p->out,     p->lse,       p->bias,
                    p->mask, p->slopes, p->sinks, p->lengths, p->q_offsets, p->k_offsets };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    *p = (struct verify_problem){ 0 };
}
