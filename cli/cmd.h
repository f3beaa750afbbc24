// SPDX-License-Identifier: MIT
// cmd.h: the frame of the command: all that a cmd_<name>.c may use beside <qkv/qkv.h>.
//
// A command is a row of command.def and a file that defines `const struct cmd cmd_<name>`: its
// words for the help, its options, its run.  main.c writes the options into the file's own statics,
// checks the number of operands and calls run; run's result is the exit code (a qkv_status).
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
    OPT_KIND_GROUP,  // a heading in the help
    OPT_KIND_FLAG,   // --name
    OPT_KIND_TEXT,   // --name VALUE, any text but ""
    OPT_KIND_INT,    // --name N, canonical decimal between min and max
    OPT_KIND_REAL,   // --name X, decimal, finite
    OPT_KIND_CHOICE, // --name WORD, one of choices
    OPT_KIND_WORDS   // --name VALUE, any text but "", as often as wanted
};
// What an option had that may be given several times, in order.
struct cmd_words {
    const char **text;
    int64_t count;
};
struct opt {
    enum opt_kind kind;
    char letter;      // 0: no short form
    const char *name; // long form without dashes; of a group: the heading
    union {           // where the value goes; untouched when the option is not given
        bool *flag;
        const char **text;
        int64_t *integer;
        double *real;
        int *choice; // index in choices
        struct cmd_words *words;
    } at;
    const char *value;          // how the help calls the value: "DIR"
    const char *help;           // one phrase, the default in brackets
    int64_t min, max;           // OPT_KIND_INT
    const char *const *choices; // OPT_KIND_CHOICE, ends with NULL
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
#define OPT_WORDS(letter_, name_, at_, value_, help_)                                              \
    {                                                                                              \
        .kind = OPT_KIND_WORDS, .letter = letter_, .name = name_, .at.words = at_,                 \
        .value = value_, .help = help_                                                             \
    }
#define OPT_END                                                                                    \
    {                                                                                              \
        .kind = OPT_KIND_END                                                                       \
    }

// Options that commands share, parsed beside their own; which ones: the bits of cmd.uses.
enum {
    USES_MODEL = 1 << 0,   // -m, --model DIR
    USES_OUTPUT = 1 << 1,  // --force
    USES_JSON = 1 << 2,    // --json
    USES_THREADS = 1 << 3, // --threads N
    SIGNED_WORDS = 1 << 4, // "-word" is an operand; options of one letter take no value behind them
    USES_PRECISION = 1 << 5, // --precision P
    USES_ABLATE = 1 << 6,    // --ablate HEADS
    USES_COMPUTE = USES_THREADS | USES_PRECISION
};
struct cmd_common {
    const char *model; // as given, NULL: find one (cmd_model_find)
    qkv_precision precision;
    bool json, force, help;
    struct qkv_ablation *ablate; // [ablations] of --ablate
    int64_t ablations;
};
extern struct cmd_common common;

struct cmd {
    const char *name;
    const char *brief; // one line of `qkv help`, no full stop
    // Operands and options in short: "TEXT [TEXT_B] [options]"; \n: one more form
    const char *usage;
    const char *about; // paragraphs, \n\n between them; wrapped by the help
    const struct opt *opts;
    unsigned uses;
    int min_args, max_args; // number of operands; max -1: any
    struct {
        const char *line, *what;
    } examples[6];                     // at least two
    int (*run)(int argc, char **argv); // operands only
};
#define COMMAND(name) extern const struct cmd cmd_##name;
#include "command.def"
#undef COMMAND
extern const struct cmd *const cmd_table[]; // ends with NULL

// Writes options of argv[argc] into their places; operands are moved to the front, *operands of
// them.
qkv_status cmd_options(const struct cmd *c, int argc, char **argv, int *operands, qkv_error *err);
// The name of names[] (ends with NULL) nearest to word, NULL: none is near.
const char *cmd_nearest(const char *word, const char *const *names);
// All options of a command, shared ones behind its own; out must hold OPTS_MAX.  Ends with OPT_END.
enum { OPTS_MAX = 96 };
void cmd_all_options(const struct cmd *c, struct opt *out);

// Strict grammars: -?(0|[1-9][0-9]*) and -?digits[.digits][e[+-]digits]; false: not that, or too
// big.
bool cmd_parse_int(const char *text, int64_t *out);
bool cmd_parse_real(const char *text, double *out);
// How every command opens a model: --precision, --ablate.
struct qkv_model_options cmd_model_options(void);
// The heads of --ablate as they are named, commas between them, into out[size]; "" without.
char *cmd_ablated(char *out, size_t size);
// ,"ablate":["L3.H5=zero"] of a JSON object; nothing without --ablate.
void cmd_json_ablated(FILE *to);
// "8,3,11" into a new array (free it); QKV_ERR_USAGE names the option and the part that is wrong.
qkv_status cmd_parse_ints(const char *option, const char *text, int64_t min, int64_t max,
                          int64_t **out, int64_t *count, qkv_error *err);

// ---- help (help.c) -----------------------------------------------------------------------------
void cmd_help_all(FILE *to);
void cmd_help_one(FILE *to, const struct cmd *c);
void cmd_help_man(FILE *to, const struct cmd *c); // roff; c NULL: qkv(1)
void cmd_help_completion(FILE *to, int shell);    // index in cmd_shells
extern const char *const cmd_shells[];

// ---- errors and notes (say.c): all on stderr ---------------------------------------------------
// Fills err (control bytes escaped) unless it holds an error already.  Returns status.
qkv_status cmd_error(qkv_error *err, qkv_status status, const char *file, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Prints the error, "qkv: FILE: ...", with --json as an object.  Returns the exit code.
int cmd_fail(const qkv_error *err);
// Has all that was printed to `to` arrived?  A full disk or a closed pipe is QKV_ERR_IO.  After
// each part of a long output: hours may lie between, and the rest would be made for nobody.
qkv_status cmd_written(FILE *to, const char *name, qkv_error *err);
// "qkv: note: ..." on stderr: something was done that the user may not expect.
void cmd_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Memory aligned to 64 bytes, not zeroed; without memory the command ends with exit code 5.
void *cmd_alloc(size_t count, size_t size);
// p grown to count * size bytes as realloc does (p from malloc, or NULL).
void *cmd_grow(void *p, size_t count, size_t size);

// ---- progress and Ctrl-C (progress.c, signals.c) -----------------------------------------------
// For long calls.  Shown only where stderr is a terminal, without --json.
// unit: what is counted, "texts".  Between begin and end an interrupt is answered by the callback
// (QKV_ERR_INTERRUPTED, exit 130); outside of it the command ends at once.
struct qkv_progress cmd_progress_begin(const char *unit);
// A job of several calls: done before the next call, total of the job (-1: not known).
void cmd_progress_piece(int64_t done, int64_t total);
void cmd_progress_end(void);
// A line of the command's own: is it time for one, and that line, cut to the terminal's width.
bool cmd_progress_due(void);
void cmd_progress_line(const char *text);
// "1 h 02 min", "3 min 20 s", "12 s"
void cmd_duration(char *out, size_t size, double seconds);
void cmd_progress_clear(void); // takes the line away before something else is said
bool cmd_interrupted(void);

// ---- terminal and JSON (print.c) ---------------------------------------------------------------
int cmd_columns(void);    // of stdout: COLUMNS, the terminal, else 80; 20..500
bool cmd_color(FILE *to); // a terminal, TERM not dumb, no NO_COLOR
bool cmd_utf8(void);      // the locale's characters are UTF-8
bool cmd_dark(void);      // the terminal's ground, as COLORFGBG says it
int cmd_width(const char *text,
              size_t bytes); // columns that the text takes, control bytes 4 (\xNN)
// text in at least `width` columns (negative: text to the right); control bytes escaped; longer
// text is cut with "..." at `most` columns (0: never).
void cmd_print_cell(FILE *to, const char *text, size_t bytes, int width, int most);
// "text" as a JSON string: quotes, escapes, invalid UTF-8 as U+FFFD.
void cmd_json_text(FILE *to, const char *text, size_t bytes);
// text with U+FFFD in place of what is no UTF-8, for strings of file formats; free it.
char *cmd_valid_text(const char *text);
// A float as JSON: shortest of up to 9 digits that reads back the same; null when not finite.
void cmd_json_float(FILE *to, float x);

// ---- models, files (files.c) -------------------------------------------------------------------
enum { CMD_PATH = 4096 };
// The model's folder: --model, QKV_MODEL, or the first found.
qkv_status cmd_model_find(char dir[CMD_PATH], qkv_error *err);
// ... or the first that can do a job.
qkv_status cmd_model_find_for(enum qkv_job job, char dir[CMD_PATH], qkv_error *err);
// A file whole, "-" is stdin; free it.
qkv_status cmd_read_file(char **text, size_t *bytes, const char *path, qkv_error *err);

// "-" in *path becomes the name of standard output; refused where that is a terminal (the bytes are
// no text).
qkv_status cmd_output_stdout(const char **path, qkv_error *err);
// The name that standard output has by then?
bool cmd_is_stdout(const char *path);
bool cmd_ends_with(const char *path, const char *ending); // ".svg"
// Is path a device, a pipe or an open descriptor: written in place, never replaced?
bool cmd_output_direct(const char *path);
// Before any compute: may `path` become an output?  QKV_ERR_USAGE: exists without --force, is one
// of inputs[] (ends with NULL; NULL and "-" in front are skipped by the caller) or another output;
// QKV_ERR_IO: its folder is missing or refuses.  Also has NAME.tmp.PID removed if a signal ends us.
qkv_status cmd_output_check(const char *path, const char *const *inputs, int count, qkv_error *err);

// A text or binary file written whole or not at all: NAME.tmp.PID, then renamed; what is written in
// place (cmd_output_direct) has no second name and cannot be searched.
struct cmd_file {
    FILE *to;
    char *path, *temp;
};
qkv_status cmd_file_open(struct cmd_file *f, const char *path, qkv_error *err);
qkv_status cmd_file_commit(struct cmd_file *f, qkv_error *err);
void cmd_file_abort(struct cmd_file *f); // zeroed struct is fine; after commit: nothing

// Lines of a file, "-" is stdin; without the newline and a carriage return before it.
struct cmd_lines {
    FILE *from;
    const char *path;
    char *line;
    size_t capacity;
    int64_t number;     // of the line last read, from 1
    int64_t done, size; // bytes read, bytes in all (-1: not known)
};
qkv_status cmd_lines_open(struct cmd_lines *l, const char *path, qkv_error *err);
// *bytes = -1 at the end.  The line is valid until the next call and ends with NUL.
qkv_status cmd_lines_next(struct cmd_lines *l, int64_t *bytes, qkv_error *err);
void cmd_lines_close(struct cmd_lines *l);

// Texts of a command: operands, then the lines of file (NULL: none).  Free with cmd_texts_free.
struct cmd_texts {
    char **text;
    size_t *bytes;
    int64_t count, capacity;
};
void cmd_texts_add(struct cmd_texts *t, const char *text, size_t bytes); // copies
qkv_status cmd_texts_read(struct cmd_texts *t, int argc, char **argv, const char *file,
                          qkv_error *err);
void cmd_texts_free(struct cmd_texts *t);

#endif
