// SPDX-License-Identifier: MIT
/** convert.h: a model folder with its weights in another type.
 */
#ifndef QKV_CONVERT_H
#define QKV_CONVERT_H

#include <qkv/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Zero is the default. */
struct qkv_convert_options {
    /** F32, F16, BF16: every tensor of floats gets that type.  INT8: the weights of linear layers
     *  get 8 bits and a float scale for each of their outputs (tensor NAME as I8, NAME.scale as
     *  F32); norms, biases and embeddings, also where they are the output projection, stay as they
     *  are.  Such a folder is run as INT8, with the bits that INT8 at load has of the folder it was
     *  made of. */
    qkv_precision precision;
    int64_t shard_bytes; /**< most bytes of tensors in a file, with an index; 0: one file */
    bool force;          /**< replace a model's folder that is there */
    struct qkv_progress progress; /**< bytes of tensors */
};

/** What was written; may be NULL. */
struct qkv_convert_report {
    int64_t tensors, files;      /**< of weights */
    int64_t bytes_in, bytes_out; /**< of tensors, before and now */
    int64_t eight_bits;          /**< tensors that are whole numbers of 8 bits now */
    int64_t left_out;            /**< files of the folder that were not copied: other weights */
};

/** dir: a model's folder (safetensors, sharded or not) or a checkpoint of llama2.c (FILE.bin, or a
 *  folder with model.bin).  out: the new folder, written as OUT.tmp.PID and renamed: config.json
 *  with the new type, the weights, and every small file beside them (tokenizer, pooling, ...).
 *  Returns:  QKV_OK; QKV_ERR_USAGE (exists, out is dir or in it, precision); QKV_ERR_UNSUPPORTED
 *            (INT8 of a family that is not known; 8 bits of what has 8 bits; a number of F16 that
 *            is larger than F16 holds: which tensor); as qkv_tensors_open; QKV_ERR_IO, _LIMIT,
 *            _INTERRUPTED: nothing is left behind */
QKV_API QKV_MUST_CHECK qkv_status qkv_convert(const char *dir, const char *out,
                                              const struct qkv_convert_options *o,
                                              struct qkv_convert_report *report, qkv_error *err);

#ifdef __cplusplus
}
#endif
#endif
