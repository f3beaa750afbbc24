// SPDX-License-Identifier: MIT
// help.c: prints help, man pages and shell completion, from command.def and the option tables.
#include "frame/cmd.h"
#include <ctype.h>
#include <string.h>

const char *const cmd_shells[] = { "bash", "zsh", "fish", NULL };

// The rows of command.def: the title of a group, or NULL for the next command of cmd_table.
static const char *const rows[] = {
#define GROUP(title)  title,
#define COMMAND(name) NULL,
#include "command.def"
#undef COMMAND
};
enum { ROWS = sizeof rows / sizeof *rows };

static const struct {
    int code;
    const char *what;
} exits[] = {
    { 0, "done" },
    { 1, "numbers that are not finite, a failed check, or a bug in qkv" },
    { 2, "wrong usage: an invalid option or operand, or shapes that do not match" },
    { 3, "malformed input" },
    { 4, "valid input that qkv does not support" },
    { 5, "out of memory, or a size limit is exceeded" },
    { 6,
      "a file or the printed text cannot be read or written; a note names each output file that is "
      "complete nevertheless" },
    { 130, "interrupted" },
};
static const struct {
    const char *name, *what;
} variables[] = {
    { "QKV_MODEL", "folder or name of the model, if --model is not given" },
    { "QKV_MODELS", "folder searched first for models (default: models)" },
    { "QKV_THREADS", "number of threads, if --threads is not given" },
    { "QKV_ISA", "most advanced instruction set to use ('qkv info' lists them)" },
    { "XDG_DATA_HOME", "folder with models in qkv/models (default: ~/.local/share)" },
    { "TMPDIR", "folder for temporary copies of standard input (default: /tmp)" },
    { "COLUMNS", "width of the terminal in columns (default: asked of the terminal)" },
    { "NO_COLOR", "if it is set, output in the terminal has no color" },
};

// ---- text --------------------------------------------------------------------------------------
struct page {
    FILE *to;
    int width;
    bool color;
};

static struct page page_to(FILE *to)
{
    const int columns = cmd_columns();
    return (struct page){ to, columns < 40 ? 40 : columns > 80 ? 80 : columns, cmd_color(to) };
}

static void bold(const struct page *p, const char *text)
{
    fprintf(p->to, p->color ? "\033[1m%s\033[0m" : "%s", text);
}

static void heading(const struct page *p, const char *text)
{
    fputc('\n', p->to);
    bold(p, text);
    fputc('\n', p->to);
}

// Prints a text in lines as wide as the page; lines are broken between words. The cursor is at
// column `at`. A \n in the text begins a new line.
static void wrap(const struct page *p, const char *text, int indent, int at)
{
    for (const char *t = text; *t;) {
        const int n = (int)strcspn(t, " \n");
        if (at > indent && at + 1 + n > p->width) {
            fprintf(p->to, "\n%*s", indent, "");
            at = indent;
        } else if (at > indent) {
            fputc(' ', p->to);
            at++;
        }
        fwrite(t, 1, (size_t)n, p->to);
        at += n;
        t += n;
        if (*t == '\n') {
            fputc('\n', p->to);
            at = 0;
            while (t[1] == '\n') {
                fputc('\n', p->to);
                t++;
            }
            if (t[1]) at = fprintf(p->to, "%*s", indent, "");
        }
        if (*t) t++;
    }
    fputc('\n', p->to);
}

// Writes the forms of an option, such as "-m, --model DIR", to out[size].
static void option_head(char *out, size_t size, const struct opt *o)
{
    char letter[8] = "    ";
    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(out, size, "%s--%s%s%s", letter, o->name, o->value ? " " : "",
             o->value ? o->value : "");
}

static void print_options(const struct page *p, const struct cmd *c)
{
    struct opt all[OPTS_MAX];
    char head[96];
    cmd_all_options(c, all);
    enum { AT = 26 };
    for (const struct opt *o = all; o->kind; o++) {
        if (o == all && o->kind != OPT_KIND_GROUP) heading(p, "Options");
        if (o->kind == OPT_KIND_GROUP) {
            heading(p, o->name);
            continue;
        }
        option_head(head, sizeof head, o);
        int at = fprintf(p->to, "  %s", head);
        if (at > AT - 2) {
            fputc('\n', p->to);
            at = 0;
        }
        fprintf(p->to, "%*s", AT - at, "");
        wrap(p, o->help, AT, AT);
    }
}

void cmd_help_one(FILE *to, const struct cmd *c)
{
    const struct page p = page_to(to);
    char title[64];
    snprintf(title, sizeof title, "qkv %s", c->name);
    bold(&p, title);
    fputs(" -", to);
    wrap(&p, c->brief, 4, (int)strlen(title) + 2);
    heading(&p, "Usage");
    for (const char *u = c->usage; *u;) {
        const int n = (int)strcspn(u, "\n");
        char line[256];
        snprintf(line, sizeof line, "%.*s", n, u);
        const int at = fprintf(to, "  qkv %s", c->name);
        if (n) fputc(' ', to);
        wrap(&p, line, at + 1, at + 1);
        u += n + (u[n] == '\n');
    }
    if (!*c->usage) fprintf(to, "  qkv %s\n", c->name);
    fputc('\n', to);
    wrap(&p, c->about, 0, 0);
    print_options(&p, c);
    heading(&p, "Examples");
    for (int i = 0; i < (int)(sizeof c->examples / sizeof *c->examples) && c->examples[i].line;
         i++) {
        fprintf(to, "  %s\n      ", c->examples[i].line);
        wrap(&p, c->examples[i].what, 6, 6);
    }
    heading(&p, "Exit codes");
    for (size_t i = 0; i < sizeof exits / sizeof *exits; i++) {
        fprintf(to, "  %3d  ", exits[i].code);
        wrap(&p, exits[i].what, 7, 7);
    }
}

void cmd_help_all(FILE *to)
{
    const struct page p = page_to(to);
    bold(&p, "qkv");
    fprintf(to, " %s - exact self-attention: run, train and visualize Transformers\n",
            qkv_version());
    heading(&p, "Usage");
    fputs("  qkv COMMAND [operands] [options]\n"
          "  qkv COMMAND --help\n"
          "  qkv --version\n",
          to);
    heading(&p, "Commands");
    int wide = 0; // length of the longest name, plus a space
    for (int i = 0; cmd_table[i]; i++) {
        const int n = (int)strlen(cmd_table[i]->name) + 1;
        if (n > wide) wide = n;
    }
    for (int i = 0, next = 0; i < ROWS && cmd_table[next]; i++) {
        if (rows[i]) {
            fprintf(to, "%s  %s\n", i ? "\n" : "", rows[i]);
            continue;
        }
        const struct cmd *c = cmd_table[next++];
        fprintf(to, "    %-*s", wide, c->name);
        wrap(&p, c->brief, 4 + wide, 4 + wide);
    }
    heading(&p, "Everywhere");
    fputs("  The FILE '-' is standard input; '--' ends the options; --json prints output for\n  "
          "programs; an existing output file is only replaced with --force\n",
          to);
    heading(&p, "Environment");
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        fprintf(to, "  %-13s %s\n", variables[i].name, variables[i].what);
    heading(&p, "Try");
    fputs("  qkv view \"time flies like an arrow\" \"fruit flies like a banana\"\n"
          "  qkv similar \"a happy dog\" \"a joyful puppy\" \"tax law\"\n"
          "  qkv info\n",
          to);
}

// ---- man pages ---------------------------------------------------------------------------------
static void roff(FILE *to, const char *text)
{
    bool start = true;
    for (; *text; text++) {
        if (start && (*text == '.' || *text == '\'')) fputs("\\&", to);
        if (*text == '\\')
            fputs("\\e", to);
        else if (*text == '-')
            fputs("\\-", to);
        else if (*text == '\n' && text[1] == '\n') {
            fputs("\n.PP\n", to);
            text++;
        } else
            fputc(*text, to);
        start = *text == '\n';
    }
}

static void roff_line(FILE *to, const char *before, const char *text)
{
    fputs(before, to);
    roff(to, text);
    fputc('\n', to);
}

static void man_exits(FILE *to)
{
    fputs(".SH EXIT STATUS\n", to);
    for (size_t i = 0; i < sizeof exits / sizeof *exits; i++) {
        fprintf(to, ".TP\n.B %d\n", exits[i].code);
        roff_line(to, "", exits[i].what);
    }
}

static void man_command(FILE *to, const struct cmd *c)
{
    struct opt all[OPTS_MAX];
    fputs(".TH QKV\\-", to);
    for (const char *p = c->name; *p; p++) fputc(toupper((unsigned char)*p), to);
    fprintf(to, " 1 \"\" \"qkv %s\" \"User Commands\"\n.SH NAME\nqkv\\-%s \\- ", qkv_version(),
            c->name);
    roff_line(to, "", c->brief);
    fputs(".SH SYNOPSIS\n", to);
    for (const char *u = c->usage;;) {
        const int n = (int)strcspn(u, "\n");
        char line[256];
        snprintf(line, sizeof line, "%.*s", n, u);
        fprintf(to, ".B qkv %s\n", c->name);
        roff(to, line);
        fputs("\n.br\n", to);
        if (!u[n]) break;
        u += n + 1;
    }
    fputs(".SH DESCRIPTION\n", to);
    roff_line(to, "", c->about);
    fputs(".SH OPTIONS\n", to);
    cmd_all_options(c, all);
    for (const struct opt *o = all; o->kind; o++) {
        if (o->kind == OPT_KIND_GROUP) {
            roff_line(to, ".SS ", o->name);
            continue;
        }
        fputs(".TP\n\\fB", to);
        if (o->letter) fprintf(to, "\\-%c, ", o->letter);
        fputs("\\-\\-", to);
        roff(to, o->name);
        fputs("\\fR", to);
        if (o->value) {
            fputs(" \\fI", to);
            roff(to, o->value);
            fputs("\\fR", to);
        }
        fputc('\n', to);
        roff_line(to, "", o->help);
    }
    fputs(".SH EXAMPLES\n", to);
    for (int i = 0; i < (int)(sizeof c->examples / sizeof *c->examples) && c->examples[i].line;
         i++) {
        roff_line(to, ".TP\n.B ", c->examples[i].line);
        roff_line(to, "", c->examples[i].what);
    }
    man_exits(to);
    fputs(".SH SEE ALSO\n.BR qkv (1)\n", to);
}

void cmd_help_man(FILE *to, const struct cmd *c)
{
    if (c) {
        man_command(to, c);
        return;
    }
    fprintf(to, ".TH QKV 1 \"\" \"qkv %s\" \"User Commands\"\n", qkv_version());
    fputs(".SH NAME\nqkv \\- exact self\\-attention: run, train and visualize Transformers\n"
          ".SH SYNOPSIS\n.B qkv\n.I COMMAND\n[operands] [options]\n.br\n"
          ".B qkv\n\\-\\-version\n.SH COMMANDS\n",
          to);
    for (int i = 0, next = 0; i < ROWS && cmd_table[next]; i++) {
        if (rows[i]) {
            roff_line(to, ".SS ", rows[i]);
            continue;
        }
        fprintf(to, ".TP\n.BR qkv\\-%s (1)\n", cmd_table[next]->name);
        roff_line(to, "", cmd_table[next++]->brief);
    }
    fputs(".SH ENVIRONMENT\n", to);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        fprintf(to, ".TP\n.B %s\n", variables[i].name);
        roff_line(to, "", variables[i].what);
    }
    man_exits(to);
}

// ---- completion --------------------------------------------------------------------------------
static void bash(FILE *to)
{
    struct opt all[OPTS_MAX];
    fputs("# bash completion of qkv, made by 'qkv help --completion bash'\n"
          "_qkv()\n{\n    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} "
          "words=\n"
          "    COMPREPLY=()\n    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words='",
          to);
    for (int i = 0; cmd_table[i]; i++) fprintf(to, "%s ", cmd_table[i]->name);
    fputs("--version'\n    else\n        case ${COMP_WORDS[1]}:$prev in\n", to);
    for (int i = 0; cmd_table[i]; i++) {
        cmd_all_options(cmd_table[i], all);
        for (const struct opt *o = all; o->kind; o++) {
            if (o->kind != OPT_KIND_CHOICE) continue;
            fprintf(to, "        %s:--%s) words='", cmd_table[i]->name, o->name);
            for (int k = 0; o->choices[k]; k++) fprintf(to, "%s%s", k ? " " : "", o->choices[k]);
            fputs("' ;;\n", to);
        }
    }
    for (int i = 0; cmd_table[i]; i++) {
        fprintf(to, "        %s:*) case $cur in -*) words='", cmd_table[i]->name);
        cmd_all_options(cmd_table[i], all);
        for (const struct opt *o = all; o->kind; o++)
            if (o->kind != OPT_KIND_GROUP) fprintf(to, "--%s ", o->name);
        fputs("' ;; esac ;;\n", to);
    }
    fputs("        esac\n    fi\n    [ -n \"$words\" ] && COMPREPLY=($(compgen -W \"$words\" -- "
          "\"$cur\"))\n"
          "}\ncomplete -o default -F _qkv qkv\n",
          to);
}

// Prints a phrase inside single quotes for zsh or fish. Quotes, colons and brackets are escaped.
static void phrase(FILE *to, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'' || *text == '[' || *text == ']' || *text == ':' || *text == '\\')
            fputc(' ', to);
        else
            fputc(*text, to);
    }
}

static void zsh(FILE *to)
{
    struct opt all[OPTS_MAX];
    fputs("#compdef qkv\n# zsh completion of qkv, made by 'qkv help --completion zsh'\n"
          "_qkv() {\n  local -a commands\n  commands=(\n",
          to);
    for (int i = 0; cmd_table[i]; i++) {
        fprintf(to, "    '%s:", cmd_table[i]->name);
        phrase(to, cmd_table[i]->brief);
        fputs("'\n", to);
    }
    fputs("  )\n  if (( CURRENT == 2 )); then _describe command commands; return; fi\n  case "
          "$words[2] in\n",
          to);
    for (int i = 0; cmd_table[i]; i++) {
        fprintf(to, "    %s) _arguments", cmd_table[i]->name);
        cmd_all_options(cmd_table[i], all);
        for (const struct opt *o = all; o->kind; o++) {
            if (o->kind == OPT_KIND_GROUP) continue;
            fprintf(to, " \\\n      '--%s[", o->name);
            phrase(to, o->help);
            fputc(']', to);
            if (o->kind == OPT_KIND_CHOICE) {
                fprintf(to, ":%s:(", o->value);
                for (int k = 0; o->choices[k]; k++)
                    fprintf(to, "%s%s", k ? " " : "", o->choices[k]);
                fputc(')', to);
            } else if (o->kind != OPT_KIND_FLAG) {
                fputc(':', to);
                phrase(to, o->value);
                fputs(":_files", to);
            }
            fputc('\'', to);
        }
        fputs(" \\\n      '*:operand:_files' ;;\n", to);
    }
    fputs("  esac\n}\n_qkv \"$@\"\n", to);
}

static void fish(FILE *to)
{
    struct opt all[OPTS_MAX];
    fputs("# fish completion of qkv, made by 'qkv help --completion fish'\n", to);
    for (int i = 0; cmd_table[i]; i++) {
        fprintf(to, "complete -c qkv -n __fish_use_subcommand -f -a %s -d '", cmd_table[i]->name);
        phrase(to, cmd_table[i]->brief);
        fputs("'\n", to);
    }
    for (int i = 0; cmd_table[i]; i++) {
        cmd_all_options(cmd_table[i], all);
        for (const struct opt *o = all; o->kind; o++) {
            if (o->kind == OPT_KIND_GROUP) continue;
            fprintf(to, "complete -c qkv -n '__fish_seen_subcommand_from %s' -l %s",
                    cmd_table[i]->name, o->name);
            if (o->letter) fprintf(to, " -s %c", o->letter);
            if (o->kind == OPT_KIND_CHOICE) {
                fputs(" -x -a '", to);
                for (int k = 0; o->choices[k]; k++)
                    fprintf(to, "%s%s", k ? " " : "", o->choices[k]);
                fputc('\'', to);
            } else if (o->kind != OPT_KIND_FLAG) {
                fputs(" -r", to);
            }
            fputs(" -d '", to);
            phrase(to, o->help);
            fputs("'\n", to);
        }
    }
}

void cmd_help_completion(FILE *to, int shell)
{
    if (shell == 0)
        bash(to);
    else if (shell == 1)
        zsh(to);
    else
        fish(to);
}
