// SPDX-License-Identifier: MIT
// word_operand.h: declares the search for the occurrences in a text, or the token, that a word of
// the command line names.
#ifndef QKV_WORDS_H
#define QKV_WORDS_H

#include "frame/cmd.h"

// Finds the next occurrence of a word in text[bytes], searching from *end on, in upper or lower
// case. Sets *begin and *end to its byte range.  stems false: only whole words; true: also words
// that begin with it.  Returns false if there is no further occurrence.
bool word_next(size_t *begin, size_t *end, const char *text, size_t bytes, const char *word,
               bool stems);

// A name of a token; text NULL: the token has no such name.
struct token_name {
    const char *text;
    size_t bytes;
};
// Finds the token that a word names.  Each token has the names names[token][each]; leading blanks
// of a name do not count.  A name with the same spelling is preferred, then one that differs in
// case, then the word is read as the number of a token.  QKV_ERR_USAGE: there is no such token; the
// message begins with `option` unless it is NULL.
qkv_status token_find(int64_t *out, const struct token_name *names, int64_t tokens, int64_t each,
                      const char *option, const char *word, qkv_error *err);
#endif
