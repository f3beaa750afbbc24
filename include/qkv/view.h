// SPDX-License-Identifier: MIT
/** view.h: attention as a picture: one offline HTML file, or the terminal.
 *
 *  Knows no model: it is given tokens and, layer by layer, what the weights can be computed from.
 *  Layers, heads and tokens are counted from 0.
 */
#ifndef QKV_VIEW_H
#define QKV_VIEW_H

#include <qkv/base.h>

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
    int64_t begin, end; /**< bytes in its sentence */
};

/** What is shown; everything it points at is borrowed until qkv_view_free. */
struct qkv_view_shape {
    const char *model;                                   /**< name for the header */
    int64_t tokens, layers, heads, kv_heads, head_width; /**< all >= 1; kv_heads 0: heads */
    const struct qkv_view_token *token;                  /**< [tokens], those of sentence A first */
    bool causal;                                         /**< token i reads tokens 0..i only */
};

/** A picture being collected: q, k and lse of every layer, linear in tokens. */
typedef struct qkv_view qkv_view;
/** Returns: QKV_OK; QKV_ERR_USAGE (a size < 1, heads not a multiple of kv_heads); QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_new(qkv_view **out, const struct qkv_view_shape *s,
                                               qkv_error *err);
QKV_API void qkv_view_free(qkv_view *v);
/** q[T][H][E], k[T][G][E], lse[H][T] of one layer are copied; weight = exp(scale q.k - lse).
 *  lse -INFINITY: the row reads nothing.  Each head is measured here (its kind, keys read, ...).
 *  Returns: QKV_OK; QKV_ERR_USAGE (no such layer); QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_layer(qkv_view *v, int64_t layer, const float *q,
                                                 const float *k, const float *lse, float scale,
                                                 qkv_error *err);
/** out[T] = weights of one row; NaN where q, k or lse have it.
 *  No such layer, head or row, or a layer that was not given: nothing is written. */
QKV_API void qkv_view_row(const qkv_view *v, float *out, int64_t layer, int64_t head, int64_t row);

/** What a head does on this text; the rule of each kind: src/view/kind.def. */
struct qkv_view_head {
    const char *kind; /**< "next", "same word", ...; "" under 8 tokens */
    float strength;   /**< the measure of the kind, 0..1; 0: has none */
    int64_t word;     /**< one word: the token read; else -1 */
    float keys_read;  /**< 2 to the entropy of a row in bits, mean over rows */
    float distance;   /**< tokens between reader and read, mean by weight */
    float focus;      /**< 1 - entropy / log of the keys visible, mean over rows */
    float special;    /**< share of the weight that goes to special tokens */
};
/** No such layer or head, or a layer that was not given: kind "", word -1, the rest 0. */
QKV_API struct qkv_view_head qkv_view_head(const qkv_view *v, int64_t layer, int64_t head);

enum qkv_view_theme { QKV_THEME_AUTO = 0, QKV_THEME_LIGHT, QKV_THEME_DARK };

/** What to show first.  Zero is the default. */
struct qkv_view_options {
    const int64_t *layer; /**< NULL: the most telling */
    const int64_t *heads; /**< [head_count] lit; NULL: chosen */
    int64_t head_count;
    const int64_t *token;      /**< marked row; NULL: none (HTML), the most telling (terminal) */
    int64_t budget;            /**< bytes of HTML; 0: 16,000,000 */
    bool special;              /**< special tokens are shown */
    enum qkv_view_theme theme; /**< AUTO: the reader's system (HTML), dark (terminal) */
    // terminal only
    int columns;                 /**< width; 0: 80 */
    bool color, truecolor, utf8; /**< what the terminal can do; without color: block characters */
    bool all;                    /**< the matrix also where it is wider than the terminal */
};

/** The sentence that answers the view's question, made from the data; out[size] terminated.
 *  Returns out; cut at a character when it does not fit. */
QKV_API char *qkv_view_sentence(const qkv_view *v, const struct qkv_view_options *o, char *out,
                                size_t size);

/** What qkv_view_html wrote; may be NULL. */
struct qkv_view_report {
    const char *kind; /**< "dense", "qk16", "qk8" */
    double error;     /**< largest |weight shown - weight|, measured over all of them */
    int64_t bytes, weights;
    int64_t not_numbers; /**< rows that hold NaN */
};
/** Writes the HTML file (NAME.tmp.PID, then renamed); the same input gives the same bytes.
 *  Returns: QKV_OK; QKV_ERR_USAGE (exists and not force; no such layer, head or token);
 *  QKV_ERR_LIMIT (memory, or over the budget: err says what would do); QKV_ERR_IO. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_html(const qkv_view *v, const char *path, bool force,
                                                const struct qkv_view_options *o,
                                                struct qkv_view_report *report, qkv_error *err);
/** The terminal picture as text; *out is freed with qkv_view_text_free.
 *  Returns QKV_OK; QKV_ERR_USAGE (no such layer, head or token); QKV_ERR_LIMIT: *out is NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_terminal(const qkv_view *v, char **out,
                                                    const struct qkv_view_options *o,
                                                    qkv_error *err);
QKV_API void qkv_view_text_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
