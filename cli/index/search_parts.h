// SPDX-License-Identifier: MIT
// search_parts.h: declares the parts of `qkv search`.
#ifndef QKV_CLI_SEARCH_PARTS_H
#define QKV_CLI_SEARCH_PARTS_H

#include "index/index.h"

// A word of a passage with what it contributes to the cosine.
struct word_share {
    size_t begin, end; // bytes of the passage
    double term;
};
enum { SHARES = 5 }; // words of a passage that are marked
struct passage_why {
    double cosine;
    struct word_share word[SHARES]; // in the order of the passage
    int64_t count;
};

// Splits the cosine of a question and a passage into the words of the passage, and finds the words
// with the largest terms above 0 (search_why.c).
qkv_status search_why(struct passage_why *out, const qkv_embedder *e,
                      const struct cmd_texts *questions, int64_t question, const char *text,
                      size_t bytes, qkv_error *err);

// A passage that was found.
struct hit {
    int64_t row;
    float score;
    float rerank; // score of the cross-encoder
    bool reranked;
    struct passage_why why;
    bool explained;
};
// Prints the hits of one question (search_print.c).
qkv_status search_print(const struct index *x, const struct cmd_texts *questions, int64_t question,
                        const struct hit *hits, int64_t count, qkv_error *err);

// A cross-encoder that orders passages (search_rerank.c).
struct reranker {
    qkv_model *model;
    qkv_tokenizer *tokenizer;
};
qkv_status reranker_open(struct reranker *r, const char *name, qkv_error *err);
// Scores the hits of a question and sorts them by this score.
qkv_status reranker_run(const struct reranker *r, const struct index *x, const char *question,
                        size_t bytes, struct hit *hits, int64_t count, qkv_error *err);
void reranker_close(struct reranker *r); // a zeroed struct is allowed
#endif
