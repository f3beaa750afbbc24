// SPDX-License-Identifier: MIT
// rows_file.c: the rows of cost.def for files: JSON, tensors, config.json.
#include "cost/cost.h"
#include "file/fixtures.h"
#include "file/set.h"

// ---- JSON ---------------------------------------------------------------------------------------
static void parse(struct cost_text *json)
{
    json_t *root = NULL;
    qkv_error err = { 0 };
    cost_begin();
    const qkv_status status = qkv_json_parse(&root, json->at, json->bytes, "cost.json", 0, &err);
    cost_end();
    if (status) fail_msg("%s", err.text);
    json_decref(root);
    free(json->at);
}

void cost_json_list(int64_t n)
{
    struct cost_text json = { 0 };
    cost_printf(&json, "{\"a\":[0");
    cost_repeat(&json, ",1.5e3, true", n / 12);
    cost_printf(&json, "]}");
    parse(&json);
}

void cost_json_text(int64_t n)
{
    struct cost_text json = { 0 };
    cost_printf(&json, "{\"a\":\"");
    cost_repeat(&json, "\\u00e9\xC3\xA9\\n", n / 10);
    cost_printf(&json, "\"}");
    parse(&json);
}

static void add_object(struct cost_text *json, int64_t n)
{
    cost_printf(json, "{\"\":0");
    for (int64_t i = 0; i < n / 10; i++)
        cost_printf(json, ",\"k%lld\":%lld", (long long)i, (long long)i);
    cost_printf(json, "}");
}

void cost_json_object(int64_t n)
{
    struct cost_text json = { 0 };
    add_object(&json, n);
    parse(&json);
}

void cost_json_write(int64_t n)
{
    struct cost_text json = { 0 };
    json_t *root = NULL;
    qkv_error err = { 0 };
    add_object(&json, n);
    if (qkv_json_parse(&root, json.at, json.bytes, "cost.json", 0, &err)) fail_msg("%s", err.text);
    const char *path = fixture("written.json");
    cost_begin();
    if (qkv_json_write(path, root, true, &err)) fail_msg("%s", err.text);
    cost_end();
    json_decref(root);
    free(json.at);
}

// ---- tensors ------------------------------------------------------------------------------------
static void open_tensors(const char *path, const struct qkv_tensors_options *how, bool find)
{
    qkv_tensors *t = NULL;
    qkv_error err = { 0 };
    cost_begin();
    const qkv_status status = qkv_tensors_open(&t, path, how, &err);
    for (int64_t i = 0; find && i < qkv_tensors_count(t); i++)
        if (qkv_tensors_find(t, qkv_tensors_at(t, i)->name) != qkv_tensors_at(t, i))
            fail_msg("not found");
    cost_end();
    if (status) fail_msg("%s: %s", err.path, err.text);
    qkv_tensors_close(t);
}

static const char *tensors_file(int64_t n, int64_t prefix, int64_t meta)
{
    struct cost_text json = { 0 };
    cost_printf(&json, "{\"__metadata__\":{\"a\":\"b\"");
    for (int64_t i = 0; i < meta; i++) cost_printf(&json, ",\"m%lld\":\"x\"", (long long)i);
    cost_printf(&json, "}");
    for (int64_t i = 0; i < n; i++) {
        cost_printf(&json, ",\"");
        cost_repeat(&json, "p", prefix);
        // the names are in no order
        cost_printf(&json, "%llu\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%lld,%lld]}",
                    (unsigned long long)((uint64_t)i * 0x9E3779B97F4A7C15u), (long long)i,
                    (long long)i + 1);
    }
    cost_printf(&json, "}");
    const char *path = fixture_safetensors("cost.safetensors", json.at, json.bytes, (size_t)n);
    free(json.at);
    return path;
}

void cost_safetensors(int64_t n)
{
    open_tensors(tensors_file(n, 0, 0), NULL, false);
}
void cost_safetensors_find(int64_t n)
{
    open_tensors(tensors_file(n, 0, 0), NULL, true);
}
void cost_safetensors_meta(int64_t n)
{
    open_tensors(tensors_file(1, 0, n), NULL, false);
}
void cost_safetensors_names(int64_t n)
{
    open_tensors(tensors_file(n, 3000, 0), NULL, true);
}

static const char *npy_file(const char *shape, int64_t spaces, size_t data)
{
    struct cost_text file = { 0 };
    char dict[128];
    const int bytes =
        snprintf(dict, sizeof dict, "{'descr':'<f4','fortran_order':True,'shape':(%s)}", shape);
    const uint32_t size = (uint32_t)(bytes + spaces);
    cost_add(&file, "\x93NUMPY\2\0", 8);
    cost_add(&file, (const char *)&size, 4);
    cost_add(&file, dict, (size_t)bytes);
    cost_repeat(&file, " ", spaces);
    char *zeros = calloc(data + 1, 1);
    cost_add(&file, zeros, data);
    const char *path = fixture_file("cost.npy", file.at, file.bytes);
    free(zeros);
    free(file.at);
    return path;
}

void cost_npy_header(int64_t n)
{
    open_tensors(npy_file("1,", n, 4), NULL, false);
}

static const char *fortran(int64_t n)
{
    char shape[48];
    snprintf(shape, sizeof shape, "%lld, 5", (long long)(n / 20));
    return npy_file(shape, 0, (size_t)(n / 20 * 20));
}

void cost_npy_fortran(int64_t n)
{
    open_tensors(fortran(n), NULL, false);
}

// The shape takes no work that grows, and less memory than the array.
void cost_npy_shape(int64_t n)
{
    const struct qkv_tensors_options how = { .shapes_only = true };
    open_tensors(fortran(n), &how, false);
}

void cost_index(int64_t n)
{
    struct cost_text json = { 0 }, header = { 0 };
    cost_printf(&json, "{\"metadata\":{\"total_size\":%lld},\"weight_map\":{", (long long)n);
    cost_printf(&header, "{");
    for (int64_t i = 0; i < n; i++) {
        cost_printf(&json, "%s\"t%lld\":\"one.safetensors\"", i ? "," : "", (long long)i);
        cost_printf(&header,
                    "%s\"t%lld\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%lld,%lld]}",
                    i ? "," : "", (long long)i, (long long)i, (long long)i + 1);
    }
    cost_printf(&json, "}}");
    cost_printf(&header, "}");
    fixture_safetensors("one.safetensors", header.at, header.bytes, (size_t)n);
    open_tensors(fixture_file("x.safetensors.index.json", json.at, json.bytes), NULL, true);
    free(header.at);
    free(json.at);
}

void cost_config(int64_t n)
{
    struct cost_text json = { 0 };
    struct qkv_config c = { 0 };
    qkv_error err = { 0 };
    cost_printf(&json, "{\"model_type\":\"bert\",\"id2label\":{\"0\":\"a\"");
    for (int64_t i = 1; i < n; i++)
        cost_printf(&json, ",\"%lld\":\"label %lld\"", (long long)i, (long long)i);
    cost_printf(&json, "}}");
    fixture_file("config.json", json.at, json.bytes);
    fixture(".");
    cost_begin();
    const qkv_status status = qkv_config_open(&c, fixture_dir, &err);
    cost_end();
    if (status) fail_msg("%s", err.text);
    qkv_config_close(&c);
    free(json.at);
}

// ---- base ---------------------------------------------------------------------------------------
void cost_sha256(int64_t n)
{
    char hex[QKV_SHA256_TEXT], *data = calloc((size_t)n, 1);
    cost_begin();
    qkv_sha256(hex, data, (size_t)n);
    cost_end();
    free(data);
}

static int compare(const void *ctx, const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    (void)ctx;
    return x < y ? -1 : x > y;
}

void cost_sort(int64_t n)
{
    int64_t *list = malloc((size_t)n * sizeof *list);
    for (int kind = 0; kind < 4; kind++) { // equal, ascending, descending, a saw
        for (int64_t i = 0; i < n; i++)
            list[i] = kind == 0 ? 0 : kind == 1 ? i : kind == 2 ? -i : i % 97;
        cost_begin();
        if (!qkv_sort(list, n, sizeof *list, compare, NULL)) fail_msg("no memory");
        cost_end();
    }
    free(list);
}
