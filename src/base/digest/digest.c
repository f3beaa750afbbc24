// SPDX-License-Identifier: MIT
// digest.c: computes SHA-256 and SHA-1 of data that arrives in parts: blocks of 64 bytes, then the
// bit 1, zeros and the number of bits (FIPS 180-4).
#include "base/digest/digest_blocks.h"
#include <qkv/digest.h>
#include <string.h>

void qkv_blocks_add(const struct qkv_blocks *b, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    while (bytes) {
        const size_t used = (size_t)(*b->bytes % 64), space = 64 - used;
        const size_t n = bytes < space ? bytes : space;
        if (n == 64) {
            b->block(b->state, p);
        } else {
            memcpy(b->part + used, p, n);
            if (used + n == 64) b->block(b->state, b->part);
        }
        *b->bytes += n;
        p += n;
        bytes -= n;
    }
}

void qkv_blocks_end(const struct qkv_blocks *b, char *hex, int digits)
{
    static const char digit[] = "0123456789abcdef";
    const uint64_t bits = *b->bytes * 8;
    const size_t used = (size_t)(*b->bytes % 64), pad = (used < 56 ? 56 : 120) - used;
    uint8_t tail[72] = { 0x80 };
    for (int i = 0; i < 8; i++) tail[pad + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
    qkv_blocks_add(b, tail, pad + 8);
    for (int i = 0; i < digits; i++) hex[i] = digit[b->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    hex[digits] = 0;
}

// ---- the public functions ----------------------------------------------------------------------
static struct qkv_blocks blocks_of(struct qkv_digest *d)
{
    return (struct qkv_blocks){ d->state, &d->bytes, d->part,
                                d->kind == QKV_DIGEST_SHA1 ? qkv_sha1_block : qkv_sha256_block };
}

void qkv_digest_begin(struct qkv_digest *d, enum qkv_digest_kind kind)
{
    static const uint32_t sha1[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
    if (!d) return;
    *d = (struct qkv_digest){ .kind = kind };
    if (kind == QKV_DIGEST_SHA1)
        memcpy(d->state, sha1, sizeof sha1);
    else
        memcpy(d->state, qkv_sha256_first, sizeof qkv_sha256_first);
}

void qkv_digest_add(struct qkv_digest *d, const void *data, size_t bytes)
{
    if (!d || !data) return;
    const struct qkv_blocks b = blocks_of(d);
    qkv_blocks_add(&b, data, bytes);
}

void qkv_digest_end(struct qkv_digest *d, char hex[QKV_DIGEST_TEXT])
{
    if (!hex) return;
    hex[0] = 0;
    if (!d) return;
    const struct qkv_blocks b = blocks_of(d);
    qkv_blocks_end(&b, hex, d->kind == QKV_DIGEST_SHA1 ? 40 : 64);
}
