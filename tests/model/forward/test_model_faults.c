// SPDX-License-Identifier: MIT
// test_model_faults.c: makes every allocation of opening and running a model fail, and runs a new
// model from two threads at once.
#include "base/faults.h"
#include "model/family/golden.h"
#include <pthread.h>

static const int32_t ids[12] = { 2, 7, 9, 11, 3, 2, 8, 3, 2, 30, 31, 3 };
static const int64_t offsets[4] = { 0, 5, 8, 12 }, lengths[3] = { 5, 2, 4 };
static const struct qkv_model_input packed = { .sequences = 3, .offsets = offsets, .ids = ids };
static const struct qkv_model_input padded = {
    .sequences = 3, .offsets = offsets, .lengths = lengths, .ids = ids
};

static int observe(void *user, const struct qkv_layer_output *seen)
{
    *(double *)user += (double)seen->hidden[0];
    return 0;
}

static qkv_status open_only(void *ctx, qkv_error *err)
{
    qkv_model *m = NULL;
    const qkv_status status = qkv_model_open(&m, ctx, NULL, err);
    CHECK((status == QKV_OK) == (m != NULL));
    qkv_model_close(m);
    return status;
}
static qkv_status open_and_run(void *ctx, qkv_error *err)
{
    qkv_model *m = NULL;
    float hidden[12 * 64];
    double sum = 0;
    const struct qkv_observer observer = {
        .layer = observe, .user = &sum, .weights = true, .probe = { .top_k = 2, .entropy = true }
    };
    qkv_status status = qkv_model_open(&m, ctx, NULL, err);
    if (!status) status = qkv_model_run(m, hidden, &packed, NULL, err);
    if (!status) status = qkv_model_run(m, hidden, &padded, &observer, err);
    qkv_model_close(m);
    return status;
}

// bert: f32, used in place; bert-f16: everything is converted; encoder-pre: tables computed by the
// first run.
static const char *const folders[] = { GOLDEN "bert", GOLDEN "bert-f16", GOLDEN "encoder-pre" };

TEST(opening_survives_every_failed_allocation)
{
    // one thread, so that allocations have the same order in every run
    CHECK_EQ(qkv_threads_set(1), QKV_OK);
    EACH(f, folders) CHECK(faults_walk(open_only, (void *)*f, true) > 5);
}
TEST(running_survives_every_failed_allocation)
{
    EACH(f, folders) CHECK(faults_walk(open_and_run, (void *)*f, true) > 10);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

// After a run that could not pack because of memory, the next one can.
TEST(a_failed_first_run_leaves_a_model_that_runs)
{
    qkv_model *m = NULL;
    qkv_error err = { 0 };
    float a[12 * 64], b[12 * 64];
    CHECK_EQ(qkv_threads_set(1), QKV_OK);
    CHECK_EQ(qkv_model_open(&m, GOLDEN "bert", NULL, &err), QKV_OK);
    for (int n = 1; n < 8; n++) {
        bool hit;
        faults_begin(n, true);
        const qkv_status status = qkv_model_run(m, a, &packed, NULL, NULL);
        (void)faults_end(&hit); // packed weights stay with the model
        CHECK_EQ(status, hit ? QKV_ERR_LIMIT : QKV_OK);
    }
    CHECK_EQ(qkv_model_run(m, a, &packed, NULL, &err), QKV_OK);
    qkv_model_close(m);
    CHECK_EQ(qkv_model_open(&m, GOLDEN "bert", NULL, &err), QKV_OK);
    CHECK_EQ(qkv_model_run(m, b, &packed, NULL, &err), QKV_OK);
    CHECK_BITS(a, b, 12 * 35 * sizeof *a);
    qkv_model_close(m);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

struct runner {
    const qkv_model *model;
    float hidden[12 * 64];
    qkv_status status;
};
static void *run_one(void *arg)
{
    struct runner *r = arg;
    r->status = QKV_OK;
    for (int i = 0; i < 20 && !r->status; i++)
        r->status = qkv_model_run(r->model, r->hidden, &packed, NULL, NULL);
    return NULL;
}
TEST(threads_share_a_model_from_its_first_run_on)
{
    enum { THREADS = 4 };
    qkv_model *m = NULL;
    qkv_error err = { 0 };
    static struct runner r[THREADS];
    pthread_t thread[THREADS];
    CHECK_EQ(qkv_model_open(&m, GOLDEN "bert", NULL, &err), QKV_OK);
    for (int i = 0; i < THREADS; i++) {
        r[i].model = m;
        CHECK_EQ(pthread_create(&thread[i], NULL, run_one, &r[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(r[i].status, QKV_OK);
        CHECK_BITS(r[i].hidden, r[0].hidden, 12 * 35 * sizeof(float));
    }
    qkv_model_close(m);
}

// The memory of a run grows linearly with the tokens; the model keeps it, so that the next run of
// as many tokens allocates nothing.
TEST(memory_is_linear_in_the_tokens)
{
    enum { MANY = 4096, EACH_ = 12 };
    static int32_t many[MANY];
    static int64_t cuts[MANY / EACH_ + 2];
    static float hidden[MANY * 35];
    int64_t peak[2];
    qkv_model *m = NULL;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_threads_set(1), QKV_OK); // several threads divide the sequences
    CHECK_EQ(qkv_model_open(&m, GOLDEN "bert", NULL, &err), QKV_OK);
    for (int64_t i = 0; i < MANY; i++) many[i] = 2 + (int32_t)(i % 37);
    CHECK_EQ(qkv_model_run(m, hidden, &packed, NULL, &err), QKV_OK); // packs the weights
    for (int k = 0; k < 2; k++) {
        const int64_t n = k ? MANY : MANY / 4, sequences = (n + EACH_ - 1) / EACH_;
        for (int64_t i = 0; i <= sequences; i++) cuts[i] = i * EACH_ < n ? i * EACH_ : n;
        const struct qkv_model_input in = { .sequences = sequences, .offsets = cuts, .ids = many };
        faults_begin(0, false);
        CHECK_EQ(qkv_model_run(m, hidden, &in, NULL, &err), QKV_OK);
        CHECK_EQ(faults_end(NULL), 1); // one block, which replaces the smaller one
        peak[k] = atomic_load(&faults_peak);
        faults_begin(0, false);
        CHECK_EQ(qkv_model_run(m, hidden, &in, NULL, &err), QKV_OK);
        CHECK_EQ(faults_end(NULL), 0);
        CHECK_EQ(atomic_load(&faults_peak), 0);
    }
    printf("%d tokens: %lld bytes, %d tokens: %lld bytes\n", MANY / 4, (long long)peak[0], MANY,
           (long long)peak[1]);
    CHECK(peak[1] <= 4 * peak[0] + 4096);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    qkv_model_close(m);
}

CHECK_MAIN(CASE(opening_survives_every_failed_allocation),
           CASE(running_survives_every_failed_allocation),
           CASE(a_failed_first_run_leaves_a_model_that_runs),
           CASE(threads_share_a_model_from_its_first_run_on), CASE(memory_is_linear_in_the_tokens))
