// SPDX-License-Identifier: MIT
// gemma.c: describes Gemma: decoder, RMS norms with weights 1 + w before each sublayer, gated
// feed-forward, token embeddings multiplied by sqrt(D).
//
// Gemma Team 2024 (arXiv 2403.08295); names and keys as saved by transformers' GemmaForCausalLM.
#include "model/family/description.h"
#include <math.h>

bool qkv_describe_gemma(struct qkv_description *d, const struct qkv_config *c,
                        const char *activation, bool encoders)
{
    bool tied = true, bias = false,
         both = false; // these values, and those set below, are the reference's
    d->kind = QKV_NET_DECODER;
    d->norm_kind = QKV_NORM_RMS;
    d->norm_offset = 1;
    d->gated = d->final_norm = true;
    d->position = QKV_POSITION_ROTARY;
    d->act = QKV_ACT_GELU_TANH;
    d->d_k = 256;
    d->size.eps = 1e-6;
    d->size.pad = 0;
    if (!qkv_config_sizes(c, &qkv_llama_keys, &d->size) ||
        !qkv_config_int(c, "head_dim", false, &d->d_k, 1, QKV_WIDTH_MAX) ||
        !qkv_config_flag(c, "tie_word_embeddings", false, &tied) ||
        !qkv_config_flag(c, "attention_bias", false, &bias) || !qkv_describe_tokens(d, c) ||
        !qkv_describe_activation(d, c, activation) ||
        !qkv_config_flag(c, "use_bidirectional_attention", false, &both))
        return false;
    if (both && !encoders)
        return qkv_config_refuse(
            c, QKV_ERR_UNSUPPORTED, "use_bidirectional_attention",
            "encoders of this family are not supported, expected false, found true");
    if (both) d->kind = QKV_NET_ENCODER;
    d->d_v = d->d_k;
    d->untied = !tied;
    if (bias) d->biases = QKV_BIAS_QKV | QKV_BIAS_OUT;
    d->embed_scale = sqrt((double)d->size.width);
    return true;
}

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    if (!qkv_describe_gemma(d, c, "hidden_act", false)) return false;
    d->norm = QKV_NORM_PRE;
    // The first files have "gelu", where the reference computes the form with tanh.
    if (d->act == QKV_ACT_GELU) d->act = QKV_ACT_GELU_TANH;
    return qkv_describe_rotation(d, c);
}

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .classify_out = "score",
    .classify_unbiased = true,
    .each_out = "score",
    .class_plain = "GemmaModel",
    .class_tokens = "GemmaForCausalLM",
    .class_labels = "GemmaForSequenceClassification",
};

const struct qkv_family qkv_family_gemma = {
    .prefix = "model.",
    .describe = describe,
    .names = &qkv_llama_names,
    .ends = &ends,
};
