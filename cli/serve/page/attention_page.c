// SPDX-License-Identifier: MIT
// attention_page.c: runs an open model on a text and writes the page of `qkv view`.
#include "serve/page/attention_page.h"
#include <stdlib.h>
#include <string.h>

static void describe_tokens(struct attention_view *a, const struct serve_model *m, const char *text,
                            size_t bytes)
{
    const qkv_encoding *e = &a->encoding;
    for (int64_t i = 0; i < e->count; i++) {
        struct qkv_view_token *t = &a->token[i];
        t->raw = qkv_tokenizer_token(m->tokenizer, e->ids[i]);
        if (!t->raw) t->raw = "";
        t->special = e->text[i] > 1;
        if (t->special || e->end[i] <= e->begin[i]) continue;
        t->begin = e->begin[i];
        t->end = e->end[i];
        t->text = text + t->begin;
        t->text_bytes = (size_t)(t->end - t->begin);
    }
    a->text = (struct qkv_view_text){ .token = a->token, .tokens = e->count };
    a->text.source[0] = text;
    a->text.source_bytes[0] = bytes;
}

static void describe_stack(struct attention_view *a, const struct serve_model *m)
{
    const struct qkv_model_info *i = &m->info;
    a->stack = (struct qkv_view_stack){ .name = "attention",
                                        .layers = i->layers,
                                        .heads = i->heads,
                                        .kv_heads = i->kv_heads,
                                        .head_width = i->head_width,
                                        .value_width = i->value_width,
                                        .width = i->width,
                                        .causal = i->causal };
    a->shape = (struct qkv_view_shape){
        .model = m->name, .text = &a->text, .texts = 1, .stack = &a->stack, .stacks = 1
    };
}

static int add_layer(void *user, const struct qkv_layer_output *s)
{
    struct attention_view *a = user;
    if (atomic_load(a->gone)) return 1;
    if (s->layer >= 0) {
        const struct qkv_view_layer_data seen = { .q = a->probed ? NULL : s->q,
                                                  .k = a->probed ? NULL : s->k,
                                                  .v = a->probed ? NULL : s->v,
                                                  .x = a->probed ? NULL : a->x,
                                                  .lse = a->probed ? NULL : s->lse,
                                                  .probe = a->probed ? s->probe : NULL,
                                                  .relative = s->relative,
                                                  .reach = s->reach,
                                                  .scale = s->scale,
                                                  .softcap = s->softcap,
                                                  .window = true,
                                                  .left = s->left,
                                                  .right = s->right };
        if (qkv_view_layer(a->view, 0, s->layer, &seen, &a->err) ||
            qkv_view_residual(a->view, 0, s->layer, a->x, s->stream, &a->err))
            return 1;
    }
    if (s->hidden) memcpy(a->x, s->hidden, (size_t)(s->R * a->stack.width) * sizeof *a->x);
    return 0;
}

static qkv_status run(struct attention_view *a, const struct serve_model *m,
                      const struct qkv_run_options *options, qkv_error *err)
{
    const int64_t offsets[] = { 0, a->encoding.count };
    const struct qkv_model_input in = { .sequences = 1,
                                        .offsets = offsets,
                                        .ids = a->encoding.ids,
                                        .types = a->encoding.types,
                                        .options = options };
    a->probed = qkv_view_probe_request(a->view, 0, &a->request);
    const struct qkv_observer observer = {
        .layer = add_layer, .user = a, .probe = a->request, .sublayers = true, .skip_qkv = a->probed
    };
    const qkv_status status = qkv_model_run(m->model, NULL, &in, &observer, err);
    if (a->err.status) *err = a->err; // the run only reports that the observer stopped it
    return a->err.status ? a->err.status : status;
}

qkv_status attention_view_make(struct attention_view *a, const struct serve_model *m,
                               const char *text, size_t bytes, bool truncate,
                               const struct qkv_run_options *options, const atomic_bool *gone,
                               double *rows, qkv_error *err)
{
    *a = (struct attention_view){ .gone = gone };
    const struct qkv_encode_options how = { .max_length = truncate ? m->info.positions : 0,
                                            .truncate = truncate };
    qkv_status status =
        qkv_tokenizer_encode(m->tokenizer, &a->encoding, text, bytes, NULL, 0, &how, err);
    const int64_t n = a->encoding.count;
    if (!status && (!n || n > m->info.positions))
        status = cmd_error(err, QKV_ERR_USAGE, NULL,
                           "text has the wrong length, expected 1 to %lld tokens, found %lld",
                           (long long)m->info.positions, (long long)n);
    *rows = (double)n * (double)m->info.heads * (double)m->info.layers;
    if (!status && *rows > PAGE_ROWS)
        status = cmd_error(err, QKV_ERR_LIMIT, NULL,
                           "the page would have %.0f rows of weights (tokens x heads x layers), "
                           "expected at most %d: the text has %lld tokens",
                           *rows, PAGE_ROWS, (long long)n);
    if (status) return status;
    a->token = calloc((size_t)n, sizeof *a->token);
    a->x = calloc((size_t)n * (size_t)m->info.width, sizeof *a->x);
    if (!a->token || !a->x) return cmd_no_memory(err);
    describe_tokens(a, m, text, bytes);
    describe_stack(a, m);
    status = qkv_view_new(&a->view, &a->shape, err);
    return status ? status : run(a, m, options, err);
}

void attention_view_free(struct attention_view *a)
{
    qkv_view_free(a->view);
    qkv_encoding_free(&a->encoding);
    free(a->token);
    free(a->x);
    *a = (struct attention_view){ 0 };
}

qkv_status attention_page(char **html, size_t *size, const struct attention_view *a,
                          const char *server, qkv_error *err)
{
    const struct qkv_view_options how = { .server = server };
    char path[32];
    FILE *f = tmpfile(); // a page is written to a descriptor
    *html = NULL;
    if (!f) return cmd_error(err, QKV_ERR_IO, NULL, "no temporary file for the page");
    snprintf(path, sizeof path, "/dev/fd/%d", fileno(f));
    qkv_status status = qkv_view_html(a->view, path, true, &how, NULL, err);
    const long n = !status && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    if (!status && n < 0) status = cmd_error(err, QKV_ERR_IO, NULL, "the page cannot be read");
    if (!status && !(*html = malloc((size_t)n + 1))) status = cmd_no_memory(err);
    if (!status) {
        rewind(f);
        *size = fread(*html, 1, (size_t)n, f);
        if (*size != (size_t)n) status = cmd_error(err, QKV_ERR_IO, NULL, "the page is cut");
    }
    if (status) free(*html);
    fclose(f);
    return status;
}
