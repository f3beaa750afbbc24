// SPDX-License-Identifier: MIT
// nomic_bert.c: describes Nomic BERT: BERT with rotary positions and gated feed-forward, without
// biases in its layers.
//
// Nussbaum et al. 2024 (arXiv 2402.01613); names as saved by transformers' NomicBertModel. Keys as
// saved by it, or the keys of the first published files (n_embd, n_layer, ...).
#include "model/family/description.h"

// Reads the keys of the first published files for what this family's other keys do not express.
static bool older(struct qkv_description *d, const struct qkv_config *c)
{
    static const char *const gated[] = { "swiglu", NULL };
    static const char *const refused[] = { "prenorm", "qkv_proj_bias", "mlp_fc1_bias",
                                           "mlp_fc2_bias", "rotary_emb_interleaved" };
    int act = 0;
    double part = 1;
    if (!qkv_config_choice(c, "activation_function", false, &act, gated) ||
        !qkv_config_real(c, "rotary_emb_base", false, &d->theta, 1e-3, 1e12) ||
        !qkv_config_real(c, "rotary_emb_fraction", false, &part, 0, 1))
        return false;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        bool on = false;
        if (!qkv_config_flag(c, refused[i], false, &on)) return false;
        if (on)
            return qkv_config_refuse(
                c, QKV_ERR_UNSUPPORTED, refused[i],
                "unsupported value of this member, expected false, found true");
    }
    return part == 1 ||
           qkv_config_refuse(c, QKV_ERR_UNSUPPORTED, "rotary_emb_fraction",
                             "unsupported value of this member, expected 1, found %g", part);
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
        .types = "type_vocab_size",
        .eps = "layer_norm_eps",
        .pad = "pad_token_id",
        .dropout = { "hidden_dropout_prob", "attention_probs_dropout_prob" },
        .free_heads = true,
    };
    static const struct qkv_config_keys once = {
        .width = "n_embd",
        .inner = "n_inner",
        .layers = "n_layer",
        .heads = "n_head",
        .vocab = "vocab_size",
        .positions = "n_positions",
        .types = "type_vocab_size",
        .eps = "layer_norm_epsilon",
        .pad = "pad_token_id",
        .dropout = { "resid_pdrop", "attn_pdrop" },
        .free_heads = true,
    };
    const bool first = json_object_get(c->root, "n_embd") != NULL;
    bool tied = true; // this value, and those set below, are the reference's
    d->size.types = 2;
    d->size.eps = 1e-12;
    d->size.pad = 0;
    d->embedding_norm = d->gated = true;
    d->biases = QKV_BIAS_ENDS;
    d->position = QKV_POSITION_ROTARY;
    d->theta = 1000;
    d->act = QKV_ACT_SILU;
    if (!qkv_config_sizes(c, first ? &once : &keys, &d->size) ||
        !qkv_describe_activation(d, c, "hidden_act") || !qkv_describe_head_width(d, c) ||
        !qkv_config_flag(c, "tie_word_embeddings", false, &tied) || (first && !older(d, c)))
        return false;
    d->untied = !tied;
    d->masked_act = d->act;
    d->classify_act = QKV_ACT_TANH;
    return qkv_describe_rotation(d, c) && qkv_describe_tokens(d, c);
}

static const struct qkv_names names = {
    .word = "embeddings.word_embeddings.weight",
    .type = "embeddings.token_type_embeddings.weight",
    .embedding_norm = "emb_ln",
    .heads = {
        .q = "encoder.layers.#.attn.Wqkv",
        .k = "encoder.layers.#.attn.Wqkv",
        .v = "encoder.layers.#.attn.Wqkv",
        .o = "encoder.layers.#.attn.out_proj",
        .norm_out = "encoder.layers.#.norm1",
    },
    .mlp = {
        .gate = "encoder.layers.#.mlp.fc12",
        .up = "encoder.layers.#.mlp.fc11",
        .down = "encoder.layers.#.mlp.fc2",
        .norm_out = "encoder.layers.#.norm2",
    },
    .joined = true,
    .modules = {
        .q = "layers.#.self_attn.q_proj",
        .k = "layers.#.self_attn.k_proj",
        .v = "layers.#.self_attn.v_proj",
    },
};

static const struct qkv_end_names ends = {
    .logits = "cls.predictions.decoder.weight",
    .logits_bias = "cls.predictions.bias",
    .untied_bias = "cls.predictions.decoder.bias",
    .masked_dense = "cls.predictions.transform.dense",
    .masked_norm = "cls.predictions.transform.layer_norm",
    .classify_dense = "pooler.dense",
    .classify_out = "classifier",
    .classify_prefixed = true,
    .each_out = "classifier",
    .class_plain = "NomicBertModel",
    .class_tokens = "NomicBertForMaskedLM",
    .class_labels = "NomicBertForSequenceClassification",
};

const struct qkv_family qkv_family_nomic_bert = {
    .prefix = "nomic_bert.",
    .describe = describe,
    .names = &names,
    .ends = &ends,
};
