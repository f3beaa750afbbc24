// SPDX-License-Identifier: MIT
// embedder.c: computes vectors of texts: packs the tokens of texts into batches without padding,
// runs the model, and pools the hidden states of each text.
#include "task/embed/embed_internal.h"
#include <inttypes.h>
#include <string.h>

// A batch has 1024 tokens per thread, but at most 8192: larger batches need more memory and are not
// faster.
enum { BATCH_THREAD = 1024, BATCH_MOST = 8192 };

struct qkv_embedder {
    struct qkv_embedder_options o;
    struct qkv_modules modules;
    qkv_model *owned; // NULL: the caller opened the model
    const qkv_model *model;
    qkv_tokenizer *tokenizer;
    // hidden: elements of a hidden state; pooled: of the poolings of a text; whole: of the result
    // of the modules after them; width: of a vector, the first elements of that result; widest:
    // the largest number of elements between the modules
    int64_t hidden, pooled, whole, width, widest;
    int64_t max_length, prompt_tokens; // prompt_tokens: rows of a text that are not pooled
    int64_t steps;                     // number of modules after the pooling that run
    const enum qkv_pool *pools;        // [pool_count] poolings of modules, or that of o
    int pool_count;
    struct qkv_text_buffer files; // paths of the files that the embedder has read, each with NUL
    char *dir;                    // the folder that the caller named
};

static qkv_status check_options(const struct qkv_embedder_options *o, qkv_error *err)
{
    const struct {
        const char *name;
        int64_t value, most;
    } rows[] = { { "pool", (int)o->pool, QKV_POOL_WEIGHTED },
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

static qkv_status open_files(qkv_embedder *e, const char *dir, qkv_error *err)
{
    const char *model = NULL;
    qkv_status status = qkv_modules_read(&e->modules, dir, e->o.prompt, err);
    if (status) return status;
    model = e->modules.model;
    if (!e->o.opened) status = qkv_model_open(&e->owned, model, &e->o.model, err);
    e->model = e->o.opened ? e->o.opened : e->owned;
    if (!status && qkv_model_info(e->model).kind == QKV_KIND_ENCODER_DECODER)
        status = qkv_fail(
            err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = model },
            "embeddings require an encoder or a decoder; this model is an encoder-decoder (%s)",
            qkv_model_info(e->model).family);
    if (status || e->o.no_tokenizer) return status;
    status = qkv_tokenizer_open(&e->tokenizer, model, err);
    if (!status && e->modules.lowercase) status = qkv_tokenizer_lowercase(e->tokenizer, err);
    const int64_t vocab = qkv_model_info(e->model).vocab;
    if (!status && qkv_tokenizer_size(e->tokenizer) > vocab)
        status = qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = model },
                          "tokenizer has token ids for which the model has no embedding, expected "
                          "ids below %" PRId64 ", found %" PRId64,
                          vocab, qkv_tokenizer_size(e->tokenizer) - 1);
    return status;
}

// Sets the widths of vectors on their way through the modules.
static qkv_status set_widths(qkv_embedder *e, const char *dir, qkv_error *err)
{
    const struct qkv_modules *m = &e->modules;
    e->pools = e->o.pool ? &e->o.pool : m->pools;
    e->pool_count = e->o.pool ? 1 : m->pool_count;
    e->hidden = qkv_model_info(e->model).width;
    e->pooled = e->whole = e->hidden * e->pool_count;
    if (m->width && m->width != e->hidden)
        return qkv_fail(
            err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = dir },
            "wrong word_embedding_dimension of the pooling, expected the model's width %" PRId64
            ", found %" PRId64,
            e->hidden, m->width);
    const qkv_status status = qkv_steps_width(&m->steps, &e->whole, &e->widest, err);
    e->width = m->truncate_dim ? qkv_min64(e->whole, m->truncate_dim) : e->whole;
    e->steps = m->steps.count;
    while (e->o.no_normalize && e->steps && m->steps.at[e->steps - 1].kind == QKV_STEP_NORMALIZE)
        e->steps--;
    return status;
}

// Returns the options for tokenizing texts.
static struct qkv_encode_options encoding(const qkv_embedder *e)
{
    return (struct qkv_encode_options){ .max_length = e->max_length,
                                        .truncate = e->o.truncate,
                                        .strict = e->o.strict,
                                        .no_special = e->o.no_special };
}

// Counts the tokens of the prompt that are left out of the pooling: all of its tokens alone, except
// a special token at the end, which ends the text.
static qkv_status count_prompt(qkv_embedder *e, qkv_error *err)
{
    const char *prompt = qkv_embedder_prompt(e);
    struct qkv_encode_options how = encoding(e);
    qkv_encoding alone = { 0 };
    if (!*prompt || e->modules.include_prompt || !e->tokenizer) return QKV_OK;
    how.truncate = true;
    const qkv_status status =
        qkv_tokenizer_encode(e->tokenizer, &alone, prompt, strlen(prompt), NULL, 0, &how, err);
    const int64_t n = alone.count;
    e->prompt_tokens = n && qkv_tokenizer_special(e->tokenizer, alone.ids[n - 1]) ? n - 1 : n;
    qkv_encoding_free(&alone);
    return status;
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
    e->dir = qkv_copy_text(dir, strlen(dir));
    qkv_map_record(&e->files);
    status = e->dir ? open_files(e, dir, err) : qkv_fail_memory(err, dir);
    qkv_map_record(NULL);
    if (!status) status = set_widths(e, dir, err);
    if (!status) {
        const int64_t positions = qkv_model_info(e->model).positions, said = e->modules.max_length;
        e->max_length = qkv_min64(o->max_length ? o->max_length
                                  : said        ? said
                                                : positions,
                                  positions);
        status = count_prompt(e, err);
    }
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
    qkv_model_close(e->owned);
    qkv_modules_free(&e->modules);
    qkv_text_buffer_free(&e->files);
    qkv_free(e->dir);
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
    return e ? e->pools[0] : QKV_POOL_FILE;
}
const char *qkv_embedder_prompt(const qkv_embedder *e)
{
    return e && e->modules.prompt ? e->modules.prompt : "";
}
bool qkv_embedder_pools_prompt(const qkv_embedder *e)
{
    return e && e->modules.include_prompt;
}
const qkv_model *qkv_embedder_model(const qkv_embedder *e)
{
    return e ? e->model : NULL;
}
const qkv_tokenizer *qkv_embedder_tokenizer(const qkv_embedder *e)
{
    return e ? e->tokenizer : NULL;
}

qkv_status qkv_embedder_digest(const qkv_embedder *e, char hex[65], qkv_error *err)
{
    if (!e || !hex || e->o.opened)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_embedder_digest: expected an embedder that opened its model and space "
                        "for the digits, found %s",
                        e && hex ? "the caller's model" : "NULL");
    return qkv_files_digest(hex, e->dir, &e->files, err);
}

// The numbers of a batch; later batches reuse the memory.
struct numbers {
    float *hidden;       // [tokens][hidden] hidden states
    float *rows, *other; // [texts][widest] vectors, before and after a module
    int64_t hidden_capacity, rows_capacity, other_capacity;
};

// Context of the parallel loops over the texts of a batch.
struct pooling {
    const qkv_embedder *e;
    const struct qkv_batch *b;
    const struct numbers *n;
    float *out;
    int64_t skip; // rows of each text that are not pooled
};

static void pool_one(void *ctx, int64_t i, int thread)
{
    const struct pooling *p = ctx;
    const qkv_embedder *e = p->e;
    const float *hidden = p->n->hidden + p->b->offsets[i] * e->hidden;
    float *to = p->n->rows + i * e->pooled;
    (void)thread;
    if (!p->b->lengths[i])
        memset(to, 0, (size_t)e->pooled * sizeof *to);
    else
        for (int k = 0; k < e->pool_count; k++)
            qkv_pool_rows(to + k * e->hidden, hidden, p->skip, p->b->lengths[i], e->hidden,
                          e->pools[k]);
}

// Writes the vector of text i of the batch. The vector of a text without tokens is all zeros.
static void put_one(void *ctx, int64_t i, int thread)
{
    const struct pooling *p = ctx;
    const size_t bytes = (size_t)p->e->width * sizeof *p->out;
    float *to = p->out + (p->b->first + i) * p->e->width;
    (void)thread;
    if (p->b->lengths[i])
        memcpy(to, p->n->rows + i * p->e->whole, bytes); // not scaled again if it is truncated
    else
        memset(to, 0, bytes);
}

static qkv_status run(const qkv_embedder *e, struct numbers *n, const struct qkv_batch *b,
                      int64_t skip, float *out, qkv_error *err)
{
    const int64_t D = e->hidden, R = b->offsets[b->texts], W = e->widest;
    if (R > INT64_MAX / D || b->texts > INT64_MAX / W ||
        !qkv_reserve((void **)&n->hidden, &n->hidden_capacity, R * D, sizeof *n->hidden) ||
        !qkv_reserve((void **)&n->rows, &n->rows_capacity, b->texts * W, sizeof *n->rows) ||
        !qkv_reserve((void **)&n->other, &n->other_capacity, b->texts * W, sizeof *n->other))
        return qkv_fail_memory(err, NULL);
    const struct qkv_model_input in = { .sequences = b->texts,
                                        .offsets = b->offsets,
                                        .lengths = e->o.pad ? b->lengths : NULL,
                                        .ids = b->ids,
                                        .types = b->types };
    struct pooling p = { e, b, n, out, skip };
    qkv_status status = qkv_model_run(e->model, n->hidden, &in, NULL, err);
    if (status) return status;
    qkv_parallel_for(b->texts, pool_one, &p);
    status = qkv_steps_run(&e->modules.steps, e->steps, &n->rows, &n->other, b->texts, e->pooled);
    if (status) return qkv_fail_memory(err, NULL);
    qkv_parallel_for(b->texts, put_one, &p);
    return QKV_OK;
}

qkv_status qkv_embed_hidden(const qkv_embedder *e, float *out, const float *hidden, int64_t n,
                            qkv_error *err)
{
    if (!e || !out || n < 0 || (n && !hidden))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_embed_hidden: expected an embedder, hidden states and an output, "
                        "found NULL or a negative number of rows");
    int64_t offsets[] = { 0, n };
    const struct qkv_batch b = { .texts = 1, .offsets = offsets, .lengths = &n };
    struct numbers v = { .hidden = (float *)(uintptr_t)hidden, // only read
                         .rows = qkv_alloc((size_t)e->widest, sizeof *v.rows),
                         .other = qkv_alloc((size_t)e->widest, sizeof *v.other) };
    struct pooling p = { e, &b, &v, out, 0 };
    qkv_status status = v.rows && v.other ? QKV_OK : QKV_ERR_LIMIT;
    if (!status) pool_one(&p, 0, 0);
    if (!status)
        status = qkv_steps_run(&e->modules.steps, e->steps, &v.rows, &v.other, 1, e->pooled);
    if (!status) put_one(&p, 0, 0);
    qkv_free(v.rows);
    qkv_free(v.other);
    return status ? qkv_fail_memory(err, NULL) : QKV_OK;
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
    return qkv_min64((int64_t)qkv_threads() * BATCH_THREAD, BATCH_MOST);
}

static qkv_status give(qkv_error *err, const struct qkv_batch *b)
{
    if (err && !err->status) *err = b->err;
    return b->status;
}

qkv_status qkv_embedder_encode(const qkv_embedder *e, qkv_encoding *to, const char *text,
                               size_t bytes, qkv_error *err)
{
    const struct qkv_encode_options how = encoding(e);
    struct qkv_feed f = { .prompt = e->modules.prompt };
    qkv_status status = QKV_OK;
    if (f.prompt && !qkv_join_prompt(&f, &text, &bytes)) status = qkv_fail_memory(err, NULL);
    if (!status) status = qkv_tokenizer_encode(e->tokenizer, to, text, bytes, NULL, 0, &how, err);
    qkv_feed_free(&f);
    return status;
}

// Checks that the modules after the pooling keep a sum over tokens a sum over tokens.
static qkv_status linear_steps(const qkv_embedder *e, const char *what, qkv_error *err)
{
    for (int64_t i = 0; i < e->modules.steps.count; i++)
        if (!e->modules.steps.at[i].sums_tokens)
            return qkv_fail(err, QKV_ERR_UNSUPPORTED,
                            &(struct qkv_location){ .file = e->modules.steps.at[i].dir },
                            "%s cannot be split by tokens, expected linear modules after the "
                            "pooling, found a module with a bias, an activation or a norm",
                            what);
    return QKV_OK;
}

qkv_status qkv_embedder_parts(const qkv_embedder *e, struct qkv_sum *sum, qkv_error *err)
{
    if (e->pool_count > 1)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL,
                        "a vector cannot be split by tokens, expected one pooling, found several");
    const qkv_status status = linear_steps(e, "a vector", err);
    *sum = (struct qkv_sum){ e->pools[0], 0, e->whole, e->widest };
    return status;
}

qkv_status qkv_embedder_sum(const qkv_embedder *e, struct qkv_sum *sum, qkv_error *err)
{
    static const char *const names[] = { "", "", "cls", "max", "last", "", "" }; // "": a mean
    const char *found = e->pool_count > 1 ? "several" : names[e->pools[0]];
    if (*found)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL,
                        "a cosine cannot be split by tokens, expected one pooling to a mean (mean, "
                        "mean-sqrt, weighted), found pooling '%s'",
                        found);
    const qkv_status status = linear_steps(e, "a cosine", err);
    if (status) return status;
    *sum = (struct qkv_sum){ e->pools[0], e->prompt_tokens, e->whole, e->widest };
    return QKV_OK;
}

qkv_status qkv_embedder_map(const qkv_embedder *e, float **rows, float **other, int64_t R)
{
    int64_t width = e->hidden;
    qkv_status status = QKV_OK;
    for (int64_t i = 0; !status && i < e->modules.steps.count; i++) {
        const struct qkv_steps one = { .at = &e->modules.steps.at[i], .count = 1 };
        if (one.at->kind != QKV_STEP_DENSE) continue;
        status = qkv_steps_run(&one, 1, rows, other, R, width);
        width = one.at->out;
    }
    return status;
}

// Runs the model on every batch of f. While a batch runs, the next one is prepared; after each
// batch, progress is reported.
static qkv_status embed(const qkv_embedder *e, float *out, struct qkv_feed *f,
                        struct qkv_embed_report *report, qkv_error *err)
{
    struct qkv_prefetch ahead;
    struct numbers numbers = { 0 };
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
        status = b->status ? give(err, b)
                           : run(e, &numbers, b, f->texts ? e->prompt_tokens : 0, out, err);
        if (!status) status = step(e, b->first + b->texts, f->n, err);
    }
    qkv_prefetch_end(&ahead);
    if (!status && report) *report = f->counted;
    qkv_free(numbers.hidden);
    qkv_free(numbers.rows);
    qkv_free(numbers.other);
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
