// SPDX-License-Identifier: MIT
// word_cache.c: caches the tokens of words for all threads that use a tokenizer.
//
// A slot has eight 64-bit numbers.  The first counts writes of the slot and is odd during a write;
// a reader that finds the count changed ignores what it read.  The tokens of a word do not depend
// on the thread that stored them, so results do not depend on threads.
#include "text/text_internal.h"
#include <stdatomic.h>
#include <string.h>

#ifdef QKV_FUZZ
enum { SLOT_BITS = 4, WORDS = 7 }; // words collide, and a short input need not clear a large table
#else
enum { SLOT_BITS = 14, WORDS = 7 };
#endif

struct slot {
    _Atomic uint64_t version;
    _Atomic uint64_t data[WORDS]; // struct content
};
struct qkv_word_cache {
    struct slot slots[1 << SLOT_BITS];
};
struct content {
    uint8_t word[QKV_CACHE_WORD];
    int32_t ids[QKV_CACHE_PARTS];
    uint8_t length, count, ends[QKV_CACHE_PARTS];
};
_Static_assert(sizeof(struct content) == WORDS * sizeof(uint64_t), "a slot's content is 7 words");

struct qkv_word_cache *qkv_word_cache_new(void)
{
    return qkv_alloc_zero(1, sizeof(struct qkv_word_cache));
}

static struct slot *slot_of(struct qkv_word_cache *c, const uint8_t word[QKV_CACHE_WORD])
{
    uint64_t k[3];
    memcpy(k, word, sizeof k);
    uint64_t h = (k[0] ^ k[0] >> 32) * 0x9E3779B97F4A7C15u;
    h = (h ^ k[1] ^ h >> 29) * 0xBF58476D1CE4E5B9u;
    h = (h ^ k[2] ^ h >> 32) * 0x94D049BB133111EBu;
    return &c->slots[h >> (64 - SLOT_BITS)];
}

// Copies the word and pads it with zeros.  A word that itself ends with zeros differs from a padded
// word by its length.
static void pad_word(uint8_t out[QKV_CACHE_WORD], const uint8_t *word, int64_t length)
{
    memset(out, 0, QKV_CACHE_WORD);
    memcpy(out, word, (size_t)length);
}

bool qkv_word_cache_get(struct qkv_word_cache *c, const uint8_t *word, int64_t length,
                        struct qkv_parts *out)
{
    uint8_t key[QKV_CACHE_WORD];
    uint64_t data[WORDS];
    struct content x;
    pad_word(key, word, length);
    struct slot *s = slot_of(c, key);
    const uint64_t version = atomic_load_explicit(&s->version, memory_order_acquire);
    if (!version || version & 1) return false;
    for (int i = 0; i < WORDS; i++)
        data[i] = atomic_load_explicit(&s->data[i], memory_order_acquire);
    if (atomic_load_explicit(&s->version, memory_order_relaxed) != version) return false;
    memcpy(&x, data, sizeof x);
    if (x.length != length || memcmp(x.word, key, sizeof key) != 0) return false;
    while (out->capacity < x.count)
        if (!qkv_parts_grow(out)) return false;
    for (int i = 0; i < x.count; i++)
        out->at[i] = (struct qkv_part){ i ? x.ends[i - 1] : 0, x.ends[i], x.ids[i] };
    out->count = x.count;
    return true;
}

void qkv_word_cache_put(struct qkv_word_cache *c, const uint8_t *word, int64_t length,
                        const struct qkv_parts *parts)
{
    struct content x = { .length = (uint8_t)length, .count = (uint8_t)parts->count };
    uint64_t data[WORDS];
    if (parts->count > QKV_CACHE_PARTS) return;
    for (int64_t i = 0; i < parts->count; i++) { // only parts without gaps
        if (parts->at[i].begin != (i ? parts->at[i - 1].end : 0) || parts->at[i].end > length)
            return;
        x.ids[i] = parts->at[i].id;
        x.ends[i] = (uint8_t)parts->at[i].end;
    }
    pad_word(x.word, word, length);
    memcpy(data, &x, sizeof x);
    struct slot *s = slot_of(c, x.word);
    uint64_t version = atomic_load_explicit(&s->version, memory_order_relaxed);
    if (version & 1 || !atomic_compare_exchange_strong(&s->version, &version, version + 1))
        return; // another thread is writing it
    for (int i = 0; i < WORDS; i++)
        atomic_store_explicit(&s->data[i], data[i], memory_order_release);
    atomic_store_explicit(&s->version, version + 2, memory_order_release);
}
