// SPDX-License-Identifier: MIT
// test_translate.c: sources that are encoded together: with the same bits as alone, in any order of
// their lengths, and in as few runs of the encoder as possible.
#include "check.h"
#include "base/base.h"
#include "task/generate/generate_request.h"

enum { SOURCES = 37, TEXT = 64, TOKENS = 40 };
static char source[SOURCES][3 * TEXT];
static const char *sources[SOURCES];

// Dates of any length; the longest have many more tokens than the shortest.
static void fill(int order)
{
    static const char *const months[] = { "May", "December", "January", "7" };
    static const char *const words[] = { "", "the ", "Sunday, the ", "on the day of the Lord, " };
    for (int i = 0; i < SOURCES; i++) {
        const int k = order > 0 ? i : order < 0 ? SOURCES - 1 - i : i * 23 % SOURCES;
        snprintf(source[i], sizeof source[i], "%s%d %s %d", words[k * 4 / SOURCES], k % 27 + 1,
                 months[k % 4], 1950 + 2 * k);
        sources[i] = source[i];
    }
}

struct output {
    char text[TEXT];
    int32_t ids[TOKENS];
    float logprobs[TOKENS];
    int64_t tokens;
    double score;
};
struct outputs {
    struct output at[SOURCES];
    int64_t n;
};

static int keep(void *user, const struct qkv_generated *g)
{
    struct outputs *k = user;
    CHECK(k->n < SOURCES && g->prompt == k->n && g->bytes < TEXT && g->tokens <= TOKENS);
    struct output *o = &k->at[k->n++];
    memcpy(o->text, g->text, g->bytes);
    memcpy(o->ids, g->ids, (size_t)g->tokens * sizeof *g->ids);
    if (g->logprobs) memcpy(o->logprobs, g->logprobs, (size_t)g->tokens * sizeof *g->logprobs);
    o->tokens = g->tokens;
    o->score = g->score == g->score ? g->score : 0;
    return 0;
}

static qkv_translator *translator(const char *dir, int64_t items)
{
    qkv_error err = { 0 };
    qkv_translator *t = NULL;
    const struct qkv_generator_options o = { .items = items };
    if (qkv_translator_open(&t, dir, &o, &err)) fail_msg("%s", err.text);
    return t;
}

static void translate(qkv_translator *t, int64_t first, int64_t n, struct qkv_generate_options o,
                      struct outputs *k)
{
    qkv_error err = { 0 };
    memset(k, 0, sizeof *k);
    o.output = keep;
    o.user = k;
    o.first = first;
    if (qkv_translate(t, sources + first, NULL, n, &o, &err)) fail_msg("%s %s", err.path, err.text);
    CHECK_EQ(k->n, n);
}

TEST(a_source_has_the_same_bits_alone_and_among_others)
{
    static const struct qkv_generate_options ways[] = {
        { .max_tokens = 12 },
        { .max_tokens = 12, .beams = 1, .logprobs = 1 },
        { .max_tokens = 9, .beams = 1, .sampling = { .temperature = 1, .seed = 4 } },
    };
    static struct outputs together, alone;
    static const int64_t places[] = { 0, 4, 5, 40 };
    EACH(o, ways) EACH(items, places)
    {
        if (CHECK_SANITIZED && *items != 5) continue;
        fill((int)*items % 3 - 1); // the shortest first, the longest first, in no order
        qkv_translator *t = translator("models/dates", *items);
        translate(t, 0, SOURCES, *o, &together);
        for (int64_t i = 0; i < SOURCES; i += *items ? 5 : 1) {
            translate(t, i, 1, *o, &alone);
            CHECK_BITS(&alone.at[0], &together.at[i], sizeof alone.at[0]);
        }
        qkv_translator_close(t);
    }
}

// ---- runs of the encoder -----------------------------------------------------------------------
static int64_t runs;

static qkv_status count_encode(void *ctx, int64_t first, const int32_t *ids, const int64_t *offsets,
                               int64_t n, qkv_error *err)
{
    const struct qkv_model_input in = { .sequences = n, .offsets = offsets, .ids = ids };
    runs++;
    return qkv_decoder_source(ctx, first, &in, err);
}
static qkv_status feed(void *ctx, float *logits, const struct qkv_decoder_tokens *t, qkv_error *err)
{
    return qkv_decoder_feed(ctx, logits, t, err);
}
static qkv_status copy(void *ctx, const int64_t *to, const int64_t *from, int64_t n, qkv_error *err)
{
    return qkv_decoder_copy(ctx, to, from, n, err);
}
static qkv_status clear(void *ctx, int64_t item)
{
    return qkv_decoder_cut(ctx, item, 0);
}

TEST(sources_are_encoded_together)
{
    static struct outputs kept;
    enum { ITEMS = 6, BEAMS = 3 };
    qkv_translator *t = translator("models/dates", 0);
    qkv_decoder *d = NULL;
    qkv_error err = { 0 };
    const struct qkv_decoder_options size = { .items = ITEMS + QKV_SOURCES_AHEAD };
    CHECK_EQ(qkv_decoder_new(&d, qkv_translator_model(t), &size, &err), QKV_OK);
    const struct qkv_logits_source from = { .V = qkv_model_info(qkv_translator_model(t)).vocab,
                                            .positions = qkv_decoder_capacity(d),
                                            .encode = count_encode,
                                            .feed = feed,
                                            .copy = copy,
                                            .clear = clear,
                                            .ctx = d };
    fill(0);
    struct qkv_generate_request r = { .g = { .source = &from,
                                             .tokenizer = qkv_translator_tokenizer(t),
                                             .config = qkv_translator_config(t),
                                             .options = { .beams = BEAMS,
                                                          .n_best = 1,
                                                          .max_tokens = 12,
                                                          .length_penalty = 1,
                                                          .early = QKV_EARLY_LIKELY,
                                                          .output = keep,
                                                          .user = &kept },
                                             .prompts = sources,
                                             .n = SOURCES,
                                             .translates = true },
                                      .items = ITEMS };
    if (qkv_generate_request(&r, &err)) fail_msg("%s", err.text);
    CHECK_EQ(kept.n, SOURCES);
    CHECK_EQ(runs, qkv_ceil_div(SOURCES, QKV_SOURCES_AHEAD));
    qkv_decoder_free(d);
    qkv_translator_close(t);
}

TEST(a_source_that_is_too_long_is_named_by_its_number)
{
    static char text[20000];
    static struct outputs kept;
    qkv_error err = { 0 };
    memset(text, '1', sizeof text - 1);
    fill(0);
    sources[4] = text;
    qkv_translator *t = translator("models/dates", 4);
    const struct qkv_generate_options o = { .beams = 4, .output = keep, .user = &kept };
    CHECK_EQ(qkv_translate(t, sources, NULL, SOURCES, &o, &err), QKV_ERR_USAGE);
    CHECK_TEXT(err.path, "prompt 5");
    CHECK_EQ(kept.n, 4); // with one slot the sources before it are finished
    qkv_translator_close(t);
}

CHECK_MAIN(CASE(a_source_has_the_same_bits_alone_and_among_others),
           CASE(sources_are_encoded_together),
           CASE(a_source_that_is_too_long_is_named_by_its_number))
