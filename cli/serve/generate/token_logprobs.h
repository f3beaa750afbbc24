// SPDX-License-Identifier: MIT
// token_logprobs.h: declares how tokens with their log-probabilities are printed: for a chat as
// objects, for a completion as elements of four arrays.
#ifndef QKV_CLI_TOKEN_LOGPROBS_H
#define QKV_CLI_TOKEN_LOGPROBS_H

#include "serve/generate/generate_jobs.h"
#include <stdio.h>

// Elements of the arrays with logprobs; all at[] NULL: there are none.
struct token_logprobs {
    const char *at[LOG_ARRAYS];
    size_t bytes[LOG_ARRAYS];
};
// Prints the logprobs of a token; `before` characters precede the text in which t->offset counts.
// Returns them with memory that *text owns; without memory the job fails.
struct token_logprobs token_logprobs_print(char **text, struct generate_output *x,
                                           const struct qkv_generated_token *t, int64_t before);
// Prints the object that has the arrays of these elements.
void token_logprobs_join(FILE *to, const struct generate_job *j, const struct token_logprobs *l);

// Fails the job because memory is exhausted.
void generate_fail_memory(struct generate_job *j);
// Closes a stream of memory.  Returns false and fails the job if memory was exhausted.
bool generate_close_memory(struct generate_job *j, FILE *to);
#endif
