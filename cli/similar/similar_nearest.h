// SPDX-License-Identifier: MIT
// similar_nearest.h: declares `qkv similar --token WORD --nearest N`, which finds the words of the
// vocabulary that are nearest to the vectors of a word.
#ifndef QKV_CLI_SIMILAR_NEAREST_H
#define QKV_CLI_SIMILAR_NEAREST_H

#include "frame/cmd.h"

struct near_word {
    char *text;
    float cosine;
};

// The nearest words of `rows` vectors.
struct near_words {
    int64_t rows, count;    // count: words per row
    int64_t tried;          // words of the vocabulary that were compared
    struct near_word *word; // [rows][count], the largest cosine first; free with near_words_free
};

// Compares v[rows][width] with the words of the vocabulary, each as a text of its own: a word is a
// token of two or more letters whose text is that one token again, besides special tokens. Words
// equal to `except`, ignoring the case of ASCII, are left out. Its vector is the last hidden state
// of this token. Sets count to less than `most` if the vocabulary has fewer words.
qkv_status near_words_find(struct near_words *out, const qkv_model *m,
                           const qkv_tokenizer *tokenizer, const float *v, int64_t rows,
                           int64_t most, const char *except, qkv_error *err);
void near_words_free(struct near_words *w);
#endif
