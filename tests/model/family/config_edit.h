// SPDX-License-Identifier: MIT
// config_edit.h: changes config.json of the small models of every family.
#ifndef QKV_CONFIG_EDIT_H
#define QKV_CONFIG_EDIT_H
#include "model/folder.h"
#include "model/model_internal.h"
#include "model/tiny.h"

static inline json_t *config_of(const char *name)
{
    json_error_t err;
    json_t *root = json_load_file(tiny_path(name, "config.json"), 0, &err);
    if (!root) fail_msg("%s: %s", name, err.text);
    return root;
}
// Makes a folder with the tensors of `name` and this config, whose reference it takes over.
static inline void folder_with(const char *name, json_t *config)
{
    char *text = json_dumps(config, 0);
    CHECK(text != NULL);
    folder_new();
    folder_link("model.safetensors", tiny_path(name, "model.safetensors"));
    folder_text("config.json", text);
    free(text);
    json_decref(config);
}

// All folders that have a config.
#define EACH_CONFIG(name)                                                                          \
    EACH_TINY(name)                                                                                \
    if (access(tiny_path(*name, "config.json"), R_OK) == 0)

// Sets a value by its path, such as "rope_scaling.factor".
static inline void put(json_t *config, const char *place, const char *value)
{
    char head[64];
    json_error_t err;
    const char *dot = strchr(place, '.');
    if (dot) {
        snprintf(head, sizeof head, "%.*s", (int)(dot - place), place);
        put(json_object_get(config, head), dot + 1, value);
        return;
    }
    json_t *parsed = value ? json_loads(value, JSON_DECODE_ANY, &err) : NULL;
    if (value && !parsed) fail_msg("%s: %s", value, err.text);
    if (parsed)
        json_object_set_new(config, place, parsed);
    else
        json_object_del(config, place);
}

// Returns true if the reference ties the output projection of a family whenever the file has none.
static inline bool config_always_tied(const struct tiny *t)
{
    const char *type = t->info.family;
    return !strcmp(type, "t5") || !strcmp(type, "mt5");
}
#endif
