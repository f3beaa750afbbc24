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

qkv_status explain_head_fit(struct explain_head *h, const struct explain_task *t, int64_t steps,
                            qkv_error *err)
{
    const struct qkv_attention a = shape(t);
    const struct qkv_attention_plan plan = qkv_multi_head_plan(&h->m, &a),
                                    back = qkv_multi_head_backward_plan(&h->m, &a, &h->g);
    const int64_t B = t->samples, S = t->items, d = h->m.d_k;
    const size_t bytes = plan.scratch > back.scratch ? plan.scratch : back.scratch;
    void *scratch = cmd_alloc(bytes, 1);
    float *block = cmd_alloc((size_t)(B * (3 + d) + B * S * (d + 1) + 2 * h->count), sizeof *block);
    const struct qkv_multi_head_keep keep = { .q = block,
                                              .k = block + B * d,
                                              .v = block + B * (1 + S) * d,
                                              .heads = block + B * (1 + S) * d + B * S,
                                              .lse = block + B * (1 + S) * d + B * S + B };
    float *out = keep.lse + B, *mean = out + B, *square = mean + h->count;
    memset(mean, 0, (size_t)(2 * h->count) * sizeof *mean);
    qkv_status status = plan.status ? plan.status : back.status;
    for (int64_t step = 1; step <= steps && !status; step++) {
        status = qkv_multi_head_forward(out, &keep, t->query, t->item, &h->m, &a, scratch);
        for (int64_t i = 0; i < B; i++) // the gradient of the mean squared error
            out[i] = (float)(2 * ((double)out[i] - (double)t->target[i]) / (double)B);
        memset(h->gradient, 0, (size_t)h->count * sizeof *h->gradient);
        if (!status)
            status = qkv_multi_head_backward(NULL, NULL, &h->g, out, &keep, t->query, t->item,
                                             &h->m, &a, scratch);
        if (!status) adam(h, mean, square, step);
    }
    free(block);
    free(scratch);
    return status ? refused(status, plan.status ? plan.reason : back.reason, err) : QKV_OK;
}
