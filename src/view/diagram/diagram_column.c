// SPDX-License-Identifier: MIT
// diagram_column.c: draws a column of boxes from bottom to top, with arrows between them, residual
// connections next to them, and a frame around the boxes that are repeated.
#include "view/diagram/diagram_internal.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TITLE = 13, MORE = 11, LOW = 30, TALL = 46, SUM = 20, RADIUS = 9, AWAY = 18, FRAME = 14 };

static int add(struct diagram_column *c, struct diagram_item item)
{
    if (c->items == DIAGRAM_ITEMS) {
        c->s->failed = true;
        return 0;
    }
    c->item[c->items] = item;
    return c->items++;
}

int diagram_box(struct diagram_column *c, int fill, const char *title, const char *more)
{
    struct diagram_item item = { .fill = fill, .tall = more && *more ? TALL : LOW };
    snprintf(item.title, sizeof item.title, "%s", title);
    snprintf(item.more, sizeof item.more, "%s", more ? more : "");
    return add(c, item);
}

int diagram_text(struct diagram_column *c, const char *text)
{
    struct diagram_item item = { .kind = DIAGRAM_TEXT, .tall = SUM };
    snprintf(item.title, sizeof item.title, "%s", text);
    return add(c, item);
}

int diagram_sum(struct diagram_column *c, int from)
{
    return add(c, (struct diagram_item){ .kind = DIAGRAM_SUM, .from = from, .tall = SUM });
}

double diagram_box_width(const struct canvas *s, const char *title, const char *more)
{
    return 28 + fmax(canvas_width(s, title, strlen(title), TITLE, CANVAS_BOLD),
                     canvas_width(s, more ? more : "", more ? strlen(more) : 0, MORE, 0));
}

void diagram_measure(struct diagram_column *c)
{
    c->wide = 150;
    for (int i = 0; i < c->items; i++)
        c->wide = fmax(c->wide, diagram_box_width(c->s, c->item[i].title, c->item[i].more));
}

static double group_width(const struct diagram_column *c)
{
    return c->last ? canvas_width(c->s, c->group, strlen(c->group), TITLE, CANVAS_BOLD) + 10 : 0;
}
double diagram_width(const struct diagram_column *c)
{
    return c->wide + 2 * (AWAY + FRAME) + 2 * group_width(c);
}

double diagram_height(const struct diagram_column *c)
{
    double all = 0;
    for (int i = 0; i < c->items; i++) all += c->item[i].tall + (i ? DIAGRAM_GAP : 0);
    return all;
}

void diagram_place(struct diagram_column *c, double middle, double bottom)
{
    double y = bottom;
    c->middle = middle;
    c->bottom = bottom;
    for (int i = 0; i < c->items; i++) {
        y -= c->item[i].tall;
        c->item[i].y = y;
        c->top = y;
        y -= DIAGRAM_GAP;
    }
}

void diagram_arrow(struct canvas *s, const double *at, int n)
{
    const double x = at[2 * n - 2], y = at[2 * n - 1], dx = x - at[2 * n - 4],
                 dy = y - at[2 * n - 3], all = fmax(1e-9, sqrt(dx * dx + dy * dy)), u = dx / all,
                 v = dy / all;
    canvas_path(s, PALETTE_NONE, PALETTE_TEXT2, 1.2, 1);
    canvas_move_to(s, at[0], at[1]);
    for (int i = 1; i < n; i++) canvas_line_to(s, at[2 * i], at[2 * i + 1]);
    canvas_path(s, PALETTE_TEXT2, PALETTE_NONE, 0, 1); // the head: a triangle 7 long and 6 wide
    canvas_move_to(s, x, y);
    canvas_line_to(s, x - 7 * u - 3 * v, y - 7 * v + 3 * u);
    canvas_line_to(s, x - 7 * u + 3 * v, y - 7 * v - 3 * u);
    canvas_close(s);
}

void diagram_draw_box(struct canvas *s, double x, double y, double w, double h, int fill,
                      const char *title, const char *more)
{
    const double base = more && *more ? y + h / 2 - 4 : y + h / 2 + 5;
    canvas_box(s, x, y, w, h, fill);
    canvas_frame(s, x, y, w, h, PALETTE_TEXT3, 1);
    canvas_text(s, x + w / 2, base, TITLE, CANVAS_MIDDLE | CANVAS_BOLD, PALETTE_TEXT, title,
                strlen(title));
    if (more && *more)
        canvas_text(s, x + w / 2, base + 16, MORE, CANVAS_MIDDLE, PALETTE_TEXT2, more,
                    strlen(more));
}

static void draw_sum(const struct diagram_column *c, const struct diagram_item *o)
{
    const double y = o->y + o->tall / 2, r = RADIUS, x = c->middle;
    const struct diagram_item *from = &c->item[o->from];
    const double side = x + c->side * (c->wide / 2 + AWAY);
    const double start = from->y + from->tall + DIAGRAM_GAP / 2;
    canvas_dot(c->s, x, y, r, PALETTE_CHIP, PALETTE_TEXT3, 1);
    canvas_line(c->s, x - r + 4, y, x + r - 4, y, PALETTE_TEXT, 1.2);
    canvas_line(c->s, x, y - r + 4, x, y + r - 4, PALETTE_TEXT, 1.2);
    const double way[] = { x, start, side, start, side, y, x + c->side * r, y };
    diagram_arrow(c->s, way, 4);
}

static void draw_group(const struct diagram_column *c)
{
    const struct diagram_item *low = &c->item[c->first], *high = &c->item[c->last];
    const double half = c->wide / 2 + AWAY + FRAME, top = high->y - DIAGRAM_GAP / 2 + 2,
                 bottom = low->y + low->tall + DIAGRAM_GAP - 3;
    canvas_box(c->s, c->middle - half, top, 2 * half, bottom - top, PALETTE_PANEL);
    canvas_frame(c->s, c->middle - half, top, 2 * half, bottom - top, PALETTE_RULE, 1);
    canvas_text(c->s, c->middle + c->side * (half + 8), (top + bottom) / 2 + 5, TITLE,
                CANVAS_BOLD | (c->side < 0 ? CANVAS_END : 0), PALETTE_TEXT2, c->group,
                strlen(c->group));
}

void diagram_draw(const struct diagram_column *c)
{
    if (c->last) draw_group(c);
    for (int i = 0; i < c->items; i++) {
        const struct diagram_item *o = &c->item[i];
        if (o->kind == DIAGRAM_SUM)
            draw_sum(c, o);
        else if (o->kind == DIAGRAM_TEXT)
            canvas_text(c->s, c->middle, o->y + 14, TITLE, CANVAS_MIDDLE, PALETTE_TEXT, o->title,
                        strlen(o->title));
        else
            diagram_draw_box(c->s, c->middle - c->wide / 2, o->y, c->wide, o->tall, o->fill,
                             o->title, o->more);
        if (!i) continue;
        const struct diagram_item *below = &c->item[i - 1];
        const double inset = o->kind == DIAGRAM_SUM ? 1 : 0,
                     out = below->kind == DIAGRAM_SUM ? 1 : 0;
        const double way[] = { c->middle, below->y + out, c->middle, o->y + o->tall - inset };
        diagram_arrow(c->s, way, 2);
    }
}
