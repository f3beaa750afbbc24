// SPDX-License-Identifier: MIT
// roberta.c: describes RoBERTa: BERT with positions that begin after the id of the padding token.
//
// Liu et al. 2019 (arXiv 1907.11692); names and keys as saved by transformers' RobertaModel.
#include "model/family/description.h"

bool qkv_describe_roberta(struct qkv_description *d, const struct qkv_config *c)
{
    d->size.pad = 1;
    d->position_after_pad = true;
    if (!qkv_describe_bert(d, c)) return false;
    d->masked_act = QKV_ACT_GELU; // the reference uses GELU for any activation of the layers
    return true;
}

static const struct qkv_end_names ends = {
    .logits = "lm_head.decoder.weight",
    .logits_bias = "lm_head.bias",
    .untied_bias = "lm_head.decoder.bias",
    .masked_dense = "lm_head.dense",
    .masked_norm = "lm_head.layer_norm",
    .classify_dense = "classifier.dense",
    .classify_out = "classifier.out_proj",
    .each_out = "classifier",
    .class_plain = "RobertaModel",
    .class_tokens = "RobertaForMaskedLM",
    .class_labels = "RobertaForSequenceClassification",
};

const struct qkv_family qkv_family_roberta = {
    .prefix = "roberta.",
    .describe = qkv_describe_roberta,
    .names = &qkv_bert_names,
    .ends = &ends,
};
