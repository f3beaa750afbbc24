// SPDX-License-Identifier: MIT
// deflate.c: compresses standard input to standard output as raw deflate (RFC 1951), at build time.
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

enum { MOST = 1 << 24 }; // bytes of the input

int main(void)
{
    unsigned char *in = malloc(MOST);
    const size_t n = in ? fread(in, 1, MOST, stdin) : 0;
    z_stream z = { 0 };
    if (!in || n == MOST || ferror(stdin) ||
        deflateInit2(&z, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY) != Z_OK)
        return 1;
    const uLong capacity = deflateBound(&z, (uLong)n);
    unsigned char *out = malloc(capacity);
    z.next_in = in;
    z.avail_in = (uInt)n;
    z.next_out = out;
    z.avail_out = (uInt)capacity;
    if (!out || deflate(&z, Z_FINISH) != Z_STREAM_END) return 1;
    const size_t written = fwrite(out, 1, z.total_out, stdout);
    const int bad = written != z.total_out || fflush(stdout) != 0;
    deflateEnd(&z);
    free(in);
    free(out);
    return bad;
}
