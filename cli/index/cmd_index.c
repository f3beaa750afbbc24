// SPDX-License-Identifier: MIT
// cmd_index.c: implements `qkv index`: embeds the texts of files and writes them with their vectors
// to one file, which `qkv search` reads.
#include "frame/tokens.h"
#include "index/index.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *const splits[] = { "lines", "sentences", NULL };
static const char *const types[] = { "f32", "bf16", "int8", NULL };

static struct {
    const char *output, *prompt, *field;
    bool update, truncate, strict, hnsw;
    int64_t chunk, overlap;
    int split, stored; // split: -1: by the kind of the operand
} o = { .field = "text", .split = -1, .chunk = 128 };

static char graph_path[CMD_PATH];

static const struct opt opts[] = {
    OPT_OUTPUT('o', "output", &o.output, "FILE.qkvi", "the index; a name that ends with .qkvi"),
    OPT_FLAG(0, "update", &o.update,
             "update the index, if it exists: files with the same bytes keep their vectors, others "
             "are read again, and files that are no longer given are removed"),
    OPT_CHOICE(0, "vectors", &o.stored, types, "TYPE",
               "how vectors are stored: f32 (default), bf16 (half the size) or int8 (a quarter)"),
    OPT_CHOICE(0, "split", &o.split, splits, "KIND",
               "what a passage is: each line, or consecutive sentences of up to --chunk tokens "
               "(default: lines of files, sentences of the files in folders)"),
    OPT_INT(0, "chunk", &o.chunk, 1, 1 << 20, "N",
            "most tokens of a passage of sentences (default: 128, but at most the model's length)"),
    OPT_INT(0, "overlap", &o.overlap, 0, 1 << 20, "N",
            "most tokens of the last sentences of a passage with which the next one begins "
            "(default: 0)"),
    OPT_TEXT(0, "field", &o.field, "NAME",
             "member of a JSON line that is the text (default: text); \"id\" is kept as the id, "
             "the other members as metadata"),
    OPT_TEXT(0, "prompt", &o.prompt, "NAME",
             "put this prompt of the model's sentence-transformers settings before each passage "
             "(default: document, passage or corpus, if the model has one of them, otherwise "
             "default_prompt_name)"),
    OPT_FLAG(0, "hnsw", &o.hnsw,
             "also build a graph of near vectors (HNSW) for qkv search --hnsw, in FILE.qkvi.hnsw; "
             "--update builds the graph of an index that has one again"),
    OPT_FLAG(0, "truncate", &o.truncate,
             "truncate passages that exceed the model's length, instead of failing"),
    OPT_FLAG(0, "strict", &o.strict, "fail on invalid UTF-8, instead of replacing it by U+FFFD"),
    OPT_END
};

// Checks the options before any file is read.
static qkv_status check_options(qkv_error *err)
{
    if (!o.output || !cmd_ends_with(o.output, ".qkvi"))
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "expected an output file, -o FILE.qkvi, found %s%.200s",
                         o.output ? "-o " : "none", o.output ? o.output : "");
    if (o.overlap >= o.chunk)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--overlap: expected less tokens than a passage has, --chunk %lld, found "
                         "%lld",
                         (long long)o.chunk, (long long)o.overlap);
    if (cmd_output_direct(o.output))
        return cmd_error(err, QKV_ERR_USAGE, o.output,
                         "the output is a pipe or a device, expected a file");
    common.force = common.force || o.update; // --update replaces the index that it has read
    if (index_graph_path(graph_path, o.output, err)) return err->status;
    struct stat st;
    o.hnsw = o.hnsw || (o.update && stat(graph_path, &st) == 0);
    if (o.hnsw &&
        (!index_graph_engine("qkv index --hnsw", err) || cmd_output_check(graph_path, err)))
        return err->status;
    if (!common.force && stat(o.output, &st) == 0 && S_ISREG(st.st_mode))
        return cmd_error(err, QKV_ERR_USAGE, o.output,
                         "the index exists already, expected a new name, --update to embed what "
                         "changed, or --force to replace it");
    return cmd_output_check(o.output, err);
}

static qkv_status fail_busy(qkv_error *err)
{
    return cmd_error(err, QKV_ERR_IO, o.output,
                     "another qkv index writes this index; run this command after it");
}

// Locks the index that will be replaced until the process ends, so that two commands do not both
// replace the same index: the changes of one would be lost.  build() locks the new index.
static qkv_status lock_old(bool *there, qkv_error *err)
{
    struct stat now, locked;
    const int fd = open(o.output, O_RDONLY | O_CLOEXEC);
    *there = fd >= 0;
    if (fd < 0 && errno == ENOENT) return QKV_OK;
    if (fd < 0)
        return cmd_error(err, cmd_io_status(errno), o.output, "cannot open: %s", strerror(errno));
    const bool free = flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if (free && stat(o.output, &now) == 0 && fstat(fd, &locked) == 0 &&
        now.st_ino == locked.st_ino && now.st_dev == locked.st_dev)
        return QKV_OK; // fd stays open with the lock
    close(fd);
    return fail_busy(err);
}

// Returns true if a process has locked a file.
static bool is_locked(int folder, const char *name)
{
    const int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    return locked;
}

// Locks the folder of the output, and fails if another command writes an index of this name for the
// first time: its temporary file is locked.  The caller closes *folder after its own temporary file
// was made.  Continues without a lock if the folder cannot be read, if its file system has none, or
// if another program keeps one for more than a second.
static qkv_status lock_new(DIR **folder, qkv_error *err)
{
    char above[CMD_PATH];
    const char *slash = strrchr(o.output, '/'), *base = slash ? slash + 1 : o.output;
    snprintf(above, sizeof above, "%.*s", slash ? (int)(slash - o.output) + 1 : 1,
             slash ? o.output : ".");
    *folder = opendir(above);
    if (!*folder && errno == EACCES) return QKV_OK;
    if (!*folder)
        return cmd_error(err, cmd_io_status(errno), o.output, "cannot open its folder: %s",
                         strerror(errno));
    for (int i = 0; i < 50; i++) {
        if (flock(dirfd(*folder), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) break;
        nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
    }
    errno = 0;
    for (const struct dirent *e; (e = readdir(*folder)) != NULL; errno = 0)
        if (qkv_temporary_is_of(e->d_name, base) && is_locked(dirfd(*folder), e->d_name))
            return fail_busy(err);
    if (errno)
        return cmd_error(err, cmd_io_status(errno), o.output, "cannot read its folder: %s",
                         strerror(errno));
    return QKV_OK;
}

// Describes what passages and vectors depend on.
static qkv_status describe(struct index_settings *s, const qkv_embedder *e, const char *dir,
                           qkv_error *err)
{
    char digest[65], ablated[1024];
    char *folder;
    qkv_status status = qkv_embedder_digest(e, digest, err);
    if (!status) status = index_model_folder(&folder, dir, err);
    if (status) return status;
    char *prompt = cmd_valid_text(qkv_embedder_prompt(e)), *field = cmd_valid_text(o.field);
    index_setting(s, INDEX_MODEL, "%s", digest);
    index_setting(s, INDEX_PRECISION, "%s", qkv_precision_name(common.precision));
    index_setting(s, INDEX_ABLATE, "%s", cmd_ablated(ablated, sizeof ablated));
    index_setting(s, INDEX_PROMPT, "%s", prompt);
    index_setting(s, INDEX_LENGTH, "%lld", (long long)qkv_embedder_max_length(e));
    index_setting(s, INDEX_WIDTH, "%lld", (long long)qkv_embedder_width(e));
    index_setting(s, INDEX_STORED, "%s", types[o.stored]);
    index_setting(s, INDEX_SPLIT, "%s", o.split < 0 ? "auto" : splits[o.split]);
    index_setting(s, INDEX_CHUNK, "%lld", (long long)o.chunk);
    index_setting(s, INDEX_OVERLAP, "%lld", (long long)o.overlap);
    index_setting(s, INDEX_FIELD, "%s", field);
    index_setting(s, INDEX_FOLDER, "%s", folder);
    free(prompt);
    free(folder);
    free(field);
    return QKV_OK;
}

// Sets the size of chunks: at most what the model reads with its special tokens and the prompt.
static qkv_status set_chunks(struct chunker *c, const qkv_embedder *e, qkv_error *err)
{
    qkv_encoding empty = { 0 };
    const char *prompt = qkv_embedder_prompt(e);
    c->tokenizer = qkv_embedder_tokenizer(e);
    const qkv_status status =
        qkv_tokenizer_encode(c->tokenizer, &empty, prompt, strlen(prompt), NULL, 0, NULL, err);
    const int64_t most = qkv_embedder_max_length(e) - empty.count;
    qkv_encoding_free(&empty);
    if (status) return status;
    c->size = o.chunk < most ? o.chunk : most < 1 ? 1 : most;
    c->overlap = o.overlap < c->size ? o.overlap : c->size - 1;
    return QKV_OK;
}

static void print_notes(const struct index_build *b)
{
    if (b->count.skipped)
        cmd_note("files without text (they contain a byte 0) were skipped: %lld, the first is %s",
                 (long long)b->count.skipped, b->skipped_file);
    if (b->report.cut_texts)
        cmd_note("passages that were truncated to %lld tokens: %lld; tokens that were dropped in "
                 "total: %lld",
                 (long long)qkv_embedder_max_length(b->embedder), (long long)b->report.cut_texts,
                 (long long)b->report.cut_tokens);
    if (b->report.replaced)
        cmd_note(
            "passages with invalid UTF-8, which was replaced by U+FFFD: %lld, the first in %s, "
            "line %lld",
            (long long)b->report.replaced, b->replaced_file, (long long)b->replaced_line);
}

// Builds the graph of the index that is now complete; without --hnsw removes the graph of the index
// that was replaced.
struct graph_result {
    bool kept;
    int64_t bytes;
};
static qkv_status finish_graph(struct graph_result *r, qkv_error *err)
{
    if (o.hnsw) return index_graph_make(o.output, "qkv index --hnsw", &r->kept, &r->bytes, err);
    // a name that is too long for a graph has none
    if (unlink(graph_path) != 0 && errno != ENOENT && errno != ENAMETOOLONG)
        return cmd_error(err, cmd_io_status(errno), graph_path,
                         "the graph of the replaced index cannot be removed: %s", strerror(errno));
    return QKV_OK;
}

static void print_result(const struct index_build *b, int64_t files, const struct graph_result *r)
{
    if (common.json) {
        fputs("{\"index\":", stdout);
        cmd_json_text(stdout, o.output, strlen(o.output));
        printf(
            ",\"files\":%lld,\"passages\":%lld,\"embedded\":%lld,\"added\":%lld,\"changed\":%lld,"
            "\"unchanged\":%lld,\"removed\":%lld,\"skipped\":%lld,\"width\":%lld,\"vectors\":"
            "\"%s\",\"bytes\":%lld",
            (long long)files, (long long)b->passages, (long long)b->embedded,
            (long long)b->count.added, (long long)b->count.changed, (long long)b->count.unchanged,
            (long long)b->count.removed, (long long)b->count.skipped,
            (long long)qkv_embedder_width(b->embedder), types[o.stored], (long long)b->bytes);
        if (o.hnsw)
            printf(",\"graph\":{\"bytes\":%lld,\"kept\":%s}", (long long)r->bytes,
                   r->kept ? "true" : "false");
        puts("}");
        return;
    }
    cmd_print_name(stdout, o.output);
    printf(": %lld passage%s of %lld file%s, %lld x %s, %.1f MB\n", (long long)b->passages,
           b->passages == 1 ? "" : "s", (long long)files, files == 1 ? "" : "s",
           (long long)qkv_embedder_width(b->embedder), types[o.stored], (double)b->bytes / 1e6);
    if (o.hnsw) {
        cmd_print_name(stdout, graph_path);
        printf(": graph, %.1f MB%s\n", (double)r->bytes / 1e6, r->kept ? ", unchanged" : "");
    }
    if (b->old)
        printf("files added: %lld, changed: %lld, unchanged: %lld, removed: %lld; passages "
               "embedded: %lld\n",
               (long long)b->count.added, (long long)b->count.changed,
               (long long)b->count.unchanged, (long long)b->count.removed, (long long)b->embedded);
}

// there: lock_old() has locked an index.
static qkv_status build(struct index_build *b, const struct index_files *files, bool there,
                        qkv_error *err)
{
    qkv_writer *w = NULL;
    DIR *folder = NULL;
    qkv_status status = lock_new(&folder, err);
    if (!status && !there) { // it may have come into being, with other settings
        status = lock_old(&there, err);
        if (!status && there) status = fail_busy(err);
    }
    if (!status) status = qkv_writer_open(&w, o.output, common.force, err);
    if (folder) closedir(folder);
    if (status) return status;
    b->fd = qkv_writer_descriptor(w);
    // A second descriptor keeps the lock of the file until the process ends: after the commit, the
    // graph of the index is built.
    if (fcntl(b->fd, F_DUPFD_CLOEXEC, 0) < 0)
        status = cmd_error(err, cmd_io_status(errno), o.output, "%s", strerror(errno));
    if (!status) status = index_build(b, files, err);
    if (status)
        qkv_writer_abort(w);
    else
        status = qkv_writer_commit(w, err);
    return status;
}

static int run_index(int argc, char **argv)
{
    static const qkv_dtype stored[] = { QKV_F32, QKV_BF16, QKV_I8 };
    qkv_error err = { 0 };
    qkv_embedder *e = NULL;
    struct index old = { .fd = -1 };
    struct index_files files = { NULL, 0 };
    struct index_settings settings = { { NULL } };
    struct index_build b = { .path = o.output,
                             .settings = &settings,
                             .split = (enum index_split)(o.split + 1),
                             .chunker = { .tokenizer = NULL },
                             .field = o.field,
                             .strict = o.strict,
                             .stored = stored[o.stored] };
    char dir[CMD_PATH];
    bool there = false;
    if (check_options(&err) || !(b.engine = index_engine("qkv index", &err)) ||
        lock_old(&there, &err) ||
        (o.update && there && index_open(&old, o.output, "qkv index", &err)) ||
        index_files_find(&files, argc, argv, &err) || cmd_model_find(dir, &err))
        goto done;
    // The times of the model's files are read before the files: a file that changes meanwhile has
    // another time when the index is searched, and the digest is then computed again.
    char *times;
    const qkv_status listed = index_model_files(&times, dir, &err);
    index_setting(&settings, INDEX_FILES, "%s", times);
    free(times);
    if (listed) goto done;
    struct qkv_embedder_options how = { .model = cmd_model_options(),
                                        .truncate = o.truncate,
                                        .prompt = o.prompt,
                                        .progress = cmd_progress_begin("passages") };
    if ((o.prompt ? qkv_embedder_open(&e, dir, &how, &err)
                  : index_embedder(&e, dir, &how, index_document_prompts, &err)) ||
        describe(&settings, e, dir, &err) || set_chunks(&b.chunker, e, &err))
        goto done;
    b.embedder = e;
    b.old = old.engine ? &old : NULL;
    if (b.old && index_settings_same(&old.settings, &settings, o.output, &err)) goto done;
    if (!build(&b, &files, there, &err)) {
        struct graph_result graph = { .kept = false };
        cmd_progress_end();
        print_notes(&b);
        if (!finish_graph(&graph, &err)) print_result(&b, files.count, &graph);
    }
done:
    cmd_progress_end();
    chunker_free(&b.chunker);
    free(b.replaced_file);
    free(b.skipped_file);
    index_files_free(&files);
    index_settings_free(&settings);
    index_close(&old);
    qkv_embedder_close(e);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_index = {
    .name = "index",
    .brief = "make or update an index of texts, which qkv search reads",
    .usage = "FILE|FOLDER... -o FILE.qkvi [options]",
    .about = "Embeds the passages of files and writes them, with their vectors, to an index: one "
             "file. A passage is a line of a file, the text of a line of JSON (.jsonl, .ndjson), "
             "or, of a file in a folder, some consecutive sentences. Blank lines, hidden files and "
             "files that are not text are skipped.\n"
             "\n"
             "With --update, only new and changed files are embedded; the result is "
             "byte-identical to a new index. The index is replaced as a whole: a command "
             "that is killed, or finds the disk full, leaves it as it was.\n"
             "\n"
             "With --hnsw, a second file, FILE.qkvi.hnsw, stores a graph of the vectors, with which "
             "qkv search --hnsw compares a small part of them.\n"
             "\n"
             "The index contains the texts, so it can be copied without the files; it names the "
             "model, which qkv search needs. Any program that reads SQLite opens it, for reading.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_MODEL | USES_ABLATE | USES_JSON | USES_OUTPUT | READS_OPERANDS,
    .min_args = 1,
    .max_args = -1,
    .examples = {
        { "qkv index notes.txt -o notes.qkvi", "one passage per line" },
        { "qkv index docs --chunk 64 --overlap 16 -o docs.qkvi", "sentences of all texts in a folder" },
        { "qkv index docs --chunk 64 --overlap 16 -o docs.qkvi --update", "after some of them changed" },
        { "qkv index wiki.jsonl --field body --vectors int8 -o wiki.qkvi", "texts with ids and metadata" },
    },
    .run = run_index,
};
