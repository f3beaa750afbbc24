// SPDX-License-Identifier: MIT
// text_canvas.c: writes colours and fixed-width cells for the terminal. utf8proc determines the
// widths of characters.
#include "view/canvas/text_canvas.h"
#include <math.h>
#include <string.h>
#include <utf8proc.h>

// The colours of palette.c as the nearest of the 256 terminal colours; [0] for a light background,
// [1] for a dark one.
static const uint8_t ramp_256[2][9] = { { 231, 254, 153, 110, 67, 60, 239, 236, 234 },
                                        { 234, 236, 238, 24, 67, 110, 153, 195, 231 } };
static const uint8_t heads_256[2][16] = {
    { 26, 130, 88, 24, 55, 22, 30, 94, 126, 36, 167, 100, 169, 58, 54, 89 },
    { 69, 222, 210, 117, 98, 35, 123, 166, 176, 79, 167, 192, 133, 150, 147, 218 },
};
static const uint8_t minus_256[2][9] = { { 231, 230, 223, 216, 180, 173, 166, 130, 94 },
                                         { 234, 52, 94, 130, 166, 172, 208, 215, 223 } };
static const uint8_t quiet_256[2] = { 242, 245 }, hot_256[2] = { 124, 210 };

// ---- colours ------------------------------------------------------------------------------------
void text_canvas_sgr(struct text_canvas *s, const char *code)
{
    if (s->color) view_say(&s->t, "\033[%sm", code);
}
void text_canvas_plain(struct text_canvas *s)
{
    text_canvas_sgr(s, "0");
}
static void put_color(struct text_canvas *s, int layer, uint8_t index,
                      // layer: the code of terminals for a colour, 38 for text and 48 for the
                      // background
                      uint32_t rgb)
{
    if (!s->color) return;
    if (s->truecolor)
        view_say(&s->t, "\033[%d;2;%u;%u;%um", layer, rgb >> 16, rgb >> 8 & 255, rgb & 255);
    else
        view_say(&s->t, "\033[%d;5;%um", layer, index);
}
void text_canvas_dim(struct text_canvas *s)
{
    put_color(s, 38, quiet_256[s->dark], s->dark ? 0x858993 : 0x6b6d75);
}
static void head_color(struct text_canvas *s, int64_t i)
{
    put_color(s, 38, heads_256[s->dark][i % 16], view_heads_rgb[s->dark][i % 16]);
}
void text_canvas_color(struct text_canvas *s, int color)
{
    if (color >= PALETTE_HEAD && color < PALETTE_RAMP)
        head_color(s, color - PALETTE_HEAD);
    else if (color == PALETTE_HOT)
        put_color(s, 38, hot_256[s->dark], palette_rgb(color, s->dark));
    else if (color == PALETTE_POS || color == PALETTE_NEG)
        put_color(s, 38,
                  color == PALETTE_POS ? ramp_256[s->dark][s->dark ? 5 : 4] : minus_256[s->dark][6],
                  palette_rgb(color, s->dark));
    else if (color != PALETTE_TEXT)
        text_canvas_dim(s);
}
void text_canvas_signed(struct text_canvas *s, double x)
{
    const double a = x != x ? 0 : fmin(fabs(x), 1);
    const int k = (int)floor(a * 8 + .5), color = palette_signed(x);
    if (x >= 0 && !s->truecolor) {
        text_canvas_ground(s, a * .7); // the factor keeps the background as light as in the picture
        return;
    }
    const uint32_t over = palette_rgb(palette_over(color), s->dark);
    put_color(s, 48, minus_256[s->dark][k], palette_rgb(color, s->dark));
    put_color(s, 38, s->truecolor ? over ? 231 : 16 : (s->dark ? k >= 4 : k <= 4) ? 16 : 231, over);
}
void text_canvas_halves(struct text_canvas *s, double upper, double lower, bool sign)
{
    for (int k = 0; k < 2; k++) {
        const double x = k ? lower : upper, a = x != x ? 0 : fmin(fabs(x), 1);
        const int step = (int)floor(a * 8 * (sign && x >= 0 ? .7 : 1) + .5);
        put_color(s, k ? 48 : 38,
                  sign && x < 0 ? minus_256[s->dark][step] : ramp_256[s->dark][step],
                  palette_rgb(sign ? palette_signed(x) : palette_ramp(x), s->dark));
    }
    view_say(&s->t, "▀");
    text_canvas_plain(s);
}
void text_canvas_ground(struct text_canvas *s, double x)
{
    const int k = x != x ? 0 : (int)floor(fmin(fmax(x, 0), 1) * 8 + 0.5);
    put_color(s, 48, ramp_256[s->dark][k], view_ramp_rgb[s->dark][k]);
    // black or white text, whichever has more contrast with colour k of the ramp
    const bool black = s->dark ? k >= 5 : k <= 3;
    put_color(s, 38, black ? 16 : 231, black ? 0x000000 : 0xffffff);
}

// ---- cells --------------------------------------------------------------------------------------
size_t text_canvas_next(const struct text_canvas *s, const char *text, size_t n, const char **out,
                        size_t *bytes, int *columns)
{
    utf8proc_int32_t c;
    utf8proc_ssize_t len =
        utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &c);
    const bool valid = len > 0;
    if (!valid) len = 1, c = '?';
    *columns = utf8proc_charwidth(c);
    *out = text;
    *bytes = (size_t)len;
    // callers have already made control characters visible, so this is rare
    if (!valid || view_is_control(c)) {
        *out = "?";
        *bytes = 1;
        *columns = 1;
    } else if (!s->utf8 && c >= 0x80) {
        // opening and closing quotes; the ASCII quote replaces both
        const bool opens = c == 0x201c || c == 0x201d;
        static const struct {
            int32_t from;
            const char *to;
        } ascii[] = { { 0x2026, "." }, { 0x2212, "-" }, { 0x00d7, "x" }, { 0x00f7, "/" },
                      { 0x00b7, "." }, { 0x2218, "*" }, { 0x2192, ">" } };
        static const char digits[] = "0123456789"; // for subscript digits
        *out = opens ? "\"" : c >= 0x2080 && c <= 0x2089 ? digits + (c - 0x2080) : "?";
        for (size_t i = 0; i < sizeof ascii / sizeof *ascii; i++)
            if (ascii[i].from == c) *out = ascii[i].to;
        *bytes = *columns > 0 ? 1 : 0;
        *columns = *columns > 0 ? 1 : 0;
    }
    return (size_t)len;
}

int text_canvas_width(const struct text_canvas *s, const char *text, size_t n)
{
    int all = 0;
    for (size_t i = 0; i < n;) {
        const char *out;
        size_t bytes;
        int columns;
        if (text[i] == '\033') { // an escape sequence takes no space on the screen
            while (i < n && text[i] != 'm') i++;
            i++;
            continue;
        }
        i += text_canvas_next(s, text + i, n - i, &out, &bytes, &columns);
        all += columns;
    }
    return all;
}

void text_canvas_pad(struct text_canvas *s, int n)
{
    for (int i = 0; i < n; i++) view_put(&s->t, " ", 1);
}

// Returns the offset at which a text that is too long begins, so that a word of it in [brackets]
// is shown: 0 if the beginning shows it, or if there is none.
static size_t cell_start(const struct text_canvas *s, const char *text, size_t n, int columns)
{
    size_t word, end, start = 0;
    canvas_marked(&word, &end, text, n);
    while (start < word &&
           (start > 0) + text_canvas_width(s, text + start, end - start) + (end < n) > columns)
        for (start++; start < word && qkv_utf8_continues(text[start]);) start++;
    return start;
}

// Writes the characters of text[n] that fit in `capacity` columns. Returns the columns used.
static int put_characters(struct text_canvas *s, const char *text, size_t n, int capacity)
{
    int used = 0;
    for (size_t i = 0; i < n;) {
        const char *out;
        size_t bytes;
        int w;
        const size_t step = text_canvas_next(s, text + i, n - i, &out, &bytes, &w);
        if (used + w > capacity) break;
        view_put(&s->t, out, bytes);
        used += w;
        i += step;
    }
    return used;
}

void text_canvas_cell(struct text_canvas *s, const char *text, size_t n, int columns, bool right)
{
    int whole = text_canvas_width(s, text, n), used = 0;
    if (right && whole < columns) text_canvas_pad(s, columns - whole);
    // a name that is cut keeps its place, if there is space for it
    const size_t place = view_name_place(text, n);
    const int last = text_canvas_width(s, text + n - place, place);
    const bool keeps = whole > columns && columns > last + 2;
    if (keeps) {
        n -= place;
        whole -= last;
        columns -= last;
    }
    const size_t start = whole > columns && columns > 0 ? cell_start(s, text, n, columns) : 0;
    if (start) {
        view_say(&s->t, s->utf8 ? "…" : ".");
        used = 1;
        whole = 1 + text_canvas_width(s, text + start, n - start);
    }
    const int capacity = whole > columns ? columns - 1 : columns;
    used += put_characters(s, text + start, n - start, capacity - used);
    if (whole > columns && columns > 0) {
        view_say(&s->t, s->utf8 ? "…" : ".");
        used++;
    }
    if (keeps) put_characters(s, text + n, place, last);
    if (!right || start || whole > columns) text_canvas_pad(s, columns - used);
}
void text_canvas_put(struct text_canvas *s, struct view_text *t, int columns, bool right)
{
    s->t.failed |= t->failed;
    text_canvas_cell(s, t->at ? t->at : "", (size_t)t->used, columns, right);
    view_text_free(t);
}
void text_canvas_put_folded(struct text_canvas *s, struct view_text *t, int at)
{
    s->t.failed |= t->failed;
    if (t->at) text_canvas_fold(s, t->at, (size_t)t->used, at);
    view_text_free(t);
}
void text_canvas_text(struct text_canvas *s, const char *text, int columns, bool right)
{
    struct view_text t = { 0 };
    view_plain_text(&t, text, strlen(text), 4096);
    text_canvas_put(s, &t, columns, right);
}
void text_canvas_words(struct text_canvas *s, const char *text)
{
    struct view_text t = { 0 };
    view_plain_text(&t, text, strlen(text), 1 << 16);
    text_canvas_put_folded(s, &t, 0);
}
static void name_cell(struct text_canvas *s, int64_t index, bool key, int columns, bool right)
{
    struct view_text t = { 0 };
    (key ? view_name_key : view_name_row)(&t, s->v, index);
    text_canvas_put(s, &t, columns, right);
}
void text_canvas_token(struct text_canvas *s, int64_t token, int columns, bool right)
{
    name_cell(s, token, false, columns, right);
}
void text_canvas_key(struct text_canvas *s, int64_t key, int columns, bool right)
{
    name_cell(s, key, true, columns, right);
}
void text_canvas_bar(struct text_canvas *s, double part, int columns)
{
    static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    const int most = columns > 0 ? columns : 0;
    const int n = part != part ? 0 : (int)floor(fmin(fmax(part, 0), 1) * most * 8 + .5);
    for (int i = 0; i < n / 8; i++) view_say(&s->t, s->utf8 ? "█" : "#");
    const bool rest = s->utf8 && n % 8;
    if (rest) view_say(&s->t, "%s", eighths[n % 8]);
    text_canvas_pad(s, most - n / 8 - rest);
}
void text_canvas_weight(struct text_canvas *s, double w)
{
    char number[QKV_WEIGHT_BYTES];
    text_canvas_text(s, qkv_weight_text(number, w, 2), 4, true);
}
void text_canvas_line(struct text_canvas *s)
{
    view_put(&s->t, "\n", 1);
}

void text_canvas_fold(struct text_canvas *s, const char *text, size_t n, int at)
{
    bool first = true; // true until the first word: a space is only written between words
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && text[end] != ' ') end++;
        const int w = text_canvas_width(s, text + i, end - i);
        if (at && at + !first + w > s->columns) {
            text_canvas_line(s);
            at = 0;
        }
        if (at && !first) view_put(&s->t, " ", 1), at++;
        first = false;
        // a word that is longer than a line is broken into several lines
        for (size_t k = i; k < end;) {
            const char *out;
            size_t bytes;
            int columns;
            k += text_canvas_next(s, text + k, end - k, &out, &bytes, &columns);
            if (at + columns > s->columns) text_canvas_line(s), at = 0;
            view_put(&s->t, out, bytes);
            at += columns;
        }
        i = end + 1;
    }
    text_canvas_line(s);
}
