// SPDX-License-Identifier: MIT
// made.h: makes attention for the tests of module view, and reads written pages.
//
// The reader is independent of the library: it reads only the HTML, with zlib and jansson, as
// docs/formats.md defines the page.
#ifndef QKV_VIEW_MADE_H
#define QKV_VIEW_MADE_H
#include "check.h"
#include "view/page/page_internal.h"
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

static inline void *zeros(int64_t count, size_t size)
{
    void *p = count > 0 && count < INT32_MAX ? calloc((size_t)count, size) : NULL;
    if (!p) fail_msg("no memory for %d items", (int)count);
    return p;
}

// ---- made-up attention --------------------------------------------------------------------------
struct made {
    struct qkv_view_shape shape; // of the text and the stack that follow
    struct qkv_view_text text;
    struct qkv_view_stack stack;
    struct qkv_view_token token[600];
    char raw[600][24];
    float *q, *k, *lse;
    double *weights; // [L][H][T][T] the true weights, in double
};

// Makes focused and diffuse heads, some causal; T tokens in two parts with special tokens.
static inline void make(struct made *m, int64_t T, int64_t L, int64_t H, int64_t G, int64_t E,
                        bool causal)
{
    *m = (struct made){
        .shape = { "made-up <model>", &m->text, 1, &m->stack, 1 },
        .text = { .token = m->token, .tokens = T },
        .stack = { "attention", 0, 0, L, H, G, E, .causal = causal },
    };
    check_seed = (uint64_t)(T * 1000 + H);
    for (int64_t i = 0; i < T; i++) {
        snprintf(m->raw[i], sizeof m->raw[i], "w%d", (int)(i * 7 % 40));
        m->token[i] = (struct qkv_view_token){
            .raw = m->raw[i], .text = m->raw[i], .text_bytes = strlen(m->raw[i]), .part = i > T / 2
        };
        if (T > 3 && (i == 0 || i == T / 2 || i == T - 1)) {
            m->token[i].special = true;
            m->token[i].raw = i ? "[SEP]" : "[CLS]";
            m->token[i].text_bytes = 0;
        }
    }
    m->q = zeros(L * T * H * E, sizeof(float));
    m->k = zeros(L * T * G * E, sizeof(float));
    m->lse = zeros(L * H * T, sizeof(float));
    m->weights = zeros(L * H * T * T, sizeof(double));
    for (int64_t i = 0; i < L * T * H * E; i++) m->q[i] = (float)(check_gauss() * (1 + i / E % H));
    for (int64_t i = 0; i < L * T * G * E; i++)
        m->k[i] = (float)(check_gauss() + (i % E == 1 ? 5 : 0));
    for (int64_t l = 0; l < L; l++)
        for (int64_t h = 0; h < H; h++)
            for (int64_t i = 0; i < T; i++) {
                const float *q = m->q + ((l * T + i) * H + h) * E;
                double *w = m->weights + ((l * H + h) * T + i) * T, sum = 0, top = -1e300;
                const int64_t n = causal ? i + 1 : T;
                for (int64_t j = 0; j < n; j++) {
                    const float *k = m->k + ((l * T + j) * G + h / (H / G)) * E;
                    w[j] = 0;
                    for (int64_t e = 0; e < E; e++) w[j] += .25 * (double)q[e] * k[e];
                    if (w[j] > top) top = w[j];
                }
                for (int64_t j = 0; j < n; j++) sum += w[j] = exp(w[j] - top);
                for (int64_t j = 0; j < n; j++) w[j] /= sum;
                m->lse[(l * H + h) * T + i] = (float)(top + log(sum));
            }
}
static inline void unmake(struct made *m)
{
    free(m->q);
    free(m->k);
    free(m->lse);
    free(m->weights);
}
static inline qkv_status fill(qkv_view **v, const struct made *m, qkv_error *err)
{
    const struct qkv_view_stack *s = &m->stack;
    const int64_t T = m->text.tokens;
    qkv_status status = qkv_view_new(v, &m->shape, err);
    for (int64_t l = 0; l < s->layers && !status; l++) {
        const struct qkv_view_layer_data seen = { .q = m->q + l * T * s->heads * s->head_width,
                                                  .k = m->k + l * T * s->kv_heads * s->head_width,
                                                  .lse = m->lse + l * s->heads * T,
                                                  .scale = .25f };
        status = qkv_view_layer(*v, 0, l, &seen, err);
    }
    return status;
}
static inline qkv_view *view_of(const struct made *m)
{
    qkv_view *v = NULL;
    qkv_error err = { 0 };
    if (fill(&v, m, &err)) fail_msg("%s", err.text);
    return v;
}

// Makes up the stream before layer `layer` (out[0]), after its attention and after its feed-forward
// network, in rows of m->stack.width.
static inline void made_stream(float *out[3], const struct made *m, int64_t layer)
{
    const int64_t n = m->text.tokens * m->stack.width;
    check_seed = 77;
    for (int64_t k = 0; k < 3 + 2 * layer; k++)
        for (int64_t i = 0; i < n; i++) {
            const double added = check_gauss() * (double)(1 + i / m->stack.width % 5);
            if (k <= 2 * layer)
                out[0][i] = (float)((k ? (double)out[0][i] : 0) + added);
            else
                out[k - 2 * layer][i] = (float)((double)out[k - 2 * layer - 1][i] + added);
        }
}
static inline void give_stream(qkv_view *v, const struct made *m)
{
    const int64_t n = m->text.tokens * m->stack.width;
    float *all = zeros(3 * n, sizeof *all), *at[3] = { all, all + n, all + 2 * n };
    const float *const after[3] = { at[1], NULL, at[2] };
    qkv_error err = { 0 };
    for (int64_t l = 0; l < m->stack.layers; l++) {
        made_stream(at, m, l);
        if (qkv_view_residual(v, 0, l, at[0], after, &err)) fail_msg("%s", err.text);
    }
    free(all);
}

// ---- an independent reader ----------------------------------------------------------------------
static inline char *slurp(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("no file %s", path);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    char *text = malloc(*size + 1);
    if (fread(text, 1, *size, f) != *size) fail_msg("cannot read %s", path);
    text[*size] = 0;
    fclose(f);
    return text;
}
static inline char *between(const char *text, const char *open, const char *close)
{
    const char *a = strstr(text, open);
    const char *b = a ? strstr(a + strlen(open), close) : NULL;
    return b ? strndup(a + strlen(open), (size_t)(b - a) - strlen(open)) : NULL;
}
static inline size_t from_base64(uint8_t *out, const char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = 0;
    uint32_t x = 0;
    int bits = 0;
    for (; *text && *text != '='; text++) {
        const char *d = strchr(digits, *text);
        if (!d) return 0;
        x = x << 6 | (uint32_t)(d - digits);
        bits += 6;
        if (bits >= 8) out[n++] = (uint8_t)(x >> (bits -= 8));
    }
    return n;
}

struct page {
    json_t *about, *stack; // stack: the current one, 0 at first
    uint8_t *bytes;
    int64_t size, at, T, S, H, G, E;
    const char *kind;
};
// Selects stack `at` of the page.
static inline void page_stack(struct page *p, int64_t at)
{
    const json_t *texts = json_object_get(p->about, "texts");
    p->at = at;
    p->stack = json_array_get(json_object_get(p->about, "stacks"), (size_t)at);
    const json_t *rows = json_object_get(p->stack, "rows"),
                 *keys = json_object_get(p->stack, "keys");
    const json_t *row_text = json_array_get(texts, (size_t)json_integer_value(rows)),
                 *key_text = json_array_get(texts, (size_t)json_integer_value(keys));
    p->T = (int64_t)json_array_size(json_object_get(row_text, "tokens"));
    p->S = (int64_t)json_array_size(json_object_get(key_text, "tokens"));
    p->H = json_integer_value(json_object_get(p->stack, "heads"));
    p->G = json_integer_value(json_object_get(p->stack, "kv"));
    p->E = json_integer_value(json_object_get(p->stack, "width"));
    p->kind = json_string_value(json_object_get(p->stack, "kind"));
}
static inline void page_close(struct page *p)
{
    json_decref(p->about);
    free(p->bytes);
    *p = (struct page){ 0 };
}
static inline int64_t number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}
// false: the page is damaged.
static inline bool page_open(struct page *p, const char *html)
{
    *p = (struct page){ 0 };
    char *about = between(html, "<script type=\"application/json\" id=\"about\">", "</script>");
    char *packed = between(html, "<script type=\"text/plain\" id=\"packed\">", "</script>");
    bool ok = false;
    if (!about || !packed || !(p->about = json_loads(about, JSON_REJECT_DUPLICATES, NULL)))
        goto done;
    p->size = number(p->about, "bytes");
    page_stack(p, 0);
    uint8_t *raw = malloc(strlen(packed) + 4);
    const size_t n = from_base64(raw, packed);
    p->bytes = malloc((size_t)p->size + 1);
    z_stream z = {
        .next_in = raw, .avail_in = (uInt)n, .next_out = p->bytes, .avail_out = (uInt)p->size + 1
    };
    ok = (int64_t)n == number(p->about, "packed") && inflateInit2(&z, -15) == Z_OK;
    ok = ok && inflate(&z, Z_FINISH) == Z_STREAM_END && (int64_t)z.total_out == p->size;
    inflateEnd(&z);
    free(raw);
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(p->about, "rows"), i, row)
    {
        const int64_t at = json_integer_value(json_array_get(row, 5));
        const int64_t bytes = json_integer_value(json_array_get(row, 6));
        ok = ok && at >= 0 && bytes >= 0 && at + bytes <= p->size &&
             crc32(0, p->bytes + at, (uInt)bytes) ==
                 (uLong)json_integer_value(json_array_get(row, 7));
    }
done:
    free(about);
    free(packed);
    if (!ok) page_close(p);
    return ok;
}
// NULL: the layer has no such array.
static inline const uint8_t *find_array(const struct page *p, const char *name, int64_t layer,
                                        int64_t shape[3])
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(p->about, "rows"), i, row)
    {
        if (strcmp(json_string_value(json_array_get(row, 0)), name) != 0 ||
            json_integer_value(json_array_get(row, 2)) != p->at ||
            (json_integer_value(json_array_get(row, 3)) != layer &&
             json_integer_value(json_array_get(row, 3)) != -1))
            continue;
        for (size_t k = 0; shape && k < 3; k++)
            shape[k] = json_integer_value(json_array_get(json_array_get(row, 4), k));
        return p->bytes + json_integer_value(json_array_get(row, 5));
    }
    return NULL;
}
// Returns the kind of an array of a layer, such as "f32".
static inline const char *array_kind(const struct page *p, const char *name, int64_t layer)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(p->about, "rows"), i,
                       row) if (!strcmp(json_string_value(json_array_get(row, 0)), name) &&
                                json_integer_value(json_array_get(row, 2)) == p->at &&
                                json_integer_value(json_array_get(row, 3)) ==
                                    layer) return json_string_value(json_array_get(row, 1));
    return "";
}
static inline const uint8_t *array(const struct page *p, const char *name, int64_t layer)
{
    const uint8_t *at = find_array(p, name, layer, NULL);
    if (!at) fail_msg("no array %s of layer %d", name, (int)layer);
    return at;
}
// Returns a number of a layer in the JSON of the stack: "scale", "left", ...
static inline double layer_number(const struct page *p, const char *name, int64_t layer)
{
    return json_number_value(json_array_get(json_object_get(p->stack, name), (size_t)layer));
}
static inline double plane_float(const uint8_t *p, int64_t n, int64_t i)
{
    const uint32_t u = p[i] | (uint32_t)p[n + i] << 8 | (uint32_t)p[2 * n + i] << 16 |
                       (uint32_t)p[3 * n + i] << 24;
    float x;
    memcpy(&x, &u, sizeof x);
    return (double)x;
}
// Returns element e of vector t of head `at` of an array [N][T][E] of 8 or 16 bits.
static inline double element(const uint8_t *b, bool eight, int64_t N, int64_t T, int64_t E,
                             int64_t at, int64_t t, int64_t e)
{
    const int64_t n = N * T, v = at * T + t, i = v * E + e;
    if (eight)
        return (int8_t)b[i] *
               (double)qkv_f16_to_f32((uint16_t)(b[n * E + v] | b[n * E + n + v] << 8));
    const int16_t c = (int16_t)(b[i] | b[n * E + i] << 8);
    const uint8_t *step = b + 2 * n * E, *middle = step + 4 * N * E;
    if (c == -8192) return NAN;
    return plane_float(middle, N * E, at * E + e) + c * plane_float(step, N * E, at * E + e);
}
// Decodes one row of the array "top": weights that are not stored are 0.
static inline void top_row(const struct page *p, double *w, int64_t layer, int64_t head, int64_t i)
{
    int64_t shape[3];
    const uint8_t *b = find_array(p, "top", layer, shape);
    const int64_t m = shape[0] * shape[1], n = shape[2] * m, at = head * p->T + i,
                  most = 2 * (p->T > p->S ? p->T : p->S),
                  planes = most <= 255     ? 1
                           : most <= 65535 ? 2
                                           : 3;
    const uint8_t *c = b + planes * n, *u = c + n;
    const uint8_t *whole = find_array(p, "sum", layer, NULL);
    const double one = whole ? plane_float(whole, m, at) : 1,
                 largest = one * pow((u[at] | u[m + at] << 8) / 65535., 2);
    const bool odd = u[at] == 255 && u[m + at] == 255 && !c[at];
    for (int64_t j = 0; j < p->S; j++) w[j] = odd ? (double)NAN : 0;
    for (int64_t s = 0; s < shape[2] && c[s * m + at]; s++) {
        int64_t z = 0;
        for (int64_t q = 0; q < planes; q++) z |= (int64_t)b[q * n + s * m + at] << 8 * q;
        w[z >= 127 ? z - 127
          : z % 2  ? i - (z + 1) / 2
                   : i + z / 2] = largest * pow(c[s * m + at] / 255., 2);
    }
}
static inline double bias_of(const struct page *p, int64_t layer, int64_t head, int64_t i,
                             int64_t j)
{
    int64_t shape[3];
    const uint8_t *table = find_array(p, "relative", layer, shape);
    double bias = 0;
    if (table) {
        const int64_t reach = (shape[1] - 1) / 2, d = j - i < -reach  ? -reach
                                                      : j - i > reach ? reach
                                                                      : j - i;
        bias = plane_float(table, shape[0] * shape[1], head * shape[1] + reach + d);
    }
    const uint8_t *alibi = find_array(p, "alibi", layer, shape);
    if (alibi) bias -= plane_float(alibi, p->H, head) * fabs((double)(i - j));
    return bias;
}
static inline bool sees(const struct page *p, int64_t layer, int64_t i, int64_t j)
{
    const double left = layer_number(p, "left", layer), right = layer_number(p, "right", layer);
    if (json_is_true(json_object_get(p->stack, "causal")) && j > i) return false;
    return (left < 0 || (double)(i - j) <= left) && (right < 0 || (double)(j - i) <= right);
}
static inline void page_row(const struct page *p, double *w, int64_t layer, int64_t head, int64_t i)
{
    if (find_array(p, "w", layer, NULL) && !strcmp(array_kind(p, "w", layer), "f32")) {
        const uint8_t *c = array(p, "w", layer);
        for (int64_t j = 0; j < p->S; j++)
            w[j] = plane_float(c, p->H * p->T * p->S, (head * p->T + i) * p->S + j);
        return;
    }
    if (find_array(p, "w", layer, NULL)) {
        const uint8_t *c = array(p, "w", layer) + (head * p->T + i) * p->S;
        const uint8_t *whole = find_array(p, "sum", layer, NULL);
        const double one = whole ? plane_float(whole, p->H * p->T, head * p->T + i) : 1;
        double sum = 0;
        for (int64_t j = 0; j < p->S; j++) sum += c[j] * c[j];
        for (int64_t j = 0; j < p->S; j++)
            w[j] = c[0] == 255 ? (double)NAN : sum > 0 ? one * c[j] * c[j] / sum : 0;
        return;
    }
    if (!find_array(p, "q", layer, NULL)) {
        top_row(p, w, layer, head, i);
        return;
    }
    const uint8_t *q = array(p, "q", layer), *k = array(p, "k", layer);
    const bool eight = !strcmp(p->kind, "qk8");
    const uint8_t *kept = find_array(p, "lse", layer, NULL);
    const double lse = kept ? plane_float(kept, p->H * p->T, head * p->T + i) : 0,
                 cap = layer_number(p, "softcap", layer);
    double sum = 0;
    for (int64_t j = 0; j < p->S; j++) {
        double s = 0;
        for (int64_t e = 0; e < p->E; e++)
            s += element(q, eight, p->H, p->T, p->E, head, i, e) *
                 element(k, eight, p->G, p->S, p->E, head / (p->H / p->G), j, e);
        s *= layer_number(p, "scale", layer);
        if (cap > 0) s = cap * tanh(s / cap);
        s += bias_of(p, layer, head, i, j);
        w[j] = !sees(p, layer, i, j) || lse == (double)-INFINITY ? 0 : exp(s - lse);
        sum += w[j];
    }
    for (int64_t j = 0; j < p->S && !kept; j++) w[j] /= sum; // without lse a row sums to 1
}

// Decodes a page; returns its largest difference to the rows of the library, over all weights, or
// over the stored ones.
static inline double page_error(const struct page *p, const qkv_view *v, int64_t layers)
{
    double worst = 0, *w = zeros(p->S, sizeof *w);
    float *row = zeros(p->S, sizeof *row);
    const bool top = !strcmp(p->kind, "top");
    for (int64_t l = 0; l < layers; l++)
        for (int64_t h = 0; h < p->H; h++)
            for (int64_t i = 0; i < p->T; i++) {
                double sum = 0, whole = 0;
                qkv_view_row(v, row, p->at, l, h, i);
                page_row(p, w, l, h, i);
                for (int64_t j = 0; j < p->S; j++) {
                    if (!top || w[j] > 0) worst = fmax(worst, fabs(w[j] - (double)row[j]));
                    sum += w[j];
                    whole += (double)row[j];
                }
                if (!top) // 2^-24 times scores of up to 200, in lse and in the page
                    CHECK_NEAR(sum, whole, 1e-4);
                else
                    CHECK(sum <= whole + .01);
            }
    free(row);
    free(w);
    return worst;
}

// ---- memory that runs out -----------------------------------------------------------------------
// An allocator that succeeds `allowed` times; live: blocks that were not freed.
static int64_t allowed, live;
static inline void *counted_alloc(void *user, size_t bytes)
{
    (void)user;
    if (__atomic_sub_fetch(&allowed, 1, __ATOMIC_SEQ_CST) < 0) return NULL;
    __atomic_add_fetch(&live, 1, __ATOMIC_SEQ_CST);
    return malloc(bytes);
}
static inline void counted_free(void *user, void *p)
{
    (void)user;
    __atomic_sub_fetch(&live, 1, __ATOMIC_SEQ_CST);
    free(p);
}

// ---- writing ------------------------------------------------------------------------------------
static char folder[] = "/tmp/qkv-view-XXXXXX";
static inline const char *place(const char *name)
{
    static char path[300];
    static bool made;
    if (!made && !mkdtemp(folder)) fail_msg("no folder for test files");
    made = true;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}
static inline char *html_of(const qkv_view *v, const struct qkv_view_options *o,
                            struct qkv_view_report *r)
{
    qkv_error err = { 0 };
    size_t size;
    if (qkv_view_html(v, place("page.html"), true, o, r, &err)) fail_msg("%s", err.text);
    char *html = slurp(place("page.html"), &size);
    if (r) CHECK_EQ(size, r->bytes);
    return html;
}
static inline bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

// Teardown of the group: the folder must be empty.
static inline int sweep(void **state)
{
    (void)state;
    static const char *const names[] = { "page.html", "kept.html", "alloc.html" };
    EACH(n, names) remove(place(*n));
    return rmdir(folder);
}
#endif
