// SPDX-License-Identifier: MIT
// observe.h: declares the functions that observers, probes and ablations of heads share.
#ifndef QKV_MODEL_OBSERVE_H
#define QKV_MODEL_OBSERVE_H

#include "model/model_internal.h"

// Writes sizes, window, scale and relative positions of an attention to the struct that the
// observer receives (observe.c).
void qkv_observe_heads(struct qkv_layer_output *seen, const struct qkv_heads *heads,
                       const struct qkv_attention *a);
// Returns true if at least one statistic is requested (probe_request.c).
bool qkv_probe_requested(const struct qkv_probe_request *w);
// Checks a probe request. Returns QKV_OK or QKV_ERR_USAGE.
qkv_status qkv_probe_request_check(const struct qkv_probe_request *w, qkv_error *err);
// Allocates the arrays of a probe of H heads, T rows and S keys from an arena; the caller has set
// p->rows and p->row.
void qkv_probe_take(struct qkv_probe *p, struct qkv_arena *a, const struct qkv_probe_request *w,
                    int64_t H, int64_t T, int64_t S);

// Returns the number of layers of the stack that has the given part (encoder, decoder or
// cross-attention); 0: the model has no such part (ablate.c).
int64_t qkv_part_layers(const struct qkv_model *m, enum qkv_attention_part part);
static inline int qkv_part_stack(enum qkv_attention_part part)
{
    return part >= QKV_PART_DECODER;
}
// Checks that the model has every head of a list and that no head is named twice. Returns QKV_OK or
// QKV_ERR_USAGE.
qkv_status qkv_ablation_check(const struct qkv_model *m, const struct qkv_ablation *list, int64_t n,
                              qkv_error *err);
// Copies the relative-position table `from` of a stack to[H][2 reach + 1], with 0 for heads ablated
// to uniform weights.
void qkv_ablate_relative(float *to, const float *from, const unsigned char *gives, int64_t H,
                         int64_t reach);
#endif
