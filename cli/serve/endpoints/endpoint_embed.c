// SPDX-License-Identifier: MIT
// endpoint_embed.c: vectors of texts in the forms of OpenAI (/v1/embeddings) and of
// text-embeddings-inference (/embed).
#include "serve/embed_jobs.h"
#include <stdlib.h>
#include <string.h>

// Prints the bytes of floats, little-endian, in base64.
static void print_base64(FILE *to, const float *x, int64_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    int count = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, &x[i], sizeof word);
        for (int k = 0; k < 4; k++) {
            bits = bits << 8 | (word >> 8 * k & 0xff);
            if (++count < 3) continue;
            for (int d = 18; d >= 0; d -= 6) putc(digits[bits >> d & 63], to);
            bits = 0;
            count = 0;
        }
    }
    if (!count) return;
    bits <<= 8 * (3 - count);
    for (int d = 18; d >= 18 - 6 * count; d -= 6) putc(digits[bits >> d & 63], to);
    fputs(count == 1 ? "==" : "=", to);
}

static void answer_openai(struct embed_job *j, const float *v, int64_t width)
{
    FILE *to = serve_answer(j->job.call, 200, "application/json");
    fputs("{\"object\":\"list\",\"data\":[", to);
    for (int64_t i = 0; i < j->texts.count; i++) {
        fprintf(to, "%s{\"object\":\"embedding\",\"index\":%lld,\"embedding\":", i ? "," : "",
                (long long)i);
        if (j->base64) {
            putc('"', to);
            print_base64(to, v + i * width, j->dimensions ? j->dimensions : width);
            fputs("\"}", to);
        } else {
            serve_floats(to, v + i * width, j->dimensions ? j->dimensions : width);
            putc('}', to);
        }
    }
    fputs("],\"model\":", to);
    cmd_json_text(to, j->model, strlen(j->model));
    fprintf(to, ",\"usage\":{\"prompt_tokens\":%lld,\"total_tokens\":%lld}}\n", (long long)j->total,
            (long long)j->total);
    serve_send(j->job.call);
}

static void answer_tei(struct embed_job *j, const float *v, int64_t width)
{
    FILE *to = serve_answer(j->job.call, 200, "application/json");
    putc('[', to);
    for (int64_t i = 0; i < j->texts.count; i++) {
        if (i) putc(',', to);
        serve_floats(to, v + i * width, j->dimensions ? j->dimensions : width);
    }
    fputs("]\n", to);
    serve_send(j->job.call);
}

// Queues the job, or frees it if the request is invalid.
static void queue(struct serve_call *c, struct embed_job *j, const char *model,
                  const qkv_json *input, const char *path)
{
    struct serve_model *m = serve_model_of(c, model);
    if (m && !m->embedder) {
        serve_fail(c, 422, "$.model", "model %s computes no vectors", m->name);
        m = NULL;
    }
    if (m && serve_texts_read(c, &j->texts, input, path, service_options.client_batch, TEXTS_IDS)) {
        j->model = m->name;
        j->path = path;
        serve_queue(c, m, j);
        return;
    }
    j->job.free(&j->job);
}

void endpoint_embeddings(struct serve_call *c)
{
    const char *model = NULL, *format = NULL;
    const qkv_json *input = NULL;
    struct embed_job *j = embed_job_new();
    if (!j) {
        serve_fail(c, 503, NULL, "out of memory");
        return;
    }
    const struct serve_field fields[] = {
        { .name = "input", .kind = FIELD_ANY, .to = &input },
        { .name = "model", .kind = FIELD_TEXT, .to = &model },
        { .name = "encoding_format", .kind = FIELD_TEXT, .to = &format },
        { .name = "dimensions", .kind = FIELD_INTEGER, .to = &j->dimensions, .min = 1, .max = 1e9 },
        { .name = "prompt_name", .kind = FIELD_TEXT, .to = &j->prompt },
        { .name = "truncate", .kind = FIELD_BOOLEAN, .to = &j->truncate },
        { .name = "user", .kind = FIELD_IGNORED },
        { .name = NULL }
    };
    const bool read = serve_body(c, fields);
    j->base64 = format && strcmp(format, "base64") == 0;
    j->answer = answer_openai;
    if (read && (!format || j->base64 || strcmp(format, "float") == 0)) {
        queue(c, j, model, input, "$.input");
        return;
    }
    j->job.free(&j->job);
    if (read)
        serve_fail(c, 400, "$.encoding_format",
                   "$.encoding_format: expected \"float\" or \"base64\", found \"%s\"", format);
}

void endpoint_embed(struct serve_call *c)
{
    const char *model = NULL, *direction = NULL;
    const qkv_json *input = NULL;
    bool normalize = true;
    struct embed_job *j = embed_job_new();
    if (!j) {
        serve_fail(c, 503, NULL, "out of memory");
        return;
    }
    const struct serve_field fields[] = {
        { .name = "inputs", .kind = FIELD_ANY, .to = &input },
        { .name = "model", .kind = FIELD_TEXT, .to = &model },
        { .name = "dimensions", .kind = FIELD_INTEGER, .to = &j->dimensions, .min = 1, .max = 1e9 },
        { .name = "normalize", .kind = FIELD_BOOLEAN, .to = &normalize },
        { .name = "prompt_name", .kind = FIELD_TEXT, .to = &j->prompt },
        { .name = "truncate", .kind = FIELD_BOOLEAN, .to = &j->truncate },
        { .name = "truncation_direction", .kind = FIELD_TEXT, .to = &direction },
        { .name = NULL }
    };
    const bool read = serve_body(c, fields) && serve_direction(c, direction, &j->left);
    j->raw = !normalize;
    j->answer = answer_tei;
    if (read)
        queue(c, j, model, input, "$.inputs");
    else
        j->job.free(&j->job);
}
