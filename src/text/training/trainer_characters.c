// SPDX-License-Identifier: MIT
// trainer_characters.c: counts characters in blocks that are allocated when their first character
// occurs, so that a short text costs no pass over all of Unicode.
#include "text/training/trainer.h"

static int64_t *counter(const struct qkv_character_counts *c, uint32_t code)
{
    struct qkv_character_block *block = c->blocks[code / QKV_BLOCK_CODES];
    return block ? &block->counts[code % QKV_BLOCK_CODES] : NULL;
}

bool qkv_characters_add(struct qkv_character_counts *c, uint32_t code, int64_t n)
{
    struct qkv_character_block **block = &c->blocks[code / QKV_BLOCK_CODES];
    if (!*block && !(*block = qkv_alloc_zero(1, sizeof **block))) return false;
    int64_t *count = counter(c, code);
    *count += n;
    c->most = qkv_max64(c->most, *count);
    return true;
}

int64_t qkv_characters_count(const struct qkv_character_counts *c, uint32_t code)
{
    const int64_t *count = counter(c, code);
    return count ? *count : 0;
}

uint32_t qkv_characters_next(const struct qkv_character_counts *c, uint32_t from)
{
    while (from < QKV_CODES) {
        if (!c->blocks[from / QKV_BLOCK_CODES])
            from = (from / QKV_BLOCK_CODES + 1) * QKV_BLOCK_CODES;
        else if (*counter(c, from) > 0)
            return from;
        else
            from++;
    }
    return QKV_CODES;
}

static int64_t tokens_from(const struct qkv_character_counts *c,
                           const struct qkv_character_counts *inside, int64_t least)
{
    int64_t n = 0;
    for (uint32_t i = 0; (i = qkv_characters_next(c, i)) < QKV_CODES; i++)
        if (*counter(c, i) >= least) n += 1 + (inside && qkv_characters_count(inside, i) > 0);
    return n;
}

int64_t qkv_characters_threshold(const struct qkv_character_counts *c,
                                 const struct qkv_character_counts *inside, int64_t tokens)
{
    int64_t low = 1, high = c->most + 1;
    while (low < high) {
        const int64_t mid = low + (high - low) / 2;
        if (tokens_from(c, inside, mid) <= tokens)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

void qkv_characters_free(struct qkv_character_counts *c)
{
    for (int i = 0; i < QKV_CODES / QKV_BLOCK_CODES; i++) qkv_free(c->blocks[i]);
}
