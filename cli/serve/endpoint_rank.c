// SPDX-License-Identifier: MIT
// endpoint_rank.c: models with labels (/rerank, /predict) and tokenizers (/tokenize, /detokenize).
#include "serve/service.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DOCUMENTS = 1000, PART = 32 }; // texts of a ranking; texts that are computed together

struct rank_job {
    struct serve_job job;
    struct serve_texts texts; // texts of a prediction, documents of a ranking, or token ids
    const char *query;        // of a ranking
    int64_t top;              // results of a ranking; 0: all
    bool raw, truncate, documents, cohere, no_special;
};

static void free_job(struct serve_job *job)
{
    serve_texts_free(&((struct rank_job *)job)->texts);
    free(job);
}

static struct rank_job *new_job(struct serve_call *c, void (*run)(struct serve_job *j))
{
    struct rank_job *j = calloc(1, sizeof *j);
    if (!j) {
        serve_fail(c, 503, NULL, "out of memory");
        return NULL;
    }
    j->job.run = run;
    j->job.free = free_job;
    return j;
}

// Queues the job, or frees it if the request was answered with an error.
static void queue(struct serve_call *c, struct rank_job *j, struct serve_model *m)
{
    if (!m) {
        free_job(&j->job);
        return;
    }
    for (int64_t i = 0; i < j->texts.count; i++) j->job.cost += (int64_t)j->texts.bytes[i] / 4 + 2;
    serve_queue(c, m, j);
}

// ---- labels -------------------------------------------------------------------------------------
// Computes scores[count][labels] and their probabilities.  Answers with an error and returns NULL
// if that is not possible; the caller frees the result.
static float *classify(struct rank_job *j, float **probabilities)
{
    const struct serve_model *m = j->job.model;
    const int64_t n = j->texts.count, labels = m->info.labels;
    qkv_error err = { 0 };
    const struct qkv_classify_options how = { .truncate = j->truncate };
    float *scores = calloc((size_t)(n * labels) * 2 + 1, sizeof *scores);
    const char **query = j->query ? calloc((size_t)n + 1, sizeof *query) : NULL;
    qkv_status status = QKV_OK;
    if (!scores || (j->query && !query))
        status = cmd_error(&err, QKV_ERR_LIMIT, NULL, "out of memory");
    for (int64_t i = 0; i < n && query; i++) query[i] = j->query;
    float *p = *probabilities = scores ? scores + n * labels : NULL;
    for (int64_t i = 0, part; i < n && !status; i += part) {
        const char **text = j->texts.text + i;
        const size_t *bytes = j->texts.bytes + i;
        float *x = scores + i * labels, *y = p + i * labels;
        part = n - i < PART ? n - i : PART;
        if (atomic_load(&j->job.call->gone))
            status = cmd_error(&err, QKV_ERR_LIMIT, NULL, "the client has left");
        else if (query)
            status = qkv_classify(m->model, m->tokenizer, x, y, query, NULL, text, bytes, part,
                                  &how, &err);
        else
            status = qkv_classify(m->model, m->tokenizer, x, y, text, bytes, NULL, NULL, part, &how,
                                  &err);
    }
    free(query);
    if (!status) return scores;
    free(scores);
    serve_fail_with(j->job.call, &err, NULL);
    return NULL;
}

static struct serve_model *find_labels(struct serve_call *c, const char *name, bool ranks)
{
    struct serve_model *m = serve_model_of(c, name);
    if (!m || (m->info.can & QKV_CAN_LABELS && m->info.labels && (!ranks || m->info.labels == 1)))
        return m;
    serve_fail(c, 422, "$.model", "model %s has not %s", m->name,
               ranks ? "one label, as a cross-encoder for ranking has"
                     : "an output head for labels");
    return NULL;
}

static void print_label(FILE *to, const struct serve_model *m, int64_t label, float score)
{
    const char *name = qkv_model_label(m->model, label);
    fputs("{\"label\":", to);
    cmd_json_text(to, name ? name : "", name ? strlen(name) : 0);
    fputs(",\"score\":", to);
    cmd_json_float(to, score);
    putc('}', to);
}

static void print_labels(FILE *to, const struct serve_model *m, const float *x)
{
    const int64_t n = m->info.labels;
    bool *done = calloc((size_t)n + 1, sizeof *done);
    putc('[', to);
    for (int64_t k = 0; done && k < n; k++) {
        int64_t best = -1;
        for (int64_t i = 0; i < n; i++)
            if (!done[i] && (best < 0 || x[i] > x[best])) best = i;
        done[best] = true;
        if (k) putc(',', to);
        print_label(to, m, best, x[best]);
    }
    putc(']', to);
    free(done);
}

static void run_predict(struct serve_job *job)
{
    struct rank_job *j = (struct rank_job *)job;
    float *p, *scores = classify(j, &p);
    if (!scores) return;
    const float *x = j->raw ? scores : p;
    FILE *to = serve_answer(job->call, 200, "application/json");
    if (!j->texts.single) putc('[', to);
    for (int64_t i = 0; i < j->texts.count; i++) {
        if (i) putc(',', to);
        print_labels(to, job->model, x + i * job->model->info.labels);
    }
    fputs(j->texts.single ? "\n" : "]\n", to);
    free(scores);
    serve_send(job->call);
}

void endpoint_predict(struct serve_call *c)
{
    const char *model = NULL;
    const qkv_json *inputs = NULL;
    struct rank_job *j = new_job(c, run_predict);
    if (!j) return;
    const struct serve_field fields[] = {
        { .name = "inputs", .kind = FIELD_ANY, .to = &inputs },
        { .name = "model", .kind = FIELD_TEXT, .to = &model },
        { .name = "raw_scores", .kind = FIELD_BOOLEAN, .to = &j->raw },
        { .name = "truncate", .kind = FIELD_BOOLEAN, .to = &j->truncate },
        { .name = NULL }
    };
    const bool read = serve_body(c, fields) && serve_texts_read(c, &j->texts, inputs, "$.inputs",
                                                                service_options.client_batch, 0);
    queue(c, j, read ? find_labels(c, model, false) : NULL);
}

// ---- rankings -----------------------------------------------------------------------------------
struct ranked {
    int64_t index;
    float score;
};
static int better(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

static void print_ranked(FILE *to, const struct rank_job *j, const struct ranked *r)
{
    fprintf(to, "{\"index\":%lld,\"%s\":", (long long)r->index,
            j->cohere ? "relevance_score" : "score");
    cmd_json_float(to, r->score);
    if (j->documents) {
        fputs(j->cohere ? ",\"document\":{\"text\":" : ",\"text\":", to);
        cmd_json_text(to, j->texts.text[r->index], j->texts.bytes[r->index]);
        if (j->cohere) putc('}', to);
    }
    putc('}', to);
}

static void run_rerank(struct serve_job *job)
{
    struct rank_job *j = (struct rank_job *)job;
    const int64_t n = j->texts.count;
    float *p, *scores = classify(j, &p);
    struct ranked *r = calloc((size_t)n + 1, sizeof *r);
    if (!scores || !r) {
        if (scores) serve_fail(job->call, 503, NULL, "out of memory");
        free(scores);
        free(r);
        return;
    }
    for (int64_t i = 0; i < n; i++) r[i] = (struct ranked){ i, j->raw ? scores[i] : p[i] };
    qsort(r, (size_t)n, sizeof *r, better);
    FILE *to = serve_answer(job->call, 200, "application/json");
    fputs(j->cohere ? "{\"results\":[" : "[", to);
    for (int64_t i = 0; i < n && (!j->top || i < j->top); i++) {
        if (i) putc(',', to);
        print_ranked(to, j, &r[i]);
    }
    fputs(j->cohere ? "],\"meta\":{}}\n" : "]\n", to);
    free(scores);
    free(r);
    serve_send(job->call);
}

// The member "texts" is the form of text-embeddings-inference, "documents" that of Cohere.
void endpoint_rerank(struct serve_call *c)
{
    const char *model = NULL;
    const qkv_json *texts = NULL, *documents = NULL;
    struct rank_job *j = new_job(c, run_rerank);
    if (!j) return;
    const struct serve_field fields[] = {
        { .name = "query", .kind = FIELD_TEXT, .to = &j->query },
        { .name = "texts", .kind = FIELD_ANY, .to = &texts },
        { .name = "documents", .kind = FIELD_ANY, .to = &documents },
        { .name = "model", .kind = FIELD_TEXT, .to = &model },
        { .name = "top_n", .kind = FIELD_INTEGER, .to = &j->top, .min = 1, .max = 1e9 },
        { .name = "raw_scores", .kind = FIELD_BOOLEAN, .to = &j->raw },
        { .name = "return_text", .kind = FIELD_BOOLEAN, .to = &j->documents },
        { .name = "return_documents", .kind = FIELD_BOOLEAN, .to = &j->documents },
        { .name = "truncate", .kind = FIELD_BOOLEAN, .to = &j->truncate },
        { .name = "max_tokens_per_doc", .kind = FIELD_REFUSED },
        { .name = NULL }
    };
    bool read = serve_body(c, fields);
    j->cohere = documents != NULL;
    if (j->cohere) j->truncate = true; // Cohere truncates documents that are too long
    if (read && !j->query) {
        serve_fail(c, 400, "$.query", "$.query: required member is missing");
        read = false;
    }
    read = read && serve_texts_read(c, &j->texts, j->cohere ? documents : texts,
                                    j->cohere ? "$.documents" : "$.texts", DOCUMENTS, 0);
    queue(c, j, read ? find_labels(c, model, true) : NULL);
}

// ---- tokens -------------------------------------------------------------------------------------
static qkv_status print_encoding(FILE *to, const struct rank_job *j, int64_t text, qkv_error *err)
{
    const qkv_tokenizer *tokenizer = j->job.model->tokenizer;
    const struct qkv_encode_options how = { .no_special = j->no_special };
    qkv_encoding e = { 0 };
    const qkv_status status = qkv_tokenizer_encode(tokenizer, &e, j->texts.text[text],
                                                   j->texts.bytes[text], NULL, 0, &how, err);
    putc('[', to);
    for (int64_t i = 0; i < e.count && !status; i++) {
        const char *raw = qkv_tokenizer_token(tokenizer, e.ids[i]);
        fprintf(to, "%s{\"id\":%" PRId32 ",\"text\":", i ? "," : "", e.ids[i]);
        cmd_json_text(to, raw ? raw : "", raw ? strlen(raw) : 0);
        if (e.text[i] > 1)
            fputs(",\"special\":true,\"start\":null,\"stop\":null}", to);
        else
            fprintf(to, ",\"special\":false,\"start\":%lld,\"stop\":%lld}", (long long)e.begin[i],
                    (long long)e.end[i]);
    }
    putc(']', to);
    qkv_encoding_free(&e);
    return status;
}

static void run_tokenize(struct serve_job *job)
{
    struct rank_job *j = (struct rank_job *)job;
    qkv_error err = { 0 };
    FILE *to = serve_answer(job->call, 200, "application/json");
    qkv_status status = QKV_OK;
    putc('[', to);
    for (int64_t i = 0; i < j->texts.count && !status; i++) {
        if (i) putc(',', to);
        status = print_encoding(to, j, i, &err);
    }
    fputs("]\n", to);
    if (status)
        serve_fail_with(job->call, &err, "$.inputs");
    else
        serve_send(job->call);
}

static void run_detokenize(struct serve_job *job)
{
    struct rank_job *j = (struct rank_job *)job;
    qkv_error err = { 0 };
    FILE *to = serve_answer(job->call, 200, "application/json");
    qkv_status status = QKV_OK;
    putc('[', to);
    for (int64_t i = 0; i < j->texts.count && !status; i++) {
        const int32_t *ids = j->texts.ids + j->texts.offsets[i];
        const int64_t n = j->texts.offsets[i + 1] - j->texts.offsets[i];
        char none[1], *text = NULL;
        size_t need = 0;
        status = qkv_tokenizer_decode(job->model->tokenizer, none, sizeof none, &need, ids, n,
                                      j->no_special, &err);
        if (!status && !(text = malloc(need + 1)))
            status = cmd_error(&err, QKV_ERR_LIMIT, NULL, "out of memory");
        if (!status)
            status = qkv_tokenizer_decode(job->model->tokenizer, text, need + 1, NULL, ids, n,
                                          j->no_special, &err);
        if (i) putc(',', to);
        if (!status) cmd_json_text(to, text, need);
        free(text);
    }
    fputs("]\n", to);
    if (status)
        serve_fail_with(job->call, &err, "$.ids");
    else
        serve_send(job->call);
}

void endpoint_tokenize(struct serve_call *c)
{
    const char *model = NULL;
    const qkv_json *inputs = NULL;
    bool special = true;
    struct rank_job *j = new_job(c, run_tokenize);
    if (!j) return;
    const struct serve_field fields[] = {
        { .name = "inputs", .kind = FIELD_ANY, .to = &inputs },
        { .name = "model", .kind = FIELD_TEXT, .to = &model },
        { .name = "add_special_tokens", .kind = FIELD_BOOLEAN, .to = &special },
        { .name = NULL }
    };
    const bool read = serve_body(c, fields) && serve_texts_read(c, &j->texts, inputs, "$.inputs",
                                                                service_options.client_batch, 0);
    j->no_special = !special;
    queue(c, j, read ? serve_model_of(c, model) : NULL);
}

void endpoint_detokenize(struct serve_call *c)
{
    const char *model = NULL;
    const qkv_json *ids = NULL;
    struct rank_job *j = new_job(c, run_detokenize);
    if (!j) return;
    j->no_special = true;
    const struct serve_field fields[] = {
        { .name = "ids", .kind = FIELD_ANY, .to = &ids },
        { .name = "model", .kind = FIELD_TEXT, .to = &model },
        { .name = "skip_special_tokens", .kind = FIELD_BOOLEAN, .to = &j->no_special },
        { .name = NULL }
    };
    bool read = serve_body(c, fields) && serve_texts_read(c, &j->texts, ids, "$.ids",
                                                          service_options.client_batch, TEXTS_IDS);
    if (read && !j->texts.ids) {
        serve_fail(c, 400, "$.ids", "$.ids: expected token ids, found texts");
        read = false;
    }
    queue(c, j, read ? serve_model_of(c, model) : NULL);
}
