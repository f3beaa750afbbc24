// SPDX-License-Identifier: MIT
// compare_arrays.c: reads the queries, keys and values of the caller, on which `qkv compare` runs
// exact attention and its approximations.
#include <math.h>
#include "compare/compare.h"

static qkv_status check_finite(const struct array *a, qkv_error *err)
{
    for (int64_t i = 0; i < a->count; i++)
        if (!isfinite(a->at[i]))
            return cmd_error(err, QKV_ERR_FORMAT, a->source,
                             "element %lld of %s: expected a finite number, found %s", (long long)i,
                             a->what, isnan(a->at[i]) ? "NaN" : "infinity");
    return QKV_OK;
}

qkv_status compare_arrays_read(struct compare_arrays *a, const char *const paths[3], qkv_error *err)
{
    static const char *const names[] = { "q", "k", "v" };
    struct array *const all[] = { &a->q, &a->k, &a->v };
    qkv_status status = QKV_OK;
    for (int i = 0; i < 3 && !status; i++)
        status = array_find(all[i], names[i], paths[i], NULL, NULL, err);
    if (!status) status = array_sizes_of(&a->s, &a->q, &a->k, &a->v, false, err);
    for (int i = 0; i < 3 && !status; i++)
        if (!all[i]->count) status = array_misfit(err, all[i], "at least one number", NULL);
    for (int i = 0; i < 3 && !status; i++)
        if (!(status = array_load(all[i], err))) status = check_finite(all[i], err);
    return status;
}

void compare_arrays_free(struct compare_arrays *a)
{
    array_free(&a->q);
    array_free(&a->k);
    array_free(&a->v);
}
