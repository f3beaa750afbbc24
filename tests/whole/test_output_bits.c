// SPDX-License-Identifier: MIT
// test_output_bits.c: compares SHA-256 hashes of everything that running models computes with the
// hashes in tests/golden/output_bits.txt, so that a change of the code cannot change a bit unseen.
//
// Models: each folder of tests/golden that opens, and models/.  Each runs on every instruction set
// of this machine, in f32, bf16 and int8, on one thread.  A line of the file is one such run; each
// word of it is NAME=HASH, the first 12 hexadecimal digits, or NAME=refused:STATUS:
//
//   hidden      all hidden states            logits    of the last hidden state
//   qkv         queries, keys, values, lse   labels    scores of the classification head
//   attention   all attention weights        vectors   of qkv_embed_ids, each kind of pooling
//   probes      all attention statistics     fill      tokens and probabilities of masks
//   padded      the run with padding         decode-P  logits and tokens of 16 greedy steps with a
//   ablated     hidden states and logits               KV cache of precision P (own: the model's)
//               of each kind of ablation     watched   what a decoder shows of its new tokens
//   effects     of qkv_ablate_scan           greedy, sampled, beams: ids and scores of generation
//
// tests/golden/gru-attention contains 60 steps of `qkv train --arch gru-attention --width 16
// --tokenizer characters` on 60 pairs of short words; only this test runs it.
//
// Only numbers are hashed, no text for a reader.  Another libm may give other bits: where the hash
// of its functions (the line "libm") differs, the test is skipped.
//
//   QKV_WRITE_BITS=FILE build/release/tests/whole/test_output_bits   writes FILE, compares nothing
#include "output_bits_file.h"
#include <qkv/qkv.h>

enum { SEQUENCES = 3, ROWS = 64, STEPS = 16 };

// The current run: a model in one precision on one instruction set, and the line of hashes that it
// produces.
struct run {
    const char *dir;
    qkv_precision precision;
    qkv_model *model;
    struct qkv_model_info info;
    struct qkv_model_input in, source;
    int64_t offsets[SEQUENCES + 1], source_offsets[SEQUENCES + 1];
    int32_t ids[ROWS], types[ROWS], source_ids[ROWS];
    char line[LINE];
    size_t used;
};

// ---- a line ------------------------------------------------------------------------------------
static void add_word(struct run *r, const char *what, const char *value)
{
    const int n = snprintf(r->line + r->used, sizeof r->line - r->used, " %s=%.12s", what, value);
    CHECK(n > 0 && r->used + (size_t)n < sizeof r->line);
    r->used += (size_t)n;
}
static void add_hash(struct run *r, const char *what, struct qkv_sha256 *h)
{
    char hex[QKV_SHA256_TEXT];
    qkv_sha256_end(h, hex);
    add_word(r, what, hex);
}
// Appends NAME=HASH, or the status if the call failed.
static void add_result(struct run *r, const char *what, qkv_status s, struct qkv_sha256 *h)
{
    char text[32];
    snprintf(text, sizeof text, "refused:%d", (int)s);
    if (s)
        add_word(r, what, text);
    else
        add_hash(r, what, h);
}
static void hash_floats(struct qkv_sha256 *h, const float *x, int64_t n)
{
    if (x) qkv_sha256_add(h, x, (size_t)n * sizeof *x);
}
static void hash_ids(struct qkv_sha256 *h, const int32_t *x, int64_t n)
{
    if (x) qkv_sha256_add(h, x, (size_t)n * sizeof *x);
}
static float *new_floats(int64_t n)
{
    float *x = calloc((size_t)n + 1, sizeof *x);
    CHECK(x != NULL);
    return x;
}

// ---- one run of all tokens ---------------------------------------------------------------------
struct layers {
    struct qkv_sha256 hidden, qkv, attention, probes;
    int64_t width;
    bool decoder; // a decoder runs one sequence: weights have as many columns as there are keys
};
static void hash_probe(struct qkv_sha256 *h, const struct qkv_probe *p,
                       const struct qkv_layer_output *s)
{
    const int64_t rows = s->H * s->R;
    hash_floats(h, p->top_weight, rows * p->top_k);
    hash_ids(h, p->top_key, rows * p->top_k);
    hash_floats(h, p->row_weights, s->H * p->rows * s->S);
    hash_floats(h, p->received, s->H * s->S);
    hash_floats(h, p->entropy, rows);
    hash_floats(h, p->distance, rows);
    hash_floats(h, p->offsets, s->H * (2 * p->reach + 1));
    hash_floats(h, p->tile_max, s->H * p->side * p->side);
    hash_floats(h, p->tile_mean, s->H * p->side * p->side);
}
static int64_t longest(const int64_t *offsets, int64_t n)
{
    int64_t most = 0;
    for (int64_t i = 0; i < n; i++)
        if (offsets[i + 1] - offsets[i] > most) most = offsets[i + 1] - offsets[i];
    return most;
}
static int hash_layer(void *user, const struct qkv_layer_output *s)
{
    struct layers *l = user;
    hash_floats(&l->hidden, s->hidden, s->R * l->width);
    hash_floats(&l->qkv, s->q, s->R * s->H * s->E);
    hash_floats(&l->qkv, s->k, s->S * s->G * s->E);
    hash_floats(&l->qkv, s->v, s->S * s->G * s->F);
    hash_floats(&l->qkv, s->lse, s->H * s->R);
    if (s->weights) {
        const int64_t keys = l->decoder ? s->S : longest(s->k_offsets, SEQUENCES);
        hash_floats(&l->attention, s->weights, s->H * s->R * keys);
    }
    if (s->probe) hash_probe(&l->probes, s->probe, s);
    return 0;
}
static void begin_layers(struct layers *l, int64_t width, bool decoder)
{
    qkv_sha256_begin(&l->hidden);
    qkv_sha256_begin(&l->qkv);
    qkv_sha256_begin(&l->attention);
    qkv_sha256_begin(&l->probes);
    l->width = width;
    l->decoder = decoder;
}
static const int64_t probed_row[] = { 0 };
static const struct qkv_probe_request probe_all = { .top_k = 3,
                                                    .rows = 1,
                                                    .row = probed_row,
                                                    .received = true,
                                                    .entropy = true,
                                                    .distance = true,
                                                    .offsets = true,
                                                    .reach = 4,
                                                    .side = 3 };

static void add_padded(struct run *r)
{
    struct qkv_sha256 h;
    qkv_error err = { 0 };
    int64_t lengths[SEQUENCES], offsets[SEQUENCES + 1] = { 0 };
    int32_t ids[SEQUENCES * ROWS] = { 0 };
    const int64_t most = longest(r->offsets, SEQUENCES), D = r->info.width;
    for (int i = 0; i < SEQUENCES; i++) {
        lengths[i] = r->offsets[i + 1] - r->offsets[i];
        offsets[i + 1] = (i + 1) * most;
        for (int64_t j = 0; j < lengths[i]; j++) ids[offsets[i] + j] = r->ids[r->offsets[i] + j];
    }
    struct qkv_model_input in = r->in;
    in.offsets = offsets;
    in.lengths = lengths;
    in.ids = ids;
    in.types = NULL;
    float *hidden = new_floats(SEQUENCES * most * D);
    const qkv_status status = qkv_model_run(r->model, hidden, &in, NULL, &err);
    qkv_sha256_begin(&h);
    hash_floats(&h, hidden, SEQUENCES * most * D);
    add_result(r, "padded", status, &h);
    free(hidden);
}

static void add_run(struct run *r)
{
    const int64_t R = r->offsets[SEQUENCES], D = r->info.width, V = r->info.vocab;
    struct layers l;
    struct qkv_sha256 h;
    qkv_error err = { 0 };
    struct qkv_observer observer = { .layer = hash_layer, .user = &l, .weights = true };
    float *hidden = new_floats(R * D), *logits = new_floats(R * V);
    observer.probe = probe_all;
    begin_layers(&l, D, false);
    qkv_status status = qkv_model_run(r->model, hidden, &r->in, &observer, &err);
    add_result(r, "hidden", status, &l.hidden);
    if (!status) {
        add_hash(r, "qkv", &l.qkv);
        add_hash(r, "attention", &l.attention);
        add_hash(r, "probes", &l.probes);
        add_padded(r);
    }
    if (!status && (r->info.can & QKV_CAN_TOKENS)) {
        qkv_sha256_begin(&h);
        status = qkv_model_logits(r->model, logits, hidden, R, &err);
        hash_floats(&h, logits, R * V);
        add_result(r, "logits", status, &h);
    }
    if (!status && (r->info.can & QKV_CAN_LABELS)) {
        float *scores = new_floats(SEQUENCES * r->info.labels);
        qkv_sha256_begin(&h);
        status = qkv_model_classify(r->model, scores, &r->in, &err);
        hash_floats(&h, scores, SEQUENCES * r->info.labels);
        add_result(r, "labels", status, &h);
        free(scores);
    }
    free(hidden);
    free(logits);
}

// ---- token by token ----------------------------------------------------------------------------
static int32_t largest(const float *x, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return (int32_t)best;
}
// Decodes prompts of different lengths, then STEPS greedy steps; item 0 has an observer if l is not
// NULL.
static qkv_status hash_decode(struct run *r, qkv_precision cache, struct layers *l,
                              struct qkv_sha256 *h)
{
    const struct qkv_decoder_options o = { .items = SEQUENCES, .cache = cache };
    const struct qkv_observer observer = { .layer = hash_layer, .user = l, .weights = true };
    const int64_t V = r->info.vocab;
    int32_t next[SEQUENCES];
    qkv_decoder *d = NULL;
    qkv_error err = { 0 };
    float *logits = new_floats(SEQUENCES * V);
    struct qkv_decoder_tokens t = { .n = SEQUENCES, .offsets = r->offsets, .ids = r->ids };
    qkv_status status = qkv_decoder_new(&d, r->model, &o, &err);
    if (!status && r->in.source) status = qkv_decoder_source(d, 0, &r->source, &err);
    if (!status && l) status = qkv_decoder_observe(d, &observer, 0, &err);
    int64_t steps = r->info.positions - longest(r->offsets, SEQUENCES);
    if (steps > STEPS) steps = STEPS;
    for (int64_t step = 0; !status && step < steps; step++) {
        status = qkv_decoder_feed(d, logits, &t, &err);
        hash_floats(h, logits, SEQUENCES * V);
        for (int i = 0; i < SEQUENCES; i++) next[i] = largest(logits + i * V, V);
        hash_ids(h, next, SEQUENCES);
        t = (struct qkv_decoder_tokens){ .n = SEQUENCES, .ids = next };
    }
    qkv_decoder_free(d);
    free(logits);
    return status;
}
static void add_decode(struct run *r)
{
    static const struct {
        const char *name;
        qkv_precision cache;
    } row[] = { { "decode-own", QKV_PRECISION_F32 },
                { "decode-bf16", QKV_PRECISION_BF16 },
                { "decode-int8", QKV_PRECISION_INT8 } };
    struct qkv_sha256 h;
    struct layers l;
    EACH(p, row)
    {
        qkv_sha256_begin(&h);
        const qkv_status status = hash_decode(r, p->cache, NULL, &h);
        add_result(r, p->name, status, &h);
    }
    begin_layers(&l, r->info.width, true);
    qkv_sha256_begin(&h);
    const qkv_status status = hash_decode(r, QKV_PRECISION_F32, &l, &h);
    add_result(r, "watched-hidden", status, &l.hidden);
    if (!status) add_hash(r, "watched-attention", &l.attention);
}

// ---- ablation ----------------------------------------------------------------------------------
static void add_ablated(struct run *r)
{
    const bool two = r->info.kind == QKV_KIND_ENCODER_DECODER;
    const int64_t R = r->offsets[SEQUENCES], D = r->info.width;
    struct qkv_sha256 h;
    qkv_error err = { 0 };
    qkv_status status = QKV_OK;
    float *hidden = new_floats(R * D);
    qkv_sha256_begin(&h);
    for (int part = two ? QKV_PART_ENCODER : 0; !status && part <= (two ? QKV_PART_CROSS : 0);
         part++)
        for (int kind = 0; !status && kind <= QKV_ABLATE_UNIFORM; kind++) {
            const int64_t head = kind && r->info.heads > 1;
            const struct qkv_ablation a = { (enum qkv_attention_part)part, 0, head,
                                            (enum qkv_ablation_kind)kind };
            status = qkv_model_ablate(r->model, &a, 1, &err);
            if (!status) status = qkv_model_run(r->model, hidden, &r->in, NULL, &err);
            hash_floats(&h, hidden, R * D);
            if (!status && r->info.kind && (r->info.can & QKV_CAN_TOKENS))
                status = hash_decode(r, QKV_PRECISION_F32, NULL, &h);
        }
    add_result(r, "ablated", status, &h);
    if (qkv_model_ablate(r->model, NULL, 0, &err)) fail_msg("%s: %s", r->dir, err.text);
    free(hidden);
}
static void add_effects(struct run *r)
{
    struct qkv_sha256 h;
    qkv_error err = { 0 };
    struct qkv_effects e = { 0 };
    const int64_t offsets[] = { 0, r->offsets[1] }, from[] = { 0, r->source_offsets[1] };
    const struct qkv_model_input source = { .sequences = 1, .offsets = from, .ids = r->source_ids };
    const struct qkv_model_input in = {
        .sequences = 1, .offsets = offsets, .ids = r->ids, .source = r->in.source ? &source : NULL
    };
    qkv_sha256_begin(&h);
    const qkv_status status = qkv_ablate_scan(&e, r->model, &in, NULL, &err);
    for (int64_t i = 0; !status && i < e.stacks; i++)
        hash_floats(&h, e.stack[i].effect, e.stack[i].layers * e.stack[i].heads);
    add_result(r, "effects", status, &h);
    qkv_effects_free(&e);
}

// ---- tasks -------------------------------------------------------------------------------------
static void add_vectors(struct run *r)
{
    struct qkv_sha256 h;
    qkv_error err = { 0 };
    qkv_status status = QKV_OK;
    float *v = new_floats(SEQUENCES * r->info.width);
    qkv_sha256_begin(&h);
    for (int pool = QKV_POOL_MEAN; !status && pool <= QKV_POOL_LAST; pool++) {
        const struct qkv_embedder_options o = { .model.precision = r->precision,
                                                .pool = (enum qkv_pool)pool,
                                                .no_normalize = pool == QKV_POOL_MAX,
                                                .no_tokenizer = true };
        qkv_embedder *e = NULL;
        status = qkv_embedder_open(&e, r->dir, &o, &err);
        if (!status) status = qkv_embed_ids(e, v, r->ids, r->offsets, SEQUENCES, NULL, &err);
        hash_floats(&h, v, SEQUENCES * r->info.width);
        qkv_embedder_close(e);
    }
    add_result(r, "vectors", status, &h);
    free(v);
}

// Makes a folder with the model and a tokenizer whose words are "w0", "w1", ...; word 4 is the
// mask.
static const char *folder_with_words(const struct run *r)
{
    static const char *const part[] = { "config.json", "model.safetensors", "model.bin" };
    char from[512];
    const char *dir = folder_new();
    EACH(p, part)
    {
        snprintf(from, sizeof from, "%s/%s", r->dir, *p);
        if (access(from, R_OK) == 0) folder_link(*p, from);
    }
    FILE *f = fopen(folder_name("tokenizer.json"), "w");
    CHECK(f != NULL);
    fputs("{\"version\": \"1.0\", \"added_tokens\": [{\"id\": 4, \"content\": \"[MASK]\", "
          "\"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, "
          "\"special\": true}], \"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, \"model\": "
          "{\"type\": \"WordLevel\", \"unk_token\": \"w3\", \"vocab\": {\"w0\": 0",
          f);
    for (int64_t i = 1; i < r->info.vocab; i++)
        fprintf(f, i == 4 ? ", \"[MASK]\": 4" : ", \"w%d\": %d", (int)i, (int)i);
    fputs("}}}\n", f);
    CHECK(!ferror(f) && fclose(f) == 0);
    return dir;
}

static int hash_output(void *user, const struct qkv_generated *g)
{
    struct qkv_sha256 *h = user;
    const int64_t rows = g->tokens + (g->ending == QKV_END_TOKEN);
    hash_ids(h, g->ids, g->tokens);
    hash_floats(h, g->logprobs, g->tokens);
    if (!isnan(g->score)) qkv_sha256_add(h, &g->score, sizeof g->score);
    hash_floats(h, g->alignment, rows * g->source_tokens);
    return 0;
}
static void add_generated(struct run *r, const char *dir, const char *const *texts, int64_t n)
{
    static const struct {
        const char *name;
        struct qkv_generate_options o;
    } row[] = {
        { "greedy", { .beams = 1, .logprobs = 1, .ignore_end = true } },
        { "sampled",
          { .beams = 1,
            .n_best = 2,
            .sampling = { .temperature = .8,
                          .top_k = 20,
                          .top_p = .9,
                          .repetition = 1.1,
                          .seed = 3 } } },
        { "beams", { .beams = 4, .n_best = 3, .length_penalty = .7 } },
    };
    const bool two = r->info.kind == QKV_KIND_ENCODER_DECODER;
    EACH(p, row)
    {
        const struct qkv_generator_options open = { .model.precision = r->precision };
        struct qkv_generate_options o = p->o;
        struct qkv_sha256 h;
        qkv_error err = { 0 };
        qkv_generator *g = NULL;
        qkv_translator *t = NULL;
        qkv_sha256_begin(&h);
        o.max_tokens = STEPS;
        o.output = hash_output;
        o.user = &h;
        o.alignment = two && r->info.can & QKV_CAN_RUN;
        qkv_status status = two ? qkv_translator_open(&t, dir, &open, &err)
                                : qkv_generator_open(&g, dir, &open, &err);
        if (!status)
            status = two ? qkv_translate(t, texts, NULL, n, &o, &err)
                         : qkv_generate(g, texts, NULL, n, &o, &err);
        add_result(r, p->name, status, &h);
        qkv_generator_close(g);
        qkv_translator_close(t);
    }
}
static void add_filled(struct run *r, const char *dir, const char *text)
{
    enum { MASKS = 4, TOP = 5 };
    struct qkv_token_value tokens[MASKS * TOP] = { 0 };
    int64_t at[MASKS], masks = 0;
    struct qkv_sha256 h;
    qkv_tokenizer *t = NULL;
    qkv_error err = { 0 };
    if (qkv_tokenizer_open(&t, dir, &err)) fail_msg("%s: %s", r->dir, err.text);
    qkv_sha256_begin(&h);
    const qkv_status status =
        qkv_fill(r->model, t, tokens, at, &masks, MASKS, TOP, text, strlen(text), &err);
    qkv_sha256_add(&h, tokens, sizeof tokens);
    add_result(r, "fill", status, &h);
    qkv_tokenizer_close(t);
}
static void add_tasks(struct run *r)
{
    static const char *const words[] = { "w5 w9 w17 w30 w8", "w6", "w40 w7 w7 w21 w33 w12 w9 w50" };
    static const char *const verse[] = { "In the beginning", "And he", "Blessed are they that" };
    static const char *const dates[] = { "the third of May 1987", "12 Jan 2031" };
    const bool tokens = (r->info.can & QKV_CAN_TOKENS) != 0;
    if (r->info.kind == QKV_KIND_ENCODER) add_vectors(r);
    if (!tokens) return;
    if (r->info.kind == QKV_KIND_ENCODER)
        add_filled(r, folder_with_words(r), "w5 [MASK] w17 w30 [MASK] w8");
    else if (strstr(r->dir, "models/verse"))
        add_generated(r, r->dir, verse, 3);
    else if (strncmp(r->dir, "models/", 7) == 0)
        add_generated(r, r->dir, dates, 2);
    else if (strstr(r->dir, "llama2c"))
        return; // these folders have another tokenizer format, or none
    else
        add_generated(r, folder_with_words(r), words, 3);
}

// ---- a model -----------------------------------------------------------------------------------
static void make_sequences(int64_t *offsets, int32_t *ids, int64_t vocab, const int64_t *lengths)
{
    offsets[0] = 0;
    for (int i = 0; i < SEQUENCES; i++) offsets[i + 1] = offsets[i] + lengths[i];
    for (int64_t r = 0; r < offsets[SEQUENCES]; r++)
        ids[r] = (int32_t)(5 + (r * 29 + r * r * 7 + lengths[0]) % (vocab - 5));
}
static void make_input(struct run *r)
{
    static const int64_t lengths[] = { 7, 1, 13 }, sources[] = { 5, 11, 2 };
    make_sequences(r->offsets, r->ids, r->info.vocab, lengths);
    for (int64_t i = 0; i < r->offsets[SEQUENCES]; i++)
        r->types[i] = r->info.types > 1 && i % 3 == 1;
    r->in = (struct qkv_model_input){
        .sequences = SEQUENCES, .offsets = r->offsets, .ids = r->ids, .types = r->types
    };
    if (r->info.kind != QKV_KIND_ENCODER_DECODER) return;
    for (int i = 0; i < SEQUENCES; i++)
        if (r->info.start >= 0) r->ids[r->offsets[i]] = r->info.start;
    make_sequences(r->source_offsets, r->source_ids, r->info.source_vocab, sources);
    r->source = (struct qkv_model_input){ .sequences = SEQUENCES,
                                          .offsets = r->source_offsets,
                                          .ids = r->source_ids };
    r->in.source = &r->source;
}

// Computes the line of a model; false: the folder contains no model that opens.
static bool make_line(struct run *r, const char *dir, qkv_precision p)
{
    const struct qkv_model_options o = { .precision = p };
    qkv_error err = { 0 };
    // MiniLM is an optional download, and takes minutes with scalar kernels
    if (strstr(dir, "MiniLM")) return false;
    *r = (struct run){ .dir = dir, .precision = p };
    if (qkv_model_open(&r->model, dir, &o, &err)) return false;
    r->info = qkv_model_info(r->model);
    r->used = (size_t)snprintf(r->line, sizeof r->line, "%s %s %s:", qkv_isa(), dir,
                               qkv_precision_name(p));
    make_input(r);
    if (r->info.can & QKV_CAN_RUN) {
        add_run(r);
        if (r->info.width <= 64) { // in wide models these take seconds
            add_ablated(r);
            add_effects(r);
        }
    }
    if (r->info.kind != QKV_KIND_ENCODER && (r->info.can & QKV_CAN_TOKENS)) add_decode(r);
    add_tasks(r);
    qkv_model_close(r->model);
    return true;
}

// ---- all models ---------------------------------------------------------------------------------
enum { FOLDERS = 256 };
static char *folders[FOLDERS];
static int folder_count;

// Runs every model on the current instruction set; writes each line to `out`, or compares it.
static int check_set(FILE *out, int *lines)
{
    static const qkv_precision precisions[] = { QKV_PRECISION_F32, QKV_PRECISION_BF16,
                                                QKV_PRECISION_INT8 };
    static struct run r;
    int differences = 0;
    for (int i = 0; i < folder_count; i++) EACH(p, precisions)
        {
            if (!make_line(&r, folders[i], *p)) continue;
            ++*lines;
            if (out) {
                fprintf(out, "%s\n", r.line);
                continue;
            }
            const char *want = find_kept(r.line, strcspn(r.line, ":") + 1);
            if (want)
                differences += report_difference(r.line, want);
            else
                printf("%.*s: not in %s\n", (int)strcspn(r.line, ":"), r.line, golden_file);
        }
    return differences;
}

TEST(running_a_model_gives_the_bits_it_gave)
{
    const char *path = getenv("QKV_WRITE_BITS");
    FILE *out = path ? fopen(path, "w") : NULL;
    char libm[32];
    int differences = 0, lines = 0;
    if (path && !out) fail_msg("cannot write %s", path);
    libm_line(libm, sizeof libm);
    if (out)
        fprintf(out,
                "# Hashes of the outputs of running models: tests/whole/test_output_bits.c, which\n"
                "# also says how to write this file again and what each word is.\n%s\n",
                libm);
    else
        read_kept();
    if (!out && !find_kept(libm, strlen(libm))) {
        printf("this libm gives other bits than that of %s\n", golden_file);
        exit(77);
    }
    folder_count = list_folders(folders, FOLDERS, "tests/golden");
    folder_count += list_folders(folders + folder_count, FOLDERS - folder_count, "models");
    CHECK_EQ(qkv_threads_set(1), QKV_OK);
    for (int i = 0; qkv_isa_supported(i); i++) {
        CHECK_EQ(qkv_isa_set(qkv_isa_supported(i)), QKV_OK);
        if (out || find_kept(qkv_isa(), strlen(qkv_isa())))
            differences += check_set(out, &lines);
        else
            printf("%s has no lines in %s\n", qkv_isa(), golden_file);
    }
    CHECK_EQ(qkv_isa_set(NULL), QKV_OK);
    printf("%d lines\n", lines);
    if (out) CHECK(fclose(out) == 0);
    for (int i = 0; i < kept_lines; i++) free(kept_line[i]);
    for (int i = 0; i < folder_count; i++) free(folders[i]);
    CHECK(lines > 100);
    CHECK_EQ(differences, 0);
}

CHECK_MAIN(CASE(running_a_model_gives_the_bits_it_gave))
