// SPDX-License-Identifier: MIT
// view_source.h: declares what a view can show: a model that is run on texts, or weights from a
// file.
#ifndef QKV_VIEW_SOURCE_H
#define QKV_VIEW_SOURCE_H

#include "effects.h"
#include <qkv/lens.h>

// One text as tokens of a view.
struct source_text {
    struct qkv_view_token *token; // [text.tokens] the tokens
    char (*number)[16];           // names such as "#101", if there are only ids and no tokenizer
    char *made;                   // the text with generated tokens, or the lines of a token file
    struct qkv_view_text text;
};
// The output of the model on the text of a view (view_output.c).
struct source_output {
    int64_t stack;
    struct qkv_view_output of; // positions 0: not computed
    struct qkv_lens lens;
    char **names;
    int32_t *entry, *target;
    float *value;
    int64_t *at;
};
// The data of a view.  The caller zeroes the struct before its first use; source_close() frees it.
struct source {
    struct effects of; // the model; not used if the weights are from a file
    struct source_text text[2];
    // the texts that are shown; the shape of the view points to them.  Of an encoder-decoder: the
    // source, the tokens that the decoder reads, the tokens that it writes
    struct qkv_view_text shown[3];
    struct qkv_view_stack stack[3];
    struct qkv_view_shape shape;
    char model[256];
    qkv_view *view;
    // [tokens][width] the last hidden states; NULL: not stored (encoder-decoders, recurrent
    // models, weights from a file)
    float *hidden;
    bool given; // true: the weights are from a file
    struct source_output output;
};
// What must be computed for a view.
struct source_request {
    const char *model; // the model folder; NULL: the model of --model
    const struct token_options *tokens;
    int64_t generate; // number of tokens to generate after the text
    int64_t budget;   // bytes of the page, as in struct qkv_view_options
    // [exact_count] layers that are stored completely even if the text is long
    const int64_t *exact;
    int64_t exact_count;
    bool padding; // true: show padding tokens, as masked rows and columns
    bool map;     // true: measure the ablation effect of every head
};
// Runs the model on texts[2], and stores what w requests.
qkv_status source_open(struct source *s, const char *const *texts, const struct source_request *w,
                       qkv_error *err);
// Opens weights from a file: a .npy array with the axes (layer, batch, head, row, key), of which
// the first ones may be missing, or a .safetensors file as `qkv trace --what attention` writes it.
// tokens: a file with the names of the rows, one per line; keys: the same for the keys, NULL: the
// rows' names.
qkv_status source_given(struct source *s, const char *path, const char *tokens, const char *keys,
                        qkv_error *err);
void source_close(struct source *s);
// Finds the stack that --stack names: "encoder", "cross", or a number. name NULL: *out stays.
qkv_status source_stack(int64_t *out, const struct source *s, const char *name, qkv_error *err);
// Finds the token that --token names: a word of the text (first with the same case, then ignoring
// case), or the number of a token.
qkv_status source_token(int64_t *out, const struct source *s, int64_t stack, const char *name,
                        qkv_error *err);

// ---- view_output.c -----------------------------------------------------------------------------
// Computes the output of the model on the text and adds it to the view: the most likely tokens
// after each layer, the labels, or the shares of tokens in the vector of the text. token: a
// position that must be one of the positions of the tokens; -1: none. Returns
// QKV_ERR_UNSUPPORTED if the model has no such output.
qkv_status source_output(struct source *s, int64_t token, qkv_error *err);
void source_output_close(struct source_output *o);
// Prints ,"output":{...} if the output has been computed.
void print_output_json(const struct source *s);

// ---- view_print.c ------------------------------------------------------------------------------
// Prints the report of a view as JSON. path NULL: no file was written.
void print_view_json(const struct source *s, const struct qkv_view_options *p, const char *path,
                     const struct qkv_view_report *r);
void print_view_report(const char *path, const struct qkv_view_report *r);
void print_view_moved(const struct source *s, int64_t most);
// Writes the shown weights to a file: the rows of the selected heads, or only the marked row.  A
// .csv file has one line per weight, a .npy file is an array (head, row, key).
qkv_status export_view(const struct source *s, const struct qkv_view_options *p, const char *path,
                       qkv_error *err);

// ---- view_training.c ---------------------------------------------------------------------------
// Opens the checkpoints of a training run on one text, as frames of s->view. After closing s, the
// caller closes each of frames[*count] and frees the array.
qkv_status source_training(struct source *s, struct source **frames, int64_t *count,
                           const char *run, const char *const *texts,
                           const struct source_request *w, qkv_error *err);
#endif
