// SPDX-License-Identifier: MIT
// gpt2.c: describes GPT-2: decoder, norm before each sublayer, learned positions.
//
// Radford et al. 2019; names, keys and transposed matrices as saved by transformers'
// GPT2LMHeadModel.
#include "model/family/description.h"

static const struct qkv_config_keys keys = {
    .width = "n_embd",
    .layers = "n_layer",
    .heads = "n_head",
    .vocab = "vocab_size",
    .positions = "n_positions",
    .eps = "layer_norm_epsilon",
    .pad = "pad_token_id",
    .dropout = { "resid_pdrop", "embd_pdrop", "attn_pdrop" },
};

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    // Keys that change the computation; only their default values are supported.
    static const struct {
        const char *key;
        bool usual;
    } flags[] = { { "scale_attn_weights", true },
                  { "scale_attn_by_inverse_layer_idx", false },
                  { "add_cross_attention", false } };
    bool tied = true;
    d->kind = QKV_NET_DECODER;
    d->norm = QKV_NORM_PRE;
    d->act = QKV_ACT_GELU_TANH;
    d->final_norm = d->bias = true;
    d->size.eps = 1e-5;
    if (!qkv_config_sizes(c, &keys, &d->size)) return false;
    d->size.inner = 4 * d->size.width;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        bool flag = flags[i].usual;
        if (!qkv_config_flag(c, flags[i].key, false, &flag)) return false;
        if (flag != flags[i].usual)
            return qkv_config_refuse(c, QKV_ERR_UNSUPPORTED, flags[i].key,
                                     "unsupported value of this member, expected %s, found %s",
                                     flags[i].usual ? "true" : "false", flag ? "true" : "false");
    }
    if (!qkv_config_int(c, "n_inner", false, &d->size.inner, 1, QKV_INNER_MAX) ||
        !qkv_describe_activation(d, c, "activation_function") ||
        !qkv_config_flag(c, "tie_word_embeddings", false, &tied))
        return false;
    d->untied = !tied;
    return qkv_describe_tokens(d, c);
}

static bool fits(const struct qkv_description *d)
{
    return d->kind == QKV_NET_DECODER && d->norm == QKV_NORM_PRE &&
           d->norm_kind == QKV_NORM_LAYER && !d->gated && d->position == QKV_POSITION_LEARNED &&
           !d->embedding_norm && !d->embed_scale && d->final_norm && d->bias && qkv_heads_plain(d);
}

static bool compose(json_t *to, const struct qkv_description *d)
{
    return qkv_put_sizes(to, &keys, &d->size) && qkv_put_int(to, "n_inner", d->size.inner) &&
           qkv_put_text(to, "activation_function", qkv_activation_name(d->act)) &&
           qkv_put_flag(to, "tie_word_embeddings", !d->untied);
}

static const struct qkv_names names = {
    .word = "wte.weight",
    .position = "wpe.weight",
    .final_norm = "ln_f",
    .heads = {
        .q = "h.#.attn.c_attn",
        .k = "h.#.attn.c_attn",
        .v = "h.#.attn.c_attn",
        .o = "h.#.attn.c_proj",
        .norm_in = "h.#.ln_1",
    },
    .mlp = {
        .up = "h.#.mlp.c_fc",
        .down = "h.#.mlp.c_proj",
        .norm_in = "h.#.ln_2",
    },
    .conv1d = true,
    .joined = true,
};

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .classify_out = "score",
    .classify_unbiased = true,
    .each_out = "classifier",
    .class_plain = "GPT2Model",
    .class_tokens = "GPT2LMHeadModel",
    .class_labels = "GPT2ForSequenceClassification",
};

const struct qkv_family qkv_family_gpt2 = {
    .prefix = "transformer.",
    .describe = describe,
    .names = &names,
    .ends = &ends,
    .fits = fits,
    .compose = compose,
    .keys = &keys,
};
