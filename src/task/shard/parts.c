// SPDX-License-Identifier: MIT
// parts.c: finds the parts of an output, checks that they belong together, and reads them in order.
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include "task/shard/shard_internal.h"

struct qkv_parts {
    char *output;
    int64_t count, rows;
    struct qkv_part_manifest *at; // [count]
};

// ---- the parts of a folder ---------------------------------------------------------------------
// Reads digits at *p; returns -1 if there are none or too many.
static int64_t read_digits(const char **p)
{
    int64_t n = 0;
    const char *from = *p;
    for (; **p >= '0' && **p <= '9' && *p - from < 8; ++*p) n = 10 * n + (**p - '0');
    return *p > from ? n : -1;
}

// Reads the shard from the name of a part of the output, of which `name` is the last component.
static bool shard_of(struct qkv_shard *s, const char *name, const char *found)
{
    char again[QKV_PART_PATH];
    const char *dot = strrchr(name, '.');
    const size_t stem = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    const char *p = found + stem;
    if (strncmp(found, name, stem) != 0 || strncmp(p, ".part-", 6) != 0) return false;
    p += 6;
    s->index = read_digits(&p);
    if (strncmp(p, "-of-", 4) != 0) return false;
    p += 4;
    s->count = read_digits(&p);
    // the name must be the one that is written, with all its zeros
    return !qkv_part_path(again, name, s, NULL) && !strcmp(again, found);
}

// Calls note(user, shard) for each part of the output in its folder.
static qkv_status list_parts(const char *output,
                             qkv_status (*note)(void *user, const struct qkv_shard *s,
                                                qkv_error *err),
                             void *user, qkv_error *err)
{
    char above[QKV_PATH];
    struct qkv_shard s;
    const char *name = qkv_path_above(above, output);
    if (!name) return qkv_fail_errno(err, output, "cannot find its parts", ENAMETOOLONG);
    DIR *d = opendir(above);
    if (!d) return qkv_fail_errno(err, above, "cannot open", errno);
    qkv_status status = QKV_OK;
    for (const struct dirent *e; !status && (e = qkv_disk_entry(d, above, &status, err));)
        if (shard_of(&s, name, e->d_name)) status = note(user, &s, err);
    closedir(d);
    return status;
}

// The parts that are there.
struct present {
    const char *output;
    int64_t count; // of shards; 0: no part so far
    bool *there;   // [count]
};

static qkv_status note_part(void *user, const struct qkv_shard *s, qkv_error *err)
{
    struct present *p = user;
    if (!p->count) {
        p->there = qkv_alloc_zero((size_t)s->count, sizeof *p->there);
        if (!p->there) return qkv_fail_memory(err, p->output);
        p->count = s->count;
    }
    if (s->count != p->count)
        return qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_location){ .file = p->output },
                        "there are parts of different numbers of shards, expected one number, "
                        "found %" PRId64 " and %" PRId64,
                        qkv_min64(s->count, p->count), qkv_max64(s->count, p->count));
    p->there[s->index] = true;
    return QKV_OK;
}

// Fails if parts are missing: "3, 5 to 7".
static qkv_status check_present(const struct present *p, qkv_error *err)
{
    char list[200] = "", first[QKV_PART_PATH] = "";
    size_t used = 0;
    int64_t missing = 0;
    if (!p->count) {
        const qkv_status status = qkv_part_path(first, p->output, &(struct qkv_shard){ 0, 1 }, err);
        return status
                   ? status
                   : qkv_fail(err, QKV_ERR_IO, &(struct qkv_location){ .file = p->output },
                              "no part of this output is there, expected files such as %s", first);
    }
    for (int64_t i = 0, end; i < p->count; i = end) {
        for (end = i + 1; end < p->count && !p->there[i] && !p->there[end];) end++;
        if (p->there[i]) continue;
        missing += end - i;
        if (used > sizeof list - 60) { // the list is full
            if (list[used - 1] != '.') used += (size_t)snprintf(list + used, 9, ", ...");
            continue;
        }
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%" PRId64, used ? ", " : "", i);
        if (end > i + 1)
            used += (size_t)snprintf(list + used, sizeof list - used,
                                     end > i + 2 ? " to %" PRId64 : ", %" PRId64, end - 1);
    }
    if (!missing) return QKV_OK;
    return qkv_fail(err, QKV_ERR_IO, &(struct qkv_location){ .file = p->output },
                    "%" PRId64 " of %" PRId64 " parts are missing: %s (counted from 0)", missing,
                    p->count, list);
}

// ---- the parts of a run ------------------------------------------------------------------------
static qkv_status path_of(char path[QKV_PART_PATH], const qkv_parts *p, int64_t i, qkv_error *err)
{
    const struct qkv_shard s = { i, p->count };
    return qkv_part_path(path, p->output, &s, err);
}

// Reads the manifest of part i and compares it with that of part 0.
static qkv_status open_part(qkv_parts *p, int64_t i, qkv_error *err)
{
    char path[QKV_PART_PATH];
    struct qkv_part_manifest *m = &p->at[i];
    qkv_status status = path_of(path, p, i, err);
    if (!status) status = qkv_part_manifest_read(m, path, err);
    if (status) return status;
    if (m->shard.index != i || m->shard.count != p->count)
        return qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = path },
                        "the manifest is of another part, expected shard %" PRId64 " of %" PRId64
                        ", found %" PRId64 " of %" PRId64,
                        i, p->count, m->shard.index, m->shard.count);
    if (m->first != p->rows || m->rows > INT64_MAX - p->rows)
        return qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = path },
                        "the part does not follow the preceding one, expected first row %" PRId64
                        ", found %" PRId64,
                        p->rows, m->first);
    p->rows += m->rows;
    status = qkv_part_members_compare(m->run, p->at[0].run, path, "part 0", err);
    if (i) { // one copy of the members is enough
        json_decref(m->root);
        m->root = NULL;
    }
    return status;
}

// Checks that each part has the rows of its shard.
static qkv_status check_ranges(const qkv_parts *p, qkv_error *err)
{
    char path[QKV_PART_PATH];
    for (int64_t i = 0; i < p->count; i++) {
        const struct qkv_shard s = { i, p->count };
        int64_t first, rows;
        qkv_status status = qkv_shard_range(&first, &rows, &s, p->rows);
        if (!status && rows == p->at[i].rows) continue;
        if (!status) status = path_of(path, p, i, err);
        return status ? status
                      : qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = path },
                                 "the part has another number of rows than its shard, expected "
                                 "%" PRId64 ", found %" PRId64,
                                 rows, p->at[i].rows);
    }
    return QKV_OK;
}

qkv_status qkv_parts_open(qkv_parts **out, const char *output, qkv_error *err)
{
    if (out) *out = NULL;
    if (!out || !output)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_parts_open: expected an output and its name, found NULL");
    struct present present = { .output = output };
    qkv_status status = list_parts(output, note_part, &present, err);
    if (!status) status = check_present(&present, err);
    qkv_free(present.there);
    if (status) return status;
    qkv_parts *p = qkv_alloc_zero(1, sizeof *p);
    if (p) {
        p->output = qkv_copy_text(output, strlen(output));
        p->at = qkv_alloc_zero((size_t)present.count, sizeof *p->at);
        p->count = present.count;
    }
    if (!p || !p->output || !p->at) status = qkv_fail_memory(err, output);
    for (int64_t i = 0; !status && i < p->count; i++) status = open_part(p, i, err);
    if (!status) status = check_ranges(p, err);
    if (status)
        qkv_parts_close(p);
    else
        *out = p;
    return status;
}

void qkv_parts_close(qkv_parts *p)
{
    if (!p) return;
    for (int64_t i = 0; p->at && i < p->count; i++) json_decref(p->at[i].root);
    qkv_free(p->at);
    qkv_free(p->output);
    qkv_free(p);
}

int64_t qkv_parts_count(const qkv_parts *p)
{
    return p ? p->count : 0;
}
int64_t qkv_parts_rows(const qkv_parts *p)
{
    return p ? p->rows : 0;
}
const char *qkv_parts_member(const qkv_parts *p, const char *name)
{
    return p && name ? json_string_value(json_object_get(p->at[0].run, name)) : NULL;
}

qkv_status qkv_parts_read(const qkv_parts *p, int64_t index, int64_t skip,
                          int (*write)(void *user, const void *data, size_t bytes), void *user,
                          int64_t *rows, qkv_error *err)
{
    char path[QKV_PART_PATH];
    if (!p || !write || skip < 0 || index < 0 || index >= p->count)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_parts_read: expected parts, the index of one and a function, found "
                        "NULL or an index that is out of range");
    if (rows) *rows = p->at[index].rows;
    const qkv_status status = path_of(path, p, index, err);
    return status ? status : qkv_part_read(&p->at[index], path, skip, write, user, err);
}
