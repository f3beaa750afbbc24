// SPDX-License-Identifier: MIT
// generate_request.c: decodes prompts of any lengths concurrently. Each step feeds one token of
// every slot, or the whole prompt of a slot that begins one. A slot whose output is finished takes
// the next prompt of the queue.
#include "task/generate/generate_request.h"
#include "task/generate/generate_slot.h"
#include "task/generate/pending_outputs.h"
#include <stdio.h>
#include <string.h>

enum { AHEAD_TOKENS = 1024 }; // no further source is encoded together with so many tokens

// A sequence whose tokens are fed to the model in this step.
struct row {
    struct qkv_slot *slot;
    int64_t number; // index among the sequences of its slot
    float *logits;  // [V] logits that follow its last token
};

// The prompts of the jobs that follow: their tokens, and the items of their encoded sources.
struct ahead {
    struct qkv_prompt_tokens tokens[QKV_SOURCES_AHEAD];
    int64_t item;        // first of the items
    int64_t count, next; // number of prompts; the first that no slot has begun
    int32_t *ids;        // tokens of the sources
    int64_t ids_capacity;
};

struct run {
    struct qkv_generate_request *request;
    struct qkv_generation *g; // &request->g
    int64_t jobs, next;       // jobs: number of jobs; next: the first job that no slot has begun
    struct qkv_slot *slot;    // [slots] slots, each of which decodes one job at a time
    int64_t slots;
    struct ahead ahead;
    struct qkv_pending_outputs pending;
    struct row *row;                    // [slots][width] sequences that are fed in this step
    int64_t rows;                       // number of sequences that are fed in this step
    struct qkv_choice_scratch *scratch; // [threads] scratch of each thread
    int threads;
    float *logits; // [slots][width][V] logits of each sequence
    // items: [rows] item of each sequence; offsets: [rows + 1] its first element in ids
    int64_t *items, *offsets;
    int32_t *ids; // [offsets[rows]] tokens that are fed in this step
    int64_t ids_capacity;
};

// Copies the outputs of a finished job, with their alignment if requested.
static qkv_status collect_outputs(struct run *r, struct qkv_slot *s, qkv_error *err)
{
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < qkv_slot_outputs(s) && !status; i++) {
        struct qkv_generated g;
        struct qkv_pending_output *o = NULL;
        status = qkv_slot_output(s, i, &g, err);
        if (!status && !(o = qkv_pending_add(&r->pending, s->job, &g)))
            status = qkv_fail_memory(err, NULL);
        if (status || !r->request->align) continue;
        status = r->request->align(r->request->align_ctx, &o->g, &o->alignment, err);
        o->g.alignment = o->alignment;
    }
    return status;
}

// Passes finished outputs to the caller in the order of their jobs, up to the first job that is not
// finished.
static qkv_status deliver_outputs(struct run *r, qkv_error *err)
{
    struct qkv_generation *g = r->g;
    const struct qkv_generate_options *o = &g->options;
    while (g->delivered < r->jobs && r->pending.first[g->delivered]) {
        for (const struct qkv_pending_output *p = r->pending.first[g->delivered]; p; p = p->next)
            if (o->output && o->output(o->user, &p->g)) return qkv_generation_interrupted(g, err);
        qkv_pending_drop(&r->pending, g->delivered++);
    }
    if (o->progress.step &&
        o->progress.step(o->progress.user, "prompts", g->delivered / g->draws, g->n))
        return qkv_generation_interrupted(g, err);
    return QKV_OK;
}

// ---- a step -------------------------------------------------------------------------------------
static bool append_row(struct run *r, struct qkv_slot *s, int64_t number)
{
    const int32_t *ids;
    const int64_t n = qkv_slot_tokens(s, number, &ids), at = r->offsets[r->rows];
    if (!qkv_reserve((void **)&r->ids, &r->ids_capacity, at + n, sizeof *r->ids)) return false;
    memcpy(r->ids + at, ids, (size_t)n * sizeof *ids);
    r->items[r->rows] = s->item + number;
    r->row[r->rows] = (struct row){ s, number, r->logits + r->rows * r->g->source->V };
    r->offsets[++r->rows] = at + n;
    return true;
}

// Collects the tokens that all slots feed in this step, but for prompts that are read with the
// log-probabilities of their tokens. Returns false if memory is exhausted.
static bool gather_tokens(struct run *r)
{
    bool fits = true;
    r->rows = 0;
    r->offsets[0] = 0;
    for (int64_t i = 0; i < r->slots; i++) {
        struct qkv_slot *s = &r->slot[i];
        const int64_t n = qkv_slot_logs_prompt(s) ? 0 : qkv_slot_rows(s);
        for (int64_t k = 0; k < n && fits; k++) fits = append_row(r, s, k);
    }
    return fits;
}

// Reads the prompts whose log-probabilities are requested, each on its own, and appends their rows.
static qkv_status read_logged(struct run *r, qkv_error *err)
{
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < r->slots && !status; i++) {
        struct qkv_slot *s = &r->slot[i];
        if (!qkv_slot_logs_prompt(s)) continue;
        float *logits = r->logits + r->rows * r->g->source->V;
        status = qkv_slot_read_logged(s, 0, s->tokens.count, logits, err);
        r->row[r->rows++] = (struct row){ s, 0, logits };
    }
    return status;
}

static void choose_token(void *ctx, int64_t i, int thread)
{
    struct run *r = ctx;
    qkv_slot_choose(r->row[i].slot, r->row[i].number, r->row[i].logits, &r->scratch[thread]);
}

static qkv_status decode_step(struct run *r, qkv_error *err)
{
    const struct qkv_logits_source *source = r->g->source;
    if (!gather_tokens(r)) return qkv_fail_memory(err, NULL);
    const struct qkv_decoder_tokens t = {
        .n = r->rows, .items = r->items, .offsets = r->offsets, .ids = r->ids
    };
    qkv_status status = r->rows ? source->feed(source->ctx, r->logits, &t, err) : QKV_OK;
    if (!status) status = read_logged(r, err);
    if (status) return status;
    qkv_parallel_for_most(r->rows, r->threads, choose_token, r);
    for (int64_t i = 0; i < r->slots && !status; i++) {
        struct qkv_slot *s = &r->slot[i];
        if (!s->active) continue;
        status = qkv_slot_accept(s, err);
        if (!status && !s->active) status = collect_outputs(r, s, err);
    }
    return status;
}

// ---- prompts ------------------------------------------------------------------------------------
static qkv_status name_prompt(const struct run *r, int64_t job, qkv_status status, qkv_error *err)
{
    if (status && err && r->g->n > 1 && !err->path[0])
        snprintf(err->path, sizeof err->path, "prompt %lld", (long long)(job / r->g->draws) + 1);
    return status;
}

// Encodes the sources of the first n prompts together, in one run of the encoder.
static qkv_status encode_ahead(struct run *r, int64_t n, qkv_error *err)
{
    const struct qkv_logits_source *source = r->g->source;
    struct ahead *a = &r->ahead;
    int64_t offsets[QKV_SOURCES_AHEAD + 1] = { 0 };
    for (int64_t i = 0; i < n; i++) {
        const struct qkv_prompt_tokens *p = &a->tokens[i];
        offsets[i + 1] = offsets[i] + p->source_count;
        if (!qkv_reserve((void **)&a->ids, &a->ids_capacity, offsets[i + 1], sizeof *a->ids))
            return qkv_fail_memory(err, NULL);
        memcpy(a->ids + offsets[i], p->source_ids, (size_t)p->source_count * sizeof *a->ids);
    }
    return source->encode(source->ctx, a->item, a->ids, offsets, n, err);
}

// Tokenizes the next prompts and encodes their sources: as many as are encoded together, or one if
// there is no encoder. An invalid prompt after the first is reported when it is the first.
static qkv_status prepare_ahead(struct run *r, qkv_error *err)
{
    struct ahead *a = &r->ahead;
    const int64_t most = r->g->translates ? QKV_SOURCES_AHEAD : 1;
    int64_t n = 0, tokens = 0;
    qkv_status status = QKV_OK;
    a->next = a->count = 0;
    for (; n < most && r->next + n < r->jobs && tokens < AHEAD_TOKENS; n++) {
        status =
            qkv_prompt_tokenize(&a->tokens[n], r->g, (r->next + n) / r->g->draws, n ? NULL : err);
        if (status) break;
        tokens += a->tokens[n].source_count;
    }
    if (!n) return name_prompt(r, r->next, status, err);
    if (r->g->translates && encode_ahead(r, n, NULL)) { // the first alone may be valid
        status = encode_ahead(r, n = 1, err);
        if (status) return name_prompt(r, r->next, status, err);
    }
    a->count = n;
    return QKV_OK;
}

// Assigns the next jobs of the queue to the idle slots.
static qkv_status assign_jobs(struct run *r, qkv_error *err)
{
    struct ahead *a = &r->ahead;
    for (int64_t i = 0; i < r->slots; i++) {
        if (r->slot[i].active || r->next == r->jobs) continue;
        qkv_status status = a->next < a->count ? QKV_OK : prepare_ahead(r, err);
        if (status) return status;
        const int64_t job = r->next++, k = a->next++;
        status = qkv_slot_begin(&r->slot[i], job, &a->tokens[k], a->item + k, err);
        if (status) return name_prompt(r, job, status, err);
    }
    return QKV_OK;
}

// ---- a call -------------------------------------------------------------------------------------
static qkv_status allocate_run(struct run *r, qkv_error *err)
{
    const int64_t width = r->g->width;
    const size_t rows = (size_t)(r->slots * width);
    bool fits = true;
    size_t cells;
    if (!qkv_mul_size(&cells, rows, (size_t)r->g->source->V)) return qkv_fail_memory(err, NULL);
    r->slot = qkv_alloc_zero((size_t)r->slots, sizeof *r->slot);
    r->row = qkv_alloc(rows, sizeof *r->row);
    r->logits = qkv_alloc(cells, sizeof *r->logits);
    r->items = qkv_alloc(rows, sizeof *r->items);
    r->offsets = qkv_alloc(rows + 1, sizeof *r->offsets);
    r->threads = (int)qkv_min64(qkv_threads(), (int64_t)rows);
    r->scratch = qkv_alloc_zero((size_t)r->threads, sizeof *r->scratch);
    if (!r->slot || !r->row || !r->logits || !r->items || !r->offsets || !r->scratch)
        return qkv_fail_memory(err, NULL);
    fits = qkv_pending_new(&r->pending, r->jobs);
    for (int i = 0; i < r->threads && fits; i++)
        fits = qkv_choice_scratch_new(&r->scratch[i], r->g);
    for (int64_t i = 0; i < r->slots && fits; i++)
        fits = qkv_slot_init(&r->slot[i], r->g, i * width);
    return fits ? QKV_OK : qkv_fail_memory(err, NULL);
}

static void free_run(struct run *r)
{
    for (int64_t i = 0; r->slot && i < r->slots; i++) qkv_slot_free(&r->slot[i]);
    for (int i = 0; r->scratch && i < r->threads; i++) qkv_choice_scratch_free(&r->scratch[i]);
    for (int i = 0; i < QKV_SOURCES_AHEAD; i++) qkv_prompt_tokens_free(&r->ahead.tokens[i]);
    qkv_free(r->ahead.ids);
    qkv_pending_free(&r->pending);
    qkv_free(r->slot);
    qkv_free(r->row);
    qkv_free(r->logits);
    qkv_free(r->items);
    qkv_free(r->offsets);
    qkv_free(r->scratch);
    qkv_free(r->ids);
}

static qkv_status run_jobs(struct run *r, qkv_error *err)
{
    qkv_status status = allocate_run(r, err);
    while (!status && r->g->delivered < r->jobs) {
        status = assign_jobs(r, err);
        if (!status) status = decode_step(r, err);
        if (!status) status = deliver_outputs(r, err);
    }
    free_run(r);
    return status;
}

qkv_status qkv_generate_request(struct qkv_generate_request *request, qkv_error *err)
{
    struct qkv_generation *g = &request->g;
    struct run r = { .request = request, .g = g };
    qkv_status status = qkv_generation_init(g, err);
    if (!status && g->n > (INT64_MAX / (int64_t)sizeof *r.pending.first - 1) / g->draws)
        status = qkv_fail_memory(err, NULL);
    if (!status) {
        r.jobs = g->n * g->draws;
        r.ahead.item = request->items;
        r.slots = qkv_max64(1, qkv_min64(request->items / g->width, r.jobs));
        status = run_jobs(&r, err);
    }
    qkv_generation_free(g);
    return status;
}
