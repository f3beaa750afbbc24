// SPDX-License-Identifier: MIT
// compress.h: declares the encodings that pages and pictures share: deflate, CRC-32, base64.
#ifndef QKV_VIEW_COMPRESS_H
#define QKV_VIEW_COMPRESS_H

#include "view/view.h"

// Bytes that are compressed with a code of their own, up to `end` from the end of the piece before.
// repeats: they are also searched for repeated strings, which numbers rarely have.
struct view_piece {
    int64_t end;
    bool repeats;
};
// A compression after its first `pieces` pieces, for which it has written `size` bytes. Zero: none.
struct view_stream {
    void *state; // of zlib
    int64_t pieces, size;
    int64_t capacity; // bytes of the array that it writes to
};
// Compresses bytes[n] as raw deflate to *out, which grows as needed, of *size bytes. What follows
// the last piece is one piece more. The stream stays open after the last piece: the next call must
// begin with the same pieces and compresses only those that follow. After an error the stream can
// only be freed.
qkv_status view_deflate(uint8_t **out, int64_t *size, struct view_stream *stream,
                        const uint8_t *bytes, int64_t n, const struct view_piece *piece,
                        int64_t pieces, qkv_error *err);
void view_stream_free(struct view_stream *s);
uint32_t view_crc32(const uint8_t *bytes, int64_t n);
// Writes bytes[n] as base64 to out[4 * ceil(n / 3)]. The result is not terminated by NUL.
void view_base64(char *out, const uint8_t *bytes, int64_t n);
#endif
