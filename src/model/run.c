// SPDX-License-Identifier: MIT
// run.c: tokens through a model: checked, embedded, layer by layer, watched.
//
// Rows that are padding are never computed: the others are run as if the padding were not there,
// and put back to their places at the end.  All memory is one arena whose size is counted before;
// the model keeps it for the next run.
#include "model/model.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

// What a run works on.  R counts the rows that are computed; the caller's rows are `all`.
struct run {
    const struct qkv_model *m;
    const struct qkv_model_input *in;
    const struct qkv_watch *watch;
    int64_t R, all, sequences;
    int64_t longest, deepest; // tokens of the longest sequence, with its padding and without
    float *hidden;            // the caller's, NULL: not wanted
    const int64_t *offsets;   // [sequences + 1] of the rows computed
    int64_t *own_offsets;     // ... where they are not the caller's
    int64_t *place;           // [R] the caller's row; NULL: the same
    int32_t *ids, *types, *positions; // [R]
    float *words, *kinds;             // tables where the file's own cannot be used
    const float *places;              // rows of the position table
    struct qkv_rope rope;             // with its turns, where positions are rotary
    struct qkv_attention attention;
    struct qkv_heads_keep keep; // q, k, v, lse: only when watched
    struct qkv_stream stream;
    float *dense;                                      // [H][all][longest]
    float *square;                                     // [H][n][n] of the longest sequence
    void *square_q, *square_k, *square_v, *square_out; // [n] its rows, as the operator reads them
    void *square_scratch;
    float *spread; // [all][D] a watched array with its padding rows
    float *spread_q, *spread_k, *spread_v, *spread_lse;
};

// The attention of one sequence of T tokens, on its own.
static struct qkv_attention sequence_of(const struct qkv_model *m, int64_t T)
{
    const struct qkv_heads *heads = &m->block[0].heads;
    return (struct qkv_attention){ .B = 1,
                                   .T = T,
                                   .S = T,
                                   .H = heads->H,
                                   .G = heads->G,
                                   .E = heads->E,
                                   .F = heads->F,
                                   .causal = m->is.kind == QKV_NET_DECODER,
                                   .precision = qkv_precision_attention(m->precision) };
}

static qkv_status check(const struct qkv_model *m, const struct qkv_model_input *in, qkv_error *err)
{
    const int64_t types = m->is.size.types;
    if (in->sequences < 0 || !in->offsets || in->offsets[0] != 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "offsets of sequences, expected to start with 0");
    if (!in->ids && in->offsets[in->sequences] > 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "tokens, expected ids, found NULL");
    for (int64_t i = 0; i < in->sequences; i++) {
        const int64_t n = in->offsets[i + 1] - in->offsets[i];
        const int64_t used = in->lengths ? in->lengths[i] : n;
        if (in->offsets[i + 1] < in->offsets[i] || in->offsets[i + 1] > INT32_MAX)
            return qkv_fail(
                err, QKV_ERR_USAGE, NULL,
                "offsets of sequences, expected not to decrease and at most %d, found %" PRId64,
                INT32_MAX, in->offsets[i + 1]);
        if (used < 0 || used > n)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "length of sequence %" PRId64 ", expected 0 .. %" PRId64
                            ", found %" PRId64,
                            i, n, used);
        if (used > m->positions)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "sequence too long for the model, expected at most %" PRId64
                            " tokens, found %" PRId64,
                            m->positions, used);
        for (int64_t r = in->offsets[i]; r < in->offsets[i] + used; r++) {
            if (in->ids[r] < 0 || in->ids[r] >= m->is.size.vocab)
                return qkv_fail(err, QKV_ERR_USAGE, NULL,
                                "no such token, expected an id below %" PRId64 ", found %" PRId32,
                                m->is.size.vocab, in->ids[r]);
            if (types && in->types && (in->types[r] < 0 || in->types[r] >= types))
                return qkv_fail(err, QKV_ERR_USAGE, NULL,
                                "no such token type, expected below %" PRId64 ", found %" PRId32,
                                types, in->types[r]);
        }
    }
    return QKV_OK;
}

// Where each sequence lies among the rows that are computed; false: no memory.
static bool count_rows(struct run *u)
{
    const struct qkv_model_input *in = u->in;
    u->sequences = in->sequences;
    u->all = in->offsets[in->sequences];
    u->offsets = in->offsets;
    if (in->lengths) {
        u->own_offsets = qkv_alloc((size_t)u->sequences + 1, sizeof *u->own_offsets);
        if (!u->own_offsets) return false;
        u->own_offsets[0] = 0;
        u->offsets = u->own_offsets;
    }
    for (int64_t i = 0; i < u->sequences; i++) {
        const int64_t n = in->offsets[i + 1] - in->offsets[i];
        const int64_t used = in->lengths ? in->lengths[i] : n;
        if (u->own_offsets) u->own_offsets[i + 1] = u->own_offsets[i] + used;
        u->longest = qkv_max64(u->longest, n);
        u->deepest = qkv_max64(u->deepest, used);
    }
    u->R = u->offsets[u->sequences];
    u->attention = (struct qkv_attention){ .B = 1,
                                           .T = u->R,
                                           .S = u->R,
                                           .sequences = u->sequences,
                                           .q_offsets = u->offsets,
                                           .causal = u->m->is.kind == QKV_NET_DECODER,
                                           .precision = qkv_precision_attention(u->m->precision) };
    return true;
}

// Scratch of the two things that have plans of their own.
static qkv_status plan(struct run *u, size_t *block, size_t *square, qkv_error *err)
{
    qkv_status s = QKV_OK;
    *square = 0;
    *block = qkv_block_scratch(u->m, &u->attention, &s);
    if (!s && u->watch && u->watch->weights) {
        const struct qkv_attention a = sequence_of(u->m, u->longest);
        const struct qkv_attention_plan p = qkv_attention_plan(&a);
        *square = p.scratch;
        s = p.status;
    }
    return s ? qkv_fail(err, s, NULL, "attention over %" PRId64 " tokens was refused", u->R)
             : QKV_OK;
}

// How often x and spare change places.
static int64_t parts(const struct qkv_model *m)
{
    int64_t n = 0;
    for (int64_t i = 0; i < m->blocks; i++)
        n += (m->block[i].heads.H > 0) + (m->block[i].mlp.up.K > 0);
    return n;
}

// Takes everything from the arena: called once to count, once to have it.
static void take(struct run *u, struct qkv_arena *a, size_t block_scratch, size_t square_scratch)
{
    const struct qkv_model *m = u->m;
    const struct qkv_config_sizes *size = &m->is.size;
    const size_t R = (size_t)u->R, D = (size_t)size->width, all = (size_t)u->all,
                 n = (size_t)u->longest;
    const size_t H = (size_t)size->heads, E = (size_t)qkv_head_keys(&m->is),
                 F = (size_t)qkv_head_values(&m->is), G = (size_t)size->kv_heads;
    const bool padded = u->R < u->all, weights = u->watch && u->watch->weights;
    u->ids = qkv_arena_take(a, R, sizeof *u->ids);
    u->types = qkv_arena_take(a, R, sizeof *u->types);
    u->positions = qkv_arena_take(a, R, sizeof *u->positions);
    if (padded) u->place = qkv_arena_take(a, R, sizeof *u->place);
    if (!m->word.rows) u->words = qkv_arena_take(a, R * D, sizeof(float));
    if (size->types && !m->type.rows)
        u->kinds = qkv_arena_take(a, (size_t)size->types * D, sizeof(float));
    // Where no row is padding, the last part leaves its result where the caller wants it.
    const bool direct = u->hidden && !padded, even = parts(m) % 2 == 0;
    u->stream.x = direct && even ? u->hidden : qkv_arena_take(a, R * D, sizeof(float));
    u->stream.spare = direct && !even ? u->hidden : qkv_arena_take(a, R * D, sizeof(float));
    if (m->is.norm != QKV_NORM_POST) u->stream.normed = qkv_arena_take(a, R * D, sizeof(float));
    u->stream.scratch = qkv_arena_take(a, block_scratch, 1);
    if (!u->watch) return;
    u->keep.q = qkv_arena_take(a, R, H * E * sizeof(float));
    u->keep.k = qkv_arena_take(a, R, G * E * sizeof(float));
    u->keep.v = qkv_arena_take(a, R, G * F * sizeof(float));
    u->keep.lse = qkv_arena_take(a, R * H, sizeof(float));
    if (padded) {
        u->spread = qkv_arena_take(a, all * D, sizeof(float));
        u->spread_q = qkv_arena_take(a, all, H * E * sizeof(float));
        u->spread_k = qkv_arena_take(a, all, G * E * sizeof(float));
        u->spread_v = qkv_arena_take(a, all, G * F * sizeof(float));
        u->spread_lse = qkv_arena_take(a, all * H, sizeof(float));
    }
    if (weights) {
        u->dense = qkv_arena_take(a, H * all, n * sizeof(float));
        u->square = qkv_arena_take(a, H * n, n * sizeof(float));
        u->square_q = qkv_arena_take(a, n, H * E * sizeof(float));
        u->square_k = qkv_arena_take(a, n, G * E * sizeof(float));
        u->square_v = qkv_arena_take(a, n, G * F * sizeof(float));
        u->square_out = qkv_arena_take(a, n, H * F * sizeof(float));
        u->square_scratch = qkv_arena_take(a, square_scratch, 1);
    }
}

// Compact copies of the caller's tokens, and where each row came from.
static void gather(struct run *u)
{
    const struct qkv_model_input *in = u->in;
    for (int64_t i = 0; i < u->sequences; i++)
        for (int64_t at = u->offsets[i]; at < u->offsets[i + 1]; at++) {
            const int64_t r = in->offsets[i] + at - u->offsets[i];
            u->ids[at] = in->ids[r];
            u->types[at] = in->types && u->m->is.size.types ? in->types[r] : 0;
            if (u->place) u->place[at] = r;
        }
}

static void normalise(struct run *u, const struct qkv_norm *norm)
{
    qkv_norm_kind_forward(u->stream.x, 0, NULL, u->stream.x, u->R, norm, u->m->is.norm_kind);
}

static void embed(struct run *u)
{
    const struct qkv_model *m = u->m;
    const struct qkv_config_sizes *size = &m->is.size;
    const int64_t D = size->width;
    struct qkv_embed e = { .V = size->vocab,
                           .D = D,
                           .token = m->word.rows,
                           .type = m->type.rows,
                           .position = u->places,
                           .P = size->positions,
                           .Y = size->types,
                           .scale = (float)m->is.embed_scale };
    if (u->words) { // a table of the rows that are used, in the order of their use
        for (int64_t r = 0; r < u->R; r++) {
            qkv_table_row(u->words + r * D, &m->word, u->ids[r], D);
            u->ids[r] = (int32_t)r;
        }
        e.token = u->words;
        e.V = u->R;
    }
    if (u->kinds) {
        for (int64_t y = 0; y < size->types; y++) qkv_table_row(u->kinds + y * D, &m->type, y, D);
        e.type = u->kinds;
    }
    qkv_embed_forward(u->stream.x, u->ids, u->types, u->positions, u->R, &e);
    if (m->is.embedding_norm) normalise(u, &m->embedding_norm);
}

// to[all][width] = from[R][width] at the rows they came from, 0 elsewhere; from itself without
// padding.
static const float *spread(const struct run *u, float *to, const float *from, int64_t width)
{
    if (!u->place) return from;
    memset(to, 0, (size_t)(u->all * width) * sizeof *to);
    for (int64_t r = 0; r < u->R; r++)
        memcpy(to + u->place[r] * width, from + r * width, (size_t)width * sizeof *to);
    return to;
}

static const float *spread_lse(const struct run *u, float *to, const float *from, int64_t H)
{
    if (!u->place) return from;
    for (int64_t i = 0; i < H * u->all; i++) to[i] = -INFINITY;
    for (int64_t h = 0; h < H; h++)
        for (int64_t r = 0; r < u->R; r++) to[h * u->all + u->place[r]] = from[h * u->R + r];
    return to;
}

// The rows from[n] of an array that was kept, as the operator reads them: from itself, or what they
// were before they were kept as float, to the bit.
static const void *stored(const struct run *u, void *to, const float *from, int64_t n)
{
    const qkv_dtype type = qkv_precision_type(u->attention.precision);
    if (type == QKV_F32) return from;
    qkv_from_f32(to, type, from, n);
    return to;
}

// dense[H][all][longest]: the operator again, sequence by sequence, on the q, k, v it kept: so that
// the memory is that of the longest sequence and not of all tokens squared.
static qkv_status dense_weights(struct run *u)
{
    const struct qkv_heads *heads = &u->m->block[0].heads;
    const int64_t H = heads->H, n = u->longest;
    memset(u->dense, 0, (size_t)(H * u->all * n) * sizeof(float));
    for (int64_t i = 0; i < u->sequences; i++) {
        const int64_t at = u->offsets[i], T = u->offsets[i + 1] - at;
        if (!T) continue;
        const struct qkv_attention a = sequence_of(u->m, T);
        const int64_t q = H * heads->E, k = heads->G * heads->E, v = heads->G * heads->F;
        const qkv_status s = qkv_attention_forward(
            u->square_out, NULL, u->square, stored(u, u->square_q, u->keep.q + at * q, T * q),
            stored(u, u->square_k, u->keep.k + at * k, T * k),
            stored(u, u->square_v, u->keep.v + at * v, T * v), &a, u->square_scratch);
        if (s) return s;
        for (int64_t h = 0; h < H; h++)
            for (int64_t t = 0; t < T; t++)
                memcpy(u->dense + (h * u->all + u->in->offsets[i] + t) * n,
                       u->square + (h * T + t) * T, (size_t)T * sizeof(float));
    }
    return QKV_OK;
}

static qkv_status show(struct run *u, int64_t layer, qkv_error *err)
{
    const struct qkv_heads *heads = &u->m->block[0].heads;
    const int64_t D = u->m->is.size.width;
    struct qkv_layer_seen seen = { .layer = layer,
                                   .R = u->all,
                                   .H = heads->H,
                                   .G = heads->G,
                                   .E = heads->E,
                                   .F = heads->F,
                                   .causal = u->m->is.kind == QKV_NET_DECODER };
    seen.hidden = spread(u, u->spread, u->stream.x, D);
    if (layer >= 0) {
        seen.q = spread(u, u->spread_q, u->keep.q, heads->H * heads->E);
        seen.k = spread(u, u->spread_k, u->keep.k, heads->G * heads->E);
        seen.v = spread(u, u->spread_v, u->keep.v, heads->G * heads->F);
        seen.lse = spread_lse(u, u->spread_lse, u->keep.lse, heads->H);
        seen.scale = (float)(1 / sqrt((double)heads->E));
        if (u->dense) {
            const qkv_status s = dense_weights(u);
            if (s) return qkv_fail(err, s, NULL, "the dense weights were refused");
            seen.weights = u->dense;
        }
    }
    if (u->watch->layer(u->watch->user, &seen))
        return qkv_fail(err, QKV_ERR_INTERRUPTED, NULL, "stopped");
    return QKV_OK;
}

// Every block.  What follows the stack (feed-forward once, final norm) belongs to the last layer
// seen.
static qkv_status layers(struct run *u, qkv_error *err)
{
    const struct qkv_model *m = u->m;
    const int64_t last = m->is.size.layers - 1;
    qkv_status s = u->watch ? show(u, -1, err) : QKV_OK;
    for (int64_t i = 0; !s && i < m->blocks; i++) {
        s = qkv_block_forward(&u->stream, &m->block[i]);
        if (s) return qkv_fail(err, s, NULL, "a layer was refused");
        if (i + 1 == m->blocks && m->is.final_norm) normalise(u, &m->final_norm);
        if (u->watch && (i < last || i + 1 == m->blocks)) s = show(u, qkv_min64(i, last), err);
    }
    return s;
}

// Weights packed, rows of positions there: what the first run makes and later ones find.
static qkv_status prepare(struct run *u)
{
    struct qkv_model *m =
        (struct qkv_model *)u->m; // const to its callers: a lock guards what is made
    const int64_t before = m->is.size.positions - m->positions; // rows that stand for no place
    const qkv_status s = qkv_model_pack(m);
    u->places = m->position.rows;
    if (s || m->is.position == QKV_POSITION_NONE || u->places) return s;
    const bool rotary = m->is.position == QKV_POSITION_ROTARY;
    return qkv_position_rows(rotary ? &u->rope.table : &u->places, m, before + u->deepest);
}

// The run in memory of size bytes, which take() counted.
static qkv_status run_in(struct run *u, struct qkv_arena *arena, size_t block_scratch,
                         size_t square_scratch, qkv_error *err)
{
    take(u, arena, block_scratch, square_scratch);
    u->stream.R = u->R;
    u->stream.norm = u->m->is.norm_kind;
    u->stream.positions = u->positions;
    if (u->rope.table) u->stream.rope = &u->rope;
    u->stream.attention = &u->attention;
    u->stream.keep = u->watch ? &u->keep : NULL;
    gather(u);
    qkv_position_number(u->positions, &u->m->is, u->ids, u->offsets, u->sequences, 0);
    embed(u);
    const qkv_status s = layers(u, err);
    if (!s && u->hidden) (void)spread(u, u->hidden, u->stream.x, u->m->is.size.width);
    return s;
}

qkv_status qkv_model_run(const qkv_model *m, float *hidden, const struct qkv_model_input *in,
                         const struct qkv_watch *watch, qkv_error *err)
{
    if (!m || !in)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_model_run, expected a model and its input, found NULL");
    qkv_status s = check(m, in, err);
    if (s) return s;
    struct run u = {
        .m = m, .in = in, .watch = watch && watch->layer ? watch : NULL, .hidden = hidden
    };
    struct qkv_arena count = { .size = SIZE_MAX };
    struct qkv_spare *memory = NULL;
    size_t block_scratch, square_scratch;
    if (!count_rows(&u)) return qkv_fail_memory(err, NULL);
    if (!u.R) {
        if (hidden && u.all) memset(hidden, 0, (size_t)(u.all * m->is.size.width) * sizeof *hidden);
        goto done;
    }
    s = prepare(&u);
    if (s) {
        qkv_fail_memory(err, m->dir);
        goto done;
    }
    s = plan(&u, &block_scratch, &square_scratch, err);
    if (s) goto done;
    take(&u, &count, block_scratch, square_scratch);
    if (!qkv_arena_full(&count)) memory = qkv_spare_take((struct qkv_model *)m, count.used);
    if (!memory) {
        s = qkv_fail_memory(err, NULL);
        goto done;
    }
    struct qkv_arena arena = { memory->at, count.used, 0 };
    s = run_in(&u, &arena, block_scratch, square_scratch, err);
done:
    qkv_spare_give((struct qkv_model *)m, memory);
    qkv_free(u.own_offsets);
    return s;
}
