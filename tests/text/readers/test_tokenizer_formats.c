// SPDX-License-Identifier: MIT
// test_tokenizer_formats.c: compares tokenizers in other formats than tokenizer.json with the
// software that defines the formats (tools/golden_formats.py); malformed files are refused with
// their location, and no byte of a file does harm.
#include "text/golden_text.h"
#include <unistd.h>
#include "text/readers/readers.h"

#define FORMATS "tests/golden/text/formats/"

static int32_t *ids_of(const json_t *list, size_t *n)
{
    *n = json_array_size(list);
    int32_t *ids = malloc((*n + 1) * sizeof *ids);
    for (size_t i = 0; i < *n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return ids;
}

static void replay(const json_t *group)
{
    char path[256];
    const char *name = json_string_value(json_object_get(group, "open"));
    const json_t *rows = json_object_get(group, "encode");
    qkv_tokenizer *t = NULL;
    qkv_encoding e = { 0 };
    qkv_error err = { 0 };
    size_t n;
    snprintf(path, sizeof path, FORMATS "%s", name);
    if (qkv_tokenizer_open(&t, path, &err)) fail_msg("%s: %s: %s", name, err.path, err.text);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *text = json_array_get(json_array_get(rows, i), 0);
        int32_t *ids = ids_of(json_array_get(json_array_get(rows, i), 1), &n);
        CHECK_EQ(qkv_tokenizer_encode(t, &e, json_string_value(text), json_string_length(text),
                                      NULL, 0, NULL, &err),
                 QKV_OK);
        bool same = (size_t)e.count == n;
        for (size_t k = 0; k < n && same; k++) same = e.ids[k] == ids[k];
        if (!same) fail_msg("%s: \"%s\" has other ids", name, json_string_value(text));
        free(ids);
    }
    CHECK(json_array_size(rows) > 20);
    rows = json_object_get(group, "decode");
    for (size_t i = 0; i < json_array_size(rows); i++) golden_decode(t, json_array_get(rows, i));
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
}

TEST(each_format_answers_as_its_maker)
{
    json_error_t why;
    json_t *all = json_load_file(FORMATS "cases.json", 0, &why);
    CHECK(all);
    const json_t *groups = json_object_get(all, "groups");
    CHECK_EQ(json_array_size(groups), 9);
    for (size_t i = 0; i < json_array_size(groups); i++) replay(json_array_get(groups, i));
    json_decref(all);
}

// By sentencepiece 0.2.3: ids 0 (unknown), 261 ("_s"), 262 ("es").
TEST(unknown_pieces_are_decoded_as_by_sentencepiece)
{
    static const struct {
        int32_t ids[4];
        int n;
        const char *text;
    } cases[] = { { { 0 }, 1, " \xE2\x81\x87 " },
                  { { 0, 261 }, 2, " \xE2\x81\x87  s" },
                  { { 0, 262 }, 2, " \xE2\x81\x87 es" },
                  { { 261, 0, 261 }, 3, "s \xE2\x81\x87  s" },
                  { { 261, 0, 0, 262 }, 4, "s \xE2\x81\x87  \xE2\x81\x87 es" } };
    qkv_tokenizer *t = NULL;
    char out[64];
    CHECK_EQ(qkv_tokenizer_open(&t, FORMATS "bpe.model", NULL), QKV_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_EQ(
            qkv_tokenizer_decode(t, out, sizeof out, NULL, cases[i].ids, cases[i].n, false, NULL),
            QKV_OK);
        CHECK_TEXT(out, cases[i].text);
    }
    CHECK_TEXT(qkv_tokenizer_token(t, 0), "<unk>");
    qkv_tokenizer_close(t);
}

// By sentencepiece 0.2.3: the text of the unknown piece is plain text, whose characters are bytes.
TEST(the_text_of_the_unknown_piece_is_not_a_token)
{
    static const char text[] = "[UNK]";
    const struct qkv_encode_options plain = { .no_special = true };
    qkv_tokenizer *t = NULL;
    qkv_encoding e = { 0 };
    CHECK_EQ(qkv_tokenizer_open(&t, FORMATS "symbols.model", NULL), QKV_OK);
    CHECK_EQ(qkv_tokenizer_encode(t, &e, text, 5, NULL, 0, &plain, NULL), QKV_OK);
    CHECK(e.count > 1);
    for (int64_t i = 0; i < e.count; i++) CHECK(e.ids[i] != 0);
    CHECK_EQ(qkv_tokenizer_encode(t, &e, text, 5, NULL, 0, NULL, NULL), QKV_OK);
    CHECK_EQ(e.count, 1);
    CHECK_EQ(e.ids[0], 0);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
}

// ---- a model written by hand -------------------------------------------------------------------
struct bytes {
    uint8_t at[4096];
    size_t n;
};

static void put(struct bytes *b, const void *p, size_t n)
{
    CHECK(b->n + n <= sizeof b->at);
    memcpy(b->at + b->n, p, n);
    b->n += n;
}

static void put_piece(struct bytes *b, const char *text, float score, int type)
{
    struct bytes in = { .n = 0 };
    const uint8_t head[2] = { 0x0A, (uint8_t)strlen(text) };
    put(&in, head, 2);
    put(&in, text, strlen(text));
    put(&in, "\x15", 1);
    put(&in, &score, 4);
    put(&in, (uint8_t[]){ 0x18, (uint8_t)type }, 2);
    put(b, (uint8_t[]){ 0x0A, (uint8_t)in.n }, 2);
    put(b, in.at, in.n);
}

static struct bytes small_model(void)
{
    struct bytes b = { .n = 0 };
    put_piece(&b, "<unk>", 0, QKV_SPM_UNKNOWN);
    put_piece(&b, "<s>", 0, QKV_SPM_CONTROL);
    put_piece(&b,
              "\xE2\x96\x81"
              "a",
              -1, QKV_SPM_NORMAL);
    put_piece(&b, "b", -2, QKV_SPM_NORMAL);
    return b;
}

typedef qkv_status reader_fn(qkv_tokenizer **out, const uint8_t *data, size_t size,
                             const char *file, qkv_error *err);

static void refused(reader_fn *read, const void *data, size_t size, const char *file,
                    qkv_status status, const char *want)
{
    qkv_tokenizer *t = NULL;
    qkv_error err = { 0 };
    const qkv_status got = read(&t, data, size, file, &err);
    if (got != status || t || err.status != got || !strstr(err.text, want))
        fail_msg("expected %d \"%s\", found %d \"%s\"", status, want, got, err.text);
    CHECK_EQ(read(&t, data, size, file, NULL), status);
}

static void refused_with(const void *more, size_t n, qkv_status status, const char *want)
{
    struct bytes b = small_model();
    put(&b, more, n);
    refused(qkv_read_spm, b.at, b.n, "nowhere/m.model", status, want);
}
#define BAD(bytes, want) refused_with(bytes, sizeof bytes - 1, QKV_ERR_FORMAT, want)

TEST(a_broken_sentencepiece_model_is_refused_with_its_reason)
{
    struct bytes b = small_model();
    qkv_tokenizer *t = NULL;
    CHECK_EQ(qkv_read_spm(&t, b.at, b.n, "nowhere/m.model", NULL), QKV_OK);
    CHECK_EQ(qkv_tokenizer_size(t), 4);
    qkv_tokenizer_close(t);
    BAD("\x0A", "an integer is truncated");
    BAD("\x0A\x80", "an integer is truncated");
    BAD("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "an integer has more than 64 bits");
    BAD("\x0A\x7F\x0A", "a field is truncated");
    BAD("\x0A\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "a field is truncated");
    BAD("\x0B", "a field has an unknown wire type");
    BAD("\x02\x01x", "the number of a field is out of range");
    BAD("\x08\x01", "a field has the wrong wire type, expected bytes");
    BAD("\x0A\x02\x08\x01", "a field has the wrong wire type, expected bytes");
    BAD("\x0A\x05\x0A\x01x\x10\x01", "a field has the wrong wire type, expected 4 bytes");
    BAD("\x0A\x00", "a piece is empty");
    BAD("\x0A\x04\x0A\x02\xC3\x28", "a piece is not valid UTF-8");
    BAD("\x0A\x08\x0A\x01x\x15\x00\x00\xC0\x7F", "the score of a piece is not finite");
    BAD("\x0A\x08\x0A\x01x\x15\x00\x00\x80\x7F", "the score of a piece is not finite");
    BAD("\x0A\x05\x0A\x01x\x18\x09", "a piece has an unknown type");
    BAD("\x0A\x05\x0A\x01x\x18\x02", "a second unknown piece");
    BAD("\x0A\x03\x0A\x01"
        "b",
        "duplicate token");
    BAD("\x1A\x06\x12\x04\xff\xff\xff\xff", "malformed normalization table");
    BAD("\x1A\x0B\x12\x09\x04\x00\x00\x00\x00\xff\xff\x00\x00", "points outside the table");
    refused_with("\x12\x02\x18\x03", 4, QKV_ERR_UNSUPPORTED, "model of words");
    refused_with("\x12\x03\xC0\x01\x01", 5, QKV_ERR_UNSUPPORTED,
                 "model marks white space at the end of words");
    refused(qkv_read_spm, b.at + 16, b.n - 16, "nowhere/m.model", QKV_ERR_FORMAT, "");
    refused(qkv_read_spm, "", 0, "nowhere/m.model", QKV_ERR_FORMAT, "no pieces");
    refused(qkv_read_spm, "\x0A\x03\x0A\x01x", 5, "nowhere/m.model", QKV_ERR_FORMAT,
            "the unknown piece is missing");
}

TEST(a_broken_tokenizer_of_llama2c_is_refused_with_its_place)
{
    struct qkv_map m = { 0 };
    const char *file = FORMATS "llama2c/tokenizer.bin";
    CHECK_EQ(qkv_map_open(&m, file, true, NULL), QKV_OK);
    uint8_t *data = malloc(m.size);
    memcpy(data, m.data, m.size);
    refused(qkv_read_llama2c, data, 3, file, QKV_ERR_FORMAT,
            "file too short for a tokenizer of llama2.c");
    refused(qkv_read_llama2c, data, 9, file, QKV_ERR_FORMAT, "truncated entry of a token");
    refused(qkv_read_llama2c, data, m.size - 1, file, QKV_ERR_FORMAT, "truncated text of a token");
    refused(qkv_read_llama2c, data, 4, file, QKV_ERR_FORMAT, "too few tokens");
    memcpy(data + 8, "\xff\xff\xff\xff", 4);
    refused(qkv_read_llama2c, data, m.size, file, QKV_ERR_FORMAT, "expected 4294967295 bytes");
    memcpy(data, m.data, m.size);
    memcpy(data + 4, "\x00\x00\xC0\x7F", 4);
    refused(qkv_read_llama2c, data, m.size, file, QKV_ERR_FORMAT, "score of a token");
    memcpy(data, m.data, m.size);
    data[12] = 0xFF;
    refused(qkv_read_llama2c, data, m.size, file, QKV_ERR_FORMAT, "is not valid UTF-8");
    memcpy(data, m.data, m.size);
    char *zero = NULL;
    for (size_t i = 0; i + 6 < m.size && !zero; i++)
        if (memcmp(data + i, "<0x41>", 6) == 0) zero = (char *)data + i;
    CHECK(zero);
    memcpy(zero, "<0x4G>", 6);
    refused(qkv_read_llama2c, data, m.size, file, QKV_ERR_FORMAT,
            "token 68 is not the token of its byte");
    free(data);
    qkv_map_close(&m);
}

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    CHECK(f);
    fwrite(text, 1, strlen(text), f);
    CHECK_EQ(fclose(f), 0);
}

static void dir_refused(const char *dir, qkv_status status, const char *want)
{
    qkv_tokenizer *t = NULL;
    qkv_error err = { 0 };
    const qkv_status got = qkv_tokenizer_open(&t, dir, &err);
    if (got != status || !t != (got != QKV_OK) || !strstr(err.text, want))
        fail_msg("expected %d \"%s\", found %d \"%s\"", status, want, got, err.text);
    qkv_tokenizer_close(t);
}

// The same with one file of the folder replaced.
static void file_refused(const char *dir, const char *name, const char *text, qkv_status status,
                         const char *want)
{
    write_file(dir, name, text);
    dir_refused(dir, status, want);
}

TEST(broken_vocabularies_and_merges_are_refused_with_their_line)
{
    static const char *const names[] = { "vocab.txt", "vocab.json", "merges.txt",
                                         "tokenizer_config.json", "tokenizer.model" };
    char dir[256], path[512];
    snprintf(dir, sizeof dir, "%s/qkv_formats_XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    CHECK(mkdtemp(dir));
    file_refused(dir, "vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\na\n", QKV_ERR_FORMAT,
                 "line 5: duplicate token");
    file_refused(dir, "vocab.txt", "[UNK]\n[CLS]\na\n", QKV_ERR_FORMAT, "token [SEP] is missing");
    file_refused(dir, "vocab.txt", "[UNK]\n[CLS]\na\xff\n", QKV_ERR_FORMAT,
                 "token is not valid UTF-8");
    file_refused(dir, "vocab.txt", "[UNK]\r\n[CLS]\r\n[SEP]\r\na", QKV_OK, "");
    file_refused(dir, "tokenizer_config.json", "{\"do_lower_case\":3}", QKV_ERR_FORMAT, "");
    // transformers writes 10^30 for "no limit"
    file_refused(dir, "tokenizer_config.json",
                 "{\"model_max_length\":1000000000000000019884624838656,\"do_lower_case\":3}",
                 QKV_ERR_FORMAT, "value of the wrong type");
    write_file(dir, "tokenizer_config.json", "{\"tokenizer_class\":\"MBartTokenizer\"}");
    write_file(dir, "vocab.json", "{\"a\":0,\"b\":1,\"ab\":2}");
    file_refused(dir, "merges.txt", "#version: 0.2\na b\n", QKV_OK, "");
    file_refused(dir, "merges.txt", "a b\na b c\n", QKV_ERR_FORMAT, "malformed merge");
    file_refused(dir, "merges.txt", "a x\n", QKV_ERR_FORMAT, "result of a merge");
    file_refused(dir, "merges.txt", "b a\n", QKV_ERR_FORMAT, "result of a merge");
    file_refused(dir, "vocab.json", "{\"a\":0,\"a\":1}", QKV_ERR_FORMAT, "");
    const struct bytes b = small_model();
    snprintf(path, sizeof path, "%s/tokenizer.model", dir);
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(b.at, 1, b.n, f) == b.n && fclose(f) == 0);
    dir_refused(dir, QKV_ERR_UNSUPPORTED, "MBartTokenizer");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    CHECK_EQ(rmdir(dir), 0);
}

// ---- any bytes ---------------------------------------------------------------------------------
// Opens or is refused; an opened tokenizer encodes and decodes.
static void survives(reader_fn *read, const uint8_t *data, size_t size)
{
    static const char text[] = "hello <sep> x\xC3\xA9 \xEF\xAC\x81 1/2";
    qkv_tokenizer *t = NULL;
    qkv_encoding e = { 0 };
    qkv_error err = { 0 };
    size_t need;
    const qkv_status status = read(&t, data, size, "nowhere/m", &err);
    CHECK((status == QKV_OK) == (t != NULL) && err.status == status && status != QKV_ERR_INTERNAL);
    if (status) return;
    CHECK_EQ(qkv_tokenizer_encode(t, &e, text, sizeof text - 1, NULL, 0, NULL, NULL), QKV_OK);
    CHECK_EQ(qkv_tokenizer_decode(t, NULL, 0, &need, e.ids, e.count, false, NULL), QKV_OK);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
}

TEST(no_byte_of_a_file_does_harm)
{
    static const struct {
        const char *file;
        reader_fn *read;
    } files[] = { { FORMATS "unigram.model", qkv_read_spm },
                  { FORMATS "bpe.model", qkv_read_spm },
                  { FORMATS "llama2c/tokenizer.bin", qkv_read_llama2c },
                  { FORMATS "bert/vocab.txt", qkv_read_vocab_list } };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct qkv_map m = { 0 };
        CHECK_EQ(qkv_map_open(&m, files[i].file, true, NULL), QKV_OK);
        uint8_t *data = malloc(m.size); // of its exact size: a read past its end is detected
        const size_t stride = 1 + m.size / 150;
        for (size_t n = 0; n < m.size; n += stride) {
            uint8_t *part = malloc(n ? n : 1);
            memcpy(part, m.data, n);
            survives(files[i].read, part, n);
            free(part);
            memcpy(data, m.data, m.size);
            data[n] ^= (uint8_t)(n % 3 == 0 ? 0xFF : n % 3 == 1 ? 0x80 : 1);
            survives(files[i].read, data, m.size);
        }
        free(data);
        qkv_map_close(&m);
    }
}

CHECK_MAIN(CASE(each_format_answers_as_its_maker),
           CASE(unknown_pieces_are_decoded_as_by_sentencepiece),
           CASE(the_text_of_the_unknown_piece_is_not_a_token),
           CASE(a_broken_sentencepiece_model_is_refused_with_its_reason),
           CASE(a_broken_tokenizer_of_llama2c_is_refused_with_its_place),
           CASE(broken_vocabularies_and_merges_are_refused_with_their_line),
           CASE(no_byte_of_a_file_does_harm))
