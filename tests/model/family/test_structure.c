// SPDX-License-Identifier: MIT
// test_structure.c: the structure that config.json describes, for a family of each shape; every
// folder of the reference; refusals.
#include "model/folder.h"
#include "model/model_internal.h"
#include "model/tiny.h"
#include <qkv/model.h>

static struct qkv_structure of(const char *name)
{
    struct qkv_structure s;
    qkv_error err = { 0 };
    char dir[1024];
    snprintf(dir, sizeof dir, "%s", tiny_path(name, ""));
    if (qkv_structure_read(&s, dir, &err)) fail_msg("%s: %s", name, err.text);
    return s;
}

TEST(norms_and_positions_are_the_familys)
{
    static const struct {
        const char *folder, *position, *norm;
        bool before, inside, after, gated;
        enum qkv_model_kind kind;
    } rows[] = {
        { "bert", "learned", "layer norm", false, false, true, false, QKV_KIND_ENCODER },
        { "gpt2", "learned", "layer norm", true, false, false, false, QKV_KIND_DECODER },
        { "llama", "rotary", "RMS norm", true, false, false, true, QKV_KIND_DECODER },
        { "gemma2", "rotary", "RMS norm", true, true, false, true, QKV_KIND_DECODER },
        { "olmo2", "rotary", "RMS norm", false, true, false, true, QKV_KIND_DECODER },
        { "flan-t5", "relative", "RMS norm", true, false, false, true, QKV_KIND_ENCODER_DECODER },
        { "marian", "sinusoidal", "layer norm", false, false, true, false,
          QKV_KIND_ENCODER_DECODER },
        { "encoder-both", "learned", "layer norm", true, false, true, false, QKV_KIND_ENCODER },
    };
    EACH(r, rows)
    {
        const struct qkv_structure s = of(r->folder);
        CHECK_TEXT(s.position, r->position);
        CHECK_TEXT(s.norm, r->norm);
        CHECK_EQ(s.norm_before, r->before);
        CHECK_EQ(s.norm_inside, r->inside);
        CHECK_EQ(s.norm_after, r->after);
        CHECK_EQ(s.gated, r->gated);
        CHECK_EQ(s.kind, r->kind);
    }
    CHECK(of("gemma2").softcap > 0 && of("gemma2").windows && of("gemma2").logit_softcap > 0);
    CHECK(!(of("llama").logit_softcap > 0));
    CHECK(of("olmo2").norm_heads && of("olmo2").norm_whole);
    CHECK(of("qwen3").norm_heads && !of("qwen3").norm_whole);
    CHECK(of("modernbert").first_norm_missing && !of("bert").first_norm_missing);
    CHECK(of("encoder-bare").feed_forward_once && of("encoder-bare").feed_forward_bare);
    CHECK(of("albert").embed_width != of("albert").width);
}

TEST(sizes_are_those_of_the_opened_model)
{
    EACH_TINY(name)
    {
        qkv_error err = { 0 };
        qkv_model *m = NULL;
        if (!strncmp(*name, "gru", 3)) continue;
        if (qkv_model_open(&m, tiny_path(*name, ""), NULL, &err))
            fail_msg("%s: %s", *name, err.text);
        const struct qkv_model_info i = qkv_model_info(m);
        const struct qkv_structure s = of(*name);
        CHECK(s.kind == i.kind && s.layers == i.layers && s.decoder_layers == i.decoder_layers);
        CHECK(s.heads == i.heads && s.kv_heads == i.kv_heads && s.width == i.width);
        CHECK(s.key_width == i.head_width && s.value_width == i.value_width);
        CHECK(s.inner == i.inner && s.vocab == (s.decoder_layers ? i.source_vocab : i.vocab));
        CHECK_EQ(s.decoder_vocab, s.decoder_layers ? i.vocab : 0);
        CHECK(!s.labels || s.labels == i.labels);
        qkv_model_close(m);
    }
}

TEST(two_tables_of_embeddings_have_sizes_of_their_own)
{
    const struct qkv_structure s = of("marian-two-tables");
    CHECK(s.decoder_vocab > 0 && s.decoder_vocab != s.vocab);
    CHECK_EQ(of("marian").decoder_vocab, of("marian").vocab);
}

TEST(word_vectors_have_no_structure)
{
    struct qkv_structure s;
    qkv_error err = { 0 };
    const char *dir = folder_new();
    folder_text("config.json",
                "{\"model_type\":\"qkv-words\",\"vocab_size\":100,\"hidden_size\":5}");
    CHECK_EQ(qkv_structure_read(&s, dir, &err), QKV_ERR_UNSUPPORTED);
    CHECK(strstr(err.text, "the model is qkv-words") && !s.width);
}

TEST(a_recurrent_model_has_no_structure)
{
    struct qkv_structure s;
    qkv_error err = { 0 };
    char dir[1024];
    snprintf(dir, sizeof dir, "%s", tiny_path("gru-attention", ""));
    CHECK_EQ(qkv_structure_read(&s, dir, &err), QKV_ERR_UNSUPPORTED);
    CHECK(strstr(err.text, "Transformer") && !s.layers);
    CHECK_EQ(qkv_structure_read(NULL, dir, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_structure_read(&s, "nowhere", NULL), QKV_ERR_IO);
}

CHECK_MAIN(CASE(norms_and_positions_are_the_familys), CASE(sizes_are_those_of_the_opened_model),
           CASE(two_tables_of_embeddings_have_sizes_of_their_own),
           CASE(word_vectors_have_no_structure), CASE(a_recurrent_model_has_no_structure))
