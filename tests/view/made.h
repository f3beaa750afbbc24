// SPDX-License-Identifier: MIT
// made.h: made-up attention for the tests of room view, and a reader of written pages.
//
// The reader takes a page as a stranger would: from the HTML alone,
// with zlib and jansson, by the words of src/view/view.h.
#ifndef QKV_VIEW_MADE_H
#define QKV_VIEW_MADE_H
#include "check.h"
#include "view/view.h"
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

static inline void *zeros(int64_t count, size_t size)
{
    void *p = count > 0 && count < INT32_MAX ? calloc((size_t)count, size) : NULL;
    if (!p) fail_msg("no memory for %d items", (int)count);
    return p;
}

// ---- made-up attention -------------------------------------------------------------------------
struct made {
    struct qkv_view_shape shape;
    struct qkv_view_token token[600];
    char raw[600][24];
    float *q, *k, *lse;
    double *weights; // [L][H][T][T] the truth, in double
};

// Sharp and flat heads, some causal; T tokens in two parts with specials around.
static inline void make(struct made *m, int64_t T, int64_t L, int64_t H, int64_t G, int64_t E,
                        bool causal)
{
    *m = (struct made){ .shape = { "made-up <model>", T, L, H, G, E, m->token, causal } };
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
    const struct qkv_view_shape *s = &m->shape;
    qkv_status status = qkv_view_new(v, s, err);
    for (int64_t l = 0; l < s->layers && !status; l++)
        status = qkv_view_layer(*v, l, m->q + l * s->tokens * s->heads * s->head_width,
                                m->k + l * s->tokens * s->kv_heads * s->head_width,
                                m->lse + l * s->heads * s->tokens, .25f, err);
    return status;
}
static inline qkv_view *view_of(const struct made *m)
{
    qkv_view *v = NULL;
    qkv_error err = { 0 };
    if (fill(&v, m, &err)) fail_msg("%s", err.text);
    return v;
}

// ---- a stranger's reader -----------------------------------------------------------------------
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
    json_t *about;
    uint8_t *bytes;
    int64_t size, T, H, G, E;
    const char *kind;
};
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
    p->T = (int64_t)json_array_size(json_object_get(p->about, "tokens"));
    p->H = number(p->about, "heads");
    p->G = number(p->about, "kv");
    p->E = number(p->about, "width");
    p->kind = json_string_value(json_object_get(p->about, "kind"));
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
        const int64_t at = json_integer_value(json_array_get(row, 4));
        const int64_t bytes = json_integer_value(json_array_get(row, 5));
        ok = ok && at >= 0 && bytes >= 0 && at + bytes <= p->size &&
             crc32(0, p->bytes + at, (uInt)bytes) ==
                 (uLong)json_integer_value(json_array_get(row, 6));
    }
done:
    free(about);
    free(packed);
    if (!ok) page_close(p);
    return ok;
}
static inline const uint8_t *array(const struct page *p, const char *name, int64_t layer)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(p->about, "rows"), i,
                       row) if (!strcmp(json_string_value(json_array_get(row, 0)), name) &&
                                json_integer_value(json_array_get(row, 2)) ==
                                    layer) return p->bytes +
        json_integer_value(json_array_get(row, 4));
    fail_msg("no array %s of layer %d", name, (int)layer);
    return NULL;
}
static inline double plane_float(const uint8_t *p, int64_t n, int64_t i)
{
    const uint32_t u = p[i] | (uint32_t)p[n + i] << 8 | (uint32_t)p[2 * n + i] << 16 |
                       (uint32_t)p[3 * n + i] << 24;
    float x;
    memcpy(&x, &u, sizeof x);
    return (double)x;
}
// Element e of vector t of head `at` of N.
static inline double element(const struct page *p, const uint8_t *b, int64_t N, int64_t at,
                             int64_t t, int64_t e)
{
    const int64_t n = N * p->T, v = at * p->T + t, i = v * p->E + e;
    if (!strcmp(p->kind, "qk8"))
        return (int8_t)b[i] *
               (double)qkv_f16_to_f32((uint16_t)(b[n * p->E + v] | b[n * p->E + n + v] << 8));
    const int16_t c = (int16_t)(b[i] | b[n * p->E + i] << 8);
    const uint8_t *step = b + 2 * n * p->E, *middle = step + 4 * N * p->E;
    if (c == -8192) return NAN;
    return plane_float(middle, N * p->E, at * p->E + e) +
           c * plane_float(step, N * p->E, at * p->E + e);
}
static inline void page_row(const struct page *p, double *w, int64_t layer, int64_t head, int64_t i)
{
    const bool causal = json_is_true(json_object_get(p->about, "causal"));
    if (!strcmp(p->kind, "dense")) {
        const uint8_t *c = array(p, "w", layer) + (head * p->T + i) * p->T;
        double sum = 0;
        for (int64_t j = 0; j < p->T; j++) sum += c[j] * c[j];
        for (int64_t j = 0; j < p->T; j++)
            w[j] = c[0] == 255 ? (double)NAN : sum > 0 ? c[j] * c[j] / sum : 0;
        return;
    }
    const uint8_t *q = array(p, "q", layer), *k = array(p, "k", layer);
    const double lse = plane_float(array(p, "lse", layer), p->H * p->T, head * p->T + i);
    for (int64_t j = 0; j < p->T; j++) {
        double s = 0;
        for (int64_t e = 0; e < p->E; e++)
            s += element(p, q, p->H, head, i, e) * element(p, k, p->G, head / (p->H / p->G), j, e);
        w[j] = (causal && j > i) || lse == (double)-INFINITY ? 0 : exp(s - lse);
    }
}

// ---- writing -----------------------------------------------------------------------------------
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

// The group's teardown: the folder must be empty then.
static inline int sweep(void **state)
{
    (void)state;
    static const char *const names[] = { "page.html", "kept.html", "alloc.html" };
    EACH(n, names) remove(place(*n));
    return rmdir(folder);
}
#endif
