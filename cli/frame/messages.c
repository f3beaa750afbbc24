// SPDX-License-Identifier: MIT
// messages.c: prints errors and notes on stderr, and ends the command when memory is exhausted.
#include "frame/cmd.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "frame/signals.h"

qkv_status cmd_io_status(int code)
{
    return code == ENOMEM ? QKV_ERR_LIMIT : QKV_ERR_IO;
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

qkv_status cmd_no_memory(qkv_error *err)
{
    return cmd_error(err, QKV_ERR_LIMIT, NULL, "out of memory");
}

qkv_status cmd_check_finite(const float *x, int64_t n, const char *name, qkv_error *err)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return cmd_error(err, QKV_ERR_INTERNAL, NULL,
                             "%s is not finite, expected finite numbers, found %s; damaged or very "
                             "large weights of a model cause this",
                             name, isnan(x[i]) ? "NaN" : "infinity");
    return QKV_OK;
}

qkv_status cmd_written(FILE *to, const char *name, qkv_error *err)
{
    errno = 0;
    if (fflush(to) == 0 && !ferror(to)) return QKV_OK;
    // The cause of an earlier failed write is lost: write one more byte, so that it fails with the
    // same cause.
    if (!errno) {
        clearerr(to);
        if (fputc('\n', to) != EOF) (void)fflush(to);
    }
    return cmd_error(err, cmd_io_status(errno), name, "cannot write%s%s", errno ? ": " : "",
                     errno ? strerror(errno) : "");
}

// Returns true if the reader of standard output has closed it, as `head` does when it has its
// lines.
static bool reader_is_gone(const qkv_error *err)
{
    const char *const why = strerror(EPIPE);
    const size_t n = strlen(err->text), m = strlen(why);
    return err->status == QKV_ERR_IO && n >= m && !strcmp(err->text + n - m, why) &&
           (!strcmp(err->file, "standard output") || cmd_is_stdout(err->file));
}

int cmd_fail(const qkv_error *err)
{
    cmd_progress_clear();
    if (!err->text[0]) return (int)err->status; // a child process has already printed the error
    if (reader_is_gone(err)) return (int)err->status;
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
    if (common.quiet) return;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    qkv_escape(line, sizeof line, text);
    cmd_progress_clear();
    if (common.json) {
        fputs("{\"note\":", stderr);
        cmd_json_text(stderr, line, strlen(line));
        fputs("}\n", stderr);
    } else {
        fprintf(stderr, "qkv: note: %s\n", line);
    }
}

void (*cmd_memory_hook)(const qkv_error *err);

static _Noreturn void out_of_memory(size_t count, size_t size)
{
    qkv_error err = { 0 };
    cmd_error(&err, QKV_ERR_LIMIT, NULL, "out of memory, expected %zu x %zu bytes", count, size);
    if (cmd_memory_hook) cmd_memory_hook(&err);
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
