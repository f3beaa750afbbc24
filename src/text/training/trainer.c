// SPDX-License-Identifier: MIT
// trainer.c: trains a tokenizer: checks the settings, runs the trainer of the requested kind, and
// writes the file completely or not at all.
#include "text/training/trainer.h"
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

qkv_status qkv_training_full(const struct qkv_training *t)
{
    if (t->vocab.trie.nodes < QKV_TRIE_NODES) return qkv_training_memory(t);
    return qkv_fail(t->err, QKV_ERR_LIMIT, NULL,
                    "tokens are too long, expected together at most %d bytes in which they differ, "
                    "found more; the text has very long words, expected spaces or line ends in it",
                    QKV_TRIE_NODES);
}

qkv_status qkv_training_step(const struct qkv_training *t, const char *what, int64_t done,
                             int64_t total)
{
    const struct qkv_progress *p = &t->settings->progress;
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

// ---- settings ----------------------------------------------------------------------------------
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
                        "invalid special token, expected 1 to %d bytes of UTF-8, found \"%s\"",
                        QKV_ADDED_BYTES, text ? qkv_escape(shown, sizeof shown, text) : "");
    t->special[t->specials++] = text;
    return QKV_OK;
}

// Writes the index of `text` among the special tokens to *index, and adds `text` to them if it is
// new.  *index becomes -1 if text is NULL.
static qkv_status require_special(struct qkv_training *t, const char *text, int32_t *index)
{
    *index = text ? find_special(t, text) : -1;
    if (!text || *index >= 0) return QKV_OK;
    *index = (int32_t)t->specials;
    return add_special(t, text);
}

static qkv_status read_specials(struct qkv_training *t)
{
    const struct qkv_tokenizer_training *settings = t->settings;
    if (settings->specials < 0 || settings->specials > 1 << 16 ||
        (settings->specials && !settings->special))
        return qkv_fail(
            t->err, QKV_ERR_USAGE, NULL,
            "number of special tokens is out of range, expected 0 .. 65536, found %" PRId64,
            settings->specials);
    t->special = qkv_alloc((size_t)settings->specials + 3, sizeof *t->special);
    if (!t->special) return qkv_training_memory(t);
    for (int64_t i = 0; i < settings->specials; i++) {
        if (settings->special[i] && find_special(t, settings->special[i]) >= 0)
            return qkv_fail(
                t->err, QKV_ERR_USAGE, NULL,
                "duplicate special token, expected each special token once, found \"%.100s\" again",
                settings->special[i]);
        const qkv_status status = add_special(t, settings->special[i]);
        if (status) return status;
    }
    const char *unknown =
        settings->unknown && t->trainer->unknown ? settings->unknown : t->trainer->unknown;
    qkv_status status = require_special(t, unknown, &t->unknown);
    if (!status) status = require_special(t, settings->begin, &t->begin);
    return status ? status : require_special(t, settings->end, &t->end);
}

static qkv_status read_kind(struct qkv_training *t)
{
    char known[128] = "";
    for (int i = 0; i < TRAINERS; i++) {
        if (t->settings->kind && strcmp(t->settings->kind, trainers[i]->kind) == 0)
            t->trainer = trainers[i];
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", trainers[i]->kind);
    }
    if (t->trainer) return QKV_OK;
    return qkv_fail(t->err, QKV_ERR_USAGE, NULL,
                    "unknown kind of tokenizer to train, expected one of %s, found \"%.100s\"",
                    known, t->settings->kind ? t->settings->kind : "");
}

static qkv_status read_sizes(struct qkv_training *t)
{
    if (t->settings->vocab < 0 || t->settings->vocab > QKV_TOKEN_IDS || t->settings->least < 0)
        return qkv_fail(t->err, QKV_ERR_USAGE, NULL,
                        "tokenizer training: expected a vocabulary of 0 .. %d tokens and a minimum "
                        "count of 0 or more, found %" PRId64 " and %" PRId64,
                        QKV_TOKEN_IDS, t->settings->vocab, t->settings->least);
    t->least = t->settings->least ? t->settings->least : 2;
    size_t total = 0;
    for (int64_t i = 0; i < t->n; i++)
        if (!qkv_add_size(&total, total, t->bytes[i]) || total > INT64_MAX / 4 ||
            (!t->texts[i] && t->bytes[i]))
            return qkv_fail(t->err, QKV_ERR_USAGE, NULL,
                            "tokenizer training: text %" PRId64
                            " cannot be used, expected a pointer and a smaller size, found NULL or "
                            "too many bytes",
                            i + 1);
    if (!total)
        return qkv_fail(t->err, QKV_ERR_FORMAT, NULL,
                        "no text to train the tokenizer on, expected at least one character");
    return qkv_trie_init(&t->vocab.trie, 1024) ? QKV_OK : qkv_training_memory(t);
}

// ---- training ----------------------------------------------------------------------------------
static qkv_status write_file(struct qkv_training *t, const char *path, bool force)
{
    struct qkv_text_buffer json = { 0 };
    struct qkv_output out = { .fd = -1 };
    qkv_tokenizer *check = NULL;
    qkv_status status = QKV_OK;
    qkv_training_json(t, &json, true);
    if (json.failed) status = qkv_training_memory(t);
    // The new tokenizer.json must open as a tokenizer before it is written to the file.
    if (!status) status = qkv_tokenizer_parse(&check, json.bytes, (size_t)json.count, path, t->err);
    if (!status) status = qkv_output_open(&out, path, force, t->err);
    if (!status) {
        status = qkv_output_write(&out, json.bytes, (size_t)json.count, t->err);
        if (!status) status = qkv_output_commit(&out, t->err);
        qkv_output_abort(&out);
    }
    qkv_tokenizer_close(check);
    qkv_text_buffer_free(&json);
    return status;
}

qkv_status qkv_tokenizer_train(const char *path, const char *const *texts, const size_t *bytes,
                               int64_t n, const struct qkv_tokenizer_training *settings, bool force,
                               qkv_error *err)
{
    if (!path || !settings || n < 0 || (n && (!texts || !bytes)))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_tokenizer_train: expected a path, texts with their sizes, and "
                        "settings, found NULL");
    struct qkv_training t = {
        .settings = settings, .texts = texts, .bytes = bytes, .n = n, .err = err, .unknown = -1
    };
    qkv_status status = read_kind(&t);
    if (!status) status = read_sizes(&t);
    if (!status) status = read_specials(&t);
    if (!status) status = t.trainer->learn(&t);
    if (!status) status = write_file(&t, path, force);
    qkv_free(t.special);
    qkv_free(t.scores);
    qkv_free(t.merges);
    qkv_vocab_free(&t.vocab);
    return status;
}
