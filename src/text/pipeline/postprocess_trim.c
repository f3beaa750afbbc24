// SPDX-License-Identifier: MIT
// postprocess_trim.c: reads the post-processors of byte-level tokenizers, which exclude leading and
// trailing white space from the offsets of tokens and add the special tokens of RoBERTa.
#define _GNU_SOURCE // memmem
#include "text/text_internal.h"
#include <string.h>

// Returns true for white space and for the character that ByteLevel writes for a space.
static bool is_blank(uint32_t code)
{
    return code == qkv_byte_char[' '] || qkv_unicode_class(code, QKV_CLASS_SPACE);
}

static int64_t blanks_at_start(const uint8_t *text, int64_t n)
{
    int64_t count = 0;
    for (int64_t at = 0; at < n; count++) {
        uint32_t code;
        const int used = qkv_utf8_read(text + at, (size_t)(n - at), &code);
        if (!is_blank(code)) break;
        at += used < 0 ? -used : used;
    }
    return count;
}

// Returns the start of the character that ends at `end` > 0.  Invalid UTF-8 is divided into
// characters in the same way as when the text was read.
static int64_t char_before(const uint8_t *text, int64_t end)
{
    for (int n = 4; n > 1; n--) {
        uint32_t code;
        if (end < n) continue;
        const int used = qkv_utf8_read(text + end - n, (size_t)n, &code);
        if ((used < 0 ? -used : used) == n) return end - n;
    }
    return end - 1;
}

static int64_t blanks_at_end(const uint8_t *text, int64_t n)
{
    int64_t count = 0;
    for (int64_t end = n; end > 0; count++) {
        uint32_t code;
        const int64_t at = char_before(text, end);
        qkv_utf8_read(text + at, (size_t)(end - at), &code);
        if (!is_blank(code)) break;
        end = at;
    }
    return count;
}

// Returns true if the blanks of text[n], which the token represents, count instead of the blanks of
// its name: for an added token that was matched, and for unknown characters of Unigram.
static bool is_matched(const qkv_tokenizer *t, const struct qkv_token *token, const uint8_t *text,
                       int64_t n)
{
    if (!(token->flags & QKV_TOKEN_ADDED)) return false;
    if (token->id != t->unknown || t->kind == &qkv_model_unigram) return true;
    return n && memmem(text, (size_t)n, t->vocab.pool + token->text, token->bytes);
}

void qkv_trim_offsets(const qkv_tokenizer *t, qkv_encoding *e, int64_t from, int64_t count,
                      const uint8_t *text, int64_t bytes)
{
    for (int64_t i = from; i < from + count; i++) {
        const struct qkv_token *token = qkv_vocab_token(&t->vocab, e->ids[i]);
        const bool added = is_matched(t, token, text + e->begin[i], e->end[i] - e->begin[i]);
        const uint8_t *name =
            added ? text + e->begin[i] : (const uint8_t *)t->vocab.pool + token->text;
        const int64_t n = added ? e->end[i] - e->begin[i] : (int64_t)token->bytes;
        int64_t left = blanks_at_start(name, n), right = blanks_at_end(name, n);
        // A single leading space of the first token may be the space that ByteLevel inserted; it is
        // not trimmed.
        if (left == 1 && t->post.trims_prefixed && (i == from || e->begin[i] == 0)) left = 0;
        for (; left > 0 && e->begin[i] < e->end[i]; left--) {
            uint32_t code;
            const int used =
                qkv_utf8_read(text + e->begin[i], (size_t)(bytes - e->begin[i]), &code);
            e->begin[i] = qkv_min64(e->begin[i] + (used < 0 ? -used : used), e->end[i]);
        }
        int64_t end = e->end[i];
        for (; right > 0 && end > 0; right--) end = char_before(text, end);
        if (!right) e->end[i] = qkv_max64(end, e->begin[i]);
    }
}

// ---- reading -----------------------------------------------------------------------------------
bool qkv_post_processor_byte_level(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    bool prefix = true, trims = true, regex;
    if (!qkv_json_bool(at, "add_prefix_space", true, &prefix)) return false;
    if (!qkv_json_bool(at, "trim_offsets", true, &trims)) return false;
    if (!qkv_json_bool(at, "use_regex", false, &regex)) return false;
    if (!trims) return true;
    if (t->post.trims && t->post.trims_prefixed != prefix)
        return qkv_text_fail(at, "add_prefix_space", QKV_ERR_UNSUPPORTED,
                             "two post-processors trim offsets with different add_prefix_space, "
                             "expected the same value in both");
    t->post.trims = true;
    t->post.trims_prefixed = prefix;
    return true;
}

// Reads RobertaProcessing, which has the members of ByteLevel and of BertProcessing; all token
// types are 0, and two separator tokens are between the texts.
bool qkv_post_processor_roberta(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return qkv_post_processor_byte_level(t, at) && qkv_post_roberta(t, at);
}

bool qkv_post_processor_sequence(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return qkv_component_list(t, at, "processors", qkv_post_processor_read);
}
