// SPDX-License-Identifier: MIT
// cmd.h: declares the functions that the file of a command, cmd_<name>.c, may use in addition to
// <qkv/qkv.h>.
//
// A command is a row of command.def and a file that defines `const struct cmd cmd_<name>`: the text
// of its help, its options and its run function.  main.c writes the values of the options into
// static variables of the file, checks the number of operands and calls the run function, whose
// result is the exit code (a qkv_status).
//
//     static struct { const char *output; int64_t layer; } o = { .layer = -1 };
//     static const struct opt opts[] = {
//         OPT_TEXT('o', "output", &o.output, "FILE", "where to write"),
//         OPT_INT(0, "layer", &o.layer, 0, 1000, "L", "layer to show (default: the most telling)"),
//         OPT_END
//     };
#ifndef QKV_CMD_H
#define QKV_CMD_H

#include <qkv/qkv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// ---- options (options.c) -----------------------------------------------------------------------
enum opt_kind {
    OPT_KIND_END = 0,
    OPT_KIND_GROUP,  // no option: a heading in the help
    OPT_KIND_FLAG,   // --name
    OPT_KIND_TEXT,   // --name VALUE, any text but ""
    OPT_KIND_INT,    // --name N, canonical decimal between min and max
    OPT_KIND_REAL,   // --name X, decimal, finite
    OPT_KIND_CHOICE, // --name WORD, one of choices
    OPT_KIND_WORDS   // --name VALUE, any text but "", may be repeated
};
// The values of an option that may be repeated, in the order of the command line.
struct cmd_words {
    const char **text;
    int64_t count;
};
struct opt {
    enum opt_kind kind;
    char letter;      // letter of the short form; 0: no short form
    const char *name; // long form without dashes; of a group: the heading
    union {           // destination of the value; not written when the option is absent
        bool *flag;
        const char **text;
        int64_t *integer;
        double *real;
        int *choice; // index in choices of the word that was given
        struct cmd_words *words;
    } at;
    const char *value;          // name of the value in the help: "DIR"
    const char *help;           // one phrase, the default in parentheses
    int64_t min, max;           // range of OPT_KIND_INT
    const char *const *choices; // words of OPT_KIND_CHOICE; the list ends with NULL
    // if not NULL, cmd_all_options calls it to set choices and help of words that the library lists
    void (*complete)(struct opt *o);
};
#define OPT_GROUP(heading)                                                                         \
    {                                                                                              \
        .kind = OPT_KIND_GROUP, .name = heading                                                    \
    }
#define OPT_FLAG(letter_, name_, at_, help_)                                                       \
    {                                                                                              \
        .kind = OPT_KIND_FLAG, .letter = letter_, .name = name_, .at.flag = at_, .help = help_     \
    }
#define OPT_TEXT(letter_, name_, at_, value_, help_)                                               \
    {                                                                                              \
        .kind = OPT_KIND_TEXT, .letter = letter_, .name = name_, .at.text = at_, .value = value_,  \
        .help = help_                                                                              \
    }
#define OPT_INT(letter_, name_, at_, min_, max_, value_, help_)                                    \
    {                                                                                              \
        .kind = OPT_KIND_INT, .letter = letter_, .name = name_, .at.integer = at_, .min = min_,    \
        .max = max_, .value = value_, .help = help_                                                \
    }
#define OPT_REAL(letter_, name_, at_, value_, help_)                                               \
    {                                                                                              \
        .kind = OPT_KIND_REAL, .letter = letter_, .name = name_, .at.real = at_, .value = value_,  \
        .help = help_                                                                              \
    }
#define OPT_CHOICE(letter_, name_, at_, choices_, value_, help_)                                   \
    {                                                                                              \
        .kind = OPT_KIND_CHOICE, .letter = letter_, .name = name_, .at.choice = at_,               \
        .choices = choices_, .value = value_, .help = help_                                        \
    }
#define OPT_CHOICE_LISTED(letter_, name_, at_, complete_, value_)                                  \
    {                                                                                              \
        .kind = OPT_KIND_CHOICE, .letter = letter_, .name = name_, .at.choice = at_,               \
        .complete = complete_, .value = value_                                                     \
    }
#define OPT_WORDS(letter_, name_, at_, value_, help_)                                              \
    {                                                                                              \
        .kind = OPT_KIND_WORDS, .letter = letter_, .name = name_, .at.words = at_,                 \
        .value = value_, .help = help_                                                             \
    }
#define OPT_END                                                                                    \
    {                                                                                              \
        .kind = OPT_KIND_END                                                                       \
    }

// Shared options that a command has in addition to its own: the bits of cmd.uses.
enum {
    USES_MODEL = 1 << 0,     // -m, --model DIR
    USES_OUTPUT = 1 << 1,    // --force
    USES_JSON = 1 << 2,      // --json
    USES_THREADS = 1 << 3,   // --threads N
    SIGNED_WORDS = 1 << 4,   // "-word" is an operand; a value does not follow its letter directly
    USES_PRECISION = 1 << 5, // --precision P
    USES_ABLATE = 1 << 6,    // --ablate HEADS
    USES_COMPUTE = USES_THREADS | USES_PRECISION
};
struct cmd_common {
    const char *model; // folder given with --model; NULL: cmd_model_find finds one
    qkv_precision precision;
    bool json, force, help;
    struct qkv_ablation *ablate; // heads of --ablate [ablations]
    int64_t ablations;
};
extern struct cmd_common common;

struct cmd {
    const char *name;
    const char *brief; // one line of `qkv help`, without a full stop
    // Operands and options in short: "TEXT [TEXT_B] [options]"; a line break separates alternative
    // forms
    const char *usage;
    const char *about; // paragraphs separated by \n\n; the help wraps them
    const struct opt *opts;
    unsigned uses;
    int min_args, max_args; // number of operands; max_args -1: no upper limit
    struct {
        const char *line, *what;
    } examples[6];                     // examples of the help, at least two
    int (*run)(int argc, char **argv); // runs the command; argv has only the operands
};
#define COMMAND(name) extern const struct cmd cmd_##name;
#include "command.def"
#undef COMMAND
extern const struct cmd *const cmd_table[]; // all commands; the list ends with NULL

// Writes the values of the options in argv[argc] to their destinations, and moves the operands, of
// which there are *operands, to the front of argv.
qkv_status cmd_options(const struct cmd *c, int argc, char **argv, int *operands, qkv_error *err);
// Returns the name in names[] (a list that ends with NULL) most similar to `word`; NULL: no name is
// similar.
const char *cmd_nearest(const char *word, const char *const *names);
// Writes all options of a command, its own before the shared ones, to out[OPTS_MAX].  The list ends
// with OPT_END.
enum { OPTS_MAX = 96 };
void cmd_all_options(const struct cmd *c, struct opt *out);

// Parses an integer, -?(0|[1-9][0-9]*).  Returns false if the text has another form or the number
// is out of range.
bool cmd_parse_int(const char *text, int64_t *out);
// Parses a number, -?digits[.digits][e[+-]digits].  Returns false in the same cases.
bool cmd_parse_real(const char *text, double *out);
// Returns the options for opening a model, from the values of --precision and --ablate.
struct qkv_model_options cmd_model_options(void);
// Writes the heads of --ablate to out[size], separated by commas; "" if --ablate is not given.
char *cmd_ablated(char *out, size_t size);
// Prints the member ,"ablate":["L3.H5=zero"] of a JSON object, if --ablate is given.
void cmd_json_ablated(FILE *to);
// Parses a list such as "8,3,11" to a new array, which the caller frees.  QKV_ERR_USAGE: err names
// the option and the wrong part of the list.
qkv_status cmd_parse_ints(const char *option, const char *text, int64_t min, int64_t max,
                          int64_t **out, int64_t *count, qkv_error *err);

// ---- help (help.c) -----------------------------------------------------------------------------
void cmd_help_all(FILE *to);
void cmd_help_one(FILE *to, const struct cmd *c);
void cmd_help_man(FILE *to, const struct cmd *c); // in roff; c NULL: the page qkv(1)
void cmd_help_completion(FILE *to, int shell);    // shell: index in cmd_shells
extern const char *const cmd_shells[];

// ---- errors and notes (messages.c): all on stderr ----------------------------------------------
// Fills err (control bytes escaped) unless it contains an error already.  Returns status.
qkv_status cmd_error(qkv_error *err, qkv_status status, const char *file, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Prints an error as "qkv: FILE: ...", or with --json as an object.  Returns the exit code.
int cmd_fail(const qkv_error *err);
// Checks that all output to `to` was written; QKV_ERR_IO: the disk is full or the pipe is closed.
// Call it after each section of a long output, so that the rest is not computed in vain.
qkv_status cmd_written(FILE *to, const char *name, qkv_error *err);
// Prints "qkv: note: ..." on stderr, if the command did something that the user may not expect.
void cmd_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Allocates memory aligned to 64 bytes, not zeroed.  If memory is too small, the command ends with
// exit code 5.
void *cmd_alloc(size_t count, size_t size);
// Grows p to count * size bytes, as realloc does.  p is NULL or was allocated by malloc.
void *cmd_grow(void *p, size_t count, size_t size);

// ---- progress and Ctrl-C (progress.c, signals.c) -----------------------------------------------
// Returns callbacks that show the progress of a long call, if stderr is a terminal and --json is
// not given.  unit: the things that are counted, such as "texts".  Until cmd_progress_end, Ctrl-C
// makes the call return QKV_ERR_INTERRUPTED (exit code 130); otherwise Ctrl-C ends the command at
// once.
struct qkv_progress cmd_progress_begin(const char *unit);
// Sets the progress of a job of several calls: units done before the next call, and in total (-1:
// not known).
void cmd_progress_piece(int64_t done, int64_t total);
void cmd_progress_end(void);
// Returns whether it is time to print a progress line of the command's own.
bool cmd_progress_due(void);
// Prints a progress line of the command's own, cut at the width of the terminal.
void cmd_progress_line(const char *text);
// Writes a duration as "1 h 02 min", "3 min 20 s" or "12 s".
void cmd_duration(char *out, size_t size, double seconds);
void cmd_progress_clear(void); // removes the progress line before other output
bool cmd_interrupted(void);

// ---- terminal and JSON (print.c) ---------------------------------------------------------------
// Returns the width of stdout in columns, between 20 and 500: the variable COLUMNS; if it is not
// set, the width of the terminal; if stdout is no terminal, 80.
int cmd_columns(void);
// Returns whether to print colors: `to` is a terminal, TERM is not dumb, and NO_COLOR is not set.
bool cmd_color(FILE *to);
bool cmd_utf8(void); // returns whether the locale is UTF-8
bool cmd_dark(void); // returns whether the background is dark, according to COLORFGBG
// Returns the width of a text in columns; a control byte, printed as \xNN, has 4.
int cmd_width(const char *text, size_t bytes);
// Prints a text in at least |width| columns (width < 0: right-aligned), with control bytes escaped.
// A text longer than `most` columns (0: no limit) is cut and ends with "...".
void cmd_print_cell(FILE *to, const char *text, size_t bytes, int width, int most);
// Prints a text as a JSON string: quoted, escaped, invalid UTF-8 replaced by U+FFFD.
void cmd_json_text(FILE *to, const char *text, size_t bytes);
// Returns a copy of a text from a file, with invalid UTF-8 replaced by U+FFFD.  The caller frees
// it.
char *cmd_valid_text(const char *text);
// Prints a float as a JSON number, with the fewest digits (at most 9) that read back as the same
// float; null if the float is not finite.
void cmd_json_float(FILE *to, float x);

// ---- models, files (files.c) -------------------------------------------------------------------
enum { CMD_PATH = 4096 };
// Finds the model's folder: the one of --model; else the one of the variable QKV_MODEL; else the
// first default folder that exists.
qkv_status cmd_model_find(char dir[CMD_PATH], qkv_error *err);
// Finds the folder of a second model, named `model`; NULL: the same folder as cmd_model_find.
qkv_status cmd_model_find_named(char dir[CMD_PATH], const char *model, qkv_error *err);
// Finds the folder of `model` (NULL: of --model); if neither is given, that of QKV_MODEL, or the
// first default folder whose model supports the job.
qkv_status cmd_model_find_for(enum qkv_job job, char dir[CMD_PATH], const char *model,
                              qkv_error *err);
// Reads a whole file; path "-": stdin.  The caller frees *text.
qkv_status cmd_read_file(char **text, size_t *bytes, const char *path, qkv_error *err);

// Replaces *path "-" by the name of standard output.  Refuses a terminal, because the output is
// binary.
qkv_status cmd_output_stdout(const char **path, qkv_error *err);
// Returns whether path is the name of standard output.
bool cmd_is_stdout(const char *path);
bool cmd_ends_with(const char *path, const char *ending); // ending: such as ".svg"
// Returns whether path is a device, a pipe or an open descriptor: these are written in place, never
// replaced by a new file.
bool cmd_output_direct(const char *path);
// Checks, before any computation, that `path` may become an output.  QKV_ERR_USAGE: the file exists
// and --force is not given, or it is one of inputs[count] or another output. QKV_ERR_IO: its folder
// is missing or not writable.  Registers the temporary file NAME.tmp.PID, which is removed when a
// signal ends the command.
qkv_status cmd_output_check(const char *path, const char *const *inputs, int count, qkv_error *err);

// An output file that is written completely or not at all: the data goes to NAME.tmp.PID, which is
// then renamed.  An output that is written in place (cmd_output_direct) has no temporary file and
// cannot be searched.
struct cmd_file {
    FILE *to;
    char *path, *temp;
};
qkv_status cmd_file_open(struct cmd_file *f, const char *path, qkv_error *err);
qkv_status cmd_file_commit(struct cmd_file *f, qkv_error *err);
// Removes an unfinished output.  Has no effect on a zeroed struct or after cmd_file_commit.
void cmd_file_abort(struct cmd_file *f);

// Reads a file line by line (path "-": stdin), without the newline and a carriage return before it.
struct cmd_lines {
    FILE *from;
    const char *path;
    char *line;
    size_t capacity;
    int64_t number;     // number of the last line read, from 1
    int64_t done, size; // bytes read so far; bytes of the file (-1: not known)
};
qkv_status cmd_lines_open(struct cmd_lines *l, const char *path, qkv_error *err);
// Reads the next line; sets *bytes to -1 at the end of the file.  The line is valid until the next
// call and ends with NUL.
qkv_status cmd_lines_next(struct cmd_lines *l, int64_t *bytes, qkv_error *err);
void cmd_lines_close(struct cmd_lines *l);

// Texts of a command: its operands, then the lines of the input file (NULL: no file).
struct cmd_texts {
    char **text;
    size_t *bytes;
    int64_t count, capacity;
};
void cmd_texts_add(struct cmd_texts *t, const char *text, size_t bytes); // copies the text
qkv_status cmd_texts_read(struct cmd_texts *t, int argc, char **argv, const char *file,
                          qkv_error *err);
void cmd_texts_free(struct cmd_texts *t);

#endif
