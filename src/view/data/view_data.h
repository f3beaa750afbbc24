// SPDX-License-Identifier: MIT
// view_data.h: declares the data of a view: the arrays of each layer that the caller added, and the
// functions that compute rows of weights from them.
#ifndef QKV_VIEW_DATA_H
#define QKV_VIEW_DATA_H

#include "view/format_text.h"

// ---- kinds of head ------------------------------------------------------------------------------
enum view_kind {
#define QKV_KIND(id, name, glyph, ascii, threshold, target, rule) VIEW_##id,
#include "view/head_kind.def"
#undef QKV_KIND
    VIEW_KINDS // the number of kinds; also means: no kind
};
struct view_kind_row {
    const char *name, *glyph, *ascii;
    float threshold;
    // target: what a head of this kind attends to, with *bold* words; rule: how the kind is
    // measured
    const char *target, *rule;
};
extern const struct view_kind_row view_kind_table[VIEW_KINDS];

// A weight and its row (from) and key (to). from = -1: there is no such weight.
struct view_pair {
    int64_t from, to;
    float weight;
};
struct view_stats {
    enum view_kind kind;
    float strength;
    int64_t word; // the key that a vertical head attends to; other kinds: -1
    int64_t rows; // number of rows on which the kind was measured
    float keys, distance, focus;
    // For a text pair (A, B): the shares of the weight from A to A, A to B, B to A, B to B, and to
    // special tokens. Rows of special tokens do not count.
    float shares[5];
    // The largest weight between two different tokens that are not special. from = -1 if it is less
    // than half the uniform weight of its row.
    struct view_pair best;
    struct view_pair same; // the same, only between two occurrences of the same word
    // the link of this head that is most worth showing (stories.h); from = -1: there is none
    struct view_pair story;
    float score;         // the score of the story
    int64_t not_numbers; // number of rows that contain NaN
    int64_t not_one;     // number of rows, of weights that the caller gave, that do not sum to 1
};

// The probe of a layer, that is, statistics of its weights. It is collected by a model run or
// computed from the rows of weights.
struct view_probe {
    int64_t k;    // how many weights of each row are stored, largest first
    int32_t *key; // [H][T][k] keys of the largest weights; -1: the row has fewer than k keys
    // [H][T][k] the largest weights in descending order; NaN: the row contains NaN
    float *weight;
    // [H][S] weight that each key receives from all rows; NULL: not in this probe
    float *received;
    float *entropy;    // [H][T] entropy of each row; NULL: not in this probe
    float *distance;   // [H][T] mean distance between a row and its keys; NULL: not in this probe
    int64_t side;      // the matrix of weights is divided into side x side blocks; 0: no blocks
    float *max, *mean; // [H][side][side] the largest weight and the mean weight of each block
};

struct view_output; // model_output.h

// The arrays of one layer. NULL: the caller did not give the array.
struct view_layer {
    bool filled;
    float *q;        // [H][T][E] queries before scaling
    float *kt;       // [G][E][S] keys, transposed, so that scores are sums of contiguous arrays
    float *lse;      // [H][T] ln of the sum of exp(score) of each row
    float *weights;  // [H][T][S] all weights; if present, they are used instead of q and kt
    float *v, *x;    // v: [G][S][F] values; x: [T][D] input rows of the layer
    float *mean;     // [H][S] mean of the rows that may attend to a key, without special tokens
    float *relative; // [H][2 * reach + 1] learned bias by distance between row and key
    float *alibi;    // [H] slope of the ALiBi bias
    int64_t reach, left, right; // < 0: unlimited
    float scale, softcap;
    struct view_probe probe; // probe.k = 0: the probe has no weights
};

// A named array with numbers for every row of one layer, such as norms of the residual stream. The
// page stores the array under this name.
struct view_numbers {
    const char *name; // name of the array; must be a string constant
    int64_t layer, columns;
    float *at; // [T][columns] the numbers
};

// A stack of L layers with H heads each. Its T = shape.tokens rows (queries) attend to S =
// shape.keys keys.
struct view_stack {
    struct view_shape {
        const char *model, *name;
        int64_t tokens, keys, layers, heads, kv_heads, head_width, value_width, width;
        // token[tokens]: the rows; key[keys]: the keys. Both are the same array, unless the queries
        // attend to another text.
        const struct qkv_view_token *token, *key;
        // number of padding tokens after the rows and after the keys, which are only shown
        int64_t row_padding, key_padding;
        int64_t row_text, key_text;
        bool causal;
    } shape;
    int64_t visible, visible_keys; // number of rows and of keys that are not special tokens
    // true: the text is a pair (A, B), and both parts have tokens that are not special
    bool pair;
    // [T] and [S] index of the first key with the same text; -1: a special token
    int64_t *word, *key_word;
    bool *repeated, *key_repeated; // [T] and [S] true: another token of the text has the same name
    struct view_layer *layer;      // [L]
    struct view_stats *stats;      // [L][H]
    struct view_numbers *numbers;  // [numbers_count] named arrays
    int64_t numbers_count, numbers_capacity;
    struct {
        float *value; // [L][H] ablation effect of each head; NULL: not measured
        char *unit;
        // [L][H][each] tokens whose prediction an ablated head changes most
        struct qkv_view_change *change;
        int64_t each;
    } effects;
    // the output of the model (model_output.h), which all stacks share, and the stack whose rows
    // are its positions; NULL: the view has none
    const struct view_output *output;
    const struct view_stack *output_stack;
    bool output_rows; // the rows of this stack are the positions, too
};

struct view_frame {
    int64_t step;
    double loss;
    const struct qkv_view *view;
};
struct qkv_view {
    struct qkv_view_shape shape;
    struct view_stack *stack;       // [shape.stacks]
    const struct qkv_view *against; // the view to compare this view with; NULL: no comparison
    // [texts][tokens] index of the aligned token of the other view; -1: not aligned
    int64_t **align;
    struct qkv_view_divergence *moved;
    int64_t moved_count;
    struct view_frame *frame;
    int64_t frames;
    struct view_output *output; // NULL: the view has no output of a model
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
// Returns true if a row of weights of the layer, which the caller gave, does not sum to 1.
static inline bool view_any_not_one(const struct view_stack *v, int64_t layer)
{
    for (int64_t h = 0; h < v->shape.heads; h++)
        if (view_stats(v, layer, h)->not_one) return true;
    return false;
}

// The keys that a row may attend to: from .. to - 1.
struct view_span {
    int64_t from, to;
};
struct view_span view_span(const struct view_stack *v, int64_t layer, int64_t row);
// The number of rows that are computed together, so that they read the keys from the cache.
enum { VIEW_ROWS = 8 };
// Copies transposed keys kt[E][S] to tiles[S * E], in the order in which view_products() reads
// them.
void view_tiles_fill(float *tiles, const float *kt, int64_t S, int64_t E);
// Computes the products of `rows` queries q[rows][E], of the rows `row` and following, with the
// keys that each row may attend to: s[i * S + j] = sum over e of q[i][e] * kt[e][j].
void view_products(float *s, const float *q, const float *tiles, const struct view_stack *v,
                   int64_t layer, int64_t row, int64_t rows);
// Turns the products s[S] into scores: applies scale, soft cap and biases. Keys that the row may
// not attend to stay unchanged.
void view_bias(float *s, const struct view_stack *v, int64_t layer, int64_t head, int64_t row);
// Returns the sum of x[n]; NaN if a number is NaN.
double view_sum(const float *x, int64_t n);
// Returns the largest of x[n], without NaN; -INFINITY if there is none.
float view_largest(const float *x, int64_t n);
// Computes w[j] = exp(s[j] - from), for j = 0 .. n - 1; w and s may be the same array.
void view_exp(float *w, const float *s, float from, int64_t n);
// Computes `rows` rows of weights from `row` on, w[rows][S], and, unless logs is NULL, the natural
// logarithms of those that are above 0, logs[rows][S]. Their layer has all weights (view_whole);
// tiles: the keys of the head (view_tiles_fill), not read if the layer has weights.
void view_rows(float *w, float *logs, const float *tiles, const struct view_stack *v, int64_t layer,
               int64_t head, int64_t row, int64_t rows);
// Computes one row of weights, w[S], from the arrays that the layer has. The layer must
// have been added to the view.
void view_row(float *w, const struct view_stack *v, int64_t layer, int64_t head, int64_t row);
// Returns true if all weights of a layer can be computed, and false if the layer has only a probe.
bool view_whole(const struct view_stack *v, int64_t layer);
// Returns the queries q[T][E] of a head; NULL: the layer has no queries.
const float *view_q(const struct view_stack *v, int64_t layer, int64_t head);
// Returns the transposed keys kt[E][S] of a head; NULL: the layer has no keys.
const float *view_kt(const struct view_stack *v, int64_t layer, int64_t head);

// ---- probe_gather.c ----------------------------------------------------------------------------
// Computes the probe of a layer: the k largest weights of each row, and side x side blocks (side 0:
// no blocks). view_probe_free() frees the probe.
qkv_status view_probe_gather(struct view_probe *to, const struct view_stack *v, int64_t layer,
                             int64_t k, int64_t side, qkv_error *err);
// Copies a probe that the attention operator filled, with the sizes of v. An array that `from` does
// not have becomes NULL.
qkv_status view_probe_copy(struct view_probe *to, const struct qkv_probe *from,
                           const struct view_stack *v, qkv_error *err);
void view_probe_free(struct view_probe *p);

// ---- token_names.c -----------------------------------------------------------------------------
// Finds the tokens whose name occurs more than once among the rows, and among the keys.
qkv_status view_names_find(struct view_stack *v, qkv_error *err);
// Write the name of a row or key; quoted, if it is not special: “it”. A name that occurs more than
// once is followed by the index of the token as subscript digits: “flies₂”.
void view_name_row(struct view_text *t, const struct view_stack *v, int64_t row);
void view_name_key(struct view_text *t, const struct view_stack *v, int64_t key);
void view_quote_row(struct view_text *t, const struct view_stack *v, int64_t row);
void view_quote_key(struct view_text *t, const struct view_stack *v, int64_t key);

// ---- token_numbers.c ----------------------------------------------------------------------------
// Adds an array [T][columns] with a name to a layer. Returns the array, for the caller to fill. An
// array of the same name in the same layer is replaced. NULL: memory is exhausted.
float *view_numbers_add(struct view_stack *v, const char *name, int64_t layer, int64_t columns);
// Returns the array [T][columns] of a layer with this name; NULL: the layer has no such array.
const float *view_numbers_find(const struct view_stack *v, const char *name, int64_t layer);
void view_numbers_free(struct view_stack *v);

// ---- compare_views.c, align_tokens.c ------------------------------------------------------------
void view_compare_free(qkv_view *v);
// Aligns the tokens of text a with text b: to[i] becomes the index in b of the token that is
// aligned with token i of a, or -1.
qkv_status view_align_tokens(int64_t *to, const struct qkv_view_text *a,
                             const struct qkv_view_text *b, qkv_error *err);

// ---- collect.c: the budget of a page; it also determines what a run collects of a long text ----
static inline int64_t view_budget(int64_t given)
{
    return given > 0 ? given : 16000000;
}
// Returns the number of blocks per side, for the small matrix of each head, such that the matrices
// fit into a page of this budget.
int64_t view_block_side(const qkv_view *v, int64_t budget);
#endif
