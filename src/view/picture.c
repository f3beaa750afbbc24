// SPDX-License-Identifier: MIT
// picture.c: which view is drawn, and what all of them need: who is on view, colours, names.
#include "view/picture.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    picture_draw *draw;
    bool row; // shows one: chosen where none is named
} views[] = {
    { "heads", picture_heads, false },   { "model", picture_model, false },
    { "neuron", picture_neuron, true },  { "steps", picture_steps, true },
    { "matrix", picture_matrix, false },
};
enum { VIEWS = sizeof views / sizeof *views, LONG = 512 };

const char *qkv_view_picture_name(int i)
{
    return i >= 0 && i < VIEWS ? views[i].name : NULL;
}

// ---- what all share -----------------------------------------------------------------------------
void picture_token(struct sheet *s, const struct qkv_view_token *k, double x, double y, int size,
                   unsigned how, int ink, double width)
{
    struct view_text t = { 0 };
    view_token_text(&t, k, k->special);
    s->failed |= t.failed;
    if (t.at) sheet_cut(s, x, y, size, how, ink, t.at, (size_t)t.used, width);
    view_text_free(&t);
}

void picture_weight(struct sheet *s, double x, double y, int size, unsigned how, int ink, double w,
                    int digits)
{
    struct view_text t = { 0 };
    view_weight(&t, w, digits);
    s->failed |= t.failed;
    if (t.at) sheet_text(s, x, y, size, how, ink, t.at, (size_t)t.used);
    view_text_free(&t);
}

int picture_head_ink(const struct picture *p, int64_t place)
{
    if (p->v->shape.heads <= 16) return SHEET_HEAD + (int)p->st.head[place];
    return place < 8 ? SHEET_HEAD + (int)place : SHEET_INK3;
}
int picture_link_ink(const struct picture *p, int64_t place)
{
    return p->st.lit > 1 ? picture_head_ink(p, place) : SHEET_SOLE;
}

double picture_threshold(const struct view_stack *v, int64_t layer, int64_t row)
{
    const struct view_span s = view_span(v, layer, row);
    return fmin(.95, .5 / (double)qkv_max64(1, s.to - s.from));
}

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}
double picture_scale(float *w, int64_t n)
{
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++)
        if (w[i] == w[i]) w[m++] = w[i];
    if (!m) return 1;
    qsort(w, (size_t)m, sizeof *w, by_size);
    const double s = (double)w[(int64_t)floor(.9985 * (double)(m - 1) + .5)];
    return s > 0 ? s : 1;
}

// ---- who is on view -----------------------------------------------------------------------------
static qkv_status take_view(struct picture *p, const struct qkv_view_options *o, const int64_t *key,
                            bool row, qkv_error *err)
{
    const struct view_shape *shape = &p->v->shape;
    const bool is_long = shape->tokens > LONG || shape->keys > LONG;
    const qkv_status s = view_choose(&p->st, p->v, o, row || is_long, err);
    if (s) return s;
    if (key && (*key < 0 || *key >= shape->keys))
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "no key %" PRId64 ", expected 0 to %" PRId64,
                        *key, shape->keys - 1);
    p->key = key ? *key : -1;
    p->marked = o && o->token;
    p->row = qkv_alloc((size_t)shape->keys, sizeof *p->row);
    p->rows = qkv_alloc((size_t)shape->tokens, sizeof *p->rows);
    p->keys = qkv_alloc((size_t)shape->keys, sizeof *p->keys);
    if (!p->row || !p->rows || !p->keys) return qkv_fail_memory(err, NULL);
    for (int64_t i = 0; i < shape->tokens; i++)
        if (view_shown(p->v, &p->st, i)) p->rows[p->row_count++] = i;
    for (int64_t j = 0; j < shape->keys; j++)
        if (view_key_shown(p->v, &p->st, j)) p->keys[p->key_count++] = j;
    return QKV_OK;
}

static qkv_status find_view(int *out, const struct qkv_view_options *o, qkv_error *err)
{
    *out = 0;
    if (!o || !o->view) return QKV_OK;
    for (int i = 0; i < VIEWS; i++)
        if (!strcmp(views[i].name, o->view)) {
            *out = i;
            return QKV_OK;
        }
    return qkv_fail(err, QKV_ERR_USAGE, NULL,
                    "picture of '%s', expected heads, model, neuron, steps or matrix", o->view);
}

qkv_status qkv_view_picture(const qkv_view *v, const char *path, bool force,
                            const struct qkv_view_options *o, const int64_t *key, qkv_error *err)
{
    struct picture p = { .key = -1 };
    int view;
    if (!v || !path)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "qkv_view_picture, expected a view and a path");
    if (!sheet_takes(path))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "picture, expected a name that ends with .svg or .png, found '%s'", path);
    qkv_status s = find_view(&view, o, err);
    if (!s) s = view_choose_stack(&p.v, v, o, err);
    if (!s) s = take_view(&p, o, key, views[view].row, err);
    if (!s) s = views[view].draw(&p, err);
    if (!s && sheet_failed(&p.sheet)) s = qkv_fail_memory(err, path);
    if (!s) s = sheet_file(&p.sheet, path, force, o ? o->theme : QKV_THEME_AUTO, err);
    sheet_free(&p.sheet);
    qkv_free(p.row);
    qkv_free(p.rows);
    qkv_free(p.keys);
    return s;
}
