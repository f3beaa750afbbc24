// SPDX-License-Identifier: MIT
// data_sequences.c: joins the tokens of consecutive pieces of text to the sequences of a dataset.
#include "task/data/data_build.h"
#include <string.h>

// Writes the ids of one sequence and its end offset. A pair of texts is two such sequences.
static qkv_status put_run(struct build *b, int split, const int32_t *ids, int64_t n, qkv_error *err)
{
    int64_t *tokens = &b->info.tokens[split];
    *tokens += n;
    const qkv_status status = build_put(b, split, DATA_TOKENS, ids, (size_t)n * sizeof *ids, err);
    return status ? status : build_put(b, split, DATA_OFFSETS, tokens, sizeof *tokens, err);
}

// ---- causal ------------------------------------------------------------------------------------
static qkv_status causal_end(struct build *b, int split, qkv_error *err)
{
    struct build_window *w = &b->window;
    if (w->count < 2) return QKV_OK; // a single token has no next token to predict
    int64_t *bytes = &b->info.bytes[split];
    *bytes += w->last - w->first;
    b->info.sequences[split]++;
    const qkv_status status = put_run(b, split, w->ids, w->count, err);
    return status ? status : build_put(b, split, DATA_BYTES, bytes, sizeof *bytes, err);
}

// Appends a token to the window; upto: bytes of the document up to the end of the token.
static qkv_status causal_add(struct build *b, int split, int32_t id, int64_t upto, qkv_error *err)
{
    struct build_window *w = &b->window;
    if (!w->count) w->first = upto;
    w->ids[w->count++] = id;
    w->last = upto;
    if (w->count <= b->info.context) return QKV_OK;
    const qkv_status status = causal_end(b, split, err);
    // the last token of a window is also the first of the next, so that every token is a target
    // once
    w->ids[0] = id;
    w->first = upto;
    w->count = 1;
    return status;
}

static qkv_status take_causal(struct build *b, const struct build_piece *p, qkv_error *err)
{
    struct build_window *w = &b->window;
    const struct build_template *t = &b->template[0];
    qkv_status status = QKV_OK;
    if (p->begin) {
        w->count = w->before = 0;
        for (int64_t i = 0; i < t->befores && !status; i++)
            status = causal_add(b, p->split, t->before[i], 0, err);
    }
    for (int64_t i = 0; i < p->count && !status; i++)
        status = causal_add(b, p->split, p->ids[i], w->before + p->upto[i], err);
    w->before += (int64_t)p->bytes;
    if (!p->end || status) return status;
    for (int64_t i = 0; i < t->afters && !status; i++)
        status = causal_add(b, p->split, t->after[i], w->before, err);
    if (!status && b->options->ends)
        status = causal_add(b, p->split, b->options->end, w->before, err);
    if (!status) status = causal_end(b, p->split, err);
    w->count = 0;
    return status;
}

// ---- masked ------------------------------------------------------------------------------------
// Appends the template's trailing special tokens to the window, and writes it as a sequence.
static qkv_status masked_end(struct build *b, int split, qkv_error *err)
{
    struct build_window *w = &b->window;
    const struct build_template *t = &b->template[0];
    if (w->count == t->befores) return QKV_OK;
    for (int64_t i = 0; i < t->afters; i++) w->ids[w->count++] = t->after[i];
    b->info.sequences[split]++;
    const qkv_status status = put_run(b, split, w->ids, w->count, err);
    w->count = t->befores;
    return status;
}

static qkv_status take_masked(struct build *b, const struct build_piece *p, qkv_error *err)
{
    struct build_window *w = &b->window;
    const struct build_template *t = &b->template[0];
    const int64_t most = b->info.context - t->afters;
    qkv_status status = QKV_OK;
    if (p->begin) {
        memcpy(w->ids, t->before, (size_t)t->befores * sizeof *w->ids);
        w->count = t->befores;
    }
    for (int64_t i = 0; i < p->count && !status; i++) {
        w->ids[w->count++] = p->ids[i];
        if (w->count == most) status = masked_end(b, p->split, err);
    }
    if (p->count) b->info.bytes[p->split] += (int64_t)p->bytes;
    return status || !p->end ? status : masked_end(b, p->split, err);
}

// ---- texts of one or two parts -----------------------------------------------------------------
// Appends the first n tokens of p to the window, with the template's special tokens before and
// after them.
static void wrap(struct build *b, const struct build_piece *p, int64_t n)
{
    struct build_window *w = &b->window;
    const struct build_template *t = &b->template[p->which];
    memcpy(w->ids + w->count, t->before, (size_t)t->befores * sizeof *w->ids);
    w->count += t->befores;
    if (n) memcpy(w->ids + w->count, p->ids, (size_t)n * sizeof *w->ids);
    w->count += n;
    memcpy(w->ids + w->count, t->after, (size_t)t->afters * sizeof *w->ids);
    w->count += t->afters;
}

static int64_t around(const struct build *b, const struct build_piece *p)
{
    return b->template[p->which].befores + b->template[p->which].afters;
}

// Writes the pair in the window: the first text, then the second.
static qkv_status put_pair(struct build *b, int split, qkv_error *err)
{
    struct build_window *w = &b->window;
    b->info.sequences[split]++;
    const qkv_status status = put_run(b, split, w->ids, w->source, err);
    return status ? status : put_run(b, split, w->ids + w->source, w->count - w->source, err);
}

static qkv_status take_seq2seq(struct build *b, const struct build_piece *p, qkv_error *err)
{
    struct build_window *w = &b->window;
    if (p->part == 0) {
        w->count = 0;
        w->short_part = !p->count || p->count + around(b, p) > b->info.context;
        if (!w->short_part) wrap(b, p, p->count);
        w->source = w->count;
        w->before = (int64_t)p->bytes;
        return QKV_OK;
    }
    // The + 1 is for bos, which a batch adds to the decoder's input, and eos, which it adds to the
    // targets.
    if (w->short_part || !p->count || p->count + 1 > b->info.context) {
        b->info.skipped++;
        return QKV_OK;
    }
    memcpy(w->ids + w->count, p->ids, (size_t)p->count * sizeof *w->ids);
    w->count += p->count;
    b->info.bytes[p->split] += (int64_t)p->bytes + w->before;
    return put_pair(b, p->split, err);
}

static qkv_status take_texts(struct build *b, const struct build_piece *p, qkv_error *err)
{
    struct build_window *w = &b->window;
    const int64_t most = b->info.context - around(b, p);
    const int64_t n = qkv_min64(p->count, most);
    const bool pair = b->info.objective == QKV_OBJECTIVE_CONTRASTIVE;
    if (p->part == 0) {
        w->count = 0;
        w->short_part = false;
    }
    w->short_part |= n < 1;
    b->info.cut += p->count > most;
    if (n > 0 && !w->short_part) {
        wrap(b, p, n);
        b->info.bytes[p->split] += (int64_t)p->bytes;
    }
    if (p->part == 0) w->source = w->count;
    if (p->part == 0 && pair) return QKV_OK;
    if (w->short_part) { // skip an example with a text that has no token
        b->info.skipped++;
        return QKV_OK;
    }
    if (pair) return put_pair(b, p->split, err);
    const int32_t label = p->label;
    b->info.sequences[p->split]++;
    const qkv_status status = put_run(b, p->split, w->ids, w->count, err);
    return status ? status : build_put(b, p->split, DATA_LABEL, &label, sizeof label, err);
}

qkv_status build_take(struct build *b, const struct build_piece *p, qkv_error *err)
{
    switch (b->info.objective) {
    case QKV_OBJECTIVE_CAUSAL: return take_causal(b, p, err);
    case QKV_OBJECTIVE_MASKED: return take_masked(b, p, err);
    case QKV_OBJECTIVE_SEQ2SEQ: return take_seq2seq(b, p, err);
    case QKV_OBJECTIVE_CONTRASTIVE:
    case QKV_OBJECTIVE_CLASSIFY: return take_texts(b, p, err);
    }
    return QKV_ERR_INTERNAL;
}
