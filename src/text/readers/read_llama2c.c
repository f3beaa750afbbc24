// SPDX-License-Identifier: MIT
// read_llama2c.c: reads tokenizer.bin of llama2.c.  Its tokenizer puts a space before the text,
// merges the pair of neighbors with the highest score first (byte pair encoding), and uses byte
// tokens for characters without a token.  The file is little-endian:
//
//   int32 longest token;  for each id:  float score, int32 bytes, the bytes
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "text/readers/readers.h"

enum { BEGIN = 1, END = 2, BYTES = 3 }; // ids that llama2.c assumes; the 256 byte tokens follow

static uint32_t little(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

// Reads the entry at *at of data[size] and moves *at past it. If the entry is malformed, sets err
// and returns false.
static bool entry(const uint8_t *data, size_t size, size_t *at, float *score, size_t *bytes,
                  const char *file, qkv_error *err)
{
    const struct qkv_location here = { .file = file, .has_offset = true, .offset = (int64_t)*at };
    if (size - *at < 8) {
        qkv_fail(
            err, QKV_ERR_FORMAT, &here,
            "truncated entry of a token, expected a score and a length (8 bytes), found %zu bytes",
            size - *at);
        return false;
    }
    const uint32_t raw = little(data + *at), length = little(data + *at + 4);
    memcpy(score, &raw, sizeof *score);
    if (!(*score - *score == 0)) {
        qkv_fail(err, QKV_ERR_FORMAT, &here,
                 "score of a token is not finite, expected a finite number, found %g",
                 (double)*score);
        return false;
    }
    if (length > size - *at - 8) {
        qkv_fail(err, QKV_ERR_FORMAT, &here,
                 "truncated text of a token, expected %" PRIu32 " bytes, found %zu", length,
                 size - *at - 8);
        return false;
    }
    const char *text = (const char *)data + *at + 8;
    for (size_t i = 0, n; i < length; i += n) {
        n = text[i] ? qkv_utf8_bytes(text + i, length - i) : 0;
        if (n) continue;
        qkv_fail(err, QKV_ERR_FORMAT,
                 &(struct qkv_location){
                     .file = file, .has_offset = true, .offset = (int64_t)(*at + 8 + i) },
                 "token is not valid UTF-8, expected a character, found byte 0x%02X",
                 (unsigned)(uint8_t)text[i]);
        return false;
    }
    *bytes = length;
    *at += 8 + (size_t)length;
    return true;
}

static bool tokens(qkv_tokenizer *t, const uint8_t *data, size_t size, qkv_error *err)
{
    int32_t id = 0;
    for (size_t at = 4; at < size; id++) {
        float score;
        size_t bytes;
        void *scores = t->assembly.scores;
        if (!entry(data, size, &at, &score, &bytes, t->file, err)) return false;
        if (id == QKV_TOKEN_IDS) {
            qkv_fail(err, QKV_ERR_LIMIT, &(struct qkv_location){ .file = t->file },
                     "too many tokens, expected at most %d", QKV_TOKEN_IDS);
            return false;
        }
        if (!qkv_reserve(&scores, &t->assembly.score_count, id + 1, sizeof *t->assembly.scores)) {
            t->assembly.scores = scores;
            qkv_fail_memory(err, t->file);
            return false;
        }
        t->assembly.scores = scores;
        // The exporter of llama2.c writes a line end before and after the tokens <s> and </s>,
        // which is removed here.
        const char *text = (const char *)data + at - bytes;
        const bool lines = (id == BEGIN && bytes == 5 && memcmp(text, "\n<s>\n", 5) == 0) ||
                           (id == END && bytes == 6 && memcmp(text, "\n</s>\n", 6) == 0);
        t->assembly.scores[id] = (double)score;
        if (!qkv_assembly_add_token(t, text + lines, bytes - 2 * lines, id, "token", id, err))
            return false;
    }
    t->vocab.scanned = true;
    if (id >= BYTES + 256) return true;
    qkv_fail(
        err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = t->file },
        "too few tokens, expected at least %d (3 special tokens and 256 bytes), found %" PRId32,
        BYTES + 256, id);
    return false;
}

// Checks that ids 3 .. 258 are the byte tokens "<0x00>" .. "<0xFF>".
static bool bytes_there(const qkv_tokenizer *t, qkv_error *err)
{
    for (unsigned b = 0; b < 256; b++) {
        char want[8];
        const char *text = qkv_tokenizer_token(t, (int32_t)(BYTES + b));
        snprintf(want, sizeof want, "<0x%02X>", b);
        if (strcmp(text, want) == 0) continue;
        qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = t->file },
                 "token %u is not the token of its byte, expected \"%s\", found \"%.40s\"",
                 BYTES + b, want, text);
        return false;
    }
    return true;
}

static bool spaces(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return qkv_spaces_add(t, at, t->assembly.context);
}

qkv_status qkv_read_llama2c(qkv_tokenizer **out, const uint8_t *data, size_t size, const char *file,
                            qkv_error *err)
{
    struct qkv_text_buffer json = { 0 };
    struct qkv_spaces how = { .mark = " ", .prefix = true };
    qkv_error own = { 0 };
    qkv_tokenizer *t = NULL;
    *out = NULL;
    if (size < 4) {
        qkv_fail(&own, QKV_ERR_FORMAT, &(struct qkv_location){ .file = file, .has_offset = true },
                 "file too short for a tokenizer of llama2.c, expected the length of its longest "
                 "token (4 bytes), found %zu bytes",
                 size);
        goto done;
    }
    if (qkv_tokenizer_new(&t, file, &own)) goto done;
    if (!qkv_trie_init(&t->vocab.trie, size / 16 < QKV_TOKEN_IDS ? size / 16 : QKV_TOKEN_IDS)) {
        qkv_fail_memory(&own, file);
        goto done;
    }
    if (!tokens(t, data, size, &own) || !bytes_there(t, &own)) goto done;
    for (int32_t id = 0; id < BYTES + 256; id++) t->assembly.scores[id] = -INFINITY;
    if (!qkv_assembly_derive_merges(t, &own)) goto done;
    for (int32_t id = 0; id < BYTES; id++) t->vocab.tokens[id].flags |= QKV_TOKEN_SPECIAL;
    how.cut = qkv_spaces_cut_of(t, how.mark);
    t->assembly.add_steps = spaces;
    t->assembly.context = &how;
    qkv_text_append_string(
        &json, "{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true},\"decoder\":{\"type\":"
               "\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
               "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
               "\"post_processor\":");
    qkv_assembly_append_template(&json, t, BEGIN, -1);
    qkv_text_append_string(&json, "}");
    qkv_tokenizer_assemble(out, t, &json, &own);
    t = NULL;
done:
    qkv_tokenizer_close(t);
    qkv_text_buffer_free(&json);
    if (own.status && err && !err->status) *err = own;
    return own.status;
}
