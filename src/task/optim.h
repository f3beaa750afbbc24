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

// Learning rate of step n (from 0): linear warm-up, then the kind's curve down to last * rate at `steps`.
struct qkv_schedule {
    enum qkv_schedule_kind kind;
    double rate, last; // peak; share of it at the end (cosine, linear)
    int64_t warmup, steps;
};
double qkv_schedule_rate(const struct qkv_schedule *s, int64_t n);

// AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101), decoupled decay as torch.optim.AdamW; SGD with momentum.
struct qkv_optimizer {
    enum qkv_optimizer_kind kind;
    double beta1, beta2, eps, decay, momentum;
    float **m, **v; // [parameters] moments, owned; v NULL for SGD
    int64_t parameters, steps;
};
qkv_status qkv_optimizer_init(struct qkv_optimizer *o, const struct qkv_parameter *p, int64_t n);
void qkv_optimizer_free(struct qkv_optimizer *o);
// sqrt of the sum of squares of all gradients, in double, in a fixed order.  first_bad: the first parameter with a
// gradient that is not finite, -1: none.
double qkv_gradient_norm(const struct qkv_parameter *p, int64_t n, int64_t *first_bad);
// One step with gradients times `scale` (clipping).
void qkv_optimizer_step(struct qkv_optimizer *o, struct qkv_parameter *p, int64_t n, double rate,
                        double scale);
#endif
