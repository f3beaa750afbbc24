// SPDX-License-Identifier: MIT
// view_data.h: declares the attention that a view was given, layer by layer, and the rows of
// weights computed from it.
#ifndef QKV_VIEW_DATA_H
#define QKV_VIEW_DATA_H

#include "view/format_text.h"

// ---- kinds of head ------------------------------------------------------------------------------
enum view_kind {
#define QKV_KIND(id, name, glyph, ascii, threshold, target, rule) VIEW_##id,
#include "view/head_kind.def"
#undef QKV_KIND
    VIEW_KINDS // also: no kind
};
struct view_kind_row {
    const char *name, *glyph, *ascii;
    float threshold;
    const char *target, *rule; // target: what a head of this kind attends to, with *bold*
};
extern const struct view_kind_row view_kind_table[VIEW_KINDS];

// A weight with its row and key; from = -1: there is no such weight.
struct view_pair {
    int64_t from, to;
    float weight;
};
struct view_stats {
    enum view_kind kind;
    float strength;
    int64_t word; // key of a vertical head; other kinds: -1
    int64_t rows; // rows that the kind was measured on
    float keys, distance, focus;
    // Shares of the weight of rows that are not special, where A and B are the parts of a text
    // pair: A to A, A to B, B to A, B to B, and to special tokens.
    float shares[5];
    // The largest weight between two different tokens that are not special, if it is at least half
    // the uniform weight.
    struct view_pair best;
    struct view_pair same; // the same between two occurrences of a word
    int64_t not_numbers;   // rows with NaN
    int64_t not_one;       // rows of given weights that do not sum to 1
};

// The probe (statistics) of a layer, given or computed from its rows.
struct view_probe {
    int64_t k;         // number of largest weights stored per row
    int32_t *key;      // [H][T][k] keys of the largest weights, descending; -1: no more keys
    float *weight;     // [H][T][k] largest weights; all NaN if the row has NaN
    float *received;   // [H][S] attention received by each key; NULL: absent
    float *entropy;    // [H][T] entropy of each row; NULL: absent
    float *distance;   // [H][T] mean distance of each row; NULL: absent
    int64_t side;      // blocks per side of the matrix; 0: no blocks
    float *max, *mean; // [H][side][side] maximum and mean of each block
};

// The arrays of one layer; NULL: not given.
struct view_layer {
    bool filled;
    float *q;        // [H][T][E] queries, not scaled
    float *kt;       // [G][E][S] keys, transposed: the scores of a row are sums of contiguous rows
    float *lse;      // [H][T] logarithm of the sum of exp(score)
    float *weights;  // [H][T][S] weights, used if present
    float *v, *x;    // values [G][S][F], input rows [T][D]
    float *relative; // [H][2 * reach + 1] bias by distance
    float *alibi;    // [H] slope of the ALiBi bias
    int64_t reach, left, right; // < 0: unlimited
    float scale, softcap;
    struct view_probe probe; // probe.k = 0: no weights in the probe
};

// A named array with numbers for every row of one layer, for views that show tokens by layers; the
// page stores it under this name.
struct view_numbers {
    const char *name; // must be a static string
    int64_t layer, columns;
    float *at; // the numbers [T][columns]
};

// One stack: T = shape.tokens queries attend to S = shape.keys keys in each of L layers of H heads.
struct view_stack {
    struct view_shape {
        const char *model, *name;
        int64_t tokens, keys, layers, heads, kv_heads, head_width, value_width, width;
        // token[tokens] and key[keys] are the same array, except across texts.
        const struct qkv_view_token *token, *key;
        int64_t row_text, key_text;
        bool causal;
    } shape;
    int64_t visible, visible_keys; // numbers of rows and keys that are not special
    bool pair;                     // both texts of a pair have such tokens; false across texts
    int64_t *word, *key_word;      // [T], [S] first key with the same text; special: -1
    struct view_layer *layer;      // [L]
    struct view_stats *stats;      // [L][H]
    struct view_numbers *numbers;  // [numbers_count]
    int64_t numbers_count, numbers_capacity;
    struct {
        float *value; // [L][H] effect of each head; NULL: not measured
        char *unit;
        struct qkv_view_change *change; // [L][H][each] predictions that it changes
        int64_t each;
    } effects;
};

struct view_frame {
    int64_t step;
    double loss;
    const struct qkv_view *view;
};
struct qkv_view {
    struct qkv_view_shape shape;
    struct view_stack *stack;       // [shape.stacks]
    const struct qkv_view *against; // view to compare with; NULL: no comparison
    int64_t **align; // [texts][tokens] aligned token of the other view; -1: not aligned
    struct qkv_view_divergence *moved;
    int64_t moved_count;
    struct view_frame *frame;
    int64_t frames;
};

static inline bool view_across(const struct view_stack *v)
{
    return v->shape.row_text != v->shape.key_text;
}
static inline const struct view_stats *view_stats(const struct view_stack *v, int64_t layer,
                                                  int64_t head)
{
    return v->stats + layer * v->shape.heads + head;
}

// The range of keys, from .. to - 1, that a row may attend to.
struct view_span {
    int64_t from, to;
};
struct view_span view_span(const struct view_stack *v, int64_t layer, int64_t row);
// Computes s[j] = sum over e of q[e] * kt[e * ld + j], for keys j = 0 .. n - 1.
void view_scores(float *s, const float *q, const float *kt, int64_t n, int64_t E, int64_t ld);
// Turns the products s[S] into scores (scale, cap, biases) for the keys that the row may attend to;
// the others are unchanged.
void view_bias(float *s, const struct view_stack *v, int64_t layer, int64_t head, int64_t row);
// Computes the weights w[S] = exp(score - lse) of a row from its query q[E] and the keys kt[E][S];
// masked keys get 0.
void view_weights(float *w, const struct view_stack *v, const float *q, const float *kt, float lse,
                  int64_t layer, int64_t head, int64_t row);
// Computes w[S], one row of weights of a filled layer, from the arrays that the layer has.
void view_row(float *w, const struct view_stack *v, int64_t layer, int64_t head, int64_t row);
// Returns whether a layer has complete rows of weights; false if it has only a probe.
bool view_whole(const struct view_stack *v, int64_t layer);
// Returns the queries q[T][E] of a head; NULL: the layer has no queries.
const float *view_q(const struct view_stack *v, int64_t layer, int64_t head);
// Returns the transposed keys kt[E][S] of a head; NULL: the layer has no keys.
const float *view_kt(const struct view_stack *v, int64_t layer, int64_t head);

// ---- probe_gather.c: a probe of stored rows
// Computes the probe of a layer with k weights per row, and side x side blocks (0: without blocks).
// view_probe_free frees it.
qkv_status view_probe_gather(struct view_probe *to, const struct view_stack *v, int64_t layer,
                             int64_t k, int64_t side, qkv_error *err);
// Copies a probe of the library with the sizes of v; arrays that `from` lacks become NULL.
qkv_status view_probe_copy(struct view_probe *to, const struct qkv_probe *from,
                           const struct view_stack *v, qkv_error *err);
void view_probe_free(struct view_probe *p);

// ---- token_numbers.c ----------------------------------------------------------------------------
// Adds an array named `name` for a layer and returns it, [T][columns], for the caller to fill. It
// replaces an array of the same name and layer. NULL: out of memory.
float *view_numbers_add(struct view_stack *v, const char *name, int64_t layer, int64_t columns);
// Returns the array named `name` of a layer, [T][columns]; NULL: the layer has no array of this
// name.
const float *view_numbers_find(const struct view_stack *v, const char *name, int64_t layer);
void view_numbers_free(struct view_stack *v);

// ---- compare_views.c, align_tokens.c ------------------------------------------------------------
void view_compare_free(qkv_view *v);
// Computes for each token of text a the aligned token of text b, to[tokens of a]; -1: not aligned.
qkv_status view_align_tokens(int64_t *to, const struct qkv_view_text *a,
                             const struct qkv_view_text *b, qkv_error *err);

// ---- collect.c: the budget of a page, which also decides how a long text is observed ------------
static inline int64_t view_budget(int64_t given)
{
    return given > 0 ? given : 16000000;
}
// Returns the number of blocks per side, for the overview of every head, that fits into a page of
// this budget.
int64_t view_block_side(const qkv_view *v, int64_t budget);
#endif
