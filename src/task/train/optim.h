// SPDX-License-Identifier: MIT
// optim.h: declares the schedules of the learning rate and the optimizers, which update weights
// from gradients.
#ifndef QKV_TASK_OPTIM_H
#define QKV_TASK_OPTIM_H

#include "base/base.h"
#include "model/model.h"

enum qkv_optimizer_kind { QKV_ADAMW = 0, QKV_SGD };
enum qkv_schedule_kind {
    QKV_SCHEDULE_COSINE = 0,
    QKV_SCHEDULE_LINEAR,
    QKV_SCHEDULE_INVERSE_SQRT,
    QKV_SCHEDULE_CONSTANT
};

// The schedule of the learning rate, which is a function of the step n, counted from 0. During
// warm-up (n < warmup) the learning rate is rate (n + 1) / warmup, as in Vaswani et al. 2017 (5.3).
// After warm-up, with x = (n - warmup) / (steps - warmup), at most 1, and low = rate * last:
//   cosine        low + (rate - low) (1 + cos(pi x)) / 2
//   linear        low + (rate - low) (1 - x)
//   inverse sqrt  rate sqrt(warmup / (n + 1)), with warmup at least 1
//   constant      rate
struct qkv_schedule {
    enum qkv_schedule_kind kind;
    // rate: the maximum; last: the rate at the end divided by the maximum (cosine, linear)
    double rate, last;
    int64_t warmup, steps;
};
// Returns the learning rate of step n.
double qkv_schedule_rate(const struct qkv_schedule *s, int64_t n);

// The optimizers: AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101), with decoupled weight
// decay, equal to torch.optim.AdamW; and SGD with momentum, equal to torch.optim.SGD. Weight decay
// applies only to parameters whose `decay` is true.
struct qkv_optimizer {
    enum qkv_optimizer_kind kind;
    double beta1, beta2, eps, decay, momentum;
    // The optimizer updates blocks from .. end-1 of the weights and has their moments. end 0: all
    // blocks. Several processes that train one model have a part each.
    int64_t from, end;
    // [parameters] moments, owned by the optimizer: m first, v second, of the weights of each
    // parameter that are in its blocks. SGD: v is NULL; without momentum m is NULL too.
    real **m, **v;
    int64_t parameters, steps;
};
// All parameters are cut into blocks of weights, which are counted through.
int64_t qkv_parameter_blocks(const struct qkv_parameter *p, int64_t n);
// The weights of one parameter that are in blocks from .. end-1, which may be none; end 0: all.
struct qkv_weights {
    int64_t first, n;
};
struct qkv_weights qkv_parameter_part(const struct qkv_parameter *p, int64_t i, int64_t from,
                                      int64_t end);
// Allocates the moments and sets them to 0. The caller has set the members above m.
qkv_status qkv_optimizer_init(struct qkv_optimizer *o, const struct qkv_parameter *p, int64_t n,
                              qkv_error *err);
void qkv_optimizer_free(struct qkv_optimizer *o); // accepts a zeroed struct
// Computes squares[b], the sum of the squared gradients of block b, for blocks from .. end-1.
void qkv_gradient_squares(double *squares, const struct qkv_parameter *p, int64_t n, int64_t from,
                          int64_t end);
// Returns the norm of the gradient over all parameters, from the squares of all blocks, which are
// added in their order: the norm does not depend on the number of threads. *first_bad becomes the
// index of the first parameter with a nonfinite gradient, or -1 if all are finite; first_bad may be
// NULL.
double qkv_gradient_norm(const double *squares, const struct qkv_parameter *p, int64_t n,
                         int64_t *first_bad);
// Returns the index of the first parameter with a nonfinite weight; -1 if all weights are finite.
int64_t qkv_parameter_bad(const struct qkv_parameter *p, int64_t n);
// Updates the parameters from their gradients, each multiplied by `scale` (for clipping and for the
// mean over rows), and counts the step.
void qkv_optimizer_step(struct qkv_optimizer *o, struct qkv_parameter *p, int64_t n, double rate,
                        double scale);
#endif
