// SPDX-License-Identifier: MIT
// picture.c: draws the view that the options name, and contains the functions that all pictures
// share: which tokens are shown, colours, and names.
#include "view/picture/picture_internal.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The views of view.def that can be drawn as a picture.
#define PICTURE_WHOLE(name, question) { #name, question, picture_##name, false },
#define PICTURE_ROW(name, question)   { #name, question, picture_##name, true },
#define PICTURE_NONE(name, question)
#define QKV_VIEW(name, key, picture, terminal, needs, question) PICTURE_##picture(name, question)
static const struct {
    const char *name, *question;
    picture_draw *draw;
    bool row; // true: the picture shows one query, which is chosen if the options name none
} views[] = {
#include <qkv/view.def>
};
#undef QKV_VIEW
enum { VIEWS = sizeof views / sizeof *views, LONG = 512 };

const char *qkv_view_picture_name(int i)
{
    return i >= 0 && i < VIEWS ? views[i].name : NULL;
}

// ---- shared functions ---------------------------------------------------------------------------
void picture_name(struct canvas *s, const struct view_stack *v, int64_t index, bool key, double x,
                  double y, int size, unsigned how, int color, double width)
{
    struct view_text t = { 0 };
    (key ? view_name_key : view_name_row)(&t, v, index);
    s->failed |= t.failed;
    if (t.at) canvas_cut(s, x, y, size, how, color, t.at, (size_t)t.used, width);
    view_text_free(&t);
}

void picture_weight(struct canvas *s, double x, double y, int size, unsigned how, int color,
                    double w, int digits)
{
    struct view_text t = { 0 };
    view_weight(&t, w, digits);
    s->failed |= t.failed;
    if (t.at) canvas_text(s, x, y, size, how, color, t.at, (size_t)t.used);
    view_text_free(&t);
}

double picture_padding(struct picture *p, double x, double y)
{
    struct view_text t = { 0 };
    const int64_t n = qkv_max64(p->row_padding, p->key_padding);
    if (!n) return y;
    view_say(&t,
             "%" PRId64 " padding token%s masked and not drawn: the other numbers are the same "
             "without padding.",
             n, n == 1 ? " is" : "s are");
    p->canvas.failed |= t.failed;
    if (t.at)
        y = canvas_fold(&p->canvas, x, y, p->canvas.width - x - p->margin, 11, 0, PALETTE_TEXT3,
                        t.at, 15);
    view_text_free(&t);
    return y;
}

int picture_head_color(const struct picture *p, int64_t place)
{
    static const int few[] = { 0, 1, 8, 9 }; // colours of up to four heads, in their order
    if (p->st.selected <= 4 && place < 4) return PALETTE_HEAD + few[place];
    if (p->v->shape.heads <= 16) return PALETTE_HEAD + (int)p->st.head[place];
    return place < 8 ? PALETTE_HEAD + (int)place : PALETTE_TEXT3;
}
int picture_link_color(const struct picture *p, int64_t place)
{
    return p->st.selected > 1 ? picture_head_color(p, place) : PALETTE_SOLE;
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

// ---- the rows and keys that are shown ----------------------------------------------------------
static qkv_status take_view(struct picture *p, const struct qkv_view_options *o, const int64_t *key,
                            bool row, qkv_error *err)
{
    const struct view_shape *shape = &p->v->shape;
    const bool is_long = shape->tokens > LONG || shape->keys > LONG;
    const qkv_status status = view_select(&p->st, p->v, o, row || is_long, err);
    if (status) return status;
    if (key && (*key < 0 || *key >= shape->keys))
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "unknown key %" PRId64 ", expected 0 to %" PRId64,
                        *key, shape->keys - 1);
    p->key = key ? *key : -1;
    p->marked = p->st.told;
    p->row = qkv_alloc_zero((size_t)(shape->keys + shape->key_padding), sizeof *p->row);
    p->rows = qkv_alloc((size_t)(shape->tokens + shape->row_padding), sizeof *p->rows);
    p->keys = qkv_alloc((size_t)(shape->keys + shape->key_padding), sizeof *p->keys);
    if (!p->row || !p->rows || !p->keys) return qkv_fail_memory(err, NULL);
    for (int64_t i = 0; i < shape->tokens; i++)
        if (view_shown(p->v, &p->st, i)) p->rows[p->row_count++] = i;
    for (int64_t j = 0; j < shape->keys; j++)
        if (view_key_shown(p->v, &p->st, j)) p->keys[p->key_count++] = j;
    p->row_padding = view_padding_shown(&p->st, shape->row_padding);
    p->key_padding = view_padding_shown(&p->st, shape->key_padding);
    for (int64_t i = 0; i < p->row_padding; i++) p->rows[p->row_count + i] = shape->tokens + i;
    for (int64_t j = 0; j < p->key_padding; j++) p->keys[p->key_count + j] = shape->keys + j;
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
    char names[200] = "";
    for (int i = 0; i < VIEWS; i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", views[i].name);
    }
    return qkv_fail(err, QKV_ERR_USAGE, NULL, "view '%s' has no picture, expected one of %s",
                    o->view, names);
}

// Sets the widths of a picture. Both printed widths have .21 mm per unit, so that a text of size 11
// has 6.5 points.
static void set_size(struct picture *p, enum qkv_view_size size)
{
    enum { MARGIN = 24, MARGIN_PRINTED = 10, COLUMN = 400, PAGE = 828 };
    const double width = size == QKV_SIZE_COLUMN ? COLUMN : size == QKV_SIZE_PAGE ? PAGE : 0;
    p->margin = width > 0 ? MARGIN_PRINTED : MARGIN;
    p->wide = width > 0 ? width - 2 * MARGIN_PRINTED : 0;
    p->column = size == QKV_SIZE_COLUMN;
    p->canvas.mm = size == QKV_SIZE_COLUMN ? 84 : size == QKV_SIZE_PAGE ? 174 : 0;
}

qkv_status qkv_view_picture(const qkv_view *v, const char *path, bool force,
                            const struct qkv_view_options *o, const int64_t *key, qkv_error *err)
{
    struct picture p = { .key = -1 };
    int view;
    if (!v || !path)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_view_picture: expected a view and a path, found NULL");
    if (!canvas_is_picture_name(path))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "the picture has an unknown format, expected a name that ends with .svg or "
                        ".png, found '%s'",
                        path);
    canvas_init(&p.canvas, path);
    p.canvas.plain = o && o->plain;
    set_size(&p, o ? o->size : QKV_SIZE_FREE);
    qkv_status status = find_view(&view, o, err);
    if (!status) p.question = views[view].question;
    p.view = v;
    if (!status) status = view_select_stack(&p.v, v, o, err);
    if (!status) status = take_view(&p, o, key, views[view].row, err);
    if (!status) status = views[view].draw(&p, err);
    if (!status && canvas_failed(&p.canvas)) status = qkv_fail_memory(err, path);
    if (!status) status = canvas_file(&p.canvas, path, force, o ? o->theme : QKV_THEME_AUTO, err);
    canvas_free(&p.canvas);
    qkv_free(p.row);
    qkv_free(p.rows);
    qkv_free(p.keys);
    return status;
}
