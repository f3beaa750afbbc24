// SPDX-License-Identifier: MIT
/** view.h: attention as a picture: one offline HTML file, or the terminal.
 *
 *  Knows no model: it is given tokens and, layer by layer, what the weights can be computed from.
 */
#ifndef QKV_VIEW_H
#define QKV_VIEW_H

#include <qkv/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One token of the picture. */
struct qkv_view_token {
    const char *raw;    /**< as the tokenizer has it, "##ing" */
    const char *text;   /**< the bytes it came from, length text_bytes (specials: as raw) */
    size_t text_bytes;
    uint8_t part;       /**< 0 sentence A, 1 sentence B */
    bool special;
    int64_t begin, end; /**< bytes in its sentence */
};

/** What is shown; borrowed until close. */
struct qkv_view_shape {
    const char *model;  /**< name for the header */
    int64_t tokens, layers, heads, kv_heads, head_width;
    const struct qkv_view_token *token; /**< [tokens] */
    const char *text[2]; /**< the sentences, text[1] NULL without a pair */
    bool causal;
};

/** A picture being collected: q, k and lse of every layer, linear in tokens. */
typedef struct qkv_view qkv_view;
QKV_API QKV_MUST_CHECK qkv_status qkv_view_new(qkv_view **out, const struct qkv_view_shape *s,
                                               qkv_error *err);
QKV_API void qkv_view_free(qkv_view *v);
/** q[T][H][E], k[T][G][E], lse[H][T] of one layer are copied; weight = exp(scale q.k - lse). */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_layer(qkv_view *v, int64_t layer, const float *q,
                                                 const float *k, const float *lse, float scale,
                                                 qkv_error *err);
/** out[T] = weights of one row. */
QKV_API void qkv_view_row(const qkv_view *v, float *out, int64_t layer, int64_t head, int64_t row);

/** What to show first; -1 and NULL: chosen from the data. */
struct qkv_view_options {
    int64_t layer;            /**< -1: the most telling */
    const int64_t *heads;     /**< [head_count] lit; NULL: chosen */
    int64_t head_count;
    int64_t token;            /**< marked row; -1: none (HTML), the most telling (terminal) */
    int64_t budget;           /**< bytes of HTML; 0: 16 MB */
    // terminal only
    int columns;              /**< width; 0: 80 */
    bool color, truecolor, utf8, dark, all;
};

/** The sentence that answers the view's question, made from the data; out[size] terminated. */
QKV_API char *qkv_view_sentence(const qkv_view *v, const struct qkv_view_options *o, char *out,
                                size_t size);
/** Writes the HTML file (NAME.tmp.PID, then renamed).  QKV_ERR_USAGE: exists and not force.
 *  QKV_ERR_LIMIT: over the budget, err says what to leave out. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_html(const qkv_view *v, const char *path, bool force,
                                                const struct qkv_view_options *o, qkv_error *err);
/** The terminal picture as text; *out is freed with qkv_view_text_free. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_terminal(const qkv_view *v, char **out,
                                                    const struct qkv_view_options *o, qkv_error *err);
QKV_API void qkv_view_text_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
