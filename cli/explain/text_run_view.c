// SPDX-License-Identifier: MIT
// text_run_view.c: makes a view of a model run, and chooses the layer, head and token that a topic
// shows by the rule of the views.
#include "explain/explain.h"
#include <string.h>

static qkv_status add_layers(qkv_view *v, const struct text_run *s, qkv_error *err)
{
    qkv_status status = QKV_OK;
    for (int64_t l = 0; l < s->L && !status; l++) {
        const struct seen_layer *from = &s->layer[l];
        const struct qkv_view_layer_data data = { .q = from->q,
                                                  .k = from->k,
                                                  .v = from->v,
                                                  .x = from->x,
                                                  .lse = from->lse,
                                                  .relative = from->relative,
                                                  .reach = from->reach,
                                                  .scale = from->scale,
                                                  .softcap = from->softcap,
                                                  .window = from->left >= 0 || from->right >= 0,
                                                  .left = from->left,
                                                  .right = from->right };
        status = qkv_view_layer(v, 0, l, &data, err);
    }
    return status;
}

qkv_status text_run_view(struct page *p, qkv_view **out, const struct text_run *s, qkv_error *err)
{
    const qkv_encoding *e = &s->tokens.encoding;
    struct qkv_view_token *token = page_take(p, (size_t)s->T, sizeof *token);
    struct qkv_view_text *text = page_take(p, 1, sizeof *text);
    struct qkv_view_stack *stack = page_take(p, 1, sizeof *stack);
    for (int64_t i = 0; i < s->T; i++) {
        const char *raw = s->tokenizer ? qkv_tokenizer_token(s->tokenizer, s->tokens.ids[i]) : NULL;
        token[i] =
            (struct qkv_view_token){ .raw = raw ? raw : s->word[i], .special = seen_special(s, i) };
        if (!s->text || e->text[i] > 1) continue;
        token[i].begin = e->begin[i];
        token[i].end = e->end[i];
        if (e->end[i] <= e->begin[i]) continue;
        token[i].text = s->text + e->begin[i]; // with the space before a word, as in the views
        token[i].text_bytes = (size_t)(e->end[i] - e->begin[i]);
    }
    *text = (struct qkv_view_text){ .token = token,
                                    .tokens = s->T,
                                    .source = { s->text },
                                    .source_bytes = { s->text ? strlen(s->text) : 0 } };
    *stack = (struct qkv_view_stack){ .name = "attention",
                                      .layers = s->L,
                                      .heads = s->H,
                                      .kv_heads = s->G,
                                      .head_width = s->E,
                                      .value_width = s->F,
                                      .width = s->D,
                                      .causal = s->causal };
    const struct qkv_view_shape shape = {
        .model = s->info.name, .text = text, .texts = 1, .stack = stack, .stacks = 1
    };
    const qkv_status status = qkv_view_new(out, &shape, err);
    return status ? status : add_layers(*out, s, err);
}

// ---- the choice --------------------------------------------------------------------------------
static qkv_status in_range(const char *option, int64_t value, int64_t n, qkv_error *err)
{
    return value < n ? QKV_OK
                     : cmd_error(err, QKV_ERR_USAGE, NULL,
                                 "%s: number out of range, expected 0 to %lld, found %lld", option,
                                 (long long)n - 1, (long long)value);
}

qkv_status text_run_check(const struct text_run *s, qkv_error *err)
{
    const qkv_status status = in_range("--layer", explain_options.layer, s->L, err);
    return status ? status : in_range("--head", explain_options.head, s->H, err);
}

qkv_status text_run_choose(const qkv_view *v, const struct text_run *s, int64_t *layer,
                           int64_t *head, int64_t *token, qkv_error *err)
{
    const struct explain_options *o = &explain_options;
    struct qkv_view_options how = { .view = "steps" };
    struct qkv_view_chosen first;
    qkv_status status = o->token ? text_run_find(s, "--token", o->token, token, err) : QKV_OK;
    if (!status) status = text_run_check(s, err);
    if (status) return status;
    if (o->token) how.token = token, how.special = seen_special(s, *token);
    if (o->layer >= 0) how.layer = &o->layer;
    if (o->head >= 0) how.heads = &o->head, how.head_count = 1;
    if ((status = qkv_view_choose(v, &how, &first, err))) return status;
    *layer = first.layer;
    *head = first.heads[0];
    *token = first.token;
    return QKV_OK;
}
