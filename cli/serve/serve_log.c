// SPDX-License-Identifier: MIT
// serve_log.c: the log: one JSON object per line on stderr, written by the thread of the sockets.
// That thread never waits for a reader of the log: a line that does not fit into a full pipe is
// dropped and counted.
#include "serve/server.h"
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// A line that is being assembled.
struct line {
    FILE *to;
    char *text;
    size_t bytes;
};
static int64_t dropped, unreported; // dropped lines; those that no line has reported yet

int64_t log_dropped(void)
{
    return dropped;
}

static bool begin(struct line *l, const char *event)
{
    char date[40] = "";
    struct timespec now;
    struct tm t;
    *l = (struct line){ 0 };
    l->to = open_memstream(&l->text, &l->bytes);
    if (!l->to) return false;
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &t)) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &t);
    fprintf(l->to, "{\"time\":\"%s.%03ldZ\",\"event\":\"%s\"", date, now.tv_nsec / 1000000, event);
    return true;
}

// Writes a line unless that would wait.  Returns false if it was not written.
static bool end(struct line *l)
{
    struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };
    bool written = l->to && fclose(l->to) == 0;
    // a pipe that is writable has space for PIPE_BUF bytes
    written = written && l->bytes <= PIPE_BUF && poll(&p, 1, 0) == 1 && p.revents == POLLOUT &&
              write(STDERR_FILENO, l->text, l->bytes) == (ssize_t)l->bytes;
    free(l->text);
    return written;
}

static bool report(void)
{
    struct line l;
    if (begin(&l, "dropped")) fprintf(l.to, ",\"lines\":%lld}\n", (long long)unreported);
    return end(&l);
}

// Ends a line, and reports the lines that were dropped before it.
static void finish(struct line *l)
{
    if (unreported && report()) unreported = 0;
    if (end(l)) return;
    dropped++;
    unreported++;
}

void log_call(const struct serve_call *c)
{
    struct line l;
    if (begin(&l, "request"))
        fprintf(l.to,
                ",\"client\":\"%s\",\"method\":\"%s\",\"path\":\"%s\",\"status\":%d,\"ms\":%.3f,"
                "\"bytes\":%zu,\"tokens\":%lld%s}\n",
                c->peer, c->method, c->path, c->status, (double)(server_micros() - c->began) * 1e-3,
                c->sent, (long long)c->tokens,
                atomic_load(&c->gone) ? ",\"client_left\":true" : "");
    finish(&l);
}

void log_refusal(const struct connection *k, int status, const char *message)
{
    struct line l;
    if (begin(&l, "refusal")) {
        fprintf(l.to, ",\"client\":\"%s\",\"status\":%d,\"text\":", k->peer, status);
        cmd_json_text(l.to, message, strlen(message));
        fputs("}\n", l.to);
    }
    finish(&l);
}

void log_event(const char *event, const char *text)
{
    struct line l;
    if (begin(&l, event)) {
        fputs(",\"text\":", l.to);
        cmd_json_text(l.to, text, strlen(text));
        fputs("}\n", l.to);
    }
    finish(&l);
}
