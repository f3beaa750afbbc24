// SPDX-License-Identifier: MIT
// forward_from_layer.c: runs a stack from a given layer to its end, for copies of a sequence that
// differ in the ablated heads of the given layer. So a scan that ablates one head at a time runs
// the preceding layers only once.
#include "model/forward/observe.h"
#include "model/forward/stream.h"
#include <string.h>

// The state of a run over all copies.
struct layers_run {
    const struct qkv_model *m;
    const struct qkv_run_from_layer *of;
    const struct qkv_stack *stack;
    int64_t R; // number of rows of all copies together
    // [n + 1] offsets: first row of each copy; k_offsets: first row of each copy's encoder output
    int64_t *offsets, *k_offsets;
    int32_t *ids, *positions;
    float *x, *spare, *normed;
    // relative-position table of the first layer; NULL: no head is ablated to uniform weights, or
    // the stack has no relative positions
    float *relative;
    void *scratch;
    size_t scratch_bytes;
    struct qkv_places places;
    struct qkv_attention attention, local, across;
};

static bool alike(const struct qkv_run_from_layer *a, int64_t H)
{
    return a->gives && memchr(a->gives, QKV_HEADS_UNIFORM, (size_t)(a->n * H));
}

bool qkv_run_from_layer_alone(const struct qkv_model *m, const struct qkv_run_from_layer *a)
{
    return a->part != QKV_PART_CROSS && m->stack[qkv_part_stack(a->part)].relative &&
           alike(a, m->is.size.heads);
}

static void take(struct layers_run *g, struct qkv_arena *a)
{
    const size_t R = (size_t)g->R, D = (size_t)g->m->is.size.width;
    const size_t H = (size_t)g->m->is.size.heads;
    g->ids = qkv_arena_alloc(a, R, sizeof *g->ids);
    g->positions = qkv_arena_alloc(a, R, sizeof *g->positions);
    g->x = qkv_arena_alloc(a, R, D * sizeof *g->x);
    g->spare = qkv_arena_alloc(a, R, D * sizeof *g->x);
    if (g->m->is.norm != QKV_NORM_POST) g->normed = qkv_arena_alloc(a, R, D * sizeof *g->x);
    if (qkv_run_from_layer_alone(g->m, g->of))
        g->relative =
            qkv_arena_alloc(a, H, (size_t)(2 * g->stack->reach + 1) * sizeof *g->relative);
    g->scratch = qkv_arena_alloc(a, g->scratch_bytes, 1);
}

static struct qkv_attention packed(const struct layers_run *g, struct qkv_attention a, int64_t keys)
{
    return qkv_attention_packed(&a, g->R, g->of->n * keys, g->of->n, g->offsets,
                                keys == g->of->T ? g->offsets : g->k_offsets);
}

// Sets the three attentions (normal layers, local layers, cross-attention) and g->scratch_bytes.
static qkv_status plan(struct layers_run *g)
{
    const struct qkv_attention *each[] = { &g->attention, &g->local };
    const int stack = qkv_part_stack(g->of->part);
    qkv_status status = QKV_OK;
    g->attention = packed(g, qkv_stack_attention(g->m, stack, false), g->of->T);
    g->local = packed(g, qkv_stack_attention(g->m, stack, true), g->of->T);
    g->across = packed(g, qkv_cross_attention(g->m), g->of->S);
    for (int k = 0; !status && k < 1 + g->stack->locals; k++) {
        const size_t bytes = qkv_stack_scratch(g->stack, each[k], &g->across, &status);
        if (!status && bytes > g->scratch_bytes) g->scratch_bytes = bytes;
    }
    return status;
}

// Repeats the input rows and ids for each copy and computes the positions.
static void fill(struct layers_run *g)
{
    const struct qkv_run_from_layer *of = g->of;
    const size_t rows = (size_t)(of->T * g->m->is.size.width);
    for (int64_t i = 0; i < of->n; i++) {
        memcpy(g->x + (size_t)i * rows, of->x, rows * sizeof *g->x);
        memcpy(g->ids + i * of->T, of->ids, (size_t)of->T * sizeof *g->ids);
    }
    qkv_position_number(g->positions, &g->m->is, g->ids, g->offsets, of->n, 0);
}

// Returns a copy of the first layer that runs, with the ablation of this run. The copy points to
// *ablation, which the function fills.
static struct qkv_block first(struct layers_run *g, struct qkv_heads_ablation *ablation)
{
    const struct qkv_run_from_layer *of = g->of;
    const int64_t H = g->m->is.size.heads;
    struct qkv_block b = g->stack->block[of->layer];
    if (!of->gives) return b;
    *ablation = (struct qkv_heads_ablation){ of->gives, H, g->stack->causal, 0 };
    *(of->part == QKV_PART_CROSS ? &b.cross.ablation : &b.heads.ablation) = ablation;
    if (g->relative) {
        qkv_ablate_relative(g->relative, b.relative ? b.relative : g->stack->relative, of->gives, H,
                            g->stack->reach);
        b.relative = g->relative;
    }
    return b;
}

static qkv_status layers(struct layers_run *g, float *hidden)
{
    const struct qkv_model *m = g->m;
    struct qkv_stream stream =
        qkv_stream_of(&m->is, g->R, &g->places, &g->attention, &g->local, &g->across);
    stream.positions = g->positions;
    stream.x = g->x;
    stream.spare = g->spare;
    stream.normed = g->normed;
    stream.memory = g->of->memory;
    stream.scratch = g->scratch;
    struct qkv_heads_ablation ablation;
    const struct qkv_block other = first(g, &ablation);
    qkv_status status = qkv_block_forward(&stream, &other, NULL);
    for (int64_t i = g->of->layer + 1; !status && i < g->stack->blocks; i++)
        status = qkv_block_forward(&stream, &g->stack->block[i], NULL);
    if (status) return status;
    if (g->stack->final_norm.D)
        qkv_norm_kind_forward(stream.x, 0, NULL, stream.x, g->R, &g->stack->final_norm,
                              m->is.norm_kind);
    memcpy(hidden, stream.x, (size_t)(g->R * m->is.size.width) * sizeof *hidden);
    return QKV_OK;
}

qkv_status qkv_model_run_from_layer(const struct qkv_model *m, float *hidden,
                                    const struct qkv_run_from_layer *a, qkv_error *err)
{
    struct layers_run g = {
        .m = m, .of = a, .stack = &m->stack[qkv_part_stack(a->part)], .R = a->n * a->T
    };
    struct qkv_arena count = { .size = SIZE_MAX };
    struct qkv_workspace *memory = NULL;
    if (qkv_model_pack((struct qkv_model *)m, QKV_PACK_BODY) ||
        qkv_places_ready(&g.places, m, qkv_part_stack(a->part), a->T))
        return qkv_fail_memory(err, m->dir);
    // The plan of attention reads the offsets, so they are allocated before the memory whose size
    // the plan returns.
    int64_t *offsets = qkv_alloc(2 * (size_t)a->n + 2, sizeof *offsets);
    if (!offsets) return qkv_fail_memory(err, NULL);
    g.offsets = offsets;
    g.k_offsets = offsets + a->n + 1;
    for (int64_t i = 0; i <= a->n; i++) {
        g.offsets[i] = i * a->T;
        g.k_offsets[i] = i * a->S;
    }
    qkv_status status = plan(&g);
    if (status) {
        qkv_fail(err, status, NULL, "attention over copies of a text cannot run: %s",
                 qkv_status_name(status));
        goto done;
    }
    take(&g, &count);
    if (!qkv_arena_full(&count))
        memory = qkv_workspace_acquire(&((struct qkv_model *)m)->workspaces, count.used);
    if (!memory) {
        status = qkv_fail_memory(err, NULL);
        goto done;
    }
    struct qkv_arena arena = { memory->bytes, count.used, 0 };
    take(&g, &arena);
    fill(&g);
    status = layers(&g, hidden);
    if (status)
        qkv_fail(err, status, NULL, "a layer of the model cannot run: %s", qkv_status_name(status));
done:
    qkv_workspace_release(&((struct qkv_model *)m)->workspaces, memory);
    qkv_free(offsets);
    return status;
}
