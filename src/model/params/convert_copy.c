// SPDX-License-Identifier: MIT
// convert_copy.c: selects and copies the files of a model folder whose weights are converted:
// tokenizer, settings, and modules of sentence-transformers, which keep their type.
#include "model/params/convert_copy.h"
#include "text/text.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { SMALL = 64 << 20, JSON_BYTES = 1 << 20 };

static bool is_named(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash ? slash + 1 : path, name) == 0;
}

// Returns true if path is a file of a tokenizer: one that qkv_tokenizer_open opens, the second file
// of its reader, or its settings.
static bool is_tokenizer(const void *user, const char *path, int64_t bytes)
{
    const char *name, *second;
    bool is = is_named(path, "tokenizer_config.json");
    (void)user;
    for (int i = 0; !is && (name = qkv_tokenizer_file(i, &second)) != NULL; i++)
        is = is_named(path, name) || (second && is_named(path, second));
    return is && bytes <= SMALL;
}

// Returns the length of the path of a module's folder, which starts at *folder, without leading
// "./" and trailing "/"; 0 if it has none.
static size_t module_folder(const json_t *modules, size_t i, const char **folder)
{
    *folder = json_string_value(json_object_get(json_array_get(modules, i), "path"));
    while (*folder && strncmp(*folder, "./", 2) == 0)
        for (*folder += 2; **folder == '/';) ++*folder;
    size_t n = *folder ? strlen(*folder) : 0;
    while (n && (*folder)[n - 1] == '/') n--;
    return n;
}

// Returns true if path is a file of weights in a folder that modules.json names.
static bool is_module(const json_t *modules, const char *path)
{
    const char *folder;
    for (size_t i = 0; i < json_array_size(modules); i++) {
        const size_t n = module_folder(modules, i, &folder);
        if (n && strncmp(path, folder, n) == 0 && path[n] == '/' &&
            (qkv_ends_with(path, ".safetensors") || qkv_ends_with(path, ".index.json")))
            return true;
    }
    return false;
}

static bool is_wanted(const void *modules, const char *path, int64_t bytes)
{
    static const char *const weights[] = {
        ".safetensors", ".index.json", ".bin", ".pt",   ".pth", ".ckpt", ".pkl",
        ".h5",          ".msgpack",    ".ot",  ".onnx", ".npz", ".gguf", ".tflite",
    };
    // These two files of a training checkpoint describe the weights before conversion.
    if (is_named(path, "manifest.json") || is_named(path, "state.json")) return false;
    if (is_module(modules, path)) return true;
    if (is_tokenizer(NULL, path, bytes)) return true;
    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++)
        if (qkv_ends_with(path, weights[i])) return false;
    return bytes <= SMALL;
}

static qkv_status check_copy(bool *there, const char *from, const char *name, qkv_error *err)
{
    char path[QKV_PATH];
    const qkv_status status = qkv_path_join(path, from, name, err);
    *there = !status && qkv_path_may_exist(path);
    return *there ? qkv_folder_has(from, path, err) : status;
}

// Reads modules.json of a folder; *modules stays NULL if there is none.
static qkv_status read_modules(json_t **modules, const char *from, qkv_error *err)
{
    char path[QKV_PATH];
    const qkv_status status = qkv_path_join(path, from, "modules.json", err);
    return !status && qkv_path_may_exist(path) ? qkv_json_list_file(modules, path, JSON_BYTES, err)
                                               : status;
}

// Fails if the folder of a module, or a file that it needs, is a link that is not copied.
static qkv_status check_module(const char *from, const char *folder, size_t bytes, qkv_error *err)
{
    static const char *const names[] = { "config.json", "model.safetensors" };
    char name[QKV_PATH], path[QKV_PATH];
    struct stat st;
    bool there;
    snprintf(name, sizeof name, "%.*s", (int)qkv_min64((int64_t)bytes, QKV_PATH - 1), folder);
    qkv_status status = qkv_path_join(path, from, name, err);
    if (!status && lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
        status = qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = path },
                          "this folder of a module is a link, which is not copied, expected a "
                          "copy in place of the link");
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !status; i++) {
        status = qkv_path_join(path, name, names[i], err);
        if (!status) status = check_copy(&there, from, path, err);
    }
    return status;
}

qkv_status qkv_convert_check_copies(const char *from, qkv_error *err)
{
    bool found = false, there;
    const char *folder, *name, *second;
    json_t *modules = NULL;
    qkv_status status = check_copy(&there, from, "modules.json", err);
    if (!status) status = check_copy(&there, from, "tokenizer_config.json", err);
    if (!status) status = check_copy(&there, from, "target.spm", err);
    for (int i = 0; !status && !found && (name = qkv_tokenizer_file(i, &second)) != NULL; i++) {
        status = check_copy(&found, from, name, err);
        if (!status && found && second) status = check_copy(&there, from, second, err);
    }
    if (!status) status = read_modules(&modules, from, err);
    for (size_t i = 0; i < json_array_size(modules) && !status; i++) {
        const size_t bytes = module_folder(modules, i, &folder);
        if (bytes) status = check_module(from, folder, bytes, err);
    }
    json_decref(modules);
    return status;
}

qkv_status qkv_convert_copy(const struct qkv_folder *to, const char *from, bool single,
                            struct qkv_convert_report *report, qkv_error *err)
{
    json_t *modules = NULL;
    int64_t ignored = 0; // other files of the folder are not part of the model
    if (single) return qkv_folder_copy(to, from, is_tokenizer, NULL, 0, &ignored, &ignored, err);
    qkv_status status = read_modules(&modules, from, err);
    if (!status)
        status = qkv_folder_copy(to, from, is_wanted, modules, 2, &report->left_out, &report->links,
                                 err);
    json_decref(modules);
    return status;
}
