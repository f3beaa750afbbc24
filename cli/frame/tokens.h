// SPDX-License-Identifier: MIT
// tokens.h: declares how the texts or token ids on the command line become the input of a model.
#ifndef QKV_TOKENS_H
#define QKV_TOKENS_H

#include "frame/arrays.h"

// The options of every command that runs a model on one sequence.
struct token_options {
    struct cmd_words files; // files whose contents are texts
    const char *ids;
    int64_t max_length; // maximum number of tokens; 0: the option is not given
    bool pad, truncate, strict, no_special;
    // which operands are texts: the first `words` are not, and of the next only `texts` are; 0: all
    int words, texts;
};
#define TOKEN_OPTIONS(to)                                                                          \
    OPT_GROUP("Texts and tokens"),                                                                 \
        OPT_WORDS('f', "file", &(to).files, "FILE",                                                \
                  "file whose whole content is a text, as if it were an operand before the "       \
                  "others; '-' is standard input; a second -f names a second text"),               \
        OPT_INT(0, "max-length", &(to).max_length, 1, 1 << 24, "N",                                \
                "cut the input to N tokens, including special tokens; a note on stderr reports "   \
                "the cut"),                                                                        \
        OPT_FLAG(                                                                                  \
            0, "truncate", &(to).truncate,                                                         \
            "cut a text that has more tokens than the model has positions, instead of failing"),   \
        OPT_FLAG(0, "pad", &(to).pad,                                                              \
                 "pad to --max-length tokens (default: the model's positions), which are masked; " \
                 "results are bit-identical"),                                                     \
        OPT_FLAG(                                                                                  \
            0, "no-special", &(to).no_special,                                                     \
            "do not add special tokens such as [CLS]; read text such as '[SEP]' as plain text"),   \
        OPT_FLAG(0, "strict", &(to).strict,                                                        \
                 "fail on invalid UTF-8 and on characters without a token"),                       \
        OPT_INPUT(0, "ids", &(to).ids, "N,N|FILE",                                                 \
                  "token ids instead of a text, on the command line or in a file")

// The names of enum qkv_pool from QKV_POOL_MEAN on; NULL ends the list.
extern const char *const cmd_pools[];

// The tokens of one sequence.
struct tokens {
    int64_t count, length; // count: number of tokens, including padding; length: without padding
    const int32_t *ids, *types;
    qkv_encoding encoding; // if the input is a text: owns its ids and types
    int32_t *own;
};
// Reads the files of -f, and inserts their contents as operands before (*argv)[at]. Prints a note
// on stderr if an operand that is a text is the name of a file. Returns QKV_ERR_USAGE if there are
// then more than `most` operands (-1: no maximum), if standard input is named twice, or if a file
// has no words; QKV_ERR_FORMAT if a file has a NUL byte.
qkv_status tokens_operands(const struct token_options *o, int at, int most, int *argc, char ***argv,
                           qkv_error *err);
// Tokenizes texts[2], a text and the second text of a pair (or NULL), or reads the ids of the
// option --ids. Returns QKV_ERR_USAGE if both or neither are given, or if there are too many
// tokens.
qkv_status tokens_read(struct tokens *t, const struct token_options *o, const char *dir,
                       const qkv_model *m, const char *const *texts, qkv_error *err);
// Makes the tokens of the decoder of an encoder-decoder: its start token, then the text without its
// end token.
qkv_status tokens_written(struct tokens *t, const struct token_options *o, const char *dir,
                          const qkv_model *m, const char *text, qkv_error *err);
// Makes the tokens of the decoder as tokens_written does, of the text that `qkv translate`
// generates from `source`, as far as `read` has its tokens.  Out: *text, which the caller frees,
// and *end, the end token or -1; either may be NULL.  Returns QKV_ERR_USAGE if source is NULL, as
// with --ids.
qkv_status tokens_generated(struct tokens *t, char **text, int32_t *end,
                            const struct token_options *o, const char *dir, const qkv_model *m,
                            const struct tokens *read, const char *source, qkv_error *err);
void tokens_free(struct tokens *t);

// Writes the text of one token to out[size], size >= 16: as it is decoded alone or, with `inside`,
// as it continues a text, with a space before it.  A part of a character is spelled as in the
// vocabulary, and an id without a tokenizer or a token as "#101".
void tokens_spell(char *out, size_t size, const qkv_tokenizer *t, int32_t id, bool inside);

// Lists of token ids. A sequence is an operand such as "101,2051,102", or a line of a file ("-":
// standard input) with ids separated by spaces or commas.
struct id_lists {
    int32_t *ids;
    int64_t *offsets; // [count + 1]
    int64_t count;
};
qkv_status id_lists_read(struct id_lists *l, const char *text, qkv_error *err);
void id_lists_free(struct id_lists *l);
// Prints a note on stderr that `dropped` characters have no token.  at: the byte of the first word
// with one; number: of its text, 0: there is one text.
void tokens_note_dropped(int64_t dropped, int64_t at, int64_t number);
// Prints notes on stderr about texts that were truncated, and about invalid UTF-8.  limit: the
// number of tokens to which texts were truncated.
// It also notes characters that were left out.
void tokens_notes(const struct qkv_embed_report *r, int64_t texts, int64_t limit);

#endif
