// SPDX-License-Identifier: MIT
// test_family_ties.c: checks that an output projection is tied to the token embeddings where the
// reference ties it, whatever config.json says.
#include "model/family/config_edit.h"

// Checks the logits of a folder whose config.json is changed: `factor` times the golden logits.
static void check_logits(const char *name, struct tiny *t, json_t *config, double factor)
{
    const int64_t V = t->info.vocab, D = t->info.width;
    const float *want = golden_get(t->golden, NULL, "logits", QKV_F32, t->R * V);
    float *hidden = golden_floats(t->R * D), *logits = golden_floats(t->R * V);
    qkv_model *m = NULL;
    qkv_error err = { 0 };
    const double most = tiny_tolerance(t, false);
    folder_with(name, config);
    if (qkv_model_open(&m, folder_path, NULL, &err) ||
        qkv_model_run(m, hidden, tiny_input(t), NULL, &err) ||
        qkv_model_logits(m, logits, hidden, t->R, &err))
        fail_msg("%s: %s", name, err.text);
    for (int64_t i = 0; i < t->R * V; i++)
        if (!(fabs((double)logits[i] - factor * (double)want[i]) <= factor * most))
            fail_msg("%s: logit %lld is %g, expected %g", name, (long long)i, (double)logits[i],
                     factor * (double)want[i]);
    qkv_model_close(m);
    free(hidden);
    free(logits);
}

// The reference ties two tensors that are both in the file only if they have the same numbers.
TEST(an_output_projection_of_its_own_counts_if_config_json_says_that_it_is_tied)
{
    int found = 0;
    EACH_CONFIG(name)
    {
        struct tiny t = open_tiny(*name, QKV_PRECISION_F32);
        json_t *config = config_of(*name);
        if (tiny_has(&t, "logits") &&
            json_is_false(json_object_get(config, "tie_word_embeddings")) &&
            !config_always_tied(&t)) {
            put(config, "tie_word_embeddings", "true");
            check_logits(*name, &t, config, 1);
            found++;
        } else {
            json_decref(config);
        }
        close_tiny(&t);
    }
    CHECK(found >= 6);
}

// tie_word_embeddings of T5 sets the scale of logits, unless scale_decoder_outputs is there.
TEST(t5_without_an_output_projection_is_tied)
{
    static const struct {
        const char *folder, *tie, *scale;
        bool unscaled; // the logits are sqrt(D) times the golden ones
    } rows[] = {
        { "t5", "true", NULL, false },
        { "t5", "false", NULL, true },
        { "t5", "false", "true", false },
        { "t5", "true", "false", true },
        { "t5-unscaled", "true", "false", false },
        { "t5-unscaled", "false", NULL, false },
        { "mt5", "false", NULL, false },
        { "mt5", "true", "true", false },
    };
    EACH(r, rows)
    {
        struct tiny t = open_tiny(r->folder, QKV_PRECISION_F32);
        json_t *config = config_of(r->folder);
        put(config, "tie_word_embeddings", r->tie);
        put(config, "scale_decoder_outputs", r->scale);
        check_logits(r->folder, &t, config, r->unscaled ? sqrt((double)t.info.width) : 1);
        close_tiny(&t);
    }
}

CHECK_MAIN(CASE(an_output_projection_of_its_own_counts_if_config_json_says_that_it_is_tied),
           CASE(t5_without_an_output_projection_is_tied))
