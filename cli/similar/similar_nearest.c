// SPDX-License-Identifier: MIT
// similar_nearest.c: finds the words of the vocabulary that are nearest to the vectors of a word.
#include "similar/similar_nearest.h"
#include "frame/arrays.h"
#include <qkv/task.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    WORD = 256, // bytes of the longest word
    BATCH = 128 // words that run together
};

// A batch of words, each a sequence of its own.
struct batch {
    int64_t count;
    char word[BATCH][WORD];
    int64_t offsets[BATCH + 1], at[BATCH]; // at: index of the token of the word
    int32_t *ids, *types;
};

// Writes the text of token id, as it is after a space, to out. Returns false if it is no word
// of two or more letters. Every character that is not ASCII counts as a letter.
static bool word_of_token(char out[WORD], const qkv_tokenizer *tokenizer, int32_t id)
{
    char text[WORD + 1];
    size_t need = 0, letters = 0;
    qkv_error err = { 0 };
    if (!qkv_tokenizer_token(tokenizer, id) || qkv_tokenizer_special(tokenizer, id)) return false;
    if (qkv_tokenizer_token_bytes(tokenizer, text, sizeof text, &need, id, &err)) return false;
    if (need < 2 || need > WORD || text[0] != ' ') return false;
    for (size_t i = 1; i < need; i++) {
        const unsigned char c = (unsigned char)text[i];
        const bool ascii = (c | 32) >= 'a' && (c | 32) <= 'z';
        if (!ascii && c < 0x80) return false;
        letters += !qkv_utf8_continues(c);
    }
    memcpy(out, text + 1, need);
    return letters >= 2;
}

// Adds the word to the batch if its text has one token besides special tokens.
static qkv_status add_word(struct batch *b, const char *word, const qkv_tokenizer *tokenizer,
                           qkv_encoding *e, qkv_error *err)
{
    const qkv_status status =
        qkv_tokenizer_encode(tokenizer, e, word, strlen(word), NULL, 0, NULL, err);
    if (status) return status;
    int64_t own = 0, at = 0;
    for (int64_t i = 0; i < e->count; i++)
        if (e->text[i] == 0) {
            own++;
            at = i;
        }
    if (own != 1) return QKV_OK;
    const int64_t first = b->offsets[b->count], next = first + e->count;
    b->ids = cmd_grow(b->ids, (size_t)next, sizeof *b->ids);
    b->types = cmd_grow(b->types, (size_t)next, sizeof *b->types);
    memcpy(b->ids + first, e->ids, (size_t)e->count * sizeof *e->ids);
    memcpy(b->types + first, e->types, (size_t)e->count * sizeof *e->types);
    snprintf(b->word[b->count], WORD, "%s", word);
    b->at[b->count++] = first + at;
    b->offsets[b->count] = next;
    return QKV_OK;
}

// Inserts a word into list[*count], which holds at most `most` words, the nearest first.
static void insert_word(struct near_word *list, int64_t *count, int64_t most, const char *text,
                        float cosine)
{
    int64_t at = *count;
    while (at && list[at - 1].cosine < cosine) at--;
    if (at == most) return;
    if (*count == most)
        free(list[most - 1].text);
    else
        ++*count;
    memmove(list + at + 1, list + at, (size_t)(*count - 1 - at) * sizeof *list);
    const size_t bytes = strlen(text) + 1;
    list[at] = (struct near_word){ cmd_alloc(bytes, 1), cosine };
    memcpy(list[at].text, text, bytes);
}

// Runs the words of the batch and compares them with every row. kept: words that each row has.
static qkv_status run_batch(struct near_words *out, struct batch *b, const qkv_model *m,
                            const float *v, int64_t most, int64_t *kept, qkv_error *err)
{
    const int64_t width = qkv_model_info(m).width, n = b->offsets[b->count];
    const struct qkv_model_input in = {
        .sequences = b->count, .offsets = b->offsets, .ids = b->ids, .types = b->types
    };
    float *hidden = cmd_alloc((size_t)(n * width), sizeof *hidden);
    qkv_status status = qkv_model_run(m, hidden, &in, NULL, err);
    if (!status) status = cmd_check_finite(hidden, n * width, "hidden state of a word", err);
    for (int64_t i = 0; !status && i < b->count; i++) {
        int64_t count = *kept;
        for (int64_t r = 0; r < out->rows; r++) {
            count = *kept; // each row has as many words
            insert_word(out->word + r * most, &count, most, b->word[i],
                        qkv_cosine(v + r * width, hidden + b->at[i] * width, width));
        }
        *kept = *kept < most ? *kept + 1 : most;
    }
    if (!status) out->tried += b->count;
    b->count = 0;
    free(hidden);
    return status;
}

qkv_status near_words_find(struct near_words *out, const qkv_model *m,
                           const qkv_tokenizer *tokenizer, const float *v, int64_t rows,
                           int64_t most, const char *except, qkv_error *err)
{
    struct batch *b = cmd_alloc(1, sizeof *b);
    qkv_encoding e = { 0 };
    char word[WORD];
    int64_t kept = 0;
    const int64_t ids = qkv_tokenizer_size(tokenizer);
    const struct qkv_progress progress = cmd_progress_begin("tokens of the vocabulary");
    qkv_status status = QKV_OK;
    *out = (struct near_words){ .rows = rows };
    out->word = cmd_alloc(array_count(2, (int64_t[]){ rows, most }), sizeof *out->word);
    memset(out->word, 0, (size_t)(rows * most) * sizeof *out->word);
    b->count = 0;
    b->offsets[0] = 0;
    b->ids = b->types = NULL;
    for (int64_t id = 0; !status && id < ids; id++) {
        if (word_of_token(word, tokenizer, (int32_t)id) && strcasecmp(word, except))
            status = add_word(b, word, tokenizer, &e, err);
        if (!status && b->count && (b->count == BATCH || id == ids - 1)) {
            status = run_batch(out, b, m, v, most, &kept, err);
            if (!status && progress.step(progress.user, "words", id + 1, ids))
                status = cmd_error(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
        }
    }
    cmd_progress_end();
    out->count = kept;
    if (kept < most) // rows are adjacent
        for (int64_t r = 1; r < rows; r++)
            memmove(out->word + r * kept, out->word + r * most, (size_t)kept * sizeof *out->word);
    qkv_encoding_free(&e);
    free(b->ids);
    free(b->types);
    free(b);
    return status;
}

void near_words_free(struct near_words *w)
{
    for (int64_t i = 0; w->word && i < w->rows * w->count; i++) free(w->word[i].text);
    free(w->word);
    *w = (struct near_words){ 0 };
}
