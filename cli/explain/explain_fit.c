// SPDX-License-Identifier: MIT
// explain_fit.c: trains one attention head on a regression task by the gradients of the library:
// the mean squared error of one output number per query, minimized by Adam on all samples.
#include "explain/explain.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Takes the next n parameters of the head, drawn from N(0, 1/in), and their gradients.
static const float *take(struct explain_head *h, float **gradient, int64_t n, int64_t in,
                         struct explain_random *r)
{
    float *at = h->parameter + h->count;
    *gradient = h->gradient + h->count;
    explain_normals(at, n, 1 / sqrt((double)in), r);
    h->count += n;
    return at;
}

void explain_head_new(struct page *p, struct explain_head *h, enum qkv_score score, int64_t width,
                      int64_t d_k, struct explain_random *r)
{
    const int64_t most = 2 * d_k * width + 2 * d_k * d_k + d_k;
    float *value = page_take(p, (size_t)width, sizeof *value);
    value[width - 1] = 1;
    *h = (struct explain_head){ .parameter = page_take(p, (size_t)most, sizeof(float)),
                                .gradient = page_take(p, (size_t)most, sizeof(float)) };
    h->m = (struct qkv_multi_head){
        .H = 1, .d_q = width, .d_kv = width, .d_k = d_k, .d_v = 1, .score = score
    };
    h->m.w_q = take(h, &h->g.w_q, d_k * width, width, r);
    h->m.w_k = take(h, &h->g.w_k, d_k * width, width, r);
    h->m.w_v = value; // its gradient stays NULL
    if (score == QKV_SCORE_BILINEAR) h->m.w_s = take(h, &h->g.w_s, d_k * d_k, d_k, r);
    if (score != QKV_SCORE_ADDITIVE) return;
    h->m.d_a = d_k;
    h->m.w_aq = take(h, &h->g.w_aq, d_k * d_k, d_k, r);
    h->m.w_ak = take(h, &h->g.w_ak, d_k * d_k, d_k, r);
    h->m.w_a = take(h, &h->g.w_a, d_k, d_k, r);
}

static struct qkv_attention shape(const struct explain_task *t)
{
    return (struct qkv_attention){ .B = t->samples, .T = 1, .S = t->items };
}

static qkv_status refused(qkv_status status, const char *reason, qkv_error *err)
{
    return cmd_error(err, status, NULL, "the attention kernel cannot compute this case: %s",
                     reason);
}

qkv_status explain_head_run(float *out, float *weights, const struct explain_head *h,
                            const struct explain_task *t, qkv_error *err)
{
    const struct qkv_attention a = shape(t);
    const struct qkv_attention_plan plan = qkv_multi_head_plan(&h->m, &a);
    const struct qkv_multi_head_keep keep = { .weights = weights };
    void *scratch = cmd_alloc(plan.scratch, 1);
    const qkv_status status =
        qkv_multi_head_forward(out, &keep, t->query, t->item, &h->m, &a, scratch);
    free(scratch);
    return status ? refused(status, plan.reason, err) : QKV_OK;
}

// Takes one step of Adam (Kingma and Ba 2015, arXiv 1412.6980) on all parameters.
static void adam(struct explain_head *h, float *mean, float *square, int64_t step)
{
    const double rate = .02, b1 = .9, b2 = .999;
    for (int64_t i = 0; i < h->count; i++) {
        const double g = (double)h->gradient[i];
        const double m = b1 * (double)mean[i] + (1 - b1) * g,
                     v = b2 * (double)square[i] + (1 - b2) * g * g;
        mean[i] = (float)m;
        square[i] = (float)v;
        h->parameter[i] -= (float)(rate * m / (1 - pow(b1, (double)step)) /
                                   (sqrt(v / (1 - pow(b2, (double)step))) + 1e-8));
    }
}

// The plans and the memory of one run in both directions.
struct both {
    struct qkv_attention a;
    struct qkv_attention_plan plan, back;
    struct qkv_multi_head_keep keep;
    void *scratch;
    float *block, *out;
};

static void both_new(struct both *b, const struct explain_head *h, const struct explain_task *t)
{
    const int64_t B = t->samples, S = t->items, d = h->m.d_k;
    b->a = shape(t);
    b->plan = qkv_multi_head_plan(&h->m, &b->a);
    b->back = qkv_multi_head_backward_plan(&h->m, &b->a, &h->g);
    b->scratch =
        cmd_alloc(b->plan.scratch > b->back.scratch ? b->plan.scratch : b->back.scratch, 1);
    b->block = cmd_alloc((size_t)(B * (3 + d) + B * S * (d + 1)), sizeof *b->block);
    b->keep = (struct qkv_multi_head_keep){ .q = b->block,
                                            .k = b->block + B * d,
                                            .v = b->block + B * (1 + S) * d,
                                            .heads = b->block + B * (1 + S) * d + B * S,
                                            .lse = b->block + B * (1 + S) * d + B * S + B };
    b->out = b->keep.lse + B;
}

static void both_free(struct both *b)
{
    free(b->block);
    free(b->scratch);
}

// Computes the mean squared error, *loss, and its gradient, h->gradient.
static qkv_status descend(double *loss, struct both *b, struct explain_head *h,
                          const struct explain_task *t, qkv_error *err)
{
    const double B = (double)t->samples;
    if (b->plan.status || b->back.status)
        return refused(b->plan.status ? b->plan.status : b->back.status,
                       b->plan.status ? b->plan.reason : b->back.reason, err);
    qkv_status status =
        qkv_multi_head_forward(b->out, &b->keep, t->query, t->item, &h->m, &b->a, b->scratch);
    *loss = 0;
    for (int64_t i = 0; i < t->samples; i++) {
        const double off = (double)b->out[i] - (double)t->target[i];
        *loss += off * off / B;
        b->out[i] = (float)(2 * off / B);
    }
    memset(h->gradient, 0, (size_t)h->count * sizeof *h->gradient);
    if (!status)
        status = qkv_multi_head_backward(NULL, NULL, &h->g, b->out, &b->keep, t->query, t->item,
                                         &h->m, &b->a, b->scratch);
    return status ? refused(status, b->plan.reason, err) : QKV_OK;
}

qkv_status explain_head_check(double *off, struct explain_head *h, const struct explain_task *t,
                              qkv_error *err)
{
    enum { AHEAD = 1, BACK = 2 };
    const double step = .01;
    struct both b;
    double loss[3], square = 0;
    both_new(&b, h, t);
    float *was = cmd_alloc((size_t)h->count, sizeof *was), *along = cmd_alloc((size_t)h->count, 4);
    memcpy(was, h->parameter, (size_t)h->count * sizeof *was);
    qkv_status status = descend(&loss[0], &b, h, t, err);
    for (int64_t i = 0; i < h->count; i++)
        square += (double)h->gradient[i] * (double)h->gradient[i];
    memcpy(along, h->gradient, (size_t)h->count * sizeof *along);
    for (int side = AHEAD; side <= BACK && !status; side++) {
        for (int64_t i = 0; i < h->count; i++)
            h->parameter[i] =
                was[i] + (float)((side == AHEAD ? step : -step) * (double)along[i] / sqrt(square));
        status = descend(&loss[side], &b, h, t, err);
    }
    memcpy(h->parameter, was, (size_t)h->count * sizeof *was);
    if (!status) *off = fabs((loss[AHEAD] - loss[BACK]) / (2 * step) / sqrt(square) - 1);
    free(was);
    free(along);
    both_free(&b);
    return status;
}

qkv_status explain_head_fit(struct explain_head *h, const struct explain_task *t, int64_t steps,
                            qkv_error *err)
{
    struct both b;
    double loss;
    both_new(&b, h, t);
    float *mean = cmd_alloc((size_t)(2 * h->count), sizeof *mean);
    memset(mean, 0, (size_t)(2 * h->count) * sizeof *mean);
    qkv_status status = QKV_OK;
    for (int64_t step = 1; step <= steps && !status; step++) {
        status = descend(&loss, &b, h, t, err);
        if (!status) adam(h, mean, mean + h->count, step);
    }
    free(mean);
    both_free(&b);
    return status;
}
