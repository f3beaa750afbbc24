// SPDX-License-Identifier: MIT
// encoder.c: describes qkv's own encoder: every choice of a description is a key of its
// config.json.
//
// Its keys are model_type "qkv-encoder"; the sizes of BERT, num_key_value_heads and type_vocab_size
// (absent: no token types); and the keys of qkv_describe_choices with these defaults:
//   norm "post", norm_kind "layer", positions "learned", bias true, embedding_norm false,
//   final_norm false (with norm "pre": true), hidden_act "gelu", gated false
#include "model/family/description.h"

static const struct qkv_config_keys keys = {
    .width = "hidden_size",
    .inner = "intermediate_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .kv_heads = "num_key_value_heads",
    .vocab = "vocab_size",
    .positions = "max_position_embeddings",
    .types = "type_vocab_size",
    .eps = "layer_norm_eps",
    .pad = "pad_token_id",
    .dropout = { "hidden_dropout_prob", "attention_probs_dropout_prob" },
    .free_heads = true,
};

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    d->size.eps = 1e-5;
    d->bias = true;
    d->classify_act = QKV_ACT_TANH;
    if (!qkv_config_sizes(c, &keys, &d->size) || !qkv_describe_choices(d, c)) return false;
    d->masked_act = d->act;
    return true;
}

static bool fits(const struct qkv_description *d)
{
    return d->kind == QKV_NET_ENCODER;
}

static bool compose(json_t *to, const struct qkv_description *d)
{
    return qkv_put_sizes(to, &keys, &d->size) && qkv_put_choices(to, d);
}

static const struct qkv_names names = {
    .word = "embeddings.word.weight",
    .position = "embeddings.position.weight",
    .type = "embeddings.token_type.weight",
    .embedding_norm = "embeddings.norm",
    .final_norm = "norm",
    .heads = {
        .q = "layers.#.attention.query",
        .k = "layers.#.attention.key",
        .v = "layers.#.attention.value",
        .o = "layers.#.attention.output",
        .norm_in = "layers.#.attention.norm_in",
        .norm_out = "layers.#.attention.norm_out",
    },
    .mlp = {
        .gate = "layers.#.feed_forward.gate",
        .up = "layers.#.feed_forward.up",
        .down = "layers.#.feed_forward.down",
        .norm_in = "layers.#.feed_forward.norm_in",
        .norm_out = "layers.#.feed_forward.norm_out",
    },
    .last_mlp = {
        .gate = "feed_forward.gate",
        .up = "feed_forward.up",
        .down = "feed_forward.down",
        .norm_in = "feed_forward.norm_in",
        .norm_out = "feed_forward.norm_out",
    },
};

static const struct qkv_end_names ends = {
    .logits = "lm_head.decoder.weight",
    .logits_bias = "lm_head.bias",
    .masked_dense = "lm_head.dense",
    .masked_norm = "lm_head.norm",
    .classify_dense = "classifier.dense",
    .classify_out = "classifier.out",
    .class_plain = "Encoder",
    .class_tokens = "EncoderForMaskedLM",
    .class_labels = "EncoderForSequenceClassification",
};

const struct qkv_family qkv_family_encoder = {
    .prefix = "model.",
    .describe = describe,
    .names = &names,
    .ends = &ends,
    .fits = fits,
    .compose = compose,
    .keys = &keys,
};
