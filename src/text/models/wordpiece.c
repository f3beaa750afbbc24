// SPDX-License-Identifier: MIT
// wordpiece.c: splits words by WordPiece: first comes the longest token that starts the word, then
// repeatedly the longest token that continues it (a token marked by a prefix); if no token matches
// the rest of a word, the word becomes the unknown token (Schuster & Nakajima 2012; Devlin et al.
// 2019).
//
// One trie contains all tokens.  The search for a token that continues a word starts at the node of
// the prefix.  A word that itself begins with the prefix ("##s") can therefore match such a token,
// as in Hugging Face tokenizers.
#include "text/text_internal.h"
#include <string.h>

struct wordpiece {
    int32_t unknown;
    uint32_t inside;   // node of the prefix, 0: no token continues a word
    int64_t max_chars; // longer words are unknown
};

static bool open_wordpiece(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    const char *unknown = NULL, *prefix = NULL;
    struct wordpiece *m = qkv_alloc_zero(1, sizeof *m);
    if (!m) {
        qkv_fail_memory(at->err, at->file);
        return false;
    }
    t->model = m;
    if (!qkv_json_text(at, "unk_token", true, &unknown)) return false;
    if (!qkv_json_text(at, "continuing_subword_prefix", true, &prefix)) return false;
    if (!qkv_json_limited(at, "max_input_chars_per_word", true, &m->max_chars, 1, QKV_WORD_CHARS))
        return false;
    if (!qkv_vocab_read(&t->vocab, at, "vocab")) return false;
    m->unknown = qkv_trie_find(&t->vocab.trie, unknown, strlen(unknown));
    if (m->unknown < 0)
        return qkv_text_fail(at, "unk_token", QKV_ERR_FORMAT,
                             "unknown token is not in the vocabulary, expected a token of the "
                             "vocabulary, found \"%s\"",
                             unknown);
    t->unknown = m->unknown;
    t->parts_marked = prefix[0] != 0;
    m->inside = QKV_TRIE_ROOT;
    for (const char *p = prefix; *p && m->inside; p++)
        m->inside = qkv_trie_step(&t->vocab.trie, m->inside, (uint8_t)*p);
    t->word_limit = m->max_chars;
    return true;
}

static bool split_wordpiece(const qkv_tokenizer *t, struct qkv_parts *out, const uint8_t *bytes,
                            int64_t length, int64_t chars)
{
    const struct wordpiece *m = t->model;
    const struct qkv_trie *trie = &t->vocab.trie;
    if (chars > m->max_chars) return qkv_parts_add(out, m->unknown, 0, length);
    for (int64_t start = 0; start < length;) {
        uint32_t node = start ? m->inside : QKV_TRIE_ROOT;
        int64_t end = start;
        int32_t id = -1;
        for (int64_t i = start; i < length && node; i++) {
            node = qkv_trie_step(trie, node, bytes[i]);
            if (node && trie->value[node] >= 0) {
                id = trie->value[node];
                end = i + 1;
            }
        }
        if (id < 0) { // no token matches: the tokens found so far are discarded
            out->count = 0;
            return qkv_parts_add(out, m->unknown, 0, length);
        }
        if (!qkv_parts_add(out, id, start, end)) return false;
        start = end;
    }
    return true;
}

const struct qkv_text_model qkv_model_wordpiece = { "WordPiece", open_wordpiece, qkv_free,
                                                    split_wordpiece };
