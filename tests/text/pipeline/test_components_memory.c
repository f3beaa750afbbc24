// SPDX-License-Identifier: MIT
// test_components_memory.c: makes allocations fail in every component of tokenizers, while a file
// is opened, texts are encoded and decoded, patterns compiled and vocabularies learned: an error
// status, no leak.
#include "base/faults.h"
#include "text/golden_text.h"
#include "text/regex/regex.h"
#include <unistd.h>

enum { TEXTS = 2 };       // of a group
static int64_t most = 30; // failures of a call, or the value of QKV_FAILURES

struct use {
    char *json;
    const qkv_tokenizer *t;
    const char *text;
    size_t bytes;
};

static qkv_status open_close(void *user, qkv_error *err)
{
    const struct use *u = user;
    qkv_tokenizer *t = NULL;
    const qkv_status status = qkv_tokenizer_parse(&t, u->json, strlen(u->json), "patched", err);
    CHECK((status == QKV_OK) == (t != NULL));
    qkv_tokenizer_close(t);
    return status;
}

static qkv_status encode_decode(void *user, qkv_error *err)
{
    const struct use *u = user;
    qkv_encoding e = { 0 };
    size_t need = 0;
    qkv_status status = qkv_tokenizer_encode(u->t, &e, u->text, u->bytes, "a pair", 6, NULL, err);
    if (!status) status = qkv_tokenizer_decode(u->t, NULL, 0, &need, e.ids, e.count, false, err);
    qkv_encoding_free(&e);
    return status;
}

static void fail_group(char *json, const json_t *group, void *points)
{
    struct use u = { .json = json };
    qkv_tokenizer *t = NULL;
    const json_t *rows = json_object_get(group, "cases");
    CHECK_EQ(qkv_tokenizer_parse(&t, json, strlen(json), "patched", NULL), QKV_OK);
    u.t = t;
    *(int64_t *)points += faults_sample(open_close, &u, most);
    for (size_t i = 0; i < json_array_size(rows) && i < TEXTS; i++) {
        char *text = golden_text(json_array_get(rows, i), "text", &u.bytes);
        u.text = text;
        *(int64_t *)points += faults_sample(encode_decode, &u, most);
        free(text);
    }
    qkv_tokenizer_close(t);
}

TEST(allocations_of_every_component_may_fail)
{
    static const char *const files[] = { "small",   "components", "wordlevel", "wordpiece_steps",
                                         "unigram", "bpe_chars",  "bpe_bytes", "regex" };
    int64_t points = 0;
    EACH(file, files)
    {
        char golden[64];
        snprintf(golden, sizeof golden, "tests/golden/text/%s.json", *file);
        golden_groups(golden, strcmp(*file, "small") ? NULL : "tests/golden/text/tokenizer.json",
                      fail_group, &points);
    }
    CHECK(points > 4000);
}

static qkv_status open_path(void *path, qkv_error *err)
{
    qkv_tokenizer *t = NULL;
    const qkv_status status = qkv_tokenizer_open(&t, path, err);
    qkv_tokenizer_close(t);
    return status;
}

TEST(allocations_of_every_format_may_fail)
{
    static const char *const names[] = { "bert",         "gpt2",      "llama2c/tokenizer.bin",
                                         "marian",       "bpe.model", "char.model",
                                         "unigram.model" };
    EACH(name, names)
    {
        char path[96];
        snprintf(path, sizeof path, "tests/golden/text/formats/%s", *name);
        CHECK(faults_sample(open_path, path, 5 * most) > 20);
    }
}

static qkv_status learn(void *user, qkv_error *err)
{
    static const char *const special[] = { "<s>", "</s>" };
    const char *texts[] = { "the owl and the other owls", "saw the low owl\xe4\xbd\xa0 there" };
    const size_t bytes[] = { strlen(texts[0]), strlen(texts[1]) };
    const struct qkv_tokenizer_training how = { .kind = user,
                                                .vocab = strcmp(user, "bpe") ? 60 : 300,
                                                .special = special,
                                                .specials = 2,
                                                .lowercase = !strcmp(user, "wordpiece"),
                                                .begin = "<s>",
                                                .end = "</s>" };
    char path[64];
    snprintf(path, sizeof path, "build/components_memory_%ld.json", (long)getpid());
    const qkv_status status = qkv_tokenizer_train(path, texts, bytes, 2, &how, true, err);
    CHECK((access(path, F_OK) == 0) == (status == QKV_OK));
    unlink(path);
    return status;
}

TEST(allocations_of_every_trainer_may_fail)
{
    static const char *const kinds[] = { "characters", "bpe", "wordpiece", "unigram" };
    EACH(kind, kinds)
    CHECK(faults_sample(learn, (void *)(uintptr_t)*kind, 10 * most) > 20);
}

int main(void)
{
    if (getenv("QKV_FAILURES")) most = atoi(getenv("QKV_FAILURES"));
    const struct CMUnitTest cases[] = { CASE(allocations_of_every_component_may_fail),
                                        CASE(allocations_of_every_format_may_fail),
                                        CASE(allocations_of_every_trainer_may_fail) };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
