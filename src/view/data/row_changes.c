// SPDX-License-Identifier: MIT
// row_changes.c: lists the changes of one row of weights between two views, and describes the
// largest two.
#include "view/data/row_changes.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static int largest_first(const void *a, const void *b)
{
    const struct view_key_change *x = a, *y = b;
    const float m = fabsf(x->b - x->a), n = fabsf(y->b - y->a);
    return m != n ? (m < n ? 1 : -1) : x->key < y->key ? -1 : 1;
}

bool view_row_changes(struct view_key_change *out, int64_t *count, const qkv_view *v,
                      const struct view_stack *k, const struct view_selection *st)
{
    const struct view_stack *other = &v->against->stack[k - v->stack];
    const int64_t *keys = v->align[k->shape.key_text];
    const int64_t S = k->shape.keys, row = v->align[k->shape.row_text][st->token];
    *count = -1;
    if (row < 0) return true;
    float *a = qkv_alloc((size_t)(S + other->shape.keys), sizeof *a), *b = a ? a + S : NULL;
    if (!a) return false;
    view_row(a, k, st->layer, st->head[0], st->token);
    view_row(b, other, st->layer, st->head[0], row);
    *count = 0;
    for (int64_t j = 0; j < S; j++)
        if (keys[j] >= 0 && view_key_shown(k, st, j))
            out[(*count)++] = (struct view_key_change){ j, a[j], b[keys[j]] };
    qsort(out, (size_t)*count, sizeof *out, largest_first);
    qkv_free(a);
    return true;
}

// Returns whether no head of the stack changed, and the number of its heads.
static bool unchanged(int64_t *heads, const qkv_view *v, int64_t stack)
{
    bool equal = true;
    *heads = 0;
    for (int64_t i = 0; i < v->moved_count; i++) {
        if (v->moved[i].stack != stack) continue;
        equal = equal && fpclassify(v->moved[i].bits) == FP_ZERO;
        ++*heads;
    }
    return equal;
}

void view_changes_sentence(struct view_text *t, const qkv_view *v, const struct view_stack *k,
                           const struct view_selection *st, const struct view_key_change *change,
                           int64_t count)
{
    enum { TOLD = 2 };
    const float faint = .005f; // a smaller change would be printed as two equal numbers
    int64_t heads;
    if (unchanged(&heads, v, k - v->stack)) {
        view_say(t, "Nothing changed: all %" PRId64 " heads have the same weights, 0 bits.", heads);
        return;
    }
    view_quote_row(t, k, st->token);
    if (count < 0) {
        view_say(t, " has no counterpart in B.");
        return;
    }
    view_say(t, " in ");
    view_say_head(t, k, st->layer, st->head[0]);
    view_say(t, count ? ": " : ": no key is in both texts");
    for (int64_t n = 0; n < TOLD && n < count; n++) {
        if (n && fabsf(change[n].b - change[n].a) < faint) break;
        if (n) view_say(t, ", ");
        view_quote_key(t, k, change[n].key);
        view_say(t, " ");
        view_weight(t, (double)change[n].a, 2);
        view_say(t, " → ");
        view_weight(t, (double)change[n].b, 2);
    }
    view_say(t, ".");
}

void view_compare_sentence(struct view_text *t, const qkv_view *v, const struct view_stack *k,
                           const struct view_selection *st)
{
    int64_t count;
    struct view_key_change *change = qkv_alloc((size_t)k->shape.keys, sizeof *change);
    if (change && view_row_changes(change, &count, v, k, st))
        view_changes_sentence(t, v, k, st, change, count);
    else
        t->failed = true;
    qkv_free(change);
}
