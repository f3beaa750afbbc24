// SPDX-License-Identifier: MIT
// view_source.h: declares the sources of a view: a model with texts, or weights in a file.
#ifndef QKV_VIEW_SOURCE_H
#define QKV_VIEW_SOURCE_H

#include "effects.h"

// The tokens of one text for a view.
struct source_text {
    struct qkv_view_token *token; // [text.tokens]
    char (*number)[16];           // "#101": ids without a tokenizer
    char *made;                   // the text with generated tokens; or the lines of a token file
    struct qkv_view_text text;
};
// The data of a view.  The caller zeroes it before the first use; source_close frees it.
struct source {
    struct effects of; // the model; unused if weights come from a file
    struct source_text text[2];
    struct qkv_view_text shown[2]; // texts that are shown; the shape points to them
    struct qkv_view_stack stack[3];
    struct qkv_view_shape shape;
    char model[256];
    qkv_view *view;
    bool given; // weights come from a file
};
// The data to compute for a view.
struct source_request {
    const char *model; // a model folder; NULL: the one of --model
    const struct token_options *tokens;
    int64_t generate;     // number of tokens to generate before the run
    int64_t budget;       // as in qkv_view_options
    const int64_t *exact; // [exact_count] layers of long texts that are stored in full
    int64_t exact_count;
    bool map; // whether to measure the ablation effects
};
// Runs the model on texts[2] and stores the requested data.
qkv_status source_open(struct source *s, const char *const *texts, const struct source_request *w,
                       qkv_error *err);
// Opens the weights in a file: a .npy array with axes (layer, batch, head, row, key), of which the
// first ones may be missing; or a .safetensors file as written by `qkv trace --what attention`.
// tokens: a file with one token per line, for the rows, and for the keys if `keys` is NULL.
qkv_status source_given(struct source *s, const char *path, const char *tokens, const char *keys,
                        qkv_error *err);
void source_close(struct source *s);
// Finds the stack that --stack names: "encoder", "cross", or a number; name NULL: stack 0.
qkv_status source_stack(int64_t *out, const struct source *s, const char *name, qkv_error *err);
// Finds the token that --token names: a word of the text, preferably in the same case, otherwise
// the number of a token.
qkv_status source_token(int64_t *out, const struct source *s, int64_t stack, const char *name,
                        qkv_error *err);

// ---- view_print.c ------------------------------------------------------------------------------
// Prints the report of a view as JSON; path NULL: no file was written.
void print_view_json(const struct source *s, const struct qkv_view_options *p, const char *path,
                     const struct qkv_view_report *r);
void print_view_report(const char *path, const struct qkv_view_report *r);
void print_view_moved(const struct source *s, int64_t most);
// Writes the shown weights as numbers: the rows of the selected heads, or only the marked row.  A
// path that ends with .csv gets one line per weight, with .npy an array (head, row, key).
qkv_status export_view(const struct source *s, const struct qkv_view_options *p, const char *path,
                       qkv_error *err);

// ---- view_training.c
// Opens the checkpoints of a training run on one text as frames of s->view.  The caller closes each
// source in frames[*count] after s, and frees the array.
qkv_status source_training(struct source *s, struct source **frames, int64_t *count,
                           const char *run, const char *const *texts,
                           const struct source_request *w, qkv_error *err);
#endif
