// SPDX-License-Identifier: MIT
// service.c: the threads of the models.  A queue is fair between connections by start times (start-
// time fair queueing: Goyal, Vin, Cheng 1996): a job begins at the virtual time at which the
// previous job of its connection ended, or now; the job with the smallest start is next.  Virtual
// time grows by the tokens that are computed, divided by the connections that have a job (as in
// weighted fair queueing: Parekh, Gallager 1993), so that new connections without end, which all
// begin now, cannot keep a connection waiting that was served before.
#include "serve/service.h"
#include "serve/embed_jobs.h"
#include "serve/generate_jobs.h"
#include "serve/server.h"
#include "serve/template/chat_template.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct service_options service_options;
struct serve_model *serve_models;
int64_t serve_model_count;

// ---- the queue ----------------------------------------------------------------------------------
// Returns the link to the job with the smallest tag; NULL: there is none.
static struct serve_job **find_best(struct service *s, unsigned kinds)
{
    struct serve_job **best = NULL;
    for (struct serve_job **p = &s->first; *p; p = &(*p)->next)
        if (kinds & 1u << (*p)->kind && (!best || (*p)->tag < (*best)->tag)) best = p;
    return best;
}

struct serve_job *service_take(struct serve_model *m, unsigned kinds, double most)
{
    struct service *s = m->service;
    pthread_mutex_lock(&s->lock);
    struct serve_job **best = find_best(s, kinds), *j = best ? *best : NULL;
    if (j && j->tag <= most)
        *best = j->next;
    else
        j = NULL;
    pthread_mutex_unlock(&s->lock);
    return j;
}

void service_begin(const struct serve_job *j)
{
    struct service *s = j->model->service;
    pthread_mutex_lock(&s->lock);
    if (j->tag > s->now) s->now = j->tag;
    pthread_mutex_unlock(&s->lock);
}

void service_used(struct serve_job *j, double tokens)
{
    struct service *s = j->model->service;
    const double jobs = (double)atomic_load(&s->jobs); // a connection has one job at a time
    pthread_mutex_lock(&s->lock);
    j->tag += tokens;
    j->call->finish = j->tag;
    s->now += tokens / (jobs > 1 ? jobs : 1);
    pthread_mutex_unlock(&s->lock);
}

void service_return(struct serve_job *j)
{
    struct service *s = j->model->service;
    pthread_mutex_lock(&s->lock);
    j->next = s->first;
    s->first = j;
    pthread_mutex_unlock(&s->lock);
}

void service_done(struct serve_job *j)
{
    atomic_fetch_sub(&j->model->service->jobs, 1);
    if (j->free)
        j->free(j);
    else
        free(j);
}

static struct serve_job *remove_job_of(struct service *s, const struct serve_call *c)
{
    pthread_mutex_lock(&s->lock);
    struct serve_job **at = &s->first;
    while (*at && (*at)->call != c) at = &(*at)->next;
    struct serve_job *j = *at;
    if (j) *at = j->next;
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
        service_done(j);
        return;
    }
    const double finish = c->connection->finish[m - serve_models];
    pthread_mutex_lock(&s->lock);
    j->tag = c->finish = finish > s->now ? finish : s->now;
    c->model = m;
    j->next = NULL;
    struct serve_job **end = &s->first;
    while (*end) end = &(*end)->next;
    *end = j;
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
    while (!s->stop && !s->first && !s->generating) pthread_cond_wait(&s->changed, &s->lock);
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

static void *work(void *model)
{
    struct serve_model *m = model;
    struct serve_job *j;
    while (wait_for_work(m->service)) {
        j = service_take(m, ~(1u << JOB_GENERATE), decoding_tag(m));
        if (j && j->kind == JOB_EMBED)
            embed_batch(m, j);
        else if (j)
            run_job(j);
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
