// SPDX-License-Identifier: MIT
// assemble.c: helps readers of other formats than tokenizer.json to build a tokenizer: adds tokens,
// merges and sections of JSON.
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "text/readers/readers.h"

bool qkv_assembly_add_merge(struct qkv_assembly *g, struct qkv_merge merge)
{
    void *p = g->merges;
    if (!qkv_reserve(&p, &g->merge_capacity, g->merge_count + 1, sizeof merge)) return false;
    g->merges = p;
    g->merges[g->merge_count++] = merge;
    return true;
}

void qkv_assembly_free(struct qkv_assembly *g)
{
    qkv_free(g->scores);
    qkv_absent_free(&g->absent);
    qkv_free(g->merges);
    memset(g, 0, sizeof *g);
}

bool qkv_assembly_add_token(qkv_tokenizer *t, const char *text, size_t bytes, int32_t id,
                            const char *what, int64_t number, qkv_error *err)
{
    int32_t got = id;
    if (!qkv_vocab_add(&t->vocab, text, bytes, id, 0) ||
        !qkv_trie_add(&t->vocab.trie, text, bytes, id, &got)) {
        qkv_fail_memory(err, t->file);
        return false;
    }
    if (got == id) return true;
    qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = t->file },
             "%s %" PRId64 ": duplicate token, expected each token once, found \"%.*s\" again",
             what, number, (int)qkv_min64((int64_t)bytes, 100), text);
    return false;
}

// ---- merges from scores ------------------------------------------------------------------------
struct scored {
    double score;
    int32_t id;
};

static int compare_scores(const void *ctx, const void *a, const void *b)
{
    (void)ctx;
    const struct scored *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool in_texts(const qkv_tokenizer *t, int32_t id)
{
    return id >= 0 && t->assembly.scores[id] != -INFINITY;
}

// Adds a merge for each split of the token into two tokens.  A hostile token may have very many
// splits, so *work limits the number of bytes examined.
static bool add_splits(qkv_tokenizer *t, const struct qkv_token *token, uint32_t rank,
                       int64_t *work)
{
    const char *text = t->vocab.pool + token->text;
    uint32_t node = QKV_TRIE_ROOT;
    for (uint32_t i = 0; i + 1 < token->bytes; i++) {
        node = qkv_trie_step(&t->vocab.trie, node, (uint8_t)text[i]);
        const int32_t left = t->vocab.trie.value[node];
        if (!in_texts(t, left)) continue;
        const int32_t right =
            qkv_trie_find(&t->vocab.trie, text + i + 1, (size_t)(token->bytes - i - 1));
        *work -= token->bytes - i;
        if (in_texts(t, right) &&
            !qkv_assembly_add_merge(&t->assembly,
                                    (struct qkv_merge){ left, right, token->id, rank }))
            return false;
    }
    return true;
}

bool qkv_assembly_derive_merges(qkv_tokenizer *t, qkv_error *err)
{
    enum { WORK = 256 }; // bytes examined per byte of the vocabulary; usual vocabularies need 3
    const struct qkv_vocab *v = &t->vocab;
    int64_t work = v->pool_count * WORK, count = 0;
    uint32_t rank = 0;
    bool ok = true;
    struct scored *order = qkv_alloc((size_t)qkv_max64(v->count, 1), sizeof *order);
    if (!order) {
        qkv_fail_memory(err, t->file);
        return false;
    }
    for (int64_t i = 0; i < v->count; i++)
        if (in_texts(t, v->tokens[i].id))
            order[count++] = (struct scored){ t->assembly.scores[v->tokens[i].id], (int32_t)i };
    ok = qkv_sort(order, count, sizeof *order, compare_scores, NULL);
    for (int64_t i = 0; i < count && ok && work >= 0; i++) {
        rank += i && order[i].score != order[i - 1].score;
        ok = add_splits(t, &v->tokens[order[i].id], rank, &work);
    }
    qkv_free(order);
    t->assembly.merged = true;
    if (!ok) qkv_fail_memory(err, t->file);
    if (work < 0)
        qkv_fail(err, QKV_ERR_LIMIT, &(struct qkv_location){ .file = t->file },
                 "merges cannot be derived from the tokens: they can be split into pairs of tokens "
                 "in too many ways");
    return ok && work >= 0;
}

// ---- sections of the JSON ----------------------------------------------------------------------
static void append_flag(struct qkv_text_buffer *json, const char *name, bool value)
{
    qkv_text_append_string(json, name);
    qkv_text_append_string(json, value ? "true" : "false");
}

void qkv_assembly_append_added(struct qkv_text_buffer *json, bool *first, int32_t id,
                               const char *text, bool special, bool normalized, bool lstrip)
{
    qkv_text_append_string(json, *first ? "{\"id\":" : ",{\"id\":");
    *first = false;
    qkv_text_append_integer(json, id);
    qkv_text_append_string(json, ",\"content\":");
    qkv_text_append_json(json, text, strlen(text), QKV_JSON_PLAIN);
    append_flag(json, ",\"special\":", special);
    append_flag(json, ",\"normalized\":", normalized);
    append_flag(json, ",\"lstrip\":", lstrip);
    qkv_text_append_string(json, "}");
}

// Appends {"SpecialToken":{"id":TEXT,"type_id":0}} to json.
static void append_special(struct qkv_text_buffer *json, const char *text)
{
    qkv_text_append_string(json, "{\"SpecialToken\":{\"type_id\":0,\"id\":");
    qkv_text_append_json(json, text, strlen(text), QKV_JSON_PLAIN);
    qkv_text_append_string(json, "}}");
}

static void append_declaration(struct qkv_text_buffer *json, const char *text, int32_t id)
{
    qkv_text_append_json(json, text, strlen(text), QKV_JSON_PLAIN);
    qkv_text_append_string(json, ":{\"id\":");
    qkv_text_append_json(json, text, strlen(text), QKV_JSON_PLAIN);
    qkv_text_append_string(json, ",\"ids\":[");
    qkv_text_append_integer(json, id);
    qkv_text_append_string(json, "],\"tokens\":[");
    qkv_text_append_json(json, text, strlen(text), QKV_JSON_PLAIN);
    qkv_text_append_string(json, "]}");
}

void qkv_assembly_append_template(struct qkv_text_buffer *json, const qkv_tokenizer *t,
                                  int32_t before, int32_t after)
{
    const char *texts[2] = { before < 0 ? NULL : qkv_tokenizer_token(t, before),
                             after < 0 ? NULL : qkv_tokenizer_token(t, after) };
    const int32_t ids[2] = { before, after };
    static const char *const names[2] = { "\"A\",\"type_id\":0", "\"B\",\"type_id\":1" };
    qkv_text_append_string(json, "{\"type\":\"TemplateProcessing\"");
    for (int two = 0; two < 2; two++) {
        qkv_text_append_string(json, two ? ",\"pair\":[" : ",\"single\":[");
        for (int i = 0; i <= two; i++) {
            if (i) qkv_text_append_string(json, ",");
            if (texts[0]) append_special(json, texts[0]);
            if (texts[0]) qkv_text_append_string(json, ",");
            qkv_text_append_string(json, "{\"Sequence\":{\"id\":");
            qkv_text_append_string(json, names[i]);
            qkv_text_append_string(json, "}}");
            if (texts[1]) qkv_text_append_string(json, ",");
            if (texts[1]) append_special(json, texts[1]);
        }
        qkv_text_append_string(json, "]");
    }
    qkv_text_append_string(json, ",\"special_tokens\":{");
    for (int i = 0, any = 0; i < 2; i++) {
        if (!texts[i] || (i && texts[0] && ids[0] == ids[1])) continue;
        if (any++) qkv_text_append_string(json, ",");
        append_declaration(json, texts[i], ids[i]);
    }
    qkv_text_append_string(json, "}}");
}
