// SPDX-License-Identifier: MIT
// fair_queue.c: orders jobs by start times (start-time fair queueing: Goyal, Vin, Cheng 1996): a
// job starts at the virtual time at which the previous job of its connection ended, or now; the job
// with the smallest start is next.  Virtual time grows by the tokens that are computed, divided by
// the jobs (as in weighted fair queueing: Parekh, Gallager 1993), so that new connections without
// end, which all start now, cannot keep a connection waiting that was served before.
#include "serve/fair_queue.h"
#include <math.h>

void fair_return(struct fair_queue *q, struct serve_job *j)
{
    j->next = NULL;
    if (q->first)
        q->last->next = j;
    else
        q->first = j;
    q->last = j;
}

// Removes the job after `before`; NULL: the first.
static struct serve_job *unlink_after(struct fair_queue *q, struct serve_job *before)
{
    struct serve_job **at = before ? &before->next : &q->first, *j = *at;
    *at = j->next;
    if (q->last == j) q->last = before;
    return j;
}

void fair_add(struct fair_queue *q, struct serve_job *j, double finish)
{
    j->tag = finish > q->now ? finish : q->now;
    q->jobs++;
    fair_return(q, j);
}

struct serve_job *fair_take(struct fair_queue *q, unsigned kinds, double most)
{
    struct serve_job *best = NULL, *before_best = NULL, *before = NULL;
    for (struct serve_job *j = q->first; j; before = j, j = j->next) {
        if (!(kinds & 1u << j->kind) || (best && j->tag >= best->tag)) continue;
        best = j;
        before_best = before;
    }
    return best && best->tag <= most ? unlink_after(q, before_best) : NULL;
}

struct serve_job *fair_remove(struct fair_queue *q, const struct serve_call *c)
{
    struct serve_job *before = NULL, *j = q->first;
    for (; j && j->call != c; j = j->next) before = j;
    return j ? unlink_after(q, before) : NULL;
}

void fair_begin(struct fair_queue *q, struct serve_job *j)
{
    if (j->tag > q->now)
        q->now = j->tag;
    else
        j->tag = q->now;
}

void fair_use(struct fair_queue *q, struct serve_job *j, double tokens)
{
    j->tag += tokens;
    q->now += tokens / (q->jobs > 1 ? (double)q->jobs : 1);
}

void fair_done(struct fair_queue *q)
{
    q->jobs--;
}

void fair_share_step(struct fair_share *s, bool generating)
{
    if (!generating) {
        s->left = (double)INFINITY;
        return;
    }
    if (s->left < -FAIR_DEBT) s->left = -FAIR_DEBT;
    s->left += FAIR_STEP;
    if (s->left > FAIR_STEP) s->left = FAIR_STEP;
}
