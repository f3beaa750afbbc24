// SPDX-License-Identifier: MIT
// tokenizer_open.c: selects the reader for a tokenizer file or a model folder.
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "text/readers/readers.h"

// ---- tokenizer_config.json ---------------------------------------------------------------------
enum { CONFIG_BYTES = 1 << 26 };

qkv_status qkv_path_sibling(char out[QKV_PATH], const char *path, const char *name, qkv_error *err)
{
    char dir[QKV_PATH];
    return qkv_path_join(out, qkv_path_above(dir, path) ? dir : path, name, err);
}

qkv_status qkv_text_config_open(struct qkv_text_config *c, const char *sibling, qkv_error *err)
{
    char path[QKV_PATH];
    memset(c, 0, sizeof *c);
    qkv_status status = qkv_path_sibling(path, sibling, "tokenizer_config.json", err);
    if (status || !qkv_path_may_exist(path)) return status;
    status = qkv_json_wide_file(&c->json, path, CONFIG_BYTES, err);
    if (status) return status;
    const struct qkv_json_at at = { c->json, path, "$", err };
    const char *name = NULL;
    if (!qkv_json_text(&at, "tokenizer_class", false, &name)) return QKV_ERR_FORMAT;
    if (!name) return QKV_OK;
    const size_t n = strlen(name), fast = n > 4 && strcmp(name + n - 4, "Fast") == 0 ? 4 : 0;
    snprintf(c->name, sizeof c->name, "%.*s", (int)qkv_min64((int64_t)(n - fast), 63), name);
    c->kind = c->name;
    return QKV_OK;
}

void qkv_text_config_free(struct qkv_text_config *c)
{
    json_decref(c->json);
    memset(c, 0, sizeof *c);
}

bool qkv_text_config_is(const struct qkv_text_config *c, const char *kind)
{
    return c->kind && strcmp(c->kind, kind) == 0;
}

// ---- files -------------------------------------------------------------------------------------
static bool has_sibling(const char *path, const char *name)
{
    char other[QKV_PATH];
    return !qkv_path_sibling(other, path, name, NULL) && qkv_path_may_exist(other);
}

// Returns the reader for a file name, or NULL if the file is read as a tokenizer.json.
static qkv_text_reader *reader_of(const char *path)
{
    if (qkv_ends_with(path, ".model")) return qkv_read_spm;
    if (qkv_ends_with(path, ".spm"))
        return has_sibling(path, "vocab.json") ? qkv_read_marian : qkv_read_spm;
    if (qkv_ends_with(path, ".bin")) return qkv_read_llama2c;
    if (qkv_ends_with(path, ".txt")) return qkv_read_vocab_list;
    const char *slash = strrchr(path, '/');
    if (strcmp(slash ? slash + 1 : path, "vocab.json") == 0 && has_sibling(path, "merges.txt"))
        return qkv_read_vocab_pair;
    return NULL;
}

// Returns true if path is a checkpoint of llama2.c, whose tokenizer is in the same folder.
static bool is_checkpoint(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return qkv_ends_with(name, ".bin") && strncmp(name, "tok", 3) != 0;
}

static qkv_status open_file(qkv_tokenizer **out, const char *path, qkv_error *err)
{
    qkv_text_reader *reader = reader_of(path);
    if (!reader) return qkv_tokenizer_read(out, path, err);
    struct qkv_map map = { 0 };
    // The file is read into memory and not mapped, because it may shrink while it is used.
    qkv_status status = qkv_map_open(&map, path, true, err);
    if (!status && map.size > QKV_TOKENIZER_BYTES)
        status = qkv_fail(err, QKV_ERR_LIMIT, &(struct qkv_location){ .file = path },
                          "file too large, expected at most %d bytes, found %zu",
                          QKV_TOKENIZER_BYTES, map.size);
    if (!status)
        status = reader(out, map.data ? map.data : (const uint8_t *)"", map.size, path, err);
    qkv_map_close(&map);
    return status;
}

// The files for which a folder is searched, in this order, each with the file that its reader opens
// too.
static const struct {
    const char *name, *second;
} files[] = {
    { "tokenizer.json", NULL },          // Hugging Face tokenizers
    { "source.spm", "vocab.json" },      // the source side of a Marian translator
    { "tokenizer.model", NULL },         // SentencePiece: Llama, Gemma
    { "spiece.model", NULL },            // T5, ALBERT
    { "spm.model", NULL },               // DeBERTa
    { "sentencepiece.bpe.model", NULL }, // XLM-RoBERTa, mBART
    { "vocab.json", "merges.txt" },      // GPT-2, RoBERTa
    { "vocab.txt", NULL },               // BERT
    { "tokenizer.bin", NULL },           // llama2.c
};
enum { FILES = sizeof files / sizeof files[0] };

const char *qkv_tokenizer_file(int n, const char **second)
{
    const bool known = n >= 0 && n < FILES;
    if (second) *second = known ? files[n].second : NULL;
    return known ? files[n].name : NULL;
}

qkv_status qkv_tokenizer_locate(const char **file, char buffer[QKV_PATH], const char *path,
                                qkv_error *err)
{
    char first[QKV_PATH];
    struct stat st;
    *file = path;
    if (stat(path, &st) != 0) return QKV_OK;
    const bool checkpoint = !S_ISDIR(st.st_mode) && is_checkpoint(path);
    if (!S_ISDIR(st.st_mode) && !checkpoint) return QKV_OK;
    *file = buffer;
    for (int i = 0; i < FILES; i++) {
        const qkv_status status = checkpoint ? qkv_path_sibling(buffer, path, files[i].name, err)
                                             : qkv_path_join(buffer, path, files[i].name, err);
        if (status) return status;
        if (i == 0) memcpy(first, buffer, sizeof first);
        if (qkv_path_may_exist(buffer)) return QKV_OK;
    }
    memcpy(buffer, first, sizeof first); // opening it reports that it does not exist
    return QKV_OK;
}

const char *qkv_tokenizer_name_of_copy(const char *file)
{
    static const struct {
        qkv_text_reader *reader;
        const char *name;
    } names[] = { { qkv_read_spm, "tokenizer.model" },
                  { qkv_read_marian, "source.spm" },
                  { qkv_read_llama2c, "tokenizer.bin" },
                  { qkv_read_vocab_list, "vocab.txt" },
                  { qkv_read_vocab_pair, "vocab.json" } };
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    qkv_text_reader *const reader = reader_of(file);
    if (!reader) return "tokenizer.json";
    for (int i = 0; i < FILES; i++)
        if (strcmp(name, files[i].name) == 0) return files[i].name;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].reader == reader) return names[i].name;
    return "tokenizer.json";
}

qkv_status qkv_tokenizer_open(qkv_tokenizer **out, const char *path, qkv_error *err)
{
    char buffer[QKV_PATH];
    const char *file;
    if (out) *out = NULL;
    if (!out || !path)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "qkv_tokenizer_open: expected a pointer for the tokenizer and a path, found NULL");
    const qkv_status status = qkv_tokenizer_locate(&file, buffer, path, err);
    return status ? status : open_file(out, file, err);
}
