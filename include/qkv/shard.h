// SPDX-License-Identifier: MIT
/** shard.h: splits the lines of a file into shards that several machines compute, checks that the
 *  output files of all shards belong to one run, and reads them in order. */
#ifndef QKV_SHARD_H
#define QKV_SHARD_H

#include <qkv/output.h>

QKV_BEGIN_DECLS

enum {
    QKV_SHARD_COUNT_MAX = 1000000, /**< the most shards of an input */
    QKV_PART_PATH = 4096           /**< bytes of the path of a part with its NUL */
};

/** Shard `index` of `count`, 0 <= index < count <= QKV_SHARD_COUNT_MAX. */
struct qkv_shard {
    int64_t index, count;
};

/** Computes the rows of a shard: of `total` rows, each shard has total / count consecutive rows,
 *  and each of the first total % count shards one more.  The rule depends on nothing else; it is
 *  the rule of numpy.array_split.
 *  Out: the first row and the number of rows, 0 if there are more shards than rows.
 *  Returns: QKV_OK; QKV_ERR_USAGE: an argument is NULL or out of range. */
QKV_API QKV_MUST_CHECK qkv_status qkv_shard_range(int64_t *first, int64_t *rows,
                                                  const struct qkv_shard *s, int64_t total);

/** A text file and the lines of it that a shard has.  Lines end with \n; bytes after the last \n
 *  are a line too. */
struct qkv_shard_input {
    int64_t bytes, lines; /**< of the whole file */
    char sha256[65];      /**< of the whole file, in hexadecimal digits */
    int64_t first, rows;  /**< qkv_shard_range: the first line, from 0, and the number of lines */
    int64_t offset;       /**< the byte at which line `first` begins */
};
/** Reads the whole file once, counts its lines and finds the lines of the shard.  progress may be
 *  NULL; it counts bytes.
 *  Returns: QKV_OK; QKV_ERR_USAGE; QKV_ERR_IO (also: the path is no regular file), QKV_ERR_LIMIT,
 *           QKV_ERR_INTERRUPTED. */
QKV_API QKV_MUST_CHECK qkv_status qkv_shard_scan(struct qkv_shard_input *out,
                                                 const struct qkv_shard *s, const char *path,
                                                 const struct qkv_progress *progress,
                                                 qkv_error *err);

/** A property that all parts of a run have in common, such as "precision", "f32"; UTF-8. */
struct qkv_part_member {
    const char *name, *text;
};
/** The output file of a shard, a part.  Its path follows from `output`, the name of the whole
 *  output: shard 3 of 10 of out.npy is out.part-00003-of-00010.npy; its manifest, a JSON file, is
 *  out.part-00003-of-00010.npy.manifest.json. */
struct qkv_part {
    const char *output;
    struct qkv_shard shard;
    int64_t first, rows; /**< as in qkv_shard_range */
    const struct qkv_part_member *members;
    int64_t count; /**< number of members */
};
/** Writes the path of a part.  Returns QKV_OK; QKV_ERR_USAGE; QKV_ERR_IO: the path is too long. */
QKV_API QKV_MUST_CHECK qkv_status qkv_part_path(char out[QKV_PART_PATH], const char *output,
                                                const struct qkv_shard *s, qkv_error *err);
/** Finds out whether a part is complete: its manifest has the same members, and the SHA-256 of its
 *  file is that of the manifest.  A manifest without its file, which an interrupted run leaves, is
 *  a part that is not complete.  Removes temporary files that killed processes left of a complete
 *  part.
 *  Returns: QKV_OK; QKV_ERR_USAGE: the files at these paths are of another run (err names the
 *           member that differs), or the file has no manifest; QKV_ERR_FORMAT: a malformed
 *           manifest, or a file that differs from it; QKV_ERR_UNSUPPORTED: a later version of qkv
 *           wrote the manifest; QKV_ERR_IO, _LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_part_check(bool *complete, const struct qkv_part *part,
                                                 qkv_error *err);
/** Writes the manifest of a part whose bytes the caller has written to the descriptor of w, opened
 *  for qkv_part_path, and then commits w, also on error (output.h).  So a part that exists has its
 *  manifest, whenever the process is killed.  An existing manifest is replaced. */
QKV_API QKV_MUST_CHECK qkv_status qkv_part_commit(qkv_writer *w, const struct qkv_part *part,
                                                  qkv_error *err);

/** All parts of an output. */
typedef struct qkv_parts qkv_parts;
/** Finds the parts of an output and checks that all are there, that their manifests have the same
 *  members, and that their rows follow one another.
 *  Returns: QKV_OK; QKV_ERR_IO: no part is there, or some are missing (err lists their numbers);
 *           QKV_ERR_USAGE: there are parts of different runs (err names the member that differs);
 *           otherwise as qkv_part_check.  After an error *out is NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_parts_open(qkv_parts **out, const char *output,
                                                 qkv_error *err);
QKV_API void qkv_parts_close(qkv_parts *p); /**< NULL is allowed */
QKV_API int64_t qkv_parts_count(const qkv_parts *p);
QKV_API int64_t qkv_parts_rows(const qkv_parts *p); /**< number of rows of all parts */
/** Returns the text of a member that all parts have in common, or NULL if there is no such member.
 *  It is valid until the parts are closed. */
QKV_API const char *qkv_parts_member(const qkv_parts *p, const char *name);
/** Passes the bytes of a part, without the first `skip`, to write(user, data, bytes) in order, and
 *  compares the part with its manifest.  A result of write other than 0 stops the call.
 *  Out: *rows of the part, unless NULL.
 *  Returns: QKV_OK; QKV_ERR_USAGE; QKV_ERR_FORMAT: the part differs from its manifest;
 *           QKV_ERR_INTERRUPTED: write stopped the call; QKV_ERR_IO, _LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_parts_read(const qkv_parts *p, int64_t index, int64_t skip,
                                                 int (*write)(void *user, const void *data,
                                                              size_t bytes),
                                                 void *user, int64_t *rows, qkv_error *err);

QKV_END_DECLS
#endif
