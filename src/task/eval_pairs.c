// SPDX-License-Identifier: MIT
// eval_pairs.c: an encoder-decoder on pairs: every source decoded once, compared with all its
// targets.
#include "task/eval_work.h"
#include <stdlib.h>
#include <string.h>

enum { GROUP = 64 }; // sources decoded side by side

// Pairs of the validation split; those with one source stand together.
struct pair {
    int64_t source, source_count, target, target_count; // in ids
    int64_t number;                                     // in the split
};
struct pairs {
    int32_t *ids;
    struct pair *pair;
    int64_t n, used, ids_room, pair_room;
    int64_t *first; // [groups + 1] pairs of each source, groups in the order of their first
    int64_t groups;
};

static bool keep_ids(struct pairs *x, const int32_t *ids, int64_t n, int64_t *at)
{
    void *p = x->ids;
    const bool ok = qkv_reserve(&p, &x->ids_room, x->used + n + 1, sizeof *x->ids);
    x->ids = p;
    if (!ok) return false;
    if (n) memcpy(x->ids + x->used, ids, (size_t)n * sizeof *ids);
    *at = x->used;
    x->used += n;
    return true;
}

static bool keep_pair(struct pairs *x, const struct qkv_net_batch *b, int64_t i, int64_t number)
{
    const int64_t *in = b->in.offsets + i, *from = b->source.offsets + i;
    struct pair one = { .source_count = from[1] - from[0],
                        .target_count = in[1] - in[0] - 1, // the end is a row too
                        .number = number };
    void *p = x->pair;
    const bool ok = qkv_reserve(&p, &x->pair_room, x->n + 1, sizeof *x->pair);
    x->pair = p;
    if (!ok || !keep_ids(x, b->source.ids + from[0], one.source_count, &one.source) ||
        !keep_ids(x, b->targets + in[0], one.target_count, &one.target))
        return false;
    x->pair[x->n++] = one;
    return true;
}

// Same source, same place; qsort has no context, so ids are compared by a copy of their address.
static const int32_t *sorting;
static pthread_mutex_t sorting_lock = PTHREAD_MUTEX_INITIALIZER;
static int by_source(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    if (x->source_count != y->source_count) return x->source_count < y->source_count ? -1 : 1;
    const int order =
        memcmp(sorting + x->source, sorting + y->source, (size_t)x->source_count * sizeof *sorting);
    if (order) return order;
    return x->number < y->number ? -1 : x->number > y->number;
}

struct group {
    int64_t first, number; // place of its first pair, and that one's number
};
static int by_number(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static bool same_source(const struct pairs *x, int64_t i, int64_t k)
{
    const struct pair *a = &x->pair[i], *b = &x->pair[k];
    return a->source_count == b->source_count && !memcmp(x->ids + a->source, x->ids + b->source,
                                                         (size_t)a->source_count * sizeof *x->ids);
}

// x->pair sorted so that groups stand in the order of their first pairs.
static bool group_pairs(struct pairs *x)
{
    struct group *g = qkv_alloc((size_t)x->n + 1, sizeof *g);
    struct pair *sorted = qkv_alloc((size_t)x->n + 1, sizeof *sorted);
    x->first = qkv_alloc((size_t)x->n + 1, sizeof *x->first);
    const bool ok = g && sorted && x->first;
    if (ok) {
        pthread_mutex_lock(&sorting_lock);
        sorting = x->ids;
        qsort(x->pair, (size_t)x->n, sizeof *x->pair, by_source);
        pthread_mutex_unlock(&sorting_lock);
        for (int64_t i = 0; i < x->n; i++)
            if (!i || !same_source(x, i - 1, i))
                g[x->groups++] = (struct group){ i, x->pair[i].number };
        qsort(g, (size_t)x->groups, sizeof *g, by_number);
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
    qkv_status s = QKV_OK;
    for (int64_t at = 0; !s && at < e->info.sequences[1]; at = d.next) {
        s = qkv_data_valid(e->data, &d, at, &e->draw, err);
        for (int64_t i = 0; i < d.sequences && !s; i++)
            if (!keep_pair(x, &d.batch, i, at + i)) s = qkv_fail_memory(err, NULL);
    }
    qkv_drawn_free(&d);
    if (!s && !group_pairs(x)) s = qkv_fail_memory(err, NULL);
    return s;
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
    qkv_status s = qkv_tokenizer_decode(t, none, sizeof none, &need, ids, n, skip_special, err);
    if (s) return s;
    *out = qkv_alloc(need + 1, 1);
    if (!*out) return qkv_fail_memory(err, NULL);
    return qkv_tokenizer_decode(t, *out, need + 1, &need, ids, n, skip_special, err);
}

// One source with its answer, as it is told and counted.
struct answer {
    struct qkv_eval_example seen;
    char *source, *output, **references;
    real *weights;
    float *alignment;
    const char **out_token, **source_token;
};

static void answer_free(struct answer *a)
{
    for (int64_t i = 0; i < a->seen.n_references; i++) qkv_free(a->references[i]);
    qkv_free(a->references);
    qkv_free(a->source);
    qkv_free(a->output);
    qkv_free(a->weights);
    qkv_free(a->alignment);
    qkv_free((void *)a->out_token);
    qkv_free((void *)a->source_token);
}

// Heads of the last layer, averaged, for the output with its end.
static qkv_status align(struct answer *a, const struct eval *e, const struct pairs *x,
                        const struct pair *p, const int32_t *ids, int64_t n, qkv_error *err)
{
    const bool gru = qkv_net_kind(e->net) == QKV_NET_GRU_ATTENTION;
    const int64_t T = n + 1, S = p->source_count, H = gru ? 1 : qkv_net_shape(e->net)->heads;
    const int64_t offsets[2] = { 0, T }, source_offsets[2] = { 0, S };
    int32_t *in = qkv_alloc((size_t)T, sizeof *in);
    a->weights = qkv_alloc((size_t)(H * T * S), sizeof *a->weights);
    a->alignment = qkv_alloc_zero((size_t)(T * S), sizeof *a->alignment);
    a->out_token = qkv_alloc((size_t)T, sizeof *a->out_token);
    a->source_token = qkv_alloc((size_t)S, sizeof *a->source_token);
    qkv_status s = QKV_OK;
    if (!in || !a->weights || !a->alignment || !a->out_token || !a->source_token) {
        s = qkv_fail_memory(err, NULL);
    } else {
        in[0] = e->draw.bos;
        memcpy(in + 1, ids, (size_t)n * sizeof *in);
        const struct qkv_sequences left = { .n = 1, .offsets = offsets, .ids = in };
        const struct qkv_sequences right = { .n = 1,
                                             .offsets = source_offsets,
                                             .ids = x->ids + p->source };
        s = qkv_net_alignment(e->net, a->weights, -1, &left, &right, err);
    }
    for (int64_t i = 0; i < H * T * S && !s; i++)
        a->alignment[i % (T * S)] += (float)a->weights[i] / (float)H;
    for (int64_t i = 0; i < T && !s; i++)
        a->out_token[i] = qkv_tokenizer_token(e->tokenizer, i < n ? ids[i] : e->draw.eos);
    for (int64_t i = 0; i < S && !s; i++)
        a->source_token[i] = qkv_tokenizer_token(e->tokenizer, x->ids[p->source + i]);
    qkv_free(in);
    if (s) return s;
    a->seen.alignment = a->alignment;
    a->seen.out_token = a->out_token;
    a->seen.source_token = a->source_token;
    a->seen.out_tokens = T;
    a->seen.source_tokens = S;
    return QKV_OK;
}

struct sums {
    int64_t exact, tokens, token_length, characters, character_length;
};

// Nearest reference by tokens, and by characters; the first of equals.
static bool count(struct sums *sums, struct answer *a)
{
    struct eval_distance best = { 0 };
    for (int64_t i = 0; i < a->seen.n_references; i++) {
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
        if (!strcmp(a->output, a->references[i])) a->seen.right = true;
    }
    sums->exact += a->seen.right;
    sums->tokens += best.tokens;
    sums->token_length += best.token_length;
    sums->characters += best.characters;
    sums->character_length += best.character_length;
    return true;
}

static qkv_status one_answer(struct eval *e, struct sums *sums, const struct pairs *x, int64_t g,
                             const int32_t *ids, int64_t n, qkv_error *err)
{
    struct answer a = { 0 };
    const struct pair *p = &x->pair[x->first[g]];
    const int64_t references = x->first[g + 1] - x->first[g];
    qkv_status s = text_of(&a.source, e->tokenizer, x->ids + p->source, p->source_count, true, err);
    if (!s) s = text_of(&a.output, e->tokenizer, ids, n, true, err);
    if (!s) {
        a.references = qkv_alloc_zero((size_t)references, sizeof *a.references);
        if (!a.references) s = qkv_fail_memory(err, NULL);
    }
    // An unknown token stays in what it should be, so that no output is that.
    for (; !s && a.seen.n_references < references; a.seen.n_references++)
        s = text_of(&a.references[a.seen.n_references], e->tokenizer,
                    x->ids + p[a.seen.n_references].target, p[a.seen.n_references].target_count,
                    false, err);
    if (!s && !count(sums, &a)) s = qkv_fail_memory(err, NULL);
    if (!s && e->watch.example) {
        a.seen.source = a.source;
        a.seen.output = a.output;
        a.seen.references = (const char *const *)a.references;
        if (e->watch.alignment) s = align(&a, e, x, p, ids, n, err);
        if (!s && e->watch.example(e->watch.user, &a.seen))
            s = qkv_fail(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
    }
    answer_free(&a);
    return s;
}

// Sources first .. first + n - 1 decoded side by side.
static qkv_status decode_group(struct eval *e, struct sums *sums, const struct pairs *x,
                               int64_t first, int64_t n, int32_t *ids, int64_t most, qkv_error *err)
{
    int64_t offsets[GROUP + 1] = { 0 }, lengths[GROUP], total = 0;
    for (int64_t i = 0; i < n; i++)
        offsets[i + 1] = total += x->pair[x->first[first + i]].source_count;
    int32_t *source = qkv_alloc((size_t)total + 1, sizeof *source);
    if (!source) return qkv_fail_memory(err, NULL);
    for (int64_t i = 0; i < n; i++) {
        const struct pair *p = &x->pair[x->first[first + i]];
        memcpy(source + offsets[i], x->ids + p->source, (size_t)p->source_count * sizeof *source);
    }
    const struct qkv_sequences in = { .n = n, .offsets = offsets, .ids = source };
    const int beam = e->o->beam ? e->o->beam : 4;
    const double penalty = train_real(e->o->penalty, 1);
    qkv_status s = qkv_net_decode(e->net, ids, lengths, most, beam, penalty, &in, err);
    for (int64_t i = 0; i < n && !s; i++)
        s = one_answer(e, sums, x, first + i, ids + i * most, lengths[i], err);
    qkv_free(source);
    return s;
}

qkv_status eval_pairs(struct eval *e, qkv_error *err)
{
    struct pairs x = { 0 };
    struct sums sums = { 0 };
    int32_t *ids = NULL;
    const int64_t positions = qkv_net_shape(e->net)->positions;
    const int64_t most = qkv_max64(1, qkv_min64(e->context, positions - 1));
    qkv_status s = collect(&x, e, err);
    const int64_t all = e->o->most > 0 ? qkv_min64(e->o->most, x.groups) : x.groups;
    if (!s) {
        ids = qkv_alloc((size_t)(GROUP * most), sizeof *ids);
        if (!ids) s = qkv_fail_memory(err, NULL);
    }
    for (int64_t at = 0; at < all && !s; at += GROUP) {
        s = eval_progress(e, "sources", at, all, err);
        if (!s) s = decode_group(e, &sums, &x, at, qkv_min64(GROUP, all - at), ids, most, err);
    }
    if (!s) {
        struct qkv_eval_result *r = e->result;
        r->sources = all;
        r->exact = (double)sums.exact / (double)all;
        r->token_errors = (double)sums.tokens / (double)qkv_max64(1, sums.token_length);
        r->character_errors = (double)sums.characters / (double)qkv_max64(1, sums.character_length);
    }
    qkv_free(ids);
    pairs_free(&x);
    return s;
}
