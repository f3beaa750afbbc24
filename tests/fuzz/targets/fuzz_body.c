// SPDX-License-Identifier: MIT
// fuzz_body.c: reads any bytes as the JSON body of a request of `qkv serve`, with a member of each
// kind: every number is in its range, every text is there, and a body is either read or answered
// with an error, once.  The first byte selects what a member with texts may contain.
// Inputs have up to 2048 bytes.
#include "fuzz/fuzz.h"
#include "serve/server.h"
#include <stdarg.h>

enum { TEXTS_MOST = 5 };
const struct cmd *const cmd_table[] = { NULL };
static int answers;

void serve_fail(struct serve_call *c, int status, const char *param, const char *format, ...)
{
    char message[1024], clean[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    qkv_escape(clean, sizeof clean, message);
    FUZZ_CHECK(c->request && status >= 400 && status < 600 && clean[0]);
    FUZZ_CHECK(!param || param[0] == '$');
    for (size_t n, i = 0; clean[i]; i += n) {
        n = qkv_utf8_bytes(clean + i, strlen(clean + i));
        FUZZ_CHECK(n > 0 && (n > 1 || (clean[i] >= 0x20 && clean[i] != 0x7f)));
    }
    answers++;
}
void serve_fail_with(struct serve_call *c, const qkv_error *err, const char *param)
{
    FUZZ_CHECK(err->status == QKV_ERR_LIMIT);
    serve_fail(c, 503, param, "%s", err->text);
}
bool connection_hold(struct serve_call *c, size_t bytes)
{
    return c->request->body_bytes != 99 && bytes < 1 << 24; // a client whose share is used up
}

static void check_texts(struct serve_call *c, const qkv_json *v, unsigned allowed)
{
    struct serve_texts t;
    const bool read = serve_texts_read(c, &t, v, "$.input", TEXTS_MOST, allowed);
    FUZZ_CHECK(answers == !read);
    if (read) {
        FUZZ_CHECK(t.count <= TEXTS_MOST && (t.count > 0 || allowed & TEXTS_EMPTY));
        FUZZ_CHECK(!t.single || t.count == 1);
        FUZZ_CHECK(!t.ids || allowed & TEXTS_IDS);
    }
    for (int64_t i = 0; read && i < t.count; i++) {
        FUZZ_CHECK(serve_text_cost(&t, i) >= 2);
        if (!t.ids) FUZZ_CHECK(t.text[i] && strlen(t.text[i]) <= t.bytes[i]);
        if (!t.ids) continue;
        FUZZ_CHECK(t.offsets[i] <= t.offsets[i + 1]);
        for (int64_t k = t.offsets[i]; k < t.offsets[i + 1]; k++) FUZZ_CHECK(t.ids[k] >= 0);
    }
    serve_texts_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    for (int again = 0; again < (fuzz_fails(data, size) ? 2 : 1); again++) {
        const char *model = "none", *direction = NULL;
        int64_t n = 3;
        double x = .5;
        bool flag = false, left = false;
        const qkv_json *input = NULL, *options = NULL;
        const struct serve_field inner[] = {
            { .name = "n", .kind = FIELD_INTEGER, .to = &n, .min = 1, .max = 9e15 }, { 0 }
        };
        const struct serve_field fields[] = {
            { .name = "model", .kind = FIELD_TEXT, .to = &model },
            { .name = "truncation_direction", .kind = FIELD_TEXT, .to = &direction },
            { .name = "n", .kind = FIELD_INTEGER, .to = &n, .min = -2, .max = 4096 },
            { .name = "temperature", .kind = FIELD_NUMBER, .to = &x, .min = 0, .max = 2 },
            { .name = "stream", .kind = FIELD_BOOLEAN, .to = &flag },
            { .name = "input", .kind = FIELD_ANY, .to = &input },
            { .name = "options", .kind = FIELD_ANY, .to = &options },
            { .name = "user", .kind = FIELD_IGNORED },
            { .name = "logit_bias", .kind = FIELD_REFUSED },
            { 0 }
        };
        char *body = malloc(size); // NUL-terminated, as the parser of requests leaves it
        FUZZ_CHECK(body);
        memcpy(body, data + 1, size - 1);
        body[size - 1] = 0;
        const struct http_request r = { .body = size > 1 ? body : NULL, .body_bytes = size - 1 };
        struct serve_call c = { .request = &r };
        answers = 0;
        fuzz_fail_at(again ? fuzz_choose(data, size) : 0);
        const bool read = serve_body(&c, fields);
        fuzz_fault = 0;
        FUZZ_CHECK(answers == !read);
        if (read) {
            FUZZ_CHECK(model && n >= -2 && n <= 4096 && x >= 0 && x <= 2);
            if (serve_direction(&c, direction, data[0] & 4 ? &left : NULL)) answers = 0;
            answers = 0;
            if (options && serve_members(&c, options, "$.options", inner))
                FUZZ_CHECK(!answers && n >= -2 && (double)n <= 9e15);
            answers = 0;
            check_texts(&c, input, data[0] & (TEXTS_IDS | TEXTS_EMPTY));
        }
        qkv_json_free(c.body);
        free(body);
    }
    return 0;
}
