// SPDX-License-Identifier: MIT
// make_odd.c: makes pages with every formula of scores, and for each a .json with rows that the
// page must have.
//   make_odd FOLDER          caps, relative positions, windows, slopes; weights from a file
//   make_odd FOLDER large    4,096 tokens x 72 heads, 100,000 tokens x 12 heads, as probes
#define MAKER "make_odd"
#include "view/maker.h"
#include <inttypes.h>
#include <math.h>
#include <qkv/view.h>
#include <string.h>

// ---- a text of paragraphs -----------------------------------------------------------------------
struct story {
    struct qkv_view_token *token;
    char *source;
    struct qkv_view_text text;
};

static void tell(struct story *s, int64_t T)
{
    static const char *const words[] = { "the",   "river", "runs",  "past",  "a",     "mill", "and",
                                         "turns", "its",   "wheel", "until", "night", "falls" };
    size_t used = 0;
    s->token = zeros(T, sizeof *s->token);
    s->source = zeros(T, 9);
    for (int64_t i = 0; i < T; i++) {
        const char *word = words[(i * 7 + i / 13) % 13];
        const size_t n = strlen(word);
        memcpy(s->source + used, word, n);
        s->token[i] = (struct qkv_view_token){ .raw = word,
                                               .text = s->source + used,
                                               .text_bytes = n,
                                               .begin = (int64_t)used,
                                               .end = (int64_t)(used + n) };
        used += n;
        if (i % 29 == 28) s->source[used++] = '.';
        s->source[used++] = i % 290 == 289 ? '\n' : ' ';
        if (i % 290 == 289) s->source[used++] = '\n';
    }
    s->text = (struct qkv_view_text){
        .token = s->token, .tokens = T, .source = { s->source }, .source_bytes = { used }
    };
}

// ---- expected rows ------------------------------------------------------------------------------
static void write_rows(FILE *f, const qkv_view *v, const struct qkv_view_stack *k, int64_t T,
                       int64_t step)
{
    float *row = zeros(T, sizeof *row);
    const char *comma = "";
    for (int64_t l = 0; l < k->layers; l++)
        for (int64_t h = 0; h<k->heads; h += k->heads> 4 ? 5 : 1)
            for (int64_t i = 0; i < T; i += step) {
                qkv_view_row(v, row, 0, l, h, i);
                fprintf(f, "%s[%" PRId64 ",%" PRId64 ",%" PRId64 ",{", comma, l, h, i);
                comma = "";
                for (int64_t j = 0; j < T; j++) {
                    if (row[j] == 0) continue;
                    fprintf(f,
                            isfinite(row[j]) ? "%s\"%" PRId64 "\":%.9g" : "%s\"%" PRId64 "\":null",
                            comma, j, (double)row[j]);
                    comma = ",";
                }
                fprintf(f, "}]");
                comma = ",\n";
            }
    free(row);
}

static void write_page(const char *folder, const char *name, const qkv_view *v,
                       const struct qkv_view_stack *k, int64_t T, int64_t budget, int64_t step)
{
    const struct qkv_view_options o = { .budget = budget };
    struct qkv_view_report r;
    qkv_error err = { 0 };
    char path[600];
    snprintf(path, sizeof path, "%s/%s.html", folder, name);
    must(qkv_view_html(v, path, true, &o, &r, &err), &err);
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    FILE *f = fopen(path, "w");
    if (!f) exit(6);
    fprintf(f,
            "{\"kind\":\"%s\",\"error\":%.9g,\"kept\":%.9g,\"top\":%" PRId64 ",\"bytes\":%" PRId64
            ",\"rows\":[",
            r.kind, r.error, r.kept, r.top, r.bytes);
    write_rows(f, v, k, T, step);
    fprintf(f, "]}\n");
    fclose(f);
}

static qkv_view *new_view(const struct story *s, const struct qkv_view_stack *k)
{
    const struct qkv_view_shape shape = { "made-up", &s->text, 1, k, 1 };
    qkv_error err = { 0 };
    qkv_view *v;
    must(qkv_view_new(&v, &shape, &err), &err);
    return v;
}

// ---- every formula ------------------------------------------------------------------------------
enum { HEADS = 4, GROUPS = 2, WIDTH = 16, REACH = 6, LAYERS = 4 };

static bool is_seen(const struct qkv_view_layer_data *a, int64_t i, int64_t j)
{
    return !a->window || ((a->left < 0 || i - j <= a->left) && (a->right < 0 || j - i <= a->right));
}

static double score(const struct qkv_view_layer_data *a, int64_t h, int64_t i, int64_t j)
{
    const float *q = a->q + (i * HEADS + h) * WIDTH,
                *k = a->k + (j * GROUPS + h / (HEADS / GROUPS)) * WIDTH;
    const int64_t d = j - i > REACH ? REACH : j - i < -REACH ? -REACH : j - i;
    double dot = 0;
    for (int e = 0; e < WIDTH; e++) dot += (double)q[e] * (double)k[e];
    dot *= (double)a->scale;
    if (a->softcap > 0) dot = (double)a->softcap * tanh(dot / (double)a->softcap);
    if (a->relative) dot += (double)a->relative[h * (2 * REACH + 1) + REACH + d];
    return dot - (a->alibi ? (double)a->alibi[h] * fabs((double)(i - j)) : 0);
}

static void make_formula(const char *folder, const char *name, int64_t T)
{
    static float relative[HEADS * (2 * REACH + 1)], alibi[HEADS] = { .5f, .25f, .125f, .0625f };
    for (size_t i = 0; i < sizeof relative / sizeof *relative; i++) relative[i] = (float)uniform();
    const struct qkv_view_layer_data ways[LAYERS] = {
        { .scale = .5f, .softcap = 2.5f },
        { .scale = 1, .relative = relative, .reach = REACH },
        { .scale = .4f, .window = true, .left = 9, .right = 3 },
        { .scale = .3f, .alibi = alibi, .relative = relative, .reach = REACH, .softcap = 4 },
    };
    const struct qkv_view_stack k = { "attention",    0,      0,     LAYERS,
                                      HEADS,          GROUPS, WIDTH, .value_width = WIDTH,
                                      .causal = false };
    struct story s;
    tell(&s, T);
    qkv_view *v = new_view(&s, &k);
    float *q = zeros(T * HEADS * WIDTH, sizeof *q), *keys = zeros(T * GROUPS * WIDTH, sizeof *keys),
          *lse = zeros(HEADS * T, sizeof *lse);
    for (int64_t l = 0; l < LAYERS; l++) {
        struct qkv_view_layer_data seen = ways[l];
        qkv_error err = { 0 };
        for (int64_t i = 0; i < T * HEADS * WIDTH; i++) q[i] = (float)(2 * uniform());
        for (int64_t i = 0; i < T * GROUPS * WIDTH; i++) keys[i] = (float)(2 * uniform());
        seen.q = q;
        seen.k = keys;
        seen.v = keys;
        seen.lse = lse;
        for (int64_t h = 0; h < HEADS; h++)
            for (int64_t i = 0; i < T; i++) {
                double sum = 0;
                for (int64_t j = 0; j < T; j++)
                    if (is_seen(&seen, i, j)) sum += exp(score(&seen, h, i, j));
                lse[h * T + i] = (float)log(sum);
            }
        must(qkv_view_layer(v, 0, l, &seen, &err), &err);
    }
    write_page(folder, name, v, &k, T, 0, T / 5);
    qkv_view_free(v);
    free(q);
    free(keys);
    free(lse);
    free(s.token);
    free(s.source);
}

// Dense weights: rows of 1, one of 2, one of NaN.
static void make_given(const char *folder)
{
    enum { T = 24 };
    static float w[2 * T * T];
    const struct qkv_view_stack k = { "attention", 0, 0, 1, 2, .causal = false };
    const struct qkv_view_layer_data seen = { .weights = w };
    struct story s;
    qkv_error err = { 0 };
    tell(&s, T);
    for (int64_t r = 0; r < 2 * T; r++)
        for (int64_t j = 0; j < T; j++)
            w[r * T + j] = r == 7   ? NAN
                           : r == 9 ? 2.f / T
                                    : (float)((j == r % T) + .5 * (j == (r + 3) % T)) / 1.5f;
    qkv_view *v = new_view(&s, &k);
    must(qkv_view_layer(v, 0, 0, &seen, &err), &err);
    write_page(folder, "given", v, &k, T, 0, 1);
    qkv_view_free(v);
    free(s.token);
    free(s.source);
}

// ---- long texts ---------------------------------------------------------------------------------
// Weights .5 .25 .. of a row: neighbours, the first token, periodic positions, anywhere.
static void probe_row(int32_t *key, float *w, int64_t top, int64_t h, int64_t i, int64_t T)
{
    const double first = .35 + .3 * (uniform() + 1) / 2;
    double share = first;
    for (int64_t n = 0; n < top; n++, share *= .55) {
        int64_t j = h % 4 == 0   ? i - 1 - n
                    : h % 4 == 1 ? (n ? i - n : 0)
                    : h % 4 == 2 ? i - 13 * (n + 1)
                                 : (int64_t)((uniform() + 1) / 2 * (double)(T - 1));
        j = ((j % T) + T) % T;
        bool twice = true;
        while (twice) {
            twice = false;
            for (int64_t m = 0; m < n; m++) twice |= key[m] == j;
            if (twice) j = (j + 1) % T;
        }
        key[n] = (int32_t)j;
        w[n] = (float)share * (float)(1 - first);
    }
}

static void make_long(const char *folder, const char *name, int64_t T, int64_t L, int64_t H,
                      int64_t budget)
{
    const struct qkv_view_stack k = { "attention", 0, 0, L, H, .head_width = 32, .causal = false };
    struct qkv_probe_request request;
    struct story s;
    tell(&s, T);
    qkv_view *v = new_view(&s, &k);
    if (!qkv_view_probe_request(v, budget, &request)) exit(1);
    const int64_t n = request.side;
    int32_t *key = zeros(H * T * request.top_k, sizeof *key);
    float *w = zeros(H * T * request.top_k, sizeof *w), *received = zeros(H * T, sizeof *w),
          *entropy = zeros(H * T, sizeof *w), *max = zeros(H * n * n, sizeof *w),
          *mean = zeros(H * n * n, sizeof *w);
    for (int64_t l = 0; l < L; l++) {
        qkv_error err = { 0 };
        memset(received, 0, (size_t)(H * T) * sizeof *w);
        memset(max, 0, (size_t)(H * n * n) * sizeof *w);
        for (int64_t b = 0; b < H * n * n; b++) mean[b] = .2f / (float)T;
        for (int64_t r = 0; r < H * T; r++) {
            const int64_t h = r / T, i = r % T;
            probe_row(key + r * request.top_k, w + r * request.top_k, request.top_k, h + l, i, T);
            double rest = 1, nats = 0;
            for (int64_t x = r * request.top_k; x < (r + 1) * request.top_k; x++) {
                float *most = &max[(h * n + i * n / T) * n + key[x] * n / T];
                *most = fmaxf(*most, w[x]);
                mean[most - max] += w[x] / (float)(T / n * (T / n));
                received[h * T + key[x]] += w[x];
                rest -= (double)w[x];
                nats -= (double)w[x] * log((double)w[x]);
            }
            entropy[r] = (float)(nats - rest * log(rest / (double)T));
        }
        const struct qkv_probe probe = { .top_k = request.top_k,
                                         .top_weight = w,
                                         .top_key = key,
                                         .received = received,
                                         .entropy = entropy,
                                         .side = n,
                                         .tile_max = max,
                                         .tile_mean = mean };
        const struct qkv_view_layer_data seen = { .probe = &probe };
        must(qkv_view_layer(v, 0, l, &seen, &err), &err);
    }
    write_page(folder, name, v, &k, T, budget, T / 3);
    qkv_view_free(v);
    void *const all[] = { key, w, received, entropy, max, mean, s.token, s.source };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

int main(int argc, char **argv)
{
    const bool large = argc == 3 && !strcmp(argv[2], "large");
    if (argc != 2 && !large) {
        fputs("usage: make_odd FOLDER [large]\n", stderr);
        return 2;
    }
    seed = 7;
    if (large) {
        make_long(argv[1], "tokens-4096", 4096, 6, 12, 0);
        make_long(argv[1], "tokens-100000", 100000, 1, 12, 25000000);
        return 0;
    }
    make_formula(argv[1], "formula-40", 40);
    make_formula(argv[1], "formula-220", 220);
    make_given(argv[1]);
    make_long(argv[1], "tokens-1200", 1200, 2, 4, 0);
    return 0;
}
