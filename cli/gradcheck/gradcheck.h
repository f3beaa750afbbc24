// SPDX-License-Identifier: MIT
// gradcheck.h: declares the functions that compare gradients with finite differences, in double.
//
// A check allocates the numbers that a loss depends on, stores their addresses in a struct of its
// own, and calls gradcheck_run() at least once:
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
// The loss of a layer is the sum of its outputs, each times a random weight (gradcheck_random); so
// these weights are the gradients of the outputs.
#ifndef QKV_GRADCHECK_H
#define QKV_GRADCHECK_H
#include "layer/layer.h"

struct gradcheck;
// Allocates n numbers that the loss depends on: random numbers from a normal distribution with
// standard deviation `spread`, which the caller may replace. *gradient becomes an array of n zeros,
// in which the backward function stores the gradients. gradcheck_end() frees both arrays.
real *gradcheck_numbers(struct gradcheck *g, const char *name, int64_t n, double spread,
                        real **gradient);
// Adds an array of numbers and the array of their gradients to the check. The caller owns both (for
// example, the parameters of a model); they must exist until gradcheck_end().
void gradcheck_observe(struct gradcheck *g, const char *name, real *numbers, const real *gradient,
                       int64_t n);
// Adds an array of numbers as gradcheck_observe() does, but for numbers that the loss reads as
// floats. They are rounded to multiples of 2^-10 and changed by powers of two, so that floats
// represent all of them exactly.
void gradcheck_observe_floats(struct gradcheck *g, const char *name, real *numbers,
                              const real *gradient, int64_t n);
// gradcheck_random() allocates n normally distributed numbers whose gradients are not checked.
// gradcheck_memory() allocates zeroed memory, aligned to 64 bytes. gradcheck_end() frees both.
real *gradcheck_random(struct gradcheck *g, int64_t n, double spread);
void *gradcheck_memory(struct gradcheck *g, size_t bytes);
// Returns a pseudorandom integer from 0 to below - 1. Every run of the program draws the same
// numbers.
int64_t gradcheck_pick(struct gradcheck *g, int64_t below);

// Calls backward once, then compares all gradients with central differences of the loss: for each
// number alone (in a large array, for a sample of them), and for all numbers together, along a
// random direction.
void gradcheck_run(struct gradcheck *g, double (*loss)(void *ctx), void (*backward)(void *ctx),
                   void *ctx);
// Frees the arrays of the check and removes them, so that the check can test another variant. The
// program also calls this function after each check.
void gradcheck_end(struct gradcheck *g);
// Reports that a check could not run, for example because memory is exhausted. The check counts as
// failed; why: the reason.
void gradcheck_fail(struct gradcheck *g, const char *why);

#define GRADCHECK(NAME, FUNCTION) void FUNCTION(struct gradcheck *g);
#include "gradcheck.def"
#undef GRADCHECK
#endif
