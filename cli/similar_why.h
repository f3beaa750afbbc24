// SPDX-License-Identifier: MIT
// similar_why.h: `qkv similar A B --why`: a cosine as a sum over pairs of tokens.
#ifndef QKV_SIMILAR_WHY_H
#define QKV_SIMILAR_WHY_H

#include "charts.h"

// The terms of two texts, drawn here and as the file that `to` names.
qkv_status similar_why(const struct cmd_texts *t, const char *dir, bool truncate,
                       const struct chart_output *to, qkv_error *err);
#endif
