// SPDX-License-Identifier: MIT
// http_request.h: declares the parser of HTTP/1.1 requests: exact, incremental, with limits.  It
// accepts the grammar of RFC 9112 and nothing that servers and proxies read in different ways.
//
// Refused, with the status of the answer (after which the connection is closed):
//   400  a bare CR or LF, NUL and other control characters, a space before a colon, a continued
//        line, no Host, two or an invalid one, two Content-Length, Content-Length with
//        Transfer-Encoding, a length that is no number, a malformed chunk, trailers
//   413  a body above the limit, before it is read       414  a request line above the limit
//   417  another expectation than 100-continue           431  headers above the limit
//   501  another Transfer-Encoding than chunked          505  another version than 1.x
#ifndef QKV_CLI_HTTP_REQUEST_H
#define QKV_CLI_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HTTP_LINE = 8192,      // bytes of the request line
    HTTP_HEAD = 32768,     // bytes of request line and headers
    HTTP_FIELDS = 100,     // number of headers
    HTTP_EXTENSIONS = 4096 // bytes of all extensions of chunks
};

struct http_field {
    const char *name, *value; // name in lower case
};

enum http_state {
    HTTP_STATE_HEAD,   // reads the request line and the headers
    HTTP_STATE_BODY,   // the head is complete and valid; reads the body
    HTTP_STATE_DONE,   // the request is complete
    HTTP_STATE_FAILED, // the request is refused
    HTTP_STATE_CLOSED  // the bytes are no HTTP (TLS): close the connection without an answer
};

struct http_request {
    size_t body_limit; // set by the caller before the first byte
    enum http_state state;
    int status;         // HTTP_STATE_FAILED: status of the answer, with
    const char *reason; // its reason, a constant text
    // The head, valid from HTTP_STATE_BODY on.
    const char *method, *path;
    const char *query; // text after the first '?' of the target; "" if there is none
    const char *host;  // "" if there is none (HTTP/1.0)
    int minor;         // version 1.minor
    struct http_field field[HTTP_FIELDS];
    int fields;
    bool keep_alive, expects_continue;
    // The body, body[body_bytes], NUL-terminated; valid in HTTP_STATE_DONE.
    char *body;
    size_t body_bytes;
    // Members of the parser.
    char *head;
    size_t head_bytes, line_start, body_capacity;
    bool line_done, chunked;
    uint64_t length; // bytes of the body or chunk that are missing
    int chunk;       // part of the chunked body that is read: enum chunk of http_request.c
    size_t extensions;
    int digits;
};

void http_request_init(struct http_request *r, size_t body_limit);
void http_request_free(struct http_request *r);      // accepts a zeroed struct
void http_request_free_body(struct http_request *r); // of a request that was handled
// Frees the memory of a request and prepares for the next one of the connection.
void http_request_reset(struct http_request *r);
// Parses bytes[n] until the request is complete, refused, or all bytes are used. Returns the number
// of bytes used.  The state HTTP_STATE_BODY is returned once without having used a byte of the
// body, so that the caller can refuse the request before it reads the body.
size_t http_request_parse(struct http_request *r, const char *bytes, size_t n);
// Returns the value of a header, whose name is in lower case; NULL: there is none, or several.
const char *http_request_field(const struct http_request *r, const char *name);
// Returns true if no byte of a request has arrived.
bool http_request_empty(const struct http_request *r);
#endif
