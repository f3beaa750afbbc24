// SPDX-License-Identifier: MIT
// test_search.c: compares the search over stored vectors with a plain double loop, and checks its
// order, its edges, its bits, and vectors of a file.
#include "check.h"
#include "kernel/kernel.h"
#include <qkv/search.h>
#include <unistd.h>

static const qkv_dtype types[] = { QKV_F32, QKV_BF16, QKV_I8 };

struct stored {
    struct qkv_vectors v;
    void *rows;
    float *scales;
};

static struct stored store(const float *x, qkv_dtype type, int64_t n, int64_t width)
{
    struct stored s = { .v = { .count = n, .width = width, .type = type } };
    s.v.rows = s.rows = calloc((size_t)(n * width) + 1, qkv_dtype_size(type));
    s.v.scales = s.scales = calloc((size_t)n + 1, sizeof *s.scales);
    CHECK_EQ(qkv_vectors_convert(s.rows, s.scales, type, x, n, width), QKV_OK);
    return s;
}

static void release(struct stored *s)
{
    free(s->rows);
    free(s->scales);
}

static float *randoms(int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x + 1);
    for (int64_t i = 0; i < n; i++) x[i] = (float)check_gauss();
    return x;
}

// Returns number i of vector `row` as it is stored.
static double number(const struct qkv_vectors *v, int64_t row, int64_t i)
{
    const int64_t at = row * v->width + i;
    if (v->type == QKV_I8) return (double)((const int8_t *)v->rows)[at] * (double)v->scales[row];
    if (v->type == QKV_BF16) return (double)qkv_bf16_to_f32(((const uint16_t *)v->rows)[at]);
    return (double)((const float *)v->rows)[at];
}

// Checks the matches of one query: each score is within its bound of the dot product in double, the
// order is exact, and no row that is left out has a score above the last by more than the bounds.
static void check_matches(const struct qkv_vectors *v, const float *query,
                          const struct qkv_match *m, int64_t found, int64_t k)
{
    float *q = malloc((size_t)v->width * sizeof *q), scale = 1;
    int8_t *whole = malloc((size_t)v->width);
    bool *taken = calloc((size_t)v->count + 1, 1);
    qkv_quantise_row(whole, &scale, query, v->width, 1);
    for (int64_t i = 0; i < v->width; i++)
        q[i] = v->type == QKV_I8 ? (float)whole[i] * scale : query[i];
    CHECK_EQ(found, qkv_min64(k, v->count));
    double last = INFINITY;
    for (int64_t e = 0; e < found; e++) {
        CHECK(m[e].row >= 0 && m[e].row < v->count && !taken[m[e].row]);
        taken[m[e].row] = true;
        if (e)
            CHECK(m[e].score < m[e - 1].score ||
                  (m[e].score == m[e - 1].score && m[e].row > m[e - 1].row));
        last = (double)m[e].score;
    }
    for (int64_t r = 0, e; r < v->count; r++) {
        double sum = 0, size = 0;
        for (int64_t i = 0; i < v->width; i++) {
            sum += (double)q[i] * number(v, r, i);
            size += fabs((double)q[i] * number(v, r, i));
        }
        const double bound = size * 0x1p-24 * ((double)v->width + 4);
        for (e = 0; e < found && m[e].row != r; e++) continue;
        if (e < found)
            CHECK_NEAR((double)m[e].score, sum, bound);
        else
            CHECK(sum <= last + bound);
    }
    free(q);
    free(whole);
    free(taken);
}

TEST(matches_are_those_of_a_plain_double_loop)
{
    static const int64_t sizes[][4] = { { 1, 1, 1, 1 },     { 7, 3, 2, 3 },     { 100, 33, 5, 10 },
                                        { 500, 64, 19, 7 }, { 60, 384, 3, 60 }, { 40, 8, 1, 100 },
                                        { 0, 5, 2, 3 } };
    EACH_ISA(isa) EACH(type, types) EACH(size, sizes)
    {
        (void)isa;
        const int64_t n = (*size)[0], width = (*size)[1], queries = (*size)[2], k = (*size)[3];
        float *x = randoms(n * width), *q = randoms(queries * width);
        struct stored s = store(x, *type, n, width);
        struct qkv_match *m = malloc((size_t)(queries * k) * sizeof *m);
        int64_t found[20];
        CHECK_EQ(qkv_search(m, found, &s.v, q, queries, k, NULL), QKV_OK);
        for (int64_t i = 0; i < queries; i++)
            check_matches(&s.v, q + i * width, m + i * k, found[i], k);
        release(&s);
        free(m);
        free(x);
        free(q);
    }
}

TEST(threads_and_other_queries_change_no_bit)
{
    enum { N = 40000, WIDTH = 24, QUERIES = 18, K = 50 };
    float *x = randoms(N * WIDTH), *q = randoms(QUERIES * WIDTH);
    for (int64_t i = 0; i < N / 2; i++) // every second vector twice: scores that are equal
        memcpy(x + (2 * i + 1) * WIDTH, x + 2 * i * WIDTH, WIDTH * sizeof *x);
    EACH(type, types)
    {
        struct stored s = store(x, *type, N, WIDTH);
        static struct qkv_match all[QUERIES * K], one[QUERIES * K];
        int64_t found[QUERIES];
        CHECK_EQ(qkv_threads_set(1), QKV_OK);
        CHECK_EQ(qkv_search(all, found, &s.v, q, QUERIES, K, NULL), QKV_OK);
        for (int threads = 1; threads <= 8; threads += threads == 1 ? 1 : 3) {
            CHECK_EQ(qkv_threads_set(threads), QKV_OK);
            memset(one, 0, sizeof one);
            if (threads == 2) // each query alone
                for (int64_t i = 0; i < QUERIES; i++)
                    CHECK_EQ(qkv_search(one + i * K, found, &s.v, q + i * WIDTH, 1, K, NULL),
                             QKV_OK);
            else
                CHECK_EQ(qkv_search(one, found, &s.v, q, QUERIES, K, NULL), QKV_OK);
            for (int64_t i = 0; i < QUERIES * K; i++) {
                CHECK_EQ(one[i].row, all[i].row);
                CHECK_BITS(&one[i].score, &all[i].score, sizeof one[i].score);
            }
        }
        release(&s);
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    free(x);
    free(q);
}

TEST(int8_scores_are_equal_on_every_instruction_set)
{
    enum { N = 300, WIDTH = 100, K = 300 };
    float *x = randoms(N * WIDTH), *q = randoms(WIDTH);
    static struct qkv_match first[K], next[K];
    int64_t found = 0;
    struct stored s = store(x, QKV_I8, N, WIDTH);
    bool any = false;
    EACH_ISA(isa)
    {
        (void)isa;
        CHECK_EQ(qkv_search(any ? next : first, &found, &s.v, q, 1, K, NULL), QKV_OK);
        for (int i = 0; any && i < K; i++)
            CHECK(next[i].row == first[i].row && next[i].score == first[i].score);
        any = true;
    }
    release(&s);
    free(x);
    free(q);
}

TEST(equal_scores_come_by_row_and_nan_is_no_match)
{
    const float x[] = { 1, 0, 2, 0, 2, 0, NAN, 0, 1, 0, -INFINITY, 0, INFINITY, 0 };
    const float q[] = { 1, 0 };
    struct qkv_vectors v = { .count = 7, .width = 2, .type = QKV_F32, .rows = x };
    struct qkv_match m[7];
    int64_t found;
    CHECK_EQ(qkv_search(m, &found, &v, (const float[]){ 1, 1 }, 1, 7, NULL), QKV_OK);
    static const int64_t order[] = { 6, 1, 2, 0, 4, 5 };
    CHECK_EQ(found, 6);
    for (int i = 0; i < 6; i++) CHECK_EQ(m[i].row, order[i]);
    CHECK_EQ(qkv_search(m, &found, &v, (const float[]){ 1, 1 }, 1, 2, NULL), QKV_OK);
    CHECK(found == 2 && m[0].row == 6 && m[1].row == 1);
    // a query with NaN has no match
    CHECK_EQ(qkv_search(m, &found, &v, (const float[]){ NAN, 0 }, 1, 7, NULL), QKV_OK);
    CHECK_EQ(found, 0);
    struct stored s = store(x, QKV_I8, 7, 2); // vectors with a nonfinite number have no scale
    CHECK_EQ(qkv_search(m, &found, &s.v, q, 1, 7, NULL), QKV_OK);
    CHECK(found == 4 && m[0].row == 1 && m[1].row == 2 && m[2].row == 0 && m[3].row == 4);
    release(&s);
}

TEST(vectors_of_a_file_have_the_bytes_that_they_need)
{
    enum { N = 5, WIDTH = 7, OFFSET = 128 };
    char path[] = "/tmp/qkv-vectors-XXXXXX";
    const int fd = mkstemp(path);
    float *x = randoms(N * WIDTH);
    EACH(type, types)
    {
        struct stored s = store(x, *type, N, WIDTH);
        int64_t bytes, scales;
        CHECK_EQ(qkv_vectors_bytes(&bytes, &scales, *type, N, WIDTH), QKV_OK);
        CHECK_EQ(ftruncate(fd, OFFSET + bytes), 0);
        const size_t rows = N * WIDTH * qkv_dtype_size(*type);
        CHECK_EQ(pwrite(fd, s.rows, rows, OFFSET), rows);
        if (*type == QKV_I8)
            CHECK_EQ(pwrite(fd, s.scales, N * sizeof(float), OFFSET + scales), N * sizeof(float));
        struct qkv_vectors v = { .count = N, .width = WIDTH, .type = *type };
        CHECK_EQ(qkv_vectors_open(&v, path, OFFSET, NULL), QKV_OK);
        CHECK_BITS(v.rows, s.rows, rows);
        if (*type == QKV_I8) CHECK_BITS(v.scales, s.scales, N * sizeof(float));
        qkv_vectors_close(&v);
        CHECK(!v.rows && !v.file);
        qkv_error err = { 0 };
        v.count = N + 1;
        CHECK_EQ(qkv_vectors_open(&v, path, OFFSET, &err), QKV_ERR_FORMAT);
        CHECK(strstr(err.text, "expected"));
        v.count = N - 1;
        CHECK_EQ(qkv_vectors_open(&v, path, OFFSET, NULL), QKV_ERR_FORMAT);
        v.count = INT64_MAX / 8;
        CHECK(qkv_vectors_open(&v, path, OFFSET, NULL) != QKV_OK);
        v.count = N;
        CHECK_EQ(qkv_vectors_open(&v, path, OFFSET + 64, NULL), QKV_ERR_FORMAT);
        CHECK_EQ(qkv_vectors_open(&v, path, 1 << 20, NULL), QKV_ERR_FORMAT);
        release(&s);
    }
    free(x);
    close(fd);
    unlink(path);
}

TEST(failed_allocations_are_an_error)
{
    enum { N = 100, WIDTH = 8 };
    float *x = randoms(N * WIDTH);
    struct qkv_vectors v = { .count = N, .width = WIDTH, .type = QKV_F32, .rows = x };
    struct qkv_match m[3];
    int64_t found;
    // k entries of the heaps of one part are more than a size_t counts only with huge sizes, which
    // are refused before any allocation
    v.count = INT64_MAX;
    CHECK_EQ(qkv_search(m, &found, &v, x, 1, 3, NULL), QKV_ERR_USAGE);
    v.count = N;
    v.width = QKV_VECTOR_WIDTH_MAX + 1;
    CHECK_EQ(qkv_search(m, &found, &v, x, 1, 3, NULL), QKV_ERR_USAGE);
    free(x);
}

CHECK_MAIN(CASE(matches_are_those_of_a_plain_double_loop),
           CASE(threads_and_other_queries_change_no_bit),
           CASE(int8_scores_are_equal_on_every_instruction_set),
           CASE(equal_scores_come_by_row_and_nan_is_no_match),
           CASE(vectors_of_a_file_have_the_bytes_that_they_need),
           CASE(failed_allocations_are_an_error))
