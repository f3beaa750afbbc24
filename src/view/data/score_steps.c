// SPDX-License-Identifier: MIT
// score_steps.c: computes the scores of one query step by step, from the queries and the keys of
// its layer.
#include "view/data/score_steps.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { OWN_LINES = 64, KEPT_LINES = 24 };

void score_free(struct score *s)
{
    qkv_free(s->dot);
    qkv_free(s->bias);
    qkv_free(s->w);
    qkv_free(s->bare);
    s->dot = s->bias = s->w = s->bare = NULL;
}

qkv_status score_of(struct score *s, const struct view_stack *v, int64_t layer, int64_t head,
                    int64_t row, qkv_error *err)
{
    const struct view_layer *l = &v->layer[layer];
    *s = (struct score){ .v = v, .layer = layer, .head = head, .row = row };
    s->E = v->shape.head_width;
    s->S = v->shape.keys;
    if (!l->q || !l->kt || s->E < 1)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL,
                        "the queries and keys of layer %" PRId64
                        " are not in the view, so that a score cannot be shown in steps",
                        layer);
    s->q = view_q(v, layer, head) + row * s->E;
    s->kt = view_kt(v, layer, head);
    s->F = l->v ? v->shape.value_width : 0;
    const int64_t group = head / (v->shape.heads / v->shape.kv_heads);
    s->value = l->v ? l->v + group * s->S * s->F : NULL;
    s->own = 1 / (double)l->scale;
    s->softcap = (double)l->softcap;
    s->span = view_span(v, layer, row);
    double **const arrays[] = { &s->dot, &s->bias, &s->w, &s->bare };
    float *given = qkv_alloc((size_t)s->S, sizeof *given);
    bool failed = !given;
    for (int i = 0; i < 4; i++) {
        *arrays[i] = qkv_alloc_zero((size_t)s->S, sizeof **arrays[i]);
        failed |= !*arrays[i];
    }
    if (failed) {
        qkv_free(given);
        score_free(s);
        return qkv_fail_memory(err, NULL);
    }
    for (int64_t j = 0; j < s->S; j++) {
        for (int64_t e = 0; e < s->E; e++) s->dot[j] += (double)s->q[e] * score_k(s, j, e);
        const int64_t by = qkv_max64(-l->reach, qkv_min64(l->reach, j - row));
        if (l->relative)
            s->bias[j] += (double)l->relative[head * (2 * l->reach + 1) + l->reach + by];
        if (l->alibi) s->bias[j] -= (double)l->alibi[head] * fabs((double)(j - row));
        s->biased |= s->bias[j] != 0;
    }
    view_row(given, v, layer, head, row);
    for (int64_t j = 0; j < s->S; j++) s->w[j] = (double)given[j];
    score_softmax(s->bare, s, 1, NULL);
    qkv_free(given);
    return QKV_OK;
}

double score_at(const struct score *s, int64_t key, double by)
{
    const double x = s->dot[key] / by;
    return (s->softcap > 0 ? s->softcap * tanh(x / s->softcap) : x) + s->bias[key];
}

double score_softmax(double *w, const struct score *s, double by, double *gradient)
{
    double top = -INFINITY, sum = 0, entropy = 0, left = 0;
    for (int64_t j = 0; j < s->S; j++) w[j] = 0;
    for (int64_t j = s->span.from; j < s->span.to; j++) top = fmax(top, w[j] = score_at(s, j, by));
    for (int64_t j = s->span.from; j < s->span.to; j++) sum += w[j] = exp(w[j] - top);
    for (int64_t j = s->span.from; j < s->span.to; j++) {
        w[j] /= sum;
        left += w[j] * (1 - w[j]);
        if (w[j] > 0) entropy -= w[j] * log(w[j]);
    }
    if (gradient) *gradient = left;
    return s->span.to > s->span.from ? exp(entropy) : 0;
}

double score_top(double *sum, const struct score *s)
{
    double top = -INFINITY;
    *sum = 0;
    for (int64_t j = s->span.from; j < s->span.to; j++) top = fmax(top, score_at(s, j, s->own));
    for (int64_t j = s->span.from; j < s->span.to; j++) *sum += exp(score_at(s, j, s->own) - top);
    return top;
}

void score_say_softmax(struct view_text *t, const struct score *s, int64_t key, double top,
                       double sum)
{
    view_say(t, "exp(");
    view_signed(t, score_at(s, key, s->own), 2);
    view_say(t, top < 0 ? " + " : " − ");
    view_number(t, fabs(top), 2);
    view_say(t, ") / ");
    view_number(t, sum, 2);
    view_say(t, " = ");
    view_weight(t, s->w[key], 3);
}

void score_root(struct view_text *t, const struct score *s)
{
    if (fabs(s->own - sqrt((double)s->E)) < 1e-3 * s->own)
        view_say(t, "√%" PRId64, s->E);
    else
        view_number(t, s->own, 2);
}

void score_say_question(struct view_text *t, const struct score *s, int64_t key, const char *before)
{
    view_say(t, "%s", before);
    view_quote_row(t, s->v, s->row);
    view_say(t, " attend to ");
    view_quote_key(t, s->v, key);
    view_say(t, "?");
}

void score_say_sum(struct view_text *t, const struct score *s, int64_t key, bool steps)
{
    const bool masked = score_masked(s, key);
    view_say(t, "In layer %" PRId64 ", head %" PRId64 ", the %" PRId64 " products sum to ",
             s->layer, s->head, s->E);
    view_signed(t, s->dot[key], 2);
    if (steps && masked) view_say(t, ", but the key is masked: its weight is 0");
    if (steps && !masked) {
        view_say(t, "; divided by ");
        score_root(t, s);
        if (s->biased) view_say(t, " plus the bias");
        view_say(t, " this is ");
        view_signed(t, score_at(s, key, s->own), 2);
    }
    if (!masked) {
        view_say(t, ", and the softmax weight is ");
        view_weight(t, s->w[key], 3);
    }
    view_say(t, ".");
}

// ---- lines --------------------------------------------------------------------------------------
// Returns true if a key has a line of its own in the list of keys, where less important keys are
// folded.
static bool own_line(const struct score *s, int64_t key, int64_t chosen, double least,
                     int64_t hidden)
{
    if (key == chosen) return true;
    if (!score_masked(s, key)) return s->w[key] >= least;
    const int64_t before = key < s->span.from ? key : key - (s->span.to - s->span.from);
    return before < (hidden <= 4 ? 4 : 2); // show only the first masked keys, as examples
}

// Returns the smallest weight for which a key has a line of its own if there are too many keys: the
// KEPT_LINES-th largest weight.
static double least_weight(const struct score *s)
{
    double above = INFINITY;
    if (s->span.to - s->span.from <= OWN_LINES) return -1;
    for (int k = 0; k < KEPT_LINES; k++) {
        double next = -1;
        for (int64_t j = s->span.from; j < s->span.to; j++)
            if (s->w[j] < above && s->w[j] > next) next = s->w[j];
        above = next;
    }
    return above;
}

int score_lines(struct score_line out[SCORE_LINES], const struct score *s, int64_t chosen)
{
    const double least = least_weight(s);
    const int64_t hidden = s->S - (s->span.to - s->span.from);
    int n = 0;
    for (int64_t j = 0; j < s->S && n < SCORE_LINES - 1; j++) {
        const bool masked = score_masked(s, j);
        if (own_line(s, j, chosen, least, hidden)) {
            out[n++] = (struct score_line){ j, j, 1, s->w[j], masked };
            continue;
        }
        if (!n || out[n - 1].key >= 0 || out[n - 1].masked != masked)
            out[n++] = (struct score_line){ -1, j, 0, 0, masked };
        out[n - 1].n++;
        out[n - 1].w += s->w[j];
    }
    for (int i = 0; i < n; i++) // one key takes no more space than its fold
        if (out[i].n == 1) out[i].key = out[i].from;
    return n;
}
