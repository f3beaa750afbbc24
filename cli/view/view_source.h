// SPDX-License-Identifier: MIT
// view_source.h: where a picture comes from: a model and texts, or weights in a file.
#ifndef QKV_VIEW_SOURCE_H
#define QKV_VIEW_SOURCE_H

#include "effects.h"

// The tokens of one text as a picture takes them.
struct source_text {
    struct qkv_view_token *token; // [text.tokens]
    char (*number)[16];           // "#101": ids without a tokenizer
    char *made;                   // what was generated, behind what was given; or lines of a file
    struct qkv_view_text text;
};
// Zero before the first use; source_close frees it.
struct source {
    struct effects of; // the model; untouched where weights come from a file
    struct source_text text[2];
    struct qkv_view_text shown[2]; // of them, for the shape
    struct qkv_view_stack stack[3];
    struct qkv_view_shape shape;
    char model[256];
    qkv_view *view;
    bool given; // weights of a file
};
// What is wanted of it.
struct source_wish {
    const struct token_options *tokens;
    int64_t generate;     // tokens that a decoder writes first
    int64_t budget;       // as in qkv_view_options
    const int64_t *exact; // [exact_count] layers kept whole of long texts
    int64_t exact_count;
    bool map; // what each head does, too
};
// The model of the command line (--model) on texts[2].
qkv_status source_open(struct source *s, const char *const *texts, const struct source_wish *w,
                       qkv_error *err);
// Weights of a file: .npy of (layer, batch, head, row, key), fewer axes from the right; or
// .safetensors as `qkv trace --what attention` writes it.  tokens: a file with one a line, of the
// keys too unless keys (NULL) names theirs.
qkv_status source_given(struct source *s, const char *path, const char *tokens, const char *keys,
                        qkv_error *err);
void source_close(struct source *s);
// --stack: "encoder", "cross", or a number; NULL: 0.
qkv_status source_stack(int64_t *out, const struct source *s, const char *name, qkv_error *err);
// --token: the word as the text has it (then in either case), else a number.
qkv_status source_token(int64_t *out, const struct source *s, int64_t stack, const char *name,
                        qkv_error *err);

// ---- view_print.c ------------------------------------------------------------------------------
// path NULL: no file.
void print_view_json(const struct source *s, const struct qkv_view_options *p, const char *path,
                     const struct qkv_view_report *r);
void print_view_report(const char *path, const struct qkv_view_report *r);
void print_view_moved(const struct source *s, int64_t most);
// What is on screen as numbers: rows of the lit heads, or the marked row of each; by the ending of
// path .csv (a line a weight) or .npy (head, row, key).
qkv_status export_view(const struct source *s, const struct qkv_view_options *p, const char *path,
                       qkv_error *err);

// ---- view_run.c --------------------------------------------------------------------------------
// The checkpoints of a training run on one text, as frames of s->view; frames[*count] to be closed
// after it, and freed.
qkv_status source_training(struct source *s, struct source **frames, int64_t *count,
                           const char *run, const char *const *texts, const struct source_wish *w,
                           qkv_error *err);
#endif
