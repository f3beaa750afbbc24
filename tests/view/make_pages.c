// SPDX-License-Identifier: MIT
// make_pages.c: makes pages for browser.py, and for each a .json with the expected contents.
//   make_pages FOLDER
#define MAKER "make_pages"
#include "view/data/residual.h"
#include "view/made_output.h"
#include "view/maker.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MOST = 1000 };
struct spec {
    const char *name;
    int64_t T, L, H, G, E;
    bool causal, pair, hostile, broken_rows;
    int64_t budget, given;
    bool vectors;    // values and input rows too
    bool odd;        // a soft cap, biases and a window
    int64_t against; // tokens of the other view; T: of the same text, -1: the view itself
    int64_t frames;  // of a run
    int output;      // 1 + the kind of the model's output; 0: none
};
static const struct spec specs[] = {
    { "pair", 15, 3, 12, 12, 16, .pair = true, .vectors = true,
      .output = 1 + QKV_VIEW_OUTPUT_SHARES },
    { "one", 1, 1, 2, 2, 4, .pair = false },
    { "two", 2, 2, 2, 1, 4, .pair = false, .output = 1 + QKV_VIEW_OUTPUT_LABELS },
    { "causal", 30, 2, 8, 2, 16, .causal = true, .given = 20, .vectors = true, .output = 1 },
    { "many", 40, 26, 20, 5, 8, .pair = false },
    { "long", 512, 6, 12, 12, 32, .pair = true },
    { "coarse", 400, 4, 4, 2, 32, .causal = true, .budget = 800000 },
    { "thousand", 1000, 1, 3, 3, 16, .pair = false },
    { "odd", 20, 2, 4, 2, 16, .odd = true, .vectors = true,
      .output = 1 + QKV_VIEW_OUTPUT_TOKEN_LABELS },
    { "hostile", 16, 1, 3, 3, 8, .hostile = true },
    { "broken", 12, 2, 3, 3, 8, .broken_rows = true },
    { "against", 15, 2, 4, 4, 16, .pair = true, .against = 16 },
    { "same", 12, 2, 3, 3, 8, .against = -1 },
    { "run", 14, 2, 4, 4, 16, .frames = 4 },
};
static const struct {
    const char *text;
    size_t bytes;
} hostile[] = { { "</script><script>window.bad=1</script>", 38 },
                { "<img src=x onerror=window.bad=1>", 32 },
                { "a\0b", 3 },
                { "\xff\xfe", 2 },
                { "\xe2\x80\xae"
                  "txet",
                  7 },
                { "\n\t", 2 },
                { "\xd8\xb3\xd9\x84\xd8\xa7\xd9\x85", 8 },
                { "\xe6\x97\xa5\xe6\x9c\xac", 6 },
                { "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb", 11 },
                { "${1+1}`{{about}}", 16 },
                { "&lt;b&gt;", 9 } };

static void make_tokens(struct qkv_view_token *token, char (*raw)[24], const struct spec *p)
{
    static const char *const words[] = { "time",  "flies",  "like", "an", "arrow",
                                         "fruit", "banana", "it",   "was" };
    for (int64_t i = 0; i < p->T; i++) {
        const bool special =
            p->T > 3 && !p->causal && (i == 0 || i == p->T - 1 || (p->pair && i == p->T / 2));
        snprintf(raw[i], sizeof raw[i], "%s%s",
                 special      ? i ? "[SEP]" : "[CLS]"
                 : i % 5 == 4 ? "##"
                              : "",
                 special ? "" : words[i * 7 % 9]);
        token[i] = (struct qkv_view_token){ .raw = raw[i],
                                            .part = p->pair && i > p->T / 2,
                                            .special = special };
        if (special) continue;
        token[i].text = words[i * 7 % 9];
        token[i].text_bytes = strlen(token[i].text);
        if (p->hostile && (size_t)i <= sizeof hostile / sizeof *hostile)
            token[i].text = hostile[i - 1].text, token[i].text_bytes = hostile[i - 1].bytes;
    }
}

// The members of odd pages that scores depend on, besides q.k.
enum { REACH = 4, LEFT = 9, RIGHT = 6 };
static const float cap = 3;
static float relative[32 * (2 * REACH + 1)], alibi[32];
static void make_odd(int64_t H)
{
    for (int64_t h = 0; h < H; h++) {
        alibi[h] = .05f * (float)(h + 1);
        for (int64_t i = 0; i < 2 * REACH + 1; i++)
            relative[h * (2 * REACH + 1) + i] = (float)uniform();
    }
}
static double odd_score(double s, int64_t h, int64_t i, int64_t j)
{
    const int64_t d = j - i < -REACH ? -REACH : j - i > REACH ? REACH : j - i;
    return (double)cap * tanh(s / (double)cap) + (double)relative[h * (2 * REACH + 1) + REACH + d] -
           (double)alibi[h] * (double)llabs((long long)(i - j));
}

// Heads that attend to the token before, the token after, many tokens, few tokens: q follows k of
// another token.
static void make_layer(float *q, float *k, float *lse, const struct spec *p, float scale,
                       int64_t layer)
{
    const int64_t T = p->T, H = p->H, G = p->G, E = p->E;
    for (int64_t i = 0; i < T * G * E; i++) k[i] = (float)(2 * uniform());
    for (int64_t t = 0; t < T; t++)
        for (int64_t h = 0; h < H; h++) {
            const int64_t step = h % 4 == 0 ? -1 : h % 4 == 1 ? 1 : h % 4 == 2 ? 5 + layer : 0;
            const int64_t to = (t + step + T) % T;
            for (int64_t e = 0; e < E; e++)
                q[(t * H + h) * E + e] =
                    (float)uniform() +
                    (step ? 2.5f * k[(to * G + h / (H / G)) * E + e] / sqrtf((float)E) : 0) * 2;
        }
    for (int64_t h = 0; h < H; h++)
        for (int64_t i = 0; i < T; i++) {
            double s[MOST], top = -1e300, sum = 0;
            const int64_t from = p->odd && i > LEFT ? i - LEFT : 0;
            const int64_t n = p->causal ? i + 1 : p->odd && i + RIGHT < T ? i + RIGHT + 1 : T;
            for (int64_t j = from; j < n; j++) {
                s[j] = 0;
                for (int64_t e = 0; e < E; e++)
                    s[j] += (double)scale * (double)q[(i * H + h) * E + e] *
                            (double)k[(j * G + h / (H / G)) * E + e];
                if (p->odd) s[j] = odd_score(s[j], h, i, j);
                top = fmax(top, s[j]);
            }
            for (int64_t j = from; j < n; j++) sum += exp(s[j] - top);
            lse[h * T + i] = (float)(top + log(sum));
        }
    if (p->broken_rows && layer == 0) {
        lse[3] = -INFINITY;
        lse[T + 4] = NAN;
    }
}

// [token, layer, sublayer, before, added, cosine, after] of every sublayer.
static void write_residual(FILE *f, const struct spec *p, const qkv_view *v)
{
    const char *comma = ",\"residual\":[";
    for (int64_t i = 0; i < p->T; i++)
        for (int64_t l = 0; l < p->L; l++) {
            const struct view_residual r = view_residual_layer(v->stack, l);
            for (int k = 0; k < VIEW_SUBLAYERS; k++) {
                if (!r.sublayer[k]) continue;
                const struct view_added a = view_residual_token(&r, k, i);
                fprintf(f, "%s[%" PRId64 ",%" PRId64 ",\"%s\",%.9g,%.9g,%.9g,%.9g]", comma, i, l,
                        view_sublayer_names[k], a.before, a.added, a.cosine, a.after);
                comma = ",\n";
            }
        }
    fprintf(f, "]");
}

static void write_json(const char *path, const struct spec *p, const qkv_view *v,
                       const char *sentence, const struct qkv_view_report *r)
{
    FILE *f = fopen(path, "w");
    if (!f) exit(6);
    float row[MOST];
    fprintf(f, "{\"kind\":\"%s\",\"error\":%.9g,\"bytes\":%" PRId64 ",\"sentence\":\"", r->kind,
            r->error, r->bytes);
    for (const char *c = sentence; *c; c++) {
        if (*c == '"' || *c == '\\') fputc('\\', f);
        fputc(*c, f);
    }
    fprintf(f, "\",\"rows\":[");
    const char *comma = "";
    for (int64_t l = 0; l<p->L; l += p->L> 6 ? 9 : 1)
        for (int64_t h = 0; h<p->H; h += p->H> 4 ? 3 : 1)
            for (int64_t i = 0; i<p->T; i += p->T> 40 ? 101 : 1) {
                qkv_view_row(v, row, 0, l, h, i);
                fprintf(f, "%s[%" PRId64 ",%" PRId64 ",%" PRId64 ",[", comma, l, h, i);
                for (int64_t j = 0; j < p->T; j++)
                    fprintf(f, isfinite(row[j]) ? "%s%.9g" : "%snull", j ? "," : "",
                            (double)row[j]);
                fprintf(f, "]]");
                comma = ",\n";
            }
    fprintf(f, "]");
    if (p->vectors) write_residual(f, p, v);
    fprintf(f, "}\n");
    fclose(f);
}

// A view and its borrowed arrays.
struct made {
    struct qkv_view_token token[MOST];
    char raw[MOST][24];
    struct qkv_view_text text;
    struct qkv_view_stack stack;
    qkv_view *view;
};

static qkv_status make_view(struct made *m, const struct spec *p, uint64_t from, qkv_error *err)
{
    enum { INPUT = 24 };
    static float q[MOST * 512], k[MOST * 512], v[MOST * 512], x[MOST * INPUT], lse[MOST * 32];
    const float scale = 1 / sqrtf((float)p->E) * 2;
    m->text = (struct qkv_view_text){ .token = m->token, .tokens = p->T, .given = p->given };
    m->stack =
        (struct qkv_view_stack){ "attention", 0, 0, p->L, p->H, p->G, p->E, .causal = p->causal };
    m->stack.width = p->vectors ? INPUT : 0;
    const struct qkv_view_shape shape = { "made-up", &m->text, 1, &m->stack, 1 };
    seed = from;
    make_tokens(m->token, m->raw, p);
    if (p->odd) make_odd(p->H);
    qkv_status status = qkv_view_new(&m->view, &shape, err);
    for (int64_t l = 0; l < p->L && !status; l++) {
        make_layer(q, k, lse, p, scale, l);
        struct qkv_view_layer_data seen = { .q = q, .k = k, .lse = lse, .scale = scale };
        if (p->odd) {
            seen.softcap = cap;
            seen.relative = relative;
            seen.alibi = alibi;
            seen.reach = REACH;
            seen.window = true;
            seen.left = LEFT;
            seen.right = RIGHT;
        }
        if (p->vectors) {
            for (int64_t i = 0; i < p->T * p->G * p->E; i++) v[i] = (float)uniform();
            for (int64_t i = 0; i < p->T * INPUT; i++) x[i] = (float)(2 * uniform());
            seen.v = v;
            seen.x = x;
        }
        status = qkv_view_layer(m->view, 0, l, &seen, err);
    }
    for (int64_t l = 0; l < p->L && p->vectors && !status; l++) {
        const float *const after[3] = { q, p->odd ? k : NULL, v };
        for (int64_t i = 0; i < p->T * INPUT; i++) {
            x[i] = (float)(uniform() * (double)(3 + l));
            q[i] = x[i] + (float)uniform();
            k[i] = q[i] - x[i] / 4;
            v[i] = k[i] + (float)(2 * uniform());
        }
        status = qkv_view_residual(m->view, 0, l, x, after, err);
    }
    return status;
}

// The other view, or the frames of a run, of which the last is the view itself.
static qkv_status make_more(struct made *m, const struct spec *p, uint64_t from, qkv_error *err)
{
    static const int64_t step[] = { 0, 100, 300, 1000 };
    static const double loss[] = { 10.82, 2.1, NAN, 1.4 };
    struct qkv_view_frame frame[4];
    qkv_status status = QKV_OK;
    if (p->against < 0) return qkv_view_compare(m->view, m->view, err);
    if (p->against) {
        struct spec other = *p;
        other.T = p->against;
        status = make_view(m + 1, &other, from + 1, err);
        return status ? status : qkv_view_compare(m->view, m[1].view, err);
    }
    for (int64_t i = 0; i < p->frames && !status; i++) {
        status = make_view(m + 1 + i, p, i == p->frames - 1 ? from : from + 9 + (uint64_t)i, err);
        frame[i] = (struct qkv_view_frame){ step[i], loss[i], m[1 + i].view };
    }
    return status || !p->frames ? status : qkv_view_training(m->view, frame, p->frames, err);
}

static void make_page(const char *folder, const struct spec *p)
{
    enum { PICTURES = 5 };
    struct made *m = calloc(PICTURES, sizeof *m);
    const struct qkv_view_options o = { .budget = p->budget };
    const uint64_t from = (uint64_t)p->T + 1;
    struct qkv_view_report r;
    qkv_error err = { 0 };
    char path[500], sentence[2000];
    if (!m) exit(5);
    qkv_status status = make_view(m, p, from, &err);
    if (!status) status = make_more(m, p, from, &err);
    if (!status && p->output)
        status = give_output(m->view, p->T, p->L, (enum qkv_view_output_kind)(p->output - 1));
    snprintf(path, sizeof path, "%s/%s.html", folder, p->name);
    if (!status) status = qkv_view_html(m->view, path, true, &o, &r, &err);
    if (status) {
        fprintf(stderr, "make_pages: %s: %s\n", p->name,
                qkv_error_line(sentence, sizeof sentence, &err));
        exit((int)status);
    }
    snprintf(path, sizeof path, "%s/%s.json", folder, p->name);
    write_json(path, p, m->view, qkv_view_sentence(m->view, &o, sentence, sizeof sentence), &r);
    for (int i = 0; i < PICTURES; i++) qkv_view_free(m[i].view);
    free(m);
}

// Three stacks as in translation: head h of the cross-attention attends to the aligned word with
// weight .1 + .2 h, the rest uniform.
static void make_stacks(const char *folder)
{
    enum { READ = 6, WRITTEN = 5, LAYERS = 2, HEADS = 4, STACKS = 3 };
    static const char *const words[][READ] = { { "le", "chat", "noir", "dort", ".", "</s>" },
                                               { "the", "black", "cat", "sleep", "##s" } };
    static const int word[WRITTEN] = { 0, 2, 1, 3, 3 };
    struct qkv_view_token token[2][READ] = { 0 };
    struct qkv_view_text text[2] = { { .token = token[0], .tokens = READ },
                                     { .token = token[1], .tokens = WRITTEN } };
    const struct qkv_view_stack stack[STACKS] = {
        { "encoder", 0, 0, LAYERS, HEADS, .causal = false },
        { "decoder", 1, 1, LAYERS, HEADS, .causal = true },
        { "cross", 1, 0, LAYERS, HEADS, .causal = false },
    };
    const struct qkv_view_shape shape = { "translator", text, 2, stack, STACKS };
    static float w[HEADS * READ * READ];
    qkv_error err = { 0 };
    qkv_view *v = NULL;
    char path[500];
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < text[t].tokens; i++) {
            const char *s = words[t][i];
            token[t][i] = (struct qkv_view_token){ .raw = s, .special = *s == '<' };
            token[t][i].text = s + (*s == '#' ? 2 : 0);
            token[t][i].text_bytes = strlen(token[t][i].text);
        }
    qkv_status status = qkv_view_new(&v, &shape, &err);
    for (int64_t s = 0; s < STACKS; s++)
        for (int64_t l = 0; l < LAYERS && !status; l++) {
            const int64_t T = text[stack[s].rows].tokens, S = text[stack[s].keys].tokens;
            for (int64_t i = 0; i < HEADS * T * S; i++) {
                const int64_t h = i / (T * S), row = i / S % T, key = i % S;
                const int64_t seen = stack[s].causal ? row + 1 : S;
                const float most = .1f + .2f * (float)h;
                const int64_t to = s == 2 ? word[row] : row - (row > 0 && l);
                w[i] = key >= seen ? 0
                       : seen == 1 ? 1
                       : key == to ? most
                                   : (1 - most) / (float)(seen - 1);
            }
            const struct qkv_view_layer_data of = { .weights = w };
            status = qkv_view_layer(v, s, l, &of, &err);
        }
    snprintf(path, sizeof path, "%s/stacks.html", folder);
    if (!status) status = qkv_view_html(v, path, true, NULL, NULL, &err);
    qkv_view_free(v);
    if (!status) return;
    fprintf(stderr, "make_pages: stacks: %s\n", qkv_error_line(path, sizeof path, &err));
    exit((int)status);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("usage: make_pages FOLDER\n", stderr);
        return 2;
    }
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) make_page(argv[1], &specs[i]);
    make_stacks(argv[1]);
    return 0;
}
