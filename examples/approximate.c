// SPDX-License-Identifier: MIT
// approximate.c: runs linear attention and Nystrom attention on q, k and v, here rows that change
// slowly along the text, and compares their outputs with exact attention.
//
//     cc approximate.c $(pkg-config --cflags --libs qkv) -lm && ./a.out
#include <math.h>
#include <qkv/qkv.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 256, E = 16, LANDMARKS = 16 };
static float q[N * E], k[N * E], v[N * E], exact[N * E], out[N * E]; // [tokens][width]

// Prints the relative error of an output.
static void compare(const char *name)
{
    double off = 0, size = 0;
    for (int i = 0; i < N * E; i++) {
        off += pow(out[i] - exact[i], 2);
        size += pow(exact[i], 2);
    }
    printf("%-8s first row %7.4f %7.4f ..., error %.4f\n", name, out[0], out[1], sqrt(off / size));
}

int main(void)
{
    for (int i = 0; i < N * E; i++) {
        const int token = i / E;
        const double turn = 6.2831853 * token / N;
        q[i] = k[i] = (float)cos(turn * (1 + i % 4) + i % E);
        v[i] = (float)sin(turn * (1 + i % 3) + i % E);
    }
    const struct qkv_attention a = { .B = 1, .T = N, .S = N, .H = 1, .E = E };
    const struct qkv_linear_attention l = { .B = 1, .T = N, .S = N, .H = 1, .E = E };
    const struct qkv_nystrom n = { .B = 1, .T = N, .S = N, .H = 1, .E = E, .landmarks = LANDMARKS };
    const struct qkv_baseline_plan pl = qkv_linear_attention_plan(&l), pn = qkv_nystrom_plan(&n);
    const size_t most = pl.scratch > pn.scratch ? pl.scratch : pn.scratch;
    const size_t own = qkv_attention_plan(&a).scratch;
    void *scratch = aligned_alloc(64, own > most ? own : most);
    int code = scratch ? QKV_OK : QKV_ERR_LIMIT;
    if (!code) code = qkv_attention_forward(exact, NULL, NULL, q, k, v, &a, scratch);
    if (!code) code = qkv_linear_attention_forward(out, NULL, q, k, v, &l, scratch);
    if (!code) compare("linear");
    if (!code) code = qkv_nystrom_forward(out, q, k, v, &n, scratch);
    if (!code) compare("nystrom");
    free(scratch);
    return code;
}
