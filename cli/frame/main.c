// SPDX-License-Identifier: MIT
// main.c: finds the command, parses its options, runs it, and checks that its output was written.
#include "frame/cmd.h"
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "ranks/ranks.h"
#include "frame/signals.h"

#define COMMAND(name) &cmd_##name,
const struct cmd *const cmd_table[] = {
#include "command.def"
    NULL
};
#undef COMMAND
enum { COMMANDS = sizeof cmd_table / sizeof *cmd_table - 1 };

static const struct cmd *find_command(const char *name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(cmd_table[i]->name, name)) return cmd_table[i];
    return NULL;
}

static qkv_status unknown(const char *name, qkv_error *err)
{
    const char *names[COMMANDS + 1] = { NULL };
    for (int i = 0; i < COMMANDS; i++) names[i] = cmd_table[i]->name;
    const char *word = name + strspn(name, "-"), *near = cmd_nearest(word, names);
    const char *kind = *name == '-' ? "option" : "command";
    if (near)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "unknown %s '%.200s'; did you mean '%s'?", kind,
                         name, near);
    return cmd_error(err, QKV_ERR_USAGE, NULL,
                     "unknown %s '%.200s', 'qkv help' lists all that exist", kind, name);
}

// Refuses values of environment variables that the library would silently ignore.
static qkv_status check_environment(qkv_error *err)
{
    const char *text = getenv("QKV_THREADS");
    int64_t n;
    if (text && *text && (!cmd_parse_int(text, &n) || n < 1 || n > QKV_THREADS_MAX))
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "QKV_THREADS: invalid number of threads, expected 1 to %d, found '%.100s'",
                         QKV_THREADS_MAX, text);
    qkv_status status;
    const char *note = qkv_isa_note(&status);
    return status ? cmd_error(err, status, NULL, "%s", note) : QKV_OK;
}

// Refuses a stack that is too small for the calls of a command: it would end by a signal. The C
// library gives the threads stacks of the same size.
static qkv_status check_stack(qkv_error *err)
{
    enum { STACK = 1 << 20 }; // f32 linear layers with AMX need 680 KiB
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= STACK) return QKV_OK;
    return cmd_error(err, QKV_ERR_LIMIT, NULL,
                     "stack is too small, expected at least %d bytes (ulimit -s %d), found %llu",
                     STACK, STACK >> 10, (unsigned long long)limit.rlim_cur);
}

// Checks that the output was written. A full disk or a closed pipe is an error of the command.
// If the command failed after it had written an output file, a note names the file.
static int finish(int code)
{
    qkv_error err = { 0 };
    if (cmd_written(stdout, "standard output", &err) && code == QKV_OK) code = cmd_fail(&err);
    // after an error of usage, a file that exists is not of this command
    if (code != QKV_OK && code != QKV_ERR_USAGE) cmd_outputs_note();
    return code;
}

// Runs the command that the arguments name; returns its exit code.
static int run(int argc, char **argv)
{
    qkv_error err = { 0 };
    if (argc < 2) {
        cmd_help_all(stderr);
        return QKV_ERR_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
        if (argc > 2) {
            cmd_error(&err, QKV_ERR_USAGE, NULL,
                      "unexpected operand '%.100s', expected no operand after %s", argv[2], name);
            return cmd_fail(&err);
        }
        printf("qkv %s\n", qkv_version());
        return finish(QKV_OK);
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) name = "help";
    const struct cmd *c = find_command(name);
    if (!c) {
        unknown(name, &err);
        return cmd_fail(&err);
    }
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0;
         i++) // look for --json before parsing, so that errors of parsing are printed as JSON too
        if ((c->uses & USES_JSON) && !strcmp(argv[i], "--json")) common.json = true;
    int operands = 0;
    if (c->uses & USES_RANKS)
        ranks_open(argc, argv);
    else if (!(c->uses & USES_PROCESSES))
        ranks_refuse(name,
                     "expected one process, or attn, train, bench machines or embed --shard auto");
    cmd_options(c, argc - 2, argv + 2, &operands, &err);
    ranks_agree(&err);
    if (err.status) return cmd_fail(&err);
    if (common.help) {
        ranks_close(); // a launcher ends all ranks if one ends with an open connection
        cmd_help_one(stdout, c);
        return finish(QKV_OK);
    }
    if (c->uses & USES_RANKS) ranks_note_alone();
    if (check_stack(&err) || ((c->uses & USES_COMPUTE) && check_environment(&err))) {
        ranks_agree(&err);
        return cmd_fail(&err);
    }
    return finish(c->run(operands, argv + 2));
}

int main(int argc, char **argv)
{
    cmd_signals_init();
    setlocale(LC_CTYPE, "");
    const int code = run(argc, argv);
    cmd_options_free();
    cmd_paths_free();
    return code;
}
