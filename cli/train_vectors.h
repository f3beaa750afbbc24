// SPDX-License-Identifier: MIT
// train_vectors.h: `qkv train --objective words` (train_vectors.c).
#ifndef QKV_TRAIN_VECTORS_H
#define QKV_TRAIN_VECTORS_H
#include <qkv/qkv.h>

// Options of its own, filled by the command's table.
struct train_vectors {
    int64_t window, negative, least;
    bool cbow;
};
// Trains with what of o concerns words (train, run, width, epochs, rate, vocab, seed) and prints
// the result.
qkv_status train_vectors(const struct qkv_train_options *o, const struct train_vectors *v,
                         qkv_error *err);
#endif
