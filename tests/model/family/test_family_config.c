// SPDX-License-Identifier: MIT
// test_family_config.c: checks that a config.json that does not fit the tensors is refused, for
// every family: each size changed by one, each tensor missing, each rule of a key broken; the
// message names the key, or the tensor and both shapes.
#include "model/family/config_edit.h"

// Opens the folder and runs what the reference has results for.
static qkv_status use(const struct tiny *t, qkv_error *err)
{
    qkv_model *m = NULL;
    memset(err, 0, sizeof *err);
    qkv_status status = qkv_model_open(&m, folder_path, NULL, err);
    CHECK((status == QKV_OK) == (m != NULL));
    if (!status && t->info.can & QKV_CAN_TOKENS) {
        const struct qkv_model_info info = qkv_model_info(m);
        float *hidden = golden_floats(info.width), *logits = golden_floats(info.vocab);
        status = qkv_model_logits(m, logits, hidden, 1, err);
        free(hidden);
        free(logits);
    }
    if (!status && t->info.can & QKV_CAN_LABELS) {
        const struct qkv_model_info info = qkv_model_info(m);
        float *scores = golden_floats(3 * info.labels);
        status = qkv_model_classify(m, scores, t->source.ids ? &t->source : &t->in, err);
        free(scores);
    }
    if (!status && t->info.can & QKV_CAN_TOKEN_LABELS) {
        float *scores = golden_floats(t->R * qkv_model_info(m).labels);
        status = qkv_model_classify_tokens(m, scores, &t->in, err);
        free(scores);
    }
    CHECK_EQ(err->status, status);
    qkv_model_close(m);
    return status;
}
// Returns true if the error names a key of config.json, or a tensor and both shapes.
static bool well_said(const qkv_error *err)
{
    if (!strstr(err->text, "expected ") || !strstr(err->text, ", found ")) return false;
    if (strstr(err->file, "config.json")) return strncmp(err->path, "$.", 2) == 0;
    return err->path[0] && strstr(err->text, "expected [") &&
           (strstr(err->text, "found [") || strstr(err->text, "found none"));
}

TEST(a_size_that_is_one_off_is_refused_with_both_shapes)
{
    static const struct {
        const char *key;
        // changes only the position table; only an increase is an error; number of heads, which a
        // shape may not show
        bool places, more, heads;
    } rows[] = { { "hidden_size", 0, 0, 0 },
                 { "d_model", 0, 0, 0 },
                 { "dim", 0, 0, 0 },
                 { "n_embd", 0, 0, 0 },
                 { "intermediate_size", 0, 0, 0 },
                 { "hidden_dim", 0, 0, 0 },
                 { "ffn_dim", 0, 0, 0 },
                 { "encoder_ffn_dim", 0, 0, 0 },
                 { "d_ff", 0, 0, 0 },
                 { "vocab_size", 0, 0, 0 },
                 { "num_attention_heads", 0, 0, 1 },
                 { "n_heads", 0, 0, 1 },
                 { "n_head", 0, 0, 1 },
                 { "num_heads", 0, 0, 1 },
                 { "encoder_attention_heads", 0, 0, 1 },
                 { "num_key_value_heads", 0, 0, 0 },
                 { "head_dim", 0, 0, 0 },
                 { "d_kv", 0, 0, 0 },
                 { "type_vocab_size", 0, 0, 0 },
                 { "relative_attention_num_buckets", 0, 0, 0 },
                 { "decoder_vocab_size", 0, 0, 0 },
                 { "decoder_ffn_dim", 0, 0, 0 },
                 { "embedding_size", 0, 0, 0 },
                 { "max_position_embeddings", 1, 0, 0 },
                 { "n_positions", 1, 0, 0 },
                 { "num_hidden_layers", 0, 1, 0 },
                 { "n_layers", 0, 1, 0 },
                 { "n_layer", 0, 1, 0 },
                 { "num_layers", 0, 1, 0 },
                 { "num_hidden_groups", 0, 1, 0 },
                 { "inner_group_num", 0, 1, 0 },
                 { "num_decoder_layers", 0, 1, 0 },
                 { "encoder_layers", 0, 1, 0 },
                 { "decoder_layers", 0, 1, 0 } };
    int tried = 0;
    EACH_CONFIG(name)
    {
        struct tiny t = open_tiny(*name, QKV_PRECISION_F32);
        const struct qkv_description *d = &t.model->is;
        EACH(r, rows)
        for (int by = r->more ? 1 : -1; by <= 1; by += 2) {
            json_t *config = config_of(*name);
            const json_t *value = json_object_get(config, r->key);
            const json_int_t n = json_is_integer(value) ? json_integer_value(value) : 2;
            const bool divides = r->heads && !d->d_k && n + by > 0 && d->size.width % (n + by) == 0;
            // an encoder or a decoder alone has no use for the keys of the other, and more layers
            // may share the weights
            const bool unused =
                (strcmp(r->key, "num_decoder_layers") == 0 && !t.info.kind) ||
                (strcmp(r->key, "num_hidden_layers") == 0 && d->shared.groups > 0) ||
                (strncmp(r->key, "encoder_", 8) == 0 && d->kind == QKV_NET_DECODER);
            if (!json_is_integer(value) || divides || unused ||
                (r->places && d->position != QKV_POSITION_LEARNED) || n + by < 1) {
                json_decref(config);
                continue;
            }
            qkv_error err;
            json_object_set_new(config, r->key, json_integer(n + by));
            folder_with(*name, config);
            if (!use(&t, &err)) fail_msg("%s opens with %s %+d", *name, r->key, by);
            if (!well_said(&err))
                fail_msg("%s with %s %+d: %s: %s: %s", *name, r->key, by, err.file, err.path,
                         err.text);
            tried++;
        }
        close_tiny(&t);
    }
    CHECK(tried > 100);
}

TEST(a_tensor_that_is_missing_is_named)
{
    EACH_CONFIG(name)
    {
        struct tiny t = open_tiny(*name, QKV_PRECISION_F32);
        size_t bytes;
        int64_t spared = 0;
        char *file = folder_load(tiny_path(*name, "model.safetensors"), &bytes);
        for (int64_t i = 0; i < t.info.tensors; i++) {
            const char *tensor = qkv_tensors_at(t.model->file, i)->name;
            char quoted[QKV_TENSOR_NAME];
            qkv_error err;
            snprintf(quoted, sizeof quoted, "\"%s\"", tensor);
            char *at = strstr(file + 8, quoted) + strlen(quoted) - 2, kept = *at;
            folder_with(*name, config_of(*name));
            unlink(folder_name("model.safetensors"));
            *at = '~';
            folder_write("model.safetensors", file, bytes);
            *at = kept;
            const struct qkv_end_names *ends = t.model->family->ends;
            const char *free_one = ends->logits_bias_fixed  ? ends->logits_bias
                                   : config_always_tied(&t) ? ends->logits
                                   : t.model->is.untied     ? ends->untied_bias
                                                            : NULL;
            // the family does not use the tensor, or replaces it by zeros, by the tied bias or by
            // the token embeddings
            if (!use(&t, &err))
                spared += !free_one || strcmp(tensor, free_one) != 0;
            else if (strcmp(err.path, tensor) != 0 || !strstr(err.text, "found none"))
                fail_msg("%s without %s: %s: %s", *name, tensor, err.path, err.text);
        }
        if (spared != t.info.unused_tensors)
            fail_msg("%s: %d tensors may be missing, %d are not used", *name, (int)spared,
                     (int)t.info.unused_tensors);
        free(file);
        close_tiny(&t);
    }
}

TEST(an_output_projection_of_its_own_must_be_there)
{
    EACH_CONFIG(name)
    {
        struct tiny t = open_tiny(*name, QKV_PRECISION_F32);
        const struct qkv_end_names *ends = t.model->family->ends;
        json_t *config = config_of(*name);
        const bool tied = !json_is_false(json_object_get(config, "tie_word_embeddings"));
        if (tiny_has(&t, "logits") && tied && !config_always_tied(&t)) {
            qkv_error err;
            json_object_set_new(config, "tie_word_embeddings", json_false());
            folder_with(*name, config);
            if (!use(&t, &err) || strcmp(err.path, ends->logits) != 0)
                fail_msg("%s without %s: %s: %s", *name, ends->logits, err.path, err.text);
        } else {
            json_decref(config);
        }
        close_tiny(&t);
    }
}

TEST(each_rule_of_a_family_is_kept)
{
    static const struct {
        const char *folder, *place, *value; // NULL: remove the key
        qkv_status status;
        const char *path, *says;
    } rows[] = {
        { "llama", "num_key_value_heads", "3", QKV_ERR_FORMAT, "$.num_key_value_heads",
          "number of key/value heads does not divide the number of heads, expected a divisor of 4, "
          "found 3" },
        { "llama3", "head_dim", "15", QKV_ERR_FORMAT, "$.head_dim",
          "rotary positions require pairs of dimensions, expected an even head width, found 15" },
        { "gpt2", "n_head", "5", QKV_ERR_FORMAT, "$.n_head",
          "number of heads does not divide the width, expected a divisor of 24, found 5" },
        { "bart", "encoder_attention_heads", "5", QKV_ERR_FORMAT, "$.encoder_attention_heads",
          "number of heads does not divide the width, expected a divisor of 24, found 5" },
        { "bart", "decoder_attention_heads", "4", QKV_ERR_UNSUPPORTED, "$.decoder_attention_heads",
          "decoder size differs from the encoder size, expected 3, found 4" },
        { "bart", "is_causal", "false", QKV_ERR_UNSUPPORTED, "$.is_causal",
          "this family has no decoders whose tokens attend to later ones, expected true, found "
          "false" },
        { "bart-decoder", "is_causal", "false", QKV_ERR_UNSUPPORTED, "$.is_causal",
          "this family has no decoders whose tokens attend to later ones, expected true, found "
          "false" },
        { "gru-attention", "is_causal", "false", QKV_ERR_UNSUPPORTED, "$.is_causal",
          "this family has no decoders whose tokens attend to later ones, expected true, found "
          "false" },
        { "llama", "is_causal", "0", QKV_ERR_FORMAT, "$.is_causal",
          "value of the wrong type, expected true or false, found an integer" },
        { "marian", "decoder_vocab_size", "70", QKV_ERR_UNSUPPORTED, "$.decoder_vocab_size",
          "decoder size differs from the encoder size, expected 71, found 70" },
        { "modernbert", "layer_types", "[\"full_attention\"]", QKV_ERR_FORMAT, "$.layer_types",
          "wrong number of layer types, expected 4, one per layer, found 1" },
        { "qwen2", "layer_types", "\"full_attention\"", QKV_ERR_FORMAT, "$.layer_types",
          "value of the wrong type, expected an array" },
        { "qwen2", "layer_types", "[\"full_attention\", 3, \"full_attention\"]", QKV_ERR_FORMAT,
          "$.layer_types[1]", "value of the wrong type, expected a text" },
        { "gemma2", "layer_types",
          "[\"full_attention\", \"full_attention\", \"chunked_attention\"]", QKV_ERR_UNSUPPORTED,
          "$.layer_types[2]",
          "unknown layer type, expected one of full_attention, sliding_attention, found "
          "\"chunked_attention\"" },
        { "gemma2", "sliding_window", "0", QKV_ERR_FORMAT, "$.sliding_window",
          "number out of range, expected 1 .. 16777216, found 0" },
        { "gemma2", "sliding_window", "null", QKV_ERR_FORMAT, "$.sliding_window",
          "required member is missing, expected the window of the local layers, found none" },
        { "qwen2", "use_sliding_window", "false", QKV_ERR_FORMAT, "$.sliding_window",
          "required member is missing, expected the window of the local layers, found none" },
        { "mistral", "sliding_window", "-1", QKV_ERR_FORMAT, "$.sliding_window",
          "number out of range, expected 1 .. 16777216, found -1" },
        { "gemma2", "attn_logit_softcapping", "0", QKV_ERR_FORMAT, "$.attn_logit_softcapping",
          "number out of range, expected 1e-06 .. 1e+09, found 0" },
        { "gemma2", "query_pre_attn_scalar", "-1", QKV_ERR_FORMAT, "$.query_pre_attn_scalar",
          "number out of range, expected 1e-06 .. 1e+09, found -1" },
        { "llama3", "rope_scaling", "[]", QKV_ERR_FORMAT, "$.rope_scaling",
          "value of the wrong type, expected an object" },
        { "llama3", "rope_scaling.rope_type", "\"dynamic\"", QKV_ERR_UNSUPPORTED,
          "$.rope_scaling.rope_type",
          "unsupported scaling of rotary positions, expected one of default, linear, llama3, yarn, "
          "longrope, found \"dynamic\"" },
        { "llama-linear", "rope_scaling.type", "\"longrope\"", QKV_ERR_FORMAT,
          "$.rope_scaling.short_factor",
          "wrong number of factors, expected a list of 4, one per rotated pair of a head, found "
          "0" },
        { "phi3-long", "rope_parameters.long_factor", "[1, 0, 2]", QKV_ERR_FORMAT,
          "$.rope_parameters.long_factor",
          "factor out of range, expected numbers of 1e-06 .. 1e+06" },
        { "gemma3_text", "rope_scaling", "{\"rope_type\": \"longrope\"}", QKV_ERR_FORMAT,
          "$.rope_scaling.short_factor",
          "wrong number of factors, expected a list of 6, one per rotated pair of a head, found "
          "0" },
        { "llama3", "rope_scaling.factor", NULL, QKV_ERR_FORMAT, "$.rope_scaling.factor",
          "required member is missing, expected a value, found none" },
        { "llama3", "rope_scaling.factor", "0", QKV_ERR_FORMAT, "$.rope_scaling.factor",
          "number out of range, expected 0.001 .. 1e+06, found 0" },
        { "llama-linear", "rope_scaling.factor", "-2.5", QKV_ERR_FORMAT, "$.rope_scaling.factor",
          "number out of range, expected 0.001 .. 1e+06, found -2.5" },
        { "llama-linear", "rope_scaling.factor", "\"2\"", QKV_ERR_FORMAT, "$.rope_scaling.factor",
          "value of the wrong type, expected a number, found a text" },
        { "llama3", "rope_scaling.high_freq_factor", "1", QKV_ERR_FORMAT,
          "$.rope_scaling.high_freq_factor",
          "number out of range, expected more than low_freq_factor" },
        { "llama3", "rope_scaling.low_freq_factor", NULL, QKV_ERR_FORMAT,
          "$.rope_scaling.low_freq_factor",
          "required member is missing, expected a value, found none" },
        { "llama3", "rope_scaling.original_max_position_embeddings", "0", QKV_ERR_FORMAT,
          "$.rope_scaling.original_max_position_embeddings",
          "number out of range, expected 1 .. 16777216, found 0" },
        { "llama-yarn", "rope_parameters.beta_fast", "0.5", QKV_ERR_FORMAT,
          "$.rope_parameters.beta_fast", "number out of range, expected at least beta_slow" },
        { "llama-yarn", "rope_parameters.rope_theta", "0", QKV_ERR_FORMAT,
          "$.rope_parameters.rope_theta", "number out of range, expected 0.001 .. 1e+12, found 0" },
        { "llama", "partial_rotary_factor", "1.5", QKV_ERR_FORMAT, "$.partial_rotary_factor",
          "number out of range, expected 1e-06 .. 1, found 1.5" },
        { "llama3", "partial_rotary_factor", "0.5", QKV_ERR_UNSUPPORTED, "$.partial_rotary_factor",
          "unsupported rotation of a part of each head by scaled positions, expected 1, found "
          "0.5" },
        { "llama-yarn", "rope_parameters.partial_rotary_factor", "0.5", QKV_ERR_UNSUPPORTED,
          "$.partial_rotary_factor",
          "unsupported rotation of a part of each head by scaled positions, expected 1, found "
          "0.5" },
        { "modernbert", "rope_parameters.full_attention.rope_type", "\"linear\"",
          QKV_ERR_UNSUPPORTED, "$.rope_parameters.full_attention.rope_type",
          "unsupported rotary positions for this family, expected \"default\", found \"linear\"" },
        { "modernbert", "rope_scaling", "{\"rope_type\":\"yarn\",\"factor\":4}",
          QKV_ERR_UNSUPPORTED, "$.rope_scaling.rope_type",
          "unsupported rotary positions for this family, expected \"default\", found \"yarn\"" },
        { "modernbert", "rope_scaling", "{\"rope_type\":\"dynamic\"}", QKV_ERR_UNSUPPORTED,
          "$.rope_scaling.rope_type",
          "unsupported scaling of rotary positions, expected one of default, linear, llama3, yarn, "
          "longrope, found \"dynamic\"" },
        { "gpt2", "scale_attn_by_inverse_layer_idx", "true", QKV_ERR_UNSUPPORTED,
          "$.scale_attn_by_inverse_layer_idx",
          "unsupported value of this member, expected false, found true" },
        { "bert", "hidden_act", "\"gelu_10\"", QKV_ERR_UNSUPPORTED, "$.hidden_act",
          "unknown value, expected one of gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, relu, "
          "silu, "
          "swish, tanh, linear, quick_gelu, relu2, relu6, mish, gelu_python, found \"gelu_10\"" },
        { "modernbert", "classifier_pooling", "\"max\"", QKV_ERR_UNSUPPORTED,
          "$.classifier_pooling", "unknown value, expected one of cls, mean, found \"max\"" },
        { "modernbert", "local_attention", "0", QKV_ERR_FORMAT, "$.local_attention",
          "number out of range, expected 1 .. 16777216, found 0" },
        { "gemma3_text", "rope_parameters.sliding_attention.rope_type", "\"linear\"",
          QKV_ERR_UNSUPPORTED, "$.rope_parameters.sliding_attention.rope_type",
          "unsupported rotary positions for this family, expected \"default\", found \"linear\"" },
        { "gemma", "use_bidirectional_attention", "true", QKV_ERR_UNSUPPORTED,
          "$.use_bidirectional_attention",
          "encoders of this family are not supported, expected false, found true" },
        { "eurobert", "mlp_bias", "true", QKV_ERR_UNSUPPORTED, "$.mlp_bias",
          "biases of this family's feed-forward networks and logits are not supported, expected "
          "false, found true" },
        { "eurobert", "classifier_pooling", "\"max\"", QKV_ERR_UNSUPPORTED, "$.classifier_pooling",
          "unknown value, expected one of late, bos, mean, found \"max\"" },
        { "nomic_bert-labels", "prenorm", "true", QKV_ERR_UNSUPPORTED, "$.prenorm",
          "unsupported value of this member, expected false, found true" },
        { "nomic_bert-labels", "rotary_emb_fraction", "0.5", QKV_ERR_UNSUPPORTED,
          "$.rotary_emb_fraction", "unsupported value of this member, expected 1, found 0.5" },
        { "smollm3", "no_rope_layers", "[1, 0]", QKV_ERR_FORMAT, "$.no_rope_layers",
          "list is too short, expected 3 numbers, one per layer, found 2" },
        { "smollm3", "no_rope_layers", "[1, 0, 2.5]", QKV_ERR_FORMAT, "$.no_rope_layers",
          "value of the wrong type, expected 0 or 1 for layer 2, found another value" },
        { "phi3", "rope_parameters.partial_rotary_factor", "0.4", QKV_ERR_FORMAT,
          "$.partial_rotary_factor",
          "rotary positions require pairs of dimensions, expected an even number of a head's 8 "
          "dimensions, found 3" },
        { "albert", "num_hidden_groups", "0", QKV_ERR_FORMAT, "$.num_hidden_groups",
          "number out of range, expected 1 .. 1024, found 0" },
        { "albert", "inner_group_num", "400", QKV_ERR_UNSUPPORTED, "$.inner_group_num",
          "too many layers, expected at most 1024 layers of all groups together, found 1200" },
        { "granite", "residual_multiplier", "0", QKV_ERR_FORMAT, "$.residual_multiplier",
          "number out of range, expected 1e-06 .. 1e+09, found 0" },
        { "mpnet", "pad_token_id", "0", QKV_ERR_UNSUPPORTED, "$.pad_token_id",
          "unsupported value of this member, expected 1 in this family, found 0" },
        { "t5", "relative_attention_max_distance", "4", QKV_ERR_FORMAT,
          "$.relative_attention_max_distance",
          "number out of range, expected more than half of the buckets" },
        { "bert-labels", "id2label.2", NULL, QKV_ERR_FORMAT, "$.id2label",
          "wrong number of label names, expected one for each of the 3 rows of classifier.weight, "
          "found "
          "2" },
        { "opt", "word_embed_proj_dim", "16", QKV_ERR_UNSUPPORTED, "$.word_embed_proj_dim",
          "token embeddings of another width than the model are not supported, expected 32, found "
          "16" },
        { "t5", "feed_forward_proj", "\"gated-tanh\"", QKV_ERR_UNSUPPORTED, "$.feed_forward_proj",
          "unknown value, expected one of relu, gelu, gelu_new, silu, gated-gelu, gated-silu, "
          "gated-gelu_new, gated-relu, found \"gated-tanh\"" },
    };
    EACH(r, rows)
    {
        qkv_model *m = NULL;
        qkv_error err = { 0 };
        json_t *config = config_of(r->folder);
        put(config, r->place, r->value);
        folder_with(r->folder, config);
        const qkv_status s = qkv_model_open(&m, folder_path, NULL, &err);
        if (s != r->status || strcmp(err.path, r->path) != 0 || strcmp(err.text, r->says) != 0)
            fail_msg("%s, %s = %s: %s at %s: %s", r->folder, r->place, r->value ? r->value : "none",
                     qkv_status_name(s), err.path, err.text);
        qkv_model_close(m);
    }
}

// Keys that are absent, empty, or in several places mean what they mean in the reference.
TEST(defaults_and_forms_of_keys_are_those_of_the_reference)
{
    static const struct {
        const char *folder, *edit[3][2]; // places and values; NULL value: remove the key
        double eps, theta, factor;       // factor 0: positions are not scaled
        enum qkv_label_pool pool;
    } rows[] = {
        { "llama", { { "rms_norm_eps", NULL } }, 1e-6, 10000, 0, QKV_LABEL_LAST },
        { "phi3", { { "rms_norm_eps", NULL } }, 1e-5, 10000, 0, QKV_LABEL_LAST },
        { "olmo2", { { "rms_norm_eps", NULL } }, 1e-5, 10000, 0, QKV_LABEL_LAST },
        { "eurobert", { { "rms_norm_eps", NULL } }, 1e-5, 10000, 0, QKV_LABEL_LATE },
        { "ministral3", { { "rms_norm_eps", NULL } }, 1e-5, 10000, 2, QKV_LABEL_LAST },
        { "llama-linear",
          { { "rope_scaling.rope_theta", "500.0" } },
          1e-5,
          500,
          2.5,
          QKV_LABEL_LAST },
        { "llama-linear",
          { { "rope_parameters", "{\"rope_type\": \"default\", \"rope_theta\": 300.0}" },
            { "rope_theta", "700.0" } },
          1e-5,
          700,
          2.5,
          QKV_LABEL_LAST },
        { "llama",
          { { "rope_parameters", "{\"type\": \"linear\", \"factor\": 3, \"rope_theta\": 300.0}" },
            { "rope_scaling", "{}" } },
          1e-5,
          300,
          3,
          QKV_LABEL_LAST },
        { "gemma3_text", { { "attn_logit_softcapping", "2.0" } }, 1e-5, 1e6, 4, QKV_LABEL_LAST },
        { "ministral3",
          { { "rope_parameters", NULL }, { "rope_theta", "33.0" } },
          1e-5,
          1e6,
          16,
          QKV_LABEL_LAST },
        // rope_scaling overwrites keys of full_attention, whose rope_type comes before `type`
        { "gemma3_text",
          { { "rope_scaling", "{\"rope_theta\": 555.0}" }, { "rope_theta", "777.0" } },
          1e-5,
          555,
          4,
          QKV_LABEL_LAST },
        { "gemma3_text",
          { { "rope_scaling", "{\"type\": \"default\", \"factor\": 8}" } },
          1e-5,
          1e6,
          8,
          QKV_LABEL_LAST },
        { "gemma3_text",
          { { "rope_parameters", NULL },
            { "rope_theta", "777.0" },
            { "rope_scaling", "{\"type\": \"linear\", \"factor\": 8}" } },
          1e-5,
          777,
          0,
          QKV_LABEL_LAST },
        { "modernbert",
          { { "rope_scaling", "{\"rope_theta\": 555.0}" } },
          1e-5,
          555,
          0,
          QKV_LABEL_FIRST },
        { "mistral",
          { { "attention_bias", "true" }, { "mlp_bias", "true" } },
          1e-5,
          0,
          -1,
          QKV_LABEL_LAST },
        { "ministral",
          { { "attention_bias", "true" }, { "mlp_bias", "true" } },
          1e-5,
          0,
          -1,
          QKV_LABEL_LAST },
        { "phi3",
          { { "attention_bias", "true" }, { "mlp_bias", "true" } },
          1e-5,
          0,
          -1,
          QKV_LABEL_LAST },
        { "olmo2", { { "mlp_bias", "true" } }, 1e-5, 0, -1, QKV_LABEL_LAST },
        { "qwen3", { { "mlp_bias", "true" } }, 0, 0, -1, QKV_LABEL_LAST },
        { "gemma3_text-encoder", { { "pad_token_id", "0" } }, 1e-5, 0, -1, QKV_LABEL_LAST },
    };
    EACH(r, rows)
    {
        qkv_model *m = NULL;
        qkv_error err = { 0 };
        json_t *config = config_of(r->folder);
        EACH(e, r->edit)
        if ((*e)[0]) put(config, (*e)[0], (*e)[1]);
        folder_with(r->folder, config);
        if (qkv_model_open(&m, folder_path, NULL, &err))
            fail_msg("%s, %s: %s", r->folder, r->edit[0][0], err.text);
        const struct qkv_description *d = &m->is;
        const double factor = d->rope.kind ? d->rope.factor : 0;
        if ((r->eps > 0 && d->size.eps != r->eps) || d->label_pool != r->pool || d->softcap != 0 ||
            (r->theta > 0 && d->theta != r->theta) || (r->factor >= 0 && factor != r->factor))
            fail_msg("%s, %s: eps %g, theta %g, factor %g, cap %g, pool %d", r->folder,
                     r->edit[0][0], d->size.eps, d->theta, factor, d->softcap, (int)d->label_pool);
        qkv_model_close(m);
    }
}

// Values that are not JSON, and numbers that are infinite after parsing.
TEST(no_factor_is_a_number_that_is_none)
{
    static const char *const values[] = { "NaN", "Infinity", "1e999" };
    EACH(v, values)
    {
        char text[512];
        qkv_model *m = NULL;
        qkv_error err = { 0 };
        folder_with("llama-linear", config_of("llama-linear"));
        snprintf(text, sizeof text,
                 "{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"linear\", \"factor\": "
                 "%s}}",
                 *v);
        folder_text("config.json", text);
        CHECK_EQ(qkv_model_open(&m, folder_path, NULL, &err), QKV_ERR_FORMAT);
        CHECK(err.path[0] != 0 && err.text[0] != 0);
    }
}

// "architectures" tells whether the tensor `classifier` belongs to labels of texts, to labels of
// tokens, or to a head that is not supported.
#define TEN "Abcdefghij"
TEST(the_class_in_config_json_tells_the_head)
{
    static const struct {
        const char *classes;
        unsigned can;
        qkv_status train;
        const char *says;  // of qkv_model_classify and of training; NULL: the call succeeds
        const char *needs; // of qkv_model_missing_head; NULL: the head of the class runs
    } rows[] = {
        { NULL, QKV_CAN_LABELS, QKV_OK, NULL, NULL },
        { "[]", QKV_CAN_LABELS, QKV_OK, NULL, NULL },
        { "[\"\"]", QKV_CAN_LABELS, QKV_OK, NULL, NULL },
        { "[\"BertForSequenceClassification\"]", QKV_CAN_LABELS, QKV_OK, NULL, NULL },
        { "[\"" TEN TEN TEN TEN TEN TEN "ForSequenceClassification\"]", QKV_CAN_LABELS, QKV_OK,
          NULL, NULL },
        { "[\"BertForTokenClassification\"]", QKV_CAN_TOKEN_LABELS, QKV_ERR_UNSUPPORTED,
          "found BertForTokenClassification", NULL },
        { "[\"BertForMultipleChoice\"]", 0, QKV_ERR_UNSUPPORTED, "found BertForMultipleChoice",
          "one score for each text of a choice" },
        { "[\"BertForQuestionAnswering\"]", 0, QKV_ERR_UNSUPPORTED,
          "found BertForQuestionAnswering",
          "two scores for each token, of the begin and of the end of an answer" },
        // the name is cut between two characters
        { "[\"" TEN TEN TEN TEN TEN "123456789\xc3\xa4"
          "ForMultipleChoice\"]",
          0, QKV_ERR_UNSUPPORTED, "found " TEN TEN TEN TEN TEN "123456789...",
          "one score for each text of a choice" },
    };
    struct tiny t = open_tiny("bert-labels", QKV_PRECISION_F32);
    EACH(r, rows)
    {
        qkv_model *m = NULL;
        qkv_net *n = NULL;
        qkv_error err = { 0 };
        float scores[3 * 3];
        json_t *config = config_of("bert-labels");
        put(config, "architectures", r->classes);
        folder_with("bert-labels", config);
        if (qkv_model_open(&m, folder_path, NULL, &err)) fail_msg("%s: %s", r->classes, err.text);
        CHECK_EQ(qkv_model_info(m).can, QKV_CAN_RUN | r->can);
        CHECK_EQ(qkv_model_classify(m, scores, &t.in, &err),
                 r->can & QKV_CAN_LABELS ? QKV_OK : QKV_ERR_UNSUPPORTED);
        if (r->says && !strstr(err.text, r->says)) fail_msg("%s: %s", r->classes, err.text);
        const char *needs, *name = qkv_model_missing_head(m, &needs);
        CHECK((name != NULL) == (r->needs != NULL) && (needs != NULL) == (r->needs != NULL));
        CHECK(!needs || strcmp(needs, r->needs) == 0);
        CHECK(!name || strcmp(name, r->says + strlen("found ")) == 0);
        err = (qkv_error){ 0 };
        CHECK_EQ(qkv_net_open(&n, folder_path, NULL, 0, 1, &err), r->train);
        if (r->says && !strstr(err.text, r->says)) fail_msg("%s: %s", r->classes, err.text);
        qkv_net_free(n);
        qkv_model_close(m);
    }
    close_tiny(&t);
}

CHECK_MAIN(CASE(a_size_that_is_one_off_is_refused_with_both_shapes),
           CASE(a_tensor_that_is_missing_is_named),
           CASE(an_output_projection_of_its_own_must_be_there), CASE(each_rule_of_a_family_is_kept),
           CASE(defaults_and_forms_of_keys_are_those_of_the_reference),
           CASE(no_factor_is_a_number_that_is_none), CASE(the_class_in_config_json_tells_the_head))
