// SPDX-License-Identifier: MIT
// gradcheck.c: compares gradients with finite differences of the loss L.
//
//   numeric = (L(x - 2h) - 8 L(x - h) + 8 L(x + h) - L(x + 2h)) / 12h
//
// The formula has the error h^4 L'''''/30, and a rounding error of 1.5 e |L| / h with e = 2^-53. If
// the derivatives are about as large as L, the sum of both errors is smallest near h = e^(1/5),
// where it is about 1e-12 |L|. If L has a kink (ReLU) between the four points, the formula is
// wrong: the comparison is repeated with smaller steps, down to about 2^-20, where the rounding
// error is still near 1e-10 |L|. A wrong gradient remains wrong with every step.
//
//   rel = |numeric - analytic| / max(|numeric|, |analytic|, rms),   rms: root mean square of the
//   gradients of the array
//
// With rms, the error of a small gradient is measured on the scale of its array. The divisor is at
// least the rounding error ROUNDINGS e |L| / h divided by the limit: a gradient that is 0 in exact
// arithmetic (the key bias) consists of rounding errors only.
#include "gradcheck.h"
#include "gradcheck_main.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 4, ROUNDINGS = 16 };
static const double shrink = 0.125;

struct array {
    char name[48];
    real *x;
    const real *d;
    int64_t n;
    double scale; // root mean square of the gradients in this array
    bool floats;  // true: the loss reads these numbers as floats
};
enum { ARRAYS = 512, BLOCKS = 2048 };
struct gradcheck {
    struct array arrays[ARRAYS];
    int count;
    void *blocks[BLOCKS];
    int used;
    uint64_t seed, drawn;
    int64_t most; // maximum number of elements of an array that are compared
    struct gradcheck_result result;
};

// ---- numbers -----------------------------------------------------------------------------------
static uint32_t word(struct gradcheck *g)
{
    uint32_t four[4];
    qkv_philox(four, g->seed, 0, g->drawn / 4);
    return four[g->drawn++ % 4];
}

// In (0, 1).
static double uniform(struct gradcheck *g)
{
    return ((double)word(g) + 0.5) * 0x1p-32;
}

// Returns a normally distributed random number (Box and Muller 1958).
static double normal(struct gradcheck *g)
{
    const double radius = sqrt(-2 * log(uniform(g)));
    return radius * cos(6.283185307179586 * uniform(g));
}

int64_t gradcheck_pick(struct gradcheck *g, int64_t below)
{
    return (int64_t)(uniform(g) * (double)below);
}

void *gradcheck_memory(struct gradcheck *g, size_t bytes)
{
    void *p = bytes == SIZE_MAX || g->used == BLOCKS ? NULL : qkv_alloc_zero(bytes ? bytes : 1, 1);
    if (!p) {
        fprintf(stderr, "qkv-gradcheck: out of memory\n");
        exit(QKV_ERR_LIMIT);
    }
    g->blocks[g->used++] = p;
    return p;
}

real *gradcheck_random(struct gradcheck *g, int64_t n, double spread)
{
    real *x = gradcheck_memory(g, (size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (real)(spread * normal(g));
    return x;
}

void gradcheck_observe(struct gradcheck *g, const char *name, real *numbers, const real *gradient,
                       int64_t n)
{
    if (g->count == ARRAYS) {
        gradcheck_fail(g, "the check has too many arrays");
        return;
    }
    struct array *a = &g->arrays[g->count++];
    *a = (struct array){ .x = numbers, .d = gradient, .n = n };
    snprintf(a->name, sizeof a->name, "%s", name);
}

void gradcheck_observe_floats(struct gradcheck *g, const char *name, real *numbers,
                              const real *gradient, int64_t n)
{
    gradcheck_observe(g, name, numbers, gradient, n);
    g->arrays[g->count - 1].floats = true;
    for (int64_t i = 0; i < n; i++)
        numbers[i] = (real)(nearbyint((double)numbers[i] * 0x1p10) * 0x1p-10);
}

real *gradcheck_numbers(struct gradcheck *g, const char *name, int64_t n, double spread,
                        real **gradient)
{
    real *x = gradcheck_random(g, n, spread);
    *gradient = gradcheck_memory(g, (size_t)n * sizeof **gradient);
    gradcheck_observe(g, name, x, *gradient, n);
    return x;
}

void gradcheck_end(struct gradcheck *g)
{
    while (g->used) qkv_free(g->blocks[--g->used]);
    g->count = 0;
}

void gradcheck_fail(struct gradcheck *g, const char *why)
{
    g->result.worst = INFINITY;
    snprintf(g->result.where, sizeof g->result.where, "%s", why);
}

// ---- comparing gradients -----------------------------------------------------------------------
// Moves one number of the check, or all numbers together, by t.
struct line {
    struct gradcheck *g;
    double (*loss)(void *ctx);
    void *ctx;
    real *one;       // the number that is moved; NULL: all numbers are moved along `direction`
    real *direction; // direction of the move, with an element for each number of all arrays
    real *from;      // the numbers before they were moved
    bool floats;     // true: the loss reads `one` as a float
};

static double at(const struct line *l, double t)
{
    if (l->one) {
        const real kept = *l->one;
        *l->one = kept + (real)t;
        const double y = l->loss(l->ctx);
        *l->one = kept;
        return y;
    }
    const real *v = l->direction, *from = l->from;
    for (int k = 0; k < l->g->count; k++) {
        const struct array *a = &l->g->arrays[k];
        for (int64_t i = 0; i < a->n; i++) a->x[i] = *from++ + (real)t * *v++;
    }
    return l->loss(l->ctx);
}

static void record(struct gradcheck *g, double rel, const char *name, int64_t index)
{
    g->result.numbers++;
    if (rel <= g->result.worst) return; // a NaN counts as the worst error
    g->result.worst = rel == rel ? rel : INFINITY;
    if (index >= 0)
        snprintf(g->result.where, sizeof g->result.where, "%s[%lld]", name, (long long)index);
    else
        snprintf(g->result.where, sizeof g->result.where, "%s", name);
}

// Returns the relative error of the analytic gradient: the smallest over all step sizes.
static double compare(const struct line *l, double analytic, double scale, double size)
{
    double best = INFINITY, h = l->floats ? 0x1p-11 : pow(0x1p-53, 0.2) * size;
    for (int i = 0; i < STEPS; i++, h *= shrink) {
        const double up = at(l, h), down = at(l, -h), far = at(l, 2 * h) - at(l, -2 * h);
        // for a loss that does not change, `numeric` is exactly 0
        const double numeric = (8 * (up - down) - far) / (12 * h);
        const double noise = ROUNDINGS * 0x1p-53 * fabs(up) / h;
        const double most = fmax(fmax(fabs(numeric), fabs(analytic)), scale);
        const double rel = fabs(numeric - analytic) / fmax(most, noise / GRADCHECK_LIMIT);
        if (numeric == analytic) return 0;
        if (rel != rel) return rel;
        best = fmin(best, rel);
        if (best <= GRADCHECK_LIMIT) break;
    }
    return best;
}

static void along_all(struct line *l)
{
    struct gradcheck *g = l->g;
    int64_t total = 0;
    for (int k = 0; k < g->count; k++) total += g->arrays[k].n;
    l->one = NULL;
    l->floats = false;
    l->direction = gradcheck_random(g, total, 1 / sqrt((double)total));
    l->from = gradcheck_memory(g, (size_t)total * sizeof *l->from);
    double analytic = 0, square = 0;
    real *from = l->from, *v = l->direction;
    for (int k = 0; k < g->count; k++)
        for (int64_t i = 0; i < g->arrays[k].n; i++) {
            const double d = (double)g->arrays[k].d[i];
            if (g->arrays[k].floats) *v = 0;
            analytic += d * (double)*v++;
            square += d * d;
            *from++ = g->arrays[k].x[i];
        }
    record(g, compare(l, analytic, sqrt(square / (double)total), 1),
           "all arrays, along a random direction", -1);
    (void)at(l, 0);
}

void gradcheck_run(struct gradcheck *g, double (*loss)(void *ctx), void (*backward)(void *ctx),
                   void *ctx)
{
    struct line l = { .g = g, .loss = loss, .ctx = ctx };
    if (g->result.worst == INFINITY) return;
    backward(ctx);
    for (int k = 0; k < g->count; k++) {
        struct array *a = &g->arrays[k];
        double square = 0;
        for (int64_t i = 0; i < a->n; i++) square += (double)a->d[i] * (double)a->d[i];
        a->scale = a->n ? sqrt(square / (double)a->n) : 0;
    }
    for (int k = 0; k < g->count; k++) {
        const struct array *a = &g->arrays[k];
        const int64_t looks = qkv_min64(a->n, g->most);
        for (int64_t i = 0; i < looks; i++) {
            const int64_t index = looks == a->n ? i : gradcheck_pick(g, a->n);
            l.one = &a->x[index];
            l.floats = a->floats;
            record(g, compare(&l, (double)a->d[index], a->scale, fmax(1, fabs((double)*l.one))),
                   a->name, index);
        }
    }
    if (g->count) along_all(&l);
}

struct gradcheck_result gradcheck_result_of(void (*check)(struct gradcheck *g), int64_t most)
{
    struct gradcheck *g = calloc(1, sizeof *g);
    if (!g) {
        fprintf(stderr, "qkv-gradcheck: out of memory\n");
        exit(QKV_ERR_LIMIT);
    }
    g->seed = 1;
    g->most = most;
    check(g);
    gradcheck_end(g);
    const struct gradcheck_result r = g->result;
    free(g);
    return r;
}
