// SPDX-License-Identifier: MIT
/** output.h: writes a file of the host program completely or not at all, and removes what
 *  unfinished outputs left. */
#ifndef QKV_OUTPUT_H
#define QKV_OUTPUT_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/** An output file that the host program writes and that is complete or absent, as every file that
 *  the library writes: the bytes go to a new file NAME.tmp.PID.N in the same folder, which commit
 *  syncs and renames.  N is random, an existing file is never opened, and no link is followed.  A
 *  link at `path` itself is followed; a pipe, a device or a name such as /dev/fd/3 is written
 *  directly.
 *
 *  open        Returns QKV_OK; QKV_ERR_USAGE: path exists and force is false, or an argument is
 *              NULL; QKV_ERR_IO, _LIMIT
 *  descriptor  Returns the descriptor for write() and, unless it is written directly, read() and
 *              lseek(); it is open until commit or abort, which close it
 *  commit      Syncs the file, gives it its name and frees the writer, also on error, after which
 *              the file at `path` is unchanged.  Returns QKV_OK, or an error as open does
 *  abort       Removes the new file and frees the writer; w may be NULL */
typedef struct qkv_writer qkv_writer;
QKV_API QKV_MUST_CHECK qkv_status qkv_writer_open(qkv_writer **out, const char *path, bool force,
                                                  qkv_error *err);
QKV_API int qkv_writer_descriptor(const qkv_writer *w);
QKV_API QKV_MUST_CHECK qkv_status qkv_writer_commit(qkv_writer *w, qkv_error *err);
QKV_API void qkv_writer_abort(qkv_writer *w);

/** Removes the temporary files and folders of all outputs that this process has not finished: of
 *  qkv_writer_open, and of every call of the library that writes files.  For a host program that
 *  ends early.  Async-signal-safe on Linux; allocates nothing. */
QKV_API void qkv_temporaries_remove(void);

/** Returns true if name, without a folder, is the name of a temporary file or folder of an output
 *  whose name without its folder is base: base.tmp.PID.N, or the shorter name that a base of more
 *  than 116 bytes has (docs/formats.md).  Returns false if an argument is NULL. */
QKV_API bool qkv_temporary_is_of(const char *name, const char *base);

QKV_END_DECLS
#endif
