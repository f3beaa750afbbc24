// SPDX-License-Identifier: MIT
// diagram.c: draws bare and scaled dot-product attention, multi-head attention, a layer and a whole
// model as block diagrams, from the bottom to the top as in Vaswani et al. 2017.
#include "view/diagram/diagram_internal.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { BETWEEN = 56 }; // distance of the columns of an encoder-decoder
typedef void draw_diagram(struct canvas *s, const struct qkv_structure *m);

__attribute__((format(printf, 2, 3))) static const char *say(char out[96], const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(out, 96, format, list);
    va_end(list);
    return out;
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

static void begin(struct canvas *s, double width, const char *title, const char *sentence)
{
    canvas_new(s, fmax(420, width + 2 * DIAGRAM_MARGIN), title, sentence);
}

// ---- scaled dot-product attention --------------------------------------------------------------
static const char *mask_of(const struct qkv_structure *m)
{
    if (m->kind == QKV_KIND_DECODER)
        return m->windows ? "keys after the query; in some layers keys outside a window"
                          : "keys after the query get weight 0";
    if (m->kind == QKV_KIND_ENCODER_DECODER)
        return "padding; in the decoder also keys after the query";
    return m->windows ? "padding; in some layers keys outside a window" : "padding gets weight 0";
}

static void add_scaled(struct diagram_column *c, const struct qkv_structure *m)
{
    char text[96];
    diagram_text(c, say(text, "queries q and keys k, %" PRId64 " numbers per head", m->key_width));
    diagram_box(c, DIAGRAM_ATTENTION, "Multiply: q · k", "one score per query and key");
    if (fabs(m->scale * sqrt((double)m->key_width) - 1) < 1e-6)
        say(text, "÷ √d_k = √%" PRId64 " = %.4g", m->key_width, sqrt((double)m->key_width));
    else
        say(text, "× %.4g", m->scale);
    diagram_box(c, DIAGRAM_PLAIN, "Scale", text);
    if (strcmp(m->position, "relative") == 0)
        diagram_box(c, DIAGRAM_PLAIN, "Add bias", "by the distance of query and key");
    if (m->softcap > 0)
        diagram_box(c, DIAGRAM_PLAIN, "Soft cap",
                    say(text, "%.4g tanh(score / %.4g)", m->softcap, m->softcap));
    diagram_box(c, DIAGRAM_PLAIN, "Mask", mask_of(m));
    diagram_box(c, DIAGRAM_NORM, "Softmax", "weights of each query sum to 1");
    diagram_box(c, DIAGRAM_ATTENTION, "Multiply: weights · v",
                say(text, "values v, %" PRId64 " numbers per head", m->value_width));
    diagram_text(c, say(text, "output of the head, %" PRId64 " numbers per query", m->value_width));
}

static void draw_column(struct canvas *s, struct diagram_column *c, const char *title,
                        const char *sentence)
{
    c->s = s;
    diagram_measure(c);
    begin(s, diagram_width(c), title, sentence);
    const double bottom = canvas_head(s, DIAGRAM_MARGIN) + 8 + diagram_height(c);
    diagram_place(c, s->width / 2, bottom);
    diagram_draw(c);
    s->height = bottom + DIAGRAM_MARGIN;
}

// Adds attention before anything is added to it, X X^T X: neither projections nor scale, mask or
// softmax.
static void add_bare(struct diagram_column *c, const struct qkv_structure *m)
{
    char text[96];
    diagram_text(c, say(text, "tokens x, %" PRId64 " numbers each", m->width));
    diagram_box(c, DIAGRAM_ATTENTION, "Multiply: x · x", "one score per pair of tokens");
    diagram_box(c, DIAGRAM_ATTENTION, "Multiply: scores · x", "the sum of all tokens, weighted");
    diagram_text(c, say(text, "output, %" PRId64 " numbers per token", m->width));
}

static void draw_scaled(struct canvas *s, const struct qkv_structure *m)
{
    struct diagram_column c = { .s = s, .side = -1 };
    add_scaled(&c, m);
    draw_column(s, &c, "What does a head compute?",
                "Scaled dot-product attention: softmax(q · k × scale + mask) v.");
}

// ---- multi-head attention ----------------------------------------------------------------------
// Draws a box with two copies above it, for the heads.
static void draw_copies(struct canvas *s, double x, double y, double w, double h, const char *title,
                        const char *more)
{
    for (int k = 2; k >= 0; k--)
        diagram_draw_box(s, x + 6 * k, y - 6 * k, w, h, DIAGRAM_ATTENTION, k ? "" : title,
                         k ? "" : more);
}

static void draw_heads(struct canvas *s, const struct qkv_structure *m)
{
    enum { TALL = 46, STEP = 84 };
    static const char *const input[3] = { "queries from", "keys from", "values from" };
    static const char letter[] = "QKV";
    char title[3][96], more[3][96], head[96], sum[96], out[96];
    double wide = 0;
    for (int i = 0; i < 3; i++) {
        const int64_t heads = i ? m->kv_heads : m->heads,
                      each = i < 2 ? m->key_width : m->value_width;
        say(title[i], "Linear W_%c", letter[i]);
        say(more[i], "%" PRId64 " → %" PRId64 " × %" PRId64, m->width, heads, each);
        wide = fmax(wide, fmax(diagram_box_width(s, title[i], more[i]),
                               diagram_box_width(s, input[i], "the stream")));
    }
    say(head, "%" PRId64 " head%s%s%s", m->heads, plural(m->heads), m->heads == 1 ? "" : " at once",
        m->norm_whole   ? ", with one norm of all q and one of all k"
        : m->norm_heads ? ", with a norm of q and k"
                        : "");
    say(sum, "%" PRId64 " × %" PRId64 " = %" PRId64 " numbers per query", m->heads, m->value_width,
        m->heads * m->value_width);
    say(out, "%" PRId64 " → %" PRId64, m->heads * m->value_width, m->width);
    char sentence[300];
    snprintf(sentence, sizeof sentence,
             m->heads == 1 ? "%" PRId64
                             " head attends with its own projections%s; W_O mixes its output."
                           : "Each of %" PRId64
                             " heads attends with its own projections%s; W_O mixes their outputs.",
             m->heads, m->kv_heads < m->heads ? ", and several heads share keys and values" : "");
    begin(s, 3 * wide + 48, "How do the heads of a layer work together?", sentence);
    const double left = (s->width - 3 * wide - 48) / 2, all = 3 * wide + 48,
                 top = canvas_head(s, DIAGRAM_MARGIN) + 8;
    const double y[5] = { top + 24, top + 24 + STEP, top + 24 + 2 * STEP, top + 36 + 3 * STEP,
                          top + 36 + 4 * STEP };
    const double middle = s->width / 2;
    canvas_format(s, middle, top + 8, 13, CANVAS_MIDDLE, PALETTE_TEXT,
                  "output, %" PRId64 " numbers per token", m->width);
    diagram_draw_box(s, left, y[0], all, TALL, DIAGRAM_PLAIN, "Linear W_O", out);
    diagram_draw_box(s, left, y[1], all, TALL, DIAGRAM_NORM, "Concatenate", sum);
    draw_copies(s, left, y[2], all - 12, TALL, "Scaled dot-product attention", head);
    const double up[][4] = { { middle, y[0], middle, top + 14 },
                             { middle, y[1], middle, y[0] + TALL },
                             { middle, y[2] - 12, middle, y[1] + TALL } };
    for (int i = 0; i < 3; i++) diagram_arrow(s, up[i], 2);
    for (int i = 0; i < 3; i++) {
        const double x = left + (double)i * (wide + 24), mid = x + wide / 2;
        const double in[] = { mid, y[3], mid, y[2] + TALL },
                     from[] = { mid, y[4] - 24, mid, y[3] + TALL };
        diagram_draw_box(s, x, y[3], wide, TALL, DIAGRAM_PLAIN, title[i], more[i]);
        diagram_arrow(s, in, 2);
        diagram_arrow(s, from, 2);
        canvas_format(s, mid, y[4] - 8, 13, CANVAS_MIDDLE, PALETTE_TEXT, "%s", input[i]);
        canvas_format(s, mid, y[4] + 9, 13, CANVAS_MIDDLE, PALETTE_TEXT, "%s", "the stream");
    }
    s->height = y[4] + 9 + DIAGRAM_MARGIN;
}

// ---- layers -------------------------------------------------------------------------------------
// Adds a sublayer with its norms and its residual connection. note: text about the norm before it,
// or NULL. Returns the index of its box.
static int add_sublayer(struct diagram_column *c, const struct qkv_structure *m, const char *note,
                        int fill, const char *title, const char *more)
{
    const int first = c->items;
    if (m->norm_before) diagram_box(c, DIAGRAM_NORM, m->norm, note);
    const int box = diagram_box(c, fill, title, more);
    if (m->norm_inside) diagram_box(c, DIAGRAM_NORM, m->norm, NULL);
    diagram_sum(c, first);
    if (m->norm_after) diagram_box(c, DIAGRAM_NORM, m->norm, NULL);
    return box;
}

static const char *describe_forward(char out[96], const struct qkv_structure *m)
{
    return say(out, "%" PRId64 " → %" PRId64 " → %" PRId64 ", %s%s", m->width, m->inner, m->width,
               m->activation, m->gated ? ", gated" : "");
}

// Adds one layer. Returns the index of the box of cross-attention; -1: the layer has none.
static int add_layer(struct diagram_column *c, const struct qkv_structure *m, bool decoder)
{
    char text[96];
    int cross = -1;
    say(text, "%" PRId64 " head%s of %" PRId64 "%s", m->heads, plural(m->heads), m->key_width,
        strcmp(m->position, "rotary") ? "" : ", q and k rotated");
    add_sublayer(c, m, m->first_norm_missing ? "in all layers but layer 0" : NULL,
                 DIAGRAM_ATTENTION,
                 decoder ? "Masked multi-head self-attention" : "Multi-head self-attention", text);
    if (decoder && m->kind == QKV_KIND_ENCODER_DECODER)
        cross = add_sublayer(c, m, NULL, DIAGRAM_ATTENTION, "Multi-head cross-attention",
                             "keys and values from the encoder");
    if (!m->feed_forward_once)
        add_sublayer(c, m, NULL, DIAGRAM_FORWARD, "Feed-forward", describe_forward(text, m));
    return cross;
}

static void add_input(struct diagram_column *c, const struct qkv_structure *m, int64_t vocab,
                      const char *text)
{
    char line[96];
    diagram_text(c, text);
    diagram_box(c, DIAGRAM_PLAIN, "Token embedding",
                say(line, "%" PRId64 " tokens → %" PRId64, vocab, m->embed_width));
    if (!strcmp(m->position, "learned") || !strcmp(m->position, "sinusoidal"))
        diagram_box(c, DIAGRAM_PLAIN, "Add positions",
                    say(line, "%s, %" PRId64 " at most", m->position, m->positions));
    if (m->embedding_norm) diagram_box(c, DIAGRAM_NORM, m->norm, NULL);
    if (m->embed_width != m->width)
        diagram_box(c, DIAGRAM_PLAIN, "Linear",
                    say(line, "%" PRId64 " → %" PRId64, m->embed_width, m->width));
}

static void add_output(struct diagram_column *c, const struct qkv_structure *m, int64_t vocab,
                       bool last)
{
    static const char once[] = "Feed-forward, once";
    char line[96];
    if (m->feed_forward_bare)
        diagram_box(c, DIAGRAM_FORWARD, once, describe_forward(line, m));
    else if (m->feed_forward_once)
        add_sublayer(c, m, NULL, DIAGRAM_FORWARD, once, describe_forward(line, m));
    if (m->final_norm) diagram_box(c, DIAGRAM_NORM, m->norm, NULL);
    if (!last) return;
    if (m->labels) {
        diagram_box(c, DIAGRAM_PLAIN, "Linear",
                    say(line, "%" PRId64 " → %" PRId64, m->width, m->labels));
        diagram_text(c, "scores of the labels");
    } else if (m->kind == QKV_KIND_ENCODER) {
        diagram_text(c, say(line, "one vector of %" PRId64 " numbers per token", m->width));
    } else {
        diagram_box(c, DIAGRAM_PLAIN, "Linear",
                    say(line, "%" PRId64 " → %" PRId64, m->width, vocab));
        if (m->logit_softcap > 0)
            diagram_box(c, DIAGRAM_PLAIN, "Soft cap",
                        say(line, "%.4g tanh(logit / %.4g)", m->logit_softcap, m->logit_softcap));
        diagram_box(c, DIAGRAM_NORM, "Softmax", NULL);
        diagram_text(c, "probabilities of the next token");
    }
}

// Draws a column, or two: an encoder, and a decoder whose box `cross` receives its output.
static void draw_columns(struct canvas *s, struct diagram_column *c, int n, int cross,
                         const char *title, const char *sentence)
{
    double width = 0, tall = 0;
    for (int i = 0; i < n; i++) {
        diagram_measure(&c[i]);
        width += diagram_width(&c[i]) + (i ? BETWEEN : 0);
        tall = fmax(tall, diagram_height(&c[i]));
    }
    begin(s, width, title, sentence);
    const double bottom = canvas_head(s, DIAGRAM_MARGIN) + 40 + tall;
    double x = (s->width - width) / 2;
    for (int i = 0; i < n; i++) {
        diagram_place(&c[i], x + diagram_width(&c[i]) / 2, bottom);
        diagram_draw(&c[i]);
        x += diagram_width(&c[i]) + BETWEEN;
    }
    if (n == 2 && cross >= 0) {
        const struct diagram_item *to = &c[1].item[cross];
        const double up = c[0].top - 16,
                     between = c[0].middle + diagram_width(&c[0]) / 2 + BETWEEN / 2.;
        const double y = to->y + to->tall / 2;
        const double way[] = { c[0].middle,
                               c[0].top,
                               c[0].middle,
                               up,
                               between,
                               up,
                               between,
                               y,
                               c[1].middle - c[1].wide / 2,
                               y };
        diagram_arrow(s, way, 5);
    }
    s->height = bottom + DIAGRAM_MARGIN;
}

static void describe(char out[300], const struct qkv_structure *m)
{
    const char *place = m->norm_before && m->norm_after ? "before each sublayer and after each sum"
                        : m->norm_before && m->norm_inside ? "before and after each sublayer"
                        : m->norm_before                   ? "before each sublayer (pre-norm)"
                        : m->norm_inside                   ? "after each sublayer"
                                                           : "after each sum (post-norm)";
    snprintf(out, 300,
             "A stream of %" PRId64 " numbers per token; each sublayer adds to it. %s %s.",
             m->width, m->norm[0] == 'l' ? "Layer norm" : "RMS norm", place);
}

static void draw_bare(struct canvas *s, const struct qkv_structure *m)
{
    struct diagram_column c[2] = { { .s = s, .side = -1 }, { .s = s, .side = 1 } };
    char text[96];
    add_bare(&c[0], m);
    diagram_text(&c[1], say(text, "tokens x, %" PRId64 " numbers each", m->width));
    diagram_box(&c[1], DIAGRAM_PLAIN, "Project", "learned matrices W_Q, W_K and W_V");
    add_scaled(&c[1], m);
    draw_columns(s, c, 2, -1, "What does a head add to X Xᵀ X?",
                 "Left: bare attention. Right: a head, with projections to q, k and v, a scale, "
                 "a mask and a softmax.");
}

static void draw_layer(struct canvas *s, const struct qkv_structure *m)
{
    struct diagram_column c[2] = { { .s = s, .side = -1 }, { .s = s, .side = 1 } };
    char sentence[300];
    const bool two = m->kind == QKV_KIND_ENCODER_DECODER;
    for (int i = 0; i < 1 + two; i++) {
        const bool decoder = i || m->kind == QKV_KIND_DECODER;
        diagram_text(&c[i], two ? i ? "decoder stream" : "encoder stream" : "stream");
        add_layer(&c[i], m, decoder);
        diagram_text(&c[i], two ? i ? "to the next decoder layer" : "to the next encoder layer"
                                : "to the next layer");
    }
    describe(sentence, m);
    draw_columns(s, c, 1 + two, -1, "What does one layer compute?", sentence);
}

static void draw_model(struct canvas *s, const struct qkv_structure *m)
{
    struct diagram_column c[2] = { { .s = s, .side = -1 }, { .s = s, .side = 1 } };
    char sentence[300];
    const bool two = m->kind == QKV_KIND_ENCODER_DECODER;
    int cross = -1;
    for (int i = 0; i < 1 + two; i++) {
        const bool decoder = i || m->kind == QKV_KIND_DECODER;
        const int64_t vocab = i ? m->decoder_vocab : m->vocab;
        add_input(&c[i], m, vocab,
                  two ? i ? "tokens written so far" : "tokens of the source" : "tokens");
        c[i].first = c[i].items;
        cross = add_layer(&c[i], m, decoder);
        c[i].last = c[i].items - 1;
        snprintf(c[i].group, sizeof c[i].group, "× %" PRId64, i ? m->decoder_layers : m->layers);
        add_output(&c[i], m, vocab, i == two);
    }
    describe(sentence, m);
    draw_columns(s, c, 1 + two, cross, "What is a Transformer made of?", sentence);
}

// ---- the file -----------------------------------------------------------------------------------
static const struct {
    const char *name;
    draw_diagram *draw;
} diagrams[] = { { "scaled", draw_scaled },
                 { "heads", draw_heads },
                 { "layer", draw_layer },
                 { "model", draw_model },
                 { "bare", draw_bare } };
enum { DIAGRAMS = sizeof diagrams / sizeof *diagrams };

const char *qkv_diagram_name(int i)
{
    return i >= 0 && i < DIAGRAMS ? diagrams[i].name : NULL;
}

qkv_status qkv_diagram_file(const struct qkv_structure *m, const char *name, const char *path,
                            bool force, enum qkv_view_theme theme, qkv_error *err)
{
    int i = 0;
    if (!m || !name || !path)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_diagram_file: expected a structure, a name and a path, found NULL");
    while (i < DIAGRAMS && strcmp(diagrams[i].name, name) != 0) i++;
    if (i == DIAGRAMS)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "unknown diagram, expected scaled, heads, layer, model or bare, found "
                        "'%s'",
                        name);
    if (!canvas_is_picture_name(path))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "the diagram has an unknown format, expected a name that ends with .svg or "
                        ".png, found '%s'",
                        path);
    struct canvas s;
    canvas_init(&s, path);
    diagrams[i].draw(&s, m);
    const qkv_status status =
        canvas_failed(&s) ? qkv_fail_memory(err, path) : canvas_file(&s, path, force, theme, err);
    canvas_free(&s);
    return status;
}
