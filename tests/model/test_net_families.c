// SPDX-License-Identifier: MIT
// test_net_families.c: a family that loads is trained as it is, or refused with what it has that is
// not trained here: the loss of each reference's texts is that of its logits, scores of labels are
// its own.
#include "model/net_parts.h"
#include "tiny.h"

// -log softmax(logits)[target].
static double loss_of(const float *logits, int64_t V, int32_t target)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < V; i++) most = fmax(most, (double)logits[i]);
    for (int64_t i = 0; i < V; i++) sum += exp((double)logits[i] - most);
    return most + log(sum) - (double)logits[target];
}

static void check_loss(const char *name, qkv_net *n, const struct tiny *t)
{
    const struct qkv_tensor *logits = golden_find(t->golden, NULL, "logits");
    const int64_t V = logits->shape[1];
    const float *x = logits->data;
    int32_t targets[64];
    double want = 0;
    CHECK(t->R <= 64);
    for (int64_t r = 0; r < t->R; r++) {
        targets[r] = (int32_t)((r * 29 + 3) % V);
        want += loss_of(x + r * V, V, targets[r]);
    }
    struct qkv_net_batch b = { .targets = targets };
    b.in = (struct qkv_sequences){ 3, t->in.offsets, t->in.ids, t->in.types };
    b.source = (struct qkv_sequences){ 3, t->source.offsets, t->source.ids, NULL };
    switch (qkv_net_kind(n)) {
    case QKV_NET_DECODER: b.objective = QKV_OBJECTIVE_CAUSAL; break;
    case QKV_NET_ENCODER: b.objective = QKV_OBJECTIVE_MASKED; break;
    default: b.objective = QKV_OBJECTIVE_SEQ2SEQ; break;
    }
    struct qkv_loss loss = { 0 };
    qkv_error err = { 0 };
    if (qkv_net_run(n, &loss, &b, false, 1, 1, 1, &err)) fail_msg("%s: %s", name, err.text);
    // each logit within the promise, so each loss within twice that
    if (!(fabs(loss.sum - want) <= 2 * (double)t->R * golden_hidden_tolerance))
        fail_msg("%s: loss %.9g, expected %.9g", name, loss.sum, want);
}

static void check_scores(const char *name, qkv_net *n, const struct tiny *t)
{
    const struct qkv_sequences in = { 3, t->in.offsets, t->in.ids, t->in.types };
    const int64_t labels = golden_find(t->golden, NULL, "scores")->shape[1];
    const float *want = golden_get(t->golden, NULL, "scores", QKV_F32, 3 * labels);
    real got[3 * 8];
    qkv_error err = { 0 };
    CHECK(labels <= 8);
    if (qkv_net_classify(n, got, &in, &err)) fail_msg("%s: %s", name, err.text);
    for (int64_t i = 0; i < 3 * labels; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= golden_hidden_tolerance))
            fail_msg("%s: score %.9g, expected %.9g", name, (double)got[i], (double)want[i]);
}

TEST(what_is_trained_is_the_model_or_it_is_refused_by_name)
{
    int trained = 0, refused = 0;
    EACH_TINY(name)
    {
        struct tiny t = open_tiny(*name, QKV_PRECISION_F32);
        const bool tokens = tiny_has(&t, "logits"), labels = tiny_has(&t, "scores");
        qkv_net *n = NULL;
        qkv_error err = { 0 };
        if ((tokens || labels) && access(tiny_path(*name, "config.json"), R_OK) == 0) {
            qkv_error why = { 0 };
            const qkv_status can = qkv_net_can(&t.model->is, t.info.family, ".", &why);
            const qkv_status s = qkv_net_open(&n, tiny_path(*name, ""), NULL, 0, 1, &err);
            if (can) {
                CHECK_EQ(s, QKV_ERR_UNSUPPORTED);
                CHECK_TEXT(err.text, why.text);
                CHECK(strstr(err.text, t.info.family) != NULL);
                refused++;
            } else if (s) {
                fail_msg("%s: %s %s", *name, err.path, err.text);
            } else {
                if (tokens) check_loss(*name, n, &t);
                if (labels) check_scores(*name, n, &t);
                trained++;
            }
            qkv_net_free(n);
        }
        close_tiny(&t);
    }
    printf("%d trained, %d refused\n", trained, refused);
    CHECK(trained >= 8 && refused >= 12);
}

CHECK_MAIN(CASE(what_is_trained_is_the_model_or_it_is_refused_by_name))
