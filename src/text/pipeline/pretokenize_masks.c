// SPDX-License-Identifier: MIT
// pretokenize_masks.c: reads pre-tokenizers that decide by the classes of two neighboring
// characters.
//
// Each of these pre-tokenizers decides whether a word ends between two neighbors, or drops a
// character.  A sequence of them splits wherever one of them splits, so any sequence is compiled
// into the masks of one struct qkv_word_masks, and the text is split once.  Pre-tokenizers that
// need more context are steps (pretokenize_steps.c); masks that follow such a step become a step
// too.
#include "text/text_internal.h"
#include <stdio.h>
#include <string.h>

static bool add_masks(qkv_tokenizer *t, const struct qkv_json_at *at, struct qkv_word_masks add)
{
    struct qkv_word_masks *s = qkv_pre_tokenizer_masks(t, at);
    if (!s) return false;
    s->drop |= add.drop;
    s->alone |= add.alone;
    s->change |= add.change;
    s->after |= add.after;
    s->before |= add.before;
    return true;
}

bool qkv_pre_tokenizer_bert(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return add_masks(t, at,
                     (struct qkv_word_masks){ .drop = QKV_CLASS_SPACE, .alone = QKV_CLASS_PUNCT });
}

// Adds masks that split a text into the matches of \w+|[^\w\s]+
bool qkv_pre_tokenizer_whitespace(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return add_masks(t, at,
                     (struct qkv_word_masks){ .drop = QKV_CLASS_SPACE, .change = QKV_CLASS_WORD });
}

bool qkv_pre_tokenizer_whitespace_split(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return add_masks(t, at, (struct qkv_word_masks){ .drop = QKV_CLASS_SPACE });
}

bool qkv_pre_tokenizer_digits(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    bool single = false;
    if (!qkv_json_bool(at, "individual_digits", false, &single)) return false;
    return add_masks(t, at,
                     single ? (struct qkv_word_masks){ .alone = QKV_CLASS_NUMBER }
                            : (struct qkv_word_masks){ .change = QKV_CLASS_NUMBER });
}

bool qkv_behavior_read(const struct qkv_json_at *at, enum qkv_behavior *out)
{
    static const char *const names[] = { [QKV_REMOVED] = "Removed",
                                         [QKV_ISOLATED] = "Isolated",
                                         [QKV_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
                                         [QKV_MERGED_WITH_NEXT] = "MergedWithNext",
                                         [QKV_CONTIGUOUS] = "Contiguous" };
    const char *how = "Isolated";
    if (!qkv_json_text(at, "behavior", false, &how)) return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(how, names[i]) == 0) {
            *out = (enum qkv_behavior)i;
            return true;
        }
    return qkv_text_fail(at, "behavior", QKV_ERR_FORMAT,
                         "unknown behavior of a split, expected Removed, Isolated, "
                         "MergedWithPrevious, MergedWithNext or Contiguous, found \"%s\"",
                         how);
}

bool qkv_pre_tokenizer_punctuation(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    enum qkv_behavior how = QKV_ISOLATED;
    const unsigned punct = QKV_CLASS_PUNCT;
    if (!qkv_behavior_read(at, &how)) return false;
    return add_masks(t, at,
                     (struct qkv_word_masks){ .drop = how == QKV_REMOVED ? punct : 0,
                                              .alone = how == QKV_ISOLATED ? punct : 0,
                                              .after = how == QKV_MERGED_WITH_PREVIOUS ? punct : 0,
                                              .before = how == QKV_MERGED_WITH_NEXT ? punct : 0,
                                              .change = how == QKV_CONTIGUOUS ? punct : 0 });
}

bool qkv_pre_tokenizer_sequence(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return qkv_component_list(t, at, "pretokenizers", qkv_pre_tokenizer_read);
}

void qkv_word_masks_finish(struct qkv_word_masks *s)
{
    s->used = s->drop | s->alone | s->change | s->after | s->before;
    for (uint32_t c = 0; c < 128; c++) s->ascii[c] = (uint8_t)qkv_unicode_class(c, s->used);
}
