// SPDX-License-Identifier: MIT
// test_eval_families.c: every model of tests/golden is evaluated by each objective that it is made
// for, whole and with ablated heads: the loss is the loss of plain runs of the same model, one text
// at a time, and of the trainable model where there is one.
#include "model/tiny.h"
#include "model/folder.h"
#include "task/eval/eval_internal.h"

enum { TEXTS = 8, FIRST = 7, LAST = 14, FORCED = 9 }; // the words are w7 .. w14

// Models whose outputs must begin with a token, by generation_config.json.
static bool forces(const char *name)
{
    return !strcmp(name, "mbart");
}

// ---- texts and a tokenizer of words -------------------------------------------------------------
static void put_words(FILE *f, int n)
{
    for (int i = 0; i < n; i++) {
        const int word = FIRST + (int)((check_random() + 1) / 2 * (LAST - FIRST + 1));
        fprintf(f, "%sw%d", i ? " " : "", word);
    }
}

static int length(int least, int most)
{
    return least + (int)((check_random() + 1) / 2 * (most - least + 1));
}

static void write_texts(int64_t labels)
{
    FILE *text = fopen(folder_name("text.txt"), "w");
    FILE *pairs = fopen(folder_name("pairs.tsv"), "w");
    FILE *labelled = fopen(folder_name("labels.tsv"), "w");
    CHECK(text && pairs && labelled);
    check_seed = 11;
    for (int i = 0; i < TEXTS; i++) {
        put_words(text, length(3, 30));
        fputs("\n\n", text);
        put_words(pairs, length(2, 7));
        fputc('\t', pairs);
        put_words(pairs, length(2, 7));
        fputc('\n', pairs);
        put_words(labelled, length(2, 8));
        fprintf(labelled, "\t%d\n", labels > 1 ? i % 2 : 0);
    }
    CHECK(!fclose(text) && !fclose(pairs) && !fclose(labelled));
}

// The name of an id: special tokens as the model has them, else w<id>.
static const char *name_token(char out[16], const struct qkv_model_info *info, int32_t id,
                              int32_t vocab)
{
    const int32_t bos = info->bos >= 0 ? info->bos : 6, eos = info->eos >= 0 ? info->eos : 5;
    if (id == vocab - 1) return "[MASK]";
    if (id == eos) return "</s>";
    if (id == bos) return "<s>";
    if (id == info->pad) return "<pad>";
    snprintf(out, 16, "w%d", id);
    return out;
}

static void write_tokenizer(const struct qkv_model_info *info)
{
    const int32_t vocab = (int32_t)qkv_min64(info->vocab, info->source_vocab);
    FILE *f = fopen(folder_name("tokenizer.json"), "w");
    char name[16];
    CHECK(f && vocab > LAST + 2);
    fputs("{\"version\":\"1.0\",\"added_tokens\":[", f);
    for (int32_t i = 0, n = 0; i < vocab; i++) {
        const char *token = name_token(name, info, i, vocab);
        if (token[0] == 'w') continue;
        fprintf(f,
                "%s{\"id\":%d,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,"
                "\"rstrip\":false,\"normalized\":false,\"special\":true}",
                n++ ? "," : "", i, token);
    }
    fprintf(f,
            "],\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"model\":{\"type\":\"WordLevel\","
            "\"unk_token\":\"w%d\",\"vocab\":{",
            vocab - 2);
    for (int32_t i = 0; i < vocab; i++)
        fprintf(f, "%s\"%s\":%d", i ? "," : "", name_token(name, info, i, vocab), i);
    fputs("}}}\n", f);
    CHECK(!fclose(f));
}

// ---- a model folder with them -------------------------------------------------------------------
struct opened {
    const char *name;
    struct qkv_model_info info;
    qkv_model *model;
    qkv_tokenizer *tokenizer;
};

static struct opened open_golden(const char *name)
{
    static const char *const files[] = { "config.json", "model.safetensors",
                                         "model.safetensors.index.json" };
    struct opened o = { .name = name };
    qkv_error err = { 0 };
    folder_new();
    EACH(file, files)
    {
        if (access(tiny_path(name, *file), R_OK) == 0) folder_link(*file, tiny_path(name, *file));
    }
    if (forces(name)) folder_text("generation_config.json", "{\"forced_bos_token_id\": 9}");
    if (qkv_model_open(&o.model, folder_path, NULL, &err))
        fail_msg("%s: %s %s", name, err.path, err.text);
    o.info = qkv_model_info(o.model);
    write_texts(o.info.labels);
    write_tokenizer(&o.info);
    if (qkv_tokenizer_open(&o.tokenizer, folder_path, &err)) fail_msg("%s: %s", name, err.text);
    return o;
}

static void close_golden(struct opened *o)
{
    qkv_tokenizer_close(o->tokenizer);
    qkv_model_close(o->model);
}

// What each objective asks of a model.
static bool is_made_for(const struct qkv_model_info *info, enum qkv_objective objective)
{
    const bool tokens = info->can & QKV_CAN_TOKENS;
    switch (objective) {
    case QKV_OBJECTIVE_CAUSAL: return tokens && info->kind == QKV_KIND_DECODER;
    case QKV_OBJECTIVE_MASKED: return tokens && info->kind == QKV_KIND_ENCODER;
    case QKV_OBJECTIVE_SEQ2SEQ: return tokens && info->kind == QKV_KIND_ENCODER_DECODER;
    case QKV_OBJECTIVE_CONTRASTIVE: return info->kind != QKV_KIND_ENCODER_DECODER;
    case QKV_OBJECTIVE_CLASSIFY:
        return info->can & QKV_CAN_LABELS && info->kind != QKV_KIND_ENCODER_DECODER;
    }
    return false;
}

static const char *texts_for(enum qkv_objective o)
{
    if (o == QKV_OBJECTIVE_CLASSIFY) return "labels.tsv";
    return o == QKV_OBJECTIVE_CAUSAL || o == QKV_OBJECTIVE_MASKED ? "text.txt" : "pairs.tsv";
}

// ---- the batch that eval draws ------------------------------------------------------------------
static qkv_data *draw_all(const struct opened *o, enum qkv_objective objective,
                          struct qkv_drawn *drawn)
{
    char path[1024], dir[1024 + 16];
    const char *paths[] = { path };
    qkv_data *data = NULL;
    qkv_error err = { 0 };
    const bool pairs = objective == QKV_OBJECTIVE_SEQ2SEQ;
    snprintf(path, sizeof path, "%s", folder_name(texts_for(objective)));
    snprintf(dir, sizeof dir, "%s-%d", folder_name("data"), (int)objective);
    struct qkv_data_options how = { .objective = objective,
                                    .context = qkv_min64(1024, o->info.positions - pairs),
                                    .evaluation = true,
                                    .train = { .paths = paths, .n = 1 },
                                    .valid = { .paths = paths, .n = 1 } };
    const struct qkv_train_options options = { .batch_tokens = 1 << 20, .mask_share = .15 };
    const struct train_ids ids = { .vocab = o->info.vocab,
                                   .bos = pairs ? o->info.start : o->info.bos,
                                   .forced = pairs && forces(o->name) ? FORCED : -1,
                                   .eos = o->info.eos,
                                   .pad = o->info.pad,
                                   .mask = qkv_tokenizer_id(o->tokenizer, "[MASK]") };
    struct qkv_draw draw;
    CHECK_EQ(train_ends(o->tokenizer, ids.eos, &how, NULL), QKV_OK);
    if (qkv_data_make(dir, &how, o->tokenizer, NULL, &err) || qkv_data_open(&data, dir, &err) ||
        train_draw(&draw, &options, objective, &ids, o->tokenizer, qkv_data_info(data).vocab,
                   &err) ||
        qkv_data_valid(data, drawn, 0, &draw, &err))
        fail_msg("%s: %s", o->name, err.text);
    CHECK_EQ(drawn->sequences, qkv_data_info(data).sequences[1]);
    return data;
}

// ---- plain losses: one sequence at a time, in double --------------------------------------------
static double loss_of(const float *logits, int64_t n, int64_t target)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, (double)logits[i]);
    for (int64_t i = 0; i < n; i++) sum += exp((double)logits[i] - most);
    return most + log(sum) - (double)logits[target];
}

// Logits of the rows of sequence i.
static void logits_of(float *logits, const qkv_model *m, const struct qkv_net_batch *b, int64_t i)
{
    const struct qkv_model_info info = qkv_model_info(m);
    const int64_t at = b->in.offsets[i], n = b->in.offsets[i + 1] - at;
    const int64_t offsets[] = { 0, n };
    const bool pairs = b->objective == QKV_OBJECTIVE_SEQ2SEQ;
    int64_t source_offsets[] = { 0, 0 };
    struct qkv_model_input source = { .sequences = 1, .offsets = source_offsets };
    struct qkv_model_input in = { .sequences = 1, .offsets = offsets, .ids = b->in.ids + at };
    qkv_error err = { 0 };
    if (pairs) {
        source_offsets[1] = b->source.offsets[i + 1] - b->source.offsets[i];
        source.ids = b->source.ids + b->source.offsets[i];
        in.source = &source;
    }
    if (info.can & QKV_CAN_RUN) {
        float *hidden = malloc((size_t)(n * info.width) * sizeof *hidden);
        if (qkv_model_run(m, hidden, &in, NULL, &err) ||
            qkv_model_logits(m, logits, hidden, n, &err))
            fail_msg("%s: %s", info.name, err.text);
        free(hidden);
        return;
    }
    qkv_decoder *d = NULL;
    const struct qkv_decoder_tokens t = {
        .n = 1, .offsets = offsets, .ids = in.ids, .every = true
    };
    if (qkv_decoder_new(&d, m, &(struct qkv_decoder_options){ .items = 1 }, &err) ||
        qkv_decoder_source(d, 0, &source, &err) || qkv_decoder_feed(d, logits, &t, &err))
        fail_msg("%s: %s", info.name, err.text);
    qkv_decoder_free(d);
}

static double plain_tokens(const qkv_model *m, const struct qkv_net_batch *b)
{
    const int64_t V = qkv_model_info(m).vocab;
    double sum = 0;
    int64_t rows = 0;
    for (int64_t i = 0; i < b->in.n; i++) {
        const int64_t at = b->in.offsets[i], n = b->in.offsets[i + 1] - at;
        float *logits = malloc((size_t)(n * V) * sizeof *logits);
        logits_of(logits, m, b, i);
        for (int64_t r = 0; r < n; r++) {
            if (b->targets[at + r] < 0) continue;
            sum += loss_of(logits + r * V, V, b->targets[at + r]);
            rows++;
        }
        free(logits);
    }
    return sum / (double)rows;
}

static double plain_labels(const qkv_model *m, const struct qkv_net_batch *b)
{
    const int64_t labels = qkv_model_info(m).labels;
    double sum = 0;
    float scores[16];
    CHECK(labels <= 16);
    for (int64_t i = 0; i < b->in.n; i++) {
        const int64_t offsets[] = { 0, b->in.offsets[i + 1] - b->in.offsets[i] };
        const struct qkv_model_input in = { .sequences = 1,
                                            .offsets = offsets,
                                            .ids = b->in.ids + b->in.offsets[i] };
        CHECK_EQ(qkv_model_classify(m, scores, &in, NULL), QKV_OK);
        sum += loss_of(scores, labels, b->targets[i]);
    }
    return sum / (double)b->in.n;
}

// The symmetric contrastive loss of mean-pooled unit vectors, with the temperature .05.
static double plain_vectors(const qkv_model *m, const struct qkv_net_batch *b)
{
    const int64_t D = qkv_model_info(m).width, n = b->in.n, pairs = n / 2;
    double *v = calloc((size_t)(n * D), sizeof *v), sum = 0;
    float row[TEXTS], column[TEXTS];
    for (int64_t i = 0; i < n; i++) {
        const int64_t rows = b->in.offsets[i + 1] - b->in.offsets[i], offsets[] = { 0, rows };
        const struct qkv_model_input in = { .sequences = 1,
                                            .offsets = offsets,
                                            .ids = b->in.ids + b->in.offsets[i] };
        float *hidden = malloc((size_t)(rows * D) * sizeof *hidden);
        double square = 0;
        CHECK_EQ(qkv_model_run(m, hidden, &in, NULL, NULL), QKV_OK);
        for (int64_t k = 0; k < rows * D; k++) v[i * D + k % D] += (double)hidden[k];
        for (int64_t k = 0; k < D; k++) square += v[i * D + k] * v[i * D + k];
        for (int64_t k = 0; k < D; k++) v[i * D + k] /= sqrt(square);
        free(hidden);
    }
    for (int64_t i = 0; i < pairs; i++) {
        for (int64_t j = 0; j < pairs; j++) {
            double to = 0, from = 0;
            for (int64_t k = 0; k < D; k++) {
                to += v[2 * i * D + k] * v[(2 * j + 1) * D + k];
                from += v[2 * j * D + k] * v[(2 * i + 1) * D + k];
            }
            row[j] = (float)(to / .05);
            column[j] = (float)(from / .05);
        }
        sum += (loss_of(row, pairs, i) + loss_of(column, pairs, i)) / 2;
    }
    free(v);
    return sum / (double)pairs;
}

static double plain_loss(const qkv_model *m, const struct qkv_net_batch *b)
{
    if (b->objective == QKV_OBJECTIVE_CLASSIFY) return plain_labels(m, b);
    if (b->objective == QKV_OBJECTIVE_CONTRASTIVE) return plain_vectors(m, b);
    return plain_tokens(m, b);
}

// ---- cases --------------------------------------------------------------------------------------
// Rows of each alignment sum to 1.
static int check_example(void *user, const struct qkv_eval_example *e)
{
    int64_t *examples = user;
    CHECK(e->alignment && e->n_references > 0);
    for (int64_t t = 0; t < e->out_tokens; t++) {
        double sum = 0;
        for (int64_t s = 0; s < e->source_tokens; s++)
            sum += (double)e->alignment[t * e->source_tokens + s];
        CHECK_NEAR(sum, 1, 1e-5);
    }
    ++*examples;
    return 0;
}

static qkv_status evaluate(enum qkv_objective objective, const struct qkv_ablation *ablate,
                           int64_t ablations, struct qkv_eval_result *r, qkv_error *err)
{
    char path[1024];
    const char *paths[] = { path };
    int64_t examples = 0;
    snprintf(path, sizeof path, "%s", folder_name(texts_for(objective)));
    const struct qkv_eval_options o = { .dir = folder_path,
                                        .texts = { .paths = paths, .n = 1 },
                                        .objective = task_objectives[objective],
                                        .beam = 2,
                                        .most = 2,
                                        .ablate = ablate,
                                        .ablations = ablations };
    const struct qkv_eval_observer observer = { .example = check_example,
                                                .user = &examples,
                                                .alignment = true };
    const qkv_status status = qkv_evaluate(&o, &observer, r, err);
    if (!status && objective == QKV_OBJECTIVE_SEQ2SEQ) CHECK_EQ(examples, r->sources);
    return status;
}

static double evaluated_loss(const struct opened *o, enum qkv_objective objective,
                             const struct qkv_ablation *ablate, int64_t ablations)
{
    struct qkv_eval_result r;
    qkv_error err = { 0 };
    if (evaluate(objective, ablate, ablations, &r, &err))
        fail_msg("%s, %s: %s %s", o->name, task_objectives[objective], err.path, err.text);
    CHECK(r.targets > 0 && r.sequences > 0);
    return r.loss;
}

static void near(const struct opened *o, enum qkv_objective objective, const char *what, double a,
                 double b)
{
    if (!(fabs(a - b) <= 1e-5 * (1 + fabs(b)))) // rounding of float through a few layers
        fail_msg("%s, %s: loss %.9g, expected %.9g of %s", o->name, task_objectives[objective], a,
                 b, what);
}

// The loss of the trainable model, where this one can be trained; false: it cannot.
static bool check_trainable(const struct opened *o, const struct qkv_net_batch *b, double loss)
{
    qkv_net *n = NULL;
    struct qkv_loss sum = { 0 };
    qkv_error err = { 0 };
    const bool trains = qkv_net_open(&n, folder_path, NULL, 0, 1, NULL) == QKV_OK &&
                        !qkv_net_lacks(n, b->objective);
    if (trains) {
        if (qkv_net_run(n, &sum, b, false, 1, 0, 0, &err)) fail_msg("%s: %s", o->name, err.text);
        near(o, b->objective, "the trainable model", loss, sum.sum / (double)sum.rows);
    }
    qkv_net_free(n);
    return trains;
}

// Every head of the first layers gives what `kind` says.
static int64_t first_layers(struct qkv_ablation out[3], const struct qkv_model_info *info,
                            enum qkv_ablation_kind kind)
{
    const bool two = info->kind == QKV_KIND_ENCODER_DECODER;
    for (int i = 0; i < 3; i++)
        out[i] = (struct qkv_ablation){ .part = two ? QKV_PART_ENCODER + i : QKV_PART_STACK,
                                        .head = -1,
                                        .kind = kind };
    return two ? 3 : 1;
}

static void check_ablated(const struct opened *o, const struct qkv_net_batch *b, double whole)
{
    for (int kind = QKV_ABLATE_ZERO; kind <= QKV_ABLATE_UNIFORM; kind++) {
        struct qkv_ablation heads[3];
        struct qkv_eval_result r;
        const int64_t n = first_layers(heads, &o->info, (enum qkv_ablation_kind)kind);
        if (!(o->info.can & QKV_CAN_RUN)) { // a recurrent model has no heads
            CHECK_EQ(evaluate(b->objective, heads, n, &r, NULL), QKV_ERR_UNSUPPORTED);
            continue;
        }
        const double loss = evaluated_loss(o, b->objective, heads, n);
        CHECK_EQ(qkv_model_ablate(o->model, heads, n, NULL), QKV_OK);
        near(o, b->objective, "the ablated model", loss, plain_loss(o->model, b));
        CHECK_EQ(qkv_model_ablate(o->model, NULL, 0, NULL), QKV_OK);
        if (whole > 0 && loss == whole) fail_msg("%s: heads without effect", o->name);
    }
}

TEST(every_family_is_evaluated_by_what_it_is_made_for_also_without_heads)
{
    int evaluated = 0, trained = 0;
    char names[TINY_MAX + 1][64];
    int count = 0;
    EACH_TINY(name) strcpy(names[count++], *name);
    strcpy(names[count++], "gru-attention"); // its results are stored elsewhere
    for (int i = 0; i < count; i++) {
        if (QKV_FEW && i % 3 && i != count - 1)
            continue; // slow builds: a third, and the recurrent one
        if (access(tiny_path(names[i], "config.json"), R_OK) != 0) continue;
        struct opened o = open_golden(names[i]);
        for (int k = 0; k < QKV_OBJECTIVES; k++) {
            const enum qkv_objective objective = (enum qkv_objective)k;
            if (objective == QKV_OBJECTIVE_CLASSIFY && o.info.labels == 1) continue; // a score
            struct qkv_eval_result r;
            struct qkv_drawn drawn = { 0 };
            if (!is_made_for(&o.info, objective)) {
                CHECK_EQ(evaluate(objective, NULL, 0, &r, NULL), QKV_ERR_UNSUPPORTED);
                continue;
            }
            qkv_data *data = draw_all(&o, objective, &drawn);
            const double loss = evaluated_loss(&o, objective, NULL, 0);
            near(&o, objective, "plain runs", loss, plain_loss(o.model, &drawn.batch));
            trained += check_trainable(&o, &drawn.batch, loss);
            check_ablated(&o, &drawn.batch, loss);
            qkv_drawn_free(&drawn);
            qkv_data_close(data);
            evaluated++;
        }
        close_golden(&o);
    }
    printf("%d evaluated, %d of them by a trainable model too\n", evaluated, trained);
    CHECK(evaluated >= (QKV_FEW ? 20 : 60) && trained >= (QKV_FEW ? 10 : 30));
}

int main(void)
{
    const struct CMUnitTest cases[] = { CASE(
        every_family_is_evaluated_by_what_it_is_made_for_also_without_heads) };
    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 0); // many fsyncs
    if (qkv_threads_set(1)) return 1;                                   // the texts are short
    return cmocka_run_group_tests(cases, NULL, NULL);
}
