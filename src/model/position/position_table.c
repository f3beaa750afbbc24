// SPDX-License-Identifier: MIT
// position_table.c: computes tables of fixed and rotary positions. A table grows when a text needs
// more rows than the table has, so its size depends on the longest text that the model has run.
#include "model/position/position.h"

// minimum number of rows of a table, so that each slightly longer text does not need a new table
enum { ROWS_FIRST = 64 };

int64_t qkv_position_grow(int64_t older, int64_t rows, int64_t most)
{
    return qkv_max64(rows, qkv_min64(qkv_max64(2 * older, ROWS_FIRST), most));
}

int64_t qkv_position_width(const struct qkv_description *d)
{
    return d->position == QKV_POSITION_ROTARY ? 2 * qkv_rope_pairs(d)
                                              : qkv_described_embed_width(d);
}

bool qkv_position_fill(real *table, const struct qkv_description *d, int64_t rows, bool local)
{
    if (d->position == QKV_POSITION_ROTARY) return qkv_rope_turns(table, rows, d, local);
    qkv_position_sinusoid(table, rows, qkv_described_embed_width(d),
                          d->position == QKV_POSITION_SINUSOIDAL);
    return true;
}
