// SPDX-License-Identifier: MIT
// ministral3.c: describes Ministral 3: Llama, with a window if sliding_window is set; it scales the
// queries of positions from original_max_position_embeddings on by a factor that grows with the
// position.
//
// Mistral AI 2025 (Ministral 3); names and keys as saved by transformers' Ministral3ForCausalLM.
// qkv runs the positions whose factor is 1: original_max_position_embeddings of them.
#include "model/family/description.h"

// Sets the rotary positions of the reference for a config.json without them, in which it does not
// read rope_theta either.
static void describe_usual_rotation(struct qkv_description *d)
{
    d->theta = 1e6;
    d->rope = (struct qkv_rope_scaling){ .kind = QKV_ROPE_YARN,
                                         .factor = 16,
                                         .low = 1,
                                         .high = 32,
                                         .attention = 1,
                                         .original = 16384,
                                         .whole = true };
}

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    const json_t *rope = json_object_get(c->root, "rope_scaling");
    if (json_object_size(rope) == 0) rope = json_object_get(c->root, "rope_parameters");
    const bool usual = !rope || json_is_null(rope);
    d->d_k = 128; // this value and the next are defaults of the reference
    d->size.eps = 1e-5;
    if (!qkv_describe_llama(d, c) || !qkv_describe_window_of_all(d, c)) return false;
    if (usual) describe_usual_rotation(d);
    d->biases = 0; // the reference has no biases, whatever attention_bias and mlp_bias are
    const double beta = json_number_value(json_object_get(rope, "llama_4_scaling_beta"));
    if ((usual || beta != 0) && d->rope.kind)
        d->size.positions = qkv_min64(d->size.positions, d->rope.original);
    return true;
}

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .classify_out = "score",
    .classify_unbiased = true,
    .each_out = "score",
    .class_plain = "Ministral3Model",
    .class_tokens = "Ministral3ForCausalLM",
    .class_labels = "Ministral3ForSequenceClassification",
};

const struct qkv_family qkv_family_ministral3 = {
    .prefix = "model.",
    .describe = describe,
    .names = &qkv_llama_names,
    .ends = &ends,
};
