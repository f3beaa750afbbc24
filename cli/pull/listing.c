// SPDX-License-Identifier: MIT
// listing.c: reads the list of files of a repository, checks every path in it, and decides which
// files qkv reads.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "pull/pull.h"

enum { TREE_VERSION = 1, TREE_BYTES = 64 << 20 };

void listing_free(struct pull_listing *l)
{
    for (int64_t i = 0; i < l->count; i++) free(l->file[i].path);
    free(l->file);
    free(l->slot);
    *l = (struct pull_listing){ 0 };
}

// Returns true if the path stays below its folder and can be a name of a file on every system.
static bool is_safe(const char *path)
{
    const size_t n = strlen(path);
    if (!n || n >= PULL_NAME || path[0] == '/' || path[n - 1] == '/') return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)path[i] < ' ' || path[i] == 127 || strchr("\\:", path[i])) return false;
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        const size_t k = strcspn(part, "/");
        if (!k || k > 255 || (k == 1 && part[0] == '.') || (k == 2 && !memcmp(part, "..", 2)))
            return false;
    }
    return true;
}

static bool is_hex(const char *text, size_t digits)
{
    return text && strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

// Copies a digest that must have this number of digits; a missing one is "".
static bool copy_digest(char out[PULL_DIGEST], const qkv_json *v, size_t digits)
{
    const char *const text = qkv_json_get_string(v, NULL);
    out[0] = 0;
    if (qkv_json_kind_of(v) == QKV_JSON_NULL) return true;
    if (!is_hex(text, digits)) return false;
    memcpy(out, text, digits + 1);
    return true;
}

// Returns the slot of a path in the table of files: that of the file of this path, or a free one.
static int64_t find_slot(const struct pull_listing *l, const char *path)
{
    uint64_t hash = 0xcbf29ce484222325u; // FNV-1a
    for (const char *c = path; *c; c++) hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    // half of the slots are free, and their number is a power of 2
    int64_t i = (int64_t)(hash & (uint64_t)(l->slots - 1));
    while (l->slot[i] && strcmp(l->file[l->slot[i] - 1].path, path) != 0)
        i = (i + 1) & (l->slots - 1);
    return i;
}

// Makes space for one more file.
static void grow(struct pull_listing *l)
{
    if (l->count < l->capacity) return;
    l->capacity = l->capacity ? 2 * l->capacity : 64;
    l->file = cmd_grow(l->file, (size_t)l->capacity, sizeof *l->file);
    l->slots = 2 * l->capacity;
    l->slot = cmd_grow(l->slot, (size_t)l->slots, sizeof *l->slot);
    memset(l->slot, 0, (size_t)l->slots * sizeof *l->slot);
    for (int64_t i = 0; i < l->count; i++) l->slot[find_slot(l, l->file[i].path)] = (int32_t)i + 1;
}

static qkv_status add_file(struct pull_listing *l, const char *path, const struct pull_file *f,
                           qkv_error *err)
{
    if (!path || !is_safe(path))
        return cmd_error(err, QKV_ERR_FORMAT, NULL,
                         "list of files: '%.200s' is no path below the folder of a model",
                         path ? path : "");
    if (l->count == PULL_FILES)
        return cmd_error(err, QKV_ERR_LIMIT, NULL, "list of files: more than %d files", PULL_FILES);
    grow(l);
    const int64_t at = find_slot(l, path);
    if (l->slot[at])
        return cmd_error(err, QKV_ERR_FORMAT, NULL, "list of files: '%.200s' occurs twice", path);
    l->file[l->count] = *f;
    l->file[l->count++].path = strcpy(cmd_grow(NULL, strlen(path) + 1, 1), path);
    l->slot[at] = (int32_t)l->count;
    return QKV_OK;
}

// Reads the size and digests of a file, whose members have these names.
static bool read_file_members(struct pull_file *f, const qkv_json *size, const qkv_json *blob,
                              const qkv_json *sha256, const qkv_json *xet)
{
    *f = (struct pull_file){ .size = -1 };
    return qkv_json_get_integer(size, &f->size) && f->size >= 0 && copy_digest(f->blob, blob, 40) &&
           f->blob[0] && copy_digest(f->sha256, sha256, 64) && copy_digest(f->xet, xet, 64);
}

qkv_status listing_add(struct pull_listing *l, const char *text, size_t bytes, qkv_error *err)
{
    qkv_json *root;
    qkv_status status = qkv_json_read(&root, text, bytes, err);
    if (status) return status;
    if (qkv_json_kind_of(root) != QKV_JSON_ARRAY)
        status = cmd_error(err, QKV_ERR_FORMAT, NULL, "list of files: expected an array, found %s",
                           qkv_json_kind_name(root));
    for (int64_t i = 0; !status && i < qkv_json_length(root); i++) {
        const qkv_json *const v = qkv_json_element(root, i), *const lfs = qkv_json_lookup(v, "lfs");
        const char *const type = qkv_json_get_string(qkv_json_lookup(v, "type"), NULL);
        const char *const path = qkv_json_get_string(qkv_json_lookup(v, "path"), NULL);
        struct pull_file f;
        if (type && !strcmp(type, "directory")) continue;
        if (!read_file_members(&f, qkv_json_lookup(v, "size"), qkv_json_lookup(v, "oid"),
                               qkv_json_lookup(lfs, "oid"), qkv_json_lookup(v, "xetHash")))
            status =
                cmd_error(err, QKV_ERR_FORMAT, NULL,
                          "list of files: '%.200s' has no valid size and digest", path ? path : "");
        else
            status = add_file(l, path, &f, err);
    }
    qkv_json_free(root);
    return status;
}

// ---- which files -------------------------------------------------------------------------------
static bool ends(const char *name, const char *end)
{
    return cmd_ends_with(name, end);
}

// Returns true if qkv reads a file of this name in the folder of a model or of one of its modules.
static bool is_read(const char *name)
{
    static const char *const names[] = {
        "config.json",
        "generation_config.json",
        "modules.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "target.spm",
        "chat_template.jinja",
        "chat_template.json",
        "model.safetensors.index.json",
    };
    const char *file, *second;
    for (int i = 0; (file = qkv_tokenizer_file(i, &second)) != NULL; i++)
        if (!strcmp(name, file) || (second && !strcmp(name, second))) return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return true;
    if (!strncmp(name, "config_", 7) && ends(name, ".json"))
        return true; // of sentence-transformers
    if (!strncmp(name, "sentence_", 9) && ends(name, "_config.json")) return true;
    if (!strncmp(name, "model.qkv-int8", 14))
        return ends(name, ".safetensors") || ends(name, ".json");
    return !strcmp(name, "model.safetensors") ||
           (!strncmp(name, "model-", 6) && ends(name, ".safetensors"));
}

bool listing_wanted(const char *path)
{
    const char *const slash = strchr(path, '/');
    if (!slash) return is_read(path);
    // a module of sentence-transformers: 1_Pooling/config.json
    const size_t digits = strspn(path, "0123456789");
    return digits && path[digits] == '_' && !strchr(slash + 1, '/') && is_read(slash + 1);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct pull_file *)a)->path, ((const struct pull_file *)b)->path);
}

// Returns true if one of the folders of file n of a sorted list is a file.
static bool is_below_file(const struct pull_listing *l, int64_t n)
{
    const char *const path = l->file[n].path;
    char folder[PULL_NAME];
    for (const char *end = path; (end = strchr(end, '/')) != NULL; end++) {
        const struct pull_file key = { .path = folder };
        memcpy(folder, path, (size_t)(end - path));
        folder[end - path] = 0;
        if (bsearch(&key, l->file, (size_t)l->count, sizeof key, by_path)) return true;
    }
    return false;
}

qkv_status listing_finish(struct pull_listing *l, const char *model, qkv_error *err)
{
    bool weights = false, other = false, config = false;
    if (l->count) qsort(l->file, (size_t)l->count, sizeof *l->file, by_path);
    for (int64_t i = 0; i < l->count; i++) {
        struct pull_file *const f = &l->file[i];
        const bool tensors = ends(f->path, ".safetensors");
        if (is_below_file(l, i))
            return cmd_error(err, QKV_ERR_FORMAT, NULL,
                             "%s: list of files: '%.200s' is below a file", model, f->path);
        f->wanted = listing_wanted(f->path);
        if (f->wanted && f->size > (tensors ? PULL_WEIGHTS_BYTES : PULL_TEXT_BYTES))
            return cmd_error(err, QKV_ERR_LIMIT, NULL,
                             "%s: %.200s has %lld bytes, expected at most %lld", model, f->path,
                             (long long)f->size,
                             (long long)(tensors ? PULL_WEIGHTS_BYTES : PULL_TEXT_BYTES));
        weights = weights || (f->wanted && tensors);
        // the model of sentence-transformers may be in the folder of its first module
        config = config || !strcmp(f->path, "config.json") ||
                 (f->wanted && !strncmp(f->path, "0_", 2) && ends(f->path, "/config.json"));
        other = other || ends(f->path, ".bin") || ends(f->path, ".h5") || ends(f->path, ".onnx") ||
                ends(f->path, ".gguf") || ends(f->path, ".msgpack") || ends(f->path, ".pt");
    }
    if (!weights && other)
        return cmd_error(err, QKV_ERR_UNSUPPORTED, NULL,
                         "%s has weights in other formats only, expected model.safetensors or its "
                         "shards",
                         model);
    return config ? QKV_OK
                  : cmd_error(err, QKV_ERR_UNSUPPORTED, NULL,
                              "%s has no config.json, expected config.json and model.safetensors",
                              model);
}

// ---- trees/COMMIT.json -------------------------------------------------------------------------
bool listing_read(struct pull_listing *l, const char *path, qkv_error *err)
{
    qkv_json *root = NULL;
    qkv_error broken = { 0 };
    int64_t version = 0;
    struct stat file;
    *l = (struct pull_listing){ 0 };
    if (stat(path, &file) != 0) {
        if (errno != ENOENT && errno != ENOTDIR)
            cmd_error(err, cmd_io_status(errno), path, "cannot read: %s", strerror(errno));
        return false;
    }
    if (file.st_size > TREE_BYTES) return false;
    const qkv_status status = qkv_json_read_file(&root, path, TREE_BYTES, &broken);
    if (status && status != QKV_ERR_FORMAT) *err = broken;
    if (status) return false;
    const qkv_json *const files = qkv_json_lookup(root, "files");
    (void)qkv_json_get_integer(qkv_json_lookup(root, "format_version"), &version);
    bool valid = version == TREE_VERSION;
    for (const char *key = NULL; valid && (key = qkv_json_next_key(files, key)) != NULL;) {
        const qkv_json *const v = qkv_json_lookup(files, key);
        struct pull_file f;
        valid =
            read_file_members(&f, qkv_json_lookup(v, "size"), qkv_json_lookup(v, "blob_id"),
                              qkv_json_lookup(v, "lfs_sha256"), qkv_json_lookup(v, "xet_hash")) &&
            !add_file(l, key, &f, &broken);
    }
    qkv_json_free(root);
    valid = valid && !listing_finish(l, "", &broken);
    if (!valid) listing_free(l);
    return valid;
}

// Writes a path as a JSON string in ASCII, as Python's json does.
static void write_name(FILE *to, const char *path)
{
    fputc('"', to);
    for (const unsigned char *p = (const unsigned char *)path; *p;) {
        const int more = *p < 0x80 ? 0 : *p < 0xe0 ? 1 : *p < 0xf0 ? 2 : 3;
        uint32_t c = more == 0 ? *p : *p & (0x3f >> more);
        p++;
        for (int i = 0; i < more && *p; i++) c = c << 6 | (*p++ & 0x3f);
        if (c >= 0x10000)
            fprintf(to, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + (c & 0x3ff));
        else if (c >= 0x80)
            fprintf(to, "\\u%04x", c);
        else
            fprintf(to, c == '"' ? "\\%c" : "%c", (int)c);
    }
    fputc('"', to);
}

qkv_status listing_write(const struct pull_listing *l, const char *path, qkv_error *err)
{
    struct cmd_file out = { 0 };
    qkv_status status = cache_make_above(path, err);
    if (!status) status = cmd_file_open(&out, path, err);
    if (status) return status;
    fprintf(out.to, "{\n \"format_version\": %d,\n \"files\": {", TREE_VERSION);
    for (int64_t i = 0; i < l->count; i++) {
        const struct pull_file *const f = &l->file[i];
        fprintf(out.to, "%s\n  ", i ? "," : "");
        write_name(out.to, f->path);
        fprintf(out.to, ": {\n   \"size\": %lld,\n   \"blob_id\": \"%s\"", (long long)f->size,
                f->blob);
        if (f->sha256[0])
            fprintf(out.to, ",\n   \"lfs_sha256\": \"%s\",\n   \"lfs_size\": %lld", f->sha256,
                    (long long)f->size);
        if (f->xet[0]) fprintf(out.to, ",\n   \"xet_hash\": \"%s\"", f->xet);
        fputs("\n  }", out.to);
    }
    fputs(l->count ? "\n }\n}" : "}\n}", out.to);
    status = cmd_file_commit(&out, err);
    cmd_file_abort(&out);
    return status;
}
