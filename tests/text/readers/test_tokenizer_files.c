// SPDX-License-Identifier: MIT
// test_tokenizer_files.c: checks the files for which a folder is searched, and the names under
// which a copy of a tokenizer file is found.
#include "model/folder.h"
#include "text/text.h"
#include <limits.h>

#define FORMATS "tests/golden/text/formats/"

// Returns a file of the format that a tokenizer file of this name has.
static const char *sample(const char *name)
{
    static const struct {
        const char *name, *file;
    } rows[] = { { "tokenizer.json", "tests/golden/bert/tokenizer.json" },
                 { "source.spm", FORMATS "marian/source.spm" },
                 { "vocab.json", FORMATS "gpt2/vocab.json" },
                 { "merges.txt", FORMATS "gpt2/merges.txt" },
                 { "vocab.txt", FORMATS "bert/vocab.txt" },
                 { "tokenizer.bin", FORMATS "llama2c/tokenizer.bin" } };
    EACH(r, rows)
    if (!strcmp(r->name, name)) return r->file;
    CHECK(strstr(name, ".model"));
    return FORMATS "unigram.model";
}

// Copies a file of the source tree to `name` in the folder of the test.
static void copy(const char *file, const char *name)
{
    struct qkv_map m = { 0 };
    CHECK_EQ(qkv_map_open(&m, file, true, NULL), QKV_OK);
    folder_write(name, m.data, m.size);
    qkv_map_close(&m);
}

// Fails unless both paths are the same tokenizer: kind, tokens, and ids of a text.
static void compare(const char *a, const char *b)
{
    static const char text[] = "a word or two, 1999";
    const char *const path[] = { a, b };
    qkv_tokenizer *t[2] = { NULL };
    qkv_encoding e[2] = { { 0 } };
    qkv_error err = { 0 };
    for (int i = 0; i < 2; i++) {
        if (qkv_tokenizer_open(&t[i], path[i], &err)) fail_msg("%s: %s", path[i], err.text);
        CHECK_EQ(qkv_tokenizer_encode(t[i], &e[i], text, sizeof text - 1, NULL, 0, NULL, NULL),
                 QKV_OK);
    }
    CHECK_TEXT(qkv_tokenizer_kind(t[0]), qkv_tokenizer_kind(t[1]));
    CHECK_EQ(qkv_tokenizer_size(t[0]), qkv_tokenizer_size(t[1]));
    CHECK_EQ(e[0].count, e[1].count);
    CHECK(!memcmp(e[0].ids, e[1].ids, (size_t)e[0].count * sizeof *e[0].ids));
    for (int i = 0; i < 2; i++) {
        qkv_encoding_free(&e[i]);
        qkv_tokenizer_close(t[i]);
    }
}

TEST(each_file_of_the_list_is_a_tokenizer_of_its_folder)
{
    const char *name, *second = "";
    int n = 0;
    for (; (name = qkv_tokenizer_file(n, &second)) != NULL; n++) {
        char file[1024];
        CHECK_TEXT(qkv_tokenizer_file(n, NULL), name);
        folder_new();
        copy(sample(name), name);
        if (second) {
            const char *vocab = !strcmp(name, "source.spm") ? FORMATS "marian/vocab.json" : NULL;
            copy(vocab ? vocab : sample(second), second);
        }
        snprintf(file, sizeof file, "%s", folder_name(name));
        compare(folder_path, file);
        compare(folder_path, sample(name));
    }
    CHECK(n >= 9 && !second);
    second = "";
    CHECK(!qkv_tokenizer_file(-1, &second) && !second);
    CHECK(!qkv_tokenizer_file(INT_MAX, NULL) && !qkv_tokenizer_file(INT_MIN, NULL));
}

TEST(the_first_file_of_the_list_that_a_folder_contains_is_its_tokenizer)
{
    const char *name, *second;
    folder_new();
    for (int n = 0; (name = qkv_tokenizer_file(n, &second)) != NULL; n++) {
        copy(sample(name), name);
        if (second && strcmp(name, "source.spm") != 0) copy(sample(second), second);
    }
    for (int n = 0; (name = qkv_tokenizer_file(n, NULL)) != NULL; n++) {
        char file[1024], buffer[QKV_PATH];
        const char *found = NULL;
        snprintf(file, sizeof file, "%s", folder_name(name));
        CHECK_EQ(qkv_tokenizer_locate(&found, buffer, folder_path, NULL), QKV_OK);
        CHECK_TEXT(found, file);
        CHECK_EQ(unlink(file), 0);
    }
}

// A folder with a copy of this name is the same tokenizer as the file.
TEST(a_copy_has_the_name_for_which_folders_are_searched)
{
    static const struct {
        const char *file, *name;
    } rows[] = { { "tests/golden/bert/tokenizer.json", "tokenizer.json" },
                 { FORMATS "unigram.model", "tokenizer.model" },
                 { FORMATS "marian/source.spm", "source.spm" },
                 { FORMATS "marian/target.spm", "source.spm" },
                 { FORMATS "gpt2/vocab.json", "vocab.json" },
                 { FORMATS "bert/vocab.txt", "vocab.txt" },
                 { FORMATS "llama2c/tokenizer.bin", "tokenizer.bin" } },
      names[] = { { "spm.model", "spm.model" },
                  { "nowhere/spiece.model", "spiece.model" },
                  { "source.spm", "source.spm" },
                  { "other.spm", "tokenizer.model" },
                  { "words.txt", "vocab.txt" },
                  { "tok512.bin", "tokenizer.bin" },
                  { "nowhere/vocab.json", "tokenizer.json" },
                  { "other.json", "tokenizer.json" },
                  { "tokenizer", "tokenizer.json" } };
    EACH(r, rows)
    {
        const char *name = qkv_tokenizer_name_of_copy(r->file);
        CHECK_TEXT(name, r->name);
        folder_new();
        copy(r->file, name);
        if (strstr(r->file, "marian")) copy(FORMATS "marian/vocab.json", "vocab.json");
        if (strstr(r->file, "gpt2")) copy(sample("merges.txt"), "merges.txt");
        compare(folder_path, r->file);
    }
    EACH(r, names) CHECK_TEXT(qkv_tokenizer_name_of_copy(r->file), r->name);
}

TEST(the_tokenizer_of_a_checkpoint_is_in_its_folder)
{
    char file[1024], buffer[QKV_PATH];
    const char *found = NULL;
    folder_new();
    folder_text("stories.bin", "");
    copy(sample("tokenizer.bin"), "tokenizer.bin");
    snprintf(file, sizeof file, "%s", folder_name("stories.bin"));
    CHECK_EQ(qkv_tokenizer_locate(&found, buffer, file, NULL), QKV_OK);
    CHECK_TEXT(found, folder_name("tokenizer.bin"));
    compare(file, folder_path);
    CHECK_EQ(qkv_tokenizer_locate(&found, buffer, "nowhere/a.bin", NULL), QKV_OK);
    CHECK_TEXT(found, "nowhere/a.bin");
}

CHECK_MAIN(CASE(each_file_of_the_list_is_a_tokenizer_of_its_folder),
           CASE(the_first_file_of_the_list_that_a_folder_contains_is_its_tokenizer),
           CASE(a_copy_has_the_name_for_which_folders_are_searched),
           CASE(the_tokenizer_of_a_checkpoint_is_in_its_folder))
