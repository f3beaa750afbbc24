// SPDX-License-Identifier: MIT
// decode_text.c: ids back to text: the tokens' texts, one by one through the steps of the file's
// decoder.
#include "text/text.h"
#include <string.h>

enum { STEPS_MAX = 64 }; // each step calls the next one

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
    step.from = qkv_copy_text(from, strlen(from));
    step.to = qkv_copy_text(to, strlen(to));
    const bool ok =
        step.from && step.to && qkv_reserve(&p, &d->capacity, d->count + 1, sizeof *d->steps);
    d->steps = p;
    if (!ok) {
        qkv_expression_free(&step.expression);
        qkv_free(step.from);
        qkv_free(step.to);
        qkv_fail_memory(at->err, at->file);
        return false;
    }
    d->steps[d->count++] = step;
    return true;
}

void qkv_text_decoder_free(struct qkv_text_decoder *d)
{
    for (int64_t i = 0; i < d->count; i++) {
        qkv_expression_free(&d->steps[i].expression);
        qkv_free(d->steps[i].from);
        qkv_free(d->steps[i].to);
    }
    qkv_free(d->steps);
    memset(d, 0, sizeof *d);
}

// ---- one token after the other -----------------------------------------------------------------
bool qkv_decode_feed(struct qkv_decode_flow *f, int64_t step, const char *text, int64_t n,
                     bool ends)
{
    if (step == f->t->decoder.count) {
        qkv_text_put(&f->out, text, (size_t)n);
        return !f->out.failed;
    }
    const struct qkv_decode_step *s = &f->t->decoder.steps[step];
    struct qkv_decode_state *st = &f->states[step];
    st->passed += n; // as for normalisation: steps that replace could double it again and again
    if (st->passed / QKV_GROWTH > f->fed + QKV_GROWTH_MORE / QKV_GROWTH) return false;
    if (!s->whole || (ends && !st->item.count)) return s->put(f, step, text, n, ends);
    qkv_text_put(&st->item, text, (size_t)n);
    if (st->item.failed) return false;
    if (!ends) return true;
    n = st->item.count;
    st->item.count = 0;
    return s->put(f, step, st->item.bytes, n, true);
}

static bool flow_begin(struct qkv_decode_flow *f, const qkv_tokenizer *t, bool skip_special)
{
    *f = (struct qkv_decode_flow){ .t = t, .skip_special = skip_special };
    f->states = qkv_alloc_zero((size_t)qkv_max64(t->decoder.count, 1), sizeof *f->states);
    return f->states != NULL;
}

static void flow_free(struct qkv_decode_flow *f)
{
    for (int64_t i = 0; f->states && i < f->t->decoder.count; i++) {
        struct qkv_decode_state *st = &f->states[i];
        qkv_free(st->item.bytes);
        qkv_free(st->waits.bytes);
        qkv_free(st->work.bytes);
        qkv_free(st->other.bytes);
    }
    qkv_free(f->states);
    qkv_free(f->out.bytes);
}

// A normalised added token is written as it was matched; without a decoder tokens are spaced.
static bool flow_put(struct qkv_decode_flow *f, int32_t id)
{
    const qkv_tokenizer *t = f->t;
    const struct qkv_token *token = qkv_vocab_token(&t->vocab, id);
    if (!token || (f->skip_special && token->flags & QKV_TOKEN_SPECIAL)) return true;
    const char *text = t->vocab.pool + token->text;
    int64_t bytes = token->bytes;
    if (token->flags & QKV_TOKEN_ADDED) {
        const struct qkv_added_token *a =
            &t->added.tokens[qkv_trie_find(&t->added.names, text, token->bytes)];
        text = t->added.pool + a->cooked;
        bytes = a->cooked_bytes;
    }
    if (t->decoder.count == 0 && f->any) qkv_text_put(&f->out, " ", 1);
    f->any = true;
    f->fed += bytes;
    return qkv_decode_feed(f, 0, text, bytes, true);
}

static bool flow_end(struct qkv_decode_flow *f)
{
    for (int64_t i = 0; i < f->t->decoder.count; i++) {
        const struct qkv_decode_step *s = &f->t->decoder.steps[i];
        if (s->end && !s->end(f, i)) return false;
    }
    return true;
}

qkv_status qkv_tokenizer_decode(const qkv_tokenizer *t, char *out, size_t size, size_t *need,
                                const int32_t *ids, int64_t n, bool skip_special, qkv_error *err)
{
    if (need) *need = 0;
    if (out && size) out[0] = 0;
    if (!t || n < 0 || (!ids && n) || (!out && size))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "decode: expected a tokenizer, ids and room for the text");
    struct qkv_decode_flow f;
    bool ok = flow_begin(&f, t, skip_special);
    f.effort = qkv_effort_for(n, err);
    for (int64_t i = 0; i < n && ok; i++) ok = flow_put(&f, ids[i]);
    ok = ok && flow_end(&f);
    if (ok) {
        size_t fit = (size_t)f.out.count;
        if (need) *need = fit;
        if (size && fit > size - 1) {
            fit = size - 1;
            while (fit && (f.out.bytes[fit] & 0xC0) == 0x80) fit--; // at a character
        }
        if (size && fit) memcpy(out, f.out.bytes, fit);
        if (size) out[fit] = 0;
    }
    flow_free(&f);
    return ok ? QKV_OK : qkv_fail_memory(err, NULL);
}

// ---- streams -----------------------------------------------------------------------------------
struct qkv_decode_stream {
    struct qkv_decode_flow flow;
    bool failed;
};

qkv_status qkv_decode_stream_new(qkv_decode_stream **out, const qkv_tokenizer *t, bool skip_special,
                                 qkv_error *err)
{
    if (out) *out = NULL;
    if (!out || !t)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "decode stream: expected a place for the handle and a tokenizer");
    qkv_decode_stream *s = qkv_alloc_zero(1, sizeof *s);
    if (!s || !flow_begin(&s->flow, t, skip_special)) {
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
    if (s->flow.out.count) *text = s->flow.out.bytes;
    *bytes = (size_t)s->flow.out.count;
    return QKV_OK;
}

// What every call of a stream begins with: checked arguments, nothing said.
static qkv_status stream_begin(qkv_decode_stream *s, const char **text, size_t *bytes,
                               qkv_error *err)
{
    if (text) *text = "";
    if (bytes) *bytes = 0;
    if (!s || !text || !bytes || s->failed)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "decode stream: expected a stream that has not failed and places for the "
                        "text and its length");
    s->flow.out.count = 0;
    s->flow.effort = qkv_effort_for(0, err);
    return QKV_OK;
}

qkv_status qkv_decode_stream_put(qkv_decode_stream *s, int32_t id, const char **text, size_t *bytes,
                                 qkv_error *err)
{
    const qkv_status begun = stream_begin(s, text, bytes, err);
    if (begun) return begun;
    return stream_out(s, flow_put(&s->flow, id), text, bytes, err);
}

qkv_status qkv_decode_stream_end(qkv_decode_stream *s, const char **text, size_t *bytes,
                                 qkv_error *err)
{
    const qkv_status begun = stream_begin(s, text, bytes, err);
    if (begun) return begun;
    const qkv_status status = stream_out(s, flow_end(&s->flow), text, bytes, err);
    for (int64_t i = 0; i < s->flow.t->decoder.count; i++) {
        struct qkv_decode_state *st = &s->flow.states[i];
        st->item.count = st->waits.count = st->work.count = 0;
        st->passed = st->items = st->cut = st->tail = 0;
        st->begun = st->inside = false;
    }
    s->flow.fed = 0;
    s->flow.any = false;
    return status;
}

void qkv_decode_stream_free(qkv_decode_stream *s)
{
    if (!s) return;
    flow_free(&s->flow);
    qkv_free(s);
}
