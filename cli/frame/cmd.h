// SPDX-License-Identifier: MIT
// cmd.h: declares the functions that the file of a command, cmd_<name>.c, may use in addition to
// <qkv/qkv.h>.
//
// A command is a row of command.def and a file that defines `const struct cmd cmd_<name>`: the text
// of its help, its options and its run function.  main.c parses the options into static variables
// of that file, checks the number of operands, and calls the run function. The result of the run
// function, a qkv_status, is the exit code.
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
    OPT_KIND_GROUP,  // no option, but a heading in the help
    OPT_KIND_FLAG,   // --name
    OPT_KIND_TEXT,   // --name VALUE: any text except ""
    OPT_KIND_INPUT,  // --name FILE: a text that may name a file or folder that the command reads
    OPT_KIND_OUTPUT, // --name FILE: a text that names a file or folder that the command writes
    OPT_KIND_INT,    // --name N: a decimal integer from min to max
    OPT_KIND_REAL,   // --name X: a finite decimal number
    OPT_KIND_CHOICE, // --name WORD: one of `choices`
    OPT_KIND_WORDS   // --name VALUE: any text except ""; may be repeated
};
// The values of an option that may be repeated, in the order in which they are given.
struct cmd_words {
    const char **text;
    int64_t count;
};
struct opt {
    enum opt_kind kind;
    char letter;      // letter of the short form, such as 'o'; 0: no short form
    const char *name; // long form without dashes; for OPT_KIND_GROUP, the heading
    union {           // where the value is stored; not changed if the option is not given
        bool *flag;
        const char **text;
        int64_t *integer;
        double *real;
        int *choice; // index in `choices` of the given word
        struct cmd_words *words;
    } at;
    const char *value;          // what the help calls the value, such as "DIR"
    const char *help;           // help of the option, one phrase; the default is in parentheses
    int64_t min, max;           // for OPT_KIND_INT: smallest and largest value
    const char *const *choices; // for OPT_KIND_CHOICE: the words; the list ends with NULL
    // If not NULL, cmd_all_options() calls it to set `choices` and `help` from a list that the
    // library has.
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
// OPT_TEXT for a file or folder that the command reads or writes: cmd_options() refuses an output
// that is an input.
#define OPT_INPUT(letter_, name_, at_, value_, help_)                                              \
    {                                                                                              \
        .kind = OPT_KIND_INPUT, .letter = letter_, .name = name_, .at.text = at_, .value = value_, \
        .help = help_                                                                              \
    }
#define OPT_OUTPUT(letter_, name_, at_, value_, help_)                                             \
    {                                                                                              \
        .kind = OPT_KIND_OUTPUT, .letter = letter_, .name = name_, .at.text = at_,                 \
        .value = value_, .help = help_                                                             \
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

// Options that several commands share. cmd.uses says which of them a command has.
enum {
    USES_MODEL = 1 << 0,   // the command has -m, --model DIR
    USES_OUTPUT = 1 << 1,  // --force
    USES_JSON = 1 << 2,    // --json
    USES_THREADS = 1 << 3, // --threads N
    // an operand may begin with a dash ("-word"), so "-oFILE" must be written as "-o FILE"
    SIGNED_WORDS = 1 << 4,
    USES_PRECISION = 1 << 5, // --precision P
    USES_ABLATE = 1 << 6,    // the command has --ablate HEADS
    READS_OPERANDS = 1 << 7, // the operands are files or folders that the command reads
    USES_RANKS = 1 << 8,     // the command runs on the ranks that mpirun started
    USES_PROCESSES = 1 << 9, // each process that mpirun started runs the command alone
    USES_COMPUTE = USES_THREADS | USES_PRECISION
};
enum { CMD_PATH = 4096 }; // bytes of a path
struct cmd_common {
    const char *model;    // value of --model; NULL: cmd_model_find() looks for a model
    char found[CMD_PATH]; // the first model folder that was found; "": none
    qkv_precision precision;
    bool json, force, help, quiet;
    struct qkv_ablation *ablate; // [ablations] the heads that --ablate names
    int64_t ablations;
};
extern struct cmd_common common;

struct cmd {
    const char *name;
    const char *brief; // description in one line for `qkv help`, without a full stop
    // operands and options in short, such as "TEXT [TEXT_B] [options]"; alternative forms are
    // separated by \n
    const char *usage;
    // description for the help; paragraphs are separated by \n\n, and the help breaks the lines
    const char *about;
    const struct opt *opts;
    unsigned uses;
    int min_args, max_args; // number of operands; max_args -1: no maximum
    struct {
        const char *line, *what;
    } examples[6];                     // examples for the help, at least two
    int (*run)(int argc, char **argv); // runs the command; argv contains only the operands
};
#define COMMAND(name) extern const struct cmd cmd_##name;
#include "command.def"
#undef COMMAND
extern const struct cmd *const cmd_table[]; // all commands; the list ends with NULL

// Parses argv[argc]: stores the values of options, and moves the operands to the front of argv.
// Sets *operands to their number.
qkv_status cmd_options(const struct cmd *c, int argc, char **argv, int *operands, qkv_error *err);
// Frees the lists of options that may be repeated, at the end of the program.
void cmd_options_free(void);
// Returns the name of the first option that is given and has none of these names; NULL: there is
// none.  The list ends with NULL.
const char *cmd_option_besides(const char *const *names);
// Returns the name that is most similar to `word`; NULL: no name is similar. The list names[] ends
// with NULL.
const char *cmd_nearest(const char *word, const char *const *names);
enum { OPTS_MAX = 96 };
// Writes all options of a command to out[OPTS_MAX]: its own, then the shared ones.  The list ends
// with OPT_END.
void cmd_all_options(const struct cmd *c, struct opt *out);

// Parses an integer of the form -?(0|[1-9][0-9]*).  Returns false if the text has another form or
// the number does not fit into an int64_t.
bool cmd_parse_int(const char *text, int64_t *out);
// Parses a number of the form -?digits[.digits][e[+-]digits].  Returns false if the text has
// another form or the number is too large.
bool cmd_parse_real(const char *text, double *out);
// Returns the options for opening a model that the values of --precision and --ablate result in.
struct qkv_model_options cmd_model_options(void);
// Writes the value of --ablate to out[size], heads separated by commas; "" if it is not given.
char *cmd_ablated(char *out, size_t size);
// Prints the members of a JSON object that say what computed it, without a comma before or after:
// "model", the folder that was found (none if none was), "precision" and, if --ablate is given,
// "ablate".
void cmd_json_computed(FILE *to);
// If --ablate is given, prints a member of a JSON object, such as ,"ablate":["L3.H5=zero"].
void cmd_json_ablated(FILE *to);
// Parses a list such as "8,3,11" to a new array, which the caller frees.  Returns QKV_ERR_USAGE if
// the list is invalid; err names the option and the wrong part.
qkv_status cmd_parse_ints(const char *option, const char *text, int64_t min, int64_t max,
                          int64_t **out, int64_t *count, qkv_error *err);

// ---- help (help.c) -----------------------------------------------------------------------------
void cmd_help_all(FILE *to);
void cmd_help_one(FILE *to, const struct cmd *c);
// prints a man page in roff; c NULL: the page of qkv itself
void cmd_help_man(FILE *to, const struct cmd *c);
// prints shell completion; shell: index in cmd_shells
void cmd_help_completion(FILE *to, int shell);
extern const char *const cmd_shells[];

// ---- errors and notes (messages.c), which are printed on stderr --------------------------------
// Returns the status of a file operation that failed with this errno value: QKV_ERR_LIMIT for
// ENOMEM, otherwise QKV_ERR_IO.
qkv_status cmd_io_status(int code);
// Fills err with a message, whose control bytes are escaped, unless err already has one.  Returns
// `status`.
qkv_status cmd_error(qkv_error *err, qkv_status status, const char *file, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
qkv_status cmd_no_memory(qkv_error *err); // QKV_ERR_LIMIT: "out of memory"
// Returns QKV_ERR_INTERNAL if one of the numbers x[n] is NaN or infinite: "NAME is not finite, ...".
qkv_status cmd_check_finite(const float *x, int64_t n, const char *name, qkv_error *err);
// Prints an error as "qkv: FILE: ..." or, with --json, as a JSON object; nothing if the reader of
// standard output has closed it.  Returns the exit code.
int cmd_fail(const qkv_error *err);
// Checks that all output to `to` was written. Returns QKV_ERR_IO if not (the disk is full, or the
// pipe is closed). A command calls it after each section of a long output, and stops after an
// error.
qkv_status cmd_written(FILE *to, const char *name, qkv_error *err);
// Prints "qkv: note: ..." on stderr, when the command does something that the user may not expect.
void cmd_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Allocates memory that is aligned to 64 bytes and not zeroed.  If memory is exhausted, the command
// ends with exit code 5.
void *cmd_alloc(size_t count, size_t size);
// Changes the size of p to count * size bytes, as realloc() does. p is NULL or from malloc().
void *cmd_grow(void *p, size_t count, size_t size);
// Is called, if it is not NULL, with the error when memory is exhausted: ends the other ranks, too.
extern void (*cmd_memory_hook)(const qkv_error *err);

// ---- progress and Ctrl-C (progress.c, signals.c) -----------------------------------------------
// Returns callbacks that show the progress of a long call; they show nothing if stderr is no
// terminal or with --json.  unit: what is counted, such as "texts".  Until cmd_progress_end(),
// Ctrl-C makes the call return QKV_ERR_INTERRUPTED (exit code 130); after it, Ctrl-C ends the
// command at once.
struct qkv_progress cmd_progress_begin(const char *unit);
// For a job of several calls: sets how many units were done before the next call, and how many
// there are in total (-1: not known).
void cmd_progress_piece(int64_t done, int64_t total);
void cmd_progress_end(void);
// Returns true if enough time has passed to print the next progress line of the command.
bool cmd_progress_due(void);
// The same for a log on stderr where no progress lines are shown, without --json: a line every 20
// seconds.
bool cmd_progress_log_due(void);
// Prints the text as a progress line, cut to the width of the terminal.
void cmd_progress_line(const char *text);
double cmd_seconds(void); // of a clock that is never set
// Writes a duration such as "1 h 02 min", "3 min 20 s" or "12 s".
void cmd_duration(char *out, size_t size, double seconds);
void cmd_progress_clear(void); // removes the progress line; call it before printing other output
bool cmd_interrupted(void);

// ---- terminal and JSON (print.c) ---------------------------------------------------------------
// Returns the width of the output in columns, at least 20 and at most 500: the value of the
// variable COLUMNS; if it is not set, the width of the terminal; if stdout is no terminal, 80.
int cmd_columns(void);
// Returns true if colors can be printed: `to` is a terminal, TERM is not dumb, and NO_COLOR is not
// set.
bool cmd_color(FILE *to);
bool cmd_utf8(void); // returns true if the locale uses UTF-8
bool cmd_dark(void); // returns true if the variable COLORFGBG says that the background is dark
// Returns the width of a text in columns. A control byte is printed as \xNN and has 4 columns.
int cmd_width(const char *text, size_t bytes);
// Prints a text in a cell of at least |width| columns, right-aligned if width < 0, with control
// bytes escaped. A text of more than `most` columns is cut and ends with "..."; most 0: no limit.
void cmd_print_cell(FILE *to, const char *text, size_t bytes, int width, int most);
// Returns the length of the character at text[bytes], bytes > 0, if a terminal could execute it or
// if it changes the writing direction: C0, DEL and C1 controls, also as bytes that are no
// UTF-8; U+061C, U+200E, U+200F, U+2028..E and U+2066..9.  Returns 0 for any other character.
size_t cmd_control_bytes(const char *text, size_t bytes);
// Prints a text of a model or a file. On a terminal, control characters except newline and tab, and
// characters that change the writing direction, are escaped; otherwise every byte is unchanged.
void cmd_print_text(FILE *to, const char *text, size_t bytes);
// Prints the name of a file or folder: on a terminal escaped as in a cell, otherwise unchanged.
void cmd_print_name(FILE *to, const char *name);
// Writes a number of bytes for a table, such as "1.5 kB" (unit 1000) or "1.5 KiB" (unit 1024), to
// out and returns out.
enum { CMD_BYTES = 16 };
const char *cmd_bytes(char out[CMD_BYTES], double x, int unit);
// Prints a text as a JSON string. Invalid UTF-8 is replaced by U+FFFD.
void cmd_json_text(FILE *to, const char *text, size_t bytes);
// Returns a copy of a text, in which invalid UTF-8 is replaced by U+FFFD.  The caller frees it.
char *cmd_valid_text(const char *text);
// Writes n >= 0 in subscript digits, "₁₂", to out and returns out: the place of a word that occurs
// more than once.
enum { CMD_SUBSCRIPT = 64 };
char *cmd_subscript(char out[CMD_SUBSCRIPT], int64_t n);
// Prints a float as a JSON number, with the fewest digits (at most 9) from which the same float is
// read. A float that is not finite becomes null.
void cmd_json_float(FILE *to, float x);
// Prints a member that follows another, such as ,"loss":1.5, with 9 digits. A number that is not
// finite becomes null.
void cmd_json_number(FILE *to, const char *name, double x);
// A number with its index in an array.
struct cmd_ranked {
    float value;
    int64_t index;
};
// Writes r[n], the numbers x[n] from the largest to the smallest, equal ones by their index.  No
// number may be NaN.
void cmd_rank(struct cmd_ranked *r, const float *x, int64_t n);

// ---- models, files (files.c, outputs.c) --------------------------------------------------------
// Finds the folder of the model: the value of --model; if it is not given, the value of the
// variable QKV_MODEL; if that is not set, the first default folder that exists.  A value may also
// be a name, org/name[@revision], of a model in the cache of the Hugging Face Hub.
qkv_status cmd_model_find(char dir[CMD_PATH], qkv_error *err);
// Finds the folder of a second model, which `model` names; model NULL: finds the folder that
// cmd_model_find() finds.
qkv_status cmd_model_find_named(char dir[CMD_PATH], const char *model, qkv_error *err);
// Finds a model folder for a job: `model`, or the value of --model if `model` is NULL. If neither
// is given, the value of QKV_MODEL or the first default folder whose model supports the job.
qkv_status cmd_model_find_for(enum qkv_job job, char dir[CMD_PATH], const char *model,
                              qkv_error *err);
// If nothing has the path, but the cache has a model of this name, replaces *path by `dir`, the
// folder of the model, and adds it to the inputs.
qkv_status cmd_model_path(const char **path, char dir[CMD_PATH], qkv_error *err);
// Reads a whole file; path "-" means standard input.  The caller frees *text.
qkv_status cmd_read_file(char **text, size_t *bytes, const char *path, qkv_error *err);

// If *path is "-", replaces it by the name of standard output. Fails if that is a terminal, because
// the output is binary.
qkv_status cmd_output_stdout(const char **path, qkv_error *err);
// Returns true if path is the name of standard output.
bool cmd_is_stdout(const char *path);
bool cmd_ends_with(const char *path, const char *ending); // ending: such as ".svg"
// Returns true if path is a device, a pipe or an open descriptor: such a file is written directly,
// never replaced by a new file.
bool cmd_output_direct(const char *path);
// Adds a file or folder that the command reads to its inputs.  Returns QKV_ERR_USAGE if it is also
// an output: the same file, by device and inode; the same folder; a folder that contains the input;
// or one of the files of a model in an input folder.
qkv_status cmd_input_add(const char *path, qkv_error *err);
// Tells that the command has completed a folder, which the note of cmd_outputs_note() then names.
void cmd_output_complete(const char *folder);
// Frees the names of all inputs and outputs, at the end of the program.
void cmd_paths_free(void);
// Adds a file or folder that the command writes, and compares it with the inputs in the same way.
qkv_status cmd_output_add(const char *path, qkv_error *err);
// Checks that the output file `path` can be written. Called before the command computes anything.
// Returns QKV_ERR_USAGE if the file exists and --force is not given, or if it is an input or
// another output; QKV_ERR_IO if its folder is missing or not writable.
qkv_status cmd_output_check(const char *path, qkv_error *err);
// After an error: prints a note for each output file that the command had already written.
void cmd_outputs_note(void);

// An output file, which qkv_writer_open() creates, so that the output is complete or not changed.
// If cmd_output_direct() is true for the path, data is written to it directly.
struct cmd_file {
    FILE *to;
    char *path;
    qkv_writer *writer;
};
qkv_status cmd_file_open(struct cmd_file *f, const char *path, qkv_error *err);
qkv_status cmd_file_commit(struct cmd_file *f, qkv_error *err);
// Closes f->to after it has checked that all data was written.  f->writer, which is not yet
// committed, remains.
qkv_status cmd_file_finish(struct cmd_file *f, qkv_error *err);
// Removes an output that is not finished.  Does nothing after cmd_file_commit(), or if the struct
// is zeroed.
void cmd_file_abort(struct cmd_file *f);

// ---- texts (lines.c) ---------------------------------------------------------------------------
// A file that is read line by line (path "-": standard input). Lines end with \n or \r\n, and
// have at most QKV_LINE_BYTES bytes.
struct cmd_lines {
    int fd;
    const char *path;
    char *line;                 // the line that was read last
    int64_t number;             // its number; the first is 1
    int64_t size;               // bytes of the file, -1: not known
    char *buffer;               // [capacity] bytes that were read
    size_t capacity;            // bytes from begin to end are not yet lines
    size_t begin, end, scanned; // scanned: bytes after begin that contain no line end
    bool ended;                 // the file has no more bytes
    struct qkv_digest *digest;  // the bytes that were read are added to it; NULL: none
};
qkv_status cmd_lines_open(struct cmd_lines *l, const char *path, qkv_error *err);
// Reads the next line, which is valid until the next call and ends with NUL. At the end of the
// file, sets *bytes to -1. A longer line is QKV_ERR_LIMIT.
qkv_status cmd_lines_next(struct cmd_lines *l, int64_t *bytes, qkv_error *err);
// Sets *ready to true if the next line, or the end of the file, has arrived: cmd_lines_next() does
// not wait for the other end of a pipe. It reads what has arrived, which invalidates the line.
qkv_status cmd_lines_ready(struct cmd_lines *l, bool *ready, qkv_error *err);
// Reads at most `most` bytes, instead of lines. At the end of the file, sets *bytes to 0.
qkv_status cmd_lines_read(struct cmd_lines *l, char *to, size_t most, int64_t *bytes,
                          qkv_error *err);
void cmd_lines_close(struct cmd_lines *l);

struct cmd_texts {
    char **text;
    size_t *bytes;
    int64_t count, capacity;
    // cmd_texts_read(): number of texts that are operands; the file of the others, NULL: none
    int64_t operands;
    const char *file;
};
// appends a copy of the text
void cmd_texts_add(struct cmd_texts *t, const char *text, size_t bytes);
void cmd_texts_free(struct cmd_texts *t);
// Reads all texts of a command: its operands, then the lines of its input file, if it has one.
qkv_status cmd_texts_read(struct cmd_texts *t, int argc, char **argv, const char *file,
                          qkv_error *err);

// The texts of a command in chunks, so that the memory does not depend on the length of the input:
// the operands, then the lines of the input file, or of standard input if there are neither.
struct cmd_source {
    char **argv;
    int argc;
    const char *file;       // the input file; NULL: none
    struct cmd_lines lines; // its lines, if `open`
    bool open;
    int64_t at;      // number of operands that were read
    int64_t before;  // number of texts before the current chunk
    int64_t left;    // number of lines that are left to read; -1: all lines of the file
    int64_t total;   // number of texts; -1: not known
    qkv_error later; // error that follows the current chunk
};
qkv_status cmd_source_open(struct cmd_source *s, int argc, char **argv, const char *file,
                           qkv_error *err);
// Restricts a source that has only a file to `lines` lines, of which the first is line `first`,
// counted from 0, which begins at the byte `offset`.  `before` then counts the lines before them.
qkv_status cmd_source_range(struct cmd_source *s, int64_t offset, int64_t first, int64_t lines,
                            qkv_error *err);
// Replaces the texts of t, at first zeroed, by the next chunk; at the end t has no texts. A chunk
// ends where the next line has not arrived yet, so that a pipe that stays open gets its answers.
qkv_status cmd_source_next(struct cmd_source *s, struct cmd_texts *t, qkv_error *err);
void cmd_source_close(struct cmd_source *s); // accepts a zeroed struct
// If an error is about a text, and the text is a line of `file`, names the file and the line in the
// error; otherwise the number of the text, from 1, if there are several.  before: number of texts
// in earlier calls of the library; operands: number of texts that are operands.
void cmd_text_place(qkv_error *err, int64_t before, int64_t operands, const char *file);

#endif
