// SPDX-License-Identifier: MIT
// arrays.h: arrays of numbers a command reads, prints and writes.
#ifndef QKV_ARRAYS_H
#define QKV_ARRAYS_H

#include "cmd.h"

// Floats in row-major order, from a file or made here.  Zero before the first use.
struct array {
    const char *what;   // "q", "wq": how errors call it
    const char *source; // file it came from, for errors
    int rank;
    int64_t shape[QKV_RANK_MAX];
    int64_t count;
    const float *at; // own, or into the file
    float *own;
    qkv_tensors *file;
};
enum { SHAPE_TEXT = 160 };

// Reads one tensor: `name` of the opened set `all` if it holds it, else the only one of the file at
// path ("-": stdin).  float64 is converted with a note.  Neither: a->at stays NULL, QKV_OK.
qkv_status array_read(struct array *a, const char *what, const char *path, const qkv_tensors *all,
                      const char *all_path, qkv_error *err);
// As array_read, but whole numbers: *out (free it) holds a->count of them.  list: path may be
// "3,5,5".
qkv_status array_read_ints(struct array *a, int64_t **out, const char *what, const char *path,
                           const qkv_tensors *all, const char *all_path, qkv_error *err);
// As array_read, but truth values, one byte each (free *out): BOOL or a whole-number type.
qkv_status array_read_bools(struct array *a, uint8_t **out, const char *what, const char *path,
                            const qkv_tensors *all, const char *all_path, qkv_error *err);
// A set of tensors; path "-" is stdin.
qkv_status array_open(qkv_tensors **out, const char *path, qkv_error *err);
// New floats of that shape, not set; too large for memory ends the command (exit 5).
void array_new(struct array *a, const char *what, int rank, const int64_t *shape);
void array_free(struct array *a);

// "(5, 20)"
char *array_shape(char out[SHAPE_TEXT], int rank, const int64_t *shape);
// Product of n sizes, each >= 0; too large for memory ends the command (exit 5).
size_t array_count(int n, const int64_t *sizes);
// For people: heading, then rows cut to the terminal.  With --json:
// {"name":..,"shape":..,"data":..}.
void array_print(FILE *to, const struct array *a, const char *name);
void array_print_json(FILE *to, const struct array *a);
qkv_status array_write(const struct array *a, const char *path, qkv_error *err);

#endif
