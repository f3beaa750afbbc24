// SPDX-License-Identifier: MIT
// generate_jobs.h: declares jobs that generate text: their outputs are decoded together with those
// of other jobs, and may join at every token.
#ifndef QKV_CLI_GENERATE_JOBS_H
#define QKV_CLI_GENERATE_JOBS_H

#include "serve/service.h"
#include <qkv/scheduler.h>

struct generate_job;
enum {
    TOPS_MOST = 20, // the most alternatives of a token with logprobs
    // The elements of arrays with logprobs: of a completion four, of a chat one.
    LOG_TOKENS = 0,
    LOG_VALUES,
    LOG_TOPS,
    LOG_OFFSETS,
    LOG_ARRAYS
};
// One output.  Its text and logprobs are kept if the answer is not streamed.
struct generate_output {
    struct generate_job *job;
    int64_t id; // id in the scheduler; 0: not begun, or ended
    struct serve_bytes text, logprobs[LOG_ARRAYS];
    int64_t prompt_characters;
    const char *reason;
    int64_t tokens;
    bool streamed; // the first event of a stream has the role
    bool echoed;   // it begins with its prompt
};
struct generate_job {
    struct serve_job job;
    bool chat, stream, usage; // usage: a stream ends with the number of tokens
    bool echo;                // the text of an output begins with its prompt
    const char *model;
    char id[40]; // name of the answer
    int64_t created;
    struct serve_texts prompts;
    char *rendered; // the prompt of a chat
    char **decoded; // [prompts.count] texts of prompts that are token ids; NULL: they are texts
    struct qkv_generate_options o;
    const char *stops[64];
    struct qkv_token_value *bias;
    const qkv_json *messages;       // of a chat: its prompt is rendered when the job begins
    struct generate_output *output; // [outputs] the outputs of a prompt follow each other
    int64_t outputs, begun, ended;
    int64_t prompt_tokens, completion_tokens;
    int64_t tops;  // alternatives of each token with logprobs
    size_t kept;   // bytes of texts and logprobs of an answer that is not streamed
    qkv_error err; // the first error of an output
    struct generate_job *after;
};

struct generate_job *generate_job_new(void); // NULL: out of memory
// Begins outputs of the jobs that wait, as many as the scheduler has places: always the next one of
// the job with the smallest tag, which grows with each token.
void decoding_fill(struct serve_model *m);
// Decodes one token of every output that runs; answers the jobs that are complete.
void decoding_step(struct serve_model *m);
// Answers all jobs with an error, because the server stops.
void decoding_stop(struct serve_model *m);
bool decoding_busy(const struct serve_model *m);
qkv_status decoding_open(struct serve_model *m, qkv_error *err);
void decoding_close(struct serve_model *m);
#endif
