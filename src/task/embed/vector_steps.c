// SPDX-License-Identifier: MIT
// vector_steps.c: reads and applies the modules of sentence-transformers after the pooling: Dense,
// LayerNorm and Normalize.
//
//   Dense:      y = act(x W^T + b), plus x or x R^T with use_residual
//   LayerNorm:  as torch.nn.LayerNorm with its default epsilon, 1e-5
//   Normalize:  y = x / |x|
#include "task/embed/embed_internal.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { JSON_BYTES = 1 << 20, WIDTH_MOST = 1 << 16 };

// ---- activations: the classes of torch.nn, with the default values of their parameters ----------
static double relu(double x)
{
    return x < 0 ? 0 : x; // NaN stays NaN
}
static double relu6(double x)
{
    return x > 6 ? 6 : relu(x);
}
static double gelu(double x)
{
    return 0.5 * x * erfc(-x * 0.70710678118654752440);
}
static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double silu(double x)
{
    return x / (1 + exp(-x));
}
static double softplus(double x)
{
    return x > 20 ? x : log1p(exp(x)); // the threshold is torch's
}
static double mish(double x)
{
    return x * tanh(softplus(x));
}
static double elu(double x)
{
    return x < 0 ? expm1(x) : x;
}
static double selu(double x)
{
    return 1.0507009873554804934193349852946 *
           (x < 0 ? 1.6732632423543772848170429916717 * expm1(x) : x);
}
static double leaky_relu(double x)
{
    return x < 0 ? 0.01 * x : x;
}
static double softsign(double x)
{
    return x / (1 + fabs(x));
}

static const struct activation {
    const char *name;
    double (*function)(double); // NULL: the result of the linear layer does not change
} activations[] = {
    { "Identity", NULL },     { "Tanh", tanh }, { "ReLU", relu },
    { "GELU", gelu },         { "SiLU", silu }, { "Sigmoid", sigmoid },
    { "ELU", elu },           { "Mish", mish }, { "LeakyReLU", leaky_relu },
    { "Softplus", softplus }, { "SELU", selu }, { "ReLU6", relu6 },
    { "Softsign", softsign },
};

// Finds the activation of a Dense module by the path of its class, such as
// "torch.nn.modules.activation.Tanh". Returns NULL and reports an error if it is not in the table.
static const struct activation *find_activation(const struct qkv_json_at *at, const char *path)
{
    const char *last = strrchr(path, '.');
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++)
        if (strncmp(path, "torch.", 6) == 0 && strcmp(last + 1, activations[i].name) == 0)
            return &activations[i];
    qkv_fail(at->err, QKV_ERR_UNSUPPORTED,
             &(struct qkv_location){ .file = at->file, .path = "$.activation_function" },
             "unsupported activation function, expected torch.nn.Identity, Tanh, ReLU, GELU, SiLU, "
             "Sigmoid, ELU, Mish, LeakyReLU, Softplus, SELU, ReLU6 or Softsign, found \"%.100s\"",
             path);
    return NULL;
}

// ---- files of a module -------------------------------------------------------------------------
// Refuses a module that reads or writes other vectors than the vectors of the texts, such as
// the hidden states of the tokens.
static bool reads_vectors(const struct qkv_json_at *at)
{
    static const char *const keys[] = { "module_input_name", "module_output_name" };
    static const char *const paths[] = { "$.module_input_name", "$.module_output_name" };
    for (int i = 0; i < 2; i++) {
        const char *name = NULL;
        if (!qkv_json_text(at, keys[i], false, &name)) return false;
        if (!name || strcmp(name, "sentence_embedding") == 0) continue;
        qkv_fail(at->err, QKV_ERR_UNSUPPORTED,
                 &(struct qkv_location){ .file = at->file, .path = paths[i] },
                 "unsupported input or output of a module, expected \"sentence_embedding\", "
                 "found \"%.80s\"",
                 name);
        return false;
    }
    return true;
}

// Reads tensor `name` of shape [rows][columns], or [columns] if rows is 0, as floats. Returns NULL
// and reports an error if the tensor does not exist, has another shape, or memory is exhausted.
static float *read_tensor(const qkv_tensors *set, const char *dir, const char *name, int64_t rows,
                          int64_t columns, qkv_error *err)
{
    const struct qkv_tensor *t = qkv_tensors_find(set, name);
    const struct qkv_location at = { .file = dir, .path = name };
    const int rank = rows ? 2 : 1;
    if (!t) {
        qkv_fail(err, QKV_ERR_FORMAT, &at,
                 "missing tensor, expected %" PRId64 " x %" PRId64 " numbers, found none",
                 qkv_max64(rows, 1), columns);
        return NULL;
    }
    if (t->rank != rank || t->shape[rank - 1] != columns || (rows && t->shape[0] != rows)) {
        qkv_fail(err, QKV_ERR_FORMAT, &at,
                 "tensor of another shape than config.json says, expected %" PRId64 " x %" PRId64
                 " numbers",
                 qkv_max64(rows, 1), columns);
        return NULL;
    }
    float *floats = qkv_alloc((size_t)qkv_tensor_count(t), sizeof *floats);
    if (floats)
        qkv_tensor_to_f32(floats, t);
    else
        qkv_fail_memory(err, dir);
    return floats;
}

// Packs the weights `name` and, unless it is NULL, the bias of a linear layer. The precision of the
// model does not apply: these layers are small, and run once per text.
static qkv_status pack(qkv_packed **out, const qkv_tensors *set, const char *dir, const char *name,
                       const char *bias, const struct qkv_step *s, qkv_error *err)
{
    float *b = NULL, *w = read_tensor(set, dir, name, s->out, s->in, err);
    qkv_status status = w ? QKV_OK : err->status;
    if (!status && bias && !(b = read_tensor(set, dir, bias, 0, s->out, err))) status = err->status;
    if (!status) {
        status = qkv_packed_open(out, w, b, s->in, s->out, QKV_PRECISION_F32_STRICT);
        if (status) status = qkv_fail_memory(err, dir);
    }
    qkv_free(w);
    qkv_free(b);
    return status;
}

static qkv_status read_weights(struct qkv_step *s, const char *dir, bool bias, bool residual,
                               qkv_error *err)
{
    qkv_tensors *set = NULL;
    qkv_status status = qkv_tensors_open(&set, dir, NULL, err);
    if (status) return status;
    int64_t count = 1 + bias;
    if (s->kind == QKV_STEP_LAYER_NORM) {
        if (!(s->scale = read_tensor(set, dir, "norm.weight", 0, s->in, err)) ||
            !(s->shift = read_tensor(set, dir, "norm.bias", 0, s->in, err)))
            status = err->status;
    } else {
        status = pack(&s->linear, set, dir, "linear.weight", bias ? "linear.bias" : NULL, s, err);
        s->adds_input = residual && s->in == s->out;
        if (!status && residual && !s->adds_input) {
            count++;
            status = pack(&s->residual, set, dir, "residual.weight", NULL, s, err);
        }
    }
    if (!status && qkv_tensors_count(set) != count)
        status =
            qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = dir },
                     "module has other tensors than its kind, expected %" PRId64 ", found %" PRId64,
                     count, qkv_tensors_count(set));
    qkv_tensors_close(set);
    return status;
}

// ---- reading a module --------------------------------------------------------------------------
static qkv_status read_dense(struct qkv_step *s, const char *dir, const struct qkv_json_at *at)
{
    const char *activation = "torch.nn.Tanh";
    bool bias = true, residual = false;
    if (!qkv_json_limited(at, "in_features", true, &s->in, 1, WIDTH_MOST) ||
        !qkv_json_limited(at, "out_features", true, &s->out, 1, WIDTH_MOST) ||
        !qkv_json_bool(at, "bias", false, &bias) ||
        !qkv_json_bool(at, "use_residual", false, &residual) ||
        !qkv_json_text(at, "activation_function", false, &activation))
        return at->err->status;
    const struct activation *found = find_activation(at, activation);
    if (!found) return at->err->status;
    s->activation = found->function;
    s->sums_tokens = !bias && !found->function;
    return read_weights(s, dir, bias, residual, at->err);
}

static qkv_status read_layer_norm(struct qkv_step *s, const char *dir, const struct qkv_json_at *at)
{
    if (!qkv_json_limited(at, "dimension", true, &s->in, 1, WIDTH_MOST)) return at->err->status;
    s->out = s->in;
    s->sums_tokens = false;
    return read_weights(s, dir, true, false, at->err);
}

static qkv_status read_step(struct qkv_step *s, const char *dir, qkv_error *err)
{
    static qkv_status (*const readers[])(struct qkv_step *, const char *,
                                         const struct qkv_json_at *) = {
        [QKV_STEP_NORMALIZE] = NULL, // its folder may be missing
        [QKV_STEP_DENSE] = read_dense,
        [QKV_STEP_LAYER_NORM] = read_layer_norm,
    };
    char path[QKV_PATH];
    json_t *root = NULL;
    if (qkv_path_join(path, dir, "config.json", err)) return err->status;
    if (!readers[s->kind] && !qkv_path_may_exist(path)) return QKV_OK;
    if (qkv_json_file(&root, path, JSON_BYTES, err)) return err->status;
    const struct qkv_json_at at = { .object = root, .file = path, .path = "$", .err = err };
    if (reads_vectors(&at) && readers[s->kind]) readers[s->kind](s, dir, &at);
    json_decref(root);
    return err->status;
}

qkv_status qkv_steps_add(struct qkv_steps *list, enum qkv_step_kind kind, const char *dir,
                         qkv_error *err)
{
    void *p = list->at;
    if (!qkv_reserve(&p, &list->capacity, list->count + 1, sizeof *list->at))
        return qkv_fail_memory(err, dir);
    list->at = p;
    struct qkv_step *s = &list->at[list->count++];
    *s = (struct qkv_step){ .kind = kind, .sums_tokens = true };
    if (!dir) return QKV_OK;
    s->dir = qkv_copy_text(dir, strlen(dir));
    return s->dir ? read_step(s, dir, err) : qkv_fail_memory(err, dir);
}

qkv_status qkv_steps_width(const struct qkv_steps *list, int64_t *width, int64_t *widest,
                           qkv_error *err)
{
    *widest = *width;
    for (int64_t i = 0; i < list->count; i++) {
        const struct qkv_step *s = &list->at[i];
        if (s->kind == QKV_STEP_NORMALIZE) continue;
        if (s->in != *width)
            return qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = s->dir },
                            "module reads vectors of another width, expected the width of the "
                            "preceding module %" PRId64 ", found %" PRId64,
                            *width, s->in);
        *width = s->out;
        *widest = qkv_max64(*widest, s->out);
    }
    return QKV_OK;
}

bool qkv_steps_are(const struct qkv_steps *list, enum qkv_step_kind kind)
{
    for (int64_t i = 0; i < list->count; i++)
        if (list->at[i].kind != kind) return false;
    return true;
}

void qkv_steps_free(struct qkv_steps *list)
{
    for (int64_t i = 0; i < list->count; i++) {
        struct qkv_step *s = &list->at[i];
        qkv_packed_close(s->linear);
        qkv_packed_close(s->residual);
        qkv_free(s->scale);
        qkv_free(s->shift);
        qkv_free(s->dir);
    }
    qkv_free(list->at);
    memset(list, 0, sizeof *list);
}

// ---- applying the modules ----------------------------------------------------------------------
struct rows {
    const struct qkv_step *s;
    float *y;
    const float *x; // Dense: the input rows
    int64_t width;
};

static void normalize_row(void *ctx, int64_t r, int thread)
{
    const struct rows *j = ctx;
    (void)thread;
    qkv_unit_length(j->y + r * j->width, j->width);
}

static void activate_row(void *ctx, int64_t r, int thread)
{
    const struct rows *j = ctx;
    float *y = j->y + r * j->width;
    (void)thread;
    for (int64_t i = 0; j->s->activation && i < j->width; i++)
        y[i] = (float)j->s->activation((double)y[i]);
    for (int64_t i = 0; j->s->adds_input && i < j->width; i++) y[i] += j->x[r * j->width + i];
}

static qkv_status run_dense(const struct qkv_step *s, float *y, const float *x, int64_t R)
{
    qkv_status status = qkv_packed_linear(y, x, R, s->linear, NULL);
    if (status) return status;
    struct rows job = { s, y, x, s->out };
    if (s->activation || s->adds_input) qkv_parallel_for(R, activate_row, &job);
    const struct qkv_packed_call add = { .residual = y };
    return s->residual ? qkv_packed_linear(y, x, R, s->residual, &add) : QKV_OK;
}

qkv_status qkv_steps_run(const struct qkv_steps *list, int64_t count, float **rows, float **other,
                         int64_t R, int64_t width)
{
    for (int64_t i = 0; i < count; i++) {
        const struct qkv_step *s = &list->at[i];
        struct rows job = { .s = s, .y = *rows, .width = width };
        if (s->kind == QKV_STEP_NORMALIZE) {
            qkv_parallel_for(R, normalize_row, &job);
        } else if (s->kind == QKV_STEP_LAYER_NORM) {
            qkv_layer_norm(*rows, *rows, s->scale, s->shift, 1e-5f, R, width);
        } else {
            const qkv_status status = run_dense(s, *other, *rows, R);
            if (status) return status;
            float *swap = *rows;
            *rows = *other;
            *other = swap;
            width = s->out;
        }
    }
    return QKV_OK;
}
