// SPDX-License-Identifier: MIT
// architecture.c: describes models that are trained from scratch, from the sizes that the caller
// requests and the other choices of an architecture (its row of net.def).
#include "model/params/trainable.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static const struct qkv_net_arch arches[] = {
#define QKV_ARCH(NAME, ...) { .name = NAME, __VA_ARGS__ },
#include "model/family/net.def"
#undef QKV_ARCH
};
enum { ARCHES = sizeof arches / sizeof arches[0] };

const char *const *qkv_net_architectures(void)
{
    static const char *const names[] = {
#define QKV_ARCH(NAME, ...) NAME,
#include "model/family/net.def"
#undef QKV_ARCH
        NULL
    };
    return names;
}

const char *qkv_arch_names(void)
{
#define QKV_ARCH(NAME, ...) ", " NAME
    static const char names[] =
#include "model/family/net.def"
        ;
#undef QKV_ARCH
    return names + 2; // without the first comma
}

const struct qkv_net_arch *qkv_arch_find(const char *name)
{
    for (int i = 0; i < ARCHES; i++)
        if (name && strcmp(arches[i].name, name) == 0) return &arches[i];
    return NULL;
}

const struct qkv_arch_training *qkv_arch_training(const char *arch)
{
    const struct qkv_net_arch *row = qkv_arch_find(arch);
    return row ? &row->training : NULL;
}

const char *qkv_arch_for(int objective)
{
    const bool encoder =
        objective == QKV_OBJECTIVE_CONTRASTIVE || objective == QKV_OBJECTIVE_CLASSIFY;
    const int of = encoder ? QKV_OBJECTIVE_MASKED : objective;
    for (int i = 0; i < ARCHES; i++)
        if (arches[i].training.objective == of) return arches[i].name;
    return NULL;
}

bool qkv_net_shape_default(struct qkv_net_shape *s, const char *arch)
{
    const struct qkv_net_arch *row = qkv_arch_find(arch);
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

// Returns the inner width of the reference for a model of width D. Feed-forward without gate: 4 D.
// Gated feed-forward, which has a third matrix: 8/3 D, rounded up to a multiple of 256 as in Llama,
// or of 32 if D < 1024. GRU: D.
static int64_t default_inner(const struct qkv_description *d)
{
    const int64_t D = d->size.width;
    if (d->kind == QKV_NET_GRU_ATTENTION) return D;
    if (!d->gated) return 4 * D;
    const int64_t to = D >= 1024 ? 256 : 32;
    return qkv_ceil_div(8 * D / 3, to) * to;
}

void qkv_arch_describe(struct qkv_description *d, const struct qkv_net_shape *s,
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
    d->size.inner = s->inner ? s->inner : default_inner(d);
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

qkv_status qkv_arch_check(const struct qkv_description *d, qkv_error *err)
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
                            "invalid value for the %s of a model, expected %" PRId64 " .. %" PRId64
                            ", found %" PRId64,
                            rows[i].what, rows[i].least, rows[i].most, rows[i].value);
    if (d->size.width % d->size.heads && !(d->d_k && d->d_v))
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "invalid number of heads of a model, expected a divisor of the width %" PRId64
            ", or d_k and d_v, found %" PRId64,
            d->size.width, d->size.heads);
    if (d->size.heads % d->size.kv_heads)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "invalid number of key/value heads of a model, expected a divisor of %" PRId64
            ", found %" PRId64,
            d->size.heads, d->size.kv_heads);
    if (d->position == QKV_POSITION_ROTARY && qkv_head_keys(d) % 2)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "rotary positions require pairs of dimensions, expected an even d_k, found %" PRId64,
            qkv_head_keys(d));
    return QKV_OK;
}

// Returns the architecture whose initialization a family uses: the row of net.def that names the
// family. If no row names it: the first row of the same kind of model, for decoders also with the
// same kind of norm.
const struct qkv_net_arch *qkv_arch_of(const struct qkv_description *d, const char *model_type)
{
    for (int i = 0; i < ARCHES; i++)
        for (int k = 0; k < 2; k++)
            if (arches[i].families[k] && strcmp(arches[i].families[k], model_type) == 0 &&
                arches[i].is.kind == d->kind)
                return &arches[i];
    for (int i = 0; i < ARCHES; i++)
        if (arches[i].is.kind == d->kind &&
            (d->kind != QKV_NET_DECODER || arches[i].is.norm_kind == d->norm_kind))
            return &arches[i];
    return NULL;
}
