// SPDX-License-Identifier: MIT
// attention_case.h: creates a random attention problem with any features, and computes its result
// by the formula in double.
//
//   case_new()        a problem of the requested sizes and features, every array between guard
//   pages
//   case_run()        attention on it: out, lse, weights
//   case_reference()  one row by the formula in double; or with every step rounded to float, "the
//   plain formula" that errors are compared with
//   EACH_PRECISION    loops over precisions: case_new draws numbers that the precision stores
//   exactly, case_run converts them to its type and converts the result back
#ifndef QKV_ATTENTION_CASE_H
#define QKV_ATTENTION_CASE_H
#include "check.h"
#include "layer/attention/attention_work.h"
#include <stdlib.h>

#ifdef QKV_DOUBLE
#define UNIT 0x1p-53
#else
#define UNIT 0x1p-24
#endif

enum feature {
    LENGTHS = 1 << 0,
    BIAS = 1 << 1,
    MASK = 1 << 2,
    ALIBI = 1 << 3,
    SOFTCAP = 1 << 4,
    SINKS = 1 << 5,
    NO_SOFTMAX = 1 << 6,
    CAUSAL = 1 << 7,
    BOTTOM_RIGHT = 1 << 8,
    WINDOW = 1 << 9,
    PACKED = 1 << 10,
    HEADS_FIRST = 1 << 11,
    BIAS_INFINITE = 1 << 12,
    BROADCAST = 1 << 13,
    WEIGHTS = 1 << 14,
    NEGATIVE_SCALE = 1 << 15,
    RELATIVE = 1 << 16,
    DROPOUT = 1 << 17,
    FEATURES = 1 << 18
};

struct problem {
    struct qkv_attention a;
    real *q, *k, *v, *out, *lse, *weights;
    size_t q_n, k_n, v_n, out_n, lse_n, weights_n;
    float *bias;
    uint8_t *mask;
    int64_t *lengths, *q_offsets, *k_offsets;
};

static qkv_precision case_precision; // precision of all functions below
static const qkv_precision case_precisions[] = { QKV_PRECISION_F32, QKV_PRECISION_BF16,
                                                 QKV_PRECISION_F16, QKV_PRECISION_INT8 };
// Returns true if the current ISA computes attention in this precision with other functions than
// all weaker ISAs. If not, a test of this ISA cannot have another result.
static inline bool case_new_here(void)
{
    const struct qkv_kernels *here = qkv_kernel(), *weaker;
    for (int i = 0; (weaker = qkv_kernel_isa(i)) != NULL && weaker != here; i++)
        if (!(QKV_FEW && i) && weaker->philox == here->philox &&
            weaker->probe_rows == here->probe_rows &&
            weaker->attention[case_precision] == here->attention[case_precision] &&
            weaker->attention_back[case_precision] == here->attention_back[case_precision])
            return false;
    return true;
}
#define EACH_PRECISION                                                                             \
    for (int precision_n = 0; case_precision = case_precisions[precision_n % 4], precision_n < 4;  \
         precision_n++)                                                                            \
        if (!case_new_here() || check_leaves_out_precision(precision_n))                           \
            continue;                                                                              \
        else

static inline const struct qkv_attention_kernels *case_family(void)
{
    return qkv_kernel()->attention[case_precision];
}
// Returns half an ulp of the type of out at numbers near 1; 0 if out is real.
static inline double case_out_unit(void)
{
    const qkv_dtype type = case_family()->type;
    return type == QKV_BF16 ? 0x1p-8 : type == QKV_F16 ? 0x1p-11 : 0;
}
// Returns the error of the powers in a softmax of bf16 products (docs/numerics.md).
static inline double case_power_unit(void)
{
    return case_family()->type == QKV_BF16 && case_family()->native ? 0x1p-13 : 0;
}
// Returns the error of the weights in a softmax of bf16 products, which are rounded to bf16.
static inline double case_share_unit(void)
{
    return case_power_unit() > 0 ? 0x1p-8 + 0x1p-13 : 0;
}
// Returns the error of a query or weight that products of 8-bit keys and values round to 16 bits,
// relative to the largest of its row: half a step, and a little more because the scale is rounded
// too.
static inline double case_step16(void)
{
    const bool whole = case_precision == QKV_PRECISION_INT8 && case_family()->native;
    return whole ? (0.5 + 32767 * 0x1p-22) / 32767 : 0;
}
static inline double case_rounded(double x, qkv_dtype type)
{
    if (type == QKV_BF16) return (double)qkv_bf16_to_f32(qkv_f32_to_bf16((float)x));
    if (type == QKV_F16) return (double)qkv_f16_to_f32(qkv_f32_to_f16((float)x));
    return x;
}

static inline int64_t pick(int64_t n) // returns an integer in 0 .. n-1
{
    check_random();
    return (int64_t)(check_seed >> 33) % n;
}
static inline real *fenced_real(size_t n)
{
    real *x = fenced(n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = (real)(float)check_gauss();
    return x;
}
// Draws rows of `width` numbers that the precision stores exactly; quantised rows have the scale
// 1/32.
static inline real *case_numbers(size_t n, int64_t width, bool quantised)
{
    real *x = fenced_real(n);
    for (size_t i = 0; i < n; i++) {
        x[i] = (real)case_rounded((double)x[i], case_family()->type);
        if (quantised) x[i] = (real)(rint(fmax(-127, fmin(127, 32 * (double)x[i]))) / 32 + 0.0);
    }
    for (size_t i = 0; quantised && i < n; i += (size_t)width)
        x[i + (size_t)pick(width)] = pick(2) ? 127 / (real)32 : -127 / (real)32;
    return x;
}
static inline float *fenced_float(size_t n)
{
    float *x = fenced(n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = (float)check_gauss();
    return x;
}

static inline void case_packed(struct problem *p)
{
    struct qkv_attention *a = &p->a;
    const int64_t n = 1 + pick(pick(8) ? 4 : 12), T = a->T, S = a->S;
    a->B = 1;
    a->sequences = n;
    p->q_offsets = fenced((size_t)(n + 1) * sizeof(int64_t));
    p->k_offsets = fenced((size_t)(n + 1) * sizeof(int64_t));
    for (int64_t i = 0, t = 0, s = 0; i <= n; i++) {
        p->q_offsets[i] = t;
        p->k_offsets[i] = s;
        t += pick(T - t + 1);
        s += pick(S - s + 1);
    }
    a->q_offsets = p->q_offsets;
    a->k_offsets = p->k_offsets;
}

static inline void case_masks(struct problem *p, unsigned features)
{
    struct qkv_attention *a = &p->a;
    const bool wide = !(features & BROADCAST);
    const int64_t b = wide ? a->H * a->T * a->S : 0, h = wide ? a->T * a->S : 0, t = a->S;
    const size_t n = (size_t)((wide ? a->B * a->H : 1) * a->T * a->S);
    if (features & BIAS) {
        p->bias = fenced_float(n);
        for (size_t i = 0; i < n && (features & BIAS_INFINITE); i++)
            if (pick(3) == 0 || i / 64 % 3 == 0) p->bias[i] = -INFINITY;
        a->bias.at = p->bias;
        a->bias.b = b;
        a->bias.h = h;
        a->bias.t = t;
    }
    if (features & MASK) {
        p->mask = fenced(n);
        for (size_t i = 0; i < n; i++) p->mask[i] = (uint8_t)(i / 64 % 3 == 0 ? 0 : pick(3));
        a->mask.at = p->mask;
        a->mask.b = b;
        a->mask.h = h;
        a->mask.t = t;
    }
    if (features & ALIBI) {
        float *slopes = fenced((size_t)a->H * sizeof *slopes);
        qkv_alibi_slopes(slopes, a->H);
        a->alibi = slopes;
    }
    if (features & RELATIVE) {
        a->relative.reach = pick(2) ? pick(4) : pick(a->S + 40);
        a->relative.at = fenced_float((size_t)(a->H * (2 * a->relative.reach + 1)));
    }
    if (features & DROPOUT) {
        a->dropout.p = pick(2) ? .25f : .6f;
        a->dropout.seed = check_seed;
        a->dropout.site = check_seed >> 7;
    }
    if (features & SINKS) a->sinks = fenced_float((size_t)a->H);
}

// Returns a problem with the sizes in a; all other numbers are drawn at random.
static inline struct problem case_new(struct qkv_attention a, unsigned features)
{
    if (!a.G) a.G = a.H;
    if (!a.F) a.F = a.E;
    struct problem p = { .a = a };
    p.a.precision = case_precision;
    if (features & PACKED) case_packed(&p);
    struct qkv_attention *w = &p.a;
    const int64_t items = w->sequences ? w->sequences : w->B;
    w->causal = features & CAUSAL;
    w->diagonal = features & BOTTOM_RIGHT ? QKV_BOTTOM_RIGHT : QKV_TOP_LEFT;
    if (features & WINDOW) {
        w->window.on = true;
        w->window.left = pick(w->S + 8) - 1;
        w->window.right = pick(w->S + 8) - 1;
    }
    if (features & LENGTHS) {
        p.lengths = fenced((size_t)items * sizeof(int64_t));
        for (int64_t i = 0; i < items; i++)
            p.lengths[i] = pick((w->sequences ? p.k_offsets[i + 1] - p.k_offsets[i] : w->S) + 1);
        w->k_lengths = p.lengths;
    }
    if (features & SOFTCAP) w->softcap = 1.5f;
    if (features & NEGATIVE_SCALE) w->scale = -0.3f;
    w->no_softmax = features & NO_SOFTMAX;
    case_masks(&p, features);
    if (features & HEADS_FIRST) {
        w->q_strides = (struct qkv_strides){ w->H * w->T * w->E, w->E, w->T * w->E };
        w->k_strides = (struct qkv_strides){ w->G * w->S * w->E, w->E, w->S * w->E };
        w->v_strides = (struct qkv_strides){ w->G * w->S * w->F, w->F, w->S * w->F };
        w->out_strides = (struct qkv_strides){ w->H * w->T * w->F, w->F, w->T * w->F };
    }
    const bool int8 = case_precision == QKV_PRECISION_INT8;
    p.q = case_numbers(p.q_n = (size_t)(w->B * w->T * w->H * w->E), w->E, false);
    p.k = case_numbers(p.k_n = (size_t)(w->B * w->S * w->G * w->E), w->E, int8);
    p.v = case_numbers(p.v_n = (size_t)(w->B * w->S * w->G * w->F), w->F, int8);
    p.out = fenced_real(p.out_n = (size_t)(w->B * w->T * w->H * w->F));
    p.lse = fenced_real(p.lse_n = (size_t)(w->B * w->T * w->H));
    if (features & WEIGHTS) p.weights = fenced_real(p.weights_n = p.lse_n * (size_t)w->S);
    return p;
}

// Returns the number of elements from the first to the last element of an array.
static inline size_t case_reach(struct qkv_strides s, int64_t B, int64_t L, int64_t H, int64_t E)
{
    if (!B || !L) return 0;
    if (!s.b && !s.t && !s.h) s = (struct qkv_strides){ L * H * E, H * E, E };
    return (size_t)((B - 1) * s.b + (L - 1) * s.t + (H - 1) * s.h + E);
}
// Copies an array to the type of the family, between guard pages; an array of real is returned
// unchanged.
static inline void *case_stored(real *x, size_t n)
{
    const qkv_dtype type = case_family()->type;
    if (type == QKV_REAL) return x;
    uint16_t *h = fenced(n * sizeof *h);
    for (size_t i = 0; i < n; i++)
        h[i] = type == QKV_BF16 ? qkv_f32_to_bf16((float)x[i]) : qkv_f32_to_f16((float)x[i]);
    return h;
}
static inline qkv_status case_status(const struct problem *p)
{
    struct qkv_attention_work w;
    char reason[192] = "";
    qkv_status status = qkv_attention_resolve(&w, case_family(), &p->a, reason, sizeof reason);
    if (status) return status;
    void *scratch = NULL;
    if (posix_memalign(&scratch, 64, w.scratch + 64)) return QKV_ERR_LIMIT;
    // fills scratch with NaN, so that a read before the first write is detected
    memset(scratch, 0xff, w.scratch + 64);
    const struct qkv_attention *a = &w.a;
    const size_t n = case_reach(a->out_strides, a->B, a->T, a->H, a->F);
    struct check_fence before[256];
    memcpy(before, check_fences, sizeof before);
    void *out = case_stored(p->out, n);
    void *q = case_stored(p->q, case_reach(a->q_strides, a->B, a->T, a->H, a->E));
    void *k = case_stored(p->k, case_reach(a->k_strides, a->B, a->S, a->G, a->E));
    void *v = case_stored(p->v, case_reach(a->v_strides, a->B, a->S, a->G, a->F));
    status = qkv_attention_run(out, p->lse, p->weights, q, k, v, &w, scratch);
    for (size_t i = 0; out != (void *)p->out && i < n; i++) {
        const uint16_t h = ((uint16_t *)out)[i];
        p->out[i] = (real)(w.kernel->type == QKV_BF16 ? qkv_bf16_to_f32(h) : qkv_f16_to_f32(h));
    }
    for (size_t i = 0; i < 256; i++) // frees the guarded blocks of this run
        if (check_fences[i].at && !before[i].at) {
            munmap(check_fences[i].at, check_fences[i].size);
            check_fences[i].at = NULL;
        }
    for (size_t i = 0; i < 64; i++) CHECK_EQ(((uint8_t *)scratch)[w.scratch + i], 0xff);
    free(scratch);
    return status;
}
static inline void case_run(const struct problem *p)
{
    CHECK_EQ(case_status(p), QKV_OK);
}

static inline real *case_at(real *base, struct qkv_strides s, int64_t L, int64_t H, int64_t E,
                            int64_t b, int64_t t, int64_t h)
{
    if (!s.b && !s.t && !s.h) s = (struct qkv_strides){ L * H * E, H * E, E };
    return base + b * s.b + t * s.t + h * s.h;
}

// The keys of the sequence to which a query token belongs.
struct seen {
    int64_t key, S, at; // first key, number of keys, position of the query on the diagonal
    bool none;
};
static inline struct seen case_seen(const struct problem *p, int64_t b, int64_t t)
{
    const struct qkv_attention *a = &p->a;
    struct seen s = { 0, a->S, t, false };
    int64_t n = b, T = a->T;
    if (a->sequences) {
        for (n = a->sequences - 1; n >= 0 && !(p->q_offsets[n] <= t && t < p->q_offsets[n + 1]);
             n--) {
        }
        if (n < 0) return (struct seen){ .none = true };
        T = p->q_offsets[n + 1] - p->q_offsets[n];
        s = (struct seen){ p->k_offsets[n], p->k_offsets[n + 1] - p->k_offsets[n],
                           t - p->q_offsets[n], false };
    }
    if (a->k_lengths) s.S = a->k_lengths[n];
    if (a->diagonal == QKV_BOTTOM_RIGHT) s.at += s.S - T;
    return s;
}
static inline bool case_visible(const struct problem *p, const struct seen *s, int64_t b, int64_t t,
                                int64_t h, int64_t j)
{
    const struct qkv_attention *a = &p->a;
    return j < s->S && !(a->causal && j > s->at) &&
           !(a->window.on && a->window.left >= 0 && j < s->at - a->window.left) &&
           !(a->window.on && a->window.right >= 0 && j > s->at + a->window.right) &&
           !(a->mask.at && !a->mask.at[b * a->mask.b + h * a->mask.h + t * a->mask.t + j]) &&
           !(a->bias.at &&
             a->bias.at[b * a->bias.b + h * a->bias.h + t * a->bias.t + j] == -INFINITY);
}

// Returns the dropout factor of a weight.
static inline double case_kept(const struct problem *p, int64_t b, int64_t t, int64_t h, int64_t j)
{
    const struct qkv_attention *a = &p->a;
    uint32_t word[4];
    if (a->dropout.p <= 0) return 1;
    const int64_t row = (b * a->H + h) * a->T + t;
    qkv_philox(word, a->dropout.seed, a->dropout.site, (uint64_t)(row * ((a->S + 3) / 4) + j / 4));
    const bool dropped = word[j % 4] < qkv_dropout_threshold((double)a->dropout.p);
    return dropped ? 0 : 1 / (1 - (double)a->dropout.p);
}

static inline double rounded(double x, bool f32)
{
    return f32 ? (double)(real)x : x;
}

struct row {
    double *out, *p; // [F] output; [S] weights from the sequence's first key
    double lse;
    // spread: largest rounding error of a score in UNIT; reach: largest sum of P |v| over F;
    // coarse: error of out because weights are rounded to 16 bits
    double spread, reach, coarse;
    int64_t n; // number of visible keys of the row
};
// Computes one score; *noise is a magnitude such that noise times UNIT bounds its rounding errors.
static inline double case_score(const struct problem *p, const real *q, const real *k,
                                const struct seen *s, int64_t b, int64_t t, int64_t h, int64_t j,
                                bool f32, double *noise)
{
    const struct qkv_attention *a = &p->a;
    const double scale = a->scale != 0 ? (double)a->scale : (double)(float)(1 / sqrt((double)a->E));
    double dot = 0, size = 0, keys = 0, most = 0;
    for (int64_t e = 0; e < a->E; e++) {
        dot = rounded(dot + rounded((double)q[e] * (double)k[e], f32), f32);
        size += fabs((double)q[e] * (double)k[e]);
        keys += fabs((double)k[e]);
        most = fmax(most, fabs((double)q[e]));
    }
    double x = rounded(scale * dot, f32);
    *noise =
        ((double)a->E + 8) * fabs(scale) * size + fabs(scale) * most * keys * case_step16() / UNIT;
    if (a->softcap != 0) {
        x = rounded((double)a->softcap * rounded(tanh(rounded(x / (double)a->softcap, f32)), f32),
                    f32);
        *noise += 8 * fabs(x);
    }
    if (a->bias.at) {
        const double add = (double)a->bias.at[b * a->bias.b + h * a->bias.h + t * a->bias.t + j];
        x = rounded(x + add, f32);
        *noise += 4 * (fabs(add) + fabs(x));
    }
    if (a->relative.at) {
        const int64_t reach = a->relative.reach;
        const int64_t apart = qkv_max64(-reach, qkv_min64(j - s->at, reach));
        const double add = (double)a->relative.at[h * (2 * reach + 1) + reach + apart];
        x = rounded(x + add, f32);
        *noise += 4 * (fabs(add) + fabs(x));
    }
    if (a->alibi) {
        const double add = rounded((double)a->alibi[h] * fabs((double)(s->at - j)), f32);
        x = rounded(x - add, f32);
        *noise += 4 * (add + fabs(x));
    }
    return x;
}

// Computes row (b, t, h); the caller provides out->out and out->p.
static inline void case_reference(struct row *r, const struct problem *p, int64_t b, int64_t t,
                                  int64_t h, bool f32)
{
    const struct qkv_attention *a = &p->a;
    const int64_t g = h / (a->H / a->G);
    const struct seen s = case_seen(p, b, t);
    const real *q = case_at(p->q, a->q_strides, a->T, a->H, a->E, b, t, h);
    double most = -INFINITY, sum = 0, noise;
    r->n = 0;
    r->spread = r->reach = 0;
    memset(r->p, 0, (size_t)a->S * sizeof *r->p);
    memset(r->out, 0, (size_t)a->F * sizeof *r->out);
    r->lse = -INFINITY;
    for (int64_t j = 0; !s.none && j < s.S; j++) {
        if (!case_visible(p, &s, b, t, h, j)) continue;
        const real *k = case_at(p->k, a->k_strides, a->S, a->G, a->E, b, s.key + j, g);
        r->p[j] = case_score(p, q, k, &s, b, t, h, j, f32, &noise);
        r->spread = fmax(r->spread, noise);
        most = fmax(most, r->p[j]);
        r->n++;
    }
    if (a->sinks && !s.none) most = fmax(most, (double)a->sinks[h]);
    if (a->sinks && s.none) most = (double)a->sinks[h];
    for (int64_t j = 0; !a->no_softmax && !s.none && j < s.S; j++) {
        if (!case_visible(p, &s, b, t, h, j)) continue;
        r->p[j] = rounded(exp(rounded(r->p[j] - most, f32)), f32);
        sum = rounded(sum + r->p[j], f32);
    }
    if (a->sinks)
        sum = rounded(sum + rounded(exp(rounded((double)a->sinks[h] - most, f32)), f32), f32);
    if (a->no_softmax)
        sum = 1;
    else if (sum > 0)
        r->lse = rounded(most + rounded(log(sum), f32), f32);
    double *const reach = calloc((size_t)a->F + 1, sizeof *reach), tallest = 0;
    for (int64_t j = 0; !s.none && j < s.S; j++) {
        if (!case_visible(p, &s, b, t, h, j)) continue;
        if (sum > 0) r->p[j] = rounded(r->p[j] / sum, f32);
        const real *v = case_at(p->v, a->v_strides, a->S, a->G, a->F, b, s.key + j, g);
        const double kept = case_kept(p, b, t, h, j);
        const double probability =
            f32 && case_share_unit() > 0 ? case_rounded(r->p[j], QKV_BF16) : r->p[j];
        for (int64_t f = 0; f < a->F; f++) {
            r->out[f] = rounded(r->out[f] + rounded(kept * probability * (double)v[f], f32), f32);
            reach[f] += fabs(kept * r->p[j] * (double)v[f]);
            tallest = fmax(tallest, fabs(kept * r->p[j] * (double)v[f]));
        }
    }
    for (int64_t f = 0; f < a->F; f++) {
        if (f32) r->out[f] = case_rounded(r->out[f], case_family()->type);
        r->reach = fmax(r->reach, reach[f]);
    }
    // each of the n weights times the scale of its value, relative to the largest of a chunk
    r->coarse = (double)r->n * tallest * case_step16();
    free(reach);
}
#endif
