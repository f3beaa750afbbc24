// SPDX-License-Identifier: MIT
// cmd_gradcheck.c: `qkv gradcheck`: runs qkv-gradcheck, the program in which real is double: beside
// this command (a build tree), else where the installation has it.
#include "cmd.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

static struct {
    const char *only;
    bool list, quick;
} o;

static const struct opt opts[] = {
    OPT_TEXT(0, "only", &o.only, "NAME", "one check, or all of a folder: layer/linear, layer"),
    OPT_FLAG(0, "quick", &o.quick, "fewer numbers of each array"),
    OPT_FLAG(0, "list", &o.list, "names of the checks, nothing is computed"), OPT_END
};

// out = the folder of this command and `name` behind it; false: too long, or not known.
static bool beside(char out[CMD_PATH], const char *name)
{
    const ssize_t n = readlink("/proc/self/exe", out, CMD_PATH - 1);
    if (n < 1) return false;
    out[n] = 0;
    char *slash = strrchr(out, '/');
    if (!slash || (size_t)(slash + 1 - out) + strlen(name) >= CMD_PATH) return false;
    memcpy(slash + 1, name, strlen(name) + 1);
    return true;
}

static int run(int argc, char **argv)
{
    static const char *const places[] = { "qkv-gradcheck", QKV_LIBEXEC_FROM_BIN "/qkv-gradcheck",
                                          NULL };
    char path[CMD_PATH], *words[6] = { "qkv-gradcheck" };
    int n = 1;
    (void)argc, (void)argv;
    if (o.list) words[n++] = "--list";
    if (o.quick) words[n++] = "--quick";
    if (o.only) {
        words[n++] = "--only";
        words[n++] = (char *)(uintptr_t)o.only;
    }
    fflush(stdout);
    for (int i = 0; places[i]; i++) {
        if (!beside(path, places[i]) || access(path, X_OK) != 0) continue;
        execv(path, words);
        break;
    }
    qkv_error err = { 0 };
    cmd_error(
        &err, QKV_ERR_IO, NULL,
        "qkv-gradcheck cannot be run, expected beside qkv, or in %s from there; 'make' builds it",
        QKV_LIBEXEC_FROM_BIN);
    return cmd_fail(&err);
}

const struct cmd cmd_gradcheck = {
    .name = "gradcheck",
    .brief = "every gradient against finite differences in double",
    .usage = "[options]",
    .about =
        "Runs the backward of each layer, and of whole models, on random numbers in double precision and compares it "
        "with central differences of its forward, of order four: each number of small arrays, a sample of large ones, "
        "and all numbers of a check together along one random direction. A number's relative error is measured "
        "against the root mean square of its array's gradient where it is smaller than that; 1e-6 is the limit.\n\n"
        "Prints a line for each check: its name, how many numbers were compared, the worst relative error and where. "
        "Exit code 1: a gradient is wrong. The sources are those of the library, compiled once more with double in "
        "place of float and the kernels in plain C; vector kernels are compared with these by the tests.",
    .opts = opts,
    .max_args = 0,
    .examples = {
        { "qkv gradcheck", "all checks" },
        { "qkv gradcheck --only layer --quick", "the layers alone, fewer numbers" },
    },
    .run = run,
};
