// SPDX-License-Identifier: MIT
// trainer_words.c: counts the words of texts.
//
// The texts are encoded by a tokenizer whose model counts words.
#include "text/training/trainer.h"
#include <string.h>

enum { CHUNK = 1 << 20 }; // bytes of a text between two calls of the progress function

static uint32_t hash_of(const uint8_t *word, int64_t n)
{
    uint64_t h = (uint64_t)n * 0x9E3779B97F4A7C15u;
    for (; n >= 8; word += 8, n -= 8) {
        uint64_t k;
        memcpy(&k, word, 8);
        h = (h ^ k) * 0xBF58476D1CE4E5B9u;
        h ^= h >> 29;
    }
    uint64_t k = 0;
    memcpy(&k, word, (size_t)n);
    h = (h ^ k) * 0x94D049BB133111EBu;
    return (uint32_t)(h >> 32);
}

static bool grow_slots(struct qkv_word_counts *c)
{
    const int64_t n = qkv_max64(c->slot_count * 2, 1 << 12), mask = n - 1;
    int32_t *slots = qkv_alloc_zero((size_t)n, sizeof *slots);
    if (!slots) return false;
    for (int64_t w = 0; w < c->count; w++) {
        int64_t i = c->words[w].hash & mask;
        while (slots[i]) i = (i + 1) & mask;
        slots[i] = (int32_t)(w + 1);
    }
    qkv_free(c->slots);
    c->slots = slots;
    c->slot_count = n;
    return true;
}

static bool add_word(struct qkv_word_counts *c, const uint8_t *word, int64_t bytes, int64_t times)
{
    if (c->count * 2 >= c->slot_count && !grow_slots(c)) return false;
    const uint32_t hash = hash_of(word, bytes);
    const int64_t mask = c->slot_count - 1;
    int64_t i = hash & mask;
    for (; c->slots[i]; i = (i + 1) & mask) {
        struct qkv_word_count *w = &c->words[c->slots[i] - 1];
        if (w->hash == hash && w->bytes == bytes &&
            memcmp(c->pool + w->at, word, (size_t)bytes) == 0) {
            w->count += times;
            return true;
        }
    }
    void *words = c->words, *pool = c->pool;
    const bool reserved = bytes < INT32_MAX && c->count < INT32_MAX - 1 &&
                          qkv_reserve(&words, &c->capacity, c->count + 1, sizeof *c->words) &&
                          qkv_reserve(&pool, &c->pool_capacity, c->pool_count + bytes, 1);
    c->words = words;
    c->pool = pool;
    if (!reserved) return false;
    memcpy(c->pool + c->pool_count, word, (size_t)bytes);
    c->words[c->count++] = (struct qkv_word_count){ c->pool_count, (int32_t)bytes, hash, times };
    c->pool_count += bytes;
    c->slots[i] = (int32_t)c->count;
    return true;
}

void qkv_word_counts_free(struct qkv_word_counts *c)
{
    qkv_free(c->words);
    qkv_free(c->pool);
    qkv_free(c->slots);
    memset(c, 0, sizeof *c);
}

// ---- the counting tokenizer --------------------------------------------------------------------
static bool count_word(const qkv_tokenizer *t, struct qkv_parts *out, const uint8_t *word,
                       int64_t length, int64_t chars)
{
    struct qkv_word_counts *c = t->model;
    (void)out;
    if (c->word_chars) {
        if (chars >= length) // the caller did not count them
            for (int64_t i = chars = 0; i < length; i++) chars += !qkv_utf8_continues(word[i]);
        if (chars > c->word_chars) return true;
    }
    return add_word(c, word, length, 1);
}

static void keep_model(void *model)
{
    (void)model; // the caller owns the counts
}

// Returns a position after `at` at which the text can be divided, because words hardly ever extend
// across it: a line end between two letters.
static size_t piece_end(const char *text, size_t at, size_t end)
{
    if (end - at <= CHUNK) return end;
    for (size_t i = at + CHUNK; i + 1 < end; i++)
        if (text[i - 1] == '\n' && (uint8_t)text[i] > ' ' && (uint8_t)text[i - 2] > ' ') return i;
    return end;
}

qkv_status qkv_training_count(struct qkv_training *t, struct qkv_word_counts *c)
{
    static const struct qkv_text_model counter = { "counter", NULL, keep_model, count_word };
    struct qkv_text_buffer json = { 0 };
    qkv_tokenizer *k = NULL;
    qkv_encoding e = { 0 };
    qkv_status status = QKV_OK;
    int64_t total = 0, done = 0;
    qkv_training_json(t, &json, false);
    status = json.failed
                 ? qkv_training_memory(t)
                 : qkv_tokenizer_parse(&k, json.bytes, (size_t)json.count, "training", t->err);
    qkv_text_buffer_free(&json);
    if (status) return status;
    k->kind->close(k->model);
    k->kind = &counter;
    k->model = c;
    k->word_limit = 0;
    k->cut_anywhere = false;
    qkv_free(k->cache); // a cached word would not be counted
    k->cache = NULL;
    qkv_post_free(&k->post);
    if (!qkv_post_default(k)) status = qkv_training_memory(t);
    for (int64_t i = 0; i < t->n; i++) total += (int64_t)t->bytes[i];
    for (int64_t i = 0; i < t->n && !status; i++) {
        for (size_t at = 0, end; at < t->bytes[i] && !status; at = end) {
            end = piece_end(t->texts[i], at, t->bytes[i]);
            status = qkv_tokenizer_encode(k, &e, t->texts[i] + at, end - at, NULL, 0, NULL, t->err);
            done += (int64_t)(end - at);
            if (!status) status = qkv_training_step(t, "counting", done, total);
        }
    }
    qkv_encoding_free(&e);
    qkv_tokenizer_close(k);
    return status;
}
