// SPDX-License-Identifier: MIT
/** qkv.h: includes all headers of libqkv, a library for exact self-attention in memory linear in
 *  the number of tokens, which runs, trains and visualizes Transformers.
 *
 *  base.h       status, error, threads, types, precision
 *  digest.h     SHA-256 and SHA-1
 *  layout.h     sizes and layouts of the structures, for bindings
 *  json.h       strict JSON reader
 *  utf8.h       characters of a text
 *  output.h     output files that are complete or absent
 *  tensor.h     .safetensors and .npy files
 *  attention.h  exact softmax attention, forward and backward
 *  ranks.h      one attention with several processes (MPI)
 *  probe.h      statistics of attention weights, also of long texts
 *  cache.h      KV cache for incremental decoding
 *  search.h     the stored vectors nearest to a query
 *  layer.h      linear layer, normalisation, multi-head attention
 *  baseline.h   convolution, recurrence, sparse, linear and low-rank attention
 *  measure.h    peak throughput of this machine
 *  text.h       tokenizer, and training of tokenizers
 *  hub.h        models by name, in the cache of the Hugging Face Hub
 *  zip.h        files of a zip archive
 *  model.h      opening and running a model folder
 *  decode.h     incremental decoding of a model
 *  task.h       embedding, classification, masked words, perplexity
 *  shard.h      shards of a file that several machines compute
 *  entities.h   labels of tokens and the spans that they form
 *  ablate.h     effect of ablating each head; cosine of two texts per token pair
 *  lens.h       output of a model for a text, after each layer (logit lens)
 *  generate.h   text generation and translation
 *  scheduler.h  text generation for prompts that arrive while others run
 *  train.h      training and evaluation
 *  view.h       attention as an HTML page or in the terminal
 *  picture.h    a view of attention, and diagrams of a model, as SVG or PNG
 *  chart.h      draws numbers as charts
 *  plot.h       draws the curves of training runs
 *  convert.h    converts the weights of a model to another type
 *
 *  Exact causal attention over 8 heads of width 64 and 1000 tokens:
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
#include <qkv/digest.h>
#include <qkv/layout.h>
#include <qkv/json.h>
#include <qkv/utf8.h>
#include <qkv/output.h>
#include <qkv/tensor.h>
#include <qkv/attention.h>
#include <qkv/ranks.h>
#include <qkv/probe.h>
#include <qkv/cache.h>
#include <qkv/search.h>
#include <qkv/layer.h>
#include <qkv/baseline.h>
#include <qkv/measure.h>
#include <qkv/text.h>
#include <qkv/hub.h>
#include <qkv/zip.h>
#include <qkv/model.h>
#include <qkv/decode.h>
#include <qkv/task.h>
#include <qkv/shard.h>
#include <qkv/entities.h>
#include <qkv/ablate.h>
#include <qkv/lens.h>
#include <qkv/generate.h>
#include <qkv/scheduler.h>
#include <qkv/train.h>
#include <qkv/view.h>
#include <qkv/picture.h>
#include <qkv/chart.h>
#include <qkv/plot.h>
#include <qkv/convert.h>
#endif
