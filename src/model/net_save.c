// SPDX-License-Identifier: MIT
// net_save.c: a net to a folder: config.json and model.safetensors, as its family's reference names
// and shapes them.
#include "model/net_body.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// ---- config.json -------------------------------------------------------------------------------
static const char *class_of(const qkv_net *n)
{
    const struct qkv_end_names *ends = n->family->ends;
    if (n->shape.labels) return ends->class_labels;
    return n->kind != QKV_NET_ENCODER || n->masked_end ? ends->class_tokens : ends->class_plain;
}

static bool is_utf8(const char *text)
{
    size_t left = strlen(text), bytes;
    for (; left; text += bytes, left -= bytes)
        if (!(bytes = qkv_utf8_bytes(text, left))) return false;
    return true;
}

// Names of labels; one that is NULL or no UTF-8 is LABEL_n, as transformers has it.
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
    // set takes its own reference: both are given back below, whatever happened
    if (ok) ok = !json_object_set(config, "id2label", to_name);
    if (ok) ok = !json_object_set(config, "label2id", to_id);
    json_decref(to_name);
    json_decref(to_id);
    return ok;
}

// Where the config does not have as many, they are numbers.
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

const char *qkv_net_label(const qkv_net *n, int64_t label)
{
    char id[24];
    snprintf(id, sizeof id, "%" PRId64, label);
    return json_string_value(json_object_get(json_object_get(n->config, "id2label"), id));
}

static bool finish_config(const qkv_net *n, json_t *config, qkv_dtype type)
{
    const char *name = type == QKV_BF16 ? "bfloat16" : type == QKV_F16 ? "float16" : "float32";
    json_t *classes = json_array();
    const bool ok = classes && !json_array_append_new(classes, json_string(class_of(n))) &&
                    !json_object_set(config, "architectures", classes);
    json_decref(classes);
    json_object_del(config, "torch_dtype"); // its older name
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
    qkv_status s = qkv_path_join(path, dir, "config.json", err);
    if (!s && !(config && finish_config(n, config, type))) s = qkv_fail_memory(err, path);
    if (!s) s = qkv_output_open(&out, path, true, err);
    if (!s && json_dump_callback(config, to_file, &to, JSON_INDENT(2)))
        s = to.status ? to.status : qkv_fail_memory(err, path);
    if (!s) s = qkv_output_write(&out, "\n", 1, err);
    if (!s) s = qkv_output_commit(&out, err);
    qkv_output_abort(&out);
    json_decref(config);
    return s;
}

// ---- model.safetensors -------------------------------------------------------------------------
// One tensor of the file: parameters first .. first+parts-1, or one that was carried, or numbers.
struct piece {
    int64_t first, parts;
    const struct qkv_tensor *carried;
    const real *fixed; // [V]
};

static struct qkv_tensor tensor_of(const qkv_net *n, const struct piece *p, qkv_dtype type)
{
    if (p->carried) return *p->carried;
    if (p->fixed)
        return (struct qkv_tensor){ .name = n->family->ends->logits_bias,
                                    .dtype = type,
                                    .rank = 2,
                                    .shape = { 1, n->shape.vocab } };
    const struct qkv_parameter *first = &n->parameter[p->first];
    const struct qkv_net_slot *slot = &n->slot[p->first];
    struct qkv_tensor t = { .name = first->name, .dtype = type, .rank = first->rank };
    int64_t rows = 0;
    for (int64_t i = 0; i < p->parts; i++) rows += first[i].shape[0];
    t.shape[0] = slot->transposed ? first->shape[1] : rows;
    t.shape[1] = slot->transposed ? rows : first->shape[1];
    return t;
}

static void to_float(float *to, const real *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = (float)from[i];
}

// row[] = row r of the piece as the file has it; returns how many numbers.
static int64_t gather(float *row, const qkv_net *n, const struct piece *p, int64_t r)
{
    const struct qkv_parameter *part = &n->parameter[p->first];
    int64_t at = 0;
    if (n->slot[p->first].transposed) {
        for (int64_t i = 0; i < p->parts; i++)
            for (int64_t k = 0; k < part[i].shape[0]; k++)
                row[at++] = (float)part[i].value[k * part[i].shape[1] + r];
        return at;
    }
    if (part->rank == 1) { // all of it is one row
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

// The longest row of any piece.
static int64_t widest(const qkv_net *n, const struct piece *p, int64_t pieces)
{
    int64_t most = n->shape.vocab;
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
    const int64_t rows = p->fixed || t.rank == 1 ? 1 : t.shape[0];
    qkv_status s = QKV_OK;
    for (int64_t r = 0; !s && r < rows; r++) {
        int64_t count = n->shape.vocab;
        if (p->fixed)
            to_float(row, p->fixed, count);
        else
            count = gather(row, n, p, r);
        qkv_from_f32(stored, type, row, count);
        s = qkv_safetensors_append(w, stored, (size_t)count * qkv_dtype_size(type), err);
    }
    return s;
}

// All pieces, those of wider types first; returns how many.
static int64_t list_pieces(struct piece *p, const qkv_net *n, qkv_dtype type)
{
    int64_t pieces = 0;
    for (size_t size = 8; size; size /= 2) {
        for (int64_t i = 0; i < n->carried_count; i++)
            if (qkv_dtype_size(n->carried[i].tensor.dtype) == size)
                p[pieces++] = (struct piece){ .carried = &n->carried[i].tensor };
        if (qkv_dtype_size(type) != size) continue;
        for (int64_t i = 0, parts; i < n->parameters; i += parts) {
            for (parts = 1; i + parts < n->parameters && n->slot[i + parts].joined;) parts++;
            p[pieces++] = (struct piece){ .first = i, .parts = parts };
        }
        const struct qkv_net_body *body = n->methods == &qkv_net_transformer ? n->body : NULL;
        if (body && body->logits_bias_fixed)
            p[pieces++] = (struct piece){ .fixed = body->logits_bias_fixed };
    }
    return pieces;
}

static qkv_status save_weights(const qkv_net *n, const char *dir, qkv_dtype type, qkv_error *err)
{
    static const char *const metadata[] = { "format", "pt", NULL };
    char path[QKV_PATH];
    qkv_safetensors_writer *w = NULL;
    const size_t room = (size_t)(n->parameters + n->carried_count + 1);
    struct piece *p = qkv_alloc_zero(room, sizeof *p);
    struct qkv_tensor *t = qkv_alloc_zero(room, sizeof *t);
    float *row = NULL, *stored = NULL;
    qkv_status s = qkv_path_join(path, dir, "model.safetensors", err);
    if (s) goto done;
    s = QKV_ERR_LIMIT;
    if (!p || !t) goto memory;
    const int64_t pieces = list_pieces(p, n, type), most = widest(n, p, pieces);
    row = qkv_alloc((size_t)most, sizeof *row);
    stored = qkv_alloc((size_t)most, sizeof *stored);
    if (!row || !stored) goto memory;
    for (int64_t i = 0; i < pieces; i++) t[i] = tensor_of(n, &p[i], type);
    s = qkv_safetensors_create(&w, path, t, pieces, metadata, true, err);
    for (int64_t i = 0; !s && i < pieces; i++) s = write_piece(w, n, &p[i], type, row, stored, err);
    if (!s) s = qkv_safetensors_finish(w, err);
    goto done;
memory:
    qkv_fail_memory(err, path);
done:
    qkv_safetensors_close(w);
    qkv_free(stored);
    qkv_free(row);
    qkv_free(t);
    qkv_free(p);
    return s;
}

qkv_status qkv_net_save(qkv_net *n, const char *dir, qkv_dtype type, qkv_error *err)
{
    if (type != QKV_F32 && type != QKV_BF16 && type != QKV_F16)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "type of saved weights, expected F32, BF16 or F16, found %s",
                        qkv_dtype_name(type) ? qkv_dtype_name(type) : "none of them");
    const qkv_status s = save_weights(n, dir, type, err);
    return s ? s : save_config(n, dir, type, err);
}
