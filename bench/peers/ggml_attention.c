// SPDX-License-Identifier: MIT
// ggml_attention.c: ggml's flash_attn_ext with f32 keys and values, as a library that bench/run.py builds
// against a ggml given in QKV_GGML_DIR.
#include "ggml.h"
#include "ggml-cpu.h"
#include <math.h>
#include <stdlib.h>

struct run {
    struct ggml_context *memory;
    struct ggml_cgraph *graph;
    int threads;
};

static void fill(struct ggml_tensor *t)
{
    float *x = t->data;
    for (int64_t i = 0; i < ggml_nelements(t); i++)
        x[i] = ((float)rand() / (float)RAND_MAX - 0.5f) * 3.4f;
}

// H heads of width D on N tokens; NULL: no memory.
struct run *ggml_attention_new(int N, int D, int H, int threads, int causal)
{
    struct run *r = calloc(1, sizeof *r);
    const struct ggml_init_params p = { (size_t)1 << 30, NULL, false };
    if (!r || !(r->memory = ggml_init(p))) {
        free(r);
        return NULL;
    }
    struct ggml_tensor *q = ggml_new_tensor_4d(r->memory, GGML_TYPE_F32, D, N, H, 1);
    struct ggml_tensor *k = ggml_new_tensor_4d(r->memory, GGML_TYPE_F32, D, N, H, 1);
    struct ggml_tensor *v = ggml_new_tensor_4d(r->memory, GGML_TYPE_F32, D, N, H, 1), *mask = NULL;
    fill(q), fill(k), fill(v);
    if (causal) { // it knows the triangle only as a tensor of f16
        mask = ggml_new_tensor_4d(r->memory, GGML_TYPE_F16, N, N, 1, 1);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                ((ggml_fp16_t *)mask->data)[(size_t)i * (size_t)N + (size_t)j] =
                    ggml_fp32_to_fp16(j <= i ? 0 : -INFINITY);
    }
    r->graph = ggml_new_graph(r->memory);
    ggml_build_forward_expand(
        r->graph, ggml_flash_attn_ext(r->memory, q, k, v, mask, 1.0f / sqrtf((float)D), 0, 0));
    r->threads = threads;
    return r;
}

void ggml_attention_run(struct run *r)
{
    ggml_graph_compute_with_ctx(r->memory, r->graph, r->threads);
}

void ggml_attention_free(struct run *r)
{
    ggml_free(r->memory);
    free(r);
}
