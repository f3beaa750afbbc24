// SPDX-License-Identifier: MIT
/** digest.h: SHA-256 and SHA-1 (FIPS 180-4) of data that arrives in parts.
 *
 *      struct qkv_digest d;
 *      char hex[QKV_DIGEST_TEXT];
 *      qkv_digest_begin(&d, QKV_DIGEST_SHA256);
 *      while ((n = read(fd, buffer, sizeof buffer)) > 0) qkv_digest_add(&d, buffer, n);
 *      qkv_digest_end(&d, hex);
 *
 *  SHA-1 names the files of a Git repository; it does not protect against an attacker. */
#ifndef QKV_DIGEST_H
#define QKV_DIGEST_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

enum qkv_digest_kind { QKV_DIGEST_SHA256 = 0, QKV_DIGEST_SHA1 };
enum { QKV_DIGEST_TEXT = 65 }; /**< the most hexadecimal digits, and a NUL */

/** The state of a digest.  A copy of it is the state of the same data. */
struct qkv_digest {
    enum qkv_digest_kind kind;
    uint32_t state[8];
    uint64_t bytes;   /**< number of bytes so far */
    uint8_t part[64]; /**< the incomplete block */
};

/** Begins a digest: of no data. */
QKV_API void qkv_digest_begin(struct qkv_digest *d, enum qkv_digest_kind kind);
/** Adds data[bytes]. */
QKV_API void qkv_digest_add(struct qkv_digest *d, const void *data, size_t bytes);
/** Writes the digest in lower-case hexadecimal digits, 64 of SHA-256 or 40 of SHA-1, with a NUL.
 *  The state is not valid afterwards. */
QKV_API void qkv_digest_end(struct qkv_digest *d, char hex[QKV_DIGEST_TEXT]);

QKV_END_DECLS
#endif
