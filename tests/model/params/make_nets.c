// SPDX-License-Identifier: MIT
// make_nets.c: make_nets DIR: saves models of every architecture that transformers has, new or
// fine-tuned from a folder of tests/golden, below DIR, each with its results, for `golden_net.py
// check DIR`.
#include "model/params/net_layers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { T = 9, S = 7 };

static void must(bool ok, const char *what, const qkv_error *err)
{
    if (ok) return;
    fprintf(stderr, "%s: %s %s %s\n", what, err->file, err->path, err->text);
    exit(1);
}

// Computes log-probabilities of all tokens after each of T tokens, from the losses of each.
static void compute(float *out, qkv_net *n, const int32_t *ids, const int32_t *source)
{
    const int64_t offsets[] = { 0, T }, from[] = { 0, S }, V = n->shape.vocab;
    qkv_error err = { 0 };
    struct qkv_net_batch b = { .in = { 1, offsets, ids, NULL },
                               .source = { 1, from, source, NULL } };
    int32_t targets[T];
    b.targets = targets;
    b.objective = n->kind == QKV_NET_DECODER   ? QKV_OBJECTIVE_CAUSAL
                  : n->kind == QKV_NET_ENCODER ? QKV_OBJECTIVE_MASKED
                                               : QKV_OBJECTIVE_SEQ2SEQ;
    for (int64_t t = 0; t < T; t++)
        for (int64_t v = 0; v < V; v++) {
            struct qkv_loss loss = { 0 };
            for (int64_t r = 0; r < T; r++) targets[r] = r == t ? (int32_t)v : -1;
            must(!qkv_net_run(n, &loss, &b, false, 1, 0, 0, &err), "run", &err);
            out[t * V + v] = (float)-loss.sum;
        }
}

// Computes the log-probabilities of labels for the whole text.
static void compute_labels(float *out, qkv_net *n, const int32_t *ids)
{
    const int64_t offsets[] = { 0, T };
    qkv_error err = { 0 };
    for (int32_t k = 0; k < n->shape.labels; k++) {
        const struct qkv_net_batch b = { .objective = QKV_OBJECTIVE_CLASSIFY,
                                         .in = { 1, offsets, ids, NULL },
                                         .targets = &k };
        struct qkv_loss loss = { 0 };
        must(!qkv_net_run(n, &loss, &b, false, 1, 0, 0, &err), "run", &err);
        out[k] = (float)-loss.sum;
    }
}

static void keep(qkv_net *n, const char *dir, const char *name)
{
    char path[600];
    qkv_error err = { 0 };
    int32_t ids[T], source[S];
    const int64_t V = n->shape.labels ? n->shape.labels : n->shape.vocab;
    const int64_t rows = n->shape.labels ? 1 : T;
    float *logits = calloc((size_t)(rows * V), sizeof *logits);
    for (int i = 0; i < T; i++) ids[i] = 3 + (i * 7 + 1) % 30;
    for (int i = 0; i < S; i++) source[i] = 3 + (i * 5 + 2) % 30;
    must(logits, "memory", &err);
    if (n->shape.labels)
        compute_labels(logits, n, ids);
    else
        compute(logits, n, ids, source);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    mkdir(path, 0777);
    must(!qkv_net_save(n, path, QKV_F32, &err), "save", &err);
    const bool pair = n->kind == QKV_NET_ENCODER_DECODER;
    const struct qkv_tensor t[] = {
        { .name = "logits", .dtype = QKV_F32, .rank = 2, .shape = { rows, V } },
        { .name = "ids", .dtype = QKV_I32, .rank = 1, .shape = { T } },
        { .name = "source", .dtype = QKV_I32, .rank = 1, .shape = { S } }
    };
    qkv_safetensors_writer *w = NULL;
    snprintf(path, sizeof path, "%s/%s/logits.safetensors", dir, name);
    must(!qkv_safetensors_create(&w, path, t, 2 + pair, NULL, true, &err) &&
             !qkv_safetensors_append(w, logits, (size_t)(rows * V) * sizeof *logits, &err) &&
             !qkv_safetensors_append(w, ids, sizeof ids, &err) &&
             (!pair || !qkv_safetensors_append(w, source, sizeof source, &err)) &&
             !qkv_safetensors_finish(w, &err),
         "logits", &err);
    qkv_safetensors_close(w);
    free(logits);
    qkv_net_free(n);
}

// Makes the weights larger than initial ones, so that a wrong one has a visible effect.
static qkv_net *shaken(qkv_net *n)
{
    uint32_t word[4];
    for (int64_t i = 0; i < n->numbers; i++) {
        qkv_philox(word, 1, 2, (uint64_t)i);
        n->value[i] += (real)(((double)word[0] * 0x1p-32 - .5) * .5);
    }
    return n;
}

static qkv_net *new_net(const char *arch, int act, int64_t kv_heads, int tied, int labels)
{
    struct qkv_net_shape s;
    qkv_net *n = NULL;
    qkv_error err = { 0 };
    const struct qkv_net_options o = { 0 };
    qkv_net_shape_default(&s, arch);
    s.layers = s.decoder_layers = 2;
    s.heads = 4;
    s.kv_heads = kv_heads;
    s.width = 32;
    s.vocab = 40;
    s.positions = 16;
    s.pad = 0;
    s.bos = 1;
    s.eos = 2;
    s.act = act;
    s.tied = tied;
    s.labels = labels;
    must(!qkv_net_new(&n, &s, &o, 3, &err), arch, &err);
    return shaken(n);
}

static qkv_net *opened(const char *dir, int labels)
{
    qkv_net *n = NULL;
    qkv_error err = { 0 };
    const struct qkv_net_options o = { 0 };
    must(!qkv_net_open(&n, dir, &o, labels, 3, &err), dir, &err);
    return shaken(n);
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    const char *dir = argv[1];
    mkdir(dir, 0777);
    keep(new_net("gpt", -1, 0, -1, 0), dir, "gpt");
    keep(new_net("gpt", QKV_ACT_RELU, 0, 0, 0), dir, "gpt-untied-relu");
    keep(new_net("llama", -1, 2, -1, 0), dir, "llama");
    keep(new_net("llama", QKV_ACT_GELU_TANH, 0, 1, 0), dir, "llama-tied-gelu");
    keep(new_net("bert", -1, 0, -1, 0), dir, "bert");
    keep(new_net("bert", -1, 0, -1, 3), dir, "bert-labels");
    keep(new_net("vaswani", -1, 0, -1, 0), dir, "vaswani");
    keep(opened("tests/golden/net-gpt2", 0), dir, "opened-gpt2");
    keep(opened("tests/golden/net-llama", 0), dir, "opened-llama");
    keep(opened("tests/golden/net-bert", 0), dir, "opened-bert");
    keep(opened("tests/golden/net-labels", 0), dir, "opened-labels");
    keep(opened("tests/golden/net-marian", 0), dir, "opened-marian");
    keep(opened("tests/golden/bert", 4), dir, "bert-with-labels");
    keep(opened("tests/golden/roberta", 4), dir, "roberta-with-labels");
    keep(opened("tests/golden/xlm-roberta", 4), dir, "xlm-roberta-with-labels");
    keep(opened("tests/golden/distilbert", 4), dir, "distilbert-with-labels");
    return 0;
}
