// SPDX-License-Identifier: MIT
// test_decode_calls.c: decodes at once, token by token and from the texts of tokens, with the same
// result; refuses NULL, and survives every failed allocation.
#include "base/faults.h"
#include "text/tiny_text.h"

#define PIECES "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}"
static const char *const decoders[] = {
    TINY_DECODER,
    "null",
    PIECES,
    "{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\",\"prepend_scheme\":\"first\"}",
    "{\"type\":\"ByteLevel\"}",
    "{\"type\":\"BPEDecoder\",\"suffix\":\"e\"}",
    "{\"type\":\"CTC\",\"pad_token\":\"a\",\"word_delimiter_token\":\"he\",\"cleanup\":true}",
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"l\"},"
    "\"content\":\"\"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\","
    "\"content\":\"h\",\"start\":1,\"stop\":1}]}",
};
static const int32_t ids[] = { 4, 5, 6, 6, 7, 8, 1, 4 }; // he ##llo a a ##b e-acute [UNK] he
enum { IDS = sizeof ids / sizeof *ids };

static qkv_tokenizer *with_decoder(const char *decoder)
{
    char *json = tiny_with(TINY_DECODER, decoder);
    qkv_tokenizer *t = tiny_open(json);
    free(json);
    return t;
}

// Decodes the ids with a stream and writes the text to out[256].
static qkv_status by_stream(qkv_decode_stream *s, char *out, qkv_error *err)
{
    const char *text;
    size_t n, at = 0;
    for (int i = 0; i < IDS; i++) {
        const qkv_status status = qkv_decode_stream_put(s, ids[i], &text, &n, err);
        if (status) return status;
        memcpy(out + at, text, n);
        at += n;
    }
    const qkv_status status = qkv_decode_stream_end(s, &text, &n, err);
    if (status) return status;
    memcpy(out + at, text, n);
    out[at + n] = 0;
    return QKV_OK;
}

TEST(tokens_one_by_one_and_their_texts_give_the_whole)
{
    EACH(decoder, decoders)
    {
        qkv_tokenizer *t = with_decoder(*decoder);
        qkv_decode_stream *s = NULL;
        char whole[256], parts[256], *joined = NULL;
        const char *texts[IDS];
        size_t bytes[IDS], need = 0, n = 0;
        CHECK_EQ(qkv_tokenizer_decode(t, whole, sizeof whole, &need, ids, IDS, false, NULL),
                 QKV_OK);
        CHECK_EQ(need, strlen(whole));
        CHECK_EQ(qkv_decode_stream_new(&s, t, false, NULL), QKV_OK);
        for (int again = 0; again < 2; again++) { // after its end, a stream begins a new text
            CHECK_EQ(by_stream(s, parts, NULL), QKV_OK);
            CHECK_TEXT(parts, whole);
        }
        for (int i = 0; i < IDS; i++) {
            texts[i] = qkv_tokenizer_token(t, ids[i]);
            bytes[i] = strlen(texts[i]);
        }
        CHECK_EQ(qkv_tokenizer_join(t, &joined, &n, texts, bytes, IDS, NULL), QKV_OK);
        CHECK_TEXT(joined, whole);
        CHECK_EQ(n, need);
        qkv_free(joined);
        CHECK_EQ(qkv_tokenizer_join(t, &joined, &n, NULL, NULL, 0, NULL), QKV_OK);
        CHECK(n == 0 && joined[0] == 0);
        qkv_free(joined);
        qkv_decode_stream_free(s);
        qkv_tokenizer_close(t);
    }
}

TEST(calls_with_null_are_refused)
{
    qkv_tokenizer *t = with_decoder(PIECES);
    qkv_decode_stream *s = (qkv_decode_stream *)1;
    qkv_error err = { 0 };
    const char *text = NULL;
    char out[8] = "x";
    size_t n = 7;
    CHECK_EQ(qkv_decode_stream_new(&s, NULL, false, &err), QKV_ERR_USAGE);
    CHECK(!s && strstr(err.text, "qkv_decode_stream_new: expected"));
    CHECK_EQ(qkv_decode_stream_new(NULL, t, false, NULL), QKV_ERR_USAGE);
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_decode_stream_put(NULL, 4, &text, &n, &err), QKV_ERR_USAGE);
    CHECK(strstr(err.text, "decoding stream: expected"));
    CHECK(text && !*text && n == 0);
    CHECK_EQ(qkv_decode_stream_end(NULL, &text, &n, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_decode_stream_new(&s, t, false, NULL), QKV_OK);
    CHECK_EQ(qkv_decode_stream_put(s, 4, NULL, &n, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_decode_stream_put(s, 4, &text, NULL, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_decode_stream_end(s, NULL, &n, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_decode_stream_end(s, &text, NULL, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_decode_stream_put(s, 99, &text, &n, NULL), QKV_OK); // no token: no text
    CHECK_EQ(n, 0);
    qkv_decode_stream_free(s);
    qkv_decode_stream_free(NULL);
    CHECK_EQ(qkv_tokenizer_token_bytes(NULL, out, sizeof out, &n, 4, NULL), QKV_ERR_USAGE);
    CHECK(n == 0 && !*out);
    CHECK_EQ(qkv_tokenizer_token_bytes(t, NULL, 4, &n, 4, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_tokenizer_token_bytes(t, NULL, 0, &n, 4, NULL), QKV_OK);
    CHECK_EQ(n, 3); // " he"
    CHECK_EQ(qkv_tokenizer_token_bytes(t, out, sizeof out, NULL, 4, NULL), QKV_OK);
    CHECK_TEXT(out, " he");
    CHECK_EQ(qkv_tokenizer_decode(t, out, 3, &n, ids, 1, false, NULL), QKV_OK); // with its NUL
    CHECK_TEXT(out, "he");
    CHECK_EQ(qkv_tokenizer_decode(t, out, sizeof out, &n, NULL, 1, false, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_tokenizer_decode(t, out, sizeof out, &n, ids, -1, false, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_tokenizer_decode(NULL, out, sizeof out, &n, ids, 1, false, NULL), QKV_ERR_USAGE);
    qkv_tokenizer_close(t);
}

static qkv_status flow(void *t, qkv_error *err)
{
    qkv_decode_stream *s = NULL;
    char out[256], *joined = NULL;
    const char *texts[2] = { "he", "##llo" }, *text;
    size_t bytes[2] = { 2, 5 }, n;
    qkv_status status = qkv_decode_stream_new(&s, t, true, err);
    if (!status) {
        status = by_stream(s, out, err);
        // after an error, a stream takes nothing more
        if (status) CHECK_EQ(qkv_decode_stream_put(s, 4, &text, &n, NULL), QKV_ERR_USAGE);
    }
    qkv_decode_stream_free(s);
    if (!status) status = qkv_tokenizer_join(t, &joined, &n, texts, bytes, 2, err);
    qkv_free(joined);
    return status;
}

TEST(every_failed_allocation_is_survived)
{
    EACH(decoder, decoders)
    {
        qkv_tokenizer *t = with_decoder(*decoder);
        CHECK(faults_walk(flow, t, true) > 4);
        qkv_tokenizer_close(t);
    }
}

CHECK_MAIN(CASE(tokens_one_by_one_and_their_texts_give_the_whole),
           CASE(calls_with_null_are_refused), CASE(every_failed_allocation_is_survived))
