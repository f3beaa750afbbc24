// SPDX-License-Identifier: MIT
// test_weights.c: checks that the tensors of a checkpoint give the same bits with other names, in
// other types, in shards, unaligned; and that missing tensors, other shapes and unsupported types
// are refused by name.
#include "model/folder.h"
#include "model/family/golden.h"
#include "model/model_internal.h"

#define TINY "tests/golden/bert"
enum { R = 7, D = 35, MOST = 64 };

// Runs the first sequence of the golden file with a folder.
static void run_folder(const char *dir, float *hidden)
{
    qkv_model *m = NULL;
    qkv_tensors *golden = NULL;
    qkv_error err = { 0 };
    if (qkv_model_open(&m, dir, NULL, &err)) fail_msg("%s %s", err.path, err.text);
    if (qkv_tensors_open(&golden, TINY "/golden.safetensors", NULL, &err)) fail_msg("%s", err.text);
    const int64_t offsets[2] = { 0, R };
    const struct qkv_model_input in = { .sequences = 1,
                                        .offsets = offsets,
                                        .ids = golden_get(golden, NULL, "ids", QKV_I32, -1),
                                        .types = golden_get(golden, NULL, "types", QKV_I32, -1) };
    if (qkv_model_run(m, hidden, &in, NULL, &err)) fail_msg("%s", err.text);
    qkv_tensors_close(golden);
    qkv_model_close(m);
}

// Copies tensors from..to of the tiny model into `file`; change (NULL: none) edits each tensor,
// false omits it.
typedef bool (*change_fn)(struct qkv_tensor *t, char name[160], void *data);
static void write_tensors(const char *file, int64_t from, int64_t to, change_fn change)
{
    qkv_tensors *all = NULL;
    qkv_error err = { 0 };
    struct qkv_tensor t[MOST];
    static char names[MOST][160];
    static double data[MOST][4096];
    int64_t n = 0;
    if (qkv_tensors_open(&all, TINY "/model.safetensors", NULL, &err)) fail_msg("%s", err.text);
    if (to < 0) to = qkv_tensors_count(all);
    CHECK(to <= MOST);
    for (int64_t i = from; i < to; i++) {
        t[n] = *qkv_tensors_at(all, i);
        CHECK(t[n].bytes <= sizeof data[n]);
        memcpy(data[n], t[n].data, t[n].bytes);
        snprintf(names[n], sizeof names[n], "%s", t[n].name);
        t[n].data = data[n];
        if (change && !change(&t[n], names[n], data[n])) continue;
        t[n].name = names[n];
        n++;
    }
    qkv_safetensors_writer *w = NULL;
    if (qkv_safetensors_create(&w, folder_name(file), t, n, NULL, true, &err))
        fail_msg("%s", err.text);
    for (int64_t i = 0; i < n; i++)
        if (qkv_safetensors_append(w, t[i].data, t[i].bytes, &err)) fail_msg("%s", err.text);
    if (qkv_safetensors_finish(w, &err)) fail_msg("%s", err.text);
    qkv_safetensors_close(w);
    qkv_tensors_close(all);
}
static void fresh(void)
{
    folder_new();
    folder_link("config.json", TINY "/config.json");
}
static void check_same_bits(const char *what)
{
    float want[R * D], got[R * D];
    run_folder(TINY, want);
    run_folder(folder_path, got);
    if (memcmp(want, got, sizeof want) != 0) fail_msg("%s: other bits", what);
}

static bool prefixed(struct qkv_tensor *t, char name[160], void *data)
{
    (void)data;
    snprintf(name, 160, "bert.%s", t->name);
    return true;
}
TEST(names_with_the_family_s_prefix)
{
    fresh();
    write_tensors("model.safetensors", 0, -1, prefixed);
    check_same_bits("bert.*");
}

static bool from_tensorflow(struct qkv_tensor *t, char name[160], void *data)
{
    const char *dot = strrchr(t->name, '.');
    (void)data;
    if (strstr(t->name, "LayerNorm"))
        snprintf(name, 160, "bert.%.*s.%s", (int)(dot - t->name), t->name,
                 strcmp(dot, ".weight") == 0 ? "gamma" : "beta");
    else
        snprintf(name, 160, "bert.%s", t->name);
    return true;
}
TEST(norms_called_gamma_and_beta)
{
    fresh();
    write_tensors("model.safetensors", 0, -1, from_tensorflow);
    check_same_bits("gamma, beta");
}

static bool widened(struct qkv_tensor *t, char name[160], void *data)
{
    float narrow[4096];
    double *wide = data;
    (void)name;
    const int64_t n = qkv_tensor_count(t);
    memcpy(narrow, data, t->bytes);
    for (int64_t i = 0; i < n; i++) wide[i] = (double)narrow[i];
    t->dtype = QKV_F64;
    t->bytes = (size_t)n * sizeof(double);
    return true;
}
TEST(weights_of_64_bits)
{
    fresh();
    write_tensors("model.safetensors", 0, -1, widened);
    check_same_bits("F64");
}

// An additional space in the header makes every tensor unaligned.
TEST(unaligned_data)
{
    for (int shift = 1; shift < 8; shift++) {
        size_t bytes;
        char *file = folder_load(TINY "/model.safetensors", &bytes);
        uint64_t header;
        memcpy(&header, file, 8);
        char *moved = malloc(bytes + 8);
        CHECK(moved != NULL);
        memcpy(moved, file, 8 + header);
        memset(moved + 8 + header, ' ', (size_t)shift);
        memcpy(moved + 8 + header + shift, file + 8 + header, bytes - 8 - header);
        header += (uint64_t)shift;
        memcpy(moved, &header, 8);
        fresh();
        folder_write("model.safetensors", moved, bytes + (size_t)shift);
        check_same_bits("unaligned");
        free(moved);
        free(file);
    }
}

TEST(shards)
{
    qkv_tensors *all = NULL;
    qkv_error err = { 0 };
    fresh();
    write_tensors("model-00001-of-00002.safetensors", 0, 20, NULL);
    write_tensors("model-00002-of-00002.safetensors", 20, -1, NULL);
    if (qkv_tensors_open(&all, TINY "/model.safetensors", NULL, &err)) fail_msg("%s", err.text);
    char index[8192];
    size_t at = 0, total = 0;
    for (int64_t i = 0; i < qkv_tensors_count(all); i++) total += qkv_tensors_at(all, i)->bytes;
    at += (size_t)snprintf(index, sizeof index,
                           "{\"metadata\": {\"total_size\": %zu}, \"weight_map\": {", total);
    for (int64_t i = 0; i < qkv_tensors_count(all); i++)
        at += (size_t)snprintf(index + at, sizeof index - at,
                               "%s\"%s\": \"model-0000%d-of-00002.safetensors\"", i ? ", " : "",
                               qkv_tensors_at(all, i)->name, i < 20 ? 1 : 2);
    snprintf(index + at, sizeof index - at, "}}");
    folder_text("model.safetensors.index.json", index);
    qkv_tensors_close(all);
    check_same_bits("shards");
}

TEST(read_instead_of_mapped)
{
    qkv_model *m = NULL;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_model_open(&m, TINY, &(struct qkv_model_options){ .no_mmap = true }, &err),
             QKV_OK);
    qkv_model_close(m);
}

#define QUERY "encoder.layer.1.attention.self.query.weight"
static bool without_query(struct qkv_tensor *t, char name[160], void *data)
{
    (void)name;
    (void)data;
    return strcmp(t->name, QUERY) != 0;
}
static bool short_query(struct qkv_tensor *t, char name[160], void *data)
{
    (void)name;
    (void)data;
    if (strcmp(t->name, QUERY) == 0) {
        t->shape[1]--;
        t->bytes = (size_t)(t->shape[0] * t->shape[1]) * sizeof(float);
    }
    return true;
}
static bool flat_query(struct qkv_tensor *t, char name[160], void *data)
{
    (void)name;
    (void)data;
    if (strcmp(t->name, QUERY) == 0) {
        t->rank = 1;
        t->shape[0] *= t->shape[1];
    }
    return true;
}
static bool integer_query(struct qkv_tensor *t, char name[160], void *data)
{
    (void)name;
    (void)data;
    if (strcmp(t->name, QUERY) == 0) t->dtype = QKV_I32;
    return true;
}
static bool fewer_words(struct qkv_tensor *t, char name[160], void *data)
{
    (void)name;
    (void)data;
    if (strcmp(t->name, "embeddings.word_embeddings.weight") == 0) {
        t->shape[0]--;
        t->bytes -= D * sizeof(float);
    }
    return true;
}
TEST(what_does_not_fit_is_refused_by_name)
{
    static const struct {
        change_fn change;
        qkv_status status;
        const char *path, *says;
    } rows[] = {
        { without_query, QKV_ERR_FORMAT, QUERY, "missing tensor, expected [35, 35], found none" },
        { short_query, QKV_ERR_FORMAT, QUERY,
          "shape of the tensor differs from config.json, expected [35, 35], found [35, 34]" },
        { flat_query, QKV_ERR_FORMAT, QUERY,
          "shape of the tensor differs from config.json, expected [35, 35], found [1225]" },
        { integer_query, QKV_ERR_UNSUPPORTED, QUERY,
          "unsupported type of the tensor, expected F32, F16, BF16 or F64, found I32" },
        { fewer_words, QKV_ERR_FORMAT, "embeddings.word_embeddings.weight",
          "shape of the tensor differs from config.json, expected [40, 35], found [39, 35]" },
    };
    EACH(r, rows)
    {
        qkv_model *m = NULL;
        qkv_error err = { 0 };
        fresh();
        write_tensors("model.safetensors", 0, -1, r->change);
        CHECK_EQ(qkv_model_open(&m, folder_path, NULL, &err), r->status);
        CHECK(m == NULL);
        CHECK_TEXT(err.path, r->path);
        CHECK_TEXT(err.text, r->says);
    }
}

TEST(no_weights_at_all_is_an_io_error)
{
    qkv_model *m = NULL;
    qkv_error err = { 0 };
    fresh();
    CHECK_EQ(qkv_model_open(&m, folder_path, NULL, &err), QKV_ERR_IO);
}

// A precision that this CPU supports is opened and named; any other is refused, with a list of the
// supported ones.
TEST(a_precision_runs_or_is_refused_and_is_never_lowered)
{
    const char *name;
    for (int p = 0; (name = qkv_precision_name((qkv_precision)p)) != NULL; p++) {
        const struct qkv_model_options o = { .precision = (qkv_precision)p };
        qkv_model *m = NULL;
        qkv_error err = { 0 };
        const qkv_status status = qkv_model_open(&m, TINY, &o, &err);
        if (qkv_precision_runs(o.precision)) {
            CHECK_EQ(status, QKV_OK);
            CHECK_EQ(qkv_model_info(m).precision, p);
            CHECK(qkv_model_info(m).arithmetic[0] != 0);
        } else {
            CHECK_EQ(status, QKV_ERR_UNSUPPORTED);
            CHECK(m == NULL);
            CHECK(strstr(err.text, "expected one of f32") != NULL &&
                  strstr(err.text, name) != NULL);
        }
        qkv_model_close(m);
    }
    for (int p = -1; p <= QKV_PRECISIONS; p += QKV_PRECISIONS + 1) {
        const struct qkv_model_options o = { .precision = (qkv_precision)p };
        qkv_model *m = NULL;
        qkv_error err = { 0 };
        CHECK_EQ(qkv_model_open(&m, TINY, &o, &err), QKV_ERR_USAGE);
        CHECK(m == NULL);
    }
}

TEST(an_embedding_is_the_table_s_row)
{
    qkv_model *m = NULL;
    qkv_tensors *file = NULL;
    qkv_error err = { 0 };
    float row[D];
    CHECK_EQ(qkv_model_open(&m, TINY, NULL, &err), QKV_OK);
    CHECK_EQ(qkv_tensors_open(&file, TINY "/model.safetensors", NULL, &err), QKV_OK);
    const float *table =
        golden_get(file, NULL, "embeddings.word_embeddings.weight", QKV_F32, 40 * D);
    CHECK_EQ(qkv_model_embedding(m, row, 39), QKV_OK);
    CHECK_BITS(row, table + 39 * D, sizeof row);
    CHECK_EQ(qkv_model_embedding(m, row, 40), QKV_ERR_USAGE);
    CHECK_EQ(qkv_model_embedding(m, row, -1), QKV_ERR_USAGE);
    qkv_tensors_close(file);
    qkv_model_close(m);
}

CHECK_MAIN(CASE(names_with_the_family_s_prefix), CASE(norms_called_gamma_and_beta),
           CASE(weights_of_64_bits), CASE(unaligned_data), CASE(shards),
           CASE(read_instead_of_mapped), CASE(what_does_not_fit_is_refused_by_name),
           CASE(no_weights_at_all_is_an_io_error),
           CASE(a_precision_runs_or_is_refused_and_is_never_lowered),
           CASE(an_embedding_is_the_table_s_row))
