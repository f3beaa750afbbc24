// SPDX-License-Identifier: MIT
// test_families.c: small random models of every family against what transformers computed for them:
// every hidden state and every attention matrix.  Then laws, in every precision that runs here: neighbours,
// padding, threads change no bit.
#include "golden.h"
#include "model/model.h"
#include <dirent.h>
#include <unistd.h>

// Every folder of tests/golden that holds a model and its results, by name.
static char names[32][64];
static int tiny_count;
static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}
static void find_names(void)
{
    char path[512];
    DIR *d = opendir(GOLDEN);
    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        snprintf(path, sizeof path, GOLDEN "%s/golden.safetensors", e->d_name);
        if (access(path, R_OK) != 0) continue;
        CHECK(tiny_count < 32 && strlen(e->d_name) < sizeof names[0]);
        strcpy(names[tiny_count++], e->d_name);
    }
    closedir(d);
    qsort(names, (size_t)tiny_count, sizeof names[0], by_name);
    CHECK(tiny_count >= 9);
}
#define EACH_TINY(name)                                                                            \
    if (!tiny_count) find_names();                                                                 \
    for (char(*name)[64] = names; name < names + tiny_count; name++)

// The same with every precision p that this CPU's table computes.
#define EACH_TINY_PRECISION(name, p)                                                               \
    EACH_TINY(name)                                                                                \
    for (qkv_precision p = QKV_PRECISION_F32; p <= QKV_PRECISION_INT8; p++)                        \
        if (qkv_precision_runs(p))

struct tiny {
    qkv_model *model;
    qkv_tensors *golden;
    struct qkv_model_input in;
    int64_t R;
};

static struct tiny open_tiny(const char *name, qkv_precision p)
{
    const struct qkv_model_options o = { .precision = p };
    struct tiny t = { 0 };
    char path[256];
    qkv_error err = { 0 };
    snprintf(path, sizeof path, GOLDEN "%s", name);
    if (qkv_model_open(&t.model, path, &o, &err)) fail_msg("%s: %s %s", name, err.path, err.text);
    snprintf(path, sizeof path, GOLDEN "%s/golden.safetensors", name);
    if (qkv_tensors_open(&t.golden, path, NULL, &err)) fail_msg("%s: %s", name, err.text);
    t.in.offsets = golden_get(t.golden, NULL, "offsets", QKV_I64, 4);
    t.in.sequences = 3;
    t.R = t.in.offsets[3];
    t.in.ids = golden_get(t.golden, NULL, "ids", QKV_I32, t.R);
    t.in.types = golden_get(t.golden, NULL, "types", QKV_I32, t.R);
    return t;
}

static void close_tiny(struct tiny *t)
{
    qkv_model_close(t->model);
    qkv_tensors_close(t->golden);
}

TEST(every_number_is_the_reference_s)
{
    EACH_TINY(name)
    {
        struct tiny t = open_tiny(*name, QKV_PRECISION_F32);
        struct golden_seen k = golden_run(t.model, &t.in);
        const int64_t hidden = (k.info.layers + 1) * t.R * k.D;
        const int64_t weights = k.info.layers * k.info.heads * t.R * k.S;
        const float *h = golden_get(t.golden, NULL, "hidden", QKV_F32, hidden);
        const float *w = golden_get(t.golden, NULL, "attention", QKV_F32, weights);
        printf("%-14s hidden %.2g, attention %.2g at most from the reference\n", *name,
               golden_worst(k.hidden, h, hidden), golden_worst(k.weights, w, weights));
        golden_check_full(*name, k.hidden, h, hidden, golden_hidden_tolerance);
        golden_check_full(*name, k.weights, w, weights, golden_attention_tolerance);
        golden_free(&k);
        close_tiny(&t);
    }
}

// Root mean square of a - b over that of b.
static double relative_error(const float *a, const float *b, int64_t n)
{
    double off = 0, all = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)a[i] - (double)b[i];
        off += d * d;
        all += (double)b[i] * (double)b[i];
    }
    return sqrt(off / all);
}

// A number on its way through a layer is rounded at most 12 times to the precision's own type (what four
// products read and their weights, q or k or v, the power of a score, heads, inner rows), each time by u of
// its size at most; so relative to the stream, which is normed, a layer adds 12 u.  8 bits: rows and weights of
// four products are rounded to steps of their largest number / 127, which is sqrt(K) times a row's mean size
// at most.
TEST(every_precision_stays_as_near_as_its_roundings)
{
    static const struct {
        qkv_precision p;
        double u;
    } rows[] = { { QKV_PRECISION_F32, 0x1p-24 },      { QKV_PRECISION_F32_STRICT, 0x1p-24 },
                 { QKV_PRECISION_F32_FAST, 0x1p-16 }, { QKV_PRECISION_BF16, 0x1p-9 },
                 { QKV_PRECISION_F16, 0x1p-12 },      { QKV_PRECISION_INT8, 0 } };
    double worst[QKV_PRECISIONS] = { 0 };
    EACH_TINY(name)
    EACH(r, rows)
    {
        if (!qkv_precision_runs(r->p)) continue;
        struct tiny t = open_tiny(*name, r->p);
        struct golden_seen k = golden_run(t.model, &t.in);
        const double most = sqrt((double)qkv_max64(k.D, k.info.inner));
        const double layer = r->p == QKV_PRECISION_INT8 ? 8 * most / 254 : 12 * r->u;
        const int64_t hidden = (k.info.layers + 1) * t.R * k.D;
        const float *h = golden_get(t.golden, NULL, "hidden", QKV_F32, hidden);
        const double error = relative_error(k.last, h + hidden - t.R * k.D, t.R * k.D);
        // the reference has roundings of floats of its own, in sums of up to max(D, M) terms
        const double reference = (double)k.info.layers * 12 * most * 0x1p-24;
        if (!(error <= (double)k.info.layers * layer + reference))
            fail_msg("%s, %s: relative error %.3g, expected at most %.3g", *name,
                     qkv_precision_name(r->p), error, (double)k.info.layers * layer + reference);
        worst[r->p] = fmax(worst[r->p], error);
        golden_free(&k);
        close_tiny(&t);
    }
    EACH(r, rows)
    if (qkv_precision_runs(r->p))
        printf("%-10s relative error %.2g at most\n", qkv_precision_name(r->p), worst[r->p]);
}

TEST(a_sequence_alone_has_the_bits_it_has_beside_others)
{
    EACH_TINY_PRECISION(name, p)
    {
        struct tiny t = open_tiny(*name, p);
        struct golden_seen all = golden_run(t.model, &t.in);
        for (int64_t i = 0; i < 3; i++) {
            const int64_t at = t.in.offsets[i], offsets[2] = { 0, t.in.offsets[i + 1] - at };
            struct golden_seen one =
                golden_run(t.model, &(struct qkv_model_input){ .sequences = 1,
                                                               .offsets = offsets,
                                                               .ids = t.in.ids + at,
                                                               .types = t.in.types + at });
            for (int64_t l = 0; l <= one.info.layers; l++)
                CHECK_BITS(one.hidden + l * one.R * one.D, all.hidden + (l * all.R + at) * all.D,
                           (size_t)(one.R * one.D) * sizeof(float));
            golden_free(&one);
        }
        golden_free(&all);
        close_tiny(&t);
    }
}

// Each sequence filled up to 13 with a token that must not matter, even where it stands for no number.
TEST(padding_changes_no_bit_and_its_rows_are_zero)
{
    enum { LONG = 13 };
    EACH_TINY_PRECISION(name, p)
    {
        struct tiny t = open_tiny(*name, p);
        struct golden_seen plain = golden_run(t.model, &t.in);
        int32_t ids[3 * LONG], types[3 * LONG];
        int64_t offsets[4] = { 0, LONG, 2 * LONG, 3 * LONG }, lengths[3];
        for (int i = 0; i < 3 * LONG; i++) ids[i] = types[i] = -1; // never looked at
        for (int64_t i = 0; i < 3; i++) {
            lengths[i] = t.in.offsets[i + 1] - t.in.offsets[i];
            for (int64_t j = 0; j < lengths[i]; j++) {
                ids[i * LONG + j] = t.in.ids[t.in.offsets[i] + j];
                types[i * LONG + j] = t.in.types[t.in.offsets[i] + j];
            }
        }
        struct golden_seen padded =
            golden_run(t.model, &(struct qkv_model_input){ .sequences = 3,
                                                           .offsets = offsets,
                                                           .lengths = lengths,
                                                           .ids = ids,
                                                           .types = types });
        const size_t row = (size_t)plain.D * sizeof(float);
        for (int64_t l = 0; l <= plain.info.layers; l++)
            for (int64_t i = 0; i < 3; i++)
                for (int64_t j = 0; j < LONG; j++) {
                    const float *got = padded.hidden + (l * padded.R + i * LONG + j) * plain.D;
                    const float *want =
                        plain.hidden + (l * plain.R + t.in.offsets[i] + j) * plain.D;
                    if (j < lengths[i])
                        CHECK_BITS(got, want, row);
                    else
                        for (int64_t d = 0; d < plain.D; d++) CHECK(got[d] == 0);
                }
        for (int64_t l = 0; l < plain.info.layers; l++)
            for (int64_t h = 0; h < plain.info.heads; h++)
                for (int64_t i = 0; i < 3; i++)
                    for (int64_t j = 0; j < LONG; j++) {
                        const int64_t head = l * plain.info.heads + h;
                        const float *got = padded.weights + (head * padded.R + i * LONG + j) * LONG;
                        const float *want =
                            plain.weights + (head * plain.R + t.in.offsets[i] + j) * plain.S;
                        if (j < lengths[i])
                            CHECK_BITS(got, want, LONG * sizeof(float));
                        else
                            for (int64_t c = 0; c < LONG; c++) CHECK(got[c] == 0);
                    }
        golden_free(&plain);
        golden_free(&padded);
        close_tiny(&t);
    }
}

TEST(any_number_of_threads_gives_the_same_bits)
{
    EACH_TINY_PRECISION(name, p)
    {
        struct tiny t = open_tiny(*name, p);
        CHECK_EQ(qkv_threads_set(1), QKV_OK);
        struct golden_seen one = golden_run(t.model, &t.in);
        for (int n = 2; n <= 8; n++) {
            CHECK_EQ(qkv_threads_set(n), QKV_OK);
            struct golden_seen many = golden_run(t.model, &t.in);
            CHECK_BITS(one.hidden, many.hidden,
                       (size_t)((one.info.layers + 1) * one.R * one.D) * sizeof(float));
            golden_free(&many);
        }
        CHECK_EQ(qkv_threads_set(0), QKV_OK);
        golden_free(&one);
        close_tiny(&t);
    }
}

// weights = exp(scale q.k - lse): what a picture computes its rows from.
struct rebuilt {
    const int64_t *offsets;
    int64_t sequences, layers;
    double less; // what a score may lack of the sum of its products' sizes
    double off;  // weights of the row at work
    double worst;
};
static int rebuild(void *user, const struct qkv_layer_seen *s)
{
    struct rebuilt *b = user;
    if (s->layer < 0) {
        CHECK(!s->q && !s->k && !s->v && !s->lse && !s->weights);
        return 0;
    }
    b->layers++;
    int64_t S = 0;
    for (int64_t i = 0; i < b->sequences; i++)
        if (b->offsets[i + 1] - b->offsets[i] > S) S = b->offsets[i + 1] - b->offsets[i];
    for (int64_t h = 0; h < s->H; h++)
        for (int64_t i = 0; i < b->sequences; i++)
            for (int64_t r = b->offsets[i]; r < b->offsets[i + 1]; r++) {
                double most = 0; // of any key of the row: in lse
                const int64_t end = s->causal ? r + 1 : b->offsets[i + 1];
                for (int64_t c = end; c < b->offsets[i + 1]; c++)
                    CHECK(s->weights[(h * s->R + r) * S + c - b->offsets[i]] == 0);
                for (int64_t c = b->offsets[i]; c < end; c++) {
                    double dot = 0, size = 0;
                    for (int64_t e = 0; e < s->E; e++) {
                        const double x = (double)s->q[(r * s->H + h) * s->E + e] *
                                         (double)s->k[(c * s->G + h / (s->H / s->G)) * s->E + e];
                        dot += x;
                        size += fabs(x);
                    }
                    most = fmax(most, size);
                    const double p = exp((double)s->scale * dot - (double)s->lse[h * s->R + r]);
                    const double w = (double)s->weights[(h * s->R + r) * S + c - b->offsets[i]];
                    b->off = fmax(b->off, fabs(p - w));
                }
                // A score off by d, and the row's lse by as much: e^2d times a weight of at most 1.
                const double d = b->less * fabs((double)s->scale) * most;
                b->worst = fmax(b->worst, b->off - expm1(2 * d));
                b->off = 0;
            }
    return 0;
}
TEST(weights_follow_from_q_k_and_lse)
{
    EACH_TINY_PRECISION(name, p)
    {
        struct tiny t = open_tiny(*name, p);
        // Three products of parts: docs/numerics.md, "AMX".
        const double less = p == QKV_PRECISION_F32_FAST ? 0x1p-15 : 0;
        struct rebuilt b = { .offsets = t.in.offsets, .sequences = t.in.sequences, .less = less };
        const struct qkv_watch watch = { .layer = rebuild, .user = &b, .weights = true };
        qkv_error err = { 0 };
        CHECK_EQ(qkv_model_run(t.model, NULL, &t.in, &watch, &err), QKV_OK);
        CHECK_EQ(b.layers, qkv_model_info(t.model).layers);
        CHECK_NEAR(b.worst, 0, golden_attention_tolerance);
        close_tiny(&t);
    }
}

static int stop_at_layer_0(void *user, const struct qkv_layer_seen *s)
{
    ++*(int *)user;
    return s->layer == 0;
}
TEST(a_watcher_can_stop_the_run)
{
    struct tiny t = open_tiny("bert", QKV_PRECISION_F32);
    int calls = 0;
    const struct qkv_watch watch = { .layer = stop_at_layer_0, .user = &calls };
    qkv_error err = { 0 };
    CHECK_EQ(qkv_model_run(t.model, NULL, &t.in, &watch, &err), QKV_ERR_INTERRUPTED);
    CHECK_EQ(err.status, QKV_ERR_INTERRUPTED);
    CHECK_EQ(calls, 2);
    close_tiny(&t);
}

TEST(what_the_model_is_told)
{
    struct tiny t = open_tiny("roberta", QKV_PRECISION_F32);
    const struct qkv_model_info info = qkv_model_info(t.model);
    CHECK_TEXT(info.family, "roberta");
    CHECK_TEXT(info.name, "roberta");
    CHECK_EQ(info.layers, 2);
    CHECK_EQ(info.heads, 3);
    CHECK_EQ(info.kv_heads, 3);
    CHECK_EQ(info.width, 24);
    CHECK_EQ(info.head_width, 8);
    CHECK_EQ(info.inner, 40);
    CHECK_EQ(info.vocab, 40);
    CHECK_EQ(info.positions, 16); // 18 rows, 2 of them up to the padding token
    CHECK_EQ(info.types, 1);
    CHECK_EQ(info.tensors, 5 + 2 * 16 + 2);
    CHECK_EQ(info.unused_tensors, 2); // the pooler
    CHECK_NEAR(info.flops_token, 2.0 * 2 * (4 * 24 * 24 + 2 * 24 * 40), 0);
    close_tiny(&t);
}

TEST(wrong_tokens_are_refused_with_the_numbers)
{
    struct tiny t = open_tiny("bert", QKV_PRECISION_F32);
    const int32_t good[14] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14 };
    const int32_t bad_id[2] = { 3, 40 }, below[1] = { -1 }, bad_type[2] = { 0, 2 };
    const struct {
        int64_t offsets[3], lengths[2];
        const int32_t *ids, *types;
        bool padded;
        const char *text;
    } rows[] = {
        { { 0, 2, 2 },
          { 0, 0 },
          bad_id,
          NULL,
          false,
          "no such token, expected an id below 40, found 40" },
        { { 0, 1, 1 },
          { 0, 0 },
          below,
          NULL,
          false,
          "no such token, expected an id below 40, found -1" },
        { { 0, 2, 2 },
          { 0, 0 },
          good,
          bad_type,
          false,
          "no such token type, expected below 2, found 2" },
        { { 0, 14, 14 },
          { 0, 0 },
          good,
          NULL,
          false,
          "sequence too long for the model, expected at most 13 tokens, found 14" },
        { { 0, 3, 2 },
          { 0, 0 },
          good,
          NULL,
          false,
          "offsets of sequences, expected not to decrease and at most 2147483647, found 2" },
        { { 1, 3, 3 },
          { 0, 0 },
          good,
          NULL,
          false,
          "offsets of sequences, expected to start with 0" },
        { { 0, 3, 5 },
          { 3, 3 },
          good,
          NULL,
          true,
          "length of sequence 1, expected 0 .. 2, found 3" },
    };
    EACH(r, rows)
    {
        qkv_error err = { 0 };
        float hidden[14 * 35];
        const struct qkv_model_input in = { .sequences = 2,
                                            .offsets = r->offsets,
                                            .ids = r->ids,
                                            .types = r->types,
                                            .lengths = r->padded ? r->lengths : NULL };
        CHECK_EQ(qkv_model_run(t.model, hidden, &in, NULL, &err), QKV_ERR_USAGE);
        CHECK_TEXT(err.text, r->text);
    }
    close_tiny(&t);
}

TEST(no_tokens_are_no_work)
{
    struct tiny t = open_tiny("bert", QKV_PRECISION_F32);
    const int64_t offsets[3] = { 0, 0, 0 };
    qkv_error err = { 0 };
    const int64_t two[2] = { 0, 2 }, none[1] = { 0 };
    const int32_t ids[2] = { -1, -1 };
    float hidden[2 * 35];
    for (int i = 0; i < 2 * 35; i++) hidden[i] = 1;
    const struct qkv_model_input padding = {
        .sequences = 1, .offsets = two, .lengths = none, .ids = ids
    };
    CHECK_EQ(qkv_model_run(t.model, hidden, &padding, NULL, &err), QKV_OK);
    for (int i = 0; i < 2 * 35; i++) CHECK(hidden[i] == 0);
    CHECK_EQ(
        qkv_model_run(t.model, NULL, &(struct qkv_model_input){ .offsets = offsets }, NULL, &err),
        QKV_OK);
    CHECK_EQ(qkv_model_run(t.model, NULL,
                           &(struct qkv_model_input){ .sequences = 2, .offsets = offsets }, NULL,
                           &err),
             QKV_OK);
    close_tiny(&t);
}

CHECK_MAIN(CASE(every_number_is_the_reference_s),
           CASE(every_precision_stays_as_near_as_its_roundings),
           CASE(a_sequence_alone_has_the_bits_it_has_beside_others),
           CASE(padding_changes_no_bit_and_its_rows_are_zero),
           CASE(any_number_of_threads_gives_the_same_bits), CASE(weights_follow_from_q_k_and_lse),
           CASE(a_watcher_can_stop_the_run), CASE(what_the_model_is_told),
           CASE(wrong_tokens_are_refused_with_the_numbers), CASE(no_tokens_are_no_work))
