// SPDX-License-Identifier: MIT
// bpe.c: splits words by byte pair encoding: a word begins as a list of its characters; of all
// pairs of neighbors that the list of merges contains, the pairs that come first in that list are
// merged, from left to right, until no pair is in the list (Gage 1994; Sennrich, Haddow, Birch
// 2016).
//
// For short words, each merge searches all pairs; for long words, pairs are in a heap and symbols
// in a linked list, which takes O(n log n).
#include "text/text_internal.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SHORT = 48 }; // symbols

// An entry of the open-addressing hash table that maps a pair of tokens to their merge.
struct merge {
    uint64_t pair; // left << 32 | right, EMPTY: free slot
    uint32_t rank;
    int32_t id;
};
#define EMPTY UINT64_MAX
struct bpe {
    struct merge *merges;
    int shift;                       // 64 - log2(slots)
    int32_t unknown;                 // -1: unknown characters are omitted
    bool fuse, fallback, whole, any; // any: there are merges
    int32_t byte_id[256]; // ByteLevel: id of the character that represents the byte, -1: none
    int32_t spelled[256]; // id of "<0x41>", -1: none
    const char *prefix, *suffix; // of a character inside a word, and at its end; "": none
    char *texts;                 // the memory of prefix and suffix
    uint32_t inside;             // node of the prefix, 0: no token begins with it
};

// ---- reading -----------------------------------------------------------------------------------
static const struct merge *find_merge(const struct bpe *m, int32_t left, int32_t right)
{
    const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    const uint64_t mask = UINT64_MAX >> m->shift;
    uint64_t i = pair * 0x9E3779B97F4A7C15u >> m->shift;
    while (m->merges[i].pair != pair) {
        if (m->merges[i].pair == EMPTY) return NULL;
        i = (i + 1) & mask;
    }
    return &m->merges[i];
}

// Adds a merge.  If a pair occurs twice, its later merge replaces the earlier merge, as in Hugging
// Face tokenizers.
static void insert_merge(struct bpe *m, struct merge x)
{
    const uint64_t mask = UINT64_MAX >> m->shift;
    uint64_t i = x.pair * 0x9E3779B97F4A7C15u >> m->shift;
    while (m->merges[i].pair != EMPTY && m->merges[i].pair != x.pair) i = (i + 1) & mask;
    m->merges[i] = x;
}

// Reads a merge, ["a", "b"] or "a b": text[0] and bytes[0] are the text and length of a, text[1]
// and bytes[1] of b.
static bool read_pair(const struct qkv_json_at *at, size_t n, const json_t *item,
                      const char *text[2], size_t bytes[2])
{
    char key[48];
    snprintf(key, sizeof key, "merges[%zu]", n);
    if (json_is_array(item)) {
        for (size_t i = 0; i < 2; i++) {
            text[i] = json_string_value(json_array_get(item, i));
            bytes[i] = text[i] ? strlen(text[i]) : 0;
        }
        if (json_array_size(item) == 2 && text[0] && text[1]) return true;
        return qkv_text_fail(at, key, QKV_ERR_FORMAT,
                             "malformed merge, expected a list of two tokens, found another list");
    }
    const char *whole = json_string_value(item), *space = whole ? strchr(whole, ' ') : NULL;
    if (!space || strchr(space + 1, ' '))
        return qkv_text_fail(at, key, QKV_ERR_FORMAT,
                             "malformed merge, expected two tokens separated by a space%s%.100s%s",
                             whole ? ", found \"" : "", whole ? whole : "", whole ? "\"" : "");
    text[0] = whole;
    bytes[0] = (size_t)(space - whole);
    text[1] = space + 1;
    bytes[1] = strlen(space + 1);
    return true;
}

static bool unknown_part(const struct qkv_json_at *at, size_t n, const char *what, const char *text,
                         size_t bytes, const char *more)
{
    char key[48];
    snprintf(key, sizeof key, "merges[%zu]", n);
    return qkv_text_fail(at, key, QKV_ERR_FORMAT,
                         "%s of a merge is not in the vocabulary, expected a token of the "
                         "vocabulary, found \"%.*s%.100s\"",
                         what, (int)qkv_min64((int64_t)bytes, 100), text, more);
}

static bool read_merge(const qkv_tokenizer *t, struct bpe *m, const struct qkv_json_at *at,
                       size_t n, const json_t *item, uint32_t rank)
{
    const struct qkv_trie *trie = &t->vocab.trie;
    const char *text[2];
    size_t bytes[2];
    int32_t id[2];
    if (!read_pair(at, n, item, text, bytes)) return false;
    for (int i = 0; i < 2; i++)
        if ((id[i] = qkv_trie_find(trie, text[i], bytes[i])) < 0)
            return unknown_part(at, n, "a part", text[i], bytes[i], "");
    // The text of the merged token contains the right token without the prefix that marks a
    // continuation.
    const size_t skip = strlen(m->prefix);
    if (skip > bytes[1]) {
        char key[48];
        snprintf(key, sizeof key, "merges[%zu]", n);
        return qkv_text_fail(at, key, QKV_ERR_FORMAT,
                             "right part of a merge is shorter than continuing_subword_prefix, "
                             "expected at least %zu bytes, found \"%s\"",
                             skip, text[1]);
    }
    uint32_t node = QKV_TRIE_ROOT;
    for (size_t i = 0; i < bytes[0] && node; i++)
        node = qkv_trie_step(trie, node, (uint8_t)text[0][i]);
    for (size_t i = skip; i < bytes[1] && node; i++)
        node = qkv_trie_step(trie, node, (uint8_t)text[1][i]);
    if (!node || trie->value[node] < 0)
        return unknown_part(at, n, "the result", text[0], bytes[0], text[1] + skip);
    insert_merge(m, (struct merge){ (uint64_t)(uint32_t)id[0] << 32 | (uint32_t)id[1], rank,
                                    trie->value[node] });
    return true;
}

static bool merges_new(struct bpe *m, size_t count)
{
    int bits = 4;
    while ((size_t)1 << bits < count * 2) bits++;
    m->shift = 64 - bits;
    m->merges = qkv_alloc((size_t)1 << bits, sizeof *m->merges);
    if (m->merges) memset(m->merges, 0xFF, sizeof *m->merges << bits);
    m->any = count > 0;
    return m->merges != NULL;
}

static bool take_merges(struct bpe *m, const struct qkv_assembly *g)
{
    if (!merges_new(m, (size_t)g->merge_count)) return false;
    for (int64_t i = 0; i < g->merge_count; i++) {
        const struct qkv_merge *x = &g->merges[i];
        insert_merge(m, (struct merge){ (uint64_t)(uint32_t)x->left << 32 | (uint32_t)x->right,
                                        x->rank, x->to });
    }
    return true;
}

static bool read_merges(qkv_tokenizer *t, struct bpe *m, const struct qkv_json_at *at)
{
    char path[256];
    bool ok;
    if (t->assembly.merged) {
        if (!take_merges(m, &t->assembly)) qkv_fail_memory(at->err, at->file);
        return m->merges != NULL;
    }
    const json_t *list = qkv_json_member(at, "merges", true, true, path, &ok);
    if (!list) return false;
    const size_t count = json_array_size(list);
    if (count > QKV_TOKEN_IDS)
        return qkv_text_fail(at, "merges", QKV_ERR_LIMIT,
                             "too many merges, expected at most %d, found %zu", QKV_TOKEN_IDS,
                             count);
    if (!merges_new(m, count)) {
        qkv_fail_memory(at->err, at->file);
        return false;
    }
    uint32_t rank = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(list, i);
        const char *text = json_string_value(item);
        if (text && strncmp(text, "#version", 8) == 0) continue; // header line of a merges.txt
        if (!read_merge(t, m, at, i, item, rank++)) return false;
    }
    return true;
}

static void find_bytes(qkv_tokenizer *t, struct bpe *m)
{
    bool all = true;
    for (int b = 0; b < 256; b++) {
        char text[8];
        const int n = qkv_utf8_write((uint8_t *)text, qkv_byte_char[b]);
        m->byte_id[b] = qkv_trie_find(&t->vocab.trie, text, (size_t)n);
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)b);
        m->spelled[b] = qkv_trie_find(&t->vocab.trie, text, 6);
        all = all && m->byte_id[b] >= 0;
    }
    t->bytes_ready = all && !m->prefix[0] && !m->suffix[0];
}

static bool read_unknown(qkv_tokenizer *t, struct bpe *m, const struct qkv_json_at *at)
{
    const char *unknown = "";
    m->unknown = -1;
    if (!qkv_json_text(at, "unk_token", false, &unknown)) return false;
    if (!unknown[0]) return true;
    m->unknown = qkv_trie_find(&t->vocab.trie, unknown, strlen(unknown));
    if (m->unknown >= 0) return true;
    return qkv_text_fail(
        at, "unk_token", QKV_ERR_FORMAT,
        "unknown token is not in the vocabulary, expected a token of the vocabulary, found \"%s\"",
        unknown);
}

static bool read_affixes(struct bpe *m, const struct qkv_json_at *at)
{
    const char *prefix = "", *suffix = "";
    if (!qkv_json_text(at, "continuing_subword_prefix", false, &prefix)) return false;
    if (!qkv_json_text(at, "end_of_word_suffix", false, &suffix)) return false;
    const size_t a = strlen(prefix) + 1, b = strlen(suffix) + 1;
    if (a > QKV_AFFIX_BYTES + 1 || b > QKV_AFFIX_BYTES + 1)
        return qkv_text_fail(
            at, a > QKV_AFFIX_BYTES + 1 ? "continuing_subword_prefix" : "end_of_word_suffix",
            QKV_ERR_LIMIT, "text too long, expected at most %d bytes, found %zu", QKV_AFFIX_BYTES,
            (a > QKV_AFFIX_BYTES + 1 ? a : b) - 1);
    m->texts = qkv_alloc(a + b, 1);
    if (!m->texts) {
        qkv_fail_memory(at->err, at->file);
        return false;
    }
    memcpy(m->texts, prefix, a);
    memcpy(m->texts + a, suffix, b);
    m->prefix = m->texts;
    m->suffix = m->texts + a;
    return true;
}

static uint32_t walk(const struct qkv_trie *trie, uint32_t node, const void *text, int64_t n)
{
    for (int64_t i = 0; i < n && node; i++)
        node = qkv_trie_step(trie, node, ((const uint8_t *)text)[i]);
    return node;
}

static bool open_bpe(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    double dropout = 0;
    struct bpe *m = qkv_alloc_zero(1, sizeof *m);
    if (!m) {
        qkv_fail_memory(at->err, at->file);
        return false;
    }
    t->model = m;
    if (!qkv_json_real(at, "dropout", false, &dropout)) return false;
    if (dropout != 0)
        return qkv_text_fail(
            at, "dropout", QKV_ERR_UNSUPPORTED,
            "dropout of merges is not supported, expected \"dropout\" null or 0, found %g",
            dropout);
    if (!qkv_json_bool(at, "fuse_unk", false, &m->fuse)) return false;
    if (!qkv_json_bool(at, "byte_fallback", false, &m->fallback)) return false;
    if (!qkv_json_bool(at, "ignore_merges", false, &m->whole)) return false;
    if (!read_affixes(m, at) || !qkv_vocab_read(&t->vocab, at, "vocab")) return false;
    if (!read_unknown(t, m, at) || !read_merges(t, m, at)) return false;
    t->unknown = m->unknown;
    t->parts_marked = m->prefix[0] != 0;
    find_bytes(t, m);
    m->inside = walk(&t->vocab.trie, QKV_TRIE_ROOT, m->prefix, (int64_t)strlen(m->prefix));
    t->cut_anywhere = !m->any && !m->fuse && !m->whole && !m->prefix[0] && !m->suffix[0];
    return true;
}

static void close_bpe(void *model)
{
    struct bpe *m = model;
    if (!m) return;
    qkv_free(m->merges);
    qkv_free(m->texts);
    qkv_free(m);
}

// ---- the initial symbols of a word -------------------------------------------------------------
struct symbol {
    int32_t id;
    int32_t bytes;       // of the word, 0: merged into the preceding symbol
    int32_t left, right; // neighbors, in long words, -1: none
};
struct symbols {
    struct symbol *at;
    int64_t count;
    int32_t unknown; // bytes of a pending unknown token, 0: none
    int64_t dropped; // characters left out
};

static void put_symbol(struct symbols *s, int32_t id, int32_t bytes)
{
    s->at[s->count++] = (struct symbol){ .id = id, .bytes = bytes };
}

// Adds symbols for the character text[n], for which the vocabulary has no token.
static void put_unknown(const struct bpe *m, struct symbols *s, const uint8_t *text, int64_t n,
                        bool first, bool last)
{
    if (m->fallback) {
        const char *const parts[3] = { first ? "" : m->prefix, NULL, last ? m->suffix : "" };
        const int64_t sizes[3] = { (int64_t)strlen(parts[0]), n, (int64_t)strlen(parts[2]) };
        const int64_t before = s->count;
        bool all = true;
        for (int k = 0; k < 3; k++)
            for (int64_t i = 0; i < sizes[k] && all; i++) {
                const int32_t id = m->spelled[k == 1 ? text[i] : (uint8_t)parts[k][i]];
                if (id < 0)
                    all = false;
                else
                    put_symbol(s, id, 1);
            }
        if (all) return;
        s->count = before;
    }
    if (m->unknown < 0) { // the character is left out, as in Hugging Face tokenizers
        s->dropped++;
        return;
    }
    if (s->unknown && !m->fuse) {
        put_symbol(s, m->unknown, s->unknown);
        s->unknown = 0;
    }
    s->unknown += (int32_t)n;
}

static void characters(const qkv_tokenizer *t, const struct bpe *m, struct symbols *s,
                       const uint8_t *word, int64_t length)
{
    const struct qkv_trie *trie = &t->vocab.trie;
    for (int64_t at = 0; at < length;) {
        uint32_t code, node = QKV_TRIE_ROOT;
        const int used = qkv_utf8_read(word + at, (size_t)(length - at), &code);
        const int n = used < 0 ? -used : used;
        const bool first = at == 0, last = at + n == length;
        if (!first) node = m->inside;
        node = walk(trie, node, word + at, n);
        if (last) node = walk(trie, node, m->suffix, (int64_t)strlen(m->suffix));
        if (node && trie->value[node] >= 0) {
            if (s->unknown) put_symbol(s, m->unknown, s->unknown);
            s->unknown = 0;
            put_symbol(s, trie->value[node], n);
        } else {
            put_unknown(m, s, word + at, n, first, last);
        }
        at += n;
    }
    if (s->unknown) put_symbol(s, m->unknown, s->unknown);
}

// ---- merging -----------------------------------------------------------------------------------
static void merge_short(const struct bpe *m, struct symbols *s)
{
    struct symbol *const at = s->at;
    const struct merge *next[SHORT]; // of symbol i and its right neighbor
    int64_t n = s->count;
    for (int64_t i = 0; i + 1 < n; i++) next[i] = find_merge(m, at[i].id, at[i + 1].id);
    for (;;) {
        int64_t best = -1;
        uint32_t rank = UINT32_MAX;
        for (int64_t i = 0; i + 1 < n; i++)
            if (next[i] && next[i]->rank < rank) {
                rank = next[i]->rank;
                best = i;
            }
        if (best < 0) break;
        at[best].id = next[best]->id;
        at[best].bytes += at[best + 1].bytes;
        n--;
        memmove(at + best + 1, at + best + 2, (size_t)(n - best - 1) * sizeof *at);
        memmove(next + best, next + best + 1, (size_t)(n - best - 1) * sizeof *next);
        if (best + 1 < n) next[best] = find_merge(m, at[best].id, at[best + 1].id);
        if (best > 0) next[best - 1] = find_merge(m, at[best - 1].id, at[best].id);
    }
    s->count = n;
}

// A heap entry: a pair that may be merged.  An entry is valid only while its pair still merges into
// `id`.
struct waiting {
    uint32_t rank;
    int32_t at, id;
};
struct heap {
    struct waiting *at;
    int64_t count;
};

static bool before(struct waiting a, struct waiting b)
{
    return a.rank < b.rank || (a.rank == b.rank && a.at < b.at);
}

static void heap_push(struct heap *h, const struct merge *merge, int32_t at)
{
    if (!merge) return;
    const struct waiting x = { merge->rank, at, merge->id };
    int64_t i = h->count++;
    for (; i > 0 && before(x, h->at[(i - 1) / 2]); i = (i - 1) / 2) h->at[i] = h->at[(i - 1) / 2];
    h->at[i] = x;
}

static struct waiting heap_pop(struct heap *h)
{
    const struct waiting top = h->at[0], x = h->at[--h->count];
    int64_t i = 0;
    for (int64_t k; (k = i * 2 + 1) < h->count; i = k) {
        if (k + 1 < h->count && before(h->at[k + 1], h->at[k])) k++;
        if (!before(h->at[k], x)) break;
        h->at[i] = h->at[k];
    }
    h->at[i] = x;
    return top;
}

// Merges a long word of n symbols by a priority queue.  Each merge removes one pair and adds at
// most two, so 3 n entries are enough.
static void merge_long(const struct bpe *m, struct symbols *s, struct waiting *entries)
{
    struct symbol *const at = s->at;
    const int32_t n = (int32_t)s->count;
    struct heap h = { entries, 0 };
    for (int32_t i = 0; i < n; i++) {
        at[i].left = i - 1;
        at[i].right = i + 1 < n ? i + 1 : -1;
        if (i + 1 < n) heap_push(&h, find_merge(m, at[i].id, at[i + 1].id), i);
    }
    while (h.count) {
        const struct waiting top = heap_pop(&h);
        struct symbol *a = &at[top.at];
        if (!a->bytes || a->right < 0) continue;
        struct symbol *b = &at[a->right];
        const struct merge *now = find_merge(m, a->id, b->id);
        if (!now || now->id != top.id) continue;
        a->id = top.id;
        a->bytes += b->bytes;
        a->right = b->right;
        b->bytes = 0;
        if (a->right >= 0) {
            at[a->right].left = top.at;
            heap_push(&h, find_merge(m, a->id, at[a->right].id), top.at);
        }
        if (a->left >= 0) heap_push(&h, find_merge(m, at[a->left].id, a->id), a->left);
    }
    int64_t kept = 0;
    for (int32_t i = 0; i >= 0; i = at[i].right) kept = (at[kept] = at[i], kept + 1);
    s->count = kept;
}

// Returns the id of the token that is the complete word, or -1 if there is no such token.
static int32_t whole_word(const qkv_tokenizer *t, const uint8_t *word, int64_t length)
{
    const struct qkv_trie *trie = &t->vocab.trie;
    uint32_t node = QKV_TRIE_ROOT;
    if (!t->bytes_ready) {
        node = walk(trie, node, word, length);
    } else {
        for (int64_t i = 0; i < length && node; i++) {
            uint8_t p[4];
            node = walk(trie, node, p, qkv_utf8_write(p, qkv_byte_char[word[i]]));
        }
    }
    return node ? trie->value[node] : -1;
}

static bool split_bpe(const qkv_tokenizer *t, struct qkv_parts *out, const uint8_t *bytes,
                      int64_t length, int64_t chars)
{
    const struct bpe *m = t->model;
    (void)chars;
    if (m->whole) {
        const int32_t id = whole_word(t, bytes, length);
        if (id >= 0) return qkv_parts_add(out, id, 0, length);
    }
    // The bytes of prefix and suffix can become symbols too, if the model has byte tokens.
    const int64_t extra = m->fallback ? (int64_t)(strlen(m->prefix) + strlen(m->suffix)) : 0;
    if (length > INT32_MAX / 4 / (extra + 1)) return false;
    const int64_t most = length * (extra + 1);
    const int64_t each = (int64_t)(sizeof(struct symbol) + 3 * sizeof(struct waiting));
    if (!qkv_parts_reserve(out, most * each)) return false;
    struct symbols s = { .at = out->work };
    if (t->bytes_ready)
        for (int64_t i = 0; i < length; i++) put_symbol(&s, m->byte_id[bytes[i]], 1);
    else
        characters(t, m, &s, bytes, length);
    out->dropped = s.dropped;
    if (s.count > SHORT)
        merge_long(m, &s, (struct waiting *)(s.at + most));
    else
        merge_short(m, &s);
    int64_t at = 0;
    for (int64_t i = 0; i < s.count; i++) {
        if (!qkv_parts_add(out, s.at[i].id, at, at + s.at[i].bytes)) return false;
        at += s.at[i].bytes;
    }
    return true;
}

const struct qkv_text_model qkv_model_bpe = { "BPE", open_bpe, close_bpe, split_bpe };
