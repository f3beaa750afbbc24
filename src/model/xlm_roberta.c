// SPDX-License-Identifier: MIT
// xlm_roberta.c: XLM-RoBERTa: BERT's layers; positions count from behind the padding token.
//
// Conneau et al. 2020 (arXiv 1911.02116); names and keys as transformers' XLMRobertaModel saves them.
#include "model/model.h"

const struct qkv_family qkv_family_xlm_roberta = {
    .prefix = "roberta.",
    .describe = qkv_describe_roberta,
    .names = &qkv_bert_names,
};
