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

const char
    *const
        qkv_tokenizer_files[QKV_TOKENIZER_FILES][2] = {
            { "tokenizer.json", NULL },
            { "source.spm", "vocab.json" }, // the source side of a Marian translator
            { "tokenizer.model", NULL },
            { "spiece.model", NULL },
            { "spm.model", NULL },
            { "sentencepiece.bpe.model", NULL },
            { "vocab.json", "merges.txt" },
            { "vocab.txt", NULL },
            { "tokenizer.bin", NULL },
        };

qkv_status qkv_tokenizer_open(qkv_tokenizer **out, const char *path, qkv_error *err)
{
    char file[QKV_PATH], first[QKV_PATH];
    struct stat st;
    if (out) *out = NULL;
    if (!out || !path)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "qkv_tokenizer_open: expected a pointer for the tokenizer and a path, found NULL");
    if (stat(path, &st) != 0) return open_file(out, path, err);
    const bool checkpoint = !S_ISDIR(st.st_mode) && is_checkpoint(path);
    if (!S_ISDIR(st.st_mode) && !checkpoint) return open_file(out, path, err);
    for (int i = 0; i < QKV_TOKENIZER_FILES; i++) {
        const qkv_status status = checkpoint
                                      ? qkv_path_sibling(file, path, qkv_tokenizer_files[i][0], err)
                                      : qkv_path_join(file, path, qkv_tokenizer_files[i][0], err);
        if (status) return status;
        if (i == 0) memcpy(first, file, sizeof first);
        if (qkv_path_may_exist(file)) return open_file(out, file, err);
    }
    return qkv_tokenizer_read(out, first, err); // reports that the file does not exist
}
