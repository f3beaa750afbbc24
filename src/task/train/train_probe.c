// SPDX-License-Identifier: MIT
// train_probe.c: computes statistics of each head's attention on one fixed sentence, and writes
// them as a line of probes.jsonl:
//
//   {"step": n, "tokens": [...], "heads": [[{"entropy": bits, "distance": tokens, "top": [key of
//   each row], "received": [weight of each key]}, ...], ...]}
#include "task/train/train_internal.h"
#include <math.h>
#include <string.h>

#define LN2 0.69314718055994530942
enum { DEFAULT_TOKENS = 24, MOST_TOKENS = 512 };

// Tokenizes the sentence: the text that the options give or, without one, the first text of the
// valid split.
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
    qkv_status status = qkv_data_valid(t->data, &d, 0, &one, err);
    if (!status) {
        const struct qkv_sequences *in =
            t->objective == QKV_OBJECTIVE_SEQ2SEQ ? &d.batch.source : &d.batch.in;
        const int64_t n = qkv_min64(in->offsets[1], DEFAULT_TOKENS);
        e->ids = qkv_alloc((size_t)n, sizeof *e->ids);
        e->count = e->ids ? n : 0;
        if (e->ids)
            memcpy(e->ids, in->ids, (size_t)n * sizeof *e->ids);
        else
            status = qkv_fail_memory(err, NULL);
    }
    qkv_drawn_free(&d);
    return status;
}

// The line that is being built: the statistics of each layer are appended in the order of the
// layers.
struct line {
    json_t *layers; // JSON array with an element per layer; NULL: memory is exhausted
    int64_t tokens, heads;
};

// Returns x[n] as a JSON array of numbers with 4 decimal places.
static json_t *shorter(const float *x, int64_t n)
{
    json_t *to = json_array();
    for (int64_t i = 0; i < n && to; i++)
        if (json_array_append_new(to, json_real(round((double)x[i] * 1e4) / 1e4))) {
            json_decref(to);
            to = NULL;
        }
    return to;
}

// Returns the statistics of one head as JSON: the mean entropy of a row's weights in bits; the mean
// distance between a row and its keys in tokens; the key with the largest weight of each row; and
// the weight that each key receives from all rows.
static json_t *head(const struct line *l, const struct qkv_probe *p, int64_t h)
{
    const int64_t n = l->tokens, at = h * n;
    json_t *top = json_array(), *received = shorter(p->received + at, n);
    double bits = 0, distance = 0;
    bool ok = top && received;
    for (int64_t i = 0; i < n && ok; i++) {
        bits += (double)p->entropy[at + i] / LN2;
        distance += (double)p->distance[at + i];
        ok = json_array_append_new(top, json_integer(p->top_key[at + i])) == 0;
    }
    if (ok)
        return json_pack("{sfsfsoso}", "entropy", bits / (double)n, "distance",
                         distance / (double)n, "top", top, "received", received);
    json_decref(top);
    json_decref(received);
    return NULL;
}

static void add_layer(void *user, int64_t layer, const struct qkv_probe *p)
{
    struct line *l = user;
    json_t *heads = json_array();
    bool ok = heads && l->layers;
    (void)layer;
    for (int64_t h = 0; h < l->heads && ok; h++)
        ok = json_array_append_new(heads, head(l, p, h)) == 0;
    if (ok && json_array_append_new(l->layers, heads) == 0) return;
    if (!ok) json_decref(heads);
    json_decref(l->layers);
    l->layers = NULL;
}

static json_t *line_of(const struct train *t, const qkv_encoding *e, struct line *l)
{
    json_t *tokens = json_array();
    bool ok = tokens && l->layers;
    for (int64_t i = 0; i < e->count && ok; i++) {
        const char *text = qkv_tokenizer_token(t->tokenizer, e->ids[i]);
        ok = json_array_append_new(tokens, json_string(text ? text : "")) == 0;
    }
    if (ok)
        return json_pack("{sIsoso}", "step", (json_int_t)t->state.step, "tokens", tokens, "heads",
                         l->layers);
    json_decref(tokens);
    json_decref(l->layers);
    return NULL;
}

qkv_status train_probe(struct train *t, qkv_error *err)
{
    static const struct qkv_probe_request request = {
        .top_k = 1, .received = true, .entropy = true, .distance = true
    };
    qkv_encoding e = { 0 };
    qkv_status status = sentence(t, &e, err);
    if (!status && e.count > 0) {
        const int64_t offsets[2] = { 0, e.count };
        const struct qkv_sequences in = { .n = 1, .offsets = offsets, .ids = e.ids };
        struct line l = { json_array(), e.count, qkv_net_shape(t->net)->heads };
        status = qkv_net_probe(t->net, &request, add_layer, &l, &in, err);
        json_t *line = status ? NULL : line_of(t, &e, &l);
        if (status)
            json_decref(l.layers);
        else if (!line)
            status = qkv_fail_memory(err, NULL);
        if (line) train_log_line(&t->probes, line);
        json_decref(line);
    }
    qkv_encoding_free(&e);
    return status;
}
