// SPDX-License-Identifier: MIT
// http.c: sends HTTP requests through the engine "curl": follows redirects, keeps the token from
// other hosts, limits headers and bodies, and retries.
#include "pull/http.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include "engines/engine.h"

enum { REDIRECTS = 10, HEADER_BYTES = 1 << 18, CONNECT_SECONDS = 30 };

qkv_status http_open(struct http *h, qkv_error *err)
{
    static const struct engine curl = { "curl", "qkv pull", "libcurl4-openssl-dev",
                                        sizeof(struct fetch_engine) };
    static const char *const variables[] = { "SSL_CERT_FILE", "CURL_CA_BUNDLE",
                                             "REQUESTS_CA_BUNDLE" };
    int64_t seconds = 30;
    const char *const text = getenv("HF_HUB_DOWNLOAD_TIMEOUT");
    if (text && *text && (!cmd_parse_int(text, &seconds) || seconds < 1 || seconds > 86400))
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "HF_HUB_DOWNLOAD_TIMEOUT: expected 1 to 86400 seconds, found '%.100s'",
                         text);
    h->idle_seconds = (long)seconds;
    for (size_t i = 0; i < sizeof variables / sizeof *variables && !h->certificates; i++) {
        const char *const file = getenv(variables[i]);
        if (file && *file) h->certificates = file;
    }
    h->engine = engine_open(&curl, err);
    if (!h->engine) return err->status;
    h->connections = h->engine->open();
    return h->connections ? QKV_OK : cmd_no_memory(err);
}

void http_close(struct http *h)
{
    if (h->engine) h->engine->close(h->connections);
}

// ---- one response ------------------------------------------------------------------------------
struct receive {
    const struct http_call *call;
    struct http_headers *headers;
    size_t header_bytes;
    qkv_error *err;
};

static void begin_headers(struct http_headers *h)
{
    memset(h, 0, sizeof *h);
    h->length = h->linked_size = h->retry_after = -1;
}

// Copies a header; one that is too long is left empty, as if it were missing.
static void keep(char *to, size_t size, const char *value)
{
    const size_t n = strlen(value);
    if (n < size)
        memcpy(to, value, n + 1);
    else
        to[0] = 0;
}

// Keeps the address of Link: <address>; rel="next".
static void keep_next(struct http_headers *h, const char *value)
{
    const char *const end = *value == '<' ? strchr(value, '>') : NULL;
    if (!end || !strstr(end, "rel=\"next\"") || (size_t)(end - value) > sizeof h->next) return;
    memcpy(h->next, value + 1, (size_t)(end - value) - 1);
    h->next[end - value - 1] = 0;
}

static int on_header(void *context, const char *name, const char *value)
{
    struct receive *const r = context;
    struct http_headers *const h = r->headers;
    const struct {
        const char *name;
        char *to;
        size_t size;
    } texts[] = {
        { "location", h->location, sizeof h->location },
        { "etag", h->etag, sizeof h->etag },
        { "x-linked-etag", h->linked_etag, sizeof h->linked_etag },
        { "x-repo-commit", h->commit, sizeof h->commit },
        { "x-error-code", h->error_code, sizeof h->error_code },
        { "content-range", h->range, sizeof h->range },
    };
    if (!name) {
        begin_headers(h);
        return 0;
    }
    r->header_bytes += strlen(name) + strlen(value);
    if (r->header_bytes > HEADER_BYTES) {
        char shown[ADDRESS_SHOWN];
        cmd_error(r->err, QKV_ERR_FORMAT, NULL, "%s: headers of more than %d bytes",
                  address_show(shown, r->call->address), HEADER_BYTES);
        return 1;
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!strcasecmp(name, texts[i].name)) keep(texts[i].to, texts[i].size, value);
    if (!strcasecmp(name, "content-length")) (void)cmd_parse_int(value, &h->length);
    if (!strcasecmp(name, "x-linked-size")) (void)cmd_parse_int(value, &h->linked_size);
    if (!strcasecmp(name, "retry-after")) (void)cmd_parse_int(value, &h->retry_after);
    if (!strcasecmp(name, "link")) keep_next(h, value);
    return 0;
}

static int on_body(void *context, long status, const void *data, size_t bytes)
{
    struct receive *const r = context;
    if (status != 200 && status != 206) { // the text of an error is not read
        r->header_bytes += bytes;
        return r->header_bytes > HEADER_BYTES;
    }
    return !r->call->body ||
           !r->call->body(r->call->context, r->headers, status, data, bytes, r->err);
}

static int on_tick(void *context)
{
    struct receive *const r = context;
    if (cmd_interrupted()) {
        cmd_error(r->err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
        return 1;
    }
    if (r->call->shows) r->call->shows(r->call->context);
    return 0;
}

// Sends one request to r->address.
static qkv_status send_one(struct http *h, const struct http_call *c, struct http_result *r,
                           qkv_error *err)
{
    char accept[128], range[64], shown[ADDRESS_SHOWN];
    const char *lines[6];
    int n = 0;
    struct address home, to;
    struct receive receive = { c, &r->headers, 0, err };
    struct fetch_answer answer;
    if (!address_parse(&to, r->address))
        return cmd_error(err, QKV_ERR_USAGE, NULL, "%s is no address of http or https",
                         address_show(shown, r->address));
    lines[n++] = "User-Agent: qkv";
    lines[n++] = "Accept-Encoding: identity"; // sizes and digests count the bytes themselves
    snprintf(accept, sizeof accept, "Accept: %s", c->accept ? c->accept : "*/*");
    lines[n++] = accept;
    if (c->range_from > 0) {
        snprintf(range, sizeof range, "Range: bytes=%lld-", (long long)c->range_from);
        lines[n++] = range;
    }
    if (h->authorization[0] && address_parse(&home, h->home) && address_same(&home, &to))
        lines[n++] = h->authorization;
    lines[n] = NULL;
    begin_headers(&r->headers);
    const struct fetch_request request = { .url = r->address,
                                           .head = c->head,
                                           .headers = lines,
                                           .certificates = h->certificates,
                                           .connect_seconds = CONNECT_SECONDS,
                                           .idle_seconds = h->idle_seconds,
                                           .total_seconds =
                                               c->head || c->brief ? 10 * h->idle_seconds : 0,
                                           .context = &receive,
                                           .header = on_header,
                                           .body = on_body,
                                           .tick = on_tick };
    h->engine->run(h->connections, &request, &answer);
    if (err->status) return err->status;
    if (answer.outcome == FETCH_MEMORY) return cmd_no_memory(err);
    if (answer.outcome == FETCH_REFUSED)
        return cmd_error(err, QKV_ERR_IO, NULL, "%s: %s", address_show(shown, r->address),
                         answer.text);
    r->status = answer.status;
    // the text of an error may be cut off: its status is what counts
    r->broken = answer.outcome != FETCH_OK && !(answer.status >= 300);
    snprintf(r->text, sizeof r->text, "%s", answer.text);
    return QKV_OK;
}

qkv_status http_call(struct http *h, const struct http_call *c, struct http_result *r,
                     qkv_error *err)
{
    char next[ADDRESS_BYTES], shown[ADDRESS_SHOWN];
    struct address here, there;
    memset(r, 0, sizeof *r);
    snprintf(r->address, sizeof r->address, "%s", c->address);
    for (int i = 0; i <= REDIRECTS; i++) {
        if (send_one(h, c, r, err)) return err->status;
        const bool moved = !r->broken && (r->status == 301 || r->status == 302 ||
                                          r->status == 303 || r->status == 307 || r->status == 308);
        if (!moved || !r->headers.location[0]) return QKV_OK;
        if (address_redirect(next, r->address, r->headers.location, err)) return err->status;
        snprintf(r->headers.location, sizeof r->headers.location, "%s", next);
        r->moved = c->only_home && (!address_parse(&here, r->address) ||
                                    !address_parse(&there, next) || !address_same(&here, &there));
        if (r->moved) return QKV_OK;
        memcpy(r->address, next, sizeof next);
    }
    return cmd_error(err, QKV_ERR_FORMAT, NULL, "%s: more than %d redirects",
                     address_show(shown, c->address), REDIRECTS);
}

// ---- retries -----------------------------------------------------------------------------------
bool http_may_retry(const struct http_result *r)
{
    return r->broken || !r->status || r->status == 408 || r->status == 425 || r->status == 429 ||
           r->status >= 500;
}

qkv_status http_wait(const struct http_result *r, int n, qkv_error *err)
{
    const int64_t asked = r->headers.retry_after;
    int64_t steps = (int64_t)5 << (n < 6 ? n - 1 : 5); // of 50 ms: 0.25 s, 0.5 s, ...
    if (asked >= 0) steps = 20 * (asked < 60 ? asked : 60);
    if (asked > 1) cmd_note("the server asks to wait for %lld s", (long long)(steps / 20));
    for (int64_t i = 0; i < steps; i++) {
        if (cmd_interrupted()) return cmd_error(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
        nanosleep(&(struct timespec){ 0, 50000000 }, NULL);
    }
    return QKV_OK;
}

struct text {
    char *data;
    size_t bytes, most;
    const char *address;
};

static bool add_text(void *context, const struct http_headers *h, long status, const void *data,
                     size_t bytes, qkv_error *err)
{
    struct text *const t = context;
    (void)status;
    if (h->length > (int64_t)t->most || bytes > t->most - t->bytes) {
        char shown[ADDRESS_SHOWN];
        cmd_error(err, QKV_ERR_LIMIT, NULL, "%s: more than %zu bytes",
                  address_show(shown, t->address), t->most);
        return false;
    }
    t->data = cmd_grow(t->data, t->bytes + bytes + 1, 1);
    memcpy(t->data + t->bytes, data, bytes);
    t->bytes += bytes;
    return true;
}

qkv_status http_text(struct http *h, const char *address, const char *accept, size_t most,
                     char **text, size_t *bytes, struct http_result *r, qkv_error *err)
{
    struct text t = { .most = most, .address = address };
    const struct http_call call = {
        .address = address, .brief = true, .accept = accept, .body = add_text, .context = &t
    };
    *text = NULL;
    *bytes = 0;
    for (int n = 1;; n++) {
        t.bytes = 0;
        if (http_call(h, &call, r, err)) break;
        if (!http_may_retry(r) || n == HTTP_ATTEMPTS) break;
        if (http_wait(r, n, err)) break;
    }
    if (err->status || r->broken || r->status != 200) {
        free(t.data);
        return err->status;
    }
    t.data = cmd_grow(t.data, t.bytes + 1, 1);
    t.data[t.bytes] = 0;
    *text = t.data;
    *bytes = t.bytes;
    return QKV_OK;
}

qkv_status http_failed(const struct http_result *r, const char *what, qkv_error *err)
{
    char shown[ADDRESS_SHOWN];
    (void)address_show(shown, r->address);
    if (r->broken || !r->status)
        return cmd_error(err, QKV_ERR_IO, NULL, "%.300s did not arrive from %s: %s", what, shown,
                         r->text[0] ? r->text : "no response");
    return cmd_error(err, QKV_ERR_IO, NULL, "%.300s: %s answers with status %ld%s%s%s", what, shown,
                     r->status, r->headers.error_code[0] ? " (" : "", r->headers.error_code,
                     r->headers.error_code[0] ? ")" : "");
}
