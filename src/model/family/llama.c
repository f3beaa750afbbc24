// SPDX-License-Identifier: MIT
// llama.c: describes Llama: decoder, RMS norm before each sublayer, rotary positions, gated
// feed-forward, grouped heads.
//
// Touvron et al. 2023 (arXiv 2302.13971); names and keys as saved by transformers'
// LlamaForCausalLM. Mistral and Qwen extend these names and keys: mistral.c, qwen2.c, qwen3.c.
// SmolLM has model_type llama.
#include "model/family/description.h"

const struct qkv_config_keys qkv_llama_keys = {
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

bool qkv_describe_llama(struct qkv_description *d, const struct qkv_config *c)
{
    bool tied = false, attention = false, mlp = false;
    d->kind = QKV_NET_DECODER;
    d->norm = QKV_NORM_PRE;
    d->norm_kind = QKV_NORM_RMS;
    d->act = QKV_ACT_SILU;
    d->gated = d->final_norm = true;
    d->position = QKV_POSITION_ROTARY;
    if (!d->size.eps) d->size.eps = 1e-6; // a family may have set another default
    if (!qkv_config_sizes(c, &qkv_llama_keys, &d->size) ||
        !qkv_describe_activation(d, c, "hidden_act") ||
        !qkv_config_flag(c, "tie_word_embeddings", false, &tied) ||
        !qkv_config_flag(c, "attention_bias", false, &attention) ||
        !qkv_config_flag(c, "mlp_bias", false, &mlp) || !qkv_describe_head_width(d, c))
        return false;
    if (attention) d->biases |= QKV_BIAS_QKV | QKV_BIAS_OUT;
    if (mlp) d->biases |= QKV_BIAS_MLP;
    d->untied = !tied;
    return qkv_describe_rotation(d, c) && qkv_describe_tokens(d, c);
}

static bool fits(const struct qkv_description *d)
{
    return d->kind == QKV_NET_DECODER && d->norm == QKV_NORM_PRE && d->norm_kind == QKV_NORM_RMS &&
           d->gated && d->position == QKV_POSITION_ROTARY && !d->embedding_norm &&
           !d->embed_scale && d->final_norm && !d->bias && !d->biases && !d->rope.kind &&
           d->size.width % d->size.heads == 0 && qkv_head_keys(d) == qkv_head_values(d);
}

static bool compose(json_t *to, const struct qkv_description *d)
{
    const double theta = d->theta > 0 ? d->theta : 10000;
    json_t *rope = json_object();
    if (!rope || !qkv_put_real(rope, "rope_theta", theta) ||
        !qkv_put_text(rope, "rope_type", "default")) {
        json_decref(rope);
        return false;
    }
    return json_object_set_new(to, "rope_parameters", rope) == 0 &&
           qkv_put_sizes(to, &qkv_llama_keys, &d->size) &&
           qkv_put_int(to, "head_dim", qkv_head_keys(d)) &&
           qkv_put_text(to, "hidden_act", qkv_activation_name(d->act)) &&
           qkv_put_flag(to, "attention_bias", false) && qkv_put_flag(to, "mlp_bias", false) &&
           qkv_put_flag(to, "tie_word_embeddings", !d->untied);
}

const struct qkv_names qkv_llama_names = {
    .word = "embed_tokens.weight",
    .final_norm = "norm",
    .heads = {
        .q = "layers.#.self_attn.q_proj",
        .k = "layers.#.self_attn.k_proj",
        .v = "layers.#.self_attn.v_proj",
        .o = "layers.#.self_attn.o_proj",
        .norm_in = "layers.#.input_layernorm",
        .norm_q = "layers.#.self_attn.q_norm", // Qwen3 only
        .norm_k = "layers.#.self_attn.k_norm",
    },
    .mlp = {
        .gate = "layers.#.mlp.gate_proj",
        .up = "layers.#.mlp.up_proj",
        .down = "layers.#.mlp.down_proj",
        .norm_in = "layers.#.post_attention_layernorm",
    },
};

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .classify_out = "score",
    .classify_unbiased = true,
    .each_out = "score",
    .other_prefix = "transformer.",
    .class_plain = "LlamaModel",
    .class_tokens = "LlamaForCausalLM",
    .class_labels = "LlamaForSequenceClassification",
};

const struct qkv_family qkv_family_llama = {
    .prefix = "model.",
    .describe = qkv_describe_llama,
    .names = &qkv_llama_names,
    .ends = &ends,
    .fits = fits,
    .compose = compose,
    .keys = &qkv_llama_keys,
};
