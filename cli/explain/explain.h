// SPDX-License-Identifier: MIT
// explain.h: declares the functions that the files of `qkv explain` share.  The command shows
// topics of the notes on self-attention with real numbers.
//
// A topic is a row of explain.def and a function that fills a page: a question as title, the answer
// as a sentence with numbers, panels, a table.  cmd_explain.c prints the page, draws it and writes
// it as JSON.
//
//   text_run.c    a model run on a text, with its activations   page.c    a page that grows
//   numbers.c  random numbers, softmax, a plane, in doubles
#ifndef QKV_EXPLAIN_H
#define QKV_EXPLAIN_H

#include "frame/charts.h"
#include "frame/tokens.h"

struct explain_options {
    struct token_options tokens;
    int64_t layer, head; // values of --layer and --head; -1: not given
    const char *token;   // --token
    int64_t width, seed; // d_k; seed of the random numbers
};
extern struct explain_options explain_options;

// ---- pages (page.c) ----------------------------------------------------------------------------
enum { EXPLAIN_PANELS = 8, EXPLAIN_SEEN = 16 };
// A page.  Memory that its functions return is valid until the page is freed.
struct page {
    char title[512], sentence[2048];
    struct qkv_chart_panel panel[EXPLAIN_PANELS];
    int64_t panels, across;
    // [panels] grid of each panel that is a grid; may be changed
    struct qkv_chart_grid *grid[EXPLAIN_PANELS];
    struct qkv_chart_table table;
    const char **cell; // texts of the cells of the table
    const char *view, *subject;
    char *lead; // text printed before the picture in the terminal; NULL: no text
    void **block;
    int64_t blocks;
    struct text_run *seen[EXPLAIN_SEEN]; // models that were run for the page, closed with it
    int seens;
};
void *page_take(struct page *p, size_t count, size_t size); // allocates zeroed memory
const char *page_text(struct page *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void page_title(struct page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void page_say(struct page *p, const char *format, ...) // appends to the sentence of the finding
    __attribute__((format(printf, 2, 3)));
struct qkv_chart_panel *page_panel(struct page *p, const char *name);
// Adds a panel with a grid of zeros.  Returns the values of the grid, for the caller to set.
float *page_grid(struct page *p, const char *name, int64_t rows, int64_t columns,
                 const char *const *row_label, const char *const *column_label,
                 enum qkv_chart_ramp ramp);
// Adds a line of n points to panel `to`.  x and y are copied; x NULL: the points have x = 0, 1, 2,
// ...
struct qkv_chart_line *page_line(struct page *p, struct qkv_chart_panel *to, const char *name,
                                 const double *x, const double *y, int64_t n);
// Adds a table with a heading; page_cell sets its cells.
void page_table(struct page *p, const char *name, int64_t rows, int64_t columns);
void page_cell(struct page *p, int64_t row, int64_t column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void page_lead(struct page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void page_free(struct page *p);

// ---- a model that was run (text_run.c) -------------------------------------------------------------
// A run of a model on a text, with its activations: of the only stack, or of the encoder of an
// encoder-decoder.
enum { SEEN_DENSE = 256 };
struct text_run {
    qkv_model *model;
    qkv_tokenizer *tokenizer; // NULL with --ids
    struct tokens tokens;
    const char *text;
    struct qkv_model_info info;
    int64_t T, L, H, G, E, F, D;
    const char **name; // [T] readable tokens
    struct seen_layer {
        float *x, *q, *k, *v, *lse; // [T][D] input, [T][H][E], [T][G][E], [T][G][F], [H][T]
        float scale, softcap, *relative;
        float *weights; // [H][T][T] from the kernel; NULL for more than SEEN_DENSE tokens
        int64_t reach, left, right;
    } * layer;   // [L]
    float *last; // [T][D]
    bool causal;
};
// Allocates a run that is closed together with the page: the names of its tokens are valid as long
// as the page.
struct text_run *text_run_take(struct page *p);
// Runs the model in folder `dir` on a text; text NULL: on the token ids of --ids.
qkv_status text_run_open(struct text_run *s, const char *dir, const char *text, qkv_error *err);
void text_run_close(struct text_run *s);
// One key of a row of scores, in doubles computed from the kernel's floats.
struct seen_key {
    double dot, scaled, bias, score, weight; // weight: exp(score - lse)
    bool masked;
};
// Computes the row out[T] of query i.  Returns the logarithm of the sum of its exponentials.
double seen_row(const struct text_run *s, int64_t layer, int64_t head, int64_t i,
                struct seen_key *out);
static inline const float *seen_q(const struct text_run *s, int64_t l, int64_t h, int64_t i)
{
    return s->layer[l].q + (i * s->H + h) * s->E;
}
static inline const float *seen_k(const struct text_run *s, int64_t l, int64_t h, int64_t j)
{
    return s->layer[l].k + (j * s->G + h / (s->H / s->G)) * s->E;
}
static inline const float *seen_v(const struct text_run *s, int64_t l, int64_t h, int64_t j)
{
    return s->layer[l].v + (j * s->G + h / (s->H / s->G)) * s->F;
}
// Writes to out[D] the row of the embedding matrix for token i.
qkv_status seen_embedding(const struct text_run *s, float *out, int64_t i, qkv_error *err);
bool seen_special(const struct text_run *s, int64_t i);
// Finds a token by its text, in upper or lower case, or by its index.  QKV_ERR_USAGE: there is no
// such token.
qkv_status text_run_find(const struct text_run *s, const char *word, int64_t *out, qkv_error *err);
// Sets *layer and *head to the ones of the options; if an option is not given, to the ones with the
// largest weight from the token to another word.
qkv_status text_run_choose(const struct text_run *s, int64_t token, int64_t *layer, int64_t *head,
                           qkv_error *err);

// ---- numbers (numbers.c) ------------------------------------------------------------------------
struct explain_random {
    uint64_t state;
};
double explain_normal(struct explain_random *r);
void explain_normals(float *x, int64_t n, double spread, struct explain_random *r);
// Computes w[n] = softmax(x[n] / by), without overflow.  Returns the logarithm of the sum of exp(x
// / by).
double explain_softmax(double *w, const double *x, int64_t n, double by);
// Runs the attention operator once and also stores its weights; allocates the scratch memory.
qkv_status explain_attend(float *out, float *weights, const float *q, const float *k,
                          const float *v, const struct qkv_attention *a, qkv_error *err);
// Computes at[n][2], the first two principal components of the rows of x[n][E] less their mean.
// *share: fraction of the variance that they keep.
void explain_plane(double *at, double *share, const float *x, int64_t n, int64_t E);

// ---- topics ------------------------------------------------------------------------------------
struct topic {
    const char *name, *help;
    int least, most; // smallest and largest number of operands
    qkv_status (*run)(struct page *p, int argc, char **argv, qkv_error *err);
};
#define TOPIC(name, run, least, most, help)                                                        \
    qkv_status run(struct page *p, int argc, char **argv, qkv_error *err);
#include "explain/explain.def"
#undef TOPIC
#endif
