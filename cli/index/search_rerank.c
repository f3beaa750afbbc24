// SPDX-License-Identifier: MIT
// search_rerank.c: orders passages by a cross-encoder, which reads question and passage together.
#include "index/search_parts.h"
#include <stdlib.h>
#include <string.h>

qkv_status reranker_open(struct reranker *r, const char *name, qkv_error *err)
{
    char dir[CMD_PATH];
    const struct qkv_model_options options = cmd_model_options();
    qkv_status status = cmd_model_find_named(dir, name, err);
    if (!status) status = qkv_model_open(&r->model, dir, &options, err);
    if (!status) status = qkv_tokenizer_open(&r->tokenizer, dir, err);
    if (status) return status;
    const struct qkv_model_info info = qkv_model_info(r->model);
    if (info.labels == 1) return QKV_OK;
    return cmd_error(err, QKV_ERR_UNSUPPORTED, dir,
                     "--rerank: expected a model that scores a pair of texts (one label), found %s "
                     "with %lld labels",
                     info.name, (long long)info.labels);
}

// Compares two hits: the larger score of the cross-encoder first, then the lower row.
static int by_rerank(const void *a, const void *b)
{
    const struct hit *x = a, *y = b;
    if (x->rerank != y->rerank) return x->rerank < y->rerank ? 1 : -1;
    return x->row < y->row ? -1 : x->row > y->row;
}

qkv_status reranker_run(const struct reranker *r, const struct index *x, const char *question,
                        size_t bytes, struct hit *hits, int64_t count, qkv_error *err)
{
    struct cmd_texts passages = { 0 };
    const char **questions = cmd_grow(NULL, (size_t)count + 1, sizeof *questions);
    size_t *sizes = cmd_grow(NULL, (size_t)count + 1, sizeof *sizes);
    float *scores = cmd_grow(NULL, (size_t)count + 1, sizeof *scores);
    const struct qkv_classify_options how = { .truncate = true };
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < count && !status; i++) {
        struct store_passage p;
        struct store_file f;
        status = index_passage(x, hits[i].row, &p, &f, err);
        if (!status) cmd_texts_add(&passages, p.text.at, p.text.bytes);
        questions[i] = question;
        sizes[i] = bytes;
    }
    if (!status && count)
        status = qkv_classify(r->model, r->tokenizer, scores, NULL, questions, sizes,
                              (const char *const *)passages.text, passages.bytes, count, &how, err);
    if (!status) status = cmd_check_finite(scores, count, "score of a passage", err);
    for (int64_t i = 0; i < count && !status; i++) {
        hits[i].rerank = scores[i];
        hits[i].reranked = true;
    }
    if (!status && count) qsort(hits, (size_t)count, sizeof *hits, by_rerank);
    cmd_texts_free(&passages);
    free(questions);
    free(sizes);
    free(scores);
    return status;
}

void reranker_close(struct reranker *r)
{
    qkv_tokenizer_close(r->tokenizer);
    qkv_model_close(r->model);
}
