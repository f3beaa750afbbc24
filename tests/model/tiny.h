// SPDX-License-Identifier: MIT
// tiny.h: opens the small random models of tests/golden, each a folder with its results
// (tools/golden.py, tools/golden_families.py). New folders are found automatically.
#ifndef QKV_TINY_H
#define QKV_TINY_H
#include "model/family/golden.h"
#include "file/file.h"
#include <dirent.h>
#include <unistd.h>

// The folder of the models: tests/golden, or QKV_GOLDEN (tools/draw_families.py), with '/' at its
// end.
static inline const char *tiny_folder(void)
{
    const char *other = getenv("QKV_GOLDEN");
    return other ? other : GOLDEN;
}
// The names of its folders that contain a model and its results.
enum { TINY_MAX = 160 };
static char tiny_names[TINY_MAX][64];
static int tiny_count;
// Returns the path of a file in such a folder ("": the folder); valid until the next call.
static inline const char *tiny_path(const char *name, const char *file)
{
    static char path[512];
    CHECK(strlen(name) < sizeof tiny_names[0]);
    snprintf(path, sizeof path, "%s%.63s/%.63s", tiny_folder(), name, file);
    return path;
}
static inline int tiny_by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}
static inline void tiny_find(void)
{
    char path[512];
    DIR *d = opendir(tiny_folder());
    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        snprintf(path, sizeof path, "%s%s/golden.safetensors", tiny_folder(), e->d_name);
        if (access(path, R_OK) != 0) continue;
        CHECK(tiny_count < TINY_MAX && strlen(e->d_name) < sizeof tiny_names[0]);
        strcpy(tiny_names[tiny_count++], e->d_name);
    }
    closedir(d);
    qsort(tiny_names, (size_t)tiny_count, sizeof tiny_names[0], tiny_by_name);
    CHECK(tiny_count >= (getenv("QKV_GOLDEN") ? 1 : 9));
}
#define EACH_TINY(name)                                                                            \
    if (!tiny_count) tiny_find();                                                                  \
    for (char(*name)[64] = tiny_names; name < tiny_names + tiny_count; name++)

// Loops over all folders and over every precision p that this CPU supports; in slow builds only
// over the first precisions.
#define EACH_TINY_PRECISION(name, p)                                                               \
    EACH_TINY(name)                                                                                \
    for (qkv_precision p = QKV_PRECISION_F32; p <= QKV_PRECISION_INT8; p++)                        \
        if (qkv_precision_runs(p) && !(QKV_FEW && p > QKV_PRECISION_F32_STRICT))

struct tiny {
    qkv_model *model;
    qkv_tensors *golden;
    struct qkv_model_info info;
    struct qkv_model_input in,
        source; // in.source: &source for an encoder-decoder, set by tiny_input
    int64_t R;
};
static inline bool tiny_has(const struct tiny *t, const char *what)
{
    return golden_find(t->golden, NULL, what) != NULL;
}
static inline struct tiny open_tiny(const char *name, qkv_precision p)
{
    const struct qkv_model_options o = { .precision = p };
    struct tiny t = { 0 };
    qkv_error err = { 0 };
    if (qkv_model_open(&t.model, tiny_path(name, ""), &o, &err))
        fail_msg("%s: %s %s", name, err.path, err.text);
    if (qkv_tensors_open(&t.golden, tiny_path(name, "golden.safetensors"), NULL, &err))
        fail_msg("%s: %s", name, err.text);
    t.info = qkv_model_info(t.model);
    t.in.offsets = golden_get(t.golden, NULL, "offsets", QKV_I64, 4);
    t.in.sequences = 3;
    t.R = t.in.offsets[3];
    t.in.ids = golden_get(t.golden, NULL, "ids", QKV_I32, t.R);
    t.in.types = golden_get(t.golden, NULL, "types", QKV_I32, t.R);
    if (tiny_has(&t, "source.ids")) {
        t.source.offsets = golden_get(t.golden, NULL, "source.offsets", QKV_I64, 4);
        t.source.sequences = 3;
        t.source.ids = golden_get(t.golden, NULL, "source.ids", QKV_I32, t.source.offsets[3]);
    }
    return t;
}
// Returns the input of a run, which points to members of t, so t must not move during the run.
static inline const struct qkv_model_input *tiny_input(struct tiny *t)
{
    t->in.source = t->source.ids ? &t->source : NULL;
    return &t->in;
}
// Returns the tolerance of hidden states, or of attention: at least the one of tests/golden, and
// for other folders four times the error of the reference in f32, which golden.safetensors states.
static inline double tiny_tolerance(const struct tiny *t, bool attention)
{
    const double most = attention ? golden_attention_tolerance : golden_hidden_tolerance;
    if (!tiny_has(t, "own")) return most;
    const float *own = golden_get(t->golden, NULL, "own", QKV_F32, 2);
    return fmax(most, 4 * (double)own[attention]);
}
static inline void close_tiny(struct tiny *t)
{
    qkv_model_close(t->model);
    qkv_tensors_close(t->golden);
}
static inline void tiny_unused(void)
{
    (void)tiny_path;
    (void)open_tiny;
    (void)tiny_tolerance;
    (void)tiny_input;
    (void)close_tiny;
    (void)tiny_unused;
}

// Three sequences, each padded to TINY_LONG with an invalid token id, which must have no effect.
enum { TINY_LONG = 13 };
struct tiny_padded {
    int32_t ids[3 * TINY_LONG], types[3 * TINY_LONG];
    int64_t offsets[4], lengths[3];
    struct qkv_model_input in;
};
static inline void tiny_pad(struct tiny_padded *p, const struct qkv_model_input *from)
{
    for (int i = 0; i < 3 * TINY_LONG; i++) p->ids[i] = p->types[i] = -1; // never read
    for (int64_t i = 0; i <= 3; i++) p->offsets[i] = i * TINY_LONG;
    for (int64_t i = 0; i < 3; i++) {
        p->lengths[i] = from->offsets[i + 1] - from->offsets[i];
        for (int64_t j = 0; j < p->lengths[i]; j++) {
            p->ids[i * TINY_LONG + j] = from->ids[from->offsets[i] + j];
            p->types[i * TINY_LONG + j] = from->types ? from->types[from->offsets[i] + j] : 0;
        }
    }
    p->in = (struct qkv_model_input){ .sequences = 3,
                                      .offsets = p->offsets,
                                      .lengths = p->lengths,
                                      .ids = p->ids,
                                      .types = p->types };
}
#endif
