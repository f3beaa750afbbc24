// SPDX-License-Identifier: MIT
/** view.h: draws attention weights as one offline HTML file or in the terminal.
 *
 *  It depends on no model: the caller passes tokens and, for each stack and layer, either the
 *  weights or the arrays from which they are computed.  A picture has texts (lists of tokens) and
 *  stacks of attention layers.  The rows (queries) of a stack are the tokens of one text, and its
 *  keys are the tokens of the same text or, in cross-attention, of another text.  Texts, stacks,
 *  layers, heads and tokens are counted from 0.
 *
 *      qkv_view_new(&v, &shape, &err);
 *      for each layer:  qkv_view_layer(v, 0, layer, &seen, &err);
 *      qkv_view_html(v, "view.html", false, NULL, &report, &err);
 */
#ifndef QKV_VIEW_H
#define QKV_VIEW_H

#include <qkv/probe.h>

QKV_BEGIN_DECLS

/** One token of the picture. */
struct qkv_view_token {
    const char *raw; /**< the token as in the vocabulary, such as "##ing" */
    /** source text of the token, text_bytes long; if it is NULL or empty, raw is shown */
    const char *text;
    size_t text_bytes;
    uint8_t part; /**< text of a pair that contains the token: 0 first text, 1 second text */
    bool special; /**< a special token: [CLS], [SEP], ... */
    /** byte range of the token in the source of its part; empty: the token is not in the source */
    int64_t begin, end;
};

/** A list of tokens: the queries or the keys of a stack. */
struct qkv_view_text {
    const struct qkv_view_token
        *token; /**< [tokens + padding]; of a pair of texts the tokens of the first come first */
    int64_t tokens;        /**< >= 1 */
    const char *source[2]; /**< original text of each part, source_bytes long; may be NULL */
    size_t source_bytes[2];
    int64_t given; /**< index of the first generated token; 0: no token was generated */
    /** number of padding tokens, which follow in token[tokens .. tokens + padding).  They are shown
     *  as special tokens whose rows and columns are masked.  The data of a layer has neither rows
     *  nor keys for them, so that every other number is the same with and without padding */
    int64_t padding;
};

/** The attention layers of one stack.  The name is "attention" in a model with one stack, otherwise
 *  "encoder", "decoder" or "cross".  A decoder step reads one token and writes the next: `qkv view`
 *  names the rows of "decoder" by the token that is read and the rows of "cross" by the token that
 *  is written, so that its texts are the source, the tokens read and the tokens written. */
struct qkv_view_stack {
    const char *name;
    int64_t rows, keys;    /**< index of the text of the queries; index of the text of the keys */
    int64_t layers, heads; /**< >= 1 */
    int64_t kv_heads;      /**< number of key/value heads; 0: same as heads */
    int64_t head_width;    /**< width of q and k per head; 0: the caller passes neither q nor k */
    int64_t value_width;   /**< width of v per head; 0: same as head_width */
    int64_t width;         /**< width of the input rows x; 0: the caller passes no x */
    /** row i attends only to keys 0..i; rows and keys must be the same text */
    bool causal;
};

/** The contents of a picture.  The caller must keep all arrays that it points to until
 *  qkv_view_free. */
struct qkv_view_shape {
    const char *model;                /**< model name in the header of the picture */
    const struct qkv_view_text *text; /**< [texts] texts that the stacks refer to by index */
    int64_t texts;
    const struct qkv_view_stack *stack; /**< [stacks] attention stacks */
    int64_t stacks;
};

/** A picture under construction: it stores q, k and lse of every layer, or probes, in memory
 *  linear in the number of tokens. */
typedef struct qkv_view qkv_view;
/** Makes an empty picture.
 *  Returns: QKV_OK; QKV_ERR_USAGE (a size < 1, no such text, heads not a multiple of kv_heads,
 *           causal between two texts); QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_new(qkv_view **out, const struct qkv_view_shape *s,
                                               qkv_error *err);
QKV_API void qkv_view_free(qkv_view *v); /**< NULL is fine */

/** The data of one layer of a stack with T rows and S keys; qkv_view_layer copies the arrays.  The
 *  caller sets one of these three:
 *    q, k, lse   weight[i][j] = exp(score - lse[i]), where score = scale q.k; a softcap c replaces
 *                it by c tanh(score / c); then relative[h][j - i], with j - i clipped to
 *                -reach .. reach, is added and alibi[h] |i - j| is subtracted.  Keys outside
 *                i-left .. i+right, or in a causal stack outside i-left .. i, have weight 0
 *    weights     dense weights from any source; q, k and v may be set too, for views that show them
 *    probe       statistics that were collected during attention over a long text; see
 *                qkv_view_probe_request
 *  The members have the same meaning as in struct qkv_layer_output (model.h). */
struct qkv_view_layer_data {
    /** queries [T][H][E] and keys [S][G][E], after rotary positions, before scaling */
    const float *q, *k;
    const float *v;   /**< [S][G][F] values; NULL: values are not shown */
    const float *x;   /**< [T][width] input rows of the layer; NULL: they are not shown */
    const float *lse; /**< [H][T] ln of the softmax sums; -INFINITY: the row attends to no key */
    const float *weights;  /**< [H][T][S] dense weights */
    const float *relative; /**< [H][2 reach + 1] relative position bias; NULL: no bias */
    const float *alibi;    /**< [H] ALiBi slopes; NULL: no ALiBi */
    /** statistics with B = 1; at least top_k, top_weight and top_key are set */
    const struct qkv_probe *probe;
    float scale;   /**< factor of q.k; 0 means 1/sqrt(E) */
    float softcap; /**< cap c of the scores; 0: no cap */
    int64_t reach;
    bool window; /**< apply the window of left and right */
    /** number of keys before and after the query that it attends to; < 0: unlimited */
    int64_t left, right;
};
/** Returns whether the texts are too long to store q, k and lse of every layer (T*S > 2^20 in some
 *  stack).  If so, run the model with an observer that has *request, and pass each layer the probe
 *  that the observer receives, plus q, k and lse for layers that must remain exact.  budget has the
 *  meaning of qkv_view_options.  If the function returns false, *request requests no statistics. */
QKV_API bool qkv_view_probe_request(const qkv_view *v, int64_t budget,
                                    struct qkv_probe_request *request);
/** Adds one layer and computes the statistics of its heads (kind, effective keys, ...).
 *  Returns: QKV_OK; QKV_ERR_USAGE (no such stack or layer; data from which weights cannot be
 *           computed); QKV_ERR_LIMIT.  NaN weights and rows whose sum is not 1 are accepted
 *           unchanged; struct qkv_view_report counts them. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_layer(qkv_view *v, int64_t stack, int64_t layer,
                                                 const struct qkv_view_layer_data *seen,
                                                 qkv_error *err);
/** Writes the weights of one row to out[S].  A weight is NaN if q, k or lse is NaN.  If the layer
 *  was added with a probe, only the weights stored in the probe are written and the others are 0.
 *  Writes nothing if the stack, layer, head or row does not exist or the layer has not been
 *  added. */
QKV_API void qkv_view_row(const qkv_view *v, float *out, int64_t stack, int64_t layer, int64_t head,
                          int64_t row);

/** Adds the residual stream of a layer, which the view "residual" shows.  before[T][width] are the
 *  input rows of the layer.  after[] are the rows after attention, after cross-attention and after
 *  the feed-forward network (qkv_layer_output.stream); an entry is NULL if the layer lacks that
 *  sublayer.  The view stores norms and cosines of the change by each sublayer, not the rows.
 *  Returns: QKV_OK; QKV_ERR_USAGE (no such stack or layer; the width of the stack is 0);
 *           QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_residual(qkv_view *v, int64_t stack, int64_t layer,
                                                    const float *before,
                                                    const float *const after[3], qkv_error *err);

/** The behaviour of a head on this text; src/view/head_kind.def has the rule of each kind. */
struct qkv_view_head {
    /** kind of the head: "next", "same word", ...; "" for texts of fewer than 8 tokens */
    const char *kind;
    /** strength of the head: the value, 0..1, of the measure that defines its kind; 0 if the kind
     *  has no measure */
    float strength;
    int64_t word;         /**< token that a vertical head attends to; -1 for other kinds */
    float effective_keys; /**< effective keys: 2^(entropy of a row in bits), mean over rows */
    float distance;       /**< weighted mean of |i - j|, query i, key j; 0 in cross-attention */
    float focus;          /**< 1 - entropy / log(number of unmasked keys), mean over rows */
    float special;        /**< share of the weight on special tokens */
};
/** Returns the statistics of a head.  If the stack, layer or head does not exist or the layer
 *  has not been added: kind "", word -1, all other members 0. */
QKV_API struct qkv_view_head qkv_view_head(const qkv_view *v, int64_t stack, int64_t layer,
                                           int64_t head);

/** A token whose value (probability or hidden row, ablate.h) changes most when a head is ablated; a
 *  token of -1 ends the list. */
struct qkv_view_change {
    int64_t token; /**< index among the rows of the stack */
    float before, after;
};
/** Adds the ablation effects of a stack, for example from qkv_ablate_scan: effect[L][H], measured
 *  in `unit` ("nats", "1 - cos"), and changes[L][H][each], the tokens that change most when each
 *  head is ablated; changes may be NULL if each = 0.  All arrays are copied.
 *  Returns: QKV_OK; QKV_ERR_USAGE (no such stack); QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_effects(qkv_view *v, int64_t stack, const float *effect,
                                                   const char *unit,
                                                   const struct qkv_view_change *changes,
                                                   int64_t each, qkv_error *err);

/** What a model computes for a text, which the view "output" shows (qkv/lens.h computes it). */
enum qkv_view_output_kind {
    QKV_VIEW_OUTPUT_NEXT = 0,    /**< tokens after a position, by layer: a decoder */
    QKV_VIEW_OUTPUT_WRITTEN,     /**< tokens of the step that writes a position, by layer */
    QKV_VIEW_OUTPUT_MASKED,      /**< tokens at a position, by layer: an encoder that fills masks */
    QKV_VIEW_OUTPUT_SHARES,      /**< share of each position in the vector of the text */
    QKV_VIEW_OUTPUT_LABELS,      /**< probabilities of the labels of the text */
    QKV_VIEW_OUTPUT_TOKEN_LABELS /**< probabilities of the labels of a position */
};
struct qkv_view_output {
    enum qkv_view_output_kind kind;
    int64_t positions; /**< >= 1; with LABELS 1 */
    /** positions that the text has, if only some are given; smaller: same as positions */
    int64_t all;
    /** >= 1: with NEXT, WRITTEN and MASKED the embeddings, then each layer, the last row the output
     *  of the model (of a recurrent model the output alone, 1); otherwise 1 */
    int64_t rows;
    int64_t top;               /**< >= 1: entries per row, the largest first; with SHARES 1 */
    const int64_t *at;         /**< [positions] rows of the stack, ascending; NULL with LABELS */
    const char *const *name;   /**< [names] tokens or labels */
    int64_t names;             /**< >= 1 */
    const int32_t *entry;      /**< [positions][rows][top] index of a name */
    const float *value;        /**< [positions][rows][top] probability or share */
    const int32_t *target;     /**< [positions] name of the text's own token; -1: none; or NULL */
    const float *target_value; /**< [positions][rows] probability of the target */
    const int64_t
        *target_rank;   /**< [positions][rows] tokens that are more likely than the target */
    const char *detail; /**< the pooling of shares; NULL: none */
};
/** Adds the output of the model; all arrays are copied, numbers rounded to multiples of 1e-5.
 *  stack: the stack whose rows are the positions.  A second call replaces the first.
 *  Returns: QKV_OK; QKV_ERR_USAGE (no such stack, name or row; a size out of range: more than 2^24
 *           entries); QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_output_add(qkv_view *v, int64_t stack,
                                                      const struct qkv_view_output *output,
                                                      qkv_error *err);

/** The divergence between a head of this picture and the same head of another picture. */
struct qkv_view_divergence {
    int64_t stack, layer, head;
    /** mean over the aligned rows of the Jensen-Shannon divergence between the two rows, from 0
     *  (equal) to 1 (disjoint); all keys that are not aligned count as one key */
    double bits;
    int64_t rows; /**< number of aligned rows */
    /** the row with the largest change of a weight on an aligned key, times the distance of the two
     *  tokens (docs/view.md); -1: no row */
    int64_t row;
    double row_change; /**< this product */
};
/** Compares v with another complete picture that has the same number of stacks, layers and heads:
 *  another model or checkpoint on the same text, or the same model on another text.  The caller
 *  must keep the other picture until v is freed.  Tokens are aligned by byte range if the sources
 *  are equal; otherwise by their longest common run of tokens, then recursively on either side of
 *  it.  A picture compared with itself has divergence exactly 0.
 *  Returns: QKV_OK; QKV_ERR_USAGE (the stacks differ; a layer is missing); QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_compare(qkv_view *v, const qkv_view *other,
                                                   qkv_error *err);
/** Returns the divergence of each head in descending order and their number in *count, which is
 *  0 before qkv_view_compare.  v owns the array. */
QKV_API const struct qkv_view_divergence *qkv_view_divergence(const qkv_view *v, int64_t *count);

/** One checkpoint of a training run: a complete picture of the same texts, which the caller
 *  owns. */
struct qkv_view_frame {
    int64_t step;
    double loss; /**< loss at this step; NaN: unknown */
    const qkv_view *view;
};
/** Adds the checkpoints of a training run in ascending order of steps.  The page stores the weights
 *  of every head of each checkpoint, as far as the budget allows.
 *  Returns: QKV_OK; QKV_ERR_USAGE (texts or stacks differ, steps do not ascend); QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_training(qkv_view *v, const struct qkv_view_frame *frame,
                                                    int64_t frames, qkv_error *err);

enum qkv_view_theme { QKV_THEME_AUTO = 0, QKV_THEME_LIGHT, QKV_THEME_DARK };
/** The printed width of a picture: as wide as its view needs, one column (84 mm), or a page (174
 *  mm).  A picture with a printed width has its own layout: its smallest text has 6.5 points. */
enum qkv_view_size { QKV_SIZE_FREE = 0, QKV_SIZE_COLUMN, QKV_SIZE_PAGE };

/** The initial state of a picture and limits of its output; zero is the default. */
struct qkv_view_options {
    int64_t stack;
    /** layer shown first; NULL: the layer of the link with the largest weight x distance x rarity
     *  (docs/view.md): of the marked row, or of any row */
    const int64_t *layer;
    /** [head_count] heads that are selected when the page opens; NULL or head_count 0: the head of
     *  that link */
    const int64_t *heads;
    int64_t head_count;
    /** marked row; NULL: the row of that link; if heads are given, only the terminal marks it */
    const int64_t *token;
    bool special; /**< show special tokens */
    /** colours; AUTO: the theme of the reader's system in HTML, dark in the terminal */
    enum qkv_view_theme theme;
    /** view shown first: a name of qkv/view.def, "heads", "model", ...; NULL: by length of the text
     */
    const char *view;
    /** pictures only: draw neither the question nor the sentence, which then are only in the
     *  metadata of the file */
    bool plain;
    /** pictures only: the printed width */
    enum qkv_view_size size;
    // members for HTML only
    int64_t budget; /**< maximum size of the HTML file in bytes; 0: 16,000,000 */
    /** [exact_count] layers to store exactly if the budget is too small for all layers */
    const int64_t *exact;
    int64_t exact_count;
    /** how much of the arrays v and x is stored.  true, or budget > 0: as much as the budget
     *  allows; false and budget = 0: as much as fits into a file of 6,000,000 bytes */
    bool values;
    /** a JSON object, which the page gets as its member "server": the page is the answer of a
     *  server that is asked again when its reader types another text (docs/view.md), and its policy
     *  lets its script connect to that server; NULL: the page connects to nothing */
    const char *server;
    // members for the terminal only
    int columns; /**< width in characters; 0: 80 */
    /** capabilities of the terminal; without color, block characters show the weights */
    bool color, truecolor, utf8;
    bool all; /**< print the matrix even if it is wider than the terminal */
};

/** The layer, marked token and heads that a picture shows first. */
struct qkv_view_chosen {
    int64_t layer, token; /**< token -1: no marked token */
    int64_t heads[64], head_count;
};
/** Computes which layer, token and heads a picture with these options shows first.  The views
 *  "neuron" and "steps" show one query: with them the token is never -1, and head_count is 1 unless
 *  the options name heads.
 *  Returns: QKV_OK; QKV_ERR_USAGE (no such stack, layer, head, token or view; a layer has not been
 *           added); QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_choose(const qkv_view *v,
                                                  const struct qkv_view_options *o,
                                                  struct qkv_view_chosen *out, qkv_error *err);

/** Writes the sentence that answers the question of the view, generated from the data, to
 *  out[size], NUL-terminated; a sentence that is too long is truncated at a character boundary.
 *  Returns out. */
QKV_API char *qkv_view_sentence(const qkv_view *v, const struct qkv_view_options *o, char *out,
                                size_t size);

/** A description of the file that qkv_view_html wrote. */
struct qkv_view_report {
    /** how the file stores the attention weights of the first stack: "dense": all weights; "qk16",
     *  "qk8": queries and keys of 14 or 8 bits a number, from which the page computes them; "top":
     *  the largest weights of each row */
    const char *kind;
    double error; /**< largest measured error of a weight stored in the file */
    /** share of the weight of a row that is stored, mean over rows; 1 unless kind is "top" */
    double kept;
    int64_t top;            /**< stored weights per row; 0 unless kind is "top" */
    int64_t bytes, weights; /**< size of the file in bytes; number of weights of the first stack */
    int64_t not_numbers;    /**< number of rows that contain NaN */
    /** number of rows of dense weights whose sum differs from 1 by more than 1e-3 */
    int64_t not_one;
    int64_t values_left; /**< number of layers whose v did not fit into the budget */
};
/** Writes the HTML file as NAME.tmp.PID.N and renames it; equal input gives equal bytes.  o and
 *  report may be NULL.
 *  Returns: QKV_OK; QKV_ERR_USAGE (the file exists and force is false; no such stack, layer,
 *           head, token or view; server is no object); QKV_ERR_FORMAT (server is no JSON);
 *           QKV_ERR_LIMIT (memory, or over the budget: err says which budget or option is
 *           sufficient); QKV_ERR_IO. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_html(const qkv_view *v, const char *path, bool force,
                                                const struct qkv_view_options *o,
                                                struct qkv_view_report *report, qkv_error *err);
/** Renders the picture for the terminal; the caller frees *out with qkv_view_text_free.  o may be
 *  NULL.  o->view selects the view "model", "neuron", "steps", "residual" or "output"; NULL and the
 *  other views select the heads view with the matrix of one head.
 *  Returns: as qkv_view_choose; also QKV_ERR_UNSUPPORTED (views "neuron" and "steps" of a layer
 *           without q and k, "residual" of a layer without residual stream, "output" without an
 *           output); QKV_ERR_LIMIT.  After
 *           an error *out is NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_terminal(const qkv_view *v, char **out,
                                                    const struct qkv_view_options *o,
                                                    qkv_error *err);
QKV_API void qkv_view_text_free(char *text); /**< NULL is fine */

QKV_END_DECLS
#endif
