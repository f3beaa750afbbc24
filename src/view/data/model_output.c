// SPDX-License-Identifier: MIT
// model_output.c: stores the output of the model in a view, and writes sentences about it.
#include "view/data/model_output.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- adding it ---------------------------------------------------------------------------------
static bool copy_bytes(void *to, const void *from, int64_t n, size_t size)
{
    void *at = qkv_alloc((size_t)n + 1, size);
    if (at && from) memcpy(at, from, (size_t)n * size);
    if (at && !from) memset(at, 0, (size_t)n * size);
    *(void **)to = at;
    return at != NULL;
}

static bool copy_units(int32_t **to, const float *from, int64_t n)
{
    *to = qkv_alloc_zero((size_t)n + 1, sizeof **to);
    for (int64_t i = 0; *to && from && i < n; i++) {
        const double x = (double)from[i] * VIEW_OUTPUT_UNIT;
        (*to)[i] = x != x ? 0 : (int32_t)lround(fmax(-2e9, fmin(x, 2e9)));
    }
    return *to != NULL;
}

static char *copy_name(const char *name)
{
    const size_t n = strlen(name);
    char *to = qkv_alloc(n + 1, 1);
    if (to) memcpy(to, name, n + 1);
    return to;
}

static qkv_status check(const qkv_view *v, int64_t stack, const struct qkv_view_output *from,
                        qkv_error *err)
{
    const int64_t cells = from->positions * from->rows * from->top;
    if (stack < 0 || stack >= v->shape.stacks)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "index of a stack out of range, found %" PRId64 ", expected 0 to %" PRId64,
                        stack, v->shape.stacks - 1);
    if (from->positions < 1 || from->rows < 1 || from->top < 1 || from->names < 1 ||
        from->positions > 1 << 20 || from->rows > 1 << 20 || from->top > 1 << 20 ||
        cells > 1 << 24 || !from->name || !from->entry || !from->value)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "output of the model has a size out of range or an array is NULL");
    for (int64_t i = 0; i < cells; i++)
        if (from->entry[i] < 0 || from->entry[i] >= from->names)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "entry %" PRId64
                            " of the output is out of range, expected 0 to %" PRId64
                            ", found %" PRId32,
                            i, from->names - 1, from->entry[i]);
    const int64_t T = v->stack[stack].shape.tokens;
    for (int64_t p = 0; p < from->positions; p++) {
        if (from->at &&
            (from->at[p] < 0 || from->at[p] >= T || (p && from->at[p] <= from->at[p - 1])))
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "positions of the output must ascend from 0 to %" PRId64
                            ", found %" PRId64,
                            T - 1, from->at[p]);
        if (from->target && from->target[p] >= from->names)
            return qkv_fail(err, QKV_ERR_USAGE, NULL, "target %" PRId64 " of the output is no name",
                            p);
    }
    return QKV_OK;
}

static bool fill(struct view_output *o, const struct qkv_view_output *from)
{
    const int64_t P = o->positions, rows = P * o->rows, cells = rows * o->top;
    bool ok = copy_bytes(&o->at, from->at, P, sizeof *o->at) &&
              copy_bytes(&o->entry, from->entry, cells, sizeof *o->entry) &&
              copy_bytes(&o->target, from->target, P, sizeof *o->target) &&
              copy_bytes(&o->target_rank, from->target ? from->target_rank : NULL, rows,
                         sizeof *o->target_rank) &&
              copy_units(&o->value, from->value, cells) &&
              copy_units(&o->target_value, from->target ? from->target_value : NULL, rows);
    for (int64_t p = 0; ok && !from->target && p < P; p++) o->target[p] = -1;
    o->name = ok ? qkv_alloc_zero((size_t)from->names, sizeof *o->name) : NULL;
    for (int64_t i = 0; o->name && i < from->names; i++)
        ok = ok && (o->name[i] = copy_name(from->name[i])) != NULL;
    o->detail = copy_name(from->detail ? from->detail : "");
    return ok && o->name && o->detail;
}

qkv_status qkv_view_output_add(qkv_view *v, int64_t stack, const struct qkv_view_output *from,
                               qkv_error *err)
{
    if (!v || !from)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_view_output_add: expected a view and an output, found NULL");
    qkv_status status = check(v, stack, from, err);
    if (status) return status;
    struct view_output *o = qkv_alloc_zero(1, sizeof *o);
    if (!o) return qkv_fail_memory(err, NULL);
    *o = (struct view_output){ .kind = from->kind,
                               .stack = stack,
                               .positions = from->positions,
                               .rows = from->rows,
                               .top = from->top,
                               .names = from->names,
                               .all = qkv_max64(from->all, from->positions) };
    if (!fill(o, from)) {
        view_output_free(o);
        return qkv_fail_memory(err, NULL);
    }
    view_output_free(v->output);
    v->output = o;
    for (int64_t s = 0; s < v->shape.stacks; s++) {
        const struct view_shape *k = &v->stack[s].shape, *own = &v->stack[stack].shape;
        v->stack[s].output = o;
        v->stack[s].output_stack = &v->stack[stack];
        v->stack[s].output_rows = k->row_text == own->row_text ||
                                  (k->row_text && own->row_text && k->tokens == own->tokens);
    }
    return QKV_OK;
}

void view_output_free(struct view_output *o)
{
    if (!o) return;
    for (int64_t i = 0; o->name && i < o->names; i++) qkv_free(o->name[i]);
    qkv_free(o->name);
    qkv_free(o->at);
    qkv_free(o->entry);
    qkv_free(o->value);
    qkv_free(o->target);
    qkv_free(o->target_value);
    qkv_free(o->target_rank);
    qkv_free(o->detail);
    qkv_free(o);
}

// ---- what is shown -----------------------------------------------------------------------------
bool view_output_is_lens(const struct view_output *o)
{
    return o->kind == QKV_VIEW_OUTPUT_NEXT || o->kind == QKV_VIEW_OUTPUT_WRITTEN ||
           o->kind == QKV_VIEW_OUTPUT_MASKED;
}

bool view_output_is_list(const struct view_output *o)
{
    return o->kind == QKV_VIEW_OUTPUT_SHARES || o->kind == QKV_VIEW_OUTPUT_LABELS;
}

bool view_output_maps(const struct view_stack *v)
{
    return v->output && v->output_rows;
}

int64_t view_output_place(const struct view_stack *v, const struct view_selection *st, bool told)
{
    const struct view_output *o = v->output;
    for (int64_t p = 0; p < o->positions && told && view_output_maps(v); p++)
        if (o->at[p] == st->token) return p;
    if (o->kind == QKV_VIEW_OUTPUT_NEXT) return o->positions - 1;
    for (int64_t p = 0; p < o->positions && o->kind == QKV_VIEW_OUTPUT_MASKED; p++)
        if (o->target[p] < 0) return p;
    return 0;
}

qkv_status view_output_check(const struct view_stack *v, qkv_error *err)
{
    return v->output ? QKV_OK
                     : qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL,
                                "the view has no output of a model, expected a view of a model "
                                "with an output head, or of an embedder whose vectors are sums "
                                "over tokens");
}

void view_output_number(struct view_text *t, int32_t units)
{
    const int32_t size = units < 0 ? -units : units, thousandths = (size + 50) / 100;
    if (units < 0 && thousandths) view_say(t, "\xe2\x88\x92");
    if (thousandths < 1000)
        view_say(t, ".%03d", (int)thousandths);
    else
        view_say(t, "%d.%03d", (int)(thousandths / 1000), (int)(thousandths % 1000));
}

void view_output_row(struct view_text *t, const struct view_output *o, int64_t l)
{
    if (l + 1 == o->rows)
        view_say(t, "output");
    else if (!l)
        view_say(t, "embeddings");
    else
        view_say(t, "layer %" PRId64, l - 1);
}

void view_output_name(struct view_text *t, const struct view_stack *v, int64_t place)
{
    const struct view_output *o = v->output;
    view_quote_row(t, v->output_stack, o->at[place]);
}

int64_t view_output_list(int64_t *to, int64_t most, const struct view_output *o, int64_t *rest)
{
    const int64_t n = o->positions * o->top;
    int64_t count = 0;
    *rest = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t larger = 0; // entries that precede entry i by size, then by index
        for (int64_t j = 0; j < n && n > most; j++)
            larger += abs(o->value[j]) > abs(o->value[i]) ||
                      (abs(o->value[j]) == abs(o->value[i]) && j < i);
        if (larger < most)
            to[count++] = i;
        else
            *rest += o->value[i];
    }
    return count;
}

// ---- sentences ---------------------------------------------------------------------------------
static void say_entry(struct view_text *t, const struct view_output *o, int64_t cell)
{
    const char *name = o->name[o->entry[cell]];
    view_say(t, "“");
    view_plain_text(t, name, strlen(name), 160);
    view_say(t, "” ");
    view_output_number(t, o->value[cell]);
}

// Writes from which layer on the first token of the output is first or, if that is the
// output alone, which token is first before.
static void say_settled(struct view_text *t, const struct view_output *o, int64_t place)
{
    const int32_t first = o->entry[view_output_cell(o, place, o->rows - 1)];
    int64_t l = o->rows - 1;
    while (l > 0 && o->entry[view_output_cell(o, place, l - 1)] == first) l--;
    if (l + 1 == o->rows) {
        const char *before = o->name[o->entry[view_output_cell(o, place, l - 1)]];
        view_say(t, "; after ");
        if (l == 1) view_say(t, "the ");
        view_output_row(t, o, l - 1);
        view_say(t, " “");
        view_plain_text(t, before, strlen(before), 160);
        view_say(t, "” is first");
        return;
    }
    view_say(t, "; it is first from the ");
    if (l) view_say(t, "output of ");
    view_output_row(t, o, l);
    view_say(t, " on");
}

static void say_target(struct view_text *t, const struct view_output *o, int64_t place)
{
    const int64_t row = place * o->rows + o->rows - 1;
    if (o->target[place] < 0 || !o->target_rank[row]) return;
    const char *name = o->name[o->target[place]];
    view_say(t, o->kind == QKV_VIEW_OUTPUT_MASKED ? ". The text has “"
                                                  : ". The text continues with “");
    view_plain_text(t, name, strlen(name), 160);
    view_say(t, "” ");
    view_output_number(t, o->target_value[row]);
    view_say(t, ", place %" PRId64, o->target_rank[row] + 1);
}

void view_output_sentence(struct view_text *t, const struct view_stack *v, int64_t place)
{
    const struct view_output *o = v->output;
    int64_t best = view_output_cell(o, place, o->rows - 1);
    switch (o->kind) {
    case QKV_VIEW_OUTPUT_NEXT: view_say(t, "The most likely token after "); break;
    case QKV_VIEW_OUTPUT_WRITTEN:
        view_say(t, "The most likely token of the step that writes ");
        break;
    case QKV_VIEW_OUTPUT_MASKED: view_say(t, "The most likely token at the place of "); break;
    case QKV_VIEW_OUTPUT_TOKEN_LABELS: view_say(t, "The most likely label of "); break;
    case QKV_VIEW_OUTPUT_LABELS:
        view_say(t, "The most likely label of the text is ");
        say_entry(t, o, best);
        view_say(t, ".");
        return;
    case QKV_VIEW_OUTPUT_SHARES:
        for (int64_t i = 0; i < o->positions * o->top; i++)
            if (o->value[i] > o->value[best]) best = i;
        view_output_name(t, v, best);
        view_say(t, " has the largest share of the vector of the text: ");
        view_output_number(t, o->value[best]);
        view_say(t, "; an equal share would be ");
        view_output_number(t, (int32_t)(VIEW_OUTPUT_UNIT / o->positions));
        view_say(t, ".");
        return;
    }
    view_output_name(t, v, place);
    view_say(t, " is ");
    say_entry(t, o, best);
    if (o->rows > 1) say_settled(t, o, place);
    if (view_output_is_lens(o)) say_target(t, o, place);
    view_say(t, ".");
}
