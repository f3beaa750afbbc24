// SPDX-License-Identifier: MIT
// test_tokenizer_minilm.c: compares the tokenizer of all-MiniLM-L6-v2 with the reference; skipped
// if it is not installed.
#include "text/golden_text.h"
#include <unistd.h>

#define MODEL "models/all-MiniLM-L6-v2"

TEST(hard_texts_become_the_tokens_of_the_reference)
{
    golden_replay("tests/golden/text/minilm.json", MODEL "/tokenizer.json");
}

TEST(a_folder_opens_and_reports_its_vocabulary)
{
    qkv_tokenizer *t = NULL;
    CHECK_EQ(qkv_tokenizer_open(&t, MODEL, NULL), QKV_OK);
    CHECK_TEXT(qkv_tokenizer_kind(t), "WordPiece");
    CHECK_EQ(qkv_tokenizer_size(t), 30522);
    CHECK_EQ(qkv_tokenizer_id(t, "##ing"), 2075);
    CHECK_TEXT(qkv_tokenizer_token(t, 2075), "##ing");
    CHECK(qkv_tokenizer_special(t, 101) && qkv_tokenizer_special(t, 0) &&
          !qkv_tokenizer_special(t, 2075));
    for (int32_t id = 0; id < 30522; id++)
        CHECK_EQ(qkv_tokenizer_id(t, qkv_tokenizer_token(t, id)), id);
    qkv_tokenizer_close(t);
}

// The file requests truncation and padding to 128 tokens; they apply only on request.
TEST(limits_of_the_file_apply_on_request)
{
    qkv_tokenizer *t = NULL;
    qkv_encoding e = { 0 };
    char text[1000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = i % 2 ? ' ' : 'a';
    CHECK_EQ(qkv_tokenizer_open(&t, MODEL, NULL), QKV_OK);
    CHECK_EQ(qkv_tokenizer_encode(t, &e, text, sizeof text, NULL, 0, NULL, NULL), QKV_OK);
    CHECK_EQ(e.count, 502);
    const struct qkv_encode_options o = { .file_limits = true };
    CHECK_EQ(qkv_tokenizer_encode(t, &e, text, sizeof text, NULL, 0, &o, NULL), QKV_OK);
    CHECK_EQ(e.count, 128);
    CHECK_EQ(e.cut, 374);
    CHECK_EQ(e.ids[127], 102);
    CHECK_EQ(qkv_tokenizer_encode(t, &e, text, 3, NULL, 0, &o, NULL), QKV_OK);
    CHECK_EQ(e.count, 128);
    CHECK_EQ(e.attend[3], 1);
    CHECK_EQ(e.attend[4], 0);
    CHECK_EQ(e.text[4], 3);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest cases[] = { CASE(hard_texts_become_the_tokens_of_the_reference),
                                        CASE(a_folder_opens_and_reports_its_vocabulary),
                                        CASE(limits_of_the_file_apply_on_request) };
    if (access(MODEL "/tokenizer.json", R_OK) != 0) {
        puts("skipped: " MODEL " is not there");
        return 77;
    }
    return cmocka_run_group_tests(cases, NULL, NULL);
}
