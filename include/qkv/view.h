// SPDX-License-Identifier: MIT
/** view.h: attention as a picture: one offline HTML file, or the terminal.
 *
 *  Knows no model: it is given tokens and, stack by stack and layer by layer, what the weights can
 *  be computed from, or the weights themselves.  A picture has texts (lists of tokens) and stacks:
 *  the rows of a stack are tokens of one text, its keys of one text (the same, but for cross
 *  attention).  Texts, stacks, layers, heads and tokens are counted from 0.
 *
 *      qkv_view_new(&v, &shape, &err);
 *      for each layer:  qkv_view_layer(v, 0, layer, &seen, &err);
 *      qkv_view_html(v, "view.html", false, NULL, &report, &err);
 */
#ifndef QKV_VIEW_H
#define QKV_VIEW_H

#include <qkv/probe.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One token of the picture. */
struct qkv_view_token {
    const char *raw;  /**< as the tokenizer has it, "##ing" */
    const char *text; /**< the bytes it came from, length text_bytes; NULL or 0 bytes: as raw */
    size_t text_bytes;
    uint8_t part;       /**< 0 sentence A, 1 sentence B */
    bool special;       /**< [CLS], [SEP], ... */
    int64_t begin, end; /**< bytes in the source of its part; equal: stands nowhere in it */
};

/** What is read, or what reads. */
struct qkv_view_text {
    const struct qkv_view_token *token; /**< [tokens], those of part 0 first */
    int64_t tokens;                     /**< >= 1 */
    const char *source[2]; /**< the text of each part as it was given, source_bytes long; or NULL */
    size_t source_bytes[2];
    int64_t given; /**< tokens from here on were written by the model; 0: none were */
};

/** Layers of attention of one kind.  name: "attention", or "encoder", "decoder", "cross". */
struct qkv_view_stack {
    const char *name;
    int64_t rows, keys;    /**< which texts */
    int64_t layers, heads; /**< >= 1 */
    int64_t kv_heads;      /**< 0: heads */
    int64_t head_width;    /**< of q and k; 0: neither will be given */
    int64_t value_width;   /**< of v; 0: head_width */
    int64_t width;         /**< of the input rows x; 0: will not be given */
    bool causal;           /**< row i reads keys 0..i only; rows and keys are one text */
};

/** What is shown; everything it points at is borrowed until qkv_view_free. */
struct qkv_view_shape {
    const char *model;                /**< name for the header */
    const struct qkv_view_text *text; /**< [texts] */
    int64_t texts;
    const struct qkv_view_stack *stack; /**< [stacks] */
    int64_t stacks;
};

/** A picture being collected: q, k and lse of every layer, or probes: linear in tokens. */
typedef struct qkv_view qkv_view;
/** Returns: QKV_OK; QKV_ERR_USAGE (a size < 1, no such text, heads not a multiple of kv_heads,
 *  causal between two texts); QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_new(qkv_view **out, const struct qkv_view_shape *s,
                                               qkv_error *err);
QKV_API void qkv_view_free(qkv_view *v);

/** One layer of a stack with T rows and S keys; its arrays are copied.  One of three:
 *    q, k, lse   weight[i][j] = exp(score - lse[i]), score = scale q.k; with a softcap c:
 *                c tanh(score / c); then + relative[h][j - i], cut to -reach .. reach;
 *                - alibi[h] |i - j|; for the keys i-left .. i+right, and not behind i if causal
 *    weights     dense weights from anywhere; q, k, v beside them for the views that show vectors
 *    probe       what the operator itself kept of a long text: see qkv_view_wish
 *  The members are those of qkv_layer_seen, which can be handed over one by one. */
struct qkv_view_seen {
    const float *q, *k;            /**< [T][H][E], [S][G][E]; positions applied, not scaled */
    const float *v;                /**< [S][G][F]; NULL: not shown */
    const float *x;                /**< [T][width] rows that the layer read; NULL: not shown */
    const float *lse;              /**< [H][T]; -INFINITY: the row reads nothing */
    const float *weights;          /**< [H][T][S] */
    const float *relative;         /**< [H][2 reach + 1] */
    const float *alibi;            /**< [H] */
    const struct qkv_probe *probe; /**< B = 1; top_k, top_weight and top_key at least */
    float scale;                   /**< 0: 1/sqrt(E) */
    float softcap;                 /**< 0: none */
    int64_t reach;
    bool window;         /**< left and right hold */
    int64_t left, right; /**< < 0: unlimited */
};
/** Whether the texts are too long for q, k and lse of every layer to be kept (some T*S over 2^20):
 *  then a run should be watched with *wish, and each layer given the probe it shows; q, k and lse
 *  beside it where the layer is to stay exact.  budget: as in qkv_view_options.
 *  false: *wish asks for nothing. */
QKV_API bool qkv_view_wish(const qkv_view *v, int64_t budget, struct qkv_probe_wish *wish);
/** Each head is measured here (its kind, keys read, ...).
 *  Returns: QKV_OK; QKV_ERR_USAGE (no such stack or layer, nothing to compute weights from);
 *  QKV_ERR_LIMIT.  Weights that are no numbers, or rows that do not sum to 1, are taken as they
 *  are: qkv_view_report counts them. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_layer(qkv_view *v, int64_t stack, int64_t layer,
                                                 const struct qkv_view_seen *seen, qkv_error *err);
/** out[S] = weights of one row; NaN where q, k or lse have it; from a probe what it kept, else 0.
 *  No such stack, layer, head or row, or a layer that was not given: nothing is written. */
QKV_API void qkv_view_row(const qkv_view *v, float *out, int64_t stack, int64_t layer, int64_t head,
                          int64_t row);

/** What a head does on this text; the rule of each kind: src/view/kind.def. */
struct qkv_view_head {
    const char *kind; /**< "next", "same word", ...; "" under 8 tokens */
    float strength;   /**< the measure of the kind, 0..1; 0: has none */
    int64_t word;     /**< one word: the token read; else -1 */
    float keys_read;  /**< 2 to the entropy of a row in bits, mean over rows */
    float distance;   /**< tokens between reader and read, mean by weight; 0 in cross attention */
    float focus;      /**< 1 - entropy / log of the keys visible, mean over rows */
    float special;    /**< share of the weight that goes to special tokens */
};
/** No such stack, layer or head, or a layer that was not given: kind "", word -1, the rest 0. */
QKV_API struct qkv_view_head qkv_view_head(const qkv_view *v, int64_t stack, int64_t layer,
                                           int64_t head);

/** What changes most when a head is taken away; token -1: no more. */
struct qkv_view_change {
    int64_t token; /**< of the stack's rows */
    float before, after;
};
/** The map of effects (qkv ablate): effect[L][H] of a stack, what it counts ("nats", "1 - cos"),
 *  and of every head its changes[L][H][each], or NULL with each 0.  Copied.
 *  Returns: QKV_OK; QKV_ERR_USAGE (no such stack); QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_effects(qkv_view *v, int64_t stack, const float *effect,
                                                   const char *unit,
                                                   const struct qkv_view_change *changes,
                                                   int64_t each, qkv_error *err);

/** How far a head of this picture is from the same head of another. */
struct qkv_view_moved {
    int64_t stack, layer, head;
    double bits;  /**< mean over aligned rows of the Jensen-Shannon divergence of the two rows on
                       aligned keys, all others as one more key: 0 alike .. 1 nothing in common */
    int64_t rows; /**< compared */
};
/** Another picture of the same stacks (as many layers and heads), complete and borrowed until
 *  qkv_view_free: another model or checkpoint on the same text, or the same model on another text.
 *  Tokens are aligned by their places where the sources are the same, else by the longest common
 *  run of tokens, the rest of either side of it likewise.  A picture with itself: exactly 0.
 *  Returns: QKV_OK; QKV_ERR_USAGE (other stacks; a layer was not given); QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_against(qkv_view *v, const qkv_view *other,
                                                   qkv_error *err);
/** The heads, farthest first; *count of them, 0 before qkv_view_against.  Borrowed. */
QKV_API const struct qkv_view_moved *qkv_view_moved(const qkv_view *v, int64_t *count);

/** One moment of a training run: a complete picture of the same texts and stacks; borrowed. */
struct qkv_view_frame {
    int64_t step;
    double loss; /**< NaN: not known */
    const qkv_view *view;
};
/** The frames of a run, steps rising; of each the weights of every head, as the budget allows.
 *  Returns: QKV_OK; QKV_ERR_USAGE (other texts or stacks, steps that do not rise);
 *  QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_training(qkv_view *v, const struct qkv_view_frame *frame,
                                                    int64_t frames, qkv_error *err);

enum qkv_view_theme { QKV_THEME_AUTO = 0, QKV_THEME_LIGHT, QKV_THEME_DARK };

/** What to show first.  Zero is the default. */
struct qkv_view_options {
    int64_t stack;
    const int64_t *layer; /**< NULL: the most telling */
    const int64_t *heads; /**< [head_count] lit; NULL: chosen */
    int64_t head_count;
    const int64_t *token;      /**< marked row; NULL: none (HTML), the most telling (terminal) */
    bool special;              /**< special tokens are shown */
    enum qkv_view_theme theme; /**< AUTO: the reader's system (HTML), dark (terminal) */
    // HTML only
    const char *view;     /**< opens with: "heads", "model", "neuron", ...; NULL: by length */
    int64_t budget;       /**< bytes of HTML; 0: 16,000,000 */
    const int64_t *exact; /**< [exact_count] layers that are kept whole where not all can be */
    int64_t exact_count;
    bool values; /**< v and x of every layer, whatever they add up to to the budget */
    // terminal only
    int columns;                 /**< width; 0: 80 */
    bool color, truecolor, utf8; /**< what the terminal can do; without color: block characters */
    bool all;                    /**< the matrix also where it is wider than the terminal */
};

/** What a picture shows first. */
struct qkv_view_chosen {
    int64_t layer, token; /**< token -1: none is marked */
    int64_t heads[64], head_count;
};
/** Returns: QKV_OK; QKV_ERR_USAGE (no such stack, layer, head or token; a layer was not given);
 *  QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_choose(const qkv_view *v,
                                                  const struct qkv_view_options *o,
                                                  struct qkv_view_chosen *out, qkv_error *err);

/** The sentence that answers the view's question, made from the data; out[size] terminated.
 *  Returns out; cut at a character when it does not fit. */
QKV_API char *qkv_view_sentence(const qkv_view *v, const struct qkv_view_options *o, char *out,
                                size_t size);

/** What qkv_view_html wrote; may be NULL. */
struct qkv_view_report {
    const char *kind; /**< of the first stack: "dense", "qk16", "qk8", "top" */
    double error;     /**< largest |weight shown - weight| of the weights kept, measured */
    double kept;      /**< top: mean share of a row that is kept; else 1 */
    int64_t top;      /**< top: weights a row; else 0 */
    int64_t bytes, weights;
    int64_t not_numbers; /**< rows that hold NaN */
    int64_t not_one;     /**< rows of dense weights whose sum is not 1 within 1e-3 */
    int64_t values_left; /**< layers whose values did not fit */
};
/** Writes the HTML file (NAME.tmp.PID, then renamed); the same input gives the same bytes.
 *  Returns: QKV_OK; QKV_ERR_USAGE (exists and not force; no such stack, layer, head or token);
 *  QKV_ERR_LIMIT (memory, or over the budget: err says what would do); QKV_ERR_IO. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_html(const qkv_view *v, const char *path, bool force,
                                                const struct qkv_view_options *o,
                                                struct qkv_view_report *report, qkv_error *err);
/** The terminal picture as text; *out is freed with qkv_view_text_free.  o may be NULL.  o->view
 *  "model", "neuron" and "steps" draw those, any other name the heads with the matrix of one.
 *  Returns: QKV_OK; QKV_ERR_USAGE (no such stack, layer, head or token; a layer was not given);
 *  QKV_ERR_UNSUPPORTED (neuron and steps of a layer without q and k); QKV_ERR_LIMIT: *out is
 *  NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_terminal(const qkv_view *v, char **out,
                                                    const struct qkv_view_options *o,
                                                    qkv_error *err);
QKV_API void qkv_view_text_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
