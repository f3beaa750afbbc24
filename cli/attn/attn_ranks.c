// SPDX-License-Identifier: MIT
// attn_ranks.c: runs attention on several ranks: each converts and computes its own rows, rank 0
// receives all results.
#include "attn/attn.h"
#include <stdlib.h>
#include <string.h>

// Returns the rows of this rank of an array [B][n][W] of floats, in the type of the operator.
static void *rows_of(const float *all, const struct qkv_rank_rows *r, int64_t B, int64_t n,
                     int64_t W, qkv_dtype type)
{
    char *own = cmd_alloc((size_t)(B * r->all * W) + 1, qkv_dtype_size(type)), *to = own;
    for (int64_t b = 0; b < B; b++)
        for (int i = 0; i < 2; i++) {
            qkv_from_f32(to, type, all + (b * n + r->first[i]) * W, r->n[i] * W);
            to += (size_t)(r->n[i] * W) * qkv_dtype_size(type);
        }
    return own;
}

// Copies the rows of a rank from `own`, [B][r->all][W], into an array [B][n][W] of all rows.
static void place_rows(float *all, const float *own, const struct qkv_rank_rows *r, int64_t B,
                       int64_t n, int64_t W)
{
    for (int64_t b = 0; b < B; b++)
        for (int i = 0; i < 2; i++) {
            memcpy(all + (b * n + r->first[i]) * W, own, (size_t)(r->n[i] * W) * sizeof *all);
            own += r->n[i] * W;
        }
}

// Collects the rows of all ranks in all[B][T][W] on rank 0.
static qkv_status collect(float *all, const float *own, const struct qkv_attention *a, int64_t B,
                          int64_t W)
{
    qkv_status status = QKV_OK;
    for (int64_t r = 0; r < ranks.size && !status; r++) {
        const struct qkv_rank_rows rows = qkv_rank_rows(a, false, r, ranks.size);
        const size_t numbers = (size_t)(B * rows.all * W), bytes = numbers * sizeof *own;
        if (r == 0 && ranks.rank == 0) place_rows(all, own, &rows, B, a->T, W);
        if (r == 0 || !bytes) continue;
        if (ranks.rank == r) status = ranks.send(ranks.ctx, 0, own, bytes);
        if (ranks.rank) continue;
        float *part = cmd_alloc(numbers, sizeof *part);
        status = ranks.receive(ranks.ctx, r, part, bytes);
        if (!status) place_rows(all, part, &rows, B, a->T, W);
        free(part);
    }
    return status;
}

// Gives the call the rows of bias or mask that this rank has: one copy per batch item and head, as
// far as these axes are there.
static void *own_rows(const void *at, int64_t *b, int64_t *h, int64_t t, size_t size,
                      const struct qkv_attention *a, const struct qkv_rank_rows *r)
{
    if (!at || !t) return NULL; // all rows are the same one
    const int64_t B = *b ? a->B : 1, H = *h ? a->H : 1, part = r->all * t;
    char *own = cmd_alloc((size_t)(B * H * part) + 1, size), *to = own;
    for (int64_t i = 0; i < B * H; i++)
        for (int k = 0; k < 2; k++) {
            const size_t bytes = (size_t)(r->n[k] * t) * size;
            const int64_t from = i / H * *b + i % H * *h + r->first[k] * t;
            memcpy(to, (const char *)at + (size_t)from * size, bytes);
            to += bytes;
        }
    *h = *h ? part : 0;
    *b = *b ? H * part : 0;
    return own;
}

// Returns the bytes that rank r sends over the link to its neighbour, over which it sends most. MPI
// passes what is collected around a ring: all but the part of the next rank.
static size_t link_bytes(const struct qkv_ranks_plan *own, const struct qkv_ranks_plan *next,
                         size_t all)
{
    const size_t others = (size_t)ranks.size - 1;
    return own->mode == QKV_RANKS_PIPELINE ? own->sent / others : all - next->sent / others;
}

static struct qkv_ranks_plan plan_of(const struct attn_job *j, int64_t rank)
{
    struct qkv_comm c = ranks;
    struct qkv_attention a = j->a;
    c.rank = rank % ranks.size;
    a.probe = NULL;
    return qkv_ranks_plan(&a, &c);
}

static void print_runs(const struct qkv_rank_rows *r)
{
    const char *between = "";
    for (int i = 0; i < 2; i++) {
        if (!r->n[i]) continue;
        if (common.json)
            printf("%s[%lld,%lld]", between, (long long)r->first[i],
                   (long long)(r->first[i] + r->n[i]));
        else
            printf("%s%lld to %lld", between, (long long)r->first[i],
                   (long long)(r->first[i] + r->n[i] - 1));
        between = common.json ? "," : " and ";
    }
    if (!common.json && !r->all) printf("none");
}

void attn_ranks_plan_print(const struct attn_job *j)
{
    if (ranks.size == 1) return;
    struct qkv_ranks_plan p = plan_of(j, 0);
    const bool pipeline = p.mode == QKV_RANKS_PIPELINE;
    const char *const origin =
        j->limit_given ? "" : ", half of the memory available to the rank with the least";
    size_t all = 0;
    for (int64_t r = 0; r < ranks.size; r++) all += plan_of(j, r).sent / (size_t)(ranks.size - 1);
    if (common.json)
        printf(",\"ranks\":{\"size\":%lld,\"mode\":\"%s\",\"reason\":\"%s%s\",\"blocks\":%lld,"
               "\"block\":%zu,\"rank\":[",
               (long long)ranks.size, pipeline ? "pipeline" : "collect", p.reason, origin,
               (long long)p.blocks, p.block);
    else if (pipeline)
        printf("ranks    %lld, keys and values in %lld blocks of at most %zu bytes, since %s%s\n",
               (long long)ranks.size, (long long)p.blocks, p.block, p.reason, origin);
    else
        printf("ranks    %lld, each collects all keys and values, since %s%s\n",
               (long long)ranks.size, p.reason, origin);
    for (int64_t r = 0; r < ranks.size; r++) {
        p = plan_of(j, r);
        const struct qkv_ranks_plan next = plan_of(j, r + 1);
        const size_t link = link_bytes(&p, &next, all);
        const size_t sent = pipeline ? p.sent : link;
        printf(common.json ? "%s{\"rows\":[" : "%srank %lld: rows ", common.json && r ? "," : "",
               (long long)r);
        print_runs(&p.rows);
        printf(common.json ? "],\"sent\":%zu,\"link\":%zu,\"scratch\":%zu,\"flops\":%.0f}"
                           : "; sends %zu bytes, %zu over a link; scratch %zu bytes; %.6g FLOP\n",
               sent, link, p.scratch, p.flops);
    }
    if (common.json) printf("]}");
}

// Computes the statistics of --probe, from the rows of lse that rank 0 has.
static qkv_status run_probe(const struct attn_job *j, float *lse)
{
    const struct qkv_attention *a = &j->a;
    const qkv_dtype type = qkv_precision_type(a->precision);
    const size_t size = qkv_dtype_size(type);
    const struct qkv_attention_plan plan = qkv_attention_probe_plan(a, a->probe);
    const size_t bytes = (size_t)(a->B * a->H * a->T) * sizeof *lse;
    qkv_status status = QKV_OK;
    for (int64_t r = 1; r < ranks.size && !ranks.rank && bytes && !status; r++)
        status = ranks.send(ranks.ctx, r, lse, bytes);
    if (ranks.rank && bytes) status = ranks.receive(ranks.ctx, 0, lse, bytes);
    void *q = cmd_alloc((size_t)j->q.count + 1, size), *k = cmd_alloc((size_t)j->k.count + 1, size);
    void *scratch = cmd_alloc(plan.scratch + 1, 1);
    qkv_from_f32(q, type, j->q.at, j->q.count);
    qkv_from_f32(k, type, j->k.at, j->k.count);
    if (!status) status = qkv_ranks_probe(a->probe, q, k, lse, a, &ranks, scratch);
    free(q);
    free(k);
    free(scratch);
    return status;
}

// The rows of this rank, and the results that it computes for them.
struct own {
    void *q, *out;        // of the type of the operator
    float *lse, *weights; // [B][H][rows], [B][H][rows][S]; weights NULL: not requested
};

// Runs the rows of this rank with their weights, each run of rows as a part of the whole call,
// which reads all keys. Every rank has these, since it has read the files.
static qkv_status run_weights(const struct attn_job *j, const struct qkv_attention *whole,
                              const struct qkv_rank_rows *r, const struct own *x)
{
    const qkv_dtype type = qkv_precision_type(whole->precision);
    const struct qkv_rank_rows all = { .n = { whole->S }, .all = whole->S };
    const int64_t G = whole->G ? whole->G : whole->H, F = whole->F ? whole->F : whole->E;
    const int64_t q = whole->H * whole->E, out = whole->H * F;
    void *k = rows_of(j->k.at, &all, whole->B, whole->S, G * whole->E, type);
    void *v = rows_of(j->v.at, &all, whole->B, whole->S, G * F, type);
    qkv_status status = QKV_OK;
    for (int i = 0; i < 2 && !status; i++) {
        struct qkv_attention a = *whole;
        const int64_t before = i ? r->n[0] : 0, rows = whole->B * whole->H * r->n[i];
        a.T = r->n[i];
        a.first_row = r->first[i];
        a.all_rows = whole->T;
        a.q_strides = (struct qkv_strides){ r->all * q, q, a.E };
        a.out_strides = (struct qkv_strides){ r->all * out, out, F };
        if (a.bias.at) a.bias.at += before * a.bias.t;
        if (a.mask.at) a.mask.at += before * a.mask.t;
        if (!rows) continue;
        float *lse = cmd_alloc((size_t)rows, sizeof *lse);
        float *weights = cmd_alloc((size_t)(rows * a.S) + 1, sizeof *weights);
        void *scratch = cmd_alloc(qkv_attention_plan(&a).scratch, 1);
        const size_t size = qkv_dtype_size(type);
        status = qkv_attention_forward(
            (char *)x->out + (size_t)(before * out) * size, a.no_softmax ? NULL : lse, weights,
            (const char *)x->q + (size_t)(before * q) * size, k, v, &a, scratch);
        for (int64_t h = 0; h < a.B * a.H && !status; h++) {
            const int64_t to = h * r->all + before, from = h * a.T;
            memcpy(x->lse + to, lse + from, (size_t)a.T * sizeof *lse);
            memcpy(x->weights + to * a.S, weights + from * a.S,
                   (size_t)(a.T * a.S) * sizeof *weights);
        }
        free(lse);
        free(weights);
        free(scratch);
    }
    free(k);
    free(v);
    return status;
}

qkv_status attn_ranks_run(const struct attn_job *j, float *out, float *lse, float *weights,
                          qkv_error *err)
{
    struct qkv_attention a = j->a;
    const qkv_dtype type = qkv_precision_type(a.precision);
    float *all_lse = NULL; // that no option requests
    a.probe = NULL;
    const struct qkv_ranks_plan p = qkv_ranks_plan(&a, &ranks);
    const struct qkv_rank_rows *r = &p.rows, *s = &p.keys;
    if (p.status) return cmd_error(err, p.status, NULL, "%s", p.reason);
    if (j->a.probe && !lse) lse = all_lse = cmd_alloc((size_t)(a.B * a.H * a.T) + 1, sizeof *lse);
    const int64_t G = a.G ? a.G : a.H, F = a.F ? a.F : a.E, heads = a.H * F;
    void *q = rows_of(j->q.at, r, a.B, a.T, a.H * a.E, type);
    void *k = rows_of(j->k.at, s, a.B, a.S, G * a.E, type);
    void *v = rows_of(j->v.at, s, a.B, a.S, G * F, type);
    const size_t numbers = (size_t)(a.B * r->all * heads), logs = (size_t)(a.B * r->all * a.H);
    void *own = cmd_alloc(numbers + 1, qkv_dtype_size(type)), *scratch = cmd_alloc(p.scratch, 1);
    float *own_out = cmd_alloc(numbers + 1, sizeof *own_out);
    float *own_lse = cmd_alloc(logs + 1, sizeof *own_lse);
    float *bias = own_rows(a.bias.at, &a.bias.b, &a.bias.h, a.bias.t, sizeof *bias, &a, r);
    uint8_t *mask = own_rows(a.mask.at, &a.mask.b, &a.mask.h, a.mask.t, 1, &a, r);
    if (bias) a.bias.at = bias;
    if (mask) a.mask.at = mask;
    float *own_weights = weights ? cmd_alloc(logs * (size_t)a.S + 1, sizeof *own_weights) : NULL;
    qkv_status status =
        weights ? run_weights(j, &a, r, &(struct own){ q, own, own_lse, own_weights })
                : qkv_ranks_forward(own, lse ? own_lse : NULL, q, k, v, &a, &ranks, scratch);
    if (!status) {
        qkv_to_f32(own_out, own, type, (int64_t)numbers);
        status = collect(out, own_out, &a, a.B, heads);
    }
    if (!status && lse) status = collect(lse, own_lse, &a, a.B * a.H, 1);
    if (!status && weights) status = collect(weights, own_weights, &a, a.B * a.H, a.S);
    if (!status && j->a.probe) status = run_probe(j, lse);
    void *const all[] = {
        all_lse, q, k, v, own, scratch, own_out, own_lse, own_weights, bias, mask
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    if (!status) return QKV_OK;
    if (status == QKV_ERR_LIMIT)
        return cmd_error(err, status, NULL, "out of memory in attention over ranks");
    return cmd_error(err, status, NULL, "attention over ranks failed: %s", qkv_status_name(status));
}
