// SPDX-License-Identifier: MIT
// made_output.h: makes up the output of a model for a view of made.h.
#ifndef QKV_TEST_MADE_OUTPUT_H
#define QKV_TEST_MADE_OUTPUT_H
#include <qkv/view.h>
#include <stdlib.h>

static const char *const made_names[] = { "alpha",
                                          "\xe2\x90\xa3word",
                                          "<b>&\"",
                                          "\xe6\x97\xa5\xe6\x9c\xac",
                                          "a name that is longer than any cell",
                                          "z",
                                          "\x1b[31m" };
enum { MADE_NAMES = sizeof made_names / sizeof *made_names, MADE_TOP = 3 };

// Returns the number at (position, row, place) of the made-up output: a probability or a share.
static inline double made_number(enum qkv_view_output_kind kind, int64_t T, int64_t p, int64_t l,
                                 int64_t k)
{
    if (kind == QKV_VIEW_OUTPUT_SHARES) // they add up to 1, and the first is below 0
        return T == 1 ? 1 : p ? (1 + .25) / (double)(T - 1) : -.25;
    return .6 / (double)((1 + k) * (1 + (p + l) % 3));
}
static inline int32_t made_entry(int64_t p, int64_t l, int64_t k)
{
    return (int32_t)((p + k + (l > 1)) % MADE_NAMES);
}

static inline qkv_status give_output(qkv_view *v, int64_t T, int64_t L,
                                     enum qkv_view_output_kind kind)
{
    const bool lens = kind <= QKV_VIEW_OUTPUT_MASKED, labels = kind == QKV_VIEW_OUTPUT_LABELS;
    const int64_t P = labels ? 1 : T, rows = lens ? L + 1 : 1,
                  top = kind == QKV_VIEW_OUTPUT_SHARES ? 1 : MADE_TOP, n = P * rows;
    int64_t *at = calloc((size_t)P, sizeof *at), *rank = calloc((size_t)n, sizeof *rank);
    int32_t *entry = calloc((size_t)(n * top), sizeof *entry),
            *target = calloc((size_t)P, sizeof *target);
    float *value = calloc((size_t)(n * top), sizeof *value), *own = calloc((size_t)n, sizeof *own);
    if (!at || !rank || !entry || !target || !value || !own) abort();
    for (int64_t p = 0; p < P; p++) {
        at[p] = p;
        target[p] = p + 1 < P ? (int32_t)(p % MADE_NAMES) : -1;
        for (int64_t l = 0; l < rows; l++) {
            rank[p * rows + l] = p % 3 ? 12345 : 0;
            own[p * rows + l] = .0123f;
            for (int64_t k = 0; k < top; k++) {
                entry[(p * rows + l) * top + k] = made_entry(p, l, k);
                value[(p * rows + l) * top + k] = (float)made_number(kind, T, p, l, k);
            }
        }
    }
    const struct qkv_view_output o = { .kind = kind,
                                       .positions = P,
                                       .rows = rows,
                                       .top = top,
                                       .at = labels ? NULL : at,
                                       .name = made_names,
                                       .names = MADE_NAMES,
                                       .entry = entry,
                                       .value = value,
                                       .target = lens ? target : NULL,
                                       .target_value = lens ? own : NULL,
                                       .target_rank = lens ? rank : NULL,
                                       .detail = "mean" };
    const qkv_status status = qkv_view_output_add(v, 0, &o, NULL);
    free(at);
    free(rank);
    free(entry);
    free(target);
    free(value);
    free(own);
    return status;
}
#endif
