// SPDX-License-Identifier: MIT
// probes.h: declares the parsing of `--probe LIST`, the attention statistics that a command
// computes, and the allocation of their arrays.
#ifndef QKV_PROBES_H
#define QKV_PROBES_H

#include "frame/arrays.h"

#define PROBES_HELP                                                                                \
    "attention statistics, separated by commas: top=K (largest weights of a row and their keys), " \
    "rows=0+5+8-10 (those rows in full), received (weight of a key over all rows), entropy "       \
    "(nats), distance (tokens), offsets=R (by key less query, -R to R), tiles=N (N x N: largest "  \
    "and mean)"

// Parses a list such as "top=16,entropy" to a request.  The caller frees *rows, to which w->row
// points. QKV_ERR_USAGE: err names the option and the wrong word.
qkv_status probes_parse(struct qkv_probe_request *w, int64_t **rows, const char *option,
                        const char *text, qkv_error *err);

// One array of statistics: its name, and its shape without the leading axes of batch and heads.
struct probe_array {
    const char *name;
    qkv_dtype dtype; // QKV_F32, QKV_I32
    int rank;
    int64_t shape[2];
    const void *at;
    int64_t count; // number of elements for one head
};
enum { PROBE_ARRAYS = 9 };
// Lists the arrays of p that are not NULL, in the order of struct qkv_probe.  Returns their number.
int probes_list(struct probe_array to[PROBE_ARRAYS], const struct qkv_probe *p, int64_t T,
                int64_t S);

// Sets the sizes in p as the library would compute them for a request.  Pointers of requested
// arrays are set to a value other than NULL and must not be read.
void probes_shape(struct qkv_probe *p, const struct qkv_probe_request *w, int64_t T, int64_t S);
// Allocates the arrays of a request for `heads` heads (batch items times heads) of T rows and S
// keys; the caller frees them.
void probes_new(struct qkv_probe *p, const struct qkv_probe_request *w, int64_t heads, int64_t T,
                int64_t S);
void probes_free(struct qkv_probe *p);

#endif
