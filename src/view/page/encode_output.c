// SPDX-License-Identifier: MIT
// encode_output.c: writes the output of the model as JSON, for the description of a page.
#include "view/data/model_output.h"
#include "view/page/page_internal.h"
#include <inttypes.h>
#include <string.h>

static void say_list(struct view_text *t, const char *name, const int32_t *x, int64_t n)
{
    view_say(t, ",\"%s\":[", name);
    for (int64_t i = 0; i < n; i++) view_say(t, "%s%" PRId32, i ? "," : "", x[i]);
    view_put(t, "]", 1);
}

static void say_long_list(struct view_text *t, const char *name, const int64_t *x, int64_t n)
{
    view_say(t, ",\"%s\":[", name);
    for (int64_t i = 0; i < n; i++) view_say(t, "%s%" PRId64, i ? "," : "", x[i]);
    view_put(t, "]", 1);
}

void view_page_output(struct view_text *t, const qkv_view *v)
{
    static const char *const kinds[] = { "next",   "written", "masked",
                                         "shares", "labels",  "token labels" };
    const struct view_output *o = v->output;
    if (!o) return;
    const int64_t P = o->positions, rows = P * o->rows, cells = rows * o->top;
    view_say(t, ",\n\"output\":{\"kind\":\"%s\",\"stacks\":[", kinds[o->kind]);
    bool any = false;
    for (int64_t s = 0; s < v->shape.stacks; s++) {
        if (!v->stack[s].output_rows) continue;
        view_say(t, "%s%" PRId64, any ? "," : "", s);
        any = true;
    }
    view_say(t,
             "],\"stack\":%" PRId64 ",\"rows\":%" PRId64 ",\"top\":%" PRId64 ",\"all\":%" PRId64
             ",\"detail\":",
             o->stack, o->rows, o->top, o->all);
    view_json_text(t, o->detail, strlen(o->detail));
    say_long_list(t, "at", o->at, P);
    view_say(t, ",\"names\":[");
    for (int64_t i = 0; i < o->names; i++) {
        if (i) view_put(t, ",", 1);
        view_json_text(t, o->name[i], strlen(o->name[i]));
    }
    view_put(t, "]", 1);
    if (o->kind != QKV_VIEW_OUTPUT_SHARES) say_list(t, "entries", o->entry, cells);
    say_list(t, "values", o->value, cells);
    if (!view_output_is_lens(o)) {
        view_put(t, "}", 1);
        return;
    }
    say_list(t, "targets", o->target, P);
    say_list(t, "targetValues", o->target_value, rows);
    say_long_list(t, "targetRanks", o->target_rank, rows);
    view_put(t, "}", 1);
}
