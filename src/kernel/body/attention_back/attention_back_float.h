// SPDX-License-Identifier: MIT
// attention_back_float.h: defines the attention backward pass with products of floats. Requires
// attention_stored.h.
//
// 16-bit numbers are converted to floats when they are packed.
enum { BACK_GROUP = 1 };
typedef real back_number;
typedef vf back_vector;
#define back_load vf_load
#define back_all  vf_set1
INLINE vf back_madd(vf sum, vf a, vf b)
{
    return vf_fma(a, b, sum);
}
INLINE vf back_power(vf t, vf rest)
{
    return exp2_vector(vf_sub(t, rest));
}

#include "kernel/body/attention_back/attention_back_rows.h"
#include "kernel/body/attention_back/attention_back_tiles.h"
#include "kernel/body/attention_back/attention_back.h"

static struct back_operands back_operands_of(const void *operand)
{
    return (struct back_operands){ operand, operand, QKV_CHUNK, QKV_CHUNK };
}

static void back_plain_forms(struct back_operands *w, struct back_operands *x,
                             const struct qkv_back_tile *t, const struct back_part *p)
{
    const int32_t columns = p->c.to - p->c.from;
    for (int i = 0; i < p->rows; i++) {
        const int row = p->first + i;
        const int32_t lo = p->see.lo[i], hi = p->see.hi[i];
        const struct back_row r = back_row_of(t->c, t->base[row], t->rest[row], t->d[row]);
        real *const s = t->s + i * BACK_TILE, *const ds = t->ds + i * BACK_TILE;
        for (int32_t j = 0; j < columns; j += VW) {
            const vf score = vf_load(s + j);
            vf probability = back_probability(&r, score);
            vf slope = back_slope(&r, score, probability, vf_load(ds + j));
            if (!p->whole) {
                const vm seen = vm_range(lo - j, hi - j);
                probability = vf_select(seen, probability, vf_zero());
                slope = vf_select(seen, slope, vf_zero());
            }
            vf_store(s + j, probability);
            vf_store(ds + j, slope);
        }
    }
    *w = (struct back_operands){ t->s, t->s, BACK_TILE, BACK_TILE };
    *x = (struct back_operands){ t->ds, t->ds, BACK_TILE, BACK_TILE };
}

static size_t back_row_bytes(int64_t W)
{
    return (size_t)W * sizeof(real);
}
static size_t back_right_bytes(int64_t W)
{
    return (size_t)width(W) * sizeof(real);
}

#define STORED f32
#include "kernel/body/attention_back/attention_back_dot.h"
#include "kernel/body/attention_back/attention_back_packs.h"
#undef STORED
#define STORED bf16
#include "kernel/body/attention_back/attention_back_dot.h"
#include "kernel/body/attention_back/attention_back_packs.h"
#undef STORED
#define STORED f16
#include "kernel/body/attention_back/attention_back_dot.h"
#include "kernel/body/attention_back/attention_back_packs.h"
#undef STORED

#define BACK_FLOAT(WORDS_, S)                                                                      \
    BACK_STEPS(WORDS_), .row_bytes = back_row_bytes, .key_bytes = back_row_bytes,                  \
                        .right_bytes = back_right_bytes, .pack_rows = back_rows_##S,               \
                        .pack_keys = back_keys_##S, .pack_right = back_right_##S,                  \
                        .dot = back_dot_##S, .store = back_store_##S

static const struct qkv_attention_back_kernels attention_back = { BACK_FLOAT("float", f32),
                                                                  .native = true, .type = QKV_F32 };
static const struct qkv_attention_back_kernels attention_back_bf16 = {
    BACK_FLOAT("bf16 as float", bf16), .type = QKV_BF16
};
static const struct qkv_attention_back_kernels attention_back_f16 = {
    BACK_FLOAT("f16 as float", f16), .type = QKV_F16
};
#define ATTENTION_BACK                                                                             \
    {                                                                                              \
        [QKV_PRECISION_F32] = &attention_back, [QKV_PRECISION_F32_STRICT] = &attention_back,       \
        [QKV_PRECISION_F32_FAST] = &attention_back, [QKV_PRECISION_BF16] = &attention_back_bf16,   \
        [QKV_PRECISION_F16] = &attention_back_f16                                                  \
    }
