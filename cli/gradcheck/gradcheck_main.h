// SPDX-License-Identifier: MIT
// gradcheck_main.h: between the program and the comparison.
#ifndef QKV_GRADCHECK_MAIN_H
#define QKV_GRADCHECK_MAIN_H
#include "gradcheck.h"

#define GRADCHECK_LIMIT 1e-6 // of a relative error

struct gradcheck_result {
    int64_t numbers; // that were compared
    double worst;    // relative error; INFINITY: not a number, or the check did not run
    char where[96];
};
// Runs a check, looking at `most` numbers of each array.
struct gradcheck_result gradcheck_result_of(void (*check)(struct gradcheck *g), int64_t most);
#endif
