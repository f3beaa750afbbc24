// SPDX-License-Identifier: MIT
// attention_stored.h: defines attention on numbers stored as bf16 or f16. Requires attention.h and,
// for each type, its load and store functions such as vf_load_bf16 and vf_store_bf16.
//
// Keys and values are packed in their stored type and converted when a product loads them. Queries
// are converted to floats once, so that all sums are sums of floats. If a file isa_*.c defines
// ATTENTION_SPLIT, a tile loads two vectors of bf16 as words of two numbers and splits each word.
typedef uint16_t element_bf16, element_f16;

static size_t query_bytes(int64_t E)
{
    return (size_t)E * sizeof(real);
}

#define STORED bf16
#ifdef ATTENTION_SPLIT
#define TILE_LOAD2  vf_split_bf16
#define TILE_ORDER2 vf_interleave
#endif
#include "kernel/body/attention/attention_packs.h"
#include "kernel/body/attention/attention_io.h"
#include "kernel/body/attention/attention_tiles.h"
#undef TILE_LOAD2
#undef TILE_ORDER2
#undef STORED
#define STORED f16
#include "kernel/body/attention/attention_packs.h"
#include "kernel/body/attention/attention_io.h"
#include "kernel/body/attention/attention_tiles.h"
#undef STORED

static const struct qkv_attention_kernels attention_bf16 = {
    ATTENTION_SHARED("bf16 as float", MR, WIDE, VW), ATTENTION_STORED(bf16), .type = QKV_BF16,
    .query_bytes = query_bytes, .pack_query = pack_query_bf16
};
static const struct qkv_attention_kernels attention_f16 = {
    ATTENTION_SHARED("f16 as float", MR, WIDE, VW), ATTENTION_STORED(f16), .type = QKV_F16,
    .query_bytes = query_bytes, .pack_query = pack_query_f16
};
