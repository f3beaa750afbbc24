// SPDX-License-Identifier: MIT
// classify_tokens.h: declares `qkv classify --tokens` and `--aggregate`.
#ifndef QKV_CLASSIFY_TOKENS_H
#define QKV_CLASSIFY_TOKENS_H

#include "frame/cmd.h"

struct classify_tokens {
    // the option --tokens: every token with its label. false: entities that are not "O"
    bool every;
    enum qkv_aggregation aggregate;
    bool truncate, strict;
};
// Prints the tokens or entities of each text with their labels. *cut receives the number of tokens
// that truncation removed.
qkv_status classify_tokens(struct cmd_source *source, const struct classify_tokens *how,
                           int64_t *cut, qkv_error *err);
#endif
