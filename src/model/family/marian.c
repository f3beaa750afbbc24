// SPDX-License-Identifier: MIT
// marian.c: describes the Transformer of Vaswani et al. 2017 (arXiv 1706.03762) as saved by
// transformers' MarianMTModel: encoder and decoder, norm after each sublayer, sinusoidal positions;
// encoder and decoder share an embedding table or have one each; or the decoder alone.
#include "model/family/description.h"
#include <inttypes.h>
#include <math.h>

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    bool shared = true;
    d->act = QKV_ACT_GELU;
    d->bias = true;
    d->position = QKV_POSITION_SINES_FIRST;
    d->size.eps = 1e-5; // not in config.json: the value of the reference
    if (!qkv_describe_sides(d, c) ||
        !qkv_config_flag(c, "share_encoder_decoder_embeddings", false, &shared))
        return false;
    int64_t vocab = d->size.vocab;
    if (!qkv_config_int(c, "decoder_vocab_size", false, &vocab, 1, QKV_VOCAB_MAX)) return false;
    if (!shared && d->kind != QKV_NET_DECODER)
        d->decoder_vocab = vocab;
    else if (vocab != d->size.vocab)
        return qkv_config_refuse(c, QKV_ERR_UNSUPPORTED, "decoder_vocab_size",
                                 "decoder size differs from the encoder size, expected %" PRId64
                                 ", found %" PRId64,
                                 d->size.vocab, vocab);
    return qkv_describe_tokens(d, c);
}

static bool fits(const struct qkv_description *d)
{
    const double scale = d->embed_scale - sqrt((double)d->size.width);
    return d->kind == QKV_NET_ENCODER_DECODER && d->norm == QKV_NORM_POST &&
           d->norm_kind == QKV_NORM_LAYER && !d->gated && d->position == QKV_POSITION_SINES_FIRST &&
           !d->embedding_norm && !d->final_norm && d->bias && !d->untied && !d->decoder_vocab &&
           qkv_heads_plain(d) && d->size.eps == 1e-5 && (!d->embed_scale || fabs(scale) < 1e-9);
}

static bool compose(json_t *to, const struct qkv_description *d)
{
    return qkv_put_sizes(to, &qkv_bart_keys, &d->size) &&
           qkv_put_int(to, "decoder_layers", d->decoder_layers) &&
           qkv_put_int(to, "decoder_attention_heads", d->size.heads) &&
           qkv_put_int(to, "decoder_ffn_dim", d->size.inner) &&
           qkv_put_int(to, "decoder_vocab_size", d->size.vocab) &&
           qkv_put_text(to, "activation_function", qkv_activation_name(d->act)) &&
           qkv_put_flag(to, "scale_embedding", d->embed_scale > 0) &&
           qkv_put_flag(to, "share_encoder_decoder_embeddings", true) &&
           qkv_put_flag(to, "is_encoder_decoder", true) &&
           qkv_put_flag(to, "tie_word_embeddings", true) &&
           (d->bos < 0 || qkv_put_int(to, "decoder_start_token_id", d->bos)) &&
           (d->eos < 0 || qkv_put_int(to, "forced_eos_token_id", d->eos));
}

static const struct qkv_names decoder = {
    .own_word = "decoder.embed_tokens.weight",
    .heads = {
        .q = "decoder.layers.#.self_attn.q_proj",
        .k = "decoder.layers.#.self_attn.k_proj",
        .v = "decoder.layers.#.self_attn.v_proj",
        .o = "decoder.layers.#.self_attn.out_proj",
        .norm_out = "decoder.layers.#.self_attn_layer_norm",
    },
    .cross = {
        .q = "decoder.layers.#.encoder_attn.q_proj",
        .k = "decoder.layers.#.encoder_attn.k_proj",
        .v = "decoder.layers.#.encoder_attn.v_proj",
        .o = "decoder.layers.#.encoder_attn.out_proj",
        .norm_out = "decoder.layers.#.encoder_attn_layer_norm",
    },
    .mlp = {
        .up = "decoder.layers.#.fc1",
        .down = "decoder.layers.#.fc2",
        .norm_out = "decoder.layers.#.final_layer_norm",
    },
};

static const struct qkv_names names = {
    .word = "shared.weight",
    .own_word = "encoder.embed_tokens.weight",
    .heads = {
        .q = "encoder.layers.#.self_attn.q_proj",
        .k = "encoder.layers.#.self_attn.k_proj",
        .v = "encoder.layers.#.self_attn.v_proj",
        .o = "encoder.layers.#.self_attn.out_proj",
        .norm_out = "encoder.layers.#.self_attn_layer_norm",
    },
    .mlp = {
        .up = "encoder.layers.#.fc1",
        .down = "encoder.layers.#.fc2",
        .norm_out = "encoder.layers.#.final_layer_norm",
    },
    .decoder = &decoder,
};

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .logits_bias = "final_logits_bias",
    .logits_bias_fixed = true,
    .class_plain = "MarianModel",
    .class_tokens = "MarianMTModel",
    .class_decoder = "MarianForCausalLM",
};

const struct qkv_family qkv_family_marian = {
    .prefix = "model.",
    .describe = describe,
    .names = &names,
    .ends = &ends,
    .fits = fits,
    .compose = compose,
    .keys = &qkv_bart_keys,
};
