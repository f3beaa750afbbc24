// SPDX-License-Identifier: MIT
// word_vectors_train.c: trains word vectors by skip-gram or CBOW with negative sampling.
//
// Training proceeds in rounds of up to some hundred examples: all gradients of a round are computed
// in parallel from the vectors before the round, then added in the order of the text, in parallel
// over slices of the dimensions. Neither step depends on the number of threads. A round is short
// enough that the updates of its most frequent word do not overshoot; it ends early where a text
// repeats one word.
#include "task/words/word_vectors_internal.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    ROUND = 512, // maximum examples of a round; an example is also called a unit
    ROUND_LEAST = 4,
    SLICE = 32,        // number of dimensions of all vectors that one parallel task updates
    STRETCH = 1 << 12, // number of words of a document after which the learning rate is updated
    TELL = 1 << 14,    // number of words after which progress is reported
    WINDOW_MOST = 64,
    NEGATIVE_MOST = 64,
    OUTPUTS = NEGATIVE_MOST + 1
};

// A training example: context words, the word that they predict, and noise words.
struct unit {
    int64_t inputs;           // index of the first context word in learner.inputs
    int32_t count;            // number of context words
    int32_t outputs[OUTPUTS]; // the predicted word, then noise words
    float gradient[OUTPUTS];  // -rate * d L / d (h . out), for each output
};
struct learner {
    struct qkv_words_options o;
    const struct words *w;
    int64_t D, rows;
    float *in, *out; // [vocab + 1][D] input and output vector of each word
    // [vocab + 1] a word is left out unless a random number is smaller; UINT32_MAX: never left out
    uint32_t *keep;
    // Table of Walker's alias method, which draws noise words. A random column i yields the word i
    // + 1 if a second random number is at most cut[i], and the word other[i] + 1 if it is larger.
    uint32_t *cut;
    int32_t *other;
    struct unit *unit; // [ROUND] examples of the current round
    int32_t *inputs;   // [ROUND * 2 * window] context words of all examples of the round
    int64_t round, units, input_count;
    int32_t *updates; // [vocab + 1] updates of a word's vectors in the current round
    int32_t most;     // the most updates of one word in a round
    float *h, *e;     // h: [ROUND][D] hidden vector of each example; e: gradient with respect to h
    double *loss;     // [ROUND] loss of each example
    float rate;
    double loss_sum;
    int64_t asked;
};

// ---- random numbers: each word of the text has a stream of its own in each epoch ---------------
struct stream {
    uint64_t seed, site, block;
    uint32_t words[4];
    int left;
};
static uint32_t draw(struct stream *s)
{
    if (!s->left) {
        qkv_philox(s->words, s->seed, s->site, s->block++);
        s->left = 4;
    }
    return s->words[--s->left];
}
static int64_t draw_below(struct stream *s, int64_t n)
{
    return (int64_t)((uint64_t)draw(s) * (uint64_t)n >> 32);
}

// ---- probabilities with which words are drawn or left out --------------------------------------
static void make_keep(struct learner *l)
{
    const double t = l->o.sample;
    for (int64_t i = 1; i <= l->w->vocab; i++) {
        const double f = (double)l->w->entry[l->w->order[i - 1]].count / (double)l->w->seen;
        const double p = t > 0 ? sqrt(t / f) + t / f : 1;
        l->keep[i] = p >= 1 ? UINT32_MAX : (uint32_t)(p * 0x1p32);
    }
}

static qkv_status make_noise(struct learner *l, qkv_error *err)
{
    const int64_t n = l->w->vocab;
    double *share = qkv_alloc((size_t)n, sizeof *share), sum = 0;
    int32_t *work = qkv_alloc(2 * (size_t)n, sizeof *work);
    if (!share || !work) {
        qkv_free(share);
        qkv_free(work);
        return qkv_fail_memory(err, NULL);
    }
    for (int64_t i = 0; i < n; i++) {
        share[i] = pow((double)l->w->entry[l->w->order[i]].count, .75);
        sum += share[i];
    }
    int32_t *small = work, *large = work + n;
    int64_t smalls = 0, larges = 0;
    for (int64_t i = 0; i < n; i++) {
        share[i] *= (double)n / sum;
        if (share[i] < 1)
            small[smalls++] = (int32_t)i;
        else
            large[larges++] = (int32_t)i;
    }
    while (smalls && larges) {
        const int32_t a = small[--smalls], b = large[larges - 1];
        l->cut[a] = (uint32_t)(share[a] * 0x1p32 < 0x1p32 - 1 ? share[a] * 0x1p32 : 0x1p32 - 1);
        l->other[a] = b;
        share[b] -= 1 - share[a];
        if (share[b] < 1) {
            larges--;
            small[smalls++] = b;
        }
    }
    // because of rounding, columns may be left over: their probability is 1
    while (larges || smalls) {
        const int32_t a = larges ? large[--larges] : small[--smalls];
        l->cut[a] = UINT32_MAX;
        l->other[a] = a;
    }
    qkv_free(share);
    qkv_free(work);
    return QKV_OK;
}

static int32_t draw_noise(const struct learner *l, struct stream *s)
{
    const int64_t i = draw_below(s, l->w->vocab);
    return (draw(s) <= l->cut[i] ? (int32_t)i : l->other[i]) + 1;
}

// ---- a round -----------------------------------------------------------------------------------
// Returns log(1 + exp(-x)), the loss of predicting the right word with score x.
static double soft(double x)
{
    return x > 0 ? log1p(exp(-x)) : log1p(exp(x)) - x;
}

static void form(void *ctx, int64_t i, int thread)
{
    struct learner *l = ctx;
    struct unit *u = &l->unit[i];
    const int64_t D = l->D;
    float *h = l->h + i * D, *e = l->e + i * D;
    (void)thread;
    memset(h, 0, (size_t)D * sizeof *h);
    memset(e, 0, (size_t)D * sizeof *e);
    for (int32_t k = 0; k < u->count; k++) {
        const float *x = l->in + l->inputs[u->inputs + k] * D;
        for (int64_t d = 0; d < D; d++) h[d] += x[d];
    }
    const float share = 1 / (float)u->count;
    for (int64_t d = 0; d < D; d++) h[d] *= share;
    double loss = 0;
    for (int64_t k = 0; k <= l->o.negative; k++) {
        const float *y = l->out + u->outputs[k] * D;
        u->gradient[k] = 0;
        // skip a noise word that is the predicted word itself
        if (k && u->outputs[k] == u->outputs[0]) continue;
        double dot = 0;
        for (int64_t d = 0; d < D; d++) dot += (double)h[d] * (double)y[d];
        loss += soft(k ? -dot : dot);
        const double s = 1 / (1 + exp(-dot));
        const float g = l->rate * (float)((k ? 0 : 1) - s);
        u->gradient[k] = g;
        for (int64_t d = 0; d < D; d++) e[d] += g * y[d];
    }
    for (int64_t d = 0; d < D; d++) e[d] *= share;
    l->loss[i] = loss;
}

static void apply(void *ctx, int64_t slice, int thread)
{
    struct learner *l = ctx;
    const int64_t D = l->D, first = slice * SLICE, last = qkv_min64(first + SLICE, D);
    (void)thread;
    for (int64_t i = 0; i < l->units; i++) {
        const struct unit *u = &l->unit[i];
        const float *h = l->h + i * D, *e = l->e + i * D;
        for (int64_t k = 0; k <= l->o.negative; k++) {
            float *y = l->out + u->outputs[k] * D;
            const float g = u->gradient[k];
            for (int64_t d = first; d < last; d++) y[d] += g * h[d];
        }
        for (int32_t k = 0; k < u->count; k++) {
            float *x = l->in + l->inputs[u->inputs + k] * D;
            for (int64_t d = first; d < last; d++) x[d] += e[d];
        }
    }
}

static void round_end(struct learner *l)
{
    if (!l->units) return;
    qkv_parallel_for(l->units, form, l);
    qkv_parallel_for(qkv_ceil_div(l->D, SLICE), apply, l);
    for (int64_t i = 0; i < l->units; i++) {
        const struct unit *u = &l->unit[i];
        l->loss_sum += l->loss[i];
        for (int64_t k = 0; k <= l->o.negative; k++) l->updates[u->outputs[k]] = 0;
        for (int32_t k = 0; k < u->count; k++) l->updates[l->inputs[u->inputs + k]] = 0;
    }
    l->asked += l->units;
    l->units = l->input_count = 0;
}

// Adds a training example to the round: the context words inputs[count] predict `word`. Draws the
// noise words.
static void add_unit(struct learner *l, const int32_t *inputs, int32_t count, int32_t word,
                     struct stream *s)
{
    struct unit *u = &l->unit[l->units++];
    u->inputs = l->input_count;
    u->count = count;
    memcpy(l->inputs + l->input_count, inputs, (size_t)count * sizeof *inputs);
    l->input_count += count;
    u->outputs[0] = word;
    for (int64_t k = 1; k <= l->o.negative; k++) u->outputs[k] = draw_noise(l, s);
    bool full = l->units == l->round;
    for (int64_t k = 0; k <= l->o.negative; k++) full |= ++l->updates[u->outputs[k]] >= l->most;
    for (int32_t k = 0; k < count; k++) full |= ++l->updates[inputs[k]] >= l->most;
    if (full) round_end(l);
}

// ---- the text ----------------------------------------------------------------------------------
// Progress of training. total: number of words in all epochs; told: words at the last report.
struct place {
    int64_t total, told;
};

static qkv_status arrive(struct learner *l, struct place *p, int64_t done, qkv_error *err)
{
    const struct qkv_progress *to = &l->o.progress;
    const double left = 1 - (double)done / (double)p->total;
    l->rate = (float)(l->o.rate * (left > 1e-4 ? left : 1e-4));
    if (!to->step || done - p->told < TELL) return QKV_OK;
    p->told = done;
    return to->step(to->user, "words", done, p->total)
               ? qkv_fail(err, QKV_ERR_INTERRUPTED, NULL, "interrupted")
               : QKV_OK;
}

// Learns from one document: selects the words that are not left out, then adds examples for each.
// In a long document, the learning rate and progress are also updated within the document.
static qkv_status learn_document(struct learner *l, int32_t *kept, int64_t begin, int64_t end,
                                 uint64_t epoch, struct place *p, qkv_error *err)
{
    const int64_t W = l->o.window;
    int64_t n = 0;
    for (int64_t i = begin; i < end; i++) {
        uint32_t r[4];
        const int32_t id = l->w->stream[i];
        if (l->keep[id] < UINT32_MAX) {
            qkv_philox(r, l->o.seed, 2 * epoch, (uint64_t)i);
            if (r[0] >= l->keep[id]) continue;
        }
        kept[n++] = id;
    }
    for (int64_t i = 0; i < n; i++) {
        if (i % STRETCH == 0) {
            const int64_t on = (int64_t)((double)i / (double)n * (double)(end - begin));
            const qkv_status status = arrive(l, p, (int64_t)epoch * l->w->length + begin + on, err);
            if (status) return status;
        }
        struct stream s = { .seed = l->o.seed,
                            .site = 2 * epoch + 1,
                            .block = (uint64_t)(begin + i) << 16 };
        const int64_t near = 1 + draw_below(&s, W);
        int32_t inputs[2 * WINDOW_MOST], count = 0;
        for (int64_t j = qkv_max64(0, i - near); j <= qkv_min64(n - 1, i + near); j++)
            if (j != i) inputs[count++] = kept[j];
        if (!count) continue;
        if (!l->o.skip_gram) {
            add_unit(l, inputs, count, kept[i], &s);
            continue;
        }
        for (int32_t k = 0; k < count; k++) add_unit(l, &inputs[k], 1, kept[i], &s);
    }
    return QKV_OK;
}

static qkv_status learn(struct learner *l, double *loss, qkv_error *err)
{
    const struct words *w = l->w;
    struct place p = { .total = w->length * l->o.epochs };
    int64_t longest = 0;
    for (int64_t i = 0; i < w->documents; i++)
        longest = qkv_max64(longest, w->end[i] - (i ? w->end[i - 1] : 0));
    int32_t *kept = qkv_alloc((size_t)longest, sizeof *kept);
    if (!kept) return qkv_fail_memory(err, NULL);
    qkv_status status = QKV_OK;
    for (int64_t epoch = 0; epoch < l->o.epochs && !status; epoch++) {
        l->loss_sum = 0;
        l->asked = 0;
        for (int64_t i = 0; i < w->documents && !status; i++)
            status =
                learn_document(l, kept, i ? w->end[i - 1] : 0, w->end[i], (uint64_t)epoch, &p, err);
        round_end(l);
    }
    *loss = l->asked ? l->loss_sum / (double)l->asked : 0;
    qkv_free(kept);
    return status;
}

// Limits the updates of one word in a round: (learning rate) * (number of updates of its vector) is
// at most this on the mean, for the most frequent word of the text, and at most twice this where a
// word is repeated. Larger steps could overshoot: the curvature of the logistic loss is at most
// |h|^2 / 4, and |h| is about 1.
#define STEPS 1.6

static int64_t round_of(const struct learner *l)
{
    const double seen = (double)l->w->seen;
    double noise = 0, most = 0, sum = 0;
    for (int64_t i = 1; i <= l->w->vocab; i++) {
        const double n = (double)l->w->entry[l->w->order[i - 1]].count;
        most = fmax(most, n / seen * fmin(1, (double)l->keep[i] * 0x1p-32));
        noise += pow(n, .75);
        sum += n / seen * fmin(1, (double)l->keep[i] * 0x1p-32);
    }
    const double first = pow((double)l->w->entry[l->w->order[0]].count, .75) / noise;
    const double often =
        // expected number of updates of the most frequent word per example
        most / sum + (double)l->o.negative * first;
    return qkv_max64(ROUND_LEAST, qkv_min64(ROUND, (int64_t)(STEPS / (l->o.rate * often))));
}

// ---- memory ------------------------------------------------------------------------------------
static void learner_free(struct learner *l)
{
    qkv_free(l->in);
    qkv_free(l->out);
    qkv_free(l->keep);
    qkv_free(l->cut);
    qkv_free(l->other);
    qkv_free(l->unit);
    qkv_free(l->inputs);
    qkv_free(l->updates);
    qkv_free(l->h);
    qkv_free(l->e);
    qkv_free(l->loss);
}

static qkv_status learner_begin(struct learner *l, qkv_error *err)
{
    size_t numbers;
    const size_t D = (size_t)l->D;
    l->rows = l->w->vocab + 1;
    if (!qkv_mul_size(&numbers, (size_t)l->rows, D))
        return qkv_fail(err, QKV_ERR_LIMIT, NULL,
                        "vectors of %" PRId64 " words with %" PRId64
                        " dimensions are too large for this machine",
                        l->w->vocab, l->D);
    l->in = qkv_alloc_zero(numbers, sizeof *l->in);
    l->out = qkv_alloc_zero(numbers, sizeof *l->out);
    l->keep = qkv_alloc((size_t)l->rows, sizeof *l->keep);
    l->cut = qkv_alloc((size_t)l->w->vocab, sizeof *l->cut);
    l->other = qkv_alloc((size_t)l->w->vocab, sizeof *l->other);
    l->unit = qkv_alloc(ROUND, sizeof *l->unit);
    l->inputs = qkv_alloc(ROUND * 2 * (size_t)l->o.window, sizeof *l->inputs);
    l->updates = qkv_alloc_zero((size_t)l->rows, sizeof *l->updates);
    l->h = qkv_alloc(ROUND * D, sizeof *l->h);
    l->e = qkv_alloc(ROUND * D, sizeof *l->e);
    l->loss = qkv_alloc(ROUND, sizeof *l->loss);
    if (!l->in || !l->out || !l->keep || !l->cut || !l->other || !l->unit || !l->inputs ||
        !l->updates || !l->h || !l->e || !l->loss)
        return qkv_fail_memory(err, NULL);
    // Initialize as word2vec does: input vectors uniform within +- 1 / (2 D), output vectors 0. Row
    // 0, which belongs to [UNK], stays 0.
    for (size_t i = D; i < numbers; i += 4) {
        uint32_t r[4];
        qkv_philox(r, l->o.seed, UINT64_MAX, i / 4);
        for (size_t k = i; k < i + 4 && k < numbers; k++)
            l->in[k] = ((float)r[k - i] * 0x1p-32f - .5f) / (float)D;
    }
    make_keep(l);
    l->round = round_of(l);
    l->most = (int32_t)fmin(fmax(2 * STEPS / l->o.rate, 1), INT32_MAX / 2);
    return make_noise(l, err);
}

// ---- the folder --------------------------------------------------------------------------------
static qkv_status check(struct qkv_words_options *o, qkv_error *err)
{
    if (!o->width) o->width = 100;
    if (!o->window) o->window = 5;
    if (!o->negative) o->negative = 5;
    if (!o->least) o->least = 5;
    if (!o->epochs) o->epochs = 5;
    if (o->rate == 0) o->rate = o->skip_gram ? .025 : .1;
    if (o->sample == 0) o->sample = 1e-3;
    const struct {
        const char *name;
        int64_t value, most;
    } rows[] = { { "width", o->width, 1 << 16 },
                 { "window", o->window, WINDOW_MOST },
                 { "negative", o->negative, NEGATIVE_MOST },
                 { "least", o->least, INT32_MAX },
                 { "epochs", o->epochs, 1 << 20 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].value < 1 || rows[i].value > rows[i].most)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "%s of word vectors is out of range, expected 1 to %" PRId64
                            ", found %" PRId64,
                            rows[i].name, rows[i].most, rows[i].value);
    if (!(o->rate > 0 && o->rate < 1e3))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "rate of word vectors is out of range, expected more than 0 and less than "
                        "1000, found %g",
                        o->rate);
    if (!(o->sample <= 1))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "sample of word vectors is out of range, expected at most 1, found %g",
                        o->sample);
    if (o->most < 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "most, the maximum number of word vectors, is out of range, expected 0 (no "
                        "maximum) or more, found %" PRId64,
                        o->most);
    return QKV_OK;
}

static qkv_status write_config(const struct learner *l, const char *path, qkv_error *err)
{
    json_t *root = json_pack("{s:s, s:I, s:I, s:s, s:I, s:I}", "model_type", "qkv-words",
                             "vocab_size", (json_int_t)l->rows, "hidden_size", (json_int_t)l->D,
                             "objective", l->o.skip_gram ? "skip-gram" : "cbow", "window",
                             (json_int_t)l->o.window, "negative", (json_int_t)l->o.negative);
    if (!root) return qkv_fail_memory(err, path);
    const qkv_status status = qkv_json_write(path, root, false, err);
    json_decref(root);
    return status;
}

static qkv_status write_vectors(const struct learner *l, const char *path, qkv_error *err)
{
    qkv_safetensors_writer *w = NULL;
    const struct qkv_tensor t = {
        .name = "embeddings.weight", .dtype = QKV_F32, .rank = 2, .shape = { l->rows, l->D }
    };
    qkv_status status = qkv_safetensors_create(&w, path, &t, 1, NULL, false, err);
    if (!status)
        status =
            qkv_safetensors_append(w, l->in, (size_t)l->rows * (size_t)l->D * sizeof *l->in, err);
    if (!status) status = qkv_safetensors_finish(w, err);
    qkv_safetensors_close(w);
    return status;
}

static qkv_status write_model(const struct learner *l, const struct words *w, const char *dir,
                              qkv_error *err)
{
    char path[QKV_PATH];
    qkv_status status = qkv_path_join(path, dir, "tokenizer.json", err);
    if (!status) status = words_tokenizer(w, path, false, err);
    if (!status) status = qkv_path_join(path, dir, "model.safetensors", err);
    if (!status) status = write_vectors(l, path, err);
    if (!status) status = qkv_path_join(path, dir, "config.json", err);
    return status ? status : write_config(l, path, err);
}

qkv_status qkv_words_train(const char *dir, const qkv_corpus *corpus,
                           const struct qkv_words_options *o, struct qkv_words_report *report,
                           qkv_error *err)
{
    struct words w = { 0 };
    struct learner l = { .o = *o, .w = &w };
    struct qkv_folder f = { .open = false };
    double loss = 0;
    if (!dir || !corpus)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "word vectors: expected a folder and a text, found NULL");
    qkv_status status = check(&l.o, err);
    if (!status) status = qkv_folder_begin(&f, dir, o->force, err);
    if (!status) status = words_count(&w, corpus, err);
    if (!status) status = words_choose(&w, l.o.least, l.o.most, err);
    if (!status) status = words_read(&w, corpus, err);
    l.D = l.o.width;
    if (!status) status = learner_begin(&l, err);
    if (!status) status = learn(&l, &loss, err);
    if (!status) status = write_model(&l, &w, f.dir, err);
    if (!status) status = qkv_folder_commit(&f, err);
    qkv_folder_abort(&f, err);
    if (!status && report)
        *report = (struct qkv_words_report){ .words = w.seen, .vocab = w.vocab, .loss = loss };
    learner_free(&l);
    words_free(&w);
    return status;
}
