// SPDX-License-Identifier: MIT
// endpoint_text.c: text generation as OpenAI: /v1/completions and /v1/chat/completions.
#include "serve/generate/generate_jobs.h"
#include "serve/server.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Members of both requests that are read as JSON values.
struct text_request {
    const char *model;
    const qkv_json *prompt, *messages, *stop, *bias, *stream_options, *logprobs;
    const qkv_json *format, *modalities; // only texts are generated
    int64_t max_tokens, top_logprobs, seed, n, best_of, top_k;
    double temperature, top_p, min_p;
};
enum { TOP_K_USUAL = -2 }; // a request without top_k
#define TEXT_USUAL                                                                                 \
    .temperature = (double)NAN, .top_p = (double)NAN, .min_p = (double)NAN, .top_k = TOP_K_USUAL,  \
    .n = 1, .seed = -1

// ---- parts of a request -------------------------------------------------------------------------
static bool read_stops(struct serve_call *c, struct generate_job *j, const qkv_json *v)
{
    struct serve_texts t;
    if (!v) return true;
    const int64_t most = (int64_t)(sizeof j->stops / sizeof *j->stops);
    if (qkv_json_length(v) > most) {
        serve_fail(c, 400, "$.stop", "$.stop: too many texts, expected at most %lld, found %lld",
                   (long long)most, (long long)qkv_json_length(v));
        return false;
    }
    if (!serve_texts_read(c, &t, v, "$.stop", most, TEXTS_EMPTY)) return false;
    bool whole = true;
    for (int64_t i = 0; i < t.count && whole; i++) {
        j->stops[i] = t.text[i];
        if (!(whole = t.bytes[i] > 0))
            serve_fail(c, 400, "$.stop",
                       "$.stop: text %lld is empty, expected a text that ends the answer",
                       (long long)i + 1);
    }
    j->o.stop = j->stops;
    j->o.stops = t.count;
    serve_texts_free(&t);
    return whole;
}

// Reads {"TOKEN_ID": BIAS, ...}.
static bool read_bias(struct serve_call *c, struct generate_job *j, const qkv_json *v)
{
    const int64_t n = qkv_json_length(v);
    int64_t i = 0;
    if (!v) return true;
    if (qkv_json_kind_of(v) != QKV_JSON_OBJECT) {
        serve_fail(c, 400, "$.logit_bias", "$.logit_bias: expected an object, found %s",
                   qkv_json_kind_name(v));
        return false;
    }
    j->bias = calloc((size_t)n + 1, sizeof *j->bias);
    for (const char *key = NULL; j->bias && (key = qkv_json_next_key(v, key)); i++) {
        int64_t id;
        double value;
        if (!cmd_parse_int(key, &id) || id < 0 || id > INT32_MAX ||
            !qkv_json_get_number(qkv_json_lookup(v, key), &value) || fabs(value) > 100) {
            serve_fail(c, 400, "$.logit_bias",
                       "$.logit_bias: expected token ids with numbers from -100 to 100");
            return false;
        }
        j->bias[i] = (struct qkv_token_value){ (int32_t)id, (float)value };
    }
    j->o.sampling.bias = j->bias;
    j->o.sampling.biases = n;
    if (!j->bias) serve_fail(c, 503, NULL, "out of memory");
    return j->bias != NULL;
}

static bool read_usage(struct serve_call *c, struct generate_job *j, const qkv_json *v)
{
    const struct serve_field fields[] = {
        { .name = "include_usage", .kind = FIELD_BOOLEAN, .to = &j->usage },
        { .name = "include_obfuscation", .kind = FIELD_IGNORED },
        { .name = NULL }
    };
    if (v && !j->stream) {
        serve_fail(c, 400, "$.stream_options",
                   "$.stream_options: expected \"stream\": true with it");
        return false;
    }
    return !v || serve_members(c, v, "$.stream_options", fields);
}

// logprobs is a number for completions, true or false for a chat, which has top_logprobs.
static bool read_logprobs(struct serve_call *c, struct generate_job *j,
                          const struct text_request *r)
{
    bool wanted = false;
    int64_t n = r->top_logprobs;
    if (r->logprobs && (j->chat ? !qkv_json_get_boolean(r->logprobs, &wanted)
                                : !(wanted = qkv_json_get_integer(r->logprobs, &n)))) {
        serve_fail(c, 400, "$.logprobs", "$.logprobs: expected %s",
                   j->chat ? "true or false" : "a number");
        return false;
    }
    if (!wanted && n) {
        serve_fail(c, 400, "$.top_logprobs", "$.top_logprobs: expected \"logprobs\": true with it");
        return false;
    }
    if (!wanted) return true;
    if (n < 0 || n > TOPS_MOST) {
        serve_fail(c, 400, "$.logprobs", "$.logprobs: expected 0 to %d, found %lld", TOPS_MOST,
                   (long long)n);
        return false;
    }
    j->tops = n;
    j->o.logprobs = n ? n : 1; // 0: no log-probabilities at all
    return true;
}

static bool is_text(const qkv_json *v)
{
    const char *text = qkv_json_get_string(v, NULL);
    return text && strcmp(text, "text") == 0;
}

// Refuses a form of the answer that is no text.
static bool read_form(struct serve_call *c, const struct text_request *r)
{
    if (r->format && !is_text(qkv_json_lookup(r->format, "type"))) {
        serve_fail(c, 400, "$.response_format",
                   "$.response_format is not supported by qkv serve unless its type is \"text\"");
        return false;
    }
    if (r->modalities &&
        (qkv_json_length(r->modalities) != 1 || !is_text(qkv_json_element(r->modalities, 0)))) {
        serve_fail(c, 400, "$.modalities",
                   "$.modalities is not supported by qkv serve unless it is [\"text\"]");
        return false;
    }
    return true;
}

static bool read_rest(struct serve_call *c, struct generate_job *j, const struct text_request *r)
{
    if (!read_stops(c, j, r->stop) || !read_bias(c, j, r->bias) ||
        !read_usage(c, j, r->stream_options) || !read_logprobs(c, j, r) || !read_form(c, r))
        return false;
    if (r->best_of && r->best_of != r->n) {
        serve_fail(c, 400, "$.best_of", "$.best_of is not supported by qkv serve unless it is n");
        return false;
    }
    // a chat without max_tokens has no limit, a completion with 0 tokens has none
    j->o.max_tokens = r->max_tokens || j->chat ? r->max_tokens : -1;
    if (j->o.min_tokens > r->max_tokens && (r->max_tokens || !j->chat)) {
        serve_fail(c, 400, "$.min_tokens",
                   "$.min_tokens: expected at most max_tokens, which is %lld, found %lld",
                   (long long)r->max_tokens, (long long)j->o.min_tokens);
        return false;
    }
    j->o.n_best = r->n;
    // without a seed each request draws other numbers
    j->o.sampling.seed = r->seed >= 0 ? (uint64_t)r->seed : (uint64_t)server_micros();
    return true;
}

// ---- the model ----------------------------------------------------------------------------------
static bool generates(const struct serve_model *m)
{
    return m->generator;
}

static struct serve_model *find_generator(struct serve_call *c, const char *name)
{
    struct serve_model *m = serve_model_that(c, name, generates);
    if (!m || generates(m)) return m;
    serve_fail(c, 422, "$.model", "model %s generates no text: expected a decoder", m->name);
    return NULL;
}

// Sets how tokens are chosen: as the request says, otherwise as generation_config.json of the model
// says, otherwise with temperature 1 and top_p 1. top_k and min_p 0 or -1: no limit.
static void set_sampling(struct generate_job *j, const struct serve_model *m,
                         const struct text_request *r)
{
    struct qkv_sampling *s = &j->o.sampling;
    const bool usually = qkv_generator_sampling(m->generator)->temperature > 0;
    s->temperature = !isnan(r->temperature) ? r->temperature : usually ? 0 : 1;
    s->top_p = isnan(r->top_p) ? 0 : r->top_p;
    s->top_k = r->top_k == TOP_K_USUAL ? 0 : r->top_k == 0 ? -1 : r->top_k;
    s->min_p = isnan(r->min_p) ? 0 : r->min_p == 0 ? -1 : r->min_p;
    j->o.own_sampling = r->temperature == 0;
}

// Checks that the model has the tokens of logit_bias. Otherwise answers with an error.
static bool check_bias(struct serve_call *c, const struct serve_model *m,
                       const struct generate_job *j)
{
    for (int64_t i = 0; i < j->o.sampling.biases; i++)
        if (j->bias[i].id >= m->info.vocab) {
            serve_fail(c, 400, "$.logit_bias",
                       "$.logit_bias: expected token ids below %lld, found %lld",
                       (long long)m->info.vocab, (long long)j->bias[i].id);
            return false;
        }
    return true;
}

// Queues the job, or frees it if the request was answered with an error.
static void queue(struct serve_call *c, struct serve_model *m, struct generate_job *j,
                  const struct text_request *r)
{
    static atomic_llong number;
    if (!check_bias(c, m, j)) {
        j->job.free(&j->job);
        return;
    }
    set_sampling(j, m, r);
    j->model = m->name;
    j->created = (int64_t)time(NULL);
    snprintf(j->id, sizeof j->id, "%s-%lld", j->chat ? "chatcmpl" : "cmpl",
             (long long)atomic_fetch_add(&number, 1) + 1);
    serve_queue(c, m, j);
}

// The members that completions and chats share.
#define TEXT_FIELDS(j, r, least)                                                                   \
    { .name = "model", .kind = FIELD_TEXT, .to = &(r).model },                                     \
        { .name = "max_tokens",                                                                    \
          .kind = FIELD_INTEGER,                                                                   \
          .to = &(r).max_tokens,                                                                   \
          .min = least,                                                                            \
          .max = 1 << 24 },                                                                        \
        { .name = "temperature", .kind = FIELD_NUMBER, .to = &(r).temperature, .max = 2 },         \
        { .name = "top_p", .kind = FIELD_NUMBER, .to = &(r).top_p, .min = 1e-9, .max = 1 },        \
        { .name = "n", .kind = FIELD_INTEGER, .to = &(r).n, .min = 1, .max = 128 },                \
        { .name = "seed", .kind = FIELD_INTEGER, .to = &(r).seed, .max = 9e15 },                   \
        { .name = "stop", .kind = FIELD_ANY, .to = &(r).stop },                                    \
        { .name = "stream", .kind = FIELD_BOOLEAN, .to = &(j)->stream },                           \
        { .name = "stream_options", .kind = FIELD_ANY, .to = &(r).stream_options },                \
        { .name = "logprobs", .kind = FIELD_ANY, .to = &(r).logprobs },                            \
        { .name = "logit_bias", .kind = FIELD_ANY, .to = &(r).bias },                              \
        { .name = "presence_penalty",                                                              \
          .kind = FIELD_NUMBER,                                                                    \
          .to = &(j)->o.sampling.presence,                                                         \
          .min = -2,                                                                               \
          .max = 2 },                                                                              \
        { .name = "frequency_penalty",                                                             \
          .kind = FIELD_NUMBER,                                                                    \
          .to = &(j)->o.sampling.frequency,                                                        \
          .min = -2,                                                                               \
          .max = 2 },                                                                              \
        { .name = "top_k", .kind = FIELD_INTEGER, .to = &(r).top_k, .min = -1, .max = 1e9 },       \
        { .name = "min_p", .kind = FIELD_NUMBER, .to = &(r).min_p, .min = -1, .max = 1 },          \
        { .name = "repetition_penalty",                                                            \
          .kind = FIELD_NUMBER,                                                                    \
          .to = &(j)->o.sampling.repetition,                                                       \
          .min = 1e-3,                                                                             \
          .max = 100 },                                                                            \
        { .name = "min_tokens", .kind = FIELD_INTEGER, .to = &(j)->o.min_tokens, .max = 1 << 24 }, \
        { .name = "ignore_eos", .kind = FIELD_BOOLEAN, .to = &(j)->o.ignore_end },                 \
    {                                                                                              \
        .name = "user", .kind = FIELD_IGNORED                                                      \
    }

void endpoint_completions(struct serve_call *c)
{
    struct generate_job *j = generate_job_new();
    struct text_request r = { .max_tokens = 16, TEXT_USUAL };
    if (!j) {
        serve_fail(c, 503, NULL, "out of memory");
        return;
    }
    const struct serve_field fields[] = {
        TEXT_FIELDS(j, r, 0),
        { .name = "prompt", .kind = FIELD_ANY, .to = &r.prompt },
        { .name = "best_of", .kind = FIELD_INTEGER, .to = &r.best_of, .min = 1, .max = 128 },
        { .name = "echo", .kind = FIELD_BOOLEAN, .to = &j->echo },
        { .name = "suffix", .kind = FIELD_REFUSED },
        { .name = NULL }
    };
    struct serve_model *m = NULL;
    if (serve_body(c, fields) &&
        serve_texts_read(c, &j->prompts, r.prompt, "$.prompt", service_options.client_batch,
                         TEXTS_IDS) &&
        read_rest(c, j, &r) && (m = find_generator(c, r.model)))
        queue(c, m, j, &r);
    else
        j->job.free(&j->job);
}

void endpoint_chat(struct serve_call *c)
{
    struct generate_job *j = generate_job_new();
    struct text_request r = { TEXT_USUAL };
    int64_t most = 0;
    if (!j) {
        serve_fail(c, 503, NULL, "out of memory");
        return;
    }
    j->chat = true;
    const struct serve_field fields[] = {
        TEXT_FIELDS(j, r, 1),
        { .name = "messages", .kind = FIELD_ANY, .to = &r.messages },
        { .name = "max_completion_tokens",
          .kind = FIELD_INTEGER,
          .to = &most,
          .min = 1,
          .max = 1 << 24 },
        { .name = "top_logprobs", .kind = FIELD_INTEGER, .to = &r.top_logprobs, .max = TOPS_MOST },
        { .name = "response_format", .kind = FIELD_ANY, .to = &r.format },
        { .name = "modalities", .kind = FIELD_ANY, .to = &r.modalities },
        { .name = "tools", .kind = FIELD_REFUSED },
        { .name = "tool_choice", .kind = FIELD_REFUSED },
        { .name = "functions", .kind = FIELD_REFUSED },
        { .name = "function_call", .kind = FIELD_REFUSED },
        { .name = "reasoning_effort", .kind = FIELD_REFUSED },
        { .name = "verbosity", .kind = FIELD_REFUSED },
        { .name = "audio", .kind = FIELD_REFUSED },
        { .name = "web_search_options", .kind = FIELD_REFUSED },
        // no other tokens with them
        { .name = "parallel_tool_calls", .kind = FIELD_IGNORED },
        { .name = "prediction", .kind = FIELD_IGNORED },
        { .name = "metadata", .kind = FIELD_IGNORED },
        { .name = "store", .kind = FIELD_IGNORED },
        { .name = "service_tier", .kind = FIELD_IGNORED },
        { .name = "safety_identifier", .kind = FIELD_IGNORED },
        { .name = "prompt_cache_key", .kind = FIELD_IGNORED },
        { .name = "prompt_cache_retention", .kind = FIELD_IGNORED },
        { .name = NULL }
    };
    struct serve_model *m = NULL;
    bool read = serve_body(c, fields);
    if (read && !r.messages) {
        serve_fail(c, 400, "$.messages", "$.messages: required member is missing");
        read = false;
    }
    if (!read || !read_rest(c, j, &r) || !(m = find_generator(c, r.model))) {
        j->job.free(&j->job);
        return;
    }
    if (most) j->o.max_tokens = most;
    if (!j->o.max_tokens) j->o.max_tokens = m->info.positions;
    j->messages = r.messages;
    queue(c, m, j, &r);
}
