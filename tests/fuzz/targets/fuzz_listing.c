// SPDX-License-Identifier: MIT
// fuzz_listing.c: reads any bytes as a page of the list of files of a model, and as such a list in
// the cache: every path stays below the folder of the model, and the list is sorted.
// Inputs have up to 2048 bytes.
#include "fuzz/fuzz.h"
#include "pull/pull.h"

const struct cmd *const cmd_table[] = { NULL };

static void check_path(const char *path)
{
    const size_t n = strlen(path);
    FUZZ_CHECK(n > 0 && n < PULL_NAME && path[0] != '/' && path[n - 1] != '/');
    FUZZ_CHECK(!strstr(path, "//") && !strpbrk(path, "\\:"));
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        FUZZ_CHECK(strncmp(part, "../", 3) && strcmp(part, "..") && strncmp(part, "./", 2) &&
                   strcmp(part, "."));
    }
    for (size_t i = 0; i < n; i++) FUZZ_CHECK((unsigned char)path[i] >= ' ' && path[i] != 127);
}

static void check_list(const struct pull_listing *l, bool finished)
{
    FUZZ_CHECK(l->count <= PULL_FILES);
    for (int64_t i = 0; i < l->count; i++) {
        const struct pull_file *f = &l->file[i];
        check_path(f->path);
        FUZZ_CHECK(f->size >= 0 && strlen(f->blob) == 40);
        FUZZ_CHECK(!f->sha256[0] || strlen(f->sha256) == 64);
        if (!finished) continue;
        FUZZ_CHECK(i == 0 || strcmp(l->file[i - 1].path, f->path) < 0);
        FUZZ_CHECK(f->wanted == listing_wanted(f->path));
        FUZZ_CHECK(!f->wanted || f->size <= PULL_WEIGHTS_BYTES);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[MEMORY_PATH], *text = malloc(size + 1);
    struct pull_listing l = { 0 }, stored;
    qkv_error err = { 0 };
    if (!text) abort();
    if (size) memcpy(text, data, size);
    text[size] = 0;
    qkv_status status = listing_add(&l, text, size, &err);
    if (!status && size % 2) status = listing_add(&l, text, size, &err); // a second page
    check_list(&l, false);
    if (!status && !(status = listing_finish(&l, "org/name", &err))) check_list(&l, true);
    if (status) fuzz_refusal(status, &err);
    listing_free(&l);
    snprintf(path, sizeof path, "%s/tree.json", fuzz_file("tree.json", text, size));
    err = (qkv_error){ 0 };
    if (listing_read(&stored, path, &err)) check_list(&stored, true);
    if (err.status && err.status != QKV_ERR_LIMIT) abort(); // the file can be read
    listing_free(&stored);
    free(text);
    return 0;
}
