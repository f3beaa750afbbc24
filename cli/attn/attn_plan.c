// SPDX-License-Identifier: MIT
// attn_plan.c: prints how an attention would run.
#include "attn/attn.h"
#include <inttypes.h>

const char *const attn_scores[] = { "dot", "bilinear", "additive", NULL };

void attn_plan_print(const struct attn_job *j, const struct qkv_attention_plan *p)
{
    const struct qkv_attention *a = &j->a;
    const struct qkv_multi_head *m = &j->m;
    const double weights = 4.0 * (double)a->B * (double)a->H * (double)a->T * (double)a->S;
    if (common.json) {
        printf("{\"precision\":\"%s\",\"kernel\":\"%s\",\"isa\":\"%s\",\"arithmetic\":\"%s\",\"B\":"
               "%" PRId64 ",\"T\":%" PRId64 ",\"S\":%" PRId64 ",\"H\":%" PRId64 ",\"G\":%" PRId64
               ",\"E\":%" PRId64 ",\"F\":%" PRId64,
               qkv_precision_name(a->precision), p->kernel, p->isa, p->arithmetic, a->B, a->T, a->S,
               a->H, a->G, a->E, a->F);
        if (j->inputs)
            printf(",\"score\":\"%s\",\"hidden\":%" PRId64 ",\"inputs\":%" PRId64
                   ",\"context\":%" PRId64 ",\"outputs\":%" PRId64,
                   attn_scores[m->score], m->d_a, m->d_q, m->d_kv, m->d_out);
        printf(",\"scratch\":%zu,\"scratch_thread\":%zu,\"threads\":%d,\"tile_rows\":%" PRId64
               ",\"tile_keys\":%" PRId64 ",\"tiles\":%" PRId64 ",\"visited\":%" PRId64
               ",\"skipped\":%" PRId64 ",\"flops\":%.0f,\"weights_bytes\":%.0f",
               p->scratch, p->scratch_thread, qkv_threads(), p->tile_rows, p->tile_keys, p->tiles,
               p->visited, p->skipped, p->flops, weights);
        attn_ranks_plan_print(j);
        puts("}");
        return;
    }
    printf("kernel   %s, %s, products: %s, %d thread%s\n", p->kernel, p->isa, p->arithmetic,
           qkv_threads(), qkv_threads() == 1 ? "" : "s");
    printf("sizes    batch %" PRId64 ", queries %" PRId64 ", keys %" PRId64 ", heads %" PRId64
           " with %" PRId64 " key/value heads, widths of keys %" PRId64 " and values %" PRId64 "\n",
           a->B, a->T, a->S, a->H, a->G, a->E, a->F);
    if (j->inputs)
        printf("layer    score %s, hidden width %" PRId64 ", inputs %" PRId64 " and %" PRId64
               ", outputs %" PRId64 "\n",
               attn_scores[m->score], m->d_a, m->d_q, m->d_kv, m->d_out);
    printf("scratch  %zu bytes%s, %zu of them per thread; the size does not depend on T x S\n",
           p->scratch, j->inputs ? " for the whole layer" : "", p->scratch_thread);
    printf("tiles    %" PRId64 " of %" PRId64 " x %" PRId64 " scores: %" PRId64
           " computed, %" PRId64 " skipped\n",
           p->tiles, p->tile_rows, p->tile_keys, p->visited, p->skipped);
    printf("work     %.6g FLOP\n", p->flops);
    printf("weights  %.6g bytes if they were stored\n", weights);
    attn_ranks_plan_print(j);
}
