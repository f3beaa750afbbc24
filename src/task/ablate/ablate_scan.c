// SPDX-License-Identifier: MIT
// ablate_scan.c: measures the effect of each head of a model on a text, by running the text with
// that head ablated.
//
// A first run records the results of the unchanged model. A second run has an observer: for each
// layer, the observer runs the layer's input through the rest of the stack again, in a batch of
// copies. Each copy ablates another head of the layer, so the preceding layers run only once for
// all heads of a layer. In a model with encoder and decoder, an ablated encoder head changes the
// input of the whole decoder.
#include "task/embed/embed_internal.h"
#include <qkv/ablate.h>
#include <math.h>
#include <string.h>

enum { CHANGES = 5, BATCH = 2048, LOGIT_ROWS = 64 };
static const enum qkv_attention_part two_parts[] = { QKV_PART_ENCODER, QKV_PART_DECODER,
                                                     QKV_PART_CROSS };

struct scan {
    const qkv_model *m;
    struct qkv_model_info info;
    struct qkv_effects_options o;
    struct qkv_effects *out;
    qkv_error *err;
    bool decodes, two;
    // T: tokens of the text (in an encoder-decoder: of the target); S: tokens of the source; D:
    // model width; V: vocabulary
    int64_t T, S, D, V;
    int64_t rows; // number of tokens T, including padding
    const int32_t *ids, *source;
    float *hidden;  // [rows][D] last hidden states of the unchanged model
    float *pooled;  // [D] pooled vector of the unchanged model (encoders)
    double *before; // [T] ln p of each token in the unchanged model; not defined for token 0
    float *first;   // encoder-decoder: [T][D] input of the decoder's layer 0
    float *memory;  // encoder-decoder: [batch][S][D] encoder output, repeated for each copy
    // again: [batch][T][D] final hidden states of the copies, or [rows][D] of one run of a whole
    // model; read: [batch][S][D] encoder outputs of the copies
    float *again, *read;
    unsigned char *gives; // [batch][H] which heads each copy ablates
    int64_t *head;        // [batch] the ablated head of each copy
    double *after;        // [batch][T] ln p of each token in a copy
    float *vector;        // [D] scratch: pooled vector of a copy
    float *logits;        // [LOGIT_ROWS][V] scratch: logits of some rows
    int64_t batch;        // maximum number of copies in a batch
    int64_t done, total;
    void *held;
};

// ---- numbers -----------------------------------------------------------------------------------
// Returns 1 - cosine of a[n] and b[n], computed from their unit vectors so that equal vectors give
// exactly 0.
static double turned(const float *a, const float *b, int64_t n)
{
    double aa = 0, bb = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    if (aa == 0 || bb == 0) return aa == bb ? 0 : 1;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)a[i] / sqrt(aa) - (double)b[i] / sqrt(bb);
        sum += d * d;
    }
    return sum / 2;
}

// Context of the parallel loop that computes ln p of tokens from rows of logits.
struct foretold {
    const float *logits; // [rows][V] logits of each row
    const int32_t *id;   // [rows] the token after each row, whose probability is computed
    double *to;          // [rows] result: ln p of the tokens in id
    int64_t V;
};

static void foretell(void *ctx, int64_t r, int thread)
{
    const struct foretold *f = ctx;
    const float *x = f->logits + r * f->V;
    double most = -(double)INFINITY, sum = 0;
    (void)thread;
    for (int64_t v = 0; v < f->V; v++)
        if ((double)x[v] > most) most = (double)x[v];
    for (int64_t v = 0; v < f->V; v++) sum += exp((double)x[v] - most);
    f->to[r] = (double)x[f->id[r]] - most - log(sum);
}

// Computes to[T]: ln p of each token except the first. Token i is predicted from hidden state i - 1
// of hidden[T][D].
static qkv_status foretell_text(struct scan *s, double *to, const float *hidden)
{
    qkv_status status = QKV_OK;
    to[0] = 0;
    for (int64_t at = 0; !status && at < s->T - 1; at += LOGIT_ROWS) {
        const int64_t rows = qkv_min64(LOGIT_ROWS, s->T - 1 - at);
        struct foretold f = { s->logits, s->ids + at + 1, to + at + 1, s->V };
        status = qkv_model_logits(s->m, s->logits, hidden + at * s->D, rows, s->err);
        if (!status) qkv_parallel_for(rows, foretell, &f);
    }
    return status;
}

// Inserts the change c into to[n], which is sorted by size, largest first; the smallest change is
// dropped.
static void keep(struct qkv_change *to, int64_t n, struct qkv_change c)
{
    const double size = fabs((double)c.after - (double)c.before);
    int64_t at = n;
    while (at > 0 && (to[at - 1].token < 0 ||
                      fabs((double)to[at - 1].after - (double)to[at - 1].before) < size))
        at--;
    if (at == n || !(size > 0)) return;
    memmove(to + at + 1, to + at, (size_t)(n - 1 - at) * sizeof *to);
    to[at] = c;
}

// ---- one copy ----------------------------------------------------------------------------------
// Returns the effect of an ablated head: how far hidden[T][D], computed without the head, is from
// the hidden states of the unchanged model. Writes the tokens that changed most to `change`.
static double effect_of(struct scan *s, struct qkv_change *change, const float *hidden,
                        const double *after)
{
    const int64_t n = s->out->changes;
    double sum = 0;
    if (!s->decodes) {
        for (int64_t r = 0; r < s->T; r++) {
            const double t = turned(s->hidden + r * s->D, hidden + r * s->D, s->D);
            keep(change, n, (struct qkv_change){ r, 0, (float)t });
        }
        qkv_pool_rows(s->vector, hidden, 0, s->T, s->D, s->o.pool);
        return turned(s->pooled, s->vector, s->D);
    }
    for (int64_t r = 1; r < s->T; r++) {
        keep(change, n, (struct qkv_change){ r, (float)exp(s->before[r]), (float)exp(after[r]) });
        sum += s->before[r] - after[r];
    }
    return sum / (double)(s->T - 1);
}

// Returns the effects of the stack that `part` (encoder, decoder or cross-attention) names.
static const struct qkv_effect_stack *stack_of(const struct scan *s, enum qkv_attention_part part)
{
    return &s->out->stack[part == QKV_PART_STACK ? 0 : (int)part - 1];
}

// Runs n copies of the input x of a layer through the rest of the stack. Copy i ablates head
// s->head[i] of the layer.
static qkv_status copies(struct scan *s, enum qkv_attention_part part, int64_t layer,
                         const float *x, int64_t n)
{
    const struct qkv_effect_stack *to = stack_of(s, part);
    const bool encoder = part == QKV_PART_ENCODER;
    const struct qkv_run_from_layer again = { .part = part,
                                              .layer = layer,
                                              .n = n,
                                              .T = encoder ? s->S : s->T,
                                              .S = encoder ? 0 : s->S,
                                              .ids = encoder ? s->source : s->ids,
                                              .x = x,
                                              .memory = encoder ? NULL : s->memory,
                                              .gives = s->gives };
    const struct qkv_run_from_layer rest = { .part = QKV_PART_DECODER,
                                             .n = n,
                                             .T = s->T,
                                             .S = s->S,
                                             .ids = s->ids,
                                             .x = s->first,
                                             .memory = s->read };
    qkv_status status =
        qkv_model_run_from_layer(s->m, encoder ? s->read : s->again, &again, s->err);
    if (!status && encoder) status = qkv_model_run_from_layer(s->m, s->again, &rest, s->err);
    for (int64_t i = 0; !status && i < n; i++) {
        const float *hidden = s->again + i * s->T * s->D;
        const int64_t at = layer * to->heads + s->head[i];
        if (s->decodes) status = foretell_text(s, s->after, hidden);
        if (!status)
            ((float *)to->effect)[at] = (float)effect_of(
                s, (struct qkv_change *)to->change + at * s->out->changes, hidden, s->after);
    }
    return status;
}

static qkv_status step(struct scan *s, int64_t n)
{
    s->done += n;
    if (!s->o.progress.step || !s->o.progress.step(s->o.progress.user, "heads", s->done, s->total))
        return QKV_OK;
    return qkv_fail(s->err, QKV_ERR_INTERRUPTED, NULL, "stopped after %lld of %lld heads",
                    (long long)s->done, (long long)s->total);
}

// Measures every head of a layer in batches of copies, except the heads that the model already
// ablates.
static qkv_status layer(struct scan *s, enum qkv_attention_part part, int64_t layer, const float *x)
{
    const struct qkv_heads *heads = qkv_part_heads(s->m, part, layer);
    const int64_t H = heads->H;
    const unsigned char what = (unsigned char)(QKV_HEADS_ZERO + (int)s->o.kind);
    memset(s->gives, what, (size_t)H);
    const struct qkv_run_from_layer one = { .part = part, .n = 1, .gives = s->gives };
    const int64_t most = qkv_run_from_layer_alone(s->m, &one) ? 1 : s->batch;
    qkv_status status = QKV_OK;
    for (int64_t h = 0; !status && h < H;) {
        const int64_t from = h;
        int64_t n = 0;
        for (; h < H && n < most; h++) {
            unsigned char *row = s->gives + n * H;
            memset(row, 0, (size_t)H);
            if (heads->ablation) memcpy(row, heads->ablation->gives, (size_t)H);
            // the model that is scanned already ablates this head: ablating it again has no effect
            if (row[h]) continue;
            row[h] = what;
            s->head[n++] = h;
        }
        if (n) status = copies(s, part, layer, x, n);
        if (!status) status = step(s, h - from);
    }
    return status;
}

// ---- the two runs ------------------------------------------------------------------------------
// Observer of the first run: records the decoder's first input and the encoder's output.
static int observation(void *user, const struct qkv_layer_output *output)
{
    struct scan *s = user;
    if (output->part == QKV_PART_DECODER && output->layer < 0)
        memcpy(s->first, output->hidden, (size_t)(s->T * s->D) * sizeof *s->first);
    if (output->part == QKV_PART_ENCODER && output->layer == s->info.layers - 1)
        for (int64_t i = 0; i < s->batch; i++)
            memcpy(s->memory + i * s->S * s->D, output->hidden,
                   (size_t)(s->S * s->D) * sizeof *s->memory);
    return 0;
}

// Observer of the second run: receives the output of one layer, which is the input of the next, and
// measures every head of that next layer.
static int every_head(void *user, const struct qkv_layer_output *output)
{
    struct scan *s = user;
    const int64_t next = output->layer + 1;
    if (output->part == QKV_PART_CROSS) return 0;
    if (next >= stack_of(s, output->part)->layers) return 0;
    if (layer(s, output->part, next, output->hidden)) return 1;
    return output->part == QKV_PART_DECODER && layer(s, QKV_PART_CROSS, next, output->hidden);
}

static qkv_status base(struct scan *s, const struct qkv_model_input *in)
{
    const struct qkv_observer observer = { .layer = observation, .user = s };
    qkv_status status = qkv_model_run(s->m, s->hidden, in, s->two ? &observer : NULL, s->err);
    if (status) return status;
    if (!s->decodes) {
        qkv_pool_rows(s->pooled, s->hidden, 0, s->T, s->D, s->o.pool);
        return QKV_OK;
    }
    status = foretell_text(s, s->before, s->hidden);
    for (int64_t r = 1; r < s->T; r++) s->out->loss -= s->before[r] / (double)(s->T - 1);
    return status;
}

// Runs the model `without`, which differs from the unchanged model, on the same text, and stores
// its effect as one number.
static qkv_status compare(struct scan *s, const struct qkv_model_input *in,
                          const qkv_model *without)
{
    const struct qkv_effect_stack *to = &s->out->stack[0];
    const qkv_model *m = s->m;
    qkv_status status = qkv_model_run(without, s->again, in, NULL, s->err);
    s->m = without; // logits are computed with the output head of `without`
    if (!status && s->decodes) status = foretell_text(s, s->after, s->again);
    s->m = m;
    if (!status)
        ((float *)to->effect)[0] =
            (float)effect_of(s, (struct qkv_change *)to->change, s->again, s->after);
    return status;
}

// ---- memory ------------------------------------------------------------------------------------
static void take(struct scan *s, struct qkv_arena *a)
{
    const size_t T = (size_t)s->T, S = (size_t)s->S, n = (size_t)s->batch;
    const size_t row = (size_t)s->D * sizeof(float);
    s->hidden = qkv_arena_alloc(a, (size_t)s->rows, row);
    s->pooled = qkv_arena_alloc(a, 1, row);
    s->vector = qkv_arena_alloc(a, 1, row);
    s->again = qkv_arena_alloc(a, (size_t)qkv_max64(s->batch * s->T, s->rows), row);
    s->first = qkv_arena_alloc(a, s->two ? T : 0, row);
    s->memory = qkv_arena_alloc(a, n * S, row);
    s->read = qkv_arena_alloc(a, n * S, row);
    s->before = qkv_arena_alloc(a, T, sizeof *s->before);
    s->after = qkv_arena_alloc(a, T, sizeof *s->after);
    s->gives = qkv_arena_alloc(a, n, (size_t)s->info.heads);
    s->head = qkv_arena_alloc(a, n, sizeof *s->head);
    s->logits = qkv_arena_alloc(a, s->decodes ? LOGIT_ROWS : 0, (size_t)s->V * sizeof(float));
}

// Allocates the arrays of effects: one effect per head or, if `one`, a single effect for the model.
static bool make(struct scan *s, bool one)
{
    struct qkv_effects *out = s->out;
    struct qkv_arena a = { .size = SIZE_MAX };
    out->stacks = s->two && !one ? 3 : 1;
    out->unit = s->decodes ? "nats" : "1 - cosine";
    out->changes = qkv_min64(s->o.changes ? s->o.changes : CHANGES, qkv_max64(s->T, 1));
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < out->stacks; i++) {
            struct qkv_effect_stack *to = &out->stack[i];
            to->part = out->stacks > 1 ? two_parts[i] : QKV_PART_STACK;
            to->heads = one ? 1 : s->info.heads;
            to->layers = one                            ? 1
                         : to->part >= QKV_PART_DECODER ? s->info.decoder_layers
                                                        : s->info.layers;
            to->tokens = to->part == QKV_PART_ENCODER ? s->S : s->T;
            const size_t n = (size_t)(to->layers * to->heads);
            to->effect = qkv_arena_alloc(&a, n, sizeof *to->effect);
            to->change = qkv_arena_alloc(&a, n, (size_t)out->changes * sizeof *to->change);
            if (pass == 0) s->total += to->layers * to->heads;
            for (size_t k = 0; pass && k < n * (size_t)out->changes; k++)
                ((struct qkv_change *)to->change)[k].token = -1;
        }
        if (pass) break;
        out->memory = qkv_arena_full(&a) ? NULL : qkv_alloc_zero(a.used, 1);
        if (!out->memory) return false;
        a = (struct qkv_arena){ out->memory, a.used, 0 };
    }
    return true;
}

static int64_t used(const struct qkv_model_input *in)
{
    return in->lengths ? in->lengths[0] : in->offsets[1] - in->offsets[0];
}

static bool one_sequence(const struct qkv_model_input *in)
{
    return in && in->sequences == 1 && in->offsets && in->offsets[0] == 0 && in->ids &&
           used(in) >= 0 && used(in) <= in->offsets[1];
}

static qkv_status check_options(const struct scan *s)
{
    const struct {
        const char *name;
        int64_t value, most;
    } rows[] = { { "kind", (int)s->o.kind, QKV_ABLATE_UNIFORM },
                 { "pool", (int)s->o.pool, QKV_POOL_WEIGHTED },
                 { "changes", s->o.changes, INT64_MAX },
                 { "batch_tokens", s->o.batch_tokens, INT64_MAX } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].value < 0 || rows[i].value > rows[i].most)
            return qkv_fail(s->err, QKV_ERR_USAGE, NULL,
                            "%s of struct qkv_effects_options is out of range, expected 0 to "
                            "%lld, found %lld",
                            rows[i].name, (long long)rows[i].most, (long long)rows[i].value);
    return QKV_OK;
}

static qkv_status check(struct scan *s, const struct qkv_model_input *in)
{
    const struct qkv_location at = { .file = s->info.name };
    if (!(s->info.can & QKV_CAN_RUN))
        return qkv_fail(s->err, QKV_ERR_UNSUPPORTED, &at,
                        "ablating every head requires a Transformer; this model is %s",
                        s->info.family);
    if (!one_sequence(in) || (s->two && !one_sequence(in->source)))
        return qkv_fail(s->err, QKV_ERR_USAGE, NULL,
                        "wrong number of sequences to ablate on, expected one sequence%s",
                        s->two ? " for the encoder and one for the decoder" : "");
    if (in->options)
        return qkv_fail(s->err, QKV_ERR_USAGE, NULL,
                        "ablating every head takes no options of a run, expected NULL");
    const qkv_status status = check_options(s);
    if (status) return status;
    s->T = used(in);
    s->rows = in->offsets[1];
    s->S = s->two ? used(in->source) : 0;
    if (s->T < 1 + s->decodes || (s->two && s->S < 1))
        return qkv_fail(s->err, QKV_ERR_USAGE, NULL,
                        "text to ablate on is too short, expected %s tokens, found %lld",
                        s->decodes ? "2 or more" : "1 or more", (long long)s->T);
    return QKV_OK;
}

static qkv_status check_pair(struct scan *s, const qkv_model *without)
{
    const struct qkv_model_info a = s->info, b = qkv_model_info(without);
    if (a.kind == b.kind && a.width == b.width && a.vocab == b.vocab) return QKV_OK;
    return qkv_fail(s->err, QKV_ERR_USAGE, NULL,
                    "models to compare differ, expected the same kind, width and vocabulary");
}

// Implements both public functions. If `without` is NULL, measures every head; if not, compares the
// model `without` with the unchanged model.
static qkv_status measure(struct scan *s, const struct qkv_model_input *in,
                          const qkv_model *without)
{
    const int64_t rows = s->o.batch_tokens ? s->o.batch_tokens : BATCH;
    struct qkv_arena count = { .size = SIZE_MAX };
    s->info = qkv_model_info(s->m);
    s->two = s->info.kind == QKV_KIND_ENCODER_DECODER;
    s->decodes = s->info.kind != QKV_KIND_ENCODER;
    qkv_status status = check(s, in);
    if (!status && without) status = check_pair(s, without);
    if (status) return status;
    s->D = s->info.width;
    s->V = s->info.vocab;
    s->ids = in->ids;
    s->source = s->two ? in->source->ids : NULL;
    s->batch = qkv_max64(1, qkv_min64(s->info.heads, rows / qkv_max64(s->T, s->S)));
    if (!s->o.pool) s->o.pool = QKV_POOL_MEAN;
    take(s, &count);
    s->held = qkv_arena_full(&count) ? NULL : qkv_alloc(count.used, 1);
    if (!s->held || !make(s, without != NULL)) return qkv_fail_memory(s->err, NULL);
    struct qkv_arena arena = { s->held, count.used, 0 };
    take(s, &arena);
    status = base(s, in);
    if (status) return status;
    if (without) return compare(s, in, without);
    const struct qkv_observer observer = { .layer = every_head, .user = s };
    return qkv_model_run(s->m, NULL, in, &observer, s->err);
}

static qkv_status call(struct qkv_effects *out, const qkv_model *m, const qkv_model *without,
                       const struct qkv_model_input *in, const struct qkv_effects_options *o,
                       qkv_error *err)
{
    static const struct qkv_effects_options plain;
    qkv_error own = { 0 };
    struct scan s = { .m = m, .o = o ? *o : plain, .out = out, .err = &own };
    *out = (struct qkv_effects){ 0 };
    qkv_status status = measure(&s, in, without);
    // The run itself only reports that its observer stopped it; `own` has the observer's error.
    if (own.status) status = own.status;
    qkv_free(s.held);
    if (status) qkv_effects_free(out);
    if (status && err && !err->status) *err = own;
    return status;
}

qkv_status qkv_ablate_scan(struct qkv_effects *out, const qkv_model *m,
                           const struct qkv_model_input *in, const struct qkv_effects_options *o,
                           qkv_error *err)
{
    if (!out || !m || !in)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_ablate_scan: expected a pointer for the result, a model and its "
                        "input, found NULL");
    return call(out, m, NULL, in, o, err);
}

qkv_status qkv_ablate_compare(struct qkv_effects *out, const qkv_model *m, const qkv_model *without,
                              const struct qkv_model_input *in, const struct qkv_effects_options *o,
                              qkv_error *err)
{
    if (!out || !m || !without || !in)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_ablate_compare: expected a pointer for the result, two models and an "
                        "input, found NULL");
    return call(out, m, without, in, o, err);
}

void qkv_effects_free(struct qkv_effects *e)
{
    if (!e) return;
    qkv_free(e->memory);
    *e = (struct qkv_effects){ 0 };
}
