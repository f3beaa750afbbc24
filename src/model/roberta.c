// SPDX-License-Identifier: MIT
// roberta.c: RoBERTa: BERT's layers; positions count from behind the padding token.
//
// Liu et al. 2019 (arXiv 1907.11692); names and keys as transformers' RobertaModel saves them.
#include "model/model.h"

bool qkv_describe_roberta(struct qkv_description *d, const struct qkv_config *c)
{
    d->size.pad = 1;
    d->position_after_pad = true;
    return qkv_describe_bert(d, c);
}

const struct qkv_family qkv_family_roberta = {
    .prefix = "roberta.",
    .describe = qkv_describe_roberta,
    .names = &qkv_bert_names,
};
