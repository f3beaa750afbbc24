// SPDX-License-Identifier: MIT
// position_rows.c: rows of the position table that the file does not have as floats, made once.
#include "model/model.h"

enum { ROWS_FIRST = 64 }; // made at least, so that a few longer texts do not each make their own

// As many rows again as there are, so that all that were made in vain are no more than those in
// use.
static struct qkv_rows_made *make(struct qkv_model *m, struct qkv_rows_made *older, int64_t rows)
{
    const bool turns = m->is.position == QKV_POSITION_ROTARY;
    const int64_t D = turns ? qkv_head_keys(&m->is) : m->is.size.width;
    const int64_t most = m->is.size.positions;
    const int64_t again = older ? 2 * older->rows : ROWS_FIRST;
    size_t numbers;
    struct qkv_rows_made *made = qkv_alloc_zero(1, sizeof *made);
    if (!made) return NULL;
    made->rows = qkv_max64(rows, qkv_min64(again, most));
    made->older = older;
    if (qkv_mul_size(&numbers, (size_t)made->rows, (size_t)D))
        made->at = qkv_alloc(numbers, sizeof *made->at);
    if (!made->at) {
        qkv_free(made);
        return NULL;
    }
    if (turns)
        qkv_rope_table(made->at, made->rows, D, (float)m->is.theta);
    else if (m->is.position != QKV_POSITION_LEARNED)
        qkv_position_sinusoid(made->at, made->rows, D, m->is.position == QKV_POSITION_SINUSOIDAL);
    else
        for (int64_t p = 0; p < made->rows; p++)
            qkv_table_row(made->at + p * D, &m->position, p, D);
    return made;
}

qkv_status qkv_position_rows(const float **out, struct qkv_model *m, int64_t rows)
{
    struct qkv_rows_made *made = atomic_load_explicit(&m->made, memory_order_acquire);
    if (!made || made->rows < rows) {
        pthread_mutex_lock(&m->lock);
        made = atomic_load_explicit(&m->made, memory_order_relaxed);
        if (!made || made->rows < rows) {
            made = make(m, made, rows);
            if (made) atomic_store_explicit(&m->made, made, memory_order_release);
        }
        pthread_mutex_unlock(&m->lock);
    }
    if (!made) return QKV_ERR_LIMIT;
    *out = made->at;
    return QKV_OK;
}
