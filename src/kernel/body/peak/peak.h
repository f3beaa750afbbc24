// SPDX-License-Identifier: MIT
// peak.h: runs as many multiply-adds per second as a core can, and reads memory as fast as
// possible, for comparison with kernels.
//
// Requires the functions vf_*. Each of the twelve sums depends only on itself. Twelve sums are
// enough for two units with a latency of five cycles, and fit into sixteen registers. The sums
// start with different values, because the compiler would merge equal sums.

// Runs `turns` rounds of multiply-adds. *keep enters every sum and receives a number that depends
// on all sums, so that the compiler cannot remove a sum. Returns the number of operations.
static int64_t peak_float(real *keep, int64_t turns)
{
    const vf x = vf_set1((real)0.5);
    vf a[12];
    for (int i = 0; i < 12; i++) a[i] = vf_set1(*keep + (real)i);
    for (int64_t t = 0; t < turns; t++)
        for (int i = 0; i < 12; i++) a[i] = vf_fma(a[i], x, x);
    for (int i = 1; i < 12; i++) a[0] = vf_add(a[0], a[i]);
    *keep = vf_total(a[0]);
    return turns * 12 * VW * 2;
}

static real peak_read(const void *data, size_t bytes, size_t streams)
{
    enum { STEP = 4 * VW };
    const size_t n = bytes / sizeof(real), part = n / streams / STEP * STEP;
    const real *p = data;
    vf a = vf_zero(), b = a, c = a, d = a;
    for (size_t i = 0; i < part; i += STEP)
        for (size_t stream = 0; stream < streams; stream++) {
            const real *q = p + stream * part + i;
            a = vf_max(a, vf_load(q));
            b = vf_max(b, vf_load(q + VW));
            c = vf_max(c, vf_load(q + 2 * VW));
            d = vf_max(d, vf_load(q + 3 * VW));
        }
    for (size_t i = streams * part; i + VW <= n; i += VW) a = vf_max(a, vf_load(p + i));
    return vf_total(vf_add(vf_max(a, b), vf_max(c, d)));
}
