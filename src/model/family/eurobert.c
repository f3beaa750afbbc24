// SPDX-License-Identifier: MIT
// eurobert.c: describes EuroBERT: Llama as an encoder, in which every token attends to all tokens.
//
// Boizard et al. 2025 (arXiv 2503.05500); names and keys as saved by transformers'
// EuroBertForMaskedLM.
#include "model/family/description.h"

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    static const char *const pools[] = { "late", "bos", "mean", NULL };
    static const enum qkv_label_pool kinds[] = { QKV_LABEL_LATE, QKV_LABEL_FIRST, QKV_LABEL_MEAN };
    int pool = 0;
    d->size.eps = 1e-5; // this value, and the ids below, are the reference's
    d->size.pad = 128001;
    d->mask = 128002;
    if (!qkv_describe_llama(d, c) ||
        !qkv_config_choice(c, "classifier_pooling", false, &pool, pools))
        return false;
    if (d->biases & QKV_BIAS_MLP)
        return qkv_config_refuse(c, QKV_ERR_UNSUPPORTED, "mlp_bias",
                                 "biases of this family's feed-forward networks and logits are not "
                                 "supported, expected false, found true");
    d->kind = QKV_NET_ENCODER;
    d->label_pool = kinds[pool];
    d->classify_act = QKV_ACT_GELU;
    d->biases |= QKV_BIAS_ENDS;
    return true;
}

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .classify_dense = "dense",
    .classify_out = "classifier",
    .each_out = "classifier",
    .class_plain = "EuroBertModel",
    .class_tokens = "EuroBertForMaskedLM",
    .class_labels = "EuroBertForSequenceClassification",
};

const struct qkv_family qkv_family_eurobert = {
    .prefix = "model.",
    .describe = describe,
    .names = &qkv_llama_names,
    .ends = &ends,
};
