// SPDX-License-Identifier: MIT
// gemma2.c: describes Gemma 2: Gemma with norms before and after each sublayer, a window in every
// other layer, soft caps of scores and logits.
//
// Gemma Team 2024 (arXiv 2408.00118); names and keys as saved by transformers' Gemma2ForCausalLM.
#include "model/family/description.h"
#include <math.h>

bool qkv_describe_gemma_caps(struct qkv_description *d, const struct qkv_config *c)
{
    double scalar = 256; // default of the reference
    const struct {
        const char *key;
        double *out;
    } caps[] = { { "attn_logit_softcapping", &d->softcap },
                 { "final_logit_softcapping", &d->logit_softcap } };
    if (!qkv_config_real(c, "query_pre_attn_scalar", false, &scalar, 1e-6, 1e9)) return false;
    for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++) {
        if (json_is_null(json_object_get(c->root, caps[i].key))) *caps[i].out = 0; // null: no cap
        if (!qkv_config_real(c, caps[i].key, false, caps[i].out, 1e-6, 1e9)) return false;
    }
    d->attention_scale = 1 / sqrt(scalar);
    return true;
}

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    bool found = false;
    d->norm = QKV_NORM_INSIDE;
    d->softcap = 50; // defaults of the reference
    d->logit_softcap = 30;
    if (!qkv_describe_gemma(d, c, "hidden_activation", false) || !qkv_describe_gemma_caps(d, c) ||
        !qkv_describe_layer_types(d, c, &found))
        return false;
    if (!found) qkv_describe_local(d, 0, 2, 1);
    return qkv_describe_window(d, c, 4096) && qkv_describe_rotation(d, c);
}

const struct qkv_names qkv_gemma_names = {
    .word = "embed_tokens.weight",
    .final_norm = "norm",
    .heads = {
        .q = "layers.#.self_attn.q_proj",
        .k = "layers.#.self_attn.k_proj",
        .v = "layers.#.self_attn.v_proj",
        .o = "layers.#.self_attn.o_proj",
        .norm_in = "layers.#.input_layernorm",
        .norm_out = "layers.#.post_attention_layernorm",
        .norm_q = "layers.#.self_attn.q_norm", // Gemma 3 only
        .norm_k = "layers.#.self_attn.k_norm",
    },
    .mlp = {
        .gate = "layers.#.mlp.gate_proj",
        .up = "layers.#.mlp.up_proj",
        .down = "layers.#.mlp.down_proj",
        .norm_in = "layers.#.pre_feedforward_layernorm",
        .norm_out = "layers.#.post_feedforward_layernorm",
    },
};

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .classify_out = "score",
    .classify_unbiased = true,
    .each_out = "score",
    .class_plain = "Gemma2Model",
    .class_tokens = "Gemma2ForCausalLM",
    .class_labels = "Gemma2ForSequenceClassification",
};

const struct qkv_family qkv_family_gemma2 = {
    .prefix = "model.",
    .describe = describe,
    .names = &qkv_gemma_names,
    .ends = &ends,
};
