// SPDX-License-Identifier: MIT
// test_word_vectors.c: checks that words used alike have similar vectors, and that the vectors do
// not depend on the threads.
#include "base/faults.h"
#include "task/data/data_case.h"
#include "task/words/word_vectors.h"
#include <qkv/task.h>

// Writes sentences in which each word of a group can be replaced by any other word of it.
static void write_text(const char *name, int sentences)
{
    static const char *const groups[4][4] = { { "red", "blue", "green", "white" },
                                              { "runs", "walks", "swims", "flies" },
                                              { "bread", "cheese", "fish", "rice" },
                                              { "north", "south", "east", "west" } };
    static const char *const frames[4][2] = { { "the colour of the wall is", "paint" },
                                              { "every morning she", "quickly home" },
                                              { "they eat", "with salt" },
                                              { "the wind came from the", "at night" } };
    FILE *f = fopen(folder_name(name), "w");
    if (!f) fail_msg("no file");
    check_seed = 7;
    for (int i = 0; i < sentences; i++) {
        const int g = i % 4, k = (int)((check_random() + 1) * 2);
        fprintf(f, "%s %s %s.\n", frames[g][0], groups[g][k], frames[g][1]);
    }
    fclose(f);
}

static qkv_status train(const char *dir, const char *text, struct qkv_words_options o,
                        struct qkv_words_report *report, qkv_error *err)
{
    struct qkv_text_source s = case_source(text);
    qkv_corpus *c = NULL;
    s.per_line = true;
    qkv_status status = qkv_corpus_open(&c, &s, QKV_OBJECTIVE_CAUSAL, err);
    if (!status) status = qkv_words_train(dir, c, &o, report, err);
    qkv_corpus_close(c);
    return status;
}

static const struct qkv_words_options small = {
    .width = 24, .window = 4, .epochs = 20, .sample = -1, .seed = 1, .force = true
};

// The only document is as long as a book: the third call of progress stops the training within it.
static int stop_third(void *user, const char *what, int64_t done, int64_t total)
{
    int64_t *seen = user;
    (void)what;
    CHECK(done > seen[1] && done < total);
    seen[1] = done;
    return ++seen[0] == 3;
}

TEST(a_long_document_can_be_stopped_inside)
{
    int64_t seen[2] = { 0 };
    folder_new();
    FILE *f = fopen(folder_name("long.txt"), "w");
    if (!f) fail_msg("no file");
    for (int i = 0; i < 100000; i++) fprintf(f, "%c%c ", 'a' + i % 7, 'a' + i % 5);
    fclose(f);
    const struct qkv_words_options o = {
        .width = 8, .epochs = 1, .sample = -1, .force = true, .progress = { stop_third, seen }
    };
    qkv_error err = { 0 };
    CHECK_EQ(train(case_dir("long"), "long.txt", o, NULL, &err), QKV_ERR_INTERRUPTED);
    CHECK(seen[0] == 3 && seen[1] < 60000);
    CHECK(access(folder_name("long/config.json"), F_OK) != 0);
}

// A text that is varied for a while and then repeats two words: in a round of it they would be
// updated many times more often than the text as a whole says.
TEST(a_text_that_repeats_words_does_not_diverge)
{
    for (int skip = 0; skip < 2; skip++) {
        folder_new();
        FILE *f = fopen(folder_name("burst.txt"), "w");
        if (!f) fail_msg("no file");
        for (int i = 0; i < 40000; i++) fprintf(f, "%c%c ", 'a' + i % 23, 'a' + i % 19);
        for (int i = 0; i < 2000; i++) fprintf(f, "left right ");
        fclose(f);
        struct qkv_words_options o = small;
        struct qkv_words_report report;
        qkv_error err = { 0 };
        o.skip_gram = skip != 0;
        if (train(case_dir("burst"), "burst.txt", o, &report, &err)) fail_msg("%s", err.text);
        CHECK(report.loss < 6 * log(2)); // that of vectors that know nothing
    }
}

TEST(words_that_are_used_alike_lie_together)
{
    for (int skip = 0; skip < 2; skip++) {
        folder_new();
        write_text("t.txt", 3000);
        struct qkv_words_options o = small;
        struct qkv_words_report report;
        qkv_error err = { 0 };
        o.skip_gram = skip != 0;
        if (train(case_dir("m"), "t.txt", o, &report, &err)) fail_msg("%s", err.text);
        CHECK(report.vocab >= 30 && report.words > 15000);
        // Six words are predicted per example; a model without knowledge has a loss of log 2 for
        // each.
        CHECK(report.loss < 6 * log(2));
        qkv_model *m = NULL;
        qkv_tokenizer *t = NULL;
        if (qkv_model_open(&m, case_dir("m"), NULL, &err) ||
            qkv_tokenizer_open(&t, case_dir("m"), &err))
            fail_msg("%s", err.text);
        static const char *const pairs[][2] = {
            { "red", "blue" }, { "cheese", "rice" }, { "north", "west" }, { "swims", "walks" }
        };
        EACH(pair, pairs)
        {
            const int32_t id = qkv_tokenizer_id(t, (*pair)[0]);
            const float one = 1;
            int32_t near[3];
            float cosines[3];
            int64_t found = 0;
            CHECK(id > 0);
            CHECK_EQ(qkv_analogy(m, t, near, cosines, &found, 3, &id, &one, 1, &err), QKV_OK);
            bool there = false;
            for (int64_t i = 0; i < found; i++) there |= near[i] == qkv_tokenizer_id(t, (*pair)[1]);
            if (!there) fail_msg("%s is not near %s", (*pair)[1], (*pair)[0]);
        }
        qkv_tokenizer_close(t);
        qkv_model_close(m);
    }
}

TEST(any_number_of_threads_learns_the_same_bits)
{
    folder_new();
    write_text("t.txt", 800);
    char *first = NULL;
    size_t bytes = 0, again;
    const int before = qkv_threads();
    for (int threads = 1; threads <= 3; threads++) {
        qkv_error err = { 0 };
        CHECK_EQ(qkv_threads_set(threads), QKV_OK);
        CHECK_EQ(train(case_dir("m"), "t.txt", small, NULL, &err), QKV_OK);
        char *file = folder_load(folder_name("m/model.safetensors"), &again);
        if (first) {
            CHECK_EQ(again, bytes);
            CHECK_BITS(first, file, bytes);
            free(file);
        } else {
            first = file;
            bytes = again;
        }
    }
    free(first);
    CHECK_EQ(qkv_threads_set(before), QKV_OK);
}

TEST(a_word_without_a_vector_is_unknown)
{
    folder_new();
    write_text("t.txt", 400);
    qkv_error err = { 0 };
    qkv_tokenizer *t = NULL;
    qkv_encoding e = { 0 };
    CHECK_EQ(train(case_dir("m"), "t.txt", small, NULL, &err), QKV_OK);
    CHECK_EQ(qkv_tokenizer_open(&t, case_dir("m"), &err), QKV_OK);
    const char *text = "RED zebra, the";
    CHECK_EQ(qkv_tokenizer_encode(t, &e, text, strlen(text), NULL, 0, NULL, &err), QKV_OK);
    CHECK_EQ(e.count, 4); // the comma is a token
    CHECK_TEXT(qkv_tokenizer_token(t, e.ids[0]), "red");
    CHECK_EQ(e.ids[1], 0);
    CHECK_EQ(e.ids[2], 0);
    CHECK_TEXT(qkv_tokenizer_token(t, e.ids[3]), "the");
    CHECK_EQ(qkv_tokenizer_id(t, "the"), 1); // the most frequent word has the first id
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
}

TEST(a_texts_last_hidden_state_is_its_words_vectors)
{
    folder_new();
    write_text("t.txt", 400);
    qkv_error err = { 0 };
    qkv_model *m = NULL;
    CHECK_EQ(train(case_dir("m"), "t.txt", small, NULL, &err), QKV_OK);
    CHECK_EQ(qkv_model_open(&m, case_dir("m"), NULL, &err), QKV_OK);
    const int32_t ids[] = { 3, 1, 3 };
    const int64_t offsets[] = { 0, 3 };
    const struct qkv_model_input in = { .sequences = 1, .offsets = offsets, .ids = ids };
    float hidden[3 * 24], row[24];
    CHECK_EQ(qkv_model_info(m).layers, 0);
    CHECK_EQ(qkv_model_run(m, hidden, &in, NULL, &err), QKV_OK);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(qkv_model_embedding(m, row, ids[i]), QKV_OK);
        CHECK_BITS(row, hidden + 24 * i, sizeof row);
    }
    qkv_model_close(m);
}

TEST(too_little_and_wrong_options_are_refused)
{
    folder_new();
    folder_text("t.txt", "one two one two one\n");
    qkv_error err = { 0 };
    struct qkv_words_options o = small;
    CHECK_EQ(train(case_dir("m"), "t.txt", o, NULL, &err), QKV_ERR_FORMAT);
    CHECK(access(case_dir("m"), F_OK) != 0); // no files are left
    o.least = 2;
    o.window = 1000;
    err = (qkv_error){ 0 };
    CHECK_EQ(train(case_dir("m"), "t.txt", o, NULL, &err), QKV_ERR_USAGE);
    CHECK_TEXT(err.text, "window of word vectors is out of range, expected 1 to 64, found 1000");
    o.window = 2;
    o.sample = 2;
    err = (qkv_error){ 0 };
    CHECK_EQ(train(case_dir("m"), "t.txt", o, NULL, &err), QKV_ERR_USAGE);
    CHECK_TEXT(err.text, "sample of word vectors is out of range, expected at most 1, found 2");
    o.sample = small.sample;
    err = (qkv_error){ 0 };
    CHECK_EQ(train(case_dir("m"), "t.txt", o, NULL, &err), QKV_OK);
    o.force = false;
    err = (qkv_error){ 0 };
    CHECK_EQ(train(case_dir("m"), "t.txt", o, NULL, &err), QKV_ERR_USAGE); // a model exists
}

static qkv_status flow(void *ctx, qkv_error *err)
{
    struct qkv_words_options o = small;
    (void)ctx;
    o.least = 2;
    o.epochs = 1;
    return train(case_dir("m"), "t.txt", o, NULL, err);
}

TEST(failed_allocations_are_survived)
{
    folder_new();
    folder_text("t.txt", "one two one two one\nthree one two three\n");
    const int before = qkv_threads();
    CHECK_EQ(qkv_threads_set(1), QKV_OK);
    CHECK(faults_walk(flow, NULL, true) > 20);
    CHECK_EQ(qkv_threads_set(before), QKV_OK);
}

CHECK_MAIN(CASE(a_long_document_can_be_stopped_inside),
           CASE(a_text_that_repeats_words_does_not_diverge),
           CASE(words_that_are_used_alike_lie_together),
           CASE(any_number_of_threads_learns_the_same_bits),
           CASE(a_word_without_a_vector_is_unknown),
           CASE(a_texts_last_hidden_state_is_its_words_vectors),
           CASE(too_little_and_wrong_options_are_refused), CASE(failed_allocations_are_survived))
