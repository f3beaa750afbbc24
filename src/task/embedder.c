// SPDX-License-Identifier: MIT
// embedder.c: texts to vectors: tokens packed into batches without padding, run, pooled.
#include "task/task.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BATCH_TOKENS = 4096 };

struct qkv_embedder {
    struct qkv_embedder_options o;
    struct qkv_modules modules;
    qkv_model *model;
    qkv_tokenizer *tokenizer;
    int64_t width, max_length;
    enum qkv_pool pool;
    bool normalize;
};

// Tokens that wait for their run.
struct batch {
    int64_t first, texts; // texts first .. first + texts - 1 of the call
    int64_t *offsets;     // [texts + 1]
    int64_t *lengths;     // [texts] tokens that are not padding
    int32_t *ids, *types; // [offsets[texts]]
    float *hidden;        // [offsets[texts]][D]
    int64_t offsets_capacity, lengths_capacity, ids_capacity, types_capacity, hidden_capacity;
};

qkv_status qkv_embedder_open(qkv_embedder **out, const char *dir,
                             const struct qkv_embedder_options *o, qkv_error *err)
{
    if (!out)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_embedder_open, expected a place for the embedder, found NULL");
    static const struct qkv_embedder_options plain;
    *out = NULL;
    if (!o) o = &plain;
    if (!dir) return qkv_fail(err, QKV_ERR_USAGE, NULL, "no model folder given");
    if (o->batch_tokens < 0 || o->max_length < 0 || (int)o->pool < 0 || o->pool > QKV_POOL_LAST)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "an option of the embedder is out of range");
    qkv_embedder *e = qkv_alloc_zero(1, sizeof *e);
    if (!e) return qkv_fail_memory(err, dir);
    e->o = *o;
    qkv_status s = qkv_modules_read(&e->modules, dir, err);
    if (!s) s = qkv_model_open(&e->model, e->modules.model, &o->model, err);
    if (!s && !o->no_tokenizer) s = qkv_tokenizer_open(&e->tokenizer, e->modules.model, err);
    if (s) goto done;
    const struct qkv_model_info info = qkv_model_info(e->model);
    const int64_t said = e->modules.max_length ? e->modules.max_length : info.positions;
    e->width = info.width;
    e->max_length = qkv_min64(o->max_length ? o->max_length : said, info.positions);
    e->pool = o->pool ? o->pool : e->modules.pool;
    e->normalize = e->modules.normalize && !o->no_normalize;
    if (e->modules.width && e->modules.width != e->width)
        s = qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_place){ .file = dir },
                     "word_embedding_dimension of the pooling, expected %" PRId64
                     ", found %" PRId64,
                     e->width, e->modules.width);
    else if (e->tokenizer && qkv_tokenizer_size(e->tokenizer) > info.vocab)
        s = qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_place){ .file = e->modules.model },
                     "the tokenizer has ids without an embedding, expected ids below %" PRId64
                     ", found %" PRId64,
                     info.vocab, qkv_tokenizer_size(e->tokenizer) - 1);
done:
    if (s)
        qkv_embedder_close(e);
    else
        *out = e;
    return s;
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
const qkv_model *qkv_embedder_model(const qkv_embedder *e)
{
    return e ? e->model : NULL;
}
const qkv_tokenizer *qkv_embedder_tokenizer(const qkv_embedder *e)
{
    return e ? e->tokenizer : NULL;
}

// ids[count] (types NULL: 0) behind what waits, filled up to `room` tokens with padding.
static bool append(struct batch *b, const int32_t *ids, const int32_t *types, int64_t count,
                   int64_t room)
{
    const int64_t at = b->texts ? b->offsets[b->texts] : 0, end = at + room;
    if (!qkv_reserve((void **)&b->offsets, &b->offsets_capacity, b->texts + 2,
                     sizeof *b->offsets) ||
        !qkv_reserve((void **)&b->lengths, &b->lengths_capacity, b->texts + 1,
                     sizeof *b->lengths) ||
        !qkv_reserve((void **)&b->ids, &b->ids_capacity, end, sizeof *b->ids) ||
        !qkv_reserve((void **)&b->types, &b->types_capacity, end, sizeof *b->types))
        return false;
    b->offsets[0] = 0;
    if (room) { // padding is id 0: no row of it is read
        memset(b->ids + at, 0, (size_t)room * sizeof *b->ids);
        memset(b->types + at, 0, (size_t)room * sizeof *b->types);
    }
    if (count) memcpy(b->ids + at, ids, (size_t)count * sizeof *b->ids);
    if (count && types) memcpy(b->types + at, types, (size_t)count * sizeof *b->types);
    b->lengths[b->texts] = count;
    b->offsets[++b->texts] = end;
    return true;
}

// Runs what waits and writes its vectors; a text without a token gives zeros.
static qkv_status flush(const qkv_embedder *e, struct batch *b, float *out, qkv_error *err)
{
    if (!b->texts) return QKV_OK;
    const int64_t D = e->width, R = b->offsets[b->texts];
    if (R > INT64_MAX / D ||
        !qkv_reserve((void **)&b->hidden, &b->hidden_capacity, R * D, sizeof *b->hidden))
        return qkv_fail_memory(err, NULL);
    const struct qkv_model_input in = { .sequences = b->texts,
                                        .offsets = b->offsets,
                                        .lengths = e->o.pad ? b->lengths : NULL,
                                        .ids = b->ids,
                                        .types = b->types };
    const qkv_status s = qkv_model_run(e->model, b->hidden, &in, NULL, err);
    if (s) return s;
    for (int64_t i = 0; i < b->texts; i++) {
        float *to = out + (b->first + i) * D;
        const int64_t n = b->lengths[i];
        if (n)
            qkv_pool_rows(to, b->hidden + b->offsets[i] * D, n, D, e->pool);
        else
            memset(to, 0, (size_t)D * sizeof *to);
        if (e->normalize) qkv_unit_length(to, D);
    }
    b->first += b->texts;
    b->texts = 0;
    return QKV_OK;
}

static qkv_status step(const qkv_embedder *e, int64_t done, int64_t total, qkv_error *err)
{
    if (!e->o.progress.step || !e->o.progress.step(e->o.progress.user, "texts", done, total))
        return QKV_OK;
    return qkv_fail(err, QKV_ERR_INTERRUPTED, NULL,
                    "stopped after %" PRId64 " of %" PRId64 " texts", done, total);
}

// One text's tokens into the batch; a full batch runs first.  n: texts of the call.
static qkv_status add(const qkv_embedder *e, struct batch *b, float *out, const int32_t *ids,
                      const int32_t *types, int64_t count, int64_t n, qkv_error *err)
{
    const int64_t most = e->o.batch_tokens ? e->o.batch_tokens : BATCH_TOKENS;
    const int64_t room = e->o.pad && count ? qkv_max64(count, e->max_length) : count;
    if (b->texts && b->offsets[b->texts] + room > most) {
        qkv_status s = flush(e, b, out, err);
        if (!s) s = step(e, b->first, n, err);
        if (s) return s;
    }
    return append(b, ids, types, count, room) ? QKV_OK : qkv_fail_memory(err, NULL);
}

// What waits runs; then the batch is gone and the report is the caller's.
static qkv_status end(const qkv_embedder *e, struct batch *b, float *out, qkv_status s, int64_t n,
                      struct qkv_embed_report *report, const struct qkv_embed_report *counted,
                      qkv_error *err)
{
    if (!s) s = flush(e, b, out, err);
    if (!s && n > 0) s = step(e, n, n, err);
    if (!s && report) *report = *counted;
    qkv_free(b->offsets);
    qkv_free(b->lengths);
    qkv_free(b->ids);
    qkv_free(b->types);
    qkv_free(b->hidden);
    return s;
}

static void name_text(qkv_error *err, int64_t i, int64_t n)
{
    if (err && n > 1 && !err->path[0]) // which of many texts it was
        snprintf(err->path, sizeof err->path, "text %" PRId64, i + 1);
}

qkv_status qkv_embed(const qkv_embedder *e, float *out, const char *const *texts,
                     const size_t *bytes, int64_t n, struct qkv_embed_report *report,
                     qkv_error *err)
{
    if (!e || n < 0 || (n > 0 && (!out || !texts)))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_embed, expected an embedder, texts and room for vectors, found NULL");
    const struct qkv_encode_options how = { .max_length = e->max_length,
                                            .truncate = e->o.truncate,
                                            .strict = e->o.strict,
                                            .no_special = e->o.no_special };
    struct qkv_embed_report counted = { 0 };
    struct batch b = { 0 };
    qkv_encoding t = { 0 };
    qkv_status s = QKV_OK;
    if (!e->tokenizer)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "this embedder was opened without a tokenizer, expected ids");
    for (int64_t i = 0; !s && i < n; i++) {
        s = qkv_tokenizer_encode(e->tokenizer, &t, texts[i], bytes ? bytes[i] : strlen(texts[i]),
                                 NULL, 0, &how, err);
        if (s) {
            name_text(err, i, n);
            break;
        }
        counted.tokens += t.count;
        counted.cut_texts += t.cut > 0;
        counted.cut_tokens += t.cut;
        if (t.replaced && !counted.replaced) {
            counted.replaced_text = i;
            counted.replaced_at = t.replaced_at;
        }
        counted.replaced += t.replaced;
        s = add(e, &b, out, t.ids, t.types, t.count, n, err);
    }
    qkv_encoding_free(&t);
    return end(e, &b, out, s, n, report, &counted, err);
}

qkv_status qkv_embed_ids(const qkv_embedder *e, float *out, const int32_t *ids,
                         const int64_t *offsets, int64_t n, struct qkv_embed_report *report,
                         qkv_error *err)
{
    if (!e || n < 0 || (n > 0 && (!out || !offsets || (!ids && offsets[n] > 0))))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_embed_ids, expected an embedder, ids, offsets and room for vectors");
    struct qkv_embed_report counted = { 0 };
    struct batch b = { 0 };
    qkv_status s = QKV_OK;
    for (int64_t i = 0; !s && i < n; i++) {
        int64_t count = offsets[i + 1] - offsets[i];
        if (count < 0 || offsets[0] != 0)
            s = qkv_fail(err, QKV_ERR_USAGE, NULL, "offsets do not rise from 0");
        if (!s && count > e->max_length) {
            if (!e->o.truncate)
                s = qkv_fail(err, QKV_ERR_USAGE, NULL,
                             "text too long, expected at most %" PRId64 " tokens, found %" PRId64,
                             e->max_length, count);
            counted.cut_texts++;
            counted.cut_tokens += count - e->max_length;
            count = e->max_length;
        }
        if (s) {
            name_text(err, i, n);
            break;
        }
        counted.tokens += count;
        s = add(e, &b, out, ids + offsets[i], NULL, count, n, err);
    }
    return end(e, &b, out, s, n, report, &counted, err);
}
