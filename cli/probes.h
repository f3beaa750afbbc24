// SPDX-License-Identifier: MIT
// probes.h: `--probe LIST`: what a command should find out about an attention, and the arrays of
// it.
#ifndef QKV_PROBES_H
#define QKV_PROBES_H

#include "arrays.h"

#define PROBES_HELP                                                                                \
    "words with commas: top=K (largest weights of a row and their keys), rows=0+5+8-10 (those "    \
    "rows in full), received (what a key is given by all rows), entropy (nats), distance "         \
    "(tokens), offsets=R (by key less query, -R to R), tiles=N (N x N: largest and mean)"

// "top=16,entropy" to a wish; *rows (free it) is what w->row points to.  QKV_ERR_USAGE names the
// option and the word that is wrong.
qkv_status probes_parse(struct qkv_probe_wish *w, int64_t **rows, const char *option,
                        const char *text, qkv_error *err);

// One array of a probe: its name, its shape without the axes of batch and heads in front.
struct probe_array {
    const char *name;
    qkv_dtype dtype; // QKV_F32, QKV_I32
    int rank;
    int64_t shape[2];
    const void *at;
    int64_t count; // of one head
};
enum { PROBE_ARRAYS = 9 };
// Those that are there, in the order of struct qkv_probe; how many.
int probes_list(struct probe_array to[PROBE_ARRAYS], const struct qkv_probe *p, int64_t T,
                int64_t S);

// Sizes of a wish, as the library makes them: what is wanted is not NULL, and points nowhere.
void probes_shape(struct qkv_probe *p, const struct qkv_probe_wish *w, int64_t T, int64_t S);
// Arrays of a wish for `heads` = B H heads of T rows and S keys; free them.
void probes_new(struct qkv_probe *p, const struct qkv_probe_wish *w, int64_t heads, int64_t T,
                int64_t S);
void probes_free(struct qkv_probe *p);

#endif
