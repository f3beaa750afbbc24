// SPDX-License-Identifier: MIT
// encode_layer.c: encodes the arrays of a layer as bytes, and measures the error of every weight
// that the page computes from them.
//
// Numbers of several bytes are stored in planes: first the low bytes of all numbers, then their
// next bytes, and so on. Planes of signs and exponents compress well; planes of low bytes do not.
// Queries and keys of 16 bits are fixed-point numbers with 14 bits: half floats would have only 11
// bits for the large values, which matter most, and thus a larger error.
#include "view/page/page_internal.h"
#include <math.h>
#include <string.h>

const char *const view_code_names[VIEW_CODES] = { "dense", "qk16", "qk8", "top" };

static void put_floats(uint8_t *p, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) view_put_float(p + i, n, x[i]);
}

// ---- vectors ------------------------------------------------------------------------------------
// How vectors are encoded: rounded to 4 or 3 decimals; with 14 bits per number; with 8 bits per
// number.
enum coding { DECIMALS4, DECIMALS3, FOURTEEN, EIGHT };
static const char *const coding_names[] = { "d24", "d16", "i14", "i8" };

static double unit_of(enum coding c)
{
    return c == DECIMALS4 ? 1e4 : 1e3;
}
// Returns x in units of its last decimal, rounded as view_number() does: halves away from 0. The
// product is exact.
static double decimals(enum coding c, float x)
{
    return copysign(floor(fabs((double)x) * unit_of(c) + .5), (double)x);
}
static bool fits(enum coding c, const float *x, int64_t n)
{
    // decimals() is at most (1 << 23) - 1 or INT16_MAX if the number that it rounds down is smaller
    // than the next integer
    const double unit = unit_of(c), next = c == DECIMALS4 ? 1 << 23 : INT16_MAX + 1;
    int misfits = 0;
    for (int64_t i = 0; i < n; i++) misfits |= !(fabs((double)x[i]) * unit + .5 < next);
    return !misfits;
}

// Returns the coding of a layer's queries and keys. A page that stores weights in addition prints
// their numbers, with the decimals that are stored: the same as the command.
static enum coding coding_of_qk(const struct view_encoding *how, const struct view_stack *v,
                                const struct view_layer *l, bool key)
{
    const int64_t T = v->shape.tokens, S = v->shape.keys, E = v->shape.head_width,
                  n = key ? v->shape.kv_heads * S * E : v->shape.heads * T * E;
    if (how->code == VIEW_QK8 || how->eight) return EIGHT;
    return how->code == VIEW_DENSE && fits(DECIMALS4, key ? l->kt : l->q, n) ? DECIMALS4 : FOURTEEN;
}
// Returns the coding of a layer's values or input rows x[n].
static enum coding coding_of(const struct view_encoding *how, const float *x, int64_t n)
{
    if (how->code == VIEW_QK8 || how->eight) return EIGHT;
    return fits(DECIMALS3, x, n) ? DECIMALS3 : FOURTEEN;
}
static enum coding coding_of_v(const struct view_encoding *how, const struct view_stack *v,
                               const struct view_layer *l)
{
    return coding_of(how, l->v, v->shape.kv_heads * v->shape.keys * v->shape.value_width);
}
static enum coding coding_of_x(const struct view_encoding *how, const struct view_stack *v,
                               const struct view_layer *l)
{
    return coding_of(how, l->x, v->shape.tokens * v->shape.width);
}

// Returns the size of an encoded array of vectors [heads][T][E]. Decimals: two or three planes.
// With 14 bits per number: two planes, and the step and the middle of each axis. With 8 bits: one
// byte per number, and one scale per vector.
static int64_t vector_bytes(enum coding c, int64_t heads, int64_t T, int64_t E)
{
    if (c <= DECIMALS3) return heads * T * E * (c == DECIMALS4 ? 3 : 2);
    return c == EIGHT ? heads * (T * E + 2 * T) : heads * (2 * T * E + 8 * E);
}

// Writes a number of decimals with its sign in the lowest bit, so that the highest plane is mostly
// 0. Returns the number that the page decodes.
static float put_decimals(uint8_t *p, int64_t n, enum coding c, float x)
{
    const double code = decimals(c, x);
    const uint32_t u = (uint32_t)fabs(code) << 1 | (code < 0);
    for (int b = 0; b < (c == DECIMALS4 ? 3 : 2); b++) p[b * n] = (uint8_t)(u >> 8 * b);
    return (float)(code / unit_of(c));
}

// In 16 bits, one axis of the vectors of a head, x[T] with a stride, is encoded as a number of
// steps from the middle of its range: -STEPS .. STEPS. NO_NUMBER: x is not finite.
enum { STEPS = 8191, NO_NUMBER = -8192 };
struct range {
    float middle, step;
};
static struct range range_of(const float *x, int64_t T, int64_t stride)
{
    float low = INFINITY, high = -INFINITY;
    for (int64_t t = 0; t < T; t++) {
        const float y = x[t * stride];
        if (!isfinite(y)) continue;
        low = y < low ? y : low;
        high = y > high ? y : high;
    }
    if (low > high) return (struct range){ 0, 0 };
    return (struct range){ low / 2 + high / 2, (high / 2 - low / 2) / STEPS };
}
static float put_steps(uint8_t *p, int64_t n, struct range r, float x)
{
    float c = r.step > 0 ? rintf((x - r.middle) / r.step) : 0;
    c = c > STEPS ? STEPS : c < -STEPS ? -STEPS : c;
    if (!isfinite(x)) c = NO_NUMBER;
    view_put_half(p, n, (uint16_t)(int16_t)c);
    return isfinite(x) ? r.middle + c * r.step : NAN;
}

// Encodes one vector in 8 bits, relative to its largest element.
static void put_vector(uint8_t *p, int64_t at, int64_t n, int64_t E, float *x, int64_t stride)
{
    float largest = 0;
    for (int64_t e = 0; e < E; e++) {
        // if an element is not finite, the scale is NaN, which makes the whole vector NaN
        if (!isfinite(x[e * stride])) largest = NAN;
        if (fabsf(x[e * stride]) > largest) largest = fabsf(x[e * stride]);
    }
    const uint16_t h = qkv_f32_to_f16(largest / 127 > 65504 ? 65504 : largest / 127);
    const float scale = qkv_f16_to_f32(h);
    view_put_half(p + n * E + at, n, h);
    for (int64_t e = 0; e < E; e++) {
        const float c = scale > 0 ? rintf(x[e * stride] / scale) : 0;
        const float code = c > 127 ? 127 : c < -127 ? -127 : c == c ? c : 0;
        p[at * E + e] = (uint8_t)(int8_t)code;
        x[e * stride] = code * scale;
    }
}

// Encodes the vectors x[T][E] (with strides t and e) of head `at` of `heads`, and replaces x by the
// numbers that the page will decode.
static void put_head(uint8_t *p, enum coding c, int64_t at, int64_t heads, int64_t T, int64_t E,
                     float *x, int64_t t, int64_t e)
{
    if (c <= DECIMALS3) {
        for (int64_t i = 0; i < T; i++)
            for (int64_t k = 0; k < E; k++) {
                float *y = x + i * t + k * e;
                *y = put_decimals(p + (at * T + i) * E + k, heads * T * E, c, *y);
            }
        return;
    }
    if (c == EIGHT) {
        for (int64_t i = 0; i < T; i++) put_vector(p, at * T + i, heads * T, E, x + i * t, e);
        return;
    }
    const int64_t n = heads * T * E;
    for (int64_t k = 0; k < E; k++) {
        const struct range r = range_of(x + k * e, T, t);
        view_put_float(p + 2 * n + at * E + k, heads * E, r.step);
        view_put_float(p + 2 * n + 4 * heads * E + at * E + k, heads * E, r.middle);
        for (int64_t i = 0; i < T; i++) {
            float *y = x + i * t + k * e;
            *y = put_steps(p + (at * T + i) * E + k, n, r, *y);
        }
    }
}

// Encodes the vectors x[N][T][E] and adds the array to the block. Returns false if memory is
// exhausted.
static bool add_vectors(struct view_block *b, const char *name, enum coding c, int64_t stack,
                        int64_t layer, const float *x, int64_t N, int64_t T, int64_t E)
{
    uint8_t *p =
        view_array_add(b, name, coding_names[c], stack, layer, N, T, E, vector_bytes(c, N, T, E));
    float *copy = qkv_alloc((size_t)(T * E), sizeof *copy);
    for (int64_t n = 0; p && copy && n < N; n++) {
        memcpy(copy, x + n * T * E, (size_t)(T * E) * sizeof *copy);
        put_head(p, c, n, N, T, E, copy, E, 1);
    }
    qkv_free(copy);
    return p && copy;
}

// ---- one layer; heads are encoded in parallel --------------------------------------------------
struct job {
    const struct view_stack *v;
    int64_t layer;
    bool dense, floats, products; // encodes weights; as floats; queries and keys
    enum coding coding_q, coding_k;
    bool with_qk;     // the weights are stored in addition to q and k, so q and k cause no error
    uint8_t *w, *sum; // positions of the arrays in the block
    uint8_t *q, *k, *lse;
    char *scratch;        // [threads][each] struct arrays of each thread
    size_t each;          // bytes
    float *kt;            // [G][E][S] the keys as the page decodes them
    struct view_loss *of; // [H]
    bool *odd;            // [H] true: the weights of some row do not sum to 1
};

// The arrays of encoding one head.
struct arrays {
    float *truth,
        *shown;   // [VIEW_ROWS][S] exact rows, and rows or products as the page decodes them
    float *terms; // [S]
    // of a layer with queries and keys: the keys as tiles, exact and decoded, and the queries
    float *tiles, *decoded, *q; // [E][S], [E][S], [T][E]
};
static void lay_out_arrays(struct arrays *m, const struct view_stack *v, bool products,
                           struct qkv_arena *a)
{
    const int64_t T = products ? v->shape.tokens : 0, S = v->shape.keys,
                  E = products ? v->shape.head_width : 0;
    m->truth = qkv_arena_rows(a, VIEW_ROWS, S, sizeof *m->truth);
    m->shown = qkv_arena_rows(a, VIEW_ROWS, S, sizeof *m->shown);
    m->terms = qkv_arena_rows(a, 1, S, sizeof *m->terms);
    m->tiles = qkv_arena_rows(a, E, S, sizeof *m->tiles);
    m->decoded = qkv_arena_rows(a, E, S, sizeof *m->decoded);
    m->q = qkv_arena_rows(a, T, E, sizeof *m->q);
}
static struct arrays arrays_of(const struct job *j, int thread)
{
    struct qkv_arena arena = { j->scratch + (size_t)thread * j->each, j->each, 0 };
    struct arrays m;
    lay_out_arrays(&m, j->v, j->products, &arena);
    return m;
}

// Compares a row of weights as the page decodes it with the exact row, and updates the error of the
// head.
// off[S] is scratch; it may be `shown`.
static void compare(struct view_loss *of, float *off, const float *shown, const float *truth,
                    int64_t S)
{
    for (int64_t j = 0; j < S; j++) off[j] = fabsf(shown[j] - truth[j]);
    of->error = fmax(of->error, (double)view_largest(off, S));
}
static bool finite_row(const float *w, int64_t S, double *sum)
{
    *sum = view_sum(w, S);
    return isfinite(*sum);
}

// Encodes the weights of a head as floats, without an error.
static void encode_floats(void *ctx, int64_t head, int thread)
{
    struct job *j = ctx;
    const struct view_stack *v = j->v;
    const int64_t T = v->shape.tokens, S = v->shape.keys, n = v->shape.heads * T * S;
    float *row = arrays_of(j, thread).truth;
    for (int64_t i = 0; i < T; i++) {
        double sum;
        view_row(row, v, j->layer, head, i);
        const bool finite = finite_row(row, S, &sum);
        j->of[head].not_numbers += !finite;
        for (int64_t k = 0; k < S; k++)
            view_put_float(j->w + (head * T + i) * S + k, n, finite ? row[k] : NAN);
    }
}

static void encode_dense(void *ctx, int64_t head, int thread)
{
    struct job *j = ctx;
    const struct view_stack *v = j->v;
    const int64_t T = v->shape.tokens, S = v->shape.keys;
    const struct arrays m = arrays_of(j, thread);
    float *truth = m.truth, *shown = m.shown;
    uint8_t *c = j->w + head * T * S;
    for (int64_t i = 0; i < T; i++, c += S) {
        double sum;
        view_row(truth, v, j->layer, head, i);
        if (!finite_row(truth, S, &sum)) {
            memset(c, 255, (size_t)S);
            j->of[head].not_numbers++;
            continue;
        }
        const float largest = fmaxf(1, view_largest(truth, S));
        int64_t squares = 0;
        for (int64_t k = 0; k < S; k++) {
            c[k] = (uint8_t)(254 * sqrtf(truth[k] > 0 ? truth[k] / largest : 0) + 0.5f);
            squares += c[k] * c[k];
        }
        const double whole = j->sum ? sum : 1;
        if (j->sum) view_put_float(j->sum + head * T + i, v->shape.heads * T, (float)sum);
        for (int64_t k = 0; k < S; k++)
            shown[k] = squares ? (float)(whole * (c[k] * c[k]) / (double)squares) : 0;
        compare(&j->of[head], shown, shown, truth, S);
    }
}

static void encode_keys(void *ctx, int64_t g, int thread)
{
    (void)thread;
    struct job *j = ctx;
    const int64_t S = j->v->shape.keys, E = j->v->shape.head_width;
    float *kt = j->kt + g * E * S;
    memcpy(kt, j->v->layer[j->layer].kt + g * E * S, (size_t)(E * S) * sizeof *kt);
    put_head(j->k, j->coding_k, g, j->v->shape.kv_heads, S, E, kt, 1, S);
}

// Returns the logarithm of sum_i exp(s[i]) over n scores; terms[n] is scratch.
static double log_sum(float *terms, const float *s, int64_t n)
{
    const float top = view_largest(s, n);
    view_exp(terms, s, top, n);
    return top + log(view_sum(terms, n));
}

// Encodes lse of a row, and compares the weights that the page computes with the exact ones,
// truth[S]. shown[S]: the products of the row as the page computes them; terms[S] is scratch.
static void encode_lse(struct job *j, int64_t head, int64_t row, const float *truth, float *shown,
                       float *terms)
{
    const struct view_stack *v = j->v;
    const int64_t T = v->shape.tokens, S = v->shape.keys, H = v->shape.heads;
    const struct view_span at = view_span(v, j->layer, row);
    double sum;
    float lse = NAN;
    const bool whole = finite_row(truth, S, &sum);
    j->odd[head] |= !(fabs(sum - 1) <= 1e-3);
    if (!whole) {
        j->of[head].not_numbers += !j->with_qk;
    } else if (sum <= 0) {
        lse = -INFINITY;
    } else {
        // lse is chosen so that the decoded row has the same sum as the exact row. With exact
        // weights it is exact too, so that the page computes exact scores from both.
        view_bias(shown, v, j->layer, head, row);
        lse = (float)(log_sum(terms, shown + at.from, at.to - at.from) - log(sum));
        // without weights in the file the page computes exp(score - lse); other keys have 0
        if (!j->with_qk) {
            view_exp(shown + at.from, shown + at.from, lse, at.to - at.from);
            compare(&j->of[head], terms, shown + at.from, truth + at.from, at.to - at.from);
        }
    }
    view_put_float(j->lse + head * T + row, H * T, lse);
}

static void encode_queries(void *ctx, int64_t head, int thread)
{
    struct job *j = ctx;
    const struct view_stack *v = j->v;
    const int64_t T = v->shape.tokens, S = v->shape.keys, E = v->shape.head_width,
                  H = v->shape.heads;
    const struct arrays m = arrays_of(j, thread);
    const float *exact = view_q(v, j->layer, head), *keys = view_kt(v, j->layer, head);
    memcpy(m.q, exact, (size_t)(T * E) * sizeof *m.q);
    put_head(j->q, j->coding_q, head, H, T, E, m.q, E, 1);
    view_tiles_fill(m.tiles, keys, S, E);
    view_tiles_fill(m.decoded, j->floats ? keys : j->kt + head / (H / v->shape.kv_heads) * E * S, S,
                    E);
    for (int64_t i = 0; i < T; i += VIEW_ROWS) {
        const int64_t rows = qkv_min64(VIEW_ROWS, T - i);
        view_rows(m.truth, NULL, m.tiles, v, j->layer, head, i, rows);
        view_products(m.shown, (j->floats ? exact : m.q) + i * E, m.decoded, v, j->layer, i, rows);
        for (int64_t n = 0; n < rows; n++)
            encode_lse(j, head, i + n, m.truth + n * S, m.shown + n * S, m.terms);
    }
}

// ---- sizes --------------------------------------------------------------------------------------
static bool product(int64_t *out, int64_t a, int64_t b)
{
    return !__builtin_mul_overflow(a, b, out);
}

// The sizes of q, k, v and x cannot overflow, because these arrays are in memory. The size of the
// weights can, so it is checked.
int64_t view_layer_bytes(const struct view_stack *v, int64_t layer, const struct view_encoding *how)
{
    const struct view_layer *l = &v->layer[layer];
    const int64_t T = v->shape.tokens, S = v->shape.keys, H = v->shape.heads, G = v->shape.kv_heads,
                  E = v->shape.head_width;
    int64_t all = 0;
    if (how->code == VIEW_DENSE && (!product(&all, T, S) || !product(&all, all, H))) return -1;
    if (how->code == VIEW_DENSE && how->floats && !product(&all, all, 4)) return -1;
    if (how->code == VIEW_DENSE && !how->floats) all += 4 * H * T;
    if (how->code == VIEW_TOP) all = view_top_bytes(v, layer, how);
    if (how->code == VIEW_QK16 || how->code == VIEW_QK8) all = view_coarse_bytes(v, layer);
    if (l->q && (how->code == VIEW_QK16 || how->code == VIEW_QK8 || how->with_qk))
        all += vector_bytes(coding_of_qk(how, v, l, false), H, T, E) +
               vector_bytes(coding_of_qk(how, v, l, true), G, S, E) +
               (how->code == VIEW_QK8 ? 0 : 4 * H * T);
    if (how->values && l->v)
        all += vector_bytes(coding_of_v(how, v, l), G, S, v->shape.value_width);
    if (how->numbers) all += view_numbers_bytes(v, layer);
    if (how->input && l->x) all += vector_bytes(coding_of_x(how, v, l), 1, T, v->shape.width);
    return all + (l->relative ? 4 * H * (2 * l->reach + 1) : 0) + (l->alibi ? 4 * H : 0);
}

// ---- a layer ------------------------------------------------------------------------------------
// Adds all arrays of a layer to the block. Since a growing block moves, the positions are offsets
// until the last array is added.
static bool lay_out(struct view_block *b, struct job *j, int64_t stack)
{
    const struct view_stack *v = j->v;
    const int64_t T = v->shape.tokens, S = v->shape.keys, H = v->shape.heads, G = v->shape.kv_heads,
                  E = v->shape.head_width, first = b->count;
    const bool weights = j->dense, sums = weights && !j->floats && view_any_not_one(v, j->layer);
    bool ok = true;
    if (weights)
        ok = view_array_add(b, "w", j->floats ? "f32" : "u8", stack, j->layer, H, T, S,
                            H * T * S * (j->floats ? 4 : 1));
    if (ok && sums) ok = view_array_add(b, "sum", "f32", stack, j->layer, H, T, 1, 4 * H * T);
    if (ok && j->products)
        ok = view_array_add(b, "q", coding_names[j->coding_q], stack, j->layer, H, T, E,
                            vector_bytes(j->coding_q, H, T, E)) &&
             view_array_add(b, "k", coding_names[j->coding_k], stack, j->layer, G, S, E,
                            vector_bytes(j->coding_k, G, S, E)) &&
             view_array_add(b, "lse", "f32", stack, j->layer, H, T, 1, 4 * H * T);
    if (!ok) return false;
    int64_t n = first;
    if (weights) j->w = b->bytes + b->array[n++].offset;
    if (sums) j->sum = b->bytes + b->array[n++].offset;
    if (!j->products) return true;
    j->q = b->bytes + b->array[n].offset;
    j->k = b->bytes + b->array[n + 1].offset;
    j->lse = b->bytes + b->array[n + 2].offset;
    return true;
}

// Returns true if all layers add the same table of biases to their scores. T5 learns one table for
// all layers.
static bool shared_table(const struct view_stack *v)
{
    const struct view_layer *first = &v->layer[0];
    for (int64_t l = 0; l < v->shape.layers; l++) {
        const struct view_layer *x = &v->layer[l];
        if (!x->relative || x->reach != first->reach ||
            memcmp(x->relative, first->relative,
                   (size_t)(v->shape.heads * (2 * x->reach + 1)) * sizeof(float)) != 0)
            return false;
    }
    return true;
}

static bool add_tables(struct view_block *b, const struct view_stack *v, int64_t stack,
                       int64_t layer)
{
    const struct view_layer *l = &v->layer[layer];
    const int64_t H = v->shape.heads, n = H * (2 * l->reach + 1);
    const bool shared = l->relative && shared_table(v);
    if (l->relative && (!shared || !layer)) {
        uint8_t *p = view_array_add(b, "relative", "f32", stack, shared ? -1 : layer, H,
                                    2 * l->reach + 1, 1, 4 * n);
        if (!p) return false;
        put_floats(p, l->relative, n);
    }
    if (l->alibi) {
        uint8_t *p = view_array_add(b, "alibi", "f32", stack, layer, H, 1, 1, 4 * H);
        if (!p) return false;
        put_floats(p, l->alibi, H);
    }
    return true;
}

// Adds the arrays from which the page computes the weights of a layer: weights, or queries and
// keys.
static qkv_status add_weights(struct view_block *b, struct view_loss *loss,
                              const struct view_stack *v, int64_t stack, int64_t layer,
                              const struct view_encoding *how, qkv_error *err)
{
    const int64_t T = v->shape.tokens, S = v->shape.keys, H = v->shape.heads,
                  E = v->shape.head_width;
    const bool dense = how->code == VIEW_DENSE,
               products = v->layer[layer].q &&
                          (how->code == VIEW_QK16 || how->code == VIEW_QK8 || how->with_qk);
    struct job j = { .v = v,
                     .layer = layer,
                     .with_qk = how->with_qk,
                     .dense = dense,
                     .products = products,
                     .floats = how->floats };
    struct qkv_arena count = { .size = SIZE_MAX };
    qkv_status status = QKV_OK;
    const int threads = qkv_threads();
    if (!dense && !products) return QKV_OK;
    if (products) {
        j.coding_q = coding_of_qk(how, v, &v->layer[layer], false);
        j.coding_k = coding_of_qk(how, v, &v->layer[layer], true);
    }
    lay_out_arrays(&(struct arrays){ 0 }, v, products, &count);
    j.each = count.used;
    j.scratch = qkv_alloc((size_t)threads, j.each);
    j.of = qkv_alloc_zero((size_t)H, sizeof *j.of);
    j.odd = qkv_alloc_zero((size_t)H, sizeof *j.odd);
    if (products) j.kt = qkv_alloc((size_t)(v->shape.kv_heads * E), (size_t)S * sizeof *j.kt);
    if (!j.scratch || !j.of || !j.odd || (products && !j.kt) || !lay_out(b, &j, stack)) {
        status = qkv_fail_memory(err, NULL);
        goto done;
    }
    if (dense) qkv_parallel_for_most(H, threads, how->floats ? encode_floats : encode_dense, &j);
    if (products) {
        qkv_parallel_for_most(v->shape.kv_heads, threads, encode_keys, &j);
        qkv_parallel_for_most(H, threads, encode_queries, &j);
    }
    bool odd = how->code != VIEW_QK8;
    for (int64_t h = 0; h < H; h++) odd |= j.odd[h];
    // remove lse, the last array: it is only needed if a row does not sum to 1
    if (!odd) b->size -= b->array[--b->count].bytes;
    for (int64_t h = 0; h < H; h++) {
        loss->error = fmax(loss->error, j.of[h].error);
        loss->not_numbers += j.of[h].not_numbers;
    }
    if (how->code != VIEW_TOP) {
        loss->kept += (double)(H * T);
        loss->rows += H * T;
    }
done:
    qkv_free(j.scratch);
    qkv_free(j.kt);
    qkv_free(j.of);
    qkv_free(j.odd);
    return status;
}

qkv_status view_encode(struct view_block *b, struct view_loss *loss, const struct view_stack *v,
                       int64_t stack, int64_t layer, const struct view_encoding *how,
                       qkv_error *err)
{
    qkv_status status = QKV_OK;
    if (how->code == VIEW_TOP) status = view_encode_top(b, loss, v, stack, layer, how, err);
    if (!status) status = add_weights(b, loss, v, stack, layer, how, err);
    if (!status && (how->code == VIEW_QK16 || how->code == VIEW_QK8))
        status = view_encode_coarse(b, v, stack, layer, err);
    if (status) return status;
    return add_tables(b, v, stack, layer) ? QKV_OK : qkv_fail_memory(err, NULL);
}

qkv_status view_encode_vectors(struct view_block *b, const struct view_stack *v, int64_t stack,
                               int64_t layer, const struct view_encoding *how, qkv_error *err)
{
    const struct view_layer *l = &v->layer[layer];
    bool ok = true;
    if (how->values && l->v)
        ok = add_vectors(b, "v", coding_of_v(how, v, l), stack, layer, l->v, v->shape.kv_heads,
                         v->shape.keys, v->shape.value_width);
    if (ok && how->input && l->x)
        ok = add_vectors(b, "x", coding_of_x(how, v, l), stack, layer, l->x, 1, v->shape.tokens,
                         v->shape.width);
    return ok ? QKV_OK : qkv_fail_memory(err, NULL);
}
