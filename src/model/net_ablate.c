// SPDX-License-Identifier: MIT
// net_ablate.c: heads of a net taken away, by its weights.
//
//   zero     the columns of the output projection that read the head are 0
//   uniform  the rows of the query projection that make its queries are 0, with their biases: every
//            score is 0
#include "model/net_body.h"
#include <string.h>

// Part of a layer; NULL: it has none of this kind.
static struct qkv_net_part *part_of(const struct qkv_net_stack *s, enum qkv_net_part_kind kind,
                                    int64_t layer)
{
    for (int64_t i = 0; i < s->parts; i++)
        if (s->part[i].kind == kind && s->part[i].layer == layer) return &s->part[i];
    return NULL;
}

static void no_output(struct qkv_net_part *p, int64_t head, int64_t F)
{
    const struct qkv_net_linear *l = &p->last;
    for (int64_t n = 0; n < l->N; n++)
        memset(l->w.value + n * l->K + head * F, 0, (size_t)F * sizeof *l->w.value);
}

// Queries are the first rows.
static void no_queries(struct qkv_net_part *p, int64_t head, int64_t E)
{
    const struct qkv_net_linear *l = &p->first;
    memset(l->w.value + head * E * l->K, 0, (size_t)(E * l->K) * sizeof *l->w.value);
    if (l->b.value) memset(l->b.value + head * E, 0, (size_t)E * sizeof *l->b.value);
}

static qkv_status ablate(qkv_net *n, const struct qkv_ablation *x, qkv_error *err)
{
    const struct qkv_net_body *body = n->body;
    const bool second = x->part >= QKV_SEEN_DECODER || n->kind == QKV_NET_DECODER;
    struct qkv_net_part *p =
        part_of(second ? &body->decoder : &body->encoder,
                x->part == QKV_SEEN_CROSS ? QKV_NET_CROSS : QKV_NET_SELF, x->layer);
    if (!p) return qkv_fail(err, QKV_ERR_INTERNAL, NULL, "a layer without attention");
    for (int64_t h = qkv_max64(x->head, 0); h < (x->head < 0 ? n->is.size.heads : x->head + 1); h++)
        if (x->kind == QKV_ABLATE_ZERO)
            no_output(p, h, qkv_head_values(&n->is));
        else
            no_queries(p, h, qkv_head_keys(&n->is));
    return QKV_OK;
}

qkv_status qkv_net_ablate(qkv_net *n, const struct qkv_ablation *list, int64_t count,
                          qkv_error *err)
{
    qkv_status s = QKV_OK;
    if (count && n->methods != &qkv_net_transformer)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL,
                        "heads to ablate, expected a Transformer, found a %s", n->model_type);
    const bool two = n->kind == QKV_NET_ENCODER_DECODER;
    const struct qkv_ablation_shape of = { .dir = n->model_type,
                                           .stacks = 1 + two,
                                           .layers = { n->is.size.layers, n->is.decoder_layers },
                                           .heads = n->is.size.heads };
    if (count) s = qkv_ablation_check(&of, list, count, err);
    for (int64_t i = 0; !s && i < count; i++)
        if (list[i].kind == QKV_ABLATE_MEAN)
            s = qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL,
                         "the mean of a head is not among a net's weights, expected zero or "
                         "uniform");
    for (int64_t i = 0; !s && i < count; i++) s = ablate(n, &list[i], err);
    return s;
}
