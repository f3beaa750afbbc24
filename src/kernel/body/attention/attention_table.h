// SPDX-License-Identifier: MIT
// attention_table.h: defines macros for tables of attention kernels. ATTENTION_SHARED lists the
// kernels that all score functions and types share. WORDS_ is the name of the method that computes
// a product, such as "float" or "bf16 as float".
#define ATTENTION_SHARED(WORDS_, ROWS_, KEYS_, LANES_)                                             \
    .isa = ISA_NAME, .arithmetic = WORDS_, .rows = ROWS_, .keys = KEYS_, .lanes = LANES_,          \
    .width = width, .modify = modify, .softmax = softmax, .clear = clear, .drop = drop,            \
    .merge = merge, .join = join, .weights = weights
// Lists the kernels of one type, with the names of attention_names.h.
#define ATTENTION_STORED(S)                                                                        \
    .key_bytes = key_bytes_##S, .value_bytes = value_bytes_##S, .pack_keys = pack_keys_##S,        \
    .pack_values = pack_values_##S, .scores = scores_##S, .values = values_##S,                    \
    .divide = divide_##S
// Lists the kernels of all precisions, in an array indexed by precision: NAME_ for floats,
// NAME_bf16, NAME_f16 and NAME_int8 for the other types.
#define BY_CONVERSION(NAME_)                                                                       \
    {                                                                                              \
        [QKV_PRECISION_F32] = &NAME_, [QKV_PRECISION_F32_STRICT] = &NAME_,                         \
        [QKV_PRECISION_F32_FAST] = &NAME_, [QKV_PRECISION_BF16] = &NAME_##_bf16,                   \
        [QKV_PRECISION_F16] = &NAME_##_f16, [QKV_PRECISION_INT8] = &NAME_##_int8                   \
    }
