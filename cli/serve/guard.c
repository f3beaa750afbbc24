// SPDX-License-Identifier: MIT
// guard.c: decides whether a request may reach an endpoint: Host and Origin (a page of another site
// must not use a server of this machine, also not by DNS rebinding), token, path, method, type of
// the body.
#include "serve/server.h"
#include <string.h>
#include <strings.h>

const struct endpoint endpoint_table[] = {
#define ENDPOINT(method, path, function, about) { method, path, endpoint_##function, about },
#include "serve/endpoint.def"
#undef ENDPOINT
    { NULL, NULL, NULL, NULL }
};

bool guard_equal(const char *a, const char *b)
{
    const size_t n = strlen(a), m = strlen(b);
    unsigned differ = n != m;
    for (size_t i = 0; i < m; i++) differ |= (unsigned char)(a[n ? i % n : 0] ^ b[i]);
    return !differ;
}

// Returns true if host is `name`, with or without a port.
static bool is_host(const char *host, const char *name)
{
    const size_t n = strlen(name);
    if (strncasecmp(host, name, n) != 0) return false;
    host += n;
    return !*host || (*host == ':' && strspn(host + 1, "0123456789") == strlen(host + 1));
}

static bool host_known(const struct server *s, const char *host)
{
    static const char *const own[] = { "localhost", "127.0.0.1", "[::1]" };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (is_host(host, own[i])) return true;
    for (int64_t i = 0; i < s->o.host_count; i++)
        if (is_host(host, s->o.hosts[i])) return true;
    return false;
}

// Returns true if the request has no Origin, or that of a page of this server.
static bool origin_own(const struct http_request *r)
{
    bool any = false;
    for (int i = 0; i < r->fields; i++) any = any || strcmp(r->field[i].name, "origin") == 0;
    if (!any) return true;
    const char *origin = http_request_field(r, "origin"), *host = NULL;
    if (origin && strncmp(origin, "http://", 7) == 0) host = origin + 7;
    if (origin && strncmp(origin, "https://", 8) == 0) host = origin + 8;
    return host && *host && strcasecmp(host, r->host) == 0;
}

static bool token_given(const struct server *s, const struct http_request *r)
{
    const char *value = http_request_field(r, "authorization");
    if (!value || strncasecmp(value, "bearer ", 7) != 0) return false;
    value += 7;
    while (*value == ' ') value++;
    return guard_equal(value, s->o.token);
}

// Returns true if the header Cookie has the secret of the page. The name of the cookie contains the
// port, since browsers send a cookie to every port of a host.
static bool cookie_given(const struct server *s, const struct http_request *r)
{
    const char *at = http_request_field(r, "cookie");
    const size_t n = strlen(s->o.cookie_name);
    while (at) {
        char value[SERVER_SECRET + 1]; // a value that is longer than the secret stays longer
        while (*at == ' ') at++;
        if (strncmp(at, s->o.cookie_name, n) == 0 && at[n] == '=') {
            snprintf(value, sizeof value, "%.*s", (int)strcspn(at + n + 1, "; "), at + n + 1);
            if (guard_equal(value, s->o.cookie)) return true;
        }
        at = strchr(at, ';');
        if (at) at++;
    }
    return false;
}

// Returns true if the request has the ticket, which is valid once.
static bool ticket_given(struct server *s, const struct http_request *r)
{
    static const char name[] = "token=";
    if (s->ticket_used || strcmp(r->method, "GET") != 0 || strcmp(r->path, "/") != 0 ||
        strncmp(r->query, name, sizeof name - 1) != 0 ||
        !guard_equal(r->query + sizeof name - 1, s->o.ticket))
        return false;
    s->ticket_used = true;
    return true;
}

// Refuses a request to the server of a page that does not come from its browser. Returns false if
// it may continue.
static bool refuse_stranger(struct server *s, const struct http_request *r,
                            struct guard_refusal *why)
{
    if (!*s->o.cookie) return false;
    const bool known = cookie_given(s, r);
    if (known && !*r->query) return false;
    if (known || ticket_given(s, r)) {
        why->status = 303;
        why->message = "the page is at /";
        snprintf(why->extra, sizeof why->extra,
                 "Location: /\r\nSet-Cookie: %s=%s; Path=/; HttpOnly; SameSite=Lax\r\n",
                 s->o.cookie_name, s->o.cookie);
    } else {
        why->status = 401;
        why->message = "expected the address that 'qkv view --live' has printed, which works once";
    }
    return true;
}

static bool type_json(const struct http_request *r)
{
    static const char json[] = "application/json";
    const char *type = http_request_field(r, "content-type");
    if (!type || strncasecmp(type, json, sizeof json - 1) != 0) return false;
    type += sizeof json - 1;
    return !*type || *type == ';' || *type == ' ';
}

// Returns true if the body is compressed, or coded otherwise.
static bool is_coded(const struct http_request *r)
{
    for (int i = 0; i < r->fields; i++)
        if (strcmp(r->field[i].name, "content-encoding") == 0 &&
            strcasecmp(r->field[i].value, "identity") != 0)
            return true;
    return false;
}

// Returns true if the method is one of RFC 9110 or 5789.
static bool is_method(const char *method)
{
    static const char *const known[] = { "GET",     "HEAD",    "POST",  "PUT",  "DELETE",
                                         "CONNECT", "OPTIONS", "TRACE", "PATCH" };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(method, known[i]) == 0) return true;
    return false;
}

// Returns true if a path is the one of an endpoint, or begins with it if that ends with '*'.
static bool is_path(const char *path, const char *of)
{
    const size_t n = strlen(of) - 1;
    return of[n] == '*' ? strncmp(path, of, n) == 0 && path[n] : strcmp(path, of) == 0;
}

// Returns the endpoint for a request; NULL: there is none, *allow lists the methods of the path,
// or of all paths for the target '*'.
static const struct endpoint *find(const struct http_request *r, char *allow, size_t size)
{
    const char *method = strcmp(r->method, "HEAD") == 0 ? "GET" : r->method;
    bool get = strcmp(r->path, "*") == 0, post = get;
    *allow = 0;
    for (const struct endpoint *e = endpoint_table; e->path; e++) {
        if (!is_path(r->path, e->path)) continue;
        if (strcmp(e->method, method) == 0) return e;
        get = get || strcmp(e->method, "GET") == 0;
        post = post || strcmp(e->method, "POST") == 0;
    }
    snprintf(allow, size, "%s%s%s", get ? "GET, HEAD" : "", get && post ? ", " : "",
             post ? "POST" : "");
    return NULL;
}

// Writes the message that lists all paths.
static void list_paths(char *text, size_t size)
{
    size_t n = (size_t)snprintf(text, size, "no such path, expected one of");
    for (const struct endpoint *e = endpoint_table; e->path && n < size; e++)
        n += (size_t)snprintf(text + n, size - n, "%s %s", e == endpoint_table ? "" : ",", e->path);
}

const struct endpoint *guard_check(struct server *s, const struct http_request *r,
                                   struct guard_refusal *why)
{
    char allow[64];
    const struct endpoint *e = find(r, allow, sizeof allow);
    *why = (struct guard_refusal){ 0 };
    if (!s->o.any_host && !(r->minor == 0 && !*r->host) && !host_known(s, r->host)) {
        why->status = 403;
        why->message = "the Host header names another server (qkv serve --allow-host)";
    } else if (!origin_own(r)) {
        why->status = 403;
        why->message = "the request comes from a page of another site";
    } else if (s->o.token && !(e && strcmp(e->path, "/health") == 0) && !token_given(s, r)) {
        why->status = 401;
        why->message = "expected the header Authorization: Bearer TOKEN";
        snprintf(why->extra, sizeof why->extra, "WWW-Authenticate: Bearer\r\n");
    } else if (refuse_stranger(s, r, why)) {
        return NULL;
    } else if (!is_method(r->method)) {
        why->status = 501;
        why->message = "unknown method";
    } else if (!e && *allow) {
        why->status = 405;
        snprintf(why->text, sizeof why->text, "%s does not accept this method, expected %s",
                 r->path, allow);
        why->message = why->text;
        snprintf(why->extra, sizeof why->extra, "Allow: %s\r\n", allow);
    } else if (!e) {
        why->status = 404;
        list_paths(why->text, sizeof why->text);
        why->message = why->text;
    } else if (strcmp(e->method, "POST") == 0 && !type_json(r)) {
        why->status = 415;
        why->message = "expected the header Content-Type: application/json";
    } else if (is_coded(r)) {
        why->status = 415;
        why->message = "Content-Encoding is not supported, expected a body without it";
        snprintf(why->extra, sizeof why->extra, "Accept-Encoding: identity\r\n");
    }
    return why->status ? NULL : e;
}
