// SPDX-License-Identifier: MIT
// compare_measure.c: measures the time and the memory of one layer of each kind, in a child
// process; or counts its operations, without running it.
//
// First the inputs and the weights of the layer are allocated. The memory of the layer is what
// scratch and the first run then add to the peak memory of the process. The time is the shortest of
// several rounds, because other programs can only make a round slower.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "frame/child.h"
#include "compare/compare.h"

enum { ROUNDS = 200, FEWEST = 3 };

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Repeats the run until `seconds` have passed, and stores the shortest time. A run that takes
// longer than that is timed once.
static void rounds(struct compare_point *p, qkv_status (*run)(void *), void *ctx, double seconds)
{
    double times[ROUNDS];
    const double before = child_peak_memory(), start = compare_now();
    p->status = run(ctx); // the first run allocates memory pages, fills caches and starts threads
    times[0] = compare_now() - start;
    p->grown = child_peak_memory() - before;
    if (times[0] < seconds) // if the first run took longer than `seconds`, its time is the result
        while (!p->status && p->rounds < ROUNDS &&
               (p->rounds < FEWEST || compare_now() - start < seconds)) {
            const double begin = compare_now();
            p->status = run(ctx);
            times[p->rounds++] = compare_now() - begin;
        }
    else
        p->rounds = 1;
    qsort(times, (size_t)p->rounds, sizeof *times, by_size);
    p->best = times[0];
    p->median = times[p->rounds / 2];
}

// ---- one layer ---------------------------------------------------------------------------------
struct task {
    const struct compare_job *job;
    int kind;
    int64_t n, d;
    bool one_head;
};

struct layer_run {
    struct compare_layer l;
    const struct compare_kind *kind;
    const float *qkv[3];
    int64_t items; // of a batch, which run one after the other
};
// Runs a layer. The first run allocates its scratch, so that the pages of scratch count as memory
// of the layer.
static qkv_status run_layer(void *ctx)
{
    struct layer_run *r = ctx;
    qkv_status status = QKV_OK;
    if (!r->l.scratch) r->l.scratch = cmd_alloc(r->l.bytes, 1);
    for (int64_t b = 0; b < r->items && !status; b++) {
        compare_select(&r->l, r->qkv, b);
        status = r->kind->run(&r->l);
    }
    return status;
}

struct compare_shape compare_job_shape(const struct compare_job *job, int64_t n, int64_t d)
{
    if (!job->arrays) return compare_shape_of(n, d, job->keys, job->width, job->causal);
    const struct array_sizes *a = &job->arrays->s;
    return (struct compare_shape){ .n = a->T,
                                   .d = d,
                                   .H = a->H,
                                   .G = a->G,
                                   .E = a->E,
                                   .F = a->F,
                                   .S = a->S,
                                   .keys = job->keys,
                                   .width = job->width,
                                   .causal = job->causal };
}

static void measure(void *answer, void *ctx)
{
    struct compare_point *p = answer;
    const struct task *t = ctx;
    const struct compare_job *job = t->job;
    const struct compare_arrays *a = job->arrays;
    struct compare_shape s = compare_job_shape(job, t->n, t->d);
    if (t->one_head) {
        s.H = s.G = 1;
        s.E = s.F = t->d;
    }
    struct layer_run r = { .kind = &compare_baselines[t->kind], .items = a ? a->s.B : 1 };
    for (int i = 0; i < 3 && !job->counted; i++)
        r.qkv[i] = a ? (const struct array *[]){ &a->q, &a->k, &a->v }[i]->at
                     : compare_normal(t->n * t->d, 1, 1 + (uint64_t)i);
    *p = (struct compare_point){ .kind = t->kind, .n = t->n, .d = t->d };
    p->status = compare_open(&r.l, r.kind, &s, job->counted ? NULL : r.qkv);
    if (p->status) return;
    p->operations = (double)r.items * r.l.operations;
    p->steps = r.kind->step_count(&s);
    p->path = r.kind->path_length(&s);
    if (job->counted) {
        compare_close(&r.l);
        return;
    }
    memset(r.l.out, 0, (size_t)(s.n * s.H * s.F) * sizeof(float));
    rounds(p, run_layer, &r, job->seconds);
}

static double memory_bytes(void) // returns the memory of this machine in bytes
{
    return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}

// Returns how many numbers the largest layer reads, stores and writes, including weights and
// matrices with a row per token.
static double numbers(const struct compare_job *job, double n, double d)
{
    const double keys = fmin((double)job->keys, n), landmarks = keys / 4;
    const double squares = 4 * landmarks * landmarks * (double)qkv_threads();
    return 10 * n * d + (8 + (double)job->width) * d * d + keys * (n + d) + squares;
}

qkv_status compare_fits(const struct compare_job *job, qkv_error *err)
{
    // counted layers have no arrays: only the errors need memory
    const int64_t n = job->counted ? compare_error_tokens(job) : job->n[job->n_count - 1];
    const int64_t d = job->d[job->d_count - 1];
    const double need = 4 * numbers(job, (double)n, (double)d), have = 0.7 * memory_bytes();
    return need <= have || have <= 0
               ? QKV_OK
               : cmd_error(err, QKV_ERR_LIMIT, NULL,
                           "%lld tokens of width %lld require up to %.3g GB, expected at most %.3g "
                           "GB (seven tenths of this machine's memory)",
                           (long long)n, (long long)d, 1e-9 * need, 1e-9 * have);
}

static struct compare_point *place(struct compare_point *points, const struct compare_job *job,
                                   int kind, int64_t d, int64_t n)
{
    return points + (kind * job->d_count + d) * job->n_count + n;
}

const struct compare_point *compare_at(const struct compare_point *points,
                                       const struct compare_job *job, int kind, int64_t d,
                                       int64_t n)
{
    const struct compare_point *p = points + (kind * job->d_count + d) * job->n_count + n;
    return job->wanted[kind] && p->status == QKV_OK ? p : NULL;
}

qkv_status compare_measure(struct compare_point *points, const struct compare_job *job,
                           qkv_error *err)
{
    const int64_t all = job->d_count * job->n_count;
    struct qkv_progress progress = cmd_progress_begin("layers");
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < all * COMPARE_KINDS && !status; i++) {
        // All kinds of one size are measured consecutively, so that a change of the machine's speed
        // affects all of them alike.
        const int kind = (int)(i % COMPARE_KINDS);
        const int64_t size = i / COMPARE_KINDS, d = size / job->n_count, n = size % job->n_count;
        struct task t = { job, kind, job->n[n], job->d[d], false };
        if (!job->wanted[kind]) continue;
        struct compare_point *p = place(points, job, kind, d, n);
        if (progress.step(progress.user, "measure", i, all * COMPARE_KINDS))
            status = cmd_error(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
        else if (job->counted)
            measure(p, &t);
        else
            status = child_run(p, sizeof *points, measure, &t, compare_baselines[kind].name, err);
    }
    cmd_progress_end();
    return status;
}

struct compare_crossing compare_cross(const struct compare_point *points,
                                      const struct compare_job *job, int a, int b, bool along_d,
                                      int64_t fixed)
{
    const int64_t *const sizes = along_d ? job->d : job->n;
    struct compare_crossing c = { 0 };
    double before = 0;
    for (int64_t i = 0; i < (along_d ? job->d_count : job->n_count); i++) {
        const int64_t d = along_d ? i : fixed, n = along_d ? fixed : i;
        const struct compare_point *x = compare_at(points, job, a, d, n);
        const struct compare_point *y = compare_at(points, job, b, d, n);
        if (!x || !y) continue;
        const double now = log(x->best / y->best);
        // if the curves cross several times, the last crossing counts
        if (c.last && (now < 0) != (before < 0)) {
            const double from = log((double)c.last), to = log((double)sizes[i]);
            c.at = exp(from + (to - from) * before / (before - now));
        }
        c.faster = now < 0;
        c.ratio = x->best / y->best;
        c.last = sizes[i];
        before = now;
    }
    return c;
}

// ---- dense and fused attention -----------------------------------------------------------------
struct dense {
    int64_t n, d;
    float *q, *k, *v, *turned, *scores, *out;
};

// Computes softmax(q k^T) v as with a matrix library: first all scores, then all weights in place
// of the scores, then the product with v.
static qkv_status run_dense(void *ctx)
{
    struct dense *j = ctx;
    const size_t n = (size_t)j->n, d = (size_t)j->d;
    if (!j->scores) {
        j->scores = cmd_alloc(n * n, sizeof(float));
        j->turned = cmd_alloc(n * d, sizeof(float));
    }
    qkv_status status = qkv_linear(j->scores, j->q, j->k, NULL, j->n, j->d, j->n);
    if (status) return status;
    qkv_softmax_rows(j->scores, j->scores, j->n, j->n, j->n, j->n);
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < d; c++) j->turned[c * n + i] = j->v[i * d + c];
    return qkv_linear(j->out, j->scores, j->turned, NULL, j->n, j->n, j->d);
}

static void measure_dense(void *answer, void *ctx)
{
    struct compare_point *p = answer;
    const struct task *t = ctx;
    struct dense j = { .n = t->n, .d = t->d };
    *p = (struct compare_point){ .kind = t->kind, .n = t->n, .d = t->d };
    p->operations = 4.0 * (double)t->n * (double)t->n * (double)t->d;
    j.q = compare_normal(t->n * t->d, 1, 1);
    j.k = compare_normal(t->n * t->d, 1, 2);
    j.v = compare_normal(t->n * t->d, 1, 3);
    j.out = compare_normal(t->n * t->d, 1, 4);
    rounds(p, run_dense, &j, t->job->seconds);
}

qkv_status compare_memory(struct compare_point *fused, struct compare_point *dense,
                          const struct compare_job *job, qkv_error *err)
{
    qkv_status status = QKV_OK;
    struct qkv_progress progress = cmd_progress_begin("sizes");
    for (int64_t i = 0; i < job->n_count && !status; i++) {
        const double n = (double)job->n[i], d = (double)job->d[0];
        struct task t = { job, 0, job->n[i], job->d[0], true };
        if (progress.step(progress.user, "measure", i, job->n_count)) {
            status = cmd_error(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
            break;
        }
        status = child_run(&fused[i], sizeof *fused, measure, &t, "fused attention", err);
        if (status) break;
        dense[i] = (struct compare_point){ .status = QKV_ERR_LIMIT, .n = t.n, .d = t.d };
        // skip a size that does not fit into memory
        if (4 * n * (n + 6 * d) > 0.7 * memory_bytes()) continue;
        status = child_run(&dense[i], sizeof *dense, measure_dense, &t, "dense attention", err);
    }
    cmd_progress_end();
    return status;
}
