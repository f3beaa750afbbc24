// SPDX-License-Identifier: MIT
// peak_int8.h: runs as many dot products of 8-bit integers as possible (contract: kernel.h, peak),
// with the functions of linear_int8.h. As in peak.h, twelve independent sums start with different
// values.

static int64_t peak_int8(real *keep, int64_t turns)
{
    vi a[12], x, w;
    for (int i = 0; i < 12; i++) a[i] = vi_set1((int32_t)*keep + i);
    x = vi_set1(0x01020304);
    w = vi_set1((int32_t)*keep + 0x04030201);
    for (int64_t t = 0; t < turns; t++)
        for (int i = 0; i < 12; i++) a[i] = int8_dot(a[i], x, w);
    uint32_t sum = 0, lanes[VW];
    for (int i = 0; i < 12; i++) {
        vi_store(lanes, a[i]);
        for (int j = 0; j < VW; j++) sum += lanes[j];
    }
    *keep = (real)(sum >> 8);
    return turns * 12 * VW * INT8_GROUP * 2;
}
