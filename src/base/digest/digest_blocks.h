// SPDX-License-Identifier: MIT
// digest_blocks.h: declares the parts that SHA-256 and SHA-1 share: blocks of 64 bytes and the end
// of a message (FIPS 180-4).
#ifndef QKV_DIGEST_BLOCKS_H
#define QKV_DIGEST_BLOCKS_H

#include "base/base.h"

// A message of which `bytes` bytes have arrived; `part` has the bytes of the incomplete block.
struct qkv_blocks {
    uint32_t *state;
    uint64_t *bytes;
    uint8_t *part;                                       // [64]
    void (*block)(uint32_t *state, const uint8_t *data); // updates the state with 64 bytes
};
void qkv_blocks_add(const struct qkv_blocks *b, const void *data, size_t bytes);
// Adds the end of a message and writes the first `digits` hexadecimal digits of the state, and NUL.
void qkv_blocks_end(const struct qkv_blocks *b, char *hex, int digits);

extern const uint32_t qkv_sha256_first[8]; // state before the first block
void qkv_sha256_block(uint32_t *state, const uint8_t *p);
void qkv_sha1_block(uint32_t *state, const uint8_t *p);
#endif
