// SPDX-License-Identifier: MIT
// server.c: the loop of the thread of the sockets: waits for clients, news of calls, signals and
// deadlines, and sleeps otherwise.
#include "serve/server.h"
#include "serve/service.h"
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { ACCEPT_PAUSE_MS = 200 }; // after a socket that could not be accepted

int64_t server_micros(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}
int64_t server_now(void)
{
    return server_micros() / 1000;
}

// ---- signals ------------------------------------------------------------------------------------
static volatile sig_atomic_t stops;
static volatile sig_atomic_t signal_pipe = -1;

static void on_stop(int number)
{
    const int saved = errno;
    if (stops) { // a second signal does not wait for running requests
        signal(number, SIG_DFL);
        raise(number);
    }
    stops = 1;
    if (write(signal_pipe, "", 1) < 0) stops = 1; // the pipe is full: the loop wakes anyway
    errno = saved;
}

// Allows as many descriptors as the system permits: each connection needs one.
static void raise_descriptors(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        (void)!setrlimit(RLIMIT_NOFILE, &r);
    }
}

static qkv_status prepare(struct server *s, qkv_error *err)
{
    struct sigaction a = { .sa_handler = on_stop };
    int64_t endpoints = 0;
    while (endpoint_table[endpoints].path) endpoints++;
    s->count = calloc((size_t)endpoints + 1, sizeof *s->count);
    s->sink = fopen("/dev/null", "w");
    if (!s->sink)
        return cmd_error(err, cmd_io_status(errno), "/dev/null", "cannot open: %s",
                         strerror(errno));
    if (!s->count || pipe(s->wake) < 0)
        return cmd_error(err, QKV_ERR_LIMIT, NULL, "no memory or descriptors to serve");
    for (int i = 0; i < 2; i++)
        if (fcntl(s->wake[i], F_SETFL, O_NONBLOCK) < 0 ||
            fcntl(s->wake[i], F_SETFD, FD_CLOEXEC) < 0)
            return cmd_error(err, QKV_ERR_IO, NULL, "pipe: %s", strerror(errno));
    raise_descriptors();
    s->thread = pthread_self();
    s->ready_end = &s->ready;
    s->started = server_now();
    signal_pipe = s->wake[1];
    sigemptyset(&a.sa_mask);
    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGINT, &a, NULL);
    return QKV_OK;
}

// ---- connections --------------------------------------------------------------------------------
static int64_t connections_of(const struct server *s, const char *peer)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->connections; i++) n += strcmp(s->connection[i]->peer, peer) == 0;
    return n;
}

int64_t server_calls_of(const struct server *s, const struct serve_call *c)
{
    int64_t n = 0;
    for (const struct serve_call *x = s->calls; x; x = x->other) n += strcmp(x->peer, c->peer) == 0;
    return n;
}

static void close_at(struct server *s, int64_t i)
{
    connection_free(s, s->connection[i]);
    s->connection[i] = s->connection[--s->connections];
    s->accept_at = 0; // a descriptor is free
}

// Closes the connection that waits longest for its next request, of one client or (NULL) of all.
// Returns false if there is none.
static bool close_idle(struct server *s, const char *peer)
{
    int64_t oldest = -1;
    for (int64_t i = 0; i < s->connections; i++) {
        const struct connection *k = s->connection[i];
        if (k->state == CONNECTION_READING && k->used && http_request_empty(&k->request) &&
            (!peer || strcmp(k->peer, peer) == 0) &&
            (oldest < 0 || k->deadline < s->connection[oldest]->deadline))
            oldest = i;
    }
    if (oldest >= 0) close_at(s, oldest);
    return oldest >= 0;
}

static void peer_name(char name[48], const struct sockaddr_storage *from, socklen_t size)
{
    if (from->ss_family == AF_UNIX ||
        getnameinfo((const struct sockaddr *)from, size, name, 48, NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(name, 48, "local");
}

static void accept_one(struct server *s, int listener)
{
    struct sockaddr_storage from = { 0 };
    socklen_t size = sizeof from;
    char peer[48];
    const int fd = accept(listener, (struct sockaddr *)&from, &size);
    if (fd < 0) {
        // no descriptor or memory is left: an idle connection makes room, or the client waits
        const bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        if (full && !close_idle(s, NULL)) s->accept_at = server_now() + ACCEPT_PAUSE_MS;
        return;
    }
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    peer_name(peer, &from, size);
    const int64_t most = s->o.most_connections, share = most < 4 ? most : most * 3 / 4;
    // a client above its share can only replace a connection of its own
    const bool above = connections_of(s, peer) >= share;
    if ((above || s->connections >= most) && !close_idle(s, above ? peer : NULL)) {
        connection_refuse(s, fd, peer);
        return;
    }
    struct connection *k = connection_new(s, fd, peer);
    if (k) s->connection[s->connections++] = k;
}

// ---- the loop -----------------------------------------------------------------------------------
static void take_news(struct server *s)
{
    for (;;) {
        struct serve_bytes out = { 0 }, rest = { 0 };
        bool ended = false;
        pthread_mutex_lock(&s->lock);
        struct serve_call *c = s->ready;
        if (c) {
            s->ready = c->next;
            if (!s->ready) s->ready_end = &s->ready;
            c->queued = false;
            out = c->out;
            rest = c->rest;
            ended = c->ended;
            c->out = (struct serve_bytes){ .failed = out.failed };
            c->rest = (struct serve_bytes){ 0 };
        }
        pthread_mutex_unlock(&s->lock);
        if (!c) return;
        connection_news(s, c, out, rest, ended);
    }
}

// Closes broken connections and handles deadlines.  Returns the next deadline.
static int64_t sweep(struct server *s)
{
    const int64_t now = server_now();
    int64_t next = s->draining ? s->drain_end : s->accept_at > now ? s->accept_at : INT64_MAX;
    for (int64_t i = 0; i < s->connections;) {
        struct connection *k = s->connection[i];
        if (!k->broken && k->deadline <= now) connection_expired(s, k);
        if (s->draining && k->state == CONNECTION_READING) k->broken = true;
        if (k->broken) {
            close_at(s, i);
            continue;
        }
        if (k->deadline < next) next = k->deadline;
        i++;
    }
    return next;
}

static void begin_drain(struct server *s)
{
    if (s->draining) return;
    if (!*s->o.ticket) log_event("drain", "finishing the running requests");
    s->draining = true;
    s->drain_end = server_now() + SERVER_DRAIN_MS;
    for (int i = 0; i < s->listeners; i++) close(s->listener[i]);
    s->listeners = 0;
    for (int64_t i = 0; i < s->connections; i++) s->connection[i]->closing = true;
}

// Waits for events until a deadline.  The first entries of s->poll are the pipe and the listeners.
static qkv_status wait_events(struct server *s, int64_t deadline, qkv_error *err)
{
    const int64_t now = server_now(), left = deadline < now ? 0 : deadline - now;
    const int timeout = deadline == INT64_MAX ? -1 : left > 60000 ? 60000 : (int)left;
    struct pollfd *p = s->poll;
    size_t n = 0;
    p[n++] = (struct pollfd){ .fd = s->wake[0], .events = POLLIN };
    for (int i = 0; i < s->listeners; i++)
        p[n++] =
            (struct pollfd){ .fd = s->accept_at > now ? -1 : s->listener[i], .events = POLLIN };
    for (int64_t i = 0; i < s->connections; i++)
        p[n++] = (struct pollfd){ .fd = s->connection[i]->fd,
                                  .events = connection_events(s->connection[i]) };
    if (poll(p, (nfds_t)n, timeout) >= 0) return QKV_OK;
    if (errno != EINTR) return cmd_error(err, QKV_ERR_IO, NULL, "poll: %s", strerror(errno));
    for (size_t i = 0; i < n; i++) p[i].revents = 0;
    return QKV_OK;
}

static void handle_events(struct server *s)
{
    char bytes[256];
    const struct pollfd *p = s->poll;
    const int64_t connections = s->connections; // accept_one() appends
    while (read(s->wake[0], bytes, sizeof bytes) == (ssize_t)sizeof bytes) {
    }
    const struct pollfd *client = p + 1 + s->listeners;
    for (int64_t i = 0; i < connections; i++)
        if (client[i].revents) connection_ready(s, s->connection[i], client[i].revents);
    sweep(s); // before further clients: the closed connections make room
    for (int i = 0; i < s->listeners; i++)
        if (p[1 + i].revents & POLLIN) accept_one(s, s->listener[i]);
}

qkv_status server_run(struct server *s, qkv_error *err)
{
    qkv_status status = prepare(s, err);
    const size_t most = (size_t)s->o.most_connections;
    s->connection = calloc(most, sizeof *s->connection);
    s->poll = calloc(most + SERVER_LISTENERS + 1, sizeof *s->poll);
    if (!status && (!s->connection || !s->poll))
        status = cmd_error(err, QKV_ERR_LIMIT, NULL, "no memory for %zu connections", most);
    // after the signals are handled: a program that reads the address may end the server at once
    if (!status) status = server_print_addresses(s, err);
    if (!status && !*s->o.ticket) log_event("ready", "");
    while (!status) {
        if (stops) begin_drain(s);
        take_news(s);
        const int64_t next = sweep(s); // ends idle connections of a server that drains
        if (s->draining && (!s->connections || server_now() >= s->drain_end)) break;
        status = wait_events(s, next, err);
        if (!status) handle_events(s);
    }
    while (s->connections) close_at(s, s->connections - 1);
    services_stop();
    take_news(s); // frees the calls of clients that had left
    return status;
}

void server_free(struct server *s)
{
    for (int i = 0; i < s->listeners; i++) close(s->listener[i]);
    free(s->connection);
    free(s->poll);
    free(s->count);
    if (s->sink) fclose(s->sink);
    signal_pipe = -1;
    for (int i = 0; i < 2; i++)
        if (s->wake[i] > 0) close(s->wake[i]);
}
