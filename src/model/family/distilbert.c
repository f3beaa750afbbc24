// SPDX-License-Identifier: MIT
// distilbert.c: describes DistilBERT: BERT without token types, with half the layers and other
// tensor names.
//
// Sanh et al. 2019 (arXiv 1910.01108); names and keys as saved by transformers' DistilBertModel.
// With sinusoidal_pos_embds the file also contains the position table, so qkv ignores this key.
#include "model/family/description.h"

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    static const struct qkv_config_keys keys = {
        .width = "dim",
        .inner = "hidden_dim",
        .layers = "n_layers",
        .heads = "n_heads",
        .vocab = "vocab_size",
        .positions = "max_position_embeddings",
        .pad = "pad_token_id",
        .dropout = { "dropout", "attention_dropout" },
    };
    bool tied = true;
    d->size.eps = 1e-12; // not in config.json: the value of the reference
    d->embedding_norm = d->bias = true;
    d->classify_act = QKV_ACT_RELU;
    if (!qkv_config_sizes(c, &keys, &d->size) || !qkv_describe_activation(d, c, "activation") ||
        !qkv_config_flag(c, "tie_word_embeddings", false, &tied))
        return false;
    d->masked_act = d->act;
    d->untied = !tied;
    return qkv_describe_tokens(d, c);
}

static const struct qkv_names names = {
    .word = "embeddings.word_embeddings.weight",
    .position = "embeddings.position_embeddings.weight",
    .embedding_norm = "embeddings.LayerNorm",
    .heads = {
        .q = "transformer.layer.#.attention.q_lin",
        .k = "transformer.layer.#.attention.k_lin",
        .v = "transformer.layer.#.attention.v_lin",
        .o = "transformer.layer.#.attention.out_lin",
        .norm_out = "transformer.layer.#.sa_layer_norm",
    },
    .mlp = {
        .up = "transformer.layer.#.ffn.lin1",
        .down = "transformer.layer.#.ffn.lin2",
        .norm_out = "transformer.layer.#.output_layer_norm",
    },
};

static const struct qkv_end_names ends = {
    .logits = "vocab_projector.weight",
    .logits_bias = "vocab_projector.bias",
    .masked_dense = "vocab_transform",
    .masked_norm = "vocab_layer_norm",
    .classify_dense = "pre_classifier",
    .classify_out = "classifier",
    .each_out = "classifier",
    .class_plain = "DistilBertModel",
    .class_tokens = "DistilBertForMaskedLM",
    .class_labels = "DistilBertForSequenceClassification",
};

const struct qkv_family qkv_family_distilbert = {
    .prefix = "distilbert.",
    .describe = describe,
    .names = &names,
    .ends = &ends,
};
