// SPDX-License-Identifier: MIT
// trainer.c: qkv_tokenizer_train: what is asked for is checked, a trainer learns, the file is
// written whole.
#include "text/trainer.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct qkv_trainer *const trainers[] = {
#define QKV_TRAINER(name) &qkv_trainer_##name,
#include "text/tokenizer.def"
};
enum { TRAINERS = sizeof trainers / sizeof trainers[0] };

qkv_status qkv_training_memory(const struct qkv_training *t)
{
    return qkv_fail_memory(t->err, NULL);
}

qkv_status qkv_training_step(const struct qkv_training *t, const char *what, int64_t done,
                             int64_t total)
{
    const struct qkv_progress *p = &t->how->progress;
    if (!p->step || !p->step(p->user, what, done, total)) return QKV_OK;
    return qkv_fail(t->err, QKV_ERR_INTERRUPTED, NULL, "stopped while %s", what);
}

bool qkv_training_token(struct qkv_training *t, const char *text, size_t bytes, int32_t *id)
{
    int32_t got;
    if (t->vocab.count >= QKV_TOKEN_IDS ||
        !qkv_trie_add(&t->vocab.trie, text, bytes, (int32_t)t->vocab.count, &got))
        return false;
    if (id) *id = got;
    return got != t->vocab.count || qkv_vocab_add(&t->vocab, text, bytes, got, 0);
}

qkv_status qkv_training_specials(struct qkv_training *t)
{
    for (int64_t i = 0; i < t->specials; i++)
        if (!qkv_training_token(t, t->special[i], strlen(t->special[i]), NULL))
            return qkv_training_memory(t);
    return QKV_OK;
}

// ---- what is asked for -------------------------------------------------------------------------
static int32_t find_special(const struct qkv_training *t, const char *text)
{
    for (int64_t i = 0; i < t->specials; i++)
        if (strcmp(t->special[i], text) == 0) return (int32_t)i;
    return -1;
}

static qkv_status add_special(struct qkv_training *t, const char *text)
{
    char shown[64];
    const size_t bytes = text ? strlen(text) : 0;
    bool valid = bytes > 0 && bytes <= QKV_ADDED_BYTES;
    for (size_t i = 0; valid && i < bytes;) {
        uint32_t code;
        const int n = qkv_utf8_read((const uint8_t *)text + i, bytes - i, &code);
        valid = n > 0;
        i += (size_t)(n > 0 ? n : 1);
    }
    if (!valid)
        return qkv_fail(t->err, QKV_ERR_USAGE, NULL,
                        "not a special token, expected 1 to %d bytes of UTF-8, found \"%s\"",
                        QKV_ADDED_BYTES, text ? qkv_escape(shown, sizeof shown, text) : "");
    t->special[t->specials++] = text;
    return QKV_OK;
}

// The index of `text`, which joins the special tokens unless it is one; -1: text is NULL.
static qkv_status want_special(struct qkv_training *t, const char *text, int32_t *index)
{
    *index = text ? find_special(t, text) : -1;
    if (!text || *index >= 0) return QKV_OK;
    *index = (int32_t)t->specials;
    return add_special(t, text);
}

static qkv_status read_specials(struct qkv_training *t)
{
    const struct qkv_tokenizer_training *how = t->how;
    if (how->specials < 0 || how->specials > 1 << 16 || (how->specials && !how->special))
        return qkv_fail(t->err, QKV_ERR_USAGE, NULL,
                        "special tokens: expected 0 .. 65536 of them, found %" PRId64,
                        how->specials);
    t->special = qkv_alloc((size_t)how->specials + 3, sizeof *t->special);
    if (!t->special) return qkv_training_memory(t);
    for (int64_t i = 0; i < how->specials; i++) {
        if (how->special[i] && find_special(t, how->special[i]) >= 0)
            return qkv_fail(t->err, QKV_ERR_USAGE, NULL,
                            "a special token twice, expected each once, found \"%.100s\" again",
                            how->special[i]);
        const qkv_status s = add_special(t, how->special[i]);
        if (s) return s;
    }
    const char *unknown = how->unknown && t->trainer->unknown ? how->unknown : t->trainer->unknown;
    qkv_status s = want_special(t, unknown, &t->unknown);
    if (!s) s = want_special(t, how->begin, &t->begin);
    return s ? s : want_special(t, how->end, &t->end);
}

static qkv_status read_kind(struct qkv_training *t)
{
    char known[128] = "";
    for (int i = 0; i < TRAINERS; i++) {
        if (t->how->kind && strcmp(t->how->kind, trainers[i]->kind) == 0) t->trainer = trainers[i];
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", trainers[i]->kind);
    }
    if (t->trainer) return QKV_OK;
    return qkv_fail(t->err, QKV_ERR_USAGE, NULL,
                    "unknown kind of tokenizer, expected one of %s, found \"%.100s\"", known,
                    t->how->kind ? t->how->kind : "");
}

static qkv_status read_sizes(struct qkv_training *t)
{
    if (t->how->vocab < 0 || t->how->vocab > QKV_TOKEN_IDS || t->how->least < 0)
        return qkv_fail(t->err, QKV_ERR_USAGE, NULL,
                        "vocabulary: expected 0 .. %d tokens seen 0 or more times, found %" PRId64
                        " and %" PRId64,
                        QKV_TOKEN_IDS, t->how->vocab, t->how->least);
    t->least = t->how->least ? t->how->least : 2;
    size_t total = 0;
    for (int64_t i = 0; i < t->n; i++)
        if (!qkv_add_size(&total, total, t->bytes[i]) || total > INT64_MAX / 4 ||
            (!t->texts[i] && t->bytes[i]))
            return qkv_fail(t->err, QKV_ERR_USAGE, NULL, "texts: expected text %" PRId64, i + 1);
    if (!total) return qkv_fail(t->err, QKV_ERR_FORMAT, NULL, "no text to learn from");
    return qkv_trie_init(&t->vocab.trie, 1024) ? QKV_OK : qkv_training_memory(t);
}

// ---- the call ----------------------------------------------------------------------------------
static qkv_status write_file(struct qkv_training *t, const char *path, bool force)
{
    struct qkv_text_buffer json = { 0 };
    struct qkv_output out = { .fd = -1 };
    qkv_tokenizer *check = NULL;
    qkv_status s = QKV_OK;
    qkv_training_json(t, &json, true);
    if (json.failed) s = qkv_training_memory(t);
    // What was learned has to be a tokenizer of this library too.
    if (!s) s = qkv_tokenizer_parse(&check, json.bytes, (size_t)json.count, path, t->err);
    if (!s) s = qkv_output_open(&out, path, force, t->err);
    if (!s) {
        s = qkv_output_write(&out, json.bytes, (size_t)json.count, t->err);
        if (!s) s = qkv_output_commit(&out, t->err);
        qkv_output_abort(&out);
    }
    qkv_tokenizer_close(check);
    qkv_free(json.bytes);
    return s;
}

qkv_status qkv_tokenizer_train(const char *path, const char *const *texts, const size_t *bytes,
                               int64_t n, const struct qkv_tokenizer_training *how, bool force,
                               qkv_error *err)
{
    if (!path || !how || n < 0 || (n && (!texts || !bytes)))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "training: expected a path, texts with their sizes, and settings");
    struct qkv_training t = {
        .how = how, .texts = texts, .bytes = bytes, .n = n, .err = err, .unknown = -1
    };
    qkv_status s = read_kind(&t);
    if (!s) s = read_sizes(&t);
    if (!s) s = read_specials(&t);
    if (!s) s = t.trainer->learn(&t);
    if (!s) s = write_file(&t, path, force);
    qkv_free(t.special);
    qkv_free(t.scores);
    qkv_free(t.merges);
    qkv_vocab_free(&t.vocab);
    return s;
}
