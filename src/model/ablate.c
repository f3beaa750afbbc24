// SPDX-License-Identifier: MIT
// ablate.c: heads of a model that give something else: their names, and what the layers read of them.
//
// Each layer with such a head points to a row that says what its heads give (layer.h); where keys are
// to weigh the same, scores must be equal, and the numbers that relative positions add to those of the
// head are 0 in a table of that layer's own.
#include "model/model.h"
#include <inttypes.h>
#include <qkv/ablate.h>
#include <stdio.h>
#include <string.h>

static const char *const parts[] = { "", "enc.", "dec.", "cross." };
static const char *const kinds[] = { "zero", "mean", "uniform" };
enum { PARTS = 4, KINDS = 3 };

// ---- names -------------------------------------------------------------------------------------
// The digits at *p as a number; false: none there, or too many.
static bool number(int64_t *out, const char **p, const char *end)
{
    const char *from = *p;
    *out = 0;
    while (*p < end && **p >= '0' && **p <= '9' && *p - from < 9) *out = *out * 10 + *(*p)++ - '0';
    return *p > from && !(*from == '0' && *p - from > 1) && !(*p < end && **p >= '0' && **p <= '9');
}

static bool take(const char **p, const char *end, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(end - *p) < n || memcmp(*p, word, n) != 0) return false;
    *p += n;
    return true;
}

// "=zero" up to the end; nothing is zero too.
static bool kind_of(enum qkv_ablation_kind *out, const char *p, const char *end)
{
    *out = QKV_ABLATE_ZERO;
    if (p == end) return true;
    if (!take(&p, end, "=")) return false;
    for (int k = 0; k < KINDS; k++)
        if ((size_t)(end - p) == strlen(kinds[k]) && !memcmp(p, kinds[k], (size_t)(end - p))) {
            *out = (enum qkv_ablation_kind)k;
            return true;
        }
    return false;
}

qkv_status qkv_ablation_parse(struct qkv_ablation *out, const char *text, size_t bytes,
                              qkv_error *err)
{
    if (!out || !text)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_ablation_parse, expected a place and a text, found NULL");
    const char *p = text, *end = text + bytes;
    struct qkv_ablation a = { .part = QKV_SEEN_STACK };
    for (int i = 1; i < PARTS && !a.part; i++)
        if (take(&p, end, parts[i])) a.part = (enum qkv_seen_part)i;
    bool named = take(&p, end, "L") && number(&a.layer, &p, end) && take(&p, end, ".H");
    if (named && take(&p, end, "*"))
        a.head = -1;
    else
        named = named && number(&a.head, &p, end);
    if (!named || (p < end && *p != '='))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "a head to ablate, expected L3.H5, L3.H* for all of a layer, or enc.L0.H1, "
                        "dec.L0.H1, cross.L0.H1, found '%.*s'",
                        (int)(bytes < 60 ? bytes : 60), text);
    if (!kind_of(&a.kind, p, end))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "what becomes of a head, expected =zero, =mean or =uniform, found '%.*s'",
                        (int)(end - p < 60 ? end - p : 60), p);
    *out = a;
    return QKV_OK;
}

char *qkv_ablation_name(char *out, size_t size, const struct qkv_ablation *a)
{
    if (!out || !size) return out;
    out[0] = 0;
    if (!a || (int)a->part < 0 || (int)a->part >= PARTS || (int)a->kind < 0 ||
        (int)a->kind >= KINDS)
        return out;
    if (a->head < 0)
        snprintf(out, size, "%sL%" PRId64 ".H*=%s", parts[a->part], a->layer, kinds[a->kind]);
    else
        snprintf(out, size, "%sL%" PRId64 ".H%" PRId64 "=%s", parts[a->part], a->layer, a->head,
                 kinds[a->kind]);
    return out;
}

// ---- parts of a model --------------------------------------------------------------------------
int64_t qkv_part_layers(const struct qkv_model *m, enum qkv_seen_part part)
{
    const bool two = m->stacks > 1;
    if (!m->stacks || (int)part < 0 || (int)part >= PARTS || two != (part != QKV_SEEN_STACK))
        return 0;
    return m->stack[qkv_part_stack(part)].layers;
}

struct qkv_heads *qkv_part_heads(const struct qkv_model *m, enum qkv_seen_part part, int64_t layer)
{
    struct qkv_block *b = &m->stack[qkv_part_stack(part)].block[layer];
    return part == QKV_SEEN_CROSS ? &b->cross : &b->heads;
}

void qkv_ablate_relative(float *to, const float *from, const unsigned char *gives, int64_t H,
                         int64_t reach)
{
    const size_t row = (size_t)(2 * reach + 1);
    memcpy(to, from, (size_t)H * row * sizeof *to);
    for (int64_t h = 0; h < H; h++)
        if (gives[h] == QKV_HEADS_UNIFORM) memset(to + (size_t)h * row, 0, row * sizeof *to);
}

// ---- a list, checked ---------------------------------------------------------------------------
// What every head of the model gives: [part][layer][H], and what points into it.
struct ablated {
    unsigned char *gives[PARTS];            // [layers][H]; NULL: no such part
    struct qkv_heads_ablation *part[PARTS]; // [layers]
    float *relative[2];                     // [layers][H][2 reach + 1] of the stacks
};

static void place(struct ablated *a, const struct qkv_model *m, struct qkv_arena *arena)
{
    const size_t H = (size_t)m->is.size.heads;
    for (int p = 0; p < PARTS; p++) {
        const size_t layers = (size_t)qkv_part_layers(m, (enum qkv_seen_part)p);
        if (!layers) continue;
        a->gives[p] = qkv_arena_take(arena, layers, H);
        a->part[p] = qkv_arena_take(arena, layers, sizeof *a->part[p]);
    }
    for (int i = 0; i < m->stacks; i++)
        if (m->stack[i].relative)
            a->relative[i] =
                qkv_arena_take(arena, (size_t)m->stack[i].layers * H,
                               (size_t)(2 * m->stack[i].reach + 1) * sizeof *a->relative[i]);
}

static qkv_status no_such(const struct qkv_ablation_shape *of, const struct qkv_ablation *x,
                          const char *what, int64_t last, int64_t found, qkv_error *err)
{
    char name[48];
    return qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_place){ .file = of->dir },
                    "%s to ablate: no such %s, expected 0 to %" PRId64 ", found %" PRId64,
                    qkv_ablation_name(name, sizeof name, x), what, last, found);
}

static qkv_status check_one(const struct qkv_ablation_shape *of, const struct qkv_ablation *x,
                            qkv_error *err)
{
    const struct qkv_place at = { .file = of->dir };
    char name[48];
    if ((int)x->kind < 0 || (int)x->kind >= KINDS)
        return qkv_fail(err, QKV_ERR_USAGE, &at,
                        "what becomes of a head: no such kind, expected zero, mean or uniform");
    const bool known = (int)x->part >= 0 && (int)x->part < PARTS;
    if (!known || (of->stacks > 1) != (x->part != QKV_SEEN_STACK))
        return qkv_fail(err, QKV_ERR_USAGE, &at, "%s to ablate: no such part, expected %s",
                        qkv_ablation_name(name, sizeof name, x),
                        of->stacks > 1 ? "enc., dec. or cross. before the layer of a model of two "
                                         "stacks"
                                       : "a layer alone, for the model has one stack");
    const int64_t layers = of->layers[qkv_part_stack(x->part)];
    if (x->layer < 0 || x->layer >= layers)
        return no_such(of, x, "layer", layers - 1, x->layer, err);
    if (x->head < -1 || x->head >= of->heads)
        return no_such(of, x, "head", of->heads - 1, x->head, err);
    return QKV_OK;
}

qkv_status qkv_ablation_check(const struct qkv_ablation_shape *of, const struct qkv_ablation *list,
                              int64_t n, qkv_error *err)
{
    qkv_status s = QKV_OK;
    for (int64_t i = 0; !s && i < n; i++) {
        s = check_one(of, &list[i], err);
        for (int64_t k = 0; !s && k < i; k++) { // ends after as many names as there are heads
            const struct qkv_ablation *x = &list[i], *y = &list[k];
            char name[48];
            if (x->part == y->part && x->layer == y->layer &&
                (x->head == y->head || x->head < 0 || y->head < 0))
                s = qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_place){ .file = of->dir },
                             "%s to ablate: the head is named twice, expected once",
                             qkv_ablation_name(name, sizeof name, x));
        }
    }
    return s;
}

// The heads of x marked with what they give.
static void mark(struct ablated *a, const struct qkv_model *m, const struct qkv_ablation *x)
{
    const int64_t H = m->is.size.heads;
    unsigned char *row = a->gives[x->part] + x->layer * H;
    const int64_t first = qkv_max64(x->head, 0), last = x->head < 0 ? H - 1 : x->head;
    memset(row + first, QKV_HEADS_ZERO + (int)x->kind, (size_t)(last - first + 1));
}

// The layer's heads point to what they give; *sums: of a token of the decoder so far.
static void point(struct ablated *a, struct qkv_model *m, enum qkv_seen_part part, int64_t layer,
                  int64_t *sums)
{
    const struct qkv_stack *stack = &m->stack[qkv_part_stack(part)];
    const int64_t H = m->is.size.heads, row = H * (2 * stack->reach + 1);
    struct qkv_heads *heads = qkv_part_heads(m, part, layer);
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
    if (part == QKV_SEEN_CROSS || !stack->relative) return;
    float *table = a->relative[qkv_part_stack(part)] + layer * row;
    if (alike) qkv_ablate_relative(table, stack->relative, gives, H, stack->reach);
    stack->block[layer].relative = alike ? table : NULL;
}

// As if nothing had ever been ablated.
static void forget(struct qkv_model *m)
{
    for (int i = 0; i < m->stacks; i++)
        for (int64_t k = 0; k < m->stack[i].layers; k++) {
            struct qkv_block *b = &m->stack[i].block[k];
            b->heads.ablation = b->cross.ablation = NULL;
            b->relative = NULL;
        }
    qkv_free(m->ablated);
    m->ablated = NULL;
    m->sums = 0;
}

qkv_status qkv_model_ablate(qkv_model *m, const struct qkv_ablation *list, int64_t n,
                            qkv_error *err)
{
    struct qkv_arena count = { .size = SIZE_MAX };
    struct ablated a = { 0 };
    if (!m || n < 0 || (n && !list))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_model_ablate, expected a model and a list of heads, found NULL");
    if (n && !m->stacks)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_place){ .file = m->dir },
                        "heads to ablate, expected a Transformer, found a %s", m->model_type);
    const struct qkv_ablation_shape of = { .dir = m->dir,
                                           .stacks = m->stacks,
                                           .layers = { m->stack[0].layers, m->stack[1].layers },
                                           .heads = m->is.size.heads };
    const qkv_status s = qkv_ablation_check(&of, list, n, err);
    if (s) return s;
    if (!n) {
        forget(m);
        return QKV_OK;
    }
    place(&a, m, &count);
    void *memory = qkv_arena_full(&count) ? NULL : qkv_alloc_zero(count.used, 1);
    if (!memory) return qkv_fail_memory(err, m->dir);
    struct qkv_arena arena = { memory, count.used, 0 };
    place(&a, m, &arena);
    for (int64_t i = 0; i < n; i++) mark(&a, m, &list[i]);
    forget(m);
    m->ablated = memory;
    for (int p = 0; p < PARTS; p++)
        for (int64_t k = 0; k < qkv_part_layers(m, (enum qkv_seen_part)p); k++)
            point(&a, m, (enum qkv_seen_part)p, k, &m->sums);
    return QKV_OK;
}
