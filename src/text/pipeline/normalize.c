// SPDX-License-Identifier: MIT
// normalize.c: normalizes texts by a list of steps over characters, which have byte offsets in the
// original text.
//
// Offsets are the same as with NormalizedString of Hugging Face tokenizers.  A step writes each
// output character with a number, its change:
//   0   the character replaces the next input character
//   +n  the character is inserted and has the offsets of the last input character
//   -n  the character replaces the next input character, and n more input characters are removed
// Canonical ordering moves characters without their offsets, as in Hugging Face tokenizers.
#include "text/text_internal.h"
#include <stdio.h>
#include <string.h>

bool qkv_chars_add(struct qkv_chars *c, uint32_t code, int64_t begin, uint32_t size)
{
    if (c->count == c->capacity) {
        if (c->limit && c->count >= c->limit) return false;
        void *p = c->at;
        if (!qkv_reserve(&p, &c->capacity, c->count + 1, sizeof *c->at)) return false;
        c->at = p;
    }
    c->at[c->count++] = (struct qkv_char){ begin, code, size };
    return true;
}

// Writes characters with changes; `read` is the number of characters of `in` that the changes
// written so far have consumed.
struct writer {
    struct qkv_chars *out;
    const struct qkv_chars *in;
    int64_t read;
};

static bool put_character(struct writer *w, uint32_t code, int64_t change)
{
    struct qkv_char source = { 0, 0, 0 };
    if (change > 0) {
        if (w->read > 0) source = w->in->at[w->read - 1];
    } else if (w->read < w->in->count) {
        source = w->in->at[w->read];
        w->read += 1 - change;
        if (w->read > w->in->count) w->read = w->in->count;
    }
    return qkv_chars_add(w->out, code, source.begin, source.size);
}

static bool copy_character(struct qkv_chars *out, struct qkv_char c)
{
    return qkv_chars_add(out, c.code, c.begin, c.size);
}

static bool run_clean(const struct qkv_normalizer_step *s, struct qkv_chars *out,
                      const struct qkv_chars *in)
{
    (void)s;
    for (int64_t i = 0; i < in->count; i++) {
        struct qkv_char c = in->at[i];
        const bool blank = c.code == '\t' || c.code == '\n' || c.code == '\r';
        if (!blank && (c.code == 0 || c.code == 0xFFFD || qkv_unicode_other(c.code))) continue;
        if (blank || qkv_unicode_class(c.code, QKV_CLASS_SPACE)) c.code = ' ';
        if (!copy_character(out, c)) return false;
    }
    return true;
}

// Applies the part of SentencePiece's rules "nmt" that NFKC does not contain: removes control
// characters and maps other characters to spaces.
static bool run_nmt(const struct qkv_normalizer_step *s, struct qkv_chars *out,
                    const struct qkv_chars *in)
{
    (void)s;
    for (int64_t i = 0; i < in->count; i++) {
        struct qkv_char c = in->at[i];
        const uint32_t x = c.code;
        if ((x >= 1 && x <= 8) || x == 0x0B || (x >= 0x0E && x <= 0x1F) || x == 0x7F || x == 0x8F ||
            x == 0x9F)
            continue;
        if (x == 9 || x == 0x0A || x == 0x0C || x == 0x0D || x == 0x1680 ||
            (x >= 0x200B && x <= 0x200F) || x == 0x2028 || x == 0x2029 || x == 0x2581 ||
            x == 0xFEFF || x == 0xFFFD)
            c.code = ' ';
        if (!copy_character(out, c)) return false;
    }
    return true;
}

// Replaces each byte of the UTF-8 by the character that represents the byte in byte-level
// vocabularies; it has the offsets of the character that contains the byte.
static bool run_bytes(const struct qkv_normalizer_step *s, struct qkv_chars *out,
                      const struct qkv_chars *in)
{
    (void)s;
    for (int64_t i = 0; i < in->count; i++) {
        uint8_t bytes[4];
        const int n = qkv_utf8_write(bytes, in->at[i].code);
        for (int k = 0; k < n; k++)
            if (!qkv_chars_add(out, qkv_byte_char[bytes[k]], in->at[i].begin, in->at[i].size))
                return false;
    }
    return true;
}

static bool is_chinese(uint32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
           (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

static bool run_chinese(const struct qkv_normalizer_step *s, struct qkv_chars *out,
                        const struct qkv_chars *in)
{
    (void)s;
    for (int64_t i = 0; i < in->count; i++) {
        const struct qkv_char c = in->at[i];
        if (!is_chinese(c.code)) {
            if (!copy_character(out, c)) return false;
        } else if (!qkv_chars_add(out, ' ', c.begin, c.size) || !copy_character(out, c) ||
                   !qkv_chars_add(out, ' ', c.begin, c.size)) {
            return false;
        }
    }
    return true;
}

static bool run_lower(const struct qkv_normalizer_step *s, struct qkv_chars *out,
                      const struct qkv_chars *in)
{
    (void)s;
    for (int64_t i = 0; i < in->count; i++) {
        uint32_t low[3];
        const int n = qkv_unicode_lower(low, in->at[i].code);
        for (int k = 0; k < n; k++)
            if (!qkv_chars_add(out, low[k], in->at[i].begin, in->at[i].size)) return false;
    }
    return true;
}

static bool run_strip_accents(const struct qkv_normalizer_step *s, struct qkv_chars *out,
                              const struct qkv_chars *in)
{
    for (int64_t i = 0; i < in->count; i++)
        if (!qkv_unicode_mark(in->at[i].code, s->left) && !copy_character(out, in->at[i]))
            return false;
    return true;
}

// ---- decomposition and composition -------------------------------------------------------------
// Up to this number of marks are sorted by insertion.  During sorting, the member `begin` contains
// the change of a character and `size` its combining class.
enum { FEW = 24 };

// Sorts n characters stably by combining class: up to FEW characters by insertion, more by
// counting, because a letter may have a million marks.
static bool order_marks(struct qkv_char *c, int64_t n)
{
    if (n <= FEW) {
        for (int64_t i = 1; i < n; i++) {
            const struct qkv_char x = c[i];
            int64_t k = i;
            for (; k > 0 && c[k - 1].size > x.size; k--) c[k] = c[k - 1];
            c[k] = x;
        }
        return true;
    }
    int64_t start[257] = { 0 };
    struct qkv_char *sorted = qkv_alloc((size_t)n, sizeof *sorted);
    if (!sorted) return false;
    for (int64_t i = 0; i < n; i++) start[c[i].size + 1]++;
    for (int k = 1; k < 257; k++) start[k] += start[k - 1];
    for (int64_t i = 0; i < n; i++) sorted[start[c[i].size]++] = c[i];
    memcpy(c, sorted, (size_t)n * sizeof *c);
    qkv_free(sorted);
    return true;
}

// Writes the canonically ordered decomposition of the characters, with their changes and classes.
static bool decompose(struct qkv_chars *out, const struct qkv_chars *in, bool compatible)
{
    int64_t first = 0; // first character that is not yet in order
    for (int64_t i = 0; i < in->count; i++) {
        uint32_t part[18];
        const int n = qkv_unicode_decompose(part, in->at[i].code, compatible);
        for (int k = 0; k < n; k++) {
            const int ccc = qkv_unicode_ccc(part[k]);
            if (ccc == 0) {
                if (out->count - first > 1 && !order_marks(out->at + first, out->count - first))
                    return false;
                first = out->count + 1;
            }
            if (!qkv_chars_add(out, part[k], k > 0, (uint32_t)ccc)) return false;
        }
    }
    return out->count - first <= 1 || order_marks(out->at + first, out->count - first);
}

void qkv_chars_resolve_offsets(struct qkv_chars *out, const struct qkv_chars *in)
{
    int64_t read = 0; // as in put_character
    for (int64_t i = 0; i < out->count; i++) {
        struct qkv_char *c = &out->at[i];
        const struct qkv_char *place = NULL;
        if (c->begin > 0) {
            place = read ? &in->at[read - 1] : NULL;
        } else if (read < in->count) {
            place = &in->at[read];
            read = qkv_min64(read + 1 - c->begin, in->count);
        }
        c->begin = place ? place->begin : 0;
        c->size = place ? place->size : 0;
    }
}

static bool run_decompose(const struct qkv_normalizer_step *s, struct qkv_chars *out,
                          const struct qkv_chars *in)
{
    if (!decompose(out, in, s->compatible)) return false;
    qkv_chars_resolve_offsets(out, in);
    return true;
}

// Composes characters by the algorithm of Unicode (3.11, D117), and computes their changes: a
// character that composes with its starter adds to the change of the starter; characters that do
// not compose follow the starter.
static bool run_compose(const struct qkv_normalizer_step *s, struct qkv_chars *out,
                        const struct qkv_chars *in)
{
    struct qkv_chars parts = { 0 };
    struct writer w = { out, in, 0 };
    bool ok = decompose(&parts, in, s->compatible);
    for (int64_t i = 0; ok && i < parts.count;) {
        struct qkv_char base = parts.at[i++];
        if (base.size) { // a mark without a starter
            ok = put_character(&w, base.code, base.begin);
            continue;
        }
        const int64_t marks = i; // kept marks are moved to here
        int64_t kept = i;
        uint32_t last = 0; // class of the last kept mark
        for (; i < parts.count; i++) {
            const struct qkv_char c = parts.at[i];
            const bool blocked = kept > marks && last >= c.size;
            const uint32_t joined = blocked ? 0 : qkv_unicode_compose(base.code, c.code);
            if (joined) {
                base.code = joined;
                base.begin += c.begin - 1;
            } else if (!c.size) {
                break; // the next starter
            } else {
                parts.at[kept++] = c;
                last = c.size;
            }
        }
        ok = put_character(&w, base.code, base.begin);
        for (int64_t k = marks; ok && k < kept; k++)
            ok = put_character(&w, parts.at[k].code, parts.at[k].begin);
    }
    qkv_free(parts.at);
    return ok;
}

// ---- steps that need the complete text ---------------------------------------------------------
static bool run_strip(const struct qkv_normalizer_step *s, struct qkv_chars *out,
                      const struct qkv_chars *in)
{
    int64_t begin = 0, end = in->count;
    while (s->left && begin < end && qkv_unicode_class(in->at[begin].code, QKV_CLASS_SPACE))
        begin++;
    while (s->right && end > begin && qkv_unicode_class(in->at[end - 1].code, QKV_CLASS_SPACE))
        end--;
    for (int64_t i = begin; i < end; i++)
        if (!copy_character(out, in->at[i])) return false;
    return true;
}

static bool run_prepend(const struct qkv_normalizer_step *s, struct qkv_chars *out,
                        const struct qkv_chars *in)
{
    for (int64_t i = 0; in->count && i < s->to_count; i++)
        if (!qkv_chars_add(out, s->to[i], in->at[0].begin, in->at[0].size)) return false;
    for (int64_t i = 0; i < in->count; i++)
        if (!copy_character(out, in->at[i])) return false;
    return true;
}

// Inserts the content of a Replace step.  It has the offsets of the preceding character, which is
// the last replaced character if characters were replaced.
static bool put_content(const struct qkv_normalizer_step *s, struct qkv_chars *out,
                        const struct qkv_chars *in, int64_t end)
{
    const struct qkv_char place = end > 0 ? in->at[end - 1] : (struct qkv_char){ 0, 0, 0 };
    for (int64_t k = 0; k < s->to_count; k++)
        if (!qkv_chars_add(out, s->to[k], place.begin, place.size)) return false;
    return true;
}

// Replaces the matches of a regular expression, which is searched for in the UTF-8 of the
// characters.
static bool run_replace_regex(const struct qkv_normalizer_step *s, struct qkv_chars *out,
                              const struct qkv_chars *in)
{
    int64_t bytes = 0, at = 0, read = 0, begin, end; // at: byte of character `read`
    struct qkv_matches m = { 0 };
    uint8_t *text = qkv_alloc((size_t)in->count + 1, 4);
    bool ok = text != NULL;
    for (int64_t i = 0; i < in->count && ok; i++)
        bytes += qkv_utf8_write(text + bytes, in->at[i].code);
    ok = ok && qkv_matches_open(&m, &s->expression, bytes, in->effort);
    if (ok) qkv_matches_text(&m, text, bytes);
    int found = 0;
    while (ok && bytes && (found = qkv_matches_next(&m, &begin, &end)) > 0) {
        uint8_t one[4];
        for (; at < begin && ok; at += qkv_utf8_write(one, in->at[read++].code))
            ok = copy_character(out, in->at[read]);
        while (at < end) at += qkv_utf8_write(one, in->at[read++].code);
        ok = ok && put_content(s, out, in, read);
    }
    for (; read < in->count && ok; read++) ok = copy_character(out, in->at[read]);
    qkv_matches_close(&m);
    qkv_free(text);
    return ok && found == 0;
}

static bool run_replace(const struct qkv_normalizer_step *s, struct qkv_chars *out,
                        const struct qkv_chars *in)
{
    int64_t matched = 0, plain = 0; // characters before `plain` are written
    for (int64_t i = 0; i < in->count; i++) {
        matched = qkv_search_step(&s->search, matched, in->at[i].code);
        if (matched < s->search.count) continue;
        for (; plain + matched <= i; plain++)
            if (!copy_character(out, in->at[plain])) return false;
        plain = i + 1;
        matched = 0;
        if (!put_content(s, out, in, plain)) return false;
    }
    for (; plain < in->count; plain++)
        if (!copy_character(out, in->at[plain])) return false;
    return true;
}

// ---- reading -----------------------------------------------------------------------------------
static void step_free(struct qkv_normalizer_step *s)
{
    qkv_expression_free(&s->expression);
    qkv_search_free(&s->search);
    qkv_free(s->to);
    qkv_charsmap_free(s->map);
}

bool qkv_normalizer_add(qkv_tokenizer *t, const struct qkv_json_at *at,
                        struct qkv_normalizer_step step)
{
    struct qkv_normalizer *n = &t->normalizer;
    void *p = n->steps;
    if (!qkv_reserve(&p, &n->capacity, n->count + 1, sizeof *n->steps)) {
        step_free(&step);
        qkv_fail_memory(at->err, at->file);
        return false;
    }
    n->steps = p;
    n->steps[n->count++] = step;
    n->whole = n->whole || step.whole;
    n->composes = n->composes || step.composes;
    n->uncut = n->uncut || (step.whole && !step.apart);
    return true;
}

bool qkv_normalizer_bert(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    bool clean = true, chinese = true, lower = true;
    if (!qkv_json_bool(at, "clean_text", true, &clean)) return false;
    if (!qkv_json_bool(at, "handle_chinese_chars", true, &chinese)) return false;
    if (!qkv_json_bool(at, "lowercase", true, &lower)) return false;
    bool accents = lower; // null: same as lowercase
    if (!qkv_json_bool(at, "strip_accents", false, &accents)) return false;
    if (clean && !qkv_normalizer_add(t, at, (struct qkv_normalizer_step){ .run = run_clean }))
        return false;
    if (chinese && !qkv_normalizer_add(t, at, (struct qkv_normalizer_step){ .run = run_chinese }))
        return false;
    if (accents && !qkv_normalizer_add(t, at, (struct qkv_normalizer_step){ .run = run_decompose }))
        return false;
    if (accents &&
        !qkv_normalizer_add(t, at,
                            (struct qkv_normalizer_step){ .run = run_strip_accents, .left = true }))
        return false;
    return !lower || qkv_normalizer_add(t, at, (struct qkv_normalizer_step){ .run = run_lower });
}
bool qkv_normalizer_lowercase(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return qkv_normalizer_add(t, at, (struct qkv_normalizer_step){ .run = run_lower });
}
qkv_status qkv_tokenizer_lowercase(qkv_tokenizer *t, qkv_error *err)
{
    qkv_error own = { 0 };
    const struct qkv_json_at at = { .file = t->file, .err = &own };
    struct qkv_normalizer *n = &t->normalizer;
    for (int64_t i = 0; i < n->count; i++)
        if (n->steps[i].run == run_lower) return QKV_OK;
    if (qkv_normalizer_lowercase(t, &at)) {
        const struct qkv_normalizer_step lower = n->steps[n->count - 1];
        memmove(n->steps + 1, n->steps, (size_t)(n->count - 1) * sizeof lower);
        n->steps[0] = lower;
        qkv_free(n->memo);
        n->memo = NULL;
        if (!qkv_normalizer_finish(n)) qkv_fail_memory(&own, t->file);
    }
    if (own.status && err && !err->status) *err = own;
    return own.status;
}
bool qkv_normalizer_nmt(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return qkv_normalizer_add(t, at, (struct qkv_normalizer_step){ .run = run_nmt });
}
bool qkv_normalizer_byte_level(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return qkv_normalizer_add(t, at,
                              (struct qkv_normalizer_step){ .run = run_bytes, .whole = true });
}
bool qkv_normalizer_nfd(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return qkv_normalizer_add(t, at, (struct qkv_normalizer_step){ .run = run_decompose });
}
bool qkv_normalizer_nfkd(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return qkv_normalizer_add(
        t, at, (struct qkv_normalizer_step){ .run = run_decompose, .compatible = true });
}
bool qkv_normalizer_nfc(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return qkv_normalizer_add(t, at,
                              (struct qkv_normalizer_step){ .run = run_compose, .composes = true });
}
bool qkv_normalizer_nfkc(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return qkv_normalizer_add(
        t, at,
        (struct qkv_normalizer_step){ .run = run_compose, .composes = true, .compatible = true });
}
bool qkv_normalizer_strip_accents(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return qkv_normalizer_add(t, at, (struct qkv_normalizer_step){ .run = run_strip_accents });
}
bool qkv_normalizer_strip(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    struct qkv_normalizer_step s = { .run = run_strip, .whole = true, .left = true, .right = true };
    if (!qkv_json_bool(at, "strip_left", true, &s.left)) return false;
    if (!qkv_json_bool(at, "strip_right", true, &s.right)) return false;
    return qkv_normalizer_add(t, at, s);
}

bool qkv_text_characters(const struct qkv_json_at *at, const char *text, uint32_t **to,
                         int64_t *count)
{
    const size_t n = strlen(text);
    *to = qkv_alloc(n ? n : 1, sizeof **to);
    if (!*to) {
        qkv_fail_memory(at->err, at->file);
        return false;
    }
    *count = 0;
    for (size_t i = 0; i < n;) {
        const int used = qkv_utf8_read((const uint8_t *)text + i, n - i, &(*to)[(*count)++]);
        i += (size_t)(used < 0 ? -used : used);
    }
    return true;
}

bool qkv_normalizer_prepend(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    struct qkv_normalizer_step s = { .run = run_prepend, .whole = true };
    const char *text = "";
    if (!qkv_json_text(at, "prepend", true, &text)) return false;
    return qkv_text_characters(at, text, &s.to, &s.to_count) && qkv_normalizer_add(t, at, s);
}

bool qkv_pattern_read(const struct qkv_json_at *at, const char **text,
                      struct qkv_expression *expression)
{
    char path[256];
    bool ok;
    const json_t *pattern = qkv_json_member(at, "pattern", true, false, path, &ok);
    if (!pattern) return false;
    const struct qkv_json_at in = { pattern, at->file, path, at->err };
    const char *regex = NULL;
    memset(expression, 0, sizeof *expression);
    if (!qkv_json_text(&in, "Regex", false, &regex)) return false;
    if (!regex) return qkv_json_text(&in, "String", true, text);
    *text = regex;
    return qkv_expression_new(expression, &in, "Regex", regex);
}

bool qkv_replace_read(const struct qkv_json_at *at, const char **from, const char **to,
                      struct qkv_expression *expression)
{
    if (!qkv_json_text(at, "content", true, to)) return false;
    if (!qkv_pattern_read(at, from, expression)) return false;
    return qkv_expression_any(expression) || (*from)[0] ||
           qkv_text_fail(at, "pattern.String", QKV_ERR_FORMAT,
                         "pattern is empty, expected at least one character");
}

bool qkv_normalizer_replace(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    struct qkv_normalizer_step s = { .run = run_replace, .whole = true };
    const char *from = NULL, *to = NULL;
    if (!qkv_replace_read(at, &from, &to, &s.expression)) return false;
    if (qkv_expression_any(&s.expression)) s.run = run_replace_regex;
    uint32_t *pattern = NULL;
    int64_t count;
    bool ok = qkv_text_characters(at, from, &pattern, &count) &&
              qkv_text_characters(at, to, &s.to, &s.to_count);
    if (ok && !qkv_search_characters(&s.search, pattern, count)) {
        qkv_fail_memory(at->err, at->file);
        ok = false;
    }
    qkv_free(pattern);
    if (ok) return qkv_normalizer_add(t, at, s);
    step_free(&s);
    return false;
}

bool qkv_normalizer_sequence(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return qkv_component_list(t, at, "normalizers", qkv_normalizer_read);
}

// ---- running -----------------------------------------------------------------------------------
bool qkv_normalize(const struct qkv_normalizer *n, struct qkv_chars *a, struct qkv_chars *b)
{
    a->limit = b->limit =
        a->count > INT64_MAX / QKV_GROWTH ? 0 : a->count * QKV_GROWTH + QKV_GROWTH_MORE;
    for (int64_t i = 0; i < n->count; i++) {
        b->count = 0;
        b->begins = a->begins;
        b->ends = a->ends;
        if (!n->steps[i].run(&n->steps[i], b, a)) return false;
        const struct qkv_chars swap = *a;
        *a = *b;
        *b = swap;
    }
    a->limit = 0;
    return true;
}

// Fills the table n->ascii with the result for each ASCII character, and allocates the cache for
// other characters. Normalizing an ASCII character alone is correct, because steps that are not
// `whole` look at neighbors only to join or order marks, and ASCII contains no marks.
bool qkv_normalizer_finish(struct qkv_normalizer *n)
{
    struct qkv_chars a = { 0 }, b = { 0 };
    bool ok = true;
    for (uint32_t c = 0; c < 128 && ok; c++) {
        n->ascii[c] = QKV_ASCII_SLOW;
        if (n->whole) continue;
        a.count = 0;
        ok = qkv_chars_add(&a, c, 0, 1) && qkv_normalize(n, &a, &b);
        if (!ok) break;
        if (a.count == 0) n->ascii[c] = QKV_ASCII_REMOVED;
        if (a.count == 1 && a.at[0].code < 128) n->ascii[c] = (uint8_t)a.at[0].code;
    }
    qkv_free(a.at);
    qkv_free(b.at);
    if (!ok || n->whole || n->composes) return ok;
    n->memo = qkv_alloc_zero((size_t)1 << QKV_MEMO_BITS, sizeof *n->memo);
    return n->memo != NULL;
}

void qkv_normalizer_free(struct qkv_normalizer *n)
{
    for (int64_t i = 0; i < n->count; i++) step_free(&n->steps[i]);
    qkv_free(n->steps);
    qkv_free((void *)n->memo);
    memset(n, 0, sizeof *n);
}
