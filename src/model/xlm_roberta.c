// SPDX-License-Identifier: MIT
// xlm_roberta.c: XLM-RoBERTa: BERT's layers; positions count from behind the padding token.
//
// Conneau et al. 2020 (arXiv 1911.02116); names and keys as transformers' XLMRobertaModel saves them.
#include "model/model.h"

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    d->size.pad = 1;
    d->position_after_pad = true;
    return qkv_describe_bert(d, c);
}

const struct qkv_family qkv_family_xlm_roberta = {
    .model_type = "xlm-roberta",
    .describe = describe,
    .names = {
        .prefix = "roberta.",
        .word = "embeddings.word_embeddings.weight",
        .position = "embeddings.position_embeddings.weight",
        .type = "embeddings.token_type_embeddings.weight",
        .embedding_norm = "embeddings.LayerNorm",
        .heads = {
            .q = "encoder.layer.#.attention.self.query",
            .k = "encoder.layer.#.attention.self.key",
            .v = "encoder.layer.#.attention.self.value",
            .o = "encoder.layer.#.attention.output.dense",
            .norm_out = "encoder.layer.#.attention.output.LayerNorm",
        },
        .mlp = {
            .up = "encoder.layer.#.intermediate.dense",
            .down = "encoder.layer.#.output.dense",
            .norm_out = "encoder.layer.#.output.LayerNorm",
        },
    },
};
