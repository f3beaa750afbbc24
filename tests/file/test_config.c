// SPDX-License-Identifier: MIT
// test_config.c: opens config.json of folders: missing, of a run, malformed, with quantized
// weights, and without memory; and reads its keys.
#include "base/faults.h"
#include "file/config.h"
#include "file/file.h"
#include "file/fixtures.h"

static qkv_status open_text(struct qkv_config *c, const char *text, qkv_error *err)
{
    fixture("");
    memset(err, 0, sizeof *err);
    fixture_file("config.json", text, strlen(text));
    return qkv_config_open(c, fixture_dir, err);
}

TEST(weights_of_another_quantization_are_refused)
{
    static const struct {
        const char *text, *found; // found: NULL, accepted
    } rows[] = {
        { "{}", NULL },
        { "{\"quantization_config\":null}", NULL },
        { "{\"quantization_config\":{\"quant_method\":\"" QKV_EIGHT_METHOD "\"}}", NULL },
        { "{\"quantization_config\":{\"quant_method\":\"gptq\"}}", "gptq" },
        { "{\"quantization_config\":{\"quant_method\":8}}", "none" },
        { "{\"quantization_config\":{}}", "none" },
        { "{\"quantization_config\":\"awq\"}", "none" },
    };
    EACH(row, rows)
    {
        struct qkv_config c;
        qkv_error err;
        char want[64];
        const qkv_status status = open_text(&c, row->text, &err);
        CHECK_EQ(status, row->found ? QKV_ERR_UNSUPPORTED : QKV_OK);
        if (row->found) {
            snprintf(want, sizeof want, ", found \"%s\"", row->found);
            CHECK(strstr(err.text, want));
            CHECK_TEXT(err.path, "$.quantization_config.quant_method");
            CHECK(!c.root && !c.file);
        }
        qkv_config_close(&c);
    }
}

TEST(a_folder_without_config_is_told_from_a_run)
{
    struct qkv_config c;
    qkv_error err = { 0 };
    char dir[512];
    fixture("");
    fixture_clean();
    mkdir(fixture_dir, 0700);
    strcpy(dir, fixture_dir);
    CHECK_EQ(qkv_config_open(&c, dir, &err), QKV_ERR_IO);
    CHECK_TEXT(err.text, "cannot open: No such file or directory");
    mkdir(fixture("model"), 0755);
    fixture_file("model/config.json", "{}", 2);
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_config_open(&c, dir, &err), QKV_ERR_IO);
    CHECK(strstr(err.text, "its subfolder model/ is a model folder"));
    fixture_file("short.bin", "\1\2\3", 3);
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_config_open(&c, fixture("short.bin"), &err), QKV_ERR_FORMAT);
    CHECK(!c.root && strstr(err.file, "short.bin"));
    CHECK_EQ(open_text(&c, "{", &err), QKV_ERR_FORMAT);
    CHECK_EQ(open_text(&c, "[]", &err), QKV_ERR_FORMAT);
    CHECK(!c.root && !c.file);
}

TEST(keys_have_types_ranges_and_choices)
{
    static const char *const names[] = { "one", "two", NULL };
    struct qkv_config c;
    qkv_error err;
    CHECK_EQ(open_text(&c, "{\"i\":3,\"r\":0.5,\"f\":true,\"t\":\"two\",\"n\":null}", &err),
             QKV_OK);
    int64_t i = 0;
    double r = 7;
    bool f = false;
    int which = -1;
    CHECK(qkv_config_int(&c, "i", true, &i, 0, 3) && i == 3);
    CHECK(qkv_config_real(&c, "r", true, &r, 0.5, 1) && r == 0.5);
    CHECK(qkv_config_real(&c, "i", true, &r, 0, 3) && r == 3);
    CHECK(qkv_config_real(&c, "absent", false, &r, 0, 1) && r == 3); // unchanged, and not checked
    CHECK(qkv_config_flag(&c, "f", true, &f) && f);
    CHECK(qkv_config_choice(&c, "t", true, &which, names) && which == 1);
    CHECK(qkv_config_choice(&c, "absent", false, &which, names) && which == 1);
    CHECK_EQ(err.status, QKV_OK);
    CHECK(!qkv_config_real(&c, "r", true, &r, 0.6, 1) && r == 3);
    CHECK_TEXT(err.text, "number out of range, expected 0.6 .. 1, found 0.5");
    CHECK_TEXT(err.path, "$.r");
    memset(&err, 0, sizeof err);
    CHECK(!qkv_config_real(&c, "r", true, &r, 0, 0.4) && !qkv_config_real(&c, "t", true, &r, 0, 9));
    CHECK(!qkv_config_int(&c, "i", true, &i, 4, 9) && !qkv_config_int(&c, "r", true, &i, 0, 9));
    CHECK(!qkv_config_int(&c, "absent", true, &i, 0, 9) && i == 3);
    CHECK(!qkv_config_flag(&c, "i", true, &f) && f);
    CHECK(!qkv_config_choice(&c, "i", true, &which, names));
    static const char *const others[] = { "three", "four", NULL };
    memset(&err, 0, sizeof err);
    CHECK(!qkv_config_choice(&c, "t", true, &which, others) && which == 1);
    CHECK(strstr(err.text, "three, four") && strstr(err.text, "two"));
    qkv_config_close(&c);
}

static qkv_status flow(void *ctx, qkv_error *err)
{
    struct qkv_config c;
    (void)ctx;
    const qkv_status status = open_text(&c, "{\"a\":{\"b\":[1,\"x\"]}}", err);
    qkv_config_close(&c);
    return status;
}

TEST(every_failed_allocation_is_survived)
{
    CHECK(faults_walk(flow, NULL, true) > 5);
}

CHECK_MAIN(CASE(weights_of_another_quantization_are_refused),
           CASE(a_folder_without_config_is_told_from_a_run),
           CASE(keys_have_types_ranges_and_choices), CASE(every_failed_allocation_is_survived))
