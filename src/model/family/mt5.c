// SPDX-License-Identifier: MIT
// mt5.c: describes mT5: T5 1.1, trained on 101 languages; its logits are never scaled.
//
// Xue et al. 2021 (arXiv 2010.11934); names and keys as saved by transformers'
// MT5ForConditionalGeneration.
#include "model/family/description.h"

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    d->gated = true; // default of the reference
    if (!qkv_describe_t5(d, c)) return false;
    d->logit_scale = 0; // tied or not, the input of the output projection is not scaled
    return true;
}

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .other_prefix = "transformer.",
    .classify_dense = "classification_head.dense",
    .classify_out = "classification_head.out_proj",
    .each_out = "classifier",
    .class_plain = "MT5Model",
    .class_tokens = "MT5ForConditionalGeneration",
    .class_labels = "MT5ForSequenceClassification",
};

const struct qkv_family qkv_family_mt5 = {
    .prefix = "",
    .describe = describe,
    .names = &qkv_t5_names,
    .ends = &ends,
};
