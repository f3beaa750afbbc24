// SPDX-License-Identifier: MIT
// generate_jobs.c: generates the outputs of all jobs of a model with one scheduler, and writes the
// answers in the form of OpenAI: complete, or one event per token.
#include "serve/generate_jobs.h"
#include "serve/server.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void free_job(struct serve_job *job)
{
    struct generate_job *j = (struct generate_job *)job;
    const int64_t n = j->output ? j->prompts.count * j->o.n_best : 0;
    for (int64_t i = 0; i < n; i++) {
        serve_bytes_free(&j->output[i].text);
        serve_bytes_free(&j->output[i].logprobs);
    }
    serve_texts_free(&j->prompts);
    free(j->rendered);
    free(j->bias);
    free(j->prompt);
    free(j->output);
    free(j);
}

struct generate_job *generate_job_new(void)
{
    struct generate_job *j = calloc(1, sizeof *j);
    if (!j) return NULL;
    j->job.kind = JOB_GENERATE;
    j->job.free = free_job;
    j->o.n_best = 1;
    return j;
}

// ---- the answer ---------------------------------------------------------------------------------
static const char *reason_of(enum qkv_ending ending)
{
    return ending == QKV_END_TOKEN || ending == QKV_END_STOP ? "stop" : "length";
}

static void print_begin(FILE *to, const struct generate_job *j)
{
    const char *object = !j->chat    ? "text_completion"
                         : j->stream ? "chat.completion.chunk"
                                     : "chat.completion";
    fprintf(to, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", j->id, object,
            (long long)j->created);
    cmd_json_text(to, j->model, strlen(j->model));
}

static void print_usage(FILE *to, const struct generate_job *j)
{
    fprintf(to,
            ",\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld}",
            (long long)j->prompt_tokens, (long long)j->completion_tokens,
            (long long)(j->prompt_tokens + j->completion_tokens));
}

// Prints a token as text, with its bytes.
static void print_token(FILE *to, const struct generate_job *j, int32_t id, float logprob)
{
    char text[256];
    size_t need = 0;
    if (qkv_tokenizer_decode(j->job.model->tokenizer, text, sizeof text, &need, &id, 1, false,
                             NULL))
        *text = 0;
    fputs("{\"token\":", to);
    cmd_json_text(to, text, strlen(text));
    fputs(",\"logprob\":", to);
    cmd_json_float(to, logprob);
    fputs(",\"bytes\":[", to);
    for (size_t i = 0; text[i]; i++)
        fprintf(to, i ? ",%u" : "%u", (unsigned)(unsigned char)text[i]);
    putc(']', to);
}

static void print_logprob(FILE *to, const struct generate_job *j,
                          const struct qkv_generated_token *t)
{
    print_token(to, j, t->id, t->logprob);
    fputs(",\"top_logprobs\":[", to);
    for (int64_t i = 0; i < t->tops; i++) {
        if (i) putc(',', to);
        print_token(to, j, t->top[i].id, t->top[i].value);
        putc('}', to);
    }
    fputs("]}", to);
}

// Prints one choice.  logprobs: elements of an array; NULL: none.  reason NULL: not complete.
static void print_choice(FILE *to, const struct generate_job *j, int64_t index, const char *text,
                         size_t bytes, const char *logprobs, size_t logprob_bytes,
                         const char *reason)
{
    fprintf(to, "{\"index\":%lld,", (long long)index);
    if (j->chat) {
        fputs(j->stream ? "\"delta\":{\"content\":"
                        : "\"message\":{\"role\":\"assistant\",\"content\":",
              to);
        cmd_json_text(to, text, bytes);
        putc('}', to);
    } else {
        fputs("\"text\":", to);
        cmd_json_text(to, text, bytes);
    }
    fputs(",\"logprobs\":", to);
    if (logprobs)
        fprintf(to, "{\"content\":[%.*s]}", (int)logprob_bytes, logprobs);
    else
        fputs("null", to);
    if (reason)
        fprintf(to, ",\"finish_reason\":\"%s\"}", reason);
    else
        fputs(",\"finish_reason\":null}", to);
}

// Sends an event that print() writes.
static void send_event(struct generate_job *j, const char *text, size_t bytes)
{
    if (text && bytes) serve_stream_event(j->job.call, text, bytes);
}

static void stream_choice(struct generate_job *j, int64_t index, const char *text, size_t bytes,
                          const char *logprobs, size_t logprob_bytes, const char *reason)
{
    char *event = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&event, &size);
    if (!to) return;
    print_begin(to, j);
    fputs(",\"choices\":[", to);
    print_choice(to, j, index, text, bytes, logprobs, logprob_bytes, reason);
    fputs(j->usage ? "],\"usage\":null}" : "]}", to);
    if (!fclose(to)) send_event(j, event, size);
    free(event);
}

static void answer(struct generate_job *j)
{
    const int64_t n = j->prompts.count * j->o.n_best;
    if (j->stream) {
        char *event = NULL;
        size_t size = 0;
        FILE *to = j->usage ? open_memstream(&event, &size) : NULL;
        if (to) {
            print_begin(to, j);
            fputs(",\"choices\":[]", to);
            print_usage(to, j);
            putc('}', to);
            if (!fclose(to)) send_event(j, event, size);
            free(event);
        }
        serve_stream_event(j->job.call, "[DONE]", 6);
        serve_stream_end(j->job.call);
        return;
    }
    FILE *to = serve_answer(j->job.call, 200, "application/json");
    print_begin(to, j);
    fputs(",\"choices\":[", to);
    for (int64_t i = 0; i < n; i++) {
        const struct generate_output *x = &j->output[i];
        if (i) putc(',', to);
        print_choice(to, j, i, x->text.at ? x->text.at : "", x->text.count,
                     j->o.logprobs ? x->logprobs.at ? x->logprobs.at : "" : NULL, x->logprobs.count,
                     x->reason);
    }
    putc(']', to);
    print_usage(to, j);
    fputs("}\n", to);
    serve_send(j->job.call);
}

// ---- tokens and outputs -------------------------------------------------------------------------
static int on_token(void *user, const struct qkv_generated_token *t)
{
    struct generate_prompt *p = user;
    struct generate_job *j = p->job;
    const int64_t index = p->index * j->o.n_best + t->rank;
    char *logprob = NULL;
    size_t bytes = 0;
    if (j->o.logprobs && t->id >= 0) {
        FILE *to = open_memstream(&logprob, &bytes);
        if (!to) return 1;
        print_logprob(to, j, t);
        if (fclose(to)) return 1;
    }
    if (j->stream) {
        if (t->bytes || logprob) stream_choice(j, index, t->text, t->bytes, logprob, bytes, NULL);
    } else if (logprob) {
        struct serve_bytes *all = &j->output[index].logprobs;
        if (all->count) serve_bytes_add(all, ",", 1);
        serve_bytes_add(all, logprob, bytes);
    }
    free(logprob);
    return 0;
}

static int on_output(void *user, const struct qkv_generated *g)
{
    struct generate_prompt *p = user;
    struct generate_job *j = p->job;
    const int64_t index = p->index * j->o.n_best + g->rank;
    struct generate_output *x = &j->output[index];
    x->reason = reason_of(g->ending);
    x->tokens = g->tokens + (g->ending == QKV_END_TOKEN);
    j->completion_tokens += x->tokens;
    if (!g->rank) j->prompt_tokens += g->prompt_tokens;
    if (j->stream)
        stream_choice(j, index, "", 0, NULL, 0, x->reason);
    else
        serve_bytes_add(&x->text, g->text, g->bytes);
    int64_t left = 0;
    for (int64_t i = 0; i < j->o.n_best; i++) left += !j->output[p->index * j->o.n_best + i].reason;
    if (!left) {
        p->id = 0;
        j->running--;
    }
    return 0;
}

static void on_failed(void *user, int64_t id, const qkv_error *err)
{
    const struct serve_model *m = user;
    for (struct generate_job *j = m->service->generating; j; j = j->after)
        for (int64_t i = 0; i < j->prompts.count; i++)
            if (j->prompt[i].id == id) {
                j->prompt[i].id = 0;
                j->running--;
                if (!j->err.status) j->err = *err;
            }
}

// ---- jobs ---------------------------------------------------------------------------------------
qkv_status decoding_open(struct serve_model *m, qkv_error *err)
{
    const struct qkv_scheduler_options o = { .items = service_options.slots,
                                             .failed = on_failed,
                                             .user = m };
    return qkv_scheduler_new(&m->service->scheduler, m->generator, &o, err);
}

void decoding_close(struct serve_model *m)
{
    if (m->service) qkv_scheduler_free(m->service->scheduler);
}

bool decoding_busy(const struct serve_model *m)
{
    return m->service->generating != NULL;
}

bool decoding_accepts(const struct serve_model *m)
{
    return m->service->scheduler && qkv_scheduler_idle(m->service->scheduler) > 0;
}

// Cancels the prompts of a job that are in the scheduler.
static void cancel(struct generate_job *j)
{
    for (int64_t i = 0; i < j->prompts.count; i++)
        if (j->prompt[i].id)
            qkv_scheduler_cancel(j->job.model->service->scheduler, j->prompt[i].id);
}

void decoding_begin(struct serve_job *job)
{
    struct generate_job *j = (struct generate_job *)job;
    struct service *s = job->model->service;
    const size_t n = (size_t)j->prompts.count;
    qkv_status status = QKV_OK;
    j->prompt = calloc(n, sizeof *j->prompt);
    j->output = calloc(n * (size_t)j->o.n_best, sizeof *j->output);
    if (!j->prompt || !j->output) status = cmd_error(&j->err, QKV_ERR_LIMIT, NULL, "out of memory");
    j->o.token = on_token;
    j->o.output = on_output;
    for (int64_t i = 0; i < j->prompts.count && !status; i++) {
        struct generate_prompt *p = &j->prompt[i];
        *p = (struct generate_prompt){ .job = j, .index = i };
        j->o.user = p;
        status = qkv_scheduler_add(s->scheduler, &p->id, j->prompts.text[i], j->prompts.bytes[i],
                                   &j->o, &j->err);
        j->running += !status;
    }
    if (status && j->prompt) cancel(j);
    if (status) {
        serve_fail_with(job->call, &j->err, NULL);
        service_done(job);
        return;
    }
    if (j->stream) serve_stream_begin(job->call);
    j->after = s->generating;
    s->generating = j;
}

// Ends jobs that are complete, have failed, or whose client has left.
static void end_jobs(struct serve_model *m, const qkv_error *all)
{
    for (struct generate_job **at = &m->service->generating, *j; (j = *at);) {
        struct serve_call *c = j->job.call;
        const bool gone = atomic_load(&c->gone);
        if (all->status && !j->err.status) j->err = *all;
        if (j->running && !gone && !j->err.status) {
            at = &j->after;
            continue;
        }
        *at = j->after;
        cancel(j);
        c->tokens = j->prompt_tokens + j->completion_tokens;
        atomic_fetch_add(&c->server->tokens, c->tokens);
        if (gone)
            serve_fail(c, 503, NULL, "the client has left");
        else if (j->err.status)
            serve_fail_with(c, &j->err, NULL);
        else
            answer(j);
        service_done(&j->job);
    }
}

void decoding_step(struct serve_model *m)
{
    qkv_error err = { 0 };
    if (qkv_scheduler_step(m->service->scheduler, &err) && !err.status)
        err.status = QKV_ERR_INTERNAL;
    end_jobs(m, &err);
}

void decoding_stop(struct serve_model *m)
{
    qkv_error err = { 0 };
    cmd_error(&err, QKV_ERR_LIMIT, NULL, "the server is stopping");
    end_jobs(m, &err);
}
