// SPDX-License-Identifier: MIT
// test_net_decode.c: models that learn write: step by step as by whole runs, beams, weights of
// attention.
#include "net_golden.h"

// The log-probability of `target` behind a text, by a run over all of it.
static double log_probability(struct net_golden *g, const int32_t *text, int64_t n, int32_t target)
{
    int32_t targets[64];
    const int64_t offsets[2] = { 0, n };
    struct qkv_net_batch b = g->batch;
    struct qkv_loss loss = { 0 };
    for (int64_t i = 0; i < n; i++) targets[i] = i + 1 == n ? target : -1;
    b.in = (struct qkv_sequences){ 1, offsets, text, NULL };
    b.targets = targets;
    CHECK_EQ(qkv_net_run(g->net, &loss, &b, false, 1, 0, 0, NULL), QKV_OK);
    return -loss.sum;
}

// Greedy decoding, by whole runs: what a step with a cache must come to as well.
static int64_t greedy(struct net_golden *g, int32_t *text, int64_t n, int64_t most)
{
    const int64_t first = n;
    while (n - first < most) {
        int32_t best = 0;
        double top = -INFINITY;
        for (int32_t v = 0; v < (int32_t)g->net->shape.vocab; v++) {
            const double p = log_probability(g, text, n, v);
            if (p > top) {
                top = p;
                best = v;
            }
        }
        if (best == g->net->shape.eos) break;
        text[n++] = best;
    }
    return n - first;
}

TEST(a_step_at_a_time_decodes_what_whole_runs_decode)
{
    enum { MOST = 6 };
    static const char *const names[] = { "net-gpt2", "net-llama", "net-marian" };
    for (int i = 0; i < 3; i++) {
        const bool pair = i == 2;
        struct net_golden g =
            net_golden_open(names[i], pair ? QKV_OBJECTIVE_SEQ2SEQ : QKV_OBJECTIVE_CAUSAL, NULL);
        const struct qkv_sequences source = pair ? g.batch.source : g.batch.in;
        int32_t ids[4 * MOST];
        int64_t lengths[4];
        qkv_error err = { 0 };
        if (pair) g.batch.in = source;
        if (qkv_net_decode(g.net, ids, lengths, pair ? MOST : 3, 1, 1, &source, &err))
            fail_msg("%s: %s", names[i], err.text);
        for (int64_t s = 0; s < source.n; s++) {
            int32_t text[64] = { g.net->shape.bos };
            int64_t n = 1;
            const int64_t one[2] = { 0, source.offsets[s + 1] - source.offsets[s] };
            const struct qkv_sequences own = { 1, one, source.ids + source.offsets[s], NULL };
            if (pair) {
                g.batch.source = own;
            } else {
                n = one[1];
                memcpy(text, own.ids, (size_t)n * sizeof *text);
            }
            const int64_t most = pair ? MOST : 3, count = greedy(&g, text, n, most);
            CHECK_EQ(lengths[s], count);
            CHECK_BITS(ids + s * most, text + n, (size_t)count * sizeof *text);
        }
        net_golden_close(&g);
    }
}

TEST(a_wider_beam_finds_no_less_likely_text)
{
    enum { MOST = 6 };
    struct net_golden g = net_golden_open("net-marian", QKV_OBJECTIVE_SEQ2SEQ, NULL);
    const struct qkv_sequences source = g.batch.source;
    double score[2][3];
    for (int k = 0; k < 2; k++) {
        int32_t ids[3 * MOST];
        int64_t lengths[3];
        // Without a penalty the score is the sum of log-probabilities.
        CHECK_EQ(qkv_net_decode(g.net, ids, lengths, MOST, k ? 30 : 1, 0, &source, NULL), QKV_OK);
        for (int64_t s = 0; s < source.n; s++) {
            int32_t text[64] = { g.net->shape.bos };
            const int64_t one[2] = { 0, source.offsets[s + 1] - source.offsets[s] };
            g.batch.source = (struct qkv_sequences){ 1, one, source.ids + source.offsets[s], NULL };
            score[k][s] = 0;
            for (int64_t t = 0; t <= lengths[s] && t < MOST; t++) {
                const int32_t next = t < lengths[s] ? ids[s * MOST + t] : g.net->shape.eos;
                score[k][s] += log_probability(&g, text, t + 1, next);
                text[t + 1] = next;
            }
        }
    }
    for (int s = 0; s < 3; s++) CHECK(score[1][s] >= score[0][s] - 1e-4);
    net_golden_close(&g);
}

TEST(weights_of_attention_sum_to_one_and_see_no_later_token)
{
    enum { L = 2, H = 3, T = 7 };
    struct net_golden g = net_golden_open("net-gpt2", QKV_OBJECTIVE_CAUSAL, NULL);
    const int64_t offsets[2] = { 0, T };
    const struct qkv_sequences in = { 1, offsets, g.batch.in.ids, NULL };
    static real w[L * H * T * T];
    CHECK_EQ(qkv_net_attention(g.net, w, &in, NULL), QKV_OK);
    for (int i = 0; i < L * H * T; i++) {
        double sum = 0;
        for (int j = 0; j < T; j++) {
            sum += (double)w[i * T + j];
            if (j > i % T) CHECK(w[i * T + j] == 0);
        }
        CHECK_NEAR(sum, 1, 1e-5);
    }
    net_golden_close(&g);
    g = net_golden_open("net-marian", QKV_OBJECTIVE_SEQ2SEQ, NULL);
    const int64_t source_offsets[2] = { 0, 5 };
    const struct qkv_sequences source = { 1, source_offsets, g.batch.source.ids, NULL };
    const struct qkv_sequences written = { 1, offsets, g.batch.in.ids, NULL };
    CHECK_EQ(qkv_net_alignment(g.net, w, -1, &written, &source, NULL), QKV_OK);
    for (int i = 0; i < H * T; i++) {
        double sum = 0;
        for (int j = 0; j < 5; j++) sum += (double)w[i * 5 + j];
        CHECK_NEAR(sum, 1, 1e-5);
    }
    CHECK_EQ(qkv_net_alignment(g.net, w, 1, &written, &source, NULL), QKV_ERR_USAGE);
    net_golden_close(&g);
}

CHECK_MAIN(CASE(a_step_at_a_time_decodes_what_whole_runs_decode),
           CASE(a_wider_beam_finds_no_less_likely_text),
           CASE(weights_of_attention_sum_to_one_and_see_no_later_token))
