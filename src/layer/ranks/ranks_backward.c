// SPDX-License-Identifier: MIT
// ranks_backward.c: the backward pass of attention over ranks.
//
// Each rank runs the units of the backward pass for its own rows. The sums of a unit (dk and dv of
// its keys, gradients of tables) go from run to run in the order of the rows: run p of the call
// receives them from run p - 1, adds its rows, and sends them to run p + 1; the last run has dk and
// dv, and sends them to the ranks of the keys. Units are processed as a pipeline in batches: in step
// s, run p has batch s - p.
//
// With causal masks a unit of early keys is work for all runs, and a unit of late keys for the last
// run only. So a batch has pairs of units, one of early keys and one of late keys: with the rows in
// zigzag, a batch is then the same work for each rank.
//
// If all keys and values are too many for a rank, they travel with the sums (ranks_back_blocks.c).
#include "layer/ranks/ranks_work.h"
#include <string.h>

#ifndef QKV_DOUBLE
// batches per run of the call, so that filling and draining the pipeline is a small part of it
enum { BATCHES = 16 };

// ---- the runs of the call ------------------------------------------------------------------------
// Returns whether run c has rows. If no run has any, the first one counts.
static bool has_rows(const struct qkv_runs *x, int64_t c)
{
    return qkv_runs_edge(x, c) < qkv_runs_edge(x, c + 1) || (!x->n && c == 0);
}

static void find_stages(struct qkv_ranks_back *x)
{
    const struct qkv_runs *runs = &x->c.runs;
    struct qkv_ranks_stage *open = NULL; // a stage of this rank that needs the rank of the next run
    int64_t previous = -1;
    x->places = x->stages = 0;
    for (int64_t c = 0; c < runs->runs; c++) {
        if (!has_rows(runs, c)) continue;
        const int64_t rank = qkv_runs_rank(runs, c);
        if (open) open->to = rank;
        if (previous < 0) x->first = rank;
        open = NULL;
        if (rank == x->c.comm->rank) {
            open = &x->stage[x->stages++];
            *open = (struct qkv_ranks_stage){ .run = c >= runs->ranks, .place = x->places };
            open->before = previous >= 0;
            open->from = previous;
        }
        previous = rank;
        x->places++;
    }
    x->last = previous;
    for (int i = 0; i < x->stages; i++) x->stage[i].after = x->stage[i].place + 1 < x->places;
    // A rank without rows has one stage that is in no place: it receives gradients of tables.
    if (!x->stages) x->stage[0] = (struct qkv_ranks_stage){ .place = INT64_MIN };
}

// ---- validation and scratch --------------------------------------------------------------------
// Returns unit i in the order of the batches: of each head the first and the last unit, then of
// each head the second and the last but one, ...
static int64_t unit_at(const struct qkv_ranks_back *x, int64_t i)
{
    const int64_t heads = x->units / x->cuts, pair = i / (2 * heads), n = i % (2 * heads);
    if (2 * pair + 1 == x->cuts) return n * x->cuts + pair; // the unit in the middle
    return n / 2 * x->cuts + (n % 2 ? x->cuts - 1 - pair : pair);
}

size_t qkv_ranks_sums_bytes(const struct qkv_ranks_stage *s, int64_t unit)
{
    return qkv_round_up(qkv_attention_back_sums(&s->b, &s->tables, unit), 64);
}

// Returns the bytes of the sums of unit i in the order of the batches.
static size_t sums_bytes(const struct qkv_ranks_back *x, const struct qkv_ranks_stage *s, int64_t i)
{
    return qkv_ranks_sums_bytes(s, unit_at(x, i));
}

static size_t batch_bytes(const struct qkv_ranks_back *x, int64_t first)
{
    size_t bytes = 0;
    for (int64_t i = first; i < qkv_min64(first + x->batch, x->units); i++)
        bytes += sums_bytes(x, &x->stage[0], i);
    return bytes;
}

// Allocates all keys, values and their gradients, and the sums of a batch.
static void place_all(struct qkv_ranks_back *x, struct qkv_arena *to)
{
    const struct qkv_attention *a = &x->c.whole;
    size_t most = 0;
    for (int64_t u = 0; u < x->units; u += x->batch) {
        const size_t bytes = batch_bytes(x, u);
        most = most > bytes ? most : bytes;
    }
    x->k = qkv_ranks_place(&x->c, a->E, to);
    x->v = qkv_ranks_place(&x->c, a->F, to);
    x->dk = qkv_ranks_place(&x->c, a->E, to);
    x->dv = qkv_ranks_place(&x->c, a->F, to);
    x->in = qkv_arena_alloc(to, 1, most);
    x->out = qkv_arena_alloc(to, 1, most);
    x->sums = qkv_arena_alloc(to, (size_t)x->batch, sizeof *x->sums);
}

static bool place(struct qkv_ranks_back *x, struct qkv_arena *to)
{
    if (x->mode == QKV_RANKS_PIPELINE)
        qkv_ranks_blocks_place(x, to);
    else
        place_all(x, to);
    for (int i = 0; i < qkv_ranks_stages(x); i++) {
        struct qkv_ranks_stage *s = &x->stage[i];
        const int64_t rows = s->b.w.a.B * s->b.w.a.H * s->b.w.a.T;
        s->lse = qkv_arena_alloc(to, (size_t)rows, sizeof(float));
        s->scratch = qkv_arena_alloc(to, 1, s->b.scratch);
    }
    return !qkv_arena_full(to);
}

static qkv_status resolve(struct qkv_ranks_back *x, struct qkv_ranks_plan *p,
                          const struct qkv_attention *a, const struct qkv_attention_gradients *g,
                          const struct qkv_comm *comm)
{
    struct qkv_attention_tables tables = qkv_attention_tables(g);
    if (qkv_ranks_resolve(&x->c, p, a, comm)) return p->status;
    qkv_ranks_choose(p, &x->c);
    x->mode = p->mode;
    find_stages(x);
    for (int i = 0; i < qkv_ranks_stages(x); i++) {
        struct qkv_ranks_stage *s = &x->stage[i];
        const struct qkv_attention run = qkv_ranks_run(&x->c, s->run);
        s->tables = tables;
        if (tables.bias) s->tables.bias += (s->run ? x->c.rows.n[0] : 0) * a->bias.t;
        p->status =
            qkv_attention_back_resolve(&s->b, &run, &s->tables, p->reason, sizeof p->reason);
        x->batch = 2 * qkv_max64(1, s->b.w.threads);
        if (!p->status && x->mode == QKV_RANKS_PIPELINE)
            p->status = qkv_ranks_blocks_cut(x, s);
        else if (!p->status && x->places > 1)
            p->status = qkv_attention_back_cut(&s->b, &s->tables, BATCHES * x->places * x->batch);
        if (p->status) return p->status;
    }
    x->cuts = x->stage[0].b.cuts;
    x->units = x->stage[0].b.w.items ? qkv_attention_back_count(&x->stage[0].b) : 0;
    p->units = x->units;
    return p->status;
}

// The gradients of tables that are sums over all rows: the numbers of all copies of each, or of the
// caller's array if a bias without an axis of rows has no copies; 0: not requested.
struct table_sizes {
    size_t relative, alibi, sinks, bias;
};
static struct table_sizes table_sizes(const struct qkv_ranks_back *x)
{
    const struct qkv_ranks_stage *s = &x->stage[0];
    const struct qkv_attention *a = &s->b.w.a;
    const size_t n = (size_t)(qkv_attention_back_copies(&s->b) * s->b.cuts * a->H);
    const size_t lines = (size_t)((a->bias.b ? a->B : 1) * (a->bias.h ? a->H : 1));
    const size_t bias = s->b.bias_copied ? s->b.bias / sizeof(float) : lines * (size_t)a->S;
    return (struct table_sizes){ s->tables.relative ? n * (size_t)(2 * a->relative.reach + 1) : 0,
                                 s->tables.alibi ? n : 0, s->tables.sinks ? n : 0,
                                 qkv_bias_of_columns(&s->b, &s->tables) ? bias : 0 };
}

static void describe(struct qkv_ranks_plan *p, const struct qkv_ranks_back *x,
                     const struct qkv_attention *a, const struct qkv_attention_gradients *g)
{
    const struct qkv_attention *w = &x->c.whole;
    const size_t own = (size_t)(w->B * x->c.keys.all * w->G * (w->E + w->F)) * x->c.size;
    const size_t all = (size_t)(w->B * w->S * w->G * (w->E + w->F)) * x->c.size;
    for (int i = 0; i < x->stages; i++) {
        const struct qkv_attention run = qkv_ranks_run(&x->c, x->stage[i].run);
        p->flops += qkv_attention_backward_plan(&run, g).flops;
    }
    p->all = qkv_attention_backward_plan(a, g).flops;
    const struct table_sizes n = table_sizes(x);
    const size_t tables = (n.relative + n.alibi + n.sinks + n.bias) * sizeof(float);
    if (x->last == x->c.comm->rank) p->sent = tables * (size_t)(x->c.comm->size - 1);
    if (x->mode == QKV_RANKS_PIPELINE) {
        qkv_ranks_blocks_describe(p, x);
        return;
    }
    p->sent += own * (size_t)(x->c.comm->size - 1);
    if (x->last == x->c.comm->rank) p->sent += all - own;
    for (int i = 0; i < x->stages; i++) {
        const struct qkv_ranks_stage *s = &x->stage[i];
        if (!s->after || s->to == x->c.comm->rank) continue;
        for (int64_t u = 0; u < x->units; u++) p->sent += sums_bytes(x, s, u);
    }
}

QKV_API struct qkv_ranks_plan qkv_ranks_backward_plan(const struct qkv_attention *a,
                                                      const struct qkv_attention_gradients *g,
                                                      const struct qkv_comm *comm)
{
    struct qkv_ranks_plan p = { 0 };
    struct qkv_arena size = { NULL, SIZE_MAX, 0 };
    struct qkv_ranks_back x;
    if (resolve(&x, &p, a, g, comm)) return p;
    if (!place(&x, &size))
        p.status = qkv_attention_refuse(&(struct qkv_attention_reason){ p.reason, sizeof p.reason },
                                        QKV_ERR_LIMIT, "scratch does not fit into memory");
    p.scratch = qkv_round_up(size.used, 64);
    if (!p.status) describe(&p, &x, a, g);
    return p;
}

// ---- the pipeline ------------------------------------------------------------------------------
static qkv_status run_batch(struct qkv_ranks_back *x, struct qkv_ranks_stage *s, int64_t first)
{
    const struct qkv_comm *comm = x->c.comm;
    const int64_t end = qkv_min64(first + x->batch, x->units);
    size_t bytes = 0;
    qkv_status status = QKV_OK;
    for (int64_t i = first; i < end; i++) {
        x->sums[i - first] = (struct qkv_back_sums){ .unit = unit_at(x, i),
                                                     .in = s->before ? x->in + bytes : NULL,
                                                     .out = s->after ? x->out + bytes : NULL };
        bytes += sums_bytes(x, s, i);
    }
    if (s->before) status = qkv_ranks_receive(comm, s->from, x->in, bytes);
    if (status) return status;
    qkv_attention_back_units(&s->call, end - first, x->sums);
    return s->after ? qkv_ranks_send(comm, s->to, x->out, bytes) : QKV_OK;
}

static qkv_status run_units(struct qkv_ranks_back *x)
{
    const int64_t batches = qkv_ceil_div(x->units, x->batch);
    qkv_status status = QKV_OK;
    for (int64_t step = 0; step < batches + x->places - 1; step++)
        for (int i = 0; i < x->stages && !status; i++) {
            const int64_t n = step - x->stage[i].place;
            if (n >= 0 && n < batches) status = run_batch(x, &x->stage[i], n * x->batch);
        }
    return status;
}

// ---- the results -------------------------------------------------------------------------------
// Sends a gradient of all keys, which the rank of the last run has, to the ranks of the keys.
static qkv_status hand_out(const struct qkv_ranks_back *x, char *own, const char *all, int64_t W)
{
    const struct qkv_attention *a = &x->c.whole;
    const struct qkv_comm *comm = x->c.comm;
    const size_t row = (size_t)(a->G * W) * x->c.size;
    const bool gives = comm->rank == x->last;
    qkv_status status = QKV_OK;
    for (int64_t r = 0; r < comm->size; r++) {
        const struct qkv_rank_rows rows = qkv_runs_rows(&x->c.key_runs, r);
        if (!gives && r != comm->rank) continue;
        for (int64_t b = 0; b < a->B; b++)
            for (int i = 0; i < QKV_RANKS_RUNS && !status; i++) {
                const char *from = all + (size_t)(b * a->S + rows.first[i]) * row;
                char *to = own + (size_t)(b * rows.all + (i ? rows.n[0] : 0)) * row;
                const size_t bytes = (size_t)rows.n[i] * row;
                if (!bytes) continue;
                if (r == comm->rank && gives)
                    memcpy(to, from, bytes);
                else
                    status = gives ? qkv_ranks_send(comm, r, from, bytes)
                                   : qkv_ranks_receive(comm, x->last, to, bytes);
            }
    }
    return status;
}

// Sends n numbers from the rank of the last run to all others.
static qkv_status spread(const struct qkv_ranks_back *x, float *at, size_t n)
{
    const struct qkv_comm *comm = x->c.comm;
    const size_t bytes = n * sizeof *at;
    qkv_status status = QKV_OK;
    if (!n) return QKV_OK;
    if (comm->rank != x->last) return qkv_ranks_receive(comm, x->last, at, bytes);
    for (int64_t r = 0; r < comm->size && !status; r++)
        if (r != comm->rank) status = qkv_ranks_send(comm, r, at, bytes);
    return status;
}

// Spreads the gradient of a bias without an axis of rows, n numbers in all.
static qkv_status spread_bias(const struct qkv_ranks_back *x, const struct qkv_ranks_stage *s,
                              size_t n)
{
    const struct qkv_attention *a = &s->b.w.a;
    qkv_status status = QKV_OK;
    if (s->b.bias_copied) return spread(x, s->call.arrays.bias, n);
    for (int64_t b = 0; b < (a->bias.b ? a->B : 1); b++)
        for (int64_t h = 0; n && h < (a->bias.h ? a->H : 1) && !status; h++)
            status = spread(x, s->tables.bias + b * a->bias.b + h * a->bias.h, (size_t)a->S);
    return status;
}

// Adds the gradients of tables on every rank: the copies of the units are complete after the last
// run, whose rank sends them.
static qkv_status add_tables(struct qkv_ranks_back *x)
{
    struct qkv_ranks_stage *s = &x->stage[x->c.comm->rank == x->last ? x->stages - 1 : 0];
    const struct table_sizes n = table_sizes(x);
    qkv_status status = spread(x, s->call.arrays.relative, n.relative);
    if (!status) status = spread(x, s->call.arrays.alibi, n.alibi);
    if (!status) status = spread(x, s->call.arrays.sinks, n.sinks);
    if (!status) status = spread_bias(x, s, n.bias);
    if (!status) qkv_attention_back_tables(&s->call);
    return status;
}

// ---- the call ----------------------------------------------------------------------------------
// Points the stage to its rows in the arrays of the rank, and begins it.
static qkv_status begin(struct qkv_ranks_back *x, struct qkv_ranks_stage *s,
                        const struct qkv_attention_back_given *own)
{
    const struct qkv_attention *a = &s->b.w.a;
    const bool blocks = x->mode == QKV_RANKS_PIPELINE;
    const int64_t before = s->run ? x->c.rows.n[0] : 0;
    const size_t q = (size_t)(before * a->q_strides.t) * x->c.size;
    const size_t out = (size_t)(before * a->out_strides.t) * x->c.size;
    if (a->T) qkv_ranks_lse(&x->c, s->run, s->lse, (float *)(uintptr_t)own->lse, false);
    s->given = (struct qkv_attention_back_given){ .dq = (char *)own->dq + q,
                                                  .dk = blocks ? NULL : x->dk,
                                                  .dv = blocks ? NULL : x->dv,
                                                  .dout = (const char *)own->dout + out,
                                                  .q = (const char *)own->q + q,
                                                  .k = blocks ? NULL : x->k,
                                                  .v = blocks ? NULL : x->v,
                                                  .out = (const char *)own->out + out,
                                                  .scratch = s->scratch,
                                                  .lse = s->lse };
    if (!blocks) return qkv_attention_back_begin(&s->call, &s->b, &s->tables, &s->given);
    qkv_attention_back_begin_blocks(&s->call, &s->b, &s->tables, &s->given);
    return QKV_OK;
}

// Block by block: returns QKV_ERR_USAGE if an array of the rank is missing, misaligned or overlaps
// an output.
static qkv_status check_arrays(const struct qkv_ranks_back *x,
                               const struct qkv_attention_gradients *g,
                               const struct qkv_attention_back_given *own, size_t scratch)
{
    struct qkv_attention_back b = x->stage[0].b;
    const struct qkv_attention_tables tables = qkv_attention_tables(g);
    struct qkv_attention *a = &b.w.a; // all rows and keys of this rank
    a->T = x->c.rows.all;
    a->S = x->c.keys.all;
    a->k_strides.b = a->S * a->k_strides.t;
    a->v_strides.b = a->S * a->v_strides.t;
    a->bias = x->c.whole.bias;
    a->mask = x->c.whole.mask;
    b.scratch = scratch;
    return a->B ? qkv_attention_back_check(&b, &tables, own) : QKV_OK;
}

// Returns QKV_ERR_USAGE if the ranks have different units or batches of units: with different
// numbers of threads, or other axes of the bias.
static qkv_status same_units(const struct qkv_ranks_back *x)
{
    const struct qkv_comm *comm = x->c.comm;
    const struct qkv_attention_back *b = &x->stage[0].b;
    const int64_t own[] = { x->batch, x->cuts, b->slices, 2 * b->bias_items + b->bias_heads };
    enum { N = sizeof own / sizeof *own };
    int64_t most[2 * N];
    for (int i = 0; i < N; i++) {
        most[i] = own[i];
        most[N + i] = -own[i];
    }
    qkv_status status = qkv_ranks_reduce(comm, most, 2 * N);
    for (int i = 0; i < N && !status; i++)
        if (most[i] + most[N + i]) status = QKV_ERR_USAGE;
    return status;
}

// Places the arrays of a call in its scratch. Returns QKV_ERR_USAGE if an array is missing.
static qkv_status place_arrays(struct qkv_ranks_back *x, const struct qkv_attention_gradients *g,
                               const struct qkv_attention_back_given *own)
{
    struct qkv_arena to = { own->scratch, SIZE_MAX, 0 };
    const int64_t B = x->c.whole.B;
    const bool rows = x->c.rows.all && B, keys = x->c.keys.all && B;
    if (!own->scratch || (uintptr_t)own->scratch % 64 || !place(x, &to) ||
        (rows && (!own->dq || !own->dout || !own->q || !own->out || !own->lse)) ||
        (keys && (!own->dk || !own->dv || !own->k || !own->v)))
        return QKV_ERR_USAGE;
    if (x->mode != QKV_RANKS_PIPELINE) return QKV_OK;
    x->k = (char *)(uintptr_t)own->k;
    x->v = (char *)(uintptr_t)own->v;
    x->dk = own->dk;
    x->dv = own->dv;
    return check_arrays(x, g, own, qkv_round_up(to.used, 64));
}

QKV_API qkv_status qkv_ranks_backward(void *dq, void *dk, void *dv,
                                      const struct qkv_attention_gradients *g, const void *dout,
                                      const void *q, const void *k, const void *v, const void *out,
                                      const float *lse, const struct qkv_attention *a,
                                      const struct qkv_comm *comm, void *scratch)
{
    struct qkv_ranks_plan p = { 0 };
    struct qkv_ranks_back x = { 0 };
    if (!comm) return QKV_ERR_USAGE;
    const struct qkv_attention_back_given own = { dq, dk, dv, dout, q, k, v, out, scratch, lse };
    qkv_status status = resolve(&x, &p, a, g, comm);
    status = qkv_ranks_agree_limit(comm, status);
    if (status) return status;
    status = same_units(&x);
    if (status) return status;
    status = qkv_ranks_agree(comm, place_arrays(&x, g, &own));
    const bool blocks = x.mode == QKV_RANKS_PIPELINE;
    if (!status && !blocks) status = qkv_ranks_collect(&x.c, x.k, k, x.c.whole.E);
    if (!status && !blocks) status = qkv_ranks_collect(&x.c, x.v, v, x.c.whole.F);
    for (int i = 0; i < qkv_ranks_stages(&x) && x.units && !status; i++)
        if (x.stages || g) status = begin(&x, &x.stage[i], &own);
    status = qkv_ranks_agree(comm, status);
    if (!status) status = blocks ? qkv_ranks_blocks_run(&x) : run_units(&x);
    for (int i = 0; i < x.stages && x.units && !status; i++)
        qkv_attention_back_rows(&x.stage[i].call);
    if (!status && x.units && !blocks) status = hand_out(&x, dk, x.dk, x.c.whole.E);
    if (!status && x.units && !blocks) status = hand_out(&x, dv, x.dv, x.c.whole.F);
    if (!status && x.units && g) status = add_tables(&x);
    return qkv_ranks_agree(comm, status);
}
#endif
