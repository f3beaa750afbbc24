// SPDX-License-Identifier: MIT
// split.c: pre-tokenizers.  Each of them decides from the classes of two neighbours whether a word
// ends between them, or drops a character; a sequence of them is the union of their decisions, so
// any mix compiles to the masks of struct qkv_split and nothing is split twice.
#include "text/text.h"
#include <stdio.h>
#include <string.h>

bool qkv_pre_tokenizer_bert(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    (void)at;
    t->split.drop |= QKV_CLASS_SPACE;
    t->split.alone |= QKV_CLASS_PUNCT;
    return true;
}

// \w+|[^\w\s]+
bool qkv_pre_tokenizer_whitespace(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    (void)at;
    t->split.drop |= QKV_CLASS_SPACE;
    t->split.change |= QKV_CLASS_WORD;
    return true;
}

bool qkv_pre_tokenizer_whitespace_split(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    (void)at;
    t->split.drop |= QKV_CLASS_SPACE;
    return true;
}

bool qkv_pre_tokenizer_digits(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    bool single = false;
    if (!qkv_json_bool(at, "individual_digits", false, &single)) return false;
    *(single ? &t->split.alone : &t->split.change) |= QKV_CLASS_NUMBER;
    return true;
}

bool qkv_pre_tokenizer_punctuation(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    const struct {
        const char *name;
        unsigned *mask;
    } rows[] = { { "Removed", &t->split.drop },
                 { "Isolated", &t->split.alone },
                 { "MergedWithPrevious", &t->split.after },
                 { "MergedWithNext", &t->split.before },
                 { "Contiguous", &t->split.change } };
    const char *how = "Isolated";
    if (!qkv_json_text(at, "behavior", false, &how)) return false;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(how, rows[i].name) == 0) {
            *rows[i].mask |= QKV_CLASS_PUNCT;
            return true;
        }
    return qkv_text_fail(at, "behavior", QKV_ERR_FORMAT,
                         "unknown behavior, expected Removed, Isolated, MergedWithPrevious, "
                         "MergedWithNext or Contiguous, found \"%s\"",
                         how);
}

bool qkv_pre_tokenizer_sequence(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return qkv_component_list(t, at, "pretokenizers", qkv_pre_tokenizer_read);
}

void qkv_split_finish(struct qkv_split *s)
{
    s->used = s->drop | s->alone | s->change | s->after | s->before;
    for (uint32_t c = 0; c < 128; c++) s->ascii[c] = (uint8_t)qkv_unicode_class(c, s->used);
}
