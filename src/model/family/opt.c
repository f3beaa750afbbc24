// SPDX-License-Identifier: MIT
// opt.c: describes OPT: decoder, norm before each sublayer, learned positions whose first two rows
// are unused.
//
// Zhang et al. 2022 (arXiv 2205.01068); names and keys as saved by transformers' OPTForCausalLM.
#include "model/family/description.h"
#include <inttypes.h>

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    static const struct qkv_config_keys keys = {
        .width = "hidden_size",
        .inner = "ffn_dim",
        .layers = "num_hidden_layers",
        .heads = "num_attention_heads",
        .vocab = "vocab_size",
        .positions = "max_position_embeddings",
        .pad = "pad_token_id",
        .dropout = { "dropout", "attention_dropout" },
    };
    bool before = true, removed = false, affine = true, tied = true;
    int64_t word = 0;
    d->kind = QKV_NET_DECODER;
    d->act = QKV_ACT_RELU;
    d->bias = true;
    d->position_offset = 2;
    d->size.eps = 1e-5; // not in config.json: the value of the reference
    d->size.pad = 1;
    if (!qkv_config_sizes(c, &keys, &d->size) ||
        !qkv_describe_activation(d, c, "activation_function") ||
        !qkv_config_flag(c, "enable_bias", false, &d->bias) ||
        !qkv_config_flag(c, "do_layer_norm_before", false, &before) ||
        !qkv_config_flag(c, "_remove_final_layer_norm", false, &removed) ||
        !qkv_config_flag(c, "layer_norm_elementwise_affine", false, &affine) ||
        !qkv_config_flag(c, "tie_word_embeddings", false, &tied))
        return false;
    if (!affine)
        return qkv_config_refuse(
            c, QKV_ERR_UNSUPPORTED, "layer_norm_elementwise_affine",
            "norms without weights are not supported, expected true, found false");
    word = d->size.width;
    if (!qkv_config_int(c, "word_embed_proj_dim", false, &word, 1, QKV_WIDTH_MAX)) return false;
    if (word != d->size.width)
        return qkv_config_refuse(
            c, QKV_ERR_UNSUPPORTED, "word_embed_proj_dim",
            "token embeddings of another width than the model are not supported, expected %" PRId64
            ", found %" PRId64,
            d->size.width, word);
    d->norm = before ? QKV_NORM_PRE : QKV_NORM_POST;
    d->final_norm = before && !removed;
    d->untied = !tied;
    return qkv_describe_tokens(d, c);
}

static const struct qkv_names names = {
    .word = "decoder.embed_tokens.weight",
    .position = "decoder.embed_positions.weight",
    .final_norm = "decoder.final_layer_norm",
    .heads = {
        .q = "decoder.layers.#.self_attn.q_proj",
        .k = "decoder.layers.#.self_attn.k_proj",
        .v = "decoder.layers.#.self_attn.v_proj",
        .o = "decoder.layers.#.self_attn.out_proj",
        .norm_in = "decoder.layers.#.self_attn_layer_norm",
        .norm_out = "decoder.layers.#.self_attn_layer_norm",
    },
    .mlp = {
        .up = "decoder.layers.#.fc1",
        .down = "decoder.layers.#.fc2",
        .norm_in = "decoder.layers.#.final_layer_norm",
        .norm_out = "decoder.layers.#.final_layer_norm",
    },
};

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .classify_out = "score",
    .classify_unbiased = true,
    .class_plain = "OPTModel",
    .class_tokens = "OPTForCausalLM",
    .class_labels = "OPTForSequenceClassification",
};

const struct qkv_family qkv_family_opt = {
    .prefix = "model.",
    .describe = describe,
    .names = &names,
    .ends = &ends,
};
