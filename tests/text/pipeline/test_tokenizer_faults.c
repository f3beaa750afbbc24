// SPDX-License-Identifier: MIT
// test_tokenizer_faults.c: makes every single allocation fail while a tokenizer of each model is
// opened, used and trained: QKV_ERR_LIMIT, no leak, no file left.
#include "base/faults.h"
#include <qkv/train.h>
#include <unistd.h>
#include "text/text_internal.h"

static const char text[] =
    "The animal  didn't cross\n\n the stra\xc3\x9f"
    "e, 123 \xe4\xb8\xad\xe6\x96\x87 "
    "\xff tired. new <s> aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

struct use {
    char *json;
};

static qkv_status open_and_use(void *ctx, qkv_error *err)
{
    const struct use *u = ctx;
    qkv_tokenizer *t = NULL;
    qkv_encoding e = { 0 };
    char out[256];
    qkv_status status = qkv_tokenizer_parse(&t, u->json, strlen(u->json), "made", err);
    CHECK((status == QKV_OK) == (t != NULL));
    if (!status) status = qkv_tokenizer_encode(t, &e, text, sizeof text - 1, "pair", 4, NULL, err);
    if (!status)
        status = qkv_tokenizer_decode(t, out, sizeof out, NULL, e.ids, e.count, false, err);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
    return status;
}

// Parsing JSON makes hundreds of similar allocations: some of them fail here, and all of the last
// ones.
static void walk(faults_flow flow, void *ctx)
{
    enum { LAST = 8, SOME = 8 };
    qkv_error err = { 0 };
    faults_begin(0, false);
    CHECK_EQ(flow(ctx, &err), QKV_OK);
    const int64_t total = atomic_load(&faults_asked), step = 1 + total / SOME;
    CHECK_EQ(faults_end(NULL), 0);
    CHECK(total > LAST);
    for (int64_t n = 1; n <= total; n += n < total - LAST - step ? step : 1) {
        bool hit;
        err = (qkv_error){ 0 };
        faults_begin(n, true);
        const qkv_status status = flow(ctx, &err);
        CHECK_EQ(faults_end(&hit), 0);
        CHECK(hit);
        CHECK_EQ(status, QKV_ERR_LIMIT);
        CHECK_EQ(err.status, status);
    }
}

TEST(allocations_of_every_model_may_fail)
{
    static const char *const files[] = { "bpe_bytes", "bpe_chars", "unigram", "wordlevel",
                                         "regex" };
    EACH(file, files)
    {
        char path[128];
        json_error_t why;
        snprintf(path, sizeof path, "tests/golden/text/%s.json", *file);
        json_t *all = json_load_file(path, JSON_ALLOW_NUL, &why);
        const json_t *base = json_object_get(all, "base"), *groups = json_object_get(all, "groups");
        CHECK(base);
        // The original form, and a later one with other pre-tokenizers and added tokens.
        for (size_t g = 0; g < json_array_size(groups); g += 36) {
            json_t *whole = json_copy((json_t *)(uintptr_t)base);
            json_object_update(whole, json_object_get(json_array_get(groups, g), "patch"));
            struct use u = { json_dumps(whole, JSON_COMPACT) };
            json_decref(whole);
            walk(open_and_use, &u);
            faults_free(u.json);
        }
        json_decref(all);
    }
}

#define PATH "build/.faults.json"
static qkv_status learn(void *ctx, qkv_error *err)
{
    const char *special[] = { "<s>" }, *texts[] = { text, text };
    const size_t bytes[] = { sizeof text - 1, 30 };
    const struct qkv_tokenizer_training how = {
        .kind = ctx, .vocab = 280, .special = special, .specials = 1, .begin = "<s>", .end = "</s>"
    };
    const qkv_status status = qkv_tokenizer_train(PATH, texts, bytes, 2, &how, true, err);
    CHECK((access(PATH, F_OK) == 0) == (status == QKV_OK));
    unlink(PATH);
    return status;
}

TEST(allocations_of_learning_may_fail)
{
    static const char *const trainer_names[] = { "bytes", "characters", "bpe", "wordpiece",
                                                 "unigram" };
    EACH(kind, trainer_names) walk(learn, (void *)(uintptr_t)*kind);
}

CHECK_MAIN(CASE(allocations_of_every_model_may_fail), CASE(allocations_of_learning_may_fail))
