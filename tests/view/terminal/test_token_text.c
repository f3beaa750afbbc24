// SPDX-License-Identifier: MIT
// test_token_text.c: tokens are shown as text everywhere, and the terminal picture keeps its width.
#include "view/canvas/text_canvas.h"
#include "view/made.h"

// ---- text ---------------------------------------------------------------------------------------
static int occurrences(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)) != NULL; text++) n++;
    return n;
}

TEST(noncharacters_and_controls_are_replaced)
{
    struct view_text plain = { 0 }, html = { 0 };
    static const char text[] =
        "a\xef\xbf\xbe\xef\xbf\xbf\xef\xb7\x90\xf0\x9f\xbf\xbe\xf0\x9f\xbf\xbdz\x1b";
    view_plain_text(&plain, text, sizeof text - 1, 100);
    view_html_text(&html, text, sizeof text - 1);
    CHECK_EQ(plain.used, 1 + 4 * 3 + 4 + 1 + 6); // the fifth, U+1FFFD, is a character
    CHECK(memcmp(plain.at,
                 "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xf0\x9f\xbf\xbdz<0x1B>",
                 (size_t)plain.used) == 0);
    CHECK_EQ(html.used, 1 + 4 * 3 + 4 + 1 + 3);
    view_text_free(&plain);
    view_text_free(&html);
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
    } evil[] = { { "</script><script>alert(1)</script>", 34 },
                 { "<!--", 4 },
                 { "]]>&quot;\"'`", 12 },
                 { nul, 3 },
                 { "\xff\xfe\xc0\x80", 4 },
                 { "\xe2\x80\xae"
                   "evil",
                   7 },
                 { "\n\r\t\x1b[31m", 8 },
                 { "{{packed}}", 10 },
                 { word, 1000000 },
                 { "\\u003c/script>", 14 },
                 { "\xe2\x80\xa8", 3 } };
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
    CHECK_EQ(occurrences(html, "<script>"), 1); // the loader
    CHECK_EQ(occurrences(html, "<script "), 3); // code, about, packed
    CHECK_EQ(occurrences(html, "</script>"), 4);
    CHECK_EQ(occurrences(html, "id=\"packed\""), 1);
    for (const unsigned char *c = (const unsigned char *)html; *c; c++)
        CHECK(*c >= 0x20 || *c == '\n' || *c == '\t'); // tabs: of the minified script
    // jansson takes valid UTF-8 only
    CHECK(page_open(&p, html));
    size_t i;
    json_t *t;
    const json_t *texts = json_object_get(p.about, "texts");
    json_array_foreach(json_object_get(json_array_get(texts, 0), "tokens"), i, t)
        CHECK(json_string_length(json_array_get(t, 0)) < 200);
    CHECK((int64_t)strlen(html) < view_code_bytes() + 100000);
    char *text;
    const struct qkv_view_options o = { .utf8 = true, .columns = 60 };
    CHECK_EQ(qkv_view_terminal(v, &text, &o, NULL), QKV_OK);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        CHECK(*c >= 0x20 || *c == '\n' || *c == '\t'); // tabs: of the minified script
    CHECK(!strstr(text, "\xe2\x80\xae"));
    qkv_view_text_free(text);
    page_close(&p);
    free(html);
    free(word);
    qkv_view_free(v);
    unmake(m);
    free(m);
}

TEST(what_a_server_adds_is_json_that_stays_text)
{
    static const struct {
        const char *server;
        qkv_status status;
    } rows[] = { { "{\"text\":\"</script><script>&\"}", QKV_OK },
                 { "[1]", QKV_ERR_USAGE },
                 { "{\"text\":", QKV_ERR_FORMAT },
                 { "", QKV_ERR_FORMAT } };
    struct made *m = malloc(sizeof *m);
    make(m, 4, 1, 1, 1, 2, 0);
    qkv_view *v = view_of(m);
    EACH(r, rows)
    {
        const struct qkv_view_options o = { .server = r->server };
        qkv_error err = { 0 };
        CHECK_EQ(qkv_view_html(v, place("page.html"), true, &o, NULL, &err), r->status);
    }
    const struct qkv_view_options o = { .server = rows[0].server };
    struct page p;
    char *html = html_of(v, &o, NULL), *plain = html_of(v, NULL, NULL);
    CHECK_EQ(occurrences(html, "<script>"), 1);
    CHECK_EQ(occurrences(html, "; connect-src 'self';"), 1);
    CHECK_EQ(occurrences(plain, "connect-src"), 0);
    CHECK(page_open(&p, html));
    CHECK_TEXT(json_string_value(json_object_get(json_object_get(p.about, "server"), "text")),
               "</script><script>&");
    page_close(&p);
    free(html);
    free(plain);
    qkv_view_free(v);
    unmake(m);
    free(m);
}

TEST(script_and_style_stay_small)
{
    CHECK(!view_minified || view_code_bytes() <= 150000);
}

// Returns the columns of a line without escape sequences.
static int columns_of(const char *s, size_t n)
{
    struct view_text t = { 0 };
    int columns = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\033') {
            while (i < n && s[i] != 'm') i++;
            continue;
        }
        columns +=
            ((unsigned char)s[i] & 0xC0) != 0x80; // made-up tokens are one column a character...
        columns += (unsigned char)s[i] == 0xE6;   // ...but the CJK ones, which begin with E6
    }
    (void)t;
    return columns;
}

TEST(terminal_pictures_keep_to_their_width)
{
    static const int widths[] = { 1, 20, 33, 50, 80, 120, 149, 150, 200 };
    static const int64_t lengths[] = { 1, 2, 14, 45, 120 };
    EACH(T, lengths)
    {
        struct made *m = malloc(sizeof *m);
        make(m, *T, 3, 12, 4, 8, false);
        for (int64_t i = 1; i < *T; i += 3)
            if (!m->token[i].special)
                m->token[i].text = "\xe6\x97\xa5\xe6\x9c\xac", m->token[i].text_bytes = 6;
        qkv_view *v = view_of(m);
        EACH(w, widths)
        for (int k = 0; k < 8; k++) {
            const struct qkv_view_options o = {
                .columns = *w, .utf8 = k & 1, .color = k & 2, .truecolor = k & 4
            };
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

// Returns the name of row i, in quotes or not.
static const char *name_of(char out[64], const struct view_stack *v, int64_t i, bool quoted)
{
    struct view_text t = { 0 };
    (quoted ? view_quote_row : view_name_row)(&t, v, i);
    view_text_copy(out, 64, &t);
    view_text_free(&t);
    return out;
}

TEST(a_name_that_is_cut_keeps_its_place)
{
    static const struct {
        const char *name, *cell;
        int columns;
        bool utf8, right;
    } rows[] = {
        { "internationalization₁₂", "internat…₁₂", 11, true, false },
        { "internationalization₁₂", "internat.12", 11, false, true },
        { "internationalization", "internatio…", 11, true, false },
        { "internationalization₁₂", "int…", 4, true, false }, // no space for the place
        { "flies₂", "flies₂     ", 11, true, false },
        { "日本日本日本₂", "日本…₂ ", 7, true, false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct text_canvas s = { .utf8 = rows[i].utf8 };
        text_canvas_cell(&s, rows[i].name, strlen(rows[i].name), rows[i].columns, rows[i].right);
        if ((size_t)s.t.used != strlen(rows[i].cell) ||
            memcmp(s.t.at, rows[i].cell, (size_t)s.t.used) != 0)
            fail_msg("expected '%s', found '%.*s'", rows[i].cell, (int)s.t.used, s.t.at);
        view_text_free(&s.t);
    }
}

TEST(a_word_that_occurs_again_carries_its_place)
{
    static const char *const words[] = {
        "flies", " flies", "Flies", "fl", "flies", "[SEP]", "[SEP]"
    };
    static const char *const names[] = { "flies₁", "flies₂", "Flies", "fl",
                                         "flies₅", "[SEP]",  "[SEP]" };
    enum { N = 7 };
    struct made *m = malloc(sizeof *m);
    make(m, 14, 1, 2, 2, 8, false);
    for (int64_t i = 0; i < N; i++) {
        struct qkv_view_token *t = &m->token[i + 1];
        t->raw = i < 5 ? "other" : words[i]; // the text is shown, not the spelling
        t->text = i < 5 ? words[i] : NULL;
        t->text_bytes = i < 5 ? strlen(words[i]) : 0;
        t->special = i >= 5;
    }
    for (int64_t i = N + 1; i < 14; i++) m->token[i] = m->token[N]; // special tokens have no place
    qkv_view *v = view_of(m);
    char name[64], quoted[70];
    for (int64_t i = 0; i < N; i++) {
        CHECK_TEXT(name_of(name, &v->stack[0], i + 1, false), names[i]);
        snprintf(quoted, sizeof quoted, i < 5 ? "“%s”" : "%s", names[i]);
        CHECK_TEXT(name_of(name, &v->stack[0], i + 1, true), quoted);
    }
    const int64_t token = 5;
    const struct qkv_view_options o = { .columns = 90, .token = &token };
    char *text;
    CHECK_EQ(qkv_view_terminal(v, &text, &o, NULL), QKV_OK);
    CHECK(strstr(text, "\"flies5\" in layer 0 attends to")); // without UTF-8: plain digits
    qkv_view_text_free(text);
    qkv_view_free(v);
    unmake(m);
    free(m);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(noncharacters_and_controls_are_replaced),
        CASE(hostile_tokens_stay_text),
        CASE(what_a_server_adds_is_json_that_stays_text),
        CASE(script_and_style_stay_small),
        CASE(a_name_that_is_cut_keeps_its_place),
        CASE(a_word_that_occurs_again_carries_its_place),
        CASE(terminal_pictures_keep_to_their_width),
    };
    return cmocka_run_group_tests(cases, NULL, sweep);
}
