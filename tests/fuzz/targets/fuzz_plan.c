// SPDX-License-Identifier: MIT
// fuzz_plan.c: plans attention with any sizes, strides, windows, lengths and offsets; a small plan
// that is accepted also runs, forward and backward, in memory of exactly the size that its arrays
// need.  The input is a list of numbers: a byte selects a small number, a number near a limit of
// its type, or the 8 bytes that follow.
// Inputs have up to 256 bytes.
#include "fuzz/fuzz.h"
#include <math.h>
#include <qkv/attention.h>
#include <qkv/probe.h>

struct reader {
    const uint8_t *at, *end;
};

static int64_t number(struct reader *r, int64_t least)
{
    static const int64_t limits[] = {
        INT64_MIN,        INT64_MIN + 1,    INT64_MAX,        INT64_MAX - 1, INT32_MAX, INT32_MIN,
        (int64_t)1 << 31, (int64_t)1 << 32, (int64_t)1 << 62, 1000003,       65536,     -1
    };
    if (r->at >= r->end) return least;
    const uint8_t b = *r->at++;
    if (b < 200) return least + b % 20;
    if (b < 240) return limits[b % (sizeof limits / sizeof limits[0])];
    int64_t x = 0;
    const size_t n = (size_t)(r->end - r->at) < 8 ? (size_t)(r->end - r->at) : 8;
    memcpy(&x, r->at, n);
    r->at += n;
    return x;
}

static float real(struct reader *r)
{
    static const float values[] = { 0, 1, -1, .5f, INFINITY, -INFINITY, NAN, 1e30f };
    return values[number(r, 0) & 7];
}

static bool is_small(int64_t n, int64_t most)
{
    return n >= 0 && n <= most;
}

// Memory of exactly n items, at its end: an access past it is reported.
static void *array(int64_t n, size_t item)
{
    void *p = malloc((size_t)n * item);
    FUZZ_CHECK(p);
    memset(p, 0x3c, (size_t)n * item); // a small number in each type
    return p;
}

static void run(const struct qkv_attention *a, const struct qkv_attention_plan *plan)
{
    const int64_t G = a->G ? a->G : a->H, F = a->F ? a->F : a->E;
    const size_t item = qkv_dtype_size(qkv_precision_type(a->precision));
    const int64_t nq = a->B * a->T * a->H * a->E, nk = a->B * a->S * G * a->E;
    const int64_t nv = a->B * a->S * G * F, no = a->B * a->T * a->H * F, nl = a->B * a->H * a->T;
    void *q = array(nq, item), *k = array(nk, item), *v = array(nv, item), *out = array(no, item);
    void *dq = array(nq, item), *dk = array(nk, item), *dv = array(nv, item);
    float *lse = array(nl, sizeof *lse), *weights = array(nl * a->S, sizeof *weights);
    void *scratch = aligned_alloc(64, plan->scratch ? plan->scratch : 64);
    FUZZ_CHECK(scratch);
    const qkv_status status = qkv_attention_forward(
        out, a->no_softmax ? NULL : lse, a->no_softmax ? NULL : weights, q, k, v, a, scratch);
    FUZZ_CHECK(!status);
    free(scratch);
    const struct qkv_attention_plan back = qkv_attention_backward_plan(a, NULL);
    if (!back.status && back.scratch <= 1 << 20 && !a->no_softmax) {
        scratch = aligned_alloc(64, back.scratch ? back.scratch : 64);
        FUZZ_CHECK(scratch &&
                   !qkv_attention_backward(dq, dk, dv, NULL, out, q, k, v, out, lse, a, scratch));
        free(scratch);
    }
    void *all[] = { q, k, v, out, dq, dk, dv, lse, weights };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader r = { data, data + size };
    const int64_t flags = number(&r, 0);
    int64_t lists[3][4];
    float numbers[8];
    struct qkv_attention a = { .B = number(&r, 1),
                               .T = number(&r, 1),
                               .S = number(&r, 1),
                               .H = number(&r, 1),
                               .G = number(&r, 0),
                               .E = number(&r, 1),
                               .F = number(&r, 0) };
    a.precision = (qkv_precision)(number(&r, 0) & 7);
    a.scale = real(&r);
    a.softcap = real(&r);
    a.causal = flags & 1;
    a.diagonal = flags & 2 ? QKV_BOTTOM_RIGHT : QKV_TOP_LEFT;
    a.window.on = flags & 4;
    a.window.left = number(&r, -1);
    a.window.right = number(&r, -1);
    a.no_softmax = flags & 8;
    a.native = flags & 16;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++) lists[i][j] = number(&r, 0);
    for (int i = 0; i < 8; i++) numbers[i] = real(&r);
    if (is_small(a.B, 4) && number(&r, 0) & 1) a.k_lengths = lists[0];
    const int64_t sequences = number(&r, 0);
    if (is_small(sequences, 3) && a.B == 1) {
        a.sequences = sequences;
        a.q_offsets = lists[1];
        a.k_offsets = sequences & 1 ? lists[2] : NULL;
    }
    if (is_small(a.H, 8)) {
        a.alibi = flags & 32 ? numbers : NULL;
        a.sinks = flags & 64 ? numbers : NULL;
    }
    const bool strides = flags & 128;
    if (strides) {
        struct qkv_strides *s[] = { &a.q_strides, &a.k_strides, &a.v_strides, &a.out_strides };
        for (int i = 0; i < 4; i++)
            *s[i] = (struct qkv_strides){ number(&r, 0), number(&r, 0), number(&r, 0) };
        a.bias.b = number(&r, 0);
        a.bias.h = number(&r, 0);
        a.bias.t = number(&r, 0);
        a.bias.at = number(&r, 0) & 1 ? numbers : NULL;
        a.relative.reach = number(&r, 0);
        a.relative.at = number(&r, 0) & 1 ? numbers : NULL;
        a.dropout.p = real(&r);
    }
    const struct qkv_attention_plan plan = qkv_attention_plan(&a);
    FUZZ_CHECK(plan.status == QKV_OK || plan.status == QKV_ERR_USAGE ||
               plan.status == QKV_ERR_UNSUPPORTED || plan.status == QKV_ERR_LIMIT);
    FUZZ_CHECK((plan.status == QKV_OK) == !plan.reason[0] && (!plan.status || !plan.kernel));
    const struct qkv_attention_plan back = qkv_attention_backward_plan(&a, NULL);
    FUZZ_CHECK((back.status == QKV_OK) == !back.reason[0]);
    if (plan.status) return 0;
    FUZZ_CHECK(plan.tiles >= 0 && plan.visited >= 0 && plan.skipped >= 0 && plan.flops >= 0);
    if (!strides && is_small(a.B, 3) && is_small(a.T, 40) && is_small(a.S, 40) &&
        is_small(a.H, 8) && is_small(a.E, 40) && is_small(a.F, 40) && plan.scratch <= 1 << 20)
        run(&a, &plan);
    return 0;
}
