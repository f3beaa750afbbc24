// SPDX-License-Identifier: MIT
// page.c: builds the page of a topic from panels, lines, grids and a table, and owns their memory.
#include "explain/explain.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void *page_take(struct page *p, size_t count, size_t size)
{
    void *at = cmd_alloc(count ? count : 1, size);
    memset(at, 0, (count ? count : 1) * size);
    p->block = cmd_grow(p->block, (size_t)p->blocks + 1, sizeof *p->block);
    p->block[p->blocks++] = at;
    return at;
}

struct text_run *text_run_take(struct page *p)
{
    struct text_run *s = page_take(p, 1, sizeof *s);
    p->seen[p->seens++] = s;
    return s;
}

void page_free(struct page *p)
{
    qkv_view_free(p->picture);
    for (int i = 0; i < p->seens; i++) text_run_close(p->seen[i]);
    for (int64_t i = 0; i < p->blocks; i++) free(p->block[i]);
    free(p->block);
}

__attribute__((format(printf, 2, 0))) static char *formatted(struct page *p, const char *format,
                                                             va_list list)
{
    va_list again;
    va_copy(again, list);
    const int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = page_take(p, (size_t)(n > 0 ? n : 0) + 1, 1);
    vsnprintf(text, (size_t)(n > 0 ? n : 0) + 1, format, list);
    return text;
}

const char *page_text(struct page *p, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const char *text = formatted(p, format, list);
    va_end(list);
    return text;
}

const char **page_numbered(struct page *p, const char *name, int64_t n)
{
    const char **names = page_take(p, (size_t)n, sizeof *names);
    for (int64_t i = 0; i < n; i++) names[i] = page_text(p, "%s%lld", name, (long long)i);
    return names;
}

const char *page_weight(struct page *p, double w, int digits)
{
    return qkv_weight_text(page_take(p, QKV_WEIGHT_BYTES, 1), w, digits);
}

const char *page_bound(struct page *p, double x, double bound)
{
    return x < bound ? page_text(p, "less than %.0e", bound) : page_text(p, "%.1e", x);
}

void page_title(struct page *p, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(p->title, sizeof p->title, format, list);
    va_end(list);
}

void page_say(struct page *p, const char *format, ...)
{
    const size_t used = strlen(p->sentence);
    va_list list;
    va_start(list, format);
    vsnprintf(p->sentence + used, sizeof p->sentence - used, format, list);
    va_end(list);
}

void page_after(struct page *p, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    p->after = formatted(p, format, list);
    va_end(list);
}

static struct page_array *new_array(struct page *p, const char *name, int64_t n)
{
    struct page_array *x =
        &p->array[p->arrays < EXPLAIN_ARRAYS - 1 ? p->arrays++ : EXPLAIN_ARRAYS - 1];
    *x = (struct page_array){ .name = name, .n = n };
    return x;
}

void page_numbers(struct page *p, const char *name, const double *x, int64_t n)
{
    new_array(p, name, n)->number = x;
}

void page_names(struct page *p, const char *name, const char *const *text, int64_t n)
{
    new_array(p, name, n)->text = text;
}

struct qkv_chart_panel *page_panel(struct page *p, const char *name)
{
    struct qkv_chart_panel *panel =
        &p->panel[p->panels < EXPLAIN_PANELS - 1 ? p->panels++ : EXPLAIN_PANELS - 1];
    *panel = (struct qkv_chart_panel){ .name = name };
    return panel;
}

float *page_grid(struct page *p, const char *name, int64_t rows, int64_t columns,
                 const char *const *row_label, const char *const *column_label,
                 enum qkv_chart_ramp ramp)
{
    struct qkv_chart_grid *g = page_take(p, 1, sizeof *g);
    float *value = page_take(p, array_count(2, (int64_t[]){ rows, columns }), sizeof *value);
    *g = (struct qkv_chart_grid){ .value = value,
                                  .rows = rows,
                                  .columns = columns,
                                  .row_label = row_label,
                                  .column_label = column_label,
                                  .ramp = ramp,
                                  .digits = 2 };
    struct qkv_chart_panel *panel = page_panel(p, name);
    panel->grid = p->grid[panel - p->panel] = g;
    return value;
}

struct qkv_chart_line *page_line(struct page *p, struct qkv_chart_panel *to, const char *name,
                                 const double *x, const double *y, int64_t n)
{
    struct qkv_chart_line *lines = page_take(p, (size_t)to->lines + 1, sizeof *lines);
    if (to->lines) memcpy(lines, to->line, (size_t)to->lines * sizeof *lines);
    double *own_x = x ? page_take(p, (size_t)n, sizeof *own_x) : NULL;
    double *own_y = page_take(p, (size_t)n, sizeof *own_y);
    if (x) memcpy(own_x, x, (size_t)n * sizeof *own_x);
    memcpy(own_y, y, (size_t)n * sizeof *own_y);
    lines[to->lines] = (struct qkv_chart_line){ .name = name, .x = own_x, .y = own_y, .n = n };
    to->line = lines;
    return &lines[to->lines++];
}

void page_table(struct page *p, const char *name, int64_t rows, int64_t columns)
{
    p->cell = page_take(p, (size_t)(rows * columns), sizeof *p->cell);
    p->table =
        (struct qkv_chart_table){ .name = name, .cell = p->cell, .rows = rows, .columns = columns };
}

const struct qkv_chart_table *page_brief(struct page *p, struct qkv_chart_table *table)
{
    const int64_t columns = table->columns, left = table->rows - 1 - p->brief;
    if (!p->brief || left < 2) return table;
    const char **cell =
        page_take(p, array_count(2, (int64_t[]){ p->brief + 2, columns }), sizeof *cell);
    memcpy(cell, table->cell, (size_t)((p->brief + 1) * columns) * sizeof *cell);
    cell[(p->brief + 1) * columns] = page_text(p, "... %lld more", (long long)left);
    table->cell = cell;
    table->rows = p->brief + 2;
    return table;
}

void page_cell(struct page *p, int64_t row, int64_t column, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    p->cell[row * p->table.columns + column] = formatted(p, format, list);
    va_end(list);
}
