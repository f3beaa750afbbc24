// SPDX-License-Identifier: MIT
// generator.c: opens generators and translators, and runs their calls. Each consists of a model,
// its tokenizer, and a decoder whose KV caches all calls reuse.
#include "task/find_model.h"
#include "task/generate/generation.h"
#include "task/generate/generate_request.h"
#include "task/generate/source_alignment.h"
#include <inttypes.h>
#include <math.h>

enum {
    DEFAULT_ITEMS = 8,
    TRANSLATE_ITEMS = 64, // most sequences of a translator that chooses their number itself
    DEFAULT_BEAMS = 4,
    MOST_BEAMS = 1024,
    MOST_LOGPROBS = 1000
};
static const int64_t MOST_FIRST = (int64_t)1 << 52;

// The content of both public types: qkv_generator and qkv_translator.
struct generator {
    struct qkv_generator_options options;
    qkv_model *model;
    qkv_tokenizer *tokenizer;
    struct qkv_generation_config config;
    qkv_decoder *decoder; // decoder with `items` sequences; NULL before the first call
    int64_t items;
    bool translates;
};
struct qkv_generator {
    struct generator g;
};
struct qkv_translator {
    struct generator g;
};

// ---- open and close -----------------------------------------------------------------------------
static void close_generator(struct generator *g)
{
    qkv_decoder_free(g->decoder);
    qkv_generation_config_free(&g->config);
    qkv_tokenizer_close(g->tokenizer);
    qkv_model_close(g->model);
}

static qkv_status fail_range(qkv_error *err, const char *name, int64_t least, int64_t most,
                             int64_t found)
{
    return qkv_fail(err, QKV_ERR_USAGE, NULL,
                    "%s is out of range, expected %" PRId64 " to %" PRId64 ", found %" PRId64, name,
                    least, most, found);
}

static qkv_status open_generator(struct generator *g, const char *dir,
                                 const struct qkv_generator_options *o, bool translates,
                                 qkv_error *err)
{
    static const struct qkv_generator_options plain;
    g->options = o ? *o : plain;
    g->translates = translates;
    if (!dir) return qkv_fail(err, QKV_ERR_USAGE, NULL, "no model folder given, expected a path");
    if (g->options.items < 0 || g->options.items > 1 << 20)
        return fail_range(err, "items", 0, 1 << 20, g->options.items);
    if (g->options.positions < 0)
        return fail_range(err, "positions", 0, INT64_MAX, g->options.positions);
    qkv_status status = qkv_model_open(&g->model, dir, &g->options.model, err);
    if (status) return status;
    const struct qkv_model_info info = qkv_model_info(g->model);
    const bool two = info.kind == QKV_KIND_ENCODER_DECODER;
    if (translates != two || info.kind == QKV_KIND_ENCODER || !(info.can & QKV_CAN_TOKENS))
        return qkv_unfit(g->model,
                         translates ? "an encoder-decoder with an output projection"
                                    : "a decoder with an output projection",
                         err);
    status = qkv_tokenizer_open(&g->tokenizer, dir, err);
    if (!status) status = qkv_generation_config_read(&g->config, dir, g->model, err);
    if (status) return status;
    if (qkv_tokenizer_size(g->tokenizer) > info.vocab)
        return qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = dir },
                        "tokenizer has token ids for which the model has no embedding, expected "
                        "ids below %" PRId64 ", found %" PRId64,
                        info.vocab, qkv_tokenizer_size(g->tokenizer) - 1);
    if (two && g->config.start < 0)
        return qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = dir },
                        "decoder_start_token_id is missing, expected the id of the token with "
                        "which every output begins");
    return QKV_OK;
}

qkv_status qkv_generator_open(qkv_generator **out, const char *dir,
                              const struct qkv_generator_options *o, qkv_error *err)
{
    if (!out)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_generator_open: expected a pointer for the generator, found NULL");
    *out = NULL;
    qkv_generator *g = qkv_alloc_zero(1, sizeof *g);
    if (!g) return qkv_fail_memory(err, dir);
    const qkv_status status = open_generator(&g->g, dir, o, false, err);
    if (status)
        qkv_generator_close(g);
    else
        *out = g;
    return status;
}

qkv_status qkv_translator_open(qkv_translator **out, const char *dir,
                               const struct qkv_generator_options *o, qkv_error *err)
{
    if (!out)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_translator_open: expected a pointer for the translator, found NULL");
    *out = NULL;
    qkv_translator *t = qkv_alloc_zero(1, sizeof *t);
    if (!t) return qkv_fail_memory(err, dir);
    const qkv_status status = open_generator(&t->g, dir, o, true, err);
    if (status)
        qkv_translator_close(t);
    else
        *out = t;
    return status;
}

void qkv_generator_close(qkv_generator *g)
{
    if (!g) return;
    close_generator(&g->g);
    qkv_free(g);
}
void qkv_translator_close(qkv_translator *t)
{
    if (!t) return;
    close_generator(&t->g);
    qkv_free(t);
}
const qkv_model *qkv_generator_model(const qkv_generator *g)
{
    return g ? g->g.model : NULL;
}
const qkv_tokenizer *qkv_generator_tokenizer(const qkv_generator *g)
{
    return g ? g->g.tokenizer : NULL;
}
const qkv_model *qkv_translator_model(const qkv_translator *t)
{
    return t ? t->g.model : NULL;
}
const qkv_tokenizer *qkv_translator_tokenizer(const qkv_translator *t)
{
    return t ? t->g.tokenizer : NULL;
}

const struct qkv_sampling *qkv_generator_sampling(const qkv_generator *g)
{
    return g ? &g->g.config.sampling : NULL;
}

const char *qkv_generator_ignored(const qkv_generator *g)
{
    return g && *g->g.config.ignored ? g->g.config.ignored : NULL;
}
const char *qkv_translator_ignored(const qkv_translator *t)
{
    return t && *t->g.config.ignored ? t->g.config.ignored : NULL;
}

const struct qkv_generation_config *qkv_translator_config(const qkv_translator *t)
{
    return &t->g.config;
}

// ---- a decoder as the source of logits ---------------------------------------------------------
static qkv_status encode_sources(void *ctx, int64_t first, const int32_t *ids,
                                 const int64_t *offsets, int64_t n, qkv_error *err)
{
    const struct qkv_model_input in = { .sequences = n, .offsets = offsets, .ids = ids };
    return qkv_decoder_source(ctx, first, &in, err);
}
static qkv_status feed_tokens(void *ctx, float *logits, const struct qkv_decoder_tokens *t,
                              qkv_error *err)
{
    return qkv_decoder_feed(ctx, logits, t, err);
}
static qkv_status copy_items(void *ctx, const int64_t *to, const int64_t *from, int64_t n,
                             qkv_error *err)
{
    return qkv_decoder_copy(ctx, to, from, n, err);
}
static qkv_status clear_item(void *ctx, int64_t item)
{
    return qkv_decoder_cut(ctx, item, 0);
}

static struct qkv_logits_source decoder_source(qkv_decoder *d, int64_t V)
{
    return (struct qkv_logits_source){ .V = V,
                                       .positions = qkv_decoder_capacity(d),
                                       .encode = encode_sources,
                                       .feed = feed_tokens,
                                       .copy = copy_items,
                                       .clear = clear_item,
                                       .ctx = d };
}

static bool can_run(const struct generator *g)
{
    return (qkv_model_info(g->model).can & QKV_CAN_RUN) != 0;
}

// Returns the number of sequences that a call decodes at once, for the given number of beams.
static int64_t call_items(const struct generator *g, int64_t beams)
{
    const int64_t most =
        g->translates ? qkv_min64(DEFAULT_ITEMS * beams, TRANSLATE_ITEMS) : DEFAULT_ITEMS;
    return qkv_max64(g->options.items ? g->options.items : most, beams);
}

// Ensures that the decoder is large enough for a call. A translation has items for sources that are
// encoded before a slot is free. If alignments are requested from a model that can only decode, the
// last item is reserved for computing them.
static qkv_status prepare_decoder(struct generator *g, int64_t beams, bool alignment,
                                  qkv_error *err)
{
    const int64_t ahead = g->translates ? QKV_SOURCES_AHEAD : 0;
    const int64_t wanted = call_items(g, beams) + ahead + (alignment && !can_run(g));
    if (g->decoder && g->items >= wanted) return QKV_OK;
    qkv_decoder_free(g->decoder);
    g->decoder = NULL;
    const struct qkv_decoder_options o = { .items = wanted,
                                           .capacity = g->options.positions,
                                           .cache = g->options.cache };
    g->items = wanted;
    return qkv_decoder_new(&g->decoder, g->model, &o, err);
}

// ---- a call -------------------------------------------------------------------------------------
// Replaces options that are not set by the defaults in the model's folder.
static void take_defaults(struct qkv_generate_options *o, const struct qkv_generation_config *c)
{
    struct qkv_sampling *s = &o->sampling;
    if (!o->own_sampling && o->beams <= 1) {
        if (!s->temperature) s->temperature = c->sampling.temperature;
        if (!s->top_k) s->top_k = c->sampling.top_k;
        if (!s->top_p) s->top_p = c->sampling.top_p;
        if (!s->min_p) s->min_p = c->sampling.min_p;
    }
    if (s->top_k == -1) s->top_k = 0;
    if (s->min_p == -1) s->min_p = 0;
    if (!o->sampling.repetition) o->sampling.repetition = c->repetition;
    if (!o->sampling.no_repeat_ngram) o->sampling.no_repeat_ngram = c->no_repeat_ngram;
    if (o->sampling.no_repeat_ngram == -1) o->sampling.no_repeat_ngram = 0;
    if (o->length_penalty == 0) o->length_penalty = c->length_penalty;
    if (o->early == QKV_EARLY_MODEL) o->early = c->early;
    if (o->early == QKV_EARLY_MODEL) o->early = QKV_EARLY_LIKELY;
}

// Checks the options of a call and replaces missing ones by the defaults of this model.
static qkv_status resolve_options(const struct generator *g, struct qkv_generate_options *o,
                                  qkv_error *err)
{
    const struct qkv_model_info info = qkv_model_info(g->model);
    // a GRU decoder has a single layer that attends to the source
    const int64_t layers = can_run(g) ? info.decoder_layers : 1;
    const int64_t logprobs = qkv_min64(MOST_LOGPROBS, info.vocab);
    take_defaults(o, &g->config);
    const qkv_status status = qkv_sampling_check(&o->sampling, info.vocab, err);
    if (status) return status;
    if (!o->beams && g->translates) o->beams = g->config.beams ? g->config.beams : DEFAULT_BEAMS;
    if (!o->beams) o->beams = 1;
    if (!o->n_best) o->n_best = 1;
    if (o->beams < 1 || o->beams > MOST_BEAMS)
        return fail_range(err, "beams", 1, MOST_BEAMS, o->beams);
    if (o->n_best < 1 || o->n_best > MOST_BEAMS)
        return fail_range(err, "n_best", 1, MOST_BEAMS, o->n_best);
    if (o->beams > 1 && o->n_best > o->beams)
        return fail_range(err, "n_best", 1, o->beams, o->n_best);
    if (o->beams == 1 && o->n_best > 1 && o->sampling.temperature == 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "n_best is out of range, expected 1 unless there are several beams or a "
                        "temperature above 0 (otherwise all outputs are the same), found %" PRId64,
                        o->n_best);
    if (o->first < 0 || o->first > MOST_FIRST)
        return fail_range(err, "first", 0, MOST_FIRST, o->first);
    const int64_t least = g->translates || o->beams > 1 ? 0 : -1;
    if (o->max_tokens < least)
        return fail_range(err, "max_tokens", least, INT64_MAX, o->max_tokens);
    if (o->min_tokens < -1) return fail_range(err, "min_tokens", -1, INT64_MAX, o->min_tokens);
    if (o->logprobs < 0 || o->logprobs > logprobs)
        return fail_range(err, "logprobs", 0, logprobs, o->logprobs);
    if (o->prompt_ids && (g->translates || o->prompt_id_count < 0))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        g->translates
                            ? "prompt_ids are not possible for a translation, expected a text"
                            : "prompt_id_count is out of range, expected 0 or more");
    if (!isfinite(o->length_penalty))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid length_penalty, expected a finite number, found %g",
                        o->length_penalty);
    if ((int)o->early < 0 || o->early > QKV_EARLY_NEVER)
        return fail_range(err, "early", 0, QKV_EARLY_NEVER, (int64_t)o->early);
    if (o->length_penalty == 0)
        o->length_penalty = g->config.length_reward < 0 ? g->config.length_reward : 1;
    else if (o->length_penalty < 0)
        o->length_penalty = 0;
    if (!o->alignment) return QKV_OK;
    if (!g->translates) return qkv_unfit(g->model, "an encoder-decoder with cross-attention", err);
    if (o->alignment_layer && (*o->alignment_layer < 0 || *o->alignment_layer >= layers))
        return fail_range(err, "alignment_layer", 0, layers - 1, *o->alignment_layer);
    return QKV_OK;
}

qkv_status qkv_generator_settings(const qkv_generator *g, struct qkv_generation *to,
                                  const struct qkv_generate_options *o, qkv_error *err)
{
    static const struct qkv_generate_options plain;
    to->tokenizer = g->g.tokenizer;
    to->config = &g->g.config;
    to->options = o ? *o : plain;
    return resolve_options(&g->g, &to->options, err);
}

qkv_status qkv_generator_decoder(const qkv_generator *g, int64_t items, qkv_decoder **decoder,
                                 struct qkv_logits_source *source, qkv_error *err)
{
    const struct qkv_decoder_options o = { .items = items,
                                           .capacity = g->g.options.positions,
                                           .cache = g->g.options.cache };
    const qkv_status status = qkv_decoder_new(decoder, g->g.model, &o, err);
    if (!status) *source = decoder_source(*decoder, qkv_model_info(g->g.model).vocab);
    return status;
}

// Context for the alignment of an output: the model runs again on the finished translation, with an
// observer of its cross-attention.
struct alignment {
    const qkv_model *model;
    // for a model that can only decode: the decoder whose last item is used; NULL for other models
    qkv_decoder *decoder;
    int64_t item;
    int64_t layer;
    int32_t start;
};

static qkv_status align_output(void *ctx, const struct qkv_generated *g, float **weights,
                               qkv_error *err)
{
    const struct alignment *a = ctx;
    const int64_t rows = g->tokens + (g->ending == QKV_END_TOKEN);
    if (!rows) return QKV_OK;
    int32_t *ids = qkv_alloc((size_t)rows, sizeof *ids);
    if (!ids) return qkv_fail_memory(err, NULL);
    ids[0] = a->start;
    for (int64_t i = 1; i < rows; i++) ids[i] = g->ids[i - 1];
    const qkv_status status = a->decoder
                                  ? qkv_align_decoder(a->decoder, a->item, weights, ids, rows,
                                                      g->source_ids, g->source_tokens, err)
                                  : qkv_align(a->model, weights, ids, rows, g->source_ids,
                                              g->source_tokens, a->layer, err);
    qkv_free(ids);
    return status;
}

// Runs a request whose prompts or source ids are set.
static qkv_status run_request(struct generator *g, struct qkv_generate_request *r,
                              const struct qkv_generate_options *o, qkv_error *err)
{
    static const struct qkv_generate_options plain;
    const struct qkv_model_info info = qkv_model_info(g->model);
    struct qkv_generate_options options = o ? *o : plain;
    qkv_status status = resolve_options(g, &options, err);
    if (!status) status = prepare_decoder(g, options.beams, options.alignment, err);
    if (status) return status;
    const struct qkv_logits_source source = decoder_source(g->decoder, info.vocab);
    struct alignment alignment = { .model = g->model,
                                   .decoder = can_run(g) ? NULL : g->decoder,
                                   .item = g->items - 1,
                                   .layer = options.alignment_layer ? *options.alignment_layer
                                                                    : info.decoder_layers - 1,
                                   .start = g->config.start };
    r->g.source = &source;
    r->g.tokenizer = g->tokenizer;
    r->g.config = &g->config;
    r->g.options = options;
    r->g.translates = g->translates;
    r->items = call_items(g, options.beams);
    r->align = options.alignment ? align_output : NULL;
    r->align_ctx = &alignment;
    return qkv_generate_request(r, err);
}

static qkv_status run_texts(struct generator *g, const char *const *prompts, const size_t *bytes,
                            int64_t n, const struct qkv_generate_options *o, qkv_error *err)
{
    struct qkv_generate_request r = { .g = { .prompts = prompts, .bytes = bytes, .n = n } };
    if (n < 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "negative number of texts, expected 0 or more, found %lld", (long long)n);
    if (n && !prompts)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "no texts given, expected an array, found NULL");
    if (n != 1 && o && o->prompt_ids)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "prompt_ids are the tokens of one prompt, expected 1 text, found %" PRId64,
                        n);
    for (int64_t i = 0; i < n; i++)
        if (!prompts[i])
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "text %" PRId64 " is missing, expected a text, found NULL", i);
    return run_request(g, &r, o, err);
}

qkv_status qkv_generate(qkv_generator *g, const char *const *prompts, const size_t *bytes,
                        int64_t n, const struct qkv_generate_options *o, qkv_error *err)
{
    if (!g)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "qkv_generate: expected a generator, found NULL");
    return run_texts(&g->g, prompts, bytes, n, o, err);
}

qkv_status qkv_translate(qkv_translator *t, const char *const *sources, const size_t *bytes,
                         int64_t n, const struct qkv_generate_options *o, qkv_error *err)
{
    if (!t)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_translate: expected a translator, found NULL");
    return run_texts(&t->g, sources, bytes, n, o, err);
}

qkv_status qkv_translate_ids(qkv_translator *t, const int32_t *ids, const int64_t *offsets,
                             int64_t n, const struct qkv_generate_options *o, qkv_error *err)
{
    struct qkv_generate_request r = { .g = {
                                          .source_ids = ids, .source_offsets = offsets, .n = n } };
    return run_request(&t->g, &r, o, err);
}
