// SPDX-License-Identifier: MIT
// one_text.h: a golden model with one text of ids, and one source if the model reads one.
#ifndef QKV_ONE_TEXT_H
#define QKV_ONE_TEXT_H
#include "model/family/golden.h"

enum { TOKENS = 9, SOURCE = 6 };

struct text {
    qkv_model *m;
    struct qkv_model_info info;
    int32_t ids[TOKENS], source_ids[SOURCE];
    int64_t offsets[2], source_offsets[2];
    struct qkv_model_input in, source;
};

static inline void open_text(struct text *t, const char *folder)
{
    char path[256];
    qkv_error err = { 0 };
    *t = (struct text){ .offsets = { 0, TOKENS }, .source_offsets = { 0, SOURCE } };
    snprintf(path, sizeof path, GOLDEN "%s", folder);
    if (qkv_model_open(&t->m, path, NULL, &err)) fail_msg("%s: %s", folder, err.text);
    t->info = qkv_model_info(t->m);
    for (int i = 0; i < TOKENS; i++) t->ids[i] = (int32_t)((i * 7 + 3) % t->info.vocab);
    for (int i = 0; i < SOURCE; i++) t->source_ids[i] = (int32_t)((i * 5 + 2) % t->info.vocab);
    t->source = (struct qkv_model_input){ .sequences = 1,
                                          .offsets = t->source_offsets,
                                          .ids = t->source_ids };
    t->in = (struct qkv_model_input){ .sequences = 1, .offsets = t->offsets, .ids = t->ids };
    if (t->info.kind == QKV_KIND_ENCODER_DECODER) t->in.source = &t->source;
}
#endif
