// SPDX-License-Identifier: MIT
// ablate.c: marks the ablated heads of a model in its layers.
//
// A layer with ablated heads points to an array with one QKV_HEADS_* value per head (layer.h). A
// head ablated to uniform weights needs equal scores. So a layer with such heads has a
// relative-position table of its own, which is 0 for these heads.
#include "model/forward/observe.h"
#include "model/forward/stream.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PARTS = 4 };

// ---- parts of a model --------------------------------------------------------------------------
int64_t qkv_part_layers(const struct qkv_model *m, enum qkv_attention_part part)
{
    const bool two = m->stacks > 1;
    if (!m->stacks || (int)part < 0 || (int)part >= PARTS || two != (part != QKV_PART_STACK))
        return 0;
    return m->stack[qkv_part_stack(part)].layers;
}

struct qkv_heads *qkv_part_heads(const struct qkv_model *m, enum qkv_attention_part part,
                                 int64_t layer)
{
    struct qkv_block *b = &m->stack[qkv_part_stack(part)].block[layer];
    return part == QKV_PART_CROSS ? &b->cross : &b->heads;
}

void qkv_ablate_relative(float *to, const float *from, const unsigned char *gives, int64_t H,
                         int64_t reach)
{
    const size_t row = (size_t)(2 * reach + 1);
    memcpy(to, from, (size_t)H * row * sizeof *to);
    for (int64_t h = 0; h < H; h++)
        if (gives[h] == QKV_HEADS_UNIFORM) memset(to + (size_t)h * row, 0, row * sizeof *to);
}

// ---- checked lists ------------------------------------------------------------------------------
// The memory of all ablations of a model or of one run: the kind of ablation of each head, by part
// and layer, and the structs to which layers point.
struct ablated {
    const struct qkv_model *model;
    struct qkv_stack *stack;  // [stacks] the stacks whose layers point here
    bool copies;              // true: `stack` are copies of the model's stacks, with their own ...
    struct qkv_block *own[2]; // ... [blocks] layers
    // for each attention part (enum qkv_attention_part): [layers][H], the QKV_HEADS_* value of each
    // head; NULL: the model has no such part
    unsigned char *gives[PARTS];
    // for each attention part: [layers], the struct to which each layer points
    struct qkv_heads_ablation *part[PARTS];
    // for each stack: [layers][H][2 reach + 1], the relative-position tables of its layers
    float *relative[2];
};

static void lay_out_ablation(void *ctx, struct qkv_arena *arena)
{
    struct ablated *a = ctx;
    const struct qkv_model *m = a->model;
    const size_t H = (size_t)m->is.size.heads;
    for (int p = 0; p < PARTS; p++) {
        const size_t layers = (size_t)qkv_part_layers(m, (enum qkv_attention_part)p);
        if (!layers) continue;
        a->gives[p] = qkv_arena_alloc(arena, layers, H);
        a->part[p] = qkv_arena_alloc(arena, layers, sizeof *a->part[p]);
    }
    for (int i = 0; i < m->stacks; i++) {
        if (a->copies)
            a->own[i] = qkv_arena_alloc(arena, (size_t)m->stack[i].blocks, sizeof *a->own[i]);
        if (m->stack[i].relative)
            a->relative[i] =
                qkv_arena_alloc(arena, (size_t)m->stack[i].layers * H,
                                (size_t)(2 * m->stack[i].reach + 1) * sizeof *a->relative[i]);
    }
}

// Sets the entries in a->gives of the heads that x selects. The new value says how these heads are
// replaced (x->kind).
static void mark(struct ablated *a, const struct qkv_model *m, const struct qkv_ablation *x)
{
    const int64_t H = m->is.size.heads;
    unsigned char *row = a->gives[x->part] + x->layer * H;
    const int64_t first = qkv_max64(x->head, 0), last = x->head < 0 ? H - 1 : x->head;
    memset(row + first, QKV_HEADS_ZERO + (int)x->kind, (size_t)(last - first + 1));
}

// Points a layer to its ablation if any of its heads is ablated. Heads ablated to their mean need
// running sums for each decoded token: adds the size of this layer's sums, in numbers, to *sums.
static void point(struct ablated *a, enum qkv_attention_part part, int64_t layer, int64_t *sums)
{
    const struct qkv_stack *stack = &a->stack[qkv_part_stack(part)];
    const int64_t H = a->model->is.size.heads, row = H * (2 * stack->reach + 1);
    struct qkv_block *block = &stack->block[layer];
    struct qkv_heads *heads = part == QKV_PART_CROSS ? &block->cross : &block->heads;
    const unsigned char *gives = a->gives[part] + layer * H;
    bool any = false, alike = false;
    int64_t means = 0;
    for (int64_t h = 0; h < H; h++) {
        any |= gives[h] != QKV_HEADS_FOUND;
        alike |= gives[h] == QKV_HEADS_UNIFORM;
        means += gives[h] == QKV_HEADS_MEAN;
    }
    heads->ablation = any ? &a->part[part][layer] : NULL;
    a->part[part][layer] =
        (struct qkv_heads_ablation){ .gives = gives, .running = stack->causal, .column = *sums };
    if (stack->causal) *sums += means * heads->F;
    if (part == QKV_PART_CROSS || !stack->relative) return;
    float *table = a->relative[qkv_part_stack(part)] + layer * row;
    if (alike) qkv_ablate_relative(table, stack->relative, gives, H, stack->reach);
    block->relative = alike ? table : NULL;
}

// Marks the heads of a checked list, and points every layer to its ablation.
static void mark_all(struct ablated *a, const struct qkv_ablation *list, int64_t n, int64_t *sums)
{
    for (int64_t i = 0; i < n; i++) mark(a, a->model, &list[i]);
    for (int p = 0; p < PARTS; p++)
        for (int64_t k = 0; k < qkv_part_layers(a->model, (enum qkv_attention_part)p); k++)
            point(a, (enum qkv_attention_part)p, k, sums);
}

// Removes the ablations of the layers of a stack.
static void clear(struct qkv_stack *s)
{
    for (int64_t k = 0; k < s->layers; k++) {
        s->block[k].heads.ablation = s->block[k].cross.ablation = NULL;
        s->block[k].relative = NULL;
    }
}

// Removes all ablations.
static void forget(struct qkv_model *m)
{
    for (int i = 0; i < m->stacks; i++) clear(&m->stack[i]);
    qkv_free(m->ablated);
    m->ablated = NULL;
    m->sums = 0;
}

qkv_status qkv_run_ablate(void **memory, struct qkv_stack *stacks, const struct qkv_model *m,
                          const struct qkv_ablation *list, int64_t n, qkv_error *err)
{
    struct ablated a = { .model = m, .stack = stacks, .copies = true };
    int64_t sums = 0; // a run of whole sequences has no running sums
    *memory = NULL;
    const qkv_status status = qkv_ablation_check(m, list, n, err);
    if (status) return status;
    *memory = qkv_arena_twice(lay_out_ablation, &a, true);
    if (!*memory) return qkv_fail_memory(err, m->dir);
    for (int i = 0; i < m->stacks; i++) {
        memcpy(a.own[i], m->stack[i].block, (size_t)m->stack[i].blocks * sizeof *a.own[i]);
        stacks[i] = m->stack[i];
        stacks[i].block = a.own[i];
        clear(&stacks[i]);
    }
    mark_all(&a, list, n, &sums);
    return QKV_OK;
}

qkv_status qkv_model_ablate(qkv_model *m, const struct qkv_ablation *list, int64_t n,
                            qkv_error *err)
{
    struct ablated a = { .model = m, .stack = m ? m->stack : NULL };
    if (!m || n < 0 || (n && !list))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_model_ablate: expected a model and a list of heads, found NULL");
    if (n && !m->stacks)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = m->dir },
                        "ablation requires a Transformer; this model is %s", m->model_type);
    const qkv_status status = qkv_ablation_check(m, list, n, err);
    if (status) return status;
    if (!n) {
        forget(m);
        return QKV_OK;
    }
    void *memory = qkv_arena_twice(lay_out_ablation, &a, true);
    if (!memory) return qkv_fail_memory(err, m->dir);
    forget(m);
    m->ablated = memory;
    mark_all(&a, list, n, &m->sums);
    return QKV_OK;
}
