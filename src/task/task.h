// SPDX-License-Identifier: MIT
// task.h: the interface of module task for other modules. It is empty, since no module calls task.
//
// The functions of this module are public. Each folder implements a public header and has internal
// headers of its own:
//   generate/  qkv/generate.h  text generation and translation (internal: generation.h lists them)
//   embed/     qkv/task.h      vectors, labels and masked tokens of texts (embed_internal.h)
//   shard/     qkv/shard.h     shards of a file and the output files of shards (shard_internal.h)
//   train/     qkv/train.h     training runs (train_internal.h, optim.h)
//   data/      none            datasets of tokens (data.h, data_build.h, corpus_internal.h)
//   eval/      qkv/train.h     evaluation of models (eval_internal.h)
//   ablate/    qkv/ablate.h    the effect of every head
//   words/     qkv/train.h     word vectors (word_vectors.h)
//   lens/      qkv/lens.h      output of a model after each layer, shares of tokens
//   find_model.c               the default model of a job
#ifndef QKV_TASK_TASK_H
#define QKV_TASK_TASK_H
#endif
