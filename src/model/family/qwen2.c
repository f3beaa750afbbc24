// SPDX-License-Identifier: MIT
// qwen2.c: describes Qwen2: Llama with biases of q, k, v; later layers may have a window.
//
// Yang et al. 2024 (arXiv 2407.10671); names and keys as saved by transformers' Qwen2ForCausalLM.
#include "model/family/description.h"

bool qkv_describe_qwen_window(struct qkv_description *d, const struct qkv_config *c)
{
    bool on = false, found = false;
    int64_t from = 28; // default of the reference
    if (!qkv_config_flag(c, "use_sliding_window", false, &on) ||
        !qkv_config_int(c, "max_window_layers", false, &from, 0, INT64_MAX) ||
        !qkv_describe_layer_types(d, c, &found))
        return false;
    if (on && !found && !json_is_null(json_object_get(c->root, "sliding_window")))
        qkv_describe_local(d, from, 0, 0);
    return qkv_describe_window(d, c, on ? 4096 : 0);
}

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    if (!qkv_describe_llama(d, c)) return false;
    d->biases = QKV_BIAS_QKV; // not in config.json: the value of the reference
    return qkv_describe_qwen_window(d, c);
}

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .classify_out = "score",
    .classify_unbiased = true,
    .each_out = "score",
    .other_prefix = "transformer.",
    .class_plain = "Qwen2Model",
    .class_tokens = "Qwen2ForCausalLM",
    .class_labels = "Qwen2ForSequenceClassification",
};

const struct qkv_family qkv_family_qwen2 = {
    .prefix = "model.",
    .describe = describe,
    .names = &qkv_llama_names,
    .ends = &ends,
};
