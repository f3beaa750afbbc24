// SPDX-License-Identifier: MIT
// cross_entropy.c: computes softmax cross-entropy fused with the projection to the vocabulary.
//
//   logits = cap(times x w^T + b),  cap(a) = c tanh(a / c),  lse = ln sum_n e^logit[n]
//   q[n] = (1 - e) [n = target] + e / V,  loss = lse - sum_n q[n] logit[n]
//   g[n] = e^(logit[n] - lse) - q[n], with a softcap multiplied by 1 - (logit[n] / c)^2
//   dx = times g w,  dw = times g^T x
//
// e is the label smoothing, c the softcap, g the gradient of the logits. Rows that have a target
// are processed in blocks of a few hundred rows. For one block at a time, the terms e^(logit - top)
// are stored in the type of the precision; `top` is the largest logit of the row in a group of
// vocabulary words. A block makes two passes over the weights, without computing logits twice:
//   pass 1  computes, for each group of words, the logits and, while they are in the cache, their
//           maximum, their terms and the sum of the terms
//   pass 2  merges the sums of all groups; then turns the terms of each piece of the vocabulary
//           into gradients g, which it adds to dw (reading and writing each element once per block)
//           and to dx
// The terms of a block are stored transposed, [word][row]. So the weights are the left operand of
// the product that computes logits and need no packing, a vector register contains adjacent rows,
// and g has the layout that dw needs.
#include "layer/layer_internal.h"
#include <math.h>
#include <string.h>

enum {
    ROWS = QKV_LINEAR_CHUNK, // most rows of a block; one chunk of the sums of dw
    ALIGN = 16,              // the columns of a block are rounded up to a multiple of this
    WORDS = 64,              // vocabulary words per task: their logits stay in the cache
    // words whose contribution is added to dx at once; two chunks of the sums of dx
    PIECE = 12 * WORDS,
    TILE = 128,            // rows per task of dx
    PANEL_BYTES = 1 << 19, // bytes of packed weights per task of dx
    KEPT = 96 << 20        // most bytes of the stored terms of a block
};

// One call: its sizes and its arrays in scratch.
struct job {
    const struct qkv_cross_entropy *p;
    const struct qkv_linear_kernel *kernel;
    qkv_dtype x, type; // x: type of the caller's x; type: type of terms and gradients
    size_t size;       // bytes of one term
    // most: largest number of rows of a block; ld: distance of the rows of `terms`, `most` rounded
    // up to whole vectors
    int64_t most, ld;
    int64_t groups;       // number of groups of vocabulary words
    int64_t panels;       // number of panels of the K columns
    real gain, less;      // gain: factor of stored gradients, against underflow; less: gain e / V
    real *rows;           // [most][K] dx of the block
    char *gathered;       // [most][K] copy of x, for blocks whose rows are not adjacent
    char *along, *across; // packed x; inner axis of the product: `along` K, `across` rows
    char *terms;          // [V][ld] terms, later gradients
    real *bend;           // [V][ld] derivative of the softcap; NULL: no softcap
    // [groups][ld] for each group and row: top: largest logit, sum: sum of terms, all: sum of
    // logits (only with label smoothing)
    real *top, *sum, *all;
    real *part;          // [threads][WORDS][ld] logits of one group
    real *by;            // [threads][ld] factor of each row for its terms
    char *slopes;        // [most][PIECE] gradients of one piece, transposed
    char *w;             // packed weights of one piece, with the words as inner axis
    double *lse, *total; // [ld] log-sum-exp and sum of terms of each row
    // [ld] highest: largest logit of the row; picked: logit of the target; own: gradient of this
    // logit
    real *highest, *picked, *own;
    int64_t *row;    // [ld] index of each row in the caller's arrays
    int32_t *target; // [ld] target word of each row
    uint8_t *led;    // [ld] 1 if the target is the first largest logit of its group

    int64_t n;        // number of rows of this block
    const char *from; // the rows of x, in the caller's type
    bool together;    // true: from points into the caller's x, whose rows are adjacent
    char *to;         // array to which the last piece writes dx; NULL: `rows`
    bool slope;       // true: gradients are requested, so terms are stored
    real *dw, *db;
    bool dx;
    real scale;
    int64_t piece; // index of the first word of the current piece
};

static int64_t rows_at_once(const struct qkv_cross_entropy *p, int64_t R, size_t size)
{
    if (p->softcap != 0) size += sizeof(real); // each term also needs the derivative of the softcap
    const int64_t fit = KEPT / (int64_t)size / qkv_max64(p->V, 1) / ALIGN * ALIGN;
    const int64_t most = qkv_min64(ROWS, qkv_max64(fit, ALIGN)), all = qkv_max64(R, 1);
    // the rows are divided into blocks of about equal size
    return qkv_ceil_div(all, qkv_ceil_div(all, most));
}

// Sets the sizes of a call and allocates its arrays from the arena; returns false if the size
// overflows.
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
    // the factor keeps small probabilities in the range of normal f16 numbers
    j->gain = j->type == QKV_F16 ? 1024 : 1;
    j->less = j->gain * p->smoothing / (real)p->V;
    if (p->K >> 40 || p->V >> 40) return false;
    j->rows = qkv_arena_rows(arena, j->most, p->K, sizeof(real));
    j->gathered = qkv_arena_rows(arena, j->most, p->K, qkv_dtype_size(j->x));
    j->along = qkv_arena_rows(arena, qkv_ceil_div(j->most, j->kernel->panel),
                              (int64_t)j->kernel->panel_bytes(p->K), 1);
    j->across = qkv_arena_rows(arena, j->panels, (int64_t)j->kernel->panel_bytes(j->most), 1);
    j->terms = qkv_arena_rows(arena, p->V, j->ld, j->size);
    if (p->softcap != 0) j->bend = qkv_arena_rows(arena, p->V, j->ld, sizeof(real));
    j->top = qkv_arena_rows(arena, j->groups, j->ld, sizeof(real));
    j->sum = qkv_arena_rows(arena, j->groups, j->ld, sizeof(real));
    if (p->smoothing != 0) j->all = qkv_arena_rows(arena, j->groups, j->ld, sizeof(real));
    j->part = qkv_arena_rows(arena, p->threads, WORDS * j->ld, sizeof(real));
    j->by = qkv_arena_rows(arena, p->threads, j->ld, sizeof(real));
    j->slopes = qkv_arena_rows(arena, j->most, PIECE, j->size);
    j->w = qkv_arena_rows(arena, j->panels, (int64_t)j->kernel->panel_bytes(PIECE), 1);
    j->lse = qkv_arena_rows(arena, 1, j->ld, sizeof *j->lse);
    j->total = qkv_arena_rows(arena, 1, j->ld, sizeof *j->total);
    j->highest = qkv_arena_rows(arena, 1, j->ld, sizeof *j->highest);
    j->picked = qkv_arena_rows(arena, 1, j->ld, sizeof *j->picked);
    j->own = qkv_arena_rows(arena, 1, j->ld, sizeof *j->own);
    j->row = qkv_arena_rows(arena, 1, j->ld, sizeof *j->row);
    j->target = qkv_arena_rows(arena, 1, j->ld, sizeof *j->target);
    j->led = qkv_arena_rows(arena, 1, j->ld, sizeof *j->led);
    return !qkv_arena_full(arena);
}

size_t qkv_cross_entropy_scratch(const struct qkv_cross_entropy *p, int64_t R)
{
    struct job j;
    struct qkv_arena arena = { NULL, SIZE_MAX, 0 };
    return place(&j, p, R, &arena) ? arena.used : SIZE_MAX;
}

// ---- elements of a given type ------------------------------------------------------------------
static real get(const void *from, qkv_dtype type, int64_t i)
{
    real wide;
    float one;
    const char *at = (const char *)from + (size_t)i * qkv_dtype_size(type);
    if (type == QKV_REAL) return memcpy(&wide, at, sizeof wide), wide;
    qkv_to_f32(&one, at, type, 1);
    return (real)one;
}

static void put(void *to, qkv_dtype type, int64_t i, real a)
{
    if (type == QKV_BF16)
        ((uint16_t *)to)[i] = qkv_f32_to_bf16((float)a);
    else if (type == QKV_F16)
        ((uint16_t *)to)[i] = qkv_f32_to_f16((float)a);
    else
        ((real *)to)[i] = a;
}

// ---- pass 1 ------------------------------------------------------------------------------------
static real times_of(const struct qkv_cross_entropy *p)
{
    return p->times != 0 ? p->times : 1;
}

// Computes the logits of word group g, to[word][row], without bias and softcap.
static void products(const struct job *j, real *to, int64_t g)
{
    const struct qkv_cross_entropy *p = j->p;
    const struct qkv_linear_tail tail = { .x = QKV_REAL, .y = QKV_REAL, .scale = times_of(p) };
    const int64_t n = g * WORDS;
    j->kernel->rows(to, j->ld, p->w + n * p->K, p->K, j->along, qkv_min64(p->V - n, WORDS), p->K,
                    j->n, &tail);
}

static void add_bias(const struct job *j, real *s, const real *b, int64_t words)
{
    for (int64_t i = 0; i < words && b; i++)
        for (int64_t r = 0; r < j->n; r++) s[i * j->ld + r] += b[i];
}

// Applies the softcap to logits s, to which the bias has been added, and writes the derivative of
// the softcap to bend; bend NULL: the derivative is not computed.
static void cap(const struct job *j, real *s, real *bend, int64_t words)
{
    const real c = j->p->softcap;
    for (int64_t i = 0; i < words; i++) {
        real *row = s + i * j->ld;
        for (int64_t r = 0; r < j->n; r++) row[r] /= c;
        qkv_kernel()->activation(row, row, QKV_REAL, j->n, QKV_ACT_TANH);
        for (int64_t r = 0; r < j->n && bend; r++) {
            bend[i * j->ld + r] = (1 - row[r]) * (1 + row[r]);
        }
        for (int64_t r = 0; r < j->n; r++) row[r] *= c;
    }
}

static void terms(void *ctx, int64_t g, int thread)
{
    const struct job *j = ctx;
    const struct qkv_cross_entropy *p = j->p;
    real *s = j->part + thread * WORDS * j->ld;
    const int64_t at = g * WORDS, words = qkv_min64(p->V - at, WORDS);
    const real *b = p->b ? p->b + at : NULL;
    products(j, s, g);
    if (p->softcap != 0) {
        add_bias(j, s, b, words);
        cap(j, s, j->slope ? j->bend + at * j->ld : NULL, words);
        b = NULL;
    }
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

// Merges the results of all groups: computes highest, total = sum of e^(logit - highest), and lse
// of each row. by: [ld] workspace.
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

// Adds the losses of the rows of the block, and the number of targets with the largest logit, to
// *loss, and computes `own`, the gradient of each target's logit. It uses expm1, which avoids
// cancellation if the probability is near 1.
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
// Multiplies the gradients of the logits by the derivative of the softcap, and computes their sum
// for each word.
static void bend_slopes(const struct job *j, char *own, real *sums, const real *bend, int64_t words)
{
    for (int64_t i = 0; i < words; i++) {
        sums[i] = 0;
        for (int64_t r = 0; r < j->n; r++) {
            const real slope = get(own, j->type, i * j->ld + r) * bend[i * j->ld + r];
            put(own, j->type, i * j->ld + r, slope);
            sums[i] += slope;
        }
    }
}

// Turns the softmax terms that pass 1 stored for group g, the words g * WORDS .. + WORDS - 1, into
// gradients of the logits, and adds their contribution to dw and db. Also copies the gradients,
// transposed, to j->slopes, the operand of dx.
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
    if (j->bend) bend_slopes(j, own, sums, j->bend + at * ld, words);
    const real scale = j->scale / j->gain;
    for (int64_t i = 0; i < words && j->db; i++) j->db[at + i] += scale * sums[i];
    if (j->dw) {
        real *dw = j->dw + at * p->K;
        const struct qkv_linear_tail tail = { .x = j->type,
                                              .y = QKV_REAL,
                                              .scale = scale * times_of(p),
                                              .residual = dw,
                                              .residual_ld = p->K };
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

// Runs task i of a piece of the vocabulary. The first tasks each turn the terms of one group of the
// piece into gradients; the other tasks each pack one panel of the piece's weights for dx.
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

// Adds the contribution of a piece of the vocabulary to dx (its gradients times its weights), for
// the rows and panels of task i.
static void inputs(void *ctx, int64_t i, int thread)
{
    const struct job *j = ctx;
    const int64_t K = j->p->K, words = piece_words(j), step = panels_at_once(j);
    const int64_t across = qkv_ceil_div(j->panels, step), r = i / across * TILE,
                  panel = i % across * step, k = panel * j->kernel->panel;
    real *sums = j->rows + r * K + k;
    const struct qkv_linear_tail tail = { .x = j->type,
                                          .y = j->to ? j->x : QKV_REAL,
                                          .scale = j->scale / j->gain * times_of(j->p),
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
        qkv_narrow((char *)dx + (size_t)j->row[r] * row, j->x, j->rows + r * K, K);
}

// ---- blocks ------------------------------------------------------------------------------------
// Collects the next block: the rows from *r on that have a target, at most j->most of them.
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
    // If the rows are adjacent, they are read directly from x.
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
    add_bias(j, s, p->b ? p->b + at : NULL, words);
    if (p->softcap != 0) cap(j, s, NULL, words);
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
