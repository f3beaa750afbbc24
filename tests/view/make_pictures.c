// SPDX-License-Identifier: MIT
// make_pictures.c: makes SVG pictures of every view, and of every kind of chart, with short, long
// and wide names, for pictures.py.
//   make_pictures FOLDER
#define MAKER "make_pictures"
#include "view/made_output.h"
#include "view/maker.h"
#include <inttypes.h>
#include <math.h>
#include <qkv/chart.h>
#include <qkv/picture.h>
#include <string.h>

// ---- names --------------------------------------------------------------------------------------
enum { NAMES = 6, WORDS = 5 };
static const char *const names[WORDS][NAMES] = {
    { "a", "it", "was", "so", "I", "." },
    { "WWWWWW", "incomprehensibilities", "mmmmmmmmmmmm", "\"%$@&#\"", "unbelievably", "MMWWMMWW" },
    { "Wörterbücher", "Ελληνικά", "Достопримечательность", "œuvre", "½−×÷", "ﬁnﬂ" },
    { "日本語の文章", "한국어로", "注意力機制", "ｆｕｌｌ", "。", "東" },
    { "👩‍💻🎉", "العربية", "हिन्दी", "ภาษาไทย", "עברית", "→≠∞" },
};

// ---- views --------------------------------------------------------------------------------------
struct text {
    int64_t tokens, layers, heads;
    int words;   // the row of `names`
    bool causal; // true: with special tokens at both ends as well
};

static void fill_layer(qkv_view *v, const struct text *p, int64_t layer)
{
    enum { WIDTH = 16 };
    const int64_t T = p->tokens, H = p->heads, n = T * H * WIDTH;
    const int64_t stream = H > 1 ? 2 * n : 3 * n; // values, or three states of the stream
    float *all = zeros(2 * n + stream + H * T, sizeof *all), *q = all, *k = q + n, *x = k + n,
          *lse = x + stream;
    qkv_error err = { 0 };
    for (int64_t i = 0; i < 2 * n + stream; i++) all[i] = (float)(2 * uniform());
    for (int64_t i = 0; i < n; i++) q[i] *= (float)(1 + 40 * (i / WIDTH % H) * (layer > 0));
    for (int64_t h = 0; h < H; h++)
        for (int64_t i = 0; i < T; i++) {
            double sum = 0;
            for (int64_t j = 0; j < (p->causal ? i + 1 : T); j++) {
                double dot = 0;
                for (int64_t e = 0; e < WIDTH; e++)
                    dot += (double)q[(i * H + h) * WIDTH + e] * (double)k[(j * H + h) * WIDTH + e];
                sum += exp(.25 * dot);
            }
            lse[h * T + i] = (float)log(sum);
        }
    const struct qkv_view_layer_data seen = { .q = q, .k = k, .v = x, .lse = lse, .scale = .25f };
    const float *const after[3] = { x + T * WIDTH, NULL, x + 2 * T * WIDTH };
    must(qkv_view_layer(v, 0, layer, &seen, &err), &err);
    must(qkv_view_residual(v, 0, layer, x, after, &err), &err);
    free(all);
}

static void draw_views(const char *folder, const struct text *p)
{
    struct qkv_view_token *token = zeros(p->tokens, sizeof *token);
    for (int64_t i = 0; i < p->tokens; i++) {
        const bool special = !p->causal && p->tokens > 3 && (!i || i == p->tokens - 1);
        token[i].raw = token[i].text = names[p->words][i % NAMES];
        token[i].text_bytes = strlen(token[i].text);
        if (special) token[i].raw = i ? "[SEP]" : "[CLS]", token[i].text_bytes = 0;
        token[i].special = special;
    }
    const struct qkv_view_text text = { .token = token, .tokens = p->tokens };
    const struct qkv_view_stack stack = {
        "attention", 0,
        0,           p->layers,
        p->heads,    p->heads,
        16,          .value_width = 16,
        .width = 16, .causal = p->causal,
    };
    const struct qkv_view_shape shape = { "made-up", &text, 1, &stack, 1 };
    qkv_error err = { 0 };
    qkv_view *v;
    must(qkv_view_new(&v, &shape, &err), &err);
    for (int64_t l = 0; l < p->layers; l++) fill_layer(v, p, l);
    must(qkv_view_compare(v, v, &err), &err);
    must(give_output(v, p->tokens, p->layers,
                     p->causal      ? QKV_VIEW_OUTPUT_NEXT
                     : p->words % 2 ? QKV_VIEW_OUTPUT_SHARES
                                    : QKV_VIEW_OUTPUT_TOKEN_LABELS),
         &err);
    const char *name;
    for (int i = 0; (name = qkv_view_picture_name(i)) != NULL; i++)
        for (int marked = 0; marked < 2; marked++) {
            int64_t head[64], row = p->tokens / 2;
            char path[600];
            for (int64_t h = 0; h < p->heads; h++) head[h] = h;
            const struct qkv_view_options o = { .view = name,
                                                .token = marked ? &row : NULL,
                                                .heads = head,
                                                .head_count = marked ? p->heads : 0,
                                                .special = marked };
            static const char *const sizes[] = { "", "-column", "-page" };
            for (int size = 0; size < 3; size++) {
                struct qkv_view_options sized = o;
                sized.size = (enum qkv_view_size)size;
                snprintf(path, sizeof path, "%s/view-%s-%" PRId64 "-%d-%d%s.svg", folder, name,
                         p->tokens, p->words, marked, sizes[size]);
                must(qkv_view_picture(v, path, true, &sized, NULL, &err), &err);
            }
        }
    qkv_view_free(v);
    free(token);
}

// ---- charts -------------------------------------------------------------------------------------
enum { POINTS = 14, LINES = 5 };
static double x[POINTS], y[LINES][POINTS], thousand[POINTS];
static float cell[POINTS * POINTS];

static void write_chart(const char *folder, const char *name, int words, const struct qkv_chart *c)
{
    char path[600];
    qkv_error err = { 0 };
    snprintf(path, sizeof path, "%s/chart-%s-%d-%d.svg", folder, name, words, (int)c->across);
    must(qkv_chart_file(c, path, true, NULL, &err), &err);
}

static void draw_charts(const char *folder, int words, int64_t across)
{
    struct qkv_chart_line line[LINES];
    const char *label[POINTS];
    for (int i = 0; i < POINTS; i++) label[i] = names[words][i % NAMES];
    for (int k = 0; k < LINES; k++)
        line[k] =
            (struct qkv_chart_line){ .name = names[words][k], .x = x, .y = y[k], .n = POINTS };
    line[1].style = QKV_CHART_STRONG, line[2].style = QKV_CHART_DASHED;
    line[3].style = QKV_CHART_THIN, line[4].text = label;
    struct qkv_chart_line points = { .x = x, .y = y[0], .text = label, .n = POINTS };
    points.style = QKV_CHART_POINTS;
    struct qkv_chart_line bars = { .name = label[1], .y = thousand, .n = POINTS };
    bars.style = QKV_CHART_BARS;
    const struct qkv_chart_grid grid = { .value = cell,
                                         .rows = POINTS,
                                         .columns = POINTS,
                                         .row_label = label,
                                         .column_label = label,
                                         .digits = 2,
                                         .ramp = QKV_CHART_SIGNED },
                                numbers = { .value = cell, .rows = 3, .columns = POINTS };
    const struct qkv_chart_mark mark[] = { { 9, NAN, label[1], 0, 0, 0 },
                                           { NAN, .4, label[2], 0, 0, 0 },
                                           { 2, .1, label[4], 0, 0, 0 } };
    struct qkv_chart_panel panel[] = {
        { .name = label[1],
          .note = "a note below the panel with quite a few words in it, so many "
                  "that they need more than one line where the panel is narrow",
          .line = line,
          .lines = LINES,
          .x = { .name = "tokens" },
          .y = { .name = "seconds per token" } },
        { .name = "points", .line = &points, .lines = 1, .x = { .name = label[1] } },
        { .name = "bars",
          .line = &bars,
          .lines = 1,
          .x = { .name = "position", .label = label, .labels = POINTS } },
        { .name = "grid", .grid = &grid, .x = { .name = "keys" }, .y = { .name = "queries" } },
        { .name = "numbers", .grid = &numbers },
        { .name = "marks",
          .line = line,
          .lines = 1,
          .mark = mark,
          .marks = 3,
          .y = { .log = true } },
    };
    const char *kinds[] = { "lines", "points", "bars", "grid", "numbers", "marks" };
    struct qkv_chart c = { .title = "How long does a chart's question have to be before it needs a "
                                    "second line of its own?",
                           .sentence = "In layer 5, head 11, “it” attends to “animal” with .647, "
                                       "and WWWWWWWWWW MMMMMMMMMM with .353; none of these words "
                                       "may leave the picture.",
                           .panel = panel,
                           .panels = 6,
                           .across = across };
    write_chart(folder, "all", words, &c);
    for (int i = 0; i < 6; i++) {
        const struct qkv_chart_panel four[] = { panel[i], panel[i], panel[i], panel[i] };
        c.panel = four, c.panels = across;
        write_chart(folder, kinds[i], words, &c);
    }
}

// ---- diagrams -----------------------------------------------------------------------------------
static void draw_diagrams(const char *folder)
{
    static const struct qkv_structure models[] = {
        { .kind = QKV_KIND_ENCODER,
          .layers = 6,
          .heads = 12,
          .kv_heads = 12,
          .width = 384,
          .key_width = 32,
          .value_width = 32,
          .inner = 1536,
          .vocab = 30522,
          .positions = 512,
          .embed_width = 128,
          .position = "learned",
          .norm = "layer norm",
          .activation = "gelu",
          .norm_after = true,
          .embedding_norm = true,
          .scale = .176777,
          .labels = 3 },
        { .kind = QKV_KIND_DECODER,
          .layers = 126,
          .heads = 128,
          .kv_heads = 8,
          .width = 16384,
          .key_width = 128,
          .value_width = 128,
          .inner = 53248,
          .vocab = 1128256,
          .positions = 131072,
          .embed_width = 16384,
          .position = "rotary",
          .norm = "RMS norm",
          .activation = "gelu_pytorch_tanh",
          .norm_before = true,
          .norm_inside = true,
          .norm_heads = true,
          .gated = true,
          .final_norm = true,
          .windows = true,
          .scale = .0625,
          .softcap = 50 },
        { .kind = QKV_KIND_ENCODER_DECODER,
          .layers = 24,
          .decoder_layers = 12,
          .heads = 16,
          .kv_heads = 16,
          .width = 1024,
          .key_width = 64,
          .value_width = 64,
          .inner = 4096,
          .vocab = 250002,
          .positions = 1024,
          .embed_width = 1024,
          .position = "sinusoidal",
          .norm = "layer norm",
          .activation = "relu",
          .norm_before = true,
          .norm_after = true,
          .final_norm = true,
          .feed_forward_once = true,
          .scale = .125 },
    };
    const char *name;
    for (int i = 0; (name = qkv_diagram_name(i)) != NULL; i++)
        for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
            char path[600];
            qkv_error err = { 0 };
            snprintf(path, sizeof path, "%s/diagram-%s-%d.svg", folder, name, (int)k);
            must(qkv_diagram_file(&models[k], name, path, true, QKV_THEME_AUTO, &err), &err);
        }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("usage: make_pictures FOLDER\n", stderr);
        return 2;
    }
    seed = 5;
    for (int i = 0; i < POINTS; i++) {
        x[i] = i;
        thousand[i] = 1e6 * uniform();
        for (int k = 0; k < LINES; k++) y[k][i] = 1 + .9 * uniform();
    }
    for (int i = 0; i < POINTS * POINTS; i++) cell[i] = (float)(i % 11 ? 12 * uniform() : NAN);
    for (int words = 0; words < WORDS; words++) {
        draw_views(argv[1], &(struct text){ 13, 3, 4, words, false });
        for (int64_t across = 1; across <= 4; across++) draw_charts(argv[1], words, across);
    }
    draw_diagrams(argv[1]);
    draw_views(argv[1], &(struct text){ 1, 1, 1, 1, false });
    draw_views(argv[1], &(struct text){ 30, 2, 16, 1, true });
    draw_views(argv[1], &(struct text){ 75, 24, 12, 0, false });
    return 0;
}
