// SPDX-License-Identifier: MIT
// net_decode.c: beam search over any net that decodes step by step; a beam of one is greedy.
//
// A hypothesis begins with what it is given (the first token; of a decoder alone, the text to go on
// with), fed token by token.  From there each step keeps the `beam` likeliest continuations of a
// source; those that end are finished and judged by the sum of log-probabilities / length^penalty;
// a source is done when it has `beam` of them.  Ties fall to the earlier hypothesis and the smaller
// id.
#include "model/net_parts.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

// A continuation: hypothesis, token, sum of log-probabilities.
struct candidate {
    int64_t from;
    int32_t token;
    double score;
};

struct search {
    const struct qkv_net_methods *methods;
    int64_t sources, beam, most, rows, V, step;
    int32_t bos, eos;
    double penalty;
    const struct qkv_sequences *given; // of a decoder alone; NULL: all begin with bos
    void *state;
    real *logits;           // [rows][V]
    int32_t *tokens;        // [rows] of the next step
    int64_t *parent;        // [rows] which hypothesis each goes on from
    double *score, *next;   // [rows] now and after the step; -INFINITY: no such hypothesis
    int32_t *history[2];    // [rows][most] what was generated; two places for reordering
    int64_t *length;        // [sources] tokens generated
    struct candidate *list; // [rows][beam + 1] the best continuations of each, in order
    struct candidate *pool; // [sources][2 beam] of each source
    int64_t *finished;      // [sources]
    double *best;           // [sources] of the finished
    int32_t *ids;           // the caller's [sources][most]
    int64_t *lengths;       // the caller's [sources]
};

static int64_t given_length(const struct search *s, int64_t source)
{
    return s->given ? s->given->offsets[source + 1] - s->given->offsets[source] : 1;
}

static bool done(const struct search *s, int64_t source)
{
    return s->finished[source] >= s->beam || s->length[source] >= s->most;
}

// A hypothesis is over: it is the source's answer when none before it was better.
static void finish(struct search *s, int64_t source, int64_t row, double score, bool ended)
{
    const int64_t length = s->length[source];
    const double judged = score / pow((double)(length + ended), s->penalty);
    if (s->finished[source]++ && !(judged > s->best[source])) return;
    s->best[source] = judged;
    s->lengths[source] = length;
    memcpy(s->ids + source * s->most, s->history[0] + row * s->most,
           (size_t)length * sizeof *s->ids);
}

static bool before(const struct candidate *a, const struct candidate *b)
{
    if (a->score != b->score) return a->score > b->score;
    return a->from < b->from || (a->from == b->from && a->token < b->token);
}

// Puts c into list[n] of at most `most`, the best first; returns how many there are then.
static int64_t insert(struct candidate *list, int64_t n, int64_t most, const struct candidate *c)
{
    if (n == most && !before(c, &list[n - 1])) return n;
    int64_t at = n < most ? n : most - 1;
    for (; at && before(c, &list[at - 1]); at--) list[at] = list[at - 1];
    list[at] = *c;
    return n < most ? n + 1 : n;
}

// The beam + 1 likeliest continuations of one hypothesis, for one of them may be its end.  What is
// behind the last has token -1.
static void continue_row(void *ctx, int64_t row, int thread)
{
    struct search *s = ctx;
    struct candidate *list = s->list + row * (s->beam + 1);
    const real *x = s->logits + row * s->V;
    double top = -(double)INFINITY, sum = 0;
    int64_t count = 0;
    (void)thread;
    if (s->score[row] > -(double)INFINITY) {
        for (int64_t v = 0; v < s->V; v++)
            if ((double)x[v] > top) top = (double)x[v];
        for (int64_t v = 0; v < s->V; v++) sum += exp((double)x[v] - top);
        const double base = s->score[row] - top - log(sum);
        for (int64_t v = 0; v < s->V; v++) {
            const struct candidate c = { row, (int32_t)v, base + (double)x[v] };
            if (isfinite(c.score)) count = insert(list, count, s->beam + 1, &c);
        }
    }
    for (; count <= s->beam; count++) list[count].token = -1;
}

// The hypotheses of a source after this step.
static void advance(struct search *s, int64_t source)
{
    const int64_t first = source * s->beam, n = s->beam;
    struct candidate *pool = s->pool + source * 2 * n;
    int64_t count = 0, alive = 0;
    for (int64_t r = first; r < first + n; r++) {
        s->parent[r] = r;
        s->next[r] = s->score[r];
    }
    if (done(s, source)) return;
    if (s->step + 1 < given_length(s, source)) { // not yet behind what was given
        for (int64_t r = first; r < first + n; r++)
            s->tokens[r] = s->given->ids[s->given->offsets[source] + s->step + 1];
        return;
    }
    for (int64_t i = first * (n + 1); i < (first + n) * (n + 1); i++)
        if (s->list[i].token >= 0) count = insert(pool, count, 2 * n, &s->list[i]);
    for (int64_t i = 0; i < count && alive < n; i++) {
        if (pool[i].token == s->eos) {
            if (i < n) finish(s, source, pool[i].from, pool[i].score, true);
            continue;
        }
        s->parent[first + alive] = pool[i].from;
        s->tokens[first + alive] = pool[i].token;
        s->next[first + alive++] = pool[i].score;
    }
    if (!alive) s->finished[source] = n; // nothing goes on
    for (int64_t r = first + alive; r < first + n; r++) s->next[r] = -(double)INFINITY;
}

// Histories, scores and the net's own state follow the parents.
static void follow(struct search *s)
{
    for (int64_t r = 0; r < s->rows; r++) {
        const int64_t source = r / s->beam, length = s->length[source];
        int32_t *to = s->history[1] + r * s->most;
        memcpy(to, s->history[0] + s->parent[r] * s->most, (size_t)length * sizeof *to);
        if (!done(s, source) && s->step + 1 >= given_length(s, source)) to[length] = s->tokens[r];
        s->score[r] = s->next[r];
    }
    for (int64_t i = 0; i < s->sources; i++)
        if (!done(s, i) && s->step + 1 >= given_length(s, i)) s->length[i]++;
    int32_t *other = s->history[0];
    s->history[0] = s->history[1];
    s->history[1] = other;
    bool moved = false;
    for (int64_t r = 0; r < s->rows; r++) moved = moved || s->parent[r] != r;
    if (moved) s->methods->reorder(s->state, s->parent, s->step);
}

static qkv_status search(struct search *s, int64_t steps, qkv_error *err)
{
    for (s->step = 0; s->step < steps; s->step++) {
        bool all = true;
        const qkv_status status = s->methods->step(s->state, s->logits, s->tokens, s->step, err);
        if (status) return status;
        qkv_parallel_for(s->rows, continue_row, s);
        for (int64_t i = 0; i < s->sources; i++) advance(s, i);
        follow(s);
        for (int64_t i = 0; i < s->sources; i++) all = all && done(s, i);
        if (all) break;
    }
    // Sources without a finished hypothesis give their likeliest.
    for (int64_t i = 0; i < s->sources; i++)
        if (s->lengths[i] < 0) finish(s, i, i * s->beam, s->score[i * s->beam], false);
    return QKV_OK;
}

static void take(struct search *s, struct qkv_arena *a)
{
    const size_t rows = (size_t)s->rows, n = (size_t)s->sources, beam = (size_t)s->beam;
    s->logits = qkv_arena_take(a, rows, (size_t)s->V * sizeof *s->logits);
    s->tokens = qkv_arena_take(a, rows, sizeof *s->tokens);
    s->parent = qkv_arena_take(a, rows, sizeof *s->parent);
    s->score = qkv_arena_take(a, rows, sizeof *s->score);
    s->next = qkv_arena_take(a, rows, sizeof *s->next);
    s->history[0] = qkv_arena_take(a, rows, (size_t)s->most * sizeof *s->history[0]);
    s->history[1] = qkv_arena_take(a, rows, (size_t)s->most * sizeof *s->history[1]);
    s->length = qkv_arena_take(a, n, sizeof *s->length);
    s->list = qkv_arena_take(a, rows, (beam + 1) * sizeof *s->list);
    s->pool = qkv_arena_take(a, n, 2 * beam * sizeof *s->pool);
    s->finished = qkv_arena_take(a, n, sizeof *s->finished);
    s->best = qkv_arena_take(a, n, sizeof *s->best);
}

static void start(struct search *s)
{
    for (int64_t r = 0; r < s->rows; r++) {
        const int64_t source = r / s->beam;
        s->tokens[r] = s->given ? s->given->ids[s->given->offsets[source]] : s->bos;
        s->score[r] = r % s->beam ? -(double)INFINITY : 0; // one hypothesis to begin with
    }
    for (int64_t i = 0; i < s->sources; i++) {
        s->length[i] = s->finished[i] = 0;
        s->lengths[i] = -1;
    }
}

// Steps that the longest source needs; what its positions leave.
static qkv_status count_steps(const qkv_net *n, const struct search *s, int64_t *steps,
                              qkv_error *err)
{
    int64_t longest = 1;
    for (int64_t i = 0; i < s->sources; i++) longest = qkv_max64(longest, given_length(s, i));
    *steps = longest + s->most - 1;
    if (*steps <= n->shape.positions) return QKV_OK;
    return qkv_fail(err, QKV_ERR_USAGE, NULL,
                    "tokens to decode, expected at most %" PRId64 " with what is given, found "
                    "%" PRId64,
                    n->shape.positions, *steps);
}

qkv_status qkv_net_decode(qkv_net *n, int32_t *ids, int64_t *lengths, int64_t most, int beam,
                          double penalty, const struct qkv_sequences *source, qkv_error *err)
{
    const bool alone = n->kind == QKV_NET_DECODER;
    struct search s = { .methods = n->methods,
                        .sources = source->n,
                        .beam = beam,
                        .most = most,
                        .rows = source->n * beam,
                        .V = n->shape.vocab,
                        .bos = n->shape.bos,
                        .eos = n->shape.eos,
                        .penalty = penalty,
                        .given = alone ? source : NULL,
                        .ids = ids,
                        .lengths = lengths };
    struct qkv_arena count = { .size = SIZE_MAX };
    void *memory = NULL;
    int64_t steps = 0;
    if (n->kind == QKV_NET_ENCODER || (!alone && n->shape.bos < 0))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "decoding needs a decoder and its first token, found a %s without",
                        n->model_type);
    if (beam < 1 || beam > 1024 || most < 1)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "decoding, expected a beam of 1 .. 1024 and at least one token, found %d "
                        "and %" PRId64,
                        beam, most);
    qkv_status status = qkv_net_check_sequences(n, source, err);
    if (!status) status = count_steps(n, &s, &steps, err);
    if (status) return status;
    take(&s, &count);
    if (!qkv_arena_full(&count)) memory = qkv_alloc(count.used, 1);
    if (!memory) return qkv_fail_memory(err, NULL);
    struct qkv_arena arena = { memory, count.used, 0 };
    take(&s, &arena);
    start(&s);
    status = n->methods->begin(&s.state, n, source, beam, steps, err);
    if (!status) status = search(&s, steps, err);
    if (s.state) n->methods->end(s.state);
    qkv_free(memory);
    return status;
}
