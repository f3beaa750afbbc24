// SPDX-License-Identifier: MIT
// view.h: the door of room view and what its files share.  Leans on base only.
//
//   view.c    collects q, k, lse      measure.c   what a head does      choose.c  what to show, words
//   encode.c  weights as bytes        pack.c      deflate, base64       html.c    the page
//   text.c    growing text, escapes   terminal.c  the terminal picture  screen.c  its colours, cells
//   web/      the page's script and style
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
};

struct qkv_view {
    struct qkv_view_shape shape;
    int64_t visible;          // tokens that are not special
    bool pair;                // both parts have such tokens
    float *q;                 // [L][H][T][E] scaled
    float *kt;                // [L][G][E][T] transposed: a row's scores are sums of whole rows
    float *lse;               // [L][H][T]
    struct view_stats *stats; // [L][H]
    int64_t *word;            // [T] first token with the same text; specials -1
    bool *filled;             // [L]
};

static inline const float *view_q(const qkv_view *v, int64_t layer, int64_t head)
{
    return v->q + (layer * v->shape.heads + head) * v->shape.tokens * v->shape.head_width;
}
static inline const float *view_kt(const qkv_view *v, int64_t layer, int64_t head)
{
    const int64_t g = head / (v->shape.heads / v->shape.kv_heads);
    return v->kt + (layer * v->shape.kv_heads + g) * v->shape.tokens * v->shape.head_width;
}
static inline const float *view_lse(const qkv_view *v, int64_t layer, int64_t head)
{
    return v->lse + (layer * v->shape.heads + head) * v->shape.tokens;
}
static inline const struct view_stats *view_stats(const qkv_view *v, int64_t layer, int64_t head)
{
    return v->stats + layer * v->shape.heads + head;
}

// s[n] = sum_e q[e] kt[e][ld], for the keys 0..n-1.
void view_scores(float *s, const float *q, const float *kt, int64_t n, int64_t E, int64_t ld);
// w[T] = exp(q.k - lse) of row `row`; 0 behind it when causal.  Returns the keys it can see.
int64_t view_weights(float *w, const qkv_view *v, const float *q, const float *kt, float lse,
                     int64_t row);

// ---- measure.c ---------------------------------------------------------------------------------
// Fills stats of one head.  scratch: view_measure_scratch(T) floats.
int64_t view_measure_scratch(int64_t T);
void view_measure(struct view_stats *out, const qkv_view *v, int64_t layer, int64_t head,
                  float *scratch);

// ---- choose.c ----------------------------------------------------------------------------------
enum { VIEW_LIT = 64 };
// What is shown first.  token -1: none.
struct view_state {
    int64_t layer, token, lit;
    int64_t head[VIEW_LIT];
    bool special;
};
// mark: a token is chosen when o names none.  QKV_ERR_USAGE: no such layer, head, token.
qkv_status view_choose(struct view_state *st, const qkv_view *v, const struct qkv_view_options *o,
                       bool mark, qkv_error *err);
bool view_shown(const qkv_view *v, const struct view_state *st, int64_t token);

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
void view_weight(struct view_text *t, double w, int digits); // ".64", "1.00"
void view_count(struct view_text *t, int64_t n);             // "12,168"
void view_json_text(struct view_text *t, const char *s,
                    size_t n); // quoted; '<' as \u003c; valid UTF-8
void view_html_text(struct view_text *t, const char *s, size_t n);
// A token for people: without joiner marks, controls visible, valid UTF-8, at most 160 bytes.
void view_token_text(struct view_text *t, const struct qkv_view_token *k, bool raw);
void view_quote(struct view_text *t, const struct qkv_view_token *k); // “it”
void view_text_free(struct view_text *t);
// The sentence; from choose.c.
void view_sentence(struct view_text *t, const qkv_view *v, const struct view_state *st);

// ---- encode.c ----------------------------------------------------------------------------------
// dense  one array w: c[H][T][T] = round(254 sqrt(w)), 255 not a number; w = c^2 / sum of c^2 in a row
// qk16   q (scaled) and k as fixed point: 14 bits in two byte planes, low then high, then step and
//        middle of each axis of each head as f32 in four planes each; lse as f32 in four planes.
//        (f16 has 11 bits for the large values, those that matter: more error in more bytes)
// qk8    q and k as int8 with one f16 scale a vector (codes, then two planes of scales); lse
// lse is taken from the stored q and k, so that a row sums to what it summed to before.
struct view_array {
    const char *name, *kind; // "w" "q" "k" "lse";  "u8" "i14" "i8" "f32"
    int64_t layer, shape[3];
    int64_t offset, bytes;
    uint32_t crc;
};
struct view_block {
    const char *kind;
    uint8_t *bytes;
    int64_t size, count;
    struct view_array *array;
    double error;
    int64_t not_numbers;
};
enum view_code { VIEW_DENSE, VIEW_QK16, VIEW_QK8, VIEW_CODES };
// Bytes before packing; -1: does not fit an int64_t.
int64_t view_block_bytes(const qkv_view *v, enum view_code code);
qkv_status view_encode(struct view_block *out, const qkv_view *v, enum view_code code,
                       qkv_error *err);
void view_block_free(struct view_block *b);

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
