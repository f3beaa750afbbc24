// SPDX-License-Identifier: MIT
// electra.c: describes ELECTRA: BERT with other output heads, and embeddings of a width of their own.
//
// Clark et al. 2020 (arXiv 2003.10555); names and keys as saved by transformers' ElectraModel. If the
// embeddings have another width than the layers, as in the small model, a projection follows them.
#include "model/family/description.h"

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    int64_t width = 128; // default of the reference
    if (!qkv_describe_bert(d, c) ||
        !qkv_config_int(c, "embedding_size", false, &width, 1, QKV_WIDTH_MAX))
        return false;
    d->masked_act = d->classify_act = QKV_ACT_GELU;
    if (width != d->size.width) d->embed_width = width;
    return true;
}

static const struct qkv_end_names ends = {
    .logits = "generator_lm_head.weight",
    .logits_bias = "generator_lm_head.bias",
    .masked_dense = "generator_predictions.dense",
    .masked_norm = "generator_predictions.LayerNorm",
    .classify_dense = "classifier.dense",
    .classify_out = "classifier.out_proj",
    .each_out = "classifier",
    .class_plain = "ElectraModel",
    .class_tokens = "ElectraForMaskedLM",
    .class_labels = "ElectraForSequenceClassification",
};

const struct qkv_family qkv_family_electra = {
    .prefix = "electra.",
    .describe = describe,
    .names = &qkv_bert_names,
    .ends = &ends,
};
