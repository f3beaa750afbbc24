// SPDX-License-Identifier: MIT
// similar_query.h: declares `qkv similar --query TEXT`, which finds the texts or the stored vectors
// that are nearest to one text.
#ifndef QKV_CLI_SIMILAR_QUERY_H
#define QKV_CLI_SIMILAR_QUERY_H

#include "frame/cmd.h"

// Prints the k texts of t or, if `vectors` is not NULL, the k rows of this .npy file with the
// largest cosine with the vector of the query.
qkv_status similar_query(const struct cmd_texts *t, const char *vectors, const char *query,
                         int64_t k, const char *dir, bool truncate, qkv_error *err);
#endif
