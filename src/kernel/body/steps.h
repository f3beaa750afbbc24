// SPDX-License-Identifier: MIT
// steps.h: a table of attention steps: what every score shares, and the two steps that are its own.
#define ATTENTION_STEPS(ISA, ROWS_, KEYS_, LANES_, PACK_KEYS, SCORES)                              \
    {                                                                                              \
        .isa = ISA, .arithmetic = "float", .native = true, .type = QKV_REAL,                       \
        .key_bytes = row_bytes, .value_bytes = value_bytes, .query_bytes = row_bytes,              \
        .rows = ROWS_, .keys = KEYS_, .lanes = LANES_, .pack_keys = PACK_KEYS, .scores = SCORES,   \
        .pack_values = pack_values, .width = width, .shape = shape, .softmax = softmax,            \
        .clear = clear, .merge = merge, .values = values, .divide = divide, .weights = weights     \
    }
