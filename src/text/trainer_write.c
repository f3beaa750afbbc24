// SPDX-License-Identifier: MIT
// trainer_write.c: a tokenizer.json as Hugging Face tokenizers 0.23 writes and reads it.
#include "text/trainer.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void token(struct qkv_text_buffer *b, const struct qkv_training *t, int64_t i)
{
    qkv_text_quoted(b, t->vocab.pool + t->vocab.tokens[i].text, t->vocab.tokens[i].bytes);
}

static void special(struct qkv_text_buffer *b, const struct qkv_training *t, int64_t i)
{
    qkv_text_quoted(b, t->special[i], strlen(t->special[i]));
}

// Its id: where it stands in the vocabulary, or will.
static int64_t special_id(const struct qkv_training *t, int64_t i)
{
    const int32_t id = qkv_trie_find(&t->vocab.trie, t->special[i], strlen(t->special[i]));
    return id >= 0 ? id : i;
}

static void added_tokens(struct qkv_text_buffer *b, const struct qkv_training *t)
{
    qkv_text_say(b, "[");
    for (int64_t i = 0; i < t->specials; i++) {
        qkv_text_say(b, i ? ",\n{\"id\":" : "\n{\"id\":");
        qkv_text_number(b, special_id(t, i));
        qkv_text_say(b, ",\"content\":");
        special(b, t, i);
        qkv_text_say(
            b, ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,"
               "\"special\":true}");
    }
    qkv_text_say(b, "]");
}

// ---- [begin] A [end], [begin] A [end] B [end] --------------------------------------------------
static void piece(struct qkv_text_buffer *b, const struct qkv_training *t, int32_t i, int type,
                  bool *first)
{
    if (i < 0) return;
    qkv_text_say(b, *first ? "{\"SpecialToken\":{\"id\":" : ",{\"SpecialToken\":{\"id\":");
    special(b, t, i);
    qkv_text_say(b, type ? ",\"type_id\":1}}" : ",\"type_id\":0}}");
    *first = false;
}

static void sequence(struct qkv_text_buffer *b, const char *json, bool *first)
{
    if (!*first) qkv_text_say(b, ",");
    qkv_text_say(b, json);
    *first = false;
}

static void post_processor(struct qkv_text_buffer *b, const struct qkv_training *t)
{
    static const char a[] = "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}",
                      pair[] = "{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}";
    bool first = true;
    if (t->begin < 0 && t->end < 0) {
        qkv_text_say(b, "null");
        return;
    }
    qkv_text_say(b, "{\"type\":\"TemplateProcessing\",\"single\":[");
    piece(b, t, t->begin, 0, &first);
    sequence(b, a, &first);
    piece(b, t, t->end, 0, &first);
    qkv_text_say(b, "],\"pair\":[");
    first = true;
    piece(b, t, t->begin, 0, &first);
    sequence(b, a, &first);
    piece(b, t, t->end, 0, &first);
    sequence(b, pair, &first);
    piece(b, t, t->end, 1, &first);
    qkv_text_say(b, "],\"special_tokens\":{");
    const int32_t both[2] = { t->begin, t->end == t->begin ? -1 : t->end };
    first = true;
    for (int k = 0; k < 2; k++) {
        if (both[k] < 0) continue;
        if (!first) qkv_text_say(b, ",");
        first = false;
        special(b, t, both[k]);
        qkv_text_say(b, ":{\"id\":");
        special(b, t, both[k]);
        qkv_text_say(b, ",\"ids\":[");
        qkv_text_number(b, special_id(t, both[k]));
        qkv_text_say(b, "],\"tokens\":[");
        special(b, t, both[k]);
        qkv_text_say(b, "]}");
    }
    qkv_text_say(b, "}}");
}

// ---- models ------------------------------------------------------------------------------------
static void vocab(struct qkv_text_buffer *b, const struct qkv_training *t)
{
    qkv_text_say(b, "\"vocab\":{");
    for (int64_t i = 0; i < t->vocab.count; i++) {
        qkv_text_say(b, i ? ",\n" : "\n");
        token(b, t, i);
        qkv_text_say(b, ":");
        qkv_text_number(b, i);
    }
    qkv_text_say(b, "}");
}

static void bpe(struct qkv_text_buffer *b, const struct qkv_training *t)
{
    qkv_text_say(b, "{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":");
    if (t->unknown < 0)
        qkv_text_say(b, "null");
    else
        special(b, t, t->unknown);
    qkv_text_say(
        b, ",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,"
           "\"byte_fallback\":false,\"ignore_merges\":false,");
    vocab(b, t);
    qkv_text_say(b, ",\"merges\":[");
    for (int64_t i = 0; i < t->merge_count; i++) {
        qkv_text_say(b, i ? ",\n[" : "\n[");
        token(b, t, t->merges[i].left);
        qkv_text_say(b, ",");
        token(b, t, t->merges[i].right);
        qkv_text_say(b, "]");
    }
    qkv_text_say(b, "]}");
}

static void wordpiece(struct qkv_text_buffer *b, const struct qkv_training *t)
{
    qkv_text_say(b, "{\"type\":\"WordPiece\",\"unk_token\":");
    special(b, t, t->unknown);
    qkv_text_say(b, ",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,");
    vocab(b, t);
    qkv_text_say(b, "}");
}

static void unigram(struct qkv_text_buffer *b, const struct qkv_training *t)
{
    qkv_text_say(b, "{\"type\":\"Unigram\",\"unk_id\":");
    qkv_text_number(b, special_id(t, t->unknown));
    qkv_text_say(b, ",\"vocab\":[");
    for (int64_t i = 0; i < t->vocab.count; i++) {
        qkv_text_say(b, i ? ",\n[" : "\n[");
        token(b, t, i);
        qkv_text_say(b, ",");
        qkv_text_real(b, t->scores[i]);
        qkv_text_say(b, "]");
    }
    qkv_text_say(b, "],\"byte_fallback\":false}");
}

// Before training the model is any one that loads, its token beside all others (the highest id);
// the byte-level one has its 256 tokens already.
static void model(struct qkv_text_buffer *b, const struct qkv_training *t, bool learned)
{
    if (!learned && strcmp(t->trainer->model, "BPE") != 0) {
        qkv_text_say(b, "{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":16777215}}");
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
    qkv_text_say(b,
                 "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n\"added_tokens\":");
    if (learned || t->vocab.count)
        added_tokens(b, t);
    else
        qkv_text_say(b, "[]");
    qkv_text_say(b, ",\n\"normalizer\":");
    qkv_text_say(b, t->how->lowercase ? k->lowercase : k->normalizer);
    qkv_text_say(b, ",\n\"pre_tokenizer\":");
    qkv_text_say(b, k->pre_tokenizer);
    qkv_text_say(b, ",\n\"post_processor\":");
    if (learned)
        post_processor(b, t);
    else
        qkv_text_say(b, "null");
    qkv_text_say(b, ",\n\"decoder\":");
    qkv_text_say(b, k->decoder);
    qkv_text_say(b, ",\n\"model\":");
    model(b, t, learned);
    qkv_text_say(b, "}\n");
}
