// SPDX-License-Identifier: MIT
// screen.c: colours and cells of the terminal picture.  Widths of characters are utf8proc's.
#include "view/screen.h"
#include <math.h>
#include <string.h>
#include <utf8proc.h>

// The palette of view.css, and the nearest of the 256 terminal colours; [0] light, [1] dark.
static const uint32_t ramp_rgb[2][9] = {
    { 0xfbfaf6, 0xc8ddef, 0x99c0e5, 0x6da1da, 0x4a82c8, 0x3563aa, 0x2a4781, 0x222f4f, 0x0f1733 },
    { 0x101319, 0x16294d, 0x204278, 0x2e5e9e, 0x457dbd, 0x649dd6, 0x8bbce9, 0xb9dbf7, 0xeff8ff },
};
static const uint32_t heads_rgb[2][16] = {
    { 0x1b64d0, 0xaa730a, 0x7f0411, 0x034670, 0x5f309f, 0x05643d, 0x0c8c97, 0x853f04, 0xa23e99,
      0x0fa47e, 0xdb5f6a, 0x90960d, 0xc961ac, 0x577106, 0x3c1494, 0x73105f },
    { 0x5a96f4, 0xfed195, 0xfe8b83, 0x8fcbfe, 0x8d6bca, 0x0e9c61, 0x83f2fe, 0xc36317, 0xdd86d3,
      0x58e9bc, 0xd87076, 0xe2eb68, 0xb963a0, 0xaece6f, 0xaba5fe, 0xfca4e3 },
};
static const uint8_t ramp_256[2][9] = { { 231, 254, 153, 110, 67, 60, 239, 236, 234 },
                                        { 234, 236, 238, 24, 67, 110, 153, 195, 231 } };
static const uint8_t heads_256[2][16] = {
    { 26, 130, 88, 24, 55, 22, 30, 94, 126, 36, 167, 100, 169, 58, 54, 89 },
    { 69, 222, 210, 117, 98, 35, 123, 166, 176, 79, 167, 192, 133, 150, 147, 218 },
};
static const uint8_t quiet_256[2] = { 242, 245 };

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
    colour(s, 38, heads_256[s->dark][i % 16], heads_rgb[s->dark][i % 16]);
}
void screen_ground(struct screen *s, double x)
{
    const int k = x != x ? 0 : (int)floor(fmin(fmax(x, 0), 1) * 8 + 0.5);
    colour(s, 48, ramp_256[s->dark][k], ramp_rgb[s->dark][k]);
    const bool black = s->dark ? k >= 5 : k <= 3; // whichever contrasts more
    colour(s, 38, black ? 16 : 231, black ? 0x000000 : 0xffffff);
}

// ---- cells -------------------------------------------------------------------------------------
// One character of text[n] for this terminal: its bytes (ASCII: '?'), its columns.
static size_t next_cell(const struct screen *s, const char *text, size_t n, const char **out,
                        size_t *bytes, int *columns)
{
    utf8proc_int32_t c;
    utf8proc_ssize_t len =
        utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &c);
    if (len <= 0) len = 1, c = '?';
    *columns = utf8proc_charwidth(c);
    *out = text;
    *bytes = (size_t)len;
    if (!s->utf8 && c >= 0x80) {
        const bool opens = c == 0x201c || c == 0x201d; // quotes have a twin
        *out = opens ? "\"" : c == 0x2026 ? "." : "?";
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
        i += next_cell(s, text + i, n - i, &out, &bytes, &columns);
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
        const size_t step = next_cell(s, text + i, n - i, &out, &bytes, &w);
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
    screen_cell(s, text, strlen(text), columns, right);
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
            k += next_cell(s, text + k, end - k, &out, &bytes, &columns);
            if (at + columns > s->columns) screen_line(s), at = 0;
            view_put(&s->t, out, bytes);
            at += columns;
        }
        i = end + 1;
    }
    screen_line(s);
}
