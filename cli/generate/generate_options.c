// SPDX-License-Identifier: MIT
// generate_options.c: checks the options of generation. Its errors name options as on the command
// line.
#include "generate/generate_command.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const generate_early[] = { "likely", "full", "never", NULL };
const char *const generate_caches[] = { "f32", "bf16", "f16", "int8", NULL };
static const qkv_precision caches[] = { QKV_PRECISION_F32_STRICT, QKV_PRECISION_BF16,
                                        QKV_PRECISION_F16, QKV_PRECISION_INT8 };
struct generate_options generate_o = { .cache = -1,
                                       .early = -1,
                                       .tokens = -1,
                                       .min_tokens = -1,
                                       .no_repeat = -1,
                                       .top_k = -2,
                                       .temperature = (double)NAN,
                                       .top_p = (double)NAN,
                                       .min_p = (double)NAN,
                                       .repetition = (double)NAN,
                                       .presence = (double)NAN,
                                       .frequency = (double)NAN,
                                       .length_penalty = (double)NAN };

// If the option is given, checks its value and stores it in *out. The value must be from least to
// most or, if `above`, larger than least.
static qkv_status check_real(double *out, const char *name, double value, double least, double most,
                             bool above, qkv_error *err)
{
    if (isnan(value)) return QKV_OK;
    // the library computes with floats: a number that they round to 0 is not above 0
    if (above && least == 0 && value > 0 && (float)value == 0)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--%s: number too small, expected at least 1e-45, found %g", name, value);
    if (value < least || value > most || (above && value <= least))
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--%s: expected a number %s %g %s %g, found %g",
                         name, above ? "above" : "from", least, above ? "up to" : "to", most,
                         value);
    *out = value;
    return QKV_OK;
}

// Splits a list of stop strings, such as "A|B". \n, \t, \| and \\ are escape sequences.
static qkv_status read_stops(struct generate_call *s, qkv_error *err)
{
    const char *from = generate_o.stop;
    if (!from) return QKV_OK;
    char *to = s->stop_text = cmd_alloc(strlen(from) + 1, 1);
    int64_t n = 0;
    s->stops[n++] = to;
    for (; *from; from++) {
        if (*from == '\\' && from[1] && strchr("nt|\\", from[1])) {
            from++;
            *to++ = *from == 'n' ? '\n' : *from == 't' ? '\t' : *from;
        } else if (*from == '|') {
            *to++ = 0;
            if (n == (int64_t)(sizeof s->stops / sizeof *s->stops))
                return cmd_error(err, QKV_ERR_USAGE, NULL,
                                 "--stop: too many texts, expected at most %lld", (long long)n);
            s->stops[n++] = to;
        } else {
            *to++ = *from;
        }
    }
    *to = 0;
    for (int64_t i = 0; i < n; i++)
        if (!*s->stops[i])
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "--stop: expected texts separated by |, found an empty text");
    s->how.stop = s->stops;
    s->how.stops = n;
    return QKV_OK;
}

// Parses the token biases of --bias, such as "5=-inf,7=2.5" (token id = bias).
static qkv_status read_bias(struct generate_call *s, qkv_error *err)
{
    const char *p = generate_o.bias;
    if (!p) return QKV_OK;
    s->bias = cmd_alloc(strlen(p) + 1, sizeof *s->bias);
    while (*p) {
        const size_t bytes = strcspn(p, ",");
        char word[64], *equals;
        int64_t id = -1;
        double x = 0;
        snprintf(word, sizeof word, "%.*s", (int)(bytes < 63 ? bytes : 63), p);
        bool good = (equals = strchr(word, '=')) != NULL;
        if (good) {
            *equals = 0;
            good = cmd_parse_int(word, &id) && id >= 0 && id <= INT32_MAX;
            if (good && !strcmp(equals + 1, "-inf"))
                x = -(double)INFINITY;
            else
                good = good && cmd_parse_real(equals + 1, &x);
        }
        if (!good)
            return cmd_error(
                err, QKV_ERR_USAGE, NULL,
                "--bias: expected ID=X (token id and number) separated by commas, found '%.*s'",
                (int)(bytes < 60 ? bytes : 60), p);
        s->bias[s->how.sampling.biases++] = (struct qkv_token_value){ (int32_t)id, (float)x };
        p += bytes + (p[bytes] == ',');
    }
    s->how.sampling.bias = s->bias;
    return QKV_OK;
}

qkv_status generate_begin(struct generate_call *s, int argc, char **argv, qkv_error *err)
{
    const struct generate_options *o = &generate_o;
    struct qkv_sampling *p = &s->how.sampling;
    double penalty = 1;
    qkv_status status;
    s->err = err;
    if ((status = check_real(&p->temperature, "temperature", o->temperature, 0, 100, false, err)) ||
        (status = check_real(&p->top_p, "top-p", o->top_p, 0, 1, true, err)) ||
        (o->min_p != -1 && (status = check_real(&p->min_p, "min-p", o->min_p, 0, 1, false, err))) ||
        (status =
             check_real(&p->repetition, "repetition", o->repetition, 1e-30, 100, false, err)) ||
        (status = check_real(&p->presence, "presence", o->presence, -100, 100, false, err)) ||
        (status = check_real(&p->frequency, "frequency", o->frequency, -100, 100, false, err)) ||
        (status = check_real(&penalty, "length-penalty", o->length_penalty, 0, 100, false, err)) ||
        (status = read_stops(s, err)) || (status = read_bias(s, err)))
        return status;
    if (o->beams > 1 && p->temperature > 0)
        return cmd_error(
            err, QKV_ERR_USAGE, NULL,
            "--beam cannot be combined with --temperature: a beam search does not sample");
    s->how.own_sampling = o->temperature == 0;
    // -2 and NAN: not given, which is 0 in the library; 0 and -1 are -1 there
    p->top_k = o->top_k == -2 ? 0 : o->top_k == 0 ? -1 : o->top_k;
    if (o->min_p == 0 || o->min_p == -1) p->min_p = -1;
    p->no_repeat_ngram = o->no_repeat > 0 ? o->no_repeat : -1 - o->no_repeat;
    p->seed = (uint64_t)o->seed;
    // an option that is not given is 0 in the library, and 0 is -1
    s->how.max_tokens = o->tokens > 0 ? o->tokens : -1 - o->tokens;
    s->how.min_tokens = o->min_tokens > 0 ? o->min_tokens : -1 - o->min_tokens;
    s->how.ignore_end = o->ignore_end;
    s->how.logprobs = o->logprobs;
    s->how.prefix = o->prefix;
    s->how.beams = o->beams;
    s->how.n_best = o->n_best;
    s->how.length_penalty = isnan(o->length_penalty) ? 0 : penalty == 0 ? -1 : penalty;
    s->how.early = (enum qkv_early)(o->early + 1); // -1: as the model's folder says
    s->how.truncate = o->truncate;
    s->how.strict = o->strict;
    s->how.no_special = o->no_special;
    s->open.model = cmd_model_options();
    s->open.items = o->batch;
    if (o->cache >= 0) s->open.cache = caches[o->cache];
    s->draws = o->n_best > 1 ? o->n_best : 1;
    return cmd_source_open(&s->source, argc, argv, o->file, err);
}

void generate_name_options(qkv_error *err)
{
    static const char *const names[][2] = { { "n_best is out of range, ", "--n-best: " },
                                            { "alignment_layer is out of range, ", "--layer: " },
                                            { "logprobs is out of range, ", "--logprobs: " },
                                            { "max_tokens is out of range, ", "--tokens: " } };
    char text[sizeof err->text];
    if (err->status != QKV_ERR_USAGE) return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t n = strlen(names[i][0]);
        if (strncmp(err->text, names[i][0], n) != 0) continue;
        snprintf(text, sizeof text, "%s%s", names[i][1], err->text + n);
        memcpy(err->text, text, sizeof text);
        return;
    }
    const size_t n = strlen(err->text);
    if (strstr(err->text, " too long, expected at most") && strncmp(err->text, "prefix", 6) != 0)
        snprintf(err->text + n, sizeof err->text - n, "; --truncate cuts it");
}

qkv_status generate_check_sampling(const struct generate_call *s, const struct qkv_sampling *usual,
                                   qkv_error *err)
{
    const struct qkv_sampling *p = &s->how.sampling;
    const bool usually =
        usual && usual->temperature > 0 && !s->how.own_sampling && generate_o.beams <= 1;
    if (p->temperature == 0 && !usually && (p->top_k > 0 || p->top_p > 0 || p->min_p > 0))
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--%s requires --temperature above 0",
                         p->top_k > 0   ? "top-k"
                         : p->top_p > 0 ? "top-p"
                                        : "min-p");
    if (usually && p->temperature == 0)
        cmd_note(
            "the tokens are sampled with temperature %g, as generation_config.json of the model "
            "says; --temperature 0 takes the most probable ones",
            usual->temperature);
    return QKV_OK;
}

void generate_note_ignored(const char *keys)
{
    if (keys)
        cmd_note("generation_config.json of the model has settings that are not applied: %s", keys);
}
