// SPDX-License-Identifier: MIT
// speak_seat.c: a prompt under way: its tokens and what of it fits, its output's tokens and text.
#include "task/speak.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    TOKENS_PLAIN = 256, // of an output, when nobody says
    BYTES_TOKEN = 64    // of a text that is looked at first, for each token it may have
};

void qkv_seat_free(struct qkv_seat *p, int64_t width)
{
    for (int64_t i = 0; p->history && i < width; i++) qkv_history_free(&p->history[i]);
    qkv_free(p->history);
    qkv_free(p->fed);
    qkv_free(p->source);
    qkv_free(p->ids);
    qkv_free(p->logprobs);
    qkv_encoding_free(&p->encoding);
    qkv_decode_stream_free(p->stream);
    qkv_output_text_free(&p->text);
    qkv_beam_free(&p->beam);
}

// ---- the prompt ---------------------------------------------------------------------------------
static qkv_status too_long(const struct qkv_call *c, int64_t most, const char *more, int64_t found,
                           qkv_error *err)
{
    return qkv_fail(err, QKV_ERR_USAGE, NULL,
                    "%s too long, expected at most %" PRId64 " tokens, found %s%" PRId64,
                    c->translates ? "source" : "prompt", most, more, found);
}

// A text that is much too long shows it soon: its beginning alone has more tokens than fit.
static qkv_status look(const struct qkv_call *c, qkv_encoding *e, const char *text, size_t bytes,
                       int64_t most, const struct qkv_encode_options *how, qkv_error *err)
{
    for (size_t n = (size_t)most * BYTES_TOKEN + 4096; n < bytes / 2; n *= 4) {
        while (n < bytes && ((uint8_t)text[n] & 0xC0) == 0x80) n++;
        const qkv_status s = qkv_tokenizer_encode(c->tokenizer, e, text, n, NULL, 0, how, err);
        if (s) return s;
        if (e->count > most) return too_long(c, most, "more than ", e->count, err);
    }
    return QKV_OK;
}

// p->encoding of the prompt, at most `most` tokens; cut down to `room` where it has more and may be
// cut.
static qkv_status encode(struct qkv_call *c, struct qkv_seat *p, int64_t most, int64_t room,
                         qkv_error *err)
{
    const char *text = c->prompts[p->prompt];
    const size_t bytes = c->bytes ? c->bytes[p->prompt] : strlen(text);
    struct qkv_encode_options how = { .strict = c->o.strict,
                                      .no_special = c->o.no_special && !c->translates };
    qkv_encoding *e = &p->encoding;
    qkv_status s = QKV_OK;
    if (!c->o.truncate && most < INT64_MAX / (4 * BYTES_TOKEN))
        s = look(c, e, text, bytes, most, &how, err);
    if (!s) s = qkv_tokenizer_encode(c->tokenizer, e, text, bytes, NULL, 0, &how, err);
    if (!s && e->count > most) {
        if (!c->o.truncate) return too_long(c, most, "", e->count, err);
        how.max_length = room;
        how.truncate = true;
        how.cut_left = !c->translates;
        s = qkv_tokenizer_encode(c->tokenizer, e, text, bytes, NULL, 0, &how, err);
    }
    p->cut = e->cut;
    p->replaced = e->replaced;
    p->replaced_at = e->replaced_at;
    return s;
}

static bool feed(struct qkv_seat *p, const int32_t *ids, int64_t n)
{
    if (!qkv_reserve((void **)&p->fed, &p->fed_capacity, p->fed_n + n + 1, sizeof *p->fed))
        return false;
    if (n) memcpy(p->fed + p->fed_n, ids, (size_t)n * sizeof *ids);
    p->fed_n += n;
    return true;
}

// What the decoder reads first: the prompt, or the token that targets begin with; then the prefix.
static qkv_status begin_decoder(struct qkv_call *c, struct qkv_seat *p, qkv_error *err)
{
    const int64_t wanted = c->o.max_tokens ? c->o.max_tokens : TOKENS_PLAIN;
    const int64_t most = c->voice->positions - 1 - c->n_prefix;
    const int32_t start = c->manners->start;
    p->fed_n = p->source_n = 0;
    if (most < 1)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "prefix too long, expected at most %" PRId64 " tokens, found %" PRId64,
                        c->voice->positions - 2, c->n_prefix);
    if (!c->translates) {
        const int64_t left = qkv_min64(wanted, c->voice->positions / 2) - 1;
        const qkv_status s = encode(c, p, most, qkv_max64(1, most - left), err);
        if (s) return s;
        if (!feed(p, p->encoding.ids, p->encoding.count)) return qkv_fail_memory(err, NULL);
    }
    if (!p->fed_n) { // a target, or nothing to go on with
        if (start < 0)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "a prompt without a token, expected text: the model has none to begin "
                            "with");
        if (!feed(p, &start, 1)) return qkv_fail_memory(err, NULL);
    }
    if (!feed(p, c->prefix, c->n_prefix)) return qkv_fail_memory(err, NULL);
    p->given = c->n_prefix;
    p->most = qkv_min64(wanted, c->voice->positions - p->fed_n);
    p->limited = p->most < wanted;
    return QKV_OK;
}

static qkv_status begin_source(struct qkv_call *c, struct qkv_seat *p, qkv_error *err)
{
    const int64_t most = c->manners->source_positions;
    qkv_status s = encode(c, p, most, most, err);
    if (s) return s;
    const int64_t n = p->encoding.count;
    if (!n) return qkv_fail(err, QKV_ERR_USAGE, NULL, "a source without a token, expected text");
    if (!qkv_reserve((void **)&p->source, &p->source_capacity, n, sizeof *p->source))
        return qkv_fail_memory(err, NULL);
    memcpy(p->source, p->encoding.ids, (size_t)n * sizeof *p->source);
    p->source_n = n;
    return c->voice->source(c->voice->ctx, p->item, p->source, n, err);
}

qkv_status qkv_seat_begin(struct qkv_call *c, struct qkv_seat *p, qkv_error *err)
{
    p->begun = false;
    p->count = 0;
    qkv_status s = begin_decoder(c, p, err);
    if (!s && c->translates) s = begin_source(c, p, err);
    if (!s && !c->translates) s = c->voice->clear(c->voice->ctx, p->item);
    if (!s && !qkv_history_begin(&p->history[0], &c->o.sampling, c->voice->V, p->fed,
                                 p->fed_n - p->given))
        s = qkv_fail_memory(err, NULL);
    for (int64_t i = p->fed_n - p->given; !s && i < p->fed_n; i++)
        if (!qkv_history_add(&p->history[0], p->fed[i])) s = qkv_fail_memory(err, NULL);
    if (!s && c->width > 1 && !qkv_beam_begin(&p->beam, c)) s = qkv_fail_memory(err, NULL);
    if (!s && c->width == 1) s = qkv_seat_text(c, p, err);
    p->active = !s;
    return s;
}

// ---- its output ---------------------------------------------------------------------------------
static bool keep(struct qkv_call *c, struct qkv_seat *p, int64_t at, int32_t id, float logprob)
{
    if (!qkv_reserve((void **)&p->ids, &p->ids_capacity, at + 1, sizeof *p->ids)) return false;
    p->ids[at] = id;
    if (!c->o.logprobs) return true;
    if (!qkv_reserve((void **)&p->logprobs, &p->logprobs_capacity, at + 1, sizeof *p->logprobs))
        return false;
    p->logprobs[at] = logprob;
    return true;
}

qkv_status qkv_seat_text(struct qkv_call *c, struct qkv_seat *p, qkv_error *err)
{
    const int64_t prompt = p->fed_n - p->given;
    const bool quiet = c->width > 1;
    const char *text;
    size_t bytes;
    qkv_decode_stream_free(p->stream);
    p->stream = NULL;
    p->skip = 0;
    qkv_status s = qkv_decode_stream_new(&p->stream, c->tokenizer, true, err);
    if (!s && !qkv_output_text_begin(&p->text, &c->stops)) s = qkv_fail_memory(err, NULL);
    // A decoder's output is the text that the prompt's tokens and its own have together, less the
    // prompt's: what stands between words, or is left out at a start, comes out right.
    if (!s && !c->translates)
        s = qkv_tokenizer_decode(c->tokenizer, NULL, 0, &p->skip, p->fed, prompt, true, err);
    for (int64_t i = 0; !s && !c->translates && i < prompt; i++) {
        s = qkv_decode_stream_put(p->stream, p->fed[i], &text, &bytes, err);
        if (!s) p->skip -= bytes < p->skip ? bytes : p->skip;
    }
    for (int64_t i = 0; !s && i < p->given; i++) {
        const struct qkv_said_token t = {
            .id = p->fed[prompt + i], .logprob = NAN, .forced = true, .quiet = quiet
        };
        if (!keep(c, p, i, t.id, NAN)) return qkv_fail_memory(err, NULL);
        s = qkv_seat_say(c, p, &t, err);
    }
    return s;
}

// Text of the stream to the output's, without what is still the prompt's.
static bool take(struct qkv_seat *p, const char *text, size_t bytes, bool stop)
{
    const size_t skip = bytes < p->skip ? bytes : p->skip;
    size_t at = skip;
    p->skip -= skip;
    while (skip && at < bytes && ((uint8_t)text[at] & 0xC0) == 0x80) at++;
    return qkv_output_text_add(&p->text, text + at, bytes - at, stop);
}

static qkv_status tell(struct qkv_call *c, struct qkv_seat *p, const struct qkv_token_seen *t,
                       qkv_error *err)
{
    struct qkv_token_seen seen = *t;
    const int64_t shown = p->text.shown, safe = qkv_max64(p->text.safe, shown);
    seen.prompt = p->prompt;
    seen.rank = p->rank;
    seen.text = p->text.at ? p->text.at + shown : "";
    seen.bytes = (size_t)(safe - shown);
    p->text.shown = safe;
    if (c->o.token && (t->id >= 0 || seen.bytes) && c->o.token(c->o.user, &seen))
        return qkv_speak_interrupted(c, err);
    return QKV_OK;
}

// The stream's last text.
static qkv_status flush(struct qkv_seat *p, bool stop, qkv_error *err)
{
    const char *text;
    size_t bytes;
    if (p->text.stopped) return QKV_OK;
    const qkv_status s = qkv_decode_stream_end(p->stream, &text, &bytes, err);
    if (s) return s;
    if (!take(p, text, bytes, stop)) return qkv_fail_memory(err, NULL);
    p->text.safe = p->text.n; // nothing comes that could complete a stop string
    return QKV_OK;
}

qkv_status qkv_seat_say(struct qkv_call *c, struct qkv_seat *p, const struct qkv_said_token *t,
                        qkv_error *err)
{
    const char *text;
    size_t bytes;
    qkv_status s = qkv_decode_stream_put(p->stream, t->id, &text, &bytes, err);
    if (s) return s;
    if (!take(p, text, bytes, !t->forced)) return qkv_fail_memory(err, NULL);
    if (t->last && (s = flush(p, true, err))) return s;
    if (t->quiet) return QKV_OK;
    const struct qkv_token_seen seen = { .position = p->count + (t->forced ? 0 : p->given),
                                         .id = t->id,
                                         .logprob = t->logprob,
                                         .top = t->top,
                                         .tops = t->top ? c->o.logprobs : 0 };
    return tell(c, p, &seen, err);
}

qkv_status qkv_seat_end(struct qkv_call *c, struct qkv_seat *p, bool quiet, qkv_error *err)
{
    const qkv_status s = flush(p, true, err);
    if (s || quiet) return s;
    const struct qkv_token_seen rest = { .position = p->given + p->count,
                                         .id = -1,
                                         .logprob = NAN };
    return tell(c, p, &rest, err);
}

static qkv_status finish(struct qkv_call *c, struct qkv_seat *p, enum qkv_ending ending,
                         int32_t end, qkv_error *err)
{
    p->active = false;
    return qkv_speak_output(c, p, p->rank, ending, end, NAN, err);
}

qkv_status qkv_seat_accept(struct qkv_call *c, struct qkv_seat *p, const struct qkv_row *r,
                           qkv_error *err)
{
    const int64_t at = p->given + p->count;
    qkv_status s;
    if (r->id < 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "no token can be chosen behind %" PRId64
                        ": every logit is -inf, or one is NaN or +inf",
                        p->fed_n + p->count);
    if (qkv_speak_ends(c, r->id)) {
        s = qkv_seat_end(c, p, false, err);
        if (s) return s;
        return p->text.stopped ? finish(c, p, QKV_END_STOP, -1, err)
                               : finish(c, p, QKV_END_TOKEN, r->id, err);
    }
    if (!keep(c, p, at, r->id, r->logprob) || !qkv_history_add(&p->history[0], r->id))
        return qkv_fail_memory(err, NULL);
    const struct qkv_said_token t = { .id = r->id,
                                      .logprob = r->logprob,
                                      .top = c->o.logprobs ? r->top : NULL,
                                      .last = p->count + 1 == p->most };
    s = qkv_seat_say(c, p, &t, err);
    p->count++;
    if (s) return s;
    if (p->text.stopped) return finish(c, p, QKV_END_STOP, -1, err);
    if (p->count < p->most) return QKV_OK;
    return finish(c, p, p->limited ? QKV_END_POSITIONS : QKV_END_TOKENS, -1, err);
}
