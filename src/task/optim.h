// SPDX-License-Identifier: MIT
// optim.h: from gradients to weights.  Part of the door task.h.
#ifndef QKV_TASK_OPTIM_H
#define QKV_TASK_OPTIM_H

enum qkv_optimizer_kind { QKV_ADAMW = 0, QKV_SGD };
enum qkv_schedule_kind {
    QKV_SCHEDULE_COSINE = 0,
    QKV_SCHEDULE_LINEAR,
    QKV_SCHEDULE_INVERSE_SQRT,
    QKV_SCHEDULE_CONSTANT
};

// Learning rate of step n (from 0).  Warm-up: rate (n + 1) / warmup, as Vaswani et al. 2017 (5.3)
// count it; then, with x = (n - warmup) / (steps - warmup) up to 1:
//   cosine        last + (rate - last) (1 + cos(pi x)) / 2    (last: the share `last` of rate)
//   linear        last + (rate - last) (1 - x)
//   inverse sqrt  rate sqrt(warmup / (n + 1)), warmup 0 as 1
//   constant      rate
struct qkv_schedule {
    enum qkv_schedule_kind kind;
    double rate, last; // peak; share of it at the end (cosine, linear)
    int64_t warmup, steps;
};
double qkv_schedule_rate(const struct qkv_schedule *s, int64_t n);

// AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101) with decoupled decay, as torch.optim.AdamW;
// SGD with momentum, as torch.optim.SGD.  Decay only where a parameter says so.
struct qkv_optimizer {
    enum qkv_optimizer_kind kind;
    double beta1, beta2, eps, decay, momentum;
    real **m, **v; // [parameters] moments, owned; v NULL for SGD, both without momentum
    int64_t parameters, steps;
};
// The members above m are the caller's and stay; moments are 0.
qkv_status qkv_optimizer_init(struct qkv_optimizer *o, const struct qkv_parameter *p, int64_t n,
                              qkv_error *err);
void qkv_optimizer_free(struct qkv_optimizer *o); // zeroed struct is fine
// sqrt of the sum of squares of all gradients: in double, blocks of a fixed size added in order, so
// that no bit depends on threads.  *first_bad (NULL: not wanted): the first parameter with a
// gradient that is not finite, -1: none.
double qkv_gradient_norm(const struct qkv_parameter *p, int64_t n, int64_t *first_bad);
// The first parameter with a value that is not finite, -1: none.
int64_t qkv_parameter_bad(const struct qkv_parameter *p, int64_t n);
// One step with gradients times `scale` (clipping, and the mean over rows); steps counts it.
void qkv_optimizer_step(struct qkv_optimizer *o, struct qkv_parameter *p, int64_t n, double rate,
                        double scale);
#endif
