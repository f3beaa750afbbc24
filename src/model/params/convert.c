// SPDX-License-Identifier: MIT
// convert.c: converts the weights of a model folder to another element type, into one file or
// shards.
#define _XOPEN_SOURCE 700 // realpath
#include "model/model_internal.h"
#include "model/params/convert_copy.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <qkv/convert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCALE QKV_EIGHT_SCALE
enum { NUMBERS = 1 << 16, NAME = 4200, SMALL = 64 << 20 };

// Ways to convert a tensor of the old folder to a tensor of the new folder.
enum how {
    AS_IT_IS,
    CAST,    // floats converted to another floating-point type
    EIGHTS,  // floats quantized to int8
    SCALES,  // row scales of the quantized tensor
    WIDENED, // int8 weights expanded to floats
};
struct piece {
    // from: tensor of the old folder; scale: its row scales, only for WIDENED
    const struct qkv_tensor *from, *scale;
    enum how how;
    // true: the tensor is stored as [in][out], so each column has one scale; false: each row
    bool turned;
    int64_t shard;
    char *name; // name in the new folder; NULL: the name of `from`
    struct qkv_tensor to;
};
struct job {
    const char *dir;
    const struct qkv_convert_options *o;
    struct qkv_config config;
    qkv_tensors *own; // the tensors of the old folder, opened without a model
    // the opened model, which determines the tensors that are weights of linear layers; only for
    // conversions to or from int8, otherwise NULL
    qkv_model *model;
    const qkv_tensors *file;
    struct piece *piece;
    int64_t pieces, shards;
    int64_t done, total; // bytes written so far; bytes to write
    struct qkv_folder out;
    float *floats; // [NUMBERS] scratch
    void *stored;  // [NUMBERS] scratch of any element type
    qkv_error *err;
};

static bool is_float(qkv_dtype t)
{
    return t == QKV_F32 || t == QKV_F64 || t == QKV_F16 || t == QKV_BF16;
}

// ---- choice of the conversion ------------------------------------------------------------------
// Returns the source of the linear layer whose weights are in t; NULL: t belongs to no linear
// layer, or t is also an embedding table.
static const struct qkv_linear_source *linear_of(const struct qkv_model *m,
                                                 const struct qkv_tensor *t)
{
    for (int i = 0; i < m->stacks; i++)
        if (t == m->stack[i].word.tensor) return NULL;
    for (int64_t i = 0; i < m->sources; i++)
        for (int p = 0; p < m->source[i].to->parts; p++)
            if (m->source[i].from[p] == t) return &m->source[i];
    return NULL;
}

static const struct qkv_tensor *scale_of(const qkv_tensors *file, const struct qkv_tensor *t)
{
    char name[NAME];
    if (t->dtype != QKV_I8 || t->rank != 2) return NULL;
    snprintf(name, sizeof name, "%s" SCALE, t->name);
    const struct qkv_tensor *s = qkv_tensors_find(file, name);
    return s && s->dtype == QKV_F32 && s->rank == 1 ? s : NULL;
}
// Returns true if t contains the row scales of an int8 tensor.
static bool is_scale(const qkv_tensors *file, const struct qkv_tensor *t)
{
    char name[NAME];
    const size_t n = strlen(t->name), tail = strlen(SCALE);
    if (n <= tail || n >= sizeof name || strcmp(t->name + n - tail, SCALE) != 0) return false;
    snprintf(name, sizeof name, "%.*s", (int)(n - tail), t->name);
    const struct qkv_tensor *of = qkv_tensors_find(file, name);
    return of && scale_of(file, of) == t;
}

static qkv_status refuse(const struct job *j, qkv_status s, const struct qkv_tensor *t,
                         const char *text, const char *want, const char *found)
{
    const struct qkv_location at = { .file = qkv_tensors_file(j->file, t), .path = t->name };
    return qkv_fail(j->err, s, &at, "%s, expected %s, found %s", text, want, found);
}

static struct piece *add(struct job *j, const struct qkv_tensor *t, enum how how, qkv_dtype type)
{
    struct piece *p = &j->piece[j->pieces++];
    p->from = t;
    p->how = how;
    p->to = *t;
    p->to.dtype = type;
    return p;
}

// Adds two tensors to the new folder: the weights t as int8, and their row scales.
static qkv_status add_eights(struct job *j, const struct qkv_tensor *t, bool turned)
{
    char name[NAME];
    if (t->rank != 2)
        return refuse(j, QKV_ERR_UNSUPPORTED, t, "unsupported rank of weights to convert to int8",
                      "a matrix", "another rank");
    add(j, t, EIGHTS, QKV_I8)->turned = turned;
    struct piece *p = add(j, t, SCALES, QKV_F32);
    snprintf(name, sizeof name, "%s" SCALE, t->name);
    p->name = qkv_copy_text(name, strlen(name));
    if (!p->name) return qkv_fail_memory(j->err, j->dir);
    p->turned = turned;
    p->to.name = p->name;
    p->to.rank = 1;
    p->to.shape[0] = t->shape[turned ? 1 : 0];
    return QKV_OK;
}

static qkv_status plan_tensor(struct job *j, const struct qkv_tensor *t)
{
    const qkv_dtype type = qkv_precision_type(j->o->precision);
    const struct qkv_tensor *scale = scale_of(j->file, t);
    if (is_scale(j->file, t)) return QKV_OK;
    if (j->o->precision == QKV_PRECISION_INT8) {
        if (scale)
            return refuse(j, QKV_ERR_UNSUPPORTED, t,
                          "unsupported type of weights to convert to int8", "floats", "int8");
        const struct qkv_linear_source *source = linear_of(j->model, t);
        if (source && is_float(t->dtype)) return add_eights(j, t, source->transposed);
        add(j, t, AS_IT_IS, t->dtype);
    } else if (scale) {
        const struct qkv_linear_source *source = linear_of(j->model, t);
        struct piece *p = add(j, t, WIDENED, type);
        p->scale = scale;
        p->turned = source && source->transposed;
        if (p->scale->shape[0] != t->shape[p->turned])
            return refuse(j, QKV_ERR_FORMAT, scale, "wrong number of scales of an int8 matrix",
                          "one scale for each output", "another number");
    } else {
        add(j, t, is_float(t->dtype) && t->dtype != type ? CAST : AS_IT_IS,
            is_float(t->dtype) ? type : t->dtype);
    }
    return QKV_OK;
}

static int by_size(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    const size_t s = qkv_dtype_size(x->to.dtype), t = qkv_dtype_size(y->to.dtype);
    if (x->shard != y->shard) return x->shard < y->shard ? -1 : 1;
    if (s != t) return s > t ? -1 : 1; // wider types first, so that every tensor is aligned
    return strcmp(x->to.name, y->to.name);
}

// Distributes the tensors over shards in the order of their names: a tensor that does not fit in
// the current shard begins the next shard.
static void deal(struct job *j)
{
    int64_t capacity = j->o->shard_bytes;
    j->shards = 1;
    for (int64_t i = 0; i < j->pieces; i++) {
        struct piece *p = &j->piece[i];
        p->to.bytes = (size_t)qkv_tensor_count(&p->to) * qkv_dtype_size(p->to.dtype);
        j->total += (int64_t)p->to.bytes;
        if (j->o->shard_bytes && capacity < (int64_t)p->to.bytes && i) {
            j->shards++;
            capacity = j->o->shard_bytes;
        }
        capacity -= (int64_t)p->to.bytes;
        p->shard = j->shards - 1;
    }
    qsort(j->piece, (size_t)j->pieces, sizeof *j->piece, by_size);
}

static qkv_status plan(struct job *j)
{
    const int64_t n = qkv_tensors_count(j->file);
    j->piece = qkv_alloc_zero((size_t)(2 * n + 1), sizeof *j->piece);
    if (!j->piece) return qkv_fail_memory(j->err, j->dir);
    for (int64_t i = 0; i < n; i++) {
        const qkv_status status = plan_tensor(j, qkv_tensors_at(j->file, i));
        if (status) return status;
    }
    deal(j);
    return QKV_OK;
}

// ---- numbers -----------------------------------------------------------------------------------
static qkv_status put(struct job *j, qkv_safetensors_writer *w, const void *data, size_t bytes)
{
    const struct qkv_progress *p = &j->o->progress;
    const qkv_status status = qkv_safetensors_append(w, data, bytes, j->err);
    if (status) return status;
    j->done += (int64_t)bytes;
    if (!p->step || !p->step(p->user, "convert", j->done, j->total)) return QKV_OK;
    return qkv_fail(j->err, QKV_ERR_INTERRUPTED, NULL, "stopped");
}

// Writes n <= NUMBERS floats of the new tensor p, converted to its element type.
static qkv_status put_floats(struct job *j, qkv_safetensors_writer *w, const struct piece *p,
                             const float *x, int64_t n)
{
    if (p->to.dtype == QKV_F16)
        for (int64_t i = 0; i < n; i++)
            // F16 would round x[i] to infinity
            if (fabsf(x[i]) >= 65520 && fabsf(x[i]) < INFINITY) {
                char found[32];
                snprintf(found, sizeof found, "%g", (double)x[i]);
                return refuse(j, QKV_ERR_UNSUPPORTED, p->from, "number too large for F16",
                              "at most 65504", found);
            }
    qkv_from_f32(j->stored, p->to.dtype, x, n);
    return put(j, w, j->stored, (size_t)n * qkv_dtype_size(p->to.dtype));
}

// Converts elements first .. first+n-1 of a tensor to float.
static void floats_of(float *to, const struct qkv_tensor *t, int64_t first, int64_t n)
{
    struct qkv_tensor part = *t;
    const size_t size = qkv_dtype_size(t->dtype);
    part.rank = 1;
    part.shape[0] = n;
    part.bytes = (size_t)n * size;
    part.data = (const char *)t->data + (size_t)first * size;
    qkv_tensor_to_f32(to, &part);
}

static qkv_status put_as_it_is(struct job *j, qkv_safetensors_writer *w, const struct piece *p)
{
    qkv_status status = QKV_OK;
    for (size_t at = 0, n; !status && at < p->to.bytes; at += n) {
        n = p->to.bytes - at < SMALL ? p->to.bytes - at : SMALL;
        status = put(j, w, (const char *)p->from->data + at, n);
    }
    return status;
}

static qkv_status put_cast(struct job *j, qkv_safetensors_writer *w, const struct piece *p)
{
    const int64_t all = qkv_tensor_count(p->from);
    qkv_status status = QKV_OK;
    for (int64_t at = 0, n; !status && at < all; at += n) {
        n = qkv_min64(all - at, NUMBERS);
        floats_of(j->floats, p->from, at, n);
        status = put_floats(j, w, p, j->floats, n);
    }
    return status;
}

// Refuses row i of the weights t, with numbers x[n][ld], whose scale is NaN: one of its numbers is
// not finite.
static qkv_status refuse_row(const struct job *j, const struct qkv_tensor *t, int64_t row,
                             const float *x, int64_t n, int64_t ld)
{
    char found[80];
    int64_t i = 0;
    while (i < n - 1 && isfinite(x[i * ld])) i++;
    snprintf(found, sizeof found, "%s at output %" PRId64 ", input %" PRId64,
             isnan(x[i * ld]) ? "NaN"
             : x[i * ld] > 0  ? "infinity"
                              : "-infinity",
             row, i);
    return refuse(j, QKV_ERR_UNSUPPORTED, t, "number is not finite and cannot be converted to int8",
                  "finite numbers", found);
}

// Quantizes a tensor. For EIGHTS writes its int8 weights, in the order of the tensor; for SCALES
// writes its row scales. These are two tensors of the new folder, so each tensor is quantized
// twice.
static qkv_status put_eights(struct job *j, qkv_safetensors_writer *w, const struct piece *p)
{
    const struct qkv_tensor *t = p->from;
    const int64_t rows = t->shape[0], columns = t->shape[1], outputs = p->turned ? columns : rows;
    const int64_t n = p->turned ? rows : columns, held = p->turned ? rows * columns : columns;
    float *x = qkv_alloc((size_t)held, sizeof *x),
          *scale = qkv_alloc((size_t)outputs, sizeof *scale);
    int8_t *q = qkv_alloc((size_t)held, 1);
    qkv_status status = QKV_OK;
    if (!x || !scale || !q) status = qkv_fail_memory(j->err, j->dir);
    if (!status && p->turned) floats_of(x, t, 0, held);
    for (int64_t i = 0; !status && i < outputs; i++) {
        const int64_t at = p->turned ? i : 0;
        if (!p->turned) floats_of(x, t, i * columns, columns);
        const int64_t ld = p->turned ? columns : 1;
        qkv_quantise_row(q + at, &scale[i], x + at, n, ld);
        if (isnan(scale[i])) status = refuse_row(j, t, i, x + at, n, ld);
        if (!status && !p->turned && p->how == EIGHTS) status = put(j, w, q, (size_t)columns);
    }
    if (!status && p->how == SCALES)
        status = put(j, w, scale, (size_t)outputs * sizeof *scale);
    else if (!status && p->turned)
        status = put(j, w, q, (size_t)held);
    qkv_free(x);
    qkv_free(scale);
    qkv_free(q);
    return status;
}

static qkv_status put_widened(struct job *j, qkv_safetensors_writer *w, const struct piece *p)
{
    const int64_t columns = p->from->shape[1], all = qkv_tensor_count(p->from);
    const int8_t *q = p->from->data;
    qkv_status status = QKV_OK;
    for (int64_t at = 0, n; !status && at < all; at += n) {
        n = qkv_min64(all - at, NUMBERS);
        for (int64_t i = 0; i < n; i++) {
            const int64_t out = p->turned ? (at + i) % columns : (at + i) / columns;
            float scale;
            real x;
            memcpy(&scale, (const char *)p->scale->data + (size_t)out * sizeof scale, sizeof scale);
            qkv_quantised_row(&x, q + at + i, scale, 1, 1);
            j->floats[i] = (float)x;
        }
        status = put_floats(j, w, p, j->floats, n);
    }
    return status;
}

// ---- files -------------------------------------------------------------------------------------
// Returns the name of the weights, without its ending: other programs, which know no such int8
// weights, do not find a file of the name QKV_EIGHT_NAME.
static const char *stem(const struct job *j)
{
    return j->o->precision == QKV_PRECISION_INT8 ? QKV_EIGHT_NAME : "model";
}

static void shard_name(char name[64], const struct job *j, int64_t shard)
{
    if (j->shards == 1)
        snprintf(name, 64, "%s.safetensors", stem(j));
    else
        snprintf(name, 64, "%s-%05" PRId64 "-of-%05" PRId64 ".safetensors", stem(j), shard + 1,
                 j->shards);
}

static qkv_status write_shard(struct job *j, int64_t first, int64_t n)
{
    static const char *const plain[] = { "format", "pt", NULL };
    static const char *const eight[] = { "format", "pt", QKV_EIGHT_BITS, "int8", NULL };
    static qkv_status (*const puts_it[])(struct job *, qkv_safetensors_writer *,
                                         const struct piece *) = {
        [AS_IT_IS] = put_as_it_is, [CAST] = put_cast,       [EIGHTS] = put_eights,
        [SCALES] = put_eights,     [WIDENED] = put_widened,
    };
    char path[QKV_PATH], name[64];
    qkv_safetensors_writer *w = NULL;
    struct qkv_tensor *t = qkv_alloc((size_t)n, sizeof *t);
    if (!t) return qkv_fail_memory(j->err, j->dir);
    for (int64_t i = 0; i < n; i++) t[i] = j->piece[first + i].to;
    shard_name(name, j, j->piece[first].shard);
    qkv_status status = qkv_path_join(path, j->out.dir, name, j->err);
    if (!status)
        status = qkv_safetensors_create(
            &w, path, t, n, j->o->precision == QKV_PRECISION_INT8 ? eight : plain, false, j->err);
    for (int64_t i = first; !status && i < first + n; i++)
        status = puts_it[j->piece[i].how](j, w, &j->piece[i]);
    if (!status) status = qkv_safetensors_finish(w, j->err);
    qkv_safetensors_close(w);
    qkv_free(t);
    return status;
}

static qkv_status write_index(struct job *j)
{
    char path[QKV_PATH], file[64];
    snprintf(file, sizeof file, "%s.safetensors.index.json", stem(j));
    qkv_status status = qkv_path_join(path, j->out.dir, file, j->err);
    json_t *map = json_object(), *root = json_pack("{s{sI}so}", "metadata", "total_size",
                                                   (json_int_t)j->total, "weight_map", map);
    for (int64_t i = 0; !status && root && i < j->pieces; i++) {
        char name[64];
        shard_name(name, j, j->piece[i].shard);
        if (json_object_set_new_nocheck(map, j->piece[i].to.name, json_string(name)))
            status = qkv_fail_memory(j->err, path);
    }
    if (!status) status = qkv_json_write(path, root, false, j->err); // NULL: memory is exhausted
    json_decref(root);
    return status;
}

static qkv_status write_weights(struct job *j)
{
    qkv_status status = QKV_OK;
    if (!j->pieces) return write_shard(j, 0, 0);
    for (int64_t i = 0, n; !status && i < j->pieces; i += n) {
        for (n = 1; i + n < j->pieces && j->piece[i + n].shard == j->piece[i].shard;) n++;
        status = write_shard(j, i, n);
    }
    return !status && j->shards > 1 ? write_index(j) : status;
}

static qkv_status write_config(struct job *j)
{
    static const char *const names[] = {
        [QKV_F32] = "float32", [QKV_F16] = "float16", [QKV_BF16] = "bfloat16"
    };
    const bool eight = j->o->precision == QKV_PRECISION_INT8;
    char path[QKV_PATH];
    qkv_status status = qkv_path_join(path, j->out.dir, "config.json", j->err);
    json_t *root = json_deep_copy(j->config.root);
    bool ok = root != NULL;
    json_object_del(root, "quantization_config");
    if (ok && !eight) {
        json_object_del(root, "torch_dtype"); // older name of the same key
        ok = qkv_put_text(root, "dtype", names[qkv_precision_type(j->o->precision)]);
    } else if (ok) { // this key tells other programs that only qkv reads such int8 weights
        ok = !json_object_set_new(root, "quantization_config",
                                  json_pack("{ss}", "quant_method", QKV_EIGHT_METHOD));
    }
    if (!ok) status = qkv_fail_memory(j->err, path);
    if (!status) status = qkv_json_write(path, root, false, j->err);
    json_decref(root);
    return status;
}

// If j->dir names a file (*.bin), sets *file to true and writes the folder of this file to
// `folder`. If j->dir names a folder, sets *file to false and copies j->dir to `folder`.
static void folder_of(char folder[QKV_PATH], const struct job *j, bool *file)
{
    const char *slash = strrchr(j->dir, '/');
    const size_t n = strlen(j->dir);
    *file = n > 4 && strcmp(j->dir + n - 4, ".bin") == 0;
    snprintf(folder, QKV_PATH, "%.*s",
             !*file  ? QKV_PATH - 1
             : slash ? (int)(slash - j->dir) + 1
                     : 1,
             *file && !slash ? "." : j->dir);
}

// Checks that the new folder is not the old folder, and that neither is inside the other.
static qkv_status check_apart(const struct job *j, const char *out)
{
    char from[PATH_MAX], to[PATH_MAX], above[QKV_PATH], folder[QKV_PATH];
    bool file;
    const size_t n = strlen(out);
    const struct qkv_location at = { .file = out };
    folder_of(folder, j, &file);
    if (!n || n >= sizeof above) return qkv_fail_errno(j->err, out, "cannot make", ENAMETOOLONG);
    if (!realpath(folder, from)) return qkv_fail_errno(j->err, folder, "cannot open", errno);
    if (realpath(out, to) && strcmp(from, to) == 0)
        return qkv_fail(j->err, QKV_ERR_USAGE, &at,
                        "folder is input and output at once, expected another name for the output");
    if (realpath(out, to) && qkv_path_is_inside(from, to))
        return qkv_fail(j->err, QKV_ERR_USAGE, &at,
                        "old folder is inside the new one, expected a folder outside of %s", out);
    memcpy(above, out, n + 1);
    char *end = above + n;
    while (end > above + 1 && end[-1] == '/') *--end = 0;
    char *slash = strrchr(above, '/');
    if (slash) slash[slash == above] = 0;
    if (!realpath(slash ? above : ".", to))
        return qkv_fail_errno(j->err, out, "cannot make", errno);
    if (file || (strcmp(to, from) != 0 && !qkv_path_is_inside(to, from))) return QKV_OK;
    return qkv_fail(j->err, QKV_ERR_USAGE, &at,
                    "new folder is inside the old one, expected a folder outside of %s", j->dir);
}

// ---- a whole conversion ------------------------------------------------------------------------
// Checks that the settings, the weights and the tokenizer, which the new folder contains, are files
// of the old folder, and that the settings name a family.
static qkv_status check_files(const struct job *j)
{
    char folder[QKV_PATH], path[QKV_PATH];
    bool file;
    folder_of(folder, j, &file);
    qkv_status status = qkv_convert_check_copies(folder, j->err);
    if (file) return status; // the caller named the file of the settings and the weights
    if (!status) status = qkv_path_join(path, folder, "config.json", j->err);
    if (!status) status = qkv_folder_has(folder, path, j->err);
    if (!status) status = qkv_folder_has_weights(folder, j->own, j->err);
    if (status || json_is_string(json_object_get(j->config.root, "model_type"))) return status;
    return qkv_fail(j->err, QKV_ERR_FORMAT,
                    &(struct qkv_location){ .file = path, .path = "$.model_type" },
                    "required member is missing, expected the family of the model, found none");
}

static qkv_status open_all(struct job *j)
{
    qkv_status status = qkv_config_open(&j->config, j->dir, j->err);
    if (!status) status = qkv_tensors_open(&j->own, j->dir, NULL, j->err);
    if (!status) status = check_files(j);
    if (!status) status = qkv_checkpoint_check(j->dir, j->own, j->err);
    if (status) return status;
    j->file = j->own;
    const bool eight = qkv_tensors_metadata(j->own, QKV_EIGHT_BITS) != NULL;
    if (eight && j->o->precision == QKV_PRECISION_INT8)
        return qkv_fail(j->err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = j->dir },
                        "weights cannot be converted to int8, expected floats, found int8");
    if (!eight && j->o->precision != QKV_PRECISION_INT8) return QKV_OK;
    status = qkv_model_open(&j->model, j->dir, NULL, j->err);
    if (status) return status;
    j->file = j->model->file;
    if (j->model->sources) return QKV_OK;
    return qkv_fail(j->err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = j->dir },
                    "conversion to int8 requires a Transformer; this model is %s",
                    j->model->model_type);
}

static qkv_status write_all(struct job *j, const char *out, struct qkv_convert_report *report)
{
    char folder[QKV_PATH];
    bool file;
    folder_of(folder, j, &file);
    qkv_status status = qkv_folder_begin(&j->out, out, j->o->force, j->err);
    if (!status) status = write_config(j);
    if (!status) status = write_weights(j);
    if (!status) status = qkv_convert_copy(&j->out, folder, file, report, j->err);
    // the weights that were converted are not left out, although their files have other names now
    if (!status && !file) report->left_out -= qkv_folder_weights_gone(&j->out, j->file);
    if (!status) status = qkv_folder_commit(&j->out, j->err);
    qkv_folder_abort(&j->out, j->err);
    return status;
}

static void tell(const struct job *j, struct qkv_convert_report *report)
{
    report->tensors = j->pieces;
    report->files = j->shards;
    report->bytes_out = j->total;
    for (int64_t i = 0; i < qkv_tensors_count(j->file); i++)
        report->bytes_in += (int64_t)qkv_tensors_at(j->file, i)->bytes;
    for (int64_t i = 0; i < j->pieces; i++) report->eight_bits += j->piece[i].how == EIGHTS;
}

static void close_all(struct job *j)
{
    for (int64_t i = 0; i < j->pieces; i++) qkv_free(j->piece[i].name);
    qkv_free(j->piece);
    qkv_free(j->floats);
    qkv_free(j->stored);
    qkv_model_close(j->model);
    qkv_tensors_close(j->own);
    qkv_config_close(&j->config);
}

static qkv_status check(const char *dir, const char *out, const struct qkv_convert_options *o,
                        qkv_error *err)
{
    if (!dir || !out)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "qkv_convert: expected two folders, found NULL");
    const qkv_precision p = o->precision;
    if (p != QKV_PRECISION_F32 && p != QKV_PRECISION_F16 && p != QKV_PRECISION_BF16 &&
        p != QKV_PRECISION_INT8)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "unknown type of weights, expected f32, f16, bf16 or int8, found %s",
                        qkv_precision_name(p) ? qkv_precision_name(p) : "another value");
    if (o->shard_bytes < 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid number of bytes of a shard, expected 0 or more, found %" PRId64,
                        o->shard_bytes);
    return QKV_OK;
}

qkv_status qkv_convert(const char *dir, const char *out, const struct qkv_convert_options *o,
                       struct qkv_convert_report *report, qkv_error *err)
{
    static const struct qkv_convert_options plain;
    struct qkv_convert_report ignored;
    struct job j = { .dir = dir, .o = o ? o : &plain, .err = err };
    qkv_status status = check(dir, out, j.o, err);
    if (status) return status;
    if (!report) report = &ignored;
    memset(report, 0, sizeof *report);
    status = check_apart(&j, out);
    if (!status) status = open_all(&j);
    if (!status) status = plan(&j);
    if (!status) {
        j.floats = qkv_alloc(NUMBERS, sizeof *j.floats);
        j.stored = qkv_alloc(NUMBERS, sizeof(double));
        if (!j.floats || !j.stored) status = qkv_fail_memory(err, dir);
    }
    if (!status) status = write_all(&j, out, report);
    if (!status) tell(&j, report);
    close_all(&j);
    return status;
}
