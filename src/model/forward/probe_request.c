// SPDX-License-Identifier: MIT
// probe_request.c: checks probe requests and allocates the arrays of the requested statistics.
#include "model/forward/observe.h"
#include "model/forward/stream.h"

enum { SIDE_MAX = 1 << 16 };

bool qkv_probe_requested(const struct qkv_probe_request *w)
{
    return w->top_k > 0 || w->rows > 0 || w->received || w->entropy || w->distance || w->offsets ||
           w->side > 0;
}

qkv_status qkv_probe_request_check(const struct qkv_probe_request *w, qkv_error *err)
{
    if (w->top_k < 0 || w->rows < 0 || w->side < 0 || w->side > SIDE_MAX ||
        (w->offsets && (w->reach < 0 || w->reach > INT32_MAX)))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid request for attention statistics, expected top_k, rows and reach "
                        ">= 0 and side of 0 .. %d, found %lld, %lld, %lld, %lld",
                        SIDE_MAX, (long long)w->top_k, (long long)w->rows, (long long)w->reach,
                        (long long)w->side);
    if (w->rows && !w->row)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "rows of attention statistics are missing, expected an array, found NULL");
    for (int64_t i = 0; i < w->rows; i++)
        if (w->row[i] < (i ? w->row[i - 1] + 1 : 0))
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "invalid rows of attention statistics, expected ascending numbers from "
                            "0, found %lld",
                            (long long)w->row[i]);
    return QKV_OK;
}

static float *numbers(struct qkv_arena *a, bool wanted, int64_t rows, int64_t each)
{
    return wanted ? qkv_arena_alloc(a, (size_t)rows, (size_t)each * sizeof(float)) : NULL;
}

void qkv_probe_take(struct qkv_probe *p, struct qkv_arena *a, const struct qkv_probe_request *w,
                    int64_t H, int64_t T, int64_t S)
{
    const bool top = w->top_k > 0;
    p->top_k = qkv_min64(w->top_k, S);
    p->reach = w->reach;
    p->side = w->side;
    p->top_weight = numbers(a, top, H * T, p->top_k);
    p->top_key = (int32_t *)(void *)numbers(a, top, H * T, p->top_k);
    p->row_weights = numbers(a, p->rows > 0, H * p->rows, S);
    p->received = numbers(a, w->received, H, S);
    p->entropy = numbers(a, w->entropy, H, T);
    p->distance = numbers(a, w->distance, H, T);
    p->offsets = numbers(a, w->offsets, H, 2 * w->reach + 1);
    p->tile_max = numbers(a, w->side > 0, H * w->side, w->side);
    p->tile_mean = numbers(a, w->side > 0, H * w->side, w->side);
}
