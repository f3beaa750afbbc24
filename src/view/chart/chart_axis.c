// SPDX-License-Identifier: MIT
// chart_axis.c: computes the scales, ticks and labels of axes and the ends of a grid's colour ramp,
// and checks that a chart contains all data that its members announce.
#include "view/chart/chart_internal.h"
#include <inttypes.h>
#include <math.h>

double chart_position(const struct chart_scale *s, double value)
{
    if (s->log) {
        if (value <= s->low) return 0;
        return fmin(1, log(value / s->low) / log(s->high / s->low));
    }
    return fmin(1, fmax(0, (value - s->low) / (s->high - s->low)));
}

// Returns the smallest number that is at least x and is 1, 2 or 5 times a power of ten.
static double round_step(double x)
{
    const double power = pow(10, floor(log10(x))), m = x / power;
    return (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10) * power;
}

int chart_ticks(double out[CHART_TICKS], const struct chart_scale *s, int about)
{
    int n = 0;
    if (s->log && s->high > 2 * s->low) {
        static const double parts[2][7] = { { 1, 2, 5 }, { 1, 1.5, 2, 3, 4, 5, 7 } };
        const double powers = log10(s->high / s->low);
        const int fine = powers<.9, each = powers> 2.2 ? 1 : fine ? 7 : 3;
        const int step = each > 1 ? 1 : (int)ceil(powers / CHART_TICKS);
        for (int e = (int)floor(log10(s->low)); n < CHART_TICKS; e += step) {
            if (pow(10, e) > s->high * (1 + 1e-9)) break;
            for (int k = 0; k < each && n < CHART_TICKS; k++) {
                const double x = parts[fine][k] * pow(10, e);
                if (x >= s->low * (1 - 1e-9) && x <= s->high * (1 + 1e-9)) out[n++] = x;
            }
        }
        return n;
    }
    for (int tries = 0; n < 2 && tries < 4; tries++, about *= 2) { // one tick shows no scale
        const double step = round_step((s->high - s->low) / about);
        n = 0;
        for (double k = ceil(s->low / step - 1e-9); n < CHART_TICKS; k++) {
            if (k * step > s->high + step * 1e-9) break;
            out[n++] = k * step;
        }
    }
    return n;
}

void chart_number(struct view_text *t, double x)
{
    const double a = fabs(x);
    if (!isfinite(x)) {
        view_say(t, "!");
    } else if (a != 0 && (a < 1e-2 || a >= 1e12)) {
        int e = (int)floor(log10(a) + 1e-12);
        double m = x / pow(10, e);
        if (fabs(m) >= 9.95) { // m would be rounded to 10
            m /= 10;
            e++;
        }
        view_number(t, m, fabs(m - floor(m + .5)) < .05 ? 0 : 1);
        view_say(t, "e%d", e);
    } else if (a >= 1000) {
        view_count(t, (int64_t)floor(x + .5));
    } else {
        int digits = a >= 100 ? 0 : a >= 10 ? 1 : a >= 1 ? 2 : a >= .1 ? 3 : 4;
        const double unit = pow(10, digits);
        double whole = floor(a * unit + .5);
        while (digits && fmod(whole, 10) == 0) { // remove trailing zeros
            whole /= 10;
            digits--;
        }
        view_number(t, x, digits);
    }
}

void chart_json(struct view_text *t, double x)
{
    if (fabs(x) < 1e-300 || !isfinite(x)) {
        view_say(t, isfinite(x) ? "0" : "null");
        return;
    }
    const int e = (int)floor(log10(fabs(x)));
    view_number(t, x / pow(10, e), 6);
    if (e) view_say(t, "e%d", e);
}

void chart_number_text(struct view_text *t, double x)
{
    struct view_text plain = { 0 };
    chart_number(&plain, x);
    t->failed |= plain.failed;
    for (int64_t i = 0; i < plain.used; i++)
        if (plain.at[i] == '-')
            view_say(t, "−");
        else
            view_put(t, plain.at + i, 1);
    view_text_free(&plain);
}

double chart_last_value(const struct qkv_chart_line *l)
{
    for (int64_t i = l->n; i-- > 0;)
        if (isfinite(l->y[i])) return l->y[i];
    return NAN;
}

// ---- scales of panels ---------------------------------------------------------------------------
struct range {
    double low, high;
    bool positive;
};
// Returns true if x can be shown on an axis. Numbers above 1e150 cannot be shown and, on a
// logarithmic axis, numbers below 1e-150: computing with them would overflow.
static bool lies_on(double x, bool log)
{
    return fabs(x) <= 1e150 && (!log || x >= 1e-150);
}
static void reach(struct range *r, double x)
{
    if (!lies_on(x, r->positive)) return;
    r->low = fmin(r->low, x);
    r->high = fmax(r->high, x);
}

// Computes the scale for a range of values. part: the margin, as a fraction of the range.
static struct chart_scale scale_of(const struct qkv_chart_axis *a, struct range r, double part)
{
    if (a->low < a->high && lies_on(a->low, false) && lies_on(a->high, false))
        return (struct chart_scale){ a->low, a->high, a->log && lies_on(a->low, true) };
    if (!(r.low <= r.high)) return (struct chart_scale){ a->log ? 1 : 0, a->log ? 10 : 1, a->log };
    struct chart_scale s = { r.low, r.high, a->log };
    if (s.log) {
        if (part > 0 || s.low == s.high) s.low /= 1.1, s.high *= 1.1;
        return s;
    }
    if (a->zero) reach(&r, 0);
    const double capacity = (r.high - r.low) * part;
    // If no value is negative, the margin does not extend below 0.
    s.low = r.low < 0 || r.low > capacity ? r.low - capacity : 0;
    s.high = r.high > 0 || r.low == r.high ? r.high + capacity : 0;
    if (a->zero && r.low == 0) s.low = 0;
    if (!(s.high > s.low)) { // all values are equal
        s.low -= fabs(s.low) * .5 + 1e-12;
        s.high += fabs(s.high) * .5 + 1e-12;
    }
    return s;
}

struct chart_scale chart_scale_x(const struct qkv_chart_panel *p)
{
    struct range r = { INFINITY, -INFINITY, p->x.log };
    bool scattered = false;
    int64_t most = 1;
    if (p->x.label && p->x.low == p->x.high)
        return (struct chart_scale){ -.5, (double)qkv_max64(1, p->x.labels) - .5, false };
    for (int64_t k = 0; k < p->lines; k++) {
        const struct qkv_chart_line *l = &p->line[k];
        scattered |= l->style == QKV_CHART_POINTS;
        if (l->style == QKV_CHART_BARS) most = qkv_max64(most, l->n);
        for (int64_t i = 0; i < l->n; i++) reach(&r, chart_x(l, i));
    }
    for (int64_t k = 0; k < p->marks; k++) reach(&r, p->mark[k].x);
    struct chart_scale s = scale_of(&p->x, r, scattered ? .06 : 0);
    if (most > 1 && r.low < r.high && p->x.low == p->x.high &&
        !s.log) { // the outer bars are inside the panel
        const double half = .5 * (r.high - r.low) / (double)(most - 1);
        s.low -= half, s.high += half;
    }
    return s;
}

struct chart_scale chart_scale_y(const struct qkv_chart_panel *p)
{
    struct range r = { INFINITY, -INFINITY, p->y.log };
    struct qkv_chart_axis a = p->y;
    for (int64_t k = 0; k < p->lines; k++) {
        const struct qkv_chart_line *l = &p->line[k];
        a.zero |= l->style == QKV_CHART_BARS && !a.log;
        for (int64_t i = 0; i < l->n; i++) {
            reach(&r, l->y[i]);
            if (l->low) reach(&r, l->low[i]);
            if (l->high) reach(&r, l->high[i]);
        }
    }
    for (int64_t k = 0; k < p->marks; k++) reach(&r, p->mark[k].y);
    return scale_of(&a, r, .06);
}

void chart_equal(struct chart_scale *x, struct chart_scale *y, double wide, double tall)
{
    if (x->log || y->log || !(wide > 0) || !(tall > 0)) return;
    const double unit = fmax((x->high - x->low) / wide, (y->high - y->low) / tall);
    const double more_x = (unit * wide - (x->high - x->low)) / 2,
                 more_y = (unit * tall - (y->high - y->low)) / 2;
    x->low -= more_x, x->high += more_x;
    y->low -= more_y, y->high += more_y;
}

struct chart_scale chart_shared_x(const struct qkv_chart *c)
{
    struct chart_scale all = { INFINITY, -INFINITY, true };
    for (int64_t i = 0; i < c->panels; i++) {
        if (c->panel[i].grid) continue;
        const struct chart_scale s = chart_scale_x(&c->panel[i]);
        all.low = fmin(all.low, s.low);
        all.high = fmax(all.high, s.high);
        all.log &= s.log; // logarithmic only if the scale of every panel is
    }
    return all;
}

bool chart_is_on_axis(const struct chart_scale *s, double value)
{
    return lies_on(value, s->log);
}

void chart_grid_ends(double *low, double *high, const struct qkv_chart_grid *g)
{
    struct range r = { INFINITY, -INFINITY, false };
    *low = g->low, *high = g->high;
    if (g->ramp == QKV_CHART_WEIGHTS) *low = 0, *high = 1;
    if (*low == *high) {
        for (int64_t i = 0; i < g->rows * g->columns; i++) reach(&r, (double)g->value[i]);
        *low = r.low <= r.high ? r.low : 0;
        *high = r.low <= r.high ? r.high : 1;
    }
    if (g->ramp == QKV_CHART_SIGNED) {
        *high = fmax(fabs(*low), fabs(*high));
        if (!(*high > 0)) *high = 1;
        *low = -*high;
    }
    if (!(*high > *low)) *high = *low + 1;
}

double chart_darkness(const struct qkv_chart_grid *g, double low, double high, double value)
{
    if (g->ramp == QKV_CHART_WEIGHTS) return value > 0 ? pow(value, .7) : 0;
    if (g->ramp == QKV_CHART_SIGNED) return value / high;
    return (value - low) / (high - low);
}

int chart_color(int hue, int64_t place)
{
    if (hue == QKV_CHART_QUIET) return PALETTE_TEXT3;
    if (hue == QKV_CHART_RED) return PALETTE_HOT;
    return PALETTE_HEAD + (hue > 0 ? hue - 1 : (int)(place % QKV_CHART_HUES)) % QKV_CHART_HUES;
}

// ---- checks of the data ------------------------------------------------------------------------
static const char *wrong(const struct qkv_chart_panel *p)
{
    const struct qkv_chart_grid *g = p->grid;
    if (p->lines < 0 || p->marks < 0 || p->x.labels < 0) return "a negative number of elements";
    if ((p->lines && !p->line) || (p->marks && !p->mark))
        return "lines or marks whose array is NULL";
    for (int64_t i = 0; i < p->lines; i++) {
        const struct qkv_chart_line *l = &p->line[i];
        if (l->n < 0 || (l->n && !l->y)) return "a line without values";
        if (!l->low != !l->high) return "a band with a lower or an upper edge only";
        if (l->style < 0 || l->style >= QKV_CHART_STYLES) return "a line of unknown style";
        if (l->hue < QKV_CHART_RED || l->hue > QKV_CHART_HUES) return "a line of unknown colour";
    }
    if (!g) return NULL;
    int64_t n;
    if (g->rows < 1 || g->columns < 1 || !g->value) return "a grid without values";
    if (__builtin_mul_overflow(g->rows, g->columns, &n) || n > INT32_MAX)
        return "a grid with too many cells";
    if (g->ramp < 0 || g->ramp >= QKV_CHART_RAMPS) return "a grid with an unknown colour scale";
    return NULL;
}

qkv_status chart_check(const struct qkv_chart *c, bool table_alone, qkv_error *err)
{
    const char *found = NULL;
    const bool alone = table_alone && c && !c->panels && c->table;
    if (!alone && (!c || !c->panel || c->panels < 1)) found = "no panels";
    if (!found && (c->across < 0 || c->panels > 4096))
        found = "more than 4096 panels, or a member across below 0";
    for (int64_t i = 0; !found && i < c->panels; i++) found = wrong(&c->panel[i]);
    if (!found && c->table && (c->table->rows < 0 || c->table->columns < 0 || !c->table->cell))
        found = "a table without cells";
    if (!found) return QKV_OK;
    return qkv_fail(err, QKV_ERR_USAGE, NULL, "qkv_chart: invalid chart, found %s", found);
}
