// SPDX-License-Identifier: MIT
// postprocess.h: declares templates with special tokens, truncation and padding.
#ifndef QKV_TEXT_POSTPROCESS_H
#define QKV_TEXT_POSTPROCESS_H

#include "text/text.h"

// The arguments for appending the tokens of one text to an encoding.
struct qkv_sink {
    qkv_encoding *e;
    int32_t type;
    uint8_t which; // 0, 1: text of the pair
};
bool qkv_encoding_reserve(qkv_encoding *e, int64_t tokens); // false: out of memory
static inline bool qkv_sink_add(struct qkv_sink *s, int32_t id, int64_t begin, int64_t end)
{
    qkv_encoding *e = s->e;
    if (e->count == e->capacity && !qkv_encoding_reserve(e, e->count + 1)) return false;
    const int64_t i = e->count++;
    e->ids[i] = id;
    e->types[i] = s->type;
    e->begin[i] = begin;
    e->end[i] = end;
    e->text[i] = s->which;
    e->attend[i] = 1;
    return true;
}

// ---- postprocess_template.c: special tokens, truncation, padding -------------------------------
struct qkv_template_item {
    int32_t sequence; // 0 A, 1 B, -1: special tokens
    int32_t type;
    int64_t ids, count; // special tokens: range of qkv_post.ids
};
struct qkv_template {
    struct qkv_template_item *items;
    int64_t count, capacity;
};
struct qkv_post {
    struct qkv_template one, two; // for a text and for a pair
    int32_t *ids;
    int64_t ids_count, ids_capacity;
    bool trims, trims_prefixed; // ByteLevel, Roberta: offsets exclude white space
};
struct qkv_limits {
    bool truncates, pads;
    int64_t max_length, stride;
    enum qkv_cut cut;
    bool cut_left, pad_left;
    int64_t pad_length; // 0: longest of the batch
    int64_t pad_multiple;
    int32_t pad_id, pad_type; // pad_id -1: no padding token
};
bool qkv_limits_read(qkv_tokenizer *t, const struct qkv_json_at *root);
bool qkv_post_default(qkv_tokenizer *t); // no post-processor: the texts without special tokens
bool qkv_post_roberta(qkv_tokenizer *t, const struct qkv_json_at *at);
bool qkv_post_processor_read(qkv_tokenizer *t, const struct qkv_json_at *at);
void qkv_post_free(struct qkv_post *p);
// The texts of a template in the order in which the template names them, and the number of special
// tokens around them.
struct qkv_template_layout {
    int texts;           // 1 or 2
    uint8_t which[2];    // 0 A, 1 B
    int32_t type[2];     // token type
    int64_t specials[3]; // special tokens before the first text, between the texts, after the last
    int64_t count[2];    // tokens of each text; they follow the special tokens before it
    const uint8_t *text[2];
    int64_t bytes[2];
};
void qkv_template_layout_init(struct qkv_template_layout *l, const struct qkv_template *p,
                              bool no_special);
// Truncates the texts in e, which are placed as l says, with space for the special tokens; writes
// the special tokens, and pads.
qkv_status qkv_template_apply(const qkv_tokenizer *t, qkv_encoding *e, const struct qkv_template *p,
                              const struct qkv_template_layout *l,
                              const struct qkv_encode_options *o, qkv_error *err);

// ---- postprocess_trim.c ------------------------------------------------------------------------
// Trims the offsets of the tokens from .. from+count-1 of text[bytes], so that they exclude the
// white space at the start and end of each token.
void qkv_trim_offsets(const qkv_tokenizer *t, qkv_encoding *e, int64_t from, int64_t count,
                      const uint8_t *text, int64_t bytes);
#endif
