// SPDX-License-Identifier: MIT
// transformer.c: describes qkv's own decoders and encoder-decoders, for models that no family of
// the library transformers can represent; each choice of a description is a key of config.json.
//
// The keys are model_type "qkv-transformer"; kind, "decoder" or "encoder-decoder"; decoder_layers;
// the sizes of Llama; and the keys of qkv_describe_choices, with the defaults of GPT-2.
//
// Tensor names follow transformers' encoder-decoders.
#include "model/family/description.h"

static const struct qkv_config_keys keys = {
    .width = "hidden_size",
    .inner = "intermediate_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .kv_heads = "num_key_value_heads",
    .vocab = "vocab_size",
    .positions = "max_position_embeddings",
    .eps = "norm_eps",
    .pad = "pad_token_id",
    .free_heads = true,
};

static const char *const kinds[] = { "encoder", "decoder", "encoder-decoder", NULL };

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    int kind = QKV_NET_DECODER;
    d->norm = QKV_NORM_PRE;
    d->bias = true;
    d->size.eps = 1e-5;
    if (!qkv_config_sizes(c, &keys, &d->size) || !qkv_describe_choices(d, c) ||
        !qkv_config_choice(c, "kind", true, &kind, kinds))
        return false;
    d->kind = (enum qkv_net_kind)kind;
    d->decoder_layers = d->size.layers;
    if (d->kind == QKV_NET_ENCODER)
        return qkv_config_refuse(
            c, QKV_ERR_UNSUPPORTED, "kind",
            "unsupported kind of model, expected \"decoder\" or \"encoder-decoder\" (encoders have "
            "model_type \"qkv-encoder\"), found \"encoder\"");
    return qkv_config_int(c, "decoder_layers", false, &d->decoder_layers, 1, QKV_LAYERS_MAX);
}

static bool fits(const struct qkv_description *d)
{
    return d->kind == QKV_NET_DECODER || d->kind == QKV_NET_ENCODER_DECODER;
}

static bool compose(json_t *to, const struct qkv_description *d)
{
    return qkv_put_text(to, "kind", kinds[d->kind]) && qkv_put_sizes(to, &keys, &d->size) &&
           qkv_put_choices(to, d) &&
           (d->kind == QKV_NET_DECODER || qkv_put_int(to, "decoder_layers", d->decoder_layers));
}

#define STACK(SIDE)                                                                                \
    .embedding_norm = SIDE ".layernorm_embedding", .final_norm = SIDE ".layer_norm",               \
    .heads = { .q = SIDE ".layers.#.self_attn.q_proj",                                             \
               .k = SIDE ".layers.#.self_attn.k_proj",                                             \
               .v = SIDE ".layers.#.self_attn.v_proj",                                             \
               .o = SIDE ".layers.#.self_attn.out_proj",                                           \
               .norm_in = SIDE ".layers.#.self_attn_layer_norm_in",                                \
               .norm_out = SIDE ".layers.#.self_attn_layer_norm" },                                \
    .mlp = { .gate = SIDE ".layers.#.fc_gate",                                                     \
             .up = SIDE ".layers.#.fc1",                                                           \
             .down = SIDE ".layers.#.fc2",                                                         \
             .norm_in = SIDE ".layers.#.final_layer_norm_in",                                      \
             .norm_out = SIDE ".layers.#.final_layer_norm" },                                      \
    .last_mlp = { .gate = SIDE ".fc_gate",                                                         \
                  .up = SIDE ".fc1",                                                               \
                  .down = SIDE ".fc2",                                                             \
                  .norm_in = SIDE ".last_layer_norm_in",                                           \
                  .norm_out = SIDE ".last_layer_norm" }

static const struct qkv_names decoder = {
    .position = "decoder.embed_positions.weight",
    STACK("decoder"),
    .cross = {
        .q = "decoder.layers.#.encoder_attn.q_proj",
        .k = "decoder.layers.#.encoder_attn.k_proj",
        .v = "decoder.layers.#.encoder_attn.v_proj",
        .o = "decoder.layers.#.encoder_attn.out_proj",
        .norm_in = "decoder.layers.#.encoder_attn_layer_norm_in",
        .norm_out = "decoder.layers.#.encoder_attn_layer_norm",
    },
};

// The encoder has these names. (A decoder without encoder has the names of `decoder`.)
static const struct qkv_names names = {
    .word = "shared.weight",
    .position = "embed_positions.weight",
    STACK("encoder"),
    .decoder = &decoder,
};

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .class_plain = "Transformer",
    .class_tokens = "TransformerForTokens",
};

const struct qkv_family qkv_family_transformer = {
    .prefix = "model.",
    .describe = describe,
    .names = &names,
    .ends = &ends,
    .fits = fits,
    .compose = compose,
};
