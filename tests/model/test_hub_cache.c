// SPDX-License-Identifier: MIT
// test_hub_cache.c: checks names of models, where the cache is, and which snapshot a name means.
#include "model/folder.h"
#include <qkv/hub.h>
#include <qkv/model.h>

static const char commit[] = "0123456789abcdef0123456789abcdef01234567";
static const char other[] = "89abcdef0123456789abcdef0123456789abcdef";

static void fresh(void)
{
    folder_new();
    unsetenv("HF_HUB_CACHE");
    unsetenv("HUGGINGFACE_HUB_CACHE");
    unsetenv("HF_HOME");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", folder_path, 1);
}

static void make(const char *path)
{
    char part[512];
    for (const char *end = path; *end; end++) {
        end += strcspn(end, "/");
        snprintf(part, sizeof part, "%.*s", (int)(end - path), path);
        if (mkdir(folder_name(part), 0700) != 0) CHECK(access(folder_name(part), F_OK) == 0);
        if (!*end) break;
    }
}

// A cache with the branches main and pr/1 of org/name.
static void make_cache(void)
{
    char path[512];
    fresh();
    setenv("HF_HUB_CACHE", folder_path, 1);
    make("models--org--name/refs/pr");
    folder_text("models--org--name/refs/main", commit);
    snprintf(path, sizeof path, "%s\n", other);
    folder_text("models--org--name/refs/pr/1", path);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "models--org--name/snapshots/%s", i ? other : commit);
        make(path);
    }
}

TEST(names_have_one_form)
{
    static const char *const good[] = { "org/name", "gpt2", "a/b@v1.0", "a/b@refs/pr/1",
                                        "A-1_b/c.d" },
                             *const bad[] = {
                                 "",        "/",          "a/",           "/a",         "a/b/c",
                                 "./a",     "../a",       "a/.b",         "-a/b",       "a--b/c",
                                 "a..b/c",  "a/b.git",    "a/b@",         "a/b@../x",   "a/b@/x",
                                 "a/b@x/",  "a/b@.x",     "a/b@x/.y",     "a/b@-x",     "a/b@x y",
                                 "a/b@x~1", "a/b@x.lock", "a/b@x.lock/y", "a/b@x@{1}",  "a/b@x\\y",
                                 "a b/c",   "a/b\n",      "a/b@x\n",      "a/\xc3\xa9", "~/models",
                                 "a/b-"
                             };
    struct qkv_hub_name n;
    char longest[300];
    EACH(text, good) CHECK(qkv_hub_name_parse(&n, *text));
    EACH(text, bad) CHECK(!qkv_hub_name_parse(&n, *text));
    CHECK(qkv_hub_name_parse(&n, "org/name"));
    CHECK_TEXT(n.repo, "org/name");
    CHECK_TEXT(n.revision, "main");
    CHECK(qkv_hub_name_parse(&n, "org/name@refs/pr/1"));
    CHECK_TEXT(n.repo, "org/name");
    CHECK_TEXT(n.revision, "refs/pr/1");
    memset(longest, 'a', sizeof longest);
    longest[96] = 0;
    CHECK(qkv_hub_name_parse(&n, longest));
    longest[96] = 'a', longest[97] = 0;
    CHECK(!qkv_hub_name_parse(&n, longest));
    memcpy(longest, "a/b@", 4);
    longest[97] = 'a', longest[204] = 0;
    CHECK(qkv_hub_name_parse(&n, longest));
    longest[204] = 'a', longest[205] = 0;
    CHECK(!qkv_hub_name_parse(&n, longest));
}

TEST(a_commit_has_forty_digits)
{
    CHECK(qkv_hub_is_commit(commit));
    CHECK(!qkv_hub_is_commit(commit + 1));
    CHECK(!qkv_hub_is_commit("0123456789ABCDEF0123456789abcdef01234567"));
    CHECK(!qkv_hub_is_commit("0123456789abcdef0123456789abcdef012345678"));
}

TEST(the_variables_of_the_cache_are_read_in_order)
{
    char out[1024], want[1024];
    qkv_error err = { 0 };
    fresh();
    CHECK_EQ(qkv_hub_cache(out, sizeof out, NULL), QKV_OK);
    snprintf(want, sizeof want, "%s/.cache/huggingface/hub", folder_path);
    CHECK_TEXT(out, want);
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    CHECK_EQ(qkv_hub_cache(out, sizeof out, NULL), QKV_OK);
    CHECK_TEXT(out, "/xdg/huggingface/hub");
    setenv("HF_HOME", "/hf", 1);
    CHECK_EQ(qkv_hub_cache(out, sizeof out, NULL), QKV_OK);
    CHECK_TEXT(out, "/hf/hub");
    setenv("HUGGINGFACE_HUB_CACHE", "/older", 1);
    CHECK_EQ(qkv_hub_cache(out, sizeof out, NULL), QKV_OK);
    CHECK_TEXT(out, "/older");
    setenv("HF_HUB_CACHE", "", 1); // an empty value is no value
    CHECK_EQ(qkv_hub_cache(out, sizeof out, NULL), QKV_OK);
    CHECK_TEXT(out, "/older");
    setenv("HF_HUB_CACHE", "~/models", 1);
    CHECK_EQ(qkv_hub_cache(out, sizeof out, NULL), QKV_OK);
    snprintf(want, sizeof want, "%s/models", folder_path);
    CHECK_TEXT(out, want);
    setenv("HF_HUB_CACHE", "~other/models", 1);
    CHECK_EQ(qkv_hub_cache(out, sizeof out, NULL), QKV_OK);
    CHECK_TEXT(out, "~other/models");
    unsetenv("HOME");
    setenv("HF_HUB_CACHE", "~/models", 1);
    CHECK_EQ(qkv_hub_cache(out, sizeof out, NULL), QKV_OK);
    CHECK_TEXT(out, "~/models");
    unsetenv("HF_HUB_CACHE");
    unsetenv("HUGGINGFACE_HUB_CACHE");
    unsetenv("HF_HOME");
    unsetenv("XDG_CACHE_HOME");
    CHECK_EQ(qkv_hub_cache(out, sizeof out, &err), QKV_ERR_USAGE);
    CHECK(strstr(err.text, "HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME, XDG_CACHE_HOME or HOME"));
}

TEST(a_name_means_the_snapshot_of_its_revision)
{
    char out[1024], want[1024], name[128];
    make_cache();
    CHECK_EQ(qkv_hub_find(out, sizeof out, "org/name", NULL), QKV_OK);
    snprintf(want, sizeof want, "%s/models--org--name/snapshots/%s", folder_path, commit);
    CHECK_TEXT(out, want);
    CHECK_EQ(qkv_model_find(out, sizeof out, NULL, 0, "org/name", NULL), QKV_OK);
    CHECK_TEXT(out, want);
    snprintf(want, sizeof want, "%s/models--org--name/snapshots/%s", folder_path, other);
    CHECK_EQ(qkv_hub_find(out, sizeof out, "org/name@pr/1", NULL), QKV_OK);
    CHECK_TEXT(out, want);
    snprintf(name, sizeof name, "org/name@%s", other);
    CHECK_EQ(qkv_hub_find(out, sizeof out, name, NULL), QKV_OK);
    CHECK_TEXT(out, want);
}

TEST(another_cache_has_its_own_models)
{
    char out[1024], want[1024], cache[512];
    qkv_error err = { 0 };
    make_cache();
    snprintf(cache, sizeof cache, "%s", folder_path);
    setenv("HF_HUB_CACHE", "/no/such/folder", 1);
    CHECK_EQ(qkv_hub_find(out, sizeof out, "org/name", NULL), QKV_ERR_IO);
    CHECK_EQ(qkv_hub_find_in(out, sizeof out, NULL, "org/name", NULL), QKV_ERR_IO);
    CHECK_EQ(qkv_hub_find_in(out, sizeof out, cache, "org/name", NULL), QKV_OK);
    snprintf(want, sizeof want, "%s/models--org--name/snapshots/%s", cache, commit);
    CHECK_TEXT(out, want);
    CHECK_EQ(qkv_hub_find_in(out, sizeof out, cache, "org/other", &err), QKV_ERR_IO);
    CHECK(strstr(err.text, "org/other") && strstr(err.text, cache));
    unsetenv("HF_HUB_CACHE");
    unsetenv("HOME");
    CHECK_EQ(qkv_hub_find_in(out, sizeof out, cache, "org/name", NULL), QKV_OK);
}

TEST(what_is_not_in_the_cache_is_an_error_of_files)
{
    static const char *const missing[] = { "org/name@v2", "org/other", "name",
                                           "org/name@00000000000000000000000000000000000000ff" };
    char out[1024], small[8];
    qkv_error err = { 0 };
    make_cache();
    EACH(name, missing)
    {
        CHECK_EQ(qkv_hub_find(out, sizeof out, *name, NULL), QKV_ERR_IO);
        CHECK_EQ(qkv_model_find(out, sizeof out, NULL, 0, *name, &err), QKV_ERR_IO);
        CHECK(strstr(err.text, *name) && strstr(err.text, folder_path));
        memset(&err, 0, sizeof err);
    }
    CHECK_EQ(qkv_hub_find(small, sizeof small, "org/name", &err), QKV_ERR_USAGE);
    // a snapshot that was deleted
    snprintf(out, sizeof out, "models--org--name/snapshots/%s", commit);
    CHECK(rmdir(folder_name(out)) == 0);
    CHECK_EQ(qkv_hub_find(out, sizeof out, "org/name", NULL), QKV_ERR_IO);
}

TEST(a_broken_revision_is_malformed)
{
    static const char *const texts[] = { "", "main", "../../x", "0123" };
    char out[1024];
    make_cache();
    EACH(text, texts)
    {
        qkv_error err = { 0 };
        folder_text("models--org--name/refs/main", *text);
        CHECK_EQ(qkv_model_find(out, sizeof out, NULL, 0, "org/name", &err), QKV_ERR_FORMAT);
        CHECK(strstr(err.file, "refs/main") != NULL);
    }
}

TEST(a_folder_precedes_a_name)
{
    char out[1024], here[512];
    make_cache();
    CHECK(getcwd(here, sizeof here) && chdir(folder_path) == 0);
    make("org/name");
    CHECK_EQ(qkv_model_find(out, sizeof out, NULL, 0, "org/name", NULL), QKV_OK);
    CHECK_TEXT(out, "org/name");
    CHECK(chdir(here) == 0);
}

CHECK_MAIN(CASE(names_have_one_form), CASE(a_commit_has_forty_digits),
           CASE(the_variables_of_the_cache_are_read_in_order),
           CASE(a_name_means_the_snapshot_of_its_revision),
           CASE(what_is_not_in_the_cache_is_an_error_of_files),
           CASE(a_broken_revision_is_malformed), CASE(a_folder_precedes_a_name),
           CASE(another_cache_has_its_own_models))
