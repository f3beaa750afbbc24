// SPDX-License-Identifier: MIT
// entities.c: finds the labels of the tokens of a text, and joins adjacent tokens or words to
// entities, as the token-classification pipeline of transformers does.
#include "task/embed/embed_internal.h"
#include "task/find_model.h"
#include "text/text.h"
#include <qkv/entities.h>
#include <math.h>
#include <string.h>

// A token, word or entity while entities are found.
struct piece {
    int64_t token, tokens; // index of its first token in the encoding; number of tokens
    int64_t label;
    double score;
    const char *word; // text in the vocabulary or in the sentence, or owned
    size_t bytes;
    bool owned;
};
struct pieces {
    struct piece *at;
    int64_t count, capacity;
};

// A text whose entities are found.
struct finding {
    const qkv_model *model;
    const qkv_tokenizer *tokenizer;
    const char *text;
    int64_t bytes;
    qkv_encoding e;
    float *p; // [e.count][labels] probabilities
    int64_t labels;
    enum qkv_aggregation how;
    qkv_error *err;
};

static void pieces_free(struct pieces *p)
{
    for (int64_t i = 0; i < p->count; i++)
        if (p->at[i].owned) qkv_free((char *)p->at[i].word);
    qkv_free(p->at);
}

static bool piece_add(struct pieces *p, struct piece piece)
{
    if (!qkv_reserve((void **)&p->at, &p->capacity, p->count + 1, sizeof *p->at)) return false;
    p->at[p->count++] = piece;
    return true;
}

static int64_t characters(const char *text, int64_t bytes)
{
    int64_t n = 0;
    for (int64_t at = 0; at < bytes; n++) {
        uint32_t code;
        const int used = qkv_utf8_read((const uint8_t *)text + at, (size_t)(bytes - at), &code);
        at += used < 0 ? -used : used;
    }
    return n;
}

// ---- tokens and words --------------------------------------------------------------------------
// Returns the token i of the encoding with its most probable label. An unknown token has the text
// that it replaces.
static struct piece token_at(const struct finding *f, int64_t i)
{
    const qkv_encoding *e = &f->e;
    const float *p = f->p + i * f->labels;
    const bool unknown = e->ids[i] == qkv_tokenizer_unknown(f->tokenizer);
    const char *word = qkv_tokenizer_token(f->tokenizer, e->ids[i]);
    struct piece piece = { .token = i, .tokens = 1 };
    piece.word = unknown ? f->text + e->begin[i] : word ? word : "";
    piece.bytes = unknown ? (size_t)(e->end[i] - e->begin[i]) : strlen(piece.word);
    for (int64_t k = 1; k < f->labels; k++)
        if (p[k] > p[piece.label]) piece.label = k;
    piece.score = (double)p[piece.label];
    return piece;
}

// Returns true if token i of the encoding continues the word before it.
static bool continues(const struct finding *f, int64_t i)
{
    const qkv_encoding *e = &f->e;
    const int64_t begin = e->begin[i], end = e->end[i];
    if (e->ids[i] == qkv_tokenizer_unknown(f->tokenizer)) return false;
    if (qkv_tokenizer_marks_parts(f->tokenizer)) {
        const struct piece token = token_at(f, i);
        return characters(token.word, (int64_t)token.bytes) !=
               characters(f->text + begin, end - begin);
    }
    return begin > 0 && f->text[begin - 1] != ' ' && (begin == f->bytes || f->text[begin] != ' ');
}

// Sets the label and score of a word from the probabilities of its tokens, as f->how says.
static void label_word(const struct finding *f, const struct pieces *tokens, struct piece *word,
                       int64_t from, int64_t to)
{
    const struct piece *at = tokens->at;
    double best = -1;
    word->label = at[from].label;
    word->score = at[from].score;
    for (int64_t i = from + 1; i < to && f->how == QKV_AGGREGATE_MAX; i++)
        if (at[i].score > word->score) {
            word->label = at[i].label;
            word->score = at[i].score;
        }
    for (int64_t k = 0; k < f->labels && f->how == QKV_AGGREGATE_AVERAGE; k++) {
        double sum = 0;
        for (int64_t i = from; i < to; i++) sum += (double)f->p[at[i].token * f->labels + k];
        sum /= (double)(to - from);
        if (sum <= best) continue;
        word->label = k;
        word->score = best = sum;
    }
}

// Joins pieces from .. to - 1 to one, whose text is their decoded texts, and appends it to *out.
// The new piece has the label and the score of the first.
static qkv_status join(struct pieces *out, const struct finding *f, const struct pieces *in,
                       int64_t from, int64_t to)
{
    const int64_t n = to - from;
    const struct piece *at = in->at + from, *last = &at[n - 1];
    struct piece piece = { .token = at->token,
                           .tokens = last->token + last->tokens - at->token,
                           .label = at->label,
                           .score = at->score,
                           .owned = true };
    const char **words = qkv_alloc((size_t)n, sizeof *words);
    size_t *bytes = qkv_alloc((size_t)n, sizeof *bytes);
    char *text = NULL;
    qkv_status status = words && bytes ? QKV_OK : qkv_fail_memory(f->err, NULL);
    for (int64_t i = 0; i < n && !status; i++) {
        words[i] = at[i].word;
        bytes[i] = at[i].bytes;
    }
    if (!status)
        status = qkv_tokenizer_join(f->tokenizer, &text, &piece.bytes, words, bytes, n, f->err);
    piece.word = text;
    if (!status && !piece_add(out, piece)) {
        qkv_free(text);
        status = qkv_fail_memory(f->err, NULL);
    }
    qkv_free(words);
    qkv_free(bytes);
    return status;
}

// Appends the words of the tokens, each with its label, to *out.
static qkv_status add_words(struct pieces *out, const struct finding *f,
                            const struct pieces *tokens)
{
    qkv_status status = QKV_OK;
    for (int64_t from = 0, to; from < tokens->count && !status; from = to) {
        to = from + 1;
        while (to < tokens->count && continues(f, tokens->at[to].token)) to++;
        status = join(out, f, tokens, from, to);
        if (!status) label_word(f, tokens, &out->at[out->count - 1], from, to);
    }
    return status;
}

// ---- entities ----------------------------------------------------------------------------------
// Returns the kind of a label, and sets *begins if the label begins an entity.
static const char *kind_of(const char *label, bool *begins)
{
    *begins = strncmp(label, "B-", 2) == 0;
    return *begins || strncmp(label, "I-", 2) == 0 ? label + 2 : label;
}

// Appends the entities that adjacent pieces form to *out.
static qkv_status add_groups(struct pieces *out, const struct finding *f, const struct pieces *in)
{
    qkv_status status = QKV_OK;
    for (int64_t from = 0, to; from < in->count && !status; from = to) {
        double sum = in->at[from].score;
        bool begins;
        const char *kind = kind_of(qkv_model_label(f->model, in->at[from].label), &begins);
        for (to = from + 1; to < in->count; to++) {
            const char *next = kind_of(qkv_model_label(f->model, in->at[to].label), &begins);
            if (begins || strcmp(kind, next) != 0) break;
            sum += in->at[to].score;
        }
        status = join(out, f, in, from, to);
        if (!status) out->at[out->count - 1].score = sum / (double)(to - from);
    }
    return status;
}

// Appends a piece to the result, unless it is outside of all entities and those are not wanted.
static qkv_status add_entity(struct qkv_entities *out, const struct finding *f,
                             const struct piece *piece, bool outside)
{
    const qkv_encoding *e = &f->e;
    const char *label = qkv_model_label(f->model, piece->label);
    const char *dash = f->how ? strchr(label, '-') : NULL;
    if (dash) label = dash + 1;
    if (!outside && strcmp(label, "O") == 0) return QKV_OK;
    char *word = qkv_copy_text(piece->word, piece->bytes);
    if (!word ||
        !qkv_reserve((void **)&out->entity, &out->capacity, out->count + 1, sizeof *out->entity)) {
        qkv_free(word);
        return qkv_fail_memory(f->err, NULL);
    }
    const int64_t begin = e->begin[piece->token], end = e->end[piece->token + piece->tokens - 1];
    const int64_t first = characters(f->text, begin);
    out->entity[out->count++] =
        (struct qkv_entity){ .label = label,
                             .word = word,
                             .score = (float)piece->score,
                             .begin = begin,
                             .end = end,
                             .first = first,
                             .last = first + characters(f->text + begin, end - begin),
                             .token = piece->token,
                             .tokens = piece->tokens };
    return QKV_OK;
}

// Encodes the text and computes f->p.
static qkv_status run(struct finding *f, const struct qkv_encode_options *how)
{
    const qkv_encoding *e = &f->e;
    qkv_status status =
        qkv_tokenizer_encode(f->tokenizer, &f->e, f->text, (size_t)f->bytes, NULL, 0, how, f->err);
    if (status) return status;
    f->p = qkv_alloc((size_t)qkv_max64(e->count, 1), (size_t)f->labels * sizeof *f->p);
    if (!f->p) return qkv_fail_memory(f->err, NULL);
    const int64_t offsets[] = { 0, e->count };
    const struct qkv_model_input in = {
        .sequences = 1, .offsets = offsets, .ids = e->ids, .types = e->types
    };
    status = qkv_model_classify_tokens(f->model, f->p, &in, f->err);
    for (int64_t i = 0; i < e->count * f->labels && !status; i++)
        if (!isfinite(f->p[i]))
            status = qkv_fail(f->err, QKV_ERR_INTERNAL, NULL,
                              "score of a label is not finite, expected finite numbers, found %g",
                              (double)f->p[i]);
    for (int64_t i = 0; i < e->count && !status; i++)
        qkv_label_softmax(f->p + i * f->labels, f->p + i * f->labels, f->labels);
    return status;
}

void qkv_entities_free(struct qkv_entities *e)
{
    if (!e) return;
    for (int64_t i = 0; i < e->count; i++) qkv_free((char *)e->entity[i].word);
    qkv_free(e->entity);
    *e = (struct qkv_entities){ 0 };
}

qkv_status qkv_entities_find(struct qkv_entities *out, const qkv_model *m, const qkv_tokenizer *t,
                             const char *text, size_t bytes, const struct qkv_entities_options *o,
                             qkv_error *err)
{
    static const struct qkv_entities_options plain;
    qkv_entities_free(out);
    if (!out || !m || !t || !text)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_entities_find: expected a result, a model, a tokenizer and a text, "
                        "found NULL");
    if (!o) o = &plain;
    const struct qkv_model_info info = qkv_model_info(m);
    if ((int)o->aggregate < 0 || o->aggregate > QKV_AGGREGATE_MAX)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid aggregation of labels, expected a QKV_AGGREGATE_*, found %d",
                        (int)o->aggregate);
    if (!(info.can & QKV_CAN_TOKEN_LABELS))
        return qkv_unfit(m, "a model with labels of tokens", err);
    struct finding f = { .model = m,
                         .tokenizer = t,
                         .text = text,
                         .bytes = (int64_t)bytes,
                         .labels = info.labels,
                         .how = o->aggregate };
    struct pieces tokens = { 0 }, words = { 0 }, groups = { 0 };
    f.err = err;
    qkv_status status =
        run(&f, &(struct qkv_encode_options){
                    .max_length = info.positions, .truncate = o->truncate, .strict = o->strict });
    for (int64_t i = 0; i < f.e.count && !status; i++)
        if (f.e.text[i] < 2 && !piece_add(&tokens, token_at(&f, i)))
            status = qkv_fail_memory(err, NULL);
    const struct pieces *last = &tokens;
    if (!status && f.how > QKV_AGGREGATE_SIMPLE) status = add_words(&words, &f, last);
    if (f.how > QKV_AGGREGATE_SIMPLE) last = &words;
    if (!status && f.how) status = add_groups(&groups, &f, last);
    if (f.how) last = &groups;
    for (int64_t i = 0; i < last->count && !status; i++)
        status = add_entity(out, &f, &last->at[i], o->outside);
    out->cut = f.e.cut;
    if (status) qkv_entities_free(out);
    pieces_free(&tokens);
    pieces_free(&words);
    pieces_free(&groups);
    qkv_free(f.p);
    qkv_encoding_free(&f.e);
    return status;
}
