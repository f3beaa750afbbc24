// SPDX-License-Identifier: MIT
// trainable.c: creates a model that is trained, and manages its parameters: values, gradients,
// names.
#include "model/params/trainable.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

// Writes the dropout rate of training to every dropout key of config.json, because transformers
// uses 0.1 for a missing key.
static bool put_dropout(const qkv_net *n)
{
    const struct qkv_config_keys *keys = n->family->keys;
    const double p = floor((double)n->options.dropout * 1e6 + .5) / 1e6; // 6 decimal places
    for (int i = 0; keys && i < 4 && keys->dropout[i]; i++) {
        const bool inside =
            strcmp(keys->dropout[i], "activation_dropout") == 0; // qkv has no such dropout
        if (!qkv_put_real(n->config, keys->dropout[i], inside ? 0 : p)) return false;
    }
    return true;
}

// Composes n->config from n->is, then reads n->is from n->config, so that the trained model is
// exactly the one that its saved folder describes.
static qkv_status compose(qkv_net *n, const struct qkv_net_arch *arch, qkv_error *err)
{
    const struct qkv_description want = n->is;
    const struct {
        const char *key;
        int64_t id;
    } tokens[] = { { "pad_token_id", want.size.pad },
                   { "bos_token_id", want.bos },
                   { "eos_token_id", want.eos },
                   { "mask_token_id", want.mask } };
    for (size_t i = 0; !n->family && i < 2 && arch->families[i]; i++) {
        n->family = qkv_family_find(arch->families[i], &n->model_type);
        if (n->family && !n->family->fits(&want)) n->family = NULL;
    }
    if (!n->family)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL,
                        "no model family supports architecture %s with these options", arch->name);
    n->config = json_object();
    bool ok = n->config && qkv_put_text(n->config, "model_type", n->model_type) &&
              n->family->compose(n->config, &want) && put_dropout(n);
    for (size_t i = 0; ok && i < sizeof tokens / sizeof tokens[0]; i++)
        if (tokens[i].id >= 0) ok = qkv_put_int(n->config, tokens[i].key, tokens[i].id);
    if (!ok) return qkv_fail_memory(err, NULL);
    qkv_error found = { 0 };
    const struct qkv_config c = { n->config, "config.json", &found };
    n->is = (struct qkv_description){
        .bos = -1, .eos = -1, .mask = -1, .start = -1, .forced = -1, .size.pad = -1
    };
    if (!n->family->describe(&n->is, &c)) {
        if (err && !err->status) *err = found;
        return found.status;
    }
    n->is.labels = want.labels;
    return QKV_OK;
}

qkv_status qkv_net_check_options(const struct qkv_net_options *o, qkv_error *err)
{
    if (!(o->dropout >= 0 && o->dropout < 1))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid dropout, expected at least 0 and below 1, found %g",
                        (double)o->dropout);
    if (!(o->smoothing >= 0 && o->smoothing < 1))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid label smoothing, expected at least 0 and below 1, found %g",
                        (double)o->smoothing);
    if (!(o->temperature >= 0))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid temperature, expected 0 or more, found %g",
                        (double)o->temperature);
    const char *name = qkv_precision_name(o->precision);
    if (o->precision == QKV_PRECISION_INT8 || !qkv_precision_runs(o->precision))
        return qkv_fail(err, name ? QKV_ERR_UNSUPPORTED : QKV_ERR_USAGE, NULL,
                        "unsupported precision of training, expected f32, f32-strict, f32-fast, "
                        "bf16 or f16, found %s",
                        name ? name : "another value");
    return QKV_OK;
}

static struct qkv_net_shape shape_of(const struct qkv_description *d, const char *arch)
{
    return (struct qkv_net_shape){
        .arch = arch,
        .layers = d->size.layers,
        .decoder_layers = d->decoder_layers,
        .heads = d->size.heads,
        .kv_heads = d->size.kv_heads,
        .width = d->size.width,
        .d_k = qkv_head_keys(d),
        .d_v = qkv_head_values(d),
        .inner = d->size.inner,
        .vocab = qkv_described_vocab(d),
        .source_vocab = d->size.vocab,
        .positions = qkv_described_positions(d),
        .types = d->size.types,
        .pad = (int32_t)d->size.pad,
        .bos = (int32_t)d->bos,
        .start = (int32_t)d->start,
        .forced = (int32_t)d->forced,
        .eos = (int32_t)d->eos,
        .mask = (int32_t)d->mask,
        .norm = (int)d->norm,
        .act = (int)d->act,
        .tied = !d->untied,
        .labels = (int)d->labels,
        .theta = d->theta,
        .eps = d->size.eps,
    };
}

qkv_status qkv_net_shape_read(struct qkv_net_shape *s, const char *dir, qkv_error *err)
{
    struct qkv_description d;
    const struct qkv_family *family;
    const char *model_type;
    const qkv_status status = qkv_describe_folder(&d, &family, &model_type, NULL, dir, err);
    if (!status) *s = shape_of(&d, NULL);
    return status;
}

qkv_status qkv_net_build(qkv_net *n, qkv_error *err)
{
    const struct qkv_net_arch *arch =
        n->shape.arch ? qkv_arch_find(n->shape.arch) : qkv_arch_of(&n->is, n->model_type);
    if (!arch)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL, "training is not supported for %s",
                        n->model_type);
    n->scheme = arch->scheme;
    n->spread = arch->spread;
    n->kind = n->is.kind;
    n->shape = shape_of(&n->is, arch->name);
    n->methods = arch->methods;
    const qkv_status status = n->methods->declare(n, err);
    return status || !n->no_memory ? status : qkv_fail_memory(err, NULL);
}

qkv_status qkv_net_allocate(qkv_net *n, qkv_error *err)
{
    n->value = qkv_alloc_zero((size_t)n->stored, sizeof *n->value);
    n->grad = qkv_alloc_zero((size_t)n->numbers, sizeof *n->grad);
    if (!n->value || !n->grad) return qkv_fail_memory(err, NULL);
    for (int64_t i = 0; i < n->slots; i++) {
        struct qkv_parameter *p = &n->parameter[i];
        const struct qkv_net_slot *slot = &n->slot[i];
        p->value = n->value + slot->at;
        p->grad = i < n->parameters ? n->grad + slot->at : NULL;
        if (slot->value) *slot->value = p->value;
        if (slot->grad) *slot->grad = p->grad;
    }
    return QKV_OK;
}

static const struct qkv_tensor *folder_tensor(const qkv_net *n, const struct qkv_parameter_row *row)
{
    return n->folder.tensors ? qkv_row_find(n->folder.tensors, n->folder.prefix, row) : NULL;
}

bool qkv_net_has_row(const qkv_net *n, const struct qkv_parameter_row *row)
{
    const bool tokens = n->is.kind != QKV_NET_ENCODER || n->masked_end;
    if (row->group == QKV_PACK_TOKENS && !tokens) return false;
    if (row->group == QKV_PACK_LABELS && !n->is.labels) return false;
    return !row->optional || row->buffer || folder_tensor(n, row);
}

bool qkv_net_declare(qkv_net *n, const real **value, real **grad,
                     const struct qkv_parameter_row *row)
{
    char name[QKV_TENSOR_NAME];
    const int64_t i = n->slots;
    int64_t count, stored;
    const struct qkv_tensor *tensor = folder_tensor(n, row);
    if (!qkv_net_has_row(n, row)) return !n->no_memory;
    qkv_row_name(name, n->prefix, row);
    if (n->no_memory ||
        __builtin_mul_overflow(row->rows, row->columns ? row->columns : 1, &count) ||
        !qkv_reserve((void **)&n->parameter, &n->parameter_capacity, i + 1, sizeof *n->parameter) ||
        !qkv_reserve((void **)&n->slot, &n->slot_capacity, i + 1, sizeof *n->slot) ||
        !qkv_reserve((void **)&n->row, &n->row_capacity, i + 1, sizeof *n->row) ||
        __builtin_add_overflow(n->stored, count, &stored)) {
        n->no_memory = true;
        return false;
    }
    n->row[i] = *row;
    n->slot[i] = (struct qkv_net_slot){
        .value = value,
        .grad = grad,
        .tensor = tensor,
        .missing = n->folder.tensors && !tensor,
        .at = n->stored,
    };
    n->parameter[i] = (struct qkv_parameter){ .name = qkv_copy_text(name, strlen(name)),
                                              .rank = row->columns ? 2 : 1,
                                              .shape = { row->rows, row->columns },
                                              .count = count,
                                              .decay = row->columns > 0 };
    n->slots = i + 1;
    n->stored = stored;
    if (!row->buffer) {
        n->parameters = n->slots;
        n->numbers = stored;
    }
    n->no_memory = !n->parameter[i].name;
    return !n->no_memory;
}

qkv_status qkv_net_new(qkv_net **out, const struct qkv_net_shape *shape,
                       const struct qkv_net_options *o, uint64_t seed, qkv_error *err)
{
    static const struct qkv_net_options plain;
    const struct qkv_net_arch *arch = qkv_arch_find(shape->arch);
    *out = NULL;
    if (!o) o = &plain;
    if (!arch)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "unknown architecture, expected one of %s, found \"%.64s\"",
                        qkv_arch_names(), shape->arch ? shape->arch : "");
    qkv_status status = qkv_net_check_options(o, err);
    if (status) return status;
    qkv_net *n = qkv_alloc_zero(1, sizeof *n);
    if (!n) return qkv_fail_memory(err, NULL);
    n->options = *o;
    n->shape.arch = arch->name;
    qkv_arch_describe(&n->is, shape, arch);
    status = qkv_arch_check(&n->is, err);
    if (!status) status = compose(n, arch, err);
    if (!status) {
        n->prefix = n->family->prefix;
        n->masked_end = n->is.kind == QKV_NET_ENCODER && !n->is.labels;
        status = qkv_net_build(n, err);
        if (!status) status = qkv_net_allocate(n, err);
    }
    if (status) {
        qkv_net_free(n);
        return status;
    }
    qkv_net_initialize(n, seed, false);
    *out = n;
    return QKV_OK;
}

void qkv_net_free(qkv_net *n)
{
    if (!n) return;
    if (n->methods) n->methods->free(n);
    for (int64_t i = 0; i < n->slots; i++) qkv_free((char *)n->parameter[i].name);
    for (int64_t i = 0; i < n->carried_count; i++) {
        qkv_free((char *)n->carried[i].tensor.name);
        qkv_free((void *)n->carried[i].tensor.data);
    }
    json_decref(n->config);
    qkv_free(n->carried);
    qkv_free(n->parameter);
    qkv_free(n->slot);
    qkv_free(n->row);
    qkv_free(n->value);
    qkv_free(n->grad);
    qkv_free(n->arena);
    qkv_free(n);
}

void qkv_net_options_set(qkv_net *n, const struct qkv_net_options *o)
{
    if (qkv_net_check_options(o, NULL) == QKV_OK) n->options = *o;
}

const struct qkv_net_shape *qkv_net_shape(const qkv_net *n)
{
    return &n->shape;
}

enum qkv_net_kind qkv_net_kind(const qkv_net *n)
{
    return n->kind;
}

const char *qkv_net_new_end(const qkv_net *n)
{
    bool missing = false;
    for (int64_t i = 0; i < n->parameters; i++) missing |= n->slot[i].missing;
    return !missing ? NULL : n->shape.labels ? "head for these labels" : "head for masked tokens";
}

struct qkv_parameter *qkv_net_parameters(qkv_net *n, int64_t *count)
{
    *count = n->parameters;
    return n->parameter;
}

enum { ZERO_PIECE = 1 << 18 }; // gradients that one task of a parallel loop sets to 0
static void zero_piece(void *ctx, int64_t i, int thread)
{
    qkv_net *n = ctx;
    (void)thread;
    memset(n->grad + i * ZERO_PIECE, 0,
           (size_t)qkv_min64(ZERO_PIECE, n->numbers - i * ZERO_PIECE) * sizeof *n->grad);
}

void qkv_net_zero_gradients(qkv_net *n)
{
    qkv_parallel_for(qkv_ceil_div(n->numbers, ZERO_PIECE), zero_piece, n);
}

void qkv_net_memory(const qkv_net *n, size_t *activations, size_t *arena)
{
    *activations = n->activations;
    *arena = n->arena_size;
}

void *qkv_net_memory_for(qkv_net *n, size_t bytes)
{
    if (n->arena && n->arena_size >= bytes) return n->arena;
    qkv_free(n->arena); // freed first, so that the old and the new memory never exist together
    n->arena_size = 0;
    n->arena = qkv_alloc(bytes ? bytes : 1, 1);
    if (n->arena) n->arena_size = bytes;
    return n->arena;
}

qkv_dtype qkv_net_type(const qkv_net *n)
{
    const qkv_dtype type = qkv_precision_type(qkv_precision_attention(n->options.precision));
    return type == QKV_BF16 || type == QKV_F16 ? type : (qkv_dtype)0;
}

size_t qkv_net_type_bytes(qkv_dtype t)
{
    return t ? qkv_dtype_size(t) : sizeof(real);
}
