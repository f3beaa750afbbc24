// SPDX-License-Identifier: MIT
// peak_pairs.h: runs as many dot products of pairs of bf16 as possible (contract: kernel.h, peak).
// As in peak.h, twelve independent sums start with different values.

static int64_t peak_pairs(real *keep, int64_t turns)
{
    const __m512bh x = (__m512bh)_mm512_set1_epi16(0x3f00); // the bf16 number 0.5
    vf a[12];
    for (int i = 0; i < 12; i++) a[i] = vf_set1(*keep + (real)i);
    for (int64_t t = 0; t < turns; t++)
        for (int i = 0; i < 12; i++) a[i] = _mm512_dpbf16_ps(a[i], x, x);
    for (int i = 1; i < 12; i++) a[0] = vf_add(a[0], a[i]);
    *keep = vf_total(a[0]);
    return turns * 12 * VW * 2 * 2;
}
