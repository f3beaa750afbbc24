// SPDX-License-Identifier: MIT
// lines.c: reads texts line by line, and in chunks that do not wait for more input than there is.
#include "frame/cmd.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "frame/signals.h"

// A chunk of texts ends after CHUNK_TEXTS texts or CHUNK_BYTES bytes; PIECE: most bytes of a read.
enum { CHUNK_TEXTS = 1024, CHUNK_BYTES = 1 << 22, PIECE = 1 << 16 };

// ---- lines -------------------------------------------------------------------------------------
// Returns true if the file is a device without an end, such as /dev/zero: a character device that
// is readable and no terminal.
static bool endless(int fd, const struct stat *st)
{
    char byte;
    return S_ISCHR(st->st_mode) && !isatty(fd) && read(fd, &byte, 1) > 0;
}

// Returns true if the file is also standard output: its lines would be read again and again.
static bool is_stdout(const struct stat *st)
{
    struct stat out;
    return S_ISREG(st->st_mode) && fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == st->st_dev &&
           out.st_ino == st->st_ino;
}

qkv_status cmd_lines_open(struct cmd_lines *l, const char *path, qkv_error *err)
{
    const bool standard = !strcmp(path, "-");
    *l = (struct cmd_lines){ .path = standard ? "standard input" : path, .size = -1 };
    l->fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (l->fd < 0)
        return cmd_error(err, cmd_io_status(errno), path, "cannot open: %s", strerror(errno));
    struct stat st;
    const char *wrong = NULL;
    const int flags = fcntl(l->fd, F_GETFL);
    // cmd_signals_init() opens a closed standard input for writing only
    if (standard && flags >= 0 && (flags & O_ACCMODE) == O_WRONLY)
        return cmd_error(err, QKV_ERR_IO, l->path,
                         "standard input is closed, expected a text, a file or a pipe");
    if (fstat(l->fd, &st) == 0) {
        if (S_ISDIR(st.st_mode)) wrong = "the input is a directory, expected a text file";
        if (endless(l->fd, &st))
            wrong = "the input is a device without an end of file, expected a text file";
        if (is_stdout(&st)) wrong = "the input is also standard output, expected different files";
        if (S_ISREG(st.st_mode) && !standard) l->size = st.st_size;
    }
    if (!wrong && isatty(l->fd)) cmd_note("reading lines from the terminal until Ctrl-D");
    if (!wrong) return QKV_OK;
    const qkv_status status = cmd_error(err, QKV_ERR_IO, l->path, "%s", wrong);
    cmd_lines_close(l);
    return status;
}

// Returns true if a read from the file does not wait: there are bytes, an end or an error.
static bool is_ready(const struct cmd_lines *l, int milliseconds)
{
    struct pollfd p = { .fd = l->fd, .events = POLLIN };
    return poll(&p, 1, milliseconds) > 0;
}

qkv_status cmd_lines_read(struct cmd_lines *l, char *to, size_t most, int64_t *bytes,
                          qkv_error *err)
{
    for (;;) {
        if (cmd_interrupted()) return cmd_error(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
        *bytes = read(l->fd, to, most);
        if (*bytes > 0 && l->digest) qkv_digest_add(l->digest, to, (size_t)*bytes);
        if (*bytes >= 0) return QKV_OK;
        if (errno == EAGAIN) (void)is_ready(l, -1);
        if (errno != EAGAIN && errno != EINTR)
            return cmd_error(err, cmd_io_status(errno), l->path, "cannot read: %s",
                             strerror(errno));
    }
}

static qkv_status fail_long(const struct cmd_lines *l, qkv_error *err)
{
    const qkv_status status =
        cmd_error(err, QKV_ERR_LIMIT, l->path,
                  "line too long, expected at most %d bytes, found more", (int)QKV_LINE_BYTES);
    snprintf(err->path, sizeof err->path, "line %lld", (long long)l->number + 1);
    return status;
}

// Reads more bytes into the buffer, which contains the beginning of a line.
static qkv_status fill(struct cmd_lines *l, qkv_error *err)
{
    int64_t bytes;
    if (l->begin) memmove(l->buffer, l->buffer + l->begin, l->end - l->begin);
    l->end -= l->begin;
    l->begin = 0;
    if (l->end > QKV_LINE_BYTES) return fail_long(l, err);
    if (l->end + PIECE >= l->capacity) {
        l->capacity = l->capacity ? 2 * l->capacity : 2 * PIECE;
        l->buffer = cmd_grow(l->buffer, l->capacity, 1);
    }
    const qkv_status status = cmd_lines_read(l, l->buffer + l->end, PIECE, &bytes, err);
    if (status) return status;
    l->ended = bytes == 0;
    l->end += (size_t)bytes;
    return QKV_OK;
}

// Returns the end of the first line in the buffer; NULL: the buffer has no whole line.
static char *line_end(struct cmd_lines *l)
{
    const size_t from = l->begin + l->scanned;
    char *end = l->end > from ? memchr(l->buffer + from, '\n', l->end - from) : NULL;
    l->scanned = end ? (size_t)(end - l->buffer) - l->begin : l->end - l->begin;
    return end || !l->ended || l->begin == l->end ? end : l->buffer + l->end;
}

qkv_status cmd_lines_next(struct cmd_lines *l, int64_t *bytes, qkv_error *err)
{
    char *end;
    *bytes = -1;
    while (!(end = line_end(l)) && !l->ended) {
        const qkv_status status = fill(l, err);
        if (status) return status;
    }
    if (!end) return QKV_OK;
    if (end - (l->buffer + l->begin) > QKV_LINE_BYTES) return fail_long(l, err);
    l->line = l->buffer + l->begin;
    l->begin = (size_t)(end - l->buffer) + (end < l->buffer + l->end);
    l->scanned = 0;
    l->number++;
    *end = 0;
    if (end > l->line && end[-1] == '\r') *--end = 0;
    *bytes = end - l->line;
    return QKV_OK;
}

qkv_status cmd_lines_ready(struct cmd_lines *l, bool *ready, qkv_error *err)
{
    qkv_status status = QKV_OK;
    while (!line_end(l) && !l->ended && is_ready(l, 0) && !status) status = fill(l, err);
    *ready = l->ended || line_end(l);
    return status;
}

void cmd_lines_close(struct cmd_lines *l)
{
    if (l->fd > STDIN_FILENO) close(l->fd);
    free(l->buffer);
    *l = (struct cmd_lines){ .size = -1 };
}

// ---- texts -------------------------------------------------------------------------------------
void cmd_texts_add(struct cmd_texts *t, const char *text, size_t bytes)
{
    if (t->count == t->capacity) {
        t->capacity = t->capacity ? 2 * t->capacity : 16;
        t->text = cmd_grow(t->text, (size_t)t->capacity, sizeof *t->text);
        t->bytes = cmd_grow(t->bytes, (size_t)t->capacity, sizeof *t->bytes);
    }
    char *copy = cmd_alloc(bytes + 1, 1);
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    t->text[t->count] = copy;
    t->bytes[t->count++] = bytes;
}

void cmd_texts_free(struct cmd_texts *t)
{
    for (int64_t i = 0; i < t->count; i++) free(t->text[i]);
    free(t->text);
    free(t->bytes);
    *t = (struct cmd_texts){ 0 };
}

static int64_t count_lines(const char *path)
{
    struct cmd_lines l;
    qkv_error none = { 0 };
    static char block[PIECE];
    char last = '\n';
    int64_t lines = 0;
    if (cmd_lines_open(&l, path, &none)) return -1;
    for (int64_t n; !cmd_lines_read(&l, block, sizeof block, &n, &none) && n > 0;) {
        for (int64_t i = 0; i < n; i++) lines += block[i] == '\n';
        last = block[n - 1];
    }
    cmd_lines_close(&l);
    return none.status ? -1 : lines + (last != '\n');
}

// Opens the file of a source, if it has one.
static qkv_status open_file(struct cmd_source *s, qkv_error *err)
{
    s->total = s->argc;
    if (!s->file) return QKV_OK;
    const qkv_status status = cmd_lines_open(&s->lines, s->file, err);
    if (status) return status;
    s->open = true;
    // The total is only needed to show progress: counting the lines reads the file a second time.
    const int64_t n = s->lines.size >= 0 && isatty(STDERR_FILENO) ? count_lines(s->file) : -1;
    s->total = n < 0 ? -1 : n + s->argc;
    return QKV_OK;
}

qkv_status cmd_source_open(struct cmd_source *s, int argc, char **argv, const char *file,
                           qkv_error *err)
{
    *s = (struct cmd_source){ .argv = argv, .argc = argc, .file = file, .left = -1 };
    if (!argc && !file) {
        if (isatty(STDIN_FILENO))
            return cmd_error(
                err, QKV_ERR_USAGE, NULL,
                "no text is given, expected operands, -f FILE, or lines on standard input");
        s->file = "-";
    }
    return open_file(s, err);
}

qkv_status cmd_source_range(struct cmd_source *s, int64_t offset, int64_t first, int64_t lines,
                            qkv_error *err)
{
    if (!s->open || lseek(s->lines.fd, offset, SEEK_SET) != offset)
        return cmd_error(err, QKV_ERR_IO, s->file, "cannot seek to line %lld: %s",
                         (long long)first + 1, strerror(errno));
    s->lines.number = s->before = first;
    s->left = s->total = lines;
    return QKV_OK;
}

qkv_status cmd_source_next(struct cmd_source *s, struct cmd_texts *t, qkv_error *err)
{
    size_t bytes = 0;
    bool ready = true;
    if (s->later.status) {
        *err = s->later;
        return err->status;
    }
    s->before += t->count;
    cmd_texts_free(t);
    for (; s->at < s->argc && t->count < CHUNK_TEXTS; s->at++) {
        bytes += strlen(s->argv[s->at]);
        cmd_texts_add(t, s->argv[s->at], strlen(s->argv[s->at]));
    }
    for (int64_t n = 0; s->open && s->left && t->count < CHUNK_TEXTS && bytes < CHUNK_BYTES;) {
        if (t->count && (cmd_lines_ready(&s->lines, &ready, &s->later) || !ready)) break;
        // after the first text of a chunk, an error is reported instead of the next chunk
        const qkv_status status = cmd_lines_next(&s->lines, &n, t->count ? &s->later : err);
        if (status && !t->count) return status;
        if (status || n < 0) break;
        cmd_texts_add(t, s->lines.line, (size_t)n);
        bytes += (size_t)n;
        s->left -= s->left > 0;
    }
    return QKV_OK;
}

void cmd_source_close(struct cmd_source *s)
{
    if (s->open) cmd_lines_close(&s->lines);
    s->open = false;
}

qkv_status cmd_texts_read(struct cmd_texts *t, int argc, char **argv, const char *file,
                          qkv_error *err)
{
    struct cmd_source s = { .argv = argv, .argc = argc, .file = file, .left = -1 };
    struct cmd_texts chunk = { 0 };
    qkv_status status = open_file(&s, err);
    *t = (struct cmd_texts){ .operands = argc, .file = file };
    while (!status && !(status = cmd_source_next(&s, &chunk, err)) && chunk.count)
        for (int64_t i = 0; i < chunk.count; i++) cmd_texts_add(t, chunk.text[i], chunk.bytes[i]);
    cmd_texts_free(&chunk);
    cmd_source_close(&s);
    if (status) cmd_texts_free(t);
    return status;
}

void cmd_text_place(qkv_error *err, int64_t before, int64_t operands, const char *file)
{
    long long n = 1;
    const bool named =
        sscanf(err->path, "text %lld", &n) == 1 || sscanf(err->path, "prompt %lld", &n) == 1;
    // An error without a place is about the only text of the call, if it is about a text.
    const bool text = before || err->status == QKV_ERR_FORMAT;
    if (err->file[0] || (!named && (err->path[0] || !text))) return;
    n += before;
    if (!file || n <= operands) {
        if (before) snprintf(err->path, sizeof err->path, "text %lld", n);
        return;
    }
    qkv_escape(err->file, sizeof err->file, strcmp(file, "-") ? file : "standard input");
    snprintf(err->path, sizeof err->path, "line %lld", n - operands);
}
