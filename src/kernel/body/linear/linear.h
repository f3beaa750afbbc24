// SPDX-License-Identifier: MIT
// linear.h: computes y = tail(x w^T) with register tiles over packed panels of w, for every
// precision.
//
// A file isa_*.c defines the size of a tile: LINEAR_MR rows by LINEAR_NR vectors of columns (MR *
// NR registers for sums and NR + 1 registers for operands); and LINEAR_AT_ONCE, the largest
// number of panels that are multiplied together for few rows. More panels are more streams of reads
// and more independent sums; which number is fastest depends on the CPU (docs/limits.md, "A few
// rows"). MR rows of x, prepared in the format of
// the precision, remain in the first-level cache while the panels of a task are read from the
// second-level cache. Each sum is one chain over a chunk of K; the chunks are added from left to
// right in `sum`, in the same order for every number of rows.
//
// A form defines how a precision prepares a row of x and sums a tile. This file contains the loops
// over tiles and the tail (struct qkv_linear_tail); linear_float.h, linear_half.h, linear_pairs.h
// and linear_int8.h define the forms.

enum {
    PANEL = LINEAR_NR * VW,
    LINEAR_ROOM = 48 << 10 // bytes of prepared rows of x; at least one chunk of any form fits
};

// The arguments of the function `tile` of a form, which computes a tile over one chunk of K: the
// products x panel^T are added to sum[rows][panels][PANEL] or overwrite it.
struct linear_step {
    float *sum;
    const char *x; // prepared rows, ldx bytes apart
    size_t ldx;
    // the panel, at the weights of the first k of the chunk; the next panel is `next` bytes after
    // it
    const char *panel;
    size_t next;
    const char *head; // the header of the panel for this chunk
    int64_t deep;     // number of elements of K in the chunk
    bool add;         // true: the tile is added to sum; false: it overwrites sum
};
struct linear_form {
    int64_t chunk;    // number of products that one chain of sums adds
    qkv_dtype direct; // rows of x of this type are read directly if K is a multiple of group
    int64_t group;    // numbers of a column that are adjacent in a panel
    size_t unit;      // bytes of one prepared element of x
    size_t deep;      // bytes of one panel per element of K
    // Returns the bytes of the header of a panel; NULL: panels have no header.
    size_t (*head)(int64_t K);
    size_t chunk_head; // header bytes per chunk, after the scales of the columns
    // Returns the scale of a row; *inverse is the factor that is applied before rounding. NULL: the
    // form has no scales.
    float (*scale)(const void *x, qkv_dtype type, int64_t K, float *inverse);
    // Converts x[n] to the type that `tile` multiplies and writes it to `to`, padded with 0 to a
    // multiple of VW elements.
    void (*prepare)(void *to, const void *x, qkv_dtype type, int64_t n, float inverse);
    // Computes the sums of a tile of 1 .. MR rows. If wide, the tile has as many panels as
    // linear_wide(rows) returns; otherwise it has one panel.
    void (*tile)(const struct linear_step *s, int64_t rows, bool wide);
};

// Returns the number of panels that are multiplied together for so many rows, at most
// LINEAR_AT_ONCE.
static inline int linear_wide(int64_t rows)
{
    const int64_t most = LINEAR_MR / rows;
    return (int)(most < LINEAR_AT_ONCE ? most : LINEAR_AT_ONCE);
}

// Defines a function that multiplies one tile (1 .. MR rows by one panel, or by linear_wide(rows)
// panels), for one of the ways to sum products. It has one case per number of rows, so that the
// sums stay in registers.
#define LINEAR_TILE(NAME, SUM, ...)                                                                \
    static void NAME(const struct linear_step *s, int64_t rows, bool wide)                         \
    {                                                                                              \
        switch (rows * 2 + wide) {                                                                 \
            LINEAR_CASES(SUM, __VA_ARGS__)                                                         \
        }                                                                                          \
    }
#define LINEAR_ROWS(N, SUM, ...)                                                                   \
    case N * 2: SUM(s, N, 1, __VA_ARGS__); break;                                                  \
    case N * 2 + 1:                                                                                \
        SUM(s, N, linear_wide(N), __VA_ARGS__);                                                    \
        break;
#if LINEAR_MR == 8
#define LINEAR_CASES(...)                                                                          \
    LINEAR_ROWS(1, __VA_ARGS__)                                                                    \
    LINEAR_ROWS(2, __VA_ARGS__)                                                                    \
    LINEAR_ROWS(3, __VA_ARGS__)                                                                    \
    LINEAR_ROWS(4, __VA_ARGS__)                                                                    \
    LINEAR_ROWS(5, __VA_ARGS__)                                                                    \
    LINEAR_ROWS(6, __VA_ARGS__) LINEAR_ROWS(7, __VA_ARGS__) LINEAR_ROWS(8, __VA_ARGS__)
#else
#define LINEAR_CASES(...)                                                                          \
    LINEAR_ROWS(1, __VA_ARGS__)                                                                    \
    LINEAR_ROWS(2, __VA_ARGS__)                                                                    \
    LINEAR_ROWS(3, __VA_ARGS__)                                                                    \
    LINEAR_ROWS(4, __VA_ARGS__) LINEAR_ROWS(5, __VA_ARGS__) LINEAR_ROWS(6, __VA_ARGS__)
#endif

// ---- the tail ----------------------------------------------------------------------------------
// Stores row r, columns c .. c+n-1 of the sums of a panel (all columns if `full`), multiplied by
// the scales of the columns and of the row (scales NULL: not multiplied). simple: the tail is one
// of linear_tail_simple, with results of `type`; it then has a few instructions. Otherwise `type`
// is ignored.
static inline __attribute__((always_inline)) void
linear_tail_of(void *y, const float *sum, const float *scales, float row_scale, int64_t r,
               int64_t c, int64_t n, const struct qkv_linear_tail *tail, const bool full,
               const bool simple, const qkv_dtype type)
{
    const qkv_dtype to = simple ? type : tail->y;
    const enum qkv_activation act = simple && tail->act ? QKV_ACT_GELU : tail->act;
    vf s[LINEAR_NR];
    const int count = full ? LINEAR_NR : (int)qkv_ceil_div(n, VW);
#define LINEAR_EACH(j) _Pragma("GCC unroll 4") for (int j = 0; j < count; j++)
#define LINEAR_LEFT(j) (full ? VW : n - (j)*VW)
    // The arrays of sums and scales have space for the whole panel, even past N, so full vectors
    // are loaded.
    _Pragma("GCC unroll 4") for (int j = 0; j < LINEAR_NR; j++) s[j] = vf_load(sum + j * VW);
    if (scales) {
        const vf by = vf_set1(row_scale);
        _Pragma("GCC unroll 4") for (int j = 0; j < LINEAR_NR; j++) s[j] =
            vf_scaled_sum(s[j], vf_mul(by, vf_load(scales + j * VW)));
    }
    if (!simple && tail->scale != 1) {
        const vf by = vf_set1(tail->scale);
        LINEAR_EACH(j) s[j] = vf_mul(s[j], by);
    }
    if (tail->b) {
        LINEAR_EACH(j)
        s[j] = vf_add(s[j], typed_load(tail->b + c, QKV_F32, j * VW, LINEAR_LEFT(j)));
    }
    if (!simple && tail->before) {
        float *before = tail->before + r * tail->before_ld + c;
        LINEAR_EACH(j) typed_store(before, QKV_F32, j * VW, s[j], LINEAR_LEFT(j));
    }
    if (full)
        act_vectors(s, LINEAR_NR, act, to == QKV_BF16);
    else
        LINEAR_EACH(j) act_vectors(s + j, 1, act, to == QKV_BF16);
    if (tail->residual) {
        const float *residual = tail->residual + r * tail->residual_ld + c;
        LINEAR_EACH(j)
        s[j] = vf_add(s[j], typed_load(residual, QKV_F32, j * VW, LINEAR_LEFT(j)));
    }
    if (to == QKV_BF16) {
        LINEAR_EACH(j) typed_store(y, QKV_BF16, j * VW, s[j], LINEAR_LEFT(j));
    } else if (to == QKV_F16) {
        LINEAR_EACH(j) typed_store(y, QKV_F16, j * VW, s[j], LINEAR_LEFT(j));
    } else {
        LINEAR_EACH(j) typed_store(y, QKV_F32, j * VW, s[j], LINEAR_LEFT(j));
    }
}

// Returns whether linear_tail_rows computes the tail of a form without scales.
static inline bool linear_tail_simple(const struct qkv_linear_tail *tail)
{
    return tail->scale == 1 && !tail->before && (tail->y == QKV_F32 || tail->y == QKV_BF16) &&
           (tail->act == QKV_ACT_NONE || tail->act == QKV_ACT_GELU);
}
// Stores rows r .. r+rows-1 of the sums of a whole panel, which begins at column c. Most layers
// have this tail.
static inline void linear_tail_rows(char *y, int64_t ldy, const float *sum, int64_t r, int64_t rows,
                                    int64_t c, const struct qkv_linear_tail *tail)
{
    if (tail->y == QKV_BF16) {
        for (int64_t i = 0; i < rows; i++)
            linear_tail_of(y + i * ldy * 2, sum + i * PANEL, NULL, 1, r + i, c, PANEL, tail, true,
                           true, QKV_BF16);
    } else {
        for (int64_t i = 0; i < rows; i++)
            linear_tail_of(y + i * ldy * 4, sum + i * PANEL, NULL, 1, r + i, c, PANEL, tail, true,
                           true, QKV_F32);
    }
}

static inline void linear_tail(void *y, const float *sum, const float *scales, float row_scale,
                               int64_t r, int64_t c, int64_t n, const struct qkv_linear_tail *tail)
{
    if (n >= PANEL)
        linear_tail_of(y, sum, scales, row_scale, r, c, n, tail, true, false, QKV_F32);
    else
        linear_tail_of(y, sum, scales, row_scale, r, c, n, tail, false, false, QKV_F32);
}

// ---- the driver --------------------------------------------------------------------------------
static inline void linear_run(const struct linear_form *form, void *y, int64_t ldy, const void *x,
                              int64_t ldx, const char *panels, int64_t rows, int64_t K, int64_t N,
                              const struct qkv_linear_tail *tail)
{
    _Alignas(64) float sum[LINEAR_MR * PANEL];
    _Alignas(64) char capacity[LINEAR_ROOM];
    float scale[LINEAR_MR] = { 0 }, inverse[LINEAR_MR] = { 0 };
    const size_t x_size = qkv_dtype_size(tail->x), y_size = qkv_dtype_size(tail->y);
    const size_t head = form->head ? form->head(K) : 0;
    const size_t panel_size =
        qkv_round_up(head + (size_t)qkv_round_up((size_t)K, (size_t)form->group) * form->deep, 64);
    const bool direct = form->direct == tail->x && K % form->group == 0;
    const bool simple = !form->scale && linear_tail_simple(tail);
    const int64_t tiles = qkv_ceil_div(rows, LINEAR_MR); // number of tiles, of about equal height
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t r = t * rows / tiles, high = (t + 1) * rows / tiles - r;
        const char *at = (const char *)x + (size_t)(r * ldx) * x_size;
        for (int64_t i = 0; i < high && form->scale; i++)
            scale[i] = form->scale(at + (size_t)(i * ldx) * x_size, tail->x, K, &inverse[i]);
        // If complete rows fit into the buffer, they are prepared once; otherwise one chunk of each
        // row is prepared at a time, again for each panel.
        struct linear_step s = { .sum = sum, .next = panel_size };
        s.ldx = direct ? (size_t)ldx * x_size : qkv_round_up((size_t)K, 16) * form->unit;
        const bool whole = direct || s.ldx * (size_t)high <= sizeof capacity;
        if (!whole) s.ldx = qkv_round_up((size_t)form->chunk, 16) * form->unit;
        for (int64_t i = 0; i < high && whole && !direct; i++)
            form->prepare(capacity + (size_t)i * s.ldx, at + (size_t)(i * ldx) * x_size, tail->x, K,
                          inverse[i]);
        const char *panel = panels;
        for (int64_t n = 0, step; n < N; n += step, panel += (size_t)(step / PANEL) * panel_size) {
            const int wide = linear_wide(high);
            const bool several = wide > 1 && N - n > (wide - 1) * PANEL;
            step = several ? wide * PANEL : PANEL;
            int64_t k = 0;
            do {
                s.deep = qkv_min64(K - k, form->chunk);
                s.panel = panel + head + (size_t)k * form->deep;
                s.head =
                    panel + PANEL * sizeof(float) + (size_t)(k / form->chunk) * form->chunk_head;
                s.x = direct ? at + (size_t)k * x_size
                             : capacity + (whole ? (size_t)k * form->unit : 0);
                s.add = k > 0;
                for (int64_t i = 0; i < high && !whole; i++)
                    form->prepare(capacity + (size_t)i * s.ldx, at + (size_t)(i * ldx + k) * x_size,
                                  tail->x, s.deep, inverse[i]);
                form->tile(&s, high, several);
                k += s.deep;
            } while (k < K);
            if (simple && !several && n + PANEL <= N) {
                linear_tail_rows((char *)y + (size_t)(r * ldy + n) * y_size, ldy, sum, r, high, n,
                                 tail);
                continue;
            }
            for (int64_t i = 0; i < high; i++)
                for (int64_t c = 0; c < step && n + c < N; c += PANEL) {
                    const char *scales = panel + (size_t)(c / PANEL) * panel_size;
                    linear_tail((char *)y + (size_t)((r + i) * ldy + n + c) * y_size,
                                sum + i * step + c,
                                form->scale ? (const float *)(const void *)scales : NULL, scale[i],
                                r + i, n + c, qkv_min64(N - n - c, PANEL), tail);
                }
        }
    }
}

// ---- packing weights ---------------------------------------------------------------------------
enum { LINEAR_RUN_OF = 16 }; // numbers of a column that are packed at once: a cache line of floats

// Returns n numbers of a column, ldk apart, as floats, padded with 0 to LINEAR_RUN_OF numbers. If
// the numbers are adjacent and n is LINEAR_RUN_OF, it returns w itself.
static inline const float *linear_column(float to[LINEAR_RUN_OF], const real *w, int64_t ldk,
                                         int64_t n)
{
    if (ldk == 1 && n == LINEAR_RUN_OF) return w;
    for (int64_t i = 0; i < LINEAR_RUN_OF; i++) to[i] = i < n ? w[i * ldk] : 0;
    return to;
}

// Loads weights k .. k+VW-1 (0 past K) of columns n .. n+VW-1 (0 past N): lane j of t[i] is weight
// k+i of column n+j.
static inline void linear_weights_of(vf t[VW], const void *w, qkv_dtype type, int64_t k, int64_t K,
                                     int64_t n, int64_t N, int64_t ldn, int64_t ldk)
{
    const int64_t deep = qkv_min64(K - k, VW), wide = qkv_max64(qkv_min64(N - n, VW), 0);
    if (ldn == 1) {
        typed_block(t, w, type, n + k * ldk, ldk, deep, wide);
    } else if (ldk == 1) {
        typed_block(t, w, type, n * ldn + k, ldn, wide, deep);
        vf_transpose(t);
    } else {
        for (int64_t i = 0; i < VW; i++) {
            float row[VW] = { 0 };
            for (int64_t j = 0; i < deep && j < wide; j++)
                row[j] = vf_lane0(typed_load(w, type, (n + j) * ldn + (k + i) * ldk, 1));
            t[i] = vf_load(row);
        }
    }
}

// Packs panel[K][PANEL] as numbers of type `to`; elements without a weight become 0.
static inline __attribute__((always_inline)) void linear_pack_as(void *packed, const void *w,
                                                                 qkv_dtype type, int64_t K,
                                                                 int64_t N, int64_t ldn,
                                                                 int64_t ldk, const qkv_dtype to)
{
    const size_t each = to == QKV_F32 ? 4 : 2;
    const size_t numbers = (size_t)K * PANEL * each, size = qkv_round_up(numbers, 64);
    char *panel = packed;
    for (int64_t n0 = 0; n0 < N; n0 += PANEL, panel += size) {
        for (int64_t k = 0; k < K; k += VW)
            for (int64_t n = 0; n < PANEL; n += VW) {
                vf t[VW];
                linear_weights_of(t, w, type, k, K, n0 + n, N, ldn, ldk);
                for (int64_t i = 0; i < VW && k + i < K; i++)
                    typed_store(panel, to, (k + i) * PANEL + n, t[i], VW);
            }
        memset(panel + numbers, 0, size - numbers);
    }
}

// Defines the function NAME, which is `rows` in struct qkv_linear_kernel, for the form FORM.
#define LINEAR_RUN(NAME, FORM)                                                                     \
    static void NAME(void *y, int64_t ldy, const void *x, int64_t ldx, const void *panels,         \
                     int64_t rows, int64_t K, int64_t N, const struct qkv_linear_tail *tail)       \
    {                                                                                              \
        linear_run(&FORM, y, ldy, x, ldx, panels, rows, K, N, tail);                               \
    }
