// SPDX-License-Identifier: MIT
// model.c: opens a model folder: finds its family, reads its description, binds its tensors.
#define _XOPEN_SOURCE 700 // realpath
#include "model/model_internal.h"
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Reads the label names from id2label of config.json; a label without a text there is named
// LABEL_n.
static qkv_status take_names(struct qkv_model *m, const json_t *root, qkv_error *err)
{
    const json_t *names = json_object_get(root, "id2label");
    if (!m->is.labels) return QKV_OK;
    if (json_is_object(names) && (int64_t)json_object_size(names) != m->is.labels)
        return qkv_fail(
            err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = m->dir, .path = "$.id2label" },
            "wrong number of label names, expected one for each of the %" PRId64
            " rows of %s.weight, found %" PRId64,
            m->is.labels, qkv_labels_name(&m->is, m->family), (int64_t)json_object_size(names));
    m->label = qkv_alloc_zero((size_t)m->is.labels, sizeof *m->label);
    if (!m->label) return qkv_fail_memory(err, m->dir);
    for (int64_t i = 0; i < m->is.labels; i++) {
        char key[32];
        snprintf(key, sizeof key, "%" PRId64, i);
        const char *text = json_string_value(json_object_get(names, key));
        if (!text) {
            snprintf(key, sizeof key, "LABEL_%" PRId64, i);
            text = key;
        }
        m->label[i] = qkv_copy_text(text, strlen(text));
        if (!m->label[i]) return qkv_fail_memory(err, m->dir);
    }
    return QKV_OK;
}

static void take_stops(struct qkv_model *m)
{
    const struct qkv_description *d = &m->is;
    for (int i = 0; i < d->stops; i++) m->stop[m->stops++] = (int32_t)d->stop[i];
    if (!m->stops && d->eos >= 0) m->stop[m->stops++] = (int32_t)d->eos;
}

// Returns the name of a folder: the last part of its path, in which "." and ".." at the end are
// resolved.
static char *name_of(const char *dir)
{
    char full[PATH_MAX];
    const char *path = dir;
    size_t end = strlen(dir);
    while (end > 1 && dir[end - 1] == '/') end--;
    if ((end && dir[end - 1] == '.') && realpath(dir, full)) {
        path = full;
        end = strlen(full);
    }
    size_t begin = end;
    while (begin && path[begin - 1] != '/') begin--;
    return qkv_copy_text(path + begin, end - begin);
}

static qkv_status check_precision(qkv_precision p, qkv_error *err)
{
    if (qkv_precision_runs(p)) return QKV_OK;
    char can[128] = "";
    for (int i = 0; qkv_precision_name((qkv_precision)i); i++) {
        const size_t at = strlen(can);
        if (!qkv_precision_runs((qkv_precision)i)) continue;
        snprintf(can + at, sizeof can - at, "%s%s", at ? ", " : "",
                 qkv_precision_name((qkv_precision)i));
    }
    const char *name = qkv_precision_name(p);
    return qkv_fail(err, name ? QKV_ERR_UNSUPPORTED : QKV_ERR_USAGE, NULL,
                    "unsupported precision of a model, expected one of %s, found %s", can,
                    name ? name : "another value");
}

// Selects precision int8 for a folder that was saved with int8 weights: such weights cannot run in
// another precision.
static qkv_status check_saved(struct qkv_model *m, qkv_error *err)
{
    const char *saved = qkv_tensors_metadata(m->file, QKV_EIGHT_BITS);
    if (!saved || strcmp(saved, "int8") != 0 || m->precision == QKV_PRECISION_INT8) return QKV_OK;
    if (m->precision != QKV_PRECISION_F32)
        return qkv_fail(
            err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = m->dir },
            "weights of the model are stored as int8, expected precision int8, found %s",
            qkv_precision_name(m->precision));
    m->precision = QKV_PRECISION_INT8; // F32 is the default, so the caller did not request it
    return check_precision(m->precision, err);
}

// Reads the description of a folder, opens its weights, binds them to layers and reads the label
// names.
static qkv_status take_folder(struct qkv_model *m, bool no_mmap, qkv_error *err)
{
    json_t *root = NULL;
    qkv_status status = qkv_describe_folder(&m->is, &m->family, &m->model_type, &root, m->dir, err);
    if (status) goto done;
    m->positions = qkv_described_positions(&m->is);
    take_stops(m);
    status = qkv_tensors_open(&m->file, m->dir, &(struct qkv_tensors_options){ .no_mmap = no_mmap },
                              err);
    if (!status) status = qkv_checkpoint_check(m->dir, m->file, err);
    if (!status) status = check_saved(m, err);
    if (!status && m->is.kind != QKV_NET_GRU_ATTENTION) status = qkv_model_bind(m, err);
    m->stack[1].vocab = qkv_described_vocab(&m->is);
    if (!status) status = take_names(m, root, err);
done:
    json_decref(root);
    return status;
}

qkv_status qkv_model_open(qkv_model **out, const char *dir, const struct qkv_model_options *o,
                          qkv_error *err)
{
    if (!out)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_model_open: expected a pointer for the model, found NULL");
    static const struct qkv_model_options plain;
    *out = NULL;
    if (!o) o = &plain;
    if (!dir)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_model_open: expected a model folder, found NULL");
    qkv_status status = check_precision(o->precision, err);
    if (status) return status;
    struct qkv_model *m = qkv_alloc_zero(1, sizeof *m);
    if (!m) return qkv_fail_memory(err, dir);
    m->precision = o->precision;
    pthread_mutex_init(&m->lock, NULL);
    qkv_workspace_pool_init(&m->workspaces);
    for (int i = 0; i < QKV_PACK_GROUPS; i++) atomic_init(&m->packed[i], false);
    for (int i = 0; i < QKV_ROWS_KINDS; i++) atomic_init(&m->made[i], NULL);
    m->dir = qkv_copy_text(dir, strlen(dir));
    m->name = name_of(dir);
    if (!m->dir || !m->name) status = qkv_fail_memory(err, dir);
    if (!status) status = take_folder(m, o->no_mmap, err);
    if (!status) status = qkv_model_ablate(m, o->ablate, o->ablations, err);
    if (status) {
        qkv_model_close(m);
        return status;
    }
    *out = m;
    return QKV_OK;
}

void qkv_model_close(qkv_model *m)
{
    if (!m) return;
    qkv_model_unbind(m);
    qkv_tensors_close(m->file);
    qkv_free(m->ablated);
    pthread_mutex_destroy(&m->lock);
    qkv_workspace_pool_free(&m->workspaces);
    for (int64_t i = 0; m->label && i < m->is.labels; i++) qkv_free(m->label[i]);
    qkv_free(m->label);
    qkv_free(m->name);
    qkv_free(m->dir);
    qkv_free(m);
}

static enum qkv_model_kind kind_of(enum qkv_net_kind kind)
{
    switch (kind) {
    case QKV_NET_ENCODER: return QKV_KIND_ENCODER;
    case QKV_NET_DECODER: return QKV_KIND_DECODER;
    default: return QKV_KIND_ENCODER_DECODER;
    }
}

static unsigned can(const qkv_model *m)
{
    if (!m->stacks) return QKV_CAN_TOKENS; // a GRU only decodes
    return QKV_CAN_RUN | (m->tokens.out.K ? QKV_CAN_TOKENS : 0) |
           (!m->labels.out.K                     ? 0
            : m->is.label_pool == QKV_LABEL_EACH ? QKV_CAN_TOKEN_LABELS
                                                 : QKV_CAN_LABELS);
}

static bool has_scale(const qkv_tensors *file, const char *name)
{
    char scale[QKV_PATH];
    const int n = snprintf(scale, sizeof scale, "%s" QKV_EIGHT_SCALE, name);
    return n > 0 && (size_t)n < sizeof scale && qkv_tensors_find(file, scale) != NULL;
}

// Returns true if t contains the row scales of an int8 tensor.
static bool is_scale(const qkv_tensors *file, const struct qkv_tensor *t)
{
    const size_t n = strlen(t->name), tail = strlen(QKV_EIGHT_SCALE);
    char name[QKV_PATH];
    if (n <= tail || n >= sizeof name || strcmp(t->name + n - tail, QKV_EIGHT_SCALE) != 0)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)(n - tail), t->name);
    const struct qkv_tensor *of = qkv_tensors_find(file, name);
    return of && of->dtype == QKV_I8;
}

static double linear_flops(const struct qkv_linear *l)
{
    double flops = 0;
    for (int p = 0; p < l->parts; p++) flops += 2.0 * (double)l->K * (double)l->part[p].N;
    return flops;
}

static double heads_flops(const struct qkv_heads *h)
{
    return linear_flops(&h->in) + linear_flops(&h->kv) + linear_flops(&h->out);
}

static double stack_flops(const struct qkv_stack *s)
{
    double flops = linear_flops(&s->embed_in);
    for (int64_t i = 0; i < s->blocks; i++) {
        const struct qkv_block *b = &s->block[i];
        flops += heads_flops(&b->heads) + heads_flops(&b->cross) + linear_flops(&b->mlp.up) +
                 linear_flops(&b->mlp.down);
    }
    return flops;
}

// Counts tensors, parameters and multiply-adds.
static void count(struct qkv_model_info *info, const qkv_model *m)
{
    info->tensors = qkv_tensors_count(m->file);
    info->unused_tensors = m->stacks ? info->tensors - m->used : 0;
    for (int64_t i = 0; i < info->tensors; i++) {
        const struct qkv_tensor *t = qkv_tensors_at(m->file, i);
        // Parameters are the numbers of F32, F64, F16 and BF16 tensors, and of I8 tensors that have
        // row scales. The row scales themselves are not counted
        const bool weights = t->dtype == QKV_I8 ? has_scale(m->file, t->name)
                                                : t->dtype <= QKV_BF16 && !is_scale(m->file, t);
        if (weights) info->parameters += qkv_tensor_count(t);
    }
    for (int i = 0; i < m->stacks; i++) info->flops_token += stack_flops(&m->stack[i]);
}

struct qkv_model_info qkv_model_info(const qkv_model *m)
{
    if (!m) return (struct qkv_model_info){ 0 };
    const struct qkv_config_sizes *size = &m->is.size;
    struct qkv_model_info info = {
        .kind = kind_of(m->is.kind),
        .can = can(m),
        .bos = (int32_t)m->is.bos,
        .eos = (int32_t)m->is.eos,
        .pad = (int32_t)size->pad,
        .mask = (int32_t)m->is.mask,
        .start = (int32_t)(m->is.start >= 0 ? m->is.start : m->is.bos),
        .forced = (int32_t)m->is.forced,
        .stops = m->stop,
        .stop_count = m->stops,
        .family = m->model_type,
        .name = m->name,
        .layers = size->layers,
        .heads = size->heads,
        .kv_heads = size->kv_heads,
        .width = size->width,
        .head_width = qkv_head_keys(&m->is),
        .value_width = qkv_head_values(&m->is),
        .embed_width = qkv_described_embed_width(&m->is),
        .inner = size->inner,
        .vocab = qkv_described_vocab(&m->is),
        .source_vocab = size->vocab,
        .positions = m->positions,
        .types = size->types,
        .labels = m->is.labels,
        .causal = m->is.kind == QKV_NET_DECODER,
        .precision = m->precision,
        .arithmetic = qkv_linear_arithmetic(m->precision),
    };
    if (info.kind == QKV_KIND_ENCODER_DECODER) info.decoder_layers = m->is.decoder_layers;
    count(&info, m);
    return info;
}

qkv_status qkv_model_embedding_row(const qkv_model *m, float *out, int32_t id)
{
    if (!m || !out || !m->stack[0].word.tensor) return QKV_ERR_USAGE;
    if (id < 0 || id >= m->is.size.vocab) return QKV_ERR_USAGE;
    qkv_table_row(out, &m->stack[0].word, id, qkv_described_embed_width(&m->is));
    return QKV_OK;
}

qkv_status qkv_model_embedding(const qkv_model *m, float *out, int32_t id)
{
    if (!m || !out || !m->is.embed_width) return qkv_model_embedding_row(m, out, id);
    float *row = qkv_alloc((size_t)m->is.embed_width, sizeof *row);
    const bool ready = row && !qkv_model_pack((struct qkv_model *)m, QKV_PACK_BODY);
    const qkv_status status = ready ? qkv_model_embedding_row(m, row, id) : QKV_ERR_LIMIT;
    if (!status) qkv_linear_forward((void *[]){ out }, NULL, row, 1, &m->stack[0].embed_in, NULL);
    qkv_free(row);
    return status;
}

const char *qkv_model_label(const qkv_model *m, int64_t label)
{
    return m && m->label && label >= 0 && label < m->is.labels ? m->label[label] : NULL;
}

const char *qkv_model_dir(const qkv_model *m)
{
    return m->dir;
}

const char *qkv_model_missing_head(const qkv_model *m, const char **needs)
{
    if (needs) *needs = NULL;
    if (!m) return NULL;
    const unsigned heads = can(m) & (QKV_CAN_TOKENS | QKV_CAN_LABELS | QKV_CAN_TOKEN_LABELS);
    bool missing = false;
    switch (m->is.told) {
    case QKV_TOLD_TEXTS: missing = !(heads & QKV_CAN_LABELS); break;
    case QKV_TOLD_TOKENS: missing = !(heads & QKV_CAN_TOKEN_LABELS); break;
    case QKV_TOLD_NOTHING: missing = !heads && m->is.class_has_head; break;
    case QKV_TOLD_QUESTIONS:
    case QKV_TOLD_OTHER: missing = m->is.class_needs != NULL; break;
    }
    if (missing && needs) *needs = m->is.class_needs;
    return missing ? m->is.class_name : NULL;
}
