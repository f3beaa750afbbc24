// SPDX-License-Identifier: MIT
// stack.c: allocates the blocks of a stack, and finds the member of a stack or block that a
// parameter fills, for models that run and models that are trained.
#include "model/model_internal.h"
#include <stddef.h>

static void size_heads(struct qkv_heads *to, const struct qkv_description *d)
{
    to->H = d->size.heads;
    to->G = d->size.kv_heads;
    to->E = qkv_head_keys(d);
    to->F = qkv_head_values(d);
}

qkv_status qkv_stack_alloc(struct qkv_stack *to, const struct qkv_description *d, int64_t layers,
                           bool cross)
{
    to->layers = layers;
    to->blocks = layers + d->mlp_once;
    to->block = qkv_alloc_zero((size_t)to->blocks + 1, sizeof *to->block);
    if (!to->block) return QKV_ERR_LIMIT;
    for (int64_t i = 0; i < to->blocks; i++) {
        struct qkv_block *b = &to->block[i];
        b->mlp.act = d->act;
        b->mlp.gated = d->gated;
        if (i == layers) break; // the last block is feed-forward only
        size_heads(&b->heads, d);
        if (cross) size_heads(&b->cross, d);
        if (d->norm_q) b->heads.norm_q = &b->norm_q;
        if (d->norm_k) b->heads.norm_k = &b->norm_k;
        b->local = qkv_described_local(d, i);
        b->unrotated = !qkv_described_rotated(d, i);
        to->locals |= b->local;
    }
    return QKV_OK;
}

void qkv_stack_share(struct qkv_stack *s, const struct qkv_description *d)
{
    for (int64_t i = 0; i < s->layers; i++) {
        const int64_t source = qkv_layer_source(d, i);
        struct qkv_block *own = &s->block[i], b = s->block[source];
        if (source == i) continue;
        b.local = own->local;
        b.unrotated = own->unrotated;
        b.relative = own->relative;
        b.heads.ablation = own->heads.ablation;
        b.cross.ablation = own->cross.ablation;
        b.heads.norm_q = own->heads.norm_q;
        b.heads.norm_k = own->heads.norm_k;
        *own = b;
    }
}

enum owner { OWNER_MODEL = 0, OWNER_STACK, OWNER_BLOCK };

void *qkv_role_member(struct qkv_model *m, struct qkv_stack *s, const struct qkv_parameter_row *row)
{
#define STRUCT_MODEL struct qkv_model
#define STRUCT_STACK struct qkv_stack
#define STRUCT_BLOCK struct qkv_block
    static const struct {
        enum owner owner;
        size_t offset;
    } members[] = {
#define QKV_ROLE(NAME, KIND, OWNER, MEMBER)                                                        \
    [QKV_ROLE_##NAME] = { OWNER_##OWNER, offsetof(STRUCT_##OWNER, MEMBER) },
#include "model/params/role.def"
#undef QKV_ROLE
    };
    char *owner = (char *)m;
    if (members[row->role].owner == OWNER_STACK) owner = (char *)s;
    if (members[row->role].owner == OWNER_BLOCK) owner = (char *)&s->block[row->layer];
    return owner + members[row->role].offset;
}

int64_t qkv_stack_sublayers(const struct qkv_stack *s)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->blocks; i++)
        for (int k = 0; k < QKV_SUBLAYERS; k++) n += qkv_block_has(&s->block[i], k);
    return n;
}
