// SPDX-License-Identifier: MIT
// scheduler.c: decodes prompts that arrive while others run.  Each prompt has settings of its own
// (struct qkv_generation) and, for each of its outputs, a place with a slot and an item of the
// decoder.  A long prompt is read in pieces, over several steps; prompts that are read together
// share the tokens of a step, so that a short one is not held up by long ones.
#include "task/generate/generate_slot.h"
#include <qkv/scheduler.h>
#include <string.h>

enum { DEFAULT_ITEMS = 8, MOST_ITEMS = 4096, STEP_TOKENS = 512 };

struct entry {
    struct qkv_generation g;
    const char *prompt;
    size_t bytes;
    int64_t id;
    int64_t next; // first of its outputs that has no place yet
    int64_t left; // number of outputs that are not complete
    struct entry *after;
};

// The place of one output.
struct place {
    struct entry *of; // NULL: the place is free
    struct qkv_slot slot;
    int64_t fed;   // tokens of the prompt that were read
    int64_t reads; // tokens of the prompt that this step reads
};

// Tokens of one place that are fed in this step.
struct feed_row {
    struct place *place;
    int64_t n; // number of tokens
    float *logits;
    bool chooses; // the next token is chosen from the logits
};

struct qkv_scheduler {
    qkv_decoder *decoder;
    const qkv_generator *generator;
    struct qkv_logits_source source;
    void (*failed)(void *user, int64_t id, const qkv_error *err);
    void *user;
    struct entry *first; // in the order of their arrival
    int64_t entries, last_id;
    struct place *place; // [items]
    int64_t items, step_tokens;
    int64_t turn;         // the place that gets the first share of a step
    struct feed_row *row; // [items]
    // rows: that are fed together; logged: rows after these, prompts that are read one by one with
    // the log-probabilities of their tokens
    int64_t rows, logged;
    float *logits;           // [items][V]
    int64_t *item, *offsets; // [items], [items + 1]
    int32_t *ids;            // [offsets[rows]]
    int64_t ids_capacity;
    struct qkv_prompt_tokens tokens;    // of the prompt that begins
    struct qkv_choice_scratch *scratch; // [threads]
    int threads;
};

// ---- open and close -----------------------------------------------------------------------------
static void clear_place(struct place *p)
{
    qkv_slot_free(&p->slot);
    *p = (struct place){ 0 };
}

static void free_entry(struct entry *e)
{
    qkv_generation_free(&e->g);
    qkv_free(e);
}

void qkv_scheduler_free(qkv_scheduler *s)
{
    if (!s) return;
    for (int64_t i = 0; s->place && i < s->items; i++) clear_place(&s->place[i]);
    for (struct entry *e = s->first, *after; e; e = after) {
        after = e->after;
        free_entry(e);
    }
    for (int i = 0; s->scratch && i < s->threads; i++) qkv_choice_scratch_free(&s->scratch[i]);
    qkv_prompt_tokens_free(&s->tokens);
    qkv_decoder_free(s->decoder);
    qkv_free(s->place);
    qkv_free(s->row);
    qkv_free(s->logits);
    qkv_free(s->item);
    qkv_free(s->offsets);
    qkv_free(s->ids);
    qkv_free(s->scratch);
    qkv_free(s);
}

static qkv_status allocate(qkv_scheduler *s, qkv_error *err)
{
    const struct qkv_generation any = { .source = &s->source, .width = 1, .options.logprobs = 1 };
    const size_t n = (size_t)s->items;
    size_t cells;
    if (!qkv_mul_size(&cells, n, (size_t)s->source.V)) return qkv_fail_memory(err, NULL);
    s->threads = (int)qkv_min64(qkv_threads(), s->items);
    s->place = qkv_alloc_zero(n, sizeof *s->place);
    s->row = qkv_alloc(n, sizeof *s->row);
    s->logits = qkv_alloc(cells, sizeof *s->logits);
    s->item = qkv_alloc(n, sizeof *s->item);
    s->offsets = qkv_alloc(n + 1, sizeof *s->offsets);
    s->scratch = qkv_alloc_zero((size_t)s->threads, sizeof *s->scratch);
    bool fits = s->place && s->row && s->logits && s->item && s->offsets && s->scratch;
    for (int i = 0; i < s->threads && fits; i++)
        fits = qkv_choice_scratch_new(&s->scratch[i], &any);
    return fits ? QKV_OK : qkv_fail_memory(err, NULL);
}

static qkv_status check_range(const char *name, int64_t most, int64_t found, qkv_error *err)
{
    if (found >= 0 && found <= most) return QKV_OK;
    return qkv_fail(err, QKV_ERR_USAGE, NULL, "%s is out of range, expected 0 to %lld, found %lld",
                    name, (long long)most, (long long)found);
}

qkv_status qkv_scheduler_new(qkv_scheduler **out, qkv_generator *g,
                             const struct qkv_scheduler_options *o, qkv_error *err)
{
    if (out) *out = NULL;
    if (!out || !g || !o || !o->failed)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_scheduler_new: expected a generator, a pointer and a function for "
                        "errors, found NULL");
    qkv_status status = check_range("items", MOST_ITEMS, o->items, err);
    if (!status) status = check_range("step_tokens", INT64_MAX, o->step_tokens, err);
    if (status) return status;
    qkv_scheduler *s = qkv_alloc_zero(1, sizeof *s);
    if (!s) return qkv_fail_memory(err, NULL);
    s->generator = g;
    s->failed = o->failed;
    s->user = o->user;
    s->items = o->items ? o->items : DEFAULT_ITEMS;
    s->step_tokens = o->step_tokens ? o->step_tokens : STEP_TOKENS;
    status = qkv_generator_decoder(g, s->items, &s->decoder, &s->source, err);
    if (!status) status = allocate(s, err);
    if (status)
        qkv_scheduler_free(s);
    else
        *out = s;
    return status;
}

// ---- prompts ------------------------------------------------------------------------------------
qkv_status qkv_scheduler_add(qkv_scheduler *s, int64_t *id, const char *prompt, size_t bytes,
                             const struct qkv_generate_options *o, qkv_error *err)
{
    if (!s || !id || !prompt)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_scheduler_add: expected a scheduler, a prompt and a pointer, found "
                        "NULL");
    struct entry *e = qkv_alloc_zero(1, sizeof *e);
    if (!e) return qkv_fail_memory(err, NULL);
    e->prompt = prompt;
    e->bytes = bytes;
    e->g.source = &s->source;
    e->g.prompts = &e->prompt;
    e->g.bytes = &e->bytes;
    e->g.n = 1;
    qkv_status status = qkv_generator_settings(s->generator, &e->g, o, err);
    if (!status && e->g.options.beams > 1)
        status =
            qkv_fail(err, QKV_ERR_USAGE, NULL,
                     "beam search is not possible in a scheduler, expected 0 or 1 beams, found "
                     "%lld",
                     (long long)e->g.options.beams);
    if (!status) status = qkv_generation_init(&e->g, err);
    if (status) {
        free_entry(e);
        return status;
    }
    e->left = e->g.draws;
    e->id = *id = ++s->last_id;
    struct entry **end = &s->first;
    while (*end) end = &(*end)->after;
    *end = e;
    s->entries++;
    return QKV_OK;
}

// Frees a prompt and its places.
static void remove_entry(qkv_scheduler *s, struct entry *e)
{
    struct entry **at = &s->first;
    while (*at && *at != e) at = &(*at)->after;
    if (*at) *at = e->after;
    for (int64_t i = 0; i < s->items; i++)
        if (s->place[i].of == e) clear_place(&s->place[i]);
    s->entries--;
    free_entry(e);
}

void qkv_scheduler_cancel(qkv_scheduler *s, int64_t id)
{
    for (struct entry *e = s ? s->first : NULL; e; e = e->after)
        if (e->id == id) {
            remove_entry(s, e);
            return;
        }
}

int64_t qkv_scheduler_prompts(const qkv_scheduler *s)
{
    return s ? s->entries : 0;
}

int64_t qkv_scheduler_idle(const qkv_scheduler *s)
{
    int64_t n = 0;
    for (int64_t i = 0; s && i < s->items; i++) n += !s->place[i].of;
    for (const struct entry *e = s ? s->first : NULL; e; e = e->after) n -= e->g.draws - e->next;
    return n < 0 ? 0 : n;
}

// Reports the error of a prompt and removes it.
static void fail(qkv_scheduler *s, struct entry *e, const qkv_error *err)
{
    s->failed(s->user, e->id, err);
    remove_entry(s, e);
}

// ---- a step -------------------------------------------------------------------------------------
static qkv_status begin(qkv_scheduler *s, struct place *p, struct entry *e, qkv_error *err)
{
    const int64_t item = p - s->place, job = e->next++;
    p->of = e;
    p->fed = 0;
    qkv_status status = qkv_prompt_tokenize(&s->tokens, &e->g, 0, err);
    if (!status && !qkv_slot_init(&p->slot, &e->g, item)) status = qkv_fail_memory(err, NULL);
    return status ? status : qkv_slot_begin(&p->slot, job, &s->tokens, 0, err);
}

// Gives free places to the outputs that wait, in the order of their prompts.
static void begin_waiting(qkv_scheduler *s)
{
    struct entry *e = s->first;
    for (int64_t i = 0; i < s->items; i++) {
        while (e && e->next == e->g.draws) e = e->after;
        if (!e) return;
        if (s->place[i].of) continue;
        struct entry *after = e->after;
        qkv_error err = { 0 };
        if (!begin(s, &s->place[i], e, &err)) continue;
        fail(s, e, &err);
        e = after;
        i = -1; // it may have had several places
    }
}

// Returns the number of tokens of its prompt that a place has not read yet, nor reads in this step.
static int64_t unread(const struct place *p)
{
    return p->of && p->slot.active && !p->slot.started ? p->slot.tokens.count - p->fed - p->reads
                                                       : 0;
}

// Divides the tokens of this step among the places that read their prompts: each gets the same
// number, and what it does not need is divided among the others.  The remainder goes to other
// places in each step.
static void share_tokens(qkv_scheduler *s)
{
    int64_t budget = s->step_tokens, readers = 1;
    for (int64_t i = 0; i < s->items; i++) s->place[i].reads = 0;
    while (budget && readers) {
        readers = 0;
        for (int64_t i = 0; i < s->items; i++) readers += unread(&s->place[i]) > 0;
        const int64_t share = readers && readers < budget ? budget / readers : 1;
        for (int64_t i = 0; i < s->items; i++) {
            struct place *p = &s->place[(s->turn + i) % s->items];
            const int64_t n = qkv_min64(qkv_min64(unread(p), share), budget);
            p->reads += n;
            budget -= n;
        }
    }
    s->turn = (s->turn + 1) % s->items;
}

// Appends a row for the tokens of a place, if it has any.  Returns false if memory is exhausted.
static bool append_row(qkv_scheduler *s, struct place *p, bool logged)
{
    const int32_t *ids;
    const bool reads = !p->slot.started;
    int64_t n = qkv_slot_tokens(&p->slot, 0, &ids);
    const int64_t r = s->rows + s->logged, at = s->offsets[s->rows];
    if (reads) {
        ids += p->fed;
        n = p->reads;
    }
    if (!n) return true;
    if (!logged) {
        if (!qkv_reserve((void **)&s->ids, &s->ids_capacity, at + n, sizeof *s->ids)) return false;
        memcpy(s->ids + at, ids, (size_t)n * sizeof *ids);
        s->item[s->rows] = p - s->place;
        s->offsets[++s->rows] = at + n;
    }
    s->logged += logged;
    if (reads) p->fed += n;
    s->row[r] = (struct feed_row){ p, n, s->logits + r * s->source.V,
                                   !reads || p->fed == p->slot.tokens.count };
    return true;
}

// Collects the tokens of this step.
static bool gather(qkv_scheduler *s)
{
    bool fits = true;
    share_tokens(s);
    s->rows = s->logged = 0;
    s->offsets[0] = 0;
    for (int logged = 0; logged < 2; logged++)
        for (int64_t i = 0; i < s->items && fits; i++) {
            struct place *p = &s->place[i];
            if (p->of && p->slot.active && qkv_slot_logs_prompt(&p->slot) == (logged == 1))
                fits = append_row(s, p, logged == 1);
        }
    return fits;
}

// After an error, the tokens of this step count as not read.
static void ungather(qkv_scheduler *s)
{
    for (int64_t r = 0; r < s->rows + s->logged; r++)
        if (!s->row[r].place->slot.started) s->row[r].place->fed -= s->row[r].n;
}

// Reads the rows that are fed one by one.  An error ends only the prompt of its row.
static void read_logged(qkv_scheduler *s)
{
    for (int64_t r = s->rows; r < s->rows + s->logged; r++) {
        const struct feed_row *row = &s->row[r];
        struct place *p = row->place;
        qkv_error err = { 0 };
        if (qkv_slot_read_logged(&p->slot, p->fed - row->n, row->n, row->logits, &err))
            fail(s, p->of, &err);
    }
}

static void choose(void *ctx, int64_t i, int thread)
{
    qkv_scheduler *s = ctx;
    const struct feed_row *r = &s->row[i];
    // without an entry, the prompt has failed in this step
    if (r->chooses && r->place->of)
        qkv_slot_choose(&r->place->slot, 0, r->logits, &s->scratch[thread]);
}

// Delivers the output of a place, and frees it.
static qkv_status deliver(struct place *p, qkv_error *err)
{
    struct qkv_generated g;
    struct entry *e = p->of;
    const struct qkv_generate_options *o = &e->g.options;
    qkv_status status = qkv_slot_output(&p->slot, 0, &g, err);
    if (!status && o->output && o->output(o->user, &g))
        status = qkv_generation_interrupted(&e->g, err);
    clear_place(p);
    e->left--;
    return status;
}

// Accepts the chosen tokens.
static void accept_all(qkv_scheduler *s)
{
    for (int64_t r = 0; r < s->rows + s->logged; r++) {
        struct place *p = s->row[r].place;
        struct entry *e = p->of;
        qkv_error err = { 0 };
        if (!s->row[r].chooses || !e) continue; // without e, another output of its prompt failed
        qkv_status status = qkv_slot_accept(&p->slot, &err);
        if (!status && !p->slot.active) status = deliver(p, &err);
        if (status)
            fail(s, e, &err);
        else if (!e->left)
            remove_entry(s, e);
    }
}

qkv_status qkv_scheduler_step(qkv_scheduler *s, qkv_error *err)
{
    if (!s)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_scheduler_step: expected a scheduler, found NULL");
    begin_waiting(s);
    if (!gather(s)) {
        ungather(s);
        return qkv_fail_memory(err, NULL);
    }
    if (!s->rows && !s->logged) return QKV_OK;
    const struct qkv_decoder_tokens t = {
        .n = s->rows, .items = s->item, .offsets = s->offsets, .ids = s->ids
    };
    const qkv_status status = s->rows ? s->source.feed(s->source.ctx, s->logits, &t, err) : QKV_OK;
    if (status) {
        ungather(s);
        return status;
    }
    read_logged(s);
    qkv_parallel_for_most(s->rows + s->logged, s->threads, choose, s);
    accept_all(s);
    return QKV_OK;
}
