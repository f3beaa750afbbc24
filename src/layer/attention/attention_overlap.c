// SPDX-License-Identifier: MIT
// attention_overlap.c: checks that the arrays of a call do not overlap and are aligned for their
// types. It compares addresses and reads no array.
//
// An array without gaps contains all bytes from its first byte to its last, so two such arrays
// overlap if and only if their byte ranges overlap. An array with gaps may legally interleave with
// another array (such as q, k and v as columns of one array), so overlaps with such an array are
// not detected. If they occur, the call overwrites inputs that it still reads.
#include "layer/attention/attention_back_work.h"
#include "layer/attention/attention_probe_work.h"

struct range {
    uintptr_t from, to; // byte range from .. to-1; from = to: there is no array
    bool gaps;
};
struct axes {
    int64_t stride[3], size[3];
};

// Returns |stride|, and INT64_MAX for INT64_MIN, which is allowed along an axis of size 1.
static int64_t extent_of(int64_t stride)
{
    return stride == INT64_MIN ? INT64_MAX : llabs(stride);
}

// Sorts the axes of an array by ascending stride.
static void sort(struct axes *x)
{
    for (int i = 0; i < 2; i++)
        for (int j = 2; j > i; j--)
            if (extent_of(x->stride[j]) < extent_of(x->stride[j - 1])) {
                const int64_t stride = x->stride[j], size = x->size[j];
                x->stride[j] = x->stride[j - 1];
                x->size[j] = x->size[j - 1];
                x->stride[j - 1] = stride;
                x->size[j - 1] = size;
            }
}

// Returns the byte range of an array whose rows have `wide` elements and whose other axes are x.
// The caller has checked that it stays within the address space.
static struct range range_of(const void *at, struct axes x, int64_t wide, size_t element)
{
    struct range r = { (uintptr_t)at, (uintptr_t)at, false };
    int64_t below = 0, extent = wide;
    if (!at || !wide) return r;
    for (int i = 0; i < 3; i++)
        if (!x.size[i]) return r;
    sort(&x);
    for (int i = 0; i < 3; i++) {
        if (x.size[i] < 2) continue;
        if (llabs(x.stride[i]) > extent) r.gaps = true;
        extent += llabs(x.stride[i]) * (x.size[i] - 1);
        if (x.stride[i] < 0) below -= x.stride[i] * (x.size[i] - 1);
    }
    r.from -= (uintptr_t)below * element;
    r.to = r.from + (uintptr_t)extent * element;
    return r;
}

static struct range plain(const void *at, int64_t n, size_t element)
{
    return range_of(at, (struct axes){ { 0, 0, 0 }, { 1, 1, 1 } }, n, element);
}

static bool meet(const struct range *a, const struct range *b)
{
    return a->from != a->to && b->from != b->to && a->from < b->to && b->from < a->to && !a->gaps &&
           !b->gaps;
}

static struct axes axes_of(const struct qkv_strides *s, int64_t B, int64_t L, int64_t H)
{
    return (struct axes){ { s->b, s->t, s->h }, { B, L, H } };
}

bool qkv_attention_rows_meet(const struct qkv_strides *s, int64_t B, int64_t L, int64_t H,
                             int64_t W)
{
    struct axes x = axes_of(s, B, L, H);
    int64_t extent = W;
    for (int i = 0; i < 3; i++)
        if (!x.size[i]) return false;
    sort(&x);
    for (int i = 0; i < 3; i++) {
        if (x.size[i] < 2) continue;
        if (llabs(x.stride[i]) < extent) return true;
        extent += llabs(x.stride[i]) * (x.size[i] - 1);
    }
    return false;
}

enum { OPTIONS = 8 };
// Computes the byte ranges of the optional inputs of attention: bias, mask, tables, lengths and
// offsets.
static void option_ranges(struct range to[OPTIONS], const struct qkv_attention *a)
{
    const struct axes bias = { { a->bias.b, a->bias.t, a->bias.h }, { a->B, a->T, a->H } },
                      mask = { { a->mask.b, a->mask.t, a->mask.h }, { a->B, a->T, a->H } };
    const int64_t sequences = a->sequences ? a->sequences : a->B;
    const int64_t offsets = a->sequences ? a->sequences + 1 : 0;
    to[0] = range_of(a->bias.at, bias, a->S, sizeof(float));
    to[1] = range_of(a->mask.at, mask, a->S, 1);
    to[2] = plain(a->relative.at, a->relative.at ? a->H * (2 * a->relative.reach + 1) : 0,
                  sizeof(float));
    to[3] = plain(a->alibi, a->H, sizeof(float));
    to[4] = plain(a->sinks, a->H, sizeof(float));
    to[5] = plain(a->k_lengths, sequences, sizeof(int64_t));
    to[6] = plain(a->q_offsets, offsets, sizeof(int64_t));
    to[7] = plain(a->k_offsets, offsets, sizeof(int64_t));
}

// Returns true if no written array overlaps another written array, one of the arrays `read`, or an
// optional input.
static bool apart(const struct range *written, int n, const struct range *read, int m,
                  const struct qkv_attention *a)
{
    struct range options[OPTIONS];
    option_ranges(options, a);
    for (int i = 0; i < n; i++) {
        for (int j = i + 1; j < n; j++)
            if (meet(&written[i], &written[j])) return false;
        for (int j = 0; j < m; j++)
            if (meet(&written[i], &read[j])) return false;
        for (int j = 0; j < OPTIONS; j++)
            if (meet(&written[i], &options[j])) return false;
    }
    return true;
}

static struct range q_range(const void *at, const struct qkv_attention_work *w)
{
    const struct qkv_attention *a = &w->a;
    return range_of(at, axes_of(&a->q_strides, a->B, a->T, a->H), a->E, w->size);
}
static struct range k_range(const void *at, const struct qkv_attention_work *w)
{
    const struct qkv_attention *a = &w->a;
    return range_of(at, axes_of(&a->k_strides, a->B, a->S, a->G), a->E, w->size);
}
static struct range v_range(const void *at, const struct qkv_attention_work *w)
{
    const struct qkv_attention *a = &w->a;
    return range_of(at, axes_of(&a->v_strides, a->B, a->S, a->G), a->F, w->size);
}
static struct range out_range(const void *at, const struct qkv_attention_work *w)
{
    const struct qkv_attention *a = &w->a;
    return range_of(at, axes_of(&a->out_strides, a->B, a->T, a->H), a->F, w->size);
}
static struct range lse_range(const real *at, const struct qkv_attention_work *w)
{
    return plain(at, w->a.B * w->a.T * w->a.H, sizeof(real));
}

enum { PROBES = 9 };
// Computes the byte ranges of the arrays that probes write; qkv_probe_resolve has checked their
// sizes.
static void probe_ranges(struct range to[PROBES], const struct qkv_probe *p,
                         const struct qkv_attention *a)
{
    const int64_t heads = a->B * a->H, rows = heads * a->T;
    const int64_t top = p->top_weight ? rows * p->top_k : 0;
    const int64_t tiles = p->tile_max || p->tile_mean ? heads * p->side * p->side : 0;
    to[0] = plain(p->top_weight, top, sizeof(float));
    to[1] = plain(p->top_key, top, sizeof(int32_t));
    to[2] = plain(p->row_weights, heads * p->rows * a->S, sizeof(float));
    to[3] = plain(p->received, heads * a->S, sizeof(float));
    to[4] = plain(p->entropy, rows, sizeof(float));
    to[5] = plain(p->distance, rows, sizeof(float));
    to[6] = plain(p->offsets, p->offsets ? heads * (2 * p->reach + 1) : 0, sizeof(float));
    to[7] = plain(p->tile_max, tiles, sizeof(float));
    to[8] = plain(p->tile_mean, tiles, sizeof(float));
}

static bool forward_apart(const struct qkv_attention_work *w, const struct qkv_attention_arrays *p)
{
    enum { OWN = 4 };
    const int64_t rows = w->a.B * w->a.T * w->a.H;
    struct range written[OWN + PROBES] = {
        out_range(p->out, w),
        lse_range(p->lse, w),
        plain(p->weights, p->weights ? rows * w->a.S : 0, sizeof(real)),
        plain(p->scratch, (int64_t)w->scratch, 1),
    };
    const struct range read[] = { q_range(p->q, w), k_range(p->k, w), v_range(p->v, w) };
    if (w->a.probe) probe_ranges(written + OWN, w->a.probe, &w->a);
    return apart(written, w->a.probe ? OWN + PROBES : OWN, read, sizeof read / sizeof *read, &w->a);
}

static bool at_multiple(const void *p, size_t to)
{
    return (uintptr_t)p % to == 0;
}

static bool all_at_multiples(const void *const *p, int n, size_t to)
{
    for (int i = 0; i < n; i++)
        if (!at_multiple(p[i], to)) return false;
    return true;
}
static bool options_aligned(const struct qkv_attention *a)
{
    const void *const floats[] = { a->bias.at, a->relative.at, a->alibi, a->sinks };
    return all_at_multiples(floats, 4, sizeof(float));
}

static bool probe_aligned(const struct qkv_probe *p)
{
    const void *const numbers[] = { p->top_weight, p->top_key,  p->row_weights,
                                    p->received,   p->entropy,  p->distance,
                                    p->offsets,    p->tile_max, p->tile_mean };
    return all_at_multiples(numbers, PROBES, sizeof(float)) &&
           all_at_multiples((const void *const[]){ p->row }, 1, sizeof(int64_t));
}

static bool forward_aligned(const struct qkv_attention_work *w,
                            const struct qkv_attention_arrays *p)
{
    const void *const stored[] = { p->out, p->q, p->k, p->v };
    return all_at_multiples(stored, 4, w->size) && options_aligned(&w->a) &&
           at_multiple(p->lse, sizeof(real)) && at_multiple(p->weights, sizeof(real)) &&
           at_multiple(p->scratch, 64) && (!w->a.probe || probe_aligned(w->a.probe));
}

qkv_status qkv_attention_check_arrays(const struct qkv_attention_work *w,
                                      const struct qkv_attention_arrays *p)
{
    const struct qkv_attention *a = &w->a;
    const int64_t sizes[] = { a->T, a->H, a->B, sizeof(real) };
    int64_t n = a->S;
    if (!p->out || !p->q || !p->scratch) return QKV_ERR_USAGE;
    for (size_t i = 0; p->weights && i < sizeof sizes / sizeof *sizes; i++)
        if (__builtin_mul_overflow(n, sizes[i], &n)) return QKV_ERR_LIMIT;
    return forward_aligned(w, p) && forward_apart(w, p) ? QKV_OK : QKV_ERR_USAGE;
}

// ---- probes ------------------------------------------------------------------------------------
qkv_status qkv_probe_check(const struct qkv_probe_work *x, const void *q, const void *k,
                           const real *lse, const void *scratch)
{
    const struct qkv_attention_work *w = &x->w;
    const void *const stored[] = { q, k };
    struct range written[PROBES + 1];
    const struct range read[] = { q_range(q, w), k_range(k, w), lse_range(lse, w) };
    if (!scratch || (w->a.T && (!q || !lse)) || (w->a.T && w->a.S && !k)) return QKV_ERR_USAGE;
    if (!all_at_multiples(stored, 2, w->size) || !at_multiple(lse, sizeof(real)) ||
        !at_multiple(scratch, 64) || !options_aligned(&w->a) || !probe_aligned(&x->p))
        return QKV_ERR_USAGE;
    probe_ranges(written, &x->p, &w->a);
    written[PROBES] = plain(scratch, (int64_t)x->scratch, 1);
    return apart(written, PROBES + 1, read, sizeof read / sizeof *read, &w->a) ? QKV_OK
                                                                               : QKV_ERR_USAGE;
}

// ---- backward ----------------------------------------------------------------------------------
static bool back_apart(const struct qkv_attention_back *b, const struct qkv_attention_tables *g,
                       const struct qkv_attention_back_given *x)
{
    const struct qkv_attention_work *w = &b->w;
    const struct qkv_attention *a = &w->a;
    const struct axes bias = { { a->bias.b, a->bias.t, a->bias.h }, { a->B, a->T, a->H } };
    const struct range written[] = {
        q_range(x->dq, w),
        k_range(x->dk, w),
        v_range(x->dv, w),
        range_of(g->bias, bias, a->S, sizeof(real)),
        plain(g->relative, g->relative ? a->H * (2 * a->relative.reach + 1) : 0, sizeof(real)),
        plain(g->alibi, a->H, sizeof(real)),
        plain(g->sinks, a->H, sizeof(real)),
        plain(x->scratch, (int64_t)b->scratch, 1),
    };
    const struct range read[] = {
        q_range(x->q, w),      k_range(x->k, w),     v_range(x->v, w),
        out_range(x->dout, w), out_range(x->out, w), lse_range(x->lse, w),
    };
    return apart(written, sizeof written / sizeof *written, read, sizeof read / sizeof *read, a);
}

qkv_status qkv_attention_back_check(const struct qkv_attention_back *b,
                                    const struct qkv_attention_tables *g,
                                    const struct qkv_attention_back_given *x)
{
    const struct qkv_attention *a = &b->w.a;
    const void *const rows[] = { x->dq, x->dout, x->q, x->out, x->lse };
    const void *const keys[] = { x->dk, x->dv, x->k, x->v };
    const void *const reals[] = { x->lse, g->bias, g->relative, g->alibi, g->sinks };
    for (int i = 0; a->T && i < 5; i++)
        if (!rows[i]) return QKV_ERR_USAGE;
    for (int i = 0; a->S && i < 4; i++)
        if (!keys[i]) return QKV_ERR_USAGE;
    if (!x->scratch || !at_multiple(x->scratch, 64)) return QKV_ERR_USAGE;
    const bool fine = all_at_multiples(rows, 4, b->w.size) &&
                      all_at_multiples(keys, 4, b->w.size) &&
                      all_at_multiples(reals, 5, sizeof(real)) && options_aligned(a);
    return fine && back_apart(b, g, x) ? QKV_OK : QKV_ERR_USAGE;
}
