// SPDX-License-Identifier: MIT
// embed_jobs.c: fills a batch with texts of the jobs that wait, in the order of the queue, up to
// the budget of tokens.  A job of many texts may be spread over several batches.  The vector of a
// text does not depend on its batch.
#include "serve/embed_jobs.h"
#include "serve/server.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 1024 }; // the most jobs of a batch

// An embedder of the model for other options than the default.
struct embed_variant {
    char *prompt; // NULL: the default prompt of the model
    bool raw;
    qkv_embedder *embedder;
    struct embed_variant *next;
};

void embed_variants_close(struct serve_model *m)
{
    struct embed_variant *v = m->service ? m->service->variants : NULL;
    while (v) {
        struct embed_variant *next = v->next;
        qkv_embedder_close(v->embedder);
        free(v->prompt);
        free(v);
        v = next;
    }
    if (m->service) m->service->variants = NULL;
}

static bool same_prompt(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : !a && !b;
}

// Finds the embedder for the options of a job; opens it for the first job with these options. Their
// number is limited by the prompts of the model.
static qkv_status find_embedder(struct serve_model *m, struct embed_job *j, qkv_error *err)
{
    if (!j->prompt && !j->raw) {
        j->embedder = m->embedder;
        return QKV_OK;
    }
    for (struct embed_variant *v = m->service->variants; v; v = v->next)
        if (same_prompt(v->prompt, j->prompt) && v->raw == j->raw) {
            j->embedder = v->embedder;
            return QKV_OK;
        }
    const struct qkv_embedder_options how = { .truncate = true,
                                              .no_normalize = j->raw,
                                              .prompt = j->prompt,
                                              .opened = m->model,
                                              .progress = embed_progress(m) };
    struct embed_variant *v = calloc(1, sizeof *v);
    if (v && j->prompt) v->prompt = strdup(j->prompt);
    qkv_status status = !v || (j->prompt && !v->prompt)
                            ? cmd_no_memory(err)
                            : qkv_embedder_open(&v->embedder, m->dir, &how, err);
    if (status) {
        if (v) free(v->prompt);
        free(v);
        return status;
    }
    v->raw = j->raw;
    v->next = m->service->variants;
    m->service->variants = v;
    j->embedder = v->embedder;
    return QKV_OK;
}

static void free_job(struct serve_job *job)
{
    struct embed_job *j = (struct embed_job *)job;
    serve_texts_free(&j->texts);
    free(j->tokens);
    free(j->ids);
    free(j->vectors);
    free(j);
}

struct embed_job *embed_job_new(void)
{
    struct embed_job *j = calloc(1, sizeof *j);
    if (!j) return NULL;
    j->job.kind = JOB_EMBED;
    j->job.free = free_job;
    return j;
}

// ---- tokens -------------------------------------------------------------------------------------
// Fails for text i or list i of token ids, which is never cut.
static qkv_status too_long(bool ids, int64_t i, int64_t most, int64_t found, qkv_error *err)
{
    return cmd_error(err, QKV_ERR_USAGE, NULL,
                     "%s %lld is too long, expected at most %lld tokens, found %lld%s",
                     ids ? "list of token ids" : "text", (long long)i + 1, (long long)most,
                     (long long)found, ids ? "" : " (\"truncate\": true cuts it)");
}

// Appends the tokens of text i to j->ids.  Token types other than 0 and the text of a prompt need
// qkv_embed(), which encodes the texts again.
static qkv_status add_tokens(struct embed_job *j, int64_t i, const qkv_encoding *e, qkv_error *err)
{
    int32_t *ids = realloc(j->ids, ((size_t)(j->total + e->count) + 1) * sizeof *ids);
    if (!ids) return cmd_no_memory(err);
    if (e->count) memcpy(ids + j->total, e->ids, (size_t)e->count * sizeof *ids);
    for (int64_t k = 0; k < e->count; k++) j->by_ids = j->by_ids && !e->types[k];
    j->ids = ids;
    j->tokens[i] = e->count;
    j->total += e->count;
    return QKV_OK;
}

// Encodes the texts.  After an error *param is the member of the request that is at fault, if it is
// not the texts.
static qkv_status encode_texts(struct embed_job *j, const char **param, qkv_error *err)
{
    const qkv_tokenizer *tokenizer = qkv_embedder_tokenizer(j->embedder);
    const int64_t most = qkv_embedder_max_length(j->embedder);
    const char *prompt = qkv_embedder_prompt(j->embedder);
    const size_t before = strlen(prompt);
    const struct qkv_encode_options how = { .max_length = most,
                                            .truncate = true,
                                            .cut_left = j->left };
    qkv_encoding e = { 0 };
    qkv_status status = QKV_OK;
    bool cut = false;
    j->by_ids = !before;
    for (int64_t i = 0; i < j->texts.count && !status; i++) {
        const char *text = j->texts.text[i];
        size_t bytes = j->texts.bytes[i];
        char *joined = before ? malloc(before + bytes + 1) : NULL;
        if (before && !joined) {
            status = cmd_no_memory(err);
            break;
        }
        if (joined) {
            memcpy(joined, prompt, before);
            memcpy(joined + before, text, bytes);
            text = joined;
            bytes += before;
        }
        status = qkv_tokenizer_encode(tokenizer, &e, text, bytes, NULL, 0, &how, err);
        free(joined);
        if (!status && e.cut && !j->truncate)
            status = too_long(false, i, most, e.count + e.cut, err);
        cut = cut || e.cut;
        if (!status) status = add_tokens(j, i, &e, err);
    }
    qkv_encoding_free(&e);
    if (status || !cut || !j->left || j->by_ids) return status;
    *param = "$.truncation_direction"; // qkv_embed() cuts at the end
    return cmd_error(err, QKV_ERR_USAGE, NULL,
                     "a text with a prompt or with token types is cut at its end only, "
                     "expected \"truncation_direction\": \"Right\"");
}

// Checks token ids that the client has sent.
static qkv_status check_ids(struct embed_job *j, qkv_error *err)
{
    const int64_t most = qkv_embedder_max_length(j->embedder);
    const struct serve_texts *t = &j->texts;
    j->by_ids = true;
    for (int64_t i = 0; i < t->count; i++) {
        j->tokens[i] = t->offsets[i + 1] - t->offsets[i];
        j->total += j->tokens[i];
        if (!j->tokens[i])
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "list of token ids %lld is empty, expected at least one id",
                             (long long)i + 1);
        if (j->tokens[i] > most) return too_long(true, i, most, j->tokens[i], err);
    }
    return serve_ids_check(t->ids, j->total, j->job.model->info.vocab, err);
}

// Prepares a job that no batch has touched.  Returns false if it was answered with an error.
static bool prepare(struct serve_model *m, struct embed_job *j)
{
    qkv_error err = { 0 };
    const char *param = "$.prompt_name"; // an embedder with the usual options is open already
    if (j->vectors) return true;
    const size_t n = (size_t)j->texts.count;
    qkv_status status = find_embedder(m, j, &err);
    const int64_t width = status ? 1 : qkv_embedder_width(j->embedder);
    j->tokens = calloc(n + 1, sizeof *j->tokens);
    j->vectors = calloc(n * (size_t)width + 1, sizeof *j->vectors);
    if (!status && (!j->tokens || !j->vectors)) status = cmd_no_memory(&err);
    if (!status) param = j->path;
    if (!status && j->dimensions > width) {
        param = "$.dimensions";
        status = cmd_error(&err, QKV_ERR_USAGE, NULL, "%s: expected at most %lld, found %lld",
                           param, (long long)width, (long long)j->dimensions);
    }
    if (!status) status = j->texts.ids ? check_ids(j, &err) : encode_texts(j, &param, &err);
    if (!status) return true;
    serve_fail_with(j->job.call, &err, param);
    service_done(&j->job);
    return false;
}

// ---- a batch ------------------------------------------------------------------------------------
// Some texts of a job: from j->done on.
struct part {
    struct embed_job *j;
    int64_t texts, tokens;
};
struct batch {
    struct part part[JOBS];
    int64_t parts, texts, tokens;
    int64_t most; // tokens, unless a text has more
};

// Adds texts of a job, as many as fit. Returns false if none fits.
static bool add_job(struct batch *b, struct embed_job *j)
{
    struct part p = { .j = j };
    for (int64_t i = j->done; i < j->texts.count; i++) {
        const int64_t tokens = b->tokens + p.tokens + j->tokens[i];
        if (tokens > b->most && b->texts + p.texts) break;
        p.tokens += j->tokens[i];
        p.texts++;
    }
    if (!p.texts && j->done < j->texts.count) return false;
    service_begin(&j->job);
    b->part[b->parts++] = p;
    b->texts += p.texts;
    b->tokens += p.tokens;
    return true;
}

// Ends the job if its client has left.
static bool end_gone(struct serve_job *job)
{
    if (!atomic_load(&job->call->gone)) return false;
    serve_fail(job->call, 503, NULL, "the client has left");
    service_done(job);
    return true;
}

static int stops(void *service, const char *what, int64_t done, int64_t total)
{
    const struct batch *b = ((const struct service *)service)->batch;
    (void)what, (void)done, (void)total;
    for (int64_t p = 0; b && p < b->parts; p++)
        if (!atomic_load(&b->part[p].j->job.call->gone)) return 0;
    return b != NULL;
}

struct qkv_progress embed_progress(struct serve_model *m)
{
    return (struct qkv_progress){ stops, m->service };
}

// Fills the batch with the jobs that wait and have the embedder of the first.
static void fill(struct serve_model *m, struct batch *b, const struct embed_job *first)
{
    struct serve_job *left = NULL, **end = &left, *job;
    while (b->parts < JOBS && b->tokens < b->most &&
           (job = service_take(m, 1u << JOB_EMBED, (double)INFINITY))) {
        struct embed_job *j = (struct embed_job *)job;
        if (end_gone(job)) continue;
        if (prepare(m, j) &&
            (j->embedder != first->embedder || j->by_ids != first->by_ids || !add_job(b, j))) {
            job->next = NULL;
            *end = job;
            end = &job->next;
            if (j->embedder == first->embedder && j->by_ids == first->by_ids) break; // full
        }
    }
    while (left) {
        job = left;
        left = job->next;
        service_return(job);
    }
}

static qkv_status compute_ids(const struct batch *b, float *v, const qkv_embedder *e,
                              qkv_error *err)
{
    int32_t *ids = malloc(((size_t)b->tokens + 1) * sizeof *ids);
    int64_t *offsets = malloc(((size_t)b->texts + 1) * sizeof *offsets), n = 0;
    qkv_status status = QKV_OK;
    if (!ids || !offsets) status = cmd_no_memory(err);
    if (offsets) offsets[0] = 0;
    for (int64_t p = 0; p < b->parts && !status; p++) {
        const struct embed_job *j = b->part[p].j;
        int64_t from = 0;
        for (int64_t i = 0; i < j->done; i++) from += j->tokens[i];
        if (b->part[p].tokens)
            memcpy(ids + offsets[n], (j->texts.ids ? j->texts.ids : j->ids) + from,
                   (size_t)b->part[p].tokens * sizeof *ids);
        for (int64_t i = 0; i < b->part[p].texts; i++, n++)
            offsets[n + 1] = offsets[n] + j->tokens[j->done + i];
    }
    if (!status) status = qkv_embed_ids(e, v, ids, offsets, b->texts, NULL, err);
    free(ids);
    free(offsets);
    return status;
}

static qkv_status compute_texts(const struct batch *b, float *v, const qkv_embedder *e,
                                qkv_error *err)
{
    const char **text = malloc(((size_t)b->texts + 1) * sizeof *text);
    size_t *bytes = malloc(((size_t)b->texts + 1) * sizeof *bytes);
    int64_t n = 0;
    qkv_status status = QKV_OK;
    if (!text || !bytes) status = cmd_no_memory(err);
    for (int64_t p = 0; p < b->parts && !status; p++) {
        const struct embed_job *j = b->part[p].j;
        for (int64_t i = j->done; i < j->done + b->part[p].texts; i++, n++) {
            text[n] = j->texts.text[i];
            bytes[n] = j->texts.bytes[i];
        }
    }
    if (!status) status = qkv_embed(e, v, text, bytes, b->texts, NULL, err);
    free(text);
    free(bytes);
    return status;
}

// Scales the first `dimensions` numbers of a vector to length 1.
static void cut_vector(float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    const double scale = sum > 0 ? 1 / sqrt(sum) : 0;
    for (int64_t i = 0; i < n; i++) x[i] = (float)((double)x[i] * scale);
}

static void answer(struct embed_job *j, int64_t width)
{
    bool finite = true;
    for (int64_t i = 0; i < j->texts.count * width; i++) finite = finite && isfinite(j->vectors[i]);
    for (int64_t i = 0; i < j->texts.count && j->dimensions && !j->raw; i++)
        cut_vector(j->vectors + i * width, j->dimensions);
    j->job.call->tokens = j->total;
    atomic_fetch_add(&j->job.call->server->tokens, j->total);
    if (finite)
        j->answer(j, j->vectors, width);
    else
        serve_fail(j->job.call, 500, NULL, "the model computed a vector that is not finite");
    service_done(&j->job);
}

// Distributes the vectors of a batch.
static void deliver(struct batch *b, const float *v, int64_t width, qkv_status status,
                    const qkv_error *err)
{
    for (int64_t p = 0; p < b->parts; p++) {
        struct embed_job *j = b->part[p].j;
        const int64_t n = b->part[p].texts;
        if (status) {
            serve_fail_with(j->job.call, err, j->path);
            service_done(&j->job);
            continue;
        }
        if (n) memcpy(j->vectors + j->done * width, v, (size_t)(n * width) * sizeof *v);
        v += n * width;
        j->done += n;
        service_used(&j->job, (double)b->part[p].tokens);
        if (j->done == j->texts.count)
            answer(j, width);
        else if (!end_gone(&j->job))
            service_return(&j->job);
    }
}

void embed_batch(struct serve_model *m, struct serve_job *first, double tokens)
{
    struct embed_job *j = (struct embed_job *)first;
    if (end_gone(first) || !prepare(m, j)) return;
    struct batch *b = calloc(1, sizeof *b);
    float *v = NULL;
    qkv_error err = { 0 };
    if (!b) {
        serve_fail(first->call, 503, NULL, "out of memory");
        service_done(first);
        return;
    }
    const qkv_embedder *e = j->embedder;
    const int64_t width = qkv_embedder_width(e);
    const bool by_ids = j->by_ids;
    b->most = service_options.batch_tokens;
    if (tokens < (double)b->most) b->most = (int64_t)tokens;
    add_job(b, j);
    fill(m, b, j);
    v = malloc(((size_t)(b->texts * width) + 1) * sizeof *v);
    qkv_status status = v ? QKV_OK : cmd_no_memory(&err);
    m->service->batch = b;
    if (!status) status = by_ids ? compute_ids(b, v, e, &err) : compute_texts(b, v, e, &err);
    m->service->batch = NULL;
    deliver(b, v, width, status, &err);
    free(v);
    free(b);
}
