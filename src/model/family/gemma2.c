// SPDX-License-Identifier: MIT
// gemma2.c: describes Gemma 2: decoder, RMS norms with weights 1 + w before and after each
// sublayer, a window in every other layer, soft caps of scores and logits.
//
// Gemma Team 2024 (arXiv 2408.00118); names and keys as saved by transformers' Gemma2ForCausalLM.
#include "model/family/description.h"
#include <math.h>

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    static const struct qkv_config_keys keys = {
        .width = "hidden_size",
        .inner = "intermediate_size",
        .layers = "num_hidden_layers",
        .heads = "num_attention_heads",
        .kv_heads = "num_key_value_heads",
        .vocab = "vocab_size",
        .positions = "max_position_embeddings",
        .eps = "rms_norm_eps",
        .pad = "pad_token_id",
        .dropout = { "attention_dropout" },
        .free_heads = true,
    };
    bool tied = true, bias = false, both = false, found = false;
    double scalar = 256; // this value, and the values set below, are the defaults of the reference
    d->kind = QKV_NET_DECODER;
    d->norm = QKV_NORM_INSIDE;
    d->norm_kind = QKV_NORM_RMS;
    d->norm_offset = 1;
    d->act = QKV_ACT_GELU_TANH;
    d->gated = d->final_norm = true;
    d->position = QKV_POSITION_ROTARY;
    d->d_k = 256;
    d->softcap = 50;
    d->logit_softcap = 30;
    d->size.eps = 1e-6;
    d->size.pad = 0;
    if (!qkv_config_sizes(c, &keys, &d->size) ||
        !qkv_describe_activation(d, c, "hidden_activation") ||
        !qkv_config_int(c, "head_dim", false, &d->d_k, 1, QKV_WIDTH_MAX) ||
        !qkv_config_real(c, "query_pre_attn_scalar", false, &scalar, 1e-6, 1e9) ||
        !qkv_config_flag(c, "tie_word_embeddings", false, &tied) ||
        !qkv_config_flag(c, "attention_bias", false, &bias) ||
        !qkv_config_flag(c, "use_bidirectional_attention", false, &both))
        return false;
    if (both)
        return qkv_config_refuse(
            c, QKV_ERR_UNSUPPORTED, "use_bidirectional_attention",
            "encoders of this family are not supported, expected false, found true");
    const struct {
        const char *key;
        double *out;
    } caps[] = { { "attn_logit_softcapping", &d->softcap },
                 { "final_logit_softcapping", &d->logit_softcap } };
    for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++) {
        if (json_is_null(json_object_get(c->root, caps[i].key))) *caps[i].out = 0; // null: no cap
        if (!qkv_config_real(c, caps[i].key, false, caps[i].out, 1e-6, 1e9)) return false;
    }
    d->d_v = d->d_k;
    d->untied = !tied;
    if (bias) d->biases = QKV_BIAS_QKV | QKV_BIAS_OUT;
    d->embed_scale = sqrt((double)d->size.width);
    d->attention_scale = 1 / sqrt(scalar);
    if (!qkv_describe_layer_types(d, c, &found)) return false;
    if (!found) qkv_describe_local(d, 0, 2, 1);
    return qkv_describe_window(d, c, 4096) && qkv_describe_rotation(d, c) &&
           qkv_describe_tokens(d, c);
}

static const struct qkv_names names = {
    .word = "embed_tokens.weight",
    .final_norm = "norm",
    .heads = {
        .q = "layers.#.self_attn.q_proj",
        .k = "layers.#.self_attn.k_proj",
        .v = "layers.#.self_attn.v_proj",
        .o = "layers.#.self_attn.o_proj",
        .norm_in = "layers.#.input_layernorm",
        .norm_out = "layers.#.post_attention_layernorm",
    },
    .mlp = {
        .gate = "layers.#.mlp.gate_proj",
        .up = "layers.#.mlp.up_proj",
        .down = "layers.#.mlp.down_proj",
        .norm_in = "layers.#.pre_feedforward_layernorm",
        .norm_out = "layers.#.post_feedforward_layernorm",
    },
};

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .class_plain = "Gemma2Model",
    .class_tokens = "Gemma2ForCausalLM",
};

const struct qkv_family qkv_family_gemma2 = {
    .prefix = "model.",
    .describe = describe,
    .names = &names,
    .ends = &ends,
};
