// SPDX-License-Identifier: MIT
// data_draw.c: draws batches from a dataset, each a pure function of its position.
//
// The order of an epoch is a computed permutation of 0 .. n - 1: a Feistel network over the
// smallest even number of bits that represents n - 1, applied repeatedly until the result is below
// n (Black, Rogaway 2002: Ciphers with Arbitrary Finite Domains). Nothing is stored between
// batches.
#include "task/data/data_internal.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { ROUNDS = 8 };

// Mixes 64 bits so that every bit of x affects every bit of the result (the last step of
// SplitMix64).
static uint64_t mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

int64_t qkv_shuffle(int64_t i, int64_t n, uint64_t key)
{
    int half = 1;
    while (half < 31 && (n - 1) >> (2 * half)) half++;
    const uint64_t mask = ((uint64_t)1 << half) - 1;
    uint64_t x = (uint64_t)i;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (int r = 0; r < ROUNDS; r++) {
            const uint64_t next = left ^ (mix(key ^ mix((uint64_t)r << 32 | right)) & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}

// ---- memory of a batch -------------------------------------------------------------------------
struct workspace {
    int32_t *ids, *targets, *source_ids;
    int64_t *offsets, *source_offsets;
    int64_t ids_capacity, targets_capacity, source_ids_capacity, offsets_capacity,
        source_offsets_capacity;
    int64_t rows, sequences, source_rows, source_sequences, targets_count;
};

static bool reserve_ids(int32_t **p, int64_t *workspace, int64_t need)
{
    void *q = *p;
    const bool ok = qkv_reserve(&q, workspace, need, sizeof **p);
    *p = q;
    return ok;
}
static bool reserve_offsets(int64_t **p, int64_t *workspace, int64_t need)
{
    void *q = *p;
    const bool ok = qkv_reserve(&q, workspace, need, sizeof **p);
    *p = q;
    return ok;
}

// Appends a sequence of n rows, with their targets, to the batch. Returns a pointer to the
// sequence's first id; NULL: memory is exhausted.
static int32_t *add_sequence(struct workspace *r, int64_t n)
{
    if (!reserve_ids(&r->ids, &r->ids_capacity, r->rows + n) ||
        !reserve_ids(&r->targets, &r->targets_capacity, r->rows + n) ||
        !reserve_offsets(&r->offsets, &r->offsets_capacity, r->sequences + 2))
        return NULL;
    int32_t *at = r->ids + r->rows;
    r->offsets[0] = 0;
    r->rows += n;
    r->offsets[++r->sequences] = r->rows;
    return at;
}

static int32_t *add_source(struct workspace *r, int64_t n)
{
    if (!reserve_ids(&r->source_ids, &r->source_ids_capacity, r->source_rows + n) ||
        !reserve_offsets(&r->source_offsets, &r->source_offsets_capacity, r->source_sequences + 2))
        return NULL;
    int32_t *at = r->source_ids + r->source_rows;
    r->source_offsets[0] = 0;
    r->source_rows += n;
    r->source_offsets[++r->source_sequences] = r->source_rows;
    return at;
}

void qkv_drawn_free(struct qkv_drawn *b)
{
    struct workspace *r = b->workspace;
    if (r) {
        qkv_free(r->ids);
        qkv_free(r->targets);
        qkv_free(r->source_ids);
        qkv_free(r->offsets);
        qkv_free(r->source_offsets);
        qkv_free(r);
    }
    memset(b, 0, sizeof *b);
}

// ---- examples ----------------------------------------------------------------------------------
// The tokens of one sequence in the shard.
struct run {
    const int32_t *ids;
    int64_t n;
};
static struct run run_at(const struct data_shard *x, int64_t i)
{
    return (struct run){ x->tokens + x->offsets[i], x->offsets[i + 1] - x->offsets[i] };
}

// Returns the number of rows that example e adds to a batch.
static int64_t rows_of(const struct qkv_data *d, const struct data_shard *x, int64_t e,
                       const struct qkv_draw *how)
{
    const int parts = data_parts(d->info.objective);
    const int64_t n = x->offsets[parts * (e + 1)] - x->offsets[parts * e];
    switch (d->info.objective) {
    case QKV_OBJECTIVE_CAUSAL: return n - 1;
    case QKV_OBJECTIVE_SEQ2SEQ: return n + 1 + how->forces;
    default: return n;
    }
}

static bool add_causal(struct workspace *r, struct run t)
{
    int32_t *ids = add_sequence(r, t.n - 1);
    if (!ids) return false;
    int32_t *targets = r->targets + (ids - r->ids);
    memcpy(ids, t.ids, (size_t)(t.n - 1) * sizeof *ids);
    memcpy(targets, t.ids + 1, (size_t)(t.n - 1) * sizeof *ids);
    r->targets_count += t.n - 1;
    return true;
}

static bool is_special(const struct qkv_data *d, int32_t id)
{
    int64_t low = 0, high = d->specials;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (d->special[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < d->specials && d->special[low] == id;
}

// Selects targets among the tokens that are not special: a fraction of them, at least one, drawn
// without replacement (Devlin et al. 2019, arXiv 1810.04805, A.1). Of the targets, 80 % are
// replaced by the mask, 10 % by a random token, and 10 % are unchanged.
static bool add_masked(const struct qkv_data *d, struct workspace *r, struct run t,
                       const struct qkv_draw *how, uint64_t key)
{
    int32_t *ids = add_sequence(r, t.n);
    if (!ids) return false;
    int32_t *targets = r->targets + (ids - r->ids);
    int64_t open = 0, seen = 0;
    for (int64_t i = 0; i < t.n; i++) {
        ids[i] = t.ids[i];
        targets[i] = -1;
        open += !is_special(d, t.ids[i]);
    }
    const double share = how->mask_share > 0 ? how->mask_share : .15;
    const int64_t want = qkv_max64(1, (int64_t)((double)open * share + .5));
    for (int64_t i = 0; i < t.n; i++) {
        if (is_special(d, t.ids[i]) || qkv_shuffle(seen++, open, key) >= want) continue;
        const uint64_t dice = mix(key ^ mix((uint64_t)i));
        const uint64_t part = (dice >> 32) % 10;
        targets[i] = t.ids[i];
        r->targets_count++;
        if (part < 8)
            ids[i] = how->mask;
        else if (part == 8)
            ids[i] = (int32_t)((dice & UINT32_MAX) * (uint64_t)how->vocab >> 32);
    }
    return true;
}

static bool add_pair(struct workspace *r, struct run source, struct run target,
                     const struct qkv_draw *how)
{
    const int64_t n = target.n + 1 + how->forces;
    int32_t *from = add_source(r, source.n), *ids = from ? add_sequence(r, n) : NULL;
    if (!ids) return false;
    int32_t *targets = r->targets + (ids - r->ids);
    memcpy(from, source.ids, (size_t)source.n * sizeof *from);
    *ids++ = how->bos;
    if (how->forces) *targets++ = *ids++ = how->forced;
    memcpy(ids, target.ids, (size_t)target.n * sizeof *ids);
    memcpy(targets, target.ids, (size_t)target.n * sizeof *ids);
    targets[target.n] = how->eos;
    r->targets_count += n;
    return true;
}

static bool add_text(struct workspace *r, struct run t)
{
    int32_t *ids = add_sequence(r, t.n);
    if (ids) memcpy(ids, t.ids, (size_t)t.n * sizeof *ids);
    return ids != NULL;
}

// Appends example e of the shard to the batch, with random numbers that `key` selects. Returns
// false if memory is exhausted.
static bool add_example(const struct qkv_data *d, const struct data_shard *x, struct workspace *r,
                        int64_t e, const struct qkv_draw *how, uint64_t key)
{
    switch (d->info.objective) {
    case QKV_OBJECTIVE_CAUSAL: return add_causal(r, run_at(x, e));
    case QKV_OBJECTIVE_MASKED: return add_masked(d, r, run_at(x, e), how, key);
    case QKV_OBJECTIVE_SEQ2SEQ: return add_pair(r, run_at(x, 2 * e), run_at(x, 2 * e + 1), how);
    case QKV_OBJECTIVE_CONTRASTIVE:
        r->targets_count++;
        return add_text(r, run_at(x, 2 * e)) && add_text(r, run_at(x, 2 * e + 1));
    case QKV_OBJECTIVE_CLASSIFY:
        if (!add_text(r, run_at(x, e))) return false;
        // One target per sequence. `targets` has space for it, since each sequence has at least one
        // row.
        r->targets[r->targets_count++] = x->label[e];
        return true;
    }
    return false;
}

// ---- batches -----------------------------------------------------------------------------------
static qkv_status check(const struct qkv_data *d, const struct qkv_draw *how, int64_t position,
                        qkv_error *err)
{
    const enum qkv_objective o = d->info.objective;
    const bool needs_vocab = o == QKV_OBJECTIVE_MASKED || o == QKV_OBJECTIVE_SEQ2SEQ;
    if (how->tokens < 1 || how->sequences < 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid size of a batch, expected tokens >= 1 and sequences >= 0, found "
                        "%" PRId64 " tokens and %" PRId64 " sequences",
                        how->tokens, how->sequences);
    if (position < 0 || position > INT64_MAX / 2)
        return qkv_fail(err, QKV_ERR_LIMIT, NULL,
                        "position in the data is out of range, expected 0 to 2^62, found %" PRId64,
                        position);
    if (needs_vocab && how->vocab < 1)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid size of the vocabulary, expected 1 or more, found %" PRId32,
                        how->vocab);
    if (o == QKV_OBJECTIVE_MASKED && (how->mask < 0 || how->mask >= how->vocab ||
                                      !(how->mask_share >= 0 && how->mask_share <= 1)))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid options of masking, expected a mask token of the vocabulary and a "
                        "fraction up to 1, found id %" PRId32 " and %g",
                        how->mask, how->mask_share);
    if (o == QKV_OBJECTIVE_SEQ2SEQ &&
        (how->bos < 0 || how->bos >= how->vocab || how->eos < 0 || how->eos >= how->vocab))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid tokens before and after a target, expected ids of the vocabulary, "
                        "found %" PRId32 " and %" PRId32,
                        how->bos, how->eos);
    if (o == QKV_OBJECTIVE_SEQ2SEQ && how->forces && (how->forced < 0 || how->forced >= how->vocab))
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "invalid first token of a target, expected an id of the vocabulary, found %" PRId32,
            how->forced);
    return QKV_OK;
}

static qkv_status begin(struct qkv_drawn *out, qkv_error *err)
{
    struct workspace *r = out->workspace;
    if (!r) {
        r = qkv_alloc_zero(1, sizeof *r);
        if (!r) return qkv_fail_memory(err, NULL);
    }
    r->rows = r->sequences = r->source_rows = r->source_sequences = r->targets_count = 0;
    *out = (struct qkv_drawn){ .workspace = r };
    return QKV_OK;
}

static void finish(const struct qkv_data *d, struct qkv_drawn *out)
{
    const struct workspace *r = out->workspace;
    struct qkv_net_batch *b = &out->batch;
    b->objective = d->info.objective;
    b->in = (struct qkv_sequences){ .n = r->sequences, .offsets = r->offsets, .ids = r->ids };
    if (b->objective == QKV_OBJECTIVE_SEQ2SEQ)
        b->source = (struct qkv_sequences){ .n = r->source_sequences,
                                            .offsets = r->source_offsets,
                                            .ids = r->source_ids };
    b->targets = b->objective == QKV_OBJECTIVE_CONTRASTIVE ? NULL : r->targets;
    out->targets = r->targets_count;
}

// Appends example e if the batch has space for it. Returns true if the example was appended.
static bool take(const struct qkv_data *d, const struct data_shard *x, struct qkv_drawn *out,
                 int64_t e, const struct qkv_draw *how, uint64_t key, int64_t *rows, bool *memory)
{
    const int64_t more = rows_of(d, x, e, how);
    if (out->sequences &&
        (*rows + more > how->tokens || (how->sequences && out->sequences == how->sequences)))
        return false;
    *memory = add_example(d, x, out->workspace, e, how, key);
    if (!*memory) return false;
    *rows += more;
    out->sequences++;
    if (x->bytes) out->bytes += x->bytes[e + 1] - x->bytes[e];
    return true;
}

qkv_status qkv_data_draw(const qkv_data *d, struct qkv_drawn *out, int64_t position,
                         const struct qkv_draw *how, qkv_error *err)
{
    const struct data_shard *x = &d->shard[DATA_TRAIN];
    const int64_t n = d->info.sequences[DATA_TRAIN];
    int64_t rows = 0, at = position;
    bool memory = true;
    qkv_status status = check(d, how, position, err);
    if (!status) status = begin(out, err);
    if (status) return status;
    for (;; at++) {
        const uint64_t epoch = mix(how->seed ^ mix((uint64_t)(at / n)));
        const int64_t e = qkv_shuffle(at % n, n, epoch);
        const uint64_t key = mix(epoch ^ mix(~(uint64_t)e));
        if (!take(d, x, out, e, how, key, &rows, &memory)) break;
    }
    if (!memory) return qkv_fail_memory(err, NULL);
    finish(d, out);
    out->next = at;
    out->epoch = (double)at / (double)n;
    return QKV_OK;
}

qkv_status qkv_data_valid(const qkv_data *d, struct qkv_drawn *out, int64_t position,
                          const struct qkv_draw *how, qkv_error *err)
{
    const struct data_shard *x = &d->shard[DATA_VALID];
    const int64_t n = d->info.sequences[DATA_VALID];
    int64_t rows = 0, at = position;
    bool memory = true;
    qkv_status status = check(d, how, position, err);
    if (!status) status = begin(out, err);
    if (status) return status;
    for (; at < n; at++) {
        const uint64_t key = mix(~how->seed ^ mix((uint64_t)at));
        if (!take(d, x, out, at, how, key, &rows, &memory)) break;
    }
    if (!memory) return qkv_fail_memory(err, NULL);
    finish(d, out);
    out->next = at;
    out->epoch = (double)at / (double)n;
    return QKV_OK;
}
