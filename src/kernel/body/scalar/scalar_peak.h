// SPDX-License-Identifier: MIT
// scalar_peak.h: runs as many multiplies and adds as plain C can, and reads memory as fast as it
// can (contract: kernel.h, peak). The sums are independent, so that the compiler may use vectors.
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

// Multiplies 8-bit integers and sums the products in 32 bits.
static int64_t peak_int8(real *keep, int64_t turns)
{
    uint32_t a[CHAINS];
    const uint32_t w = (uint32_t)*keep + 3;
    for (int i = 0; i < CHAINS; i++) a[i] = (uint32_t)*keep + (uint32_t)i;
    for (int64_t t = 0; t < turns; t++)
        for (int i = 0; i < CHAINS; i++) a[i] = a[i] * w + 1;
    for (int i = 1; i < CHAINS; i++) a[0] += a[i];
    *keep = (real)(a[0] >> 8);
    return turns * CHAINS * 2;
}

static inline uint64_t peak_word(const unsigned char *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static real peak_read(const void *data, size_t bytes, size_t streams)
{
    const unsigned char *p = data;
    const size_t part = bytes / streams / 32 * 32;
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (size_t i = 0; i < part; i += 32)
        for (size_t stream = 0; stream < streams; stream++) {
            const unsigned char *q = p + stream * part + i;
            a ^= peak_word(q);
            b ^= peak_word(q + 8);
            c ^= peak_word(q + 16);
            d ^= peak_word(q + 24);
        }
    for (size_t i = streams * part; i + 8 <= bytes; i += 8) a ^= peak_word(p + i);
    return (real)(a ^ b ^ c ^ d);
}
