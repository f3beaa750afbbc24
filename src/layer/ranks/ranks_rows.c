// SPDX-License-Identifier: MIT
// ranks_rows.c: divides the rows of an attention call among ranks, and collects keys and values.
#include "layer/ranks/ranks_work.h"
#include <stdio.h>
#include <string.h>

#ifndef QKV_DOUBLE
// Returns the number of rows of which runs begin at multiples: a tile of the backward pass.
static int64_t multiple_of(const struct qkv_attention *a)
{
    struct qkv_attention_back b;
    const struct qkv_attention_tables none = { 0 };
    struct qkv_attention alone = *a;
    alone.bias.at = NULL; // the rank has only some of its rows
    alone.mask.at = NULL;
    // or it has no backward pass
    return qkv_attention_back_resolve(&b, &alone, &none, NULL, 0) ? 1
                                                                  : qkv_attention_back_multiple(&b);
}

// Divides the queries of a valid call.
static struct qkv_runs runs_of(const struct qkv_attention *a, const struct qkv_comm *comm)
{
    const int64_t ranks = comm->size, runs = a->causal && ranks > 1 ? 2 * ranks : ranks;
    return (struct qkv_runs){ .ranks = ranks,
                              .runs = runs,
                              .n = a->T,
                              .multiple = multiple_of(a),
                              .offsets = a->q_offsets,
                              .sequences = a->sequences,
                              .edges = ranks > 1 ? comm->edges : NULL };
}

// Returns the first row of the sequence with row `at`; -1: no sequence has it.
static int64_t sequence_of(const struct qkv_runs *x, int64_t at)
{
    int64_t lo = -1, hi = x->sequences; // offsets[lo] <= at < offsets[hi + 1]
    if (!x->sequences) return 0;
    while (hi - lo > 0) {
        const int64_t middle = lo + (hi - lo + 1) / 2;
        if (x->offsets[middle] <= at)
            lo = middle;
        else
            hi = middle - 1;
    }
    return lo < 0 || lo == x->sequences ? -1 : x->offsets[lo];
}

// Returns whether the caller's edges ascend from 0 to the last row, at multiples.
static bool edges_fit(const struct qkv_runs *x, const struct qkv_attention *a)
{
    if (!x->edges) return true;
    if (a->S != a->T || x->edges[0] || x->edges[x->runs] != x->n) return false;
    for (int64_t c = 0; c < x->runs; c++) {
        const int64_t at = x->edges[c], from = at < x->n ? sequence_of(x, at) : at;
        if (at > x->edges[c + 1]) return false;
        if (from >= 0 && (at - from) % x->multiple) return false;
    }
    return true;
}

int64_t qkv_runs_edge(const struct qkv_runs *x, int64_t c)
{
    __extension__ typedef __int128 wide;
    const int64_t at = (int64_t)((wide)c * x->n / x->runs);
    if (x->edges) return x->edges[c];
    if (c == x->runs) return x->n;
    const int64_t from = sequence_of(x, at);
    if (from < 0) return at; // outside of every sequence
    return from + (at - from) / x->multiple * x->multiple;
}

struct qkv_rank_rows qkv_runs_rows(const struct qkv_runs *x, int64_t rank)
{
    struct qkv_rank_rows r = { 0 };
    for (int i = 0; i < (x->runs > x->ranks ? 2 : 1); i++) {
        const int64_t c = i ? 2 * x->ranks - 1 - rank : rank;
        r.first[i] = qkv_runs_edge(x, c);
        r.n[i] = qkv_runs_edge(x, c + 1) - r.first[i];
        r.all += r.n[i];
    }
    return r;
}

QKV_API struct qkv_rank_rows qkv_rank_rows(const struct qkv_attention *a, bool keys, int64_t rank,
                                           int64_t size)
{
    const struct qkv_comm comm = { .rank = rank, .size = size };
    struct qkv_ranks_call c;
    struct qkv_ranks_plan p = { 0 };
    if (!a || size < 1 || rank < 0 || rank >= size || qkv_ranks_resolve(&c, &p, a, &comm))
        return (struct qkv_rank_rows){ 0 };
    return keys ? c.keys : c.rows;
}

static bool strided(const struct qkv_strides *s)
{
    return s->b || s->t || s->h;
}

qkv_status qkv_ranks_resolve(struct qkv_ranks_call *c, struct qkv_ranks_plan *p,
                             const struct qkv_attention *a, const struct qkv_comm *comm)
{
    struct qkv_attention_work w;
    const struct qkv_attention_reason say = { p->reason, sizeof p->reason };
    if (!a || !comm || comm->size < 1)
        return p->status = qkv_attention_refuse(&say, QKV_ERR_USAGE,
                                                "the attention or the ranks are missing");
    if (strided(&a->q_strides) || strided(&a->k_strides) || strided(&a->v_strides) ||
        strided(&a->out_strides))
        return p->status = qkv_attention_refuse(&say, QKV_ERR_UNSUPPORTED,
                                                "strides are not supported over ranks");
    if (a->probe)
        return p->status = qkv_attention_refuse(&say, QKV_ERR_UNSUPPORTED,
                                                "statistics are not supported over ranks");
    if (a->first_row || a->all_rows)
        return p->status = qkv_attention_refuse(
                   &say, QKV_ERR_USAGE,
                   "first_row and all_rows have no effect over ranks, expected 0");
    p->status =
        qkv_attention_resolve(&w, qkv_attention_kernel_table(a), a, p->reason, sizeof p->reason);
    if (p->status) return p->status;
    *c = (struct qkv_ranks_call){ .whole = w.a, .comm = comm, .size = w.size, .chunk = w.chunk };
    c->whole.all_rows = 0;
    c->runs = c->key_runs = runs_of(&c->whole, comm);
    c->key_runs.n = w.a.S;
    c->key_runs.offsets = w.a.k_offsets;
    if (!edges_fit(&c->runs, &c->whole))
        return p->status = qkv_attention_refuse(&say, QKV_ERR_USAGE,
                                                "the edges of the runs do not fit, expected 0 to T "
                                                "= S in multiples of %lld rows "
                                                "of a sequence",
                                                (long long)c->runs.multiple);
    p->rows = c->rows = qkv_runs_rows(&c->runs, comm->rank);
    p->keys = c->keys = qkv_runs_rows(&c->key_runs, comm->rank);
    return QKV_OK;
}

struct qkv_attention qkv_ranks_run(const struct qkv_ranks_call *c, int i)
{
    struct qkv_attention a = c->whole;
    const int64_t E = a.H * a.E, F = a.H * a.F, before = i ? c->rows.n[0] : 0;
    a.all_rows = a.T;
    a.first_row = c->rows.first[i];
    a.T = c->rows.n[i];
    a.q_strides = (struct qkv_strides){ c->rows.all * E, E, a.E };
    a.out_strides = (struct qkv_strides){ c->rows.all * F, F, a.F };
    if (a.bias.at) a.bias.at += before * a.bias.t;
    if (a.mask.at) a.mask.at += before * a.mask.t;
    return a;
}

char *qkv_ranks_place(const struct qkv_ranks_call *c, int64_t W, struct qkv_arena *to)
{
    const struct qkv_attention *a = &c->whole;
    return qkv_arena_alloc(to, (size_t)(a->B * a->S * a->G), (size_t)W * c->size);
}

qkv_status qkv_ranks_collect(const struct qkv_ranks_call *c, char *all, const void *own, int64_t W)
{
    const struct qkv_attention *a = &c->whole;
    const struct qkv_comm *comm = c->comm;
    const size_t row = (size_t)(a->G * W) * c->size;
    size_t *at = qkv_alloc((size_t)comm->size * 2, sizeof *at), *n = at + comm->size;
    qkv_status status = at ? QKV_OK : QKV_ERR_LIMIT;
    const int runs = c->key_runs.runs > c->key_runs.ranks ? 2 : 1;
    status = qkv_ranks_agree(comm, status);
    for (int i = 0; i < runs && !status; i++) {
        for (int64_t r = 0; r < comm->size; r++) {
            const struct qkv_rank_rows x = qkv_runs_rows(&c->key_runs, r);
            at[r] = (size_t)x.first[i] * row;
            n[r] = (size_t)x.n[i] * row;
        }
        for (int64_t b = 0; b < a->B && !status; b++) {
            const int64_t mine = b * c->keys.all + (i ? c->keys.n[0] : 0);
            char *part = all + (size_t)(b * a->S) * row;
            if (n[comm->rank])
                memcpy(part + at[comm->rank], (const char *)own + (size_t)mine * row,
                       n[comm->rank]);
            status = qkv_ranks_gather(comm, part, at, n);
        }
    }
    qkv_free(at);
    return status;
}

qkv_status qkv_ranks_agree(const struct qkv_comm *comm, qkv_status mine)
{
    int64_t worst = mine;
    const qkv_status status = qkv_ranks_reduce(comm, &worst, 1);
    return status ? status : (qkv_status)worst;
}

qkv_status qkv_ranks_agree_limit(const struct qkv_comm *comm, qkv_status mine)
{
    const size_t most = INT64_MAX;
    const int64_t limit = (int64_t)(comm->collect_limit < most ? comm->collect_limit : most);
    int64_t all[] = { mine, limit, -limit };
    const qkv_status status = qkv_ranks_reduce(comm, all, sizeof all / sizeof *all);
    if (status || all[0]) return status ? status : (qkv_status)all[0];
    return all[1] == -all[2] ? QKV_OK : QKV_ERR_USAGE;
}

void qkv_ranks_choose(struct qkv_ranks_plan *p, const struct qkv_ranks_call *c)
{
    const struct qkv_attention *a = &c->whole;
    const size_t limit = c->comm->collect_limit;
    const size_t all = (size_t)(a->B * a->S * a->G * (a->E + a->F)) * c->size;
    p->mode = limit && all > limit ? QKV_RANKS_PIPELINE : QKV_RANKS_COLLECT;
    if (limit)
        snprintf(p->reason, sizeof p->reason,
                 "all keys and values have %zu bytes, %s the limit of %zu bytes", all,
                 all > limit ? "more than" : "within", limit);
    else
        snprintf(p->reason, sizeof p->reason, "there is no limit for collected keys and values");
}

size_t qkv_ranks_block(const struct qkv_comm *comm)
{
    enum { MOST = 4 << 20 }; // larger blocks are not faster
    const size_t share = comm->collect_limit / (size_t)comm->size;
    return share < MOST ? share : MOST;
}

void qkv_ranks_lse(const struct qkv_ranks_call *c, int i, float *run, float *rank, bool to_rank)
{
    const int64_t n = c->rows.n[i], before = i ? c->rows.n[0] : 0;
    for (int64_t r = 0; n && r < c->whole.B * c->whole.H; r++) {
        float *here = run + r * n, *there = rank + r * c->rows.all + before;
        memcpy(to_rank ? there : here, to_rank ? here : there, (size_t)n * sizeof *run);
    }
}
#endif
