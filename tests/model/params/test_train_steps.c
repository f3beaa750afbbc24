// SPDX-License-Identifier: MIT
// test_train_steps.c: trains every family for 20 steps of AdamW from the weights of its folder in
// tests/golden and compares each loss with PyTorch's (tests/golden/train, tools/golden_train.py).
//
// The reference is f64.  Its own losses in f32 differ from it by up to 3e-6 relative; a gradient
// that lacks a term changes the losses by 1e-3 and more.  The bound is 1e-5 relative.
#include "base/base.h"
#include "check.h"
#include "model/model.h"
#include <dirent.h>
#include <stdlib.h>

enum { STEPS = 20, SEQUENCES = 3, ROWS = 64, NAME = 64 };
static const double bound = 1e-5;

// ---- the file of a folder ----------------------------------------------------------------------
struct golden_train {
    const char *name;
    json_t *root;
    enum qkv_objective objective;
    double rate, beta1, beta2, eps;
};
static const json_t *member(const struct golden_train *g, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!value) fail_msg("%s: no %s", g->name, key);
    return value;
}
static struct golden_train open_golden(const char *name)
{
    static const char *const objectives[] = {
#define QKV_OBJECTIVE_ROW(ROW, NAME_, ASKS) NAME_,
#include <qkv/objective.def>
#undef QKV_OBJECTIVE_ROW
    };
    struct golden_train g = { .name = name };
    char path[256];
    qkv_error err = { 0 };
    snprintf(path, sizeof path, "tests/golden/train/%s.json", name);
    if (qkv_json_file(&g.root, path, 1 << 20, &err)) fail_msg("%s: %s", path, err.text);
    const json_t *o = member(&g, g.root, "optimizer");
    g.rate = json_number_value(member(&g, o, "rate"));
    g.beta1 = json_number_value(member(&g, o, "beta1"));
    g.beta2 = json_number_value(member(&g, o, "beta2"));
    g.eps = json_number_value(member(&g, o, "eps"));
    const char *objective = json_string_value(member(&g, g.root, "objective"));
    int n = 0;
    while (n < QKV_OBJECTIVES && strcmp(objectives[n], objective) != 0) n++;
    CHECK(n < QKV_OBJECTIVES);
    g.objective = (enum qkv_objective)n;
    return g;
}
static double expected_loss(const struct golden_train *g, int step)
{
    return json_number_value(json_array_get(member(g, g->root, "losses"), (size_t)step));
}

// A batch and the arrays it points at.
struct batch {
    struct qkv_net_batch b;
    int64_t offsets[SEQUENCES + 1], source_offsets[SEQUENCES + 1];
    int32_t ids[ROWS], types[ROWS], targets[ROWS], source_ids[ROWS];
    int64_t count; // targets that are not -1
};
static void read_ids(int32_t *out, const json_t *list)
{
    CHECK(json_array_size(list) <= ROWS);
    for (size_t i = 0; i < json_array_size(list); i++)
        out[i] = (int32_t)json_integer_value(json_array_get(list, i));
}
static void read_offsets(int64_t *out, const json_t *list)
{
    CHECK_EQ(json_array_size(list), SEQUENCES + 1);
    for (size_t i = 0; i <= SEQUENCES; i++) out[i] = json_integer_value(json_array_get(list, i));
}
static void read_batch(struct batch *out, const struct golden_train *g, int step)
{
    const json_t *from = json_array_get(member(g, g->root, "batches"), (size_t)step);
    const json_t *targets = member(g, from, "targets"), *types = json_object_get(from, "types");
    *out = (struct batch){ .b.objective = g->objective, .b.targets = out->targets };
    read_offsets(out->offsets, member(g, from, "offsets"));
    read_ids(out->ids, member(g, from, "ids"));
    read_ids(out->targets, targets);
    if (types) read_ids(out->types, types);
    for (size_t i = 0; i < json_array_size(targets); i++) out->count += out->targets[i] >= 0;
    out->b.in =
        (struct qkv_sequences){ SEQUENCES, out->offsets, out->ids, types ? out->types : NULL };
    if (g->objective != QKV_OBJECTIVE_SEQ2SEQ) return;
    read_offsets(out->source_offsets, member(g, from, "source_offsets"));
    read_ids(out->source_ids, member(g, from, "source_ids"));
    out->b.source = (struct qkv_sequences){ SEQUENCES, out->source_offsets, out->source_ids, NULL };
}

// ---- steps -------------------------------------------------------------------------------------
// AdamW without weight decay, in double: m and v [numbers of all parameters].
struct adamw {
    double *m, *v;
};
static void update_weights(struct adamw *a, const struct golden_train *g, struct qkv_parameter *p,
                           int64_t count, int step)
{
    const double correct1 = 1 - pow(g->beta1, step + 1), correct2 = 1 - pow(g->beta2, step + 1);
    double *m = a->m, *v = a->v;
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < p[i].count; k++, m++, v++) {
            const double grad = (double)p[i].grad[k];
            *m = g->beta1 * *m + (1 - g->beta1) * grad;
            *v = g->beta2 * *v + (1 - g->beta2) * grad * grad;
            const double change = *m / correct1 / (sqrt(*v / correct2) + g->eps);
            p[i].value[k] = (real)((double)p[i].value[k] - g->rate * change);
        }
}
static double mean_loss(const struct golden_train *g, qkv_net *n, const struct batch *b,
                        bool gradients)
{
    struct qkv_loss loss = { 0 };
    qkv_error err = { 0 };
    if (gradients) qkv_net_zero_gradients(n);
    if (qkv_net_run(n, &loss, &b->b, gradients, (real)(1.0 / (double)b->count), 1, 1, &err))
        fail_msg("%s: %s", g->name, err.text);
    return loss.sum / (double)b->count;
}
static int compare_steps(const struct golden_train *g, qkv_net *n)
{
    static struct batch b;
    int64_t count, numbers = 0;
    double worst = 0;
    struct qkv_parameter *p = qkv_net_parameters(n, &count);
    for (int64_t i = 0; i < count; i++) numbers += p[i].count;
    struct adamw a = { calloc((size_t)numbers, sizeof *a.m), calloc((size_t)numbers, sizeof *a.v) };
    CHECK(a.m && a.v);
    for (int step = 0; step <= STEPS; step++) {
        const double want = expected_loss(g, step);
        read_batch(&b, g, step < STEPS ? step : 0);
        worst = fmax(worst, fabs(mean_loss(g, n, &b, step < STEPS) - want) / want);
        if (step < STEPS) update_weights(&a, g, p, count, step);
        if (worst > bound && step < 2) break; // wrong before rounding can grow
    }
    free(a.m);
    free(a.v);
    printf("%-20s losses differ by %.1e relative at most\n", g->name, worst);
    return worst > bound;
}

// 1: the folder cannot be trained, or a loss differs.
static int check_folder(const char *name)
{
    char path[256];
    qkv_error err = { 0 };
    qkv_net *n = NULL;
    snprintf(path, sizeof path, "tests/golden/%s", name);
    int bad = 1;
    if (qkv_net_open(&n, path, NULL, 0, 1, &err)) {
        printf("%s: %s %s\n", name, err.path, err.text);
    } else {
        struct golden_train g = open_golden(name);
        bad = compare_steps(&g, n);
        json_decref(g.root);
    }
    qkv_net_free(n);
    return bad;
}

TEST(twenty_steps_of_every_family_have_the_losses_of_pytorch)
{
    int files = 0, bad = 0;
    DIR *d = opendir("tests/golden/train");
    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char name[NAME];
        const size_t length = strlen(e->d_name);
        if (length < 6 || strcmp(e->d_name + length - 5, ".json") != 0) continue;
        CHECK(length < sizeof name);
        snprintf(name, sizeof name, "%.*s", (int)length - 5, e->d_name);
        bad += check_folder(name);
        files++;
    }
    closedir(d);
    CHECK(files >= 27);
    CHECK_EQ(bad, 0);
}

CHECK_MAIN(CASE(twenty_steps_of_every_family_have_the_losses_of_pytorch))
