// SPDX-License-Identifier: MIT
// test_entities.c: compares the entities of texts with the token-classification pipeline of
// transformers (tools/golden_entities.py), for each aggregation and each kind of tokenizer; and
// finds entities with failing allocations.
#include "base/faults.h"
#include "model/folder.h"
#include "task/embed/embed_internal.h"
#include <math.h>
#include <qkv/entities.h>

#define PLACE "tests/golden/entities/"
static const char *const kinds[] = { "wordpiece", "bpe", "unigram" };
static const char *const aggregations[] = { "none", "simple", "first", "average", "max" };

static void open_both(qkv_model **m, qkv_tokenizer **t, const char *kind)
{
    char dir[256];
    qkv_error err = { 0 };
    snprintf(dir, sizeof dir, PLACE "%s", kind);
    if (qkv_model_open(m, dir, NULL, &err) || qkv_tokenizer_open(t, dir, &err))
        fail_msg("%s: %s %s", kind, err.path, err.text);
}

static int64_t number(const json_t *of, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(of, key));
}

// Returns the number of bytes of the first `characters` characters of a valid text.
static int64_t bytes_of(const char *text, int64_t characters)
{
    int64_t at = 0;
    while (characters--) at += (int64_t)qkv_utf8_bytes(text + at, strlen(text + at));
    return at;
}

// Checks the bytes of an entity against its characters, and its tokens against the reference, which
// has the index and the characters of each token.
static void compare_places(const char *where, const struct qkv_entity *x, const char *text,
                           const json_t *tokens)
{
    const int64_t n = (int64_t)json_array_size(tokens);
    int64_t from = 0;
    CHECK_EQ(x->begin, bytes_of(text, x->first));
    CHECK_EQ(x->end, bytes_of(text, x->last));
    while (from < n && number(json_array_get(tokens, (size_t)from), "index") != x->token) from++;
    if (x->tokens < 1 || x->tokens > n - from)
        fail_msg("%s: %s has %lld tokens from %lld", where, x->word, (long long)x->tokens,
                 (long long)x->token);
    const json_t *last = json_array_get(tokens, (size_t)(from + x->tokens - 1));
    CHECK_EQ(number(json_array_get(tokens, (size_t)from), "start"), x->first);
    CHECK_EQ(number(last, "end"), x->last);
    CHECK_EQ(number(last, "index"), x->token + x->tokens - 1);
}

// Compares the entities of a text with a list of the reference. The reference computes in float:
// scores, softmax and mean differ by a few roundings, 1e-5 at most.
static void compare(const char *where, const struct qkv_entities *e, const char *text,
                    const json_t *want, const json_t *tokens, bool none)
{
    if (e->count != (int64_t)json_array_size(want))
        fail_msg("%s: %lld entities, expected %lld", where, (long long)e->count,
                 (long long)json_array_size(want));
    for (int64_t i = 0; i < e->count; i++) {
        const struct qkv_entity *x = &e->entity[i];
        const json_t *y = json_array_get(want, (size_t)i);
        CHECK_TEXT(x->label,
                   json_string_value(json_object_get(y, none ? "entity" : "entity_group")));
        CHECK_TEXT(x->word, json_string_value(json_object_get(y, "word")));
        CHECK_EQ(x->first, number(y, "start"));
        CHECK_EQ(x->last, number(y, "end"));
        if (none) CHECK_EQ(x->token, number(y, "index"));
        compare_places(where, x, text, tokens);
        // with the entities outside, every token is in one entity
        CHECK_EQ(x->token,
                 i ? x[-1].token + x[-1].tokens : number(json_array_get(tokens, 0), "index"));
        const double score = json_real_value(json_object_get(y, "score"));
        if (!(fabs((double)x->score - score) <= 1e-5))
            fail_msg("%s: %s has %g, expected %g", where, x->word, (double)x->score, score);
    }
    const struct qkv_entity *end = e->count ? &e->entity[e->count - 1] : NULL;
    const json_t *token = json_array_get(tokens, json_array_size(tokens) - 1);
    if (end) CHECK_EQ(end->token + end->tokens, number(token, "index") + 1);
}

TEST(entities_are_those_of_the_reference_s_pipeline)
{
    EACH(kind, kinds)
    {
        qkv_model *m = NULL;
        qkv_tokenizer *t = NULL;
        struct qkv_entities e = { 0 };
        char file[256], where[256];
        json_error_t parse;
        open_both(&m, &t, *kind);
        snprintf(file, sizeof file, PLACE "%s/entities.json", *kind);
        json_t *texts = json_load_file(file, 0, &parse);
        CHECK(json_array_size(texts) >= 10);
        for (size_t i = 0; i < json_array_size(texts); i++)
            for (int how = 0; how <= QKV_AGGREGATE_MAX; how++) {
                const json_t *row = json_array_get(texts, i);
                const char *text = json_string_value(json_object_get(row, "text"));
                const struct qkv_entities_options o = { .aggregate = (enum qkv_aggregation)how,
                                                        .outside = true };
                qkv_error err = { 0 };
                snprintf(where, sizeof where, "%s, \"%.60s\", %s", *kind, text, aggregations[how]);
                if (qkv_entities_find(&e, m, t, text, strlen(text), &o, &err))
                    fail_msg("%s: %s", where, err.text);
                compare(where, &e, text, json_object_get(row, aggregations[how]),
                        json_object_get(row, aggregations[0]), how == 0);
                // entities outside, "O", are left out unless they are asked for
                const struct qkv_entities_options inside = { .aggregate =
                                                                 (enum qkv_aggregation)how };
                const int64_t all = e.count;
                int64_t outside = 0;
                for (int64_t k = 0; k < all; k++) outside += !strcmp(e.entity[k].label, "O");
                CHECK_EQ(qkv_entities_find(&e, m, t, text, strlen(text), &inside, &err), QKV_OK);
                CHECK_EQ(e.count, all - outside);
            }
        json_decref(texts);
        qkv_entities_free(&e);
        qkv_tokenizer_close(t);
        qkv_model_close(m);
    }
}

TEST(a_long_text_is_refused_or_cut)
{
    qkv_model *m = NULL;
    qkv_tokenizer *t = NULL;
    struct qkv_entities e = { 0 };
    struct qkv_entities_options o = { .outside = true };
    char text[200] = { 0 };
    qkv_error err = { 0 };
    for (int i = 0; i < 198; i += 2) memcpy(text + i, "a ", 2);
    open_both(&m, &t, "wordpiece");
    CHECK_EQ(qkv_entities_find(&e, m, t, text, strlen(text), &o, &err), QKV_ERR_USAGE);
    CHECK_EQ(e.count, 0);
    o.truncate = true;
    CHECK_EQ(qkv_entities_find(&e, m, t, text, strlen(text), &o, NULL), QKV_OK);
    CHECK_EQ(e.count, 62); // 64 positions without two special tokens
    CHECK_EQ(e.cut, 99 - 62);
    CHECK_EQ(qkv_entities_find(&e, m, NULL, text, strlen(text), &o, NULL), QKV_ERR_USAGE);
    CHECK(e.count == 0 && e.cut == 0); // no error leaves the entities of the call before it
    qkv_entities_free(&e);
    qkv_tokenizer_close(t);
    qkv_model_close(m);
}

static qkv_status find_once(void *ctx, qkv_error *err)
{
    qkv_model *m = NULL;
    qkv_tokenizer *t = NULL;
    struct qkv_entities e = { 0 };
    const struct qkv_entities_options o = { .aggregate = QKV_AGGREGATE_AVERAGE, .outside = true };
    (void)ctx;
    qkv_status status = qkv_model_open(&m, PLACE "wordpiece", NULL, err);
    if (!status) status = qkv_tokenizer_open(&t, PLACE "wordpiece", err);
    if (!status) status = qkv_entities_find(&e, m, t, "Emily in Boston", 15, &o, err);
    CHECK(!status || !e.count);
    qkv_entities_free(&e);
    qkv_tokenizer_close(t);
    qkv_model_close(m);
    return status;
}

TEST(without_memory_nothing_is_found_or_lost)
{
    CHECK(faults_walk(find_once, NULL, false) > 50); // the tokenizer's cache is optional
}

CHECK_MAIN(CASE(entities_are_those_of_the_reference_s_pipeline),
           CASE(a_long_text_is_refused_or_cut), CASE(without_memory_nothing_is_found_or_lost))
