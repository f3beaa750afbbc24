// SPDX-License-Identifier: MIT
// test_llama2c.c: checks that malformed checkpoints of llama2.c are refused with their location,
// that every cut and every changed byte of a header opens or is refused, and the tensors.
#include "file/file.h"
#include "fixtures.h"
#include <math.h>

#define GOLDEN "tests/golden/llama2c-v"
enum { D = 24, M = 40, L = 2, H = 6, G = 3, V = 37, P = 20 }; // of the golden ones

static char *load(int version, size_t *bytes)
{
    char path[64];
    snprintf(path, sizeof path, GOLDEN "%d/model.bin", version);
    FILE *f = fopen(path, "rb");
    char *data = calloc(1 << 20, 1);
    if (!f || !data) fail_msg("cannot read %s", path);
    *bytes = fread(data, 1, 1 << 20, f);
    fclose(f);
    CHECK(*bytes > 0 && *bytes < 1 << 20);
    return data;
}

static void put_int(char *data, size_t at, int32_t x)
{
    const uint32_t bits = (uint32_t)x;
    for (int i = 0; i < 4; i++) data[at + (size_t)i] = (char)(bits >> 8 * i);
}

TEST(tensors_have_the_names_and_shapes_of_llama)
{
    static const struct {
        const char *name;
        int64_t rows, columns;
    } rows[] = {
        { "model.embed_tokens.weight", V, D },
        { "model.layers.0.self_attn.q_proj.weight", D, D },
        { "model.layers.1.self_attn.k_proj.weight", D / H * G, D },
        { "model.layers.0.self_attn.v_proj.weight", D / H * G, D },
        { "model.layers.1.self_attn.o_proj.weight", D, D },
        { "model.layers.1.mlp.gate_proj.weight", M, D },
        { "model.layers.0.mlp.down_proj.weight", D, M },
        { "model.layers.0.mlp.up_proj.weight", M, D },
        { "model.layers.1.input_layernorm.weight", D, 0 },
        { "model.layers.0.post_attention_layernorm.weight", D, 0 },
        { "model.norm.weight", D, 0 },
    };
    for (int version = 0; version < 3; version++) {
        size_t bytes;
        char *data = load(version, &bytes);
        qkv_tensors *t = fixture_open(fixture_file("x.bin", data, bytes), false);
        // version 1 has an output projection
        CHECK_EQ(qkv_tensors_count(t), 2 + 9 * L + (version == 1));
        CHECK((qkv_tensors_find(t, "lm_head.weight") != NULL) == (version == 1));
        EACH(r, rows)
        {
            const struct qkv_tensor *x = qkv_tensors_find(t, r->name);
            CHECK(x && x->dtype == QKV_F32 && x->rank == (r->columns ? 2 : 1));
            CHECK(x->shape[0] == r->rows && (!r->columns || x->shape[1] == r->columns));
        }
        (void)fixture_walk(t);
        qkv_tensors_close(t);
        free(data);
    }
}

TEST(pairs_of_a_head_are_reordered_as_llama_rotates_them)
{
    size_t bytes;
    char *data = load(0, &bytes);
    const size_t q = 28 + 4 * (size_t)(V * D + L * D), E = D / H;
    for (size_t i = 0; i < (size_t)(D * D); i++) { // q of layer 0: its own number
        const float x = (float)i;
        memcpy(data + q + 4 * i, &x, sizeof x);
    }
    qkv_tensors *t = fixture_open(fixture_file("x.bin", data, bytes), false);
    const float *w = qkv_tensors_find(t, "model.layers.0.self_attn.q_proj.weight")->data;
    for (size_t r = 0; r < D; r++) {
        const size_t e = r % E, from = r - e + (e < E / 2 ? 2 * e : 2 * (e - E / 2) + 1);
        for (size_t c = 0; c < D; c++)
            CHECK_EQ((int64_t)lrintf(w[r * D + c]), (int64_t)(from * D + c));
    }
    qkv_tensors_close(t);
    free(data);
}

TEST(numbers_of_a_group_share_its_scale)
{
    size_t bytes;
    char *data = load(2, &bytes);
    const size_t word = 256 + 4 * (size_t)(2 * L * D + D), group = 8;
    float scale;
    memcpy(&scale, data + word + V * D + 4 * 5, sizeof scale);
    qkv_tensors *t = fixture_open(fixture_file("x.bin", data, bytes), true);
    const float *w = qkv_tensors_find(t, "model.embed_tokens.weight")->data;
    for (size_t i = 5 * group; i < 6 * group; i++)
        CHECK(w[i] == (float)(signed char)data[word + i] * scale);
    qkv_tensors_close(t);
    free(data);
}

TEST(a_wrong_header_is_refused_at_its_byte)
{
    static const struct {
        int version;
        size_t at;
        int32_t value;
        qkv_status status;
        const char *says;
    } rows[] = {
        { 0, 0, -24, QKV_ERR_FORMAT, "invalid width, expected 1 .. 65536, found -24" },
        { 0, 0, 0, QKV_ERR_FORMAT, "invalid width, expected 1 .. 65536, found 0" },
        { 0, 4, 1 << 30, QKV_ERR_LIMIT,
          "invalid inner width, expected 1 .. 1048576, found 1073741824" },
        { 0, 8, -1, QKV_ERR_FORMAT, "invalid number of layers, expected 1 .. 1024, found -1" },
        { 0, 12, 5, QKV_ERR_FORMAT,
          "invalid number of heads, expected a divisor of the width 24 for which the head width is "
          "even, "
          "found 5" },
        { 0, 12, 8, QKV_ERR_FORMAT,
          "invalid number of heads, expected a divisor of the width 24 for which the head width is "
          "even, "
          "found 8" },
        { 0, 16, 4, QKV_ERR_FORMAT,
          "invalid number of key/value heads, expected a divisor of the 6 query heads, found 4" },
        { 0, 20, INT32_MIN, QKV_ERR_LIMIT,
          "invalid size of the vocabulary, expected 1 .. 16777216 or minus such a number, found "
          "-2147483648" },
        { 0, 20, 0, QKV_ERR_FORMAT,
          "invalid size of the vocabulary, expected 1 .. 16777216 or minus such a number, found "
          "0" },
        { 0, 24, -20, QKV_ERR_FORMAT,
          "invalid number of positions, expected 1 .. 16777216, found -20" },
        { 1, 4, 3, QKV_ERR_UNSUPPORTED,
          "unsupported version of a llama2.c checkpoint, expected 1 or 2, found 3" },
        { 1, 28, -37, QKV_ERR_FORMAT,
          "invalid size of the vocabulary, expected 1 .. 16777216, found -37" },
        { 1, 36, 7, QKV_ERR_FORMAT,
          "invalid flag of the shared output projection, expected 0 or 1, found 7" },
        { 2, 37, 0, QKV_ERR_FORMAT,
          "invalid size of a quantization group, expected a divisor of the width 24, found 0" },
        { 2, 37, 7, QKV_ERR_FORMAT,
          "invalid size of a quantization group, expected a divisor of the width 24, found 7" },
    };
    EACH(r, rows)
    {
        size_t bytes;
        char *data = load(r->version, &bytes);
        put_int(data, r->at, r->value);
        fixture_refused(fixture_file("x.bin", data, bytes), r->status, (int64_t)r->at, "", r->says);
        free(data);
    }
    fixture_refused(
        fixture_file("x.bin", "abc", 3), QKV_ERR_FORMAT, 0, "",
        "file of llama2.c too short, expected a checkpoint header of 28 bytes, found 3");
    fixture_refused(fixture_file("x", "24ka\1\0\0\0", 8), QKV_ERR_FORMAT, 0, "",
                    "file of llama2.c too short, expected a header of 256 bytes, found 8");
}

TEST(the_file_size_must_match_the_header)
{
    size_t bytes;
    char *data = load(0, &bytes), says[256];
    const size_t word = 28 + 4 * V * D;
    fixture_refused(
        fixture_file("x.bin", data, word - 1), QKV_ERR_FORMAT, (int64_t)word - 1, "",
        "truncated checkpoint of llama2.c, expected model.embed_tokens.weight at bytes 28..3580, "
        "found the end of the file");
    fixture_refused(fixture_file("x.bin", data, bytes - 1), QKV_ERR_FORMAT, (int64_t)bytes - 1, "",
                    NULL);
    fixture_refused(
        fixture_file("x.bin", data, bytes + 5), QKV_ERR_FORMAT, (int64_t)bytes, "",
        "bytes after the last tensor, expected the end of the file, found 5 more bytes");
    // A wrong flag: the projection exists without the flag, or the flag without the projection.
    fixture_refused(
        fixture_file("x.bin", data, bytes + 4 * V * D), QKV_ERR_FORMAT, (int64_t)bytes, "",
        "bytes after the last tensor, expected the end of the file, found 3552 more bytes, which "
        "is the size of an output projection that the header does not announce");
    put_int(data, 20, -V);
    snprintf(says, sizeof says,
             "truncated checkpoint of llama2.c, expected lm_head.weight at bytes %zu..%zu, found "
             "the end of "
             "the file",
             bytes, bytes + 4 * V * D);
    fixture_refused(fixture_file("x.bin", data, bytes), QKV_ERR_FORMAT, (int64_t)bytes, "", says);
    // Allowed sizes whose product exceeds the file.
    put_int(data, 0, 1 << 16);
    put_int(data, 4, 1 << 20);
    put_int(data, 8, 1 << 10);
    put_int(data, 12, 4);
    put_int(data, 16, 1);
    put_int(data, 20, 1 << 24);
    fixture_refused(fixture_file("x.bin", data, bytes), QKV_ERR_FORMAT, (int64_t)bytes, "",
                    "truncated checkpoint of llama2.c, expected model.embed_tokens.weight at bytes "
                    "28..4398046511132, found the end of the file");
    free(data);
}

TEST(every_cut_and_every_changed_byte_is_opened_or_refused)
{
    for (int version = 0; version < 3; version++) {
        size_t bytes;
        char *data = load(version, &bytes);
        for (size_t i = 0; i < 300; i++) {
            const size_t cut = i < 264 ? i : bytes - (i - 263);
            qkv_tensors *t = NULL;
            qkv_error err = { 0 };
            CHECK(qkv_tensors_open(&t, fixture_file("x.bin", data, cut), NULL, &err));
            CHECK(err.status == QKV_ERR_FORMAT && strstr(err.text, ", expected "));
        }
        for (size_t i = 0; i < 48; i++)
            for (int bit = 0; bit < 8; bit++) {
                qkv_tensors *t = NULL;
                qkv_error err = { 0 };
                data[i] = (char)(data[i] ^ 1 << bit);
                if (!qkv_tensors_open(&t, fixture_file("x.bin", data, bytes), NULL, &err))
                    (void)fixture_walk(t);
                qkv_tensors_close(t);
                data[i] = (char)(data[i] ^ 1 << bit);
            }
        free(data);
    }
}

TEST(its_header_is_a_config_of_llama)
{
    struct qkv_config c;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_config_open(&c, GOLDEN "1/model.bin", &err), QKV_OK);
    int64_t n = 0;
    bool tied = true;
    CHECK(qkv_config_int(&c, "hidden_size", true, &n, 1, 100) && n == D);
    CHECK(qkv_config_int(&c, "num_key_value_heads", true, &n, 1, 100) && n == G);
    CHECK(qkv_config_int(&c, "max_position_embeddings", true, &n, 1, 100) && n == P);
    CHECK(qkv_config_flag(&c, "tie_word_embeddings", true, &tied) && !tied);
    CHECK(strcmp(qkv_config_model_type(&c, ""), "llama") == 0);
    qkv_config_close(&c);
    CHECK_EQ(qkv_config_open(&c, GOLDEN "0", &err), QKV_OK); // the folder
    qkv_config_close(&c);
    CHECK_EQ(qkv_config_open(&c, fixture_file("x.bin", "abc", 3), &err), QKV_ERR_FORMAT);
}

CHECK_MAIN(CASE(tensors_have_the_names_and_shapes_of_llama),
           CASE(pairs_of_a_head_are_reordered_as_llama_rotates_them),
           CASE(numbers_of_a_group_share_its_scale), CASE(a_wrong_header_is_refused_at_its_byte),
           CASE(the_file_size_must_match_the_header),
           CASE(every_cut_and_every_changed_byte_is_opened_or_refused),
           CASE(its_header_is_a_config_of_llama))
