// SPDX-License-Identifier: MIT
// steps.h: tables of attention steps: what every score and every type share, and what is their own.
// WORDS_: how a product is formed; where numbers are converted first, from which type.
#define ATTENTION_SHARED(WORDS_, ROWS_, KEYS_, LANES_)                                             \
    .isa = ISA_NAME, .arithmetic = WORDS_, .rows = ROWS_, .keys = KEYS_, .lanes = LANES_,          \
    .width = width, .shape = shape, .softmax = softmax, .clear = clear, .drop = drop,              \
    .merge = merge, .join = join, .weights = weights
// The functions of one type, named by attention_names.h.
#define ATTENTION_STORED(S)                                                                        \
    .key_bytes = key_bytes_##S, .value_bytes = value_bytes_##S, .pack_keys = pack_keys_##S,        \
    .pack_values = pack_values_##S, .scores = scores_##S, .values = values_##S,                    \
    .divide = divide_##S
// A table by precision for floats, halves and bytes: the kernels NAME_, NAME_bf16, NAME_f16,
// NAME_int8.
#define BY_CONVERSION(NAME_)                                                                       \
    {                                                                                              \
        [QKV_PRECISION_F32] = &NAME_, [QKV_PRECISION_F32_STRICT] = &NAME_,                         \
        [QKV_PRECISION_F32_FAST] = &NAME_, [QKV_PRECISION_BF16] = &NAME_##_bf16,                   \
        [QKV_PRECISION_F16] = &NAME_##_f16, [QKV_PRECISION_INT8] = &NAME_##_int8                   \
    }
