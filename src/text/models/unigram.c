// SPDX-License-Identifier: MIT
// unigram.c: splits words by the unigram language model: of all segmentations of a word into tokens
// it finds the segmentation with the greatest sum of scores (log probabilities), from left to right
// (Viterbi; Kudo 2018).  Sums, ties and unknown characters are treated as in Hugging Face
// tokenizers.
#include "text/text_internal.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNKNOWN_PENALTY 10.0 // below the worst score

struct unigram {
    double *scores; // by id
    double unknown_score;
    int32_t unknown; // -1: none
    bool fallback, floats, no_texts;
    int32_t spelled[256]; // "<0x41>", -1: none
    struct qkv_long_tokens longs;
    struct qkv_absent absent;
};

// ---- scores ------------------------------------------------------------------------------------
static double power_of_ten(int n)
{
    char text[16];
    snprintf(text, sizeof text, "1e%d", n);
    return strtod(text, NULL);
}

// Returns the number that Hugging Face tokenizers parses from the shortest digits of x.  It reads
// the digits as an integer and divides once, so with 16 digits or more the last bit may differ from
// the nearest double.  This bit can decide between two equally probable segmentations.
static double as_read(double x)
{
    static const double tens[23] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                     1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                     1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    const double a = fabs(x);
    if (!(a > 0) || isinf(a)) return x;
    if (a > 1e-7 && a < 1e14) { // up to 15 digits are exact
        const int k = 14 - (int)floor(log10(a));
        if (nearbyint(a * tens[k]) / tens[k] == a) return x;
    }
    char text[64], *p = text;
    uint64_t digits = 0;
    // both are correctly rounded: 16 digits from 17 could be the neighbor of the shortest ones
    snprintf(text, sizeof text, "%.15e", a);
    const bool fewer = strtod(text, NULL) == a;
    if (!fewer) snprintf(text, sizeof text, "%.16e", a);
    for (; *p != 'e'; p++) // the decimal point depends on the locale
        if (*p >= '0' && *p <= '9') digits = digits * 10 + (uint64_t)(*p - '0');
    int exponent = (int)strtol(p + 1, NULL, 10) - (fewer ? 15 : 16);
    for (; digits % 10 == 0; digits /= 10) exponent++;
    double read = (double)digits;
    for (; exponent < -308; exponent += 308) read /= 1e308;
    read = exponent < 0 ? read / power_of_ten(-exponent) : read * power_of_ten(exponent);
    return x < 0 ? -read : read;
}

// Reads the vocabulary [["text", score], ...]; the index of an entry is the id of its token.
static bool read_entry(qkv_tokenizer *t, const struct qkv_json_at *at, size_t n, const json_t *item)
{
    struct unigram *m = t->model;
    char key[48];
    const json_t *name = json_array_get(item, 0), *score = json_array_get(item, 1);
    snprintf(key, sizeof key, "vocab[%zu]", n);
    if (json_array_size(item) != 2 || !json_is_string(name) || !json_is_number(score))
        return qkv_text_fail(at, key, QKV_ERR_FORMAT,
                             "malformed entry of the vocabulary, expected [token, score]");
    const char *text = json_string_value(name);
    const size_t bytes = strlen(text);
    int32_t got;
    m->scores[n] = as_read(json_number_value(score));
    if (!qkv_vocab_add(&t->vocab, text, bytes, (int32_t)n, 0)) goto memory;
    if (!bytes) return true; // never matches in a text
    if (!qkv_trie_add(&t->vocab.trie, text, bytes, (int32_t)n, &got)) goto memory;
    if (got == (int32_t)n) return true;
    return qkv_text_fail(
        at, key, QKV_ERR_FORMAT,
        "duplicate token in the vocabulary, expected each token once, found \"%s\" again", text);
memory:
    qkv_fail_memory(at->err, at->file);
    return false;
}

static double least_of(const double *scores, int64_t count, double least)
{
    for (int64_t i = 0; i < count; i++)
        if (scores[i] < least && scores[i] > -INFINITY) least = scores[i];
    return least;
}

static void find_least(struct unigram *m, int64_t count)
{
    const double least =
        least_of(m->absent.scores, m->absent.count, least_of(m->scores, count, INFINITY));
    m->unknown_score = (least < INFINITY ? least : 0) - UNKNOWN_PENALTY;
}

static bool read_vocab(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    struct unigram *m = t->model;
    char path[256];
    bool ok;
    if (t->assembly.scores) {
        m->scores = t->assembly.scores;
        t->assembly.scores = NULL;
        m->absent = t->assembly.absent;
        t->assembly.absent = (struct qkv_absent){ 0 };
        m->floats = t->assembly.floats;
        m->no_texts = t->assembly.no_texts;
        find_least(m, t->assembly.score_count);
        return true;
    }
    const json_t *list = qkv_json_member(at, "vocab", true, true, path, &ok);
    if (!list) return false;
    const size_t count = json_array_size(list);
    if (!count)
        return qkv_text_fail(at, "vocab", QKV_ERR_FORMAT,
                             "empty vocabulary, expected at least one token");
    if (count > QKV_TOKEN_IDS)
        return qkv_text_fail(at, "vocab", QKV_ERR_LIMIT,
                             "too many tokens, expected at most %d, found %zu", QKV_TOKEN_IDS,
                             count);
    m->scores = qkv_alloc(count, sizeof *m->scores);
    if (!m->scores || !qkv_trie_init(&t->vocab.trie, count)) {
        qkv_fail_memory(at->err, at->file);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        if (!read_entry(t, at, i, json_array_get(list, i))) return false;
    find_least(m, (int64_t)count);
    return true;
}

static bool check_ends(const struct qkv_long_tokens *longs, const struct qkv_json_at *at)
{
    const int32_t id = qkv_long_tokens_crowded(longs);
    char key[48];
    if (id < 0) return true;
    snprintf(key, sizeof key, "vocab[%" PRId32 "]", id);
    return qkv_text_fail(at, key, QKV_ERR_LIMIT,
                         "too many tokens are suffixes of this token, expected at most %d of more "
                         "than %d bytes, itself included",
                         QKV_LONG_ENDS, QKV_SHORT_TOKEN);
}

static bool open_unigram(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    struct unigram *m = qkv_alloc_zero(1, sizeof *m);
    int64_t unknown = -1;
    if (!m) {
        qkv_fail_memory(at->err, at->file);
        return false;
    }
    t->model = m;
    if (!read_vocab(t, at)) return false;
    if (!qkv_json_int(at, "unk_id", false, &unknown, 0, t->vocab.count - 1)) return false;
    if (!qkv_json_bool(at, "byte_fallback", false, &m->fallback)) return false;
    m->unknown = t->unknown = (int32_t)unknown;
    for (unsigned b = 0; b < 256; b++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", b);
        m->spelled[b] = qkv_trie_find(&t->vocab.trie, text, 6);
    }
    if (!qkv_long_tokens_init(&m->longs, &t->vocab, m->scores)) {
        qkv_fail_memory(at->err, at->file);
        return false;
    }
    if (!check_ends(&m->longs, at)) return false;
    if (unknown >= 0) return true;
    return qkv_text_fail(at, "unk_id", QKV_ERR_UNSUPPORTED,
                         "vocabulary has no unknown token, expected the id of one, since a text "
                         "may contain characters that no token covers");
}

void qkv_absent_free(struct qkv_absent *a)
{
    qkv_trie_free(&a->trie);
    qkv_free(a->scores);
}

static void close_unigram(void *model)
{
    struct unigram *m = model;
    if (!m) return;
    qkv_absent_free(&m->absent);
    qkv_long_tokens_free(&m->longs);
    qkv_free(m->scores);
    qkv_free(m);
}

// ---- the best segmentation ---------------------------------------------------------------------
enum { ABSENT = -2 }; // id of a piece without an id

// The last token of the best segmentation of the bytes before an index.
struct best {
    double score;
    int32_t id, from; // from -1: no segmentation ends here
};

// Rounds the sum to a float if `floats` is true: rounding decides which of several equally probable
// segmentations SentencePiece finds.
static inline void offer(struct best *to, double score, bool floats, int32_t id, int32_t from)
{
    if (floats) score = (double)(float)score;
    if (to->from >= 0 && !(score > to->score)) return;
    *to = (struct best){ score, id, from };
}

// Offers the long tokens that end after word[end - 1], whose node in the automaton is *node.  They
// begin before all other tokens that end here, so that they also win with an equal score; among
// them the longest does.
static void offer_long(const qkv_tokenizer *t, struct best *best, uint32_t *node, uint8_t byte,
                       int32_t end)
{
    const struct unigram *m = t->model;
    struct best most = { 0, 0, -1 };
    *node = qkv_long_tokens_step(&m->longs, *node, byte);
    for (uint32_t k = m->longs.found[*node]; k; k = m->longs.found[m->longs.shorter[k]]) {
        const int32_t id = m->longs.trie.value[k];
        const int32_t from = end - (int32_t)qkv_vocab_token(&t->vocab, id)->bytes;
        if (from && best[from].from < 0) continue;
        offer(&most, m->scores[id] + best[from].score, m->floats, id, from);
    }
    if (most.from >= 0 && (best[end].from < 0 || most.score >= best[end].score)) best[end] = most;
}

// Offers the short tokens of a trie that begin at word[at].  absent: the tokens have no id.
// Returns true if one of them consists of n bytes.
static inline bool offer_short(struct best *best, const struct qkv_trie *trie, const double *scores,
                               bool absent, bool floats, const uint8_t *word, int32_t at,
                               int32_t length, int32_t n)
{
    const double here = best[at].score;
    const int32_t stop = length - at > QKV_SHORT_TOKEN ? at + QKV_SHORT_TOKEN : length;
    uint32_t node = QKV_TRIE_ROOT;
    bool found = false;
    for (int32_t i = at; i < stop; i++) {
        node = qkv_trie_step(trie, node, word[i]);
        if (!node) break;
        const int32_t id = trie->value[node];
        if (id < 0 || scores[id] == -INFINITY) continue;
        offer(&best[i + 1], scores[id] + here, floats, absent ? ABSENT : id, at);
        found = found || i + 1 - at == n;
    }
    return found;
}

static void find_best(const qkv_tokenizer *t, struct best *best, const uint8_t *word,
                      int32_t length)
{
    const struct unigram *m = t->model;
    uint32_t longs = QKV_TRIE_ROOT;
    for (int32_t i = 0; i <= length; i++) best[i] = (struct best){ 0, 0, -1 };
    for (int32_t at = 0; at < length;) {
        uint32_t code;
        const int used = qkv_utf8_read(word + at, (size_t)(length - at), &code);
        const int32_t n = used < 0 ? -used : used;
        const double here = best[at].score;
        bool single =
            offer_short(best, &t->vocab.trie, m->scores, false, m->floats, word, at, length, n);
        if (m->absent.trie.slots && offer_short(best, &m->absent.trie, m->absent.scores, true,
                                                m->floats, word, at, length, n))
            single = true;
        if (!single) offer(&best[at + n], m->unknown_score + here, m->floats, m->unknown, at);
        for (int32_t i = at; i < at + n && m->longs.any; i++)
            offer_long(t, best, &longs, word[i], i + 1);
        at += n;
    }
}

// Adds the token for consecutive unknown characters: the token of their text if there is one (and
// the model is not one of SentencePiece, where it is a control symbol); otherwise the byte tokens
// of all their bytes, if the model has them; otherwise the unknown token once.
static bool put_unknown(const qkv_tokenizer *t, struct qkv_parts *out, const uint8_t *word,
                        int64_t from, int64_t to)
{
    const struct unigram *m = t->model;
    const int32_t known =
        qkv_trie_find(&t->vocab.trie, (const char *)word + from, (size_t)(to - from));
    if (known >= 0 && !m->no_texts) return qkv_parts_add(out, known, from, to);
    bool all = m->fallback;
    for (int64_t i = from; i < to && all; i++) all = m->spelled[word[i]] >= 0;
    if (!all) return qkv_parts_add(out, m->unknown, from, to);
    for (int64_t i = from; i < to; i++)
        if (!qkv_parts_add(out, m->spelled[word[i]], from, to)) return false;
    return true;
}

static bool split_unigram(const qkv_tokenizer *t, struct qkv_parts *out, const uint8_t *bytes,
                          int64_t length, int64_t chars)
{
    const struct unigram *m = t->model;
    (void)chars;
    if (length >= INT32_MAX) return false;
    if (!qkv_parts_reserve(out, (length + 1) * (int64_t)sizeof(struct best))) return false;
    struct best *best = out->work;
    find_best(t, best, bytes, (int32_t)length);
    // Reverses the links of the best segmentation, so that it can be followed from the start of the
    // word.
    int32_t next = (int32_t)length;
    for (int32_t at = next; at > 0;) {
        const int32_t from = best[at].from;
        best[at].from = next; // end of the token that begins at `at`
        next = at;
        at = from;
    }
    for (int32_t from = 0; from < length;) {
        int32_t to = next;
        next = best[to].from;
        if (best[to].id != m->unknown) {
            const int32_t id = best[to].id == ABSENT ? m->unknown : best[to].id;
            if (!qkv_parts_add(out, id, from, to)) return false;
        } else {
            while (to < length && best[next].id == m->unknown) {
                to = next;
                next = best[to].from;
            }
            if (!put_unknown(t, out, bytes, from, to)) return false;
        }
        from = to;
    }
    return true;
}

const struct qkv_text_model qkv_model_unigram = { "Unigram", open_unigram, close_unigram,
                                                  split_unigram };
