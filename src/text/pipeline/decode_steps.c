// SPDX-License-Identifier: MIT
// decode_steps.c: implements the decoders of a tokenizer.json as steps that receive items (the
// texts of tokens) in parts.
//
// A step passes on the text that later input cannot change and keeps the rest in its state, so a
// stream of tokens gives the same text as the complete list.
#define _GNU_SOURCE // memmem
#include "text/text_internal.h"
#include <string.h>

static bool pass_on(struct qkv_decoding *d, int64_t step, const char *text, int64_t n, bool ends)
{
    return qkv_decode_feed(d, step + 1, text, n, ends);
}

static bool store(struct qkv_text_buffer *b, const char *text, int64_t n)
{
    qkv_text_append(b, text, (size_t)n);
    return !b->failed;
}

// Passes on the bytes begin .. end of an item.  A byte before text[0] is one of the `held` bytes of
// `from` that preceding parts ended with.
static bool pass_range(struct qkv_decoding *d, int64_t step, const char *text, int64_t begin,
                       int64_t end, int64_t held, bool ends)
{
    if (begin < 0) {
        const int64_t before = qkv_min64(end, 0);
        const char *from = d->t->decoder.steps[step].from;
        if (!pass_on(d, step, from + held + begin, before - begin, false)) return false;
        begin = before;
    }
    return pass_on(d, step, text + qkv_max64(begin, 0), end - begin, ends);
}

// Replaces `from` by to[add] in an item; if a part ends inside `from`, these bytes are held back.
static bool replace(struct qkv_decoding *d, int64_t step, const char *text, int64_t n, bool ends,
                    const char *to, int64_t add)
{
    const struct qkv_search *s = &d->t->decoder.steps[step].search;
    int64_t *matched = &d->states[step].matched;
    const int64_t held = *matched;
    int64_t plain = -held;
    for (int64_t i = 0; i < n; i++) {
        if (!*matched) {
            const char *at = memchr(text + i, (int)s->at[0], (size_t)(n - i));
            if (!at) break;
            i = at - text;
        }
        *matched = qkv_search_step(s, *matched, (uint8_t)text[i]);
        if (*matched < s->count) continue;
        if (!pass_range(d, step, text, plain, i + 1 - s->count, held, false) ||
            !pass_on(d, step, to, add, false))
            return false;
        plain = i + 1;
        *matched = 0;
    }
    if (ends) *matched = 0;
    return pass_range(d, step, text, plain, n - *matched, held, ends);
}

static bool put_replace(struct qkv_decoding *d, int64_t step, const char *text, int64_t n,
                        bool ends)
{
    const struct qkv_decode_step *s = &d->t->decoder.steps[step];
    return replace(d, step, text, n, ends, s->to, s->to_bytes);
}

static bool is_utf8(const char *text, int64_t n)
{
    for (int64_t i = 0; i < n;) {
        const size_t bytes = qkv_utf8_bytes(text + i, (size_t)(n - i));
        if (!bytes) return false;
        i += (int64_t)bytes;
    }
    return true;
}

// Replaces the matches of a regular expression in a complete item.
static bool put_replace_regex(struct qkv_decoding *d, int64_t step, const char *text, int64_t n,
                              bool ends)
{
    const struct qkv_decode_step *s = &d->t->decoder.steps[step];
    struct qkv_matches m = { 0 };
    int64_t plain = 0, begin, end;
    int found = 0;
    if (!n || !is_utf8(text, n)) return pass_on(d, step, text, n, ends);
    bool ok = qkv_matches_open(&m, &s->expression, n, &d->effort);
    if (ok) qkv_matches_text(&m, (const uint8_t *)text, n);
    while (ok && (found = qkv_matches_next(&m, &begin, &end)) > 0) {
        ok = pass_on(d, step, text + plain, begin - plain, false) &&
             pass_on(d, step, s->to, s->to_bytes, false);
        plain = end;
    }
    qkv_matches_close(&m);
    return ok && found == 0 && pass_on(d, step, text + plain, n - plain, ends);
}

// Replaces the mark of Metaspace by a space.  In the first item a leading mark is removed instead,
// unless the prepend scheme is "never".
static bool put_metaspace(struct qkv_decoding *d, int64_t step, const char *text, int64_t n,
                          bool ends)
{
    struct qkv_decode_state *st = &d->states[step];
    const bool gone = st->items == 0 && !d->raw && d->t->decoder.steps[step].prefixed;
    if (ends) st->items++;
    return replace(d, step, text, n, ends, " ", !gone);
}

// Replaces the suffix of a word by a space, but removes it in the last item.  Therefore each item
// stays pending until the next item arrives.
static bool put_bpe(struct qkv_decoding *d, int64_t step, const char *text, int64_t n, bool ends)
{
    struct qkv_decode_state *st = &d->states[step];
    (void)ends;
    if (d->raw) return replace(d, step, text, n, true, " ", 1);
    if (st->begun && !replace(d, step, st->work.bytes, st->work.count, true, " ", 1)) return false;
    st->begun = true;
    st->work.count = 0;
    return store(&st->work, text, n);
}

static bool end_bpe(struct qkv_decoding *d, int64_t step)
{
    struct qkv_decode_state *st = &d->states[step];
    return !st->begun || replace(d, step, st->work.bytes, st->work.count, true, "", 0);
}

// ---- artifacts of English ----------------------------------------------------------------------
// The artifacts of English tokenization that Hugging Face tokenizers removes, in the same order.
static const char *const clean[][2] = {
    { " .", "." },   { " ?", "?" },     { " !", "!" },    { " ,", "," },
    { " ' ", "'" },  { " n't", "n't" }, { " 'm", "'m" },  { " do not", " don't" },
    { " 's", "'s" }, { " 've", "'ve" }, { " 're", "'re" }
};

// Appends text[n] to out with each from[size] replaced by to[add].
static bool swap_texts(struct qkv_text_buffer *out, const char *text, int64_t n, const char *from,
                       int64_t size, const char *to, int64_t add)
{
    const char *const end = text + n, *at;
    out->count = 0;
    if (!n) return true;
    while ((at = memmem(text, (size_t)(end - text), from, (size_t)size)) != NULL) {
        if (!store(out, text, at - text) || !store(out, to, add)) return false;
        text = at + size;
    }
    return store(out, text, end - text);
}

// Removes the artifacts from *b; *other is work memory.  All patterns start with a space, and no
// replacement is longer than its pattern.
static bool clean_text(struct qkv_text_buffer *b, struct qkv_text_buffer *other)
{
    if (!b->count || !memchr(b->bytes, ' ', (size_t)b->count)) return true;
    for (size_t i = 0; i < sizeof clean / sizeof clean[0]; i++) {
        if (!swap_texts(other, b->bytes, b->count, clean[i][0], (int64_t)strlen(clean[i][0]),
                        clean[i][1], (int64_t)strlen(clean[i][1])))
            return false;
        const struct qkv_text_buffer swap = *b;
        *b = *other;
        *other = swap;
    }
    return true;
}

static bool put_wordpiece(struct qkv_decoding *d, int64_t step, const char *text, int64_t n,
                          bool ends)
{
    const struct qkv_decode_step *s = &d->t->decoder.steps[step];
    struct qkv_decode_state *st = &d->states[step];
    const int64_t prefix = s->from_bytes;
    (void)ends;
    st->work.count = 0;
    if (st->items++ || d->raw) {
        const bool inside = n >= prefix && memcmp(text, s->from, (size_t)prefix) == 0;
        if (!inside && !store(&st->work, " ", 1)) return false;
        if (inside) text += prefix;
        if (inside) n -= prefix;
    }
    if (!store(&st->work, text, n) || (s->cleanup && !clean_text(&st->work, &st->other)))
        return false;
    return pass_on(d, step, st->work.bytes, st->work.count, true);
}

// Decodes an item for connectionist temporal classification: immediate repetitions of a token count
// once, padding is removed, the delimiter becomes a space; empty items are dropped.
static bool put_ctc(struct qkv_decoding *d, int64_t step, const char *text, int64_t n, bool ends)
{
    const struct qkv_decode_step *s = &d->t->decoder.steps[step];
    struct qkv_decode_state *st = &d->states[step];
    (void)ends;
    if (st->begun && st->pending.count == n &&
        (!n || memcmp(st->pending.bytes, text, (size_t)n) == 0))
        return true;
    st->begun = true;
    st->pending.count = 0;
    if (!store(&st->pending, text, n)) return false;
    struct qkv_text_buffer *b = &st->work;
    b->count = 0;
    if (s->from_bytes ? !swap_texts(b, text, n, s->from, s->from_bytes, "", 0) : !store(b, text, n))
        return false;
    if (s->cleanup) {
        if (!clean_text(b, &st->other) ||
            !swap_texts(&st->other, b->bytes, b->count, s->to, s->to_bytes, " ", 1))
            return false;
        b = &st->other;
    }
    return !b->count || pass_on(d, step, b->bytes, b->count, true);
}

// ---- all items joined to one -------------------------------------------------------------------
static bool put_fuse(struct qkv_decoding *d, int64_t step, const char *text, int64_t n, bool ends)
{
    (void)ends;
    return pass_on(d, step, text, n, false);
}

static bool end_fuse(struct qkv_decoding *d, int64_t step)
{
    return pass_on(d, step, "", 0, true);
}

// Passes on the pending bytes as valid UTF-8; each invalid sequence becomes U+FFFD.  The bytes of a
// last character that may be incomplete stay pending unless the input ends.
static bool put_valid(struct qkv_decoding *d, int64_t step, bool ends)
{
    struct qkv_text_buffer *b = &d->states[step].pending;
    int64_t plain = 0, i = 0;
    while (i < b->count) {
        const uint8_t *p = (const uint8_t *)b->bytes + i;
        uint32_t code;
        const int used = qkv_utf8_read(p, (size_t)(b->count - i), &code);
        if (used > 0) {
            i += used;
            continue;
        }
        if (!ends && i - used == b->count && *p >= 0xC2 && *p <= 0xF4) break;
        if (!pass_on(d, step, b->bytes + plain, i - plain, false) ||
            !pass_on(d, step, "\xEF\xBF\xBD", 3, false))
            return false;
        plain = i -= used;
    }
    if (!pass_on(d, step, b->bytes ? b->bytes + plain : "", i - plain, ends)) return false;
    if (i < b->count) memmove(b->bytes, b->bytes + i, (size_t)(b->count - i));
    b->count -= i;
    return true;
}

// Replaces characters that represent bytes by these bytes.  An item that contains another character
// is not changed.
static bool put_byte_level(struct qkv_decoding *d, int64_t step, const char *text, int64_t n,
                           bool ends)
{
    struct qkv_text_buffer *b = &d->states[step].pending;
    const int64_t from = b->count;
    int byte = 0;
    (void)ends;
    for (int64_t at = 0; at < n && byte >= 0;) {
        uint32_t code;
        const int used = qkv_utf8_read((const uint8_t *)text + at, (size_t)(n - at), &code);
        byte = used < 0 ? -1 : qkv_char_byte(code);
        at += used;
        if (byte >= 0 && !store(b, &(char){ (char)byte }, 1)) return false;
    }
    if (byte < 0) {
        b->count = from;
        if (!store(b, text, n)) return false;
    }
    if (d->raw) return pass_on(d, step, b->bytes ? b->bytes : "", b->count, true);
    return put_valid(d, step, false);
}

static bool end_byte_level(struct qkv_decoding *d, int64_t step)
{
    return d->raw || put_valid(d, step, true);
}

// ---- byte tokens -------------------------------------------------------------------------------
int qkv_spelled_byte(const char *text, int64_t n)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    const char *high = memchr(digits, text[3], 32), *low = memchr(digits, text[4], 32);
    // Hugging Face tokenizers accepts "+A" as a number
    if (!low || (!high && text[3] != '+')) return -1;
    return (high ? (int)((high - digits) & 15) * 16 : 0) + (int)((low - digits) & 15);
}

// Ends a run of byte tokens: passes on the text that their bytes spell, or U+FFFD for each byte if
// they are not valid UTF-8.
static bool end_byte_fallback(struct qkv_decoding *d, int64_t step)
{
    struct qkv_text_buffer *b = &d->states[step].pending;
    bool valid = true;
    for (int64_t at = 0; at < b->count && valid;) {
        uint32_t code;
        const int used =
            qkv_utf8_read((const uint8_t *)b->bytes + at, (size_t)(b->count - at), &code);
        valid = used > 0;
        at += used;
    }
    const int64_t n = b->count;
    b->count = 0;
    if (n && valid) return pass_on(d, step, b->bytes, n, true);
    for (int64_t i = 0; i < n; i++)
        if (!pass_on(d, step, "\xEF\xBF\xBD", 3, true)) return false;
    return true;
}

static bool put_byte_fallback(struct qkv_decoding *d, int64_t step, const char *text, int64_t n,
                              bool ends)
{
    const int byte = qkv_spelled_byte(text, n);
    (void)ends;
    if (byte >= 0 && d->raw) return pass_on(d, step, &(char){ (char)byte }, 1, true);
    if (byte >= 0) return store(&d->states[step].pending, &(char){ (char)byte }, 1);
    return end_byte_fallback(d, step) && pass_on(d, step, text, n, true);
}

// ---- removed characters at both ends -----------------------------------------------------------
// Holds back up to `stop` of the last characters that Strip may remove; they are dropped if the
// item ends with them.
static bool put_strip(struct qkv_decoding *d, int64_t step, const char *text, int64_t n, bool ends)
{
    const struct qkv_decode_step *s = &d->t->decoder.steps[step];
    struct qkv_decode_state *st = &d->states[step];
    const int64_t size = s->from_bytes;
    int64_t i = 0;
    if (d->raw) return pass_on(d, step, text, n, ends);
    for (; !st->inside && i < n; i += size) {
        st->inside = st->cut >= s->start || n - i < size || memcmp(text + i, s->from, (size_t)size);
        if (st->inside) break;
        st->cut++;
    }
    int64_t end = n, tail = 0;
    while (tail < s->stop && end - i >= size &&
           memcmp(text + end - size, s->from, (size_t)size) == 0) {
        end -= size;
        tail++;
    }
    // Characters that were held back earlier precede this part.  If all of this part is the
    // character to strip, some of them stay held back.
    const int64_t back = end > i ? 0 : qkv_min64(st->tail, s->stop - tail);
    for (int64_t k = st->tail - back; k > 0; k--)
        if (!pass_on(d, step, s->from, size, false)) return false;
    st->tail = tail + back;
    if (!pass_on(d, step, text + i, end - i, ends)) return false;
    if (ends) {
        st->inside = false;
        st->cut = st->tail = 0;
    }
    return true;
}

// ---- reading -----------------------------------------------------------------------------------
bool qkv_text_decoder_wordpiece(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    struct qkv_decode_step s = { .put = put_wordpiece, .whole = true };
    const char *prefix = "##";
    if (!qkv_json_text(at, "prefix", true, &prefix)) return false;
    if (!qkv_json_bool(at, "cleanup", true, &s.cleanup)) return false;
    return qkv_decode_add(t, at, s, prefix, "");
}

bool qkv_text_decoder_fuse(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return qkv_decode_add(t, at, (struct qkv_decode_step){ .put = put_fuse, .end = end_fuse }, "",
                          "");
}

bool qkv_text_decoder_replace(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    const char *from = NULL, *to = NULL;
    struct qkv_decode_step s = { .put = put_replace };
    if (!qkv_replace_read(at, &from, &to, &s.expression)) return false;
    if (qkv_expression_any(&s.expression)) {
        s.put = put_replace_regex;
        s.whole = true;
    }
    return qkv_decode_add(t, at, s, from, to);
}

bool qkv_text_decoder_strip(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    struct qkv_decode_step s = { .put = put_strip };
    const char *text = NULL;
    uint32_t code;
    if (!qkv_json_text(at, "content", true, &text)) return false;
    if (!text[0] ||
        (size_t)qkv_utf8_read((const uint8_t *)text, strlen(text), &code) != strlen(text))
        return qkv_text_fail(at, "content", QKV_ERR_FORMAT,
                             "text has the wrong length, expected one character, found \"%s\"",
                             text);
    if (!qkv_json_int(at, "start", true, &s.start, 0, INT64_MAX)) return false;
    if (!qkv_json_int(at, "stop", true, &s.stop, 0, INT64_MAX)) return false;
    return qkv_decode_add(t, at, s, text, "");
}

bool qkv_text_decoder_byte_level(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return qkv_decode_add(
        t, at,
        (struct qkv_decode_step){ .put = put_byte_level, .end = end_byte_level, .whole = true }, "",
        "");
}

bool qkv_text_decoder_byte_fallback(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return qkv_decode_add(t, at,
                          (struct qkv_decode_step){
                              .put = put_byte_fallback, .end = end_byte_fallback, .whole = true },
                          "", "");
}

bool qkv_text_decoder_metaspace(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    struct qkv_decode_step s = { .put = put_metaspace };
    const char *mark = NULL;
    bool first, split;
    if (!qkv_prepend_scheme_read(at, &mark, &s.prefixed, &first, &split)) return false;
    return qkv_decode_add(t, at, s, mark, "");
}

bool qkv_text_decoder_bpe(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    const char *suffix = NULL;
    if (!qkv_json_text(at, "suffix", true, &suffix)) return false;
    if (!suffix[0])
        return qkv_text_fail(at, "suffix", QKV_ERR_FORMAT,
                             "suffix is empty, expected at least one character");
    return qkv_decode_add(t, at,
                          (struct qkv_decode_step){ .put = put_bpe, .end = end_bpe, .whole = true },
                          suffix, "");
}

bool qkv_text_decoder_ctc(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    struct qkv_decode_step s = { .put = put_ctc, .whole = true };
    const char *padding = "<pad>", *delimiter = "|";
    if (!qkv_json_text(at, "pad_token", true, &padding)) return false;
    if (!qkv_json_text(at, "word_delimiter_token", true, &delimiter)) return false;
    if (!qkv_json_bool(at, "cleanup", true, &s.cleanup)) return false;
    if (s.cleanup && !delimiter[0])
        return qkv_text_fail(at, "word_delimiter_token", QKV_ERR_FORMAT,
                             "delimiter is empty, expected at least one character");
    return qkv_decode_add(t, at, s, padding, delimiter);
}

bool qkv_text_decoder_sequence(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return qkv_component_list(t, at, "decoders", qkv_text_decoder_read);
}
