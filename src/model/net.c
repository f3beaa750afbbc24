// SPDX-License-Identifier: MIT
// net.c: a model that learns, made: what an architecture is, its weights declared one by one and
// given their memory.
#include "model/net_parts.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static const struct qkv_net_arch arches[] = {
#define QKV_ARCH(NAME, ...) { .name = NAME, __VA_ARGS__ },
#include "model/net.def"
#undef QKV_ARCH
};
enum { ARCHES = sizeof arches / sizeof arches[0] };

// The row; NULL: there is none.
static const struct qkv_net_arch *arch_named(const char *name)
{
    for (int i = 0; i < ARCHES; i++)
        if (name && strcmp(arches[i].name, name) == 0) return &arches[i];
    return NULL;
}

bool qkv_net_shape_default(struct qkv_net_shape *s, const char *arch)
{
    const struct qkv_net_arch *row = arch_named(arch);
    *s = (struct qkv_net_shape){
        .pad = -1, .bos = -1, .eos = -1, .mask = -1, .norm = -1, .act = -1, .tied = -1
    };
    if (!row) return false;
    const struct qkv_config_sizes *size = &row->is.size;
    s->arch = row->name;
    s->layers = size->layers;
    s->heads = size->heads;
    s->width = size->width;
    s->positions = size->positions;
    s->types = size->types;
    return true;
}

// Inner width of the reference: 4 D; gated, which has a third matrix, 8/3 D rounded up as Llama
// rounds (small models: to 32).
static int64_t inner_of(const struct qkv_description *d)
{
    const int64_t D = d->size.width;
    if (d->kind == QKV_NET_GRU_ATTENTION) return D;
    if (!d->gated) return 4 * D;
    const int64_t to = D >= 1024 ? 256 : 32;
    return qkv_ceil_div(8 * D / 3, to) * to;
}

// What is asked for, on top of what the architecture's reference chooses.
static void describe(struct qkv_description *d, const struct qkv_net_shape *s,
                     const struct qkv_net_arch *arch)
{
    *d = arch->is;
    d->size.layers = s->layers;
    d->decoder_layers = s->decoder_layers ? s->decoder_layers : s->layers;
    d->size.heads = s->heads;
    d->size.kv_heads = s->kv_heads ? s->kv_heads : s->heads;
    d->size.width = s->width;
    d->size.vocab = s->vocab;
    d->size.positions = s->positions;
    d->size.types = d->kind == QKV_NET_ENCODER ? s->types : 0;
    d->size.pad = s->pad;
    d->size.inner = s->inner ? s->inner : inner_of(d);
    if (s->eps > 0) d->size.eps = s->eps;
    d->d_k = s->d_k;
    d->d_v = s->d_v;
    d->bos = s->bos;
    d->eos = s->eos;
    d->mask = s->mask;
    if (s->norm >= 0) d->norm = (enum qkv_norm_place)s->norm;
    if (s->act >= 0) d->act = (enum qkv_activation)s->act;
    if (s->tied >= 0) d->untied = !s->tied;
    if (s->theta > 0 && d->position == QKV_POSITION_ROTARY) d->theta = s->theta;
    if (d->embed_scale < 0) d->embed_scale = sqrt((double)d->size.width);
    d->final_norm = d->norm == QKV_NORM_PRE;
    d->masked_act = d->act;
    d->labels = d->kind == QKV_NET_ENCODER ? s->labels : 0;
}

static qkv_status check_sizes(const struct qkv_description *d, qkv_error *err)
{
    const struct {
        const char *what;
        int64_t value, least, most;
    } rows[] = {
        { "layers", d->size.layers, 1, QKV_LAYERS_MAX },
        { "decoder layers", d->decoder_layers, 1, QKV_LAYERS_MAX },
        { "heads", d->size.heads, 1, QKV_HEADS_MAX },
        { "key/value heads", d->size.kv_heads, 1, QKV_HEADS_MAX },
        { "width", d->size.width, 1, QKV_WIDTH_MAX },
        { "inner width", d->size.inner, 1, QKV_INNER_MAX },
        { "vocabulary", d->size.vocab, 1, QKV_VOCAB_MAX },
        { "positions", d->size.positions, 1, QKV_POSITIONS_MAX },
        { "token types", d->size.types, 0, QKV_WIDTH_MAX },
        { "d_k", d->d_k, 0, QKV_WIDTH_MAX },
        { "d_v", d->d_v, 0, QKV_WIDTH_MAX },
        { "labels", d->labels, 0, QKV_VOCAB_MAX },
        { "norm", (int64_t)d->norm, QKV_NORM_POST, QKV_NORM_BOTH },
        { "activation", (int64_t)d->act, QKV_ACT_NONE, QKV_ACT_TANH },
        { "padding token", d->size.pad, -1, d->size.vocab - 1 },
        { "first token", d->bos, -1, d->size.vocab - 1 },
        { "last token", d->eos, -1, d->size.vocab - 1 },
        { "mask token", d->mask, -1, d->size.vocab - 1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].value < rows[i].least || rows[i].value > rows[i].most)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "%s of a model, expected %" PRId64 " .. %" PRId64 ", found %" PRId64,
                            rows[i].what, rows[i].least, rows[i].most, rows[i].value);
    if (d->size.width % d->size.heads && !(d->d_k && d->d_v))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "heads of a model, expected a divisor of the width %" PRId64
                        " or d_k and d_v, found %" PRId64,
                        d->size.width, d->size.heads);
    if (d->size.heads % d->size.kv_heads)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "key/value heads of a model, expected a divisor of %" PRId64
                        ", found %" PRId64,
                        d->size.heads, d->size.kv_heads);
    if (d->position == QKV_POSITION_ROTARY && qkv_head_keys(d) % 2)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "rotary positions turn pairs, expected an even d_k, found %" PRId64,
                        qkv_head_keys(d));
    return QKV_OK;
}

// Dropout as it stood in training: what a config.json does not say, its reference takes for a
// tenth.
static bool put_dropout(const qkv_net *n)
{
    const struct qkv_config_keys *keys = n->family->keys;
    const double p = floor((double)n->options.dropout * 1e6 + .5) / 1e6; // a float's digits
    for (int i = 0; keys && i < 4 && keys->dropout[i]; i++) {
        const bool inside =
            strcmp(keys->dropout[i], "activation_dropout") == 0; // there is none here
        if (!qkv_put_real(n->config, keys->dropout[i], inside ? 0 : p)) return false;
    }
    return true;
}

// n->config from n->is, and n->is from that: what is trained is what its own folder says.
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
                        "no family of models has an architecture %s with these choices",
                        arch->name);
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
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "dropout, expected 0 .. below 1, found %g",
                        (double)o->dropout);
    if (!(o->smoothing >= 0 && o->smoothing < 1))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "label smoothing, expected 0 .. below 1, found %g", (double)o->smoothing);
    if (!(o->temperature >= 0))
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "temperature, expected above 0, found %g",
                        (double)o->temperature);
    const char *name = qkv_precision_name(o->precision);
    if (o->precision == QKV_PRECISION_INT8 || !qkv_precision_runs(o->precision))
        return qkv_fail(err, name ? QKV_ERR_UNSUPPORTED : QKV_ERR_USAGE, NULL,
                        "precision of training, expected f32, f32-strict, f32-fast, bf16 or f16, "
                        "found %s",
                        name ? name : "none of them");
    return QKV_OK;
}

static void fill_shape(qkv_net *n, const char *arch)
{
    const struct qkv_description *d = &n->is;
    n->kind = d->kind;
    n->shape = (struct qkv_net_shape){
        .arch = arch,
        .layers = d->size.layers,
        .decoder_layers = d->decoder_layers,
        .heads = d->size.heads,
        .kv_heads = d->size.kv_heads,
        .width = d->size.width,
        .d_k = qkv_head_keys(d),
        .d_v = qkv_head_values(d),
        .inner = d->size.inner,
        .vocab = d->size.vocab,
        .positions = qkv_described_positions(d),
        .types = d->size.types,
        .pad = (int32_t)d->size.pad,
        .bos = (int32_t)d->bos,
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

// The architecture that a folder's family and kind are, for what is made new in it.
static const struct qkv_net_arch *arch_of(const qkv_net *n)
{
    for (int i = 0; i < ARCHES; i++)
        for (int k = 0; k < 2; k++)
            if (arches[i].families[k] && strcmp(arches[i].families[k], n->model_type) == 0 &&
                arches[i].is.kind == n->is.kind)
                return &arches[i];
    return n->is.kind == QKV_NET_ENCODER ? arch_named("bert") : NULL;
}

qkv_status qkv_net_build(qkv_net *n, qkv_error *err)
{
    const struct qkv_net_arch *arch = n->shape.arch ? arch_named(n->shape.arch) : arch_of(n);
    if (!arch)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL, "training a %s is not here", n->model_type);
    n->scheme = arch->scheme;
    n->spread = arch->spread;
    fill_shape(n, arch->name);
    n->methods = arch->methods;
    if (n->options.recompute && n->methods == &qkv_net_gru)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL,
                        "activations are not made again (--recompute) for a %s: its steps follow "
                        "one another, expected all of them kept",
                        arch->name);
    const qkv_status s = n->methods->declare(n, err);
    return s || !n->no_memory ? s : qkv_fail_memory(err, NULL);
}

qkv_status qkv_net_allocate(qkv_net *n, qkv_error *err)
{
    n->value = qkv_alloc_zero((size_t)n->numbers, sizeof *n->value);
    n->grad = qkv_alloc_zero((size_t)n->numbers, sizeof *n->grad);
    if (!n->value || !n->grad) return qkv_fail_memory(err, NULL);
    for (int64_t i = 0; i < n->parameters; i++) {
        struct qkv_parameter *p = &n->parameter[i];
        const struct qkv_net_slot *slot = &n->slot[i];
        p->value = n->value + slot->at;
        p->grad = n->grad + slot->at;
        if (slot->to) *slot->to = (struct qkv_weight){ p->value, p->grad };
    }
    return QKV_OK;
}

bool qkv_net_declare(qkv_net *n, struct qkv_weight *to, const struct qkv_declaration *d)
{
    char name[QKV_TENSOR_NAME];
    const int64_t i = n->parameters;
    int64_t count;
    qkv_tensor_name(name, d->bare ? "" : n->prefix, d->name, d->layer, d->suffix ? d->suffix : "");
    if (n->no_memory || __builtin_mul_overflow(d->rows, d->columns ? d->columns : 1, &count) ||
        !qkv_reserve((void **)&n->parameter, &n->parameter_room, i + 1, sizeof *n->parameter) ||
        !qkv_reserve((void **)&n->slot, &n->slot_room, i + 1, sizeof *n->slot) ||
        __builtin_add_overflow(n->numbers, count, &count)) {
        n->no_memory = true;
        return false;
    }
    n->parameter[i] = (struct qkv_parameter){ .name = qkv_copy_text(name, strlen(name)),
                                              .rank = d->columns ? 2 : 1,
                                              .shape = { d->rows, d->columns },
                                              .count = count - n->numbers,
                                              .decay = d->decay,
                                              .sparse = d->sparse };
    n->slot[i] = (struct qkv_net_slot){ .to = to,
                                        .begin = d->begin,
                                        .spread = d->spread,
                                        .zero_row = d->zero_row,
                                        .at = n->numbers,
                                        .transposed = d->transposed,
                                        .joined = d->joined,
                                        .optional = d->optional };
    n->parameters = i + 1;
    n->numbers = count;
    n->no_memory = !n->parameter[i].name;
    return !n->no_memory;
}

qkv_status qkv_net_new(qkv_net **out, const struct qkv_net_shape *shape,
                       const struct qkv_net_options *o, uint64_t seed, qkv_error *err)
{
    static const struct qkv_net_options plain;
    const struct qkv_net_arch *arch = arch_named(shape->arch);
    *out = NULL;
    if (!o) o = &plain;
    if (!arch)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "architecture, expected one of gpt, llama, bert, vaswani, gru-attention, "
                        "found \"%.64s\"",
                        shape->arch ? shape->arch : "");
    qkv_status s = qkv_net_check_options(o, err);
    if (s) return s;
    qkv_net *n = qkv_alloc_zero(1, sizeof *n);
    if (!n) return qkv_fail_memory(err, NULL);
    n->options = *o;
    n->shape.arch = arch->name;
    describe(&n->is, shape, arch);
    s = check_sizes(&n->is, err);
    if (!s) s = compose(n, arch, err);
    if (!s) {
        n->prefix = n->family->prefix;
        n->masked_end = n->is.kind == QKV_NET_ENCODER && !n->is.labels;
        s = qkv_net_build(n, err);
        if (!s) s = qkv_net_allocate(n, err);
    }
    if (s) {
        qkv_net_free(n);
        return s;
    }
    qkv_net_begin(n, seed, false);
    *out = n;
    return QKV_OK;
}

void qkv_net_free(qkv_net *n)
{
    if (!n) return;
    if (n->methods) n->methods->free(n);
    for (int64_t i = 0; i < n->parameters; i++) qkv_free((char *)n->parameter[i].name);
    for (int64_t i = 0; i < n->carried_count; i++) {
        qkv_free((char *)n->carried[i].tensor.name);
        qkv_free((void *)n->carried[i].tensor.data);
    }
    json_decref(n->config);
    qkv_free(n->carried);
    qkv_free(n->parameter);
    qkv_free(n->slot);
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

// Pieces of memory, so that threads share the work.
enum { ZERO_PIECE = 1 << 18 };
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
    qkv_free(n->arena); // before more is asked for: the two are never there at once
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
