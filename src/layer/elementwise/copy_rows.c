// SPDX-License-Identifier: MIT
// copy_rows.c: copies arrays between real and the 16-bit types.
#include "layer/attention/attention_work.h"
#include "layer/layer_internal.h"
#include <string.h>

void qkv_widen(real *to, const void *from, qkv_dtype type, int64_t n)
{
    enum { BLOCK = 256 };
    float some[BLOCK];
    const char *p = from;
    if (!to || type == QKV_REAL) return;
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t now = qkv_min64(n - at, BLOCK);
        qkv_to_f32(some, p + (size_t)at * qkv_dtype_size(type), type, now);
        for (int64_t i = 0; i < now; i++) to[at + i] = (real)some[i];
    }
}

void qkv_narrow(void *to, qkv_dtype type, const real *from, int64_t n)
{
    char *at = to;
    if (type == QKV_REAL)
        memcpy(to, from, (size_t)n * sizeof *from);
    else if (QKV_REAL == QKV_F32)
        qkv_from_f32(to, type, (const float *)(const void *)from, n);
    else
        for (int64_t i = 0; i < n; i++) {
            const float one = (float)from[i];
            qkv_from_f32(at + (size_t)i * qkv_dtype_size(type), type, &one, 1);
        }
}

real qkv_real_at(const void *at, qkv_dtype type)
{
    real whole;
    float one;
    if (type == QKV_REAL) return memcpy(&whole, at, sizeof whole), whole;
    qkv_to_f32(&one, at, type, 1);
    return (real)one;
}

// A copy of n columns of R rows, which threads share.
struct columns {
    char *to;
    const char *from;
    qkv_dtype to_type, from_type;
    int64_t to_ld, from_ld, n, R;
};
enum { COLUMN_ROWS = 16 };

static void copy_task(void *ctx, int64_t i, int thread)
{
    const struct columns *j = ctx;
    (void)thread;
    for (int64_t r = i * COLUMN_ROWS; r < j->R && r < (i + 1) * COLUMN_ROWS; r++) {
        char *to = j->to + (size_t)(r * j->to_ld) * qkv_dtype_size(j->to_type);
        const char *from = j->from + (size_t)(r * j->from_ld) * qkv_dtype_size(j->from_type);
        if (j->to_type == j->from_type)
            memcpy(to, from, (size_t)j->n * qkv_dtype_size(j->to_type));
        else if (j->to_type == QKV_REAL)
            qkv_widen((real *)(void *)to, from, j->from_type, j->n);
        else
            qkv_narrow(to, j->to_type, (const real *)(const void *)from, j->n);
    }
}

void qkv_copy_rows(void *to, qkv_dtype to_type, int64_t to_ld, const void *from,
                   qkv_dtype from_type, int64_t from_ld, int64_t n, int64_t R)
{
    struct columns j = { to, from, to_type, from_type, to_ld, from_ld, n, R };
    qkv_parallel_for(qkv_ceil_div(R, COLUMN_ROWS), copy_task, &j);
}
