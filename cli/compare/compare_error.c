// SPDX-License-Identifier: MIT
// compare_error.c: measures the errors of approximations of attention: their output is compared
// with exact attention on the same q, k and v.
//
// The error of a head is |out - exact| / |exact|, where the norms are over all rows of the head.
// An output of 0 has error 1; the mean of the values is what uniform weights give.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "compare/compare.h"
#include "frame/tokens.h"

// Returns the relative error of one head, whose numbers are in out[n][H][F].
static double head_error(const float *out, const float *want, const struct compare_shape *s,
                         int64_t head)
{
    double off = 0, size = 0;
    for (int64_t t = 0; t < s->n; t++)
        for (int64_t f = 0; f < s->F; f++) {
            const int64_t i = (t * s->H + head) * s->F + f;
            const double x = (double)out[i] - (double)want[i];
            off += x * x;
            size += (double)want[i] * (double)want[i];
        }
    return off == 0 ? 0 : sqrt(off / size);
}

static void add(struct compare_error *e, double x)
{
    e->mean = (e->mean * e->count + x) / (e->count + 1);
    if (!(x <= e->worst) && !isnan(e->worst)) e->worst = x;
    e->count++;
}

static qkv_status run_kind(struct compare_layer *l, int kind, const struct compare_shape *s,
                           const float *const qkv[3])
{
    const qkv_status status = compare_open(l, &compare_baselines[kind], s, qkv);
    if (status) return status;
    l->scratch = cmd_alloc(l->bytes, 1);
    return compare_baselines[kind].run(l);
}

// Computes the mean of the values that each query may attend to: of all values or, if causal, of
// the values up to the position of the query.
static void average(float *out, const float *v, const struct compare_shape *s)
{
    double *sum = cmd_alloc((size_t)(s->G * s->F), sizeof *sum);
    memset(sum, 0, (size_t)(s->G * s->F) * sizeof *sum);
    for (int64_t t = 0; t < s->S && !s->causal; t++)
        for (int64_t i = 0; i < s->G * s->F; i++) sum[i] += (double)v[t * s->G * s->F + i];
    for (int64_t t = 0; t < s->n; t++) {
        const int64_t seen = s->causal && t < s->S ? t + 1 : s->S;
        for (int64_t i = 0; i < s->G * s->F && s->causal && t < s->S; i++)
            sum[i] += (double)v[t * s->G * s->F + i];
        for (int64_t h = 0; h < s->H; h++)
            for (int64_t f = 0; f < s->F; f++)
                out[(t * s->H + h) * s->F + f] =
                    (float)(sum[h / (s->H / s->G) * s->F + f] / (double)seen);
    }
    free(sum);
}

// Runs every approximation on the q, k and v of one layer, and adds its errors to *errors.
static qkv_status add_layer(struct compare_errors *errors, const struct compare_job *job,
                            const struct compare_shape *s, const float *const qkv[3])
{
    struct compare_layer exact, other;
    qkv_status status = run_kind(&exact, 0, s, qkv);
    if (!status) {
        float *mean = cmd_alloc((size_t)(s->n * s->H * s->F), sizeof *mean);
        average(mean, qkv[2], s);
        for (int64_t h = 0; h < s->H; h++) add(&errors->average, head_error(mean, exact.out, s, h));
        free(mean);
    }
    for (int kind = 1; kind < COMPARE_KINDS && !status; kind++) {
        if (!compare_baselines[kind].scalable || !job->wanted[kind]) continue;
        const qkv_status ran = run_kind(&other, kind, s, qkv);
        for (int64_t h = 0; h < s->H && !ran; h++)
            add(&errors->kind[kind], head_error(other.out, exact.out, s, h));
        if (ran && ran != QKV_ERR_UNSUPPORTED) status = ran;
        compare_close(&other);
    }
    compare_close(&exact);
    return status;
}

int64_t compare_error_tokens(const struct compare_job *job)
{
    const int64_t most = job->n[job->n_count - 1];
    return most < 2048 || job->arrays ? most : 2048;
}

qkv_status compare_on_arrays(struct compare_errors *errors, const struct compare_job *job,
                             qkv_error *err)
{
    const struct compare_arrays *a = job->arrays;
    const struct compare_shape s = compare_job_shape(job, job->n[0], job->d[0]);
    const float *const all[3] = { a->q.at, a->k.at, a->v.at };
    qkv_status status = QKV_OK;
    memset(errors, 0, sizeof *errors);
    for (int64_t b = 0; b < a->s.B && !status; b++) {
        struct compare_layer item = { .s = s };
        compare_select(&item, all, b);
        status = add_layer(errors, job, &s, (const float *const[3]){ item.q, item.k, item.v });
    }
    if (status) return cmd_error(err, status, NULL, "a layer cannot run on these arrays");
    if (!isnan(errors->average.mean)) return QKV_OK;
    return cmd_error(err, QKV_ERR_FORMAT, a->q.source,
                     "exact attention overflows: expected numbers whose scores and outputs are "
                     "finite floats");
}

qkv_status compare_on_inputs(struct compare_errors errors[COMPARE_INPUTS],
                             const struct compare_job *job, int64_t n, int64_t d, qkv_error *err)
{
    const struct compare_shape s = compare_shape_of(n, d, job->keys, job->width, job->causal);
    float *qkv[3];
    qkv_status status = QKV_OK;
    for (int i = 0; i < 3; i++) qkv[i] = cmd_alloc((size_t)(n * d), sizeof **qkv);
    memset(errors, 0, COMPARE_INPUTS * sizeof *errors);
    for (int i = 0; i < COMPARE_INPUTS && !status; i++) {
        compare_inputs[i].make(qkv, &s);
        status = add_layer(&errors[i], job, &s, (const float *const *)qkv);
    }
    for (int i = 0; i < 3; i++) free(qkv[i]);
    return status ? cmd_error(err, status, NULL, "a layer cannot run at n = %lld, d = %lld",
                              (long long)n, (long long)d)
                  : QKV_OK;
}

// ---- a model -----------------------------------------------------------------------------------
struct observed {
    struct compare_errors *errors;
    const struct compare_job *job;
    struct compare_text *t;
    qkv_status status;
};

// Observer of the model run: measures the errors on one layer.
static int layer(void *user, const struct qkv_layer_output *seen)
{
    struct observed *w = user;
    if (seen->layer < 0 || seen->part == QKV_PART_CROSS || w->status) return 0;
    if (seen->softcap != 0 || seen->relative || !seen->q) {
        w->status = QKV_ERR_UNSUPPORTED;
        return 1;
    }
    const int64_t few = compare_few_keys(seen->R);
    const struct compare_shape s = { .n = seen->R,
                                     .d = seen->H * seen->E,
                                     .H = seen->H,
                                     .G = seen->G,
                                     .E = seen->E,
                                     .F = seen->F,
                                     .S = seen->R,
                                     .keys = few < w->job->keys ? few : w->job->keys,
                                     .width = w->job->width,
                                     .causal = seen->causal,
                                     .scale = seen->scale };
    const float *const qkv[3] = { seen->q, seen->k, seen->v };
    w->status = add_layer(w->errors, w->job, &s, qkv);
    w->t->layers++;
    w->t->heads = seen->H;
    return w->status != QKV_OK;
}

qkv_status compare_model(struct compare_errors *errors, struct compare_text *t,
                         const struct compare_job *job, qkv_error *err)
{
    char dir[CMD_PATH];
    qkv_model *model = NULL;
    struct tokens tokens = { 0 };
    float *hidden = NULL;
    const struct token_options how = { .truncate = true };
    const char *texts[2] = { t->text, NULL };
    struct observed w = { errors, job, t, QKV_OK };
    const struct qkv_observer observer = { .layer = layer, .user = &w };
    qkv_status status;
    memset(errors, 0, sizeof *errors);
    if ((status = cmd_model_find(dir, err)) || (status = qkv_model_open(&model, dir, NULL, err)))
        goto done;
    const struct qkv_model_info i = qkv_model_info(model);
    if (i.kind == QKV_KIND_ENCODER_DECODER) {
        status = cmd_error(err, QKV_ERR_UNSUPPORTED, dir,
                           "model is an encoder-decoder, expected a model with one stack");
        goto done;
    }
    if ((status = tokens_read(&tokens, &how, dir, model, texts, err))) goto done;
    const int64_t offsets[] = { 0, tokens.length };
    const struct qkv_model_input in = {
        .sequences = 1, .offsets = offsets, .ids = tokens.ids, .types = tokens.types
    };
    snprintf(t->model, sizeof t->model, "%s", i.name ? i.name : dir);
    t->tokens = tokens.length;
    hidden = cmd_alloc(array_count(2, (int64_t[]){ tokens.length, i.width }), sizeof *hidden);
    status = qkv_model_run(model, hidden, &in, &observer, err);
    if (w.status) {
        *err = (qkv_error){ 0 };
        status = cmd_error(err, w.status, dir,
                           "attention of this model has relative positions or a soft cap, expected "
                           "scores without them");
    }
done:
    free(hidden);
    tokens_free(&tokens);
    qkv_model_close(model);
    return status;
}
