// SPDX-License-Identifier: MIT
// outputs.c: checks output files before a command computes anything, compares them with its inputs,
// and writes them through the library, so that no partial file remains.
#include "frame/cmd.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- names -------------------------------------------------------------------------------------
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

// ---- inputs and outputs ------------------------------------------------------------------------
enum { OUTPUTS = 16 };
static struct {
    const char **path;
    int64_t count;
} inputs;
static struct {
    const char *path;
    bool checked; // cmd_output_check() has accepted it
    bool there;   // the file existed before the command
    dev_t device; // of the file that existed
    ino_t file;
} outputs[OUTPUTS];
static int output_count;

static bool same_file(const struct stat *a, const char *path)
{
    struct stat b;
    return stat(path, &b) == 0 && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

// Returns true if a file of this name in a model folder is read with the model.
static bool is_of_model(const char *name)
{
    static const char *const endings[] = { ".json", ".txt", ".model", ".spm", ".bin" };
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (cmd_ends_with(name, endings[i])) return true;
    return !strncmp(name, "model", 5) && cmd_ends_with(name, ".safetensors");
}

// Returns true if the file is one of the files of a model in the folder `dir` or in its folders.
static bool is_in_folder(const struct stat *st, const char *dir, int depth)
{
    char path[CMD_PATH];
    bool found = false;
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && !found && (e = readdir(d)) != NULL;) {
        struct stat at;
        const int n = snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (e->d_name[0] == '.' || n < 0 || n >= CMD_PATH || stat(path, &at) != 0) continue;
        if (S_ISDIR(at.st_mode))
            found = depth > 0 && is_in_folder(st, path, depth - 1);
        else
            found = is_of_model(e->d_name) && same_file(st, path);
    }
    if (d) closedir(d);
    return found;
}

// Returns true if the input is in the folder `dir`.
static bool is_below(const char *input, const char *dir)
{
    char *real = realpath(input, NULL), *above = realpath(dir, NULL);
    const size_t n = above ? strlen(above) : 0;
    const bool below = real && above && !strncmp(real, above, n) && real[n] == '/';
    free(real);
    free(above);
    return below;
}

// Fails if the output is an input: the same file, a file of a model folder, the same folder, or a
// folder that contains the input.
static qkv_status check_apart(const char *output, const char *input, qkv_error *err)
{
    struct stat out, in;
    const bool piped = !strcmp(input, "-");
    if (stat(output, &out) != 0 || (piped ? fstat(0, &in) : stat(input, &in)) != 0) return QKV_OK;
    if (piped && !S_ISREG(in.st_mode)) return QKV_OK;
    const bool folder = S_ISDIR(out.st_mode);
    if ((out.st_dev == in.st_dev && out.st_ino == in.st_ino) || (folder && is_below(input, output)))
        return cmd_error(err, QKV_ERR_USAGE, output,
                         "this %s is an input and an output at once, expected another output %s",
                         folder ? "folder" : "file", folder ? "folder" : "file");
    if (S_ISREG(out.st_mode) && S_ISDIR(in.st_mode) && is_in_folder(&out, input, 2))
        return cmd_error(err, QKV_ERR_USAGE, output,
                         "this file is an input and an output at once, because it is one of %s, "
                         "expected another output file",
                         input);
    return QKV_OK;
}

qkv_status cmd_input_add(const char *path, qkv_error *err)
{
    char *copy = strcpy(cmd_alloc(strlen(path) + 1, 1), path);
    inputs.path = cmd_grow(inputs.path, (size_t)inputs.count + 1, sizeof *inputs.path);
    inputs.path[inputs.count++] = copy;
    qkv_status status = QKV_OK;
    for (int i = 0; i < output_count && !status; i++)
        status = check_apart(outputs[i].path, path, err);
    return status;
}

// Returns the entry of this output in the table, which is added if it is new.
static int entry_of(const char *path)
{
    for (int i = 0; i < output_count; i++)
        if (!strcmp(outputs[i].path, path)) return i;
    if (output_count == OUTPUTS) return OUTPUTS - 1; // no command has as many
    outputs[output_count].path = strcpy(cmd_alloc(strlen(path) + 1, 1), path);
    return output_count++;
}

qkv_status cmd_output_add(const char *path, qkv_error *err)
{
    entry_of(path);
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < inputs.count && !status; i++)
        status = check_apart(path, inputs.path[i], err);
    return status;
}

qkv_status cmd_output_check(const char *path, qkv_error *err)
{
    struct stat st;
    qkv_writer *trial;
    qkv_status status = cmd_output_add(path, err);
    if (status) return status;
    const int n = entry_of(path);
    if (outputs[n].checked)
        return cmd_error(err, QKV_ERR_USAGE, path,
                         "two outputs have this name, expected different names");
    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return cmd_error(err, QKV_ERR_IO, path, "the output is a directory, expected a file");
        outputs[n].there = true;
        outputs[n].device = st.st_dev;
        outputs[n].file = st.st_ino;
        outputs[n].checked = cmd_output_direct(path);
        if (outputs[n].checked) return QKV_OK; // it is written directly, without a temporary file
        if (!common.force)
            return cmd_error(
                err, QKV_ERR_USAGE, path,
                "the output file exists already, expected a new name, or --force to replace it");
    }
    if (cmd_output_direct(path)) return QKV_OK;
    // Create the file to find out whether the folder is writable: its permissions do not tell if
    // the file system is mounted read-only.
    status = qkv_writer_open(&trial, path, true, err);
    if (!status) qkv_writer_abort(trial);
    outputs[n].checked = !status;
    return status;
}

void cmd_outputs_note(void)
{
    for (int i = 0; i < output_count; i++) {
        struct stat st;
        if (!outputs[i].checked || stat(outputs[i].path, &st) != 0 || !S_ISREG(st.st_mode))
            continue;
        // a file that replaces another is another file
        if (!outputs[i].there || outputs[i].device != st.st_dev || outputs[i].file != st.st_ino)
            cmd_note("%s is complete: it was written before this error", outputs[i].path);
    }
}

// ---- writing -----------------------------------------------------------------------------------
qkv_status cmd_file_open(struct cmd_file *f, const char *path, qkv_error *err)
{
    *f = (struct cmd_file){ NULL, NULL, NULL };
    const qkv_status status = qkv_writer_open(&f->writer, path, common.force, err);
    if (status) return status;
    const int fd = fcntl(qkv_writer_descriptor(f->writer), F_DUPFD_CLOEXEC, 0);
    if (fd >= 0) f->to = fdopen(fd, cmd_output_direct(path) ? "wb" : "w+b");
    if (f->to) {
        f->path = strcpy(cmd_alloc(strlen(path) + 1, 1), path);
        return QKV_OK;
    }
    const int why = errno;
    if (fd >= 0) close(fd);
    cmd_file_abort(f);
    return cmd_error(err, cmd_io_status(why), path, "cannot open: %s", strerror(why));
}

qkv_status cmd_file_finish(struct cmd_file *f, qkv_error *err)
{
    qkv_status status = cmd_written(f->to, f->path, err);
    if (fclose(f->to) != 0 && !status)
        status = cmd_error(err, cmd_io_status(errno), f->path, "cannot close: %s", strerror(errno));
    f->to = NULL;
    return status;
}

qkv_status cmd_file_commit(struct cmd_file *f, qkv_error *err)
{
    qkv_status status = cmd_file_finish(f, err);
    if (!status) {
        status = qkv_writer_commit(f->writer, err);
        f->writer = NULL;
    }
    cmd_file_abort(f);
    return status;
}

void cmd_file_abort(struct cmd_file *f)
{
    if (f->to) fclose(f->to);
    qkv_writer_abort(f->writer);
    free(f->path);
    *f = (struct cmd_file){ NULL, NULL, NULL };
}
