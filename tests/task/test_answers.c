// SPDX-License-Identifier: MIT
// test_answers.c: checks filled masks, classified texts, beam search against an exhaustive search,
// found folders, and failing allocations.
#include "check.h"
#include "base/faults.h"
#include "task/generate/generate_request.h"
#include "task/generate/sampling.h"
#include <stdlib.h>
#include <unistd.h>

#define GOLDEN "tests/golden/"

struct both {
    qkv_model *m;
    qkv_tokenizer *t;
};

static struct both opened(const char *dir)
{
    struct both b = { NULL, NULL };
    qkv_error err = { 0 };
    if (qkv_model_open(&b.m, dir, NULL, &err) ||
        qkv_tokenizer_open(&b.t, GOLDEN "text/letters.json", &err))
        fail_msg("%s", err.text);
    return b;
}

static void closed(struct both *b)
{
    qkv_tokenizer_close(b->t);
    qkv_model_close(b->m);
}

TEST(masks_are_filled_with_the_softmax_of_their_logits)
{
    enum { TOP = 7, MOST = 4 };
    const char text[] = "a [MASK] b c [MASK] d";
    struct both b = opened(GOLDEN "net-bert");
    const struct qkv_model_info info = qkv_model_info(b.m);
    struct qkv_token_value got[MOST * TOP];
    int64_t at[MOST], masks;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_fill(b.m, b.t, got, at, &masks, MOST, TOP, text, strlen(text), &err), QKV_OK);
    CHECK_EQ(masks, 2);
    CHECK_EQ(at[0], 2);
    CHECK_EQ(at[1], 13);
    const int32_t ids[] = { 2, 5, 4, 6, 7, 4, 8, 3 };
    const int64_t offsets[] = { 0, 8 }, rows[] = { 2, 5 };
    const struct qkv_model_input in = { .sequences = 1, .offsets = offsets, .ids = ids };
    float hidden[8 * 64], logits[64];
    CHECK(info.width <= 64 && info.vocab <= 64);
    CHECK_EQ(qkv_model_run(b.m, hidden, &in, NULL, &err), QKV_OK);
    for (int64_t m = 0; m < masks; m++) {
        double sum = 0;
        CHECK_EQ(qkv_model_logits(b.m, logits, hidden + rows[m] * info.width, 1, &err), QKV_OK);
        for (int64_t v = 0; v < info.vocab; v++) sum += exp((double)logits[v]);
        for (int64_t i = 0; i < TOP; i++) {
            const struct qkv_token_value *x = &got[m * TOP + i];
            CHECK_NEAR((double)x->value, exp((double)logits[x->id]) / sum, 1e-6);
            CHECK(!i || x->value <= x[-1].value);
        }
        int64_t better = 0;
        for (int64_t v = 0; v < info.vocab; v++) better += logits[v] > logits[got[m * TOP].id];
        CHECK_EQ(better, 0);
    }
    CHECK_EQ(qkv_fill(b.m, b.t, got, at, &masks, 1, TOP, text, strlen(text), &err), QKV_OK);
    CHECK_EQ(masks, 2); // one of them answered
    CHECK_EQ(qkv_fill(b.m, b.t, got, at, &masks, MOST, TOP, "a b", 3, &err), QKV_ERR_USAGE);
    CHECK(strstr(err.text, "[MASK]"));
    closed(&b);
}

TEST(what_a_model_cannot_do_is_refused_with_what_it_can)
{
    struct both b = opened(GOLDEN "net-labels"), mlm = opened(GOLDEN "net-bert");
    struct qkv_token_value got[4];
    struct qkv_perplexity p;
    int64_t at[1], masks;
    float scores[8];
    const char *const text[] = { "a" };
    qkv_error err = { 0 };
    CHECK_EQ(qkv_fill(b.m, b.t, got, at, &masks, 1, 1, "[MASK]", 6, &err), QKV_ERR_UNSUPPORTED);
    CHECK(strstr(err.text, "qkv classify"));
    err = (qkv_error){ 0 };
    CHECK_EQ(qkv_classify(mlm.m, mlm.t, scores, NULL, text, NULL, NULL, NULL, 1, NULL, &err),
             QKV_ERR_UNSUPPORTED);
    CHECK(strstr(err.text, "qkv fill"));
    err = (qkv_error){ 0 };
    CHECK_EQ(qkv_perplexity(mlm.m, mlm.t, &p, "a b", 3, NULL, &err), QKV_ERR_UNSUPPORTED);
    CHECK(strstr(err.text, "an encoder"));
    closed(&b);
    closed(&mlm);
}

TEST(labels_of_a_text_do_not_depend_on_its_neighbours)
{
    enum { N = 3, LABELS = 3 };
    struct both b = opened(GOLDEN "net-labels");
    const char *const texts[] = { "a b c", "z", "q r s t" }, *const pairs[] = { "x", "y z", "w" };
    const char long_text[] = "a b c d e f g h i j k l m n o p q r s";
    const char *const long_one[] = { long_text };
    float all[N * LABELS], p[N * LABELS], one[LABELS], pair[N * LABELS];
    int64_t cut;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_model_info(b.m).labels, LABELS);
    CHECK_EQ(qkv_classify(b.m, b.t, all, p, texts, NULL, NULL, NULL, N, NULL, &err), QKV_OK);
    CHECK_EQ(qkv_classify(b.m, b.t, pair, NULL, texts, NULL, pairs, NULL, N, NULL, &err), QKV_OK);
    CHECK(memcmp(pair, all, sizeof pair) != 0);
    for (int i = 0; i < N; i++) {
        double sum = 0, powers = 0;
        CHECK_EQ(qkv_classify(b.m, b.t, one, NULL, texts + i, NULL, NULL, NULL, 1, NULL, &err),
                 QKV_OK);
        CHECK_BITS(one, all + i * LABELS, sizeof one);
        for (int k = 0; k < LABELS; k++) powers += exp((double)one[k]);
        for (int k = 0; k < LABELS; k++) {
            sum += (double)p[i * LABELS + k];
            CHECK_NEAR((double)p[i * LABELS + k], exp((double)one[k]) / powers, 1e-6);
        }
        CHECK_NEAR(sum, 1, 1e-6);
    }
    CHECK_EQ(qkv_classify(b.m, b.t, one, NULL, long_one, NULL, NULL, NULL, 1, NULL, &err),
             QKV_ERR_USAGE);
    const struct qkv_classify_options o = { .truncate = true, .cut = &cut };
    CHECK_EQ(qkv_classify(b.m, b.t, one, NULL, long_one, NULL, NULL, NULL, 1, &o, &err), QKV_OK);
    CHECK_EQ(cut, 19 + 2 - 16);
    closed(&b);
}

TEST(a_text_that_is_refused_is_named_by_its_index)
{
    struct both b = opened(GOLDEN "net-labels");
    const char *const texts[] = { "a b c", "z", "a b c d e f g h i j k l m n o p q r s" };
    float scores[9];
    int64_t failed;
    qkv_error err = { 0 };
    struct qkv_classify_options o = { .failed = &failed };
    CHECK_EQ(qkv_classify(b.m, b.t, scores, NULL, texts, NULL, NULL, NULL, 3, &o, &err),
             QKV_ERR_USAGE);
    CHECK_EQ(failed, 2);
    CHECK_TEXT(err.path, "text 3");
    CHECK_EQ(qkv_classify(b.m, b.t, scores, NULL, texts + 2, NULL, NULL, NULL, 1, &o, NULL),
             QKV_ERR_USAGE);
    CHECK_EQ(failed, 0);
    CHECK_EQ(qkv_classify(b.m, NULL, scores, NULL, texts + 2, NULL, NULL, NULL, 1, &o, &err),
             QKV_ERR_USAGE);
    CHECK_EQ(failed, -1); // the error is not about a text
    failed = 5;
    o.truncate = true;
    CHECK_EQ(qkv_classify(b.m, b.t, scores, NULL, texts, NULL, NULL, NULL, 3, &o, &err), QKV_OK);
    CHECK_EQ(failed, -1);
    closed(&b);
}

// ---- beam search and exhaustive search ----------------------------------------------------------
// A model of V tokens (0 ends a text) whose logits are a hash of all tokens of an item.
enum { V = 5, STEPS = 4, ITEMS = 1024 };
struct made {
    int32_t read[ITEMS][64];
    int64_t n[ITEMS];
};

static void made_logits(float *x, const int32_t *read, int64_t n)
{
    uint32_t words[4];
    uint64_t hash = 0;
    for (int64_t i = 0; i < n; i++) hash = hash * 31 + (uint64_t)read[i] + 1;
    for (int v = 0; v < V; v++) {
        qkv_philox(words, 6, hash, (uint64_t)v);
        x[v] = (float)(words[0] >> 8) / 4194304.0f;
    }
}
static qkv_status made_feed(void *ctx, float *logits, const struct qkv_decoder_tokens *t,
                            qkv_error *err)
{
    struct made *m = ctx;
    (void)err;
    for (int64_t i = 0; i < t->n; i++) {
        const int64_t item = t->items[i];
        for (int64_t k = t->offsets[i]; k < t->offsets[i + 1]; k++)
            m->read[item][m->n[item]++] = t->ids[k];
        made_logits(logits + i * V, m->read[item], m->n[item]);
    }
    return QKV_OK;
}
static qkv_status made_copy(void *ctx, const int64_t *to, const int64_t *from, int64_t n,
                            qkv_error *err)
{
    struct made *m = ctx;
    static struct made before;
    (void)err;
    before = *m;
    for (int64_t i = 0; i < n; i++) {
        memcpy(m->read[to[i]], before.read[from[i]], sizeof m->read[0]);
        m->n[to[i]] = before.n[from[i]];
    }
    return QKV_OK;
}
static qkv_status made_clear(void *ctx, int64_t item)
{
    ((struct made *)ctx)->n[item] = 0;
    return QKV_OK;
}

// Returns the best length-penalized score of all sequences that begin with read[n].
static double best_of_all(int32_t *read, int64_t n, int64_t length, double sum, double penalty)
{
    float x[V];
    double best = -(double)INFINITY;
    made_logits(x, read, n);
    const double all = qkv_sampling_log_sum(x, V);
    for (int v = 0; v < V; v++) {
        const double next = sum + (double)x[v] - all,
                     judged = next / pow((double)(length + 1), penalty);
        read[n] = v;
        const double here = v == 0 || length + 1 == STEPS
                                ? judged
                                : best_of_all(read, n + 1, length + 1, next, penalty);
        best = here > best ? here : best;
    }
    return best;
}

struct found {
    double score;
    int64_t n;
};
static int on_output(void *user, const struct qkv_generated *g)
{
    struct found *f = user;
    if (!f->n++) f->score = g->score;
    return 0;
}

TEST(beams_as_many_as_there_are_sequences_find_the_best_of_all)
{
    struct both b = opened(GOLDEN "net-bert");
    static struct made made;
    int32_t end = 0, read[64] = { 0 };
    const struct qkv_generation_config config = {
        .ends = &end, .end_count = 1, .start = -1, .forced_first = -1, .forced_last = -1
    };
    const struct qkv_logits_source source = { .V = V,
                                              .positions = 60,
                                              .feed = made_feed,
                                              .copy = made_copy,
                                              .clear = made_clear,
                                              .ctx = &made };
    static const double penalties[] = { 0, 1, 2 };
    const char *const prompt[] = { "a" }; // its tokens are below V: only [CLS] and [SEP]
    EACH(penalty, penalties)
    for (int64_t wide = 1; wide <= 3; wide++) {
        struct found found = { 0 };
        qkv_error err = { 0 };
        struct qkv_generate_request r = { .g = { .source = &source,
                                                 .tokenizer = b.t,
                                                 .config = &config,
                                                 .options = { .beams = wide == 3 ? 320 : 2 * wide,
                                                              .n_best = 2,
                                                              .max_tokens = STEPS,
                                                              .length_penalty = *penalty,
                                                              .early = QKV_EARLY_NEVER,
                                                              .output = on_output,
                                                              .user = &found },
                                                 .prompts = prompt,
                                                 .n = 1 },
                                          .items = ITEMS };
        if (qkv_generate_request(&r, &err)) fail_msg("%s", err.text);
        CHECK_EQ(found.n, 2);
        qkv_encoding e = { 0 };
        CHECK_EQ(qkv_tokenizer_encode(b.t, &e, "a", 1, NULL, 0, NULL, &err), QKV_OK);
        memcpy(read, e.ids, (size_t)e.count * sizeof *read);
        const double best = best_of_all(read, e.count, 0, 0, *penalty);
        qkv_encoding_free(&e);
        CHECK(found.score <= best + 1e-5);
        // sums of four log-probabilities in float
        if (wide == 3) CHECK_NEAR(found.score, best, 1e-5);
    }
    closed(&b);
}

// ---- which folder -------------------------------------------------------------------------------
TEST(the_first_folder_that_can_is_found)
{
    char dir[512], why[512];
    qkv_error err = { 0 };
    unsetenv("QKV_MODEL");
    CHECK_EQ(qkv_model_find_for(QKV_JOB_GENERATE, dir, sizeof dir, why, sizeof why, NULL, &err), 0);
    CHECK_TEXT(dir, "models/verse");
    CHECK(strstr(why, "generates"));
    CHECK_EQ(qkv_model_find_for(QKV_JOB_TRANSLATE, dir, sizeof dir, NULL, 0, NULL, &err), 0);
    CHECK_TEXT(dir, "models/dates");
    CHECK_EQ(qkv_model_find_for(QKV_JOB_FILL, dir, sizeof dir, NULL, 0, "/given", &err), 0);
    CHECK_TEXT(dir, "/given");
    CHECK_EQ(qkv_model_find_for((enum qkv_job)9, dir, sizeof dir, NULL, 0, NULL, &err),
             QKV_ERR_USAGE);
}

// ---- memory -------------------------------------------------------------------------------------
static qkv_status generate_all(void *ctx, qkv_error *err)
{
    const char *const prompts[] = { "In the", "And" };
    const char *const stops[] = { "XYZ" };
    const struct qkv_generate_options *o = ctx;
    struct qkv_generate_options how = *o;
    qkv_generator *g = NULL;
    how.stop = stops;
    how.stops = 1;
    how.max_tokens = 3;
    qkv_status status = qkv_generator_open(&g, "models/verse", NULL, err);
    if (!status) status = qkv_generate(g, prompts, NULL, 2, &how, err);
    qkv_generator_close(g);
    return status;
}

static qkv_status translate_all(void *ctx, qkv_error *err)
{
    const char *const source[] = { "3 May" };
    const struct qkv_generate_options how = { .max_tokens = 2, .alignment = true, .beams = 2 };
    qkv_translator *t = NULL;
    (void)ctx;
    qkv_status status = qkv_translator_open(&t, "models/dates", NULL, err);
    if (!status) status = qkv_translate(t, source, NULL, 1, &how, err);
    qkv_translator_close(t);
    return status;
}

// Fails every so many allocations; failing each would take minutes.
static void some_faults(faults_flow flow, void *ctx)
{
    int64_t last = 1;
    bool hit = true;
    for (int64_t n = 1; hit; n += 1 + n / 6) {
        qkv_error err = { 0 };
        faults_begin(n, true);
        const qkv_status status = flow(ctx, &err);
        const int64_t leaked = faults_end(&hit);
        if (leaked) fail_msg("allocation %d failing: %d blocks leaked", (int)n, (int)leaked);
        if (hit && status != QKV_ERR_LIMIT)
            fail_msg("allocation %d failing: %s %s", (int)n, qkv_status_name(status), err.text);
        last = n;
    }
    CHECK(last > 100);
}

TEST(memory_that_ends_is_survived)
{
    struct qkv_generate_options plain = {
        .logprobs = 2, .sampling = { .temperature = 1, .repetition = 1.1, .no_repeat_ngram = 2 }
    };
    struct qkv_generate_options beams = { .beams = 2,
                                          .sampling = { .presence = 1, .no_repeat_ngram = 2 } };
    some_faults(generate_all, &plain);
    some_faults(generate_all, &beams);
    some_faults(translate_all, NULL);
}

CHECK_MAIN(CASE(masks_are_filled_with_the_softmax_of_their_logits),
           CASE(what_a_model_cannot_do_is_refused_with_what_it_can),
           CASE(labels_of_a_text_do_not_depend_on_its_neighbours),
           CASE(a_text_that_is_refused_is_named_by_its_index),
           CASE(beams_as_many_as_there_are_sequences_find_the_best_of_all),
           CASE(the_first_folder_that_can_is_found), CASE(memory_that_ends_is_survived))
