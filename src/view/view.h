// SPDX-License-Identifier: MIT
// view.h: the door of room view and what its files share.  Leans on base only.
//
//   what is known    view.c layers, collected   rows.c a row of weights   gather.c a probe's part
//                    measure*.c what a head does (kind.def)   against.c, align.c two pictures
//                    choose.c what is shown first, the sentence   score.c (score.h) one query
//   the page         html.c   about.c what it says of itself   web/ its script and style
//                    plan.c what fits   encode*.c weights as bytes   pack.c deflate, base64
//   what is drawn on sheet*.c (sheet.h): SVG, PNG   screen*.c (screen.h): the terminal
//                    text.c growing text, escapes
//   pictures of it   picture*.c (picture.h) on a sheet   terminal*.c (terminal.h) on a screen
//   charts           chart*.c (chart.h): numbers   plot*.c (plot.h): logs of training
#ifndef QKV_ROOM_VIEW_H
#define QKV_ROOM_VIEW_H

#include "base/base.h"
#include <qkv/view.h>

// ---- kinds -------------------------------------------------------------------------------------
enum view_kind {
#define QKV_KIND(id, name, glyph, ascii, threshold, reads, rule) VIEW_##id,
#include "view/kind.def"
#undef QKV_KIND
    VIEW_KINDS // also: no label
};
struct view_kind_row {
    const char *name, *glyph, *ascii;
    float threshold;
    const char *reads, *rule;
};
extern const struct view_kind_row view_kinds[VIEW_KINDS];

// A weight and where it stands; from -1: none.
struct view_pair {
    int64_t from, to;
    float weight;
};
struct view_stats {
    enum view_kind kind;
    float strength;
    int64_t word; // one word: its token, else -1
    int64_t rows; // rows the kind was measured on
    float keys, distance, focus;
    float shares[5]; // of the rows of tokens that are not special: A>A A>B B>A B>B, to specials
    struct view_pair best; // largest weight between two different tokens, neither special; none
                           // where even that is under half an even share
    struct view_pair same; // of these, between two places of the same word
    int64_t not_numbers;   // rows with NaN
    int64_t not_one;       // rows of given weights that do not sum to 1
};

// What a probe kept of a layer, or a pass over its rows would have.
struct view_probe {
    int64_t k;         // weights a row
    int32_t *key;      // [H][T][k], weights falling; -1: no more
    float *weight;     // [H][T][k]; all NaN where the row is no number
    float *received;   // [H][S]; NULL: not kept
    float *entropy;    // [H][T]; NULL
    float *distance;   // [H][T]; NULL
    int64_t side;      // blocks a side, 0: none
    float *max, *mean; // [H][side][side]
};

// One layer as it was given; what is NULL was not.
struct view_layer {
    bool filled;
    float *q;                   // [H][T][E], not scaled
    float *kt;                  // [G][E][S] transposed: a row's scores are sums of whole rows
    float *lse;                 // [H][T]
    float *weights;             // [H][T][S]; these count, where they are
    float *v, *x;               // [G][S][F], [T][D]
    float *relative;            // [H][2 reach + 1]
    float *alibi;               // [H]
    int64_t reach, left, right; // < 0: unlimited
    float scale, softcap;
    struct view_probe probe; // k 0: none
};

// One stack: T = shape.tokens rows that read S = shape.keys keys.
struct view_stack {
    struct view_shape {
        const char *model, *name;
        int64_t tokens, keys, layers, heads, kv_heads, head_width, value_width, width;
        const struct qkv_view_token *token, *key; // [tokens], [keys]; the same but across texts
        int64_t row_text, key_text;
        bool causal;
    } shape;
    int64_t visible, visible_keys; // rows, keys that are not special
    bool pair;                     // both parts have such tokens; never across texts
    int64_t *word, *key_word;      // [T], [S] first key with the same text; specials -1
    struct view_layer *layer;      // [L]
    struct view_stats *stats;      // [L][H]
    struct {
        float *value; // [L][H]; NULL: no map
        char *unit;
        struct qkv_view_change *change; // [L][H][each]
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
    const struct qkv_view *against; // NULL: none
    int64_t **align;                // [texts][tokens] of the other's, -1: none
    struct qkv_view_moved *moved;
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

// The keys from .. to-1 that a row may read.
struct view_span {
    int64_t from, to;
};
struct view_span view_span(const struct view_stack *v, int64_t layer, int64_t row);
// s[n] = sum_e q[e] kt[e][ld], for the keys 0..n-1.
void view_scores(float *s, const float *q, const float *kt, int64_t n, int64_t E, int64_t ld);
// s[S]: products made scores (scale, cap, biases) for the keys of the row's span; the rest stays.
void view_bias(float *s, const struct view_stack *v, int64_t layer, int64_t head, int64_t row);
// w[S] = exp(score - lse) from q[E] and kt[E][S]; 0 for keys the row does not see.
void view_weights(float *w, const struct view_stack *v, const float *q, const float *kt, float lse,
                  int64_t layer, int64_t head, int64_t row);
// w[S]: one row of a filled layer, from whatever it has.
void view_row(float *w, const struct view_stack *v, int64_t layer, int64_t head, int64_t row);
// Whether rows are whole: false where only a probe was given.
bool view_whole(const struct view_stack *v, int64_t layer);
// q[T][E] and kt[E][S] of a head; NULL where the layer has none.
const float *view_q(const struct view_stack *v, int64_t layer, int64_t head);
const float *view_kt(const struct view_stack *v, int64_t layer, int64_t head);

// ---- gather.c: a probe of rows that are at hand -------------------------------------------------
// Out: *to, freed with view_probe_free, with k weights a row and side blocks (0: none).
qkv_status view_gather(struct view_probe *to, const struct view_stack *v, int64_t layer, int64_t k,
                       int64_t side, qkv_error *err);
// A copy of what was given: sizes as in v; what from lacks is NULL.
qkv_status view_probe_copy(struct view_probe *to, const struct qkv_probe *from,
                           const struct view_stack *v, qkv_error *err);
void view_probe_free(struct view_probe *p);

// ---- measure.c, measure_top.c ------------------------------------------------------------------
// Fills stats of one head.  scratch: view_measure_scratch(v) floats.
int64_t view_measure_scratch(const struct view_stack *v);
void view_measure(struct view_stats *out, const struct view_stack *v, int64_t layer, int64_t head,
                  float *scratch);
// Adds the rows of all heads that are not numbers, and those whose weights do not sum to 1.
void view_count_odd(const struct view_stack *v, int64_t *not_numbers, int64_t *not_one);
// The same from a probe: what it did not keep counts as read by no kind.
void view_measure_top(struct view_stats *out, const struct view_stack *v, int64_t layer,
                      int64_t head, float *scratch);
// Sums over rows while a head is walked through.
struct view_walk {
    double keys, distance, focus, sink;
    int64_t rows, focus_rows;
    double sum[VIEW_KINDS]; // of the measure, and the rows it could be taken on
    int64_t n[VIEW_KINDS];
    double share[2][3]; // weight from part to part, [2]: to specials
};
bool view_is_sink(const struct view_stack *v, int64_t key);
void view_keep_larger(struct view_pair *p, int64_t from, int64_t to, float w);
// stats from the sums; got[S]: what each key received of rows without sinks.
void view_measured(struct view_stats *out, const struct view_stack *v, int64_t layer,
                   const struct view_walk *k, const float *got);

// ---- against.c ---------------------------------------------------------------------------------
void view_against_free(qkv_view *v);
// align.c: to[tokens of a] = the token of b that each is, -1: none.
qkv_status view_align(int64_t *to, const struct qkv_view_text *a, const struct qkv_view_text *b,
                      qkv_error *err);

// ---- choose.c ----------------------------------------------------------------------------------
enum { VIEW_LIT = 64 };
// What is shown first.  token -1: none.
struct view_state {
    int64_t layer, token, lit;
    int64_t head[VIEW_LIT];
    bool special;
};
// mark: a token is chosen when o names none.  QKV_ERR_USAGE: no such layer, head, token.
qkv_status view_choose(struct view_state *st, const struct view_stack *v,
                       const struct qkv_view_options *o, bool mark, qkv_error *err);
// The stack that o names, QKV_ERR_USAGE: there is none; every layer of every stack was given.
qkv_status view_choose_stack(const struct view_stack **out, const qkv_view *v,
                             const struct qkv_view_options *o, qkv_error *err);
bool view_shown(const struct view_stack *v, const struct view_state *st, int64_t token);
bool view_key_shown(const struct view_stack *v, const struct view_state *st, int64_t key);

// ---- text.c ------------------------------------------------------------------------------------
// A growing text; after a failed allocation it stays as it was, failed.
struct view_text {
    char *at;
    int64_t used, capacity;
    bool failed;
};
void view_put(struct view_text *t, const char *bytes, size_t n);
void view_say(struct view_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void view_number(struct view_text *t, double x, int digits); // "12.3", any locale; NaN "!"
void view_signed(struct view_text *t, double x, int digits); // the same with U+2212
void view_weight(struct view_text *t, double w, int digits); // ".64", "1.00"
void view_count(struct view_text *t, int64_t n);             // "12,168"
void view_json_text(struct view_text *t, const char *s,
                    size_t n);                // quoted; '<' as \u003c; valid UTF-8
int64_t view_units(const char *s, int64_t n); // UTF-16 units of bytes as JSON has them
void view_html_text(struct view_text *t, const char *s, size_t n);
bool view_is_control(int32_t code); // would move, hide or turn what stands beside it
// Any text for people: controls visible, valid UTF-8; past `most` bytes "…".
void view_plain_text(struct view_text *t, const char *s, size_t n, int64_t most);
// A token for people: without joiner marks, controls visible, valid UTF-8, at most 160 bytes.
void view_token_text(struct view_text *t, const struct qkv_view_token *k, bool raw);
void view_quote(struct view_text *t, const struct qkv_view_token *k); // “it”
// out[size > 0]: the text, cut at a character where it does not fit; after a failure "".
void view_text_copy(char *out, size_t size, const struct view_text *t);
void view_text_free(struct view_text *t);
// The sentence; from choose.c.
void view_sentence(struct view_text *t, const struct view_stack *v, const struct view_state *st);

// ---- encode.c, encode_top.c: docs/formats.md tells every kind of array ---------------------------
struct view_array {
    const char *name, *kind;
    int64_t stack, layer, shape[3];
    int64_t offset, bytes;
    uint32_t crc;
};
enum view_code { VIEW_DENSE, VIEW_QK16, VIEW_QK8, VIEW_TOP, VIEW_CODES };
extern const char *const view_code_names[VIEW_CODES];

// How one layer is kept.
struct view_how {
    enum view_code code;
    int64_t top, side;          // of TOP: weights a row, blocks a side
    bool beside, values, input; // q and k beside weights; v; x
    bool eight;                 // q, k, v, x beside in 8 bits
};
// What encoding a stack's layers lost; sums over its rows.
struct view_loss {
    double error, kept;
    int64_t rows, not_numbers;
};
// Bytes and arrays in the order they lie; grows layer by layer.
struct view_block {
    uint8_t *bytes;
    int64_t size, capacity;
    struct view_array *array;
    int64_t count, array_capacity;
};
// Bytes of a layer before packing; -1: does not fit an int64_t.
int64_t view_layer_bytes(const struct view_stack *v, int64_t layer, const struct view_how *how);
// Appends the arrays of a layer; stack: its number in the page.
qkv_status view_encode(struct view_block *b, struct view_loss *loss, const struct view_stack *v,
                       int64_t stack, int64_t layer, const struct view_how *how, qkv_error *err);
void view_block_sum(struct view_block *b); // CRC-32 of every array
void view_block_free(struct view_block *b);
// A new array at the end of the block, its bytes 0; NULL: no memory.
uint8_t *view_array_add(struct view_block *b, const char *name, const char *kind, int64_t stack,
                        int64_t layer, int64_t n, int64_t m, int64_t k, int64_t bytes);
// x as bytes in planes: byte b at p[b * n].
static inline void view_put_half(uint8_t *p, int64_t n, uint16_t x)
{
    p[0] = (uint8_t)x;
    p[n] = (uint8_t)(x >> 8);
}
void view_put_float(uint8_t *p, int64_t n, float x);
// The arrays of kind TOP.
int64_t view_top_bytes(const struct view_stack *v, int64_t layer, const struct view_how *how);
// What a probe found of the whole, beside queries and keys.
int64_t view_coarse_bytes(const struct view_stack *v, int64_t layer);
qkv_status view_encode_coarse(struct view_block *b, const struct view_stack *v, int64_t stack,
                              int64_t layer, qkv_error *err);
qkv_status view_encode_top(struct view_block *b, struct view_loss *loss, const struct view_stack *v,
                           int64_t stack, int64_t layer, const struct view_how *how,
                           qkv_error *err);

// How the key of a slot is coded: near the row by its distance, else by its place.
enum { VIEW_NEAR = 63, VIEW_FAR = 2 * VIEW_NEAR + 1 };
// ---- plan.c: what is kept of each layer under the budget ----------------------------------------
struct view_kept {
    struct view_how *how; // [layers]
    struct view_loss loss;
    enum view_code code; // of the stack as a whole: its coarsest
};
struct view_plan {
    struct view_kept *stack; // of every stack in the page: the picture's, the other's, the frames'
    const struct view_stack **of;
    int64_t stacks;
    struct view_block block;
    uint8_t *packed;
    int64_t packed_size;
    int64_t values_left;
};
// The finest that fits, encoded and packed; frame: bytes of the page beside the block.
qkv_status view_plan_make(struct view_plan *p, const qkv_view *v, const struct qkv_view_options *o,
                          int64_t frame, qkv_error *err);
void view_plan_free(struct view_plan *p);
static inline int64_t view_budget(int64_t given)
{
    return given > 0 ? given : 16000000;
}
int64_t view_side(const qkv_view *v, int64_t budget); // blocks a side that a page has room for

// ---- about.c -----------------------------------------------------------------------------------
void view_texts(struct view_text *t, const struct qkv_view_shape *s); // ,"texts":[...]
void view_about(struct view_text *t, const qkv_view *v, const struct view_plan *p,
                const struct view_state *st, const struct qkv_view_options *o);

// ---- pack.c ------------------------------------------------------------------------------------
// *out = bytes[n] as raw deflate; *size its length.  text: repeats are worth looking for.
qkv_status view_deflate(uint8_t **out, int64_t *size, const uint8_t *bytes, int64_t n, bool text,
                        qkv_error *err);
uint32_t view_crc32(const uint8_t *bytes, int64_t n);
// out[4 * ceil(n/3)], not terminated.
void view_base64(char *out, const uint8_t *bytes, int64_t n);

// ---- the page, compiled in from web/ (tools/embed.cmake) ---------------------------------------
extern const unsigned char view_page[], view_style[], view_script[];
extern const unsigned int view_page_size, view_style_size, view_script_size;
extern const unsigned char view_style_sha256[32], view_script_sha256[32];
#endif
