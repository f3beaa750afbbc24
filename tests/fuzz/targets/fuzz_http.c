// SPDX-License-Identifier: MIT
// fuzz_http.c: parses any bytes as HTTP requests, whole and in pieces: both have the same result,
// and every result is complete, refused with a status, or waits for more bytes.
#include "fuzz/fuzz.h"
#include "serve/http_request.h"

enum { LIMIT = 4096 };

// Parses data in pieces of at most `piece` bytes.  Returns the number of bytes used.
static size_t parse(struct http_request *r, const uint8_t *data, size_t size, size_t piece)
{
    size_t at = 0;
    http_request_init(r, LIMIT);
    while (at < size && (r->state == HTTP_STATE_HEAD || r->state == HTTP_STATE_BODY)) {
        const size_t n = size - at < piece ? size - at : piece;
        const enum http_state before = r->state;
        const size_t used = http_request_parse(r, (const char *)data + at, n);
        FUZZ_CHECK(used <= n);
        FUZZ_CHECK(used > 0 || r->state != before); // it makes progress
        at += used;
    }
    return at;
}

static void check(const struct http_request *r, const uint8_t *data, size_t at)
{
    FUZZ_CHECK(r->body_bytes <= LIMIT && r->fields <= HTTP_FIELDS);
    if (r->state == HTTP_STATE_FAILED)
        FUZZ_CHECK(r->status >= 400 && r->status <= 505 && r->reason && !r->keep_alive);
    if (r->state != HTTP_STATE_DONE) return;
    FUZZ_CHECK(*r->path == '/' || strcmp(r->path, "*") == 0);
    FUZZ_CHECK(r->minor == 0 || r->minor == 1);
    for (int i = 0; i < r->fields; i++) {
        FUZZ_CHECK(r->field[i].name[0]);
        for (const char *p = r->field[i].value; *p; p++)
            FUZZ_CHECK((unsigned char)*p >= 0x20 || *p == '\t');
    }
    FUZZ_CHECK(!r->body_bytes || strlen(r->body) <= r->body_bytes);
    FUZZ_CHECK(at > 0 && (r->body_bytes > 0 || data[at - 1] == '\n'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t begin = 0;
    for (int n = 0; n < 8 && begin < size; n++) { // pipelined requests
        struct http_request whole, parts;
        const uint8_t *at = data + begin;
        const size_t left = size - begin, used = parse(&whole, at, left, left);
        const size_t same = parse(&parts, at, left, 1 + left % 7);
        FUZZ_CHECK(used == same && whole.state == parts.state && whole.status == parts.status);
        FUZZ_CHECK(whole.fields == parts.fields && whole.body_bytes == parts.body_bytes);
        FUZZ_CHECK(!whole.body_bytes || !memcmp(whole.body, parts.body, whole.body_bytes));
        check(&whole, at, used);
        const bool next = whole.state == HTTP_STATE_DONE && whole.keep_alive;
        http_request_free(&whole);
        http_request_free(&parts);
        if (!next) break;
        begin += used;
    }
    return 0;
}
