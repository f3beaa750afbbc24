// SPDX-License-Identifier: MIT
// bart.c: describes BART: encoder and decoder, a norm after each sublayer and after the embeddings,
// learned positions whose first two rows are unused; or its decoder alone (BartForCausalLM).
//
// Lewis et al. 2019 (arXiv 1910.13461); names and keys as saved by transformers'
// BartForConditionalGeneration.
#include "model/family/description.h"
#include <inttypes.h>
#include <math.h>

const struct qkv_config_keys qkv_bart_keys = {
    .width = "d_model",
    .inner = "encoder_ffn_dim",
    .layers = "encoder_layers",
    .heads = "encoder_attention_heads",
    .vocab = "vocab_size",
    .positions = "max_position_embeddings",
    .pad = "pad_token_id",
    .dropout = { "dropout", "attention_dropout", "activation_dropout" },
};

// Checks that `key`, if present, has the same value for the decoder as for the encoder.
static bool is_same(const struct qkv_config *c, const char *key, int64_t encoder)
{
    int64_t decoder = encoder;
    if (!qkv_config_int(c, key, false, &decoder, 1, QKV_VOCAB_MAX)) return false;
    return decoder == encoder ||
           qkv_config_refuse(c, QKV_ERR_UNSUPPORTED, key,
                             "decoder size differs from the encoder size, expected %" PRId64
                             ", found %" PRId64,
                             encoder, decoder);
}

bool qkv_describe_sides(struct qkv_description *d, const struct qkv_config *c)
{
    bool alone = false, scaled = false, tied = true;
    if (!qkv_config_flag(c, "is_decoder", false, &alone)) return false;
    struct qkv_config_keys keys = qkv_bart_keys;
    if (alone) {
        keys.inner = "decoder_ffn_dim";
        keys.layers = "decoder_layers";
        keys.heads = "decoder_attention_heads";
    }
    d->kind = alone ? QKV_NET_DECODER : QKV_NET_ENCODER_DECODER;
    if (!qkv_config_sizes(c, &keys, &d->size) ||
        !qkv_describe_activation(d, c, "activation_function") ||
        !qkv_config_flag(c, "scale_embedding", false, &scaled) ||
        !qkv_config_flag(c, "tie_word_embeddings", false, &tied))
        return false;
    d->untied = !tied;
    if (scaled) d->embed_scale = sqrt((double)d->size.width);
    return alone ||
           (qkv_config_int(c, "decoder_layers", true, &d->decoder_layers, 1, QKV_LAYERS_MAX) &&
            is_same(c, "decoder_attention_heads", d->size.heads) &&
            is_same(c, "decoder_ffn_dim", d->size.inner));
}

bool qkv_describe_bart(struct qkv_description *d, const struct qkv_config *c)
{
    d->act = QKV_ACT_GELU;
    d->classify_act = QKV_ACT_TANH;
    d->bias = d->embedding_norm = true;
    d->position_offset = 2;
    d->size.eps = 1e-5; // not in config.json: the value of the reference
    d->size.pad = 1;
    return qkv_describe_sides(d, c) && qkv_describe_tokens(d, c);
}

static const struct qkv_names decoder = {
    .own_word = "decoder.embed_tokens.weight", // of a decoder alone
    .position = "decoder.embed_positions.weight",
    .embedding_norm = "decoder.layernorm_embedding",
    .final_norm = "decoder.layer_norm", // mBART only
    .heads = {
        .q = "decoder.layers.#.self_attn.q_proj",
        .k = "decoder.layers.#.self_attn.k_proj",
        .v = "decoder.layers.#.self_attn.v_proj",
        .o = "decoder.layers.#.self_attn.out_proj",
        .norm_in = "decoder.layers.#.self_attn_layer_norm",
        .norm_out = "decoder.layers.#.self_attn_layer_norm",
    },
    .cross = {
        .q = "decoder.layers.#.encoder_attn.q_proj",
        .k = "decoder.layers.#.encoder_attn.k_proj",
        .v = "decoder.layers.#.encoder_attn.v_proj",
        .o = "decoder.layers.#.encoder_attn.out_proj",
        .norm_in = "decoder.layers.#.encoder_attn_layer_norm",
        .norm_out = "decoder.layers.#.encoder_attn_layer_norm",
    },
    .mlp = {
        .up = "decoder.layers.#.fc1",
        .down = "decoder.layers.#.fc2",
        .norm_in = "decoder.layers.#.final_layer_norm",
        .norm_out = "decoder.layers.#.final_layer_norm",
    },
};

const struct qkv_names qkv_bart_names = {
    .word = "shared.weight",
    .own_word = "encoder.embed_tokens.weight", // of a model whose tables are not tied
    .position = "encoder.embed_positions.weight",
    .embedding_norm = "encoder.layernorm_embedding",
    .final_norm = "encoder.layer_norm",
    .heads = {
        .q = "encoder.layers.#.self_attn.q_proj",
        .k = "encoder.layers.#.self_attn.k_proj",
        .v = "encoder.layers.#.self_attn.v_proj",
        .o = "encoder.layers.#.self_attn.out_proj",
        .norm_in = "encoder.layers.#.self_attn_layer_norm",
        .norm_out = "encoder.layers.#.self_attn_layer_norm",
    },
    .mlp = {
        .up = "encoder.layers.#.fc1",
        .down = "encoder.layers.#.fc2",
        .norm_in = "encoder.layers.#.final_layer_norm",
        .norm_out = "encoder.layers.#.final_layer_norm",
    },
    .decoder = &decoder,
};

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .logits_bias = "final_logits_bias",
    .logits_bias_fixed = true,
    .classify_dense = "classification_head.dense",
    .classify_out = "classification_head.out_proj",
    .class_plain = "BartModel",
    .class_tokens = "BartForConditionalGeneration",
    .class_decoder = "BartForCausalLM",
    .class_labels = "BartForSequenceClassification",
};

const struct qkv_family qkv_family_bart = {
    .prefix = "model.",
    .describe = qkv_describe_bart,
    .names = &qkv_bart_names,
    .ends = &ends,
};
