// SPDX-License-Identifier: MIT
// test_sentence_modules.c: checks the settings that sentence-transformers stores with a model
// (pooling, normalization, length), and a small embedder with failing allocations.
#include "base/faults.h"
#include "model/folder.h"
#include "task/embed/embed_internal.h"

#define TINY "tests/golden/bert"
#define MODULE(n, kind, path)                                                                      \
    "{\"idx\": " #n ", \"name\": \"" #n "\", \"path\": \"" path "\", \"type\": "                   \
    "\"sentence_transformers.models." kind "\"}"
#define POOLING(more) "{\"word_embedding_dimension\": 35, " more "}"

static void fresh(const char *modules, const char *pooling, const char *length)
{
    folder_new();
    CHECK(mkdir(folder_name("1_Pooling"), 0700) == 0);
    folder_link("config.json", TINY "/config.json");
    folder_link("model.safetensors", TINY "/model.safetensors");
    folder_link("tokenizer.json", TINY "/tokenizer.json");
    if (modules) folder_text("modules.json", modules);
    if (pooling) folder_text("1_Pooling/config.json", pooling);
    if (length) folder_text("sentence_bert_config.json", length);
}
#define TWO "[" MODULE(0, "Transformer", "") "," MODULE(1, "Pooling", "1_Pooling") "]"
#define THREE                                                                                      \
    "[" MODULE(0, "Transformer", "") "," MODULE(1, "Pooling", "1_Pooling") "," MODULE(             \
        2, "Normalize", "2_Normalize") "]"

TEST(what_the_files_say)
{
    static const struct {
        const char *modules, *pooling, *length;
        enum qkv_pool pool;
        bool normalize;
        int64_t max_length;
    } rows[] = {
        { NULL, NULL, NULL, QKV_POOL_MEAN, true, 0 },
        { TWO, POOLING("\"pooling_mode_cls_token\": true"), NULL, QKV_POOL_CLS, false, 0 },
        { THREE, POOLING("\"pooling_mode_mean_tokens\": true, \"pooling_mode_cls_token\": false"),
          "{\"max_seq_length\": 9, \"do_lower_case\": false}", QKV_POOL_MEAN, true, 9 },
        { TWO, POOLING("\"pooling_mode_max_tokens\": true"), "{\"max_seq_length\": null}",
          QKV_POOL_MAX, false, 0 },
        { TWO, POOLING("\"pooling_mode_lasttoken\": true"), NULL, QKV_POOL_LAST, false, 0 },
        { TWO, POOLING("\"pooling_mode\": \"mean\""), NULL, QKV_POOL_MEAN, false, 0 },
        { TWO, "{\"pooling_mode_mean_tokens\": false}", NULL, QKV_POOL_MEAN, false, 0 },
    };
    EACH(r, rows)
    {
        struct qkv_modules m;
        qkv_error err = { 0 };
        fresh(r->modules, r->pooling, r->length);
        if (qkv_modules_read(&m, folder_path, NULL, &err))
            fail_msg("%s: %s %s", err.file, err.path, err.text);
        CHECK_EQ(m.pool_count, 1);
        CHECK_EQ(m.pools[0], r->pool);
        CHECK_EQ(m.steps.count, r->normalize);
        CHECK_EQ(m.max_length, r->max_length);
        CHECK_TEXT(m.model, folder_path);
        qkv_modules_free(&m);
    }
}

TEST(a_model_in_a_folder_of_its_own)
{
    struct qkv_modules m;
    qkv_error err = { 0 };
    fresh("[" MODULE(0, "Transformer", "0_Transformer") "," MODULE(1, "Pooling", "1_Pooling") "]",
          POOLING("\"pooling_mode_mean_tokens\": true"), NULL);
    CHECK(mkdir(folder_name("0_Transformer"), 0700) == 0);
    folder_text("0_Transformer/sentence_bert_config.json", "{\"max_seq_length\": 5}");
    CHECK_EQ(qkv_modules_read(&m, folder_path, NULL, &err), QKV_OK);
    CHECK_TEXT(m.model, folder_name("0_Transformer"));
    CHECK_EQ(m.max_length, 5);
    qkv_modules_free(&m);
}

// New versions of sentence-transformers store the length with the tokenizer only.
TEST(the_tokenizer_s_length_counts_if_the_model_says_none)
{
    static const struct {
        const char *length, *tokenizer;
        int64_t max_length;
    } rows[] = {
        { NULL, "{\"model_max_length\": 7}", 7 },
        { "{\"max_seq_length\": 9}", "{\"model_max_length\": 7}", 9 },
        { NULL, "{\"model_max_length\": 1e30}", 0 },
        { NULL, "{}", 0 },
    };
    EACH(r, rows)
    {
        struct qkv_modules m;
        qkv_error err = { 0 };
        fresh(TWO, POOLING("\"pooling_mode\": \"mean\""), r->length);
        folder_text("tokenizer_config.json", r->tokenizer);
        if (qkv_modules_read(&m, folder_path, NULL, &err)) fail_msg("%s", err.text);
        CHECK_EQ(m.max_length, r->max_length);
        qkv_modules_free(&m);
    }
}

TEST(what_would_change_vectors_in_silence_is_refused)
{
    static const struct {
        const char *modules, *pooling, *length;
        qkv_status status;
        const char *path, *says;
    } rows[] = {
        { "{}", NULL, NULL, QKV_ERR_FORMAT, "1:1", "not a JSON array, expected '[', found '{'" },
        { "[]", NULL, NULL, QKV_ERR_FORMAT, "$",
          "module is missing, expected Transformer and Pooling, found none" },
        { "[7]", NULL, NULL, QKV_ERR_FORMAT, "$[0]",
          "module has the wrong type, expected an object" },
        { "[" MODULE(0, "Transformer", "") "]", NULL, NULL, QKV_ERR_FORMAT, "$",
          "module is missing, expected Transformer and Pooling, found only Transformer" },
        { "[" MODULE(0, "Pooling", "1_Pooling") "]", NULL, NULL, QKV_ERR_UNSUPPORTED, "$[0]",
          "unsupported module, expected Transformer, then Pooling, then any of Dense, LayerNorm, "
          "Normalize and Dropout, found Pooling in another place" },
        { "[" MODULE(0, "WordEmbeddings", "") "]", NULL, NULL, QKV_ERR_UNSUPPORTED, "$[0]",
          "unsupported module, expected Transformer, then Pooling, then any of Dense, LayerNorm, "
          "Normalize and Dropout, found WordEmbeddings: static vectors of words, without a "
          "Transformer" },
        { "[" MODULE(0, "Transformer", "") "," MODULE(1, "LSTM", "1_LSTM") "]", NULL, NULL,
          QKV_ERR_UNSUPPORTED, "$[1]",
          "unsupported module, expected Transformer, then Pooling, then any of Dense, LayerNorm, "
          "Normalize and Dropout, found LSTM: a recurrent layer over tokens" },
        { "[" MODULE(0, "Other", "") "]", NULL, NULL, QKV_ERR_UNSUPPORTED, "$[0]",
          "unsupported module, expected Transformer, then Pooling, then any of Dense, LayerNorm, "
          "Normalize and Dropout, found Other: a kind that qkv does not know" },
        { "[{\"path\": \"\", \"type\": \"custom_st.Transformer\"}]", NULL, NULL,
          QKV_ERR_UNSUPPORTED, "$[0]",
          "module is code of the model's own, which qkv does not run, expected a class of "
          "sentence_transformers, found \"custom_st.Transformer\"" },
        { "[" MODULE(0, "Transformer", "../elsewhere") "]", NULL, NULL, QKV_ERR_FORMAT, "$[0]",
          "path of a module is outside of the model folder, expected a folder in it, found "
          "\"../elsewhere\"" },
        { "[" MODULE(0, "Transformer", "a/../../b") "]", NULL, NULL, QKV_ERR_FORMAT, "$[0]",
          "path of a module is outside of the model folder, expected a folder in it, found "
          "\"a/../../b\"" },
        { "[" MODULE(0, "Transformer", "/etc") "]", NULL, NULL, QKV_ERR_FORMAT, "$[0]",
          "path of a module is outside of the model folder, expected a folder in it, found "
          "\"/etc\"" },
        { TWO, POOLING("\"pooling_mode\": \"attention\""), NULL, QKV_ERR_UNSUPPORTED,
          "$.pooling_mode",
          "unsupported pooling, expected cls, max, mean, mean_sqrt_len_tokens, weightedmean, "
          "lasttoken, or a list of them, found attention" },
        { TWO, POOLING("\"pooling_mode\": [\"mean\", 7]"), NULL, QKV_ERR_UNSUPPORTED,
          "$.pooling_mode",
          "unsupported pooling, expected cls, max, mean, mean_sqrt_len_tokens, weightedmean, "
          "lasttoken, or a list of them, found no text" },
        { TWO,
          POOLING("\"pooling_mode\": [\"mean\", \"mean\", \"mean\", \"mean\", \"mean\", \"mean\", "
                  "\"mean\", \"mean\", \"mean\", \"mean\", \"mean\", \"mean\", \"mean\", "
                  "\"mean\", \"mean\", \"mean\", \"mean\"]"),
          NULL, QKV_ERR_LIMIT, "$.pooling_mode", "too many poolings, expected at most 16" },
        { TWO, POOLING("\"pooling_mode_mean_tokens\": 1"), NULL, QKV_ERR_FORMAT,
          "$.pooling_mode_mean_tokens",
          "value of the wrong type, expected true or false, found an integer" },
        { NULL, NULL, "{\"max_seq_length\": 0}", QKV_ERR_FORMAT, "$.max_seq_length",
          "number out of range, expected 1 .. 2147483647, found 0" },
        { NULL, NULL, "{\"transformer_task\": \"fill-mask\"}", QKV_ERR_UNSUPPORTED,
          "$.transformer_task",
          "output of the model is not supported for vectors of texts, expected "
          "\"feature-extraction\", found \"fill-mask\"" },
        { NULL, NULL,
          "{\"modality_config\": {\"text\": {\"method_output_name\": \"pooler_output\"}}}",
          QKV_ERR_UNSUPPORTED, "$.modality_config.text.method_output_name",
          "output of the model is not supported for vectors of texts, expected "
          "\"last_hidden_state\", found \"pooler_output\"" },
        { NULL, NULL, "{\"processing_kwargs\": {\"text\": {}}}", QKV_ERR_UNSUPPORTED,
          "$.processing_kwargs",
          "options of the tokenizer are not supported, expected none, found 1" },
    };
    EACH(r, rows)
    {
        struct qkv_modules m;
        qkv_error err = { 0 };
        fresh(r->modules, r->pooling, r->length);
        CHECK_EQ(qkv_modules_read(&m, folder_path, NULL, &err), r->status);
        CHECK_EQ(err.status, r->status);
        CHECK_TEXT(err.path, r->path);
        CHECK_TEXT(err.text, r->says);
    }
}

TEST(a_width_that_is_not_the_model_s_is_refused)
{
    qkv_embedder *e = NULL;
    qkv_error err = { 0 };
    fresh(TWO, "{\"word_embedding_dimension\": 34, \"pooling_mode_mean_tokens\": true}", NULL);
    CHECK_EQ(qkv_embedder_open(&e, folder_path, NULL, &err), QKV_ERR_FORMAT);
    CHECK(strstr(err.text, "expected the model's width 35, found 34") != NULL);
}

TEST(a_tokenizer_with_more_ids_than_embeddings_is_refused)
{
    qkv_embedder *e = NULL;
    qkv_error err = { 0 };
    size_t bytes;
    char *text = folder_load(TINY "/tokenizer.json", &bytes);
    char *last = strstr(text, "\"##i\": 39");
    CHECK(last != NULL);
    memcpy(last, "\"##i\": 40", 9);
    fresh(NULL, NULL, NULL);
    CHECK(unlink(folder_name("tokenizer.json")) == 0);
    folder_text("tokenizer.json", text);
    CHECK_EQ(qkv_embedder_open(&e, folder_path, NULL, &err), QKV_ERR_FORMAT);
    free(text);
}

// Vectors of length 1, or as pooled, have the same direction.
TEST(normalisation_is_as_the_modules_say)
{
    static const char *const text[1] = { "ab c" };
    float unit[35], raw[35];
    qkv_embedder *e = NULL;
    qkv_error err = { 0 };
    double square = 0;
    for (int k = 0; k < 2; k++) {
        fresh(k ? TWO : THREE, POOLING("\"pooling_mode_mean_tokens\": true"), NULL);
        CHECK_EQ(qkv_embedder_open(&e, folder_path, NULL, &err), QKV_OK);
        if (qkv_embed(e, k ? raw : unit, text, NULL, 1, NULL, &err)) fail_msg("%s", err.text);
        qkv_embedder_close(e);
    }
    for (int d = 0; d < 35; d++) square += (double)raw[d] * (double)raw[d];
    CHECK(fabs(square - 1) > 0.01);
    for (int d = 0; d < 35; d++) CHECK_NEAR(unit[d], (double)raw[d] / sqrt(square), 0x1p-24);
}

TEST(many_texts_name_the_one_that_is_wrong)
{
    static const char *const texts[3] = { "a b", "abc d e f g h i j k l m n o p", "c" };
    float out[3 * 35];
    qkv_embedder *e = NULL;
    qkv_error err = { 0 };
    fresh(NULL, NULL, NULL);
    CHECK_EQ(qkv_embedder_open(&e, folder_path, NULL, &err), QKV_OK);
    CHECK_EQ(qkv_embedder_max_length(e), 13);
    CHECK_EQ(qkv_embed(e, out, texts, NULL, 3, NULL, &err), QKV_ERR_USAGE);
    CHECK_TEXT(err.path, "text 2");
    qkv_embedder_close(e);
}

// Texts, their ids, and texts with padding give the same bits.
TEST(ids_and_padding_give_the_bits_of_the_texts)
{
    static const char *const texts[3] = { "a b c", "", "hij klm no" };
    float want[3 * 35], got[3 * 35];
    int32_t ids[64];
    int64_t offsets[4] = { 0 };
    qkv_embedder *e = NULL;
    qkv_encoding t = { 0 };
    qkv_error err = { 0 };
    fresh(NULL, NULL, NULL);
    CHECK_EQ(qkv_embedder_open(&e, folder_path, NULL, &err), QKV_OK);
    CHECK_EQ(qkv_embed(e, want, texts, NULL, 3, NULL, &err), QKV_OK);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(qkv_tokenizer_encode(qkv_embedder_tokenizer(e), &t, texts[i], strlen(texts[i]),
                                      NULL, 0, NULL, &err),
                 QKV_OK);
        memcpy(ids + offsets[i], t.ids, (size_t)t.count * sizeof *ids);
        offsets[i + 1] = offsets[i] + t.count;
    }
    qkv_encoding_free(&t);
    qkv_embedder_close(e);
    CHECK(unlink(folder_name("tokenizer.json")) == 0);
    struct qkv_embedder_options o = { .no_tokenizer = true };
    struct qkv_embed_report report = { 0 };
    CHECK_EQ(qkv_embedder_open(&e, folder_path, &o, &err), QKV_OK);
    CHECK(qkv_embedder_tokenizer(e) == NULL);
    CHECK_EQ(qkv_embed_ids(e, got, ids, offsets, 3, &report, &err), QKV_OK);
    CHECK_BITS(got, want, sizeof want);
    CHECK_EQ(report.tokens, offsets[3]);
    CHECK_EQ(report.cut_texts, 0);
    CHECK_EQ(qkv_embed(e, got, texts, NULL, 3, NULL, &err), QKV_ERR_USAGE);
    qkv_embedder_close(e);
    for (int batch = 0; batch < 2; batch++) {
        o = (struct qkv_embedder_options){ .no_tokenizer = true,
                                           .pad = true,
                                           .batch_tokens = batch ? 20 : 0 };
        memset(&err, 0, sizeof err);
        CHECK_EQ(qkv_embedder_open(&e, folder_path, &o, &err), QKV_OK);
        CHECK_EQ(qkv_embed_ids(e, got, ids, offsets, 3, NULL, &err), QKV_OK);
        CHECK_BITS(got, want, sizeof want);
        qkv_embedder_close(e);
    }
}

TEST(too_many_ids_are_refused_or_cut_at_the_end)
{
    int32_t ids[20];
    const int64_t offsets[2] = { 0, 20 }, whole[2] = { 0, 13 };
    float cut[35], want[35];
    qkv_embedder *e = NULL;
    qkv_error err = { 0 };
    for (int i = 0; i < 20; i++) ids[i] = 5 + i;
    struct qkv_embedder_options o = { .no_tokenizer = true };
    fresh(NULL, NULL, NULL);
    CHECK_EQ(qkv_embedder_open(&e, folder_path, &o, &err), QKV_OK);
    CHECK_EQ(qkv_embed_ids(e, want, ids, whole, 1, NULL, &err), QKV_OK);
    CHECK_EQ(qkv_embed_ids(e, cut, ids, offsets, 1, NULL, &err), QKV_ERR_USAGE);
    CHECK(strstr(err.text, "expected at most 13 tokens, found 20") != NULL);
    qkv_embedder_close(e);
    struct qkv_embed_report report = { 0 };
    memset(&err, 0, sizeof err);
    o.truncate = true;
    CHECK_EQ(qkv_embedder_open(&e, folder_path, &o, &err), QKV_OK);
    CHECK_EQ(qkv_embed_ids(e, cut, ids, offsets, 1, &report, &err), QKV_OK);
    CHECK_BITS(cut, want, sizeof want);
    CHECK_EQ(report.cut_texts, 1);
    CHECK_EQ(report.cut_tokens, 7);
    qkv_embedder_close(e);
}

static qkv_status embed_all(void *ctx, qkv_error *err)
{
    static const char *const texts[4] = { "a b", "", "hij klm", "\xc3\xa9 \xff" };
    static const struct qkv_embedder_options o = { .batch_tokens = 8, .truncate = true };
    float out[4 * 35];
    qkv_embedder *e = NULL;
    qkv_status status = qkv_embedder_open(&e, ctx, &o, err);
    if (!status) status = qkv_embed(e, out, texts, NULL, 4, NULL, err);
    qkv_embedder_close(e);
    return status;
}
static qkv_status find_words(void *ctx, qkv_error *err)
{
    static const int32_t word = 5;
    static const float sign = 1;
    int32_t ids[3];
    float cosines[3];
    int64_t found;
    const qkv_embedder *e = ctx;
    const qkv_status status = qkv_analogy(qkv_embedder_model(e), qkv_embedder_tokenizer(e), ids,
                                          cosines, &found, 3, &word, &sign, 1, err);
    if (!status) CHECK_EQ(found, 3);
    return status;
}
TEST(every_failed_allocation_is_survived)
{
    qkv_embedder *e = NULL;
    qkv_error err = { 0 };
    fresh(THREE, POOLING("\"pooling_mode_mean_tokens\": true"), "{\"max_seq_length\": 9}");
    CHECK_EQ(qkv_threads_set(1), QKV_OK);
    CHECK(faults_walk(embed_all, folder_path, false) > 50); // the tokenizer's cache is optional
    CHECK_EQ(qkv_embedder_open(&e, folder_path, NULL, &err), QKV_OK);
    CHECK_EQ(faults_walk(find_words, e, true), 5);
    qkv_embedder_close(e);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

CHECK_MAIN(CASE(what_the_files_say), CASE(a_model_in_a_folder_of_its_own),
           CASE(the_tokenizer_s_length_counts_if_the_model_says_none),
           CASE(what_would_change_vectors_in_silence_is_refused),
           CASE(a_width_that_is_not_the_model_s_is_refused),
           CASE(a_tokenizer_with_more_ids_than_embeddings_is_refused),
           CASE(normalisation_is_as_the_modules_say), CASE(many_texts_name_the_one_that_is_wrong),
           CASE(ids_and_padding_give_the_bits_of_the_texts),
           CASE(too_many_ids_are_refused_or_cut_at_the_end),
           CASE(every_failed_allocation_is_survived))
