// SPDX-License-Identifier: MIT
// test_sublayers.c: checks the stream after each sublayer, as an observer receives it, for small
// random models of every family: the last sublayer ends with the hidden state of the layer, and
// attention with all heads zeroed adds only its bias.
#include "model/model_internal.h"
#include "model/tiny.h"

struct observed {
    const struct qkv_model *m;
    int64_t width;
    bool requested;
    int crosses;
    float *before;   // [rows][width] the stream before layer 0
    float added[64]; // what attention of layer 0 adds to the first token
};

// Returns whether a layer has a sublayer: its blocks have the weights.
static bool has(const struct qkv_stack *stack, int64_t layer, int sublayer)
{
    const int64_t end = layer + 1 == stack->layers ? stack->blocks : layer + 1;
    for (int64_t i = layer; i < end; i++) {
        const struct qkv_block *b = &stack->block[i];
        const bool parts[] = { b->heads.H > 0, b->cross.H > 0, b->mlp.up.K > 0 };
        if (parts[sublayer]) return true;
    }
    return false;
}

static int check_layer(void *user, const struct qkv_layer_output *s)
{
    struct observed *o = user;
    const int second = s->part >= QKV_PART_DECODER;
    const struct qkv_stack *stack = &o->m->stack[second];
    const float *last = NULL;
    for (int k = 0; k < QKV_SUBLAYERS; k++) {
        const bool any = o->requested && s->layer >= 0 && s->part != QKV_PART_CROSS;
        CHECK_EQ(s->stream[k] != NULL, any && has(stack, s->layer, k));
        if (s->stream[k]) last = s->stream[k];
    }
    o->crosses += s->stream[QKV_SUBLAYER_CROSS] != NULL;
    if (last && (s->layer + 1 < stack->layers || !stack->final_norm.D))
        CHECK_BITS(last, s->hidden, (size_t)(s->R * o->width) * sizeof(float));
    return 0;
}

static void run(const struct tiny *t, float *hidden, const struct qkv_model_input *in,
                struct observed *o)
{
    const struct qkv_observer observer = {
        .layer = check_layer, .user = o, .skip_qkv = true, .sublayers = o->requested
    };
    qkv_error err = { 0 };
    o->m = t->model;
    o->width = t->info.width;
    if (qkv_model_run(t->model, hidden, in, &observer, &err)) fail_msg("%s", err.text);
}

TEST(the_last_sublayer_ends_with_the_hidden_state_of_the_layer)
{
    EACH_TINY_PRECISION(name, p)
    {
        struct tiny t = open_tiny(*name, p);
        struct observed o = { .requested = true };
        const struct qkv_model_input *in = tiny_input(&t);
        const size_t n = (size_t)(t.R * t.info.width);
        float *hidden = malloc(2 * n * sizeof *hidden);
        run(&t, hidden, in, &o);
        CHECK_EQ(o.crosses, t.info.decoder_layers);
        struct tiny_padded own, source;
        tiny_pad(&own, &t.in);
        if (t.source.ids) {
            tiny_pad(&source, &t.source);
            own.in.source = &source.in;
        }
        run(&t, NULL, &own.in, &o);
        o.requested = false;
        run(&t, hidden + n, in, &o);
        CHECK_BITS(hidden, hidden + n, n * sizeof *hidden);
        free(hidden);
        close_tiny(&t);
    }
}

// ---- attention without heads -------------------------------------------------------------------
static int add_nothing(void *user, const struct qkv_layer_output *s)
{
    struct observed *o = user;
    const size_t bytes = (size_t)(s->R * o->width) * sizeof(float);
    if (s->layer == 0) {
        const float *after = s->stream[QKV_SUBLAYER_ATTENTION];
        for (int64_t r = 0; r < s->R; r++)
            for (int64_t e = 0; e < o->width; e++) {
                const float added = after[r * o->width + e] - o->before[r * o->width + e];
                if (!r) o->added[e] = added;
                // two roundings of numbers below 8
                CHECK_NEAR(added, o->added[e], 8 * 0x1p-22);
            }
    }
    memcpy(o->before, s->hidden, bytes);
    return 0;
}

TEST(attention_without_heads_adds_the_same_to_every_token)
{
    struct tiny t = open_tiny("gpt2", QKV_PRECISION_F32);
    const struct qkv_ablation none = { QKV_PART_STACK, 0, -1, QKV_ABLATE_ZERO };
    struct observed o = { .width = t.info.width };
    const struct qkv_observer observer = { .layer = add_nothing, .user = &o, .sublayers = true };
    qkv_error err = { 0 };
    CHECK(o.width <= 64);
    o.before = malloc((size_t)(t.R * o.width) * sizeof *o.before);
    CHECK_EQ(qkv_model_ablate(t.model, &none, 1, &err), QKV_OK);
    CHECK_EQ(qkv_model_run(t.model, NULL, tiny_input(&t), &observer, &err), QKV_OK);
    free(o.before);
    close_tiny(&t);
}

CHECK_MAIN(CASE(the_last_sublayer_ends_with_the_hidden_state_of_the_layer),
           CASE(attention_without_heads_adds_the_same_to_every_token))
