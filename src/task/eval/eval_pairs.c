// SPDX-License-Identifier: MIT
// eval_pairs.c: measures an encoder-decoder on pairs of texts: translates each different source
// once, and compares the output with the targets of all pairs that have this source.
#include "task/eval/eval_internal.h"
#include <stdlib.h>
#include <string.h>

// A pair of the validation split. Its source and target are ranges of pairs.ids.
struct pair {
    int64_t source, source_count, target, target_count; // source and target: index of the first id
    int64_t number;                                     // index of the pair in the split
};
struct pairs {
    int32_t *ids;
    struct pair *pair;
    int64_t n, used, ids_capacity, pair_capacity;
    // [groups + 1] index of the first pair of each group. A group contains all pairs with the same
    // source; the groups are in the order of their first pairs in the split.
    int64_t *first;
    int64_t groups;
};

static bool keep_ids(struct pairs *x, const int32_t *ids, int64_t n, int64_t *at)
{
    void *p = x->ids;
    const bool ok = qkv_reserve(&p, &x->ids_capacity, x->used + n + 1, sizeof *x->ids);
    x->ids = p;
    if (!ok) return false;
    if (n) memcpy(x->ids + x->used, ids, (size_t)n * sizeof *ids);
    *at = x->used;
    x->used += n;
    return true;
}

// Adds pair i of a batch. If forces is true, every target begins with the same token, which is left
// out. Returns false if memory is exhausted.
static bool keep_pair(struct pairs *x, const struct qkv_net_batch *b, int64_t i, int64_t number,
                      bool forces)
{
    const int64_t *in = b->in.offsets + i, *from = b->source.offsets + i;
    struct pair one = { .source_count = from[1] - from[0],
                        .target_count = in[1] - in[0] - 1 - forces, // - 1: without the end token
                        .number = number };
    void *p = x->pair;
    const bool ok = qkv_reserve(&p, &x->pair_capacity, x->n + 1, sizeof *x->pair);
    x->pair = p;
    if (!ok || !keep_ids(x, b->source.ids + from[0], one.source_count, &one.source) ||
        !keep_ids(x, b->targets + in[0] + forces, one.target_count, &one.target))
        return false;
    x->pair[x->n++] = one;
    return true;
}

static int compare_sources(const void *ctx, const void *a, const void *b)
{
    const struct pairs *all = ctx;
    const struct pair *x = a, *y = b;
    if (x->source_count != y->source_count) return x->source_count < y->source_count ? -1 : 1;
    return memcmp(all->ids + x->source, all->ids + y->source,
                  (size_t)x->source_count * sizeof *all->ids);
}

struct group {
    // first: index in x->pair of the group's first pair; number: that pair's index in the split
    int64_t first, number;
};
static int compare_numbers(const void *ctx, const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    (void)ctx;
    return x->number < y->number ? -1 : x->number > y->number;
}

static bool same_source(const struct pairs *x, int64_t i, int64_t k)
{
    return compare_sources(x, &x->pair[i], &x->pair[k]) == 0;
}

// Sorts the pairs, so that pairs with the same source form a group. The groups are in the order of
// their first pairs in the split.
static bool group_pairs(struct pairs *x)
{
    struct group *g = qkv_alloc((size_t)x->n + 1, sizeof *g);
    struct pair *sorted = qkv_alloc((size_t)x->n + 1, sizeof *sorted);
    x->first = qkv_alloc((size_t)x->n + 1, sizeof *x->first);
    bool ok = g && sorted && x->first;
    ok = ok && qkv_sort(x->pair, x->n, sizeof *x->pair, compare_sources, x);
    for (int64_t i = 0; ok && i < x->n; i++)
        if (!i || !same_source(x, i - 1, i))
            g[x->groups++] = (struct group){ i, x->pair[i].number };
    ok = ok && qkv_sort(g, x->groups, sizeof *g, compare_numbers, NULL);
    if (ok) {
        int64_t to = 0;
        for (int64_t k = 0; k < x->groups; k++) {
            x->first[k] = to;
            for (int64_t i = g[k].first; i < x->n && same_source(x, g[k].first, i); i++)
                sorted[to++] = x->pair[i];
        }
        x->first[x->groups] = to;
        memcpy(x->pair, sorted, (size_t)x->n * sizeof *sorted);
    }
    qkv_free(g);
    qkv_free(sorted);
    return ok;
}

static qkv_status collect(struct pairs *x, const struct eval *e, qkv_error *err)
{
    struct qkv_drawn d = { 0 };
    qkv_status status = QKV_OK;
    for (int64_t at = 0; !status && at < e->info.sequences[1]; at = d.next) {
        status = qkv_data_valid(e->data, &d, at, &e->draw, err);
        for (int64_t i = 0; i < d.sequences && !status; i++)
            if (!keep_pair(x, &d.batch, i, at + i, e->draw.forces))
                status = qkv_fail_memory(err, NULL);
    }
    qkv_drawn_free(&d);
    if (!status && !group_pairs(x)) status = qkv_fail_memory(err, NULL);
    return status;
}

static void pairs_free(struct pairs *x)
{
    qkv_free(x->ids);
    qkv_free(x->pair);
    qkv_free(x->first);
}

// ---- texts --------------------------------------------------------------------------------------
static qkv_status text_of(char **out, const qkv_tokenizer *t, const int32_t *ids, int64_t n,
                          bool skip_special, qkv_error *err)
{
    size_t need = 0;
    char none[1];
    *out = NULL;
    qkv_status status =
        qkv_tokenizer_decode(t, none, sizeof none, &need, ids, n, skip_special, err);
    if (status) return status;
    *out = qkv_alloc(need + 1, 1);
    if (!*out) return qkv_fail_memory(err, NULL);
    return qkv_tokenizer_decode(t, *out, need + 1, &need, ids, n, skip_special, err);
}

// The text of a source, of its output and of its references (the targets of its group).
struct answer {
    struct qkv_eval_example example;
    char *source, *output, **references;
    const char **out_token, **source_token;
};

static void answer_free(struct answer *a)
{
    for (int64_t i = 0; i < a->example.n_references; i++) qkv_free(a->references[i]);
    qkv_free(a->references);
    qkv_free(a->source);
    qkv_free(a->output);
    qkv_free((void *)a->out_token);
    qkv_free((void *)a->source_token);
}

// Adds the alignment of an output to the example, with the texts of its source and output tokens.
static qkv_status name_tokens(struct answer *a, const struct eval *e, const struct qkv_generated *g,
                              qkv_error *err)
{
    const int64_t rows = g->tokens + (g->ending == QKV_END_TOKEN);
    a->out_token = qkv_alloc((size_t)rows + 1, sizeof *a->out_token);
    a->source_token = qkv_alloc((size_t)g->source_tokens + 1, sizeof *a->source_token);
    if (!a->out_token || !a->source_token) return qkv_fail_memory(err, NULL);
    for (int64_t i = 0; i < rows; i++)
        a->out_token[i] =
            qkv_tokenizer_token(e->tokenizer, i < g->tokens ? g->ids[i] : e->draw.eos);
    for (int64_t i = 0; i < g->source_tokens; i++)
        a->source_token[i] = qkv_tokenizer_token(e->tokenizer, g->source_ids[i]);
    a->example.alignment = g->alignment;
    a->example.out_token = a->out_token;
    a->example.source_token = a->source_token;
    a->example.out_tokens = rows;
    a->example.source_tokens = g->source_tokens;
    return QKV_OK;
}

struct sums {
    int64_t exact, tokens, token_length, characters, character_length;
};

// Compares an output with its references. Adds the smallest distance in words and the smallest
// distance in characters to the sums. Returns false if memory is exhausted.
static bool count(struct sums *sums, struct answer *a)
{
    struct eval_distance best = { 0 };
    for (int64_t i = 0; i < a->example.n_references; i++) {
        struct eval_distance d;
        if (!eval_distance(&d, a->output, a->references[i])) return false;
        if (!i || d.tokens < best.tokens) {
            best.tokens = d.tokens;
            best.token_length = d.token_length;
        }
        if (!i || d.characters < best.characters) {
            best.characters = d.characters;
            best.character_length = d.character_length;
        }
        if (!strcmp(a->output, a->references[i])) a->example.right = true;
    }
    sums->exact += a->example.right;
    sums->tokens += best.tokens;
    sums->token_length += best.token_length;
    sums->characters += best.characters;
    sums->character_length += best.character_length;
    return true;
}

// Compares the output for group g->prompt with its references and passes it to the caller's
// callback.
static qkv_status take_answer(const struct eval *e, struct sums *sums, const struct pairs *x,
                              const struct qkv_generated *g, qkv_error *err)
{
    struct answer a = { 0 };
    const struct pair *p = &x->pair[x->first[g->prompt]];
    const int64_t references = x->first[g->prompt + 1] - x->first[g->prompt];
    qkv_status status =
        text_of(&a.source, e->tokenizer, x->ids + p->source, p->source_count, true, err);
    if (!status) status = text_of(&a.output, e->tokenizer, g->ids, g->tokens, true, err);
    if (!status) {
        a.references = qkv_alloc_zero((size_t)references, sizeof *a.references);
        if (!a.references) status = qkv_fail_memory(err, NULL);
    }
    // The text of a reference includes special tokens. So a reference with the unknown token
    // differs from every output.
    for (; !status && a.example.n_references < references; a.example.n_references++)
        status = text_of(&a.references[a.example.n_references], e->tokenizer,
                         x->ids + p[a.example.n_references].target,
                         p[a.example.n_references].target_count, false, err);
    if (!status && !count(sums, &a)) status = qkv_fail_memory(err, NULL);
    if (!status && e->observer.example) {
        a.example.source = a.source;
        a.example.output = a.output;
        a.example.references = (const char *const *)a.references;
        if (g->alignment) status = name_tokens(&a, e, g, err);
        if (!status && e->observer.example(e->observer.user, &a.example))
            status = qkv_fail(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
    }
    answer_free(&a);
    return status;
}

// ---- translation --------------------------------------------------------------------------------
struct translation {
    const struct eval *e;
    const struct pairs *pairs;
    struct sums sums;
    qkv_status status; // error of on_output, or QKV_OK
    qkv_error err;
};

static int on_output(void *user, const struct qkv_generated *g)
{
    struct translation *t = user;
    t->status = take_answer(t->e, &t->sums, t->pairs, g, &t->err);
    return t->status != QKV_OK;
}

static int on_progress(void *user, const char *what, int64_t done, int64_t total)
{
    const struct translation *t = user;
    const struct qkv_progress *p = &t->e->observer.progress;
    (void)what;
    return p->step ? p->step(p->user, "sources", done, total) : 0;
}

// Translates the sources of the first n groups.
static qkv_status translate(struct translation *t, int64_t n, qkv_error *err)
{
    const struct eval *e = t->e;
    const struct pairs *x = t->pairs;
    const struct qkv_generate_options o = {
        .max_tokens = qkv_max64(1, qkv_min64(e->context, e->is.positions - 1)),
        .beams = e->o->beam ? e->o->beam : 4,
        .length_penalty = e->o->penalty,
        .early = QKV_EARLY_FULL,
        .alignment = e->observer.alignment && e->observer.example,
        .output = on_output,
        .user = t,
        .progress = { .step = on_progress, .user = t }
    };
    int64_t *offsets = qkv_alloc_zero((size_t)n + 1, sizeof *offsets);
    for (int64_t i = 0; offsets && i < n; i++)
        offsets[i + 1] = offsets[i] + x->pair[x->first[i]].source_count;
    int32_t *source = offsets ? qkv_alloc((size_t)offsets[n] + 1, sizeof *source) : NULL;
    qkv_status status = source ? QKV_OK : qkv_fail_memory(err, NULL);
    for (int64_t i = 0; !status && i < n; i++) {
        const struct pair *p = &x->pair[x->first[i]];
        memcpy(source + offsets[i], x->ids + p->source, (size_t)p->source_count * sizeof *source);
    }
    if (!status) {
        qkv_error found = { 0 };
        status = qkv_translate_ids(e->translator, source, offsets, n, &o, &found);
        // The translation stopped because on_output failed: report that error.
        if (t->status) found = t->err;
        if (t->status) status = t->status;
        if (status && err && !err->status) *err = found;
    }
    qkv_free(offsets);
    qkv_free(source);
    return status;
}

qkv_status eval_pairs(struct eval *e, qkv_error *err)
{
    struct pairs x = { 0 };
    struct translation t = { .e = e, .pairs = &x };
    qkv_status status = collect(&x, e, err);
    const int64_t all = e->o->most > 0 ? qkv_min64(e->o->most, x.groups) : x.groups;
    if (!status) status = translate(&t, all, err);
    if (!status) {
        struct qkv_eval_result *r = e->result;
        const struct sums *sums = &t.sums;
        r->sources = all;
        r->exact = (double)sums->exact / (double)all;
        r->token_errors = (double)sums->tokens / (double)qkv_max64(1, sums->token_length);
        r->character_errors =
            (double)sums->characters / (double)qkv_max64(1, sums->character_length);
    }
    pairs_free(&x);
    return status;
}
