// SPDX-License-Identifier: MIT
// fuzz_family.c: reads any bytes as a config.json of the family it names: it is refused, or gives a
// description with which binding and running are safe.
// Inputs have up to 2048 bytes.
#include "fuzz/fuzz.h"
#include "model/family/description.h"
#include <math.h>

static bool positive(double x)
{
    return x > 0 && isfinite(x);
}
static bool finite_or_none(double x)
{
    return x >= 0 && isfinite(x);
}

static void check_attention(const struct qkv_description *d)
{
    const int64_t E = qkv_head_keys(d);
    FUZZ_CHECK(d->size.heads % d->size.kv_heads == 0 && E >= 1 && qkv_head_values(d) >= 1);
    if (d->position == QKV_POSITION_ROTARY) {
        FUZZ_CHECK(E % 2 == 0);
        FUZZ_CHECK(positive(d->theta) && finite_or_none(d->theta_local));
    }
    if (d->rope.kind) FUZZ_CHECK(positive(d->rope.factor) && d->rope.original >= 1);
    if (d->rope.kind == QKV_ROPE_YARN) FUZZ_CHECK(positive(d->rope.attention));
    if (d->rope.kind == QKV_ROPE_LLAMA3) FUZZ_CHECK(d->rope.high > d->rope.low && d->rope.low > 0);
    for (int64_t i = d->size.layers; i < QKV_LAYERS_MAX; i++)
        FUZZ_CHECK(!qkv_described_local(d, i));
    FUZZ_CHECK(d->window_left >= 0 && d->window_right >= 0);
    FUZZ_CHECK(finite_or_none(d->attention_scale) && finite_or_none(d->softcap));
    FUZZ_CHECK(finite_or_none(d->logit_scale) && finite_or_none(d->logit_softcap));
    if (d->relative.buckets)
        FUZZ_CHECK(d->relative.buckets >= 4 && d->relative.distance > d->relative.buckets / 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *dir = fuzz_file("config.json", data, size);
    struct qkv_description d;
    const struct qkv_family *family = NULL;
    const char *type = NULL;
    qkv_error err = { 0 };
    const qkv_status status = qkv_describe_folder(&d, &family, &type, NULL, dir, &err);
    if (status) {
        fuzz_refusal(status, &err);
        return 0;
    }
    const int64_t V = qkv_described_vocab(&d);
    const int64_t ids[] = { d.bos, d.eos, d.mask, d.start, d.forced };
    FUZZ_CHECK(family && type && V >= 1 && d.size.vocab >= 1 && d.size.width >= 1);
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) FUZZ_CHECK(ids[i] >= -1 && ids[i] < V);
    FUZZ_CHECK(d.stops >= 0 && d.stops <= QKV_STOPS_MAX && d.size.pad < d.size.vocab);
    if (d.kind == QKV_NET_ENCODER_DECODER) FUZZ_CHECK(d.decoder_layers >= 1);
    if (d.size.heads) {
        FUZZ_CHECK(qkv_described_positions(&d) >= 1);
        if (d.kind == QKV_NET_GRU_ATTENTION) return 0; // it has neither norms nor dot products
        FUZZ_CHECK(d.size.eps > 0);
        check_attention(&d);
    }
    return 0;
}
