// SPDX-License-Identifier: MIT
// pretokenize_steps.c: runs pre-tokenizers one after the other over a piece of text and its words.
//
// Masks (pretokenize_masks.c) look at two neighboring characters.  The steps here match a pattern,
// search for a text, put a character before a word, or replace characters.  A tokenizer that has
// only masks never calls this file.
#define _GNU_SOURCE // memmem
#include "text/text_internal.h"
#include <stdio.h>
#include <string.h>

// ---- words -------------------------------------------------------------------------------------
bool qkv_words_put(struct qkv_words *w, const uint8_t *bytes, int n, int64_t begin, int64_t end)
{
    if (w->length + n > w->capacity) {
        const int64_t more = qkv_max64(w->capacity * 2, 512);
        int64_t have[3] = { w->capacity, w->capacity, w->capacity };
        void *b = w->bytes, *from = w->begin, *to = w->end;
        const bool first = qkv_reserve(&b, &have[0], more, 1);
        w->bytes = b;
        const bool second = first && qkv_reserve(&from, &have[1], more, sizeof *w->begin);
        w->begin = from;
        const bool third = second && qkv_reserve(&to, &have[2], more, sizeof *w->end);
        w->end = to;
        if (!third) return false;
        w->capacity = more;
    }
    for (int i = 0; i < n; i++) {
        w->bytes[w->length] = bytes[i];
        w->begin[w->length] = begin;
        w->end[w->length++] = end;
    }
    return true;
}

bool qkv_words_cut(struct qkv_words *w, int64_t begin, int64_t end)
{
    if (begin >= end) return true;
    void *p = w->cuts;
    if (!qkv_reserve(&p, &w->cut_capacity, w->count + 1, sizeof *w->cuts)) return false;
    w->cuts = p;
    w->cuts[w->count++] = (struct qkv_range){ begin, end };
    return true;
}

void qkv_words_free(struct qkv_words *w)
{
    qkv_free(w->bytes);
    qkv_free(w->begin);
    qkv_free(w->end);
    qkv_free(w->cuts);
    memset(w, 0, sizeof *w);
}

static int char_bytes(const struct qkv_words *w, int64_t at, int64_t end, uint32_t *code)
{
    const int n = qkv_utf8_read(w->bytes + at, (size_t)(end - at), code);
    return n < 0 ? -n : n;
}

static bool copy_range(struct qkv_words *out, const struct qkv_words *in, int64_t at, int64_t end)
{
    for (; at < end; at++)
        if (!qkv_words_put(out, in->bytes + at, 1, in->begin[at], in->end[at])) return false;
    return true;
}

static bool starts_with(const struct qkv_words *w, struct qkv_range c, const char *text, size_t n)
{
    return c.end - c.begin >= (int64_t)n && memcmp(w->bytes + c.begin, text, n) == 0;
}

// ---- matches, and how they become words --------------------------------------------------------
// Collects ranges (matches and the text between them) in order; the last range is pending until the
// next range is known.
struct ranges {
    struct qkv_words *out;
    enum qkv_behavior behavior;
    int64_t begin, end;
    bool pending, match, last;
};

static bool flush_range(struct ranges *s)
{
    const bool pending = s->pending;
    s->pending = false;
    return !pending || qkv_words_cut(s->out, s->begin, s->end);
}

static bool add_range(struct ranges *s, int64_t begin, int64_t end, bool match)
{
    const bool last = s->last; // of the preceding range; at the start: not a match
    bool joins = false;
    s->last = match;
    switch (s->behavior) {
    case QKV_REMOVED: return match || qkv_words_cut(s->out, begin, end);
    case QKV_ISOLATED: return qkv_words_cut(s->out, begin, end);
    case QKV_CONTIGUOUS: joins = s->pending && match == last; break;
    case QKV_MERGED_WITH_PREVIOUS: joins = s->pending && match && !last; break;
    case QKV_MERGED_WITH_NEXT:
        if (s->pending && s->match && !match) {
            s->end = end;
            return flush_range(s);
        }
        break;
    }
    if (joins) {
        s->end = end;
        return true;
    }
    if (!flush_range(s)) return false;
    s->begin = begin;
    s->end = end;
    s->match = match;
    return s->pending = true;
}

// Collects the matches of a pattern in one word and the ranges of text between them.
static bool split_matches(struct ranges *s, const struct qkv_pre_tokenizer_step *step,
                          struct qkv_matches *m, const struct qkv_words *in, struct qkv_range c)
{
    int64_t plain = 0, begin, end;
    int found;
    qkv_matches_text(m, in->bytes + c.begin, c.end - c.begin);
    while ((found = qkv_matches_next(m, &begin, &end)) > 0) {
        if (plain < begin && !add_range(s, c.begin + plain, c.begin + begin, step->invert))
            return false;
        if (!add_range(s, c.begin + begin, c.begin + end, !step->invert)) return false;
        plain = end;
    }
    if (found < 0) return false;
    return c.begin + plain == c.end || add_range(s, c.begin + plain, c.end, step->invert);
}

// Collects the occurrences of the text step->text in one word; an empty text occurs between all
// characters.
static bool split_text(struct ranges *s, const struct qkv_pre_tokenizer_step *step,
                       const struct qkv_words *in, struct qkv_range c)
{
    const int64_t n = (int64_t)step->bytes;
    int64_t plain = c.begin;
    for (int64_t at = c.begin; at + n <= c.end;) {
        if (n) {
            const uint8_t *found =
                memmem(in->bytes + at, (size_t)(c.end - at), step->text, step->bytes);
            if (!found) break;
            at = found - in->bytes;
        }
        if (plain != at && !add_range(s, plain, at, step->invert)) return false;
        if (!add_range(s, at, at + n, !step->invert)) return false;
        plain = at + n;
        if (n == 0 && at == c.end) break;
        uint32_t code;
        at += n ? n : char_bytes(in, at, c.end, &code);
    }
    return plain == c.end || add_range(s, plain, c.end, step->invert);
}

static bool run_split(const struct qkv_pre_tokenizer_step *step, struct qkv_words *out,
                      const struct qkv_words *in, bool *rewrote)
{
    const bool regex = qkv_expression_any(&step->expression);
    struct qkv_matches m = { 0 };
    bool ok = !regex || qkv_matches_open(&m, &step->expression, in->length, in->effort);
    *rewrote = false;
    for (int64_t i = 0; i < in->count && ok; i++) {
        struct ranges s = { .out = out, .behavior = step->behavior };
        ok = (regex ? split_matches(&s, step, &m, in, in->cuts[i])
                    : split_text(&s, step, in, in->cuts[i])) &&
             flush_range(&s);
    }
    qkv_matches_close(&m);
    return ok;
}

// ---- the other steps ---------------------------------------------------------------------------
static bool run_masks(const struct qkv_pre_tokenizer_step *step, struct qkv_words *out,
                      const struct qkv_words *in, bool *rewrote)
{
    const struct qkv_word_masks *m = &step->masks;
    *rewrote = false;
    for (int64_t i = 0; i < in->count; i++) {
        const struct qkv_range c = in->cuts[i];
        int64_t begin = c.begin;
        unsigned left = 0;
        for (int64_t at = c.begin; at < c.end;) {
            uint32_t code;
            const int n = char_bytes(in, at, c.end, &code);
            const unsigned class = code < 0x80 ? m->ascii[code] : qkv_unicode_class(code, m->used);
            if (class & m->drop || (begin < at && qkv_word_masks_cut(m, left, class))) {
                if (!qkv_words_cut(out, begin, at)) return false;
                begin = class & m->drop ? at + n : at;
            }
            left = class;
            at += n;
        }
        if (!qkv_words_cut(out, begin, c.end)) return false;
    }
    return true;
}

static bool cut_by_pattern(const struct qkv_pre_tokenizer_step *step, struct qkv_words *out,
                           const uint8_t *bytes, int64_t at, int64_t end)
{
    if (!step->expression.known) return qkv_words_cut(out, at, end);
    while (at < end) {
        const int64_t to = step->expression.known(bytes, &at, end);
        if (!qkv_words_cut(out, at, to)) return false;
        at = to;
    }
    return true;
}

// Splits words as ByteLevel does; a leading space that it inserts has the offsets of the first
// character.
static bool run_bytes(const struct qkv_pre_tokenizer_step *step, struct qkv_words *out,
                      const struct qkv_words *in, bool *rewrote)
{
    *rewrote = step->prefix;
    for (int64_t i = 0; i < in->count; i++) {
        const struct qkv_range c = in->cuts[i];
        if (!step->prefix) {
            if (!cut_by_pattern(step, out, in->bytes, c.begin, c.end)) return false;
            continue;
        }
        const int64_t from = out->length;
        if (!starts_with(in, c, " ", 1) &&
            !qkv_words_put(out, (const uint8_t *)" ", 1, in->begin[c.begin], in->end[c.begin]))
            return false;
        if (!copy_range(out, in, c.begin, c.end)) return false;
        if (!cut_by_pattern(step, out, out->bytes, from, out->length)) return false;
    }
    return true;
}

static bool run_meta(const struct qkv_pre_tokenizer_step *step, struct qkv_words *out,
                     const struct qkv_words *in, bool *rewrote)
{
    const uint8_t *mark = (const uint8_t *)step->text;
    const int n = (int)step->bytes;
    *rewrote = true;
    for (int64_t i = 0; i < in->count; i++) {
        const struct qkv_range c = in->cuts[i];
        int64_t from = out->length;
        if (step->prefix && !starts_with(in, c, " ", 1) &&
            !starts_with(in, c, step->text, step->bytes) &&
            (!step->prefix_first || in->begin[c.begin] == 0) &&
            !qkv_words_put(out, mark, n, in->begin[c.begin], in->end[c.begin]))
            return false;
        for (int64_t at = c.begin; at < c.end;) {
            uint32_t code;
            const int size = char_bytes(in, at, c.end, &code);
            const bool space = code == ' ';
            const uint8_t *p = space ? mark : in->bytes + at;
            if (step->cuts && (space || (size == n && memcmp(p, mark, (size_t)n) == 0))) {
                if (!qkv_words_cut(out, from, out->length)) return false;
                from = out->length;
            }
            if (!qkv_words_put(out, p, space ? n : size, in->begin[at], in->end[at])) return false;
            at += size;
        }
        if (!qkv_words_cut(out, from, out->length)) return false;
    }
    return true;
}

// Replaces each byte by the character that represents it in byte-level vocabularies.
static bool map_bytes(struct qkv_words *out, const struct qkv_words *in)
{
    for (int64_t i = 0; i < in->count; i++) {
        const int64_t from = out->length;
        for (int64_t at = in->cuts[i].begin; at < in->cuts[i].end; at++) {
            uint8_t p[4];
            const int n = qkv_utf8_write(p, qkv_byte_char[in->bytes[at]]);
            if (!qkv_words_put(out, p, n, in->begin[at], in->end[at])) return false;
        }
        if (!qkv_words_cut(out, from, out->length)) return false;
    }
    return true;
}

// Exchanges *w with *to, the result of the last step.  If that step rewrote no text, only the lists
// of words are exchanged.
static void exchange_words(struct qkv_words *w, struct qkv_words *to, bool rewrote)
{
    struct qkv_words old = *w;
    if (rewrote) {
        *w = *to;
        *to = old;
        return;
    }
    w->cuts = to->cuts;
    w->count = to->count;
    w->cut_capacity = to->cut_capacity;
    to->cuts = old.cuts;
    to->cut_capacity = old.cut_capacity;
}

bool qkv_pre_tokenizer_run(const struct qkv_pre_tokenizer *s, struct qkv_words *w,
                           struct qkv_words *spare)
{
    for (int64_t i = 0; i < s->count; i++) {
        bool rewrote;
        spare->length = spare->count = 0;
        if (!s->at[i].run(&s->at[i], spare, w, &rewrote)) return false;
        exchange_words(w, spare, rewrote);
        if (!s->at[i].mapped) continue;
        spare->length = spare->count = 0;
        if (!map_bytes(spare, w)) return false;
        exchange_words(w, spare, true);
    }
    return true;
}

void qkv_pre_tokenizer_free(struct qkv_pre_tokenizer *s)
{
    for (int64_t i = 0; i < s->count; i++) {
        qkv_expression_free(&s->at[i].expression);
        qkv_free(s->at[i].text);
    }
    qkv_free(s->at);
    memset(s, 0, sizeof *s);
}

// ---- reading -----------------------------------------------------------------------------------
static bool append_step(qkv_tokenizer *t, const struct qkv_json_at *at,
                        struct qkv_pre_tokenizer_step step, const char *text)
{
    void *p = t->pre_tokenizer.at;
    step.bytes = strlen(text);
    step.text = qkv_copy_text(text, step.bytes);
    const bool ok = step.text && qkv_reserve(&p, &t->pre_tokenizer.capacity,
                                             t->pre_tokenizer.count + 1, sizeof step);
    t->pre_tokenizer.at = p;
    if (!ok) {
        qkv_expression_free(&step.expression);
        qkv_free(step.text);
        qkv_fail_memory(at->err, at->file);
        return false;
    }
    t->pre_tokenizer.at[t->pre_tokenizer.count++] = step;
    return true;
}

static bool append_masks(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return append_step(
        t, at,
        (struct qkv_pre_tokenizer_step){
            .run = run_masks, .kind = QKV_PRE_TOKENIZER_MASKS, .masks = t->masks, .cuts = true },
        "");
}

bool qkv_pre_tokenizer_add(qkv_tokenizer *t, const struct qkv_json_at *at,
                           struct qkv_pre_tokenizer_step step, const char *text)
{
    const struct qkv_word_masks *m = &t->masks;
    const bool any = m->drop | m->alone | m->change | m->after | m->before;
    if (!t->pre_tokenizer.count && any) {
        if (!append_masks(t, at)) {
            qkv_expression_free(&step.expression);
            return false;
        }
        memset(&t->masks, 0, sizeof t->masks);
    }
    return append_step(t, at, step, text);
}

struct qkv_word_masks *qkv_pre_tokenizer_masks(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    struct qkv_pre_tokenizer *s = &t->pre_tokenizer;
    if (!s->count) return &t->masks;
    if (s->at[s->count - 1].kind != QKV_PRE_TOKENIZER_MASKS &&
        !qkv_pre_tokenizer_add(
            t, at,
            (struct qkv_pre_tokenizer_step){ .run = run_masks, .kind = QKV_PRE_TOKENIZER_MASKS },
            ""))
        return NULL;
    return &s->at[s->count - 1].masks;
}

bool qkv_pre_tokenizer_byte_level(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    bool regex = true, trim;
    struct qkv_pre_tokenizer_step s = { .run = run_bytes, .kind = QKV_PRE_TOKENIZER_BYTES };
    if (!qkv_json_bool(at, "add_prefix_space", true, &s.prefix)) return false;
    // trim_offsets has an effect only in the post-processor; here it is only checked
    if (!qkv_json_bool(at, "trim_offsets", true, &trim)) return false;
    if (!qkv_json_bool(at, "use_regex", false, &regex)) return false;
    if (regex) s.expression.known = qkv_pattern_gpt2;
    return qkv_pre_tokenizer_add(t, at, s, "");
}

bool qkv_prepend_scheme_read(const struct qkv_json_at *at, const char **mark, bool *prefix,
                             bool *first, bool *split)
{
    const char *scheme = "always";
    bool old = true;
    uint32_t code;
    if (!qkv_json_text(at, "replacement", true, mark)) return false;
    const size_t n = strlen(*mark);
    if (!n || (size_t)qkv_utf8_read((const uint8_t *)*mark, n, &code) != n)
        return qkv_text_fail(at, "replacement", QKV_ERR_FORMAT,
                             "text has the wrong length, expected one character, found \"%s\"",
                             *mark);
    if (!qkv_json_text(at, "prepend_scheme", false, &scheme)) return false;
    if (!qkv_json_bool(at, "add_prefix_space", false, &old)) return false;
    *split = true;
    if (!qkv_json_bool(at, "split", false, split)) return false;
    *first = strcmp(scheme, "first") == 0;
    *prefix = *first || strcmp(scheme, "always") == 0;
    if (!*prefix && strcmp(scheme, "never") != 0)
        return qkv_text_fail(
            at, "prepend_scheme", QKV_ERR_FORMAT,
            "unknown value of prepend_scheme, expected always, first or never, found \"%s\"",
            scheme);
    if (!old && *prefix && json_object_get(at->object, "prepend_scheme"))
        return qkv_text_fail(at, "add_prefix_space", QKV_ERR_FORMAT,
                             "add_prefix_space contradicts prepend_scheme, expected "
                             "add_prefix_space true, found false");
    *prefix = *prefix && old;
    return true;
}

bool qkv_pre_tokenizer_metaspace(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    struct qkv_pre_tokenizer_step s = { .run = run_meta, .kind = QKV_PRE_TOKENIZER_METASPACE };
    const char *mark = NULL;
    if (!qkv_prepend_scheme_read(at, &mark, &s.prefix, &s.prefix_first, &s.cuts)) return false;
    return qkv_pre_tokenizer_add(t, at, s, mark);
}

bool qkv_pre_tokenizer_split(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    struct qkv_pre_tokenizer_step s = { .run = run_split, .kind = QKV_PRE_TOKENIZER_SPLIT };
    const char *text = "";
    if (!qkv_behavior_read(at, &s.behavior)) return false;
    if (!qkv_json_bool(at, "invert", true, &s.invert)) return false;
    if (!qkv_pattern_read(at, &text, &s.expression)) return false;
    return qkv_pre_tokenizer_add(t, at, s, text);
}

bool qkv_pre_tokenizer_delimiter(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    const struct qkv_pre_tokenizer_step s = { .run = run_split,
                                              .kind = QKV_PRE_TOKENIZER_SPLIT,
                                              .behavior = QKV_REMOVED };
    const char *text = NULL;
    uint32_t code;
    if (!qkv_json_text(at, "delimiter", true, &text)) return false;
    const size_t n = strlen(text);
    if (!n || (size_t)qkv_utf8_read((const uint8_t *)text, n, &code) != n)
        return qkv_text_fail(at, "delimiter", QKV_ERR_FORMAT,
                             "text has the wrong length, expected one character, found \"%s\"",
                             text);
    return qkv_pre_tokenizer_add(t, at, s, text);
}

// ---- properties of all steps together ----------------------------------------------------------
static bool is_isolated(const struct qkv_pre_tokenizer_step *s)
{
    return s->kind == QKV_PRE_TOKENIZER_SPLIT && s->behavior == QKV_ISOLATED;
}

static bool keeps_matches(const struct qkv_pre_tokenizer_step *s)
{
    return s->kind == QKV_PRE_TOKENIZER_SPLIT && s->behavior == QKV_REMOVED && s->invert;
}

// Sets s->plain, the scanner that finds the words, if every word is an unchanged substring of the
// text.  This is the case for ByteLevel that splits by its own pattern, and for ByteLevel after a
// Split whose expression is known.
static void find_plain(struct qkv_pre_tokenizer *s)
{
    s->plain = NULL;
    if (!s->count) return;
    const struct qkv_pre_tokenizer_step *first = &s->at[0], *last = &s->at[s->count - 1];
    if (last->kind != QKV_PRE_TOKENIZER_BYTES || last->mapped) return;
    if (s->count == 1) s->plain = last->expression.known;
    if (s->count != 2 || last->expression.known || last->prefix) return;
    if (is_isolated(first) || keeps_matches(first)) s->plain = first->expression.known;
    s->plain_gaps = is_isolated(first);
}

// Returns whether a word always ends before a space that follows an ASCII letter or digit: 1 if
// this step guarantees it, 0 if a later step may guarantee it, -1 if no later step can.
static int cuts_at_spaces(const struct qkv_pre_tokenizer_step *s)
{
    switch (s->kind) {
    case QKV_PRE_TOKENIZER_MASKS: return s->masks.drop & QKV_CLASS_SPACE ? 1 : 0;
    case QKV_PRE_TOKENIZER_BYTES: return s->expression.known ? 1 : s->mapped ? -1 : 0;
    case QKV_PRE_TOKENIZER_MARKS: return s->cuts ? 1 : -1;
    case QKV_PRE_TOKENIZER_METASPACE: return s->cuts ? 1 : -1;
    case QKV_PRE_TOKENIZER_SPLIT:
        if (!s->expression.known || !(is_isolated(s) || keeps_matches(s))) return -1;
        return qkv_pattern_cuts_at_spaces(s->expression.known) ? 1 : 0;
    }
    return -1;
}

void qkv_pre_tokenizer_finish(qkv_tokenizer *t)
{
    struct qkv_pre_tokenizer *s = &t->pre_tokenizer;
    int cuts = 0;
    for (int64_t i = 0; i < s->count; i++) {
        struct qkv_pre_tokenizer_step *x = &s->at[i];
        if (x->kind == QKV_PRE_TOKENIZER_MASKS) qkv_word_masks_finish(&x->masks);
        x->mapped = x->kind == QKV_PRE_TOKENIZER_BYTES && !(t->bytes_ready && i == s->count - 1);
        if (!cuts) cuts = cuts_at_spaces(x);
    }
    s->cuttable = cuts == 1;
    find_plain(s);
    // Without a ByteLevel step as the last step, a model that accepts bytes still receives
    // characters.
    t->bytes_ready =
        s->count && s->at[s->count - 1].kind == QKV_PRE_TOKENIZER_BYTES && t->bytes_ready;
}
