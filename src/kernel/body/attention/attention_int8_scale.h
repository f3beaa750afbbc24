// SPDX-License-Identifier: MIT
// attention_int8_scale.h: computes the scale of 8-bit keys and values, one for each key and value
// of a head:
//
//   scale = max |x| / 127,   x8 = x 127 / max |x|, rounded to nearest even:   x = scale x8

enum { INT8_MOST = 127 };

// Returns the largest finite |x|; *finite is false if some number is nonfinite.
static float largest(const float *x, int64_t n, bool *finite)
{
    vf most = vf_zero();
    *finite = true;
    for (int64_t i = 0; i < n; i += VW) {
        const vf a = n - i < VW ? vf_load_n(x + i, n - i) : vf_load(x + i);
        const vm fine = vm_finite(a);
        if (!vm_full(fine)) *finite = false;
        most = vf_max(vf_abs(vf_select(fine, a, vf_zero())), most);
    }
    return vf_highest(most);
}

// Returns the scale that maps numbers whose largest magnitude is `most` to integers up to `limit`;
// *times is the factor from a number to its integer. A `most` so small that limit / most might
// overflow counts as 0.
static float scale_of(float most, float limit, float *times)
{
    const bool none = most < 0x1p-100f;
    *times = none ? 0 : limit / most;
    return none ? 0 : most / limit;
}
