// SPDX-License-Identifier: MIT
// test_prompt_logprobs.c: compares the log-probabilities of the tokens of a prompt with the logits
// of a decoder after every token, and checks that other prompts do not change their bits.
#include "check.h"
#include "base/base.h"
#include <qkv/decode.h>
#include <qkv/scheduler.h>

enum { TOKENS = 256, TOPS = 3, TEXT = 4096, PROMPTS = 5 };
struct result {
    int64_t n, offset[TOKENS];
    int32_t id[TOKENS];
    float logprob[TOKENS];
    struct qkv_token_value top[TOKENS][TOPS];
    int64_t outputs, tokens, cut;
    enum qkv_ending ending;
    float last;     // log-probability of the last generated token
    int stop_after; // tokens of the prompt after which the callback ends the call; 0: never
    qkv_status failed;
    char text[TEXT];
};

static int take_prompt(void *user, const struct qkv_generated_token *t)
{
    struct result *r = user;
    CHECK(r->n < TOKENS && !r->tokens);
    CHECK_EQ(t->position, r->n);
    CHECK(!t->bytes && !*t->text);
    CHECK_EQ(t->tops, r->n ? TOPS : 0);
    CHECK(r->n ? t->logprob <= 0 : isnan(t->logprob));
    if (r->n) memcpy(r->top[r->n], t->top, sizeof r->top[r->n]);
    r->id[r->n] = t->id;
    r->offset[r->n] = t->offset;
    r->logprob[r->n++] = t->logprob;
    return r->stop_after && r->n == r->stop_after;
}

static int take_token(void *user, const struct qkv_generated_token *t)
{
    struct result *r = user;
    r->tokens += t->id >= 0;
    return 0;
}

static int take_output(void *user, const struct qkv_generated *g)
{
    struct result *r = user;
    CHECK(g->bytes < TEXT);
    if (g->rank == 0) memcpy(r->text, g->text, g->bytes + 1);
    if (g->rank == 0 && g->tokens) r->last = g->logprobs[g->tokens - 1];
    r->ending = g->ending;
    r->cut = g->cut;
    r->outputs++;
    CHECK_EQ(g->prompt_tokens, r->n);
    return 0;
}

static struct qkv_generate_options options(struct result *r, int64_t tokens)
{
    return (struct qkv_generate_options){ .max_tokens = tokens,
                                          .logprobs = TOPS,
                                          .prompt_token = take_prompt,
                                          .token = take_token,
                                          .output = take_output,
                                          .user = r };
}

static qkv_generator *open_verse(void)
{
    qkv_generator *g = NULL;
    qkv_error err = { 0 };
    if (qkv_generator_open(&g, "models/verse", NULL, &err)) fail_msg("%s", err.text);
    return g;
}

static void generate(qkv_generator *g, const char *prompt, struct qkv_generate_options o)
{
    qkv_error err = { 0 };
    if (qkv_generate(g, &prompt, NULL, 1, &o, &err)) fail_msg("%s", err.text);
}

// A prompt of about 200 tokens.
static const char *long_prompt(void)
{
    static char text[TEXT];
    static const char *const words[] = { " king", " water", " light", " house", " people", "." };
    *text = 0;
    for (size_t i = 0; i < 180; i++) strcat(text, words[(i * i + i / 5) % 6]);
    return text;
}

static const char *prompt_of(int i)
{
    static const char *const short_ones[] = { "In the beginning", "Caf\xc3\xa9  and", "a", "" };
    return i < 4 ? short_ones[i] : long_prompt();
}

// ---- the values ---------------------------------------------------------------------------------
TEST(a_token_has_the_log_probability_after_the_tokens_before_it)
{
    static struct result r;
    qkv_generator *g = open_verse();
    const int64_t V = qkv_model_info(qkv_generator_model(g)).vocab;
    const struct qkv_decoder_options one = { .items = 1 };
    qkv_decoder *d = NULL;
    float *logits = malloc((size_t)(TOKENS * V) * sizeof *logits);
    CHECK_EQ(qkv_decoder_new(&d, qkv_generator_model(g), &one, NULL), QKV_OK);
    for (int i = 0; i < PROMPTS; i++) {
        r = (struct result){ 0 };
        generate(g, prompt_of(i), options(&r, 1));
        CHECK(i < 4 || (r.n > 150 && r.n < TOKENS)); // longer than the pieces that are read
        const int64_t item = 0, offsets[] = { 0, r.n };
        const struct qkv_decoder_tokens t = {
            .n = 1, .items = &item, .offsets = offsets, .ids = r.id, .every = true
        };
        CHECK_EQ(qkv_decoder_cut(d, 0, 0), QKV_OK);
        CHECK_EQ(qkv_decoder_feed(d, logits, &t, NULL), QKV_OK);
        for (int64_t k = 1; k < r.n; k++) {
            const float *x = logits + (k - 1) * V;
            double sum = 0;
            int64_t best = 0, larger[TOPS] = { 0 };
            for (int64_t v = 0; v < V; v++) {
                sum += exp((double)x[v]);
                best = x[v] > x[best] ? v : best;
                for (int n = 0; n < TOPS; n++) larger[n] += x[v] > x[r.top[k][n].id];
            }
            CHECK_NEAR(r.logprob[k], (double)x[r.id[k]] - log(sum), 1e-5);
            CHECK_EQ(r.top[k][0].id, best);
            for (int n = 0; n < TOPS; n++) {
                CHECK_EQ(larger[n], n);
                CHECK_NEAR(r.top[k][n].value, (double)x[r.top[k][n].id] - log(sum), 1e-5);
            }
        }
    }
    free(logits);
    qkv_decoder_free(d);
    qkv_generator_close(g);
}

TEST(generated_tokens_keep_their_bits_when_they_are_read_as_a_prompt)
{
    static struct result r, again;
    qkv_generator *g = open_verse();
    char text[TEXT];
    int same = 0;
    for (int64_t n = 1; n < 12; n++) {
        r = again = (struct result){ 0 };
        generate(g, "In the beginning", options(&r, n));
        snprintf(text, sizeof text, "In the beginning%.*s", TEXT - 32, r.text);
        generate(g, text, options(&again, -1));
        CHECK_EQ(again.tokens, 0);
        CHECK_EQ(again.outputs, 1);
        CHECK_TEXT(again.text, "");
        CHECK(again.ending == QKV_END_TOKENS);
        if (again.n != r.n + n) continue; // the text has other tokens
        same++;
        CHECK_BITS(&again.logprob[again.n - 1], &r.last, sizeof(float));
        CHECK_BITS(again.logprob + 1, r.logprob + 1, (size_t)(r.n - 1) * sizeof(float));
    }
    CHECK(same > 5);
    qkv_generator_close(g);
}

TEST(offsets_count_the_characters_before_a_token)
{
    static const int64_t want[] = { 0, 0, 1, 2, 3, 3, 4, 5 }; // start, C, a, f, two bytes, ...
    static struct result r;
    qkv_generator *g = open_verse();
    generate(g, prompt_of(1), options(&r, 1));
    CHECK_EQ(r.n, 8);
    for (int64_t i = 0; i < r.n; i++) CHECK_EQ(r.offset[i], want[i]);
    qkv_generator_close(g);
}

TEST(token_ids_are_read_as_the_text_that_has_them)
{
    static struct result text, ids;
    qkv_generator *g = open_verse();
    qkv_error err = { 0 };
    for (int i = 0; i < PROMPTS; i++) {
        text = ids = (struct result){ 0 };
        generate(g, prompt_of(i), options(&text, 5));
        struct qkv_generate_options o = options(&ids, 5);
        o.prompt_ids = text.id;
        o.prompt_id_count = text.n;
        generate(g, "", o);
        CHECK_EQ(ids.n, text.n);
        CHECK_TEXT(ids.text, text.text);
        CHECK_BITS(ids.id, text.id, (size_t)text.n * sizeof *ids.id);
        CHECK_BITS(ids.offset, text.offset, (size_t)text.n * sizeof *ids.offset);
        CHECK_BITS(ids.logprob + 1, text.logprob + 1, (size_t)(text.n - 1) * sizeof(float));
        CHECK_BITS(&ids.last, &text.last, sizeof(float));
    }
    const int32_t all[TOKENS + 2] = { [TOKENS + 1] = 7 }, wrong[] = { 5, 2048 },
                               negative[] = { -1 };
    struct qkv_generate_options o = options(&ids, -1);
    const char *empty[] = { "", "" };
    ids = (struct result){ 0 };
    o.prompt_ids = all;
    o.prompt_id_count = TOKENS + 2;
    CHECK_EQ(qkv_generate(g, empty, NULL, 1, &o, &err), QKV_ERR_USAGE);
    CHECK(strstr(err.text, "at most 256 tokens, found 258"));
    o.truncate = true;
    generate(g, "", o);
    CHECK(ids.n == TOKENS && ids.cut == 2 && ids.id[TOKENS - 1] == 7 && ids.id[0] == 0);
    o.prompt_id_count = 0; // the start token
    ids = (struct result){ 0 };
    generate(g, "", o);
    CHECK_EQ(ids.n, 1);
    const struct {
        const int32_t *ids;
        int64_t count, prompts;
        const char *message;
    } bad[] = { { wrong, 2, 1, "expected 0 to 2047, found 2048" },
                { negative, 1, 1, "found -1" },
                { wrong, -1, 1, "prompt_id_count is out of range" },
                { wrong, 1, 2, "expected 1 text, found 2" } };
    EACH(b, bad)
    {
        err = (qkv_error){ 0 };
        o.prompt_ids = b->ids;
        o.prompt_id_count = b->count;
        CHECK_EQ(qkv_generate(g, empty, NULL, b->prompts, &o, &err), QKV_ERR_USAGE);
        if (!strstr(err.text, b->message)) fail_msg("%s", err.text);
    }
    qkv_generator_close(g);
}

TEST(a_prompt_has_its_tokens_once)
{
    static struct result r, other;
    qkv_generator *g = open_verse();
    struct qkv_generate_options o = options(&r, 4);
    generate(g, prompt_of(0), o);
    o.user = &other;
    o.n_best = 3;
    o.sampling.temperature = 1;
    generate(g, prompt_of(0), o); // take_prompt counts
    CHECK_EQ(other.outputs, 3);
    CHECK_BITS(r.logprob + 1, other.logprob + 1, (size_t)(r.n - 1) * sizeof(float));
    other = (struct result){ 0 };
    o.sampling.temperature = 0;
    o.beams = 3;
    generate(g, prompt_of(0), o);
    CHECK_EQ(other.outputs, 3);
    CHECK_BITS(r.logprob + 1, other.logprob + 1, (size_t)(r.n - 1) * sizeof(float));
    other = (struct result){ 0 };
    o = options(&other, 4);
    o.logprobs = 0; // no log-probabilities of prompts either
    o.output = NULL;
    generate(g, prompt_of(0), o);
    CHECK_EQ(other.n, 0);
    qkv_generator_close(g);
}

TEST(a_prompt_that_is_only_read_may_have_all_positions)
{
    static struct result r;
    static char text[8 * TOKENS];
    qkv_generator *g = open_verse();
    qkv_error err = { 0 };
    const char *prompt = text;
    for (int i = 0; i < TOKENS - 1; i++) strcat(text, i % 2 ? " the" : " and");
    struct qkv_generate_options o = options(&r, 1);
    CHECK_EQ(qkv_generate(g, &prompt, NULL, 1, &o, &err), QKV_ERR_USAGE);
    CHECK(strstr(err.text, "at most 255 tokens, found 256"));
    generate(g, text, options(&r, -1));
    CHECK_EQ(r.n, TOKENS);
    strcat(text, " and");
    r = (struct result){ 0 };
    o.max_tokens = -1;
    err = (qkv_error){ 0 };
    CHECK_EQ(qkv_generate(g, &prompt, NULL, 1, &o, &err), QKV_ERR_USAGE);
    CHECK(strstr(err.text, "at most 256 tokens, found 257"));
    r = (struct result){ 0 };
    o.truncate = true;
    generate(g, text, o);
    CHECK(r.n == TOKENS && r.cut == 1);
    CHECK_EQ(r.offset[1], 4); // after " and", which was cut
    qkv_generator_close(g);
}

// ---- next to others -----------------------------------------------------------------------------
static struct result alone[PROMPTS], together[PROMPTS];
static int64_t id_of[PROMPTS];

static void failed(void *user, int64_t id, const qkv_error *err)
{
    (void)user;
    for (int i = 0; i < PROMPTS; i++)
        if (id_of[i] == id) together[i].failed = err->status;
}

static int ignore(void *user, const struct qkv_generated *g)
{
    (void)user;
    return g->tokens < 0;
}

static void compare(int i)
{
    const struct result *a = &alone[i], *b = &together[i];
    CHECK_EQ(b->outputs, 1);
    CHECK_EQ(a->n, b->n);
    CHECK_BITS(a->logprob + 1, b->logprob + 1, (size_t)(a->n - 1) * sizeof(float));
    CHECK_BITS(a->top[1], b->top[1], (size_t)(a->n - 1) * sizeof a->top[1]);
    CHECK_BITS(a->id, b->id, (size_t)a->n * sizeof *a->id);
    CHECK_BITS(a->offset, b->offset, (size_t)a->n * sizeof *a->offset);
    CHECK_BITS(&a->last, &b->last, sizeof(float));
    CHECK_TEXT(a->text, b->text);
}

// Runs all prompts, and others without log-probabilities, in a scheduler.
static void run_together(qkv_generator *g, int64_t items, int64_t step_tokens, int64_t between)
{
    const struct qkv_scheduler_options so = { .items = items,
                                              .step_tokens = step_tokens,
                                              .failed = failed };
    qkv_scheduler *s = NULL;
    int64_t other;
    CHECK_EQ(qkv_scheduler_new(&s, g, &so, NULL), QKV_OK);
    for (int i = 0; i < PROMPTS; i++) {
        const struct qkv_generate_options o = options(&together[i], i % 2 ? -1 : 3 + i),
                                          plain = { .max_tokens = 9, .output = ignore };
        CHECK_EQ(qkv_scheduler_add(s, &id_of[i], prompt_of(i), strlen(prompt_of(i)), &o, NULL), 0);
        CHECK_EQ(qkv_scheduler_add(s, &other, long_prompt(), 500, &plain, NULL), QKV_OK);
        for (int64_t k = 0; k < between; k++) CHECK_EQ(qkv_scheduler_step(s, NULL), QKV_OK);
    }
    int steps = 0;
    while (qkv_scheduler_prompts(s) && steps++ < 10000)
        CHECK_EQ(qkv_scheduler_step(s, NULL), QKV_OK);
    CHECK_EQ(qkv_scheduler_prompts(s), 0);
    qkv_scheduler_free(s);
}

TEST(the_bits_do_not_depend_on_other_prompts_or_pieces)
{
    static const int64_t cases[][3] = { { 1, 0, 0 }, { 3, 2, 1 }, { 4, 7, 3 }, { 16, 100, 0 } };
    qkv_generator *g = open_verse();
    memset(alone, 0, sizeof alone);
    for (int i = 0; i < PROMPTS; i++)
        generate(g, prompt_of(i), options(&alone[i], i % 2 ? -1 : 3 + i));
    EACH(c, cases) // items, tokens per step, steps between two prompts
    {
        memset(together, 0, sizeof together);
        run_together(g, (*c)[0], (*c)[1], (*c)[2]);
        for (int i = 0; i < PROMPTS; i++) compare(i);
    }
    memset(together, 0, sizeof together);
    together[4].stop_after = 80; // its callback ends it, in the second piece
    run_together(g, 16, 0, 0);
    CHECK(together[4].failed == QKV_ERR_INTERRUPTED && !together[4].outputs);
    for (int i = 0; i < 4; i++) compare(i);
    together[4] = (struct result){ .stop_after = 80 };
    const struct qkv_generate_options o = options(&together[4], 5);
    const char *prompt = prompt_of(4);
    CHECK_EQ(qkv_generate(g, &prompt, NULL, 1, &o, NULL), QKV_ERR_INTERRUPTED);
    CHECK_EQ(together[4].n, 80);
    qkv_generator_close(g);
}

CHECK_MAIN(CASE(a_token_has_the_log_probability_after_the_tokens_before_it),
           CASE(generated_tokens_keep_their_bits_when_they_are_read_as_a_prompt),
           CASE(offsets_count_the_characters_before_a_token),
           CASE(token_ids_are_read_as_the_text_that_has_them), CASE(a_prompt_has_its_tokens_once),
           CASE(a_prompt_that_is_only_read_may_have_all_positions),
           CASE(the_bits_do_not_depend_on_other_prompts_or_pieces))
