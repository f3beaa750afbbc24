// SPDX-License-Identifier: MIT
// stored_dots.h: computes dot products of one query with many stored rows, at the rate at which
// memory is read.
//
// Requires the functions vf_* and vi_*, typed_load, and int8_weights and int8_dot of
// linear_int8.h.  Four rows are computed together, one of each quarter of the rows, because a
// single stream of reads would not keep the memory busy.  The sum of a row has one order, whatever
// the other three rows are.
enum { SEARCH_STREAMS = 4 };

static inline __attribute__((always_inline)) void search_floats(float *const y[], const float *x,
                                                                const char *const rows[],
                                                                const qkv_dtype type,
                                                                const int64_t d, const int n)
{
    vf sum[SEARCH_STREAMS];
    int64_t i = 0;
    _Pragma("GCC unroll 4") for (int r = 0; r < n; r++) sum[r] = vf_zero();
    for (; i + VW <= d; i += VW) {
        const vf a = vf_load(x + i);
        _Pragma("GCC unroll 4") for (int r = 0; r < n; r++) sum[r] =
            vf_fma(a, typed_load(rows[r], type, i, VW), sum[r]);
    }
    if (i < d) {
        const vf a = vf_load_n(x + i, d - i);
        _Pragma("GCC unroll 4") for (int r = 0; r < n; r++) sum[r] =
            vf_fma(a, typed_load(rows[r], type, i, d - i), sum[r]);
    }
    _Pragma("GCC unroll 4") for (int r = 0; r < n; r++) * y[r] = vf_total(sum[r]);
}

static inline __attribute__((always_inline)) void search_all(float *y, const float *x,
                                                             const void *rows, const qkv_dtype type,
                                                             const int64_t n, const int64_t d)
{
    const int64_t quarter = n / SEARCH_STREAMS;
    const size_t row = (size_t)d * (type == QKV_F32 ? sizeof(float) : sizeof(uint16_t));
    const char *at = rows;
    for (int64_t j = 0; j < quarter; j++) {
        float *to[SEARCH_STREAMS];
        const char *from[SEARCH_STREAMS];
        for (int r = 0; r < SEARCH_STREAMS; r++) {
            to[r] = y + r * quarter + j;
            from[r] = at + (size_t)(r * quarter + j) * row;
        }
        search_floats(to, x, from, type, d, SEARCH_STREAMS);
    }
    for (int64_t j = SEARCH_STREAMS * quarter; j < n; j++) {
        float *const to = y + j;
        const char *const from = at + (size_t)j * row;
        search_floats(&to, x, &from, type, d, 1);
    }
}

static void dots_stored(float *y, const float *x, const void *rows, qkv_dtype type, int64_t n,
                        int64_t d)
{
    if (type == QKV_BF16)
        search_all(y, x, rows, QKV_BF16, n, d);
    else
        search_all(y, x, rows, QKV_F32, n, d);
}

// Computes the dot products of four rows; the products past the last whole vector are added one by
// one, which gives the same integers.
static inline __attribute__((always_inline)) void
search_int8(int32_t *const y[SEARCH_STREAMS], const int8_t *x,
            const int8_t *const rows[SEARCH_STREAMS], const int64_t d)
{
    enum { STEP = VW * INT8_GROUP };
    vi sum[SEARCH_STREAMS];
    uint32_t lanes[VW];
    int64_t i = 0;
    _Pragma("GCC unroll 4") for (int r = 0; r < SEARCH_STREAMS; r++) sum[r] = vi_set1(0);
    for (; i + STEP <= d; i += STEP) {
        const vi a = int8_weights(x + i);
        _Pragma("GCC unroll 4") for (int r = 0; r < SEARCH_STREAMS; r++) sum[r] =
            int8_dot(sum[r], a, int8_weights(rows[r] + i));
    }
    vi_transpose4(sum);
    vi_store(lanes, vi_add(vi_add(sum[0], sum[1]), vi_add(sum[2], sum[3])));
    for (int r = 0; r < SEARCH_STREAMS; r++) {
        uint32_t total = 0;
        for (int lane = r; lane < VW; lane += SEARCH_STREAMS) total += lanes[lane];
        int32_t dot = (int32_t)total;
        for (int64_t k = i; k < d; k++) dot += x[k] * rows[r][k];
        *y[r] = dot;
    }
}

static void dots_int8(int32_t *y, const int8_t *x, const int8_t *rows, int64_t n, int64_t d)
{
    const int64_t quarter = n / SEARCH_STREAMS;
    for (int64_t j = 0; j < quarter; j++) {
        int32_t *to[SEARCH_STREAMS];
        const int8_t *from[SEARCH_STREAMS];
        for (int r = 0; r < SEARCH_STREAMS; r++) {
            to[r] = y + r * quarter + j;
            from[r] = rows + (r * quarter + j) * d;
        }
        search_int8(to, x, from, d);
    }
    for (int64_t j = SEARCH_STREAMS * quarter; j < n; j++) {
        const int8_t *const from = rows + j * d;
        int32_t ignored[SEARCH_STREAMS - 1];
        search_int8((int32_t *const[]){ y + j, ignored, ignored + 1, ignored + 2 }, x,
                    (const int8_t *const[]){ from, from, from, from }, d);
    }
}
