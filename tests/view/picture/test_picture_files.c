// SPDX-License-Identifier: MIT
// test_picture_files.c: every view as SVG and PNG: valid files, names as text, the numbers of
// qkv_view_row; the steps of one query end at the weight of the layer.
#include "base/faults.h"
#include "view/made.h"
#include "view/made_output.h"
#include "model/folder.h"
#include "view/picture/picture_internal.h"
#include "view/xml.h"
#include <inttypes.h>

static struct made made;

static qkv_view *view_new(int64_t T, int64_t L, int64_t H, int64_t G, bool causal)
{
    qkv_view *v = NULL;
    qkv_error err = { 0 };
    make(&made, T, L, H, G, 8, causal);
    made.stack.value_width = 6;
    made.stack.width = 8;
    if (qkv_view_new(&v, &made.shape, &err)) fail_msg("%s", err.text);
    float *values = zeros(T * G * 6, sizeof *values);
    for (int64_t i = 0; i < T * G * 6; i++) values[i] = (float)check_gauss();
    for (int64_t l = 0; l < L; l++) {
        const struct qkv_view_layer_data seen = { .q = made.q + l * T * H * 8,
                                                  .k = made.k + l * T * G * 8,
                                                  .v = values,
                                                  .lse = made.lse + l * H * T,
                                                  .scale = .25f };
        if (qkv_view_layer(v, 0, l, &seen, &err)) fail_msg("%s", err.text);
    }
    free(values);
    give_stream(v, &made);
    CHECK_EQ(give_output(v, T, L,
                         T == 1     ? QKV_VIEW_OUTPUT_LABELS
                         : T == 70  ? QKV_VIEW_OUTPUT_SHARES
                         : T == 140 ? QKV_VIEW_OUTPUT_TOKEN_LABELS
                                    : QKV_VIEW_OUTPUT_NEXT),
             QKV_OK);
    if (qkv_view_compare(v, v, &err)) fail_msg("%s", err.text); // for the picture of two views
    return v;
}

static char *drawn(const qkv_view *v, const char *name, const struct qkv_view_options *o,
                   const int64_t *key, size_t *bytes)
{
    char path[1024];
    qkv_error err = { 0 };
    snprintf(path, sizeof path, "%s", folder_name(name));
    if (qkv_view_picture(v, path, true, o, key, &err)) fail_msg("%s: %s", name, err.text);
    return folder_load(path, bytes);
}

TEST(every_view_is_well_formed_and_the_same_twice)
{
    static const int64_t lengths[] = { 1, 2, 14, 70, 140 };
    folder_new();
    EACH(T, lengths)
    {
        qkv_view *v = view_new(*T, 2, 4, 2, *T == 70);
        const char *name;
        for (int i = 0; (name = qkv_view_picture_name(i)) != NULL; i++)
            for (int marked = 0; marked < 2; marked++) {
                const int64_t token = *T / 2;
                const struct qkv_view_options o = { .view = name, .token = marked ? &token : NULL };
                size_t n, m;
                char *a = drawn(v, "a.svg", &o, NULL, &n), *b = drawn(v, "b.svg", &o, NULL, &m);
                const char *wrong = xml_wrong(a);
                if (wrong) fail_msg("%s of %d tokens: %s", name, (int)*T, wrong);
                CHECK(n == m && !memcmp(a, b, n));
                CHECK(!strstr(a, "nan") && !strstr(a, "<script") && !strstr(a, " style="));
                CHECK(strstr(a, "<desc id=\"finding\">") != NULL);
                CHECK(n < 500000);
                free(a);
                free(b);
            }
        qkv_view_free(v);
        unmake(&made);
    }
}

TEST(the_description_is_the_sentence_of_the_view)
{
    char sentence[1024];
    size_t n;
    qkv_view *v = view_new(14, 2, 4, 2, false);
    const int64_t token = 5;
    const struct qkv_view_options o = { .token = &token };
    folder_new();
    char *svg = drawn(v, "a.svg", &o, NULL, &n), *desc = between(svg, "id=\"finding\">", "<");
    CHECK(desc != NULL);
    qkv_view_sentence(v, &o, sentence, sizeof sentence);
    CHECK_TEXT(desc, sentence);
    free(desc);
    free(svg);
    qkv_view_free(v);
    unmake(&made);
}

TEST(the_curve_of_the_marked_key_is_drawn_also_among_many)
{
    folder_new();
    qkv_view *v = view_new(56, 2, 4, 2, false);
    const int64_t token = 35, key = 20, layer = 1, head = 0;
    const struct qkv_view_options o = {
        .view = "steps", .token = &token, .layer = &layer, .heads = &head, .head_count = 1
    };
    char curve[64];
    size_t n;
    char *svg = drawn(v, "a.svg", &o, &key, &n);
    snprintf(curve, sizeof curve, "<path class=\"n s%d\" stroke-width=\"2\"", PALETTE_TEXT);
    CHECK(strstr(svg, curve) != NULL);
    free(svg);
    qkv_view_free(v);
    unmake(&made);
}

TEST(two_views_show_the_weights_of_the_same_query)
{
    size_t n;
    const int64_t token = 5, layer = 1, head = 3;
    const struct qkv_view_options o = {
        .view = "compare", .token = &token, .layer = &layer, .heads = &head, .head_count = 1
    };
    qkv_error err = { 0 };
    float row[14];
    char weight[16];
    folder_new();
    qkv_view *v = view_new(14, 2, 4, 2, false);
    char *svg = drawn(v, "a.svg", &o, NULL, &n);
    qkv_view_row(v, row, 0, layer, head, token);
    for (int j = 0; j < 14; j++) { // each weight is in the column of either view
        snprintf(weight, sizeof weight, ">%.2f<", (double)row[j]);
        char *shown = weight[1] == '0' ? weight + 1 : weight;
        *shown = '>';
        const char *first = strstr(svg, shown);
        CHECK(made.token[j].special || (first && strstr(first + 1, shown)));
    }
    free(svg);
    qkv_view_free(v);
    v = view_of(&made); // compared with nothing
    CHECK_EQ(qkv_view_picture(v, folder_name("b.svg"), true, &o, NULL, &err), QKV_ERR_USAGE);
    CHECK(strstr(err.text, "second view") != NULL);
    qkv_view_free(v);
    unmake(&made);
}

// Texts of the SVG are measured with other fonts, so that its size is only close.
TEST(a_png_has_two_pixels_a_unit)
{
    struct png p;
    size_t n;
    qkv_view *v = view_new(14, 2, 4, 2, true);
    const char *name;
    folder_new();
    for (int i = 0; (name = qkv_view_picture_name(i)) != NULL; i++) {
        const struct qkv_view_options o = { .view = name };
        int w = 0, h = 0;
        char *svg = drawn(v, "a.svg", &o, NULL, &n), *at = strstr(svg, "width=\"");
        CHECK(at && sscanf(at, "width=\"%d\" height=\"%d\"", &w, &h) == 2);
        char *png = drawn(v, "a.png", &o, NULL, &n);
        CHECK(png_read(&p, (const uint8_t *)png, n));
        CHECK(p.width % 2 == 0 && p.height % 2 == 0 && p.title && p.words);
        CHECK(fabs(p.width / 2. - w) <= w / 10. && fabs(p.height / 2. - h) <= h / 10.);
        free(svg);
        free(png);
    }
    qkv_view_free(v);
    unmake(&made);
}

TEST(a_printed_width_is_in_the_file)
{
    static const double mm[] = { 0, 84, 174 };
    qkv_view *v = view_new(14, 2, 4, 2, true);
    const char *name;
    folder_new();
    for (int i = 0; (name = qkv_view_picture_name(i)) != NULL; i++)
        for (int size = 1; size < 3; size++) {
            const struct qkv_view_options o = { .view = name, .size = (enum qkv_view_size)size };
            struct png p;
            size_t n;
            double w = 0, h = 0;
            int across = 0, down = 0;
            char *svg = drawn(v, "a.svg", &o, NULL, &n), *at = strstr(svg, "width=\"");
            CHECK(at && sscanf(at, "width=\"%lfmm\" height=\"%lfmm\" viewBox=\"0 0 %d %d\"", &w, &h,
                               &across, &down) == 4);
            // .21 mm per unit: a text of size 11 has 6.5 points
            CHECK(fabs(w - mm[size]) < 1e-9);
            CHECK_NEAR(w / across, .21, .001);
            CHECK_NEAR(h / down, w / across, .01 / down + 1e-9);
            for (const char *font = svg; (font = strstr(font, "{font:")) != NULL; font++) {
                const char *px = font + strcspn(font, "0123456789;");
                const bool weight = strtol(px, NULL, 10) >= 100; // such as 600
                CHECK(strtol(weight ? px + strcspn(px, " ") : px, NULL, 10) >= 11);
            }
            char *png = drawn(v, "a.png", &o, NULL, &n);
            CHECK(png_read(&p, (const uint8_t *)png, n));
            CHECK_EQ(p.width, 3 * across);
            CHECK_NEAR(p.density, p.width / mm[size] * 1000, 1);
            free(svg);
            free(png);
        }
    qkv_view_free(v);
    unmake(&made);
}

TEST(hostile_tokens_stay_text)
{
    static const char evil[] = "</svg><script>alert(1)</script>&\"'\x1b[31m\xff\xe2\x80\xae\n]]>";
    static const char nul[] = "a\0b";
    char *word = malloc(10001);
    memset(word, 'x', 10000);
    word[10000] = 0;
    qkv_view *v = view_new(14, 1, 2, 2, false);
    made.shape.model = evil;
    made.token[2].text = evil, made.token[2].text_bytes = sizeof evil - 1;
    made.token[3].text = nul, made.token[3].text_bytes = 3;
    made.token[4].text = word, made.token[4].text_bytes = 10000;
    made.token[5].raw = evil, made.token[5].text = NULL;
    const char *name;
    folder_new();
    for (int i = 0; (name = qkv_view_picture_name(i)) != NULL; i++) {
        const int64_t token = 2, key = 4;
        const struct qkv_view_options o = { .view = name, .token = &token };
        size_t n;
        char *svg = drawn(v, "a.svg", &o, &key, &n);
        const char *wrong = xml_wrong(svg);
        if (wrong) fail_msg("%s: %s", name, wrong);
        CHECK(strlen(svg) == n && !strstr(svg, "<script") && !strstr(svg, "\xe2\x80\xae"));
        free(svg);
        free(drawn(v, "a.png", &o, &key, &n));
    }
    free(word);
    qkv_view_free(v);
    unmake(&made);
}

TEST(right_to_left_words_are_isolated_from_numbers_after_them)
{
    static const char word[] = "\u05e9\u05dc\u05d5\u05dd"; // shalom
    static const char *const names[] = { "heads", "matrix" };
    folder_new();
    make(&made, 14, 2, 4, 2, 8, false);
    for (int j = 0; j < 14; j++)
        if (j != 3 && !made.token[j].special)
            made.token[j].text = word, made.token[j].text_bytes = sizeof word - 1;
    made.token[3].text = "\u0645 \u0645!", made.token[3].text_bytes = 6;
    qkv_view *v = view_of(&made);
    for (int i = 0; i < 2; i++) {
        const int64_t token = 5;
        const struct qkv_view_options o = { .view = names[i], .token = &token };
        size_t n;
        int seen = 0;
        char *svg = drawn(v, "a.svg", &o, NULL, &n), *at = strstr(svg, "</desc>");
        if (xml_wrong(svg)) fail_msg("%s: %s", names[i], xml_wrong(svg));
        for (; at && (at = strstr(at, word)) != NULL; at++, seen++)
            CHECK(!strncmp(at - 3, "\u2068", 3));
        CHECK(seen > 5 && strstr(svg, "\u05dd\u2085\u2069") != NULL); // with its place
        CHECK(strstr(svg, ">\u2068\u0645 \u0645\u2069!<") != NULL);
        free(svg);
    }
    qkv_view_free(v);
    unmake(&made);
}

// Of two characters that no font has the boxes are equal, of two others the pictures differ.
TEST(a_png_uses_every_font_of_the_machine)
{
    static const struct {
        const char *code, *one, *other;
    } scripts[] = {
        { "915", "\u0915", "\u0916" },  { "995", "\u0995", "\u0996" },
        { "a95", "\u0a95", "\u0a96" },  { "c15", "\u0c15", "\u0c16" },
        { "d15", "\u0d15", "\u0d16" },  { "e01", "\u0e01", "\u0e02" },
        { "10d0", "\u10d0", "\u10d1" }, { "1780", "\u1780", "\u1781" },
        { "1200", "\u1200", "\u1201" }, { "4e00", "\u4e00", "\u4e09" },
    };
    folder_new();
    for (size_t k = 0; k < sizeof scripts / sizeof *scripts; k++) {
        char line[256], command[128];
        snprintf(command, sizeof command, "fc-list ':charset=%s:scalable=true' file 2>&1",
                 scripts[k].code);
        FILE *fonts = popen(command, "r");
        const bool has = fonts && fgets(line, sizeof line, fonts) && line[0] == '/';
        if (fonts) pclose(fonts);
        if (!has) continue;
        const int64_t token = 5;
        const struct qkv_view_options o = { .view = "heads", .token = &token };
        size_t n[2];
        char *png[2];
        for (int i = 0; i < 2; i++) {
            make(&made, 14, 2, 4, 2, 8, false);
            made.token[10].text = i ? scripts[k].other : scripts[k].one;
            made.token[10].text_bytes = 3;
            qkv_view *v = view_of(&made);
            png[i] = drawn(v, "a.png", &o, NULL, &n[i]);
            qkv_view_free(v);
            unmake(&made);
        }
        if (n[0] == n[1] && !memcmp(png[0], png[1], n[0]))
            fail_msg("U+%s is drawn as a box, but %s has it", scripts[k].code, line);
        free(png[0]);
        free(png[1]);
    }
}

TEST(a_weight_that_prints_as_zero_has_no_bar)
{
    const struct qkv_view_options o = { .view = "heads" };
    double wide = 99;
    size_t n;
    folder_new();
    make(&made, 4, 1, 1, 1, 8, false);
    for (int i = 0; i < 4 * 8; i++) { // scores: 6 of special tokens, -6 of the only word
        made.q[i] = 1;
        made.k[i] = made.token[i / 8].special ? 3 : -3;
    }
    for (int i = 0; i < 4; i++) made.lse[i] = 6 + logf(3);
    qkv_view *v = view_of(&made);
    char *svg = drawn(v, "a.svg", &o, NULL, &n), *zero = strstr(svg, ">.00</text>"), *bar = NULL;
    CHECK(zero != NULL);
    for (char *at = svg; (at = strstr(at, "<rect")) != NULL && at < zero; at++) bar = at;
    CHECK(bar && sscanf(strstr(bar, "width="), "width=\"%lf", &wide) == 1 && wide < 2);
    free(svg);
    qkv_view_free(v);
    unmake(&made);
}

TEST(what_is_not_there_is_refused)
{
    qkv_view *v = view_new(14, 1, 2, 2, false);
    qkv_error err = { 0 };
    const int64_t far = 14;
    struct qkv_view_options o = { .view = "nothing" };
    char path[1024];
    folder_new();
    snprintf(path, sizeof path, "%s", folder_name("a.svg"));
    CHECK_EQ(qkv_view_picture(v, path, true, &o, NULL, &err), QKV_ERR_USAGE);
    o.view = "steps";
    CHECK_EQ(qkv_view_picture(v, path, true, &o, &far, NULL), QKV_ERR_USAGE);
    o.token = &far;
    CHECK_EQ(qkv_view_picture(v, path, true, &o, NULL, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_view_picture(v, folder_name("a.gif"), true, NULL, NULL, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_view_picture(v, path, false, NULL, NULL, NULL), QKV_OK);
    CHECK_EQ(qkv_view_picture(v, path, false, NULL, NULL, NULL), QKV_ERR_USAGE); // exists
    qkv_view_free(v);
    v = NULL;
    CHECK_EQ(qkv_view_new(&v, &made.shape, NULL), QKV_OK);
    float *w = zeros(2 * 14 * 14, sizeof *w);
    for (int i = 0; i < 2 * 14; i++) w[i * 14] = 1;
    const struct qkv_view_layer_data seen = { .weights = w };
    CHECK_EQ(qkv_view_layer(v, 0, 0, &seen, NULL), QKV_OK);
    o = (struct qkv_view_options){ .view = "neuron" };
    err = (qkv_error){ 0 };
    CHECK_EQ(qkv_view_picture(v, path, true, &o, NULL, &err), QKV_ERR_UNSUPPORTED);
    o.view = "residual";
    CHECK_EQ(qkv_view_picture(v, path, true, &o, NULL, &err), QKV_ERR_UNSUPPORTED);
    free(w);
    qkv_view_free(v);
    unmake(&made);
}

// Of 60 tokens "w%d" (made.h) the first 20 words occur twice, apart from special tokens.
static int64_t places_of(int64_t number)
{
    int64_t n = 0;
    for (int64_t i = 0; i < 60; i++) n += i * 7 % 40 == number && !made.token[i].special;
    return n;
}

TEST(a_word_that_occurs_twice_carries_its_place_in_every_picture)
{
    static const char *const views[] = { "heads", "neuron", "steps", "residual", "compare" };
    const int64_t token = 45, key = 5;
    folder_new();
    qkv_view *v = view_new(60, 2, 4, 2, false);
    EACH(name, views)
    {
        const struct qkv_view_options o = { .view = *name, .token = &token };
        size_t n;
        char *svg = drawn(v, "a.svg", &o, &key, &n);
        int64_t twice = 0, once = 0, number;
        for (const char *at = svg; (at = strstr(at, ">w")) != NULL; at++) {
            if (sscanf(at, ">w%" SCNd64, &number) < 1) continue; // "w v"
            const char *end = at + 2 + strspn(at + 2, "0123456789");
            const bool place = !strncmp(end, "\xE2\x82", 2);
            if (!place && *end != '<') continue; // a text that begins with this word
            if (place != (places_of(number) > 1))
                fail_msg("%s: w%d with%s a place", *name, (int)number, place ? "" : "out");
            *(place ? &twice : &once) += 1;
        }
        CHECK(twice > 1 && once > 1);
        free(svg);
    }
    qkv_view_free(v);
    unmake(&made);
}

TEST(a_name_that_is_cut_keeps_its_place)
{
    static const char *const names[][2] = { { "internationalization₁₂", "…₁₂" },
                                            { "internationalization", "…" },
                                            { "internationalization₂", "…₂" },
                                            { "inter₃nationalization", "…" } };
    const struct canvas s = { 0 };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int width = 60; width < 90; width += 5) {
            const char *name = names[i][0], *end = names[i][1];
            struct view_text t = { 0 };
            canvas_shorten(&t, &s, 12, 0, name, strlen(name), width);
            const size_t n = (size_t)t.used, ends = strlen(end);
            CHECK(n > ends && !memcmp(t.at + n - ends, end, ends));
            CHECK(!memcmp(t.at, name, n - ends) && canvas_width(&s, t.at, n, 12, 0) <= width);
            view_text_free(&t);
        }
}

TEST(a_fold_of_keys_has_two_or_more)
{
    for (int causal = 0; causal < 2; causal++) {
        int folds = 0, masked = 0;
        qkv_view *v = view_new(140, 1, 4, 2, causal);
        for (int64_t h = 0; h < 4; h++)
            for (int64_t i = 0; i < 140; i++) {
                struct score s;
                struct score_line line[SCORE_LINES];
                int64_t next = 0;
                CHECK_EQ(score_of(&s, &v->stack[0], 0, h, i, NULL), QKV_OK);
                const int n = score_lines(line, &s, 3);
                for (int k = 0; k < n; k++) {
                    const struct score_line *l = &line[k];
                    CHECK_EQ(l->from, next);
                    CHECK(l->key < 0 ? l->n > 1 : l->n == 1 && l->key == next);
                    next += l->n;
                    folds += l->key < 0 && !l->masked;
                    masked += l->key < 0 && l->masked;
                }
                CHECK_EQ(next, 140);
                score_free(&s);
            }
        CHECK(folds > 100 && (masked > 100) == causal);
        qkv_view_free(v);
        unmake(&made);
    }
}

// The softmax of the products, step by step in double, against the row of the layer (float, from
// its lse).
TEST(a_query_taken_apart_comes_to_the_row)
{
    for (int causal = 0; causal < 2; causal++) {
        qkv_view *v = view_new(14, 2, 4, 2, causal);
        float row[14];
        double w[14];
        for (int64_t h = 0; h < 4; h++)
            for (int64_t i = 0; i < 14; i++) {
                struct score s;
                CHECK_EQ(score_of(&s, &v->stack[0], 1, h, i, NULL), QKV_OK);
                qkv_view_row(v, row, 0, 1, h, i);
                CHECK_NEAR(s.own, 4, 1e-6);
                const double keys = score_softmax(w, &s, s.own, NULL);
                double sum = 0;
                for (int64_t j = 0; j < 14; j++) {
                    CHECK_NEAR(s.w[j], (double)row[j], 0);
                    CHECK_NEAR(w[j], (double)row[j],
                               1e-5); // float scores of size 30: 30 * 2^-24 * 4
                    CHECK_EQ(score_masked(&s, j), causal && j > i);
                    sum += w[j];
                }
                CHECK_NEAR(sum, 1, 1e-12);
                CHECK(keys >= 1 - 1e-12 && keys <= 14);
                struct score_line line[SCORE_LINES];
                double all = 0;
                const int n = score_lines(line, &s, 3);
                for (int k = 0; k < n; k++) all += line[k].w;
                CHECK_NEAR(all, 1, 1e-5);
                score_free(&s);
            }
        qkv_view_free(v);
        unmake(&made);
    }
}

static qkv_status flow(void *ctx, qkv_error *err)
{
    const qkv_view *v = ctx;
    char path[1024];
    const char *name;
    qkv_status status = QKV_OK;
    snprintf(path, sizeof path, "%s", folder_name("a.svg"));
    for (int i = 0; (name = qkv_view_picture_name(i)) != NULL && !status; i++) {
        const struct qkv_view_options o = { .view = name };
        status = qkv_view_picture(v, path, true, &o, NULL, err);
    }
    return status;
}

TEST(failed_allocations_are_survived)
{
    qkv_view *v = view_new(5, 1, 2, 2, true);
    folder_new();
    CHECK(faults_walk(flow, v, true) > 20);
    qkv_view_free(v);
    unmake(&made);
}

CHECK_MAIN(CASE(every_view_is_well_formed_and_the_same_twice),
           CASE(the_description_is_the_sentence_of_the_view),
           CASE(the_curve_of_the_marked_key_is_drawn_also_among_many),
           CASE(two_views_show_the_weights_of_the_same_query), CASE(a_png_has_two_pixels_a_unit),
           CASE(right_to_left_words_are_isolated_from_numbers_after_them),
           CASE(a_png_uses_every_font_of_the_machine),
           CASE(a_weight_that_prints_as_zero_has_no_bar), CASE(a_printed_width_is_in_the_file),
           CASE(hostile_tokens_stay_text), CASE(what_is_not_there_is_refused),
           CASE(a_query_taken_apart_comes_to_the_row),
           CASE(a_word_that_occurs_twice_carries_its_place_in_every_picture),
           CASE(a_name_that_is_cut_keeps_its_place), CASE(a_fold_of_keys_has_two_or_more),
           CASE(failed_allocations_are_survived))
