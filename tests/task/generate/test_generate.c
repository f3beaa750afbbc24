// SPDX-License-Identifier: MIT
// test_generate.c: compares outputs of models/verse and models/dates with transformers
// (tests/golden/generate.json), and checks what an output must not depend on.
#include "check.h"
#include "base/base.h"
#include "model/folder.h"
#include <qkv/generate.h>

static const char verse[] = "models/verse", dates[] = "models/dates";

static qkv_generator *generator(int64_t items)
{
    qkv_error err = { 0 };
    qkv_generator *g = NULL;
    const struct qkv_generator_options o = { .items = items };
    if (qkv_generator_open(&g, verse, &o, &err)) fail_msg("%s", err.text);
    return g;
}

static qkv_translator *translator(void)
{
    qkv_error err = { 0 };
    qkv_translator *t = NULL;
    if (qkv_translator_open(&t, dates, NULL, &err)) fail_msg("%s", err.text);
    return t;
}

// The outputs of a call, in the order of delivery.
enum { OUTPUTS = 64, TEXT = 4096, TOKENS = 300 };
struct kept {
    int64_t n;
    struct {
        int64_t prompt, rank, tokens, prompt_tokens, cut, replaced, source_tokens;
        enum qkv_ending ending;
        double score;
        char text[TEXT];
        int32_t ids[TOKENS];
        float logprobs[TOKENS];
        float alignment[TOKENS];
    } at[OUTPUTS];
    // streamed tokens of prompt 0, rank 0
    int64_t tokens;
    char streamed[TEXT];
    int stop_at; // number of tokens after which the callback stops; 0: never
};
static struct kept kept, other;

static int keep(void *user, const struct qkv_generated *g)
{
    struct kept *k = user;
    if (k->n == OUTPUTS || g->bytes >= TEXT || g->tokens > TOKENS)
        fail_msg("more than was expected");
    __typeof__(&k->at[0]) o = &k->at[k->n++];
    memset(o, 0, sizeof *o);
    o->prompt = g->prompt;
    o->rank = g->rank;
    o->tokens = g->tokens;
    o->prompt_tokens = g->prompt_tokens;
    o->cut = g->cut;
    o->replaced = g->replaced;
    o->ending = g->ending;
    o->score = g->score;
    o->source_tokens = g->source_tokens;
    memcpy(o->text, g->text, g->bytes);
    memcpy(o->ids, g->ids, (size_t)g->tokens * sizeof *g->ids);
    if (g->logprobs) memcpy(o->logprobs, g->logprobs, (size_t)g->tokens * sizeof *g->logprobs);
    const int64_t rows = g->tokens + (g->ending == QKV_END_TOKEN);
    if (g->alignment && rows * g->source_tokens <= TOKENS)
        memcpy(o->alignment, g->alignment,
               (size_t)(rows * g->source_tokens) * sizeof *g->alignment);
    return 0;
}

static int stream(void *user, const struct qkv_generated_token *t)
{
    struct kept *k = user;
    if (t->prompt || t->rank) return 0;
    if (t->id >= 0) CHECK_EQ(t->position, k->tokens);
    k->tokens += t->id >= 0;
    const size_t used = strlen(k->streamed);
    if (used + t->bytes >= TEXT) fail_msg("more than was expected");
    memcpy(k->streamed + used, t->text, t->bytes);
    k->streamed[used + t->bytes] = 0;
    return k->stop_at && k->tokens >= k->stop_at;
}

static qkv_status generate(qkv_generator *g, const char *const *prompts, int64_t n,
                           struct qkv_generate_options o, struct kept *k, qkv_error *err)
{
    k->n = k->tokens = 0;
    k->streamed[0] = 0;
    o.output = keep;
    o.token = stream;
    o.user = k;
    *err = (qkv_error){ 0 };
    return qkv_generate(g, prompts, NULL, n, &o, err);
}

static void generated(qkv_generator *g, const char *const *prompts, int64_t n,
                      struct qkv_generate_options o, struct kept *k)
{
    qkv_error err;
    if (generate(g, prompts, n, o, k, &err)) fail_msg("%s %s", err.path, err.text);
}

static void translated(qkv_translator *t, const char *const *sources, int64_t n,
                       struct qkv_generate_options o, struct kept *k)
{
    qkv_error err = { 0 };
    k->n = 0;
    o.output = keep;
    o.user = k;
    if (qkv_translate(t, sources, NULL, n, &o, &err)) fail_msg("%s %s", err.path, err.text);
}

// ---- goldens ------------------------------------------------------------------------------------
static struct qkv_generate_options options_of(const json_t *s)
{
    struct qkv_generate_options o = { 0 };
    const char *early = json_string_value(json_object_get(s, "early"));
    const json_t *penalty = json_object_get(s, "length_penalty");
    o.max_tokens = json_integer_value(json_object_get(s, "max_tokens"));
    o.min_tokens = json_integer_value(json_object_get(s, "min_tokens"));
    o.beams = json_integer_value(json_object_get(s, "beams"));
    o.n_best = json_integer_value(json_object_get(s, "n_best"));
    o.sampling.repetition = json_number_value(json_object_get(s, "repetition"));
    o.sampling.no_repeat_ngram = json_integer_value(json_object_get(s, "no_repeat_ngram"));
    if (penalty) o.length_penalty = json_number_value(penalty);
    if (penalty && o.length_penalty == 0) o.length_penalty = -1;
    if (early) o.early = strcmp(early, "full") ? QKV_EARLY_NEVER : QKV_EARLY_FULL;
    return o;
}

// Makes a folder from one of tests/golden, with a tokenizer and the given generation_config.json;
// NULL: none.
static const char *made_folder(const char *name, const json_t *file)
{
    static const char *const parts[] = { "config.json", "model.safetensors", "tokenizer.json" };
    char here[2048], from[4096];
    const char *dir = folder_new();
    if (!getcwd(here, sizeof here)) fail_msg("no working directory");
    for (int i = 0; i < 3; i++) {
        if (i < 2)
            snprintf(from, sizeof from, "%s/tests/golden/%s/%s", here, name, parts[i]);
        else
            snprintf(from, sizeof from, "%s/tests/golden/text/letters.json", here);
        if (symlink(from, folder_name(parts[i]))) fail_msg("no link to %s", from);
    }
    if (json_is_object(file) && json_dump_file(file, folder_name("generation_config.json"), 0))
        fail_msg("no generation_config.json");
    return dir;
}

// Copies the outputs of one case to `kept`.
static void run_case(const json_t *c, const struct qkv_generate_options *o)
{
    const char *name = json_string_value(json_object_get(c, "model"));
    const char *prompt = json_string_value(json_object_get(c, "prompt"));
    const bool own = !strcmp(name, "verse") || !strcmp(name, "dates");
    qkv_error err = { 0 };
    qkv_generator *g = NULL;
    qkv_translator *t = NULL;
    char dir[512];
    if (own)
        snprintf(dir, sizeof dir, "models/%s", name);
    else
        snprintf(dir, sizeof dir, "%s", made_folder(name, json_object_get(c, "file")));
    if (!qkv_generator_open(&g, dir, NULL, &err)) {
        generated(g, &prompt, 1, *o, &kept);
    } else {
        err = (qkv_error){ 0 };
        if (qkv_translator_open(&t, dir, NULL, &err)) fail_msg("%s: %s", name, err.text);
        translated(t, &prompt, 1, *o, &kept);
    }
    qkv_generator_close(g);
    qkv_translator_close(t);
}

TEST(outputs_and_scores_are_those_of_transformers)
{
    qkv_error err = { 0 };
    json_t *cases = NULL;
    if (qkv_json_list_file(&cases, "tests/golden/generate.json", 1 << 20, &err))
        fail_msg("%s", err.text);
    CHECK(json_array_size(cases) > 20);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *want = json_object_get(c, "outputs");
        const struct qkv_generate_options o = options_of(json_object_get(c, "settings"));
        const char *name = json_string_value(json_object_get(c, "model"));
        run_case(c, &o);
        if (kept.n != (int64_t)json_array_size(want))
            fail_msg("case %d (%s): %d outputs", (int)i, name, (int)kept.n);
        for (int64_t r = 0; r < kept.n; r++) {
            const json_t *w = json_array_get(want, (size_t)r), *ids = json_object_get(w, "ids");
            const json_t *score = json_object_get(w, "score");
            bool same = kept.at[r].tokens == (int64_t)json_array_size(ids);
            for (int64_t k = 0; k < kept.at[r].tokens && same; k++)
                same = kept.at[r].ids[k] == json_integer_value(json_array_get(ids, (size_t)k));
            if (!same)
                fail_msg("case %d (%s), output %d: \"%s\", %d tokens", (int)i, name, (int)r,
                         kept.at[r].text, (int)kept.at[r].tokens);
            // logits differ by at most 1e-4; a score is a sum of at most 64 of them divided by the
            // length
            if (!json_is_null(score))
                CHECK_NEAR(kept.at[r].score, json_number_value(score),
                           2e-4 * (o.length_penalty ? 64 : 1));
        }
    }
    json_decref(cases);
}

// ---- laws ---------------------------------------------------------------------------------------
static const char *const prompts[] = { "In the beginning", "And", "The LORD said unto Moses,",
                                       "Blessed are", "" };
enum { PROMPTS = 5 };

TEST(an_output_does_not_depend_on_what_runs_beside_it)
{
    static const struct qkv_generate_options ways[] = {
        { .max_tokens = 12, .sampling = { .temperature = .9, .top_p = .9, .seed = 5 } },
        { .max_tokens = 9, .beams = 3, .n_best = 2 },
        { .max_tokens = 12, .logprobs = 3, .sampling.repetition = 1.2 },
    };
    static const int64_t places[] = { 2, 16, 1, 3 };
    EACH(o, ways)
    {
        bool first = true;
        EACH(items, places)
        {
            if (QKV_FEW && items - places > 1) break;
            qkv_generator *g = generator(*items);
            generated(g, prompts, PROMPTS, *o, first ? &kept : &other);
            CHECK_EQ(kept.n, PROMPTS * (o->n_best ? o->n_best : 1));
            if (!first) CHECK_BITS(kept.at, other.at, (size_t)kept.n * sizeof kept.at[0]);
            first = false;
            qkv_generator_close(g);
        }
        // alone as well: `first` numbers the prompts of several calls
        qkv_generator *g = generator(0);
        for (int64_t i = 0; i < PROMPTS; i++) {
            struct qkv_generate_options alone = *o;
            alone.first = i;
            generated(g, prompts + i, 1, alone, &other);
            for (int64_t r = 0; r < other.n; r++)
                CHECK_TEXT(other.at[r].text, kept.at[i * other.n + r].text);
        }
        qkv_generator_close(g);
    }
}

TEST(a_stream_is_the_text_of_its_output)
{
    qkv_generator *g = generator(0);
    const struct qkv_generate_options o = { .max_tokens = 30, .sampling = { .temperature = 2 } };
    generated(g, prompts, 1, o, &kept);
    CHECK_TEXT(kept.streamed, kept.at[0].text);
    CHECK_EQ(kept.tokens, kept.at[0].tokens);
    qkv_generator_close(g);
}

TEST(minus_one_is_no_limit_in_spite_of_the_file)
{
    json_t *file = json_pack("{sbsisfsfsf}", "do_sample", 1, "top_k", 2, "temperature", .9, "top_p",
                             .99, "min_p", .3);
    qkv_generator *g = NULL;
    qkv_error err = { 0 };
    struct qkv_generate_options o = { .max_tokens = 20, .sampling = { .seed = 3 } }, own = o;
    if (qkv_generator_open(&g, made_folder("gpt2", file), NULL, &err)) fail_msg("%s", err.text);
    own.own_sampling = true;
    own.sampling.temperature = .9;
    own.sampling.top_p = .99;
    for (int free = 0; free < 4; free++) { // top_k, min_p: from the file or without a limit
        o.sampling.top_k = free & 1 ? -1 : 0;
        o.sampling.min_p = free & 2 ? -1 : 0;
        own.sampling.top_k = free & 1 ? 0 : 2;
        own.sampling.min_p = free & 2 ? 0 : .3;
        generated(g, prompts, 1, o, &kept);
        generated(g, prompts, 1, own, &other);
        CHECK_TEXT(kept.at[0].text, other.at[0].text);
    }
    own.sampling.top_k = -1; // also where the file is not read
    own.sampling.min_p = -1;
    generated(g, prompts, 1, own, &other);
    CHECK_TEXT(kept.at[0].text, other.at[0].text);
    own.sampling.top_k = 2;
    generated(g, prompts, 1, own, &other);
    CHECK(strcmp(kept.at[0].text, other.at[0].text) != 0);
    qkv_generator_close(g);
    json_decref(file);
}

TEST(draws_of_one_prompt_differ_and_come_again)
{
    qkv_generator *g = generator(2);
    const struct qkv_generate_options o = { .max_tokens = 8,
                                            .n_best = 3,
                                            .sampling = { .temperature = 1, .seed = 1 } };
    generated(g, prompts, 1, o, &kept);
    generated(g, prompts, 1, o, &other);
    CHECK_EQ(kept.n, 3);
    for (int64_t i = 0; i < 3; i++) {
        CHECK_EQ(kept.at[i].rank, i);
        CHECK_TEXT(kept.at[i].text, other.at[i].text);
    }
    CHECK(strcmp(kept.at[0].text, kept.at[1].text) != 0);
    qkv_generator_close(g);
}

TEST(a_stop_string_ends_an_output_and_is_never_shown)
{
    qkv_generator *g = generator(0);
    const struct qkv_generate_options o = { .max_tokens = 30 };
    generated(g, prompts, 1, o, &kept);
    const char *text = kept.at[0].text;
    CHECK(strlen(text) > 20);
    for (size_t at = 3; at < 20; at += QKV_FEW ? 8 : 4) { // wherever token borders are
        char stop[6] = "";
        memcpy(stop, text + at, 5);
        const size_t want = (size_t)(strstr(text, stop) - text);
        const char *const stops[] = { stop };
        struct qkv_generate_options with = o;
        with.stop = stops;
        with.stops = 1;
        for (int64_t beams = 0; beams < 1; beams++) {
            generated(g, prompts, 1, with, &other);
            CHECK_EQ(other.at[0].ending, QKV_END_STOP);
            CHECK_EQ(strlen(other.at[0].text), want);
            CHECK(!memcmp(other.at[0].text, text, want));
            CHECK_TEXT(other.streamed, other.at[0].text);
        }
        with.beams = 2;
        generated(g, prompts, 1, with, &other);
        CHECK(!strstr(other.at[0].text, stop));
    }
    qkv_generator_close(g);
}

TEST(a_prefix_begins_every_output)
{
    qkv_generator *g = generator(0);
    struct qkv_generate_options o = { .max_tokens = 5, .prefix = " God created" };
    generated(g, prompts, 1, o, &kept);
    CHECK(!strncmp(kept.at[0].text, " God created", 12) && strlen(kept.at[0].text) > 12);
    CHECK_TEXT(kept.streamed, kept.at[0].text);
    const char *const whole[] = { "In the beginning God created" };
    o.prefix = NULL;
    generated(g, whole, 1, o, &other);
    CHECK_TEXT(other.at[0].text, kept.at[0].text + 12);
    qkv_generator_close(g);
    qkv_translator *t = translator();
    const char *const source[] = { "the third of May 1987" };
    const struct qkv_generate_options p = { .prefix = "19" };
    translated(t, source, 1, p, &kept);
    CHECK_TEXT(kept.at[0].text, "1987-05-03");
    qkv_translator_close(t);
}

TEST(logprobs_are_those_of_the_model)
{
    qkv_generator *g = generator(0);
    struct qkv_generate_options o = { .max_tokens = 6, .logprobs = 2 };
    generated(g, prompts, 1, o, &kept);
    double sum = 0;
    for (int64_t i = 0; i < 6; i++) {
        CHECK(kept.at[0].logprobs[i] < 0);
        sum += (double)kept.at[0].logprobs[i];
    }
    o.beams = 2; // its best output has at least the score of the greedy one
    generated(g, prompts, 1, o, &other);
    double beams = 0;
    for (int64_t i = 0; i < other.at[0].tokens; i++) beams += (double)other.at[0].logprobs[i];
    CHECK_NEAR(beams / (double)other.at[0].tokens, other.at[0].score, 1e-5);
    CHECK(other.at[0].score >= sum / 6 - 1e-6);
    qkv_generator_close(g);
}

// ---- prompts ------------------------------------------------------------------------------------
static char *repeated(const char *word, int64_t times)
{
    const size_t n = strlen(word);
    char *text = malloc(n * (size_t)times + 1);
    if (!text) fail_msg("no memory");
    for (int64_t i = 0; i < times; i++) memcpy(text + (size_t)i * n, word, n);
    text[n * (size_t)times] = 0;
    return text;
}

TEST(a_prompt_past_the_positions_is_refused_or_cut)
{
    qkv_error err;
    qkv_generator *g = generator(0);
    char *text = repeated(" the", 400);
    const char *const long_one[] = { text };
    struct qkv_generate_options o = { .max_tokens = 10 };
    CHECK_EQ(generate(g, long_one, 1, o, &kept, &err), QKV_ERR_USAGE);
    CHECK_TEXT(err.text, "prompt too long, expected at most 255 tokens, found 401");
    o.truncate = true;
    generated(g, long_one, 1, o, &kept);
    CHECK_EQ(kept.at[0].prompt_tokens, 246); // leaves space for the requested tokens
    CHECK_EQ(kept.at[0].cut, 401 - 246);
    CHECK_EQ(kept.at[0].ending, QKV_END_TOKENS);
    free(text);
    text = repeated(" the", 250);
    const char *const shorter[] = { "And", text };
    o = (struct qkv_generate_options){ .max_tokens = 10, .ignore_end = true };
    generated(g, shorter, 2, o, &kept);
    CHECK_EQ(kept.at[1].ending, QKV_END_POSITIONS);
    CHECK_EQ(kept.at[1].tokens, 256 - 251);
    free(text);
    qkv_generator_close(g);
}

TEST(a_prompt_of_100_MB_is_refused_by_its_beginning)
{
    qkv_error err;
    qkv_generator *g = generator(0);
    char *text = repeated("many words ", 100000000 / 11);
    const char *const two[] = { "And", text };
    CHECK_EQ(generate(g, two, 2, (struct qkv_generate_options){ .max_tokens = 1 }, &kept, &err),
             QKV_ERR_USAGE);
    CHECK(strstr(err.text, "prompt too long, expected at most 255 tokens, found more than "));
    CHECK_TEXT(err.path, "prompt 2");
    free(text);
    qkv_generator_close(g);
}

TEST(invalid_UTF_8_is_told_or_refused_and_never_comes_out)
{
    qkv_error err;
    qkv_generator *g = generator(0);
    const char *const bad[] = { "In \xff\xc0 the" };
    struct qkv_generate_options o = { .max_tokens = 40, .sampling = { .temperature = 5 } };
    generated(g, bad, 1, o, &kept);
    CHECK_EQ(kept.at[0].replaced, 2);
    const char *text = kept.at[0].text;
    for (size_t left = strlen(text); left;) {
        const size_t n = qkv_utf8_bytes(text, left);
        CHECK(n > 0);
        text += n;
        left -= n;
    }
    CHECK_TEXT(kept.streamed, kept.at[0].text);
    o.strict = true;
    CHECK_EQ(generate(g, bad, 1, o, &kept, &err), QKV_ERR_FORMAT);
    qkv_generator_close(g);
}

// ---- refusals -----------------------------------------------------------------------------------
TEST(options_out_of_range_are_refused_by_name)
{
    static const struct {
        struct qkv_generate_options o;
        const char *name;
        qkv_status status;
    } bad[] = {
        { { .sampling.top_p = 2 }, "top_p", QKV_ERR_USAGE },
        { { .beams = -1 }, "beams", QKV_ERR_USAGE },
        { { .beams = 5000 }, "beams", QKV_ERR_USAGE },
        { { .beams = 2, .n_best = 3 }, "n_best", QKV_ERR_USAGE },
        { { .n_best = 3 }, "n_best", QKV_ERR_USAGE },
        { { .max_tokens = -2 }, "max_tokens is out of range, expected -1 to", QKV_ERR_USAGE },
        { { .max_tokens = -1, .beams = 2 },
          "max_tokens is out of range, expected 0 to",
          QKV_ERR_USAGE },
        { { .min_tokens = -5 }, "min_tokens", QKV_ERR_USAGE },
        { { .logprobs = 1001 }, "logprobs", QKV_ERR_USAGE },
        { { .length_penalty = NAN }, "length_penalty", QKV_ERR_USAGE },
        { { .early = (enum qkv_early)7 }, "early", QKV_ERR_USAGE },
        { { .stops = 1 }, "stop", QKV_ERR_USAGE },
        { { .alignment = true }, "cross-attention", QKV_ERR_UNSUPPORTED },
    };
    qkv_error err;
    qkv_generator *g = generator(0);
    EACH(b, bad)
    {
        CHECK_EQ(generate(g, prompts, 1, b->o, &kept, &err), b->status);
        if (!strstr(err.text, b->name)) fail_msg("%s, expected %s in it", err.text, b->name);
    }
    qkv_generator_close(g);
}

TEST(another_kind_of_model_is_named_with_what_fits)
{
    qkv_error err = { 0 };
    qkv_generator *g = NULL;
    qkv_translator *t = NULL;
    CHECK_EQ(qkv_generator_open(&g, dates, NULL, &err), QKV_ERR_UNSUPPORTED);
    CHECK(!g && strstr(err.text, "an encoder-decoder") && strstr(err.text, "qkv translate"));
    err = (qkv_error){ 0 };
    CHECK_EQ(qkv_translator_open(&t, verse, NULL, &err), QKV_ERR_UNSUPPORTED);
    CHECK(!t && strstr(err.text, "a decoder") && strstr(err.text, "qkv generate"));
    err = (qkv_error){ 0 };
    CHECK_EQ(qkv_translator_open(&t, "tests/golden/t5-questions", NULL, &err), QKV_ERR_UNSUPPORTED);
    CHECK(!t && strstr(err.text, "found the class T5ForQuestionAnswering"));
    err = (qkv_error){ 0 };
    CHECK_EQ(qkv_generator_open(&g, "tests/golden/bert", NULL, &err), QKV_ERR_UNSUPPORTED);
    CHECK(!g && strstr(err.text, "an encoder"));
}

TEST(a_callback_stops_the_call)
{
    qkv_error err;
    qkv_generator *g = generator(0);
    kept.stop_at = 3;
    const struct qkv_generate_options o = { .max_tokens = 50 };
    CHECK_EQ(generate(g, prompts, 1, o, &kept, &err), QKV_ERR_INTERRUPTED);
    CHECK_EQ(kept.tokens, 3);
    kept.stop_at = 0;
    generated(g, prompts, 1, (struct qkv_generate_options){ .max_tokens = 3 }, &kept);
    qkv_generator_close(g);
}

// ---- alignment ----------------------------------------------------------------------------------
TEST(an_alignment_has_a_row_of_weights_for_each_token)
{
    qkv_translator *t = translator();
    const char *const source[] = { "3 May 1987" };
    translated(t, source, 1, (struct qkv_generate_options){ .alignment = true }, &kept);
    CHECK_TEXT(kept.at[0].text, "1987-05-03");
    const int64_t n = kept.at[0].source_tokens, rows = kept.at[0].tokens + 1;
    CHECK_EQ(n, 11);
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += (double)kept.at[0].alignment[r * n + i];
        CHECK_NEAR(sum, 1, 1e-5); // a softmax of 11 floats, averaged over heads
    }
    qkv_translator_close(t);
}

// ---- perplexity ---------------------------------------------------------------------------------
TEST(perplexity_is_the_formula_over_windows)
{
    enum { WINDOW = 20, STRIDE = 7 };
    const char text[] = "In the beginning God created the heaven and the earth. And the earth was "
                        "without form, and void; and darkness was upon the face of the deep.";
    qkv_error err = { 0 };
    qkv_model *m = NULL;
    qkv_tokenizer *t = NULL;
    qkv_encoding e = { 0 };
    struct qkv_perplexity p;
    CHECK(!qkv_model_open(&m, verse, NULL, &err) && !qkv_tokenizer_open(&t, verse, &err));
    CHECK(!qkv_tokenizer_encode(t, &e, text, strlen(text), NULL, 0, NULL, &err));
    const struct qkv_model_info info = qkv_model_info(m);
    float *hidden = malloc((size_t)(WINDOW * info.width) * sizeof *hidden);
    float *logits = malloc((size_t)(WINDOW * info.vocab) * sizeof *logits);
    double sum = 0;
    int64_t targets = 0, next = 1, windows = 0;
    for (int64_t begin = 0; next < e.count; begin += STRIDE) {
        const int64_t to = qkv_min64(begin + WINDOW, e.count), offsets[] = { 0, to - begin };
        const struct qkv_model_input in = { .sequences = 1,
                                            .offsets = offsets,
                                            .ids = e.ids + begin };
        CHECK(!qkv_model_run(m, hidden, &in, NULL, &err));
        CHECK(!qkv_model_logits(m, logits, hidden, to - begin, &err));
        for (; next < to; next++, targets++) {
            const float *x = logits + (next - 1 - begin) * info.vocab;
            double all = 0;
            for (int64_t v = 0; v < info.vocab; v++) all += exp((double)x[v]);
            sum += log(all) - (double)x[e.ids[next]];
        }
        windows++;
    }
    const struct qkv_perplexity_options o = { .window = WINDOW, .stride = STRIDE };
    CHECK_EQ(qkv_perplexity(m, t, &p, text, strlen(text), &o, &err), QKV_OK);
    CHECK_EQ(p.targets, targets);
    CHECK_EQ(p.targets, e.count - 1);
    CHECK_EQ(p.windows, windows);
    CHECK_NEAR(p.loss, sum / (double)targets, 1e-9);
    CHECK_NEAR(p.perplexity, exp(p.loss), 1e-9 * p.perplexity);
    CHECK_NEAR(p.bits_per_byte, sum / log(2) / (double)strlen(text), 1e-9);
    free(hidden);
    free(logits);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
    qkv_model_close(m);
}

CHECK_MAIN(CASE(outputs_and_scores_are_those_of_transformers),
           CASE(an_output_does_not_depend_on_what_runs_beside_it),
           CASE(a_stream_is_the_text_of_its_output),
           CASE(minus_one_is_no_limit_in_spite_of_the_file),
           CASE(draws_of_one_prompt_differ_and_come_again),
           CASE(a_stop_string_ends_an_output_and_is_never_shown),
           CASE(a_prefix_begins_every_output), CASE(logprobs_are_those_of_the_model),
           CASE(a_prompt_past_the_positions_is_refused_or_cut),
           CASE(a_prompt_of_100_MB_is_refused_by_its_beginning),
           CASE(invalid_UTF_8_is_told_or_refused_and_never_comes_out),
           CASE(options_out_of_range_are_refused_by_name),
           CASE(another_kind_of_model_is_named_with_what_fits), CASE(a_callback_stops_the_call),
           CASE(an_alignment_has_a_row_of_weights_for_each_token),
           CASE(perplexity_is_the_formula_over_windows))
