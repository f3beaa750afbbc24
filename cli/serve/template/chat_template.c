// SPDX-License-Identifier: MIT
// chat_template.c: finds the chat template of a model folder and renders messages with it.
#include "serve/template/chat_template.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONFIG_BYTES = 64 << 20, MESSAGES = 4096 };

struct chat {
    char *source, *bos, *eos;
};

// Copies a special token: a text, or an object with the text as "content".
static char *token_text(const qkv_json *root, const char *key)
{
    const qkv_json *v = qkv_json_lookup(root, key), *content = qkv_json_lookup(v, "content");
    const char *text = qkv_json_get_string(content ? content : v, NULL);
    return strdup(text ? text : "");
}

// Returns the template: a text, or of several templates the one with the name "default".
static const char *template_of(const qkv_json *root)
{
    const qkv_json *v = qkv_json_lookup(root, "chat_template");
    for (int64_t i = 0; i < qkv_json_length(v); i++) {
        const qkv_json *one = qkv_json_element(v, i);
        const char *name = qkv_json_get_string(qkv_json_lookup(one, "name"), NULL);
        if (name && strcmp(name, "default") == 0)
            return qkv_json_get_string(qkv_json_lookup(one, "template"), NULL);
    }
    return qkv_json_get_string(v, NULL);
}

qkv_status chat_open(struct serve_model *m, qkv_error *err)
{
    char config[CMD_PATH + 32], file[CMD_PATH + 32];
    qkv_json *root = NULL;
    qkv_status status = QKV_OK;
    size_t bytes;
    snprintf(config, sizeof config, "%s/tokenizer_config.json", m->dir);
    snprintf(file, sizeof file, "%s/chat_template.jinja", m->dir);
    if (access(config, F_OK) == 0) status = qkv_json_read_file(&root, config, CONFIG_BYTES, err);
    struct chat *chat = status ? NULL : calloc(1, sizeof *chat);
    if (chat) {
        const char *source = template_of(root);
        m->chat = chat;
        chat->bos = token_text(root, "bos_token");
        chat->eos = token_text(root, "eos_token");
        if (access(file, F_OK) == 0)
            status = cmd_read_file(&chat->source, &bytes, file, err);
        else if (source && !(chat->source = strdup(source)))
            status = cmd_no_memory(err);
    }
    if (!status && (!chat || !chat->bos || !chat->eos)) status = cmd_no_memory(err);
    qkv_json_free(root);
    return status;
}

void chat_close(struct serve_model *m)
{
    if (!m->chat) return;
    free(m->chat->source);
    free(m->chat->bos);
    free(m->chat->eos);
    free(m->chat);
    m->chat = NULL;
}

// Checks the content of message i: a text, or an array of parts that are texts.
static qkv_status check_content(const qkv_json *content, int64_t i, qkv_error *err)
{
    const int64_t n = qkv_json_kind_of(content) == QKV_JSON_ARRAY ? qkv_json_length(content) : 0;
    if (!n && !qkv_json_get_string(content, NULL))
        return cmd_error(err, QKV_ERR_FORMAT, NULL,
                         "message %lld: expected content, a text or an array of parts",
                         (long long)i + 1);
    for (int64_t k = 0; k < n; k++) {
        const qkv_json *part = qkv_json_element(content, k);
        const char *type = qkv_json_get_string(qkv_json_lookup(part, "type"), NULL);
        if (type && strcmp(type, "text") == 0 &&
            qkv_json_get_string(qkv_json_lookup(part, "text"), NULL))
            continue;
        return cmd_error(err, QKV_ERR_FORMAT, NULL,
                         "message %lld: part %lld is no text, expected "
                         "{\"type\":\"text\",\"text\":...}",
                         (long long)i + 1, (long long)k + 1);
    }
    return QKV_OK;
}

static qkv_status check_messages(const qkv_json *messages, qkv_error *err)
{
    if (qkv_json_kind_of(messages) != QKV_JSON_ARRAY)
        return cmd_error(err, QKV_ERR_FORMAT, NULL, "expected an array of messages, found %s",
                         qkv_json_kind_name(messages));
    if (!qkv_json_length(messages))
        return cmd_error(err, QKV_ERR_FORMAT, NULL, "expected one message or more, found none");
    if (qkv_json_length(messages) > MESSAGES)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "expected at most %d messages, found %lld",
                         MESSAGES, (long long)qkv_json_length(messages));
    for (int64_t i = 0; i < qkv_json_length(messages); i++) {
        const qkv_json *one = qkv_json_element(messages, i);
        if (!qkv_json_get_string(qkv_json_lookup(one, "role"), NULL))
            return cmd_error(err, QKV_ERR_FORMAT, NULL, "message %lld: expected role, a text",
                             (long long)i + 1);
        const qkv_status status = check_content(qkv_json_lookup(one, "content"), i, err);
        if (status) return status;
    }
    return QKV_OK;
}

qkv_status chat_render(char **out, const struct serve_model *m, const qkv_json *messages,
                       qkv_error *err)
{
    *out = NULL;
    if (!m->chat || !m->chat->source)
        return cmd_error(err, QKV_ERR_UNSUPPORTED, NULL,
                         "model %s has no chat template, expected chat_template.jinja in its "
                         "folder; /v1/completions needs none",
                         m->name);
    qkv_status status = check_messages(messages, err);
    const struct template_input in = { messages, m->chat->bos, m->chat->eos };
    if (!status) status = template_render(out, m->chat->source, strlen(m->chat->source), &in, err);
    return status;
}
