// SPDX-License-Identifier: MIT
// convert_copy.h: declares the copying of the files of a model folder whose weights are converted.
#ifndef QKV_MODEL_CONVERT_COPY_H
#define QKV_MODEL_CONVERT_COPY_H

#include "file/file.h"
#include <qkv/convert.h>

// Copies the small files of the folder `from`, and the weights of the modules that its modules.json
// names, to the new folder. single: `from` is the folder of a model that is one file, of which only
// the tokenizer is copied. Counts what is left out in report, unless single is true.
qkv_status qkv_convert_copy(const struct qkv_folder *to, const char *from, bool single,
                            struct qkv_convert_report *report, qkv_error *err);
// Checks that the tokenizer of the folder `from`, its settings and modules.json can be copied: that
// none of these files is a link out of the folder.  A model opened without them would differ.
// Returns QKV_OK; QKV_ERR_FORMAT; QKV_ERR_IO.
qkv_status qkv_convert_check_copies(const char *from, qkv_error *err);
#endif
