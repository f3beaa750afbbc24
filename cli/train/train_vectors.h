// SPDX-License-Identifier: MIT
// train_vectors.h: declares `qkv train --objective words`, which trains word vectors.
#ifndef QKV_TRAIN_VECTORS_H
#define QKV_TRAIN_VECTORS_H
#include <qkv/qkv.h>

// Values of the options that only word vectors have. Parsing the options of `qkv train` sets them.
struct train_vectors {
    int64_t window, negative, least;
    bool cbow;
};
// Trains word vectors and prints the result.  Uses these members of o: train, run, width, epochs,
// rate, vocab and seed.
qkv_status train_vectors(const struct qkv_train_options *o, const struct train_vectors *v,
                         qkv_error *err);
#endif
