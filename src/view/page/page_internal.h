// SPDX-License-Identifier: MIT
// page_internal.h: declares the functions that encode the numbers of a page, fit them into the
// page's budget of bytes, and describe them.
#ifndef QKV_VIEW_PAGE_INTERNAL_H
#define QKV_VIEW_PAGE_INTERNAL_H

#include "view/data/head_stats.h"
#include "view/page/compress.h"
#include "view/data/initial_selection.h"

// ---- page_block.c, encode_layer.c, encode_top.c: encode arrays of the kinds of docs/formats.md -
struct view_array {
    const char *name, *kind;
    int64_t stack, layer, shape[3];
    int64_t offset, bytes;
    uint32_t crc;
};
enum view_code { VIEW_DENSE, VIEW_QK16, VIEW_QK8, VIEW_TOP, VIEW_CODES };
extern const char *const view_code_names[VIEW_CODES];

// How the arrays of one layer are encoded.
struct view_encoding {
    enum view_code code;
    // for VIEW_TOP: number of weights stored per row, number of blocks per side
    int64_t top, side;
    // with_qk: store q and k in addition to the weights; values: store v; input: store x
    bool with_qk, values, input;
    // store the named arrays with numbers of tokens (struct view_numbers)
    bool numbers;
    bool floats; // for VIEW_DENSE: store the weights as floats instead of 8 bits
    bool eight;  // store q, k, v and x with 8 bits per number
};
// The error of an encoded stack, summed over its rows.
struct view_loss {
    double error, kept;
    int64_t rows, not_numbers;
};
// The bytes of all arrays, and the list of the arrays in the order of their bytes. It grows layer
// by layer.
struct view_block {
    uint8_t *bytes;
    int64_t size, capacity;
    struct view_array *array;
    int64_t count, array_capacity;
    int64_t summed; // number of arrays whose CRC-32 is known
};
// Returns the size in bytes of the arrays of a layer before compression; -1: the size exceeds
// int64_t.
int64_t view_layer_bytes(const struct view_stack *v, int64_t layer,
                         const struct view_encoding *how);
// Encodes the arrays of a layer, except values and input rows, and appends them to the block.
// stack: number of the stack in the page.
qkv_status view_encode(struct view_block *b, struct view_loss *loss, const struct view_stack *v,
                       int64_t stack, int64_t layer, const struct view_encoding *how,
                       qkv_error *err);
// Encodes the values and input rows of a layer, if `how` stores them, and appends them to the
// block.
qkv_status view_encode_vectors(struct view_block *b, const struct view_stack *v, int64_t stack,
                               int64_t layer, const struct view_encoding *how, qkv_error *err);
void view_block_sum(struct view_block *b); // computes the CRC-32 of the arrays added since
// A compressed block.
struct view_packed {
    uint8_t *bytes;
    int64_t size;
    struct view_stream stream; // after the pieces of the block
    struct view_piece *piece;
};
// Compresses the block. p: zero, or the compressed block `before`; then arrays that both blocks
// begin with are not compressed again.
qkv_status view_block_pack(struct view_packed *p, const struct view_block *b,
                           const struct view_block *before, qkv_error *err);
void view_packed_free(struct view_packed *p);
void view_block_free(struct view_block *b);
// Appends an array of zeros to the block. Returns the array; NULL: memory is exhausted.
uint8_t *view_array_add(struct view_block *b, const char *name, const char *kind, int64_t stack,
                        int64_t layer, int64_t n, int64_t m, int64_t k, int64_t bytes);
// Writes the bytes of x to planes: byte b is written to p[b * n].
static inline void view_put_half(uint8_t *p, int64_t n, uint16_t x)
{
    p[0] = (uint8_t)x;
    p[n] = (uint8_t)(x >> 8);
}
void view_put_float(uint8_t *p, int64_t n, float x);
// Returns the size in bytes of a layer whose code is VIEW_TOP.
int64_t view_top_bytes(const struct view_stack *v, int64_t layer, const struct view_encoding *how);
// Returns the size in bytes of those arrays of a layer's probe that the page cannot compute from
// queries and keys.
int64_t view_coarse_bytes(const struct view_stack *v, int64_t layer);
// Appends those arrays of a layer's probe that the page cannot compute from queries and keys.
qkv_status view_encode_coarse(struct view_block *b, const struct view_stack *v, int64_t stack,
                              int64_t layer, qkv_error *err);
// Appends the arrays of a layer whose code is VIEW_TOP.
qkv_status view_encode_top(struct view_block *b, struct view_loss *loss, const struct view_stack *v,
                           int64_t stack, int64_t layer, const struct view_encoding *how,
                           qkv_error *err);

// Returns the size in bytes of a layer's named arrays (struct view_numbers).
int64_t view_numbers_bytes(const struct view_stack *v, int64_t layer);
// Appends a layer's named arrays (struct view_numbers) to the block.
qkv_status view_encode_numbers(struct view_block *b, const struct view_stack *v, int64_t stack,
                               int64_t layer, qkv_error *err);

// The code of a stored key: its distance from the row if that is at most VIEW_NEAR; if it is
// larger, VIEW_FAR and the position of the key.
enum { VIEW_NEAR = 63, VIEW_FAR = 2 * VIEW_NEAR + 1 };
// ---- page_plan.c: chooses what is stored of each layer -----------------------------------------
struct view_kept {
    struct view_encoding *how; // [layers]
    int64_t *arrays;           // [layers] number of arrays of a layer that view_encode() added
    struct view_loss loss;
    enum view_code code; // the coarsest encoding of any layer
};
struct view_plan {
    // All stored stacks in the order of the page: the stacks of the view, of the view to compare
    // with, and of the views at the steps of a training run.
    struct view_kept *stack;
    const struct view_stack **of;
    int64_t stacks;
    struct view_block block;
    struct view_packed packed;
    int64_t extra; // bytes of the optional arrays
    int64_t values_left;
};
// Chooses the finest encoding whose compressed block fits into the budget. frame: size in bytes of
// the page without the block.
qkv_status view_plan_make(struct view_plan *p, const qkv_view *v, const struct qkv_view_options *o,
                          int64_t frame, qkv_error *err);
void view_plan_free(struct view_plan *p);

// ---- page_metadata.c ----------------------------------------------------------------------------
void view_texts(struct view_text *t, const struct qkv_view_shape *s); // writes ,"texts":[...]
void view_page_metadata(struct view_text *t, const qkv_view *v, const struct view_plan *p,
                        const struct view_selection *st, const struct qkv_view_options *o);

// ---- encode_output.c ----------------------------------------------------------------------------
void view_page_output(struct view_text *t, const qkv_view *v); // writes ,"output":{...}, if any

// ---- the page, compiled in from web/ (tools/embed.cmake) ----------------------------------------
extern const unsigned char view_page[], view_style[], view_script[], view_loader[];
// true: esbuild, which minifies the script, was installed when the library was built
extern const bool view_minified;
extern const unsigned int view_page_size, view_style_size, view_script_size, view_loader_size;
// view_script is compressed (raw deflate); these are its size and SHA-256 before that.
extern const unsigned int view_script_length;
extern const unsigned char view_script_sha256[32];
// style of the views, which is a part of the script
extern const unsigned char view_view_style_sha256[32];
extern const unsigned char view_style_sha256[32], view_loader_sha256[32];
int64_t view_code_bytes(void); // the bytes of style, loader and script in a page
#endif
