// SPDX-License-Identifier: MIT
// run.c: tokens through a model: checked, embedded, layer by layer, watched.
//
// Rows that are padding are never computed: the others are run as if the padding were not there,
// and put back to their places at the end.  Of two stacks the first runs whole, then the second
// reads what it made.  All memory is one arena whose size is counted before; the model keeps it for
// the next run.
#include "model/run.h"
#include <inttypes.h>
#include <string.h>

static qkv_status check(const struct qkv_model *m, int stack, const struct qkv_model_input *in,
                        qkv_error *err)
{
    const int64_t types = m->is.size.types, vocab = m->stack[stack].vocab;
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
            if (in->ids[r] < 0 || in->ids[r] >= vocab)
                return qkv_fail(err, QKV_ERR_USAGE, NULL,
                                "no such token, expected an id below %" PRId64 ", found %" PRId32,
                                vocab, in->ids[r]);
            if (types && in->types && (in->types[r] < 0 || in->types[r] >= types))
                return qkv_fail(err, QKV_ERR_USAGE, NULL,
                                "no such token type, expected below %" PRId64 ", found %" PRId32,
                                types, in->types[r]);
        }
    }
    return QKV_OK;
}

// Two stacks read two inputs, one stack one.
static qkv_status check_sides(const struct qkv_model *m, const struct qkv_model_input *in,
                              qkv_error *err)
{
    if (!m->stacks)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_place){ .file = m->dir },
                        "a %s has no layers of a Transformer to run: it decodes alone",
                        m->model_type);
    qkv_status s = check(m, m->stacks - 1, in, err);
    if (s || m->stacks < 2) {
        if (!s && in->source)
            s = qkv_fail(err, QKV_ERR_USAGE, NULL,
                         "a source, expected none: the model has one stack");
        return s;
    }
    if (!in->source)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "an encoder-decoder reads two inputs, expected a source, found NULL");
    s = check(m, 0, in->source, err);
    if (!s && in->source->sequences != in->sequences)
        s = qkv_fail(err, QKV_ERR_USAGE, NULL,
                     "sequences of the source, expected %" PRId64 ", found %" PRId64, in->sequences,
                     in->source->sequences);
    return s;
}

// Where each sequence lies among the rows that are computed; false: no memory.
static bool count_rows(struct qkv_side *s)
{
    const struct qkv_model_input *in = s->in;
    s->sequences = in->sequences;
    s->all = in->offsets[in->sequences];
    s->offsets = in->offsets;
    if (in->lengths) {
        s->own_offsets = qkv_alloc((size_t)s->sequences + 1, sizeof *s->own_offsets);
        if (!s->own_offsets) return false;
        s->own_offsets[0] = 0;
        s->offsets = s->own_offsets;
    }
    for (int64_t i = 0; i < s->sequences; i++) {
        const int64_t n = in->offsets[i + 1] - in->offsets[i];
        const int64_t used = in->lengths ? in->lengths[i] : n;
        if (s->own_offsets) s->own_offsets[i + 1] = s->own_offsets[i] + used;
        s->longest = qkv_max64(s->longest, n);
        s->deepest = qkv_max64(s->deepest, used);
    }
    s->R = s->offsets[s->sequences];
    return true;
}

// The attention of all sequences of a side to those of another, or of itself.
static struct qkv_attention packed(struct qkv_attention a, const struct qkv_side *s,
                                   const struct qkv_side *keys)
{
    a.B = 1;
    a.T = s->R;
    a.S = keys->R;
    a.sequences = s->sequences;
    a.q_offsets = s->offsets;
    a.k_offsets = keys->offsets;
    return a;
}

// Attentions of each side and their scratch.
static qkv_status plan(struct qkv_run *u, qkv_error *err)
{
    qkv_status status = QKV_OK;
    for (int i = 0; !status && i < u->sides; i++) {
        struct qkv_side *s = &u->side[i];
        s->attention = packed(qkv_stack_attention(u->m, s->stack, false), s, s);
        s->local = packed(qkv_stack_attention(u->m, s->stack, true), s, s);
        s->across = packed(qkv_cross_attention(u->m), s, &u->side[0]);
        if (u->probes) {
            s->attention.probe = s->local.probe = &s->probe.at;
            s->across.probe = &s->probe_cross.at;
        }
        const struct qkv_attention *each[] = { &s->attention, &s->local };
        for (int k = 0; !status && k < 1 + u->m->stack[s->stack].locals; k++) {
            const size_t bytes =
                qkv_block_scratch(&u->m->stack[s->stack], each[k], &s->across, &status);
            if (!status && bytes > u->block_scratch) u->block_scratch = bytes;
        }
    }
    if (!status && u->watch && u->watch->weights) status = qkv_look_plan(u);
    return status ? qkv_fail(err, status, NULL, "attention over %" PRId64 " tokens was refused",
                             u->side[u->sides - 1].R)
                  : QKV_OK;
}

// Arrays of a side from the arena.  into: where the last part should leave its result; NULL:
// anywhere.
static void take_side(struct qkv_run *u, struct qkv_side *s, struct qkv_arena *a, float *into)
{
    const struct qkv_model *m = u->m;
    const struct qkv_embedding_room room = qkv_embedding_room(m, s->stack);
    const size_t R = (size_t)s->R, D = (size_t)m->is.size.width;
    const bool even = qkv_stack_parts(&m->stack[s->stack]) % 2 == 0;
    s->ids = qkv_arena_take(a, R, sizeof *s->ids);
    s->types = qkv_arena_take(a, R, sizeof *s->types);
    s->positions = qkv_arena_take(a, R, sizeof *s->positions);
    if (s->R < s->all) s->place = qkv_arena_take(a, R, sizeof *s->place);
    if (room.words) s->words = qkv_arena_take(a, R, D * sizeof(float));
    if (room.kinds) s->kinds = qkv_arena_take(a, (size_t)m->is.size.types, D * sizeof(float));
    s->stream.x = into && even ? into : qkv_arena_take(a, R, D * sizeof(float));
    s->stream.spare = into && !even ? into : qkv_arena_take(a, R, D * sizeof(float));
    if (m->is.norm != QKV_NORM_POST) s->stream.normed = qkv_arena_take(a, R, D * sizeof(float));
}

// Takes everything from the arena: called once to count, once to have it.
static void take(struct qkv_run *u, struct qkv_arena *a)
{
    void *scratch = NULL;
    for (int i = 0; i < u->sides; i++) {
        struct qkv_side *s = &u->side[i];
        // Where no row is padding, the last part leaves its result where the caller wants it.
        take_side(u, s, a, i + 1 == u->sides && s->R == s->all ? u->hidden : NULL);
    }
    scratch = qkv_arena_take(a, u->block_scratch, 1);
    for (int i = 0; i < u->sides; i++) u->side[i].stream.scratch = scratch;
    if (u->watch) qkv_look_take(u, a);
}

// Compact copies of the caller's tokens, and where each row came from.
static void gather(struct qkv_side *s, bool types)
{
    const struct qkv_model_input *in = s->in;
    for (int64_t i = 0; i < s->sequences; i++)
        for (int64_t at = s->offsets[i]; at < s->offsets[i + 1]; at++) {
            const int64_t r = in->offsets[i] + at - s->offsets[i];
            s->ids[at] = in->ids[r];
            s->types[at] = in->types && types ? in->types[r] : 0;
            if (s->place) s->place[at] = r;
        }
}

// Every block.  What follows the stack (feed-forward once, final norm) belongs to the last layer
// seen.
static qkv_status layers(struct qkv_run *u, struct qkv_side *s, qkv_error *err)
{
    const struct qkv_stack *stack = &u->m->stack[s->stack];
    const int64_t last = stack->layers - 1;
    qkv_status status = u->watch ? qkv_look_show(u, s, -1, err) : QKV_OK;
    for (int64_t i = 0; !status && i < stack->blocks; i++) {
        status = qkv_block_forward(&s->stream, &stack->block[i]);
        if (status) return qkv_fail(err, status, NULL, "a layer was refused");
        if (i + 1 == stack->blocks && stack->final_norm.D)
            qkv_norm_kind_forward(s->stream.x, 0, NULL, s->stream.x, s->R, &stack->final_norm,
                                  u->m->is.norm_kind);
        if (u->watch && (i < last || i + 1 == stack->blocks))
            status = qkv_look_show(u, s, qkv_min64(i, last), err);
    }
    return status;
}

static qkv_status run_side(struct qkv_run *u, struct qkv_side *s, qkv_error *err)
{
    const struct qkv_model *m = u->m;
    struct qkv_stream *stream = &s->stream;
    stream->R = s->R;
    stream->norm = m->is.norm_kind;
    stream->place = m->is.norm;
    stream->places = &s->places;
    stream->positions = s->positions;
    stream->attention = &s->attention;
    stream->local = &s->local;
    stream->across = &s->across;
    stream->memory = s->stack ? u->side[0].stream.x : NULL;
    stream->keep = qkv_look_keeps(u) ? &s->keep : NULL;
    stream->keep_cross = qkv_look_keeps(u) ? &s->keep_cross : NULL;
    gather(s, m->is.size.types > 0);
    qkv_position_number(s->positions, &m->is, s->ids, s->offsets, s->sequences, 0);
    qkv_embedding(stream->x, s->words, s->kinds, s->ids, s->types, s->positions, s->R, &s->places,
                  m, s->stack);
    return layers(u, s, err);
}

// Weights packed, rows of positions there: what the first run makes and later ones find.
static qkv_status prepare(struct qkv_run *u)
{
    qkv_status s = qkv_model_pack((struct qkv_model *)u->m, QKV_PACK_BODY);
    for (int i = 0; !s && i < u->sides; i++)
        s = qkv_places_ready(&u->side[i].places, u->m, u->side[i].stack, u->side[i].deepest);
    return s;
}

// The run, counted and checked; its rows are not empty.
static qkv_status run_all(struct qkv_run *u, qkv_error *err)
{
    const struct qkv_side *end = &u->side[u->sides - 1];
    struct qkv_arena count = { .size = SIZE_MAX };
    struct qkv_spare *memory = NULL;
    if (prepare(u)) return qkv_fail_memory(err, u->m->dir);
    qkv_status s = qkv_look_probe_begin(u, err);
    if (!s) s = plan(u, err);
    if (s) return s;
    take(u, &count);
    if (!qkv_arena_full(&count)) memory = qkv_spare_take((struct qkv_model *)u->m, count.used);
    if (!memory) return qkv_fail_memory(err, NULL);
    struct qkv_arena arena = { memory->at, count.used, 0 };
    take(u, &arena);
    for (int i = 0; !s && i < u->sides; i++) s = run_side(u, &u->side[i], err);
    if (!s && u->hidden) (void)qkv_look_spread(end, u->hidden, end->stream.x, u->m->is.size.width);
    qkv_spare_give((struct qkv_model *)u->m, memory);
    return s;
}

static qkv_status run_sides(struct qkv_run *u, qkv_error *err)
{
    const int64_t D = u->m->is.size.width;
    qkv_status s = QKV_OK;
    for (int i = 0; i < u->sides; i++)
        if (!count_rows(&u->side[i])) s = QKV_ERR_LIMIT;
    const struct qkv_side *end = &u->side[u->sides - 1];
    if (s)
        qkv_fail_memory(err, NULL);
    else if (end->R)
        s = run_all(u, err);
    else if (u->hidden && end->all)
        memset(u->hidden, 0, (size_t)(end->all * D) * sizeof *u->hidden);
    for (int i = 0; i < u->sides; i++) qkv_free(u->side[i].own_offsets);
    qkv_free(u->probes);
    return s;
}

qkv_status qkv_model_encode(const struct qkv_model *m, float *hidden,
                            const struct qkv_model_input *in, qkv_error *err)
{
    struct qkv_run u = { .m = m, .sides = 1, .hidden = hidden, .side[0].in = in };
    const qkv_status s = check(m, 0, in, err);
    return s ? s : run_sides(&u, err);
}

qkv_status qkv_model_run(const qkv_model *m, float *hidden, const struct qkv_model_input *in,
                         const struct qkv_watch *watch, qkv_error *err)
{
    if (!m || !in)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_model_run, expected a model and its input, found NULL");
    struct qkv_run u = {
        .m = m, .watch = watch && watch->layer ? watch : NULL, .hidden = hidden, .sides = m->stacks
    };
    qkv_status s = check_sides(m, in, err);
    if (!s && u.watch) s = qkv_probe_wish_check(&u.watch->probe, err);
    if (s) return s;
    for (int i = 0; i < u.sides; i++) {
        u.side[i].stack = i;
        u.side[i].in = u.sides > 1 && i == 0 ? in->source : in;
    }
    return run_sides(&u, err);
}
