// SPDX-License-Identifier: MIT
// embedding.c: computes the input rows of the first layer of a stack from token ids.
#include "model/position/position.h"

qkv_status qkv_places_ready(struct qkv_places *p, const struct qkv_model *m, int stack,
                            int64_t deepest)
{
    // m is const for callers, but qkv_position_rows stores new position tables in the model, under
    // its lock.
    struct qkv_model *own = (struct qkv_model *)m;
    const struct qkv_description *d = &m->is;
    const int64_t before = d->size.positions - m->positions + d->position_offset;
    *p = (struct qkv_places){ .rows = m->stack[stack].position.rows };
    switch (d->position) {
    case QKV_POSITION_NONE: return QKV_OK;
    case QKV_POSITION_ROTARY: {
        deepest = qkv_described_rows(d, deepest);
        const bool two = qkv_described_two_turns(d);
        qkv_status status = qkv_position_rows(&p->turn[0].table, own, QKV_ROWS_TURNS, deepest);
        p->turn[1].table = p->turn[0].table;
        if (!status && two)
            status = qkv_position_rows(&p->turn[1].table, own, QKV_ROWS_TURNS_LOCAL, deepest);
        p->turn[0].turned = p->turn[1].turned = 2 * qkv_rope_pairs(d);
        return status;
    }
    case QKV_POSITION_LEARNED:
        if (p->rows) return QKV_OK;
        return qkv_position_rows(&p->rows, own, stack ? QKV_ROWS_SECOND : QKV_ROWS_FIRST,
                                 before + deepest);
    default: return qkv_position_rows(&p->rows, own, QKV_ROWS_FIRST, before + deepest);
    }
}

void qkv_embedding_alloc(struct qkv_embedding_arrays *to, struct qkv_arena *a, int64_t R,
                         const struct qkv_model *m, int stack)
{
    const size_t row = (size_t)qkv_described_embed_width(&m->is) * sizeof(float);
    if (!m->stack[stack].word.rows) to->words = qkv_arena_alloc(a, (size_t)R, row);
    if (m->is.size.types && !m->type.rows)
        to->kinds = qkv_arena_alloc(a, (size_t)m->is.size.types, row);
    if (m->is.embed_width) to->narrow = qkv_arena_alloc(a, (size_t)R, row);
}

void qkv_embedding(float *x, const struct qkv_embedding_arrays *work, int32_t *ids,
                   const int32_t *types, const int32_t *positions, int64_t R,
                   const struct qkv_places *p, const struct qkv_model *m, int stack)
{
    const struct qkv_config_sizes *size = &m->is.size;
    const struct qkv_stack *to = &m->stack[stack];
    const int64_t D = qkv_described_embed_width(&m->is);
    float *sum = work->narrow ? work->narrow : x;
    struct qkv_embed e = { .V = to->vocab,
                           .D = D,
                           .token = to->word.rows,
                           .type = m->type.rows,
                           .position = p->rows,
                           .P = size->positions,
                           .Y = size->types,
                           .scale = (float)m->is.embed_scale };
    // copies the embedding rows of all tokens to a small table, in which row r belongs to token r
    if (work->words) {
        for (int64_t r = 0; r < R; r++) {
            qkv_table_row(work->words + r * D, &to->word, ids[r], D);
            ids[r] = (int32_t)r;
        }
        e.token = work->words;
        e.V = R;
    }
    if (work->kinds) {
        for (int64_t y = 0; y < size->types; y++)
            qkv_table_row(work->kinds + y * D, &m->type, y, D);
        e.type = work->kinds;
    }
    qkv_embed_forward(sum, ids, types, positions, R, &e);
    if (to->embedding_norm.D)
        qkv_norm_kind_forward(sum, 0, NULL, sum, R, &to->embedding_norm, m->is.norm_kind);
    if (work->narrow) qkv_linear_forward((void *[]){ x }, NULL, sum, R, &to->embed_in, NULL);
}
