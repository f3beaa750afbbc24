// SPDX-License-Identifier: MIT
// mpnet.c: describes MPNet: BERT's layers with learned relative positions in addition to learned
// positions; no token types; positions begin after the id of the padding token.
//
// Song et al. 2020 (arXiv 2004.09297); names and keys as saved by transformers' MPNetForMaskedLM.
#include "model/family/description.h"
#include <inttypes.h>

enum { PAD = 1, BUCKETS = 32, DISTANCE = 128 }; // the values of the reference for any config.json

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    static const struct qkv_config_keys keys = {
        .width = "hidden_size",
        .inner = "intermediate_size",
        .layers = "num_hidden_layers",
        .heads = "num_attention_heads",
        .vocab = "vocab_size",
        .positions = "max_position_embeddings",
        .eps = "layer_norm_eps",
        .pad = "pad_token_id",
        .dropout = { "hidden_dropout_prob", "attention_probs_dropout_prob" },
    };
    const struct {
        const char *key;
        int64_t fixed;
    } rows[] = { { "pad_token_id", PAD }, { "relative_attention_num_buckets", BUCKETS } };
    bool tied = true;
    d->size.eps = 1e-12;
    d->size.pad = PAD;
    d->embedding_norm = d->bias = d->position_after_pad = true;
    d->relative.buckets = BUCKETS;
    d->relative.distance = DISTANCE;
    d->masked_act = QKV_ACT_GELU;
    d->classify_act = QKV_ACT_TANH;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t value = rows[i].fixed;
        if (!qkv_config_int(c, rows[i].key, false, &value, 0, INT64_MAX)) return false;
        if (value != rows[i].fixed)
            return qkv_config_refuse(c, QKV_ERR_UNSUPPORTED, rows[i].key,
                                     "unsupported value of this member, expected %" PRId64
                                     " in this family, found %" PRId64,
                                     rows[i].fixed, value);
    }
    if (!qkv_config_flag(c, "tie_word_embeddings", false, &tied)) return false;
    d->untied = !tied;
    return qkv_config_sizes(c, &keys, &d->size) && qkv_describe_activation(d, c, "hidden_act") &&
           qkv_describe_tokens(d, c);
}

static const struct qkv_names names = {
    .word = "embeddings.word_embeddings.weight",
    .position = "embeddings.position_embeddings.weight",
    .embedding_norm = "embeddings.LayerNorm",
    .relative = "encoder.relative_attention_bias.weight",
    .heads = {
        .q = "encoder.layer.#.attention.attn.q",
        .k = "encoder.layer.#.attention.attn.k",
        .v = "encoder.layer.#.attention.attn.v",
        .o = "encoder.layer.#.attention.attn.o",
        .norm_out = "encoder.layer.#.attention.LayerNorm",
    },
    .mlp = {
        .up = "encoder.layer.#.intermediate.dense",
        .down = "encoder.layer.#.output.dense",
        .norm_out = "encoder.layer.#.output.LayerNorm",
    },
};

static const struct qkv_end_names ends = {
    .logits = "lm_head.decoder.weight",
    .logits_bias = "lm_head.bias",
    .untied_bias = "lm_head.decoder.bias",
    .masked_dense = "lm_head.dense",
    .masked_norm = "lm_head.layer_norm",
    .classify_dense = "classifier.dense",
    .classify_out = "classifier.out_proj",
    .each_out = "classifier",
    .class_plain = "MPNetModel",
    .class_tokens = "MPNetForMaskedLM",
    .class_labels = "MPNetForSequenceClassification",
};

const struct qkv_family qkv_family_mpnet = {
    .prefix = "mpnet.",
    .describe = describe,
    .names = &names,
    .ends = &ends,
};
