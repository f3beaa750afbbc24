// SPDX-License-Identifier: MIT
// test_embedder.c: checks many texts in prefetched batches: the same bits, the same errors in the
// same order and no more memory, for any batches and number of threads.
#include "base/faults.h"
#include "model/family/golden.h"
#include <qkv/task.h>

enum { TEXTS = 120, D = 35 };
static char letters[TEXTS][32];
static const char *texts[TEXTS];

// Makes texts of 0 to 10 letters.
static void make_texts(void)
{
    for (int i = 0; i < TEXTS; i++) {
        const int n = (i * 7 + i / 11) % 11;
        for (int k = 0; k < n; k++) {
            letters[i][2 * k] = (char)('a' + (i * 5 + k * 3) % 16);
            letters[i][2 * k + 1] = ' ';
        }
        texts[i] = letters[i];
    }
}

static qkv_embedder *open_bert(const struct qkv_embedder_options *o)
{
    qkv_embedder *e = NULL;
    qkv_error err = { 0 };
    if (qkv_embedder_open(&e, GOLDEN "bert", o, &err)) fail_msg("%s %s", err.file, err.text);
    return e;
}

TEST(batches_threads_and_the_order_of_texts_change_no_bit)
{
    static float want[TEXTS * D], got[TEXTS * D];
    static const int64_t budgets[] = { 1, 13, 100, 100000 };
    qkv_error err = { 0 };
    qkv_embedder *e = open_bert(NULL);
    for (int i = 0; i < TEXTS; i++)
        CHECK_EQ(qkv_embed(e, want + i * D, texts + i, NULL, 1, NULL, &err), QKV_OK);
    qkv_embedder_close(e);
    EACH(budget, budgets) for (int threads = 1; threads <= 3; threads++)
    {
        e = open_bert(&(struct qkv_embedder_options){ .batch_tokens = *budget });
        CHECK_EQ(qkv_threads_set(threads), QKV_OK);
        CHECK_EQ(qkv_embed(e, got, texts, NULL, TEXTS, NULL, &err), QKV_OK);
        CHECK_BITS(got, want, sizeof got);
        const char *turned[TEXTS]; // the step and TEXTS are coprime: each text occurs once
        for (int i = 0; i < TEXTS; i++) turned[i] = texts[i * 77 % TEXTS];
        CHECK_EQ(qkv_embed(e, got, turned, NULL, TEXTS, NULL, &err), QKV_OK);
        for (int i = 0; i < TEXTS; i++)
            CHECK_BITS(got + i * D, want + i * 77 % TEXTS * D, D * sizeof *got);
        qkv_embedder_close(e);
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

struct told {
    int64_t at[TEXTS + 1];
    int count, stop_at; // stop_at: the call at which the callback stops; 0: never
};
static int tell(void *user, const char *what, int64_t done, int64_t total)
{
    struct told *t = user;
    (void)what;
    (void)total;
    t->at[t->count++] = done;
    return t->count == t->stop_at;
}

// Progress, stop and errors reach the caller in the order of a single thread, for any prefetching.
TEST(progress_stops_and_errors_come_in_the_order_of_the_texts)
{
    static float out[TEXTS * D], untouched[TEXTS * D];
    const char *some[TEXTS];
    struct told want[3] = { { .count = 0 } };
    memcpy(some, texts, sizeof some);
    memset(untouched, 0x5a, sizeof untouched);
    for (int threads = 1; threads <= 3; threads++) {
        CHECK_EQ(qkv_threads_set(threads), QKV_OK);
        for (int kind = 0; kind < 3; kind++) { // success; stopped; text 51 is too long
            struct told t = { .stop_at = kind == 1 ? 3 : 0 };
            qkv_error err = { 0 };
            qkv_embedder *e = open_bert(
                &(struct qkv_embedder_options){ .batch_tokens = 40, .progress = { tell, &t } });
            some[50] = kind == 2 ? "a b c d e f g h i j k l m n" : texts[50];
            memcpy(out, untouched, sizeof out);
            CHECK_EQ(qkv_embed(e, out, some, NULL, TEXTS, NULL, &err), kind == 0 ? QKV_OK
                                                                       : kind == 1
                                                                           ? QKV_ERR_INTERRUPTED
                                                                           : QKV_ERR_USAGE);
            if (kind == 2) CHECK_TEXT(err.path, "text 51");
            const int64_t done = t.count ? t.at[t.count - 1] : 0;
            CHECK(done > 0 && (kind == 0 ? done == TEXTS : done < 51));
            CHECK_BITS(out + done * D, untouched, (size_t)(TEXTS - done) * D * sizeof *out);
            if (threads == 1) want[kind] = t;
            CHECK_BITS(&t, &want[kind], sizeof t);
            qkv_embedder_close(e);
        }
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

TEST(ids_that_are_wrong_are_told_in_order_too)
{
    static const int32_t ids[] = { 2, 7, 3, 2, 8, 9, 3, 2, 99, 3, 2, 3 };
    static const int64_t offsets[] = { 0, 3, 7, 10, 12 };
    float out[4 * D];
    qkv_error err = { 0 };
    CHECK_EQ(qkv_threads_set(2), QKV_OK);
    qkv_embedder *e =
        open_bert(&(struct qkv_embedder_options){ .batch_tokens = 1, .no_tokenizer = true });
    CHECK_EQ(qkv_embed_ids(e, out, ids, offsets, 2, NULL, &err), QKV_OK);
    CHECK_EQ(qkv_embed_ids(e, out, ids, offsets, 4, NULL, &err), QKV_ERR_USAGE);
    CHECK_TEXT(err.text, "token id out of range, expected an id below 40, found 99");
    // an embedder of the open model has the same bits, and leaves it open
    float again[2 * D];
    qkv_embedder *of;
    const struct qkv_embedder_options lent = { .opened = qkv_embedder_model(e),
                                               .no_tokenizer = true };
    CHECK_EQ(qkv_embedder_open(&of, GOLDEN "bert", &lent, &err), QKV_OK);
    CHECK(qkv_embedder_model(of) == qkv_embedder_model(e));
    CHECK_EQ(qkv_embed_ids(of, again, ids, offsets, 2, NULL, &err), QKV_OK);
    qkv_embedder_close(of);
    CHECK_EQ(qkv_embed_ids(e, out, ids, offsets, 2, NULL, &err), QKV_OK);
    CHECK_BITS(again, out, sizeof again);
    qkv_embedder_close(e);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    err = (qkv_error){ 0 };
    CHECK_EQ(qkv_embedder_open(&e, "no folder", &(struct qkv_embedder_options){ .pool = 9 }, &err),
             QKV_ERR_USAGE);
    CHECK_TEXT(err.text, "option pool of the embedder is out of range, expected 0 to 6, found 9");
}

// Ten times the texts in batches of one size need no additional memory.
TEST(memory_is_that_of_two_batches_however_many_texts_there_are)
{
    static float out[TEXTS * D];
    const char *same[TEXTS];
    int64_t peak[2];
    qkv_error err = { 0 };
    for (int i = 0; i < TEXTS; i++) same[i] = "a b c d e";
    for (int threads = 1; threads <= 2; threads++) {
        qkv_embedder *e = open_bert(&(struct qkv_embedder_options){ .batch_tokens = 28 });
        CHECK_EQ(qkv_threads_set(threads), QKV_OK);
        CHECK_EQ(qkv_embed(e, out, same, NULL, 8, NULL, &err), QKV_OK); // packs the weights
        for (int k = 0; k < 2; k++) {
            faults_begin(0, false);
            CHECK_EQ(qkv_embed(e, out, same, NULL, k ? TEXTS : 12, NULL, &err), QKV_OK);
            CHECK_EQ(faults_end(NULL), 0);
            peak[k] = atomic_load(&faults_peak);
        }
        CHECK_EQ(peak[1], peak[0]);
        qkv_embedder_close(e);
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

// The tokenizer's cache is optional: if its allocation fails, the vectors are the same.
static qkv_status open_and_embed(void *ctx, qkv_error *err)
{
    static float out[20 * D], want[20 * D];
    static bool known;
    qkv_embedder *e = NULL;
    qkv_status status =
        qkv_embedder_open(&e, ctx, &(struct qkv_embedder_options){ .batch_tokens = 30 }, err);
    if (!status) status = qkv_embed(e, out, texts, NULL, 20, NULL, err);
    qkv_embedder_close(e);
    if (!status && known) CHECK_BITS(out, want, sizeof out);
    if (!status && !known) memcpy(want, out, sizeof out);
    known = known || !status;
    return status;
}
TEST(every_failed_allocation_is_survived_also_on_the_thread_that_makes_batches)
{
    qkv_error err = { 0 };
    CHECK_EQ(open_and_embed((void *)GOLDEN "bert", &err), QKV_OK);
    for (int threads = 1; threads <= 2; threads++) {
        CHECK_EQ(qkv_threads_set(threads), QKV_OK);
        CHECK(faults_walk(open_and_embed, (void *)GOLDEN "bert", false) > 20);
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

int main(void)
{
    make_texts();
    const struct CMUnitTest cases[] = {
        CASE(batches_threads_and_the_order_of_texts_change_no_bit),
        CASE(progress_stops_and_errors_come_in_the_order_of_the_texts),
        CASE(ids_that_are_wrong_are_told_in_order_too),
        CASE(memory_is_that_of_two_batches_however_many_texts_there_are),
        CASE(every_failed_allocation_is_survived_also_on_the_thread_that_makes_batches),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
