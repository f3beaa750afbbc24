// SPDX-License-Identifier: MIT
// trainer_unigram.c: learns a unigram model (Kudo 2018, as in SentencePiece): starts from many
// repeated strings of the texts (seeds); repeatedly computes their probabilities by expectation
// maximization and drops the least useful quarter, until slightly more than the size of the
// vocabulary remain; the best of these form the vocabulary.
#include "text/training/trainer_unigram.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    SEEDS = 12,          // seeds per token of the vocabulary
    SEEDS_LEAST = 20000, // minimum number of seeds
    SEEDS_MOST = 600000  // maximum number of seeds
};
// The score of special tokens is so low that a text that spells a special token is split into other
// pieces.
#define SPECIAL_SCORE -1000.0

// ---- characters and segments -------------------------------------------------------------------
// The characters of the texts that are pieces: those that occur at least `least` times.
struct alphabet {
    struct qkv_character_counts counts;
    int64_t least, size;
};

static bool is_piece(const struct alphabet *a, uint32_t code)
{
    return qkv_characters_count(&a->counts, code) >= a->least;
}

// Counts characters and selects the `most` most frequent.  Returns false if memory is exhausted.
static bool count_characters(struct alphabet *a, const struct qkv_word_counts *c, int64_t most)
{
    for (int64_t w = 0; w < c->count; w++) {
        const uint8_t *word = c->pool + c->words[w].at;
        for (int32_t at = 0; at < c->words[w].bytes;) {
            uint32_t code;
            const int n = qkv_utf8_read(word + at, (size_t)(c->words[w].bytes - at), &code);
            // a file cannot contain NUL
            if (code && !qkv_characters_add(&a->counts, code, c->words[w].count)) return false;
            at += n < 0 ? -n : n;
        }
    }
    a->least = qkv_characters_threshold(&a->counts, NULL, most);
    for (uint32_t i = 0; (i = qkv_characters_next(&a->counts, i)) < QKV_CODES; i++)
        a->size += is_piece(a, i);
    return true;
}

static bool add_segment(struct qkv_segments *s, const uint8_t *text, int32_t bytes, int64_t count)
{
    void *at = s->at, *pool = s->pool;
    if (!bytes) return true;
    bool ok = qkv_reserve(&at, &s->capacity, s->count + 1, sizeof *s->at);
    s->at = at;
    ok = ok && qkv_reserve(&pool, &s->pool_capacity, s->pool_count + bytes + 1, 1);
    s->pool = pool;
    if (!ok) return false;
    s->at[s->count++] = (struct qkv_segment){ NULL, s->pool_count, count, bytes };
    memcpy(s->pool + s->pool_count, text, (size_t)bytes);
    s->pool_count += bytes;
    s->pool[s->pool_count++] = 0;
    return true;
}

// Makes segments from the words: words are cut at characters that are no pieces, and long words are
// cut into several segments.
static bool add_segments(struct qkv_segments *s, const struct qkv_word_counts *c,
                         const struct alphabet *a)
{
    for (int64_t w = 0; w < c->count; w++) {
        const uint8_t *word = c->pool + c->words[w].at;
        const int32_t bytes = c->words[w].bytes;
        int32_t from = 0, chars = 0;
        for (int32_t at = 0; at < bytes;) {
            uint32_t code;
            const int used = qkv_utf8_read(word + at, (size_t)(bytes - at), &code);
            const int32_t n = used < 0 ? -used : used;
            const bool known = is_piece(a, code);
            if (!known || chars == QKV_SEGMENT_CHARS) {
                if (!add_segment(s, word + from, at - from, c->words[w].count)) return false;
                from = known ? at : at + n;
                chars = 0;
            }
            chars += known;
            at += n;
        }
        if (!add_segment(s, word + from, bytes - from, c->words[w].count)) return false;
    }
    for (int64_t i = 0; i < s->count; i++) s->at[i].text = s->pool + s->at[i].at;
    return true;
}

static void segments_free(struct qkv_segments *s)
{
    qkv_free(s->at);
    qkv_free(s->pool);
}

// ---- pieces ------------------------------------------------------------------------------------
// Adds the single characters, whose texts are stored in texts[size of the alphabet * 4], then the
// seeds; the scores become logarithms of relative frequencies.
static bool start_pieces(struct qkv_pieces *p, uint8_t *texts, const struct alphabet *a,
                         const struct qkv_segments *s, int64_t wanted, int64_t least)
{
    for (uint32_t i = 0; (i = qkv_characters_next(&a->counts, i)) < QKV_CODES; i++) {
        if (!is_piece(a, i)) continue;
        const int n = qkv_utf8_write(texts, i);
        const double count = (double)qkv_characters_count(&a->counts, i);
        if (!qkv_pieces_add(p, (struct qkv_piece){ texts, n, 1, count })) return false;
        texts += n;
    }
    p->single = p->count;
    const int64_t most = qkv_min64(qkv_max64(wanted * SEEDS, SEEDS_LEAST), SEEDS_MOST);
    if (!qkv_pieces_seed(p, s, most, least)) return false;
    double sum = 0;
    for (int64_t i = 0; i < p->count; i++) sum += p->at[i].score;
    for (int64_t i = 0; i < p->count; i++) p->at[i].score = log(p->at[i].score) - log(sum);
    return true;
}

static qkv_status learn_pieces(struct qkv_training *t, struct qkv_pieces *p,
                               const struct qkv_segments *s, int64_t wanted)
{
    const int64_t enough = wanted + wanted / 10;
    const int64_t first = p->count;
    for (;;) {
        for (int i = 0; i < 2; i++)
            if (!qkv_pieces_improve(p, s)) return qkv_training_memory(t);
        const qkv_status go =
            qkv_training_step(t, "pruning", qkv_max64(first - p->count, 0), first);
        if (go) return go;
        if (p->count <= enough) break;
        if (!qkv_pieces_prune(p, s, qkv_max64(enough, p->count * 3 / 4)))
            return qkv_training_memory(t);
    }
    return QKV_OK;
}

static double rounded(double score)
{
    return round(score * 1e8) / 1e8; // the number of digits in a file
}

static bool add_token(struct qkv_training *t, const uint8_t *text, int32_t bytes, double score)
{
    void *scores = t->scores;
    const int64_t before = t->vocab.count;
    char copy[4 * QKV_PIECE_CHARS + 1];
    memcpy(copy, text, (size_t)bytes);
    copy[bytes] = 0;
    if (!qkv_training_token(t, copy, (size_t)bytes, NULL)) return false;
    const bool ok = qkv_reserve(&scores, &t->scores_capacity, t->vocab.count, sizeof *t->scores);
    t->scores = scores;
    if (ok && t->vocab.count > before) t->scores[before] = score;
    return ok;
}

// Adds the single characters and the best of the other pieces to the vocabulary, most probable
// first.
static qkv_status take_best(struct qkv_training *t, struct qkv_pieces *p, int64_t wanted)
{
    for (int64_t i = 0; i < p->count; i++) p->at[i].score = rounded(p->at[i].score);
    if (!qkv_pieces_sort(p, p->single)) return qkv_training_memory(t);
    if (p->count > wanted) p->count = wanted;
    if (!qkv_pieces_sort(p, 0)) return qkv_training_memory(t);
    for (int64_t i = 0; i < p->count; i++)
        if (!add_token(t, p->at[i].text, p->at[i].bytes, p->at[i].score))
            return qkv_training_memory(t);
    return QKV_OK;
}

static qkv_status learn_unigram(struct qkv_training *t)
{
    struct qkv_word_counts c = { 0 };
    struct qkv_segments s = { 0 };
    struct qkv_pieces p = { 0 };
    const int64_t wanted = t->settings->vocab - t->specials;
    if (wanted < 2)
        return qkv_fail(
            t->err, QKV_ERR_USAGE, NULL,
            "vocabulary too small, expected at least 2 tokens in addition to its %" PRId64
            " special tokens, found a size of %" PRId64,
            t->specials, t->settings->vocab);
    struct alphabet *a = qkv_alloc_zero(1, sizeof *a);
    uint8_t *texts = NULL;
    qkv_status status = a ? qkv_training_specials(t) : qkv_training_memory(t);
    if (!status) {
        t->scores = qkv_alloc((size_t)t->specials, sizeof *t->scores);
        t->scores_capacity = t->scores ? t->specials : 0;
        if (!t->scores) status = qkv_training_memory(t);
        for (int64_t i = 0; i < t->scores_capacity; i++) t->scores[i] = SPECIAL_SCORE;
    }
    if (!status) status = qkv_training_count(t, &c);
    if (!status && !count_characters(a, &c, qkv_max64(wanted / 2, 1)))
        status = qkv_training_memory(t);
    if (!status && !a->size)
        status = qkv_fail(t->err, QKV_ERR_USAGE, NULL,
                          "vocabulary of %" PRId64
                          " tokens is too small, expected space for the characters of the texts",
                          wanted);
    if (!status && !(texts = qkv_alloc((size_t)a->size, 4))) status = qkv_training_memory(t);
    if (!status && (!add_segments(&s, &c, a) || !start_pieces(&p, texts, a, &s, wanted, t->least)))
        status = qkv_training_memory(t);
    if (!status) status = learn_pieces(t, &p, &s, wanted);
    if (!status) status = take_best(t, &p, wanted);
    qkv_free(p.at);
    if (a) qkv_characters_free(&a->counts);
    qkv_free(a);
    qkv_free(texts);
    segments_free(&s);
    qkv_word_counts_free(&c);
    return status;
}

#define METASPACE                                                                                  \
    "{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"prepend_scheme\":\"always\","      \
    "\"split\":true}"
const struct qkv_trainer qkv_trainer_unigram = { .kind = "unigram",
                                                 .learn = learn_unigram,
                                                 .normalizer = "null",
                                                 .lowercase = "{\"type\":\"Lowercase\"}",
                                                 .pre_tokenizer = METASPACE,
                                                 .decoder = METASPACE,
                                                 .model = "Unigram",
                                                 .unknown = "<unk>" };
