// SPDX-License-Identifier: MIT
// olmo2.c: describes OLMo 2: Llama with the norm of each sublayer after it, inside the residual
// branch, and a norm over all heads of the queries and of the keys.
//
// OLMo Team 2024 (arXiv 2501.00656); names and keys as saved by transformers' Olmo2ForCausalLM.
#include "model/family/description.h"

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    d->size.eps = 1e-5; // default of the reference
    if (!qkv_describe_llama(d, c)) return false;
    d->biases &= ~(unsigned)QKV_BIAS_MLP; // the reference does not read mlp_bias
    d->norm = QKV_NORM_INSIDE;
    d->norm_q = d->norm_k = d->norm_whole = true;
    return true;
}

static const struct qkv_names names = {
    .word = "embed_tokens.weight",
    .final_norm = "norm",
    .heads = {
        .q = "layers.#.self_attn.q_proj",
        .k = "layers.#.self_attn.k_proj",
        .v = "layers.#.self_attn.v_proj",
        .o = "layers.#.self_attn.o_proj",
        .norm_out = "layers.#.post_attention_layernorm",
        .norm_q = "layers.#.self_attn.q_norm",
        .norm_k = "layers.#.self_attn.k_norm",
    },
    .mlp = {
        .gate = "layers.#.mlp.gate_proj",
        .up = "layers.#.mlp.up_proj",
        .down = "layers.#.mlp.down_proj",
        .norm_out = "layers.#.post_feedforward_layernorm",
    },
};

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .classify_out = "score",
    .classify_unbiased = true,
    .class_plain = "Olmo2Model",
    .class_tokens = "Olmo2ForCausalLM",
    .class_labels = "Olmo2ForSequenceClassification",
};

const struct qkv_family qkv_family_olmo2 = {
    .prefix = "model.",
    .describe = describe,
    .names = &names,
    .ends = &ends,
};
