// SPDX-License-Identifier: MIT
// pending_outputs.c: copies finished outputs and stores them until all earlier jobs are delivered.
#include "task/generate/pending_outputs.h"
#include <string.h>

bool qkv_pending_new(struct qkv_pending_outputs *p, int64_t jobs)
{
    p->jobs = jobs;
    p->first = qkv_alloc_zero((size_t)jobs + 1, sizeof *p->first);
    return p->first != NULL;
}

void qkv_pending_drop(struct qkv_pending_outputs *p, int64_t job)
{
    for (struct qkv_pending_output *o = p->first[job], *next; o; o = next) {
        next = o->next;
        qkv_free(o->text);
        qkv_free(o->ids);
        qkv_free(o->source_ids);
        qkv_free(o->logprobs);
        qkv_free(o->alignment);
        qkv_free(o);
    }
    p->first[job] = NULL;
}

void qkv_pending_free(struct qkv_pending_outputs *p)
{
    for (int64_t i = 0; p->first && i < p->jobs; i++) qkv_pending_drop(p, i);
    qkv_free(p->first);
}

static void *copy_array(const void *from, size_t n, size_t size)
{
    void *to = qkv_alloc(n + 1, size);
    if (to && n) memcpy(to, from, n * size);
    return to;
}

struct qkv_pending_output *qkv_pending_add(struct qkv_pending_outputs *p, int64_t job,
                                           const struct qkv_generated *g)
{
    const size_t tokens = (size_t)g->tokens;
    struct qkv_pending_output *o = qkv_alloc_zero(1, sizeof *o), **at = &p->first[job];
    if (!o) return NULL;
    while (*at) at = &(*at)->next;
    *at = o;
    o->text = copy_array(g->text, g->bytes, 1);
    o->ids = copy_array(g->ids, tokens, sizeof *o->ids);
    if (g->logprobs) o->logprobs = copy_array(g->logprobs, tokens, sizeof *o->logprobs);
    if (g->source_ids)
        o->source_ids = copy_array(g->source_ids, (size_t)g->source_tokens, sizeof *o->source_ids);
    if (!o->text || !o->ids || (g->logprobs && !o->logprobs) || (g->source_ids && !o->source_ids))
        return NULL;
    o->text[g->bytes] = 0;
    o->g = *g;
    o->g.text = o->text;
    o->g.ids = o->ids;
    o->g.logprobs = o->logprobs;
    o->g.source_ids = o->source_ids;
    return o;
}
