// SPDX-License-Identifier: MIT
// score_steps.h: declares the scores of one query step by step: products with every key, score,
// scale, cap, bias, mask, softmax.
#ifndef QKV_VIEW_SCORE_H
#define QKV_VIEW_SCORE_H
#include "view/data/view_data.h"

struct score {
    const struct view_stack *v;
    int64_t layer, head, row;
    int64_t E, S, F;    // F: width of v; 0: there are no values
    const float *q;     // the query [E]
    const float *kt;    // keys of its head, transposed: [E][S]
    const float *value; // values of its head [S][F]
    double own;         // number by which the model divides scores
    double softcap;     // limit of scores; 0: no limit
    double *dot;        // [S] q . k
    double *bias;       // [S] relative and ALiBi bias of each key
    bool biased;
    struct view_span seen;
    double *w;    // [S] weights of the layer (from lse)
    double *bare; // [S] weights without the scale, that is, divided by 1
};
// Computes the scores of one query (row) of one head; score_free frees them. QKV_ERR_UNSUPPORTED:
// the layer has no q and k.
qkv_status score_of(struct score *out, const struct view_stack *v, int64_t layer, int64_t head,
                    int64_t row, qkv_error *err);
void score_free(struct score *s);
static inline bool score_masked(const struct score *s, int64_t key)
{
    return key < s->seen.from || key >= s->seen.to;
}
static inline double score_k(const struct score *s, int64_t key, int64_t e)
{
    return (double)s->kt[e * s->S + key];
}
// Returns the score of a key if products are divided by `by`, with cap and biases.
double score_at(const struct score *s, int64_t key, double by);
// Computes w[S], the softmax of the scores divided by `by`. Returns the number of effective keys,
// e^entropy; *gradient: the sum of w (1 - w).
double score_softmax(double *w, const struct score *s, double by, double *gradient);
// Writes "√32" if the model divides by the root of the head width 32, otherwise the divisor.
void score_root(struct view_text *t, const struct score *s);

// One line of the list of keys. Up to 64 keys: each key has a line; more: the strongest 24 and the
// chosen one have a line, and the keys between are folded.
struct score_line {
    int64_t key; // -1: `n` folded keys from `from` on
    int64_t from, n;
    double w;
    bool masked;
};
enum { SCORE_LINES = 160 };
int score_lines(struct score_line out[SCORE_LINES], const struct score *s, int64_t chosen);
#endif
