// SPDX-License-Identifier: MIT
// structure.c: translates the description of a Transformer to the public struct qkv_structure.
#include "model/family/description.h"
#include <qkv/model.h>
#include <math.h>
#include <stdio.h>

static const char *position_name(const struct qkv_description *d)
{
    if (d->relative.buckets) return "relative";
    switch (d->position) {
    case QKV_POSITION_LEARNED: return "learned";
    case QKV_POSITION_SINUSOIDAL:
    case QKV_POSITION_SINES_FIRST: return "sinusoidal";
    case QKV_POSITION_ROTARY: return "rotary";
    case QKV_POSITION_NONE: break;
    }
    return "none";
}

static bool has_local_layer(const struct qkv_description *d)
{
    bool any = false;
    for (int64_t l = 0; l < d->size.layers; l++) any |= qkv_layer_in(d->local, l);
    return any;
}

static void take_norms(struct qkv_structure *s, const struct qkv_description *d,
                       const struct qkv_names *names)
{
    const bool before = names->heads.norm_in || (names->decoder && names->decoder->heads.norm_in);
    s->norm_before = d->norm != QKV_NORM_POST && before;
    s->norm_inside = d->norm == QKV_NORM_INSIDE;
    s->norm_after = d->norm == QKV_NORM_POST || d->norm == QKV_NORM_BOTH;
    s->first_norm_missing = s->norm_before && d->first_norm_missing;
    s->norm_heads = d->norm_q || d->norm_k;
    s->norm_whole = s->norm_heads && d->norm_whole;
    s->embedding_norm = d->embedding_norm;
    s->final_norm = d->final_norm;
}

qkv_status qkv_structure_read(struct qkv_structure *out, const char *dir, qkv_error *err)
{
    static const enum qkv_model_kind kinds[] = { QKV_KIND_ENCODER, QKV_KIND_DECODER,
                                                 QKV_KIND_ENCODER_DECODER };
    const struct qkv_family *family = NULL;
    const char *type = NULL;
    struct qkv_description d;
    if (out) *out = (struct qkv_structure){ 0 };
    if (!out || !dir)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_structure_read: expected a structure and a model folder, found NULL");
    const qkv_status status = qkv_describe_folder(&d, &family, &type, NULL, dir, err);
    if (status) return status;
    if (d.kind == QKV_NET_GRU_ATTENTION || d.size.layers < 1)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = dir },
                        "only a Transformer has this structure; the model is %s", type);
    *out = (struct qkv_structure){
        .kind = kinds[d.kind],
        .layers = d.size.layers,
        .decoder_layers = d.kind == QKV_NET_ENCODER_DECODER ? d.decoder_layers : 0,
        .heads = d.size.heads,
        .kv_heads = d.size.kv_heads,
        .width = d.size.width,
        .key_width = qkv_head_keys(&d),
        .value_width = qkv_head_values(&d),
        .inner = d.size.inner,
        .vocab = d.size.vocab,
        .decoder_vocab = d.kind == QKV_NET_ENCODER_DECODER ? qkv_described_vocab(&d) : 0,
        .positions = d.size.positions,
        .embed_width = d.embed_width ? d.embed_width : d.size.width,
        .gated = d.gated,
        .feed_forward_once = d.mlp_once,
        .feed_forward_bare = d.mlp_bare,
        .windows = has_local_layer(&d),
        .scale = d.attention_scale != 0 ? d.attention_scale : 1 / sqrt((double)qkv_head_keys(&d)),
        .softcap = d.softcap,
        .logit_softcap = d.logit_softcap,
        .labels = d.told == QKV_TOLD_TEXTS || d.told == QKV_TOLD_TOKENS ? d.labels : 0,
    };
    take_norms(out, &d, family->names);
    snprintf(out->family, sizeof out->family, "%s", type);
    snprintf(out->position, sizeof out->position, "%s", position_name(&d));
    snprintf(out->norm, sizeof out->norm, "%s",
             d.norm_kind == QKV_NORM_RMS ? "RMS norm" : "layer norm");
    snprintf(out->activation, sizeof out->activation, "%s", qkv_activation_name(d.act));
    return QKV_OK;
}
