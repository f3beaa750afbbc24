// SPDX-License-Identifier: MIT
// canvas.c: records drawing operations in a list, and estimates the widths of texts.
#include "view/canvas/canvas.h"
#include <math.h>
#include <string.h>
#include <utf8proc.h>

enum { TEXT_BYTES = 4096 }; // maximum bytes of a text; a longer text is cut and ends with "…"

void canvas_new(struct canvas *s, double width, const char *title, const char *sentence)
{
    *s = (struct canvas){ .width = width, .open = -1 };
    if (title) view_plain_text(&s->title, title, strlen(title), TEXT_BYTES);
    if (sentence) view_plain_text(&s->sentence, sentence, strlen(sentence), TEXT_BYTES);
    view_put(&s->text, "", 0);
}

void canvas_free(struct canvas *s)
{
    view_text_free(&s->title);
    view_text_free(&s->sentence);
    view_text_free(&s->text);
    qkv_free(s->op);
    qkv_free(s->point);
    qkv_free(s->cell);
    *s = (struct canvas){ .open = -1 };
}

bool canvas_failed(const struct canvas *s)
{
    return s->failed || s->title.failed || s->sentence.failed || s->text.failed;
}

// Appends an operation to the list and returns it. If memory is exhausted, returns a dummy, which
// is never drawn.
static struct canvas_op *add(struct canvas *s, enum canvas_kind kind)
{
    static _Thread_local struct canvas_op spare;
    struct canvas_op *op = &spare;
    if (!s->failed && qkv_reserve((void **)&s->op, &s->op_capacity, s->ops + 1, sizeof *s->op))
        op = &s->op[s->ops++];
    else
        s->failed = true;
    *op = (struct canvas_op){ .kind = kind, .opacity = 1 };
    s->open = -1;
    return op;
}

void canvas_box(struct canvas *s, double x, double y, double w, double h, int fill)
{
    struct canvas_op *op = add(s, CANVAS_BOX);
    op->x = x, op->y = y, op->w = w, op->h = h;
    op->fill = (int16_t)fill;
}
void canvas_frame(struct canvas *s, double x, double y, double w, double h, int stroke,
                  double width)
{
    canvas_box(s, x, y, w, h, PALETTE_NONE);
    if (s->failed) return;
    s->op[s->ops - 1].stroke = (int16_t)stroke;
    s->op[s->ops - 1].width = (float)width;
}
void canvas_hatch(struct canvas *s, double x, double y, double w, double h)
{
    struct canvas_op *op = add(s, CANVAS_HATCH);
    op->x = x, op->y = y, op->w = w, op->h = h;
    op->stroke = PALETTE_RULE;
}
void canvas_dot(struct canvas *s, double x, double y, double radius, int fill, int stroke,
                double width)
{
    struct canvas_op *op = add(s, CANVAS_DOT);
    op->x = x, op->y = y, op->w = radius;
    op->fill = (int16_t)fill, op->stroke = (int16_t)stroke;
    op->width = (float)width;
}

// ---- paths --------------------------------------------------------------------------------------
void canvas_path(struct canvas *s, int fill, int stroke, double width, double opacity)
{
    struct canvas_op *op = add(s, CANVAS_PATH);
    op->fill = (int16_t)fill, op->stroke = (int16_t)stroke;
    op->width = (float)width, op->opacity = (float)opacity;
    op->at = s->points;
    s->open = s->failed ? -1 : s->ops - 1;
}
void canvas_dashed(struct canvas *s)
{
    if (s->open >= 0) s->op[s->open].how = 1;
}
static void point(struct canvas *s, char verb, double x, double y)
{
    if (s->failed || s->open < 0) return;
    if (!qkv_reserve((void **)&s->point, &s->point_capacity, s->points + 1, sizeof *s->point)) {
        s->failed = true;
        return;
    }
    s->point[s->points++] = (struct canvas_point){ (float)x, (float)y, verb };
    s->op[s->open].n++;
}
void canvas_move_to(struct canvas *s, double x, double y)
{
    point(s, 'M', x, y);
}
void canvas_line_to(struct canvas *s, double x, double y)
{
    point(s, 'L', x, y);
}
void canvas_curve(struct canvas *s, double x1, double y1, double x2, double y2, double x, double y)
{
    point(s, 'C', x1, y1);
    point(s, 'c', x2, y2);
    point(s, 'c', x, y);
}
void canvas_close(struct canvas *s)
{
    point(s, 'Z', 0, 0);
}
void canvas_line(struct canvas *s, double x1, double y1, double x2, double y2, int color,
                 double width)
{
    canvas_path(s, PALETTE_NONE, color, width, 1);
    canvas_move_to(s, x1, y1);
    canvas_line_to(s, x2, y2);
}
void canvas_link(struct canvas *s, double x1, double y1, double x2, double y2, int color, double t,
                 bool pale)
{
    const double bend = .46 * (x2 - x1); // the link is horizontal at both ends
    canvas_path(s, PALETTE_NONE, color, canvas_link_width(t), t);
    if (s->failed) return;
    s->op[s->open].kind = CANVAS_LINK;
    s->op[s->open].how = pale;
    canvas_move_to(s, x1, y1);
    canvas_curve(s, x1 + bend, y1, x2 - bend, y2, x2, y2);
}

void canvas_cells(struct canvas *s, double x, double y, double w, double h, double gap,
                  const uint8_t *color, int64_t rows, int64_t columns)
{
    struct canvas_op *op = add(s, CANVAS_CELLS);
    const int64_t n = rows * columns;
    if (s->failed || !qkv_reserve((void **)&s->cell, &s->cell_capacity, s->cells + n, 1)) {
        s->failed = true;
        return;
    }
    op->x = x, op->y = y, op->w = w, op->h = h;
    op->width = (float)gap;
    op->at = s->cells, op->n = n, op->columns = columns;
    if (n) memcpy(s->cell + s->cells, color, (size_t)n);
    s->cells += n;
}

// ---- text ---------------------------------------------------------------------------------------
// Estimated widths of the characters ' ' to '~' in a common sans-serif font, in thousandths of the
// font size. All digits have the same width.
static const uint16_t widths[95] = {
    278, 278, 355, 584, 584, 889, 667, 191, 333, 333, 389, 584, 278, 333,  278, 278, 584, 584, 584,
    584, 584, 584, 584, 584, 584, 584, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667,  611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278,  556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500,  500, 334, 260, 334, 584
};

// Reads the first character of text[n] and returns its length in bytes. Sets *width to the width of
// the character, as a multiple of the font size.
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

double canvas_width(const char *text, size_t n, int size, unsigned how)
{
    double all = 0, one;
    for (size_t i = 0; i < n;) {
        i += next_width(&one, text + i, n - i);
        all += one;
    }
    // Fonts differ between machines: with these factors, the estimate is the width in the widest of
    // the common fonts.
    return all * size * (how & CANVAS_BOLD ? 1.26 : 1.15) * (how & CANVAS_SERIF ? .84 : 1);
}

void canvas_text(struct canvas *s, double x, double y, int size, unsigned how, int color,
                 const char *text, size_t n)
{
    struct canvas_op *op = add(s, CANVAS_TEXT);
    op->x = x, op->y = y;
    op->size = (uint16_t)size, op->how = (uint16_t)how;
    op->fill = (int16_t)color;
    op->at = s->text.used;
    view_plain_text(&s->text, text, n, TEXT_BYTES);
    op->n = s->text.used - op->at;
}

void canvas_format(struct canvas *s, double x, double y, int size, unsigned how, int color,
                   const char *format, ...)
{
    char text[256];
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (n > 0)
        canvas_text(s, x, y, size, how, color, text,
                    (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

void canvas_cut(struct canvas *s, double x, double y, int size, unsigned how, int color,
                const char *text, size_t n, double width)
{
    const double capacity = width - size; // of "…"
    double used = 0, one;
    size_t fit = 0;
    if (canvas_width(text, n, size, how) <= width) {
        canvas_text(s, x, y, size, how, color, text, n);
        return;
    }
    for (size_t i = 0; i < n; fit = i) {
        const size_t from = i;
        i += next_width(&one, text + i, n - i);
        used += canvas_width(text + from, i - from, size, how);
        if (used > capacity) break;
    }
    struct view_text cut = { 0 };
    view_put(&cut, text, fit);
    view_say(&cut, "…");
    s->failed |= cut.failed;
    if (!cut.failed) canvas_text(s, x, y, size, how, color, cut.at, (size_t)cut.used);
    view_text_free(&cut);
}

double canvas_fold(struct canvas *s, double x, double y, double width, int size, unsigned how,
                   int color, const char *text, double leading)
{
    while (*text) {
        size_t fit = 0, end = 0;
        while (text[end]) { // put as many words as fit into a line, but at least one
            size_t next = end + strspn(text + end, " ");
            next += strcspn(text + next, " ");
            if (fit && canvas_width(text, next, size, how) > width) break;
            fit = end = next;
        }
        if (canvas_width(text, fit, size, how) > width)
            canvas_cut(s, x, y, size, how, color, text, fit, width);
        else
            canvas_text(s, x, y, size, how, color, text, fit);
        text += fit;
        text += strspn(text, " ");
        y += leading;
    }
    return y;
}

double canvas_head(struct canvas *s, double left)
{
    const double width = s->width - 2 * left;
    double y = 38;
    if (s->title.at && s->title.used)
        y = canvas_fold(s, left, y, width, 25, CANVAS_SERIF, PALETTE_TEXT, s->title.at, 30) - 2;
    if (s->sentence.at && s->sentence.used)
        y = canvas_fold(s, left, y, width, 15, CANVAS_SERIF, PALETTE_TEXT2, s->sentence.at, 22);
    return y;
}
