// SPDX-License-Identifier: MIT
// encode.c: weights as bytes, with the error that costs, measured on every weight while encoding.
//
// The kinds are told in view.h.  Words and floats lie as planes (all low bytes, then all next...):
// the planes of signs and exponents pack well, those of low
// bits do not, and deflate sees them apart.
#include "view/view.h"
#include <math.h>
#include <string.h>

static const char *const names[VIEW_CODES] = { "dense", "qk16", "qk8" };

static bool product(int64_t *out, int64_t a, int64_t b)
{
    return !__builtin_mul_overflow(a, b, out);
}

// Bytes of [heads][T][E]: codes in two planes, step and middle
// of each axis; or codes, a scale a vector.
static int64_t vector_bytes(enum view_code code, int64_t heads, int64_t T, int64_t E)
{
    return code == VIEW_QK16 ? heads * (2 * T * E + 8 * E) : heads * (T * E + 2 * T);
}

int64_t view_block_bytes(const qkv_view *v, enum view_code code)
{
    const struct qkv_view_shape *s = &v->shape;
    int64_t a, all;
    if (code == VIEW_DENSE) {
        if (!product(&a, s->tokens, s->tokens) || !product(&a, a, s->heads) ||
            !product(&all, a, s->layers))
            return -1;
        return all;
    }
    // q, k and lse are in memory as floats already: these products fit
    return s->layers *
           (vector_bytes(code, s->heads, s->tokens, s->head_width) +
            vector_bytes(code, s->kv_heads, s->tokens, s->head_width) + 4 * s->heads * s->tokens);
}

// x as bytes in planes: byte b at p[b * n].
static void put_half(uint8_t *p, int64_t n, uint16_t x)
{
    p[0] = (uint8_t)x;
    p[n] = (uint8_t)(x >> 8);
}
static void put_float(uint8_t *p, int64_t n, float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    for (int b = 0; b < 4; b++) p[b * n] = (uint8_t)(u >> 8 * b);
}

// ---- qk16: one axis of one head, x[T] stride apart, as steps from the middle of its range -------
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
    put_half(p, n, (uint16_t)(int16_t)c);
    return isfinite(x) ? r.middle + c * r.step : NAN;
}

// ---- qk8: one vector as steps of its largest value ----------------------------------------------
static void put_vector(uint8_t *p, int64_t at, int64_t n, int64_t E, float *x, int64_t stride)
{
    float largest = 0;
    for (int64_t e = 0; e < E; e++) {
        if (!isfinite(x[e * stride]))
            largest = NAN; // the scale then poisons the vector, as it must
        if (fabsf(x[e * stride]) > largest) largest = fabsf(x[e * stride]);
    }
    const uint16_t h = qkv_f32_to_f16(largest / 127 > 65504 ? 65504 : largest / 127);
    const float scale = qkv_f16_to_f32(h);
    put_half(p + n * E + at, n, h);
    for (int64_t e = 0; e < E; e++) {
        const float c = scale > 0 ? rintf(x[e * stride] / scale) : 0;
        const float code = c > 127 ? 127 : c < -127 ? -127 : c == c ? c : 0;
        p[at * E + e] = (uint8_t)(int8_t)code;
        x[e * stride] = code * scale;
    }
}

// x[T][E] (strides t and e) of head `at` of `heads`, written to p and read back in place.
static void put_head(uint8_t *p, enum view_code code, int64_t at, int64_t heads, int64_t T,
                     int64_t E, float *x, int64_t t, int64_t e)
{
    if (code == VIEW_QK8) {
        for (int64_t i = 0; i < T; i++) put_vector(p, at * T + i, heads * T, E, x + i * t, e);
        return;
    }
    const int64_t n = heads * T * E;
    for (int64_t k = 0; k < E; k++) {
        const struct range r = range_of(x + k * e, T, t);
        put_float(p + 2 * n + at * E + k, heads * E, r.step);
        put_float(p + 2 * n + 4 * heads * E + at * E + k, heads * E, r.middle);
        for (int64_t i = 0; i < T; i++) {
            float *y = x + i * t + k * e;
            *y = put_steps(p + (at * T + i) * E + k, n, r, *y);
        }
    }
}

// One encoding: tasks are heads, their arrays are apart.
struct job {
    const qkv_view *v;
    struct view_block *b;
    enum view_code code;
    int64_t room;
    float *scratch;       // [threads][room]
    float *kt;            // [L][G][E][T] as the page will read it back
    double *error;        // [L][H]
    int64_t *not_numbers; // [L][H]
};

static const struct view_array *array_of(const struct job *j, int64_t layer, int which)
{
    return j->b->array + layer * (j->code == VIEW_DENSE ? 1 : 3) + which;
}

// |shown - true| of a row into the error of its head; a row of NaN is counted instead.
static void compare(struct job *j, int64_t task, const float *shown, const float *truth, int64_t T)
{
    double worst = j->error[task];
    for (int64_t i = 0; i < T; i++) {
        const double d = fabs((double)shown[i] - truth[i]);
        if (d > worst) worst = d;
    }
    j->error[task] = worst;
}
static bool finite_row(const float *w, int64_t T, double *sum)
{
    *sum = 0;
    for (int64_t i = 0; i < T; i++) *sum += w[i];
    return isfinite(*sum);
}

static void encode_dense(void *ctx, int64_t task, int thread)
{
    struct job *j = ctx;
    const qkv_view *v = j->v;
    const int64_t T = v->shape.tokens, layer = task / v->shape.heads, head = task % v->shape.heads;
    float *truth = j->scratch + thread * j->room, *shown = truth + T;
    uint8_t *c = j->b->bytes + array_of(j, layer, 0)->offset + head * T * T;
    for (int64_t i = 0; i < T; i++, c += T) {
        double sum;
        qkv_view_row(v, truth, layer, head, i);
        if (!finite_row(truth, T, &sum)) {
            memset(c, 255, (size_t)T);
            j->not_numbers[task]++;
            continue;
        }
        int64_t squares = 0;
        for (int64_t k = 0; k < T; k++) {
            c[k] = (uint8_t)(254 * sqrtf(truth[k] < 1 ? truth[k] : 1) + 0.5f);
            squares += c[k] * c[k];
        }
        for (int64_t k = 0; k < T; k++)
            shown[k] = squares ? (float)(c[k] * c[k]) / (float)squares : 0;
        compare(j, task, shown, truth, T);
    }
}

static void encode_keys(void *ctx, int64_t task, int thread)
{
    (void)thread;
    struct job *j = ctx;
    const struct qkv_view_shape *s = &j->v->shape;
    const int64_t T = s->tokens, E = s->head_width, layer = task / s->kv_heads,
                  g = task % s->kv_heads;
    float *kt = j->kt + task * E * T;
    memcpy(kt, j->v->kt + task * E * T, (size_t)(E * T) * sizeof *kt);
    uint8_t *p = j->b->bytes + array_of(j, layer, 1)->offset;
    put_head(p, j->code, g, s->kv_heads, T, E, kt, 1, T);
}

// ln of the sum of exp(s[n]).
static double log_sum(const float *s, int64_t n)
{
    float top = -INFINITY;
    for (int64_t i = 0; i < n; i++) top = s[i] > top ? s[i] : top;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += expf(s[i] - top);
    return top + log(sum);
}

static void encode_queries(void *ctx, int64_t task, int thread)
{
    struct job *j = ctx;
    const qkv_view *v = j->v;
    const struct qkv_view_shape *s = &v->shape;
    const int64_t T = s->tokens, E = s->head_width, H = s->heads, layer = task / H, head = task % H,
                  group = layer * s->kv_heads + head / (H / s->kv_heads);
    float *truth = j->scratch + thread * j->room, *shown = truth + T, *q = shown + T;
    memcpy(q, view_q(v, layer, head), (size_t)(T * E) * sizeof *q);
    const float *kt = j->kt + group * E * T;
    uint8_t *pq = j->b->bytes + array_of(j, layer, 0)->offset;
    uint8_t *pl = j->b->bytes + array_of(j, layer, 2)->offset;
    put_head(pq, j->code, head, H, T, E, q, E, 1);
    for (int64_t i = 0; i < T; i++, q += E) {
        double sum;
        qkv_view_row(v, truth, layer, head, i);
        const int64_t n = s->causal ? i + 1 : T;
        float lse = NAN;
        if (!finite_row(truth, T, &sum)) {
            j->not_numbers[task]++;
        } else if (sum <= 0) {
            lse = -INFINITY;
        } else { // the row keeps its sum: errors of q and k move weight, they do not add any
            view_scores(shown, q, kt, n, E, T);
            lse = (float)(log_sum(shown, n) - log(sum));
            view_weights(shown, v, q, kt, lse, i);
            compare(j, task, shown, truth, T);
        }
        put_float(pl + head * T + i, H * T, lse);
    }
}

static void lay_out(struct view_block *b, const qkv_view *v, enum view_code code)
{
    const struct qkv_view_shape *s = &v->shape;
    const char *kind = code == VIEW_QK16 ? "i14" : "i8";
    int64_t n = 0;
    for (int64_t l = 0; l < s->layers; l++) {
        if (code == VIEW_DENSE) {
            b->array[n++] = (struct view_array){ "w", "u8",
                                                 l,   { s->heads, s->tokens, s->tokens },
                                                 0,   s->heads * s->tokens * s->tokens,
                                                 0 };
            continue;
        }
        const int64_t T = s->tokens, E = s->head_width;
        b->array[n++] = (struct view_array){
            "q", kind, l, { s->heads, T, E }, 0, vector_bytes(code, s->heads, T, E), 0
        };
        b->array[n++] = (struct view_array){
            "k", kind, l, { s->kv_heads, T, E }, 0, vector_bytes(code, s->kv_heads, T, E), 0
        };
        b->array[n++] =
            (struct view_array){ "lse", "f32", l, { s->heads, T, 1 }, 0, 4 * s->heads * T, 0 };
    }
    b->count = n;
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        b->array[i].offset = at;
        at += b->array[i].bytes;
    }
}

qkv_status view_encode(struct view_block *b, const qkv_view *v, enum view_code code, qkv_error *err)
{
    const struct qkv_view_shape *s = &v->shape;
    const int64_t T = s->tokens, heads = s->layers * s->heads;
    *b = (struct view_block){ .kind = names[code], .size = view_block_bytes(v, code) };
    struct job j = { .v = v,
                     .b = b,
                     .code = code,
                     .room = 2 * T + (code == VIEW_DENSE ? 0 : T * s->head_width) + 16 };
    qkv_status status = QKV_OK;
    const int threads = qkv_threads();
    size_t floats;
    if (b->size < 0 || !qkv_mul_size(&floats, (size_t)j.room, (size_t)threads)) {
        status = qkv_fail_memory(err, NULL);
        goto done;
    }
    b->array = qkv_alloc_zero((size_t)s->layers * 3, sizeof *b->array);
    b->bytes = qkv_alloc((size_t)b->size, 1);
    j.scratch = qkv_alloc(floats, sizeof *j.scratch);
    j.error = qkv_alloc_zero((size_t)heads, sizeof *j.error);
    j.not_numbers = qkv_alloc_zero((size_t)heads, sizeof *j.not_numbers);
    if (code != VIEW_DENSE)
        j.kt =
            qkv_alloc((size_t)(s->layers * s->kv_heads * s->head_width), (size_t)T * sizeof *j.kt);
    if (!b->array || !b->bytes || !j.scratch || !j.error || !j.not_numbers ||
        (code != VIEW_DENSE && !j.kt)) {
        status = qkv_fail_memory(err, NULL);
        goto done;
    }
    lay_out(b, v, code);
    if (code == VIEW_DENSE) {
        qkv_parallel_for_most(heads, threads, encode_dense, &j);
    } else {
        qkv_parallel_for_most(s->layers * s->kv_heads, threads, encode_keys, &j);
        qkv_parallel_for_most(heads, threads, encode_queries, &j);
    }
    for (int64_t i = 0; i < heads; i++) {
        b->error = fmax(b->error, j.error[i]);
        b->not_numbers += j.not_numbers[i];
    }
    for (int64_t i = 0; i < b->count; i++)
        b->array[i].crc = view_crc32(b->bytes + b->array[i].offset, b->array[i].bytes);
done:
    qkv_free(j.scratch);
    qkv_free(j.kt);
    qkv_free(j.error);
    qkv_free(j.not_numbers);
    if (status) view_block_free(b);
    return status;
}

void view_block_free(struct view_block *b)
{
    qkv_free(b->bytes);
    qkv_free(b->array);
    *b = (struct view_block){ 0 };
}
