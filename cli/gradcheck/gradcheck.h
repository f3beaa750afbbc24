// SPDX-License-Identifier: MIT
// gradcheck.h: gradients against finite differences, in double.
//
// A check makes the numbers that a loss hangs on, fills a struct of its own with where they lie,
// and calls gradcheck_run once or more:
//
//     struct pair { real *x, *dx, *weight; };
//     static double loss(void *ctx) { struct pair *p = ctx; ... return sum; }  // from the numbers as they are
//     static void backward(void *ctx) { struct pair *p = ctx; ... }            // fills or adds to gradients
//     void check_pair(struct gradcheck *g)
//     {
//         struct pair p;
//         p.x = gradcheck_numbers(g, "x", 12, 1, &p.dx);
//         p.weight = gradcheck_random(g, 12, 1);
//         gradcheck_run(g, loss, backward, &p);
//     }
//
// A loss of a layer is the sum of its outputs times random weights (gradcheck_random), which are
// then dy.
#ifndef QKV_GRADCHECK_H
#define QKV_GRADCHECK_H
#include "layer/layer.h"

struct gradcheck;
// n numbers that the loss hangs on, normally distributed around 0 with standard deviation `spread`
// (the caller may write others).  *gradient takes n numbers, 0 at first: what backward computes.
// Both are freed by gradcheck_end.
real *gradcheck_numbers(struct gradcheck *g, const char *name, int64_t n, double spread,
                        real **gradient);
// The same for numbers and gradients that lie elsewhere (parameters of a model) until
// gradcheck_end.
void gradcheck_watch(struct gradcheck *g, const char *name, real *numbers, const real *gradient,
                     int64_t n);
// n random numbers without a gradient, and memory (zeroed, 64-byte aligned), until gradcheck_end.
real *gradcheck_random(struct gradcheck *g, int64_t n, double spread);
void *gradcheck_memory(struct gradcheck *g, size_t bytes);
// A whole number in 0 .. below-1, reproducible.
int64_t gradcheck_pick(struct gradcheck *g, int64_t below);

// Calls backward once, then compares each gradient of the watched arrays (a sample of large ones,
// and all together along one random direction) with central differences of loss.
void gradcheck_run(struct gradcheck *g, double (*loss)(void *ctx), void (*backward)(void *ctx),
                   void *ctx);
// Forgets all arrays: before another variant in the same check.  Called behind each check as well.
void gradcheck_end(struct gradcheck *g);
// Something in a check did not work at all (a status, no memory): it counts as failed, with this
// text.
void gradcheck_fail(struct gradcheck *g, const char *why);

#define GRADCHECK(NAME, FUNCTION) void FUNCTION(struct gradcheck *g);
#include "gradcheck.def"
#undef GRADCHECK
#endif
