// SPDX-License-Identifier: MIT
// rank_jobs.h: calls of attention on ranks that are threads of the test (thread_ranks.h), each with
// its rows of a problem of attention_back_case.h.
#ifndef QKV_RANK_JOBS_H
#define QKV_RANK_JOBS_H
#include "layer/attention/attention_back_case.h"
#include "thread_ranks.h"

static const int64_t sizes[] = { 1, 2, 3, 4, 7 };

// The arrays of one rank.
struct job {
    struct qkv_attention a;
    struct qkv_attention_gradients g;
    bool backward;
    size_t limit; // collect_limit
    char *q, *k, *v, *out, *dout, *dq, *dk, *dv;
    float *lse, *bias;
    uint8_t *mask;
    size_t dq_n, dk_n, dv_n, bias_n; // bytes of dq, dk, dv; numbers of the gradient of bias
    struct qkv_ranks_plan plan;
    qkv_status status;
};
// The arrays of the whole call in the type of the precision.
struct stored {
    char *q, *k, *v, *out, *dout, *dq, *dk, *dv;
};

static size_t unit(void)
{
    return qkv_dtype_size(case_family()->type);
}

// Copies the rows of a rank out of an array [B][n][W bytes], or into it.
static void copy_rows(char *part, char *whole, const struct qkv_rank_rows *r, int64_t B, int64_t n,
                      size_t W, bool into)
{
    for (int64_t b = 0; b < B; b++)
        for (int i = 0; i < 2; i++) {
            char *here = part + (size_t)(b * r->all + (i ? r->n[0] : 0)) * W;
            char *there = whole + (size_t)(b * n + r->first[i]) * W;
            memcpy(into ? there : here, into ? here : there, (size_t)r->n[i] * W);
        }
}

static char *take(char *whole, const struct qkv_rank_rows *r, int64_t B, int64_t n, size_t W)
{
    char *part = fenced((size_t)(B * r->all) * W + 16);
    if (whole) copy_rows(part, whole, r, B, n, W, false);
    return part;
}

static void body(const struct qkv_comm *comm, void *ctx)
{
    struct job *j = ctx;
    struct qkv_comm limited = *comm;
    void *scratch = NULL;
    limited.collect_limit = j->limit;
    j->plan = j->backward ? qkv_ranks_backward_plan(&j->a, &j->g, &limited)
                          : qkv_ranks_plan(&j->a, &limited);
    if (!j->plan.status && posix_memalign(&scratch, 64, j->plan.scratch + 64)) abort();
    if (scratch) memset(scratch, 0xff, j->plan.scratch);
    j->status = j->backward
                    ? qkv_ranks_backward(j->dq, j->dk, j->dv, &j->g, j->dout, j->q, j->k, j->v,
                                         j->out, j->lse, &j->a, &limited, scratch)
                    : qkv_ranks_forward(j->out, j->lse, j->q, j->k, j->v, &j->a, &limited, scratch);
    free(scratch);
}

// Returns the lines of a bias with an axis of rows: of its batch items and its heads.
static int64_t bias_lines(const struct qkv_attention *a)
{
    return (a->bias.b ? a->B : 1) * (a->bias.h ? a->H : 1);
}
// Returns row t of line n of the rank in the gradient of the whole bias.
static float *bias_row(const struct back_problem *x, const struct qkv_rank_rows *r, int64_t n,
                       int64_t t)
{
    const struct qkv_attention *a = &x->p.a;
    const int64_t heads = a->bias.h ? a->H : 1;
    const int64_t from = t < r->n[0] ? r->first[0] + t : r->first[1] + t - r->n[0];
    return x->tables.bias + n / heads * a->bias.b + n % heads * a->bias.h + from * a->bias.t;
}

// Gives rank r of P its rows of bias or mask: the bias with the axes b and h that it has, the mask
// with both.
static void take_mask(struct job *j, const struct qkv_attention *a, const struct qkv_rank_rows *r)
{
    const int64_t n = a->B * a->H * r->all * a->S;
    const bool columns = a->bias.at && !a->bias.t; // all ranks have the whole bias
    if (a->bias.at && !columns) j->bias = fenced((size_t)n * sizeof(float) + 16);
    if (a->mask.at) j->mask = fenced((size_t)n + 16);
    for (int64_t row = 0; row < a->B * a->H * r->all; row++) {
        const int64_t b = row / r->all / a->H, h = row / r->all % a->H, t = row % r->all;
        const int64_t from = t < r->n[0] ? r->first[0] + t : r->first[1] + t - r->n[0];
        const int64_t heads = a->bias.h ? a->H : 1;
        const int64_t line = (a->bias.b ? b : 0) * heads + (a->bias.h ? h : 0);
        if (j->bias) // lines that batch items or heads share are written again
            memcpy(j->bias + (line * r->all + t) * a->S,
                   a->bias.at + b * a->bias.b + h * a->bias.h + from * a->bias.t,
                   (size_t)a->S * sizeof(float));
        if (j->mask)
            memcpy(j->mask + row * a->S,
                   a->mask.at + b * a->mask.b + h * a->mask.h + from * a->mask.t, (size_t)a->S);
    }
    j->a.mask.at = j->mask;
    j->a.mask.t = a->S;
    j->a.mask.h = qkv_max64(r->all, 1) * a->S; // the axis is there also without rows
    j->a.mask.b = a->H * j->a.mask.h;
    if (columns) return;
    j->a.bias.at = j->bias;
    j->a.bias.t = j->a.mask.t;
    j->a.bias.h = a->bias.h ? j->a.mask.h : 0;
    j->a.bias.b = a->bias.b ? (a->bias.h ? j->a.mask.b : j->a.mask.h) : 0;
}

// The gradient of bias before a call, which adds to it.
static float bias_before(size_t i)
{
    return (float)(i % 7) * 0.25f;
}

static struct job job_of(const struct back_problem *x, const struct stored *s, int64_t rank,
                         int64_t size, bool backward)
{
    const struct qkv_attention *a = &x->p.a;
    struct job j = { .a = *a, .backward = backward };
    const struct qkv_rank_rows rows = qkv_rank_rows(a, false, rank, size);
    const struct qkv_rank_rows keys = qkv_rank_rows(a, true, rank, size);
    const size_t q = (size_t)(a->H * a->E) * unit(), o = (size_t)(a->H * a->F) * unit();
    const size_t k = (size_t)(a->G * a->E) * unit(), v = (size_t)(a->G * a->F) * unit();
    j.q = take(s->q, &rows, a->B, a->T, q);
    j.k = take(s->k, &keys, a->B, a->S, k);
    j.v = take(s->v, &keys, a->B, a->S, v);
    j.out = take(backward ? s->out : NULL, &rows, a->B, a->T, o);
    j.lse = (float *)(void *)take(backward ? (char *)x->p.lse : NULL, &rows, a->B * a->H, a->T,
                                  sizeof(float));
    take_mask(&j, a, &rows);
    if (!backward) return j;
    j.dout = take(s->dout, &rows, a->B, a->T, o);
    j.dq = take(NULL, &rows, a->B, a->T, q);
    j.dk = take(NULL, &keys, a->B, a->S, k);
    j.dv = take(NULL, &keys, a->B, a->S, v);
    j.dq_n = (size_t)(a->B * rows.all) * q;
    j.dk_n = (size_t)(a->B * keys.all) * k;
    j.dv_n = (size_t)(a->B * keys.all) * v;
    const size_t H = (size_t)a->H;
    if (x->tables.bias) {
        j.bias_n = a->bias.t ? (size_t)(bias_lines(a) * rows.all * a->S) : x->bias_n;
        j.g.bias.at = fenced(j.bias_n * sizeof(float) + 16);
    }
    if (x->tables.relative) j.g.relative = fenced(x->relative_n * 4);
    if (x->tables.alibi) j.g.alibi = fenced(H * 4);
    if (x->tables.sinks) j.g.sinks = fenced(H * 4);
    return j;
}

// Sets the gradients of tables to the numbers to which a call adds, and dq, dk and dv to others.
static void clear_gradients(struct job *j, const struct back_problem *x)
{
    const size_t H = (size_t)x->p.a.H * 4;
    memset(j->dq, 0xff, j->dq_n);
    memset(j->dk, 0xff, j->dk_n);
    memset(j->dv, 0xff, j->dv_n);
    for (size_t i = 0; i < j->bias_n; i++) j->g.bias.at[i] = x->p.a.bias.t ? 0 : bias_before(i);
    if (j->g.relative) memset(j->g.relative, 0, x->relative_n * 4);
    if (j->g.alibi) memset(j->g.alibi, 0, H);
    if (j->g.sinks) memset(j->g.sinks, 0, H);
}

static struct stored store(const struct back_problem *x)
{
    return (struct stored){ .q = case_stored(x->p.q, x->p.q_n),
                            .k = case_stored(x->p.k, x->p.k_n),
                            .v = case_stored(x->p.v, x->p.v_n) };
}

static void run_jobs(struct job *job, int64_t size)
{
    void *user[RANKS_MOST] = { NULL };
    size_t sent[RANKS_MOST];
    for (int64_t r = 0; r < size; r++) user[r] = &job[r];
    run_ranks(size, body, user, sent);
    for (int64_t r = 0; r < size; r++) {
        CHECK_EQ(job[r].status, job[0].status);
        if (job[r].plan.status)
            CHECK_EQ(job[r].plan.status, job[r].status);
        else
            CHECK_EQ(sent[r], job[r].plan.sent);
    }
}

static struct qkv_attention drawn(void)
{
    struct qkv_attention a = {
        .B = 1 + pick(3), .T = 1 + pick(150), .E = 1 + pick(40), .F = 1 + pick(40), .G = 1 + pick(2)
    };
    a.S = pick(2) ? a.T : 1 + pick(400);
    a.H = a.G * (1 + pick(3));
    return a;
}
enum { NOT_FORWARD = HEADS_FIRST | WEIGHTS };

// Returns the mode that a limit chooses.
static enum qkv_ranks_mode mode_of(const struct qkv_attention *a, size_t limit)
{
    const size_t all = (size_t)(a->B * a->S * a->G * (a->E + a->F)) * unit();
    return limit && all > limit ? QKV_RANKS_PIPELINE : QKV_RANKS_COLLECT;
}

// Checks that a call, which writes its status to ctx, is refused on each of up to three ranks.
static void check_refused(int64_t size, void (*call)(const struct qkv_comm *comm, void *ctx))
{
    qkv_status status[] = { QKV_OK, QKV_OK, QKV_OK };
    void *user[] = { &status[0], &status[1], &status[2] };
    run_ranks(size, call, user, NULL);
    for (int64_t r = 0; r < size; r++) CHECK_EQ(status[r], QKV_ERR_USAGE);
}

static inline void rank_jobs_unused(void)
{
    (void)sizes;
    (void)drawn;
    (void)run_jobs;
    (void)mode_of;
    (void)clear_gradients;
    (void)bias_row;
    (void)check_refused;
    (void)rank_jobs_unused;
}
#endif
