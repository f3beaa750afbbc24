// SPDX-License-Identifier: MIT
// attention_page.h: declares the page of `qkv view` for a text, from a model that is open.
#ifndef QKV_CLI_ATTENTION_PAGE_H
#define QKV_CLI_ATTENTION_PAGE_H

#include "serve/serve.h"

// Runs a model of one stack on text[bytes], which ends with NUL, and makes its view, which the
// caller frees with attention_view_free().
struct attention_view {
    qkv_view *view;
    qkv_encoding encoding;
    struct qkv_view_token *token;
    struct qkv_view_text text;
    struct qkv_view_stack stack;
    struct qkv_view_shape shape;
    // members of the run
    const atomic_bool *gone; // the run ends early if it becomes true
    struct qkv_probe_request request;
    bool probed;
    float *x; // input rows of the next layer
    qkv_error err;
};
qkv_status attention_view_make(struct attention_view *a, const struct serve_model *m,
                               const char *text, size_t bytes, const atomic_bool *gone,
                               qkv_error *err);
void attention_view_free(struct attention_view *a); // accepts a zeroed struct
// Writes the page of a view to a new block of memory, which the caller frees.
qkv_status attention_page(char **html, size_t *size, const struct attention_view *a,
                          qkv_error *err);
#endif
