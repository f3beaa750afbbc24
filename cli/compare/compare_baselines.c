// SPDX-License-Identifier: MIT
// compare_baselines.c: lists the kinds of layers, with their formulas, and makes a layer of each
// kind.
//
// The formulas are from table 1 in Vaswani et al. 2017 (arXiv 1706.03762). Sequential steps: each
// depends on the result of the one before. Path: the number of layers between the two tokens that
// are farthest apart. The path log_k n of that table is of dilated convolutions; the convolution
// that is measured here has no dilation, and its path grows with n / k.
#include <math.h>
#include <string.h>
#include "compare/compare.h"

// ---- formulas ----------------------------------------------------------------------------------
static double one(const struct compare_shape *s)
{
    (void)s;
    return 1;
}
static double two(const struct compare_shape *s)
{
    (void)s;
    return 2;
}
static double tokens(const struct compare_shape *s)
{
    return (double)s->n;
}
// Returns the number of layers between the first and the last of n tokens if a layer combines
// `width` neighbouring tokens: it moves information by half of them or, if causal, by all but one.
static double layers_between(const struct compare_shape *s, int64_t width)
{
    const double side = s->causal ? (double)width - 1 : (double)(width / 2);
    return fmax(ceil(((double)s->n - 1) / fmax(side, 1)), 1);
}
static double convolved(const struct compare_shape *s)
{
    return layers_between(s, s->width);
}
static double windows(const struct compare_shape *s)
{
    return layers_between(s, s->keys);
}

// ---- layers ------------------------------------------------------------------------------------
static qkv_status planned(struct compare_layer *l, qkv_status status, size_t scratch,
                          double operations)
{
    l->bytes = scratch;
    l->operations = operations;
    return status;
}
static qkv_status kind_planned(struct compare_layer *l, struct qkv_baseline_plan p)
{
    return planned(l, p.status, p.scratch, p.flops);
}

static struct qkv_attention exact_of(const struct compare_shape *s)
{
    return (struct qkv_attention){ .B = 1,
                                   .T = s->n,
                                   .S = s->S,
                                   .H = s->H,
                                   .G = s->G,
                                   .E = s->E,
                                   .F = s->F,
                                   .scale = s->scale,
                                   .causal = s->causal };
}
static qkv_status attention_make(struct compare_layer *l)
{
    l->of.attention = exact_of(&l->s);
    const struct qkv_attention_plan p = qkv_attention_plan(&l->of.attention);
    return planned(l, p.status, p.scratch, p.flops);
}
static qkv_status window_make(struct compare_layer *l)
{
    l->of.attention = exact_of(&l->s);
    l->of.attention.window.on = true;
    l->of.attention.window.left = l->s.causal ? l->s.keys - 1 : l->s.keys / 2;
    l->of.attention.window.right = l->s.causal ? 0 : (l->s.keys - 1) / 2;
    const struct qkv_attention_plan p = qkv_attention_plan(&l->of.attention);
    return planned(l, p.status, p.scratch, p.flops);
}
static qkv_status attention_run(struct compare_layer *l)
{
    return qkv_attention_forward(l->out, NULL, NULL, l->q, l->k, l->v, &l->of.attention,
                                 l->scratch);
}

// A plan checks that a weight is given, and reads none: this number takes the place of weights that
// are not allocated.
static float unread;

// Allocates an array of the layer.
static float *own(struct compare_layer *l, int64_t rows, int64_t columns)
{
    return l->counted ? &unread
                      : (l->own[0] = cmd_alloc((size_t)(rows * columns), sizeof *l->own[0]));
}

// Allocates the i-th random weights, of a linear layer with `in` inputs. They are scaled so that
// outputs have the same standard deviation as inputs.
static float *weights(struct compare_layer *l, int i, int64_t rows, int64_t in, uint64_t seed)
{
    return l->counted ? &unread
                      : (l->own[i] = compare_normal(rows * in, 1 / sqrt((double)in), seed));
}

static qkv_status heads_make(struct compare_layer *l)
{
    const int64_t d = l->s.d;
    const float *w[4];
    for (int i = 0; i < 4; i++) w[i] = weights(l, i, d, d, 11 + (uint64_t)i);
    l->of.heads.a = exact_of(&l->s);
    l->of.heads.m = (struct qkv_multi_head){ .H = l->s.H,
                                             .G = l->s.G,
                                             .d_q = d,
                                             .d_k = l->s.E,
                                             .d_v = l->s.F,
                                             .d_out = d,
                                             .w_q = w[0],
                                             .w_k = w[1],
                                             .w_v = w[2],
                                             .w_o = w[3] };
    const struct qkv_attention_plan p = qkv_multi_head_plan(&l->of.heads.m, &l->of.heads.a);
    return planned(l, p.status, p.scratch, p.flops);
}
static qkv_status heads_run(struct compare_layer *l)
{
    return qkv_multi_head_forward(l->out, NULL, l->x, NULL, &l->of.heads.m, &l->of.heads.a,
                                  l->scratch);
}

static qkv_status convolution_make(struct compare_layer *l)
{
    const int64_t d = l->s.d, in = d * l->s.width;
    l->of.convolution = (struct qkv_convolution){ .B = 1,
                                                  .T = l->s.n,
                                                  .D_in = d,
                                                  .D_out = d,
                                                  .width = l->s.width,
                                                  .causal = l->s.causal,
                                                  .w = weights(l, 0, d, in, 21) };
    return kind_planned(l, qkv_convolution_plan(&l->of.convolution));
}
static qkv_status convolution_run(struct compare_layer *l)
{
    return qkv_convolution_forward(l->out, l->x, &l->of.convolution, l->scratch);
}

static qkv_status recurrence_make(struct compare_layer *l, enum qkv_cell cell)
{
    const int64_t d = l->s.d, rows = cell == QKV_CELL_GRU ? 3 * d : d;
    l->of.recurrence = (struct qkv_recurrence){ .B = 1,
                                                .T = l->s.n,
                                                .D_in = d,
                                                .D = d,
                                                .cell = cell,
                                                .w_i = weights(l, 0, rows, d, 31),
                                                .w_h = weights(l, 1, rows, d, 32) };
    return kind_planned(l, qkv_recurrence_plan(&l->of.recurrence));
}
static qkv_status elman_make(struct compare_layer *l)
{
    return recurrence_make(l, QKV_CELL_ELMAN);
}
static qkv_status gru_make(struct compare_layer *l)
{
    return recurrence_make(l, QKV_CELL_GRU);
}
static qkv_status recurrence_run(struct compare_layer *l)
{
    return qkv_recurrence_forward(l->out, l->x, NULL, &l->of.recurrence, l->scratch);
}

// Makes block-sparse attention. Each query attends to eight blocks of keys, which have `keys` keys
// together: its own block, the blocks before and after it (if causal, the two before it), one
// global block, and random blocks.
static qkv_status sparse_make(struct compare_layer *l)
{
    if (l->s.S != l->s.n) return QKV_ERR_UNSUPPORTED;
    const int64_t block = l->s.keys < 8 ? 1 : l->s.keys / 8;
    l->of.sparse = (struct qkv_block_sparse){ .B = 1,
                                              .T = l->s.n,
                                              .H = l->s.H,
                                              .G = l->s.G,
                                              .E = l->s.E,
                                              .F = l->s.F,
                                              .scale = l->s.scale,
                                              .causal = l->s.causal,
                                              .block = block,
                                              .window = l->s.causal ? 2 : 1,
                                              .global = 1,
                                              .random = 4 };
    return kind_planned(l, qkv_block_sparse_plan(&l->of.sparse));
}
static qkv_status sparse_run(struct compare_layer *l)
{
    return qkv_block_sparse_forward(l->out, NULL, l->q, l->k, l->v, &l->of.sparse, l->scratch);
}

static struct qkv_linear_attention linear_of(const struct compare_shape *s)
{
    return (struct qkv_linear_attention){ .B = 1,
                                          .T = s->n,
                                          .S = s->S,
                                          .H = s->H,
                                          .G = s->G,
                                          .E = s->E,
                                          .F = s->F,
                                          .causal = s->causal };
}
static qkv_status linear_make(struct compare_layer *l)
{
    if (l->s.causal && l->s.S != l->s.n) return QKV_ERR_UNSUPPORTED;
    l->of.linear = linear_of(&l->s);
    return kind_planned(l, qkv_linear_attention_plan(&l->of.linear));
}
static qkv_status performer_make(struct compare_layer *l)
{
    if (l->s.causal && l->s.S != l->s.n) return QKV_ERR_UNSUPPORTED;
    float *random = own(l, l->s.keys, l->s.E);
    if (!l->counted) qkv_random_features(random, l->s.keys, l->s.E, 1);
    l->of.linear = linear_of(&l->s);
    l->of.linear.map = QKV_MAP_RANDOM;
    l->of.linear.features = l->s.keys;
    l->of.linear.random = random;
    l->of.linear.scale = l->s.scale;
    return kind_planned(l, qkv_linear_attention_plan(&l->of.linear));
}
static qkv_status linear_run(struct compare_layer *l)
{
    return qkv_linear_attention_forward(l->out, NULL, l->q, l->k, l->v, &l->of.linear, l->scratch);
}

static qkv_status linformer_make(struct compare_layer *l)
{
    if (l->s.causal) return QKV_ERR_UNSUPPORTED;
    float *means = own(l, l->s.keys, l->s.S);
    if (!l->counted) qkv_segment_means(means, l->s.keys, l->s.S);
    l->of.linformer = (struct qkv_linformer){ .B = 1,
                                              .T = l->s.n,
                                              .S = l->s.S,
                                              .H = l->s.H,
                                              .G = l->s.G,
                                              .E = l->s.E,
                                              .F = l->s.F,
                                              .rank = l->s.keys,
                                              .scale = l->s.scale,
                                              .p_k = means };
    return kind_planned(l, qkv_linformer_plan(&l->of.linformer));
}
static qkv_status linformer_run(struct compare_layer *l)
{
    return qkv_linformer_forward(l->out, l->q, l->k, l->v, &l->of.linformer, l->scratch);
}

// Makes Nystrom attention.  Every query and every key is multiplied with the landmarks. The number
// of landmarks is keys / 4, so that inverting their matrix stays cheap, as in the paper.
static qkv_status nystrom_make(struct compare_layer *l)
{
    if (l->s.causal) return QKV_ERR_UNSUPPORTED;
    const int64_t landmarks = l->s.keys < 4 ? 1 : l->s.keys / 4;
    l->of.nystrom = (struct qkv_nystrom){ .B = 1,
                                          .T = l->s.n,
                                          .S = l->s.S,
                                          .H = l->s.H,
                                          .G = l->s.G,
                                          .E = l->s.E,
                                          .F = l->s.F,
                                          .landmarks = landmarks < l->s.n ? landmarks : l->s.n,
                                          .scale = l->s.scale };
    return kind_planned(l, qkv_nystrom_plan(&l->of.nystrom));
}
static qkv_status nystrom_run(struct compare_layer *l)
{
    return qkv_nystrom_forward(l->out, l->q, l->k, l->v, &l->of.nystrom, l->scratch);
}

const struct compare_kind compare_baselines[COMPARE_KINDS] = {
    { "attention", "self-attention, exact", "n^2 d", "1", "1", false, true, one, one,
      attention_make, attention_run },
    { "multi-head", "self-attention with its four projections", "n^2 d + n d^2", "1", "1", false,
      true, one, one, heads_make, heads_run },
    { "convolution", "1-D convolution, k tokens wide", "k n d^2", "1", "n / k", false, true, one,
      convolved, convolution_make, convolution_run },
    { "elman", "Elman recurrence", "n d^2", "n", "n", false, true, tokens, tokens, elman_make,
      recurrence_run },
    { "gru", "gated recurrent unit", "n d^2", "n", "n", false, true, tokens, tokens, gru_make,
      recurrence_run },
    { "window", "attention to r keys around a query", "r n d", "1", "n / r", true, true, one,
      windows, window_make, attention_run },
    { "block-sparse", "attention to r keys in blocks: near, global, random", "r n d", "1", "2",
      true, true, one, two, sparse_make, sparse_run },
    { "linear", "linear attention with elu(x) + 1, heads of width e", "n d e", "1", "1", true, true,
      one, one, linear_make, linear_run },
    { "performer", "linear attention with r random features", "r n d", "1", "1", true, true, one,
      one, performer_make, linear_run },
    { "linformer", "attention to r projected keys", "r n d", "1", "1", true, false, one, one,
      linformer_make, linformer_run },
    { "nystrom", "attention through r/4 landmarks", "r n d", "1", "1", true, false, one, one,
      nystrom_make, nystrom_run },
};
