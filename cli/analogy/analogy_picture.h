// SPDX-License-Identifier: MIT
// analogy_picture.h: declares the picture of `qkv analogy`: a sum of words as arrows in a plane.
#ifndef QKV_CLI_ANALOGY_PICTURE_H
#define QKV_CLI_ANALOGY_PICTURE_H

#include "frame/charts.h"

// A sum of words, and the words nearest to it.
struct analogy {
    const qkv_model *model;
    const char *const *word; // [n] words of the sum
    const float *sign;       // [n] +1 or -1
    const int32_t *id;       // [n] their tokens
    int64_t n;
    const char *const *near; // [found] the nearest words, in descending order of cosine
    const int32_t *near_id;
    const float *cosine;
    int64_t found;
};
// Draws the sum in the terminal and in the file that `to` names; with --json, only in the file.
qkv_status analogy_picture(const struct analogy *a, const struct chart_output *to, qkv_error *err);
#endif
