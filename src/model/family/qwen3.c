// SPDX-License-Identifier: MIT
// qwen3.c: describes Qwen3: Llama with a norm on each query and key head.
//
// Yang et al. 2025 (arXiv 2505.09388); names and keys as saved by transformers' Qwen3ForCausalLM.
#include "model/family/description.h"

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    d->d_k = 128; // default of the reference, for any width
    if (!qkv_describe_llama(d, c)) return false;
    d->biases &= ~(unsigned)QKV_BIAS_MLP; // the reference does not read mlp_bias
    d->norm_q = d->norm_k = true;
    return qkv_describe_qwen_window(d, c);
}

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .classify_out = "score",
    .classify_unbiased = true,
    .each_out = "score",
    .other_prefix = "transformer.",
    .class_plain = "Qwen3Model",
    .class_tokens = "Qwen3ForCausalLM",
    .class_labels = "Qwen3ForSequenceClassification",
};

const struct qkv_family qkv_family_qwen3 = {
    .prefix = "model.",
    .describe = describe,
    .names = &qkv_llama_names,
    .ends = &ends,
};
