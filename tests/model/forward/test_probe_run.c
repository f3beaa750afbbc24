// SPDX-License-Identifier: MIT
// test_probe_run.c: compares the statistics that an observer receives with sums over the dense
// weights of the same layer, for small random models of every family and precision, with padding
// and without.
//
// Both are computed from the same scores; a probe's weight is exp(score - lse), where lse and the
// exponent are rounded: a few units of |score| and |lse|. bf16 products use another exp
// (docs/numerics.md).
#include "model/model_internal.h"
#include "model/tiny.h"

enum { ROWS = 3 };
static const int64_t some_rows[ROWS] = { 1, 14, 17 };

static double off_of(const struct qkv_layer_output *s, double w, double lse, bool halves)
{
    const double far = 64 + 8 * fabs(lse) + 8 * fabs(log(w)) + (double)s->E;
    return w * (0x1p-24 * far + (halves ? 0x1p-10 : 0));
}

static void near(const char *what, double found, double want, double off)
{
    if (!(fabs(found - want) <= off + 1e-30))
        fail_msg("%s: %.9g, expected %.9g within %.3g", what, found, want, off);
}

struct observed {
    bool halves;
    int calls, parts[4];
};

// Returns the sequence that contains row r; -1: none.
static int64_t sequence_of(const int64_t *offsets, int64_t n, int64_t r)
{
    for (int64_t i = 0; i < n; i++)
        if (offsets[i] <= r && r < offsets[i + 1]) return i;
    return -1;
}

// Checks the sums over rows of one head.
static void check_head(const struct observed *w, const struct qkv_layer_output *s, int64_t h)
{
    const struct qkv_probe *p = s->probe;
    int64_t keys = 0;
    for (int64_t i = 0; i < 3; i++) keys = qkv_max64(keys, s->k_offsets[i + 1] - s->k_offsets[i]);
    double *received = calloc((size_t)s->S * 2, sizeof *received), *off = received + s->S;
    int64_t full = 0;
    for (int64_t r = 0; r < s->R; r++) {
        const int64_t at = h * s->R + r, item = sequence_of(s->q_offsets, 3, r);
        const float *row = s->weights + at * keys;
        const double lse = (double)s->lse[at];
        double entropy = 0, entropy_off = 0, distance = 0, distance_off = 0, last = INFINITY;
        for (int64_t j = 0; j < keys; j++) {
            const double x = (double)row[j];
            const int64_t apart = llabs(j - (r - s->q_offsets[item]));
            if (full < p->rows && p->row[full] == r)
                near("row", (double)p->row_weights[(h * p->rows + full) * s->S + j], x,
                     x > 0 ? off_of(s, x, lse, w->halves) : 0);
            if (x <= 0) continue;
            const double o = off_of(s, x, lse, w->halves);
            entropy -= x * log(x);
            entropy_off += o * (2 + fabs(log(x)));
            distance += x * (double)apart;
            distance_off += o * (double)(apart + 1);
            received[s->k_offsets[item] + j] += x;
            off[s->k_offsets[item] + j] += o;
        }
        if (full < p->rows && p->row[full] == r) full++;
        near("entropy", (double)p->entropy[at], entropy, entropy_off + 1e-6);
        near("distance", (double)p->distance[at], distance, distance_off + 1e-6 * distance);
        for (int64_t n = 0; n < p->top_k; n++) {
            const int32_t key = p->top_key[at * p->top_k + n];
            const double x = (double)p->top_weight[at * p->top_k + n];
            CHECK(x <= last);
            last = x;
            if (key < 0) CHECK(x == 0);
            if (key >= 0)
                near("top", x, (double)row[key], off_of(s, (double)row[key], lse, w->halves));
        }
    }
    CHECK_EQ(full, p->rows);
    for (int64_t j = 0; j < s->S; j++)
        near("received", (double)p->received[h * s->S + j], received[j], off[j] + 1e-5);
    free(received);
}

static int observe_layer(void *user, const struct qkv_layer_output *s)
{
    struct observed *w = user;
    w->calls++;
    if (s->layer < 0) {
        CHECK(!s->probe);
        return 0;
    }
    CHECK(s->probe != NULL && s->q && s->lse && s->weights);
    w->parts[s->part]++;
    for (int64_t h = 0; h < s->H; h++) {
        double sum = 0, offsets = 0, mean = 0;
        check_head(w, s, h);
        for (int64_t j = 0; j < s->S; j++) sum += (double)s->probe->received[h * s->S + j];
        for (int64_t j = 0; j < 7; j++) offsets += (double)s->probe->offsets[h * 7 + j];
        for (int64_t j = 0; j < 16; j++) mean += (double)s->probe->tile_mean[h * 16 + j];
        near("offsets", offsets, sum, 1e-5 * sum);
        CHECK(mean > 0);
    }
    return 0;
}

static const struct qkv_probe_request everything = { .top_k = 4,
                                                     .rows = ROWS,
                                                     .row = some_rows,
                                                     .received = true,
                                                     .entropy = true,
                                                     .distance = true,
                                                     .offsets = true,
                                                     .reach = 3,
                                                     .side = 4 };

static void run(const struct tiny *t, float *hidden, const struct qkv_model_input *in,
                const struct qkv_observer *observer)
{
    qkv_error err = { 0 };
    if (qkv_model_run(t->model, hidden, in, observer, &err)) fail_msg("%s", err.text);
}

TEST(probes_of_every_layer_are_what_its_weights_add_up_to)
{
    EACH_TINY_PRECISION(name, p)
    {
        struct tiny t = open_tiny(*name, p);
        struct observed w = { .halves = p == QKV_PRECISION_BF16 };
        struct qkv_observer observer = { observe_layer, &w, true, everything, false, false };
        const struct qkv_model_input *in = tiny_input(&t);
        const size_t n = (size_t)(t.R * t.info.width);
        float *hidden = malloc(2 * n * sizeof *hidden);
        run(&t, hidden, in, NULL);
        run(&t, hidden + n, in, &observer);
        CHECK_BITS(hidden, hidden + n, n * sizeof *hidden);
        const int once = w.calls;
        if (t.source.ids) CHECK(w.parts[QKV_PART_CROSS] > 0 && w.parts[QKV_PART_ENCODER] > 0);
        struct tiny_padded own, source;
        tiny_pad(&own, &t.in);
        if (t.source.ids) {
            tiny_pad(&source, &t.source);
            own.in.source = &source.in;
        }
        run(&t, NULL, &own.in, &observer);
        CHECK_EQ(w.calls, 2 * once);
        free(hidden);
        close_tiny(&t);
    }
}

// Results of a run, for comparison with a second one.
struct kept {
    bool again, skip_qkv;
    int64_t at;
    float numbers[1 << 14];
};
static int keep(void *user, const struct qkv_layer_output *s)
{
    struct kept *k = user;
    if (s->layer < 0) return 0;
    CHECK_EQ(s->q == NULL && s->k == NULL && s->v == NULL && s->lse == NULL, k->skip_qkv);
    const int64_t n = s->H * s->R * s->probe->top_k;
    CHECK(k->at + n <= 1 << 14);
    if (k->again) CHECK_BITS(k->numbers + k->at, s->probe->top_weight, (size_t)n * sizeof(float));
    memcpy(k->numbers + k->at, s->probe->top_weight, (size_t)n * sizeof(float));
    k->at += n;
    return 0;
}

TEST(what_nobody_wants_is_not_kept)
{
    static struct kept k;
    EACH_TINY(name)
    {
        struct tiny t = open_tiny(*name, QKV_PRECISION_F32);
        struct qkv_observer observer = { keep, &k, false, { .top_k = 2 }, false, false };
        k = (struct kept){ 0 };
        run(&t, NULL, tiny_input(&t), &observer);
        k.again = observer.skip_qkv = k.skip_qkv = true;
        k.at = 0;
        run(&t, NULL, tiny_input(&t), &observer);
        close_tiny(&t);
    }
}

TEST(a_request_that_cannot_be_met_is_refused)
{
    static const int64_t falling[] = { 3, 3 };
    struct tiny t = open_tiny("bert", QKV_PRECISION_F32);
    struct kept k = { 0 };
    const struct qkv_probe_request requests[] = { { .top_k = -1 },
                                                  { .rows = 2, .row = falling },
                                                  { .rows = 2 },
                                                  { .offsets = true, .reach = -1 },
                                                  { .side = 1 << 20 } };
    EACH(w, requests)
    {
        const struct qkv_observer observer = { keep, &k, false, *w, false, false };
        qkv_error err = { 0 };
        CHECK_EQ(qkv_model_run(t.model, NULL, tiny_input(&t), &observer, &err), QKV_ERR_USAGE);
        CHECK(strstr(err.text, "attention statistics") != NULL);
    }
    close_tiny(&t);
}

CHECK_MAIN(CASE(probes_of_every_layer_are_what_its_weights_add_up_to),
           CASE(what_nobody_wants_is_not_kept), CASE(a_request_that_cannot_be_met_is_refused))
