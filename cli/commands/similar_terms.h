// SPDX-License-Identifier: MIT
// similar_terms.h: declares `qkv similar A B --why`: splits a cosine into a sum over pairs of
// tokens.
#ifndef QKV_SIMILAR_WHY_H
#define QKV_SIMILAR_WHY_H

#include "frame/charts.h"

// Prints the terms of the cosine of two texts, and writes their picture to the file that `to`
// names.
qkv_status similar_why(const struct cmd_texts *t, const char *dir, bool truncate,
                       const struct chart_output *to, qkv_error *err);
#endif
