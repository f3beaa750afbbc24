// SPDX-License-Identifier: MIT
// view_source.c: runs a model on texts, and adds the layers of the run to a view.
#include "view_source.h"
#include "view/model_run.h"
#include "frame/word_operand.h"
#include <stdlib.h>
#include <string.h>

// ---- tokens ------------------------------------------------------------------------------------
static void text_close(struct source_text *x)
{
    free(x->token);
    free(x->number);
    free(x->made);
    *x = (struct source_text){ 0 };
}

// Makes the view's tokens for ids[n], from token `from` on. A decoder generated them after the text
// `before`. *made becomes the text with the generated text, in which each token has a byte range.
static qkv_status make_pieces(struct source_text *x, const struct tokens *t, int64_t from,
                              const char *before, const qkv_tokenizer *k, qkv_error *err)
{
    qkv_decode_stream *stream = NULL;
    size_t used = before ? strlen(before) : 0, capacity = used + 64;
    qkv_status status = qkv_decode_stream_new(&stream, k, true, err);
    x->made = cmd_grow(NULL, capacity, 1);
    memcpy(x->made, before ? before : "", used);
    for (int64_t i = 0; i <= t->length && !status; i++) {
        const char *text;
        size_t bytes;
        status = i < t->length ? qkv_decode_stream_put(stream, t->ids[i], &text, &bytes, err)
                               : qkv_decode_stream_end(stream, &text, &bytes, err);
        if (status || i < from) continue;
        if (used + bytes + 1 > capacity)
            x->made = cmd_grow(x->made, capacity = 2 * (used + bytes), 1);
        memcpy(x->made + used, text, bytes);
        // the space before a word does not belong to it
        const size_t blank = bytes > 1 && text[0] == ' ';
        if (i < t->length) {
            x->token[i].begin = (int64_t)(used + blank);
            x->token[i].end = (int64_t)(used + bytes);
        }
        used += bytes;
    }
    qkv_decode_stream_free(stream);
    if (status) return status;
    x->made[used] = 0;
    x->text.source[0] = x->made;
    x->text.source_bytes[0] = used;
    for (int64_t i = from; i < t->length; i++) {
        struct qkv_view_token *token = &x->token[i];
        if (token->end <= token->begin) continue;
        token->text = x->made + token->begin;
        token->text_bytes = (size_t)(token->end - token->begin);
    }
    return QKV_OK;
}

// Makes the view's tokens for texts. Their raw text belongs to the tokenizer and is valid until
// that is closed. shift: number of tokens at the start that belong to no text.
static qkv_status text_make(struct source_text *x, const struct tokens *t, const qkv_tokenizer *k,
                            const char *const *texts, int64_t shift, qkv_error *err)
{
    const qkv_encoding *e = &t->encoding;
    int64_t known = t->length; // the tokens from here on are generated
    x->token = cmd_alloc((size_t)t->count, sizeof *x->token);
    x->number = cmd_alloc((size_t)t->count, sizeof *x->number);
    x->text = (struct qkv_view_text){ .token = x->token,
                                      .tokens = t->length,
                                      .padding = t->count - t->length };
    for (int p = 0; p < 2 && texts[0]; p++) {
        x->text.source[p] = texts[p];
        x->text.source_bytes[p] = texts[p] ? strlen(texts[p]) : 0;
    }
    for (int64_t i = 0; i < t->count; i++) {
        struct qkv_view_token *to = &x->token[i];
        *to = (struct qkv_view_token){ .raw = k ? qkv_tokenizer_token(k, t->ids[i]) : NULL };
        snprintf(x->number[i], sizeof *x->number, "#%ld", (long)t->ids[i]);
        if (!to->raw) to->raw = x->number[i];
        to->special = i >= t->length || (k && qkv_tokenizer_special(k, t->ids[i]));
        to->part = t->types && t->types[i] == 1;
        if (i >= t->length) continue; // padding
        const int64_t at = i - shift;
        if (at >= e->count && k && texts[0] && i < known && !to->special) known = i;
        if (!texts[0] || at < 0 || at >= e->count || e->text[at] > 1) continue;
        to->special = false; // a special token that the text spells out is shown as text
        to->part = e->text[at];
        to->begin = e->begin[at];
        to->end = e->end[at];
        if (!texts[to->part] || to->end <= to->begin) continue;
        to->text = texts[to->part] + to->begin;
        to->text_bytes = (size_t)(to->end - to->begin);
    }
    if (!k || (texts[0] && known == t->length)) return QKV_OK;
    return e->count || shift ? make_pieces(x, t, texts[0] ? known : 0, texts[0], k, err) : QKV_OK;
}

qkv_status source_token(int64_t *out, const struct source *s, int64_t stack, const char *name,
                        qkv_error *err)
{
    const struct qkv_view_text *t = &s->shown[s->stack[stack].rows];
    struct token_name *names = cmd_alloc((size_t)t->tokens, 2 * sizeof *names);
    for (int64_t i = 0; i < t->tokens; i++) {
        const struct qkv_view_token *x = &t->token[i];
        names[2 * i] = (struct token_name){ x->text, x->text_bytes };
        names[2 * i + 1] = (struct token_name){ x->raw, strlen(x->raw) };
    }
    const qkv_status status = token_find(out, names, t->tokens, 2, "--token", name, err);
    free(names);
    return status;
}

qkv_status source_stack(int64_t *out, const struct source *s, const char *name, qkv_error *err)
{
    char names[120] = "";
    if (!name) return QKV_OK;
    if (cmd_parse_int(name, out) && *out >= 0 && *out < s->shape.stacks) return QKV_OK;
    for (int64_t i = 0; i < s->shape.stacks; i++) {
        const size_t used = strlen(names);
        if (!strcmp(name, s->stack[i].name)) {
            *out = i;
            return QKV_OK;
        }
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", s->stack[i].name);
    }
    return cmd_error(err, QKV_ERR_USAGE, NULL,
                     "--stack: unknown attention of this model, expected one of %s, found '%s'",
                     names, name);
}

// ---- generating tokens before the run ----------------------------------------------------------
struct written {
    int32_t *ids;
    int64_t count;
};
static int take_output(void *user, const struct qkv_generated *g)
{
    struct written *w = user;
    w->count = g->tokens;
    w->ids = cmd_alloc((size_t)g->tokens + 1, sizeof *w->ids);
    memcpy(w->ids, g->ids, (size_t)g->tokens * sizeof *w->ids);
    return 0;
}

// Generates `tokens` tokens after the text. *given becomes the number of tokens of the text itself.
static qkv_status write_on(int64_t *given, struct effects *e, const char *text, int64_t tokens,
                           qkv_error *err)
{
    const struct qkv_generator_options how = { .model = cmd_model_options(), .items = 1 };
    struct written w = { 0 };
    const struct qkv_generate_options o = { .max_tokens = tokens,
                                            .output = take_output,
                                            .user = &w };
    qkv_generator *g = NULL;
    struct tokens *t = &e->read;
    if (!text)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--generate cannot be combined with --ids");
    qkv_status status = qkv_generator_open(&g, e->dir, &how, err);
    if (!status) status = qkv_generate(g, &text, NULL, 1, &o, err);
    qkv_generator_close(g);
    if (!status) {
        const int64_t n = *given = t->length;
        int32_t *all = cmd_alloc((size_t)(n + w.count), 2 * sizeof *all);
        memset(all, 0, 2 * (size_t)(n + w.count) * sizeof *all);
        memcpy(all, t->ids, (size_t)n * sizeof *all);
        memcpy(all + n, w.ids, (size_t)w.count * sizeof *all);
        free(t->own);
        t->own = all;
        t->ids = all;
        t->types = all + n + w.count;
        t->count = t->length = n + w.count;
        e->offsets[1] = t->count;
        e->in.ids = t->ids;
        e->in.types = t->types;
        e->in.lengths = &t->length;
    }
    free(w.ids);
    return status;
}

// ---- the run -----------------------------------------------------------------------------------
struct job {
    struct source *s;
    const struct source_request *w;
    struct qkv_probe_request request;
    bool probed;
    bool whole;  // true: q and k of every layer are stored, in addition to the probes
    float *lse;  // [H][T] lse without padding; NULL: the run has no padding
    float *x[2]; // input rows of the next layer, for each of the two texts
    int64_t width, layers;
    struct qkv_progress progress;
    qkv_error err;
};

static bool exact(const struct job *j, int64_t layer)
{
    for (int64_t i = 0; i < j->w->exact_count; i++)
        if (j->w->exact[i] == layer) return true;
    return false;
}

static int layer(void *user, const struct qkv_layer_output *s)
{
    struct job *j = user;
    const int64_t stack = s->part == QKV_PART_CROSS ? 2 : s->part == QKV_PART_DECODER,
                  text = stack > 0, T = j->s->shown[text].tokens;
    const size_t rows = (size_t)(T * j->width) * sizeof(float);
    if (j->progress.step(j->progress.user, "run", s->layer + 1, j->layers)) return 1;
    if (s->layer >= 0) {
        const bool whole = !j->probed || j->whole || exact(j, s->layer);
        const float *lse = s->lse;
        if (whole && s->R > T) { // the rows of padding tokens contain no numbers
            j->lse = cmd_grow(j->lse, (size_t)(s->H * T), sizeof *j->lse);
            for (int64_t h = 0; h < s->H; h++)
                memcpy(j->lse + h * T, s->lse + h * s->R, (size_t)T * sizeof *lse);
            lse = j->lse;
        }
        const struct qkv_view_layer_data seen = { .q = whole ? s->q : NULL,
                                                  .k = whole ? s->k : NULL,
                                                  .v = whole ? s->v : NULL,
                                                  .lse = whole ? lse : NULL,
                                                  .x = whole && stack < 2 ? j->x[text] : NULL,
                                                  .probe = j->probed ? s->probe : NULL,
                                                  .relative = s->relative,
                                                  .reach = s->reach,
                                                  .scale = s->scale,
                                                  .softcap = s->softcap,
                                                  .window = true,
                                                  .left = s->left,
                                                  .right = s->right };
        if (qkv_view_layer(j->s->view, stack, s->layer, &seen, &j->err)) return 1;
        if (stack < 2 &&
            qkv_view_residual(j->s->view, stack, s->layer, j->x[text], s->stream, &j->err))
            return 1;
    }
    if (s->hidden) memcpy(j->x[text], s->hidden, rows);
    return 0;
}

// Adds the attention of a recurrent encoder-decoder, which has weights and no queries or keys.
static int recurrent_layer(void *user, const struct qkv_layer_output *s)
{
    struct job *j = user;
    const struct qkv_view_layer_data seen = { .weights = j->probed ? NULL : s->weights,
                                              .probe = j->probed ? s->probe : NULL,
                                              .left = -1,
                                              .right = -1 };
    return qkv_view_layer(j->s->view, 0, s->layer, &seen, &j->err) != QKV_OK;
}

// Returns true if the queries and keys of all layers, in 8 bits, may fit into a page, and if all
// weights can be computed within a few seconds, to measure the error of 8 bits.
static bool may_fit(const struct source *s, int64_t budget)
{
    double bytes = 0, weights = 0;
    for (int64_t i = 0; i < s->shape.stacks; i++) {
        const struct qkv_view_stack *k = &s->stack[i];
        weights += (double)(k->layers * k->heads) * (double)s->shown[k->rows].tokens *
                   (double)s->shown[k->keys].tokens;
        bytes += (double)k->layers * (double)k->head_width *
                 ((double)k->heads * (double)s->shown[k->rows].tokens +
                  (double)k->kv_heads * (double)s->shown[k->keys].tokens);
    }
    return weights < 2e8 && bytes * 4 / 3 < (double)(budget ? budget : 16000000);
}

static qkv_status collect(struct job *j, qkv_error *err)
{
    struct effects *e = &j->s->of;
    const bool recurrent = cmd_is_recurrent(&e->info);
    const struct qkv_observer observer = { .layer = recurrent ? recurrent_layer : layer,
                                           .user = j,
                                           .weights = recurrent && !j->probed,
                                           .probe = j->request,
                                           .sublayers = true,
                                           .skip_qkv =
                                               j->probed && !j->whole && !j->w->exact_count };
    // the decoder does not read the last token, which its last step writes
    const int64_t steps[] = { 0, j->s->shown[1].tokens };
    struct qkv_model_input in = e->in;
    if (in.source) in.offsets = steps;
    j->width = e->info.width;
    j->layers = e->info.layers + e->info.decoder_layers;
    for (int t = 0; t < (in.source && !recurrent ? 2 : !recurrent); t++)
        j->x[t] = cmd_alloc((size_t)(j->s->shown[t].tokens * j->width), sizeof *j->x[t]);
    j->progress = cmd_progress_begin("layers");
    if (!in.source && !recurrent)
        j->s->hidden = cmd_alloc((size_t)(in.offsets[1] * j->width), sizeof *j->s->hidden);
    qkv_status status = cmd_model_run(e->model, j->s->hidden, &in, &observer, err);
    cmd_progress_end();
    // report the error of the observer, because the run only reports that it was stopped
    if (j->err.status) {
        *err = j->err;
        status = err->status;
    }
    free(j->lse);
    free(j->x[0]);
    free(j->x[1]);
    return status;
}

// ---- the view -----------------------------------------------------------------------------------
// Sets the texts of the stacks. A decoder step reads one token and writes the next: the rows of
// self-attention (text 1) are the tokens that are read, the rows of cross-attention (text 2) the
// tokens that are written. A recurrent model has no self-attention: text 1 is written.
static qkv_status texts_show(struct source *s, bool two, qkv_error *err)
{
    s->shown[0] = s->text[0].text;
    s->shown[1] = s->shown[2] = s->text[1].text;
    s->shape.text = s->shown;
    if (!two) return QKV_OK;
    if (s->shown[1].tokens < 2)
        return cmd_error(
            err, QKV_ERR_USAGE, NULL,
            "the output of the model has no tokens, expected a second text with words");
    s->shown[1].tokens--;
    s->shown[2].tokens--;
    s->shown[2].token++;
    if (s->shape.stacks == 1) s->shown[1] = s->shown[2];
    return QKV_OK;
}

static void shape_make(struct source *s)
{
    const struct qkv_model_info *i = &s->of.info;
    const bool recurrent = cmd_is_recurrent(i);
    const bool two = i->kind == QKV_KIND_ENCODER_DECODER && !recurrent;
    static const char *const names[] = { "encoder", "decoder", "cross" };
    if (recurrent)
        s->stack[0] =
            (struct qkv_view_stack){ .name = "cross", .rows = 1, .layers = 1, .heads = 1 };
    for (int n = 0; n < (two ? 3 : !recurrent); n++)
        s->stack[n] = (struct qkv_view_stack){ .name = two ? names[n] : "attention",
                                               .rows = n,
                                               .keys = n == 1,
                                               .layers = n ? i->decoder_layers : i->layers,
                                               .heads = i->heads,
                                               .kv_heads = i->kv_heads,
                                               .head_width = i->head_width,
                                               .value_width = i->value_width,
                                               .width = n < 2 ? i->width : 0,
                                               .causal = two ? n == 1 : i->causal };
    char heads[160];
    snprintf(s->model, sizeof s->model, "%.80s%s%s", i->name, common.ablations ? ", ablated: " : "",
             cmd_ablated(heads, sizeof heads));
    s->shape = (struct qkv_view_shape){ .model = s->model,
                                        .texts = two ? 3 : 1 + recurrent,
                                        .stack = s->stack,
                                        .stacks = two ? 3 : 1 };
}

// Checks that the layers to store completely exist in some stack.
static qkv_status check_exact(const struct source *s, const struct source_request *w,
                              qkv_error *err)
{
    int64_t layers = 0;
    for (int64_t i = 0; i < s->shape.stacks; i++)
        if (s->stack[i].layers > layers) layers = s->stack[i].layers;
    for (int64_t i = 0; i < w->exact_count; i++)
        if (w->exact[i] >= layers)
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "--layers: layer out of range, found %lld, expected 0 to %lld",
                             (long long)w->exact[i], (long long)layers - 1);
    return QKV_OK;
}

static qkv_status map_make(struct source *s, qkv_error *err)
{
    qkv_status status = effects_measure(&s->of, true, err);
    for (int64_t i = 0; i < s->of.of.stacks && !status; i++) {
        const struct qkv_effect_stack *k = &s->of.of.stack[i];
        const int64_t each = s->of.of.changes, n = k->layers * k->heads * each;
        struct qkv_view_change *c = cmd_alloc((size_t)n + 1, sizeof *c);
        const int64_t rows = s->shown[s->stack[i].rows].tokens,
                      first = k->part == QKV_PART_CROSS; // the token of row 0
        for (int64_t x = 0, to = 0; x < n; x++) {
            if (x % each == 0) to = x;
            const struct qkv_change *from = &k->change[x];
            const int64_t row = from->token - first;
            c[x].token = -1;
            if (from->token >= 0 && row >= 0 && row < rows)
                c[to++] = (struct qkv_view_change){ row, from->before, from->after };
        }
        // Ablating a head of the encoder changes tokens of the output, which are not rows of the
        // encoder.
        const bool others = k->part == QKV_PART_ENCODER;
        status = qkv_view_effects(s->view, i, k->effect, s->of.of.unit, others ? NULL : c,
                                  others ? 0 : each, err);
        free(c);
    }
    return status;
}

// Makes the view again, without padding tokens.
static qkv_status leave_out_padding(struct source *s, qkv_error *err)
{
    cmd_note("a text of this length is shown without its padding tokens");
    s->shown[0].padding = 0;
    qkv_view_free(s->view);
    return qkv_view_new(&s->view, &s->shape, err);
}

qkv_status source_open(struct source *s, const char *const *texts, const struct source_request *w,
                       qkv_error *err)
{
    struct job job = { .s = s, .w = w };
    struct effects *e = &s->of;
    int64_t given = 0;
    qkv_status status = effects_open(e, w->model, w->tokens, texts, err);
    if (!status && w->generate && e->info.kind != QKV_KIND_DECODER)
        status = cmd_error(
            err, QKV_ERR_UNSUPPORTED, e->dir, "--generate requires a decoder; this model is %s%s",
            e->info.family,
            e->in.source ? ", which generates its output without --generate if one text is given"
                         : "");
    if (!status && w->generate) status = write_on(&given, e, texts[0], w->generate, err);
    if (status) return status;
    const bool two = e->in.source != NULL;
    const char *const first[2] = { texts[0], two ? NULL : texts[1] }, *const second[2] = { texts[1],
                                                                                           NULL };
    if (!e->tokenizer && qkv_tokenizer_open(&e->tokenizer, e->dir, texts[0] ? err : NULL) &&
        texts[0])
        return err->status;
    status = text_make(&s->text[0], &e->read, e->tokenizer, first, 0, err);
    if (!status && two) status = text_make(&s->text[1], &e->written, e->tokenizer, second, 1, err);
    if (status) return status;
    shape_make(s);
    if ((status = check_exact(s, w, err)) || (status = texts_show(s, two, err))) return status;
    s->shown[0].given = given;
    if (!w->padding) s->shown[0].padding = 0;
    status = qkv_view_new(&s->view, &s->shape, err);
    if (status) return status;
    job.probed = qkv_view_probe_request(s->view, w->budget, &job.request);
    job.whole = may_fit(s, w->budget);
    // run without padding: it would change nothing, but its rows would be in the probes
    if (job.probed) {
        if (s->shown[0].padding && (status = leave_out_padding(s, err))) return status;
        e->offsets[1] = e->read.length;
        e->written_offsets[1] = e->written.length;
    }
    status = collect(&job, err);
    if (!status && w->map) status = map_make(s, err);
    return status;
}

void source_close(struct source *s)
{
    qkv_view_free(s->view);
    free(s->hidden);
    source_output_close(&s->output);
    text_close(&s->text[0]);
    text_close(&s->text[1]);
    effects_close(&s->of);
    *s = (struct source){ 0 };
}
