// SPDX-License-Identifier: MIT
// endpoint_attention.c: POST /v1/attention: statistics of the attention of every layer and head on
// one text, as JSON; or, for a client that accepts HTML, the page of `qkv view`.
#include "serve/page/attention_page.h"
#include "serve/service.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4096, TEXT_TOKENS = 1 << 16, ANSWER_VALUES = 4000000 };

struct attention_job {
    struct serve_job job;
    struct serve_texts texts;
    int64_t top_k, reach, side;
    bool entropy, distance, received, offsets;
    int64_t *row, *layer; // rows to print completely; layers to print, none: all
    int64_t rows, layers;
    int64_t printed;
    bool nonfinite; // a number of the answer is NaN or infinite
    struct qkv_run_options options;
    struct qkv_ablation *ablate; // heads of options
    FILE *to;
};

static void free_job(struct serve_job *job)
{
    struct attention_job *j = (struct attention_job *)job;
    serve_texts_free(&j->texts);
    free(j->row);
    free(j->layer);
    free(j->ablate);
    free(j);
}

// ---- the answer ---------------------------------------------------------------------------------
static void print_ids(FILE *to, const int32_t *x, int64_t n)
{
    putc('[', to);
    for (int64_t i = 0; i < n; i++) fprintf(to, i ? ",%" PRId32 : "%" PRId32, x[i]);
    putc(']', to);
}

static void print_floats(struct attention_job *j, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) j->nonfinite = j->nonfinite || !isfinite(x[i]);
    serve_floats(j->to, x, n);
}

// Prints x[n][m] as an array of arrays; ints: the numbers are int32_t, otherwise float.
static void print_rows(struct attention_job *j, const void *x, bool ints, int64_t n, int64_t m)
{
    putc('[', j->to);
    for (int64_t i = 0; i < n; i++) {
        if (i) putc(',', j->to);
        if (ints)
            print_ids(j->to, (const int32_t *)x + i * m, m);
        else
            print_floats(j, (const float *)x + i * m, m);
    }
    putc(']', j->to);
}

// Prints an array [H][n][m] as ,"name":[[[...]]].
static void print_heads(struct attention_job *j, const char *name, const void *x, bool ints,
                        int64_t H, int64_t n, int64_t m)
{
    if (!x) return;
    fprintf(j->to, ",\"%s\":[", name);
    for (int64_t h = 0; h < H; h++) {
        if (h) putc(',', j->to);
        print_rows(j,
                   ints ? (const void *)((const int32_t *)x + h * n * m)
                        : (const void *)((const float *)x + h * n * m),
                   ints, n, m);
    }
    putc(']', j->to);
}

static void print_flat(struct attention_job *j, const char *name, const float *x, int64_t H,
                       int64_t n)
{
    if (!x) return;
    fprintf(j->to, ",\"%s\":", name);
    print_rows(j, x, false, H, n);
}

static bool requested(const struct attention_job *j, int64_t layer)
{
    for (int64_t i = 0; i < j->layers; i++)
        if (j->layer[i] == layer) return true;
    return !j->layers;
}

static int print_layer(void *user, const struct qkv_layer_output *s)
{
    struct attention_job *j = user;
    const struct qkv_probe *p = s->probe;
    if (atomic_load(&j->job.call->gone)) return 1;
    if (s->layer < 0 || !p || !requested(j, s->layer)) return 0;
    fprintf(j->to, "%s{\"layer\":%lld", j->printed++ ? "," : "", (long long)s->layer);
    print_heads(j, "top_weight", p->top_weight, false, s->H, s->R, p->top_k);
    print_heads(j, "top_key", p->top_key, true, s->H, s->R, p->top_k);
    print_heads(j, "rows", p->row_weights, false, s->H, p->rows, s->S);
    print_flat(j, "entropy", p->entropy, s->H, s->R);
    print_flat(j, "distance", p->distance, s->H, s->R);
    print_flat(j, "received", p->received, s->H, s->S);
    print_flat(j, "offsets", p->offsets, s->H, 2 * p->reach + 1);
    print_heads(j, "tile_max", p->tile_max, false, s->H, p->side, p->side);
    print_heads(j, "tile_mean", p->tile_mean, false, s->H, p->side, p->side);
    putc('}', j->to);
    return 0;
}

static void print_tokens(FILE *to, const struct serve_model *m, const struct attention_job *j,
                         const int32_t *ids, const qkv_encoding *e, int64_t n)
{
    fputs("{\"model\":", to);
    cmd_json_text(to, m->name, strlen(m->name));
    fputs(",\"tokens\":[", to);
    for (int64_t i = 0; i < n; i++) {
        const char *raw = qkv_tokenizer_token(m->tokenizer, ids[i]);
        fprintf(to, "%s{\"id\":%" PRId32 ",\"token\":", i ? "," : "", ids[i]);
        if (raw)
            cmd_json_text(to, raw, strlen(raw));
        else
            fputs("null", to);
        fprintf(to, ",\"special\":%s",
                qkv_tokenizer_special(m->tokenizer, ids[i]) ? "true" : "false");
        if (!j->texts.ids && e->text[i] < 2)
            fprintf(to, ",\"begin\":%lld,\"end\":%lld", (long long)e->begin[i],
                    (long long)e->end[i]);
        putc('}', to);
    }
    fputs("],\"layers\":[", to);
}

// Returns the number of values of an answer for a text of n tokens, as a double, which no request
// can overflow.
static double count_values(const struct serve_model *m, const struct attention_job *j, int64_t n)
{
    const double N = (double)n, k = (double)(j->top_k < n ? j->top_k : n);
    const double head = N * (2 * k + (double)j->rows + j->entropy + j->distance + j->received) +
                        (j->offsets ? 2 * (double)j->reach + 1 : 0) +
                        2 * (double)j->side * (double)j->side;
    return head * (double)m->info.heads * (double)(j->layers ? j->layers : m->info.layers);
}

// ---- the run ------------------------------------------------------------------------------------
// Checks the length of the text and the rows and layers of the request; *param receives the member
// that an error is about.
static qkv_status check(const struct serve_model *m, const struct attention_job *j, int64_t n,
                        const char **param, qkv_error *err)
{
    const int64_t most = m->info.positions < TEXT_TOKENS ? m->info.positions : TEXT_TOKENS;
    if (!n || n > most)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "text has the wrong length, expected 1 to %lld tokens, found %lld",
                         (long long)most, (long long)n);
    *param = "$.rows";
    for (int64_t i = 0; i < j->rows; i++)
        if (j->row[i] >= n)
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "rows: expected indices of tokens below %lld, found %lld",
                             (long long)n, (long long)j->row[i]);
    *param = "$.layers";
    for (int64_t i = 0; i < j->layers; i++)
        if (j->layer[i] >= m->info.layers)
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "layers: expected layers below %lld, found %lld",
                             (long long)m->info.layers, (long long)j->layer[i]);
    *param = NULL;
    return QKV_OK;
}

static void run(struct serve_job *job)
{
    struct attention_job *j = (struct attention_job *)job;
    const struct serve_model *m = job->model;
    qkv_error err = { 0 };
    qkv_encoding e = { 0 };
    qkv_status status = QKV_OK;
    const char *param = "$.input";
    if (!j->texts.ids)
        status = qkv_tokenizer_encode(m->tokenizer, &e, *j->texts.text, *j->texts.bytes, NULL, 0,
                                      NULL, &err);
    const int32_t *ids = j->texts.ids ? j->texts.ids : e.ids;
    const int64_t n = j->texts.ids ? j->texts.offsets[1] : e.count;
    const int64_t offsets[] = { 0, n };
    const struct qkv_model_input in = { .sequences = 1,
                                        .offsets = offsets,
                                        .ids = ids,
                                        .types = j->texts.ids ? NULL : e.types,
                                        .options = &j->options };
    const struct qkv_observer observer = { .layer = print_layer,
                                           .user = j,
                                           .skip_qkv = true,
                                           .probe = { .top_k = j->top_k < n ? j->top_k : n,
                                                      .rows = j->rows,
                                                      .row = j->row,
                                                      .entropy = j->entropy,
                                                      .distance = j->distance,
                                                      .received = j->received,
                                                      .offsets = j->offsets,
                                                      .reach = j->reach,
                                                      .side = j->side } };
    if (!status) status = check(m, j, n, &param, &err);
    const double values = count_values(m, j, n);
    job->call->tokens = n;
    if (!status && values > ANSWER_VALUES) {
        qkv_encoding_free(&e);
        serve_fail(job->call, 413, "$.input",
                   "the answer would have %.0f values, expected at most %d: ask for fewer rows, "
                   "layers or statistics",
                   values, ANSWER_VALUES);
        return;
    }
    if (!status) {
        j->to = serve_answer(job->call, 200, "application/json");
        print_tokens(j->to, m, j, ids, &e, n);
        status = qkv_model_run(m->model, NULL, &in, &observer, &err);
    }
    qkv_encoding_free(&e);
    if (status) {
        serve_fail_with(job->call, &err, param ? param : page_param_of(&err));
        return;
    }
    if (j->nonfinite) {
        serve_fail(job->call, 500, NULL, "the model computed attention that is not finite");
        return;
    }
    fputs("]}\n", j->to);
    serve_send(job->call);
}

// ---- the request --------------------------------------------------------------------------------
static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// Reads an array of different numbers from 0, and sorts it.
static bool read_numbers(struct serve_call *c, int64_t **out, int64_t *count, const qkv_json *v,
                         const char *path)
{
    const int64_t n = qkv_json_length(v);
    bool valid = !v || (qkv_json_kind_of(v) == QKV_JSON_ARRAY && n <= ROWS);
    if (!v) return true;
    *out = valid ? calloc((size_t)n + 1, sizeof **out) : NULL;
    for (int64_t i = 0; valid && *out && i < n; i++)
        valid = qkv_json_get_integer(qkv_json_element(v, i), &(*out)[i]) && (*out)[i] >= 0;
    if (valid && *out) qsort(*out, (size_t)n, sizeof **out, ascending);
    for (int64_t i = 1; valid && *out && i < n; i++) valid = (*out)[i] != (*out)[i - 1];
    *count = n;
    if (!valid)
        serve_fail(c, 400, path, "%s: expected an array of at most %d different numbers from 0",
                   path, ROWS);
    else if (!*out)
        serve_fail(c, 503, NULL, "out of memory");
    return valid && *out;
}

// Answers with the page of a text; *page has the members that only a page has.
static void answer_page(struct serve_call *c, struct serve_model *m, const struct attention_job *j,
                        struct page_request *page)
{
    if (j->texts.ids) {
        serve_fail(c, 400, "$.input", "$.input: a page needs a text, found token ids");
        return;
    }
    page->text = j->texts.text[0];
    page->bytes = j->texts.bytes[0];
    page->options = j->options;
    page->ablate = j->ablate;
    serve_page(c, m, page);
}

void endpoint_attention(struct serve_call *c)
{
    const char *model = NULL;
    const qkv_json *input = NULL, *rows = NULL, *layers = NULL, *heads = NULL;
    int64_t reach = -1;
    double scale = 1;
    struct page_request own = { .temperature = 1, .top_p = 1 };
    struct attention_job *j = calloc(1, sizeof *j);
    if (!j) {
        serve_fail(c, 503, NULL, "out of memory");
        return;
    }
    j->top_k = 4;
    j->entropy = true;
    const struct serve_field fields[] = {
        { .name = "input", .kind = FIELD_ANY, .to = &input },
        { .name = "model", .kind = FIELD_TEXT, .to = &model },
        { .name = "layers", .kind = FIELD_ANY, .to = &layers },
        { .name = "rows", .kind = FIELD_ANY, .to = &rows },
        { .name = "top_k", .kind = FIELD_INTEGER, .to = &j->top_k, .max = 1024 },
        { .name = "entropy", .kind = FIELD_BOOLEAN, .to = &j->entropy },
        { .name = "distance", .kind = FIELD_BOOLEAN, .to = &j->distance },
        { .name = "received", .kind = FIELD_BOOLEAN, .to = &j->received },
        { .name = "reach", .kind = FIELD_INTEGER, .to = &reach, .max = 4096 },
        { .name = "tiles", .kind = FIELD_INTEGER, .to = &j->side, .max = 256 },
        { .name = "ablate", .kind = FIELD_ANY, .to = &heads },
        { .name = "score_scale", .kind = FIELD_NUMBER, .to = &scale, .min = 1e-3, .max = 1e3 },
        { .name = "against", .kind = FIELD_TEXT, .to = &own.against },
        { .name = "live", .kind = FIELD_BOOLEAN, .to = &own.live },
        { .name = "temperature",
          .kind = FIELD_NUMBER,
          .to = &own.temperature,
          .min = 1e-2,
          .max = 100 },
        { .name = "top_p", .kind = FIELD_NUMBER, .to = &own.top_p, .min = 1e-3, .max = 1 },
        { .name = NULL }
    };
    struct serve_model *m = NULL;
    const bool read = serve_body(c, fields) && read_numbers(c, &j->row, &j->rows, rows, "$.rows") &&
                      read_numbers(c, &j->layer, &j->layers, layers, "$.layers") &&
                      page_heads_read(c, &j->ablate, &j->options.ablations, heads) &&
                      serve_texts_read(c, &j->texts, input, "$.input", 1, TEXTS_IDS) &&
                      (m = serve_model_of(c, model)) && page_possible(c, m);
    j->offsets = reach >= 0;
    j->reach = reach >= 0 ? reach : 0;
    j->options.score_scale = (float)scale;
    j->options.ablate = j->ablate;
    const char *accept = http_request_field(c->request, "accept");
    const bool page = accept && strncmp(accept, "text/html", 9) == 0;
    j->job.run = run;
    j->job.free = free_job;
    if (read && !page && !own.against && !own.live) {
        const int64_t n = serve_text_cost(&j->texts, 0);
        const double values = count_values(m, j, n);
        // to write a value takes a small part of the time of a token
        j->job.cost = n + (int64_t)(values < ANSWER_VALUES ? values : ANSWER_VALUES) / 256;
        serve_queue(c, m, j);
        return;
    }
    if (read && page)
        answer_page(c, m, j, &own);
    else if (read)
        serve_fail(c, 400, own.against ? "$.against" : "$.live",
                   "against and live are members of a page, expected the header Accept: text/html");
    free_job(&j->job);
}
