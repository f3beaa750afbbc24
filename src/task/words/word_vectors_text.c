// SPDX-License-Identifier: MIT
// word_vectors_text.c: counts the different words of a corpus and assigns their ids.
//
// Text is split into words exactly as by the tokenizer that is saved with the vectors: Lowercase,
// then Whitespace (the pattern \w+).
#include "task/words/word_vectors_internal.h"
#include "text/text.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BYTES = 256, FIRST_BITS = 12 };

// Iterates over the words of a text, which it converts to lower case.
struct walk {
    const uint8_t *at, *end;
    uint8_t word[WORD_BYTES + 16];
    size_t bytes;
};

// Finds the next word. Returns false at the end of the text. Skips words longer than WORD_BYTES.
static bool next_word(struct walk *k)
{
    k->bytes = 0;
    bool too_long = false;
    while (k->at < k->end) {
        uint32_t code, lower[3];
        const int n = qkv_utf8_read(k->at, (size_t)(k->end - k->at), &code);
        k->at += n < 0 ? -n : n;
        if (!qkv_unicode_class(code, QKV_CLASS_WORD)) {
            if (k->bytes && !too_long) return true;
            k->bytes = 0;
            too_long = false;
            continue;
        }
        const int m = qkv_unicode_lower(lower, code);
        for (int i = 0; i < m && k->bytes < WORD_BYTES; i++)
            k->bytes += (size_t)qkv_utf8_write(k->word + k->bytes, lower[i]);
        too_long |= k->bytes >= WORD_BYTES;
    }
    return k->bytes && !too_long;
}

static uint64_t hash(const uint8_t *p, size_t n)
{
    uint64_t h = 0xCBF29CE484222325u; // FNV-1a
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001B3u;
    return h ^ h >> 32;
}

// Returns the slot of a word in the hash table. If the word is not in the table, returns the free
// slot where it can be inserted.
static int32_t *find(const struct words *w, const uint8_t *word, size_t bytes)
{
    const uint64_t mask = ((uint64_t)1 << w->bits) - 1;
    for (uint64_t i = hash(word, bytes) & mask;; i = (i + 1) & mask) {
        const int32_t e = w->slot[i];
        if (!e) return &w->slot[i];
        const struct words_entry *x = &w->entry[e - 1];
        if (x->bytes == bytes && !memcmp(w->pool + x->text, word, bytes)) return &w->slot[i];
    }
}

static bool grow_slots(struct words *w)
{
    const int bits = w->slot ? w->bits + 1 : FIRST_BITS;
    int32_t *slot = qkv_alloc_zero((size_t)1 << bits, sizeof *slot);
    if (!slot) return false;
    qkv_free(w->slot);
    w->slot = slot;
    w->bits = bits;
    for (int64_t i = 0; i < w->entries; i++)
        *find(w, (const uint8_t *)w->pool + w->entry[i].text, w->entry[i].bytes) = (int32_t)i + 1;
    return true;
}

static bool add(struct words *w, const uint8_t *word, size_t bytes)
{
    if ((!w->slot || w->entries >= (int64_t)1 << (w->bits - 1)) && !grow_slots(w)) return false;
    int32_t *slot = find(w, word, bytes);
    if (!*slot) {
        void *pool = w->pool, *entry = w->entry;
        if (!qkv_reserve(&pool, &w->pool_capacity, w->pool_used + (int64_t)bytes, 1)) return false;
        w->pool = pool;
        if (!qkv_reserve(&entry, &w->entry_capacity, w->entries + 1, sizeof *w->entry))
            return false;
        w->entry = entry;
        memcpy(w->pool + w->pool_used, word, bytes);
        w->entry[w->entries] =
            (struct words_entry){ .text = w->pool_used, .bytes = (uint32_t)bytes };
        w->pool_used += (int64_t)bytes;
        *slot = (int32_t)++w->entries;
    }
    w->entry[*slot - 1].count++;
    w->seen++;
    return true;
}

qkv_status words_count(struct words *w, const qkv_corpus *c, qkv_error *err)
{
    struct qkv_corpus_cursor at = { .corpus = c };
    struct qkv_example e;
    bool more;
    qkv_status status;
    while (!(status = qkv_corpus_next(&at, &e, &more, err)) && more) {
        struct walk k = { .at = (const uint8_t *)e.text, .end = (const uint8_t *)e.text + e.bytes };
        while (!status && next_word(&k)) {
            if (w->entries == INT32_MAX - 1)
                status = qkv_fail(err, QKV_ERR_LIMIT, NULL,
                                  "too many different words, expected fewer than 2^31");
            else if (!add(w, k.word, k.bytes))
                status = qkv_fail_memory(err, e.file);
        }
        if (status) break;
    }
    qkv_corpus_cursor_free(&at);
    return status;
}

// A word to be sorted by count; its text is in words.pool.
struct sorted {
    const char *text;
    int64_t count;
    uint32_t bytes;
    int32_t entry;
};
static int by_count(const void *a, const void *b)
{
    const struct sorted *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    const int c = memcmp(x->text, y->text, x->bytes < y->bytes ? x->bytes : y->bytes);
    return c ? c : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

qkv_status words_choose(struct words *w, int64_t least, int64_t most, qkv_error *err)
{
    struct sorted *list = qkv_alloc((size_t)w->entries + 1, sizeof *list);
    w->order = qkv_alloc((size_t)w->entries + 1, sizeof *w->order);
    if (!list || !w->order) {
        qkv_free(list);
        return qkv_fail_memory(err, NULL);
    }
    int64_t n = 0;
    for (int64_t i = 0; i < w->entries; i++) {
        const struct words_entry *x = &w->entry[i];
        if (x->count < least) continue;
        list[n++] = (struct sorted){ w->pool + x->text, x->count, x->bytes, (int32_t)i };
    }
    qsort(list, (size_t)n, sizeof *list, by_count);
    w->vocab = most ? qkv_min64(most, n) : n;
    for (int64_t i = 0; i < w->vocab; i++) {
        w->order[i] = list[i].entry;
        w->entry[list[i].entry].id = (int32_t)i + 1;
    }
    qkv_free(list);
    if (w->vocab >= 2) return QKV_OK;
    return qkv_fail(err, QKV_ERR_FORMAT, NULL,
                    "too few words, expected two or more that occur %" PRId64
                    " times, found %" PRId64 " among %" PRId64 " words",
                    least, w->vocab, w->seen);
}

qkv_status words_read(struct words *w, const qkv_corpus *c, qkv_error *err)
{
    struct qkv_corpus_cursor at = { .corpus = c };
    struct qkv_example e;
    bool more;
    qkv_status status;
    while (!(status = qkv_corpus_next(&at, &e, &more, err)) && more) {
        struct walk k = { .at = (const uint8_t *)e.text, .end = (const uint8_t *)e.text + e.bytes };
        const int64_t begin = w->length;
        while (next_word(&k)) {
            const int32_t slot = *find(w, k.word, k.bytes);
            const int32_t id = slot ? w->entry[slot - 1].id : 0;
            if (!id) continue;
            void *stream = w->stream;
            if (!qkv_reserve(&stream, &w->stream_capacity, w->length + 1, sizeof *w->stream)) {
                status = qkv_fail_memory(err, e.file);
                goto done;
            }
            w->stream = stream;
            w->stream[w->length++] = id;
        }
        if (w->length == begin) continue;
        void *end = w->end;
        if (!qkv_reserve(&end, &w->end_capacity, w->documents + 1, sizeof *w->end)) {
            status = qkv_fail_memory(err, e.file);
            goto done;
        }
        w->end = end;
        w->end[w->documents++] = w->length;
    }
done:
    qkv_corpus_cursor_free(&at);
    return status;
}

void words_free(struct words *w)
{
    qkv_free(w->pool);
    qkv_free(w->entry);
    qkv_free(w->slot);
    qkv_free(w->order);
    qkv_free(w->stream);
    qkv_free(w->end);
    memset(w, 0, sizeof *w);
}

// Returns the vocabulary of a tokenizer.json, {"[UNK]": 0, "the": 1, ...}. NULL: memory is
// exhausted.
static json_t *vocabulary(const struct words *w)
{
    json_t *all = json_object();
    if (json_object_set_new(all, "[UNK]", json_integer(0))) goto failed;
    for (int64_t i = 0; i < w->vocab; i++) {
        const struct words_entry *x = &w->entry[w->order[i]];
        char word[WORD_BYTES + 16];
        memcpy(word, w->pool + x->text, x->bytes);
        word[x->bytes] = 0;
        if (json_object_set_new(all, word, json_integer(i + 1))) goto failed;
    }
    return all;
failed:
    json_decref(all);
    return NULL;
}

qkv_status words_tokenizer(const struct words *w, const char *path, bool force, qkv_error *err)
{
    json_t *vocab = vocabulary(w);
    if (!vocab) return qkv_fail_memory(err, path);
    json_t *root = json_pack(
        "{s:s, s:n, s:n, s:[{s:i, s:s, s:b, s:b, s:b, s:b, s:b}], s:{s:s}, s:{s:s}, s:n, s:n, "
        "s:{s:s, s:o, s:s}}",
        "version", "1.0", "truncation", "padding", "added_tokens", "id", 0, "content", "[UNK]",
        "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1, "normalizer",
        "type", "Lowercase", "pre_tokenizer", "type", "Whitespace", "post_processor", "decoder",
        "model", "type", "WordLevel", "vocab", vocab, "unk_token", "[UNK]");
    // json_pack() has released the vocabulary, also if it failed
    if (!root) return qkv_fail_memory(err, path);
    const qkv_status status = qkv_json_write(path, root, force, err);
    json_decref(root);
    return status;
}
