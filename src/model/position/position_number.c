// SPDX-License-Identifier: MIT
// position_number.c: computes the row of the position table for each token.
//
// With position_after_pad, padding tokens are numbered as by create_position_ids_from_input_ids of
// RoBERTa's reference.
#include "model/position/position.h"

void qkv_position_number(int32_t *positions, const struct qkv_description *d, const int32_t *ids,
                         const int64_t *offsets, int64_t n, int32_t first)
{
    const int32_t pad = (int32_t)d->size.pad;
    first += (int32_t)d->position_offset;
    if (!d->position_after_pad) {
        qkv_positions(positions, offsets, n, first);
        // sequences of more than `original` tokens have other rows of the table
        for (int64_t i = 0; d->rope.kind == QKV_ROPE_LONG && i < n; i++)
            for (int64_t r = offsets[i]; r < offsets[i + 1]; r++)
                if (offsets[i + 1] - offsets[i] > d->rope.original)
                    positions[r] += (int32_t)d->rope.original;
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int32_t next = pad + 1 + first;
        for (int64_t r = offsets[i]; r < offsets[i + 1]; r++)
            positions[r] = ids[r] == pad ? pad : next++;
    }
}
