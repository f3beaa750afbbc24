// SPDX-License-Identifier: MIT
// forward.c: runs tokens through a model: checks the input, computes embeddings and layers, calls
// the observer.
//
// Padding rows are not computed. The other rows run as packed sequences without padding; at the end
// they are copied to the caller's rows. In a model with two stacks the encoder runs first, then the
// decoder, which attends to the output of the encoder. The arrays of a run are in one arena, whose
// bytes are counted first; the model reuses its memory for later runs.
#include "model/forward/forward.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static qkv_status check(const struct qkv_model *m, int stack, const struct qkv_model_input *in,
                        qkv_error *err)
{
    const int64_t types = m->is.size.types, vocab = m->stack[stack].vocab;
    if (in->sequences < 0 || !in->offsets || in->offsets[0] != 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid offsets of sequences, expected offsets that begin with 0");
    if (!in->ids && in->offsets[in->sequences] > 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "tokens have no ids, expected an array of ids, found NULL");
    for (int64_t i = 0; i < in->sequences; i++) {
        if (in->offsets[i + 1] < in->offsets[i] || in->offsets[i + 1] > INT32_MAX)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "invalid offsets of sequences, expected ascending numbers of at most "
                            "%d, found %" PRId64,
                            INT32_MAX, in->offsets[i + 1]);
        const int64_t n = in->offsets[i + 1] - in->offsets[i];
        const int64_t used = in->lengths ? in->lengths[i] : n;
        if (used < 0 || used > n)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "invalid length of sequence %" PRId64 ", expected 0 .. %" PRId64
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
                                "token id out of range, expected an id below %" PRId64
                                ", found %" PRId32,
                                vocab, in->ids[r]);
            if (types && in->types && (in->types[r] < 0 || in->types[r] >= types))
                return qkv_fail(err, QKV_ERR_USAGE, NULL,
                                "token type out of range, expected a type below %" PRId64
                                ", found %" PRId32,
                                types, in->types[r]);
        }
    }
    return QKV_OK;
}

// Checks the input of each stack. A model with two stacks requires a source (the input of the
// encoder); a model with one stack refuses a source.
static qkv_status check_sides(const struct qkv_model *m, const struct qkv_model_input *in,
                              qkv_error *err)
{
    if (!m->stacks)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = m->dir },
                        "this call requires a Transformer; a %s model can only decode",
                        m->model_type);
    qkv_status status = check(m, m->stacks - 1, in, err);
    if (status || m->stacks < 2) {
        if (!status && in->source)
            status = qkv_fail(err, QKV_ERR_USAGE, NULL,
                              "unexpected source, expected none, since the model has one stack");
        return status;
    }
    if (!in->source)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "source is missing, expected one, since the model is an encoder-decoder, found NULL");
    status = check(m, 0, in->source, err);
    if (!status && in->source->sequences != in->sequences)
        status = qkv_fail(err, QKV_ERR_USAGE, NULL,
                          "wrong number of sequences of the source, expected %" PRId64
                          ", found %" PRId64,
                          in->sequences, in->source->sequences);
    return status;
}

// Counts the rows to compute (without padding), and computes the offsets of the sequences among
// them; false: memory is exhausted.
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

struct qkv_attention qkv_stack_attention(const struct qkv_model *m, int stack, bool local)
{
    const struct qkv_stack *s = &m->stack[stack];
    struct qkv_attention a = qkv_described_attention(&m->is, s->causal, local);
    a.precision = qkv_precision_attention(m->precision);
    a.relative.at = s->relative;
    a.relative.reach = s->reach;
    return a;
}

struct qkv_attention qkv_cross_attention(const struct qkv_model *m)
{
    struct qkv_attention a = qkv_described_cross_attention(&m->is);
    a.precision = qkv_precision_attention(m->precision);
    return a;
}

// Returns `a` with the sizes and offsets of packed attention from the rows of stack s to the rows
// of stack `keys`, which is s itself in self-attention.
static struct qkv_attention packed(struct qkv_attention a, const struct qkv_side *s,
                                   const struct qkv_side *keys)
{
    return qkv_attention_packed(&a, s->R, keys->R, s->sequences, s->offsets, keys->offsets);
}

// Returns *a with the scale of the run's options.
static struct qkv_attention scaled(struct qkv_attention a, const struct qkv_run *u)
{
    const float factor = u->options ? u->options->score_scale : 0;
    if (factor == 0 || factor == 1) return a;
    const double own = a.scale != 0 ? (double)a.scale : 1 / sqrt((double)u->stack->block->heads.E);
    a.scale = (float)((double)factor * own);
    return a;
}

// Sets the three attentions of each stack (normal layers, local layers, cross-attention), its
// stream without arrays, and u->block_scratch.
static qkv_status plan(struct qkv_run *u, qkv_error *err)
{
    qkv_status status = QKV_OK;
    for (int i = 0; !status && i < u->sides; i++) {
        struct qkv_side *s = &u->side[i];
        s->attention = packed(scaled(qkv_stack_attention(u->m, s->stack, false), u), s, s);
        s->local = packed(scaled(qkv_stack_attention(u->m, s->stack, true), u), s, s);
        s->across = packed(scaled(qkv_cross_attention(u->m), u), s, &u->side[0]);
        s->stream =
            qkv_stream_of(&u->m->is, s->R, &s->places, &s->attention, &s->local, &s->across);
        if (u->probes) {
            s->attention.probe = s->local.probe = &s->probe.at;
            s->across.probe = &s->probe_cross.at;
        }
        const struct qkv_attention *each[] = { &s->attention, &s->local };
        for (int k = 0; !status && k < 1 + u->stack[s->stack].locals; k++) {
            const size_t bytes =
                qkv_stack_scratch(&u->stack[s->stack], each[k], &s->across, &status);
            if (!status && bytes > u->block_scratch) u->block_scratch = bytes;
        }
    }
    if (!status && u->observer && u->observer->weights) status = qkv_observe_plan(u);
    return status ? qkv_fail(err, status, NULL, "attention over %" PRId64 " tokens cannot run: %s",
                             u->side[u->sides - 1].R, qkv_status_name(status))
                  : QKV_OK;
}

// Allocates the arrays of a stack from the arena. into: the array that must contain the result of
// the stack; NULL: any array of the arena may contain it.
static void take_side(struct qkv_run *u, struct qkv_side *s, struct qkv_arena *a, float *into)
{
    const struct qkv_model *m = u->m;
    const size_t R = (size_t)s->R, D = (size_t)m->is.size.width;
    // Each sublayer swaps x and spare, so an even number of sublayers leaves the result in the
    // array that x is now.
    const bool even = qkv_stack_sublayers(&m->stack[s->stack]) % 2 == 0;
    s->ids = qkv_arena_alloc(a, R, sizeof *s->ids);
    s->types = qkv_arena_alloc(a, R, sizeof *s->types);
    s->positions = qkv_arena_alloc(a, R, sizeof *s->positions);
    if (s->R < s->all) s->place = qkv_arena_alloc(a, R, sizeof *s->place);
    qkv_embedding_alloc(&s->embedding, a, s->R, m, s->stack);
    s->stream.x = into && even ? into : qkv_arena_alloc(a, R, D * sizeof(float));
    s->stream.spare = into && !even ? into : qkv_arena_alloc(a, R, D * sizeof(float));
    if (m->is.norm != QKV_NORM_POST) s->stream.normed = qkv_arena_alloc(a, R, D * sizeof(float));
}

// Allocates all arrays from the arena. Called twice: first to count the bytes, then to set the
// pointers.
static void take(struct qkv_run *u, struct qkv_arena *a)
{
    void *scratch = NULL;
    for (int i = 0; i < u->sides; i++) {
        struct qkv_side *s = &u->side[i];
        // Without padding rows the last sublayer writes directly to the caller's array.
        take_side(u, s, a, i + 1 == u->sides && s->R == s->all ? u->hidden : NULL);
    }
    scratch = qkv_arena_alloc(a, u->block_scratch, 1);
    for (int i = 0; i < u->sides; i++) u->side[i].stream.scratch = scratch;
    if (u->observer) qkv_observe_alloc(u, a);
}

// Copies the caller's tokens without padding, and stores the caller's row of each token in
// s->place.
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

// Runs every block of a stack and calls the observer after each layer. The last layer includes the
// final norm and, with mlp_once, the feed-forward network after the layers.
static qkv_status layers(struct qkv_run *u, struct qkv_side *s, qkv_error *err)
{
    const struct qkv_stack *stack = &u->stack[s->stack];
    const int64_t last = stack->layers - 1;
    qkv_status status = u->observer ? qkv_observe_layer(u, s, -1, err) : QKV_OK;
    for (int64_t i = 0; !status && i < stack->blocks; i++) {
        status = qkv_block_forward(&s->stream, &stack->block[i], NULL);
        if (status)
            return qkv_fail(err, status, NULL, "a layer of the model cannot run: %s",
                            qkv_status_name(status));
        if (i + 1 == stack->blocks && stack->final_norm.D)
            qkv_norm_kind_forward(s->stream.x, 0, NULL, s->stream.x, s->R, &stack->final_norm,
                                  u->m->is.norm_kind);
        if (u->observer && (i < last || i + 1 == stack->blocks))
            status = qkv_observe_layer(u, s, qkv_min64(i, last), err);
    }
    return status;
}

static qkv_status run_side(struct qkv_run *u, struct qkv_side *s, qkv_error *err)
{
    const struct qkv_model *m = u->m;
    struct qkv_stream *stream = &s->stream;
    stream->positions = s->positions;
    stream->memory = s->stack ? u->side[0].stream.x : NULL;
    stream->keep = qkv_observe_keeps(u) ? &s->keep : NULL;
    stream->keep_cross = qkv_observe_keeps(u) ? &s->keep_cross : NULL;
    gather(s, m->is.size.types > 0);
    qkv_position_number(s->positions, &m->is, s->ids, s->offsets, s->sequences, 0);
    qkv_embedding(stream->x, &s->embedding, s->ids, s->types, s->positions, s->R, &s->places, m,
                  s->stack);
    return layers(u, s, err);
}

// Packs the weights and computes the position rows, if no earlier run has done so.
static qkv_status prepare(struct qkv_run *u)
{
    qkv_status status = qkv_model_pack((struct qkv_model *)u->m, QKV_PACK_BODY);
    for (int i = 0; !status && i < u->sides; i++)
        status = qkv_places_ready(&u->side[i].places, u->m, u->side[i].stack, u->side[i].deepest);
    return status;
}

// Runs an input that has been checked, whose rows have been counted, and that has at least one row.
static qkv_status run_all(struct qkv_run *u, qkv_error *err)
{
    const struct qkv_side *end = &u->side[u->sides - 1];
    struct qkv_arena count = { .size = SIZE_MAX };
    struct qkv_workspace *memory = NULL;
    if (prepare(u)) return qkv_fail_memory(err, u->m->dir);
    qkv_status status = qkv_observed_probe_begin(u, err);
    if (!status) status = plan(u, err);
    if (status) return status;
    take(u, &count);
    if (!qkv_arena_full(&count))
        memory = qkv_workspace_acquire(&((struct qkv_model *)u->m)->workspaces, count.used);
    if (!memory) return qkv_fail_memory(err, NULL);
    struct qkv_arena arena = { memory->bytes, count.used, 0 };
    take(u, &arena);
    for (int i = 0; !status && i < u->sides; i++) status = run_side(u, &u->side[i], err);
    if (!status && u->hidden)
        (void)qkv_observe_spread(end, u->hidden, end->stream.x, u->m->is.size.width);
    qkv_workspace_release(&((struct qkv_model *)u->m)->workspaces, memory);
    return status;
}

static qkv_status run_sides(struct qkv_run *u, qkv_error *err)
{
    const int64_t D = u->m->is.size.width;
    qkv_status status = QKV_OK;
    for (int i = 0; i < u->sides; i++)
        if (!count_rows(&u->side[i])) status = QKV_ERR_LIMIT;
    const struct qkv_side *end = &u->side[u->sides - 1];
    if (status)
        qkv_fail_memory(err, NULL);
    else if (end->R)
        status = run_all(u, err);
    else if (u->hidden && end->all)
        memset(u->hidden, 0, (size_t)(end->all * D) * sizeof *u->hidden);
    for (int i = 0; i < u->sides; i++) qkv_free(u->side[i].own_offsets);
    qkv_free(u->probes);
    return status;
}

// Checks the options of the run, and makes the layers with its ablated heads.
static qkv_status apply_options(struct qkv_run *u, qkv_error *err)
{
    const struct qkv_run_options *o = u->options;
    if (!(o->score_scale >= 0 && isfinite(o->score_scale)))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid factor of the scores, expected a finite number above 0, found %g",
                        (double)o->score_scale);
    if (o->ablations < 0 || (o->ablations && !o->ablate))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid list of ablated heads, expected a list and its length, found %s",
                        o->ablate ? "a negative length" : "NULL");
    if (!o->ablations) return QKV_OK;
    // the copies of the layers point to the packed weights
    if (qkv_model_pack((struct qkv_model *)(uintptr_t)u->m, QKV_PACK_BODY))
        return qkv_fail_memory(err, u->m->dir);
    u->stack = u->own;
    return qkv_run_ablate(&u->ablated, u->own, u->m, o->ablate, o->ablations, err);
}

qkv_status qkv_model_encode(const struct qkv_model *m, float *hidden,
                            const struct qkv_model_input *in, qkv_error *err)
{
    struct qkv_run u = {
        .m = m, .stack = m->stack, .sides = 1, .hidden = hidden, .side[0].in = in
    };
    const qkv_status status = check(m, 0, in, err);
    return status ? status : run_sides(&u, err);
}

qkv_status qkv_model_run(const qkv_model *m, float *hidden, const struct qkv_model_input *in,
                         const struct qkv_observer *observer, qkv_error *err)
{
    if (!m || !in)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_model_run: expected a model and its input, found NULL");
    struct qkv_run u = { .m = m,
                         .options = in->options,
                         .stack = m->stack,
                         .observer = observer && observer->layer ? observer : NULL,
                         .hidden = hidden,
                         .sides = m->stacks };
    qkv_status status = check_sides(m, in, err);
    if (!status && u.observer) status = qkv_probe_request_check(&u.observer->probe, err);
    if (!status && u.options) status = apply_options(&u, err);
    if (status) return status;
    for (int i = 0; i < u.sides; i++) {
        u.side[i].stack = i;
        u.side[i].in = u.sides > 1 && i == 0 ? in->source : in;
    }
    if (!qkv_run_parts(&status, &u, in, err)) status = run_sides(&u, err);
    qkv_free(u.ablated);
    return status;
}
