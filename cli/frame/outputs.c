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
    char **path;
    int64_t count;
} inputs;
static struct {
    char *path;
    bool checked; // cmd_output_check() has accepted it
    bool there;   // the file existed before the command
    bool whole;   // a folder that the command has completed
    char *place;  // the path without links, or NULL
    dev_t device; // of the file that existed
    ino_t file;
} outputs[OUTPUTS];
static int output_count;

static bool same_file(const struct stat *a, const char *path)
{
    struct stat b;
    return stat(path, &b) == 0 && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

// Returns true if a file of this name in a model folder is read with the model.  all: every
// safetensors file is.
static bool is_of_model(const char *name, bool all)
{
    static const char *const endings[] = { ".json", ".txt", ".model", ".spm", ".bin" };
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (cmd_ends_with(name, endings[i])) return true;
    return (all || !strncmp(name, "model", 5)) && cmd_ends_with(name, ".safetensors");
}

// Returns true if a folder contains the index of shards, or the manifest of a checkpoint: these
// name safetensors files, and their names are free.
static bool names_files(const char *dir)
{
    bool found = false;
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && !found && (e = readdir(d)) != NULL;)
        found = cmd_ends_with(e->d_name, ".safetensors.index.json") ||
                !strcmp(e->d_name, "manifest.json");
    if (d) closedir(d);
    return found;
}

// Returns true if the file is one of the files of a model in the folder `dir` or in its folders.
// all: the folder above names safetensors files.
static bool is_in_folder(const struct stat *st, const char *dir, int depth, bool all)
{
    char path[CMD_PATH];
    bool found = false;
    all = all || names_files(dir);
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && !found && (e = readdir(d)) != NULL;) {
        struct stat at;
        const int n = snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (e->d_name[0] == '.' || n < 0 || n >= CMD_PATH || stat(path, &at) != 0) continue;
        if (S_ISDIR(at.st_mode))
            found = depth > 0 && is_in_folder(st, path, depth - 1, all);
        else
            found = is_of_model(e->d_name, all) && same_file(st, path);
    }
    if (d) closedir(d);
    return found;
}

// Returns true if the file is `name` in the folder of the input.
static bool is_next_to(const struct stat *st, const char *input, const char *name)
{
    char path[CMD_PATH];
    const char *slash = strrchr(input, '/');
    const int above = slash ? (int)(slash - input) + 1 : 0;
    const int n = snprintf(path, sizeof path, "%.*s%s", above, input, name);
    return n > 0 && n < CMD_PATH && same_file(st, path);
}

// Returns true if the input is FILE.bin of llama2.c and the file is one of the files of a tokenizer
// in its folder, which qkv_tokenizer_open() reads.
static bool is_sibling(const struct stat *st, const char *input)
{
    const char *name, *second;
    if (!cmd_ends_with(input, ".bin")) return false;
    bool is = is_next_to(st, input, "tokenizer_config.json");
    for (int i = 0; !is && (name = qkv_tokenizer_file(i, &second)) != NULL; i++)
        is = is_next_to(st, input, name) || (second && is_next_to(st, input, second));
    return is;
}

// Returns true if the input is in the folder `dir`, which may be the root.
static bool is_below(const char *input, const char *dir)
{
    char *real = realpath(input, NULL), *above = realpath(dir, NULL);
    const size_t n = above ? strlen(above) : 0;
    const bool below =
        real && above && n && !strncmp(real, above, n) && (real[n] == '/' || above[n - 1] == '/');
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
    if (S_ISREG(out.st_mode) &&
        (S_ISDIR(in.st_mode) ? is_in_folder(&out, input, 2, false) : is_sibling(&out, input)))
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

// Returns the path of an output without links, which the caller frees: the file that is replaced,
// or the name of a new file in its folder.  NULL: there is no such folder.
static char *place_of(const char *path)
{
    char above[CMD_PATH], place[CMD_PATH];
    char *real = realpath(path, NULL);
    if (real) return real;
    const char *slash = strrchr(path, '/');
    const int n = snprintf(above, sizeof above, "%.*s", slash ? (int)(slash - path) + 1 : 1,
                           slash ? path : ".");
    if (n >= CMD_PATH || (real = realpath(above, NULL)) == NULL) return NULL;
    const int m = snprintf(place, sizeof place, "%s/%s", real, slash ? slash + 1 : path);
    free(real);
    return m < CMD_PATH ? strcpy(cmd_alloc((size_t)m + 1, 1), place) : NULL;
}

// Returns true if two places are one: the same name in the same folder, by device and inode.
static bool same_place(const char *a, const char *b)
{
    char above[CMD_PATH], other[CMD_PATH];
    struct stat st;
    const char *x = strrchr(a, '/'), *y = strrchr(b, '/');
    if (strcmp(x, y) != 0) return false;
    snprintf(above, sizeof above, "%.*s", (int)(x - a) + 1, a);
    snprintf(other, sizeof other, "%.*s", (int)(y - b) + 1, b);
    return stat(above, &st) == 0 && same_file(&st, other);
}

// Fails if another output, which cmd_output_check() has accepted, is the same file.
static qkv_status check_places(int n, qkv_error *err)
{
    const char *path = outputs[n].path;
    if (!outputs[n].place) outputs[n].place = place_of(path);
    for (int i = 0; i < output_count && outputs[n].place; i++)
        if (i != n && outputs[i].checked && outputs[i].place &&
            same_place(outputs[i].place, outputs[n].place))
            return cmd_error(err, QKV_ERR_USAGE, path,
                             "this file and %s are one file, expected different outputs",
                             outputs[i].path);
    return QKV_OK;
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
    }
    if (cmd_output_direct(path)) return QKV_OK;
    if (lstat(path, &st) == 0 && !common.force) // also a link to nothing
        return cmd_error(
            err, QKV_ERR_USAGE, path,
            "the output file exists already, expected a new name, or --force to replace it");
    status = check_places(n, err);
    if (status) return status;
    // Create the file to find out whether the folder is writable: its permissions do not tell if
    // the file system is mounted read-only.
    status = qkv_writer_open(&trial, path, true, err);
    if (!status) qkv_writer_abort(trial);
    outputs[n].checked = !status;
    return status;
}

void cmd_output_complete(const char *folder)
{
    outputs[entry_of(folder)].whole = true;
}

void cmd_outputs_note(void)
{
    for (int i = 0; i < output_count; i++) {
        struct stat st;
        bool whole = outputs[i].whole;
        // a file that replaces another is another file
        if (outputs[i].checked && stat(outputs[i].path, &st) == 0 && S_ISREG(st.st_mode))
            whole |=
                !outputs[i].there || outputs[i].device != st.st_dev || outputs[i].file != st.st_ino;
        if (whole) cmd_note("%s is complete: it was written before this error", outputs[i].path);
    }
}

void cmd_paths_free(void)
{
    for (int64_t i = 0; i < inputs.count; i++) free(inputs.path[i]);
    free(inputs.path);
    inputs.path = NULL;
    inputs.count = 0;
    for (; output_count > 0; output_count--) {
        free(outputs[output_count - 1].path);
        free(outputs[output_count - 1].place);
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
