// SPDX-License-Identifier: MIT
// compare_views.c: compares two views of the same model: aligns their tokens, and orders the heads
// by how much their weights differ (the Jensen-Shannon divergence of the rows).
#include "view/data/stories.h"
#include "view/data/view_data.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void view_compare_free(qkv_view *v)
{
    for (int64_t t = 0; v->align && t < v->shape.texts; t++) qkv_free(v->align[t]);
    qkv_free(v->align);
    qkv_free(v->moved);
    v->align = NULL;
    v->moved = NULL;
    v->moved_count = 0;
    v->against = NULL;
}

const struct qkv_view_divergence *qkv_view_divergence(const qkv_view *v, int64_t *count)
{
    if (count) *count = v ? v->moved_count : 0;
    return v ? v->moved : NULL;
}

static bool complete(const qkv_view *v)
{
    for (int64_t s = 0; s < v->shape.stacks; s++)
        for (int64_t l = 0; l < v->stack[s].shape.layers; l++)
            if (!v->stack[s].layer[l].filled) return false;
    return true;
}

static qkv_status same_stacks(const qkv_view *v, const qkv_view *other, qkv_error *err)
{
    if (other->shape.stacks != v->shape.stacks || other->shape.texts != v->shape.texts)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "the second view has %" PRId64 " stacks and %" PRId64
                        " texts, expected %" PRId64 " and %" PRId64 " as in the first view",
                        other->shape.stacks, other->shape.texts, v->shape.stacks, v->shape.texts);
    for (int64_t s = 0; s < v->shape.stacks; s++) {
        const struct view_shape *a = &v->stack[s].shape, *b = &other->stack[s].shape;
        if (a->layers != b->layers || a->heads != b->heads || a->row_text != b->row_text ||
            a->key_text != b->key_text)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "stack %s of the second view has %" PRId64 " layers x %" PRId64
                            " heads, expected %" PRId64 " x %" PRId64 " as in the first view",
                            b->name, b->layers, b->heads, a->layers, a->heads);
    }
    if (!complete(v) || !complete(other))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "a layer is missing, expected all layers in both views");
    return QKV_OK;
}

// ---- distances ----------------------------------------------------------------------------------
struct job {
    const struct view_stack *a, *b;
    // for each row and each key of view a, the index of the aligned token of view b
    const int64_t *rows, *keys;
    struct qkv_view_divergence *out; // [L][H]
    char *scratch;                   // [threads][each] struct arrays of each thread
    size_t each;                     // bytes
};

// The arrays of comparing one head; Sa, Sb: numbers of keys.
struct arrays {
    double *p;  // [Sb] weights of a at the keys of b
    float *a;   // [Sa] a row of view a
    float *b;   // [Sb] the aligned row of view b
    bool *seen; // [Sb] marks the keys of b that are aligned with a key of a
};
static void lay_out(struct arrays *m, const struct job *j, struct qkv_arena *a)
{
    const int64_t Sa = j->a->shape.keys, Sb = j->b->shape.keys;
    m->p = qkv_arena_rows(a, 1, Sb, sizeof *m->p);
    m->a = qkv_arena_rows(a, 1, Sa, sizeof *m->a);
    m->b = qkv_arena_rows(a, 1, Sb, sizeof *m->b);
    m->seen = qkv_arena_rows(a, 1, Sb, sizeof *m->seen);
}

static double towards(double p, double m)
{
    return p > 0 ? p * log2(p / m) : 0;
}

// Returns the Jensen-Shannon divergence, in bits, of the rows m->a and m->b of the views.
static double row_bits(const struct job *j, const struct arrays *m)
{
    const int64_t Sa = j->a->shape.keys, Sb = j->b->shape.keys;
    const float *a = m->a, *b = m->b;
    double *p = m->p;
    bool *seen = m->seen;
    double rest_a = 0, rest_b = 0, whole_a = 0, whole_b = 0, bits = 0;
    memset(p, 0, (size_t)Sb * sizeof *p);
    memset(seen, 0, (size_t)Sb * sizeof *seen);
    for (int64_t i = 0; i < Sa; i++) {
        whole_a += a[i];
        if (j->keys[i] < 0)
            rest_a += a[i];
        else
            p[j->keys[i]] += a[i], seen[j->keys[i]] = true;
    }
    for (int64_t i = 0; i < Sb; i++) {
        whole_b += b[i];
        if (!seen[i]) rest_b += b[i];
    }
    if (!isfinite(whole_a) || !isfinite(whole_b)) return NAN;
    // All keys without an aligned key count as one key. Weights that a probe did not store are
    // added to it.
    if (whole_a < 1 && whole_a > 0) rest_a += 1 - whole_a;
    if (whole_b < 1 && whole_b > 0) rest_b += 1 - whole_b;
    for (int64_t i = 0; i < Sb; i++) {
        if (!seen[i]) continue;
        const double q = b[i], mean = (p[i] + q) / 2;
        bits += towards(p[i], mean) + towards(q, mean);
    }
    const double mean = (rest_a + rest_b) / 2;
    bits += towards(rest_a, mean) + towards(rest_b, mean);
    return fmax(0, bits / 2);
}

// Returns the largest change of a weight of row i on an aligned key, times the distance of the two
// tokens; special tokens do not count.
static double largest_change(const struct job *j, int64_t i, const float *a, const float *b)
{
    double most = 0;
    if (j->a->shape.token[i].special) return 0;
    for (int64_t k = 0; k < j->a->shape.keys; k++)
        if (j->keys[k] >= 0 && !j->a->shape.key[k].special)
            most = fmax(most, fabs((double)a[k] - (double)b[j->keys[k]]) *
                                  (double)view_story_distance(j->a, i, k));
    return most;
}

static void measure_head(void *ctx, int64_t task, int thread)
{
    struct job *j = ctx;
    const int64_t H = j->a->shape.heads;
    struct qkv_view_divergence *out = &j->out[task];
    struct qkv_arena arena = { j->scratch + (size_t)thread * j->each, j->each, 0 };
    struct arrays m;
    double sum = 0;
    lay_out(&m, j, &arena);
    for (int64_t i = 0; i < j->a->shape.tokens; i++) {
        if (j->rows[i] < 0) continue;
        view_row(m.a, j->a, task / H, task % H, i);
        view_row(m.b, j->b, task / H, task % H, j->rows[i]);
        const double bits = row_bits(j, &m);
        if (!isfinite(bits)) continue;
        sum += bits;
        out->rows++;
        const double change = largest_change(j, i, m.a, m.b);
        if (change > out->row_change) out->row = i, out->row_change = change;
    }
    out->bits = out->rows ? sum / (double)out->rows : 0;
}

static qkv_status measure_stack(qkv_view *v, const qkv_view *other, int64_t stack,
                                struct qkv_view_divergence *out, qkv_error *err)
{
    const struct view_stack *a = &v->stack[stack], *b = &other->stack[stack];
    const int64_t n = a->shape.layers * a->shape.heads;
    struct job j = { .a = a,
                     .b = b,
                     .rows = v->align[a->shape.row_text],
                     .keys = v->align[a->shape.key_text],
                     .out = out };
    struct qkv_arena count = { .size = SIZE_MAX };
    const int threads = qkv_threads();
    lay_out(&(struct arrays){ 0 }, &j, &count);
    j.each = count.used;
    j.scratch = qkv_alloc((size_t)threads, j.each);
    if (!j.scratch) return qkv_fail_memory(err, NULL);
    for (int64_t i = 0; i < n; i++)
        out[i] = (struct qkv_view_divergence){
            .stack = stack, .layer = i / a->shape.heads, .head = i % a->shape.heads, .row = -1
        };
    qkv_parallel_for_most(n, threads, measure_head, &j);
    qkv_free(j.scratch);
    return QKV_OK;
}

static int farthest_first(const void *a, const void *b)
{
    const struct qkv_view_divergence *x = a, *y = b;
    if (x->bits != y->bits) return x->bits < y->bits ? 1 : -1;
    if (x->stack != y->stack) return x->stack < y->stack ? -1 : 1;
    if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
    return x->head < y->head ? -1 : x->head > y->head;
}

static qkv_status align_all(qkv_view *v, const qkv_view *other, qkv_error *err)
{
    qkv_status status = QKV_OK;
    v->align = qkv_alloc_zero((size_t)v->shape.texts, sizeof *v->align);
    if (!v->align) return qkv_fail_memory(err, NULL);
    for (int64_t t = 0; t < v->shape.texts && !status; t++) {
        v->align[t] = qkv_alloc((size_t)v->shape.text[t].tokens, sizeof **v->align);
        status = v->align[t]
                     ? view_align_tokens(v->align[t], &v->shape.text[t], &other->shape.text[t], err)
                     : qkv_fail_memory(err, NULL);
    }
    return status;
}

qkv_status qkv_view_compare(qkv_view *v, const qkv_view *other, qkv_error *err)
{
    if (!v || !other)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_view_compare: expected two views, found NULL");
    qkv_status status = same_stacks(v, other, err);
    if (status) return status;
    int64_t heads = 0, at = 0;
    view_compare_free(v);
    for (int64_t s = 0; s < v->shape.stacks; s++)
        heads += v->stack[s].shape.layers * v->stack[s].shape.heads;
    status = align_all(v, other, err);
    if (!status) {
        v->moved = qkv_alloc((size_t)heads, sizeof *v->moved);
        if (!v->moved) status = qkv_fail_memory(err, NULL);
    }
    for (int64_t s = 0; s < v->shape.stacks && !status; s++) {
        status = measure_stack(v, other, s, v->moved + at, err);
        at += v->stack[s].shape.layers * v->stack[s].shape.heads;
    }
    if (status) {
        view_compare_free(v);
        return status;
    }
    qsort(v->moved, (size_t)heads, sizeof *v->moved, farthest_first);
    v->moved_count = heads;
    v->against = other;
    return QKV_OK;
}

// ---- views at several steps of a training run --------------------------------------------------
qkv_status qkv_view_training(qkv_view *v, const struct qkv_view_frame *frame, int64_t frames,
                             qkv_error *err)
{
    if (!v || frames < 1 || !frame)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_view_training: invalid arguments, expected a view and its frames");
    qkv_status status = QKV_OK;
    for (int64_t f = 0; f < frames && !status; f++) {
        const qkv_view *other = frame[f].view;
        if (!other)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "the view of frame %" PRId64 " is NULL, expected a view", f);
        if (f && frame[f].step <= frame[f - 1].step)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "frame %" PRId64 ": expected a step above %" PRId64 ", found %" PRId64,
                            f, frame[f - 1].step, frame[f].step);
        status = same_stacks(v, other, err);
        for (int64_t t = 0; t < v->shape.texts && !status; t++)
            if (other->shape.text[t].tokens != v->shape.text[t].tokens)
                status = qkv_fail(err, QKV_ERR_USAGE, NULL,
                                  "frame %" PRId64 ": wrong number of tokens, found %" PRId64
                                  ", expected %" PRId64 " as in the view",
                                  f, other->shape.text[t].tokens, v->shape.text[t].tokens);
    }
    if (status) return status;
    struct view_frame *all = qkv_alloc((size_t)frames, sizeof *all);
    if (!all) return qkv_fail_memory(err, NULL);
    for (int64_t f = 0; f < frames; f++)
        all[f] = (struct view_frame){ frame[f].step, frame[f].loss, frame[f].view };
    qkv_free(v->frame);
    v->frame = all;
    v->frames = frames;
    return QKV_OK;
}
