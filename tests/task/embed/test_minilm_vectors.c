// SPDX-License-Identifier: MIT
// test_minilm_vectors.c: compares tokenizer, model and pooling of all-MiniLM-L6-v2 on 30 texts with
// the reference: ids, types and byte offsets are equal, embeddings have a cosine >= 0.99999.
#include "model/family/golden.h"
#include <jansson.h>
#include <qkv/task.h>
#include <unistd.h>

#define MINILM "models/all-MiniLM-L6-v2"

static qkv_embedder *embedder;
static qkv_tensors *golden;
static json_t *texts;

struct sample {
    const char *name, *a, *b; // b NULL: no pair
    size_t a_bytes, b_bytes;
    int64_t tokens;
};
static struct sample sample_at(size_t i)
{
    const json_t *o = json_array_get(texts, i), *a = json_object_get(o, "a"),
                 *b = json_object_get(o, "b");
    return (struct sample){ json_string_value(json_object_get(o, "name")),
                            json_string_value(a),
                            json_string_value(b),
                            json_string_length(a),
                            json_string_length(b),
                            (int64_t)json_integer_value(json_object_get(o, "tokens")) };
}

TEST(ids_types_and_offsets_are_the_reference_s)
{
    qkv_encoding e = { 0 };
    const struct qkv_encode_options how = { .max_length = 512, .truncate = true };
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const struct sample s = sample_at(i);
        qkv_error err = { 0 };
        if (qkv_tokenizer_encode(qkv_embedder_tokenizer(embedder), &e, s.a, s.a_bytes, s.b,
                                 s.b_bytes, &how, &err))
            fail_msg("%s: %s", s.name, err.text);
        if (e.count != s.tokens) fail_msg("%s: %lld tokens", s.name, (long long)e.count);
        const int32_t *ids = golden_get(golden, s.name, "ids", QKV_I32, e.count);
        const uint8_t *types = golden_get(golden, s.name, "types", QKV_U8, e.count);
        const int32_t *offsets = golden_get(golden, s.name, "offsets", QKV_I32, 2 * e.count);
        for (int64_t t = 0; t < e.count; t++)
            if (e.ids[t] != ids[t] || e.types[t] != types[t] || e.begin[t] != offsets[2 * t] ||
                e.end[t] != offsets[2 * t + 1])
                fail_msg("%s, token %lld: id %d type %d bytes %lld..%lld, expected id %d type %d "
                         "bytes %d..%d",
                         s.name, (long long)t, e.ids[t], e.types[t], (long long)e.begin[t],
                         (long long)e.end[t], ids[t], types[t], offsets[2 * t], offsets[2 * t + 1]);
    }
    qkv_encoding_free(&e);
}

// Lists the texts that are not pairs; returns their number.
static int64_t single_texts(const char *at[30], size_t bytes[30], const char *names[30])
{
    int64_t n = 0;
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const struct sample s = sample_at(i);
        if (s.b) continue;
        at[n] = s.a;
        bytes[n] = s.a_bytes;
        names[n++] = s.name;
    }
    return n;
}

TEST(embeddings_are_the_reference_s)
{
    const char *at[30], *names[30];
    size_t bytes[30];
    static float out[30 * 384];
    const int64_t n = single_texts(at, bytes, names);
    struct qkv_embed_report report = { 0 };
    qkv_error err = { 0 };
    if (qkv_embed(embedder, out, at, bytes, n, &report, &err)) fail_msg("%s", err.text);
    double worst = 1;
    for (int64_t i = 0; i < n; i++) {
        const float *want = golden_get(golden, names[i], "embedding", QKV_F32, 384);
        double dot = 0, square = 0;
        for (int d = 0; d < 384; d++) {
            dot += (double)out[i * 384 + d] * (double)want[d];
            square += (double)out[i * 384 + d] * (double)out[i * 384 + d];
        }
        CHECK_NEAR(square, 1, 384 * 0x1p-24); // length 1: each number is rounded once
        if (!(dot >= 0.99999)) fail_msg("%s: cosine %.9f", names[i], dot);
        worst = fmin(worst, dot);
    }
    printf("%lld embeddings: cosine 1 - %.2g at least\n", (long long)n, 1 - worst);
    CHECK_EQ(report.cut_texts, 2); // over_256, tokens_512
    CHECK(report.cut_tokens > 0);
    CHECK_EQ(report.replaced, 0);
}

// One text at a time, in small batches, in one batch: the same bits.
TEST(batches_change_no_bit)
{
    const char *at[30], *names[30];
    size_t bytes[30];
    static float all[30 * 384], one[384];
    const int64_t n = single_texts(at, bytes, names);
    qkv_error err = { 0 };
    CHECK_EQ(qkv_embed(embedder, all, at, bytes, n, NULL, &err), QKV_OK);
    for (int64_t i = 0; i < n; i++) {
        CHECK_EQ(qkv_embed(embedder, one, at + i, bytes + i, 1, NULL, &err), QKV_OK);
        CHECK_BITS(one, all + i * 384, sizeof one);
    }
    qkv_embedder *small = NULL;
    static float again[30 * 384];
    const struct qkv_embedder_options o = { .batch_tokens = 40, .truncate = true };
    CHECK_EQ(qkv_embedder_open(&small, MINILM, &o, &err), QKV_OK);
    CHECK_EQ(qkv_embed(small, again, at, bytes, n, NULL, &err), QKV_OK);
    CHECK_BITS(again, all, (size_t)n * 384 * sizeof(float));
    qkv_embedder_close(small);
}

// Padded to 64 tokens each, and from ids instead of texts: the same bits.
TEST(padding_and_ids_change_no_bit)
{
    const char *at[30], *names[30];
    size_t bytes[30];
    static float plain[30 * 384], padded[30 * 384], from_ids[384];
    const int64_t n = single_texts(at, bytes, names);
    qkv_error err = { 0 };
    const struct qkv_embedder_options short_ = { .max_length = 64, .truncate = true };
    const struct qkv_embedder_options pad = { .max_length = 64, .truncate = true, .pad = true };
    const struct qkv_embedder_options ids = { .max_length = 64, .no_tokenizer = true };
    const struct qkv_embedder_options *how[] = { &short_, &pad, &ids };
    qkv_embedder *e[3] = { NULL, NULL, NULL };
    for (int i = 0; i < 3; i++) CHECK_EQ(qkv_embedder_open(&e[i], MINILM, how[i], &err), QKV_OK);
    CHECK_EQ(qkv_embed(e[0], plain, at, bytes, n, NULL, &err), QKV_OK);
    CHECK_EQ(qkv_embed(e[1], padded, at, bytes, n, NULL, &err), QKV_OK);
    CHECK_BITS(padded, plain, (size_t)n * 384 * sizeof(float));

    CHECK(qkv_embedder_tokenizer(e[2]) == NULL);
    CHECK_EQ(qkv_embed(e[2], from_ids, at, bytes, 1, NULL, &err), QKV_ERR_USAGE);
    const struct qkv_encode_options cut = { .max_length = 64, .truncate = true };
    qkv_encoding t = { 0 };
    for (int64_t i = 0; i < n; i++) {
        err = (qkv_error){ 0 };
        CHECK_EQ(qkv_tokenizer_encode(qkv_embedder_tokenizer(e[0]), &t, at[i], bytes[i], NULL, 0,
                                      &cut, &err),
                 QKV_OK);
        const int64_t offsets[] = { 0, t.count };
        CHECK_EQ(qkv_embed_ids(e[2], from_ids, t.ids, offsets, 1, NULL, &err), QKV_OK);
        const struct qkv_model_input in = { .sequences = 1, .offsets = offsets, .ids = t.ids };
        float hidden[512 * 384], pooled[384];
        CHECK(offsets[1] <= 512 && qkv_embedder_width(e[2]) == 384);
        CHECK_EQ(qkv_model_run(qkv_embedder_model(e[2]), hidden, &in, NULL, &err), QKV_OK);
        CHECK_EQ(qkv_embed_hidden(e[2], pooled, hidden, offsets[1], &err), QKV_OK);
        CHECK_BITS(pooled, from_ids, sizeof pooled);
        CHECK_BITS(from_ids, plain + i * 384, sizeof from_ids);
    }
    static int32_t long_[65];
    const int64_t offsets[] = { 0, 65 };
    CHECK_EQ(qkv_embed_ids(e[2], from_ids, long_, offsets, 1, NULL, &err), QKV_ERR_USAGE);
    CHECK_TEXT(err.text, "text too long, expected at most 64 tokens, found 65");
    qkv_encoding_free(&t);
    for (int i = 0; i < 3; i++) qkv_embedder_close(e[i]);
}

TEST(a_text_too_long_is_refused_unless_told_to_cut)
{
    qkv_embedder *e = NULL;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_embedder_open(&e, MINILM, NULL, &err), QKV_OK);
    CHECK_EQ(qkv_embedder_max_length(e), 256); // sentence_bert_config.json
    CHECK_EQ(qkv_embedder_width(e), 384);
    const char *names[30], *at[30];
    size_t bytes[30];
    const int64_t n = single_texts(at, bytes, names);
    float out[384];
    for (int64_t i = 0; i < n; i++)
        if (strcmp(names[i], "over_256") == 0) {
            CHECK_EQ(qkv_embed(e, out, at + i, bytes + i, 1, NULL, &err), QKV_ERR_USAGE);
            CHECK(strstr(err.text, "256") != NULL);
        }
    qkv_embedder_close(e);
    memset(&err, 0, sizeof err);
    CHECK_EQ(
        qkv_embedder_open(&e, MINILM, &(struct qkv_embedder_options){ .max_length = 4096 }, &err),
        QKV_OK);
    CHECK_EQ(qkv_embedder_max_length(e), 512); // limited by the positions
    qkv_embedder_close(e);
}

TEST(poolings_are_what_their_names_say)
{
    const char *text = "Bears won the game";
    qkv_error err = { 0 };
    qkv_encoding t = { 0 };
    CHECK_EQ(qkv_tokenizer_encode(qkv_embedder_tokenizer(embedder), &t, text, strlen(text), NULL, 0,
                                  NULL, &err),
             QKV_OK);
    float *hidden = malloc((size_t)t.count * 384 * sizeof *hidden);
    CHECK(hidden != NULL);
    const int64_t offsets[2] = { 0, t.count };
    const struct qkv_model_input in = {
        .sequences = 1, .offsets = offsets, .ids = t.ids, .types = t.types
    };
    CHECK_EQ(qkv_model_run(qkv_embedder_model(embedder), hidden, &in, NULL, &err), QKV_OK);
    for (int pool = QKV_POOL_MEAN; pool <= QKV_POOL_LAST; pool++) {
        qkv_embedder *e = NULL;
        float out[384];
        const struct qkv_embedder_options o = { .pool = (enum qkv_pool)pool, .no_normalize = true };
        CHECK_EQ(qkv_embedder_open(&e, MINILM, &o, &err), QKV_OK);
        CHECK_EQ(qkv_embed(e, out, &text, NULL, 1, NULL, &err), QKV_OK);
        for (int d = 0; d < 384; d++) {
            double sum = 0, most = -INFINITY;
            for (int64_t r = 0; r < t.count; r++) {
                sum += (double)hidden[r * 384 + d];
                most = fmax(most, (double)hidden[r * 384 + d]);
            }
            const double want = pool == QKV_POOL_MEAN  ? sum / (double)t.count
                                : pool == QKV_POOL_CLS ? (double)hidden[d]
                                : pool == QKV_POOL_MAX ? most
                                                       : (double)hidden[(t.count - 1) * 384 + d];
            CHECK_NEAR(out[d], want, pool == QKV_POOL_MEAN ? fabs(want) * 0x1p-23 + 1e-12 : 0);
        }
        qkv_embedder_close(e);
    }
    free(hidden);
    qkv_encoding_free(&t);
}

static int stop(void *user, const char *what, int64_t done, int64_t total)
{
    (void)what;
    CHECK_EQ(total, 3);
    *(int64_t *)user = done;
    return done >= 2;
}
TEST(progress_is_told_and_can_stop)
{
    qkv_embedder *e = NULL;
    qkv_error err = { 0 };
    int64_t done = 0;
    const struct qkv_embedder_options o = { .batch_tokens = 4, .progress = { stop, &done } };
    const char *three[3] = { "one", "two", "three" };
    float out[3 * 384];
    CHECK_EQ(qkv_embedder_open(&e, MINILM, &o, &err), QKV_OK);
    CHECK_EQ(qkv_embed(e, out, three, NULL, 3, NULL, &err), QKV_ERR_INTERRUPTED);
    CHECK_EQ(done, 2);
    qkv_embedder_close(e);
}

// Returns the rank of the expected word among the best five.
static int rank_of(const char *a, const char *b, const char *c, const char *want)
{
    const qkv_tokenizer *t = qkv_embedder_tokenizer(embedder);
    const int32_t words[3] = { qkv_tokenizer_id(t, a), qkv_tokenizer_id(t, b),
                               qkv_tokenizer_id(t, c) };
    const float signs[3] = { 1, -1, 1 };
    int32_t ids[5];
    float cosines[5];
    int64_t found = 0;
    qkv_error err = { 0 };
    if (qkv_analogy(qkv_embedder_model(embedder), t, ids, cosines, &found, 5, words, signs, 3,
                    &err))
        fail_msg("%s", err.text);
    CHECK_EQ(found, 5);
    int rank = -1;
    for (int i = 0; i < 5; i++) {
        if (i) CHECK(cosines[i] <= cosines[i - 1]);
        for (int w = 0; w < 3; w++) CHECK(ids[i] != words[w]);
        if (strcmp(qkv_tokenizer_token(t, ids[i]), want) == 0) rank = i;
    }
    return rank;
}
TEST(king_minus_man_plus_woman_is_queen)
{
    CHECK_EQ(rank_of("king", "man", "woman", "queen"), 0);
    CHECK_EQ(rank_of("berlin", "germany", "france", "paris"), 0);
    CHECK(rank_of("paris", "france", "italy", "rome") >= 0);
}
TEST(an_analogy_with_an_id_that_is_none_is_refused)
{
    const int32_t word = 30522;
    const float sign = 1;
    int32_t id;
    float cosine;
    int64_t found = 7;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_analogy(qkv_embedder_model(embedder), qkv_embedder_tokenizer(embedder), &id,
                         &cosine, &found, 1, &word, &sign, 1, &err),
             QKV_ERR_USAGE);
    CHECK_EQ(found, 0);
}

TEST(cosine_of_known_vectors)
{
    const float a[3] = { 1, 2, 2 }, b[3] = { -2, -4, -4 }, c[3] = { 2, 1, -2 }, zero[3] = { 0 };
    CHECK_NEAR(qkv_cosine(a, a, 3), 1, 1e-7);
    CHECK_NEAR(qkv_cosine(a, b, 3), -1, 1e-7);
    CHECK_NEAR(qkv_cosine(a, c, 3), 0, 1e-7);
    CHECK_NEAR(qkv_cosine(a, zero, 3), 0, 0);
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
    const struct qkv_embedder_options o = { .truncate = true };
    if (!texts || qkv_embedder_open(&embedder, MINILM, &o, &err) ||
        qkv_tensors_open(&golden, GOLDEN "minilm.safetensors", NULL, &err)) {
        printf("%s %s\n", err.file, err.text);
        return 1;
    }
    const struct CMUnitTest cases[] = { CASE(ids_types_and_offsets_are_the_reference_s),
                                        CASE(embeddings_are_the_reference_s),
                                        CASE(batches_change_no_bit),
                                        CASE(padding_and_ids_change_no_bit),
                                        CASE(a_text_too_long_is_refused_unless_told_to_cut),
                                        CASE(poolings_are_what_their_names_say),
                                        CASE(progress_is_told_and_can_stop),
                                        CASE(king_minus_man_plus_woman_is_queen),
                                        CASE(an_analogy_with_an_id_that_is_none_is_refused),
                                        CASE(cosine_of_known_vectors) };
    const int failed = cmocka_run_group_tests(cases, NULL, NULL);
    qkv_tensors_close(golden);
    qkv_embedder_close(embedder);
    json_decref(root);
    return failed;
}
