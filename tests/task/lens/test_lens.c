// SPDX-License-Identifier: MIT
// test_lens.c: checks the logit lens against a direct computation from the hidden states and the
// weights of the final norm, its last row against the decoder that generates, and the shares of
// tokens against their definition.
#include "base/faults.h"
#include "task/one_text.h"
#include <qkv/decode.h>
#include <qkv/lens.h>
#include <string.h>

enum { TOP = 4 };

// The norm that follows the last layer, as the tensors and config.json of the folder say.
struct folder {
    const char *name, *norm; // norm NULL: the model has none (post-norm)
    double eps;
    bool centred, plus_one; // a layer norm; a norm that multiplies by 1 + weight
};
static const struct folder folders[] = {
    { .name = "gpt2", .norm = "transformer.ln_f", .eps = 1e-5, .centred = true },
    { .name = "opt", .norm = "model.decoder.final_layer_norm", .eps = 1e-5, .centred = true },
    { .name = "llama", .norm = "model.norm", .eps = 1e-5 },
    { .name = "gemma2", .norm = "model.norm", .eps = 1e-5, .plus_one = true },
    { .name = "t5", .norm = "decoder.final_layer_norm", .eps = 1e-6 },
    { .name = "marian" },
    { .name = "bert-tokens" },
    { .name = "modernbert", .norm = "model.final_norm", .eps = 1e-5, .centred = true },
};

// Returns element d of a tensor of floats of 32 or 16 bits; the default if there is no such tensor.
static double element(const qkv_tensors *t, const char *name, const char *end, int64_t d,
                      double missing)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s", name, end);
    const struct qkv_tensor *x = qkv_tensors_find(t, full);
    if (!x) return missing;
    if (x->dtype == QKV_F32) return (double)((const float *)x->data)[d];
    CHECK(x->dtype == QKV_F16 || x->dtype == QKV_BF16);
    const int bits = ((const uint16_t *)x->data)[d], digits = x->dtype == QKV_F16 ? 10 : 7;
    const int exponent = (bits & 0x7fff) >> digits, bias = x->dtype == QKV_F16 ? 15 : 127;
    const double one = exponent ? ldexp(1, digits) : 0, part = bits & ((1 << digits) - 1);
    const double size = ldexp(one + part, (exponent ? exponent : 1) - bias - digits);
    return bits & 0x8000 ? -size : size;
}

// Writes to[D], the norm of x[D] in double.
static void norm(float *to, const float *x, int64_t D, const struct folder *f, const qkv_tensors *t)
{
    double mean = 0, square = 0;
    for (int64_t d = 0; d < D && f->centred; d++) mean += (double)x[d] / (double)D;
    for (int64_t d = 0; d < D; d++)
        square += ((double)x[d] - mean) * ((double)x[d] - mean) / (double)D;
    for (int64_t d = 0; d < D; d++)
        to[d] = (float)(((double)x[d] - mean) / sqrt(square + f->eps) *
                            (element(t, f->norm, ".weight", d, NAN) + f->plus_one) +
                        element(t, f->norm, ".bias", d, 0));
}

// Compares one row of the lens with the softmax of the logits[V].
static void check_row(const char *label, const struct qkv_lens *x, int64_t p, int64_t l,
                      const float *logits, int64_t V, double near)
{
    const struct qkv_token_value *got = x->tokens + (p * x->rows + l) * x->top;
    double sum = 0;
    for (int64_t v = 0; v < V; v++) sum += exp((double)logits[v]);
    for (int64_t k = 0; k < x->top; k++) {
        const double want = exp((double)logits[got[k].id]) / sum;
        if (!(fabs((double)got[k].value - want) <= near))
            fail_msg("%s, row %lld, place %lld: %.9g, expected %.9g", label, (long long)l,
                     (long long)k, (double)got[k].value, want);
        CHECK(!k || got[k].value <= got[k - 1].value);
    }
    // no token outside the list is more likely than its last one
    for (int64_t v = 0; v < V; v++) {
        bool listed = false;
        for (int64_t k = 0; k < x->top; k++) listed |= got[k].id == v;
        const double over = exp((double)logits[v]) / sum - (double)got[x->top - 1].value;
        CHECK(listed || over <= near);
    }
    const int64_t row = p * x->rows + l;
    if (x->target[p] < 0) {
        CHECK(x->target_probability[row] == 0 && x->target_rank[row] == 0);
        return;
    }
    CHECK_NEAR((double)x->target_probability[row], exp((double)logits[x->target[p]]) / sum, near);
    for (int64_t k = 0; k < x->top; k++)
        if (got[k].id == x->target[p]) CHECK_EQ(x->target_rank[row], k);
}

static void check_folder(const struct folder *f)
{
    // Logits of the two computations differ by the rounding of a norm in float, a probability by
    // that difference times the probability.
    const double near = 2e-5;
    struct text t;
    struct qkv_lens x;
    char path[256];
    qkv_error err = { 0 };
    qkv_tensors *weights;
    open_text(&t, f->name);
    snprintf(path, sizeof path, GOLDEN "%s", f->name);
    CHECK_EQ(qkv_tensors_open(&weights, path, NULL, &err), QKV_OK);
    if (qkv_lens(&x, t.m, &t.in, NULL, 0, TOP, &err)) fail_msg("%s: %s", f->name, err.text);
    const int64_t D = t.info.width, V = t.info.vocab;
    const bool encoder = t.info.kind == QKV_KIND_ENCODER;
    const int64_t layers = t.info.decoder_layers ? t.info.decoder_layers : t.info.layers;
    CHECK_EQ(x.positions, TOKENS);
    CHECK_EQ(x.rows, layers + 1);
    struct golden_seen seen = golden_run(t.m, &t.in);
    float *normed = golden_floats(D), *logits = golden_floats(V);
    for (int64_t p = 0; p < TOKENS; p++) {
        CHECK_EQ(x.at[p], p);
        CHECK_EQ(x.target[p], encoder ? t.ids[p] : p + 1 < TOKENS ? t.ids[p + 1] : -1);
        for (int64_t l = 0; l <= layers; l++) {
            const float *h = seen.hidden + (l * TOKENS + p) * D;
            if (l < layers && f->norm) {
                norm(normed, h, D, f, weights);
                h = normed;
            }
            CHECK_EQ(qkv_model_logits(t.m, logits, h, 1, &err), QKV_OK);
            check_row(f->name, &x, p, l, logits, V, near);
        }
    }
    free(normed);
    free(logits);
    golden_free(&seen);
    qkv_lens_free(&x);
    qkv_tensors_close(weights);
    qkv_model_close(t.m);
}

TEST(each_row_is_the_softmax_of_head_and_norm_of_its_layer)
{
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) check_folder(&folders[i]);
}

TEST(the_last_row_has_the_bits_of_the_decoder_that_generates)
{
    static const char *const names[] = {
        "gpt2", "llama", "gemma2", "t5", "marian", "gru-attention"
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct text t;
        struct qkv_lens all, one;
        qkv_decoder *d;
        qkv_error err = { 0 };
        const struct qkv_decoder_options o = { .items = 1 };
        const int64_t at[] = { TOKENS - 1, 2 };
        open_text(&t, names[i]);
        const int64_t V = t.info.vocab;
        float *logits = golden_floats(TOKENS * V), *probability = golden_floats(V);
        CHECK_EQ(qkv_decoder_new(&d, t.m, &o, &err), QKV_OK);
        if (t.in.source) CHECK_EQ(qkv_decoder_source(d, 0, &t.source, &err), QKV_OK);
        const struct qkv_decoder_tokens tokens = {
            .n = 1, .offsets = t.offsets, .ids = t.ids, .every = true
        };
        CHECK_EQ(qkv_decoder_feed(d, logits, &tokens, &err), QKV_OK);
        CHECK_EQ(qkv_lens(&all, t.m, &t.in, NULL, 0, V, &err), QKV_OK);
        CHECK_EQ(qkv_lens(&one, t.m, &t.in, at, 2, TOP, &err), QKV_OK);
        // a recurrent model has no layers between its embeddings and its output
        CHECK_EQ(all.rows, t.info.can & QKV_CAN_RUN ? t.info.layers + 1 : 1);
        for (int64_t p = 0; p < TOKENS; p++) {
            const struct qkv_token_value *row = all.tokens + (p * all.rows + all.rows - 1) * V;
            const float *x = logits + p * V;
            for (int64_t k = 1; k < V; k++) { // the order of the decoder's own logits
                const float before = x[row[k - 1].id], here = x[row[k].id];
                CHECK(before > here || (before >= here && row[k - 1].id < row[k].id));
            }
            check_row(names[i], &all, p, all.rows - 1, x, V, 1e-6);
        }
        // a chosen position has the bits that it has among all
        CHECK_EQ(one.positions, 2);
        for (int64_t p = 0; p < 2; p++)
            for (int64_t l = 0; l < one.rows; l++)
                CHECK_BITS(one.tokens + (p * one.rows + l) * TOP,
                           all.tokens + (at[p] * all.rows + l) * V,
                           TOP * sizeof(struct qkv_token_value));
        free(logits);
        free(probability);
        qkv_lens_free(&all);
        qkv_lens_free(&one);
        qkv_decoder_free(d);
        qkv_model_close(t.m);
    }
}

TEST(padding_and_empty_texts_are_no_positions)
{
    struct text t;
    struct qkv_lens x, cut;
    qkv_error err = { 0 };
    const int64_t length = TOKENS - 2, outside[] = { length };
    open_text(&t, "bert-tokens");
    t.in.lengths = &length;
    CHECK_EQ(qkv_lens(&x, t.m, &t.in, NULL, 0, 1, &err), QKV_OK);
    CHECK_EQ(x.positions, length);
    t.in.lengths = NULL;
    t.offsets[1] = length;
    CHECK_EQ(qkv_lens(&cut, t.m, &t.in, NULL, 0, 1, &err), QKV_OK);
    CHECK_BITS(x.tokens, cut.tokens, (size_t)(length * x.rows) * sizeof(struct qkv_token_value));
    qkv_lens_free(&x);
    qkv_lens_free(&cut);
    CHECK_EQ(qkv_lens(&x, t.m, &t.in, outside, 1, 1, &err), QKV_ERR_USAGE);
    CHECK(!x.tokens && !x.at);
    CHECK_EQ(qkv_lens(&x, t.m, &t.in, NULL, 0, 0, &err), QKV_ERR_USAGE);
    CHECK_EQ(qkv_lens(&x, t.m, &t.in, NULL, 0, t.info.vocab + 1, &err), QKV_ERR_USAGE);
    t.offsets[1] = 0;
    CHECK_EQ(qkv_lens(&x, t.m, &t.in, NULL, 0, 1, &err), QKV_OK);
    CHECK_EQ(x.positions, 0);
    qkv_lens_free(&x);
    qkv_model_close(t.m);
}

TEST(options_of_the_run_change_the_rows_after_the_first)
{
    struct text t;
    struct qkv_lens run, model;
    qkv_error err = { 0 };
    const struct qkv_ablation first = { QKV_PART_STACK, 0, -1, QKV_ABLATE_ZERO };
    const struct qkv_run_options o = { .ablate = &first, .ablations = 1 };
    open_text(&t, "gpt2");
    t.in.options = &o;
    CHECK_EQ(qkv_lens(&run, t.m, &t.in, NULL, 0, 1, &err), QKV_OK);
    t.in.options = NULL;
    CHECK_EQ(qkv_model_ablate(t.m, &first, 1, &err), QKV_OK);
    CHECK_EQ(qkv_lens(&model, t.m, &t.in, NULL, 0, 1, &err), QKV_OK);
    const int64_t rows = run.positions * run.rows;
    CHECK_BITS(run.tokens, model.tokens, (size_t)rows * sizeof(struct qkv_token_value));
    qkv_lens_free(&model);
    CHECK_EQ(qkv_model_ablate(t.m, NULL, 0, &err), QKV_OK);
    CHECK_EQ(qkv_lens(&model, t.m, &t.in, NULL, 0, 1, &err), QKV_OK);
    int64_t changed = 0;
    for (int64_t i = 0; i < rows; i++) {
        const bool same = run.tokens[i].value == model.tokens[i].value;
        if (i % run.rows == 0) CHECK(same); // the output of the embeddings
        changed += !same;
    }
    CHECK(changed > rows / 2);
    qkv_lens_free(&run);
    qkv_lens_free(&model);
    qkv_model_close(t.m);
    open_text(&t, "gru-attention");
    t.in.options = &o;
    CHECK_EQ(qkv_lens(&run, t.m, &t.in, NULL, 0, 1, &err), QKV_ERR_UNSUPPORTED);
    CHECK(strstr(err.text, "expected a Transformer, whose runs have options"));
    qkv_model_close(t.m);
}

TEST(an_id_that_the_model_does_not_have_is_refused)
{
    static const char *const names[] = { "gpt2", "bert-tokens", "marian", "gru-attention" };
    struct text t;
    EACH(name, names)
    {
        open_text(&t, *name);
        EACH(wrong, ((const int64_t[]){ -1, t.info.vocab, INT32_MAX }))
        {
            struct qkv_lens x;
            qkv_error err = { 0 };
            t.ids[TOKENS - 2] = (int32_t)*wrong;
            CHECK_EQ(qkv_lens(&x, t.m, &t.in, NULL, 0, 1, &err), QKV_ERR_USAGE);
            if (!strstr(err.text, "token id")) fail_msg("%s: %s", *name, err.text);
            CHECK(!x.tokens && !x.at);
        }
        qkv_model_close(t.m);
    }
}

TEST(models_without_an_output_head_for_tokens_are_refused)
{
    struct text t;
    struct qkv_lens x;
    float p[8];
    qkv_error err = { 0 };
    open_text(&t, "llama-questions");
    CHECK_EQ(qkv_lens(&x, t.m, &t.in, NULL, 0, 1, &err), QKV_ERR_UNSUPPORTED);
    CHECK(strstr(err.text, "expected a model with an output head for tokens"));
    CHECK(strstr(err.text, "found the class LlamaForQuestionAnswering"));
    qkv_model_close(t.m);
    err = (qkv_error){ 0 };
    open_text(&t, "bert-labels");
    CHECK_EQ(qkv_lens(&x, t.m, &t.in, NULL, 0, 1, &err), QKV_ERR_UNSUPPORTED);
    CHECK(strstr(err.text, "found an encoder (bert), which is for qkv classify"));
    CHECK(t.info.labels > 1 && t.info.labels <= 8);
    float scores[8] = { 1, 3, 2 };
    double sum = 0, all = 0;
    CHECK_EQ(qkv_label_probabilities(p, scores, 1, t.m, &err), QKV_OK);
    for (int64_t i = 0; i < t.info.labels; i++) sum += exp((double)scores[i]);
    for (int64_t i = 0; i < t.info.labels; i++) {
        CHECK_NEAR((double)p[i], exp((double)scores[i]) / sum, 1e-6);
        all += (double)p[i];
    }
    CHECK_NEAR(all, 1, 1e-6);
    qkv_model_close(t.m);
    open_text(&t, "gru-attention");
    CHECK_EQ(qkv_label_probabilities(p, scores, 1, t.m, &err), QKV_ERR_UNSUPPORTED);
    qkv_model_close(t.m);
}

// ---- shares ------------------------------------------------------------------------------------
static const int32_t words[] = { 2, 5, 9, 6, 7, 3 };
enum { WORDS = sizeof words / sizeof *words };

// Computes the vector of each pooling and the shares from their definition, without the library's
// pooling, and compares.
static void check_pool(const char *dir, enum qkv_pool pool)
{
    const struct qkv_embedder_options o = { .pool = pool, .no_tokenizer = true };
    const int64_t offsets[] = { 0, WORDS };
    const struct qkv_model_input in = { .sequences = 1, .offsets = offsets, .ids = words };
    qkv_embedder *e;
    qkv_error err = { 0 };
    double share[WORDS], length, again[WORDS], long_again, sum = 0, square = 0;
    if (qkv_embedder_open(&e, dir, &o, &err)) fail_msg("%s: %s", dir, err.text);
    const int64_t D = qkv_model_info(qkv_embedder_model(e)).width;
    float *h = golden_floats(WORDS * D);
    double *v = calloc((size_t)D, sizeof *v), *part = calloc((size_t)(WORDS * D), sizeof *part);
    CHECK_EQ(qkv_model_run(qkv_embedder_model(e), h, &in, NULL, &err), QKV_OK);
    CHECK_EQ(qkv_shares(share, &length, e, words, NULL, WORDS, &err), QKV_OK);
    CHECK_EQ(qkv_shares_hidden(again, &long_again, e, h, WORDS, &err), QKV_OK);
    CHECK_BITS(again, share, sizeof share);
    CHECK_BITS(&long_again, &length, sizeof length);
    for (int64_t d = 0; d < D; d++) {
        int64_t best = 0;
        for (int64_t r = 1; r < WORDS; r++)
            if (h[r * D + d] > h[best * D + d]) best = r;
        for (int64_t r = 0; r < WORDS; r++) {
            const double x = (double)h[r * D + d];
            double c = 0;
            switch (pool) {
            case QKV_POOL_FILE:
            case QKV_POOL_MEAN: c = x / WORDS; break;
            case QKV_POOL_MEAN_SQRT: c = x / sqrt(WORDS); break;
            case QKV_POOL_WEIGHTED: c = x * (double)(r + 1) / (WORDS * (WORDS + 1) / 2.); break;
            case QKV_POOL_CLS: c = r ? 0 : x; break;
            case QKV_POOL_LAST: c = r + 1 < WORDS ? 0 : x; break;
            case QKV_POOL_MAX: c = r == best ? x : 0; break;
            }
            part[r * D + d] = c;
            v[d] += c;
        }
    }
    for (int64_t d = 0; d < D; d++) square += v[d] * v[d];
    CHECK_NEAR(length, sqrt(square), 1e-6 * sqrt(square));
    for (int64_t r = 0; r < WORDS; r++) {
        double dot = 0;
        for (int64_t d = 0; d < D; d++) dot += part[r * D + d] * v[d];
        CHECK_NEAR(share[r], dot / square, 1e-6);
        sum += share[r];
    }
    CHECK_NEAR(sum, 1, 1e-12);
    CHECK_EQ(qkv_shares(share, &length, e, words, NULL, 0, &err), QKV_OK);
    CHECK(length == 0);
    CHECK_EQ(qkv_shares_hidden(share, &long_again, e, h, 0, &err), QKV_OK);
    CHECK(long_again == 0);
    free(h);
    free(v);
    free(part);
    qkv_embedder_close(e);
}

TEST(shares_are_the_summands_of_each_pooling_and_add_up_to_1)
{
    for (int pool = QKV_POOL_MEAN; pool <= QKV_POOL_WEIGHTED; pool++)
        check_pool(GOLDEN "bert", (enum qkv_pool)pool);
}

// ---- failing allocations -----------------------------------------------------------------------
static qkv_status lens_flow(void *ctx, qkv_error *err)
{
    static const int64_t offsets[] = { 0, WORDS };
    const struct qkv_embedder_options o = { .no_tokenizer = true };
    const struct qkv_model_input source = { .sequences = 1, .offsets = offsets, .ids = words };
    struct qkv_model_input in = source;
    qkv_model *m = NULL;
    qkv_embedder *e = NULL;
    struct qkv_lens x = { 0 };
    double share[WORDS];
    qkv_status status = qkv_model_open(&m, ctx, NULL, err);
    if (!status && qkv_model_info(m).kind == QKV_KIND_ENCODER_DECODER) in.source = &source;
    if (!status) status = qkv_lens(&x, m, &in, NULL, 0, TOP, err);
    if (!status) status = qkv_embedder_open(&e, GOLDEN "bert", &o, err);
    if (!status) status = qkv_shares(share, NULL, e, words, NULL, WORDS, err);
    qkv_lens_free(&x);
    qkv_embedder_close(e);
    qkv_model_close(m);
    return status;
}

TEST(a_lens_survives_every_failed_allocation)
{
    CHECK_EQ(qkv_threads_set(1), QKV_OK);
    CHECK(faults_walk(lens_flow, (void *)GOLDEN "gpt2", false) > 8);
    CHECK(faults_walk(lens_flow, (void *)GOLDEN "gru-attention", false) > 8);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

CHECK_MAIN(CASE(each_row_is_the_softmax_of_head_and_norm_of_its_layer),
           CASE(the_last_row_has_the_bits_of_the_decoder_that_generates),
           CASE(padding_and_empty_texts_are_no_positions),
           CASE(options_of_the_run_change_the_rows_after_the_first),
           CASE(an_id_that_the_model_does_not_have_is_refused),
           CASE(models_without_an_output_head_for_tokens_are_refused),
           CASE(shares_are_the_summands_of_each_pooling_and_add_up_to_1),
           CASE(a_lens_survives_every_failed_allocation))
