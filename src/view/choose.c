// SPDX-License-Identifier: MIT
// choose.c: what a picture shows first, and the sentence that answers its question.
//
// web/words.js makes the same sentence for every later state; tests compare the two.
#include "view/view.h"
#include <inttypes.h>
#include <string.h>

enum { LIT_KINDS = 3, LIT_MARKED = 4, SPOKEN = 4 };

bool view_shown(const struct view_stack *v, const struct view_state *st, int64_t token)
{
    return st->special || !v->visible || !v->shape.token[token].special;
}
bool view_key_shown(const struct view_stack *v, const struct view_state *st, int64_t key)
{
    return st->special || !v->visible_keys || !v->shape.key[key].special;
}
// The key that is the row's own token; -1 across texts.
static int64_t own_key(const struct view_stack *v, int64_t row)
{
    return view_across(v) ? -1 : row;
}

// Largest weight of row[S] on a shown key other than a and b; from is not set.
static struct view_pair top_key(const struct view_stack *v, const struct view_state *st,
                                const float *row, int64_t a, int64_t b)
{
    struct view_pair p = { -1, -1, 0 };
    for (int64_t j = 0; j < v->shape.keys; j++)
        if (j != a && j != b && view_key_shown(v, st, j) && row[j] > p.weight)
            p.to = j, p.weight = row[j];
    return p;
}

static bool telling(enum view_kind kind)
{
    return kind <= VIEW_INDUCTION;
}

// How much head h says beside those lit already: a kind is told once.
static float telling_strength(const struct view_stack *v, const struct view_state *st,
                              int64_t layer, int64_t h)
{
    const struct view_stats *s = view_stats(v, layer, h);
    for (int64_t i = 0; i < st->lit; i++) {
        const struct view_stats *lit = view_stats(v, layer, st->head[i]);
        if (st->head[i] == h || (lit->kind == s->kind && telling(s->kind))) return 0;
    }
    return telling(s->kind) ? s->strength : 0;
}

// Lights the heads that tell most; without any label, the
// most focused.  Returns how much they tell.
static float light_kinds(struct view_state *st, const struct view_stack *v, int64_t layer)
{
    float all = 0;
    st->layer = layer;
    st->lit = 0;
    while (st->lit < LIT_KINDS) {
        int64_t best = -1;
        float most = 0;
        for (int64_t h = 0; h < v->shape.heads; h++) {
            const float x = telling_strength(v, st, layer, h);
            if (x > most) most = x, best = h;
        }
        if (best < 0) break;
        st->head[st->lit++] = best;
        all += most;
    }
    if (st->lit) return all;
    int64_t best = 0;
    for (int64_t h = 1; h < v->shape.heads; h++)
        if (view_stats(v, layer, h)->focus > view_stats(v, layer, best)->focus) best = h;
    st->head[st->lit++] = best;
    return view_stats(v, layer, best)->focus * 1e-3f; // any label says more
}

// How much the marked token's row of a head tells: its largest weight on another token, unless
// every row of that head looks the same (positions, one word, broad, sink).
static float marked_strength(const struct view_stack *v, const struct view_state *st, int64_t layer,
                             int64_t h, float *row)
{
    const enum view_kind kind = view_stats(v, layer, h)->kind;
    view_row(row, v, layer, h, st->token);
    const float w = top_key(v, st, row, own_key(v, st->token), -1).weight;
    const bool own = kind == VIEW_SAME || kind == VIEW_INDUCTION || kind >= VIEW_CONTENT;
    return own ? w : kind == VIEW_WORD ? .9f * w : .5f * w;
}

// Lights the heads of st->layer whose row of the marked token tells most.
static void light_marked(struct view_state *st, const struct view_stack *v, float *row)
{
    bool taken[VIEW_LIT] = { false };
    st->lit = 0;
    const int64_t heads = qkv_min64(v->shape.heads, VIEW_LIT);
    while (st->lit < LIT_MARKED) {
        int64_t best = -1;
        float most = st->lit ? .10f : -1;
        for (int64_t h = 0; h < heads; h++) {
            if (taken[h]) continue;
            const float w = marked_strength(v, st, st->layer, h, row);
            if (w > most) most = w, best = h;
        }
        if (best < 0) break;
        taken[best] = true;
        st->head[st->lit++] = best;
    }
}

static void sort_heads(struct view_state *st)
{
    for (int64_t i = 1; i < st->lit; i++)
        for (int64_t j = i; j > 0 && st->head[j] < st->head[j - 1]; j--) {
            const int64_t swap = st->head[j];
            st->head[j] = st->head[j - 1];
            st->head[j - 1] = swap;
        }
}

static qkv_status check(const struct view_stack *v, const struct qkv_view_options *o,
                        qkv_error *err)
{
    const struct {
        const char *what;
        const int64_t *at;
        int64_t count, end;
    } given[] = {
        { "layer", o->layer, o->layer ? 1 : 0, v->shape.layers },
        { "head", o->heads, o->heads ? o->head_count : 0, v->shape.heads },
        { "token", o->token, o->token ? 1 : 0, v->shape.tokens },
    };
    for (size_t g = 0; g < sizeof given / sizeof *given; g++)
        for (int64_t i = 0; i < given[g].count; i++)
            if (given[g].at[i] < 0 || given[g].at[i] >= given[g].end)
                return qkv_fail(err, QKV_ERR_USAGE, NULL,
                                "no %s %" PRId64 ", expected 0 to %" PRId64, given[g].what,
                                given[g].at[i], given[g].end - 1);
    for (int64_t l = 0; l < v->shape.layers; l++)
        if (!v->layer[l].filled)
            return qkv_fail(err, QKV_ERR_USAGE, NULL, "layer %" PRId64 " was not given", l);
    return QKV_OK;
}

qkv_status view_choose_stack(const struct view_stack **out, const qkv_view *v,
                             const struct qkv_view_options *o, qkv_error *err)
{
    const int64_t stack = o ? o->stack : 0;
    if (stack < 0 || stack >= v->shape.stacks)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "no stack %" PRId64 ", expected 0 to %" PRId64,
                        stack, v->shape.stacks - 1);
    *out = &v->stack[stack];
    for (int64_t s = 0; s < v->shape.stacks; s++)
        for (int64_t l = 0; l < v->stack[s].shape.layers; l++)
            if (!v->stack[s].layer[l].filled)
                return qkv_fail(err, QKV_ERR_USAGE, NULL, "layer %" PRId64 " was not given", l);
    return QKV_OK;
}

qkv_status view_choose(struct view_state *st, const struct view_stack *v,
                       const struct qkv_view_options *o, bool mark, qkv_error *err)
{
    static const struct qkv_view_options none;
    if (!o) o = &none;
    const qkv_status status = check(v, o, err);
    if (status) return status;
    float *row = qkv_alloc((size_t)v->shape.keys, sizeof *row);
    if (!row) return qkv_fail_memory(err, NULL);
    *st = (struct view_state){ .token = o->token ? *o->token : -1, .special = o->special };
    const int64_t from = o->layer ? *o->layer : 0, end = o->layer ? from + 1 : v->shape.layers;
    float most = -1;
    st->layer = from;
    if (st->token >= 0) {
        for (int64_t l = from; l < end; l++)
            for (int64_t h = 0; h < v->shape.heads; h++) {
                const float w = marked_strength(v, st, l, h, row);
                if (w > most) most = w, st->layer = l;
            }
        light_marked(st, v, row);
    } else {
        struct view_state best = *st;
        for (int64_t l = from; l < end; l++) {
            const float tells = light_kinds(st, v, l);
            if (tells > most) most = tells, best = *st;
        }
        *st = best;
    }
    if (o->heads && o->head_count > 0) {
        st->lit = 0;
        for (int64_t i = 0; i < o->head_count && st->lit < VIEW_LIT; i++) {
            bool again = false;
            for (int64_t k = 0; k < st->lit; k++) again |= st->head[k] == o->heads[i];
            if (!again) st->head[st->lit++] = o->heads[i];
        }
    }
    if (mark && st->token < 0) {
        st->token = 0; // the first that is shown, where no head reads any word
        while (st->token + 1 < v->shape.tokens && !view_shown(v, st, st->token)) st->token++;
        float w = -1;
        for (int64_t i = 0; i < st->lit; i++) {
            const struct view_stats *s = view_stats(v, st->layer, st->head[i]);
            const bool same =
                s->kind == VIEW_SAME && s->same.from >= 0; // says more than a neighbour
            const struct view_pair *p = same ? &s->same : &s->best;
            if (p->from >= 0 && p->weight + same > w) w = p->weight + same, st->token = p->from;
        }
    }
    sort_heads(st);
    qkv_free(row);
    return QKV_OK;
}

qkv_status qkv_view_choose(const qkv_view *v, const struct qkv_view_options *o,
                           struct qkv_view_chosen *out, qkv_error *err)
{
    const struct view_stack *k;
    struct view_state st;
    if (!v || !out)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_view_choose, expected a view and a place, found NULL");
    qkv_status status = view_choose_stack(&k, v, o, err);
    if (!status) status = view_choose(&st, k, o, false, err);
    if (status) return status;
    *out = (struct qkv_view_chosen){ st.layer, st.token, { 0 }, st.lit };
    memcpy(out->heads, st.head, sizeof out->heads);
    return QKV_OK;
}

// ---- the sentence ------------------------------------------------------------------------------
static void say_plain(struct view_text *t, const char *marked) // *bold* as plain text
{
    for (; *marked; marked++)
        if (*marked != '*') view_put(t, marked, 1);
}

static void say_pair(struct view_text *t, const struct view_stack *v, const struct view_pair *p)
{
    view_quote(t, &v->shape.token[p->from]);
    view_say(t, " to ");
    view_quote(t, &v->shape.key[p->to]);
    view_say(t, " ");
    view_weight(t, p->weight, 2);
}

// Of a head that has no kind.
static void say_read(struct view_text *t, const struct view_stack *v, const struct view_pair *p)
{
    view_quote(t, &v->shape.key[p->to]);
    view_say(t, " from ");
    view_quote(t, &v->shape.token[p->from]);
    view_say(t, " with ");
    view_weight(t, p->weight, 2);
}

static void say_kind(struct view_text *t, const struct view_stack *v, const struct view_stats *s,
                     bool last)
{
    if (s->kind < VIEW_KINDS) say_plain(t, view_kinds[s->kind].reads);
    if (s->kind == VIEW_WORD) view_quote(t, &v->shape.key[s->word]);
    if (s->kind == VIEW_SAME && s->same.from >= 0) {
        const struct qkv_view_token *a = &v->shape.token[s->same.from],
                                    *b = &v->shape.key[s->same.to];
        if (v->pair && a->part != b->part) view_say(t, " in the other sentence");
        view_say(t, last ? ": " : " (");
        view_quote(t, a);
        view_say(t, " ");
        view_weight(t, s->same.weight, 2);
        if (!last) view_say(t, ")");
    }
    if (s->kind >= VIEW_CONTENT && s->best.from >= 0) {
        if (s->kind == VIEW_CONTENT) {
            view_say(t, " (");
            say_pair(t, v, &s->best);
            view_say(t, ")");
        } else {
            say_read(t, v, &s->best);
        }
    } else if (s->kind == VIEW_KINDS) {
        view_say(t, "no other word more than an even share");
    }
}

// Labelled heads first, the strongest in front.
static bool speaks_before(const struct view_stats *a, const struct view_stats *b)
{
    const bool told_a = telling(a->kind), told_b = telling(b->kind);
    return told_a != told_b ? told_a : a->strength > b->strength;
}

static void say_layer(struct view_text *t, const struct view_stack *v, const struct view_state *st)
{
    const char *name = v->shape.name;
    view_say(t, "In layer %" PRId64, st->layer);
    if (strcmp(name, "attention") != 0)
        view_say(t, " of the %s%s", name, strcmp(name, "cross") ? "" : " attention");
    view_say(t, ", ");
}

static void say_heads(struct view_text *t, const struct view_stack *v, const struct view_state *st)
{
    int64_t order[VIEW_LIT];
    for (int64_t i = 0; i < st->lit; i++) {
        int64_t j = i;
        for (; j > 0 && speaks_before(view_stats(v, st->layer, st->head[i]),
                                      view_stats(v, st->layer, order[j - 1]));
             j--)
            order[j] = order[j - 1];
        order[j] = st->head[i];
    }
    const int64_t n = qkv_min64(st->lit, SPOKEN), more = st->lit - n;
    say_layer(t, v, st);
    for (int64_t i = 0; i < n; i++) {
        const bool last = i == n - 1 && !more;
        if (i) view_say(t, last ? " and " : ", ");
        view_say(t, "head %" PRId64 " %s", order[i], i ? "" : "reads ");
        say_kind(t, v, view_stats(v, st->layer, order[i]), last);
    }
    if (more) view_say(t, " and %" PRId64 " more heads", more);
    view_say(t, ".");
}

static void say_marked(struct view_text *t, const struct view_stack *v, const struct view_state *st,
                       float *row)
{
    struct view_pair best = { -1, -1, 0 }, second = best, other = best;
    const struct qkv_view_token *token = v->shape.token, *key = v->shape.key;
    const int64_t own = own_key(v, st->token);
    float hidden = 0;
    for (int64_t i = 0; i < st->lit; i++) {
        view_row(row, v, st->layer, st->head[i], st->token);
        const struct view_pair p = top_key(v, st, row, -1, -1);
        if (p.weight <= best.weight) continue;
        best = (struct view_pair){ st->head[i], p.to, p.weight };
        second = top_key(v, st, row, p.to, own_key(v, st->token));
        hidden = 0;
        for (int64_t j = 0; j < v->shape.keys; j++)
            if (!view_key_shown(v, st, j)) hidden += row[j];
    }
    for (int64_t i = 0; i < st->lit; i++) {
        view_row(row, v, st->layer, st->head[i], st->token);
        const struct view_pair p = top_key(v, st, row, -1, -1);
        if (st->head[i] != best.from && p.to != best.to && p.weight > other.weight)
            other = (struct view_pair){ st->head[i], p.to, p.weight };
    }
    say_layer(t, v, st);
    if (best.from < 0) {
        view_quote(t, &token[st->token]);
        view_say(t, " reads nothing: all keys masked.");
        return;
    }
    view_say(t, "head %" PRId64 " gives ", best.from);
    view_weight(t, best.weight, 2);
    view_say(t, " of ");
    view_quote(t, &token[st->token]);
    view_say(t, " to ");
    if (best.to == own)
        view_say(t, "itself");
    else
        view_quote(t, &key[best.to]);
    if (second.weight >= .045f) {
        view_say(t, " and ");
        view_weight(t, second.weight, 2);
        view_say(t, " to ");
        view_quote(t, &key[second.to]);
    }
    if (hidden > best.weight) {
        view_say(t, ", ");
        view_weight(t, hidden, 2);
        view_say(t, " to special tokens");
    }
    if (other.from >= 0) {
        view_say(t, "; head %" PRId64 " reads ", other.from);
        if (other.to == own)
            view_say(t, "itself");
        else
            view_quote(t, &key[other.to]);
        view_say(t, " with ");
        view_weight(t, other.weight, 2);
    }
    view_say(t, ".");
}

void view_sentence(struct view_text *t, const struct view_stack *v, const struct view_state *st)
{
    if (v->shape.tokens == 1 && !view_across(v)) {
        view_say(t, "The only token reads itself: 1.000.");
        return;
    }
    if (!st->lit) {
        view_say(t, "Choose a head.");
        return;
    }
    if (st->token < 0) {
        say_heads(t, v, st);
        return;
    }
    float *row = qkv_alloc((size_t)v->shape.keys, sizeof *row);
    if (row)
        say_marked(t, v, st, row);
    else
        t->failed = true;
    qkv_free(row);
}

char *qkv_view_sentence(const qkv_view *v, const struct qkv_view_options *o, char *out, size_t size)
{
    struct view_text t = { 0 };
    struct view_state st;
    const struct view_stack *k;
    if (!out || !size) return out;
    out[0] = 0;
    if (!view_choose_stack(&k, v, o, NULL) && !view_choose(&st, k, o, false, NULL))
        view_sentence(&t, k, &st);
    view_text_copy(out, size, &t);
    view_text_free(&t);
    return out;
}
