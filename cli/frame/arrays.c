// SPDX-License-Identifier: MIT
// arrays.c: reads arrays of numbers from .npy and .safetensors files, and prints them as text or
// JSON.
#include "frame/arrays.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "frame/signals.h"

char *array_shape(char out[SHAPE_TEXT], int rank, const int64_t *shape)
{
    int n = snprintf(out, SHAPE_TEXT, "(");
    for (int i = 0; i < rank && n < SHAPE_TEXT - 24; i++)
        n += snprintf(out + n, (size_t)(SHAPE_TEXT - n), "%s%lld", i ? ", " : "",
                      (long long)shape[i]);
    snprintf(out + n, (size_t)(SHAPE_TEXT - n), rank == 1 ? ",)" : ")");
    return out;
}

size_t array_count(int n, const int64_t *sizes)
{
    size_t product = 1;
    for (int i = 0; i < n; i++)
        if (sizes[i] == 0) return 0;
    for (int i = 0; i < n; i++)
        if (__builtin_mul_overflow(product, (size_t)sizes[i], &product)) product = SIZE_MAX / 2;
    if (product > SIZE_MAX / 16)
        // this allocation fails, so the command ends with the error "out of memory"
        free(cmd_alloc(SIZE_MAX, sizeof(float)));
    return product;
}

void array_new(struct array *a, const char *what, int rank, const int64_t *shape)
{
    *a = (struct array){ .what = what, .rank = rank };
    memcpy(a->shape, shape, (size_t)rank * sizeof *shape);
    a->count = (int64_t)array_count(rank, shape);
    a->own = cmd_alloc((size_t)a->count, sizeof *a->own);
    a->at = a->own;
}

void array_free(struct array *a)
{
    free(a->own);
    free(a->typed);
    qkv_tensors_close(a->file);
    *a = (struct array){ 0 };
}

qkv_status array_misfit(qkv_error *err, const struct array *a, const char *expected,
                        const struct array *b)
{
    char found[SHAPE_TEXT], other[SHAPE_TEXT];
    array_shape(found, a->rank, a->shape);
    if (!b)
        return cmd_error(err, QKV_ERR_USAGE, a->source, "%s: expected %s, found %s", a->what,
                         expected, found);
    return cmd_error(err, QKV_ERR_USAGE, a->source, "%s does not fit %s %s: expected %s, found %s",
                     a->what, b->what, array_shape(other, b->rank, b->shape), expected, found);
}

struct axes {
    int64_t b, t, h, e;
};
static struct axes axes_of(const struct array *a, bool heads_first)
{
    const int64_t *s = a->shape;
    if (a->rank == 2) return (struct axes){ 1, s[0], 1, s[1] };
    if (a->rank == 3) return (struct axes){ s[0], s[1], 1, s[2] };
    if (heads_first) return (struct axes){ s[0], s[2], s[1], s[3] };
    return (struct axes){ s[0], s[1], s[2], s[3] };
}

qkv_status array_sizes_of(struct array_sizes *out, const struct array *q, const struct array *k,
                          const struct array *v, bool heads_first, qkv_error *err)
{
    const struct array *const all[] = { q, k, v };
    for (int i = 0; i < 3; i++) {
        if (all[i]->rank < 2 || all[i]->rank > 4)
            return array_misfit(err, all[i], "2, 3 or 4 axes", NULL);
        if (all[i]->rank != q->rank) return array_misfit(err, all[i], "the same number of axes", q);
    }
    const struct axes a = axes_of(q, heads_first), b = axes_of(k, heads_first),
                      c = axes_of(v, heads_first);
    if (b.b != a.b) return array_misfit(err, k, "the same batch size", q);
    if (b.e != a.e) return array_misfit(err, k, "the same head width", q);
    if (c.b != b.b) return array_misfit(err, v, "the same batch size", k);
    if (c.t != b.t) return array_misfit(err, v, "the same number of tokens", k);
    if (c.h != b.h) return array_misfit(err, v, "the same number of heads", k);
    if (!b.h || a.h % b.h)
        return array_misfit(err, k, "a number of heads that divides the number of query heads", q);
    *out = (struct array_sizes){
        .B = a.b, .T = a.t, .S = b.t, .H = a.h, .G = b.h, .E = a.e, .F = c.e
    };
    return QKV_OK;
}

// Copies standard input to a temporary file, because a pipe cannot be mapped. The name of the file
// is removed as soon as it is open.
static qkv_status open_stdin(qkv_tensors **out, const struct qkv_tensors_options *how,
                             qkv_error *err)
{
    char name[CMD_PATH], block[1 << 16];
    const char *dir = getenv("TMPDIR");
    snprintf(name, sizeof name, "%s/qkv-stdin-XXXXXX", dir && *dir ? dir : "/tmp");
    const int fd = mkstemp(name);
    if (fd < 0)
        return cmd_error(err, cmd_io_status(errno), name, "cannot create: %s", strerror(errno));
    // registered, so that the file is also removed if a signal ends the command
    cmd_temps_add(name);
    qkv_status status = QKV_OK;
    for (ssize_t n; !status && (n = read(0, block, sizeof block)) != 0;) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            status = cmd_error(err, cmd_io_status(errno), "standard input", "cannot read: %s",
                               strerror(errno));
        for (ssize_t at = 0, w; !status && at < n; at += w)
            if ((w = write(fd, block + at, (size_t)(n - at))) < 0)
                status =
                    cmd_error(err, cmd_io_status(errno), name, "cannot write: %s", strerror(errno));
    }
    if (!status && (status = qkv_tensors_open(out, name, how, err)) != QKV_OK)
        snprintf(err->file, sizeof err->file, "standard input");
    close(fd);
    unlink(name);
    return status;
}

qkv_status array_open(qkv_tensors **out, const char *path, bool shapes_only, qkv_error *err)
{
    const struct qkv_tensors_options how = { .shapes_only = shapes_only };
    return strcmp(path, "-") ? qkv_tensors_open(out, path, &how, err) : open_stdin(out, &how, err);
}

// Reads a number and the white space and at most one comma after it. Returns the end, or NULL if no
// number is found, or one beyond the range of float.
static const char *read_number(float *x, const char *p)
{
    static const char space[] = " \t\n";
    char *end;
    errno = 0;
    *x = strtof(p, &end);
    if (end == p || (errno == ERANGE && isinf(*x)) || !strchr(" \t\n,;]", *end)) return NULL;
    p = end + strspn(end, space);
    if (*p != ',') return p;
    p += 1 + strspn(p + 1, space);
    return *p == ';' || *p == ']' ? NULL : p;
}

// Reads numbers such as "[1 0; 0 1; 1 1]" from the command line: rows end at ';', the numbers of a
// row are separated by spaces or commas.
static qkv_status read_typed(struct array *a, const char *text, qkv_error *err)
{
    struct qkv_tensor *t = a->typed = cmd_alloc(1, sizeof *t);
    float *numbers = a->own = cmd_alloc(strlen(text), sizeof *numbers);
    int64_t rows = 0, columns = 0, n = 0;
    bool closed = false;
    for (const char *p = text + 1; !closed;) {
        p += strspn(p, " \t\n");
        closed = *p == ']' && !p[1];
        if (!closed && *p != ';') {
            const char *next = read_number(&numbers[n++], p);
            if (!next)
                return cmd_error(err, QKV_ERR_USAGE, NULL,
                                 "%s: expected rows of numbers such as '[1 0; 0 1]', found '%.40s'",
                                 a->what, p);
            p = next;
            continue;
        }
        if (!rows++) columns = n;
        if (!columns || n != rows * columns)
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "%s: expected rows of equal length, found %lld numbers in row %lld",
                             a->what, (long long)(n - (rows - 1) * columns), (long long)rows - 1);
        p++;
    }
    *t = (struct qkv_tensor){ .name = a->what, .dtype = QKV_F32, .rank = 2, .data = numbers };
    t->shape[0] = rows;
    t->shape[1] = columns;
    t->bytes = (size_t)n * sizeof *numbers;
    a->tensor = t;
    return QKV_OK;
}

qkv_status array_find(struct array *a, const char *what, const char *path, const qkv_tensors *all,
                      const char *all_path, qkv_error *err)
{
    *a = (struct array){ .what = what };
    const struct qkv_tensor **t = &a->tensor;
    if (!path) {
        if (all) *t = qkv_tensors_find(all, what);
        a->source = all_path;
    } else if (path[0] == '[') {
        a->source = "the command line";
        const qkv_status status = read_typed(a, path, err);
        if (status) return status;
    } else {
        a->source = strcmp(path, "-") ? path : "standard input";
        const qkv_status status = array_open(&a->file, path, true, err);
        if (status) return status;
        const int64_t n = qkv_tensors_count(a->file);
        *t = n == 1 ? qkv_tensors_at(a->file, 0) : qkv_tensors_find(a->file, what);
        if (!*t)
            return cmd_error(err, QKV_ERR_USAGE, a->source,
                             "cannot tell which tensor is %s: expected a single tensor or one "
                             "named '%s', found %lld tensors",
                             what, what, (long long)n);
    }
    if (*t) {
        a->rank = (*t)->rank;
        memcpy(a->shape, (*t)->shape, sizeof a->shape);
        a->count = qkv_tensor_count(*t);
    }
    return QKV_OK;
}

qkv_status array_load(struct array *a, qkv_error *err)
{
    const struct qkv_tensor *t = a->tensor;
    const qkv_status status = t && a->file ? qkv_tensors_convert(a->file, err) : QKV_OK;
    if (status || !t) return status;
    if (t->dtype == QKV_F32 && (uintptr_t)t->data % sizeof(float) == 0) {
        a->at = t->data;
        // A pointer that is not NULL, although there are no elements: NULL means "not given".
        if (!a->at) a->at = a->own = cmd_alloc(0, sizeof(float));
        return QKV_OK;
    }
    if (t->dtype == QKV_F64)
        cmd_note("the numbers of %s were converted from float64 to float32", a->source);
    a->own = cmd_alloc((size_t)a->count, sizeof *a->own);
    qkv_tensor_to_f32(a->own, t);
    a->at = a->own;
    return QKV_OK;
}

// Returns element i of an integer tensor.
static int64_t integer_at(const struct qkv_tensor *t, int64_t i)
{
    const char *p = (const char *)t->data + (size_t)i * qkv_dtype_size(t->dtype);
    switch (t->dtype) {
#define ONE(NAME, TYPE)                                                                            \
    case NAME: {                                                                                   \
        TYPE v;                                                                                    \
        memcpy(&v, p, sizeof v);                                                                   \
        return (int64_t)v;                                                                         \
    }
        ONE(QKV_I64, int64_t)
        ONE(QKV_I32, int32_t)
        ONE(QKV_I16, int16_t)
        ONE(QKV_I8, int8_t)
        ONE(QKV_U64, uint64_t)
        ONE(QKV_U32, uint32_t)
        ONE(QKV_U16, uint16_t)
        ONE(QKV_U8, uint8_t)
        ONE(QKV_BOOL, uint8_t)
#undef ONE
    default: return 0;
    }
}

static bool is_integer(qkv_dtype d)
{
    return d == QKV_I64 || d == QKV_I32 || d == QKV_I16 || d == QKV_I8 || d == QKV_U64 ||
           d == QKV_U32 || d == QKV_U16 || d == QKV_U8;
}

// Returns the integers of an array that was typed on the command line. One row is an array of
// rank 1.
static qkv_status typed_ints(struct array *a, int64_t **out, qkv_error *err)
{
    int64_t *all = cmd_alloc((size_t)a->count, sizeof *all);
    for (int64_t i = 0; i < a->count; i++) {
        const double x = (double)a->own[i];
        if (!(fabs(x) <= 1 << 24) || x != floor(x)) { // all integers up to there are floats
            free(all);
            return cmd_error(err, QKV_ERR_USAGE, a->source,
                             "%s: expected integers of at most %d, found %g", a->what, 1 << 24, x);
        }
        all[i] = (int64_t)x;
    }
    if (a->shape[0] == 1) {
        a->rank = 1;
        a->shape[0] = a->count;
    }
    *out = all;
    return QKV_OK;
}

qkv_status array_find_ints(struct array *a, int64_t **out, const char *what, const char *path,
                           const qkv_tensors *all, const char *all_path, qkv_error *err)
{
    *out = NULL;
    // the path is a list of numbers and not a file name
    if (path && *path && path[strspn(path, "0123456789,")] == 0) {
        char option[32];
        snprintf(option, sizeof option, "--%s", what);
        *a = (struct array){ .what = what, .source = option, .rank = 1 };
        const qkv_status status = cmd_parse_ints(option, path, 0, INT64_MAX, out, &a->count, err);
        a->source = path;
        a->shape[0] = a->count;
        return status;
    }
    const qkv_status status = array_find(a, what, path, all, all_path, err);
    return !status && a->typed ? typed_ints(a, out, err) : status;
}

qkv_status array_load_ints(struct array *a, int64_t **out, qkv_error *err)
{
    const struct qkv_tensor *t = a->tensor;
    if (!t || *out) return QKV_OK;
    if (!is_integer(t->dtype))
        return cmd_error(err, QKV_ERR_USAGE, a->source,
                         "%s contains numbers of type %s, expected integers", a->what,
                         qkv_dtype_name(t->dtype));
    const qkv_status status = a->file ? qkv_tensors_convert(a->file, err) : QKV_OK;
    if (status) return status;
    *out = cmd_alloc((size_t)a->count, sizeof **out);
    for (int64_t i = 0; i < a->count; i++) (*out)[i] = integer_at(t, i);
    return QKV_OK;
}

qkv_status array_load_bools(struct array *a, uint8_t **out, qkv_error *err)
{
    const struct qkv_tensor *t = a->tensor;
    const char *what = a->what;
    *out = NULL;
    const qkv_status status = t && a->file ? qkv_tensors_convert(a->file, err) : QKV_OK;
    if (status || !t) return status;
    if (a->typed) {
        *out = cmd_alloc((size_t)a->count, 1);
        for (int64_t i = 0; i < a->count; i++) {
            if (a->own[i] != 0 && a->own[i] != 1) {
                free(*out);
                *out = NULL;
                return cmd_error(err, QKV_ERR_USAGE, a->source,
                                 "%s: expected 0 and 1, found %g (--bias accepts numbers to add to "
                                 "the scores)",
                                 what, (double)a->own[i]);
            }
            (*out)[i] = a->own[i] != 0;
        }
        return QKV_OK;
    }
    if (t->dtype != QKV_BOOL && !is_integer(t->dtype))
        return cmd_error(err, QKV_ERR_USAGE, a->source,
                         "%s contains numbers of type %s, expected BOOL or integers (--bias "
                         "accepts numbers to add to the scores)",
                         what, qkv_dtype_name(t->dtype));
    *out = cmd_alloc((size_t)a->count, 1);
    for (int64_t i = 0; i < a->count; i++) {
        const int64_t v = integer_at(t, i);
        if (t->dtype == QKV_BOOL && v > 1) {
            free(*out);
            *out = NULL;
            return cmd_error(err, QKV_ERR_FORMAT, a->source,
                             "element %lld of %s is not a Boolean, expected 0 or 1, found %lld",
                             (long long)i, what, (long long)v);
        }
        (*out)[i] = v != 0;
    }
    return QKV_OK;
}

// ---- printing ----------------------------------------------------------------------------------
static void print_nested(FILE *to, const float *x, int rank, const int64_t *shape)
{
    if (!rank) {
        cmd_json_float(to, *x);
        return;
    }
    int64_t step = 1;
    for (int i = 1; i < rank; i++) step *= shape[i];
    fputc('[', to);
    for (int64_t i = 0; i < shape[0]; i++) {
        if (i) fputc(',', to);
        print_nested(to, x + i * step, rank - 1, shape + 1);
    }
    fputc(']', to);
}

void array_print_json(FILE *to, const struct array *a)
{
    fputs("{\"shape\":[", to);
    for (int i = 0; i < a->rank; i++) fprintf(to, "%s%lld", i ? "," : "", (long long)a->shape[i]);
    fputs("],\"data\":", to);
    print_nested(to, a->at, a->rank, a->shape);
    fputc('}', to);
}

// Writes which matrix of the array is block i, by its indices on all axes except the last two, such
// as "batch 1, head 3".
static void print_block_name(FILE *to, const struct array *a, int64_t i)
{
    int64_t at[QKV_RANK_MAX];
    for (int k = a->rank - 3; k >= 0; k--) {
        at[k] = i % a->shape[k];
        i /= a->shape[k];
    }
    fputs("  [", to);
    for (int k = 0; k <= a->rank - 3; k++) fprintf(to, "%lld, ", (long long)at[k]);
    fputs(":, :]\n", to);
}

static void print_row(FILE *to, const float *x, int64_t n, int64_t row, int cells)
{
    const bool cut = n > cells;
    if (row >= 0)
        fprintf(to, "%7lld", (long long)row);
    else
        fputs("       ", to);
    for (int64_t i = 0; i < n; i++) {
        if (cut && i == cells - 2) {
            fputs("      ...", to);
            i = n - 1;
        }
        fprintf(to, " %10.5g", isnan(x[i]) ? (double)NAN : (double)x[i]); // without a sign
    }
    fputc('\n', to);
}

void array_print(FILE *to, const struct array *a, const char *name)
{
    enum { ROWS = 40, BLOCKS = 8 };
    char text[SHAPE_TEXT];
    const int fit = (cmd_columns() - 7) / 11, cells = fit < 3 ? 3 : fit;
    fprintf(to, "%s %s\n", name, array_shape(text, a->rank, a->shape));
    if (!a->count) return;
    const int64_t n = a->rank ? a->shape[a->rank - 1] : 1;
    const int64_t rows = a->rank > 1 ? a->shape[a->rank - 2] : 1, blocks = a->count / n / rows;
    for (int64_t b = 0; b < blocks && b < BLOCKS; b++) {
        if (a->rank > 2) print_block_name(to, a, b);
        for (int64_t r = 0; r < rows; r++) {
            if (rows > ROWS && r == ROWS - 1) {
                fprintf(to, "    ... %lld more rows\n", (long long)(rows - ROWS));
                r = rows - 1;
            }
            print_row(to, a->at + (b * rows + r) * n, n, a->rank > 1 ? r : -1, cells);
        }
    }
    if (blocks > BLOCKS)
        fprintf(to, "  ... %lld more matrices; -o FILE writes all of them\n",
                (long long)(blocks - BLOCKS));
}

qkv_status array_write(const struct array *a, const char *path, qkv_error *err)
{
    struct qkv_tensor t = { .name = "", .dtype = QKV_F32, .rank = a->rank, .data = a->at };
    memcpy(t.shape, a->shape, sizeof t.shape);
    t.bytes = (size_t)a->count * sizeof(float);
    return qkv_npy_write(path, &t, common.force, err);
}
