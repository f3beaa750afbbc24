// SPDX-License-Identifier: MIT
// smollm3.c: describes SmolLM3: Llama, some of whose layers do not rotate queries and keys.
//
// Hugging Face 2025 (SmolLM3); Yang et al. 2025 (arXiv 2501.18795) for layers without positions;
// names and keys as saved by transformers' SmolLM3ForCausalLM.
#include "model/family/description.h"
#include <inttypes.h>
#include <string.h>

// Reads no_rope_layers, which has 0 for each layer that does not rotate, or else
// no_rope_layer_interval: every such layer, counted from 1, does not rotate.
static bool unrotated(struct qkv_description *d, const struct qkv_config *c)
{
    const json_t *list = json_object_get(c->root, "no_rope_layers");
    int64_t every = 4;
    if (!qkv_config_int(c, "no_rope_layer_interval", false, &every, 1, QKV_LAYERS_MAX))
        return false;
    const bool listed = list && !json_is_null(list);
    if (listed && (!json_is_array(list) || (int64_t)json_array_size(list) < d->size.layers))
        return qkv_config_refuse(c, QKV_ERR_FORMAT, "no_rope_layers",
                                 "list is too short, expected %" PRId64
                                 " numbers, one per layer, found %zu",
                                 d->size.layers, json_array_size(list));
    for (int64_t i = 0; i < d->size.layers; i++) {
        const json_t *one = json_array_get(list, (size_t)i);
        if (listed && !json_is_integer(one) && !json_is_boolean(one))
            return qkv_config_refuse(c, QKV_ERR_FORMAT, "no_rope_layers",
                                     "value of the wrong type, expected 0 or 1 for layer %" PRId64
                                     ", found another value",
                                     i);
        const bool rotated =
            listed ? json_integer_value(one) != 0 || json_is_true(one) : (i + 1) % every != 0;
        if (!rotated) qkv_layer_add(d->unrotated, i);
    }
    return true;
}

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    bool found = false, window = false;
    d->theta = 2e6; // default of the reference
    if (!qkv_describe_llama(d, c) || !unrotated(d, c) || !qkv_describe_layer_types(d, c, &found) ||
        !qkv_config_flag(c, "use_sliding_window", false, &window))
        return false;
    if (!json_object_get(c->root, "tie_word_embeddings")) d->untied = false;
    if (json_is_null(json_object_get(c->root, "sliding_window"))) window = false;
    if (!found && window) memcpy(d->local, d->unrotated, sizeof d->local);
    return qkv_describe_window(d, c, d->size.positions);
}

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .classify_out = "score",
    .classify_unbiased = true,
    .each_out = "score",
    .other_prefix = "transformer.",
    .class_plain = "SmolLM3Model",
    .class_tokens = "SmolLM3ForCausalLM",
    .class_labels = "SmolLM3ForSequenceClassification",
};

const struct qkv_family qkv_family_smollm3 = {
    .prefix = "model.",
    .describe = describe,
    .names = &qkv_llama_names,
    .ends = &ends,
};
