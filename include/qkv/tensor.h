// SPDX-License-Identifier: MIT
/** tensor.h: reads named arrays from .safetensors (also sharded) and .npy files by memory mapping,
 *  and writes such files completely or not at all.
 *
 *  Source: the safetensors format description (huggingface/safetensors README); NEP 1 for .npy.
 */
#ifndef QKV_TENSOR_H
#define QKV_TENSOR_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

enum { QKV_RANK_MAX = 8 };

/** An array in row-major order and little-endian bytes.  name and data point into memory that the
 *  tensor set or the caller owns; data of files written by old versions of safetensors may be
 *  unaligned. */
struct qkv_tensor {
    const char *name;
    qkv_dtype dtype;
    int rank;
    int64_t shape[QKV_RANK_MAX];
    const void *data;
    size_t bytes;
};
/** Returns the number of elements: the product of the sizes in shape, 1 for rank 0.  It fits
 *  int64_t for every tensor of qkv_tensors_open. */
QKV_API int64_t qkv_tensor_count(const struct qkv_tensor *t);

/** Converts the elements of t to float in out[qkv_tensor_count(t)]: F64 and integers are rounded to
 *  nearest, F16 and BF16 are exact, BOOL becomes 0 or 1. */
QKV_API void qkv_tensor_to_f32(float *out, const struct qkv_tensor *t);

/** Options of qkv_tensors_open; zero is the default. */
struct qkv_tensors_options {
    /** read the file into memory instead of mapping it: safe if another process truncates the
     *  file */
    bool no_mmap;
    /** read types and shapes only: the data of an array of .npy that has to be copied to be used
     *  (Fortran order, big-endian) is NULL until qkv_tensors_convert */
    bool shapes_only;
};

/** A set of named tensors from one or more files.  Tensors point into its memory until close. */
typedef struct qkv_tensors qkv_tensors;

/** Opens the tensors at path: FILE.safetensors, FILE.safetensors.index.json, FILE.npy (one tensor,
 *  name ""), FILE.bin (a checkpoint of llama2.c), or a folder with model.safetensors,
 *  model.qkv-int8.safetensors (of qkv convert), the index of either, or model.bin of llama2.c.
 *  The format is recognised by the contents of the file, then by its name.  o may be NULL.
 *  Returns: QKV_OK; QKV_ERR_USAGE: out or path is NULL; QKV_ERR_IO, _FORMAT, _UNSUPPORTED (pickle,
 *           GGUF, npz), _LIMIT.  After an error *out is NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_tensors_open(qkv_tensors **out, const char *path,
                                                   const struct qkv_tensors_options *o,
                                                   qkv_error *err);
/** Copies the data that qkv_tensors_open left out because of shapes_only; else it does nothing.
 *  Returns: QKV_OK; QKV_ERR_USAGE: t is NULL; QKV_ERR_LIMIT: out of memory, and the data is still
 *           NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_tensors_convert(qkv_tensors *t, qkv_error *err);
QKV_API void qkv_tensors_close(qkv_tensors *t);
QKV_API int64_t qkv_tensors_count(const qkv_tensors *t);
/** Returns the i-th tensor in the byte order of the names, or NULL if i is past the last. */
QKV_API const struct qkv_tensor *qkv_tensors_at(const qkv_tensors *t, int64_t i);
/** Returns the tensor of that name, or NULL if there is no such tensor.  The search takes
 *  log(count) comparisons of names. */
QKV_API const struct qkv_tensor *qkv_tensors_find(const qkv_tensors *t, const char *name);
/** Returns the value of a key of the file's __metadata__, or NULL if there is no such key. */
QKV_API const char *qkv_tensors_metadata(const qkv_tensors *t, const char *key);

/** Writes a .npy file as NAME.tmp.PID.N in the folder of the target, then renames it; a symbolic
 *  link is followed, and a target that is not a regular file (/dev/stdout) is written directly.
 *  t->name and t->bytes are ignored.
 *  Returns: QKV_OK; QKV_ERR_USAGE (the file exists and force is false; path, t or its data is NULL;
 *           its dtype, rank or sizes are invalid); QKV_ERR_UNSUPPORTED (BF16, which .npy lacks);
 *           QKV_ERR_IO, _LIMIT.  After an error the target is unchanged. */
QKV_API QKV_MUST_CHECK qkv_status qkv_npy_write(const char *path, const struct qkv_tensor *t,
                                                bool force, qkv_error *err);

/** A writer of one safetensors file.  It writes tensor by tensor, so that the tensors need not be
 *  in memory together.
 *  qkv_safetensors_create reads names, dtypes and shapes from t[n] and ignores its data;
 *  metadata is an array of strings { key, value, ..., NULL }, or NULL for no metadata.  There are
 *  no gaps between tensors, so all tensors are aligned only if the tensors with larger dtypes come
 *  first.
 *  qkv_safetensors_append writes the bytes of the tensors in the order of t[], in pieces of any
 *  size.
 *  qkv_safetensors_finish requires that all bytes were added, and renames the file.
 *  Returns: QKV_OK; QKV_ERR_USAGE (names or shapes that readers reject; too many or too few
 *           bytes; the file exists and force is false); QKV_ERR_IO, _LIMIT: the target is
 *           unchanged, and the writer accepts no more bytes. */
typedef struct qkv_safetensors_writer qkv_safetensors_writer;
QKV_API QKV_MUST_CHECK qkv_status qkv_safetensors_create(qkv_safetensors_writer **out,
                                                         const char *path,
                                                         const struct qkv_tensor *t, int64_t n,
                                                         const char *const *metadata, bool force,
                                                         qkv_error *err);
QKV_API QKV_MUST_CHECK qkv_status qkv_safetensors_append(qkv_safetensors_writer *w,
                                                         const void *data, size_t bytes,
                                                         qkv_error *err);
QKV_API QKV_MUST_CHECK qkv_status qkv_safetensors_finish(qkv_safetensors_writer *w, qkv_error *err);
/** Frees the writer; if finish was not called, it also removes the unfinished file.  w may be
 *  NULL. */
QKV_API void qkv_safetensors_close(qkv_safetensors_writer *w);

QKV_END_DECLS
#endif
