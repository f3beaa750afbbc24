// SPDX-License-Identifier: MIT
// test_data_malformed.c: checks that unusable texts, changed datasets, and failing memory and disks
// give a clear error and leave no files.
#include "base/base_internal.h"
#include "base/faults.h"
#include "task/data/data_case.h"

static struct qkv_data_options options(enum qkv_objective objective, const char *name)
{
    return (struct qkv_data_options){
        .objective = objective, .train = case_source(name), .context = 8, .seed = 1
    };
}

TEST(too_little_text_is_named)
{
    static const struct {
        const char *text;
        enum qkv_objective objective;
        const char *says;
    } rows[] = {
        { "", QKV_OBJECTIVE_CAUSAL, "no text to train on" },
        { " \n\t\n \n", QKV_OBJECTIVE_CAUSAL, "no text to train on" },
        { "\xEF\xBB\xBF", QKV_OBJECTIVE_CAUSAL, "no text to train on" },
        { "a", QKV_OBJECTIVE_CAUSAL, "too little text" }, // one token, no newline
        { "ab\n\ncd\n", QKV_OBJECTIVE_CAUSAL, "shorter than the context" },
        { "ab\n\ncd\n", QKV_OBJECTIVE_MASKED, "shorter than the context" },
        { "abcdefghij abcdefghij", QKV_OBJECTIVE_MASKED, "" },
        { "", QKV_OBJECTIVE_SEQ2SEQ, "no text to train on" },
        { "a\tb\n", QKV_OBJECTIVE_SEQ2SEQ, "no example is left for validation" },
        { "abcdefghijklm\tb\nabcdefghijklm\tb\n", QKV_OBJECTIVE_SEQ2SEQ, "too little text" },
        { "a\tx\nb\tx\nc\tx\n", QKV_OBJECTIVE_CLASSIFY, "too few labels, expected at least two" },
    };
    EACH(r, rows)
    {
        folder_new();
        folder_text("t.tsv", r->text);
        folder_text("t.txt", r->text);
        const struct qkv_data_options o =
            options(r->objective, r->objective >= QKV_OBJECTIVE_SEQ2SEQ ? "t.tsv" : "t.txt");
        if (!r->says[0]) { // a single document is enough: its end is used for validation
            qkv_data_close(case_data(&o, true));
            continue;
        }
        const qkv_error err = case_refused(&o);
        CHECK_EQ(err.status, QKV_ERR_FORMAT);
        if (!strstr(err.text, r->says)) fail_msg("\"%s\" does not say %s", err.text, r->says);
    }
}

TEST(a_bad_line_is_named_by_its_number)
{
    static const struct {
        const char *name, *text;
        enum qkv_objective objective;
        const char *at, *says;
    } rows[] = {
        { "t.tsv", "a\tb\nc\td\nno tab here\n", QKV_OBJECTIVE_SEQ2SEQ, "line 3",
          "line has no tab" },
        { "t.tsv", "\n\na\t \n", QKV_OBJECTIVE_SEQ2SEQ, "line 3",
          "second column of this line is empty" },
        { "t.jsonl", "{\"text\": \"a\"}\n\n{\"text\": \"b\"", QKV_OBJECTIVE_CAUSAL, "line 3", "" },
        { "t.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"b\"}", QKV_OBJECTIVE_CAUSAL, "line 2",
          "\"text\"" },
        { "t.jsonl", "{\"text\": 5}\n", QKV_OBJECTIVE_CAUSAL, "line 1", "another type" },
        { "t.jsonl", "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": 1.5}\n",
          QKV_OBJECTIVE_CLASSIFY, "line 2", "another type" },
        { "t.jsonl", "{\"text\": \"a\", \"label\": \"x\\ny\"}\n", QKV_OBJECTIVE_CLASSIFY, "line 1",
          "label" },
    };
    EACH(r, rows)
    {
        folder_new();
        folder_text(r->name, r->text);
        struct qkv_data_options o = options(r->objective, r->name);
        o.valid = case_source(r->name);
        const qkv_error err = case_refused(&o);
        CHECK_EQ(err.status, QKV_ERR_FORMAT);
        if (!strstr(err.path, r->at)) fail_msg("\"%s\" is not %s", err.path, r->at);
        if (!strstr(err.text, r->says)) fail_msg("\"%s\" does not say %s", err.text, r->says);
        CHECK(strstr(err.file, r->name) != NULL);
    }
}

TEST(a_line_that_is_an_example_has_a_limit)
{
    static const struct {
        const char *name;
        enum qkv_objective objective;
    } rows[] = { { "t.txt", QKV_OBJECTIVE_CAUSAL },
                 { "t.tsv", QKV_OBJECTIVE_SEQ2SEQ },
                 { "t.jsonl", QKV_OBJECTIVE_CAUSAL } };
    EACH(r, rows)
    {
        folder_new();
        folder_text(r->name, "\n");
        CHECK(truncate(folder_name(r->name), (off_t)QKV_LINE_BYTES + 2) == 0); // a line of NULs
        struct qkv_data_options o = options(r->objective, r->name);
        o.train.per_line = true;
        const qkv_error err = case_refused(&o);
        CHECK_EQ(err.status, QKV_ERR_LIMIT);
        CHECK_TEXT(err.path, "line 2");
        CHECK_TEXT(err.text, "line too long, expected at most 134217728 bytes, found 134217729");
    }
}

TEST(a_label_that_only_validation_has_is_named)
{
    folder_new();
    folder_text("t.tsv", "a\tx\nb\ty\n");
    folder_text("v.tsv", "a\tx\nb\tnew\n");
    struct qkv_data_options o = options(QKV_OBJECTIVE_CLASSIFY, "t.tsv");
    o.valid = case_source("v.tsv");
    const qkv_error err = case_refused(&o);
    CHECK_EQ(err.status, QKV_ERR_FORMAT);
    CHECK(strstr(err.text, "\"new\"") != NULL);
    CHECK_TEXT(err.path, "line 2");
}

TEST(wrong_options_are_the_callers_mistake)
{
    folder_new();
    folder_text("t.txt", "ab cd ef gh ij kl mn op\n\nab cd\n");
    struct qkv_data_options o = options(QKV_OBJECTIVE_SEQ2SEQ, "t.txt");
    CHECK_EQ(case_refused(&o).status, QKV_ERR_USAGE); // plain text has no second part
    o = options(QKV_OBJECTIVE_CAUSAL, "t.txt");
    o.context = 1;
    CHECK_EQ(case_refused(&o).status, QKV_ERR_USAGE);
    o.context = 2; // no space is left after the template's tokens
    CHECK_EQ(case_refused(&o).status, QKV_ERR_USAGE);
    o = options(QKV_OBJECTIVE_CAUSAL, "t.txt");
    o.train.format = "csv";
    CHECK_EQ(case_refused(&o).status, QKV_ERR_USAGE);
    o = options(QKV_OBJECTIVE_SEQ2SEQ, "t.txt");
    o.train.format = "tsv";
    o.train.field = "0";
    CHECK_EQ(case_refused(&o).status, QKV_ERR_USAGE);
    o = options(QKV_OBJECTIVE_CAUSAL, "missing.txt");
    CHECK_EQ(case_refused(&o).status, QKV_ERR_IO);
}

TEST(invalid_utf8_is_counted_or_refused)
{
    folder_new();
    folder_text("t.txt", "ab cd ef gh\n\nij \xC0\xAF kl mn op qr st\n\nxy\n");
    struct qkv_data_options o = options(QKV_OBJECTIVE_CAUSAL, "t.txt");
    qkv_data *d = case_data(&o, true);
    CHECK(qkv_data_info(d).replaced > 0);
    qkv_data_close(d);
    o.strict = true;
    const qkv_error err = case_refused(&o);
    CHECK_EQ(err.status, QKV_ERR_FORMAT);
    CHECK_TEXT(err.path, "line 3");
}

TEST(folders_are_read_in_the_order_of_names)
{
    folder_new();
    CHECK(mkdir(folder_name("in"), 0700) == 0);
    CHECK(mkdir(folder_name("in/b"), 0700) == 0);
    folder_text("in/c.txt", "third here");
    folder_text("in/a.txt", "first here");
    folder_text("in/.hidden", "never");
    folder_text("in/b/x.txt", "second here");
    CHECK(symlink("..", folder_name("in/b/loop")) == 0);
    qkv_corpus *c = NULL;
    qkv_error err = { 0 };
    const struct qkv_text_source s = case_source("in");
    CHECK_EQ(qkv_corpus_open(&c, &s, QKV_OBJECTIVE_CAUSAL, &err), QKV_OK);
    struct qkv_corpus_cursor at = { .corpus = c };
    struct qkv_example e;
    bool more;
    static const char *const wanted[] = { "first here", "second here", "third here" };
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(qkv_corpus_next(&at, &e, &more, &err), QKV_OK);
        CHECK(more && e.bytes == strlen(wanted[i]) && !memcmp(e.text, wanted[i], e.bytes));
    }
    CHECK_EQ(qkv_corpus_next(&at, &e, &more, &err), QKV_OK);
    CHECK(!more);
    qkv_corpus_cursor_free(&at);
    qkv_corpus_close(c);
}

// ---- datasets that were changed ----------------------------------------------------------------
static void made(void)
{
    folder_new();
    folder_text("t.tsv", "ab\tx\ncd\ty\nef\tx\ngh\ty\nij\tx\nkl\ty\n");
    const struct qkv_data_options o = options(QKV_OBJECTIVE_CLASSIFY, "t.tsv");
    qkv_data_close(case_data(&o, true));
}

TEST(a_changed_byte_of_any_file_is_noticed)
{
    static const char *const names[] = { "train.tokens", "train.offsets", "train.labels",
                                         "valid.tokens", "valid.offsets", "valid.labels",
                                         "labels.txt" };
    EACH(name, names)
    {
        for (int how = 0; how < 3; how++) { // a bit changed, a byte removed, a byte added
            char path[64];
            size_t bytes;
            made();
            snprintf(path, sizeof path, "data/%s", *name);
            char *data = folder_load(folder_name(path), &bytes);
            data[bytes / 2] ^= (char)(how == 0);
            folder_write(path, data, bytes - (how == 1) + (how == 2));
            free(data);
            qkv_data *d = NULL;
            qkv_error err = { 0 };
            CHECK_EQ(qkv_data_open(&d, case_dir("data"), &err), QKV_ERR_FORMAT);
            CHECK(d == NULL && strstr(err.file, *name) != NULL);
            CHECK(strstr(err.text, "changed") != NULL);
        }
    }
}

// Flips each bit of the index: never a crash, and never another dataset.
TEST(any_bit_of_the_index_may_flip)
{
    made();
    size_t bytes;
    char *index = folder_load(folder_name("data/index.json"), &bytes);
    qkv_data *d = NULL;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_data_open(&d, case_dir("data"), &err), QKV_OK);
    const struct qkv_data_info was = qkv_data_info(d);
    qkv_data_close(d);
    for (size_t i = 0; i < bytes; i++)
        for (int bit = 0; bit < 8; bit += 3) {
            index[i] ^= (char)(1 << bit);
            folder_write("data/index.json", index, bytes);
            err = (qkv_error){ 0 };
            if (qkv_data_open(&d, case_dir("data"), &err) == QKV_OK) {
                const struct qkv_data_info is = qkv_data_info(d);
                CHECK_EQ(is.sequences[0], was.sequences[0]);
                CHECK_EQ(is.sequences[1], was.sequences[1]);
                CHECK_EQ(is.objective, was.objective);
                CHECK_TEXT(is.hash, was.hash);
                qkv_data_close(d);
            } else {
                CHECK(err.status != QKV_OK && err.text[0]);
            }
            index[i] ^= (char)(1 << bit);
        }
    free(index);
}

TEST(places_outside_of_the_tokens_are_refused_whatever_the_index_says_of_the_file)
{
    static const int64_t places[] = { INT64_MIN, -1, INT64_MAX, (int64_t)1 << 40, 0 };
    EACH(place, places)
    {
        size_t bytes, offset_bytes;
        char was[QKV_SHA256_TEXT], is[QKV_SHA256_TEXT], *at;
        made();
        char *index = folder_load(folder_name("data/index.json"), &bytes);
        char *offsets = folder_load(folder_name("data/train.offsets"), &offset_bytes);
        // the second one has a neighbor before and after it
        CHECK(offset_bytes >= 3 * sizeof *place);
        qkv_sha256(was, offsets, offset_bytes);
        memcpy(offsets + sizeof *place, place, sizeof *place);
        qkv_sha256(is, offsets, offset_bytes);
        CHECK((at = strstr(index, was)) != NULL);
        memcpy(at, is, strlen(is));
        folder_write("data/index.json", index, bytes);
        folder_write("data/train.offsets", offsets, offset_bytes);
        free(index);
        free(offsets);
        qkv_data *d = NULL;
        qkv_error err = { 0 };
        CHECK_EQ(qkv_data_open(&d, case_dir("data"), &err), QKV_ERR_FORMAT);
        CHECK(strstr(err.text, "offsets of sequences") != NULL);
    }
}

TEST(a_newer_format_is_left_alone)
{
    made();
    size_t bytes;
    char *index = folder_load(folder_name("data/index.json"), &bytes), *at;
    CHECK((at = strstr(index, "\"version\": 1")) != NULL);
    at[strlen("\"version\": ")] = '9';
    folder_write("data/index.json", index, bytes);
    free(index);
    qkv_data *d = NULL;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_data_open(&d, case_dir("data"), &err), QKV_ERR_UNSUPPORTED);
}

TEST(a_dataset_that_is_there_is_not_replaced)
{
    made();
    qkv_error err = { 0 };
    qkv_tokenizer *t = case_tokenizer(true);
    const struct qkv_data_options o = options(QKV_OBJECTIVE_CLASSIFY, "t.tsv");
    CHECK_EQ(qkv_data_make(case_dir("data"), &o, t, NULL, &err), QKV_ERR_USAGE);
    qkv_tokenizer_close(t);
    qkv_data *d = NULL;
    err = (qkv_error){ 0 };
    CHECK_EQ(qkv_data_open(&d, case_dir("data"), &err), QKV_OK);
    qkv_data_close(d);
}

// ---- failing memory and disks ------------------------------------------------------------------
struct flow {
    const qkv_tokenizer *tokenizer;
    struct qkv_data_options options;
};

static qkv_status make_and_draw(void *ctx, qkv_error *err)
{
    struct flow *f = ctx;
    const char *dir = case_dir("data");
    qkv_data *d = NULL;
    struct qkv_drawn b = { 0 };
    folder_clear(dir);
    rmdir(dir);
    qkv_status status = qkv_data_make(dir, &f->options, f->tokenizer, NULL, err);
    if (status) { // no files are left
        CHECK(access(dir, F_OK) != 0);
        return status;
    }
    status = qkv_data_open(&d, dir, err);
    const struct qkv_draw how = {
        .tokens = 64, .seed = 1, .mask = CASE_MASK, .vocab = CASE_VOCAB, .bos = 0, .eos = 3
    };
    if (!status) status = qkv_data_draw(d, &b, 0, &how, err);
    if (!status) status = qkv_data_valid(d, &b, 0, &how, err);
    qkv_drawn_free(&b);
    qkv_data_close(d);
    return status;
}

TEST(failed_allocations_are_survived)
{
    static const enum qkv_objective objectives[] = { QKV_OBJECTIVE_CAUSAL, QKV_OBJECTIVE_SEQ2SEQ,
                                                     QKV_OBJECTIVE_CLASSIFY };
    qkv_tokenizer *t = case_tokenizer(true);
    const int before = qkv_threads();
    CHECK_EQ(qkv_threads_set(1), QKV_OK);
    EACH(objective, objectives)
    {
        folder_new();
        folder_text("t.tsv", "ab cd ef gh\tx\nab cd ef\ty\nab\tx\n");
        folder_text("t.jsonl", "{\"text\": \"ab cd ef gh ij kl\"}\n{\"text\": \"mn op qr st\"}\n");
        struct flow f = { t, options(*objective, *objective ? "t.tsv" : "t.jsonl") };
        // A tokenizer can do without its cache.
        CHECK(faults_walk(make_and_draw, &f, false) > 20);
    }
    CHECK_EQ(qkv_threads_set(before), QKV_OK);
    qkv_tokenizer_close(t);
}

static int disk_calls, disk_fails;
static int disk_full(void *ctx, struct qkv_disk_call *call)
{
    (void)ctx;
    (void)call;
    return ++disk_calls == disk_fails ? 28 /* ENOSPC */ : 0;
}

TEST(a_full_disk_leaves_nothing)
{
    qkv_tokenizer *t = case_tokenizer(true);
    folder_new();
    folder_text("t.txt", "ab cd ef gh ij kl\n\nmn op qr st\n\nuv\n");
    const struct qkv_data_options o = options(QKV_OBJECTIVE_CAUSAL, "t.txt");
    const char *dir = case_dir("data");
    int failed = 0;
    for (disk_fails = 1; disk_fails < 100; disk_fails++) {
        qkv_error err = { 0 };
        qkv_data *d = NULL;
        disk_calls = 0;
        folder_clear(dir);
        rmdir(dir);
        qkv_disk_hook(disk_full, NULL);
        const qkv_status status = qkv_data_make(dir, &o, t, NULL, &err);
        qkv_disk_hook(NULL, NULL);
        if (disk_calls < disk_fails) break; // there was no call left to fail
        failed += status != QKV_OK;
        if (status) CHECK_EQ(status, QKV_ERR_IO);
        err = (qkv_error){ 0 };
        // complete, or it does not exist
        CHECK_EQ(qkv_data_open(&d, dir, &err) == QKV_OK, status == QKV_OK);
        qkv_data_close(d);
    }
    CHECK(failed > 10 && disk_fails < 100);
    qkv_tokenizer_close(t);
}

static int stop(void *user, const char *what, int64_t done, int64_t total)
{
    (void)user;
    CHECK_TEXT(what, "tokenise");
    CHECK(done > 0 && done <= total);
    return 1;
}

TEST(who_interrupts_leaves_nothing)
{
    folder_new();
    folder_text("t.txt", "ab cd ef gh ij kl\n\nmn op qr st\n\nuv\n");
    struct qkv_data_options o = options(QKV_OBJECTIVE_CAUSAL, "t.txt");
    o.progress.step = stop;
    CHECK_EQ(case_refused(&o).status, QKV_ERR_INTERRUPTED);
}

CHECK_MAIN(CASE(too_little_text_is_named), CASE(a_bad_line_is_named_by_its_number),
           CASE(a_line_that_is_an_example_has_a_limit),
           CASE(a_label_that_only_validation_has_is_named),
           CASE(wrong_options_are_the_callers_mistake), CASE(invalid_utf8_is_counted_or_refused),
           CASE(folders_are_read_in_the_order_of_names),
           CASE(a_changed_byte_of_any_file_is_noticed), CASE(any_bit_of_the_index_may_flip),
           CASE(places_outside_of_the_tokens_are_refused_whatever_the_index_says_of_the_file),
           CASE(a_newer_format_is_left_alone), CASE(a_dataset_that_is_there_is_not_replaced),
           CASE(failed_allocations_are_survived), CASE(a_full_disk_leaves_nothing),
           CASE(who_interrupts_leaves_nothing))
