// SPDX-License-Identifier: MIT
// observe.h: declares functions for observers, probes and ablations of heads.
#ifndef QKV_MODEL_OBSERVE_H
#define QKV_MODEL_OBSERVE_H

#include "model/model_internal.h"

// Writes the sizes, window, scale and relative positions of an attention to *seen, the struct that
// the observer receives (observe.c).
void qkv_observe_heads(struct qkv_layer_output *seen, const struct qkv_heads *heads,
                       const struct qkv_attention *a);
// Returns true if the probe request *w requests at least one statistic (probe_request.c).
bool qkv_probe_requested(const struct qkv_probe_request *w);
// Checks a probe request. Returns QKV_OK or QKV_ERR_USAGE.
qkv_status qkv_probe_request_check(const struct qkv_probe_request *w, qkv_error *err);
// Allocates from an arena the arrays that *w requests, for H heads, T rows and S keys. The caller
// has set p->rows and p->row.
void qkv_probe_take(struct qkv_probe *p, struct qkv_arena *a, const struct qkv_probe_request *w,
                    int64_t H, int64_t T, int64_t S);

// Returns the number of layers that have the given part (self-attention of the only stack, the
// encoder or the decoder, or cross-attention); 0: the model has no such part (ablate.c).
int64_t qkv_part_layers(const struct qkv_model *m, enum qkv_attention_part part);
static inline int qkv_part_stack(enum qkv_attention_part part)
{
    return part >= QKV_PART_DECODER;
}
// Checks that the model has every head of a list and that no head is named twice. Returns QKV_OK or
// QKV_ERR_USAGE.
qkv_status qkv_ablation_check(const struct qkv_model *m, const struct qkv_ablation *list, int64_t n,
                              qkv_error *err);
// Writes to stacks[m->stacks] copies of the stacks of the model, whose layers have the ablated heads
// of the list and no others. The caller frees *memory after the run (ablate.c).
// Returns QKV_OK, QKV_ERR_USAGE or QKV_ERR_LIMIT.
qkv_status qkv_run_ablate(void **memory, struct qkv_stack *stacks, const struct qkv_model *m,
                          const struct qkv_ablation *list, int64_t n, qkv_error *err);
// Copies the relative-position table of a stack, from[H][2 reach + 1], to the array `to` of the
// same size, and sets the rows of heads ablated to uniform weights to 0. gives[H]: the QKV_HEADS_*
// value of each head.
void qkv_ablate_relative(float *to, const float *from, const unsigned char *gives, int64_t H,
                         int64_t reach);
#endif
