// SPDX-License-Identifier: MIT
// endpoint_rank.c: models with labels: /rerank, /predict.
#include "serve/service.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Texts of a ranking; the most texts that are computed together; bytes of a query per position of
// the model, above which it is refused before it is encoded.
enum { DOCUMENTS = 1000, PART = 32, QUERY_BYTES = 64 };

struct rank_job {
    struct serve_job job;
    struct serve_texts texts; // texts of a prediction, or documents of a ranking
    const char *path;         // of the texts in the request
    const char **second;      // [count] the second texts of pairs, NULL: none; NULL: no pairs
    size_t *second_bytes;     // [count]
    const char *query;        // of a ranking
    int64_t top;              // results of a ranking; 0: all
    int64_t document_tokens;  // a document is cut to so many tokens; 0: not cut
    bool raw, truncate, documents, cohere;
    float *scores;      // [count][labels], then as many probabilities
    int64_t done, part; // texts that have scores; texts that are computed next
    int64_t failed;     // index of the text of the part that the error is about, -1: of none
};

static void free_job(struct serve_job *job)
{
    struct rank_job *j = (struct rank_job *)job;
    serve_texts_free(&j->texts);
    free(j->second);
    free(j->second_bytes);
    free(j->scores);
    free(j);
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

// Determines which texts are computed next: as many as fit into a batch by their tokens, about,
// each with the query, and at least one.
static void next_part(struct rank_job *j, const struct serve_model *m)
{
    const int64_t query = j->query ? (int64_t)strlen(j->query) / 4 : 0;
    j->part = j->job.cost = 0;
    for (int64_t i = j->done; i < j->texts.count && j->part < PART; i++, j->part++) {
        int64_t cost = serve_text_cost(&j->texts, i) + query +
                       (j->second ? (int64_t)j->second_bytes[i] / 4 : 0);
        if (cost > m->info.positions) cost = m->info.positions;
        if (j->part && j->job.cost + cost > service_options.batch_tokens) break;
        j->job.cost += cost;
    }
}

// Queues the job, or frees it if the request was answered with an error.
static void queue(struct serve_call *c, struct rank_job *j, struct serve_model *m)
{
    if (!m) {
        free_job(&j->job);
        return;
    }
    next_part(j, m);
    serve_queue(c, m, j);
}

// ---- labels -------------------------------------------------------------------------------------
static int stops(void *job, const char *what, int64_t done, int64_t total)
{
    (void)what, (void)done, (void)total;
    return atomic_load(&((const struct rank_job *)job)->job.call->gone);
}

// Cuts documents to their first tokens: stores the bytes that remain of text[n].
static qkv_status cut_documents(struct rank_job *j, size_t *out, const char *const *text,
                                const size_t *bytes, int64_t n, qkv_error *err)
{
    const struct qkv_encode_options how = { .max_length = j->document_tokens,
                                            .truncate = true,
                                            .no_special = true };
    qkv_encoding e = { 0 };
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < n && !status; i++) {
        status = qkv_tokenizer_encode(j->job.model->tokenizer, &e, text[i], bytes[i], NULL, 0, &how,
                                      err);
        if (status) j->failed = i;
        out[i] = !status && e.cut ? (size_t)e.end[e.count - 1] : bytes[i];
        // a token may end within a character
        while (out[i] < bytes[i] && ((unsigned char)text[i][out[i]] & 0xc0) == 0x80) out[i]--;
    }
    qkv_encoding_free(&e);
    return status;
}

static qkv_status score_documents(struct rank_job *j, float *scores, float *p, int64_t n,
                                  const struct qkv_classify_options *how, qkv_error *err)
{
    const struct serve_model *m = j->job.model;
    const char **text = j->texts.text + j->done, *query[PART];
    const size_t *bytes = j->texts.bytes + j->done;
    size_t cut[PART];
    for (int64_t i = 0; i < n; i++) query[i] = j->query;
    if (j->document_tokens) {
        const qkv_status status = cut_documents(j, cut, text, bytes, n, err);
        if (status) return status;
        bytes = cut;
    }
    return qkv_classify(m->model, m->tokenizer, scores, p, query, NULL, text, bytes, n, how, err);
}

// Computes the scores and probabilities of texts[n], texts of the job from j->done on.
static qkv_status compute(struct rank_job *j, int64_t n, qkv_error *err)
{
    const struct serve_model *m = j->job.model;
    const int64_t labels = m->info.labels, all = j->texts.count, done = j->done;
    const struct qkv_classify_options how = { .truncate = j->truncate,
                                              .progress = { stops, j },
                                              .failed = &j->failed };
    j->failed = -1;
    if (!j->scores) j->scores = calloc((size_t)(all * labels) * 2 + 1, sizeof *j->scores);
    if (!j->scores) return cmd_no_memory(err);
    float *scores = j->scores + done * labels, *p = scores + all * labels;
    const qkv_status status =
        j->query ? score_documents(j, scores, p, n, &how, err)
                 : qkv_classify(m->model, m->tokenizer, scores, p, j->texts.text + done,
                                j->texts.bytes + done, j->second ? j->second + done : NULL,
                                j->second ? j->second_bytes + done : NULL, n, &how, err);
    for (int64_t i = 0; i < n * labels && !status; i++)
        if (!isfinite(scores[i]))
            return cmd_error(err, QKV_ERR_INTERNAL, NULL,
                             "the model computed a score that is not finite");
    return status;
}

// Encodes the query of a ranking with an empty document. Returns the error, which each document
// would have.
static qkv_status check_query(const struct rank_job *j, qkv_error *err)
{
    const struct serve_model *m = j->job.model;
    const struct qkv_encode_options how = { .max_length = m->info.positions,
                                            .truncate = j->truncate };
    qkv_encoding e = { 0 };
    const qkv_status status =
        qkv_tokenizer_encode(m->tokenizer, &e, j->query, strlen(j->query), "", 0, &how, err);
    qkv_encoding_free(&e);
    return status;
}

// Answers with the error of the part of the texts that begins at j->done; `param` names the query,
// or one text, if the error is about it.
static void fail_part(const struct rank_job *j, const qkv_error *err)
{
    qkv_error query = { 0 };
    if (j->query && j->failed >= 0 && check_query(j, &query)) {
        serve_fail_with(j->job.call, &query, "$.query");
        return;
    }
    char at[64];
    const bool one = j->failed >= 0 && !j->texts.single;
    snprintf(at, sizeof at, "%s[%lld]", j->path, (long long)(j->done + j->failed));
    serve_fail_with(j->job.call, err, one ? at : j->path);
}

// Computes a part of the texts.  Returns false if they are not complete: the job is called again,
// when its turn comes, or was answered with an error.
static bool classify(struct rank_job *j)
{
    qkv_error err = { 0 };
    if (compute(j, j->part, &err)) {
        fail_part(j, &err);
        return false;
    }
    j->done += j->part;
    j->job.again = j->done < j->texts.count;
    next_part(j, j->job.model);
    return !j->job.again;
}

static int64_t labels_of(const struct serve_model *m)
{
    return m->info.can & QKV_CAN_LABELS ? m->info.labels : 0;
}
static bool predicts(const struct serve_model *m)
{
    return labels_of(m) > 0;
}
static bool ranks(const struct serve_model *m)
{
    return labels_of(m) == 1;
}

// Finds a model for a ranking or, with `rank` false, for a prediction.
static struct serve_model *find_labels(struct serve_call *c, const char *name, bool rank)
{
    struct serve_model *m = serve_model_that(c, name, rank ? ranks : predicts);
    if (!m || (rank ? ranks(m) : predicts(m))) return m;
    if (rank)
        serve_fail(c, 422, "$.model",
                   "model %s is not a cross-encoder for ranking, expected 1 label, found %lld",
                   m->name, (long long)labels_of(m));
    else
        serve_fail(c, 422, "$.model", "model %s has no output head for labels", m->name);
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

static void print_labels(FILE *to, const struct serve_model *m, const struct cmd_ranked *r)
{
    putc('[', to);
    for (int64_t k = 0; k < m->info.labels; k++) {
        if (k) putc(',', to);
        print_label(to, m, r[k].index, r[k].value);
    }
    putc(']', to);
}

static void run_predict(struct serve_job *job)
{
    struct rank_job *j = (struct rank_job *)job;
    const int64_t labels = job->model->info.labels;
    if (!classify(j)) return;
    const float *x = j->raw ? j->scores : j->scores + j->texts.count * labels;
    struct cmd_ranked *r = calloc((size_t)labels, sizeof *r);
    if (!r) {
        serve_fail(job->call, 503, NULL, "out of memory");
        return;
    }
    FILE *to = serve_answer(job->call, 200, "application/json");
    if (!j->texts.single) putc('[', to);
    for (int64_t i = 0; i < j->texts.count; i++) {
        if (i) putc(',', to);
        cmd_rank(r, x + i * labels, labels);
        print_labels(to, job->model, r);
    }
    free(r);
    fputs(j->texts.single ? "\n" : "]\n", to);
    serve_send(job->call);
}

// Reads one input: a text, or an array of one text or of a pair.
static bool read_input(struct serve_call *c, struct rank_job *j, const qkv_json *v,
                       const char *path)
{
    const int64_t i = j->texts.count, n = qkv_json_length(v);
    const bool list = qkv_json_kind_of(v) == QKV_JSON_ARRAY;
    j->texts.text[i] = qkv_json_get_string(list ? qkv_json_element(v, 0) : v, &j->texts.bytes[i]);
    if (list && n == 2)
        j->second[i] = qkv_json_get_string(qkv_json_element(v, 1), &j->second_bytes[i]);
    if (j->texts.text[i] && (list ? n == 1 || (n == 2 && j->second[i]) : j->texts.single)) {
        j->texts.count++;
        return true;
    }
    serve_fail(c, 400, path,
               "%s: expected a text, or an array of one text or two (a pair); several inputs are "
               "an array of such arrays",
               path);
    return false;
}

// Reads the inputs of a prediction as text-embeddings-inference: one, or an array of arrays.
static bool read_inputs(struct serve_call *c, struct rank_job *j, const qkv_json *v)
{
    const bool several = qkv_json_kind_of(qkv_json_element(v, 0)) == QKV_JSON_ARRAY;
    const int64_t n = several ? qkv_json_length(v) : 1;
    struct serve_texts *t = &j->texts;
    t->single = !several;
    j->path = "$.inputs";
    if (n > service_options.client_batch) {
        serve_fail(c, 413, j->path, "$.inputs: too many texts, expected at most %lld, found %lld",
                   (long long)service_options.client_batch, (long long)n);
        return false;
    }
    t->text = calloc((size_t)n, sizeof *t->text);
    t->bytes = calloc((size_t)n, sizeof *t->bytes);
    j->second = calloc((size_t)n, sizeof *j->second);
    j->second_bytes = calloc((size_t)n, sizeof *j->second_bytes);
    if (!t->text || !t->bytes || !j->second || !j->second_bytes) {
        serve_fail(c, 503, NULL, "out of memory");
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        char path[64] = "$.inputs";
        if (several) snprintf(path, sizeof path, "$.inputs[%lld]", (long long)i);
        if (!read_input(c, j, several ? qkv_json_element(v, i) : v, path)) return false;
    }
    return true;
}

void endpoint_predict(struct serve_call *c)
{
    const char *model = NULL, *direction = NULL;
    const qkv_json *inputs = NULL;
    struct rank_job *j = new_job(c, run_predict);
    if (!j) return;
    const struct serve_field fields[] = {
        { .name = "inputs", .kind = FIELD_ANY, .to = &inputs },
        { .name = "model", .kind = FIELD_TEXT, .to = &model },
        { .name = "raw_scores", .kind = FIELD_BOOLEAN, .to = &j->raw },
        { .name = "truncate", .kind = FIELD_BOOLEAN, .to = &j->truncate },
        { .name = "truncation_direction", .kind = FIELD_TEXT, .to = &direction },
        { .name = NULL }
    };
    const bool read =
        serve_body(c, fields) && serve_direction(c, direction, NULL) && read_inputs(c, j, inputs);
    queue(c, j, read ? find_labels(c, model, false) : NULL);
}

// ---- rankings -----------------------------------------------------------------------------------
static void print_ranked(FILE *to, const struct rank_job *j, const struct cmd_ranked *r)
{
    fprintf(to, "{\"index\":%lld,\"%s\":", (long long)r->index,
            j->cohere ? "relevance_score" : "score");
    cmd_json_float(to, r->value);
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
    if (!classify(j)) return;
    struct cmd_ranked *r = calloc((size_t)n + 1, sizeof *r);
    if (!r) {
        serve_fail(job->call, 503, NULL, "out of memory");
        return;
    }
    cmd_rank(r, j->raw ? j->scores : j->scores + n, n); // of one label
    FILE *to = serve_answer(job->call, 200, "application/json");
    fputs(j->cohere ? "{\"results\":[" : "[", to);
    for (int64_t i = 0; i < n && (!j->top || i < j->top); i++) {
        if (i) putc(',', to);
        print_ranked(to, j, &r[i]);
    }
    fputs(j->cohere ? "],\"meta\":{}}\n" : "]\n", to);
    free(r);
    serve_send(job->call);
}

// The member "texts" is the form of text-embeddings-inference, "documents" that of Cohere.
void endpoint_rerank(struct serve_call *c)
{
    const char *model = NULL, *direction = NULL;
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
        { .name = "truncation_direction", .kind = FIELD_TEXT, .to = &direction },
        { .name = "max_tokens_per_doc",
          .kind = FIELD_INTEGER,
          .to = &j->document_tokens,
          .min = 1,
          .max = 1 << 24 },
        { .name = "max_chunks_per_doc", .kind = FIELD_REFUSED },
        { .name = "rank_fields", .kind = FIELD_REFUSED },
        { .name = "priority", .kind = FIELD_IGNORED },
        { .name = NULL }
    };
    bool read = serve_body(c, fields) && serve_direction(c, direction, NULL);
    j->cohere = documents != NULL;
    // Cohere truncates documents that are too long, text-embeddings-inference refuses texts
    const enum qkv_json_kind given = qkv_json_kind_of(qkv_json_lookup(c->body, "truncate"));
    if (j->cohere && given != QKV_JSON_BOOLEAN) j->truncate = true;
    if (read && !j->query) {
        serve_fail(c, 400, "$.query", "$.query: required member is missing");
        read = false;
    } else if (read && !texts && !documents) {
        serve_fail(c, 400, "$.texts",
                   "$.texts: required member is missing, expected texts or documents");
        read = false;
    } else if (read && texts && documents) {
        serve_fail(c, 400, "$.documents", "$.documents: expected texts or documents, found both");
        read = false;
    }
    j->path = j->cohere ? "$.documents" : "$.texts";
    read = read &&
           serve_texts_read(c, &j->texts, j->cohere ? documents : texts, j->path, DOCUMENTS, 0);
    struct serve_model *m = read ? find_labels(c, model, true) : NULL;
    if (m && strlen(j->query) / QUERY_BYTES > (size_t)m->info.positions) {
        serve_fail(c, 413, "$.query", "$.query: text is too long, expected at most %lld bytes",
                   (long long)m->info.positions * QUERY_BYTES);
        m = NULL;
    }
    queue(c, j, m);
}
