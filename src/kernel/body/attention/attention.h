// SPDX-License-Identifier: MIT
// attention.h: defines the vector kernels of attention: layouts and products of floats, and the
// steps that other types share. Requires exp.h.

#include "kernel/body/attention/attention_shape.h"

#define STORED f32
#include "kernel/body/attention/attention_packs.h"
#include "kernel/body/attention/attention_io.h"
#include "kernel/body/attention/attention_tiles.h"
#undef STORED

static const struct qkv_attention_kernels attention = { ATTENTION_SHARED("float", MR, WIDE, VW),
                                                        ATTENTION_STORED(f32), .native = true,
                                                        .type = QKV_F32,
                                                        .query_bytes = key_bytes_f32 };
