// SPDX-License-Identifier: MIT
// service.c: the threads of the models, each with two queues: of the jobs that generate, which
// compete for the slots of the decoder, and of the other jobs.  A step computes other jobs, at most
// their share if outputs are generated (fair_queue.h), begins outputs in free slots, and decodes
// one token of each output that runs.
#include "serve/service.h"
#include "serve/embed_jobs.h"
#include "serve/generate/generate_jobs.h"
#include "serve/server.h"
#include "serve/template/chat_template.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct service_options service_options;
struct serve_model *serve_models;
int64_t serve_model_count;

enum { BATCH_THREAD = 512, BATCH_MOST = 8192 }; // tokens of a batch: for each thread; in all

int64_t service_batch_tokens(void)
{
    const int64_t threads = qkv_threads();
    return threads < BATCH_MOST / BATCH_THREAD ? threads * BATCH_THREAD : BATCH_MOST;
}

// ---- the queues ---------------------------------------------------------------------------------
static struct fair_queue *queue_of(const struct serve_job *j)
{
    return &j->model->service->queue[j->kind == JOB_GENERATE];
}

// The kinds of jobs of each queue: one of them is searched for jobs of one kind.
static const unsigned kinds_of[SERVICE_QUEUES] = { ~(1u << JOB_GENERATE), 1u << JOB_GENERATE };

struct serve_job *service_take(struct serve_model *m, unsigned kinds, double most)
{
    struct service *s = m->service;
    struct serve_job *j = NULL;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < SERVICE_QUEUES && !j; i++)
        if (kinds & kinds_of[i]) j = fair_take(&s->queue[i], kinds, most);
    pthread_mutex_unlock(&s->lock);
    return j;
}

void service_begin(struct serve_job *j)
{
    struct service *s = j->model->service;
    pthread_mutex_lock(&s->lock);
    fair_begin(queue_of(j), j);
    pthread_mutex_unlock(&s->lock);
}

void service_used(struct serve_job *j, double tokens)
{
    struct service *s = j->model->service;
    pthread_mutex_lock(&s->lock);
    fair_use(queue_of(j), j, tokens);
    j->call->finish = j->tag;
    pthread_mutex_unlock(&s->lock);
    if (j->kind != JOB_GENERATE) s->share.left -= tokens;
}

void service_return(struct serve_job *j)
{
    struct service *s = j->model->service;
    pthread_mutex_lock(&s->lock);
    fair_return(queue_of(j), j);
    pthread_mutex_unlock(&s->lock);
}

static void free_job(struct serve_job *j)
{
    atomic_fetch_sub(&j->model->service->jobs, 1);
    if (j->free)
        j->free(j);
    else
        free(j);
}

void service_done(struct serve_job *j)
{
    struct service *s = j->model->service;
    pthread_mutex_lock(&s->lock);
    fair_done(queue_of(j));
    pthread_mutex_unlock(&s->lock);
    free_job(j);
}

static struct serve_job *remove_job_of(struct service *s, const struct serve_call *c)
{
    struct serve_job *j = NULL;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < SERVICE_QUEUES && !j; i++) j = fair_remove(&s->queue[i], c);
    pthread_mutex_unlock(&s->lock);
    return j;
}

bool service_cancel(const struct serve_call *c)
{
    struct serve_job *j = NULL;
    for (int64_t i = 0; i < serve_model_count && !j; i++)
        j = remove_job_of(serve_models[i].service, c);
    if (j) service_done(j);
    return j != NULL;
}

int64_t service_jobs(const struct serve_model *m)
{
    return atomic_load(&m->service->jobs);
}

static int64_t all_jobs(void)
{
    int64_t n = 0;
    for (int64_t i = 0; i < serve_model_count; i++) n += service_jobs(&serve_models[i]);
    return n;
}

void serve_queue(struct serve_call *c, struct serve_model *m, void *job)
{
    struct serve_job *j = job;
    struct service *s = m->service;
    const int64_t most = service_options.most_requests, share = most < 4 ? most : most * 3 / 4;
    j->call = c;
    j->model = m;
    atomic_fetch_add(&s->jobs, 1);
    if (all_jobs() > most || server_calls_of(c->server, c) > share) {
        serve_fail(c, 429, NULL, "the queue is full, expected at most %lld requests",
                   (long long)most);
        free_job(j);
        return;
    }
    c->finish_of =
        &c->connection->finish[(m - serve_models) * SERVICE_QUEUES + (queue_of(j) - s->queue)];
    pthread_mutex_lock(&s->lock);
    fair_add(queue_of(j), j, *c->finish_of);
    c->finish = j->tag;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void serve_run(struct serve_call *c, struct serve_model *m, int64_t cost,
               void (*run)(struct serve_job *j))
{
    struct serve_job *j = calloc(1, sizeof *j);
    if (!j) {
        serve_fail(c, 503, NULL, "out of memory");
        return;
    }
    j->run = run;
    j->cost = cost;
    serve_queue(c, m, j);
}

struct serve_model *serve_model_of(struct serve_call *c, const char *name)
{
    if (!name) return &serve_models[0];
    for (int64_t i = 0; i < serve_model_count; i++)
        if (strcmp(serve_models[i].name, name) == 0) return &serve_models[i];
    serve_fail(c, 404, "$.model", "the server has no model '%s'; GET /v1/models lists its models",
               name);
    return NULL;
}

struct serve_model *serve_model_that(struct serve_call *c, const char *name,
                                     bool (*can)(const struct serve_model *m))
{
    for (int64_t i = 0; !name && i < serve_model_count; i++)
        if (can(&serve_models[i])) return &serve_models[i];
    return serve_model_of(c, name);
}

// ---- the thread of a model ----------------------------------------------------------------------
static bool wait_for_work(struct service *s)
{
    pthread_mutex_lock(&s->lock);
    while (!s->stop && !s->queue[0].first && !s->queue[1].first && !s->generating)
        pthread_cond_wait(&s->changed, &s->lock);
    const bool stop = s->stop;
    pthread_mutex_unlock(&s->lock);
    return !stop;
}

static void run_job(struct serve_job *j)
{
    j->again = false;
    if (atomic_load(&j->call->gone)) {
        serve_fail(j->call, 503, NULL, "the client has left");
    } else {
        service_begin(j);
        service_used(j, (double)j->cost);
        j->run(j);
    }
    if (j->again)
        service_return(j);
    else
        service_done(j);
}

// Computes jobs that do not generate: a batch, or, if outputs are generated, the share of a step.
static void run_others(struct serve_model *m)
{
    struct service *s = m->service;
    struct serve_job *j;
    const bool generating = decoding_busy(m);
    fair_share_step(&s->share, generating);
    while (s->share.left > 0 && (j = service_take(m, ~(1u << JOB_GENERATE), (double)INFINITY))) {
        s->share.left -= 1; // a job that is refused takes time too
        if (j->kind == JOB_EMBED)
            embed_batch(m, j, s->share.left);
        else
            run_job(j);
        if (!generating) return;
    }
}

static void *work(void *model)
{
    struct serve_model *m = model;
    struct serve_job *j;
    while (wait_for_work(m->service)) {
        run_others(m);
        if (m->service->scheduler) decoding_fill(m);
        if (decoding_busy(m)) decoding_step(m);
    }
    decoding_stop(m);
    while ((j = service_take(m, ~0u, (double)INFINITY))) {
        serve_fail(j->call, 503, NULL, "the server is stopping");
        service_done(j);
    }
    return NULL;
}

qkv_status services_start(qkv_error *err)
{
    for (int64_t i = 0; i < serve_model_count; i++) {
        struct service *s = serve_models[i].service;
        if (pthread_create(&s->thread, NULL, work, &serve_models[i]))
            return cmd_error(err, QKV_ERR_LIMIT, NULL, "no thread for model %s",
                             serve_models[i].name);
        s->running = true;
    }
    return QKV_OK;
}

void services_stop(void)
{
    for (int64_t i = 0; i < serve_model_count; i++) {
        struct service *s = serve_models[i].service;
        if (!s || !s->running) continue;
        pthread_mutex_lock(&s->lock);
        s->stop = true;
        pthread_cond_signal(&s->changed);
        pthread_mutex_unlock(&s->lock);
    }
    for (int64_t i = 0; i < serve_model_count; i++) {
        struct service *s = serve_models[i].service;
        if (!s || !s->running) continue;
        pthread_join(s->thread, NULL);
        s->running = false;
    }
}

// ---- models -------------------------------------------------------------------------------------
// Opens a decoder as a generator, whose model also computes vectors, and any other model as an
// embedder.
static qkv_status open_parts(struct serve_model *m, qkv_error *err)
{
    qkv_error other = { 0 };
    const struct qkv_generator_options generates = { .model = cmd_model_options(),
                                                     .items = service_options.slots };
    struct qkv_embedder_options embeds = { .model = cmd_model_options(),
                                           .truncate = true,
                                           .progress = embed_progress(m) };
    qkv_status status = qkv_generator_open(&m->generator, m->dir, &generates, &other);
    if (status && status != QKV_ERR_UNSUPPORTED && status != QKV_ERR_USAGE) {
        *err = other;
        return status;
    }
    if (!status) {
        embeds.opened = qkv_generator_model(m->generator);
        m->model = embeds.opened;
        m->tokenizer = qkv_generator_tokenizer(m->generator);
        // a recurrent decoder has no vectors
        if (qkv_embedder_open(&m->embedder, m->dir, &embeds, &(qkv_error){ 0 })) m->embedder = NULL;
        return QKV_OK;
    }
    status = qkv_embedder_open(&m->embedder, m->dir, &embeds, err);
    if (status) return status;
    m->model = qkv_embedder_model(m->embedder);
    m->tokenizer = qkv_embedder_tokenizer(m->embedder);
    return QKV_OK;
}

// Computes something small, so that the weights are packed before the first request.
static qkv_status warm(struct serve_model *m, qkv_error *err)
{
    const char *text = "a";
    const struct qkv_generate_options one = { .max_tokens = 1 };
    float *v = m->embedder ? cmd_alloc((size_t)qkv_embedder_width(m->embedder), sizeof *v) : NULL;
    qkv_status status = v ? qkv_embed(m->embedder, v, &text, NULL, 1, NULL, err) : QKV_OK;
    if (!status && m->generator)
        (void)!qkv_generate(m->generator, &text, NULL, 1, &one, &(qkv_error){ 0 });
    free(v);
    return status;
}

qkv_status service_open(struct serve_model *m, const char *name, const char *dir, qkv_error *err)
{
    struct service *s = calloc(1, sizeof *s);
    *m = (struct serve_model){ .name = name, .service = s };
    snprintf(m->dir, sizeof m->dir, "%s", dir);
    if (s && !pthread_mutex_init(&s->lock, NULL)) {
        s->locked = !pthread_cond_init(&s->changed, NULL);
        if (!s->locked) pthread_mutex_destroy(&s->lock);
    }
    if (!s || !s->locked)
        return cmd_error(err, QKV_ERR_LIMIT, NULL, "no memory for model %s", name);
    atomic_init(&s->jobs, 0);
    qkv_status status = open_parts(m, err);
    if (status) return status;
    m->info = qkv_model_info(m->model);
    if (m->generator && ((status = decoding_open(m, err)) || (status = chat_open(m, err))))
        return status;
    return warm(m, err);
}

void service_close(struct serve_model *m)
{
    embed_variants_close(m);
    decoding_close(m);
    chat_close(m);
    qkv_embedder_close(m->embedder);
    qkv_generator_close(m->generator);
    if (m->service && m->service->locked) {
        pthread_cond_destroy(&m->service->changed);
        pthread_mutex_destroy(&m->service->lock);
    }
    free(m->service);
    *m = (struct serve_model){ 0 };
}
