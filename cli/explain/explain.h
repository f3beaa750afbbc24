// SPDX-License-Identifier: MIT
// explain.h: declares the functions that the files of `qkv explain` share.  The command shows
// topics of the course on self-attention (docs/notes) with real numbers.
//
// A topic is a row of explain.def and a function that fills a page: a question as the title, a
// sentence with numbers as the answer, panels and a table.  cmd_explain.c prints the page, draws it
// and writes it as JSON.
//
//   text_run.c  runs a model on a text    page.c  builds a page and owns its memory
//   text_run_view.c  makes a view of a run and chooses what is shown
//   page_picture.c  prints a page that has a picture of attention
//   numbers.c   random numbers, softmax and principal components, in doubles
#ifndef QKV_EXPLAIN_H
#define QKV_EXPLAIN_H

#include <math.h>

#include "frame/charts.h"
#include "frame/tokens.h"

struct explain_options {
    struct token_options tokens;
    int64_t layer, head; // values of --layer and --head; -1: the option is not given
    const char *token;   // --token
    int64_t width, seed; // width: d_k, the width of queries and keys; seed: of random numbers
    const char *sizes;   // --sizes
};
extern struct explain_options explain_options;

// ---- pages (page.c) ----------------------------------------------------------------------------
enum { EXPLAIN_PANELS = 10, EXPLAIN_SEEN = 16, EXPLAIN_ARRAYS = 24 };
// An array that --json prints: numbers or texts.  n -1: a single number.
struct page_array {
    const char *name;
    const double *number;
    const char *const *text;
    int64_t n;
};
// A page.  Memory that its functions return is valid until page_free().
struct page {
    char title[512], sentence[2048];
    struct qkv_chart_panel panel[EXPLAIN_PANELS];
    int64_t panels, across;
    // [panels] the grid of each panel that has one; the caller may change it
    struct qkv_chart_grid *grid[EXPLAIN_PANELS];
    struct qkv_chart_table table;
    const char **cell; // text of each cell of the table
    // rows of the table that the terminal shows, without the panels; 0: it shows all of the page
    int64_t brief;
    const char *view, *subject;
    // A picture of attention, the view "steps" of one query, that is drawn instead of the panels;
    // NULL: the panels are drawn.  `array` has its numbers.
    qkv_view *picture;
    int64_t layer, head, token;
    bool special; // the query is a special token
    struct page_array array[EXPLAIN_ARRAYS];
    int arrays;
    char *after; // text that is printed after the picture in the terminal; NULL: no text
    void **block;
    int64_t blocks;
    struct text_run *seen[EXPLAIN_SEEN]; // the model runs of this page, which page_free() closes
    int seens;
};
// allocates zeroed memory that page_free() frees
void *page_take(struct page *p, size_t count, size_t size);
const char *page_text(struct page *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// Returns the n names "NAME0", "NAME1", ...
const char **page_numbered(struct page *p, const char *name, int64_t n);
// Returns the text of a weight, as every page and picture prints it (qkv_weight_text).
const char *page_weight(struct page *p, double w, int digits);
// Returns "less than 1e-06" for a difference x below this bound, otherwise x. Rounding errors depend
// on the instruction set; a bound far above them prints the same text on every machine.
const char *page_bound(struct page *p, double x, double bound);
void page_title(struct page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void page_say(struct page *p, const char *format, ...) // appends to the sentence of the page
    __attribute__((format(printf, 2, 3)));
struct qkv_chart_panel *page_panel(struct page *p, const char *name);
// Adds a panel with a grid of zeros.  Returns the grid's numbers, which the caller sets.
float *page_grid(struct page *p, const char *name, int64_t rows, int64_t columns,
                 const char *const *row_label, const char *const *column_label,
                 enum qkv_chart_ramp ramp);
// Adds a line of n points to panel `to`.  x and y are copied; x NULL: the x of the points are 0, 1,
// 2, ...
struct qkv_chart_line *page_line(struct page *p, struct qkv_chart_panel *to, const char *name,
                                 const double *x, const double *y, int64_t n);
// Adds a table with a heading. The caller sets its cells with page_cell().
void page_table(struct page *p, const char *name, int64_t rows, int64_t columns);
void page_cell(struct page *p, int64_t row, int64_t column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Cuts a table of the page to the rows that the terminal shows and one that counts the others, if
// there are more than one. Returns the table.
const struct qkv_chart_table *page_brief(struct page *p, struct qkv_chart_table *table);
void page_after(struct page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Adds an array to the JSON of a picture.  The caller keeps its memory until page_free().
void page_numbers(struct page *p, const char *name, const double *x, int64_t n);
void page_names(struct page *p, const char *name, const char *const *text, int64_t n);
// Writes the picture of a page to its file, if it has one, and prints it, or its numbers as JSON.
qkv_status page_print_picture(const struct page *p, const struct chart_output *to, qkv_error *err);
void page_free(struct page *p);

// Replaces the first of size[n] by the numbers of --sizes, if it is given. names: the sizes as the
// message calls them.
qkv_status explain_sizes(int64_t *size, int64_t n, const char *names, qkv_error *err);

// ---- running a model on a text (text_run.c) ----------------------------------------------------
// A model that was run on a text, with its activations. If the model is an encoder-decoder, they
// are the activations of its encoder.
enum { SEEN_DENSE = 256 };
struct text_run {
    qkv_model *model;
    qkv_tokenizer *tokenizer; // NULL if --ids replaces the text
    struct tokens tokens;
    const char *text;
    struct qkv_model_info info;
    int64_t T, L, H, G, E, F, D;
    // [T] tokens as they are written, and as they are printed: a word that occurs more than once
    // carries its place, "flies₂", as in the views
    const char **word, **name;
    struct seen_layer {
        float *x, *q, *k, *v, *lse; // [T][D] input, [T][H][E], [T][G][E], [T][G][F], [H][T]
        float scale, softcap, *relative;
        // [H][T][T] attention weights from the kernel; NULL for more than SEEN_DENSE tokens
        float *weights;
        int64_t reach, left, right;
    } * layer;   // [L]
    float *last; // [T][D]
    bool causal;
};
// Allocates a model run that page_free() closes, so that the names of its tokens are valid as long
// as the page.
struct text_run *text_run_take(struct page *p);
// Opens the model in folder `dir` and runs it on a text. text NULL: runs it on the token ids of
// --ids.
qkv_status text_run_open(struct text_run *s, const char *dir, const char *text, qkv_error *err);
void text_run_close(struct text_run *s);
// Opens the model of --model for the page and runs it on the text.  text NULL: runs it on --ids or,
// without this option, on the text `usual`.
qkv_status text_run_start(struct page *p, struct text_run **out, const char *text,
                          const char *usual, qkv_error *err);
extern const char EXPLAIN_ANIMAL[]; // the text of topics to which no text is given
// One key of a row of scores, computed in doubles from the queries and keys of the run.
struct seen_key {
    // dot: q . k; scaled: dot times the scale; score: with bias; weight: exp(score - lse)
    double dot, scaled, bias, score, weight;
    bool masked;
};
// Returns the weight of a score, exp(score - lse): at most 1, also if lse is a rounded float.
static inline double seen_weight(double score, double lse)
{
    return fmin(1, exp(score - lse));
}
// Computes the scores of query i, out[T]. Returns lse, the log of the sum of exp(score).
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
// Writes the row of the embedding matrix for token i to out[D].
qkv_status seen_embedding(const struct text_run *s, float *out, int64_t i, qkv_error *err);
// Writes the rows of the embedding matrix for all tokens to out[T][D], without positions.
qkv_status seen_embeddings(float *out, const struct text_run *s, qkv_error *err);
bool seen_special(const struct text_run *s, int64_t i);
// Finds a token by its text, ignoring case, or by its index.  Returns QKV_ERR_USAGE if there is no
// such token.
qkv_status text_run_find(const struct text_run *s, const char *option, const char *word,
                         int64_t *out, qkv_error *err);
// Returns QKV_ERR_USAGE if the run has more tokens than a topic, such as "--dense", accepts.
qkv_status text_run_limit(const struct text_run *s, const char *topic, int64_t most,
                          qkv_error *err);
// Checks that the model has the layer and head of --layer and --head.
qkv_status text_run_check(const struct text_run *s, qkv_error *err);
// Makes a view of the run (text_run_view.c). The caller frees *out, also after an error; the page
// owns memory that the view refers to.
qkv_status text_run_view(struct page *p, qkv_view **out, const struct text_run *s, qkv_error *err);
// Sets *layer, *head and *token to the values of the options. What no option names is chosen as
// `qkv view --view steps` chooses it (qkv_view_choose).
qkv_status text_run_choose(const qkv_view *v, const struct text_run *s, int64_t *layer,
                           int64_t *head, int64_t *token, qkv_error *err);

// ---- numbers (numbers.c) ------------------------------------------------------------------------
struct explain_random {
    uint64_t state;
};
double explain_uniform(struct explain_random *r); // returns a number above 0 and below 1
double explain_normal(struct explain_random *r);
void explain_normals(float *x, int64_t n, double spread, struct explain_random *r);
// Computes w[n] = softmax(x[n] / by) without overflow.  Returns the log of the sum of exp(x / by).
double explain_softmax(double *w, const double *x, int64_t n, double by);
// Runs the attention operator once, with its weights as an output. Allocates the scratch.
qkv_status explain_attend(float *out, float *weights, const float *q, const float *k,
                          const float *v, const struct qkv_attention *a, qkv_error *err);
// Computes at[n + 1][2], the first two principal components of the rows of x[n][E], and last of the
// origin.  *share becomes the fraction of the variance that they explain.
void explain_plane(double *at, double *share, const float *x, int64_t n, int64_t E);

// ---- training one head (explain_fit.c) ----------------------------------------------------------
// A regression task: for each sample a query, items, and the number that attention to the items
// shall return.
struct explain_task {
    int64_t samples, items, width;
    float *query, *item, *target; // [samples][width], [samples][items][width], [samples]
};
// A head whose W_Q and W_K are trained, with the gradients of these parameters.  The value of an
// item is its last number.
struct explain_head {
    struct qkv_multi_head m;
    struct qkv_multi_head_gradients g;
    float *parameter, *gradient; // [count]
    int64_t count;
};
// Makes a head with random parameters for queries and items of the same width.
void explain_head_new(struct page *p, struct explain_head *h, enum qkv_score score, int64_t width,
                      int64_t d_k, struct explain_random *r);
// Computes out[samples] and weights[samples][items].
qkv_status explain_head_run(float *out, float *weights, const struct explain_head *h,
                            const struct explain_task *t, qkv_error *err);
// Compares the gradient of the mean squared error with two losses: *off becomes the relative
// difference of the slope along the gradient, measured by a step of .01 to either side.
qkv_status explain_head_check(double *off, struct explain_head *h, const struct explain_task *t,
                              qkv_error *err);
// Trains the parameters by `steps` steps of Adam on the mean squared error of all samples.
qkv_status explain_head_fit(struct explain_head *h, const struct explain_task *t, int64_t steps,
                            qkv_error *err);

// Draws the task of --selection with the item at any position; the last number of each query is 1.
// *train: the number of samples to train on, the first ones; *shown: the position of the item in
// the first of the others.
struct explain_task explain_items(struct page *p, int64_t *train, int64_t *shown,
                                  struct explain_random *r); // explain_selection.c

// ---- topics ------------------------------------------------------------------------------------
// The options that not every topic uses; place: --layer and --head.
enum topic_options {
    TOPIC_PLACE = 1,
    TOPIC_WORD = 2,
    TOPIC_WIDTH = 4,
    TOPIC_SIZES = 8,
    TOPIC_SEED = 16
};
struct topic {
    const char *name, *help;
    int least, most;  // least, most: how many operands the topic takes
    unsigned options; // of enum topic_options
    qkv_status (*run)(struct page *p, int argc, char **argv, qkv_error *err);
};
#define TOPIC(name, run, least, most, options, help)                                               \
    qkv_status run(struct page *p, int argc, char **argv, qkv_error *err);
#include "explain/explain.def"
#undef TOPIC
#endif
