// SPDX-License-Identifier: MIT
// initial_selection.c: chooses the layer, the heads and the token that a view shows first, and
// writes the sentence that describes them and answers the view's question.
//
// When the reader selects something else on the page, web/parts/sentence.js writes the sentence in
// the same way; tests compare the two.
#include "view/data/initial_selection.h"
#include "view/data/stories.h"
#include "view/data/row_changes.h"
#include <inttypes.h>
#include <string.h>

enum { HEADS_BY_KIND = 3, DESCRIBED = 4 };

#define QKV_VIEW(name, key, picture, terminal, needs, question) #name,
static const char *const view_names[] = {
#include <qkv/view.def>
};
#undef QKV_VIEW
// the names of the views for the message, such as ", heads, model, ..."
#define QKV_VIEW(name, key, picture, terminal, needs, question) ", " #name
static const char view_list[] =
#include <qkv/view.def>
    ;
#undef QKV_VIEW

bool view_shown(const struct view_stack *v, const struct view_selection *st, int64_t token)
{
    return st->special || !v->visible || !v->shape.token[token].special;
}
bool view_key_shown(const struct view_stack *v, const struct view_selection *st, int64_t key)
{
    return st->special || !v->visible_keys || !v->shape.key[key].special;
}
// Returns the key that is the same token as the row. Returns -1 if the keys are from another text.
static int64_t own_key(const struct view_stack *v, int64_t row)
{
    return view_across(v) ? -1 : row;
}

// Finds the largest weight of row[S] on a shown key other than the keys a and b. The member `from`
// of the result is left for the caller to set.
static struct view_pair top_key(const struct view_stack *v, const struct view_selection *st,
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

// Returns the strength of head h, or 0 if h is selected or a selected head has the same kind.
static float telling_strength(const struct view_stack *v, const struct view_selection *st,
                              int64_t layer, int64_t h)
{
    const struct view_stats *s = view_stats(v, layer, h);
    for (int64_t i = 0; i < st->selected; i++) {
        const struct view_stats *selected = view_stats(v, layer, st->head[i]);
        if (st->head[i] == h || (selected->kind == s->kind && telling(s->kind))) return 0;
    }
    return telling(s->kind) ? s->strength : 0;
}

// Selects up to HEADS_BY_KIND heads of different kinds, strongest first. If no head has a kind,
// selects the head with the largest focus. Returns the sum of the strengths.
static float select_by_kind(struct view_selection *st, const struct view_stack *v, int64_t layer)
{
    float all = 0;
    st->layer = layer;
    st->selected = 0;
    while (st->selected < HEADS_BY_KIND) {
        int64_t best = -1;
        float most = 0;
        for (int64_t h = 0; h < v->shape.heads; h++) {
            const float x = telling_strength(v, st, layer, h);
            if (x > most) most = x, best = h;
        }
        if (best < 0) break;
        st->head[st->selected++] = best;
        all += most;
    }
    if (st->selected) return all;
    int64_t best = 0;
    for (int64_t h = 1; h < v->shape.heads; h++)
        if (view_stats(v, layer, h)->focus > view_stats(v, layer, best)->focus) best = h;
    st->head[st->selected++] = best;
    // a small value, so that a layer with any kind of head is preferred
    return view_stats(v, layer, best)->focus * 1e-3f;
}

static bool names_heads(const struct qkv_view_options *o)
{
    return o->heads && o->head_count > 0;
}

// Finds the best story of the layers `from` to `end` - 1: of the marked row, or of any row. If the
// options name heads, only these count.
static struct view_story best_story(const struct view_stack *v, const struct qkv_view_options *o,
                                    int64_t token, int64_t from, int64_t end, float *row)
{
    struct view_story best = { .row = -1 };
    const bool given = names_heads(o);
    const int64_t heads = given ? o->head_count : v->shape.heads;
    for (int64_t l = from; l < end; l++)
        for (int64_t i = 0; i < heads; i++) {
            const int64_t h = given ? o->heads[i] : i;
            const struct view_story s =
                token >= 0 ? view_story_of_row(v, l, h, token, row) : view_story_of_head(v, l, h);
            if (s.row >= 0 && s.score > best.score) best = s;
        }
    return best;
}

// Selects the layer whose heads have the clearest kinds, and these heads.
static void select_best_layer(struct view_selection *st, const struct view_stack *v, int64_t from,
                              int64_t end)
{
    struct view_selection best = *st;
    float most = -1;
    for (int64_t l = from; l < end; l++) {
        const float tells = select_by_kind(st, v, l);
        if (tells > most) most = tells, best = *st;
    }
    *st = best;
}

static void select_given(struct view_selection *st, const struct qkv_view_options *o)
{
    st->selected = 0;
    for (int64_t i = 0; i < o->head_count && st->selected < VIEW_SELECTED_MOST; i++) {
        bool again = false;
        for (int64_t k = 0; k < st->selected; k++) again |= st->head[k] == o->heads[i];
        if (!again) st->head[st->selected++] = o->heads[i];
    }
}

static void sort_heads(struct view_selection *st)
{
    for (int64_t i = 1; i < st->selected; i++)
        for (int64_t j = i; j > 0 && st->head[j] < st->head[j - 1]; j--) {
            const int64_t swap = st->head[j];
            st->head[j] = st->head[j - 1];
            st->head[j - 1] = swap;
        }
}

static qkv_status check_view_name(const char *name, qkv_error *err)
{
    if (!name) return QKV_OK;
    for (size_t i = 0; i < sizeof view_names / sizeof *view_names; i++)
        if (strcmp(name, view_names[i]) == 0) return QKV_OK;
    return qkv_fail(err, QKV_ERR_USAGE, NULL, "unknown view '%.100s', expected one of %s", name,
                    view_list + 2);
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
                                "unknown %s %" PRId64 ", expected 0 to %" PRId64, given[g].what,
                                given[g].at[i], given[g].end - 1);
    for (int64_t l = 0; l < v->shape.layers; l++)
        if (!v->layer[l].filled)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "layer %" PRId64 " is missing in the view, expected all layers", l);
    return check_view_name(o->view, err);
}

qkv_status view_select_stack(const struct view_stack **out, const qkv_view *v,
                             const struct qkv_view_options *o, qkv_error *err)
{
    const int64_t stack = o ? o->stack : 0;
    if (stack < 0 || stack >= v->shape.stacks)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "unknown stack %" PRId64 ", expected 0 to %" PRId64, stack,
                        v->shape.stacks - 1);
    *out = &v->stack[stack];
    for (int64_t s = 0; s < v->shape.stacks; s++)
        for (int64_t l = 0; l < v->stack[s].shape.layers; l++)
            if (!v->stack[s].layer[l].filled)
                return qkv_fail(err, QKV_ERR_USAGE, NULL,
                                "layer %" PRId64 " is missing in the view, expected all layers", l);
    return QKV_OK;
}

qkv_status view_select(struct view_selection *st, const struct view_stack *v,
                       const struct qkv_view_options *o, bool mark, qkv_error *err)
{
    static const struct qkv_view_options none;
    if (!o) o = &none;
    const qkv_status status = check(v, o, err);
    if (status) return status;
    float *row = qkv_alloc((size_t)v->shape.keys, sizeof *row);
    if (!row) return qkv_fail_memory(err, NULL);
    *st = (struct view_selection){ .token = o->token ? *o->token : -1, .special = o->special };
    st->told = st->token >= 0;
    const int64_t from = o->layer ? *o->layer : 0, end = o->layer ? from + 1 : v->shape.layers;
    const bool given = names_heads(o);
    const struct view_story story = best_story(v, o, st->token, from, end, row);
    st->layer = from;
    if (story.row >= 0) {
        st->layer = story.layer;
        st->head[st->selected++] = story.head;
    } else {
        select_best_layer(st, v, from, end);
    }
    if (given) select_given(st, o);
    if (st->token < 0 && story.row >= 0 && (mark || !given)) {
        st->token = story.row;
        st->told = st->offered = !given;
    }
    if (mark && st->token < 0) {
        st->token = 0; // no head attends to a word: mark the first token that is shown
        while (st->token + 1 < v->shape.tokens && !view_shown(v, st, st->token)) st->token++;
    }
    sort_heads(st);
    qkv_free(row);
    return QKV_OK;
}

int64_t view_pair_shown(int64_t *head, const struct view_stack *v, const struct view_selection *st,
                        int64_t key, float *row)
{
    const int64_t given = key;
    float most = -1;
    *head = st->selected ? st->head[0] : 0;
    for (int64_t j = 0; j < v->shape.keys && key < 0; j++)
        if (view_key_shown(v, st, j)) key = j;
    for (int64_t i = 0; i < st->selected; i++) {
        view_row(row, v, st->layer, st->head[i], st->token);
        for (int64_t j = 0; j < v->shape.keys; j++)
            if ((given < 0 ? view_key_shown(v, st, j) : j == given) && row[j] > most) {
                most = row[j];
                key = j;
                *head = st->head[i];
            }
    }
    return key < 0 ? 0 : key;
}

// Reduces a selection that no option names to the head that the views of one query show.
static qkv_status select_one(struct view_selection *st, const struct view_stack *v, qkv_error *err)
{
    float *row = qkv_alloc((size_t)v->shape.keys, sizeof *row);
    if (!row) return qkv_fail_memory(err, NULL);
    (void)view_pair_shown(&st->head[0], v, st, -1, row);
    st->selected = 1;
    qkv_free(row);
    return QKV_OK;
}

qkv_status qkv_view_choose(const qkv_view *v, const struct qkv_view_options *o,
                           struct qkv_view_chosen *out, qkv_error *err)
{
    const struct view_stack *k;
    struct view_selection st;
    if (!v || !out)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "qkv_view_choose: expected a view and a pointer for the choice, found NULL");
    const bool one = o && o->view && (!strcmp(o->view, "steps") || !strcmp(o->view, "neuron"));
    qkv_status status = view_select_stack(&k, v, o, err);
    if (!status) status = view_select(&st, k, o, one, err);
    if (!status && one && !names_heads(o)) status = select_one(&st, k, err);
    if (status) return status;
    *out = (struct qkv_view_chosen){ st.layer, st.token, { 0 }, st.selected };
    memcpy(out->heads, st.head, sizeof out->heads);
    return QKV_OK;
}

// ---- the sentence -------------------------------------------------------------------------------
static void say_plain(struct view_text *t, const char *marked) // removes the asterisks of *bold*
{
    for (; *marked; marked++)
        if (*marked != '*') view_put(t, marked, 1);
}

static void say_pair(struct view_text *t, const struct view_stack *v, const struct view_pair *p)
{
    view_quote_row(t, v, p->from);
    view_say(t, " to ");
    view_quote_key(t, v, p->to);
    view_say(t, " ");
    view_weight(t, p->weight, 2);
}

void view_say_head(struct view_text *t, const struct view_stack *v, int64_t layer, int64_t head)
{
    const char *name = v->shape.name;
    const bool only = strcmp(name, "attention") == 0;
    view_say(t, "%s%sL%" PRId64 ".H%" PRId64, only ? "" : name, only ? "" : ".", layer, head);
}

static void describe_kind(struct view_text *t, const struct view_stack *v,
                          const struct view_stats *s, bool last)
{
    if (s->kind < VIEW_OTHER) {
        view_say(t, "to ");
        say_plain(t, view_kind_table[s->kind].target);
    }
    if (s->kind == VIEW_VERTICAL) view_quote_key(t, v, s->word);
    if (s->kind == VIEW_SAME && s->same.from >= 0) {
        const struct qkv_view_token *a = &v->shape.token[s->same.from],
                                    *b = &v->shape.key[s->same.to];
        if (v->pair && a->part != b->part) view_say(t, " in the other sentence");
        view_say(t, last ? ": " : " (");
        say_pair(t, v, &s->same);
        if (!last) view_say(t, ")");
    }
    if (s->kind >= VIEW_OTHER && s->best.from >= 0) {
        view_say(t, "most from ");
        say_pair(t, v, &s->best);
    } else if (s->kind >= VIEW_OTHER) {
        view_say(t, "to no other token above the uniform weight");
    }
}

// Returns true if head a must be described before head b: heads with a kind are first, then the
// stronger ones.
static bool described_before(const struct view_stats *a, const struct view_stats *b)
{
    const bool told_a = telling(a->kind), told_b = telling(b->kind);
    return told_a != told_b ? told_a : a->strength > b->strength;
}

static void say_layer(struct view_text *t, const struct view_stack *v,
                      const struct view_selection *st)
{
    const char *name = v->shape.name;
    view_say(t, "In layer %" PRId64, st->layer);
    if (strcmp(name, "attention") != 0)
        view_say(t, " of the %s%s", name, strcmp(name, "cross") ? "" : "-attention");
    view_say(t, ", ");
}

static void describe_heads(struct view_text *t, const struct view_stack *v,
                           const struct view_selection *st)
{
    int64_t order[VIEW_SELECTED_MOST];
    for (int64_t i = 0; i < st->selected; i++) {
        int64_t j = i;
        for (; j > 0 && described_before(view_stats(v, st->layer, st->head[i]),
                                         view_stats(v, st->layer, order[j - 1]));
             j--)
            order[j] = order[j - 1];
        order[j] = st->head[i];
    }
    const int64_t n = qkv_min64(st->selected, DESCRIBED), more = st->selected - n;
    say_layer(t, v, st);
    for (int64_t i = 0; i < n; i++) {
        const bool last = i == n - 1 && !more;
        if (i) view_say(t, last ? " and " : ", ");
        view_say(t, "head %" PRId64 " %s", order[i], i ? "" : "attends ");
        describe_kind(t, v, view_stats(v, st->layer, order[i]), last);
    }
    if (more) view_say(t, " and %" PRId64 " more heads", more);
    view_say(t, ".");
}

// Writes a key and its weight, such as “animal” .64
static void say_key(struct view_text *t, const struct view_stack *v, const struct view_pair *p,
                    int64_t own)
{
    if (p->to == own)
        view_say(t, "itself");
    else
        view_quote_key(t, v, p->to);
    view_say(t, " ");
    view_weight(t, p->weight, 2);
}

static void say_place(struct view_text *t, const struct view_stack *v,
                      const struct view_selection *st, int64_t head)
{
    view_say(t, " (");
    view_say_head(t, v, st->layer, head);
    view_say(t, ")");
}

static void describe_token(struct view_text *t, const struct view_stack *v,
                           const struct view_selection *st, float *row)
{
    struct view_pair best = { -1, -1, 0 }, second = best, other = best;
    const int64_t own = own_key(v, st->token);
    float hidden = 0;
    bool numbers = true;
    for (int64_t i = 0; i < st->selected; i++) {
        view_row(row, v, st->layer, st->head[i], st->token);
        for (int64_t j = 0; j < v->shape.keys; j++) numbers = numbers && row[j] == row[j];
        const struct view_pair p = top_key(v, st, row, -1, -1);
        if (p.weight <= best.weight) continue;
        best = (struct view_pair){ st->head[i], p.to, p.weight };
        second = top_key(v, st, row, p.to, own_key(v, st->token));
        hidden = 0;
        for (int64_t j = 0; j < v->shape.keys; j++)
            if (!view_key_shown(v, st, j)) hidden += row[j];
    }
    for (int64_t i = 0; i < st->selected; i++) {
        view_row(row, v, st->layer, st->head[i], st->token);
        const struct view_pair p = top_key(v, st, row, -1, -1);
        if (st->head[i] != best.from && p.to != best.to && p.weight > other.weight)
            other = (struct view_pair){ st->head[i], p.to, p.weight };
    }
    if (!numbers) {
        view_say(t, "The weights of ");
        view_quote_row(t, v, st->token);
        view_say(t, " are not numbers: they contain NaN.");
        return;
    }
    if (best.from < 0) {
        say_layer(t, v, st);
        view_quote_row(t, v, st->token);
        view_say(t, " attends to no key: all its weights are 0.");
        return;
    }
    view_quote_row(t, v, st->token);
    view_say(t, " attends to ");
    say_key(t, v, &best, own);
    if (second.weight >= .045f) {
        view_say(t, ", ");
        say_key(t, v, &second, -1);
    }
    if (hidden > best.weight) {
        view_say(t, ", special tokens ");
        view_weight(t, hidden, 2);
    }
    say_place(t, v, st, best.from);
    if (other.from >= 0) {
        view_say(t, "; to ");
        say_key(t, v, &other, own);
        say_place(t, v, st, other.from);
    }
    view_say(t, ".");
}

void view_sentence(struct view_text *t, const struct view_stack *v, const struct view_selection *st)
{
    if (v->shape.tokens == 1 && !view_across(v)) {
        view_say(t, "The only token attends to itself: 1.000.");
        return;
    }
    if (!st->selected) {
        view_say(t, "Choose a head.");
        return;
    }
    if (st->token < 0) {
        describe_heads(t, v, st);
        return;
    }
    float *row = qkv_alloc((size_t)v->shape.keys, sizeof *row);
    if (row)
        describe_token(t, v, st, row);
    else
        t->failed = true;
    qkv_free(row);
}

char *qkv_view_sentence(const qkv_view *v, const struct qkv_view_options *o, char *out, size_t size)
{
    struct view_text t = { 0 };
    struct view_selection st;
    const struct view_stack *k;
    if (!out || !size) return out;
    out[0] = 0;
    const bool compare = v && v->against && o && o->view && strcmp(o->view, "compare") == 0;
    if (!view_select_stack(&k, v, o, NULL) && !view_select(&st, k, o, compare, NULL)) {
        if (compare)
            view_compare_sentence(&t, v, k, &st);
        else
            view_sentence(&t, k, &st);
    }
    view_text_copy(out, size, &t);
    view_text_free(&t);
    return out;
}
