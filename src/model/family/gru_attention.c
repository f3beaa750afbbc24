// SPDX-License-Identifier: MIT
// gru_attention.c: describes the encoder-decoder that preceded the Transformer: a bidirectional GRU
// encoder, a GRU decoder, additive attention between them. Bahdanau et al. 2015 (arXiv 1409.0473).
//
// Its config.json has model_type "qkv-gru-attention" and, among others, the keys hidden_size,
// attention_size (hidden units of a score), vocab_size and max_position_embeddings (maximum tokens
// of a sequence).
#include "model/family/description.h"

static const struct qkv_config_keys keys = {
    .width = "hidden_size",
    .inner = "attention_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .vocab = "vocab_size",
    .positions = "max_position_embeddings",
    .pad = "pad_token_id",
    .free_heads = true,
};

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    bool tied = true;
    d->kind = QKV_NET_GRU_ATTENTION;
    d->position = QKV_POSITION_NONE;
    if (!qkv_config_sizes(c, &keys, &d->size) ||
        !qkv_config_flag(c, "tie_word_embeddings", false, &tied))
        return false;
    d->untied = !tied;
    d->decoder_layers = d->size.layers;
    return qkv_describe_tokens(d, c);
}

static bool fits(const struct qkv_description *d)
{
    return d->kind == QKV_NET_GRU_ATTENTION;
}

static bool compose(json_t *to, const struct qkv_description *d)
{
    return qkv_put_sizes(to, &keys, &d->size) &&
           qkv_put_flag(to, "tie_word_embeddings", !d->untied);
}

static const struct qkv_end_names ends = {
    .class_tokens = "GruAttention",
};

const struct qkv_family qkv_family_gru_attention = {
    .prefix = "",
    .describe = describe,
    .ends = &ends,
    .fits = fits,
    .compose = compose,
};
