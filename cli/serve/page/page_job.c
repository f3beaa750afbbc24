// SPDX-License-Identifier: MIT
// page_job.c: answers with the page of `qkv view`, for GET / and POST /v1/attention. The page of a
// browser (`live`) also gets how much ablated heads and another scale change the output: the vector
// of the text, or the probabilities of the next token.
#include "serve/page/attention_page.h"
#include "serve/service.h"
#include "view/token_text.h"
#include <qkv/lens.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 4096, NEXT = 8, TOP = 5 };

struct page_job {
    struct serve_job job;
    struct page_request of;
    struct qkv_ablation *ablate;
};

static void free_job(struct serve_job *job)
{
    free(((struct page_job *)job)->ablate);
    free(job);
}

// ---- the change of the output -------------------------------------------------------------------
// Writes p[V], the softmax of the logits p[V].
static void softmax(float *p, int64_t V)
{
    double most = -(double)INFINITY, sum = 0;
    for (int64_t v = 0; v < V; v++) most = fmax(most, (double)p[v]);
    for (int64_t v = 0; v < V; v++) sum += exp((double)p[v] - most);
    for (int64_t v = 0; v < V; v++) p[v] = (float)(exp((double)p[v] - most) / sum);
}

// Prints the cosine of the vectors from two runs, hidden[2][n][D].
static qkv_status print_vector(FILE *to, const struct serve_model *m, const float *const hidden[2],
                               int64_t n, qkv_error *err)
{
    const int64_t W = qkv_embedder_width(m->embedder);
    float *v = calloc((size_t)W * 2, sizeof *v);
    qkv_status status = v ? QKV_OK : cmd_no_memory(err);
    for (int i = 0; i < 2 && !status; i++)
        status = qkv_embed_hidden(m->embedder, v + i * W, hidden[i], n, err);
    if (!status) {
        fputs(",\"vector\":", to);
        cmd_json_float(to, qkv_cosine(v, v + W, W));
    }
    free(v);
    return status;
}

// Applies temperature and top_p to the logits x[V] of the token after ids[n], as generation does.
static qkv_status sample(float *x, int64_t V, const qkv_encoding *e, const struct page_request *r,
                         qkv_error *err)
{
    const struct qkv_sampling how = { .temperature = r->temperature, .top_p = r->top_p };
    qkv_sampler *s = NULL;
    int32_t id;
    qkv_status status = qkv_sampler_new(&s, V, &how, err);
    if (!status) status = qkv_sampler_next(s, &id, x, e->ids, e->count, e->count, 0, err);
    qkv_sampler_free(s);
    return status;
}

// Prints the most likely next tokens as [[text, probability, probability in the plain run,
// probability with temperature and top_p], ...].
static qkv_status print_next(FILE *to, const struct serve_model *m, const float *const hidden[2],
                             const qkv_encoding *e, const struct page_request *r, qkv_error *err)
{
    const int64_t V = m->info.vocab, D = m->info.width, last = (e->count - 1) * D;
    float *p = calloc((size_t)V, 3 * sizeof *p);
    qkv_status status = p ? QKV_OK : cmd_no_memory(err);
    for (int i = 0; i < 3 && !status; i++) {
        status = qkv_model_logits(m->model, p + i * V, hidden[i == 1] + last, 1, err);
        if (!status && i == 2) status = sample(p + i * V, V, e, r, err);
        if (!status) softmax(p + i * V, V);
    }
    if (!status) fputs(",\"next\":[", to);
    for (int64_t k = 0; k < NEXT && k < V && !status; k++) {
        int64_t best = 0;
        for (int64_t v = 1; v < V; v++)
            if (p[v] > p[best]) best = v;
        char *text = token_text(m->tokenizer, (int32_t)best);
        if (!text) {
            status = cmd_no_memory(err);
            break;
        }
        fputs(k ? ",[" : "[", to);
        cmd_json_text(to, text, strlen(text));
        putc(',', to);
        cmd_json_float(to, p[best]);
        putc(',', to);
        cmd_json_float(to, p[V + best]);
        putc(',', to);
        cmd_json_float(to, p[2 * V + best]);
        putc(']', to);
        p[best] = -1; // each token once
        free(text);
    }
    if (!status) putc(']', to);
    free(p);
    return status;
}

// Prints the change of the output as members of a JSON object.
static qkv_status print_change(FILE *to, const struct serve_model *m,
                               const struct attention_view *a, const struct page_request *r,
                               qkv_error *err)
{
    const bool next = m->info.kind == QKV_KIND_DECODER && m->info.can & QKV_CAN_TOKENS;
    const int64_t n = a->encoding.count, offsets[] = { 0, n };
    const struct qkv_model_input in = {
        .sequences = 1, .offsets = offsets, .ids = a->encoding.ids, .types = a->encoding.types
    };
    const bool same =
        !r->options.ablations && (r->options.score_scale == 0 || r->options.score_scale == 1);
    float *plain = NULL;
    qkv_status status = QKV_OK;
    if (!next && (!m->embedder || same)) return QKV_OK;
    if (!same) {
        plain = calloc((size_t)n * (size_t)m->info.width, sizeof *plain);
        status = plain ? qkv_model_run(m->model, plain, &in, NULL, err) : cmd_no_memory(err);
    }
    const float *const hidden[] = { a->x, same ? a->x : plain };
    if (!status)
        status = next ? print_next(to, m, hidden, &a->encoding, r, err)
                      : print_vector(to, m, hidden, n, err);
    free(plain);
    return status;
}

// Writes the JSON object that the script of the page reads (docs/serve.md). The caller frees it.
static qkv_status describe(char **json, const struct serve_model *m, const struct attention_view *a,
                           const struct page_request *r, qkv_error *err)
{
    size_t bytes = 0;
    char name[48];
    *json = NULL;
    FILE *to = open_memstream(json, &bytes);
    if (!to) return cmd_no_memory(err);
    fputs("{\"model\":", to);
    cmd_json_text(to, m->name, strlen(m->name));
    fputs(",\"text\":", to);
    cmd_json_text(to, r->text, r->bytes);
    if (r->against) {
        fputs(",\"against\":", to);
        cmd_json_text(to, r->against, strlen(r->against));
    }
    fputs(",\"ablate\":[", to);
    for (int64_t i = 0; i < r->options.ablations; i++) {
        qkv_ablation_name(name, sizeof name, &r->ablate[i]);
        fprintf(to, "%s\"%s\"", i ? "," : "", name);
    }
    fputs("],\"scoreScale\":", to);
    cmd_json_float(to, r->options.score_scale > 0 ? r->options.score_scale : 1);
    qkv_status status = print_change(to, m, a, r, err);
    putc('}', to);
    return fclose(to) && !status ? cmd_no_memory(err) : status;
}

// ---- the view output ---------------------------------------------------------------------------
// Adds what a decoder predicts after the last token, by layer, in the run of the page. One position
// costs as many rows of the output head as the model has layers.
static qkv_status add_next(struct attention_view *a, const struct serve_model *m,
                           const struct qkv_run_options *options, qkv_error *err)
{
    const int64_t n = a->encoding.count, V = m->info.vocab, last = n - 1, top = V < TOP ? V : TOP;
    const int64_t offsets[] = { 0, n };
    const struct qkv_model_input in = { .sequences = 1,
                                        .offsets = offsets,
                                        .ids = a->encoding.ids,
                                        .types = a->encoding.types,
                                        .options = options };
    struct qkv_lens x = { 0 };
    if (m->info.kind != QKV_KIND_DECODER || !(m->info.can & QKV_CAN_TOKENS)) return QKV_OK;
    qkv_status status = qkv_lens(&x, m->model, &in, &last, 1, top, err);
    if (status) return status;
    const int64_t cells = x.rows * top;
    char **name = calloc((size_t)cells, sizeof *name);
    int32_t *entry = calloc((size_t)cells, sizeof *entry);
    float *value = calloc((size_t)cells, sizeof *value);
    if (!name || !entry || !value) status = cmd_no_memory(err);
    for (int64_t i = 0; i < cells && !status; i++) {
        name[i] = token_text(m->tokenizer, x.tokens[i].id);
        entry[i] = (int32_t)i;
        value[i] = x.tokens[i].value;
        if (!name[i]) status = cmd_no_memory(err);
    }
    const struct qkv_view_output output = { .kind = QKV_VIEW_OUTPUT_NEXT,
                                            .positions = 1,
                                            .all = n,
                                            .rows = x.rows,
                                            .top = top,
                                            .at = x.at,
                                            .name = (const char *const *)name,
                                            .names = cells,
                                            .entry = entry,
                                            .value = value,
                                            .target = x.target, // -1: the text ends here
                                            .target_value = x.target_probability,
                                            .target_rank = x.target_rank };
    if (!status) status = qkv_view_output_add(a->view, 0, &output, err);
    for (int64_t i = 0; i < cells && name; i++) free(name[i]);
    free(name);
    free(entry);
    free(value);
    qkv_lens_free(&x);
    return status;
}

// ---- the page -----------------------------------------------------------------------------------
static qkv_status make(char **html, size_t *size, struct page_job *j, double *rows, qkv_error *err)
{
    const struct page_request *r = &j->of;
    const struct serve_model *m = j->job.model;
    struct serve_call *c = j->job.call;
    struct attention_view a = { 0 }, other = { 0 };
    char *server = NULL;
    qkv_status status = attention_view_make(&a, m, r->text, r->bytes, r->truncate, &r->options,
                                            &c->gone, rows, err);
    c->tokens = a.encoding.count;
    if (!status && r->against) {
        status = attention_view_make(&other, m, r->against, strlen(r->against), false, &r->options,
                                     &c->gone, rows, err);
        c->tokens += other.encoding.count;
        if (!status) status = qkv_view_compare(a.view, other.view, err);
    }
    if (!status) status = add_next(&a, m, &r->options, err);
    if (!status && r->live) status = describe(&server, m, &a, r, err);
    if (!status) status = attention_page(html, size, &a, server, err);
    attention_view_free(&a);
    attention_view_free(&other);
    free(server);
    return status;
}

const char *page_param_of(const qkv_error *err)
{
    static const char heads[] = "cannot ablate "; // begins each error of a list of heads
    return strncmp(err->text, heads, sizeof heads - 1) ? "$.input" : "$.ablate";
}

static void run_page(struct serve_job *job)
{
    struct page_job *j = (struct page_job *)job;
    qkv_error err = { 0 };
    char *html = NULL;
    size_t size = 0;
    double rows = 0;
    if (make(&html, &size, j, &rows, &err)) {
        if (rows > PAGE_ROWS)
            serve_fail(job->call, 413, "$.input", "%s", err.text);
        else
            serve_fail_with(job->call, &err, page_param_of(&err));
        return;
    }
    fwrite(html, 1, size, serve_answer(job->call, 200, "text/html; charset=utf-8"));
    free(html);
    serve_send(job->call);
}

bool page_possible(struct serve_call *c, const struct serve_model *m)
{
    if (m->info.kind != QKV_KIND_ENCODER_DECODER && m->info.can & QKV_CAN_RUN) return true;
    serve_fail(
        c, 422, "$.model",
        "model %s has not one stack of layers with attention; 'qkv view' shows its attention",
        m->name);
    return false;
}

bool page_heads_read(struct serve_call *c, struct qkv_ablation **list, int64_t *n,
                     const qkv_json *v)
{
    qkv_error err = { 0 };
    *list = NULL;
    *n = 0;
    if (!v) return true;
    if (qkv_json_kind_of(v) != QKV_JSON_ARRAY || qkv_json_length(v) > HEADS) {
        serve_fail(c, 400, "$.ablate",
                   "$.ablate: expected an array of at most %d names of heads such as \"L3.H1\"",
                   HEADS);
        return false;
    }
    *list = calloc((size_t)qkv_json_length(v) + 1, sizeof **list);
    for (int64_t i = 0; *list && i < qkv_json_length(v); i++, ++*n) {
        size_t bytes = 0;
        const char *name = qkv_json_get_string(qkv_json_element(v, i), &bytes);
        if (qkv_ablation_parse(&(*list)[i], name ? name : "", bytes, &err)) {
            serve_fail(c, 400, "$.ablate", "$.ablate[%lld]: %s", (long long)i, err.text);
            return false;
        }
    }
    if (!*list) serve_fail(c, 503, NULL, "out of memory");
    return *list != NULL;
}

void serve_page(struct serve_call *c, struct serve_model *m, const struct page_request *r)
{
    struct page_job *j = calloc(1, sizeof *j);
    const size_t n = (size_t)r->options.ablations;
    if (!j || !(j->ablate = calloc(n + 1, sizeof *j->ablate))) {
        free(j);
        serve_fail(c, 503, NULL, "out of memory");
        return;
    }
    if (n) memcpy(j->ablate, r->ablate, n * sizeof *j->ablate);
    j->of = *r;
    j->of.ablate = j->of.options.ablate = j->ablate;
    j->job.run = run_page;
    j->job.free = free_job;
    // to write a row of weights takes an eighth of the time of a token, about
    const int64_t tokens = (int64_t)(r->bytes + (r->against ? strlen(r->against) : 0)) / 4 + 2;
    const int64_t rows = tokens * m->info.heads * m->info.layers;
    j->job.cost = tokens + (rows < PAGE_ROWS ? rows : PAGE_ROWS) / 8;
    serve_queue(c, m, j);
}

void endpoint_page(struct serve_call *c)
{
    struct serve_model *m = serve_model_of(c, NULL);
    const char *text = service_options.page_text;
    const struct page_request r = { .text = text,
                                    .bytes = strlen(text),
                                    .live = true,
                                    .truncate = true,
                                    .temperature = 1,
                                    .top_p = 1 };
    if (m && page_possible(c, m)) serve_page(c, m, &r);
}
