// SPDX-License-Identifier: MIT
// connection.c: one client: reads its requests within the time limits, hands them to their
// endpoints, and sends the answers.
#define _GNU_SOURCE // POLLRDHUP
#include "serve/server.h"
#include "serve/service.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Bodies of all clients together: 64 of the largest; of one address: a quarter.
enum { READ_BYTES = 65536, BODIES = 64, BODIES_OF_ONE = 16, SENT_BYTES = 65536 };

#ifdef POLLRDHUP
enum { LEAVES = POLLRDHUP }; // the client has closed its side, also with bytes that are not read
#else
enum { LEAVES = 0 };
#endif

// Returns the time, in milliseconds, after some seconds from now.
static int64_t after(int64_t seconds)
{
    return server_now() + seconds * 1000;
}

struct connection *connection_new(struct server *s, int fd, const char *peer)
{
    struct connection *k = calloc(1, sizeof *k);
    if (!k || !(k->finish =
                    calloc((size_t)(serve_model_count + 1) * SERVICE_QUEUES, sizeof *k->finish))) {
        free(k);
        close(fd);
        return NULL;
    }
    k->fd = fd;
    // bytes that are sent are bytes that the client has read, except the bytes in this buffer
    const int buffer = LIMIT_READ_BYTES / 2;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    snprintf(k->peer, sizeof k->peer, "%s", peer);
    http_request_init(&k->request, SERVER_BODY);
    k->deadline = after(s->o.head_seconds);
    return k;
}

// Counts the memory of the body that the connection reads or answers.
static void hold(struct server *s, struct connection *k, size_t bytes)
{
    s->held += bytes - k->held;
    k->held = bytes;
}

static size_t held_by(const struct server *s, const char *peer)
{
    size_t n = 0;
    for (int64_t i = 0; i < s->connections; i++)
        if (strcmp(s->connection[i]->peer, peer) == 0) n += s->connection[i]->held;
    for (const struct serve_call *c = s->calls; c; c = c->other)
        if (strcmp(c->peer, peer) == 0) n += c->held;
    return n;
}

// Returns false if the bodies are too large together.
static bool fits(const struct server *s, const struct connection *k)
{
    return s->held <= (size_t)BODIES * (SERVER_BODY + 1) &&
           held_by(s, k->peer) <= (size_t)BODIES_OF_ONE * (SERVER_BODY + 1);
}

// Counts the body of the request, if it has grown.  Returns false if the bodies are too large
// together.
static bool hold_body(struct server *s, struct connection *k)
{
    const size_t bytes = k->request.body_capacity;
    if (bytes <= k->held) return true;
    hold(s, k, bytes);
    return fits(s, k);
}

bool connection_hold(struct serve_call *c, size_t bytes)
{
    struct connection *k = c->connection;
    hold(c->server, k, k->held + bytes);
    return fits(c->server, k);
}

// Counts the bytes that the client has not read.
static void count_unread(struct server *s, struct connection *k)
{
    const size_t bytes = k->out.capacity + k->rest.capacity;
    s->unread += bytes - k->unread;
    k->unread = bytes;
}

static void free_unread(struct server *s, struct connection *k)
{
    serve_bytes_free(&k->out);
    serve_bytes_free(&k->rest);
    k->out_used = 0;
    count_unread(s, k);
}

// Frees a call that has ended.
static void end_call(struct server *s, struct serve_call *c)
{
    const int64_t row = c->endpoint - endpoint_table + 1;
    s->count[row].requests++;
    s->count[row].errors += c->status >= 400;
    s->count[row].seconds += (double)(server_micros() - c->began) * 1e-6;
    if (s->o.log) log_call(c);
    struct serve_call **at = &s->calls;
    while (*at != c) at = &(*at)->other;
    *at = c->other;
    s->held -= c->held;
    call_free(c);
}

// The client leaves: its job is removed from the queue, or ends when it sees this.
static void leave(struct server *s, struct connection *k)
{
    struct serve_call *c = k->call;
    atomic_store(&c->gone, true);
    c->connection = NULL;
    c->request = NULL;
    c->held = k->held; // until the call has ended
    k->held = 0;
    if (!service_cancel(c)) return;
    c->status = 503;
    end_call(s, c);
}

void connection_free(struct server *s, struct connection *k)
{
    if (!k) return;
    if (k->call) leave(s, k);
    hold(s, k, 0);
    close(k->fd);
    http_request_free(&k->request);
    serve_bytes_free(&k->in);
    free_unread(s, k);
    free(k->finish);
    free(k);
}

// ---- sending ------------------------------------------------------------------------------------
// Returns true if there are bytes to send; continues with the body after the other bytes.
static bool pending(struct connection *k)
{
    // without its head a body is not sent
    if (k->out_used == k->out.count && k->rest.count && !k->out.failed) {
        serve_bytes_free(&k->out);
        k->out = k->rest;
        k->rest = (struct serve_bytes){ 0 };
        k->out_used = 0;
    }
    return k->out_used < k->out.count;
}

// The client has LIMIT_READ_MS to read LIMIT_READ_BYTES, or all there is.
static void begin_window(struct connection *k)
{
    k->window_sent = 0;
    k->window_from = server_now();
    k->deadline = k->window_from + LIMIT_READ_MS;
}

// Frees bytes that were sent, when they are as many as the others: each byte is moved once, about.
static void free_sent(struct connection *k)
{
    struct serve_bytes *out = &k->out;
    const size_t left = out->count - k->out_used;
    if (k->out_used < SENT_BYTES || k->out_used < left) return;
    memmove(out->at, out->at + k->out_used, left);
    out->count = left;
    k->out_used = 0;
    char *at = realloc(out->at, left);
    if (!at) return;
    out->at = at;
    out->capacity = left;
}

// Returns how much a connection is in the way of others: the bytes that its client has not read,
// times the milliseconds that it had for them.
static double slowness(const struct connection *k)
{
    return (double)k->unread * (double)(server_now() - k->unread_from + 1);
}

static struct connection *slowest(const struct server *s, const char *peer)
{
    struct connection *worst = NULL;
    for (int64_t i = 0; i < s->connections; i++) {
        struct connection *k = s->connection[i];
        if (k->unread && !k->broken && (!peer || strcmp(k->peer, peer) == 0) &&
            (!worst || slowness(k) > slowness(worst)))
            worst = k;
    }
    return worst;
}

static bool too_much_unread(const struct server *s, const char *peer)
{
    size_t n = 0;
    if (s->unread <= SERVER_UNREAD_OF_ONE) return false;
    for (int64_t i = 0; i < s->connections; i++)
        if (strcmp(s->connection[i]->peer, peer) == 0) n += s->connection[i]->unread;
    return n > SERVER_UNREAD_OF_ONE;
}

// Ends the connections that read slowest while there are too many bytes that are not read: of the
// address of k, or of all clients.
static void limit_unread(struct server *s, const struct connection *k)
{
    for (;;) {
        const bool of_one = too_much_unread(s, k->peer);
        if (!of_one && s->unread <= SERVER_UNREAD) return;
        struct connection *slow = slowest(s, of_one ? k->peer : NULL);
        if (!slow) return;
        if (s->o.log) log_refusal(slow, 503, "the answer is read too slowly");
        slow->broken = true;
        free_unread(s, slow);
        s->slow++;
    }
}

// Ends the connection after the client had time to read the answer: closing a socket with unread
// bytes would discard the answer.
static void linger(struct connection *k)
{
    k->state = CONNECTION_LINGERING;
    k->deadline = server_now() + SERVER_LINGER_MS;
    if (shutdown(k->fd, SHUT_WR) < 0) k->broken = true;
}

static void next_request(struct server *s, struct connection *k)
{
    hold(s, k, 0);
    http_request_reset(&k->request);
    k->state = CONNECTION_READING;
    k->admitted = k->more = false;
    k->used = true;
    k->deadline = after(s->o.idle_seconds);
}

// Sends what it can; after the whole answer, continues with the next request or ends.
static void send_out(struct server *s, struct connection *k)
{
    while (pending(k)) {
        const ssize_t n = send(k->fd, k->out.at + k->out_used, k->out.count - k->out_used,
                               MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            free_sent(k);
            count_unread(s, k);
            return;
        }
        if (n <= 0) {
            k->broken = true;
            return;
        }
        k->out_used += (size_t)n;
        k->window_sent += (size_t)n;
    }
    if (k->out.failed) k->broken = true;
    free_unread(s, k);
    if (k->state != CONNECTION_ANSWERING) return;
    if (k->call)
        k->deadline = INT64_MAX; // the answer is not complete; the model has all the time it needs
    else if (k->closing)
        linger(k);
    else
        next_request(s, k);
}

// Refuses the request, after which the connection ends.
static void refuse(struct server *s, struct connection *k, int status, const char *message,
                   const char *extra)
{
    if (s->o.log) log_refusal(k, status, message);
    s->count[0].requests++;
    s->count[0].errors += status >= 400;
    k->state = CONNECTION_ANSWERING;
    if (!pending(k)) k->unread_from = server_now();
    answer_directly(k, status, message, extra);
    begin_window(k);
    send_out(s, k);
}

void connection_refuse(struct server *s, int fd, const char *peer)
{
    static char bytes[READ_BYTES];
    struct connection *k = connection_new(s, fd, peer);
    s->refused++;
    if (!k) return;
    refuse(s, k, 503, "too many connections", "Retry-After: 1\r\n");
    // a socket that is closed with unread bytes resets the connection
    (void)!recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    connection_free(s, k);
}

// ---- requests -----------------------------------------------------------------------------------
// Checks the head of the request before its body is read.  Returns false if it is refused.
static bool admit(struct server *s, struct connection *k)
{
    struct guard_refusal why;
    if (k->admitted) return true;
    k->admitted = true;
    if (!guard_check(s, &k->request, &why)) {
        refuse(s, k, why.status, why.message, why.extra);
        return false;
    }
    k->deadline = after(s->o.body_seconds);
    return true;
}

// Runs the endpoint of a complete request.
static void dispatch(struct server *s, struct connection *k)
{
    struct guard_refusal why;
    if (!admit(s, k)) return;
    const struct endpoint *e = guard_check(s, &k->request, &why);
    k->state = CONNECTION_ANSWERING;
    k->deadline = INT64_MAX;
    k->call = e ? call_new(s, k, e) : NULL;
    if (k->call)
        e->run(k->call);
    else
        refuse(s, k, 503, "out of memory", "Retry-After: 1\r\n");
    http_request_free_body(&k->request); // it was parsed; its bytes count until the answer ends
}

// Parses bytes; stores those after the end of the request.
static void parse(struct server *s, struct connection *k, const char *bytes, size_t n)
{
    struct http_request *r = &k->request;
    while (n && k->state == CONNECTION_READING && !k->broken) {
        if (http_request_empty(r)) k->deadline = after(s->o.head_seconds);
        const size_t used = http_request_parse(r, bytes, n);
        bytes += used;
        n -= used;
        const bool held = hold_body(s, k);
        if (r->state == HTTP_STATE_CLOSED) {
            k->broken = true;
        } else if (r->state == HTTP_STATE_FAILED) {
            refuse(s, k, r->status, r->reason, r->status == 503 ? "Retry-After: 1\r\n" : "");
        } else if (!held) {
            refuse(s, k, 503, "too many large requests", "Retry-After: 1\r\n");
        } else if (r->state == HTTP_STATE_BODY && !k->admitted) {
            static const char go[] = "HTTP/1.1 100 Continue\r\n\r\n";
            if (admit(s, k) && r->expects_continue && !n) {
                if (!pending(k)) k->unread_from = server_now();
                serve_bytes_add(&k->out, go, sizeof go - 1);
                const int64_t deadline = k->deadline;
                send_out(s, k);
                k->deadline = deadline;
            }
        } else if (r->state == HTTP_STATE_DONE) {
            dispatch(s, k);
        }
    }
    if (k->state != CONNECTION_LINGERING && !k->closing) serve_bytes_add(&k->in, bytes, n);
    if (k->in.failed) k->broken = true;
}

// Parses the bytes that arrived with an earlier request.
static void resume(struct server *s, struct connection *k)
{
    struct serve_bytes in = k->in;
    if (k->state != CONNECTION_READING || !in.count) return;
    k->in = (struct serve_bytes){ 0 };
    parse(s, k, in.at, in.count);
    serve_bytes_free(&in);
}

static void receive(struct server *s, struct connection *k)
{
    static char bytes[READ_BYTES];
    const ssize_t n = recv(k->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
    if (n <= 0)
        k->broken = true;
    else if (k->state == CONNECTION_READING)
        parse(s, k, bytes, (size_t)n);
}

// While a request is answered, only finds out whether the client has left; a client that closes its
// side of the connection has left too.
static void check_client(struct connection *k)
{
    char byte;
    const ssize_t n = recv(k->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    if (n > 0)
        k->more = true;
    else if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
        k->broken = true;
}

// ---- events -------------------------------------------------------------------------------------
short connection_events(const struct connection *k)
{
    const bool waits = k->state == CONNECTION_ANSWERING && (k->more || !k->call);
    return (short)((waits ? 0 : POLLIN) | (k->call ? LEAVES : 0) |
                   (k->out_used < k->out.count ? POLLOUT : 0));
}

void connection_ready(struct server *s, struct connection *k, short events)
{
    if (events & POLLOUT) send_out(s, k);
    if (events & POLLIN && !k->broken) {
        if (k->state == CONNECTION_ANSWERING)
            check_client(k);
        else
            receive(s, k);
    }
    if (events & (POLLERR | POLLHUP | POLLNVAL) && !(events & POLLIN)) k->broken = true;
    if (events & LEAVES && k->call) k->broken = true;
    if (!k->broken) resume(s, k);
}

static void refuse_late(struct server *s, struct connection *k, const char *what, int64_t seconds)
{
    char message[96];
    snprintf(message, sizeof message, "the %s of the request took longer than %lld second%s", what,
             (long long)seconds, seconds == 1 ? "" : "s");
    refuse(s, k, 408, message, "");
}

void connection_expired(struct server *s, struct connection *k)
{
    k->deadline = INT64_MAX;
    if (k->state == CONNECTION_ANSWERING &&
        reads_fast_enough(k->window_sent, server_now() - k->window_from))
        begin_window(k);
    else if (k->state != CONNECTION_READING || http_request_empty(&k->request))
        k->broken = true;
    else if (k->request.state == HTTP_STATE_HEAD)
        refuse_late(s, k, "head", s->o.head_seconds);
    else
        refuse_late(s, k, "body", s->o.body_seconds);
}

void connection_news(struct server *s, struct serve_call *c, struct serve_bytes out,
                     struct serve_bytes rest, bool ended)
{
    struct connection *k = c->connection;
    if (k && !k->broken) {
        if (!pending(k)) {
            begin_window(k);
            k->unread_from = server_now();
        }
        serve_bytes_add(&k->out, out.at, out.count);
        k->out.failed = k->out.failed || out.failed;
        if (rest.count) {
            k->rest = rest;
            rest = (struct serve_bytes){ 0 };
        }
    }
    serve_bytes_free(&out);
    serve_bytes_free(&rest);
    if (k && ended) {
        k->call = NULL;
        k->closing = k->closing || c->closing;
        if (c->finish_of) *c->finish_of = c->finish;
        hold(s, k, 0);
    }
    if (ended) end_call(s, c); // frees the values of the request
    if (k && !k->broken) send_out(s, k);
    if (k && !k->broken && k->unread) limit_unread(s, k);
    if (k && !k->broken) resume(s, k);
}
