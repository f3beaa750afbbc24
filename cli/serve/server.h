// SPDX-License-Identifier: MIT
// server.h: declares the sockets of `qkv serve`: one thread accepts connections, reads requests
// within their time limits, and writes the answers that endpoints and models give.
#ifndef QKV_CLI_SERVER_H
#define QKV_CLI_SERVER_H

#include "serve/limits.h"
#include "serve/serve.h"
#include <sys/socket.h>

enum {
    SERVER_LISTENERS = 8,
    SERVER_BODY = 4 << 20, // most bytes of a body
    // Default time limits in seconds: from the first byte of a request, or from the connection, to
    // the last header; from there to the end of the body; between two requests of a connection.
    SERVER_HEAD_SECONDS = 10,
    SERVER_BODY_SECONDS = 30,
    SERVER_IDLE_SECONDS = 60,
    // Time limits in milliseconds: for a client to read the answer after which it is disconnected;
    // for running requests after SIGTERM.  limits.h has the time to read an answer.
    SERVER_LINGER_MS = 2000,
    SERVER_DRAIN_MS = 30000,
    // The most bytes of answers that are not read: of all clients together, of one address.
    SERVER_UNREAD = 256 << 20,
    SERVER_UNREAD_OF_ONE = 64 << 20,
    SERVER_SECRET = 33 // bytes of a secret: 128 random bits in hexadecimal, and NUL
};

enum connection_state { CONNECTION_READING, CONNECTION_ANSWERING, CONNECTION_LINGERING };
struct connection {
    int fd;
    enum connection_state state;
    char peer[48]; // address of the client, without port
    struct http_request request;
    bool admitted;           // the head of the request was checked
    struct serve_bytes in;   // bytes after the request that is answered
    bool more;               // further bytes have arrived, which are read after the answer
    struct serve_bytes out;  // bytes to send
    struct serve_bytes rest; // sent after `out`: the body of a complete answer
    size_t out_used;
    size_t unread;           // bytes of `out` and `rest` that count in server.unread
    int64_t unread_from;     // time in milliseconds since which the client has not read all bytes
    struct serve_call *call; // the request that is being answered
    bool closing;            // the connection ends after this answer
    bool used;               // a request was answered
    bool broken;             // to be closed
    size_t window_sent;      // bytes that it has read since window_from
    int64_t window_from;     // time in milliseconds
    int64_t deadline;        // in milliseconds; INT64_MAX: none
    size_t held;             // bytes of its body, and of its values, that count in server.held
    // [serve_model_count][SERVICE_QUEUES] virtual times at which its last jobs ended (service.c)
    double *finish;
};

struct server_options {
    const char *token;        // NULL: none
    const char *const *hosts; // [host_count] further names of this server in Host
    int64_t host_count;
    bool any_host; // do not check Host
    int64_t most_connections, most_requests;
    int64_t head_seconds, body_seconds, idle_seconds; // time limits of a connection
    bool log;                                         // log requests
    // The page of `qkv view --live`: "" or the secret of the only browser that the server answers.
    // GET /?token=TICKET is redirected to / once, with the secret as a cookie.
    char ticket[SERVER_SECRET], cookie[SERVER_SECRET], cookie_name[24];
};

struct server_count {
    int64_t requests, errors; // answers; answers of status 400 and above
    double seconds;
};
struct server {
    struct server_options o;
    int listener[SERVER_LISTENERS], listeners;
    bool passed; // systemd has opened the listeners
    int wake[2];
    pthread_t thread;
    struct connection **connection; // [connections]
    int64_t connections;
    struct pollfd *poll;
    pthread_mutex_t lock;
    struct serve_call *ready, **ready_end; // calls with news; guarded by lock
    struct serve_call *calls;              // all calls that have not ended
    size_t held;   // bytes of all bodies that are read or answered, with their values
    size_t unread; // bytes of all answers that are not read
    FILE *sink;    // takes the body of an answer for which there is no memory
    bool draining;
    int64_t drain_end, started;
    struct server_count *count; // [endpoints + 1] the last: no endpoint
    atomic_llong tokens;
    int64_t refused;   // connections above the limit
    int64_t slow;      // connections that ended because answers above the limit were not read
    int64_t accept_at; // no connection is accepted before: no descriptor was left
    bool ticket_used;
};

int64_t server_now(void); // milliseconds
int64_t server_micros(void);
// Opens the sockets that systemd passes, or a socket for host and port.
// *loopback: all of them accept connections of this machine only.
qkv_status server_listen(struct server *s, const char *host, int64_t port, bool *loopback,
                         qkv_error *err);
// Prints the addresses to stdout, with the ticket of s->o if there is one.  The models are open: a
// reader of the line may send requests.
qkv_status server_print_addresses(const struct server *s, qkv_error *err);
// Handles signals, prints the addresses, runs until SIGTERM or SIGINT and then until the running
// requests end.
qkv_status server_run(struct server *s, qkv_error *err);
void server_free(struct server *s);
// Returns the number of calls that wait or run and come from the address of c.
int64_t server_calls_of(const struct server *s, const struct serve_call *c);

// ---- connection.c -------------------------------------------------------------------------------
// Makes the connection of an accepted socket, which it closes if memory is exhausted.
struct connection *connection_new(struct server *s, int fd, const char *peer);
void connection_free(struct server *s, struct connection *k);
short connection_events(const struct connection *k); // what poll() waits for
void connection_ready(struct server *s, struct connection *k, short events);
void connection_expired(struct server *s, struct connection *k); // its deadline has passed
// Takes the news of a call: bytes to send, which it frees or takes over, and the end of the answer,
// at which it frees the call.
void connection_news(struct server *s, struct serve_call *c, struct serve_bytes out,
                     struct serve_bytes rest, bool ended);
// Counts memory that the request of a call takes besides its body.  Returns false if the requests
// of all clients, or the requests of its address, take too much together.
bool connection_hold(struct serve_call *c, size_t bytes);
// Sends a short refusal to a client above the limit of connections, and closes its socket at once.
void connection_refuse(struct server *s, int fd, const char *peer);

// ---- call.c -------------------------------------------------------------------------------------
struct serve_call *call_new(struct server *s, struct connection *k, const struct endpoint *e);
void call_free(struct serve_call *c);
const char *call_reason(int status); // "Not Found"
// Answers a request that has no call.
void answer_directly(struct connection *k, int status, const char *message, const char *extra);

// ---- guard.c ------------------------------------------------------------------------------------
// Checks the head of a request. Returns its endpoint, or NULL with the status, message and further
// headers of the answer.
struct guard_refusal {
    int status;
    const char *message;
    char text[512];  // the message, unless it is constant
    char extra[160]; // "" or complete lines
};
const struct endpoint *guard_check(struct server *s, const struct http_request *r,
                                   struct guard_refusal *why);
// Compares two texts in a time that does not depend on where they differ.
bool guard_equal(const char *a, const char *b);

// ---- serve_log.c --------------------------------------------------------------------------------
void log_call(const struct serve_call *c);
void log_refusal(const struct connection *k, int status, const char *message);
void log_event(const char *event, const char *text);
int64_t log_dropped(void); // lines that were dropped because stderr was full
#endif
