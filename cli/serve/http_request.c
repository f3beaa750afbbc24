// SPDX-License-Identifier: MIT
// http_request.c: parses HTTP/1.1 requests byte by byte up to the end of the head, which is then
// parsed in place, and bodies of a given length or of chunks.  Source: RFC 9110, RFC 9112.
#include "serve/http_request.h"
#include <stdlib.h>
#include <string.h>

enum chunk {
    CHUNK_SIZE,      // digits of the size
    CHUNK_EXTENSION, // after the semicolon
    CHUNK_LF,        // the LF of the line of the size
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_LAST_CR, // the line after the chunk of size 0, which must be empty: no trailers
    CHUNK_LAST_LF
};

static void refuse(struct http_request *r, int status, const char *reason)
{
    r->state = HTTP_STATE_FAILED;
    r->status = status;
    r->reason = reason;
    r->keep_alive = false;
}

void http_request_init(struct http_request *r, size_t body_limit)
{
    memset(r, 0, sizeof *r);
    r->body_limit = body_limit;
    r->method = r->path = r->query = r->host = "";
}

void http_request_free(struct http_request *r)
{
    free(r->head);
    free(r->body);
}

void http_request_free_body(struct http_request *r)
{
    free(r->body);
    r->body = NULL;
    r->body_bytes = r->body_capacity = 0;
}

void http_request_reset(struct http_request *r)
{
    http_request_free(r);
    http_request_init(r, r->body_limit);
}

bool http_request_empty(const struct http_request *r)
{
    return r->state == HTTP_STATE_HEAD && !r->head_bytes;
}

// ---- characters --------------------------------------------------------------------------------
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}
static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
// A character of a method or of the name of a header.
static bool is_token(char c)
{
    return is_digit(c) || is_letter(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}
// A character of the value of a header: visible, a space or tab, or a byte of UTF-8.
static bool is_value(char c)
{
    const unsigned char u = (unsigned char)c;
    return (u >= 0x20 && u != 0x7f) || u == '\t';
}
static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}
static int hex(char c)
{
    return is_digit(c) ? c - '0' : lower(c) >= 'a' && lower(c) <= 'f' ? lower(c) - 'a' + 10 : -1;
}
static bool equal_words(const char *a, const char *b)
{
    while (*a && lower(*a) == lower(*b)) a++, b++;
    return !*a && !*b;
}

// ---- the request line ---------------------------------------------------------------------------
// Returns true if text[n] is a host, with or without a port, as RFC 3986 writes them; the name of a
// user is refused.
static bool is_authority(const char *text, size_t n)
{
    size_t i = 0;
    if (n && *text == '[') { // an IPv6 address
        for (i = 1; i < n && (hex(text[i]) >= 0 || text[i] == ':' || text[i] == '.');) i++;
        if (i == n || text[i++] != ']') return false;
    } else {
        while (i < n && (is_digit(text[i]) || is_letter(text[i]) ||
                         (text[i] && strchr("-._~%!$&'()*+,;=", text[i]))))
            i++;
    }
    if (i == n) return true;
    if (text[i++] != ':') return false;
    while (i < n && is_digit(text[i])) i++;
    return i == n;
}

static bool is_absolute(const char *target)
{
    static const char scheme[] = "http://";
    size_t i = 0;
    while (scheme[i] && lower(target[i]) == scheme[i]) i++;
    return !scheme[i];
}

// Splits the target into path and query.  The host of the absolute form, which a client sends to a
// proxy, replaces the Host header.
static bool parse_target(struct http_request *r, char *target)
{
    for (const char *p = target; *p; p++)
        if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f) return false;
    char *path = target;
    if (is_absolute(target)) {
        const char *host = target + 7;
        const size_t n = strcspn(host, "/?#");
        if (!n || !is_authority(host, n)) return false;
        path = target + 7 + n;
        memmove(target, host, n);
        target[n] = 0;
        r->host = target;
    } else if (*path != '/' && (strcmp(path, "*") != 0 || strcmp(r->method, "OPTIONS") != 0)) {
        return false;
    }
    if (strchr(path, '#')) return false;
    char *query = strchr(path, '?');
    if (query) *query++ = 0;
    r->path = *path ? path : "/";
    r->query = query ? query : "";
    return true;
}

static void parse_line(struct http_request *r, char *line)
{
    char *target = line;
    while (is_token(*target)) target++;
    if (target == line || *target != ' ') {
        refuse(r, 400, "the request line has no method");
        return;
    }
    *target++ = 0;
    char *version = strchr(target, ' ');
    if (!version || strchr(version + 1, ' ')) {
        refuse(r, 400, "the request line has not three parts");
        return;
    }
    *version++ = 0;
    r->method = line;
    if (strncmp(version, "HTTP/", 5) != 0 || !is_digit(version[5]) || version[6] != '.' ||
        !is_digit(version[7]) || version[8]) {
        refuse(r, 400, "the request line has no version");
        return;
    }
    r->minor = version[7] != '0'; // RFC 9110, 2.5: a higher minor version is read as HTTP/1.1
    if (version[5] != '1')
        refuse(r, 505, "expected HTTP/1.0 or HTTP/1.1");
    else if (!parse_target(r, target))
        refuse(r, 400, "the target of the request is not a path");
}

// ---- headers ------------------------------------------------------------------------------------
static void parse_field(struct http_request *r, char *line)
{
    char *end = line + strlen(line), *colon = line;
    if (*line == ' ' || *line == '\t') {
        refuse(r, 400, "a header is continued on a second line");
        return;
    }
    for (; is_token(*colon); colon++) *colon = lower(*colon);
    if (colon == line || *colon != ':') {
        refuse(r, 400, "a line is no header");
        return;
    }
    if (r->fields == HTTP_FIELDS) {
        refuse(r, 431, "too many headers");
        return;
    }
    *colon++ = 0;
    while (*colon == ' ' || *colon == '\t') colon++;
    while (end > colon && (end[-1] == ' ' || end[-1] == '\t')) *--end = 0;
    r->field[r->fields++] = (struct http_field){ line, colon };
}

static int count_fields(const struct http_request *r, const char *name)
{
    int n = 0;
    for (int i = 0; i < r->fields; i++) n += strcmp(r->field[i].name, name) == 0;
    return n;
}

const char *http_request_field(const struct http_request *r, const char *name)
{
    if (count_fields(r, name) != 1) return NULL;
    for (int i = 0; i < r->fields; i++)
        if (strcmp(r->field[i].name, name) == 0) return r->field[i].value;
    return NULL;
}

// Returns true if a header that is a list of words, such as Connection, contains a word.
static bool lists_word(const struct http_request *r, const char *name, const char *word)
{
    const size_t n = strlen(word);
    for (int i = 0; i < r->fields; i++) {
        if (strcmp(r->field[i].name, name) != 0) continue;
        for (const char *p = r->field[i].value; *p;) {
            p += strspn(p, " \t,");
            const size_t length = strcspn(p, " \t,");
            size_t same = 0;
            while (same < length && same < n && lower(p[same]) == word[same]) same++;
            if (same == n && length == n) return true;
            p += length;
        }
    }
    return false;
}

static void parse_length(struct http_request *r, const char *text)
{
    uint64_t n = 0;
    bool large = false;
    if (!*text) {
        refuse(r, 400, "Content-Length is empty");
        return;
    }
    for (; *text; text++) {
        if (!is_digit(*text)) {
            refuse(r, 400, "Content-Length is no number");
            return;
        }
        large = large || __builtin_mul_overflow(n, (uint64_t)10, &n) ||
                __builtin_add_overflow(n, (uint64_t)(*text - '0'), &n);
    }
    if (large || n > r->body_limit)
        refuse(r, 413, "the body is larger than the limit");
    else
        r->length = n;
}

// Decides how the body ends.
static void parse_framing(struct http_request *r)
{
    const int lengths = count_fields(r, "content-length");
    const int codings = count_fields(r, "transfer-encoding");
    if (lengths > 1) {
        refuse(r, 400, "Content-Length occurs twice");
    } else if (codings && lengths) {
        refuse(r, 400, "Content-Length and Transfer-Encoding exclude each other");
    } else if (codings > 1 || (codings && !r->minor)) {
        refuse(r, 400, "Transfer-Encoding must occur once, in HTTP/1.1");
    } else if (codings) {
        r->chunked = equal_words(http_request_field(r, "transfer-encoding"), "chunked");
        if (!r->chunked) refuse(r, 501, "Transfer-Encoding is supported as chunked only");
    } else if (lengths) {
        parse_length(r, http_request_field(r, "content-length"));
    }
}

static void parse_fields(struct http_request *r)
{
    const int hosts = count_fields(r, "host"), expects = count_fields(r, "expect");
    r->keep_alive = !lists_word(r, "connection", "close") &&
                    (r->minor || lists_word(r, "connection", "keep-alive"));
    parse_framing(r);
    if (r->state == HTTP_STATE_FAILED) return;
    if (hosts > 1 || (r->minor && !hosts)) {
        refuse(r, 400, "expected one Host header");
        return;
    }
    const char *host = hosts ? http_request_field(r, "host") : "";
    if (!is_authority(host, strlen(host))) {
        refuse(r, 400, "the Host header is no host");
        return;
    }
    if (!*r->host) r->host = host;
    if (expects && r->minor) {
        const char *value = http_request_field(r, "expect");
        r->expects_continue = value && equal_words(value, "100-continue");
        if (!r->expects_continue) refuse(r, 417, "expected Expect: 100-continue");
    }
}

// ---- the head -----------------------------------------------------------------------------------
// Handles a complete line of the head, which ends at head_bytes.
static void end_line(struct http_request *r)
{
    char *line = r->head + r->line_start;
    const bool first = r->line_start == 0;
    r->head[r->head_bytes++] = 0;
    r->line_start = r->head_bytes;
    if (first && !*line) return; // RFC 9112, 2.2: one empty line before a request is ignored
    if (!r->line_done) {
        r->line_done = true;
        parse_line(r, line);
    } else if (*line) {
        parse_field(r, line);
    } else {
        parse_fields(r);
        if (r->state == HTTP_STATE_HEAD)
            r->state = r->chunked || r->length ? HTTP_STATE_BODY : HTTP_STATE_DONE;
    }
}

// Handles a byte of the head.  A CR is stored as the last byte of its line, until the LF replaces
// it.
static void head_byte(struct http_request *r, char c)
{
    const bool after_cr = r->head_bytes > r->line_start && r->head[r->head_bytes - 1] == '\r';
    if (after_cr && c == '\n') {
        r->head_bytes--;
        end_line(r);
    } else if (after_cr || c == '\n') {
        refuse(r, 400, "a line does not end with CR LF");
    } else if (c != '\r' && !is_value(c)) {
        refuse(r, 400, "a control character in the head");
    } else if (!r->line_done && r->head_bytes == HTTP_LINE) {
        refuse(r, 414, "the request line is too long");
    } else if (r->head_bytes == HTTP_HEAD) {
        refuse(r, 431, "the headers are too long");
    } else {
        r->head[r->head_bytes++] = c;
    }
}

static size_t parse_head(struct http_request *r, const char *bytes, size_t n)
{
    size_t i = 0;
    if (!r->head && n && *bytes == 0x16) { // a TLS handshake
        r->state = HTTP_STATE_CLOSED;
        return 0;
    }
    if (!r->head && n && !(r->head = malloc(HTTP_HEAD + 2))) {
        refuse(r, 503, "out of memory");
        return 0;
    }
    while (i < n && r->state == HTTP_STATE_HEAD) head_byte(r, bytes[i++]);
    return i;
}

// ---- the body --------------------------------------------------------------------------------
// Appends bytes to the body, whose memory grows with what has arrived, not with what is announced.
static bool append(struct http_request *r, const char *bytes, size_t n)
{
    if (r->body_capacity < r->body_bytes + n + 1) {
        size_t capacity = r->body_capacity ? r->body_capacity : 1024;
        while (capacity < r->body_bytes + n + 1) capacity *= 2;
        if (capacity > r->body_limit + 1) capacity = r->body_limit + 1;
        char *body = realloc(r->body, capacity);
        if (!body) {
            refuse(r, 503, "out of memory");
            return false;
        }
        r->body = body;
        r->body_capacity = capacity;
    }
    memcpy(r->body + r->body_bytes, bytes, n);
    r->body_bytes += n;
    r->body[r->body_bytes] = 0;
    return true;
}

static size_t body_part(struct http_request *r, const char *bytes, size_t n)
{
    const size_t part = r->length < n ? (size_t)r->length : n;
    if (!part || !append(r, bytes, part)) return part;
    r->length -= part;
    return part;
}

static void chunk_size(struct http_request *r, char c)
{
    const int digit = hex(c);
    if (digit >= 0) {
        if (r->digits++ == 16 || (r->length = r->length << 4 | (uint64_t)digit) > r->body_limit)
            refuse(r, 413, "a chunk is larger than the limit");
        return;
    }
    if (!r->digits) {
        refuse(r, 400, "a chunk has no size");
        return;
    }
    if (c == ';')
        r->chunk = CHUNK_EXTENSION;
    else if (c == '\r')
        r->chunk = CHUNK_LF;
    else
        refuse(r, 400, "the size of a chunk is no number");
}

static void begin_chunk(struct http_request *r)
{
    r->digits = 0;
    if (r->length > r->body_limit - r->body_bytes)
        refuse(r, 413, "the body is larger than the limit");
    else
        r->chunk = r->length ? CHUNK_DATA : CHUNK_LAST_CR;
}

// Handles a byte of a chunked body outside of the data.
static void chunk_byte(struct http_request *r, char c)
{
    static const struct {
        char want;
        int next;
    } after[] = { [CHUNK_DATA_CR] = { '\r', CHUNK_DATA_LF },
                  [CHUNK_DATA_LF] = { '\n', CHUNK_SIZE },
                  [CHUNK_LAST_CR] = { '\r', CHUNK_LAST_LF },
                  [CHUNK_LAST_LF] = { '\n', CHUNK_SIZE } };
    if (r->chunk == CHUNK_SIZE) {
        chunk_size(r, c);
    } else if (r->chunk == CHUNK_EXTENSION) {
        if (c == '\r')
            r->chunk = CHUNK_LF;
        else if (!is_value(c))
            refuse(r, 400, "a control character in the extension of a chunk");
        else if (++r->extensions > HTTP_EXTENSIONS)
            refuse(r, 413, "the extensions of chunks are too long");
    } else if (r->chunk == CHUNK_LF) {
        if (c == '\n')
            begin_chunk(r);
        else
            refuse(r, 400, "the line of a chunk does not end with CR LF");
    } else if (c != after[r->chunk].want) {
        refuse(r, 400,
               r->chunk == CHUNK_LAST_CR ? "trailers are not supported"
                                         : "a chunk does not end with CR LF");
    } else if (r->chunk == CHUNK_LAST_LF) {
        r->state = HTTP_STATE_DONE;
    } else {
        r->chunk = after[r->chunk].next;
    }
}

static size_t parse_chunks(struct http_request *r, const char *bytes, size_t n)
{
    size_t i = 0;
    while (i < n && r->state == HTTP_STATE_BODY) {
        if (r->chunk != CHUNK_DATA) {
            chunk_byte(r, bytes[i++]);
            continue;
        }
        i += body_part(r, bytes + i, n - i);
        if (!r->length && r->state == HTTP_STATE_BODY) r->chunk = CHUNK_DATA_CR;
    }
    return i;
}

size_t http_request_parse(struct http_request *r, const char *bytes, size_t n)
{
    if (r->state == HTTP_STATE_HEAD) return parse_head(r, bytes, n);
    if (r->state != HTTP_STATE_BODY) return 0;
    if (r->chunked) return parse_chunks(r, bytes, n);
    const size_t used = body_part(r, bytes, n);
    if (!r->length && r->state == HTTP_STATE_BODY) r->state = HTTP_STATE_DONE;
    return used;
}
