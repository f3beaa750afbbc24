// SPDX-License-Identifier: MIT
// describe.c: values of config.json that mean the same in every family.
#include "model/model.h"

bool qkv_describe_activation(struct qkv_description *d, const struct qkv_config *c, const char *key)
{
    static const struct {
        const char *name;
        enum qkv_activation act;
    } rows[] = {
        { "gelu", QKV_ACT_GELU },           { "gelu_new", QKV_ACT_GELU_TANH },
        { "gelu_fast", QKV_ACT_GELU_TANH }, { "gelu_pytorch_tanh", QKV_ACT_GELU_TANH },
        { "relu", QKV_ACT_RELU },           { "silu", QKV_ACT_SILU },
        { "swish", QKV_ACT_SILU },          { "tanh", QKV_ACT_TANH },
        { "linear", QKV_ACT_NONE },
    };
    enum { ROWS = sizeof rows / sizeof rows[0] };
    const char *names[ROWS + 1] = { NULL };
    int at = 0;
    for (int i = 0; i < ROWS; i++) names[i] = rows[i].name;
    if (!qkv_config_choice(c, key, false, &at, names)) return false;
    d->act = rows[at].act;
    return true;
}
