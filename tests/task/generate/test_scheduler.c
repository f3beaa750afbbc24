// SPDX-License-Identifier: MIT
// test_scheduler.c: prompts that join and leave a running batch have the outputs that qkv_generate
// computes for each of them alone.
#include "check.h"
#include <qkv/scheduler.h>

enum { PROMPTS = 9, TEXT = 2048, OUTPUTS = 3 };

struct result {
    char text[OUTPUTS][TEXT], streamed[TEXT];
    float logprob[OUTPUTS];
    enum qkv_ending ending[OUTPUTS];
    int outputs, failures;
    int stop_after; // tokens after which the callback ends the prompt; 0: never
    qkv_status status;
};
static struct result alone[PROMPTS], together[PROMPTS];
static int64_t id_of[PROMPTS];

static const char *const prompts[PROMPTS] = { "In the beginning",
                                              "And God said",
                                              "a",
                                              "Then came Peter to him, and said, Lord, how oft",
                                              "And it came to pass",
                                              "The LORD is my shepherd",
                                              "Blessed",
                                              "And the king",
                                              "Now" };
static const char *const stops[] = { "the" };

static int keep(void *user, const struct qkv_generated *g)
{
    struct result *r = user;
    CHECK(g->rank < OUTPUTS && g->bytes < TEXT);
    memcpy(r->text[g->rank], g->text, g->bytes + 1);
    r->ending[g->rank] = g->ending;
    r->logprob[g->rank] = g->logprobs && g->tokens ? g->logprobs[g->tokens - 1] : 0;
    r->outputs++;
    return 0;
}

static int stream(void *user, const struct qkv_generated_token *t)
{
    struct result *r = user;
    if (t->rank == 0) strncat(r->streamed, t->text, TEXT - strlen(r->streamed) - 1);
    return r->stop_after && --r->stop_after == 0;
}

static struct qkv_generate_options options(int i, struct result *r)
{
    struct qkv_generate_options o = { .max_tokens = QKV_FEW ? 5 + 2 * i : 5 + 7 * i,
                                      .token = stream,
                                      .output = keep,
                                      .user = r,
                                      .logprobs = i % 3 };
    o.sampling.seed = (uint64_t)i;
    o.sampling.temperature = i % 2 ? .9 : 0;
    o.sampling.top_p = i % 4 == 1 ? .8 : 0;
    o.sampling.repetition = i == 4 ? 1.3 : 0;
    o.n_best = i % 2 ? OUTPUTS : 1;
    o.stop = i == 6 ? stops : NULL;
    o.stops = i == 6;
    return o;
}

static void failed(void *user, int64_t id, const qkv_error *err)
{
    (void)user;
    for (int i = 0; i < PROMPTS; i++)
        if (id_of[i] == id) {
            together[i].failures++;
            together[i].status = err->status;
        }
}

static qkv_generator *open_verse(void)
{
    qkv_generator *g = NULL;
    qkv_error err = { 0 };
    if (qkv_generator_open(&g, "models/verse", NULL, &err)) fail_msg("%s", err.text);
    return g;
}

static qkv_scheduler *scheduler(qkv_generator *g, int64_t items, int64_t step_tokens)
{
    const struct qkv_scheduler_options o = { .items = items,
                                             .step_tokens = step_tokens,
                                             .failed = failed };
    qkv_scheduler *s = NULL;
    CHECK_EQ(qkv_scheduler_new(&s, g, &o, NULL), QKV_OK);
    return s;
}

static void add(qkv_scheduler *s, int i)
{
    const struct qkv_generate_options o = options(i, &together[i]);
    CHECK_EQ(qkv_scheduler_add(s, &id_of[i], prompts[i], strlen(prompts[i]), &o, NULL), QKV_OK);
}

static void compare(int i)
{
    const struct result *a = &alone[i], *b = &together[i];
    CHECK_EQ(a->outputs, b->outputs);
    for (int k = 0; k < a->outputs; k++) {
        CHECK_TEXT(a->text[k], b->text[k]);
        CHECK_EQ(a->ending[k], b->ending[k]);
        CHECK_BITS(&a->logprob[k], &b->logprob[k], sizeof(float));
    }
    CHECK_TEXT(a->streamed, b->streamed);
}

static void run_alone(qkv_generator *g)
{
    memset(alone, 0, sizeof alone);
    memset(together, 0, sizeof together);
    for (int i = 0; i < PROMPTS; i++) {
        const struct qkv_generate_options o = options(i, &alone[i]);
        CHECK_EQ(qkv_generate(g, &prompts[i], NULL, 1, &o, NULL), QKV_OK);
    }
}

TEST(an_output_does_not_depend_on_when_others_join)
{
    static const int64_t cases[][3] = { { 1, 0, 1 }, { 3, 2, 4 }, { 8, 1, 3 }, { 32, 0, 0 } };
    qkv_generator *g = open_verse();
    run_alone(g);
    EACH(c, cases) // items, tokens per step, steps between two prompts
    {
        memset(together, 0, sizeof together);
        qkv_scheduler *s = scheduler(g, (*c)[0], (*c)[1]);
        for (int i = 0; i < PROMPTS; i++) {
            add(s, i);
            for (int64_t k = 0; k < (*c)[2]; k++) CHECK_EQ(qkv_scheduler_step(s, NULL), QKV_OK);
        }
        int steps = 0;
        while (qkv_scheduler_prompts(s) && steps++ < 10000)
            CHECK_EQ(qkv_scheduler_step(s, NULL), QKV_OK);
        CHECK_EQ(qkv_scheduler_prompts(s), 0);
        CHECK_EQ(qkv_scheduler_idle(s), (*c)[0]);
        for (int i = 0; i < PROMPTS; i++) compare(i);
        qkv_scheduler_free(s);
    }
    qkv_generator_close(g);
}

TEST(a_prompt_that_ends_early_leaves_the_others_unchanged)
{
    qkv_generator *g = open_verse();
    run_alone(g);
    memset(together, 0, sizeof together);
    qkv_scheduler *s = scheduler(g, 4, 0);
    together[1].stop_after = 3;
    for (int i = 0; i < PROMPTS; i++) add(s, i);
    CHECK_EQ(qkv_scheduler_step(s, NULL), QKV_OK);
    qkv_scheduler_cancel(s, id_of[0]); // it runs
    qkv_scheduler_cancel(s, id_of[8]); // it waits
    qkv_scheduler_cancel(s, 12345);
    int steps = 0;
    while (qkv_scheduler_prompts(s) && steps++ < 10000)
        CHECK_EQ(qkv_scheduler_step(s, NULL), QKV_OK);
    CHECK_EQ(together[0].outputs + together[8].outputs, 0);
    CHECK(together[1].failures == 1 && together[1].status == QKV_ERR_INTERRUPTED);
    for (int i = 2; i < 8; i++) compare(i);
    qkv_scheduler_free(s);
    qkv_generator_close(g);
}

TEST(an_invalid_prompt_is_refused_or_reported)
{
    qkv_generator *g = open_verse();
    memset(together, 0, sizeof together);
    qkv_scheduler *s = scheduler(g, 2, 0);
    qkv_error err = { 0 };
    struct qkv_generate_options o = options(0, &together[0]);
    o.beams = 4;
    CHECK_EQ(qkv_scheduler_add(s, &id_of[0], "a", 1, &o, &err), QKV_ERR_USAGE);
    CHECK(strstr(err.text, "expected 0 or 1 beams, found 4"));
    char *text = malloc(100000);
    memset(text, 'x', 100000);
    o = options(0, &together[0]);
    CHECK_EQ(qkv_scheduler_add(s, &id_of[0], text, 100000, &o, NULL), QKV_OK);
    add(s, 2);
    int steps = 0;
    while (qkv_scheduler_prompts(s) && steps++ < 1000)
        CHECK_EQ(qkv_scheduler_step(s, NULL), QKV_OK);
    CHECK(together[0].failures == 1 && together[0].status == QKV_ERR_USAGE);
    CHECK_EQ(together[2].outputs, 1);
    free(text);
    qkv_scheduler_free(s);
    qkv_generator_close(g);
}

// ---- steps --------------------------------------------------------------------------------------
// Tokens of an output, and the steps of its first and last token.
struct progress {
    int tokens, first, last;
};
static int step_now;

static int count(void *user, const struct qkv_generated_token *t)
{
    struct progress *p = user;
    if (t->id < 0) return 0;
    if (!p->tokens++) p->first = step_now;
    CHECK(p->tokens == 1 || step_now == p->last + 1); // one token per step, without a gap
    p->last = step_now;
    return 0;
}

static void add_counted(qkv_scheduler *s, struct progress *p, const char *prompt, int64_t tokens)
{
    int64_t id;
    const struct qkv_generate_options o = {
        .max_tokens = tokens, .ignore_end = true, .token = count, .user = p
    };
    CHECK_EQ(qkv_scheduler_add(s, &id, prompt, strlen(prompt), &o, NULL), QKV_OK);
}

static void run_step(qkv_scheduler *s)
{
    step_now++;
    CHECK_EQ(qkv_scheduler_step(s, NULL), QKV_OK);
}

TEST(a_prompt_joins_at_the_next_step_or_when_the_first_output_ends)
{
    // step before which a prompt arrives, its tokens, step of its first token; there are two places
    static const struct {
        int arrives, tokens, first;
    } script[] = {
        { 1, 12, 1 }, { 4, 3, 4 }, { 5, 5, 7 }, { 5, 2, 12 }, { 6, 4, 13 }, { 20, 1, 20 }
    };
    enum { N = sizeof script / sizeof *script };
    struct progress p[N] = { { 0 } };
    qkv_generator *g = open_verse();
    qkv_scheduler *s = scheduler(g, 2, 0);
    step_now = 0;
    for (int next = 0; next < N || qkv_scheduler_prompts(s);) {
        for (; next < N && script[next].arrives == step_now + 1; next++)
            add_counted(s, &p[next], prompts[next], script[next].tokens);
        run_step(s);
    }
    for (int i = 0; i < N; i++) {
        CHECK_EQ(p[i].tokens, script[i].tokens);
        CHECK_EQ(p[i].first, script[i].first);
    }
    qkv_scheduler_free(s);
    qkv_generator_close(g);
}

TEST(a_short_prompt_does_not_wait_for_long_ones)
{
    enum { LONG = 3, STEP = 32 };
    const char *const psalm =
        "The LORD is my shepherd; I shall not want. He maketh me to lie down in "
        "green pastures. He restoreth my soul: he leadeth me in the paths of "
        "righteousness for his name's sake. Surely goodness shall follow me.";
    struct progress large[LONG] = { { 0 } }, small[2] = { { 0 } };
    qkv_generator *g = open_verse();
    qkv_scheduler *s = scheduler(g, LONG + 2, STEP);
    qkv_encoding e = { 0 };
    CHECK_EQ(qkv_tokenizer_encode(qkv_generator_tokenizer(g), &e, psalm, strlen(psalm), NULL, 0,
                                  NULL, NULL),
             QKV_OK);
    const int64_t n = e.count;
    qkv_encoding_free(&e);
    CHECK(n > STEP); // longer than a step
    step_now = 0;
    for (int i = 0; i < LONG; i++) add_counted(s, &large[i], psalm, 4);
    run_step(s);
    add_counted(s, &small[0], "a", 8);
    run_step(s);
    CHECK(small[0].first == 2 && !large[0].tokens && !large[1].tokens && !large[2].tokens);
    add_counted(s, &small[1], "Now", 8);
    while (qkv_scheduler_prompts(s) && step_now < 1000) run_step(s);
    CHECK_EQ(small[1].first, 3);
    for (int i = 0; i < LONG; i++) {
        CHECK_EQ(large[i].tokens, 4);
        // the share of LONG + 2 prompts, which is STEP / (LONG + 2) tokens at least
        CHECK(large[i].first <= 1 + n / (STEP / (LONG + 2)));
    }
    qkv_scheduler_free(s);
    qkv_generator_close(g);
}

CHECK_MAIN(CASE(an_output_does_not_depend_on_when_others_join),
           CASE(a_prompt_that_ends_early_leaves_the_others_unchanged),
           CASE(an_invalid_prompt_is_refused_or_reported),
           CASE(a_prompt_joins_at_the_next_step_or_when_the_first_output_ends),
           CASE(a_short_prompt_does_not_wait_for_long_ones))
