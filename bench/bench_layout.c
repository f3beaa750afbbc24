// SPDX-License-Identifier: MIT
// bench_layout.c: the sizes of the structures that bench/peers/qkv_ctypes.py repeats.
#include <qkv/qkv.h>
#include <stdio.h>

int main(void)
{
    printf("Strides %zu\n", sizeof(struct qkv_strides));
    printf("Attention %zu\n", sizeof(struct qkv_attention));
    printf("Plan %zu\n", sizeof(struct qkv_attention_plan));
    printf("Error %zu\n", sizeof(qkv_error));
    printf("EmbedReport %zu\n", sizeof(struct qkv_embed_report));
    printf("EmbedderOptions %zu\n", sizeof(struct qkv_embedder_options));
    printf("Encoding %zu\n", sizeof(qkv_encoding));
    return 0;
}
