// SPDX-License-Identifier: MIT
// compress.c: encodes the bytes of a page: raw deflate (RFC 1951, with zlib), CRC-32, base64 (RFC
// 4648).
#include "view/page/compress.h"
#include "base/base.h"
#include <limits.h>
#include <string.h>
#include <zlib.h>

static voidpf take(voidpf opaque, uInt items, uInt size)
{
    (void)opaque;
    return qkv_alloc(items, size);
}
static void give(voidpf opaque, voidpf p)
{
    (void)opaque;
    qkv_free(p);
}

// Compresses bytes[n] with the stream, whose output has `capacity` bytes in all: numbers by Huffman
// coding only, since quantized numbers look random and do not repeat. The piece ends with a Huffman
// block, so that other bytes have a code of their own. Returns the last code of zlib.
static int deflate_piece(z_stream *z, uLong capacity, const uint8_t *bytes, int64_t n, bool repeats,
                         int flush)
{
    uLong read = 0;
    int code = deflateParams(z, 6, repeats ? Z_DEFAULT_STRATEGY : Z_HUFFMAN_ONLY);
    while (code == Z_OK) { // a call of zlib takes at most 2^32 - 1 bytes
        const uLong left = (uLong)n - read, space = capacity - z->total_out;
        z->next_in = (z_const Bytef *)bytes + read;
        z->avail_in = left < UINT_MAX ? (uInt)left : UINT_MAX;
        z->avail_out = space < UINT_MAX ? (uInt)space : UINT_MAX;
        const uInt had_in = z->avail_in;
        code = deflate(z, had_in == left ? flush : Z_NO_FLUSH);
        read += had_in - z->avail_in;
        if (flush != Z_FINISH && read == (uLong)n && z->avail_out) break;
    }
    return code;
}

// Starts a stream without pieces. Returns false if memory is exhausted.
static bool start(struct view_stream *s)
{
    z_stream *z = qkv_alloc_zero(1, sizeof *z);
    if (!z) return false;
    z->zalloc = take;
    z->zfree = give;
    if (deflateInit2(z, 6, Z_DEFLATED, -15, 9, Z_HUFFMAN_ONLY) != Z_OK) { // -15 means raw deflate
        qkv_free(z);
        return false;
    }
    s->state = z;
    return true;
}

void view_stream_free(struct view_stream *s)
{
    if (s->state) deflateEnd(s->state);
    qkv_free(s->state);
    *s = (struct view_stream){ 0 };
}

qkv_status view_deflate(uint8_t **out, int64_t *size, struct view_stream *stream,
                        const uint8_t *bytes, int64_t n, const struct view_piece *piece,
                        int64_t pieces, qkv_error *err)
{
    *size = 0;
    if (n > LONG_MAX / 2 || pieces > LONG_MAX / 1024 || (!stream->state && !start(stream)))
        return qkv_fail_memory(err, NULL);
    z_stream *z = stream->state, last = { 0 };
    // the end of a block adds at most the lengths of its codes
    const uLong capacity = deflateBound(z, (uLong)n) + 512 * (uLong)pieces;
    if (!qkv_reserve((void **)out, &stream->capacity, (int64_t)capacity, 1))
        return qkv_fail_memory(err, NULL);
    z->next_out = *out + stream->size;
    int64_t at = stream->pieces ? piece[stream->pieces - 1].end : 0;
    int code = Z_OK;
    for (int64_t i = stream->pieces; i < pieces && code == Z_OK; i++) {
        code = deflate_piece(z, capacity, bytes + at, piece[i].end - at, piece[i].repeats, Z_BLOCK);
        at = piece[i].end;
    }
    stream->pieces = pieces;
    stream->size = (int64_t)z->total_out;
    // a copy of the stream ends, so that the stream itself can be continued
    if (code == Z_OK) code = deflateCopy(&last, z);
    if (code == Z_OK) code = deflate_piece(&last, capacity, bytes + at, n - at, false, Z_FINISH);
    *size = (int64_t)last.total_out;
    deflateEnd(&last);
    if (code == Z_STREAM_END) return QKV_OK;
    return code == Z_MEM_ERROR ? qkv_fail_memory(err, NULL)
                               : qkv_fail(err, QKV_ERR_INTERNAL, NULL,
                                          "zlib cannot compress the page, it returned %d", code);
}

uint32_t view_crc32(const uint8_t *bytes, int64_t n)
{
    return (uint32_t)crc32_z(0, bytes, (z_size_t)n);
}

void view_base64(char *out, const uint8_t *bytes, int64_t n)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int64_t i = 0; i < n; i += 3) {
        const int64_t left = n - i;
        const uint32_t x = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                           (left > 2 ? bytes[i + 2] : 0);
        *out++ = digit[x >> 18];
        *out++ = digit[x >> 12 & 63];
        *out++ = left > 1 ? digit[x >> 6 & 63] : '=';
        *out++ = left > 2 ? digit[x & 63] : '=';
    }
}
