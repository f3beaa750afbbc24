// SPDX-License-Identifier: MIT
// cost.h: declares the rows of the table of costs, and how the work of a row is measured.
//
// A row is a function that makes an input of about n bytes and calls qkv with it between
// cost_begin() and cost_end(); only that part is measured.
#ifndef QKV_COST_H
#define QKV_COST_H
#include "check.h"

typedef void cost_row(int64_t n);
// COST_ROW(name, function, n): the smallest size; the row also runs with 2 n and 4 n
#define COST_ROW(name, function, n) cost_row cost_##function;
#include "cost/cost.def"

void cost_begin(void);
void cost_end(void);

// A text that grows; the caller frees `at`.
struct cost_text {
    char *at;
    size_t bytes, capacity;
};
void cost_add(struct cost_text *b, const char *text, size_t bytes);
void cost_repeat(struct cost_text *b, const char *text, int64_t times);
void cost_printf(struct cost_text *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#endif
