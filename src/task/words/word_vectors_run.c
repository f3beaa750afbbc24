// SPDX-License-Identifier: MIT
// word_vectors_run.c: implements the public function that trains word vectors from files.
#define _GNU_SOURCE
#include "task/train/train_internal.h"

qkv_status qkv_train_words(const char *dir, const struct qkv_text_source *texts,
                           const struct qkv_word_options *o, struct qkv_word_result *result,
                           qkv_error *err)
{
    const double begun = qkv_seconds();
    struct qkv_words_report report = { 0 };
    qkv_corpus *corpus = NULL;
    if (!dir || !texts || !texts->n || !o)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "no text to train on, expected files, found none");
    const struct qkv_words_options how = { .skip_gram = !o->cbow,
                                           .width = o->width,
                                           .window = o->window,
                                           .negative = o->negative,
                                           .least = o->least,
                                           .most = o->most,
                                           .epochs = o->epochs,
                                           .rate = o->rate,
                                           .sample = o->sample,
                                           .seed = (uint64_t)o->seed,
                                           .force = o->force,
                                           .progress = o->progress };
    qkv_status status = qkv_corpus_open(&corpus, texts, QKV_OBJECTIVE_CAUSAL, err);
    if (!status) status = qkv_words_train(dir, corpus, &how, &report, err);
    qkv_corpus_close(corpus);
    if (result)
        *result = (struct qkv_word_result){ .words = report.words,
                                            .vocab = report.vocab,
                                            .loss = report.loss,
                                            .seconds = qkv_seconds() - begun };
    return status;
}
