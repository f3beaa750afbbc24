// SPDX-License-Identifier: MIT
/** tensor.h: named arrays in files: .safetensors (also sharded), .npy; read mapped, written whole.
 *
 *  Source: the safetensors format description (huggingface/safetensors README); NEP 1 for .npy.
 */
#ifndef QKV_TENSOR_H
#define QKV_TENSOR_H

#include <qkv/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { QKV_RANK_MAX = 8 };

/** A borrowed array in row-major order, little-endian; data may be unaligned in old files. */
struct qkv_tensor {
    const char *name;
    qkv_dtype dtype;
    int rank;
    int64_t shape[QKV_RANK_MAX];
    const void *data;
    size_t bytes;
};
/** Product of the shape; 1 for rank 0.  Every tensor that was opened here has one that fits. */
QKV_API int64_t qkv_tensor_count(const struct qkv_tensor *t);

/** out[count] = t as float: F64 rounded, halves exact, integers rounded to nearest, BOOL 0 or 1. */
QKV_API void qkv_tensor_to_f32(float *out, const struct qkv_tensor *t);

/** How to open; zero is the default. */
struct qkv_tensors_options {
    bool no_mmap; /**< read into memory: safe against a file that shrinks while it is used */
};

/** An opened set of named tensors.  Tensors point into it until close. */
typedef struct qkv_tensors qkv_tensors;

/** path: FILE.safetensors, FILE.safetensors.index.json, FILE.npy (one tensor, name ""), or a
 *  folder with model.safetensors or model.safetensors.index.json.
 *  The kind is told by content, then by name.  o may be NULL.
 *  Returns: QKV_OK; QKV_ERR_IO, _FORMAT, _UNSUPPORTED (pickle, GGUF, npz), _LIMIT: *out is NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_tensors_open(qkv_tensors **out, const char *path,
                                                   const struct qkv_tensors_options *o,
                                                   qkv_error *err);
QKV_API void qkv_tensors_close(qkv_tensors *t);
QKV_API int64_t qkv_tensors_count(const qkv_tensors *t);
/** The i-th in the order of names (bytes compared); NULL past the last. */
QKV_API const struct qkv_tensor *qkv_tensors_at(const qkv_tensors *t, int64_t i);
/** NULL: no tensor of that name.  log(count) steps. */
QKV_API const struct qkv_tensor *qkv_tensors_find(const qkv_tensors *t, const char *name);
/** Value of the file's __metadata__, NULL when it has none of that name. */
QKV_API const char *qkv_tensors_metadata(const qkv_tensors *t, const char *key);

/** Files are written as NAME.tmp.PID beside the target, then renamed; a link is followed, and what
 *  is no file (/dev/stdout) is written to as it is.  t->name and t->bytes are not read.
 *  Returns: QKV_OK; QKV_ERR_USAGE (exists, and not force); QKV_ERR_UNSUPPORTED (BF16: .npy has
 *  none); QKV_ERR_IO, _LIMIT: target untouched. */
QKV_API QKV_MUST_CHECK qkv_status qkv_npy_write(const char *path, const struct qkv_tensor *t,
                                                bool force, qkv_error *err);

/** A safetensors file written tensor by tensor, so that not all need be in memory at once.
 *  create: t[n] gives names, dtypes, shapes (data unused); metadata: key, value, ..., NULL, or
 *  NULL.
 *          There are no gaps between tensors: put larger dtypes first to keep all aligned.
 *  append: bytes in the order of t[], in pieces of any size.  finish: renames; needs every byte.
 *  Returns: QKV_OK; QKV_ERR_USAGE (what no reader would take; too many or too few bytes; exists,
 *  and not force); QKV_ERR_IO, _LIMIT: target untouched, and the writer takes nothing more. */
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
/** Gives up and removes what was written; after finish it only frees.  NULL is fine. */
QKV_API void qkv_safetensors_close(qkv_safetensors_writer *w);

#ifdef __cplusplus
}
#endif
#endif
