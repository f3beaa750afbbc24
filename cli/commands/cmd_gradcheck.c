// SPDX-License-Identifier: MIT
// cmd_gradcheck.c: implements `qkv gradcheck`: runs the program qkv-gradcheck, which is compiled
// with double in place of float. The program is in the folder of this command (in a build tree) or
// in the installation.
#include "frame/cmd.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

static struct {
    const char *only;
    bool list, quick;
} o;

static const struct opt opts[] = {
    OPT_TEXT(0, "only", &o.only, "NAME",
             "run one check, or all checks of a folder, such as layer/linear or layer"),
    OPT_FLAG(0, "quick", &o.quick, "compare fewer numbers of each array"),
    OPT_FLAG(0, "list", &o.list, "list the checks without running them"), OPT_END
};

// Writes to `out` the path of the file `name` in the folder of this command.  Returns false if the
// folder is not known or the path is too long.
static bool next_to_program(char out[CMD_PATH], const char *name)
{
    const ssize_t n = readlink("/proc/self/exe", out, CMD_PATH - 1);
    if (n < 1) return false;
    out[n] = 0;
    char *slash = strrchr(out, '/');
    if (!slash || (size_t)(slash + 1 - out) + strlen(name) >= CMD_PATH) return false;
    memcpy(slash + 1, name, strlen(name) + 1);
    return true;
}

static int run_gradcheck(int argc, char **argv)
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
        if (!next_to_program(path, places[i]) || access(path, X_OK) != 0) continue;
        execv(path, words);
        break;
    }
    qkv_error err = { 0 };
    cmd_error(&err, QKV_ERR_IO, NULL,
              "qkv-gradcheck is missing, expected in the folder of qkv, or in %s relative to it; "
              "'make' builds it",
              QKV_LIBEXEC_FROM_BIN);
    return cmd_fail(&err);
}

const struct cmd cmd_gradcheck = {
    .name = "gradcheck",
    .brief = "compare every gradient with finite differences, in double precision",
    .usage = "[options]",
    .about =
        "Runs the backward pass of each layer and of whole models on random numbers, in double "
        "precision, and compares it with fourth-order central differences of the forward pass. In "
        "small arrays, each number is compared; in large arrays, a sample of them. In addition, "
        "all numbers of a check are moved together along one random direction. The error of a "
        "number is relative to the number itself, or to the root mean square of its array's "
        "gradient if that is larger; the limit is 1e-6.\n"
        "\n"
        "Prints a line per check: its name, how many numbers were compared, the worst relative "
        "error and where it is. Exit code 1: a gradient is wrong. The program is compiled from the "
        "sources of the library, with double in place of float and with the kernels in plain C; "
        "the tests compare the vector kernels with the kernels in plain C.",
    .opts = opts,
    .max_args = 0,
    .examples = {
        { "qkv gradcheck", "all checks" },
        { "qkv gradcheck --only layer --quick", "only the checks of layers, with fewer numbers" },
    },
    .run = run_gradcheck,
};
