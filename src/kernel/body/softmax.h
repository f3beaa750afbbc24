// SPDX-License-Identifier: MIT
// softmax.h: computes the softmax of rows. Requires exp.h.

static void softmax_rows(real *y, const real *x, int64_t rows, int64_t n, int64_t ldy, int64_t ldx)
{
    const int64_t whole = n / VW * VW, rest = n - whole;
    for (int64_t r = 0; r < rows; r++, x += ldx, y += ldy) {
        vf most = vf_set1(-INFINITY), sum = vf_zero();
        // the maximum of the row ignores NaN
        for (int64_t i = 0; i < whole; i += VW) most = vf_max(vf_load(x + i), most);
        if (rest)
            most = vf_max(vf_select(vm_first(rest), vf_load_n(x + whole, rest), vf_set1(-INFINITY)),
                          most);
        const float highest = vf_highest(most);
        // If the maximum is -INFINITY, any finite offset gives terms of 0 (or NaN).
        const vf off = vf_set1(highest == -INFINITY ? 0 : highest);
        for (int64_t i = 0; i < whole; i += VW) {
            const vf e = exp_vector(vf_sub(vf_load(x + i), off));
            vf_store(y + i, e);
            sum = vf_add(sum, e);
        }
        if (rest) {
            const vf e = vf_first(exp_vector(vf_sub(vf_load_n(x + whole, rest), off)), rest);
            vf_store_n(y + whole, e, rest);
            sum = vf_add(sum, e);
        }
        const float total = vf_total(sum);
        if (total == 0) continue;
        for (int64_t i = 0; i < whole; i += VW)
            vf_store(y + i, vf_div(vf_load(y + i), vf_set1(total)));
        if (rest) vf_store_n(y + whole, vf_div(vf_load_n(y + whole, rest), vf_set1(total)), rest);
    }
}
