// SPDX-License-Identifier: MIT
// attention_back_dot.h: a template: the product of two rows of STORED.

// sum_f dout[f] out[f]; where out is 0, dout does not count whatever it is.
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
