// SPDX-License-Identifier: MIT
// position_rows.c: computes the rows of position tables that the file does not store as aligned
// floats, and stores the tables in the model for later runs.
#include "model/position/position.h"

static bool fill(float *at, int64_t rows, int64_t D, const struct qkv_model *m,
                 enum qkv_rows_kind kind)
{
    const struct qkv_description *d = &m->is;
    if (d->position != QKV_POSITION_LEARNED)
        return qkv_position_fill(at, d, rows, kind == QKV_ROWS_TURNS_LOCAL);
    for (int64_t p = 0; p < rows; p++)
        qkv_table_row(at + p * D, &m->stack[kind == QKV_ROWS_SECOND].position, p, D);
    return true;
}

// Makes a table of at least `rows` rows. If the model has enough positions, the table has at least
// twice the rows of the previous table, so that there are few replaced tables, and all of them
// together are smaller than the newest table.
static struct qkv_rows_made *make(struct qkv_model *m, enum qkv_rows_kind kind,
                                  struct qkv_rows_made *older, int64_t rows)
{
    const int64_t D = qkv_position_width(&m->is);
    const int64_t most = qkv_described_rows(&m->is, m->is.size.positions) + m->is.position_offset;
    size_t numbers;
    struct qkv_rows_made *made = qkv_alloc_zero(1, sizeof *made);
    if (!made) return NULL;
    made->rows = qkv_position_grow(older ? older->rows : 0, rows, most);
    made->older = older;
    if (qkv_mul_size(&numbers, (size_t)made->rows, (size_t)D))
        made->at = qkv_alloc(numbers, sizeof *made->at);
    if (made->at && fill(made->at, made->rows, D, m, kind)) return made;
    qkv_free(made->at);
    qkv_free(made);
    return NULL;
}

qkv_status qkv_position_rows(const float **out, struct qkv_model *m, enum qkv_rows_kind kind,
                             int64_t rows)
{
    struct qkv_rows_made *made = atomic_load_explicit(&m->made[kind], memory_order_acquire);
    if (!made || made->rows < rows) {
        pthread_mutex_lock(&m->lock);
        made = atomic_load_explicit(&m->made[kind], memory_order_relaxed);
        if (!made || made->rows < rows) {
            made = make(m, kind, made, rows);
            if (made) atomic_store_explicit(&m->made[kind], made, memory_order_release);
        }
        pthread_mutex_unlock(&m->lock);
    }
    if (!made) return QKV_ERR_LIMIT;
    *out = made->at;
    return QKV_OK;
}
