// SPDX-License-Identifier: MIT
// train_probe.c: what each head looks at in one sentence that stays the same: a line of
// probes.jsonl.
//
//   {"step": n, "tokens": [...], "heads": [[{"entropy": bits, "top": [key of each row]}, ...], ...]}
#include "task/train_work.h"
#include <math.h>
#include <string.h>

enum { DEFAULT_TOKENS = 24, MOST_TOKENS = 512 };

// The sentence: as given, or the first text of validation.
static qkv_status sentence(const struct train *t, qkv_encoding *e, qkv_error *err)
{
    const struct qkv_encode_options how = { .max_length = qkv_min64(MOST_TOKENS, t->o->context),
                                            .truncate = true };
    if (t->o->probe_text)
        return qkv_tokenizer_encode(t->tokenizer, e, t->o->probe_text, strlen(t->o->probe_text),
                                    NULL, 0, &how, err);
    struct qkv_drawn d = { 0 };
    struct qkv_draw one = t->draw;
    one.tokens = one.sequences = 1;
    qkv_status s = qkv_data_valid(t->data, &d, 0, &one, err);
    if (!s) {
        const struct qkv_sequences *in =
            t->objective == QKV_OBJECTIVE_SEQ2SEQ ? &d.batch.source : &d.batch.in;
        const int64_t n = qkv_min64(in->offsets[1], DEFAULT_TOKENS);
        e->ids = qkv_alloc((size_t)n, sizeof *e->ids);
        e->count = e->ids ? n : 0;
        if (e->ids)
            memcpy(e->ids, in->ids, (size_t)n * sizeof *e->ids);
        else
            s = qkv_fail_memory(err, NULL);
    }
    qkv_drawn_free(&d);
    return s;
}

// One head: bits of entropy of a row's weights, averaged; the largest weight's key of each row.
static json_t *head(const real *w, int64_t n)
{
    json_t *top = json_array();
    double bits = 0;
    bool ok = top != NULL;
    for (int64_t i = 0; i < n && ok; i++) {
        int64_t best = 0;
        for (int64_t j = 0; j < n; j++) {
            const double x = (double)w[i * n + j];
            if (x > 0) bits -= x * log2(x);
            if (w[i * n + j] > w[i * n + best]) best = j;
        }
        ok = json_array_append_new(top, json_integer(best)) == 0;
    }
    if (ok) return json_pack("{sfso}", "entropy", bits / (double)n, "top", top);
    json_decref(top);
    return NULL;
}

static json_t *line_of(const struct train *t, const qkv_encoding *e, const real *w)
{
    const struct qkv_net_shape *shape = qkv_net_shape(t->net);
    const int64_t n = e->count;
    json_t *tokens = json_array(), *layers = json_array();
    bool ok = tokens && layers;
    for (int64_t i = 0; i < n && ok; i++) {
        const char *text = qkv_tokenizer_token(t->tokenizer, e->ids[i]);
        ok = json_array_append_new(tokens, json_string(text ? text : "")) == 0;
    }
    for (int64_t l = 0; l < shape->layers && ok; l++) {
        json_t *heads = json_array();
        ok = heads != NULL;
        for (int64_t h = 0; h < shape->heads && ok; h++)
            ok = json_array_append_new(heads, head(w + (l * shape->heads + h) * n * n, n)) == 0;
        ok = json_array_append_new(layers, heads) == 0 && ok;
    }
    if (ok)
        return json_pack("{sIsoso}", "step", (json_int_t)t->state.step, "tokens", tokens, "heads",
                         layers);
    json_decref(tokens);
    json_decref(layers);
    return NULL;
}

qkv_status train_probe(struct train *t, qkv_error *err)
{
    const struct qkv_net_shape *shape = qkv_net_shape(t->net);
    qkv_encoding e = { 0 };
    qkv_status s = sentence(t, &e, err);
    real *w = NULL;
    if (!s && e.count > 0) {
        const int64_t offsets[2] = { 0, e.count };
        const struct qkv_sequences in = { .n = 1, .offsets = offsets, .ids = e.ids };
        size_t each;
        if (qkv_mul_size(&each, (size_t)(e.count * e.count),
                         (size_t)(shape->layers * shape->heads)))
            w = qkv_alloc(each, sizeof *w);
        s = w ? qkv_net_attention(t->net, w, &in, err) : qkv_fail_memory(err, NULL);
        if (!s) {
            json_t *line = line_of(t, &e, w);
            train_log_line(&t->probes, line);
            json_decref(line);
        }
    }
    qkv_free(w);
    qkv_encoding_free(&e);
    return s;
}
