// SPDX-License-Identifier: MIT
// arrays.h: declares arrays of numbers that commands read, print and write.
#ifndef QKV_ARRAYS_H
#define QKV_ARRAYS_H

#include "frame/cmd.h"

// An array of floats in row-major order, from a file or computed.  The caller zeroes it before the
// first use.
struct array {
    const char *what;   // name of the array in error messages, such as "q" or "wq"
    const char *source; // file of the array, for error messages
    int rank;
    int64_t shape[QKV_RANK_MAX];
    int64_t count;
    const float *at; // elements: in memory of the array itself, or in the mapped file
    float *own;
    qkv_tensors *file;
};
enum { SHAPE_TEXT = 160 };

// Reads one tensor into a: the tensor `name` of the open set `all` if the set contains it,
// otherwise the only tensor of the file at `path` ("-": stdin).  float64 is converted, with a note
// on stderr. If there is neither, a->at stays NULL.
qkv_status array_read(struct array *a, const char *what, const char *path, const qkv_tensors *all,
                      const char *all_path, qkv_error *err);
// Reads integers in the way of array_read.  *out, which the caller frees, has a->count elements.
// `path` may also be a list of numbers such as "3,5,5".
qkv_status array_read_ints(struct array *a, int64_t **out, const char *what, const char *path,
                           const qkv_tensors *all, const char *all_path, qkv_error *err);
// Reads truth values (BOOL or an integer type) in the way of array_read.  *out, which the caller
// frees, has one byte per element.
qkv_status array_read_bools(struct array *a, uint8_t **out, const char *what, const char *path,
                            const qkv_tensors *all, const char *all_path, qkv_error *err);
// Opens a set of tensors; path "-": standard input.
qkv_status array_open(qkv_tensors **out, const char *path, qkv_error *err);
// Allocates an uninitialized array of a shape.  If memory is too small, the command ends with exit
// code 5.
void array_new(struct array *a, const char *what, int rank, const int64_t *shape);
void array_free(struct array *a);

// Writes a shape such as "(5, 20)" to out and returns out.
char *array_shape(char out[SHAPE_TEXT], int rank, const int64_t *shape);
// Returns the product of n sizes, each >= 0; if memory is too small for it, the command ends with
// exit code 5.
size_t array_count(int n, const int64_t *sizes);
// Prints an array as text: a heading, then its rows, cut at the width of the terminal.
void array_print(FILE *to, const struct array *a, const char *name);
void array_print_json(FILE *to, const struct array *a);
qkv_status array_write(const struct array *a, const char *path, qkv_error *err);

#endif
