// SPDX-License-Identifier: MIT
// added_tokens.h: declares added tokens, which are found in a text before it is split into words.
#ifndef QKV_TEXT_ADDED_TOKENS_H
#define QKV_TEXT_ADDED_TOKENS_H

#include "text/pipeline/normalize.h"
#include "text/text.h"

struct qkv_added {
    struct qkv_added_token {
        int32_t id;
        bool special, single_word, lstrip, rstrip, normalized;
        int64_t text, matched; // offsets in pool: as in the file; as it is matched and decoded
        uint32_t bytes, matched_bytes;
    } * tokens;
    int64_t count, capacity;
    char *pool;
    int64_t pool_count, pool_capacity;
    struct qkv_trie names;      // text -> index
    struct qkv_trie raw;        // tokens that are matched in the original text
    struct qkv_trie normalized; // tokens that are matched in the normalized text
    bool any_raw, any_normalized;
    bool languages; // a text between added tokens may begin with a language, as in Marian
};
// Returns the bytes of the language ">>xx<<" with which a text begins, or 0.
int64_t qkv_added_language(const uint8_t *text, int64_t bytes);
bool qkv_added_read(qkv_tokenizer *t, const struct qkv_json_at *root); // after the normalizer
// Decodes the added token with this id, if there is one, as `text`.  Returns false if memory is
// exhausted.
bool qkv_added_decode_as(struct qkv_added *a, int32_t id, const char *text);
void qkv_added_free(struct qkv_added *a);
// A range of a text: the added token with index `token`, or text between added tokens if `token` is
// -1.
struct qkv_added_match {
    int64_t begin, end;
    int32_t token; // index
};
// A walk over a text of n bytes or n normalized characters, which returns one range at a time.
struct qkv_added_walk {
    const struct qkv_added *added;
    const struct qkv_trie *trie;
    const uint8_t *bytes; // either bytes or chars
    const struct qkv_char *chars;
    int64_t n, at, search;
    struct qkv_added_match next; // a token that was found after plain text
    struct qkv_added_match rest; // the text after a language, if it is not empty
    bool has_next, no_special;
};
bool qkv_added_next(struct qkv_added_walk *w, struct qkv_added_match *out); // false: the end
#endif
