// SPDX-License-Identifier: MIT
// http_requests.c: parses one request of `qkv serve`, for serve_requests.py.
#include "serve/http_request.h"
#include <string.h>

enum { BODY = 1 << 20 };

// Parses the first request in bytes[n].  found: its state, status, keep_alive, and the number of
// bytes of its body; method[n + 1], body[n].  Returns the number of bytes used.
__attribute__((visibility("default"))) size_t
http_requests_parse(const char *bytes, size_t n, int64_t found[4], char *method, char *body);
size_t http_requests_parse(const char *bytes, size_t n, int64_t found[4], char *method, char *body)
{
    struct http_request r;
    size_t at = 0;
    http_request_init(&r, BODY);
    while (at < n && (r.state == HTTP_STATE_HEAD || r.state == HTTP_STATE_BODY))
        at += http_request_parse(&r, bytes + at, n - at);
    found[0] = r.state;
    found[1] = r.status;
    found[2] = r.keep_alive;
    found[3] = (int64_t)r.body_bytes;
    strcpy(method, r.method);
    if (r.body_bytes) memcpy(body, r.body, r.body_bytes);
    http_request_free(&r);
    return at;
}
