// SPDX-License-Identifier: MIT
// trainer_plain.c: trains tokenizers whose tokens are single bytes, single characters, or merged
// pairs of bytes.
#include "text/training/trainer.h"
#include <inttypes.h>
#include <string.h>

#define BYTE_LEVEL                                                                                 \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}"
#define LOWERCASE "{\"type\":\"Lowercase\"}"

// ---- bytes -------------------------------------------------------------------------------------
// Adds the character that represents each byte as a token, in the order of the bytes.
static qkv_status add_bytes(struct qkv_training *t)
{
    for (int i = 0; i < 256; i++) {
        char text[5] = { 0 };
        const int n = qkv_utf8_write((uint8_t *)text, qkv_byte_char[i]);
        if (!qkv_training_token(t, text, (size_t)n, NULL)) return qkv_training_memory(t);
    }
    return QKV_OK;
}

static qkv_status check_vocab_size(const struct qkv_training *t)
{
    const int64_t least = 256 + t->specials;
    if (t->settings->vocab >= least || (!t->settings->vocab && t->trainer->specials_last))
        return QKV_OK;
    return qkv_fail(t->err, QKV_ERR_USAGE, NULL,
                    "vocabulary too small, expected at least 256 bytes and %" PRId64
                    " special tokens, found a size of %" PRId64,
                    t->specials, t->settings->vocab);
}

static qkv_status learn_bytes(struct qkv_training *t)
{
    qkv_status status = check_vocab_size(t);
    if (!status) status = add_bytes(t);
    return status ? status : qkv_training_specials(t);
}

const struct qkv_trainer qkv_trainer_bytes = { .kind = "bytes",
                                               .learn = learn_bytes,
                                               .normalizer = "null",
                                               .lowercase = LOWERCASE,
                                               .pre_tokenizer = BYTE_LEVEL,
                                               .decoder = BYTE_LEVEL,
                                               .model = "BPE",
                                               .specials_last = true };

// ---- byte pairs --------------------------------------------------------------------------------
static qkv_status learn_bpe(struct qkv_training *t)
{
    struct qkv_word_counts c = { 0 };
    int32_t *symbols = NULL;
    int64_t *start = NULL;
    qkv_status status = check_vocab_size(t);
    if (!status) status = qkv_training_specials(t);
    if (!status) status = add_bytes(t);
    if (!status) status = qkv_training_count(t, &c);
    if (status) goto done;
    symbols = qkv_alloc((size_t)c.pool_count + 1, sizeof *symbols);
    start = qkv_alloc((size_t)c.count + 1, sizeof *start);
    if (!symbols || !start) {
        status = qkv_training_memory(t);
        goto done;
    }
    int32_t ids[256]; // a special token may equal the character of a byte
    for (int i = 0; i < 256; i++) {
        char text[5] = { 0 };
        const int n = qkv_utf8_write((uint8_t *)text, qkv_byte_char[i]);
        ids[i] = qkv_trie_find(&t->vocab.trie, text, (size_t)n);
    }
    for (int64_t i = 0; i < c.pool_count; i++) symbols[i] = ids[c.pool[i]];
    for (int64_t w = 0; w < c.count; w++) start[w] = c.words[w].at;
    start[c.count] = c.pool_count;
    status = qkv_training_merge(t, &c, symbols, start, "");
done:
    qkv_free(symbols);
    qkv_free(start);
    qkv_word_counts_free(&c);
    return status;
}

const struct qkv_trainer qkv_trainer_bpe = { .kind = "bpe",
                                             .learn = learn_bpe,
                                             .normalizer = "null",
                                             .lowercase = LOWERCASE,
                                             .pre_tokenizer = BYTE_LEVEL,
                                             .decoder = BYTE_LEVEL,
                                             .model = "BPE" };

// ---- characters --------------------------------------------------------------------------------
// Counts the characters of a text, except NUL, which a tokenizer file cannot contain and which
// therefore stays unknown.  Returns false if memory is exhausted.
static bool count_text(struct qkv_character_counts *counts, const uint8_t *text, int64_t n,
                       bool lowercase)
{
    for (int64_t at = 0; at < n;) {
        uint32_t code[3];
        const int used = qkv_utf8_read(text + at, (size_t)(n - at), code);
        const int many = lowercase ? qkv_unicode_lower(code, code[0]) : 1;
        for (int i = 0; i < many; i++)
            if (code[i] && !qkv_characters_add(counts, code[i], 1)) return false;
        at += used < 0 ? -used : used;
    }
    return true;
}

// Adds the `wanted` most frequent characters to the vocabulary, in the order of their codes.
static qkv_status add_frequent(struct qkv_training *t, const struct qkv_character_counts *counts,
                               int64_t wanted)
{
    const int64_t least = qkv_characters_threshold(counts, NULL, wanted);
    int64_t more = wanted; // of the characters with one less, the first
    for (uint32_t i = 0; (i = qkv_characters_next(counts, i)) < QKV_CODES; i++)
        more -= qkv_characters_count(counts, i) >= least;
    for (uint32_t i = 0; (i = qkv_characters_next(counts, i)) < QKV_CODES; i++) {
        const int64_t count = qkv_characters_count(counts, i);
        const bool extra = count == least - 1 && more > 0;
        if (count < least && !extra) continue;
        more -= extra;
        char text[5] = { 0 };
        const int n = qkv_utf8_write((uint8_t *)text, i);
        if (!qkv_training_token(t, text, (size_t)n, NULL)) return qkv_training_full(t);
    }
    return QKV_OK;
}

static qkv_status learn_characters(struct qkv_training *t)
{
    const int64_t wanted = t->settings->vocab ? t->settings->vocab - t->specials : QKV_CODES;
    if (wanted < 1)
        return qkv_fail(t->err, QKV_ERR_USAGE, NULL,
                        "vocabulary too small, expected more than its %" PRId64
                        " special tokens, found a size of %" PRId64,
                        t->specials, t->settings->vocab);
    struct qkv_character_counts *counts = qkv_alloc_zero(1, sizeof *counts);
    qkv_status status = counts ? qkv_training_specials(t) : qkv_training_memory(t);
    for (int64_t i = 0; i < t->n && !status; i++) {
        if (!count_text(counts, (const uint8_t *)t->texts[i], (int64_t)t->bytes[i],
                        t->settings->lowercase))
            status = qkv_training_memory(t);
        else
            status = qkv_training_step(t, "counting", i + 1, t->n);
    }
    if (!status) status = add_frequent(t, counts, wanted);
    if (counts) qkv_characters_free(counts);
    qkv_free(counts);
    return status;
}

const struct qkv_trainer qkv_trainer_characters = { .kind = "characters",
                                                    .learn = learn_characters,
                                                    .normalizer = "null",
                                                    .lowercase = LOWERCASE,
                                                    .pre_tokenizer = "null",
                                                    .decoder = "{\"type\":\"Fuse\"}",
                                                    .model = "BPE",
                                                    .unknown = "<unk>" };
