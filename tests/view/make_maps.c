// SPDX-License-Identifier: MIT
// make_maps.c: makes pages of known weights for the cases of browser_maps.py.
//   make_maps FOLDER [TOKENS]
// map, loss: effects of heads, 1 - cosine and nats; kept: TOKENS tokens (3000) with a probe of 8
// weights per row; cross: a decoder with a window of 3, and its cross-attention.
#include <inttypes.h>
#include <math.h>
#include <qkv/probe.h>
#include <qkv/view.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = { "time",  "flies",  "like", "an", "arrow",
                                     "fruit", "banana", "it",   "was" };
enum { WORDS = 9, SECTION = 250, KEPT = 8, SIDE = 64, CHANGES = 3 };

static void *need(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (!p) exit(5);
    return p;
}
static void stop_if(qkv_status status, const char *name, const qkv_error *err)
{
    char line[500];
    if (!status) return;
    fprintf(stderr, "make_maps: %s: %s\n", name, qkv_error_line(line, sizeof line, err));
    exit((int)status);
}
static void write_page(qkv_view *v, const char *folder, const char *name,
                       const struct qkv_view_options *o)
{
    qkv_error err = { 0 };
    char path[500];
    snprintf(path, sizeof path, "%s/%s.html", folder, name);
    stop_if(qkv_view_html(v, path, true, o, NULL, &err), name, &err);
    qkv_view_free(v);
}

// n words between [CLS] and [SEP].
static struct qkv_view_text make_text(int64_t n, bool specials, int64_t from)
{
    struct qkv_view_token *t = need((size_t)n, sizeof *t);
    for (int64_t i = 0; i < n; i++) {
        const bool special = specials && (i == 0 || i == n - 1);
        t[i] = (struct qkv_view_token){ .raw = special ? i ? "[SEP]" : "[CLS]"
                                                       : words[(i + from) % WORDS],
                                        .special = special };
    }
    return (struct qkv_view_text){ .token = t, .tokens = n };
}

// Fills w[T][S] of a head that has the weight `much` on key to(i), the rest uniform over the keys
// i-left .. of the row.
static void make_head(float *w, int64_t T, int64_t S, int64_t head, bool causal, int64_t left)
{
    for (int64_t i = 0; i < T; i++) {
        const int64_t end = causal ? i + 1 : S, from = left >= 0 && i > left ? i - left : 0;
        const int64_t wanted = head % 4 == 0   ? i - 1
                               : head % 4 == 1 ? i + 1
                               : head % 4 == 2 ? 3
                                               : i;
        const int64_t to = wanted < from ? from : wanted >= end ? end - 1 : wanted;
        const float much = head % 4 == 3 ? .02f : .5f + .04f * (float)(head % 8);
        for (int64_t j = from; j < end; j++) w[i * S + j] = (1 - much) / (float)(end - from);
        w[i * S + to] += much;
    }
}

static void make_map(const char *folder, const char *name, bool nats)
{
    enum { T = 12, L = 3, H = 4 };
    const struct qkv_view_text text = make_text(T, true, 0);
    const struct qkv_view_stack stack = { .name = "attention", .layers = L, .heads = H };
    const struct qkv_view_shape shape = { "made-up", &text, 1, &stack, 1 };
    static float w[H][T][T], effect[L][H];
    static struct qkv_view_change change[L][H][CHANGES];
    qkv_error err = { 0 };
    qkv_view *v = NULL;
    stop_if(qkv_view_new(&v, &shape, &err), name, &err);
    for (int64_t l = 0; l < L; l++) {
        memset(w, 0, sizeof w);
        for (int64_t h = 0; h < H; h++) {
            make_head(&w[h][0][0], T, T, l * H + h, false, -1);
            // the largest effect: L1.H2, .077; without L2.H3 the loss falls
            effect[l][h] = l == 1 && h == 2   ? .077f
                           : l == 2 && h == 3 ? -.004f
                                              : .001f * (float)(1 + l + h);
            for (int64_t k = 0; k < CHANGES; k++)
                change[l][h][k] =
                    (struct qkv_view_change){ k < 2 ? 1 + l + 2 * k : -1, nats ? .5f : 0,
                                              nats ? .5f - .1f * (float)(h + k)
                                                   : .3f - .1f * (float)k };
            if (!nats && effect[l][h] < 0) effect[l][h] = 0;
        }
        const struct qkv_view_layer_data seen = { .weights = &w[0][0][0] };
        stop_if(qkv_view_layer(v, 0, l, &seen, &err), name, &err);
    }
    stop_if(qkv_view_effects(v, 0, &effect[0][0], nats ? "nats" : "1 - cosine", &change[0][0][0],
                             CHANGES, &err),
            name, &err);
    write_page(v, folder, name, &(struct qkv_view_options){ .view = "model" });
    free((void *)text.token);
}

// Sections of SECTION tokens under headings; each a line of "word word ...".
static char *make_source(struct qkv_view_token *t, int64_t T)
{
    char *source = need((size_t)T * 10 + (size_t)(T / SECTION + 1) * 30, 1), *at = source;
    for (int64_t i = 0; i < T; i++) {
        if (i % SECTION == 0)
            at += sprintf(at, "%s%" PRId64 ". Part of it\n\n", i ? "\n\n" : "", i / SECTION);
        t[i].begin = at - source;
        at += sprintf(at, "%s", t[i].raw);
        t[i].end = at - source;
        *at++ = ' ';
    }
    *at = 0;
    return source;
}

// Row i attends to i-1, i and, in head 1, to the first token of its section; .1 is not stored.
static void make_probe(struct qkv_probe *p, int64_t T)
{
    enum { H = 2 };
    float *sum = need((size_t)(H * SIDE * SIDE), sizeof *sum);
    p->top_k = KEPT;
    p->side = SIDE;
    p->top_weight = need((size_t)(H * T * KEPT), sizeof *p->top_weight);
    p->top_key = need((size_t)(H * T * KEPT), sizeof *p->top_key);
    p->received = need((size_t)(H * T), sizeof *p->received);
    p->entropy = need((size_t)(H * T), sizeof *p->entropy);
    p->distance = need((size_t)(H * T), sizeof *p->distance);
    p->tile_max = need((size_t)(H * SIDE * SIDE), sizeof *p->tile_max);
    p->tile_mean = need((size_t)(H * SIDE * SIDE), sizeof *p->tile_mean);
    for (int64_t h = 0; h < H; h++)
        for (int64_t i = 0; i < T; i++) {
            const int64_t far = i / SECTION * SECTION, key[] = { h ? far : i, i ? i - 1 : 0, i };
            const float w[] = { .6f, .2f, .1f };
            float *top = p->top_weight + (h * T + i) * KEPT;
            int32_t *to = p->top_key + (h * T + i) * KEPT;
            for (int64_t k = 0; k < KEPT; k++) to[k] = -1;
            for (int64_t k = 0, n = 0; k < 3; k++) {
                int64_t same = 0;
                while (same < n && to[same] != (int32_t)key[k]) same++;
                if (same == n) n++;
                to[same] = (int32_t)key[k];
                top[same] += w[k];
            }
            for (int64_t k = 0; k < KEPT && to[k] >= 0; k++) {
                const int64_t tile = (h * SIDE + i * SIDE / T) * SIDE + to[k] * SIDE / T;
                p->tile_max[tile] = fmaxf(p->tile_max[tile], top[k]);
                p->tile_mean[tile] += top[k] * (float)SIDE / (float)T * (float)SIDE / (float)T;
                p->received[h * T + to[k]] += top[k];
                p->distance[h * T + i] += top[k] * (float)llabs(i - to[k]);
            }
            p->entropy[h * T + i] = 1.2f;
        }
    free(sum);
}
static void make_far(const char *folder, int64_t T)
{
    struct qkv_view_text text = make_text(T, false, 0);
    char *source = make_source((struct qkv_view_token *)text.token, T);
    text.source[0] = source;
    text.source_bytes[0] = strlen(source);
    const struct qkv_view_stack stack = { .name = "attention", .layers = 1, .heads = 2 };
    const struct qkv_view_shape shape = { "made-up", &text, 1, &stack, 1 };
    struct qkv_probe p = { 0 };
    qkv_error err = { 0 };
    qkv_view *v = NULL;
    make_probe(&p, T);
    stop_if(qkv_view_new(&v, &shape, &err), "kept", &err);
    stop_if(qkv_view_layer(v, 0, 0, &(struct qkv_view_layer_data){ .probe = &p }, &err), "kept",
            &err);
    write_page(v, folder, "kept", &(struct qkv_view_options){ .view = "matrix" });
    float *const mine[] = {
        p.top_weight, p.received, p.entropy, p.distance, p.tile_max, p.tile_mean
    };
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++) free(mine[i]);
    free(p.top_key);
    free(source);
    free((void *)text.token);
}

static void make_cross(const char *folder)
{
    enum { T = 11, S = 9, H = 4, LEFT = 3 };
    const struct qkv_view_text text[] = { make_text(T, false, 0), make_text(S, true, 4) };
    const struct qkv_view_stack stack[] = {
        { .name = "decoder", .rows = 0, .keys = 0, .layers = 1, .heads = H, .causal = true },
        { .name = "cross", .rows = 0, .keys = 1, .layers = 1, .heads = H },
    };
    const struct qkv_view_shape shape = { "made-up", text, 2, stack, 2 };
    static float w[H * T * T];
    qkv_error err = { 0 };
    qkv_view *v = NULL;
    stop_if(qkv_view_new(&v, &shape, &err), "cross", &err);
    for (int64_t s = 0; s < 2; s++) {
        const int64_t keys = s ? S : T;
        memset(w, 0, sizeof w);
        for (int64_t h = 0; h < H; h++) make_head(w + h * T * keys, T, keys, h, !s, s ? -1 : LEFT);
        const struct qkv_view_layer_data seen = {
            .weights = w, .window = !s, .left = LEFT, .right = -1
        };
        stop_if(qkv_view_layer(v, s, 0, &seen, &err), "cross", &err);
    }
    write_page(v, folder, "cross", &(struct qkv_view_options){ .view = "matrix" });
    free((void *)text[0].token);
    free((void *)text[1].token);
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        fputs("usage: make_maps FOLDER [TOKENS]\n", stderr);
        return 2;
    }
    make_map(argv[1], "map", false);
    make_map(argv[1], "loss", true);
    make_cross(argv[1]);
    make_far(argv[1], argc > 2 ? strtoll(argv[2], NULL, 10) : 3000);
    return 0;
}
