// SPDX-License-Identifier: MIT
// attention_more.h: attention on numbers stored as bf16, f16, or float with keys and values of 8
// bits.
// After attention.h; wants the words vf_load_bf16, vf_store_bf16, ... of each type.
//
// Keys and values stay as small as they are stored; the products' loads convert.  Queries become
// floats once, so that all sums are those of floats.
typedef uint16_t element_bf16, element_f16;
typedef int8_t element_int8;

static size_t query_bytes(int64_t E)
{
    return (size_t)E * sizeof(real);
}

#define STORED bf16
#include "kernel/body/attention/attention_packs.h"
#include "kernel/body/attention/attention_ends.h"
#include "kernel/body/attention/attention_tiles.h"
#undef STORED
#define STORED f16
#include "kernel/body/attention/attention_packs.h"
#include "kernel/body/attention/attention_ends.h"
#include "kernel/body/attention/attention_tiles.h"
#undef STORED
#define STORED int8
#include "kernel/body/attention/attention_tiles.h"
#undef STORED
#include "kernel/body/attention/attention_int8.h"

static const struct qkv_attention_kernels attention_bf16 = {
    ATTENTION_SHARED("bf16 as float", MR, WIDE, VW), ATTENTION_STORED(bf16), .type = QKV_BF16,
    .query_bytes = query_bytes, .pack_query = pack_query_bf16
};
static const struct qkv_attention_kernels attention_f16 = {
    ATTENTION_SHARED("f16 as float", MR, WIDE, VW), ATTENTION_STORED(f16), .type = QKV_F16,
    .query_bytes = query_bytes, .pack_query = pack_query_f16
};
static const struct qkv_attention_kernels attention_int8 = { ATTENTION_SHARED("int8 as float", MR,
                                                                              WIDE, VW),
                                                             .type = QKV_F32,
                                                             .key_bytes = key_bytes_int8,
                                                             .value_bytes = value_bytes_int8,
                                                             .query_bytes = query_bytes,
                                                             .pack_keys = pack_keys_int8,
                                                             .pack_values = pack_values_int8,
                                                             .scores = scaled_scores_int8,
                                                             .values = scaled_values_int8,
                                                             .divide = divide_f32 };
