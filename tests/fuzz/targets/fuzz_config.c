// SPDX-License-Identifier: MIT
// fuzz_config.c: reads any bytes as a config.json with the keys of each family.
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct qkv_config_keys families[] = {
        { .width = "hidden_size",
          .inner = "intermediate_size",
          .layers = "num_hidden_layers",
          .heads = "num_attention_heads",
          .kv_heads = "num_key_value_heads",
          .vocab = "vocab_size",
          .positions = "max_position_embeddings",
          .types = "type_vocab_size",
          .eps = "layer_norm_eps",
          .pad = "pad_token_id",
          .dropout = { "hidden_dropout_prob", "attention_probs_dropout_prob" } },
        { .width = "dim",
          .inner = "hidden_dim",
          .layers = "n_layers",
          .heads = "n_heads",
          .vocab = "vocab_size",
          .positions = "max_position_embeddings",
          .dropout = { "dropout" } },
    };
    static const char *const acts[] = { "gelu", "relu", NULL };
    const char *dir = fuzz_file("config.json", data, size);
    for (size_t i = 0; i < 2; i++) {
        struct qkv_config c = { 0 };
        struct qkv_config_sizes s = { .types = 0, .pad = -1, .eps = 1e-12 };
        qkv_error err = { 0 };
        int act = 0;
        const qkv_status status = qkv_config_open(&c, dir, &err);
        if (status) {
            fuzz_refusal(status, &err);
            qkv_config_close(&c);
            continue;
        }
        const bool ok = qkv_config_model_type(&c, "bert, distilbert") &&
                        qkv_config_sizes(&c, &families[i], &s) &&
                        qkv_config_choice(&c, i ? "activation" : "hidden_act", true, &act, acts);
        if (ok) {
            FUZZ_CHECK(s.width >= 1 && s.heads >= 1 && s.width % s.heads == 0 && s.layers >= 0);
            FUZZ_CHECK(s.kv_heads >= 1 && s.heads % s.kv_heads == 0 && s.vocab >= 1 && s.eps > 0);
            FUZZ_CHECK(act == 0 || act == 1);
        } else {
            fuzz_refusal(err.status, &err);
        }
        qkv_config_close(&c);
    }
    return 0;
}
