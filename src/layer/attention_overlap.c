// SPDX-License-Identifier: MIT
// attention_overlap.c: arrays of a call that lie wrongly in memory: on each other, or not as their
// type asks.  Addresses are compared, nothing is read.
//
// An array without gaps covers all from its first byte to its last, so two of them meet when these
// ranges do.  One with gaps may lie in the gaps of another (q, k and v of one projection side by
// side): that is let through, and whoever makes such arrays overlap has out written while it is
// read.
#include "layer/attention_work.h"

struct range {
    uintptr_t from, to; // equal: no array
    bool gaps;
};
struct axes {
    int64_t stride[3], size[3];
};

// Smallest strides first.
static void sort(struct axes *x)
{
    for (int i = 0; i < 2; i++)
        for (int j = 2; j > i; j--)
            if (llabs(x->stride[j]) < llabs(x->stride[j - 1])) {
                const int64_t stride = x->stride[j], size = x->size[j];
                x->stride[j] = x->stride[j - 1];
                x->size[j] = x->size[j - 1];
                x->stride[j - 1] = stride;
                x->size[j - 1] = size;
            }
}

// Rows of `wide` elements; their reach was checked.
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

bool qkv_attention_rows_meet(const struct qkv_attention *a)
{
    struct axes x = axes_of(&a->out_strides, a->B, a->T, a->H);
    int64_t extent = a->F;
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

static bool apart(const struct qkv_attention_work *w, const struct qkv_attention_arrays *p)
{
    const struct qkv_attention *a = &w->a;
    const int64_t rows = a->B * a->T * a->H, sequences = a->sequences ? a->sequences : a->B;
    const struct range written[] = {
        range_of(p->out, axes_of(&a->out_strides, a->B, a->T, a->H), a->F, w->size),
        plain(p->lse, rows, sizeof(real)),
        plain(p->weights, p->weights ? rows * a->S : 0, sizeof(real)),
        plain(p->scratch, (int64_t)w->scratch, 1),
    };
    const struct axes bias = { { a->bias.b, a->bias.t, a->bias.h }, { a->B, a->T, a->H } },
                      mask = { { a->mask.b, a->mask.t, a->mask.h }, { a->B, a->T, a->H } };
    const struct range read[] = {
        range_of(p->q, axes_of(&a->q_strides, a->B, a->T, a->H), a->E, w->size),
        range_of(p->k, axes_of(&a->k_strides, a->B, a->S, a->G), a->E, w->size),
        range_of(p->v, axes_of(&a->v_strides, a->B, a->S, a->G), a->F, w->size),
        range_of(a->bias.at, bias, a->S, sizeof(float)),
        range_of(a->mask.at, mask, a->S, 1),
        plain(a->alibi, a->H, sizeof(float)),
        plain(a->sinks, a->H, sizeof(float)),
        plain(a->k_lengths, sequences, sizeof(int64_t)),
        plain(a->q_offsets, a->sequences ? a->sequences + 1 : 0, sizeof(int64_t)),
        plain(a->k_offsets, a->sequences ? a->sequences + 1 : 0, sizeof(int64_t)),
    };
    enum { WRITTEN = sizeof written / sizeof *written, READ = sizeof read / sizeof *read };
    for (int i = 0; i < WRITTEN; i++) {
        for (int j = i + 1; j < WRITTEN; j++)
            if (meet(&written[i], &written[j])) return false;
        for (int j = 0; j < READ; j++)
            if (meet(&written[i], &read[j])) return false;
    }
    return true;
}

static bool at_multiple(const void *p, size_t to)
{
    return (uintptr_t)p % to == 0;
}

static bool aligned(const struct qkv_attention_work *w, const struct qkv_attention_arrays *p)
{
    const void *const stored[] = { p->out, p->q, p->k, p->v };
    const void *const floats[] = { w->a.bias.at, w->a.alibi, w->a.sinks };
    for (size_t i = 0; i < sizeof stored / sizeof *stored; i++)
        if (!at_multiple(stored[i], w->size)) return false;
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        if (!at_multiple(floats[i], sizeof(float))) return false;
    return at_multiple(p->lse, sizeof(real)) && at_multiple(p->weights, sizeof(real)) &&
           at_multiple(p->scratch, 64);
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
    return aligned(w, p) && apart(w, p) ? QKV_OK : QKV_ERR_USAGE;
}
