// SPDX-License-Identifier: MIT
// xlm_roberta.c: describes XLM-RoBERTa: BERT with positions that begin after the id of the padding
// token.
//
// Conneau et al. 2020 (arXiv 1911.02116); names and keys as saved by transformers' XLMRobertaModel.
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
    .class_plain = "XLMRobertaModel",
    .class_tokens = "XLMRobertaForMaskedLM",
    .class_labels = "XLMRobertaForSequenceClassification",
};

const struct qkv_family qkv_family_xlm_roberta = {
    .prefix = "roberta.",
    .describe = qkv_describe_roberta,
    .names = &qkv_bert_names,
    .ends = &ends,
};
