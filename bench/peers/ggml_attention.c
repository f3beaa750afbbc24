// SPDX-License-Identifier: MIT
// ggml_attention.c: wraps ggml's flash_attn_ext, with keys and values in f32 or f16, as a library
// that bench/run.py builds against the ggml checkout in QKV_GGML_DIR.
#include "ggml.h"
#include "ggml-cpu.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct run {
    struct ggml_context *memory;
    struct ggml_cgraph *graph;
    struct ggml_tensor *out; // [N][H][D]
    int threads;
};

static struct ggml_tensor *tensor(struct run *r, enum ggml_type type, const float *x, int N, int D,
                                  int H)
{
    struct ggml_tensor *t = ggml_new_tensor_4d(r->memory, type, D, N, H, 1);
    if (type == GGML_TYPE_F32)
        memcpy(t->data, x, ggml_nbytes(t));
    else
        ggml_fp32_to_fp16_row(x, t->data, ggml_nelements(t));
    return t;
}

// Copies q, k, v [H][N][D] into a new graph; NULL: no memory.
struct run *ggml_attention_new(const float *q, const float *k, const float *v, int N, int D, int H,
                               int threads, int causal, int f16)
{
    struct run *r = calloc(1, sizeof *r);
    const struct ggml_init_params p = { (size_t)1 << 30, NULL, false };
    if (!r || !(r->memory = ggml_init(p))) {
        free(r);
        return NULL;
    }
    const enum ggml_type type = f16 ? GGML_TYPE_F16 : GGML_TYPE_F32;
    struct ggml_tensor *tq = tensor(r, GGML_TYPE_F32, q, N, D, H),
                       *tk = tensor(r, type, k, N, D, H), *tv = tensor(r, type, v, N, D, H),
                       *mask = NULL;
    if (causal) { // ggml represents the causal mask only as a tensor of f16
        mask = ggml_new_tensor_4d(r->memory, GGML_TYPE_F16, N, N, 1, 1);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                ((ggml_fp16_t *)mask->data)[(size_t)i * (size_t)N + (size_t)j] =
                    ggml_fp32_to_fp16(j <= i ? 0 : -INFINITY);
    }
    r->graph = ggml_new_graph(r->memory);
    r->out = ggml_flash_attn_ext(r->memory, tq, tk, tv, mask, 1.0f / sqrtf((float)D), 0, 0);
    ggml_build_forward_expand(r->graph, r->out);
    r->threads = threads;
    return r;
}

void ggml_attention_run(struct run *r)
{
    ggml_graph_compute_with_ctx(r->memory, r->graph, r->threads);
}

// Returns the output of the last run, [N][H][D].
const float *ggml_attention_out(const struct run *r)
{
    return r->out->data;
}

void ggml_attention_free(struct run *r)
{
    ggml_free(r->memory);
    free(r);
}
