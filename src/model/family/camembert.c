// SPDX-License-Identifier: MIT
// camembert.c: describes CamemBERT: RoBERTa, trained on French.
//
// Martin et al. 2020 (arXiv 1911.03894); names and keys as saved by transformers' CamembertModel.
#include "model/family/description.h"

static const struct qkv_end_names ends = {
    .logits = "lm_head.decoder.weight",
    .logits_bias = "lm_head.bias",
    .untied_bias = "lm_head.decoder.bias",
    .masked_dense = "lm_head.dense",
    .masked_norm = "lm_head.layer_norm",
    .classify_dense = "classifier.dense",
    .classify_out = "classifier.out_proj",
    .each_out = "classifier",
    .class_plain = "CamembertModel",
    .class_tokens = "CamembertForMaskedLM",
    .class_labels = "CamembertForSequenceClassification",
};

const struct qkv_family qkv_family_camembert = {
    .prefix = "roberta.",
    .describe = qkv_describe_roberta,
    .names = &qkv_bert_names,
    .ends = &ends,
};
