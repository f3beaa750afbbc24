// SPDX-License-Identifier: MIT
// llama.c: Llama: decoder, RMS norm before each part, rotary positions, gated feed-forward, grouped
// heads.
//
// Touvron et al. 2023 (arXiv 2302.13971); names and keys as transformers' LlamaForCausalLM saves
// them.
#include "model/model.h"
#include <inttypes.h>
#include <string.h>

static const struct qkv_config_keys keys = {
    .width = "hidden_size",
    .inner = "intermediate_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .kv_heads = "num_key_value_heads",
    .vocab = "vocab_size",
    .positions = "max_position_embeddings",
    .eps = "rms_norm_eps",
    .pad = "pad_token_id",
    .dropout = { "attention_dropout" },
    .free_heads = true,
};

// The rotation: rope_theta, or rope_parameters with that and its type; rope_scaling and other types
// stretch angles in ways that are not here.
static bool describe_rotation(struct qkv_description *d, const struct qkv_config *c)
{
    const json_t *scaling = json_object_get(c->root, "rope_scaling");
    json_t *inner = json_object_get(c->root, "rope_parameters");
    d->theta = 10000;
    if (scaling && !json_is_null(scaling))
        return qkv_config_refuse(c, QKV_ERR_UNSUPPORTED, "rope_scaling",
                                 "stretched rotary positions, expected null");
    if (!qkv_config_real(c, "rope_theta", false, &d->theta, 1e-3, 1e12)) return false;
    if (!json_is_object(inner)) return true;
    const json_t *type = json_object_get(inner, "rope_type");
    if (json_is_string(type) && strcmp(json_string_value(type), "default") != 0)
        return qkv_config_refuse(c, QKV_ERR_UNSUPPORTED, "rope_parameters.rope_type",
                                 "stretched rotary positions, expected \"default\", found "
                                 "\"%.64s\"",
                                 json_string_value(type));
    const struct qkv_config deeper = { inner, c->file, c->err };
    return qkv_config_real(&deeper, "rope_theta", false, &d->theta, 1e-3, 1e12);
}

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    static const char *const biases[] = { "attention_bias", "mlp_bias" };
    bool tied = false;
    d->kind = QKV_NET_DECODER;
    d->norm = QKV_NORM_PRE;
    d->norm_kind = QKV_NORM_RMS;
    d->act = QKV_ACT_SILU;
    d->gated = d->final_norm = true;
    d->position = QKV_POSITION_ROTARY;
    d->size.eps = 1e-6;
    if (!qkv_config_sizes(c, &keys, &d->size) || !describe_rotation(d, c) ||
        !qkv_describe_activation(d, c, "hidden_act") ||
        !qkv_config_flag(c, "tie_word_embeddings", false, &tied) ||
        !qkv_config_int(c, "head_dim", false, &d->d_k, 1, QKV_WIDTH_MAX))
        return false;
    for (size_t i = 0; i < sizeof biases / sizeof biases[0]; i++) {
        bool bias = false;
        if (!qkv_config_flag(c, biases[i], false, &bias)) return false;
        if (bias)
            return qkv_config_refuse(c, QKV_ERR_UNSUPPORTED, biases[i],
                                     "biases of this family, expected false, found true");
    }
    if (!d->d_k && d->size.width % d->size.heads)
        return qkv_config_refuse(c, QKV_ERR_FORMAT, "num_attention_heads",
                                 "heads do not divide the width, expected a divisor of %" PRId64
                                 ", found %" PRId64,
                                 d->size.width, d->size.heads);
    d->d_v = d->d_k;
    if (qkv_head_keys(d) % 2)
        return qkv_config_refuse(c, QKV_ERR_FORMAT, "head_dim",
                                 "rotary positions turn pairs, expected an even width of a head, "
                                 "found %" PRId64,
                                 qkv_head_keys(d));
    d->untied = !tied;
    return qkv_describe_tokens(d, c);
}

static bool fits(const struct qkv_description *d)
{
    return d->kind == QKV_NET_DECODER && d->norm == QKV_NORM_PRE && d->norm_kind == QKV_NORM_RMS &&
           d->gated && d->position == QKV_POSITION_ROTARY && !d->embedding_norm &&
           !d->embed_scale && d->final_norm && !d->bias && d->size.width % d->size.heads == 0 &&
           qkv_head_keys(d) == qkv_head_values(d);
}

static bool compose(json_t *to, const struct qkv_description *d)
{
    const double theta = d->theta > 0 ? d->theta : 10000;
    json_t *rope = json_object();
    if (!rope || !qkv_put_real(rope, "rope_theta", theta) ||
        !qkv_put_text(rope, "rope_type", "default")) {
        json_decref(rope);
        return false;
    }
    return json_object_set_new(to, "rope_parameters", rope) == 0 &&
           qkv_put_sizes(to, &keys, &d->size) && qkv_put_int(to, "head_dim", qkv_head_keys(d)) &&
           qkv_put_text(to, "hidden_act", qkv_activation_name(d->act)) &&
           qkv_put_flag(to, "attention_bias", false) && qkv_put_flag(to, "mlp_bias", false) &&
           qkv_put_flag(to, "tie_word_embeddings", !d->untied);
}

static const struct qkv_names names = {
    .word = "embed_tokens.weight",
    .final_norm = "norm",
    .heads = {
        .q = "layers.#.self_attn.q_proj",
        .k = "layers.#.self_attn.k_proj",
        .v = "layers.#.self_attn.v_proj",
        .o = "layers.#.self_attn.o_proj",
        .norm_in = "layers.#.input_layernorm",
    },
    .mlp = {
        .gate = "layers.#.mlp.gate_proj",
        .up = "layers.#.mlp.up_proj",
        .down = "layers.#.mlp.down_proj",
        .norm_in = "layers.#.post_attention_layernorm",
    },
};

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .class_plain = "LlamaModel",
    .class_tokens = "LlamaForCausalLM",
};

const struct qkv_family qkv_family_llama = {
    .prefix = "model.",
    .describe = describe,
    .names = &names,
    .ends = &ends,
    .fits = fits,
    .compose = compose,
};
