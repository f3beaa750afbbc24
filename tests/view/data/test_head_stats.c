// SPDX-License-Identifier: MIT
// test_head_stats.c: the statistics of a head are those that its rows of weights give.
#include "view/made.h"

struct sums {
    double keys, distance, focus, special, rows, focus_rows;
    struct view_pair best, same; // as in struct view_stats
};

// Adds row i, w[T], by the formulas.
static void add_row(struct sums *s, const struct made *m, int64_t i, const float *w, int64_t n)
{
    double entropy = 0;
    for (int64_t j = 0; j < n; j++) {
        const double x = (double)w[j];
        if (x > 0) entropy -= x * log(x);
        s->distance += x * fabs((double)(i - j));
        if (m->token[j].special) {
            s->special += x;
            continue;
        }
        if (i == j) continue;
        if (s->best.from < 0 || w[j] > s->best.weight) s->best = (struct view_pair){ i, j, w[j] };
        if (strcmp(m->token[i].raw, m->token[j].raw) != 0) continue;
        if (s->same.from < 0 || w[j] > s->same.weight) s->same = (struct view_pair){ i, j, w[j] };
    }
    s->keys += exp(entropy);
    s->rows++;
    if (n < 2) return;
    s->focus += 1 - entropy / log((double)n);
    s->focus_rows++;
}

// A pair below half the uniform weight of its row, or that prints as .00, is not shown.
static void check_pair(struct view_pair is, struct view_pair want, bool causal, int64_t T)
{
    const float n = (float)(causal ? want.from + 1 : T);
    if (want.from >= 0 && (want.weight * 2 * n < 1 || want.weight < .005f)) want.from = -1;
    CHECK_EQ(is.from, want.from);
    if (want.from < 0) return;
    CHECK_EQ(is.to, want.to);
    CHECK(is.weight == want.weight);
}

static void check_head(const struct made *m, const qkv_view *v, int64_t head, bool causal)
{
    const int64_t T = m->text.tokens;
    struct sums s = { .best = { -1, -1, 0 }, .same = { -1, -1, 0 } };
    float *w = zeros(T, sizeof *w);
    double *mean = zeros(T, sizeof *mean), *seen = zeros(T, sizeof *seen);
    for (int64_t i = 0; i < T; i++) {
        const int64_t n = causal ? i + 1 : T;
        if (m->token[i].special) continue; // rows of special tokens do not count
        qkv_view_row(v, w, 0, 0, head, i);
        for (int64_t j = 0; j < n; j++) mean[j] += (double)w[j], seen[j]++;
        add_row(&s, m, i, w, n);
    }
    const struct qkv_view_head is = qkv_view_head(v, 0, 0, head);
    const struct view_stats *x = view_stats(v->stack, 0, head);
    CHECK_EQ(x->not_numbers, 0);
    CHECK_NEAR((double)is.effective_keys, s.keys / s.rows, 1e-4 * s.keys / s.rows);
    CHECK_NEAR((double)is.distance, s.distance / s.rows, 1e-5 * (s.distance / s.rows + 1));
    CHECK_NEAR((double)is.focus, s.focus_rows > 0 ? s.focus / s.focus_rows : 1, 1e-4);
    CHECK_NEAR((double)is.special, s.special / s.rows, 1e-5);
    check_pair(x->best, s.best, causal, T);
    check_pair(x->same, s.same, causal, T);
    for (int64_t j = 0; j < T && seen[j] > 0; j++)
        CHECK_NEAR((double)v->stack->layer[0].mean[head * T + j], mean[j] / seen[j], 1e-5);
    free(w);
    free(mean);
    free(seen);
}

// The lengths are around the groups of rows and the tiles of keys that are computed together.
TEST(statistics_follow_their_formulas)
{
    static const int64_t lengths[] = { 1, 2, 7, 8, 9, 127, 128, 129, 257, 513 };
    EACH(T, lengths)
    for (int causal = 0; causal < 2; causal++) {
        struct made *m = malloc(sizeof *m);
        make(m, *T, 1, 2, 1, 8, causal);
        qkv_view *v = view_of(m);
        for (int64_t h = 0; h < 2; h++) check_head(m, v, h, causal);
        qkv_view_free(v);
        unmake(m);
        free(m);
    }
}

// A row of NaN counts as such and leaves the statistics of the others as they are.
TEST(a_row_of_nan_is_left_out)
{
    enum { T = 17, ROW = 9 };
    struct made *m = malloc(sizeof *m);
    make(m, T, 1, 1, 1, 8, false);
    qkv_view *v = view_of(m);
    const struct qkv_view_head before = qkv_view_head(v, 0, 0, 0);
    qkv_view_free(v);
    m->lse[ROW] = NAN;
    v = view_of(m);
    const struct qkv_view_head after = qkv_view_head(v, 0, 0, 0);
    float w[T];
    double entropy = 0;
    for (int64_t j = 0; j < T; j++) {
        const double x = m->weights[ROW * T + j];
        entropy -= x > 0 ? x * log(x) : 0;
    }
    qkv_view_row(v, w, 0, 0, 0, ROW);
    CHECK(w[3] != w[3]);
    CHECK_EQ(view_stats(v->stack, 0, 0)->not_numbers, 1);
    const double rows = T - 3; // three tokens are special
    CHECK_NEAR(((double)before.effective_keys * rows - exp(entropy)) / (rows - 1),
               (double)after.effective_keys, 1e-4 * T);
    qkv_view_free(v);
    unmake(m);
    free(m);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(statistics_follow_their_formulas),
        CASE(a_row_of_nan_is_left_out),
    };
    return cmocka_run_group_tests(cases, NULL, sweep);
}
