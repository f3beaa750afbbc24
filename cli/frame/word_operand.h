// SPDX-License-Identifier: MIT
// word_operand.h: declares the search for a word of the command line in a text: for its
// occurrences, or for the token that it names.
#ifndef QKV_CLI_WORD_OPERAND_H
#define QKV_CLI_WORD_OPERAND_H

#include "frame/cmd.h"

// Finds the next occurrence of a word in text[bytes], from *end on, ignoring case. Sets *begin and
// *end to its byte range.  stems: also find longer words that begin with the word. Returns false if
// there is no further occurrence.
bool word_next(size_t *begin, size_t *end, const char *text, size_t bytes, const char *word,
               bool stems);

// A text by which a token may be named; text NULL: no such name.
struct token_name {
    const char *text;
    size_t bytes;
};
// Finds the token that a word names.  Token i has the names names[i][0 .. each - 1]; spaces at
// their start are ignored.  First a name with the same spelling is searched, then one that differs
// only in case; if there is none, the word is read as the number of a token.  Returns QKV_ERR_USAGE
// if there is no such token; the message begins with `option`, unless it is NULL.
qkv_status token_find(int64_t *out, const struct token_name *names, int64_t tokens, int64_t each,
                      const char *option, const char *word, qkv_error *err);
#endif
