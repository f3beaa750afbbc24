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
    struct serve_job **end = &q->first;
    while (*end) end = &(*end)->next;
    *end = j;
    j->next = NULL;
}

void fair_add(struct fair_queue *q, struct serve_job *j, double finish)
{
    j->tag = finish > q->now ? finish : q->now;
    q->jobs++;
    fair_return(q, j);
}

struct serve_job *fair_take(struct fair_queue *q, unsigned kinds, double most)
{
    struct serve_job **best = NULL;
    for (struct serve_job **p = &q->first; *p; p = &(*p)->next)
        if (kinds & 1u << (*p)->kind && (!best || (*p)->tag < (*best)->tag)) best = p;
    struct serve_job *j = best ? *best : NULL;
    if (!j || j->tag > most) return NULL;
    *best = j->next;
    return j;
}

struct serve_job *fair_remove(struct fair_queue *q, const struct serve_call *c)
{
    struct serve_job **at = &q->first;
    while (*at && (*at)->call != c) at = &(*at)->next;
    struct serve_job *j = *at;
    if (j) *at = j->next;
    return j;
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
