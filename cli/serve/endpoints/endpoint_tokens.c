// SPDX-License-Identifier: MIT
// endpoint_tokens.c: the tokenizer of a model: /tokenize, /detokenize.
#include "serve/service.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 1 << 18 }; // of an answer

struct token_job {
    struct serve_job job;
    struct serve_texts texts; // texts or, to decode, token ids
    bool no_special;
    int64_t found; // tokens of the answer
    qkv_status (*print)(FILE *to, struct token_job *j, int64_t i, qkv_error *err);
    const char *path; // of the texts in the request
};

static void free_job(struct serve_job *job)
{
    serve_texts_free(&((struct token_job *)job)->texts);
    free(job);
}

// Answers with an array that has the result of print() for each text.
static void run(struct serve_job *job)
{
    struct token_job *j = (struct token_job *)job;
    qkv_error err = { 0 };
    FILE *to = serve_answer(job->call, 200, "application/json");
    qkv_status status = QKV_OK;
    putc('[', to);
    for (int64_t i = 0; i < j->texts.count && !status; i++) {
        if (i) putc(',', to);
        status = j->print(to, j, i, &err);
    }
    fputs("]\n", to);
    if (status)
        serve_fail_with(job->call, &err, j->path);
    else
        serve_send(job->call);
}

static qkv_status print_encoding(FILE *to, struct token_job *j, int64_t i, qkv_error *err)
{
    const qkv_tokenizer *tokenizer = j->job.model->tokenizer;
    const struct qkv_encode_options how = { .no_special = j->no_special };
    qkv_encoding e = { 0 };
    qkv_status status = qkv_tokenizer_encode(tokenizer, &e, j->texts.text[i], j->texts.bytes[i],
                                             NULL, 0, &how, err);
    if (!status && (j->found += e.count) > TOKENS)
        status = cmd_error(err, QKV_ERR_LIMIT, NULL, "too many tokens, expected at most %d",
                           (int)TOKENS);
    putc('[', to);
    for (int64_t k = 0; k < e.count && !status; k++) {
        const char *raw = qkv_tokenizer_token(tokenizer, e.ids[k]);
        fprintf(to, "%s{\"id\":%" PRId32 ",\"text\":", k ? "," : "", e.ids[k]);
        cmd_json_text(to, raw ? raw : "", raw ? strlen(raw) : 0);
        if (e.text[k] > 1)
            fputs(",\"special\":true,\"start\":null,\"stop\":null}", to);
        else
            fprintf(to, ",\"special\":false,\"start\":%lld,\"stop\":%lld}", (long long)e.begin[k],
                    (long long)e.end[k]);
    }
    putc(']', to);
    qkv_encoding_free(&e);
    return status;
}

static qkv_status print_decoded(FILE *to, struct token_job *j, int64_t i, qkv_error *err)
{
    const qkv_tokenizer *tokenizer = j->job.model->tokenizer;
    const int32_t *ids = j->texts.ids + j->texts.offsets[i];
    const int64_t n = j->texts.offsets[i + 1] - j->texts.offsets[i];
    char *text = NULL;
    size_t need = 0;
    qkv_status status = serve_ids_check(ids, n, j->job.model->info.vocab, err);
    if (!status)
        status = qkv_tokenizer_decode(tokenizer, NULL, 0, &need, ids, n, j->no_special, err);
    if (!status && !(text = malloc(need + 1))) status = cmd_no_memory(err);
    if (!status)
        status = qkv_tokenizer_decode(tokenizer, text, need + 1, NULL, ids, n, j->no_special, err);
    if (!status) cmd_json_text(to, text, need);
    free(text);
    return status;
}

// Queues the job, or frees it if the request was answered with an error.
static void queue(struct serve_call *c, struct token_job *j, struct serve_model *m)
{
    if (!m) {
        free_job(&j->job);
        return;
    }
    for (int64_t i = 0; i < j->texts.count; i++) j->job.cost += serve_text_cost(&j->texts, i);
    serve_queue(c, m, j);
}

static struct token_job *new_job(struct serve_call *c, const char *path)
{
    struct token_job *j = calloc(1, sizeof *j);
    if (!j) {
        serve_fail(c, 503, NULL, "out of memory");
        return NULL;
    }
    j->job.run = run;
    j->job.free = free_job;
    j->path = path;
    return j;
}

void endpoint_tokenize(struct serve_call *c)
{
    const char *model = NULL;
    const qkv_json *inputs = NULL;
    bool special = true;
    struct token_job *j = new_job(c, "$.inputs");
    if (!j) return;
    const struct serve_field fields[] = {
        { .name = "inputs", .kind = FIELD_ANY, .to = &inputs },
        { .name = "model", .kind = FIELD_TEXT, .to = &model },
        { .name = "add_special_tokens", .kind = FIELD_BOOLEAN, .to = &special },
        { .name = NULL }
    };
    const bool read = serve_body(c, fields) && serve_texts_read(c, &j->texts, inputs, j->path,
                                                                service_options.client_batch, 0);
    j->print = print_encoding;
    j->no_special = !special;
    queue(c, j, read ? serve_model_of(c, model) : NULL);
}

void endpoint_detokenize(struct serve_call *c)
{
    const char *model = NULL;
    const qkv_json *ids = NULL;
    struct token_job *j = new_job(c, "$.ids");
    if (!j) return;
    j->print = print_decoded;
    j->no_special = true;
    const struct serve_field fields[] = {
        { .name = "ids", .kind = FIELD_ANY, .to = &ids },
        { .name = "model", .kind = FIELD_TEXT, .to = &model },
        { .name = "skip_special_tokens", .kind = FIELD_BOOLEAN, .to = &j->no_special },
        { .name = NULL }
    };
    bool read = serve_body(c, fields) && serve_texts_read(c, &j->texts, ids, j->path,
                                                          service_options.client_batch, TEXTS_IDS);
    if (read && !j->texts.ids) {
        serve_fail(c, 400, "$.ids", "$.ids: expected token ids, found texts");
        read = false;
    }
    queue(c, j, read ? serve_model_of(c, model) : NULL);
}
