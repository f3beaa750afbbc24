// SPDX-License-Identifier: MIT
// residual.c: computes, for each token, the norm of the residual stream and its change by each
// sublayer:
//   d = after - before;   added = |d|;   cosine = d . before / (|d| |before|)
//   |after|^2 = |before|^2 + 2 cosine |d| |before| + |d|^2
// `before` and `after` are the stream before and after the sublayer; in a post-norm model `after`
// is the output of the norm, so d is not the output of the sublayer alone. Only the norms before
// each layer and after the last layer are stored; the norms between sublayers follow from the
// formula.
#include "view/data/residual.h"
#include <inttypes.h>
#include <math.h>

const char *const view_sublayer_names[VIEW_SUBLAYERS] = { "attention", "cross-attention",
                                                          "feed-forward" };
static const char *const arrays[VIEW_SUBLAYERS] = { "residual.attention", "residual.cross",
                                                    "residual.feedforward" };
enum { COLUMNS = 2 };

// ---- computing the numbers from hidden states --------------------------------------------------
static double norm_of(const float *x, int64_t D)
{
    double sum = 0;
    for (int64_t e = 0; e < D; e++) sum += (double)x[e] * (double)x[e];
    return sqrt(sum);
}

static void measure_row(float out[COLUMNS], const float *before, const float *after, int64_t D)
{
    double squares = 0, product = 0;
    for (int64_t e = 0; e < D; e++) {
        const double d = (double)after[e] - (double)before[e];
        squares += d * d;
        product += d * (double)before[e];
    }
    const double lengths = sqrt(squares) * norm_of(before, D);
    out[0] = (float)sqrt(squares);
    out[1] = lengths == 0 ? 0 : (float)(product / lengths);
}

static bool take_sizes(struct view_stack *v, const char *name, int64_t layer, const float *rows)
{
    float *to = view_numbers_add(v, name, layer, 1);
    for (int64_t t = 0; to && t < v->shape.tokens; t++)
        to[t] = (float)norm_of(rows + t * v->shape.width, v->shape.width);
    return to != NULL;
}

static qkv_status take_layer(struct view_stack *v, int64_t layer, const float *before,
                             const float *const after[VIEW_SUBLAYERS], qkv_error *err)
{
    const int64_t T = v->shape.tokens, D = v->shape.width;
    bool ok = take_sizes(v, "residual.before", layer, before);
    for (int k = 0; ok && k < VIEW_SUBLAYERS; k++) {
        if (!after[k]) continue;
        float *to = view_numbers_add(v, arrays[k], layer, COLUMNS);
        for (int64_t t = 0; to && t < T; t++)
            measure_row(to + t * COLUMNS, before + t * D, after[k] + t * D, D);
        ok = to != NULL;
        before = after[k];
    }
    if (ok && layer + 1 == v->shape.layers) ok = take_sizes(v, "residual.after", layer, before);
    return ok ? QKV_OK : qkv_fail_memory(err, NULL);
}

qkv_status qkv_view_residual(qkv_view *v, int64_t stack, int64_t layer, const float *before,
                             const float *const after[3], qkv_error *err)
{
    if (!v || !before || !after)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_view_residual: expected a view and rows of a layer, found NULL");
    if (stack < 0 || stack >= v->shape.stacks)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "index of a stack out of range, found %lld, expected 0 to %lld",
                        (long long)stack, (long long)v->shape.stacks - 1);
    struct view_stack *k = &v->stack[stack];
    if (layer < 0 || layer >= k->shape.layers)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "index of a layer out of range, found %lld, expected 0 to %lld",
                        (long long)layer, (long long)k->shape.layers - 1);
    if (!k->shape.width)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "stack %lld has the width 0, expected the width of its residual stream",
                        (long long)stack);
    return take_layer(k, layer, before, after, err);
}

// ---- means over tokens -------------------------------------------------------------------------
struct view_residual view_residual_layer(const struct view_stack *v, int64_t layer)
{
    struct view_residual r = { .before = view_numbers_find(v, "residual.before", layer),
                               .last = -1 };
    for (int k = 0; k < VIEW_SUBLAYERS; k++) {
        r.sublayer[k] = view_numbers_find(v, arrays[k], layer);
        if (r.sublayer[k]) r.last = k;
    }
    r.after = layer + 1 < v->shape.layers ? view_numbers_find(v, "residual.before", layer + 1)
                                          : view_numbers_find(v, "residual.after", layer);
    return r;
}

int view_residual_sublayers(const struct view_stack *v, int out[VIEW_SUBLAYERS])
{
    int n = 0;
    for (int k = 0; k < VIEW_SUBLAYERS; k++) {
        bool any = false;
        for (int64_t l = 0; l < v->shape.layers && !any; l++)
            any = view_numbers_find(v, arrays[k], l) != NULL;
        if (any) out[n++] = k;
    }
    return n;
}

struct view_added view_residual_token(const struct view_residual *r, int sublayer, int64_t token)
{
    struct view_added a = { .after = (double)r->before[token] };
    for (int k = 0; k <= sublayer; k++) {
        if (!r->sublayer[k]) continue;
        a.before = a.after;
        a.added = (double)r->sublayer[k][token * COLUMNS];
        a.cosine = (double)r->sublayer[k][token * COLUMNS + 1];
        const double square =
            a.before * a.before + 2 * a.cosine * a.added * a.before + a.added * a.added;
        a.after = square < 0 ? 0 : sqrt(square);
    }
    if (sublayer == r->last && r->after) a.after = (double)r->after[token];
    return a;
}

struct view_added view_residual_mean(const struct view_residual *r, int sublayer,
                                     const int64_t *rows, int64_t n)
{
    struct view_added mean = { 0 };
    for (int64_t i = 0; i < n; i++) {
        const struct view_added a = view_residual_token(r, sublayer, rows[i]);
        mean.before += a.before / (double)n;
        mean.added += a.added / (double)n;
        mean.cosine += a.cosine / (double)n;
        mean.after += a.after / (double)n;
    }
    return mean;
}

double view_residual_share(const struct view_added *a)
{
    const double share = a->before > 0 ? a->added / a->before : 0;
    return a->cosine < 0 ? -share : share;
}

double view_residual_tone(double share)
{
    return copysign(fmin(1, pow(fabs(share), .7)), share);
}

qkv_status view_residual_check(const struct view_stack *v, qkv_error *err)
{
    for (int64_t l = 0; l < v->shape.layers; l++)
        if (!view_numbers_find(v, "residual.before", l))
            return qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL,
                            "the residual stream of layer %" PRId64
                            " of \"%s\" is not in the view, expected a view of a model's run and a "
                            "stack with a residual stream",
                            l, v->shape.name);
    return QKV_OK;
}

// ---- the sentence -------------------------------------------------------------------------------
void view_residual_sentence(struct view_text *t, const struct view_stack *v, const int64_t *rows,
                            int64_t n)
{
    struct view_added first = { 0 }, last = { 0 }, most = { .added = -1 };
    int64_t layer = 0;
    int what = 0;
    bool any = false;
    for (int64_t l = 0; l < v->shape.layers; l++) {
        const struct view_residual r = view_residual_layer(v, l);
        for (int k = 0; k < VIEW_SUBLAYERS; k++) {
            if (!r.sublayer[k]) continue;
            last = view_residual_mean(&r, k, rows, n);
            if (!any) first = last;
            any = true;
            if (!(last.added > most.added)) continue;
            most = last;
            layer = l;
            what = k;
        }
    }
    if (most.added < 0) most.added = NAN;
    if (n == 1) {
        view_say(t, "The residual stream of ");
        view_quote_row(t, v, rows[0]);
    } else {
        view_say(t, "On average over ");
        view_count(t, n);
        view_say(t, " tokens the residual stream");
    }
    view_say(t, " goes from norm ");
    view_number(t, first.before, 2);
    view_say(t, " to ");
    view_number(t, last.after, 2);
    view_say(t, "; the largest change, by %s in layer %" PRId64 ", has the norm ",
             view_sublayer_names[what], layer);
    view_number(t, most.added, 2);
    view_say(t, " (cosine ");
    view_signed(t, most.cosine, 2);
    view_say(t, ").");
}
