// SPDX-License-Identifier: MIT
// test_run_parts.c: the rows of many sequences have the same bits on one thread and on several,
// which divide the sequences among themselves, with padding and without, in every family and
// precision.
#include "base/faults.h"
#include "model/forward/forward.h"
#include "model/tiny.h"

enum { COPIES = 60, SEQUENCES = 3 * COPIES, ROWS_MOST = 640 };

// COPIES times the three sequences of a folder; every fifth sequence of the padded input is empty.
struct many {
    int64_t offsets[SEQUENCES + 1], lengths[SEQUENCES], rows;
    int32_t ids[ROWS_MOST], types[ROWS_MOST];
    struct qkv_model_input in;
};

static void fill(struct many *many, const struct tiny *t, int64_t copies)
{
    int64_t rows = 0, n = 0;
    for (int64_t c = 0; c < copies; c++)
        for (int64_t i = 0; i < 3; i++) {
            const int64_t from = t->in.offsets[i], length = t->in.offsets[i + 1] - from;
            if (rows + length > ROWS_MOST) continue;
            many->offsets[n] = rows;
            many->lengths[n] = n % 5 == 4 ? 0 : length - (n % 3 == 1);
            for (int64_t r = 0; r < length; r++) {
                many->ids[rows + r] = t->in.ids[from + r];
                many->types[rows + r] = t->in.types[from + r];
            }
            rows += length;
            many->offsets[++n] = rows;
        }
    many->rows = rows;
    many->in = (struct qkv_model_input){
        .sequences = n, .offsets = many->offsets, .ids = many->ids, .types = many->types
    };
}

static void run(const struct tiny *t, const struct many *many, int threads, float *hidden)
{
    qkv_error err = { 0 };
    CHECK_EQ(qkv_threads_set(threads), QKV_OK);
    if (qkv_model_run(t->model, hidden, &many->in, NULL, &err)) fail_msg("%s", err.text);
}

static struct many many;
static float one[ROWS_MOST * 128], several[ROWS_MOST * 128];

// The run is divided: called by itself, the function that divides it computes all rows.
static void divides(const struct tiny *t, const struct many *given, float *hidden)
{
    struct qkv_run u = { .m = t->model, .hidden = hidden, .sides = 1 };
    qkv_status status = QKV_ERR_INTERNAL;
    qkv_error err = { 0 };
    CHECK(qkv_run_parts(&status, &u, &given->in, &err));
    CHECK_EQ(status, QKV_OK);
}

TEST(threads_that_divide_the_sequences_change_no_bit)
{
    static const int counts[] = { 2, 3, 7 };
    int64_t models = 0, divided = 0, turn = 0;
    EACH_TINY_PRECISION(name, p)
    {
        if (p != QKV_PRECISION_F32 && p != QKV_PRECISION_BF16 && p != QKV_PRECISION_INT8) continue;
        struct tiny t = open_tiny(*name, p);
        if (t.source.ids || t.info.width > 128) {
            close_tiny(&t);
            continue;
        }
        models++;
        fill(&many, &t, COPIES);
        for (int padded = 0; padded < 2; padded++) {
            many.in.lengths = padded ? many.lengths : NULL;
            run(&t, &many, 1, one);
            EACH_IN_TURN(c, counts, turn++)
            {
                memset(several, 0xff, sizeof several);
                run(&t, &many, *c, several);
                CHECK_BITS(several, one, (size_t)(many.rows * t.info.width) * sizeof *one);
                if (*c > 2 || many.rows < 400) continue; // the parts need enough rows
                memset(several, 0xff, sizeof several);
                divides(&t, &many, several);
                CHECK_BITS(several, one, (size_t)(many.rows * t.info.width) * sizeof *one);
                divided++;
            }
        }
        close_tiny(&t);
    }
    CHECK(models > 5 && divided > 10);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

// Memory that fails: either the run has all its bits, since it needs no parts, or it says so.
TEST(a_divided_run_survives_every_failed_allocation)
{
    struct tiny t = open_tiny("bert", QKV_PRECISION_F32);
    qkv_error err = { 0 };
    bool hit = true;
    fill(&many, &t, COPIES);
    run(&t, &many, 1, one);
    CHECK_EQ(qkv_threads_set(2), QKV_OK);
    int64_t n = 0, failed = 0;
    while (hit) {
        qkv_model *fresh = NULL; // has no memory of earlier runs
        CHECK_EQ(qkv_model_open(&fresh, tiny_path("bert", ""), NULL, &err), QKV_OK);
        faults_begin(++n, true);
        const qkv_status status = qkv_model_run(fresh, several, &many.in, NULL, &err);
        (void)faults_end(&hit);
        CHECK(status == QKV_OK || (hit && status == QKV_ERR_LIMIT && err.status == status));
        failed += status != QKV_OK;
        if (!status) CHECK_BITS(several, one, (size_t)(many.rows * t.info.width) * sizeof *one);
        qkv_model_close(fresh);
    }
    CHECK(n > 4 && failed > 1);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    close_tiny(&t);
}

// A part that cannot run fails the whole run with its error, as on one thread.
TEST(an_error_is_that_of_the_whole_run)
{
    struct tiny t = open_tiny("bert", QKV_PRECISION_F32);
    qkv_error err = { 0 };
    fill(&many, &t, COPIES);
    many.ids[many.rows - 1] = INT32_MAX;
    for (int threads = 1; threads < 4; threads++) {
        CHECK_EQ(qkv_threads_set(threads), QKV_OK);
        CHECK_EQ(qkv_model_run(t.model, several, &many.in, NULL, &err), QKV_ERR_USAGE);
        CHECK(strstr(err.text, "2147483647") != NULL);
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    close_tiny(&t);
}

CHECK_MAIN(CASE(threads_that_divide_the_sequences_change_no_bit),
           CASE(a_divided_run_survives_every_failed_allocation),
           CASE(an_error_is_that_of_the_whole_run))
