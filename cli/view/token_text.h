// SPDX-License-Identifier: MIT
// token_text.h: declares how a token that a model predicts is written for people.
#ifndef QKV_CMD_TOKEN_TEXT_H
#define QKV_CMD_TOKEN_TEXT_H

#include "frame/cmd.h"

// Returns the text of a token, allocated: as it continues a text, with ␣ for a space before it; or
// its spelling in the vocabulary, if it is special or no text on its own. NULL: memory is
// exhausted.
char *token_text(const qkv_tokenizer *k, int32_t id);
#endif
