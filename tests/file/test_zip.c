// SPDX-License-Identifier: MIT
// test_zip.c: checks that the members of a zip archive are read, and that no broken archive is read
// outside the file or accepted with other contents.
#include "base/faults.h"
#include "model/folder.h"
#include <qkv/zip.h>
#include <zlib.h>

enum { HELLO = 3000 };
static uint8_t archive[8192];
static size_t archive_bytes;
static char hello[HELLO]; // compresses well
static size_t directory;  // its offset in the archive

static void put(uint32_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) archive[archive_bytes++] = (uint8_t)(value >> (8 * i));
}
static void put_text(const char *text)
{
    memcpy(archive + archive_bytes, text, strlen(text));
    archive_bytes += strlen(text);
}

// Puts the fields that the header of a member and its entry in the directory share.
static void put_fields(int method, const char *data, size_t size, size_t packed, const char *name)
{
    put(20, 2), put(0, 2), put((uint32_t)method, 2), put(0, 4);
    put((uint32_t)crc32(0, (const Bytef *)data, (uInt)size), 4);
    put((uint32_t)packed, 4), put((uint32_t)size, 4), put((uint32_t)strlen(name), 2), put(0, 2);
}

// Makes an archive of a/stored.txt, "abc", and a/deflated.txt, the text hello.
static void make_archive(void)
{
    uint8_t packed[1000];
    z_stream z = {
        .next_in = (Bytef *)hello, .avail_in = HELLO, .next_out = packed, .avail_out = sizeof packed
    };
    for (int i = 0; i < HELLO; i++) hello[i] = (char)('a' + i % 7);
    CHECK(deflateInit2(&z, 6, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY) == Z_OK);
    CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END);
    const size_t n = sizeof packed - z.avail_out;
    deflateEnd(&z);
    archive_bytes = 0;
    put(0x04034b50, 4), put_fields(0, "abc", 3, 3, "a/stored.txt"), put_text("a/stored.txt");
    put_text("abc");
    const size_t second = archive_bytes;
    put(0x04034b50, 4), put_fields(8, hello, HELLO, n, "a/deflated.txt");
    put_text("a/deflated.txt");
    memcpy(archive + archive_bytes, packed, n);
    archive_bytes += n;
    directory = archive_bytes;
    put(0x02014b50, 4), put(20, 2), put_fields(0, "abc", 3, 3, "a/stored.txt");
    put(0, 2), put(0, 2), put(0, 2), put(0, 4), put(0, 4), put_text("a/stored.txt");
    put(0x02014b50, 4), put(20, 2), put_fields(8, hello, HELLO, n, "a/deflated.txt");
    put(0, 2), put(0, 2), put(0, 2), put(0, 4), put((uint32_t)second, 4);
    put_text("a/deflated.txt");
    const size_t end = archive_bytes;
    put(0x06054b50, 4), put(0, 2), put(0, 2), put(2, 2), put(2, 2);
    put((uint32_t)(end - directory), 4), put((uint32_t)directory, 4), put(0, 2);
}

struct contents {
    char data[2 * HELLO];
    size_t bytes;
    int stop_after; // pieces; 0: never
};
static int add(void *context, const void *data, size_t bytes)
{
    struct contents *c = context;
    if (c->bytes + bytes > sizeof c->data) return 1;
    memcpy(c->data + c->bytes, data, bytes);
    c->bytes += bytes;
    return c->stop_after && --c->stop_after == 0;
}

// Opens the archive and reads all members.  Returns the first error.
static qkv_status read_all(int64_t *good)
{
    qkv_zip *z = NULL;
    *good = 0;
    folder_write("a.zip", archive, archive_bytes);
    qkv_status status = qkv_zip_open(&z, folder_name("a.zip"), NULL);
    for (int64_t i = 0; !status && i < qkv_zip_count(z); i++) {
        struct contents c = { .bytes = 0 };
        status = qkv_zip_read(z, i, add, &c, NULL);
        if (status) break;
        CHECK_EQ((int64_t)c.bytes, qkv_zip_size(z, i));
        *good += (c.bytes == 3 && !memcmp(c.data, "abc", 3)) ||
                 (c.bytes == HELLO && !memcmp(c.data, hello, HELLO));
    }
    qkv_zip_close(z);
    return status;
}

TEST(stored_and_compressed_members_are_read)
{
    qkv_zip *z;
    struct contents c = { .bytes = 0 };
    qkv_error err = { 0 };
    folder_new();
    make_archive();
    folder_write("a.zip", archive, archive_bytes);
    CHECK_EQ(qkv_zip_open(&z, folder_name("a.zip"), &err), QKV_OK);
    CHECK_EQ(qkv_zip_count(z), 2);
    CHECK_TEXT(qkv_zip_name(z, 0), "a/stored.txt");
    CHECK_TEXT(qkv_zip_name(z, 1), "a/deflated.txt");
    CHECK_EQ(qkv_zip_size(z, 1), HELLO);
    CHECK(!qkv_zip_name(z, 2) && qkv_zip_size(z, -1) == -1);
    CHECK_EQ(qkv_zip_read(z, 1, add, &c, &err), QKV_OK);
    CHECK_EQ(c.bytes, HELLO);
    CHECK(!memcmp(c.data, hello, HELLO));
    c = (struct contents){ .stop_after = 1 };
    CHECK_EQ(qkv_zip_read(z, 0, add, &c, &err), QKV_ERR_INTERRUPTED);
    qkv_zip_close(z);
}

TEST(a_comment_after_the_directory_is_skipped)
{
    int64_t good;
    folder_new();
    make_archive();
    archive[archive_bytes - 2] = 5;
    put_text("PK\005\006x");
    CHECK_EQ(read_all(&good), QKV_OK);
    CHECK_EQ(good, 2);
}

TEST(no_truncated_archive_opens)
{
    int64_t good;
    folder_new();
    make_archive();
    while (archive_bytes-- > 0) CHECK_EQ(read_all(&good), QKV_ERR_FORMAT);
}

TEST(no_changed_byte_changes_contents_unseen)
{
    static const uint8_t masks[] = { 1, 0x80, 0xff };
    folder_new();
    make_archive();
    for (size_t at = 0; at < archive_bytes; at++) EACH(mask, masks)
        {
            int64_t good;
            archive[at] ^= *mask;
            if (read_all(&good) == QKV_OK) {
                qkv_zip *z;
                CHECK_EQ(qkv_zip_open(&z, folder_name("a.zip"), NULL), QKV_OK);
                CHECK_EQ(good, qkv_zip_count(z));
                qkv_zip_close(z);
            }
            archive[at] ^= *mask;
        }
}

// The other members of such an archive can be read.
TEST(a_member_that_is_encrypted_or_not_in_the_file_is_refused_when_it_is_read)
{
    static const struct {
        size_t at; // in the entry of the first member
        uint8_t value;
        qkv_status status;
    } rows[] = { { 8, 1, QKV_ERR_UNSUPPORTED }, { 44, 1, QKV_ERR_FORMAT } };
    folder_new();
    EACH(r, rows)
    {
        qkv_zip *z = NULL;
        qkv_error err = { 0 };
        struct contents c = { .bytes = 0 };
        make_archive();
        archive[directory + r->at] = r->value;
        folder_write("a.zip", archive, archive_bytes);
        CHECK_EQ(qkv_zip_open(&z, folder_name("a.zip"), &err), QKV_OK);
        CHECK_EQ(qkv_zip_read(z, 0, add, &c, &err), r->status);
        CHECK_EQ(c.bytes, 0);
        CHECK_EQ(qkv_zip_read(z, 1, add, &c, NULL), QKV_OK);
        CHECK_EQ(c.bytes, HELLO);
        qkv_zip_close(z);
    }
}

TEST(other_kinds_of_archives_are_not_supported)
{
    int64_t good;
    folder_new();
    make_archive();
    archive[directory + 8] = 1; // encrypted
    CHECK_EQ(read_all(&good), QKV_ERR_UNSUPPORTED);
    make_archive();
    archive[directory + 10] = 12; // bzip2
    CHECK_EQ(read_all(&good), QKV_ERR_UNSUPPORTED);
    make_archive();
    memset(archive + directory + 20, 0xff, 4); // zip64
    CHECK_EQ(read_all(&good), QKV_ERR_UNSUPPORTED);
    make_archive();
    archive[directory + 46] = 0; // a NUL in a name
    CHECK_EQ(read_all(&good), QKV_ERR_FORMAT);
    archive_bytes = 0;
    CHECK_EQ(read_all(&good), QKV_ERR_FORMAT);
}

// Sets `bytes` bytes of a fresh archive at `at`.  Returns the status of opening it and reading all.
static qkv_status changed(size_t at, uint32_t value, int bytes)
{
    int64_t good;
    make_archive();
    for (int i = 0; i < bytes; i++) archive[at + (size_t)i] = (uint8_t)(value >> (8 * i));
    return read_all(&good);
}

TEST(fields_that_do_not_fit_are_refused)
{
    folder_new();
    make_archive();
    const size_t end = archive_bytes - 22, second = directory + 46 + strlen("a/stored.txt");
    CHECK_EQ(changed(end + 4, 1, 2), QKV_ERR_UNSUPPORTED);          // several parts
    CHECK_EQ(changed(end + 6, 1, 2), QKV_ERR_UNSUPPORTED);          // the directory in another part
    CHECK_EQ(changed(end + 8, 1, 2), QKV_ERR_UNSUPPORTED);          // members in another part
    CHECK_EQ(changed(end + 8, UINT32_MAX, 4), QKV_ERR_UNSUPPORTED); // zip64
    CHECK_EQ(changed(directory + 24, UINT32_MAX, 4), QKV_ERR_UNSUPPORTED); // zip64
    CHECK_EQ(changed(directory + 42, UINT32_MAX, 4), QKV_ERR_UNSUPPORTED); // zip64
    CHECK_EQ(changed(end + 16, (uint32_t)end + 1, 4), QKV_ERR_FORMAT);     // the directory's offset
    CHECK_EQ(changed(end + 12, (uint32_t)end, 4), QKV_ERR_FORMAT);         // the directory's size
    CHECK_EQ(changed(end + 8, 3 << 16 | 3, 4), QKV_ERR_FORMAT);            // one entry too many
    CHECK_EQ(changed(directory + 28, 0, 2), QKV_ERR_FORMAT);               // no name
    CHECK_EQ(changed(directory + 28, 5000, 2), QKV_ERR_FORMAT);            // a name beyond the end
    CHECK_EQ(changed(directory + 42, 8000, 4), QKV_ERR_FORMAT); // a header beyond the end
    CHECK_EQ(changed(directory + 42, (uint32_t)end + 10, 4), QKV_ERR_FORMAT); // half a header
    CHECK_EQ(changed(26, 60000, 2), QKV_ERR_FORMAT);                          // data beyond the end
    CHECK_EQ(changed(second + 20, 6000, 4), QKV_ERR_FORMAT);                  // the same
    CHECK_EQ(changed(directory + 20, 2, 4), QKV_ERR_FORMAT); // stored in fewer bytes than it has
    CHECK_EQ(changed(second + 24, HELLO - 1, 4), QKV_ERR_FORMAT); // decompresses to more
    CHECK_EQ(changed(second + 24, HELLO + 1, 4), QKV_ERR_FORMAT); // decompresses to less
    CHECK_EQ(changed(second + 20, 20, 4), QKV_ERR_FORMAT);        // the data ends early
}

TEST(null_is_refused)
{
    qkv_error err = { 0 };
    qkv_zip *z = (qkv_zip *)&err; // every failed call replaces it
    struct contents c = { .stop_after = 1 };
    folder_new();
    make_archive();
    folder_write("a.zip", archive, archive_bytes);
    CHECK_EQ(qkv_zip_open(NULL, folder_name("a.zip"), &err), QKV_ERR_USAGE);
    CHECK_EQ(qkv_zip_open(&z, NULL, &err), QKV_ERR_USAGE);
    CHECK(!z);
    z = (qkv_zip *)&err;
    CHECK_EQ(qkv_zip_open(&z, folder_name("none.zip"), &err), QKV_ERR_IO);
    CHECK(!z);
    qkv_zip_close(NULL);
    CHECK_EQ(qkv_zip_count(NULL), 0);
    CHECK(!qkv_zip_name(NULL, 0) && qkv_zip_size(NULL, 0) == -1);
    CHECK_EQ(qkv_zip_open(&z, folder_name("a.zip"), &err), QKV_OK);
    CHECK_EQ(qkv_zip_read(z, 0, NULL, &c, &err), QKV_ERR_USAGE);
    CHECK_EQ(qkv_zip_read(z, 2, add, &c, &err), QKV_ERR_USAGE);
    CHECK_EQ(qkv_zip_read(NULL, 0, add, &c, &err), QKV_ERR_USAGE);
    CHECK_EQ(c.bytes, 0);
    CHECK_EQ(qkv_zip_read(z, 1, add, &c, &err), QKV_ERR_INTERRUPTED); // while it decompresses
    qkv_zip_close(z);
}

static qkv_status flow(void *ctx, qkv_error *err)
{
    qkv_zip *z;
    struct contents c = { .bytes = 0 };
    qkv_status status = qkv_zip_open(&z, ctx, err);
    if (status) return status;
    for (int64_t i = 0; !status && i < qkv_zip_count(z); i++)
        status = qkv_zip_read(z, i, add, &c, err);
    qkv_zip_close(z);
    if (!status) CHECK_EQ(c.bytes, 3 + HELLO);
    return status;
}

TEST(every_failed_allocation_is_survived)
{
    folder_new();
    make_archive();
    folder_write("a.zip", archive, archive_bytes);
    // the handle, its path, the members and their names, the window of zlib and its state
    CHECK(faults_walk(flow, (void *)(uintptr_t)folder_name("a.zip"), true) >= 7);
}

CHECK_MAIN(CASE(stored_and_compressed_members_are_read),
           CASE(a_comment_after_the_directory_is_skipped), CASE(no_truncated_archive_opens),
           CASE(no_changed_byte_changes_contents_unseen),
           CASE(a_member_that_is_encrypted_or_not_in_the_file_is_refused_when_it_is_read),
           CASE(other_kinds_of_archives_are_not_supported),
           CASE(fields_that_do_not_fit_are_refused), CASE(null_is_refused),
           CASE(every_failed_allocation_is_survived))
