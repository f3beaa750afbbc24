// SPDX-License-Identifier: MIT
// ranks_back_blocks.c: the backward pass of attention over ranks in memory n / P. Keys and values
// travel block by block with the sums of their gradients, through all runs in the order of the rows;
// each rank keeps the sums of dq of its rows between blocks.
//
//   batch   units that a run processes at once: the same cut of some streams (attention_back_work.h)
//   block   the keys and values of a batch, unit by unit
//
// The ranks of the keys send a block to the first run. In step s, run p has batch s - p: it receives
// the block and its sums from run p - 1, sends the block to run p + 1, adds its rows to the sums, and
// sends these too. The last run sends dk and dv to the ranks of the keys. The batches of a stream are
// in the order of its keys, so that the sums of dq have the order of one process.
//
// All ranks agree in each step after they have received their blocks. So a run has at most one block
// on its way to the next run, and the ranks of the keys one to the first run.
#include "layer/ranks/ranks_work.h"
#include <string.h>

#ifndef QKV_DOUBLE
// ---- batches -----------------------------------------------------------------------------------
// The units with index `cut` of the streams first .. first+n-1; n 0: there is none.
struct batch {
    int64_t first, n;
    int64_t cut, cuts; // cuts: of the longest of these streams
};
static int64_t unit_of(const struct qkv_ranks_back *x, const struct batch *at, int64_t i)
{
    return (at->first + i) * x->cuts + at->cut;
}

static size_t key_bytes(const struct qkv_ranks_back *x)
{
    return (size_t)(x->c.whole.E + x->c.whole.F) * x->c.size;
}

// Returns the number of keys of a unit, or of all units of its stream.
static int64_t keys_of(const struct qkv_attention_back *b, int64_t unit, bool stream)
{
    struct qkv_back_keys k;
    int64_t keys = 0;
    for (int64_t i = 0; qkv_attention_back_keys(&k, b, unit, i); i++) keys += stream ? k.all : k.n;
    return keys;
}

// Moves on to the next batch. Streams that are short enough to be in one block together are in one
// batch.
static void next_batch(const struct qkv_ranks_back *x, struct batch *at)
{
    const struct qkv_attention_back *b = &x->stage[0].b;
    const int64_t streams = x->units / x->cuts;
    size_t bytes = 0;
    if (at->n && ++at->cut < at->cuts) return;
    *at = (struct batch){ .first = at->first + at->n };
    for (int64_t i = at->first; i < streams; i++) {
        int64_t cuts = 1;
        bytes += (size_t)keys_of(b, i * x->cuts, true) * key_bytes(x);
        if (at->n >= x->batch && bytes > qkv_ranks_block(x->c.comm)) return;
        while (cuts < x->cuts && keys_of(b, i * x->cuts + cuts, false)) cuts++;
        at->cuts = qkv_max64(at->cuts, cuts);
        at->n++;
    }
}

static int64_t count_batches(const struct qkv_ranks_back *x)
{
    struct batch at = { 0 };
    int64_t n = 0;
    for (next_batch(x, &at); at.n; next_batch(x, &at)) n++;
    return n;
}

// Returns the bytes of a block.
static size_t block_bytes(const struct qkv_ranks_back *x, const struct batch *at)
{
    int64_t keys = 0;
    for (int64_t i = 0; i < at->n; i++) keys += keys_of(&x->stage[0].b, unit_of(x, at, i), false);
    return (size_t)keys * key_bytes(x);
}

static size_t sums_bytes(const struct qkv_ranks_back *x, const struct batch *at)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < at->n; i++)
        bytes += qkv_ranks_sums_bytes(&x->stage[0], unit_of(x, at, i));
    return bytes;
}

// Returns the numbers of the sums of dq of a unit.
static size_t dq_numbers(const struct qkv_attention_back *b, int64_t unit)
{
    struct qkv_back_keys k;
    int64_t rows = 0;
    for (int64_t i = 0; qkv_attention_back_keys(&k, b, unit, i); i++) rows += k.rows;
    return (size_t)(2 * rows * b->kernel->width(b->w.a.E));
}

qkv_status qkv_ranks_blocks_cut(struct qkv_ranks_back *x, struct qkv_ranks_stage *s)
{
    const struct qkv_attention_back *b = &s->b;
    const int64_t slices = qkv_max64(1, b->slices), shares = qkv_max64(1, b->shares);
    const int64_t pairs = qkv_ceil_div(b->w.items, slices) * qkv_ceil_div(b->w.a.G, shares);
    x->batch = qkv_max64(1, qkv_min64(b->w.threads, slices * shares));
    const size_t keys = qkv_ranks_block(x->c.comm) / key_bytes(x);
    const int64_t chunks = (int64_t)keys / b->chunk / x->batch / qkv_max64(1, pairs);
    return qkv_attention_back_blocks(&s->b, &s->tables, qkv_max64(1, chunks));
}

void qkv_ranks_blocks_place(struct qkv_ranks_back *x, struct qkv_arena *to)
{
    size_t block = 0, sums = 0, dq[QKV_RANKS_RUNS] = { 0 };
    int64_t units = 0;
    struct batch at = { 0 };
    for (next_batch(x, &at); at.n; next_batch(x, &at)) {
        const size_t bytes = block_bytes(x, &at), more = sums_bytes(x, &at);
        block = block > bytes ? block : bytes;
        sums = sums > more ? sums : more;
        units = qkv_max64(units, at.n);
        for (int i = 0; i < x->stages && !at.cut; i++) {
            size_t n = 0;
            for (int64_t u = 0; u < at.n; u++) n += dq_numbers(&x->stage[i].b, unit_of(x, &at, u));
            dq[i] = dq[i] > n ? dq[i] : n;
        }
    }
    for (int i = 0; i < x->stages; i++) {
        x->stage[i].keys = qkv_arena_alloc(to, 1, block);
        x->stage[i].in = qkv_arena_alloc(to, 1, sums);
        x->stage[i].dq = qkv_arena_alloc(to, dq[i], sizeof(float));
    }
    x->message = qkv_arena_alloc(to, 1, block);
    x->out = qkv_arena_alloc(to, 1, sums);
    x->sums = qkv_arena_alloc(to, (size_t)units, sizeof *x->sums);
}

// ---- what a rank has of a block ----------------------------------------------------------------
// How what a rank has of the keys and values of a batch, or of their gradients, is copied: to a
// message or from it. The other side is a block, or arrays of the rank.
struct copy {
    char *message; // NULL: the bytes are only counted
    char *block;   // NULL: the arrays k and v of the rank
    char *k, *v;
    bool to_message;
};

static void copy_bytes(const struct copy *c, char *message, char *other, size_t n)
{
    memcpy(c->to_message ? message : other, c->to_message ? other : message, n);
}

// Keys lo .. hi-1 of a batch item, which the rank has. Its array has key `first` in row `row`.
struct piece {
    int64_t lo, hi, first, row;
};
// Copies a piece of the keys, or values, of k; returns their bytes.
static size_t copy_piece(const struct qkv_ranks_back *x, const struct copy *c,
                         const struct qkv_back_keys *k, const struct piece *p, bool values,
                         char *message, char *block)
{
    const int64_t G = x->c.whole.G;
    const size_t wide = (size_t)(values ? x->c.whole.F : x->c.whole.E) * x->c.size;
    const size_t n = (size_t)(p->hi - p->lo);
    if (!c->message) return n * wide;
    if (block) {
        copy_bytes(c, message, block + (size_t)(p->lo - k->first) * wide, n * wide);
        return n * wide;
    }
    const int64_t at = (p->row + p->lo - p->first) * G + k->g;
    char *own = (values ? c->v : c->k) + (size_t)at * wide;
    for (size_t i = 0; i < n; i++)
        copy_bytes(c, message + i * wide, own + i * (size_t)G * wide, wide);
    return n * wide;
}

// Copies the keys of a batch that a rank has; returns the bytes of the message.
static size_t copy_keys(const struct qkv_ranks_back *x, const struct batch *at, int64_t rank,
                        const struct copy *c)
{
    const struct qkv_rank_rows own = qkv_runs_rows(&x->c.key_runs, rank);
    const size_t key = (size_t)x->c.whole.E * x->c.size;
    struct qkv_back_keys k;
    size_t bytes = 0, block = 0;
    for (int64_t u = 0; u < at->n; u++)
        for (int64_t i = 0; qkv_attention_back_keys(&k, &x->stage[0].b, unit_of(x, at, u), i);
             i++) {
            for (int r = 0; r < QKV_RANKS_RUNS; r++) {
                const struct piece p = { .lo = qkv_max64(k.first, own.first[r]),
                                         .hi = qkv_min64(k.first + k.n, own.first[r] + own.n[r]),
                                         .first = own.first[r],
                                         .row = k.b * own.all + (r ? own.n[0] : 0) };
                if (p.lo >= p.hi) continue;
                char *keys = c->block ? c->block + block : NULL;
                char *values = c->block ? keys + (size_t)k.n * key : NULL;
                char *to = c->message ? c->message + bytes : NULL;
                const size_t n = copy_piece(x, c, &k, &p, false, to, keys);
                bytes += n + copy_piece(x, c, &k, &p, true, to ? to + n : NULL, values);
            }
            block += (size_t)k.n * key_bytes(x);
        }
    return bytes;
}

static size_t count_keys(const struct qkv_ranks_back *x, const struct batch *at, int64_t rank)
{
    return copy_keys(x, at, rank, &(struct copy){ 0 });
}

void qkv_ranks_blocks_describe(struct qkv_ranks_plan *p, const struct qkv_ranks_back *x)
{
    const struct qkv_comm *comm = x->c.comm;
    struct batch at = { 0 };
    if (!x->units) return;
    for (next_batch(x, &at); at.n; next_batch(x, &at)) {
        const size_t block = block_bytes(x, &at);
        p->blocks++;
        p->block = p->block > block ? p->block : block;
        if (x->first != comm->rank) p->sent += count_keys(x, &at, comm->rank);
        if (x->last == comm->rank) p->sent += block - count_keys(x, &at, comm->rank);
        for (int i = 0; i < x->stages; i++)
            if (x->stage[i].after && x->stage[i].to != comm->rank)
                p->sent += block + sums_bytes(x, &at);
    }
}

// ---- messages ----------------------------------------------------------------------------------
// Sends what this rank has of the keys and values of a batch to the first run.
static qkv_status send_keys(const struct qkv_ranks_back *x, const struct batch *at)
{
    const struct qkv_comm *comm = x->c.comm;
    if (x->first == comm->rank) return QKV_OK;
    const size_t n = copy_keys(
        x, at, comm->rank,
        &(struct copy){ .message = x->message, .k = x->k, .v = x->v, .to_message = true });
    return n ? qkv_ranks_send(comm, x->first, x->message, n) : QKV_OK;
}

// Receives the block of a stage: the first run from the ranks of the keys.
static qkv_status receive_keys(const struct qkv_ranks_back *x, const struct qkv_ranks_stage *s,
                               const struct batch *at)
{
    const struct qkv_comm *comm = x->c.comm;
    const size_t block = block_bytes(x, at);
    qkv_status status = QKV_OK;
    if (s->before) return block ? qkv_ranks_receive(comm, s->from, s->keys, block) : QKV_OK;
    for (int64_t r = 0; r < comm->size && !status; r++) {
        struct copy c = { .message = x->message, .k = x->k, .v = x->v, .to_message = true };
        const size_t n = count_keys(x, at, r);
        if (!n) continue;
        if (r == comm->rank)
            copy_keys(x, at, r, &c);
        else
            status = qkv_ranks_receive(comm, r, x->message, n);
        c.block = s->keys;
        c.to_message = false;
        if (!status) copy_keys(x, at, r, &c);
    }
    return status;
}

// Copies the gradients of this rank's keys from the message.
static void store_gradients(const struct qkv_ranks_back *x, const struct batch *at)
{
    copy_keys(x, at, x->c.comm->rank,
              &(struct copy){ .message = x->message, .k = x->dk, .v = x->dv });
}

// Sends the gradients of a block, which the last run has, to the ranks of its keys.
static qkv_status send_gradients(const struct qkv_ranks_back *x, const struct qkv_ranks_stage *s,
                                 const struct batch *at)
{
    const struct qkv_comm *comm = x->c.comm;
    const struct copy c = { .message = x->message, .block = s->keys, .to_message = true };
    qkv_status status = QKV_OK;
    for (int64_t r = 0; r < comm->size && !status; r++) {
        const size_t n = copy_keys(x, at, r, &c);
        if (n && r == comm->rank)
            store_gradients(x, at);
        else if (n)
            status = qkv_ranks_send(comm, r, x->message, n);
    }
    return status;
}

static qkv_status receive_gradients(const struct qkv_ranks_back *x, const struct batch *at)
{
    const struct qkv_comm *comm = x->c.comm;
    const size_t n = x->last == comm->rank ? 0 : count_keys(x, at, comm->rank);
    if (!n) return QKV_OK;
    const qkv_status status = qkv_ranks_receive(comm, x->last, x->message, n);
    if (!status) store_gradients(x, at);
    return status;
}

// ---- the pipeline ------------------------------------------------------------------------------
static void compute(struct qkv_ranks_back *x, struct qkv_ranks_stage *s, const struct batch *at)
{
    char *keys = s->keys;
    float *dq = s->dq;
    size_t bytes = 0;
    for (int64_t i = 0; i < at->n; i++) {
        const int64_t unit = unit_of(x, at, i);
        x->sums[i] = (struct qkv_back_sums){ .unit = unit,
                                             .in = s->before ? s->in + bytes : NULL,
                                             .out = s->after ? x->out + bytes : NULL,
                                             .keys = keys,
                                             .dq = dq };
        bytes += qkv_ranks_sums_bytes(s, unit);
        keys += (size_t)keys_of(&s->b, unit, false) * key_bytes(x);
        dq += dq_numbers(&s->b, unit);
    }
    qkv_attention_back_units(&s->call, at->n, x->sums);
}

// The batches of this rank in a step: of each stage, of the keys that it sends, and of the gradients
// that it receives.
struct step {
    struct batch stage[QKV_RANKS_RUNS], keys, gradients;
    bool runs[QKV_RANKS_RUNS]; // whether a stage has a batch in this step
};

// Receives the blocks and sums of the stages, and the gradients that are complete.
static qkv_status receive_all(const struct qkv_ranks_back *x, const struct step *t, bool gradients)
{
    const struct qkv_comm *comm = x->c.comm;
    qkv_status status = QKV_OK;
    for (int i = 0; i < x->stages && !status; i++)
        if (t->runs[i]) status = receive_keys(x, &x->stage[i], &t->stage[i]);
    for (int i = 0; i < x->stages && !status; i++) {
        const struct qkv_ranks_stage *s = &x->stage[i];
        const size_t bytes = t->runs[i] && s->before ? sums_bytes(x, &t->stage[i]) : 0;
        if (bytes) status = qkv_ranks_receive(comm, s->from, s->in, bytes);
    }
    return status || !gradients ? status : receive_gradients(x, &t->gradients);
}

// Sends blocks, computes, and sends sums or gradients.
static qkv_status compute_all(struct qkv_ranks_back *x, const struct step *t)
{
    const struct qkv_comm *comm = x->c.comm;
    qkv_status status = QKV_OK;
    for (int i = 0; i < x->stages && !status; i++) {
        const struct qkv_ranks_stage *s = &x->stage[i];
        const size_t block = t->runs[i] && s->after ? block_bytes(x, &t->stage[i]) : 0;
        if (block) status = qkv_ranks_send(comm, s->to, s->keys, block);
    }
    for (int i = 0; i < x->stages && !status; i++) {
        struct qkv_ranks_stage *s = &x->stage[i];
        if (!t->runs[i]) continue;
        compute(x, s, &t->stage[i]);
        const size_t bytes = s->after ? sums_bytes(x, &t->stage[i]) : 0;
        if (bytes) status = qkv_ranks_send(comm, s->to, x->out, bytes);
        if (!s->after) status = send_gradients(x, s, &t->stage[i]);
    }
    return status;
}

qkv_status qkv_ranks_blocks_run(struct qkv_ranks_back *x)
{
    const size_t keys = (size_t)(x->c.whole.B * x->c.keys.all * x->c.whole.G) * x->c.size;
    const int64_t batches = x->units ? count_batches(x) : 0;
    struct step t = { 0 };
    qkv_status status = QKV_OK;
    if (!batches) return QKV_OK;
    // keys that no query may see are in no unit
    if (keys) memset(x->dk, 0, keys * (size_t)x->c.whole.E);
    if (keys) memset(x->dv, 0, keys * (size_t)x->c.whole.F);
    next_batch(x, &t.keys);
    status = send_keys(x, &t.keys);
    for (int64_t step = 0; step < batches + x->places && !status; step++) {
        const bool gradients = step >= x->places;
        for (int i = 0; i < x->stages; i++) {
            const int64_t n = step - x->stage[i].place;
            t.runs[i] = n >= 0 && n < batches;
            if (t.runs[i]) next_batch(x, &t.stage[i]);
        }
        if (gradients) next_batch(x, &t.gradients);
        status = qkv_ranks_agree(x->c.comm, receive_all(x, &t, gradients));
        if (!status && step + 1 < batches) {
            next_batch(x, &t.keys);
            status = send_keys(x, &t.keys);
        }
        if (!status) status = compute_all(x, &t);
    }
    return status;
}
#endif
