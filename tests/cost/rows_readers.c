// SPDX-License-Identifier: MIT
// rows_readers.c: the rows of cost.def for what tasks and commands read: manifests, states,
// datasets, texts, settings of models, arguments, requests, templates, lists of files, archives.
#include "cost/cost.h"
#include "file/checkpoint_names.h"
#include "file/fixtures.h"
#include "file/set.h"
#include "frame/tokens.h"
#include "index/index.h"
#include "pull/pull.h"
#include "serve/http_request.h"
#include "serve/template/template_value.h"
#include "task/data/data_internal.h"
#include "task/embed/embed_internal.h"
#include "task/generate/generation_config.h"
#include "task/train/train_internal.h"
#include <qkv/shard.h>
#include <qkv/zip.h>
#include <zlib.h>

// Ends the measurement of a call that must succeed.
static void end(qkv_status status, const qkv_error *err)
{
    cost_end();
    if (status) fail_msg("%s: %s: %s", err->file, err->path, err->text);
}

static const char *folder(const char *name)
{
    const char *path = fixture(name);
    if (mkdir(path, 0755) != 0 && errno != EEXIST) fail_msg("cannot make %s", path);
    return path;
}

// ---- manifests and states -----------------------------------------------------------------------
void cost_part(int64_t n)
{
    struct cost_text json = { 0 };
    qkv_parts *p = NULL;
    qkv_error err = { 0 };
    char hash[QKV_SHA256_TEXT];
    qkv_sha256(hash, "0123456789", 10);
    cost_printf(&json,
                "{\"format\":\"qkv-part\",\"version\":1,\"shard\":0,\"shards\":1,\"first\":0,"
                "\"rows\":2,\"bytes\":10,\"sha256\":\"%s\",\"run\":{\"a\":\"b\"",
                hash);
    for (int64_t i = 0; i < n; i++) cost_printf(&json, ",\"m%lld\":\"x\"", (long long)i);
    cost_printf(&json, "}}");
    fixture_file("v.part-00000-of-00001.npy", "0123456789", 10);
    fixture_file("v.part-00000-of-00001.npy.manifest.json", json.at, json.bytes);
    cost_begin();
    end(qkv_parts_open(&p, fixture("v.npy"), &err), &err);
    qkv_parts_close(p);
    free(json.at);
}

void cost_manifest(int64_t n)
{
    struct cost_text json = { 0 };
    char name[96], hash[QKV_SHA256_TEXT];
    struct qkv_checkpoint_found found;
    qkv_error err = { 0 };
    folder("run");
    folder("run/checkpoint-00000007");
    qkv_sha256(hash, "{}", 2);
    cost_printf(&json,
                "{\"format\":\"qkv-checkpoint\",\"version\":1,\"step\":7,\"files\":{\"state.json\":"
                "{\"bytes\":2,\"sha256\":\"%s\"}",
                hash);
    fixture_file("run/checkpoint-00000007/state.json", "{}", 2);
    for (int64_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "run/checkpoint-00000007/f%lld.json", (long long)i);
        fixture_file(name, "{}", 2);
        cost_printf(&json, ",\"f%lld.json\":{\"bytes\":2,\"sha256\":\"%s\"}", (long long)i, hash);
    }
    cost_printf(&json, "}}");
    fixture_file("run/checkpoint-00000007/manifest.json", json.at, json.bytes);
    cost_begin();
    end(qkv_checkpoint_find(&found, fixture("run"), &err), &err);
    free(json.at);
}

void cost_state(int64_t n)
{
    struct cost_text json = { 0 };
    struct train_state s = { 0 };
    qkv_error err = { 0 };
    cost_printf(&json, "{\"version\":1,\"data\":\"%064d\",\"step\":1,\"position\":1,\"targets\":1,",
                0);
    cost_printf(&json, "\"updates\":1,\"bad_steps\":0,\"bad_evaluations\":0,\"best_step\":1,"
                       "\"log_bytes\":1,\"probe_bytes\":1,\"loss\":1.5,\"epoch\":0.5");
    for (int64_t i = 0; i < n; i++) cost_printf(&json, ",\"m%lld\":1", (long long)i);
    cost_printf(&json, "}");
    fixture_file("state.json", json.at, json.bytes);
    cost_begin();
    end(train_state_read(&s, fixture_dir, &err), &err);
    free(json.at);
}

void cost_run(int64_t n)
{
    struct cost_text json = { 0 };
    const struct qkv_train_options given = { .run = fixture("run"), .resume = true };
    struct train_config c = { 0 };
    qkv_error err = { 0 };
    folder("run");
    cost_printf(&json,
                "{\"version\":1,\"format\":\"qkv-run\",\"objective\":\"causal\",\"arch\":\"gpt\","
                "\"layers\":2,\"heads\":2,\"width\":8,\"context\":16,\"tokenizer\":\"bytes\","
                "\"steps\":10,\"rate\":1e-3,\"seed\":1,\"train\":{\"paths\":[\"a.txt\"");
    for (int64_t i = 0; i < n; i++) cost_printf(&json, ",\"f%lld.txt\"", (long long)i);
    cost_printf(&json, "]}}");
    fixture_file("run/run.json", json.at, json.bytes);
    cost_begin();
    end(train_config_read(&c, &given, &err), &err);
    train_config_free(&c);
    free(json.at);
}

// ---- datasets and texts -------------------------------------------------------------------------
static struct data_sum put_numbers(const char *name, const void *data, size_t bytes)
{
    struct data_sum s = { .bytes = (int64_t)bytes };
    fixture_file(name, data, bytes);
    qkv_sha256(s.hash, data, bytes);
    return s;
}

static void put_sums(struct cost_text *json, int64_t sequences, const struct data_sum *sum)
{
    static const char *const names[] = { "tokens", "offsets", "bytes", "labels" };
    cost_printf(json, "\"sequences\":%lld,\"tokens\":%lld,\"bytes\":9,\"files\":{\"\":0",
                (long long)sequences, (long long)sequences * 2);
    for (int f = 0; f < DATA_FILES; f++)
        if (f != DATA_BYTES)
            cost_printf(json, ",\"%s\":{\"bytes\":%lld,\"sha256\":\"%s\"}", names[f],
                        (long long)sum[f].bytes, sum[f].hash);
    cost_printf(json, "}");
}

// A dataset of n texts of two tokens, each with a label of its own.
void cost_dataset(int64_t n)
{
    struct cost_text json = { 0 }, labels = { 0 };
    struct data_sum sums[DATA_SPLITS][DATA_FILES] = { 0 };
    struct qkv_data_info info = { .objective = QKV_OBJECTIVE_CLASSIFY, .context = 4 };
    int32_t *tokens = calloc((size_t)n * 2, sizeof *tokens), *label = calloc((size_t)n, 4);
    int64_t *offsets = calloc((size_t)n + 1, sizeof *offsets);
    char name[32], hash[QKV_SHA256_TEXT];
    qkv_data *d = NULL;
    qkv_error err = { 0 };
    folder("data");
    for (int64_t i = 0; i <= n; i++) offsets[i] = 2 * i;
    for (int64_t i = 0; i < n; i++) {
        label[i] = (int32_t)i;
        cost_printf(&labels, "label %lld\n", (long long)i);
    }
    for (int s = 0; s < DATA_SPLITS; s++) {
        const void *const data[] = { tokens, offsets, NULL, label };
        const size_t bytes[] = { (size_t)n * 8, (size_t)n * 8 + 8, 0, (size_t)n * 4 };
        for (int f = 0; f < DATA_FILES; f++) {
            if (f == DATA_BYTES) continue;
            snprintf(name, sizeof name, "data/%s.%s", data_split_names[s], data_file_names[f]);
            sums[s][f] = put_numbers(name, data[f], bytes[f]);
        }
    }
    const struct data_sum list = put_numbers("data/labels.txt", labels.at, labels.bytes);
    data_hash(hash, &info, (const struct data_sum(*)[DATA_FILES])sums, &list);
    cost_printf(&json,
                "{\"format\":\"qkv-data\",\"version\":1,\"objective\":\"classify\",\"context\":4,"
                "\"vocab\":5,\"labels\":%lld,\"cut\":0,\"skipped\":0,\"replaced\":0,\"source\":"
                "\"%064d\",\"hash\":\"%s\",\"label_list\":{\"bytes\":%lld,\"sha256\":\"%s\"}",
                (long long)n, 0, hash, (long long)list.bytes, list.hash);
    cost_printf(&json, ",\"specials\":[0");
    for (int64_t i = 0; i < n; i++) cost_printf(&json, ",%d", (int)(i % 5));
    cost_printf(&json, "]");
    for (int s = 0; s < DATA_SPLITS; s++) {
        cost_printf(&json, ",\"%s\":{", data_split_names[s]);
        put_sums(&json, n, sums[s]);
        cost_printf(&json, "}");
    }
    cost_printf(&json, "}");
    fixture_file("data/index.json", json.at, json.bytes);
    cost_begin();
    end(qkv_data_open(&d, fixture("data"), &err), &err);
    qkv_data_close(d);
    free(tokens);
    free(label);
    free(offsets);
    free(labels.at);
    free(json.at);
}

// Reads all examples of a corpus.
static void read_corpus(const char *path, const char *format, const char *field,
                        enum qkv_objective objective)
{
    const struct qkv_text_source s = {
        .paths = &path, .n = 1, .format = format, .field = field, .per_line = true
    };
    struct qkv_corpus_cursor c = { 0 };
    struct qkv_example x = { 0 };
    qkv_corpus *corpus = NULL;
    qkv_error err = { 0 };
    bool more = true;
    cost_begin();
    qkv_status status = qkv_corpus_open(&corpus, &s, objective, &err);
    c.corpus = corpus;
    while (more && !status) status = qkv_corpus_next(&c, &x, &more, &err);
    end(status, &err);
    qkv_corpus_cursor_free(&c);
    qkv_corpus_close(corpus);
}

void cost_tsv_lines(int64_t n)
{
    struct cost_text text = { 0 };
    cost_repeat(&text, "a\tb\n", n / 4);
    read_corpus(fixture_file("a.tsv", text.at, text.bytes), "tsv", NULL, QKV_OBJECTIVE_SEQ2SEQ);
    free(text.at);
}

void cost_tsv_columns(int64_t n)
{
    struct cost_text text = { 0 };
    char last[24];
    snprintf(last, sizeof last, "%lld", (long long)n);
    cost_repeat(&text, "a\t", n - 1);
    cost_printf(&text, "b\n");
    read_corpus(fixture_file("a.tsv", text.at, text.bytes), "tsv", last, QKV_OBJECTIVE_CAUSAL);
    free(text.at);
}

void cost_jsonl_lines(int64_t n)
{
    struct cost_text text = { 0 };
    cost_repeat(&text, "{\"text\":\"a\\u00e9\"}\n", n / 18);
    read_corpus(fixture_file("a.jsonl", text.at, text.bytes), "jsonl", NULL, QKV_OBJECTIVE_CAUSAL);
    free(text.at);
}

// A line whose other members are many.
void cost_jsonl_members(int64_t n)
{
    struct cost_text text = { 0 };
    cost_printf(&text, "{");
    for (int64_t i = 0; i < n; i++) cost_printf(&text, "\"m%lld\":[{}],", (long long)i);
    cost_printf(&text, "\"text\":\"a\"}\n");
    read_corpus(fixture_file("a.jsonl", text.at, text.bytes), "jsonl", NULL, QKV_OBJECTIVE_CAUSAL);
    free(text.at);
}

void cost_blank_lines(int64_t n)
{
    struct cost_text text = { 0 };
    cost_repeat(&text, " \n\r\n", n / 4);
    cost_printf(&text, "a\n");
    read_corpus(fixture_file("a.txt", text.at, text.bytes), "text", NULL, QKV_OBJECTIVE_CAUSAL);
    free(text.at);
}

// ---- settings of a model folder -----------------------------------------------------------------
static void read_modules(const struct cost_text *list, const struct cost_text *prompts,
                         qkv_status expected)
{
    struct qkv_modules m = { 0 };
    qkv_error err = { 0 };
    folder("1_Pooling");
    fixture_file("modules.json", list->at, list->bytes);
    fixture_file("1_Pooling/config.json", "{\"pooling_mode_mean_tokens\":true}", 33);
    fixture_file("config_sentence_transformers.json", prompts->at, prompts->bytes);
    cost_begin();
    const qkv_status status = qkv_modules_read(&m, fixture_dir, NULL, &err);
    end(status == expected ? QKV_OK : QKV_ERR_INTERNAL, &err);
    qkv_modules_free(&m);
}

void cost_modules(int64_t n)
{
    struct cost_text list = { 0 }, prompts = { 0 };
    cost_printf(&list,
                "[{\"path\":\"\",\"type\":\"sentence_transformers.models.Transformer\"},"
                "{\"path\":\"1_Pooling\",\"type\":\"sentence_transformers.models.Pooling\"}");
    for (int64_t i = 0; i < n; i++)
        cost_printf(&list, ",{\"path\":\"\",\"type\":\"sentence_transformers.models.Normalize\"}");
    cost_printf(&list, "]");
    cost_printf(&prompts, "{}");
    read_modules(&list, &prompts, QKV_OK);
    free(list.at);
    free(prompts.at);
}

void cost_prompts(int64_t n)
{
    struct cost_text list = { 0 }, prompts = { 0 };
    cost_printf(&list,
                "[{\"path\":\"\",\"type\":\"sentence_transformers.models.Transformer\"},"
                "{\"path\":\"1_Pooling\",\"type\":\"sentence_transformers.models.Pooling\"}]");
    cost_printf(&prompts, "{\"prompts\":{\"\":\"\"");
    for (int64_t i = 0; i < n; i++) cost_printf(&prompts, ",\"p%lld\":\"x: \"", (long long)i);
    cost_printf(&prompts, "},\"default_prompt_name\":\"p%lld\"}", (long long)n - 1);
    read_modules(&list, &prompts, QKV_OK);
    free(list.at);
    free(prompts.at);
}

void cost_generation(int64_t n)
{
    struct cost_text json = { 0 };
    struct qkv_generation_config c = { .bos = -1, .start = -1 };
    qkv_error err = { 0 };
    cost_printf(&json, "{\"eos_token_id\":[2");
    for (int64_t i = 0; i < n; i++) cost_printf(&json, ",%lld", (long long)i);
    cost_printf(&json, "],\"suppress_tokens\":[3");
    for (int64_t i = 0; i < n; i++) cost_printf(&json, ",%lld", (long long)(n - i));
    cost_printf(&json, "],\"bad_words_ids\":[[1,2]");
    for (int64_t i = 0; i < n; i++) cost_printf(&json, ",[%lld,7]", (long long)i);
    cost_printf(&json, "]}");
    fixture_file("generation_config.json", json.at, json.bytes);
    cost_begin();
    end(qkv_generation_file_read(&c, fixture_dir, 1 << 20, true, &err), &err);
    qkv_generation_config_free(&c);
    free(json.at);
}

// ---- arguments ----------------------------------------------------------------------------------
static struct {
    struct cmd_words words;
    bool flag;
} values;
static const struct opt options[] = { OPT_WORDS('w', "words", &values.words, "WORD", "words"),
                                      OPT_FLAG('f', "flag", &values.flag, "a flag"), OPT_END };
static const struct cmd command = {
    .name = "cost", .usage = "TEXT...\n", .opts = options, .max_args = -1
};
const struct cmd *const cmd_table[] = { &command, NULL };

void cost_arguments(int64_t n)
{
    static char *const argument[] = { "-w", "word", "operand", "-" };
    char **argv = calloc((size_t)n + 1, sizeof *argv);
    qkv_error err = { 0 };
    int operands = 0;
    for (int64_t i = 0; i < n; i++) argv[i] = argument[i % 4];
    cost_begin();
    end(cmd_options(&command, (int)n, argv, &operands, &err), &err);
    free(values.words.text);
    memset(&values, 0, sizeof values);
    free(argv);
}

void cost_numbers(int64_t n)
{
    struct cost_text text = { 0 };
    struct id_lists ids;
    int64_t *list = NULL, count = 0;
    qkv_error err = { 0 };
    cost_printf(&text, "1");
    cost_repeat(&text, ",2", n / 2);
    cost_begin();
    qkv_status status = cmd_parse_ints("--x", text.at, 0, 9, &list, &count, &err);
    if (!status) status = id_lists_read(&ids, text.at, &err);
    end(status, &err);
    free(list);
    id_lists_free(&ids);
    free(text.at);
}

// ---- requests -----------------------------------------------------------------------------------
// Parses a request in pieces of `piece` bytes. status: of the refusal; 0: the request is complete.
static void request(const struct cost_text *text, size_t piece, int status)
{
    struct http_request r;
    cost_begin();
    http_request_init(&r, 1 << 24);
    for (size_t at = 0;
         at < text->bytes && (r.state == HTTP_STATE_HEAD || r.state == HTTP_STATE_BODY);) {
        const size_t left = text->bytes - at;
        at += http_request_parse(&r, text->at + at, left < piece ? left : piece);
    }
    cost_end();
    if (r.state != (status ? HTTP_STATE_FAILED : HTTP_STATE_DONE) || (status && r.status != status))
        fail_msg("state %d, status %d", (int)r.state, r.status);
    http_request_free(&r);
}

void cost_http_head(int64_t n)
{
    struct cost_text text = { 0 };
    cost_printf(&text, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
    cost_repeat(&text, "y", n);
    cost_printf(&text, "\r\n\r\n");
    request(&text, 1, 0);
    free(text.at);
}

void cost_http_fields(int64_t n)
{
    struct cost_text text = { 0 };
    cost_printf(&text, "GET / HTTP/1.1\r\nHost: a\r\n");
    cost_repeat(&text, "X: y\r\n", n);
    request(&text, 1, 431);
    free(text.at);
}

void cost_http_chunks(int64_t n)
{
    struct cost_text text = { 0 };
    cost_printf(&text, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    cost_repeat(&text, "1\r\nx\r\n", n / 6);
    cost_printf(&text, "0\r\n\r\n");
    request(&text, 1, 0);
    free(text.at);
}

static void render(const char *source, int64_t messages, bool fits)
{
    struct cost_text json = { 0 };
    qkv_json *list = NULL;
    qkv_error err = { 0 };
    char *out = NULL;
    cost_printf(&json, "[{\"role\":\"user\",\"content\":\"hello\"}");
    for (int64_t i = 1; i < messages; i++)
        cost_printf(&json, ",{\"role\":\"user\",\"content\":\"hello\"}");
    cost_printf(&json, "]");
    if (qkv_json_read(&list, json.at, json.bytes, &err)) fail_msg("%s", err.text);
    const struct template_input in = { list, "<s>", "</s>" };
    cost_begin();
    const qkv_status status = template_render(&out, source, strlen(source), &in, &err);
    cost_end();
    if (fits != !status) fail_msg("%s", status ? err.text : "rendered");
    free(out);
    qkv_json_free(list);
    free(json.at);
}

void cost_template(int64_t n)
{
    render("{% for m in messages %}{{ m['role'] + ': ' + m['content'] | trim }}{% endfor %}", n,
           true);
}

void cost_template_text(int64_t n)
{
    struct cost_text text = { 0 };
    cost_repeat(&text, "{{ bos_token }} a {# b #}", n / 25);
    render(text.at, 1, true);
    free(text.at);
}

void cost_template_texts(int64_t n)
{
    render("{% set a = namespace(s='x') %}{% for m in messages %}{% set a.s = a.s + a.s %}"
           "{% endfor %}",
           n, false);
}

// ---- lists of files -----------------------------------------------------------------------------
void cost_listing(int64_t n)
{
    struct cost_text json = { 0 };
    struct pull_listing l = { 0 };
    qkv_error err = { 0 };
    static const char *const first[] = { "config.json", "model.safetensors" };
    char name[64];
    cost_printf(&json, "[");
    for (int64_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "a/%llu.json",
                 (unsigned long long)((uint64_t)i * 0x9E3779B97F4A7C15u));
        cost_printf(&json, "%s{\"type\":\"file\",\"oid\":\"%040d\",\"size\":3,\"path\":\"%s\"}",
                    i ? "," : "", 0, i < 2 ? first[i] : name);
    }
    cost_printf(&json, "]");
    cost_begin();
    qkv_status status = listing_add(&l, json.at, json.bytes, &err);
    if (!status) status = listing_finish(&l, "org/name", &err);
    end(status, &err);
    listing_free(&l);
    free(json.at);
}

static char *many_files(int64_t n)
{
    static char name[64], path[256];
    snprintf(name, sizeof name, "files-%lld", (long long)n);
    snprintf(path, sizeof path, "%s", folder(name));
    for (int64_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "files-%lld/%lld.txt", (long long)n, (long long)i);
        fixture_file(name, "a\n", 2);
    }
    return path;
}

void cost_folder(int64_t n)
{
    read_corpus(many_files(n), "text", NULL, QKV_OBJECTIVE_CAUSAL);
}

void cost_index_folder(int64_t n)
{
    char *operands[] = { many_files(n) };
    struct index_files f = { 0 };
    qkv_error err = { 0 };
    cost_begin();
    end(index_files_find(&f, 1, operands, &err), &err);
    if (f.count != n) fail_msg("%lld files", (long long)f.count);
    index_files_free(&f);
}

// ---- archives -----------------------------------------------------------------------------------
static void put(struct cost_text *zip, uint32_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) cost_add(zip, &(char){ (char)(value >> (8 * i)) }, 1);
}

// The fields that a member and its entry in the directory share: n bytes, stored.
static void put_member(struct cost_text *zip, const char *data, size_t n, const char *name)
{
    put(zip, 20, 2), put(zip, 0, 2), put(zip, 0, 2), put(zip, 0, 4);
    put(zip, (uint32_t)crc32(0, (const Bytef *)data, (uInt)n), 4);
    put(zip, (uint32_t)n, 4), put(zip, (uint32_t)n, 4), put(zip, (uint32_t)strlen(name), 2);
    put(zip, 0, 2);
}

static int read_piece(void *context, const void *data, size_t bytes)
{
    (void)data;
    *(size_t *)context += bytes;
    return 0;
}

void cost_zip(int64_t n)
{
    struct cost_text zip = { 0 };
    qkv_zip *z = NULL;
    qkv_error err = { 0 };
    char name[32];
    size_t bytes = 0, *at = calloc((size_t)n, sizeof *at);
    for (int64_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%06lld.txt", (long long)i);
        at[i] = zip.bytes;
        put(&zip, 0x04034b50, 4), put_member(&zip, "abc", 3, name);
        cost_printf(&zip, "%sabc", name);
    }
    const size_t directory = zip.bytes;
    for (int64_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%06lld.txt", (long long)i);
        put(&zip, 0x02014b50, 4), put(&zip, 20, 2), put_member(&zip, "abc", 3, name);
        put(&zip, 0, 2), put(&zip, 0, 2), put(&zip, 0, 2), put(&zip, 0, 4);
        put(&zip, (uint32_t)at[i], 4);
        cost_printf(&zip, "%s", name);
    }
    const size_t size = zip.bytes - directory;
    put(&zip, 0x06054b50, 4), put(&zip, 0, 2), put(&zip, 0, 2);
    put(&zip, (uint32_t)n, 2), put(&zip, (uint32_t)n, 2), put(&zip, (uint32_t)size, 4);
    put(&zip, (uint32_t)directory, 4), put(&zip, 0, 2);
    const char *path = fixture_file("a.zip", zip.at, zip.bytes);
    cost_begin();
    qkv_status status = qkv_zip_open(&z, path, &err);
    for (int64_t i = 0; i < n && !status; i++)
        status = qkv_zip_read(z, i, read_piece, &bytes, &err);
    end(status, &err);
    if (bytes != 3 * (size_t)n) fail_msg("%zu bytes", bytes);
    qkv_zip_close(z);
    free(at);
    free(zip.at);
}
