// SPDX-License-Identifier: MIT
// cross_entropy.c: softmax cross-entropy fused with the projection to the vocabulary.
//
//   logits = x w^T + b,   lse = ln sum_n e^logit[n],   q[n] = (1 - e) [n = target] + e / V
//   loss = lse - sum_n q[n] logit[n],   g[n] = e^(logit[n] - lse) - q[n],   dx = g w,   dw = g^T x
//
// Rows that have a target are taken in blocks of a few hundred; what exists at once is the terms of
// one block, e^(logit - top), one of `top` for each group of words, stored as the precision stores
// numbers.
// Two passes over the weights a block, and none that forms logits anew:
//   1  groups of words: logits, their largest, their terms and sum, together while they are in the cache
//   2  the sums are merged, and pieces of the vocabulary go from terms to slopes g, to dw (each of its
//      numbers is read and written once a block) and to dx
// The block lies transposed, words by rows: the weights are then the left operand of the logits,
// read as they lie, a vector holds as many rows as it has lanes, and slopes are what dw wants.
#include "layer/layer.h"
#include <math.h>
#include <string.h>

enum {
    ROWS = QKV_LINEAR_CHUNK, // of a block at most: one chain of sums in dw
    ALIGN = 16,              // columns of a block are rounded up to
    WORDS = 64,              // a task: logits of so many words stay in the cache
    PIECE = 12 * WORDS,      // words that go to dx at once: two chains of sums
    TILE = 128,              // rows of a task of dx ...
    PANEL_BYTES = 1 << 19,   // ... and packed weights
    KEPT = 96 << 20          // bytes of terms
};

// One call: sizes and where in scratch everything lies.
struct job {
    const struct qkv_cross_entropy *p;
    const struct qkv_linear_kernel *kernel;
    qkv_dtype x, type;            // of the caller's x; of terms and slopes
    size_t size;                  // of the latter
    int64_t most, ld;             // rows of a block, and rounded up: a row of terms
    int64_t groups;               // of words
    int64_t panels;               // of K columns
    real gain, less;              // of stored slopes; less = gain e / V
    real *rows;                   // [most][K] of dx
    char *gathered;               // [most][K] of x, where rows without targets lie between
    char *along, *across;         // these packed: inner axis K; inner axis rows
    char *terms;                  // [V][ld]
    real *top, *sum, *all;        // [groups][ld]; all only with smoothing
    real *part;                   // [threads][WORDS][ld]
    real *by;                     // [threads][ld]
    char *slopes;                 // [most][PIECE] of one piece
    char *w;                      // of one piece, packed: inner axis words
    double *lse, *total;          // [ld]
    real *highest, *picked, *own; // [ld] top of all groups; logit and slope of the target
    int64_t *row;                 // [ld] where the rows come from
    int32_t *target;              // [ld]
    uint8_t *led;                 // [ld] no other word of the target's group is above it

    int64_t n;        // rows of this block
    const char *from; // them, of the caller's type
    bool together;    // ... where the caller has them
    char *to;         // the last piece writes dx here; NULL: to `rows`
    bool slope;       // terms are kept
    real *dw, *db;
    bool dx;
    real scale;
    int64_t piece; // its first word
};

static int64_t rows_at_once(const struct qkv_cross_entropy *p, int64_t R, size_t size)
{
    const int64_t fit = KEPT / (int64_t)size / qkv_max64(p->V, 1) / ALIGN * ALIGN;
    const int64_t most = qkv_min64(ROWS, qkv_max64(fit, ALIGN)), all = qkv_max64(R, 1);
    return qkv_ceil_div(all, qkv_ceil_div(all, most)); // about as many in every block
}

static void *take(struct qkv_arena *arena, int64_t a, int64_t b, size_t size)
{
    size_t row;
    if (!qkv_mul_size(&row, (size_t)b, size)) row = SIZE_MAX;
    return qkv_arena_take(arena, (size_t)a, row);
}

// False: more than memory can have.
static bool place(struct job *j, const struct qkv_cross_entropy *p, int64_t R,
                  struct qkv_arena *arena)
{
    *j = (struct job){ .p = p, .kernel = qkv_kernel()->linear[p->precision] };
    j->x = p->x ? p->x : QKV_REAL;
    j->type = qkv_stored_type(p->precision);
    j->size = qkv_dtype_size(j->type);
    j->most = rows_at_once(p, R, j->size);
    j->ld = (int64_t)qkv_round_up((size_t)j->most, ALIGN);
    j->groups = qkv_ceil_div(p->V, WORDS);
    j->panels = qkv_ceil_div(p->K, j->kernel->panel);
    j->gain = j->type == QKV_F16 ? 1024 : 1; // small shares stay normal numbers
    j->less = j->gain * p->smoothing / (real)p->V;
    if (p->K >> 40 || p->V >> 40) return false;
    j->rows = take(arena, j->most, p->K, sizeof(real));
    j->gathered = take(arena, j->most, p->K, qkv_dtype_size(j->x));
    j->along = take(arena, qkv_ceil_div(j->most, j->kernel->panel),
                    (int64_t)j->kernel->panel_bytes(p->K), 1);
    j->across = take(arena, j->panels, (int64_t)j->kernel->panel_bytes(j->most), 1);
    j->terms = take(arena, p->V, j->ld, j->size);
    j->top = take(arena, j->groups, j->ld, sizeof(real));
    j->sum = take(arena, j->groups, j->ld, sizeof(real));
    if (p->smoothing != 0) j->all = take(arena, j->groups, j->ld, sizeof(real));
    j->part = take(arena, p->threads, WORDS * j->ld, sizeof(real));
    j->by = take(arena, p->threads, j->ld, sizeof(real));
    j->slopes = take(arena, j->most, PIECE, j->size);
    j->w = take(arena, j->panels, (int64_t)j->kernel->panel_bytes(PIECE), 1);
    j->lse = take(arena, 1, j->ld, sizeof *j->lse);
    j->total = take(arena, 1, j->ld, sizeof *j->total);
    j->highest = take(arena, 1, j->ld, sizeof *j->highest);
    j->picked = take(arena, 1, j->ld, sizeof *j->picked);
    j->own = take(arena, 1, j->ld, sizeof *j->own);
    j->row = take(arena, 1, j->ld, sizeof *j->row);
    j->target = take(arena, 1, j->ld, sizeof *j->target);
    j->led = take(arena, 1, j->ld, sizeof *j->led);
    return !qkv_arena_full(arena);
}

size_t qkv_cross_entropy_scratch(const struct qkv_cross_entropy *p, int64_t R)
{
    struct job j;
    struct qkv_arena arena = { NULL, SIZE_MAX, 0 };
    return place(&j, p, R, &arena) ? arena.used : SIZE_MAX;
}

// ---- numbers of a type -------------------------------------------------------------------------
static void put(void *to, qkv_dtype type, int64_t i, real a)
{
    if (type == QKV_BF16)
        ((uint16_t *)to)[i] = qkv_f32_to_bf16((float)a);
    else if (type == QKV_F16)
        ((uint16_t *)to)[i] = qkv_f32_to_f16((float)a);
    else
        ((real *)to)[i] = a;
}

static void store_row(void *to, qkv_dtype type, const real *from, int64_t n)
{
    if (type == QKV_REAL)
        memcpy(to, from, (size_t)n * sizeof *from);
    else if (QKV_REAL == QKV_F32)
        qkv_from_f32(to, type, (const float *)(const void *)from, n);
    else
        for (int64_t i = 0; i < n; i++) put(to, type, i, from[i]);
}

// ---- pass 1 ------------------------------------------------------------------------------------
// Logits of group g, words by rows, without their bias.
static void products(const struct job *j, real *to, int64_t g)
{
    const struct qkv_cross_entropy *p = j->p;
    const struct qkv_linear_tail tail = { .x = QKV_REAL, .y = QKV_REAL, .scale = 1 };
    const int64_t n = g * WORDS;
    j->kernel->rows(to, j->ld, p->w + n * p->K, p->K, j->along, qkv_min64(p->V - n, WORDS), p->K,
                    j->n, &tail);
}

static void terms(void *ctx, int64_t g, int thread)
{
    const struct job *j = ctx;
    const struct qkv_cross_entropy *p = j->p;
    real *s = j->part + thread * WORDS * j->ld;
    const int64_t at = g * WORDS, words = qkv_min64(p->V - at, WORDS);
    const real *b = p->b ? p->b + at : NULL;
    products(j, s, g);
    for (int64_t r = 0; r < j->n; r++) {
        const int64_t own = j->target[r] - at;
        if (own < 0 || own >= words) continue;
        const real mine = s[own * j->ld + r] + (b ? b[own] : 0);
        bool led = true;
        for (int64_t i = 0; i < words; i++) {
            const real other = s[i * j->ld + r] + (b ? b[i] : 0);
            if (i < own ? !(other < mine) : !(other <= mine)) led = false;
        }
        j->picked[r] = mine;
        j->led[r] = led;
    }
    char *kept = j->slope ? j->terms + (size_t)(at * j->ld) * j->size : NULL;
    qkv_kernel()->loss_terms(kept, j->type, j->ld, j->gain, j->top + g * j->ld, j->sum + g * j->ld,
                             j->all ? j->all + g * j->ld : NULL, s, j->ld, b, words, j->n);
}

// Groups into one: highest, total = sum of e^(logit - highest), lse; by: room for a row.
static void merge(const struct job *j, real *by)
{
    for (int64_t r = 0; r < j->n; r++) {
        j->highest[r] = -(real)INFINITY;
        j->total[r] = 0;
    }
    for (int64_t g = 0; g < j->groups; g++)
        for (int64_t r = 0; r < j->n; r++)
            if (j->top[g * j->ld + r] > j->highest[r]) j->highest[r] = j->top[g * j->ld + r];
    for (int64_t g = 0; g < j->groups; g++) {
        const real *top = j->top + g * j->ld, *sum = j->sum + g * j->ld;
        for (int64_t r = 0; r < j->n; r++) by[r] = top[r] - j->highest[r];
        qkv_kernel()->exp(by, by, j->n);
        for (int64_t r = 0; r < j->n; r++)
            j->total[r] += (double)sum[r] * (top[r] == -(real)INFINITY ? 1 : (double)by[r]);
    }
    for (int64_t r = 0; r < j->n; r++) j->lse[r] = (double)j->highest[r] + log(j->total[r]);
}

// Losses of the block, whether the target led, and the target's own slope: without the cancellation
// of a share near 1.
static void count(const struct job *j, struct qkv_loss *loss, real *losses)
{
    const double e = (double)j->p->smoothing, V = (double)j->p->V;
    for (int64_t r = 0; r < j->n; r++) {
        const double below = (double)j->picked[r] - j->lse[r];
        double one = -(1 - e) * below, all = 0;
        bool led = j->led[r] && !isnan(j->lse[r]);
        const int64_t mine = j->target[r] / WORDS;
        for (int64_t g = 0; g < j->groups && j->all; g++) all += (double)j->all[g * j->ld + r];
        if (j->all) one += e * (j->lse[r] - all / V);
        for (int64_t g = 0; g < j->groups && led; g++) {
            const real top = j->top[g * j->ld + r];
            if (g < mine ? !(top < j->picked[r]) : g > mine && !(top <= j->picked[r])) led = false;
        }
        j->own[r] = j->gain * (real)(expm1(below) + e - e / V);
        loss->sum += one;
        loss->rows++;
        loss->right += led;
        if (losses) losses[j->row[r]] = (real)one;
    }
}

// ---- pass 2 ------------------------------------------------------------------------------------
// Terms of a group become slopes, and go to dw, to db and (transposed) to what dx reads.
static void slopes(const struct job *j, int64_t g, int thread)
{
    const struct qkv_cross_entropy *p = j->p;
    const int64_t at = g * WORDS, words = qkv_min64(p->V - at, WORDS), ld = j->ld;
    real *by = j->by + thread * ld, sums[WORDS];
    char *own = j->terms + (size_t)(at * ld) * j->size;
    for (int64_t r = 0; r < j->n; r++) {
        const int64_t i = j->target[r] - at;
        by[r] = j->top[g * ld + r] - j->highest[r];
        if (i >= 0 && i < words) put(own, j->type, i * ld + r, 0);
    }
    qkv_kernel()->exp(by, by, j->n);
    for (int64_t r = 0; r < j->n; r++) by[r] *= (real)(1 / j->total[r]);
    qkv_kernel()->loss_slope(own, j->type, ld, sums, by, j->less, words, j->n);
    for (int64_t r = 0; r < j->n; r++) {
        const int64_t i = j->target[r] - at;
        if (i < 0 || i >= words) continue;
        put(own, j->type, i * ld + r, j->own[r]);
        sums[i] += j->own[r] + j->less;
    }
    const real scale = j->scale / j->gain;
    for (int64_t i = 0; i < words && j->db; i++) j->db[at + i] += scale * sums[i];
    if (j->dw) {
        real *dw = j->dw + at * p->K;
        const struct qkv_linear_tail tail = {
            .x = j->type, .y = QKV_REAL, .scale = scale, .residual = dw, .residual_ld = p->K
        };
        j->kernel->rows(dw, p->K, own, ld, j->across, words, j->n, p->K, &tail);
    }
    if (!j->dx) return;
    char *to = j->slopes + (size_t)(at - j->piece) * j->size;
    qkv_kernel()->transpose(to, j->type, PIECE, own, j->type, ld, words, j->n);
}

static int64_t piece_words(const struct job *j)
{
    return qkv_min64(j->p->V - j->piece, PIECE);
}

// Of a piece: slopes of its groups, then its weights packed for dx, a panel a task.
static void piece(void *ctx, int64_t i, int thread)
{
    const struct job *j = ctx;
    const struct qkv_cross_entropy *p = j->p;
    const int64_t words = piece_words(j), groups = qkv_ceil_div(words, WORDS);
    if (i < groups) {
        slopes(j, j->piece / WORDS + i, thread);
        return;
    }
    const int64_t k = (i - groups) * j->kernel->panel;
    j->kernel->pack(j->w + (size_t)(i - groups) * j->kernel->panel_bytes(words),
                    p->w + j->piece * p->K + k, QKV_REAL, words,
                    qkv_min64(p->K - k, j->kernel->panel), 1, p->K);
}

static int64_t panels_at_once(const struct job *j)
{
    const int64_t fit = PANEL_BYTES / (int64_t)j->kernel->panel_bytes(PIECE);
    return qkv_max64(fit, 1);
}

// dx += slopes of the piece times its weights, some rows by some panels of K.
static void inputs(void *ctx, int64_t i, int thread)
{
    const struct job *j = ctx;
    const int64_t K = j->p->K, words = piece_words(j), step = panels_at_once(j);
    const int64_t across = qkv_ceil_div(j->panels, step), r = i / across * TILE,
                  panel = i % across * step, k = panel * j->kernel->panel;
    real *sums = j->rows + r * K + k;
    const struct qkv_linear_tail tail = { .x = j->type,
                                          .y = j->to ? j->x : QKV_REAL,
                                          .scale = j->scale / j->gain,
                                          .residual = j->piece ? sums : NULL,
                                          .residual_ld = K };
    void *y = j->to ? (void *)(j->to + (size_t)(r * K + k) * qkv_dtype_size(j->x)) : sums;
    (void)thread;
    j->kernel->rows(y, K, j->slopes + (size_t)(r * PIECE) * j->size, PIECE,
                    j->w + (size_t)panel * j->kernel->panel_bytes(words), qkv_min64(j->n - r, TILE),
                    words, qkv_min64(K - k, step * j->kernel->panel), &tail);
}

static void backward(struct job *j, void *dx)
{
    const int64_t K = j->p->K, tiles = qkv_ceil_div(j->n, TILE);
    const size_t row = (size_t)K * qkv_dtype_size(j->x);
    if (j->dw) j->kernel->pack(j->across, j->from, j->x, j->n, K, 1, K);
    for (j->piece = 0; j->piece < j->p->V; j->piece += PIECE) {
        const int64_t groups = qkv_ceil_div(piece_words(j), WORDS);
        const bool last = j->piece + PIECE >= j->p->V;
        j->to = last && j->together && dx ? (char *)dx + (size_t)j->row[0] * row : NULL;
        qkv_parallel_for_most(groups + (j->dx ? j->panels : 0), j->p->threads, piece, j);
        if (j->dx)
            qkv_parallel_for_most(tiles * qkv_ceil_div(j->panels, panels_at_once(j)), j->p->threads,
                                  inputs, j);
    }
    for (int64_t r = 0; r < j->n && j->dx && !j->together; r++)
        store_row((char *)dx + (size_t)j->row[r] * row, j->x, j->rows + r * K, K);
}

// ---- blocks ------------------------------------------------------------------------------------
// Rows from *r on that have a target, as many as a block has.
static void gather(struct job *j, const void *x, const int32_t *targets, int64_t *r, int64_t R)
{
    const int64_t K = j->p->K;
    const size_t row = (size_t)K * qkv_dtype_size(j->x);
    for (j->n = 0; *r < R && j->n < j->most; ++*r) {
        if (targets && targets[*r] < 0) continue;
        j->row[j->n] = *r;
        j->target[j->n++] = targets ? targets[*r] : 0;
    }
    if (!j->n) return;
    // Rows that lie together are read where they are.
    j->together = j->row[j->n - 1] - j->row[0] == j->n - 1;
    j->from = j->together ? (const char *)x + (size_t)j->row[0] * row : j->gathered;
    for (int64_t i = 0; i < j->n && !j->together; i++)
        memcpy(j->gathered + (size_t)i * row, (const char *)x + (size_t)j->row[i] * row, row);
    j->kernel->pack(j->along, j->from, j->x, K, j->n, K, 1);
}

void qkv_cross_entropy(struct qkv_loss *loss, void *dx, real *dw, real *db, real *losses,
                       const void *x, const int32_t *targets, int64_t R, real scale,
                       const struct qkv_cross_entropy *p)
{
    struct job j;
    struct qkv_arena arena = { p->scratch, SIZE_MAX, 0 };
    place(&j, p, R, &arena);
    j.slope = dx || dw || db;
    j.dx = dx != NULL;
    j.dw = dw;
    j.db = db;
    j.scale = scale;
    const size_t row = (size_t)p->K * qkv_dtype_size(j.x);
    for (int64_t r = 0; r < R; r++) {
        if (targets[r] >= 0) continue;
        if (losses) losses[r] = 0;
        if (dx) memset((char *)dx + (size_t)r * row, 0, row);
    }
    for (int64_t r = 0; r < R;) {
        gather(&j, x, targets, &r, R);
        if (!j.n) break;
        qkv_parallel_for_most(j.groups, p->threads, terms, &j);
        merge(&j, j.by);
        count(&j, loss, losses);
        if (j.slope) backward(&j, dx);
    }
}

// ---- logits of few rows ------------------------------------------------------------------------
struct dense {
    struct job *j;
    real *logits;
};

static void dense(void *ctx, int64_t g, int thread)
{
    const struct dense *d = ctx;
    const struct job *j = d->j;
    const struct qkv_cross_entropy *p = j->p;
    real *s = j->part + thread * WORDS * j->ld;
    const int64_t at = g * WORDS, words = qkv_min64(p->V - at, WORDS);
    products(j, s, g);
    for (int64_t i = 0; i < words && p->b; i++)
        for (int64_t r = 0; r < j->n; r++) s[i * j->ld + r] += p->b[at + i];
    qkv_kernel()->transpose(d->logits + j->row[0] * p->V + at, QKV_REAL, p->V, s, QKV_REAL, j->ld,
                            words, j->n);
}

void qkv_logits(real *logits, const void *x, int64_t R, const struct qkv_cross_entropy *p)
{
    struct job j;
    struct qkv_arena arena = { p->scratch, SIZE_MAX, 0 };
    place(&j, p, R, &arena);
    struct dense d = { &j, logits };
    for (int64_t r = 0; r < R;) {
        gather(&j, x, NULL, &r, R);
        qkv_parallel_for_most(j.groups, p->threads, dense, &d);
    }
}
