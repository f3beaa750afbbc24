// SPDX-License-Identifier: MIT
// bert.c: describes BERT: post-norm encoder, learned positions, token types.
//
// Devlin et al. 2019 (arXiv 1810.04805); names and keys as saved by transformers' BertModel.
#include "model/family/description.h"

static const struct qkv_config_keys keys = {
    .width = "hidden_size",
    .inner = "intermediate_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .vocab = "vocab_size",
    .positions = "max_position_embeddings",
    .types = "type_vocab_size",
    .eps = "layer_norm_eps",
    .pad = "pad_token_id",
    .dropout = { "hidden_dropout_prob", "attention_probs_dropout_prob" },
};

bool qkv_describe_bert(struct qkv_description *d, const struct qkv_config *c)
{
    static const char *const absolute[] = { "absolute", NULL };
    int kind = 0;
    bool decoder = false, tied = true;
    // default of the reference if the key is absent; binding checks the shape of the table
    d->size.types = 2;
    d->size.eps = 1e-12;
    d->embedding_norm = d->bias = true;
    d->classify_act = QKV_ACT_TANH;
    if (!qkv_config_sizes(c, &keys, &d->size) || !qkv_describe_activation(d, c, "hidden_act") ||
        !qkv_config_choice(c, "position_embedding_type", false, &kind, absolute) ||
        !qkv_config_flag(c, "is_decoder", false, &decoder) ||
        !qkv_config_flag(c, "tie_word_embeddings", false, &tied) || !qkv_describe_tokens(d, c))
        return false;
    d->masked_act = d->act;
    d->untied = !tied;
    if (decoder)
        return qkv_config_refuse(
            c, QKV_ERR_UNSUPPORTED, "is_decoder",
            "decoders of this family are not supported, expected false, found true");
    return true;
}

const struct qkv_names qkv_bert_names = {
    .word = "embeddings.word_embeddings.weight",
    .position = "embeddings.position_embeddings.weight",
    .type = "embeddings.token_type_embeddings.weight",
    .embedding_norm = "embeddings.LayerNorm",
    .embed_in = "embeddings_project", // ELECTRA only
    .heads = {
        .q = "encoder.layer.#.attention.self.query",
        .k = "encoder.layer.#.attention.self.key",
        .v = "encoder.layer.#.attention.self.value",
        .o = "encoder.layer.#.attention.output.dense",
        .norm_out = "encoder.layer.#.attention.output.LayerNorm",
    },
    .mlp = {
        .up = "encoder.layer.#.intermediate.dense",
        .down = "encoder.layer.#.output.dense",
        .norm_out = "encoder.layer.#.output.LayerNorm",
    },
};

static const struct qkv_end_names ends = {
    .logits = "cls.predictions.decoder.weight",
    .logits_bias = "cls.predictions.bias",
    .untied_bias = "cls.predictions.decoder.bias",
    .masked_dense = "cls.predictions.transform.dense",
    .masked_norm = "cls.predictions.transform.LayerNorm",
    .classify_dense = "pooler.dense",
    .classify_out = "classifier",
    .classify_prefixed = true,
    .each_out = "classifier",
    .class_plain = "BertModel",
    .class_tokens = "BertForMaskedLM",
    .class_labels = "BertForSequenceClassification",
};

static bool fits(const struct qkv_description *d)
{
    return d->kind == QKV_NET_ENCODER && d->norm == QKV_NORM_POST &&
           d->norm_kind == QKV_NORM_LAYER && !d->gated && d->position == QKV_POSITION_LEARNED &&
           d->embedding_norm && d->bias && !d->untied && d->size.types > 0 && qkv_heads_plain(d);
}

static bool compose(json_t *to, const struct qkv_description *d)
{
    return qkv_put_sizes(to, &keys, &d->size) &&
           qkv_put_text(to, "hidden_act", qkv_activation_name(d->act));
}

const struct qkv_family qkv_family_bert = {
    .prefix = "bert.",
    .describe = qkv_describe_bert,
    .names = &qkv_bert_names,
    .fits = fits,
    .ends = &ends,
    .compose = compose,
    .keys = &keys,
};
