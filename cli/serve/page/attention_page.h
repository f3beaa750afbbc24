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
    float *x; // input rows of the next layer; after the run, the last hidden states
    qkv_error err;
};
// Rows of weights of a page: tokens x heads x layers.
enum { PAGE_ROWS = 1 << 18 };
// options: of the run; NULL: none. truncate: cut a text that is too long for the model. Returns
// QKV_ERR_LIMIT with *rows > PAGE_ROWS for a text whose page would have more rows.
qkv_status attention_view_make(struct attention_view *a, const struct serve_model *m,
                               const char *text, size_t bytes, bool truncate,
                               const struct qkv_run_options *options, const atomic_bool *gone,
                               double *rows, qkv_error *err);
void attention_view_free(struct attention_view *a); // accepts a zeroed struct
// Writes the page of a view to a new block of memory, which the caller frees. server: as in struct
// qkv_view_options.
qkv_status attention_page(char **html, size_t *size, const struct attention_view *a,
                          const char *server, qkv_error *err);

// ---- page_job.c --------------------------------------------------------------------------------
// What a page shows. The texts and the list belong to the body of the call, or to the process.
struct page_request {
    const char *text;
    size_t bytes;
    const char *against; // a second text, to compare with; NULL: none
    struct qkv_run_options options;
    const struct qkv_ablation *ablate; // [options.ablations] a copy is made
    bool truncate;                     // cut a text that is too long for the model
    bool live;                         // the script of the page asks the server again
    double temperature, top_p;         // of the next token, with `live`
};
// Answers the call with a page.
void serve_page(struct serve_call *c, struct serve_model *m, const struct page_request *r);
// Returns true if the model has pages and statistics of attention; otherwise answers the call.
bool page_possible(struct serve_call *c, const struct serve_model *m);
// Reads a list of names of heads, such as ["L3.H1"]. The caller frees *list. Returns false if the
// call was answered.
bool page_heads_read(struct serve_call *c, struct qkv_ablation **list, int64_t *n,
                     const qkv_json *v);
// Returns the member of a request that caused the error of a run: the list of heads or the text.
const char *page_param_of(const qkv_error *err);
#endif
