// SPDX-License-Identifier: MIT
// attention_back_dot.h: computes the dot product of two rows of type STORED. The file is a
// template, included once for each type.

// Returns sum_f dout[f] out[f]. Elements with out[f] = 0 are skipped, so dout[f] may be nonfinite.
static real NAME(back_dot)(const void *dout, const void *out, int64_t F)
{
    const ELEMENT *a = dout, *b = out;
    vf sum = vf_zero();
    for (int64_t f = 0; f < F; f += VW) {
        const int64_t n = F - f;
        const vf x = n < VW ? NAME_N(vf_load)(a + f, n) : NAME(vf_load)(a + f);
        const vf y = n < VW ? NAME_N(vf_load)(b + f, n) : NAME(vf_load)(b + f);
        sum = vf_fma(vf_select(vm_not_equal(y, vf_zero()), x, vf_zero()), y, sum);
    }
    return vf_total(sum);
}
