// SPDX-License-Identifier: MIT
/** convert.h: copies a model folder and converts its weights to another type. */
#ifndef QKV_CONVERT_H
#define QKV_CONVERT_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/** Options of qkv_convert; zero is the default. */
struct qkv_convert_options {
    /** With F32, F16 and BF16, every floating-point tensor is converted to that type.  With INT8
     *  the weights of linear layers are stored in 8 bits with a float scale per output (tensor NAME
     *  as I8, NAME.scale as F32); norms, biases and embeddings do not change, even if the
     *  embeddings are also the weights of the output projection.  An INT8 folder and the original
     *  folder opened as INT8 give bit-identical results. */
    qkv_precision precision;
    /** the most bytes of tensors per weight file; 0: one file without an index */
    int64_t shard_bytes;
    bool force;                   /**< replace an existing model folder */
    struct qkv_progress progress; /**< progress, counted in bytes of tensors */
};

/** Counts of a conversion. */
struct qkv_convert_report {
    int64_t tensors, files;      /**< number of tensors and of weight files */
    int64_t bytes_in, bytes_out; /**< bytes of tensors in the original and in the new folder */
    int64_t eight_bits;          /**< tensors converted to 8 bits */
    /** files of the original folder that were not copied: weights in other formats, large files,
     *  the state of a training checkpoint, and files that are not regular */
    int64_t left_out;
    /** links in dir that were not copied, because they lead out of dir, to a folder or to nothing;
     *  in the cache of the Hugging Face hub, links to the blobs of the model are copied */
    int64_t links;
};

/** Converts the model in dir, a model folder (safetensors, sharded or not) or a checkpoint of
 *  llama2.c (FILE.bin, or a folder with model.bin).  Writes the new folder as OUT.tmp.PID.N and
 *  renames it to out: config.json with the new type, the weights, and a copy of every other small
 *  file (tokenizer, pooling, ...) and of the weights of the modules that modules.json names.  o and
 *  report may be NULL.
 *  Returns:  QKV_OK; QKV_ERR_USAGE (out exists; out is dir or inside it, or dir is inside out;
 *            precision; shard_bytes < 0);
 *            QKV_ERR_FORMAT (config.json, the weights, the tokenizer, modules.json or a file of a
 *            module is a link out of dir; the folder of a module is a link; config.json lacks
 *            model_type);
 *            QKV_ERR_UNSUPPORTED (INT8 for an unknown family; a tensor that has 8 bits already; a
 *            number above the range of F16; for INT8, a number of a linear layer that is not
 *            finite: err names the file and the tensor); errors of qkv_tensors_open;
 *            QKV_ERR_IO, _LIMIT, _INTERRUPTED.  After an error no new file remains */
QKV_API QKV_MUST_CHECK qkv_status qkv_convert(const char *dir, const char *out,
                                              const struct qkv_convert_options *o,
                                              struct qkv_convert_report *report, qkv_error *err);

QKV_END_DECLS
#endif
