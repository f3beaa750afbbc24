// SPDX-License-Identifier: MIT
// options.c: parses the command line according to a table of options. Options that the table does
// not have are errors.
#include "frame/cmd.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct cmd_common common;
static int64_t threads = 0;
static const char *precision;
static struct cmd_words ablate;

static const struct opt opt_model = OPT_INPUT(
    'm', "model", &common.model, "DIR",
    "model folder, with config.json and model.safetensors, or a name: org/name[@revision] of a "
    "model that 'qkv pull' downloaded, or of a folder in QKV_MODELS (default: the folder that "
    "QKV_MODEL names, or else the first installed model that supports the command; 'qkv info' "
    "prints it)");
static const struct opt opt_threads =
    OPT_INT(0, "threads", &threads, 0, QKV_THREADS_MAX, "N",
            "number of threads; 0: one for each available CPU (default: QKV_THREADS if it is set, "
            "otherwise 0); results do not depend on it");
static const struct opt opt_precision = OPT_TEXT(
    0, "precision", &precision, "P",
    "precision of matrix products: f32 (the default), f32-strict, f32-fast, bf16, f16, int8");
static const struct opt opt_ablate =
    OPT_WORDS(0, "ablate", &ablate, "HEADS",
              "replace the output of heads: L3.H5=zero (replace by 0), =mean (by the head's mean "
              "over the text), =uniform (by the output for uniform attention weights); H*: all "
              "heads of a layer; enc., dec. or cross. before L in encoder-decoders; several heads "
              "are separated by commas, or the option is repeated");
static const struct opt opt_force =
    OPT_FLAG(0, "force", &common.force, "replace the output file if it exists");
static const struct opt opt_json =
    OPT_FLAG(0, "json", &common.json, "print output on stdout and errors on stderr as JSON");
static const struct opt opt_quiet =
    OPT_FLAG('q', "quiet", &common.quiet, "print no notes and no progress");
static const struct opt opt_help = OPT_FLAG('h', "help", &common.help, "print this help");

void cmd_all_options(const struct cmd *c, struct opt *out)
{
    int n = 0;
    for (const struct opt *o = c->opts; o && o->kind && n < OPTS_MAX - 9; o++) {
        out[n] = *o;
        if (o->complete) o->complete(&out[n]);
        n++;
    }
    out[n++] = (struct opt)OPT_GROUP("Common options");
    if (c->uses & USES_MODEL) out[n++] = opt_model;
    if (c->uses & USES_THREADS) out[n++] = opt_threads;
    if (c->uses & USES_PRECISION) out[n++] = opt_precision;
    if (c->uses & USES_ABLATE) out[n++] = opt_ablate;
    if (c->uses & USES_OUTPUT) out[n++] = opt_force;
    if (c->uses & USES_JSON) out[n++] = opt_json;
    out[n] = opt_quiet;
    for (int i = 0; i < n; i++) // the command itself may use the letter
        if (out[i].kind != OPT_KIND_GROUP && out[i].letter == opt_quiet.letter) out[n].letter = 0;
    n++;
    out[n++] = opt_help;
    out[n] = (struct opt)OPT_END;
}

// ---- numbers -----------------------------------------------------------------------------------
static const char *digits(const char *p)
{
    while (*p >= '0' && *p <= '9') p++;
    return p;
}

bool cmd_parse_int(const char *text, int64_t *out)
{
    const char *p = text + (*text == '-');
    const char *end = digits(p);
    if (end == p || *end || (*p == '0' && end > p + 1)) return false;
    errno = 0;
    const long long v = strtoll(text, NULL, 10);
    if (errno) return false;
    *out = v;
    return true;
}

// Returns true if a text has the form of a number that cmd_parse_real describes.
static bool is_real(const char *text)
{
    const char *p = text + (*text == '-'), *start = p;
    p = digits(p);
    // a number has a digit before or after the point: .5, 5. and 0.5 are valid
    int64_t seen = p - start;
    if (*p == '.') {
        start = ++p;
        p = digits(p);
        seen += p - start;
    }
    if (!seen) return false;
    if (*p == 'e' || *p == 'E') {
        p++;
        start = p += *p == '+' || *p == '-';
        if ((p = digits(p)) == start) return false;
    }
    return !*p;
}

bool cmd_parse_real(const char *text, double *out)
{
    if (!is_real(text)) return false;
    // strtod() expects a decimal point, since the program never sets LC_NUMERIC
    const double v = strtod(text, NULL);
    if (!isfinite((float)v)) return false;
    *out = v;
    return true;
}

qkv_status cmd_parse_ints(const char *option, const char *text, int64_t min, int64_t max,
                          int64_t **out, int64_t *count, qkv_error *err)
{
    int64_t n = 1;
    for (const char *p = text; *p; p++) n += *p == ',';
    int64_t *v = cmd_alloc((size_t)n, sizeof *v);
    char word[32];
    *count = 0;
    for (const char *p = text;; p++) {
        const size_t bytes = strcspn(p, ",");
        snprintf(word, sizeof word, "%.*s", (int)(bytes < 31 ? bytes : 31), p);
        if (bytes > 30 || !cmd_parse_int(word, &v[*count]) || v[*count] < min || v[*count] > max) {
            free(v);
            return cmd_error(
                err, QKV_ERR_USAGE, NULL,
                "%s: expected numbers from %lld to %lld separated by commas, found '%s'", option,
                (long long)min, (long long)max, word);
        }
        ++*count;
        p += bytes;
        if (!*p) break;
    }
    *out = v;
    return QKV_OK;
}

// ---- names -------------------------------------------------------------------------------------
// Returns the number of edits that turn a into b. An edit inserts, deletes or replaces a character,
// or swaps two neighbors. a and b are shorter than 32 bytes.
static int distance(const char *a, const char *b)
{
    const size_t n = strlen(a), m = strlen(b);
    int d[33][33];
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            if (!i || !j) {
                d[i][j] = (int)(i + j);
                continue;
            }
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[n][m];
}

const char *cmd_nearest(const char *word, const char *const *names)
{
    const size_t n = strlen(word);
    if (n > 31 || !n) return NULL;
    const char *nearest = NULL;
    int best = n <= 2 ? 1 : n <= 5 ? 2 : 3;
    for (; *names; names++) {
        if (strlen(*names) > 31) continue;
        const int d = distance(word, *names);
        if (d <= best && (d < best || !nearest)) {
            best = d;
            nearest = *names;
        }
        if (!nearest && n >= 3 && !strncmp(word, *names, n)) nearest = *names;
    }
    return nearest;
}

// ---- the command line --------------------------------------------------------------------------
static const struct opt *by_name(const struct opt *opts, const char *name, size_t bytes)
{
    for (; opts->kind; opts++)
        if (opts->kind != OPT_KIND_GROUP && strlen(opts->name) == bytes &&
            !memcmp(opts->name, name, bytes))
            return opts;
    return NULL;
}

static const struct opt *by_letter(const struct opt *opts, char letter)
{
    for (; opts->kind; opts++)
        if (opts->kind != OPT_KIND_GROUP && opts->letter == letter) return opts;
    return NULL;
}

static qkv_status unknown(const struct cmd *c, const struct opt *opts, const char *arg,
                          qkv_error *err)
{
    const char *names[OPTS_MAX];
    char word[40];
    int n = 0;
    for (; opts->kind; opts++)
        if (opts->kind != OPT_KIND_GROUP) names[n++] = opts->name;
    names[n] = NULL;
    const char *p = arg + strspn(arg, "-");
    snprintf(word, sizeof word, "%.*s", (int)strcspn(p, "="), p);
    const char *near = cmd_nearest(word, names);
    if (near)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "unknown option '%.200s' of %s; did you mean '--%s'?", arg, c->name, near);
    return cmd_error(err, QKV_ERR_USAGE, NULL,
                     "unknown option '%.200s' of %s, 'qkv %s --help' lists all options", arg,
                     c->name, c->name);
}

// Stores the value of an option. label: the option as the user wrote it, for messages.
static qkv_status set(const struct opt *o, const char *label, const char *value, qkv_error *err)
{
    switch (o->kind) {
    case OPT_KIND_FLAG: *o->at.flag = true; return QKV_OK;
    case OPT_KIND_TEXT:
    case OPT_KIND_INPUT:
    case OPT_KIND_OUTPUT: *o->at.text = value; return QKV_OK;
    case OPT_KIND_WORDS: {
        struct cmd_words *w = o->at.words;
        w->text = cmd_grow(w->text, (size_t)w->count + 1, sizeof *w->text);
        w->text[w->count++] = value;
        return QKV_OK;
    }
    case OPT_KIND_INT: {
        int64_t v;
        if (!cmd_parse_int(value, &v) || v < o->min || v > o->max)
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "%s: number out of range, expected %lld to %lld, found '%.100s'",
                             label, (long long)o->min, (long long)o->max, value);
        *o->at.integer = v;
        return QKV_OK;
    }
    case OPT_KIND_REAL: {
        double v;
        if (!cmd_parse_real(value, &v))
            return cmd_error(err, QKV_ERR_USAGE, NULL, "%s: expected a number %s, found '%.100s'",
                             label, is_real(value) ? "between -3.4e38 and 3.4e38" : "such as 0.5",
                             value);
        *o->at.real = v;
        return QKV_OK;
    }
    case OPT_KIND_CHOICE: {
        char all[256] = "";
        for (int i = 0; o->choices[i]; i++) {
            if (!strcmp(o->choices[i], value)) {
                *o->at.choice = i;
                return QKV_OK;
            }
            const size_t used = strlen(all);
            snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", o->choices[i]);
        }
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "%s: unknown value, expected one of %s, found '%.100s'", label, all,
                         value);
    }
    default:
        return cmd_error(err, QKV_ERR_INTERNAL, NULL,
                         "option '%s' has an unknown kind, this is a bug in qkv", label);
    }
}

// Returns true if the next argument can be the value of an option. "-" and "-5" can; "--force" and
// "-o" cannot, since the user has probably forgotten the value.
static bool is_value(const char *arg)
{
    return arg && (arg[0] != '-' || !arg[1] || isdigit((unsigned char)arg[1]) || arg[1] == '.');
}

// Parses the option at argv[*i].  If its value is in the next argument, increments *i.
static qkv_status parse_option(const struct cmd *c, const struct opt *opts, bool *seen, int argc,
                               char **argv, int *i, qkv_error *err)
{
    const char *arg = argv[*i], *value = NULL;
    const struct opt *o;
    char label[48];
    if (arg[1] == '-') {
        const size_t bytes = strcspn(arg + 2, "=");
        o = by_name(opts, arg + 2, bytes);
        if (arg[2 + bytes]) value = arg + 3 + bytes;
    } else {
        o = by_letter(opts, arg[1]);
        if (o && arg[2]) value = arg + 2 + (arg[2] == '=');
    }
    if (!o) return unknown(c, opts, arg, err);
    snprintf(label, sizeof label, arg[1] == '-' ? "--%s" : "-%.1s",
             arg[1] == '-' ? o->name : arg + 1);
    if (seen[o - opts] && o->kind != OPT_KIND_WORDS)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "option %s occurs twice, expected once", label);
    seen[o - opts] = true;
    if (o->kind == OPT_KIND_FLAG) {
        if (value)
            return cmd_error(err, QKV_ERR_USAGE, NULL, "option %s accepts no value, found '%.100s'",
                             label, value);
    } else {
        if (!value && *i + 1 < argc && is_value(argv[*i + 1])) value = argv[++*i];
        if (!value || !*value)
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "option %s: value is missing, expected %s, found %s", label, o->value,
                             value           ? "an empty value"
                             : *i + 1 < argc ? argv[*i + 1]
                                             : "the end of the command line");
    }
    return set(o, label, value, err);
}

// Parses the heads of all --ablate options into one list.
static qkv_status read_ablations(qkv_error *err)
{
    for (int64_t i = 0; i < ablate.count; i++)
        for (const char *p = ablate.text[i];; p++) {
            const size_t bytes = strcspn(p, ",");
            qkv_error own = { 0 };
            common.ablate =
                cmd_grow(common.ablate, (size_t)common.ablations + 1, sizeof *common.ablate);
            const qkv_status status =
                qkv_ablation_parse(&common.ablate[common.ablations], p, bytes, &own);
            if (status) return cmd_error(err, status, NULL, "--ablate: %s", own.text);
            common.ablations++;
            p += bytes;
            if (!*p) break;
        }
    return QKV_OK;
}

struct qkv_model_options cmd_model_options(void)
{
    return (struct qkv_model_options){ .precision = common.precision,
                                       .ablate = common.ablate,
                                       .ablations = common.ablations };
}

char *cmd_ablated(char *out, size_t size)
{
    size_t at = 0;
    out[0] = 0;
    for (int64_t i = 0; i < common.ablations; i++) {
        char name[48];
        qkv_ablation_name(name, sizeof name, &common.ablate[i]);
        if (at + strlen(name) + 5 > size) {
            snprintf(out + at, size - at, "...");
            break;
        }
        at += (size_t)snprintf(out + at, size - at, "%s%s", i ? "," : "", name);
    }
    return out;
}

void cmd_json_ablated(FILE *to)
{
    for (int64_t i = 0; i < common.ablations; i++) {
        char name[48];
        fprintf(to, "%s\"%s\"", i ? "," : ",\"ablate\":[",
                qkv_ablation_name(name, sizeof name, &common.ablate[i]));
    }
    if (common.ablations) fputc(']', to);
}

void cmd_json_computed(FILE *to)
{
    if (common.found[0]) {
        fputs("\"model\":", to);
        cmd_json_text(to, common.found, strlen(common.found));
        fputc(',', to);
    }
    fprintf(to, "\"precision\":\"%s\"", qkv_precision_name(common.precision));
    cmd_json_ablated(to);
}

static qkv_status apply_common(qkv_error *err)
{
    if (precision && !qkv_precision_parse(&common.precision, precision)) {
        char all[128] = "";
        for (int i = 0; qkv_precision_name((qkv_precision)i); i++) {
            const size_t used = strlen(all);
            snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "",
                     qkv_precision_name((qkv_precision)i));
        }
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--precision: unknown value, expected one of %s, found '%.100s'", all,
                         precision);
    }
    if (threads && qkv_threads_set((int)threads))
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--threads: invalid number of threads, expected 0 to %d, found %lld",
                         QKV_THREADS_MAX, (long long)threads);
    return read_ablations(err);
}

// Adds the files that the command line names to the inputs and outputs of the command.
static qkv_status add_files(const struct cmd *c, const struct opt *opts, const bool *seen,
                            int operands, char **argv, qkv_error *err)
{
    qkv_status status = QKV_OK;
    for (int i = 0; (c->uses & READS_OPERANDS) && i < operands && !status; i++)
        status = cmd_input_add(argv[i], err);
    for (int i = 0; opts[i].kind && !status; i++)
        if (seen[i] && opts[i].kind == OPT_KIND_INPUT)
            status = cmd_input_add(*opts[i].at.text, err);
        else if (seen[i] && opts[i].kind == OPT_KIND_OUTPUT && strcmp(*opts[i].at.text, "-") != 0)
            status = cmd_output_add(*opts[i].at.text, err);
    return status;
}

static struct opt all[OPTS_MAX]; // the options of the command
static bool given[OPTS_MAX];     // which of them are given

const char *cmd_option_besides(const char *const *names)
{
    for (int i = 0; i < OPTS_MAX; i++) {
        bool named = !given[i];
        for (int k = 0; names[k] && !named; k++) named = !strcmp(all[i].name, names[k]);
        if (!named) return all[i].name;
    }
    return NULL;
}

qkv_status cmd_options(const struct cmd *c, int argc, char **argv, int *operands, qkv_error *err)
{
    int n = 0;
    cmd_all_options(c, all);
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        const bool word =
            (c->uses & SIGNED_WORDS) && arg[0] == '-' && arg[1] != '-' && arg[1] && arg[2];
        if (arg[0] != '-' || !arg[1] || word) { // the argument is an operand; "-" is an operand too
            argv[n++] = argv[i];
        } else if (!strcmp(arg, "--")) {
            while (++i < argc) argv[n++] = argv[i];
        } else {
            const qkv_status status = parse_option(c, all, given, argc, argv, &i, err);
            if (status) return status;
        }
    }
    *operands = n;
    if (common.help) return QKV_OK;
    const int usage = (int)strcspn(c->usage, "\n"); // length of the first line of the usage
    if (n < c->min_args)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "%s: too few operands, expected 'qkv %s %.*s'",
                         c->name, c->name, usage, c->usage);
    if (c->max_args >= 0 && n > c->max_args)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "%s: unexpected operand '%.100s', expected 'qkv %s %.*s'", c->name,
                         argv[c->max_args], c->name, usage, c->usage);
    const qkv_status status = add_files(c, all, given, n, argv, err);
    return status ? status : apply_common(err);
}

void cmd_options_free(void)
{
    for (const struct opt *o = all; o->kind; o++) {
        if (o->kind != OPT_KIND_WORDS) continue;
        free(o->at.words->text);
        *o->at.words = (struct cmd_words){ NULL, 0 };
    }
    free(common.ablate);
    common.ablate = NULL;
    common.ablations = 0;
}
