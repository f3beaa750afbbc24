// SPDX-License-Identifier: MIT
// zip.c: reads zip archives (APPNOTE.TXT of PKWARE): the directory at the end, then members that
// are stored or compressed by deflate (zlib).
#include "base/base.h"
#include <qkv/zip.h>
#include <string.h>
#include <zlib.h>

enum {
    END_BYTES = 22,   // end of the directory, before its comment
    ENTRY_BYTES = 46, // entry of the directory, before its name
    LOCAL_BYTES = 30, // header of a member, before its name
    MEMBERS = 65535,  // the most that the format without zip64 has
    PIECE = 1 << 16
};

struct member {
    char *name;
    uint32_t crc, packed, size, at; // at: of its header
    unsigned method, flags;
};
struct qkv_zip {
    struct qkv_map map;
    struct member *member;
    int64_t count;
};

static unsigned read2(const uint8_t *p)
{
    return (unsigned)p[0] | (unsigned)p[1] << 8;
}
static uint32_t read4(const uint8_t *p)
{
    return (uint32_t)read2(p) | (uint32_t)read2(p + 2) << 16;
}

static qkv_status malformed(const qkv_zip *z, size_t at, const char *what, qkv_error *err)
{
    return qkv_fail(
        err, QKV_ERR_FORMAT,
        &(struct qkv_location){ .file = z->map.path, .has_offset = true, .offset = (int64_t)at },
        "zip archive: %s", what);
}

// Returns the offset of the end of the directory; SIZE_MAX: there is none.
static size_t find_end(const qkv_zip *z)
{
    const size_t size = z->map.size, last = size < END_BYTES ? 0 : size - END_BYTES;
    if (size < END_BYTES) return SIZE_MAX;
    for (size_t back = 0; back <= 65535 && back <= last; back++)
        if (read4(z->map.data + last - back) == 0x06054b50 &&
            read2(z->map.data + last - back + 20) == back)
            return last - back;
    return SIZE_MAX;
}

static qkv_status read_entries(qkv_zip *z, size_t at, size_t end, int64_t count, qkv_error *err)
{
    z->member = qkv_alloc_zero((size_t)(count ? count : 1), sizeof *z->member);
    if (!z->member) return qkv_fail_memory(err, z->map.path);
    for (; z->count < count; z->count++) {
        const uint8_t *const p = z->map.data + at;
        struct member *const m = &z->member[z->count];
        if (end - at < ENTRY_BYTES || read4(p) != 0x02014b50)
            return malformed(z, at, "expected an entry of the directory", err);
        const size_t name = read2(p + 28), all = ENTRY_BYTES + name + read2(p + 30) + read2(p + 32);
        if (all > end - at || !name || memchr(p + ENTRY_BYTES, 0, name))
            return malformed(z, at, "an entry of the directory has a wrong length or name", err);
        *m = (struct member){ .flags = read2(p + 8),
                              .method = read2(p + 10),
                              .crc = read4(p + 16),
                              .packed = read4(p + 20),
                              .size = read4(p + 24),
                              .at = read4(p + 42) };
        if (m->packed == UINT32_MAX || m->size == UINT32_MAX || m->at == UINT32_MAX)
            return qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = z->map.path },
                            "zip archive of over 4 GiB (zip64)");
        m->name = qkv_copy_text((const char *)p + ENTRY_BYTES, name);
        if (!m->name) return qkv_fail_memory(err, z->map.path);
        at += all;
    }
    return QKV_OK;
}

qkv_status qkv_zip_open(qkv_zip **out, const char *path, qkv_error *err)
{
    if (out) *out = NULL;
    if (!out || !path)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_zip_open: expected a pointer for the archive and a path, found NULL");
    qkv_zip *const z = qkv_alloc_zero(1, sizeof *z);
    if (!z) return qkv_fail_memory(err, path);
    qkv_status status = qkv_map_open(&z->map, path, false, err);
    if (!status) {
        const size_t end = find_end(z);
        const uint8_t *const p = end == SIZE_MAX ? NULL : z->map.data + end;
        if (end == SIZE_MAX)
            status = malformed(z, 0, "expected the end of a directory in the last 64 KiB", err);
        else if (read2(p + 4) || read2(p + 6) || read2(p + 8) != read2(p + 10) ||
                 read2(p + 10) == MEMBERS)
            status = qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = path },
                              "zip archive of several parts, or of over 65,534 members (zip64)");
        else if (read4(p + 16) > end || read4(p + 12) > end - read4(p + 16))
            status = malformed(z, end, "the directory is not in the file", err);
        else
            status = read_entries(z, read4(p + 16), read4(p + 16) + (size_t)read4(p + 12),
                                  read2(p + 10), err);
    }
    if (status)
        qkv_zip_close(z);
    else
        *out = z;
    return status;
}

void qkv_zip_close(qkv_zip *z)
{
    if (!z) return;
    // the entry at which reading stopped may have a name
    for (int64_t i = 0; z->member && i < z->count; i++) qkv_free(z->member[i].name);
    qkv_free(z->member);
    qkv_map_close(&z->map);
    qkv_free(z);
}

int64_t qkv_zip_count(const qkv_zip *z)
{
    return z ? z->count : 0;
}

static const struct member *member(const qkv_zip *z, int64_t i)
{
    return z && i >= 0 && i < z->count ? &z->member[i] : NULL;
}

const char *qkv_zip_name(const qkv_zip *z, int64_t i)
{
    const struct member *const m = member(z, i);
    return m ? m->name : NULL;
}

int64_t qkv_zip_size(const qkv_zip *z, int64_t i)
{
    const struct member *const m = member(z, i);
    return m ? (int64_t)m->size : -1;
}

// ---- contents ----------------------------------------------------------------------------------
static void *take(void *opaque, uInt count, uInt size)
{
    (void)opaque;
    return qkv_alloc(count, size);
}
static void give(void *opaque, void *block)
{
    (void)opaque;
    qkv_free(block);
}

struct reading {
    int (*write)(void *context, const void *data, size_t bytes);
    void *context;
    uint32_t crc;
    uint64_t size; // bytes so far
};

static bool pass(struct reading *r, const void *data, size_t bytes)
{
    r->crc = (uint32_t)crc32(r->crc, data, (uInt)bytes);
    r->size += bytes;
    return r->write(r->context, data, bytes) == 0;
}

static qkv_status interrupted(const qkv_zip *z, qkv_error *err)
{
    return qkv_fail(err, QKV_ERR_INTERRUPTED, &(struct qkv_location){ .file = z->map.path },
                    "interrupted");
}

static qkv_status inflate_member(const qkv_zip *z, const struct member *m, size_t at,
                                 struct reading *r, qkv_error *err)
{
    z_stream s = { .zalloc = take, .zfree = give };
    uint8_t *const piece = qkv_alloc(PIECE, 1);
    int code = piece ? inflateInit2(&s, -15) : Z_MEM_ERROR; // -15: without a header
    qkv_status status = QKV_OK;
    if (code != Z_OK) {
        qkv_free(piece);
        return qkv_fail_memory(err, z->map.path);
    }
    s.next_in = (Bytef *)(uintptr_t)(z->map.data + at);
    s.avail_in = m->packed;
    while (!status && code == Z_OK) {
        s.next_out = piece;
        s.avail_out = PIECE;
        code = inflate(&s, Z_NO_FLUSH);
        const size_t n = PIECE - s.avail_out;
        if (code == Z_MEM_ERROR)
            status = qkv_fail_memory(err, z->map.path);
        else if ((code != Z_OK && code != Z_STREAM_END) || n > m->size - r->size)
            status = malformed(z, at + (size_t)(m->packed - s.avail_in),
                               "the data of a member does not decompress to its size", err);
        else if (n && !pass(r, piece, n))
            status = interrupted(z, err);
    }
    inflateEnd(&s);
    qkv_free(piece);
    return status;
}

qkv_status qkv_zip_read(const qkv_zip *z, int64_t i,
                        int (*write)(void *context, const void *data, size_t bytes), void *context,
                        qkv_error *err)
{
    const struct member *const m = member(z, i);
    struct reading r = { .write = write, .context = context };
    if (!m || !write)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "qkv_zip_read: expected a member and a function");
    const size_t size = z->map.size;
    if (m->flags & 1 || (m->method != 0 && m->method != 8))
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = z->map.path },
                        "zip archive: a member is encrypted or has the method %u, expected stored "
                        "or deflate",
                        m->method);
    if (m->at > size || size - m->at < LOCAL_BYTES || read4(z->map.data + m->at) != 0x04034b50)
        return malformed(z, m->at, "expected the header of a member", err);
    const uint8_t *const p = z->map.data + m->at;
    const size_t at = (size_t)m->at + LOCAL_BYTES + read2(p + 26) + read2(p + 28);
    if (at > size || size - at < m->packed || (!m->method && m->packed != m->size))
        return malformed(z, m->at, "the data of a member is not in the file", err);
    qkv_status status = QKV_OK;
    if (m->method) {
        status = inflate_member(z, m, at, &r, err);
    } else {
        for (size_t done = 0, n; !status && done < m->size; done += n) {
            n = m->size - done < PIECE ? m->size - done : PIECE;
            if (!pass(&r, z->map.data + at + done, n)) status = interrupted(z, err);
        }
    }
    if (!status && (r.size != m->size || r.crc != m->crc))
        status = malformed(z, at, "size or CRC-32 of a member differs from the directory", err);
    return status;
}
