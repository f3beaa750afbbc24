// SPDX-License-Identifier: MIT
// terminal_score.h: declares the parts that the views of one query, "neuron" and "steps", share.
#ifndef QKV_VIEW_TERMINAL_SCORE_H
#define QKV_VIEW_TERMINAL_SCORE_H
#include "view/terminal/terminal_views.h"

// Returns true if the terminal is wide enough for all columns of a table. If it is not, the callers
// write fewer and narrower columns.
bool terminal_is_wide(const struct text_canvas *s);
int terminal_number_columns(const struct text_canvas *s); // width of a column of numbers
// Each of these functions writes a cell: a number; a weight; the divisor of the model, such as √32,
// after the text `before`.
void terminal_number(struct text_canvas *s, double x, int digits, int columns);
void terminal_share(struct text_canvas *s, double w, int columns);
void terminal_root(struct text_canvas *s, const struct score *k, const char *before, int columns,
                   bool right);
// Chooses the query and the key that are shown, and writes the header and the question.
qkv_status terminal_pair(struct text_canvas *s, struct score *k, int64_t *key, const char *before,
                         qkv_error *err);
#endif
