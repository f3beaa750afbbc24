// SPDX-License-Identifier: MIT
// decode.c: ids back to text: the tokens' texts, through the steps of the file's decoder, joined.
#include "text/text.h"
#include <stdio.h>
#include <string.h>

// Texts one behind the other in one buffer.
struct qkv_texts {
    char *bytes;
    int64_t used, room, limit; // limit: most bytes, as for normalisation; 0: none
    struct span {
        int64_t at, size;
    } * items;
    int64_t count, capacity;
};

static bool write(struct qkv_texts *x, const char *bytes, int64_t n)
{
    void *p = x->bytes;
    if (n > INT64_MAX - x->used || (x->limit && x->used + n > x->limit)) return false;
    if (!qkv_reserve(&p, &x->room, x->used + n, 1)) return false;
    x->bytes = p;
    if (n) memcpy(x->bytes + x->used, bytes, (size_t)n);
    x->used += n;
    return true;
}

// What was written since `from` becomes an item.
static bool close_item(struct qkv_texts *x, int64_t from)
{
    void *p = x->items;
    if (!qkv_reserve(&p, &x->capacity, x->count + 1, sizeof *x->items)) return false;
    x->items = p;
    x->items[x->count++] = (struct span){ from, x->used - from };
    return true;
}

static void texts_free(struct qkv_texts *x)
{
    qkv_free(x->bytes);
    qkv_free(x->items);
}

// ---- steps -------------------------------------------------------------------------------------
static bool replace(struct qkv_texts *out, const char *text, int64_t n, const char *from,
                    const char *to)
{
    const int64_t size = (int64_t)strlen(from), add = (int64_t)strlen(to);
    int64_t plain = 0, i = 0;
    while (i + size <= n) {
        if (text[i] != from[0] || memcmp(text + i, from, (size_t)size) != 0) {
            i++;
            continue;
        }
        if (!write(out, text + plain, i - plain) || !write(out, to, add)) return false;
        plain = i += size;
    }
    return write(out, text + plain, n - plain);
}

// The artifacts of English tokenization that the reference removes, in its order.
static const char *const clean[][2] = {
    { " .", "." },   { " ?", "?" },     { " !", "!" },    { " ,", "," },
    { " ' ", "'" },  { " n't", "n't" }, { " 'm", "'m" },  { " do not", " don't" },
    { " 's", "'s" }, { " 've", "'ve" }, { " 're", "'re" }
};

// The last item of out, cleaned.  All patterns start with a space and none grows.
static bool clean_item(struct qkv_texts *out, int64_t from, struct qkv_texts *work)
{
    if (out->used == from || !memchr(out->bytes + from, ' ', (size_t)(out->used - from)))
        return true;
    for (size_t i = 0; i < sizeof clean / sizeof clean[0]; i++) {
        work->used = 0;
        if (!replace(work, out->bytes + from, out->used - from, clean[i][0], clean[i][1]))
            return false;
        out->used = from;
        if (!write(out, work->bytes, work->used)) return false;
    }
    return true;
}

static bool step_wordpiece(const struct qkv_decode_step *s, struct qkv_texts *out,
                           const struct qkv_texts *in)
{
    const int64_t prefix = (int64_t)strlen(s->from);
    struct qkv_texts work = { 0 };
    bool ok = true;
    for (int64_t i = 0; i < in->count && ok; i++) {
        const char *text = in->bytes + in->items[i].at;
        int64_t n = in->items[i].size;
        const int64_t from = out->used;
        if (i > 0 && n >= prefix && memcmp(text, s->from, (size_t)prefix) == 0) {
            text += prefix;
            n -= prefix;
        } else if (i > 0) {
            ok = write(out, " ", 1);
        }
        ok = ok && write(out, text, n) && (!s->cleanup || clean_item(out, from, &work)) &&
             close_item(out, from);
    }
    texts_free(&work);
    return ok;
}

static bool step_fuse(const struct qkv_decode_step *s, struct qkv_texts *out,
                      const struct qkv_texts *in)
{
    (void)s;
    for (int64_t i = 0; i < in->count; i++)
        if (!write(out, in->bytes + in->items[i].at, in->items[i].size)) return false;
    return close_item(out, 0);
}

static bool step_replace(const struct qkv_decode_step *s, struct qkv_texts *out,
                         const struct qkv_texts *in)
{
    for (int64_t i = 0; i < in->count; i++) {
        const int64_t from = out->used;
        if (!replace(out, in->bytes + in->items[i].at, in->items[i].size, s->from, s->to))
            return false;
        if (!close_item(out, from)) return false;
    }
    return true;
}

static bool step_strip(const struct qkv_decode_step *s, struct qkv_texts *out,
                       const struct qkv_texts *in)
{
    const int64_t size = (int64_t)strlen(s->from);
    for (int64_t i = 0; i < in->count; i++) {
        const char *text = in->bytes + in->items[i].at;
        int64_t begin = 0, end = in->items[i].size;
        const int64_t from = out->used;
        for (int64_t k = 0; k < s->start && end - begin >= size; k++) {
            if (memcmp(text + begin, s->from, (size_t)size) != 0) break;
            begin += size;
        }
        for (int64_t k = 0; k < s->stop && end - begin >= size; k++) {
            if (memcmp(text + end - size, s->from, (size_t)size) != 0) break;
            end -= size;
        }
        if (!write(out, text + begin, end - begin) || !close_item(out, from)) return false;
    }
    return true;
}

// Of bytes that are no UTF-8, U+FFFD for each sequence.
static bool write_valid(struct qkv_texts *out, const uint8_t *p, int64_t n)
{
    int64_t plain = 0;
    if (!n) return true;
    for (int64_t i = 0; i < n;) {
        uint32_t code;
        const int used = qkv_utf8_read(p + i, (size_t)(n - i), &code);
        i += used < 0 ? -used : used;
        if (used > 0) continue;
        if (!write(out, (const char *)p + plain, i + used - plain) ||
            !write(out, "\xEF\xBF\xBD", 3))
            return false;
        plain = i;
    }
    return write(out, (const char *)p + plain, n - plain);
}

// Characters of bytes to those bytes, one text out of all.  A text with another character stays.
static bool step_byte_level(const struct qkv_decode_step *s, struct qkv_texts *out,
                            const struct qkv_texts *in)
{
    struct qkv_texts raw = { 0 };
    bool ok = true;
    (void)s;
    for (int64_t i = 0; i < in->count && ok; i++) {
        const char *text = in->bytes + in->items[i].at;
        const int64_t size = in->items[i].size, from = raw.used;
        int byte = 0;
        for (int64_t at = 0; at < size && byte >= 0 && ok;) {
            uint32_t code;
            const int used = qkv_utf8_read((const uint8_t *)text + at, (size_t)(size - at), &code);
            byte = used < 0 ? -1 : qkv_char_byte(code);
            at += used;
            if (byte >= 0) ok = write(&raw, &(char){ (char)byte }, 1);
        }
        if (byte >= 0) continue;
        raw.used = from;
        ok = ok && write(&raw, text, size);
    }
    ok = ok && write_valid(out, (const uint8_t *)raw.bytes, raw.used) && close_item(out, 0);
    texts_free(&raw);
    return ok;
}

// The byte of "<0x41>", -1: another text.
static int spelled_byte(const char *text, int64_t n)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    const char *high = memchr(digits, text[3], 32), *low = memchr(digits, text[4], 32);
    if (!low || (!high && text[3] != '+')) return -1; // "+A" is a number too, to the reference
    return (high ? (int)((high - digits) & 15) * 16 : 0) + (int)((low - digits) & 15);
}

// Runs of spelled bytes to the text they are, or U+FFFD for each.
static bool step_byte_fallback(const struct qkv_decode_step *s, struct qkv_texts *out,
                               const struct qkv_texts *in)
{
    (void)s;
    for (int64_t i = 0; i < in->count;) {
        const int64_t from = out->used;
        int64_t next = i;
        for (; next < in->count; next++) {
            const int byte = spelled_byte(in->bytes + in->items[next].at, in->items[next].size);
            if (byte < 0) break;
            if (!write(out, &(char){ (char)byte }, 1)) return false;
        }
        if (next == i) {
            if (!write(out, in->bytes + in->items[i].at, in->items[i].size)) return false;
            if (!close_item(out, from)) return false;
            i++;
            continue;
        }
        bool valid = true;
        for (int64_t at = from; at < out->used && valid;) {
            uint32_t code;
            const int used =
                qkv_utf8_read((const uint8_t *)out->bytes + at, (size_t)(out->used - at), &code);
            valid = used > 0;
            at += used;
        }
        if (valid && !close_item(out, from)) return false;
        if (!valid) out->used = from;
        for (; !valid && i < next; i++) {
            const int64_t one = out->used;
            if (!write(out, "\xEF\xBF\xBD", 3) || !close_item(out, one)) return false;
        }
        i = next;
    }
    return true;
}

// The mark is a space; before the first text it was put there, unless the scheme is "never".
static bool step_metaspace(const struct qkv_decode_step *s, struct qkv_texts *out,
                           const struct qkv_texts *in)
{
    for (int64_t i = 0; i < in->count; i++) {
        const int64_t from = out->used;
        if (!replace(out, in->bytes + in->items[i].at, in->items[i].size, s->from,
                     i == 0 && s->prefixed ? "" : " "))
            return false;
        if (!close_item(out, from)) return false;
    }
    return true;
}

// The suffix that ends words is a space, at the end of all nothing.
static bool step_bpe(const struct qkv_decode_step *s, struct qkv_texts *out,
                     const struct qkv_texts *in)
{
    for (int64_t i = 0; i < in->count; i++) {
        const int64_t from = out->used;
        if (!replace(out, in->bytes + in->items[i].at, in->items[i].size, s->from,
                     i + 1 == in->count ? "" : " "))
            return false;
        if (!close_item(out, from)) return false;
    }
    return true;
}

// ---- reading -----------------------------------------------------------------------------------
static bool add(qkv_tokenizer *t, const struct qkv_json_at *at, struct qkv_decode_step step,
                const char *from, const char *to)
{
    struct qkv_decoder *d = &t->decoder;
    void *p = d->steps;
    step.from = qkv_copy_text(from, strlen(from));
    step.to = qkv_copy_text(to, strlen(to));
    const bool ok =
        step.from && step.to && qkv_reserve(&p, &d->capacity, d->count + 1, sizeof *d->steps);
    d->steps = p;
    if (!ok) {
        qkv_free(step.from);
        qkv_free(step.to);
        qkv_fail_memory(at->err, at->file);
        return false;
    }
    d->steps[d->count++] = step;
    return true;
}

bool qkv_decoder_wordpiece(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    struct qkv_decode_step s = { .run = step_wordpiece };
    const char *prefix = "##";
    if (!qkv_json_text(at, "prefix", true, &prefix)) return false;
    if (!qkv_json_bool(at, "cleanup", true, &s.cleanup)) return false;
    return add(t, at, s, prefix, "");
}

bool qkv_decoder_fuse(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return add(t, at, (struct qkv_decode_step){ .run = step_fuse }, "", "");
}

bool qkv_decoder_replace(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    const char *from = NULL, *to = NULL;
    if (!qkv_replace_read(at, &from, &to)) return false;
    return add(t, at, (struct qkv_decode_step){ .run = step_replace }, from, to);
}

bool qkv_decoder_strip(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    struct qkv_decode_step s = { .run = step_strip };
    const char *text = NULL;
    uint32_t code;
    if (!qkv_json_text(at, "content", true, &text)) return false;
    if (!text[0] ||
        (size_t)qkv_utf8_read((const uint8_t *)text, strlen(text), &code) != strlen(text))
        return qkv_text_fail(at, "content", QKV_ERR_FORMAT, "expected one character, found \"%s\"",
                             text);
    if (!qkv_json_int(at, "start", true, &s.start, 0, INT64_MAX)) return false;
    if (!qkv_json_int(at, "stop", true, &s.stop, 0, INT64_MAX)) return false;
    return add(t, at, s, text, "");
}

bool qkv_decoder_byte_level(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return add(t, at, (struct qkv_decode_step){ .run = step_byte_level }, "", "");
}

bool qkv_decoder_byte_fallback(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return add(t, at, (struct qkv_decode_step){ .run = step_byte_fallback }, "", "");
}

bool qkv_decoder_metaspace(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    struct qkv_decode_step s = { .run = step_metaspace };
    const char *mark = NULL;
    bool first, split;
    if (!qkv_prepend_scheme_read(at, &mark, &s.prefixed, &first, &split)) return false;
    return add(t, at, s, mark, "");
}

bool qkv_decoder_bpe(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    const char *suffix = NULL;
    if (!qkv_json_text(at, "suffix", true, &suffix)) return false;
    if (!suffix[0])
        return qkv_text_fail(at, "suffix", QKV_ERR_FORMAT, "an empty suffix, expected a text");
    return add(t, at, (struct qkv_decode_step){ .run = step_bpe }, suffix, "");
}

bool qkv_decoder_sequence(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return qkv_component_list(t, at, "decoders", qkv_decoder_read);
}

void qkv_decoder_free(struct qkv_decoder *d)
{
    for (int64_t i = 0; i < d->count; i++) {
        qkv_free(d->steps[i].from);
        qkv_free(d->steps[i].to);
    }
    qkv_free(d->steps);
    memset(d, 0, sizeof *d);
}

// ---- decoding ----------------------------------------------------------------------------------
static bool gather(const qkv_tokenizer *t, struct qkv_texts *x, const int32_t *ids, int64_t n,
                   bool skip)
{
    for (int64_t i = 0; i < n; i++) {
        const struct qkv_token *token = qkv_vocab_token(&t->vocab, ids[i]);
        if (!token || (skip && token->flags & QKV_TOKEN_SPECIAL)) continue;
        const int64_t from = x->used;
        if (t->decoder.count == 0 && x->count && !write(x, " ", 1))
            return false; // no decoder: spaced
        const char *text = t->vocab.pool + token->text;
        int64_t bytes = token->bytes;
        if (token->flags & QKV_TOKEN_ADDED) { // a normalised one is written as it was matched
            const struct qkv_added_token *a =
                &t->added.tokens[qkv_trie_find(&t->added.names, text, token->bytes)];
            text = t->added.pool + a->cooked;
            bytes = a->cooked_bytes;
        }
        if (!write(x, text, bytes) || !close_item(x, from)) return false;
    }
    return true;
}

qkv_status qkv_tokenizer_decode(const qkv_tokenizer *t, char *out, size_t size, size_t *need,
                                const int32_t *ids, int64_t n, bool skip_special, qkv_error *err)
{
    struct qkv_texts a = { 0 }, b = { 0 };
    if (need) *need = 0;
    if (out && size) out[0] = 0;
    if (!t || n < 0 || (!ids && n) || (!out && size))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "decode: expected a tokenizer, ids and room for the text");
    bool ok = gather(t, &a, ids, n, skip_special);
    a.limit = b.limit =
        qkv_min64(a.used, INT64_MAX / QKV_GROWTH - QKV_GROWTH_MORE) * QKV_GROWTH + QKV_GROWTH_MORE;
    for (int64_t i = 0; i < t->decoder.count && ok; i++) {
        b.used = b.count = 0;
        ok = t->decoder.steps[i].run(&t->decoder.steps[i], &b, &a);
        const struct qkv_texts swap = a;
        a = b;
        b = swap;
    }
    if (ok) {
        if (need) *need = (size_t)a.used;
        size_t fit = (size_t)a.used;
        if (size && fit > size - 1) {
            fit = size - 1;
            while (fit && (a.bytes[fit] & 0xC0) == 0x80) fit--; // at a character
        }
        if (size && fit) memcpy(out, a.bytes, fit);
        if (size) out[fit] = 0;
    }
    texts_free(&a);
    texts_free(&b);
    return ok ? QKV_OK : qkv_fail_memory(err, NULL);
}
