// SPDX-License-Identifier: MIT
// wordlevel.c: maps each whole word to its token; a word without a token becomes the unknown token.
#include "text/text_internal.h"
#include <string.h>

static bool open_wordlevel(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    const char *unknown = NULL;
    int32_t *m = qkv_alloc_zero(1, sizeof *m); // the id of the unknown token
    if (!m) {
        qkv_fail_memory(at->err, at->file);
        return false;
    }
    t->model = m;
    if (!qkv_json_text(at, "unk_token", true, &unknown)) return false;
    if (!qkv_vocab_read(&t->vocab, at, "vocab")) return false;
    *m = qkv_trie_find(&t->vocab.trie, unknown, strlen(unknown));
    t->unknown = *m;
    if (*m >= 0) return true;
    return qkv_text_fail(
        at, "unk_token", QKV_ERR_FORMAT,
        "unknown token is not in the vocabulary, expected a token of the vocabulary, found \"%s\"",
        unknown);
}

static bool split_wordlevel(const qkv_tokenizer *t, struct qkv_parts *out, const uint8_t *bytes,
                            int64_t length, int64_t chars)
{
    const int32_t *unknown = t->model;
    const int32_t id = qkv_trie_find(&t->vocab.trie, (const char *)bytes, (size_t)length);
    (void)chars;
    return qkv_parts_add(out, id < 0 ? *unknown : id, 0, length);
}

const struct qkv_text_model qkv_model_wordlevel = { "WordLevel", open_wordlevel, qkv_free,
                                                    split_wordlevel };
