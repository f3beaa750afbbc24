// SPDX-License-Identifier: MIT
// fuzz_dataset.c: opens a dataset whose index.json and files are any bytes, and draws batches from
// it.  The input is index.json, a zero byte, and the files: each has a byte for its size and a byte
// for each of its numbers.  If index.json is an object, its sums of the files and of the dataset
// are made to agree with the files, so that the checks after them are reached.
#include "fuzz/fuzz.h"
#include "task/data/data_internal.h"

struct reader {
    const uint8_t *at, *end;
};
static int next_byte(struct reader *r)
{
    return r->at < r->end ? *r->at++ : 0;
}

// Makes a file of numbers of `width` bytes.  A byte is a number from -128 to 127.
static void numbers(struct reader *r, const char *name, size_t width, json_t *sum)
{
    uint8_t bytes[128 * sizeof(int64_t)];
    char hex[QKV_SHA256_TEXT];
    const size_t n = (size_t)next_byte(r) % 128;
    for (size_t i = 0; i < n; i++) {
        const int64_t number = (int8_t)next_byte(r);
        memcpy(bytes + i * width, &number, width); // little-endian
    }
    fuzz_file(name, bytes, n * width);
    qkv_sha256(hex, bytes, n * width);
    json_object_set_new(sum, "bytes", json_integer((json_int_t)(n * width)));
    json_object_set_new(sum, "sha256", json_string(hex));
}

// Makes all files, and writes their sums to the index.
static void make_files(json_t *root, struct reader *r)
{
    static const char labels[] = "one\ntwo\n";
    static const size_t width[DATA_FILES] = { 4, 8, 8, 4 };
    char name[32], hex[QKV_SHA256_TEXT];
    struct data_sum sums[DATA_SPLITS][DATA_FILES] = { 0 }, label_sum = { 0 };
    struct qkv_data_info info = { 0 };
    const char *objective = json_string_value(json_object_get(root, "objective"));
    for (int o = 0; o < QKV_OBJECTIVES; o++)
        if (objective && !strcmp(objective, task_objectives[o]))
            info.objective = (enum qkv_objective)o;
    info.context = json_integer_value(json_object_get(root, "context"));
    for (int s = 0; s < DATA_SPLITS; s++) {
        json_t *files = json_object_get(json_object_get(root, data_split_names[s]), "files");
        for (int f = 0; f < DATA_FILES; f++) {
            json_t *sum = json_object_get(files, data_file_names[f]);
            snprintf(name, sizeof name, "%s.%s", data_split_names[s], data_file_names[f]);
            numbers(r, name, width[f], sum);
            const char *text = json_string_value(json_object_get(sum, "sha256"));
            if (!data_has(info.objective, (enum data_file)f) || !text) continue;
            sums[s][f].bytes = json_integer_value(json_object_get(sum, "bytes"));
            snprintf(sums[s][f].hash, sizeof sums[s][f].hash, "%s", text);
        }
    }
    fuzz_file("labels.txt", labels, sizeof labels - 1);
    json_t *list = json_object_get(root, "label_list");
    if (info.objective == QKV_OBJECTIVE_CLASSIFY) {
        label_sum.bytes = sizeof labels - 1;
        qkv_sha256(label_sum.hash, labels, sizeof labels - 1);
        json_object_set_new(list, "bytes", json_integer(label_sum.bytes));
        json_object_set_new(list, "sha256", json_string(label_sum.hash));
    }
    data_hash(hex, &info, (const struct data_sum(*)[DATA_FILES])sums, &label_sum);
    json_object_set_new(root, "hash", json_string(hex));
}

static void draw(const qkv_data *d)
{
    const struct qkv_draw how = { .tokens = 16, .eos = 1, .mask = 2, .vocab = 3, .pad = -1 };
    const struct qkv_data_info info = qkv_data_info(d);
    struct qkv_drawn b = { 0 };
    qkv_error err = { 0 };
    int64_t position = 0;
    for (int i = 0; i < 3; i++) {
        FUZZ_CHECK(!qkv_data_draw(d, &b, position, &how, &err));
        FUZZ_CHECK(b.sequences >= 1 && b.next > position);
        position = b.next;
    }
    for (position = 0; position < info.sequences[DATA_VALID]; position = b.next)
        FUZZ_CHECK(!qkv_data_valid(d, &b, position, &how, &err) && b.next > position);
    for (int64_t i = 0; i < info.labels; i++)
        FUZZ_CHECK(!qkv_data_label(d, i) == (info.objective != QKV_OBJECTIVE_CLASSIFY));
    qkv_drawn_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_part part[2];
    qkv_data *d = NULL;
    qkv_error err = { 0 };
    fuzz_split(part, 2, data, size);
    struct reader r = { (const uint8_t *)part[1].at, (const uint8_t *)part[1].at + part[1].bytes };
    json_t *root = json_loadb(part[0].at, part[0].bytes, JSON_REJECT_DUPLICATES, NULL);
    make_files(root, &r);
    char *text = json_is_object(root) ? json_dumps(root, JSON_COMPACT) : NULL;
    fuzz_file("index.json", text ? text : part[0].at, text ? strlen(text) : part[0].bytes);
    free(text);
    json_decref(root);
    const qkv_status status = qkv_data_open(&d, MEMORY_FOLDER, &err);
    FUZZ_CHECK((status == QKV_OK) == (d != NULL));
    if (status)
        fuzz_refusal(status, &err);
    else
        draw(d);
    qkv_data_close(d);
    return 0;
}
