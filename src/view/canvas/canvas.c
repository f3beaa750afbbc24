// SPDX-License-Identifier: MIT
// canvas.c: records drawing operations in a list, and divides texts into lines.
#include "view/canvas/canvas.h"
#include <math.h>
#include <string.h>
#include <utf8proc.h>

enum { TEXT_BYTES = 4096 }; // maximum bytes of a text; a longer text is cut and ends with "…"

void canvas_init(struct canvas *s, const char *path)
{
    *s = (struct canvas){ .open = -1 };
    if (!qkv_ends_with(path, ".png")) return;
    bool missing;
    s->fonts = canvas_fonts_new(&missing);
    s->failed = !s->fonts && !missing;
}

void canvas_new(struct canvas *s, double width, const char *title, const char *sentence)
{
    *s = (struct canvas){ .width = width,
                          .open = -1,
                          .plain = s->plain,
                          .mm = s->mm,
                          .fonts = s->fonts,
                          .failed = s->failed };
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
    canvas_fonts_free(s->fonts);
    *s = (struct canvas){ .open = -1 };
}

bool canvas_failed(const struct canvas *s)
{
    return s->failed || s->title.failed || s->sentence.failed || s->text.failed;
}

// Appends an operation to the list and returns it; the spare operation if memory is exhausted.
static struct canvas_op *add(struct canvas *s, enum canvas_kind kind)
{
    struct canvas_op *op = &s->spare;
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
    op->base = PALETTE_RAMP;
    op->at = s->cells, op->n = n, op->columns = columns;
    if (n) memcpy(s->cell + s->cells, color, (size_t)n);
    s->cells += n;
}
void canvas_kind_cells(struct canvas *s, double x, double y, double w, double h, int kind,
                       const uint8_t *color, int64_t rows, int64_t columns)
{
    const int ramp = kind >= 0 && kind < PALETTE_KINDS ? kind : PALETTE_KINDS - 1;
    canvas_cells(s, x, y, w, h, 0, color, rows, columns);
    if (!s->failed) s->op[s->ops - 1].base = (int16_t)(PALETTE_KIND + ramp * (PALETTE_SHADES + 1));
}

// ---- text ---------------------------------------------------------------------------------------
// Reads the first character of text[n] and returns its length in bytes.
static size_t next_character(int32_t *c, const char *text, size_t n)
{
    const utf8proc_ssize_t len =
        utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, c);
    if (len <= 0) *c = 0xfffd;
    return len > 0 ? (size_t)len : 1;
}

double canvas_width(const struct canvas *s, const char *text, size_t n, int size, unsigned how)
{
    double all = 0;
    int32_t c;
    if (s->fonts) return canvas_fonts_width(s->fonts, text, n, size, how);
    for (size_t i = 0; i < n;) {
        i += next_character(&c, text + i, n - i);
        all += text_width(c, how);
    }
    return all * size;
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

void canvas_marked(size_t *from, size_t *to, const char *text, size_t n)
{
    const char *open = memchr(text, '[', n);
    const char *close = open ? memchr(open, ']', n - (size_t)(open - text)) : NULL;
    *from = close ? (size_t)(open - text) : 0;
    *to = close ? (size_t)(close - text) + 1 : 0;
}

void canvas_shorten(struct view_text *t, const struct canvas *s, int size, unsigned how,
                    const char *text, size_t n, double width)
{
    const double dots = canvas_width(s, "…", strlen("…"), size, how);
    const size_t place = view_name_place(text, n);
    const char *const last = text + n - place;
    size_t from, to;
    if (canvas_width(s, text, n, size, how) <= width) {
        view_put(t, text, n);
        return;
    }
    n -= place;
    width -= canvas_width(s, last, place, size, how);
    canvas_marked(&from, &to, text, n);
    // extend the part by a character, first to the right and then to the left, while it fits
    for (bool right = true, stuck = false;; right = !right) {
        size_t a = from, b = to;
        if (right && b < n)
            for (b++; b < n && qkv_utf8_continues(text[b]);) b++;
        if (!right && a > 0)
            for (a--; a > 0 && qkv_utf8_continues(text[a]);) a--;
        const double ends = dots * ((a > 0) + (b < n));
        const bool grows =
            (a != from || b != to) && canvas_width(s, text + a, b - a, size, how) + ends <= width;
        if (!grows && stuck) break;
        stuck = !grows;
        if (grows) from = a, to = b;
    }
    if (from) view_say(t, "…");
    view_put(t, text + from, to - from);
    if (to < n) view_say(t, "…");
    view_put(t, last, place);
}

void canvas_cut(struct canvas *s, double x, double y, int size, unsigned how, int color,
                const char *text, size_t n, double width)
{
    struct view_text cut = { 0 };
    canvas_shorten(&cut, s, size, how, text, n, width);
    s->failed |= cut.failed;
    if (!cut.failed) canvas_text(s, x, y, size, how, color, cut.at, (size_t)cut.used);
    view_text_free(&cut);
}

// Returns how many bytes of a text fit in one line of `width`: as many words as fit, but at least
// one.
static size_t line_of(const struct canvas *s, const char *text, double width, int size,
                      unsigned how)
{
    size_t fit = 0;
    while (text[fit]) {
        size_t next = fit + strspn(text + fit, " ");
        next += strcspn(text + next, " ");
        if (fit && canvas_width(s, text, next, size, how) > width) break;
        fit = next;
    }
    return fit;
}

int canvas_lines(const struct canvas *s, double width, int size, unsigned how, const char *text)
{
    int lines = 0;
    for (; *text; lines++) {
        text += line_of(s, text, width, size, how);
        text += strspn(text, " ");
    }
    return lines;
}

double canvas_fold(struct canvas *s, double x, double y, double width, int size, unsigned how,
                   int color, const char *text, double leading)
{
    while (*text) {
        const size_t fit = line_of(s, text, width, size, how);
        if (canvas_width(s, text, fit, size, how) > width)
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
    const bool small = s->mm > 0;
    double y = small ? 26 : 38;
    if (s->plain) return 14;
    if (s->title.at && s->title.used)
        y = canvas_fold(s, left, y, width, small ? 18 : 25, CANVAS_SERIF, PALETTE_TEXT, s->title.at,
                        small ? 23 : 30) -
            2;
    if (s->sentence.at && s->sentence.used)
        y = canvas_fold(s, left, y, width, small ? 13 : 15, CANVAS_SERIF, PALETTE_TEXT2,
                        s->sentence.at, small ? 18 : 22);
    return y;
}
