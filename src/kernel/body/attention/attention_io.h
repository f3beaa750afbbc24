// SPDX-License-Identifier: MIT
// attention_io.h: converts queries of type STORED to floats, and sums to outputs of type STORED.
// The file is a template, included once for each type.

static inline void NAME(pack_query)(void *packed, const void *given, int64_t E)
{
    real *to = packed;
    const ELEMENT *q = given;
    int64_t e = 0;
    for (; e + VW <= E; e += VW) vf_store(to + e, NAME(vf_load)(q + e));
    if (e < E) vf_store_n(to + e, NAME_N(vf_load)(q + e, E - e), E - e);
}

#include "kernel/body/attention/attention_divide.h"
