// SPDX-License-Identifier: MIT
// probes.h: declares the parsing of `--probe LIST`, which requests attention statistics, and the
// allocation of their arrays.
#ifndef QKV_PROBES_H
#define QKV_PROBES_H

#include "frame/arrays.h"

#define PROBES_HELP                                                                                \
    "attention statistics, separated by commas: top=K (the K largest weights of each row, and "    \
    "their keys), rows=0+5+8-10 (all weights of rows 0, 5 and 8 to 10), received (sum of the "     \
    "weights that a key receives), entropy (of each row, in nats), distance (mean distance of "    \
    "query and key, in tokens), offsets=R (weight by key position minus query position, -R to "    \
    "R), tiles=N (largest and mean weight in each of N x N blocks)"

// Parses a list such as "top=16,entropy" to a request.  w->row points to *rows, which the caller
// frees. Returns QKV_ERR_USAGE if the list is invalid; err names the option and the wrong word.
qkv_status probes_parse(struct qkv_probe_request *w, int64_t **rows, const char *option,
                        const char *text, qkv_error *err);

// An array of statistics: its name and its shape, without the axes batch and heads.
struct probe_array {
    const char *name;
    qkv_dtype dtype; // type of the elements: QKV_F32 or QKV_I32
    int rank;
    int64_t shape[2];
    const void *at;
    int64_t count; // number of elements per head
};
enum { PROBE_ARRAYS = 9 };
// Lists the arrays of p that are not NULL, in the order of the members of struct qkv_probe.
// Returns their number.
int probes_list(struct probe_array to[PROBE_ARRAYS], const struct qkv_probe *p, int64_t T,
                int64_t S);

// Sets the sizes in p for a request, without allocating arrays. The pointers of the requested
// arrays are set to a value that is not NULL, but must not be read.
void probes_shape(struct qkv_probe *p, const struct qkv_probe_request *w, int64_t T, int64_t S);
// Allocates the arrays of a request. heads: batch items times heads, each with T rows and S keys.
// The caller frees the arrays.
void probes_new(struct qkv_probe *p, const struct qkv_probe_request *w, int64_t heads, int64_t T,
                int64_t S);
void probes_free(struct qkv_probe *p);

#endif
