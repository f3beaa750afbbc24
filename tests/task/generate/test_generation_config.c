// SPDX-License-Identifier: MIT
// test_generation_config.c: lists of token ids in generation_config.json.
#include "check.h"
#include "task/generate/generation_config.h"
#include <unistd.h>

enum { VOCABULARY = 1000000, IDS = 250000 };

// Every id occurs twice.  An algorithm that compares each id with all others takes minutes.
TEST(a_long_list_is_read_in_time_and_each_id_counts_once)
{
    char dir[] = "/tmp/qkv_generation_XXXXXX", path[64];
    CHECK(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/generation_config.json", dir);
    FILE *f = fopen(path, "w");
    CHECK(f);
    fputs("{\"bad_words_ids\":[[7],[3,4]],\"suppress_tokens\":[", f);
    for (int i = 0; i < 2 * IDS; i++) fprintf(f, "%s%d", i ? "," : "", i % IDS);
    fputs("]}", f);
    fclose(f);
    struct qkv_generation_config c = { 0 };
    qkv_error err = { 0 };
    const qkv_status status = qkv_generation_file_read(&c, dir, VOCABULARY, true, &err);
    if (status) fail_msg("%s", err.text);
    CHECK_EQ(c.suppressed_count, IDS);
    CHECK_EQ(c.suppressed[0], 7);
    CHECK_EQ(c.suppressed[1], 0);
    CHECK_EQ(c.suppressed[IDS - 1], IDS - 1);
    CHECK_EQ(c.banned_count, 1);
    qkv_generation_config_free(&c);
    CHECK(qkv_generation_file_read(&c, dir, IDS - 1, true, &err) == QKV_ERR_FORMAT);
    qkv_generation_config_free(&c);
    remove(path);
    rmdir(dir);
}

TEST(legal_values_of_the_reference_are_read_and_keys_not_applied_are_named)
{
    char dir[] = "/tmp/qkv_generation_XXXXXX", path[64];
    CHECK(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/generation_config.json", dir);
    FILE *f = fopen(path, "w");
    CHECK(f);
    fputs("{\"do_sample\":true,\"top_p\":0,\"length_penalty\":-1.5,\"forced_eos_token_id\":[2],"
          "\"top_h\":0.5,\"max_time\":1.0,\"token_healing\":true}",
          f);
    fclose(f);
    struct qkv_generation_config c = { .forced_last = -1 };
    qkv_error err = { 0 };
    const qkv_status status = qkv_generation_file_read(&c, dir, 10, true, &err);
    if (status) fail_msg("%s", err.text);
    CHECK(c.sampling.top_p > 0 && c.sampling.top_p < 1e-30);
    CHECK_NEAR(c.length_reward, -1.5, 0);
    CHECK_NEAR(c.length_penalty, 0, 0);
    CHECK_EQ(c.forced_last, 2);
    CHECK_TEXT(c.ignored, "top_h, max_time, token_healing");
    qkv_generation_config_free(&c);
    remove(path);
    rmdir(dir);
}

CHECK_MAIN(CASE(legal_values_of_the_reference_are_read_and_keys_not_applied_are_named),
           CASE(a_long_list_is_read_in_time_and_each_id_counts_once))
