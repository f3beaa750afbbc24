// SPDX-License-Identifier: MIT
// test_decoder_faults.c: checks that invalid calls of decoders, and every failed allocation, leave
// all items unchanged and leak nothing.
#include "base/faults.h"
#include "decoder_case.h"

static const int32_t prompt[6] = { 3, 7, 9, 11, 2, 5 };
static const int64_t two_offsets[3] = { 0, 4, 6 };
static const struct qkv_decoder_tokens two = { .n = 2, .offsets = two_offsets, .ids = prompt };

static int observe(void *user, const struct qkv_layer_output *seen)
{
    *(int64_t *)user += seen->R;
    return 0;
}

// Runs all decoder functions, starting with opening the folder.
static qkv_status all_of_it(void *ctx, qkv_error *err)
{
    static const int32_t source[3] = { 5, 2, 4 }, next[2] = { 1, 4 };
    static const int64_t source_offsets[2] = { 0, 3 }, to[2] = { 1, 2 }, from[2] = { 0, 0 };
    const struct qkv_decoder_options o = { .items = 3, .chunk = 3 };
    const struct qkv_decoder_tokens step = { .n = 2, .ids = next };
    const struct qkv_model_input read = { .sequences = 1,
                                          .offsets = source_offsets,
                                          .ids = source };
    static const int64_t row = 1;
    int64_t rows = 0;
    const struct qkv_observer observer = { .layer = observe,
                                           .user = &rows,
                                           .weights = true,
                                           .probe = { .rows = 1, .row = &row, .top_k = 2 } };
    float *logits = NULL;
    qkv_model *m = NULL;
    qkv_decoder *d = NULL;
    qkv_status status = qkv_model_open(&m, ctx, NULL, err);
    if (status) return status;
    const struct qkv_model_info info = qkv_model_info(m);
    const bool reads = info.kind == QKV_KIND_ENCODER_DECODER;
    logits = calloc((size_t)(2 * info.vocab), sizeof *logits);
    CHECK(logits != NULL);
    status = qkv_decoder_new(&d, m, &o, err);
    CHECK((status == QKV_OK) == (d != NULL));
    for (int64_t i = 0; !status && reads && i < 2; i++)
        status = qkv_decoder_source(d, i, &read, err);
    if (!status) {
        status = qkv_decoder_feed(d, logits, &two, err);
        CHECK_EQ(qkv_decoder_length(d, 0), status ? 0 : 4);
        CHECK_EQ(qkv_decoder_length(d, 1), status ? 0 : 2);
    }
    if (!status) status = qkv_decoder_copy(d, to, from, 2, err);
    if (!status) status = qkv_decoder_observe(d, &observer, 1, err);
    if (!status) {
        status = qkv_decoder_feed(d, logits, &step, err);
        if (!status) CHECK(rows > 0);
        CHECK_EQ(qkv_decoder_length(d, 0), status ? 4 : 5);
        CHECK_EQ(qkv_decoder_length(d, 1), status ? 4 : 5);
    }
    qkv_decoder_free(d);
    qkv_model_close(m);
    free(logits);
    return status;
}

TEST(decoders_survive_every_failed_allocation)
{
    static const char *const folders[] = { GOLDEN "net-gpt2", GOLDEN "net-llama",
                                           GOLDEN "net-marian" };
    // one thread, so that allocations have the same order in every run
    CHECK_EQ(qkv_threads_set(1), QKV_OK);
    EACH(folder, folders) CHECK(faults_walk(all_of_it, (void *)(uintptr_t)*folder, true) > 20);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

// After a feed that failed because of memory, the same feed succeeds.
TEST(a_feed_that_failed_can_be_made_again)
{
    EACH_CASE(name)
    {
        struct decoder_case c;
        case_open(&c, *name, QKV_PRECISION_F32);
        const size_t bytes = (size_t)(2 * c.info.vocab) * sizeof(float);
        float *want = malloc(bytes), *got = malloc(bytes);
        CHECK(want && got);
        qkv_decoder *fresh = case_decoder(&c, &(struct qkv_decoder_options){ .items = 2 });
        CHECK_EQ(qkv_decoder_feed(fresh, want, &two, NULL), QKV_OK);
        CHECK_EQ(qkv_threads_set(1), QKV_OK);
        for (int64_t n = 1;; n++) {
            bool hit = false;
            qkv_decoder *d = case_decoder(&c, &(struct qkv_decoder_options){ .items = 2 });
            faults_begin(n, false);
            const qkv_status status = qkv_decoder_feed(d, got, &two, NULL);
            faults_end(&hit);
            if (status) CHECK_EQ(qkv_decoder_feed(d, got, &two, NULL), QKV_OK);
            CHECK_BITS(got, want, bytes);
            qkv_decoder_free(d);
            if (!hit) break;
        }
        CHECK_EQ(qkv_threads_set(0), QKV_OK);
        qkv_decoder_free(fresh);
        qkv_model_close(c.model);
        free(want);
        free(got);
    }
}

TEST(a_token_takes_no_memory_while_the_cache_has_capacity)
{
    EACH_CASE(name)
    {
        struct decoder_case c;
        case_open(&c, *name, QKV_PRECISION_F32);
        float *logits = malloc((size_t)c.info.vocab * sizeof *logits);
        qkv_decoder *d = case_decoder(&c, &(struct qkv_decoder_options){ .items = 1 });
        CHECK(logits != NULL);
        case_feed(d, logits, 0, prompt, 2, false);
        faults_begin(1, true); // every allocation fails
        case_feed(d, logits, 0, prompt + 2, 1, false);
        case_feed(d, logits, 0, prompt + 3, 1, false);
        CHECK_EQ(faults_end(NULL), 0);
        qkv_decoder_free(d);
        qkv_model_close(c.model);
        free(logits);
    }
}

// Checks that d refuses these tokens with USAGE and a message that contains `words`, and that its
// length is unchanged.
static void refused(qkv_decoder *d, const struct qkv_decoder_tokens *t, const char *words)
{
    float unused;
    qkv_error err = { 0 };
    const int64_t before = qkv_decoder_length(d, 0);
    CHECK_EQ(qkv_decoder_feed(d, &unused, t, &err), QKV_ERR_USAGE);
    if (!strstr(err.text, words)) fail_msg("\"%s\", expected \"%s\"", err.text, words);
    CHECK_EQ(qkv_decoder_length(d, 0), before);
}

TEST(what_cannot_be_fed_is_refused_and_changes_nothing)
{
    EACH_CASE(name)
    {
        struct decoder_case c;
        case_open(&c, *name, QKV_PRECISION_F32);
        const struct qkv_decoder_options o = { .items = 2, .capacity = 4 };
        qkv_decoder *d = case_decoder(&c, &o);
        CHECK_EQ(qkv_decoder_capacity(d), 4);
        case_feed(d, NULL, 0, prompt, 3, false);
        static const int64_t three[2] = { 0, 2 }, none[2] = { 0, 0 }, shifted[2] = { 1, 2 };
        static const int64_t same[2] = { 1, 1 }, outside[1] = { 2 };
        const int32_t wrong[2] = { (int32_t)c.info.vocab, -1 };
        refused(d, &(struct qkv_decoder_tokens){ .n = 1, .offsets = three, .ids = prompt },
                "would have 5 tokens, expected at most 4");
        refused(d, &(struct qkv_decoder_tokens){ .n = 1, .offsets = none, .ids = prompt },
                "found none");
        refused(d, &(struct qkv_decoder_tokens){ .n = 1, .offsets = shifted, .ids = prompt },
                "offsets that begin with 0");
        refused(d, &(struct qkv_decoder_tokens){ .n = 2, .items = same, .ids = prompt }, "1 twice");
        refused(d, &(struct qkv_decoder_tokens){ .n = 1, .items = outside, .ids = prompt },
                "found item 2");
        refused(d, &(struct qkv_decoder_tokens){ .n = 3, .ids = prompt }, "found 3 entries");
        refused(d, &(struct qkv_decoder_tokens){ .n = -1 }, "found -1 entries");
        refused(d, &(struct qkv_decoder_tokens){ .n = 1 }, "expected an array of ids");
        refused(d, &(struct qkv_decoder_tokens){ .n = 1, .ids = wrong }, "token id out of range");
        refused(d, &(struct qkv_decoder_tokens){ .n = 1, .ids = wrong + 1 }, "found -1");
        qkv_decoder_free(d);
        qkv_model_close(c.model);
    }
}

TEST(items_and_sources_that_are_not_there_are_refused)
{
    EACH_CASE(name)
    {
        struct decoder_case c;
        case_open(&c, *name, QKV_PRECISION_F32);
        qkv_decoder *d = NULL;
        qkv_error err = { 0 };
        CHECK_EQ(qkv_decoder_new(&d, c.model, &(struct qkv_decoder_options){ .items = 2 }, &err),
                 QKV_OK);
        static const int64_t good[2] = { 0, 1 }, bad[2] = { 0, 2 }, twice[2] = { 1, 1 };
        CHECK_EQ(qkv_decoder_copy(d, bad, good, 2, NULL), QKV_ERR_USAGE);
        CHECK_EQ(qkv_decoder_copy(d, good, bad, 2, NULL), QKV_ERR_USAGE);
        CHECK_EQ(qkv_decoder_copy(d, twice, good, 2, NULL), QKV_ERR_USAGE);
        CHECK_EQ(qkv_decoder_copy(d, good, NULL, 2, NULL), QKV_ERR_USAGE);
        CHECK_EQ(qkv_decoder_cut(d, 2, 0), QKV_ERR_USAGE);
        CHECK_EQ(qkv_decoder_cut(d, 0, -1), QKV_ERR_USAGE);
        CHECK_EQ(qkv_decoder_length(d, 2), 0);
        if (case_two(&c)) {
            refused(d, &(struct qkv_decoder_tokens){ .n = 1, .ids = prompt }, "has no source");
            CHECK_EQ(qkv_decoder_source(d, 2, &c.read, NULL), QKV_ERR_USAGE);
            CHECK_EQ(qkv_decoder_source(d, -1, &c.read, NULL), QKV_ERR_USAGE);
            static const int64_t empty[2] = { 0, 0 };
            struct qkv_model_input nothing = c.read;
            nothing.offsets = empty;
            CHECK_EQ(qkv_decoder_source(d, 0, &nothing, NULL), QKV_ERR_USAGE);
        } else {
            CHECK_EQ(qkv_decoder_source(d, 0, &c.read, &err), QKV_ERR_USAGE);
            CHECK(strstr(err.text, "requires an encoder-decoder") != NULL);
        }
        qkv_decoder_free(d);
        qkv_model_close(c.model);
    }
}

// An item that gets a new source does not affect copies that use the old one.
TEST(a_new_source_leaves_copies_with_the_old_one)
{
    EACH_CASE(name)
    {
        struct decoder_case c;
        case_open(&c, *name, QKV_PRECISION_F32);
        if (case_two(&c)) {
            const size_t bytes = (size_t)c.info.vocab * sizeof(float);
            float *old = malloc(bytes), *got = malloc(bytes);
            qkv_decoder *d = case_decoder(&c, &(struct qkv_decoder_options){ .items = 2 });
            static const int64_t to = 1, from = 0;
            static const int64_t back[2] = { 0, 2 };
            struct qkv_model_input other = c.read;
            other.offsets = back;
            CHECK(old && got);
            case_feed(d, old, 0, prompt, 2, false);
            CHECK_EQ(qkv_decoder_cut(d, 0, 0), QKV_OK);
            CHECK_EQ(qkv_decoder_copy(d, &to, &from, 1, NULL), QKV_OK);
            CHECK_EQ(qkv_decoder_source(d, 0, &other, NULL), QKV_OK);
            case_feed(d, got, 1, prompt, 2, false);
            CHECK_BITS(got, old, bytes);
            case_feed(d, got, 0, prompt, 2, false);
            CHECK(memcmp(got, old, bytes) != 0);
            qkv_decoder_free(d);
            free(old);
            free(got);
        }
        qkv_model_close(c.model);
    }
}

TEST(an_encoder_is_no_decoder)
{
    qkv_model *m = NULL;
    qkv_decoder *d = NULL;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_model_open(&m, GOLDEN "bert", NULL, NULL), QKV_OK);
    CHECK_EQ(qkv_decoder_new(&d, m, &(struct qkv_decoder_options){ .items = 1 }, &err),
             QKV_ERR_UNSUPPORTED);
    CHECK(!d && strstr(err.text, "this model is bert"));
    CHECK_EQ(qkv_decoder_new(&d, m, &(struct qkv_decoder_options){ 0 }, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_decoder_new(&d, m, NULL, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_decoder_new(NULL, m, NULL, NULL), QKV_ERR_USAGE);
    qkv_model_close(m);
}

CHECK_MAIN(CASE(decoders_survive_every_failed_allocation),
           CASE(a_feed_that_failed_can_be_made_again),
           CASE(a_token_takes_no_memory_while_the_cache_has_capacity),
           CASE(what_cannot_be_fed_is_refused_and_changes_nothing),
           CASE(items_and_sources_that_are_not_there_are_refused),
           CASE(a_new_source_leaves_copies_with_the_old_one), CASE(an_encoder_is_no_decoder))
