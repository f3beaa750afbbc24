// SPDX-License-Identifier: MIT
// embedder.c: computes vectors of texts: packs the tokens of texts into batches without padding,
// runs the model, and pools the hidden states of each text.
#include "task/embed/embed_internal.h"
#include <inttypes.h>
#include <string.h>

// A batch has 512 tokens per thread, but at least 1024 and at most 8192: larger batches need more
// memory and are not faster.
enum { BATCH_THREAD = 512, BATCH_LEAST = 1024, BATCH_MOST = 8192 };

struct qkv_embedder {
    struct qkv_embedder_options o;
    struct qkv_modules modules;
    qkv_model *model;
    qkv_tokenizer *tokenizer;
    // width: elements of a vector; hidden: elements of a hidden state, of which they are the first
    int64_t width, hidden, max_length;
    enum qkv_pool pool;
    bool normalize;
};

static qkv_status check_options(const struct qkv_embedder_options *o, qkv_error *err)
{
    const struct {
        const char *name;
        int64_t value, most;
    } rows[] = { { "pool", (int)o->pool, QKV_POOL_LAST },
                 { "batch_tokens", o->batch_tokens, INT64_MAX },
                 { "max_length", o->max_length, INT64_MAX } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].value < 0 || rows[i].value > rows[i].most)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "option %s of the embedder is out of range, expected 0 to %" PRId64
                            ", found %" PRId64,
                            rows[i].name, rows[i].most, rows[i].value);
    return QKV_OK;
}

qkv_status qkv_embedder_open(qkv_embedder **out, const char *dir,
                             const struct qkv_embedder_options *o, qkv_error *err)
{
    if (!out)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_embedder_open: expected a pointer for the embedder, found NULL");
    static const struct qkv_embedder_options plain;
    *out = NULL;
    if (!o) o = &plain;
    if (!dir)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_embedder_open: expected a model folder, found NULL");
    qkv_status status = check_options(o, err);
    if (status) return status;
    qkv_embedder *e = qkv_alloc_zero(1, sizeof *e);
    if (!e) return qkv_fail_memory(err, dir);
    e->o = *o;
    status = qkv_modules_read(&e->modules, dir, o->prompt, err);
    if (!status) status = qkv_model_open(&e->model, e->modules.model, &o->model, err);
    if (!status && qkv_model_info(e->model).kind == QKV_KIND_ENCODER_DECODER)
        status = qkv_fail(
            err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = e->modules.model },
            "embeddings require an encoder or a decoder; this model is an encoder-decoder (%s)",
            qkv_model_info(e->model).family);
    if (!status && !o->no_tokenizer)
        status = qkv_tokenizer_open(&e->tokenizer, e->modules.model, err);
    if (status) goto done;
    const struct qkv_model_info info = qkv_model_info(e->model);
    const int64_t said = e->modules.max_length ? e->modules.max_length : info.positions;
    e->width = e->hidden = info.width;
    if (e->modules.truncate_dim) e->width = qkv_min64(e->width, e->modules.truncate_dim);
    e->max_length = qkv_min64(o->max_length ? o->max_length : said, info.positions);
    e->pool = o->pool ? o->pool : e->modules.pool;
    e->normalize = e->modules.normalize && !o->no_normalize;
    if (e->modules.width && e->modules.width != e->hidden)
        status = qkv_fail(
            err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = dir },
            "wrong word_embedding_dimension of the pooling, expected the model's width %" PRId64
            ", found %" PRId64,
            e->hidden, e->modules.width);
    else if (e->tokenizer && qkv_tokenizer_size(e->tokenizer) > info.vocab)
        status = qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = e->modules.model },
                          "tokenizer has token ids for which the model has no embedding, expected "
                          "ids below %" PRId64 ", found %" PRId64,
                          info.vocab, qkv_tokenizer_size(e->tokenizer) - 1);
done:
    if (status)
        qkv_embedder_close(e);
    else
        *out = e;
    return status;
}

void qkv_embedder_close(qkv_embedder *e)
{
    if (!e) return;
    qkv_tokenizer_close(e->tokenizer);
    qkv_model_close(e->model);
    qkv_modules_free(&e->modules);
    qkv_free(e);
}

int64_t qkv_embedder_width(const qkv_embedder *e)
{
    return e ? e->width : 0;
}
int64_t qkv_embedder_max_length(const qkv_embedder *e)
{
    return e ? e->max_length : 0;
}
enum qkv_pool qkv_embedder_pool(const qkv_embedder *e)
{
    return e ? e->pool : QKV_POOL_FILE;
}
const qkv_model *qkv_embedder_model(const qkv_embedder *e)
{
    return e ? e->model : NULL;
}
const qkv_tokenizer *qkv_embedder_tokenizer(const qkv_embedder *e)
{
    return e ? e->tokenizer : NULL;
}

// Context of the parallel loop that pools the hidden states of each text.
struct pooling {
    const qkv_embedder *e;
    const struct qkv_batch *b;
    const float *hidden;
    float *out;
    float *whole; // [threads][hidden] whole vectors, if the output is only their beginning; or NULL
};

// Computes the vector of text i of the batch. The vector of a text without tokens is all zeros.
static void pool_one(void *ctx, int64_t i, int thread)
{
    const struct pooling *p = ctx;
    const int64_t D = p->e->hidden, n = p->b->lengths[i], width = p->e->width;
    float *out = p->out + (p->b->first + i) * width, *to = p->whole ? p->whole + thread * D : out;
    if (n)
        qkv_pool_rows(to, p->hidden + p->b->offsets[i] * D, n, D, p->e->pool);
    else
        memset(to, 0, (size_t)D * sizeof *to);
    if (p->e->normalize) qkv_unit_length(to, D);
    if (p->whole) memcpy(out, to, (size_t)width * sizeof *out); // not scaled again
}

// The hidden states of a batch; later batches reuse the memory.
struct hidden {
    float *at;
    int64_t capacity;
};

static qkv_status run(const qkv_embedder *e, struct hidden *h, const struct qkv_batch *b,
                      float *out, qkv_error *err)
{
    const int64_t D = e->hidden, R = b->offsets[b->texts];
    if (R > INT64_MAX / D || !qkv_reserve((void **)&h->at, &h->capacity, R * D, sizeof *h->at))
        return qkv_fail_memory(err, NULL);
    const struct qkv_model_input in = { .sequences = b->texts,
                                        .offsets = b->offsets,
                                        .lengths = e->o.pad ? b->lengths : NULL,
                                        .ids = b->ids,
                                        .types = b->types };
    struct pooling p = { e, b, h->at, out, NULL };
    if (e->width < D && !(p.whole = qkv_alloc((size_t)(qkv_threads() * D), sizeof *p.whole)))
        return qkv_fail_memory(err, NULL);
    const qkv_status status = qkv_model_run(e->model, h->at, &in, NULL, err);
    if (!status) qkv_parallel_for(b->texts, pool_one, &p);
    qkv_free(p.whole);
    return status;
}

static qkv_status step(const qkv_embedder *e, int64_t done, int64_t total, qkv_error *err)
{
    if (!e->o.progress.step || !e->o.progress.step(e->o.progress.user, "texts", done, total))
        return QKV_OK;
    return qkv_fail(err, QKV_ERR_INTERRUPTED, NULL,
                    "stopped after %" PRId64 " of %" PRId64 " texts", done, total);
}

static int64_t batch_tokens(const qkv_embedder *e)
{
    if (e->o.batch_tokens) return e->o.batch_tokens;
    return qkv_min64(qkv_max64(BATCH_LEAST, (int64_t)qkv_threads() * BATCH_THREAD), BATCH_MOST);
}

static qkv_status give(qkv_error *err, const struct qkv_batch *b)
{
    if (err && !err->status) *err = b->err;
    return b->status;
}

// Returns the options for tokenizing texts.
static struct qkv_encode_options encoding(const qkv_embedder *e)
{
    return (struct qkv_encode_options){ .max_length = e->max_length,
                                        .truncate = e->o.truncate,
                                        .strict = e->o.strict,
                                        .no_special = e->o.no_special };
}

qkv_status qkv_embedder_encode(const qkv_embedder *e, qkv_encoding *to, const char *text,
                               size_t bytes, qkv_error *err)
{
    const struct qkv_encode_options how = encoding(e);
    if (e->modules.prompt || e->width < e->hidden)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED,
                        &(struct qkv_location){ .file = e->modules.model },
                        "terms of a similarity are not supported for this model, expected vectors "
                        "of whole width without a prompt, found %s in "
                        "config_sentence_transformers.json",
                        e->modules.prompt ? "default_prompt_name" : "truncate_dim");
    return qkv_tokenizer_encode(e->tokenizer, to, text, bytes, NULL, 0, &how, err);
}

// Runs the model on every batch of f. While a batch runs, the next one is prepared; after each
// batch, progress is reported.
static qkv_status embed(const qkv_embedder *e, float *out, struct qkv_feed *f,
                        struct qkv_embed_report *report, qkv_error *err)
{
    struct qkv_prefetch ahead;
    struct hidden hidden = { 0 };
    qkv_status status = QKV_OK;
    f->tokenizer = e->tokenizer;
    f->prompt = e->modules.prompt;
    f->how = encoding(e);
    f->budget = batch_tokens(e);
    f->pad = e->o.pad;
    f->ahead = &ahead;
    qkv_prefetch_begin(&ahead, qkv_batch_next, f);
    for (int slot; f->n > 0 && !status && (slot = qkv_prefetch_next(&ahead)) >= 0;) {
        const struct qkv_batch *b = &f->batch[slot];
        status = b->status ? give(err, b) : run(e, &hidden, b, out, err);
        if (!status) status = step(e, b->first + b->texts, f->n, err);
    }
    qkv_prefetch_end(&ahead);
    if (!status && report) *report = f->counted;
    qkv_free(hidden.at);
    qkv_feed_free(f);
    return status;
}

qkv_status qkv_embed(const qkv_embedder *e, float *out, const char *const *texts,
                     const size_t *bytes, int64_t n, struct qkv_embed_report *report,
                     qkv_error *err)
{
    if (!e || n < 0 || (n > 0 && (!out || !texts)))
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "qkv_embed: expected an embedder, texts and an output array for vectors, found NULL");
    if (!e->tokenizer)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "embedder was opened without a tokenizer, expected token ids, found texts");
    struct qkv_feed f = { .texts = texts, .bytes = bytes, .n = n };
    return embed(e, out, &f, report, err);
}

qkv_status qkv_embed_ids(const qkv_embedder *e, float *out, const int32_t *ids,
                         const int64_t *offsets, int64_t n, struct qkv_embed_report *report,
                         qkv_error *err)
{
    if (!e || n < 0 || (n > 0 && (!out || !offsets || (!ids && offsets[n] > 0))))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_embed_ids: expected an embedder, ids, offsets and an output array for "
                        "vectors, found NULL");
    struct qkv_feed f = { .ids = ids, .offsets = offsets, .n = n };
    return embed(e, out, &f, report, err);
}
