// SPDX-License-Identifier: MIT
// trainer_wordpiece.c: learns WordPiece as Hugging Face tokenizers does: byte pair encoding over
// characters; a character inside a word is another token, marked by "##", than the same character
// at the start of a word.
#include "text/training/trainer.h"
#include <inttypes.h>
#include <string.h>

enum { WORD_CHARS = 100 };

// The counts of each character: `all` in all positions, `inside` only where it is not at the start
// of a word.
struct alphabet {
    struct qkv_character_counts all, inside;
};

static bool count_characters(struct alphabet *a, const struct qkv_word_counts *c)
{
    for (int64_t w = 0; w < c->count; w++) {
        const uint8_t *word = c->pool + c->words[w].at;
        for (int32_t at = 0; at < c->words[w].bytes;) {
            uint32_t code;
            const int n = qkv_utf8_read(word + at, (size_t)(c->words[w].bytes - at), &code);
            if (!qkv_characters_add(&a->all, code, c->words[w].count) ||
                (at && !qkv_characters_add(&a->inside, code, c->words[w].count)))
                return false;
            at += n < 0 ? -n : n;
        }
    }
    return true;
}

static bool add_characters(struct qkv_training *t, const struct qkv_character_counts *counts,
                           const struct qkv_character_counts *all, int64_t least,
                           const char *prefix)
{
    for (uint32_t i = 1; (i = qkv_characters_next(counts, i)) < QKV_CODES; i++) {
        char text[8] = { 0 };
        if (qkv_characters_count(all, i) < least) continue;
        const size_t skip = strlen(prefix);
        memcpy(text, prefix, skip);
        const int n = qkv_utf8_write((uint8_t *)text + skip, i);
        if (!qkv_training_token(t, text, skip + (size_t)n, NULL)) return false;
    }
    return true;
}

// Writes each word as symbols.  A word that contains a character that is no token is not used in
// training, because the tokenizer would encode it as the unknown token.
static void write_symbols(const struct qkv_training *t, const struct qkv_word_counts *c,
                          int32_t *symbols, int64_t *start)
{
    int64_t count = 0;
    for (int64_t w = 0; w < c->count; w++) {
        const uint8_t *word = c->pool + c->words[w].at;
        start[w] = count;
        for (int32_t at = 0; at < c->words[w].bytes;) {
            uint32_t code;
            char text[8] = "##";
            const int used = qkv_utf8_read(word + at, (size_t)(c->words[w].bytes - at), &code);
            const int n = used < 0 ? -used : used;
            const size_t skip = at ? 2 : 0;
            memcpy(text + skip, word + at, (size_t)n);
            const int32_t id = qkv_trie_find(&t->vocab.trie, text, skip + (size_t)n);
            if (id < 0) {
                count = start[w];
                break;
            }
            symbols[count++] = id;
            at += n;
        }
    }
    start[c->count] = count;
}

static qkv_status learn_alphabet(struct qkv_training *t, const struct qkv_word_counts *c)
{
    struct alphabet *a = qkv_alloc_zero(1, sizeof *a);
    bool ok = a && count_characters(a, c);
    if (ok) {
        const int64_t least =
            qkv_characters_threshold(&a->all, &a->inside, (t->settings->vocab - t->specials) / 2);
        ok = add_characters(t, &a->all, &a->all, least, "") &&
             add_characters(t, &a->inside, &a->all, least, "##");
    }
    if (a) {
        qkv_characters_free(&a->all);
        qkv_characters_free(&a->inside);
    }
    qkv_free(a);
    return ok ? QKV_OK : qkv_training_memory(t);
}

static qkv_status learn_wordpiece(struct qkv_training *t)
{
    struct qkv_word_counts c = { .word_chars = WORD_CHARS };
    int32_t *symbols = NULL;
    int64_t *start = NULL;
    if (t->settings->vocab < t->specials + 2)
        return qkv_fail(
            t->err, QKV_ERR_USAGE, NULL,
            "vocabulary too small, expected at least 2 tokens in addition to its %" PRId64
            " special tokens, found a size of %" PRId64,
            t->specials, t->settings->vocab);
    qkv_status status = qkv_training_specials(t);
    if (!status) status = qkv_training_count(t, &c);
    if (!status) status = learn_alphabet(t, &c);
    if (status) goto done;
    symbols = qkv_alloc((size_t)c.pool_count + 1, sizeof *symbols);
    start = qkv_alloc((size_t)c.count + 1, sizeof *start);
    if (!symbols || !start) {
        status = qkv_training_memory(t);
        goto done;
    }
    write_symbols(t, &c, symbols, start);
    status = qkv_training_merge(t, &c, symbols, start, "##");
done:
    qkv_free(symbols);
    qkv_free(start);
    qkv_word_counts_free(&c);
    return status;
}

#define BERT(lower)                                                                                \
    "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"              \
    "\"strip_accents\":null,\"lowercase\":" lower "}"
const struct qkv_trainer qkv_trainer_wordpiece = {
    .kind = "wordpiece",
    .learn = learn_wordpiece,
    .normalizer = BERT("false"),
    .lowercase = BERT("true"),
    .pre_tokenizer = "{\"type\":\"BertPreTokenizer\"}",
    .decoder = "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}",
    .model = "WordPiece",
    .unknown = "[UNK]"
};
