// SPDX-License-Identifier: MIT
// multi_head.c: computes the public multi-head layer: attention with its projections, for any
// widths and three score functions.
//
//   q = x W_q^T + b_q,  k = c W_k^T + b_k,  v = c W_v^T + b_v,  out = concat(heads) W_o^T + b_o
//   dot:       s = q.k
//   bilinear:  s = (q W_s).k                    W_s is applied to all queries first, then a dot
//   product
//   additive:  s = w . tanh(W_q q + W_k k)      both inner products first, then kernels->additive
//
// The attention kernels do the rest, so that masks have the same meaning for all three and memory
// does not grow with T*S. Luong et al. 2015 (arXiv 1508.04025), Bahdanau et al. 2015 (arXiv
// 1409.0473).
#include "layer/heads/multi_head_work.h"
#include <stdio.h>
#include <string.h>

// largest width of a head, an input or an output; the same limit as in attention
enum { WIDTH_MAX = 1 << 20 };

// One validated call: sizes with their defaults, and the arrays in scratch.
struct call {
    struct qkv_multi_head m;
    struct qkv_attention a; // the request that attention receives
    const struct qkv_attention_kernels *kernel;
    struct qkv_attention_work work; // the validated attention call
    int64_t rows, keys;             // numbers of rows and keys: B*T and B*S
    qkv_dtype type; // type of the arrays of the attention kernels: of all arrays below
    // NULL: the kernels read or write the layer's own array, because there are no weights and the
    // array is real
    void *q, *k, *v, *heads;
    void *score_q;               // queries that bilinear and additive scores read in place of q
    real *score_k;               // keys that additive scores read in place of k
    real *repeated;              // additive scores with 1 < G < H: v repeated for each query head
    struct qkv_linear_once once; // options of products with unpacked weights
    void *own;                   // scratch of the attention
    size_t bytes;                // bytes of scratch in total
    double flops;                // operations of the projections
};

qkv_status qkv_multi_head_check(const struct qkv_multi_head *m, const struct qkv_attention *a)
{
    const int64_t widths[] = { m->H, m->G, m->d_q, m->d_kv, m->d_k, m->d_v };
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        if (widths[i] < 1) return QKV_ERR_USAGE;
        if (widths[i] > WIDTH_MAX) return QKV_ERR_LIMIT;
    }
    if (m->H % m->G || a->B < 0 || a->T < 0 || a->S < 0) return QKV_ERR_USAGE;
    if (m->w_o && m->d_out < 1) return QKV_ERR_USAGE;
    if (m->w_o && m->d_out > WIDTH_MAX) return QKV_ERR_LIMIT;
    if (!m->w_q && m->d_q != m->H * m->d_k) return QKV_ERR_USAGE;
    if (!m->w_k && m->d_kv != m->G * m->d_k) return QKV_ERR_USAGE;
    if (!m->w_v && m->d_kv != m->G * m->d_v) return QKV_ERR_USAGE;
    switch (m->score) {
    case QKV_SCORE_DOT: return QKV_OK;
    case QKV_SCORE_BILINEAR: return m->w_s ? QKV_OK : QKV_ERR_USAGE;
    case QKV_SCORE_ADDITIVE:
        if (!m->w_aq || !m->w_ak || !m->w_a || m->d_a < 1) return QKV_ERR_USAGE;
        return m->d_a > WIDTH_MAX / 2 ? QKV_ERR_LIMIT : QKV_OK;
    }
    return QKV_ERR_USAGE;
}

bool qkv_multi_head_additive(qkv_precision p)
{
    switch (p) {
    case QKV_PRECISION_F32:
    case QKV_PRECISION_F32_STRICT:
    case QKV_PRECISION_F32_FAST: return true;
    case QKV_PRECISION_BF16:
    case QKV_PRECISION_F16:
    case QKV_PRECISION_INT8: break;
    }
    return false;
}

void qkv_multi_head_shape(struct qkv_attention *a, const struct qkv_multi_head *m)
{
    const struct qkv_strides natural = { 0, 0, 0 };
    a->H = m->H;
    a->G = m->G;
    a->E = m->d_k;
    a->F = m->d_v;
    a->q_strides = a->k_strides = a->v_strides = a->out_strides = natural;
    if (m->score != QKV_SCORE_DOT && a->scale == 0) a->scale = 1;
}

// Sets the attention's sizes and strides for this score function.
static qkv_status shape_operator(struct call *c)
{
    const struct qkv_multi_head *m = &c->m;
    struct qkv_attention *a = &c->a;
    qkv_multi_head_shape(a, m);
    c->kernel = qkv_attention_family(&c->a);
    // returns QKV_OK even without a kernel: qkv_attention_resolve reports the reason
    if (m->score != QKV_SCORE_ADDITIVE || !c->kernel) return QKV_OK;
    if (!qkv_multi_head_additive(a->precision)) return QKV_ERR_UNSUPPORTED;
    // Keys are multiplied by another matrix for each query head, so each query head has its own
    // keys. If there is one value head, a stride of 0 shares its values; otherwise repeat_values
    // copies the values.
    c->kernel = qkv_kernel()->additive;
    a->E = 2 * m->d_a;
    a->G = m->H;
    a->k_strides = (struct qkv_strides){ 0, m->H * m->d_a, m->d_a };
    if (__builtin_mul_overflow(a->S, a->k_strides.t, &a->k_strides.b)) return QKV_ERR_LIMIT;
    if (m->G > 1) return QKV_OK;
    a->v_strides = (struct qkv_strides){ 0, m->d_v, 0 };
    return __builtin_mul_overflow(a->S, m->d_v, &a->v_strides.b) ? QKV_ERR_LIMIT : QKV_OK;
}

// Validates the call and places its arrays in scratch. If attention refuses the call, reason[size]
// receives the cause; size 0: not requested.
static qkv_status resolve(struct call *c, const struct qkv_multi_head *m,
                          const struct qkv_attention *a, const struct qkv_multi_head_keep *keep,
                          void *scratch, char *reason, size_t size)
{
    *c = (struct call){ .m = *m, .a = *a };
    if (!c->m.G) c->m.G = m->H;
    if (!c->m.d_kv) c->m.d_kv = m->d_q;
    qkv_status status = qkv_multi_head_check(&c->m, a);
    if (!status) status = shape_operator(c);
    if (status == QKV_ERR_UNSUPPORTED)
        snprintf(reason, size, "additive scores are not supported in %s: f32 only",
                 qkv_precision_name(a->precision));
    if (status) return status;
    status = qkv_attention_resolve(&c->work, c->kernel, &c->a, reason, size);
    if (status) return status;
    if (!qkv_kernel()->linear[a->precision]) return QKV_ERR_UNSUPPORTED;
    c->type = c->kernel->type;
    c->once = (struct qkv_linear_once){ .precision = a->precision, .threads = c->work.threads };

    // Attention has bounded B T H E, so rows and keys, and their products with a width, do not
    // overflow.
    m = &c->m;
    c->rows = a->B * a->T;
    c->keys = a->B * a->S;
    struct qkv_arena arena = { scratch, SIZE_MAX, 0 };
    const size_t rows = (size_t)c->rows, keys = (size_t)c->keys, one = c->work.size;
    const bool additive = m->score == QKV_SCORE_ADDITIVE;
    const struct qkv_multi_head_keep none = { 0 };
    if (!keep) keep = &none;
    // Arrays that the caller keeps are written directly, if their type is that of the kernels.
    const bool same = c->type == QKV_REAL;
    if (same) {
        c->q = qkv_reals(keep->q);
        c->k = qkv_reals(keep->k);
        c->v = qkv_reals(keep->v);
        c->heads = qkv_reals(keep->heads);
    }
    const size_t wide[] = { (size_t)(m->H * m->d_k), (size_t)(m->G * m->d_k),
                            (size_t)(m->G * m->d_v), (size_t)(m->H * m->d_v) };
    if (!c->q && (m->w_q || !same)) c->q = qkv_arena_alloc(&arena, rows, wide[0] * one);
    if (!c->k && (m->w_k || !same)) c->k = qkv_arena_alloc(&arena, keys, wide[1] * one);
    if (!c->v && (m->w_v || !same)) c->v = qkv_arena_alloc(&arena, keys, wide[2] * one);
    if (!c->heads && (m->w_o || !same)) c->heads = qkv_arena_alloc(&arena, rows, wide[3] * one);
    if (m->score != QKV_SCORE_DOT)
        c->score_q = qkv_arena_alloc(&arena, rows, (size_t)(m->H * c->a.E) * one);
    if (additive) c->score_k = qkv_arena_alloc(&arena, keys, (size_t)(m->H * m->d_a) * one);
    if (additive && m->G > 1 && m->G < m->H)
        c->repeated = qkv_arena_alloc(&arena, keys, (size_t)(m->H * m->d_v) * one);
    // Products run one at a time, so they share one workspace, as large as the largest of them
    // needs.
    const int64_t products[][2] = { { m->w_q ? m->d_q : 0, m->H * m->d_k },
                                    { m->w_k ? m->d_kv : 0, m->G * m->d_k },
                                    { m->w_v ? m->d_kv : 0, m->G * m->d_v },
                                    { m->w_o ? m->H * m->d_v : 0, m->d_out },
                                    { additive ? m->d_k : 0, m->d_a },
                                    { m->score == QKV_SCORE_BILINEAR ? m->d_k : 0, m->d_k } };
    const double times[] = { (double)rows,
                             (double)keys,
                             (double)keys,
                             (double)rows,
                             (double)m->H * (double)(rows + keys),
                             (double)m->H * (double)rows };
    size_t pack = 0;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        if (!products[i][0]) continue;
        const size_t need = qkv_linear_once_scratch(&c->once, products[i][0], products[i][1]);
        if (need > pack) pack = need;
        c->flops += 2 * times[i] * (double)products[i][0] * (double)products[i][1];
    }
    c->once.scratch = qkv_arena_alloc(&arena, 1, pack);
    c->own = qkv_arena_alloc(&arena, 1, c->work.scratch);
    c->bytes = arena.used;
    return qkv_arena_full(&arena) ? QKV_ERR_LIMIT : QKV_OK;
}

QKV_API struct qkv_attention_plan qkv_multi_head_plan(const struct qkv_multi_head *m,
                                                      const struct qkv_attention *a)
{
    struct qkv_attention_plan p = { .status = QKV_ERR_USAGE };
    struct call c;
    if (m && a) p.status = resolve(&c, m, a, NULL, NULL, p.reason, sizeof p.reason);
    if (p.status && !p.reason[0])
        snprintf(p.reason, sizeof p.reason, "%s",
                 p.status == QKV_ERR_LIMIT ? "a width or the scratch is too large"
                                           : "widths and weights of the layer do not match");
    if (p.status) return p;
    qkv_attention_describe(&p, &c.work);
    p.scratch = (size_t)qkv_max64((int64_t)c.bytes, 64);
    p.flops += c.flops;
    return p;
}

// Returns y = in w^T + b in the type of the attention kernels. Without weights it returns the
// input, and copies it to y if the caller keeps it or the type differs.
static const void *project(const struct call *c, void *y, const real *in, int64_t rows, int64_t K,
                           int64_t N, const float *w, const float *b)
{
    if (w) {
        const struct qkv_linear_part part = { N, qkv_reals(w), qkv_reals(b), false };
        qkv_linear_once(y, N, in, K, rows, K, &part, &(struct qkv_after){ .y = c->type }, &c->once);
        return y;
    }
    if (!y) return in;
    qkv_narrow(y, c->type, in, rows * N);
    return c->type == QKV_REAL ? (const void *)in : y;
}

// Computes q W_s for each head: s = (q W_s).k.
static void bilinear(const struct call *c, const void *q)
{
    const struct qkv_multi_head *m = &c->m;
    const int64_t ld = m->H * m->d_k;
    const size_t head = (size_t)m->d_k * c->work.size;
    const struct qkv_after types = { .x = c->type, .y = c->type };
    for (int64_t h = 0; h < m->H; h++) {
        const struct qkv_linear_part part = { m->d_k, qkv_reals(m->w_s) + h * m->d_k * m->d_k, NULL,
                                              true };
        qkv_linear_once((char *)c->score_q + (size_t)h * head, ld,
                        (const char *)q + (size_t)h * head, ld, c->rows, m->d_k, &part, &types,
                        &c->once);
    }
}

// Fills rows of score_q with W_q q and w, and rows of score_k with W_k k.
static void additive(const struct call *c, const real *q, const real *k)
{
    const struct qkv_multi_head *m = &c->m;
    const int64_t d = m->d_a, ldq = m->H * 2 * d, shared = m->H / m->G;
    for (int64_t h = 0; h < m->H; h++) {
        const struct qkv_linear_part wq = { d, qkv_reals(m->w_aq) + h * d * m->d_k, NULL, false };
        const struct qkv_linear_part wk = { d, qkv_reals(m->w_ak) + h * d * m->d_k, NULL, false };
        real *y = (real *)c->score_q + h * 2 * d;
        qkv_linear_once(y, ldq, q + h * m->d_k, m->H * m->d_k, c->rows, m->d_k, &wq, NULL,
                        &c->once);
        for (int64_t r = 0; r < c->rows; r++)
            memcpy(y + r * ldq + d, qkv_reals(m->w_a) + h * d, (size_t)d * sizeof *y);
        qkv_linear_once(c->score_k + h * d, m->H * d, k + h / shared * m->d_k, m->G * m->d_k,
                        c->keys, m->d_k, &wk, NULL, &c->once);
    }
}

static const real *repeat_values(const struct call *c, const real *v)
{
    const struct qkv_multi_head *m = &c->m;
    if (!c->repeated) return v;
    const int64_t shared = m->H / m->G;
    for (int64_t r = 0; r < c->keys; r++)
        for (int64_t h = 0; h < m->H; h++)
            memcpy(c->repeated + (r * m->H + h) * m->d_v, v + (r * m->G + h / shared) * m->d_v,
                   (size_t)m->d_v * sizeof *v);
    return c->repeated;
}

// Returns whether all arrays of the caller are aligned for floats.
static bool aligned(const struct qkv_multi_head *m, const struct qkv_multi_head_keep *keep,
                    const float *out, const float *x, const float *context)
{
    static const struct qkv_multi_head_keep none;
    if (!keep) keep = &none;
    const float *const floats[] = { out,    x,       context, m->w_q,  m->w_k,     m->w_v,  m->w_o,
                                    m->b_q, m->b_k,  m->b_v,  m->b_o,  m->w_s,     m->w_aq, m->w_ak,
                                    m->w_a, keep->q, keep->k, keep->v, keep->heads };
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        if ((uintptr_t)floats[i] % sizeof(float)) return false;
    return true;
}

QKV_API qkv_status qkv_multi_head_forward(float *out, const struct qkv_multi_head_keep *keep,
                                          const float *x, const float *context,
                                          const struct qkv_multi_head *given,
                                          const struct qkv_attention *a, void *scratch)
{
    if (!given || !a) return QKV_ERR_USAGE;
    struct call c;
    qkv_status status = resolve(&c, given, a, keep, scratch, NULL, 0);
    if (status) return status;
    const struct qkv_multi_head *m = &c.m;
    if (!context && (m->d_kv != m->d_q || a->S != a->T)) return QKV_ERR_USAGE;
    if (!scratch || (uintptr_t)scratch % 64 || (c.rows && (!out || !x))) return QKV_ERR_USAGE;
    if (!aligned(m, keep, out, x, context)) return QKV_ERR_USAGE;
    if (!context) context = x;

    const real *in = qkv_reals(x), *other = qkv_reals(context);
    const void *q = project(&c, c.q, in, c.rows, m->d_q, m->H * m->d_k, m->w_q, m->b_q);
    const void *k = project(&c, c.k, other, c.keys, m->d_kv, m->G * m->d_k, m->w_k, m->b_k);
    const void *v = project(&c, c.v, other, c.keys, m->d_kv, m->G * m->d_v, m->w_v, m->b_v);
    if (m->score == QKV_SCORE_BILINEAR) {
        bilinear(&c, q);
        q = c.score_q;
    } else if (m->score == QKV_SCORE_ADDITIVE) {
        additive(&c, q, k);
        q = c.score_q;
        k = c.score_k;
        v = repeat_values(&c, v);
    }
    const bool same = c.type == QKV_REAL;
    void *heads = m->w_o || !same ? c.heads : out;
    status = qkv_attention_run(heads, keep ? qkv_reals(keep->lse) : NULL,
                               keep ? qkv_reals(keep->weights) : NULL, q, k, v, &c.work, c.own);
    if (status) return status;
    const int64_t wide = m->H * m->d_v;
    if (keep) {
        qkv_widen(qkv_reals(keep->q), c.q, c.type, c.rows * m->H * m->d_k);
        qkv_widen(qkv_reals(keep->k), c.k, c.type, c.keys * m->G * m->d_k);
        qkv_widen(qkv_reals(keep->v), c.v, c.type, c.keys * m->G * m->d_v);
        qkv_widen(qkv_reals(keep->heads), heads, c.type, c.rows * wide);
    }
    if (m->w_o) {
        const struct qkv_linear_part part = { m->d_out, qkv_reals(m->w_o), qkv_reals(m->b_o),
                                              false };
        qkv_linear_once(out, m->d_out, heads, wide, c.rows, wide, &part,
                        &(struct qkv_after){ .x = c.type }, &c.once);
    } else if (!same) {
        qkv_widen(qkv_reals(out), heads, c.type, c.rows * wide);
    } else if (c.heads && c.rows) {
        memcpy(c.heads, out, (size_t)(c.rows * wide) * sizeof(real));
    }
    return QKV_OK;
}
