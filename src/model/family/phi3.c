// SPDX-License-Identifier: MIT
// phi3.c: describes Phi-3 and Phi-4: Llama whose q, k, v, and whose gate and up, are one tensor
// each; a part of a head may be rotated, and all layers may have a window.
//
// Abdin et al. 2024 (arXiv 2404.14219); names and keys as saved by transformers' Phi3ForCausalLM.
#include "model/family/description.h"

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    d->size.eps = 1e-5; // default of the reference
    return qkv_describe_llama(d, c) && qkv_describe_partial(d, c) &&
           qkv_describe_window_of_all(d, c);
}

static const struct qkv_names names = {
    .word = "embed_tokens.weight",
    .final_norm = "norm",
    .heads = {
        .q = "layers.#.self_attn.qkv_proj",
        .k = "layers.#.self_attn.qkv_proj",
        .v = "layers.#.self_attn.qkv_proj",
        .o = "layers.#.self_attn.o_proj",
        .norm_in = "layers.#.input_layernorm",
    },
    .mlp = {
        .gate = "layers.#.mlp.gate_up_proj",
        .up = "layers.#.mlp.gate_up_proj",
        .down = "layers.#.mlp.down_proj",
        .norm_in = "layers.#.post_attention_layernorm",
    },
    .joined = true,
};

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .classify_out = "score",
    .classify_unbiased = true,
    .each_out = "score",
    .class_plain = "Phi3Model",
    .class_tokens = "Phi3ForCausalLM",
    .class_labels = "Phi3ForSequenceClassification",
};

const struct qkv_family qkv_family_phi3 = {
    .prefix = "model.",
    .describe = describe,
    .names = &names,
    .ends = &ends,
};
