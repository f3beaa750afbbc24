// SPDX-License-Identifier: MIT
// distilbert.c: DistilBERT: BERT without token types, half the layers, names of its own.
//
// Sanh et al. 2019 (arXiv 1910.01108); names and keys as transformers' DistilBertModel saves them.
// With sinusoidal_pos_embds the file still holds the table, so the flag changes nothing here.
#include "model/model.h"

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
    d->size.eps = 1e-12; // not in the config: fixed in the reference
    d->embedding_norm = d->bias = true;
    return qkv_config_sizes(c, &keys, &d->size) && qkv_describe_activation(d, c, "activation");
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

const struct qkv_family qkv_family_distilbert = {
    .prefix = "distilbert.",
    .describe = describe,
    .names = &names,
};
