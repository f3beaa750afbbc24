// SPDX-License-Identifier: MIT
// say.c: what the command says: errors, notes, progress on stderr; cells and JSON anywhere.
#include "cmd.h"
#include <langinfo.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#include "signals.h"

static bool progress_drawn; // a progress line stands on the terminal

// ---- errors ------------------------------------------------------------------------------------
// Bytes of the valid UTF-8 character at p[n > 0], 0: not one (overlong, surrogate, cut, too large).
static size_t utf8_length(const unsigned char *p, size_t n)
{
    if (p[0] < 0x80) return 1;
    const size_t need = p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : p[0] < 0xF5 ? 4 : 0;
    if (!need || need > n) return 0;
    for (size_t i = 1; i < need; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) ||
        (p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F))
        return 0;
    return need;
}

qkv_status cmd_error(qkv_error *err, qkv_status status, const char *file, const char *format, ...)
{
    if (err->status) return status;
    char text[2 * sizeof err->text];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    memset(err, 0, sizeof *err);
    err->status = status;
    qkv_escape(err->text, sizeof err->text, text);
    if (file) qkv_escape(err->file, sizeof err->file, file);
    return status;
}

static void clear_progress(void)
{
    if (progress_drawn) fputs("\r\033[K", stderr);
    progress_drawn = false;
}

int cmd_fail(const qkv_error *err)
{
    clear_progress();
    if (common.json) {
        fprintf(stderr, "{\"status\":\"%s\",\"code\":%d", qkv_status_name(err->status),
                (int)err->status);
        if (err->file[0]) {
            fputs(",\"file\":", stderr);
            cmd_json_text(stderr, err->file, strlen(err->file));
        }
        if (err->has_offset) fprintf(stderr, ",\"offset\":%lld", (long long)err->offset);
        if (err->path[0]) {
            fputs(",\"path\":", stderr);
            cmd_json_text(stderr, err->path, strlen(err->path));
        }
        fputs(",\"text\":", stderr);
        cmd_json_text(stderr, err->text, strlen(err->text));
        fputs("}\n", stderr);
    } else {
        char line[1800];
        fprintf(stderr, "qkv: %s\n", qkv_error_line(line, sizeof line, err));
    }
    return (int)err->status;
}

void cmd_note(const char *format, ...)
{
    char text[1024], line[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    qkv_escape(line, sizeof line, text);
    clear_progress();
    if (common.json) {
        fputs("{\"note\":", stderr);
        cmd_json_text(stderr, line, strlen(line));
        fputs("}\n", stderr);
    } else {
        fprintf(stderr, "qkv: note: %s\n", line);
    }
}

static _Noreturn void out_of_memory(size_t count, size_t size)
{
    qkv_error err = { 0 };
    cmd_error(&err, QKV_ERR_LIMIT, NULL, "out of memory, expected room for %zu x %zu bytes", count,
              size);
    const int code = cmd_fail(&err);
    cmd_temps_remove();
    _exit(code);
}

void *cmd_alloc(size_t count, size_t size)
{
    size_t bytes;
    void *p = NULL;
    if (__builtin_mul_overflow(count, size, &bytes) ||
        posix_memalign(&p, 64, bytes ? bytes : 64) != 0)
        out_of_memory(count, size);
    return p;
}

void *cmd_grow(void *p, size_t count, size_t size)
{
    size_t bytes;
    void *q = NULL;
    if (__builtin_mul_overflow(count, size, &bytes) || (q = realloc(p, bytes ? bytes : 1)) == NULL)
        out_of_memory(count, size);
    return q;
}

// ---- progress ----------------------------------------------------------------------------------
static struct {
    const char *unit;
    bool shown;
    int64_t base, total; // of the whole job, when it is done in several calls; total -1: not known
    bool pieces;
    double start, last;
} progress;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// "1 h 02 min", "3 min 20 s", "12 s"
static void duration(char *out, size_t size, double seconds)
{
    const long s = seconds < 1e8 ? (long)(seconds + 0.5) : 100000000;
    if (s >= 3600)
        snprintf(out, size, "%ld h %02ld min", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(out, size, "%ld min %02ld s", s / 60, s % 60);
    else
        snprintf(out, size, "%ld s", s);
}

static int step(void *user, const char *what, int64_t done, int64_t total)
{
    (void)user;
    (void)what;
    if (cmd_interrupted()) return 1;
    const double t = now();
    if (!progress.shown || t - progress.last < 0.1 || t - progress.start < 0.3) return 0;
    progress.last = t;
    progress_drawn = true;
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
        duration(left, sizeof left, (double)(total - done) / rate);
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
    progress.shown = !common.json && isatty(2) && term && strcmp(term, "dumb") != 0;
    progress.start = progress.last = now();
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
    clear_progress();
}

// ---- terminal ----------------------------------------------------------------------------------
int cmd_columns(void)
{
    int64_t n = 0;
    const char *text = getenv("COLUMNS");
    struct winsize w;
    if (!text || !cmd_parse_int(text, &n)) n = 0;
    if (n <= 0 && ioctl(1, TIOCGWINSZ, &w) == 0) n = w.ws_col;
    if (n <= 0) n = 80;
    return n < 20 ? 20 : n > 500 ? 500 : (int)n;
}

bool cmd_color(FILE *to)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fileno(to)) && !(no && *no) && term && *term && strcmp(term, "dumb") != 0;
}

bool cmd_utf8(void)
{
    return !strcmp(nl_langinfo(CODESET), "UTF-8");
}

// Columns and bytes of the character at text[bytes > 0]; columns 4 for what is shown as \xNN.
static size_t character(const char *text, size_t bytes, int *columns)
{
    const unsigned char c = (unsigned char)*text;
    *columns = c < 0x20 || c == 0x7f ? 4 : 1;
    if (c < 0x80 || !cmd_utf8()) return 1;
    wchar_t w;
    mbstate_t state = { 0 };
    const size_t n = mbrtowc(&w, text, bytes, &state);
    if (n == (size_t)-1 || n == (size_t)-2 || n == 0) {
        *columns = 4;
        return 1;
    }
    const int width = wcwidth(w);
    // Characters that reorder a line (bidi controls) would move the columns behind them.
    const bool bidi =
        (w >= 0x202A && w <= 0x202E) || (w >= 0x2066 && w <= 0x2069) || w == 0x200E || w == 0x200F;
    *columns = width < 0 || bidi ? (int)(4 * n) : width;
    return n;
}

int cmd_width(const char *text, size_t bytes)
{
    int64_t sum = 0;
    for (int w; bytes && sum < 1 << 20;) {
        const size_t n = character(text, bytes, &w);
        sum += w;
        text += n;
        bytes -= n;
    }
    return (int)sum;
}

void cmd_print_cell(FILE *to, const char *text, size_t bytes, int width, int most)
{
    int full = cmd_width(text, bytes), limit = most && full > most ? most - 3 : full, used = 0;
    const int shown = most && full > most ? most : full;
    for (int pad = shown; width < 0 && pad < -width; pad++) fputc(' ', to);
    for (int w; bytes;) {
        const size_t n = character(text, bytes, &w);
        if (used + w > limit) break;
        const bool plain = w != (int)(4 * n);
        for (size_t i = 0; i < n; i++)
            plain ? (void)fputc(text[i], to) : (void)fprintf(to, "\\x%02x", (unsigned char)text[i]);
        used += w;
        text += n;
        bytes -= n;
    }
    if (limit < full) {
        fputs("...", to);
        used += 3;
    }
    for (int pad = used; width > 0 && pad < width; pad++) fputc(' ', to);
    for (int pad = used; width < 0 && pad < shown; pad++) fputc(' ', to);
}

// ---- JSON --------------------------------------------------------------------------------------
char *cmd_valid_text(const char *text)
{
    size_t left = strlen(text), n;
    char *copy = cmd_alloc(3 * left + 1, 1), *out = copy;
    for (; left; text += n, left -= n) {
        n = utf8_length((const unsigned char *)text, left);
        if (n)
            memcpy(out, text, n);
        else
            memcpy(out, "\xEF\xBF\xBD", 3);
        out += n ? n : 3;
        n += !n;
    }
    *out = 0;
    return copy;
}

void cmd_json_text(FILE *to, const char *text, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)text;
    fputc('"', to);
    while (bytes) {
        const size_t n = utf8_length(p, bytes);
        if (!n)
            fputs("\\ufffd", to);
        else if (*p == '"' || *p == '\\')
            fprintf(to, "\\%c", *p);
        else if (*p == '\n')
            fputs("\\n", to);
        else if (*p == '\t')
            fputs("\\t", to);
        else if (*p < 0x20 || *p == 0x7f)
            fprintf(to, "\\u%04x", *p);
        else
            fwrite(p, 1, n, to);
        p += n ? n : 1;
        bytes -= n ? n : 1;
    }
    fputc('"', to);
}

void cmd_json_float(FILE *to, float x)
{
    char text[32];
    if (!isfinite(x)) {
        fputs("null", to);
        return;
    }
    for (int d = 6; d <= 9; d++) {
        snprintf(text, sizeof text, "%.*g", d, (double)x);
        if (strtof(text, NULL) == x) break;
    }
    fputs(text, to);
}
