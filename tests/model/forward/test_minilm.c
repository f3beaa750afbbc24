// SPDX-License-Identifier: MIT
// test_minilm.c: compares every hidden state and attention matrix of all-MiniLM-L6-v2 on 30 texts,
// given as token ids, with transformers. With QKV_GOLDEN_FULL=DIR (tools/golden.py full) compares
// every number.
#include "model/family/golden.h"
#include <jansson.h>
#include <unistd.h>

#define MINILM "models/all-MiniLM-L6-v2"

static qkv_model *model;
static qkv_tensors *golden;
static json_t *texts;

static int64_t number_of(const json_t *o, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(o, key));
}

// Runs one text from its golden ids.
static struct golden_seen run_text(const char *name, int64_t tokens)
{
    const int32_t *ids = golden_get(golden, name, "ids", QKV_I32, tokens);
    const uint8_t *kept = golden_get(golden, name, "types", QKV_U8, tokens);
    int32_t types[512];
    CHECK(tokens <= 512);
    for (int64_t i = 0; i < tokens; i++) types[i] = kept[i];
    const int64_t offsets[2] = { 0, tokens };
    return golden_run(model, &(struct qkv_model_input){
                                 .sequences = 1, .offsets = offsets, .ids = ids, .types = types });
}

TEST(hidden_states_and_attention_are_the_reference_s)
{
    CHECK_EQ(json_array_size(texts), 30);
    size_t i;
    const json_t *text;
    json_array_foreach(texts, i, text)
    {
        const char *name = json_string_value(json_object_get(text, "name"));
        const int64_t T = number_of(text, "tokens");
        struct golden_seen k = run_text(name, T);
        const int64_t states = k.info.layers + 1, heads = k.info.layers * k.info.heads;
        if (json_is_true(json_object_get(text, "full"))) {
            golden_check_full(name, k.hidden,
                              golden_get(golden, name, "hidden", QKV_F32, states * T * k.D),
                              states * T * k.D, golden_hidden_tolerance);
            golden_check_full(name, k.weights,
                              golden_get(golden, name, "attention", QKV_F32, heads * T * T),
                              heads * T * T, golden_attention_tolerance);
        } else {
            const float *sums = golden_get(golden, name, "hidden.sums", QKV_F32, states * T);
            const struct qkv_tensor *s = golden_find(golden, name, "hidden.samples");
            for (int64_t l = 0; l < states; l++)
                golden_check_compact(name, l, k.hidden + l * T * k.D, T, k.D, sums,
                                     golden_hidden_tolerance, s->data, s->shape[1],
                                     golden_hidden_tolerance);
            sums = golden_get(golden, name, "attention.sums", QKV_F32, heads * T);
            s = golden_find(golden, name, "attention.samples");
            for (int64_t h = 0; h < heads; h++)
                golden_check_compact(name, h, k.weights + h * T * T, T, T, sums,
                                     2 * golden_attention_tolerance, s->data, s->shape[1],
                                     golden_attention_tolerance);
        }
        golden_free(&k);
    }
}

TEST(all_numbers_where_the_whole_golden_is_at_hand)
{
    const char *dir = getenv("QKV_GOLDEN_FULL");
    if (!dir) {
        printf("not run: QKV_GOLDEN_FULL is not set\n");
        return;
    }
    char path[4096];
    qkv_tensors *full = NULL;
    qkv_error err = { 0 };
    snprintf(path, sizeof path, "%s/minilm.safetensors", dir);
    if (qkv_tensors_open(&full, path, NULL, &err)) fail_msg("%s", err.text);
    double hidden = 0, attention = 0;
    size_t i;
    const json_t *text;
    json_array_foreach(texts, i, text)
    {
        const char *name = json_string_value(json_object_get(text, "name"));
        const int64_t T = number_of(text, "tokens");
        struct golden_seen k = run_text(name, T);
        const int64_t nh = (k.info.layers + 1) * T * k.D, na = k.info.layers * k.info.heads * T * T;
        hidden =
            fmax(hidden, golden_worst(k.hidden, golden_get(full, name, "hidden", QKV_F32, nh), nh));
        attention =
            fmax(attention,
                 golden_worst(k.weights, golden_get(full, name, "attention", QKV_F32, na), na));
        golden_free(&k);
    }
    printf("all numbers of 30 texts: hidden %.3g, attention %.3g at most from the reference\n",
           hidden, attention);
    CHECK_NEAR(hidden, 0, golden_hidden_tolerance);
    CHECK_NEAR(attention, 0, golden_attention_tolerance);
    qkv_tensors_close(full);
}

// "The animal didn't cross the street because it was too tired" has 15 tokens; "it" is token 10,
// "animal" token 2.
TEST(it_looks_at_the_animal)
{
    enum { T = 15, IT = 10, ANIMAL = 2 };
    const int32_t *ids = golden_get(golden, "animal", "ids", QKV_I32, T);
    CHECK_EQ(ids[IT], 2009);
    CHECK_EQ(ids[ANIMAL], 4111);
    struct golden_seen k = run_text("animal", T);
    const int64_t H = k.info.heads;
    CHECK_NEAR(k.weights[((5 * H + 11) * T + IT) * T + ANIMAL], 0.647, 0.0005);
    CHECK_NEAR(k.weights[((3 * H + 1) * T + IT) * T + ANIMAL], 0.64, 0.005);
    golden_free(&k);
}

TEST(rows_of_attention_sum_to_one)
{
    struct golden_seen k = run_text("pair_512", 512);
    for (int64_t r = 0; r < k.info.layers * k.info.heads * 512; r++) {
        double sum = 0;
        for (int64_t c = 0; c < 512; c++) sum += (double)k.weights[r * 512 + c];
        // one rounding per weight; the rounding of the divisor cancels
        CHECK_NEAR(sum, 1, (512 + 4) * 0x1p-23);
    }
    golden_free(&k);
}

// Runs all 30 texts in one batch: each row is bit-identical to its text alone.
TEST(thirty_texts_packed_are_thirty_texts)
{
    static int32_t ids[30 * 512], types[30 * 512];
    int64_t offsets[31] = { 0 };
    const size_t n = json_array_size(texts);
    for (size_t i = 0; i < n; i++) {
        const json_t *text = json_array_get(texts, i);
        const char *name = json_string_value(json_object_get(text, "name"));
        const int64_t T = number_of(text, "tokens");
        memcpy(ids + offsets[i], golden_get(golden, name, "ids", QKV_I32, T),
               (size_t)T * sizeof *ids);
        const uint8_t *kept = golden_get(golden, name, "types", QKV_U8, T);
        for (int64_t j = 0; j < T; j++) types[offsets[i] + j] = kept[j];
        offsets[i + 1] = offsets[i] + T;
    }
    const int64_t D = qkv_model_info(model).width;
    float *all = malloc((size_t)(offsets[n] * D) * sizeof *all),
          *one = malloc((size_t)(512 * D) * sizeof *one);
    CHECK(all && one);
    qkv_error err = { 0 };
    struct qkv_model_input in = {
        .sequences = (int64_t)n, .offsets = offsets, .ids = ids, .types = types
    };
    CHECK_EQ(qkv_model_run(model, all, &in, NULL, &err), QKV_OK);
    for (size_t i = 0; i < n; i++) {
        const int64_t single[2] = { 0, offsets[i + 1] - offsets[i] };
        in = (struct qkv_model_input){
            .sequences = 1, .offsets = single, .ids = ids + offsets[i], .types = types + offsets[i]
        };
        CHECK_EQ(qkv_model_run(model, one, &in, NULL, &err), QKV_OK);
        CHECK_BITS(one, all + offsets[i] * D, (size_t)(single[1] * D) * sizeof *one);
    }
    free(all);
    free(one);
}

TEST(what_minilm_is)
{
    const struct qkv_model_info info = qkv_model_info(model);
    CHECK_TEXT(info.family, "bert");
    CHECK_TEXT(info.name, "all-MiniLM-L6-v2");
    CHECK_EQ(info.layers, 6);
    CHECK_EQ(info.heads, 12);
    CHECK_EQ(info.width, 384);
    CHECK_EQ(info.positions, 512);
    CHECK_EQ(info.parameters, 22713216);
    CHECK_EQ(info.tensors, 104);
    CHECK_EQ(info.unused_tensors, 3); // the pooler and the buffer of position numbers
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
    texts = json_object_get(root, "texts");
    if (!texts || qkv_model_open(&model, MINILM, NULL, &err) ||
        qkv_tensors_open(&golden, GOLDEN "minilm.safetensors", NULL, &err)) {
        printf("%s %s\n", err.file, err.text);
        return 1;
    }
    const struct CMUnitTest cases[] = { CASE(hidden_states_and_attention_are_the_reference_s),
                                        CASE(all_numbers_where_the_whole_golden_is_at_hand),
                                        CASE(it_looks_at_the_animal),
                                        CASE(rows_of_attention_sum_to_one),
                                        CASE(thirty_texts_packed_are_thirty_texts),
                                        CASE(what_minilm_is) };
    const int failed = cmocka_run_group_tests(cases, NULL, NULL);
    qkv_tensors_close(golden);
    qkv_model_close(model);
    json_decref(root);
    return failed;
}
