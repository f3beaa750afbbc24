// SPDX-License-Identifier: MIT
// progress.c: shows the progress of a long call if stderr is a terminal, and handles Ctrl-C during
// the call.
#include "frame/cmd.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "frame/signals.h"

enum { LOG_SECONDS = 20 }; // time between the lines of a log

static bool drawn; // true: the terminal shows a progress line

static struct {
    const char *unit;
    bool shown;
    // for a job of several calls. base: units done before this call; total: of all calls, -1: not
    // known
    int64_t base, total;
    bool pieces;
    double start, last;
} progress;

double cmd_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void cmd_duration(char *out, size_t size, double seconds)
{
    const long s = seconds < 1e8 ? (long)(seconds + 0.5) : 100000000;
    if (s >= 3600)
        snprintf(out, size, "%ld h %02ld min", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(out, size, "%ld min %02ld s", s / 60, s % 60);
    else
        snprintf(out, size, "%ld s", s);
}

bool cmd_progress_due(void)
{
    const double t = cmd_seconds();
    if (!progress.shown || t - progress.last < 0.1 || t - progress.start < 0.3) return false;
    progress.last = t;
    return true;
}

bool cmd_progress_log_due(void)
{
    const double t = cmd_seconds();
    if (progress.shown || common.json || t - progress.last < LOG_SECONDS) return false;
    progress.last = t;
    return true;
}

void cmd_progress_line(const char *text)
{
    drawn = true;
    fputs("\r\033[K", stderr);
    cmd_print_cell(stderr, text, strlen(text), 0, cmd_columns() - 1);
    fflush(stderr);
}

static int step(void *user, const char *what, int64_t done, int64_t total)
{
    (void)user;
    (void)what;
    if (cmd_interrupted()) return 1;
    if (!cmd_progress_due()) return 0;
    const double t = progress.last;
    drawn = true;
    if (progress.pieces) {
        done += progress.base;
        total = progress.total;
    }
    const double rate = (double)done / (t - progress.start);
    fprintf(stderr, "\r\033[K%lld", (long long)done);
    if (total >= 0) fprintf(stderr, " of %lld", (long long)total);
    fprintf(stderr, " %s, %.*f/s", progress.unit, rate < 10, rate);
    if (total > done && rate > 0) {
        char left[32];
        cmd_duration(left, sizeof left, (double)(total - done) / rate);
        fprintf(stderr, ", %s left", left);
    }
    fflush(stderr);
    return 0;
}

struct qkv_progress cmd_progress_begin(const char *unit)
{
    const char *term = getenv("TERM");
    progress.unit = unit;
    progress.pieces = false;
    progress.shown =
        !common.json && !common.quiet && isatty(2) && term && strcmp(term, "dumb") != 0;
    progress.start = progress.last = cmd_seconds();
    cmd_signals_graceful(true);
    return (struct qkv_progress){ step, NULL };
}

void cmd_progress_piece(int64_t done, int64_t total)
{
    progress.pieces = true;
    progress.base = done;
    progress.total = total;
}

void cmd_progress_end(void)
{
    cmd_signals_graceful(false);
    cmd_progress_clear();
}

void cmd_progress_clear(void)
{
    if (drawn) fputs("\r\033[K", stderr);
    drawn = false;
}
