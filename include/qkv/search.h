// SPDX-License-Identifier: MIT
/** search.h: finds the stored vectors with the largest dot products with a query, exactly.
 *
 *  Vectors are floats, bfloat16 or 8-bit integers with a scale per vector, in memory or in a mapped
 *  file.  The k vectors nearest to a query are
 *
 *      struct qkv_vectors v = { .count = n, .width = D, .type = QKV_F32, .rows = rows };
 *      status = qkv_search(matches, &found, &v, query, 1, k, &err);
 *
 *  For vectors of length 1 (qkv_embed) the dot product is the cosine.
 */
#ifndef QKV_SEARCH_H
#define QKV_SEARCH_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/** The largest width of vectors. */
#define QKV_VECTOR_WIDTH_MAX 131072

/** Vectors rows[count][width] of one type:
 *    QKV_F32, QKV_BF16  the numbers
 *    QKV_I8             integers q, -127 .. 127, of which each vector has a scale: q scales[row] */
struct qkv_vectors {
    int64_t count, width; /**< width: 1 .. QKV_VECTOR_WIDTH_MAX */
    qkv_dtype type;
    const void *rows;
    const float *scales; /**< [count] for QKV_I8; not read otherwise */
    void *file;          /**< the mapped file of qkv_vectors_open; otherwise NULL */
};

/** Converts n vectors x[n][width] to `type`: rounds to nearest even; for QKV_I8, the scale of a
 *  vector is max |x| / 127 (NaN if the vector has a nonfinite number).  rows[n][width] and
 *  scales[n] (only for QKV_I8, otherwise NULL is allowed) receive the result.
 *  Returns: QKV_OK; QKV_ERR_USAGE: an argument is out of range or NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_vectors_convert(void *rows, float *scales, qkv_dtype type,
                                                      const float *x, int64_t n, int64_t width);

/** Computes the bytes of vectors in a file: the rows; for QKV_I8, zeros up to a multiple of 64
 *  bytes, then the scales.
 *  Out: *bytes in all; *scales, unless NULL, the offset of the scales (for other types, *bytes).
 *  Returns: QKV_OK; QKV_ERR_USAGE: a size or the type is out of range; QKV_ERR_LIMIT: the bytes
 *           exceed int64_t. */
QKV_API QKV_MUST_CHECK qkv_status qkv_vectors_bytes(int64_t *bytes, int64_t *scales, qkv_dtype type,
                                                    int64_t count, int64_t width);

/** Maps the vectors of v->type, v->count and v->width that begin at byte `offset` of a file, a
 *  multiple of 64, and are its last bytes; sets the other members of v.
 *  Returns: QKV_OK; QKV_ERR_USAGE; QKV_ERR_FORMAT: the file has another size (err has the sizes);
 *           QKV_ERR_IO, _LIMIT.  After an error the members are NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_vectors_open(struct qkv_vectors *v, const char *path,
                                                   int64_t offset, qkv_error *err);
/** Unmaps the file of qkv_vectors_open; v may be NULL. */
QKV_API void qkv_vectors_close(struct qkv_vectors *v);

struct qkv_match {
    int64_t row; /**< of the vector, from 0 */
    float score; /**< its dot product with the query */
};
/** Finds, for each of n queries, the k vectors with the largest scores, by computing all of them.
 *  For QKV_I8 the query is quantised as a vector is, and the score is the exact integer sum,
 *  rounded to float, times the scale of the vector, times that of the query.
 *
 *  Out:      matches [n][k]      of each query the best first; entries from found[i] on are not
 *                                written
 *            found   [n]         number of matches: k, or less if there are fewer vectors with a
 *                                score
 *  In:       queries [n][width]
 *  Returns:  QKV_OK; QKV_ERR_USAGE (k < 1, n < 0, vectors out of range, NULL); QKV_ERR_LIMIT
 *  Edge:     of equal scores, the lower row comes first; a score that is NaN is no match
 *  Repeats:  the same bits for any number of threads and of queries in the call, on one instruction
 *            set; for QKV_I8 on every instruction set */
QKV_API QKV_MUST_CHECK qkv_status qkv_search(struct qkv_match *matches, int64_t *found,
                                             const struct qkv_vectors *v, const float *queries,
                                             int64_t n, int64_t k, qkv_error *err);

QKV_END_DECLS
#endif
