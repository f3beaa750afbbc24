// SPDX-License-Identifier: MIT
// eval_print.h: declares the printing of results for `qkv eval`, and of alignments also for `qkv
// translate`.
#ifndef QKV_EVAL_PRINT_H
#define QKV_EVAL_PRINT_H
#include <qkv/qkv.h>

void eval_print_example(const struct qkv_eval_example *e);
// Prints an alignment, weights[outs][sources], as a table: a row per output token, a column per
// source token, in hundredths. layer: its number, -1: the last; heads: number of heads of the mean,
// -1: all of the layer.
void eval_print_alignment(const float *weights, const char *const *out, int64_t outs,
                          const char *const *source, int64_t sources, int64_t layer, int64_t heads);
void eval_print_perplexity(const struct qkv_perplexity *p);
void eval_print_result(const struct qkv_eval_result *r);
#endif
