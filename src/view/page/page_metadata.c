// SPDX-License-Identifier: MIT
// page_metadata.c: writes the description of a page as JSON. docs/formats.md defines its members.
#include "view/page/page_internal.h"
#include "view/data/stories.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void say_integers(struct view_text *t, const int64_t *x, int64_t n)
{
    view_put(t, "[", 1);
    for (int64_t i = 0; i < n; i++) view_say(t, "%s%" PRId64, i ? "," : "", x[i]);
    view_put(t, "]", 1);
}

static void json_token(struct view_text *t, const struct qkv_view_token *k)
{
    struct view_text a = { 0 }, b = { 0 };
    view_token_text(&a, k, k->special);
    view_token_text(&b, k, true);
    t->failed |= a.failed || b.failed;
    if (!t->failed) {
        view_put(t, "[", 1);
        view_json_text(t, a.at ? a.at : "", (size_t)a.used);
        view_say(t, ",%d,%d", k->part != 0, k->special);
        if (a.used != b.used || (a.used && memcmp(a.at, b.at, (size_t)a.used) != 0)) {
            view_put(t, ",", 1);
            view_json_text(t, b.at ? b.at : "", (size_t)b.used);
        }
        view_put(t, "]", 1);
    }
    view_text_free(&a);
    view_text_free(&b);
}

// Writes x with `digits` decimals as a JSON number. x may also be a large sum of weights.
static void json_number(struct view_text *t, double x, int digits)
{
    const double most = 1e11; // such a number times 10^7 still fits into 64 bits
    view_number(t, isnan(x) ? 0 : fmax(-most, fmin(x, most)), digits);
}

static void json_pair(struct view_text *t, const struct view_pair *p)
{
    if (p->from < 0) {
        view_say(t, ",null");
        return;
    }
    view_say(t, ",[%" PRId64 ",%" PRId64 ",", p->from, p->to);
    json_number(t, p->weight, 4);
    view_put(t, "]", 1);
}

// Writes the statistics of a head as a JSON array: [kind, strength, word, rows, keys, distance,
// focus, [shares], best, same], the members of struct view_stats.
static void json_stats(struct view_text *t, const struct view_stats *s)
{
    view_say(t, "[%d,", s->kind < VIEW_KINDS ? (int)s->kind : -1);
    json_number(t, s->strength, 4);
    view_say(t, ",%" PRId64 ",%" PRId64 ",", s->word, s->rows);
    json_number(t, s->keys, 3);
    view_put(t, ",", 1);
    json_number(t, s->distance, 3);
    view_put(t, ",", 1);
    json_number(t, s->focus, 4);
    for (int i = 0; i < 5; i++) {
        view_put(t, i ? "," : ",[", i ? 1 : 2);
        json_number(t, s->shares[i], 5);
    }
    view_put(t, "]", 1);
    json_pair(t, &s->best);
    json_pair(t, &s->same);
    view_put(t, "]", 1);
}

static void json_kind_table(struct view_text *t)
{
    view_say(t, ",\n\"telling\":%d,\"kindTable\":[", (int)VIEW_INDUCTION);
    for (int i = 0; i < VIEW_KINDS; i++) {
        const struct view_kind_row *k = &view_kind_table[i];
        view_say(t, "%s[\"%s\",\"%s\",", i ? "," : "", k->name, k->glyph);
        json_number(t, k->threshold, 2);
        view_say(t, ",\"%s\",\"%s\"]", k->target, k->rule);
    }
    view_put(t, "]", 1);
}

// Writes a float as a JSON number from which the same float is read; NaN becomes null.
static void json_float(struct view_text *t, float x)
{
    char digits[40];
    if (!isfinite(x)) {
        view_say(t, "null");
        return;
    }
    snprintf(digits, sizeof digits, "%.9g", (double)x);
    for (char *c = digits; *c; c++)
        if (!strchr("0123456789+-e", *c)) *c = '.'; // replace the decimal point of the locale
    view_say(t, "%s", digits);
}

static void say_string(struct view_text *t, const char *s)
{
    view_json_text(t, s, strlen(s));
}

// ---- texts --------------------------------------------------------------------------------------
// Writes for each token where it begins and ends in its source text, counted in UTF-16 units.
static void json_places(struct view_text *t, const struct qkv_view_text *x)
{
    // for each source text: the byte up to which UTF-16 units have been counted, and their number
    int64_t bytes[2] = { 0 }, units[2] = { 0 };
    view_say(t, ",\"places\":[");
    for (int64_t i = 0; i < x->tokens; i++) {
        const struct qkv_view_token *k = &x->token[i];
        const int part = k->part != 0;
        const char *source = x->source[part];
        const int64_t size = (int64_t)x->source_bytes[part];
        int64_t at[2] = { 0, 0 };
        if (source && k->begin >= 0 && k->end > k->begin && k->end <= size) {
            if (k->begin < bytes[part]) bytes[part] = units[part] = 0;
            units[part] += view_units(source + bytes[part], k->begin - bytes[part]);
            bytes[part] = k->begin;
            at[0] = units[part];
            at[1] = at[0] + view_units(source + k->begin, k->end - k->begin);
        }
        view_say(t, "%s%" PRId64 ",%" PRId64, i ? "," : "", at[0], at[1]);
    }
    view_put(t, "]", 1);
}

void view_texts(struct view_text *t, const struct qkv_view_shape *s)
{
    view_say(t, ",\n\"texts\":[");
    for (int64_t n = 0; n < s->texts; n++) {
        const struct qkv_view_text *x = &s->text[n];
        view_say(t, "%s{\"tokens\":[", n ? ",\n" : "");
        for (int64_t i = 0; i < x->tokens + x->padding; i++) {
            if (i) view_put(t, ",", 1);
            json_token(t, &x->token[i]);
        }
        view_put(t, "]", 1);
        if (x->padding) view_say(t, ",\"padding\":%" PRId64, x->padding);
        if (x->given > 0) view_say(t, ",\"given\":%" PRId64, x->given);
        if (x->source[0]) {
            view_say(t, ",\n\"source\":[");
            view_json_text(t, x->source[0], x->source_bytes[0]);
            if (x->source[1]) {
                view_put(t, ",", 1);
                view_json_text(t, x->source[1], x->source_bytes[1]);
            }
            view_put(t, "]", 1);
            json_places(t, x);
        }
        view_put(t, "}", 1);
    }
    view_put(t, "]", 1);
}

// ---- stacks -------------------------------------------------------------------------------------
static void json_state(struct view_text *t, const struct view_selection *st)
{
    view_say(t, ",\"start\":{\"layer\":%" PRId64 ",\"token\":%" PRId64 ",\"special\":%s,\"heads\":",
             st->layer, st->token, st->special ? "true" : "false");
    say_integers(t, st->head, st->selected);
    view_put(t, "}", 1);
}

// Writes the links that the page offers besides the selection: [layer, head, row, key, weight].
static void json_stories(struct view_text *t, const struct view_stack *v,
                         const struct view_selection *st)
{
    enum { OFFERED = 3 };
    struct view_story first, story[OFFERED];
    view_story_shown(&first, v, st);
    const int64_t n = view_stories(story, OFFERED, v, &first);
    view_say(t, ",\"stories\":[");
    for (int64_t i = 0; i < n; i++) {
        view_say(t, "%s[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",", i ? "," : "",
                 story[i].layer, story[i].head, story[i].row, story[i].key);
        json_number(t, (double)story[i].weight, 4);
        view_put(t, "]", 1);
    }
    view_put(t, "]", 1);
}

static void json_effects(struct view_text *t, const struct view_stack *v)
{
    const int64_t H = v->shape.heads, each = v->effects.each;
    if (!v->effects.value) return;
    view_say(t, ",\n\"effects\":{\"unit\":");
    say_string(t, v->effects.unit);
    for (int what = 0; what < (each ? 2 : 1); what++) {
        view_say(t, what ? ",\"changes\":[" : ",\"values\":[");
        for (int64_t i = 0; i < v->shape.layers * H; i++) {
            view_say(t, i % H ? "," : i ? "],[" : "[");
            if (!what) {
                json_float(t, v->effects.value[i]);
                continue;
            }
            view_put(t, "[", 1);
            const struct qkv_view_change *c = v->effects.change + i * each;
            for (int64_t k = 0; k < each && c[k].token >= 0; k++) {
                view_say(t, "%s[%" PRId64 ",", k ? "," : "", c[k].token);
                json_float(t, c[k].before);
                view_put(t, ",", 1);
                json_float(t, c[k].after);
                view_put(t, "]", 1);
            }
            view_put(t, "]", 1);
        }
        view_say(t, "]]");
    }
    view_put(t, "}", 1);
}

// Writes five JSON arrays with one element per layer: left and right (limits of the window), scale,
// softcap, and codes (how the layer is encoded).
static void json_layers(struct view_text *t, const struct view_stack *v,
                        const struct view_kept *kept)
{
    static const char *const names[] = { "left", "right", "scale", "softcap", "codes" };
    for (int which = 0; which < 5; which++) {
        view_say(t, ",\"%s\":[", names[which]);
        for (int64_t l = 0; l < v->shape.layers; l++) {
            const struct view_layer *x = &v->layer[l];
            if (l) view_put(t, ",", 1);
            if (which < 2) view_say(t, "%" PRId64, which ? x->right : x->left);
            if (which == 2) json_float(t, x->scale);
            if (which == 3) json_float(t, x->softcap);
            if (which == 4) view_say(t, "\"%s\"", view_code_names[kept->how[l].code]);
        }
        view_put(t, "]", 1);
    }
}

// Lists the layers whose values (v), and the layers whose input rows (x), are in the view but not
// in the page.
static void json_missing(struct view_text *t, const struct view_stack *v,
                         const struct view_kept *kept)
{
    view_say(t, ",\"missing\":{");
    for (int what = 0; what < 2; what++) {
        view_say(t, what ? ",\"x\":[" : "\"v\":[");
        bool any = false;
        for (int64_t l = 0; l < v->shape.layers; l++) {
            const bool had = what ? v->layer[l].x != NULL : v->layer[l].v != NULL;
            if (!had || (what ? kept->how[l].input : kept->how[l].values)) continue;
            view_say(t, "%s%" PRId64, any ? "," : "", l);
            any = true;
        }
        view_put(t, "]", 1);
    }
    view_put(t, "}", 1);
}

// Writes the description of a stack. st: what is selected first; NULL: the page only compares with
// the stack and cannot show it.
static void json_stack(struct view_text *t, const struct view_stack *v,
                       const struct view_kept *kept, const struct view_selection *st)
{
    const int64_t L = v->shape.layers, H = v->shape.heads;
    view_say(t, "{\"name\":");
    say_string(t, v->shape.name);
    view_say(t,
             ",\"rows\":%" PRId64 ",\"keys\":%" PRId64 ",\"layers\":%" PRId64 ",\"heads\":%" PRId64
             ",\"kv\":%" PRId64 ",\"width\":%" PRId64 ",\"value\":%" PRId64 ",\"input\":%" PRId64
             ",\"causal\":%s",
             v->shape.row_text, v->shape.key_text, L, H, v->shape.kv_heads, v->shape.head_width,
             v->shape.value_width, v->shape.width, v->shape.causal ? "true" : "false");
    json_layers(t, v, kept);
    view_say(t, ",\"kind\":\"%s\",\"error\":", view_code_names[kept->code]);
    json_number(t, ceil(kept->loss.error * 1e7) / 1e7, 7);
    view_say(t, ",\"kept\":");
    json_number(t, kept->loss.rows ? kept->loss.kept / (double)kept->loss.rows : 1, 5);
    if (st) {
        json_state(t, st);
        json_stories(t, v, st);
    }
    json_missing(t, v, kept);
    view_say(t, ",\n\"stats\":[");
    for (int64_t l = 0; l < L; l++) {
        for (int64_t h = 0; h < H; h++) {
            view_put(t, h ? "," : "\n[", h ? 1 : 2);
            json_stats(t, view_stats(v, l, h));
        }
        view_put(t, l + 1 < L ? "]," : "]", l + 1 < L ? 2 : 1);
    }
    view_put(t, "]", 1);
    json_effects(t, v);
    view_put(t, "}", 1);
}

// Writes ,"stacks":[...] with n stacks of the plan, from number `first` on.
static void json_stacks(struct view_text *t, int64_t first, int64_t n, const struct view_plan *p,
                        const struct view_selection *st)
{
    view_say(t, ",\n\"stacks\":[");
    for (int64_t s = 0; s < n; s++) {
        if (s) view_say(t, ",\n");
        json_stack(t, p->of[first + s], &p->stack[first + s], st ? &st[s] : NULL);
    }
    view_put(t, "]", 1);
}

static void json_against(struct view_text *t, const qkv_view *v, const struct view_plan *p)
{
    view_say(t, ",\n\"against\":{\"model\":");
    say_string(t, v->against->shape.model ? v->against->shape.model : "");
    view_texts(t, &v->against->shape);
    json_stacks(t, v->shape.stacks, v->shape.stacks, p, NULL);
    view_say(t, ",\n\"align\":[");
    for (int64_t n = 0; n < v->shape.texts; n++) {
        if (n) view_put(t, ",", 1);
        const struct qkv_view_text *x = &v->shape.text[n];
        view_say(t, "[");
        for (int64_t i = 0; i < x->tokens + x->padding; i++)
            view_say(t, "%s%" PRId64, i ? "," : "", i < x->tokens ? v->align[n][i] : -1);
        view_say(t, "]");
    }
    view_say(t, "],\n\"moved\":[");
    for (int64_t i = 0; i < v->moved_count; i++) {
        const struct qkv_view_divergence *m = &v->moved[i];
        view_say(t, "%s[%" PRId64 ",%" PRId64 ",%" PRId64 ",", i ? "," : "", m->stack, m->layer,
                 m->head);
        json_number(t, m->bits, 6);
        view_say(t, ",%" PRId64 ",%" PRId64 ",", m->rows, m->row);
        json_number(t, m->row_change, 6);
        view_put(t, "]", 1);
    }
    view_say(t, "]}");
}

static void json_training(struct view_text *t, const qkv_view *v, const struct view_plan *p)
{
    const int64_t first = v->shape.stacks * (1 + (v->against != NULL));
    view_say(t, ",\n\"training\":{\"frames\":[");
    for (int64_t f = 0; f < v->frames; f++) {
        view_say(t, "%s{\"step\":%" PRId64 ",\"loss\":", f ? ",\n" : "", v->frame[f].step);
        json_float(t, (float)v->frame[f].loss);
        json_stacks(t, first + f * v->shape.stacks, v->shape.stacks, p, NULL);
        view_put(t, "}", 1);
    }
    view_say(t, "]}");
}

// Writes JSON of the caller. Its strings may contain '<', which would end the element of the page.
static void json_server(struct view_text *t, const char *json)
{
    view_say(t, ",\n\"server\":");
    for (const char *p = json; *p;) {
        const size_t n = strcspn(p, "<");
        view_put(t, p, n);
        p += n;
        if (!*p++) break;
        view_say(t, "\\u003c");
    }
}

void view_page_metadata(struct view_text *t, const qkv_view *v, const struct view_plan *p,
                        const struct view_selection *st, const struct qkv_view_options *o)
{
    const struct view_block *b = &p->block;
    view_say(t, "{\"format\":\"qkv-view 2\",\"model\":");
    say_string(t, v->shape.model ? v->shape.model : "");
    if (o->view) {
        view_say(t, ",\"view\":");
        say_string(t, o->view);
    }
    view_say(t, ",\"stack\":%" PRId64, o->stack);
    json_kind_table(t);
    view_texts(t, &v->shape);
    json_stacks(t, 0, v->shape.stacks, p, st);
    view_page_output(t, v);
    if (o->server) json_server(t, o->server);
    if (v->against) json_against(t, v, p);
    if (v->frames) json_training(t, v, p);
    view_say(t, ",\n\"packed\":%" PRId64 ",\"bytes\":%" PRId64 ",\"rows\":[", p->packed.size,
             b->size);
    for (int64_t i = 0; i < b->count; i++) {
        const struct view_array *a = &b->array[i];
        view_say(t, "%s[\"%s\",\"%s\",%" PRId64 ",%" PRId64 ",", i ? "," : "", a->name, a->kind,
                 a->stack, a->layer);
        say_integers(t, a->shape, 3);
        view_say(t, ",%" PRId64 ",%" PRId64 ",%" PRIu32 "]", a->offset, a->bytes, a->crc);
    }
    view_say(t, "]}");
}
