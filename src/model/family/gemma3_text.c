// SPDX-License-Identifier: MIT
// gemma3_text.c: describes Gemma 3 for text: Gemma 2 with a norm on each query and key head, and
// with two kinds of rotary positions, one of them for layers with a window.
//
// Gemma Team 2025 (arXiv 2503.19786); names and keys as saved by transformers' Gemma3ForCausalLM.
// With use_bidirectional_attention the model is an encoder (EmbeddingGemma, arXiv 2509.20354).
#include "model/family/description.h"

// Reads which layers are local, and their window. In an encoder, sliding_window is the number of
// tokens on both sides together.
static bool windows(struct qkv_description *d, const struct qkv_config *c)
{
    int64_t every = 6, window = 4096;
    bool found = false;
    if (!qkv_describe_layer_types(d, c, &found) ||
        !qkv_config_int(c, "sliding_window_pattern", false, &every, 1, QKV_LAYERS_MAX))
        return false;
    if (!found) qkv_describe_local(d, 0, every, every - 1);
    if (d->kind == QKV_NET_DECODER) return qkv_describe_window(d, c, window);
    if (!qkv_config_int(c, "sliding_window", false, &window, 1, QKV_POSITIONS_MAX)) return false;
    d->window_left = d->window_right = window / 2;
    return true;
}

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    static const char *const bases[] = { "rope_theta", "rope_local_base_freq" };
    if (!qkv_describe_gemma(d, c, "hidden_activation", true)) return false;
    d->norm = QKV_NORM_INSIDE;
    d->norm_q = d->norm_k = true;
    d->theta = 1e6;
    d->theta_local = 1e4;
    d->label_pool = QKV_LABEL_LAST; // in an encoder too
    if (!qkv_describe_gemma_caps(d, c)) return false;
    d->softcap = 0; // the reference reads attn_logit_softcapping and does not use it
    return windows(d, c) && qkv_describe_rotations(d, c, bases, true);
}

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .classify_out = "score",
    .classify_unbiased = true,
    .class_plain = "Gemma3TextModel",
    .class_tokens = "Gemma3ForCausalLM",
    .class_labels = "Gemma3TextForSequenceClassification",
};

const struct qkv_family qkv_family_gemma3_text = {
    .prefix = "model.",
    .describe = describe,
    .names = &qkv_gemma_names,
    .ends = &ends,
};
