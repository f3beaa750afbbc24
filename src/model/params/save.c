// SPDX-License-Identifier: MIT
// save.c: writes a model to a folder: config.json and model.safetensors with the names and shapes
// of its family's reference.
#include "model/params/trainable.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// ---- config.json -------------------------------------------------------------------------------
static const char *class_of(const qkv_net *n)
{
    const struct qkv_end_names *ends = n->family->ends;
    if (n->shape.labels) return ends->class_labels;
    if (n->kind == QKV_NET_DECODER && ends->class_decoder) return ends->class_decoder;
    return n->kind != QKV_NET_ENCODER || n->masked_end ? ends->class_tokens : ends->class_plain;
}

static bool is_utf8(const char *text)
{
    size_t left = strlen(text), bytes;
    for (; left; text += bytes, left -= bytes)
        if (!(bytes = qkv_utf8_bytes(text, left))) return false;
    return true;
}

// Writes the label names to the config; a name that is NULL or not UTF-8 becomes LABEL_n, as in
// transformers.
static bool put_labels(json_t *config, int64_t labels, const char *const *names)
{
    json_t *to_name = json_object(), *to_id = json_object();
    bool ok = to_name && to_id;
    for (int64_t i = 0; ok && i < labels; i++) {
        char id[24], number[32];
        snprintf(id, sizeof id, "%" PRId64, i);
        snprintf(number, sizeof number, "LABEL_%" PRId64, i);
        const char *name = names && names[i] && is_utf8(names[i]) ? names[i] : number;
        ok = qkv_put_text(to_name, id, name) && qkv_put_int(to_id, name, i);
    }
    // json_object_set adds a reference to the object, so the references of this function are
    // released in any case
    if (ok) ok = !json_object_set(config, "id2label", to_name);
    if (ok) ok = !json_object_set(config, "label2id", to_id);
    json_decref(to_name);
    json_decref(to_id);
    return ok;
}

// Names the labels LABEL_n unless the config already has a name for each of them.
static bool number_labels(json_t *config, int64_t labels)
{
    const json_t *old = json_object_get(config, "id2label");
    return !labels || (json_is_object(old) && (int64_t)json_object_size(old) == labels) ||
           put_labels(config, labels, NULL);
}

bool qkv_net_name_labels(qkv_net *n, const char *const *names)
{
    return put_labels(n->config, n->shape.labels, names);
}

bool qkv_net_name_tokens(qkv_net *n, int32_t bos, int32_t eos, int32_t mask)
{
    const struct {
        const char *key;
        int32_t id;
        bool wanted;
    } rows[] = { { "bos_token_id", bos, true },
                 { "eos_token_id", eos, true },
                 { "mask_token_id", mask, n->kind == QKV_NET_ENCODER },
                 // the tokens of the replaced tokenizer that generation would begin with or force
                 { "decoder_start_token_id", bos, n->is.start >= 0 },
                 { "forced_eos_token_id", eos,
                   json_object_get(n->config, "forced_eos_token_id") } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].wanted && rows[i].id >= 0 && !qkv_put_int(n->config, rows[i].key, rows[i].id))
            return false;
    json_object_del(n->config, "forced_bos_token_id");
    return true;
}

static bool finish_config(const qkv_net *n, json_t *config, qkv_dtype type)
{
    const char *name = type == QKV_BF16 ? "bfloat16" : type == QKV_F16 ? "float16" : "float32";
    json_t *classes = json_array();
    const bool ok = classes && !json_array_append_new(classes, json_string(class_of(n))) &&
                    !json_object_set(config, "architectures", classes);
    json_decref(classes);
    json_object_del(config, "torch_dtype"); // older name of the same key
    return ok && qkv_put_text(config, "dtype", name) && number_labels(config, n->shape.labels);
}

struct sink {
    struct qkv_output *out;
    qkv_error *err;
    qkv_status status;
};
static int to_file(const char *data, size_t bytes, void *ctx)
{
    struct sink *s = ctx;
    if (!s->status) s->status = qkv_output_write(s->out, data, bytes, s->err);
    return s->status ? -1 : 0;
}

static qkv_status save_config(const qkv_net *n, const char *dir, qkv_dtype type, qkv_error *err)
{
    char path[QKV_PATH];
    struct qkv_output out = { .fd = -1 };
    struct sink to = { &out, err, QKV_OK };
    json_t *config = json_deep_copy(n->config);
    qkv_status status = qkv_path_join(path, dir, "config.json", err);
    if (!status && !(config && finish_config(n, config, type))) status = qkv_fail_memory(err, path);
    if (!status) status = qkv_output_open(&out, path, true, err);
    if (!status && json_dump_callback(config, to_file, &to, JSON_INDENT(2)))
        status = to.status ? to.status : qkv_fail_memory(err, path);
    if (!status) status = qkv_output_write(&out, "\n", 1, err);
    if (!status) status = qkv_output_commit(&out, err);
    qkv_output_abort(&out);
    json_decref(config);
    return status;
}

// One tensor of the file: either parameters first .. first+parts-1, or `carried`, a tensor copied
// unchanged from the folder that was opened.
struct piece {
    int64_t first, parts;
    const struct qkv_tensor *carried;
};

static struct qkv_tensor tensor_of(const qkv_net *n, const struct piece *p, qkv_dtype type)
{
    if (p->carried) return *p->carried;
    struct qkv_tensor t = { .name = n->parameter[p->first].name, .dtype = type };
    t.rank = qkv_row_shape(t.shape, &n->row[p->first], p->parts);
    return t;
}

static void to_float(float *to, const real *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = (float)from[i];
}

// Copies row r of a tensor, as the file stores it, to row[]; returns the length of the row.
static int64_t gather_row(float *row, const qkv_net *n, const struct piece *p, int64_t r)
{
    const struct qkv_parameter *part = &n->parameter[p->first];
    int64_t at = 0;
    if (n->row[p->first].transposed) {
        for (int64_t i = 0; i < p->parts; i++)
            for (int64_t k = 0; k < part[i].shape[0]; k++)
                row[at++] = (float)part[i].value[k * part[i].shape[1] + r];
        return at;
    }
    if (part->rank == 1) { // a vector is one row
        for (int64_t i = 0; i < p->parts; i++) {
            to_float(row + at, part[i].value, part[i].count);
            at += part[i].count;
        }
        return at;
    }
    for (; r >= part->shape[0]; part++) r -= part->shape[0];
    to_float(row, part->value + r * part->shape[1], part->shape[1]);
    return part->shape[1];
}

// Returns the length of the longest row of all tensors that are not copied unchanged.
static int64_t longest_row(const qkv_net *n, const struct piece *p, int64_t pieces)
{
    int64_t most = 1;
    for (int64_t i = 0; i < pieces; i++) {
        const struct qkv_tensor t = tensor_of(n, &p[i], QKV_F32);
        if (!p[i].carried) most = qkv_max64(most, t.shape[t.rank - 1]);
    }
    return most;
}

static qkv_status write_piece(qkv_safetensors_writer *w, const qkv_net *n, const struct piece *p,
                              qkv_dtype type, float *row, void *stored, qkv_error *err)
{
    if (p->carried) return qkv_safetensors_append(w, p->carried->data, p->carried->bytes, err);
    const struct qkv_tensor t = tensor_of(n, p, type);
    const int64_t rows = t.rank == 1 ? 1 : t.shape[0];
    qkv_status status = QKV_OK;
    for (int64_t r = 0; !status && r < rows; r++) {
        const int64_t count = gather_row(row, n, p, r);
        qkv_from_f32(stored, type, row, count);
        status = qkv_safetensors_append(w, stored, (size_t)count * qkv_dtype_size(type), err);
    }
    return status;
}

// Fills p with all tensors of the file, wider element types first; returns their number.
static int64_t list_pieces(struct piece *p, const qkv_net *n, qkv_dtype type)
{
    int64_t pieces = 0;
    for (size_t size = 8; size; size /= 2) {
        for (int64_t i = 0; i < n->carried_count; i++)
            if (qkv_dtype_size(n->carried[i].tensor.dtype) == size)
                p[pieces++] = (struct piece){ .carried = &n->carried[i].tensor };
        if (qkv_dtype_size(type) != size) continue;
        for (int64_t i = 0, parts; i < n->slots; i += parts) {
            parts = qkv_tensor_rows(&n->row[i], n->slots - i);
            p[pieces++] = (struct piece){ .first = i, .parts = parts };
        }
    }
    return pieces;
}

static qkv_status save_weights(const qkv_net *n, const char *dir, qkv_dtype type, qkv_error *err)
{
    static const char *const metadata[] = { "format", "pt", NULL };
    char path[QKV_PATH];
    qkv_safetensors_writer *w = NULL;
    const size_t capacity = (size_t)(n->slots + n->carried_count + 1);
    struct piece *p = qkv_alloc_zero(capacity, sizeof *p);
    struct qkv_tensor *t = qkv_alloc_zero(capacity, sizeof *t);
    float *row = NULL, *stored = NULL;
    qkv_status status = qkv_path_join(path, dir, "model.safetensors", err);
    if (status) goto done;
    status = QKV_ERR_LIMIT;
    if (!p || !t) goto memory;
    const int64_t pieces = list_pieces(p, n, type), most = longest_row(n, p, pieces);
    row = qkv_alloc((size_t)most, sizeof *row);
    stored = qkv_alloc((size_t)most, sizeof *stored);
    if (!row || !stored) goto memory;
    for (int64_t i = 0; i < pieces; i++) t[i] = tensor_of(n, &p[i], type);
    status = qkv_safetensors_create(&w, path, t, pieces, metadata, true, err);
    for (int64_t i = 0; !status && i < pieces; i++)
        status = write_piece(w, n, &p[i], type, row, stored, err);
    if (!status) status = qkv_safetensors_finish(w, err);
    goto done;
memory:
    qkv_fail_memory(err, path);
done:
    qkv_safetensors_close(w);
    qkv_free(stored);
    qkv_free(row);
    qkv_free(t);
    qkv_free(p);
    return status;
}

qkv_status qkv_net_save(qkv_net *n, const char *dir, qkv_dtype type, qkv_error *err)
{
    if (type != QKV_F32 && type != QKV_BF16 && type != QKV_F16)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "unsupported type of saved weights, expected F32, BF16 or F16, found %s",
                        qkv_dtype_name(type) ? qkv_dtype_name(type) : "another value");
    const qkv_status status = save_weights(n, dir, type, err);
    return status ? status : save_config(n, dir, type, err);
}
