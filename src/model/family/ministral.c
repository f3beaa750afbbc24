// SPDX-License-Identifier: MIT
// ministral.c: describes Ministral: Mistral, whose layers have a window or none, each by its entry
// in layer_types.
//
// Mistral AI 2024 (Ministral 8B); names and keys as saved by transformers' MinistralForCausalLM.
#include "model/family/description.h"
#include <string.h>

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    bool found = false;
    if (!qkv_describe_llama(d, c) || !qkv_describe_layer_types(d, c, &found)) return false;
    d->biases = 0; // the reference has no biases, whatever attention_bias and mlp_bias are
    if (json_is_null(json_object_get(c->root, "sliding_window"))) {
        memset(d->local, 0, sizeof d->local);
        return true;
    }
    if (!found) qkv_describe_local(d, 0, 0, 0);
    return qkv_describe_window(d, c, 4096); // 4096: default of the reference
}

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .classify_out = "score",
    .classify_unbiased = true,
    .each_out = "score",
    .other_prefix = "transformer.",
    .class_plain = "MinistralModel",
    .class_tokens = "MinistralForCausalLM",
    .class_labels = "MinistralForSequenceClassification",
};

const struct qkv_family qkv_family_ministral = {
    .prefix = "model.",
    .describe = describe,
    .names = &qkv_llama_names,
    .ends = &ends,
};
