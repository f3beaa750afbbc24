// SPDX-License-Identifier: MIT
// chart_minus.c: writes the minus sign U+2212 in the texts of a chart, as its axes and tables have
// it: callers write numbers and formulas with the hyphen of ASCII.
#include "view/chart/chart_internal.h"
#include <string.h>

// Returns true if the hyphen at text[i] is a sign or an operator: before a digit, and after no
// letter or digit ("-0.5", "2^(-8 x)"); or between spaces, with a number or a name on both sides.
static bool is_minus(const char *text, size_t i)
{
    const char before = i ? text[i - 1] : ' ', after = text[i + 1];
    const bool digit = after >= '0' && after <= '9';
    if (digit || (after == '.' && text[i + 2] >= '0' && text[i + 2] <= '9'))
        return strchr(" (^=|[,", before) != NULL;
    return i && before == ' ' && after == ' ';
}

// Returns a copy of the text with minus signs, or the text itself if it has none.
static const char *with_minus(const char *text, struct view_text *own)
{
    bool found = false;
    for (size_t i = 0; text && text[i]; i++) found |= text[i] == '-' && is_minus(text, i);
    if (!found) return text;
    for (size_t i = 0; text[i]; i++)
        if (text[i] == '-' && is_minus(text, i))
            view_say(own, "−");
        else
            view_put(own, text + i, 1);
    return own->at;
}

void chart_minus_free(struct chart_minus *m)
{
    for (int64_t i = 0; i < m->texts; i++) view_text_free(&m->text[i]);
    qkv_free(m->text);
    qkv_free(m->panel);
    *m = (struct chart_minus){ .text = NULL };
}

qkv_status chart_minus(struct chart_minus *m, const struct qkv_chart *c, qkv_error *err)
{
    *m = (struct chart_minus){ .chart = *c };
    const int64_t texts = 2 + 2 * c->panels;
    bool failed = false;
    m->text = qkv_alloc_zero((size_t)texts, sizeof *m->text);
    m->panel = qkv_alloc((size_t)c->panels + 1, sizeof *m->panel);
    if (!m->text || !m->panel) {
        chart_minus_free(m);
        return qkv_fail_memory(err, NULL);
    }
    m->texts = texts;
    m->chart.title = with_minus(c->title, &m->text[0]);
    m->chart.sentence = with_minus(c->sentence, &m->text[1]);
    for (int64_t i = 0; i < c->panels; i++) {
        m->panel[i] = c->panel[i];
        m->panel[i].name = with_minus(c->panel[i].name, &m->text[2 + 2 * i]);
        m->panel[i].note = with_minus(c->panel[i].note, &m->text[3 + 2 * i]);
    }
    m->chart.panel = m->panel;
    for (int64_t i = 0; i < texts; i++) failed |= m->text[i].failed;
    if (!failed) return QKV_OK;
    chart_minus_free(m);
    return qkv_fail_memory(err, NULL);
}
