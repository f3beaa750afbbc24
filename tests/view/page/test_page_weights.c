// SPDX-License-Identifier: MIT
// test_page_weights.c: a page contains the weights, within the error that it states.
#include "view/made.h"

// ---- weights ------------------------------------------------------------------------------------
// Returns the relative error of the weights of a row in float. A score is off by E + 2 roundings of
// terms below the largest sum of terms, lse by one of itself.
static double row_bound(const struct made *m, int64_t layer, int64_t head, int64_t row)
{
    const struct qkv_view_stack *s = &m->stack;
    const int64_t T = m->text.tokens, H = s->heads, G = s->kv_heads, E = s->head_width;
    const double size = fabs((double)m->lse[(layer * H + head) * T + row]);
    const float *q = m->q + ((layer * T + row) * H + head) * E;
    double most = 0;
    for (int64_t j = 0; j < T; j++) {
        const float *k = m->k + ((layer * T + j) * G + head / (H / G)) * E;
        double terms = 0;
        for (int64_t e = 0; e < E; e++) terms += .25 * fabs((double)q[e] * (double)k[e]);
        most = fmax(most, terms);
    }
    return 1.01 * ((double)(E + 2) * most + 2 * size + 2) * 0x1p-24;
}

// Returns the largest error of a weight in float.
static double weight_bound(const struct made *m)
{
    const int64_t T = m->text.tokens, H = m->stack.heads;
    double worst = 0;
    for (int64_t i = 0; i < m->stack.layers * H * T; i++) {
        double largest = 0;
        for (int64_t j = 0; j < T; j++) largest = fmax(largest, m->weights[i * T + j]);
        worst = fmax(worst, largest * row_bound(m, i / T / H, i / T % H, i % T));
    }
    return worst;
}

TEST(rows_are_the_softmax_of_the_scores)
{
    static const int64_t shapes[][6] = {
        { 1, 1, 1, 1, 1, 0 }, { 2, 1, 2, 1, 3, 1 }, { 33, 2, 4, 2, 20, 0 }, { 65, 1, 3, 3, 32, 1 }
    };
    EACH(s, shapes)
    {
        struct made *m = malloc(sizeof *m);
        make(m, (*s)[0], (*s)[1], (*s)[2], (*s)[3], (*s)[4], (*s)[5]);
        qkv_view *v = view_of(m);
        const int64_t T = (*s)[0];
        float *row = zeros(T, sizeof *row);
        for (int64_t l = 0; l < (*s)[1]; l++)
            for (int64_t h = 0; h < (*s)[2]; h++)
                for (int64_t i = 0; i < T; i++) {
                    const double off = row_bound(m, l, h, i);
                    double sum = 0;
                    qkv_view_row(v, row, 0, l, h, i);
                    for (int64_t j = 0; j < T; j++) {
                        const double w = m->weights[((l * (*s)[2] + h) * T + i) * T + j];
                        CHECK_NEAR((double)row[j], w, w * off + 1e-30);
                        sum += (double)row[j];
                    }
                    CHECK_NEAR(sum, 1, off);
                }
        free(row);
        qkv_view_free(v);
        unmake(m);
        free(m);
    }
}

TEST(the_error_that_is_claimed_is_the_error_that_is_there)
{
    static const struct {
        int64_t T, G, budget; // budget: without script and style
        bool causal;
        const char *kind;
    } pages[] = { { 1, 4, 0, false, "dense" },      { 2, 2, 0, true, "dense" },
                  { 60, 4, 0, false, "dense" },     { 192, 1, 0, true, "dense" },
                  { 193, 2, 0, false, "qk16" },     { 256, 4, 0, true, "qk16" },
                  { 200, 4, 0, false, "qk16" },     { 513, 1, 0, true, "qk16" },
                  { 256, 2, 140000, false, "qk8" }, { 300, 2, 95000, false, "top" } };
    EACH(g, pages)
    {
        struct made *m = malloc(sizeof *m);
        make(m, g->T, 2, 4, g->G, 16, g->causal);
        qkv_view *v = view_of(m);
        struct qkv_view_report r;
        struct page p;
        const int64_t capacity = view_code_bytes() + g->budget;
        const struct qkv_view_options o = { .budget = g->budget ? capacity : 0 };
        char *html = html_of(v, &o, &r);
        CHECK(page_open(&p, html));
        CHECK_TEXT(r.kind, g->kind);
        CHECK_TEXT(p.kind, g->kind);
        CHECK_EQ(r.not_numbers, 0);
        CHECK_EQ(r.weights, 2 * 4 * g->T * g->T);
        if (g->budget) CHECK(r.bytes <= capacity);
        const double error = page_error(&p, v, 2);
        // one decodes in float, the other in double; stored weights are decoded by one division
        CHECK_NEAR(error, r.error,
                   !strncmp(g->kind, "qk", 2) ? weight_bound(m) : 1e-4 * (r.error + .01));
        if (!strcmp(g->kind, "dense")) CHECK(r.error <= .004);
        page_close(&p);
        free(html);
        qkv_view_free(v);
        unmake(m);
        free(m);
    }
}

// Returns the number whose n planes start at p[i], with its sign in the lowest bit.
static double decimals_at(const uint8_t *p, int64_t n, int64_t i, int planes)
{
    uint32_t u = 0;
    for (int b = 0; b < planes; b++) u |= (uint32_t)p[b * n + i] << 8 * b;
    return (u & 1 ? -1. : 1.) * (u >> 1);
}
TEST(queries_and_keys_of_short_texts_have_the_decimals_that_are_printed)
{
    enum { T = 15, H = 3, E = 32 };
    // halves of the last decimal are rounded away from 0, and 0 has no sign
    static const float ties[] = { .03125f, -.03125f, 2.00005f, -1.5f, 838.8607f, -1e-7f };
    struct made *m = malloc(sizeof *m);
    make(m, T, 1, H, H, E, false);
    EACH(x, ties) m->q[x - ties] = *x;
    for (int odd = 0; odd < 3; odd++) {
        if (odd) m->k[7] = odd == 1 ? 838.87f : NAN; // more than 24 bits; no number
        qkv_view *v = view_of(m);
        struct qkv_view_report r;
        struct page p;
        char *html = html_of(v, &(struct qkv_view_options){ 0 }, &r);
        CHECK(page_open(&p, html));
        CHECK_TEXT(array_kind(&p, "w", 0), "f32");
        CHECK_TEXT(array_kind(&p, "q", 0), "d24");
        CHECK_TEXT(array_kind(&p, "k", 0), odd ? "i14" : "d24");
        const uint8_t *q = array(&p, "q", 0);
        for (int64_t h = 0; h < H; h++)
            for (int64_t i = 0; i < T; i++)
                for (int64_t e = 0; e < E; e++) {
                    const double x = (double)m->q[(i * H + h) * E + e];
                    struct view_text t = { 0 }, mine = { 0 };
                    view_number(&t, x, 4);
                    view_number(&mine, decimals_at(q, H * T * E, (h * T + i) * E + e, 3) / 1e4, 4);
                    CHECK_EQ(t.used, mine.used);
                    CHECK(!memcmp(t.at, mine.at, (size_t)t.used));
                    view_text_free(&t);
                    view_text_free(&mine);
                }
        page_close(&p);
        free(html);
        qkv_view_free(v);
    }
    unmake(m);
    free(m);
}

// Floats have 25 bits of information, decimals of such numbers at most 19: 4 bytes become 2.5.
TEST(a_page_of_a_short_text_is_small)
{
    enum { T = 15, L = 6, H = 12, E = 32 };
    struct made *m = malloc(sizeof *m);
    make(m, T, L, H, H, E, false);
    qkv_view *v = view_of(m);
    struct qkv_view_report r;
    char *html = html_of(v, &(struct qkv_view_options){ 0 }, &r);
    const int64_t weights = 4 * L * H * T * (T + 1), vectors = 2 * L * H * T * E * 5 / 2;
    CHECK(r.bytes < view_code_bytes() + (weights + vectors) * 4 / 3 + 30000);
    free(html);
    qkv_view_free(v);
    unmake(m);
    free(m);
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
    int unnoticed = 0;
    struct page p, whole;
    CHECK(page_open(&whole, html));
    for (size_t i = 0; i < n; i++) {
        if (block[i] == '=') continue;
        const char was = block[i];
        block[i] = was == 'A' ? 'B' : 'A';
        if (page_open(&p, html)) { // bits that deflate ignores: nothing is damaged
            CHECK(p.size == whole.size && !memcmp(p.bytes, whole.bytes, (size_t)p.size));
            unnoticed++;
            page_close(&p);
        }
        block[i] = was;
    }
    CHECK(unnoticed < 8);
    page_close(&whole);
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
    EACH(T, lengths)
    {
        struct made *m = malloc(sizeof *m);
        make(m, *T, 1, 2, 2, 8, false);
        m->lse[3] = -INFINITY;       // head 0, row 3
        m->q[(5 * 2 + 1) * 8] = NAN; // head 1, row 5
        m->lse[*T + 5] = NAN;
        qkv_view *v = view_of(m);
        struct qkv_view_report r;
        struct page p;
        char *html = html_of(v, NULL, &r);
        CHECK(page_open(&p, html));
        CHECK_EQ(r.not_numbers, 1);
        CHECK(strstr(html, "1 row contains NaN or Inf"));
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

// ---- what heads do ------------------------------------------------------------------------------
// One layer of heads over tokens whose keys are the unit vectors: a row attends as `target`
// returns.
static const char *kind_of(int64_t T, const char *const *words,
                           int64_t (*target)(int64_t i, int64_t T), bool special)
{
    enum { E = 64 };
    static char text[16];
    struct qkv_view_token *token = zeros(T, sizeof *token);
    float *q = zeros(T * E, sizeof *q), *k = zeros(T * E, sizeof *k), *lse = zeros(T, sizeof *lse);
    char(*names)[16] = zeros(T, sizeof *names);
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
    const struct qkv_view_text tokens = { .token = token, .tokens = T };
    const struct qkv_view_stack stack = { "attention", 0, 0, 1, 1, 1, E, .causal = false };
    const struct qkv_view_shape s = { "m", &tokens, 1, &stack, 1 };
    CHECK_EQ(qkv_view_new(&v, &s, &err), QKV_OK);
    const struct qkv_view_layer_data seen = { .q = q, .k = k, .lse = lse, .scale = 1 };
    CHECK_EQ(qkv_view_layer(v, 0, 0, &seen, &err), QKV_OK);
    snprintf(text, sizeof text, "%s", qkv_view_head(v, 0, 0, 0).kind);
    qkv_view_free(v);
    free(token);
    free(names);
    free(q);
    free(k);
    free(lse);
    return text;
}
static int64_t before(int64_t i, int64_t T)
{
    (void)T;
    return i - 1;
}
static int64_t after(int64_t i, int64_t T)
{
    return i + 1 < T ? i + 1 : i;
}
static int64_t self(int64_t i, int64_t T)
{
    (void)T;
    return i;
}
static int64_t fourth(int64_t i, int64_t T)
{
    (void)i;
    (void)T;
    return 4;
}
static int64_t nowhere(int64_t i, int64_t T)
{
    (void)i;
    (void)T;
    return -1;
}
static int64_t first(int64_t i, int64_t T)
{
    (void)i;
    (void)T;
    return 0;
}
static int64_t half_away(int64_t i, int64_t T)
{
    return (i + T / 2) % T;
}
static int64_t copied(int64_t i, int64_t T)
{
    return i >= T / 2 ? i - T / 2 + 1 : 0;
}
static int64_t scattered(int64_t i, int64_t T)
{
    return (i * 7 + 3) % T;
}

TEST(each_kind_of_head_is_told)
{
    static const char *const twice[] = {
        "a", "b", "c", "d", "e", "f", "a", "b", "c", "d", "e", "f"
    };
    CHECK_TEXT(kind_of(12, NULL, before, false), "previous");
    CHECK_TEXT(kind_of(12, NULL, after, false), "next");
    CHECK_TEXT(kind_of(12, NULL, self, true), "itself");
    CHECK_TEXT(kind_of(12, NULL, fourth, true), "vertical");
    CHECK_TEXT(kind_of(12, NULL, nowhere, true), "diffuse");
    CHECK_TEXT(kind_of(12, NULL, first, true), "sink");
    CHECK_TEXT(kind_of(12, twice, half_away, false), "same word");
    CHECK_TEXT(kind_of(12, twice, copied, false), "induction");
    CHECK_TEXT(kind_of(12, NULL, scattered, false), "other");
    CHECK_TEXT(kind_of(7, NULL, before, false), ""); // too short for kinds
}

// Rows with all weight except `rest` on the special tokens at both ends, the rest uniform over the
// words.
static char *sentence_of_rest(char out[200], int64_t T, float rest)
{
    struct qkv_view_token *token = zeros(T, sizeof *token);
    float *q = zeros(T, sizeof *q), *k = zeros(T, sizeof *k), *lse = zeros(T, sizeof *lse);
    const float each = logf(rest / (float)(T - 2)), ends = logf((1 - rest) / 2);
    for (int64_t i = 0; i < T; i++) {
        const bool special = i == 0 || i == T - 1;
        token[i] = (struct qkv_view_token){ .raw = special ? "[S]" : "w", .special = special };
        q[i] = 1;
        k[i] = special ? ends : each;
    }
    qkv_view *v;
    qkv_error err = { 0 };
    const struct qkv_view_text text_of = { .token = token, .tokens = T };
    const struct qkv_view_stack stack = { "attention", 0, 0, 1, 1, 1, 1, .causal = false };
    const struct qkv_view_shape s = { "m", &text_of, 1, &stack, 1 };
    CHECK_EQ(qkv_view_new(&v, &s, &err), QKV_OK);
    const struct qkv_view_layer_data seen = { .q = q, .k = k, .lse = lse, .scale = 1 };
    CHECK_EQ(qkv_view_layer(v, 0, 0, &seen, &err), QKV_OK);
    qkv_view_sentence(v, NULL, out, 200);
    qkv_view_free(v);
    free(token);
    free(q);
    free(k);
    free(lse);
    return out;
}

TEST(a_head_that_reads_no_word_does_not_boast_of_one)
{
    static const char nothing[] =
        "In layer 0, head 0 attends to no other token above the uniform weight.";
    char text[200];
    CHECK_TEXT(sentence_of_rest(text, 5, .6f),
               "In layer 0, head 0 attends most from “w₁” to “w₂” .20.");
    CHECK_TEXT(sentence_of_rest(text, 5, .29f), nothing); // .097 a word, under 1/(2 5)
    CHECK_TEXT(sentence_of_rest(text, 5, .001f), nothing);
    CHECK_TEXT(sentence_of_rest(text, 3, .5f), nothing); // one word: no other token
}

// ---- files and memory
// ----------------------------------------------------------------------------
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
        { { .layer = &(int64_t){ 2 } }, QKV_ERR_USAGE, "unknown layer 2, expected 0 to 1" },
        { { .heads = (int64_t[]){ 0, -1 }, .head_count = 2 },
          QKV_ERR_USAGE,
          "unknown head -1, expected 0 to 1" },
        { { .token = &(int64_t){ 10 } }, QKV_ERR_USAGE, "unknown token 10, expected 0 to 9" },
        { { .budget = 1000 }, QKV_ERR_LIMIT, "choose a larger budget" },
    };
    EACH(c, calls)
    {
        qkv_error err = { 0 };
        CHECK_EQ(qkv_view_html(v, place("refused.html"), false, &c->o, NULL, &err), c->status);
        CHECK(strstr(err.text, c->says));
        CHECK(!exists(place("refused.html")));
    }
    qkv_error err = { 0 };
    const struct qkv_view_layer_data seen = { .q = m->q, .k = m->k, .lse = m->lse },
                                     nothing = { 0 };
    CHECK_EQ(qkv_view_layer(v, 0, 2, &seen, &err), QKV_ERR_USAGE);
    CHECK_EQ(qkv_view_layer(v, 1, 0, &seen, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_view_layer(v, 0, 0, &nothing, NULL), QKV_ERR_USAGE);
    struct qkv_view_stack bad = m->stack;
    struct qkv_view_text empty = m->text;
    struct qkv_view_shape shape = m->shape;
    shape.stack = &bad;
    bad.kv_heads = 3;
    CHECK_EQ(qkv_view_new(&none, &shape, NULL), QKV_ERR_USAGE);
    bad = m->stack;
    bad.keys = 1;
    CHECK_EQ(qkv_view_new(&none, &shape, NULL), QKV_ERR_USAGE);
    bad = m->stack;
    bad.layers = INT64_MAX / 4;
    CHECK_EQ(qkv_view_new(&none, &shape, NULL), QKV_ERR_LIMIT);
    shape = m->shape;
    shape.text = &empty;
    empty.tokens = 0;
    CHECK_EQ(qkv_view_new(&none, &shape, NULL), QKV_ERR_USAGE);
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
    EACH(T, lengths)
    {
        struct made *m = malloc(sizeof *m);
        make(m, *T, 2, 2, 1, 4, false);
        qkv_allocator_set(&counted);
        qkv_status status = QKV_ERR_LIMIT;
        int64_t n = 0;
        // late allocations fail alike: beyond 600 in steps
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

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(rows_are_the_softmax_of_the_scores),
        CASE(the_error_that_is_claimed_is_the_error_that_is_there),
        CASE(queries_and_keys_of_short_texts_have_the_decimals_that_are_printed),
        CASE(a_page_of_a_short_text_is_small),
        CASE(the_same_input_gives_the_same_bytes_for_any_threads),
        CASE(a_cut_or_flipped_block_is_noticed),
        CASE(rows_that_read_nothing_or_are_not_numbers_stay_what_they_are),
        CASE(each_kind_of_head_is_told),
        CASE(a_head_that_reads_no_word_does_not_boast_of_one),
        CASE(what_is_not_there_is_refused),
        CASE(an_existing_file_is_kept_unless_told),
        CASE(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(cases, NULL, sweep);
}
