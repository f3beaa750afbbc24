// SPDX-License-Identifier: MIT
// gradcheck_main.h: declares the result of a check, for qkv-gradcheck.
#ifndef QKV_GRADCHECK_MAIN_H
#define QKV_GRADCHECK_MAIN_H
#include "gradcheck.h"

#define GRADCHECK_LIMIT 1e-6 // largest relative error that a correct gradient may have

struct gradcheck_result {
    int64_t numbers; // how many numbers were compared
    // largest relative error; INFINITY: a gradient is NaN, or the check did not run
    double worst;
    char where[96];
};
// Runs a check. Of each array, it compares at most `most` numbers.
struct gradcheck_result gradcheck_result_of(void (*check)(struct gradcheck *g), int64_t most);
#endif
