// SPDX-License-Identifier: MIT
// test_states_names.c: checks the names of queries, keys and values, of small random models of
// every family, against tests/golden/modules.safetensors: the names that tools/golden_modules.py
// found in transformers, and the arrays that have these names there.
#include "model/tiny.h"

#define MODULES GOLDEN "modules.safetensors"

// The families of transformers in model.def.
static const char *const families[] = {
#define QKV_MODEL(name, model_type) model_type,
#include "model/family/model.def"
#undef QKV_MODEL
};
enum { FAMILIES = sizeof families / sizeof families[0] };

struct check {
    const char *folder;
    const struct tiny *t;
    qkv_tensors *modules;
    int64_t compared;
};

static void compare(struct check *c, const struct qkv_layer_output *s, char which, const float *x,
                    int64_t rows, int64_t width)
{
    char label[256], name[96];
    CHECK(qkv_model_states_name(name, sizeof name, c->t->model, s->part, s->layer, which) == name);
    snprintf(label, sizeof label, "%s:%s", c->folder, name);
    const struct qkv_tensor *want = qkv_tensors_find(c->modules, label);
    if (!want) fail_msg("%s: transformers has no array of this name", label);
    CHECK_EQ(want->dtype, QKV_F32);
    CHECK_EQ(want->rank, 2);
    CHECK_EQ(want->shape[1], width);
    CHECK(want->shape[0] >= 3 && want->shape[0] <= rows);
    const float *y = want->data;
    double largest = 1;
    for (int64_t i = 0; i < qkv_tensor_count(want); i++)
        largest = fmax(largest, fabs((double)y[i]));
    for (int64_t i = 0; i < qkv_tensor_count(want); i++)
        if (!(fabs((double)x[i] - (double)y[i]) <= golden_hidden_tolerance * largest))
            fail_msg("%s: element %lld is %.9g, expected %.9g", label, (long long)i, (double)x[i],
                     (double)y[i]);
    c->compared++;
}

static int check_layer(void *user, const struct qkv_layer_output *s)
{
    if (s->layer < 0) return 0;
    compare(user, s, 'q', s->q, s->R, s->H * s->E);
    compare(user, s, 'k', s->k, s->S, s->G * s->E);
    compare(user, s, 'v', s->v, s->S, s->G * s->F);
    return 0;
}

static int64_t count_of(qkv_tensors *modules, const char *folder)
{
    const size_t n = strlen(folder);
    int64_t count = 0;
    for (int64_t i = 0; i < qkv_tensors_count(modules); i++) {
        const char *name = qkv_tensors_at(modules, i)->name;
        count += !strncmp(name, folder, n) && name[n] == ':';
    }
    return count;
}

TEST(names_and_arrays_equal_transformers_in_every_family)
{
    bool seen[FAMILIES] = { false };
    struct check c = { 0 };
    qkv_error err = { 0 };
    if (qkv_tensors_open(&c.modules, MODULES, NULL, &err)) fail_msg("%s", err.text);
    EACH_TINY(name)
    {
        const int64_t count = count_of(c.modules, *name);
        if (!count) continue;
        struct tiny t = open_tiny(*name, QKV_PRECISION_F32);
        t.in.sequences = t.source.sequences = 1; // the arrays belong to the first text
        c.folder = *name;
        c.t = &t;
        c.compared = 0;
        const struct qkv_observer observer = { .layer = check_layer, .user = &c };
        if (qkv_model_run(t.model, NULL, tiny_input(&t), &observer, &err))
            fail_msg("%s: %s", *name, err.text);
        CHECK_EQ(c.compared, count);
        for (int i = 0; i < FAMILIES; i++) seen[i] |= !strcmp(families[i], t.info.family);
        close_tiny(&t);
    }
    for (int i = 0; i < FAMILIES; i++)
        if (!seen[i] && strncmp(families[i], "qkv-", 4) != 0)
            fail_msg("%s: no arrays of this family in " MODULES ", expected some: run "
                     "tools/golden_modules.py",
                     families[i]);
    qkv_tensors_close(c.modules);
}

TEST(families_of_qkv_have_the_names_of_their_tensors)
{
    static const struct {
        const char *folder;
        char which;
        const char *name;
    } rows[] = {
        { "encoder-plain", 'q', "layers.1.attention.query" },
        { "encoder-plain", 'k', "layers.1.attention.key" },
        { "encoder-plain", 'v', "layers.1.attention.value" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tiny t = open_tiny(rows[i].folder, QKV_PRECISION_F32);
        char name[96], cut[9];
        CHECK_TEXT(
            qkv_model_states_name(name, sizeof name, t.model, QKV_PART_STACK, 1, rows[i].which),
            rows[i].name);
        qkv_model_states_name(cut, sizeof cut, t.model, QKV_PART_STACK, 1, rows[i].which);
        CHECK_TEXT(cut, "layers.1");
        qkv_model_states_name(name, sizeof name, t.model, QKV_PART_STACK, t.info.layers, 'q');
        CHECK_TEXT(name, "");
        qkv_model_states_name(name, sizeof name, t.model, QKV_PART_CROSS, 0, 'q');
        CHECK_TEXT(name, "");
        close_tiny(&t);
    }
}

CHECK_MAIN(CASE(names_and_arrays_equal_transformers_in_every_family),
           CASE(families_of_qkv_have_the_names_of_their_tensors))
