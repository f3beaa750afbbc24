// SPDX-License-Identifier: MIT
// score.h: one query taken apart: products with every key, score, scale, cap, bias, mask, softmax.
#ifndef QKV_VIEW_SCORE_H
#define QKV_VIEW_SCORE_H
#include "view/view.h"

struct score {
    const struct view_stack *v;
    int64_t layer, head, row;
    int64_t E, S, F;    // F: width of v, 0: none was given
    const float *q;     // [E]
    const float *kt;    // [E][S]
    const float *value; // [S][F]
    double own;         // what the model divides by
    double softcap;     // 0: none
    double *dot;        // [S] q . k
    double *bias;       // [S] relative and ALiBi
    bool biased;
    struct view_span seen;
    double *w;    // [S] weights as the layer has them (lse)
    double *bare; // [S] weights without the scale: divided by 1
};
// QKV_ERR_UNSUPPORTED: the layer has no q and k.  Freed with score_free.
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
// Score of a key when divided by `by`, capped and biased.
double score_at(const struct score *s, int64_t key, double by);
// w[S] = softmax of the scores divided by `by`; returns keys read, e to the entropy; slope: sum w (1 - w).
double score_softmax(double *w, const struct score *s, double by, double *slope);
// "√32" where the model divides by the root of the width, else the number.
void score_root(struct view_text *t, const struct score *s);

// Which keys get a line of their own: all up to 64, else the strongest 24 and the chosen one.
struct score_line {
    int64_t key; // -1: `n` keys from `from` on, together
    int64_t from, n;
    double w;
    bool masked;
};
enum { SCORE_LINES = 160 };
int score_lines(struct score_line out[SCORE_LINES], const struct score *s, int64_t chosen);
#endif
