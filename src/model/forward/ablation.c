// SPDX-License-Identifier: MIT
// ablation.c: parses and formats names of ablated heads, and checks that a model has these heads.
#include "model/forward/observe.h"
#include "model/forward/stream.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const parts[] = { "", "enc.", "dec.", "cross." };
static const char *const kinds[] = { "zero", "mean", "uniform" };
enum { PARTS = 4, KINDS = 3 };

// ---- names -------------------------------------------------------------------------------------
// Parses the digits at *p as a number; false: there are no digits or more than 9, or the first of
// several digits is 0.
static bool number(int64_t *out, const char **p, const char *end)
{
    const char *from = *p;
    *out = 0;
    while (*p < end && **p >= '0' && **p <= '9' && *p - from < 9) *out = *out * 10 + *(*p)++ - '0';
    return *p > from && !(*from == '0' && *p - from > 1) && !(*p < end && **p >= '0' && **p <= '9');
}

static bool take(const char **p, const char *end, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(end - *p) < n || memcmp(*p, word, n) != 0) return false;
    *p += n;
    return true;
}

// Parses the text p .. end, "=KIND"; an empty text means the kind zero.
static bool kind_of(enum qkv_ablation_kind *out, const char *p, const char *end)
{
    *out = QKV_ABLATE_ZERO;
    if (p == end) return true;
    if (!take(&p, end, "=")) return false;
    for (int k = 0; k < KINDS; k++)
        if ((size_t)(end - p) == strlen(kinds[k]) && !memcmp(p, kinds[k], (size_t)(end - p))) {
            *out = (enum qkv_ablation_kind)k;
            return true;
        }
    return false;
}

qkv_status qkv_ablation_parse(struct qkv_ablation *out, const char *text, size_t bytes,
                              qkv_error *err)
{
    if (!out || !text)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "qkv_ablation_parse: expected a pointer for the ablation and a text, found NULL");
    const char *p = text, *end = text + bytes;
    struct qkv_ablation a = { .part = QKV_PART_STACK };
    for (int i = 1; i < PARTS && !a.part; i++)
        if (take(&p, end, parts[i])) a.part = (enum qkv_attention_part)i;
    bool named = take(&p, end, "L") && number(&a.layer, &p, end) && take(&p, end, ".H");
    if (named && take(&p, end, "*"))
        a.head = -1;
    else
        named = named && number(&a.head, &p, end);
    if (!named || (p < end && *p != '='))
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "unknown head to ablate, expected a name such as L3.H5, or L3.H* for all heads of a "
            "layer (in an encoder-decoder enc.L0.H1, dec.L0.H1 or cross.L0.H1), found '%.*s'",
            (int)(bytes < 60 ? bytes : 60), text);
    if (!kind_of(&a.kind, p, end))
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "unknown replacement of a head, expected =zero, =mean or =uniform, found '%.*s'",
            (int)(end - p < 60 ? end - p : 60), p);
    *out = a;
    return QKV_OK;
}

char *qkv_ablation_name(char *out, size_t size, const struct qkv_ablation *a)
{
    if (!out || !size) return out;
    out[0] = 0;
    if (!a || (int)a->part < 0 || (int)a->part >= PARTS || (int)a->kind < 0 ||
        (int)a->kind >= KINDS)
        return out;
    if (a->head < 0)
        snprintf(out, size, "%sL%" PRId64 ".H*=%s", parts[a->part], a->layer, kinds[a->kind]);
    else
        snprintf(out, size, "%sL%" PRId64 ".H%" PRId64 "=%s", parts[a->part], a->layer, a->head,
                 kinds[a->kind]);
    return out;
}

// ---- lists -------------------------------------------------------------------------------------
static qkv_status no_such(const struct qkv_model *m, const struct qkv_ablation *x, const char *what,
                          int64_t last, int64_t found, qkv_error *err)
{
    char name[48];
    return qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_location){ .file = m->dir },
                    "cannot ablate %s: no such %s, expected 0 to %" PRId64 ", found %" PRId64,
                    qkv_ablation_name(name, sizeof name, x), what, last, found);
}

static qkv_status check_one(const struct qkv_model *m, const struct qkv_ablation *x, qkv_error *err)
{
    const struct qkv_location at = { .file = m->dir };
    char name[48];
    if ((int)x->kind < 0 || (int)x->kind >= KINDS)
        return qkv_fail(err, QKV_ERR_USAGE, &at,
                        "unknown replacement of a head, expected zero, mean or uniform (enum "
                        "qkv_ablation_kind), found %d",
                        (int)x->kind);
    const bool known = (int)x->part >= 0 && (int)x->part < PARTS;
    if (!known || (m->stacks > 1) != (x->part != QKV_PART_STACK))
        return qkv_fail(
            err, QKV_ERR_USAGE, &at,
            "cannot ablate %s: head of the wrong part of the model, expected %s",
            qkv_ablation_name(name, sizeof name, x),
            m->stacks > 1
                ? "enc., dec. or cross. before the layer, since the model has an encoder and a "
                  "decoder"
                : "a layer without enc., dec. or cross. before it, since the model has one stack");
    const int64_t layers = m->stack[qkv_part_stack(x->part)].layers;
    if (x->layer < 0 || x->layer >= layers)
        return no_such(m, x, "layer", layers - 1, x->layer, err);
    if (x->head < -1 || x->head >= m->is.size.heads)
        return no_such(m, x, "head", m->is.size.heads - 1, x->head, err);
    return QKV_OK;
}

qkv_status qkv_ablation_check(const struct qkv_model *m, const struct qkv_ablation *list, int64_t n,
                              qkv_error *err)
{
    qkv_status status = QKV_OK;
    for (int64_t i = 0; !status && i < n; i++) {
        status = check_one(m, &list[i], err);
        // The check for duplicates is quadratic, but bounded: it ends at the first duplicate, so it
        // reads at most one entry per head of the model.
        for (int64_t k = 0; !status && k < i; k++) {
            const struct qkv_ablation *x = &list[i], *y = &list[k];
            char name[48];
            if (x->part == y->part && x->layer == y->layer &&
                (x->head == y->head || x->head < 0 || y->head < 0))
                status =
                    qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_location){ .file = m->dir },
                             "cannot ablate %s: the head is named twice, expected each head once",
                             qkv_ablation_name(name, sizeof name, x));
        }
    }
    return status;
}
