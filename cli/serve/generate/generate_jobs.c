// SPDX-License-Identifier: MIT
// generate_jobs.c: generates the outputs of all jobs of a model with one scheduler, and writes the
// answers in the form of OpenAI: complete, or one event per token.
#include "serve/generate/token_logprobs.h"
#include "serve/limits.h"
#include "serve/server.h"
#include "serve/template/chat_template.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT_STEP = 1 << 16 }; // an answer that has grown by so many bytes is checked

static void free_job(struct serve_job *job)
{
    struct generate_job *j = (struct generate_job *)job;
    for (int64_t i = 0; j->output && i < j->outputs; i++) {
        serve_bytes_free(&j->output[i].text);
        for (int a = 0; a < LOG_ARRAYS; a++) serve_bytes_free(&j->output[i].logprobs[a]);
    }
    for (int64_t i = 0; j->decoded && i < j->prompts.count; i++) free(j->decoded[i]);
    free(j->decoded);
    serve_texts_free(&j->prompts);
    free(j->rendered);
    free(j->bias);
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

// Prints one choice.  reason NULL: not complete.
static void print_choice(FILE *to, const struct generate_job *j, int64_t index, const char *text,
                         size_t bytes, const struct token_logprobs *logged, const char *reason)
{
    fprintf(to, "{\"index\":%lld,", (long long)index);
    if (j->chat) {
        fputs(j->stream ? "\"delta\":{" : "\"message\":{", to);
        if (!j->output[index].streamed) fputs("\"role\":\"assistant\",", to);
        fputs("\"content\":", to);
        cmd_json_text(to, text, bytes);
        putc('}', to);
    } else {
        fputs("\"text\":", to);
        cmd_json_text(to, text, bytes);
    }
    fputs(",\"logprobs\":", to);
    if (logged->at[0])
        token_logprobs_join(to, j, logged);
    else
        fputs("null", to);
    if (reason)
        fprintf(to, ",\"finish_reason\":\"%s\"}", reason);
    else
        fputs(",\"finish_reason\":null}", to);
}

// Sends a choice as an event.  The first one begins the stream, so that an error before it has a
// status.
static void stream_choice(struct generate_job *j, int64_t index, const char *text, size_t bytes,
                          const struct token_logprobs *logged, const char *reason)
{
    char *event = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&event, &size);
    if (to) {
        print_begin(to, j);
        fputs(",\"choices\":[", to);
        print_choice(to, j, index, text, bytes, logged, reason);
        fputs(j->usage ? "],\"usage\":null}" : "]}", to);
    }
    if (generate_close_memory(j, to)) {
        j->output[index].streamed = true;
        if (!j->job.call->streaming) serve_stream_begin(j->job.call);
        serve_stream_event(j->job.call, event, size);
    }
    free(event);
}

static void end_stream(struct generate_job *j)
{
    char *event = NULL;
    size_t size = 0;
    FILE *to = j->usage ? open_memstream(&event, &size) : NULL;
    if (to) {
        print_begin(to, j);
        fputs(",\"choices\":[]", to);
        print_usage(to, j);
        putc('}', to);
    }
    if (j->usage && !generate_close_memory(j, to)) {
        serve_fail_with(j->job.call, &j->err, NULL);
    } else {
        if (j->usage) serve_stream_event(j->job.call, event, size);
        serve_stream_event(j->job.call, "[DONE]", 6);
        serve_stream_end(j->job.call);
    }
    free(event);
}

// Returns the kept logprobs of an output.
static struct token_logprobs kept_logprobs(const struct generate_output *x)
{
    struct token_logprobs l = { 0 };
    for (int a = 0; x->job->o.logprobs && a < LOG_ARRAYS; a++) {
        l.at[a] = x->logprobs[a].at ? x->logprobs[a].at : "";
        l.bytes[a] = x->logprobs[a].count;
    }
    return l;
}

static void answer(struct generate_job *j)
{
    if (j->stream) {
        end_stream(j);
        return;
    }
    FILE *to = serve_answer(j->job.call, 200, "application/json");
    print_begin(to, j);
    fputs(",\"choices\":[", to);
    for (int64_t i = 0; i < j->outputs; i++) {
        const struct generate_output *x = &j->output[i];
        if (i) putc(',', to);
        const struct token_logprobs logged = kept_logprobs(x);
        print_choice(to, j, i, x->text.at ? x->text.at : "", x->text.count, &logged, x->reason);
    }
    putc(']', to);
    print_usage(to, j);
    fputs("}\n", to);
    serve_send(j->job.call);
}

// ---- tokens and outputs -------------------------------------------------------------------------
// Fails a job if this job, or the jobs of its address, or all jobs keep too many bytes.
static void limit_kept(struct generate_job *j)
{
    struct generate_job *const first = j->job.model->service->generating, *x;
    int64_t n = 0, grown = 0;
    for (x = first; x; x = x->after) n++;
    struct kept_bytes *kept = calloc((size_t)n + 1, sizeof *kept);
    if (!kept) {
        generate_fail_memory(j);
        return;
    }
    n = 0;
    for (x = first; x; x = x->after) {
        if (x->err.status) continue; // it ends after this step
        if (x == j) grown = n;
        kept[n++] = (struct kept_bytes){ x->job.call->peer, x->kept, x };
    }
    x = kept_too_much(kept, n, grown);
    free(kept);
    if (x && x->kept > LIMIT_KEPT)
        cmd_error(&x->err, QKV_ERR_LIMIT, NULL,
                  "the answer is too long, expected at most %d MiB: ask for fewer outputs, tokens "
                  "or logprobs, or for a stream",
                  LIMIT_KEPT >> 20);
    else if (x)
        cmd_error(&x->err, QKV_ERR_LIMIT, NULL,
                  "out of memory for answers that are not complete, of which this is the largest "
                  "of its address");
}

// Keeps bytes of an answer that is not streamed.
static void keep(struct generate_job *j, struct serve_bytes *to, const char *bytes, size_t n)
{
    const size_t before = j->kept;
    serve_bytes_add(to, bytes, n);
    if (to->failed) generate_fail_memory(j);
    j->kept += n;
    if (before / KEPT_STEP != j->kept / KEPT_STEP && !j->err.status) limit_kept(j);
}

// Keeps the logprobs of a token.
static void keep_logged(struct generate_output *x, const struct token_logprobs *logged)
{
    struct generate_job *j = x->job;
    for (int a = 0; a < LOG_ARRAYS && logged->at[0] && !j->err.status; a++) {
        if (x->logprobs[a].count) keep(j, &x->logprobs[a], ",", 1);
        keep(j, &x->logprobs[a], logged->at[a], logged->bytes[a]);
    }
}

// Begins an output with its prompt, if the request says so.  In a stream the prompt is one event,
// with the logprobs that were kept while it was read.
static void echo(struct generate_output *x)
{
    struct generate_job *j = x->job;
    const int64_t index = x - j->output, prompt = index / j->o.n_best;
    if (!j->echo || x->echoed || j->err.status) return;
    x->echoed = true;
    if (!j->stream) {
        keep(j, &x->text, j->prompts.text[prompt], j->prompts.bytes[prompt]);
        return;
    }
    const struct token_logprobs logged = kept_logprobs(x);
    stream_choice(j, index, j->prompts.text[prompt], j->prompts.bytes[prompt], &logged, NULL);
    for (int a = 0; a < LOG_ARRAYS; a++) {
        j->kept -= x->logprobs[a].count;
        serve_bytes_free(&x->logprobs[a]);
    }
}

static int on_prompt_token(void *user, const struct qkv_generated_token *t)
{
    struct generate_output *x = user;
    char *text = NULL;
    service_used(&x->job->job, 1); // the logits after it
    const struct token_logprobs logged = token_logprobs_print(&text, x, t, 0);
    keep_logged(x, &logged);
    free(text);
    return x->job->err.status != QKV_OK;
}

static int on_token(void *user, const struct qkv_generated_token *t)
{
    struct generate_output *x = user;
    struct generate_job *j = x->job;
    struct token_logprobs logged = { 0 };
    char *text = NULL;
    if (t->id >= 0) service_used(&j->job, 1);
    echo(x);
    if (j->o.logprobs && t->id >= 0)
        logged = token_logprobs_print(&text, x, t, x->prompt_characters);
    if (!j->stream)
        keep_logged(x, &logged);
    else if (!j->err.status && (t->bytes || logged.at[0]))
        stream_choice(j, x - j->output, t->text, t->bytes, &logged, NULL);
    free(text);
    return j->err.status != QKV_OK;
}

static int on_output(void *user, const struct qkv_generated *g)
{
    struct generate_output *x = user;
    struct generate_job *j = x->job;
    x->reason = reason_of(g->ending);
    x->tokens = g->tokens + (g->ending == QKV_END_TOKEN);
    j->completion_tokens += x->tokens;
    if ((x - j->output) % j->o.n_best == 0) j->prompt_tokens += g->prompt_tokens;
    echo(x);
    if (j->stream)
        stream_choice(j, x - j->output, "", 0, &(struct token_logprobs){ 0 }, x->reason);
    else
        keep(j, &x->text, g->text, g->bytes);
    x->id = 0;
    j->ended++;
    return 0;
}

static void on_failed(void *user, int64_t id, const qkv_error *err)
{
    const struct serve_model *m = user;
    for (struct generate_job *j = m->service->generating; j; j = j->after)
        for (int64_t i = 0; i < j->begun; i++)
            if (j->output[i].id == id) {
                j->output[i].id = 0;
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

// Cancels the outputs of a job that are in the scheduler.
static void cancel(struct generate_job *j)
{
    for (int64_t i = 0; i < j->begun; i++)
        if (j->output[i].id)
            qkv_scheduler_cancel(j->job.model->service->scheduler, j->output[i].id);
}

// Renders the messages of a chat: its only prompt.
static qkv_status render(struct generate_job *j)
{
    j->prompts.text = calloc(1, sizeof *j->prompts.text);
    j->prompts.bytes = calloc(1, sizeof *j->prompts.bytes);
    if (!j->prompts.text || !j->prompts.bytes) return cmd_no_memory(&j->err);
    const qkv_status status = chat_render(&j->rendered, j->job.model, j->messages, &j->err);
    if (status) return status;
    j->prompts.text[0] = j->rendered;
    j->prompts.bytes[0] = strlen(j->rendered);
    j->prompts.count = 1;
    return QKV_OK;
}

// Makes the texts of prompts that are token ids.
static qkv_status decode(struct generate_job *j)
{
    struct serve_texts *p = &j->prompts;
    const qkv_tokenizer *t = j->job.model->tokenizer;
    j->decoded = calloc((size_t)p->count + 1, sizeof *j->decoded);
    if (!j->decoded) return cmd_no_memory(&j->err);
    for (int64_t i = 0; i < p->count; i++) {
        const int32_t *ids = p->ids + p->offsets[i];
        const int64_t n = p->offsets[i + 1] - p->offsets[i];
        size_t need;
        qkv_status status = qkv_tokenizer_decode(t, NULL, 0, &need, ids, n, true, &j->err);
        if (!status && !(j->decoded[i] = malloc(need + 1))) status = cmd_no_memory(&j->err);
        if (!status)
            status = qkv_tokenizer_decode(t, j->decoded[i], need + 1, NULL, ids, n, true, &j->err);
        if (status) return status;
        p->text[i] = j->decoded[i];
        p->bytes[i] = need;
    }
    return QKV_OK;
}

// Prepares a job, none of whose outputs has begun.
static void prepare(struct serve_job *job)
{
    struct generate_job *j = (struct generate_job *)job;
    struct service *s = job->model->service;
    if (!atomic_load(&job->call->gone) &&
        ((j->messages && render(j)) || (j->prompts.ids && decode(j)))) {
        serve_fail_with(job->call, &j->err, j->messages ? "$.messages" : "$.prompt");
        service_done(job);
        return;
    }
    j->outputs = j->prompts.count * j->o.n_best;
    j->output = calloc((size_t)j->outputs + 1, sizeof *j->output);
    if (!j->output) cmd_no_memory(&j->err);
    j->o.token = on_token;
    j->o.output = on_output;
    if (j->echo && j->o.logprobs) j->o.prompt_token = on_prompt_token;
    j->after = s->generating;
    s->generating = j;
}

static void begin_output(struct generate_job *j)
{
    struct generate_output *x = &j->output[j->begun];
    const int64_t prompt = j->begun / j->o.n_best;
    struct qkv_generate_options o = j->o;
    o.user = x;
    o.n_best = 1;
    o.no_template = j->chat; // the chat template has put all special tokens into the prompt
    o.first = j->begun % j->o.n_best; // the random numbers of an output that begins with the others
    if (j->prompts.ids) {
        o.prompt_ids = j->prompts.ids + j->prompts.offsets[prompt];
        o.prompt_id_count = j->prompts.offsets[prompt + 1] - j->prompts.offsets[prompt];
    }
    x->job = j;
    for (size_t i = 0; i < j->prompts.bytes[prompt]; i++)
        x->prompt_characters += !qkv_utf8_continues(j->prompts.text[prompt][i]);
    service_begin(&j->job);
    if (qkv_scheduler_add(j->job.model->service->scheduler, &x->id, j->prompts.text[prompt],
                          j->prompts.bytes[prompt], &o, &j->err))
        return;
    j->begun++;
    service_used(&j->job, 1 + (double)j->prompts.bytes[prompt] / 4);
}

// Returns the job with the smallest tag whose next output can begin; NULL: there is none.
static struct generate_job *find_waiting(const struct service *s)
{
    struct generate_job *best = NULL;
    for (struct generate_job *j = s->generating; j; j = j->after)
        if (j->begun < j->outputs && !j->err.status && !atomic_load(&j->job.call->gone) &&
            (!best || j->job.tag <= best->job.tag))
            best = j;
    return best;
}

void decoding_fill(struct serve_model *m)
{
    struct service *s = m->service;
    const unsigned kind = 1u << JOB_GENERATE;
    while (qkv_scheduler_idle(s->scheduler) > 0) {
        struct generate_job *j = find_waiting(s);
        struct serve_job *queued = service_take(m, kind, j ? j->job.tag : (double)INFINITY);
        if (queued)
            prepare(queued);
        else if (j)
            begin_output(j);
        else
            break;
    }
}

// Ends jobs that are complete, have failed, or whose client has left.
static void end_jobs(struct serve_model *m, const qkv_error *all)
{
    for (struct generate_job **at = &m->service->generating, *j; (j = *at);) {
        struct serve_call *c = j->job.call;
        const bool gone = atomic_load(&c->gone);
        if (all->status && !j->err.status) j->err = *all;
        if (j->ended < j->outputs && !gone && !j->err.status) {
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
            serve_fail_with(c, &j->err, j->messages ? "$.messages" : "$.prompt");
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
    cmd_error(&err, QKV_ERR_INTERRUPTED, NULL, "the server is stopping");
    end_jobs(m, &err);
}
