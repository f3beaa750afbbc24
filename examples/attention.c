// SPDX-License-Identifier: MIT
// attention.c: calls the attention operator: causal attention of 4 heads that share one key head,
// over 1,000 tokens.
//
//     cc attention.c $(pkg-config --cflags --libs qkv) && ./a.out
#include <qkv/qkv.h>
#include <stdio.h>
#include <stdlib.h>

enum { T = 1000, H = 4, G = 1, E = 64 };

// Returns n pseudo-random numbers, the same in every run.
static float *noise(size_t n, unsigned seed)
{
    float *x = malloc(n * sizeof *x);
    for (size_t i = 0; x && i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
    return x;
}

int main(void)
{
    // Every member that is not named is zero, its default: no bias, no mask, scale 1/sqrt(E).
    struct qkv_attention a = { .B = 1, .T = T, .S = T, .H = H, .G = G, .E = E, .causal = true };
    struct qkv_attention_plan plan = qkv_attention_plan(&a);
    if (plan.status) {
        fprintf(stderr, "refused: %s\n", plan.reason);
        return plan.status;
    }
    printf("%s kernel: %lld of %lld tiles are masked and never visited\n", plan.kernel,
           (long long)plan.skipped, (long long)plan.tiles);

    float *q = noise(T * H * E, 1), *k = noise(T * G * E, 2), *v = noise(T * G * E, 3);
    float *out = malloc(sizeof(float) * T * H * E), *lse = malloc(sizeof(float) * H * T);
    void *scratch = aligned_alloc(64, plan.scratch);
    int code = QKV_ERR_LIMIT;
    if (!q || !k || !v || !out || !lse || !scratch) goto done;
    code = qkv_attention_forward(out, lse, NULL, q, k, v, &a, scratch);
    if (code) goto done;

    // The first token attends only to itself: its output is its value.
    printf("first token: out %.4f %.4f, value %.4f %.4f\n", out[0], out[1], v[0], v[1]);
    printf("last token, head 3: out %.4f %.4f, ln of its softmax sum %.4f\n",
           out[(T - 1) * H * E + 3 * E], out[(T - 1) * H * E + 3 * E + 1], lse[3 * T + T - 1]);
done:
    free(q);
    free(k);
    free(v);
    free(out);
    free(lse);
    free(scratch);
    return code;
}
