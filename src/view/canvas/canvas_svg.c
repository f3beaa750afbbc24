// SPDX-License-Identifier: MIT
// canvas_svg.c: writes a canvas as SVG without script. Texts are text elements. Colours are classes
// with one style rule per class and theme.
#include "view/canvas/canvas.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <utf8proc.h>

#define SERIF                                                                                      \
    "\"Iowan Old Style\",\"Palatino Linotype\",Palatino,P052,\"Book Antiqua\",Georgia,serif"
#define SANS "system-ui,-apple-system,\"Segoe UI\",Inter,Roboto,\"Noto Sans\",sans-serif"

// The classes that a canvas needs: fill colours, stroke colours and text styles.
struct used {
    bool fill[PALETTE_COLORS], stroke[PALETTE_COLORS], link[2][CANVAS_LINKS + 1], hatch;
    struct {
        uint16_t size, how;
    } text[48];
    int texts;
    const char *id; // of the element; ids inside it end with it
};
enum {
    TEXT_WAYS = 48,
    NOT_A_FONT = CANVAS_MIDDLE | CANVAS_END | CANVAS_TILT | CANVAS_UP | CANVAS_AFTER
};

// Writes the id of a part of a drawing: its name, and in a page, which has several drawings, the id
// of the drawing after it.
static void put_id(struct view_text *t, const char *name, const char *drawing)
{
    view_say(t, "%s%s%s", name, drawing ? "-" : "", drawing ? drawing : "");
}

static int link_step(double t)
{
    return (int)floor(fmin(1, fmax(0, t)) * CANVAS_LINKS + .5);
}

// Returns the class of a text style. A canvas has a limited number of text styles; if there are
// more, the last class is returned.
static int text_class(struct used *u, const struct canvas_op *op)
{
    const uint16_t how = op->how & (uint16_t)~NOT_A_FONT;
    for (int i = 0; i < u->texts; i++)
        if (u->text[i].size == op->size && u->text[i].how == how) return i;
    if (u->texts == TEXT_WAYS) return TEXT_WAYS - 1;
    u->text[u->texts].size = op->size;
    u->text[u->texts].how = how;
    return u->texts++;
}

static void collect(struct used *u, const struct canvas *s)
{
    u->fill[PALETTE_PAPER] = true;
    for (int64_t i = 0; i < s->ops; i++) {
        const struct canvas_op *op = &s->op[i];
        u->fill[op->fill] = u->stroke[op->stroke] = true;
        if (op->kind == CANVAS_HATCH) u->hatch = true;
        if (op->kind == CANVAS_LINK) u->link[op->how != 0][link_step(op->opacity)] = true;
        if (op->kind == CANVAS_TEXT) text_class(u, op);
        if (op->kind == CANVAS_CELLS)
            for (int64_t k = 0; k < op->n; k++)
                if (s->cell[op->at + k] != CANVAS_BLANK)
                    (op->width > 0 ? u->fill : u->stroke)[op->base + s->cell[op->at + k]] = true;
    }
    u->fill[PALETTE_NONE] = u->stroke[PALETTE_NONE] = false;
}

// Writes a number with at most two decimals and without unnecessary digits.
static void say(struct view_text *t, double x)
{
    const double all = floor(fabs(x) * 100 + .5);
    const int64_t n = (int64_t)fmin(all, 1e15);
    if (n && x < 0) view_put(t, "-", 1);
    if (n >= 100 || !n) view_say(t, "%" PRId64, n / 100);
    if (n % 100) view_say(t, n % 10 ? ".%02d" : ".%d", (int)(n % 10 ? n % 100 : n % 100 / 10));
}
static void attribute(struct view_text *t, const char *name, double x)
{
    view_say(t, " %s=\"", name);
    say(t, x);
    view_put(t, "\"", 1);
}

// ---- style --------------------------------------------------------------------------------------
static void style_colours(struct view_text *t, const struct used *u, const char *root, bool dark)
{
    for (int i = 1; i < PALETTE_COLORS; i++) {
        if (u->fill[i]) view_say(t, "%s.f%d{fill:#%06x}", root, i, palette_rgb(i, dark));
        if (u->stroke[i]) view_say(t, "%s.s%d{stroke:#%06x}", root, i, palette_rgb(i, dark));
    }
    bool links = false;
    for (int pale = 0; pale < 2; pale++)
        for (int k = 0; k <= CANVAS_LINKS; k++) {
            if (!u->link[pale][k]) continue;
            links = true;
            view_say(t, "%s.%c%d{opacity:", root, pale ? 'm' : 'k', k);
            view_weight(t, canvas_link_opacity((double)k / CANVAS_LINKS, dark, pale), 3);
            view_put(t, "}", 1);
        }
    if (links) view_say(t, "%s.l{mix-blend-mode:%s}", root, dark ? "screen" : "multiply");
}

static void style_plain(struct view_text *t, const struct used *u)
{
    view_say(t, "svg path{stroke-linejoin:round;stroke-linecap:round}.n,.l,.x{fill:none}"
                ".x{stroke-width:1;stroke-linecap:butt}"
                ".l{stroke-linecap:butt}.e{text-anchor:end}.c{text-anchor:middle}"
                "svg text{font-variant-numeric:tabular-nums;white-space:pre;"
                "text-rendering:geometricPrecision}"); // widths in proportion to the font size
    for (int i = 0; i < u->texts; i++)
        view_say(t, ".t%d{font:%s%s%dpx %s}", i, u->text[i].how & CANVAS_ITALIC ? "italic " : "",
                 u->text[i].how & CANVAS_BOLD ? "600 " : "", u->text[i].size,
                 u->text[i].how & CANVAS_SERIF ? SERIF : SANS);
    for (int k = 0; k <= CANVAS_LINKS; k++) {
        if (!u->link[0][k] && !u->link[1][k]) continue;
        view_say(t, ".k%d,.m%d{stroke-width:", k, k);
        say(t, canvas_link_width((double)k / CANVAS_LINKS));
        view_put(t, "}", 1);
    }
}

// ---- marks --------------------------------------------------------------------------------------
static void classes(struct view_text *t, const struct canvas_op *op, const char *more)
{
    view_say(t, " class=\"");
    if (op->fill)
        view_say(t, "f%d", op->fill);
    else
        view_say(t, "n");
    if (op->stroke) view_say(t, " s%d", op->stroke);
    view_say(t, "%s\"", more);
}

static void stroke_width(struct view_text *t, const struct canvas_op *op)
{
    if (op->stroke && fabsf(op->width - 1) > .001f) attribute(t, "stroke-width", op->width);
    if (op->opacity < .9995f) attribute(t, "opacity", op->opacity);
}

static void put_box(struct view_text *t, const struct canvas_op *op)
{
    view_say(t, "<rect");
    classes(t, op, "");
    attribute(t, "x", op->x);
    attribute(t, "y", op->y);
    attribute(t, "width", op->w);
    attribute(t, "height", op->h);
    stroke_width(t, op);
    view_say(t, "/>\n");
}

static void put_points(struct view_text *t, const struct canvas *s, const struct canvas_op *op)
{
    char last = 0;
    for (int64_t i = 0; i < op->n; i++) {
        const struct canvas_point *p = &s->point[op->at + i];
        if (p->verb == 'Z') {
            view_put(t, "Z", 1);
            continue;
        }
        if (p->verb != last && p->verb != 'c')
            view_put(t, &p->verb, 1);
        else
            view_put(t, " ", 1);
        say(t, p->x);
        view_put(t, " ", 1);
        say(t, p->y);
        last = p->verb == 'M' ? 'M' : p->verb == 'L' ? 'L' : 0;
    }
}

static void put_path(struct view_text *t, const struct canvas *s, const struct canvas_op *op)
{
    char more[24] = "";
    view_say(t, "<path");
    if (op->kind == CANVAS_LINK) {
        view_say(t, " class=\"l s%d %c%d\"", op->stroke, op->how ? 'm' : 'k',
                 link_step(op->opacity));
    } else {
        classes(t, op, more);
        stroke_width(t, op);
        if (op->how) view_say(t, " stroke-dasharray=\"4 4\"");
    }
    view_say(t, " d=\"");
    put_points(t, s, op);
    view_say(t, "\"/>\n");
}

static void put_dot(struct view_text *t, const struct canvas_op *op)
{
    view_say(t, "<circle");
    classes(t, op, "");
    attribute(t, "r", op->w);
    attribute(t, "cx", op->x);
    attribute(t, "cy", op->y);
    stroke_width(t, op);
    view_say(t, "/>\n");
}

// Returns whether a character belongs to a script that is written from right to left, such as
// Hebrew or Arabic.
static bool is_right_to_left(int32_t c)
{
    return (c >= 0x590 && c <= 0x8ff) || (c >= 0xfb1d && c <= 0xfdff) ||
           (c >= 0xfe70 && c <= 0xfefc) || (c >= 0x10800 && c <= 0x10fff) ||
           (c >= 0x1e800 && c <= 0x1efff);
}

size_t canvas_right_to_left(const char *text, size_t n)
{
    size_t end = 0;
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t len =
            utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(n - i), &c);
        if (len <= 0) break;
        i += (size_t)len;
        const bool place = c >= 0x2080 && c <= 0x2089 && end;
        if (is_right_to_left(c) || place)
            end = i;
        else if (c != ' ' || !end)
            break;
    }
    return end;
}

// Writes a text that is read from left to right and isolates its right-to-left words (U+2068 FIRST
// STRONG ISOLATE, U+2069 POP DIRECTIONAL ISOLATE). Otherwise the number after a Hebrew word would
// be on its other side, next to another word.
static void put_isolated(struct view_text *t, const char *text, size_t n)
{
    size_t from = 0;
    for (size_t i = 0; i < n;) {
        const size_t words = canvas_right_to_left(text + i, n - i);
        if (words) {
            view_html_text(t, text + from, i - from);
            view_say(t, "\u2068");
            view_html_text(t, text + i, words);
            view_say(t, "\u2069");
            from = i + words;
        }
        i += words ? words : 1;
    }
    view_html_text(t, text + from, n - from);
}

static bool goes_on(const struct canvas *s, const struct canvas_op *op)
{
    return op < s->op + s->ops && op->kind == CANVAS_TEXT && op->how & CANVAS_AFTER;
}

// Writes a text, together with the texts that continue it (CANVAS_AFTER).
static void put_text(struct view_text *t, const struct canvas *s, const struct canvas_op *op,
                     struct used *u)
{
    if (goes_on(s, op)) { // the preceding text has opened the element
        view_say(t, "<tspan dx=\"%d\" class=\"f%d t%d\">", CANVAS_SPACE, op->fill,
                 text_class(u, op));
        if (s->text.at) put_isolated(t, s->text.at + op->at, (size_t)op->n);
        view_say(t, "</tspan>%s", goes_on(s, op + 1) ? "" : "</text>\n");
        return;
    }
    view_say(t, "<text class=\"f%d t%d%s%s\"", op->fill, text_class(u, op),
             op->how & CANVAS_END ? " e" : "", op->how & CANVAS_MIDDLE ? " c" : "");
    attribute(t, "x", op->x);
    attribute(t, "y", op->y);
    if (op->how & (CANVAS_TILT | CANVAS_UP)) {
        view_say(t, " transform=\"rotate(%d ", op->how & CANVAS_UP ? -90 : -50);
        say(t, op->x);
        view_put(t, " ", 1);
        say(t, op->y);
        view_say(t, ")\"");
    }
    view_put(t, ">", 1);
    if (s->text.at) put_isolated(t, s->text.at + op->at, (size_t)op->n);
    if (!goes_on(s, op + 1)) view_say(t, "</text>\n");
}

// Writes the cells of one colour as one path. Each run of cells of this colour in a row is one
// stroke; coordinates are relative.
static void put_runs(struct view_text *t, const struct canvas *s, const struct canvas_op *op,
                     int color)
{
    const uint8_t *cell = s->cell + op->at;
    int64_t x = 0, y = 0;
    bool any = false;
    for (int64_t i = 0; i < op->n; i++) {
        if (cell[i] != color) continue;
        const int64_t row = i / op->columns, column = i % op->columns;
        int64_t end = column + 1;
        while (end < op->columns && cell[row * op->columns + end] == color) end++;
        if (!any)
            view_say(t, "<path class=\"x s%d\" d=\"M%" PRId64 " %" PRId64 ".5h%" PRId64,
                     op->base + color, column, row, end - column);
        else
            view_say(t, "m%" PRId64 " %" PRId64 "h%" PRId64, column - x, row - y, end - column);
        any = true;
        x = end;
        y = row;
        i += end - column - 1;
    }
    if (any) view_say(t, "\"/>\n");
}

static void put_squares(struct view_text *t, const struct canvas *s, const struct canvas_op *op,
                        int color)
{
    bool any = false;
    for (int64_t i = 0; i < op->n; i++) {
        if (s->cell[op->at + i] != color) continue;
        if (!any) view_say(t, "<path class=\"f%d\" d=\"", op->base + color);
        any = true;
        view_put(t, "M", 1);
        say(t, op->x + (double)(i % op->columns) * op->w);
        view_put(t, " ", 1);
        say(t, op->y + (double)(i / op->columns) * op->h);
        view_put(t, "h", 1);
        say(t, op->w - op->width);
        view_put(t, "v", 1);
        say(t, op->h - op->width);
        view_put(t, "h", 1);
        say(t, op->width - op->w);
        view_put(t, "z", 1);
    }
    if (any) view_say(t, "\"/>\n");
}

static void put_cells(struct view_text *t, const struct canvas *s, const struct canvas_op *op)
{
    const bool steps = op->width <= 0;
    if (steps) {
        view_say(t, "<g transform=\"translate(");
        say(t, op->x);
        view_put(t, " ", 1);
        say(t, op->y);
        view_say(t, ") scale(");
        view_number(t, op->w, 4);
        view_put(t, " ", 1);
        view_number(t, op->h, 4);
        view_say(t, ")\" shape-rendering=\"crispEdges\">\n");
    }
    for (int color = 0; color < PALETTE_OVER - PALETTE_RAMP; color++)
        if (steps)
            put_runs(t, s, op, color);
        else
            put_squares(t, s, op, color);
    if (steps) view_say(t, "</g>\n");
}

static void put_op(struct view_text *t, const struct canvas *s, const struct canvas_op *op,
                   struct used *u)
{
    switch (op->kind) {
    case CANVAS_BOX: put_box(t, op); break;
    case CANVAS_PATH:
    case CANVAS_LINK: put_path(t, s, op); break;
    case CANVAS_DOT: put_dot(t, op); break;
    case CANVAS_TEXT: put_text(t, s, op, u); break;
    case CANVAS_CELLS: put_cells(t, s, op); break;
    case CANVAS_HATCH:
        view_say(t, "<rect fill=\"url(#");
        put_id(t, "hatch", u->id);
        view_say(t, ")\"");
        attribute(t, "x", op->x);
        attribute(t, "y", op->y);
        attribute(t, "width", op->w);
        attribute(t, "height", op->h);
        view_say(t, "/>\n");
        break;
    }
}

// ---- the element --------------------------------------------------------------------------------
static void open_element(struct view_text *t, const struct canvas *s, const char *id)
{
    const int w = (int)ceil(s->width), h = (int)ceil(s->height);
    const char *unit = s->mm > 0 ? "mm" : "";
    view_say(t, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
    if (id) view_say(t, " id=\"%s\"", id);
    view_say(t, " width=\"");
    view_number(t, s->mm > 0 ? s->mm : w, 0);
    view_say(t, "%s\" height=\"", unit);
    view_number(t, s->mm > 0 ? s->mm * h / w : h, s->mm > 0 ? 2 : 0);
    view_say(t, "%s\" viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"", unit, w, h);
    put_id(t, "what", id);
    view_put(t, " ", 1);
    put_id(t, "finding", id);
    view_say(t, "\">\n<title id=\"");
    put_id(t, "what", id);
    view_say(t, "\">");
    if (s->title.at) view_html_text(t, s->title.at, (size_t)s->title.used);
    view_say(t, "</title>\n<desc id=\"");
    put_id(t, "finding", id);
    view_say(t, "\">");
    if (s->sentence.at) view_html_text(t, s->sentence.at, (size_t)s->sentence.used);
    view_say(t, "</desc>\n");
}

static void put_all(struct view_text *t, const struct canvas *s, struct used *u, const char *id)
{
    u->id = id;
    if (u->hatch) {
        view_say(t, "<defs><pattern id=\"");
        put_id(t, "hatch", id);
        view_say(t,
                 "\" width=\"5\" height=\"5\" "
                 "patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(-45)\">"
                 "<path class=\"n s%d\" d=\"M0 0V5\"/></pattern></defs>\n",
                 PALETTE_RULE);
    }
    for (int64_t i = 0; i < s->ops; i++) put_op(t, s, &s->op[i], u);
    t->failed |= canvas_failed(s);
    view_say(t, "</svg>\n");
}

void canvas_svg(struct view_text *t, const struct canvas *s, enum qkv_view_theme theme)
{
    struct used u = { .texts = 0 };
    collect(&u, s);
    open_element(t, s, NULL);
    view_say(t, "<style>");
    style_plain(t, &u);
    style_colours(t, &u, "", theme == QKV_THEME_DARK);
    if (theme == QKV_THEME_AUTO) {
        view_say(t, "@media screen and (prefers-color-scheme:dark){");
        style_colours(t, &u, "", true);
        view_put(t, "}", 1);
    }
    view_say(t, "</style>\n<rect class=\"f%d\" width=\"100%%\" height=\"100%%\"/>\n",
             PALETTE_PAPER);
    put_all(t, s, &u, NULL);
}

void canvas_svg_inner(struct view_text *t, const struct canvas *s, int n, int which, const char *id)
{
    struct used u = { .texts = 0 };
    for (int i = 0; i < n; i++) collect(&u, &s[i]);
    open_element(t, &s[which], id);
    put_all(t, &s[which], &u, id);
}

void canvas_page_style(struct view_text *t, const struct canvas *s, int n)
{
    struct used u = { .texts = 0 };
    for (int i = 0; i < n; i++) collect(&u, &s[i]);
    style_plain(t, &u);
    style_colours(t, &u, "", false);
    view_say(t, "@media (prefers-color-scheme:dark){");
    style_colours(t, &u, ":root:not([data-theme=light]) ", true);
    view_put(t, "}", 1);
    style_colours(t, &u, "[data-theme=dark] ", true);
}

bool canvas_is_picture_name(const char *path)
{
    return qkv_ends_with(path, ".svg") || qkv_ends_with(path, ".png") ||
           !strcmp(path, "/dev/stdout") || !strcmp(path, "/dev/fd/1");
}

qkv_status canvas_file(const struct canvas *s, const char *path, bool force,
                       enum qkv_view_theme theme, qkv_error *err)
{
    struct view_text t = { 0 };
    struct qkv_output out = { .fd = -1 };
    qkv_status status = QKV_OK;
    if (qkv_ends_with(path, ".png"))
        status = canvas_png(&t, s, path, theme, err);
    else
        canvas_svg(&t, s, theme);
    if (!status && t.failed) status = qkv_fail_memory(err, path);
    if (!status) status = qkv_output_open(&out, path, force, err);
    if (!status) status = qkv_output_write(&out, t.at, (size_t)t.used, err);
    if (!status) status = qkv_output_commit(&out, err);
    qkv_output_abort(&out);
    view_text_free(&t);
    return status;
}
