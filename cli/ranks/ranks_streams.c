// SPDX-License-Identifier: MIT
// ranks_streams.c: copies what a rank prints, by a pipe per output that the guard of the rank
// reads. Nothing is read while the output does not take what was read before: the rank waits then,
// as it would without the pipe.
#include "ranks/ranks_streams.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

// A pipe for one output, or for both if they are the same file, whose order stays. from: the guard
// reads it; -1: closed. to: the rank writes to it. output: the descriptor of the launcher; in the
// rank a copy of it. data[at] to data[n]: read and not written yet.
static struct stream {
    int from, to, output;
    bool used[3]; // by standard output (1), by standard error (2)
    struct stat pipe;
    size_t at, n;
    char data[PIPE_BUF];
} streams[STREAMS];
static int count;

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

void streams_open(void)
{
    struct stat file, first;
    for (int number = 1; number <= 2; number++) {
        struct stream *s = &streams[count];
        int ends[2];
        if (fstat(number, &file) != 0 || !(S_ISFIFO(file.st_mode) || S_ISSOCK(file.st_mode)))
            continue;
        if (count && same(&file, &first)) {
            streams[0].used[number] = true;
            continue;
        }
        if (pipe(ends) != 0) continue;
        first = file;
        *s = (struct stream){ .from = ends[0], .to = ends[1], .output = number };
        s->used[number] = true;
        // a writable pipe takes PIPE_BUF bytes; a read that would wait returns
        if (fstat(s->to, &s->pipe) == 0 && fcntl(s->from, F_SETFL, O_NONBLOCK) == 0) {
            count++;
            continue;
        }
        close(ends[0]);
        close(ends[1]);
    }
}

void streams_begin(void)
{
    for (int i = 0; i < count; i++) {
        struct stream *s = &streams[i];
        close(s->from);
        s->output = fcntl(s->output, F_DUPFD_CLOEXEC, 3);
        for (int number = 1; number <= 2; number++)
            if (s->used[number] && s->output >= 0) dup2(s->to, number);
        close(s->to);
    }
}

void streams_end(void)
{
    struct stat file;
    for (int i = 0; i < count; i++) {
        struct stream *s = &streams[i];
        if (s->output < 0) continue;
        // an output that the rank has opened again stays
        for (int number = 1; number <= 2; number++)
            if (s->used[number] && fstat(number, &file) == 0 && same(&file, &s->pipe))
                dup2(s->output, number);
        close(s->output);
        s->output = -1;
    }
}

void streams_keep(void)
{
    for (int i = 0; i < count; i++) close(streams[i].to);
}

void streams_ask(struct pollfd *asked, bool hold)
{
    for (int i = 0; i < STREAMS; i++) {
        const struct stream *s = &streams[i];
        const bool writes = s->at < s->n;
        const int output = hold ? -1 : s->output, fd = writes ? output : s->from;
        asked[i] =
            (struct pollfd){ .fd = i < count ? fd : -1, .events = writes ? POLLOUT : POLLIN };
    }
}

static void close_stream(struct stream *s)
{
    close(s->from);
    s->from = -1;
    s->at = s->n = 0;
}

// Returns whether a call that failed may be made again.
static bool again(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

bool streams_copy(const struct pollfd *asked)
{
    bool read_some = false;
    for (int i = 0; i < count; i++) {
        struct stream *s = &streams[i];
        if (!asked[i].revents) continue;
        if (s->at < s->n) {
            const ssize_t n = write(s->output, s->data + s->at, s->n - s->at);
            if (n >= 0) s->at += (size_t)n;
            // no process reads the output: the next write of the rank fails, too
            if (n < 0 && !again()) close_stream(s);
        } else {
            const ssize_t n = read(s->from, s->data, sizeof s->data);
            if (n == 0 || (n < 0 && !again())) close_stream(s);
            s->at = 0;
            s->n = n > 0 ? (size_t)n : 0;
            read_some = read_some || n > 0;
        }
    }
    return read_some;
}

void streams_drain(bool closed)
{
    for (;;) {
        struct pollfd asked[STREAMS];
        bool waits = false, open = false;
        for (int i = 0; i < count; i++) {
            waits = waits || streams[i].at < streams[i].n;
            open = open || streams[i].from >= 0;
        }
        if (!open) return;
        streams_ask(asked, false);
        const int answered = poll(asked, STREAMS, waits || closed ? -1 : 0);
        if (answered == 0 || (answered < 0 && errno != EINTR)) return;
        if (answered > 0) streams_copy(asked);
    }
}
