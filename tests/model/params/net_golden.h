// SPDX-License-Identifier: MIT
// net_golden.h: opens the models and batches that tools/golden_net.py writes.
#ifndef QKV_NET_GOLDEN_H
#define QKV_NET_GOLDEN_H
#include "check.h"
#include "model/params/net_layers.h"
#include <stdlib.h>

// An opened folder of tests/golden: its model, its batch and the results of torch.
struct net_golden {
    const char *name;
    qkv_net *net;
    qkv_tensors *kept;
    struct qkv_net_batch batch;
    int64_t rows; // number of rows with a target, the divisor of the mean loss
};

static inline const struct qkv_tensor *net_golden_find(const struct net_golden *g, const char *what)
{
    return qkv_tensors_find(g->kept, what);
}
static inline const void *net_golden_get(const struct net_golden *g, const char *what)
{
    const struct qkv_tensor *t = net_golden_find(g, what);
    if (!t) fail_msg("no %s among the golden tensors of %s", what, g->name);
    return t->data;
}
static inline int64_t net_golden_targets(const struct qkv_net_batch *b)
{
    if (b->objective == QKV_OBJECTIVE_CONTRASTIVE) return b->in.n / 2;
    if (b->objective == QKV_OBJECTIVE_CLASSIFY) return b->in.n;
    int64_t rows = 0;
    for (int64_t r = 0; r < b->in.offsets[b->in.n]; r++) rows += b->targets[r] >= 0;
    return rows;
}
static inline struct net_golden net_golden_open(const char *name, enum qkv_objective objective,
                                                const struct qkv_net_options *o)
{
    struct net_golden g = { .name = name };
    char path[256];
    qkv_error err = { 0 };
    snprintf(path, sizeof path, "tests/golden/%s", name);
    if (qkv_net_open(&g.net, path, o, 0, 1, &err))
        fail_msg("%s: %s %s %s", name, err.file, err.path, err.text);
    snprintf(path, sizeof path, "tests/golden/%s/training.safetensors", name);
    if (qkv_tensors_open(&g.kept, path, NULL, &err)) fail_msg("%s: %s", name, err.text);
    struct qkv_net_batch *b = &g.batch;
    b->objective = objective;
    const struct qkv_tensor *offsets = net_golden_find(&g, "offsets");
    CHECK(offsets);
    b->in.n = offsets->shape[0] - 1;
    b->in.offsets = offsets->data;
    b->in.ids = net_golden_get(&g, "ids");
    if (net_golden_find(&g, "types")) b->in.types = net_golden_get(&g, "types");
    b->targets = net_golden_get(&g, "targets");
    if (net_golden_find(&g, "source.ids")) {
        b->source = b->in;
        b->source.offsets = net_golden_get(&g, "source.offsets");
        b->source.ids = net_golden_get(&g, "source.ids");
        b->source.types = NULL;
    }
    g.rows = net_golden_targets(b);
    return g;
}
static inline void net_golden_close(struct net_golden *g)
{
    qkv_net_free(g->net);
    qkv_tensors_close(g->kept);
}
// Returns the mean loss of the batch; if requested, computes the gradients of the mean from 0.
static inline double net_golden_run(struct net_golden *g, bool gradients)
{
    struct qkv_loss loss = { 0 };
    qkv_error err = { 0 };
    if (gradients) qkv_net_zero_gradients(g->net);
    if (qkv_net_run(g->net, &loss, &g->batch, gradients, (real)(1.0 / (double)g->rows), 3, 5, &err))
        fail_msg("%s: %s", g->name, err.text);
    return loss.sum;
}
static inline void net_golden_unused(void)
{
    (void)net_golden_open;
    (void)net_golden_close;
    (void)net_golden_run;
    (void)net_golden_unused;
}
static const struct {
    const char *name;
    enum qkv_objective objective;
} net_goldens[] = {
    { "net-gpt2", QKV_OBJECTIVE_CAUSAL },    { "net-llama", QKV_OBJECTIVE_CAUSAL },
    { "net-bert", QKV_OBJECTIVE_MASKED },    { "net-labels", QKV_OBJECTIVE_CLASSIFY },
    { "net-marian", QKV_OBJECTIVE_SEQ2SEQ }, { "net-bert", QKV_OBJECTIVE_CONTRASTIVE },
};
enum { NET_GOLDENS = sizeof net_goldens / sizeof net_goldens[0] };
#endif
