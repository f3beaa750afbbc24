// SPDX-License-Identifier: MIT
// initial_selection.h: declares the choice of the layer, heads and token that a view shows first,
// and the sentence that describes them.
#ifndef QKV_VIEW_INITIAL_SELECTION_H
#define QKV_VIEW_INITIAL_SELECTION_H

#include "view/data/view_data.h"

// ---- initial_selection.c ------------------------------------------------------------------------
enum { VIEW_SELECTED_MOST = 64 };
// The layer, the heads and the token that a view shows. token -1: no token is marked.
struct view_selection {
    int64_t layer, token, selected;
    int64_t head[VIEW_SELECTED_MOST];
    bool special;
    bool told;    // the options name the token, or it is the row of a story (stories.h)
    bool offered; // the options name neither a token nor heads: the token is the row of a story
};
// Chooses the first selection, from the options o and the statistics of the heads. mark: if o names
// no token, choose one. Returns QKV_ERR_USAGE if o names a layer, head or token that does not
// exist.
qkv_status view_select(struct view_selection *st, const struct view_stack *v,
                       const struct qkv_view_options *o, bool mark, qkv_error *err);
// Finds the stack that o names, and checks that every layer of every stack has been added to the
// view. Returns QKV_ERR_USAGE if there is no such stack.
qkv_status view_select_stack(const struct view_stack **out, const qkv_view *v,
                             const struct qkv_view_options *o, qkv_error *err);
// Returns the key that a view of one query ("neuron", "steps") shows: `key` or, if it is -1, the
// shown key with the largest weight. *head becomes the selected head with the largest weight on it.
// row[S] is scratch.
int64_t view_pair_shown(int64_t *head, const struct view_stack *v, const struct view_selection *st,
                        int64_t key, float *row);
bool view_shown(const struct view_stack *v, const struct view_selection *st, int64_t token);
bool view_key_shown(const struct view_stack *v, const struct view_selection *st, int64_t key);
// Returns how many of `padding` tokens are shown: all of them or none.
static inline int64_t view_padding_shown(const struct view_selection *st, int64_t padding)
{
    return st->special ? padding : 0;
}

// Writes the name of a head, such as "L3.H1" or "cross.L0.H1".
void view_say_head(struct view_text *t, const struct view_stack *v, int64_t layer, int64_t head);
// Writes the sentence that describes a selection.
void view_sentence(struct view_text *t, const struct view_stack *v,
                   const struct view_selection *st);

#endif
