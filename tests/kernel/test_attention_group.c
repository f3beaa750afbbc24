// SPDX-License-Identifier: MIT
// test_attention_group.c: compares every bit of the kernel `group`, where an ISA has it, with the
// kernels whose work it does in one pass.
#include "check.h"
#include "kernel/kernel.h"

#ifdef QKV_DOUBLE
int main(void)
{
    puts("skipped: this build computes in double and has no kernel `group`");
    return 77;
}
#else
enum { ROWS = QKV_TILE_ROWS_MAX };

struct group_case {
    const struct qkv_attention_kernels *k;
    int64_t E, F, wide;
    const void *q[ROWS];
    void *keys, *values;
};
static uint16_t *random_halves(int64_t n, float size)
{
    uint16_t *x = fenced((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = qkv_f32_to_bf16((float)check_gauss() * size);
    return x;
}
static struct group_case packed_case(const struct qkv_attention_kernels *k, int64_t E, int64_t F,
                                     float size, bool odd)
{
    struct group_case x = { .k = k, .E = E, .F = F, .wide = k->width(F) };
    uint16_t *keys = random_halves(QKV_CHUNK * E, size), *q = random_halves(ROWS * E, size);
    if (odd) keys[(QKV_CHUNK - 3) * E] = 0x7F80; // infinity
    if (odd) q[5 * E] = 0x7FC0;                  // NaN
    x.keys = fenced(QKV_CHUNK * k->key_bytes(E));
    x.values = fenced(QKV_CHUNK * k->value_bytes(F));
    k->pack_keys(x.keys, keys, E, 0, QKV_CHUNK, E);
    k->pack_values(x.values, random_halves(QKV_CHUNK * F, 1), F, 0, QKV_CHUNK, QKV_CHUNK, F);
    char *rows = fenced(ROWS * k->query_bytes(E));
    for (int i = 0; i < ROWS; i++) {
        char *row = rows + (size_t)i * k->query_bytes(E);
        k->pack_query(row, q + i * E, E);
        x.q[i] = row;
    }
    return x;
}

// Columns that row i sees: the whole span, the columns of a causal mask, or some.
static struct qkv_columns seen_by(struct qkv_columns span, int i, int way)
{
    if (way == 1) return (struct qkv_columns){ span.from, span.to - (ROWS - 1) + i };
    if (way == 2 && i % 5 == 1) return (struct qkv_columns){ span.from + 7, span.from + 7 };
    if (way == 2 && i % 5) return (struct qkv_columns){ span.from + i, span.to - i % 3 * 4 };
    return span;
}

struct results {
    float *o, *s, top[ROWS], sum[ROWS], now[ROWS];
};
static struct results before(const struct group_case *x, bool begun)
{
    struct results r = { .o = fenced_random(ROWS * x->wide),
                         .s = fenced((size_t)ROWS * QKV_CHUNK * sizeof(float)) };
    for (int i = 0; i < ROWS; i++) {
        r.top[i] = begun && i != 9 ? (float)i / 8 - 1 : -INFINITY;
        r.sum[i] = begun && i != 9 ? (float)i / 4 + 1 : 0;
    }
    return r;
}

// Checks that n numbers have the same bits; a NaN may be any NaN.
static void check_same(const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isnan(a[i]) || !isnan(b[i])) CHECK_BITS(a + i, b + i, sizeof *a);
}

static void check_group(const struct group_case *x, struct qkv_columns span, int way, bool begun)
{
    const struct qkv_attention_kernels *k = x->k;
    struct results a = before(x, begun), b = a;
    int32_t lo[ROWS], hi[ROWS];
    float top[ROWS], sum[ROWS], old[ROWS];
    for (int i = 0; i < ROWS; i++) {
        lo[i] = seen_by(span, i, way).from;
        hi[i] = seen_by(span, i, way).to;
    }
    b.o = fenced((size_t)(ROWS * x->wide) * sizeof *b.o);
    b.s = fenced((size_t)ROWS * QKV_CHUNK * sizeof *b.s);
    memcpy(b.o, a.o, (size_t)(ROWS * x->wide) * sizeof *b.o);
    k->scores(a.s, x->q, ROWS, x->keys, x->E, span);
    k->softmax(a.s, top, sum, ROWS, &span, 1, lo, hi, 0.1803f);
    k->merge(a.top, a.sum, old, a.now, top, sum, ROWS, 0.1803f);
    k->values(a.o, begun ? old : NULL, a.now, a.s, ROWS, x->values, QKV_CHUNK, x->F, &span, 1);
    const struct qkv_attention_group g = { .o = b.o,
                                           .top = b.top,
                                           .sum = b.sum,
                                           .now = b.now,
                                           .s = b.s,
                                           .begun = begun,
                                           .q = x->q,
                                           .keys = x->keys,
                                           .values = x->values,
                                           .capacity = QKV_CHUNK,
                                           .E = x->E,
                                           .F = x->F,
                                           .lo = lo,
                                           .hi = hi,
                                           .rows = ROWS,
                                           .span = span,
                                           .c = 0.1803f };
    CHECK(k->group(&g));
    check_same(b.top, a.top, ROWS);
    check_same(b.sum, a.sum, ROWS);
    check_same(b.now, a.now, ROWS);
    check_same(b.o, a.o, ROWS * x->wide);
    for (int i = 0; i < ROWS; i++)
        for (int32_t j = span.from; j < span.to; j++) {
            const real p = k->probability(b.s, i, j), want = k->probability(a.s, i, j);
            check_same(&p, &want, 1);
        }
}

TEST(a_group_has_the_bits_of_its_steps)
{
    static const int64_t sizes[][2] = { { 64, 64 }, { 32, 32 }, { 48, 33 }, { 16, 64 } };
    static const struct qkv_columns spans[] = { { 0, QKV_CHUNK }, { 64, 96 }, { 32, 160 } };
    int groups = 0;
    EACH_ISA(isa) for (int p = 0; p < QKV_PRECISIONS; p++)
    {
        const struct qkv_attention_kernels *k = isa->attention[p];
        if (!k->group || k->type != QKV_BF16) continue;
        groups++;
        EACH(size, sizes) for (int way = 0; way < 6; way++)
        {
            const struct group_case x =
                packed_case(k, (*size)[0], (*size)[1], way == 3 ? 20 : 1, way == 4);
            check_group(&x, spans[(way + *size[0] / 16) % 3], way % 3, way % 2);
            fence_free();
        }
    }
    if (!groups) skip();
}

TEST(a_group_of_other_sizes_is_left_alone)
{
    int groups = 0;
    EACH_ISA(isa)
    {
        const struct qkv_attention_kernels *k = isa->attention[QKV_PRECISION_BF16];
        if (!k->group) continue;
        groups++;
        float o[ROWS * 64] = { 0 };
        struct qkv_attention_group g = {
            .o = o, .E = 64, .F = 64, .rows = ROWS - 1, .span = { 0, QKV_CHUNK }
        };
        CHECK(!k->group(&g));
        g.rows = ROWS;
        g.E = 128;
        CHECK(!k->group(&g));
        g.E = 64;
        g.span.from = 16;
        CHECK(!k->group(&g));
        for (int i = 0; i < ROWS * 64; i++) CHECK(o[i] == 0);
    }
    if (!groups) skip();
}

CHECK_MAIN(CASE(a_group_has_the_bits_of_its_steps), CASE(a_group_of_other_sizes_is_left_alone))
#endif
