// SPDX-License-Identifier: MIT
// cmd_info.c: implements `qkv info`: describes a file or a model; without an operand, describes
// this machine and the default model.
#include "frame/arrays.h"
#include "frame/charts.h"
#include "index/index.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const diagrams[] = { "scaled", "heads", "layer", "model", "bare", NULL };
static struct {
    int diagram;
    int theme; // -1: the option is not given
    const char *output;
} o = { .diagram = -1, .theme = -1 };

static const struct opt opts[] = {
    OPT_CHOICE(
        0, "diagram", &o.diagram, diagrams, "NAME",
        "draw a block diagram from config.json, with the parts and sizes of the model: scaled "
        "(dot-product attention), heads, layer, model, or bare (X X^T X next to scaled)"),
    OPT_OUTPUT('o', "output", &o.output, "FILE",
               "file of the diagram: .svg or .png; '-' is standard output, which gets the SVG"),
    OPT_CHOICE(0, "theme", &o.theme, chart_themes, "NAME",
               "colors of the diagram: auto, light or dark"),
    OPT_END
};

// Writes a number with its digits in groups of three, such as "22,713,216".
static const char *grouped(char out[32], int64_t n)
{
    char digits[24];
    const int length = snprintf(digits, sizeof digits, "%" PRId64, n);
    int at = 0;
    for (int i = 0; i < length; i++) {
        if (i && digits[i - 1] != '-' && (length - i) % 3 == 0) out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = 0;
    return out;
}

static void json_member(const char *before, const char *key, const char *text)
{
    printf("%s\"%s\":", before, key);
    if (text)
        cmd_json_text(stdout, text, strlen(text));
    else
        fputs("null", stdout);
}

static bool same(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

// ---- this machine ------------------------------------------------------------------------------
// Returns the state of the CPU's tile instructions (AMX): in use, disabled by the variable QKV_ISA,
// refused by the operating system, or absent.
static const char *amx(void)
{
    if (strcmp(qkv_cpu_amx(), "present") != 0) return qkv_cpu_amx();
    return strcmp(qkv_isa(), "amx") ? "present, but not in use" : "in use";
}

// How this machine computes products in a precision. NULL: the machine does not support the
// precision.
struct products {
    const char *linear, *attention;
};

static struct products products(qkv_precision p)
{
    const float one = 1;
    const struct qkv_attention a = { .B = 1, .T = 1, .S = 1, .H = 1, .E = 1, .precision = p };
    struct products of = { NULL, qkv_attention_plan(&a).arithmetic };
    qkv_packed *handle = NULL;
    if (qkv_packed_open(&handle, &one, NULL, 1, 1, p) == QKV_OK)
        of.linear = qkv_packed_info(handle).arithmetic;
    qkv_packed_close(handle);
    return of;
}

static void precisions_json(void)
{
    fputs(",\"precisions\":[", stdout);
    for (int p = 0; qkv_precision_name((qkv_precision)p); p++) {
        const struct products of = products((qkv_precision)p);
        json_member(p ? ",{" : "{", "name", qkv_precision_name((qkv_precision)p));
        json_member(",", "linear", of.linear);
        json_member(",", "attention", of.attention);
        putchar('}');
    }
    putchar(']');
}

// Prints how this machine computes in each precision, such as "f32, f32-strict: float; bf16: bf16
// pairs". Precisions with the same arithmetic are listed together, in lines of at most 80 columns.
static void precisions_text(void)
{
    enum { INDENT = 11, WIDTH = 80 };
    int at = printf("precisions ");
    for (int p = 0; qkv_precision_name((qkv_precision)p);) {
        char item[256];
        const struct products of = products((qkv_precision)p);
        int n = snprintf(item, sizeof item, "%s", qkv_precision_name((qkv_precision)p));
        for (p++; qkv_precision_name((qkv_precision)p); p++) {
            const struct products next = products((qkv_precision)p);
            if (!same(next.linear, of.linear) || !same(next.attention, of.attention)) break;
            n += snprintf(item + n, sizeof item - (size_t)n, ", %s",
                          qkv_precision_name((qkv_precision)p));
        }
        n += snprintf(item + n, sizeof item - (size_t)n, ": %s", of.linear ? of.linear : "none");
        if (!same(of.linear, of.attention))
            n += snprintf(item + n, sizeof item - (size_t)n, " (attention %s)",
                          of.attention ? of.attention : "none");
        const bool last = !qkv_precision_name((qkv_precision)p);
        if (at > INDENT && at + 1 + n + !last > WIDTH) {
            printf("\n%*s", INDENT, "");
            at = INDENT;
        } else if (at > INDENT) {
            at += printf(" ");
        }
        at += printf("%s%s", item, last ? "\n" : ";");
    }
}

static void machine(void)
{
    const char *const name = qkv_cpu_name();
    char dir[CMD_PATH], why[512] = "", line[1800], number[32];
    qkv_error missing = { 0 };
    const bool found = qkv_model_find(dir, sizeof dir, why, sizeof why, NULL, &missing) == QKV_OK;
    const struct qkv_attention a = {
        .B = 1, .T = 4096, .S = 4096, .H = 8, .E = 64, .causal = true
    };
    const struct qkv_attention_plan p = qkv_attention_plan(&a);
    if (common.json) {
        printf("{\"version\":\"%s\"", qkv_version());
        json_member(",", "cpu", *name ? name : NULL);
        json_member(",", "amx", amx());
        printf(",\"isa\":\"%s\",\"isas\":[", qkv_isa());
        for (int i = 0; qkv_isa_supported(i); i++)
            printf("%s\"%s\"", i ? "," : "", qkv_isa_supported(i));
        printf("],\"threads\":%d", qkv_threads());
        precisions_json();
        json_member(",", "model", found ? dir : NULL);
        json_member(",", "why", found ? why : qkv_error_line(line, sizeof line, &missing));
        printf(",\"plan\":{\"kernel\":\"%s\",\"scratch\":%zu,\"tile_rows\":%" PRId64
               ",\"tile_keys\":%" PRId64 ",\"tiles\":%" PRId64 ",\"skipped\":%" PRId64 "}}\n",
               p.kernel, p.scratch, p.tile_rows, p.tile_keys, p.tiles, p.skipped);
        return;
    }
    printf("qkv        %s\n", qkv_version());
    if (*name) printf("CPU        %s\n", name);
    printf("AMX        %s\n", amx());
    printf("kernels    %s   (this machine supports:", qkv_isa());
    for (int i = 0; qkv_isa_supported(i); i++) printf(" %s", qkv_isa_supported(i));
    printf("; select with QKV_ISA)\nthreads    %d   (set by --threads or QKV_THREADS)\n",
           qkv_threads());
    precisions_text();
    if (found) {
        fputs("model      ", stdout);
        cmd_print_name(stdout, dir);
        printf("\n           %s\n", why);
    } else {
        printf("model      none: %s\n", qkv_error_line(line, sizeof line, &missing));
    }
    printf("example    causal attention, 4096 tokens, 8 heads of 64: %s kernel,\n"
           "           tiles of %" PRId64 " x %" PRId64 ", %s of ",
           p.kernel, p.tile_rows, p.tile_keys, grouped(number, p.skipped));
    printf("%s are skipped, scratch is %zu KiB per thread\n", grouped(number, p.tiles),
           p.scratch_thread >> 10);
}

// ---- a file ------------------------------------------------------------------------------------
static void tensors_json(const char *path, const qkv_tensors *t)
{
    int64_t parameters = 0;
    json_member("{", "file", path);
    fputs(",\"tensors\":[", stdout);
    for (int64_t i = 0; i < qkv_tensors_count(t); i++) {
        const struct qkv_tensor *one = qkv_tensors_at(t, i);
        json_member(i ? ",{" : "{", "name", one->name);
        printf(",\"dtype\":\"%s\",\"shape\":[", qkv_dtype_name(one->dtype));
        for (int k = 0; k < one->rank; k++) printf("%s%" PRId64, k ? "," : "", one->shape[k]);
        printf("],\"bytes\":%zu}", one->bytes);
        parameters += qkv_tensor_count(one);
    }
    printf("],\"parameters\":%" PRId64 "}\n", parameters);
}

static void tensors_text(const char *path, const qkv_tensors *t)
{
    char shape[SHAPE_TEXT], number[32];
    int64_t parameters = 0, bytes = 0, of[QKV_DTYPE_COUNT] = { 0 };
    const int64_t n = qkv_tensors_count(t);
    int name = 0;
    for (int64_t i = 0; i < n; i++) {
        const struct qkv_tensor *one = qkv_tensors_at(t, i);
        const int width = *one->name ? cmd_width(one->name, strlen(one->name)) : 7;
        if (width > name) name = width;
        parameters += qkv_tensor_count(one);
        bytes += (int64_t)one->bytes;
        of[one->dtype]++;
    }
    cmd_print_name(stdout, path);
    printf("\n%s tensor%s, ", grouped(number, n), n == 1 ? "" : "s");
    printf("%s numbers, ", grouped(number, parameters));
    printf("%s bytes (", grouped(number, bytes));
    for (int d = 0, first = 1; d < QKV_DTYPE_COUNT; d++)
        if (of[d]) {
            printf("%s%s x %" PRId64, first ? "" : ", ", qkv_dtype_name((qkv_dtype)d), of[d]);
            first = 0;
        }
    puts(")");
    const char *format = qkv_tensors_metadata(t, "format");
    if (format) {
        fputs("metadata format: ", stdout);
        cmd_print_name(stdout, format);
        putchar('\n');
    }
    if (n) putchar('\n');
    const int most = cmd_columns() - 26, width = name < most ? name : most < 12 ? 12 : most;
    for (int64_t i = 0; i < n; i++) {
        const struct qkv_tensor *one = qkv_tensors_at(t, i);
        cmd_print_cell(stdout, *one->name ? one->name : "(array)",
                       *one->name ? strlen(one->name) : 7, width, 0);
        printf("  %-5s %s\n", qkv_dtype_name(one->dtype),
               array_shape(shape, one->rank, one->shape));
    }
}

static qkv_status file(const char *path, qkv_error *err)
{
    qkv_tensors *t = NULL;
    const qkv_status status = array_open(&t, path, true, err);
    if (status) return status;
    (common.json ? tensors_json : tensors_text)(path, t);
    qkv_tensors_close(t);
    return QKV_OK;
}

static qkv_status tokenizer(const char *path, qkv_error *err)
{
    qkv_tokenizer *t = NULL;
    const qkv_status status = qkv_tokenizer_open(&t, path, err);
    if (status) return status;
    if (common.json) {
        json_member("{", "file", path);
        json_member(",", "tokenizer", qkv_tokenizer_kind(t));
        printf(",\"tokens\":%" PRId64 "}\n", qkv_tokenizer_size(t));
    } else {
        cmd_print_name(stdout, path);
        printf("\n%s tokenizer, %" PRId64 " tokens\n", qkv_tokenizer_kind(t),
               qkv_tokenizer_size(t));
    }
    qkv_tokenizer_close(t);
    return QKV_OK;
}

// ---- a model -----------------------------------------------------------------------------------
// What is printed about a model in addition to its weights.  A model folder need not have a
// tokenizer.
struct extras {
    qkv_embedder *embedder;
    qkv_tokenizer *own;
    const qkv_tokenizer *tokenizer;
    qkv_error no_tokenizer, no_embedder;
    const char *class_name, *needs; // as qkv_model_missing_head
    const qkv_model *model;
};
enum { LABELS = 8 }; // labels that the text names; it counts the others

static void model_json(const char *dir, const struct qkv_model_info *i, const struct extras *b)
{
    json_member("{", "model", i->name);
    json_member(",", "folder", dir);
    json_member(",", "family", i->family);
    printf(",\"layers\":%" PRId64 ",\"heads\":%" PRId64 ",\"kv_heads\":%" PRId64
           ",\"width\":%" PRId64 ",\"head_width\":%" PRId64 ",\"inner\":%" PRId64
           ",\"vocab\":%" PRId64 ",\"positions\":%" PRId64 ",\"types\":%" PRId64 ",\"causal\":%s",
           i->layers, i->heads, i->kv_heads, i->width, i->head_width, i->inner, i->vocab,
           i->positions, i->types, i->causal ? "true" : "false");
    if (i->decoder_layers) printf(",\"decoder_layers\":%" PRId64, i->decoder_layers);
    if (i->labels) printf(",\"labels\":%" PRId64, i->labels);
    if (b->class_name) {
        json_member(",\"missing_head\":{", "class", b->class_name);
        json_member(",", "needs", b->needs);
        putchar('}');
    }
    printf(",\"parameters\":%" PRId64 ",\"tensors\":%" PRId64 ",\"unused_tensors\":%" PRId64
           ",\"flops_token\":",
           i->parameters, i->tensors, i->unused_tensors);
    if (i->flops_token > 0)
        printf("%.0f", i->flops_token);
    else
        fputs("null", stdout);
    json_member(",", "precision", qkv_precision_name(i->precision));
    json_member(",", "arithmetic", i->arithmetic);
    json_member(",", "tokenizer", b->tokenizer ? qkv_tokenizer_kind(b->tokenizer) : NULL);
    if (b->embedder)
        printf(",\"embedding_width\":%" PRId64 ",\"max_length\":%" PRId64,
               qkv_embedder_width(b->embedder), qkv_embedder_max_length(b->embedder));
    puts("}");
}

static void labels_text(const struct qkv_model_info *i, const qkv_model *m)
{
    if (!i->labels) return;
    printf("labels      %" PRId64, i->labels);
    for (int64_t k = 0; k < i->labels && k < LABELS; k++) {
        const char *name = qkv_model_label(m, k);
        if (!name) break;
        fputs(k ? ", " : ": ", stdout);
        cmd_print_cell(stdout, name, strlen(name), 0, 0);
    }
    puts(i->labels > LABELS && qkv_model_label(m, LABELS) ? ", ..." : "");
}

static void model_text(const char *dir, const struct qkv_model_info *i, const struct extras *b)
{
    char number[32], line[1800];
    cmd_print_name(stdout, dir);
    putchar('\n');
    printf("family      %s%s\n", i->family, i->causal ? ", causal" : "");
    printf("layers      %" PRId64, i->layers);
    if (i->decoder_layers) printf(", decoder %" PRId64, i->decoder_layers);
    putchar('\n');
    printf("heads       %" PRId64 " of %" PRId64, i->heads, i->head_width);
    if (i->kv_heads != i->heads) printf(" with %" PRId64 " key/value heads", i->kv_heads);
    printf("\nwidth       %" PRId64 ", feed-forward %" PRId64 "\n", i->width, i->inner);
    printf("positions   %" PRId64 ", token types %" PRId64 "\n", i->positions, i->types);
    labels_text(i, b->model);
    printf("parameters  %s", grouped(number, i->parameters));
    printf(" in %" PRId64 " tensors", i->tensors);
    if (i->unused_tensors) printf(", %" PRId64 " of them unused", i->unused_tensors);
    if (b->class_name) {
        fputs("\nhead        none: ", stdout);
        fputs(b->needs ? "the head of " : "the file has no tensors of a supported head of ",
              stdout);
        cmd_print_cell(stdout, b->class_name, strlen(b->class_name), 0, 0);
        if (b->needs) printf(" is not supported, it needs %s", b->needs);
    }
    putchar('\n');
    if (i->flops_token > 0) // 0: none, or a recurrent model, which does not count them
        printf("work        %s FLOP per token in its linear layers\n",
               grouped(number, (int64_t)i->flops_token));
    printf("precision   %s: products of %s\n", qkv_precision_name(i->precision), i->arithmetic);
    if (b->tokenizer)
        printf("tokenizer   %s, %s tokens\n", qkv_tokenizer_kind(b->tokenizer),
               grouped(number, qkv_tokenizer_size(b->tokenizer)));
    else
        printf("tokenizer   could not be read: %s\n",
               qkv_error_line(line, sizeof line, &b->no_tokenizer));
    if (b->embedder)
        printf("embedding   %" PRId64 " numbers per text of at most %" PRId64 " tokens\n",
               qkv_embedder_width(b->embedder), qkv_embedder_max_length(b->embedder));
    else if (b->tokenizer)
        printf("embedding   not possible: %s\n",
               qkv_error_line(line, sizeof line, &b->no_embedder));
}

static qkv_status model(const char *dir, qkv_error *err)
{
    struct extras b = { 0 };
    qkv_model *m = NULL;
    const struct qkv_model_options options = { .precision = common.precision };
    const qkv_status status = qkv_model_open(&m, dir, &options, err);
    if (status) return status;
    const struct qkv_embedder_options how = { .model = options };
    if (qkv_embedder_open(&b.embedder, dir, &how, &b.no_embedder) == QKV_OK)
        b.tokenizer = qkv_embedder_tokenizer(b.embedder);
    else if (qkv_tokenizer_open(&b.own, dir, &b.no_tokenizer) == QKV_OK)
        b.tokenizer = b.own;
    const struct qkv_model_info i = qkv_model_info(m);
    b.class_name = qkv_model_missing_head(m, &b.needs);
    b.model = m;
    (common.json ? model_json : model_text)(dir, &i, &b);
    // a file that memory does not suffice to read is not described
    if (b.no_tokenizer.status == QKV_ERR_LIMIT)
        *err = b.no_tokenizer;
    else if (b.no_embedder.status == QKV_ERR_LIMIT)
        *err = b.no_embedder;
    qkv_tokenizer_close(b.own);
    qkv_embedder_close(b.embedder);
    qkv_model_close(m);
    return err->status;
}

static bool exists(const char *dir, const char *name)
{
    char path[CMD_PATH];
    struct stat st;
    const int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    return n > 0 && n < (int)sizeof path && stat(path, &st) == 0;
}

// Returns true if the folder contains a tokenizer file.
static bool has_tokenizer(const char *dir)
{
    const char *name;
    bool has = false;
    for (int i = 0; !has && (name = qkv_tokenizer_file(i, NULL)) != NULL; i++)
        has = exists(dir, name);
    return has;
}

// Returns true if a tokenizer file has this name.
static bool names_tokenizer(const char *name)
{
    const char *known;
    bool is = false;
    for (int i = 0; !is && (known = qkv_tokenizer_file(i, NULL)) != NULL; i++)
        is = !strcmp(name, known);
    return is;
}

// Returns true if the file contains a tokenizer, also if its name is another one, such as
// words.json.
static bool is_tokenizer(const char *path)
{
    qkv_tokenizer *t = NULL;
    if (!cmd_ends_with(path, ".json") && !cmd_ends_with(path, ".model") &&
        !cmd_ends_with(path, ".spm"))
        return false;
    const bool is = qkv_tokenizer_open(&t, path, NULL) == QKV_OK;
    qkv_tokenizer_close(t);
    return is;
}

// Draws the diagram o.diagram of a model, and prints the name of the file.
static void diagram(const char *dir, qkv_error *err)
{
    struct qkv_structure m;
    struct stat st;
    char found[CMD_PATH];
    if (common.json) {
        cmd_error(err, QKV_ERR_USAGE, NULL, "--diagram cannot be combined with --json");
        return;
    }
    if (!o.output) {
        cmd_error(err, QKV_ERR_USAGE, NULL, "--diagram requires -o FILE.svg or -o FILE.png");
        return;
    }
    if (!dir && cmd_model_find(found, err)) return;
    if (!dir) dir = found;
    if (stat(dir, &st) == 0 && !S_ISDIR(st.st_mode)) {
        cmd_error(err, QKV_ERR_USAGE, dir, "--diagram: expected a model folder, found a file");
        return;
    }
    if (cmd_output_stdout(&o.output, err) || qkv_structure_read(&m, dir, err)) return;
    if (cmd_diagram_file(&m, diagrams[o.diagram], o.output,
                         o.theme < 0 ? QKV_THEME_AUTO : (enum qkv_view_theme)o.theme, err) ||
        cmd_is_stdout(o.output))
        return;
    cmd_print_name(stdout, o.output);
    putchar('\n');
}

static int run_info(int argc, char **argv)
{
    qkv_error err = { 0 };
    struct stat st;
    char folder[CMD_PATH];
    const char *path = argc ? argv[0] : common.model;
    if (cmd_model_path(&path, folder, &err)) return cmd_fail(&err);
    if (argc && common.model) {
        cmd_error(&err, QKV_ERR_USAGE, NULL, "an operand cannot be combined with --model");
    } else if (o.diagram >= 0) {
        diagram(path, &err);
    } else if (o.output || o.theme >= 0) {
        cmd_error(&err, QKV_ERR_USAGE, NULL, "%s requires --diagram", o.output ? "-o" : "--theme");
    } else if (!path) {
        machine();
    } else if (strcmp(path, "-") && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        const bool weights = exists(path, "model.safetensors") ||
                             exists(path, "model.safetensors.index.json") ||
                             exists(path, "model.qkv-int8.safetensors") ||
                             exists(path, "model.qkv-int8.safetensors.index.json");
        // model.bin is a checkpoint of llama2.c, which contains its sizes
        const bool described = exists(path, "config.json") || exists(path, "model.bin");
        if (!described && !weights && has_tokenizer(path))
            tokenizer(path, &err);
        else if (described || !weights)
            model(path, &err);
        else
            file(path, &err);
    } else if (cmd_ends_with(path, ".qkvi")) {
        index_describe(path, &err);
    } else {
        const char *name = strrchr(path, '/');
        if (names_tokenizer(name ? name + 1 : path) || is_tokenizer(path))
            tokenizer(path, &err);
        else
            file(path, &err);
    }
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_info = {
    .name = "info",
    .brief = "describe a file, a model or this machine",
    .usage = "[FILE|DIR]\n[DIR] --diagram NAME -o FILE",
    .about = "Prints for a .safetensors or .npy file or the index of a sharded model: its tensors. For a file of a tokenizer, or a folder with nothing else: its kind and tokens. For an index of texts (.qkvi): its passages, vectors and model. For a model folder: family, sizes, parameters, an output head that is missing or not supported, work per token and tokenizer. Without an operand: the CPU, its kernels and threads, and which model is used by default, and why. --diagram draws what the model consists of: scaled dot-product attention, multi-head attention, one layer, the whole model, or bare attention next to a head.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_MODEL | USES_JSON | USES_OUTPUT | USES_PROCESSES,
    .max_args = 1,
    .examples = {
        { "qkv info", "CPU, kernels, threads, default model" },
        { "qkv info models/all-MiniLM-L6-v2", "layers, heads and parameters of a model" },
        { "qkv info models/dates --diagram model -o dates.svg", "encoder, decoder and their parts" },
        { "qkv info docs.qkvi", "passages, vectors and model of an index" },
        { "qkv info --json x.npy", "dtype and shape of an array, as JSON" },
    },
    .run = run_info,
};
