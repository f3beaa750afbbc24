// SPDX-License-Identifier: MIT
// test_search_directory.c: checks which model is found: the given one, QKV_MODEL, or the first in
// the search directories.
#include "model/folder.h"
#include <qkv/model.h>

static char here[512];

// Searches from an empty folder with these search directories.
static qkv_status find(char out[1024], char why[1024], const char *dir, qkv_error *err)
{
    memset(err, 0, sizeof *err);
    CHECK(getcwd(here, sizeof here) && chdir(folder_path) == 0);
    const qkv_status status = qkv_model_find(out, 1024, why, 1024, dir, err);
    CHECK(chdir(here) == 0);
    return status;
}
static void make_model(const char *const *parts)
{
    char path[512] = "";
    for (; *parts; parts++) {
        strcat(path, path[0] ? "/" : "");
        strcat(path, *parts);
        if (mkdir(folder_name(path), 0700) != 0) CHECK(access(folder_name(path), F_OK) == 0);
    }
    strcat(path, "/config.json");
    folder_text(path, "{}");
}
static void fresh(void)
{
    folder_new();
    unsetenv("QKV_MODEL");
    unsetenv("QKV_MODELS");
    unsetenv("XDG_DATA_HOME");
    setenv("HOME", folder_path, 1);
}

TEST(the_given_one_comes_first)
{
    char out[1024], why[1024];
    qkv_error err;
    fresh();
    setenv("QKV_MODEL", "/elsewhere", 1);
    CHECK_EQ(find(out, why, "./a/b", &err), QKV_OK);
    CHECK_TEXT(out, "./a/b");
    CHECK_TEXT(why, "as given");
    CHECK_EQ(find(out, why, NULL, &err), QKV_OK);
    CHECK_TEXT(out, "/elsewhere");
    CHECK_TEXT(why, "from the variable QKV_MODEL");
}

TEST(directories_are_searched_in_order)
{
    char out[1024], why[1024], want[1024];
    qkv_error err;
    fresh();
    make_model((const char *const[]){ ".local", "share", "qkv", "models", "verse", NULL });
    CHECK_EQ(find(out, why, NULL, &err), QKV_OK);
    snprintf(want, sizeof want, "%s/.local/share/qkv/models/verse", folder_path);
    CHECK_TEXT(out, want);
    setenv("XDG_DATA_HOME", folder_name("data"), 1);
    make_model((const char *const[]){ "data", "qkv", "models", "verse", NULL });
    CHECK_EQ(find(out, why, NULL, &err), QKV_OK);
    snprintf(want, sizeof want, "%s/data/qkv/models/verse", folder_path);
    CHECK_TEXT(out, want);
    make_model((const char *const[]){ "models", "verse", NULL });
    CHECK_EQ(find(out, why, NULL, &err), QKV_OK);
    CHECK_TEXT(out, "models/verse");
    make_model((const char *const[]){ "models", "all-MiniLM-L6-v2", NULL });
    CHECK_EQ(find(out, why, NULL, &err), QKV_OK);
    CHECK_TEXT(out, "models/all-MiniLM-L6-v2");
    CHECK_TEXT(why, "the first model found, in models");
    make_model((const char *const[]){ "own", "verse", NULL });
    setenv("QKV_MODELS", folder_name("own"), 1);
    CHECK_EQ(find(out, why, NULL, &err), QKV_OK);
    snprintf(want, sizeof want, "%s/own/verse", folder_path);
    CHECK_TEXT(out, want);
    unsetenv("QKV_MODELS");
}

TEST(none_found_says_where_it_looked)
{
    char out[1024], why[1024];
    qkv_error err;
    fresh();
    setenv("XDG_DATA_HOME", "/nowhere", 1);
    if (find(out, why, NULL, &err) == QKV_OK) { // a model is installed on this machine
        CHECK(strstr(why, "/nowhere/qkv/models") != NULL);
        return;
    }
    CHECK_EQ(err.status, QKV_ERR_USAGE);
    CHECK(strstr(err.text, "expected all-MiniLM-L6-v2 or verse in one of the folders models, "
                           "/nowhere/qkv/models, ") != NULL);
}

TEST(a_path_that_does_not_fit_is_refused)
{
    char out[4];
    qkv_error err = { 0 };
    CHECK_EQ(qkv_model_find(out, sizeof out, NULL, 0, "a/long/path", &err), QKV_ERR_USAGE);
}

CHECK_MAIN(CASE(the_given_one_comes_first), CASE(directories_are_searched_in_order),
           CASE(none_found_says_where_it_looked), CASE(a_path_that_does_not_fit_is_refused))
