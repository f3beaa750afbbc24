// SPDX-License-Identifier: MIT
// test_net_families.c: checks that a model that is trained is the model that runs: the loss of each
// golden folder is the loss of its logits or labels, and a trained and saved model opens for
// running and for training.
#include "model/folder.h"
#include "model/model_internal.h"
#include "model/params/trainable.h"
#include "model/tiny.h"

// Returns -log softmax(logits)[target].
static double loss_of(const float *logits, int64_t V, int32_t target)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < V; i++) most = fmax(most, (double)logits[i]);
    for (int64_t i = 0; i < V; i++) sum += exp((double)logits[i] - most);
    return most + log(sum) - (double)logits[target];
}

// A golden folder, opened for training, and a batch of its texts: next tokens, masked tokens, or
// labels.
enum { ROWS = 64 };
struct trained {
    const char *name;
    struct tiny t;
    qkv_net *n;
    int32_t targets[ROWS];
    struct qkv_net_batch batch;
};

static void make_batch(struct trained *f)
{
    const struct tiny *t = &f->t;
    const int labels = qkv_net_shape(f->n)->labels;
    const int64_t V = qkv_net_shape(f->n)->vocab;
    CHECK(t->R <= ROWS);
    for (int64_t r = 0; r < t->R; r++)
        f->targets[r] = labels > 0 ? (int32_t)labels - 1 : (int32_t)((r * 29 + 3) % V);
    f->batch = (struct qkv_net_batch){ .targets = f->targets };
    f->batch.in = (struct qkv_sequences){ 3, t->in.offsets, t->in.ids, t->in.types };
    f->batch.source = (struct qkv_sequences){ 3, t->source.offsets, t->source.ids, NULL };
    switch (qkv_net_kind(f->n)) {
    case QKV_NET_DECODER: f->batch.objective = QKV_OBJECTIVE_CAUSAL; break;
    case QKV_NET_ENCODER:
        f->batch.objective = labels ? QKV_OBJECTIVE_CLASSIFY : QKV_OBJECTIVE_MASKED;
        break;
    default: f->batch.objective = QKV_OBJECTIVE_SEQ2SEQ; break;
    }
}

// Opens a folder; false: it has no logits and no scores, or scores of a head that is not trained
// (only encoders train theirs), or no config.json.
static bool open_trained(struct trained *f, const char *name)
{
    qkv_error err = { 0 };
    *f = (struct trained){ .name = name, .t = open_tiny(name, QKV_PRECISION_F32) };
    // the head of llama-encoder reads the last token, and such heads are not trained either
    const bool scores = tiny_has(&f->t, "scores") && f->t.info.kind == QKV_KIND_ENCODER &&
                        strcmp(name, "llama-encoder") != 0;
    if ((!tiny_has(&f->t, "logits") && !scores) ||
        access(tiny_path(name, "config.json"), R_OK) != 0) {
        close_tiny(&f->t);
        return false;
    }
    if (qkv_net_open(&f->n, tiny_path(name, ""), NULL, 0, 1, &err))
        fail_msg("%s: %s %s", name, err.path, err.text);
    make_batch(f);
    return true;
}
static void close_trained(struct trained *f)
{
    qkv_net_free(f->n);
    close_tiny(&f->t);
}
#define EACH_TRAINED(f) EACH_TINY(name_of_##f) if (open_trained(&f, *name_of_##f))

static double run(const struct trained *f, qkv_net *n, bool gradients)
{
    struct qkv_loss loss = { 0 };
    qkv_error err = { 0 };
    if (gradients) qkv_net_zero_gradients(n);
    if (qkv_net_run(n, &loss, &f->batch, gradients, 1, 1, 1, &err))
        fail_msg("%s: %s", f->name, err.text);
    return loss.sum;
}

// ---- the model of the folder --------------------------------------------------------------------
static void check_loss(const struct trained *f)
{
    const struct qkv_tensor *logits = golden_find(f->t.golden, NULL, "logits");
    const int64_t V = logits->shape[1];
    const float *x = logits->data;
    double want = 0;
    for (int64_t r = 0; r < f->t.R; r++) want += loss_of(x + r * V, V, f->targets[r]);
    const double got = run(f, f->n, false);
    // each logit within the promise, so each loss within twice that
    if (!(fabs(got - want) <= 2 * (double)f->t.R * golden_hidden_tolerance))
        fail_msg("%s: loss %.9g, expected %.9g", f->name, got, want);
}

// The losses of all labels tell every difference of two scores.
static void check_scores(struct trained *f)
{
    const int64_t labels = golden_find(f->t.golden, NULL, "scores")->shape[1];
    const float *scores = golden_get(f->t.golden, NULL, "scores", QKV_F32, 3 * labels);
    for (int32_t label = 0; label < labels; label++) {
        double want = 0;
        for (int i = 0; i < 3; i++) {
            f->targets[i] = label;
            want += loss_of(scores + i * labels, labels, label);
        }
        const double got = run(f, f->n, false);
        if (!(fabs(got - want) <= 6 * golden_hidden_tolerance))
            fail_msg("%s: loss %.9g, expected %.9g", f->name, got, want);
    }
}

TEST(what_is_trained_is_the_model_of_the_folder)
{
    struct trained f;
    int folders = 0;
    EACH_TRAINED(f)
    {
        if (tiny_has(&f.t, "logits")) check_loss(&f);
        if (tiny_has(&f.t, "scores")) check_scores(&f);
        close_trained(&f);
        folders++;
    }
    CHECK(folders >= 29);
}

// ---- activations that are recomputed ------------------------------------------------------------
// All gradients of a run; the caller frees them.
static real *gradients_of(const struct trained *f, const struct qkv_net_options *o,
                          int64_t *numbers)
{
    qkv_net_options_set(f->n, o);
    run(f, f->n, true);
    *numbers = f->n->numbers;
    real *copy = malloc((size_t)f->n->numbers * sizeof *copy);
    CHECK(copy != NULL);
    return memcpy(copy, f->n->grad, (size_t)f->n->numbers * sizeof *copy);
}

TEST(activations_made_again_give_the_same_gradients)
{
    static const struct qkv_net_options all = { .dropout = .1f },
                                        again = { .dropout = .1f, .recompute = true };
    struct trained f;
    EACH_TRAINED(f)
    {
        int64_t numbers;
        size_t stored, less, arena;
        real *want = gradients_of(&f, &all, &numbers);
        qkv_net_memory(f.n, &stored, &arena);
        real *got = gradients_of(&f, &again, &numbers);
        qkv_net_memory(f.n, &less, &arena);
        for (int64_t i = 0; i < numbers; i++)
            if (memcmp(&got[i], &want[i], sizeof *got) != 0)
                fail_msg("%s: gradient %lld is %.9g, expected %.9g", f.name, (long long)i,
                         (double)got[i], (double)want[i]);
        if (f.n->methods == &qkv_net_gru) CHECK(10 * less < 8 * stored);
        free(want);
        free(got);
        close_trained(&f);
    }
}

// Numbers between products have 11 bits: rounding moves gradients by some parts in a thousand, and
// most in T5, whose scores are not scaled (.041 of their length).  A missing term moves them by
// more.
TEST(gradients_in_16_bits_are_near_those_in_32)
{
    static const struct qkv_net_options whole = { 0 }, half = { .precision = QKV_PRECISION_F16 };
    struct trained f;
    if (!qkv_precision_runs(QKV_PRECISION_F16)) return;
    EACH_TRAINED(f)
    {
        int64_t numbers;
        double square = 0, apart = 0;
        real *want = gradients_of(&f, &whole, &numbers), *got = gradients_of(&f, &half, &numbers);
        for (int64_t i = 0; i < numbers; i++) {
            const double x = (double)want[i], d = (double)got[i] - x;
            square += x * x;
            apart += d * d;
        }
        free(want);
        free(got);
        if (!(sqrt(apart) <= .06 * sqrt(square)))
            fail_msg("%s: gradients differ by %.3g of their length", f.name, sqrt(apart / square));
        close_trained(&f);
    }
}

// ---- saved --------------------------------------------------------------------------------------
// One step down the gradient, so that no weight is that of the folder any more.
static void step(const struct trained *f)
{
    int64_t count;
    struct qkv_parameter *p = qkv_net_parameters(f->n, &count);
    run(f, f->n, true);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < p[i].count; k++) p[i].value[k] -= (real)1e-3 * p[i].grad[k];
}

// The loss of the model in a folder, as it runs.
static double run_loss(struct trained *f, const char *dir)
{
    const bool labels = f->batch.objective == QKV_OBJECTIVE_CLASSIFY;
    const struct qkv_net_shape *shape = qkv_net_shape(f->n);
    const int64_t V = labels ? shape->labels : shape->vocab, rows = labels ? 3 : f->t.R;
    const struct qkv_model_options o = { 0 };
    qkv_model *m = NULL;
    qkv_error err = { 0 };
    double sum = 0;
    float *hidden = malloc((size_t)(f->t.R * shape->width) * sizeof *hidden);
    float *scores = malloc((size_t)(rows * V) * sizeof *scores);
    CHECK(hidden && scores);
    const struct qkv_model_input *in = tiny_input(&f->t);
    qkv_status status = qkv_model_open(&m, dir, &o, &err);
    if (!status && labels) status = qkv_model_classify(m, scores, in, &err);
    if (!status && !labels) status = qkv_model_run(m, hidden, in, NULL, &err);
    if (!status && !labels) status = qkv_model_logits(m, scores, hidden, f->t.R, &err);
    if (status) fail_msg("%s: %s %s", f->name, err.path, err.text);
    for (int64_t r = 0; r < rows; r++) sum += loss_of(scores + r * V, V, f->targets[r]);
    qkv_model_close(m);
    free(hidden);
    free(scores);
    return sum;
}

static bool ends_in(const char *name, const char *tail)
{
    const size_t n = strlen(name), m = strlen(tail);
    return n >= m && strcmp(name + n - m, tail) == 0;
}

// Each tensor of the golden folder is in the saved one, but for copies of tied tables.
static void check_names(const char *name, const char *dir)
{
    static const char *const copies[] = { "embed_tokens.weight", "lm_head.weight", "decoder.weight",
                                          "embed_positions.weight" };
    qkv_tensors *from = NULL, *to = NULL;
    qkv_error err = { 0 };
    if (qkv_tensors_open(&from, tiny_path(name, ""), NULL, &err) ||
        qkv_tensors_open(&to, dir, NULL, &err))
        fail_msg("%s: %s %s", name, err.path, err.text);
    for (int64_t i = 0; i < qkv_tensors_count(from); i++) {
        const char *tensor = qkv_tensors_at(from, i)->name;
        bool copy = false;
        EACH(tail, copies) copy |= ends_in(tensor, *tail);
        if (!copy && !qkv_tensors_find(to, tensor))
            fail_msg("%s: tensor %s is not saved", name, tensor);
    }
    qkv_tensors_close(from);
    qkv_tensors_close(to);
}

TEST(a_model_that_was_trained_and_saved_opens_as_the_same_model)
{
    struct trained f;
    EACH_TRAINED(f)
    {
        const char *dir = folder_new();
        qkv_net *again = NULL;
        qkv_error err = { 0 };
        step(&f);
        if (qkv_net_save(f.n, dir, QKV_F32, &err) || qkv_net_open(&again, dir, NULL, 0, 1, &err))
            fail_msg("%s: %s %s", f.name, err.path, err.text);
        const double want = run(&f, f.n, false), got = run(&f, again, false);
        if (want != got) fail_msg("%s: loss %.17g, expected %.17g", f.name, got, want);
        if (qkv_net_new_end(again)) fail_msg("%s: %s", f.name, qkv_net_new_end(again));
        qkv_net_free(again);
        if (f.n->methods != &qkv_net_gru) {
            const double runs = run_loss(&f, dir);
            if (!(fabs(runs - want) <= 2 * (double)f.t.R * golden_hidden_tolerance))
                fail_msg("%s: loss of a run %.9g, expected %.9g", f.name, runs, want);
        }
        check_names(f.name, dir);
        close_trained(&f);
    }
}

CHECK_MAIN(CASE(what_is_trained_is_the_model_of_the_folder),
           CASE(activations_made_again_give_the_same_gradients),
           CASE(gradients_in_16_bits_are_near_those_in_32),
           CASE(a_model_that_was_trained_and_saved_opens_as_the_same_model))
