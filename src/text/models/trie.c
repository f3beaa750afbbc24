// SPDX-License-Identifier: MIT
// trie.c: stores texts in a trie whose edges are the slots of one open-addressing hash table.
// Texts are added in any order, and a search looks up about one slot of the table per byte.
#include "text/text_internal.h"
#include <string.h>

static bool slots_new(struct qkv_trie *t, int bits)
{
    t->slots = qkv_alloc_zero((size_t)1 << bits, sizeof *t->slots);
    t->shift = 32 - bits;
    return t->slots != NULL;
}

static void slot_put(struct qkv_trie *t, uint32_t key, uint32_t next)
{
    const uint32_t mask = UINT32_MAX >> t->shift;
    uint32_t i = key * 0x9E3779B1u >> t->shift;
    while (t->slots[i].key) i = (i + 1) & mask;
    t->slots[i].key = key;
    t->slots[i].next = next;
}

bool qkv_trie_init(struct qkv_trie *t, size_t texts)
{
    int bits = 4;
    while (bits < 24 && (size_t)1 << bits < texts * 4) bits++;
    memset(t, 0, sizeof *t);
    if (!slots_new(t, bits)) return false;
    void *value = NULL;
    if (!qkv_reserve(&value, &t->value_capacity, (int64_t)texts * 3 + 2, sizeof *t->value)) {
        qkv_trie_free(t);
        return false;
    }
    t->value = value;
    t->value[0] = t->value[QKV_TRIE_ROOT] = -1;
    t->nodes = 2;
    return true;
}

void qkv_trie_free(struct qkv_trie *t)
{
    qkv_free(t->slots);
    qkv_free(t->value);
    memset(t, 0, sizeof *t);
}

static bool grow_slots(struct qkv_trie *t)
{
    const struct qkv_trie old = *t;
    if (!slots_new(t, 32 - old.shift + 1)) {
        *t = old;
        return false;
    }
    for (size_t i = 0; i < (size_t)1 << (32 - old.shift); i++)
        if (old.slots[i].key) slot_put(t, old.slots[i].key, old.slots[i].next);
    qkv_free(old.slots);
    return true;
}

bool qkv_trie_add(struct qkv_trie *t, const char *text, size_t bytes, int32_t value, int32_t *out)
{
    uint32_t node = QKV_TRIE_ROOT;
    if (bytes) t->first[(uint8_t)text[0]] = 1;
    for (size_t i = 0; i < bytes; i++) {
        const uint8_t byte = (uint8_t)text[i];
        uint32_t next = qkv_trie_step(t, node, byte);
        if (!next) {
            if (t->nodes >= QKV_TRIE_NODES) return false;
            if ((t->edges + 1) * 2 > (int64_t)1 << (32 - t->shift) && !grow_slots(t)) return false;
            void *p = t->value;
            if (!qkv_reserve(&p, &t->value_capacity, t->nodes + 1, sizeof *t->value)) return false;
            t->value = p;
            next = (uint32_t)t->nodes++;
            t->value[next] = -1;
            slot_put(t, node << 8 | byte, next);
            t->edges++;
        }
        node = next;
    }
    if (t->value[node] < 0) {
        t->value[node] = value;
        t->texts++;
    }
    *out = t->value[node];
    return true;
}

int32_t qkv_trie_find(const struct qkv_trie *t, const char *text, size_t bytes)
{
    if (!t->slots) return -1;
    uint32_t node = QKV_TRIE_ROOT;
    for (size_t i = 0; i < bytes; i++) {
        node = qkv_trie_step(t, node, (uint8_t)text[i]);
        if (!node) return -1;
    }
    return t->value[node];
}
