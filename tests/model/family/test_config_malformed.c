// SPDX-License-Identifier: MIT
// test_config_malformed.c: checks status, location and message for each error in config.json; then
// that every truncation and every flipped bit of a small valid file loads or is refused.
#include "model/folder.h"
#include <errno.h>
#include <qkv/model.h>

#define TINY "tests/golden/bert"
static const char *const keys[][2] = {
    { "model_type", "\"bert\"" },        { "hidden_size", "35" },
    { "intermediate_size", "53" },       { "num_hidden_layers", "2" },
    { "num_attention_heads", "5" },      { "vocab_size", "40" },
    { "max_position_embeddings", "13" }, { "type_vocab_size", "2" },
    { "layer_norm_eps", "1e-12" },       { "hidden_act", "\"gelu_new\"" },
};
enum { KEYS = sizeof keys / sizeof keys[0] };

// Returns the valid config with `key` set to `value` (added if missing), or without it (NULL).
static char *config_with(const char *key, const char *value)
{
    static char text[1024];
    size_t at = 1;
    bool found = false;
    strcpy(text, "{");
    for (int i = 0; i < KEYS; i++) {
        const bool this = key && strcmp(keys[i][0], key) == 0;
        found = found || this;
        if (this && !value) continue;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s\"%s\": %s", at > 1 ? ", " : "",
                               keys[i][0], this ? value : keys[i][1]);
    }
    if (key && value && !found)
        at += (size_t)snprintf(text + at, sizeof text - at, ", \"%s\": %s", key, value);
    snprintf(text + at, sizeof text - at, "}");
    return text;
}

static qkv_status open_folder(qkv_error *err)
{
    qkv_model *m = NULL;
    memset(err, 0, sizeof *err);
    const qkv_status status = qkv_model_open(&m, folder_path, NULL, err);
    CHECK((status == QKV_OK) == (m != NULL));
    CHECK_EQ(err->status, status);
    qkv_model_close(m);
    return status;
}
static void fresh(void)
{
    folder_new();
    folder_link("model.safetensors", TINY "/model.safetensors");
}
static void check_refused(const char *what, qkv_status status, const char *path, const char *text)
{
    qkv_error err;
    const qkv_status s = open_folder(&err);
    if (s != status || strcmp(err.path, path) != 0 || strcmp(err.text, text) != 0)
        fail_msg("%s: %s at \"%s\": \"%s\", expected %s at \"%s\": \"%s\"", what,
                 qkv_status_name(s), err.path, err.text, qkv_status_name(status), path, text);
    CHECK(strstr(err.file, "config.json") != NULL);
}

TEST(the_valid_one_loads)
{
    qkv_error err;
    fresh();
    folder_text("config.json", config_with(NULL, NULL));
    CHECK_EQ(open_folder(&err), QKV_OK);
}

TEST(no_file_and_a_folder_are_io_errors) // C1
{
    char text[64];
    fresh();
    snprintf(text, sizeof text, "cannot open: %s", strerror(ENOENT));
    check_refused("missing", QKV_ERR_IO, "", text);
    CHECK(mkdir(folder_name("config.json"), 0700) == 0);
    qkv_error err;
    CHECK_EQ(open_folder(&err), QKV_ERR_IO);
}

TEST(what_is_no_json_object_is_refused_at_its_place) // C2 - C6
{
    static const struct {
        const char *text, *path, *says;
    } rows[] = {
        { "", "1:1", "not a JSON object, expected '{', found the end" },
        { "{\n \"model_type\": \"bert\",\n \"hidden_size\": 3", "3:18",
          "malformed JSON, expected ',' or '}', found the end" },
        { "[]", "1:1", "not a JSON object, expected '{', found '['" },
        { "\xef\xbb\xbf{}", "1:1", "not a JSON object, expected '{', found byte 0xef" },
        { "{\"hidden_size\": 1,\n\"hidden_size\": 2}", "2:1",
          "duplicate key in a JSON object, expected each key once, found \"hidden_size\"" },
        { "{\"layer_norm_eps\": NaN}", "1:20", "malformed JSON, expected a value, found 'N'" },
        { "{} {}", "1:4", "bytes after the JSON object, expected the end, found '{'" },
    };
    EACH(r, rows)
    {
        fresh();
        folder_text("config.json", r->text);
        check_refused(r->text, QKV_ERR_FORMAT, r->path, r->says);
    }
}

// The types of model.def, each after ", ".
#define QKV_MODEL(NAME, TYPE) ", " TYPE
static const char families[] =
#include "model/family/model.def"
    ;
#undef QKV_MODEL

// Copies a message; "{families}" in it becomes the list of all families.
static const char *with_families(char out[1024], const char *says)
{
    static const char mark[] = "{families}";
    const char *at = strstr(says, mark);
    const int before = at ? (int)(at - says) : (int)strlen(says);
    snprintf(out, 1024, "%.*s%s%s", before, says, at ? families + 2 : "",
             at ? at + sizeof mark - 1 : "");
    return out;
}

TEST(each_value_is_checked) // C7 - C15
{
#define ACTS                                                                                       \
    "gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, relu, silu, swish, tanh, linear, "              \
    "quick_gelu, relu2, relu6, mish, gelu_python"
    static const struct {
        const char *key, *value;
        qkv_status status;
        const char *says;
    } rows[] = {
        { "model_type", NULL, QKV_ERR_FORMAT,
          "required member is missing, expected one of {families}, found none" },
        { "model_type", "7", QKV_ERR_FORMAT,
          "value of the wrong type, expected a text, found an integer" },
        { "model_type", "\"mambo\"", QKV_ERR_UNSUPPORTED,
          "unsupported model family, expected one of {families}, found \"mambo\"" },
        { "hidden_size", NULL, QKV_ERR_FORMAT,
          "required member is missing, expected a value, found none" },
        { "hidden_size", "null", QKV_ERR_FORMAT,
          "required member is missing, expected a value, found none" },
        { "hidden_size", "-35", QKV_ERR_FORMAT,
          "number out of range, expected 1 .. 65536, found -35" },
        { "hidden_size", "0", QKV_ERR_FORMAT, "number out of range, expected 1 .. 65536, found 0" },
        { "hidden_size", "\"35\"", QKV_ERR_FORMAT,
          "value of the wrong type, expected an integer, found a text" },
        { "hidden_size", "35.0", QKV_ERR_FORMAT,
          "value of the wrong type, expected an integer, found a real number" },
        { "hidden_size", "true", QKV_ERR_FORMAT,
          "value of the wrong type, expected an integer, found true" },
        { "hidden_size", "[35]", QKV_ERR_FORMAT,
          "value of the wrong type, expected an integer, found an array" },
        { "num_hidden_layers", "0", QKV_ERR_FORMAT,
          "number out of range, expected 1 .. 1024, found 0" },
        { "num_attention_heads", "4", QKV_ERR_FORMAT,
          "number of heads does not divide the width, expected a divisor of 35, found 4" },
        { "num_attention_heads", "70", QKV_ERR_FORMAT,
          "number of heads does not divide the width, expected a divisor of 35, found 70" },
        { "num_hidden_layers", "1000000000", QKV_ERR_LIMIT,
          "number out of range, expected 1 .. 1024, found 1000000000" },
        { "vocab_size", "1099511627776", QKV_ERR_LIMIT,
          "number out of range, expected 1 .. 16777216, found 1099511627776" },
        { "max_position_embeddings", "4611686018427387904", QKV_ERR_LIMIT,
          "number out of range, expected 1 .. 16777216, found 4611686018427387904" },
        { "layer_norm_eps", "0", QKV_ERR_FORMAT,
          "number out of range, expected 1.17549e-38 .. 1, found 0" },
        { "layer_norm_eps", "-1e-5", QKV_ERR_FORMAT,
          "number out of range, expected 1.17549e-38 .. 1, found -1e-05" },
        { "layer_norm_eps", "1e-60", QKV_ERR_FORMAT,
          "number out of range, expected 1.17549e-38 .. 1, found 1e-60" },
        { "layer_norm_eps", "\"1e-5\"", QKV_ERR_FORMAT,
          "value of the wrong type, expected a number, found a text" },
        { "hidden_dropout_prob", "1.5", QKV_ERR_FORMAT,
          "number out of range, expected 0 .. 1, found 1.5" },
        { "attention_probs_dropout_prob", "-0.1", QKV_ERR_FORMAT,
          "number out of range, expected 0 .. 1, found -0.1" },
        { "rope_theta", "0", QKV_ERR_FORMAT,
          "number out of range, expected 2.22507e-308 .. 1.79769e+308, found 0" },
        { "rope_theta", "-10000.0", QKV_ERR_FORMAT,
          "number out of range, expected 2.22507e-308 .. 1.79769e+308, found -10000" },
        { "hidden_act", "\"gelu_squared\"", QKV_ERR_UNSUPPORTED,
          "unknown value, expected one of " ACTS ", found \"gelu_squared\"" },
        { "hidden_act", "3", QKV_ERR_FORMAT,
          "value of the wrong type, expected a text, found an integer" },
        { "position_embedding_type", "\"relative_key\"", QKV_ERR_UNSUPPORTED,
          "unknown value, expected one of absolute, found \"relative_key\"" },
        { "is_decoder", "true", QKV_ERR_UNSUPPORTED,
          "decoders of this family are not supported, expected false, found true" },
        { "is_decoder", "1", QKV_ERR_FORMAT,
          "value of the wrong type, expected true or false, found an integer" },
        { "pad_token_id", "40", QKV_ERR_FORMAT,
          "token id out of range, expected an id below the vocabulary size 40, found 40" },
    };
    EACH(r, rows)
    {
        char path[64], says[1024];
        fresh();
        folder_text("config.json", config_with(r->key, r->value));
        snprintf(path, sizeof path, "$.%s", r->key);
        check_refused(r->key, r->status, path, with_families(says, r->says));
    }
}

TEST(a_name_of_another_family_is_told_the_family_that_reads_it)
{
    static const struct {
        const char *type, *family, *when;
    } rows[] = {
#define QKV_ALIAS(type, family, when) { type, family, when },
#include "model/family/alias.def"
#undef QKV_ALIAS
    };
    EACH(r, rows)
    {
        char value[64], says[1024], all[1024];
        snprintf(value, sizeof value, ", %s,", r->type);
        snprintf(all, sizeof all, "%s,", families);
        CHECK(!strstr(all, value)); // a family that is read needs no alias
        snprintf(value, sizeof value, ", %s,", r->family);
        CHECK(strstr(all, value));
        fresh();
        snprintf(value, sizeof value, "\"%s\"", r->type);
        folder_text("config.json", config_with("model_type", value));
        snprintf(says, sizeof says,
                 "unsupported model family, expected one of %s, found \"%s\"; it is read with "
                 "model_type \"%s\"%s%s",
                 families + 2, r->type, r->family, r->when[0] ? " if " : "", r->when);
        check_refused(r->type, QKV_ERR_UNSUPPORTED, "$.model_type", says);
    }
}

TEST(a_refusal_names_the_missing_part)
{
    static const struct {
        const char *type, *is, *needs;
    } rows[] = {
#define QKV_UNREAD(type, is, needs) { type, is, needs },
#include "model/family/unread.def"
#undef QKV_UNREAD
#define QKV_ALIAS(type, family, when) { type, NULL, NULL },
#include "model/family/alias.def"
#undef QKV_ALIAS
    };
    EACH(r, rows)
    {
        char value[64], says[1024], all[1024];
        snprintf(value, sizeof value, ", %s,", r->type);
        snprintf(all, sizeof all, "%s,", families);
        CHECK(!strstr(all, value)); // a family that is read is refused by no name
        for (int64_t i = 0; i < (int64_t)(sizeof rows / sizeof rows[0]); i++)
            CHECK(&rows[i] == r || strcmp(rows[i].type, r->type) != 0);
        if (!r->is) continue;
        fresh();
        snprintf(value, sizeof value, "\"%s\"", r->type);
        folder_text("config.json", config_with("model_type", value));
        snprintf(says, sizeof says,
                 "unsupported model family, expected one of %s, found \"%s\"; it is %s %s that "
                 "needs %s",
                 families + 2, r->type, strchr("aeiou", r->is[0]) ? "an" : "a", r->is, r->needs);
        check_refused(r->type, QKV_ERR_UNSUPPORTED, "$.model_type", says);
    }
}

TEST(a_value_too_large_for_a_number_is_refused) // C14, C16
{
    static const char *const values[] = { "1e999", "-1e999", "99999999999999999999" };
    EACH(v, values)
    {
        qkv_error err;
        fresh();
        folder_text("config.json", config_with("layer_norm_eps", *v));
        CHECK_EQ(open_folder(&err), QKV_ERR_FORMAT);
        CHECK_TEXT(err.path, "1:207");
        CHECK(strstr(err.text, "number too large") != NULL);
    }
}

TEST(key_heads_divide_the_heads) // C12, in the family that has them
{
    fresh();
    folder_text("config.json",
                "{\"model_type\": \"qkv-encoder\", \"hidden_size\": 24, \"intermediate_size\": 36,"
                "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"vocab_size\": 40,"
                "\"max_position_embeddings\": 16, \"num_key_value_heads\": 3}");
    check_refused("3 of 4", QKV_ERR_FORMAT, "$.num_key_value_heads",
                  "number of key/value heads does not divide the number of heads, expected a "
                  "divisor of 4, found 3");
}

TEST(roberta_needs_positions_behind_the_padding_token)
{
    fresh();
    folder_text("config.json",
                "{\"model_type\": \"roberta\", \"hidden_size\": 35, \"intermediate_size\": 53,"
                "\"num_hidden_layers\": 2, \"num_attention_heads\": 5, \"vocab_size\": 40,"
                "\"max_position_embeddings\": 2, \"pad_token_id\": 1}");
    check_refused("2 of 2", QKV_ERR_FORMAT, "$.max_position_embeddings",
                  "too few positions, expected more than pad_token_id + 1 = 2, found 2");
}

TEST(depth_digits_and_size_are_bounded) // C16
{
    enum { DEEP = 100000, DIGITS = 1000000, LARGE = 50000000 };
    char *text = malloc(LARGE + 64);
    qkv_error err;
    CHECK(text != NULL);
    fresh();
    size_t at = (size_t)sprintf(text, "{\"a\": ");
    memset(text + at, '[', DEEP);
    folder_write("config.json", text, at + DEEP);
    check_refused("deep", QKV_ERR_FORMAT, "1:70",
                  "JSON nested too deep, expected at most 64 levels, found '['");
    memset(text + at, '9', DIGITS);
    strcpy(text + at + DIGITS, "}");
    folder_write("config.json", text, at + DIGITS + 1);
    CHECK_EQ(open_folder(&err), QKV_ERR_FORMAT);
    CHECK_TEXT(err.path, "1:7");
    text[at] = '"';
    memset(text + at + 1, 'a', LARGE - at - 3);
    strcpy(text + LARGE - 2, "\"}");
    folder_write("config.json", text, LARGE);
    check_refused("large", QKV_ERR_LIMIT, "",
                  "file too large, expected at most 16777216 bytes, found 50000000");
    free(text);
}

// Runs a config that still loads: no changed number may cause access outside of an array.
static void load_and_run(int64_t *loaded)
{
    qkv_model *m = NULL;
    qkv_error err = { 0 };
    const qkv_status status = qkv_model_open(&m, folder_path, NULL, &err);
    if (status) {
        CHECK(status != QKV_ERR_INTERNAL && err.status == status && err.text[0]);
        return;
    }
    static const int32_t ids[3] = { 2, 7, 3 };
    static const int64_t offsets[2] = { 0, 3 };
    float *hidden = malloc(3 * (size_t)qkv_model_info(m).width * sizeof *hidden);
    CHECK(hidden != NULL);
    CHECK_EQ(
        qkv_model_run(m, hidden,
                      &(struct qkv_model_input){ .sequences = 1, .offsets = offsets, .ids = ids },
                      NULL, &err),
        QKV_OK);
    ++*loaded;
    free(hidden);
    qkv_model_close(m);
}

TEST(every_truncation_and_every_flipped_bit_loads_or_is_refused)
{
    fresh();
    CHECK_EQ(qkv_threads_set(1), QKV_OK); // one thread, for thousands of tiny runs
    const char *valid = config_with(NULL, NULL);
    const size_t n = strlen(valid);
    int64_t loaded = 0;
    for (size_t i = 0; i < n; i++) {
        folder_write("config.json", valid, i);
        load_and_run(&loaded);
    }
    CHECK_EQ(loaded, 0); // even the last closing brace is required
    char changed[1024];
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(changed, valid, n);
            changed[i] = (char)(changed[i] ^ 1 << bit);
            folder_write("config.json", changed, n);
            load_and_run(&loaded);
        }
    CHECK(loaded > 0); // for example, another exponent of epsilon
}

CHECK_MAIN(CASE(the_valid_one_loads), CASE(no_file_and_a_folder_are_io_errors),
           CASE(what_is_no_json_object_is_refused_at_its_place), CASE(each_value_is_checked),
           CASE(a_name_of_another_family_is_told_the_family_that_reads_it),
           CASE(a_refusal_names_the_missing_part), CASE(a_value_too_large_for_a_number_is_refused),
           CASE(key_heads_divide_the_heads), CASE(roberta_needs_positions_behind_the_padding_token),
           CASE(depth_digits_and_size_are_bounded),
           CASE(every_truncation_and_every_flipped_bit_loads_or_is_refused))
