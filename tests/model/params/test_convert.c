// SPDX-License-Identifier: MIT
// test_convert.c: checks what a program that calls qkv_convert may leave out.
#include "model/folder.h"
#include <qkv/convert.h>
#include <qkv/tensor.h>

#define TINY "tests/golden/bert-bf16"

// NULL is the defaults: float weights in one file.
TEST(without_options_and_report_the_weights_become_floats)
{
    static const char *const names[] = { "config.json", "model.safetensors", "tokenizer.json" };
    const struct qkv_convert_options o = { .precision = QKV_PRECISION_F32 };
    struct qkv_convert_report report = { 0 };
    qkv_error err = { 0 };
    char plain[512], other[512];
    folder_new();
    snprintf(plain, sizeof plain, "%s", folder_name("plain"));
    snprintf(other, sizeof other, "%s", folder_name("other"));
    if (qkv_convert(TINY, plain, NULL, NULL, &err)) fail_msg("%s", err.text);
    if (qkv_convert(TINY, other, &o, &report, &err)) fail_msg("%s", err.text);
    CHECK(report.files == 1 && report.bytes_out == 2 * report.bytes_in);
    EACH(name, names)
    {
        char a[1024], b[1024];
        snprintf(a, sizeof a, "%s/%s", plain, *name);
        snprintf(b, sizeof b, "%s/%s", other, *name);
        CHECK_EQ(access(a, F_OK), access(b, F_OK));
    }
    qkv_tensors *x = NULL, *y = NULL;
    CHECK_EQ(qkv_tensors_open(&x, plain, NULL, &err), QKV_OK);
    CHECK_EQ(qkv_tensors_open(&y, other, NULL, &err), QKV_OK);
    CHECK_EQ(qkv_tensors_count(x), qkv_tensors_count(y));
    for (int64_t i = 0; i < qkv_tensors_count(x); i++) {
        const struct qkv_tensor *a = qkv_tensors_at(x, i), *b = qkv_tensors_at(y, i);
        CHECK(a->dtype == QKV_F32 && a->bytes == b->bytes && !memcmp(a->data, b->data, a->bytes));
    }
    qkv_tensors_close(x);
    qkv_tensors_close(y);
    CHECK_EQ(qkv_convert(TINY, plain, NULL, NULL, NULL), QKV_ERR_USAGE); // without force
}

CHECK_MAIN(CASE(without_options_and_report_the_weights_become_floats))
