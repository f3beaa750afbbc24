// SPDX-License-Identifier: MIT
// rows_training.c: the rows of cost.def for the training of tokenizers.
#include <qkv/text.h>
#include "cost/cost.h"
#include "file/fixtures.h"

static void train(const char *kind, int64_t vocab, struct cost_text *text)
{
    const struct qkv_tokenizer_training how = { .kind = kind, .vocab = vocab };
    const char *const texts[1] = { text->at };
    qkv_error err = { 0 };
    cost_begin();
    const qkv_status status =
        qkv_tokenizer_train(fixture("cost.json"), texts, &text->bytes, 1, &how, true, &err);
    cost_end();
    if (status) fail_msg("%s", err.text);
    free(text->at);
}

static void train_words(const char *kind, int64_t n)
{
    struct cost_text text = { 0 };
    check_seed = 7;
    while ((int64_t)text.bytes < n) {
        for (int i = 0; i < 6; i++)
            cost_add(&text, "etaoinshrdlu" + (int)((check_random() + 1) * 6), 1);
        cost_add(&text, " ", 1);
    }
    train(kind, 400, &text);
}

static void train_word(const char *kind, const char *unit, int64_t n)
{
    struct cost_text text = { 0 };
    cost_repeat(&text, unit, n / (int64_t)strlen(unit));
    train(kind, 300, &text);
}

void cost_train_bpe_word(int64_t n)
{
    train_word("bpe", "a", n);
}
void cost_train_wordpiece_word(int64_t n)
{
    train_word("wordpiece", "ab", n);
}
void cost_train_unigram_word(int64_t n)
{
    train_word("unigram", "ab", n);
}
void cost_train_bpe_words(int64_t n)
{
    train_words("bpe", n);
}
void cost_train_wordpiece_words(int64_t n)
{
    train_words("wordpiece", n);
}
void cost_train_unigram_words(int64_t n)
{
    train_words("unigram", n);
}
void cost_train_bpe_mixed(int64_t n)
{
    struct cost_text text = { 0 };
    check_seed = 5;
    for (int64_t i = 0; i < n; i++) cost_add(&text, check_random() < 0 ? "a" : "b", 1);
    train("bpe", 300, &text);
}
