// SPDX-License-Identifier: MIT
/** qkv.h: all of libqkv: self-attention, exact, linear in memory; to run, train and see
 *  Transformers.
 *
 *  base.h       status, error, threads, types, precision   attention.h  the operator
 *  tensor.h     .safetensors and .npy                      layer.h      linear, norm, multi-head
 *  text.h       tokenizer, and one made of texts           model.h      a model folder, run
 *  task.h       embed, analogy                             view.h       attention as a picture
 *  cache.h      keys and values that stay: decoding        measure.h    the peaks of this machine
 *  generate.h   generate, translate, fill, classify
 *  train.h      models that learn                          plot.h       how training went
 *  decode.h     a model that goes on, token by token       convert.h    weights in another type
 *  ablate.h     what a head does; a cosine by its tokens
 *  probe.h      what attention looks at, at any length
 *  kinds.h      beside exact attention: convolution, recurrence, sparse, linear, low rank
 *  chart.h      numbers as a picture                       picture.h    a view as SVG or PNG
 *
 *  Exact causal attention over 8 heads of 64, 1000 tokens:
 *
 *      struct qkv_attention a = { .B = 1, .T = 1000, .S = 1000, .H = 8, .E = 64, .causal = true };
 *      struct qkv_attention_plan p = qkv_attention_plan(&a);
 *      void *scratch = aligned_alloc(64, p.scratch);
 *      if (p.status || qkv_attention_forward(out, NULL, NULL, q, k, v, &a, scratch))
 *          puts(p.reason);
 */
#ifndef QKV_H
#define QKV_H
#include <qkv/base.h>
#include <qkv/tensor.h>
#include <qkv/attention.h>
#include <qkv/probe.h>
#include <qkv/cache.h>
#include <qkv/layer.h>
#include <qkv/kinds.h>
#include <qkv/measure.h>
#include <qkv/text.h>
#include <qkv/model.h>
#include <qkv/decode.h>
#include <qkv/task.h>
#include <qkv/ablate.h>
#include <qkv/generate.h>
#include <qkv/train.h>
#include <qkv/view.h>
#include <qkv/picture.h>
#include <qkv/chart.h>
#include <qkv/plot.h>
#include <qkv/convert.h>
#endif
