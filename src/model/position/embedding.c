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

struct qkv_embedding_memory qkv_embedding_memory(const struct qkv_model *m, int stack)
{
    return (struct qkv_embedding_memory){ .words = !m->stack[stack].word.rows,
                                          .kinds = m->is.size.types && !m->type.rows };
}

void qkv_embedding(float *x, float *words, float *kinds, int32_t *ids, const int32_t *types,
                   const int32_t *positions, int64_t R, const struct qkv_places *p,
                   const struct qkv_model *m, int stack)
{
    const struct qkv_config_sizes *size = &m->is.size;
    const struct qkv_stack *to = &m->stack[stack];
    const int64_t D = size->width;
    struct qkv_embed e = { .V = to->vocab,
                           .D = D,
                           .token = to->word.rows,
                           .type = m->type.rows,
                           .position = p->rows,
                           .P = size->positions,
                           .Y = size->types,
                           .scale = (float)m->is.embed_scale };
    // copies the embedding rows of all tokens to a small table, in which row r belongs to token r
    if (words) {
        for (int64_t r = 0; r < R; r++) {
            qkv_table_row(words + r * D, &to->word, ids[r], D);
            ids[r] = (int32_t)r;
        }
        e.token = words;
        e.V = R;
    }
    if (kinds) {
        for (int64_t y = 0; y < size->types; y++) qkv_table_row(kinds + y * D, &m->type, y, D);
        e.type = kinds;
    }
    qkv_embed_forward(x, ids, types, positions, R, &e);
    if (to->embedding_norm.D)
        qkv_norm_kind_forward(x, 0, NULL, x, R, &to->embedding_norm, m->is.norm_kind);
}
