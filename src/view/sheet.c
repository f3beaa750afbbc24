// SPDX-License-Identifier: MIT
// sheet.c: what is drawn, as a list; about how wide texts are.
#include "view/sheet.h"
#include <math.h>
#include <string.h>
#include <utf8proc.h>

enum { TEXT_BYTES = 4096 }; // of one text; the rest becomes "…"

void sheet_new(struct sheet *s, double width, const char *title, const char *sentence)
{
    *s = (struct sheet){ .width = width, .open = -1 };
    if (title) view_plain_text(&s->title, title, strlen(title), TEXT_BYTES);
    if (sentence) view_plain_text(&s->sentence, sentence, strlen(sentence), TEXT_BYTES);
    view_put(&s->text, "", 0);
}

void sheet_free(struct sheet *s)
{
    view_text_free(&s->title);
    view_text_free(&s->sentence);
    view_text_free(&s->text);
    qkv_free(s->op);
    qkv_free(s->point);
    qkv_free(s->cell);
    *s = (struct sheet){ .open = -1 };
}

bool sheet_failed(const struct sheet *s)
{
    return s->failed || s->title.failed || s->sentence.failed || s->text.failed;
}

// The next op; a place that nobody reads when there is no memory.
static struct sheet_op *add(struct sheet *s, enum sheet_kind kind)
{
    static _Thread_local struct sheet_op spare;
    struct sheet_op *op = &spare;
    if (!s->failed && qkv_reserve((void **)&s->op, &s->op_room, s->ops + 1, sizeof *s->op))
        op = &s->op[s->ops++];
    else
        s->failed = true;
    *op = (struct sheet_op){ .kind = kind, .opacity = 1 };
    s->open = -1;
    return op;
}

void sheet_box(struct sheet *s, double x, double y, double w, double h, int fill)
{
    struct sheet_op *op = add(s, SHEET_BOX);
    op->x = x, op->y = y, op->w = w, op->h = h;
    op->fill = (int16_t)fill;
}
void sheet_frame(struct sheet *s, double x, double y, double w, double h, int stroke, double width)
{
    sheet_box(s, x, y, w, h, SHEET_NONE);
    if (s->failed) return;
    s->op[s->ops - 1].stroke = (int16_t)stroke;
    s->op[s->ops - 1].width = (float)width;
}
void sheet_hatch(struct sheet *s, double x, double y, double w, double h)
{
    struct sheet_op *op = add(s, SHEET_HATCH);
    op->x = x, op->y = y, op->w = w, op->h = h;
    op->stroke = SHEET_RULE;
}
void sheet_dot(struct sheet *s, double x, double y, double radius, int fill, int stroke,
               double width)
{
    struct sheet_op *op = add(s, SHEET_DOT);
    op->x = x, op->y = y, op->w = radius;
    op->fill = (int16_t)fill, op->stroke = (int16_t)stroke;
    op->width = (float)width;
}

// ---- paths -------------------------------------------------------------------------------------
void sheet_path(struct sheet *s, int fill, int stroke, double width, double opacity)
{
    struct sheet_op *op = add(s, SHEET_PATH);
    op->fill = (int16_t)fill, op->stroke = (int16_t)stroke;
    op->width = (float)width, op->opacity = (float)opacity;
    op->at = s->points;
    s->open = s->failed ? -1 : s->ops - 1;
}
void sheet_dashed(struct sheet *s)
{
    if (s->open >= 0) s->op[s->open].how = 1;
}
static void point(struct sheet *s, char verb, double x, double y)
{
    if (s->failed || s->open < 0) return;
    if (!qkv_reserve((void **)&s->point, &s->point_room, s->points + 1, sizeof *s->point)) {
        s->failed = true;
        return;
    }
    s->point[s->points++] = (struct sheet_point){ (float)x, (float)y, verb };
    s->op[s->open].n++;
}
void sheet_move(struct sheet *s, double x, double y)
{
    point(s, 'M', x, y);
}
void sheet_to(struct sheet *s, double x, double y)
{
    point(s, 'L', x, y);
}
void sheet_curve(struct sheet *s, double x1, double y1, double x2, double y2, double x, double y)
{
    point(s, 'C', x1, y1);
    point(s, 'c', x2, y2);
    point(s, 'c', x, y);
}
void sheet_close(struct sheet *s)
{
    point(s, 'Z', 0, 0);
}
void sheet_line(struct sheet *s, double x1, double y1, double x2, double y2, int ink, double width)
{
    sheet_path(s, SHEET_NONE, ink, width, 1);
    sheet_move(s, x1, y1);
    sheet_to(s, x2, y2);
}
void sheet_link(struct sheet *s, double x1, double y1, double x2, double y2, int ink, double t,
                bool pale)
{
    const double bend = .46 * (x2 - x1); // level at both ends
    sheet_path(s, SHEET_NONE, ink, sheet_link_width(t), t);
    if (s->failed) return;
    s->op[s->open].kind = SHEET_LINK;
    s->op[s->open].how = pale;
    sheet_move(s, x1, y1);
    sheet_curve(s, x1 + bend, y1, x2 - bend, y2, x2, y2);
}

void sheet_cells(struct sheet *s, double x, double y, double w, double h, double gap,
                 const uint8_t *ink, int64_t rows, int64_t columns)
{
    struct sheet_op *op = add(s, SHEET_CELLS);
    const int64_t n = rows * columns;
    if (s->failed || !qkv_reserve((void **)&s->cell, &s->cell_room, s->cells + n, 1)) {
        s->failed = true;
        return;
    }
    op->x = x, op->y = y, op->w = w, op->h = h;
    op->width = (float)gap;
    op->at = s->cells, op->n = n, op->columns = columns;
    if (n) memcpy(s->cell + s->cells, ink, (size_t)n);
    s->cells += n;
}

// ---- text --------------------------------------------------------------------------------------
// Thousandths of the size, ' ' to '~': those of a common sans; digits are of one width.
static const uint16_t widths[95] = {
    278, 278, 355, 584, 584, 889, 667, 191, 333, 333, 389, 584, 278, 333,  278, 278, 584, 584, 584,
    584, 584, 584, 584, 584, 584, 584, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667,  611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278,  556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500,  500, 334, 260, 334, 584
};

// One character of text[n]: its bytes and its width in sizes.
static size_t next_width(double *width, const char *text, size_t n)
{
    utf8proc_int32_t c;
    const utf8proc_ssize_t len =
        utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &c);
    if (len <= 0) c = 0xfffd;
    const int cells = utf8proc_charwidth(c);
    *width = c >= ' ' && c <= '~' ? widths[c - ' '] / 1000.0
             : c == 0x2026        ? 1
             : cells > 1          ? 1
                                  : cells * .62;
    return len > 0 ? (size_t)len : 1;
}

double sheet_width(const char *text, size_t n, int size, unsigned how)
{
    double all = 0, one;
    for (size_t i = 0; i < n;) {
        i += next_width(&one, text + i, n - i);
        all += one;
    }
    // Fonts differ from machine to machine: what the widest common ones need.
    return all * size * (how & SHEET_BOLD ? 1.26 : 1.15) * (how & SHEET_SERIF ? .84 : 1);
}

void sheet_text(struct sheet *s, double x, double y, int size, unsigned how, int ink,
                const char *text, size_t n)
{
    struct sheet_op *op = add(s, SHEET_TEXT);
    op->x = x, op->y = y;
    op->size = (uint16_t)size, op->how = (uint16_t)how;
    op->fill = (int16_t)ink;
    op->at = s->text.used;
    view_plain_text(&s->text, text, n, TEXT_BYTES);
    op->n = s->text.used - op->at;
}

void sheet_say(struct sheet *s, double x, double y, int size, unsigned how, int ink,
               const char *format, ...)
{
    char text[256];
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (n > 0)
        sheet_text(s, x, y, size, how, ink, text,
                   (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

void sheet_cut(struct sheet *s, double x, double y, int size, unsigned how, int ink,
               const char *text, size_t n, double width)
{
    const double room = width - size; // of "…"
    double used = 0, one;
    size_t fit = 0;
    if (sheet_width(text, n, size, how) <= width) {
        sheet_text(s, x, y, size, how, ink, text, n);
        return;
    }
    for (size_t i = 0; i < n; fit = i) {
        const size_t from = i;
        i += next_width(&one, text + i, n - i);
        used += sheet_width(text + from, i - from, size, how);
        if (used > room) break;
    }
    struct view_text cut = { 0 };
    view_put(&cut, text, fit);
    view_say(&cut, "…");
    s->failed |= cut.failed;
    if (!cut.failed) sheet_text(s, x, y, size, how, ink, cut.at, (size_t)cut.used);
    view_text_free(&cut);
}

double sheet_fold(struct sheet *s, double x, double y, double width, int size, unsigned how,
                  int ink, const char *text, double leading)
{
    while (*text) {
        size_t fit = 0, end = 0;
        while (text[end]) { // as many words as there is room for, one at least
            size_t next = end + strspn(text + end, " ");
            next += strcspn(text + next, " ");
            if (fit && sheet_width(text, next, size, how) > width) break;
            fit = end = next;
        }
        if (sheet_width(text, fit, size, how) > width)
            sheet_cut(s, x, y, size, how, ink, text, fit, width);
        else
            sheet_text(s, x, y, size, how, ink, text, fit);
        text += fit;
        text += strspn(text, " ");
        y += leading;
    }
    return y;
}

double sheet_head(struct sheet *s, double left)
{
    const double width = s->width - 2 * left;
    double y = 38;
    if (s->title.at && s->title.used)
        y = sheet_fold(s, left, y, width, 25, SHEET_SERIF, SHEET_INK, s->title.at, 30) - 2;
    if (s->sentence.at && s->sentence.used)
        y = sheet_fold(s, left, y, width, 15, SHEET_SERIF, SHEET_INK2, s->sentence.at, 22);
    return y;
}

bool view_ends_with(const char *path, const char *end)
{
    const size_t n = strlen(path), m = strlen(end);
    return n >= m && !strcmp(path + n - m, end);
}
