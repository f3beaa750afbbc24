// SPDX-License-Identifier: MIT
// test_ablate_scan.c: checks that a scan of all heads equals separate runs that each ablate one
// head, and that the cosine of two texts is the sum of its terms.
#include "base/faults.h"
#include "task/one_text.h"
#include <qkv/ablate.h>

enum { CHANGES = 4 };

// Results of the public functions for the text with the current model.
struct said {
    double pooled[512], rows[TOKENS][512]; // encoders
    double p[TOKENS];                      // probability of each token except the first (decoders)
    double loss;
};

static void say(struct said *to, const struct text *t)
{
    const int64_t D = t->info.width, V = t->info.vocab;
    float *hidden = golden_floats(TOKENS * D), *logits = golden_floats(TOKENS * V);
    qkv_error err = { 0 };
    *to = (struct said){ 0 };
    CHECK(D <= 512);
    CHECK_EQ(qkv_model_run(t->m, hidden, &t->in, NULL, &err), QKV_OK);
    for (int64_t r = 0; r < TOKENS; r++)
        for (int64_t d = 0; d < D; d++) {
            to->rows[r][d] = (double)hidden[r * D + d];
            to->pooled[d] += (double)hidden[r * D + d] / TOKENS;
        }
    if (t->info.kind != QKV_KIND_ENCODER)
        CHECK_EQ(qkv_model_logits(t->m, logits, hidden, TOKENS, &err), QKV_OK);
    for (int64_t r = 1; r < TOKENS && t->info.kind != QKV_KIND_ENCODER; r++) {
        const float *x = logits + (r - 1) * V;
        double sum = 0;
        for (int64_t v = 0; v < V; v++) sum += exp((double)x[v]);
        to->p[r] = exp((double)x[t->ids[r]]) / sum;
        to->loss -= log(to->p[r]) / (TOKENS - 1);
    }
    free(hidden);
    free(logits);
}

static double turned(const double *a, const double *b, int64_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < n; i++) {
        ab += a[i] * b[i];
        aa += a[i] * a[i];
        bb += b[i] * b[i];
    }
    return 1 - ab / sqrt(aa * bb);
}

// Compares the effect of a head and its changes with two runs. The values are stored as float, and
// the subtracted numbers are near 1.
static void check_head(const struct text *t, const struct said *whole, const struct said *without,
                       double effect, const struct qkv_change *change)
{
    const bool encoder = t->info.kind == QKV_KIND_ENCODER;
    const int64_t D = t->info.width;
    const double near = 1e-7;
    double last = INFINITY;
    CHECK_NEAR(effect,
               encoder ? turned(whole->pooled, without->pooled, D) : without->loss - whole->loss,
               near * (1 + fabs(effect)));
    for (int i = 0; i < CHANGES; i++) {
        const int64_t r = change[i].token;
        const double size = fabs((double)change[i].after - (double)change[i].before);
        if (r < 0) continue;
        CHECK(size > 0 && size <= last);
        last = size;
        if (encoder) {
            CHECK(change[i].before == 0);
            CHECK_NEAR((double)change[i].after, turned(whole->rows[r], without->rows[r], D), near);
        } else {
            CHECK_NEAR((double)change[i].before, whole->p[r], near);
            CHECK_NEAR((double)change[i].after, without->p[r], near);
        }
    }
}

static void check_scan(const char *folder, enum qkv_ablation_kind kind, int64_t batch)
{
    struct text t;
    struct said whole, without;
    struct qkv_effects e;
    qkv_error err = { 0 };
    open_text(&t, folder);
    const struct qkv_effects_options o = { .kind = kind,
                                           .changes = CHANGES,
                                           .batch_tokens = batch };
    say(&whole, &t);
    if (qkv_ablate_scan(&e, t.m, &t.in, &o, &err)) fail_msg("%s: %s", folder, err.text);
    CHECK_EQ(e.stacks, t.in.source ? 3 : 1);
    CHECK_EQ(e.changes, CHANGES);
    CHECK_NEAR(e.loss, whole.loss, 1e-6);
    for (int64_t s = 0; s < e.stacks; s++) {
        const struct qkv_effect_stack *k = &e.stack[s];
        CHECK_EQ(k->tokens, k->part == QKV_PART_ENCODER ? SOURCE : TOKENS);
        for (int64_t i = 0; i < k->layers * k->heads; i++) {
            const struct qkv_ablation a = { k->part, i / k->heads, i % k->heads, kind };
            CHECK_EQ(qkv_model_ablate(t.m, &a, 1, &err), QKV_OK);
            say(&without, &t);
            check_head(&t, &whole, &without, (double)k->effect[i], k->change + i * CHANGES);
        }
    }
    qkv_effects_free(&e);
    qkv_model_close(t.m);
}

static const char *const folders[] = { "bert",  "modernbert", "encoder-both", "roberta", "gpt2",
                                       "llama", "gemma2",     "bart",         "t5",      "marian" };

TEST(a_scan_is_one_run_after_the_other)
{
    EACH(f, folders)
    for (int kind = 0; kind < 3; kind++) check_scan(*f, (enum qkv_ablation_kind)kind, 0);
}

TEST(copies_side_by_side_change_no_bit)
{
    EACH(f, folders)
    {
        struct text t;
        struct qkv_effects a, b;
        qkv_error err = { 0 };
        open_text(&t, *f);
        CHECK_EQ(qkv_ablate_scan(&a, t.m, &t.in, NULL, &err), QKV_OK);
        const struct qkv_effects_options one = { .batch_tokens = 1 };
        CHECK_EQ(qkv_ablate_scan(&b, t.m, &t.in, &one, &err), QKV_OK);
        CHECK_EQ(a.changes, 5);
        for (int64_t s = 0; s < a.stacks; s++) {
            const size_t n = (size_t)(a.stack[s].layers * a.stack[s].heads);
            CHECK_BITS(a.stack[s].effect, b.stack[s].effect, n * sizeof(float));
            CHECK_BITS(a.stack[s].change, b.stack[s].change, n * 5 * sizeof *a.stack[s].change);
        }
        qkv_effects_free(&a);
        qkv_effects_free(&b);
        qkv_model_close(t.m);
    }
}

// Padding after the text, and heads that are already ablated.
TEST(padding_and_heads_that_are_gone_have_no_effect)
{
    struct text t;
    struct qkv_effects a, b;
    qkv_error err = { 0 };
    int32_t padded[TOKENS + 5];
    const int64_t offsets[] = { 0, TOKENS + 5 }, length = TOKENS;
    const struct qkv_ablation gone = { QKV_PART_STACK, 1, 1, QKV_ABLATE_MEAN };
    open_text(&t, "bert");
    memset(padded, 0x7f, sizeof padded);
    memcpy(padded, t.ids, sizeof t.ids);
    const struct qkv_model_input in = {
        .sequences = 1, .offsets = offsets, .lengths = &length, .ids = padded
    };
    CHECK_EQ(qkv_model_ablate(t.m, &gone, 1, &err), QKV_OK);
    CHECK_EQ(qkv_ablate_scan(&a, t.m, &t.in, NULL, &err), QKV_OK);
    CHECK_EQ(qkv_ablate_scan(&b, t.m, &in, NULL, &err), QKV_OK);
    const size_t n = (size_t)(a.stack[0].layers * a.stack[0].heads);
    CHECK_BITS(a.stack[0].effect, b.stack[0].effect, n * sizeof(float));
    CHECK(a.stack[0].effect[1 * a.stack[0].heads + 1] == 0);
    CHECK_EQ(a.stack[0].change[(1 * a.stack[0].heads + 1) * a.changes].token, -1);
    qkv_effects_free(&a);
    qkv_effects_free(&b);
    qkv_model_close(t.m);
}

TEST(two_models_are_compared_as_one_effect)
{
    static const char *const some[] = { "bert", "gpt2", "bart" };
    EACH(f, some)
    {
        struct text t, u;
        struct said whole, without;
        struct qkv_effects e;
        qkv_error err = { 0 };
        open_text(&t, *f);
        open_text(&u, *f);
        const struct qkv_effects_options o = { .changes = CHANGES };
        const bool two = t.in.source != NULL;
        const struct qkv_ablation list[] = {
            { two ? QKV_PART_ENCODER : QKV_PART_STACK, 0, 0, QKV_ABLATE_ZERO },
            { two ? QKV_PART_CROSS : QKV_PART_STACK, 1, 1, QKV_ABLATE_MEAN },
        };
        CHECK_EQ(qkv_model_ablate(u.m, list, 2, &err), QKV_OK);
        CHECK_EQ(qkv_ablate_compare(&e, t.m, u.m, &t.in, &o, &err), QKV_OK);
        CHECK(e.stacks == 1 && e.stack[0].layers == 1 && e.stack[0].heads == 1);
        say(&whole, &t);
        say(&without, &u);
        check_head(&t, &whole, &without, (double)e.stack[0].effect[0], e.stack[0].change);
        qkv_effects_free(&e);
        CHECK_EQ(qkv_ablate_compare(&e, t.m, t.m, &t.in, &o, &err), QKV_OK);
        CHECK(e.stack[0].effect[0] == 0 && e.stack[0].change[0].token == -1);
        qkv_effects_free(&e);
        qkv_model_close(t.m);
        qkv_model_close(u.m);
    }
}

static int stop(void *user, const char *what, int64_t done, int64_t total)
{
    CHECK(!strcmp(what, "heads") && done <= total);
    return done >= *(const int64_t *)user;
}

TEST(what_cannot_be_scanned_is_refused)
{
    struct text t, g;
    struct qkv_effects e;
    int64_t at = 3;
    open_text(&t, "bert");
    open_text(&g, "gpt2");
    struct qkv_model_input in = t.in;
    const int64_t two[] = { 0, 4, 9 }, none[] = { 0, 0 }, one[] = { 0, 1 };
    in.sequences = 2;
    in.offsets = two;
    CHECK_EQ(qkv_ablate_scan(&e, t.m, &in, NULL, NULL), QKV_ERR_USAGE);
    in = t.in;
    in.offsets = none;
    CHECK_EQ(qkv_ablate_scan(&e, t.m, &in, NULL, NULL), QKV_ERR_USAGE);
    in.offsets = one;
    // the model predicts nothing
    CHECK_EQ(qkv_ablate_scan(&e, g.m, &in, NULL, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_ablate_compare(&e, t.m, g.m, &t.in, NULL, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_ablate_scan(NULL, t.m, &t.in, NULL, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_ablate_scan(&e, NULL, &t.in, NULL, NULL), QKV_ERR_USAGE);
    qkv_error err = { 0 };
    struct qkv_effects_options o = { .kind = (enum qkv_ablation_kind)7 };
    CHECK_EQ(qkv_ablate_scan(&e, t.m, &t.in, &o, &err), QKV_ERR_USAGE);
    CHECK_TEXT(err.text,
               "kind of struct qkv_effects_options is out of range, expected 0 to 2, found 7");
    o = (struct qkv_effects_options){ .progress = { stop, &at } };
    err = (qkv_error){ 0 };
    CHECK_EQ(qkv_ablate_scan(&e, t.m, &t.in, &o, &err), QKV_ERR_INTERRUPTED);
    CHECK(!e.memory && err.status == QKV_ERR_INTERRUPTED);
    t.ids[2] = -1;
    err = (qkv_error){ 0 };
    CHECK_EQ(qkv_ablate_scan(&e, t.m, &t.in, NULL, &err), QKV_ERR_USAGE);
    qkv_model_close(t.m);
    qkv_model_close(g.m);
}

static qkv_status scan_flow(void *ctx, qkv_error *err)
{
    static const int32_t ids[] = { 1, 2, 3, 4 };
    const int64_t offsets[] = { 0, 4 };
    struct qkv_model_input in = { .sequences = 1, .offsets = offsets, .ids = ids }, source = in;
    struct qkv_effects e = { 0 };
    qkv_model *m = NULL;
    qkv_status status = qkv_model_open(&m, ctx, NULL, err);
    if (!status && qkv_model_info(m).kind == QKV_KIND_ENCODER_DECODER) in.source = &source;
    if (!status) status = qkv_ablate_scan(&e, m, &in, NULL, err);
    CHECK((status == QKV_OK) == (e.memory != NULL));
    qkv_effects_free(&e);
    qkv_model_close(m);
    return status;
}

TEST(a_scan_survives_every_failed_allocation)
{
    static const char *const some[] = { GOLDEN "encoder-pre", GOLDEN "marian" };
    CHECK_EQ(qkv_threads_set(1), QKV_OK);
    EACH(f, some) CHECK(faults_walk(scan_flow, (void *)*f, true) > 10);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

// ---- why ---------------------------------------------------------------------------------------
static const char *const pairs[][2] = {
    { "a b c", "a b c" }, { "a b c d e f", "g" }, { "k l m n", "a a a a a b" }, { "", "" }
};

TEST(terms_add_up_to_the_cosine)
{
    qkv_embedder *e = NULL;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_embedder_open(&e, GOLDEN "bert", NULL, &err), QKV_OK);
    const int64_t D = qkv_embedder_width(e);
    float *v = golden_floats(2 * D);
    EACH(p, pairs)
    {
        struct qkv_why w;
        double sum = 0;
        CHECK_EQ(qkv_embed(e, v, *p, NULL, 2, NULL, &err), QKV_OK);
        CHECK_EQ(qkv_why(&w, e, (*p)[0], strlen((*p)[0]), (*p)[1], strlen((*p)[1]), &err), QKV_OK);
        CHECK(w.rows == w.text[0].count && w.columns == w.text[1].count);
        for (int64_t i = 0; i < w.rows * w.columns; i++) sum += w.terms[i];
        CHECK_NEAR(sum, w.cosine, 1e-14);
        CHECK_NEAR(sum, (double)qkv_cosine(v, v + D, D), 1e-6);
        qkv_why_free(&w);
    }
    free(v);
    qkv_embedder_close(e);
}

TEST(other_poolings_are_refused_by_name)
{
    for (int pool = QKV_POOL_CLS; pool <= QKV_POOL_LAST; pool++) {
        const struct qkv_embedder_options o = { .pool = (enum qkv_pool)pool };
        static const char *const names[] = { "", "", "'cls'", "'max'", "'last'" };
        qkv_embedder *e = NULL;
        struct qkv_why w;
        qkv_error err = { 0 };
        CHECK_EQ(qkv_embedder_open(&e, GOLDEN "bert", &o, &err), QKV_OK);
        CHECK_EQ((int)qkv_embedder_pool(e), pool);
        CHECK_EQ(qkv_why(&w, e, "a", 1, "b", 1, &err), QKV_ERR_UNSUPPORTED);
        CHECK(strstr(err.text, names[pool]) && !w.terms);
        qkv_embedder_close(e);
    }
}

static qkv_status why_flow(void *ctx, qkv_error *err)
{
    struct qkv_why w = { 0 };
    qkv_embedder *e = NULL;
    qkv_status status = qkv_embedder_open(&e, ctx, NULL, err);
    if (!status) status = qkv_why(&w, e, "a b", 3, "c", 1, err);
    qkv_why_free(&w);
    qkv_embedder_close(e);
    return status;
}

TEST(why_survives_every_failed_allocation)
{
    CHECK_EQ(qkv_threads_set(1), QKV_OK);
    CHECK(faults_walk(why_flow, (void *)GOLDEN "bert", false) > 3);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

CHECK_MAIN(CASE(a_scan_is_one_run_after_the_other), CASE(copies_side_by_side_change_no_bit),
           CASE(padding_and_heads_that_are_gone_have_no_effect),
           CASE(two_models_are_compared_as_one_effect), CASE(what_cannot_be_scanned_is_refused),
           CASE(a_scan_survives_every_failed_allocation), CASE(terms_add_up_to_the_cosine),
           CASE(other_poolings_are_refused_by_name), CASE(why_survives_every_failed_allocation))
