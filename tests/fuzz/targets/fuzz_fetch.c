// SPDX-License-Identifier: MIT
// fuzz_fetch.c: reads any bytes as the responses of a hub to `qkv pull`: a request goes to public
// hosts by https only, and the token to the host of the hub only; a page has at most the bytes that
// were asked for.  The page is then searched for the link of a package.  The input is a byte of
// settings and responses that are separated by zero bytes: a line with the status, headers, an
// empty line, the body.
// Inputs have up to 2048 bytes.
#include "fuzz/fuzz.h"
#include "engines/engine.h"
#include "pull/pull.h"
#include <time.h>

enum { RESPONSES = 12, PAGE_MOST = 400 };
static const char home[] = "https://hub.example";
const struct cmd *const cmd_table[] = { NULL };
static struct fuzz_part responses[RESPONSES];
static int next;
static unsigned settings;

// A retry waits no time.
int nanosleep(const struct timespec *time, struct timespec *rest)
{
    (void)rest;
    FUZZ_CHECK(time->tv_sec >= 0 && time->tv_sec <= 60);
    return 0;
}

static void check_address(const char *text, bool token)
{
    struct address a, hub;
    char shown[ADDRESS_SHOWN];
    FUZZ_CHECK(address_parse(&a, text) && address_parse(&hub, home));
    FUZZ_CHECK(a.secure && !a.user && !address_local(&a) && a.port > 0 && a.host[0]);
    FUZZ_CHECK(!token || address_same(&a, &hub));
    FUZZ_CHECK(!strpbrk(address_show(shown, text), "?#"));
}

// Calls back with a response of the input.
static void run(void *connections, const struct fetch_request *r, struct fetch_answer *a)
{
    bool token = false;
    (void)connections;
    for (int i = 0; r->headers[i]; i++) token |= !strncmp(r->headers[i], "Authorization:", 14);
    check_address(r->url, token);
    *a = (struct fetch_answer){ .outcome = FETCH_NETWORK, .text = "no connection" };
    if (next == RESPONSES || r->header(r->context, NULL, "HTTP/1.1 200")) return;
    char *const text = fuzz_string(&responses[next++]), *line = text;
    a->status = (long)(strtoul(text, NULL, 10) % 600);
    a->outcome = settings & 1 && next == 2 ? FETCH_NETWORK : FETCH_OK;
    for (bool more = true; more;) {
        char *const end = line + strcspn(line, "\n"), *const colon =
                                                          memchr(line, ':', (size_t)(end - line));
        const bool last = !*end;
        *end = 0;
        more = !last && end > line;
        if (colon) {
            *colon = 0;
            const char *const value = colon + 1 + strspn(colon + 1, " \t");
            if (r->header(r->context, line, value)) {
                a->outcome = FETCH_STOPPED;
                break;
            }
        }
        line = last ? end : end + 1;
    }
    const size_t n = strlen(line), half = n / 2;
    if (a->outcome == FETCH_OK && !r->head &&
        (r->body(r->context, a->status, line, half) ||
         r->body(r->context, a->status, line + half, n - half)))
        a->outcome = FETCH_STOPPED;
    free(text);
}
static void *begin(void)
{
    return &next;
}
static void end(void *connections)
{
    FUZZ_CHECK(connections == &next);
}
static const struct fetch_engine engine = { sizeof engine, begin, run, end };
const void *engine_open(const struct engine *x, qkv_error *err)
{
    (void)err;
    FUZZ_CHECK(x->size == sizeof engine);
    return &engine;
}

static void follow_link(const char *page, const char *from)
{
    char link[ADDRESS_BYTES], to[ADDRESS_BYTES];
    qkv_error err = { 0 };
    if (!pypi_link(link, page)) return;
    FUZZ_CHECK(!strpbrk(link, "\"<>#"));
    if (address_redirect(to, from, link, &err))
        fuzz_refusal(err.status, &err);
    else
        check_address(to, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    struct http h = { .home = home, .authorization = "Authorization: Bearer secret" };
    struct http_result r;
    char *text = NULL;
    size_t bytes = 0;
    qkv_error err = { 0 };
    settings = data[0];
    next = 0;
    fuzz_split(responses, RESPONSES, data + 1, size - 1);
    fuzz_success(http_open(&h, &err), &err);
    const qkv_status status = http_text(&h, "https://hub.example/api/models/org/name?x=1#y",
                                        "text/html", PAGE_MOST, &text, &bytes, &r, &err);
    FUZZ_CHECK(status == err.status && !(status && text));
    if (status)
        fuzz_refusal(status, &err);
    else if (!text)
        fuzz_refusal(http_failed(&r, "the page", &err), &err);
    if (text) {
        FUZZ_CHECK(bytes <= PAGE_MOST && text[bytes] == 0 && r.status == 200 && !r.broken);
        check_address(r.address, false);
        follow_link(text, r.address);
    }
    free(text);
    http_close(&h);
    return 0;
}
