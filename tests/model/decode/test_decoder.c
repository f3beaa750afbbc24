// SPDX-License-Identifier: MIT
// test_decoder.c: checks that every small decoder, token by token, gives the bits of a run over the
// whole text, for any pieces, other items and copies.
#include "decoder_case.h"
#include "model/folder.h"
#include "model/model_internal.h"
#include <pthread.h>

// Runs every case in every precision that this CPU supports: F32 must be bit-identical to the run,
// the others to themselves.
#define EACH_CASE_PRECISION(name, p)                                                               \
    EACH_CASE(name)                                                                                \
    for (qkv_precision p = QKV_PRECISION_F32; p <= QKV_PRECISION_INT8; p++)                        \
        if (qkv_precision_runs(p))

static void same(const char *name, const char *what, const float *got, const float *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(got + i, want + i, sizeof *got) != 0)
            fail_msg("%s, %s: number %lld is %.9g, expected %.9g", name, what, (long long)i,
                     (double)got[i], (double)want[i]);
}

TEST(tokens_one_by_one_have_the_bits_of_a_run_of_the_whole)
{
    EACH_CASE(name)
    {
        struct decoder_case c;
        case_open(&c, *name, QKV_PRECISION_F32);
        const int64_t V = c.info.vocab;
        float *want = case_whole(&c, c.ids, c.T), *got = calloc((size_t)V, sizeof *got);
        qkv_decoder *d = case_decoder(&c, &(struct qkv_decoder_options){ .items = 1 });
        for (int64_t t = 0; t < c.T; t++) {
            case_feed(d, got, 0, c.ids + t, 1, false);
            same(*name, "one by one", got, want + t * V, V);
            CHECK_EQ(qkv_decoder_length(d, 0), t + 1);
        }
        qkv_decoder_free(d);
        qkv_model_close(c.model);
        free(want);
        free(got);
    }
}

TEST(a_prompt_has_the_same_bits_in_pieces_of_any_size)
{
    static const int64_t chunks[] = { 1, 3, 0 };
    EACH_CASE_PRECISION(name, p)
    {
        struct decoder_case c;
        case_open(&c, *name, p);
        const int64_t V = c.info.vocab, n = c.T * V;
        float *want = p == QKV_PRECISION_F32 ? case_whole(&c, c.ids, c.T) : NULL;
        float *got = calloc((size_t)n, sizeof *got), *first = calloc((size_t)n, sizeof *first);
        EACH(chunk, chunks)
        {
            qkv_decoder *d =
                case_decoder(&c, &(struct qkv_decoder_options){ .items = 1, .chunk = *chunk });
            case_feed(d, got, 0, c.ids, c.T, true);
            if (chunk == chunks) memcpy(first, got, (size_t)n * sizeof *got);
            same(*name, qkv_precision_name(p), got, want ? want : first, n);
            qkv_decoder_free(d);
        }
        qkv_model_close(c.model);
        free(want);
        free(first);
        free(got);
    }
}

TEST(neighbours_of_any_length_change_no_bit)
{
    EACH_CASE_PRECISION(name, p)
    {
        struct decoder_case c;
        case_open(&c, *name, p);
        const int64_t V = c.info.vocab, T = c.T, n[3] = { 2, T - 1, 5 };
        qkv_decoder *alone = case_decoder(&c, &(struct qkv_decoder_options){ .items = 1 });
        qkv_decoder *d = case_decoder(&c, &(struct qkv_decoder_options){ .items = 3, .chunk = 6 });
        float *got = calloc((size_t)(3 * V), sizeof *got), *want = calloc((size_t)V, sizeof *want);
        int32_t ids[3 * CASE_TOKENS], next[3];
        int64_t offsets[4] = { 0 };
        static const int64_t items[3] = { 2, 0, 1 };
        for (int i = 0; i < 3; i++) {
            for (int64_t k = 0; k < n[i]; k++) ids[offsets[i] + k] = (int32_t)((c.ids[k] + i) % V);
            offsets[i + 1] = offsets[i] + n[i];
            next[i] = (int32_t)(i + 1);
        }
        struct qkv_decoder_tokens t = { .n = 3, .items = items, .offsets = offsets, .ids = ids };
        for (int step = 0; step < 2; step++) { // the prompts, then one token for each
            CHECK_EQ(qkv_decoder_feed(d, got, &t, NULL), QKV_OK);
            for (int i = 0; i < 3; i++) {
                CHECK_EQ(qkv_decoder_cut(alone, 0, 0), QKV_OK);
                case_feed(alone, want, 0, ids + offsets[i], n[i], false);
                if (step) case_feed(alone, want, 0, next + i, 1, false);
                same(*name, qkv_precision_name(p), got + i * V, want, V);
            }
            t = (struct qkv_decoder_tokens){ .n = 3, .items = items, .ids = next };
        }
        qkv_decoder_free(d);
        qkv_decoder_free(alone);
        qkv_model_close(c.model);
        free(want);
        free(got);
    }
}

TEST(a_copy_goes_on_as_its_original_would_and_leaves_it_alone)
{
    EACH_CASE(name)
    {
        struct decoder_case c;
        case_open(&c, *name, QKV_PRECISION_F32);
        const int64_t V = c.info.vocab, T = c.T / 2;
        int32_t other[CASE_TOKENS];
        memcpy(other, c.ids, sizeof other);
        other[T] = (int32_t)((other[T] + 1) % V);
        float *one = case_whole(&c, c.ids, T + 1), *two = case_whole(&c, other, T + 1);
        float *got = calloc((size_t)(2 * V), sizeof *got);
        qkv_decoder *d = case_decoder(&c, &(struct qkv_decoder_options){ .items = 3 });
        case_feed(d, NULL, 0, c.ids, T, false);
        case_feed(d, NULL, 1, other, 1, false); // will be replaced by a copy
        static const int64_t to[2] = { 1, 2 }, from[2] = { 0, 1 };
        CHECK_EQ(qkv_decoder_copy(d, to, from, 2, NULL), QKV_OK);
        CHECK_EQ(qkv_decoder_length(d, 1), T);
        CHECK_EQ(qkv_decoder_length(d, 2), 1); // the length of item 1 before the call
        const int32_t next[2] = { c.ids[T], other[T] };
        const struct qkv_decoder_tokens t = { .n = 2, .ids = next };
        CHECK_EQ(qkv_decoder_feed(d, got, &t, NULL), QKV_OK);
        same(*name, "original", got, one + T * V, V);
        same(*name, "copy", got + V, two + T * V, V);
        static const int64_t swap[2] = { 0, 1 }, with[2] = { 1, 0 };
        CHECK_EQ(qkv_decoder_copy(d, swap, with, 2, NULL), QKV_OK);
        CHECK_EQ(qkv_decoder_cut(d, 0, T), QKV_OK);
        case_feed(d, got, 0, c.ids + T, 1, false);
        same(*name, "after cut", got, one + T * V, V);
        qkv_decoder_free(d);
        qkv_model_close(c.model);
        free(one);
        free(two);
        free(got);
    }
}

TEST(threads_change_no_bit)
{
    EACH_CASE(name)
    {
        struct decoder_case c;
        case_open(&c, *name, QKV_PRECISION_F32);
        const int64_t n = c.T * c.info.vocab;
        float *got[2] = { calloc((size_t)n, sizeof(float)), calloc((size_t)n, sizeof(float)) };
        qkv_decoder *d = case_decoder(&c, &(struct qkv_decoder_options){ .items = 1 });
        for (int i = 0; i < 2; i++) { // the decoder plans again after a change of threads
            CHECK_EQ(qkv_threads_set(i ? 3 : 1), QKV_OK);
            CHECK_EQ(qkv_decoder_cut(d, 0, 0), QKV_OK);
            case_feed(d, got[i], 0, c.ids, c.T, true);
        }
        CHECK_EQ(qkv_threads_set(0), QKV_OK);
        same(*name, "threads", got[1], got[0], n);
        qkv_decoder_free(d);
        qkv_model_close(c.model);
        free(got[0]);
        free(got[1]);
    }
}

struct writer {
    const struct decoder_case *c;
    float *logits;
};

static void *write_all(void *ctx)
{
    const struct writer *w = ctx;
    qkv_decoder *d = case_decoder(w->c, &(struct qkv_decoder_options){ .items = 1 });
    case_feed(d, w->logits, 0, w->c->ids, w->c->T, true);
    qkv_decoder_free(d);
    return NULL;
}

TEST(decoders_of_one_model_write_side_by_side)
{
    EACH_CASE(name)
    {
        struct decoder_case c;
        case_open(&c, *name, QKV_PRECISION_F32); // packed by whichever thread is first
        const size_t n = (size_t)(c.T * c.info.vocab);
        struct writer w[2] = { { &c, calloc(n, sizeof(float)) }, { &c, calloc(n, sizeof(float)) } };
        pthread_t other;
        CHECK(w[0].logits && w[1].logits);
        CHECK_EQ(pthread_create(&other, NULL, write_all, &w[1]), 0);
        write_all(&w[0]);
        pthread_join(other, NULL);
        float *want = case_whole(&c, c.ids, c.T);
        same(*name, "one thread", w[0].logits, want, (int64_t)n);
        same(*name, "the other", w[1].logits, want, (int64_t)n);
        qkv_model_close(c.model);
        free(want);
        free(w[0].logits);
        free(w[1].logits);
    }
}

// A cache of 8 bits, or of 16 bits in a float model, changes logits by at most the rounding of keys
// and values.
TEST(a_cache_of_fewer_bits_stays_near_the_run)
{
    static const struct {
        qkv_precision p;
        double u;
    } rows[] = { { QKV_PRECISION_BF16, 0x1p-9 }, { QKV_PRECISION_INT8, 1. / 254 } };
    EACH_CASE(name)
    EACH(r, rows)
    {
        if (!qkv_precision_runs(r->p)) continue;
        struct decoder_case c;
        case_open(&c, *name, QKV_PRECISION_F32);
        const int64_t n = c.T * c.info.vocab;
        float *want = case_whole(&c, c.ids, c.T), *got = calloc((size_t)n, sizeof *got);
        double most = 0;
        qkv_decoder *d =
            case_decoder(&c, &(struct qkv_decoder_options){ .items = 1, .cache = r->p });
        case_feed(d, got, 0, c.ids, c.T, true);
        for (int64_t i = 0; i < n; i++) most = fmax(most, fabs((double)want[i]));
        // q, k, v and heads of each layer are rounded by u relative to their largest element
        const double layers = (double)(c.info.layers + c.info.decoder_layers);
        CHECK(golden_worst(got, want, n) <= 8 * layers * sqrt((double)c.info.width) * r->u * most);
        qkv_decoder_free(d);
        qkv_model_close(c.model);
        free(want);
        free(got);
    }
}

// Makes a folder like `name` with more positions for its rotary embedding, enough for a long text.
static const char *lengthened(const char *name)
{
    static const char key[] = "\"max_position_embeddings\": 96";
    char path[512];
    size_t bytes;
    snprintf(path, sizeof path, GOLDEN "%.64s/config.json", name);
    char *config = folder_load(path, &bytes), *at = strstr(config, key);
    CHECK(at != NULL);
    folder_new();
    char *longer = calloc(bytes + 3, 1);
    CHECK(longer != NULL);
    const size_t head = (size_t)(at - config) + sizeof key - 1;
    memcpy(longer, config, head);
    memcpy(longer + head, "00", 2); // 9600
    memcpy(longer + head + 2, config + head, bytes - head);
    folder_text("config.json", longer);
    snprintf(path, sizeof path, GOLDEN "%.64s/model.safetensors", name);
    folder_link("model.safetensors", path);
    free(longer);
    free(config);
    return folder_path;
}

// With windows of a few tokens and a text of many cache chunks: keys that were released were
// outside every window, and the cache of a layer with a window stops growing.
TEST(a_long_text_past_its_windows_has_the_bits_of_a_run_of_the_whole)
{
    enum { LONG = 700 };
    static const char *const names[] = { "mistral", "gemma2" };
    static int32_t ids[LONG];
    EACH(name, names)
    {
        struct decoder_case c = { 0 };
        qkv_error err = { 0 };
        if (qkv_model_open(&c.model, lengthened(*name), NULL, &err)) fail_msg("%s", err.text);
        c.info = qkv_model_info(c.model);
        CHECK(c.info.positions >= LONG);
        const int64_t V = c.info.vocab;
        for (int i = 0; i < LONG; i++) ids[i] = (int32_t)((i * 7 + i * i % 5) % V);
        float *want = case_whole(&c, ids, LONG), *got = calloc((size_t)(LONG * V), sizeof *got);
        CHECK(got != NULL);
        qkv_decoder *d = case_decoder(&c, &(struct qkv_decoder_options){ .items = 2 });
        case_feed(d, got, 0, ids, 300, true);
        for (int64_t t = 300; t < LONG; t++) case_feed(d, got + t * V, 0, ids + t, 1, false);
        same(*name, "past its windows", got, want, LONG * V);
        // the tokens of its window were released
        CHECK_EQ(qkv_decoder_cut(d, 0, 10), QKV_ERR_USAGE);
        CHECK_EQ(qkv_decoder_length(d, 0), LONG);
        static const int64_t to = 1, from = 0;
        CHECK_EQ(qkv_decoder_copy(d, &to, &from, 1, NULL), QKV_OK);
        CHECK_EQ(qkv_decoder_cut(d, 1, LONG - 1), QKV_OK);
        case_feed(d, got, 1, ids + LONG - 1, 1, false);
        same(*name, "a copy of it", got, want + (LONG - 1) * V, V);
        CHECK_EQ(qkv_decoder_cut(d, 0, 0), QKV_OK);
        case_feed(d, got, 0, ids, 9, true);
        same(*name, "begun again", got, want, 9 * V);
        qkv_decoder_free(d);
        qkv_model_close(c.model);
        free(want);
        free(got);
    }
}

TEST(a_decoder_with_longrope_holds_the_tokens_that_have_one_rotation)
{
    struct decoder_case c;
    case_open(&c, "phi3-short", QKV_PRECISION_F32);
    CHECK_EQ(c.info.positions, 96);
    qkv_decoder *d = case_decoder(&c, &(struct qkv_decoder_options){ .items = 1 });
    CHECK_EQ(qkv_decoder_capacity(d), 90); // original_max_position_embeddings
    qkv_decoder_free(d);
    qkv_model_close(c.model);
}

CHECK_MAIN(CASE(tokens_one_by_one_have_the_bits_of_a_run_of_the_whole),
           CASE(a_prompt_has_the_same_bits_in_pieces_of_any_size),
           CASE(neighbours_of_any_length_change_no_bit),
           CASE(a_copy_goes_on_as_its_original_would_and_leaves_it_alone),
           CASE(threads_change_no_bit), CASE(decoders_of_one_model_write_side_by_side),
           CASE(a_cache_of_fewer_bits_stays_near_the_run),
           CASE(a_long_text_past_its_windows_has_the_bits_of_a_run_of_the_whole),
           CASE(a_decoder_with_longrope_holds_the_tokens_that_have_one_rotation))
