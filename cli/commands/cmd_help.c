// SPDX-License-Identifier: MIT
// cmd_help.c: implements `qkv help`: prints help, man pages and shell completion.
#include "frame/cmd.h"
#include <string.h>

static struct {
    bool man;
    int shell;
} o = { .shell = -1 };

static const struct opt opts[] = { OPT_FLAG(0, "man", &o.man, "print a man page, in roff"),
                                   OPT_CHOICE(0, "completion", &o.shell, cmd_shells, "SHELL",
                                              "print shell completion for bash, zsh or fish"),
                                   OPT_END };

static int run_help(int argc, char **argv)
{
    qkv_error err = { 0 };
    const struct cmd *c = NULL;
    if (o.shell >= 0) {
        cmd_help_completion(stdout, o.shell);
        return QKV_OK;
    }
    for (int i = 0; argc && cmd_table[i]; i++)
        if (!strcmp(cmd_table[i]->name, argv[0])) c = cmd_table[i];
    if (argc && !c) {
        const char *names[32] = { NULL };
        for (int i = 0; cmd_table[i] && i < 31; i++) names[i] = cmd_table[i]->name;
        const char *near = cmd_nearest(argv[0], names);
        cmd_error(&err, QKV_ERR_USAGE, NULL, "unknown command '%.200s'%s%s%s", argv[0],
                  near ? "; did you mean '" : ", expected one that 'qkv help", near ? near : "",
                  near ? "'?" : "' lists");
        return cmd_fail(&err);
    }
    if (o.man)
        cmd_help_man(stdout, c);
    else if (c)
        cmd_help_one(stdout, c);
    else
        cmd_help_all(stdout);
    return QKV_OK;
}

const struct cmd cmd_help = {
    .name = "help",
    .brief = "explain the commands",
    .usage = "[COMMAND] [--man]\n--completion SHELL",
    .about = "Lists all commands, or explains one command. 'qkv COMMAND --help' prints the same text.",
    .opts = opts,
    .max_args = 1,
    .examples = {
        { "qkv help attn", "the options of attn" },
        { "qkv help --completion bash > /etc/bash_completion.d/qkv", "shell completion of commands, options and their values" },
    },
    .run = run_help,
};
