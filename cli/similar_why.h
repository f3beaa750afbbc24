// SPDX-License-Identifier: MIT
// similar_why.h: `qkv similar A B --why`: a cosine as a sum over pairs of tokens.
#ifndef QKV_SIMILAR_WHY_H
#define QKV_SIMILAR_WHY_H

#include "cmd.h"

// Prints the terms of two texts, drawn; with output (NULL: none) as a file of the kind its name says.
qkv_status similar_why(const struct cmd_texts *t, const char *dir, bool truncate,
                       const char *output, qkv_error *err);
#endif
