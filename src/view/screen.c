// SPDX-License-Identifier: MIT
// screen.c: colours and cells of the terminal picture.  Widths of characters are utf8proc's.
#include "view/screen.h"
#include <math.h>
#include <string.h>
#include <utf8proc.h>

// The nearest of the 256 terminal colours to the palette of sheet_ink.c; [0] light, [1] dark.
static const uint8_t ramp_256[2][9] = { { 231, 254, 153, 110, 67, 60, 239, 236, 234 },
                                        { 234, 236, 238, 24, 67, 110, 153, 195, 231 } };
static const uint8_t heads_256[2][16] = {
    { 26, 130, 88, 24, 55, 22, 30, 94, 126, 36, 167, 100, 169, 58, 54, 89 },
    { 69, 222, 210, 117, 98, 35, 123, 166, 176, 79, 167, 192, 133, 150, 147, 218 },
};
static const uint8_t minus_256[2][9] = { { 231, 230, 223, 216, 180, 173, 166, 130, 94 },
                                         { 234, 52, 94, 130, 166, 172, 208, 215, 223 } };
static const uint8_t quiet_256[2] = { 242, 245 }, hot_256[2] = { 124, 210 };

// ---- colours -----------------------------------------------------------------------------------
void screen_sgr(struct screen *s, const char *code)
{
    if (s->color) view_say(&s->t, "\033[%sm", code);
}
void screen_plain(struct screen *s)
{
    screen_sgr(s, "0");
}
static void colour(struct screen *s, int layer, uint8_t index,
                   uint32_t rgb) // layer 38: text, 48: ground
{
    if (!s->color) return;
    if (s->truecolor)
        view_say(&s->t, "\033[%d;2;%u;%u;%um", layer, rgb >> 16, rgb >> 8 & 255, rgb & 255);
    else
        view_say(&s->t, "\033[%d;5;%um", layer, index);
}
void screen_quiet(struct screen *s)
{
    colour(s, 38, quiet_256[s->dark], s->dark ? 0x858993 : 0x6b6d75);
}
void screen_head(struct screen *s, int64_t i)
{
    colour(s, 38, heads_256[s->dark][i % 16], view_heads_rgb[s->dark][i % 16]);
}
void screen_ink(struct screen *s, int ink)
{
    if (ink >= SHEET_HEAD && ink < SHEET_RAMP)
        screen_head(s, ink - SHEET_HEAD);
    else if (ink == SHEET_HOT)
        colour(s, 38, hot_256[s->dark], sheet_rgb(ink, s->dark));
    else if (ink == SHEET_POS || ink == SHEET_NEG)
        colour(s, 38, ink == SHEET_POS ? ramp_256[s->dark][s->dark ? 5 : 4] : minus_256[s->dark][6],
               sheet_rgb(ink, s->dark));
    else if (ink != SHEET_INK)
        screen_quiet(s);
}
void screen_signed(struct screen *s, double x)
{
    const double a = x != x ? 0 : fmin(fabs(x), 1);
    const int k = (int)floor(a * 8 + .5), ink = sheet_signed(x);
    if (x >= 0 && !s->truecolor) {
        screen_ground(s, a * .7); // no darker than in the picture
        return;
    }
    const uint32_t over = sheet_rgb(sheet_over(ink), s->dark);
    colour(s, 48, minus_256[s->dark][k], sheet_rgb(ink, s->dark));
    colour(s, 38, s->truecolor ? over ? 231 : 16 : (s->dark ? k >= 4 : k <= 4) ? 16 : 231, over);
}
void screen_halves(struct screen *s, double upper, double lower, bool sign)
{
    for (int k = 0; k < 2; k++) {
        const double x = k ? lower : upper, a = x != x ? 0 : fmin(fabs(x), 1);
        const int step = (int)floor(a * 8 * (sign && x >= 0 ? .7 : 1) + .5);
        colour(s, k ? 48 : 38, sign && x < 0 ? minus_256[s->dark][step] : ramp_256[s->dark][step],
               sheet_rgb(sign ? sheet_signed(x) : sheet_ramp(x), s->dark));
    }
    view_say(&s->t, "▀");
    screen_plain(s);
}
void screen_ground(struct screen *s, double x)
{
    const int k = x != x ? 0 : (int)floor(fmin(fmax(x, 0), 1) * 8 + 0.5);
    colour(s, 48, ramp_256[s->dark][k], view_ramp_rgb[s->dark][k]);
    const bool black = s->dark ? k >= 5 : k <= 3; // whichever contrasts more
    colour(s, 38, black ? 16 : 231, black ? 0x000000 : 0xffffff);
}

// ---- cells -------------------------------------------------------------------------------------
size_t screen_next(const struct screen *s, const char *text, size_t n, const char **out,
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
    if (!valid || view_is_control(c)) { // whoever writes for people has shown it already
        *out = "?";
        *bytes = 1;
        *columns = 1;
    } else if (!s->utf8 && c >= 0x80) {
        const bool opens = c == 0x201c || c == 0x201d; // quotes have a twin
        *out = opens ? "\"" : c == 0x2026 ? "." : c == 0x2212 ? "-" : c == 0x00d7 ? "x" : "?";
        *bytes = *columns > 0 ? 1 : 0;
        *columns = *columns > 0 ? 1 : 0;
    }
    return (size_t)len;
}

int screen_width(const struct screen *s, const char *text, size_t n)
{
    int all = 0;
    for (size_t i = 0; i < n;) {
        const char *out;
        size_t bytes;
        int columns;
        if (text[i] == '\033') { // colours take no room
            while (i < n && text[i] != 'm') i++;
            i++;
            continue;
        }
        i += screen_next(s, text + i, n - i, &out, &bytes, &columns);
        all += columns;
    }
    return all;
}

void screen_pad(struct screen *s, int n)
{
    for (int i = 0; i < n; i++) view_put(&s->t, " ", 1);
}

void screen_cell(struct screen *s, const char *text, size_t n, int columns, bool right)
{
    const int whole = screen_width(s, text, n), room = whole > columns ? columns - 1 : columns;
    int used = 0;
    if (right && whole < columns) screen_pad(s, columns - whole);
    for (size_t i = 0; i < n;) {
        const char *out;
        size_t bytes;
        int w;
        const size_t step = screen_next(s, text + i, n - i, &out, &bytes, &w);
        if (used + w > room) break;
        view_put(&s->t, out, bytes);
        used += w;
        i += step;
    }
    if (whole > columns && columns > 0) {
        view_say(&s->t, s->utf8 ? "…" : ".");
        used++;
    }
    if (!right || whole > columns) screen_pad(s, columns - used);
}
void screen_text(struct screen *s, const char *text, int columns, bool right)
{
    struct view_text t = { 0 };
    view_plain_text(&t, text, strlen(text), 4096);
    s->t.failed |= t.failed;
    screen_cell(s, t.at ? t.at : "", (size_t)t.used, columns, right);
    view_text_free(&t);
}
void screen_words(struct screen *s, const char *text)
{
    struct view_text t = { 0 };
    view_plain_text(&t, text, strlen(text), 1 << 16);
    s->t.failed |= t.failed;
    if (t.at) screen_fold(s, t.at, (size_t)t.used, 0);
    view_text_free(&t);
}
static void name_cell(struct screen *s, const struct qkv_view_token *k, int columns, bool right)
{
    struct view_text t = { 0 };
    view_token_text(&t, k, k->special);
    s->t.failed |= t.failed;
    screen_cell(s, t.at ? t.at : "", (size_t)t.used, columns, right);
    view_text_free(&t);
}
void screen_token(struct screen *s, int64_t token, int columns, bool right)
{
    name_cell(s, &s->v->shape.token[token], columns, right);
}
void screen_key(struct screen *s, int64_t key, int columns, bool right)
{
    name_cell(s, &s->v->shape.key[key], columns, right);
}
void screen_bar(struct screen *s, double part, int columns)
{
    static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    const int most = columns > 0 ? columns : 0;
    const int n = part != part ? 0 : (int)floor(fmin(fmax(part, 0), 1) * most * 8 + .5);
    for (int i = 0; i < n / 8; i++) view_say(&s->t, s->utf8 ? "█" : "#");
    const bool rest = s->utf8 && n % 8;
    if (rest) view_say(&s->t, "%s", eighths[n % 8]);
    screen_pad(s, most - n / 8 - rest);
}
void screen_weight(struct screen *s, double w)
{
    if (w >= .9995 || w != w)
        screen_text(s, w != w ? "  !" : "1.0", 3, true);
    else
        view_weight(&s->t, fmin(w, .99), 2);
}
void screen_line(struct screen *s)
{
    view_put(&s->t, "\n", 1);
}

void screen_fold(struct screen *s, const char *text, size_t n, int at)
{
    bool first = true; // a blank stands between words only
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && text[end] != ' ') end++;
        const int w = screen_width(s, text + i, end - i);
        if (at && at + !first + w > s->columns) {
            screen_line(s);
            at = 0;
        }
        if (at && !first) view_put(&s->t, " ", 1), at++;
        first = false;
        for (size_t k = i; k < end;) { // a word longer than a line is broken
            const char *out;
            size_t bytes;
            int columns;
            k += screen_next(s, text + k, end - k, &out, &bytes, &columns);
            if (at + columns > s->columns) screen_line(s), at = 0;
            view_put(&s->t, out, bytes);
            at += columns;
        }
        i = end + 1;
    }
    screen_line(s);
}
