// SPDX-License-Identifier: MIT
// data_case.h: makes a tokenizer of single letters, and datasets from small texts, for the tests of
// datasets.
#ifndef QKV_DATA_CASE_H
#define QKV_DATA_CASE_H
#include "model/folder.h"
#include "task/data/data.h"
#include "text/text_internal.h"

// Ids: 0 [PAD], 1 [UNK], 2 [CLS], 3 [SEP], 4 [MASK], from 5: a-z at the start of a word, from 31:
// a-z inside a word, from 57: digits.
enum { CASE_VOCAB = 67, CASE_CLS = 2, CASE_SEP = 3, CASE_MASK = 4, CASE_A = 5, CASE_MORE = 31 };

static inline qkv_tokenizer *case_tokenizer(bool template)
{
    static char json[8192];
    size_t n = 0;
    qkv_tokenizer *t = NULL;
    qkv_error err = { 0 };
#define ADD(...) n += (size_t)snprintf(json + n, sizeof json - n, __VA_ARGS__)
    ADD("{\"version\":\"1.0\",\"added_tokens\":[");
    static const char *const special[] = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]" };
    for (int i = 0; i < 5; i++)
        ADD("%s{\"id\":%d,\"content\":\"%s\",\"special\":true}", i ? "," : "", i, special[i]);
    ADD("],\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}");
    if (template)
        ADD(",\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",3],"
            "\"cls\":[\"[CLS]\",2]}");
    ADD(",\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":"
        "\"##\",\"max_input_chars_per_word\":100,\"vocab\":{");
    for (int i = 0; i < 5; i++) ADD("%s\"%s\":%d", i ? "," : "", special[i], i);
    for (int i = 0; i < 26; i++) ADD(",\"%c\":%d", 'a' + i, CASE_A + i);
    for (int i = 0; i < 26; i++) ADD(",\"##%c\":%d", 'a' + i, CASE_MORE + i);
    for (int i = 0; i < 10; i++) ADD(",\"%d\":%d", i, CASE_MORE + 26 + i);
    ADD("}}}");
#undef ADD
    if (qkv_tokenizer_parse(&t, json, n, "made", &err)) fail_msg("%s", err.text);
    return t;
}

// Returns the file `name` in the folder of the case as a source.
static inline struct qkv_text_source case_source(const char *name)
{
    static char paths[8][1024];
    static const char *list[8];
    static int next;
    const int i = next++ % 8;
    snprintf(paths[i], sizeof paths[i], "%s", folder_name(name));
    list[i] = paths[i];
    return (struct qkv_text_source){ .paths = &list[i], .n = 1 };
}

static inline const char *case_dir(const char *name)
{
    static char path[4][1024];
    static int next;
    char *to = path[next++ % 4];
    snprintf(to, 1024, "%s", folder_name(name));
    return to;
}

// Makes a dataset in data/ of the folder and opens it.
static inline qkv_data *case_data(const struct qkv_data_options *o, bool template)
{
    qkv_error err = { 0 };
    qkv_data *d = NULL;
    qkv_tokenizer *t = case_tokenizer(template);
    const char *dir = case_dir("data");
    folder_clear(dir);
    if (qkv_data_make(dir, o, t, NULL, &err) || qkv_data_open(&d, dir, &err)) {
        char line[512];
        fail_msg("%s", qkv_error_line(line, sizeof line, &err));
    }
    qkv_tokenizer_close(t);
    return d;
}

// Returns the error of making a dataset; the folder must then be empty.
static inline qkv_error case_refused(const struct qkv_data_options *o)
{
    qkv_error err = { 0 };
    qkv_tokenizer *t = case_tokenizer(true);
    const char *dir = case_dir("data");
    folder_clear(dir);
    rmdir(dir);
    const qkv_status status = qkv_data_make(dir, o, t, NULL, &err);
    if (!status) fail_msg("a dataset was made of what cannot be one");
    CHECK_EQ(status, err.status);
    CHECK(access(dir, F_OK) != 0);
    qkv_tokenizer_close(t);
    return err;
}
#endif
