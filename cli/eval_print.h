// SPDX-License-Identifier: MIT
// eval_print.h: what `qkv eval` prints, and `qkv translate` of it (eval_print.c).
#ifndef QKV_EVAL_PRINT_H
#define QKV_EVAL_PRINT_H
#include <qkv/qkv.h>

void eval_print_example(const struct qkv_eval_example *e);
// weights[outs][sources]: a row a token of the output, a column a token of the source.
void eval_print_alignment(const float *weights, const char *const *out, int64_t outs,
                          const char *const *source, int64_t sources);
void eval_print_perplexity(const struct qkv_perplexity *p);
void eval_print_result(const struct qkv_eval_result *r);
#endif
