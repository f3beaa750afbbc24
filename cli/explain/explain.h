// SPDX-License-Identifier: MIT
// explain.h: `qkv explain`: what notes on self-attention say, run on real numbers.
//
// A topic is a row of explain.def and a function that fills a page: a question, the finding with
// its numbers, panels, a table.  The page is printed, drawn and written as JSON in one place.
//
//   seen.c    a model run on a text, kept whole      page.c    a page that grows
//   numbers.c  random numbers, softmax, a plane, in doubles
#ifndef QKV_EXPLAIN_H
#define QKV_EXPLAIN_H

#include "charts.h"
#include "tokens.h"

struct explain_options {
    struct token_options tokens;
    int64_t layer, head; // -1: not given
    const char *token;   // --token
    int64_t width, seed; // d_k, of the random numbers
};
extern struct explain_options explain_options;

// ---- pages (page.c) ----------------------------------------------------------------------------
enum { EXPLAIN_PANELS = 8, EXPLAIN_SEEN = 16 };
// Everything that is taken from a page lives until it is freed.
struct page {
    char title[512], sentence[2048];
    struct qkv_chart_panel panel[EXPLAIN_PANELS];
    int64_t panels, across;
    struct qkv_chart_grid *grid[EXPLAIN_PANELS]; // of the panels that are one, to be changed
    struct qkv_chart_table table;
    const char **cell; // of the table
    const char *view, *subject;
    char *lead; // printed before the picture in the terminal; NULL: nothing
    void **block;
    int64_t blocks;
    struct seen *seen[EXPLAIN_SEEN]; // models that were run for it, open until it goes
    int seens;
};
void *page_take(struct page *p, size_t count, size_t size); // zeroed
const char *page_text(struct page *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void page_title(struct page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void page_say(struct page *p, const char *format, ...) // one more piece of the sentence
    __attribute__((format(printf, 2, 3)));
struct qkv_chart_panel *page_panel(struct page *p, const char *name);
// A grid of zeros in a new panel: fill grid->value through the result.
float *page_grid(struct page *p, const char *name, int64_t rows, int64_t columns,
                 const char *const *row_label, const char *const *column_label,
                 enum qkv_chart_ramp ramp);
// A line of n points at the end of the panel; x and y are copied, x NULL: 0, 1, 2, ...
struct qkv_chart_line *page_line(struct page *p, struct qkv_chart_panel *to, const char *name,
                                 const double *x, const double *y, int64_t n);
void page_mark(struct page *p, struct qkv_chart_panel *to, double x, double y, const char *text,
               int hue);
// A table with a head; cells are filled by page_cell.
void page_table(struct page *p, const char *name, int64_t rows, int64_t columns);
void page_cell(struct page *p, int64_t row, int64_t column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void page_lead(struct page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void page_free(struct page *p);

// ---- a model that was run (seen.c) -------------------------------------------------------------
// Of the only stack, or of the encoder of two.
enum { SEEN_DENSE = 256 };
struct seen {
    qkv_model *model;
    qkv_tokenizer *tokenizer; // NULL with --ids
    struct tokens tokens;
    const char *text;
    struct qkv_model_info info;
    int64_t T, L, H, G, E, F, D;
    const char **name; // [T] tokens for people
    struct seen_layer {
        float *x, *q, *k, *v, *lse; // [T][D] what came in, [T][H][E], [T][G][E], [T][G][F], [H][T]
        float scale, softcap, *relative;
        float *weights; // [H][T][T] as the kernel formed them; NULL for more than SEEN_DENSE tokens
        int64_t reach, left, right;
    } * layer;   // [L]
    float *last; // [T][D]
    bool causal;
};
// A place for one, closed with the page: names stay until the page was shown.
struct seen *seen_take(struct page *p);
// text NULL: --ids.
qkv_status seen_open(struct seen *s, const char *dir, const char *text, qkv_error *err);
void seen_close(struct seen *s);
// One key of a row, in doubles from the floats that the kernel had.
struct seen_key {
    double dot, scaled, bias, score, weight; // weight: exp(score - lse)
    bool masked;
};
// out[T] of query i; the result is ln of the softmax sum, computed here.
double seen_row(const struct seen *s, int64_t layer, int64_t head, int64_t i, struct seen_key *out);
static inline const float *seen_q(const struct seen *s, int64_t l, int64_t h, int64_t i)
{
    return s->layer[l].q + (i * s->H + h) * s->E;
}
static inline const float *seen_k(const struct seen *s, int64_t l, int64_t h, int64_t j)
{
    return s->layer[l].k + (j * s->G + h / (s->H / s->G)) * s->E;
}
static inline const float *seen_v(const struct seen *s, int64_t l, int64_t h, int64_t j)
{
    return s->layer[l].v + (j * s->G + h / (s->H / s->G)) * s->F;
}
// out[D] = the row of token i in the table of embeddings.
qkv_status seen_embedding(const struct seen *s, float *out, int64_t i, qkv_error *err);
bool seen_special(const struct seen *s, int64_t i);
// The token named so: as the text has it, in either case, or its number.  QKV_ERR_USAGE: none.
qkv_status seen_find(const struct seen *s, const char *word, int64_t *out, qkv_error *err);
// Layer and head as given, or those that give the most of the token to another word further off.
qkv_status seen_choose(const struct seen *s, int64_t token, int64_t *layer, int64_t *head,
                       qkv_error *err);

// ---- numbers (numbers.c) ------------------------------------------------------------------------
struct explain_random {
    uint64_t state;
};
double explain_normal(struct explain_random *r);
void explain_normals(float *x, int64_t n, double spread, struct explain_random *r);
// w[n] = softmax of x[n] / by, stable.  Returns ln of the sum of exp(x / by).
double explain_softmax(double *w, const double *x, int64_t n, double by);
double explain_entropy(const double *w, int64_t n); // nats
// The operator once, with its dense weights; memory for it is taken here.
qkv_status explain_attend(float *out, float *weights, const float *q, const float *k,
                          const float *v, const struct qkv_attention *a, qkv_error *err);
// The two directions of x[n][E] with the most spread, rows taken from their mean: at[n][2].
// share: of the spread that the two keep.
void explain_plane(double *at, double *share, const float *x, int64_t n, int64_t E);

// ---- topics ------------------------------------------------------------------------------------
struct topic {
    const char *name, *help;
    int least, most; // operands
    qkv_status (*run)(struct page *p, int argc, char **argv, qkv_error *err);
};
#define TOPIC(name, run, least, most, help)                                                        \
    qkv_status run(struct page *p, int argc, char **argv, qkv_error *err);
#include "explain.def"
#undef TOPIC
#endif
