// SPDX-License-Identifier: MIT
// fuzz_arrays.c: reads any bytes as the arrays of a command: numbers on the command line ("[1 0; 0
// 1]" and "3,5"), three of them as q, k and v, and .npy and .safetensors files as floats, integers
// and truth values.  The first byte selects which.  Numbers that were read are printed and read
// again.
// Inputs have up to 1024 bytes.
#include "fuzz/fuzz.h"
#include "frame/arrays.h"
#include <math.h>

const struct cmd *const cmd_table[] = { NULL };

// Checks the result of a call: a usage error, or an error of a file.
static bool read_ok(qkv_status status, const qkv_error *err)
{
    FUZZ_CHECK(status == err->status);
    if (status && status != QKV_ERR_USAGE) fuzz_refusal(status, err);
    FUZZ_CHECK(!status || err->text[0]);
    return !status;
}

static void check_shape(const struct array *a)
{
    int64_t n = 1;
    char text[SHAPE_TEXT];
    for (int i = 0; i < a->rank; i++) n *= a->shape[i];
    FUZZ_CHECK(a->tensor && a->rank <= QKV_RANK_MAX && n == a->count);
    const size_t length = strlen(array_shape(text, a->rank, a->shape));
    FUZZ_CHECK(length < sizeof text && text[0] == '(' && text[length - 1] == ')');
}

// Checks that an array is printed as JSON with its numbers; those that are not finite are null.
static void check_json(const struct array *a)
{
    char *text = NULL;
    size_t bytes = 0;
    if (a->count > 256) return;
    FILE *to = open_memstream(&text, &bytes);
    FUZZ_CHECK(to);
    array_print_json(to, a);
    FUZZ_CHECK(!fclose(to));
    json_t *root = json_loadb(text, bytes, 0, NULL), *x = json_object_get(root, "data");
    for (int i = 0; i < a->rank; i++) {
        FUZZ_CHECK(json_array_size(x) == (size_t)a->shape[i]);
        x = json_array_get(x, 0);
        if (!a->shape[i]) break;
    }
    if (a->count && isfinite(a->at[0]))
        FUZZ_CHECK((float)json_number_value(x) == a->at[0]);
    else if (a->count)
        FUZZ_CHECK(json_is_null(x));
    FUZZ_CHECK(root);
    json_decref(root);
    free(text);
    to = open_memstream(&text, &bytes);
    FUZZ_CHECK(to);
    array_print(to, a, "x");
    FUZZ_CHECK(!fclose(to) && bytes);
    free(text);
}

// Writes a matrix in the form of the command line and reads it again.
static void read_again(const struct array *a)
{
    char *text = NULL;
    size_t bytes = 0;
    struct array b = { 0 };
    qkv_error err = { 0 };
    FILE *to = open_memstream(&text, &bytes);
    FUZZ_CHECK(to);
    for (int64_t i = 0; i < a->count; i++)
        fprintf(to, "%c%.9g", !i ? '[' : i % a->shape[1] ? ' ' : ';', (double)a->at[i]);
    fputc(']', to);
    FUZZ_CHECK(!fclose(to));
    fuzz_success(array_find(&b, "q", text, NULL, NULL, &err), &err);
    fuzz_success(array_load(&b, &err), &err);
    FUZZ_CHECK(b.shape[0] == a->shape[0] && b.shape[1] == a->shape[1] && b.count == a->count);
    for (int64_t i = 0; i < a->count; i++)
        FUZZ_CHECK(b.at[i] == a->at[i] || (isnan(a->at[i]) && isnan(b.at[i])));
    array_free(&b);
    free(text);
}

static void read_numbers(const char *path)
{
    struct array a = { 0 };
    int64_t *integers = NULL;
    uint8_t *bools = NULL;
    qkv_error err = { 0 };
    const bool typed = path[0] == '[';
    if (read_ok(array_find(&a, "q", path, NULL, NULL, &err), &err)) {
        check_shape(&a);
        if (typed) {
            int64_t rows = 1;
            for (const char *p = path; *p; p++) rows += *p == ';';
            FUZZ_CHECK(a.rank == 2 && a.shape[0] == rows && a.shape[1] > 0);
            FUZZ_CHECK(a.tensor->bytes == (size_t)a.count * sizeof(float));
        }
        if (read_ok(array_load(&a, &err), &err)) {
            FUZZ_CHECK(a.at);
            check_json(&a);
            if (typed) read_again(&a);
        }
    }
    array_free(&a);
    err = (qkv_error){ 0 };
    if (read_ok(array_find_ints(&a, &integers, "lengths", path, NULL, NULL, &err), &err) &&
        read_ok(array_load_ints(&a, &integers, &err), &err)) {
        FUZZ_CHECK(integers || !a.tensor);
        const bool list = !a.tensor;
        for (int64_t i = 0; i < a.count; i++)
            FUZZ_CHECK(list ? integers[i] >= 0 : !typed || llabs(integers[i]) <= 1 << 24);
    }
    free(integers);
    array_free(&a);
    err = (qkv_error){ 0 };
    if (read_ok(array_find(&a, "mask", path, NULL, NULL, &err), &err) &&
        read_ok(array_load_bools(&a, &bools, &err), &err))
        for (int64_t i = 0; i < a.count; i++) FUZZ_CHECK(bools[i] <= 1);
    free(bools);
    array_free(&a);
}

// Reads the sizes of attention from three arrays of the command line.
static void read_sizes(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "q", "k", "v" };
    struct fuzz_part part[3];
    struct array a[3] = { { 0 } };
    qkv_error err = { 0 };
    bool ok = true;
    fuzz_split(part, 3, data, size);
    for (int i = 0; i < 3 && ok; i++) {
        char *text = fuzz_string(&part[i]);
        ok = text[0] == '[' && read_ok(array_find(&a[i], names[i], text, NULL, NULL, &err), &err);
        free(text);
    }
    struct array_sizes z;
    if (ok && read_ok(array_sizes_of(&z, &a[0], &a[1], &a[2], size & 1, &err), &err)) {
        FUZZ_CHECK(z.B == 1 && z.H == 1 && z.G == 1 && z.T * z.E == a[0].count);
        FUZZ_CHECK(z.S * z.E == a[1].count && z.S * z.F == a[2].count);
    }
    for (int i = 0; i < 3; i++) array_free(&a[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    common.quiet = true;
    const int kind = data[0] % 4;
    if (kind == 3) {
        read_sizes(data + 1, size - 1);
    } else if (kind == 2) { // a file of the system has no such name
        const struct fuzz_part part = { (const char *)data + 1, size - 1 };
        char *text = fuzz_string(&part);
        if (text[0] == '[' || (text[0] && !text[strspn(text, "0123456789,")])) read_numbers(text);
        free(text);
    } else {
        char path[MEMORY_PATH];
        memory_remove(MEMORY_FOLDER);
        const char *name = kind ? "a.npy" : "a.safetensors";
        snprintf(path, sizeof path, "%s/%s", fuzz_file(name, data + 1, size - 1), name);
        read_numbers(path);
    }
    return 0;
}
