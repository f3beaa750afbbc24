// SPDX-License-Identifier: MIT
// test_sentence_golden.c: compares vectors of texts with the vectors of
// sentence-transformers (tools/golden_sentences.py), for modules of every kind; checks the
// terms of cosines of such vectors, and malformed modules.
#include "base/faults.h"
#include "model/folder.h"
#include "task/embed/embed_internal.h"
#include <math.h>
#include <qkv/ablate.h>
#include <qkv/lens.h>

#define PLACE "tests/golden/sentences/"
static const struct {
    const char *name;
    const char *why; // part of the message that refuses the terms of a cosine; NULL: none does
} folders[] = {
    { "labse", "found pooling 'cls'" },
    { "sentence-t5", NULL },
    { "embeddinggemma", NULL },
    { "several", "found pooling 'several'" },
    { "flags", "found pooling 'several'" },
    { "prompt", "found pooling 'several'" },
    { "weighted", NULL },
    { "activations", "found a module with a bias, an activation or a norm" },
};

// Makes a folder of the files of the model and of a case.
static void fresh(const char *name)
{
    char from[2][256];
    folder_new();
    snprintf(from[0], sizeof from[0], PLACE "model");
    snprintf(from[1], sizeof from[1], PLACE "%s", name);
    for (int k = 0; k < 2; k++) {
        DIR *d = opendir(from[k]);
        CHECK(d != NULL);
        for (struct dirent *e; (e = readdir(d)) != NULL;) {
            char path[1024];
            snprintf(path, sizeof path, "%s/%s", from[k], e->d_name);
            if (e->d_name[0] != '.') folder_link(e->d_name, path);
        }
        closedir(d);
    }
}

static qkv_embedder *open_case(const char *name, int64_t batch_tokens)
{
    const struct qkv_embedder_options o = { .truncate = true, .batch_tokens = batch_tokens };
    qkv_embedder *e = NULL;
    qkv_error err = { 0 };
    fresh(name);
    if (qkv_embedder_open(&e, folder_path, &o, &err))
        fail_msg("%s: %s %s: %s", name, err.file, err.path, err.text);
    return e;
}

enum { TEXTS = 64 };
struct reference {
    json_t *root;
    const char *texts[TEXTS];
    int64_t count, width;
};

static void read_reference(struct reference *r)
{
    json_error_t parse;
    r->root = json_load_file(folder_name("vectors.json"), 0, &parse);
    if (!r->root) fail_msg("%s", parse.text);
    const json_t *texts = json_object_get(r->root, "texts");
    r->count = (int64_t)json_array_size(texts);
    CHECK(r->count > 0 && r->count <= TEXTS);
    for (int64_t i = 0; i < r->count; i++)
        r->texts[i] = json_string_value(json_array_get(texts, (size_t)i));
    r->width = (int64_t)json_array_size(json_array_get(json_object_get(r->root, "vectors"), 0));
}

static float *embed(const qkv_embedder *e, const struct reference *r)
{
    qkv_error err = { 0 };
    float *v = calloc((size_t)(r->count * r->width), sizeof *v);
    CHECK(v != NULL);
    CHECK_EQ(qkv_embedder_width(e), r->width);
    if (qkv_embed(e, v, r->texts, NULL, r->count, NULL, &err)) fail_msg("%s", err.text);
    return v;
}

TEST(vectors_are_those_of_sentence_transformers)
{
    EACH(c, folders)
    {
        struct reference r;
        qkv_embedder *e = open_case(c->name, 0);
        read_reference(&r);
        float *v = embed(e, &r);
        qkv_embedder_close(e);
        for (int64_t i = 0; i < r.count; i++) {
            const json_t *want = json_array_get(json_object_get(r.root, "vectors"), (size_t)i);
            for (int64_t d = 0; d < r.width; d++) {
                const double x = json_number_value(json_array_get(want, (size_t)d));
                const double off = fabs((double)v[i * r.width + d] - x);
                if (!(off <= 1e-5))
                    fail_msg("%s: \"%s\", element %d is off by %g", c->name, r.texts[i], (int)d,
                             off);
            }
        }
        e = open_case(c->name, 1); // each text is a batch
        float *alone = embed(e, &r);
        CHECK_BITS(alone, v, (size_t)(r.count * r.width) * sizeof *v);
        qkv_embedder_close(e);
        free(alone);
        free(v);
        json_decref(r.root);
    }
}

TEST(terms_add_up_to_the_cosine_where_vectors_are_sums)
{
    EACH(c, folders)
    {
        struct reference r;
        struct qkv_why w;
        qkv_error err = { 0 };
        qkv_embedder *e = open_case(c->name, 0);
        read_reference(&r);
        float *v = embed(e, &r);
        const qkv_status status =
            qkv_why(&w, e, r.texts[0], strlen(r.texts[0]), r.texts[3], strlen(r.texts[3]), &err);
        CHECK_EQ(status, c->why ? QKV_ERR_UNSUPPORTED : QKV_OK);
        if (c->why && !strstr(err.text, c->why)) fail_msg("%s: %s", c->name, err.text);
        if (!c->why) {
            CHECK(w.rows > 2 && w.columns > 2);
            CHECK_NEAR(w.cosine, (double)qkv_cosine(v, v + 3 * r.width, r.width), 1e-6);
        }
        qkv_why_free(&w);
        qkv_embedder_close(e);
        free(v);
        json_decref(r.root);
    }
}

// Replaces the folder of a module by one with this config.json, and the weights unless `weights` is
// false.
static void own_module(const char *folder, const char *config, bool weights)
{
    char path[256], from[256];
    snprintf(from, sizeof from, PLACE "labse/%s/model.safetensors", folder);
    CHECK(unlink(folder_name(folder)) == 0 && mkdir(folder_name(folder), 0700) == 0);
    snprintf(path, sizeof path, "%s/config.json", folder);
    folder_text(path, config);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    if (weights) folder_link(path, from);
}

#define DENSE(in, out, more) "{\"in_features\": " #in ", \"out_features\": " #out more "}"
#define CLASS(x)             ", \"activation_function\": \"" x "\""
TEST(malformed_modules_are_refused)
{
    static const struct {
        const char *config;
        bool weights;
        qkv_status status;
        const char *says;
    } rows[] = {
        { DENSE(16, 16, CLASS("torch.nn.Tanh")), true, QKV_OK, "" },
        { DENSE(16, 16, ""), true, QKV_OK, "" },
        { DENSE(16, 16, ""), false, QKV_ERR_IO, "" },
        { DENSE(16, 15, ""), true, QKV_ERR_FORMAT,
          "tensor of another shape than config.json says, expected 15 x 16 numbers" },
        { DENSE(15, 16, ""), true, QKV_ERR_FORMAT,
          "tensor of another shape than config.json says, expected 16 x 15 numbers" },
        { DENSE(16, 16, ", \"bias\": false"), true, QKV_ERR_FORMAT,
          "module has other tensors than its kind, expected 1, found 2" },
        { DENSE(16, 16, ", \"bias\": 1"), true, QKV_ERR_FORMAT, "value of the wrong type" },
        { DENSE(0, 16, ""), true, QKV_ERR_FORMAT, "number out of range" },
        { DENSE(16, 1000000, ""), true, QKV_ERR_LIMIT, "" },
        { DENSE(16, 16, CLASS("torch.nn.GLU")), true, QKV_ERR_UNSUPPORTED,
          "unsupported activation function, expected torch.nn.Identity, Tanh, ReLU, GELU, SiLU, "
          "Sigmoid, ELU, Mish, LeakyReLU, Softplus, SELU, ReLU6 or Softsign, found "
          "\"torch.nn.GLU\"" },
        { DENSE(16, 16, CLASS("my.Tanh")), true, QKV_ERR_UNSUPPORTED, "found \"my.Tanh\"" },
        { DENSE(16, 16, ", \"module_input_name\": \"token_embeddings\""), true, QKV_ERR_UNSUPPORTED,
          "unsupported input or output of a module, expected \"sentence_embedding\", found "
          "\"token_embeddings\"" },
        { "{}", true, QKV_ERR_FORMAT, "required member is missing" },
    };
    EACH(r, rows)
    {
        qkv_embedder *e = NULL;
        qkv_error err = { 0 };
        fresh("labse");
        own_module("2_Dense", r->config, r->weights);
        const qkv_status status = qkv_embedder_open(&e, folder_path, NULL, &err);
        if (status != r->status || !strstr(err.text, r->says))
            fail_msg("%s: status %d, %s: %s", r->config, (int)status, err.path, err.text);
        qkv_embedder_close(e);
    }
}

TEST(a_module_of_another_width_is_refused)
{
    const struct qkv_embedder_options o = { .pool = QKV_POOL_MEAN };
    qkv_embedder *e = NULL;
    qkv_error err = { 0 };
    fresh("several"); // its modules read the vectors of four poolings
    CHECK_EQ(qkv_embedder_open(&e, folder_path, &o, &err), QKV_ERR_FORMAT);
    CHECK_TEXT(err.text, "module reads vectors of another width, expected the width of the "
                         "preceding module 16, found 64");
}

static qkv_status use(void *ctx, qkv_error *err)
{
    static const char *const texts[2] = { "the Cat", "" };
    float out[2 * 16];
    struct qkv_why w;
    qkv_embedder *e = NULL;
    (void)ctx;
    qkv_status status = qkv_embedder_open(&e, folder_path, NULL, err);
    if (!status) status = qkv_embed(e, out, texts, NULL, 2, NULL, err);
    if (!status) status = qkv_why(&w, e, texts[0], 7, texts[0], 7, err);
    if (!status) qkv_why_free(&w);
    qkv_embedder_close(e);
    return status;
}
TEST(every_failed_allocation_is_survived)
{
    fresh("weighted");
    folder_text("sentence_bert_config.json", "{\"do_lower_case\": true}");
    CHECK_EQ(qkv_threads_set(1), QKV_OK);
    CHECK(faults_walk(use, NULL, false) > 50); // the tokenizer's cache is optional
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

// A vector after linear modules is a sum over tokens, whatever its pooling; others are refused.
TEST(shares_of_tokens_follow_the_modules)
{
    static const struct {
        const char *name;
        const char *why; // part of the message that refuses the shares; NULL: none does
    } cases[] = { { "sentence-t5", NULL },
                  { "embeddinggemma", NULL },
                  { "weighted", NULL },
                  { "several", "expected one pooling, found several" },
                  { "activations", "found a module with a bias, an activation or a norm" } };
    const int32_t ids[] = { 2, 5, 9, 6, 7, 3 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qkv_embedder *e = open_case(cases[i].name, 0);
        double share[6], sum = 0;
        qkv_error err = { 0 };
        const qkv_status status = qkv_shares(share, NULL, e, ids, NULL, 6, &err);
        CHECK_EQ(status, cases[i].why ? QKV_ERR_UNSUPPORTED : QKV_OK);
        for (int k = 0; k < 6 && !status; k++) sum += share[k];
        if (status)
            CHECK(strstr(err.text, "a vector cannot be split by tokens") &&
                  strstr(err.text, cases[i].why));
        else
            CHECK_NEAR(sum, 1, 1e-12);
        qkv_embedder_close(e);
    }
}

CHECK_MAIN(CASE(shares_of_tokens_follow_the_modules),
           CASE(vectors_are_those_of_sentence_transformers),
           CASE(terms_add_up_to_the_cosine_where_vectors_are_sums),
           CASE(malformed_modules_are_refused), CASE(a_module_of_another_width_is_refused),
           CASE(every_failed_allocation_is_survived))
