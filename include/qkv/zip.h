// SPDX-License-Identifier: MIT
/** zip.h: reads the files of a zip archive, such as a wheel of PyPI. */
#ifndef QKV_ZIP_H
#define QKV_ZIP_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

typedef struct qkv_zip qkv_zip;

/** Opens an archive and reads its directory.  Names are not interpreted: a caller that makes files
 *  of them has to refuse "..", absolute paths and links.
 *  Returns: QKV_OK; QKV_ERR_USAGE: an argument is NULL; QKV_ERR_IO; QKV_ERR_FORMAT with the byte
 *           offset: no archive, or its directory is not in the file; QKV_ERR_UNSUPPORTED: an
 *           archive of several parts or of over 4 GiB (zip64); QKV_ERR_LIMIT.  After an error *out
 *           is NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_zip_open(qkv_zip **out, const char *path, qkv_error *err);
QKV_API void qkv_zip_close(qkv_zip *z); /**< NULL is fine */

QKV_API int64_t qkv_zip_count(const qkv_zip *z); /**< number of members */
/** Returns the name of member i, without NUL inside; NULL: there is no such member. */
QKV_API const char *qkv_zip_name(const qkv_zip *z, int64_t i);
/** Returns the number of bytes of member i after decompression; -1: there is no such member. */
QKV_API int64_t qkv_zip_size(const qkv_zip *z, int64_t i);
/** Passes the bytes of member i in pieces to write(), which returns 0 to continue.
 *  Returns: QKV_OK; QKV_ERR_USAGE; QKV_ERR_INTERRUPTED: write() returned another value;
 *           QKV_ERR_FORMAT with the byte offset: the member is not in the file, or its data does
 *           not decompress to the size and CRC-32 of the directory; QKV_ERR_UNSUPPORTED: the member
 *           is encrypted, or of another method than stored and deflate; QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_zip_read(const qkv_zip *z, int64_t i,
                                               int (*write)(void *context, const void *data,
                                                            size_t bytes),
                                               void *context, qkv_error *err);

QKV_END_DECLS
#endif
