// SPDX-License-Identifier: MIT
// read_vocab.c: reads tokenizers that have no tokenizer.json: vocab.txt of BERT, and vocab.json
// with merges.txt of GPT-2 and RoBERTa.  Further settings come from tokenizer_config.json, if it
// exists.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "text/readers/readers.h"

// Reads the next line of data[size] without its line end.  Returns false if there is no further
// line.
static bool line(const uint8_t *data, size_t size, size_t *at, const char **text, size_t *bytes)
{
    if (*at >= size) return false;
    const uint8_t *end = memchr(data + *at, '\n', size - *at);
    *text = (const char *)data + *at;
    *bytes = end ? (size_t)(end - data) - *at : size - *at;
    *at += *bytes + (end != NULL);
    if (*bytes && (*text)[*bytes - 1] == '\r') --*bytes;
    return true;
}

static bool valid_line(const char *file, int64_t number, const char *text, size_t bytes,
                       qkv_error *err)
{
    char path[48];
    for (size_t i = 0, n; i < bytes; i += n) {
        n = text[i] ? qkv_utf8_bytes(text + i, bytes - i) : 0;
        if (n) continue;
        snprintf(path, sizeof path, "%" PRId64 ":%zu", number, i + 1);
        qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = file, .path = path },
                 "token is not valid UTF-8, expected a character, found byte 0x%02X",
                 (unsigned)(uint8_t)text[i]);
        return false;
    }
    return true;
}

static int32_t id_of(const qkv_tokenizer *t, const char *text)
{
    return qkv_trie_find(&t->vocab.trie, text, strlen(text));
}

// Appends, as special tokens, the texts in names[n] that the vocabulary contains.
static void specials(struct qkv_text_buffer *json, const qkv_tokenizer *t,
                     const char *const names[], size_t n, const char *lstrip)
{
    bool first = true;
    qkv_text_append_string(json, ",\"added_tokens\":[");
    for (size_t i = 0; i < n; i++) {
        const int32_t id = id_of(t, names[i]);
        if (id >= 0)
            qkv_assembly_append_added(json, &first, id, names[i], true, false,
                                      lstrip && strcmp(names[i], lstrip) == 0);
    }
    qkv_text_append_string(json, "]");
}

static void pair(struct qkv_text_buffer *json, const qkv_tokenizer *t, const char *name,
                 const char *text)
{
    qkv_text_append_string(json, name);
    qkv_text_append_json(json, text, strlen(text), QKV_JSON_PLAIN);
    qkv_text_append_string(json, ",");
    qkv_text_append_integer(json, id_of(t, text));
    qkv_text_append_string(json, "]");
}

// ---- vocab.txt: one token per line, its id is the line number ----------------------------------
static bool list_tokens(qkv_tokenizer *t, const uint8_t *data, size_t size, qkv_error *err)
{
    const char *text;
    size_t bytes, lines = 1;
    for (size_t i = 0; i < size; i++) lines += data[i] == '\n';
    if (lines > QKV_TOKEN_IDS) {
        qkv_fail(err, QKV_ERR_LIMIT, &(struct qkv_location){ .file = t->file },
                 "too many tokens, expected at most %d lines, found %zu", QKV_TOKEN_IDS, lines);
        return false;
    }
    if (!qkv_trie_init(&t->vocab.trie, lines)) {
        qkv_fail_memory(err, t->file);
        return false;
    }
    int32_t id = 0;
    for (size_t at = 0; line(data, size, &at, &text, &bytes); id++)
        if (!valid_line(t->file, id + 1, text, bytes, err) ||
            !qkv_assembly_add_token(t, text, bytes, id, "line", id + 1, err))
            return false;
    t->vocab.scanned = true;
    return true;
}

static bool flag(const struct qkv_text_config *c, const char *file, const char *key, bool value,
                 struct qkv_text_buffer *json, const char *name, qkv_error *err)
{
    const struct qkv_json_at at = { c->json, file, "$", err };
    if (c->json && !qkv_json_bool(&at, key, false, &value)) return false;
    qkv_text_append_string(json, name);
    qkv_text_append_string(json, value ? "true" : "false");
    return true;
}

static bool bert_json(struct qkv_text_buffer *json, const qkv_tokenizer *t,
                      const struct qkv_text_config *c, const char *config, qkv_error *err)
{
    static const char *const names[] = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]" };
    static const char *const need[] = { "[UNK]", "[CLS]", "[SEP]" };
    for (size_t i = 0; i < 3; i++) {
        if (id_of(t, need[i]) >= 0) continue;
        qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = t->file },
                 "token %s is missing, expected a line with it", need[i]);
        return false;
    }
    qkv_text_append_string(json,
                           "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\","
                           "\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100},"
                           "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true");
    if (!flag(c, config, "tokenize_chinese_chars", true, json, ",\"handle_chinese_chars\":", err) ||
        !flag(c, config, "do_lower_case", true, json, ",\"lowercase\":", err))
        return false;
    const json_t *accents = c->json ? json_object_get(c->json, "strip_accents") : NULL;
    if (accents && !json_is_null(accents) &&
        !flag(c, config, "strip_accents", true, json, ",\"strip_accents\":", err))
        return false;
    qkv_text_append_string(
        json, "},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"decoder\":{\"type\":"
              "\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},"
              "\"post_processor\":{\"type\":\"BertProcessing\"");
    pair(json, t, ",\"sep\":[", "[SEP]");
    pair(json, t, ",\"cls\":[", "[CLS]");
    qkv_text_append_string(json, "}");
    specials(json, t, names, sizeof names / sizeof names[0], NULL);
    qkv_text_append_string(json, "}");
    return true;
}

qkv_status qkv_read_vocab_list(qkv_tokenizer **out, const uint8_t *data, size_t size,
                               const char *file, qkv_error *err)
{
    struct qkv_text_buffer json = { 0 };
    struct qkv_text_config config = { 0 };
    char path[QKV_PATH];
    qkv_error own = { 0 };
    qkv_tokenizer *t = NULL;
    *out = NULL;
    if (qkv_text_config_open(&config, file, &own)) goto done;
    if (qkv_path_sibling(path, file, "tokenizer_config.json", &own)) goto done;
    if (qkv_tokenizer_new(&t, file, &own) || !list_tokens(t, data, size, &own) ||
        !bert_json(&json, t, &config, path, &own))
        goto done;
    qkv_tokenizer_assemble(out, t, &json, &own);
    t = NULL;
done:
    qkv_tokenizer_close(t);
    qkv_text_config_free(&config);
    qkv_text_buffer_free(&json);
    if (own.status && err && !err->status) *err = own;
    return own.status;
}

// ---- vocab.json and merges.txt -----------------------------------------------------------------
static bool merge_fail(const char *file, int64_t number, const char *what, const char *text,
                       size_t bytes, qkv_error *err)
{
    char path[48];
    snprintf(path, sizeof path, "%" PRId64 ":1", number);
    qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = file, .path = path },
             "%s, found \"%.*s\"", what, (int)qkv_min64((int64_t)bytes, 100), text);
    return false;
}

static bool merge_line(qkv_tokenizer *t, const char *file, int64_t number, const char *text,
                       size_t bytes, uint32_t rank, qkv_error *err)
{
    const struct qkv_trie *trie = &t->vocab.trie;
    const char *space = memchr(text, ' ', bytes);
    const size_t a = space ? (size_t)(space - text) : 0, b = space ? bytes - a - 1 : 0;
    if (!a || !b || memchr(space + 1, ' ', b))
        return merge_fail(file, number, "malformed merge, expected two tokens separated by a space",
                          text, bytes, err);
    struct qkv_merge m = { .left = qkv_trie_find(trie, text, a),
                           .right = qkv_trie_find(trie, space + 1, b),
                           .rank = rank };
    uint32_t node = QKV_TRIE_ROOT;
    for (size_t i = 0; i < bytes && node; i++)
        if (i != a) node = qkv_trie_step(trie, node, (uint8_t)text[i]);
    m.to = node ? trie->value[node] : -1;
    if (m.left < 0 || m.right < 0 || m.to < 0)
        return merge_fail(file, number,
                          m.to < 0 ? "result of a merge is not a token of vocab.json"
                                   : "part of a merge is not a token of vocab.json",
                          text, bytes, err);
    if (qkv_assembly_add_merge(&t->assembly, m)) return true;
    qkv_fail_memory(err, file);
    return false;
}

static bool merge_file(qkv_tokenizer *t, const char *file, qkv_error *err)
{
    struct qkv_map map = { 0 };
    const char *text;
    size_t bytes;
    int64_t number = 0;
    bool ok = !qkv_map_read(&map, file, QKV_TOKENIZER_BYTES, err);
    uint32_t rank = 0;
    for (size_t at = 0; ok && line(map.data, map.size, &at, &text, &bytes);) {
        number++;
        if (!bytes || (number == 1 && bytes >= 8 && memcmp(text, "#version", 8) == 0)) continue;
        ok = valid_line(file, number, text, bytes, err) &&
             merge_line(t, file, number, text, bytes, rank++, err);
    }
    qkv_map_close(&map);
    t->assembly.merged = true;
    return ok;
}

bool qkv_vocab_object(struct qkv_vocab *v, const char *data, size_t size, const char *file,
                      qkv_error *err)
{
    if (qkv_vocab_scan_object(v, data, size)) return true;
    json_t *root = NULL, *whole = NULL;
    bool ok = false;
    if (!qkv_json_parse(&root, data, size, file, 0, err)) {
        whole = json_pack("{s:O}", "vocab", root);
        const struct qkv_json_at at = { whole, file, "$", err };
        if (!whole) qkv_fail_memory(err, file);
        ok = whole && qkv_vocab_read(v, &at, "vocab");
        v->scanned = true;
    }
    json_decref(root);
    json_decref(whole);
    return ok;
}

// Writes the JSON of the components for vocab.json with merges.txt.  If the vocabulary contains the
// special tokens of RoBERTa, the JSON has the template and the mask token of RoBERTa.
static void pair_json(struct qkv_text_buffer *json, const qkv_tokenizer *t, bool prefix)
{
    static const char *const gpt2[] = { "<|endoftext|>" };
    static const char *const roberta[] = { "<s>", "<pad>", "</s>", "<unk>", "<mask>" };
    const bool is_roberta =
        id_of(t, "<s>") >= 0 && id_of(t, "</s>") >= 0 && id_of(t, "<mask>") >= 0;
    const char *space = prefix ? "true" : "false";
    qkv_text_append_string(
        json, "{\"model\":{\"type\":\"BPE\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\","
              "\"trim_offsets\":true,\"add_prefix_space\":");
    qkv_text_append_string(json, space);
    qkv_text_append_string(json,
                           "},\"decoder\":{\"type\":\"ByteLevel\",\"trim_offsets\":true,"
                           "\"add_prefix_space\":true},\"post_processor\":{\"trim_offsets\":");
    qkv_text_append_string(json, is_roberta ? "true" : "false");
    qkv_text_append_string(json, ",\"add_prefix_space\":");
    qkv_text_append_string(json, space);
    qkv_text_append_string(json, is_roberta ? ",\"type\":\"RobertaProcessing\""
                                            : ",\"type\":\"ByteLevel\"");
    if (is_roberta) {
        pair(json, t, ",\"sep\":[", "</s>");
        pair(json, t, ",\"cls\":[", "<s>");
    }
    qkv_text_append_string(json, "}");
    if (is_roberta)
        specials(json, t, roberta, sizeof roberta / sizeof roberta[0], "<mask>");
    else
        specials(json, t, gpt2, 1, NULL);
    qkv_text_append_string(json, "}");
}

qkv_status qkv_read_vocab_pair(qkv_tokenizer **out, const uint8_t *data, size_t size,
                               const char *file, qkv_error *err)
{
    struct qkv_text_buffer json = { 0 };
    struct qkv_text_config config = { 0 };
    char merges[QKV_PATH], path[QKV_PATH];
    qkv_error own = { 0 };
    qkv_tokenizer *t = NULL;
    bool prefix = false;
    *out = NULL;
    if (qkv_text_config_open(&config, file, &own) ||
        qkv_path_sibling(path, file, "tokenizer_config.json", &own) ||
        qkv_path_sibling(merges, file, "merges.txt", &own))
        goto done;
    const struct qkv_json_at at = { config.json, path, "$", &own };
    if (config.json && !qkv_json_bool(&at, "add_prefix_space", false, &prefix)) goto done;
    if (qkv_tokenizer_new(&t, file, &own) ||
        !qkv_vocab_object(&t->vocab, (const char *)data, size, file, &own) ||
        !merge_file(t, merges, &own))
        goto done;
    pair_json(&json, t, prefix);
    qkv_tokenizer_assemble(out, t, &json, &own);
    t = NULL;
done:
    qkv_tokenizer_close(t);
    qkv_text_config_free(&config);
    qkv_text_buffer_free(&json);
    if (own.status && err && !err->status) *err = own;
    return own.status;
}
