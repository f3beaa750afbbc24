// SPDX-License-Identifier: MIT
// steps.c: pre-tokenizers one after the other, over a piece of text and the words it is cut into.
//
// Masks (split.c) look at two neighbours; the steps here follow a pattern, look for a text, put
// something before a word or write other characters.  A tokenizer of masks alone never comes here.
#include "text/text.h"
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
    w->cuts[w->count++] = (struct qkv_stretch){ begin, end };
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

static bool copy(struct qkv_words *out, const struct qkv_words *in, int64_t at, int64_t end)
{
    for (; at < end; at++)
        if (!qkv_words_put(out, in->bytes + at, 1, in->begin[at], in->end[at])) return false;
    return true;
}

static bool starts_with(const struct qkv_words *w, struct qkv_stretch c, const char *text, size_t n)
{
    return c.end - c.begin >= (int64_t)n && memcmp(w->bytes + c.begin, text, n) == 0;
}

// ---- what matches, and what becomes of it ------------------------------------------------------
// Stretches come in order, alternately or not; the last one waits for what follows it.
struct stretches {
    struct qkv_words *out;
    enum qkv_behavior behavior;
    int64_t begin, end;
    bool waits, match, last;
};

static bool flush(struct stretches *s)
{
    const bool waits = s->waits;
    s->waits = false;
    return !waits || qkv_words_cut(s->out, s->begin, s->end);
}

static bool stretch(struct stretches *s, int64_t begin, int64_t end, bool match)
{
    const bool last = s->last; // of the stretch before; at the start: not a match
    bool joins = false;
    s->last = match;
    switch (s->behavior) {
    case QKV_REMOVED: return match || qkv_words_cut(s->out, begin, end);
    case QKV_ISOLATED: return qkv_words_cut(s->out, begin, end);
    case QKV_CONTIGUOUS: joins = s->waits && match == last; break;
    case QKV_MERGED_WITH_PREVIOUS: joins = s->waits && match && !last; break;
    case QKV_MERGED_WITH_NEXT:
        if (s->waits && s->match && !match) {
            s->end = end;
            return flush(s);
        }
        break;
    }
    if (joins) {
        s->end = end;
        return true;
    }
    if (!flush(s)) return false;
    s->begin = begin;
    s->end = end;
    s->match = match;
    return s->waits = true;
}

// Of one piece: what matches and what is between.
static bool split_matches(struct stretches *s, const struct qkv_split_step *step,
                          struct qkv_matches *m, const struct qkv_words *in, struct qkv_stretch c)
{
    int64_t plain = 0, begin, end;
    int found;
    qkv_matches_text(m, in->bytes + c.begin, c.end - c.begin);
    while ((found = qkv_matches_next(m, &begin, &end)) > 0) {
        if (plain < begin && !stretch(s, c.begin + plain, c.begin + begin, step->invert))
            return false;
        if (!stretch(s, c.begin + begin, c.begin + end, !step->invert)) return false;
        plain = end;
    }
    if (found < 0) return false;
    return c.begin + plain == c.end || stretch(s, c.begin + plain, c.end, step->invert);
}

// An empty text is found between all characters.
static bool split_text(struct stretches *s, const struct qkv_split_step *step,
                       const struct qkv_words *in, struct qkv_stretch c)
{
    const int64_t n = (int64_t)step->bytes;
    int64_t plain = c.begin;
    for (int64_t at = c.begin; at + n <= c.end;) {
        uint32_t code;
        const bool here = n == 0 || (in->bytes[at] == (uint8_t)step->text[0] &&
                                     memcmp(in->bytes + at, step->text, step->bytes) == 0);
        if (!here) {
            at++;
            continue;
        }
        if (plain != at && !stretch(s, plain, at, step->invert)) return false;
        if (!stretch(s, at, at + n, !step->invert)) return false;
        plain = at + n;
        if (n == 0 && at == c.end) break;
        at += n ? n : char_bytes(in, at, c.end, &code);
    }
    return plain == c.end || stretch(s, plain, c.end, step->invert);
}

static bool run_split(const struct qkv_split_step *step, struct qkv_words *out,
                      const struct qkv_words *in, bool *rewrote)
{
    const bool regex = qkv_expression_any(&step->expression);
    struct qkv_matches m = { 0 };
    bool ok = !regex || qkv_matches_open(&m, &step->expression, in->length, in->effort);
    *rewrote = false;
    for (int64_t i = 0; i < in->count && ok; i++) {
        struct stretches s = { .out = out, .behavior = step->behavior };
        ok = (regex ? split_matches(&s, step, &m, in, in->cuts[i])
                    : split_text(&s, step, in, in->cuts[i])) &&
             flush(&s);
    }
    qkv_matches_close(&m);
    return ok;
}

// ---- the other steps ---------------------------------------------------------------------------
static bool run_masks(const struct qkv_split_step *step, struct qkv_words *out,
                      const struct qkv_words *in, bool *rewrote)
{
    const struct qkv_split *m = &step->masks;
    *rewrote = false;
    for (int64_t i = 0; i < in->count; i++) {
        const struct qkv_stretch c = in->cuts[i];
        int64_t begin = c.begin;
        unsigned left = 0;
        for (int64_t at = c.begin; at < c.end;) {
            uint32_t code;
            const int n = char_bytes(in, at, c.end, &code);
            const unsigned class = code < 0x80 ? m->ascii[code] : qkv_unicode_class(code, m->used);
            if (class & m->drop || (begin < at && qkv_split_between(m, left, class))) {
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

static bool cut_by_pattern(const struct qkv_split_step *step, struct qkv_words *out,
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

// A character put before a word has the place of the word's first one.
static bool run_bytes(const struct qkv_split_step *step, struct qkv_words *out,
                      const struct qkv_words *in, bool *rewrote)
{
    *rewrote = step->prefix;
    for (int64_t i = 0; i < in->count; i++) {
        const struct qkv_stretch c = in->cuts[i];
        if (!step->prefix) {
            if (!cut_by_pattern(step, out, in->bytes, c.begin, c.end)) return false;
            continue;
        }
        const int64_t from = out->length;
        if (!starts_with(in, c, " ", 1) &&
            !qkv_words_put(out, (const uint8_t *)" ", 1, in->begin[c.begin], in->end[c.begin]))
            return false;
        if (!copy(out, in, c.begin, c.end)) return false;
        if (!cut_by_pattern(step, out, out->bytes, from, out->length)) return false;
    }
    return true;
}

static bool run_meta(const struct qkv_split_step *step, struct qkv_words *out,
                     const struct qkv_words *in, bool *rewrote)
{
    const uint8_t *mark = (const uint8_t *)step->text;
    const int n = (int)step->bytes;
    *rewrote = true;
    for (int64_t i = 0; i < in->count; i++) {
        const struct qkv_stretch c = in->cuts[i];
        const int64_t where = in->whole ? in->base : in->begin[c.begin];
        int64_t from = out->length;
        if (step->prefix && !starts_with(in, c, " ", 1) &&
            !starts_with(in, c, step->text, step->bytes) && (!step->prefix_first || where == 0) &&
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

// Each byte as the character that stands for it.
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

// `to` is what the last step made of w; the other becomes the spare one.
static void take(struct qkv_words *w, struct qkv_words *to, bool rewrote)
{
    struct qkv_words old = *w;
    to->base = w->base;
    to->whole = false;
    if (rewrote) {
        *w = *to;
        *to = old;
        return;
    }
    w->cuts = to->cuts;
    w->count = to->count;
    w->cut_capacity = to->cut_capacity;
    w->whole = false;
    to->cuts = old.cuts;
    to->cut_capacity = old.cut_capacity;
}

bool qkv_steps_run(const struct qkv_steps *s, struct qkv_words *w, struct qkv_words *spare)
{
    for (int64_t i = 0; i < s->count; i++) {
        bool rewrote;
        spare->length = spare->count = 0;
        if (!s->at[i].run(&s->at[i], spare, w, &rewrote)) return false;
        take(w, spare, rewrote);
        if (!s->at[i].mapped) continue;
        spare->length = spare->count = 0;
        if (!map_bytes(spare, w)) return false;
        take(w, spare, true);
    }
    return true;
}

void qkv_steps_free(struct qkv_steps *s)
{
    for (int64_t i = 0; i < s->count; i++) {
        qkv_expression_free(&s->at[i].expression);
        qkv_free(s->at[i].text);
    }
    qkv_free(s->at);
    memset(s, 0, sizeof *s);
}

// ---- reading -----------------------------------------------------------------------------------
static bool append(qkv_tokenizer *t, const struct qkv_json_at *at, struct qkv_split_step step,
                   const char *text)
{
    void *p = t->steps.at;
    step.bytes = strlen(text);
    step.text = qkv_copy_text(text, step.bytes);
    const bool ok =
        step.text && qkv_reserve(&p, &t->steps.capacity, t->steps.count + 1, sizeof step);
    t->steps.at = p;
    if (!ok) {
        qkv_expression_free(&step.expression);
        qkv_free(step.text);
        qkv_fail_memory(at->err, at->file);
        return false;
    }
    t->steps.at[t->steps.count++] = step;
    return true;
}

static bool append_masks(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return append(t, at,
                  (struct qkv_split_step){
                      .run = run_masks, .kind = QKV_STEP_MASKS, .masks = t->split, .cuts = true },
                  "");
}

// Masks that were read before the first step become one.
bool qkv_steps_add(qkv_tokenizer *t, const struct qkv_json_at *at, struct qkv_split_step step,
                   const char *text)
{
    const struct qkv_split *m = &t->split;
    const bool any = m->drop | m->alone | m->change | m->after | m->before;
    if (!t->steps.count && any) {
        if (!append_masks(t, at)) {
            qkv_expression_free(&step.expression);
            return false;
        }
        memset(&t->split, 0, sizeof t->split);
    }
    return append(t, at, step, text);
}

struct qkv_split *qkv_split_masks(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    struct qkv_steps *s = &t->steps;
    if (!s->count) return &t->split;
    if (s->at[s->count - 1].kind != QKV_STEP_MASKS &&
        !qkv_steps_add(t, at, (struct qkv_split_step){ .run = run_masks, .kind = QKV_STEP_MASKS },
                       ""))
        return NULL;
    return &s->at[s->count - 1].masks;
}

bool qkv_pre_tokenizer_byte_level(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    bool regex = true, trim;
    struct qkv_split_step s = { .run = run_bytes, .kind = QKV_STEP_BYTES };
    if (!qkv_json_bool(at, "add_prefix_space", true, &s.prefix)) return false;
    if (!qkv_json_bool(at, "trim_offsets", true, &trim)) return false; // of the post-processor
    if (!qkv_json_bool(at, "use_regex", false, &regex)) return false;
    if (regex) s.expression.known = qkv_pattern_gpt2;
    return qkv_steps_add(t, at, s, "");
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
                             "expected one character, found \"%s\"", *mark);
    if (!qkv_json_text(at, "prepend_scheme", false, &scheme)) return false;
    if (!qkv_json_bool(at, "add_prefix_space", false, &old)) return false;
    *split = true;
    if (!qkv_json_bool(at, "split", false, split)) return false;
    *first = strcmp(scheme, "first") == 0;
    *prefix = *first || strcmp(scheme, "always") == 0;
    if (!*prefix && strcmp(scheme, "never") != 0)
        return qkv_text_fail(at, "prepend_scheme", QKV_ERR_FORMAT,
                             "unknown scheme, expected always, first or never, found \"%s\"",
                             scheme);
    if (!old && *prefix && json_object_get(at->object, "prepend_scheme"))
        return qkv_text_fail(at, "add_prefix_space", QKV_ERR_FORMAT,
                             "does not match prepend_scheme, expected true, found false");
    *prefix = *prefix && old;
    return true;
}

bool qkv_pre_tokenizer_metaspace(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    struct qkv_split_step s = { .run = run_meta, .kind = QKV_STEP_META };
    const char *mark = NULL;
    if (!qkv_prepend_scheme_read(at, &mark, &s.prefix, &s.prefix_first, &s.cuts)) return false;
    return qkv_steps_add(t, at, s, mark);
}

bool qkv_pre_tokenizer_split(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    struct qkv_split_step s = { .run = run_split, .kind = QKV_STEP_SPLIT };
    const char *text = "";
    if (!qkv_behavior_read(at, &s.behavior)) return false;
    if (!qkv_json_bool(at, "invert", true, &s.invert)) return false;
    if (!qkv_pattern_read(at, &text, &s.expression)) return false;
    return qkv_steps_add(t, at, s, text);
}

bool qkv_pre_tokenizer_delimiter(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    const struct qkv_split_step s = { .run = run_split,
                                      .kind = QKV_STEP_SPLIT,
                                      .behavior = QKV_REMOVED };
    const char *text = NULL;
    uint32_t code;
    if (!qkv_json_text(at, "delimiter", true, &text)) return false;
    const size_t n = strlen(text);
    if (!n || (size_t)qkv_utf8_read((const uint8_t *)text, n, &code) != n)
        return qkv_text_fail(at, "delimiter", QKV_ERR_FORMAT,
                             "expected one character, found \"%s\"", text);
    return qkv_steps_add(t, at, s, text);
}

// ---- what the steps add up to ------------------------------------------------------------------
static bool is_isolated(const struct qkv_split_step *s)
{
    return s->kind == QKV_STEP_SPLIT && s->behavior == QKV_ISOLATED;
}

static bool keeps_matches(const struct qkv_split_step *s)
{
    return s->kind == QKV_STEP_SPLIT && s->behavior == QKV_REMOVED && s->invert;
}

// Words are pieces of the text: ByteLevel with its pattern, or behind a known expression.
static void find_plain(struct qkv_steps *s)
{
    s->plain = NULL;
    if (!s->count) return;
    const struct qkv_split_step *first = &s->at[0], *last = &s->at[s->count - 1];
    if (last->kind != QKV_STEP_BYTES || last->mapped) return;
    if (s->count == 1) s->plain = last->expression.known;
    if (s->count != 2 || last->expression.known || last->prefix) return;
    if (is_isolated(first) || keeps_matches(first)) s->plain = first->expression.known;
    s->plain_gaps = is_isolated(first);
}

// Does a word always end before a space that stands behind an ASCII letter or digit?  1: this step
// sees to it; 0: a later one may; -1: none can tell any more.
static int cuts_at_spaces(const struct qkv_split_step *s)
{
    switch (s->kind) {
    case QKV_STEP_MASKS: return s->masks.drop & QKV_CLASS_SPACE ? 1 : 0;
    case QKV_STEP_BYTES: return s->expression.known ? 1 : s->mapped ? -1 : 0;
    case QKV_STEP_MARKS: return s->cuts ? 1 : -1;
    case QKV_STEP_META: return s->cuts ? 1 : -1;
    case QKV_STEP_SPLIT:
        if (!s->expression.known || !(is_isolated(s) || keeps_matches(s))) return -1;
        return qkv_pattern_cuts_at_spaces(s->expression.known) ? 1 : 0;
    }
    return -1;
}

void qkv_steps_finish(qkv_tokenizer *t)
{
    struct qkv_steps *s = &t->steps;
    int cuts = 0;
    for (int64_t i = 0; i < s->count; i++) {
        struct qkv_split_step *x = &s->at[i];
        if (x->kind == QKV_STEP_MASKS) qkv_split_finish(&x->masks);
        x->mapped = x->kind == QKV_STEP_BYTES && !(t->bytes_ready && i == s->count - 1);
        if (!cuts) cuts = cuts_at_spaces(x);
    }
    s->cuttable = cuts == 1;
    find_plain(s);
    // Without a ByteLevel step a model that takes bytes is given characters all the same.
    t->bytes_ready = s->count && s->at[s->count - 1].kind == QKV_STEP_BYTES && t->bytes_ready;
}
