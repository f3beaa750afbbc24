// SPDX-License-Identifier: MIT
// decode.c: decodes token by token with a cache in bf16; 8 heads share 2 key/value heads.
//
//     cc decode.c $(pkg-config --cflags --libs qkv) && ./a.out
#include <qkv/qkv.h>
#include <stdio.h>
#include <stdlib.h>

enum { PROMPT = 1000, STEPS = 24, H = 8, G = 2, E = 64, TOKENS = PROMPT + STEPS };

// Returns n numbers that stand for the projections of a token, the same in every run.
static void noise(uint16_t *x, int n, unsigned seed)
{
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = qkv_f32_to_bf16((float)(seed >> 8) / 8388608.0f - 1.0f);
    }
}

int main(void)
{
    static uint16_t q[H * E], k[PROMPT * G * E], v[PROMPT * G * E], out[H * E];
    const struct qkv_cache_shape shape = {
        .B = 1, .G = G, .E = E, .capacity = TOKENS, .precision = QKV_PRECISION_BF16
    };
    const struct qkv_attention a = { .T = 1, .H = H, .causal = true };
    qkv_error err = { 0 };
    qkv_cache *cache = NULL;
    void *scratch = NULL;
    char line[512];
    if (qkv_cache_new(&cache, &shape, &err)) goto done;
    const struct qkv_attention_plan plan = qkv_cache_plan(cache, &a); // for any length
    if ((err.status = plan.status))
        snprintf(err.text, sizeof err.text, "%s", plan.reason);
    else if (!(scratch = aligned_alloc(64, plan.scratch)))
        err.status = QKV_ERR_LIMIT;
    if (err.status) goto done;

    noise(k, PROMPT * G * E, 1);
    noise(v, PROMPT * G * E, 2);
    if (qkv_cache_append(cache, 0, k, v, PROMPT, NULL, NULL, &err)) goto done; // the prompt
    for (unsigned step = 0; step < STEPS; step++) { // append key and value of the token, then query
        noise(k, G * E, 10 + step);
        noise(v, G * E, 40 + step);
        noise(q, H * E, 70 + step);
        if (qkv_cache_append(cache, 0, k, v, 1, NULL, NULL, &err)) goto done;
        if ((err.status = qkv_cache_forward(out, NULL, NULL, q, cache, &a, scratch))) goto done;
    }
    printf("%lld tokens in %zu KiB; last output of head 0: %.4f %.4f ...\n",
           (long long)qkv_cache_length(cache, 0), qkv_cache_bytes(cache) / 1024,
           (double)qkv_bf16_to_f32(out[0]), (double)qkv_bf16_to_f32(out[1]));
done:
    if (err.status)
        fprintf(stderr, "%s: %s\n", qkv_status_name(err.status),
                qkv_error_line(line, sizeof line, &err));
    qkv_cache_free(cache);
    free(scratch);
    return err.status;
}
