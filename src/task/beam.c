// SPDX-License-Identifier: MIT
// beam.c: a search of beams, step for step as transformers' generate does it.
//
// Of the `kept` best continuations of all hypotheses those that end, and are among the first
// `width`, are finished and judged by their sum of log-probabilities / length^penalty; the first
// `width` of the others go on.  It is over when `early` says that no better one can come, and at
// the last token all are finished as they are.  Tokens hang on those before them, so that a
// hypothesis is a number.
#include "task/speak.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

bool qkv_beam_begin(struct qkv_beam *b, const struct qkv_call *c)
{
    b->width = c->width;
    b->kept = c->width * (1 + qkv_max64(1, c->manners->n_ends));
    b->nodes = b->finished = b->length = 0;
    b->running = 1;
    b->hopeful = true;
    const size_t width = (size_t)b->width, kept = (size_t)b->kept;
    if (!b->last) {
        b->last = qkv_alloc(width, sizeof *b->last);
        b->score = qkv_alloc(width, sizeof *b->score);
        b->row = qkv_alloc(width, kept * sizeof *b->row);
        b->best = qkv_alloc(kept, sizeof *b->best);
        b->done = qkv_alloc(width + 1, sizeof *b->done);
        b->to = qkv_alloc(width, sizeof *b->to);
        b->from = qkv_alloc(width, sizeof *b->from);
    }
    if (!b->last || !b->score || !b->row || !b->best || !b->done || !b->to || !b->from)
        return false;
    b->last[0] = -1;
    b->score[0] = 0;
    return true;
}

void qkv_beam_free(struct qkv_beam *b)
{
    qkv_free(b->node);
    qkv_free(b->last);
    qkv_free(b->score);
    qkv_free(b->row);
    qkv_free(b->best);
    qkv_free(b->done);
    qkv_free(b->to);
    qkv_free(b->from);
}

void qkv_beam_ids(const struct qkv_beam *b, int64_t node, int64_t length, int32_t *ids,
                  float *logprobs)
{
    for (int64_t i = length - 1; i >= 0 && node >= 0; i--, node = b->node[node].before) {
        ids[i] = b->node[node].id;
        if (logprobs) logprobs[i] = b->node[node].logprob;
    }
}

// ---- one hypothesis -----------------------------------------------------------------------------
static bool wants_history(const struct qkv_sampling *s)
{
    return s->repetition != 0 || s->presence != 0 || s->frequency != 0 || s->no_repeat_ngram;
}

// The history of hypothesis `number`: the prompt's, then its own tokens.  false: no memory.
static bool remember(const struct qkv_call *c, struct qkv_seat *p, int64_t number)
{
    const struct qkv_beam *b = &p->beam;
    struct qkv_history *h = &p->history[number];
    const bool wanted = wants_history(&c->o.sampling);
    const int64_t prompt = p->fed_n - p->given;
    int32_t *own = NULL;
    bool fits = qkv_history_begin(h, &c->o.sampling, c->voice->V, p->fed, wanted ? prompt : 0);
    if (!fits || !wanted) return fits;
    for (int64_t i = prompt; fits && i < p->fed_n; i++) fits = qkv_history_add(h, p->fed[i]);
    if (!fits || !b->length) return fits;
    own = qkv_alloc((size_t)b->length, sizeof *own);
    if (!own) return false;
    qkv_beam_ids(b, b->last[number], b->length, own, NULL);
    for (int64_t i = 0; fits && i < b->length; i++) fits = qkv_history_add(h, own[i]);
    qkv_free(own);
    return fits;
}

void qkv_beam_continue(const struct qkv_call *c, struct qkv_row *r, struct qkv_row_memory *m)
{
    struct qkv_seat *p = r->seat;
    struct qkv_beam *b = &p->beam;
    const int64_t V = c->voice->V, n = qkv_min64(b->kept, V);
    struct qkv_beam_candidate *list = b->row + r->number * b->kept;
    r->id = -1;
    if (qkv_sampling_likeliest(r->x, V) < 0) return;
    const double sum = qkv_sampling_log_sum(r->x, V);
    for (int64_t i = 0; i < V; i++) r->x[i] = (float)((double)r->x[i] - sum);
    if (c->o.logprobs) memcpy(m->raw, r->x, (size_t)V * sizeof *m->raw);
    if (!remember(c, p, r->number)) {
        r->id = -2;
        return;
    }
    qkv_sampling_penalise(r->x, &p->history[r->number]);
    for (int64_t i = 0; i < c->manners->n_never; i++) r->x[c->manners->never[i]] = -INFINITY;
    for (int64_t i = 0; i < c->manners->n_ends; i++)
        if (b->length < c->o.min_tokens) r->x[c->manners->ends[i]] = -INFINITY;
    if (b->length + 1 == p->most && c->manners->forced_end >= 0 && !c->o.ignore_end) {
        for (int64_t i = 0; i < V; i++) r->x[i] = -INFINITY;
        r->x[c->manners->forced_end] = 0;
    }
    qkv_sampling_top(m->top, n, r->x, V, 0);
    for (int64_t i = 0; i < b->kept; i++) {
        list[i] = (struct qkv_beam_candidate){ .row = r->number, .id = -1 };
        if (i >= n || !(m->top[i].value > -INFINITY)) continue;
        list[i].id = r->id = m->top[i].id;
        list[i].score = b->score[r->number] + (double)m->top[i].value;
        list[i].logprob = c->o.logprobs ? m->raw[m->top[i].id] : 0;
    }
}

// ---- all of them --------------------------------------------------------------------------------
// Every row's list is in order: the best of all by taking the better head each time.
static int64_t merge(struct qkv_beam *b)
{
    int64_t *head = b->to, n = 0; // both are used again behind this
    memset(head, 0, (size_t)b->width * sizeof *head);
    while (n < b->kept) {
        const struct qkv_beam_candidate *best = NULL;
        for (int64_t r = 0; r < b->running; r++) {
            if (head[r] == b->kept) continue;
            const struct qkv_beam_candidate *at = &b->row[r * b->kept + head[r]];
            if (at->id >= 0 && (!best || at->score > best->score)) best = at;
        }
        if (!best) break;
        head[best->row]++;
        b->best[n++] = *best;
    }
    return n;
}

static double judge(const struct qkv_call *c, double score, int64_t length)
{
    const double penalty = c->o.length_penalty;
    return penalty == 0 ? score : score / pow((double)length, penalty);
}

// What a length counts: tokens chosen, and the one that the folder forces.
static int64_t judged_length(const struct qkv_call *c, int64_t length)
{
    return length + (c->translates && c->manners->forced >= 0);
}

static void finish(const struct qkv_call *c, struct qkv_beam *b, const struct qkv_beam_end *e)
{
    struct qkv_beam_end end = *e;
    int64_t at = b->finished;
    end.score = judge(c, e->score, judged_length(c, e->length + (e->end >= 0)));
    for (; at && end.score > b->done[at - 1].score; at--) b->done[at] = b->done[at - 1];
    b->done[at] = end;
    b->finished = qkv_min64(b->finished + 1, b->width);
}

// Does a stop string stand in the text of the tokens up to a node, whose last ones it may reach?
static qkv_status stops(struct qkv_call *c, const struct qkv_seat *p, int64_t node, bool *found,
                        qkv_error *err)
{
    int64_t longest = 0;
    *found = false;
    for (int64_t i = 0; i < c->stops.n; i++) longest = qkv_max64(longest, c->stops.bytes[i]);
    if (!longest) return QKV_OK;
    const int64_t n = qkv_min64(p->beam.length + 1, longest + 4);
    size_t need = 0;
    char *text = NULL;
    int32_t *ids = qkv_alloc((size_t)n, sizeof *ids);
    if (!ids) return qkv_fail_memory(err, NULL);
    qkv_beam_ids(&p->beam, node, n, ids, NULL);
    qkv_status s = qkv_tokenizer_decode(c->tokenizer, NULL, 0, &need, ids, n, true, err);
    if (!s && !(text = qkv_alloc(need + 1, 1))) s = qkv_fail_memory(err, NULL);
    if (!s) s = qkv_tokenizer_decode(c->tokenizer, text, need + 1, NULL, ids, n, true, err);
    for (int64_t i = 0; !s && i < c->stops.n; i++)
        *found = *found || strstr(text, c->stops.text[i]) != NULL;
    qkv_free(text);
    qkv_free(ids);
    return s;
}

// The outputs of a search that is over, best first.
static qkv_status outputs(struct qkv_call *c, struct qkv_seat *p, qkv_error *err)
{
    struct qkv_beam *b = &p->beam;
    const int64_t n = qkv_min64(qkv_max64(1, c->o.n_best), b->finished);
    qkv_status s = QKV_OK;
    p->active = false;
    if (!n)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "no token can be chosen behind %" PRId64
                        ": every logit is -inf, or one is NaN or +inf",
                        p->fed_n + b->length);
    for (int64_t i = 0; i < n && !s; i++) {
        const struct qkv_beam_end *e = &b->done[i];
        const int64_t total = p->given + e->length;
        p->count = e->length;
        if (!qkv_reserve((void **)&p->ids, &p->ids_capacity, total + 1, sizeof *p->ids) ||
            !qkv_reserve((void **)&p->logprobs, &p->logprobs_capacity, total + 1,
                         sizeof *p->logprobs))
            return qkv_fail_memory(err, NULL);
        s = qkv_seat_text(c, p, err);
        if (s) return s;
        qkv_beam_ids(b, e->node, e->length, p->ids + p->given, p->logprobs + p->given);
        for (int64_t k = p->given; k < total && !s; k++) {
            const struct qkv_said_token t = { .id = p->ids[k], .quiet = true };
            s = qkv_seat_say(c, p, &t, err);
        }
        if (!s) s = qkv_seat_end(c, p, true, err);
        if (!s) s = qkv_speak_output(c, p, i, e->ending, e->end, e->score, err);
    }
    return s;
}

// Can a hypothesis that runs still be better than one that is finished?
static void look_ahead(const struct qkv_call *c, const struct qkv_seat *p, struct qkv_beam *b)
{
    if (b->finished < b->width || !b->running) return;
    const bool at_most = c->o.early == QKV_EARLY_NEVER && c->o.length_penalty > 0;
    const int64_t length = judged_length(c, at_most ? p->most : b->length);
    b->hopeful = b->hopeful && judge(c, b->score[0], length) > b->done[b->width - 1].score;
}

// What a step has of the one before it.
struct step {
    int64_t *before;  // [width] nodes of the hypotheses
    double *score;    // [width] of those that go on
    bool full, *over; // no more are finished; nothing goes on
};

// One candidate, the rank-th: finished, going on, or neither.
static qkv_status sort_out(struct qkv_call *c, struct qkv_seat *p,
                           const struct qkv_beam_candidate *k, int64_t rank, const struct step *at,
                           qkv_error *err)
{
    struct qkv_beam *b = &p->beam;
    const bool end = qkv_speak_ends(c, k->id), last = b->length + 1 == p->most;
    bool stop = false;
    struct qkv_beam_end e = { .length = b->length, .score = k->score, .end = -1 };
    if (end) {
        e.node = at->before[k->row];
        e.ending = QKV_END_TOKEN;
        e.end = k->id;
    } else {
        if (!qkv_reserve((void **)&b->node, &b->capacity, b->nodes + 1, sizeof *b->node))
            return qkv_fail_memory(err, NULL);
        b->node[b->nodes] = (struct qkv_beam_node){ at->before[k->row], k->id, k->logprob };
        e.node = b->nodes++;
        e.length++;
        const qkv_status s = stops(c, p, e.node, &stop, err);
        if (s) return s;
        e.ending = stop ? QKV_END_STOP : p->limited ? QKV_END_POSITIONS : QKV_END_TOKENS;
    }
    if (end || stop || last) {
        if (rank < b->width && b->hopeful && !at->full) finish(c, b, &e);
        return QKV_OK;
    }
    *at->over = false;
    if (b->running == b->width) {
        b->nodes--; // it goes nowhere
        return QKV_OK;
    }
    b->last[b->running] = e.node;
    at->score[b->running] = k->score;
    b->from[b->running] = p->item + k->row;
    b->to[b->running] = p->item + b->running;
    b->running++;
    return QKV_OK;
}

// Items whose hypothesis came from another one take what that has.
static qkv_status follow(struct qkv_call *c, struct qkv_beam *b, qkv_error *err)
{
    int64_t n = 0;
    for (int64_t i = 0; i < b->running; i++) {
        if (b->to[i] == b->from[i]) continue;
        b->to[n] = b->to[i];
        b->from[n++] = b->from[i];
    }
    return n ? c->voice->copy(c->voice->ctx, b->to, b->from, n, err) : QKV_OK;
}

qkv_status qkv_beam_accept(struct qkv_call *c, struct qkv_seat *p, const struct qkv_row *first,
                           qkv_error *err)
{
    struct qkv_beam *b = &p->beam;
    const size_t width = (size_t)b->width;
    bool over = true; // nothing goes on
    qkv_status s = QKV_OK;
    for (int64_t i = 0; i < b->running; i++) {
        struct qkv_beam_candidate *list = b->row + i * b->kept;
        if (first[i].id == -2) return qkv_fail_memory(err, NULL);
        if (first[i].id < 0) list[0].id = -1; // none of its list is one
    }
    const int64_t n = merge(b);
    struct step at = { .before = qkv_alloc(width, sizeof *at.before),
                       .score = qkv_alloc(width, sizeof *at.score),
                       .full = b->finished == b->width && c->o.early == QKV_EARLY_FULL,
                       .over = &over };
    if (!at.before || !at.score) s = qkv_fail_memory(err, NULL);
    if (!s) {
        memcpy(at.before, b->last, width * sizeof *at.before);
        b->running = 0;
    }
    for (int64_t i = 0; i < n && !s; i++) s = sort_out(c, p, &b->best[i], i, &at, err);
    if (!s) {
        memcpy(b->score, at.score, (size_t)b->running * sizeof *at.score);
        b->length++;
        look_ahead(c, p, b);
        over = over || !b->hopeful || !b->running ||
               (b->finished == b->width && c->o.early == QKV_EARLY_FULL);
        s = over ? outputs(c, p, err) : follow(c, b, err);
    }
    qkv_free(at.before);
    qkv_free(at.score);
    return s;
}
