// SPDX-License-Identifier: MIT
// effects.c: measures the ablation effects of a model on a text: opens the model, tokenizes the
// text, and ablates every head.
#include "effects.h"
#include "view/model_run.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const effects_kind_names[] = { "zero", "mean", "uniform", NULL };

// ---- the text ----------------------------------------------------------------------------------
// Appends the end token to the output: the one that the model generated, or of an output that the
// user gives the model's first end token. So its prediction is measured too.
static void end_text(struct effects *e, int32_t end)
{
    struct tokens *t = &e->written;
    t->own = cmd_grow(t->own, (size_t)t->count + 1, sizeof *t->own);
    t->own[t->count] = end;
    t->ids = t->own;
    t->length = ++t->count;
}

static void place_input(struct effects *e, bool two)
{
    const struct qkv_model_input read = { .sequences = 1,
                                          .offsets = e->offsets,
                                          .lengths = &e->read.length,
                                          .ids = e->read.ids,
                                          .types = e->read.types };
    e->offsets[1] = e->read.count;
    e->written_offsets[1] = e->written.count;
    e->in = e->source = read;
    if (two)
        e->in = (struct qkv_model_input){ .sequences = 1,
                                          .offsets = e->written_offsets,
                                          .ids = e->written.ids,
                                          .source = &e->source };
}

// Returns how the model's folder pools hidden states; mean pooling if the folder does not say.
static enum qkv_pool pool_of(const char *dir)
{
    const struct qkv_embedder_options how = { .no_tokenizer = true };
    qkv_embedder *e = NULL;
    qkv_error none = { 0 };
    const enum qkv_pool pool =
        qkv_embedder_open(&e, dir, &how, &none) ? QKV_POOL_MEAN : qkv_embedder_pool(e);
    qkv_embedder_close(e);
    return pool;
}

// Returns the tokens as text, without spaces around them.
static char (*spell(const struct effects *e, const struct tokens *t))[64]
{
    char(*word)[64] = cmd_alloc((size_t)t->count + 1, sizeof *word);
    for (int64_t i = 0; i < t->count; i++) {
        char text[64];
        tokens_spell(text, sizeof text, e->tokenizer, t->ids[i], false);
        const char *from = text + strspn(text, " ");
        size_t n = strlen(from);
        while (n && from[n - 1] == ' ') n--;
        snprintf(word[i], sizeof word[i], "%.*s", (int)n, from);
        if (n) continue;
        const char *raw = qkv_tokenizer_token(e->tokenizer, t->ids[i]);
        snprintf(word[i], sizeof word[i], "%s", raw ? raw : "");
    }
    return word;
}

qkv_status effects_open(struct effects *e, const char *model, const struct token_options *o,
                        const char *const *texts, qkv_error *err)
{
    const struct qkv_model_options how = cmd_model_options();
    qkv_status status = cmd_model_find_named(e->dir, model, err);
    if (!status) status = qkv_model_open(&e->model, e->dir, &how, err);
    if (status) return status;
    e->info = qkv_model_info(e->model);
    const bool two = e->info.kind == QKV_KIND_ENCODER_DECODER;
    const char *first[2] = { texts[0], two ? NULL : texts[1] };
    status = tokens_read(&e->read, o, e->dir, e->model, first, err);
    if (!status && !o->ids) status = qkv_tokenizer_open(&e->tokenizer, e->dir, err);
    int32_t end = e->info.stop_count && texts[1] ? e->info.stops[0] : -1;
    if (!status && two)
        status = texts[1] ? tokens_written(&e->written, o, e->dir, e->model, texts[1], err)
                          : tokens_generated(&e->written, NULL, &end, o, e->dir, e->model, &e->read,
                                             texts[0], err);
    if (status) return status;
    if (two && end >= 0 && (!texts[1] || e->written.count < e->info.positions)) end_text(e, end);
    if (e->info.kind == QKV_KIND_ENCODER) e->pool = pool_of(e->dir);
    e->read_word = spell(e, &e->read);
    e->written_word = spell(e, &e->written);
    place_input(e, two);
    return QKV_OK;
}

void effects_close(struct effects *e)
{
    qkv_effects_free(&e->of);
    free(e->read_word);
    free(e->written_word);
    tokens_free(&e->read);
    tokens_free(&e->written);
    qkv_tokenizer_close(e->tokenizer);
    qkv_model_close(e->model);
}

// ---- measured ----------------------------------------------------------------------------------
qkv_status effects_measure(struct effects *e, bool every, qkv_error *err)
{
    const struct qkv_effects_options how = { .kind = e->kind,
                                             .pool = e->pool,
                                             .changes = every ? 0 : 20,
                                             .progress = cmd_progress_begin("heads") };
    const struct qkv_model_options plain = { .precision = common.precision };
    qkv_model *whole = NULL;
    qkv_status status;
    if (cmd_is_recurrent(&e->info)) {
        status = cmd_error(err, QKV_ERR_UNSUPPORTED, e->dir,
                           "effects of heads require a Transformer; this model is %s, which has "
                           "one attention",
                           e->info.family);
    } else if (every) {
        status = qkv_ablate_scan(&e->of, e->model, &e->in, &how, err);
    } else {
        status = qkv_model_open(&whole, e->dir, &plain, err);
        if (!status) status = qkv_ablate_compare(&e->of, whole, e->model, &e->in, &how, err);
        qkv_model_close(whole);
    }
    cmd_progress_end();
    for (int64_t s = 0; s < e->of.stacks && !status; s++)
        status =
            cmd_check_finite(e->of.stack[s].effect, e->of.stack[s].layers * e->of.stack[s].heads,
                             "effect of a head", err);
    return status;
}

static int by_size(const void *a, const void *b)
{
    const struct effects_place *x = a, *y = b;
    const float p = fabsf(x->effect), q = fabsf(y->effect);
    if (p != q) return p < q ? 1 : -1;
    if (x->stack != y->stack) return x->stack < y->stack ? -1 : 1;
    if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
    return x->head < y->head ? -1 : 1;
}

struct effects_place *effects_rank(const struct effects *e, int64_t *count)
{
    int64_t n = 0;
    for (int64_t s = 0; s < e->of.stacks; s++) n += e->of.stack[s].layers * e->of.stack[s].heads;
    struct effects_place *p = cmd_alloc((size_t)n, sizeof *p);
    *count = 0;
    for (int64_t s = 0; s < e->of.stacks; s++) {
        const struct qkv_effect_stack *k = &e->of.stack[s];
        for (int64_t i = 0; i < k->layers * k->heads; i++)
            p[(*count)++] = (struct effects_place){ s, i / k->heads, i % k->heads, k->effect[i] };
    }
    qsort(p, (size_t)n, sizeof *p, by_size);
    return p;
}

char *effects_name(char out[48], const struct effects *e, const struct effects_place *p)
{
    const struct qkv_ablation a = { e->of.stack[p->stack].part, p->layer, p->head, 0 };
    qkv_ablation_name(out, 48, &a);
    out[strcspn(out, "=")] = 0;
    return out;
}

static const struct tokens *tokens_of(const struct effects *e, int64_t stack)
{
    const bool written = e->in.source && e->of.stack[stack].part != QKV_PART_ENCODER;
    return written ? &e->written : &e->read;
}

static int32_t id_of(const struct effects *e, int64_t stack, int64_t token)
{
    return tokens_of(e, stack)->ids[token];
}

const char *effects_token(const struct effects *e, int64_t stack, int64_t token, char number[16])
{
    const int32_t id = id_of(e, stack, token);
    const char *raw = e->tokenizer ? qkv_tokenizer_token(e->tokenizer, id) : NULL;
    snprintf(number, 16, "#%ld", (long)id);
    return raw ? raw : number;
}

const char *effects_word(const struct effects *e, int64_t stack, int64_t token,
                         char out[EFFECTS_WORD])
{
    const struct tokens *of = tokens_of(e, stack);
    char(*const words)[64] = of == &e->written ? e->written_word : e->read_word;
    char place[CMD_SUBSCRIPT];
    const char *const word = words[token];
    bool repeated = false;
    for (int64_t i = 0; i < of->count && !repeated; i++)
        repeated = i != token && !strcmp(words[i], word);
    if (repeated && !cmd_utf8())
        snprintf(out, EFFECTS_WORD, "%.60s_%lld", word, (long long)token);
    else
        snprintf(out, EFFECTS_WORD, "%.63s%s", word, repeated ? cmd_subscript(place, token) : "");
    return out;
}

const struct qkv_change *effects_changes(const struct effects *e, const struct effects_place *p)
{
    const struct qkv_effect_stack *k = &e->of.stack[p->stack];
    return k->change + (p->layer * k->heads + p->head) * e->of.changes;
}

// ---- JSON --------------------------------------------------------------------------------------
// Prints the tokens whose predictions an ablation changes. In an encoder-decoder, these are tokens
// of the output, even for a head of the encoder.
static void json_changes(FILE *to, const struct effects *e, const struct effects_place *p)
{
    const struct qkv_change *c = effects_changes(e, p);
    fputc('[', to);
    for (int64_t i = 0; i < e->of.changes && c[i].token >= 0; i++) {
        char number[16];
        const char *text = effects_token(e, e->of.stacks - 1, c[i].token, number);
        fprintf(to, "%s{\"token\":%lld,\"text\":", i ? "," : "", (long long)c[i].token);
        cmd_json_text(to, text, strlen(text));
        fputs(",\"before\":", to);
        cmd_json_float(to, c[i].before);
        fputs(",\"after\":", to);
        cmd_json_float(to, c[i].after);
        fputc('}', to);
    }
    fputc(']', to);
}

// Prints an array over layers of arrays over heads. An element is the effect of a head or, with
// `changes`, the list of the tokens that it changes.
static void json_heads(FILE *to, const struct effects *e, int64_t stack, bool changes)
{
    const struct qkv_effect_stack *k = &e->of.stack[stack];
    fprintf(to, ",\"%s\":[", changes ? "changes" : "effect");
    for (int64_t l = 0; l < k->layers; l++) {
        fputs(l ? ",[" : "[", to);
        for (int64_t h = 0; h < k->heads; h++) {
            const struct effects_place p = { stack, l, h, 0 };
            if (h) fputc(',', to);
            if (changes)
                json_changes(to, e, &p);
            else
                cmd_json_float(to, k->effect[l * k->heads + h]);
        }
        fputc(']', to);
    }
    fputc(']', to);
}

static void json_ranked(FILE *to, const struct effects *e)
{
    int64_t n;
    struct effects_place *p = effects_rank(e, &n);
    fputs(",\"ranked\":[", to);
    for (int64_t i = 0; i < n; i++) {
        char name[48];
        fprintf(to, "%s{\"head\":\"%s\",\"effect\":", i ? "," : "", effects_name(name, e, &p[i]));
        cmd_json_float(to, p[i].effect);
        fputc('}', to);
    }
    fputc(']', to);
    free(p);
}

void effects_print_json(FILE *to, const struct effects *e, bool every)
{
    static const char *const names[] = { "attention", "encoder", "decoder", "cross" };
    const struct effects_place only = { 0 };
    fputs("{\"model\":", to);
    cmd_json_text(to, e->info.name, strlen(e->info.name));
    fprintf(to, ",\"precision\":\"%s\"", qkv_precision_name(e->info.precision));
    cmd_json_ablated(to);
    fprintf(to, ",\"unit\":\"%s\"", e->of.unit);
    if (e->info.kind != QKV_KIND_ENCODER) {
        fputs(",\"loss\":", to);
        cmd_json_float(to, (float)e->of.loss);
    }
    if (every) {
        fprintf(to, ",\"kind\":\"%s\",\"stacks\":[", effects_kind_names[e->kind]);
        for (int64_t s = 0; s < e->of.stacks; s++) {
            const struct qkv_effect_stack *k = &e->of.stack[s];
            fprintf(to, "%s{\"part\":\"%s\",\"layers\":%lld,\"heads\":%lld", s ? "," : "",
                    names[k->part], (long long)k->layers, (long long)k->heads);
            json_heads(to, e, s, false);
            json_heads(to, e, s, true);
            fputc('}', to);
        }
        fputc(']', to);
        json_ranked(to, e);
    } else {
        fputs(",\"effect\":", to);
        cmd_json_float(to, e->of.stack[0].effect[0]);
        fputs(",\"changes\":", to);
        json_changes(to, e, &only);
    }
    fputs("}\n", to);
}
