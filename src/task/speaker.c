// SPDX-License-Identifier: MIT
// speaker.c: qkv_generator and qkv_translator: a model folder with its tokenizer and the caches of
// its decoder, which stay from one call to the next.
#include "task/speaker.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { ITEMS_PLAIN = 8, BEAMS_PLAIN = 4, BEAMS_MOST = 1024, LOGPROBS_MOST = 1000 };

// Both handles.
struct speaker {
    struct qkv_generator_options o;
    qkv_model *model;
    qkv_tokenizer *tokenizer;
    struct qkv_manners manners;
    qkv_decoder *decoder; // of `items`; NULL before the first call
    int64_t items;
    bool translates;
};
struct qkv_generator {
    struct speaker s;
};
struct qkv_translator {
    struct speaker s;
};

qkv_status qkv_unfit(const qkv_model *m, const char *wanted, qkv_error *err)
{
    const struct qkv_model_info info = qkv_model_info(m);
    static const char *const kinds[] = { "an encoder", "a decoder", "an encoder-decoder" };
    const char *fits;
    if (info.kind == QKV_KIND_ENCODER_DECODER)
        fits = "qkv translate";
    else if (info.kind == QKV_KIND_DECODER)
        fits = info.can & QKV_CAN_TOKENS ? "qkv generate" : "qkv embed, qkv view";
    else if (info.can & QKV_CAN_LABELS)
        fits = "qkv classify";
    else
        fits = info.can & QKV_CAN_TOKENS ? "qkv fill, qkv embed" : "qkv embed, qkv view";
    return qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_place){ .file = info.name },
                    "expected %s, found %s (%s), which is for %s", wanted, kinds[info.kind],
                    info.family, fits);
}

// ---- open and close -----------------------------------------------------------------------------
static void close_speaker(struct speaker *s)
{
    qkv_decoder_free(s->decoder);
    qkv_manners_free(&s->manners);
    qkv_tokenizer_close(s->tokenizer);
    qkv_model_close(s->model);
}

static qkv_status open_speaker(struct speaker *s, const char *dir,
                               const struct qkv_generator_options *o, bool translates,
                               qkv_error *err)
{
    static const struct qkv_generator_options plain;
    s->o = o ? *o : plain;
    s->translates = translates;
    if (!dir) return qkv_fail(err, QKV_ERR_USAGE, NULL, "no model folder given");
    if (s->o.items < 0 || s->o.items > 1 << 20 || s->o.positions < 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "an option of the generator is out of range");
    qkv_status status = qkv_model_open(&s->model, dir, &s->o.model, err);
    if (status) return status;
    const struct qkv_model_info info = qkv_model_info(s->model);
    const bool two = info.kind == QKV_KIND_ENCODER_DECODER;
    if (translates != two || info.kind == QKV_KIND_ENCODER || !(info.can & QKV_CAN_TOKENS))
        return qkv_unfit(s->model,
                         translates ? "an encoder-decoder" : "a decoder with an output projection",
                         err);
    status = qkv_tokenizer_open(&s->tokenizer, dir, err);
    if (!status) status = qkv_manners_read(&s->manners, dir, s->model, err);
    if (status) return status;
    if (qkv_tokenizer_size(s->tokenizer) > info.vocab)
        return qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_place){ .file = dir },
                        "the tokenizer has ids without an embedding, expected ids below %" PRId64
                        ", found %" PRId64,
                        info.vocab, qkv_tokenizer_size(s->tokenizer) - 1);
    if (two && s->manners.start < 0)
        return qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_place){ .file = dir },
                        "decoder_start_token_id, expected a token that outputs begin with, found "
                        "none");
    return QKV_OK;
}

qkv_status qkv_generator_open(qkv_generator **out, const char *dir,
                              const struct qkv_generator_options *o, qkv_error *err)
{
    if (!out)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_generator_open, expected a place for the generator, found NULL");
    *out = NULL;
    qkv_generator *g = qkv_alloc_zero(1, sizeof *g);
    if (!g) return qkv_fail_memory(err, dir);
    const qkv_status s = open_speaker(&g->s, dir, o, false, err);
    if (s)
        qkv_generator_close(g);
    else
        *out = g;
    return s;
}

qkv_status qkv_translator_open(qkv_translator **out, const char *dir,
                               const struct qkv_generator_options *o, qkv_error *err)
{
    if (!out)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_translator_open, expected a place for the translator, found NULL");
    *out = NULL;
    qkv_translator *t = qkv_alloc_zero(1, sizeof *t);
    if (!t) return qkv_fail_memory(err, dir);
    const qkv_status s = open_speaker(&t->s, dir, o, true, err);
    if (s)
        qkv_translator_close(t);
    else
        *out = t;
    return s;
}

void qkv_generator_close(qkv_generator *g)
{
    if (!g) return;
    close_speaker(&g->s);
    qkv_free(g);
}
void qkv_translator_close(qkv_translator *t)
{
    if (!t) return;
    close_speaker(&t->s);
    qkv_free(t);
}
const qkv_model *qkv_generator_model(const qkv_generator *g)
{
    return g ? g->s.model : NULL;
}
const qkv_tokenizer *qkv_generator_tokenizer(const qkv_generator *g)
{
    return g ? g->s.tokenizer : NULL;
}
const qkv_model *qkv_translator_model(const qkv_translator *t)
{
    return t ? t->s.model : NULL;
}
const qkv_tokenizer *qkv_translator_tokenizer(const qkv_translator *t)
{
    return t ? t->s.tokenizer : NULL;
}

// ---- the decoder as a voice ---------------------------------------------------------------------
static qkv_status voice_source(void *ctx, int64_t item, const int32_t *ids, int64_t n,
                               qkv_error *err)
{
    const int64_t offsets[] = { 0, n };
    const struct qkv_model_input in = { .sequences = 1, .offsets = offsets, .ids = ids };
    return qkv_decoder_source(ctx, item, &in, err);
}
static qkv_status voice_feed(void *ctx, float *logits, const struct qkv_decoder_tokens *t,
                             qkv_error *err)
{
    return qkv_decoder_feed(ctx, logits, t, err);
}
static qkv_status voice_copy(void *ctx, const int64_t *to, const int64_t *from, int64_t n,
                             qkv_error *err)
{
    return qkv_decoder_copy(ctx, to, from, n, err);
}
static qkv_status voice_clear(void *ctx, int64_t item)
{
    return qkv_decoder_cut(ctx, item, 0);
}

// Caches for as many sequences as the call runs at once.
static qkv_status need_items(struct speaker *s, int64_t beams, qkv_error *err)
{
    const int64_t wanted = qkv_max64(s->o.items ? s->o.items : ITEMS_PLAIN, beams);
    if (s->decoder && s->items >= wanted) return QKV_OK;
    qkv_decoder_free(s->decoder);
    s->decoder = NULL;
    const struct qkv_decoder_options o = { .items = wanted,
                                           .capacity = s->o.positions,
                                           .cache = s->o.cache };
    s->items = wanted;
    return qkv_decoder_new(&s->decoder, s->model, &o, err);
}

// ---- a call -------------------------------------------------------------------------------------
static qkv_status range(qkv_error *err, const char *name, int64_t least, int64_t most,
                        int64_t found)
{
    return qkv_fail(err, QKV_ERR_USAGE, NULL,
                    "%s, expected %" PRId64 " to %" PRId64 ", found %" PRId64, name, least, most,
                    found);
}

// o with what it leaves to others filled in.
static qkv_status resolve(const struct speaker *s, struct qkv_generate_options *o, qkv_error *err)
{
    const struct qkv_model_info info = qkv_model_info(s->model);
    const int64_t layers = info.decoder_layers, logprobs = qkv_min64(LOGPROBS_MOST, info.vocab);
    const qkv_status status = qkv_sampling_check(&o->sampling, info.vocab, err);
    if (status) return status;
    if (!o->beams && s->translates) o->beams = s->manners.beams ? s->manners.beams : BEAMS_PLAIN;
    if (!o->beams) o->beams = 1;
    if (!o->n_best) o->n_best = 1;
    if (o->beams < 1 || o->beams > BEAMS_MOST) return range(err, "beams", 1, BEAMS_MOST, o->beams);
    if (o->n_best < 1 || o->n_best > BEAMS_MOST)
        return range(err, "n_best", 1, BEAMS_MOST, o->n_best);
    if (o->beams > 1 && o->n_best > o->beams) return range(err, "n_best", 1, o->beams, o->n_best);
    if (o->beams == 1 && o->n_best > 1 && o->sampling.temperature == 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "n_best, expected beams or a temperature above 0: the likeliest output is "
                        "always the same");
    if (o->max_tokens < 0) return range(err, "max_tokens", 0, INT64_MAX, o->max_tokens);
    if (o->min_tokens < 0) return range(err, "min_tokens", 0, INT64_MAX, o->min_tokens);
    if (o->logprobs < 0 || o->logprobs > logprobs)
        return range(err, "logprobs", 0, logprobs, o->logprobs);
    if (!isfinite(o->length_penalty))
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "length_penalty, expected a number, found %g",
                        o->length_penalty);
    if ((int)o->early < 0 || o->early > QKV_EARLY_NEVER)
        return range(err, "early", 0, QKV_EARLY_NEVER, (int64_t)o->early);
    o->length_penalty = o->length_penalty == 0 ? 1 : o->length_penalty < 0 ? 0 : o->length_penalty;
    if (!o->alignment) return QKV_OK;
    if (!s->translates || !(info.can & QKV_CAN_RUN))
        return qkv_unfit(s->model, "an encoder-decoder with cross-attention", err);
    if (o->alignment_layer < 0 || o->alignment_layer > layers)
        return range(err, "alignment_layer", 1, layers, o->alignment_layer);
    return QKV_OK;
}

// What alignment needs: the finished translation is run once more, and seen.
struct looked {
    const qkv_model *model;
    int64_t layer;
    int32_t start;
};

static qkv_status align(void *ctx, struct qkv_generated *g, float **weights, qkv_error *err)
{
    const struct looked *l = ctx;
    const int64_t rows = g->tokens + (g->ending == QKV_END_TOKEN);
    if (!rows) return QKV_OK;
    int32_t *ids = qkv_alloc((size_t)rows, sizeof *ids);
    if (!ids) return qkv_fail_memory(err, NULL);
    ids[0] = l->start;
    for (int64_t i = 1; i < rows; i++) ids[i] = g->ids[i - 1];
    const qkv_status s =
        qkv_align(l->model, weights, ids, rows, g->source_ids, g->source_tokens, l->layer, err);
    qkv_free(ids);
    return s;
}

static qkv_status speak(struct speaker *s, const char *const *prompts, const size_t *bytes,
                        int64_t n, const struct qkv_generate_options *o, qkv_error *err)
{
    static const struct qkv_generate_options plain;
    if (n < 0 || (n && !prompts))
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "expected texts, found NULL");
    for (int64_t i = 0; i < n; i++)
        if (!prompts[i]) return qkv_fail(err, QKV_ERR_USAGE, NULL, "expected texts, found NULL");
    const struct qkv_model_info info = qkv_model_info(s->model);
    struct looked looked = { .model = s->model, .start = s->manners.start };
    struct qkv_call c = { .tokenizer = s->tokenizer,
                          .manners = &s->manners,
                          .o = o ? *o : plain,
                          .prompts = prompts,
                          .bytes = bytes,
                          .n = n,
                          .translates = s->translates,
                          .finish_ctx = &looked };
    qkv_status status = resolve(s, &c.o, err);
    if (!status) status = need_items(s, c.o.beams, err);
    if (status) return status;
    looked.layer = (c.o.alignment_layer ? c.o.alignment_layer : info.decoder_layers) - 1;
    if (c.o.alignment) c.finish = align;
    const struct qkv_voice voice = { .V = info.vocab,
                                     .positions = qkv_decoder_capacity(s->decoder),
                                     .source = voice_source,
                                     .feed = voice_feed,
                                     .copy = voice_copy,
                                     .clear = voice_clear,
                                     .ctx = s->decoder };
    c.voice = &voice;
    c.items = qkv_max64(c.o.beams, s->o.items ? s->o.items : ITEMS_PLAIN);
    return qkv_speak(&c, err);
}

qkv_status qkv_generate(qkv_generator *g, const char *const *prompts, const size_t *bytes,
                        int64_t n, const struct qkv_generate_options *o, qkv_error *err)
{
    if (!g) return qkv_fail(err, QKV_ERR_USAGE, NULL, "qkv_generate, expected a generator");
    return speak(&g->s, prompts, bytes, n, o, err);
}

qkv_status qkv_translate(qkv_translator *t, const char *const *sources, const size_t *bytes,
                         int64_t n, const struct qkv_generate_options *o, qkv_error *err)
{
    if (!t) return qkv_fail(err, QKV_ERR_USAGE, NULL, "qkv_translate, expected a translator");
    return speak(&t->s, sources, bytes, n, o, err);
}
