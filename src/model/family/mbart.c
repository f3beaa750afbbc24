// SPDX-License-Identifier: MIT
// mbart.c: describes mBART: BART with the norm before each sublayer and one more after each stack.
//
// Liu et al. 2020 (arXiv 2001.08210); names and keys as saved by transformers'
// MBartForConditionalGeneration.
#include "model/family/description.h"

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    d->norm = QKV_NORM_PRE;
    d->final_norm = true;
    return qkv_describe_bart(d, c);
}

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .logits_bias = "final_logits_bias",
    .logits_bias_fixed = true,
    .classify_dense = "classification_head.dense",
    .classify_out = "classification_head.out_proj",
    .class_plain = "MBartModel",
    .class_tokens = "MBartForConditionalGeneration",
    .class_decoder = "MBartForCausalLM",
    .class_labels = "MBartForSequenceClassification",
};

const struct qkv_family qkv_family_mbart = {
    .prefix = "model.",
    .describe = describe,
    .names = &qkv_bart_names,
    .ends = &ends,
};
