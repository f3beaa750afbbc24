// SPDX-License-Identifier: MIT
// block.c: runs one layer of a stack, in models that run (without a tape) and models that are
// trained (with a tape, tape.h). For each sublayer f of the layer (self-attention, cross-attention,
// feed-forward):
//
//   x = x + drop(norm_out(f(norm_in(x))))      with norms inside (QKV_NORM_INSIDE)
//   x = drop(f(x))                             feed-forward of a description with mlp_bare
//   x = norm_out(x + m drop(f(norm_in(x))))    otherwise
//
// A norm that the description lacks is the identity. m is the description's residual_scale; if that
// is 0, m is 1. drop is dropout; without a tape it is the identity. Without a tape and with m = 1,
// the last projection of f also adds the residual and applies a layer norm while a block of rows is
// in the cache. With a tape, the arrays of the tape receive the activations that backward reads.
#include "model/forward/tape.h"
#include <string.h>

struct qkv_dropout qkv_stream_dropout(const struct qkv_stream *s, int64_t place)
{
    struct qkv_dropout drop = s->drop;
    drop.site += (uint64_t)place;
    return drop;
}

// Consecutive rows of a stream: n rows from row `at` of this process, which is row `first` of the
// batch.
struct rows_part {
    int64_t at, first, n;
};
static struct rows_part part_of(const struct qkv_stream *s, int i)
{
    if (!s->rows) return (struct rows_part){ 0, 0, i ? 0 : s->R };
    return (struct rows_part){ i ? s->rows->n[0] : 0, s->rows->first[i], s->rows->n[i] };
}

void qkv_stream_drop(const struct qkv_stream *s, real *y, const real *residual, const void *x,
                     qkv_dtype t, int64_t width, const struct qkv_dropout *drop)
{
    for (int i = 0; i < 2; i++) {
        const struct rows_part p = part_of(s, i);
        const int64_t at = p.at * width;
        qkv_dropout_forward(y + at, residual ? residual + at : NULL,
                            (const char *)x + (size_t)at * qkv_dtype_size(t ? t : QKV_REAL), t,
                            p.first * width, p.n * width, drop);
    }
}

void qkv_stream_drop_backward(const struct qkv_stream *s, void *dx, qkv_dtype t, const real *dy,
                              int64_t width, const struct qkv_dropout *drop)
{
    for (int i = 0; i < 2; i++) {
        const struct rows_part p = part_of(s, i);
        const int64_t at = p.at * width;
        qkv_dropout_backward((char *)dx + (size_t)at * qkv_dtype_size(t ? t : QKV_REAL), t, dy + at,
                             p.first * width, p.n * width, drop);
    }
}

// Returns what a sublayer f adds its result to: the stream; NULL: f replaces the stream.
static const real *residual_of(const struct qkv_stream *s, int sublayer)
{
    return s->is->mlp_bare && sublayer == QKV_SUBLAYER_FEED_FORWARD ? NULL : s->x;
}

static struct qkv_dropout dropout_after(const struct qkv_stream *s, const struct qkv_tape *t)
{
    return t ? qkv_stream_dropout(s, 4 * t->number) : (struct qkv_dropout){ 0 };
}

// Returns the norm after a sublayer if the last projection of the sublayer can apply it: this
// requires a layer norm, no tape, and no factor residual_scale. NULL: there is no norm, or the
// projection cannot apply it.
static const struct qkv_norm *fused(const struct qkv_stream *s, const struct qkv_norm *norm,
                                    const struct qkv_tape *t)
{
    const bool can = s->is->norm_kind == QKV_NORM_LAYER && !s->is->residual_scale && !t;
    return norm->D && can ? norm : NULL;
}

const void *qkv_sublayer_input(struct qkv_stream *s, const struct qkv_block *b, int sublayer,
                               const real *x, const struct qkv_tape *t, qkv_dtype *type)
{
    const struct qkv_norm *norm = &b->in[sublayer];
    *type = 0;
    if (!norm->D) return x;
    qkv_norm_kind_forward(s->normed, s->type, t ? &t->in : NULL, x, s->R, norm, s->is->norm_kind);
    *type = s->type;
    return s->normed;
}

// Sets where the last projection of a sublayer f writes its result, and what it adds. In the first
// of these cases that applies, it writes:
//   norms inside the residual connection (QKV_NORM_INSIDE)   f to sum
//   with dropout                                             f to s->branch
//   with a factor residual_scale                             f to sum
//   otherwise                                                x + f to sum (x NULL: f)
static void set_output(struct qkv_sublayer_rows *rows, const struct qkv_stream *s, const real *x,
                       real *sum, const struct qkv_tape *t)
{
    rows->y = sum;
    if (s->is->norm == QKV_NORM_INSIDE) return;
    if (dropout_after(s, t).p > 0) {
        rows->y = s->branch;
        rows->y_type = s->type;
    } else if (!s->is->residual_scale) {
        rows->residual = x;
    }
}

// Computes sum = x + m drop(f), where m is the factor residual_scale (1 if it is 0), after the last
// projection of the sublayer f has written to the arrays that set_output chose. Without dropout and
// factor, the projection has already added x. x NULL: sum = drop(f).
static void add_residual(const struct qkv_stream *s, const real *x, real *sum,
                         const struct qkv_dropout *drop)
{
    const real m = (real)s->is->residual_scale;
    const int64_t n = s->R * s->D;
    if (drop->p > 0) qkv_stream_drop(s, sum, m ? NULL : x, s->branch, s->type, s->D, drop);
    for (int64_t i = 0; x && m && i < n; i++) sum[i] = x[i] + m * sum[i];
}

// Applies the norm before a sublayer and returns the rows that the sublayer reads and writes.
static struct qkv_sublayer_rows sublayer_begin(struct qkv_stream *s, const struct qkv_block *b,
                                               int sublayer, const struct qkv_tape *t)
{
    struct qkv_sublayer_rows rows = { .norm = fused(s, &b->out[sublayer], t) };
    rows.x = qkv_sublayer_input(s, b, sublayer, s->x, t, &rows.x_type);
    set_output(&rows, s, residual_of(s, sublayer), t ? t->sum : s->spare, t);
    if (t && t->partial) rows.y = NULL;
    return rows;
}

// Copies the stream after a sublayer for an observer, if it has requested copies.
static void copy_stream(const struct qkv_stream *s, int sublayer)
{
    struct qkv_sublayer_streams *to = s->sublayers;
    if (!to) return;
    for (int64_t r = 0; r < s->R; r++)
        memcpy(to->at[sublayer] + (to->place ? to->place[r] : r) * to->width, s->x + r * to->width,
               (size_t)to->width * sizeof *s->x);
    to->stored |= 1u << sublayer;
}

// Applies dropout, residual and norm after a sublayer, except the steps that its last projection
// has applied, and makes the result the new stream s->x.
static void sublayer_end(struct qkv_stream *s, const struct qkv_block *b, int sublayer,
                         const struct qkv_tape *t)
{
    const struct qkv_norm *norm = &b->out[sublayer];
    const struct qkv_dropout drop = dropout_after(s, t);
    const bool inside = s->is->norm == QKV_NORM_INSIDE;
    real *x = s->x, *sum = t ? t->sum : s->spare, *value = t ? t->value : s->spare;
    if (t && t->partial) return;
    if (!inside) add_residual(s, residual_of(s, sublayer), sum, &drop);
    if (norm->D && !fused(s, norm, t))
        qkv_norm_kind_forward(value, 0, t ? &t->out : NULL, sum, s->R, norm, s->is->norm_kind);
    if (inside) qkv_stream_drop(s, value, x, value, 0, s->D, &drop);
    s->x = value;
    if (!t) s->spare = x;
    copy_stream(s, sublayer);
}

struct qkv_heads qkv_sublayer_heads(const struct qkv_stream *s, const struct qkv_block *b,
                                    int sublayer)
{
    const bool across = sublayer == QKV_SUBLAYER_CROSS;
    struct qkv_heads heads = across ? b->cross : b->heads;
    const struct qkv_rope *rope = &s->places->turn[b->local];
    if (across)
        heads.memory = s->memory;
    else
        heads.positions = s->positions;
    if (!across && rope->table && !b->unrotated) heads.rope = rope;
    if (!across) heads.ranks = s->ranks;
    return heads;
}

struct qkv_attention qkv_sublayer_attention(const struct qkv_stream *s, const struct qkv_block *b,
                                            int sublayer, const struct qkv_tape *t)
{
    const bool across = sublayer == QKV_SUBLAYER_CROSS;
    const struct qkv_attention *own = b->local ? s->local : s->attention;
    struct qkv_attention a = across ? *s->across : qkv_block_attention(b, own);
    if (t && s->drop.p > 0) {
        const struct qkv_dropout drop = qkv_stream_dropout(s, 4 * t->number + 1);
        a.dropout.p = (float)drop.p;
        a.dropout.seed = drop.seed;
        a.dropout.site = drop.site;
    }
    return a;
}

static qkv_status attend(struct qkv_stream *s, const struct qkv_block *b, int sublayer,
                         const struct qkv_tape *t)
{
    const bool across = sublayer == QKV_SUBLAYER_CROSS;
    const struct qkv_heads heads = qkv_sublayer_heads(s, b, sublayer);
    const struct qkv_attention a = qkv_sublayer_attention(s, b, sublayer, t);
    const struct qkv_sublayer_rows rows = sublayer_begin(s, b, sublayer, t);
    const struct qkv_heads_cache *cache = across ? s->cross_cache : s->cache;
    if (!cache)
        return qkv_heads_forward(&rows, across ? s->keep_cross : s->keep, t ? &t->heads : NULL,
                                 &heads, &a, s->scratch);
#ifdef QKV_DOUBLE
    return QKV_ERR_INTERNAL; // a KV cache stores floats
#else
    return qkv_heads_cached(&rows, &heads, &a, cache, s->scratch);
#endif
}

qkv_status qkv_block_forward(struct qkv_stream *s, const struct qkv_block *b,
                             const struct qkv_tape *tape)
{
    for (int k = 0; k < QKV_SUBLAYERS; k++) {
        if (!qkv_block_has(b, k)) continue;
        if (k == QKV_SUBLAYER_FEED_FORWARD) {
            const struct qkv_sublayer_rows rows = sublayer_begin(s, b, k, tape);
            qkv_mlp_forward(&rows, tape ? &tape->mlp : NULL, s->R, &b->mlp, s->scratch);
        } else {
            const qkv_status status = attend(s, b, k, tape);
            if (status) return status;
        }
        sublayer_end(s, b, k, tape);
        if (tape) tape++;
    }
    return QKV_OK;
}

void qkv_sublayer_sum(struct qkv_stream *s, const struct qkv_block *b, int sublayer, const real *x,
                      const struct qkv_tape *t, real *sum)
{
    const struct qkv_heads heads = qkv_sublayer_heads(s, b, sublayer);
    const struct qkv_attention a = qkv_sublayer_attention(s, b, sublayer, t);
    const struct qkv_dropout drop = dropout_after(s, t);
    struct qkv_sublayer_rows rows = { 0 };
    set_output(&rows, s, x, sum, t);
    qkv_heads_out(&rows, &t->heads, s->R, &heads, &a);
    if (s->is->norm != QKV_NORM_INSIDE) add_residual(s, x, sum, &drop);
}

size_t qkv_stack_scratch(const struct qkv_stack *stack, const struct qkv_attention *a,
                         const struct qkv_attention *across, qkv_status *status)
{
    size_t most = 0;
    *status = QKV_OK;
    for (int64_t i = 0; i < stack->blocks; i++) {
        const struct qkv_block *b = &stack->block[i];
        size_t bytes[3] = { 0 };
        if (b->heads.H) bytes[0] = qkv_heads_scratch(&b->heads, a, status);
        if (!*status && b->cross.H) bytes[1] = qkv_heads_scratch(&b->cross, across, status);
        if (*status) return SIZE_MAX;
        if (b->mlp.up.K) bytes[2] = qkv_mlp_scratch(&b->mlp, a->T);
        for (int k = 0; k < 3; k++)
            if (bytes[k] > most) most = bytes[k];
    }
    if (most == SIZE_MAX) *status = QKV_ERR_LIMIT;
    return most;
}
