// SPDX-License-Identifier: MIT
// scalar_back_packs.h: converts arrays of type STORED to real and back, for the backward kernels.
// The file is a template, included once for each type.

static void NAME(back_rows)(void *to, const void *const *x, int rows, int64_t W)
{
    for (int i = 0; i < rows; i++) NAME(pack_query)((real *)to + i * W, x[i], W);
}

static void NAME(back_keys)(void *to, const void *const *x, int at, int n, int64_t W)
{
    for (int j = 0; j < n; j++) NAME(pack_keys)(to, x[j], W, at + j, 1, W);
}

static bool NAME(back_right)(void *to, const void *const *x, int at, int n, int64_t W)
{
    bool finite = true;
    for (int j = 0; j < n; j++)
        if (!NAME(pack_values)(to, x[j], W, at + j, 1, 0, W)) finite = false;
    return finite;
}

static real NAME(back_dot)(const void *dout, const void *out, int64_t F)
{
    const ELEMENT *a = dout, *b = out;
    real sum = 0;
    for (int64_t f = 0; f < F; f++)
        if (NAME(read)(b[f]) != 0) sum += (real)NAME(read)(a[f]) * (real)NAME(read)(b[f]);
    return sum;
}

static void NAME(back_store)(void *to, const real *x, real times, int64_t n)
{
    for (int64_t i = 0; i < n; i++) ((ELEMENT *)to)[i] = NAME(write)(times * x[i]);
}
