// SPDX-License-Identifier: MIT
// t5.c: describes T5 and Flan-T5: encoder and decoder, RMS norm before each sublayer, no positions
// except learned relative positions, scores without a scale.
//
// Raffel et al. 2020 (arXiv 1910.10683); names and keys as saved by transformers'
// T5ForConditionalGeneration. Version 1.0 ties its output projection to the token embeddings and
// scales the projection's input by 1/sqrt(D); version 1.1, and so Flan-T5, has an untied projection
// and gated feed-forward.
#include "model/family/description.h"
#include <math.h>

// Reads feed_forward_proj: the name of the activation, with the prefix "gated-" if feed-forward is
// gated.
static bool inner_rows(struct qkv_description *d, const struct qkv_config *c)
{
    static const char *const names[] = { "relu",           "gelu",       "gelu_new",
                                         "silu",           "gated-gelu", "gated-silu",
                                         "gated-gelu_new", "gated-relu", NULL };
    static const struct {
        enum qkv_activation act;
        bool gated;
    } rows[] = { { QKV_ACT_RELU, false },
                 { QKV_ACT_GELU, false },
                 { QKV_ACT_GELU_TANH, false },
                 { QKV_ACT_SILU, false },
                 // "gated-gelu" means the activation gelu_new
                 { QKV_ACT_GELU_TANH, true },
                 { QKV_ACT_SILU, true },
                 { QKV_ACT_GELU_TANH, true },
                 { QKV_ACT_RELU, true } };
    int at = d->gated ? 6 : 0; // mT5 is gated unless the key says otherwise
    if (!qkv_config_choice(c, "feed_forward_proj", false, &at, names)) return false;
    d->act = rows[at].act;
    d->gated = rows[at].gated;
    return true;
}

bool qkv_describe_t5(struct qkv_description *d, const struct qkv_config *c)
{
    static const struct qkv_config_keys keys = {
        .width = "d_model",
        .inner = "d_ff",
        .layers = "num_layers",
        .heads = "num_heads",
        .vocab = "vocab_size",
        .eps = "layer_norm_epsilon",
        .pad = "pad_token_id",
        .dropout = { "dropout_rate" },
        .free_heads = true,
    };
    bool tied = true, scaled = true;
    // T5EncoderModel and T5ForTokenClassification consist of the encoder only.
    const bool whole = d->told != QKV_TOLD_TOKENS && d->told != QKV_TOLD_OTHER;
    d->kind = whole ? QKV_NET_ENCODER_DECODER : QKV_NET_ENCODER;
    d->classify_act = QKV_ACT_TANH;
    d->biases = QKV_BIAS_ENDS;
    d->norm = QKV_NORM_PRE;
    d->norm_kind = QKV_NORM_RMS;
    d->final_norm = true;
    d->position = QKV_POSITION_NONE;
    d->attention_scale = 1;
    d->size.eps = 1e-6;
    d->size.pad = 0;
    d->size.positions = QKV_POSITIONS_MAX; // no position limit
    d->d_k = 64;
    d->relative.buckets = 32;
    d->relative.distance = 128;
    if (!qkv_config_sizes(c, &keys, &d->size) ||
        !qkv_config_int(c, "d_kv", false, &d->d_k, 1, QKV_WIDTH_MAX) || !inner_rows(d, c) ||
        !qkv_config_int(c, "relative_attention_num_buckets", false, &d->relative.buckets, 4,
                        QKV_WIDTH_MAX) ||
        !qkv_config_int(c, "relative_attention_max_distance", false, &d->relative.distance, 1,
                        QKV_WIDTH_MAX) ||
        !qkv_config_flag(c, "tie_word_embeddings", false, &tied))
        return false;
    // In a decoder, half of the buckets are single distances; the others divide the larger
    // distances up to `distance` on a logarithmic scale.
    if (d->relative.distance <= d->relative.buckets / 2)
        return qkv_config_refuse(c, QKV_ERR_FORMAT, "relative_attention_max_distance",
                                 "number out of range, expected more than half of the buckets");
    // default of scale_decoder_outputs. In newer files tie_word_embeddings is always true, but they
    // also have this key.
    scaled = tied;
    d->decoder_layers = d->size.layers;
    if (!qkv_config_int(c, "num_decoder_layers", false, &d->decoder_layers, 1, QKV_LAYERS_MAX) ||
        !qkv_config_flag(c, "scale_decoder_outputs", false, &scaled))
        return false;
    d->d_v = d->d_k;
    // The output projection is tied, whatever tie_word_embeddings is, unless the file has weights for
    // it (qkv_find_own_logits).
    if (scaled) d->logit_scale = 1 / sqrt((double)d->size.width);
    return qkv_describe_tokens(d, c);
}

static const struct qkv_names decoder = {
    .final_norm = "decoder.final_layer_norm",
    .relative = "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
    .heads = {
        .q = "decoder.block.#.layer.0.SelfAttention.q",
        .k = "decoder.block.#.layer.0.SelfAttention.k",
        .v = "decoder.block.#.layer.0.SelfAttention.v",
        .o = "decoder.block.#.layer.0.SelfAttention.o",
        .norm_in = "decoder.block.#.layer.0.layer_norm",
    },
    .cross = {
        .q = "decoder.block.#.layer.1.EncDecAttention.q",
        .k = "decoder.block.#.layer.1.EncDecAttention.k",
        .v = "decoder.block.#.layer.1.EncDecAttention.v",
        .o = "decoder.block.#.layer.1.EncDecAttention.o",
        .norm_in = "decoder.block.#.layer.1.layer_norm",
    },
    .mlp = {
        .plain = "decoder.block.#.layer.2.DenseReluDense.wi",
        .gate = "decoder.block.#.layer.2.DenseReluDense.wi_0",
        .up = "decoder.block.#.layer.2.DenseReluDense.wi_1",
        .down = "decoder.block.#.layer.2.DenseReluDense.wo",
        .norm_in = "decoder.block.#.layer.2.layer_norm",
    },
};

const struct qkv_names qkv_t5_names = {
    .word = "shared.weight",
    .final_norm = "encoder.final_layer_norm",
    .relative = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
    .heads = {
        .q = "encoder.block.#.layer.0.SelfAttention.q",
        .k = "encoder.block.#.layer.0.SelfAttention.k",
        .v = "encoder.block.#.layer.0.SelfAttention.v",
        .o = "encoder.block.#.layer.0.SelfAttention.o",
        .norm_in = "encoder.block.#.layer.0.layer_norm",
    },
    .mlp = {
        .plain = "encoder.block.#.layer.1.DenseReluDense.wi",
        .gate = "encoder.block.#.layer.1.DenseReluDense.wi_0",
        .up = "encoder.block.#.layer.1.DenseReluDense.wi_1",
        .down = "encoder.block.#.layer.1.DenseReluDense.wo",
        .norm_in = "encoder.block.#.layer.1.layer_norm",
    },
    .decoder = &decoder,
};

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .other_prefix = "transformer.",
    .classify_dense = "classification_head.dense",
    .classify_out = "classification_head.out_proj",
    .each_out = "classifier",
    .class_plain = "T5Model",
    .class_tokens = "T5ForConditionalGeneration",
    .class_labels = "T5ForSequenceClassification",
};

const struct qkv_family qkv_family_t5 = {
    .prefix = "",
    .describe = qkv_describe_t5,
    .names = &qkv_t5_names,
    .ends = &ends,
};
