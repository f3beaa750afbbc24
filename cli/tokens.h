// SPDX-License-Identifier: MIT
// tokens.h: texts or ids of the command line as the tokens that a model is given.
#ifndef QKV_TOKENS_H
#define QKV_TOKENS_H

#include "arrays.h"

// Options that every command has which runs a model on one sequence.
struct token_options {
    const char *ids;
    int64_t max_length; // 0: not given
    bool pad, truncate, strict, no_special;
};
#define TOKEN_OPTIONS(to)                                                                          \
    OPT_GROUP("Tokens"),                                                                           \
        OPT_INT(0, "max-length", &(to).max_length, 1, 1 << 24, "N",                                \
                "cut to N tokens, specials included; how much was cut is said on stderr"),         \
        OPT_FLAG(0, "truncate", &(to).truncate,                                                    \
                 "cut to the model's positions instead of refusing"),                              \
        OPT_FLAG(0, "pad", &(to).pad,                                                              \
                 "fill up to --max-length (default: the positions) and mask; same results, bit "   \
                 "for bit"),                                                                       \
        OPT_FLAG(0, "no-special", &(to).no_special,                                                \
                 "no [CLS], [SEP]; text that spells a special token is plain text"),               \
        OPT_FLAG(0, "strict", &(to).strict, "refuse invalid UTF-8 instead of U+FFFD for it"),      \
        OPT_TEXT(0, "ids", &(to).ids, "N,N|FILE",                                                  \
                 "token ids instead of text; the tokenizer is not used")

// One sequence.
struct tokens {
    int64_t count, length; // tokens; of these not padding
    const int32_t *ids, *types;
    qkv_encoding encoding; // owns ids and types of a text
    int32_t *own;
};
// texts[2]: text and pair or NULL.  QKV_ERR_USAGE: neither text nor ids, or both; too long.
qkv_status tokens_read(struct tokens *t, const struct token_options *o, const char *dir,
                       const qkv_model *m, const char *const *texts, qkv_error *err);
// What the decoder of two stacks reads: what it begins with, then the text (NULL: refused) without
// the token that ends it.
qkv_status tokens_written(struct tokens *t, const struct token_options *o, const char *dir,
                          const qkv_model *m, const char *text, qkv_error *err);
void tokens_free(struct tokens *t);

// Sequences of ids: "N,N,..." or a file ("-": stdin) with one sequence a line, blanks or commas
// between ids.
struct id_lists {
    int32_t *ids;
    int64_t *offsets; // [count + 1]
    int64_t count;
};
qkv_status id_lists_read(struct id_lists *l, const char *text, qkv_error *err);
void id_lists_free(struct id_lists *l);
// How much was cut, what was no UTF-8: notes on stderr.  limit: tokens a text was cut to.
void tokens_notes(const struct qkv_embed_report *r, int64_t texts, int64_t limit);

#endif
