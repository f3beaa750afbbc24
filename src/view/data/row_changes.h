// SPDX-License-Identifier: MIT
// row_changes.h: declares the changes of one row of weights between a view and the view that it is
// compared with.
#ifndef QKV_VIEW_ROW_CHANGES_H
#define QKV_VIEW_ROW_CHANGES_H
#include "view/data/initial_selection.h"

// A shown key that both views have, with its weight in this view (a) and in the other (b).
struct view_key_change {
    int64_t key;
    float a, b;
};

// Writes to out[S] the changes of the marked row in the first selected head, largest first, and
// their number to *count; -1: the token of the row has no counterpart in the other view. Returns
// false if memory is exhausted.
bool view_row_changes(struct view_key_change *out, int64_t *count, const qkv_view *v,
                      const struct view_stack *k, const struct view_selection *st);
// Writes the sentence about these changes, such as “it” in L3.H1: “animal” .64 → .27, “street” .05
// → .13. The view compare of the page writes the same (web/views/compare.js).
void view_changes_sentence(struct view_text *t, const qkv_view *v, const struct view_stack *k,
                           const struct view_selection *st, const struct view_key_change *change,
                           int64_t count);
// Computes the changes and writes the sentence.
void view_compare_sentence(struct view_text *t, const qkv_view *v, const struct view_stack *k,
                           const struct view_selection *st);

#endif
