// SPDX-License-Identifier: MIT
// service.h: declares the thread of a model: it takes jobs from queues that are fair between
// connections, and computes the texts of several requests together.
#ifndef QKV_CLI_SERVICE_H
#define QKV_CLI_SERVICE_H

#include "serve/fair_queue.h"
#include <qkv/scheduler.h>

#define SERVICE_PAGE_TEXT "The animal did not cross the street because it was too tired"
struct service_options {
    int64_t batch_tokens;  // tokens of a batch: --max-batch-tokens
    int64_t most_requests; // requests of all models that wait or run: --max-concurrent-requests
    int64_t client_batch;  // texts of one request: --max-client-batch-size
    int64_t slots;         // sequences that generate at once
    const char *page_text; // text of the page at /
};
extern struct service_options service_options;
// Returns the usual number of tokens of a batch.  Larger ones are not computed faster, and a
// request waits for the batch that runs.
int64_t service_batch_tokens(void);

// A queue for jobs that do not generate, and one for jobs that do.
enum { SERVICE_QUEUES = 2 };
struct service {
    pthread_t thread;
    bool running, stop, locked; // locked: lock and changed were initialized
    pthread_mutex_t lock;       // of the queues and `stop`
    pthread_cond_t changed;     // a job was queued, or the thread shall stop
    struct fair_queue queue[SERVICE_QUEUES];
    struct fair_share share; // of the jobs that do not generate
    atomic_llong jobs;       // jobs that wait or run
    struct embed_variant *variants;
    const struct batch *batch;       // texts that are computed (embed_jobs.c); NULL: none
    qkv_scheduler *scheduler;        // NULL: the model does not generate
    struct generate_job *generating; // jobs that have begun
};

// Takes the next job of some kinds (bits 1 << JOB_...) whose tag is at most `most`; NULL: there is
// none.
struct serve_job *service_take(struct serve_model *m, unsigned kinds, double most);
// A part of a job that was taken begins (fair_begin()).
void service_begin(struct serve_job *j);
// Charges a job that has begun for tokens that it computes.  Must not be called after its answer.
void service_used(struct serve_job *j, double tokens);
void service_return(struct serve_job *j); // puts a job back, with its tag
void service_done(struct serve_job *j);   // frees a job whose call was answered
// Removes the job of a call from its queue and frees it.  Returns false if the job is not in a
// queue: it runs, or there is none.
bool service_cancel(const struct serve_call *c);

// Opens a model for all its tasks: vectors, labels, generation.
qkv_status service_open(struct serve_model *m, const char *name, const char *dir, qkv_error *err);
void service_close(struct serve_model *m);
// Opens the models that are given as DIR or NAME=DIR; without any, the model of --model.
qkv_status service_models_open(const struct cmd_words *models, qkv_error *err);
void service_models_close(void);
// Starts the threads of all models.
qkv_status services_start(qkv_error *err);
// Ends the threads; jobs that wait are answered with 503.
void services_stop(void);
// Returns the number of jobs that wait or run.
int64_t service_jobs(const struct serve_model *m);
#endif
