// SPDX-License-Identifier: MIT
// similar_terms.h: declares `qkv similar A B --why`, which splits the cosine of two texts into
// terms of pairs of their tokens.
#ifndef QKV_CLI_SIMILAR_TERMS_H
#define QKV_CLI_SIMILAR_TERMS_H

#include "frame/charts.h"

// Prints the terms of the cosine of two texts, and draws them in the terminal and in the file that
// `to` names.
qkv_status similar_why(const struct cmd_texts *t, const char *dir, bool truncate,
                       const struct chart_output *to, qkv_error *err);
#endif
