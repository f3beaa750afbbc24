// SPDX-License-Identifier: MIT
// encoder.c: qkv's own encoder: every choice of a description is a key of its config.json.
//
//   model_type "qkv-encoder"; sizes as BERT's, num_key_value_heads; type_vocab_size (default: none)
//   norm          "post" (default), "pre", "both"        feed_forward  "each" (default), "once"
//   positions     "learned" (default), "sinusoidal", "none"
//   bias          true (default)      embedding_norm  false (default)
//   final_norm    false (default; "pre": true)            hidden_act    "gelu" (default), ...
#include "model/model.h"

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    static const struct qkv_config_keys keys = {
        .width = "hidden_size",
        .inner = "intermediate_size",
        .layers = "num_hidden_layers",
        .heads = "num_attention_heads",
        .kv_heads = "num_key_value_heads",
        .vocab = "vocab_size",
        .positions = "max_position_embeddings",
        .types = "type_vocab_size",
        .eps = "layer_norm_eps",
        .pad = "pad_token_id",
        .dropout = { "hidden_dropout_prob", "attention_probs_dropout_prob" },
    };
    static const char *const norms[] = { "post", "pre", "both", NULL };
    static const char *const places[] = { "each", "once", NULL };
    static const char *const positions[] = { "learned", "sinusoidal", "none", NULL };
    int norm = QKV_NORM_POST, once = 0, position = QKV_POSITION_LEARNED;
    d->size.eps = 1e-5;
    d->bias = true;
    if (!qkv_config_sizes(c, &keys, &d->size) || !qkv_describe_activation(d, c, "hidden_act") ||
        !qkv_config_choice(c, "norm", false, &norm, norms) ||
        !qkv_config_choice(c, "feed_forward", false, &once, places) ||
        !qkv_config_choice(c, "positions", false, &position, positions))
        return false;
    d->norm = (enum qkv_norm_place)norm;
    d->mlp_once = once == 1;
    d->position = (enum qkv_position_kind)position;
    d->final_norm = d->norm == QKV_NORM_PRE;
    return qkv_config_flag(c, "bias", false, &d->bias) &&
           qkv_config_flag(c, "embedding_norm", false, &d->embedding_norm) &&
           qkv_config_flag(c, "final_norm", false, &d->final_norm);
}

static const struct qkv_names names = {
    .word = "embeddings.word.weight",
    .position = "embeddings.position.weight",
    .type = "embeddings.token_type.weight",
    .embedding_norm = "embeddings.norm",
    .final_norm = "norm",
    .heads = {
        .q = "layers.#.attention.query",
        .k = "layers.#.attention.key",
        .v = "layers.#.attention.value",
        .o = "layers.#.attention.output",
        .norm_in = "layers.#.attention.norm_in",
        .norm_out = "layers.#.attention.norm_out",
    },
    .mlp = {
        .up = "layers.#.feed_forward.up",
        .down = "layers.#.feed_forward.down",
        .norm_in = "layers.#.feed_forward.norm_in",
        .norm_out = "layers.#.feed_forward.norm_out",
    },
    .last_mlp = {
        .up = "feed_forward.up",
        .down = "feed_forward.down",
        .norm_in = "feed_forward.norm_in",
        .norm_out = "feed_forward.norm_out",
    },
};

const struct qkv_family qkv_family_encoder = {
    .prefix = "model.",
    .describe = describe,
    .names = &names,
};
