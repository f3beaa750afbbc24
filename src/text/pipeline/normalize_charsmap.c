// SPDX-License-Identifier: MIT
// normalize_charsmap.c: applies the normalization tables that SentencePiece compiles into a model,
// which map strings of characters to replacement texts.
//
// A table consists of a uint32, the number of bytes of the trie; the trie, a double array
// (darts-clone) of uint32 units; and the replacement texts, each NUL-terminated.  The trie maps a
// string (the key) to the offset of its replacement text (the value).
//
// The child of unit i by byte b is unit i ^ offset(i) ^ b, if the label of that unit is b.  If a
// key ends at unit i, unit i ^ offset(i) contains its value.  Every index is checked before use.
#include <string.h>
#include <utf8proc.h>
#include "text/readers/readers.h"

struct qkv_charsmap {
    uint32_t *units;
    size_t count;
    char *texts; // terminated
    size_t size;
    struct qkv_trie symbols; // user-defined symbols, which do not change
};

void qkv_charsmap_free(struct qkv_charsmap *m)
{
    if (!m) return;
    qkv_free(m->units);
    qkv_free(m->texts);
    qkv_trie_free(&m->symbols);
    qkv_free(m);
}

// ---- the double array --------------------------------------------------------------------------
static uint32_t offset_of(uint32_t unit)
{
    return unit >> 10 << ((unit & 1u << 9) >> 6);
}

static uint32_t label_of(uint32_t unit) // of a unit with a value: a label that no byte has
{
    return unit & (1u << 31 | 0xFF);
}

// Follows the edge of one byte in the trie.  Returns false if no key continues with this byte.
// *value becomes the value of the key that ends here, or negative if no key ends here.
static bool follow_byte(const struct qkv_charsmap *m, size_t *at, uint8_t byte, int64_t *value)
{
    const size_t i = *at ^ byte;
    *value = -1;
    if (i >= m->count || label_of(m->units[i]) != byte) return false;
    const uint32_t unit = m->units[i];
    *at = i ^ offset_of(unit);
    if (unit >> 8 & 1 && *at < m->count) *value = m->units[*at] & INT32_MAX;
    if (*value >= (int64_t)m->size) *value = -1;
    return true;
}

// ---- normalizing -------------------------------------------------------------------------------
enum { KEY_BYTES = 64 }; // length of the longest key that is looked up

// Returns the replacement text of a key with which the characters at[from .. to-1] begin: of the
// shortest such key if `first` is true, otherwise of the longest.  *end is the end of the replaced
// characters.  Returns NULL if there is no such key.
static const char *find_replacement(const struct qkv_charsmap *m, const struct qkv_char *at,
                                    int64_t from, int64_t to, bool first, int64_t *end)
{
    const char *found = NULL;
    size_t unit = offset_of(m->units[0]);
    int64_t value = -1;
    for (int64_t i = from, bytes = 0; i < to && bytes < KEY_BYTES && !(first && found); i++) {
        uint8_t text[4];
        const int n = qkv_utf8_write(text, at[i].code);
        for (int k = 0; k < n; k++)
            if (!text[k] || !follow_byte(m, &unit, text[k], &value)) return found;
        bytes += n;
        if (value < 0) continue;
        found = m->texts + value;
        *end = i + 1;
    }
    return found;
}

// Returns the end of the longest user-defined symbol with which the characters at[from .. to-1]
// begin, or `from`.
static int64_t symbol_end(const struct qkv_charsmap *m, const struct qkv_char *at, int64_t from,
                          int64_t to)
{
    uint32_t node = m->symbols.slots ? QKV_TRIE_ROOT : 0;
    int64_t end = from;
    for (int64_t i = from; i < to && node; i++) {
        uint8_t text[4];
        const int n = qkv_utf8_write(text, at[i].code);
        for (int k = 0; k < n && node; k++) node = qkv_trie_step(&m->symbols, node, text[k]);
        if (node && m->symbols.value[node] >= 0) end = i + 1;
    }
    return end;
}

static int64_t char_count(const char *text)
{
    int64_t n = 0;
    for (; *text; text++) n += !qkv_utf8_continues(*text);
    return n;
}

// Applies the rules as SentencePiece does: at each position the longest rule.  The characters of a
// replacement text get the offsets of the replaced characters one by one; if it is longer, its
// further characters get the offsets of the last replaced character.
static bool run_longest(const struct qkv_normalizer_step *s, struct qkv_chars *out,
                        const struct qkv_chars *in)
{
    for (int64_t i = 0, end = 0; i < in->count; i = end) {
        const struct qkv_char *c = &in->at[i];
        const int64_t symbol = symbol_end(s->map, in->at, i, in->count);
        for (end = i; end < symbol; end++)
            if (!qkv_chars_add(out, in->at[end].code, in->at[end].begin, in->at[end].size))
                return false;
        if (symbol > i) continue;
        const char *text = find_replacement(s->map, in->at, i, in->count, false, &end);
        if (!text) {
            if (!qkv_chars_add(out, c->code, c->begin, c->size)) return false;
            end = i + 1;
            continue;
        }
        const size_t n = strlen(text);
        for (size_t at = 0; at < n; c += c + 1 < in->at + end) {
            uint32_t code;
            at += (size_t)qkv_utf8_read((const uint8_t *)text + at, n - at, &code);
            if (!qkv_chars_add(out, code, c->begin, c->size)) return false;
        }
    }
    return true;
}

// Writes `text` in place of `old` input characters, with changes (normalize.c) as Hugging Face
// tokenizers computes them: the number of removed characters is added to the change of the last
// character written, even if that character belongs to an earlier text.
static bool put_changes(struct qkv_chars *out, int64_t old, const char *text)
{
    const size_t n = strlen(text);
    int64_t more = char_count(text) - old, left = char_count(text);
    for (size_t at = 0; at < n; left--) {
        uint32_t code;
        at += (size_t)qkv_utf8_read((const uint8_t *)text + at, n - at, &code);
        if (!qkv_chars_add(out, code, left <= more, 0)) return false;
    }
    if (more < 0 && out->count) out->at[out->count - 1].begin += more;
    return true;
}

// Writes one grapheme as Hugging Face tokenizers does.  In a grapheme of less than 6 bytes, the
// shortest rule that matches its start replaces the whole grapheme.  In other graphemes, characters
// are looked up one by one.
static bool put_grapheme(const struct qkv_charsmap *m, struct qkv_chars *out,
                         const struct qkv_char *at, int64_t n)
{
    int64_t bytes = 0, end;
    for (int64_t i = 0; i < n && bytes < 6; i++) {
        uint8_t text[4];
        bytes += qkv_utf8_write(text, at[i].code);
    }
    const char *text = bytes < 6 ? find_replacement(m, at, 0, n, true, &end) : NULL;
    if (text) return put_changes(out, n, text);
    for (int64_t i = 0; i < n; i++) {
        text = find_replacement(m, at, i, i + 1, true, &end);
        if (text ? !put_changes(out, 1, text) : !qkv_chars_add(out, at[i].code, 0, 0)) return false;
    }
    return true;
}

// Maps marks of Unicode 16 and 17, which libutf8proc 2.8 does not know, to known marks with the
// same grapheme boundaries.
static int32_t as_known(uint32_t code)
{
    return code >= 0x1ACF && code <= 0x1AEB && code != 0x1ADE && code != 0x1ADF ? 0x1ACE
                                                                                : (int32_t)code;
}

static bool run_graphemes(const struct qkv_normalizer_step *s, struct qkv_chars *out,
                          const struct qkv_chars *in)
{
    int32_t state = 0;
    int64_t from = 0;
    for (int64_t i = 0; i < in->count; i++) {
        if (i + 1 < in->count &&
            !utf8proc_grapheme_break_stateful(as_known(in->at[i].code),
                                              as_known(in->at[i + 1].code), &state))
            continue;
        if (!put_grapheme(s->map, out, in->at + from, i + 1 - from)) return false;
        from = i + 1;
        state = 0;
    }
    qkv_chars_resolve_offsets(out, in);
    return true;
}

// ---- reading -----------------------------------------------------------------------------------
static bool fail_table(const struct qkv_json_at *at, const char *what)
{
    return qkv_text_fail(at, "precompiled_charsmap", QKV_ERR_FORMAT, "%s", what);
}

static bool no_memory(struct qkv_charsmap *m, const struct qkv_json_at *at)
{
    qkv_charsmap_free(m);
    qkv_fail_memory(at->err, at->file);
    return false;
}

// Checks that the units of the trie refer to existing units, and that the values are offsets of
// existing texts.
static bool check_units(const struct qkv_charsmap *m, const struct qkv_json_at *at)
{
    for (size_t i = 0; i < m->count; i++) {
        const uint32_t unit = m->units[i];
        if (unit >> 31 ? (unit & INT32_MAX) >= m->size : (i ^ offset_of(unit)) >= m->count)
            return fail_table(at, "normalization table: an entry of the trie points outside the "
                                  "table, expected an index inside it");
        const uint32_t value = unit & INT32_MAX;
        if (unit >> 31 && value && m->texts[value - 1])
            return fail_table(at, "normalization table: a value of the trie points into the middle "
                                  "of a replacement text, expected the start of one");
    }
    return true;
}

// Reads the user-defined symbols.  *apart becomes false if one has a space after its first byte.
static bool read_symbols(struct qkv_charsmap *m, const struct qkv_spm *model, bool *apart)
{
    int32_t got;
    for (int64_t i = 0; i < model->count; i++) {
        const struct qkv_spm_piece *p = &model->pieces[i];
        if (p->type != QKV_SPM_USER) continue;
        if ((!m->symbols.slots && !qkv_trie_init(&m->symbols, 64)) ||
            !qkv_trie_add(&m->symbols, p->text, p->bytes, 0, &got))
            return false;
        if (memchr(p->text + 1, ' ', p->bytes - 1)) *apart = false;
    }
    return true;
}

// Returns true if no key has a space after its first byte.  Then no key matches across a space that
// follows a letter.
static bool spaces_apart(const struct qkv_charsmap *m)
{
    for (size_t i = 0; i < m->count; i++)
        if (label_of(m->units[i]) == ' ' && i != (offset_of(m->units[0]) ^ (size_t)' '))
            return false;
    return true;
}

bool qkv_charsmap_add(qkv_tokenizer *t, const struct qkv_json_at *at, const uint8_t *data,
                      size_t size, const struct qkv_spm *model)
{
    const size_t trie =
        size < 4 ? 0
                 : data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16 | (size_t)data[3] << 24;
    if (!trie || trie % 4 || trie >= size - 4)
        return fail_table(at, "malformed normalization table, expected the size of the trie, the "
                              "trie and the replacement texts");
    struct qkv_charsmap *m = qkv_alloc_zero(1, sizeof *m);
    if (!m) return no_memory(m, at);
    m->count = trie / 4;
    m->size = size - 4 - trie;
    m->units = qkv_alloc(m->count, sizeof *m->units);
    m->texts = qkv_copy_text((const char *)data + 4 + trie, m->size);
    if (!m->units || !m->texts) return no_memory(m, at);
    for (size_t i = 0; i < m->count; i++) {
        const uint8_t *p = data + 4 + 4 * i;
        m->units[i] = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    }
    bool ok =
        m->texts[m->size - 1] == 0 ||
        fail_table(
            at,
            "normalization table: the replacement texts are truncated, expected a NUL at the end");
    for (size_t i = 0, n; ok && i < m->size; i += n) {
        n = m->texts[i] ? qkv_utf8_bytes(m->texts + i, m->size - i) : 1;
        ok = n ||
             fail_table(
                 at,
                 "normalization table: a replacement text is not valid UTF-8, expected characters");
    }
    if (!ok || !check_units(m, at)) {
        qkv_charsmap_free(m);
        return false;
    }
    bool apart = !model || spaces_apart(m);
    if (model && !read_symbols(m, model, &apart)) return no_memory(m, at);
    return qkv_normalizer_add(
        t, at,
        (struct qkv_normalizer_step){
            .run = model ? run_longest : run_graphemes, .map = m, .whole = true, .apart = apart });
}

// Decodes text[n] from base 64 to out.  Returns false if text is not valid base 64.
static bool base64(uint8_t *out, size_t *bytes, const char *text, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    size_t used = n;
    *bytes = 0;
    while (used && n - used < 2 && text[used - 1] == '=') used--;
    if (n % 4 || used % 4 == 1) return false;
    for (size_t i = 0; i < used; i++) {
        const char *digit = memchr(digits, text[i], 64);
        if (!digit) return false;
        bits = bits << 6 | (uint32_t)(digit - digits);
        if (i % 4) out[(*bytes)++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    return true;
}

bool qkv_normalizer_precompiled(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    const char *text = NULL;
    if (!qkv_json_text(at, "precompiled_charsmap", true, &text)) return false;
    const size_t n = strlen(text);
    size_t bytes;
    uint8_t *data = qkv_alloc(n / 4 * 3 + 3, 1);
    if (!data) return no_memory(NULL, at);
    const bool ok =
        base64(data, &bytes, text, n)
            ? qkv_charsmap_add(t, at, data, bytes, NULL)
            : fail_table(at,
                         "normalization table is not in base64, expected letters, digits, + and /");
    qkv_free(data);
    return ok;
}
