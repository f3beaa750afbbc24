// SPDX-License-Identifier: MIT
// mistral.c: describes Mistral: Llama with a window of the last tokens in each layer.
//
// Jiang et al. 2023 (arXiv 2310.06825); names and keys as saved by transformers'
// MistralForCausalLM. In later models sliding_window is null, which means no window.
#include "model/family/description.h"

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    if (!qkv_describe_llama(d, c)) return false;
    d->biases = 0; // the reference has no biases, whatever attention_bias and mlp_bias are
    if (!json_is_null(json_object_get(c->root, "sliding_window"))) qkv_describe_local(d, 0, 0, 0);
    return qkv_describe_window(d, c, 4096); // 4096: default of the reference
}

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .classify_out = "score",
    .classify_unbiased = true,
    .each_out = "score",
    .class_plain = "MistralModel",
    .class_tokens = "MistralForCausalLM",
    .class_labels = "MistralForSequenceClassification",
};

const struct qkv_family qkv_family_mistral = {
    .prefix = "model.",
    .describe = describe,
    .names = &qkv_llama_names,
    .ends = &ends,
};
