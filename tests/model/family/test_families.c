// SPDX-License-Identifier: MIT
// test_families.c: compares small random models of every family with transformers
// (tools/golden_families.py): every hidden state, every attention matrix, logits, scores of labels,
// greedy continuations; and checks that decoding token by token gives the bits of a run over all
// tokens.
#include "model/model_internal.h"
#include "model/tiny.h"

// Compares one array with the reference, if its folder has it; returns the largest difference.
static double compare(const char *name, const struct tiny *t, const char *what, const float *x,
                      int64_t n, double tolerance)
{
    char label[128];
    if (!tiny_has(t, what)) return 0;
    const float *want = golden_get(t->golden, NULL, what, QKV_F32, n);
    snprintf(label, sizeof label, "%s, %s", name, what);
    golden_check_full(label, x, want, n, tolerance);
    return golden_worst(x, want, n);
}

TEST(every_number_is_the_reference_s)
{
    EACH_TINY(name)
    {
        struct tiny t = open_tiny(*name, QKV_PRECISION_F32);
        const double most = tiny_tolerance(&t, false), exact = tiny_tolerance(&t, true);
        struct golden_seen k = golden_run(t.model, tiny_input(&t));
        const struct golden_stack *s = &k.source;
        const int64_t layers = golden_layers(&k.info), H = k.info.heads;
        double hidden = compare(*name, &t, "hidden", k.hidden, (layers + 1) * t.R * k.D, most);
        double weights = compare(*name, &t, "attention", k.weights, layers * H * t.R * k.S, exact);
        if (s->hidden) {
            const double h =
                compare(*name, &t, "source.hidden", s->hidden, (s->layers + 1) * s->R * k.D, most);
            const double a = compare(*name, &t, "source.attention", s->weights,
                                     s->layers * H * s->R * s->S, exact);
            const double c = compare(*name, &t, "cross", k.cross, layers * H * t.R * s->S, exact);
            hidden = fmax(hidden, h);
            weights = fmax(weights, fmax(a, c));
        }
        printf("%-18s hidden %.2g, attention %.2g at most from the reference\n", *name, hidden,
               weights);
        golden_free(&k);
        close_tiny(&t);
    }
}

TEST(logits_are_the_reference_s)
{
    EACH_TINY(name)
    {
        struct tiny t = open_tiny(*name, QKV_PRECISION_F32);
        const struct qkv_tensor *want = golden_find(t.golden, NULL, "logits");
        if (want) {
            const int64_t V = want->shape[1];
            float *hidden = golden_floats(t.R * t.info.width), *logits = golden_floats(t.R * V);
            qkv_error err = { 0 };
            CHECK(t.info.can & QKV_CAN_TOKENS);
            CHECK_EQ(V, t.info.vocab);
            if (qkv_model_run(t.model, hidden, tiny_input(&t), NULL, &err) ||
                qkv_model_logits(t.model, logits, hidden, t.R, &err))
                fail_msg("%s: %s %s", *name, err.path, err.text);
            printf("%-18s logits %.2g at most from the reference\n", *name,
                   compare(*name, &t, "logits", logits, t.R * V, tiny_tolerance(&t, false)));
            free(hidden);
            free(logits);
        }
        close_tiny(&t);
    }
}

// Checks the names of labels against config.json.
static void check_labels(const char *name, const struct tiny *t)
{
    struct qkv_config c;
    qkv_error err = { 0 };
    char key[32];
    CHECK_EQ(qkv_config_open(&c, tiny_path(name, ""), &err), QKV_OK);
    const json_t *names = json_object_get(c.root, "id2label");
    CHECK_EQ(json_object_size(names), t->info.labels);
    for (int64_t i = 0; i < t->info.labels; i++) {
        snprintf(key, sizeof key, "%lld", (long long)i);
        CHECK_TEXT(qkv_model_label(t->model, i), json_string_value(json_object_get(names, key)));
    }
    CHECK(!qkv_model_label(t->model, -1) && !qkv_model_label(t->model, t->info.labels));
    qkv_config_close(&c);
}

TEST(scores_of_labels_are_the_reference_s)
{
    EACH_TINY(name)
    {
        struct tiny t = open_tiny(*name, QKV_PRECISION_F32);
        const struct qkv_tensor *want = golden_find(t.golden, NULL, "scores");
        if (want) {
            float scores[3 * 8] = { 0 };
            qkv_error err = { 0 };
            CHECK(t.info.can & QKV_CAN_LABELS);
            CHECK_EQ(want->shape[1], t.info.labels);
            CHECK(t.info.labels <= 8);
            if (qkv_model_classify(t.model, scores, t.source.ids ? &t.source : &t.in, &err))
                fail_msg("%s: %s %s", *name, err.path, err.text);
            printf(
                "%-18s scores %.2g at most from the reference\n", *name,
                compare(*name, &t, "scores", scores, 3 * t.info.labels, tiny_tolerance(&t, false)));
            check_labels(*name, &t);
        }
        close_tiny(&t);
    }
}

TEST(scores_of_the_labels_of_tokens_are_the_reference_s)
{
    int found = 0;
    EACH_TINY(name)
    {
        struct tiny t = open_tiny(*name, QKV_PRECISION_F32);
        const struct qkv_tensor *want = golden_find(t.golden, NULL, "token_scores");
        CHECK_EQ(want != NULL, (t.info.can & QKV_CAN_TOKEN_LABELS) != 0);
        if (want) {
            const int64_t N = want->shape[1];
            float *scores = golden_floats(t.R * N);
            qkv_error err = { 0 };
            CHECK_EQ(N, t.info.labels);
            CHECK(!(t.info.can & (QKV_CAN_LABELS | QKV_CAN_TOKENS)));
            if (qkv_model_classify_tokens(t.model, scores, &t.in, &err))
                fail_msg("%s: %s %s", *name, err.path, err.text);
            printf("%-24s scores %.2g at most from the reference\n", *name,
                   compare(*name, &t, "token_scores", scores, t.R * N, tiny_tolerance(&t, false)));
            check_labels(*name, &t);
            // labels of texts are another head
            CHECK_EQ(qkv_model_classify(t.model, scores, &t.in, &err), QKV_ERR_UNSUPPORTED);
            free(scores);
            found++;
        }
        close_tiny(&t);
    }
    CHECK(found >= 9 || getenv("QKV_GOLDEN"));
}

// Padding rows contain 0, and the other rows do not depend on them.
TEST(padding_has_no_labels)
{
    if (getenv("QKV_GOLDEN")) return; // a folder of other models
    struct tiny t = open_tiny("bert-token-labels", QKV_PRECISION_F32);
    const int64_t N = t.info.labels, lengths[3] = { 5, 1, 13 };
    struct qkv_model_input in = t.in;
    float *all = golden_floats(t.R * N), *some = golden_floats(t.R * N);
    in.lengths = lengths;
    CHECK_EQ(qkv_model_classify_tokens(t.model, all, &t.in, NULL), QKV_OK);
    CHECK_EQ(qkv_model_classify_tokens(t.model, some, &in, NULL), QKV_OK);
    for (int64_t i = 5 * N; i < 7 * N; i++) CHECK(some[i] == 0 && all[i] != 0);
    CHECK_BITS(some + 7 * N, all + 7 * N, (size_t)(t.R - 7) * (size_t)N * sizeof *all);
    free(all);
    free(some);
    close_tiny(&t);
}

// The ids lie before a page that cannot be read.
TEST(offsets_and_lengths_beyond_the_ids_are_refused_before_an_id_is_read)
{
    static const char *const names[] = { "llama-labels", "bart-labels" };
    if (getenv("QKV_GOLDEN")) return;
    for (int i = 0; i < 2; i++) {
        struct tiny t = open_tiny(names[i], QKV_PRECISION_F32);
        int32_t *ids = fenced(3 * sizeof *ids);
        const int64_t far[] = { 0, INT64_C(1) << 40, 3 }, back[] = { 0, -4, 3 },
                      plain[] = { 0, 2, 3 };
        const int64_t lengths[] = { INT64_C(1) << 40, 1 };
        const struct qkv_model_input in[] = {
            { .ids = ids, .offsets = far, .sequences = 2 },
            { .ids = ids, .offsets = back, .sequences = 2 },
            { .ids = ids, .offsets = plain, .sequences = 2, .lengths = lengths },
        };
        float *scores = golden_floats(2 * t.info.labels);
        for (int k = 0; k < 3; k++) ids[k] = (int32_t)t.info.pad;
        for (int k = 0; k < 3; k++)
            CHECK_EQ(qkv_model_classify(t.model, scores, &in[k], NULL), QKV_ERR_USAGE);
        free(scores);
        close_tiny(&t);
    }
}

// ---- token by token ----------------------------------------------------------------------------
static qkv_decoder *decoder_of(const char *name, struct tiny *t, int64_t chunk)
{
    const struct qkv_decoder_options o = { .items = 3, .chunk = chunk };
    qkv_decoder *d = NULL;
    qkv_error err = { 0 };
    if (qkv_decoder_new(&d, t->model, &o, &err)) fail_msg("%s: %s", name, err.text);
    if (t->source.ids && qkv_decoder_source(d, 0, &t->source, &err))
        fail_msg("%s: %s", name, err.text);
    return d;
}
static void feed(const char *name, qkv_decoder *d, float *logits,
                 const struct qkv_decoder_tokens *tokens)
{
    qkv_error err = { 0 };
    if (qkv_decoder_feed(d, logits, tokens, &err)) fail_msg("%s: %s", name, err.text);
}
static int32_t largest(const float *x, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return (int32_t)best;
}

TEST(the_largest_logit_goes_on_as_in_the_reference)
{
    EACH_TINY(name)
    {
        struct tiny t = open_tiny(*name, QKV_PRECISION_F32);
        const struct qkv_tensor *want = golden_find(t.golden, NULL, "greedy");
        if (want) {
            const int64_t V = t.info.vocab, steps = want->shape[1];
            const int32_t *made = golden_get(t.golden, NULL, "greedy", QKV_I32, 3 * steps);
            const int32_t start[3] = { t.in.ids[0], t.in.ids[0], t.in.ids[0] };
            qkv_decoder *d = decoder_of(*name, &t, 5);
            float *logits = golden_floats(3 * V);
            struct qkv_decoder_tokens tokens = { .n = 3, .offsets = t.in.offsets, .ids = t.in.ids };
            if (t.source.ids) { // begins with only its start token
                CHECK_EQ(t.info.start, start[0]);
                tokens = (struct qkv_decoder_tokens){ .n = 3, .ids = start };
            }
            int32_t next[3];
            for (int64_t i = 0; i < steps; i++) {
                feed(*name, d, logits, &tokens);
                for (int64_t n = 0; n < 3; n++) {
                    next[n] = largest(logits + n * V, V);
                    if (next[n] != made[n * steps + i])
                        fail_msg("%s: text %d continues with %d at step %d, expected %d", *name,
                                 (int)n, (int)next[n], (int)i, (int)made[n * steps + i]);
                }
                tokens = (struct qkv_decoder_tokens){ .n = 3, .ids = next };
            }
            free(logits);
            qkv_decoder_free(d);
        }
        close_tiny(&t);
    }
}

// Writes the tokens of an item: text i of the folder and the continuation of the reference.
static int64_t whole_text(int32_t *out, const struct tiny *t, int64_t i)
{
    const struct qkv_tensor *want = golden_find(t->golden, NULL, "greedy");
    const int64_t steps = want->shape[1], n = t->in.offsets[i + 1] - t->in.offsets[i];
    const int32_t *made = want->data;
    memcpy(out, t->in.ids + t->in.offsets[i], (size_t)n * sizeof *out);
    memcpy(out + n, made + i * steps, (size_t)(steps - 1) * sizeof *out);
    return n + steps - 1;
}

// Compares the run over all tokens, a decoder that receives them in pieces of 7, and one that
// receives them one by one.
TEST(token_by_token_has_the_bits_of_all_at_once)
{
    EACH_TINY(name)
    {
        struct tiny t = open_tiny(*name, QKV_PRECISION_F32);
        if (tiny_has(&t, "greedy")) {
            const int64_t V = t.info.vocab, D = t.info.width;
            for (int64_t i = 0; i < 3; i++) {
                int32_t ids[160];
                const int64_t n = whole_text(ids, &t, i), two[2] = { 0, n };
                const int64_t at = t.source.ids ? t.source.offsets[i] : 0;
                const int64_t own[2] = { 0, t.source.ids ? t.source.offsets[i + 1] - at : 0 };
                const struct qkv_model_input source = { .sequences = 1,
                                                        .offsets = own,
                                                        .ids = t.source.ids + at };
                const struct qkv_model_input in = { .sequences = 1,
                                                    .offsets = two,
                                                    .ids = ids,
                                                    .source = t.source.ids ? &source : NULL };
                float *hidden = golden_floats(n * D), *all = golden_floats(n * V);
                float *pieces = golden_floats(n * V), *single = golden_floats(V);
                qkv_error err = { 0 };
                if (qkv_model_run(t.model, hidden, &in, NULL, &err) ||
                    qkv_model_logits(t.model, all, hidden, n, &err))
                    fail_msg("%s: %s", *name, err.text);
                qkv_decoder *d = decoder_of(*name, &t, 7), *one = decoder_of(*name, &t, 0);
                const struct qkv_decoder_tokens tokens = {
                    .n = 1, .items = &i, .offsets = two, .ids = ids, .every = true
                };
                feed(*name, d, pieces, &tokens);
                CHECK_BITS(pieces, all, (size_t)(n * V) * sizeof *all);
                for (int64_t r = 0; r < n; r++) {
                    const struct qkv_decoder_tokens next = { .n = 1, .items = &i, .ids = ids + r };
                    feed(*name, one, single, &next);
                    CHECK_BITS(single, all + r * V, (size_t)V * sizeof *all);
                }
                qkv_decoder_free(d);
                qkv_decoder_free(one);
                free(hidden);
                free(all);
                free(pieces);
                free(single);
            }
        }
        close_tiny(&t);
    }
}

CHECK_MAIN(CASE(every_number_is_the_reference_s), CASE(logits_are_the_reference_s),
           CASE(scores_of_labels_are_the_reference_s),
           CASE(scores_of_the_labels_of_tokens_are_the_reference_s), CASE(padding_has_no_labels),
           CASE(offsets_and_lengths_beyond_the_ids_are_refused_before_an_id_is_read),
           CASE(the_largest_logit_goes_on_as_in_the_reference),
           CASE(token_by_token_has_the_bits_of_all_at_once))
