// SPDX-License-Identifier: MIT
// output_bits_file.h: reads tests/golden/output_bits.txt and compares lines of hashes with it, for
// test_output_bits.c.
#ifndef QKV_OUTPUT_BITS_FILE_H
#define QKV_OUTPUT_BITS_FILE_H
#include "base/base.h"
#include "model/folder.h"

enum { LINE = 1024, LINES = 4096 };
static const char golden_file[] = "tests/golden/output_bits.txt";
static char *kept_line[LINES];
static int kept_lines;

// Hashes the results of the libm functions that kernels, rotations and samplers call, on numbers of
// their ranges.
static inline void libm_line(char *out, size_t size)
{
    struct qkv_sha256 h;
    char hex[QKV_SHA256_TEXT];
    qkv_sha256_begin(&h);
    for (int i = 0; i < 4000; i++) {
        const double x = (i - 2000) * .0137, y = fabs(x) + .001;
        const float f = (float)x, g = (float)y;
        const double d[] = { exp(x),  log(y),        sin(x * 31), cos(x * 31),
                             tanh(x), pow(y, x / 9), erf(x),      exp2(x) };
        const float s[] = { expf(f),  logf(g),        sinf(f * 31), cosf(f * 31),
                            tanhf(f), powf(g, f / 9), erff(f),      exp2f(f) };
        qkv_sha256_add(&h, d, sizeof d);
        qkv_sha256_add(&h, s, sizeof s);
    }
    qkv_sha256_end(&h, hex);
    snprintf(out, size, "libm %.12s", hex);
}
static inline void read_kept(void)
{
    char line[LINE];
    FILE *f = fopen(golden_file, "r");
    if (!f) fail_msg("no %s", golden_file);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        CHECK(kept_lines < LINES);
        if (line[0] && line[0] != '#') CHECK((kept_line[kept_lines++] = strdup(line)) != NULL);
    }
    fclose(f);
}
// Returns the line that begins with the first `bytes` of text; NULL: none.
static inline const char *find_kept(const char *text, size_t bytes)
{
    for (int i = 0; i < kept_lines; i++)
        if (strncmp(kept_line[i], text, bytes) == 0) return kept_line[i];
    return NULL;
}

static inline int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}
// Lists the folders of `parent`, sorted; the caller frees each.
static inline int list_folders(char **out, int most, const char *parent)
{
    char path[512];
    int n = 0;
    DIR *d = opendir(parent);
    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", parent, e->d_name);
        if (e->d_name[0] == '.' || stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) continue;
        CHECK(n < most && (out[n] = strdup(path)) != NULL);
        n++;
    }
    closedir(d);
    qsort(out, (size_t)n, sizeof *out, by_name);
    return n;
}

// Compares the words of two lines and prints the names of those that differ.
static inline int report_difference(const char *got, const char *want)
{
    int differences = 0;
    const char *g = strchr(got, ':'), *w = strchr(want, ':');
    while (g && w && (*g || *w)) {
        const size_t a = strcspn(g + 1, " "), b = strcspn(w + 1, " ");
        if (a != b || strncmp(g, w, a + 1) != 0) {
            printf("%.*s: found %.*s, expected %.*s\n", (int)strcspn(got, ":"), got, (int)a, g + 1,
                   (int)b, w + 1);
            differences++;
        }
        g += a + 1;
        w += b + 1;
    }
    return differences;
}
#endif
