// SPDX-License-Identifier: MIT
// test_minilm_precision.c: measures the error of each precision on all-MiniLM-L6-v2: the cosine of
// every text's vector to the f32 vector and to the reference.
//
// The limits of f32 and bf16 are promised by the project. 1 - cosine grows with the square of the
// error, and the error with the unit of the type: f16 has three bits more than bf16, so its limit
// is 64 times smaller. The limit of int8 is the error of the dynamic quantization of ONNX Runtime,
// with one scale per row of weights, on these texts (1 - cosine at most .0194, mean .0099).
#include "model/family/golden.h"
#include <jansson.h>
#include <qkv/task.h>
#include <unistd.h>

#define MINILM "models/all-MiniLM-L6-v2"
enum { MOST = 30, D = 384 };

static qkv_tensors *golden;
static const char *texts[MOST], *names[MOST];
static size_t bytes[MOST];
static int64_t count;
static float plain[MOST * D];

// Embeds all texts; false: the precision does not run on this CPU.
static bool embed(float *out, qkv_precision p, bool refusable)
{
    const struct qkv_embedder_options o = { .model.precision = p, .truncate = true };
    qkv_embedder *e = NULL;
    qkv_error err = { 0 };
    const qkv_status status = qkv_embedder_open(&e, MINILM, &o, &err);
    if (refusable && status == QKV_ERR_UNSUPPORTED) return false;
    if (status || qkv_embed(e, out, texts, bytes, count, NULL, &err)) fail_msg("%s", err.text);
    qkv_embedder_close(e);
    return true;
}

static double cosine(const float *a, const float *b)
{
    double ab = 0, aa = 0, bb = 0;
    for (int d = 0; d < D; d++) {
        ab += (double)a[d] * (double)b[d];
        aa += (double)a[d] * (double)a[d];
        bb += (double)b[d] * (double)b[d];
    }
    return ab / sqrt(aa * bb);
}

// rounds: the precision stores fewer bits than f32, so that no vector may be that of f32.
static void holds(qkv_precision p, bool rounds, double least)
{
    static float out[MOST * D];
    double to_plain = 1, to_reference = 1, sum = 0;
    int64_t worst = 0, same = 0;
    if (p == QKV_PRECISION_F32) {
        memcpy(out, plain, sizeof out);
    } else if (!embed(out, p, true)) {
        printf("%s: not on this CPU\n", qkv_precision_name(p));
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const float *want = golden_get(golden, names[i], "embedding", QKV_F32, D);
        const double c = cosine(out + i * D, want);
        if (c < to_reference) worst = i;
        to_reference = fmin(to_reference, c);
        sum += 1 - c;
        to_plain = fmin(to_plain, cosine(out + i * D, plain + i * D));
        same += !memcmp(out + i * D, plain + i * D, D * sizeof *out);
    }
    if (rounds && same) fail_msg("%s: %lld vectors of f32", qkv_precision_name(p), (long long)same);
    printf("%-10s 1 - cosine: %.2g to f32; to the reference %.2g (%s), in the mean %.2g\n",
           qkv_precision_name(p), 1 - to_plain, 1 - to_reference, names[worst],
           sum / (double)count);
    if (!(to_plain >= least && to_reference >= least))
        fail_msg("%s: cosine %.9f to f32, %.9f to the reference, expected %.9f at least",
                 qkv_precision_name(p), to_plain, to_reference, least);
}

TEST(floats_lose_a_millionth_at_most)
{
    holds(QKV_PRECISION_F32, false, 0.999999); // f32 itself is compared with the reference only
    holds(QKV_PRECISION_F32_STRICT, false, 0.999999);
    holds(QKV_PRECISION_F32_FAST, false, 0.999999);
}
TEST(bf16_loses_a_ten_thousandth_at_most)
{
    holds(QKV_PRECISION_BF16, true, 0.9999);
}
TEST(f16_loses_64_times_less_than_bf16_may)
{
    holds(QKV_PRECISION_F16, true, 1 - 0.0001 / 64);
}
TEST(int8_loses_no_more_than_others_do)
{
    holds(QKV_PRECISION_INT8, true, 1 - 0.0194);
}

static void find_texts(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list) && count < MOST; i++) {
        const json_t *o = json_array_get(list, i), *a = json_object_get(o, "a");
        if (json_string_value(json_object_get(o, "b"))) continue;
        texts[count] = json_string_value(a);
        bytes[count] = json_string_length(a);
        names[count++] = json_string_value(json_object_get(o, "name"));
    }
}

int main(void)
{
    qkv_error err = { 0 };
    json_error_t why;
    if (access(MINILM "/model.safetensors", R_OK) != 0) {
        printf("skipped: no " MINILM " (make demo fetches it)\n");
        return 77;
    }
    json_t *root = json_load_file(GOLDEN "minilm.json", JSON_ALLOW_NUL, &why);
    find_texts(json_object_get(root, "texts"));
    if (!count || qkv_tensors_open(&golden, GOLDEN "minilm.safetensors", NULL, &err)) {
        printf("%s %s\n", err.file, err.text);
        return 1;
    }
    (void)embed(plain, QKV_PRECISION_F32, false);
    const struct CMUnitTest cases[] = { CASE(floats_lose_a_millionth_at_most),
                                        CASE(bf16_loses_a_ten_thousandth_at_most),
                                        CASE(f16_loses_64_times_less_than_bf16_may),
                                        CASE(int8_loses_no_more_than_others_do) };
    const int failed = cmocka_run_group_tests(cases, NULL, NULL);
    qkv_tensors_close(golden);
    json_decref(root);
    return failed;
}
