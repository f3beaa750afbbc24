// SPDX-License-Identifier: MIT
// eval_print.h: what `qkv eval` prints (eval_print.c).
#ifndef QKV_EVAL_PRINT_H
#define QKV_EVAL_PRINT_H
#include <qkv/qkv.h>

void eval_print_example(const struct qkv_eval_example *e);
void eval_print_result(const struct qkv_eval_result *r);
#endif
