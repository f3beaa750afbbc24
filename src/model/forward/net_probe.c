// SPDX-License-Identifier: MIT
// net_probe.c: runs a trainable Transformer on one sequence and collects statistics of its
// self-attention, in memory linear in the tokens.
#include "model/forward/net_state.h"
#include "model/forward/observe.h"
#include <inttypes.h>

// State of a run with a probe: the arrays of statistics, which all layers reuse, and the caller's
// callback.
struct probing {
    struct qkv_probe p;
    void (*layer)(void *user, int64_t layer, const struct qkv_probe *p);
    void *user;
};

static qkv_status layer_done(struct qkv_net_state *f, struct qkv_net_side *s, int64_t layer)
{
    const struct probing *l = f->ctx;
    (void)s;
    l->layer(l->user, layer, &l->p);
    return QKV_OK;
}

// Runs the encoder, or the only stack of a decoder, and stores nothing for backward.
static qkv_status run_stack(struct qkv_net_state *f, const struct qkv_sequences *in, qkv_error *err)
{
    const bool decoder = f->n->kind == QKV_NET_DECODER;
    const struct qkv_net_plan plan = { .encoder = decoder ? NULL : in,
                                       .decoder = decoder ? in : NULL };
    f->keeping = QKV_KEEP_NOTHING;
    qkv_status status = qkv_net_begin(f, &plan, err);
    if (!status) {
        status = qkv_net_side_forward(f, decoder ? &f->decoder : &f->encoder);
        if (status)
            qkv_fail(err, status, NULL, "a layer of the model cannot run: %s",
                     qkv_status_name(status));
    }
    qkv_net_end(f);
    return status;
}

qkv_status qkv_net_probe(qkv_net *n, const struct qkv_probe_request *w,
                         void (*layer)(void *user, int64_t layer, const struct qkv_probe *p),
                         void *user, const struct qkv_sequences *in, qkv_error *err)
{
    struct probing l = { .layer = layer, .user = user };
    struct qkv_net_state f = { .n = n, .probe = &l.p, .layer_done = layer_done, .ctx = &l };
    struct qkv_arena count = { .size = SIZE_MAX };
    if (n->kind == QKV_NET_GRU_ATTENTION || in->n != 1)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "attention statistics require a Transformer and one sequence, found a %s "
                        "and %" PRId64 " sequences",
                        n->model_type, in->n);
    qkv_status status = qkv_probe_request_check(w, err);
    if (!status) status = qkv_net_check_sequences(n, n->kind == QKV_NET_ENCODER_DECODER, in, err);
    if (status) return status;
    const int64_t H = n->is.size.heads, T = in->offsets[1];
    l.p.row = w->row;
    while (l.p.rows < w->rows && w->row[l.p.rows] < T) l.p.rows++;
    qkv_probe_take(&l.p, &count, w, H, T, T);
    void *memory = qkv_arena_full(&count) ? NULL : qkv_alloc(count.used, 1);
    if (!memory) return qkv_fail_memory(err, NULL);
    struct qkv_arena arena = { memory, count.used, 0 };
    qkv_probe_take(&l.p, &arena, w, H, T, T);
    status = run_stack(&f, in, err);
    qkv_free(memory);
    return status;
}
