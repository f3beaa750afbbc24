// SPDX-License-Identifier: MIT
// skewed.c: a library that is preloaded before libqkv and changes its results: one number of a
// result is slightly wrong, which `qkv verify` must detect; tiles are refused, which `qkv info`
// must report; or the version is another one, which other ranks must refuse.  QKV_SKEW lists the
// changes, separated by commas.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <qkv/qkv.h>
#include <stdlib.h>
#include <string.h>

static bool skews(const char *what)
{
    static const char *text; // read once: conversions are called many times
    if (!text && !(text = getenv("QKV_SKEW"))) text = "";
    return *text && strstr(text, what);
}

// Returns the next definition of the name, as a pointer to a function.
static void find(void *function, const char *name)
{
    void *const p = dlsym(RTLD_NEXT, name);
    memcpy(function, &p, sizeof p);
}

qkv_status qkv_attention_forward(void *out, float *lse, float *weights, const void *q,
                                 const void *k, const void *v, const struct qkv_attention *a,
                                 void *scratch)
{
    qkv_status (*ours)(void *, float *, float *, const void *, const void *, const void *,
                       const struct qkv_attention *, void *);
    find(&ours, "qkv_attention_forward");
    const qkv_status status = ours(out, lse, weights, q, k, v, a, scratch);
    if (!status && skews("attention")) *(float *)out *= 1 + 0x1p-12f;
    return status;
}

qkv_status qkv_attention_backward(void *dq, void *dk, void *dv,
                                  const struct qkv_attention_gradients *g, const void *dout,
                                  const void *q, const void *k, const void *v, const void *out,
                                  const float *lse, const struct qkv_attention *a, void *scratch)
{
    qkv_status (*ours)(void *, void *, void *, const struct qkv_attention_gradients *, const void *,
                       const void *, const void *, const void *, const void *, const float *,
                       const struct qkv_attention *, void *);
    find(&ours, "qkv_attention_backward");
    const qkv_status status = ours(dq, dk, dv, g, dout, q, k, v, out, lse, a, scratch);
    if (!status && skews("backward")) *(float *)dk *= 1 + 0x1p-8f;
    return status;
}

void qkv_layer_norm(float *y, const float *x, const float *w, const float *b, float eps, int64_t R,
                    int64_t D)
{
    void (*ours)(float *, const float *, const float *, const float *, float, int64_t, int64_t);
    find(&ours, "qkv_layer_norm");
    ours(y, x, w, b, eps, R, D);
    if (skews("norm")) y[R * D - 1] *= 1 + 0x1p-12f;
}

float qkv_bf16_to_f32(uint16_t h)
{
    static float (*ours)(uint16_t);
    if (!ours) find(&ours, "qkv_bf16_to_f32");
    return h == 0x0001 && skews("half") ? 0 : ours(h); // wrong for one subnormal number
}

const char *qkv_cpu_amx(void)
{
    const char *(*ours)(void);
    find(&ours, "qkv_cpu_amx");
    return skews("amx") ? "present, but the operating system refuses it (Permission denied)"
                        : ours();
}

const char *qkv_version(void)
{
    const char *(*ours)(void);
    find(&ours, "qkv_version");
    return skews("version") ? "0.0.0" : ours();
}
