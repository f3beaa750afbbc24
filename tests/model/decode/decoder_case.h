// SPDX-License-Identifier: MIT
// decoder_case.h: opens the small decoders and encoder-decoders of tests/golden with some tokens,
// and computes the logits of a whole run as the reference for decoding.
#ifndef QKV_DECODER_CASE_H
#define QKV_DECODER_CASE_H
#include "model/family/golden.h"
#include <dirent.h>
#include <qkv/decode.h>
#include <unistd.h>

enum { CASE_TOKENS = 40, CASE_SOURCE = 7, CASE_FOLDERS = 64 };

struct decoder_case {
    qkv_model *model;
    struct qkv_model_info info;
    int64_t T; // number of tokens: CASE_TOKENS, or as many as the model has positions
    int32_t ids[CASE_TOKENS], source[CASE_SOURCE];
    int64_t offsets[2], source_offsets[2];
    struct qkv_model_input read; // input of the encoder
};

static char case_names[CASE_FOLDERS][64];
static int case_count;
static inline int case_by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}
static inline void case_find(void)
{
    DIR *d = opendir(GOLDEN);
    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char path[512];
        qkv_model *m = NULL;
        snprintf(path, sizeof path, GOLDEN "%s", e->d_name);
        if (e->d_name[0] == '.' || qkv_model_open(&m, path, NULL, NULL)) continue;
        const struct qkv_model_info info = qkv_model_info(m);
        if (info.kind != QKV_KIND_ENCODER && (info.can & QKV_CAN_TOKENS) &&
            (info.can & QKV_CAN_RUN)) {
            CHECK(case_count < CASE_FOLDERS && strlen(e->d_name) < sizeof case_names[0]);
            strcpy(case_names[case_count++], e->d_name);
        }
        qkv_model_close(m);
    }
    closedir(d);
    qsort(case_names, (size_t)case_count, sizeof case_names[0], case_by_name);
    CHECK(case_count >= 3);
}
#define EACH_CASE(name)                                                                            \
    if (!case_count) case_find();                                                                  \
    for (char(*name)[64] = case_names; name < case_names + case_count; name++)

static inline void case_open(struct decoder_case *c, const char *name, qkv_precision p)
{
    char path[512];
    qkv_error err = { 0 };
    const struct qkv_model_options o = { .precision = p };
    snprintf(path, sizeof path, GOLDEN "%.64s", name);
    *c = (struct decoder_case){ 0 };
    if (qkv_model_open(&c->model, path, &o, &err)) fail_msg("%s: %s", name, err.text);
    c->info = qkv_model_info(c->model);
    c->T = c->info.positions < CASE_TOKENS ? c->info.positions : CASE_TOKENS;
    for (int i = 0; i < CASE_TOKENS; i++)
        c->ids[i] = (int32_t)((i * 7 + i * i % 5) % c->info.vocab);
    for (int i = 0; i < CASE_SOURCE; i++) c->source[i] = (int32_t)((3 + i * 5) % c->info.vocab);
    c->offsets[1] = c->T;
    c->source_offsets[1] = CASE_SOURCE;
    c->read =
        (struct qkv_model_input){ .sequences = 1, .offsets = c->source_offsets, .ids = c->source };
}

static inline bool case_two(const struct decoder_case *c)
{
    return c->info.kind == QKV_KIND_ENCODER_DECODER;
}

// Returns logits[T][V] of ids[T], computed by one run over all tokens; the caller frees them.
static inline float *case_whole(const struct decoder_case *c, const int32_t *ids, int64_t T)
{
    const int64_t offsets[2] = { 0, T };
    const struct qkv_model_input in = {
        .sequences = 1, .offsets = offsets, .ids = ids, .source = case_two(c) ? &c->read : NULL
    };
    float *hidden = calloc((size_t)(T * c->info.width), sizeof *hidden);
    float *logits = calloc((size_t)(T * c->info.vocab), sizeof *logits);
    qkv_error err = { 0 };
    CHECK(hidden && logits);
    if (qkv_model_run(c->model, hidden, &in, NULL, &err) ||
        qkv_model_logits(c->model, logits, hidden, T, &err))
        fail_msg("%s: %s", c->info.name, err.text);
    free(hidden);
    return logits;
}

// Returns a decoder; in an encoder-decoder every item has the source of the case.
static inline qkv_decoder *case_decoder(const struct decoder_case *c,
                                        const struct qkv_decoder_options *o)
{
    qkv_decoder *d = NULL;
    qkv_error err = { 0 };
    if (qkv_decoder_new(&d, c->model, o, &err)) fail_msg("%s: %s", c->info.name, err.text);
    for (int64_t i = 0; case_two(c) && i < o->items; i++)
        if (qkv_decoder_source(d, i, &c->read, &err)) fail_msg("%s: %s", c->info.name, err.text);
    return d;
}

// Feeds n tokens to one item.
static inline void case_feed(qkv_decoder *d, float *logits, int64_t item, const int32_t *ids,
                             int64_t n, bool every)
{
    const int64_t offsets[2] = { 0, n };
    const struct qkv_decoder_tokens t = {
        .n = 1, .items = &item, .offsets = offsets, .ids = ids, .every = every
    };
    qkv_error err = { 0 };
    if (qkv_decoder_feed(d, logits, &t, &err)) fail_msg("feed: %s", err.text);
}
#endif
