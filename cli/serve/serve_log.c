// SPDX-License-Identifier: MIT
// serve_log.c: the log: one JSON object per line on stderr, written by the thread of the sockets.
#include "serve/server.h"
#include <string.h>
#include <time.h>

static void begin(const char *event)
{
    char date[40] = "";
    struct timespec now;
    struct tm t;
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &t)) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &t);
    fprintf(stderr, "{\"time\":\"%s.%03ldZ\",\"event\":\"%s\"", date, now.tv_nsec / 1000000, event);
}

void log_call(const struct serve_call *c)
{
    begin("request");
    fprintf(stderr,
            ",\"client\":\"%s\",\"method\":\"%s\",\"path\":\"%s\",\"status\":%d,\"ms\":%.3f,"
            "\"bytes\":%zu,\"tokens\":%lld%s}\n",
            c->peer, c->method, c->path, c->status, (double)(server_micros() - c->began) * 1e-3,
            c->sent, (long long)c->tokens, atomic_load(&c->gone) ? ",\"client_left\":true" : "");
}

void log_refusal(const struct connection *k, int status, const char *message)
{
    begin("refusal");
    fprintf(stderr, ",\"client\":\"%s\",\"status\":%d,\"text\":", k->peer, status);
    cmd_json_text(stderr, message, strlen(message));
    fputs("}\n", stderr);
}

void log_event(const char *event, const char *text)
{
    begin(event);
    fputs(",\"text\":", stderr);
    cmd_json_text(stderr, text, strlen(text));
    fputs("}\n", stderr);
}
