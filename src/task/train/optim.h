// SPDX-License-Identifier: MIT
// optim.h: computes learning rates and updates weights from gradients.
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

// Returns the learning rate of step n (from 0). Warm-up: rate (n + 1) / warmup, counted as in
// Vaswani et al. 2017 (5.3); then, with x = (n - warmup) / (steps - warmup), at most 1, and low =
// rate * last:
//   cosine        low + (rate - low) (1 + cos(pi x)) / 2
//   linear        low + (rate - low) (1 - x)
//   inverse sqrt  rate sqrt(warmup / (n + 1)), with warmup at least 1
//   constant      rate
struct qkv_schedule {
    enum qkv_schedule_kind kind;
    double rate, last; // peak rate; fraction of it at the end (cosine, linear)
    int64_t warmup, steps;
};
double qkv_schedule_rate(const struct qkv_schedule *s, int64_t n);

// AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101) with decoupled weight decay, as
// torch.optim.AdamW; SGD with momentum, as torch.optim.SGD. Weight decay applies only to parameters
// with `decay`.
struct qkv_optimizer {
    enum qkv_optimizer_kind kind;
    double beta1, beta2, eps, decay, momentum;
    real **m, **v; // [parameters] moments, owned; v NULL for SGD, both NULL without momentum
    int64_t parameters, steps;
};
// Allocates the moments, all 0; the caller has set the members above m.
qkv_status qkv_optimizer_init(struct qkv_optimizer *o, const struct qkv_parameter *p, int64_t n,
                              qkv_error *err);
void qkv_optimizer_free(struct qkv_optimizer *o); // a zeroed struct is allowed
// Returns the square root of the sum of squares of all gradients, summed in double in blocks of a
// fixed size and order, so that it does not depend on threads. *first_bad (NULL: not requested):
// the first parameter with a nonfinite gradient, -1: all gradients are finite.
double qkv_gradient_norm(const struct qkv_parameter *p, int64_t n, int64_t *first_bad);
// Returns the index of the first parameter with a nonfinite value; -1: all values are finite.
int64_t qkv_parameter_bad(const struct qkv_parameter *p, int64_t n);
// Updates the parameters with their gradients times `scale` (for clipping and the mean over rows)
// and counts the step.
void qkv_optimizer_step(struct qkv_optimizer *o, struct qkv_parameter *p, int64_t n, double rate,
                        double scale);
#endif
