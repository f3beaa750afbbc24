// SPDX-License-Identifier: MIT
// attention_divide.h: divides the sums of a row and stores them as type STORED. The file is a
// template, included once for each type.

static void NAME(divide)(void *to, const real *o, real sum, int64_t F)
{
    ELEMENT *out = to;
    if (sum == 0) {
        for (int64_t f = 0; f < F; f++) out[f] = 0;
        return;
    }
    const vf times = vf_set1(1 / sum), zero = vf_zero();
    int64_t f = 0;
    for (; f + VW <= F; f += VW)
        NAME(vf_store)(out + f, vf_fma(vf_load(o + f), times, zero)); // adding 0 turns -0 into 0
    if (f < F) NAME_N(vf_store)(out + f, vf_fma(vf_load(o + f), times, zero), F - f);
}
