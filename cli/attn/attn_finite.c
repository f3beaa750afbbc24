// SPDX-License-Identifier: MIT
// attn_finite.c: prints a note if attention on finite inputs has results that are not finite.
#include "attn/attn.h"
#include <math.h>

// Counts the numbers of x that are not finite; `masks` is true: without -infinity, which masks.
static int64_t count_nonfinite(const struct array *x, bool masks)
{
    int64_t n = 0;
    for (int64_t i = 0; x->at && i < x->count; i++)
        n += !isfinite(x->at[i]) && !(masks && x->at[i] < 0);
    return n;
}

void attn_note_nonfinite(const struct attn_job *j, const struct array *bias,
                         const struct array *sinks, const struct array *out)
{
    const struct array *const inputs[] = { &j->q,  &j->k,  &j->v,  &j->x,   &j->c,   &j->wq, &j->wk,
                                           &j->wv, &j->wo, &j->ws, &j->waq, &j->wak, &j->wa };
    const int64_t n = count_nonfinite(out, false);
    if (!n || count_nonfinite(bias, true) || count_nonfinite(sinks, true)) return;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (count_nonfinite(inputs[i], false)) return;
    cmd_note("%lld of %lld results are not finite, although all inputs are: numbers exceeded the "
             "range of %s",
             (long long)n, (long long)out->count, qkv_precision_name(j->a.precision));
}
