// SPDX-License-Identifier: MIT
// electra.c: describes ELECTRA: BERT with other output heads.
//
// Clark et al. 2020 (arXiv 2003.10555); names and keys as saved by transformers' ElectraModel. The
// sizes base and large; the small model, whose embeddings are narrower than its layers, is refused.
#include "model/family/description.h"
#include <inttypes.h>

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    int64_t width = 128; // default of the reference
    if (!qkv_describe_bert(d, c) ||
        !qkv_config_int(c, "embedding_size", false, &width, 1, QKV_WIDTH_MAX))
        return false;
    d->masked_act = d->classify_act = QKV_ACT_GELU;
    return width == d->size.width ||
           qkv_config_refuse(c, QKV_ERR_UNSUPPORTED, "embedding_size",
                             "embeddings of another width than the layers are not supported, "
                             "expected %" PRId64 ", found %" PRId64,
                             d->size.width, width);
}

static const struct qkv_end_names ends = {
    .logits = "generator_lm_head.weight",
    .logits_bias = "generator_lm_head.bias",
    .masked_dense = "generator_predictions.dense",
    .masked_norm = "generator_predictions.LayerNorm",
    .classify_dense = "classifier.dense",
    .classify_out = "classifier.out_proj",
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
