// SPDX-License-Identifier: MIT
// trainer_merge.c: learns byte pair encoding: repeatedly, the most frequent pair of neighbors
// becomes a token (of equally frequent pairs, the pair with the smaller ids).
//
// Every word is stored once with its count.  Each pair has a list of the words that may contain it,
// so that a merge updates only these words.  The heap of pairs is corrected late: if the entry on
// top has an outdated count, it is inserted again with the new count.
#include "text/training/trainer.h"
#include <string.h>

struct occurrence { // of a pair: a word that contains or contained it
    int32_t word, next;
};
struct pair {
    uint64_t key;  // left << 32 | right
    int64_t count; // in all words
    int32_t first; // first of its occurrences, -1: none
    int32_t last;  // word of the occurrence added last: no word is added twice in a row
};
struct entry { // of the heap
    int64_t count;
    uint64_t key;
    int32_t pair;
};
struct merger {
    const struct qkv_word_counts *words;
    int32_t *symbols; // symbols of all words; merged words become shorter in place
    const int64_t *start;
    int32_t *length;
    struct pair *pairs;
    int64_t pair_count, pair_capacity;
    int32_t *slots; // hash table: index + 1, 0: free
    int64_t slot_count;
    struct occurrence *places;
    int64_t place_count, place_capacity;
    struct entry *heap;
    int64_t heap_count, heap_capacity;
    int32_t *fresh; // pairs that became more frequent in this merge
    int64_t fresh_count, fresh_capacity;
};

static inline uint64_t key_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static inline int64_t slot_of(const struct merger *m, uint64_t key)
{
    return (int64_t)(key * 0x9E3779B97F4A7C15u >> 20) & (m->slot_count - 1);
}

static bool grow_slots(struct merger *m)
{
    qkv_free(m->slots);
    m->slot_count = qkv_max64(m->slot_count * 2, 1 << 14);
    m->slots = qkv_alloc_zero((size_t)m->slot_count, sizeof *m->slots);
    if (!m->slots) return false;
    for (int64_t p = 0; p < m->pair_count; p++) {
        int64_t i = slot_of(m, m->pairs[p].key);
        while (m->slots[i]) i = (i + 1) & (m->slot_count - 1);
        m->slots[i] = (int32_t)(p + 1);
    }
    return true;
}

// Returns the index of a pair, which is added if it is new, or -1 if memory is exhausted.
static int32_t pair_of(struct merger *m, int32_t left, int32_t right)
{
    const uint64_t key = key_of(left, right);
    if (m->pair_count * 2 >= m->slot_count && !grow_slots(m)) return -1;
    int64_t i = slot_of(m, key);
    for (; m->slots[i]; i = (i + 1) & (m->slot_count - 1))
        if (m->pairs[m->slots[i] - 1].key == key) return m->slots[i] - 1;
    void *p = m->pairs;
    const bool reserved = m->pair_count < INT32_MAX - 1 &&
                          qkv_reserve(&p, &m->pair_capacity, m->pair_count + 1, sizeof *m->pairs);
    m->pairs = p;
    if (!reserved) return -1;
    m->pairs[m->pair_count] = (struct pair){ key, 0, -1, -1 };
    m->slots[i] = (int32_t)++m->pair_count;
    return m->slots[i] - 1;
}

// Adds `times` to the count of a pair in word w.
static bool add_pair(struct merger *m, int32_t left, int32_t right, int32_t w, int64_t times)
{
    const int32_t p = pair_of(m, left, right);
    if (p < 0) return false;
    struct pair *x = &m->pairs[p];
    x->count += times;
    if (x->last == w && x->first >= 0) return true;
    void *places = m->places, *fresh = m->fresh;
    bool reserved = m->place_count < INT32_MAX - 1 &&
                    qkv_reserve(&places, &m->place_capacity, m->place_count + 1, sizeof *m->places);
    m->places = places;
    reserved =
        reserved && qkv_reserve(&fresh, &m->fresh_capacity, m->fresh_count + 1, sizeof *m->fresh);
    m->fresh = fresh;
    if (!reserved) return false;
    m->places[m->place_count] = (struct occurrence){ w, x->first };
    x->first = (int32_t)m->place_count++;
    x->last = w;
    m->fresh[m->fresh_count++] = p;
    return true;
}

static void drop_pair(struct merger *m, int32_t left, int32_t right, int64_t times)
{
    const uint64_t key = key_of(left, right);
    for (int64_t i = slot_of(m, key); m->slots[i]; i = (i + 1) & (m->slot_count - 1))
        if (m->pairs[m->slots[i] - 1].key == key) {
            m->pairs[m->slots[i] - 1].count -= times;
            return;
        }
}

// ---- the heap: greatest count first, then smallest key -----------------------------------------
static bool before(const struct entry *a, const struct entry *b)
{
    return a->count > b->count || (a->count == b->count && a->key < b->key);
}

static bool heap_push(struct merger *m, int32_t pair)
{
    void *p = m->heap;
    const struct entry x = { m->pairs[pair].count, m->pairs[pair].key, pair };
    if (x.count <= 0) return true;
    if (!qkv_reserve(&p, &m->heap_capacity, m->heap_count + 1, sizeof *m->heap)) return false;
    m->heap = p;
    int64_t i = m->heap_count++;
    for (; i > 0 && before(&x, &m->heap[(i - 1) / 2]); i = (i - 1) / 2)
        m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = x;
    return true;
}

static struct entry heap_pop(struct merger *m)
{
    const struct entry top = m->heap[0], x = m->heap[--m->heap_count];
    int64_t i = 0;
    for (int64_t k; (k = i * 2 + 1) < m->heap_count; i = k) {
        if (k + 1 < m->heap_count && before(&m->heap[k + 1], &m->heap[k])) k++;
        if (!before(&m->heap[k], &x)) break;
        m->heap[i] = m->heap[k];
    }
    m->heap[i] = x;
    return top;
}

// Inserts each pair that became more frequent in this merge, or is new, into the heap once.
static bool heap_fresh(struct merger *m)
{
    for (int64_t i = 0; i < m->fresh_count; i++) {
        struct pair *x = &m->pairs[m->fresh[i]];
        if (x->last < 0) continue; // it is listed twice
        x->last = -1;
        if (!heap_push(m, m->fresh[i])) return false;
    }
    m->fresh_count = 0;
    return true;
}

// ---- merging -----------------------------------------------------------------------------------
static bool merge_word(struct merger *m, int32_t w, int32_t left, int32_t right, int32_t made)
{
    int32_t *s = m->symbols + m->start[w];
    const int32_t n = m->length[w];
    const int64_t times = m->words->words[w].count;
    int32_t kept = 0;
    for (int32_t i = 0; i < n; kept++) {
        if (i + 1 >= n || s[i] != left || s[i + 1] != right) {
            s[kept] = s[i++];
            continue;
        }
        i += 2;
        if (kept) {
            drop_pair(m, s[kept - 1], left, times);
            if (!add_pair(m, s[kept - 1], made, w, times)) return false;
        }
        if (i < n) {
            drop_pair(m, right, s[i], times);
            if (!add_pair(m, made, s[i], w, times)) return false;
        }
        s[kept] = made;
    }
    m->length[w] = kept;
    return true;
}

// Writes the text of the token that two tokens merge into.
static qkv_status join(struct qkv_training *t, int32_t left, int32_t right, const char *prefix,
                       int32_t *id)
{
    const struct qkv_token a = t->vocab.tokens[left], b = t->vocab.tokens[right];
    const size_t n = strlen(prefix);
    const char *second = t->vocab.pool + b.text;
    const size_t skip = b.bytes >= n && memcmp(second, prefix, n) == 0 ? n : 0;
    const size_t bytes = a.bytes + b.bytes - skip;
    char *text = qkv_alloc(bytes + 1, 1);
    if (!text) return qkv_training_memory(t);
    memcpy(text, t->vocab.pool + a.text, a.bytes);
    memcpy(text + a.bytes, second + skip, b.bytes - skip);
    text[bytes] = 0;
    const bool ok = qkv_training_token(t, text, bytes, id);
    qkv_free(text);
    return ok ? QKV_OK : qkv_training_full(t);
}

static qkv_status merge_pair(struct qkv_training *t, struct merger *m, int32_t p,
                             const char *prefix)
{
    const int32_t left = (int32_t)(m->pairs[p].key >> 32), right = (int32_t)m->pairs[p].key;
    int32_t made;
    const qkv_status status = join(t, left, right, prefix, &made);
    if (status) return status;
    void *merges = t->merges;
    if (!qkv_reserve(&merges, &t->merge_capacity, t->merge_count + 1, sizeof *t->merges))
        return qkv_training_memory(t);
    t->merges = merges;
    t->merges[t->merge_count++] = (struct qkv_merge_pair){ left, right };
    int32_t at = m->pairs[p].first;
    m->pairs[p].first = -1;
    for (; at >= 0; at = m->places[at].next)
        if (!merge_word(m, m->places[at].word, left, right, made)) return qkv_training_memory(t);
    m->pairs[p].count = 0;
    return heap_fresh(m) ? QKV_OK : qkv_training_memory(t);
}

static bool count_pairs(struct merger *m)
{
    for (int32_t w = 0; w < m->words->count; w++) {
        const int32_t *s = m->symbols + m->start[w];
        m->length[w] = (int32_t)(m->start[w + 1] - m->start[w]);
        for (int32_t i = 0; i + 1 < m->length[w]; i++)
            if (!add_pair(m, s[i], s[i + 1], w, m->words->words[w].count)) return false;
    }
    return heap_fresh(m);
}

qkv_status qkv_training_merge(struct qkv_training *t, const struct qkv_word_counts *c,
                              int32_t *symbols, const int64_t *start, const char *prefix)
{
    struct merger m = { .words = c, .symbols = symbols, .start = start };
    m.length = qkv_alloc((size_t)c->count + 1, sizeof *m.length);
    qkv_status status = m.length && count_pairs(&m) ? QKV_OK : qkv_training_memory(t);
    while (!status && m.heap_count && t->vocab.count < t->settings->vocab) {
        const struct entry top = heap_pop(&m);
        const int64_t now = m.pairs[top.pair].count;
        if (top.count != now) {
            if (!heap_push(&m, top.pair)) status = qkv_training_memory(t);
            continue;
        }
        if (now < t->least) break;
        status = merge_pair(t, &m, top.pair, prefix);
        if (!status && t->merge_count % 256 == 0)
            status = qkv_training_step(t, "merging", t->vocab.count, t->settings->vocab);
    }
    qkv_free(m.length);
    qkv_free(m.pairs);
    qkv_free(m.slots);
    qkv_free(m.places);
    qkv_free(m.heap);
    qkv_free(m.fresh);
    return status;
}
