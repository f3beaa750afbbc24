// SPDX-License-Identifier: MIT
// granite.c: describes Granite: Llama with four factors, of the token embeddings, the attention
// scores, the output of each sublayer and the logits.
//
// IBM Research 2024 (Power Scheduler, arXiv 2408.13359); names and keys as saved by transformers'
// GraniteForCausalLM.
#include "model/family/description.h"

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    double divisor = 1; // all factors are 1 in the reference, unless config.json has the key
    if (!qkv_describe_llama(d, c)) return false;
    d->embed_scale = d->attention_scale = d->residual_scale = 1;
    if (!qkv_config_real(c, "embedding_multiplier", false, &d->embed_scale, 1e-6, 1e9) ||
        !qkv_config_real(c, "attention_multiplier", false, &d->attention_scale, 1e-6, 1e9) ||
        !qkv_config_real(c, "residual_multiplier", false, &d->residual_scale, 1e-6, 1e9) ||
        !qkv_config_real(c, "logits_scaling", false, &divisor, 1e-6, 1e9))
        return false;
    d->logit_scale = 1 / divisor;
    return true;
}

static const struct qkv_end_names ends = {
    .logits = "lm_head.weight",
    .class_plain = "GraniteModel",
    .class_tokens = "GraniteForCausalLM",
};

const struct qkv_family qkv_family_granite = {
    .prefix = "model.",
    .describe = describe,
    .names = &qkv_llama_names,
    .ends = &ends,
};
