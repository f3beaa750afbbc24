// SPDX-License-Identifier: MIT
// speak.c: prompts of any lengths run together: each step feeds every place what it has, a prompt
// or one token; the place of one that is done goes to the next that waits.
#include "task/speak.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

// An output until those before it are seen; chains are the outputs of one search, best first.
struct qkv_waiting {
    struct qkv_generated g;
    char *text;
    int32_t *ids, *source;
    float *logprobs, *alignment;
    struct qkv_waiting *next;
};

static void free_waiting(struct qkv_waiting *w)
{
    while (w) {
        struct qkv_waiting *next = w->next;
        qkv_free(w->text);
        qkv_free(w->ids);
        qkv_free(w->source);
        qkv_free(w->logprobs);
        qkv_free(w->alignment);
        qkv_free(w);
        w = next;
    }
}

qkv_status qkv_speak_interrupted(const struct qkv_call *c, qkv_error *err)
{
    return qkv_fail(err, QKV_ERR_INTERRUPTED, NULL,
                    "stopped after %" PRId64 " of %" PRId64 " prompts", c->delivered / c->draws,
                    c->n);
}

bool qkv_speak_ends(const struct qkv_call *c, int32_t id)
{
    for (int64_t i = 0; i < c->manners->n_ends && !c->o.ignore_end; i++)
        if (c->manners->ends[i] == id) return true;
    return false;
}

static void *copy(const void *from, size_t n, size_t size)
{
    void *to = qkv_alloc(n + 1, size);
    if (to && n) memcpy(to, from, n * size);
    return to;
}

qkv_status qkv_speak_output(struct qkv_call *c, struct qkv_seat *p, int64_t rank,
                            enum qkv_ending ending, int32_t end, double score, qkv_error *err)
{
    struct qkv_waiting *w = qkv_alloc_zero(1, sizeof *w);
    if (!w) return qkv_fail_memory(err, NULL);
    struct qkv_waiting **at = &c->waiting[p->prompt * c->draws + p->rank];
    while (*at) at = &(*at)->next;
    *at = w;
    const int64_t tokens = p->given + p->count;
    w->text = copy(p->text.at, (size_t)p->text.n, 1);
    w->ids = copy(p->ids, (size_t)tokens, sizeof *w->ids);
    if (c->o.logprobs) w->logprobs = copy(p->logprobs, (size_t)tokens, sizeof *w->logprobs);
    if (c->translates) w->source = copy(p->source, (size_t)p->source_n, sizeof *w->source);
    if (!w->text || !w->ids || (c->o.logprobs && !w->logprobs) || (c->translates && !w->source))
        return qkv_fail_memory(err, NULL);
    w->text[p->text.n] = 0;
    w->g =
        (struct qkv_generated){ .prompt = p->prompt,
                                .rank = rank,
                                .text = w->text,
                                .bytes = (size_t)p->text.n,
                                .ids = w->ids,
                                .logprobs = w->logprobs,
                                .tokens = tokens,
                                .ending = ending,
                                .end = end,
                                .score = score,
                                .prompt_tokens = c->translates ? p->source_n : p->fed_n - p->given,
                                .cut = p->cut,
                                .replaced = p->replaced,
                                .replaced_at = p->replaced_at,
                                .source_ids = w->source,
                                .source_tokens = c->translates ? p->source_n : 0 };
    if (!c->finish) return QKV_OK;
    const qkv_status s = c->finish(c->finish_ctx, &w->g, &w->alignment, err);
    w->g.alignment = w->alignment;
    return s;
}

// Outputs whose turn it is.
static qkv_status deliver(struct qkv_call *c, qkv_error *err)
{
    while (c->delivered < c->jobs && c->waiting[c->delivered]) {
        struct qkv_waiting *first = c->waiting[c->delivered];
        for (struct qkv_waiting *w = first; w; w = w->next)
            if (c->o.output && c->o.output(c->o.user, &w->g)) return qkv_speak_interrupted(c, err);
        c->waiting[c->delivered++] = NULL;
        free_waiting(first);
    }
    if (c->o.progress.step &&
        c->o.progress.step(c->o.progress.user, "prompts", c->delivered / c->draws, c->n))
        return qkv_speak_interrupted(c, err);
    return QKV_OK;
}

// ---- a step -------------------------------------------------------------------------------------
static bool push(struct qkv_call *c, struct qkv_seat *p, int64_t number, const int32_t *ids,
                 int64_t n)
{
    const int64_t at = c->rows ? c->offsets[c->rows] : 0;
    if (!qkv_reserve((void **)&c->ids, &c->ids_capacity, at + n, sizeof *c->ids)) return false;
    memcpy(c->ids + at, ids, (size_t)n * sizeof *ids);
    c->items_fed[c->rows] = p->item + number;
    c->row[c->rows] = (struct qkv_row){ .seat = p,
                                        .number = number,
                                        .x = c->logits + c->rows * c->voice->V,
                                        .top = c->tops + c->rows * c->o.logprobs };
    c->offsets[++c->rows] = at + n;
    return true;
}

// What each place is fed.
static qkv_status gather(struct qkv_call *c, qkv_error *err)
{
    bool fits = true;
    c->rows = 0;
    c->offsets[0] = 0;
    for (int64_t i = 0; i < c->seats && fits; i++) {
        struct qkv_seat *p = &c->seat[i];
        if (!p->active) continue;
        if (!p->begun)
            fits = push(c, p, 0, p->fed, p->fed_n);
        else if (c->width == 1)
            fits = push(c, p, 0, &p->ids[p->given + p->count - 1], 1);
        for (int64_t k = 0; fits && p->begun && c->width > 1 && k < p->beam.running; k++)
            fits = push(c, p, k, &p->beam.node[p->beam.last[k]].id, 1);
        p->begun = true;
    }
    return fits ? QKV_OK : qkv_fail_memory(err, NULL);
}

// The row's next token by the samplers.
static void choose(const struct qkv_call *c, struct qkv_row *r, struct qkv_row_memory *m)
{
    const int64_t V = c->voice->V;
    const struct qkv_seat *p = r->seat;
    double sum = 0;
    r->id = -1;
    r->logprob = NAN;
    if (qkv_sampling_likeliest(r->x, V) < 0) return;
    if (c->o.logprobs) {
        memcpy(m->raw, r->x, (size_t)V * sizeof *m->raw);
        sum = qkv_sampling_log_sum(m->raw, V);
        qkv_sampling_top(r->top, c->o.logprobs, m->raw, V, sum);
    }
    qkv_sampling_penalise(r->x, &p->history[0]);
    for (int64_t i = 0; i < c->manners->n_never; i++) r->x[c->manners->never[i]] = -INFINITY;
    for (int64_t i = 0; i < c->manners->n_ends; i++)
        if (p->count < c->o.min_tokens) r->x[c->manners->ends[i]] = -INFINITY;
    if (c->o.sampling.temperature == 0) {
        r->id = qkv_sampling_likeliest(r->x, V);
    } else {
        qkv_sampling_choices(&m->choice, r->x, V, &c->o.sampling);
        r->id = qkv_sampling_draw(&m->choice, c->o.sampling.seed,
                                  (uint64_t)(p->prompt * c->draws + p->rank), (uint64_t)p->count);
    }
    if (c->o.logprobs && r->id >= 0) r->logprob = (float)((double)m->raw[r->id] - sum);
}

static void choose_row(void *ctx, int64_t i, int thread)
{
    struct qkv_call *c = ctx;
    if (c->width > 1)
        qkv_beam_continue(c, &c->row[i], &c->memory[thread]);
    else
        choose(c, &c->row[i], &c->memory[thread]);
}

static qkv_status step(struct qkv_call *c, qkv_error *err)
{
    qkv_status s = gather(c, err);
    const struct qkv_decoder_tokens t = {
        .n = c->rows, .items = c->items_fed, .offsets = c->offsets, .ids = c->ids
    };
    if (!s) s = c->voice->feed(c->voice->ctx, c->logits, &t, err);
    if (s) return s;
    qkv_parallel_for_most(c->rows, c->threads, choose_row, c);
    for (int64_t i = 0; i < c->rows && !s; i++) {
        const struct qkv_row *r = &c->row[i];
        if (r->number) continue; // its place looks at all of its rows
        s = c->width > 1 ? qkv_beam_accept(c, r->seat, r, err)
                         : qkv_seat_accept(c, r->seat, r, err);
    }
    return s;
}

// Free places take the prompts that wait.
static qkv_status fill(struct qkv_call *c, qkv_error *err)
{
    for (int64_t i = 0; i < c->seats; i++) {
        struct qkv_seat *p = &c->seat[i];
        while (!p->active && c->next < c->jobs) {
            p->prompt = c->next / c->draws;
            p->rank = c->next % c->draws;
            c->next++;
            const qkv_status s = qkv_seat_begin(c, p, err);
            if (s && err && c->n > 1 && !err->path[0]) // which of many it was
                snprintf(err->path, sizeof err->path, "prompt %" PRId64, p->prompt + 1);
            if (s) return s;
        }
    }
    return QKV_OK;
}

// ---- memory of a call ---------------------------------------------------------------------------
static qkv_status take(struct qkv_call *c, qkv_error *err)
{
    const size_t rows = (size_t)(c->seats * c->width), V = (size_t)c->voice->V;
    bool fits = true;
    size_t cells;
    if (!qkv_mul_size(&cells, rows, V)) return qkv_fail_memory(err, NULL);
    c->seat = qkv_alloc_zero((size_t)c->seats, sizeof *c->seat);
    c->waiting = qkv_alloc_zero((size_t)c->jobs + 1, sizeof *c->waiting);
    c->row = qkv_alloc(rows, sizeof *c->row);
    c->logits = qkv_alloc(cells, sizeof *c->logits);
    c->tops = qkv_alloc(rows * (size_t)c->o.logprobs + 1, sizeof *c->tops);
    c->items_fed = qkv_alloc(rows, sizeof *c->items_fed);
    c->offsets = qkv_alloc(rows + 1, sizeof *c->offsets);
    c->threads = (int)qkv_min64(qkv_threads(), (int64_t)rows);
    c->memory = qkv_alloc_zero((size_t)c->threads, sizeof *c->memory);
    if (!c->seat || !c->waiting || !c->row || !c->logits || !c->tops || !c->items_fed ||
        !c->offsets || !c->memory)
        return qkv_fail_memory(err, NULL);
    for (int i = 0; i < c->threads && fits; i++) {
        struct qkv_row_memory *m = &c->memory[i];
        const int64_t kept = c->width * (1 + qkv_max64(1, c->manners->n_ends));
        fits = qkv_choice_new(&m->choice, c->voice->V) &&
               (!c->o.logprobs || (m->raw = qkv_alloc(V, sizeof *m->raw))) &&
               (c->width < 2 || (m->top = qkv_alloc((size_t)kept, sizeof *m->top)));
    }
    for (int64_t i = 0; i < c->seats && fits; i++) {
        struct qkv_seat *p = &c->seat[i];
        p->item = i * c->width;
        p->history = qkv_alloc_zero((size_t)c->width, sizeof *p->history);
        fits = p->history != NULL;
    }
    return fits ? QKV_OK : qkv_fail_memory(err, NULL);
}

static void give(struct qkv_call *c)
{
    for (int64_t i = 0; c->seat && i < c->seats; i++) qkv_seat_free(&c->seat[i], c->width);
    for (int64_t i = 0; c->waiting && i < c->jobs; i++) free_waiting(c->waiting[i]);
    for (int i = 0; c->memory && i < c->threads; i++) {
        qkv_choice_free(&c->memory[i].choice);
        qkv_free(c->memory[i].raw);
        qkv_free(c->memory[i].top);
    }
    qkv_free(c->seat);
    qkv_free(c->waiting);
    qkv_free(c->row);
    qkv_free(c->logits);
    qkv_free(c->tops);
    qkv_free(c->items_fed);
    qkv_free(c->offsets);
    qkv_free(c->memory);
    qkv_free(c->ids);
    qkv_free(c->prefix);
    qkv_stops_free(&c->stops);
}

// Tokens that every output begins with.
static qkv_status read_prefix(struct qkv_call *c, qkv_error *err)
{
    const struct qkv_encode_options how = { .no_special = true, .strict = true };
    const char *text = c->o.prefix ? c->o.prefix : "";
    const bool forced = c->translates && c->manners->forced >= 0;
    qkv_encoding e = { 0 };
    qkv_status s = QKV_OK;
    if (*text) s = qkv_tokenizer_encode(c->tokenizer, &e, text, strlen(text), NULL, 0, &how, err);
    if (!s && !(c->prefix = qkv_alloc((size_t)e.count + 1, sizeof *c->prefix)))
        s = qkv_fail_memory(err, NULL);
    if (!s && forced) c->prefix[c->n_prefix++] = c->manners->forced;
    for (int64_t i = 0; !s && i < e.count; i++) c->prefix[c->n_prefix++] = e.ids[i];
    qkv_encoding_free(&e);
    return s;
}

qkv_status qkv_speak(struct qkv_call *c, qkv_error *err)
{
    const int64_t outputs = qkv_max64(1, c->o.n_best);
    c->width = qkv_max64(1, c->o.beams);
    c->draws = c->width > 1 ? 1 : outputs;
    if (c->n > (INT64_MAX / (int64_t)sizeof *c->waiting - 1) / c->draws)
        return qkv_fail_memory(err, NULL);
    c->jobs = c->n * c->draws;
    c->seats = qkv_max64(1, qkv_min64(c->items / c->width, c->jobs));
    qkv_status s = qkv_stops_new(&c->stops, c->o.stop, c->o.stops, err);
    if (!s) s = read_prefix(c, err);
    if (!s) s = take(c, err);
    while (!s && c->delivered < c->jobs) {
        s = fill(c, err);
        bool any = false;
        for (int64_t i = 0; i < c->seats; i++) any = any || c->seat[i].active;
        if (!s && any) s = step(c, err);
        if (!s) s = deliver(c, err);
    }
    give(c);
    return s;
}
