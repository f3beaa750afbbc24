// SPDX-License-Identifier: MIT
// call.c: one request and its answer, which an endpoint or the thread of a model writes and the
// thread of the sockets sends.
#include "serve/server.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *call_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } rows[] = { { 200, "OK" },
                 { 303, "See Other" },
                 { 400, "Bad Request" },
                 { 401, "Unauthorized" },
                 { 403, "Forbidden" },
                 { 404, "Not Found" },
                 { 405, "Method Not Allowed" },
                 { 408, "Request Timeout" },
                 { 413, "Content Too Large" },
                 { 414, "URI Too Long" },
                 { 415, "Unsupported Media Type" },
                 { 417, "Expectation Failed" },
                 { 422, "Unprocessable Content" },
                 { 429, "Too Many Requests" },
                 { 431, "Request Header Fields Too Large" },
                 { 500, "Internal Server Error" },
                 { 501, "Not Implemented" },
                 { 503, "Service Unavailable" },
                 { 505, "HTTP Version Not Supported" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].status == status) return rows[i].reason;
    return "Error";
}

// Appends the head of an answer.  length -1: the body is sent in chunks, or ends the connection.
static void add_head(struct serve_bytes *out, int status, const char *type, int64_t length,
                     bool chunked, bool closing, const char *extra)
{
    char head[512], date[64] = "", size[64] = "";
    const time_t now = time(NULL);
    struct tm t;
    if (gmtime_r(&now, &t)) strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &t);
    if (length >= 0) snprintf(size, sizeof size, "Content-Length: %lld\r\n", (long long)length);
    const int n = snprintf(head, sizeof head,
                           "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: %s\r\n%s%s"
                           "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n%s"
                           "Connection: %s\r\n\r\n",
                           status, call_reason(status), date, type, size,
                           chunked ? "Transfer-Encoding: chunked\r\n" : "", extra,
                           closing ? "close" : "keep-alive");
    serve_bytes_add(out, head, n > 0 && (size_t)n < sizeof head ? (size_t)n : 0);
}

static void print_error(FILE *to, int status, const char *param, const char *message)
{
    fputs("{\"error\":{\"message\":", to);
    cmd_json_text(to, message, strlen(message));
    fprintf(to, ",\"type\":\"%s\",\"param\":",
            status >= 500   ? "server_error"
            : status == 429 ? "overloaded"
                            : "invalid_request_error");
    if (param)
        cmd_json_text(to, param, strlen(param));
    else
        fputs("null", to);
    fprintf(to, ",\"code\":%d}}\n", status);
}

void answer_directly(struct connection *k, int status, const char *message, const char *extra)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (to) {
        print_error(to, status, NULL, message);
        if (fclose(to)) bytes = 0;
    }
    add_head(&k->out, status, "application/json", (int64_t)bytes, false, true, extra);
    if (strcmp(k->request.method, "HEAD") != 0) serve_bytes_add(&k->out, text, bytes);
    free(text);
    k->closing = true;
}

// ---- a call -------------------------------------------------------------------------------------
struct serve_call *call_new(struct server *s, struct connection *k, const struct endpoint *e)
{
    struct serve_call *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->request = &k->request;
    c->endpoint = e;
    c->server = s;
    c->connection = k;
    c->other = s->calls;
    s->calls = c;
    c->began = server_micros();
    c->http10 = !k->request.minor;
    c->head_only = strcmp(k->request.method, "HEAD") == 0;
    c->closing = !k->request.keep_alive || s->draining;
    snprintf(c->path, sizeof c->path, "%s", e->path);
    snprintf(c->method, sizeof c->method, "%s", c->head_only ? "HEAD" : e->method);
    snprintf(c->peer, sizeof c->peer, "%s", k->peer);
    atomic_init(&c->gone, false);
    return c;
}

// Closes the stream of the body. Returns false if memory was exhausted.
static bool close_body(struct serve_call *c)
{
    FILE *to = c->to;
    c->to = NULL;
    if (!to || to == c->server->sink) return false;
    const bool bad = ferror(to) != 0;
    return fclose(to) == 0 && !bad;
}

void call_free(struct serve_call *c)
{
    if (!c) return;
    close_body(c);
    free(c->text);
    qkv_json_free(c->body);
    serve_bytes_free(&c->out);
    serve_bytes_free(&c->rest);
    free(c);
}

// Adds bytes to what the connection sends, and tells the thread of the sockets.  All of it happens
// under one lock: after a call has ended, that thread may free it at any time.  Takes over *rest,
// the body of a complete answer; NULL: none.
static void add(struct serve_call *c, const struct serve_bytes *bytes, struct serve_bytes *rest,
                bool ended)
{
    struct server *s = c->server;
    pthread_mutex_lock(&s->lock);
    if (bytes->failed)
        c->out.failed = true;
    else
        serve_bytes_add(&c->out, bytes->at, bytes->count);
    if (rest) c->rest = *rest;
    c->ended = ended;
    if (!c->queued) {
        c->queued = true;
        c->next = NULL;
        *s->ready_end = c;
        s->ready_end = &c->next;
    }
    while (!pthread_equal(pthread_self(), s->thread) && write(s->wake[1], "", 1) < 0 &&
           errno == EINTR) {
    }
    pthread_mutex_unlock(&s->lock);
}

FILE *serve_answer(struct serve_call *c, int status, const char *type)
{
    close_body(c); // of an answer that was begun and failed
    free(c->text);
    c->text = NULL;
    c->to = open_memstream(&c->text, &c->text_bytes);
    if (!c->to) c->to = c->server->sink; // no memory: send_with() finds no text
    c->status = status;
    snprintf(c->type, sizeof c->type, "%s", type);
    return c->to;
}

#define RETRY "Retry-After: 1\r\n"

static void send_with(struct serve_call *c, const char *extra)
{
    static const char none[] =
        "{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\","
        "\"param\":null,\"code\":503}}\n";
    struct serve_bytes out = { 0 }, rest = { 0 };
    const bool whole = close_body(c) && c->text;
    c->sent = whole ? c->text_bytes : sizeof none - 1;
    if (!whole) {
        c->status = 503;
        snprintf(c->type, sizeof c->type, "application/json");
        extra = RETRY;
    }
    add_head(&out, c->status, c->type, (int64_t)c->sent, false, c->closing, extra);
    if (!whole && !c->head_only) serve_bytes_add(&out, none, c->sent);
    if (whole && !c->head_only) {
        rest = (struct serve_bytes){ c->text, c->sent, c->sent, false };
        c->text = NULL;
    }
    add(c, &out, &rest, true);
    serve_bytes_free(&out);
}

void serve_send(struct serve_call *c)
{
    send_with(c, "");
}

void serve_fail(struct serve_call *c, int status, const char *param, const char *format, ...)
{
    char message[1024], clean[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    qkv_escape(clean, sizeof clean, message);
    if (c->streaming) { // the status was sent: the error is an event
        char *text = NULL;
        size_t bytes = 0;
        FILE *to = open_memstream(&text, &bytes);
        if (to) {
            print_error(to, status, param, clean);
            if (!fclose(to) && bytes) serve_stream_event(c, text, bytes - 1);
        }
        free(text);
        c->status = status;
        serve_stream_end(c);
        return;
    }
    print_error(serve_answer(c, status, "application/json"), status, param, clean);
    send_with(c, status == 429 || status == 503 ? RETRY : "");
}

// Returns true if memory was exhausted, which may not happen again.
static bool is_memory(const qkv_error *err)
{
    return !*err->text || strstr(err->text, "memory");
}

void serve_fail_with(struct serve_call *c, const qkv_error *err, const char *param)
{
    int status = 400;
    // other limits are limits of a request, such as the steps of a regular expression
    if (err->status == QKV_ERR_LIMIT) status = is_memory(err) ? 503 : 413;
    if (err->status == QKV_ERR_INTERRUPTED) status = 503;
    if (err->status == QKV_ERR_UNSUPPORTED) status = 422;
    if (err->status == QKV_ERR_IO || err->status == QKV_ERR_INTERNAL) status = 500;
    serve_fail(c, status, status < 500 ? param : NULL, "%s", err->text); // the server's own failure
}

// ---- answers in pieces --------------------------------------------------------------------------
void serve_stream_begin(struct serve_call *c)
{
    struct serve_bytes out = { 0 };
    c->streaming = true;
    c->status = 200;
    c->closing = c->closing || c->http10;
    add_head(&out, 200, "text/event-stream; charset=utf-8", -1, !c->http10, c->closing, "");
    add(c, &out, NULL, false);
    serve_bytes_free(&out);
}

// Adds a piece of the body, as a chunk unless the client speaks HTTP/1.0.
static void add_piece(struct serve_call *c, struct serve_bytes *out, const char *data, size_t bytes)
{
    char size[32];
    const int n = snprintf(size, sizeof size, "%zx\r\n", bytes);
    if (!c->http10) serve_bytes_add(out, size, (size_t)n);
    serve_bytes_add(out, data, bytes);
    if (!c->http10) serve_bytes_add(out, "\r\n", 2);
    c->sent += bytes;
}

void serve_stream_event(struct serve_call *c, const char *data, size_t bytes)
{
    struct serve_bytes piece = { 0 }, out = { 0 };
    serve_bytes_add(&piece, "data: ", 6);
    serve_bytes_add(&piece, data, bytes);
    serve_bytes_add(&piece, "\n\n", 2);
    add_piece(c, &out, piece.at, piece.count);
    out.failed = out.failed || piece.failed;
    add(c, &out, NULL, false);
    serve_bytes_free(&piece);
    serve_bytes_free(&out);
}

void serve_stream_end(struct serve_call *c)
{
    struct serve_bytes out = { 0 };
    if (!c->http10) serve_bytes_add(&out, "0\r\n\r\n", 5);
    add(c, &out, NULL, true);
    serve_bytes_free(&out);
}
