// SPDX-License-Identifier: MIT
// fair_queue.h: declares the order in which the jobs of a model are computed.  These functions take
// no lock, read no clock and know no model, so that a test can script arrivals and steps.
#ifndef QKV_CLI_FAIR_QUEUE_H
#define QKV_CLI_FAIR_QUEUE_H

#include "serve/serve.h"

// Jobs that compete for the same thing.  Each of them belongs to another connection, since a
// connection has one job at a time.
struct fair_queue {
    struct serve_job *first, *last; // jobs that wait; last: undefined if there are none
    double now;                     // virtual time, in tokens per job
    int64_t jobs;                   // jobs that wait or run
};

// Adds a job.  finish: the virtual time at which the previous job of its connection ended.  The job
// starts then or now, whichever is later: time without a job is no credit.
void fair_add(struct fair_queue *q, struct serve_job *j, double finish);
// Removes and returns the waiting job with the smallest tag of some kinds (bits 1 << JOB_...), of
// equal tags the first, if its tag is at most `most`; NULL: there is none.
struct serve_job *fair_take(struct fair_queue *q, unsigned kinds, double most);
// Removes and returns the waiting job of a call; NULL: it does not wait.
struct serve_job *fair_remove(struct fair_queue *q, const struct serve_call *c);
// Puts back a job that was taken, with its tag, after jobs of the same tag.
void fair_return(struct fair_queue *q, struct serve_job *j);
// A part of a job begins: its tag becomes the virtual time, if it is smaller, and otherwise the
// virtual time becomes its tag.  So another job waits for at most one part of a job that came
// before it.
void fair_begin(struct fair_queue *q, struct serve_job *j);
// Charges a job that has begun for tokens.
void fair_use(struct fair_queue *q, struct serve_job *j, double tokens);
void fair_done(struct fair_queue *q); // a job that was added has ended

// How many tokens of other jobs a model computes between two steps of the outputs that it
// generates.
enum {
    FAIR_STEP = 64,  // tokens per step
    FAIR_DEBT = 1024 // the most that a part which is larger than a step takes from the next steps
};
struct fair_share {
    double left; // tokens that may still begin in this step; none if it is not above 0
};
// Begins a step.  Without outputs that are generated, there is no limit.
void fair_share_step(struct fair_share *s, bool generating);
#endif
