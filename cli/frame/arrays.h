// SPDX-License-Identifier: MIT
// arrays.h: declares arrays of numbers that commands read, print and write.
#ifndef QKV_ARRAYS_H
#define QKV_ARRAYS_H

#include "frame/cmd.h"

// An array of floats in row-major order, read from a file or computed.  The caller zeroes the
// struct before its first use.
struct array {
    const char *what;   // name of the array in messages, such as "q" or "wq"
    const char *source; // name of the file in messages
    int rank;
    int64_t shape[QKV_RANK_MAX];
    int64_t count;
    // where the elements are read from; NULL: neither a tensor of this name nor a path is given
    const struct qkv_tensor *tensor;
    const float *at; // the elements: own memory, or in the mapped file
    float *own;
    qkv_tensors *file;
    struct qkv_tensor *typed; // describes numbers that were typed on the command line
};
enum { SHAPE_TEXT = 160 };

// Reads the shape of one tensor into a. If the open set `all` has a tensor of this name, reads that
// one. If not, reads the only tensor of the file `path` ("-": standard input; "[1 0; 0 1]": the
// numbers themselves). If path is NULL too, a->tensor is NULL.
qkv_status array_find(struct array *a, const char *what, const char *path, const qkv_tensors *all,
                      const char *all_path, qkv_error *err);
// Reads the elements into a->at after array_find(), when the shape has been checked; without a
// tensor a->at stays NULL. Converts float64 to float, with a note on stderr.
qkv_status array_load(struct array *a, qkv_error *err);
// Finds integers, as array_find(). path may also be a list of numbers, such as "3,5,5", which is
// read into *out: a->count elements, which the caller frees; or "[3 5 5]", typed numbers.
qkv_status array_find_ints(struct array *a, int64_t **out, const char *what, const char *path,
                           const qkv_tensors *all, const char *all_path, qkv_error *err);
// Reads the integers of a tensor after array_find_ints(), when the shape has been checked.
qkv_status array_load_ints(struct array *a, int64_t **out, qkv_error *err);
// Reads truth values (BOOL or an integer type) after array_find(). *out has one byte per element;
// the caller frees it. Without a tensor it is NULL.
qkv_status array_load_bools(struct array *a, uint8_t **out, qkv_error *err);
// Opens a set of tensors; path "-" means standard input. shapes_only: arrays that would have to be
// copied have no data.
qkv_status array_open(qkv_tensors **out, const char *path, bool shapes_only, qkv_error *err);
// Allocates an array of this shape, without initializing it.  If memory is exhausted, the command
// ends with exit code 5.
void array_new(struct array *a, const char *what, int rank, const int64_t *shape);
void array_free(struct array *a);
// Fills err with "A does not fit B and its shape: expected EXPECTED, found SHAPE" or, if b is NULL,
// with "A: expected EXPECTED, found SHAPE". Returns QKV_ERR_USAGE.
qkv_status array_misfit(qkv_error *err, const struct array *a, const char *expected,
                        const struct array *b);
// Sizes of queries, keys and values: B items of T queries and S keys; H heads of queries, G of keys
// and values; widths E and F.
struct array_sizes {
    int64_t B, T, S, H, G, E, F;
};
// Reads the sizes from the shapes of q, k and v, which array_find() has found: each has 2 axes
// (tokens, width), 3 (batch, tokens, width) or 4 (batch, tokens, heads, width; heads_first: batch,
// heads, tokens, width). Returns QKV_ERR_USAGE if they do not agree.
qkv_status array_sizes_of(struct array_sizes *out, const struct array *q, const struct array *k,
                          const struct array *v, bool heads_first, qkv_error *err);

// Writes a shape such as "(5, 20)" to out and returns out.
char *array_shape(char out[SHAPE_TEXT], int rank, const int64_t *shape);
// Returns the product of n sizes, each >= 0. If memory could not hold so many elements, the command
// ends with exit code 5.
size_t array_count(int n, const int64_t *sizes);
// Prints an array as text: a heading, then its rows, each cut to the width of the terminal.
void array_print(FILE *to, const struct array *a, const char *name);
void array_print_json(FILE *to, const struct array *a);
qkv_status array_write(const struct array *a, const char *path, qkv_error *err);

#endif
