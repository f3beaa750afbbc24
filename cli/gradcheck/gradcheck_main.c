// SPDX-License-Identifier: MIT
// gradcheck_main.c: runs qkv-gradcheck, which compares every gradient of the library with finite
// differences of the forward pass. The program is compiled with real = double and with the kernels
// in plain C. `qkv gradcheck` starts it; both have the same options.
#include "gradcheck_main.h"
#include <stdio.h>
#include <string.h>

// how many numbers of an array are compared, without and with --quick
enum { LOOKS = 200, QUICK_LOOKS = 12 };

static const struct row {
    const char *name;
    void (*check)(struct gradcheck *g);
} rows[] = {
#define GRADCHECK(NAME, FUNCTION) { NAME, FUNCTION },
#include "gradcheck.def"
#undef GRADCHECK
};
enum { ROWS = sizeof rows / sizeof *rows };

// Returns true if `only` is the name of a check, or the folder in its name, such as "layer".
static bool wanted(const char *only, const char *name)
{
    const size_t n = only ? strlen(only) : 0;
    return !only || !strcmp(only, name) ||
           (!strncmp(only, name, n) && (name[n] == '/' || (n && name[n - 1] == '/')));
}

static int usage(const char *what, const char *word)
{
    fprintf(stderr, "qkv-gradcheck: %s '%.100s'; the options are --list, --only NAME and --quick\n",
            what, word);
    return QKV_ERR_USAGE;
}

int main(int argc, char **argv)
{
    const char *only = NULL;
    bool list = false, quick = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--list"))
            list = true;
        else if (!strcmp(argv[i], "--quick"))
            quick = true;
        else if (!strcmp(argv[i], "--only") && i + 1 < argc)
            only = argv[++i];
        else
            return usage("unknown option", argv[i]);
    }
    int ran = 0, failed = 0;
    for (int i = 0; i < ROWS; i++) {
        if (!wanted(only, rows[i].name)) continue;
        ran++;
        if (list) {
            puts(rows[i].name);
            continue;
        }
        const struct gradcheck_result r =
            gradcheck_result_of(rows[i].check, quick ? QUICK_LOOKS : LOOKS);
        const bool ok = r.numbers > 0 && r.worst <= GRADCHECK_LIMIT;
        printf("%-28s %6lld numbers  worst %8.1e  %s%s\n", rows[i].name, (long long)r.numbers,
               r.worst, r.where, ok ? "" : "  FAILED");
        fflush(stdout);
        failed += !ok;
    }
    if (!ran) return usage("no check has the name", only ? only : "");
    if (!list)
        printf("%d checks, %d failed (limit of the relative error: %.0e)\n", ran, failed,
               GRADCHECK_LIMIT);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("qkv-gradcheck: standard output: cannot write\n", stderr);
        return QKV_ERR_IO;
    }
    return failed ? QKV_ERR_INTERNAL : QKV_OK;
}
