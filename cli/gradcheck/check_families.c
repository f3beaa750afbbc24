// SPDX-License-Identifier: MIT
// check_families.c: checks the gradients of whole models, with two layers, for features that the
// architectures of net.def do not have. Each feature has a check: rotations, windows, layers
// that share weights, norms of heads, norms inside a layer, soft caps, relative positions.
#include "check_nets.h"
#include "model/params/trainable.h"

// JSON members that all config.json texts below contain.
#define SIZES                                                                                      \
    "'vocab_size': 11, 'hidden_size': 8, 'intermediate_size': 6, 'num_hidden_layers': 2,"          \
    "'num_attention_heads': 2, 'max_position_embeddings': 8, 'pad_token_id': 0,"

// Parses the text of a config.json in which ' is written instead of ". Returns NULL if it is
// invalid.
static json_t *parse(const char *config)
{
    char text[1024];
    size_t i = 0;
    for (; config[i] && i + 1 < sizeof text; i++) text[i] = config[i] == '\'' ? '"' : config[i];
    text[i] = 0;
    return json_loads(text, 0, NULL);
}

// Creates a model of a family. labels > 0: its output head classifies into so many labels; labels
// 0: its output head predicts tokens.
static qkv_status make(qkv_net *n, const char *family, const char *config, int labels,
                       qkv_error *err)
{
    n->family = qkv_family_find(family, &n->model_type);
    n->config = parse(config);
    if (!n->family || !n->config) return QKV_ERR_USAGE;
    const struct qkv_config c = { n->config, "config.json", err };
    n->is = (struct qkv_description){
        .bos = -1, .eos = -1, .mask = -1, .start = -1, .forced = -1, .size.pad = -1
    };
    if (!n->family->describe(&n->is, &c)) return err->status;
    n->is.labels = labels;
    n->masked_end = n->is.kind == QKV_NET_ENCODER && !labels;
    n->prefix = n->family->prefix;
    qkv_status status = qkv_net_build(n, err);
    if (!status) status = qkv_net_allocate(n, err);
    if (!status) qkv_net_initialize(n, 1, false);
    return status;
}

static void check(struct gradcheck *g, const char *family, const char *config, int labels,
                  enum qkv_objective objective, const struct qkv_net_options *o)
{
    qkv_net *n = qkv_alloc_zero(1, sizeof *n);
    qkv_error err = { .text = "cannot create the model" };
    if (n) n->options = *o;
    if (!n || make(n, family, config, labels, &err))
        gradcheck_fail(g, err.text);
    else
        gradcheck_net(g, n, objective, o->dropout > 0);
    qkv_net_free(n);
}

static const struct qkv_net_options plain,
    again = { .recompute = true }, drops = { .dropout = (real).3 },
    all = { .recompute = true, .dropout = (real).3, .smoothing = (real).1 };

void check_rotations(struct gradcheck *g)
{
    check(g, "llama",
          "{" SIZES "'num_key_value_heads': 1, 'head_dim': 8, 'rope_parameters': {"
          "'rope_type': 'yarn', 'factor': 4.0, 'original_max_position_embeddings': 4}}",
          0, QKV_OBJECTIVE_CAUSAL, &plain);
    check(g, "llama",
          "{" SIZES "'attention_bias': true, 'rope_scaling': {"
          "'rope_type': 'llama3', 'factor': 4.0, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0,"
          "'original_max_position_embeddings': 4}}",
          0, QKV_OBJECTIVE_CAUSAL, &all);
    // the first of two layers does not rotate
    check(g, "smollm3", "{" SIZES "'num_key_value_heads': 1, 'no_rope_layers': [0, 1]}", 0,
          QKV_OBJECTIVE_CAUSAL, &all);
    check(g, "phi3",
          "{" SIZES "'num_key_value_heads': 1, 'head_dim': 8, 'partial_rotary_factor': 0.5}", 0,
          QKV_OBJECTIVE_CAUSAL, &plain);
    // sequences of more than 3 tokens have the long factors
    check(g, "phi3",
          "{" SIZES "'num_key_value_heads': 1, 'original_max_position_embeddings': 3,"
          "'rope_scaling': {'type': 'su', 'short_factor': [1, 1.5], 'long_factor': [2, 8]}}",
          0, QKV_OBJECTIVE_CAUSAL, &all);
}

void check_windows(struct gradcheck *g)
{
    check(g, "mistral", "{" SIZES "'num_key_value_heads': 1, 'sliding_window': 2}", 0,
          QKV_OBJECTIVE_CAUSAL, &plain);
    // modernbert has layers with a window and layers without; both have their own rotary positions
    check(g, "modernbert",
          "{" SIZES "'global_attn_every_n_layers': 2, 'local_attention': 2,"
          "'classifier_pooling': 'mean'}",
          3, QKV_OBJECTIVE_CLASSIFY, &plain);
    check(g, "modernbert",
          "{" SIZES "'global_attn_every_n_layers': 2, 'local_attention': 2, 'norm_bias': true,"
          "'classifier_bias': true}",
          3, QKV_OBJECTIVE_CLASSIFY, &drops);
    check(g, "modernbert", "{" SIZES "'global_attn_every_n_layers': 2, 'local_attention': 2}", 0,
          QKV_OBJECTIVE_MASKED, &again);
}

// These encoders have output heads that other encoders lack: a projection to tokens without a dense
// layer, labels from the mean of what a dense layer computes from each row, or heads with biases in
// a model without.
void check_encoder_heads(struct gradcheck *g)
{
    static const char llama[] = "{" SIZES "'num_key_value_heads': 1}";
    static const char nomic[] = "{" SIZES "'type_vocab_size': 2}";
    check(g, "eurobert", llama, 0, QKV_OBJECTIVE_MASKED, &plain);
    check(g, "eurobert", llama, 3, QKV_OBJECTIVE_CLASSIFY, &plain);
    check(g, "eurobert", llama, 3, QKV_OBJECTIVE_CLASSIFY, &drops);
    check(g, "nomic_bert", nomic, 0, QKV_OBJECTIVE_MASKED, &plain);
    check(g, "nomic_bert", nomic, 3, QKV_OBJECTIVE_CLASSIFY, &drops);
}

// Checks embeddings that are narrower or wider than the layers, and layers that share weights.
void check_shared_layers(struct gradcheck *g)
{
    static const char narrow[] = "{" SIZES "'embedding_size': 5, 'inner_group_num': 2}";
    static const char wide[] = "{" SIZES "'embedding_size': 12}";
    check(g, "electra", narrow, 0, QKV_OBJECTIVE_MASKED, &plain);
    check(g, "electra", wide, 0, QKV_OBJECTIVE_MASKED, &drops);
    check(g, "albert", narrow, 0, QKV_OBJECTIVE_MASKED, &plain);
    check(g, "albert", wide, 0, QKV_OBJECTIVE_MASKED, &all);
    check(g, "albert", wide, 3, QKV_OBJECTIVE_CLASSIFY, &drops);
    check(g, "albert", narrow, 0, QKV_OBJECTIVE_CONTRASTIVE, &again);
}

void check_head_norms(struct gradcheck *g)
{
    static const char config[] = "{" SIZES "'num_key_value_heads': 1, 'head_dim': 6}";
    check(g, "qwen3", config, 0, QKV_OBJECTIVE_CAUSAL, &plain);
    check(g, "qwen3", config, 0, QKV_OBJECTIVE_CAUSAL, &all);
    // one norm over all heads of a token, and norms after sublayers only
    check(g, "olmo2", config, 0, QKV_OBJECTIVE_CAUSAL, &plain);
    check(g, "olmo2", config, 0, QKV_OBJECTIVE_CAUSAL, &again);
    check(g, "olmo2", config, 0, QKV_OBJECTIVE_CAUSAL, &all);
}

// Checks an encoder whose only feed-forward network follows the layers, with a residual connection
// and norms, and without.
void check_bare_feed_forward(struct gradcheck *g)
{
    static const char once[] = "{" SIZES "'norm': 'both', 'feed_forward': 'once'}";
    static const char bare[] =
        "{" SIZES "'norm': 'both', 'feed_forward': 'bare', 'positions': 'sinusoidal'}";
    check(g, "qkv-encoder", once, 0, QKV_OBJECTIVE_MASKED, &plain);
    check(g, "qkv-encoder", bare, 0, QKV_OBJECTIVE_MASKED, &plain);
    check(g, "qkv-encoder", bare, 0, QKV_OBJECTIVE_MASKED, &again);
    check(g, "qkv-encoder", bare, 3, QKV_OBJECTIVE_CLASSIFY, &drops);
}

// Checks a model that multiplies embeddings, scores, sublayer outputs and logits by factors.
void check_factors(struct gradcheck *g)
{
    static const char config[] =
        "{" SIZES "'num_key_value_heads': 1, 'embedding_multiplier': 2.5,"
        "'attention_multiplier': 0.4, 'residual_multiplier': 0.6, 'logits_scaling': 1.5}";
    check(g, "granite", config, 0, QKV_OBJECTIVE_CAUSAL, &plain);
    check(g, "granite", config, 0, QKV_OBJECTIVE_CAUSAL, &again);
    check(g, "granite", config, 0, QKV_OBJECTIVE_CAUSAL, &all);
}

// Checks a model with norms inside a layer, and with soft caps on scores and logits.
void check_norms_inside(struct gradcheck *g)
{
    static const char config[] =
        "{" SIZES "'num_key_value_heads': 1, 'head_dim': 6, 'query_pre_attn_scalar': 3,"
        "'sliding_window': 2, 'attn_logit_softcapping': 1.5, 'final_logit_softcapping': 2.5}";
    check(g, "gemma2", config, 0, QKV_OBJECTIVE_CAUSAL, &plain);
    check(g, "gemma2", config, 0, QKV_OBJECTIVE_CAUSAL, &again);
    check(g, "gemma2", config, 0, QKV_OBJECTIVE_CAUSAL, &all);
    // two rotations, of which one is scaled, and norms of heads with an offset
    check(g, "gemma3_text",
          "{" SIZES "'num_key_value_heads': 1, 'head_dim': 6, 'query_pre_attn_scalar': 3,"
          "'sliding_window': 2, 'sliding_window_pattern': 2,"
          "'rope_scaling': {'rope_type': 'linear', 'factor': 2.0}}",
          0, QKV_OBJECTIVE_CAUSAL, &all);
    check(g, "gemma3_text",
          "{" SIZES "'num_key_value_heads': 1, 'head_dim': 6, 'sliding_window': 4,"
          "'sliding_window_pattern': 2, 'use_bidirectional_attention': true}",
          0, QKV_OBJECTIVE_MASKED, &plain);
}

void check_relative(struct gradcheck *g)
{
    static const char t5[] =
        "{'vocab_size': 11, 'd_model': 8, 'd_ff': 6, 'num_layers': 2, 'num_heads': 2, 'd_kv': 3,"
        "'num_decoder_layers': 2, 'pad_token_id': 0, 'feed_forward_proj': 'gated-gelu',"
        "'relative_attention_num_buckets': 4, 'relative_attention_max_distance': 3}";
    check(g, "mpnet", "{" SIZES "'pad_token_id': 1}", 0, QKV_OBJECTIVE_MASKED, &plain);
    check(g, "t5", t5, 0, QKV_OBJECTIVE_SEQ2SEQ, &plain);
    check(g, "t5", t5, 0, QKV_OBJECTIVE_SEQ2SEQ, &all);
}
