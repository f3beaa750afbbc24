// SPDX-License-Identifier: MIT
// files.c: finds model folders and reads whole files.
#include "frame/cmd.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// If `model`, or QKV_MODEL if it is NULL, is a name that the cache does not have, adds to the
// message how to get the model.  Returns err->status.
static qkv_status name_pull(const char *model, qkv_error *err)
{
    struct qkv_hub_name name;
    const size_t n = strlen(err->text);
    if (!model) model = getenv("QKV_MODEL");
    if (err->status == QKV_ERR_IO && !err->file[0] && qkv_hub_name_parse(&name, model))
        snprintf(err->text + n, sizeof err->text - n, "; 'qkv pull %s' downloads it", model);
    return err->status;
}

// Adds a model folder to the inputs, and keeps the first one for outputs that name it.
static qkv_status found(const char *dir, qkv_error *err)
{
    if (!common.found[0]) snprintf(common.found, sizeof common.found, "%s", dir);
    return cmd_input_add(dir, err);
}

qkv_status cmd_model_path(const char **path, char dir[CMD_PATH], qkv_error *err)
{
    struct qkv_hub_name name;
    static const char *const endings[] = { ".npy", ".safetensors", ".json", ".jsonl", ".bin",
                                           ".txt", ".tsv",         ".html", ".model" };
    if (!*path || access(*path, F_OK) == 0 || !qkv_hub_name_parse(&name, *path)) return QKV_OK;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (cmd_ends_with(*path, endings[i])) return QKV_OK; // the caller reports the missing file
    qkv_error missing = { 0 };
    if (qkv_model_find(dir, CMD_PATH, NULL, 0, *path, &missing)) {
        if (!strchr(*path, '/')) return QKV_OK; // a file in the current folder, more probably
        *err = missing;
        return name_pull(*path, err);
    }
    *path = dir;
    return cmd_input_add(dir, err);
}

qkv_status cmd_model_find(char dir[CMD_PATH], qkv_error *err)
{
    return cmd_model_find_named(dir, NULL, err);
}

qkv_status cmd_model_find_named(char dir[CMD_PATH], const char *model, qkv_error *err)
{
    if (!model) model = common.model;
    char why[512];
    qkv_error met = { 0 };
    const qkv_status status = qkv_model_find(dir, CMD_PATH, why, sizeof why, model, &met);
    // say which option names a model: the library does not know the options of commands
    if (status == QKV_ERR_USAGE && !model)
        return cmd_error(err, status, NULL,
                         "%s; choose a model with --model DIR or QKV_MODEL, or download one with "
                         "'qkv pull org/name' or 'make demo'",
                         met.text);
    if (status) *err = met;
    return status ? name_pull(model, err) : found(dir, err);
}

qkv_status cmd_model_find_for(enum qkv_job job, char dir[CMD_PATH], const char *model,
                              qkv_error *err)
{
    if (!model) model = common.model;
    const qkv_status status = qkv_model_find_for(job, dir, CMD_PATH, NULL, 0, model, err);
    return status ? name_pull(model, err) : found(dir, err);
}

qkv_status cmd_read_file(char **text, size_t *bytes, const char *path, qkv_error *err)
{
    struct cmd_lines l;
    size_t capacity = 1 << 16;
    // cmd_lines_open() refuses folders and endless devices
    qkv_status status = cmd_lines_open(&l, path, err);
    *text = NULL;
    *bytes = 0;
    if (status) return status;
    if (l.size > 0) capacity = (size_t)l.size + 2;
    *text = cmd_grow(NULL, capacity, 1);
    for (int64_t n = 1; !status && n > 0;) {
        status = cmd_lines_read(&l, *text + *bytes, capacity - *bytes - 1, &n, err);
        if (n > 0) *bytes += (size_t)n;
        if (*bytes + 1 < capacity) continue;
        capacity *= 2;
        *text = cmd_grow(*text, capacity, 1);
    }
    (*text)[*bytes] = 0;
    cmd_lines_close(&l);
    return status;
}
