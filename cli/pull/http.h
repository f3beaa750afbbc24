// SPDX-License-Identifier: MIT
// http.h: declares HTTP requests with retries, redirects and a token that only its own host gets.
#ifndef QKV_CLI_HTTP_H
#define QKV_CLI_HTTP_H

#include "pull/address.h"
#include "pull/fetch.h"

struct http {
    const struct fetch_engine *engine;
    void *connections;
    const char *home;         // address whose host gets the token, such as https://huggingface.co
    char authorization[1100]; // header with the token; "": none
    const char *certificates; // file; NULL: the system's
    long idle_seconds;
};

// The headers of a response that a caller may read; "" or -1 if there is none.
struct http_headers {
    char location[ADDRESS_BYTES];
    char etag[256], linked_etag[256], commit[64], error_code[64], range[128], next[ADDRESS_BYTES];
    int64_t length, linked_size, retry_after;
};

struct http_call {
    const char *address;
    bool head;
    bool brief;     // the body is a list or a page: the request has a limit of its total time
    bool only_home; // a redirect to another host is not followed but returned, with its location
    const char *accept; // value of the header Accept; NULL: any
    int64_t range_from; // > 0: asks for the bytes from here on
    // Receives the body of a response with status 200 or 206.  Returns false to end the request,
    // with the reason in err.
    bool (*body)(void *context, const struct http_headers *h, long status, const void *data,
                 size_t bytes, qkv_error *err);
    void (*shows)(void *context); // called about once a second; may be NULL
    void *context;
};

struct http_result {
    long status;
    bool broken; // the response did not arrive in full; `text` says why
    char text[256];
    char address[ADDRESS_BYTES]; // of the last request
    bool moved; // a redirect that was not followed (only_home) but may be: headers.location
    struct http_headers headers;
};

// Opens the engine.  Returns QKV_ERR_UNSUPPORTED if libcurl is not there.
qkv_status http_open(struct http *h, qkv_error *err);
void http_close(struct http *h);
// Sends one request, and follows redirects.  A response that did not arrive is no error
// here but r->broken.  Returns QKV_OK; QKV_ERR_FORMAT: a redirect that may not be followed, or
// broken headers; QKV_ERR_INTERRUPTED; QKV_ERR_LIMIT; the error of c->body.
qkv_status http_call(struct http *h, const struct http_call *c, struct http_result *r,
                     qkv_error *err);
// Returns true if the same request may succeed later: no response, 408, 425, 429 or 5xx.
bool http_may_retry(const struct http_result *r);
// Waits before attempt n, 1 or more: as long as the response asks for, at most a minute.  Returns
// QKV_ERR_INTERRUPTED after Ctrl-C.
qkv_status http_wait(const struct http_result *r, int n, qkv_error *err);
enum { HTTP_ATTEMPTS = 5 };
// Reads the whole body of an address, with retries; the caller frees *text, which ends with NUL.
// Fails if the body has more than `most` bytes.  A status other than 200 is no error: *text is then
// NULL.
qkv_status http_text(struct http *h, const char *address, const char *accept, size_t most,
                     char **text, size_t *bytes, struct http_result *r, qkv_error *err);
// Fills err for a response that is no success, of a request for `what`.
qkv_status http_failed(const struct http_result *r, const char *what, qkv_error *err);
#endif
