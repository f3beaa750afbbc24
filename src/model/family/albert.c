// SPDX-License-Identifier: MIT
// albert.c: describes ALBERT: BERT with layers that share weights, and embeddings of a width of their
// own.
//
// Lan et al. 2019 (arXiv 1909.11942); names and keys as saved by transformers' AlbertModel.
#include "model/family/description.h"
#include <inttypes.h>

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    d->act = QKV_ACT_GELU_TANH;
    d->embed_width = 128; // defaults of the reference
    d->shared = (struct qkv_layer_groups){ 1, 1 };
    if (!qkv_describe_bert(d, c) ||
        !qkv_config_int(c, "embedding_size", false, &d->embed_width, 1, QKV_WIDTH_MAX) ||
        !qkv_config_int(c, "num_hidden_groups", false, &d->shared.groups, 1, QKV_LAYERS_MAX) ||
        !qkv_config_int(c, "inner_group_num", false, &d->shared.inner, 1, QKV_LAYERS_MAX))
        return false;
    d->size.layers *= d->shared.inner;
    return d->size.layers <= QKV_LAYERS_MAX ||
           qkv_config_refuse(c, QKV_ERR_UNSUPPORTED, "inner_group_num",
                             "too many layers, expected at most %d layers of all groups together, "
                             "found %" PRId64,
                             QKV_LAYERS_MAX, d->size.layers);
}

#define LAYER "encoder.albert_layer_groups.#.albert_layers.@."

static const struct qkv_names names = {
    .word = "embeddings.word_embeddings.weight",
    .position = "embeddings.position_embeddings.weight",
    .type = "embeddings.token_type_embeddings.weight",
    .embedding_norm = "embeddings.LayerNorm",
    .embed_in = "encoder.embedding_hidden_mapping_in",
    .heads = {
        .q = LAYER "attention.query",
        .k = LAYER "attention.key",
        .v = LAYER "attention.value",
        .o = LAYER "attention.dense",
        .norm_out = LAYER "attention.LayerNorm",
    },
    .mlp = {
        .up = LAYER "ffn",
        .down = LAYER "ffn_output",
        .norm_out = LAYER "full_layer_layer_norm",
    },
};

static const struct qkv_end_names ends = {
    .logits = "predictions.decoder.weight",
    .logits_bias = "predictions.bias",
    .untied_bias = "predictions.decoder.bias",
    .masked_dense = "predictions.dense",
    .masked_norm = "predictions.LayerNorm",
    .classify_dense = "pooler",
    .classify_out = "classifier",
    .classify_prefixed = true,
    .each_out = "classifier",
    .class_plain = "AlbertModel",
    .class_tokens = "AlbertForMaskedLM",
    .class_labels = "AlbertForSequenceClassification",
};

const struct qkv_family qkv_family_albert = {
    .prefix = "albert.",
    .describe = describe,
    .names = &names,
    .ends = &ends,
};
