// SPDX-License-Identifier: MIT
/** plot.h: how a run of training went, as curves: loss, validation loss, learning rate, gradient
 *  norm over steps, several runs in one picture; or the entropy of each head.  SVG, one offline
 *  HTML file, terminal.
 *
 *  Reads what a run writes as it goes: a JSON object a line, log.jsonl {"step", "loss", "rate",
 *  "norm"} and {"step", "valid_loss"}, probes.jsonl {"step", "tokens", "heads": [[{"entropy"}]]}.
 */
#ifndef QKV_PLOT_H
#define QKV_PLOT_H

#include <qkv/chart.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qkv_plot qkv_plot; /**< const after open: threads may share it */

/** runs[n]: folders of runs, or files of such lines; not kept.  A last line without its end is
 *  still being written and is left out; of a step that was done twice the later line counts.
 *  probes: entropy of the heads instead, of one run.
 *  Returns: QKV_OK; QKV_ERR_USAGE; QKV_ERR_IO; QKV_ERR_FORMAT (with the line; no step in it);
 *  QKV_ERR_LIMIT: *out is NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_plot_open(qkv_plot **out, const char *const *runs, int64_t n,
                                                bool probes, qkv_error *err);
QKV_API void qkv_plot_close(qkv_plot *p); /**< NULL is fine */

/** What one run comes to; NaN where its log does not say. */
struct qkv_plot_info {
    const char *name;   /**< last part of its path; borrowed until close */
    int64_t steps;      /**< the last one */
    int64_t best_step;  /**< of the least validation loss; -1: none */
    double first, last; /**< loss: of the first step; mean of the last ones */
    double valid, best; /**< validation loss: last, least */
};
/** Run i of those that were opened; all 0 past the last. */
QKV_API struct qkv_plot_info qkv_plot_info(const qkv_plot *p, int64_t i);

/** The finding in words; out[size] terminated, cut at a character when it does not fit.  Returns
 *  out. */
QKV_API char *qkv_plot_sentence(const qkv_plot *p, char *out, size_t size);

/** One file, as qkv_chart_file writes it: of the kind that its name ends with.  The same logs give
 *  the same bytes (PNG: with the same fonts).  o may be NULL.
 *  Returns: QKV_OK; QKV_ERR_USAGE (another ending; exists, and not force); QKV_ERR_LIMIT;
 *  QKV_ERR_IO. */
QKV_API QKV_MUST_CHECK qkv_status qkv_plot_file(const qkv_plot *p, const char *path, bool force,
                                                const struct qkv_chart_options *o, qkv_error *err);
/** The terminal picture; *out is freed with qkv_view_text_free.  o may be NULL.
 *  Returns: QKV_OK; QKV_ERR_USAGE (NULL); QKV_ERR_LIMIT: *out is NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_plot_terminal(const qkv_plot *p, char **out,
                                                    const struct qkv_chart_options *o,
                                                    qkv_error *err);

#ifdef __cplusplus
}
#endif
#endif
