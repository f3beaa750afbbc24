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
// Prints the hits of one question (search_print.c).  number: of the question, from 0; its text is a
// heading; -1: the only question, without a heading.
qkv_status search_print(const struct index *x, int64_t number, const char *question, size_t bytes,
                        const struct hit *hits, int64_t count, qkv_error *err);

// Finds the k nearest vectors of n queries[n][width], as qkv_search does, with a graph: of about
// `ef` vectors that it finds, the nearest (search_graph.c).  The scores have the bits of
// qkv_search.
qkv_status search_graph(struct qkv_match *matches, int64_t *found, const struct index *x,
                        const struct index_graph *g, const float *queries, int64_t n, int64_t k,
                        int64_t ef, qkv_error *err);
// Compares the graph with the exact search for `sample` passages of the index as queries, without
// themselves: prints the part of the k nearest that the graph finds, and the time of both.
qkv_status search_check(const struct index *x, int64_t sample, int64_t k, int64_t ef,
                        qkv_error *err);

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
