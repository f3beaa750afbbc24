// SPDX-License-Identifier: MIT
// test_long_tokens.c: compares Unigram, with tokens above and below QKV_SHORT_TOKEN bytes, and
// Replace with plain searches.
#include "text/tiny_text.h"

enum { TOKENS = 40, LONGEST = 200, TEXT = 1200 };

struct language {
    char token[TOKENS][LONGEST + 1];
    double score[TOKENS];
    int count;
};

static int draw(int n) // 0 .. n - 1
{
    const int i = (int)((check_random() + 1) / 2 * n);
    return i < n ? i : n - 1;
}

// Draws tokens over two letters, each of them part of one long periodic text, so that many tokens
// overlap and end at one byte.  Scores are whole numbers, so that many segmentations are equal.
static void draw_language(struct language *l)
{
    char base[2 * LONGEST + 1];
    const int period = 1 + draw(5);
    for (int i = 0; i < 2 * LONGEST; i++)
        base[i] = i >= period && draw(200) ? base[i - period] : (char)('a' + draw(2));
    base[2 * LONGEST] = 0;
    l->count = 0;
    for (int n = 0; n < TOKENS; n++) {
        const int bytes = n == 0 ? 1 : 1 + draw(draw(2) ? LONGEST : 70);
        char *token = l->token[l->count];
        memcpy(token, base + draw(LONGEST), (size_t)bytes);
        token[bytes] = 0;
        bool again = false;
        for (int i = 0; i < l->count; i++) again = again || !strcmp(token, l->token[i]);
        l->score[l->count] = -1 - draw(4);
        l->count += !again;
    }
}

static char *language_json(const struct language *l)
{
    const size_t size = (size_t)TOKENS * (LONGEST + 32) + 200;
    char *json = malloc(size);
    size_t at = (size_t)snprintf(
        json, size,
        "{\"version\":\"1.0\",\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0]");
    for (int i = 0; i < l->count; i++)
        at += (size_t)snprintf(json + at, size - at, ",[\"%s\",%.1f]", l->token[i], l->score[i]);
    snprintf(json + at, size - at, "]}}");
    return json;
}

// Segments the text by trying all tokens before each byte: the earliest start wins among equals.
static int64_t plain_segments(const struct language *l, const char *text, int n, int32_t *ids)
{
    static double best[TEXT + 1];
    static int from[TEXT + 1], id[TEXT + 1];
    int bytes[TOKENS];
    double least = 0;
    for (int i = 0; i < l->count; i++) {
        bytes[i] = (int)strlen(l->token[i]);
        least = fmin(least, l->score[i]);
    }
    for (int end = 1; end <= n; end++) {
        from[end] = -1;
        for (int at = end > LONGEST ? end - LONGEST : 0; at < end; at++) {
            int token = -1;
            bool single = false;
            for (int i = 0; i < l->count; i++) {
                if (bytes[i] == end - at && !memcmp(text + at, l->token[i], (size_t)bytes[i]))
                    token = i;
                single = single || (bytes[i] == 1 && l->token[i][0] == text[at]);
            }
            const double score = token >= 0 ? l->score[token] : least - 10;
            if (token < 0 && (end - at > 1 || single)) continue;
            if (from[end] >= 0 && !(best[at] + score > best[end])) continue;
            best[end] = best[at] + score;
            from[end] = at;
            id[end] = token + 1;
        }
    }
    int64_t count = 0;
    for (int at = n; at > 0; at = from[at])
        if (!(id[at] == 0 && count && ids[count - 1] == 0)) ids[count++] = id[at];
    for (int64_t i = 0; i < count / 2; i++) {
        const int32_t swap = ids[i];
        ids[i] = ids[count - 1 - i];
        ids[count - 1 - i] = swap;
    }
    return count;
}

TEST(segments_with_long_tokens_are_those_of_a_plain_search)
{
    static struct language l;
    static int32_t ids[TEXT];
    for (int round = 0; round < 40; round++) {
        char text[TEXT + 1];
        int n = 0;
        draw_language(&l);
        while (n < TEXT - LONGEST) {
            const char *token = l.token[draw(l.count)];
            const int bytes = (int)strlen(token), cut = draw(4) ? bytes : draw(bytes) + 1;
            memcpy(text + n, token, (size_t)cut);
            n += cut;
        }
        text[n] = 0;
        char *json = language_json(&l);
        qkv_tokenizer *t = tiny_open(json);
        qkv_encoding e = { 0 };
        CHECK_EQ(qkv_tokenizer_encode(t, &e, text, (size_t)n, NULL, 0, NULL, NULL), QKV_OK);
        const int64_t count = plain_segments(&l, text, n, ids);
        CHECK_EQ(e.count, count);
        for (int64_t i = 0; i < count; i++)
            if (e.ids[i] != ids[i])
                fail_msg("round %d, token %lld: %d, expected %d", round, (long long)i, e.ids[i],
                         ids[i]);
        qkv_encoding_free(&e);
        qkv_tokenizer_close(t);
        free(json);
    }
}

// Writes a tokenizer with `count` tokens of 65 bytes and more, each a suffix of the next.
static char *suffixes_json(int count)
{
    const size_t size = (size_t)count * 400 + 200;
    char *json = malloc(size);
    size_t at = (size_t)snprintf(
        json, size,
        "{\"version\":\"1.0\",\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0]");
    for (int i = 1; i <= count; i++) {
        at += (size_t)snprintf(json + at, size - at, ",[\"");
        memset(json + at, 'a', (size_t)(QKV_SHORT_TOKEN + i));
        at += (size_t)(QKV_SHORT_TOKEN + i);
        at += (size_t)snprintf(json + at, size - at, "\",-1]");
    }
    snprintf(json + at, size - at, "]}}");
    return json;
}

TEST(more_long_tokens_that_end_at_one_byte_than_allowed_are_refused)
{
    char *most = suffixes_json(QKV_LONG_ENDS), *more = suffixes_json(QKV_LONG_ENDS + 1);
    qkv_error err = { 0 };
    qkv_tokenizer *t = tiny_open(most);
    qkv_tokenizer_close(t);
    t = NULL;
    CHECK_EQ(qkv_tokenizer_parse(&t, more, strlen(more), "more", &err), QKV_ERR_LIMIT);
    CHECK(!t);
    CHECK(strstr(err.text, "too many tokens are suffixes of this token"));
    free(most);
    free(more);
}

// ---- Replace ------------------------------------------------------------------------------------
// Writes the text with each `from`, from left to right and without overlaps, replaced by "<>".
static void plain_replace(char *out, const char *text, const char *from)
{
    const size_t size = strlen(from);
    while (*text)
        if (strncmp(text, from, size) == 0) {
            out = stpcpy(out, "<>");
            text += size;
        } else {
            *out++ = *text++;
        }
    *out = 0;
}

#define LETTERS "[[\"?\",0],[\"a\",-1],[\"b\",-1],[\"<\",-1],[\">\",-1]]"
static qkv_tokenizer *replacer(const char *from)
{
    char json[1024];
    snprintf(json, sizeof json,
             "{\"version\":\"1.0\",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":"
             "\"%s\"},\"content\":\"<>\"},\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{"
             "\"type\":\"Fuse\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\"%s\"},"
             "\"content\":\"<>\"}]},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":" LETTERS
             "}}",
             from, from);
    return tiny_open(json);
}

TEST(replaced_texts_are_those_of_a_plain_search)
{
    for (int round = 0; round < 200; round++) {
        char from[16], text[200], want[800], got[800];
        int32_t letters[200];
        const int size = 1 + draw(14), n = 1 + draw(180), odd = 1 + draw(6);
        for (int i = 0; i < size; i++) from[i] = (char)('a' + !draw(odd));
        for (int i = 0; i < n; i++) text[i] = (char)('a' + !draw(odd));
        from[size] = text[n] = 0;
        plain_replace(want, text, from);
        qkv_tokenizer *t = replacer(from);
        qkv_encoding e = { 0 };
        CHECK_EQ(qkv_tokenizer_encode(t, &e, text, (size_t)n, NULL, 0, NULL, NULL), QKV_OK);
        for (int64_t i = 0; i < e.count; i++) got[i] = "?ab<>"[e.ids[i]];
        got[e.count] = 0;
        CHECK_TEXT(got, want);
        // the decoder receives one letter at a time
        for (int i = 0; i < n; i++) letters[i] = text[i] - 'a' + 1;
        CHECK_EQ(qkv_tokenizer_decode(t, got, sizeof got, NULL, letters, n, false, NULL), QKV_OK);
        CHECK_TEXT(got, want);
        qkv_encoding_free(&e);
        qkv_tokenizer_close(t);
    }
}

CHECK_MAIN(CASE(segments_with_long_tokens_are_those_of_a_plain_search),
           CASE(more_long_tokens_that_end_at_one_byte_than_allowed_are_refused),
           CASE(replaced_texts_are_those_of_a_plain_search))
