// SPDX-License-Identifier: MIT
// tiny_text.h: makes a small valid tokenizer.json with a component of every kind, and variants of
// it.
#ifndef QKV_TINY_TEXT_H
#define QKV_TINY_TEXT_H
#include "check.h"
#include <stdlib.h>
#include "text/text_internal.h"

#define TINY_VOCAB                                                                                 \
    "{\"[PAD]\":0,\"[UNK]\":1,\"[CLS]\":2,\"[SEP]\":3,\"he\":4,\"##llo\":5,\"a\":6,\"##b\":7,"     \
    "\"\\u00e9\":8}"
#define TINY_ADDED                                                                                 \
    "[{\"id\":2,\"content\":\"[CLS]\",\"special\":true},{\"id\":9,\"content\":\"New Tok\","        \
    "\"single_word\":true,\"lstrip\":true,\"rstrip\":true,\"normalized\":true,\"special\":false}]"
#define TINY_NORMALIZER                                                                            \
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"BertNormalizer\","     \
    "\"clean_text\""                                                                               \
    ":true,\"handle_chinese_chars\":true,\"strip_accents\":null,\"lowercase\":true},{\"type\":"    \
    "\"Replace\","                                                                                 \
    "\"pattern\":{\"String\":\"zz\"},\"content\":\"a\"},{\"type\":\"Strip\",\"strip_left\":true,"  \
    "\"strip_right\""                                                                              \
    ":false}]}"
#define TINY_SPLIT                                                                                 \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"BertPreTokenizer\"},{\"type\":"         \
    "\"Digits\","                                                                                  \
    "\"individual_digits\":true},{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}]}"
#define TINY_POST                                                                                  \
    "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"c\",\"type_id\":0}}" \
    ",{\"Sequence\":"                                                                              \
    "{\"id\":\"A\",\"type_id\":0}}],\"pair\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{"       \
    "\"Sequence\":{\"id\":"                                                                        \
    "\"B\",\"type_id\":1}}],\"special_tokens\":{\"c\":{\"id\":\"c\",\"ids\":[2,3],\"tokens\":[\"[" \
    "CLS]\",\"[SEP]\"]}}}"
#define TINY_DECODER                                                                               \
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":"  \
    "true},{\"type\":"                                                                             \
    "\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0},{\"type\":\"Fuse\"}]}"
#define TINY_TRUNCATION                                                                            \
    "{\"direction\":\"Right\",\"max_length\":8,\"strategy\":\"LongestFirst\",\"stride\":2}"
#define TINY_PADDING                                                                               \
    "{\"strategy\":{\"Fixed\":4},\"direction\":\"Left\",\"pad_to_multiple_of\":4,\"pad_id\":0,"    \
    "\"pad_type_id\":0}"
#define TINY_MODEL                                                                                 \
    "{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","        \
    "\"max_input_chars_per_word\":20,\"vocab\":" TINY_VOCAB "}"
#define TINY                                                                                       \
    "{\"version\":\"1.0\",\n\"truncation\":" TINY_TRUNCATION ",\n\"padding\":" TINY_PADDING        \
    ",\n\"added_tokens\":" TINY_ADDED ",\n\"normalizer\":" TINY_NORMALIZER                         \
    ",\n\"pre_tokenizer\":" TINY_SPLIT ",\n\"post_processor\":" TINY_POST                          \
    ",\n\"decoder\":" TINY_DECODER ",\n\"model\":" TINY_MODEL "}\n"

// TINY with the first `from` replaced by `to`; the caller frees it.  from must be there.
static inline char *tiny_with(const char *from, const char *to)
{
    const char *at = strstr(TINY, from);
    if (!at) fail_msg("no such text: %s", from);
    const size_t before = (size_t)(at - TINY), size = strlen(TINY) - strlen(from) + strlen(to) + 1;
    char *out = malloc(size);
    memcpy(out, TINY, before);
    snprintf(out + before, size - before, "%s%s", to, at + strlen(from));
    return out;
}

static inline qkv_tokenizer *tiny_open(const char *json)
{
    qkv_tokenizer *t = NULL;
    qkv_error err = { 0 };
    if (qkv_tokenizer_parse(&t, json, strlen(json), "tiny", &err))
        fail_msg("%s: %s", err.path, err.text);
    return t;
}
#endif
