// SPDX-License-Identifier: MIT
// phi3.c: describes Phi-3 and Phi-4: Llama whose q, k, v, and whose gate and up, are one tensor
// each; a part of a head may be rotated, with longrope, and all layers may have a window.
//
// Abdin et al. 2024 (arXiv 2404.14219); names and keys as saved by transformers' Phi3ForCausalLM.
#include "model/family/description.h"
#include <string.h>

// Names the scaling of rotary positions "longrope", for which the first files have "su" or "yarn".
// Returns false if memory is exhausted.
static bool rename_scaling(json_t *root)
{
    json_t *at = json_object_get(root, "rope_scaling");
    if (!json_object_size(at)) at = json_object_get(root, "rope_parameters");
    const char *key = json_object_get(at, "rope_type") ? "rope_type" : "type";
    const char *type = json_string_value(json_object_get(at, key));
    if (!type || (strcmp(type, "su") != 0 && strcmp(type, "yarn") != 0)) return true;
    return qkv_put_text(at, key, "longrope");
}

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    struct qkv_config own = { json_deep_copy(c->root), c->file, c->err };
    d->size.eps = 1e-5; // default of the reference
    d->rotated = 1;
    bool ok = own.root && rename_scaling(own.root);
    // The reference sets this member, by default to 4096, before it reads the scaling.
    if (ok && !json_object_get(own.root, "original_max_position_embeddings"))
        ok = qkv_put_int(own.root, "original_max_position_embeddings", 4096);
    if (!ok) qkv_fail_memory(c->err, c->file);
    ok = ok && qkv_describe_llama(d, &own) && qkv_describe_partial(d, &own) &&
         qkv_describe_window_of_all(d, &own);
    json_decref(own.root);
    d->biases = 0; // the reference has no biases, whatever attention_bias and mlp_bias are
    return ok;
}

static const struct qkv_names names = {
    .word = "embed_tokens.weight",
    .final_norm = "norm",
    .heads = {
        .q = "layers.#.self_attn.qkv_proj",
        .k = "layers.#.self_attn.qkv_proj",
        .v = "layers.#.self_attn.qkv_proj",
        .o = "layers.#.self_attn.o_proj",
        .norm_in = "layers.#.input_layernorm",
    },
    .mlp = {
        .gate = "layers.#.mlp.gate_up_proj",
        .up = "layers.#.mlp.gate_up_proj",
        .down = "layers.#.mlp.down_proj",
        .norm_in = "layers.#.post_attention_layernorm",
    },
    .joined = true,
};

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .classify_out = "score",
    .classify_unbiased = true,
    .each_out = "score",
    .class_plain = "Phi3Model",
    .class_tokens = "Phi3ForCausalLM",
    .class_labels = "Phi3ForSequenceClassification",
};

const struct qkv_family qkv_family_phi3 = {
    .prefix = "model.",
    .describe = describe,
    .names = &names,
    .ends = &ends,
};
