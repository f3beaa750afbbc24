// SPDX-License-Identifier: MIT
/** plot.h: draws training runs as curves: loss, validation loss, learning rate and gradient norm
 *  over steps for one or several runs, or the entropy of each head of one run.  The output is SVG,
 *  PNG, one offline HTML file or the terminal.
 *
 *  The input is the logs that a run writes during training, one JSON object per line.  log.jsonl
 *  has lines {"step", "loss", "rate", "norm"} and {"step", "valid_loss"}; probes.jsonl has lines
 *  {"step", "tokens", "heads": [[{"entropy"}]]}.
 */
#ifndef QKV_PLOT_H
#define QKV_PLOT_H

#include <qkv/chart.h>

QKV_BEGIN_DECLS

/** The logs of one or more runs.  They do not change after open, so threads may share them. */
typedef struct qkv_plot qkv_plot;

/** Reads the logs of runs[n]: folders of runs, or log files; the paths are not referenced after the
 *  call.  A last line without a newline is ignored, because the run is still writing it; of two
 *  lines for one step the later line counts.  With `probes` the function reads the entropy of the
 *  heads of one run instead.
 *  Returns: QKV_OK; QKV_ERR_USAGE; QKV_ERR_IO; QKV_ERR_FORMAT (a malformed line, which err names; a
 *           log without steps); QKV_ERR_LIMIT.  After an error *out is NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_plot_open(qkv_plot **out, const char *const *runs, int64_t n,
                                                bool probes, qkv_error *err);
QKV_API void qkv_plot_close(qkv_plot *p); /**< NULL is fine */

/** Summary of one run; a number that the log of the run lacks is NaN. */
struct qkv_plot_info {
    const char *name;   /**< last part of the path of the run; p owns it */
    int64_t steps;      /**< number of the last step */
    int64_t best_step;  /**< step with the lowest validation loss; -1: never validated */
    double first, last; /**< training loss at the first step; mean over the last 20 steps */
    double valid, best; /**< last validation loss; lowest validation loss */
};
/** Returns the summary of run i; all members are 0 if i is past the last run. */
QKV_API struct qkv_plot_info qkv_plot_info(const qkv_plot *p, int64_t i);

/** Writes a sentence that states the result of the runs to out[size], NUL-terminated; a sentence
 *  that is too long is truncated at a character boundary.  Returns out. */
QKV_API char *qkv_plot_sentence(const qkv_plot *p, char *out, size_t size);

/** Writes one file as qkv_chart_file does, in the format given by the ending of path.  Equal logs
 *  give equal bytes (PNG: with the same fonts).  o may be NULL.
 *  Returns: QKV_OK; QKV_ERR_USAGE (unknown ending; the file exists and force is false);
 *           QKV_ERR_LIMIT; QKV_ERR_IO. */
QKV_API QKV_MUST_CHECK qkv_status qkv_plot_file(const qkv_plot *p, const char *path, bool force,
                                                const struct qkv_chart_options *o, qkv_error *err);
/** Renders the curves for the terminal; the caller frees *out with qkv_view_text_free.  o may be
 *  NULL.
 *  Returns: QKV_OK; QKV_ERR_USAGE (p or out is NULL); QKV_ERR_LIMIT.  After an error *out is
 *           NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_plot_terminal(const qkv_plot *p, char **out,
                                                    const struct qkv_chart_options *o,
                                                    qkv_error *err);

QKV_END_DECLS
#endif
