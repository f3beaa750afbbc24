// SPDX-License-Identifier: MIT
// fetch_curl.c: the engine "curl": single HTTP requests by libcurl.
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "pull/fetch.h"

struct run {
    CURL *curl;
    const struct fetch_request *request;
    int stopped;
};

static size_t on_header(char *data, size_t size, size_t count, void *user)
{
    struct run *run = user;
    size_t bytes = size * count;
    char line[16384];
    if (run->stopped || bytes >= sizeof line) return 0;
    while (bytes && strchr("\r\n", data[bytes - 1])) bytes--;
    if (!bytes) return size * count;
    memcpy(line, data, bytes);
    line[bytes] = 0;
    char *value = line;
    const char *name = NULL;
    if (strncmp(line, "HTTP/", 5) != 0) {
        value = strchr(line, ':');
        if (!value || strlen(line) != bytes) return size * count; // no header: not interpreted
        *value++ = 0;
        value += strspn(value, " \t");
        name = line;
    }
    run->stopped = run->request->header(run->request->context, name, value);
    return run->stopped ? 0 : size * count;
}

static size_t on_body(char *data, size_t size, size_t count, void *user)
{
    struct run *run = user;
    long status = 0;
    curl_easy_getinfo(run->curl, CURLINFO_RESPONSE_CODE, &status);
    run->stopped = run->request->body(run->request->context, status, data, size * count);
    return run->stopped ? 0 : size * count;
}

static int on_tick(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct run *run = user;
    (void)a, (void)b, (void)c, (void)d;
    if (!run->stopped) run->stopped = run->request->tick(run->request->context);
    return run->stopped;
}

static enum fetch_outcome outcome_of(CURLcode code)
{
    switch (code) {
    case CURLE_OK: return FETCH_OK;
    case CURLE_OUT_OF_MEMORY: return FETCH_MEMORY;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_NOT_BUILT_IN: return FETCH_REFUSED;
    default: return FETCH_NETWORK;
    }
}

// Sets one option, unless one before it was refused: of a request of which libcurl does not know
// all, none is sent.
#define SET(option, value) (code = code ? code : curl_easy_setopt(curl, option, value))

// Restricts the handle to HTTP, without redirects, cookies and the files of the user.
static CURLcode set_limits(CURL *curl)
{
    CURLcode code = CURLE_OK;
#if LIBCURL_VERSION_NUM >= 0x075500
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
#else
    SET(CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    SET(CURLOPT_HTTP09_ALLOWED, 0L);
    return code;
}

static CURLcode set_request(struct run *run, struct curl_slist *headers, char text[CURL_ERROR_SIZE])
{
    CURL *const curl = run->curl;
    const struct fetch_request *const r = run->request;
    CURLcode code = set_limits(curl);
    SET(CURLOPT_ERRORBUFFER, text);
    SET(CURLOPT_URL, r->url);
    SET(CURLOPT_HTTPHEADER, headers);
    SET(CURLOPT_NOBODY, (long)r->head);
    SET(CURLOPT_CONNECTTIMEOUT, r->connect_seconds);
    SET(CURLOPT_LOW_SPEED_LIMIT, (long)FETCH_RATE);
    SET(CURLOPT_LOW_SPEED_TIME, r->idle_seconds);
    SET(CURLOPT_TIMEOUT, r->total_seconds);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, run);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, run);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, on_tick);
    SET(CURLOPT_XFERINFODATA, run);
    if (r->certificates) SET(CURLOPT_CAINFO, r->certificates);
    return code;
}
#undef SET

static void run_request(void *connections, const struct fetch_request *r, struct fetch_answer *a)
{
    CURL *const curl = connections;
    char text[CURL_ERROR_SIZE] = "";
    struct run run = { .curl = curl, .request = r };
    struct curl_slist *headers = NULL;
    memset(a, 0, sizeof *a);
    curl_easy_reset(curl); // the connections stay open
    for (const char *const *line = r->headers; *line; line++) {
        struct curl_slist *const more = curl_slist_append(headers, *line);
        if (!more) {
            curl_slist_free_all(headers);
            a->outcome = FETCH_MEMORY;
            return;
        }
        headers = more;
    }
    CURLcode code = set_request(&run, headers, text);
    if (!code) code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &a->status);
    a->outcome = run.stopped ? FETCH_STOPPED : outcome_of(code);
    if (code) snprintf(a->text, sizeof a->text, "%s", text[0] ? text : curl_easy_strerror(code));
    curl_slist_free_all(headers);
}

static void *open_connections(void)
{
    return curl_global_init(CURL_GLOBAL_DEFAULT) ? NULL : curl_easy_init();
}

static void close_connections(void *connections)
{
    curl_easy_cleanup(connections);
}

__attribute__((visibility("default"))) extern const struct fetch_engine qkv_engine;
const struct fetch_engine qkv_engine = {
    .size = sizeof qkv_engine,
    .open = open_connections,
    .run = run_request,
    .close = close_connections,
};
