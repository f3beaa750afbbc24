// SPDX-License-Identifier: MIT
// cmd_check.c: implements `qkv check`: compares the output of a model with a stored reference,
// layer by layer.
#include "frame/cmd.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *reference;
    double tolerance;
} o = { .tolerance = (double)NAN };
// clang-format off
static const struct opt opts[] = {
    OPT_INPUT('r', "reference", &o.reference, "FILE", "file with the output of the reference (default: golden.safetensors in DIR)"),
    OPT_REAL(0, "tolerance", &o.tolerance, "X", "largest error allowed for hidden states and logits, relative to their largest value (if that is below 1, absolute); a tenth of it for attention weights (default: 1e-4; required unless --precision is f32 or f32-strict)"),
    OPT_END
};
// clang-format on

// ---- the reference -----------------------------------------------------------------------------
// The stored outputs of one stack of the model.  A pointer is NULL if the file does not have the
// tensor.
struct expected {
    const struct qkv_tensor *hidden, *attention; // [L + 1][R][D], [L][H][R][S]
};
struct check {
    const char *dir;
    char path[CMD_PATH];
    qkv_tensors *file;
    qkv_model *model;
    struct qkv_model_info info;
    struct expected own, source, cross;
    const struct qkv_tensor *logits, *scores, *token_scores;
    struct qkv_model_input in, from;
    double tolerance;
    bool differs; // true: the first difference is already printed
    char first[256];
    int64_t compared;
    qkv_error *err;
};

static qkv_status malformed(const struct check *c, const char *name, const char *want)
{
    return cmd_error(c->err, QKV_ERR_FORMAT, c->path,
                     "tensor \"%s\" is invalid, expected %s, found something else", name, want);
}

// Copies a tensor of rank 1 and the given type, which may be unaligned in the file, and sets
// *count. Returns NULL if the file has no such tensor.
static void *copied(const struct check *c, const char *name, qkv_dtype type, int64_t *count)
{
    const struct qkv_tensor *t = qkv_tensors_find(c->file, name);
    if (!t || t->dtype != type || t->rank != 1) return NULL;
    *count = qkv_tensor_count(t);
    void *copy = cmd_alloc((size_t)*count + 1, qkv_dtype_size(type));
    if (t->bytes) memcpy(copy, t->data, t->bytes);
    return copy;
}

// Reads the texts as token ids. Their offsets must ascend from 0 to the number of ids.
static qkv_status read_texts(struct check *c, struct qkv_model_input *in, const char *offsets,
                             const char *ids)
{
    int64_t n = 0, tokens = 0;
    int64_t *at = copied(c, offsets, QKV_I64, &n);
    int32_t *id = copied(c, ids, QKV_I32, &tokens);
    in->offsets = at;
    in->ids = id;
    in->sequences = n - 1;
    if (!at || n < 2 || at[0])
        return malformed(c, offsets, "I64 offsets [texts + 1] that begin with 0");
    if (!id || tokens != at[n - 1])
        return malformed(c, ids, "I32 ids, as many as the last offset says");
    for (int64_t i = 1; i < n; i++)
        if (at[i] < at[i - 1] || at[i] > tokens) return malformed(c, offsets, "ascending offsets");
    return QKV_OK;
}

static int64_t longest(const struct qkv_model_input *in)
{
    int64_t most = 0;
    for (int64_t i = 0; i < in->sequences; i++) {
        const int64_t n = in->offsets[i + 1] - in->offsets[i];
        if (n > most) most = n;
    }
    return most;
}

// Finds the tensor `name`, and checks that its type is F32 and its shape is `shape` (a list that
// ends with 0).  Returns NULL if the file has no such tensor. If its type or shape is wrong, sets
// *s and returns NULL. If *s is already an error, returns NULL.
static const struct qkv_tensor *tensor(const struct check *c, const char *name,
                                       const int64_t *shape, qkv_status *s)
{
    const struct qkv_tensor *t = qkv_tensors_find(c->file, name);
    char want[128] = "F32 of";
    int rank = 0;
    if (!t || *s) return NULL;
    bool same = t->dtype == QKV_F32;
    for (; shape[rank]; rank++) {
        const size_t at = strlen(want);
        same = same && rank < t->rank && t->shape[rank] == shape[rank];
        snprintf(want + at, sizeof want - at, " %s%lld", rank ? "x " : "", (long long)shape[rank]);
    }
    if (same && t->rank == rank) return t;
    *s = malformed(c, name, want);
    return NULL;
}

static qkv_status read_reference(struct check *c)
{
    const bool two = c->info.kind == QKV_KIND_ENCODER_DECODER;
    int64_t types = 0;
    qkv_status status = read_texts(c, &c->in, "offsets", "ids");
    if (!status && two) status = read_texts(c, &c->from, "source.offsets", "source.ids");
    if (status) return status;
    if (two && c->from.sequences != c->in.sequences)
        return malformed(c, "source.offsets", "as many texts as in the tensor offsets");
    if (two) c->in.source = &c->from;
    c->in.types = copied(c, "types", QKV_I32, &types);
    const int64_t R = c->in.offsets[c->in.sequences], D = c->info.width, H = c->info.heads;
    if (c->in.types && types != R)
        return malformed(c, "types", "I32 token types, as many as token ids");
    const int64_t layers = two ? c->info.decoder_layers : c->info.layers, S = longest(&c->in);
    c->own.hidden = tensor(c, "hidden", (int64_t[]){ layers + 1, R, D, 0 }, &status);
    c->own.attention = tensor(c, "attention", (int64_t[]){ layers, H, R, S, 0 }, &status);
    c->logits = tensor(c, "logits", (int64_t[]){ R, c->info.vocab, 0 }, &status);
    c->scores = tensor(c, "scores", (int64_t[]){ c->in.sequences, c->info.labels, 0 }, &status);
    c->token_scores = tensor(c, "token_scores", (int64_t[]){ R, c->info.labels, 0 }, &status);
    if (!two || status) return status;
    const int64_t L = c->info.layers, Q = c->from.offsets[c->from.sequences],
                  from = longest(&c->from);
    c->source.hidden = tensor(c, "source.hidden", (int64_t[]){ L + 1, Q, D, 0 }, &status);
    c->source.attention = tensor(c, "source.attention", (int64_t[]){ L, H, Q, from, 0 }, &status);
    c->cross.attention = tensor(c, "cross", (int64_t[]){ layers, H, R, from, 0 }, &status);
    return status;
}

// ---- comparison --------------------------------------------------------------------------------
static const char *const parts[] = { "", "encoder ", "decoder ", "cross " };

// A matrix that the model computed, and the same matrix of the reference.
struct comparison {
    const char *part, *what;
    int64_t layer; // number of the layer; -1: the embeddings; -2: the output after the last layer
    const float *got, *want;
    int64_t n, row; // n: number of elements; row: number of elements in a row
    double tolerance;
    // true: the tolerance is multiplied by the largest expected value, or by 1 if that is larger
    bool scaled;
};

static void name_place(char out[64], const struct comparison *b)
{
    if (b->layer >= 0)
        snprintf(out, 64, "%slayer %lld", b->part, (long long)b->layer);
    else
        snprintf(out, 64, "%s%s", b->part, b->layer == -1 ? "embeddings" : "end");
}

static void compare(struct check *c, const struct comparison *b)
{
    double worst = 0, size = 1;
    int64_t at = 0;
    char place[64];
    for (int64_t i = 0; i < b->n; i++) {
        float want;
        memcpy(&want, (const char *)b->want + (size_t)i * sizeof want, sizeof want);
        const double off = fabs((double)b->got[i] - (double)want);
        if (fabs((double)want) > size) size = fabs((double)want);
        if (off <= worst) continue; // a NaN counts as the worst error
        worst = off;
        at = i;
        if (!(off == off)) break;
    }
    const double limit = b->tolerance * (b->scaled ? size : 1);
    const bool over = !(worst <= limit);
    name_place(place, b);
    if (common.json) {
        printf("%s{\"part\":\"%.*s\",\"layer\":", c->compared ? "," : "",
               (int)strcspn(b->part, " "), b->part);
        b->layer >= 0 ? printf("%lld", (long long)b->layer)
                      : printf("\"%s\"", b->layer == -1 ? "embeddings" : "end");
        printf(",\"what\":\"%s\",\"error\":", b->what);
        cmd_json_float(stdout, (float)worst);
        printf(",\"tolerance\":");
        cmd_json_float(stdout, (float)limit);
        printf(",\"equal\":%s}", over ? "false" : "true");
    } else {
        printf("%-18s %-10s error %-9.3g limit %-9.3g%s\n", place, b->what, worst, limit,
               over ? "  differs" : "");
    }
    c->compared++;
    if (!over || c->differs) return;
    float want;
    memcpy(&want, (const char *)b->want + (size_t)at * sizeof want, sizeof want);
    c->differs = true;
    snprintf(c->first, sizeof c->first,
             "%s is the first that differs: %s, row %lld, column %lld, expected %.9g within %.3g, "
             "found %.9g",
             place, b->what, (long long)(at / b->row), (long long)(at % b->row), (double)want,
             limit, (double)b->got[at]);
}

static const float *layer_of(const struct qkv_tensor *t, int64_t i)
{
    const size_t each = t->bytes / (size_t)t->shape[0];
    return (const float *)(const void *)((const char *)t->data + (size_t)i * each);
}

static int seen(void *user, const struct qkv_layer_output *s)
{
    struct check *c = user;
    const struct expected *e = s->part == QKV_PART_CROSS     ? &c->cross
                               : s->part == QKV_PART_ENCODER ? &c->source
                                                             : &c->own;
    struct comparison b = { .part = parts[s->part], .layer = s->layer };
    if (s->layer >= 0 && e->attention && s->weights) {
        b.what = "attention";
        b.got = s->weights;
        b.want = layer_of(e->attention, s->layer);
        b.row = e->attention->shape[3];
        b.n = s->H * s->R * b.row;
        b.tolerance = c->tolerance / 10;
        compare(c, &b);
    }
    if (s->hidden && e->hidden) {
        b.what = "hidden";
        b.got = s->hidden;
        b.want = layer_of(e->hidden, s->layer + 1);
        b.row = c->info.width;
        b.n = s->R * b.row;
        b.tolerance = c->tolerance;
        b.scaled = true;
        compare(c, &b);
    }
    return cmd_interrupted();
}

static void compare_end(struct check *c, const char *what, const struct qkv_tensor *t,
                        const float *got)
{
    const struct comparison b = { .part = "",
                                  .what = what,
                                  .layer = -2,
                                  .got = got,
                                  .want = t->data,
                                  .n = qkv_tensor_count(t),
                                  .row = t->shape[1],
                                  .tolerance = c->tolerance,
                                  .scaled = true };
    compare(c, &b);
}

// Compares the scores of labels, which a head computes from the text. The text of a model with two
// stacks is the source.
static qkv_status compare_labels(struct check *c)
{
    const struct qkv_model_input *text = c->in.source ? c->in.source : &c->in;
    const struct qkv_tensor *const all[] = { c->scores, c->token_scores };
    qkv_status status = QKV_OK;
    for (int i = 0; i < 2 && !status; i++) {
        if (!all[i]) continue;
        float *got = cmd_alloc((size_t)qkv_tensor_count(all[i]) + 1, sizeof *got);
        status = i ? qkv_model_classify_tokens(c->model, got, text, c->err)
                   : qkv_model_classify(c->model, got, text, c->err);
        if (!status) compare_end(c, i ? "token_scores" : "scores", all[i], got);
        free(got);
    }
    return status;
}

static qkv_status run_model(struct check *c)
{
    const int64_t R = c->in.offsets[c->in.sequences];
    const struct qkv_observer observer = { .layer = seen, .user = c, .weights = true };
    float *hidden = cmd_alloc((size_t)(R * c->info.width) + 1, sizeof *hidden), *logits = NULL;
    qkv_status status = qkv_model_run(c->model, hidden, &c->in, &observer, c->err);
    if (!status && c->logits) {
        logits = cmd_alloc((size_t)qkv_tensor_count(c->logits) + 1, sizeof *logits);
        status = qkv_model_logits(c->model, logits, hidden, R, c->err);
        if (!status) compare_end(c, "logits", c->logits, logits);
    }
    free(logits);
    free(hidden);
    return status ? status : compare_labels(c);
}

// ---- the command -------------------------------------------------------------------------------
static qkv_status open_both(struct check *c)
{
    const struct qkv_model_options how = { .precision = common.precision };
    const bool floats =
        common.precision == QKV_PRECISION_F32 || common.precision == QKV_PRECISION_F32_STRICT;
    if (isnan(o.tolerance) && !floats)
        return cmd_error(
            c->err, QKV_ERR_USAGE, NULL,
            "--precision %s requires --tolerance, since the reference has a higher precision",
            qkv_precision_name(common.precision));
    c->tolerance = isnan(o.tolerance) ? 1e-4 : o.tolerance;
    if (!(c->tolerance > 0))
        return cmd_error(c->err, QKV_ERR_USAGE, NULL,
                         "--tolerance: expected a number above 0, found %g", c->tolerance);
    const int n = o.reference ? snprintf(c->path, sizeof c->path, "%s", o.reference)
                              : snprintf(c->path, sizeof c->path, "%s/golden.safetensors", c->dir);
    if (n < 0 || n >= (int)sizeof c->path)
        return cmd_error(c->err, QKV_ERR_USAGE, NULL,
                         "file name of the reference is too long, expected a shorter name");
    qkv_status status = qkv_model_open(&c->model, c->dir, &how, c->err);
    if (!status) status = qkv_tensors_open(&c->file, c->path, NULL, c->err);
    if (status) return status;
    c->info = qkv_model_info(c->model);
    return read_reference(c);
}

static int run_check(int argc, char **argv)
{
    qkv_error err = { 0 };
    struct check c = { .dir = argv[0], .err = &err };
    char folder[CMD_PATH];
    (void)argc;
    qkv_status status = cmd_model_path(&c.dir, folder, &err);
    if (!status) status = open_both(&c);
    if (!status) {
        if (common.json) printf("{\"compared\":[");
        status = run_model(&c);
        if (common.json) printf("],\"equal\":%s}\n", status || c.differs ? "false" : "true");
    }
    if (!status && !c.compared)
        status = cmd_error(
            &err, QKV_ERR_FORMAT, c.path,
            "reference has no tensor to compare, expected hidden, attention, logits, scores or "
            "token_scores");
    if (!status && c.differs)
        cmd_error(&err, QKV_ERR_INTERNAL, c.dir, "%s", c.first);
    else if (!status && !common.json)
        printf("equal within the tolerance: %lld comparisons\n", (long long)c.compared);
    free((void *)(uintptr_t)c.in.offsets);
    free((void *)(uintptr_t)c.in.ids);
    free((void *)(uintptr_t)c.in.types);
    free((void *)(uintptr_t)c.from.offsets);
    free((void *)(uintptr_t)c.from.ids);
    qkv_tensors_close(c.file);
    qkv_model_close(c.model);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_check = {
    .name = "check",
    .brief = "compare a model with a reference, layer by layer",
    .usage = "DIR [options]",
    .about = "Runs the model on the token ids of a stored reference, and compares embeddings, "
             "attention weights, hidden states, logits and label scores with the stored ones. The "
             "first layer that differs is named. `tools/golden.py reference DIR FILE` writes such "
             "a file with transformers, in double precision, for any model folder that "
             "transformers opens.\n\nExit code 1: a difference exceeds the tolerance.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_JSON | READS_OPERANDS,
    .min_args = 1,
    .max_args = 1,
    .examples = {
        { "qkv check tests/golden/bert", "a model folder that contains its reference" },
        { "qkv check models/big -r big.safetensors --json", "JSON" },
    },
    .run = run_check,
};
