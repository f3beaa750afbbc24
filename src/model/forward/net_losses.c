// SPDX-License-Identifier: MIT
// net_losses.c: runs a batch through a trainable Transformer, forward and backward, and computes
// the loss of the batch's objective.
#include "model/forward/net_state.h"
#include <string.h>

// ---- a run and its output head -----------------------------------------------------------------
// Number of the random stream for dropout before the projection to labels. It is larger than the
// numbers of the streams of all sublayers and of the embeddings.
enum { HEAD_PLACE = (1 << 18) + 1 };

// A run: the state of the stacks, and the arrays of the computation from the last stack's output to
// the loss.
struct run {
    struct qkv_net_state f;
    const struct qkv_net_batch *b;
    struct qkv_loss *loss;
    bool gradients;
    real scale;
    // rows of the loss: sequences (contrastive, classify), masked tokens (masked), or all tokens
    int64_t rows;
    // rows that the dense layer of the head reads: `rows`, or all rows of the stack if the head
    // pools after that layer (QKV_LABEL_LATE)
    int64_t dense_rows;
    // [rows] index of each row in the stack's output; only for masked and classify
    int32_t *row;
    int32_t *targets; // [rows] targets of masked tokens
    void *d_final;    // [R][D] gradient of the stack's output, of type final_type
    // picked: [rows][D] selected rows of the stack's output; the others are [dense_rows][D], for
    // masked tokens as wide as the larger of D and the token embeddings (`wide`). dense:
    // output of the dense layer, which backward overwrites with its gradient; act: output of the
    // activation; d_act: gradient of act, then of picked (with the objective classify: gradient of
    // `read`, then of picked)
    real *picked, *dense, *act, *d_act;
    void *x, *d_x;    // [rows][D] input of the projection to tokens, and its gradient
    const real *read; // [rows][D] input of the projection to labels: act, x or d_x
    struct qkv_norm_keep keep;
    // only for contrastive: the pooled vectors [rows][D] and their lengths before scaling [rows];
    // the vectors in the order of `halve`, their gradient, and the gradient of vector, [rows][D]
    // each
    real *vector, *length, *halves, *d_halves, *d_vector;
};

// Returns the weights of the projection to tokens. If it is tied, they are the embedding table of
// the last stack.
static const struct qkv_weight *projection(const struct qkv_net_layers *body)
{
    const struct qkv_net_stack *last = body->decoder.is.block ? &body->decoder : &body->encoder;
    return body->logits.value ? &body->logits : qkv_net_words(body, last);
}

static struct qkv_cross_entropy to_tokens(const struct run *u, qkv_dtype type)
{
    const struct qkv_net_layers *body = u->f.n->body;
    return (struct qkv_cross_entropy){ .V = u->f.n->shape.vocab,
                                       .K = qkv_described_embed_width(&u->f.n->is),
                                       .w = projection(body)->value,
                                       .b = body->logits_bias.value,
                                       .times = (real)u->f.n->is.logit_scale,
                                       .softcap = (real)u->f.n->is.logit_softcap,
                                       .smoothing = u->f.n->options.smoothing,
                                       .precision = u->f.n->options.precision,
                                       .x = type,
                                       .threads = qkv_threads(),
                                       .scratch = u->f.scratch };
}

static struct qkv_cross_entropy to_labels(const struct run *u)
{
    const struct qkv_net_layers *body = u->f.n->body;
    struct qkv_cross_entropy p = to_tokens(u, 0);
    p.times = p.softcap = 0;
    p.V = body->classify.out.part[0].N;
    p.K = body->classify.out.K;
    p.w = body->classify.out.part[0].w;
    p.b = body->classify.out.part[0].b;
    return p;
}

// Rows whose tokens are predicted: x, with their targets, and the gradient of x.
struct predicted {
    struct run *u;
    void *d_x;
    const void *x;
    qkv_dtype type;
    const int32_t *targets;
    int64_t rows;
};

// Adds to *loss the cross-entropy of the logits of some rows. With u->gradients, also computes d_x
// and adds the gradients of the projection to *w and *b.
static void rows_loss(const struct predicted *p, struct qkv_loss *loss, real *w, real *b)
{
    const struct run *u = p->u;
    const struct qkv_cross_entropy how = to_tokens(u, p->type);
    if (u->gradients)
        qkv_cross_entropy(loss, p->d_x, w, b, NULL, p->x, p->targets, p->rows, u->scale, &how);
    else
        qkv_cross_entropy(loss, NULL, NULL, NULL, NULL, p->x, p->targets, p->rows, u->scale, &how);
}

static void block_loss(void *ctx, real *const *to, const struct qkv_row_block *b)
{
    struct predicted p = *(const struct predicted *)ctx;
    const size_t row =
        (size_t)qkv_described_embed_width(&p.u->f.n->is) * qkv_net_type_bytes(p.type);
    if (p.d_x) p.d_x = (char *)p.d_x + (size_t)b->first * row;
    p.x = (const char *)p.x + (size_t)b->first * row;
    p.targets += b->first;
    p.rows = b->n;
    rows_loss(&p, qkv_net_share_block_loss(&p.u->f.share, b), to[0], to[1]);
}

// Adds to the loss the cross-entropy of the logits of the rows x with their target tokens. With
// u->gradients, also computes d_x, the gradient of x, and adds the gradients of the projection.
static void tokens_loss(struct run *u, void *d_x, const void *x, qkv_dtype type,
                        const int32_t *targets, int64_t rows)
{
    struct qkv_net_layers *body = u->f.n->body;
    const struct qkv_weight *w = projection(body);
    struct predicted p = { u, d_x, x, type, targets, rows };
    const int64_t V = u->f.n->shape.vocab, K = qkv_described_embed_width(&u->f.n->is);
    const struct qkv_row_gradients g = { { u->gradients ? w->grad : NULL,
                                           u->gradients ? body->logits_bias.grad : NULL },
                                         { V * K, V } };
    if (u->f.blocks)
        qkv_row_sums_run(&u->f.share.sums, &g, block_loss, &p);
    else
        rows_loss(&p, u->loss, w->grad, body->logits_bias.grad);
}

// Computes the loss of a decoder, in which every row of the stack predicts a token; with
// u->gradients, also runs backward through the stack.
static qkv_status end_tokens(struct run *u, struct qkv_net_side *s)
{
    void *d = s->stack->is.final_norm.D ? u->d_final : u->f.back.d;
    struct qkv_net_share *x = &u->f.share;
    qkv_status status = QKV_OK;
    if (x->comm) qkv_net_share_pick(x, x->targets, u->b->targets);
    tokens_loss(u, d, s->final, s->final_type, x->comm ? x->targets : u->b->targets, s->R);
    if (u->f.blocks) status = qkv_net_share_loss(x, u->loss);
    return u->gradients && !status ? qkv_net_side_backward(&u->f, s, d) : status;
}

// Copies the rows u->row of the stack's output to u->picked.
static void pick(const struct run *u, const struct qkv_net_side *s)
{
    const size_t D = (size_t)u->f.n->shape.width;
    const real *x = s->final;
    for (int64_t i = 0; i < u->rows; i++)
        memcpy(u->picked + (size_t)i * D, x + (size_t)u->row[i] * D, D * sizeof *x);
}

// Copies the gradient d of the selected rows to their rows of u->d_final; the other rows become 0.
static void put_back(const struct run *u, const struct qkv_net_side *s, const real *d)
{
    const size_t D = (size_t)u->f.n->shape.width;
    real *to = u->d_final;
    memset(to, 0, (size_t)s->R * D * sizeof *to);
    for (int64_t i = 0; i < u->rows; i++)
        memcpy(to + (size_t)u->row[i] * D, d + (size_t)i * D, D * sizeof *to);
}

// Computes the loss of masked tokens, whose rows go through x = norm(act(dense row)), if the head
// has these layers, and the projection to tokens; with u->gradients, also runs backward.
static qkv_status end_masked(struct run *u, struct qkv_net_side *s)
{
    struct qkv_net_state *f = &u->f;
    struct qkv_net_layers *body = f->n->body;
    const struct qkv_norm *norm = &body->masked.norm;
    const enum qkv_norm_kind kind = f->n->is.norm_kind;
    const enum qkv_activation act = f->n->is.masked_act;
    const int64_t n = u->rows * body->masked.dense.part[0].N;
    pick(u, s);
    if (!body->masked.dense.K) { // the projection to tokens reads the rows themselves
        tokens_loss(u, u->d_act, u->picked, 0, u->targets, u->rows);
        if (!u->gradients) return QKV_OK;
        put_back(u, s, u->d_act);
        return qkv_net_side_backward(f, s, u->d_final);
    }
    qkv_linear_forward((void *[]){ u->dense }, NULL, u->picked, u->rows, &body->masked.dense, NULL);
    qkv_activation_forward(u->act, u->dense, 0, n, act);
    qkv_norm_kind_forward(u->x, f->type, &u->keep, u->act, u->rows, norm, kind);
    tokens_loss(u, u->d_x, u->x, f->type, u->targets, u->rows);
    if (!u->gradients) return QKV_OK;
    qkv_norm_backward(u->d_act, NULL, norm->dw, norm->db, u->d_x, f->type, u->act, &u->keep,
                      u->rows, norm, kind, f->scratch);
    qkv_activation_backward(u->dense, u->d_act, u->dense, 0, n, act);
    qkv_linear_layer_backward(
        &(struct qkv_linear_rows){ .dx = u->d_act, .dy = { u->dense }, .x = u->picked }, u->rows,
        &body->masked.dense);
    put_back(u, s, u->d_act);
    return qkv_net_side_backward(f, s, u->d_final);
}

static bool pools_late(const struct run *u)
{
    return u->b->objective == QKV_OBJECTIVE_CLASSIFY && u->f.n->is.label_pool == QKV_LABEL_LATE;
}

// Computes u->read, the input of the last linear layer of the classification head, `out`:
//   logits = out(drop(norm(act(dense row))))
// where `row` is one row of each sequence, or the mean of the rows of the sequence. With
// QKV_LABEL_LATE the mean is that of act(dense row) over all rows of the sequence, and there is no
// norm. Each step writes to another array, since backward needs the arguments of the activation and
// the norm.
static void classify_forward(struct run *u, const struct qkv_net_side *s)
{
    struct qkv_net_state *f = &u->f;
    struct qkv_net_layers *body = f->n->body;
    const struct qkv_norm *norm = &body->classify.norm;
    const enum qkv_norm_kind kind = f->n->is.norm_kind;
    const int64_t D = f->n->shape.width;
    const struct qkv_dropout drop = qkv_stream_dropout(&s->stream, HEAD_PLACE);
    const bool late = pools_late(u);
    if (f->n->is.label_pool == QKV_LABEL_MEAN)
        qkv_mean_pool_forward(u->picked, NULL, s->final, s->in->offsets, u->rows, D, false);
    else if (!late)
        pick(u, s);
    qkv_linear_forward((void *[]){ u->dense }, NULL, late ? s->final : u->picked, u->dense_rows,
                       &body->classify.dense, NULL);
    qkv_activation_forward(u->act, u->dense, 0, u->dense_rows * D, f->n->is.classify_act);
    u->read = u->act;
    if (late) {
        qkv_mean_pool_forward(u->x, NULL, u->act, s->in->offsets, u->rows, D, false);
        u->read = u->x;
    } else if (norm->D) {
        qkv_norm_kind_forward(u->x, 0, &u->keep, u->act, u->rows, norm, kind);
        u->read = u->x;
    }
    if (drop.p > 0) {
        qkv_dropout_forward(u->d_x, NULL, u->read, 0, 0, u->rows * D, &drop);
        u->read = u->d_x;
    }
}

// Computes u->d_final, the gradient of the stack's output, from u->d_act. On entry u->d_act is the
// gradient of u->read, the input of the last linear layer of the classification head.
static void classify_backward(struct run *u, const struct qkv_net_side *s)
{
    struct qkv_net_state *f = &u->f;
    struct qkv_net_layers *body = f->n->body;
    const struct qkv_norm *norm = &body->classify.norm;
    const enum qkv_norm_kind kind = f->n->is.norm_kind;
    const int64_t D = f->n->shape.width;
    const struct qkv_dropout drop = qkv_stream_dropout(&s->stream, HEAD_PLACE);
    real *d = u->d_act;
    if (drop.p > 0) {
        qkv_dropout_backward(u->d_x, 0, d, 0, u->rows * D, &drop);
        d = u->d_x;
    }
    if (pools_late(u)) {
        real *wide = u->d_final;
        qkv_mean_pool_backward(wide, d, NULL, NULL, s->in->offsets, u->rows, D, false);
        qkv_activation_backward(u->dense, wide, u->dense, 0, s->R * D, f->n->is.classify_act);
        qkv_linear_layer_backward(
            &(struct qkv_linear_rows){ .dx = wide, .dy = { u->dense }, .x = s->final }, s->R,
            &body->classify.dense);
        return;
    }
    if (norm->D) {
        qkv_norm_backward(u->x, NULL, norm->dw, norm->db, d, 0, u->act, &u->keep, u->rows, norm,
                          kind, f->scratch);
        d = u->x;
    }
    qkv_activation_backward(u->dense, d, u->dense, 0, u->rows * D, f->n->is.classify_act);
    qkv_linear_layer_backward(
        &(struct qkv_linear_rows){ .dx = u->d_act, .dy = { u->dense }, .x = u->picked }, u->rows,
        &body->classify.dense);
    if (f->n->is.label_pool == QKV_LABEL_MEAN)
        qkv_mean_pool_backward(u->d_final, u->d_act, NULL, NULL, s->in->offsets, u->rows, D, false);
    else
        put_back(u, s, u->d_act);
}

static qkv_status end_labels(struct run *u, struct qkv_net_side *s)
{
    struct qkv_net_state *f = &u->f;
    struct qkv_net_layers *body = f->n->body;
    const struct qkv_linear *out = &body->classify.out;
    const struct qkv_cross_entropy p = to_labels(u);
    classify_forward(u, s);
    if (!u->gradients) {
        qkv_cross_entropy(u->loss, NULL, NULL, NULL, NULL, u->read, u->b->targets, u->rows,
                          u->scale, &p);
        return QKV_OK;
    }
    qkv_cross_entropy(u->loss, u->d_act, out->dw[0], out->db[0], NULL, u->read, u->b->targets,
                      u->rows, u->scale, &p);
    classify_backward(u, s);
    return qkv_net_side_backward(f, s, u->d_final);
}

// Copies the vectors of even sequences to the first half of `to`, and the vectors of odd sequences
// to the second half. back: copies them from halves to alternating rows again.
static void halve(const struct run *u, real *to, const real *from, bool back)
{
    const size_t D = (size_t)u->f.n->shape.width, n = (size_t)u->rows;
    for (size_t i = 0; i < n; i++) {
        const size_t half = i % 2 * (n / 2) + i / 2;
        memcpy(to + (back ? i : half) * D, from + (back ? half : i) * D, D * sizeof *to);
    }
}

static struct qkv_contrastive pairs(const struct run *u)
{
    return (struct qkv_contrastive){ .temperature = u->f.n->options.temperature,
                                     .threads = qkv_threads(),
                                     .scratch = u->f.scratch };
}

static qkv_status end_pairs(struct run *u, struct qkv_net_side *s)
{
    struct qkv_net_state *f = &u->f;
    const int64_t D = f->n->shape.width, n = u->rows / 2;
    const struct qkv_contrastive how = pairs(u);
    qkv_mean_pool_forward(u->vector, u->length, s->final, u->b->in.offsets, u->rows, D, true);
    halve(u, u->halves, u->vector, false);
    real *da = u->gradients ? u->d_halves : NULL, *db = da ? da + n * D : NULL;
    qkv_contrastive(u->loss, da, db, u->halves, u->halves + n * D, n, D, u->scale, &how);
    if (!u->gradients) return QKV_OK;
    halve(u, u->d_vector, u->d_halves, true);
    qkv_mean_pool_backward(u->d_final, u->d_vector, u->vector, u->length, u->b->in.offsets, u->rows,
                           D, true);
    return qkv_net_side_backward(f, s, u->d_final);
}

// ---- memory of an output head ------------------------------------------------------------------
static void take_end(void *ctx, struct qkv_arena *a)
{
    struct run *u = ctx;
    struct qkv_net_state *f = &u->f;
    const struct qkv_net_side *s = f->decoder.stack ? &f->decoder : &f->encoder;
    const size_t D = (size_t)f->n->shape.width, rows = (size_t)u->rows,
                 dense_rows = (size_t)u->dense_rows,
                 wide = (size_t)qkv_max64(f->n->shape.width, f->n->is.embed_width);
    const bool tokens = f->decoder.stack, masked = u->b->objective == QKV_OBJECTIVE_MASKED;
    if (u->gradients && (!tokens || s->stack->is.final_norm.D))
        u->d_final = qkv_arena_alloc(a, (size_t)s->R, D * qkv_net_type_bytes(s->final_type));
    if (tokens) return;
    if (u->b->objective == QKV_OBJECTIVE_CONTRASTIVE) {
        u->vector = qkv_arena_alloc(a, rows, D * sizeof(real));
        u->halves = qkv_arena_alloc(a, rows, D * sizeof(real));
        u->length = qkv_arena_alloc(a, rows, sizeof(real));
        u->d_halves = qkv_arena_alloc(a, rows, D * sizeof(real));
        u->d_vector = qkv_arena_alloc(a, rows, D * sizeof(real));
        return;
    }
    u->row = qkv_arena_alloc(a, rows, sizeof *u->row);
    u->targets = qkv_arena_alloc(a, rows, sizeof *u->targets);
    u->picked = qkv_arena_alloc(a, rows, D * sizeof(real));
    u->dense = qkv_arena_alloc(a, dense_rows, wide * sizeof(real));
    u->act = qkv_arena_alloc(a, dense_rows, wide * sizeof(real));
    u->d_act = qkv_arena_alloc(a, dense_rows, wide * sizeof(real));
    u->x = qkv_arena_alloc(a, rows, wide * (masked ? f->bytes : sizeof(real)));
    u->d_x = qkv_arena_alloc(a, rows, wide * (masked ? f->bytes : sizeof(real)));
    u->keep.mean = qkv_arena_alloc(a, rows, sizeof(real));
    u->keep.rstd = qkv_arena_alloc(a, rows, sizeof(real));
}

static size_t loss_scratch(const struct run *u, const struct qkv_cross_entropy *p)
{
    const struct qkv_row_sums *sums = &u->f.share.sums;
    size_t most = u->f.blocks ? 0 : qkv_cross_entropy_scratch(p, u->rows);
    for (int64_t i = 0; u->f.blocks && i < sums->blocks; i++) {
        const size_t bytes = qkv_cross_entropy_scratch(p, sums->block[i].n);
        most = most > bytes ? most : bytes;
    }
    return most;
}

// Returns the scratch bytes of the output head and the loss.
static size_t end_scratch(void *ctx)
{
    const struct run *u = ctx;
    const int64_t R = u->b->in.offsets[u->b->in.n];
    const struct qkv_net_state *f = &u->f;
    const struct qkv_net_layers *body = f->n->body;
    const int64_t D = f->n->shape.width;
    const bool labels = u->b->objective == QKV_OBJECTIVE_CLASSIFY;
    size_t bytes[4] = { 0 }, most = 0;
    if (u->b->objective == QKV_OBJECTIVE_CONTRASTIVE) {
        const struct qkv_contrastive how = pairs(u);
        bytes[0] = qkv_contrastive_scratch(&how, u->rows / 2, D);
    } else {
        const struct qkv_cross_entropy wide = labels ? to_labels(u) : to_tokens(u, 0);
        struct qkv_cross_entropy narrow = wide;
        narrow.x = qkv_net_type(f->n);
        bytes[0] = loss_scratch(u, &wide);
        bytes[1] = loss_scratch(u, &narrow);
    }
    if (u->b->objective == QKV_OBJECTIVE_MASKED)
        bytes[2] = qkv_linear_train_scratch(&body->masked.dense, f->type, u->rows, u->gradients);
    if (labels)
        bytes[2] =
            qkv_linear_train_scratch(&body->classify.dense, f->type, u->dense_rows, u->gradients);
    if (u->gradients) bytes[3] = qkv_norm_backward_scratch(R, qkv_max64(D, f->n->is.embed_width));
    for (int i = 0; i < 4; i++)
        if (bytes[i] > most) most = bytes[i];
    return most;
}

// Returns the number of rows of the loss (struct run).
static int64_t count_rows(const struct qkv_net_batch *b)
{
    const int64_t R = b->in.offsets[b->in.n];
    int64_t rows = 0;
    if (b->objective == QKV_OBJECTIVE_CONTRASTIVE || b->objective == QKV_OBJECTIVE_CLASSIFY)
        return b->in.n;
    if (b->objective != QKV_OBJECTIVE_MASKED) return R;
    for (int64_t r = 0; r < R; r++) rows += b->targets[r] >= 0;
    return rows;
}

static void choose_rows(struct run *u)
{
    const struct qkv_net_batch *b = u->b;
    const bool last = u->f.n->is.label_pool == QKV_LABEL_LAST;
    int64_t rows = 0;
    if (!u->row) return;
    if (b->objective == QKV_OBJECTIVE_CLASSIFY)
        for (int64_t i = 0; i < b->in.n; i++)
            u->row[i] = (int32_t)(last ? b->in.offsets[i + 1] - 1 : b->in.offsets[i]);
    else
        for (int64_t r = 0; r < b->in.offsets[b->in.n]; r++)
            if (b->targets[r] >= 0) {
                u->row[rows] = (int32_t)r;
                u->targets[rows++] = b->targets[r];
            }
}

// ---- the whole ---------------------------------------------------------------------------------
static qkv_status begin(struct run *u, const struct qkv_net_batch *b, qkv_error *err)
{
    struct qkv_net_state *f = &u->f;
    const qkv_net *n = f->n;
    const bool decoder = n->kind != QKV_NET_ENCODER, pair = n->kind == QKV_NET_ENCODER_DECODER;
    f->keeping = !u->gradients          ? QKV_KEEP_NOTHING
                 : n->options.recompute ? QKV_KEEP_INPUTS
                                        : QKV_KEEP_ALL;
    f->drops = u->gradients;
    f->blocks = n->kind == QKV_NET_DECODER && n->options.row_blocks;
    f->share.comm = n->comm;
    struct qkv_net_plan plan = { .scratch = end_scratch, .more = take_end, .ctx = u };
    plan.encoder = pair ? &b->source : decoder ? NULL : &b->in;
    plan.decoder = decoder ? &b->in : NULL;
    plan.final_type = decoder ? qkv_net_type(n) : (qkv_dtype)0;
    u->rows = count_rows(b);
    u->dense_rows = pools_late(u) ? b->in.offsets[b->in.n] : u->rows;
    return qkv_net_begin(f, &plan, err);
}

static qkv_status run_stacks(struct run *u, struct qkv_net_side *last, qkv_error *err)
{
    struct qkv_net_state *f = &u->f;
    real *d_encoded = f->back.heads.d_memory;
    qkv_status status = QKV_OK;
    choose_rows(u);
    if (f->encoder.stack) status = qkv_net_side_forward(f, &f->encoder);
    if (!status && f->decoder.stack) status = qkv_net_side_forward(f, &f->decoder);
    if (!status && d_encoded)
        memset(d_encoded, 0, (size_t)(f->encoder.R * f->n->shape.width) * sizeof *d_encoded);
    if (!status && u->gradients && !u->rows) return QKV_OK; // no token is masked
    if (!status) switch (u->b->objective) {
        case QKV_OBJECTIVE_CAUSAL:
        case QKV_OBJECTIVE_SEQ2SEQ: status = end_tokens(u, last); break;
        case QKV_OBJECTIVE_MASKED: status = end_masked(u, last); break;
        case QKV_OBJECTIVE_CLASSIFY: status = end_labels(u, last); break;
        case QKV_OBJECTIVE_CONTRASTIVE: status = end_pairs(u, last); break;
        }
    if (!status && d_encoded) status = qkv_net_side_backward(f, &f->encoder, d_encoded);
    return status ? qkv_fail(err, status, NULL, "a layer of the model cannot run: %s",
                             qkv_status_name(status))
                  : QKV_OK;
}

qkv_status qkv_net_transformer_run(qkv_net *n, struct qkv_loss *loss, const struct qkv_net_batch *b,
                                   bool gradients, real scale, uint64_t seed, uint64_t step,
                                   qkv_error *err)
{
    struct run u = { .f = { .n = n, .seed = seed, .step = step },
                     .b = b,
                     .loss = loss,
                     .gradients = gradients,
                     .scale = scale };
    struct qkv_net_state *f = &u.f;
    struct qkv_net_side *last = n->kind == QKV_NET_ENCODER ? &f->encoder : &f->decoder;
    qkv_status status = qkv_net_share_agree(&f->share, begin(&u, b, err));
    const struct qkv_row_sums *sums = &f->share.sums;
    if (!status && f->share.comm && gradients) {
        qkv_net_zero_gradients(n);
        qkv_add_numbers(sums->copies, NULL, qkv_max64(0, sums->nodes.n - 1) * sums->weights);
    }
    if (!status) status = run_stacks(&u, last, err);
    qkv_net_end(f);
    return status;
}
