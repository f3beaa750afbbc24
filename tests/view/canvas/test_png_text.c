// SPDX-License-Identifier: MIT
// test_png_text.c: texts in PNG files. Words that are written from right to left are reordered,
// letters join, and a text is as wide as its picture.
#include "base/faults.h"
#include "view/canvas/canvas.h"
#include "view/xml.h"

enum { SIZE = 40, X = 20 };
static struct canvas s;

static void begin(void)
{
    canvas_init(&s, "a.png");
    canvas_new(&s, 600, "title", "sentence");
    s.height = 100;
}

// Draws a text with its left end at x. Returns its right end.
static double put(double x, unsigned how, const char *text)
{
    canvas_text(&s, x, 70, SIZE, how, PALETTE_TEXT, text, strlen(text));
    return x + canvas_width(&s, text, strlen(text), SIZE, how);
}

// Returns the bytes of the PNG file of the canvas and frees the canvas.
static char *end(size_t *n)
{
    struct view_text t = { 0 };
    qkv_error err = { 0 };
    if (canvas_png(&t, &s, "a.png", QKV_THEME_LIGHT, &err)) fail_msg("%s", err.text);
    char *bytes = malloc((size_t)t.used);
    if (!bytes) fail_msg("memory is exhausted");
    memcpy(bytes, t.at, *n = (size_t)t.used);
    view_text_free(&t);
    canvas_free(&s);
    return bytes;
}

static bool has_font(const char *code)
{
    char line[256], command[128];
    snprintf(command, sizeof command, "fc-list ':charset=%s:scalable=true' file 2>&1", code);
    FILE *fonts = popen(command, "r");
    const bool has = fonts && fgets(line, sizeof line, fonts) && line[0] == '/';
    if (fonts) pclose(fonts);
    return has;
}

static double width(unsigned how, const char *text)
{
    begin();
    const double w = put(0, how, text);
    canvas_free(&s);
    return w;
}

// Each text looks like its parts, given in the order in which they are seen from left to right.
TEST(right_to_left_words_are_reordered)
{
    static const struct {
        const char *text, *part[5];
    } rows[] = {
        { "\u05d0\u05d1", { "\u05d1", "\u05d0" } },
        { "\u05d0\u05d1\u05dd", { "\u05dd", "\u05d1", "\u05d0" } },
        { "a \u05d0\u05d1 b", { "a ", "\u05d1", "\u05d0", " b" } },
        { "\u05d0\u05d1 \u05dd", { "\u05dd", " ", "\u05d1", "\u05d0" } },
        { "\u05d0 7", { "\u05d0", " 7" } }, // the number is no part of the word
        { "\u05d0\u2085, \u05d1", { "\u2085", "\u05d0", ", ", "\u05d1" } }, // its place is
        { "12\u05d0\u05d134", { "12", "\u05d1", "\u05d0", "34" } },
    };
    static const unsigned styles[] = { 0, CANVAS_SERIF, CANVAS_BOLD };
    if (!has_font("5d0")) return;
    EACH(how, styles)
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t n[3];
        double x = X, back = X;
        begin();
        const double last = put(X, *how, rows[i].text);
        char *whole = end(&n[0]);
        begin();
        for (int k = 0; k < 5 && rows[i].part[k]; k++) x = put(x, *how, rows[i].part[k]);
        char *parts = end(&n[1]);
        begin();
        for (int k = 4; k >= 0; k--)
            if (rows[i].part[k]) back = put(back, *how, rows[i].part[k]);
        char *reversed = end(&n[2]);
        CHECK(fabs(x - last) < .02 && x > X + SIZE / 2);
        if (n[0] != n[1] || memcmp(whole, parts, n[0]) != 0)
            fail_msg("row %zu, style %u: another order", i, *how);
        CHECK(n[0] != n[2] || memcmp(whole, reversed, n[0]) != 0);
        free(whole);
        free(parts);
        free(reversed);
    }
}

TEST(letters_join)
{
    static const struct {
        const char *code, *text, *letter[4];
    } rows[] = {
        { "628", "\u0628\u0628\u0628", { "\u0628", "\u0628", "\u0628" } },
        { "644", "\u0644\u0627", { "\u0644", "\u0627" } },
        { "915", "\u0915\u094d\u0937", { "\u0915", "\u094d", "\u0937" } },
        { "937", "\u0928\u093f", { "\u0928", "\u093f", "\u0928" } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double alone = 0;
        if (!has_font(rows[i].code)) continue;
        for (int k = 0; k < 4 && rows[i].letter[k]; k++) alone += width(0, rows[i].letter[k]);
        const double joined = width(0, rows[i].text);
        if (!(joined > SIZE / 5 && joined < .9 * alone))
            fail_msg("row %zu: %.2f wide, its letters %.2f", i, joined, alone);
    }
}

TEST(a_mark_has_no_width_and_letters_of_latin_stay)
{
    CHECK(fabs(width(0, "e\u0301e") - width(0, "ee")) < .05 * SIZE);
    CHECK(fabs(width(0, "he is \u05d0") - width(0, "he is ") - width(0, "\u05d0")) < .02 * SIZE);
    for (int i = 0; i < 2; i++) { // long texts of both directions
        char text[4001] = "";
        for (int k = 0; k < 1000; k++) strcat(text, i ? "\u05d0a" : "\u0628 ");
        CHECK(width(0, text) > 1000 * SIZE / 8);
    }
}

static qkv_status flow(void *ctx, qkv_error *err)
{
    static const char text[] = "a \u05d0\u05d1 \u0628\u0628 b";
    struct view_text t = { 0 };
    (void)ctx;
    begin();
    canvas_text(&s, X, 70, SIZE, CANVAS_MIDDLE, PALETTE_TEXT, text, strlen(text));
    const qkv_status status = canvas_png(&t, &s, "a.png", QKV_THEME_LIGHT, err);
    view_text_free(&t);
    canvas_free(&s);
    return status;
}

TEST(shaping_without_memory_is_an_error)
{
    CHECK(faults_walk(flow, NULL, true) > 5);
}

CHECK_MAIN(CASE(right_to_left_words_are_reordered), CASE(letters_join),
           CASE(a_mark_has_no_width_and_letters_of_latin_stay),
           CASE(shaping_without_memory_is_an_error))
