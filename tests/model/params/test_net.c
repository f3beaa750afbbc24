// SPDX-License-Identifier: MIT
// test_net.c: checks laws of trainable models: bits, memory, folders, refused input.
#include "base/faults.h"
#include "model/folder.h"
#include "net_golden.h"

// Returns a copy of the gradients after a run.
static real *gradients_of(qkv_net *n)
{
    real *copy = malloc((size_t)n->numbers * sizeof *copy);
    CHECK(copy);
    memcpy(copy, n->grad, (size_t)n->numbers * sizeof *copy);
    return copy;
}

static const qkv_precision precisions[] = { QKV_PRECISION_F32, QKV_PRECISION_F32_STRICT,
                                            QKV_PRECISION_BF16 };
enum { PRECISIONS = sizeof precisions / sizeof precisions[0] };

TEST(any_number_of_threads_gives_the_same_bits)
{
    for (int i = 0; i < NET_GOLDENS * PRECISIONS; i++) {
        const struct qkv_net_options o = { .precision = precisions[i % PRECISIONS],
                                           .dropout = (real).2 };
        const int which = i / PRECISIONS;
        if (!qkv_precision_runs(o.precision)) continue;
        double loss[2];
        real *kept[2];
        for (int k = 0; k < 2; k++) {
            CHECK_EQ(qkv_threads_set(k ? 3 : 1), QKV_OK);
            struct net_golden g =
                net_golden_open(net_goldens[which].name, net_goldens[which].objective, &o);
            loss[k] = net_golden_run(&g, true);
            kept[k] = gradients_of(g.net);
            if (k) CHECK_BITS(kept[0], kept[1], (size_t)g.net->numbers * sizeof(real));
            net_golden_close(&g);
        }
        CHECK(loss[0] == loss[1]);
        free(kept[0]);
        free(kept[1]);
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

TEST(layers_run_again_give_the_bits_of_layers_that_were_kept)
{
    for (int i = 0; i < NET_GOLDENS * PRECISIONS; i++) {
        struct qkv_net_options o = { .precision = precisions[i % PRECISIONS], .dropout = (real).2 };
        const int which = i / PRECISIONS;
        if (!qkv_precision_runs(o.precision)) continue;
        struct net_golden g =
            net_golden_open(net_goldens[which].name, net_goldens[which].objective, &o);
        size_t kept, less, arena;
        const double loss = net_golden_run(&g, true);
        real *whole = gradients_of(g.net);
        qkv_net_memory(g.net, &kept, &arena);
        o.recompute = true;
        qkv_net_options_set(g.net, &o);
        CHECK(net_golden_run(&g, true) == loss);
        qkv_net_memory(g.net, &less, &arena);
        CHECK_BITS(whole, g.net->grad, (size_t)g.net->numbers * sizeof(real));
        CHECK(less <= kept);
        free(whole);
        net_golden_close(&g);
    }
}

TEST(gradients_add_up_and_scale)
{
    struct net_golden g = net_golden_open("net-gpt2", QKV_OBJECTIVE_CAUSAL, NULL);
    struct qkv_loss loss = { 0 };
    net_golden_run(&g, true);
    real *once = gradients_of(g.net);
    // Adds the same batch again, and half of it: 1 + 1 + 1/2, exact except for rounding.
    for (int k = 1; k <= 2; k++)
        CHECK_EQ(qkv_net_run(g.net, &loss, &g.batch, true, (real)(1.0 / (double)k / (double)g.rows),
                             3, 5, NULL),
                 QKV_OK);
    double most = 0;
    for (int64_t i = 0; i < g.net->numbers; i++) most = fmax(most, fabs((double)once[i]));
    for (int64_t i = 0; i < g.net->numbers; i++)
        CHECK_NEAR((double)g.net->grad[i], 2.5 * (double)once[i], 1e-5 * most);
    CHECK_EQ(loss.rows, 2 * g.rows);
    free(once);
    net_golden_close(&g);
}

// Computes the loss of one sequence in a batch with others, by giving targets only to that
// sequence.
TEST(batch_neighbours_do_not_change_a_sequence_s_loss)
{
    for (int i = 0; i < NET_GOLDENS; i++) {
        if (net_goldens[i].objective == QKV_OBJECTIVE_CONTRASTIVE) continue;
        struct net_golden g = net_golden_open(net_goldens[i].name, net_goldens[i].objective, NULL);
        const struct qkv_sequences all = g.batch.in, sources = g.batch.source;
        const int32_t *targets = g.batch.targets;
        const bool labels = g.batch.objective == QKV_OBJECTIVE_CLASSIFY;
        for (int64_t s = 0; s < all.n; s++) {
            int32_t own[64];
            const int64_t from = labels ? s : all.offsets[s],
                          to = labels ? s + 1 : all.offsets[s + 1];
            const int64_t rows = labels ? all.n : all.offsets[all.n];
            for (int64_t r = 0; r < rows; r++) own[r] = r >= from && r < to ? targets[r] : -1;
            g.batch.in = all;
            g.batch.source = sources;
            g.batch.targets = own;
            struct qkv_loss batched = { 0 }, alone = { 0 };
            CHECK_EQ(qkv_net_run(g.net, &batched, &g.batch, false, 1, 0, 0, NULL), QKV_OK);
            const int64_t one[2] = { 0, all.offsets[s + 1] - all.offsets[s] };
            g.batch.in = (struct qkv_sequences){ 1, one, all.ids + all.offsets[s],
                                                 all.types ? all.types + all.offsets[s] : NULL };
            int64_t source[2] = { 0, 0 };
            if (sources.ids) {
                source[1] = sources.offsets[s + 1] - sources.offsets[s];
                g.batch.source =
                    (struct qkv_sequences){ 1, source, sources.ids + sources.offsets[s], NULL };
            }
            g.batch.targets = targets + from;
            CHECK_EQ(qkv_net_run(g.net, &alone, &g.batch, false, 1, 0, 0, NULL), QKV_OK);
            CHECK_EQ(alone.rows, batched.rows);
            CHECK(alone.sum == batched.sum);
        }
        net_golden_close(&g);
    }
}

// ---- folders -----------------------------------------------------------------------------------
static struct qkv_net_shape small(const char *arch)
{
    struct qkv_net_shape s;
    CHECK(qkv_net_shape_default(&s, arch));
    s.layers = 2;
    s.heads = 2;
    s.width = 12;
    s.inner = 20;
    s.vocab = 30;
    s.positions = 16;
    s.pad = 0;
    s.bos = 1;
    s.eos = 2;
    return s;
}

static void save_and_open(const struct qkv_net_shape *shape, const char *model_type)
{
    qkv_net *a = NULL, *b = NULL;
    qkv_error err = { 0 };
    const char *dir = folder_new();
    const struct qkv_net_options o = { 0 };
    if (qkv_net_new(&a, shape, &o, 5, &err)) fail_msg("%s: %s", shape->arch, err.text);
    CHECK_TEXT(a->model_type, model_type);
    if (qkv_net_save(a, dir, QKV_F32, &err)) fail_msg("%s: %s", shape->arch, err.text);
    if (qkv_net_open(&b, dir, &o, 0, 9, &err))
        fail_msg("%s: %s %s", shape->arch, err.path, err.text);
    CHECK_EQ(a->numbers, b->numbers);
    CHECK_BITS(a->value, b->value, (size_t)a->numbers * sizeof(real));
    const struct qkv_net_shape *x = qkv_net_shape(a), *y = qkv_net_shape(b);
    CHECK_EQ(x->layers, y->layers);
    CHECK_EQ(x->decoder_layers, y->decoder_layers);
    CHECK_EQ(x->d_k, y->d_k);
    CHECK_EQ(x->d_v, y->d_v);
    CHECK_EQ(x->kv_heads, y->kv_heads);
    CHECK_EQ(x->norm, y->norm);
    CHECK_EQ(x->act, y->act);
    CHECK_EQ(x->tied, y->tied);
    CHECK_EQ(x->labels, y->labels);
    CHECK_EQ(x->pad, y->pad);
    CHECK_EQ(x->bos, y->bos);
    CHECK_EQ(x->eos, y->eos);
    CHECK(x->eps == y->eps);
    qkv_net_free(a);
    qkv_net_free(b);
}

TEST(what_is_saved_opens_to_the_same_numbers)
{
    struct qkv_net_shape s = small("gpt");
    save_and_open(&s, "gpt2");
    s.tied = 0;
    save_and_open(&s, "gpt2");
    s.d_k = 5;
    s.d_v = 7;
    s.norm = QKV_NORM_POST;
    save_and_open(&s, "qkv-transformer");
    s = small("llama");
    s.kv_heads = 1;
    s.tied = 1;
    save_and_open(&s, "llama");
    s.norm = QKV_NORM_BOTH;
    save_and_open(&s, "qkv-transformer");
    s = small("bert");
    save_and_open(&s, "bert");
    s.labels = 3;
    save_and_open(&s, "bert");
    s.norm = QKV_NORM_PRE;
    s.kv_heads = 1;
    save_and_open(&s, "qkv-encoder");
    s = small("vaswani");
    s.decoder_layers = 1;
    save_and_open(&s, "marian");
    s.norm = QKV_NORM_PRE;
    s.d_k = 4;
    s.d_v = 3;
    save_and_open(&s, "qkv-transformer");
    s = small("bare-transformer");
    save_and_open(&s, "qkv-transformer");
    s = small("gru-attention");
    save_and_open(&s, "qkv-gru-attention");
}

// The attention weights of a saved net that runs as a model: [layers][H][T][T].
struct attention {
    float *weights;
    int64_t T, layers;
};
static int keep_weights(void *user, const struct qkv_layer_output *seen)
{
    struct attention *a = user;
    if (seen->layer < 0) return 0;
    const int64_t n = seen->H * a->T * a->T;
    memcpy(a->weights + seen->layer * n, seen->weights, (size_t)n * sizeof *a->weights);
    a->layers++;
    return 0;
}

// Compares the statistics of a layer of the net with the weights of the model.
struct probed {
    const float *weights;
    int64_t T, H, layers;
};
static void check_probe(void *user, int64_t layer, const struct qkv_probe *p)
{
    struct probed *c = user;
    CHECK_EQ(layer, c->layers);
    CHECK_EQ(p->rows, c->T);
    c->layers++;
    for (int64_t i = 0; i < c->H * c->T; i++) {
        const float *w = c->weights + (layer * c->H * c->T + i) * c->T;
        double entropy = 0;
        for (int64_t j = 0; j < c->T; j++) {
            if (w[j] > 0) entropy -= (double)w[j] * log((double)w[j]);
            CHECK_NEAR((double)p->row_weights[i * c->T + j], (double)w[j], 1e-5);
        }
        CHECK_NEAR(p->entropy[i], entropy, 1e-5);
        CHECK_NEAR(p->top_weight[i], w[p->top_key[i]], 1e-5);
    }
}

static void run_as_model(const struct qkv_net_shape *shape)
{
    enum { T = 9 };
    static float weights[4 * 2 * T * T];
    static const int64_t rows[T] = { 0, 1, 2, 3, 4, 5, 6, 7, 8 };
    const int64_t offsets[] = { 0, T };
    const int32_t ids[T] = { 3, 9, 12, 4, 7, 5, 6, 8, 20 };
    const struct qkv_sequences in = { 1, offsets, ids, NULL };
    const struct qkv_model_input run = { .sequences = 1, .offsets = offsets, .ids = ids };
    const struct qkv_net_options o = { 0 };
    struct attention a = { weights, T, 0 };
    struct probed p = { weights, T, shape->heads, 0 };
    const struct qkv_probe_request request = {
        .top_k = 1, .entropy = true, .rows = T, .row = rows
    };
    const struct qkv_observer observer = { .layer = keep_weights, .user = &a, .weights = true };
    qkv_net *n = NULL;
    qkv_model *m = NULL;
    qkv_error err = { 0 };
    if (qkv_net_new(&n, shape, &o, 5, &err)) fail_msg("%s: %s", shape->arch, err.text);
    check_seed = 3;
    for (int64_t i = 0; i < n->numbers; i++) n->value[i] += (real)(.3 * check_random());
    CHECK_EQ(qkv_net_save(n, folder_new(), QKV_F32, &err), QKV_OK);
    if (qkv_model_open(&m, folder_path, NULL, &err))
        fail_msg("%s: %s %s", n->model_type, err.path, err.text);
    CHECK_EQ(qkv_model_info(m).unused_tensors, 0);
    CHECK_EQ(qkv_model_run(m, NULL, &run, &observer, &err), QKV_OK);
    CHECK_EQ(a.layers, shape->layers);
    CHECK_EQ(qkv_net_probe(n, &request, check_probe, &p, &in, &err), QKV_OK);
    CHECK_EQ(p.layers, shape->layers);
    qkv_model_close(m);
    qkv_net_free(n);
}

static void ignore_probe(void *user, int64_t layer, const struct qkv_probe *p)
{
    (void)layer;
    (void)p;
    ++*(int *)user;
}

// The encoder of this folder has a vocabulary of its own, larger than that of the decoder.
TEST(a_probe_checks_ids_against_the_vocabulary_of_the_encoder)
{
    const int64_t offsets[] = { 0, 2 }, rows[] = { 0 };
    const struct qkv_net_options o = { 0 };
    const struct qkv_probe_request request = { .top_k = 1, .rows = 1, .row = rows };
    qkv_net *n = NULL;
    qkv_error err = { 0 };
    int layers = 0;
    CHECK_EQ(qkv_net_open(&n, "tests/golden/marian-two-tables", &o, 0, 1, &err), QKV_OK);
    const struct qkv_net_shape *shape = qkv_net_shape(n);
    CHECK(shape->source_vocab != shape->vocab);
    int32_t ids[] = { 5, (int32_t)shape->source_vocab - 1 };
    const struct qkv_sequences in = { .n = 1, .offsets = offsets, .ids = ids };
    CHECK_EQ(qkv_net_probe(n, &request, ignore_probe, &layers, &in, &err), QKV_OK);
    CHECK_EQ(layers, shape->layers);
    ids[1]++;
    CHECK_EQ(qkv_net_probe(n, &request, ignore_probe, &layers, &in, &err), QKV_ERR_USAGE);
    qkv_net_free(n);
}

TEST(a_saved_net_runs_as_a_model_with_the_same_attention)
{
    struct qkv_net_shape s = small("gpt");
    run_as_model(&s);
    s.norm = QKV_NORM_BOTH;
    s.d_k = 5;
    s.d_v = 7;
    run_as_model(&s);
    s = small("llama");
    s.kv_heads = 1;
    run_as_model(&s);
    s.norm = QKV_NORM_POST;
    s.d_k = 4;
    s.d_v = 3;
    run_as_model(&s);
    s = small("bert");
    run_as_model(&s);
    s.norm = QKV_NORM_PRE;
    s.kv_heads = 1;
    s.d_k = 3;
    s.d_v = 5;
    run_as_model(&s);
}

TEST(a_family_that_loads_is_opened_and_saved_under_its_names)
{
    static const char *const names[] = { "bert",         "bert-bf16",   "roberta",
                                         "xlm-roberta",  "distilbert",  "encoder-plain",
                                         "encoder-both", "encoder-pre", "encoder-bare" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];
        qkv_net *n = NULL;
        qkv_model *model[2] = { NULL };
        float *hidden[2];
        qkv_error err = { 0 };
        const struct qkv_net_options o = { 0 };
        const int64_t offsets[] = { 0, 5, 8 };
        const int32_t ids[] = { 3, 9, 12, 4, 7, 5, 6, 8 };
        const struct qkv_model_input run = { .sequences = 2, .offsets = offsets, .ids = ids };
        snprintf(path, sizeof path, "tests/golden/%s", names[i]);
        if (qkv_net_open(&n, path, &o, 0, 1, &err))
            fail_msg("%s: %s %s", names[i], err.path, err.text);
        if (qkv_net_save(n, folder_new(), QKV_F32, &err)) fail_msg("%s: %s", names[i], err.text);
        size_t bytes = 0;
        for (int k = 0; k < 2; k++) {
            if (qkv_model_open(&model[k], k ? folder_path : path, NULL, &err))
                fail_msg("%s: %s %s", names[i], err.path, err.text);
            bytes = (size_t)(8 * qkv_model_info(model[k]).width) * sizeof **hidden;
            hidden[k] = malloc(bytes);
            CHECK_EQ(qkv_model_run(model[k], hidden[k], &run, NULL, &err), QKV_OK);
        }
        CHECK_BITS(hidden[0], hidden[1], bytes);
        for (int k = 0; k < 2; k++) {
            free(hidden[k]);
            qkv_model_close(model[k]);
        }
        qkv_net_free(n);
    }
}

TEST(a_head_for_labels_is_added_to_an_encoder_and_saved)
{
    qkv_net *n = NULL, *again = NULL;
    qkv_error err = { 0 };
    const struct qkv_net_options o = { 0 };
    const int64_t offsets[] = { 0, 3 };
    const int32_t ids[] = { 3, 9, 12 };
    const int32_t label = 3;
    const struct qkv_net_batch b = { .objective = QKV_OBJECTIVE_CLASSIFY,
                                     .in = { 1, offsets, ids, NULL },
                                     .targets = &label };
    struct qkv_loss loss = { 0 }, same = { 0 };
    CHECK_EQ(qkv_net_open(&n, "tests/golden/bert", &o, 4, 1, &err), QKV_OK);
    CHECK_EQ(qkv_net_shape(n)->labels, 4);
    CHECK_EQ(qkv_net_run(n, &loss, &b, false, 1, 0, 0, &err), QKV_OK);
    CHECK_EQ(qkv_net_save(n, folder_new(), QKV_F32, &err), QKV_OK);
    CHECK_EQ(qkv_net_open(&again, folder_path, &o, 0, 2, &err), QKV_OK);
    CHECK_EQ(qkv_net_shape(again)->labels, 4);
    CHECK_EQ(qkv_net_run(again, &same, &b, false, 1, 0, 0, &err), QKV_OK);
    CHECK(loss.sum == same.sum);
    qkv_net_free(again);
    CHECK_EQ(qkv_net_open(&again, folder_path, &o, 3, 2, &err), QKV_ERR_USAGE);
    qkv_net_free(n);
}

// ---- what goes wrong ---------------------------------------------------------------------------
static qkv_status open_run_save(void *ctx, qkv_error *err)
{
    const int which = *(const int *)ctx;
    char path[128];
    qkv_net *n = NULL;
    const struct qkv_net_options o = { .dropout = (real).1 };
    const int64_t offsets[] = { 0, 4, 6 };
    const int32_t ids[] = { 3, 9, 12, 4, 7, 5 }, targets[] = { 1, 2, 0, 5, -1, 2 };
    struct qkv_loss loss = { 0 };
    const struct qkv_sequences in = { 2, offsets, ids, NULL };
    const struct qkv_net_batch b = { net_goldens[which].objective, in, in, targets };
    snprintf(path, sizeof path, "tests/golden/%s", net_goldens[which].name);
    qkv_status status = qkv_net_open(&n, path, &o, 0, 1, err);
    if (!status) status = qkv_net_run(n, &loss, &b, true, 1, 0, 0, err);
    if (!status) status = qkv_net_save(n, folder_path, QKV_BF16, err);
    qkv_net_free(n);
    return status;
}

TEST(every_failed_allocation_is_survived)
{
    folder_new();
    for (int i = 0; i < NET_GOLDENS; i++) {
        if (net_goldens[i].objective == QKV_OBJECTIVE_CLASSIFY)
            continue; // two labels more than exist
        CHECK(faults_walk(open_run_save, &i, true) > 20);
    }
}

static qkv_status make(void *ctx, qkv_error *err)
{
    qkv_net *n = NULL;
    const struct qkv_net_options o = { 0 };
    const qkv_status status = qkv_net_new(&n, ctx, &o, 1, err);
    qkv_net_free(n);
    return status;
}

TEST(a_new_net_survives_every_failed_allocation)
{
    static const char *const archs[] = { "gpt", "llama", "bert", "vaswani" };
    for (int i = 0; i < 4; i++) {
        struct qkv_net_shape s = small(archs[i]);
        s.layers = 1;
        CHECK(faults_walk(make, &s, true) > 20);
    }
}

// A config.json with larger sizes than its file is refused without allocating memory for them.
TEST(a_folder_whose_config_lies_is_refused_at_once)
{
    static const struct {
        const char *config, *name;
        qkv_status status;
    } rows[] = {
        { "\"model_type\": \"gpt2\", \"vocab_size\": 16777216, \"n_embd\": 65536, \"n_layer\": 2, "
          "\"n_head\": 4, \"n_positions\": 16",
          "transformer.wte.weight", QKV_ERR_FORMAT },
        { "\"model_type\": \"gpt2\", \"vocab_size\": 40, \"n_embd\": 24, \"n_layer\": 1000, "
          "\"n_head\": 3, \"n_positions\": 16, \"n_inner\": 40",
          "transformer.h.2.attn.c_attn.weight", QKV_ERR_FORMAT },
        { "\"model_type\": \"gpt2\", \"vocab_size\": 40, \"n_embd\": 24, \"n_layer\": 2, "
          "\"n_head\": 3, \"n_positions\": 16, \"n_inner\": 1000000",
          "transformer.h.0.mlp.c_fc.weight", QKV_ERR_FORMAT },
        { "\"model_type\": \"gpt2\", \"vocab_size\": 40, \"n_embd\": 24, \"n_layer\": 2, "
          "\"n_head\": 3, \"n_positions\": 16, \"n_inner\": 40, \"add_cross_attention\": true",
          "$.add_cross_attention", QKV_ERR_UNSUPPORTED },
        { "\"model_type\": \"qkv-words\", \"vocab_size\": 40, \"hidden_size\": 24", "",
          QKV_ERR_UNSUPPORTED },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char config[512];
        qkv_net *n = NULL;
        qkv_error err = { 0 };
        const struct qkv_net_options o = { 0 };
        folder_new();
        folder_link("model.safetensors", "tests/golden/net-gpt2/model.safetensors");
        snprintf(config, sizeof config, "{%s}", rows[i].config);
        folder_text("config.json", config);
        faults_begin(0, false);
        CHECK_EQ(qkv_net_open(&n, folder_path, &o, 0, 1, &err), rows[i].status);
        CHECK_EQ(faults_end(NULL), 0);
        CHECK(!n);
        CHECK_TEXT(err.path, rows[i].name);
        CHECK(atomic_load(&faults_peak) < 4 << 20);
    }
    // The memory of positions depends on the longest text so far, not on the config.
    qkv_net *n = NULL;
    qkv_error err = { 0 };
    const struct qkv_net_options o = { 0 };
    size_t bytes;
    char *config = folder_load("tests/golden/net-llama/config.json", &bytes);
    char *at = strstr(config, "\"max_position_embeddings\": 16");
    CHECK(at);
    FILE *f = fopen(folder_name("config.json"), "wb");
    CHECK(f && fprintf(f, "%.*s\"max_position_embeddings\": 16000000%s", (int)(at - config), config,
                       at + strlen("\"max_position_embeddings\": 16")) > 0);
    CHECK_EQ(fclose(f), 0);
    free(config);
    CHECK_EQ(unlink(folder_name("model.safetensors")), 0);
    folder_link("model.safetensors", "tests/golden/net-llama/model.safetensors");
    faults_begin(0, false);
    if (qkv_net_open(&n, folder_path, &o, 0, 1, &err)) fail_msg("%s %s", err.path, err.text);
    const int64_t offsets[] = { 0, 6 };
    const int32_t ids[] = { 3, 9, 12, 4, 7, 5 }, targets[] = { 1, 2, 0, 5, -1, 2 };
    const struct qkv_sequences in = { 1, offsets, ids, NULL };
    const struct qkv_net_batch b = { QKV_OBJECTIVE_CAUSAL, in, in, targets };
    struct qkv_loss loss = { 0 };
    CHECK_EQ(qkv_net_run(n, &loss, &b, true, 1, 0, 0, &err), QKV_OK);
    qkv_net_free(n);
    CHECK_EQ(faults_end(NULL), 0);
    CHECK(atomic_load(&faults_peak) < 32 << 20);
}

TEST(what_a_net_cannot_run_is_refused)
{
    struct net_golden g = net_golden_open("net-gpt2", QKV_OBJECTIVE_CAUSAL, NULL);
    struct qkv_loss loss = { 0 };
    struct qkv_net_batch b = g.batch;
    int32_t ids[64], targets[64];
    int64_t offsets[] = { 0, 17 };
    qkv_error err = { 0 };
    for (int i = 0; i < 64; i++) ids[i] = targets[i] = 3;
    b.objective = QKV_OBJECTIVE_MASKED;
    CHECK_EQ(qkv_net_run(g.net, &loss, &b, true, 1, 0, 0, &err), QKV_ERR_USAGE);
    b.objective = QKV_OBJECTIVE_CAUSAL;
    b.in = (struct qkv_sequences){ 1, offsets, ids, NULL };
    b.targets = targets;
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_net_run(g.net, &loss, &b, true, 1, 0, 0, &err), QKV_ERR_USAGE);
    CHECK_TEXT(err.text, "sequence too long for the model, expected at most 16 tokens, found 17");
    offsets[1] = 5;
    ids[2] = 40;
    CHECK_EQ(qkv_net_run(g.net, &loss, &b, true, 1, 0, 0, NULL), QKV_ERR_USAGE);
    ids[2] = 3;
    targets[4] = 40;
    CHECK_EQ(qkv_net_run(g.net, &loss, &b, true, 1, 0, 0, NULL), QKV_ERR_USAGE);
    targets[4] = -1;
    CHECK_EQ(qkv_net_run(g.net, &loss, &b, true, 1, 0, 0, NULL), QKV_OK);
    net_golden_close(&g);
    qkv_net *n = NULL;
    struct qkv_net_shape s = small("gpt");
    const struct qkv_net_options int8 = { .precision = QKV_PRECISION_INT8 }, plain = { 0 };
    CHECK_EQ(qkv_net_new(&n, &s, &int8, 1, NULL), QKV_ERR_UNSUPPORTED);
    s.heads = 5;
    CHECK_EQ(qkv_net_new(&n, &s, &plain, 1, NULL), QKV_ERR_USAGE);
    s.arch = "lstm";
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_net_new(&n, &s, &plain, 1, &err), QKV_ERR_USAGE);
    CHECK(!n);
    for (const char *const *arch = qkv_net_architectures(); *arch; arch++) {
        CHECK(strstr(err.text, *arch));
        CHECK(qkv_net_shape_default(&s, *arch));
    }
}

CHECK_MAIN(CASE(any_number_of_threads_gives_the_same_bits),
           CASE(layers_run_again_give_the_bits_of_layers_that_were_kept),
           CASE(gradients_add_up_and_scale), CASE(batch_neighbours_do_not_change_a_sequence_s_loss),
           CASE(what_is_saved_opens_to_the_same_numbers),
           CASE(a_probe_checks_ids_against_the_vocabulary_of_the_encoder),
           CASE(a_saved_net_runs_as_a_model_with_the_same_attention),
           CASE(a_family_that_loads_is_opened_and_saved_under_its_names),
           CASE(a_head_for_labels_is_added_to_an_encoder_and_saved),
           CASE(every_failed_allocation_is_survived),
           CASE(a_new_net_survives_every_failed_allocation),
           CASE(a_folder_whose_config_lies_is_refused_at_once),
           CASE(what_a_net_cannot_run_is_refused))
