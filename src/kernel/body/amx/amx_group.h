// SPDX-License-Identifier: MIT
// amx_group.h: computes scores, softmax and weighted values of 32 rows of bf16 in one pass: the
// tiles work while vectors compute the softmax. Requires amx_attention.h.
//
// The rows are two halves of 16. The instructions of tiles and vectors alternate, a product after
// two rows, so that both are in the window of instructions in which the core looks for work
// (docs/limits.md, "AMX"):
//
//   tiles                                            vectors
//   scores of half 0                                 its maxima so far
//   scores of half 1; values of half 0, one block    powers of half 0; the maxima of half 1 so far
//     of keys after the powers
//   values of half 1, one block later                powers of half 1; o of half 0, with block 0
//
// A block is 32 keys. Every sum has the order of attention_bf16_scores, softmax_pairs and
// attention_bf16_values, so that the results are bit-identical.
//
// Tiles 0 .. 3 contain sums of values, 4 and 7 scores, 5 the first factor, 6 the second factor.

struct group_work {
    _Alignas(64) float most[HIGH][2][VW]; // maxima so far of even and odd vectors of each row
    _Alignas(64) float total[HIGH][VW];   // sums of weights so far
    _Alignas(64) float off[HIGH], top[HIGH], sum[HIGH], old[HIGH];
    _Alignas(64) float values[HALF][2 * HIGH];
};
// Addresses and sizes, in local variables, which assembly statements do not change.
struct group_place {
    const char *q, *keys,
        *values;         // packed rows; packed keys and values of the group's first column
    real *s;             // scores of row 0, first column
    int64_t apart;       // bytes between two rows of q
    int64_t side, block; // bytes between keys, and between values, of two blocks
    int64_t next;        // bytes between values f and f + 32
    int tiles;           // number of tiles of 16 numbers of a value
    int32_t n;           // number of blocks
    bool hidden;         // true: a row does not see all keys of the span
};
enum { GROUP_LOW = QKV_CHUNK * (int)sizeof(float) }; // bytes between two rows of scores

// ---- tiles -------------------------------------------------------------------------------------
// Multiplies block e of E of the rows of half 1 by 16 keys. `last`: stores the scores.
TILE_ALWAYS void group_scores(const char *q, int64_t apart, const char *keys, real *s, const int e,
                              const bool last)
{
    if (e == 0) TILE_ZERO(4);
    TILE_LOAD(5, q + e * 64, apart);
    TILE_LOAD_PASSING(6, keys + e * 2 * TILE, 64);
    TILE_BF16(4, 5, 6);
    if (last) TILE_STORE(4, s, GROUP_LOW);
}

// Adds numbers 16 f .. 16 f + 15 of the values of a block. p: the block's weights in a half.
TILE_ALWAYS void group_values(const char *p, const char *v, int64_t next, int tiles, const int f)
{
    if (f == 0) TILE_LOAD(5, p, GROUP_LOW);
    if (f >= tiles) return;
    TILE_LOAD_PASSING(6, v + (f / 2 ? next : 0) + f % 2 * TILE, 64);
    if (f == 0) TILE_BF16(0, 5, 6);
    if (f == 1) TILE_BF16(1, 5, 6);
    if (f == 2) TILE_BF16(2, 5, 6);
    if (f == 3) TILE_BF16(3, 5, 6);
}
TILE_ALWAYS void group_clear_values(void)
{
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
}
// Adds the values of the last block of a half, and stores the sums.
TILE_ALWAYS void group_last_values(struct group_work *w, const struct group_place *at,
                                   const char *p)
{
    const char *const v = at->values + (at->n - 1) * at->block;
    const int64_t apart = sizeof w->values[0];
    p += (at->n - 1) * 64;
    group_values(p, v, at->next, at->tiles, 0);
    group_values(p, v, at->next, at->tiles, 1);
    group_values(p, v, at->next, at->tiles, 2);
    group_values(p, v, at->next, at->tiles, 3);
    TILE_STORE(0, w->values[0], apart);
    if (at->tiles > 1) TILE_STORE(1, w->values[0] + HALF, apart);
    if (at->tiles > 2) TILE_STORE(2, w->values[0] + 2 * HALF, apart);
    if (at->tiles > 3) TILE_STORE(3, w->values[0] + 3 * HALF, apart);
}

// ---- vectors -----------------------------------------------------------------------------------
// Sets the scores of a block that a row does not see to -INFINITY.
static __attribute__((noinline)) void group_hide(real *row, int32_t lo, int32_t hi)
{
    for (int32_t j = 0; j < BLOCK; j += VW)
        vf_store(row + j, load_seen(row, j, lo, hi, vf_set1(-INFINITY)));
}
// Hides what rows of a half do not see in block b.
TILE_ALWAYS void group_hide_rows(const struct group_place *at, const struct qkv_attention_group *g,
                                 int half, int32_t b)
{
    const int32_t j = g->span.from + b * BLOCK;
    real *const s = at->s - g->span.from;
    for (int i = half * HALF; i < half * HALF + HALF; i++)
        if (g->lo[i] > j || g->hi[i] < j + BLOCK)
            group_hide(s + i * QKV_CHUNK + j, g->lo[i] - j, g->hi[i] - j);
}

// Includes a block of scores in the maxima of a row.
TILE_ALWAYS void group_most(float (*most)[VW], const real *row, const bool first)
{
    const vf none = vf_set1(-INFINITY);
    vf_store(most[0], vf_max(vf_load(row), first ? none : vf_load(most[0])));
    vf_store(most[1], vf_max(vf_load(row + VW), first ? none : vf_load(most[1])));
}
TILE_ALWAYS void group_top(struct group_work *w, int half)
{
    for (int i = half * HALF; i < half * HALF + HALF; i++) {
        w->top[i] = vf_highest(vf_max(vf_load(w->most[i][1]), vf_load(w->most[i][0])));
        w->off[i] = w->top[i] == -INFINITY ? 0 : w->top[i];
    }
}

// Replaces a block of scores of a row by weights, which are stored at p, and adds them to the sum.
TILE_ALWAYS void group_powers(char *p, const real *row, float *total, float top, vf times,
                              bool first)
{
    const vf off = vf_set1(top);
    const vf x = exp2_coarse(vf_mul(vf_sub(vf_load(row), off), times));
    const vf y = exp2_coarse(vf_mul(vf_sub(vf_load(row + VW), off), times));
    _mm512_storeu_si512(p, bf16_of(x, y));
    vf_store(total, vf_add(vf_add(first ? vf_zero() : vf_load(total), x), y));
}

// Merges the sums of weights of a half with the sums of earlier chunks.
TILE_ALWAYS void group_merge(struct group_work *w, const struct qkv_attention_group *g, int half)
{
    const int first = half * HALF;
    for (int i = first; i < first + HALF; i++) w->sum[i] = vf_total(vf_load(w->total[i]));
    merge(g->top + first, g->sum + first, w->old + first, g->now + first, w->top + first,
          w->sum + first, HALF, g->c);
}
// Adds the values of row i to o.
TILE_ALWAYS void group_add(const struct group_work *w, const struct qkv_attention_group *g, int i)
{
    const int64_t wide = width(g->F);
    real *const o = g->o + i * wide;
    const vf now = vf_set1(g->now[i]), old = vf_set1(w->old[i]);
    for (int64_t f = 0; f < wide; f += VW) {
        const vf x = vf_mul(now, vf_load(w->values[i % HALF] + f));
        vf_store(o + f, g->begun ? vf_fma(old, vf_load(o + f), x) : x);
    }
}

// ---- phases ------------------------------------------------------------------------------------
// Computes the scores of half 0, and the maxima of each block one block later.
TILE_ALWAYS void group_begin(struct group_work *w, const struct qkv_attention_group *g,
                             const struct group_place at, const bool two)
{
    const char *keys = at.keys;
    real *s = at.s;
    TILE_LOAD(0, at.q, at.apart);
    if (two) TILE_LOAD(1, at.q + 64, at.apart);
    for (int32_t b = 0; b <= at.n; b++, keys += at.side, s += BLOCK) {
        if (b > 0 && at.hidden) group_hide_rows(&at, g, 0, b - 1);
        for (int half = 0; half < 2; half++) {
            if (b < at.n) {
                TILE_ZERO(4);
                TILE_LOAD_PASSING(6, keys + half * TILE, 64);
                TILE_BF16(4, 0, 6);
                if (two) {
                    TILE_LOAD_PASSING(7, keys + half * TILE + 2 * TILE, 64);
                    TILE_BF16(4, 1, 7);
                }
                TILE_STORE(4, s + half * HALF, GROUP_LOW);
            }
            for (int i = half * 8; b > 0 && i < half * 8 + 8; i++)
                group_most(w->most[i], s - BLOCK + i * QKV_CHUNK, b == 1);
        }
    }
    group_top(w, 0);
}

// Computes the powers of half 0, and meanwhile its values and the scores of half 1, whose maxima
// follow one block later.
TILE_ALWAYS void group_middle(struct group_work *w, const struct qkv_attention_group *g,
                              const struct group_place at, const bool two)
{
    const char *keys = at.keys, *v = at.values - at.block, *const q = at.q + HALF * at.apart;
    real *s = at.s, *const s1 = at.s + HALF * QKV_CHUNK;
    char *p = (char *)(at.s - g->span.from) + g->span.from * 2, *const first = p;
    const vf times = vf_set1(g->c);
    group_clear_values();
    for (int32_t b = 0; b < at.n; b++, keys += at.side, v += at.block, s += BLOCK, p += 64) {
        real *const t = s + HALF * QKV_CHUNK;
        UNROLL for (int n = 0; n < 8; n++)
        {
            if (n < 4 && (n % 2 == 0 || two))
                group_scores(q, at.apart, keys + n / 2 * TILE, t + n / 2 * HALF, n % 2,
                             n % 2 == (two ? 1 : 0));
            if (n >= 4 && b > 0) group_values(p - 64, v, at.next, at.tiles, n - 4);
            UNROLL for (int i = 2 * n; i < 2 * n + 2; i++)
            {
                group_powers(p + i * GROUP_LOW, s + i * QKV_CHUNK, w->total[i], w->off[i], times,
                             b == 0);
                if (b > 0) group_most(w->most[HALF + i], t - BLOCK + i * QKV_CHUNK, b == 1);
            }
        }
        if (at.hidden) group_hide_rows(&at, g, 1, b);
    }
    group_last_values(w, &at, first);
    for (int i = 0; i < HALF; i++)
        group_most(w->most[HALF + i], s1 + (at.n - 1) * BLOCK + i * QKV_CHUNK, at.n == 1);
    group_top(w, 1);
    group_merge(w, g, 0);
}

// Computes the powers of half 1, and meanwhile its values. With the first block, adds the values of
// half 0 to o.
TILE_ALWAYS void group_finish(struct group_work *w, const struct qkv_attention_group *g,
                              const struct group_place at)
{
    const char *v = at.values - at.block;
    real *s = at.s + HALF * QKV_CHUNK;
    char *p = (char *)(s - g->span.from) + g->span.from * 2, *const first = p;
    const vf times = vf_set1(g->c);
    group_clear_values();
    for (int32_t b = 0; b < at.n; b++, v += at.block, s += BLOCK, p += 64) {
        UNROLL for (int n = 0; n < 8; n++)
        {
            if (b > 0 && n % 2 == 0) group_values(p - 64, v, at.next, at.tiles, n / 2);
            UNROLL for (int i = 2 * n; i < 2 * n + 2; i++)
            {
                group_powers(p + i * GROUP_LOW, s + i * QKV_CHUNK, w->total[HALF + i],
                             w->off[HALF + i], times, b == 0);
                if (b == 0) group_add(w, g, i);
            }
        }
    }
    group_merge(w, g, 1);
    group_last_values(w, &at, first);
    for (int i = 0; i < HALF; i++) group_add(w, g, HALF + i);
}

static bool attention_bf16_group(const struct qkv_attention_group *g)
{
    struct group_work w; // too large to be cleared for each group
    const struct qkv_columns span = g->span;
    if (g->rows != HIGH || g->E > 2 * BLOCK || g->F > 2 * BLOCK || g->F == 0 || g->E == 0 ||
        span.from % BLOCK || span.to % BLOCK || span.from >= span.to)
        return false;
    struct group_place at = {
        .q = g->q[0],
        .keys = amx_key((void *)g->keys, span.from, g->E, 1).tiles,
        .values = amx_value_tiles(g->values, 0, span.from, g->capacity, 1),
        .s = g->s + span.from,
        .apart = (int64_t)amx_query_bytes(g->E, 1),
        .side = deep(g->E) * 2 * HIGH,
        .block = 2 * TILE,
        .next = g->capacity / BLOCK * 2 * TILE,
        .tiles = (int)(width(g->F) / HALF),
        .n = (span.to - span.from) / BLOCK,
    };
    for (int i = 0; i < HIGH; i++) at.hidden |= g->lo[i] > span.from || g->hi[i] < span.to;
    tile_configure(HIGH);
    if (g->E > BLOCK) {
        group_begin(&w, g, at, true);
        group_middle(&w, g, at, true);
    } else {
        group_begin(&w, g, at, false);
        group_middle(&w, g, at, false);
    }
    group_finish(&w, g, at);
    TILE_RELEASE();
    return true;
}
