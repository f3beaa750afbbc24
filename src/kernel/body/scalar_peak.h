// SPDX-License-Identifier: MIT
// scalar_peak.h: the most multiplies and adds that plain C reaches, and its fastest read (contract:
// kernel.h, peak).  Sums lie side by side, so that a compiler may use what vectors the base has.
enum { CHAINS = 32 };

static int64_t peak_float(real *keep, int64_t turns)
{
    real a[CHAINS];
    for (int i = 0; i < CHAINS; i++) a[i] = *keep + (real)i;
    for (int64_t t = 0; t < turns; t++)
        for (int i = 0; i < CHAINS; i++) a[i] = a[i] * (real)0.5 + (real)0.5;
    for (int i = 1; i < CHAINS; i++) a[0] += a[i];
    *keep = a[0];
    return turns * CHAINS * 2;
}

static real peak_read(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint64_t sum[8] = { 0 };
    for (; bytes >= sizeof sum; bytes -= sizeof sum, p += sizeof sum) {
        uint64_t x[8];
        memcpy(x, p, sizeof x);
        __builtin_prefetch(p + 4096);
        for (int i = 0; i < 8; i++) sum[i] ^= x[i];
    }
    for (int i = 1; i < 8; i++) sum[0] ^= sum[i];
    return (real)sum[0];
}
