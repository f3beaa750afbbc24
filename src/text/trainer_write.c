// SPDX-License-Identifier: MIT
// trainer_write.c: a tokenizer.json as Hugging Face tokenizers 0.23 writes and reads it.
#include "text/trainer.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void put(struct qkv_text_buffer *b, const char *text, size_t bytes)
{
    void *p = b->bytes;
    if (b->failed) return;
    b->failed = !qkv_reserve(&p, &b->capacity, b->count + (int64_t)bytes + 1, 1);
    b->bytes = p;
    if (b->failed) return;
    memcpy(b->bytes + b->count, text, bytes);
    b->count += (int64_t)bytes;
    b->bytes[b->count] = 0;
}

static void say(struct qkv_text_buffer *b, const char *text)
{
    put(b, text, strlen(text));
}

static void number(struct qkv_text_buffer *b, int64_t n)
{
    char text[32];
    put(b, text, (size_t)snprintf(text, sizeof text, "%" PRId64, n));
}

// Few digits, so that every reader makes the same number of them; a point whatever the locale
// writes.
static void real(struct qkv_text_buffer *b, double x)
{
    char text[400];
    const int n = snprintf(text, sizeof text, "%.8f", x);
    for (int i = 0; i < n; i++)
        if ((text[i] < '0' || text[i] > '9') && text[i] != '-') text[i] = '.';
    put(b, text, (size_t)n);
}

static void quoted(struct qkv_text_buffer *b, const char *text, size_t bytes)
{
    say(b, "\"");
    for (size_t i = 0; i < bytes; i++) {
        const uint8_t c = (uint8_t)text[i];
        char escape[8] = { '\\', (char)c, 0 };
        if (c < 0x20 || c == 0x7F) snprintf(escape, sizeof escape, "\\u%04X", c);
        if (c < 0x20 || c == 0x7F || c == '"' || c == '\\')
            say(b, escape);
        else
            put(b, text + i, 1);
    }
    say(b, "\"");
}

static void token(struct qkv_text_buffer *b, const struct qkv_training *t, int64_t i)
{
    quoted(b, t->vocab.pool + t->vocab.tokens[i].text, t->vocab.tokens[i].bytes);
}

static void special(struct qkv_text_buffer *b, const struct qkv_training *t, int64_t i)
{
    quoted(b, t->special[i], strlen(t->special[i]));
}

// Its id: where it stands in the vocabulary, or will.
static int64_t special_id(const struct qkv_training *t, int64_t i)
{
    const int32_t id = qkv_trie_find(&t->vocab.trie, t->special[i], strlen(t->special[i]));
    return id >= 0 ? id : i;
}

static void added_tokens(struct qkv_text_buffer *b, const struct qkv_training *t)
{
    say(b, "[");
    for (int64_t i = 0; i < t->specials; i++) {
        say(b, i ? ",\n{\"id\":" : "\n{\"id\":");
        number(b, special_id(t, i));
        say(b, ",\"content\":");
        special(b, t, i);
        say(b, ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,"
               "\"special\":true}");
    }
    say(b, "]");
}

// ---- [begin] A [end], [begin] A [end] B [end] --------------------------------------------------
static void piece(struct qkv_text_buffer *b, const struct qkv_training *t, int32_t i, int type,
                  bool *first)
{
    if (i < 0) return;
    say(b, *first ? "{\"SpecialToken\":{\"id\":" : ",{\"SpecialToken\":{\"id\":");
    special(b, t, i);
    say(b, type ? ",\"type_id\":1}}" : ",\"type_id\":0}}");
    *first = false;
}

static void sequence(struct qkv_text_buffer *b, const char *json, bool *first)
{
    if (!*first) say(b, ",");
    say(b, json);
    *first = false;
}

static void post_processor(struct qkv_text_buffer *b, const struct qkv_training *t)
{
    static const char a[] = "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}",
                      pair[] = "{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}";
    bool first = true;
    if (t->begin < 0 && t->end < 0) {
        say(b, "null");
        return;
    }
    say(b, "{\"type\":\"TemplateProcessing\",\"single\":[");
    piece(b, t, t->begin, 0, &first);
    sequence(b, a, &first);
    piece(b, t, t->end, 0, &first);
    say(b, "],\"pair\":[");
    first = true;
    piece(b, t, t->begin, 0, &first);
    sequence(b, a, &first);
    piece(b, t, t->end, 0, &first);
    sequence(b, pair, &first);
    piece(b, t, t->end, 1, &first);
    say(b, "],\"special_tokens\":{");
    const int32_t both[2] = { t->begin, t->end == t->begin ? -1 : t->end };
    first = true;
    for (int k = 0; k < 2; k++) {
        if (both[k] < 0) continue;
        if (!first) say(b, ",");
        first = false;
        special(b, t, both[k]);
        say(b, ":{\"id\":");
        special(b, t, both[k]);
        say(b, ",\"ids\":[");
        number(b, special_id(t, both[k]));
        say(b, "],\"tokens\":[");
        special(b, t, both[k]);
        say(b, "]}");
    }
    say(b, "}}");
}

// ---- models ------------------------------------------------------------------------------------
static void vocab(struct qkv_text_buffer *b, const struct qkv_training *t)
{
    say(b, "\"vocab\":{");
    for (int64_t i = 0; i < t->vocab.count; i++) {
        say(b, i ? ",\n" : "\n");
        token(b, t, i);
        say(b, ":");
        number(b, i);
    }
    say(b, "}");
}

static void bpe(struct qkv_text_buffer *b, const struct qkv_training *t)
{
    say(b, "{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":");
    if (t->unknown < 0)
        say(b, "null");
    else
        special(b, t, t->unknown);
    say(b, ",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,"
           "\"byte_fallback\":false,\"ignore_merges\":false,");
    vocab(b, t);
    say(b, ",\"merges\":[");
    for (int64_t i = 0; i < t->merge_count; i++) {
        say(b, i ? ",\n[" : "\n[");
        token(b, t, t->merges[i].left);
        say(b, ",");
        token(b, t, t->merges[i].right);
        say(b, "]");
    }
    say(b, "]}");
}

static void wordpiece(struct qkv_text_buffer *b, const struct qkv_training *t)
{
    say(b, "{\"type\":\"WordPiece\",\"unk_token\":");
    special(b, t, t->unknown);
    say(b, ",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,");
    vocab(b, t);
    say(b, "}");
}

static void unigram(struct qkv_text_buffer *b, const struct qkv_training *t)
{
    say(b, "{\"type\":\"Unigram\",\"unk_id\":");
    number(b, special_id(t, t->unknown));
    say(b, ",\"vocab\":[");
    for (int64_t i = 0; i < t->vocab.count; i++) {
        say(b, i ? ",\n[" : "\n[");
        token(b, t, i);
        say(b, ",");
        real(b, t->scores[i]);
        say(b, "]");
    }
    say(b, "],\"byte_fallback\":false}");
}

// Before training the model is any one that loads, its token beside all others (the highest id);
// the byte-level one has its 256 tokens already.
static void model(struct qkv_text_buffer *b, const struct qkv_training *t, bool learned)
{
    if (!learned && strcmp(t->trainer->model, "BPE") != 0) {
        say(b, "{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":16777215}}");
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
    say(b, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n\"added_tokens\":");
    if (learned || t->vocab.count)
        added_tokens(b, t);
    else
        say(b, "[]");
    say(b, ",\n\"normalizer\":");
    say(b, t->how->lowercase ? k->lowercase : k->normalizer);
    say(b, ",\n\"pre_tokenizer\":");
    say(b, k->pre_tokenizer);
    say(b, ",\n\"post_processor\":");
    if (learned)
        post_processor(b, t);
    else
        say(b, "null");
    say(b, ",\n\"decoder\":");
    say(b, k->decoder);
    say(b, ",\n\"model\":");
    model(b, t, learned);
    say(b, "}\n");
}
