// SPDX-License-Identifier: MIT
// decode_text.c: decodes ids to text by passing the texts of the tokens through the steps of the
// decoder.
#include "text/text_internal.h"
#include <string.h>

enum { STEPS_MAX = 64 }; // each step calls the next one

static void step_free(struct qkv_decode_step *s)
{
    qkv_expression_free(&s->expression);
    qkv_search_free(&s->search);
    qkv_free(s->from);
    qkv_free(s->to);
}

bool qkv_decode_add(qkv_tokenizer *t, const struct qkv_json_at *at, struct qkv_decode_step step,
                    const char *from, const char *to)
{
    struct qkv_text_decoder *d = &t->decoder;
    void *p = d->steps;
    if (d->count == STEPS_MAX) {
        qkv_expression_free(&step.expression);
        return qkv_text_fail(at, NULL, QKV_ERR_LIMIT, "too many decoders, expected at most %d",
                             STEPS_MAX);
    }
    step.from_bytes = (int64_t)strlen(from);
    step.to_bytes = (int64_t)strlen(to);
    step.from = qkv_copy_text(from, (size_t)step.from_bytes);
    step.to = qkv_copy_text(to, (size_t)step.to_bytes);
    const bool ok = step.from && step.to && qkv_search_bytes(&step.search, from, step.from_bytes) &&
                    qkv_reserve(&p, &d->capacity, d->count + 1, sizeof *d->steps);
    d->steps = p;
    if (!ok) {
        step_free(&step);
        qkv_fail_memory(at->err, at->file);
        return false;
    }
    d->steps[d->count++] = step;
    return true;
}

void qkv_text_decoder_free(struct qkv_text_decoder *d)
{
    for (int64_t i = 0; i < d->count; i++) step_free(&d->steps[i]);
    qkv_free(d->steps);
    memset(d, 0, sizeof *d);
}

// ---- token by token ----------------------------------------------------------------------------
bool qkv_decode_feed(struct qkv_decoding *d, int64_t step, const char *text, int64_t n, bool ends)
{
    if (step == d->t->decoder.count) {
        qkv_text_append(&d->out, text, (size_t)n);
        return !d->out.failed;
    }
    const struct qkv_decode_step *s = &d->t->decoder.steps[step];
    struct qkv_decode_state *st = &d->states[step];
    st->passed += n; // as in normalization: replace steps can double it repeatedly
    if (st->passed / QKV_GROWTH > d->fed + QKV_GROWTH_MORE / QKV_GROWTH) return false;
    if (!s->whole || (ends && !st->item.count)) return s->put(d, step, text, n, ends);
    qkv_text_append(&st->item, text, (size_t)n);
    if (st->item.failed) return false;
    if (!ends) return true;
    n = st->item.count;
    st->item.count = 0;
    return s->put(d, step, st->item.bytes, n, true);
}

static bool decoding_begin(struct qkv_decoding *d, const qkv_tokenizer *t, bool skip_special)
{
    *d = (struct qkv_decoding){ .t = t, .skip_special = skip_special };
    d->states = qkv_alloc_zero((size_t)qkv_max64(t->decoder.count, 1), sizeof *d->states);
    return d->states != NULL;
}

static void decoding_free(struct qkv_decoding *d)
{
    for (int64_t i = 0; d->states && i < d->t->decoder.count; i++) {
        struct qkv_decode_state *st = &d->states[i];
        qkv_text_buffer_free(&st->item);
        qkv_text_buffer_free(&st->pending);
        qkv_text_buffer_free(&st->work);
        qkv_text_buffer_free(&st->other);
    }
    qkv_free(d->states);
    qkv_text_buffer_free(&d->out);
}

// Passes the text of a token to the first step.  Without a decoder, spaces separate the tokens.
static bool decoding_put_text(struct qkv_decoding *d, const char *text, int64_t bytes)
{
    if (d->t->decoder.count == 0 && d->any) qkv_text_append(&d->out, " ", 1);
    d->any = true;
    d->fed += bytes;
    return qkv_decode_feed(d, 0, text, bytes, true);
}

// Passes the text of a token to the first step; the text of an added token is the text that the
// token matches.
static bool decoding_put(struct qkv_decoding *d, int32_t id)
{
    const qkv_tokenizer *t = d->t;
    const struct qkv_token *token = qkv_vocab_token(&t->vocab, id);
    if (!token || (d->skip_special && token->flags & QKV_TOKEN_SPECIAL)) return true;
    const char *text = t->vocab.pool + token->text;
    int64_t bytes = token->bytes;
    if (token->flags & QKV_TOKEN_ADDED) {
        const struct qkv_added_token *a =
            &t->added.tokens[qkv_trie_find(&t->added.names, text, token->bytes)];
        text = t->added.pool + a->matched;
        bytes = a->matched_bytes;
    }
    return decoding_put_text(d, text, bytes);
}

static bool decoding_end(struct qkv_decoding *d)
{
    for (int64_t i = 0; i < d->t->decoder.count; i++) {
        const struct qkv_decode_step *s = &d->t->decoder.steps[i];
        if (s->end && !s->end(d, i)) return false;
    }
    return true;
}

// Decodes ids[n] to out[size] by d, which has begun if ok is true, and frees it.
static qkv_status decode_ids(struct qkv_decoding *d, bool ok, char *out, size_t size, size_t *need,
                             const int32_t *ids, int64_t n, qkv_error *err)
{
    d->effort = qkv_effort_for(n, d->t->file, err);
    for (int64_t i = 0; i < n && ok; i++) ok = decoding_put(d, ids[i]);
    ok = ok && decoding_end(d);
    if (ok) {
        size_t fit = (size_t)d->out.count;
        if (need) *need = fit;
        if (size && fit > size - 1) {
            fit = size - 1;
            // a cut text ends with a whole character
            while (fit && qkv_utf8_continues(d->out.bytes[fit])) fit--;
        }
        if (size && fit) memcpy(out, d->out.bytes, fit);
        if (size) out[fit] = 0;
    }
    decoding_free(d);
    return ok ? QKV_OK : qkv_fail_memory(err, NULL);
}

qkv_status qkv_tokenizer_decode(const qkv_tokenizer *t, char *out, size_t size, size_t *need,
                                const int32_t *ids, int64_t n, bool skip_special, qkv_error *err)
{
    if (need) *need = 0;
    if (out && size) out[0] = 0;
    if (!t || n < 0 || (!ids && n) || (!out && size))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_tokenizer_decode: expected a tokenizer, ids and a buffer for the "
                        "text, found NULL or a count below 0");
    struct qkv_decoding d;
    const bool ok = decoding_begin(&d, t, skip_special);
    return decode_ids(&d, ok, out, size, need, ids, n, err);
}

qkv_status qkv_tokenizer_token_bytes(const qkv_tokenizer *t, char *out, size_t size, size_t *need,
                                     int32_t id, qkv_error *err)
{
    if (need) *need = 0;
    if (out && size) out[0] = 0;
    if (!t || (!out && size))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_tokenizer_token_bytes: expected a tokenizer and a buffer for the "
                        "bytes, found NULL");
    struct qkv_decoding d;
    const bool ok = decoding_begin(&d, t, false);
    d.raw = d.any = true;
    return decode_ids(&d, ok, out, size, need, &id, 1, err);
}

qkv_status qkv_tokenizer_join(const qkv_tokenizer *t, char **out, size_t *size,
                              const char *const *text, const size_t *bytes, int64_t n,
                              qkv_error *err)
{
    struct qkv_decoding d;
    bool ok = decoding_begin(&d, t, false);
    d.effort = qkv_effort_for(n, t->file, err);
    for (int64_t i = 0; i < n && ok; i++) ok = decoding_put_text(&d, text[i], (int64_t)bytes[i]);
    ok = ok && decoding_end(&d);
    *size = (size_t)d.out.count;
    *out = ok ? qkv_copy_text(d.out.bytes ? d.out.bytes : "", *size) : NULL;
    decoding_free(&d);
    return *out ? QKV_OK : qkv_fail_memory(err, NULL);
}

// ---- streams -----------------------------------------------------------------------------------
struct qkv_decode_stream {
    struct qkv_decoding decoding;
    bool failed;
};

qkv_status qkv_decode_stream_new(qkv_decode_stream **out, const qkv_tokenizer *t, bool skip_special,
                                 qkv_error *err)
{
    if (out) *out = NULL;
    if (!out || !t)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "qkv_decode_stream_new: expected a pointer for the stream and a tokenizer, found NULL");
    qkv_decode_stream *s = qkv_alloc_zero(1, sizeof *s);
    if (!s || !decoding_begin(&s->decoding, t, skip_special)) {
        qkv_free(s);
        return qkv_fail_memory(err, NULL);
    }
    *out = s;
    return QKV_OK;
}

static qkv_status stream_out(qkv_decode_stream *s, bool ok, const char **text, size_t *bytes,
                             qkv_error *err)
{
    s->failed = !ok;
    if (s->failed) return qkv_fail_memory(err, NULL);
    if (s->decoding.out.count) *text = s->decoding.out.bytes;
    *bytes = (size_t)s->decoding.out.count;
    return QKV_OK;
}

// Checks the arguments of a call and clears its results.
static qkv_status stream_begin(qkv_decode_stream *s, const char **text, size_t *bytes,
                               qkv_error *err)
{
    if (text) *text = "";
    if (bytes) *bytes = 0;
    if (!s || !text || !bytes || s->failed)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "decoding stream: expected a stream without an earlier error, and pointers "
                        "for the text and its length");
    s->decoding.out.count = 0;
    s->decoding.effort = qkv_effort_for(0, s->decoding.t->file, err);
    return QKV_OK;
}

qkv_status qkv_decode_stream_put(qkv_decode_stream *s, int32_t id, const char **text, size_t *bytes,
                                 qkv_error *err)
{
    const qkv_status begun = stream_begin(s, text, bytes, err);
    if (begun) return begun;
    return stream_out(s, decoding_put(&s->decoding, id), text, bytes, err);
}

qkv_status qkv_decode_stream_end(qkv_decode_stream *s, const char **text, size_t *bytes,
                                 qkv_error *err)
{
    const qkv_status begun = stream_begin(s, text, bytes, err);
    if (begun) return begun;
    const qkv_status status = stream_out(s, decoding_end(&s->decoding), text, bytes, err);
    for (int64_t i = 0; i < s->decoding.t->decoder.count; i++) {
        struct qkv_decode_state *st = &s->decoding.states[i];
        st->item.count = st->pending.count = st->work.count = 0;
        st->passed = st->items = st->cut = st->tail = 0;
        st->begun = st->inside = false;
    }
    s->decoding.fed = 0;
    s->decoding.any = false;
    return status;
}

void qkv_decode_stream_free(qkv_decode_stream *s)
{
    if (!s) return;
    decoding_free(&s->decoding);
    qkv_free(s);
}
