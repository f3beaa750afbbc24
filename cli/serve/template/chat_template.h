// SPDX-License-Identifier: MIT
// chat_template.h: declares how the messages of a chat become a prompt: by the chat template of the
// model folder, in a subset of the language Jinja.
#ifndef QKV_CLI_CHAT_TEMPLATE_H
#define QKV_CLI_CHAT_TEMPLATE_H

#include "serve/serve.h"

// Reads the template and the special tokens that it may insert from tokenizer_config.json or
// chat_template.jinja of the folder; without them, the model has no chats.
qkv_status chat_open(struct serve_model *m, qkv_error *err);
void chat_close(struct serve_model *m);
// Renders messages, an array of objects with role and content, to *out, which the caller frees.
// Returns QKV_ERR_UNSUPPORTED if the model has no template, or if the template needs a part of the
// language that is not supported: err names it and its line.
qkv_status chat_render(char **out, const struct serve_model *m, const qkv_json *messages,
                       qkv_error *err);

// The values that a template may use.
struct template_input {
    const qkv_json *messages;
    const char *bos, *eos; // "" if there is none
};
// Renders source[bytes] (template.c).
qkv_status template_render(char **out, const char *source, size_t bytes,
                           const struct template_input *in, qkv_error *err);
#endif
