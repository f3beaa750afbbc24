// SPDX-License-Identifier: MIT
// encode_text.c: encodes a text in one pass through normalizer, pre-tokenizer and model.
//
// ASCII characters are normalized and split by two tables, directly from the text into the word
// under construction.  Other text is normalized in stretches.  A stretch ends where normalization
// does not join or exchange characters across its end, so that memory does not grow with the text;
// only a normalizer that needs the complete text (Strip, Replace, Prepend) or a normalized added
// token requires the whole text at once.
//
// Steps of a pre-tokenizer (pretokenize_steps.c) split a stretch after its normalization.  A
// byte-level tokenizer without a normalizer copies nothing: its words are substrings of the text.
#include "text/text_internal.h"
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

// A stretch that has this many characters ends at the next letter that does not join with a
// preceding character.
enum { STRETCH = 4096 };
// If all tokens of a model are single characters, a word need not be complete: after this number of
// bytes the model receives the part of the word that has been read.
enum { ENOUGH = 1024 };

// A word under construction: its UTF-8 bytes and, for each byte, the byte offsets of its character
// in the original text.
struct word {
    uint8_t *bytes;
    int64_t *begin, *end;
    int64_t length, capacity;
    int64_t chars;       // counts on after `limit`, when no more bytes are stored
    int64_t limit;       // characters to store, 0: all
    int64_t first, last; // begin of the first character and end of the last, in the original text
};

struct encoder {
    const qkv_tokenizer *t;
    const struct qkv_encode_options *o;
    struct qkv_sink sink;
    struct word word;
    struct qkv_chars a, b;
    unsigned left; // class of the word's last character
    struct qkv_words words, spare;
    struct qkv_parts parts;
    bool found;    // normalized added tokens have already been separated
    int64_t start; // byte at which the text between two added tokens begins; 0 without languages
    qkv_error *err;
};

bool qkv_encoding_reserve(qkv_encoding *e, int64_t tokens)
{
    if (tokens <= e->capacity) return true;
    int64_t more = e->capacity > INT64_MAX / 2 ? tokens : qkv_max64(e->capacity * 2, tokens);
    if (more < 64) more = 64;
    struct {
        void **p;
        size_t size;
    } arrays[] = {
        { (void **)&e->ids, sizeof *e->ids },     { (void **)&e->types, sizeof *e->types },
        { (void **)&e->begin, sizeof *e->begin }, { (void **)&e->end, sizeof *e->end },
        { (void **)&e->text, sizeof *e->text },   { (void **)&e->attend, sizeof *e->attend }
    };
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        int64_t capacity = e->capacity; // an array that grew before a failure is larger: no harm
        void *p;
        memcpy(&p, arrays[i].p, sizeof p);
        if (!qkv_reserve(&p, &capacity, more, arrays[i].size)) return false;
        memcpy(arrays[i].p, &p, sizeof p);
    }
    e->capacity = more;
    return true;
}

void qkv_encoding_free(qkv_encoding *e)
{
    if (!e) return;
    qkv_free(e->ids);
    qkv_free(e->types);
    qkv_free(e->begin);
    qkv_free(e->end);
    qkv_free(e->text);
    qkv_free(e->attend);
    memset(e, 0, sizeof *e);
}

// ---- words -------------------------------------------------------------------------------------
static bool reserve_word(struct word *w)
{
    const int64_t more = w->capacity ? w->capacity * 2 : 512;
    int64_t have[3] = { w->capacity, w->capacity, w->capacity };
    void *bytes = w->bytes, *begin = w->begin, *end = w->end;
    const bool ok = qkv_reserve(&bytes, &have[0], more, 1);
    w->bytes = bytes;
    if (!ok || !qkv_reserve(&begin, &have[1], more, sizeof *w->begin)) return false;
    w->begin = begin;
    if (!qkv_reserve(&end, &have[2], more, sizeof *w->end)) return false;
    w->end = end;
    w->capacity = more;
    return true;
}

bool qkv_parts_grow(struct qkv_parts *p)
{
    void *at = p->at;
    const bool ok = qkv_reserve(&at, &p->capacity, p->capacity + 1, sizeof *p->at);
    p->at = at;
    return ok;
}

bool qkv_parts_reserve(struct qkv_parts *p, int64_t bytes)
{
    return qkv_reserve(&p->work, &p->work_bytes, bytes, 1);
}

// Writes the tokens of word[length] to x->parts.
static inline bool parts_of(struct encoder *x, const uint8_t *word, int64_t length, int64_t chars)
{
    const qkv_tokenizer *t = x->t;
    x->parts.dropped = 0;
    const bool known =
        t->cache && length <= QKV_CACHE_WORD && !(t->word_limit && chars > t->word_limit);
    if (known && qkv_word_cache_get(t->cache, word, length, &x->parts)) return true;
    x->parts.count = 0;
    if (!t->kind->word(t, &x->parts, word, length, chars)) return false;
    if (known && !x->parts.dropped) qkv_word_cache_put(t->cache, word, length, &x->parts);
    return true;
}

// Counts the characters of the word that x->parts leaves out; the word begins at byte `at`.
static inline void count_dropped(struct encoder *x, int64_t at)
{
    if (x->parts.dropped && !x->sink.e->dropped) x->sink.e->dropped_at = at;
    x->sink.e->dropped += x->parts.dropped;
}

// Appends x->parts, the tokens of a word, to the encoding.  begin and end are the offsets in the
// text of the bytes of the word; a token that ends with the word ends at `last`.
static bool put_parts(struct encoder *x, const int64_t *begin, const int64_t *end, int64_t length,
                      int64_t last)
{
    count_dropped(x, begin[0]);
    for (int64_t i = 0; i < x->parts.count; i++) {
        const struct qkv_part *p = &x->parts.at[i];
        const int64_t from = begin[qkv_min64(p->begin, length - 1)];
        const int64_t to = p->end >= length ? last : end[p->end - 1];
        if (!qkv_sink_add(&x->sink, p->id, from, to)) return false;
    }
    return true;
}

static bool flush_word(struct encoder *x)
{
    struct word *w = &x->word;
    if (!w->chars) return true;
    const bool ok = parts_of(x, w->bytes, w->length, w->chars) &&
                    put_parts(x, w->begin, w->end, w->length, w->last);
    w->length = w->chars = 0;
    return ok;
}

static inline bool push_character(struct encoder *x, uint32_t code, unsigned class, int64_t begin,
                                  int64_t end)
{
    struct word *w = &x->word;
    if (class & x->t->masks.drop) return flush_word(x);
    if (w->chars && qkv_word_masks_cut(&x->t->masks, x->left, class) && !flush_word(x))
        return false;
    if (x->t->cut_anywhere && w->length >= ENOUGH && !flush_word(x)) return false;
    x->left = class;
    if (!w->chars++) w->first = begin;
    w->last = end;
    if (w->limit && w->chars > w->limit) return true; // the model does not read its text
    if (w->length + 4 > w->capacity && !reserve_word(w)) return false;
    const int n = code < 0x80 ? (w->bytes[w->length] = (uint8_t)code, 1)
                              : qkv_utf8_write(w->bytes + w->length, code);
    for (int i = 0; i < n; i++) {
        w->begin[w->length] = begin;
        w->end[w->length++] = end;
    }
    return true;
}

static int64_t count_chars(const uint8_t *text, int64_t n)
{
    int64_t chars = 0;
    for (int64_t i = 0; i < n; i++) chars += !qkv_utf8_continues(text[i]);
    return chars;
}

// Splits the characters [from, to) of x->a into words by the steps of the pre-tokenizer, and
// encodes the words.
static bool push_words(struct encoder *x, int64_t from, int64_t to)
{
    struct qkv_words *w = &x->words;
    w->length = w->count = 0;
    for (int64_t i = from; i < to; i++) {
        const struct qkv_char c = x->a.at[i];
        uint8_t bytes[4];
        const int n = qkv_utf8_write(bytes, c.code);
        if (!qkv_words_put(w, bytes, n, c.begin, c.begin + c.size)) return false;
    }
    if (!qkv_words_cut(w, 0, w->length) ||
        !qkv_pre_tokenizer_run(&x->t->pre_tokenizer, w, &x->spare))
        return false;
    for (int64_t i = 0; i < w->count; i++) {
        const int64_t at = w->cuts[i].begin, n = w->cuts[i].end - at;
        const int64_t chars = x->t->word_limit ? count_chars(w->bytes + at, n) : n;
        if (!parts_of(x, w->bytes + at, n, qkv_min64(chars, n)) ||
            !put_parts(x, w->begin + at, w->end + at, n, w->end[w->cuts[i].end - 1]))
            return false;
    }
    return true;
}

static bool push_chars(struct encoder *x, int64_t from, int64_t to)
{
    const struct qkv_word_masks *s = &x->t->masks;
    if (x->t->pre_tokenizer.count) return push_words(x, from, to);
    for (int64_t i = from; i < to; i++) {
        const struct qkv_char c = x->a.at[i];
        const unsigned class =
            c.code < 0x80 ? s->ascii[c.code] : qkv_unicode_class(c.code, s->used);
        if (!push_character(x, c.code, class, c.begin, c.begin + c.size)) return false;
    }
    return true;
}

// ---- stretches that are not plain ASCII --------------------------------------------------------
static qkv_status replace_invalid(struct encoder *x, int64_t at)
{
    qkv_encoding *e = x->sink.e;
    if (!e->replaced++) e->replaced_at = at;
    if (!x->o->strict) return QKV_OK;
    return qkv_fail(
        x->err, QKV_ERR_FORMAT, &(struct qkv_location){ .has_offset = true, .offset = at },
        "text%s is not valid UTF-8, expected a character, found an invalid sequence of bytes",
        x->sink.which ? " B" : "");
}

// Encodes x->a, normalized characters that may contain added tokens.
static bool push_normalized(struct encoder *x)
{
    if (!x->t->added.any_normalized || x->found)
        return push_chars(x, 0, x->a.count) && flush_word(x);
    struct qkv_added_walk w = { .added = &x->t->added,
                                .trie = &x->t->added.normalized,
                                .chars = x->a.at,
                                .n = x->a.count,
                                .no_special = x->o->no_special };
    for (struct qkv_added_match f; qkv_added_next(&w, &f);) {
        if (f.token < 0) {
            if (!push_chars(x, f.begin, f.end) || !flush_word(x)) return false;
        } else {
            const struct qkv_char *first = &x->a.at[f.begin], *last = &x->a.at[f.end - 1];
            if (f.end > f.begin && !qkv_sink_add(&x->sink, x->t->added.tokens[f.token].id,
                                                 first->begin, last->begin + last->size))
                return false;
        }
    }
    return flush_word(x);
}

// The normalization of one character, if it does not depend on its neighbors, in 64 bits:
//   bits 0-20 the character, 21-41 the result, 42-49 the class of the result, 50-51 one of
enum {
    UNKNOWN, // the slot is empty
    APART,   // one character
    SPACED,  // one character, with word boundaries on both sides
    BOUND    // joins with or moves past its neighbors: must be normalized with them
};
#define MEMO(code, to, class, kind)                                                                \
    ((uint64_t)(code) | (uint64_t)(to) << 21 | (uint64_t)(class) << 42 | (uint64_t)(kind) << 50)

static bool normalize_alone(struct encoder *x, uint32_t code, uint64_t *out)
{
    const struct qkv_word_masks *split = &x->t->masks;
    struct qkv_chars a = { 0 }, b = { 0 };
    int kind = BOUND;
    uint32_t to = 0;
    const bool ok = qkv_chars_add(&a, code, 0, 0) && qkv_normalize(&x->t->normalizer, &a, &b);
    bool starters = true;
    for (int64_t i = 0; ok && i < a.count; i++)
        starters = starters && qkv_unicode_ccc(a.at[i].code) == 0;
    if (ok && starters && a.count == 1) {
        kind = APART;
        to = a.at[0].code;
    } else if (ok && starters && a.count == 3 && a.at[0].code == ' ' && a.at[2].code == ' ' &&
               split->ascii[' '] & split->drop) {
        kind = SPACED;
        to = a.at[1].code;
    }
    if (ok)
        *out =
            MEMO(code, to, to < 0x80 ? split->ascii[to] : qkv_unicode_class(to, split->used), kind);
    qkv_free(a.at);
    qkv_free(b.at);
    return ok;
}

// Writes the normalization of the character `code` to *out: the cached value, or on first use the
// computed value.  Returns false if memory is exhausted.
static bool recall(struct encoder *x, uint32_t code, uint64_t *out)
{
    _Atomic uint64_t *slot = &x->t->normalizer.memo[(code * 0x9E3779B1u) >> (32 - QKV_MEMO_BITS)];
    *out = atomic_load_explicit(slot, memory_order_relaxed);
    if ((*out & 0x1FFFFF) == code) return true; // 0 is never looked up
    if (!normalize_alone(x, code, out)) return false;
    atomic_store_explicit(slot, *out, memory_order_relaxed);
    return true;
}

static inline int memo_kind(uint64_t m)
{
    return (int)(m >> 50 & 3);
}

// Encodes the character at text[*at] if it can be normalized alone; otherwise *taken becomes false.
// Returns false if memory is exhausted.
static bool encode_alone(struct encoder *x, const uint8_t *text, int64_t *at, int64_t end,
                         bool *taken)
{
    uint32_t code;
    uint64_t m;
    *taken = false;
    const int n = qkv_utf8_read(text + *at, (size_t)(end - *at), &code);
    if (n < 0) return true;
    if (!recall(x, code, &m)) return false;
    if (memo_kind(m) == BOUND) return true;
    const int64_t begin = *at;
    *taken = true;
    *at += n;
    if (memo_kind(m) == SPACED && !flush_word(x)) return false;
    if (!push_character(x, (uint32_t)(m >> 21 & 0x1FFFFF), (unsigned)(m >> 42 & 0xFF), begin, *at))
        return false;
    return memo_kind(m) != SPACED || flush_word(x);
}

// Encodes a stretch of text: from *at to the next position where the text can be cut, at most to
// `end`.
static qkv_status encode_stretch(struct encoder *x, const uint8_t *text, int64_t *at, int64_t end,
                                 bool whole)
{
    const uint8_t *ascii = x->t->normalizer.ascii;
    int64_t i = *at;
    x->a.count = 0;
    while (i < end) {
        uint32_t code;
        const int n = qkv_utf8_read(text + i, (size_t)(end - i), &code);
        if (!whole && x->a.count) {
            if (code < 0x80 && ascii[code] != QKV_ASCII_REMOVED) break;
            uint64_t m;
            if (x->t->normalizer.memo && code >= 0x80 && n > 0) {
                if (!recall(x, code, &m)) return qkv_fail_memory(x->err, NULL);
                if (memo_kind(m) != BOUND) break;
            }
            if (x->a.count >= STRETCH && n > 0 && qkv_unicode_apart(code)) break;
        }
        const int size = n < 0 ? -n : n;
        if (n < 0) {
            const qkv_status status = replace_invalid(x, i);
            if (status) return status;
        }
        if (!qkv_chars_add(&x->a, code, i, (uint32_t)size)) return qkv_fail_memory(x->err, NULL);
        i += size;
    }
    *at = i;
    if (!qkv_normalize(&x->t->normalizer, &x->a, &x->b)) return qkv_fail_memory(x->err, NULL);
    const bool ok = whole ? push_normalized(x) : push_chars(x, 0, x->a.count);
    return ok ? QKV_OK : qkv_fail_memory(x->err, NULL);
}

// ---- texts that the steps of the pre-tokenizer split -------------------------------------------
static bool is_valid(const uint8_t *text, int64_t n)
{
    for (int64_t i = 0; i < n;) {
        uint64_t eight;
        if (n - i >= 8) {
            memcpy(&eight, text + i, 8);
            if (!(eight & 0x8080808080808080u)) {
                i += 8;
                continue;
            }
        }
        uint32_t code;
        const int used = qkv_utf8_read(text + i, (size_t)(n - i), &code);
        if (used < 0) return false;
        i += used;
    }
    return true;
}

// Returns the first position after `at` that no word extends across, for a pre-tokenizer with the
// flag `cuttable`.
static int64_t cut_after(const uint8_t *text, int64_t at, int64_t end)
{
    for (int64_t i = at + 1; i < end; i++) {
        const uint8_t b = text[i - 1];
        const bool word = (uint8_t)((b | 32) - 'a') < 26 || (uint8_t)(b - '0') < 10;
        if (word && text[i] == ' ') return i;
    }
    return end;
}

static qkv_status normalized_words(struct encoder *x, const uint8_t *text, int64_t at, int64_t end)
{
    const bool cuts = x->t->pre_tokenizer.cuttable && !x->t->normalizer.uncut &&
                      (x->found || !x->t->added.any_normalized);
    while (at < end) {
        const int64_t to = cuts && end - at > STRETCH ? cut_after(text, at + STRETCH, end) : end;
        x->a.begins = at == x->start;
        x->a.ends = to == end;
        const qkv_status status = encode_stretch(x, text, &at, to, true);
        if (status) return status;
    }
    return QKV_OK;
}

// Encodes the word text[at .. to); the offsets of a token that begins or ends inside a character
// include the whole character.
static bool encode_plain_word(struct encoder *x, const uint8_t *text, int64_t at, int64_t to)
{
    if (!parts_of(x, text + at, to - at, to - at)) return false;
    count_dropped(x, at);
    for (int64_t i = 0; i < x->parts.count; i++) {
        const struct qkv_part *p = &x->parts.at[i];
        int64_t from = at + p->begin, till = at + p->end;
        while (qkv_utf8_continues(text[from])) from--;
        while (till < to && qkv_utf8_continues(text[till])) till++;
        if (!qkv_sink_add(&x->sink, p->id, from, till)) return false;
    }
    return true;
}

// Encodes the words of a tokenizer whose words are substrings of the text.
static bool encode_plain_words(struct encoder *x, const uint8_t *text, int64_t at, int64_t end)
{
    const struct qkv_pre_tokenizer *s = &x->t->pre_tokenizer;
    while (at < end) {
        int64_t begin = at;
        const int64_t to = s->plain(text, &begin, end);
        if (begin > at && s->plain_gaps && !encode_plain_word(x, text, at, begin)) return false;
        if (begin < to && !encode_plain_word(x, text, begin, to)) return false;
        at = to;
    }
    return true;
}

// Encodes valid UTF-8 that no normalizer changes.
static qkv_status encode_unchanged(struct encoder *x, const uint8_t *text, int64_t at, int64_t end)
{
    if (x->t->pre_tokenizer.plain && x->t->pre_tokenizer.at[x->t->pre_tokenizer.count - 1].prefix &&
        at < end && text[at] != ' ') {
        const int64_t to = cut_after(text, at, end);
        const qkv_status status = normalized_words(x, text, at, to);
        if (status) return status;
        at = to;
    }
    if (!x->t->pre_tokenizer.plain) return normalized_words(x, text, at, end);
    return encode_plain_words(x, text, at, end) ? QKV_OK : qkv_fail_memory(x->err, NULL);
}

static qkv_status encode_steps(struct encoder *x, const uint8_t *text, int64_t at, int64_t end)
{
    const struct qkv_added *added = &x->t->added;
    if (x->t->normalizer.count || !is_valid(text + at, end - at))
        return normalized_words(x, text, at, end);
    struct qkv_added_walk w = { .added = added,
                                .trie = added->any_normalized ? &added->normalized : NULL,
                                .bytes = text + at,
                                .n = end - at,
                                .no_special = x->o->no_special };
    for (struct qkv_added_match f; qkv_added_next(&w, &f);) {
        if (f.token < 0) {
            x->found = true;
            const qkv_status status = encode_unchanged(x, text, at + f.begin, at + f.end);
            x->found = false;
            if (status) return status;
        } else if (f.end > f.begin &&
                   !qkv_sink_add(&x->sink, added->tokens[f.token].id, at + f.begin, at + f.end)) {
            return qkv_fail_memory(x->err, NULL);
        }
    }
    return QKV_OK;
}

// Encodes the text between two added tokens.
static qkv_status encode_between(struct encoder *x, const uint8_t *text, int64_t at, int64_t end)
{
    const struct qkv_normalizer *n = &x->t->normalizer;
    const struct qkv_word_masks *split = &x->t->masks;
    if (x->t->pre_tokenizer.count) return encode_steps(x, text, at, end);
    if (n->whole || x->t->added.any_normalized) return encode_stretch(x, text, &at, end, true);
    while (at < end) {
        const uint8_t b = text[at];
        const uint8_t m = b < 0x80 ? n->ascii[b] : QKV_ASCII_SLOW;
        bool slow = m == QKV_ASCII_SLOW;
        if (n->composes && at + 1 < end)
            slow = slow || text[at + 1] >= 0x80 || n->ascii[text[at + 1]] == QKV_ASCII_REMOVED;
        if (b >= 0x80 && n->memo) {
            bool taken;
            if (!encode_alone(x, text, &at, end, &taken)) return qkv_fail_memory(x->err, NULL);
            if (taken) continue;
        }
        if (slow) {
            const qkv_status status = encode_stretch(x, text, &at, end, false);
            if (status) return status;
            continue;
        }
        if (m < 0x80 && !push_character(x, m, split->ascii[m], at, at + 1))
            return qkv_fail_memory(x->err, NULL);
        at++;
    }
    return flush_word(x) ? QKV_OK : qkv_fail_memory(x->err, NULL);
}

static qkv_status encode_one(struct encoder *x, const char *text, size_t bytes)
{
    const struct qkv_added *added = &x->t->added;
    struct qkv_added_walk w = { .added = added,
                                .trie = added->any_raw ? &added->raw : NULL,
                                .bytes = (const uint8_t *)text,
                                .n = (int64_t)bytes,
                                .no_special = x->o->no_special };
    for (struct qkv_added_match f; qkv_added_next(&w, &f);) {
        if (f.token < 0) {
            x->start = added->languages ? f.begin : 0;
            const qkv_status status = encode_between(x, w.bytes, f.begin, f.end);
            if (status) return status;
        } else if (f.end > f.begin &&
                   !qkv_sink_add(&x->sink, added->tokens[f.token].id, f.begin, f.end)) {
            return qkv_fail_memory(x->err, NULL);
        }
    }
    const qkv_encoding *e = x->sink.e;
    if (!x->o->strict || !e->dropped) return QKV_OK;
    return qkv_fail(
        x->err, QKV_ERR_FORMAT,
        &(struct qkv_location){ .has_offset = true, .offset = e->dropped_at },
        "text%s has characters without a token, expected an unknown token or characters of the "
        "vocabulary, found %" PRId64 " other ones, the first in the word at this byte",
        x->sink.which ? " B" : "", e->dropped);
}

qkv_status qkv_tokenizer_encode(const qkv_tokenizer *t, qkv_encoding *e, const char *text,
                                size_t bytes, const char *pair, size_t pair_bytes,
                                const struct qkv_encode_options *o, qkv_error *err)
{
    static const struct qkv_encode_options plain = { 0 };
    if (!t || !e || (!text && bytes) || (o && o->max_length < 0) || bytes > INT64_MAX / 2 ||
        pair_bytes > INT64_MAX / 2)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_tokenizer_encode: expected a tokenizer, an encoding, a text and "
                        "max_length >= 0, found NULL or a negative max_length");
    if (!o) o = &plain;
    e->count = e->cut = e->replaced = e->replaced_at = e->dropped = e->dropped_at = 0;
    struct qkv_effort effort =
        qkv_effort_for((int64_t)(bytes + (pair ? pair_bytes : 0)), t->file, err);
    struct encoder x = { .t = t,
                         .o = o,
                         .sink = { .e = e },
                         .word.limit = t->word_limit,
                         .a.effort = &effort,
                         .b.effort = &effort,
                         .words.effort = &effort,
                         .spare.effort = &effort,
                         .err = err };
    const struct qkv_template *p = pair ? &t->post.two : &t->post.one;
    struct qkv_template_layout l;
    qkv_template_layout_init(&l, p, o->no_special || o->no_template);
    qkv_status status = QKV_OK;
    for (int i = 0; i < l.texts && !status; i++) {
        const int64_t from = e->count + l.specials[i];
        if (!qkv_encoding_reserve(e, from)) {
            status = qkv_fail_memory(err, NULL);
            break;
        }
        e->count = from;
        x.sink.which = l.which[i];
        x.sink.type = l.type[i];
        l.text[i] = (const uint8_t *)(l.which[i] ? pair : text ? text : "");
        l.bytes[i] = (int64_t)(l.which[i] ? pair_bytes : bytes);
        status =
            l.which[i] ? encode_one(&x, pair, pair_bytes) : encode_one(&x, text ? text : "", bytes);
        l.count[i] = e->count - from;
    }
    if (!status) status = qkv_template_apply(t, e, p, &l, o, err);
    if (status) e->count = 0;
    qkv_free(x.word.bytes);
    qkv_free(x.word.begin);
    qkv_free(x.word.end);
    qkv_free(x.a.at);
    qkv_free(x.b.at);
    qkv_words_free(&x.words);
    qkv_words_free(&x.spare);
    qkv_free(x.parts.at);
    qkv_free(x.parts.work);
    return status;
}
