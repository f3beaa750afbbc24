// SPDX-License-Identifier: MIT
// test_head_stats.c: the statistics of a head are those that its rows of weights give.
#include "view/made.h"

struct sums {
    double keys, distance, focus, special, rows, focus_rows;
    struct view_pair best, same; // as in struct view_stats
};

// Queries row[T] attend to keys key[S], tokens of the same text or, with `across`, of another one.
struct tokens {
    const struct qkv_view_token *row, *key;
    int64_t T, S;
    bool causal, across;
};

// Adds row i, with weights of its first n keys, by the formulas. Positions of two texts have no
// distance, and none of their pairs is a token and itself.
static void add_row(struct sums *s, const struct tokens *t, int64_t i, const float *w, int64_t n)
{
    double entropy = 0;
    for (int64_t j = 0; j < n; j++) {
        const double x = (double)w[j];
        if (x > 0) entropy -= x * log(x);
        if (!t->across) s->distance += x * fabs((double)(i - j));
        if (t->key[j].special) {
            s->special += x;
            continue;
        }
        if (i == j && !t->across) continue;
        if (s->best.from < 0 || w[j] > s->best.weight) s->best = (struct view_pair){ i, j, w[j] };
        if (strcmp(t->row[i].raw, t->key[j].raw) != 0) continue;
        if (s->same.from < 0 || w[j] > s->same.weight) s->same = (struct view_pair){ i, j, w[j] };
    }
    s->keys += exp(entropy);
    s->rows++;
    if (n < 2) return;
    s->focus += 1 - entropy / log((double)n);
    s->focus_rows++;
}

// A pair below half the uniform weight of its row, or that prints as .00, is not shown.
static void check_pair(struct view_pair is, struct view_pair want, const struct tokens *t)
{
    const float n = (float)(t->causal ? want.from + 1 : t->S);
    if (want.from >= 0 && (want.weight * 2 * n < 1 || want.weight < .005f)) want.from = -1;
    CHECK_EQ(is.from, want.from);
    if (want.from < 0) return;
    CHECK_EQ(is.to, want.to);
    CHECK(is.weight == want.weight);
}

static void check_head(const struct tokens *t, const qkv_view *v, int64_t head)
{
    const int64_t S = t->S;
    struct sums s = { .best = { -1, -1, 0 }, .same = { -1, -1, 0 } };
    float *w = zeros(S, sizeof *w);
    double *mean = zeros(S, sizeof *mean), *seen = zeros(S, sizeof *seen);
    for (int64_t i = 0; i < t->T; i++) {
        const int64_t n = t->causal ? i + 1 : S;
        if (t->row[i].special) continue; // rows of special tokens do not count
        qkv_view_row(v, w, 0, 0, head, i);
        for (int64_t j = 0; j < n; j++) mean[j] += (double)w[j], seen[j]++;
        add_row(&s, t, i, w, n);
    }
    const struct qkv_view_head is = qkv_view_head(v, 0, 0, head);
    const struct view_stats *x = view_stats(v->stack, 0, head);
    CHECK_EQ(x->not_numbers, 0);
    CHECK_NEAR((double)is.effective_keys, s.keys / s.rows, 1e-4 * s.keys / s.rows);
    CHECK_NEAR((double)is.distance, s.distance / s.rows, 1e-5 * (s.distance / s.rows + 1));
    CHECK_NEAR((double)is.focus, s.focus_rows > 0 ? s.focus / s.focus_rows : 1, 1e-4);
    CHECK_NEAR((double)is.special, s.special / s.rows, 1e-5);
    check_pair(x->best, s.best, t);
    check_pair(x->same, s.same, t);
    for (int64_t j = 0; j < S && seen[j] > 0; j++)
        CHECK_NEAR((double)v->stack->layer[0].mean[head * S + j], mean[j] / seen[j], 1e-5);
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
        const struct tokens t = { m->token, m->token, *T, *T, causal, false };
        for (int64_t h = 0; h < 2; h++) check_head(&t, v, h);
        qkv_view_free(v);
        unmake(m);
        free(m);
    }
}

// Returns a view of cross-attention: the first queries of `m` attend to its first keys.
static qkv_view *across_view(const struct made *m, const struct tokens *t)
{
    const int64_t all = m->text.tokens, H = m->stack.heads;
    static struct qkv_view_text text[2]; // the view refers to both
    static struct qkv_view_stack stack;
    text[0] = (struct qkv_view_text){ .token = t->key, .tokens = t->S };
    text[1] = (struct qkv_view_text){ .token = t->row, .tokens = t->T };
    stack = m->stack;
    stack.name = "cross";
    stack.rows = 1;
    const struct qkv_view_shape shape = { "made-up", text, 2, &stack, 1 };
    float *lse = zeros(H * t->T, sizeof *lse);
    for (int64_t h = 0; h < H; h++)
        for (int64_t i = 0; i < t->T; i++) {
            double part = 0; // of the weights of all keys
            for (int64_t j = 0; j < t->S; j++) part += m->weights[(h * all + i) * all + j];
            lse[h * t->T + i] = (float)((double)m->lse[h * all + i] + log(part));
        }
    const struct qkv_view_layer_data data = { .q = m->q, .k = m->k, .lse = lse, .scale = .25f };
    qkv_view *v = NULL;
    qkv_error err = { 0 };
    if (qkv_view_new(&v, &shape, &err) || qkv_view_layer(v, 0, 0, &data, &err))
        fail_msg("%s", err.text);
    free(lse);
    return v;
}

// With a shift, the words of row i and key i differ; without one they are the same.
TEST(statistics_of_cross_attention_follow_their_formulas)
{
    static const struct {
        int64_t T, S;
    } lengths[] = {
        { 1, 2 }, { 2, 1 }, { 7, 9 }, { 9, 7 }, { 129, 8 }, { 127, 257 }, { 513, 128 }
    };
    EACH(n, lengths)
    for (int shift = 0; shift < 2; shift++) {
        struct made *m = malloc(sizeof *m);
        make(m, qkv_max64(n->T, n->S) + 1, 1, 2, 1, 8, false);
        const struct tokens t = { m->token + shift, m->token, n->T, n->S, false, true };
        qkv_view *v = across_view(m, &t);
        for (int64_t h = 0; h < 2; h++) check_head(&t, v, h);
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
        CASE(statistics_of_cross_attention_follow_their_formulas),
        CASE(a_row_of_nan_is_left_out),
    };
    return cmocka_run_group_tests(cases, NULL, sweep);
}
