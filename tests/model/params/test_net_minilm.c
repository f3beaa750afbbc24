// SPDX-License-Identifier: MIT
// test_net_minilm.c: opens a real model for fine-tuning: its vectors, one step of contrastive
// training, saving and running again. Skipped if models/all-MiniLM-L6-v2 is missing.
#include "model/folder.h"
#include "model/params/trainable.h"

#define MINILM "models/all-MiniLM-L6-v2"
enum { D = 384, N = 4, ROWS = 20 };
static const int64_t offsets[N + 1] = { 0, 5, 9, 16, ROWS };
static const int32_t ids[ROWS] = { 101,  7592, 2088, 999,  102,  101, 3407, 2154,  102,  101,
                                   1996, 4248, 2829, 4419, 1012, 102, 101,  14021, 3712, 102 };
static const struct qkv_sequences in = { N, offsets, ids, NULL };

static void pooled(double *v, const char *dir)
{
    static float hidden[ROWS * D];
    qkv_model *m = NULL;
    qkv_error err = { 0 };
    const struct qkv_model_input run = { .sequences = N, .offsets = offsets, .ids = ids };
    if (qkv_model_open(&m, dir, NULL, &err)) fail_msg("%s %s", err.path, err.text);
    CHECK_EQ(qkv_model_run(m, hidden, &run, NULL, &err), QKV_OK);
    qkv_model_close(m);
    for (int s = 0; s < N; s++) {
        double square = 0, *mean = v + s * D;
        for (int d = 0; d < D; d++) {
            mean[d] = 0;
            for (int64_t r = offsets[s]; r < offsets[s + 1]; r++)
                mean[d] += (double)hidden[r * D + d];
            square += mean[d] * mean[d];
        }
        for (int d = 0; d < D; d++) mean[d] /= sqrt(square);
    }
}

// Returns the contrastive loss of two pairs of vectors: the mean of both directions, summed over
// pairs; temperature .05.
static double contrastive(const double *v)
{
    double score[2][2] = { { 0 } }, sum = 0;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++)
            for (int d = 0; d < D; d++)
                score[i][k] += v[2 * i * D + d] * v[(2 * k + 1) * D + d] / .05;
    for (int i = 0; i < 2; i++)
        sum += log1p(exp(score[i][1 - i] - score[i][i])) / 2 +
               log1p(exp(score[1 - i][i] - score[i][i])) / 2;
    return sum;
}

TEST(minilm_is_fine_tuned_and_saved)
{
    static double v[N * D];
    qkv_net *n = NULL;
    qkv_error err = { 0 };
    struct qkv_loss loss = { 0 }, after = { 0 };
    int64_t count;
    const struct qkv_net_options o = { 0 };
    const struct qkv_net_batch b = { .objective = QKV_OBJECTIVE_CONTRASTIVE, .in = in };
    if (qkv_net_open(&n, MINILM, &o, 0, 1, &err)) fail_msg("%s %s", err.path, err.text);
    CHECK_EQ(n->carried_count, 2); // the tensors of the pooler, which the vectors do not need
    CHECK_EQ(qkv_net_run(n, &loss, &b, true, (real).5, 0, 0, &err), QKV_OK);
    pooled(v, MINILM);
    // Two orders of summation in f32, through six layers: cosines differ by 1e-5, scores by twenty
    // times that.
    CHECK_NEAR(loss.sum, contrastive(v), 4e-4);
    struct qkv_parameter *p = qkv_net_parameters(n, &count);
    double square = 0;
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < p[i].count; k++)
            square += (double)p[i].grad[k] * (double)p[i].grad[k];
    // A step along the gradient that reduces a linear loss by a tenth.
    const real rate = (real)(.1 * loss.sum / 2 / square);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < p[i].count; k++) p[i].value[k] -= rate * p[i].grad[k];
    CHECK_EQ(qkv_net_run(n, &after, &b, false, 1, 0, 0, &err), QKV_OK);
    CHECK(after.sum < loss.sum);
    CHECK_EQ(qkv_net_save(n, folder_new(), QKV_F32, &err), QKV_OK);
    pooled(v, folder_path);
    CHECK_NEAR(after.sum, contrastive(v), 4e-4);
    qkv_net_free(n);
}

int main(void)
{
    if (access(MINILM "/config.json", R_OK) != 0) {
        printf("skipped: no %s\n", MINILM);
        return 77;
    }
    const struct CMUnitTest cases[] = { CASE(minilm_is_fine_tuned_and_saved) };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
