// SPDX-License-Identifier: MIT
// test_net_gru.c: compares the GRU encoder-decoder with additive attention with PyTorch, single
// steps with the whole run, and checks its laws.
#include "base/faults.h"
#include "model/gru/golden_gru_attention.h"
#include "layer/differences.h"
#include "model/params/trainable.h"
#include <stdlib.h>

static const int64_t from[] = { 0, 4, 5, 7 }, to[] = { 0, 2, 6, 7 };
static const int32_t source[] = { 1, 5, 2, 6, 4, 6, 3 };
static const int32_t given[] = { 0, 3, 0, 2, 5, 1, 0 }, wanted[] = { 3, 4, 2, 5, 1, 6, 2 };
static const struct qkv_net_batch batch = { .objective = QKV_OBJECTIVE_SEQ2SEQ,
                                            .in = { 3, to, given, NULL },
                                            .source = { 3, from, source, NULL },
                                            .targets = wanted };

static struct qkv_net_shape shape_of(int64_t width, int64_t inner, int64_t vocab, int64_t layers)
{
    struct qkv_net_shape s;
    CHECK(qkv_net_shape_default(&s, "gru-attention"));
    s.width = width;
    s.inner = inner;
    s.vocab = vocab;
    s.layers = layers;
    return s;
}

static qkv_net *open_net(const struct qkv_net_shape *shape, const struct qkv_net_options *o)
{
    qkv_net *n;
    qkv_error err = { 0 };
    if (qkv_net_new(&n, shape, o, 7, &err)) fail_msg("%s", err.text);
    return n;
}

// Makes the model of the golden script: two layers of each kind, weights by its formula.
static qkv_net *golden_net(const struct qkv_net_options *o)
{
    const struct qkv_net_shape shape = shape_of(4, 3, 7, 2);
    qkv_net *n = open_net(&shape, o);
    int64_t count, at = 0;
    struct qkv_parameter *p = qkv_net_parameters(n, &count);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < p[i].count; k++) p[i].value[k] = (real)golden_made(at++, 1);
    return n;
}

static double run(qkv_net *n, const struct qkv_net_batch *b, bool gradients)
{
    struct qkv_loss loss = { 0 };
    qkv_error err = { 0 };
    qkv_net_zero_gradients(n);
    if (qkv_net_run(n, &loss, b, gradients, 1, 3, 4, &err)) fail_msg("%s", err.text);
    return loss.sum;
}

TEST(two_layers_of_everything_are_those_of_pytorch)
{
    EACH_ISA(kernels)
    {
        const struct qkv_net_options o = { .smoothing = (real)0.1 };
        qkv_net *n = golden_net(&o);
        const double *golden = golden_gru_attention;
        const real loss = (real)run(n, &batch, true);
        int64_t count;
        struct qkv_parameter *p = qkv_net_parameters(n, &count);
        // up to 4 steps through 4 layers, each with a dozen roundings of numbers near 1, which may
        // double per layer: 16 x 12 x 2^4 units
        const double units = 16 * 12 * 16;
        check_golden(&loss, &golden, 1, units);
        for (int64_t i = 0; i < count; i++) check_golden(p[i].grad, &golden, p[i].count, units);
        CHECK_EQ(golden - golden_gru_attention,
                 sizeof golden_gru_attention / sizeof *golden_gru_attention);
        qkv_net_free(n);
    }
}

TEST(threads_change_no_bit_with_dropout_too)
{
    const struct qkv_net_options o = { .dropout = (real)0.2 };
    const struct qkv_net_shape shape = shape_of(20, 17, 30, 2);
    qkv_net *n = open_net(&shape, &o);
    CHECK_EQ(qkv_threads_set(1), QKV_OK);
    const double loss = run(n, &batch, true);
    int64_t count;
    struct qkv_parameter *p = qkv_net_parameters(n, &count);
    real **kept = calloc((size_t)count, sizeof *kept);
    for (int64_t i = 0; i < count; i++) {
        kept[i] = malloc((size_t)p[i].count * sizeof(real));
        memcpy(kept[i], p[i].grad, (size_t)p[i].count * sizeof(real));
    }
    for (int threads = 2; threads < 5; threads++) {
        CHECK_EQ(qkv_threads_set(threads), QKV_OK);
        CHECK(run(n, &batch, true) == loss);
        for (int64_t i = 0; i < count; i++)
            CHECK_BITS(p[i].grad, kept[i], (size_t)p[i].count * sizeof(real));
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    for (int64_t i = 0; i < count; i++) free(kept[i]);
    free(kept);
    qkv_net_free(n);
}

TEST(a_sequence_does_not_know_its_neighbours)
{
    qkv_net *n = golden_net(NULL);
    double sum = 0;
    for (int s = 0; s < 3; s++) {
        const int64_t one_from[] = { 0, from[s + 1] - from[s] },
                      one_to[] = { 0, to[s + 1] - to[s] };
        const struct qkv_net_batch b = { .objective = QKV_OBJECTIVE_SEQ2SEQ,
                                         .in = { 1, one_to, given + to[s], NULL },
                                         .source = { 1, one_from, source + from[s], NULL },
                                         .targets = wanted + to[s] };
        sum += run(n, &b, false);
    }
    CHECK_NEAR(run(n, &batch, false), sum, 0x1p-50 * sum); // sums of the same numbers
    qkv_net_free(n);
}

// Learns to copy sequences of three words; the loss of guessing is ln 8 = 2.08 per word.
TEST(it_learns_to_copy)
{
    const struct qkv_net_shape shape = shape_of(24, 16, 10, 1);
    qkv_net *n = open_net(&shape, NULL);
    enum { N = 32, WORDS = 3 };
    int64_t count, sources[N + 1], targets[N + 1];
    int32_t in[N * 4], reads[N * WORDS], out[N * 4];
    struct qkv_parameter *p = qkv_net_parameters(n, &count);
    double loss = 0;
    check_seed = 5;
    for (int step = 0; step < 250; step++) {
        for (int s = 0; s < N; s++) {
            sources[s] = s * WORDS;
            targets[s] = s * 4;
            in[s * 4] = 0;
            out[s * 4 + WORDS] = 1;
            for (int i = 0; i < WORDS; i++) {
                const int32_t word = 2 + (int32_t)((check_random() + 1) * 4);
                reads[s * WORDS + i] = in[s * 4 + 1 + i] = out[s * 4 + i] = word;
            }
        }
        sources[N] = N * WORDS;
        targets[N] = N * 4;
        const struct qkv_net_batch b = { .objective = QKV_OBJECTIVE_SEQ2SEQ,
                                         .in = { N, targets, in, NULL },
                                         .source = { N, sources, reads, NULL },
                                         .targets = out };
        loss = run(n, &b, true) / (N * 4);
        double square = 0;
        for (int64_t i = 0; i < count; i++)
            for (int64_t k = 0; k < p[i].count; k++) square += pow((double)p[i].grad[k], 2);
        const double rate = 0.5 / fmax(1, sqrt(square));
        for (int64_t i = 0; i < count; i++)
            for (int64_t k = 0; k < p[i].count; k++)
                p[i].value[k] -= (real)(rate * (double)p[i].grad[k]);
    }
    CHECK(loss < 0.3);
    qkv_net_free(n);
}

TEST(in_bf16_the_loss_is_near)
{
    const struct qkv_net_shape shape = shape_of(32, 16, 40, 2);
    const struct qkv_net_options o = { .precision = QKV_PRECISION_BF16 };
    qkv_net *n = open_net(&shape, NULL);
    const double want = run(n, &batch, true);
    qkv_net_options_set(n, &o);
    // A product of rounded operands is off by 2^-8 of its sum; a loss near ln 40 depends on a dozen
    // consecutive products.
    const double got = run(n, &batch, true);
    CHECK_NEAR(got, want, 12 * 0x1p-8 * want);
    CHECK(got != want || !qkv_precision_runs(o.precision)); // the operands are rounded
    qkv_net_free(n);
}

static qkv_status all(void *ctx, qkv_error *err)
{
    const struct qkv_net_shape *shape = ctx;
    const struct qkv_net_options o = { .dropout = (real)0.1 };
    struct qkv_loss loss = { 0 };
    qkv_net *n = NULL;
    qkv_status status = qkv_net_new(&n, shape, &o, 1, err);
    if (!status) status = qkv_net_run(n, &loss, &batch, true, 1, 0, 0, err);
    qkv_net_free(n);
    return status;
}

TEST(every_failed_allocation_is_survived)
{
    struct qkv_net_shape shape = shape_of(6, 5, 7, 2);
    shape.bos = 0;
    shape.eos = 1;
    CHECK(faults_walk(all, &shape, true) > 20);
}

TEST(what_it_is_not_made_for_is_refused)
{
    qkv_net *n = golden_net(NULL);
    struct qkv_loss loss = { 0 };
    struct qkv_net_batch b = batch;
    b.objective = QKV_OBJECTIVE_CAUSAL;
    CHECK_EQ(qkv_net_run(n, &loss, &b, true, 1, 0, 0, NULL), QKV_ERR_USAGE);
    qkv_net_free(n);
}

CHECK_MAIN(CASE(two_layers_of_everything_are_those_of_pytorch),
           CASE(threads_change_no_bit_with_dropout_too),
           CASE(a_sequence_does_not_know_its_neighbours), CASE(it_learns_to_copy),
           CASE(in_bf16_the_loss_is_near), CASE(every_failed_allocation_is_survived),
           CASE(what_it_is_not_made_for_is_refused))
