// SPDX-License-Identifier: MIT
// gradcheck_main.h: declares the results of a check for qkv-gradcheck.
#ifndef QKV_GRADCHECK_MAIN_H
#define QKV_GRADCHECK_MAIN_H
#include "gradcheck.h"

#define GRADCHECK_LIMIT 1e-6 // largest relative error of a correct gradient

struct gradcheck_result {
    int64_t numbers; // numbers that were compared
    double worst;    // worst relative error; INFINITY: a NaN, or the check did not run
    char where[96];
};
// Runs a check; of each array it compares at most `most` numbers.
struct gradcheck_result gradcheck_result_of(void (*check)(struct gradcheck *g), int64_t most);
#endif
