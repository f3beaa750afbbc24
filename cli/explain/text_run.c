// SPDX-License-Identifier: MIT
// text_run.c: runs a model on a text and stores the activations of each layer: inputs, queries,
// keys, values, and the lse of each row.
#include "explain/explain.h"
#include "frame/word_operand.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static float *copy(const float *from, int64_t n)
{
    float *to = cmd_alloc((size_t)(n > 0 ? n : 1), sizeof *to);
    memcpy(to, from, (size_t)n * sizeof *to);
    return to;
}

static int keep(void *user, const struct qkv_layer_output *l)
{
    struct text_run *s = user;
    if (l->part != QKV_PART_STACK && l->part != QKV_PART_ENCODER) return 0;
    if (l->hidden) {
        if (l->layer + 1 < s->L)
            s->layer[l->layer + 1].x = copy(l->hidden, s->T * s->D);
        else
            s->last = copy(l->hidden, s->T * s->D);
    }
    if (l->layer < 0) return 0;
    struct seen_layer *to = &s->layer[l->layer];
    s->H = l->H;
    s->G = l->G;
    s->E = l->E;
    s->F = l->F;
    s->causal = l->causal;
    to->q = copy(l->q, s->T * l->H * l->E);
    to->k = copy(l->k, s->T * l->G * l->E);
    to->v = copy(l->v, s->T * l->G * l->F);
    to->lse = copy(l->lse, l->H * s->T);
    to->scale = l->scale;
    to->softcap = l->softcap;
    to->left = l->left;
    to->right = l->right;
    to->reach = l->reach;
    if (l->relative) to->relative = copy(l->relative, l->H * (2 * l->reach + 1));
    if (l->weights) to->weights = copy(l->weights, l->H * s->T * s->T);
    return 0;
}

// Returns a token as it is written: the part of the text that it covers. If it covers nothing,
// returns the token of the tokenizer, without the marks that join tokens.
static const char *word_of(const struct text_run *s, int64_t i)
{
    const qkv_encoding *e = &s->tokens.encoding;
    char text[64];
    if (s->text && e->text[i] == 0 && e->end[i] > e->begin[i]) {
        const char *from = s->text + e->begin[i];
        size_t n = (size_t)(e->end[i] - e->begin[i]);
        while (n && *from == ' ') from++, n--;
        snprintf(text, sizeof text, "%.*s", (int)(n < 60 ? n : 60), from);
    } else {
        const char *raw = s->tokenizer ? qkv_tokenizer_token(s->tokenizer, s->tokens.ids[i]) : NULL;
        if (raw)
            snprintf(text, sizeof text, "%.60s", raw);
        else
            snprintf(text, sizeof text, "#%ld", (long)s->tokens.ids[i]);
    }
    char *valid = cmd_valid_text(text);
    return valid;
}

// Returns a token as it is printed: its word, with its place if another token that is not special
// has the same word.
static const char *name_of(const struct text_run *s, int64_t i)
{
    bool repeated = false;
    for (int64_t k = 0; !seen_special(s, i) && k < s->T && !repeated; k++)
        repeated = k != i && !strcmp(s->word[k], s->word[i]) && !seen_special(s, k);
    const size_t n = strlen(s->word[i]);
    char *name = cmd_alloc(n + CMD_SUBSCRIPT, 1);
    memcpy(name, s->word[i], n + 1);
    if (repeated) cmd_subscript(name + n, i);
    return name;
}

static qkv_status run(struct text_run *s, qkv_error *err)
{
    const int64_t offsets[] = { 0, s->T }, one[] = { 0, 1 };
    const int32_t start = s->info.start >= 0 ? s->info.start : 0;
    const struct qkv_model_input text = {
        .sequences = 1, .offsets = offsets, .ids = s->tokens.ids, .types = s->tokens.types
    };
    // only the encoder is shown, so the decoder gets a single token
    const struct qkv_model_input first = {
        .sequences = 1, .offsets = one, .ids = &start, .source = &text
    };
    const struct qkv_observer observer = { .layer = keep,
                                           .user = s,
                                           .weights = s->T <= SEEN_DENSE };
    return qkv_model_run(s->model, NULL, s->info.kind == QKV_KIND_ENCODER_DECODER ? &first : &text,
                         &observer, err);
}

qkv_status text_run_open(struct text_run *s, const char *dir, const char *text, qkv_error *err)
{
    const struct qkv_model_options how = cmd_model_options();
    const char *texts[2] = { text, NULL };
    *s = (struct text_run){ .text = text };
    if (text && !text[strspn(text, " \t\r\n")])
        return cmd_error(err, QKV_ERR_USAGE, NULL, "the text is empty, expected words");
    qkv_status status = qkv_model_open(&s->model, dir, &how, err);
    if (status) return status;
    s->info = qkv_model_info(s->model);
    if (!(s->info.can & QKV_CAN_RUN))
        return cmd_error(err, QKV_ERR_UNSUPPORTED, dir,
                         "explain requires a Transformer; this model is %s", s->info.family);
    if ((status = tokens_read(&s->tokens, &explain_options.tokens, dir, s->model, texts, err)))
        return status;
    if ((status = qkv_tokenizer_open(&s->tokenizer, dir, text ? err : NULL)) && text) return status;
    s->T = s->tokens.length;
    s->L = s->info.layers;
    s->D = s->info.width;
    if (!s->T) return cmd_error(err, QKV_ERR_USAGE, NULL, "the text has no tokens, expected words");
    if (s->T > 4096)
        return cmd_error(err, QKV_ERR_LIMIT, NULL,
                         "the text is too long, expected at most 4096 tokens, found %lld "
                         "(--max-length 4096 cuts it, and 'qkv view' accepts any length)",
                         (long long)s->T);
    s->layer = cmd_alloc((size_t)s->L, sizeof *s->layer);
    memset(s->layer, 0, (size_t)s->L * sizeof *s->layer);
    if ((status = run(s, err))) return status;
    s->name = cmd_alloc((size_t)s->T, sizeof *s->name);
    s->word = cmd_alloc((size_t)s->T, sizeof *s->word);
    for (int64_t i = 0; i < s->T; i++) s->word[i] = word_of(s, i);
    for (int64_t i = 0; i < s->T; i++) s->name[i] = name_of(s, i);
    return QKV_OK;
}

const char EXPLAIN_ANIMAL[] = "The animal didn't cross the street because it was too tired";

qkv_status text_run_start(struct page *p, struct text_run **out, const char *text,
                          const char *usual, qkv_error *err)
{
    char dir[CMD_PATH];
    const qkv_status status = cmd_model_find(dir, err);
    if (status) return status;
    *out = text_run_take(p);
    return text_run_open(*out, dir, text ? text : explain_options.tokens.ids ? NULL : usual, err);
}

void text_run_close(struct text_run *s)
{
    for (int64_t l = 0; s->layer && l < s->L; l++) {
        struct seen_layer *x = &s->layer[l];
        free(x->x);
        free(x->q);
        free(x->k);
        free(x->v);
        free(x->lse);
        free(x->relative);
        free(x->weights);
    }
    for (int64_t i = 0; s->word && i < s->T; i++) {
        free((void *)(uintptr_t)s->word[i]);
        free((void *)(uintptr_t)s->name[i]);
    }
    free(s->word);
    free(s->name);
    free(s->layer);
    free(s->last);
    tokens_free(&s->tokens);
    qkv_tokenizer_close(s->tokenizer);
    qkv_model_close(s->model);
}

double seen_row(const struct text_run *s, int64_t layer, int64_t head, int64_t i,
                struct seen_key *out)
{
    const struct seen_layer *l = &s->layer[layer];
    const float *q = seen_q(s, layer, head, i);
    const double lse = (double)l->lse[head * s->T + i];
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < s->T; j++) {
        const float *k = seen_k(s, layer, head, j);
        struct seen_key *x = &out[j];
        *x = (struct seen_key){ .masked = (s->causal && j > i) ||
                                          (l->left >= 0 && j < i - l->left) ||
                                          (l->right >= 0 && j > i + l->right) };
        for (int64_t e = 0; e < s->E; e++) x->dot += (double)q[e] * (double)k[e];
        x->scaled = x->dot * (double)l->scale;
        if (l->softcap > 0) x->scaled = (double)l->softcap * tanh(x->scaled / (double)l->softcap);
        if (l->relative) {
            const int64_t far = j - i < -l->reach ? -l->reach : j - i > l->reach ? l->reach : j - i;
            x->bias = (double)l->relative[head * (2 * l->reach + 1) + l->reach + far];
        }
        x->score = x->masked ? -INFINITY : x->scaled + x->bias;
        x->weight = x->masked || lse == -INFINITY ? 0 : seen_weight(x->score, lse);
        top = fmax(top, x->score);
    }
    for (int64_t j = 0; j < s->T; j++)
        if (!out[j].masked) sum += exp(out[j].score - top);
    return top + log(sum);
}

qkv_status seen_embedding(const struct text_run *s, float *out, int64_t i, qkv_error *err)
{
    const qkv_status status = qkv_model_embedding(s->model, out, s->tokens.ids[i]);
    return !status ? QKV_OK
                   : cmd_error(err, status, NULL, "token id %ld has no row in the embedding matrix",
                               (long)s->tokens.ids[i]);
}

qkv_status seen_embeddings(float *out, const struct text_run *s, qkv_error *err)
{
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < s->T && !status; i++)
        status = seen_embedding(s, out + i * s->D, i, err);
    return status;
}

qkv_status text_run_limit(const struct text_run *s, const char *topic, int64_t most, qkv_error *err)
{
    return s->T <= most ? QKV_OK
                        : cmd_error(err, QKV_ERR_USAGE, NULL,
                                    "%s: text too long, expected at most %lld tokens, found %lld "
                                    "(--max-length %lld cuts it)",
                                    topic, (long long)most, (long long)s->T, (long long)most);
}

bool seen_special(const struct text_run *s, int64_t i)
{
    if (s->text) return s->tokens.encoding.text[i] > 1;
    return s->tokenizer && qkv_tokenizer_special(s->tokenizer, s->tokens.ids[i]);
}

qkv_status text_run_find(const struct text_run *s, const char *option, const char *word,
                         int64_t *out, qkv_error *err)
{
    struct token_name *names = cmd_alloc((size_t)s->T, sizeof *names);
    for (int64_t i = 0; i < s->T; i++)
        names[i] = (struct token_name){ s->word[i], strlen(s->word[i]) };
    const qkv_status status = token_find(out, names, s->T, 1, option, word, err);
    free(names);
    return status;
}
