// SPDX-License-Identifier: MIT
// test_view.c: what a page holds is what the weights were, and says how far it is off.
//
// The decoder here reads a written page as a stranger would: from the HTML alone, with zlib and
// jansson, by the words of src/view/view.h.
#include "check.h"
#include "view/view.h"
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

static void *zeros(int64_t count, size_t size)
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
static void make(struct made *m, int64_t T, int64_t L, int64_t H, int64_t G, int64_t E, bool causal)
{
    *m = (struct made){ .shape = { "made-up <model>", T, L, H, G, E, m->token, causal } };
    check_seed = (uint64_t)(T * 1000 + H);
    for (int64_t i = 0; i < T; i++) {
        snprintf(m->raw[i], sizeof m->raw[i], "w%d", (int)(i * 7 % 40));
        m->token[i] = (struct qkv_view_token){ .raw = m->raw[i], .text = m->raw[i],
                                               .text_bytes = strlen(m->raw[i]), .part = i > T / 2 };
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
    for (int64_t i = 0; i < L * T * G * E; i++) m->k[i] = (float)(check_gauss() + (i % E == 1 ? 5 : 0));
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
static void unmake(struct made *m)
{
    free(m->q);
    free(m->k);
    free(m->lse);
    free(m->weights);
}
static qkv_status fill(qkv_view **v, const struct made *m, qkv_error *err)
{
    const struct qkv_view_shape *s = &m->shape;
    qkv_status status = qkv_view_new(v, s, err);
    for (int64_t l = 0; l < s->layers && !status; l++)
        status = qkv_view_layer(*v, l, m->q + l * s->tokens * s->heads * s->head_width,
                                m->k + l * s->tokens * s->kv_heads * s->head_width,
                                m->lse + l * s->heads * s->tokens, .25f, err);
    return status;
}
static qkv_view *view_of(const struct made *m)
{
    qkv_view *v = NULL;
    qkv_error err = { 0 };
    if (fill(&v, m, &err)) fail_msg("%s", err.text);
    return v;
}

// ---- a stranger's reader -----------------------------------------------------------------------
static char *slurp(const char *path, size_t *size)
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
static char *between(const char *text, const char *open, const char *close)
{
    const char *a = strstr(text, open);
    const char *b = a ? strstr(a + strlen(open), close) : NULL;
    return b ? strndup(a + strlen(open), (size_t)(b - a) - strlen(open)) : NULL;
}
static size_t from_base64(uint8_t *out, const char *text)
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
static void page_close(struct page *p)
{
    json_decref(p->about);
    free(p->bytes);
    *p = (struct page){ 0 };
}
static int64_t number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}
// false: the page is damaged.
static bool page_open(struct page *p, const char *html)
{
    *p = (struct page){ 0 };
    char *about = between(html, "<script type=\"application/json\" id=\"about\">", "</script>");
    char *packed = between(html, "<script type=\"text/plain\" id=\"packed\">", "</script>");
    bool ok = false;
    if (!about || !packed || !(p->about = json_loads(about, JSON_REJECT_DUPLICATES, NULL))) goto done;
    p->size = number(p->about, "bytes");
    p->T = (int64_t)json_array_size(json_object_get(p->about, "tokens"));
    p->H = number(p->about, "heads");
    p->G = number(p->about, "kv");
    p->E = number(p->about, "width");
    p->kind = json_string_value(json_object_get(p->about, "kind"));
    uint8_t *raw = malloc(strlen(packed) + 4);
    const size_t n = from_base64(raw, packed);
    p->bytes = malloc((size_t)p->size + 1);
    z_stream z = { .next_in = raw, .avail_in = (uInt)n, .next_out = p->bytes,
                   .avail_out = (uInt)p->size + 1 };
    ok = (int64_t)n == number(p->about, "packed") && inflateInit2(&z, -15) == Z_OK;
    ok = ok && inflate(&z, Z_FINISH) == Z_STREAM_END && (int64_t)z.total_out == p->size;
    inflateEnd(&z);
    free(raw);
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(p->about, "rows"), i, row) {
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
static const uint8_t *array(const struct page *p, const char *name, int64_t layer)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(p->about, "rows"), i, row)
        if (!strcmp(json_string_value(json_array_get(row, 0)), name) &&
            json_integer_value(json_array_get(row, 2)) == layer)
            return p->bytes + json_integer_value(json_array_get(row, 4));
    fail_msg("no array %s of layer %d", name, (int)layer);
    return NULL;
}
static double plane_float(const uint8_t *p, int64_t n, int64_t i)
{
    const uint32_t u = p[i] | (uint32_t)p[n + i] << 8 | (uint32_t)p[2 * n + i] << 16 |
                       (uint32_t)p[3 * n + i] << 24;
    float x;
    memcpy(&x, &u, sizeof x);
    return (double)x;
}
// Element e of vector t of head `at` of N.
static double element(const struct page *p, const uint8_t *b, int64_t N, int64_t at, int64_t t, int64_t e)
{
    const int64_t n = N * p->T, v = at * p->T + t, i = v * p->E + e;
    if (!strcmp(p->kind, "qk8"))
        return (int8_t)b[i] * (double)qkv_f16_to_f32((uint16_t)(b[n * p->E + v] | b[n * p->E + n + v] << 8));
    const int16_t c = (int16_t)(b[i] | b[n * p->E + i] << 8);
    const uint8_t *step = b + 2 * n * p->E, *middle = step + 4 * N * p->E;
    if (c == -8192) return NAN;
    return plane_float(middle, N * p->E, at * p->E + e) + c * plane_float(step, N * p->E, at * p->E + e);
}
static void page_row(const struct page *p, double *w, int64_t layer, int64_t head, int64_t i)
{
    const bool causal = json_is_true(json_object_get(p->about, "causal"));
    if (!strcmp(p->kind, "dense")) {
        const uint8_t *c = array(p, "w", layer) + (head * p->T + i) * p->T;
        double sum = 0;
        for (int64_t j = 0; j < p->T; j++) sum += c[j] * c[j];
        for (int64_t j = 0; j < p->T; j++) w[j] = c[0] == 255 ? (double)NAN : sum > 0 ? c[j] * c[j] / sum : 0;
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
static const char *place(const char *name)
{
    static char path[300];
    static bool made;
    if (!made && !mkdtemp(folder)) fail_msg("no folder for test files");
    made = true;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}
static char *html_of(const qkv_view *v, const struct qkv_view_options *o, struct qkv_view_report *r)
{
    qkv_error err = { 0 };
    size_t size;
    if (qkv_view_html(v, place("page.html"), true, o, r, &err)) fail_msg("%s", err.text);
    char *html = slurp(place("page.html"), &size);
    if (r) CHECK_EQ(size, r->bytes);
    return html;
}
static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

// ---- weights -----------------------------------------------------------------------------------
TEST(rows_are_the_softmax_of_the_scores)
{
    static const int64_t shapes[][6] = { { 1, 1, 1, 1, 1, 0 }, { 2, 1, 2, 1, 3, 1 }, { 33, 2, 4, 2, 20, 0 },
                                         { 65, 1, 3, 3, 32, 1 } };
    EACH(s, shapes) {
        struct made *m = malloc(sizeof *m);
        make(m, (*s)[0], (*s)[1], (*s)[2], (*s)[3], (*s)[4], (*s)[5]);
        qkv_view *v = view_of(m);
        const int64_t T = (*s)[0], E = (*s)[4];
        float *row = zeros(T, sizeof *row);
        for (int64_t l = 0; l < (*s)[1]; l++)
            for (int64_t h = 0; h < (*s)[2]; h++)
                for (int64_t i = 0; i < T; i++) {
                    double sum = 0, size = fabs((double)m->lse[(l * (*s)[2] + h) * T + i]);
                    qkv_view_row(v, row, l, h, i);
                    // a score is off by E + 2 roundings of terms below `most`, lse by one of itself
                    double most = 0;
                    const float *q = m->q + ((l * T + i) * (*s)[2] + h) * E;
                    for (int64_t j = 0; j < T; j++) {
                        const float *k = m->k + ((l * T + j) * (*s)[3] + h / ((*s)[2] / (*s)[3])) * E;
                        double terms = 0;
                        for (int64_t e = 0; e < E; e++) terms += .25 * fabs((double)q[e] * (double)k[e]);
                        most = fmax(most, terms);
                    }
                    const double off = ((double)(E + 2) * most + 2 * size + 2) * 0x1p-24;
                    for (int64_t j = 0; j < T; j++) {
                        const double w = m->weights[((l * (*s)[2] + h) * T + i) * T + j];
                        CHECK_NEAR((double)row[j], w, w * 1.01 * off + 1e-30);
                        sum += (double)row[j];
                    }
                    CHECK_NEAR(sum, 1, 1.01 * off);
                }
        free(row);
        qkv_view_free(v);
        unmake(m);
        free(m);
    }
}

// A page decoded by the stranger's reader: its largest difference to the rows of the library.
static double page_error(const struct page *p, const qkv_view *v, int64_t layers)
{
    double worst = 0, *w = zeros(p->T, sizeof *w);
    float *row = zeros(p->T, sizeof *row);
    for (int64_t l = 0; l < layers; l++)
        for (int64_t h = 0; h < p->H; h++)
            for (int64_t i = 0; i < p->T; i++) {
                double sum = 0;
                qkv_view_row(v, row, l, h, i);
                page_row(p, w, l, h, i);
                for (int64_t j = 0; j < p->T; j++) {
                    worst = fmax(worst, fabs(w[j] - (double)row[j]));
                    sum += w[j];
                }
                CHECK_NEAR(sum, 1, 1e-4); // 2^-24 times scores of up to 200, in lse and in the page
            }
    free(row);
    free(w);
    return worst;
}

TEST(the_error_that_is_claimed_is_the_error_that_is_there)
{
    static const struct {
        int64_t T, G, budget;
        bool causal;
        const char *kind;
    } pages[] = { { 1, 4, 0, false, "dense" },  { 2, 2, 0, true, "dense" },   { 60, 4, 0, false, "dense" },
                  { 192, 1, 0, true, "dense" }, { 193, 2, 0, false, "qk16" }, { 256, 4, 0, true, "qk16" },
                  { 256, 2, 200000, false, "qk8" } };
    EACH(g, pages) {
        struct made *m = malloc(sizeof *m);
        make(m, g->T, 2, 4, g->G, 16, g->causal);
        qkv_view *v = view_of(m);
        struct qkv_view_report r;
        struct page p;
        const struct qkv_view_options o = { .budget = g->budget };
        char *html = html_of(v, &o, &r);
        CHECK(page_open(&p, html));
        CHECK_TEXT(r.kind, g->kind);
        CHECK_TEXT(p.kind, g->kind);
        CHECK_EQ(r.not_numbers, 0);
        CHECK_EQ(r.weights, 2 * 4 * g->T * g->T);
        if (g->budget) CHECK(r.bytes <= g->budget);
        const double error = page_error(&p, v, 2);
        CHECK_NEAR(error, r.error, 1e-4 * (r.error + .01)); // the two decode in float and in double
        if (!strcmp(g->kind, "dense")) CHECK(r.error <= .004);
        page_close(&p);
        free(html);
        qkv_view_free(v);
        unmake(m);
        free(m);
    }
}

TEST(the_same_input_gives_the_same_bytes_for_any_threads)
{
    struct made *m = malloc(sizeof *m);
    make(m, 200, 2, 6, 3, 20, false);
    char *pages[3];
    for (int k = 0; k < 3; k++) {
        CHECK_EQ(qkv_threads_set(k == 1 ? 3 : 1), QKV_OK);
        qkv_view *v = view_of(m);
        pages[k] = html_of(v, NULL, NULL);
        qkv_view_free(v);
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    CHECK(!strcmp(pages[0], pages[1]) && !strcmp(pages[0], pages[2]));
    for (int k = 0; k < 3; k++) free(pages[k]);
    unmake(m);
    free(m);
}

TEST(a_cut_or_flipped_block_is_noticed)
{
    struct made *m = malloc(sizeof *m);
    make(m, 12, 1, 2, 2, 8, false);
    qkv_view *v = view_of(m);
    char *html = html_of(v, NULL, NULL), *block = strstr(html, "id=\"packed\">") + 12;
    const size_t n = strcspn(block, "<");
    struct page p;
    CHECK(page_open(&p, html));
    page_close(&p);
    for (size_t i = 0; i < n; i++) {
        if (block[i] == '=') continue;
        const char was = block[i];
        block[i] = was == 'A' ? 'B' : 'A';
        if (page_open(&p, html)) { // the last digit may hold bits that are no part of a byte
            CHECK(i + 4 >= n);
            page_close(&p);
        }
        block[i] = was;
    }
    memmove(block + n / 2, block + n, strlen(block + n) + 1);
    CHECK(!page_open(&p, html));
    free(html);
    qkv_view_free(v);
    unmake(m);
    free(m);
}

TEST(rows_that_read_nothing_or_are_not_numbers_stay_what_they_are)
{
    static const int64_t lengths[] = { 9, 200 };
    EACH(T, lengths) {
        struct made *m = malloc(sizeof *m);
        make(m, *T, 1, 2, 2, 8, false);
        m->lse[3] = -INFINITY; // head 0, row 3
        m->q[(5 * 2 + 1) * 8] = NAN; // head 1, row 5
        m->lse[*T + 5] = NAN;
        qkv_view *v = view_of(m);
        struct qkv_view_report r;
        struct page p;
        char *html = html_of(v, NULL, &r);
        CHECK(page_open(&p, html));
        CHECK_EQ(r.not_numbers, 1);
        CHECK(strstr(html, "1 row is not a number"));
        double w[200];
        page_row(&p, w, 0, 0, 3);
        for (int64_t j = 0; j < *T; j++) CHECK(w[j] == 0);
        page_row(&p, w, 0, 1, 5);
        for (int64_t j = 0; j < *T; j++) CHECK(w[j] != w[j]);
        page_row(&p, w, 0, 1, 4);
        for (int64_t j = 0; j < *T; j++) CHECK(w[j] == w[j]);
        page_close(&p);
        free(html);
        qkv_view_free(v);
        unmake(m);
        free(m);
    }
}

// ---- what heads do -----------------------------------------------------------------------------
// One layer of heads over tokens whose keys are the unit vectors: a row reads what `target` says.
static const char *kind_of(int64_t T, const char *const *words, int64_t (*target)(int64_t i, int64_t T),
                           bool special)
{
    enum { E = 64 };
    static char text[16];
    struct qkv_view_token *token = zeros(T, sizeof *token);
    float *q = zeros(T * E, sizeof *q), *k = zeros(T * E, sizeof *k),
          *lse = zeros(T, sizeof *lse);
    char (*names)[16] = zeros(T, sizeof *names);
    for (int64_t i = 0; i < T; i++) {
        snprintf(names[i], sizeof names[i], "t%d", (int)i);
        token[i] = (struct qkv_view_token){ .raw = words ? words[i] : names[i],
                                            .special = special && (i == 0 || i == T - 1) };
        k[i * E + i] = 1;
        const int64_t j = target(i, T);
        if (j >= 0 && j < T) q[i * E + j] = 20;
        lse[i] = logf(j >= 0 && j < T ? expf(20) + (float)T - 1 : (float)T);
    }
    qkv_view *v;
    qkv_error err = { 0 };
    const struct qkv_view_shape s = { "m", T, 1, 1, 1, E, token, false };
    CHECK_EQ(qkv_view_new(&v, &s, &err), QKV_OK);
    CHECK_EQ(qkv_view_layer(v, 0, q, k, lse, 1, &err), QKV_OK);
    snprintf(text, sizeof text, "%s", qkv_view_head(v, 0, 0).kind);
    qkv_view_free(v);
    free(token);
    free(names);
    free(q);
    free(k);
    free(lse);
    return text;
}
static int64_t before(int64_t i, int64_t T) { (void)T; return i - 1; }
static int64_t after(int64_t i, int64_t T) { return i + 1 < T ? i + 1 : i; }
static int64_t self(int64_t i, int64_t T) { (void)T; return i; }
static int64_t fourth(int64_t i, int64_t T) { (void)i; (void)T; return 4; }
static int64_t nowhere(int64_t i, int64_t T) { (void)i; (void)T; return -1; }
static int64_t first(int64_t i, int64_t T) { (void)i; (void)T; return 0; }
static int64_t half_away(int64_t i, int64_t T) { return (i + T / 2) % T; }
static int64_t copied(int64_t i, int64_t T) { return i >= T / 2 ? i - T / 2 + 1 : 0; }
static int64_t scattered(int64_t i, int64_t T) { return (i * 7 + 3) % T; }

TEST(each_kind_of_head_is_told)
{
    static const char *const twice[] = { "a", "b", "c", "d", "e", "f", "a", "b", "c", "d", "e", "f" };
    CHECK_TEXT(kind_of(12, NULL, before, false), "previous");
    CHECK_TEXT(kind_of(12, NULL, after, false), "next");
    CHECK_TEXT(kind_of(12, NULL, self, true), "itself");
    CHECK_TEXT(kind_of(12, NULL, fourth, true), "one word");
    CHECK_TEXT(kind_of(12, NULL, nowhere, true), "broad");
    CHECK_TEXT(kind_of(12, NULL, first, true), "sink");
    CHECK_TEXT(kind_of(12, twice, half_away, false), "same word");
    CHECK_TEXT(kind_of(12, twice, copied, false), "induction");
    CHECK_TEXT(kind_of(12, NULL, scattered, false), "content");
    CHECK_TEXT(kind_of(7, NULL, before, false), ""); // too short to say
}

// ---- text --------------------------------------------------------------------------------------
static int occurrences(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)) != NULL; text++) n++;
    return n;
}

TEST(hostile_tokens_stay_text)
{
    struct made *m = malloc(sizeof *m);
    make(m, 14, 1, 2, 2, 8, false);
    char *word = malloc(1000001);
    memset(word, 'x', 1000000);
    word[1000000] = 0;
    static const char nul[] = "a\0b";
    const struct {
        const char *text;
        size_t bytes;
    } evil[] = { { "</script><script>alert(1)</script>", 34 }, { "<!--", 4 }, { "]]>&quot;\"'`", 12 },
                 { nul, 3 }, { "\xff\xfe\xc0\x80", 4 }, { "\xe2\x80\xae" "evil", 7 }, { "\n\r\t\x1b[31m", 8 },
                 { "{{packed}}", 10 }, { word, 1000000 }, { "\\u003c/script>", 14 }, { "\xe2\x80\xa8", 3 } };
    for (size_t i = 0; i < sizeof evil / sizeof *evil; i++) {
        m->token[i + 1].special = false;
        m->token[i + 1].text = evil[i].text;
        m->token[i + 1].text_bytes = evil[i].bytes;
        m->token[i + 1].raw = i == 8 ? word : "</title><script>";
    }
    m->shape.model = "</b><script>alert(2)</script>";
    qkv_view *v = view_of(m);
    struct page p;
    char *html = html_of(v, NULL, NULL);
    CHECK_EQ(occurrences(html, "<script>"), 1); // the page's own
    CHECK_EQ(occurrences(html, "<script "), 2); // about, packed
    CHECK_EQ(occurrences(html, "</script>"), 3);
    CHECK_EQ(occurrences(html, "id=\"packed\""), 1);
    for (const unsigned char *c = (const unsigned char *)html; *c; c++) CHECK(*c >= 0x20 || *c == '\n');
    CHECK(page_open(&p, html)); // jansson takes valid UTF-8 only
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(p.about, "tokens"), i, t)
        CHECK(json_string_length(json_array_get(t, 0)) < 200);
    CHECK(strlen(html) < 200000);
    char *text;
    const struct qkv_view_options o = { .utf8 = true, .columns = 60 };
    CHECK_EQ(qkv_view_terminal(v, &text, &o, NULL), QKV_OK);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) CHECK(*c >= 0x20 || *c == '\n');
    CHECK(!strstr(text, "\xe2\x80\xae"));
    qkv_view_text_free(text);
    page_close(&p);
    free(html);
    free(word);
    qkv_view_free(v);
    unmake(m);
    free(m);
}

TEST(script_and_style_stay_small)
{
    CHECK(view_script_size + view_style_size <= 60000);
}

// Columns of a line, colours not counted.
static int columns_of(const char *s, size_t n)
{
    struct view_text t = { 0 };
    int columns = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\033') {
            while (i < n && s[i] != 'm') i++;
            continue;
        }
        columns += ((unsigned char)s[i] & 0xC0) != 0x80; // made-up tokens are one column a character...
        columns += (unsigned char)s[i] == 0xE6;          // ...but the CJK ones, which begin with E6
    }
    (void)t;
    return columns;
}

TEST(terminal_pictures_keep_to_their_width)
{
    static const int widths[] = { 1, 20, 33, 50, 80, 120, 149, 150, 200 };
    static const int64_t lengths[] = { 1, 2, 14, 45, 120 };
    EACH(T, lengths) {
        struct made *m = malloc(sizeof *m);
        make(m, *T, 3, 12, 4, 8, false);
        for (int64_t i = 1; i < *T; i += 3)
            if (!m->token[i].special) m->token[i].text = "\xe6\x97\xa5\xe6\x9c\xac", m->token[i].text_bytes = 6;
        qkv_view *v = view_of(m);
        EACH(w, widths)
            for (int k = 0; k < 8; k++) {
                const struct qkv_view_options o = { .columns = *w, .utf8 = k & 1, .color = k & 2,
                                                    .truecolor = k & 4 };
                char *text;
                CHECK_EQ(qkv_view_terminal(v, &text, &o, NULL), QKV_OK);
                for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
                    if (columns_of(line, strcspn(line, "\n")) > (*w < 20 ? 20 : *w))
                        fail_msg("%d tokens, width %d, mode %d: %.*s", (int)*T, *w, k,
                                 (int)strcspn(line, "\n"), line);
                for (const unsigned char *c = (const unsigned char *)text; *c; c++)
                    CHECK((*c >= 0x20 || *c == '\n' || ((k & 2) && *c == '\033')) &&
                          ((k & 1) || *c < 0x80));
                qkv_view_text_free(text);
            }
        qkv_view_free(v);
        unmake(m);
        free(m);
    }
}

// ---- the outer world ---------------------------------------------------------------------------
TEST(what_is_not_there_is_refused)
{
    struct made *m = malloc(sizeof *m);
    make(m, 10, 2, 2, 2, 8, false);
    qkv_view *v = view_of(m), *none;
    const struct {
        struct qkv_view_options o;
        qkv_status status;
        const char *says;
    } calls[] = {
        { { .layer = &(int64_t){ 2 } }, QKV_ERR_USAGE, "no layer 2, expected 0 to 1" },
        { { .heads = (int64_t[]){ 0, -1 }, .head_count = 2 }, QKV_ERR_USAGE, "no head -1, expected 0 to 1" },
        { { .token = &(int64_t){ 10 } }, QKV_ERR_USAGE, "no token 10, expected 0 to 9" },
        { { .budget = 1000 }, QKV_ERR_LIMIT, "give a larger budget" },
    };
    EACH(c, calls) {
        qkv_error err = { 0 };
        CHECK_EQ(qkv_view_html(v, place("refused.html"), false, &c->o, NULL, &err), c->status);
        CHECK(strstr(err.text, c->says));
        CHECK(!exists(place("refused.html")));
    }
    qkv_error err = { 0 };
    CHECK_EQ(qkv_view_layer(v, 2, m->q, m->k, m->lse, 1, &err), QKV_ERR_USAGE);
    struct qkv_view_shape bad = m->shape;
    bad.kv_heads = 3;
    CHECK_EQ(qkv_view_new(&none, &bad, NULL), QKV_ERR_USAGE);
    bad = m->shape;
    bad.tokens = 0;
    CHECK_EQ(qkv_view_new(&none, &bad, NULL), QKV_ERR_USAGE);
    bad = m->shape;
    bad.layers = INT64_MAX / 4;
    CHECK_EQ(qkv_view_new(&none, &bad, NULL), QKV_ERR_LIMIT);
    CHECK_EQ(qkv_view_new(&none, &m->shape, NULL), QKV_OK); // no layer given yet
    CHECK_EQ(qkv_view_html(none, place("refused.html"), false, NULL, NULL, NULL), QKV_ERR_USAGE);
    qkv_view_free(none);
    qkv_view_free(v);
    unmake(m);
    free(m);
}

TEST(an_existing_file_is_kept_unless_told)
{
    struct made *m = malloc(sizeof *m);
    make(m, 5, 1, 1, 1, 4, false);
    qkv_view *v = view_of(m);
    FILE *f = fopen(place("kept.html"), "w");
    fputs("mine", f);
    fclose(f);
    size_t size;
    CHECK_EQ(qkv_view_html(v, place("kept.html"), false, NULL, NULL, NULL), QKV_ERR_USAGE);
    char *text = slurp(place("kept.html"), &size);
    CHECK_TEXT(text, "mine");
    free(text);
    CHECK_EQ(qkv_view_html(v, place("kept.html"), true, NULL, NULL, NULL), QKV_OK);
    text = slurp(place("kept.html"), &size);
    CHECK(size > 20000);
    free(text);
    CHECK_EQ(qkv_view_html(v, place("no/such/folder.html"), false, NULL, NULL, NULL), QKV_ERR_IO);
    qkv_view_free(v);
    unmake(m);
    free(m);
}

static int64_t allowed, live;
static void *counted_alloc(void *user, size_t bytes)
{
    (void)user;
    if (__atomic_sub_fetch(&allowed, 1, __ATOMIC_SEQ_CST) < 0) return NULL;
    __atomic_add_fetch(&live, 1, __ATOMIC_SEQ_CST);
    return malloc(bytes);
}
static void counted_free(void *user, void *p)
{
    (void)user;
    __atomic_sub_fetch(&live, 1, __ATOMIC_SEQ_CST);
    free(p);
}
static qkv_status all_of_it(const struct made *m, const char *path)
{
    qkv_view *v = NULL;
    char *text = NULL;
    qkv_error err = { 0 };
    qkv_status status = fill(&v, m, &err);
    if (!status) status = qkv_view_html(v, path, true, NULL, NULL, &err);
    if (!status) {
        const struct qkv_view_options o = { .columns = 160, .utf8 = true, .color = true };
        status = qkv_view_terminal(v, &text, &o, &err);
    }
    qkv_view_text_free(text);
    qkv_view_free(v);
    return status;
}
TEST(every_failed_allocation_is_survived)
{
    static const int64_t lengths[] = { 12, 193 };
    const struct qkv_allocator counted = { counted_alloc, counted_free, NULL };
    EACH(T, lengths) {
        struct made *m = malloc(sizeof *m);
        make(m, *T, 2, 2, 1, 4, false);
        qkv_allocator_set(&counted);
        qkv_status status = QKV_ERR_LIMIT;
        int64_t n = 0;
        // far calls fail alike: past 600 in steps, to the end
        for (; status; n += n < 600 ? 1 : 37) {
            remove(place("alloc.html"));
            allowed = n;
            live = 0;
            status = all_of_it(m, place("alloc.html"));
            CHECK(status == QKV_OK || status == QKV_ERR_LIMIT);
            CHECK_EQ(live, 0);
            CHECK(n < 1000000);
        }
        qkv_allocator_set(NULL);
        CHECK(n > 30 && exists(place("alloc.html")));
        unmake(m);
        free(m);
    }
}

static int sweep(void **state)
{
    (void)state;
    static const char *const names[] = { "page.html", "kept.html", "alloc.html" };
    EACH(n, names) remove(place(*n));
    return rmdir(folder);
}
int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(rows_are_the_softmax_of_the_scores),
        CASE(the_error_that_is_claimed_is_the_error_that_is_there),
        CASE(the_same_input_gives_the_same_bytes_for_any_threads),
        CASE(a_cut_or_flipped_block_is_noticed),
        CASE(rows_that_read_nothing_or_are_not_numbers_stay_what_they_are),
        CASE(each_kind_of_head_is_told),
        CASE(hostile_tokens_stay_text),
        CASE(script_and_style_stay_small),
        CASE(terminal_pictures_keep_to_their_width),
        CASE(what_is_not_there_is_refused),
        CASE(an_existing_file_is_kept_unless_told),
        CASE(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(cases, NULL, sweep);
}
