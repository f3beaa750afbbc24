// SPDX-License-Identifier: MIT
// residual.h: declares the numbers of the residual stream: the size of a token before and after each sublayer, and
// what the sublayer adds to it.
#ifndef QKV_VIEW_RESIDUAL_H
#define QKV_VIEW_RESIDUAL_H

#include "view/data/view_data.h"

enum { VIEW_SUBLAYERS = 3 }; // attention, cross-attention, feed-forward network
extern const char *const view_sublayer_names[VIEW_SUBLAYERS];

// The effect of one sublayer on one token. before, after: norm of the stream; added: norm of the
// difference; cosine: of the difference and the stream before it, 0 if either is 0.
struct view_added {
    double before, added, cosine, after;
};
// The numbers of one layer, borrowed from the view; NULL: not in the view.
struct view_residual {
    const float *before, *after;           // [T] sizes
    const float *sublayer[VIEW_SUBLAYERS]; // [T][2] added, cosine
    int last;                              // the last sublayer that the layer has
};
struct view_residual view_residual_layer(const struct view_stack *v, int64_t layer);
// Writes the sublayers that some layer of the stack has, in order; returns their number.
int view_residual_sublayers(const struct view_stack *v, int out[VIEW_SUBLAYERS]);
struct view_added view_residual_token(const struct view_residual *r, int sublayer, int64_t token);
// Computes the means over rows[n] of one sublayer of a layer.
struct view_added view_residual_mean(const struct view_residual *r, int sublayer,
                                     const int64_t *rows, int64_t n);
// Returns the part of its stream that a sublayer adds, with the sign of the cosine.
double view_residual_share(const struct view_added *a);
// Returns the darkness of a share with its sign: |share|^0.7.
double view_residual_tone(double share);
// Checks that every layer has its stream; QKV_ERR_UNSUPPORTED: some layer lacks it.
qkv_status view_residual_check(const struct view_stack *v, qkv_error *err);
// Writes the sentence about one token (n = 1), or about the mean of the tokens rows[n].
void view_residual_sentence(struct view_text *t, const struct view_stack *v, const int64_t *rows,
                            int64_t n);
#endif
