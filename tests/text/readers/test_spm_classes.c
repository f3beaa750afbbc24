// SPDX-License-Identifier: MIT
// test_spm_classes.c: opens a SentencePiece model of five pieces with each class of tokenizer that
// tokenizer_config.json may name: its ids, the special tokens around a text, and what is refused.
#include "base/faults.h"
#include "model/folder.h"
#include "text/readers/readers.h"
#include "text/text_internal.h"

static uint8_t model[512];
static size_t model_bytes;

static void put(const void *p, size_t n)
{
    CHECK(model_bytes + n <= sizeof model);
    memcpy(model + model_bytes, p, n);
    model_bytes += n;
}

static void put_piece(const char *text, float score, int type)
{
    const size_t n = strlen(text);
    put((uint8_t[]){ 0x0A, (uint8_t)(n + 9), 0x0A, (uint8_t)n }, 4);
    put(text, n);
    put("\x15", 1);
    put(&score, 4);
    put((uint8_t[]){ 0x18, (uint8_t)type }, 2);
}

// Writes m.model, of the first n of five pieces, with a trainer's field `more`, and
// tokenizer_config.json.
static const char *write_folder(int n, const char *more, const char *config)
{
    static const struct {
        const char *text;
        int type;
    } pieces[] = { { "<unk>", QKV_SPM_UNKNOWN },
                   { "<s>", QKV_SPM_CONTROL },
                   { "</s>", QKV_SPM_CONTROL },
                   { "\xE2\x96\x81"
                     "a",
                     QKV_SPM_NORMAL },
                   { "b", QKV_SPM_NORMAL } };
    folder_new();
    model_bytes = 0;
    for (int i = 0; i < n; i++) put_piece(pieces[i].text, (float)-i, pieces[i].type);
    put(more, strlen(more));
    folder_write("m.model", model, model_bytes);
    if (config) folder_text("tokenizer_config.json", config);
    return folder_name("m.model");
}

TEST(each_class_has_its_ids_and_its_special_tokens)
{
    static const struct {
        const char *config;
        int64_t size;
        int32_t ids[4];
        int n;
    } rows[] = {
        { NULL, 5, { 3 }, 1 },
        { "{}", 5, { 3 }, 1 },
        { "{\"tokenizer_class\":\"PreTrainedTokenizer\"}", 5, { 3 }, 1 },
        { "{\"tokenizer_class\":\"LlamaTokenizer\"}", 5, { 1, 3 }, 2 },
        { "{\"tokenizer_class\":\"LlamaTokenizerFast\"}", 5, { 1, 3 }, 2 },
        { "{\"tokenizer_class\":\"LlamaTokenizer\",\"add_bos_token\":false}", 5, { 3 }, 1 },
        { "{\"tokenizer_class\":\"LlamaTokenizer\",\"add_eos_token\":true}", 5, { 1, 3, 2 }, 3 },
        { "{\"tokenizer_class\":\"GemmaTokenizer\"}", 5, { 1, 3 }, 2 },
        { "{\"tokenizer_class\":\"AlbertTokenizer\"}", 5, { 1, 3, 2 }, 3 },
        { "{\"tokenizer_class\":\"T5Tokenizer\"}", 105, { 3, 2 }, 2 },
        { "{\"tokenizer_class\":\"T5Tokenizer\",\"extra_ids\":2}", 7, { 3, 2 }, 2 },
        { "{\"tokenizer_class\":\"XLMRobertaTokenizer\"}", 7, { 0, 4, 2 }, 3 },
    };
    EACH(row, rows)
    {
        qkv_tokenizer *t = NULL;
        qkv_encoding e = { 0 };
        qkv_error err = { 0 };
        char text[16];
        if (qkv_tokenizer_open(&t, write_folder(5, "", row->config), &err))
            fail_msg("%s: %s", row->config, err.text);
        CHECK_EQ(qkv_tokenizer_size(t), row->size);
        CHECK_EQ(qkv_tokenizer_encode(t, &e, "a", 1, NULL, 0, NULL, NULL), QKV_OK);
        CHECK_EQ(e.count, row->n);
        for (int i = 0; i < row->n; i++) CHECK_EQ(e.ids[i], row->ids[i]);
        CHECK_EQ(qkv_tokenizer_decode(t, text, sizeof text, NULL, e.ids, e.count, true, NULL),
                 QKV_OK);
        CHECK_TEXT(text, "a");
        if (row->size == 7 && row->n == 2) { // the last of the extra tokens has the first id
            CHECK_EQ(qkv_tokenizer_id(t, "<extra_id_0>"), 6);
            CHECK_EQ(qkv_tokenizer_id(t, "<extra_id_1>"), 5);
        }
        if (row->n == 3 && row->size == 7) {
            CHECK_EQ(qkv_tokenizer_id(t, "<pad>"), 1);
            CHECK_EQ(qkv_tokenizer_id(t, "<unk>"), 3);
            CHECK_EQ(qkv_tokenizer_id(t, "b"), 5);
            CHECK_EQ(qkv_tokenizer_id(t, "<mask>"), 6);
        }
        qkv_encoding_free(&e);
        qkv_tokenizer_close(t);
    }
}

TEST(what_a_class_needs_is_there_or_it_is_refused)
{
    static const struct {
        int pieces;
        const char *more, *config;
        qkv_status status;
        const char *text;
    } rows[] = {
        { 5, "", "{\"tokenizer_class\":\"OtherTokenizer\"}", QKV_ERR_UNSUPPORTED,
          "tokenizer class OtherTokenizer may use other ids" },
        { 1, "", "{\"tokenizer_class\":\"LlamaTokenizer\"}", QKV_ERR_UNSUPPORTED,
          "no piece that marks the beginning or the end" },
        { 2, "", "{\"tokenizer_class\":\"T5Tokenizer\"}", QKV_ERR_UNSUPPORTED,
          "no piece that marks the beginning or the end" },
        { 2, "", "{\"tokenizer_class\":\"XLMRobertaTokenizer\"}", QKV_ERR_UNSUPPORTED,
          "too few pieces in the model" },
        { 5, "", "{\"tokenizer_class\":\"LlamaTokenizer\",\"add_bos_token\":1}", QKV_ERR_FORMAT,
          "" },
        { 5, "", "{\"tokenizer_class\":\"LlamaTokenizer\",\"add_eos_token\":1}", QKV_ERR_FORMAT,
          "" },
        { 5, "", "{\"tokenizer_class\":\"T5Tokenizer\",\"extra_ids\":-1}", QKV_ERR_FORMAT, "" },
        { 5, "", "{\"tokenizer_class\":\"T5Tokenizer\",\"extra_ids\":\"x\"}", QKV_ERR_FORMAT, "" },
        // an unused piece in a model of byte pairs
        { 5, "\x0A\x05\x0A\x01x\x18\x05\x12\x02\x18\x02", NULL, QKV_ERR_UNSUPPORTED,
          "unused pieces in a model of byte pairs" },
        { 5, "\x12\x02\x18\x03", NULL, QKV_ERR_UNSUPPORTED, "model of words" },
    };
    EACH(row, rows)
    {
        qkv_tokenizer *t = NULL;
        qkv_error err = { 0 };
        const qkv_status status =
            qkv_tokenizer_open(&t, write_folder(row->pieces, row->more, row->config), &err);
        if (status != row->status || t || !strstr(err.text, row->text))
            fail_msg("%s: %d, %s", row->config, (int)status, err.text);
    }
}

static qkv_status flow(void *path, qkv_error *err)
{
    qkv_tokenizer *t = NULL;
    const qkv_status status = qkv_tokenizer_open(&t, path, err);
    qkv_tokenizer_close(t);
    return status;
}

TEST(every_failed_allocation_is_survived)
{
    static const char *const configs[] = {
        "{\"tokenizer_class\":\"LlamaTokenizer\",\"add_eos_token\":true}",
        "{\"tokenizer_class\":\"T5Tokenizer\",\"extra_ids\":2}",
        "{\"tokenizer_class\":\"XLMRobertaTokenizer\"}"
    };
    EACH(config, configs)
    {
        char path[1024];
        strcpy(path, write_folder(5, "", *config));
        CHECK(faults_sample(flow, path, 200) > 50);
    }
}

CHECK_MAIN(CASE(each_class_has_its_ids_and_its_special_tokens),
           CASE(what_a_class_needs_is_there_or_it_is_refused),
           CASE(every_failed_allocation_is_survived))
