// SPDX-License-Identifier: MIT
// words.h: what a word of the command line names: a place in a text, or a token of it.
#ifndef QKV_WORDS_H
#define QKV_WORDS_H

#include "cmd.h"

// The next place of a word in text[bytes], from *end on: bytes *begin .. *end, in either case.
// Whole words alone; stems: words that begin with it, taken whole, count too.  false: there is no
// more.
bool word_next(size_t *begin, size_t *end, const char *text, size_t bytes, const char *word,
               bool stems);

// A name that a token goes by; text NULL: none.
struct token_name {
    const char *text;
    size_t bytes;
};
// Which token a word names: spelled as one of names[tokens][each] (blanks in front of a name do not
// count), else so in either case, else its number.  QKV_ERR_USAGE: none; option (NULL: not named)
// is what the message begins with.
qkv_status token_find(int64_t *out, const struct token_name *names, int64_t tokens, int64_t each,
                      const char *option, const char *word, qkv_error *err);
#endif
