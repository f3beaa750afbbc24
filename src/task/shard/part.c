// SPDX-License-Identifier: MIT
// part.c: writes the output file of a shard with its manifest, and finds out whether an existing
// one is complete.  The manifest is durable before the part has its name, so that a part without a
// manifest is no file of ours.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "task/shard/shard_internal.h"

#define FORMAT         "qkv-part"
#define MANIFEST_AFTER ".manifest.json"
enum { VERSION = 1, MANIFEST_MOST = 1 << 20, BLOCK = 1 << 18 };

// ---- paths -------------------------------------------------------------------------------------
qkv_status qkv_part_path(char out[QKV_PART_PATH], const char *output, const struct qkv_shard *s,
                         qkv_error *err)
{
    int64_t first, rows;
    if (!out || !output || !*output || qkv_shard_range(&first, &rows, s, 0))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_part_path: expected the name of an output and a shard, found NULL or "
                        "an index that is not below the number of shards");
    const char *slash = strrchr(output, '/'), *name = slash ? slash + 1 : output;
    const char *dot = strrchr(name, '.');
    const int stem = (int)(dot && dot > name ? dot - output : (ptrdiff_t)strlen(output));
    const int n = snprintf(out, QKV_PART_PATH, "%.*s.part-%05" PRId64 "-of-%05" PRId64 "%s", stem,
                           output, s->index, s->count, output + stem);
    return n >= 0 && n < QKV_PART_PATH
               ? QKV_OK
               : qkv_fail_errno(err, output, "cannot name a part", ENAMETOOLONG);
}

qkv_status qkv_part_manifest_path(char out[QKV_PART_PATH], const char *path, qkv_error *err)
{
    const int n = snprintf(out, QKV_PART_PATH, "%s" MANIFEST_AFTER, path);
    return n >= 0 && n < QKV_PART_PATH
               ? QKV_OK
               : qkv_fail_errno(err, path, "cannot name a manifest", ENAMETOOLONG);
}

// ---- the bytes of a part -----------------------------------------------------------------------
// Computes the size and the SHA-256 of the file of a descriptor.
static qkv_status sum_file(int fd, const char *path, int64_t *bytes, char hex[QKV_SHA256_TEXT],
                           int64_t skip, int (*write)(void *, const void *, size_t), void *user,
                           qkv_error *err)
{
    struct qkv_sha256 sum;
    qkv_status status = QKV_OK;
    char *block = qkv_alloc(BLOCK, 1);
    if (!block) return qkv_fail_memory(err, path);
    qkv_sha256_begin(&sum);
    for (*bytes = 0; !status;) {
        const ptrdiff_t n = pread(fd, block, BLOCK, *bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) status = qkv_fail_errno(err, path, "cannot read", errno);
        if (n <= 0) break;
        qkv_sha256_add(&sum, block, (size_t)n);
        const int64_t from = qkv_min64(n, qkv_max64(0, skip - *bytes));
        if (write && from < n && write(user, block + from, (size_t)(n - from)))
            status = qkv_fail(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
        *bytes += n;
    }
    qkv_sha256_end(&sum, hex);
    qkv_free(block);
    return status;
}

qkv_status qkv_part_read(const struct qkv_part_manifest *m, const char *path, int64_t skip,
                         int (*write)(void *user, const void *data, size_t bytes), void *user,
                         qkv_error *err)
{
    char hex[QKV_SHA256_TEXT];
    struct stat st;
    int64_t bytes;
    const struct qkv_location at = { .file = path };
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return qkv_fail_errno(err, path, "cannot open", errno);
    qkv_status status = QKV_OK;
    if (fstat(fd, &st) != 0)
        status = qkv_fail_errno(err, path, "cannot stat", errno);
    else if (!S_ISREG(st.st_mode))
        status = qkv_fail(err, QKV_ERR_IO, &at,
                          "the part is no regular file, expected a file, found a %s",
                          S_ISDIR(st.st_mode) ? "directory" : "pipe or a device");
    else if (st.st_size != m->bytes)
        status =
            qkv_fail(err, QKV_ERR_FORMAT, &at,
                     "the part differs from its manifest, expected %" PRId64 " bytes, found %lld",
                     m->bytes, (long long)st.st_size);
    if (!status) status = sum_file(fd, path, &bytes, hex, skip, write, user, err);
    if (!status && strcmp(hex, m->sha256) != 0)
        status = qkv_fail(err, QKV_ERR_FORMAT, &at,
                          "the part differs from its manifest, expected SHA-256 %.12s..., found "
                          "%.12s...",
                          m->sha256, hex);
    close(fd);
    return status;
}

// ---- manifests ---------------------------------------------------------------------------------
// Returns the members of a run as {name: text}, or NULL if memory is exhausted.
static json_t *run_of(const struct qkv_part *part)
{
    json_t *run = json_object();
    for (int64_t i = 0; run && i < part->count; i++) {
        const struct qkv_part_member *m = &part->members[i];
        if (json_object_set_new(run, m->name, json_string(m->text)) == 0) continue;
        json_decref(run);
        return NULL;
    }
    return run;
}

static bool is_hash(const char *text)
{
    return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

// Reads the members of a manifest; returns false if err contains an error.
static bool read_members(struct qkv_part_manifest *m, const struct qkv_json_at *at)
{
    const char *format = NULL, *name, *hex = "";
    const json_t *text;
    int64_t version = 0;
    if (!qkv_json_text(at, "format", true, &format) ||
        !qkv_json_int(at, "version", true, &version, 1, INT32_MAX))
        return false;
    const struct qkv_location version_at = { .file = at->file, .path = "$.version" };
    if (strcmp(format, FORMAT) != 0)
        qkv_fail(
            at->err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = at->file, .path = "$.format" },
            "file is not the manifest of a part, expected format \"" FORMAT "\", found \"%.80s\"",
            format);
    else if (version > VERSION)
        qkv_fail(at->err, QKV_ERR_UNSUPPORTED, &version_at,
                 "manifest format is too new, expected version %d or earlier, found %" PRId64,
                 (int)VERSION, version);
    if (at->err->status ||
        !qkv_json_int(at, "shards", true, &m->shard.count, 1, QKV_SHARD_COUNT_MAX) ||
        !qkv_json_int(at, "shard", true, &m->shard.index, 0, m->shard.count - 1) ||
        !qkv_json_int(at, "first", true, &m->first, 0, INT64_MAX) ||
        !qkv_json_int(at, "rows", true, &m->rows, 0, INT64_MAX - m->first) ||
        !qkv_json_int(at, "bytes", true, &m->bytes, 0, INT64_MAX) ||
        !qkv_json_text(at, "sha256", true, &hex))
        return false;
    m->run = json_object_get(m->root, "run");
    bool valid = json_is_object(m->run) && is_hash(hex);
    json_object_foreach((json_t *)(uintptr_t)m->run, name, text) valid &= json_is_string(text);
    if (!valid)
        qkv_fail(at->err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = at->file },
                 "malformed manifest of a part, expected 64 hexadecimal digits in $.sha256 and "
                 "texts in $.run");
    else
        memcpy(m->sha256, hex, sizeof m->sha256);
    return valid;
}

qkv_status qkv_part_manifest_read(struct qkv_part_manifest *m, const char *path, qkv_error *err)
{
    char manifest[QKV_PART_PATH];
    qkv_error own = { 0 };
    if (!err) err = &own;
    memset(m, 0, sizeof *m);
    qkv_status status = qkv_part_manifest_path(manifest, path, err);
    if (!status) status = qkv_json_file(&m->root, manifest, MANIFEST_MOST, err);
    if (status) return status;
    const struct qkv_json_at at = { m->root, manifest, "$", err };
    if (read_members(m, &at)) return QKV_OK;
    json_decref(m->root);
    m->root = NULL;
    return err->status;
}

qkv_status qkv_part_members_compare(const json_t *found, const json_t *expected, const char *path,
                                    const char *whose, qkv_error *err)
{
    const char *name = NULL, *want = NULL, *got = NULL;
    const json_t *text;
    json_object_foreach((json_t *)(uintptr_t)expected, name, text)
    {
        want = json_string_value(text);
        got = json_string_value(json_object_get(found, name));
        if (!got || strcmp(got, want) != 0) break;
        want = NULL;
    }
    if (!want) { // a member that only `found` has
        json_object_foreach((json_t *)(uintptr_t)found, name, text)
        {
            got = json_string_value(text);
            if (!json_object_get(expected, name)) break;
            got = NULL;
        }
    }
    if (!want && !got) return QKV_OK;
    return qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_location){ .file = path },
                    "the part belongs to another run than %s: %s differs, expected %.100s, found "
                    "%.100s",
                    whose, name, want ? want : "none", got ? got : "none");
}

// Writes the manifest of a part.
static qkv_status write_manifest(const struct qkv_part *part, const char *path, int64_t bytes,
                                 const char *hex, qkv_error *err)
{
    char manifest[QKV_PART_PATH];
    qkv_status status = qkv_part_manifest_path(manifest, path, err);
    if (status) return status;
    json_t *run = run_of(part);
    if (!run) return qkv_fail_memory(err, manifest);
    json_t *root =
        json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:s, s:o}", "format", FORMAT, "version",
                  (int)VERSION, "shard", (json_int_t)part->shard.index, "shards",
                  (json_int_t)part->shard.count, "first", (json_int_t)part->first, "rows",
                  (json_int_t)part->rows, "bytes", (json_int_t)bytes, "sha256", hex, "run", run);
    status = qkv_json_write(manifest, root, true, err);
    json_decref(root);
    return status;
}

// ---- a part ------------------------------------------------------------------------------------
static qkv_status check_part(const struct qkv_part *part, const char *call, qkv_error *err)
{
    int64_t first, rows;
    bool valid = part && part->output && part->count >= 0 && (part->members || !part->count) &&
                 !qkv_shard_range(&first, &rows, &part->shard, 0) && part->first >= 0 &&
                 part->rows >= 0;
    for (int64_t i = 0; valid && i < part->count; i++)
        valid = part->members[i].name && part->members[i].text;
    return valid ? QKV_OK
                 : qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "%s: expected a part with its output, shard and members, found NULL or "
                            "a number that is out of range",
                            call);
}

// Compares an existing manifest with the part.
static qkv_status compare_manifest(const struct qkv_part_manifest *m, const struct qkv_part *part,
                                   const char *path, qkv_error *err)
{
    const struct {
        const char *name;
        int64_t want, found;
    } rows[] = { { "shard", part->shard.index, m->shard.index },
                 { "shards", part->shard.count, m->shard.count },
                 { "first", part->first, m->first },
                 { "rows", part->rows, m->rows } };
    json_t *run = run_of(part);
    if (!run) return qkv_fail_memory(err, path);
    qkv_status status = qkv_part_members_compare(m->run, run, path, "this one", err);
    json_decref(run);
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !status; i++)
        if (rows[i].want != rows[i].found)
            status = qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_location){ .file = path },
                              "the part belongs to another run than this one: %s differs, expected "
                              "%" PRId64 ", found %" PRId64,
                              rows[i].name, rows[i].want, rows[i].found);
    return status;
}

qkv_status qkv_part_check(bool *complete, const struct qkv_part *part, qkv_error *err)
{
    char path[QKV_PART_PATH], manifest[QKV_PART_PATH];
    bool there = false, listed = false;
    struct qkv_part_manifest m;
    if (!complete)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_part_check: expected a place for the answer, found NULL");
    *complete = false;
    qkv_status status = check_part(part, "qkv_part_check", err);
    if (!status) status = qkv_part_path(path, part->output, &part->shard, err);
    if (!status) status = qkv_part_manifest_path(manifest, path, err);
    if (!status) status = qkv_path_find(&there, path, err);
    if (!status) status = qkv_path_find(&listed, manifest, err);
    if (status || (!there && !listed)) return status;
    if (!listed)
        return qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_location){ .file = path },
                        "file exists already and is no part, expected its manifest at " //
                        "%.200s, found none",
                        manifest);
    if ((status = qkv_part_manifest_read(&m, path, err)) != QKV_OK) return status;
    status = compare_manifest(&m, part, path, err);
    if (!status && there) status = qkv_part_read(&m, path, 0, NULL, NULL, err);
    json_decref(m.root);
    if (status || !there) return status;
    *complete = true;
    qkv_temporaries_clear(path); // of processes that were killed
    qkv_temporaries_clear(manifest);
    return QKV_OK;
}

qkv_status qkv_part_commit(qkv_writer *w, const struct qkv_part *part, qkv_error *err)
{
    char path[QKV_PART_PATH], hex[QKV_SHA256_TEXT];
    int64_t bytes;
    qkv_status status = check_part(part, "qkv_part_commit", err);
    if (!status && !w)
        status =
            qkv_fail(err, QKV_ERR_USAGE, NULL, "qkv_part_commit: expected a writer, found NULL");
    if (!status) status = qkv_part_path(path, part->output, &part->shard, err);
    if (!status) status = sum_file(qkv_writer_descriptor(w), path, &bytes, hex, 0, NULL, NULL, err);
    if (!status) status = write_manifest(part, path, bytes, hex, err);
    if (!status) return qkv_writer_commit(w, err);
    qkv_writer_abort(w);
    return status;
}
