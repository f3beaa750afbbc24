// SPDX-License-Identifier: MIT
// embed_jobs.h: declares jobs that compute vectors of texts, many of them in one run of the model.
#ifndef QKV_CLI_EMBED_JOBS_H
#define QKV_CLI_EMBED_JOBS_H

#include "serve/service.h"

struct embed_job {
    struct serve_job job;
    struct serve_texts texts;
    const char *prompt; // name of a prompt; NULL: the default prompt of the model
    bool raw;           // do not scale the vectors to length 1
    bool truncate;      // truncate texts that are too long; false: refuse them
    bool left;          // truncation removes tokens at the start
    int64_t dimensions; // the first numbers of each vector, scaled to length 1 unless raw; 0: all
    bool base64;
    const char *model; // name of the model, for the answer
    const char *path;  // of the texts in the request
    void (*answer)(struct embed_job *j, const float *v, int64_t width);
    // Members of embed_jobs.c.
    qkv_embedder *embedder;
    bool by_ids;     // the texts are computed as token ids: their own, or of their tokenization
    int64_t *tokens; // [count] tokens of each text
    int64_t total;   // their sum
    int32_t *ids;    // with by_ids: tokens of all texts
    float *vectors;  // [count][width]
    int64_t done;    // texts that are computed
};

struct embed_job *embed_job_new(void); // NULL: out of memory
// Computes texts of a job, together with texts of other jobs that wait; answers the jobs that are
// complete and returns the others to the queue.  Computes at most `tokens` tokens, but one text at
// least.
void embed_batch(struct serve_model *m, struct serve_job *first, double tokens);
// Returns the progress of an embedder of the model, which stops when all clients of the batch have
// left.
struct qkv_progress embed_progress(struct serve_model *m);
void embed_variants_close(struct serve_model *m);
#endif
