// SPDX-License-Identifier: MIT
// modernbert.c: describes ModernBERT: encoder, norm before each sublayer, rotary positions, gated
// feed-forward; two of three layers have a window around each token and another base of rotary
// positions.
//
// Warner et al. 2024 (arXiv 2412.13663); names and keys as saved by transformers'
// ModernBertForMaskedLM.
#include "model/family/description.h"

// Reads which layers are local, and their window; the key local_attention is the number of tokens
// on both sides together.
static bool windows(struct qkv_description *d, const struct qkv_config *c)
{
    int64_t every = 3, both = 128;
    bool found = false;
    if (!qkv_describe_layer_types(d, c, &found) ||
        !qkv_config_int(c, "global_attn_every_n_layers", false, &every, 1, QKV_LAYERS_MAX) ||
        !qkv_config_int(c, "local_attention", false, &both, 1, QKV_POSITIONS_MAX))
        return false;
    if (!found) qkv_describe_local(d, 0, every, 0);
    d->window_left = d->window_right = both / 2;
    return true;
}

// Reads the activations of the output heads for tokens and for labels, and which rows the head for
// labels reads.
static bool heads(struct qkv_description *d, const struct qkv_config *c)
{
    static const char *const pools[] = { "cls", "mean", NULL };
    const enum qkv_activation inner = d->act;
    int pool = 0;
    bool bias = true;
    d->act = QKV_ACT_GELU;
    if (!qkv_describe_activation(d, c, "classifier_activation") ||
        !qkv_config_choice(c, "classifier_pooling", false, &pool, pools) ||
        !qkv_config_flag(c, "decoder_bias", false, &bias))
        return false;
    d->masked_act = d->classify_act = d->act;
    d->act = inner;
    d->label_pool = pool ? QKV_LABEL_MEAN : QKV_LABEL_FIRST;
    return bias ||
           qkv_config_refuse(c, QKV_ERR_UNSUPPORTED, "decoder_bias",
                             "logits without a bias are not supported, expected true, found false");
}

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    static const struct qkv_config_keys keys = {
        .width = "hidden_size",
        .inner = "intermediate_size",
        .layers = "num_hidden_layers",
        .heads = "num_attention_heads",
        .vocab = "vocab_size",
        .positions = "max_position_embeddings",
        .eps = "norm_eps",
        .pad = "pad_token_id",
        .dropout = { "embedding_dropout", "attention_dropout", "mlp_dropout",
                     "classifier_dropout" },
    };
    const struct {
        const char *key;
        unsigned which;
    } biases[] = { { "attention_bias", QKV_BIAS_QKV | QKV_BIAS_OUT },
                   { "mlp_bias", QKV_BIAS_MLP },
                   { "classifier_bias", QKV_BIAS_ENDS } };
    static const char *const bases[] = { "global_rope_theta", "local_rope_theta" };
    bool tied = true, normed = false;
    d->norm = QKV_NORM_PRE;
    d->embedding_norm = d->final_norm = d->gated = d->first_norm_missing = true;
    d->position = QKV_POSITION_ROTARY;
    d->theta = 160000;
    d->theta_local = 10000;
    d->size.eps = 1e-5;
    if (!qkv_config_sizes(c, &keys, &d->size) ||
        !qkv_describe_activation(d, c, "hidden_activation") ||
        !qkv_config_flag(c, "norm_bias", false, &normed) ||
        !qkv_config_flag(c, "tie_word_embeddings", false, &tied))
        return false;
    for (size_t i = 0; i < sizeof biases / sizeof biases[0]; i++) {
        bool on = false;
        if (!qkv_config_flag(c, biases[i].key, false, &on)) return false;
        if (on) d->biases |= biases[i].which;
    }
    d->norm_unbiased = !normed;
    d->untied = !tied;
    return windows(d, c) && heads(d, c) && qkv_describe_rotations(d, c, bases, false) &&
           qkv_describe_tokens(d, c);
}

static const struct qkv_names names = {
    .word = "embeddings.tok_embeddings.weight",
    .embedding_norm = "embeddings.norm",
    .final_norm = "final_norm",
    .heads = {
        .q = "layers.#.attn.Wqkv",
        .k = "layers.#.attn.Wqkv",
        .v = "layers.#.attn.Wqkv",
        .o = "layers.#.attn.Wo",
        .norm_in = "layers.#.attn_norm",
    },
    .mlp = {
        .gate = "layers.#.mlp.Wi",
        .up = "layers.#.mlp.Wi",
        .down = "layers.#.mlp.Wo",
        .norm_in = "layers.#.mlp_norm",
    },
    .joined = true,
};

static const struct qkv_end_names ends = {
    .logits = "decoder.weight",
    .logits_bias = "decoder.bias",
    .masked_dense = "head.dense",
    .masked_norm = "head.norm",
    .classify_dense = "head.dense",
    .classify_norm = "head.norm",
    .classify_out = "classifier",
    .each_out = "classifier",
    .each_dense = true,
    .class_plain = "ModernBertModel",
    .class_tokens = "ModernBertForMaskedLM",
    .class_labels = "ModernBertForSequenceClassification",
};

const struct qkv_family qkv_family_modernbert = {
    .prefix = "model.",
    .describe = describe,
    .names = &names,
    .ends = &ends,
};
