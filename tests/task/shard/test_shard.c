// SPDX-License-Identifier: MIT
// test_shard.c: checks the rows of shards, the lines of a file that a shard has, and parts:
// written, found, refused and read, with failing allocations too.
#include "base/base.h"
#include "base/faults.h"
#include "model/folder.h"
#include <qkv/shard.h>

static const char *in_folder(const char *name)
{
    static char paths[4][512];
    static int next;
    char *p = paths[next++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", folder_path, name);
    return p;
}

static void put(const char *name, const char *data, size_t bytes)
{
    FILE *f = fopen(in_folder(name), "wb");
    CHECK(f != NULL);
    CHECK_EQ(fwrite(data, 1, bytes, f), bytes);
    CHECK_EQ(fclose(f), 0);
}

TEST(shards_follow_one_another_and_differ_by_one_row_at_most)
{
    static const int64_t totals[] = { 0, 1, 2, 7, 100, 101, INT64_MAX };
    static const int64_t counts[] = { 1, 2, 3, 10, 64, 1000 };
    EACH(total, totals)
    {
        EACH(count, counts)
        {
            int64_t next = 0, least = INT64_MAX, most = 0;
            for (int64_t i = 0; i < *count; i++) {
                const struct qkv_shard s = { i, *count };
                int64_t first, rows;
                CHECK_EQ(qkv_shard_range(&first, &rows, &s, *total), QKV_OK);
                CHECK_EQ(first, next);
                next += rows;
                CHECK(i == 0 || rows <= least); // the first shards are the longer ones
                least = qkv_min64(least, rows);
                most = qkv_max64(most, rows);
            }
            CHECK_EQ(next, *total);
            CHECK(most - least <= 1);
        }
    }
}

// Compares the scan of each shard of a file with a plain search for line ends.
static void compare_scan(const char *data, size_t bytes, int64_t count)
{
    char sum[65];
    int64_t lines = 0;
    put("in", data, bytes);
    qkv_sha256(sum, data, bytes);
    for (size_t i = 0; i < bytes; i++) lines += i + 1 == bytes || data[i] == '\n';
    for (int64_t k = 0; k < count; k++) {
        const struct qkv_shard s = { k, count };
        struct qkv_shard_input in;
        CHECK_EQ(qkv_shard_scan(&in, &s, in_folder("in"), NULL, NULL), QKV_OK);
        CHECK_EQ(in.bytes, bytes);
        CHECK_EQ(in.lines, lines);
        CHECK_TEXT(in.sha256, sum);
        const char *p = data;
        for (int64_t i = 0; i < in.first && p; i++) {
            p = memchr(p, '\n', (size_t)(data + bytes - p));
            if (p) p++;
        }
        CHECK_EQ(in.offset, p ? p - data : (ptrdiff_t)bytes);
    }
}

TEST(the_lines_of_a_shard_are_found_in_files_of_any_form)
{
    folder_new();
    compare_scan("", 0, 3);
    compare_scan("\n", 1, 3);
    compare_scan("a", 1, 2);
    compare_scan("a\nb", 3, 2);
    compare_scan("a\n\n\nb\n", 6, 5);
    // more lines than offsets are stored, several blocks, and lines of several blocks
    const size_t size = (size_t)3 << 20;
    char *data = malloc(size);
    CHECK(data != NULL);
    memset(data, 'x', size);
    for (size_t i = 0; i < size / 2; i += 1 + i % 61) data[i] = '\n';
    data[size / 2 + 600000] = '\n';
    compare_scan(data, size, 7);
    compare_scan(data, size / 2, 3);
    free(data);
}

static int stop(void *user, const char *what, int64_t done, int64_t total)
{
    (void)what, (void)done;
    CHECK_EQ(total, 3);
    return ++*(int *)user;
}

TEST(a_scan_can_be_interrupted)
{
    const struct qkv_shard s = { 0, 1 };
    struct qkv_shard_input in;
    int calls = 0;
    const struct qkv_progress progress = { stop, &calls };
    qkv_error err = { 0 };
    folder_new();
    put("in", "a\nb", 3);
    CHECK_EQ(qkv_shard_scan(&in, &s, in_folder("in"), &progress, &err), QKV_ERR_INTERRUPTED);
    CHECK_EQ(calls, 1);
    CHECK_EQ(qkv_shard_scan(&in, &s, in_folder("none"), NULL, NULL), QKV_ERR_IO);
    CHECK_EQ(qkv_shard_scan(&in, &s, folder_path, NULL, NULL), QKV_ERR_IO);
}

// ---- parts -------------------------------------------------------------------------------------
static const struct qkv_part_member members[] = { { "precision", "f32" },
                                                  { "prompt", "\xc3\xa9\n" } };
static struct qkv_part part_of(int64_t index, int64_t count, int64_t total)
{
    static char output[600];
    snprintf(output, sizeof output, "%s/v.bin", folder_path);
    struct qkv_part p = { output, { index, count }, 0, 0, members, 2 };
    CHECK_EQ(qkv_shard_range(&p.first, &p.rows, &p.shard, total), QKV_OK);
    return p;
}

// Writes a part, which has 10 bytes per row.
static qkv_status write_part(const struct qkv_part *p, qkv_error *err)
{
    char path[QKV_PART_PATH];
    qkv_writer *w = NULL;
    qkv_status status = qkv_part_path(path, p->output, &p->shard, err);
    if (!status) status = qkv_writer_open(&w, path, true, err);
    if (status) return status;
    for (int64_t i = 0; i < p->rows; i++)
        CHECK_EQ(dprintf(qkv_writer_descriptor(w), "row %05d\n", (int)(p->first + i)), 10);
    return qkv_part_commit(w, p, err);
}

static int append(void *user, const void *data, size_t bytes)
{
    strncat(user, data, bytes);
    return 0;
}

TEST(parts_are_read_in_order)
{
    char text[400] = "";
    qkv_parts *p = NULL;
    qkv_error err = { 0 };
    folder_new();
    for (int i = 3; i >= 0; i--) {
        const struct qkv_part part = part_of(i, 4, 6);
        bool complete = true;
        CHECK_EQ(qkv_part_check(&complete, &part, &err), QKV_OK);
        CHECK(!complete);
        CHECK_EQ(write_part(&part, &err), QKV_OK);
        CHECK_EQ(qkv_part_check(&complete, &part, &err), QKV_OK);
        CHECK(complete);
    }
    CHECK_EQ(qkv_parts_open(&p, in_folder("v.bin"), &err), QKV_OK);
    CHECK_EQ(qkv_parts_count(p), 4);
    CHECK_EQ(qkv_parts_rows(p), 6);
    CHECK_TEXT(qkv_parts_member(p, "prompt"), "\xc3\xa9\n");
    CHECK(qkv_parts_member(p, "other") == NULL);
    for (int i = 0; i < 4; i++) {
        int64_t rows = 0;
        CHECK_EQ(qkv_parts_read(p, i, 12, append, text, &rows, &err), QKV_OK);
        CHECK_EQ(rows, i < 2 ? 2 : 1);
    }
    CHECK_TEXT(text, "w 00001\nw 00003\n"); // the last parts are shorter than the header
    CHECK_EQ(qkv_parts_read(p, 4, 0, append, text, NULL, &err), QKV_ERR_USAGE);
    qkv_parts_close(p);
}

TEST(a_member_that_differs_is_named)
{
    static const struct qkv_part_member others[][2] = {
        { { "precision", "bf16" }, { "prompt", "" } },
        { { "prompt", "\xc3\xa9\n" }, { "x", "y" } },
        { { "precision", "f32" }, { "a", "b" } }
    };
    static const char *const named[] = { "precision differs, expected bf16, found f32",
                                         "x differs, expected y, found none",
                                         "a differs, expected b, found none" };
    folder_new();
    struct qkv_part part = part_of(0, 1, 2);
    qkv_error err = { 0 };
    bool complete;
    CHECK_EQ(write_part(&part, NULL), QKV_OK);
    for (int i = 0; i < 3; i++) {
        part.members = others[i];
        err = (qkv_error){ 0 };
        CHECK_EQ(qkv_part_check(&complete, &part, &err), QKV_ERR_USAGE);
        if (!strstr(err.text, named[i])) fail_msg("%s: %s", named[i], err.text);
    }
    part.members = members;
    part.count = 1; // the part has a member more
    err = (qkv_error){ 0 };
    CHECK_EQ(qkv_part_check(&complete, &part, &err), QKV_ERR_USAGE);
    CHECK(strstr(err.text, "prompt differs, expected none") != NULL);
    part = part_of(0, 1, 3);
    err = (qkv_error){ 0 };
    CHECK_EQ(qkv_part_check(&complete, &part, &err), QKV_ERR_USAGE);
    CHECK(strstr(err.text, "rows differs, expected 3, found 2") != NULL);
}

TEST(names_that_are_nearly_names_of_parts_are_other_files)
{
    static const char *const names[] = {
        "v.part-0-of-1.bin",         "v.part-00001-of-00001.bin",  "v.part-00000-of-00001.bin.tmp",
        "v.part-00000-of-.bin",      "v.part--0000-of-00001.bin",  "v.part-00000-of-00001",
        "w.part-00000-of-00001.bin", "v.part-99999999999-of-1.bin"
    };
    qkv_parts *p;
    folder_new();
    EACH(name, names) put(*name, "", 0);
    qkv_error err = { 0 };
    CHECK_EQ(qkv_parts_open(&p, in_folder("v.bin"), &err), QKV_ERR_IO);
    CHECK(strstr(err.text, "no part of this output is there") != NULL);
}

TEST(a_path_names_the_part_before_the_ending)
{
    static const struct {
        const char *output, *path;
    } rows[] = { { "v.npy", "v.part-00002-of-00003.npy" },
                 { "a.b/v", "a.b/v.part-00002-of-00003" },
                 { "a/.v", "a/.v.part-00002-of-00003" },
                 { "v.x.jsonl", "v.x.part-00002-of-00003.jsonl" } };
    char path[QKV_PART_PATH], *large = malloc(5000);
    EACH(row, rows)
    {
        CHECK_EQ(qkv_part_path(path, row->output, &(struct qkv_shard){ 2, 3 }, NULL), QKV_OK);
        CHECK_TEXT(path, row->path);
    }
    CHECK_EQ(qkv_part_path(path, "v", &(struct qkv_shard){ 123456, 1000000 }, NULL), QKV_OK);
    CHECK_TEXT(path, "v.part-123456-of-1000000");
    CHECK(large != NULL);
    memset(large, 'v', 4999);
    large[4999] = 0;
    CHECK_EQ(qkv_part_path(path, large, &(struct qkv_shard){ 2, 3 }, NULL), QKV_ERR_IO);
    free(large);
}

static qkv_status flow(void *ctx, qkv_error *err)
{
    const struct qkv_part *part = ctx;
    struct qkv_shard_input in;
    char text[400] = "";
    bool complete;
    qkv_parts *p = NULL;
    qkv_status status = qkv_shard_scan(&in, &part->shard, in_folder("in"), NULL, err);
    if (!status) status = write_part(part, err);
    if (!status) status = qkv_part_check(&complete, part, err);
    if (!status) status = qkv_parts_open(&p, part->output, err);
    if (!status) status = qkv_parts_read(p, 0, 0, append, text, NULL, err);
    qkv_parts_close(p);
    return status;
}

TEST(without_memory_each_call_fails_with_a_message)
{
    folder_new();
    put("in", "a\nb\n", 4);
    struct qkv_part part = part_of(0, 1, 2);
    CHECK(faults_walk(flow, &part, true) > 10);
}

CHECK_MAIN(CASE(shards_follow_one_another_and_differ_by_one_row_at_most),
           CASE(the_lines_of_a_shard_are_found_in_files_of_any_form),
           CASE(a_scan_can_be_interrupted), CASE(parts_are_read_in_order),
           CASE(a_member_that_differs_is_named),
           CASE(names_that_are_nearly_names_of_parts_are_other_files),
           CASE(a_path_names_the_part_before_the_ending),
           CASE(without_memory_each_call_fails_with_a_message))
