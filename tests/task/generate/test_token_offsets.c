// SPDX-License-Identifier: MIT
// test_token_offsets.c: the places of tokens in the text of an output.
#include "check.h"
#include "base/base.h"
#include <qkv/generate.h>

enum { TEXT = 1024, TOKENS = 64 };
struct result {
    int64_t tokens, offset[TOKENS];
    int32_t id[TOKENS];
    size_t emitted, late; // bytes of text that token callbacks had; calls without text
    char text[TEXT];
};

static int take_token(void *user, const struct qkv_generated_token *t)
{
    struct result *r = user;
    r->emitted += t->bytes;
    if (t->id < 0) {
        CHECK_EQ(t->offset, 0);
        return 0;
    }
    CHECK(r->tokens < TOKENS);
    r->late += !t->bytes;
    r->id[r->tokens] = t->id;
    r->offset[r->tokens++] = t->offset;
    return 0;
}

static int take_output(void *user, const struct qkv_generated *g)
{
    struct result *r = user;
    CHECK(g->bytes < TEXT);
    memcpy(r->text, g->text, g->bytes + 1);
    return 0;
}

static void generate(qkv_generator *g, struct qkv_generate_options o, struct result *r)
{
    static const char *const prompt[] = { "In the beginning" };
    qkv_error err = { 0 };
    *r = (struct result){ 0 };
    o.token = take_token;
    o.output = take_output;
    o.user = r;
    if (qkv_generate(g, prompt, NULL, 1, &o, &err)) fail_msg("%s", err.text);
    CHECK_EQ(r->emitted, strlen(r->text));
}

TEST(the_offset_of_a_token_counts_the_characters_before_it)
{
    static struct result plain, held;
    qkv_error err = { 0 };
    qkv_generator *g = NULL;
    if (qkv_generator_open(&g, "models/verse", NULL, &err)) fail_msg("%s", err.text);
    struct qkv_generate_options o = { .max_tokens = 12, .prefix = "\xc3\xa9 \xe2\x82\xac and" };
    generate(g, o, &plain);
    char stop[16] = ""; // it withholds the text of several tokens, and ends no output
    memcpy(stop, plain.text + strlen(o.prefix), 12);
    stop[12] = '\t';
    const char *const stops[] = { stop };
    o.stop = stops;
    o.stops = 1;
    generate(g, o, &held);
    CHECK_TEXT(held.text, plain.text);
    CHECK(held.late > plain.late);
    char bytes[TEXT];
    size_t n = 0, need;
    int parts = 0;
    for (int64_t i = 0; i < held.tokens; i++) {
        int64_t characters = 0;
        size_t at = 0;
        for (size_t c; at < n && (c = qkv_utf8_bytes(bytes + at, n - at)); at += c) characters++;
        parts += at < n;
        CHECK_EQ(held.offset[i], characters);
        CHECK_EQ(plain.offset[i], characters);
        if (qkv_tokenizer_token_bytes(qkv_generator_tokenizer(g), bytes + n, sizeof bytes - n,
                                      &need, held.id[i], &err))
            fail_msg("%s", err.text);
        n += need;
    }
    CHECK(parts > 1); // tokens that begin inside of a character
    CHECK(n == strlen(held.text) && !memcmp(bytes, held.text, n));
    qkv_generator_close(g);
}

CHECK_MAIN(CASE(the_offset_of_a_token_counts_the_characters_before_it))
