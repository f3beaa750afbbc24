// SPDX-License-Identifier: MIT
// gradcheck.h: declares the functions that compare gradients with finite differences, in double.
//
// A check allocates the numbers that a loss depends on, stores their addresses in a structure of
// its own, and calls gradcheck_run once or more:
//
//     struct pair { real *x, *dx, *weight; };
//     static double loss(void *ctx) { struct pair *p = ctx; ... return sum; }  // reads x
//     static void backward(void *ctx) { struct pair *p = ctx; ... } // sets or adds to dx
//     void check_pair(struct gradcheck *g)
//     {
//         struct pair p;
//         p.x = gradcheck_numbers(g, "x", 12, 1, &p.dx);
//         p.weight = gradcheck_random(g, 12, 1);
//         gradcheck_run(g, loss, backward, &p);
//     }
//
// The loss of a layer is the sum of its outputs times random weights (gradcheck_random); these
// weights are the gradient of the outputs.
#ifndef QKV_GRADCHECK_H
#define QKV_GRADCHECK_H
#include "layer/layer.h"

struct gradcheck;
// Allocates n numbers that the loss depends on, normally distributed around 0 with standard
// deviation `spread`; the caller may replace them. *gradient receives an array of n zeros, which
// backward must fill. gradcheck_end frees both arrays.
real *gradcheck_numbers(struct gradcheck *g, const char *name, int64_t n, double spread,
                        real **gradient);
// Adds an array of numbers and the array of their gradients to the comparison. Both belong to the
// caller (e.g. parameters of a model) and must exist until gradcheck_end.
void gradcheck_observe(struct gradcheck *g, const char *name, real *numbers, const real *gradient,
                       int64_t n);
// The same as gradcheck_observe, for numbers that the loss reads as floats. The numbers are rounded
// to multiples of 2^-10 and changed by powers of two, so that floats represent them exactly.
void gradcheck_observe_floats(struct gradcheck *g, const char *name, real *numbers,
                              const real *gradient, int64_t n);
// gradcheck_random allocates n normally distributed random numbers that have no gradient;
// gradcheck_memory allocates zeroed, 64-byte aligned memory. gradcheck_end frees both.
real *gradcheck_random(struct gradcheck *g, int64_t n, double spread);
void *gradcheck_memory(struct gradcheck *g, size_t bytes);
// Returns a pseudorandom integer in 0 .. below - 1; every run draws the same sequence.
int64_t gradcheck_pick(struct gradcheck *g, int64_t below);

// Calls backward once, then compares the gradients of all added arrays with central differences of
// loss: each number (of large arrays a sample), and all numbers together along one random
// direction.
void gradcheck_run(struct gradcheck *g, double (*loss)(void *ctx), void (*backward)(void *ctx),
                   void *ctx);
// Removes and frees all arrays of the check, so that the check can test another variant. The
// program also calls this function after each check.
void gradcheck_end(struct gradcheck *g);
// Reports that a check could not run, for example without memory. The check counts as failed, with
// the reason `why`.
void gradcheck_fail(struct gradcheck *g, const char *why);

#define GRADCHECK(NAME, FUNCTION) void FUNCTION(struct gradcheck *g);
#include "gradcheck.def"
#undef GRADCHECK
#endif
