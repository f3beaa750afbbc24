// SPDX-License-Identifier: MIT
// files.c: finds model folders, reads lines of text, and writes output files so that no partial
// file remains.
#include "frame/cmd.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "frame/signals.h"

qkv_status cmd_model_find(char dir[CMD_PATH], qkv_error *err)
{
    return cmd_model_find_named(dir, NULL, err);
}

qkv_status cmd_model_find_named(char dir[CMD_PATH], const char *model, qkv_error *err)
{
    if (!model) model = common.model;
    char why[512];
    qkv_error met = { 0 };
    const qkv_status status = qkv_model_find(dir, CMD_PATH, why, sizeof why, model, &met);
    // say which option names a model: the library does not know the options of commands
    if (status && !model)
        return cmd_error(
            err, status, NULL,
            "%s; choose a model with --model DIR or QKV_MODEL, or download one with 'make demo'",
            met.text);
    if (status) *err = met;
    return status;
}

qkv_status cmd_model_find_for(enum qkv_job job, char dir[CMD_PATH], const char *model,
                              qkv_error *err)
{
    return qkv_model_find_for(job, dir, CMD_PATH, NULL, 0, model ? model : common.model, err);
}

// ---- outputs -----------------------------------------------------------------------------------
static bool same_file(const struct stat *a, const char *path)
{
    struct stat b;
    return stat(path, &b) == 0 && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

// Returns the path of the file that is written if path is a symbolic link: its target.
static void follow(char out[CMD_PATH], const char *path)
{
    char *real = realpath(path, NULL);
    snprintf(out, CMD_PATH, "%s", real && strlen(real) < CMD_PATH ? real : path);
    free(real);
}

static bool temp_name(char out[CMD_PATH], const char *path)
{
    char target[CMD_PATH];
    if (strlen(path) >= CMD_PATH) return false;
    follow(target, path);
    const int n = snprintf(out, CMD_PATH, "%s.tmp.%ld", target, (long)getpid());
    return n > 0 && n < CMD_PATH;
}

// If path is /dev/stdout, /dev/fd/N or /proc/self/fd/N, returns the descriptor; otherwise -1.
static int descriptor(const char *path)
{
    static const char *const names[] = { "/dev/stdin", "/dev/stdout", "/dev/stderr" };
    static const char *const folders[] = { "/dev/fd/", "/proc/self/fd/" };
    int64_t n;
    for (int i = 0; i < 3; i++)
        if (!strcmp(path, names[i])) return i;
    for (int i = 0; i < 2; i++) {
        const size_t bytes = strlen(folders[i]);
        if (!strncmp(path, folders[i], bytes) && cmd_parse_int(path + bytes, &n) && n >= 0 &&
            n <= INT_MAX)
            return (int)n;
    }
    return -1;
}

bool cmd_output_direct(const char *path)
{
    struct stat st;
    if (descriptor(path) >= 0) return true;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

qkv_status cmd_output_stdout(const char **path, qkv_error *err)
{
    if (!*path || strcmp(*path, "-") != 0) return QKV_OK;
    if (isatty(1))
        return cmd_error(
            err, QKV_ERR_USAGE, "standard output",
            "standard output is a terminal, expected a file or a pipe for binary output");
    *path = "/dev/stdout";
    return QKV_OK;
}

bool cmd_is_stdout(const char *path)
{
    return !strcmp(path, "/dev/stdout") || !strcmp(path, "/dev/fd/1");
}

bool cmd_ends_with(const char *path, const char *ending)
{
    const size_t n = strlen(path), m = strlen(ending);
    return n >= m && !strcmp(path + n - m, ending);
}

qkv_status cmd_output_check(const char *path, const char *const *inputs, int count, qkv_error *err)
{
    static const char *checked[8]; // the outputs of this command that were already checked
    static int outputs;
    struct stat st;
    char temp[CMD_PATH];
    if (!temp_name(temp, path))
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "the name of the output file is too long, expected less than %d bytes",
                         CMD_PATH);
    for (int i = 0; i < outputs; i++)
        if (!strcmp(checked[i], path))
            return cmd_error(err, QKV_ERR_USAGE, path,
                             "two outputs have this name, expected different names");
    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return cmd_error(err, QKV_ERR_IO, path, "the output is a directory, expected a file");
        for (int i = 0; i < count; i++)
            if (inputs[i] && strcmp(inputs[i], "-") != 0 && same_file(&st, inputs[i]))
                return cmd_error(
                    err, QKV_ERR_USAGE, path,
                    "this file is an input and an output at once, expected another output file");
        // an output that is written directly has no temporary file
        if (cmd_output_direct(path)) {
            if (outputs < (int)(sizeof checked / sizeof *checked)) checked[outputs++] = path;
            return QKV_OK;
        }
        if (!common.force)
            return cmd_error(
                err, QKV_ERR_USAGE, path,
                "the output file exists already, expected a new name, or --force to replace it");
    }
    // Create the file to find out whether the folder is writable: its permissions do not tell if
    // the file system is mounted read-only.
    const int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return cmd_error(err, QKV_ERR_IO, path, "cannot create: %s", strerror(errno));
    close(fd);
    unlink(temp);
    cmd_temps_add(temp);
    if (outputs < (int)(sizeof checked / sizeof *checked)) checked[outputs++] = path;
    return QKV_OK;
}

// Opens an output that is written directly. An open descriptor is written at its current position.
// A pipe without a reader is an error at once.
static qkv_status open_direct(struct cmd_file *f, const char *path, qkv_error *err)
{
    const int n = descriptor(path);
    const int fd =
        n >= 0 ? fcntl(n, F_DUPFD_CLOEXEC, 0) : open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    const int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);
    if (flags >= 0 && (n >= 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0))
        f->to = fdopen(fd, "wb");
    if (!f->to) {
        const int why = errno;
        if (fd >= 0) close(fd);
        return cmd_error(err, QKV_ERR_IO, path, "cannot open: %s", strerror(why));
    }
    f->path = strcpy(cmd_alloc(strlen(path) + 1, 1), path);
    return QKV_OK;
}

qkv_status cmd_file_open(struct cmd_file *f, const char *path, qkv_error *err)
{
    char temp[CMD_PATH], target[CMD_PATH];
    *f = (struct cmd_file){ NULL, NULL, NULL };
    if (cmd_output_direct(path)) return open_direct(f, path, err);
    if (!temp_name(temp, path))
        return cmd_error(err, QKV_ERR_USAGE, NULL, "the name of the output file is too long");
    follow(target, path);
    f->to = fopen(temp, "w+be");
    if (!f->to) return cmd_error(err, QKV_ERR_IO, path, "cannot create: %s", strerror(errno));
    f->path = strcpy(cmd_alloc(strlen(target) + 1, 1), target);
    f->temp = strcpy(cmd_alloc(strlen(temp) + 1, 1), temp);
    return QKV_OK;
}

qkv_status cmd_file_commit(struct cmd_file *f, qkv_error *err)
{
    qkv_status status = QKV_OK;
    errno = 0;
    if (fflush(f->to) != 0 || ferror(f->to) ||
        (f->temp && fsync(fileno(f->to)) != 0 && errno != EINVAL && errno != EROFS))
        status = cmd_error(err, QKV_ERR_IO, f->path, "cannot write: %s", strerror(errno));
    if (fclose(f->to) != 0 && !status)
        status = cmd_error(err, QKV_ERR_IO, f->path, "cannot close: %s", strerror(errno));
    f->to = NULL;
    if (!status && f->temp && rename(f->temp, f->path) != 0)
        status = cmd_error(err, QKV_ERR_IO, f->path,
                           "cannot rename the temporary file to this name: %s", strerror(errno));
    if (!status) {
        free(f->temp);
        f->temp = NULL;
    }
    cmd_file_abort(f);
    return status;
}

void cmd_file_abort(struct cmd_file *f)
{
    if (f->to) fclose(f->to);
    if (f->temp) unlink(f->temp);
    free(f->path);
    free(f->temp);
    *f = (struct cmd_file){ NULL, NULL, NULL };
}

// ---- lines -------------------------------------------------------------------------------------
// Returns true if the file is a device without an end, such as /dev/zero: a character device that
// is readable and no terminal.
static bool endless(FILE *from, const struct stat *st)
{
    return S_ISCHR(st->st_mode) && !isatty(fileno(from)) && getc(from) != EOF;
}

qkv_status cmd_lines_open(struct cmd_lines *l, const char *path, qkv_error *err)
{
    const bool standard = !strcmp(path, "-");
    *l = (struct cmd_lines){ .path = standard ? "standard input" : path, .size = -1 };
    l->from = standard ? stdin : fopen(path, "rbe");
    if (!l->from) return cmd_error(err, QKV_ERR_IO, path, "cannot open: %s", strerror(errno));
    struct stat st;
    const char *wrong = NULL;
    if (fstat(fileno(l->from), &st) == 0) {
        if (S_ISDIR(st.st_mode)) wrong = "the input is a directory, expected a text file";
        if (endless(l->from, &st))
            wrong = "the input is a device without an end of file, expected a text file";
        if (S_ISREG(st.st_mode) && !standard) l->size = st.st_size;
    }
    if (!wrong) return QKV_OK;
    const qkv_status status = cmd_error(err, QKV_ERR_IO, l->path, "%s", wrong);
    cmd_lines_close(l);
    return status;
}

qkv_status cmd_lines_next(struct cmd_lines *l, int64_t *bytes, qkv_error *err)
{
    errno = 0;
    ssize_t n = getline(&l->line, &l->capacity, l->from);
    *bytes = -1;
    if (n < 0) {
        if (cmd_interrupted()) return cmd_error(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
        if (errno == ENOMEM)
            return cmd_error(err, QKV_ERR_LIMIT, l->path, "out of memory while reading line %lld",
                             (long long)l->number + 1);
        if (ferror(l->from))
            return cmd_error(err, QKV_ERR_IO, l->path, "cannot read: %s", strerror(errno));
        return QKV_OK;
    }
    l->number++;
    l->done += n;
    if (n && l->line[n - 1] == '\n') l->line[--n] = 0;
    if (n && l->line[n - 1] == '\r') l->line[--n] = 0;
    *bytes = n;
    return QKV_OK;
}

void cmd_lines_close(struct cmd_lines *l)
{
    if (l->from && l->from != stdin) fclose(l->from);
    free(l->line);
    *l = (struct cmd_lines){ .size = -1 };
}

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

qkv_status cmd_read_file(char **text, size_t *bytes, const char *path, qkv_error *err)
{
    struct cmd_lines l;
    size_t capacity = 1 << 16;
    // cmd_lines_open() refuses folders and endless devices
    qkv_status status = cmd_lines_open(&l, path, err);
    *text = NULL;
    *bytes = 0;
    if (status) return status;
    if (l.size > 0) capacity = (size_t)l.size + 2;
    *text = cmd_grow(NULL, capacity, 1);
    errno = 0;
    for (size_t n; (n = fread(*text + *bytes, 1, capacity - *bytes - 1, l.from)) > 0;) {
        *bytes += n;
        if (*bytes + 1 < capacity) continue;
        capacity *= 2;
        *text = cmd_grow(*text, capacity, 1);
    }
    if (ferror(l.from))
        status = cmd_error(err, QKV_ERR_IO, l.path, "cannot read: %s", strerror(errno));
    (*text)[*bytes] = 0;
    cmd_lines_close(&l);
    return status;
}

qkv_status cmd_texts_read(struct cmd_texts *t, int argc, char **argv, const char *file,
                          qkv_error *err)
{
    struct cmd_lines lines = { .size = -1 };
    qkv_status status = QKV_OK;
    *t = (struct cmd_texts){ NULL, NULL, 0, 0 };
    for (int i = 0; i < argc; i++) cmd_texts_add(t, argv[i], strlen(argv[i]));
    if (!file) return QKV_OK;
    status = cmd_lines_open(&lines, file, err);
    for (int64_t bytes = 0;
         !status && !(status = cmd_lines_next(&lines, &bytes, err)) && bytes >= 0;)
        cmd_texts_add(t, lines.line, (size_t)bytes);
    cmd_lines_close(&lines);
    if (status) cmd_texts_free(t);
    return status;
}

void cmd_texts_free(struct cmd_texts *t)
{
    for (int64_t i = 0; i < t->count; i++) free(t->text[i]);
    free(t->text);
    free(t->bytes);
    *t = (struct cmd_texts){ NULL, NULL, 0, 0 };
}
