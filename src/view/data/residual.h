// SPDX-License-Identifier: MIT
// residual.h: declares the numbers of the residual stream: for each token, the norm of the stream
// before and after each sublayer, and the change between them, which in a post-norm model includes
// the layer norm.
#ifndef QKV_VIEW_RESIDUAL_H
#define QKV_VIEW_RESIDUAL_H

#include "view/data/view_data.h"

enum { VIEW_SUBLAYERS = 3 }; // attention, cross-attention, feed-forward network
extern const char *const view_sublayer_names[VIEW_SUBLAYERS];

// The effect of one sublayer on one token. before, after: norm of the stream before and after the
// sublayer; added: norm of their difference; cosine: between the difference and the stream before
// the sublayer, 0 if one of them is 0.
struct view_added {
    double before, added, cosine, after;
};
// The numbers of one layer. The view owns the arrays; NULL: the view does not have the array.
struct view_residual {
    const float *before, *after; // [T] sizes
    // [T][2] norm of the change, and its cosine with the stream
    const float *sublayer[VIEW_SUBLAYERS];
    int last; // index of the last sublayer of this layer
};
struct view_residual view_residual_layer(const struct view_stack *v, int64_t layer);
// Writes the indices of the sublayers that occur in some layer of the stack, in their order.
// Returns their number.
int view_residual_sublayers(const struct view_stack *v, int out[VIEW_SUBLAYERS]);
struct view_added view_residual_token(const struct view_residual *r, int sublayer, int64_t token);
// Computes the means of one sublayer over the tokens rows[n].
struct view_added view_residual_mean(const struct view_residual *r, int sublayer,
                                     const int64_t *rows, int64_t n);
// Returns the norm of the change divided by the norm of the stream, with the sign of the cosine.
double view_residual_share(const struct view_added *a);
// Returns the darkness of a share (see view_residual_share), with its sign: |share|^0.7.
double view_residual_tone(double share);
// Checks that the view has the stream of every layer. Returns QKV_ERR_UNSUPPORTED if not.
qkv_status view_residual_check(const struct view_stack *v, qkv_error *err);
// Writes the sentence that describes one token (n = 1), or the mean over several tokens rows[n].
void view_residual_sentence(struct view_text *t, const struct view_stack *v, const int64_t *rows,
                            int64_t n);
#endif
