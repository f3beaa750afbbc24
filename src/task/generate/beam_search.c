// SPDX-License-Identifier: MIT
// beam_search.c: finds the best outputs of one prompt by beam search, following generate() of
// transformers step by step.
//
// The search keeps `width` running hypotheses. Each step extends every hypothesis by one token and
// considers the `kept` best continuations of all hypotheses, best first:
//   - A continuation with an end token or a stop string is a finished hypothesis if it is among the
//     first `width`. Its score is the sum of its log-probabilities / length^penalty.
//   - The first `width` continuations without an end become the new running hypotheses.
// At the maximum length every continuation is finished. The search ends there, or when
// options.early rules out that a running hypothesis becomes better than the finished ones. Each
// token is a node that refers to the node of the preceding token, so a hypothesis is identified by
// the index of its last node.
#include "task/generate/beam_search.h"
#include <math.h>
#include <string.h>

enum { NO_TOKEN = -1, NO_MEMORY = -2, NOT_FINITE = -3 }; // special values of qkv_beam_candidate.id

int64_t qkv_beam_candidates(const struct qkv_generation *g)
{
    return g->width * (1 + qkv_max64(1, g->config->end_count));
}

static bool allocate_beam(struct qkv_beam_search *b)
{
    const size_t width = (size_t)b->width, kept = (size_t)b->kept;
    b->last = qkv_alloc(width, sizeof *b->last);
    b->score = qkv_alloc(width, sizeof *b->score);
    b->history = qkv_alloc_zero(width, sizeof *b->history);
    b->row = qkv_alloc(width, kept * sizeof *b->row);
    b->best = qkv_alloc(kept, sizeof *b->best);
    b->done = qkv_alloc(width + 1, sizeof *b->done);
    b->to = qkv_alloc(width, sizeof *b->to);
    b->from = qkv_alloc(width, sizeof *b->from);
    return b->last && b->score && b->history && b->row && b->best && b->done && b->to && b->from;
}

bool qkv_beam_begin(struct qkv_beam_search *b, const struct qkv_generation *g,
                    const struct qkv_prompt_tokens *prompt, int64_t first_item)
{
    b->g = g;
    b->prompt = prompt;
    b->first_item = first_item;
    b->width = g->width;
    b->kept = qkv_beam_candidates(g);
    b->nodes = b->finished = b->length = b->moves = 0;
    b->running = 1;
    b->improvable = true;
    b->over = false;
    if (!b->last && !allocate_beam(b)) return false;
    b->last[0] = -1;
    b->score[0] = 0;
    return true;
}

void qkv_beam_free(struct qkv_beam_search *b)
{
    for (int64_t i = 0; b->history && i < b->width; i++) qkv_history_free(&b->history[i]);
    qkv_free(b->history);
    qkv_free(b->node);
    qkv_free(b->last);
    qkv_free(b->score);
    qkv_free(b->row);
    qkv_free(b->best);
    qkv_free(b->done);
    qkv_free(b->to);
    qkv_free(b->from);
    *b = (struct qkv_beam_search){ 0 };
}

void qkv_beam_ids(const struct qkv_beam_search *b, int64_t node, int64_t length, int32_t *ids,
                  float *logprobs)
{
    for (int64_t i = length - 1; i >= 0 && node >= 0; i--, node = b->node[node].before) {
        ids[i] = b->node[node].id;
        if (logprobs) logprobs[i] = b->node[node].logprob;
    }
}

// ---- one hypothesis -----------------------------------------------------------------------------
static bool needs_history(const struct qkv_generation *g)
{
    const struct qkv_sampling *s = &g->options.sampling;
    return g->config->banned_count || s->repetition != 0 || s->presence != 0 || s->frequency != 0 ||
           s->no_repeat_ngram;
}

// Rebuilds the token history of hypothesis `row`: the prompt's tokens, then its own tokens. Returns
// false if memory is exhausted.
static bool rebuild_history(const struct qkv_beam_search *b, int64_t row)
{
    const struct qkv_sampling *how = &b->g->options.sampling;
    const struct qkv_prompt_tokens *p = b->prompt;
    struct qkv_history *h = &b->history[row];
    const bool needed = needs_history(b->g);
    const int64_t prompt = p->count - p->prefix;
    int32_t *own = NULL;
    bool fits = qkv_history_begin(h, how, b->g->source->V, p->ids, needed ? prompt : 0);
    if (!fits || !needed) return fits;
    for (int64_t i = prompt; fits && i < p->count; i++) fits = qkv_history_add(h, p->ids[i]);
    if (!fits || !b->length) return fits;
    own = qkv_alloc((size_t)b->length, sizeof *own);
    if (!own) return false;
    qkv_beam_ids(b, b->last[row], b->length, own, NULL);
    for (int64_t i = 0; fits && i < b->length; i++) fits = qkv_history_add(h, own[i]);
    qkv_free(own);
    return fits;
}

// Applies the penalties to the log-probabilities x[V] of hypothesis `row`, and suppresses or forces
// the tokens that generation_config.json names.
static void penalise(const struct qkv_beam_search *b, int64_t row, float *x)
{
    const struct qkv_generation_step at = { b->length, b->prompt->least, b->prompt->most,
                                            &b->history[row] };
    qkv_history_penalise(x, &b->history[row]);
    qkv_generation_suppress(b->g, x, &at);
}

void qkv_beam_expand(struct qkv_beam_search *b, int64_t row, float *x, float *raw,
                     struct qkv_token_value *top)
{
    const int64_t V = b->g->source->V, n = qkv_min64(b->kept, V);
    const bool logprobs = b->g->options.logprobs > 0;
    struct qkv_beam_candidate *list = b->row + row * b->kept;
    list[0].id = NOT_FINITE;
    if (qkv_sampling_likeliest(x, V) < 0) return;
    const double sum = qkv_sampling_log_sum(x, V);
    for (int64_t i = 0; i < V; i++) x[i] = (float)((double)x[i] - sum);
    if (logprobs) memcpy(raw, x, (size_t)V * sizeof *raw);
    if (!rebuild_history(b, row)) {
        list[0].id = NO_MEMORY;
        return;
    }
    penalise(b, row, x);
    qkv_sampling_top(top, n, x, V, 0);
    for (int64_t i = 0; i < b->kept; i++) {
        list[i] = (struct qkv_beam_candidate){ .row = row, .id = NO_TOKEN };
        if (i >= n || !(top[i].value > -INFINITY)) continue;
        list[i].id = top[i].id;
        list[i].score = b->score[row] + (double)top[i].value;
        list[i].logprob = logprobs ? raw[top[i].id] : 0;
    }
}

// Merges the sorted continuations of all hypotheses into b->best. Returns their number.
static int64_t merge_candidates(struct qkv_beam_search *b)
{
    // b->to is used as scratch here; sort_out_candidate() sets it later
    int64_t *head = b->to, n = 0;
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

static double penalised_score(const struct qkv_beam_search *b, double score, int64_t length)
{
    const double penalty = b->g->options.length_penalty;
    return penalty == 0 ? score : score / pow((double)length, penalty);
}

// Returns the length for the length penalty. Counts the chosen tokens and, in a translation, the
// forced first token.
static int64_t scored_length(const struct qkv_beam_search *b, int64_t length)
{
    return length + (b->g->translates && b->g->config->forced_first >= 0);
}

// Inserts a finished hypothesis into b->done, which is sorted by score, best first.
static void finish_hypothesis(struct qkv_beam_search *b, const struct qkv_beam_end *e)
{
    struct qkv_beam_end end = *e;
    int64_t at = b->finished;
    end.score = penalised_score(b, e->score, scored_length(b, e->length + (e->end >= 0)));
    for (; at && end.score > b->done[at - 1].score; at--) b->done[at] = b->done[at - 1];
    b->done[at] = end;
    b->finished = qkv_min64(b->finished + 1, b->width);
}

// Searches the text of a hypothesis, whose last token is `node`, for stop strings. Decodes only as
// many of its last tokens as the longest stop string can span.
static qkv_status find_stop_string(const struct qkv_beam_search *b, int64_t node, bool *found,
                                   qkv_error *err)
{
    const struct qkv_stop_strings *stops = &b->g->stops;
    int64_t longest = 0;
    *found = false;
    for (int64_t i = 0; i < stops->n; i++) longest = qkv_max64(longest, stops->bytes[i]);
    if (!longest) return QKV_OK;
    const int64_t n = qkv_min64(b->length + 1, longest + 4);
    const qkv_tokenizer *t = b->g->tokenizer;
    size_t need = 0;
    char *text = NULL;
    int32_t *ids = qkv_alloc((size_t)n, sizeof *ids);
    if (!ids) return qkv_fail_memory(err, NULL);
    qkv_beam_ids(b, node, n, ids, NULL);
    qkv_status status = qkv_tokenizer_decode(t, NULL, 0, &need, ids, n, true, err);
    if (!status && !(text = qkv_alloc(need + 1, 1))) status = qkv_fail_memory(err, NULL);
    if (!status) status = qkv_tokenizer_decode(t, text, need + 1, NULL, ids, n, true, err);
    for (int64_t i = 0; !status && i < stops->n; i++)
        *found = *found || strstr(text, stops->text[i]) != NULL;
    qkv_free(text);
    qkv_free(ids);
    return status;
}

int64_t qkv_beam_outputs(const struct qkv_beam_search *b)
{
    return qkv_min64(qkv_max64(1, b->g->options.n_best), b->finished);
}

// Sets b->improvable to true if the best running hypothesis can still become better than the worst
// finished one, otherwise to false.
static void update_improvable(struct qkv_beam_search *b)
{
    const struct qkv_generate_options *o = &b->g->options;
    if (b->finished < b->width || !b->running) return;
    const bool at_most = o->early == QKV_EARLY_NEVER && o->length_penalty > 0;
    const int64_t length = scored_length(b, at_most ? b->prompt->most : b->length);
    b->improvable =
        b->improvable && penalised_score(b, b->score[0], length) > b->done[b->width - 1].score;
}

// State of one step of the search.
struct step {
    int64_t *before; // [width] last node of each hypothesis before the step
    double *score;   // [width] score of each hypothesis that continues
    bool full;       // there are `width` finished hypotheses: no others are added
    bool over;       // no hypothesis continues
};

// Finishes, continues or drops the candidate k, the rank-th best (from 0).
static qkv_status sort_out_candidate(struct qkv_beam_search *b, const struct qkv_beam_candidate *k,
                                     int64_t rank, struct step *at, qkv_error *err)
{
    const bool end = qkv_generation_ends(b->g, k->id), last = b->length + 1 == b->prompt->most;
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
        const qkv_status status = find_stop_string(b, e.node, &stop, err);
        if (status) return status;
        e.ending = stop ? QKV_END_STOP : b->prompt->limited ? QKV_END_POSITIONS : QKV_END_TOKENS;
    }
    if (end || stop || last) {
        if (rank < b->width && b->improvable && !at->full) finish_hypothesis(b, &e);
        return QKV_OK;
    }
    at->over = false;
    if (b->running == b->width) {
        b->nodes--; // remove the node again: the candidate is dropped
        return QKV_OK;
    }
    b->last[b->running] = e.node;
    at->score[b->running] = k->score;
    b->from[b->running] = b->first_item + k->row;
    b->to[b->running] = b->first_item + b->running;
    b->running++;
    return QKV_OK;
}

// Removes the moves of an item to itself from the lists b->from and b->to.
static void list_moves(struct qkv_beam_search *b)
{
    b->moves = 0;
    for (int64_t i = 0; i < b->running; i++) {
        if (b->to[i] == b->from[i]) continue;
        b->to[b->moves] = b->to[i];
        b->from[b->moves++] = b->from[i];
    }
}

qkv_status qkv_beam_step(struct qkv_beam_search *b, qkv_error *err)
{
    const size_t width = (size_t)b->width;
    const bool full_ends = b->g->options.early == QKV_EARLY_FULL;
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < b->running; i++)
        if (b->row[i * b->kept].id == NO_MEMORY)
            return qkv_fail_memory(err, NULL);
        else if (b->row[i * b->kept].id == NOT_FINITE)
            return qkv_generation_not_finite(b->prompt->count + b->length, err);
    const int64_t n = merge_candidates(b);
    struct step at = { .before = qkv_alloc(width, sizeof *at.before),
                       .score = qkv_alloc(width, sizeof *at.score),
                       .full = b->finished == b->width && full_ends,
                       .over = true };
    if (!at.before || !at.score) status = qkv_fail_memory(err, NULL);
    if (!status) {
        memcpy(at.before, b->last, width * sizeof *at.before);
        b->running = 0;
    }
    for (int64_t i = 0; i < n && !status; i++)
        status = sort_out_candidate(b, &b->best[i], i, &at, err);
    if (!status) {
        memcpy(b->score, at.score, (size_t)b->running * sizeof *at.score);
        b->length++;
        update_improvable(b);
        b->over =
            at.over || !b->improvable || !b->running || (b->finished == b->width && full_ends);
        list_moves(b);
        if (b->over && !b->finished)
            status = qkv_generation_no_token(b->prompt->count + b->length, err);
    }
    qkv_free(at.before);
    qkv_free(at.score);
    return status;
}
