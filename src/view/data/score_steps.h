// SPDX-License-Identifier: MIT
// score_steps.h: declares the scores of one query step by step: for every key, the products of the
// elements, their sum, scale, soft cap, bias, mask and softmax.
#ifndef QKV_VIEW_SCORE_STEPS_H
#define QKV_VIEW_SCORE_STEPS_H
#include "view/data/view_data.h"

struct score {
    const struct view_stack *v;
    int64_t layer, head, row;
    // E: width of the query; S: number of keys; F: width of a value, 0: there are no values
    int64_t E, S, F;
    const float *q;     // [E] the query
    const float *kt;    // [E][S] the keys of the head, transposed
    const float *value; // [S][F] the values of the head
    double own;         // the number by which the model divides the product of query and key
    double softcap;     // soft cap of scores; 0: no cap
    double *dot;        // [S] q . k
    double *bias;       // [S] sum of the relative and the ALiBi bias of each key
    bool biased;
    struct view_span span;
    double *w;    // [S] the weights, computed with the lse of the layer
    double *bare; // [S] the weights if the products were not divided
};
// Computes the scores of one query (row) of one head. score_free() frees them. Returns
// QKV_ERR_UNSUPPORTED if the layer has no queries and keys.
qkv_status score_of(struct score *out, const struct view_stack *v, int64_t layer, int64_t head,
                    int64_t row, qkv_error *err);
void score_free(struct score *s);
static inline bool score_masked(const struct score *s, int64_t key)
{
    return key < s->span.from || key >= s->span.to;
}
static inline double score_k(const struct score *s, int64_t key, int64_t e)
{
    return (double)s->kt[e * s->S + key];
}
// Returns the score of a key if the product of query and key is divided by `by`. The score includes
// cap and biases.
double score_at(const struct score *s, int64_t key, double by);
// Computes w[S], the softmax of the scores if the products are divided by `by`. Returns the number
// of effective keys, e^entropy. *gradient becomes the sum of w (1 - w); it may be NULL.
double score_softmax(double *w, const struct score *s, double by, double *gradient);
// Returns the largest score of the keys that are not masked; *sum becomes the sum of
// exp(score - largest) over them.  A weight is exp(score - largest) / sum.
double score_top(double *sum, const struct score *s);
// Writes the softmax of a key that is not masked, such as "exp(4.14 − 4.14) / 1.55 = .647". top and
// sum: from score_top().
void score_say_softmax(struct view_text *t, const struct score *s, int64_t key, double top,
                       double sum);
// Writes the question of a view, such as "How does “it” attend to “cat”?", of which `before` is the
// beginning.
void score_say_question(struct view_text *t, const struct score *s, int64_t key,
                        const char *before);
// Writes the sentence of the view "neuron": the sum of the products of a key and its weight. steps:
// also the steps between them, and whether the key is masked; without them, a drawing shows them.
void score_say_sum(struct view_text *t, const struct score *s, int64_t key, bool steps);
// Writes the divisor of the model: "√32" if it is the root of the head width 32, otherwise the
// number.
void score_root(struct view_text *t, const struct score *s);

// A line in the list of keys. If there are up to 64 keys, each key has a line. If there are more,
// the 24 keys with the largest weights and the chosen key have lines, and the keys between them are
// folded.
struct score_line {
    int64_t key; // the key; -1: this line represents the n keys, two or more, from `from` on
    int64_t from, n;
    double w;
    bool masked;
};
enum { SCORE_LINES = 160 };
int score_lines(struct score_line out[SCORE_LINES], const struct score *s, int64_t chosen);
#endif
