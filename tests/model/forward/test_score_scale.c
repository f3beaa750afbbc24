// SPDX-License-Identifier: MIT
// test_score_scale.c: compares runs with a factor of the scores with the formula of attention in
// double, for models of every family; refuses factors that are none.
#include "model/tiny.h"
#include <float.h>

struct scored {
    const char *name;
    float factor;                // of the run
    float scale[QKV_LAYERS_MAX]; // of each layer of the plain run
    int64_t layers, rows;
};

static int record(void *user, const struct qkv_layer_output *s)
{
    struct scored *w = user;
    if (s->layer >= 0) w->scale[w->layers++] = s->scale;
    return 0;
}

// Returns lse of row r and head h by its formula, from the observed queries and keys. *error is the
// bound of the error in float.
static double formula(const struct qkv_layer_output *s, int64_t n, int64_t r, int64_t h,
                      double scale, double *error)
{
    const int64_t i = r - s->q_offsets[n], g = h / (s->H / s->G);
    double score[512], most = -(double)INFINITY, sum = 0, size = 0;
    int64_t seen = 0;
    for (int64_t j = 0; j < s->k_offsets[n + 1] - s->k_offsets[n]; j++) {
        const float *q = s->q + (r * s->H + h) * s->E;
        const float *k = s->k + ((s->k_offsets[n] + j) * s->G + g) * s->E;
        const bool masked = (s->causal && j > i) || (s->left >= 0 && j < i - s->left) ||
                            (s->right >= 0 && !s->causal && j > i + s->right);
        double x = 0, each = 0;
        if (masked) continue;
        CHECK(seen < 512);
        for (int64_t e = 0; e < s->E; e++) {
            x += (double)q[e] * (double)k[e];
            each += fabs((double)q[e] * (double)k[e]);
        }
        x *= scale;
        if (s->softcap > 0) x = (double)s->softcap * tanh(x / (double)s->softcap);
        const int64_t far = j - i < -s->reach ? -s->reach : j - i > s->reach ? s->reach : j - i;
        if (s->relative) {
            const double bias = (double)s->relative[h * (2 * s->reach + 1) + far + s->reach];
            x += bias;
            each += fabs(bias) / scale;
        }
        if (each * scale > size) size = each * scale;
        if (x > most) most = x;
        score[seen++] = x;
    }
    for (int64_t j = 0; j < seen; j++) sum += exp(score[j] - most);
    // E products and sums, the factor, cap and bias; then the sum of `seen` exponentials, each with
    // a few roundings, and the logarithm
    *error = (double)FLT_EPSILON *
             ((double)(s->E + 6) * size + (double)seen + 8 + 2 * fabs(most + log(sum)));
    return seen ? most + log(sum) : -(double)INFINITY;
}

static int compare(void *user, const struct qkv_layer_output *s)
{
    struct scored *w = user;
    if (s->layer < 0) return 0;
    const double scale = (double)w->factor * (double)w->scale[w->layers++];
    if (fabs((double)s->scale / scale - 1) > 2 * (double)FLT_EPSILON)
        fail_msg("%s: scale %g, expected %g", w->name, (double)s->scale, scale);
    for (int64_t n = 0; s->q_offsets[n] < s->R; n++)
        for (int64_t r = s->q_offsets[n]; r < s->q_offsets[n + 1]; r++)
            for (int64_t h = 0; h < s->H; h++, w->rows++) {
                double error;
                const double found = (double)s->lse[h * s->R + r];
                const double want = formula(s, n, r, h, scale, &error);
                if (found == -(double)INFINITY) continue; // a row of padding
                if (!(fabs(found - want) <= error))
                    fail_msg("%s: layer %lld, head %lld, row %lld: lse %.9g, expected %.9g "
                             "with an error of at most %g",
                             w->name, (long long)s->layer, (long long)h, (long long)r, found, want,
                             error);
            }
    return 0;
}

TEST(scores_are_the_products_times_both_scales)
{
    static const float factors[] = { .25f, 1, 3 };
    EACH_TINY(name)
    EACH(factor, factors)
    {
        struct tiny t = open_tiny(*name, QKV_PRECISION_F32);
        struct scored w = { .name = *name, .factor = *factor };
        const struct qkv_observer first = { .layer = record, .user = &w },
                                  second = { .layer = compare, .user = &w };
        const struct qkv_run_options o = { .score_scale = *factor };
        struct qkv_model_input in = *tiny_input(&t), source;
        qkv_error err = { 0 };
        const int64_t n = t.R * t.info.width;
        float *plain = golden_floats(n), *got = golden_floats(n);
        in.lengths = NULL; // padding would be rows without an lse
        if (in.source) {
            source = *in.source;
            source.lengths = NULL;
            in.source = &source;
        }
        CHECK_EQ(qkv_model_run(t.model, plain, &in, &first, &err), QKV_OK);
        w.layers = 0;
        in.options = &o;
        CHECK_EQ(qkv_model_run(t.model, got, &in, &second, &err), QKV_OK);
        CHECK(w.rows > 0);
        CHECK_EQ(!memcmp(got, plain, (size_t)n * sizeof *got), *factor == 1);
        free(plain);
        free(got);
        close_tiny(&t);
    }
}

TEST(a_factor_that_is_none_is_refused)
{
    const float wrong[] = { -1, NAN, INFINITY };
    EACH(factor, wrong)
    {
        struct tiny t = open_tiny("bert", QKV_PRECISION_F32);
        const struct qkv_run_options o = { .score_scale = *factor };
        struct qkv_model_input in = *tiny_input(&t);
        qkv_error err = { 0 };
        in.options = &o;
        CHECK_EQ(qkv_model_run(t.model, NULL, &in, NULL, &err), QKV_ERR_USAGE);
        CHECK(strstr(err.text, "factor of the scores") != NULL);
        close_tiny(&t);
    }
}

CHECK_MAIN(CASE(scores_are_the_products_times_both_scales), CASE(a_factor_that_is_none_is_refused))
