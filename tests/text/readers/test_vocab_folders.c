// SPDX-License-Identifier: MIT
// test_vocab_folders.c: opens vocab.txt, and vocab.json with merges.txt, with the options that
// tokenizer_config.json may set: the ids, the refused files, and every failed allocation.
#include "base/faults.h"
#include "model/folder.h"
#include "text/text_internal.h"

static const char list[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n";
static const char pairs[] = "{\"<s>\":0,\"<pad>\":1,\"</s>\":2,\"<unk>\":3,\"<mask>\":4,\"a\":5,"
                            "\"b\":6,\"ab\":7,\"\\u0120\":8}";
static const char merges[] = "#version: 0.2\na b\n\n";

// Makes the folder of a vocabulary with tokenizer_config.json, unless that is NULL.
static const char *write_folder(bool is_list, const char *config)
{
    folder_new();
    if (is_list) {
        folder_text("vocab.txt", list);
    } else {
        folder_text("vocab.json", pairs);
        folder_text("merges.txt", merges);
    }
    if (config) folder_text("tokenizer_config.json", config);
    return folder_path;
}

TEST(options_of_the_folder_change_the_ids)
{
    static const struct {
        bool is_list;
        const char *config, *text;
        int32_t ids[5];
        int n;
    } rows[] = {
        { true, NULL, "Ab", { 2, 5, 6, 3 }, 4 },
        { true, "{}", "Ab", { 2, 5, 6, 3 }, 4 },
        { true, "{\"do_lower_case\":false}", "Ab", { 2, 1, 3 }, 3 },
        { true, NULL, "\xC3\xA1", { 2, 5, 3 }, 3 }, // an a with an accent
        { true, "{\"strip_accents\":null}", "\xC3\xA1", { 2, 5, 3 }, 3 },
        { true, "{\"strip_accents\":false}", "\xC3\xA1", { 2, 1, 3 }, 3 },
        { true, "{\"do_lower_case\":false,\"strip_accents\":true}", "\xC3\xA1", { 2, 5, 3 }, 3 },
        { true, NULL, "a\xE4\xB8\xAD", { 2, 5, 1, 3 }, 4 }, // an ideograph is a word
        { true, "{\"tokenize_chinese_chars\":false}", "a\xE4\xB8\xAD", { 2, 1, 3 }, 3 },
        { true, NULL, "[MASK]", { 2, 4, 3 }, 3 },
        { false, NULL, "ab", { 0, 7, 2 }, 3 },
        { false, "{\"add_prefix_space\":false}", "ab", { 0, 7, 2 }, 3 },
        { false, "{\"add_prefix_space\":true}", "ab", { 0, 8, 7, 2 }, 4 },
        { false, NULL, "a <mask>", { 0, 5, 4, 2 }, 4 }, // the mask takes the space before it
    };
    EACH(row, rows)
    {
        qkv_tokenizer *t = NULL;
        qkv_encoding e = { 0 };
        qkv_error err = { 0 };
        if (qkv_tokenizer_open(&t, write_folder(row->is_list, row->config), &err))
            fail_msg("%s: %s", row->config, err.text);
        CHECK_EQ(qkv_tokenizer_encode(t, &e, row->text, strlen(row->text), NULL, 0, NULL, NULL),
                 QKV_OK);
        bool same = e.count == row->n;
        for (int i = 0; i < row->n && same; i++) same = e.ids[i] == row->ids[i];
        if (!same)
            fail_msg("%s, %s: %d ids, the second is %d", row->config ? row->config : "no options",
                     row->text, (int)e.count, (int)e.ids[1]);
        qkv_encoding_free(&e);
        qkv_tokenizer_close(t);
    }
}

TEST(folders_with_wrong_files_are_refused)
{
    static const struct {
        bool is_list;
        const char *name, *text, *want;
    } rows[] = {
        { true, "vocab.txt", "a\n", "token [UNK] is missing" },
        { true, "vocab.txt", "[UNK]\n[SEP]\n", "token [CLS] is missing" },
        { true, "vocab.txt", "[UNK]\n\n", "" },
        { true, "tokenizer_config.json", "{\"do_lower_case\":3}", "" },
        { true, "tokenizer_config.json", "{\"tokenize_chinese_chars\":3}", "" },
        { true, "tokenizer_config.json", "{\"strip_accents\":3}", "" },
        { true, "tokenizer_config.json", "{\"tokenizer_class\":3}", "" },
        { true, "tokenizer_config.json", "{", "" },
        { false, "tokenizer_config.json", "{\"add_prefix_space\":3}", "" },
        { false, "tokenizer_config.json", "[]", "" },
        { false, "merges.txt", "ab\n", "malformed merge" },
        { false, "merges.txt", " ab\n", "malformed merge" },
        { false, "merges.txt", "ab \n", "malformed merge" },
        { false, "merges.txt", "a b c\n", "malformed merge" },
        { false, "merges.txt", "a a\n", "result of a merge is not a token" },
        { false, "merges.txt", "a \xff\n", "not valid UTF-8" },
        { false, "vocab.json", "{\"b\":1,\"ab\":2}", "part of a merge is not a token" },
        { false, "vocab.json", "{\"a\":1,\"ab\":2}", "part of a merge is not a token" },
        { false, "vocab.json", "{\"a\":1,\"b\":2}", "result of a merge is not a token" },
        { false, "vocab.json", "{\"a\":1.5}", "" },
        { false, "vocab.json", "{\"a\":1,}", "" },
    };
    EACH(row, rows)
    {
        qkv_tokenizer *t = NULL;
        qkv_error err = { 0 };
        write_folder(row->is_list, NULL);
        folder_text(row->name, row->text);
        const qkv_status status = qkv_tokenizer_open(&t, folder_path, &err);
        if (status != QKV_ERR_FORMAT || t || !strstr(err.text, row->want))
            fail_msg("%s: %d, %s", row->text, (int)status, err.text);
    }
    qkv_tokenizer *t = NULL;
    qkv_error err = { 0 };
    write_folder(false, NULL);
    CHECK_EQ(unlink(folder_name("merges.txt")), 0);
    CHECK(qkv_tokenizer_open(&t, folder_path, &err) != QKV_OK && !t); // no tokenizer.json either
    CHECK(qkv_tokenizer_parse(&t, NULL, 0, "none", NULL) == QKV_ERR_FORMAT && !t);
    static char name[5000];
    memset(name, 'x', sizeof name - 1);
    CHECK(qkv_tokenizer_open(&t, name, NULL) == QKV_ERR_IO && !t);
    folder_new();
    memset(&err, 0, sizeof err);
    CHECK(qkv_tokenizer_open(&t, folder_path, &err) == QKV_ERR_IO && !t);
    CHECK(strstr(err.file, "tokenizer.json"));
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
    static const char config[] =
        "{\"tokenizer_class\":\"BertTokenizerFast\",\"do_lower_case\":true}";
    for (int is_list = 0; is_list < 2; is_list++) {
        char path[256];
        strcpy(path, write_folder(is_list, config));
        CHECK(faults_sample(flow, path, 200) > 50);
    }
}

CHECK_MAIN(CASE(options_of_the_folder_change_the_ids), CASE(folders_with_wrong_files_are_refused),
           CASE(every_failed_allocation_is_survived))
