// SPDX-License-Identifier: MIT
// trainer_write.c: writes a tokenizer.json as Hugging Face tokenizers 0.23 does.
#include "text/training/trainer.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void token(struct qkv_text_buffer *b, const struct qkv_training *t, int64_t i)
{
    qkv_text_append_json(b, t->vocab.pool + t->vocab.tokens[i].text, t->vocab.tokens[i].bytes,
                         QKV_JSON_PLAIN);
}

static void special(struct qkv_text_buffer *b, const struct qkv_training *t, int64_t i)
{
    qkv_text_append_json(b, t->special[i], strlen(t->special[i]), QKV_JSON_PLAIN);
}

// Returns the id of special token i: its index in the vocabulary now or after training.
static int64_t special_id(const struct qkv_training *t, int64_t i)
{
    const int32_t id = qkv_trie_find(&t->vocab.trie, t->special[i], strlen(t->special[i]));
    return id >= 0 ? id : i;
}

static void added_tokens(struct qkv_text_buffer *b, const struct qkv_training *t)
{
    qkv_text_append_string(b, "[");
    for (int64_t i = 0; i < t->specials; i++) {
        qkv_text_append_string(b, i ? ",\n{\"id\":" : "\n{\"id\":");
        qkv_text_append_integer(b, special_id(t, i));
        qkv_text_append_string(b, ",\"content\":");
        special(b, t, i);
        qkv_text_append_string(
            b, ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,"
               "\"special\":true}");
    }
    qkv_text_append_string(b, "]");
}

// ---- [begin] A [end], [begin] A [end] B [end] --------------------------------------------------
static void piece(struct qkv_text_buffer *b, const struct qkv_training *t, int32_t i, int type,
                  bool *first)
{
    if (i < 0) return;
    qkv_text_append_string(b,
                           *first ? "{\"SpecialToken\":{\"id\":" : ",{\"SpecialToken\":{\"id\":");
    special(b, t, i);
    qkv_text_append_string(b, type ? ",\"type_id\":1}}" : ",\"type_id\":0}}");
    *first = false;
}

static void sequence(struct qkv_text_buffer *b, const char *json, bool *first)
{
    if (!*first) qkv_text_append_string(b, ",");
    qkv_text_append_string(b, json);
    *first = false;
}

static void post_processor(struct qkv_text_buffer *b, const struct qkv_training *t)
{
    static const char a[] = "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}",
                      pair[] = "{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}";
    bool first = true;
    if (t->begin < 0 && t->end < 0) {
        qkv_text_append_string(b, "null");
        return;
    }
    qkv_text_append_string(b, "{\"type\":\"TemplateProcessing\",\"single\":[");
    piece(b, t, t->begin, 0, &first);
    sequence(b, a, &first);
    piece(b, t, t->end, 0, &first);
    qkv_text_append_string(b, "],\"pair\":[");
    first = true;
    piece(b, t, t->begin, 0, &first);
    sequence(b, a, &first);
    piece(b, t, t->end, 0, &first);
    sequence(b, pair, &first);
    piece(b, t, t->end, 1, &first);
    qkv_text_append_string(b, "],\"special_tokens\":{");
    const int32_t both[2] = { t->begin, t->end == t->begin ? -1 : t->end };
    first = true;
    for (int k = 0; k < 2; k++) {
        if (both[k] < 0) continue;
        if (!first) qkv_text_append_string(b, ",");
        first = false;
        special(b, t, both[k]);
        qkv_text_append_string(b, ":{\"id\":");
        special(b, t, both[k]);
        qkv_text_append_string(b, ",\"ids\":[");
        qkv_text_append_integer(b, special_id(t, both[k]));
        qkv_text_append_string(b, "],\"tokens\":[");
        special(b, t, both[k]);
        qkv_text_append_string(b, "]}");
    }
    qkv_text_append_string(b, "}}");
}

// ---- models ------------------------------------------------------------------------------------
static void vocab(struct qkv_text_buffer *b, const struct qkv_training *t)
{
    qkv_text_append_string(b, "\"vocab\":{");
    for (int64_t i = 0; i < t->vocab.count; i++) {
        qkv_text_append_string(b, i ? ",\n" : "\n");
        token(b, t, i);
        qkv_text_append_string(b, ":");
        qkv_text_append_integer(b, i);
    }
    qkv_text_append_string(b, "}");
}

static void bpe(struct qkv_text_buffer *b, const struct qkv_training *t)
{
    qkv_text_append_string(b, "{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":");
    if (t->unknown < 0)
        qkv_text_append_string(b, "null");
    else
        special(b, t, t->unknown);
    qkv_text_append_string(
        b, ",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,"
           "\"byte_fallback\":false,\"ignore_merges\":false,");
    vocab(b, t);
    qkv_text_append_string(b, ",\"merges\":[");
    for (int64_t i = 0; i < t->merge_count; i++) {
        qkv_text_append_string(b, i ? ",\n[" : "\n[");
        token(b, t, t->merges[i].left);
        qkv_text_append_string(b, ",");
        token(b, t, t->merges[i].right);
        qkv_text_append_string(b, "]");
    }
    qkv_text_append_string(b, "]}");
}

static void wordpiece(struct qkv_text_buffer *b, const struct qkv_training *t)
{
    qkv_text_append_string(b, "{\"type\":\"WordPiece\",\"unk_token\":");
    special(b, t, t->unknown);
    qkv_text_append_string(
        b, ",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,");
    vocab(b, t);
    qkv_text_append_string(b, "}");
}

static void unigram(struct qkv_text_buffer *b, const struct qkv_training *t)
{
    qkv_text_append_string(b, "{\"type\":\"Unigram\",\"unk_id\":");
    qkv_text_append_integer(b, special_id(t, t->unknown));
    qkv_text_append_string(b, ",\"vocab\":[");
    for (int64_t i = 0; i < t->vocab.count; i++) {
        qkv_text_append_string(b, i ? ",\n[" : "\n[");
        token(b, t, i);
        qkv_text_append_string(b, ",");
        qkv_text_append_real(b, t->scores[i]);
        qkv_text_append_string(b, "]");
    }
    qkv_text_append_string(b, "],\"byte_fallback\":false}");
}

// Writes the model. If `learned` is false (before training), it is a valid model with a single
// token, whose id is larger than the ids of the special tokens; the byte-level model already has
// its 256 tokens.
static void model(struct qkv_text_buffer *b, const struct qkv_training *t, bool learned)
{
    if (!learned && strcmp(t->trainer->model, "BPE") != 0) {
        qkv_text_append_string(
            b, "{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":16777215}}");
        return;
    }
    if (strcmp(t->trainer->model, "WordPiece") == 0)
        wordpiece(b, t);
    else if (strcmp(t->trainer->model, "Unigram") == 0)
        unigram(b, t);
    else
        bpe(b, t);
}

void qkv_training_json(const struct qkv_training *t, struct qkv_text_buffer *b, bool learned)
{
    const struct qkv_trainer *k = t->trainer;
    qkv_text_append_string(
        b, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n\"added_tokens\":");
    if (learned || t->vocab.count)
        added_tokens(b, t);
    else
        qkv_text_append_string(b, "[]");
    qkv_text_append_string(b, ",\n\"normalizer\":");
    qkv_text_append_string(b, t->settings->lowercase ? k->lowercase : k->normalizer);
    qkv_text_append_string(b, ",\n\"pre_tokenizer\":");
    qkv_text_append_string(b, k->pre_tokenizer);
    qkv_text_append_string(b, ",\n\"post_processor\":");
    if (learned)
        post_processor(b, t);
    else
        qkv_text_append_string(b, "null");
    qkv_text_append_string(b, ",\n\"decoder\":");
    qkv_text_append_string(b, k->decoder);
    qkv_text_append_string(b, ",\n\"model\":");
    model(b, t, learned);
    qkv_text_append_string(b, "}\n");
}
