// SPDX-License-Identifier: MIT
// ablation.c: heads to take away, by name, and whether a model has them.
#include "model/model.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const parts[] = { "", "enc.", "dec.", "cross." };
static const char *const kinds[] = { "zero", "mean", "uniform" };
enum { PARTS = 4, KINDS = 3 };

// ---- names -------------------------------------------------------------------------------------
// The digits at *p as a number; false: none there, or too many.
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

// "=zero" up to the end; nothing is zero too.
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
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_ablation_parse, expected a place and a text, found NULL");
    const char *p = text, *end = text + bytes;
    struct qkv_ablation a = { .part = QKV_SEEN_STACK };
    for (int i = 1; i < PARTS && !a.part; i++)
        if (take(&p, end, parts[i])) a.part = (enum qkv_seen_part)i;
    bool named = take(&p, end, "L") && number(&a.layer, &p, end) && take(&p, end, ".H");
    if (named && take(&p, end, "*"))
        a.head = -1;
    else
        named = named && number(&a.head, &p, end);
    if (!named || (p < end && *p != '='))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "a head to ablate, expected L3.H5, L3.H* for all of a layer, or enc.L0.H1, "
                        "dec.L0.H1, cross.L0.H1, found '%.*s'",
                        (int)(bytes < 60 ? bytes : 60), text);
    if (!kind_of(&a.kind, p, end))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "what becomes of a head, expected =zero, =mean or =uniform, found '%.*s'",
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
static qkv_status no_such(const struct qkv_ablation_shape *of, const struct qkv_ablation *x,
                          const char *what, int64_t last, int64_t found, qkv_error *err)
{
    char name[48];
    return qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_place){ .file = of->dir },
                    "%s to ablate: no such %s, expected 0 to %" PRId64 ", found %" PRId64,
                    qkv_ablation_name(name, sizeof name, x), what, last, found);
}

static qkv_status check_one(const struct qkv_ablation_shape *of, const struct qkv_ablation *x,
                            qkv_error *err)
{
    const struct qkv_place at = { .file = of->dir };
    char name[48];
    if ((int)x->kind < 0 || (int)x->kind >= KINDS)
        return qkv_fail(err, QKV_ERR_USAGE, &at,
                        "what becomes of a head: no such kind, expected zero, mean or uniform");
    const bool known = (int)x->part >= 0 && (int)x->part < PARTS;
    if (!known || (of->stacks > 1) != (x->part != QKV_SEEN_STACK))
        return qkv_fail(err, QKV_ERR_USAGE, &at, "%s to ablate: no such part, expected %s",
                        qkv_ablation_name(name, sizeof name, x),
                        of->stacks > 1 ? "enc., dec. or cross. before the layer of a model of two "
                                         "stacks"
                                       : "a layer alone, for the model has one stack");
    const int64_t layers = of->layers[qkv_part_stack(x->part)];
    if (x->layer < 0 || x->layer >= layers)
        return no_such(of, x, "layer", layers - 1, x->layer, err);
    if (x->head < -1 || x->head >= of->heads)
        return no_such(of, x, "head", of->heads - 1, x->head, err);
    return QKV_OK;
}

qkv_status qkv_ablation_check(const struct qkv_ablation_shape *of, const struct qkv_ablation *list,
                              int64_t n, qkv_error *err)
{
    qkv_status s = QKV_OK;
    for (int64_t i = 0; !s && i < n; i++) {
        s = check_one(of, &list[i], err);
        for (int64_t k = 0; !s && k < i; k++) { // ends after as many names as there are heads
            const struct qkv_ablation *x = &list[i], *y = &list[k];
            char name[48];
            if (x->part == y->part && x->layer == y->layer &&
                (x->head == y->head || x->head < 0 || y->head < 0))
                s = qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_place){ .file = of->dir },
                             "%s to ablate: the head is named twice, expected once",
                             qkv_ablation_name(name, sizeof name, x));
        }
    }
    return s;
}
