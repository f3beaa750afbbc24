// SPDX-License-Identifier: MIT
// normalize.h: declares normalizers: steps that rewrite characters and preserve their byte offsets.
#ifndef QKV_TEXT_NORMALIZE_H
#define QKV_TEXT_NORMALIZE_H

#include "text/pipeline/search.h"
#include "text/regex/regex.h"
#include "text/text.h"

// ---- normalize.c: characters and steps ---------------------------------------------------------
// A character of the normalized text and the bytes of the original text that it represents.
struct qkv_char {
    int64_t begin;
    uint32_t code, size; // bytes begin .. begin + size
};
struct qkv_chars {
    struct qkv_char *at;
    int64_t count, capacity;
    int64_t limit;             // maximum number of characters, 0: none
    struct qkv_effort *effort; // budget of regular expressions; NULL: a new one for each step
    bool begins,
        ends; // whether the text begins here, and whether an added token or its end follows
};
// Appends a character to the list.  Returns false if memory is exhausted or the limit is reached.
bool qkv_chars_add(struct qkv_chars *c, uint32_t code, int64_t begin, uint32_t size);

// One step of normalization.
struct qkv_normalizer_step {
    // Writes the result of the step for `in` to *out, which is empty.  Returns false if memory is
    // exhausted.
    bool (*run)(const struct qkv_normalizer_step *s, struct qkv_chars *out,
                const struct qkv_chars *in);
    bool whole;    // needs the complete text between two added tokens
    bool apart;    // with `whole`: but no text across a space that follows an ASCII letter or digit
    bool composes; // a character may join with the preceding one
    bool compatible; // compatibility decomposition
    bool left,
        right; // strip: which ends; pretokenize_spaces.c: collapse spaces, add a leading mark
    struct qkv_charsmap *map;
    uint32_t *to;
    int64_t to_count;
    struct qkv_expression expression; // Replace; empty: the pattern is the text of `search`
    struct qkv_search search;
};
struct qkv_normalizer {
    struct qkv_normalizer_step *steps;
    int64_t count, capacity;
    bool whole, composes; // of any step
    bool uncut;           // some step is whole and not apart
    uint8_t ascii[128];   // the result for each ASCII character, or QKV_ASCII_*
    // The results for other characters, cached in QKV_MEMO slots; NULL if characters cannot be
    // normalized one by one.  A slot is 64 bits that are read and written at once, so threads that
    // share a tokenizer need no lock.
    _Atomic uint64_t *memo;
};
enum { QKV_ASCII_REMOVED = 0x80, QKV_ASCII_SLOW = 0x81, QKV_MEMO_BITS = 13 };
enum { QKV_GROWTH = 64, QKV_GROWTH_MORE = 65536 };
// Runs all steps over *a and replaces *a by the result; *b is work memory.  Returns false if memory
// is exhausted or the result has more than QKV_GROWTH times the characters of *a (Replace steps can
// double a text repeatedly).
bool qkv_normalize(const struct qkv_normalizer *n, struct qkv_chars *a, struct qkv_chars *b);
// Fills the ASCII table after all steps are added.  Returns false if memory is exhausted.
bool qkv_normalizer_finish(struct qkv_normalizer *n);
// Adds a step, whose memory the normalizer then owns, even if the call fails.
bool qkv_normalizer_add(qkv_tokenizer *t, const struct qkv_json_at *at,
                        struct qkv_normalizer_step step);
// Replaces the changes (normalize.c), which the characters of out contain in the member `begin`, by
// byte offsets.
void qkv_chars_resolve_offsets(struct qkv_chars *out, const struct qkv_chars *in);
// Decodes a text of the tokenizer file into characters, to[count]; the caller frees *to.
bool qkv_text_characters(const struct qkv_json_at *at, const char *text, uint32_t **to,
                         int64_t *count);
void qkv_normalizer_free(struct qkv_normalizer *n);

// ---- normalize_charsmap.c: normalization tables of SentencePiece -------------------------------
struct qkv_charsmap;
void qkv_charsmap_free(struct qkv_charsmap *m);
struct qkv_spm;
// Adds a step for the table data[size] as SentencePiece writes it; the data is copied.  For a model
// of SentencePiece the longest rule applies at each position, and user-defined symbols of the model
// do not change; without a model (NULL) rules apply as in the normalizer Precompiled of Hugging
// Face tokenizers.
bool qkv_charsmap_add(qkv_tokenizer *t, const struct qkv_json_at *at, const uint8_t *data,
                      size_t size, const struct qkv_spm *model);
#endif
